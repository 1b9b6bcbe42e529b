"""From an experiment to its list of tasks: a pure function, no files, no processes.

A task is one repetition of the protocol on one dataset with one column, such as an outer fold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from .config import Experiment
from .config.entry import ColumnEntry
from .errors import ConfigError
from .evaluation.span import (
    SECONDS_TO_GENERATE,
    are_products_worth_it,
    has_few_rows,
    is_narrower,
    seconds_for_gram_matrix,
    seconds_for_products,
    seconds_for_triangular_rows,
)
from .protocols import Protocol
from .task import Shape, Task

__all__ = ["Column", "make_column", "make_columns", "make_plan", "reason_left_out", "recorded_column"]

# Part of every task's identity: raise it when the protocol itself gives other numbers.
PROTOCOL_VERSION = 1
# Beyond that the list alone fills the memory: a typing error.
_MOST_TASKS = 2_000_000


@dataclass(frozen=True)
class Column:
    """A learner in an experiment."""

    key: str  # its name in records
    title: str  # its heading in tables
    learner: str  # registry name, or /path/to/file.py:Class
    identity: dict[str, Any]  # what defines the learner's numbers: name, version, parameters, grid
    params: dict[str, Any]  # fixed constructor parameters
    grid: dict[str, tuple[float, ...]]  # values of each tuned axis
    estimator: Any = field(repr=False, compare=False)  # unfitted, with `params` set
    max_train: dict[str, int] = field(default_factory=dict)  # training rows at most, by dataset
    tuned_by: Column | None = None  # the column that selects the values of `inherited_axes`
    inherited_axes: tuple[str, ...] = ()

    def defines(self, definition: Mapping[str, Any]) -> bool:
        """Whether a definition of tasks is that of this column, with any protocol."""
        return {**definition, "protocol": None} == {**self.identity, "protocol": None}

    @property
    def n_settings(self) -> int:
        return math.prod(len(values) for values in self.grid.values())


def make_columns(experiment: Experiment, find_learner: Callable[[str], type[Any]]) -> list[Column]:
    """Resolve the learners of an experiment with ``find_learner``, from a name to a class.

    ConfigError if the protocol cannot use a learner.
    """
    return [make_column(experiment, entry, find_learner) for entry in experiment.learners]


def make_column(experiment: Experiment, entry: ColumnEntry, find_learner: Callable[[str], type[Any]]) -> Column:
    """Resolve one learner of an experiment; see `make_columns`."""
    learner, params = experiment.learner_of(entry), experiment.params_of(entry)
    class_ = find_learner(learner)
    estimator = class_(**params)
    tuned_by = None
    inherited: tuple[str, ...] = ()
    if (other := experiment.tuner_of(entry)) is not None:
        tuned_by = make_column(experiment, other, find_learner)
        inherited = tuple(axis for axis in estimator.grid_axes if axis in tuned_by.grid)
    grid = experiment.grid_of(entry, [axis for axis in estimator.grid_axes if axis not in inherited])
    if found := experiment.protocol.learner_error(class_):
        raise ConfigError(f"{experiment.path}: {entry.name} {found[0]}", found[1])
    identity = {
        **estimator.identity(learner, (*grid, *inherited)),
        "grid": {axis: list(values) for axis, values in grid.items()},
    }
    if tuned_by:
        identity["axes_from"] = {"axes": list(inherited), **tuned_by.identity}
    if class_.source_hash:
        identity["source"] = class_.source_hash
    caps = _caps(experiment, entry)
    return Column(entry.name, entry.heading, learner, identity, params, grid, estimator, caps, tuned_by, inherited)


def recorded_column(
    experiment: Experiment, entry: ColumnEntry, identity: dict[str, Any], estimator: Any, tuned_by: Column | None
) -> Column:
    """A column of recorded results whose class is not here: its identity is known, and ``estimator`` stands for it."""
    learner, params = experiment.learner_of(entry), experiment.params_of(entry)
    grid = {axis: tuple(values) for axis, values in identity["grid"].items()}
    inherited = tuple(identity.get("axes_from", {}).get("axes", ()))
    caps = _caps(experiment, entry)
    return Column(entry.name, entry.heading, learner, identity, params, grid, estimator, caps, tuned_by, inherited)


def _caps(experiment: Experiment, entry: ColumnEntry) -> dict[str, int]:
    return {dataset: cap for dataset in experiment.datasets if (cap := entry.max_train_on(dataset)) is not None}


def make_plan(
    experiment: Experiment,
    shapes: Mapping[str, Shape],
    columns: list[Column],
    selected: Mapping[tuple[str, str, int, int], dict[str, float]] = MappingProxyType({}),
) -> list[Task]:
    """List the tasks of an experiment: cheap datasets first, and within a dataset the long tasks first.

    Datasets without a shape have no tasks. ``selected`` are settings that are known to be selected, by row, column,
    trial and fold, for protocols that measure one setting. ConfigError if there would be more than two million tasks.
    """
    protocol = experiment.protocol
    n_tasks = len(experiment.datasets) * len(protocol.cases()) * len(columns) * protocol.n_repetitions
    if n_tasks > _MOST_TASKS:
        raise ConfigError(f"{experiment.path}: expected at most {_MOST_TASKS:,} tasks", "fewer trials or folds")
    plans = []
    for dataset in experiment.datasets:
        if dataset not in shapes:
            continue
        cases = (
            _Case(dataset, f"{dataset}{end}", shapes[dataset], case, experiment.limits.memory_bytes)
            for end, case in protocol.cases()
        )
        tasks = [
            case.task(column, trial, fold, selected.get((case.row, column.key, trial, fold)))
            for case in cases
            if not reason_left_out(case.protocol, case.shape)
            for column in columns
            for trial, fold in case.protocol.repetitions()
        ]
        plans.append(sorted(tasks, key=lambda task: -task.seconds))
    plans.sort(key=lambda tasks: sum(task.seconds for task in tasks))
    return [task for tasks in plans for task in tasks]


def reason_left_out(protocol: Protocol, shape: Shape) -> str:
    """Why a dataset has no tasks under a case of the protocol, or an empty string."""
    return "" if shape.n_positive is None else protocol.reason_left_out(shape.n_samples, shape.n_positive)


@dataclass(frozen=True)
class _Case:
    """A dataset under one case of the protocol: a row of the table."""

    dataset: str
    row: str
    shape: Shape
    protocol: Protocol
    memory_limit: float | None  # bytes

    def task(self, column: Column, trial: int, fold: int, selected: dict[str, float] | None) -> Task:
        """The task of a column in one repetition; ``selected`` is the setting, if that is known."""
        shape, protocol = self.shape, self.protocol
        max_train = column.max_train.get(self.dataset)
        sized = protocol.on(shape)
        n_rows = sized.n_rows(shape.n_samples, shape.n_positive)
        if selected is None:
            searched = [(one, one.n_settings) for one in (column, column.tuned_by) if one]
        else:
            searched = [(column, 1)]
        trainings = [_Training(one, shape, self.memory_limit, protocol.n_repetitions) for one, _ in searched]
        costs = [
            sized.cost(n_rows, n_settings, max_train, training)
            for (_, n_settings), training in zip(searched, trainings)
        ]
        tuned_by = None
        if other := column.tuned_by:
            axes = list(column.inherited_axes)
            tuned_by = {"learner": other.learner, "params": other.params, "grid": other.grid, "axes": axes}
        return Task(
            dataset=self.dataset,
            column=column.key,
            learner=column.learner,
            trial=trial,
            fold=fold,
            fingerprint=shape.fingerprint,
            definition={**column.identity, "protocol": {**protocol.identity(), "version": PROTOCOL_VERSION}},
            params=column.params,
            grid=column.grid,
            protocol=protocol,
            seconds=sum(seconds for seconds, _ in costs),
            memory_bytes=max(memory for _, memory in costs),
            kept_bytes=max(training.kept_bytes for training in trainings),
            max_train=max_train,
            row=self.row,
            tuned_by=tuned_by,
            selected=selected,
        )


@dataclass
class _Training:
    """Seconds and bytes of training a column on a dataset, in blocks of settings where the memory limit requires it."""

    column: Column
    shape: Shape
    limit: float | None
    n_repetitions: int
    kept_bytes: float = 0.0

    def __call__(self, n_rows: float, n_settings: int, folds: int = 0, alone: bool = False) -> tuple[float, float]:
        """See `protocols.TrainingCost`."""
        problem = self._problem(n_rows, n_settings, folds, alone)
        n_repeats, n_trained = (folds, n_rows * (folds - 1) / folds) if folds else (1, n_rows)
        size = (n_trained, problem.n_features, problem.n_nonzero)
        limit = None if self.limit is None else max(1.0, self.limit - problem.memory_bytes)
        n_passes = problem.learner.n_passes(*size, n_settings, limit)
        seconds, memory = problem.learner.cost(*size, -(-n_settings // n_passes))
        seconds += problem.seconds_per_row * n_trained
        return problem.seconds + n_repeats * n_passes * seconds, problem.memory_bytes + memory

    def _problem(self, n_rows: float, n_settings: int, folds: int, alone: bool) -> _Problem:
        """The rows of the data, or what a search by inner folds of ``n_rows`` has in place of them.

        See `TaskContext.search_problem`.
        """
        shape, learner = self.shape, self.column.estimator
        n, d = shape.n_samples, shape.n_features
        narrow = not shape.is_sparse and is_narrower(n, d)
        if narrow and not alone:
            learner = learner.given_gram_matrix(lambda: None)
        to_read = SECONDS_TO_GENERATE if shape.generated else 0.0
        rows = _Problem(learner, d, shape.density * d, seconds_per_row=to_read * d)
        if not folds:
            return rows
        if (reduced := learner.reduced_size(n_rows, d, shape.density * d)) is not None:
            seconds = reduced.seconds + to_read * n_rows * d
            if reduced.uses_gram_matrix:
                seconds += self._share_of_gram_matrix(to_read)
            return _Problem(reduced.learner, reduced.n_features, reduced.n_nonzero, seconds, reduced.memory_bytes)
        if not narrow or not learner.rotation_invariant:
            return rows
        if has_few_rows(n):
            return _Problem(learner, n, float(n), memory_bytes=8.0 * n * n)
        if not are_products_worth_it(learner, (n, d), n_rows, n_settings, folds, self.n_repetitions, to_read):
            return rows
        seconds, size = self._share_of_gram_matrix(to_read), (math.ceil(n_rows / 2), n_rows / 2)
        if learner.takes_blocks:
            return _Problem(learner, *size, seconds + seconds_for_products(n_rows, folds))
        return _Problem(learner, *size, seconds + seconds_for_triangular_rows(n_rows), 8.0 * n_rows**2)

    def _share_of_gram_matrix(self, to_read: float) -> float:
        """Seconds: they are computed once for a dataset, whatever the number of its columns."""
        n, d = self.shape.n_samples, self.shape.n_features
        if has_few_rows(n):
            return 0.0
        self.kept_bytes = 8.0 * n * n
        return seconds_for_gram_matrix(n, d, to_read) / self.n_repetitions


class _Problem(NamedTuple):
    """A learner, the size of its rows, and what it takes to set the problem up and to read a row."""

    learner: Any
    n_features: int
    n_nonzero: float
    seconds: float = 0.0
    memory_bytes: float = 0.0
    seconds_per_row: float = 0.0
