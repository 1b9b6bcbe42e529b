"""Rows of a file or of standard input as a learner takes them: unit length if wanted, and of one of two classes."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import sparse

from ..data.inputs import RowChunk, Source
from ..data.row_encoder import Statistics
from ..errors import DataError, ZeroIndexError
from ..sentences import label_text

__all__ = ["Label", "LabelledRows", "Source", "unit_length"]

# Rows of a single label that may wait for the other one, and the features in them: some 50 MB.
_WAITING_ROWS, _WAITING_VALUES = 1 << 16, 1 << 22

_SMALLEST_LENGTH = 1e-146  # of a row whose squares have all their digits

Label = float | str


def unit_length(X: sparse.csr_matrix) -> sparse.csr_matrix:
    """Rows divided by their Euclidean lengths, if not 0."""
    rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    data = X.data
    lengths = _lengths(data, rows, X.shape[0])
    extreme = ~((lengths > _SMALLEST_LENGTH) & np.isfinite(lengths))  # squares may have overflowed, or become 0
    if extreme[rows].any():
        largest = np.zeros(X.shape[0])
        np.maximum.at(largest, rows, np.abs(data))
        data = np.where(extreme[rows], data / np.where(largest > 0, largest, 1.0)[rows], data)
        lengths = _lengths(data, rows, X.shape[0])
    lengths[lengths == 0] = 1.0
    return sparse.csr_matrix((data / lengths[rows], X.indices, X.indptr), shape=X.shape)


def _lengths(data: np.ndarray, rows: np.ndarray, n_rows: int) -> np.ndarray:
    with np.errstate(over="ignore", under="ignore"):
        return np.sqrt(np.bincount(rows, weights=data * data, minlength=n_rows))


class ClassifiedRows(NamedTuple):
    """Rows as a learner takes them, and how far the source had been read when they came."""

    X: sparse.csr_matrix
    positive: np.ndarray  # (n_rows,), bool
    statistics: Statistics | None  # of columns of tables, these rows included
    position: int  # bytes
    file: int  # number of the file they are from


class LabelledRows:
    """Read a source; labels become classes.

    The positive class has the label ``positive``, by default the greater one of the two (of texts, the later one), so
    that rows have to wait until both labels have come. With ``unit_length`` rows are divided by their length.
    """

    def __init__(self, source: Source, unit_length: bool = False, positive: Label | None = None):
        self._source = source
        self._unit_length = unit_length
        self._given_positive = positive
        self.labels: list[Label] = []  # in the order in which they came

    @cached_property
    def _positive(self) -> Label | None:
        """As a label of the source; asked for once there are rows, because their labels tell whether it can be one."""
        given = self._given_positive
        return given if given is None else _label_like(given, self._source)

    @property
    def classes(self) -> np.ndarray:
        """Both labels, the positive one last; DataError if there are not both."""
        if len(self.labels) < 2:
            came = f"only {label_text(self.labels[0])}" if self.labels else "no rows"
            if self._source.n_skipped:
                came += f", and {self._source.n_skipped:,} bad rows, the first {self._source.first_skipped}"
            raise DataError(f"{self._source.name}: expected rows of two labels, got {came}", "AUC needs both classes")
        low, high = sorted(self.labels)
        return np.array([high, low] if self._positive == low else [low, high])

    def __iter__(self) -> Iterator[ClassifiedRows]:
        """Yield rows; DataError unless there are two labels, soon enough."""
        waiting, n_rows, n_values = [], 0, 0
        for chunk in self._chunks():
            self._check_labels(chunk)
            X = unit_length(chunk.X) if self._unit_length else chunk.X
            read = self._source.statistics_so_far(), self._source.position, chunk.file
            if self._positive is None and len(self.labels) < 2:
                waiting.append((X, chunk.labels, read))
                n_rows, n_values = n_rows + X.shape[0], n_values + X.nnz
                if n_rows >= _WAITING_ROWS or n_values >= _WAITING_VALUES:
                    raise self._too_late_error(n_rows)
                continue
            positive = max(self.labels) if self._positive is None else self._positive
            for held, labels, of_source in [*waiting, (X, chunk.labels, read)]:
                yield ClassifiedRows(held, np.asarray(labels == positive), *of_source)
            waiting = []
        _ = self.classes  # both have come, or this says so

    def _chunks(self) -> Iterator[RowChunk]:
        try:
            yield from self._source.chunks()
        except ZeroIndexError as error:
            raise DataError(error.message, self._source.remedies.zero_index) from None

    def _check_labels(self, chunk: RowChunk) -> None:
        labels = np.asarray(chunk.labels)
        known = np.isin(labels, self.labels) if self.labels else np.zeros(len(labels), dtype=bool)
        for row in np.flatnonzero(~known).tolist():
            label = labels[row].item()
            if label in self.labels:  # since an earlier row
                continue
            place = chunk.place(row)
            if len(self.labels) == 2:
                both = " and ".join(map(label_text, self.labels))
                raise DataError(
                    f"{place}: expected the labels {both}, got a third one, {label_text(label)}",
                    "a ranking has two classes: write 1 for the labels of one and -1 for the others",
                )
            self.labels.append(label)
            if len(self.labels) == 2 and self._positive is not None and self._positive not in self.labels:
                raise DataError(
                    f"{place}: expected {label_text(self._positive)} to be one of the labels (--positive); "
                    f"they are {' and '.join(map(label_text, self.labels))}"
                )

    def _too_late_error(self, n_rows: int) -> DataError:
        only = label_text(self.labels[0])
        return DataError(
            f"{self._source.name}: the first {n_rows:,} rows all have the label {only}, so that it is not known yet "
            "which of two labels is the greater one, and thus positive",
            "shuffle the rows, if they are sorted by label: a learner has to see both classes; or --positive LABEL, "
            "that of the positive class, to begin without knowing both",
        )


def _label_like(label: Label, source: Source) -> Label:
    """The label as those of a source are: a number or text."""
    if not source.numeric_labels:
        return str(label)
    as_boolean = {"true": 1.0, "false": 0.0}.get(str(label).lower())  # booleans of Parquet are numbers
    with contextlib.suppress(ValueError):
        if math.isfinite(number := float(label) if as_boolean is None else as_boolean):
            return number
    raise DataError(f"{source.name}: expected {label} to be one of the labels (--positive); the labels are numbers")
