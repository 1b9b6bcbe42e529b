"""Every fault that a run has to live through, tried and counted.

    python scripts/torture.py [--kills 100] [--only kills disk ...] [--seed 0] [--keep FOLDER]

Each try ends in one of: the table of an undisturbed run ("right table"), an error that is told without a traceback
("clear error"), or anything else ("WRONG", which is shown). After each try no temporary file may be left by a run that
ended by itself, no loose record by one that came to its end, and no record may be there twice. What a killed run has
recorded may not change later. Exit code 1 if anything went wrong.

Faults that need a file system of their own (a full disk, a read-only one) are tried in a namespace where the machine
allows that, and reported as not tried where it does not.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import http.server
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from opauc_bench.results.record import Record, record_of_line, record_to_line
from opauc_bench.results.store import Store

LEARNER = '''
import time

import numpy as np

from opauc_bench.learners import OnePassLearner
from opauc_bench.learners.base import State


class Paused(OnePassLearner):
    """A learner that gives a killer time to strike."""

    grid_axes = ("eta",)

    def __init__(self, eta=0.1):
        self.eta = eta

    def _begin(self, n_features, settings):
        return State(settings=settings, W=np.zeros((n_features, len(settings["eta"]))))

    def _consume(self, state, X, y):
        if X.shape[1] > 3:
            time.sleep(0.02)
        state.W += np.outer(X.T @ y, state.settings["eta"])
'''

CATALOGUE = """
datasets:
  own:
    title: Made-up rows
    format: svmlight
    files: [{{name: own.svm, sha256: {sha256}, confirmed: {confirmed}, urls: ["{url}/own/own.svm"]}}]
    n_samples: 90
    n_features: 4
    n_positive: 30
    positive: [1]
    scaling: minmax
"""

EXPERIMENT = """
title: An experiment for the rack
catalogue: catalogue.yaml
datasets: [own, wine]
learners: ["mine.py:Paused", uni_log]
grids: {eta: {pow2: [-8, 0, 4]}}
protocol: {trials: 2, folds: 3, inner_folds: 3}
"""

RIGHT, CLEAR, WRONG = "right table", "clear error", "WRONG"


@dataclass
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def is_clear_error(self) -> bool:
        return self.code in (1, 2, 3) and "Traceback" not in self.err and ("error:" in self.err or "N/A" in self.out)


@dataclass
class Rack:
    """A folder with an experiment, a cache, and what an undisturbed run gave."""

    place: Path
    seed: int
    reference: bytes = b""
    outcomes: dict[str, Counter] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    told: dict[str, str] = field(default_factory=dict)
    complained: int = 0

    def __post_init__(self):
        self.random = random.Random(self.seed)
        rows = np.random.default_rng(0).uniform(-1, 1, (90, 4)).round(3)
        lines = [
            f"{1 if i % 3 == 0 else -1} " + " ".join(f"{j + 1}:{v}" for j, v in enumerate(row))
            for i, row in enumerate(rows)
        ]
        (self.mirror / "own").mkdir(parents=True)
        (self.mirror / "own/own.svm").write_text("\n".join(lines) + "\n")
        (self.place / "mine.py").write_text(LEARNER)
        (self.place / "rack.yaml").write_text(EXPERIMENT)
        self.write_catalogue("http://127.0.0.1:9")
        done = self.run("rack.yaml", "--mirror", self.mirror, "--out", "undisturbed")
        if done.code:
            raise SystemExit(f"the undisturbed run failed:\n{done.err}")
        self.reference = (self.place / "undisturbed/folds.csv").read_bytes()

    @property
    def mirror(self) -> Path:
        return self.place / "mirror"

    def write_catalogue(self, url: str, sha256: str = "null") -> None:
        (self.place / "catalogue.yaml").write_text(
            CATALOGUE.format(url=url, sha256=sha256, confirmed=str(sha256 != "null").lower())
        )

    def environment(self, **variables: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("OPAUC_BENCH_")}
        return kept | {"OPAUC_BENCH_CACHE": str(self.place / "cache"), "COLUMNS": "80"} | variables

    def start(self, *options, prefix=(), **variables: str) -> subprocess.Popen:
        return subprocess.Popen(
            [*prefix, sys.executable, "-m", "opauc_bench", "run", *map(str, options), "--jobs", "2"],
            cwd=self.place,
            env=self.environment(**variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *options, prefix=(), **variables: str) -> Ended:
        return self._wait(self.start(*options, prefix=prefix, **variables))

    def report(self, *options) -> Ended:
        command = [sys.executable, "-m", "opauc_bench", "report", "rack.yaml", *map(str, options)]
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return self._wait(
            subprocess.Popen(command, cwd=self.place, env=self.environment(), start_new_session=True, **streams)
        )

    def _wait(self, process: subprocess.Popen) -> Ended:
        try:
            out, err = process.communicate(timeout=300)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            err += "\nTraceback: it did not end within five minutes"
        return Ended(process.returncode, out, err)

    def judge(self, fault: str, ended: Ended, folder: str, errors_allowed: bool = True) -> str:
        """Count the outcome of a try, and complain if it is neither a right table nor a clear error."""
        path = self.place / folder / "folds.csv"
        if ended.code == 0 and path.exists() and path.read_bytes() == self.reference:
            outcome = RIGHT
        else:
            outcome = CLEAR if errors_allowed and ended.is_clear_error else WRONG
        if problems := _problems(self.place / folder, finished=ended.code == 0):
            outcome = WRONG
            self.complaints += [f"{fault}: {problem}" for problem in problems]
        if outcome == WRONG:
            self.complaints.append(f"{fault}: exit code {ended.code}\n{ended.err[-1500:]}")
        self.count(fault, outcome)
        return outcome

    def count(self, fault: str, outcome: str) -> None:
        self.outcomes.setdefault(fault, Counter())[outcome] += 1

    def tell(self) -> None:
        """Print what has come out since the last time."""
        for fault, counts in self.outcomes.items():
            words = ", ".join(f"{count} x {outcome}" for outcome, count in sorted(counts.items()))
            if words != self.told.get(fault):
                print(f"{fault:44}  {words}", flush=True)
            self.told[fault] = words
        for line in (*self.notes, *(f"\n{complaint}" for complaint in self.complaints[self.complained :])):
            print(line, flush=True)
        self.notes, self.complained = [], len(self.complaints)

    def not_tried(self, fault: str, why: str) -> None:
        self.count(fault, f"not tried: {why}")

    def fresh(self, folder: str) -> str:
        shutil.rmtree(self.place / folder, ignore_errors=True)
        return folder


def _problems(folder: Path, finished: bool) -> list[str]:
    """What a run that ended by itself should not have left."""
    problems = [f"temporary files are left, such as {path}" for path in list(folder.rglob(".*.tmp"))[:1]]
    if finished and (folder / "running").exists():
        problems.append(f"loose files are left: {sorted(path.name for path in (folder / 'running').iterdir())[:3]}")
    places = Counter((record.dataset, record.column, record.trial, record.fold) for record in _all_records(folder))
    return problems + [f"more than one record of {place}" for place, count in places.items() if count > 1]


def _all_records(folder: Path) -> Iterator[Record]:
    """All records in files, without the damaged ones; a loose one that is packed as the same text counts once."""
    packed = [line for path in folder.glob("records/*.jsonl") for line in path.read_bytes().splitlines()]
    loose = [path.read_bytes().rstrip(b"\n") for path in folder.glob("running/*.json")]
    for text in [*packed, *(text for text in loose if text not in packed)]:
        with contextlib.suppress(ValueError):
            yield record_of_line(text)


def _finished(folder: Path) -> dict[str, bytes]:
    """The text of every record by id, without those of failed tasks, which may be tried again."""
    return {id: record_to_line(record) for id, record in Store(folder).read().items() if record.ok}


# ---------------------------------------------------------------------------------------------- faults


def kills(rack: Rack, count: int) -> None:
    """``kill -9`` of the runner, or of one of its processes, at random moments; then the same command again."""
    folder, struck = rack.fresh("killed"), 0
    while struck < count:
        before = _finished(rack.place / folder)
        process = rack.start("rack.yaml", "--mirror", rack.mirror, "--out", folder, "--retry-failed")
        if rack.random.random() < 0.75:  # the others are killed while they start
            _wait_for(process, lambda process=process: _has_claim(process, rack.place / folder))
        while process.poll() is None and struck < count:
            time.sleep(rack.random.uniform(0.05, 1.2))
            victims = [process.pid, *_children(process.pid)]
            victim = victims[0] if rack.random.random() < 0.5 else rack.random.choice(victims)
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
                struck += 1
        process.communicate()
        _check_kept(rack, "kill -9", folder, before)
        if process.returncode == 0 and struck < count:
            rack.judge("kill -9: a run that came through", Ended(0, "", ""), folder, errors_allowed=False)
            rack.fresh(folder)
    before = _finished(rack.place / folder)
    ended = rack.run("rack.yaml", "--mirror", rack.mirror, "--out", folder, "--retry-failed")
    _check_kept(rack, "kill -9", folder, before)
    rack.judge(f"kill -9 ({struck} times), then the same command", ended, folder, errors_allowed=False)


def packing(rack: Rack, count: int) -> None:
    """``kill -9`` of the runner while it packs its records; the same command again computes nothing."""
    for _ in range(max(2, count // 10)):
        folder = rack.fresh("packed")
        process = rack.start("rack.yaml", "--mirror", rack.mirror, "--out", folder)
        _wait_for(process, lambda folder=rack.place / folder: any(folder.glob("records/*")))
        time.sleep(rack.random.uniform(0, 0.02))
        process.kill()
        process.communicate()
        before = _finished(rack.place / folder)
        state = "packed" if not (rack.place / folder / "running").exists() else "partly packed"
        ended = rack.run("rack.yaml", "--mirror", rack.mirror, "--out", folder)
        _check_kept(rack, "kill -9 while packing", folder, before)
        rack.judge(f"kill -9 while packing, {state}", ended, folder, errors_allowed=False)


def _wait_for(process: subprocess.Popen, condition: Callable[[], bool]) -> None:
    """Wait for a state of files, or for the end of the process, or for a minute."""
    end = time.monotonic() + 60
    while process.poll() is None and not condition() and time.monotonic() < end:
        time.sleep(0.001)


def _has_claim(process: subprocess.Popen, folder: Path) -> bool:
    """Whether a worker of this very run is at work on a task."""
    workers = _children(process.pid)
    for path in folder.glob("running/*.claim"):
        with contextlib.suppress(OSError, ValueError):
            if json.loads(path.read_text())["pid"] in workers:
                return True
    return False


def _check_kept(rack: Rack, fault: str, folder: str, before: dict[str, bytes]) -> None:
    """Complain about records that a run has lost, or computed again."""
    after = _finished(rack.place / folder)
    if gone := [id for id, text in before.items() if after.get(id) != text]:
        rack.complaints.append(f"{fault}: {len(gone)} of {len(before)} records are lost or were computed again: {gone}")


def _children(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += [int(child) for child in task.read_text().split()]
    return found


def disk(rack: Rack, count: int) -> None:
    """Results on a full disk, and in a folder that cannot be written."""
    sizes = [rack.random.randrange(4, 300) for _ in range(max(2, count // 10))]
    for fault, options in (("full disk", sizes), ("read-only folder", [0])):
        for kilobytes in options:
            kept = rack.fresh("kept")  # the mount is gone with the command
            rack.fresh("mounted")
            (rack.place / "mounted").mkdir()
            mount = f"mount -t tmpfs -o size={max(4, kilobytes)}k none mounted"
            mount += " && mount -o remount,ro mounted" if fault == "read-only folder" else ""
            script = f'{mount} && {{ "$@"; code=$?; cp -r mounted {kept}; exit $code; }}'
            prefix = ["unshare", "--map-root-user", "--mount", "sh", "-c", script, "sh"]
            if subprocess.run([*prefix, "true"], cwd=rack.place, capture_output=True).returncode:
                rack.not_tried(fault, "this machine allows no mounts")
                break
            rack.fresh(kept)
            ended = rack.run("rack.yaml", "--mirror", rack.mirror, "--out", "mounted/results", prefix=prefix)
            rack.judge(fault, ended, f"{kept}/results")


def cache(rack: Rack, count: int) -> None:
    """Files of the cache cut off, or with one byte changed."""
    files = sorted(path for path in (rack.place / "cache").rglob("*") if path.is_file())
    good = rack.fresh("good-cache")
    shutil.copytree(rack.place / "cache", rack.place / good)
    for number in range(count):
        path = rack.random.choice(files)
        content = bytearray(path.read_bytes())
        cut = number % 2 == 0 or not content
        if cut:
            path.write_bytes(content[: rack.random.randrange(len(content) + 1)])
        else:
            content[rack.random.randrange(len(content))] ^= 1 << rack.random.randrange(8)
            path.write_bytes(content)
        folder = rack.fresh("cached")
        fault = f"cache file {'cut off' if cut else 'with a flipped bit'}"
        rack.judge(fault, rack.run("rack.yaml", "--mirror", rack.mirror, "--out", folder), folder)
        shutil.rmtree(rack.place / "cache")
        shutil.copytree(rack.place / good, rack.place / "cache")


def mirrors(rack: Rack, count: int) -> None:
    """A server with wrong bytes, a page of HTML, half a file, a loop of redirections, and one that never answers."""
    content = (rack.mirror / "own/own.svm").read_bytes()
    broken = bytes(byte ^ 1 if i == 700 else byte for i, byte in enumerate(content))
    rack.write_catalogue("http://127.0.0.1:9", hashlib.sha256(content).hexdigest())
    for fault, reply in {
        "mirror: wrong bytes": lambda server: _send(server, broken),
        "mirror: a page of HTML": lambda server: _send(server, b"<html><body>Please log in</body></html>"),
        "mirror: half a file": lambda server: _send(server, content[:700], len(content)),
        "mirror: redirects for ever": lambda server: _redirect(server),
        "mirror: never answers": lambda server: time.sleep(40),
    }.items():
        with _server(reply) as address:
            folder = rack.fresh("fetched")
            shutil.rmtree(rack.place / "cache/own", ignore_errors=True)
            ended = rack.run("rack.yaml", "--mirror", address, "--out", folder)
            rack.judge(fault, ended, folder)
    rack.write_catalogue("http://127.0.0.1:9")


@contextlib.contextmanager
def _server(reply: Callable) -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            with contextlib.suppress(OSError):
                reply(self)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()


def _send(server, content: bytes, length: int | None = None) -> None:
    server.send_response(200)
    server.send_header("Content-Length", str(length or len(content)))
    server.end_headers()
    server.wfile.write(content)


def _redirect(server) -> None:
    server.send_response(302)
    server.send_header("Location", server.path)
    server.end_headers()


def together(rack: Rack, count: int) -> None:
    """Two runs in one folder at once: one does the work, the other is refused; then the table is right."""
    for _ in range(max(1, count // 20)):
        folder = rack.fresh("shared")
        runs = [rack.start("rack.yaml", "--mirror", rack.mirror, "--out", folder) for _ in range(2)]
        ends = [Ended(run.wait(), *run.communicate()) for run in runs]
        for ended in sorted(ends, key=lambda ended: ended.code):
            rack.judge("two runs in one folder", ended, folder)
        if sorted(ended.code for ended in ends) != [0, 1]:
            rack.complaints.append(f"two runs in one folder: exit codes {[ended.code for ended in ends]}")


def clock(rack: Rack, count: int) -> None:
    """The clock goes back by a day in the middle, and all files are from next year."""
    site = rack.place / "site"
    site.mkdir(exist_ok=True)
    (site / "sitecustomize.py").write_text("import time\nnow = time.time\ntime.time = lambda: now() - 86400\n")
    folder = rack.fresh("clock")
    process = rack.start("rack.yaml", "--mirror", rack.mirror, "--out", folder)
    time.sleep(6)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    later = time.time() + 365 * 86400
    for path in (*(rack.place / folder).rglob("*"), *(rack.place / "cache").rglob("*")):
        with contextlib.suppress(FileNotFoundError):
            os.utime(path, (later, later))
    path = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")]))
    ended = rack.run("rack.yaml", "--mirror", rack.mirror, "--out", folder, PYTHONPATH=path)
    rack.judge("clock set back", ended, folder, errors_allowed=False)


def edits(rack: Rack, count: int) -> None:
    """The config is edited between two runs, and edited back."""
    folder = rack.fresh("edited")
    path = rack.place / "rack.yaml"
    rack.run("rack.yaml", "--mirror", rack.mirror, "--out", folder)
    path.write_text(EXPERIMENT.replace("[-8, 0, 4]", "[-8, 0, 8]"))
    rack.run("rack.yaml", "--mirror", rack.mirror, "--out", folder)
    (rack.place / folder / "records/own.jsonl").unlink()
    path.write_text(EXPERIMENT)
    ended = rack.run("rack.yaml", "--mirror", rack.mirror, "--out", folder)
    _remove_orphaned(rack.place / folder, Store(rack.place / "undisturbed").read().keys())
    rack.judge("config edited and edited back", ended, folder, errors_allowed=False)


def _remove_orphaned(folder: Path, ids: Collection[str]) -> None:
    """Remove records of another definition: the runner keeps them, so a place may have two records."""
    for path in folder.glob("records/*.jsonl"):
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(line for line in lines if record_of_line(line).id in ids))


def records(rack: Rack, count: int) -> None:
    """Records cut off or edited into nonsense: report tells of each or shows the right table, and run mends them."""
    reference = (rack.place / "undisturbed/folds.csv").read_bytes()
    for number in range(count):
        folder = rack.fresh("damaged")
        shutil.copytree(rack.place / "undisturbed", rack.place / folder)
        n_damaged = DAMAGES[number % len(DAMAGES)](rack, rack.place / folder)
        told = rack.report("--out", folder, "--to", "told")
        shown = (rack.place / "told/folds.csv").read_bytes() if told.code == 0 else b""
        outcome = RIGHT if shown == reference else CLEAR if told.is_clear_error else WRONG
        if outcome == CLEAR and f"{n_damaged} damaged record" not in told.err:
            outcome = WRONG
        if outcome == WRONG:
            rack.complaints.append(f"damaged record: {n_damaged} damaged, report says\n{told.err[-1500:]}")
        rack.count("damaged record: the report before a run", outcome)
        ended = rack.run("rack.yaml", "--mirror", rack.mirror, "--out", folder)
        rack.judge("damaged record: after a run", ended, folder, errors_allowed=False)


def _damage_lines(rack: Rack, folder: Path, n_lines: int, damage: Callable[[bytes], bytes]) -> int:
    """Damage some lines of one packed file; returns how many."""
    path = rack.random.choice(sorted(folder.glob("records/*.jsonl")))
    lines = path.read_bytes().splitlines()
    for number in rack.random.sample(range(len(lines)), n_lines):
        lines[number] = damage(lines[number])
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return n_lines


def cut_line(rack: Rack, folder: Path) -> int:
    return _damage_lines(rack, folder, 1, lambda line: line[: rack.random.randrange(1, len(line))])


def cut_file(rack: Rack, folder: Path) -> int:
    """Cut a file off in the middle of a line, as a full disk does."""
    path = rack.random.choice(sorted(folder.glob("records/*.jsonl")))
    lines = path.read_bytes().splitlines(keepends=True)
    whole = rack.random.randrange(len(lines))
    path.write_bytes(b"".join(lines[:whole]) + lines[whole][: rack.random.randrange(1, len(lines[whole]) - 1)])
    return 1


def flip_bits(rack: Rack, folder: Path) -> int:
    def flip(line: bytes) -> bytes:
        content = bytearray(line)
        content[rack.random.randrange(len(content))] ^= 1 << rack.random.randrange(8)
        return bytes(content).replace(b"\n", b"?").replace(b"\r", b"?")

    return _damage_lines(rack, folder, rack.random.randrange(1, 9), flip)


def write_nonsense(rack: Rack, folder: Path) -> int:
    nonsense = (b"{}", b"[]", b"null", b"\xff\xfe", b'{"status": "ok"}', b"NaN", b"{" * 5000)
    return _damage_lines(rack, folder, rack.random.randrange(1, 9), lambda line: rack.random.choice(nonsense))


def edit_value(rack: Rack, folder: Path) -> int:
    """Edit a value, and write the checksum that belongs to it."""

    def edit(line: bytes) -> bytes:
        record = json.loads(line)
        del record["checksum"]
        record[rack.random.choice(sorted(record))] = rack.random.choice([None, -1, "x", [], {}, 1e9])
        body = json.dumps(record, separators=(",", ":")).encode()[:-1]
        return body + b',"checksum":"' + hashlib.sha256(body).hexdigest()[:16].encode() + b'"}'

    return _damage_lines(rack, folder, 1, edit)


def double_line(rack: Rack, folder: Path) -> int:
    return _damage_lines(rack, folder, 1, lambda line: line + b"\n" + line)


def leave_loose(rack: Rack, folder: Path) -> int:
    """Leave a temporary file and a loose record that is cut off, beside the packed one."""
    record, text = rack.random.choice(sorted(_finished(folder).items()))
    (folder / "running").mkdir()
    (folder / f"running/{record}.json").write_bytes(text[: rack.random.randrange(len(text))])
    (folder / f"running/.{record}.json.x.tmp").write_bytes(text[:40])
    (folder / "records/.own.jsonl.x.tmp").write_bytes(text[:40])
    return 1


DAMAGES = (cut_line, cut_file, flip_bits, write_nonsense, edit_value, double_line, leave_loose)


def places(rack: Rack, count: int) -> None:
    """Locale C, and a home directory that does not exist."""
    for fault, variables in {
        "locale C": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": ""},
        "no home directory": {"HOME": "/nonexistent/home", "XDG_CACHE_HOME": ""},
    }.items():
        folder = rack.fresh("elsewhere")
        ended = rack.run("rack.yaml", "--mirror", rack.mirror, "--out", folder, **variables)
        rack.judge(fault, ended, folder, errors_allowed=False)


def limits(rack: Rack, count: int) -> None:
    """Every learner and every kind of protocol with seconds and megabytes that do not do."""
    import torture_limits

    torture_limits.prepare(rack.place)
    for attempt in (torture_limits.try_time, torture_limits.try_memory):
        for name, tried in attempt(rack.place).items():
            rack.outcomes[name] = tried.statuses
            rack.complaints += tried.complaints
            if tried.slowest:
                words = f"ended by force: {tried.by_force}; the slowest {tried.slowest:.1f} s beyond the limit"
                rack.notes.append(f"{name}: {words}")


FAULTS = {
    "kills": kills,
    "packing": packing,
    "disk": disk,
    "cache": cache,
    "mirrors": mirrors,
    "together": together,
    "clock": clock,
    "edits": edits,
    "records": records,
    "places": places,
    "limits": limits,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100, help="how often to kill")
    parser.add_argument("--tries", type=int, default=40, help="tries of each other random fault")
    parser.add_argument("--only", nargs="*", choices=FAULTS, default=list(FAULTS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="folder to work in, kept afterwards")
    given = parser.parse_args()
    with contextlib.ExitStack() as stack:
        place = given.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        place.mkdir(parents=True, exist_ok=True)
        rack = Rack(place.resolve(), given.seed)
        for name in given.only:
            start = time.monotonic()
            FAULTS[name](rack, given.kills if name == "kills" else given.tries)
            print(f"{name}: {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
            rack.tell()
    return 1 if rack.complaints else 0


if __name__ == "__main__":
    sys.exit(main())
