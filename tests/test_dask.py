"""The same records from a Dask cluster: a real scheduler and real workers on the loopback, and what befalls them."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("distributed", reason="the extra [dask] is not installed")

LEARNERS = '''
"""Learners for a cluster: one that takes its time, one that kills its worker, one that is deaf to the clock."""

import ctypes
import os
import time

import numpy as np

from opauc_bench.learners import OnePassLearner
from opauc_bench.learners.base import State


class Paused(OnePassLearner):
    grid_axes = ("eta",)

    def __init__(self, eta=0.1):
        self.eta = eta

    def _begin(self, n_features, settings):
        return State(settings=settings, W=np.zeros((n_features, len(settings["eta"]))))

    def _consume(self, state, X, y):
        if X.shape[1] > 3:
            self.behave()
        state.W += np.outer(X.T @ y, state.settings["eta"])

    def behave(self):
        time.sleep(0.03)


class Kills(Paused):
    def behave(self):
        os.kill(os.getpid(), 9)


class Sleeps(Paused):
    """Keeps all other threads of Python from running, too."""

    def behave(self):
        ctypes.PyDLL(None).sleep(600)
'''

EXPERIMENT = """
title: Tasks for a cluster
catalogue: own.yaml
datasets: [wine, own]
learners: ["mine.py:Paused", uni_log, uni_squ]
grids: {eta: {pow2: [-8, 0, 4]}}
protocol: {trials: 2, folds: 3, inner_folds: 3}
"""

OWN = """
datasets:
  own:
    title: A file that only some have
    format: csv
    files: [{name: own.csv, sha256: null, urls: ["http://127.0.0.1:9/own.csv"]}]
    n_samples: 60
    n_features: 2
    n_positive: 30
    positive: ["1"]
    scaling: minmax
"""


class Cluster:
    """A scheduler and workers, each a process of its own."""

    def __init__(self, folder: Path, environment: dict[str, str]):
        self.folder = folder
        self.environment = environment
        self.port = None
        self.processes = []
        self.start_scheduler()

    @property
    def address(self) -> str:
        return f"tcp://127.0.0.1:{self.port}"

    def start_scheduler(self):
        file = self.folder / "scheduler.json"
        file.unlink(missing_ok=True)
        options = ["--host", "127.0.0.1", "--port", self.port or 0, "--no-dashboard", "--scheduler-file", file]
        self.scheduler = self._start("scheduler", *options)
        while not file.exists():
            assert self.scheduler.poll() is None
            time.sleep(0.05)
        time.sleep(0.2)
        self.port = int(json.loads(file.read_text())["address"].rpartition(":")[2])

    def start_worker(self, **variables) -> subprocess.Popen:
        options = ["--nthreads", 1, "--no-dashboard", "--no-nanny", "--local-directory", self.folder / "local"]
        return self._start("worker", self.address, *options, **variables)

    def _start(self, what, *options, **variables):
        process = subprocess.Popen(
            [sys.executable, "-m", "dask", what, *map(str, options)],
            env=self.environment | variables,
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.processes.append(process)
        return process

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture
def place(tmp_path):
    (tmp_path / "mine.py").write_text(LEARNERS)
    (tmp_path / "wine.yaml").write_text(
        EXPERIMENT.replace("[wine, own]", "[wine]").replace("catalogue: own.yaml\n", "")
    )
    return tmp_path


@pytest.fixture
def cluster(tmp_path, environment):
    cluster = Cluster(tmp_path, environment)
    yield cluster
    cluster.close()


def records(folder: Path) -> dict[str, dict]:
    """What a folder's records say, timings and versions aside."""
    found = {}
    for path in sorted((folder / "records").rglob("*.json")):
        record = json.loads(path.read_text())
        found[str(path.relative_to(folder))] = {
            key: value for key, value in record.items() if key not in ("timing", "environment")
        }
    return found


def wait_for_records(folder: Path, count: int, process: subprocess.Popen) -> None:
    while len(list((folder / "records").rglob("t*.json"))) < count:
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)


def test_a_cluster_gives_the_records_of_one_machine(bench, cluster, place):
    for _ in range(2):
        cluster.start_worker()
    local = bench("run", "wine.yaml", "--jobs", 1, "--out", "local_run", cwd=place)
    remote = bench(
        "run", "wine.yaml", "--scheduler", cluster.address, "--backend", "dask", "--out", "remote", cwd=place
    )
    assert (local.returncode, remote.returncode) == (0, 0), remote.stderr
    assert records(place / "remote") == records(place / "local_run")
    assert len(records(place / "remote")) == 18
    assert (place / "remote/folds.csv").read_bytes() == (place / "local_run/folds.csv").read_bytes()
    assert not list((place / "local").rglob("opauc-bench-*")), "workers clean up after themselves"


def test_a_worker_killed_in_the_middle_costs_nothing(bench, cluster, place):
    workers = [cluster.start_worker() for _ in range(2)]
    run = bench.start("run", "wine.yaml", "--scheduler", cluster.address, "--backend", "dask", cwd=place)
    wait_for_records(place / "results/wine", 2, run)
    os.killpg(workers[0].pid, signal.SIGKILL)
    _, err = run.communicate(timeout=120)
    assert run.returncode == 0, err
    found = records(place / "results/wine")
    assert len(found) == 18
    assert {record["status"] for record in found.values()} == {"ok"}
    assert not list((place / "results").rglob("*.tmp"))


def test_a_scheduler_that_comes_back_goes_on(bench, cluster, place):
    cluster.start_worker()
    run = bench.start("run", "wine.yaml", "--scheduler", cluster.address, "--backend", "dask", cwd=place)
    wait_for_records(place / "results/wine", 2, run)
    os.killpg(cluster.scheduler.pid, signal.SIGKILL)
    cluster.scheduler.wait()
    cluster.start_scheduler()
    cluster.start_worker()
    _, err = run.communicate(timeout=120)
    assert run.returncode == 0, err
    assert len(records(place / "results/wine")) == 18


def test_a_worker_without_the_data_passes_it_on(bench, cluster, place):
    (place / "own.yaml").write_text(OWN)
    (place / "mirror/own").mkdir(parents=True)
    rows = [f"{0.01 * i},{0.02 * (i % 7)},{i % 2}" for i in range(60)]
    (place / "mirror/own/own.csv").write_text("\n".join(rows) + "\n")
    (place / "both.yaml").write_text(EXPERIMENT)
    cluster.start_worker(OPAUC_BENCH_CACHE=str(place / "empty"))
    cluster.start_worker(OPAUC_BENCH_CACHE=str(place / "full"), OPAUC_BENCH_MIRROR=str(place / "mirror"))
    options = ["--scheduler", cluster.address, "--backend", "dask", "--mirror", place / "mirror"]
    done = bench("run", "both.yaml", *options, cwd=place)
    assert done.returncode == 0, done.stderr
    assert {record["status"] for record in records(place / "results/both").values()} == {"ok"}


def test_what_brings_down_its_worker_is_recorded_and_the_rest_goes_on(bench, place):
    (place / "kills.yaml").write_text(
        EXPERIMENT.replace("[wine, own]", "[wine]")
        .replace("catalogue: own.yaml\n", "")
        .replace("uni_squ]", '"mine.py:Kills"]')
        .replace("trials: 2", "trials: 1")
    )
    done = bench("run", "kills.yaml", "--backend", "dask", "--jobs", 2, cwd=place)
    assert done.returncode == 1, done.stderr
    found = records(place / "results/kills")
    statuses = {(record["column"], record["status"]) for record in found.values()}
    assert statuses == {("Paused", "ok"), ("uni_log", "ok"), ("Kills", "error")}
    assert len(found) == 9


def test_what_is_deaf_to_the_clock_is_ended_and_the_rest_goes_on(bench, place):
    (place / "sleeps.yaml").write_text(
        EXPERIMENT.replace("[wine, own]", "[wine]")
        .replace("catalogue: own.yaml\n", "limits: {seconds: 2}\n")
        .replace('["mine.py:Paused", uni_log, uni_squ]', '[uni_log, "mine.py:Sleeps"]')
        .replace("trials: 2, folds: 3", "trials: 1, folds: 2")
    )
    done = bench("run", "sleeps.yaml", "--backend", "dask", "--jobs", 2, cwd=place)
    assert done.returncode == 1, done.stderr
    found = records(place / "results/sleeps")
    assert {(record["column"], record["status"]) for record in found.values()} == {
        ("uni_log", "ok"),
        ("Sleeps", "timeout"),
    }
    for record in found.values():
        if record["column"] == "Sleeps":
            assert record["message"].startswith("time limit of 2 s reached in mine.py:")
    assert len(found) == 4


def test_a_worker_does_not_compute_on_arrays_that_have_changed(bench, cluster, place):
    other = place / "other"
    cluster.start_worker(OPAUC_BENCH_CACHE=str(other))
    options = ["--scheduler", cluster.address, "--backend", "dask"]
    assert bench("run", "wine.yaml", *options, "--out", "first", cwd=place).returncode == 0
    os.killpg(cluster.processes.pop().pid, signal.SIGKILL)
    (path,) = other.glob("wine/prepared/*/X.npy")
    good = path.read_bytes()
    path.write_bytes(good[:-1] + bytes([good[-1] ^ 64]))
    cluster.start_worker(OPAUC_BENCH_CACHE=str(other))
    assert bench("run", "wine.yaml", *options, "--out", "second", cwd=place).returncode == 0
    assert records(place / "second") == records(place / "first")
    assert path.read_bytes() == good


def test_where_no_scheduler_is_the_error_says_how_to_start_one(bench, place):
    done = bench("run", "wine.yaml", "--scheduler", "tcp://127.0.0.1:1", cwd=place)
    assert (done.returncode, "--backend dask --scheduler" in done.stderr) == (2, True)
    done = bench("run", "wine.yaml", "--backend", "slurm", cwd=place)
    assert (done.returncode, "expected loky or dask" in done.stderr) == (2, True)
    done = bench("run", "wine.yaml", "--backend", "dask", "--scheduler", "nonsense://x", cwd=place)
    assert done.returncode == 1
    assert "no scheduler answers at nonsense://x" in done.stderr
