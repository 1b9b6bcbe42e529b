"""How a number is measured: the protocols that an experiment file may name, as settings and as a list of repetitions.

A protocol knows which repetitions it has, what defines them, and what one of them costs. How one is computed is the
runner's business: ``runner/measures`` has a function for each ``kind``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["CrossValidation", "Protocol", "Section", "scoring_seconds"]

# Seconds and bytes of training some settings on some rows: (n_rows, n_settings) -> (seconds, bytes).
TrainingCost = Callable[[float, int], tuple[float, float]]

_SECONDS_PER_AUC_ROW = 2.5e-8


class Section(BaseModel):
    """A part of an experiment file: no unknown keys, and frozen once it is checked."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class CrossValidation(Section):
    """Repeated cross-validation with a grid search inside each training set."""

    kind: Literal["cv"] = Field("cv", description="cv: repeated cross-validation.")
    trials: int = Field(5, ge=1, description="Repetitions, each with new folds.")
    folds: int = Field(5, ge=2, description="Outer folds; each is the test set once a trial.")
    inner_folds: int = Field(5, ge=2, description="Folds of the grid search on the training set.")
    stratified: bool = Field(True, description="Whether each fold has its share of positives.")
    seed: int = Field(0, ge=0, description="Seed of all folds and orders.")

    @property
    def n_repetitions(self) -> int:
        """Numbers behind a cell of the table."""
        return self.trials * self.folds

    @property
    def test_fraction(self) -> float:
        """Share of the rows in a test set."""
        return 1.0 / self.folds

    def repetitions(self) -> Iterator[tuple[int, int]]:
        """Trial and fold of every repetition, in order."""
        for trial in range(self.trials):
            for fold in range(self.folds):
                yield trial, fold

    def identity(self) -> dict[str, Any]:
        """What about the protocol defines the number of one repetition: five trials can become ten."""
        return {key: value for key, value in self.model_dump(mode="json").items() if key != "trials"}

    def trouble_with(self, n_positive: int, n_negative: int) -> str | None:
        """Why classes of these sizes cannot be split like this, or None: every fold needs rows of both."""
        rarer = min(n_positive, n_negative)
        in_training = rarer - -(-rarer // self.folds)
        if rarer >= self.folds and in_training >= self.inner_folds:
            return None
        return f"its rarer class has {rarer} rows, too few for {self.folds} folds with {self.inner_folds} inner folds"

    def cost(
        self, n_samples: int, n_settings: int, max_train: int | None, training: TrainingCost
    ) -> tuple[float, float]:
        """CPU seconds and bytes of one repetition.

        Parameters
        ----------
        n_samples, n_settings : int
        max_train : int or None
            Training rows at most.
        training : callable
            From rows and settings to seconds and bytes of training.
        """
        train = n_samples * (self.folds - 1) / self.folds
        train = train if max_train is None else min(train, max_train)
        inner = train * (self.inner_folds - 1) / self.inner_folds
        selection, memory = training(inner, n_settings)
        refit, memory_of_refit = training(train, 1)
        held_out = train / self.inner_folds
        memory = max(memory + 16.0 * held_out * n_settings, memory_of_refit)
        return self.inner_folds * selection + scoring_seconds(train, n_settings) + refit, memory


def scoring_seconds(n_rows: float, n_settings: int) -> float:
    """CPU seconds of the AUC of ``n_settings`` models on ``n_rows`` rows."""
    return _SECONDS_PER_AUC_ROW * n_rows * n_settings * max(1.0, math.log10(n_rows))


# One kind so far; a second makes this a union told apart by ``kind``.
Protocol = CrossValidation
