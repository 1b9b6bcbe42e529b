"""Protocols whose numbers are drawn and not tabulated: sweeps, convergence, training time, errors of sketches.

The first three take the splits of a protocol that fills tables, and where one setting is to be looked at, its way of
choosing it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, Tag

from .section import SPLIT_KINDS, Section, TrainingCost, known_kind, scoring_seconds, told_by_kind
from .splits import CrossValidation, Holdout

__all__ = ["Convergence", "SketchError", "Splits", "Sweep", "Timing"]

_SECONDS_PER_PAIR = 5e-8  # an inner product of two sparse rows of some hundred features

Splits = Annotated[
    Annotated[CrossValidation, Tag("cv")] | Annotated[Holdout, Tag("holdout")],
    told_by_kind(SPLIT_KINDS),
]


class _OnSplits(Section):
    """What all of them leave to their splits."""

    exclusive: ClassVar[bool] = False
    sweeps: ClassVar[bool] = False
    chooses: ClassVar[bool] = True
    trains: ClassVar[bool] = True
    own_axes: ClassVar[tuple[str, ...]] = ()

    @property
    def ddof(self) -> int:
        """Standard deviations divide by n less this."""
        return self.splits.ddof

    @property
    def n_repetitions(self) -> int:
        """Numbers behind a point of the figure."""
        return self.splits.n_repetitions

    def repetitions(self) -> Iterator[tuple[int, int]]:
        """Trial and fold of every repetition, in order."""
        return self.splits.repetitions()

    def cases(self) -> list[tuple[str, Any]]:
        """What a dataset is measured under, each a panel of the figure: the end of its name, and the settings."""
        return [(end, self.model_copy(update={"splits": case})) for end, case in self.splits.cases()]

    def n_rows(self, n_samples: int, n_positive: int | None) -> int:
        """Rows of a dataset that are used."""
        return self.splits.n_rows(n_samples, n_positive)

    def identity(self) -> dict[str, Any]:
        """What about the protocol defines the numbers of one repetition: five trials can become ten."""
        return {**self.model_dump(mode="json"), "splits": self.splits.identity()}

    def trouble_with(self, n_positive: int, n_negative: int) -> str | None:
        """Why classes of these sizes cannot be split like this, or None."""
        return self.splits.trouble_with(n_positive, n_negative)


class Sweep(_OnSplits):
    """Every setting of the grid, trained on each training set and tested: the influence of a hyper-parameter."""

    sweeps: ClassVar[bool] = True
    chooses: ClassVar[bool] = False

    kind: Annotated[Literal["sweep"], BeforeValidator(known_kind)] = Field(
        "sweep", description="sweep: every setting of the grid, trained and tested."
    )
    splits: Splits = Field(CrossValidation(), description="Whose training and test sets: kind cv or holdout.")

    @property
    def quantities(self) -> tuple[str, ...]:
        """What is measured of a setting."""
        validation = ("validation_auc",) if self.splits.kind == "holdout" else ()
        return ("auc", "sparse_ratio", *validation)

    def cost(
        self, n_samples: int, n_settings: int, max_train: int | None, training: TrainingCost
    ) -> tuple[float, float]:
        """CPU seconds and bytes of one repetition; parameters as in :meth:`CrossValidation.cost`."""
        train, validation, test = self.splits.parts(n_samples, max_train)
        seconds, memory = training(train, n_settings)
        scored = validation + test
        return seconds + scoring_seconds(scored, n_settings), memory + 16.0 * max(validation, test) * n_settings


class Convergence(_OnSplits):
    """Test AUC on the way through one pass, for the setting that the splits' own protocol chooses."""

    kind: Annotated[Literal["convergence"], BeforeValidator(known_kind)] = Field(
        "convergence", description="convergence: test AUC on the way through one pass."
    )
    splits: Splits = Field(CrossValidation(), description="Whose sets, and whose way to choose a setting.")
    points: int = Field(25, ge=2, le=10_000, description="Looks at the model during the pass.")
    spacing: Literal["linear", "log"] = Field("linear", description="linear: even steps; log: even ratios.")
    alone: bool = Field(False, description="One worker only, as for kind timing: for plots against time.")

    @property
    def exclusive(self) -> bool:
        """Whether nothing else should run meanwhile."""
        return self.alone

    @property
    def quantities(self) -> tuple[str, ...]:
        """What is measured at each point."""
        return ("n_seen", "auc", "seconds")

    def cost(
        self, n_samples: int, n_settings: int, max_train: int | None, training: TrainingCost
    ) -> tuple[float, float]:
        """CPU seconds and bytes of one repetition, for one setting without the choice of it."""
        train, _, test = self.splits.parts(n_samples, max_train)
        seconds, memory = training(train, 1)
        return _with_choice(
            self.splits,
            (n_samples, n_settings, max_train, training),
            seconds + self.points * scoring_seconds(test, 1),
            memory + 16.0 * test,
        )


class Timing(_OnSplits):
    """Training time of one setting, measured several times with nothing else at work."""

    exclusive: ClassVar[bool] = True

    kind: Annotated[Literal["timing"], BeforeValidator(known_kind)] = Field(
        "timing", description="timing: training time of one setting, with one worker only."
    )
    splits: Splits = Field(CrossValidation(), description="Whose sets, and whose way to choose a setting.")
    repeats: int = Field(5, ge=1, description="Passes for each training set; the median counts.")

    @property
    def quantities(self) -> tuple[str, ...]:
        """What is measured: medians over the passes."""
        return ("seconds", "wall_seconds")

    def cost(
        self, n_samples: int, n_settings: int, max_train: int | None, training: TrainingCost
    ) -> tuple[float, float]:
        """CPU seconds and bytes of one repetition, for one setting without the choice of it."""
        train, _, _ = self.splits.parts(n_samples, max_train)
        seconds, memory = training(train, 1)
        return _with_choice(self.splits, (n_samples, n_settings, max_train, training), self.repeats * seconds, memory)


class SketchError(Section):
    """How well learners for high dimensions keep the second moments of each class, by the size of their sketch."""

    exclusive: ClassVar[bool] = False
    sweeps: ClassVar[bool] = False
    chooses: ClassVar[bool] = False
    trains: ClassVar[bool] = False
    own_axes: ClassVar[tuple[str, ...]] = ("tau",)
    quantities: ClassVar[tuple[str, ...]] = ("positive_error", "negative_error")
    ddof: ClassVar[int] = 1

    kind: Annotated[Literal["sketch_error"], BeforeValidator(known_kind)] = Field(
        "sketch_error", description="sketch_error: relative Frobenius error of the class second moments."
    )
    sizes: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        (10, 25, 50, 75, 100), min_length=1, description="Values of tau."
    )
    trials: int = Field(5, ge=1, description="Repetitions, each with another order of the rows and other draws.")
    seed: int = Field(0, ge=0, description="Seed of orders and draws.")

    @property
    def n_repetitions(self) -> int:
        """Numbers behind a point of the figure."""
        return self.trials

    def repetitions(self) -> Iterator[tuple[int, int]]:
        """Trial and fold of every repetition, in order; a trial has one fold."""
        return ((trial, 0) for trial in range(self.trials))

    def cases(self) -> list[tuple[str, SketchError]]:
        """What a dataset is measured under, each a panel of the figure: the end of its name, and the settings."""
        return [("", self)]

    def n_rows(self, n_samples: int, n_positive: int | None) -> int:
        """Rows of a dataset that are used."""
        return n_samples

    def identity(self) -> dict[str, Any]:
        """What about the protocol defines the numbers of one repetition: five trials can become ten."""
        return {key: value for key, value in self.model_dump(mode="json").items() if key != "trials"}

    def trouble_with(self, n_positive: int, n_negative: int) -> None:
        """Nothing: any rows have second moments."""

    def cost(
        self, n_samples: int, n_settings: int, max_train: int | None, training: TrainingCost
    ) -> tuple[float, float]:
        """CPU seconds and bytes of one repetition: a pass for each size, and the inner products of all rows."""
        rows = n_samples if max_train is None else min(n_samples, max_train)
        seconds, memory = training(rows, 1)
        return len(self.sizes) * seconds + _SECONDS_PER_PAIR * rows**2, memory


def _with_choice(splits: CrossValidation | Holdout, of_choice: tuple, seconds: float, memory: float):
    """The cost of a measurement, and of the choice of its setting where there is more than one."""
    if of_choice[1] == 1:
        return seconds, memory
    choosing, needed = splits.cost(*of_choice)
    return seconds + choosing, max(memory, needed)
