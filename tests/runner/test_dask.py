"""The same records from a Dask cluster: a real scheduler and real workers on the loopback, and what befalls them."""

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from command_line import Bench
from folders import HEBB, contents

from opauc_bench.errors import RunnerError
from opauc_bench.results.manifest import read_manifest
from opauc_bench.results.store import Store
from opauc_bench.runner import dask_engine
from opauc_bench.runner.dask_engine import DaskExecutor

pytest.importorskip("distributed", reason="the extra [dask] is not installed")
pytestmark = pytest.mark.faults

# One takes its time, one kills its worker, one takes no notice of the clock.
LEARNERS = (
    HEBB
    + '''
import ctypes
import os
import time


class Paused(OnData):
    def misbehave(self):
        time.sleep(0.03)


class Kills(OnData):
    def misbehave(self):
        os.kill(os.getpid(), 9)


class Sleeps(OnData):
    """Keeps all other threads of Python from running, too."""

    def misbehave(self):
        ctypes.PyDLL(None).sleep(600)
'''
)

EXPERIMENT = """
title: Tasks for a cluster
catalogue: own.yaml
datasets: [wine, own]
learners: ["mine.py:Paused", uni_log, uni_squ]
grids: {eta: {pow2: [-8, 0, 4]}}
protocol: {trials: 2, folds: 3, inner_folds: 3, keep_scores: true}
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


def wait_for_records(folder: Path, count: int, process: subprocess.Popen) -> None:
    while len(list(folder.glob("running/*.json"))) < count:
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)


def test_cluster_gives_the_same_records_as_one_machine(bench, cluster, place):
    for _ in range(2):
        cluster.start_worker()
    local = bench("run", "wine.yaml", "--jobs", 1, "--out", "local_run", cwd=place)
    remote = bench(
        "run", "wine.yaml", "--scheduler", cluster.address, "--backend", "dask", "--out", "remote", cwd=place
    )
    assert (local.returncode, remote.returncode) == (0, 0), remote.stderr
    assert contents(place / "remote") == contents(place / "local_run")
    assert len(contents(place / "remote")) == 18
    remote_scores, local_scores = (
        {path.name: path.read_bytes() for path in (place / folder / "scores").iterdir()}
        for folder in ("remote", "local_run")
    )
    assert len(local_scores) == 18
    assert remote_scores == local_scores
    assert (place / "remote/folds.csv").read_bytes() == (place / "local_run/folds.csv").read_bytes()
    assert not list((place / "local").rglob("opauc-bench-*")), "workers clean up after themselves"


def test_times_are_divided_by_the_workers_of_the_scheduler(cluster):
    cluster.start_worker()
    executor = DaskExecutor(cluster.address, 7, {})
    try:
        executor.connect()
        assert executor.n_jobs == 1
    finally:
        executor.stop()


def test_environment_of_a_worker_is_in_the_manifest(bench, cluster, place):
    """It is not that of the run: here, the worker believes that it has 77 cores."""
    (place / "site").mkdir()
    (place / "site/sitecustomize.py").write_text("import os\nos.cpu_count = lambda: 77\n")
    cluster.start_worker(PYTHONPATH=str(place / "site"))
    bench("run", "wine.yaml", "--scheduler", cluster.address, "--backend", "dask", cwd=place, exits=0)
    environments = read_manifest(place / "results/wine").environments
    found = Store(place / "results/wine").read().values()
    assert {environments[record.environment]["cores"] for record in found} == {77}
    again = bench("run", "wine.yaml", cwd=place)
    assert again.stderr.startswith("0 of 18 tasks to compute: all have records from ")
    assert read_manifest(place / "results/wine").environments == environments


def test_killed_worker_costs_no_record(bench, cluster, place):
    workers = [cluster.start_worker() for _ in range(2)]
    run = bench.start("run", "wine.yaml", "--scheduler", cluster.address, "--backend", "dask", cwd=place)
    wait_for_records(place / "results/wine", 2, run)
    os.killpg(workers[0].pid, signal.SIGKILL)
    _, err = run.communicate(timeout=120)
    assert run.returncode == 0, err
    found = contents(place / "results/wine")
    assert len(found) == 18
    assert {record["status"] for record in found.values()} == {"ok"}
    assert not list((place / "results").rglob("*.tmp"))
    assert not (place / "results/wine/running").exists()


def test_killed_run_is_continued_with_the_records_of_the_workers(bench, cluster, place):
    cluster.start_worker()
    options = ["wine.yaml", "--scheduler", cluster.address, "--backend", "dask"]
    folder = place / "results/wine"
    run = bench.start("run", *options, cwd=place)
    wait_for_records(folder, 3, run)
    run.kill()
    run.communicate()
    before = {path.stem: path.read_bytes() for path in folder.glob("running/*.json")}
    assert 3 <= len(before) < 18
    done = bench("run", *options, cwd=place, exits=0)
    assert f"{18 - len(before)} of 18 tasks to compute" in done.stderr
    lines = (folder / "records/wine.jsonl").read_bytes().splitlines(keepends=True)
    assert len(lines) == 18
    assert set(before.values()) < set(lines)
    assert not (folder / "running").exists()


def test_run_goes_on_when_the_scheduler_comes_back(bench, cluster, place):
    cluster.start_worker()
    run = bench.start("run", "wine.yaml", "--scheduler", cluster.address, "--backend", "dask", cwd=place)
    wait_for_records(place / "results/wine", 2, run)
    os.killpg(cluster.scheduler.pid, signal.SIGKILL)
    cluster.scheduler.wait()
    cluster.start_scheduler()
    cluster.start_worker()
    _, err = run.communicate(timeout=120)
    assert run.returncode == 0, err
    assert len(contents(place / "results/wine")) == 18


def test_worker_without_the_data_leaves_the_task_to_another(bench, cluster, place):
    (place / "own.yaml").write_text(OWN)
    (place / "mirror/own").mkdir(parents=True)
    rows = [f"{0.01 * i},{0.02 * (i % 7)},{i % 2}" for i in range(60)]
    (place / "mirror/own/own.csv").write_text("\n".join(rows) + "\n")
    (place / "both.yaml").write_text(EXPERIMENT)
    cluster.start_worker(OPAUC_BENCH_CACHE=str(place / "empty"))
    cluster.start_worker(OPAUC_BENCH_CACHE=str(place / "full"), OPAUC_BENCH_MIRROR=str(place / "mirror"))
    options = ["--scheduler", cluster.address, "--backend", "dask", "--mirror", place / "mirror"]
    bench("run", "both.yaml", *options, cwd=place, exits=0)
    assert {record["status"] for record in contents(place / "results/both").values()} == {"ok"}


def test_task_that_kills_its_worker_is_recorded_and_the_others_computed(environment, place):
    # By default Dask checks 15 s after each death whether that worker is back, and gives it up if not.
    bench = Bench(environment | {"DASK_DISTRIBUTED__DEPLOY__LOST_WORKER_TIMEOUT": "100ms"})
    (place / "kills.yaml").write_text(
        EXPERIMENT.replace("[wine, own]", "[wine]")
        .replace("catalogue: own.yaml\n", "")
        .replace("uni_squ]", '"mine.py:Kills"]')
        .replace("trials: 2", "trials: 1")
    )
    done = bench("run", "kills.yaml", "--backend", "dask", "--jobs", 2, cwd=place, exits=1)
    assert done.stderr.count("the worker process died twice on this task") == 3
    assert "distributed" not in done.stderr, "Dask's own messages of workers that ended"
    found = contents(place / "results/kills")
    statuses = {(record["column"], record["status"]) for record in found.values()}
    assert statuses == {("Paused", "ok"), ("uni_log", "ok"), ("Kills", "error")}
    assert len(found) == 9


def test_task_that_does_not_look_at_the_clock_is_ended_and_the_others_computed(bench, place):
    (place / "sleeps.yaml").write_text(
        EXPERIMENT.replace("[wine, own]", "[wine]")
        .replace("catalogue: own.yaml\n", "limits: {seconds: 2}\n")
        .replace('["mine.py:Paused", uni_log, uni_squ]', '[uni_log, "mine.py:Sleeps"]')
        .replace("trials: 2, folds: 3", "trials: 1, folds: 2")
    )
    bench("run", "sleeps.yaml", "--backend", "dask", "--jobs", 2, cwd=place, exits=1)
    found = contents(place / "results/sleeps")
    assert {(record["column"], record["status"]) for record in found.values()} == {
        ("uni_log", "ok"),
        ("Sleeps", "timeout"),
    }
    for record in found.values():
        if record["column"] == "Sleeps":
            assert record["message"].startswith("time limit of 2 s reached in mine.py:")
    assert len(found) == 4


def test_worker_prepares_arrays_again_that_have_changed(bench, cluster, place):
    other = place / "other"
    cluster.start_worker(OPAUC_BENCH_CACHE=str(other))
    options = ["--scheduler", cluster.address, "--backend", "dask"]
    bench("run", "wine.yaml", *options, "--out", "first", cwd=place, exits=0)
    os.killpg(cluster.processes.pop().pid, signal.SIGKILL)
    (path,) = other.glob("wine/prepared/*/X.npy")
    good = path.read_bytes()
    path.write_bytes(good[:-1] + bytes([good[-1] ^ 64]))
    cluster.start_worker(OPAUC_BENCH_CACHE=str(other))
    bench("run", "wine.yaml", *options, "--out", "second", cwd=place, exits=0)
    assert contents(place / "second") == contents(place / "first")
    assert path.read_bytes() == good


@pytest.mark.parametrize("workers", [0, 1])
def test_a_run_without_workers_ends_with_an_error(monkeypatch, workers):
    """It waits for a task as long as there is a worker."""
    monkeypatch.setattr(dask_engine, "_SECONDS_FOR_WORKERS", 0.1)
    monkeypatch.setattr(dask_engine, "_SECONDS_BETWEEN_LOOKS", 0.02)
    client = SimpleNamespace(scheduler_info=lambda n_workers: {"workers": dict.fromkeys(range(workers))})
    looks = itertools.count()
    queue = SimpleNamespace(has_ready=lambda: next(looks) > 40)
    if workers:
        dask_engine._wait_for_one(queue, client)
    else:
        with pytest.raises(RunnerError, match="all workers are gone, and no worker has started"):
            dask_engine._wait_for_one(queue, client)


def test_missing_scheduler_is_an_error(bench, place):
    done = bench("run", "wine.yaml", "--scheduler", "tcp://127.0.0.1:1", cwd=place)
    assert (done.returncode, "--backend dask --scheduler" in done.stderr) == (2, True)
    done = bench("run", "wine.yaml", "--backend", "slurm", cwd=place)
    assert (done.returncode, "expected loky or dask" in done.stderr) == (2, True)
    done = bench("run", "wine.yaml", "--backend", "dask", "--scheduler", "nonsense://x", cwd=place, exits=1)
    for line in ("waiting for the scheduler nonsense://x and its workers", "no scheduler answers at nonsense://x"):
        assert line in done.stderr
    assert not (place / "results").exists(), "nothing is written before there are workers"


def test_missing_scheduler_costs_no_record_that_was_to_be_computed_again(bench, place):
    bench("run", "wine.yaml", "-l", "uni_log", cwd=place, exits=0)
    before = (place / "results/wine/records/wine.jsonl").read_bytes()
    bench("run", "wine.yaml", "--fresh", "--backend", "dask", "--scheduler", "nonsense://x", cwd=place, exits=1)
    assert (place / "results/wine/records/wine.jsonl").read_bytes() == before
