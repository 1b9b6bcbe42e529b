"""The tasks of an experiment on the data of this machine, and their records in other folders."""

from __future__ import annotations

import multiprocessing
import os
import time
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ConfigError
from ..learners import ESTIMATOR
from ..plan import Column, make_plan, reason_left_out
from ..protocols.on_splits import ShowsSelected
from ..results.manifest import DatasetFacts, find_manifest
from ..results.record import Record
from ..results.reuse import find_reusable
from ..results.store import Records
from ..runner.gram_matrix import has_stored_gram_matrix
from ..sentences import Problem
from ..task import Shape, Task, expand_grid
from ..yamlio import read_yaml
from .local_data import LocalData
from .progress import Estimate
from .recorded import Recorded, shapes_of
from .session import Session

__all__ = [
    "LocalPlan",
    "fold_problems",
    "kept_notes",
    "left_out_cases",
    "measure_estimators",
    "memory_problems",
    "plan_locally",
    "selecting_plan",
]

_LONGEST_MEASUREMENT = 30.0  # seconds, of an estimator on one dataset


@dataclass
class LocalPlan:
    """Tasks on the data of this machine."""

    tasks: list[Task]  # those that the command line and the shard select, in the order of computation
    reusable: Records = field(default_factory=Records)  # of other folders, for tasks without a number here
    selections: Records = field(default_factory=Records)  # of other folders, whose selected setting is used

    def done(self, task: Task, recorded: Recorded) -> Record | None:
        """The record that a task has, here or in another folder; None also if it is to be computed again.

        That is so if it lacks a metric of the protocol, or was not reached by a run that computes it again.
        """
        if task.id in recorded.records.again:
            return None
        found = self.reusable.of(task) or recorded.records.of(task)
        return None if found is not None and found.ok and task.protocol.lacks(found.metrics) else found

    def estimate(self, recorded: Recorded) -> Estimate:
        """CPU times, corrected by every finished task of the experiment, whatever part of it is planned."""
        estimate, planned = Estimate(), {task.id for task in self.tasks}
        for task in self.tasks:
            estimate.learn(task, self.done(task, recorded))
        for task in recorded.tasks if recorded.records else ():
            if task.id not in planned:
                estimate.learn(task, recorded.records.of(task))
        return estimate


def plan_locally(recorded: Recorded, local: LocalData, without: Collection[str] = ()) -> LocalPlan:
    """Plan an experiment on the data of this machine; for datasets that are not prepared, on known or stated sizes.

    Datasets in `without` have no tasks.
    """
    session = recorded.session
    shapes = shapes_of(session, {**_reused_facts(session), **recorded.manifest.datasets, **local.facts()})
    shapes = {name: shape for name, shape in shapes.items() if name not in without}
    selections, selected = Records(), {}
    if selecting := selecting_plan(session, shapes):
        selections = find_reusable(session.reuse, {task.id for task in selecting if task.id is not None})
        selected = {task.place: record.selected for task in selecting if (record := selections.of(task))}
    tasks = make_plan(session.experiment, shapes, session.columns, selected)
    if session.shard:
        tasks = session.shard.select(tasks, session.experiment)
    tasks = [task for task in tasks if session.selects(task)]
    _refuse_sparse(session, shapes, tasks)
    again = recorded.records.again
    missing = {
        task.id for task in tasks if task.id is not None and not (task.id in again or _has_number(recorded, task))
    }
    metrics = session.experiment.protocol.record_metrics
    return LocalPlan(tasks, find_reusable(session.reuse, missing, metrics) if missing else Records(), selections)


def _has_number(recorded: Recorded, task: Task) -> bool:
    record = recorded.records.of(task)
    return record is not None and record.ok


def _reused_facts(session: Session) -> dict[str, DatasetFacts]:
    """What the folders under ``reuse`` know of datasets, so that their records are found before data are prepared."""
    manifests = [find_manifest(folder) for folder in reversed(session.reuse)]
    return {name: facts for manifest in manifests if manifest for name, facts in manifest.datasets.items()}


def selecting_plan(session: Session, shapes) -> list[Task]:
    """Tasks of the protocol under ``splits`` that select the settings which are measured; none for other kinds."""
    protocol = session.experiment.protocol
    if not (isinstance(protocol, ShowsSelected) and session.experiment.reuse):
        return []
    selecting = session.experiment.model_copy(update={"protocol": protocol.splits})
    return make_plan(selecting, shapes, [column for column in session.columns if column.n_settings > 1])


def measure_estimators(session: Session, local: LocalData, tasks: Iterable[Task]) -> bool:
    """Measure small fits of the estimators among the columns of some tasks, on data that are ready.

    Their costs are not known beforehand. Returns whether there were any: then the plan has to be made again.
    """
    wanted = {(task.dataset, task.column) for task in tasks}
    columns = {column.key: column for column in session.columns if column.learner == ESTIMATOR}
    measured = sorted((dataset, key) for dataset, key in wanted if dataset in local.prepared and key in columns)
    for dataset, key in measured:
        column, data = columns[key], local.prepared[dataset]
        column.estimator.measured |= _measured_apart(column, data.X, data.y)
    return bool(measured)


def _measured_apart(column: Column, X: Any, y: np.ndarray) -> dict[int, tuple[float, float]]:
    """Measure fits of an estimator in a process of its own, which it may end, crash or keep busy.

    Returns the last measurement before that, or {}.
    """
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def measure() -> None:
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        for found in column.estimator.measure_cost(X, y, expand_grid(column.grid)):
            sender.send(found)
        os._exit(0)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of other threads: those of BLAS, which allows it
        process = context.Process(target=measure, daemon=True)
        process.start()
    sender.close()
    measured, deadline = {}, time.monotonic() + _LONGEST_MEASUREMENT
    try:
        while receiver.poll(max(0.0, deadline - time.monotonic())):
            measured = receiver.recv()
    except EOFError:  # it has ended
        pass
    finally:
        process.kill()
        process.join()
    return measured


def _refuse_sparse(session: Session, shapes: Mapping[str, Shape], tasks: Sequence[Task]) -> None:
    """Raise ConfigError where a classifier cannot use a sparse dataset, with the place of its entry."""
    problems = []
    for position, column in enumerate(session.columns):
        if column.learner == ESTIMATOR:
            used = dict.fromkeys(task.dataset for task in tasks if task.column == column.key)
            sparse = [dataset for dataset in used if shapes[dataset].is_sparse]
            if sparse and not column.estimator.accepts_sparse():
                are = f"{', '.join(sparse)} {'is' if len(sparse) == 1 else 'are'} sparse"
                problems.append(Problem(("learners", position), f"this estimator needs dense rows, and {are}"))
    if not problems:
        return
    hint = "dense: true in this entry makes the rows dense, as far as memory allows; or another estimator"
    path = session.experiment.path
    if path.is_file():
        raise read_yaml(path).error(problems, hint)
    raise ConfigError("\n".join(f"{path}: {problem.message}" for problem in problems), hint)


def fold_problems(session: Session, local: LocalData, names: Iterable[str]) -> list[str]:
    """Which datasets the protocol cannot use, such as those too small for rows of both classes in every set.

    Of datasets that are not prepared, what the catalogue says is checked. It needs no tasks: there may be a million.
    """
    problems, shapes = [], shapes_of(session, local.facts())
    for name in names:
        data, shape = local.prepared.get(name), shapes.get(name)
        if shape is None or shape.n_positive is None:
            continue
        for _, protocol in session.experiment.protocol.cases():
            if reason_left_out(protocol, shape):
                continue
            sizes = shape.n_positive, shape.n_samples - shape.n_positive
            if error := protocol.data_problem(data) if data else protocol.class_size_problem(*sizes):
                problems.append(f"{name}: {error}")
    return problems


def left_out_cases(recorded: Recorded, local: LocalData) -> list[str]:
    """Sentences on the selected datasets that have no tasks under some case of the protocol."""
    session = recorded.session
    shapes = shapes_of(session, {**recorded.manifest.datasets, **local.facts()})
    return [
        f"Left out: {dataset}{end}, since {reason}."
        for dataset, shape in shapes.items()
        if dataset in session.datasets
        for end, protocol in session.experiment.protocol.cases()
        if (reason := reason_left_out(protocol, shape))
    ]


def kept_notes(local: LocalData, tasks: Iterable[Task]) -> list[str]:
    """Sentences on what tasks will leave in the cache beside the data."""
    folders = local.folders()
    sizes = {
        task.dataset: task.kept_bytes
        for task in tasks
        if task.kept_bytes and not has_stored_gram_matrix(Path(folders.get(task.dataset, "")))
    }
    return [
        f"{name}: its first task computes the Gram matrix of the rows and keeps it in the cache, {size / 1e9:.1f} GB"
        for name, size in sizes.items()
    ]


def memory_problems(session: Session, tasks: Iterable[Task], memory_bytes: float) -> list[str]:
    """Which datasets and columns have tasks that need more memory than they may use."""
    limit = session.experiment.limits.memory_gb
    allowed = f"limits.memory_gb allows {limit:g} GB" if limit else f"this machine has {memory_bytes / 1e9:.0f} GB"
    over = {(task.dataset, task.column): task.memory_bytes for task in tasks if task.memory_bytes > memory_bytes}
    return [
        f"{dataset} {column} needs about {_size_text(size)} per task, {allowed}"
        for (dataset, column), size in over.items()
    ]


def _size_text(n_bytes: float) -> str:
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 5e7 else f"{n_bytes / 1e6:.2g} MB"
