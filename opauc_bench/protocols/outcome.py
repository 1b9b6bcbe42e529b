"""What a record contains that depends on the kind of protocol: base classes of outcomes and their numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainSerializer, model_validator

__all__ = ["CurveOutcome", "Outcome", "Part", "Selection", "TestedOutcome", "from_json", "is_share", "to_json"]


def to_json(values: Iterable[float]) -> list[float | None]:
    """Floats as JSON takes them: NaN becomes null."""
    return [None if np.isnan(value) else float(value) for value in values]


def from_json(values: list[float | None]) -> np.ndarray:
    """What `to_json` was given; it cannot be written to."""
    array = np.array(values, dtype=float)
    array.flags.writeable = False
    return array


Count = Annotated[int, Field(ge=0)]
Compared = Annotated[float, Field(le=1)]  # minus a loss, where one is selected by it
Setting = dict[str, float]
# Lists with nulls in JSON, arrays with NaN in memory, where they need a quarter of the space.
if TYPE_CHECKING:
    Numbers = np.ndarray
    ComparedNumbers = np.ndarray
else:
    Numbers = Annotated[list[float | None], AfterValidator(from_json), PlainSerializer(to_json)]
    ComparedNumbers = Annotated[list[Compared | None], AfterValidator(from_json), PlainSerializer(to_json)]


def is_share(name: str) -> bool:
    """Whether a quantity lies between 0 and 1, such as an AUC."""
    return "auc" in re.split("[_@]", name) or name in ("sparse_ratio", "average_precision", "brier")


class Part(BaseModel):
    """A part of a record: strictly checked, and frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Selection(Part):
    """How a setting was selected.

    Attributes
    ----------
    n_settings, n_diverged : int
    auc : ndarray of shape (n_settings,)
        What was compared: mean over the inner folds, AUC on the validation rows, or AUC on the first rows of a pass; or
        another metric, of a loss minus its value. In the order of the expanded grid; NaN where the setting diverged.
    """

    n_settings: Count
    n_diverged: Count
    auc: ComparedNumbers

    @staticmethod
    def of(aucs: np.ndarray) -> dict[str, Any]:
        """The fields, from the AUC of each setting."""
        return {"n_settings": len(aucs), "n_diverged": int(np.isnan(aucs).sum()), "auc": to_json(aucs)}


class Outcome(Part):
    """What every kind has: sizes of the sets, null where the protocol has no such set or the task ended before.

    A subclass has a field ``kind``, and names in `needs` what a finished task has to have: a field, a metric such as
    ``metrics.auc``, or a column such as ``columns.auc``, which may be one of the times.
    """

    needs: ClassVar[tuple[str, ...]] = ()

    if TYPE_CHECKING:
        kind: str

    n_train: Count | None = None
    n_validation: Count | None = None
    n_test: Count | None = None

    @property
    def n_before_test(self) -> int:
        """Rows before the first test row, in a protocol with one order of the rows; else 0."""
        return 0

    def missing(self, timing: Any) -> str:
        """The first of `needs` that neither this nor the times of the record have, or an empty string."""
        return next((name for name in self.needs if not self._has(name, timing)), "")

    def _has(self, name: str, timing: Any) -> bool:
        field, _, key = name.partition(".")
        if field == "timing":
            return getattr(timing, key) is not None
        value = getattr(self, field)
        if field == "columns":
            return key in value or key in timing.columns
        return key in value if key else value is not None


class TestedOutcome(Outcome):
    """A setting was selected, trained once more alone, and tested."""

    __test__ = False  # no class of tests, whatever its name begins with

    needs: ClassVar[tuple[str, ...]] = ("metrics.auc", "selected", "selection", "timing.fit_cpu_seconds")

    metrics: dict[str, float | None] = Field(default_factory=dict)  # null: not defined for the learner
    selected: Setting | None = None
    selection: Selection | None = None
    diverged_in_refit: tuple[Setting, ...] = ()
    learner_info: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check_metrics(self) -> TestedOutcome:
        for name, value in self.metrics.items():
            if value is None:
                if name == "auc":
                    raise ValueError("expected a number for metrics.auc, got null")
            elif is_share(name) and not 0 <= value <= 1:
                raise ValueError(f"expected a number in [0, 1] for metrics.{name}, got {value!r}")
        return self


class CurveOutcome(Outcome):
    """Columns of equal length, for figures."""

    columns: dict[str, Numbers] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check_columns(self) -> CurveOutcome:
        for name, values in self.columns.items():
            if is_share(name) and np.any((values < 0) | (values > 1)):
                raise ValueError(f"expected numbers in [0, 1] in columns.{name}")
        return self
