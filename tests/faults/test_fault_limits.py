"""Fault injection: time and memory limits, on every learner of the registry and every kind of protocol.

Tasks that are far too long have to end as ``timeout`` within five seconds of their limit; tasks with next to no memory
have to end as ``out_of_memory``, or fit. In both, small tasks beside them have to be computed.

By default a few learners are tried on each kind, on one dataset; with ``--fault-factor 10`` or more, all
learners and both datasets.
"""

import json
import os
import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opauc_bench.commands.local_data import LocalData
from opauc_bench.commands.planning import plan_locally
from opauc_bench.commands.recorded import Recorded
from opauc_bench.commands.session import Session
from opauc_bench.data import Sources
from opauc_bench.learners import get_learner
from opauc_bench.learners.registry import LEARNERS
from opauc_bench.results.record import Record
from opauc_bench.runner.execute import LocalExecutor
from opauc_bench.runner.worker import WorkerConfig
from opauc_bench.task import Task

pytestmark = pytest.mark.faults

# Seconds that a task may take beyond its limit. Loading a learner, which may compile it, does not count for the limit,
# and other processes of the test run compete for the processors. Without a limit a task takes minutes.
OVERTIME = 15.0
LIMIT = 3.0
SHAPES = {"wide": (2500, 2500, 2500), "thin": (40_000, 20_000, 40)}  # rows, features, nonzeros per row
N_SETTINGS = {"wide": 2048, "thin": 256}  # of each learner, so that even a cheap one needs longer than the limit

CATALOGUE = """
  {name}:
    title: Made-up rows
    format: svmlight
    files: [{{name: {name}.svm, sha256: null, urls: ["http://127.0.0.1:9/{name}.svm"]}}]
    n_samples: {rows}
    n_features: {features}
    n_positive: {positive}
    positive: [1]
    scaling: none
"""
SPLITS = "{trials: 1, folds: 2, inner_folds: 2}"
KINDS = {
    "cv": (SPLITS, ""),
    "holdout": ("{kind: holdout, trials: 1}", ""),
    "sweep": (f"{{kind: sweep, splits: {SPLITS}}}", "figures: [{x: eta, y: auc}]"),
    "convergence": (f"{{kind: convergence, points: 50, splits: {SPLITS}}}", "figures: [{x: n_seen, y: auc}]"),
    "timing": (f"{{kind: timing, repeats: 50, splits: {SPLITS}}}", "figures: [{x: dataset, y: seconds}]"),
    "sketch_error": (
        "{kind: sketch_error, sizes: [100, 200, 400, 800], trials: 1}",
        "figures: [{x: tau, y: positive_error}]",
    ),
    "prequential": ("{kind: prequential, trials: 1}", ""),
}
# A learner of each family is enough for the kinds beside cv.
SOME = ("opauc", "opauc_fd", "opauc_s", "opauc_pca", "opauc_rp", "oam_gra", "uni_log", "ftrl_auc", "fsauc")
BATCH = ("svm_perf", "svm_or", "ls_svm", "batch_uni_log", "batch_uni_squ")
SKETCHES = ("opauc_fd", "opauc_s", "opauc_r", "opauc_h")
# Learners that look at the clock in different places: for kind cv, and for the others.
FEW = ("opauc", "opauc_fd", "oam_gra", "ftrl_auc", "ls_svm")
FEWER = ("opauc_fd", "ftrl_auc", "ls_svm")


@dataclass(frozen=True)
class Prepared:
    """An experiment whose datasets are ready, and its tasks on them."""

    folder: Path
    tasks: list[Task]
    prepared: dict[str, str]


def write_datasets(place: Path) -> None:
    """Write two datasets: dense and wide, sparse and wider."""
    rng = np.random.default_rng(0)
    entries = []
    for name, (rows, features, nonzeros) in SHAPES.items():
        path = place / "mirror" / name / f"{name}.svm"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w") as file:
            for i in range(rows):
                present = range(features) if nonzeros == features else np.unique(rng.integers(0, features, nonzeros))
                values = rng.integers(1, 10, len(present)).tolist()
                file.write(f"{1 if i % 3 == 0 else -1} ")
                file.write(" ".join(f"{j + 1}:.{v}" for j, v in zip(present, values)) + "\n")
        positive = len(range(0, rows, 3))
        entries.append(CATALOGUE.format(name=name, rows=rows, features=features, positive=positive))
    (place / "limits_catalogue.yaml").write_text("datasets:" + "".join(entries))


def columns(names: tuple[str, ...], kind: str, n_settings: int) -> Iterator[dict[str, Any]]:
    """Entries of an experiment, each with a grid of many settings."""
    for name in names:
        axes = get_learner(name).grid_axes
        if kind == "sketch_error":
            axes = ()
        n_values = max(2, round(n_settings ** (1 / max(1, len(axes)))))
        yield {"learner": name, "grid": {axis: np.geomspace(1e-3, 1.0, n_values).tolist() for axis in axes}}


def prepared(place: Path, kind: str, dataset: str, names: tuple[str, ...]) -> Prepared:
    protocol, figures = KINDS[kind]
    config = place / f"limits_{kind}_{dataset}.yaml"
    config.write_text(
        f"title: Limits\ncatalogue: limits_catalogue.yaml\ndatasets: [{dataset}, wine]\n"
        f"learners: {json.dumps(list(columns(names, kind, N_SETTINGS[dataset])))}\nprotocol: {protocol}\n{figures}\n"
    )
    sources = Sources(place / "cache", (str(place / "mirror"),), offline=False)
    session = Session.open(config, out=place / "limits" / config.stem, sources=sources)
    local = LocalData(session.catalogue, sources)
    for name in session.experiment.datasets:
        local.prepare(name, lambda text: None)
    return Prepared(session.folder, plan_locally(Recorded.read(session), local).tasks, local.folders())


def selected(experiment: Prepared, dataset: str) -> list[Task]:
    """The first task of every column on a dataset, and between them as many of a small dataset."""
    firsts: dict[tuple[str, str], Task] = {}
    for task in experiment.tasks:
        if task.trial == task.fold == 0:
            firsts[task.dataset, task.column] = task
    large = [task for (name, _), task in firsts.items() if name == dataset]
    return [task for each in large for task in (each, firsts["wine", each.column])]


def run(experiment: Prepared, tasks: list[Task], **limits: float) -> tuple[dict[str, Record], dict[str, float]]:
    """Compute tasks on two workers; return records, and seconds from claim to record, by id."""
    running = experiment.folder / "running"
    shutil.rmtree(running, ignore_errors=True)
    began: dict[str, float] = {}
    taken: dict[str, float] = {}
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.02):
            for path in running.glob("*.claim"):
                began.setdefault(path.stem, time.monotonic())

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    executor = LocalExecutor(2)
    records = {}
    try:
        for task, record in executor.run(tasks, WorkerConfig(experiment.folder, experiment.prepared, **limits)):
            records[task.id] = record
            taken[task.id] = time.monotonic() - began.get(task.id, time.monotonic())
    finally:
        executor.stop()
        ended.set()
        watcher.join()
    return records, taken


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("limits")
    write_datasets(place)
    return place


@pytest.fixture
def experiment(place, request, kind, dataset) -> Prepared:
    """An experiment of one kind of protocol on one dataset."""
    names = {
        "cv": tuple(LEARNERS),
        "convergence": [name for name in SOME if get_learner(name).supports_stops],
        "prequential": [name for name in SOME if get_learner(name).supports_stops],
        "sketch_error": SKETCHES,
        "sweep": [name for name in SOME if "eta" in get_learner(name).grid_axes],
    }.get(kind, (*SOME, *BATCH))
    if not is_thorough(request.config):
        names = [name for name in names if name in (FEW if kind == "cv" else FEWER)]
    return prepared(place, kind, dataset, names)


def is_thorough(config) -> bool:
    return config.getoption("--fault-factor") >= 10


def pytest_generate_tests(metafunc):
    thorough = is_thorough(metafunc.config)
    metafunc.parametrize(("kind", "dataset"), [(k, d) for k in KINDS for d in (SHAPES if thorough else ["wide"])])
    if "megabytes" in metafunc.fixturenames:
        metafunc.parametrize("megabytes", [0.3, 3.0, 30.0] if thorough else [3.0])


def test_tasks_that_are_too_long_end_within_seconds_of_their_limit(experiment, dataset):
    tasks = selected(experiment, dataset)
    records, taken = run(experiment, tasks, seconds=LIMIT)
    overtime = OVERTIME * max(1.0, os.getloadavg()[0] / os.cpu_count())
    for task in tasks:
        if task.dataset == "wine":
            require_status(task, records[task.id], "ok", "diverged", *["timeout"] * (task.seconds > 1))
        else:
            require_status(task, records[task.id], "timeout", "ok", "diverged")
            assert taken[task.id] < LIMIT + overtime, (task.label, records[task.id].message)


def test_tasks_with_next_to_no_memory_are_recorded(experiment, dataset, megabytes):
    tasks = selected(experiment, dataset)
    records, _ = run(experiment, tasks, seconds=2 * LIMIT, memory_bytes=megabytes * 1e6)
    for task in tasks:
        require_status(task, records[task.id], "out_of_memory", "timeout", "ok", "diverged")


def require_status(task: Task, record: Record, *statuses: str) -> None:
    assert record.status in statuses, f"{task.label}: {record.status}: {record.message} {record.traceback or ''}"
