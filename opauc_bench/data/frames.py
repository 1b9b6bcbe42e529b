"""pandas DataFrames as tables."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from ..errors import DataError
from .schema import BLANKS, Cells, Schema, hash_texts
from .table import Problem, TableRows

__all__ = ["FrameTable", "matrix_of"]

_ROWS = 4096


class FrameTable:
    """A DataFrame as a table.

    Columns of numbers and booleans (0 and 1) hold numbers, those of text and of pandas' categories hold categories; a
    column of objects is what its first value is that is not missing.

    Parameters
    ----------
    frame : pandas.DataFrame
    name : str
        For messages.

    Attributes
    ----------
    header : list of str

    Raises
    ------
    DataError
        Two columns have the same name.
    """

    place = "{}, row {}"

    def __init__(self, frame: Any, name: str):
        self.name = name
        self.header = [str(column) for column in frame.columns]
        self._frame = frame.set_axis(self.header, axis=1)
        for column, one in enumerate(self.header):
            if one in self.header[:column]:
                raise DataError(f"{name}: expected different names of columns, got {one!r} twice")

    def kinds(self) -> dict[str, str]:
        """Whether each column has numbers or categories; ``other`` if neither."""
        return {name: _kind_of(self._frame[name]) for name in self.header}

    def has_fractions(self, column: str) -> bool:
        """Whether it has numbers that can have a fraction; without any value, a column of text is one of floats."""
        from pandas.api import types

        kind = self._frame[column].dtype
        of_values = kind.categories.dtype if isinstance(kind, types.CategoricalDtype) else kind
        return types.is_float_dtype(of_values) and bool(self._frame[column].notna().any())

    def type_of(self, column: str) -> str:
        """The type of a column, for messages."""
        return str(self._frame[column].dtype)

    def rows(
        self, schema: Schema, numeric_labels: bool, aside: tuple[str, ...] = (), labels_needed: bool = True
    ) -> Iterator[TableRows]:
        """Yield the rows in pieces; see `table.TextTable.rows`."""
        for start in range(0, len(self._frame), _ROWS):
            frame = self._frame.iloc[start : start + _ROWS]
            problems: dict[int, str] = {}
            complete = schema.missing == "error"
            numbers = [_numbers(frame[name], name, problems, complete) for name in schema.numbers]
            texts = [_texts(frame[name], name, problems, complete) for name in schema.categories]
            hashes = [hash_texts(of_column, name, schema.bits) for of_column, name in zip(texts, schema.categories)]
            labels = None
            if schema.label is not None and numeric_labels:
                labels = _numbers(frame[schema.label], schema.label, problems if labels_needed else {}, True)
            elif schema.label is not None:
                named = _texts(frame[schema.label], schema.label, problems if labels_needed else {}, True)
                labels = np.array([text or "" for text in named], dtype=np.str_)
            yield TableRows(
                Cells(
                    np.column_stack(numbers) if numbers else np.empty((len(frame), 0)),
                    np.column_stack(hashes) if hashes else np.empty((len(frame), 0), np.int64),
                    partial(_text, texts),
                ),
                labels,
                {name: ["" if value is None else str(value) for value in _values(frame[name])] for name in aside},
                start + 1 + np.arange(len(frame)),
                [Problem(row, problems[row]) for row in sorted(problems)],
            )


def matrix_of(frame: Any, schema: Schema, name: str = "the DataFrame") -> Any:
    """The rows of a DataFrame as the features of a model, by the names of its columns.

    Parameters
    ----------
    frame : pandas.DataFrame
        Has at least the columns of features.
    schema : Schema
        Of the model.
    name : str
        For messages.

    Returns
    -------
    csr_matrix of shape (n_rows, schema.n_features), float64

    Raises
    ------
    DataError
        A column is absent or of another type, or a value is missing or infinite.
    """
    from scipy.sparse import csr_matrix, vstack

    from .inputs import Source

    source = Source([frame], schema=schema, learnt=False, names=[name], hints="none")
    blocks = [chunk.X for chunk in source.chunks()]
    return vstack(blocks, format="csr") if blocks else csr_matrix((0, schema.n_features))


def _values(column: Any) -> list[Any]:
    """The values of a column, None where one is missing."""
    return column.astype(object).where(column.notna(), None).tolist()


def _kind_of(column: Any) -> str:
    from pandas.api import types

    kind = column.dtype
    if isinstance(kind, types.CategoricalDtype):
        return "category"
    if types.is_bool_dtype(kind) or (types.is_numeric_dtype(kind) and not types.is_complex_dtype(kind)):
        return "number"
    if types.is_string_dtype(kind) or types.is_object_dtype(kind):
        first = next((value for value in _values(column) if value is not None), 0)
        is_number = isinstance(first, (bool, int, float, np.number, np.bool_))
        return "number" if is_number else "category" if isinstance(first, str) else "other"
    return "other"


def _numbers(column: Any, name: str, problems: dict[int, str], complete: bool) -> np.ndarray:
    try:
        values = column.to_numpy(dtype=np.float64, na_value=np.nan).copy()
    except (ValueError, TypeError, OverflowError):
        values = np.full(len(column), np.nan)
        for row, value in enumerate(_values(column)):
            if isinstance(value, (bool, int, float, np.number, np.bool_)):
                with contextlib.suppress(OverflowError):  # an int beyond every float
                    values[row] = value
                    continue
                values[row] = np.inf
            elif value is not None:
                problems.setdefault(row, f"column {name!r}: expected a number, got {value!r}")
    for row in np.flatnonzero(np.isinf(values)).tolist():
        problems.setdefault(row, f"column {name!r}: expected a finite number, got {values[row]}")
    if complete:
        for row in np.flatnonzero(np.isnan(values)).tolist():
            problems.setdefault(row, f"column {name!r}: expected a value, got nothing")
    return values


def _texts(column: Any, name: str, problems: dict[int, str], complete: bool) -> list[str | None]:
    values = _values(column)
    texts = [None if value is None else str(value).strip(BLANKS) for value in values]
    for row, value in enumerate(values):
        if isinstance(value, (float, np.floating)):
            problems.setdefault(row, f"column {name!r}: expected text or a whole number for a category, got {value!r}")
    if complete:
        for row, text in enumerate(texts):
            if not text:
                problems.setdefault(row, f"column {name!r}: expected a value, got nothing")
    return texts


def _text(texts: list[list[str | None]], row: int, k: int) -> str:
    return texts[k][row] or ""
