"""The runner with real worker processes: kills and interruptions, failing tasks, and which tasks a run computes."""

import ctypes
import dataclasses
import errno
import fcntl
import io
import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from command_line import Command, children, claims, parent_of, wait_until
from filelock import FileLock
from folders import HEBB, contents, forge, forged, key_of, rows_of, unpack
from reference import records
from sklearn.metrics import roc_auc_score

from opauc_bench.commands.local_data import LocalData
from opauc_bench.commands.planning import plan_locally
from opauc_bench.commands.progress import Estimate, Progress, duration
from opauc_bench.commands.recorded import Recorded
from opauc_bench.commands.session import Session
from opauc_bench.data import Sources, load_catalogue, prepare
from opauc_bench.errors import ResultsError
from opauc_bench.evaluation.splits import outer_fold, stratified_folds
from opauc_bench.learners import ESTIMATOR, OAMSeq, get_learner
from opauc_bench.memory import memory_limit
from opauc_bench.protocols import CrossValidation
from opauc_bench.results.environment import environment as environment_here
from opauc_bench.results.environment import environment_id
from opauc_bench.results.manifest import read_manifest
from opauc_bench.results.record import make_record, record_of_line, record_to_line
from opauc_bench.results.store import Store
from opauc_bench.runner.execute import LocalExecutor
from opauc_bench.runner.limits import Deadline, TimeLimitReached
from opauc_bench.runner.worker import WorkerConfig, compute, load_learner, run_task
from opauc_bench.task import Task, task_id

# They behave badly on real data; on the few columns of made-up data that load them, only some do.
LEARNERS = (
    HEBB
    + '''
import os
import sys
import time
from pathlib import Path


class Paused(OnData):
    def misbehave(self):
        time.sleep(0.03)


class Raises(Hebb):
    def behave(self, state, X):
        raise KeyError("no such thing")


class Exits(Hebb):
    def behave(self, state, X):
        sys.exit(7)


class Kills(Hebb):
    def behave(self, state, X):
        os.kill(os.getpid(), 9)


class Greedy(OnData):
    def misbehave(self):
        self.hoard = np.ones(2**27)


class Slow(OnData):
    def misbehave(self):
        time.sleep(1.1)


class Sleeps(OnData):
    def misbehave(self):
        time.sleep(600)


class Particular(Hebb):
    def behave(self, state, X):
        if X.shape[1] == 3:
            raise ValueError("three features are too few for me")


class Diverges(Hebb):
    def behave(self, state, X):
        state.W[:] = np.inf


class Unborn(Hebb):
    def __init__(self, eta=0.1, size=1):
        super().__init__(eta)
        self.size = size

    def _begin(self, n_features, settings):
        raise ValueError(f"size has to be at least 2, got {self.size}")


class Fragile(Hebb):
    def behave(self, state, X):
        if not Path(__file__).with_name("mended").exists():
            raise RuntimeError("broken")


class StumblesLate(Hebb):
    """Overflows on more than 100 rows where eta is 1."""

    def _begin(self, n_features, settings):
        state = super()._begin(n_features, settings)
        state.rows = 0
        return state

    def behave(self, state, X):
        state.rows += len(X)
        if state.rows > 100:
            state.W[:, state.settings["eta"] == 1.0] = np.nan


class StopsAtTheThird(Hebb):
    """Fails in the third pass over the data, and says which passes there were."""

    passes = 0

    def _begin(self, n_features, settings):
        type(self).passes += 1
        if type(self).passes == 3:
            raise RuntimeError("the third pass")
        return super()._begin(n_features, settings)
'''
)

PAUSED = """
title: Tasks of half a second
datasets: [wine]
learners: ["mine.py:Paused", uni_log]
grids: {eta: {pow2: [-8, 0, 4]}}
protocol: {trials: 4, folds: 3, inner_folds: 3}
"""

FAILING = """
title: Everything that can go wrong
datasets: [wine]
learners:
  - uni_squ
  - "mine.py:Raises"
  - "mine.py:Exits"
  - "mine.py:Greedy"
  - "mine.py:Slow"
  - "mine.py:Diverges"
  - {learner: "mine.py:Unborn", params: {size: 1}}
grids: {eta: [0.25, 0.5]}
protocol: {trials: 1, folds: 2, inner_folds: 2}
limits: {seconds: 2, memory_gb: 0.3}
"""

KILLING = """
title: A learner that ends its process
datasets: [wine]
learners: [uni_squ, "mine.py:Kills"]
grids: {eta: [0.25, 0.5]}
protocol: {trials: 1, folds: 2, inner_folds: 2}
"""

QUICK = """
title: Tasks of no time
datasets: [wine]
learners: [uni_log, uni_squ]
grids: {eta: [0.25, 0.5]}
protocol: {trials: 1, folds: 2, inner_folds: 2}
"""

TABLES = ["folds.csv", "table.csv", "table.html", "table.md", "table.tex"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a folder with the learners and the experiments; results go beside them."""
    folder = tmp_path_factory.mktemp("place")
    (folder / "mine.py").write_text(LEARNERS)
    for name, text in {"paused": PAUSED, "failing": FAILING, "killing": KILLING, "quick": QUICK}.items():
        (folder / f"{name}.yaml").write_text(text)
    return folder


@pytest.fixture
def desk(place, tmp_path):
    """Return a folder of a test's own with the learners and the quick experiment."""
    for name in ("mine.py", "quick.yaml"):
        shutil.copy(place / name, tmp_path / name)
    return tmp_path


def tables(folder):
    return {name: (folder / name).read_bytes() for name in TABLES}


def written(folder):
    """Return the line of each record with its times: a record that was computed again has another one."""
    paths = [*folder.glob("records/*.jsonl"), *folder.glob("running/*.json")]
    lines = [line for path in paths for line in path.read_bytes().splitlines()]
    found = {key_of(record_of_line(line)): line for line in lines}
    assert len(found) == len(lines), "a record stands twice"
    return found


def changed(before, after):
    """Return the keys of records that are new or were computed again."""
    return {key for key, line in after.items() if before.get(key) != line}


def loose(folder):
    return sorted(path.stem for path in folder.glob("running/*.json"))


def slow_ones(folder):
    return [record for record in Store(folder).read().values() if record.column == "Paused"]


def leftovers(folder):
    """Return what a run that came to its end should have removed."""
    return [str(path) for path in (*folder.rglob("*.tmp"), *folder.glob("running"), *folder.glob("running/*"))]


def snapshot(folder):
    """Return all files with their contents, except for the lock, which every run takes."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


def wait_until_busy(process, folder, n_slow):
    """Wait until so many slow tasks are done and a worker of this very run is in the middle of another one."""
    wait_until(lambda: len(slow_ones(folder)) >= n_slow and set(claims(folder)) & set(children(process.pid)))


linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="/proc is needed to find processes")


@pytest.fixture(scope="module")
def undisturbed(environment, place):
    """Return the folder of a run with two workers that is not disturbed."""
    done = Command(environment, processes=True)(
        "run", "paused.yaml", "--offline", "--jobs", 2, "--out", "undisturbed", cwd=place
    )
    assert done.returncode == 0, done.stderr
    assert len(contents(place / "undisturbed")) == 24
    assert leftovers(place / "undisturbed") == []
    return place / "undisturbed"


# ---------------------------------------------------------------------- killed and resumed


def test_records_do_not_depend_on_the_number_of_workers(command, place, undisturbed):
    command("run", "paused.yaml", "--offline", "--jobs", 1, "--out", "one", cwd=place, exits=0)
    assert tables(place / "one") == tables(undisturbed)
    assert contents(place / "one") == contents(undisturbed)


@pytest.mark.faults
@linux
def test_killed_worker_costs_no_record(bench, place, undisturbed):
    folder = place / "worker"
    process = bench.start("run", "paused.yaml", "--offline", "--jobs", 2, "--out", folder, cwd=place)
    (worker, *_) = wait_until(lambda: slow_ones(folder) and claims(folder))
    assert parent_of(worker) == process.pid
    os.kill(worker, signal.SIGKILL)
    _, err = process.communicate(timeout=100)
    assert process.returncode == 0, err
    assert "Traceback" not in err
    assert tables(folder) == tables(undisturbed)
    assert contents(folder) == contents(undisturbed)
    assert leftovers(folder) == []


@pytest.mark.faults
@linux
def test_run_killed_repeatedly_and_started_again_gives_the_same_tables_and_records(bench, command, place, undisturbed):
    folder, moments, orphans = place / "again", random.Random(2016), []
    for _ in range(3):
        target = len(slow_ones(folder)) + moments.randrange(2)
        process = bench.start("run", "paused.yaml", "--offline", "--jobs", 2, "--out", folder, cwd=place)
        wait_until_busy(process, folder, target)
        time.sleep(moments.uniform(0.0, 0.15))
        orphans += children(process.pid)
        process.kill()
        process.communicate()
        assert target <= len(slow_ones(folder)) < 12
    assert len(orphans) >= 6
    wait_until(lambda: not any(parent_of(orphan) for orphan in orphans))
    before = written(folder)
    assert len(loose(folder)) == len(before), "nothing is packed before a run ends"
    done = command("run", "paused.yaml", "--offline", "--jobs", 2, "--out", folder, cwd=place, exits=0)
    assert f"{len(before)} records of an interrupted run kept" in done.stderr
    assert f"{24 - len(before)} of 24 tasks to compute" in done.stderr
    after = written(folder)
    assert len(after) == 24
    assert changed(before, after) == after.keys() - before.keys()
    assert tables(folder) == tables(undisturbed)
    assert contents(folder) == contents(undisturbed)
    assert leftovers(folder) == []


@pytest.mark.faults
def test_ctrl_c_saves_finished_records_and_prints_the_command_to_continue(bench, command, place, undisturbed):
    folder = place / "in two words"
    process = bench.start("run", "paused.yaml", "--offline", "--fresh", "--jobs", 2, "--out", "in two words", cwd=place)
    wait_until(lambda: slow_ones(folder) and claims(folder))
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=100)
    before = written(folder)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert 0 < len(slow_ones(folder)) < 12
    assert "interrupted; finished tasks are saved" in err
    (line,) = [line.strip() for line in err.splitlines() if line.startswith("  opauc-bench run")]
    resume = shlex.split(line)[1:]
    assert resume == ["run", "paused.yaml", "--offline", "--jobs", "2", "--out", "in two words"]
    assert len(loose(folder)) == len(before)
    status = command("status", "paused.yaml", "--out", "in two words", cwd=place)
    assert re.search(rf"\b{len(before)} records? of an interrupted run not packed", " ".join(status.stdout.split()))
    command(*resume, cwd=place, exits=0)
    after = written(folder)
    assert len(after) == 24
    assert changed(before, after) == after.keys() - before.keys()
    assert tables(folder) == tables(undisturbed)
    assert contents(folder) == contents(undisturbed)
    assert leftovers(folder) == []


@pytest.mark.parametrize("kept", ["loose", "loose and packed"])
def test_run_packs_loose_records_without_computing_them_again(desk, folder, command, idle, kept):
    """Either state is what a kill leaves: before the records are packed, or before the loose ones are removed."""
    before = snapshot(folder)
    for (*_, id), line in written(folder).items():
        (folder / "running").mkdir(exist_ok=True)
        (folder / f"running/{id}.json").write_bytes(line + b"\n")
    if kept == "loose":
        shutil.rmtree(folder / "records")
    idle()
    done = command("run", "quick.yaml", "--offline", cwd=desk, exits=0)
    assert "4 records of an interrupted run kept\n0 of 4 tasks to compute\n" in done.stderr
    assert snapshot(folder) == before
    assert leftovers(folder) == []


@pytest.mark.faults
@linux
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_their_run_in_the_middle_of_tasks(bench, desk, how):
    (desk / "sleeps.yaml").write_text(QUICK.replace("uni_log, uni_squ", '"mine.py:Sleeps"'))
    process = bench.start("run", "sleeps.yaml", "--offline", "--jobs", 2, "--out", "out", cwd=desk)
    wait_until_busy(process, desk / "out", 0)
    workers = children(process.pid)
    process.send_signal(how)
    if how == signal.SIGTERM:  # as `timeout` does, to the process and to its group
        time.sleep(0.001)
        process.send_signal(how)
    _, err = process.communicate(timeout=100)
    wait_until(lambda: not any(parent_of(worker) for worker in workers))
    assert len(workers) >= 2
    assert "Traceback" not in err
    assert process.returncode == (130 if how == signal.SIGTERM else -9)
    assert ("opauc-bench run sleeps.yaml" in err) == (how == signal.SIGTERM)


@pytest.mark.faults
@linux
def test_signal_that_another_thread_gets_ends_a_run(bench, desk):
    """As after Ctrl-Z, ``kill`` and ``fg``: any thread of a process that continues may take the signal."""
    (desk / "sleeps.yaml").write_text(QUICK.replace("uni_log, uni_squ", '"mine.py:Sleeps"'))
    process = bench.start("run", "sleeps.yaml", "--offline", "--jobs", 2, "--out", "thread", cwd=desk)
    wait_until_busy(process, desk / "thread", 0)
    other = max(int(thread) for thread in os.listdir(f"/proc/{process.pid}/task"))
    assert other != process.pid
    assert ctypes.CDLL(None).tgkill(process.pid, other, int(signal.SIGTERM)) == 0
    process.communicate(timeout=100)
    assert process.returncode == 130


@pytest.mark.faults
def test_ctrl_c_while_workers_are_starting_prints_no_traceback(bench, place):
    process = bench.start("run", "paused.yaml", "--offline", "--jobs", 2, "--out", "starting", cwd=place)
    line = ""
    while "tasks to compute" not in line:
        line = process.stderr.readline()
        assert line, "the run ended too soon"
    time.sleep(0.25)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=100)
    assert process.returncode == 130
    said = [line for line in err.splitlines() if line != "interrupted"]
    assert said[0] == "interrupted; finished tasks are saved. To continue:"
    assert len(said) == 2


INTERRUPTED = """
import itertools, signal
from concurrent.futures._base import _AcquireFutures
from opauc_bench.cli import main

enter, calls = _AcquireFutures.__enter__, itertools.count()


def acquire(self):
    enter(self)
    if next(calls) == 2:
        signal.raise_signal(signal.{name})


_AcquireFutures.__enter__ = acquire
main()
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_interrupted_while_it_holds_the_locks_of_futures_a_run_still_ends(environment, desk, name):
    program = [sys.executable, "-c", INTERRUPTED.format(name=name), "run", "quick.yaml", "--offline", "--jobs", "2"]
    done = subprocess.run(program, cwd=desk, env=environment, capture_output=True, text=True, timeout=100)
    assert done.returncode == 130, done.stderr
    assert "interrupted; finished tasks are saved" in done.stderr
    assert "Traceback" not in done.stderr


def test_executor_stopped_right_after_submitting_prints_nothing(monkeypatch):
    """loky's own thread would fail on a task that it first meets while it shuts down."""
    said = []
    monkeypatch.setattr(threading, "excepthook", said.append)
    executor = LocalExecutor(2)
    pool = executor._open(2)
    pool.submit(time.sleep, 0).result()
    asleep = [pool.submit(time.sleep, 600) for _ in range(4)]
    executor.stop()
    assert all(future.exception() for future in asleep)
    assert said == []


# ---------------------------------------------------------------------- tasks that fail


@pytest.fixture(scope="module")
def failing(invoke, place):
    done = invoke("run", "failing.yaml", "--offline", "--jobs", 2, cwd=place, exits=1)
    found = {}
    for record in contents(place / "results" / "failing").values():
        found.setdefault(record["column"], []).append(record)
    return done, found


@pytest.mark.parametrize(
    ("column", "status", "message"),
    [
        ("Raises", "error", "KeyError: 'no such thing' (mine.py:"),
        ("Exits", "error", "SystemExit: 7"),
        ("Greedy", "out_of_memory", "memory limit of 0.3 GB reached"),
        ("Slow", "timeout", "time limit of 2 s reached"),
        ("Diverges", "diverged", "no setting stayed finite"),
        ("Unborn", "error", "ValueError: size has to be at least 2, got 1"),
    ],
)
def test_failure_of_a_learner_is_recorded(failing, column, status, message):
    done, found = failing
    assert [record["status"] for record in found[column]] == [status, status]
    assert all(record["message"].startswith(message) for record in found[column])
    assert all("metrics" not in record.get("outcome", {}) for record in found[column])
    assert done.stderr.count(f"wine {column} trial 1 fold ") == 2


@pytest.mark.faults
def test_task_that_kills_its_worker_is_recorded_and_the_others_computed(bench, place):
    done = bench("run", "killing.yaml", "--offline", "--jobs", 2, cwd=place, exits=1)
    found = [(r["column"], r["status"]) for r in contents(place / "results" / "killing").values()]
    assert found == [("Kills", "error")] * 2 + [("uni_squ", "ok")] * 2
    messages = [r.get("message", "") for r in contents(place / "results" / "killing").values()]
    assert [message.partition(", the")[0] for message in messages] == [
        *["the worker process died twice on this task"] * 2,
        *[""] * 2,
    ]
    assert done.stderr.count("wine Kills trial 1 fold ") == 2


def test_learners_beside_failing_ones_have_their_numbers(failing, place, command):
    _, found = failing
    assert [record["status"] for record in found["uni_squ"]] == ["ok", "ok"]
    assert len(found) == 7
    command("run", "failing.yaml", "--offline", "--learner", "uni_squ", "--out", "calm", cwd=place)
    assert list(contents(place / "calm").values()) == found["uni_squ"]


def test_failures_are_counted_and_not_computed_again_without_being_asked(failing, place, command):
    done, _ = failing
    counts = "12 of 14 tasks have no number (2 diverged, 6 error, 2 out_of_memory, 2 timeout)"
    assert counts in done.stderr
    assert "N/A" in (place / "results" / "failing" / "table.md").read_text()
    before = snapshot(place / "results" / "failing")
    again = command("run", "failing.yaml", "--offline", cwd=place, exits=1)
    assert again.stderr.startswith("0 of 14 tasks to compute: all have records from ")
    assert counts in again.stderr
    assert snapshot(place / "results" / "failing") == before


def test_record_of_an_unforeseen_error_has_the_end_of_the_traceback(failing):
    assert 'raise KeyError("no such thing")' in failing[1]["Raises"][0]["traceback"]


def test_error_in_a_learner_from_a_file_names_the_line(failing, place):
    lines = (place / "mine.py").read_text().splitlines()
    message = failing[1]["Raises"][0]["message"]
    file, _, line = message.partition(" (")[2].removesuffix(")").rpartition(":")
    assert (Path(file).name, lines[int(line) - 1].strip()) == ("mine.py", 'raise KeyError("no such thing")')


def test_status_and_plan_name_failures(failing, place, command):
    status = command("status", "failing.yaml", cwd=place, exits=0)
    assert "0/2 !2" in status.stdout
    assert "wine Slow: 2 x timeout: time limit of 2 s reached" in status.stdout
    assert max(map(len, status.stdout.splitlines())) <= 100
    plan = command("plan", "failing.yaml", "--offline", cwd=place)
    assert "12 of the done tasks have failed" in " ".join(plan.stdout.split())


def test_status_of_some_columns_leaves_out_the_others(failing, place, command):
    status = command("status", "failing.yaml", "-d", "wine", "-l", "Slow", "-l", "uni_squ", cwd=place, exits=0).stdout
    rows = [line.split() for line in status.splitlines()]
    assert rows.index(["dataset", "uni_squ", "Slow"]) + 2 == rows.index(["wine", "2/2", "0/2", "!2"])
    assert "wine Slow: 2 x timeout" in status
    assert "Raises" not in status
    unknown = command("status", "failing.yaml", "-d", "vine", cwd=place, exits=2)
    assert "--dataset vine: not in this experiment (did you mean 'wine'?)" in " ".join(unknown.stderr.split())


def test_retry_failed_computes_failed_tasks_and_no_other(desk, command):
    (desk / "fragile.yaml").write_text(QUICK.replace("uni_squ", '"mine.py:Fragile", "mine.py:Raises"'))
    folder = desk / "results" / "fragile"
    first = command("run", "fragile.yaml", "--offline", cwd=desk, exits=1)
    assert "RuntimeError: broken" in first.stderr
    before = written(folder)
    (desk / "mended").touch()
    command("run", "fragile.yaml", "--offline", cwd=desk, exits=1)
    assert written(folder) == before
    retried = command("run", "fragile.yaml", "--offline", "--retry-failed", "-l", "Fragile", cwd=desk, exits=0)
    assert "2 of 2 tasks to compute" in retried.stderr
    after = written(folder)
    assert changed(before, after) == {key for key in before if key[1] == "Fragile"}
    assert after.keys() == before.keys()
    assert leftovers(folder) == []
    statuses = {column: record["status"] for (_, column, *_), record in contents(folder).items()}
    assert statuses == {"uni_log": "ok", "Fragile": "ok", "Raises": "error"}


def test_retried_tasks_have_no_record_until_they_are_computed(desk, command, monkeypatch):
    """Where the pool breaks, a record that is there counts as the result: it must not be the old one."""
    (desk / "raises.yaml").write_text(QUICK.replace("uni_squ", '"mine.py:Raises"'))
    command("run", "raises.yaml", "--offline", cwd=desk, exits=1)
    asked = []

    def nothing(self, tasks, workplace):
        found = Store(workplace.results).read()
        asked.extend((task.column, found.of(task), len(found)) for task in tasks)
        return iter(())

    monkeypatch.setattr(LocalExecutor, "run", nothing)
    done = command("run", "raises.yaml", "--offline", "--retry-failed", cwd=desk)
    assert asked == [("Raises", None, 2), ("Raises", None, 2)], "the two of uni_log are kept"
    assert done.returncode == 1
    assert "2 of 4 tasks have no number (2 missing)" in done.stderr


@pytest.mark.parametrize("error", [ResultsError("a full disk"), KeyboardInterrupt()], ids=["error", "Ctrl-C"])
def test_ended_run_leaves_no_half_written_file(desk, command, monkeypatch, error):
    """Where one worker cannot write, or the user stops the run, the others are ended while they write."""

    def ended_while_writing(self, tasks, workplace):
        scores = workplace.results / "scores"
        scores.mkdir()
        (scores / ".0123.npz.abcdefgh.tmp").touch()
        raise error

    monkeypatch.setattr(LocalExecutor, "run", ended_while_writing)
    assert command("run", "quick.yaml", "--offline", cwd=desk).returncode != 0
    assert not list((desk / "results").rglob(".*.tmp"))


# ---------------------------------------------------------------------- what is computed, and what is not


@pytest.fixture
def idle(monkeypatch):
    """Make every computation an error."""

    def refuse(self, tasks, workplace):
        raise AssertionError(f"nothing was to be computed, but {len(tasks)} tasks were")

    def forbid():
        monkeypatch.setattr(LocalExecutor, "run", refuse)

    return forbid


@pytest.fixture
def folder(desk, command):
    """Return the results of the quick experiment."""
    command("run", "quick.yaml", "--offline", "--jobs", 2, cwd=desk, exits=0)
    return desk / "results" / "quick"


def remove_lines(folder, *numbers):
    """Remove lines of the only packed file, counted from 0."""
    edit_lines(folder, dict.fromkeys(numbers, b""))


def edit_lines(folder, edits):
    """Replace lines of the only packed file by number; an empty text removes the line."""
    (path,) = folder.glob("records/*.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(edits.get(number, line) for number, line in enumerate(lines)))


def test_run_with_nothing_to_compute_says_so_and_writes_nothing(desk, folder, command, idle):
    before = snapshot(folder)
    idle()
    done = command("run", "quick.yaml", "--offline", cwd=desk, exits=0)
    said = done.stderr.splitlines()[0]
    assert re.fullmatch(
        r"0 of 4 tasks to compute: all have records from 20\d\d-\d\d-\d\d "
        r"\(--fresh computes them again, --out DIR elsewhere\)",
        said,
    )
    assert "written to" not in done.stdout
    assert snapshot(folder) == before


def test_run_with_nothing_to_compute_needs_no_folder_that_can_be_written(desk, folder, command, idle, monkeypatch):
    class ReadOnly(FileLock):
        def acquire(self, *arguments, **options):
            raise PermissionError(errno.EACCES, "Permission denied")

    before = snapshot(folder)
    table = command("report", "quick.yaml", cwd=desk).stdout
    idle()
    monkeypatch.setattr("opauc_bench.results.store.FileLock", ReadOnly)
    done = command("run", "quick.yaml", "--offline", cwd=desk, exits=0)
    assert done.stdout == table
    refused = command("run", "quick.yaml", "--offline", "--fresh", cwd=desk, exits=1).stderr
    assert "results/quick cannot be written: Permission denied" in refused
    assert "select another folder (run --out, report --to)" in refused
    assert snapshot(folder) == before


@pytest.mark.parametrize("options", [["--test", "corrected"], ["-l", "uni_log"], ["--retry-failed"], ["--quiet"]])
def test_options_do_not_make_a_run_with_nothing_to_compute_write(desk, folder, command, idle, options):
    before = snapshot(folder)
    idle()
    command("run", "quick.yaml", "--offline", *options, cwd=desk, exits=0)
    assert snapshot(folder) == before


def test_run_with_an_unavailable_dataset_and_nothing_else_to_compute_writes_nothing(desk, folder, command, idle):
    before = snapshot(folder)
    (desk / "quick.yaml").write_text(QUICK.replace("[wine]", "[wine, a9a]"))
    idle()
    done = command("run", "quick.yaml", "--offline", cwd=desk, exits=3)
    assert done.stderr.startswith("0 of 4 tasks to compute")
    assert "unavailable: a9a" in done.stderr
    assert snapshot(folder) == before


def test_lost_manifest_is_written_again_without_computing(desk, folder, command, idle):
    before = snapshot(folder)
    (folder / "manifest.json").unlink()
    idle()
    command("run", "quick.yaml", "--offline", cwd=desk, exits=0)
    assert snapshot(folder) == before


def test_manifest_that_names_other_data_than_the_records_of_this_machine_is_written_again(desk, folder, command, idle):
    """As after the data have changed and come back: there are records of both, and the table is of the present ones."""
    before = snapshot(folder)
    fingerprint = read_manifest(folder).datasets["wine"].fingerprint
    text = (folder / "manifest.json").read_text()
    (folder / "manifest.json").write_text(text.replace(fingerprint, "0" * 64))
    idle()
    command("run", "quick.yaml", "--offline", cwd=desk, exits=0)
    assert snapshot(folder) == before


def test_run_that_fails_before_computing_writes_nothing(desk, folder, command):
    before = snapshot(folder)
    (desk / "quick.yaml").write_text(QUICK.replace("[wine]", "[a9a]"))
    done = command("run", "quick.yaml", "--offline", cwd=desk, exits=3)
    assert "none of the datasets is available" in done.stderr
    assert snapshot(folder) == before


@pytest.mark.parametrize("out", ["new", "new/below"])
def test_run_that_fails_before_computing_leaves_no_new_folder(desk, command, out):
    (desk / "absent.yaml").write_text(QUICK.replace("[wine]", "[a9a]"))
    before = sorted(desk.rglob("*"))
    command("run", "absent.yaml", "--offline", "--out", out, cwd=desk, exits=3)
    assert sorted(desk.rglob("*")) == before


def test_a_published_table_without_a_common_cell_is_refused_before_computing(desk, command):
    (desk / "odd.yaml").write_text(f"{QUICK}report: {{published: aij2016_table2}}\n")
    done = command("run", "odd.yaml", "--offline", cwd=desk)
    assert (done.returncode, "no dataset and learner in common" in done.stderr) == (2, True)
    assert not (desk / "results/odd").exists()


def test_only_the_task_of_a_deleted_line_is_computed_again(desk, folder, command):
    before, known, shown = written(folder), contents(folder), tables(folder)
    remove_lines(folder, 2)
    done = command("run", "quick.yaml", "--offline", "--jobs", 2, cwd=desk)
    assert "1 of 4 tasks to compute" in done.stderr
    assert changed(before, written(folder)) == {list(before)[2]}
    assert contents(folder) == known
    assert tables(folder) == shown


def test_all_tasks_of_a_deleted_file_are_computed_again(desk, folder, command):
    known, shown = contents(folder), tables(folder)
    shutil.rmtree(folder / "records")
    assert "4 of 4 tasks to compute" in command("run", "quick.yaml", "--offline", cwd=desk).stderr
    assert contents(folder) == known
    assert tables(folder) == shown


def test_fresh_computes_everything_again(desk, folder, command):
    before, known = written(folder), contents(folder)
    said = command("run", "quick.yaml", "--offline", "--fresh", cwd=desk).stderr
    assert "4 of 4 tasks to compute" in said
    assert "note: --fresh removes 4 records; the tables stay as they are until the run ends" in said
    assert changed(before, written(folder)) == set(before)
    assert contents(folder) == known
    assert leftovers(folder) == []


def test_fresh_computes_only_what_the_command_line_names(desk, folder, command):
    before = written(folder)
    command("run", "quick.yaml", "--offline", "--fresh", "-l", "uni_log", cwd=desk, exits=0)
    after = written(folder)
    assert changed(before, after) == {key for key in before if key[1] == "uni_log"}
    assert after.keys() == before.keys()


def test_changed_experiment_computes_only_what_has_changed(desk, folder, command):
    before = written(folder)
    text = QUICK.replace("uni_squ", "{learner: uni_squ, grid: {eta: [0.25]}}").replace("no time", "other words")
    (desk / "quick.yaml").write_text(text)
    done = command("run", "quick.yaml", "--offline", "--jobs", 2, cwd=desk)
    assert "2 of 4 tasks to compute" in done.stderr
    after = written(folder)
    assert {key: after[key] for key in before} == before
    assert len(after) == 6
    status = " ".join(command("status", "quick.yaml", cwd=desk).stdout.split())
    assert "2 records orphaned" in status
    (desk / "quick.yaml").write_text(QUICK)
    assert "0 of 4 tasks to compute" in command("run", "quick.yaml", "--offline", cwd=desk).stderr


def test_definitions_of_orphaned_records_stay_in_the_manifest(desk, folder, command):
    (desk / "quick.yaml").write_text(QUICK.replace("uni_squ", "{learner: uni_squ, grid: {eta: [0.25]}}"))
    command("run", "quick.yaml", "--offline", cwd=desk, exits=0)
    manifest = read_manifest(folder)
    found = Store(folder).read().values()
    assert {record.definition for record in found} == set(manifest.definitions)
    assert {record.environment for record in found} == set(manifest.environments)
    assert len(manifest.definitions) == 3


def test_pack_prune_removes_orphaned_records_and_what_only_they_need(desk, folder, command):
    before = written(folder)
    changed_grid = QUICK.replace("uni_squ", "{learner: uni_squ, grid: {eta: [0.25]}}")
    (desk / "quick.yaml").write_text(changed_grid)
    # Before the changed config was run, nothing is orphaned: its records are those of the last run.
    assert command("pack", "quick.yaml", "--prune", cwd=desk).stdout == "results/quick/: nothing to pack\n"
    assert written(folder) == before
    command("run", "quick.yaml", "--offline", cwd=desk, exits=0)
    old = [record_of_line(line) for key, line in before.items() if key[1] == "uni_squ"]
    (desk / "results/other").mkdir()
    content = json.loads((folder / "manifest.json").read_text())
    (desk / "results/other/manifest.json").write_text(json.dumps({**content, "reused": {"quick": [old[0].id]}}))
    done = command("pack", folder, "--prune", cwd=desk)
    assert done.stdout.splitlines()[-1].startswith("1 orphaned record removed, 1 orphaned record kept, to which other")
    assert {record.id for record in old} & set(Store(folder).read()) == {old[0].id}
    shutil.rmtree(desk / "results/other")
    assert command("pack", folder, "--prune", cwd=desk).stdout.splitlines()[-1] == "1 orphaned record removed"
    assert len(written(folder)) == 4
    assert set(read_manifest(folder).definitions) == {record.definition for record in Store(folder).read().values()}
    assert "orphaned" not in command("status", "quick.yaml", cwd=desk).stdout
    command("verify", folder, "--sample", 0, cwd=desk, exits=0)


def test_pack_prune_keeps_records_whose_learner_has_changed(tmp_path, command):
    """Nothing else has their numbers, until the learner has been run as it is."""
    (tmp_path / "own.py").write_text("from opauc_bench.learners import UniLog\n\n\nclass Own(UniLog):\n    pass\n")
    (tmp_path / "quick.yaml").write_text(QUICK.replace("uni_squ", "{learner: own.py:Own, name: own}"))
    command("run", "quick.yaml", "--offline", cwd=tmp_path, exits=0)
    folder = tmp_path / "results/quick"
    before = written(folder)
    (tmp_path / "own.py").write_text((tmp_path / "own.py").read_text() + "# edited\n")
    assert "2 records orphaned" in command("status", "quick.yaml", cwd=tmp_path).stdout
    assert "nothing to pack" in command("pack", folder, "--prune", cwd=tmp_path).stdout
    assert written(folder) == before
    command("run", "quick.yaml", "--offline", cwd=tmp_path, exits=0)
    assert "2 orphaned records removed" in command("pack", folder, "--prune", cwd=tmp_path).stdout
    moved = tmp_path / "elsewhere/results/quick"
    moved.parent.mkdir(parents=True)
    folder.rename(moved)
    done = command("report", ".", cwd=moved, exits=0)
    assert done.stderr.startswith("note: own: shown as recorded: no file ")
    assert command("report", "../../../quick.yaml", "--out", ".", cwd=moved, exits=0).stdout == done.stdout
    beside = moved.rename(tmp_path / "beside")
    assert command("report", ".", cwd=beside, exits=0).stderr == ""


def test_pack_prune_keeps_records_of_a_renamed_column_whose_tasks_have_no_other(desk, folder, command):
    before = written(folder)
    (desk / "quick.yaml").write_text(QUICK.replace("uni_squ", "{learner: uni_squ, name: renamed}"))
    command("report", "quick.yaml", "--write", cwd=desk, exits=0)
    (desk / "quick.yaml").write_text(QUICK.replace("uni_squ", "{learner: uni_squ, name: renamed, grid: {eta: [0.25]}}"))
    command("run", "quick.yaml", "--offline", "-l", "uni_log", cwd=desk, exits=0)
    command("report", "quick.yaml", "--write", cwd=desk, exits=0)
    done = command("pack", folder, "--prune", cwd=desk, exits=0)
    assert "nothing to pack, 2 orphaned records kept, whose tasks have no other" in done.stdout
    assert written(folder) == before


@pytest.fixture
def reusing(desk, folder):
    """The folder of an experiment that takes its four records from ``folder``, beside it."""
    (desk / "second.yaml").write_text(QUICK + "reuse: [quick]\n")
    yield desk / "results" / "second"
    shutil.rmtree(desk / "results" / "second", ignore_errors=True)


@pytest.mark.parametrize("form", ["inside", "link"])
def test_folders_that_are_referred_to_are_beside_the_folder_however_it_is_written(
    desk, reusing, command, tmp_path, form
):
    command("run", "second.yaml", "--offline", cwd=desk, exits=0)
    shown = command("report", "second.yaml", cwd=desk, exits=0).stdout
    if form == "link":
        reusing.rename(tmp_path / "far")
        reusing.symlink_to(tmp_path / "far")
    where = {"cwd": reusing} if form == "inside" else {"cwd": desk}
    folder = "." if form == "inside" else "results/second"
    try:
        assert command("report", folder, **where, exits=0).stdout == shown
        assert "WRONG" not in command("verify", folder, "--sample", 0, **where, exits=0).stdout
        copied = command("pack", folder, "--self-contained", **where, exits=0).stdout
        assert "4 copied from other folders" in copied
    finally:
        if form == "link":
            reusing.unlink()


def test_a_failed_record_gives_way_to_a_number_of_another_folder(desk, reusing, command):
    (desk / "second.yaml").write_text(QUICK)
    command("run", "second.yaml", "--offline", cwd=desk, exits=0)
    record = next(iter(Store(reusing).read().values()))
    forge(reusing, record, {"status": "error", "message": "the disk was full"})
    (desk / "second.yaml").write_text(QUICK + "reuse: [quick]\n")
    done = command("run", "second.yaml", "--offline", cwd=desk, exits=0)
    assert "0 of 4 tasks to compute" in done.stderr
    assert read_manifest(reusing).reused == {"quick": (record.id,)}
    assert record.id not in Store(reusing).read()
    command("verify", "second.yaml", "--sample", 0, cwd=desk, exits=0)


def test_note_on_metrics_that_are_lost_when_a_run_computes_others(desk, reusing, command):
    scores = QUICK.replace("protocol: {", "protocol: {keep_scores: true, ")
    (desk / "second.yaml").write_text(scores)
    command("run", "second.yaml", "--offline", cwd=desk, exits=0)
    command("metrics", "second.yaml", "--add", "average_precision", cwd=desk, exits=0)
    (desk / "second.yaml").write_text(scores.replace("protocol: {", "protocol: {metrics: [auc, partial_auc@0.1], "))
    done = " ".join(command("run", "second.yaml", "--offline", cwd=desk, exits=0).stderr.split())
    assert "4 records that are computed again lose average_precision, which 'opauc-bench metrics' added" in done


def test_note_on_a_folder_with_results_of_another_experiment_of_the_same_name(desk, folder, command):
    (desk / "quick.yaml").write_text(
        QUICK.replace("Tasks of no time", "Other grids").replace("eta: [", "eta: [0.375, ")
    )
    done = " ".join(command("run", "quick.yaml", "--offline", cwd=desk, exits=0).stderr.split())
    assert "note: results/quick/ has 4 records of 'Tasks of no time', and none of quick.yaml as it is" in done


def test_a_manifest_without_a_newer_key_of_the_config_is_of_the_same_config(desk, folder, command):
    manifest = json.loads((folder / "manifest.json").read_text())
    del manifest["experiment"]["report"]["rope"]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    done = command("run", "quick.yaml", "--offline", cwd=desk)
    assert "0 of 4 tasks to compute" in done.stderr
    assert "has changed since" not in done.stderr


def test_a_config_that_only_looks_different_is_not_computed_and_the_note_says_how_to_render_it(desk, folder, command):
    before = tables(folder)
    (desk / "quick.yaml").write_text(QUICK.replace("Tasks of no time", "Another title"))
    done = command("run", "quick.yaml", "--offline", cwd=desk)
    assert "0 of 4 tasks to compute" in done.stderr
    said = " ".join(done.stderr.split())
    assert "note: quick.yaml has changed since the tables were written; opauc-bench report quick.yaml --write" in said
    assert tables(folder) == before
    command("report", "quick.yaml", "--write", cwd=desk, exits=0)
    assert "Another title" in (folder / "table.md").read_text()
    assert "note:" not in command("run", "quick.yaml", "--offline", cwd=desk).stderr


def test_more_trials_add_to_the_records(desk, folder, command):
    before = written(folder)
    (desk / "quick.yaml").write_text(QUICK.replace("trials: 1", "trials: 2"))
    assert "4 of 8 tasks to compute" in command("run", "quick.yaml", "--offline", "--jobs", 2, cwd=desk).stderr
    after = written(folder)
    assert changed(before, after) == {key for key in after if key[2] == 1}
    assert list(after) == sorted(after), "lines are sorted by column, trial and fold"


# ---------------------------------------------------------------------- damaged records


DAMAGES = {
    "cut off": lambda line: line[:-20],
    "empty object": lambda line: b"{}",
    "no text": lambda line: b"\xff\xfe\x00",
    "other number": lambda line: re.sub(rb'"auc":[01]\.\d', b'"auc":0.1', line, count=1),
    "other trial": lambda line: line.replace(b'"trial":0', b'"trial":1'),
    "empty list": lambda line: b"[]",
    "older make": lambda line: b'{"schema": 1}',
    "two lines in one": lambda line: line + line,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_line_is_named_and_only_its_task_is_computed_again(desk, folder, command, damage):
    before, known, shown = written(folder), contents(folder), tables(folder)
    edit_lines(folder, {1: DAMAGES[damage](list(before.values())[1]) + b"\n"})
    report = command("report", "quick.yaml", cwd=desk, exits=1)
    status = command("status", "quick.yaml", cwd=desk, exits=1)
    plan = command("plan", "quick.yaml", "--offline", cwd=desk, exits=0)
    for text in (report.stderr, status.stdout, plan.stdout):
        assert "results/quick/records/wine.jsonl, line 2: " in " ".join(text.split())
    assert "3 tasks done, 1 to do" in plan.stdout
    (hint,) = re.findall(r"^  try: opauc-bench (.*)", report.stderr, re.MULTILINE)
    done = command(*shlex.split(hint, comments=True), "--offline", cwd=desk, exits=0)
    problem = "its checksum is" if damage.startswith("other") else ""
    said = f"damaged, to be computed again: results/quick/records/wine.jsonl, line 2: {problem}"
    assert said in done.stderr
    assert "1 of 4 tasks to compute" in done.stderr
    assert changed(before, written(folder)) == {list(before)[1]}
    assert contents(folder) == known
    assert tables(folder) == shown


def test_report_lists_all_damaged_records_at_once(desk, folder, command):
    known = contents(folder)
    lines = list(written(folder).values())
    edit_lines(folder, {number: damage(lines[number]) + b"\n" for number, damage in zip(range(4), DAMAGES.values())})
    before = snapshot(folder)
    for options in (["report"], ["report", "--write"], ["report", "--to", desk / "elsewhere"], ["status"]):
        done = command(*options, "results/quick", cwd=desk)
        said = done.stdout + done.stderr
        assert done.returncode == 1
        assert re.findall(r"wine\.jsonl, line (\d): ", said) == ["1", "2", "3", "4"]
        assert "opauc-bench run quick.yaml" in said
        assert options == ["status"] or (done.stdout == "" and "error: 4 damaged records:" in said)
    assert snapshot(folder) == before
    assert not (desk / "elsewhere").exists()
    done = command("run", "quick.yaml", "--offline", cwd=desk)
    assert "4 of 4 tasks to compute" in done.stderr
    assert contents(folder) == known
    command("report", "quick.yaml", cwd=desk, exits=0)


def test_damaged_loose_record_is_computed_again(desk, folder, command):
    before, known = written(folder), contents(folder)
    key = list(before)[3]
    remove_lines(folder, 3)
    (folder / "running").mkdir()
    (folder / f"running/{key[-1]}.json").write_bytes(before[key][:100])
    command("report", "quick.yaml", cwd=desk, exits=1)
    done = command("run", "quick.yaml", "--offline", cwd=desk)
    assert f"damaged, to be computed again: results/quick/running/{key[-1]}.json" in done.stderr
    assert "1 of 4 tasks to compute" in done.stderr
    assert changed(before, written(folder)) == {key}
    assert contents(folder) == known
    assert leftovers(folder) == []


def leave_conflict_marks(folder, lines):
    edit_lines(folder, {0: b"<<<<<<< HEAD\n" + lines[0] + b"\n=======\n", 1: lines[1] + b"\n>>>>>>> theirs\n"})


def add_an_empty_object(folder, lines):
    edit_lines(folder, {3: lines[3] + b"\n\n{}\n"})


def add_another_record_of_an_id(folder, lines):
    edit_lines(
        folder, {3: lines[3] + b"\n" + forged(lines[0], lambda content: content.update(message="other")) + b"\n"}
    )


def stand_in_another_file(folder, lines):
    (folder / "records/breast_cancer.jsonl").write_bytes(lines[0] + b"\n")


def stand_under_another_id(folder, lines):
    (folder / "running").mkdir()
    (folder / "running/0123456789abcdef.json").write_bytes(lines[0] + b"\n")


def orphan_damaged(folder, lines):
    (folder / "records/breast_cancer.jsonl").write_bytes(lines[0][:-9] + b"\n")


def orphan_damaged_while_running(folder, lines):
    (folder / "running").mkdir()
    (folder / "running/0123456789abcdef.json").write_bytes(lines[0][:-9])


def damaged_beside_the_packed_one(folder, lines):
    (folder / "running").mkdir()
    (folder / f"running/{record_of_line(lines[0]).id}.json").write_text("{")


@pytest.mark.parametrize(
    "damage",
    [
        leave_conflict_marks,
        add_an_empty_object,
        add_another_record_of_an_id,
        stand_in_another_file,
        stand_under_another_id,
        orphan_damaged,
        orphan_damaged_while_running,
        damaged_beside_the_packed_one,
    ],
)
def test_run_removes_damaged_lines_for_which_nothing_is_to_compute(desk, folder, command, idle, damage):
    """Report refuses such a folder and names this command, so it has to help."""
    before = snapshot(folder)
    damage(folder, list(written(folder).values()))
    refused = command("report", "quick.yaml", cwd=desk, exits=1)
    assert "opauc-bench run quick.yaml" in refused.stderr
    assert "WRONG" in command("verify", folder, "--sample", 0, cwd=desk).stdout
    idle()
    done = command("run", "quick.yaml", "--offline", cwd=desk, exits=0)
    assert "damaged" in done.stderr
    assert snapshot(folder) == before
    command("report", "quick.yaml", cwd=desk, exits=0)


# ---------------------------------------------------------------------- records of other folders


@pytest.fixture
def borrower(desk, folder, command):
    """Return a desk with an experiment that reuses the records of quick for a column of another name, its folder, and
    that of quick.
    """
    text = QUICK.replace("uni_log, uni_squ", "{learner: uni_log, name: mine}") + "reuse: [quick, nowhere]\n"
    (desk / "other.yaml").write_text(text)
    return desk, desk / "results" / "other", folder


@pytest.fixture
def borrowed(borrower, command):
    """Return the same after a run."""
    command("run", "other.yaml", "--offline", cwd=borrower[0], exits=0)
    return borrower


def test_reused_records_are_referred_to_and_not_copied(borrower, command, idle):
    desk, folder, lender = borrower
    lent = snapshot(lender)
    plan = command("plan", "other.yaml", "--offline", cwd=desk)
    assert "2 tasks done, 0 to do" in plan.stdout
    idle()
    command("run", "other.yaml", "--offline", cwd=desk, exits=0)
    theirs = [record for record in contents(lender).values() if record["column"] == "uni_log"]
    assert read_manifest(folder).reused == {"quick": tuple(sorted(record["id"] for record in theirs))}
    assert contents(folder) == {}
    assert not (folder / "records").exists()
    rows = rows_of(folder / "folds.csv")
    assert [row["learner"] for row in rows] == ["mine", "mine"]
    assert [float(row["auc"]) for row in rows] == [record["outcome"]["metrics"]["auc"] for record in theirs]
    assert snapshot(lender) == lent


def test_plan_finds_reused_records_before_data_are_prepared(borrower, command, monkeypatch, tmp_path):
    monkeypatch.setitem(command.environment, "OPAUC_BENCH_CACHE", str(tmp_path / "empty"))
    plan = command("plan", "other.yaml", "--offline", cwd=borrower[0])
    assert "2 tasks done, 0 to do" in plan.stdout
    assert not (tmp_path / "empty").exists()


def test_run_with_all_records_in_another_folder_writes_nothing_the_second_time(borrowed, command, idle):
    desk, folder, _ = borrowed
    before = snapshot(folder)
    idle()
    done = command("run", "other.yaml", "--offline", cwd=desk)
    assert done.stderr.startswith("0 of 2 tasks to compute: all have records from ")
    assert snapshot(folder) == before


def test_missing_folder_of_reused_records_is_an_error_that_names_the_command(borrowed, command):
    """Nothing is printed from half of the records."""
    desk, folder, lender = borrowed
    shown = tables(folder)
    shutil.rmtree(lender)
    before = snapshot(folder)
    for name in ("report", "pack"):
        refused = command(name, "other.yaml", cwd=desk, exits=1)
        words = " ".join(refused.stderr.split())
        assert "results/other/ refers to 2 records of results/quick/, which does not exist" in words
        assert "opauc-bench run other.yaml" in words
    assert snapshot(folder) == before
    status = " ".join(command("status", "other.yaml", cwd=desk).stdout.split())
    assert "2 records missing in results/quick/, to which this folder refers" in status
    done = command("run", "other.yaml", "--offline", cwd=desk, exits=0)
    assert "2 of 2 tasks to compute" in done.stderr
    assert [record["column"] for record in contents(folder).values()] == ["mine", "mine"]
    assert read_manifest(folder).reused == {}
    assert tables(folder) == shown
    command("report", "other.yaml", cwd=desk, exits=0)


def test_single_missing_reused_record_is_computed_here_and_the_others_stay_references(borrowed, command):
    desk, folder, lender = borrowed
    shown, first = tables(folder), next(iter(contents(lender)))
    remove_lines(lender, 0)
    refused = command("report", "other.yaml", cwd=desk, exits=1)
    assert "refers to 1 record of results/quick/, which does not have them" in " ".join(refused.stderr.split())
    assert "WRONG" in command("verify", folder, "--sample", 0, cwd=desk, exits=1).stdout
    assert "1 of 2 tasks to compute" in command("run", "other.yaml", "--offline", cwd=desk).stderr
    assert [key[-1] for key in contents(folder)] == [first[-1]]
    assert [len(ids) for ids in read_manifest(folder).reused.values()] == [1]
    assert tables(folder) == shown


def test_damaged_reused_record_is_computed_here(borrowed, command):
    desk, folder, lender = borrowed
    shown = tables(folder)
    edit_lines(lender, {1: list(written(lender).values())[1].replace(b'"ok"', b'"ko"') + b"\n"})
    damaged = snapshot(lender)
    refused = command("report", "other.yaml", cwd=desk)
    assert (refused.returncode, "results/quick/records/wine.jsonl, line 2" in refused.stderr) == (1, True)
    assert "1 of 2 tasks to compute" in command("run", "other.yaml", "--offline", cwd=desk).stderr
    assert tables(folder) == shown
    command("report", "other.yaml", cwd=desk, exits=0)
    assert snapshot(lender) == damaged


def test_damage_in_another_folder_that_is_not_referred_to_does_not_matter(borrowed, command, idle):
    desk, folder, lender = borrowed
    lines = list(written(lender).values())
    edit_lines(lender, {2: b"\xff" + lines[2] + b"\n", 3: lines[3][:-9] + b"\n"})
    before = snapshot(folder)
    command("report", "other.yaml", cwd=desk, exits=0)
    idle()
    command("run", "other.yaml", "--offline", cwd=desk, exits=0)
    assert snapshot(folder) == before


def test_fresh_computes_reused_records_here(borrowed, command):
    desk, folder, lender = borrowed
    lent, shown = snapshot(lender), tables(folder)
    done = command("run", "other.yaml", "--offline", "--fresh", cwd=desk)
    assert "2 of 2 tasks to compute" in done.stderr
    assert len(contents(folder)) == 2
    assert read_manifest(folder).reused == {}
    assert tables(folder) == shown
    assert snapshot(lender) == lent


def test_reference_to_a_record_that_is_itself_reused_names_the_folder_that_has_it(borrowed, command, idle):
    desk, folder, _ = borrowed
    text = QUICK.replace("uni_log, uni_squ", "{learner: uni_log, name: third}") + "reuse: [other]\n"
    (desk / "third.yaml").write_text(text)
    idle()
    command("run", "third.yaml", "--offline", cwd=desk, exits=0)
    assert read_manifest(desk / "results/third").reused == read_manifest(folder).reused
    ours, theirs = (rows_of(path / "folds.csv") for path in (desk / "results/third", folder))
    assert [row["auc"] for row in ours] == [row["auc"] for row in theirs]


def test_absent_folder_under_reuse_is_named(desk, command):
    (desk / "misspelt.yaml").write_text(QUICK.replace("uni_log, uni_squ", "uni_log") + "reuse: [qiuck]\n")
    said = "results/qiuck/, named under reuse, does not exist: none of its records are used"
    assert said in " ".join(command("plan", "misspelt.yaml", "--offline", cwd=desk).stdout.split())
    assert f"note: {said}\n" in command("run", "misspelt.yaml", "--offline", cwd=desk).stderr


def test_run_into_the_folder_of_another_experiment_keeps_its_records_and_prints_a_note(desk, command):
    for name, learner in {"first": "uni_log", "second": "uni_squ"}.items():
        (desk / f"{name}.yaml").write_text(QUICK.replace("uni_log, uni_squ", learner))
    first = command("run", "first.yaml", "--offline", "--out", "shared", cwd=desk)
    again = command("run", "first.yaml", "--offline", "--out", "shared", cwd=desk)
    second = command("run", "second.yaml", "--offline", "--out", "shared", cwd=desk)
    assert "note:" not in first.stderr + again.stderr
    assert "note: shared/ has the results of first.yaml: its records stay, but the manifest" in second.stderr
    assert second.returncode == 0
    assert [column for _, column, *_ in contents(desk / "shared")] == ["uni_log"] * 2 + ["uni_squ"] * 2


def test_run_of_another_experiment_with_the_same_tasks_writes_nothing(desk, command, idle):
    for name in ("first", "second"):
        (desk / f"{name}.yaml").write_text(QUICK)
    command("run", "first.yaml", "--offline", "--out", "shared", cwd=desk, exits=0)
    before = snapshot(desk / "shared")
    idle()
    command("run", "second.yaml", "--offline", "--out", "shared", cwd=desk, exits=0)
    assert snapshot(desk / "shared") == before


def test_failed_records_of_another_experiment_are_not_reused(desk, command):
    (desk / "a.yaml").write_text(QUICK.replace("uni_log, uni_squ", '"mine.py:Fragile"'))
    (desk / "b.yaml").write_text(QUICK.replace("uni_log, uni_squ", '"mine.py:Fragile"') + "reuse: [a]\n")
    command("run", "a.yaml", "--offline", cwd=desk, exits=1)
    assert "0 tasks done, 2 to do" in command("plan", "b.yaml", "--offline", cwd=desk).stdout
    (desk / "mended").touch()
    command("run", "b.yaml", "--offline", cwd=desk, exits=0)


def test_two_columns_of_the_same_computation_share_one_record(desk, command):
    (desk / "twins.yaml").write_text(QUICK.replace("uni_squ", "{learner: uni_log, name: again}"))
    done = command("run", "twins.yaml", "--offline", "--jobs", 2, cwd=desk, exits=0)
    assert "2 of 4 tasks to compute" in done.stderr
    folder = desk / "results" / "twins"
    assert len(written(folder)) == 2
    rows = rows_of(folder / "folds.csv")
    assert [row["learner"] for row in rows] == ["uni_log", "uni_log", "again", "again"]
    assert [row["auc"] for row in rows[:2]] == [row["auc"] for row in rows[2:]]
    assert all(0.9 < float(row["auc"]) <= 1 for row in rows)
    assert "2/2" in command("status", "twins.yaml", cwd=desk).stdout.split("again")[-1]


@pytest.mark.parametrize("column", ["uni_log", "again"])
def test_record_computed_for_one_column_is_not_computed_again_for_its_twin(desk, command, idle, column):
    (desk / "twins.yaml").write_text(QUICK.replace("uni_squ", "{learner: uni_log, name: again}"))
    command("run", "twins.yaml", "--offline", "-l", column, cwd=desk, exits=0)
    idle()
    done = command("run", "twins.yaml", "--offline", cwd=desk, exits=0)
    assert done.stderr.startswith("0 of 4 tasks to compute: all have records from ")


def test_lost_record_of_twins_is_computed_once_and_shown_in_both(desk, command):
    (desk / "twins.yaml").write_text(QUICK.replace("uni_squ", "{learner: uni_log, name: again}"))
    command("run", "twins.yaml", "--offline", cwd=desk, exits=0)
    folder = desk / "results" / "twins"
    before, shown = written(folder), tables(folder)
    remove_lines(folder, 1)
    done = command("run", "twins.yaml", "--offline", cwd=desk)
    assert "1 of 4 tasks to compute" in done.stderr
    assert changed(before, written(folder)) == {list(before)[1]}
    assert tables(folder) == shown


def test_learner_with_all_axes_fixed_has_one_setting(desk, command):
    (desk / "fixed.yaml").write_text(
        QUICK.replace("[uni_log, uni_squ]", "[uni_log, {learner: opauc, params: {eta: 0.25, lambda: 0.5}}]")
    )
    command("run", "fixed.yaml", "--offline", "--jobs", 2, cwd=desk, exits=0)
    fixed = [record for record in contents(desk / "results" / "fixed").values() if record["column"] == "opauc"]
    assert [record["outcome"]["selected"] for record in fixed] == [{"eta": 0.25, "lam": 0.5}] * 2
    assert [record["outcome"]["selection"]["n_settings"] for record in fixed] == [1, 1]


def test_learner_that_fails_on_the_rows_that_load_it_still_runs(desk, command):
    (desk / "particular.yaml").write_text(QUICK.replace("uni_squ", '"mine.py:Particular"'))
    command("run", "particular.yaml", "--offline", "--jobs", 2, cwd=desk, exits=0)


def test_second_run_in_the_same_folder_at_the_same_time_is_refused(desk, folder, command):
    with open(folder / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write("4242")
        lock.flush()
        second = command("run", "quick.yaml", "--offline", cwd=desk, exits=1)
        assert "another run (process 4242) is at work in this folder" in second.stderr
        assert "--out" in second.stderr
        assert command("report", "quick.yaml", cwd=desk).returncode == 0, "reading is allowed"
        told = "a run (process 4242) is at work in this folder: 0 records not packed yet"
        assert told in " ".join(command("status", "quick.yaml", cwd=desk, exits=0).stdout.split())
        unpack(folder)
        status = " ".join(command("status", "quick.yaml", cwd=desk, exits=0).stdout.split())
        assert told.replace("0 records", "4 records") in status
        assert "interrupted" not in status
    assert "4 records of an interrupted run" in " ".join(command("status", "quick.yaml", cwd=desk).stdout.split())
    command("run", "quick.yaml", "--offline", cwd=desk, exits=0)
    assert (folder / ".lock").read_text() == str(os.getpid())


# ---------------------------------------------------------------------- one task, in this process


@pytest.fixture(scope="module")
def wine(environment):
    return prepare(load_catalogue()["wine"], Sources(Path(environment["OPAUC_BENCH_CACHE"]), offline=True))


def task_of(wine, learner, grid, **params):
    return records.task_of(
        column="mine",
        learner=learner,
        trial=1,
        fold=2,
        fingerprint=wine.fingerprint,
        definition={"learner": learner},
        params=params,
        grid=grid,
        protocol=CrossValidation(folds=3, inner_folds=3, seed=5),
    )


def workplace_of(wine, folder, **limits):
    return WorkerConfig(results=folder, prepared={"wine": str(wine.folder)}, **limits)


def test_task_equals_grid_search_refit_and_test_written_out_here(wine, tmp_path):
    etas = (2.0**-10, 2.0**-5, 1.0)
    found = compute(task_of(wine, "oam_seq", {"eta": etas}, buffer_size=10), workplace_of(wine, tmp_path))
    X, y = np.asarray(wine.X), wine.y
    fold = outer_fold(y, trial=1, fold=2, folds=3, stratified=True, seed=5, dataset="wine")
    inner = stratified_folds(y[fold.train], 3, np.random.default_rng([fold.seed, 1]))

    def auc(eta, train, test):
        learner = OAMSeq(eta=eta, buffer_size=10, random_state=fold.seed).fit(X[train], y[train])
        return roc_auc_score(y[test], learner.decision_function(X[test]))

    means = [
        np.mean([auc(eta, fold.train[inner != part], fold.train[inner == part]) for part in range(3)]) for eta in etas
    ]
    best = etas[int(np.argmax(np.round(means, 12)))]
    outcome = found["outcome"]
    assert found["status"] == "ok"
    assert outcome["selected"] == {"eta": best}
    assert outcome["selection"]["auc"] == pytest.approx(means, abs=1e-12)
    assert outcome["metrics"]["auc"] == pytest.approx(auc(best, fold.train, fold.test), abs=1e-12)
    assert (outcome["n_train"], outcome["n_test"]) == (len(fold.train), len(fold.test))


def test_setting_that_diverges_in_the_refit_is_replaced_by_the_next(wine, place, tmp_path):
    task = task_of(wine, f"{place / 'mine.py'}:StumblesLate", {"eta": (1.0, 0.5, 0.25)})
    found = compute(task, workplace_of(wine, tmp_path))
    assert found["status"] == "ok"
    outcome = found["outcome"]
    assert outcome["selection"]["n_diverged"] == 0, "the inner training sets have fewer than 100 rows"
    assert outcome["selected"] == {"eta": 0.5}
    assert outcome["diverged_in_refit"] == [{"eta": 1.0}]


def test_task_has_diverged_if_every_setting_diverges_in_the_refit(wine, place, tmp_path):
    task = task_of(wine, f"{place / 'mine.py'}:StumblesLate", {"eta": (1.0,)})
    found = compute(task, workplace_of(wine, tmp_path))
    assert found["status"] == "diverged"
    assert found["outcome"]["diverged_in_refit"] == [{"eta": 1.0}]


def test_inner_folds_of_an_interrupted_task_are_kept_and_used(wine, place, tmp_path):
    address = f"{place / 'mine.py'}:StopsAtTheThird"
    task, store = task_of(wine, address, {"eta": (0.5, 0.25)}), Store(tmp_path)
    left = {"inner_aucs": {"0": [0.25, None]}, "seconds": 60.0, "cpu_seconds": 30.0}
    store.write_partial(task, left)
    load_learner(task)
    get_learner(address).passes = 0
    with pytest.raises(RuntimeError, match="the third pass"):
        compute(task, workplace_of(wine, tmp_path), store)
    kept = store.read_partial(task)
    assert list(kept["inner_aucs"]) == ["0", "1", "2"]
    assert kept["inner_aucs"]["0"] == [0.25, None]
    assert 60.0 < kept["seconds"] < 90.0
    assert 30.0 < kept["cpu_seconds"] < 60.0
    record = run_task(task, workplace_of(wine, tmp_path))
    assert record.ok
    assert np.isnan(record.selection.auc[1]), "the inner fold that was left counts"
    assert record.timing.selection_cpu_seconds > 30.0
    assert store.read_partial(task) == {}
    assert record_to_line(store.read_loose(task)) == record_to_line(record)


@pytest.mark.parametrize(("options", "used"), [((), True), (("--fresh",), False)], ids=["resumed", "fresh"])
def test_a_run_uses_inner_folds_that_an_interrupted_one_has_left_unless_it_is_fresh(desk, command, options, used):
    session = Session.open(
        desk / "quick.yaml", sources=Sources(desk / "cache", offline=True), out=desk / "results/quick"
    )
    local = LocalData(session.catalogue, session.sources)
    local.prepare("wine", lambda text: None)
    task = plan_locally(Recorded.read(session), local).tasks[0]
    Store(session.folder).write_partial(task, {"inner_aucs": {"0": [0.25, None]}, "seconds": 6.0, "cpu_seconds": 6.0})
    command("run", "quick.yaml", "--offline", "--jobs", 1, *options, cwd=desk, exits=0)
    assert np.isnan(Store(session.folder).read()[task.id].selection.auc).any() == used


def test_time_limit_counts_what_an_interrupted_run_has_used(wine, tmp_path):
    task, store = task_of(wine, "uni_log", {"eta": (0.5,)}), Store(tmp_path)
    store.write_partial(task, {"inner_aucs": {}, "seconds": 100.0})
    record = run_task(task, workplace_of(wine, tmp_path, seconds=50.0))
    assert (record.status, record.message) == ("timeout", "time limit of 50 s reached")
    assert run_task(task, workplace_of(wine, tmp_path, seconds=50.0)).ok, "a retry starts from nothing"


def test_other_data_than_planned_is_an_error(wine, tmp_path):
    task = task_of(wine, "uni_log", {"eta": (0.5,)})
    record = run_task(dataclasses.replace(task, fingerprint="0" * 64), workplace_of(wine, tmp_path))
    assert record.status == "error"
    assert "expected data with fingerprint 000" in record.message


def test_record_refers_to_its_definition_and_environment(wine, tmp_path):
    task = task_of(wine, "uni_log", {"eta": (0.5,)})
    record = run_task(task, workplace_of(wine, tmp_path))
    assert record.environment == environment_id() == task_id(environment_here())
    assert environment_here()["numpy"] == np.__version__
    parts = {"python", "opauc-bench", "scipy", "scikit-learn", "numba", "processor", "cpu_name", "blas"}
    assert parts < set(environment_here())
    assert record.definition == task_id({"learner": "uni_log"})
    assert record.timing.wall_seconds > 0
    assert record.timing.peak_rss_bytes > 1e7


# ---------------------------------------------------------------------- limits


def test_memory_limit_is_enforced_and_lifted_afterwards():
    with memory_limit(1e8):
        small = np.ones(10**6)
        with pytest.raises(MemoryError):
            np.ones(10**8)
    assert small.sum() == 10**6
    assert np.ones(4 * 10**7).sum() == 4 * 10**7
    with memory_limit(None):
        assert np.ones(4 * 10**7).sum() == 4 * 10**7


def test_deadline_is_checked_on_each_tick():
    Deadline(None, used=1e9).check()
    Deadline(100.0, used=99.0).check(17)
    with pytest.raises(TimeLimitReached, match="time limit of 100 s reached"):
        Deadline(100.0, used=100.5).check()


# ---------------------------------------------------------------------- progress


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.4, "0 s"),
        (99.4, "99 s"),
        (99.6, "2 min"),
        (600, "10 min"),
        (5399, "90 min"),
        (5400, "1.5 h"),
        (86400, "24.0 h"),
        (172800, "2.0 d"),
        (1e6, "11.6 d"),
    ],
)
def test_durations_in_words(seconds, text):
    assert duration(seconds) == text


def planned(dataset, column, fold, seconds):
    return Task(dataset, column, column, 0, fold, "f" * 64, {"learner": column}, {}, {}, {}, seconds, 0.0)


def taken(task, seconds, status="ok"):
    """Return a record that took so many CPU seconds, or does not say so."""
    timing = {"selection_cpu_seconds": seconds * 0.75, "fit_cpu_seconds": seconds * 0.25} if seconds else {}
    outcome = {"kind": "sweep", "columns": {"auc": [0.5], "sparse_ratio": [0.0]}}
    content = {"status": status, "message": "why", "timing": timing, "outcome": outcome}
    return make_record(task, content, environment_id())


def test_column_that_takes_less_than_estimated_tells_little_elsewhere():
    estimate = Estimate()
    estimate.learn(planned("a", "x", 0, 10.0), taken(planned("a", "x", 0, 10.0), 1.0))
    assert estimate.seconds([planned("a", "x", 1, 30.0)]) == pytest.approx(3.0)
    assert estimate.seconds([planned("b", "x", 1, 30.0)]) == pytest.approx(15.0), "the column on another dataset"
    assert estimate.seconds([planned("a", "y", 1, 30.0)]) == pytest.approx(30.0), "another column of the dataset"


def test_estimate_is_corrected_by_finished_tasks_of_the_same_kind():
    estimate, slow, other = Estimate(), planned("a", "x", 1, 10.0), planned("b", "y", 1, 1.0)
    done = {kind: planned(*kind, 0, seconds) for kind, seconds in {("a", "x"): 10.0, ("b", "y"): 1.0}.items()}
    assert estimate.seconds([slow, other]) == 11.0
    estimate.learn(done["a", "x"], taken(done["a", "x"], 20.0))
    assert estimate.seconds([slow]) == pytest.approx(20.0)
    assert estimate.seconds([other]) == pytest.approx(2.0), "where other columns are slow, it may be the machine"
    estimate.learn(done["b", "y"], taken(done["b", "y"], 9.0, "timeout"))
    estimate.learn(done["b", "y"], taken(done["b", "y"], None))
    assert estimate.seconds([other]) == pytest.approx(2.0), "only finished tasks teach"
    estimate.learn(done["b", "y"], taken(done["b", "y"], 0.5))
    assert estimate.seconds([other]) == pytest.approx(0.5)


def test_tables_are_written_again_after_a_learner_was_changed_and_changed_back(desk, command):
    (desk / "quick.yaml").write_text(QUICK.replace("uni_squ", '"mine.py:Hebb"'))
    learner = desk / "mine.py"
    first = learner.read_text()
    run = ("run", "quick.yaml", "--offline")
    command(*run, cwd=desk, exits=0)
    expected = tables(desk / "results/quick")
    learner.write_text(first.replace("+= ", "-= "))
    assert learner.read_text() != first
    command(*run, cwd=desk, exits=0)
    assert tables(desk / "results/quick") != expected
    learner.write_text(first)
    done = command(*run, cwd=desk, exits=0)
    assert "0 of 4 tasks to compute" in done.stderr
    assert "written to results/quick/" in done.stdout
    assert tables(desk / "results/quick") == expected
    command("verify", "results/quick", "--sample", 0, cwd=desk, exits=0)
    assert "written to" not in command(*run, cwd=desk, exits=0).stdout
    (desk / "results/quick/folds.csv").unlink()  # as in a clone: it is not committed
    assert "written to" not in command(*run, cwd=desk, exits=0).stdout


def test_plan_and_status_name_a_dataset_whose_size_is_not_known(desk, command):
    catalogue = '\ncatalogue: {far: {source: {svmlight: "http://127.0.0.1:9/x.svm"}}}\n'
    (desk / "quick.yaml").write_text(catalogue + QUICK.replace("[wine]", "[wine, far]"))
    said = "rows and features are known after the download only: far."
    done = command("plan", "quick.yaml", cwd=desk, exits=0)
    assert re.search(r"^far +download +0( +\?){3}$", done.stdout, re.MULTILINE)
    assert said in " ".join(done.stdout.split())
    assert "To download: far of unknown size." in done.stdout
    command("run", "quick.yaml", "--offline", cwd=desk, exits=3)
    assert said in " ".join(command("plan", "quick.yaml", cwd=desk, exits=0).stdout.split())
    assert "far" not in command("plan", "quick.yaml", "-d", "wine", cwd=desk, exits=0).stdout
    status = command("status", "quick.yaml", cwd=desk, exits=0).stdout
    assert re.search(r"^far +0/2 +0/2$", status, re.MULTILINE)
    assert "unavailable in the last run: far; opauc-bench run quick.yaml tries again" in status


def test_plan_and_run_estimate_a_dataset_alike_alone_and_with_others(desk, command):
    text = QUICK.replace("[wine]", "[wine, breast_cancer]")
    (desk / "quick.yaml").write_text(text)
    command("run", "quick.yaml", "--offline", "--dataset", "wine", cwd=desk, exits=0)
    folder = desk / "results/quick"
    for record in Store(folder).read().values():
        forge(folder, record, {"timing.fit_cpu_seconds": 4000.0})
    planned = re.compile(r"breast_cancer .* 4 +([\d.]+ .+?)  ")
    (alone,) = planned.findall(command("plan", "quick.yaml", "--offline", "-d", "breast_cancer", cwd=desk).stdout)
    assert planned.findall(command("plan", "quick.yaml", "--offline", cwd=desk).stdout) == [alone]
    assert alone.split()[1] in ("h", "d"), "a fold of the other dataset took an hour"
    done = command("run", "quick.yaml", "--offline", "--jobs", 1, "-d", "breast_cancer", cwd=desk, exits=0)
    assert f"4 of 4 tasks to compute, up to {alone} on 1 worker" in done.stderr


def test_without_a_terminal_there_is_a_line_every_few_seconds(capsys, monkeypatch):
    tasks = [planned("a", "x", fold, 10.0) for fold in range(3)]
    now = [100.0]
    monkeypatch.setattr("opauc_bench.commands.progress.time.monotonic", lambda: now[0])
    with Progress(tasks, 2, Estimate()) as progress:
        progress.done(tasks[0], taken(tasks[0], 10.0))
        now[0] += 11.0
        progress.done(tasks[1], taken(tasks[1], 10.0))
        progress.done(tasks[2], taken(tasks[2], 1.0, "timeout"))
    assert capsys.readouterr().err.splitlines() == [
        "2/3 tasks, 0 failed, about 5 s left (a x trial 1 fold 2 done)",
        "a x trial 1 fold 3: timeout: why",
    ]


def test_without_a_terminal_there_is_a_line_every_minute_while_no_task_finishes(tmp_path, capsys, monkeypatch):
    tasks = [planned("a", "x", fold, 600.0) for fold in range(3)]
    now, store = [100.0], Store(tmp_path)
    monkeypatch.setattr("opauc_bench.commands.progress.time.monotonic", lambda: now[0])
    monkeypatch.setattr("opauc_bench.commands.progress._SECONDS_BETWEEN_LOOKS", 3600.0)
    with Progress(tasks, 1, Estimate(), store) as progress:
        now[0] += 59.0
        progress._look()
        now[0] += 1.0
        progress._look()
        note = store.claim(tasks[1], 1)
        begun = time.time() - 120.0
        os.utime(note, (begun, begun))
        now[0] += 60.0
        progress._look()
        progress._look()
        progress.done(tasks[1], taken(tasks[1], 600.0))
        store.clear_claim(tasks[1])
        now[0] += 180.0
        progress._look()
    assert capsys.readouterr().err.splitlines() == [
        "0/3 tasks, 0 failed, about 30 min left (loading data, compiling kernels)",
        "0/3 tasks, 0 failed, about 28 min left (a x trial 1 fold 2, running for 2 min)",
        "1/3 tasks, 0 failed, about 20 min left (none has finished for 3 min)",
    ]


def test_there_is_no_estimate_before_a_task_of_an_estimator_has_finished(capsys, monkeypatch):
    monkeypatch.setattr("opauc_bench.commands.progress._SECONDS_BETWEEN_LINES", 0.0)
    known = planned("a", "x", 0, 10.0)
    unknown = [dataclasses.replace(planned("a", "y", fold, 0.0), learner=ESTIMATOR) for fold in range(2)]
    with Progress([known, *unknown], 1, Estimate()) as progress:
        progress.done(known, taken(known, 10.0))
        progress.done(unknown[0], taken(unknown[0], 7.0))
    assert capsys.readouterr().err.splitlines()[0] == "1/3 tasks, 0 failed (a x trial 1 fold 1 done)"


def test_quiet_prints_failures_only(capsys, monkeypatch):
    monkeypatch.setattr("opauc_bench.commands.progress._SECONDS_BETWEEN_LINES", 0.0)
    tasks = [planned("a", "x", fold, 10.0) for fold in range(2)]
    with Progress(tasks, 1, Estimate(), quiet=True) as progress:
        progress.done(tasks[0], taken(tasks[0], 10.0))
        progress.done(tasks[1], taken(tasks[1], 10.0, "error"))
    assert capsys.readouterr().err.splitlines() == ["a x trial 1 fold 2: error: why"]


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("variable", "value"), [(None, None), ("NO_COLOR", "1"), ("TERM", "dumb")])
def test_on_a_terminal_there_is_a_bar_unless_it_is_not_wanted(monkeypatch, variable, value):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    if variable:
        monkeypatch.setenv(variable, value)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    tasks = [planned("a", "[b]x", fold, 10.0) for fold in range(2)]
    with Progress(tasks, 1, Estimate()) as progress:
        progress.done(tasks[0], taken(tasks[0], 10.0, "error"))
        progress.done(tasks[1], taken(tasks[1], 10.0))
    shown = terminal.getvalue()
    assert "a [b]x trial 1 fold 1: error: why" in shown
    assert ("2/2" in shown) == ("\x1b[" in shown) == (variable is None)
