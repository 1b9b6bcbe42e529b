"""Protocols that split rows, choose a setting and test it: what fills a table, and what figures start from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from ..values import ratios
from .section import Section, TrainingCost, known_kind, scoring_seconds

__all__ = ["CrossValidation", "Holdout"]


class CrossValidation(Section):
    """Repeated cross-validation with a grid search inside each training set."""

    sweeps: ClassVar[bool] = False
    trains: ClassVar[bool] = True
    own_axes: ClassVar[tuple[str, ...]] = ()
    exclusive: ClassVar[bool] = False
    metrics: ClassVar[tuple[str, ...]] = ("auc",)
    ddof: ClassVar[int] = 1
    runs: ClassVar[str] = "folds"

    kind: Annotated[Literal["cv"], BeforeValidator(known_kind)] = Field(
        "cv", description="cv: repeated cross-validation."
    )
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
    def quantities(self) -> tuple[str, ...]:
        """What figures can show of a repetition."""
        return (*self.metrics, "seconds")

    @property
    def test_fraction(self) -> float:
        """Share of the rows in a test set."""
        return 1.0 / self.folds

    def repetitions(self) -> Iterator[tuple[int, int]]:
        """Trial and fold of every repetition, in order."""
        for trial in range(self.trials):
            for fold in range(self.folds):
                yield trial, fold

    def cases(self) -> list[tuple[str, CrossValidation]]:
        """What one dataset is measured under, each a row of the table: the ends of their names, and the settings."""
        return [("", self)]

    def n_rows(self, n_samples: int, n_positive: int | None) -> int:
        """Rows of a dataset that are used."""
        return n_samples

    def parts(self, n_samples: int, max_train: int | None) -> tuple[float, float, float]:
        """Rows in a training, a validation and a test set, where so many are used; here, no validation set."""
        train = n_samples * (self.folds - 1) / self.folds
        return train if max_train is None else min(train, max_train), 0.0, n_samples / self.folds

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
        train, _, _ = self.parts(n_samples, max_train)
        inner = train * (self.inner_folds - 1) / self.inner_folds
        selection, memory = training(inner, n_settings)
        refit, memory_of_refit = training(train, 1)
        held_out = train / self.inner_folds
        memory = max(memory + 16.0 * held_out * n_settings, memory_of_refit)
        return self.inner_folds * selection + scoring_seconds(train, n_settings) + refit, memory


class Holdout(Section):
    """Repeated splits into training, validation and test rows; the setting that validates best is tested."""

    sweeps: ClassVar[bool] = False
    trains: ClassVar[bool] = True
    own_axes: ClassVar[tuple[str, ...]] = ()
    exclusive: ClassVar[bool] = False
    metrics: ClassVar[tuple[str, ...]] = ("auc", "sparse_ratio", "seconds")
    ddof: ClassVar[int] = 0
    runs: ClassVar[str] = "trials"

    kind: Annotated[Literal["holdout"], BeforeValidator(known_kind)] = Field(
        "holdout", description="holdout: repeated splits into three parts."
    )
    trials: int = Field(10, ge=1, description="Repetitions, each with a new split.")
    shares: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        (4, 1, 1), min_length=3, max_length=3, description="How rows are shared out: training, validation, test."
    )
    split: Literal["stratified", "released"] = Field(
        "stratified",
        description="stratified: each class is shared out; released: the permutations of the FTRL-AUC program.",
    )
    imbalance: Annotated[float | tuple[float, ...] | None, BeforeValidator(ratios)] = Field(
        None, description="Positives kept for each negative, the first ones; of a list, each is a row of the table."
    )
    auc: Literal["exact", "released"] = Field(
        "exact", description="exact; released: that of the FTRL-AUC program, without the last trapezoid."
    )
    seed: int = Field(17, ge=0, le=2**32 - 1, description="Seed of all splits and orders.")

    @property
    def n_repetitions(self) -> int:
        """Numbers behind a cell of the table."""
        return self.trials

    @property
    def quantities(self) -> tuple[str, ...]:
        """What figures can show of a repetition."""
        return self.metrics

    @property
    def test_fraction(self) -> float:
        """Share of the test rows among those of training and test."""
        return self.shares[2] / (self.shares[0] + self.shares[2])

    def repetitions(self) -> Iterator[tuple[int, int]]:
        """Trial and fold of every repetition, in order; a trial has one fold."""
        return ((trial, 0) for trial in range(self.trials))

    def cases(self) -> list[tuple[str, Holdout]]:
        """What a dataset is measured under, each a row of the table: the end of its name, and the settings."""
        if self.imbalance is None:
            return [("", self)]
        kept = self.imbalance if isinstance(self.imbalance, tuple) else (self.imbalance,)
        return [(f" @ {ratio:g}", self.model_copy(update={"imbalance": ratio})) for ratio in kept]

    def n_rows(self, n_samples: int, n_positive: int | None) -> int:
        """Rows of a dataset that are used; all of them while the classes are not known."""
        if self.imbalance is None or n_positive is None:
            return n_samples
        n_negative = n_samples - n_positive
        return n_negative + min(n_positive, int(self.imbalance * n_negative))

    def parts(self, n_samples: int, max_train: int | None) -> tuple[float, float, float]:
        """Rows in a training, a validation and a test set, where so many are used."""
        train, validation, test = (n_samples * share / sum(self.shares) for share in self.shares)
        return train if max_train is None else min(train, max_train), validation, test

    def identity(self) -> dict[str, Any]:
        """What about the protocol defines the number of one repetition: five trials can become ten."""
        return {key: value for key, value in self.model_dump(mode="json").items() if key != "trials"}

    def trouble_with(self, n_positive: int, n_negative: int) -> str | None:
        """Why classes of these sizes cannot be split like this, or None: every part needs rows of both."""
        if self.imbalance is not None:
            asked = int(self.imbalance * n_negative)
            if asked > n_positive:
                return f"imbalance {self.imbalance:g} asks for {asked} positive rows, and it has {n_positive}"
            n_positive = asked
        rarer = min(n_positive, n_negative)
        if all(rarer * share >= sum(self.shares) for share in self.shares):
            return None
        return f"its rarer class has {rarer} rows, too few to be shared out {' : '.join(map(str, self.shares))}"

    def cost(
        self, n_samples: int, n_settings: int, max_train: int | None, training: TrainingCost
    ) -> tuple[float, float]:
        """CPU seconds and bytes of one repetition; parameters as in :meth:`CrossValidation.cost`."""
        train, validation, _ = self.parts(n_samples, max_train)
        selection, memory = training(train, n_settings)
        refit, memory_of_refit = training(train, 1)
        memory = max(memory + 16.0 * validation * n_settings, memory_of_refit)
        return selection + scoring_seconds(validation, n_settings) + refit, memory
