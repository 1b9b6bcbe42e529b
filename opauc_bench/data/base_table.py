"""Tables whose columns have names: what text, DataFrames and files of Arrow have in common."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..errors import DataError
from .content import finite_number
from .faults import Fault, LineProblem, RowProblem
from .schema import BLANKS, Schema

__all__ = ["Batch", "Table", "TableRows", "no_value"]


class TableRows(NamedTuple):
    """Consecutive rows of a table as values."""

    numbers: np.ndarray  # (rows, len(schema.numbers)), float64; NaN where a value is missing, all others are finite
    categories: np.ndarray  # (rows, len(schema.categories)), int64: hashes, or -1 where a value is missing
    labels: np.ndarray | None  # (rows,), float64 if the labels are numbers, else text; None without a column of labels
    text: Callable[[int, str], str]  # from a row and the name of a column to the value, empty where it is missing
    places: np.ndarray  # (rows,), int64: number of the line (of text) or of the row (of other formats), from 1
    problems: dict[int, RowProblem]  # rows that cannot be used; their other fields are undefined


class Batch(NamedTuple):
    """Consecutive rows of a table as it has them."""

    columns: dict[str, Any]  # by name, in a type of the table
    places: np.ndarray  # as in `TableRows`
    problems: dict[int, RowProblem]  # likewise


class Table(ABC):
    """Base class of tables, which are read in batches.

    A derived class defines the abstract methods; ``type_of`` too if it `has_types`, and ``_values`` and ``_numbers``
    unless it has its own ``_text_of`` and ``_finite_numbers``. Their ``problems`` take in, by row, values that are not
    as they should be.

    Parameters
    ----------
    header : list of str
    name : str
        Of the table, for messages.
    """

    place = "{}, row {}"  # of a row in a message, from the name and the number
    has_types = True  # without types, what a column has is known by its first values only

    def __init__(self, header: list[str], name: str):
        self.header, self.name = header, name

    @abstractmethod
    def kinds(self) -> dict[str, str]:
        """By the name of a column: "number", "category", or "other" if it has neither."""

    def type_of(self, column: str) -> str:
        """The type of a column, for messages."""
        raise NotImplementedError

    @abstractmethod
    def _batches(self, names: Sequence[str], numbers: Sequence[str]) -> Iterator[Batch]:
        """Yield all rows with columns of these names, the ``numbers`` among which are to be read as such."""

    def _values(self, column: Any) -> list[Any]:
        """Values of a column of a batch, None where one is missing."""
        raise NotImplementedError

    def _numbers(self, column: Any, name: str, problems: dict[int, RowProblem]) -> np.ndarray:
        """Values of a column of a batch as float64, NaN where one is missing."""
        raise NotImplementedError

    @abstractmethod
    def _texts(self, column: Any, name: str, problems: dict[int, RowProblem]) -> Sequence[str | None]:
        """Values of a column of a batch as text, None where one is missing."""

    @abstractmethod
    def _hashes(self, column: Any, name: str, bits: int, problems: dict[int, RowProblem]) -> np.ndarray:
        """Hashes of the values of a column of a batch, -1 where one is missing."""

    @abstractmethod
    def _has_fractions(self, column: Any) -> bool:
        """Whether a column of a batch has values, of a type of numbers with a fraction."""

    def rows(
        self, schema: Schema, numeric_labels: bool, aside: tuple[str, ...] = (), labels_needed: bool = True
    ) -> Iterator[TableRows]:
        """Yield the rows in pieces.

        Parameters
        ----------
        schema : Schema
            Its columns are in the header.
        numeric_labels : bool
        aside : tuple of str
            Further columns of which the text is wanted; a row without it is a problem.
        labels_needed : bool
            Whether a row without a label is a problem; otherwise its label is NaN or empty.
        """
        complete, label = schema.missing == "error", schema.label
        of_label = [] if label is None else [label]
        are_numbers = numeric_labels and not (label is not None and self.has_types and self.kinds()[label] != "number")
        numbers = [*schema.numbers, *(of_label if are_numbers else [])]
        for batch in self._batches([*of_label, *aside, *schema.columns], numbers):
            columns, problems = batch.columns, batch.problems
            values = self._finite_numbers(batch, schema.numbers, complete, problems)
            hashes = np.empty((len(batch.places), len(schema.categories)), dtype=np.int64)
            for k, name in enumerate(schema.categories):
                self._refuse_fractions(columns[name], name)
                hashes[:, k] = self._hashes(columns[name], name, schema.bits, problems)
                if complete:
                    _refuse_missing(hashes[:, k] < 0, name, problems)
            labels, of_labels = None, problems if labels_needed else {}
            if label is not None and are_numbers:
                labels = self._finite_numbers(batch, of_label, True, of_labels)[:, 0]
            elif label is not None:
                if labels_needed:
                    self._refuse_fractions(columns[label], label)
                labels = self._text_labels(columns[label], label, numeric_labels, of_labels)
            text = self._text_of(columns)
            for name in aside:
                for row in range(len(batch.places)):
                    if not text(row, name):
                        problems.setdefault(row, no_value(name))
            yield TableRows(values, hashes, labels, text, batch.places, problems)

    def _finite_numbers(
        self, batch: Batch, names: Sequence[str], complete: bool, problems: dict[int, RowProblem]
    ) -> np.ndarray:
        """Values of some columns, shape (rows, len(names)), NaN where one is missing."""
        found = np.empty((len(batch.places), len(names)))
        for k, name in enumerate(names):
            found[:, k] = values = self._numbers(batch.columns[name], name, problems)
            for row in np.flatnonzero(np.isinf(values)).tolist():
                problem = RowProblem(f"expected a finite number, got {values[row]}", column=name)
                problems.setdefault(row, problem)
            if complete:
                _refuse_missing(np.isnan(values), name, problems)
        return found

    def _text_labels(self, column: Any, name: str, as_numbers: bool, problems: dict[int, RowProblem]) -> np.ndarray:
        texts = [(text or "").strip(BLANKS) for text in self._texts(column, name, problems)]
        if as_numbers:
            return np.array([_number(text) for text in texts])
        labels = np.array(texts, dtype=np.str_)
        _refuse_missing(labels == "", name, problems)
        return labels

    def _refuse_fractions(self, column: Any, name: str) -> None:
        if self._has_fractions(column):
            raise DataError(
                f"{self.name}: column {name!r}: expected text or whole numbers, got the type {self.type_of(name)}, in "
                "which 9 may be 9.0",
                "make it a column of text or of whole numbers",
            )

    def _text_of(self, columns: dict[str, Any]) -> Callable[[int, str], str]:
        values = functools.cache(lambda name: self._values(columns[name]))

        def text(row: int, name: str) -> str:
            value = values(name)[row]
            return "" if value is None else str(value).strip(BLANKS)

        return text


def no_value(column: str) -> RowProblem:
    """What is wrong with a row that has nothing in a column."""
    return RowProblem("expected a value, got nothing", Fault.MISSING, column)


def _refuse_missing(missing: np.ndarray, column: str, problems: dict[int, RowProblem]) -> None:
    for row in np.flatnonzero(missing).tolist():
        problems.setdefault(row, no_value(column))


def _number(text: str) -> float:
    """A finite number that is written as text, as in CSV; else NaN."""
    try:
        return finite_number(text.encode(), 0, "")
    except LineProblem:
        return np.nan
