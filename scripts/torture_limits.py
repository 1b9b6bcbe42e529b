"""Time and memory limits, tried on every learner of the registry and on every kind of protocol.

Tasks that are far too long have to end as ``timeout`` within five seconds of their limit; tasks with next to no memory
have to end as ``out_of_memory``, or fit. In both, small tasks beside them have to come through.
"""

from __future__ import annotations

import inspect
import json
import shutil
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from opauc_bench.commands.local_data import LocalData
from opauc_bench.commands.planning import plan_locally
from opauc_bench.commands.recorded import Recorded
from opauc_bench.commands.session import Session
from opauc_bench.data import Sources
from opauc_bench.learners import get_learner
from opauc_bench.learners.registry import LEARNERS
from opauc_bench.results.record import Record
from opauc_bench.runner.execute import LocalExecutor
from opauc_bench.runner.worker import Workplace
from opauc_bench.task import Task

__all__ = ["OVERTIME", "Tried", "try_memory", "try_time"]

OVERTIME = 5.0  # seconds that a task may take beyond its limit
_LIMIT = 3.0
_MEGABYTES = (0.3, 3.0, 30.0)
_SHAPES = {"wide": (2500, 2500, 2500), "thin": (40_000, 20_000, 40)}  # rows, features, nonzeros of a row
_SETTINGS = {"wide": 2048, "thin": 256}  # of each learner, so that even a cheap one needs longer than the limit
_ENDED = "; its process had to be ended"

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
}
# A learner of each family is enough for the kinds beside cv.
SOME = ("opauc", "opauc_fd", "opauc_s", "opauc_pca", "opauc_rp", "oam_gra", "uni_log", "ftrl_auc", "fsauc")
BATCH = ("svm_perf", "svm_or", "ls_svm", "batch_uni_log", "batch_uni_squ")
SKETCHES = ("opauc_fd", "opauc_s", "opauc_r", "opauc_h")


@dataclass(frozen=True)
class Bench:
    """An experiment whose datasets are ready, and its tasks on them."""

    folder: Path
    tasks: list[Task]
    prepared: dict[str, str]


@dataclass
class Tried:
    """What became of tasks with limits.

    Attributes
    ----------
    statuses : Counter
    by_force : int
        Of those that timed out, how many did not look at the clock.
    slowest : float
        Seconds beyond the limit of the task that took longest, as the runner's process saw it.
    complaints : list of str
    """

    statuses: Counter = field(default_factory=Counter)
    by_force: int = 0
    slowest: float = 0.0
    complaints: list[str] = field(default_factory=list)


def prepare(place: Path) -> None:
    """Write two datasets: dense and wide, sparse and wider."""
    rng = np.random.default_rng(0)
    entries = []
    for name, (rows, features, nonzeros) in _SHAPES.items():
        path = place / "mirror" / name / f"{name}.svm"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w") as file:
            for i in range(rows):
                chosen = range(features) if nonzeros == features else np.unique(rng.integers(0, features, nonzeros))
                values = rng.integers(1, 10, len(chosen)).tolist()
                file.write(f"{1 if i % 3 == 0 else -1} ")
                file.write(" ".join(f"{j + 1}:.{v}" for j, v in zip(chosen, values)) + "\n")
        positive = len(range(0, rows, 3))
        entries.append(CATALOGUE.format(name=name, rows=rows, features=features, positive=positive))
    (place / "limits_catalogue.yaml").write_text("datasets:" + "".join(entries))


def _columns(names: tuple[str, ...], kind: str, n_settings: int) -> Iterator[dict[str, Any]]:
    """Entries of an experiment, each with a grid of many settings."""
    for name in names:
        axes = get_learner(name).grid_axes
        if kind == "sketch_error":
            axes = ()
        n_values = max(2, round(n_settings ** (1 / max(1, len(axes)))))
        yield {"learner": name, "grid": {axis: np.geomspace(1e-3, 1.0, n_values).tolist() for axis in axes}}


def _bench(place: Path, kind: str, dataset: str, names: tuple[str, ...]) -> Bench:
    protocol, figures = KINDS[kind]
    config = place / f"limits_{kind}_{dataset}.yaml"
    config.write_text(
        f"title: Limits\ncatalogue: limits_catalogue.yaml\ndatasets: [{dataset}, wine]\n"
        f"learners: {json.dumps(list(_columns(names, kind, _SETTINGS[dataset])))}\nprotocol: {protocol}\n{figures}\n"
    )
    sources = Sources(place / "cache", (str(place / "mirror"),), offline=False)
    session = Session.open(config, out=place / "limits" / config.stem, sources=sources)
    local = LocalData(session.catalogue, sources)
    for name in session.experiment.datasets:
        local.prepare(name, lambda text: None)
    return Bench(session.folder, plan_locally(Recorded.read(session), local).tasks, local.folders())


def _benches(place: Path) -> Iterator[tuple[str, Bench]]:
    one_pass = tuple(name for name in SOME if "on_stop" in inspect.signature(get_learner(name).fit_grid).parameters)
    with_eta = tuple(name for name in SOME if "eta" in get_learner(name).grid_axes)
    for dataset in _SHAPES:
        for kind in KINDS:
            own = {"cv": tuple(LEARNERS), "convergence": one_pass, "sketch_error": SKETCHES, "sweep": with_eta}
            names = own.get(kind, (*SOME, *BATCH))
            yield f"{kind}, {dataset}", _bench(place, kind, dataset, names)


def _chosen(bench: Bench, dataset: str) -> list[Task]:
    """The first task of every column on a dataset, and between them as many of a small dataset."""
    firsts: dict[tuple[str, str], Task] = {}
    for task in bench.tasks:
        if task.trial == task.fold == 0:
            firsts[task.dataset, task.column] = task
    large = [task for (name, _), task in firsts.items() if name == dataset]
    return [task for each in large for task in (each, firsts["wine", each.column])]


def _run(bench: Bench, tasks: list[Task], **limits: float) -> tuple[dict[str, Record], dict[str, float]]:
    """Compute tasks on two workers; return records, and seconds from claim to record, by id."""
    running = bench.folder / "running"
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
        for task, record in executor.run(tasks, Workplace(bench.folder, bench.prepared, **limits)):
            records[task.id] = record
            taken[task.id] = time.monotonic() - began.get(task.id, time.monotonic())
    finally:
        executor.stop()
        ended.set()
        watcher.join()
    return records, taken


def try_time(place: Path) -> dict[str, Tried]:
    """Tasks of minutes with a limit of seconds; what is done before the limit does not count against anybody."""
    found = {}
    for name, bench in _benches(place):
        dataset = name.rpartition(" ")[2]
        tasks = _chosen(bench, dataset)
        records, taken = _run(bench, tasks, seconds=_LIMIT)
        tried = found[f"time limit: {name}"] = Tried()
        for task in tasks:
            record = records[task.id]
            if task.dataset == "wine":
                _expect(tried, task, record, ("ok", "diverged", "timeout") if task.seconds > 1 else ("ok", "diverged"))
                continue
            tried.statuses[record.status] += 1
            _expect(tried, task, record, ("timeout", "ok", "diverged"))
            tried.by_force += record.message.endswith(_ENDED)
            beyond = taken[task.id] - _LIMIT
            tried.slowest = max(tried.slowest, beyond)
            if beyond > OVERTIME:
                tried.complaints.append(f"{task.label}: {beyond:.1f} s beyond its limit: {record.message}")
    return found


def try_memory(place: Path) -> dict[str, Tried]:
    """Tasks with next to no memory."""
    found = {}
    for name, bench in _benches(place):
        dataset = name.rpartition(" ")[2]
        for megabytes in _MEGABYTES:
            tasks = _chosen(bench, dataset)
            records, _ = _run(bench, tasks, seconds=2 * _LIMIT, memory_bytes=megabytes * 1e6)
            tried = found[f"{megabytes:g} MB: {name}"] = Tried()
            for task in tasks:
                record = records[task.id]
                if task.dataset != "wine":
                    tried.statuses[record.status] += 1
                _expect(tried, task, record, ("out_of_memory", "timeout", "ok", "diverged"))
    return found


def _expect(tried: Tried, task: Task, record: Record, statuses: tuple[str, ...]) -> None:
    if record.status not in statuses:
        tried.complaints.append(f"{task.label}: {record.status}: {record.message} {record.traceback or ''}")


if __name__ == "__main__":
    import argparse
    import tempfile

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = (given.keep or Path(folder)).resolve()
        place.mkdir(parents=True, exist_ok=True)
        prepare(place)
        for attempt in (try_time, try_memory):
            for name, tried in attempt(place).items():
                print(name, dict(tried.statuses), tried.by_force, f"{tried.slowest:.1f}", tried.complaints, flush=True)
