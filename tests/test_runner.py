"""The runner with real worker processes: what is lost when they are killed, what fails, and what is computed again."""

import fcntl
import io
import json
import os
import random
import shlex
import shutil
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from opauc_bench.data import Sources, load_catalogue, prepare
from opauc_bench.evaluation.splits import outer_fold, stratified_folds
from opauc_bench.learners import OAMSeq, get_learner
from opauc_bench.plan import Task
from opauc_bench.runner.execute import LocalExecutor
from opauc_bench.runner.limits import Deadline, TimeLimitReached, memory_limit
from opauc_bench.runner.progress import Estimate, Progress, duration
from opauc_bench.runner.store import Store
from opauc_bench.runner.task import Workplace, compute, load_learner, run_task

LEARNERS = '''
"""Learners that behave badly on real data; on the few columns of made-up data that load them, only some do."""

import os
import sys
import time
from pathlib import Path

import numpy as np

from opauc_bench.learners import OnePassLearner
from opauc_bench.learners.base import State


class Hebb(OnePassLearner):
    grid_axes = ("eta",)

    def __init__(self, eta=0.1):
        self.eta = eta

    def _begin(self, n_features, settings):
        return State(settings=settings, W=np.zeros((n_features, len(settings["eta"]))))

    def _consume(self, state, X, y):
        self.behave(state, X)
        state.W += np.outer(X.T @ y, state.settings["eta"])

    def behave(self, state, X):
        pass


class Paused(Hebb):
    def behave(self, state, X):
        if X.shape[1] > 3:
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


class Greedy(Hebb):
    def behave(self, state, X):
        if X.shape[1] > 3:
            self.hoard = np.ones(2**27)


class Slow(Hebb):
    def behave(self, state, X):
        if X.shape[1] > 3:
            time.sleep(1.6)


class Sleeps(Hebb):
    def behave(self, state, X):
        if X.shape[1] > 3:
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
  - "mine.py:Kills"
  - "mine.py:Greedy"
  - "mine.py:Slow"
  - "mine.py:Diverges"
  - {learner: "mine.py:Unborn", params: {size: 1}}
grids: {eta: [0.25, 0.5]}
protocol: {trials: 1, folds: 2, inner_folds: 2}
limits: {seconds: 3, memory_gb: 0.3}
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
    for name, text in {"paused": PAUSED, "failing": FAILING, "quick": QUICK}.items():
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


def records(folder):
    """Return the records of a folder, by their path in it, without what may differ from run to run."""
    found = {}
    for path in sorted(folder.glob("records/*/*/*.json")):
        record = json.loads(path.read_text())
        found[str(path.relative_to(folder))] = {
            key: value for key, value in record.items() if key not in ("timing", "environment")
        }
    return found


def written(folder):
    """Return when each record was written."""
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in folder.glob("records/*/*/*.json")}


def slow_ones(folder):
    return list(folder.glob("records/*/Paused/*.json"))


def leftovers(folder):
    return [str(path) for path in (*folder.rglob("*.tmp"), *folder.rglob("*.claim"), *folder.glob("partial/*"))]


def wait_until(condition, seconds=100.0):
    """Return the first true value of ``condition``."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.005)
    raise AssertionError("it did not happen in time")


def claims(folder):
    """Return the process ids of the workers that are in the middle of a task."""
    found = []
    for path in folder.glob("partial/*.claim"):
        try:
            found.append(json.loads(path.read_text())["pid"])
        except FileNotFoundError:
            continue
    return found


def wait_until_busy(process, folder, n_slow):
    """Wait until so many slow tasks are done and a worker of this very run is in the middle of another one."""
    wait_until(lambda: len(slow_ones(folder)) >= n_slow and set(claims(folder)) & set(children(process.pid)))


def stat_of(pid):
    """Return state and parent of a process, or None if there is none."""
    try:
        state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    except OSError:
        return None
    return None if state == "Z" else (state, int(parent))


def children(pid):
    processes = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    return [process for process in processes if (stat := stat_of(process)) and stat[1] == pid]


linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="/proc is needed to find processes")


@pytest.fixture(scope="module")
def undisturbed(bench, place):
    """Return the folder of a run with two workers that nobody disturbs."""
    done = bench("run", "paused.yaml", "--offline", "--jobs", 2, "--out", "undisturbed", cwd=place)
    assert done.returncode == 0, done.stderr
    assert len(records(place / "undisturbed")) == 24
    assert leftovers(place / "undisturbed") == []
    return place / "undisturbed"


# ---------------------------------------------------------------------- killed and resumed


def test_the_number_of_workers_changes_nothing(command, place, undisturbed):
    assert command("run", "paused.yaml", "--offline", "--jobs", 1, "--out", "one", cwd=place).returncode == 0
    assert tables(place / "one") == tables(undisturbed)
    assert records(place / "one") == records(undisturbed)


@linux
def test_a_worker_that_is_killed_in_the_middle_of_a_task_costs_nothing(bench, place, undisturbed):
    folder = place / "worker"
    process = bench.start("run", "paused.yaml", "--offline", "--jobs", 2, "--out", folder, cwd=place)
    (worker, *_) = wait_until(lambda: slow_ones(folder) and claims(folder))
    assert stat_of(worker)[1] == process.pid
    os.kill(worker, signal.SIGKILL)
    _, err = process.communicate(timeout=100)
    assert process.returncode == 0, err
    assert "Traceback" not in err
    assert tables(folder) == tables(undisturbed)
    assert records(folder) == records(undisturbed)
    assert leftovers(folder) == []


@linux
def test_a_run_that_is_killed_again_and_again_ends_with_the_same_bytes(bench, command, place, undisturbed):
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
    wait_until(lambda: not any(stat_of(orphan) for orphan in orphans))
    before = written(folder)
    done = command("run", "paused.yaml", "--offline", "--jobs", 2, "--out", folder, cwd=place)
    assert done.returncode == 0, done.stderr
    assert f"{24 - len(before)} of 24 tasks to compute" in done.stderr
    assert {name: when for name, when in written(folder).items() if name in before} == before
    assert tables(folder) == tables(undisturbed)
    assert records(folder) == records(undisturbed)
    assert leftovers(folder) == []


def test_ctrl_c_saves_what_is_finished_and_prints_the_command_that_goes_on(bench, command, place, undisturbed):
    folder = place / "in two words"
    process = bench.start("run", "paused.yaml", "--offline", "--fresh", "--jobs", 2, "--out", "in two words", cwd=place)
    wait_until(lambda: slow_ones(folder) and claims(folder))
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=100)
    before = written(folder)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert 0 < len(slow_ones(folder)) < 12
    assert "interrupted; what is finished is saved" in err
    (line,) = [line.strip() for line in err.splitlines() if line.startswith("  opauc-bench run")]
    resume = shlex.split(line)[1:]
    assert resume == ["run", "paused.yaml", "--offline", "--jobs", "2", "--out", "in two words"]
    assert command(*resume, cwd=place).returncode == 0
    assert {name: when for name, when in written(folder).items() if name in before} == before
    assert tables(folder) == tables(undisturbed)


@linux
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_however_a_run_ends_its_workers_end_at_once_in_the_middle_of_their_tasks(bench, desk, how):
    (desk / "sleeps.yaml").write_text(QUICK.replace("uni_log, uni_squ", '"mine.py:Sleeps"'))
    process = bench.start("run", "sleeps.yaml", "--offline", "--jobs", 2, "--out", "out", cwd=desk)
    wait_until_busy(process, desk / "out", 0)
    workers = children(process.pid)
    process.send_signal(how)
    _, err = process.communicate(timeout=100)
    wait_until(lambda: not any(stat_of(worker) for worker in workers))
    assert len(workers) >= 2
    assert "Traceback" not in err
    assert process.returncode == (130 if how == signal.SIGTERM else -9)
    assert ("opauc-bench run sleeps.yaml" in err) == (how == signal.SIGTERM)


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
    assert said[0] == "interrupted; what is finished is saved. To go on:"
    assert len(said) == 2


def test_workers_that_are_stopped_right_after_they_got_work_end_without_a_word(monkeypatch):
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
def failing(bench, place):
    done = bench("run", "failing.yaml", "--offline", "--jobs", 2, cwd=place)
    assert done.returncode == 1, done.stderr
    found = {}
    for record in records(place / "results" / "failing").values():
        found.setdefault(record["column"], []).append(record)
    return done, found


@pytest.mark.parametrize(
    ("column", "status", "message"),
    [
        ("Raises", "error", "KeyError: 'no such thing' (mine.py:"),
        ("Exits", "error", "SystemExit: 7"),
        ("Kills", "error", "the worker process died twice on this task"),
        ("Greedy", "out_of_memory", "memory limit of 0.3 GB reached"),
        ("Slow", "timeout", "time limit of 3 s reached"),
        ("Diverges", "diverged", "no setting stayed finite"),
        ("Unborn", "error", "ValueError: size has to be at least 2, got 1"),
    ],
)
def test_what_goes_wrong_in_a_learner_is_recorded(failing, column, status, message):
    done, found = failing
    assert [record["status"] for record in found[column]] == [status, status]
    assert all(record["message"].startswith(message) for record in found[column])
    assert all("test_auc" not in record for record in found[column])
    assert done.stderr.count(f"wine {column} trial 1 fold ") == 2


def test_its_neighbours_are_fine(failing, place, command):
    _, found = failing
    assert [record["status"] for record in found["uni_squ"]] == ["ok", "ok"]
    assert len(found) == 8
    command("run", "failing.yaml", "--offline", "--learner", "uni_squ", "--out", "calm", cwd=place)
    assert [record["test_auc"] for record in records(place / "calm").values()] == [
        record["test_auc"] for record in found["uni_squ"]
    ]


def test_failures_are_counted_explained_and_not_computed_again_by_themselves(failing, place, command):
    done, _ = failing
    counts = "14 of 16 tasks have no number (2 diverged, 8 error, 2 out_of_memory, 2 timeout)"
    assert counts in done.stderr
    assert "N/A" in (place / "results" / "failing" / "table.md").read_text()
    before = written(place / "results" / "failing")
    again = command("run", "failing.yaml", "--offline", cwd=place)
    assert again.returncode == 1
    assert counts in again.stderr
    assert written(place / "results" / "failing") == before


def test_an_unforeseen_error_keeps_the_end_of_its_traceback(failing):
    assert 'raise KeyError("no such thing")' in failing[1]["Raises"][0]["traceback"]


def test_an_error_in_a_learner_from_a_file_names_the_line(failing, place):
    lines = (place / "mine.py").read_text().splitlines()
    message = failing[1]["Raises"][0]["message"]
    file, _, line = message.partition(" (")[2].removesuffix(")").rpartition(":")
    assert (Path(file).name, lines[int(line) - 1].strip()) == ("mine.py", 'raise KeyError("no such thing")')


def test_status_and_plan_tell_what_has_failed(failing, place, command):
    status = command("status", "failing.yaml", cwd=place)
    assert status.returncode == 0
    assert "0/2 !2" in status.stdout
    assert "wine Slow: 2 x timeout: time limit of 3 s reached" in status.stdout
    assert max(map(len, status.stdout.splitlines())) <= 100
    plan = command("plan", "failing.yaml", "--offline", cwd=place)
    assert "14 of those done have failed" in " ".join(plan.stdout.split())


def test_retrying_computes_what_has_failed_and_nothing_else(desk, command):
    (desk / "fragile.yaml").write_text(QUICK.replace("uni_squ", '"mine.py:Fragile", "mine.py:Raises"'))
    folder = desk / "results" / "fragile"
    first = command("run", "fragile.yaml", "--offline", cwd=desk)
    assert first.returncode == 1
    assert "RuntimeError: broken" in first.stderr
    before = written(folder)
    (desk / "mended").touch()
    assert command("run", "fragile.yaml", "--offline", cwd=desk).returncode == 1
    assert written(folder) == before
    retried = command("run", "fragile.yaml", "--offline", "--retry-failed", "-l", "Fragile", cwd=desk)
    assert retried.returncode == 0, retried.stderr
    assert "2 of 2 tasks to compute" in retried.stderr
    changed = {name for name, when in written(folder).items() if before[name] != when}
    assert changed == {name for name in before if "Fragile" in name}
    statuses = {name.split("/")[2]: record["status"] for name, record in records(folder).items()}
    assert statuses == {"uni_log": "ok", "Fragile": "ok", "Raises": "error"}


def test_what_is_retried_has_no_record_meanwhile(desk, command, monkeypatch):
    """Where the pool breaks, a record that is there counts as the result: it must not be the old one."""
    (desk / "raises.yaml").write_text(QUICK.replace("uni_squ", '"mine.py:Raises"'))
    assert command("run", "raises.yaml", "--offline", cwd=desk).returncode == 1
    asked = []

    def nothing(self, tasks, workplace):
        asked.extend((task.column, Store(workplace.results).read(task)) for task in tasks)
        return iter(())

    monkeypatch.setattr(LocalExecutor, "run", nothing)
    done = command("run", "raises.yaml", "--offline", "--retry-failed", cwd=desk)
    assert asked == [("Raises", None), ("Raises", None)]
    assert done.returncode == 1
    assert "2 of 4 tasks have no number (2 missing)" in done.stderr


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
def quick(desk, command):
    """Return a folder in which the quick experiment has been run, and its results."""
    assert command("run", "quick.yaml", "--offline", "--jobs", 2, cwd=desk).returncode == 0
    return desk, desk / "results" / "quick"


def test_a_second_run_computes_nothing(quick, command, idle):
    desk, folder = quick
    before = tables(folder)
    idle()
    assert command("run", "quick.yaml", "--offline", cwd=desk).returncode == 0
    assert tables(folder) == before


def test_a_deleted_record_is_computed_again_and_no_other(quick, command):
    desk, folder = quick
    before, known, shown = written(folder), records(folder), tables(folder)
    gone = sorted(before)[2]
    (folder / gone).unlink()
    done = command("run", "quick.yaml", "--offline", "--jobs", 2, cwd=desk)
    assert "1 of 4 tasks to compute" in done.stderr
    assert {name for name, when in written(folder).items() if when != before[name]} == {gone}
    assert records(folder) == known
    assert tables(folder) == shown


def test_fresh_computes_everything_again(quick, command):
    desk, folder = quick
    before, known = written(folder), records(folder)
    assert "4 of 4 tasks to compute" in command("run", "quick.yaml", "--offline", "--fresh", cwd=desk).stderr
    assert all(when > before[name] for name, when in written(folder).items())
    assert records(folder) == known


def test_fresh_keeps_to_what_was_chosen(quick, command):
    desk, folder = quick
    before = written(folder)
    assert command("run", "quick.yaml", "--offline", "--fresh", "-l", "uni_log", cwd=desk).returncode == 0
    assert {name.split("/")[2] for name, when in written(folder).items() if when != before[name]} == {"uni_log"}


def test_a_changed_experiment_computes_what_has_changed(quick, command):
    desk, folder = quick
    before = written(folder)
    text = QUICK.replace("uni_squ", "{learner: uni_squ, grid: {eta: [0.25]}}").replace("no time", "other words")
    (desk / "quick.yaml").write_text(text)
    done = command("run", "quick.yaml", "--offline", "--jobs", 2, cwd=desk)
    assert "2 of 4 tasks to compute" in done.stderr
    after = written(folder)
    assert {name: after[name] for name in before} == before
    assert len(after) == 6
    status = " ".join(command("status", "quick.yaml", cwd=desk).stdout.split())
    assert "2 records are of another definition" in status


def test_more_trials_add_to_those_there_are(quick, command):
    desk, _ = quick
    (desk / "quick.yaml").write_text(QUICK.replace("trials: 1", "trials: 2"))
    assert "4 of 8 tasks to compute" in command("run", "quick.yaml", "--offline", "--jobs", 2, cwd=desk).stderr


def test_records_of_another_experiment_are_taken_over(quick, command, idle):
    desk, folder = quick
    text = QUICK.replace("uni_log, uni_squ", "{learner: uni_log, name: mine}") + "reuse: [quick, nowhere]\n"
    (desk / "other.yaml").write_text(text)
    plan = command("plan", "other.yaml", "--offline", cwd=desk)
    assert "2 tasks done, 0 to do" in plan.stdout
    idle()
    assert command("run", "other.yaml", "--offline", cwd=desk).returncode == 0
    taken = list(records(desk / "results" / "other").values())
    assert [record["column"] for record in taken] == ["mine", "mine"]
    theirs = [record for record in records(folder).values() if record["column"] == "uni_log"]
    assert taken == [{**record, "column": "mine"} for record in theirs]


def test_a_folder_to_take_records_from_that_is_not_there_is_told(desk, command):
    (desk / "misspelt.yaml").write_text(QUICK.replace("uni_log, uni_squ", "uni_log") + "reuse: [qiuck]\n")
    said = "results/qiuck/, named under reuse, is not there: nothing is taken over from it"
    assert said in " ".join(command("plan", "misspelt.yaml", "--offline", cwd=desk).stdout.split())
    assert f"note: {said}\n" in command("run", "misspelt.yaml", "--offline", cwd=desk).stderr


def test_results_of_another_experiment_are_not_written_over_without_a_word(desk, command):
    for name in ("first", "second"):
        (desk / f"{name}.yaml").write_text(QUICK.replace("uni_log, uni_squ", "uni_log"))
    first = command("run", "first.yaml", "--offline", "--out", "shared", cwd=desk)
    again = command("run", "first.yaml", "--offline", "--out", "shared", cwd=desk)
    second = command("run", "second.yaml", "--offline", "--out", "shared", cwd=desk)
    assert "note:" not in first.stderr + again.stderr
    assert "note: shared/ has the results of first.yaml: its records stay there" in second.stderr
    assert second.returncode == 0


def test_failures_of_another_experiment_are_not_taken_over(desk, command):
    (desk / "a.yaml").write_text(QUICK.replace("uni_log, uni_squ", '"mine.py:Fragile"'))
    (desk / "b.yaml").write_text(QUICK.replace("uni_log, uni_squ", '"mine.py:Fragile"') + "reuse: [a]\n")
    assert command("run", "a.yaml", "--offline", cwd=desk).returncode == 1
    assert "0 tasks done, 2 to do" in command("plan", "b.yaml", "--offline", cwd=desk).stdout
    (desk / "mended").touch()
    assert command("run", "b.yaml", "--offline", cwd=desk).returncode == 0


def test_two_columns_of_the_same_computation_both_get_their_records(desk, command):
    (desk / "twins.yaml").write_text(QUICK.replace("uni_squ", "{learner: uni_log, name: again}"))
    done = command("run", "twins.yaml", "--offline", "--jobs", 2, cwd=desk)
    assert done.returncode == 0, done.stderr
    found = list(records(desk / "results" / "twins").values())
    assert [record["column"] for record in found] == ["again", "again", "uni_log", "uni_log"]
    assert [record["test_auc"] for record in found[:2]] == [record["test_auc"] for record in found[2:]]


def test_a_learner_may_have_all_its_axes_fixed(desk, command):
    (desk / "fixed.yaml").write_text(
        QUICK.replace("[uni_log, uni_squ]", "[uni_log, {learner: opauc, params: {eta: 0.25, lambda: 0.5}}]")
    )
    assert command("run", "fixed.yaml", "--offline", "--jobs", 2, cwd=desk).returncode == 0
    fixed = [record for record in records(desk / "results" / "fixed").values() if record["column"] == "opauc"]
    assert [record["chosen"] for record in fixed] == [{"eta": 0.25, "lam": 0.5}] * 2
    assert [record["selection"]["n_settings"] for record in fixed] == [1, 1]


def test_a_learner_need_not_like_the_rows_that_load_it(desk, command):
    (desk / "particular.yaml").write_text(QUICK.replace("uni_squ", '"mine.py:Particular"'))
    assert command("run", "particular.yaml", "--offline", "--jobs", 2, cwd=desk).returncode == 0


def test_a_second_run_in_the_same_folder_is_turned_away(quick, command):
    desk, folder = quick
    with open(folder / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write("4242")
        lock.flush()
        second = command("run", "quick.yaml", "--offline", cwd=desk)
        assert second.returncode == 1
        assert "another run (process 4242) is at work in this folder" in second.stderr
        assert "--out" in second.stderr
        assert command("report", "quick.yaml", cwd=desk).returncode == 0, "reading is allowed"
    assert command("run", "quick.yaml", "--offline", cwd=desk).returncode == 0
    assert (folder / ".lock").read_text() == str(os.getpid())


# ---------------------------------------------------------------------- one task, in this process


@pytest.fixture(scope="module")
def wine(environment):
    return prepare(load_catalogue()["wine"], Sources(Path(environment["OPAUC_BENCH_CACHE"]), offline=True))


def task_of(wine, learner, grid, **params):
    return Task(
        dataset="wine",
        column="mine",
        learner=learner,
        trial=1,
        fold=2,
        fingerprint=wine.fingerprint,
        identity={"learner": learner},
        params=params,
        grid=grid,
        protocol={"kind": "cv", "folds": 3, "inner_folds": 3, "stratified": True, "seed": 5},
        seconds=1.0,
        memory_bytes=1.0,
    )


def workplace_of(wine, folder, **limits):
    return Workplace(results=folder, prepared={"wine": str(wine.folder)}, **limits)


def test_a_task_is_grid_search_refit_and_test_as_written_out_here(wine, tmp_path):
    etas = (2.0**-10, 2.0**-5, 1.0)
    outcome = compute(task_of(wine, "oam_seq", {"eta": etas}, buffer_size=10), workplace_of(wine, tmp_path))
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
    assert outcome["status"] == "ok"
    assert outcome["chosen"] == {"eta": best}
    assert outcome["selection"]["mean_auc"] == pytest.approx(means, abs=1e-12)
    assert outcome["test_auc"] == pytest.approx(auc(best, fold.train, fold.test), abs=1e-12)
    assert (outcome["n_train"], outcome["n_test"]) == (len(fold.train), len(fold.test))


def test_a_setting_that_overflows_on_the_larger_training_set_gives_way_to_the_next(wine, place, tmp_path):
    task = task_of(wine, f"{place / 'mine.py'}:StumblesLate", {"eta": (1.0, 0.5, 0.25)})
    outcome = compute(task, workplace_of(wine, tmp_path))
    assert outcome["selection"]["n_diverged"] == 0, "the inner training sets have fewer than 100 rows"
    assert outcome["status"] == "ok"
    assert outcome["chosen"] == {"eta": 0.5}
    assert outcome["diverged_in_refit"] == [{"eta": 1.0}]


def test_where_all_overflow_in_the_end_the_task_has_diverged(wine, place, tmp_path):
    task = task_of(wine, f"{place / 'mine.py'}:StumblesLate", {"eta": (1.0,)})
    outcome = compute(task, workplace_of(wine, tmp_path))
    assert outcome["status"] == "diverged"
    assert outcome["diverged_in_refit"] == [{"eta": 1.0}]


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
    assert record["status"] == "ok"
    assert record["selection"]["mean_auc"][1] is None, "the inner fold that was left counts"
    assert record["timing"]["selection_cpu_seconds"] > 30.0
    assert store.read_partial(task) == {}
    assert store.read(task) == json.loads(json.dumps(record))


def test_the_time_limit_counts_what_was_spent_before(wine, tmp_path):
    task, store = task_of(wine, "uni_log", {"eta": (0.5,)}), Store(tmp_path)
    store.write_partial(task, {"inner_aucs": {}, "seconds": 100.0})
    record = run_task(task, workplace_of(wine, tmp_path, seconds=50.0))
    assert (record["status"], record["message"]) == ("timeout", "time limit of 50 s reached")
    assert run_task(task, workplace_of(wine, tmp_path, seconds=50.0))["status"] == "ok", "a retry starts from nothing"


def test_other_data_than_the_plan_knew_are_an_error(wine, tmp_path):
    task = task_of(wine, "uni_log", {"eta": (0.5,)})
    record = run_task(
        Task(**{**{name: getattr(task, name) for name in task.__dataclass_fields__}, "fingerprint": "0" * 64}),
        workplace_of(wine, tmp_path),
    )
    assert record["status"] == "error"
    assert "expected data with fingerprint 000" in record["message"]


def test_a_record_says_what_it_was_computed_with(wine, tmp_path):
    record = run_task(task_of(wine, "uni_log", {"eta": (0.5,)}), workplace_of(wine, tmp_path))
    assert record["environment"]["numpy"] == np.__version__
    assert {"python", "opauc-bench", "scipy", "scikit-learn", "numba", "processor"} < set(record["environment"])
    assert record["identity"] == {"learner": "uni_log"}
    assert record["timing"]["wall_seconds"] > 0
    assert record["timing"]["peak_rss_bytes"] > 1e7


# ---------------------------------------------------------------------- limits


def test_memory_beyond_the_limit_is_refused_and_the_limit_goes_again():
    with memory_limit(1e8):
        small = np.ones(10**6)
        with pytest.raises(MemoryError):
            np.ones(10**8)
    assert small.sum() == 10**6
    assert np.ones(4 * 10**7).sum() == 4 * 10**7
    with memory_limit(None):
        assert np.ones(4 * 10**7).sum() == 4 * 10**7


def test_a_deadline_is_looked_at_when_asked():
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
    return Task(dataset, column, column, 0, fold, "f", {"fold": [dataset, column, fold]}, {}, {}, {}, seconds, 0.0)


def taken(seconds, status="ok"):
    timing = {"selection_cpu_seconds": seconds * 0.75, "fit_cpu_seconds": seconds * 0.25}
    return {"status": status, "message": "why", "timing": timing}


def test_estimates_learn_from_what_tasks_of_the_kind_have_taken():
    estimate, slow, other = Estimate(), planned("a", "x", 1, 10.0), planned("b", "y", 1, 1.0)
    assert estimate.seconds([slow, other]) == 11.0
    estimate.learn(planned("a", "x", 0, 10.0), taken(20.0))
    assert estimate.seconds([slow]) == pytest.approx(20.0)
    assert estimate.seconds([other]) == pytest.approx(2.0), "kinds not seen yet are as far off as the others"
    estimate.learn(planned("b", "y", 0, 1.0), taken(9.0, "timeout"))
    estimate.learn(planned("b", "y", 0, 1.0), {"status": "ok", "timing": {}})
    assert estimate.seconds([other]) == pytest.approx(2.0), "only finished tasks teach"
    estimate.learn(planned("b", "y", 0, 1.0), taken(0.5))
    assert estimate.seconds([other]) == pytest.approx(0.5)


def test_without_a_terminal_there_is_a_line_every_few_seconds(capsys, monkeypatch):
    tasks = [planned("a", "x", fold, 10.0) for fold in range(3)]
    now = [100.0]
    monkeypatch.setattr("opauc_bench.runner.progress.time.monotonic", lambda: now[0])
    with Progress(tasks, 2, Estimate()) as progress:
        progress.done(tasks[0], taken(10.0))
        now[0] += 11.0
        progress.done(tasks[1], taken(10.0))
        progress.done(tasks[2], taken(1.0, "timeout"))
    assert capsys.readouterr().err.splitlines() == [
        "2/3 tasks, 0 failed, about 5 s left (a x trial 1 fold 2 done)",
        "a x trial 1 fold 3: timeout: why",
    ]


def test_quiet_says_only_what_has_failed(capsys, monkeypatch):
    monkeypatch.setattr("opauc_bench.runner.progress._SECONDS_BETWEEN_LINES", 0.0)
    tasks = [planned("a", "x", fold, 10.0) for fold in range(2)]
    with Progress(tasks, 1, Estimate(), quiet=True) as progress:
        progress.done(tasks[0], taken(10.0))
        progress.done(tasks[1], taken(10.0, "error"))
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
        progress.done(tasks[0], taken(10.0, "error"))
        progress.done(tasks[1], taken(10.0))
    shown = terminal.getvalue()
    assert "a [b]x trial 1 fold 1: error: why" in shown
    assert ("2/2" in shown) == ("\x1b[" in shown) == (variable is None)
