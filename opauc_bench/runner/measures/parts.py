"""What a protocol that splits rows hands to a measurement: the sets, and how AUC is taken on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...evaluation.auc import auc_columns

__all__ = ["Parts"]


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
