"""The record of a task: one line of JSON with a checksum, the same text while a run is under way and when it is packed.

A record refers to its definition (learner, parameters, grid, protocol) and its environment by hash; both stand once in
the manifest of the folder. Its ``outcome`` is typed by the kind of protocol.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
    model_validator,
)

from ..sentences import problems_of
from ..task import Task, task_id

__all__ = [
    "STATUSES",
    "ConvergenceOutcome",
    "CrossValidationOutcome",
    "HoldoutOutcome",
    "Outcome",
    "Record",
    "Selection",
    "SketchErrorOutcome",
    "SweepOutcome",
    "Timing",
    "TimingOutcome",
    "make_record",
    "record_of_line",
    "record_to_line",
]

STATUSES = ("ok", "diverged", "timeout", "out_of_memory", "error")
_SHARES = ("auc", "auc_exact", "validation_auc", "sparse_ratio")
_CHECKSUM = b',"checksum":"'
_DIGITS = 16

Count = Annotated[int, Field(ge=0)]
Hash = Annotated[str, Field(pattern="^[0-9a-f]{16}$")]
Fingerprint = Annotated[str, Field(pattern="^[0-9a-f]{64}$"), AfterValidator(sys.intern)]
Share = Annotated[float, Field(ge=0, le=1)]
Seconds = Annotated[float, Field(ge=0)]
Setting = dict[str, float]


def _to_list(values: np.ndarray) -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in values]


def _to_array(values: list[float | None]) -> np.ndarray:
    array = np.array(values, dtype=float)
    array.flags.writeable = False
    return array


# Lists with nulls in JSON, arrays with NaN in memory, where they need a quarter of the space.
Shares = Annotated[list[Share | None], AfterValidator(_to_array), PlainSerializer(_to_list)]
Numbers = Annotated[list[float | None], AfterValidator(_to_array), PlainSerializer(_to_list)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Selection(_Part):
    """How a setting was selected.

    Attributes
    ----------
    n_settings, n_diverged : int
    auc : ndarray of shape (n_settings,)
        Mean over the inner folds, or AUC on the validation rows, in the order of the expanded grid; NaN where the
        setting diverged.
    """

    n_settings: Count
    n_diverged: Count
    auc: Shares


class _Outcome(_Part):
    """What every kind has: sizes of the sets, null where the protocol has no such set or the task ended before."""

    needs: ClassVar[tuple[str, ...]] = ()

    n_train: Count | None = None
    n_validation: Count | None = None
    n_test: Count | None = None

    def missing(self, timing: Timing) -> str:
        """What a finished task of this kind has to have and this one lacks, or an empty string."""
        raise NotImplementedError


class _Tested(_Outcome):
    """A setting was selected, trained once more by itself, and tested."""

    metrics: dict[str, float] = Field(default_factory=dict)
    selected: Setting | None = None
    selection: Selection | None = None
    diverged_in_refit: tuple[Setting, ...] = ()
    learner_info: dict[str, Any] = Field(default_factory=dict)

    def missing(self, timing: Timing) -> str:
        """See `_Outcome.missing`."""
        lacking = [f"metrics.{name}" for name in self.needs if name not in self.metrics]
        lacking += [name for name in ("selected", "selection") if getattr(self, name) is None]
        return next(iter([*lacking, *(["timing.fit_cpu_seconds"] if timing.fit_cpu_seconds is None else [])]), "")

    @model_validator(mode="after")
    def _check_shares(self) -> _Tested:
        for name, value in self.metrics.items():
            if name in _SHARES and not 0 <= value <= 1:
                raise ValueError(f"expected a number in [0, 1] for metrics.{name}, got {value!r}")
        return self


class CrossValidationOutcome(_Tested):
    """One outer fold."""

    needs: ClassVar[tuple[str, ...]] = ("auc",)
    kind: Literal["cv"]


class HoldoutOutcome(_Tested):
    """One split into training, validation and test rows."""

    needs: ClassVar[tuple[str, ...]] = ("auc", "sparse_ratio")
    kind: Literal["holdout"]


class _Curve(_Outcome):
    """Columns of equal length, for figures."""

    columns: dict[str, Numbers] = Field(default_factory=dict)

    def missing(self, timing: Timing) -> str:
        """See `_Outcome.missing`."""
        return next((f"columns.{name}" for name in self.needs if name not in {**self.columns, **timing.columns}), "")

    @model_validator(mode="after")
    def _check_shares(self) -> _Curve:
        for name in self.columns.keys() & set(_SHARES):
            values = self.columns[name]
            if np.any((values < 0) | (values > 1)):
                raise ValueError(f"expected numbers in [0, 1] in columns.{name}")
        return self


class SweepOutcome(_Curve):
    """Every setting of the grid, trained and tested; a row for each setting."""

    needs: ClassVar[tuple[str, ...]] = ("auc", "sparse_ratio")
    kind: Literal["sweep"]


class ConvergenceOutcome(_Curve):
    """Test AUC on the way through a pass; a row for each point."""

    needs: ClassVar[tuple[str, ...]] = ("n_seen", "auc", "seconds")
    kind: Literal["convergence"]
    selected: Setting | None = None


class TimingOutcome(_Curve):
    """Training time of one setting; a single row of medians."""

    needs: ClassVar[tuple[str, ...]] = ("seconds", "wall_seconds")
    kind: Literal["timing"]
    selected: Setting | None = None


class SketchErrorOutcome(_Curve):
    """Errors of sketched second moments; a row for each size of the sketch."""

    needs: ClassVar[tuple[str, ...]] = ("positive_error", "negative_error")
    kind: Literal["sketch_error"]


Outcome = Annotated[
    CrossValidationOutcome | HoldoutOutcome | SweepOutcome | ConvergenceOutcome | TimingOutcome | SketchErrorOutcome,
    Field(discriminator="kind"),
]


class Timing(_Part):
    """When and how long; computed again, all of it comes out otherwise.

    Attributes
    ----------
    finished : str or None
        UTC, to the second.
    wall_seconds, selection_cpu_seconds, fit_cpu_seconds : float
        Of the whole task, the search of the grid, and the training of the selected setting.
    peak_rss_bytes : int
        Of the worker process.
    columns : dict of str to ndarray
        Columns of times beside those of the outcome.
    passes : dict of str to ndarray
        Every single pass behind a median.
    load : tuple of float
        Load average before and after the passes.
    """

    finished: Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")] | None = None
    wall_seconds: Seconds = 0.0
    peak_rss_bytes: Count = 0
    selection_cpu_seconds: Seconds | None = None
    fit_cpu_seconds: Seconds | None = None
    columns: dict[str, Numbers] = Field(default_factory=dict)
    passes: dict[str, Numbers] = Field(default_factory=dict)
    load: tuple[float, ...] = ()

    @property
    def cpu_seconds(self) -> float:
        """CPU seconds of the selection and the last training, where they are known."""
        return (self.selection_cpu_seconds or 0.0) + (self.fit_cpu_seconds or 0.0)


class Record(_Part):
    """What became of a task.

    Attributes
    ----------
    id : str
        Of the task.
    dataset, column : str
    trial, fold : int
        From 0.
    fingerprint : str
        Of the dataset's arrays.
    max_train : int or None
    definition, environment : str
        Hashes of what the manifest has under these names.
    status : str
        One of `STATUSES`.
    message : str
        Why there is no number; empty for ``ok``.
    traceback : str or None
        The end of it, for an error that is not foreseen.
    outcome : Outcome or None
        None where the task ended before it had any.
    timing : Timing
    """

    id: Hash
    dataset: str
    column: str
    trial: Count
    fold: Count
    fingerprint: Fingerprint
    max_train: Count | None = None
    definition: Hash
    environment: Hash
    status: Literal["ok", "diverged", "timeout", "out_of_memory", "error"]
    message: str = ""
    traceback: str | None = None
    outcome: Outcome | None = None
    timing: Timing

    @property
    def ok(self) -> bool:
        """Whether there is a number."""
        return self.status == "ok"

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """Columns of equal length, times among them; nothing for kinds that fill tables."""
        return {**self.outcome.columns, **self.timing.columns} if isinstance(self.outcome, _Curve) else {}

    @property
    def metrics(self) -> dict[str, float]:
        """Numbers by name; nothing for kinds that draw figures, or without a number."""
        return self.outcome.metrics if isinstance(self.outcome, _Tested) else {}

    @property
    def selected(self) -> Setting:
        """The selected setting; empty where there is none."""
        one_setting = isinstance(self.outcome, _Tested | ConvergenceOutcome | TimingOutcome)
        return self.outcome.selected or {} if one_setting else {}

    @property
    def selection(self) -> Selection | None:
        """How it was selected, where the record has that."""
        return self.outcome.selection if isinstance(self.outcome, _Tested) else None

    @property
    def label(self) -> str:
        """Dataset, column, trial and fold in words."""
        return f"{self.dataset} {self.column} trial {self.trial + 1} fold {self.fold + 1}"

    @model_validator(mode="after")
    def _check_finished(self) -> Record:
        if isinstance(self.outcome, _Curve) and len({len(values) for values in self.columns.values()}) > 1:
            raise ValueError("expected columns of equal length")
        if self.ok and self.outcome is None:
            raise ValueError("expected an outcome with status ok")
        if self.ok and (missing := self.outcome.missing(self.timing)):
            raise ValueError(f"expected {missing} with status ok")
        return self

    def mismatch(self, task: Task) -> str:
        """Why this cannot be the record of a task with the same id, or an empty string."""
        expected = {"id": task.id, "dataset": task.dataset, "trial": task.trial, "fold": task.fold}
        expected |= {"fingerprint": task.fingerprint, "max_train": task.max_train}
        for name, value in expected.items():
            if getattr(self, name) != value:
                return f"{name} is {getattr(self, name)!r}, expected {value!r}"
        if self.outcome is None:
            return ""
        if self.outcome.kind != task.protocol["kind"]:
            return f"its kind is {self.outcome.kind}, expected {task.protocol['kind']}"
        n_rows = {"sweep": task.n_settings, "timing": 1, "sketch_error": len(task.protocol.get("sizes", ()))}
        for name, values in self.columns.items():
            if len(values) != n_rows.get(self.outcome.kind, len(values)) or not len(values):
                wanted = n_rows.get(self.outcome.kind, "some")
                return f"columns.{name} has {len(values)} values, expected {wanted}"
        if self.selection is not None and not len(self.selection.auc) == self.selection.n_settings == task.n_settings:
            found = f"{len(self.selection.auc)} AUCs of {self.selection.n_settings} settings"
            return f"selection has {found}, and the grid has {task.n_settings}"
        return ""


def record_to_line(record: Record) -> bytes:
    """Return a record as one line of JSON without a line end; the last key is the checksum of all before it."""
    content = record.model_dump(mode="json", exclude_defaults=True)
    body = json.dumps(content, separators=(",", ":"), allow_nan=False).encode()[:-1]
    return body + _CHECKSUM + _checksum(body) + b'"}'


def record_of_line(line: bytes) -> Record:
    """Return the record that a line has.

    Raises
    ------
    ValueError
        If the line is not what `record_to_line` gives: cut off, edited, or of another make.
    """
    line = line.rstrip(b"\r\n")
    body, _, rest = line.rpartition(_CHECKSUM)
    if len(rest) != _DIGITS + 2 or not rest.endswith(b'"}'):
        raise ValueError("it does not end with a checksum: it is cut off, or no record")
    if rest[:_DIGITS] != (computed := _checksum(body)):
        raise ValueError(
            f"its checksum is {rest[:_DIGITS].decode(errors='replace')}, its content gives {computed.decode()}: "
            "it was changed after it was written"
        )
    try:
        return Record.model_validate_json(body + b"}")
    except ValidationError as error:
        raise ValueError(_sentence(error, _document(body + b"}"))) from None


def make_record(task: Task, content: Mapping[str, Any], environment: str) -> Record:
    """Return the record of a task.

    Parameters
    ----------
    task : Task
    content : mapping
        Status, message, outcome and timing, as plain values.
    environment : str
        Hash of what the task was computed with.

    Raises
    ------
    ValueError
        If some content is not what a record of this kind has.
    """
    place = {"dataset": task.dataset, "column": task.column, "trial": task.trial, "fold": task.fold}
    data = {"fingerprint": task.fingerprint, "max_train": task.max_train}
    hashes = {"id": task.id, "definition": task_id(task.definition), "environment": environment}
    try:
        return Record.model_validate({**place, **data, **hashes, **content}, strict=False)
    except ValidationError as error:
        raise ValueError(_sentence(error, content)) from None


def _document(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return {}


def _sentence(error: ValidationError, document: Any) -> str:
    """The first thing that is wrong, with its place."""
    problem = problems_of(error, Record, document)[0]
    place = ".".join(map(str, problem.loc))
    return f"{place}: {problem.message}" if place else problem.message


def _checksum(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest()[:_DIGITS].encode()
