"""The record of a task: one line of JSON with a checksum, the same text loose and packed.

A record refers to its definition (learner, parameters, grid, protocol) and its environment by hash; the manifest has
both. Its ``outcome`` is typed by the kind of protocol.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

import numpy as np
from pydantic import AfterValidator, Field, ValidationError, model_validator

from ..protocols import AnyOutcome
from ..protocols.outcome import Count, Numbers, Part, Selection, Setting
from ..sentences import problems_of
from ..task import Task, content_hash

__all__ = [
    "STATUSES",
    "OtherVersion",
    "Record",
    "TaskRecord",
    "Timing",
    "make_record",
    "record_of_line",
    "record_to_line",
]

Status = Literal["ok", "diverged", "timeout", "out_of_memory", "error"]
STATUSES = get_args(Status)
_CHECKSUM = b',"checksum":"'
_DIGITS = 16
# What pydantic calls a key, a status and a kind of outcome that are not known here.
_OF_OTHER_VERSIONS = {"extra_forbidden", "literal_error", "union_tag_invalid"}

Hash = Annotated[str, Field(pattern="^[0-9a-f]{16}$")]
Fingerprint = Annotated[str, Field(pattern="^[0-9a-f]{64}$"), AfterValidator(sys.intern)]
Seconds = Annotated[float, Field(ge=0)]


class Timing(Part):
    """When and how long: all that differs when a task is computed again.

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
        All passes that a median was taken of.
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
        """CPU seconds of the selection and the last training, as far as known."""
        return (self.selection_cpu_seconds or 0.0) + (self.fit_cpu_seconds or 0.0)


class Record(Part):
    """The result of a task.

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
        Hashes of entries in the manifest.
    status : str
        One of `STATUSES`.
    message : str
        Why there is no number; empty for ``ok``.
    traceback : str or None
        Its last lines, for an unexpected error.
    outcome : Outcome or None
        Of the type that the kind of protocol defines; None where the task ended before.
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
    status: Status
    message: str = ""
    traceback: str | None = None
    outcome: AnyOutcome | None = None
    timing: Timing

    @property
    def ok(self) -> bool:
        """Whether there is a number."""
        return self.status == "ok"

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """Columns of equal length, times among them; empty for kinds that only fill tables."""
        columns = getattr(self.outcome, "columns", None)
        return {} if columns is None else {**columns, **self.timing.columns}

    @property
    def metrics(self) -> dict[str, float | None]:
        """Numbers by name, None for what a learner does not have; empty without a number, or for figures only."""
        return getattr(self.outcome, "metrics", {})

    @property
    def auc(self) -> float:
        """The AUC of the tested setting, where there is a number."""
        auc = self.metrics["auc"]
        assert auc is not None  # `TestedOutcome` refuses it
        return auc

    def with_metrics(self, metrics: dict[str, float | None]) -> Record:
        """Return the record with other metrics."""
        assert self.outcome is not None
        return self.model_copy(update={"outcome": self.outcome.model_copy(update={"metrics": metrics})})

    @property
    def selected(self) -> Setting:
        """The selected setting; empty where there is none."""
        return getattr(self.outcome, "selected", None) or {}

    @property
    def selection(self) -> Selection | None:
        """How it was selected, where the record has that."""
        return getattr(self.outcome, "selection", None)

    @property
    def label(self) -> str:
        """Dataset, column, trial and fold, for messages."""
        return f"{self.dataset} {self.column} trial {self.trial + 1} fold {self.fold + 1}"

    @model_validator(mode="after")
    def _check_finished(self) -> Record:
        if len({len(values) for values in self.columns.values()}) > 1:
            raise ValueError("expected columns of equal length")
        if self.ok:
            if self.outcome is None:
                raise ValueError("expected an outcome with status ok")
            if missing := self.outcome.missing(self.timing):
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
        if self.outcome.kind != task.protocol.kind:
            return f"its kind is {self.outcome.kind}, expected {task.protocol.kind}"
        n_points = task.protocol.n_points(task)
        for name, values in self.columns.items():
            if not len(values) or n_points not in (None, len(values)):
                return f"columns.{name} has {len(values)} values, expected {n_points or 'some'}"
        if self.selection is not None and not len(self.selection.auc) == self.selection.n_settings == task.n_settings:
            found = f"{len(self.selection.auc)} AUCs of {self.selection.n_settings} settings"
            return f"selection has {found}, and the grid has {task.n_settings}"
        return ""


class OtherVersion(ValueError):
    """A record that another version of this package has written."""


TaskRecord = tuple[Task, Record]


def record_to_line(record: Record) -> bytes:
    """Return a record as one line of JSON without a line end; the last key is the checksum of all before it."""
    content = record.model_dump(mode="json", exclude_defaults=True)
    body = json.dumps(content, separators=(",", ":"), allow_nan=False).encode()[:-1]
    return body + _CHECKSUM + _checksum(body) + b'"}'


def record_of_line(line: bytes) -> Record:
    """Return the record of a line, or raise ValueError if `record_to_line` has not written it like this.

    That is `OtherVersion` if the line is intact and has a key, a status or a kind that is not known here.
    """
    line = line.rstrip(b"\r\n")
    body, _, rest = line.rpartition(_CHECKSUM)
    if len(rest) != _DIGITS + 2 or not rest.endswith(b'"}'):
        raise ValueError("it does not end with a checksum: it is cut off, or not a record")
    if rest[:_DIGITS] != (computed := _checksum(body)):
        raise ValueError(
            f"its checksum is {rest[:_DIGITS].decode(errors='replace')}, its content gives {computed.decode()}: "
            "it was changed after it was written"
        )
    try:
        return Record.model_validate_json(body + b"}")
    except ValidationError as error:
        reason = str(problems_of(error, Record, _document(body + b"}"))[0])
        of_other_version = any(problem["type"] in _OF_OTHER_VERSIONS for problem in error.errors(include_url=False))
        raise (OtherVersion if of_other_version else ValueError)(reason) from None


def make_record(task: Task, content: Mapping[str, Any], environment: str) -> Record:
    """Return the record of a task.

    ``content`` has status, message, outcome and timing as plain values; ValueError if some of it is invalid.
    ``environment`` is the hash of the environment.
    """
    place = {"dataset": task.dataset, "column": task.column, "trial": task.trial, "fold": task.fold}
    data = {"fingerprint": task.fingerprint, "max_train": task.max_train}
    hashes = {"id": task.id, "definition": content_hash(task.definition), "environment": environment}
    try:
        return Record.model_validate({**place, **data, **hashes, **content}, strict=False)
    except ValidationError as error:
        raise ValueError(str(problems_of(error, Record, content)[0])) from None


def _document(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return {}


def _checksum(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest()[:_DIGITS].encode()
