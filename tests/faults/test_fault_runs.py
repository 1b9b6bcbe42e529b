"""Fault injection: every fault that a run has to survive.

Each try ends in the table of an undisturbed run or, where that is allowed, in a clear error: an exit code of the
documentation and no traceback. After each try no temporary file may be left by a run that ended by itself, no loose
record by one that was completed, and no task may have two records. What a killed run has recorded may not change later.

``--fault-factor N`` multiplies the numbers of kills and damages; ``--fault-seed`` draws others.
"""

import contextlib
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from command_line import Bench, Command, children, claims
from folders import HEBB
from local_server import served

from opauc_bench.results.record import Record, record_of_line, record_to_line
from opauc_bench.results.store import Store
from opauc_bench.runner.execute import LocalExecutor

pytestmark = pytest.mark.faults

# It is slow enough to be killed in the middle of a task.
LEARNER = (
    HEBB
    + """
import time


class Paused(OnData):
    def misbehave(self):
        time.sleep(0.02)
"""
)

CATALOGUE = """
datasets:
  own:
    title: Made-up rows
    format: svmlight
    files: [{{name: own.svm, sha256: {sha256}, confirmed: {confirmed}, urls: ["http://127.0.0.1:9/own/own.svm"]}}]
    n_samples: 90
    n_features: 4
    n_positive: 30
    positive: [1]
    scaling: minmax
"""

EXPERIMENT = """
title: An experiment for fault injection
catalogue: catalogue.yaml
datasets: [own, wine]
learners:
  - "mine.py:Paused"
  - uni_log
  - {estimator: sklearn.linear_model.LogisticRegression, grid: {C: [0.01, 1]}}
grids: {eta: {pow2: [-8, 0, 4]}}
protocol: {trials: 2, folds: 3, inner_folds: 3, keep_scores: true, metrics: [average_precision, brier]}
"""

RIGHT, CLEAR = "right table", "clear error"
Ended = subprocess.CompletedProcess


class Experiment:
    """A folder with an experiment, a mirror and a cache, and the table of an undisturbed run."""

    def __init__(self, folder: Path, environment: dict[str, str], seed: int):
        self.folder, self.random = folder, random.Random(seed)
        self.environment = environment | {"OPAUC_BENCH_CACHE": str(folder / "cache")}
        rows = np.random.default_rng(0).uniform(-1, 1, (90, 4)).round(3)
        lines = [
            f"{1 if i % 3 == 0 else -1} " + " ".join(f"{j + 1}:{v}" for j, v in enumerate(row))
            for i, row in enumerate(rows)
        ]
        (self.mirror / "own").mkdir(parents=True)
        (self.mirror / "own/own.svm").write_text("\n".join(lines) + "\n")
        (folder / "mine.py").write_text(LEARNER)
        (folder / "faults.yaml").write_text(EXPERIMENT)
        self.write_catalogue()
        ended = self.run_here("undisturbed")
        assert ended.returncode == 0, ended.stderr
        self.table = (folder / "undisturbed/folds.csv").read_bytes()

    @property
    def mirror(self) -> Path:
        return self.folder / "mirror"

    def write_catalogue(self, sha256: str = "null") -> None:
        confirmed = str(sha256 != "null").lower()
        (self.folder / "catalogue.yaml").write_text(CATALOGUE.format(sha256=sha256, confirmed=confirmed))

    def new(self, name: str) -> Path:
        """The path of a results folder that does not exist."""
        shutil.rmtree(self.folder / name, ignore_errors=True)
        return self.folder / name

    def run_here(self, out: Path | str, mirror: Path | str | None = None) -> Ended:
        """Run the experiment inside this process."""
        options = ("--mirror", mirror or self.mirror, "--jobs", 2, "--out", out)
        return Command(self.environment)("run", "faults.yaml", *options, cwd=self.folder)

    def start(self, out: Path | str, *options, prefix=(), **variables: str) -> subprocess.Popen:
        """Run the experiment in its own process, with worker processes."""
        options = ("--mirror", self.mirror, "--jobs", 2, "--out", out, *options)
        return Bench(self.environment | variables).start("run", "faults.yaml", *options, cwd=self.folder, prefix=prefix)

    def run(self, out: Path | str, *options, prefix=(), **variables: str) -> Ended:
        """Run the experiment in its own process, to its end."""
        process = self.start(out, *options, prefix=prefix, **variables)
        try:
            out, err = process.communicate(timeout=300)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        return Ended(process.args, process.returncode, out, err)

    def judge(self, ended: Ended, folder: Path, errors_allowed: bool = False) -> str:
        """Check the outcome of a try: the right table or, where it is allowed, a clear error."""
        path = folder / "folds.csv"
        right = ended.returncode == 0 and path.exists() and path.read_bytes() == self.table
        assert right or (errors_allowed and is_clear_error(ended)), (ended.returncode, ended.stderr[-2000:])
        assert not list(folder.rglob(".*.tmp")), "temporary files are left"
        assert ended.returncode or not (folder / "running").exists(), "loose records are left"
        places = Counter((r.dataset, r.column, r.trial, r.fold) for r in all_records(folder))
        assert not [place for place, count in places.items() if count > 1], "a task has two records"
        return RIGHT if right else CLEAR


def is_clear_error(ended: Ended) -> bool:
    """Whether a command ended with an error of the documentation."""
    said = "error:" in ended.stderr or "N/A" in ended.stdout
    return ended.returncode in (1, 2, 3) and "Traceback" not in ended.stderr and said


def all_records(folder: Path) -> Iterator[Record]:
    """All intact records in files; identical lines are one record."""
    packed = [line for path in folder.glob("records/*.jsonl") for line in path.read_bytes().splitlines()]
    loose = [path.read_bytes().rstrip(b"\n") for path in folder.glob("running/*.json")]
    for text in dict.fromkeys([*packed, *loose]):
        with contextlib.suppress(ValueError):
            yield record_of_line(text)


def finished(folder: Path) -> dict[str, bytes]:
    """The text of every record by id, without those of failed tasks, which may be tried again."""
    return {id: record_to_line(record) for id, record in Store(folder).read().items() if record.ok}


def require_kept(folder: Path, before: dict[str, bytes]) -> None:
    """Require that a run has neither lost nor computed again the records of ``before``."""
    after = finished(folder)
    assert [id for id, text in before.items() if after.get(id) != text] == []


@pytest.fixture(scope="module")
def experiment(environment, tmp_path_factory, request) -> Experiment:
    return Experiment(tmp_path_factory.mktemp("faults"), environment, request.config.getoption("--fault-seed"))


@pytest.fixture(scope="module")
def factor(request) -> int:
    return request.config.getoption("--fault-factor")


# ---------------------------------------------------------------------- kills


def wait_for(process: subprocess.Popen, condition: Callable[[], bool]) -> None:
    """Wait for a state of files, or for the end of the process, or for a minute."""
    end = time.monotonic() + 60
    while process.poll() is None and not condition() and time.monotonic() < end:
        time.sleep(0.001)


def test_run_killed_at_random_moments_and_started_again_gives_the_same_table(experiment, factor):
    """``kill -9`` of the runner, or of one of its processes, while they start and while they work."""
    folder, n_kills = experiment.new("killed"), 0
    while n_kills < 8 * factor:
        before = finished(folder)
        process = experiment.start(folder, "--retry-failed")
        if experiment.random.random() < 0.75:  # the others are killed while they start
            wait_for(process, lambda process=process: set(claims(folder)) & set(children(process.pid)))
        while process.poll() is None and n_kills < 8 * factor:
            time.sleep(experiment.random.uniform(0.05, 1.2))
            runner, *workers = process.pid, *children(process.pid)
            victim = experiment.random.choice(workers or [runner]) if experiment.random.random() < 0.5 else runner
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
                n_kills += 1
        process.communicate()
        require_kept(folder, before)
        if process.returncode == 0:
            experiment.judge(Ended((), 0, "", ""), folder)
            if n_kills < 8 * factor:
                experiment.new("killed")
    before = finished(folder)
    ended = experiment.run(folder, "--retry-failed")
    require_kept(folder, before)
    experiment.judge(ended, folder)


def test_run_killed_while_it_packs_loses_no_record(experiment, factor):
    for _ in range(2 * factor):
        folder = experiment.new("packed")
        process = experiment.start(folder)
        wait_for(process, lambda folder=folder: any(folder.glob("records/*")))
        time.sleep(experiment.random.uniform(0, 0.02))
        process.kill()
        process.communicate()
        before = finished(folder)
        ended = experiment.run_here(folder)
        require_kept(folder, before)
        experiment.judge(ended, folder)


def test_one_of_two_runs_in_one_folder_is_refused(experiment, factor):
    for _ in range(factor):
        folder = experiment.new("shared")
        runs = [experiment.start(folder) for _ in range(2)]
        ends = [Ended(run.args, run.wait(), *run.communicate()) for run in runs]
        assert sorted(experiment.judge(ended, folder, errors_allowed=True) for ended in ends) == [CLEAR, RIGHT]


def test_clock_that_is_set_back_changes_nothing(experiment):
    """Killed in the middle; then the clock is a day behind, and all files are from next year."""
    site, folder = experiment.folder / "site", experiment.new("clock")
    site.mkdir()
    (site / "sitecustomize.py").write_text("import time\nnow = time.time\ntime.time = lambda: now() - 86400\n")
    process = experiment.start(folder)
    wait_for(process, lambda: any(folder.glob("running/*.json")))
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    later = time.time() + 365 * 86400
    for path in (*folder.rglob("*"), *(experiment.folder / "cache").rglob("*")):
        with contextlib.suppress(FileNotFoundError):
            os.utime(path, (later, later))
    path = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")]))
    experiment.judge(experiment.run(folder, PYTHONPATH=path), folder)


# ---------------------------------------------------------------------- disks and surroundings


@pytest.mark.parametrize("fault", ["full disk", "read-only folder"])
def test_results_on_a_disk_that_cannot_be_written_are_right_or_a_clear_error(experiment, factor, fault):
    for _ in range(2 * factor if fault == "full disk" else 1):
        kilobytes = experiment.random.randrange(4, 300) if fault == "full disk" else 4
        kept = experiment.new("kept")  # the mount is gone with the command
        experiment.new("mounted").mkdir()
        mount = f"mount -t tmpfs -o size={kilobytes}k none mounted"
        mount += " && mount -o remount,ro mounted" if fault == "read-only folder" else ""
        script = f'{mount} && {{ "$@"; code=$?; cp -r mounted {kept.name}; exit $code; }}'
        prefix = ["unshare", "--map-root-user", "--mount", "sh", "-c", script, "sh"]
        if subprocess.run([*prefix, "true"], cwd=experiment.folder, capture_output=True).returncode:
            pytest.skip("this machine allows no mounts")
        experiment.new("kept")
        ended = experiment.run("mounted/results", prefix=prefix)
        experiment.judge(ended, kept / "results", errors_allowed=True)


@pytest.mark.parametrize(
    "variables",
    [
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": ""},
        {"HOME": "/nonexistent/home", "XDG_CACHE_HOME": ""},
    ],
    ids=["locale C", "no home directory"],
)
def test_run_does_not_depend_on_locale_or_home_directory(experiment, variables):
    folder = experiment.new("elsewhere")
    experiment.judge(experiment.run(folder, **variables), folder)


# ---------------------------------------------------------------------- damaged files


def test_worker_that_grows_is_replaced_without_a_warning():
    executor = LocalExecutor(1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        pool = executor._open(1)
        workers = {future.result() for future in [pool.submit(grow) for _ in range(3)]}
        executor.stop()
    assert len(workers) > 1, "no worker was replaced, so the test shows nothing"
    assert not [str(each.message) for each in caught]


def grow() -> int:
    """Let the process of a worker grow by 400 MB; returns its number."""
    sys.kept = [*getattr(sys, "kept", ()), np.ones(50_000_000)]
    time.sleep(1.1)  # it is measured once a second
    return os.getpid()


@pytest.fixture
def cache(experiment):
    """The cache, which is put back in order afterwards."""
    cache, good = experiment.folder / "cache", experiment.new("good-cache")
    shutil.copytree(cache, good)
    yield cache
    shutil.rmtree(cache)
    good.rename(cache)


@pytest.mark.parametrize("damage", ["cut off", "flipped bit"])
def test_damaged_files_of_the_cache_give_the_right_table_or_a_clear_error(experiment, cache, factor, damage):
    good = experiment.folder / "good-cache"
    for _ in range(6 * factor):
        path = experiment.random.choice(sorted(path for path in cache.rglob("*") if path.stat().st_size))
        content = bytearray(path.read_bytes()) if path.is_file() else bytearray()
        if not content:
            continue
        if damage == "cut off":
            path.write_bytes(content[: experiment.random.randrange(len(content))])
        else:
            content[experiment.random.randrange(len(content))] ^= 1 << experiment.random.randrange(8)
            path.write_bytes(content)
        folder = experiment.new("cached")
        experiment.judge(experiment.run_here(folder), folder, errors_allowed=True)
        shutil.rmtree(cache)
        shutil.copytree(good, cache)


REPLIES = {
    "wrong bytes": lambda server, content: send(server, content[:700] + bytes([content[700] ^ 1]) + content[701:]),
    "a page of HTML": lambda server, content: send(server, b"<html><body>Please log in</body></html>"),
    "half a file": lambda server, content: send(server, content[:700], len(content)),
    "endless redirects": lambda server, content: redirect(server),
    "no answer": lambda server, content: time.sleep(6),
}


@pytest.mark.parametrize("reply", REPLIES)
def test_mirror_with_a_fault_is_a_clear_error(experiment, cache, monkeypatch, reply):
    monkeypatch.setattr("opauc_bench.data.download.TIMEOUT", 2.0)
    content = (experiment.mirror / "own/own.svm").read_bytes()
    experiment.write_catalogue(hashlib.sha256(content).hexdigest())
    try:
        with served(lambda server: REPLIES[reply](server, content)) as address:
            folder = experiment.new("fetched")
            shutil.rmtree(cache / "own")
            experiment.judge(experiment.run_here(folder, mirror=address), folder, errors_allowed=True)
    finally:
        experiment.write_catalogue()


def send(server, content: bytes, length: int | None = None) -> None:
    server.send_response(200)
    server.send_header("Content-Length", str(length or len(content)))
    server.end_headers()
    server.wfile.write(content)


def redirect(server) -> None:
    server.send_response(302)
    server.send_header("Location", server.path)
    server.end_headers()


def test_config_that_is_edited_and_edited_back_gives_the_same_table(experiment):
    folder, path = experiment.new("edited"), experiment.folder / "faults.yaml"
    experiment.run_here(folder)
    path.write_text(EXPERIMENT.replace("[-8, 0, 4]", "[-8, 0, 8]"))
    experiment.run_here(folder)
    (folder / "records/own.jsonl").unlink()
    path.write_text(EXPERIMENT)
    ended = experiment.run_here(folder)
    # Records of the other definition are kept by the runner, so a task may have two.
    ids = Store(experiment.folder / "undisturbed").read().keys()
    for path in folder.glob("records/*.jsonl"):
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(line for line in lines if record_of_line(line).id in ids))
    experiment.judge(ended, folder)


# ---------------------------------------------------------------------- damaged records


def damage_lines(rng: random.Random, folder: Path, n_lines: int, damage: Callable[[bytes], bytes]) -> int:
    """Damage some lines of one packed file; return how many."""
    path = rng.choice(sorted(folder.glob("records/*.jsonl")))
    lines = path.read_bytes().splitlines()
    for number in rng.sample(range(len(lines)), n_lines):
        lines[number] = damage(lines[number])
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return n_lines


def cut_line(rng: random.Random, folder: Path) -> int:
    return damage_lines(rng, folder, 1, lambda line: line[: rng.randrange(1, len(line))])


def cut_file(rng: random.Random, folder: Path) -> int:
    """Cut a file off in the middle of a line, as a full disk does."""
    path = rng.choice(sorted(folder.glob("records/*.jsonl")))
    lines = path.read_bytes().splitlines(keepends=True)
    whole = rng.randrange(len(lines))
    path.write_bytes(b"".join(lines[:whole]) + lines[whole][: rng.randrange(1, len(lines[whole]) - 1)])
    return 1


def flip_bits(rng: random.Random, folder: Path) -> int:
    def flip(line: bytes) -> bytes:
        content = bytearray(line)
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        return bytes(content).replace(b"\n", b"?").replace(b"\r", b"?")

    return damage_lines(rng, folder, rng.randrange(1, 9), flip)


def write_nonsense(rng: random.Random, folder: Path) -> int:
    nonsense = (b"{}", b"[]", b"null", b"\xff\xfe", b'{"status": "ok"}', b"NaN", b"{" * 5000)
    return damage_lines(rng, folder, rng.randrange(1, 9), lambda line: rng.choice(nonsense))


def edit_value(rng: random.Random, folder: Path) -> int:
    """Edit a value, and write the checksum that belongs to it."""

    def edit(line: bytes) -> bytes:
        record = json.loads(line)
        del record["checksum"]
        record[rng.choice(sorted(record))] = rng.choice([None, -1, "x", [], {}, 1e9])
        body = json.dumps(record, separators=(",", ":")).encode()[:-1]
        return body + b',"checksum":"' + hashlib.sha256(body).hexdigest()[:16].encode() + b'"}'

    return damage_lines(rng, folder, 1, edit)


def repeat_line(rng: random.Random, folder: Path) -> int:
    return damage_lines(rng, folder, 1, lambda line: line + b"\n" + line)


def leave_loose(rng: random.Random, folder: Path) -> int:
    """Leave temporary files, and a loose record that is cut off beside the packed one."""
    record, text = rng.choice(sorted(finished(folder).items()))
    (folder / "running").mkdir()
    (folder / f"running/{record}.json").write_bytes(text[: rng.randrange(len(text))])
    (folder / f"running/.{record}.json.x.tmp").write_bytes(text[:40])
    (folder / "records/.own.jsonl.x.tmp").write_bytes(text[:40])
    return 1


@pytest.mark.parametrize(
    "damage", [cut_line, cut_file, flip_bits, write_nonsense, edit_value, repeat_line, leave_loose]
)
def test_damaged_records_are_listed_by_report_and_computed_again_by_run(experiment, factor, damage):
    """A damage that leaves the same records, such as the change of one digit of a time, may go through."""
    for _ in range(4 * factor):
        folder = shutil.copytree(experiment.folder / "undisturbed", experiment.new("damaged"))
        n_damaged = damage(experiment.random, folder)
        options = ("--out", folder, "--to", experiment.new("reported"))
        reported = Command(experiment.environment)("report", "faults.yaml", *options, cwd=experiment.folder)
        if reported.returncode == 0:
            assert (experiment.folder / "reported/folds.csv").read_bytes() == experiment.table
        else:
            assert is_clear_error(reported), reported.stderr
            assert f"{n_damaged} damaged record" in reported.stderr
        experiment.judge(experiment.run_here(folder), folder)
