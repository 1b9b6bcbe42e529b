"""Tables whose columns have types: what DataFrames and files of Arrow have in common."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..errors import DataError
from .content import LineProblem, finite_number
from .schema import BLANKS, Cells, Schema, require_different
from .table import TableRows, refuse_missing

__all__ = ["TypedTable"]


class TypedTable:
    """Base class of tables with typed columns, which are read in batches.

    A derived class has methods for columns of the whole table, by name:

    * ``kinds()`` maps each to "number", "category", or "other" if it is neither.
    * ``type_of(name)`` is its type, for messages.
    * ``_batches(names)`` yields numbers of rows and these columns of them, in a type of its own.

    and for columns of a batch:

    * ``_values(column)`` lists its values, None where one is missing.
    * ``_numbers(column, name, problems)`` is an array of float64, NaN where a value is missing.
    * ``_texts(column, name, problems)`` lists its values as text, None where one is missing.
    * ``_hashes(column, name, bits, problems)`` is an array of their hashes, -1 where a value is missing.
    * ``_has_fractions(column)``: whether it has values, of a type of numbers with a fraction.

    ``problems`` takes in, by row, values that are not as they should be.

    Parameters
    ----------
    header : list of str
    name : str
        Of the table, for messages.

    Raises
    ------
    DataError
        Two columns have the same name.
    """

    place = "{}, row {}"

    def __init__(self, header: list[str], name: str):
        self.header, self.name = header, name
        require_different(header, name)

    def rows(
        self, schema: Schema, numeric_labels: bool, aside: tuple[str, ...] = (), labels_needed: bool = True
    ) -> Iterator[TableRows]:
        """Yield the rows in pieces; see `table.TextTable.rows`."""
        label, are_numbers = schema.label, False
        if label is not None:
            are_numbers = numeric_labels and self.kinds()[label] == "number"
        n_before = 0
        for n_rows, columns in self._batches([*schema.columns, *([] if label is None else [label]), *aside]):
            problems: dict[int, str] = {}
            cells = self._cells(columns, n_rows, schema, problems)
            labels = label_text = None
            if label is not None:
                column, of_labels = columns[label], problems if labels_needed else {}
                label_text = functools.partial(self._text_of([column]), k=0)
                if are_numbers:
                    labels = self._finite_numbers(column, label, True, of_labels)
                else:
                    if labels_needed:
                        self._refuse_fractions(column, label)
                    labels = self._text_labels(column, label, numeric_labels, of_labels)
            yield TableRows(
                cells,
                labels,
                {name: ["" if one is None else str(one) for one in self._values(columns[name])] for name in aside},
                n_before + 1 + np.arange(n_rows),
                problems,
                label_text,
            )
            n_before += n_rows

    def _cells(self, columns: dict[str, Any], n_rows: int, schema: Schema, problems: dict[int, str]) -> Cells:
        complete = schema.missing == "error"
        numbers, hashes = [np.empty((n_rows, 0))], [np.empty((n_rows, 0), np.int64)]
        for name in schema.numbers:
            numbers.append(self._finite_numbers(columns[name], name, complete, problems))
        for name in schema.categories:
            self._refuse_fractions(columns[name], name)
            hashes.append(self._hashes(columns[name], name, schema.bits, problems))
            if complete:
                refuse_missing(hashes[-1] < 0, name, problems)
        text = self._text_of([columns[name] for name in schema.categories])
        return Cells(np.column_stack(numbers), np.column_stack(hashes), text)

    def _finite_numbers(self, column: Any, name: str, complete: bool, problems: dict[int, str]) -> np.ndarray:
        values = self._numbers(column, name, problems)
        for row in np.flatnonzero(np.isinf(values)).tolist():
            problems.setdefault(row, f"column {name!r}: expected a finite number, got {values[row]}")
        if complete:
            refuse_missing(np.isnan(values), name, problems)
        return values

    def _text_labels(self, column: Any, name: str, as_numbers: bool, problems: dict[int, str]) -> np.ndarray:
        texts = [(text or "").strip(BLANKS) for text in self._texts(column, name, problems)]
        if as_numbers:
            return np.array([_number(text) for text in texts])
        labels = np.array(texts, dtype=np.str_)
        refuse_missing(labels == "", name, problems)
        return labels

    def _refuse_fractions(self, column: Any, name: str) -> None:
        if self._has_fractions(column):
            raise DataError(
                f"{self.name}: column {name!r}: expected text or whole numbers, got the type {self.type_of(name)}, in "
                "which 9 may be 9.0",
                "make it a column of text or of whole numbers",
            )

    def _text_of(self, columns: list[Any]) -> Callable[[int, int], str]:
        """From a row and the position of one of these columns to the value as text, empty where it is missing."""
        values = functools.cache(lambda k: self._values(columns[k]))

        def text(row: int, k: int) -> str:
            value = values(k)[row]
            return "" if value is None else str(value).strip(BLANKS)

        return text


def _number(text: str) -> float:
    """A finite number that is written as text, as in CSV; else NaN."""
    try:
        return finite_number(text.encode(), 0, "")
    except LineProblem:
        return np.nan
