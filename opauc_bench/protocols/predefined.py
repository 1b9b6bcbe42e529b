"""Kind ``predefined``: the dataset says which rows are for training, validation and test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, PrivateAttr

from ..evaluation.splits import Split, seed_for
from .base import KnownKind
from .context import TaskContext
from .cross_validation import CrossValidation
from .holdout import Holdout, HoldoutOutcome
from .splitting import KEEP_SCORES, METRICS, SELECT, SplitProtocol

if TYPE_CHECKING:
    from ..data import Dataset
    from ..task import Shape

__all__ = ["Predefined", "PredefinedOutcome"]


class PredefinedOutcome(HoldoutOutcome):
    """One visiting order of the training rows; no ``n_validation`` where inner folds were used."""

    kind: Literal["predefined"]  # type: ignore[assignment]


class Predefined(SplitProtocol):
    """The split that comes with a dataset.

    A setting is selected on the validation rows; where the split has none, by cross-validation on the training rows.
    """

    outcome: ClassVar = PredefinedOutcome
    quantities: ClassVar = Holdout.quantities
    row_metadata: ClassVar = ("split",)
    same_rows: ClassVar = True
    # Trials share all rows, so that the variance of the corrected test is a convention: n_test / n_train is 1.
    test_fraction: ClassVar = 0.5

    kind: Annotated[Literal["predefined"], KnownKind] = Field(
        "predefined", description="predefined: the dataset says which rows are for training, validation and test."
    )
    trials: int = Field(5, ge=1, description="Repetitions, each with another order of the training rows.")
    inner_folds: int = Field(
        5, ge=2, le=1_000_000, description="Folds of the grid search where there are no validation rows."
    )
    seed: int = Field(0, ge=0, description="Seed of all orders and inner folds.")
    metrics: METRICS = ("auc",)
    select: SELECT = "auc"
    keep_scores: KEEP_SCORES = False

    _parts: tuple[int, int, int] | None = PrivateAttr(default=None)

    @property
    def summary(self) -> str:
        return f"{super().summary} on the split of the dataset"

    @property
    def table_metrics(self) -> tuple[str, ...]:
        return self.metrics

    @property
    def record_metrics(self) -> tuple[str, ...]:
        return (*self.metrics, "sparse_ratio")

    def on(self, shape: Shape) -> Self:
        made = self.model_copy()
        made._parts = shape.parts
        return made

    def sizes(self, n_samples: int, max_train: int | None) -> tuple[float, float, float]:
        # Until the dataset has been read: what no set exceeds.
        train, validation, test = self._parts or (n_samples, 0, n_samples)
        return float(train if max_train is None else min(train, max_train)), float(validation), float(test)

    def data_problem(self, data: Dataset) -> str | None:
        y = np.asarray(data.y)
        train, validation, test = self._parts_of(data)
        sets = {"training": (train, 1), "test": (test, 1)}
        if len(validation):
            sets["validation"] = (validation, 1)
        else:
            sets["training"] = (train, self.inner_folds)
        for name, (rows, least) in sets.items():
            n_positive = int(np.count_nonzero(y[rows] > 0))
            if min(n_positive, len(rows) - n_positive) < least:
                found = f"its {name} set has {n_positive} positive and {len(rows) - n_positive} negative rows"
                why = " for inner folds, since it has no validation rows" if least > 1 else ""
                return f"{found}, expected at least {least} of each class{why}"
        return None

    def make_split(self, context: TaskContext) -> Split:
        train, validation, test = self._parts_of(context.data)
        seed = seed_for("predefined", self.seed, context.task.dataset, context.task.trial)
        train = np.random.default_rng(seed).permutation(train)
        least = 1 if len(validation) else self.inner_folds
        return Split(context.capped(train, least), test, seed, validation if len(validation) else None)

    def search(self, context: TaskContext, split: Split) -> np.ndarray:
        """AUC of every setting on the validation rows, or its mean over inner folds."""
        if split.validation is None:
            return CrossValidation(inner_folds=self.inner_folds, select=self.select).search(context, split)
        return Holdout(select=self.select).search(context, split)

    def own_metrics(self, y: np.ndarray, scores: np.ndarray, models: Any) -> dict[str, float | None]:
        return Holdout().own_metrics(y, scores, models)

    @staticmethod
    def _parts_of(data: Dataset) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Training, validation and test rows, in the order of the file."""
        from ..data.entry import PARTS

        split = np.asarray(data.split)
        train, validation, test = (np.flatnonzero(split == position) for position in range(len(PARTS)))
        return train, validation, test
