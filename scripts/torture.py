"""Every fault that a run has to live through, tried and counted.

    python scripts/torture.py [--kills 100] [--only kills disk ...] [--seed 0] [--keep FOLDER]

Each try ends in one of: the table of an undisturbed run ("right table"), an error that is told without a traceback
("clear error"), or anything else ("WRONG", which is shown). After each try no temporary file may be left by a run that
ended by itself, and no record may be there twice. Exit code 1 if anything went wrong.

Faults that need a file system of their own (a full disk, a read-only one) are tried in a namespace where the machine
allows that, and reported as not tried where it does not.
"""

from __future__ import annotations

import argparse
import contextlib
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
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

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
        process = self.start(*options, prefix=prefix, **variables)
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
        left = list((self.place / folder).rglob(".*.tmp")) if (self.place / folder).exists() else []
        if left:
            outcome = WRONG
            self.complaints.append(f"{fault}: temporary files are left, such as {left[0]}")
        if doubled := _doubled(self.place / folder):
            outcome = WRONG
            self.complaints.append(f"{fault}: more than one record of {doubled[0]}")
        if outcome == WRONG:
            self.complaints.append(f"{fault}: exit code {ended.code}\n{ended.err[-1500:]}")
        self.outcomes.setdefault(fault, Counter())[outcome] += 1
        return outcome

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
        self.outcomes.setdefault(fault, Counter())[f"not tried: {why}"] += 1

    def fresh(self, folder: str) -> str:
        shutil.rmtree(self.place / folder, ignore_errors=True)
        return folder


def _doubled(folder: Path) -> list[str]:
    names = Counter("/".join([*path.parts[-3:-1], path.name[:6]]) for path in folder.glob("records/*/*/*.json"))
    return [name for name, count in names.items() if count > 1]


# ---------------------------------------------------------------------------------------------- faults


def kills(rack: Rack, count: int) -> None:
    """``kill -9`` of the runner, or of one of its processes, at random moments; then the same command again."""
    folder, struck = rack.fresh("killed"), 0
    while struck < count:
        process = rack.start("rack.yaml", "--mirror", rack.mirror, "--out", folder)
        while process.poll() is None and struck < count:
            time.sleep(rack.random.uniform(0.05, 1.2))
            victims = [process.pid, *_children(process.pid)]
            victim = victims[0] if rack.random.random() < 0.5 else rack.random.choice(victims)
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
                struck += 1
        process.communicate()
        if process.returncode == 0 and struck < count:
            rack.judge("kill -9: a run that came through", Ended(0, "", ""), folder, errors_allowed=False)
            rack.fresh(folder)
    ended = rack.run("rack.yaml", "--mirror", rack.mirror, "--out", folder, "--retry-failed")
    rack.judge(f"kill -9 ({struck} times), then the same command", ended, folder, errors_allowed=False)


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
    import hashlib

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
    shutil.rmtree(rack.place / folder / "records/own")
    path.write_text(EXPERIMENT)
    ended = rack.run("rack.yaml", "--mirror", rack.mirror, "--out", folder)
    for stale in (rack.place / folder / "records").rglob("*.json"):
        if stale.name not in _names(rack.place / "undisturbed"):
            stale.unlink()  # of the other definition: kept by the runner, and rightly no double
    rack.judge("config edited and edited back", ended, folder, errors_allowed=False)


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("records/*/*/*.json")}


def records(rack: Rack, count: int) -> None:
    """Records cut off or edited into nonsense; what the error says to do leads to the right table."""
    nonsense = (b"", b"{}", b"[]", b"null", b"\xff\xfe", b'{"status": "ok"}', b"NaN", b"{" * 5000)
    for number in range(count):
        folder = rack.fresh("damaged")
        shutil.copytree(rack.place / "undisturbed", rack.place / folder)
        path = rack.random.choice(sorted((rack.place / folder / "records").rglob("*.json")))
        content = path.read_bytes()
        kind = number % 4
        if kind == 0:
            path.write_bytes(content[: rack.random.randrange(len(content))])
        elif kind == 1:
            path.write_bytes(rack.random.choice(nonsense))
        elif kind == 2:
            record = json.loads(content)
            record[rack.random.choice(sorted(record))] = rack.random.choice([None, -1, "x", [], {}, 1e9])
            path.write_text(json.dumps(record))
        else:
            (path.parent / f".{path.name}.x.tmp").write_bytes(content[:40])
        ended = rack.run("rack.yaml", "--mirror", rack.mirror, "--out", folder)
        if ended.is_clear_error:
            rack.outcomes.setdefault("damaged record: the first answer", Counter())[CLEAR] += 1
            path.unlink()  # what the error advises
            ended = rack.run("rack.yaml", "--mirror", rack.mirror, "--out", folder)
        rack.judge("damaged record: in the end", ended, folder, errors_allowed=False)


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
