"""Kind ``cv``: repeated cross-validation with a grid search inside each training set."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from ..evaluation.splits import Split, outer_fold
from .base import Cost, KnownKind, TrainingCost, scoring_seconds
from .context import TaskContext, seed_learner
from .outcome import TestedOutcome, from_json, to_json
from .splitting import SplitProtocol

__all__ = ["CrossValidation", "CrossValidationOutcome"]


class CrossValidationOutcome(TestedOutcome):
    """One outer fold."""

    kind: Literal["cv"]


class CrossValidation(SplitProtocol):
    """Repeated cross-validation with a grid search inside each training set."""

    outcome: ClassVar = CrossValidationOutcome
    metrics: ClassVar = ("auc",)
    quantities: ClassVar = ("auc", "seconds")
    runs: ClassVar = "folds"

    kind: Annotated[Literal["cv"], KnownKind] = Field("cv", description="cv: repeated cross-validation.")
    trials: int = Field(5, ge=1, description="Repetitions, each with new folds.")
    folds: int = Field(5, ge=2, description="Outer folds; each is the test set once per trial.")
    inner_folds: int = Field(5, ge=2, description="Folds of the grid search on the training set.")
    stratified: bool = Field(True, description="Whether each fold has its share of positives.")
    seed: int = Field(0, ge=0, description="Seed of all folds and orders.")

    @property
    def n_repetitions(self) -> int:
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

    def sizes(self, n_samples: int, max_train: int | None) -> tuple[float, float, float]:
        train = n_samples * (self.folds - 1) / self.folds
        return train if max_train is None else min(train, max_train), 0.0, n_samples / self.folds

    def validation_error(self, n_positive: int, n_negative: int) -> str | None:
        """Why classes of these sizes cannot be split, or None: every fold needs rows of both."""
        rarer = min(n_positive, n_negative)
        in_training = rarer - -(-rarer // self.folds)
        if rarer >= self.folds and in_training >= self.inner_folds:
            return None
        return f"its rarer class has {rarer} rows, too few for {self.folds} folds with {self.inner_folds} inner folds"

    def cost(self, n_samples: int, n_settings: int, max_train: int | None, training: TrainingCost) -> Cost:
        train, _, _ = self.sizes(n_samples, max_train)
        inner = train * (self.inner_folds - 1) / self.inner_folds
        selection, memory = training(inner, n_settings)
        refit, memory_of_refit = training(train, 1)
        held_out = train / self.inner_folds
        memory = max(memory + 16.0 * held_out * n_settings, memory_of_refit)
        return self.inner_folds * selection + scoring_seconds(train, n_settings) + refit, memory

    def make_split(self, context: TaskContext) -> Split:
        task = context.task
        settings = self.model_dump(include={"folds", "stratified", "seed"})
        split = outer_fold(context.data.y, trial=task.trial, fold=task.fold, dataset=task.dataset, **settings)
        return replace(split, train=context.capped(split.train, self.inner_folds))

    def search(self, context: TaskContext, split: Split) -> np.ndarray:
        """Mean AUC of every setting over the inner folds."""
        from ..evaluation.selection import cross_validate

        seed_learner(context.learner, split.seed)
        finished = {int(k): from_json(aucs) for k, aucs in context.partial.get("inner_aucs", {}).items()}

        def keep(inner_fold: int, aucs: np.ndarray) -> None:
            finished[inner_fold] = aucs
            context.keep({"inner_aucs": {k: to_json(v) for k, v in finished.items()}})

        return cross_validate(
            context.learner,
            context.data.X if context.narrow is None else context.narrow,
            context.data.y,
            context.grid,
            split.train,
            inner_folds=self.inner_folds,
            stratified=self.stratified,
            seed=split.seed,
            memory_bytes=context.memory_bytes,
            on_chunk=context.check_limits,
            finished=dict(finished),
            on_fold=keep,
        ).mean(axis=0)

    def measure(self, context: TaskContext, split: Split, coef: np.ndarray) -> dict[str, Any]:
        from ..evaluation.selection import score_columns

        return {"auc": float(score_columns(context.data.X, context.data.y[split.test], split.test, coef)[0])}
