"""Limits that hold: tasks that take no notice of the clock, arrays that change under a run."""

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from command_line import claims, parent_of, wait_until
from folders import HEBB
from scipy import sparse
from sklearn.base import clone

from opauc_bench import kernels
from opauc_bench.data import Sources, load_catalogue, prepare
from opauc_bench.data.store import _seal
from opauc_bench.evaluation.selection import evaluate_models
from opauc_bench.kernels import Kernel
from opauc_bench.learners import get_learner, registry
from opauc_bench.memory import memory_limit
from opauc_bench.protocols import CrossValidation
from opauc_bench.results.manifest import read_manifest
from opauc_bench.results.record import record_to_line
from opauc_bench.results.store import Store
from opauc_bench.runner import warm_up
from opauc_bench.runner.execute import LocalExecutor
from opauc_bench.runner.limits import exceeds_memory, hard_time_limit, overrun_in
from opauc_bench.runner.worker import WorkerConfig, run_task
from opauc_bench.task import Task

# They take no notice of the clock on real data.
LEARNERS = (
    HEBB
    + '''
import ctypes
import time

from opauc_bench.kernels import njit


class Paused(OnData):
    def _begin(self, n_features, settings):
        spin(1), fill(1)  # compiled when the learner is loaded, not on the clock
        return super()._begin(n_features, settings)

    def misbehave(self):
        time.sleep(0.05)


class Sleeps(Paused):
    """Sleeps, and keeps all other threads of Python from running, as some routines of LAPACK do."""

    def misbehave(self):
        ctypes.PyDLL(None).sleep(600)


@njit()
def spin(turns):
    x = 0.0
    for i in range(turns):
        x = np.cos(x + i)
    return x


class Spins(Paused):
    def misbehave(self):
        spin(10**12)


class Allocates(Paused):
    def misbehave(self):
        self.hoard = fill(2**27)


@njit()
def fill(size):
    x = np.zeros(size)
    for i in range(size):
        x[i] = i
    return x
'''
)

SILENT = '''
"""Learners that misbehave on any rows, those that load them as well."""

import ctypes
import os
from pathlib import Path

import numba
from opauc_bench.learners import OnePassLearner


class Hangs(OnePassLearner):
    grid_axes = ("eta",)

    def __init__(self, eta=0.1):
        self.eta = eta

    def fit_grid(self, X, y, grid, *, order=None, on_chunk=None):
        ctypes.PyDLL(None).sleep(600)


class Mute(Hangs):
    def fit_grid(self, X, y, grid, *, order=None, on_chunk=None):
        raise Unspeakable


class Unspeakable(Exception):
    def __str__(self):
        raise RuntimeError("no words")


class Talks(Hangs):
    def fit_grid(self, X, y, grid, *, order=None, on_chunk=None):
        raise ValueError("word " * 10**6)
'''

DEAF = """
title: Deaf to the clock
datasets: [wine]
learners: ["mine.py:Paused", "mine.py:Sleeps", "mine.py:Spins", "mine.py:Allocates"]
grids: {eta: [0.25, 0.5]}
protocol: {trials: 1, folds: 2, inner_folds: 2}
limits: {seconds: 3, memory_gb: 0.3}
"""

QUICK = """
title: Two datasets
datasets: [wine, breast_cancer]
learners: [uni_log, uni_squ]
grids: {eta: [0.25, 0.5]}
protocol: {trials: 1, folds: 2, inner_folds: 2}
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("limits")
    (folder / "mine.py").write_text(LEARNERS)
    (folder / "deaf.yaml").write_text(DEAF)
    (folder / "quick.yaml").write_text(QUICK)
    return folder


@pytest.fixture(scope="module")
def deaf(bench, place):
    bench("run", "deaf.yaml", "--offline", "--jobs", 2, cwd=place, exits=1)
    found = Store(place / "results/deaf").read()
    assert len(found) == 8
    assert not found.damaged
    return list(found.values())


@pytest.mark.faults
@pytest.mark.parametrize("column", ["Sleeps", "Spins"])
def test_task_that_does_not_look_at_the_clock_is_ended(deaf, place, column):
    ended = [record for record in deaf if record.column == column]
    assert [record.status for record in ended] == ["timeout", "timeout"]
    for record in ended:
        assert record.message.startswith("time limit of 3 s reached in mine.py:")
        assert record.message.endswith(" in misbehave; its process had to be ended")
        assert record.timing.wall_seconds == 6.0
        assert read_manifest(place / "results/deaf").environments[record.environment]["numba"]


@pytest.mark.faults
@pytest.mark.parametrize(("column", "status"), [("Paused", "ok"), ("Allocates", "out_of_memory")])
def test_tasks_beside_one_that_is_ended_keep_their_own_status(deaf, column, status):
    assert [record.status for record in deaf if record.column == column] == [status, status]


@pytest.mark.faults
def test_workers_that_were_ended_leave_no_files(deaf, place):
    folder = place / "results/deaf"
    assert not [path for path in folder.rglob("*") if path.suffix in (".tmp", ".claim")]
    assert not (folder / "running").exists()


def task_of(data, learner, folder):
    params = {"learner": f"{folder / 'silent.py'}:{learner}", "params": {}, "grid": {"eta": (0.5,)}}
    protocol = CrossValidation(trials=1, folds=2, inner_folds=2)
    place = {"dataset": "wine", "column": learner, "trial": 0, "fold": 0, "fingerprint": data.fingerprint}
    return Task(**place, **params, definition={"learner": learner}, protocol=protocol, seconds=1.0, memory_bytes=1.0)


@pytest.fixture
def silent(tmp_path):
    """Return a config, and a function from a learner that misbehaves to its task."""
    (tmp_path / "silent.py").write_text(SILENT)
    data = prepare(load_catalogue()["wine"], Sources(tmp_path / "cache", (), offline=True))
    config = WorkerConfig(tmp_path / "out", {"wine": str(data.folder)}, seconds=1.0)
    return config, lambda learner: task_of(data, learner, tmp_path)


@pytest.mark.faults
def test_learner_that_never_loads_is_ended(silent, monkeypatch):
    config, task = silent
    monkeypatch.setattr("opauc_bench.runner.execute.SECONDS_TO_LOAD", 1.0)
    executor = LocalExecutor(1)
    try:
        ((_, record),) = executor.run([task("Hangs")], config)
    finally:
        executor.stop()
    assert record.status == "timeout"
    assert record.message == "time limit of 1 s reached in silent.py:19 in fit_grid; its process had to be ended"


TRAINED = """
{imports}
from opauc_bench.learners import {base}

class Own({base}):
    grid_axes = ("eta",)
    trained = []

    def __init__(self, eta=0.1):
        self.eta = eta

    def fit_grid(self, X, y, grid, *, order=None, on_chunk=None):
        self.trained.append(X.shape)
        raise TypeError
"""


@pytest.mark.parametrize(
    ("imports", "base", "compiles"),
    [
        ("import numpy as np", "OnePassLearner", False),
        ("from opauc_bench.learners.base import State", "OnePassLearner", False),
        ("import numba", "OnePassLearner", True),
        ("from numba import njit", "OnePassLearner", True),
        ("from opauc_bench.kernels import njit", "OnePassLearner", True),
        ("from opauc_bench.evaluation import auc", "OnePassLearner", True),
        ("", "OPAUC", True),
        ("import beside", "OnePassLearner", True),
        ("def later():\n    from numba import njit", "OnePassLearner", True),
        ("from scipy import sparse\nimport os.path", "OnePassLearner", False),
    ],
)
def test_only_learners_that_may_compile_are_trained_before_their_tasks(tmp_path, monkeypatch, imports, base, compiles):
    (tmp_path / "beside.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own.py").write_text(TRAINED.format(imports=imports, base=base))
    address = f"{tmp_path}/own.py:Own"
    warm_up.load_learner(SimpleNamespace(learner=address, params={}, grid={"eta": (0.1,)}, tuned_by=None))
    assert bool(get_learner(address).trained) == compiles


@pytest.mark.parametrize(
    ("learner", "message"),
    [
        ("Mute", "Unspeakable: (no message) (silent.py:24)"),
        ("Talks", "ValueError: " + "word " * 400 + " ... (silent.py:34)"),
    ],
)
def test_errors_with_a_broken_or_very_long_text_are_recorded(silent, learner, message):
    config, task = silent
    record = run_task(task(learner), config)
    assert (record.status, record.message) == ("error", message)
    assert len(record_to_line(record)) < 10_000


@pytest.mark.faults
@pytest.mark.skipif(sys.platform != "linux", reason="the system has to end a process with its parent")
def test_kernel_ends_when_its_run_ends(bench, place):
    (place / "spins.yaml").write_text(QUICK.replace("uni_log, uni_squ", '"mine.py:Spins"'))
    process = bench.start("run", "spins.yaml", "--offline", "--jobs", 1, "--out", "spun", cwd=place)
    pids = wait_until(lambda: claims(place / "spun"))
    time.sleep(0.5)
    process.kill()
    process.communicate()
    wait_until(lambda: not any(map(parent_of, pids)))


@pytest.mark.parametrize("n_bytes", [1e18, 1e300, float("inf")])
def test_memory_limit_beyond_what_can_be_counted_is_none(n_bytes):
    with memory_limit(n_bytes):
        assert len(bytearray(2**24)) == 2**24


def test_a_hard_time_limit_without_an_overrun_writes_nothing(tmp_path):
    note = tmp_path / "note"
    note.write_text("before")
    with hard_time_limit(60.0, note):
        pass
    with hard_time_limit(None, note), hard_time_limit(0.0, None):
        pass
    assert note.read_text() == "before"
    assert overrun_in("before", run_task) is None


@pytest.mark.parametrize("called", ["compute", "load_learner"])
def test_traceback_is_that_of_the_thread_with_the_task(called):
    note = f"""{{"pid": 1}}
Timeout (0:00:05)!
Thread 0x01 (most recent call first):
  File "/usr/lib/threading.py", line 5 in wait
  File "/usr/lib/threading.py", line 9 in run

Thread 0x02 (most recent call first):
  File "/a/opauc_bench/kernels.py", line 72 in __call__
  File "/a b/learn.py", line 71 in <listcomp>
  File "/a b/worker.py", line 8 in load_learner
  File "/a/opauc_bench/runner/worker.py", line 9 in {called}
  File "/a/opauc_bench/runner/worker.py", line 8 in run_task
  File "/a/opauc_bench/runner/execute.py", line 5 in _run_in_worker

Thread 0x03 (most recent call first):
  File "/usr/lib/queue.py", line 5 in get
"""
    assert overrun_in(note, run_task) == ("learn.py:71 in <listcomp>", called)
    assert overrun_in(note[:40], run_task) == ("a place that is not known", "")


SHORT_OF_MEMORY = """
import sys
from types import SimpleNamespace

import numpy as np
from threadpoolctl import threadpool_limits

from opauc_bench.learners import get_learner
from opauc_bench.memory import memory_limit
from opauc_bench.protocols import CrossValidation
from opauc_bench.runner.warm_up import load_learner

X = np.random.default_rng(0).uniform(-1, 1, (1500, 300))
y = np.where(np.arange(1500) % 3, -1, 1).astype(np.int8)
with threadpool_limits(1):
    for name in sys.argv[1:]:
        learner = get_learner(name)()
        grid = {axis: np.full(4, float(getattr(learner, axis))) for axis in learner.grid_axes}
        load_learner(SimpleNamespace(learner=name, params={}, grid=grid, tuned_by=None))
        try:
            with memory_limit(3e6):
                learner.fit_grid(X, y, grid)
            print(name, "ok")
        except MemoryError:
            print(name, "out of memory")
"""


@pytest.mark.faults
def test_linear_algebra_without_memory_ends_with_an_error():
    """OpenBLAS does, if it has not allocated its buffers before memory is short."""
    names = ["opauc_fd", "opauc_pca", "ls_svm"]
    command = [sys.executable, "-c", SHORT_OF_MEMORY, *names]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == names


KERNELS_WITHOUT_MEMORY = """
import numpy as np

from opauc_bench.learners import get_learner
from opauc_bench.memory import memory_limit

X, y = np.ones((8, 2)), np.array([1, -1] * 4, dtype=np.int8)
get_learner("pair_sgd")().fit_grid(X, y, {"eta": np.ones(1)})
learner = get_learner("opauc_fd")(tau=2)
with memory_limit(1e6):
    learner.fit_grid(X, y, {"eta": np.ones(1), "lam": np.ones(1)})
    try:
        np.ones(10**6)
    except MemoryError:
        print("still limited")
"""


@pytest.mark.faults
def test_kernels_can_be_loaded_where_memory_is_short():
    """LLVM ends the process where it gets no memory."""
    command = [sys.executable, "-c", KERNELS_WITHOUT_MEMORY]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert (done.returncode, done.stdout) == (0, "still limited\n"), done.stderr


@pytest.mark.faults
@pytest.mark.parametrize("name", registry.LEARNERS)
def test_every_kernel_of_a_learner_is_loaded_before_its_tasks(name, monkeypatch):
    """It is loaded outside of the limits and times of a task."""
    for module in [module for key, module in sys.modules.items() if key.startswith("opauc_bench")]:
        for kernel in [value for value in vars(module).values() if isinstance(value, Kernel)]:
            kernel.__dict__.pop("compiled", None)
    warm_up._load.cache_clear()
    learner = get_learner(name)()
    grid = {axis: (getattr(learner, axis),) for axis in learner.grid_axes}
    warm_up.load_learner(SimpleNamespace(learner=name, params={}, grid=grid, tuned_by=None))

    loaded = []
    compile_or_load = kernels._SealedFiles.compile
    monkeypatch.setattr(
        kernels._SealedFiles,
        "compile",
        lambda files, signature: loaded.append((files._name, signature)) or compile_or_load(files, signature),
    )
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (400, 150))
    y = np.where(rng.random(400) < 0.4, 1, -1).astype(np.int8)
    for n_settings in (1, 3):
        settings = {axis: np.repeat(values, n_settings) for axis, values in grid.items()}
        for rows in (X, sparse.csr_matrix(X)):
            evaluate_models(rows, y, np.arange(400), clone(learner).fit_grid(rows, y, settings))
    assert loaded == []


# ---------------------------------------------------------------------- arrays that change under a run


@pytest.fixture
def own(command, environment, tmp_path):
    """Return a command with its own cache, in which both datasets have been computed on, and its results."""
    cache = tmp_path / "cache"
    alone = type(command)(environment | {"OPAUC_BENCH_CACHE": str(cache)})
    (tmp_path / "quick.yaml").write_text(QUICK)
    done = alone("run", "quick.yaml", "--offline", "--jobs", 1, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return alone, tmp_path, tmp_path / "results/quick"


def damage(cache: Path, dataset: str, array: str) -> Path:
    (path,) = cache.glob(f"{dataset}/prepared/*/{array}.npy")
    content = bytearray(path.read_bytes())
    content[-1] ^= 64
    path.write_bytes(content)
    return path


def test_run_prepares_arrays_again_that_have_changed(own):
    command, desk, folder = own
    before = (folder / "folds.csv").read_bytes()
    path = damage(desk / "cache", "wine", "X")
    (folder / "records/wine.jsonl").unlink()
    done = command("run", "quick.yaml", "--offline", "--jobs", 1, cwd=desk, exits=0)
    words = " ".join(done.stderr.split())
    assert f"wine: the prepared arrays in {path.parent} have changed on disk; preparing them again" in words
    assert (folder / "folds.csv").read_bytes() == before
    assert "changed on disk" not in command("run", "quick.yaml", "--offline", "--fresh", "--jobs", 1, cwd=desk).stderr


def test_arrays_with_nothing_to_compute_are_not_read(own):
    command, desk, folder = own
    damage(desk / "cache", "wine", "X")
    (folder / "records/breast_cancer.jsonl").unlink()
    done = command("run", "quick.yaml", "--offline", "--jobs", 1, cwd=desk, exits=0)
    assert "changed on disk" not in done.stderr


def test_a_fingerprint_that_is_wrong_leads_to_another_plan_once_it_is_right(own):
    command, desk, folder = own
    (path,) = (desk / "cache/wine/prepared").glob("*/meta.json")
    meta = json.loads(path.read_text())
    known = (folder / "records/wine.jsonl").read_bytes()
    meta["fingerprint"] = meta["fingerprint"][::-1]
    meta["seal"] = _seal(meta)
    path.write_text(json.dumps(meta))
    done = command("run", "quick.yaml", "--offline", "--jobs", 1, cwd=desk, exits=0)
    assert "preparing them again" in done.stderr
    assert "0 of 8 tasks to compute: all have records" in done.stderr
    assert (folder / "records/wine.jsonl").read_bytes() == known
    assert json.loads((folder / "manifest.json").read_text())["datasets"]["wine"]["fingerprint"] != meta["fingerprint"]


def test_verify_computes_on_arrays_that_have_been_checked(own):
    command, desk, _ = own
    damage(desk / "cache", "wine", "X")
    done = command("verify", "quick.yaml", "--offline", "--jobs", 1, cwd=desk, exits=0)
    assert "preparing them again" in done.stderr


def test_estimates_of_memory_are_good_to_a_factor_of_two(tmp_path):
    task = task_of(SimpleNamespace(fingerprint="f" * 64), "opauc", tmp_path)
    sizes = {1.9e9: False, 2e9: False, 2.1e9: True}
    assert {size: exceeds_memory(replace(task, memory_bytes=size), 1e9) for size in sizes} == sizes
