"""What a protocol computes with."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ConfigError
from ..task import Task

if TYPE_CHECKING:
    from ..data import Dataset
    from ..evaluation.span import TiesByRounding

__all__ = ["TaskContext", "as_grid", "seed_learner"]


@dataclass
class TaskContext:
    """One task, ready to be computed.

    Attributes
    ----------
    task : Task
    data : Dataset
    learner : Learner
        With the experiment's parameters set.
    grid : dict of axis to ndarray of shape (n_settings,)
    tuned_by : (Learner, dict) or None
        Learner and grid that are searched first; their selected values of ``task.tuned_by["axes"]`` are used.
    gram_matrix : callable or None
        Returns those of all rows, shape (n_samples, n_samples), where these are few wide rows.
    coordinates : callable or None
        Returns coordinates of all rows in the span of the rows, where these are so few that one basis serves all tasks.
    memory_bytes : float or None
        Limit of one training pass: settings go in blocks where all of them together need more.
    check_limits : callable
        To be called between units of work, with any arguments; what it raises ends the task.
    partial : dict
        What an interrupted run has kept.
    keep : callable
        Keeps finished parts, ready for JSON, in case of an interruption; they come back as ``partial``.
    keep_scores : callable
        Keeps test scores beside the records: called with rows, labels, scores and probabilities, None where there are
        none.
    cpu_seconds_before : float
        CPU time that an interrupted run has used.
    """

    task: Task
    data: Dataset
    learner: Any
    grid: dict[str, np.ndarray]
    tuned_by: tuple[Any, dict[str, np.ndarray]] | None = None
    gram_matrix: Callable[[], np.ndarray] | None = None
    coordinates: Callable[[], np.ndarray] | None = None
    memory_bytes: float | None = None
    check_limits: Callable[..., None] = lambda *_: None
    partial: dict[str, Any] = field(default_factory=dict)
    keep: Callable[[dict[str, Any]], None] = lambda finished: None
    keep_scores: Callable[..., None] = lambda *_: None
    cpu_seconds_before: float = 0.0

    def __post_init__(self):
        if self.gram_matrix is not None:
            self.learner = self.learner.given_gram_matrix(self.gram_matrix)
        self._cpu_start = time.process_time() - self.cpu_seconds_before

    @property
    def cpu_seconds(self) -> float:
        """CPU time of the task so far, that of an interrupted run included."""
        return time.process_time() - self._cpu_start

    @property
    def n_settings(self) -> int:
        """Settings of the grid; without axes, one."""
        return len(next(iter(self.grid.values()), (0,)))

    def setting(self, position: int) -> dict[str, float]:
        """One setting of the grid."""
        return {axis: float(values[position]) for axis, values in self.grid.items()}

    def search_problem(self, rows: np.ndarray, folds: int) -> tuple[Any, Any, TiesByRounding | None]:
        """A learner and rows on which settings are compared: equal scores, except for rounding, at less cost.

        What is trained for the record itself is trained on the data.

        Parameters
        ----------
        rows : ndarray of int
            Those that are used, in visiting order; the result need not have others.
        folds : int
            Inner folds: so many times, settings are trained on all of these rows but one fold.

        Returns
        -------
        learner, X, ties
            ``ties`` are those of its scores, or None where they have the same ones as on the data.
        """
        from ..evaluation.span import RowsByProducts, TiesByRounding, are_usable, triangular_rows

        if (reduced := self.learner.reduced(self.data.X, rows, self.check_limits)) is not None:
            learner, X = reduced
            return learner, X, TiesByRounding.of_triangular_rows(X) if learner.takes_gram_matrix else None
        if self.gram_matrix is None or not self.learner.rotation_invariant:
            return self.learner, self.data.X, None
        if self.coordinates is None and not self._are_products_worth_it(len(rows), folds):
            return self.learner, self.data.X, None
        products = self.gram_matrix()
        if not are_usable(products):
            return self.learner, self.data.X, None
        if self.coordinates is not None:
            return self.learner, self.coordinates(), TiesByRounding.of_coordinates(products)
        if self.learner.takes_blocks:
            return self.learner, RowsByProducts(products, rows), TiesByRounding.of_products(products)
        triangular = triangular_rows(products, rows, self.check_limits)
        return self.learner, triangular, TiesByRounding.of_triangular_rows(products)

    def _are_products_worth_it(self, n_rows: int, folds: int) -> bool:
        from ..evaluation.span import SECONDS_TO_GENERATE, are_products_worth_it

        X = self.data.X
        to_read = 0.0 if isinstance(X, np.ndarray) else SECONDS_TO_GENERATE
        n_repetitions = self.task.protocol.n_repetitions
        return are_products_worth_it(self.learner, X.shape, n_rows, self.n_settings, folds, n_repetitions, to_read)

    @property
    def all_diverged(self) -> str:
        """The message of a record in which no setting stayed finite."""
        return self.learner.why_diverged() or "no setting stayed finite"

    def capped(self, train: np.ndarray, least: int, latest: bool = False) -> np.ndarray:
        """The first ``max_train`` rows of a training set, which is in random order; the last ones if ``latest``.

        Raises
        ------
        ConfigError
            If fewer than ``least`` rows of a class are left.
        """
        cap = self.task.max_train
        if cap is None or cap >= len(train):
            return train
        kept = train[-cap:] if latest else train[:cap]
        positive = int(np.count_nonzero(np.asarray(self.data.y[kept]) > 0))
        if min(positive, cap - positive) < least:
            raise ConfigError(
                f"max_train {cap} leaves {positive} positive and {cap - positive} negative rows of "
                f"{self.task.dataset}; expected {least} of each class at least",
                f"raise max_train of {self.task.column}",
            )
        return kept


def seed_learner(learner: Any, seed: int) -> None:
    """Let what a learner draws at random depend on the repetition alone."""
    if "random_state" in learner.get_params():
        learner.set_params(random_state=seed)


def as_grid(setting: dict[str, float]) -> dict[str, np.ndarray]:
    """A grid of one setting."""
    return {axis: np.array([value]) for axis, value in setting.items()}
