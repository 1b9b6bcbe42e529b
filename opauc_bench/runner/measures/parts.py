"""What a protocol that splits rows hands to a measurement: the sets, and how AUC is taken on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...errors import ConfigError
from ...evaluation.auc import auc_columns
from ..work import Work

__all__ = ["Parts", "capped"]


def capped(train: np.ndarray, work: Work, least: int) -> np.ndarray:
    """Return the first ``max_train`` rows of a training set, which is in random order.

    Parameters
    ----------
    train : ndarray of int
    work : Work
    least : int
        Rows of each class that the protocol needs.

    Raises
    ------
    ConfigError
        If fewer are left.
    """
    cap = work.task.max_train
    if cap is None or cap >= len(train):
        return train
    kept = train[:cap]
    positive = int(np.count_nonzero(np.asarray(work.data.y[kept]) > 0))
    if min(positive, cap - positive) < least:
        raise ConfigError(
            f"max_train {cap} leaves {positive} positive and {cap - positive} negative rows of {work.task.dataset}; "
            f"expected {least} of each class at least",
            f"raise max_train of {work.task.column}",
        )
    return kept


@dataclass(frozen=True)
class Parts:
    """The rows of one repetition.

    Attributes
    ----------
    train : ndarray of int
        Rows to learn from, in this order.
    test : ndarray of int
    seed : int
        For everything random inside the repetition.
    validation : ndarray of int or None
        Rows that choose a setting; None where inner folds do.
    auc : callable
        From labels and columns of scores to an AUC a column.
    """

    train: np.ndarray
    test: np.ndarray
    seed: int
    validation: np.ndarray | None = None
    auc: Callable[..., np.ndarray] = auc_columns

    def seed_learner(self, learner) -> None:
        """Let whatever a learner draws at random depend on the repetition alone."""
        if "random_state" in learner.get_params():
            learner.set_params(random_state=self.seed)

    @property
    def counts(self) -> dict[str, int]:
        """Sizes of the sets, as records have them."""
        of_validation = {} if self.validation is None else {"n_validation": len(self.validation)}
        return {"n_train": len(self.train), **of_validation, "n_test": len(self.test)}
