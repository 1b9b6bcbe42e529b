"""Protocols whose numbers are drawn and not tabulated: sweeps over a grid, convergence, and training time.

Each takes the splits of a protocol that fills tables, and where one setting is to be looked at, its way of choosing it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, Tag

from .section import SPLIT_KINDS, Section, TrainingCost, known_kind, scoring_seconds, told_by_kind
from .splits import CrossValidation, Holdout

__all__ = ["Convergence", "Splits", "Sweep", "Timing"]

Splits = Annotated[
    Annotated[CrossValidation, Tag("cv")] | Annotated[Holdout, Tag("holdout")],
    told_by_kind(SPLIT_KINDS),
]


class _OnSplits(Section):
    """What all of them leave to their splits."""

    exclusive: ClassVar[bool] = False
    sweeps: ClassVar[bool] = False
    chooses: ClassVar[bool] = True

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


def _with_choice(splits: CrossValidation | Holdout, of_choice: tuple, seconds: float, memory: float):
    """The cost of a measurement, and of the choice of its setting where there is more than one."""
    if of_choice[1] == 1:
        return seconds, memory
    choosing, needed = splits.cost(*of_choice)
    return seconds + choosing, max(memory, needed)
