"""pandas DataFrames as tables."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from ..errors import DataError
from .base_table import Batch, Table
from .faults import Fault, RowProblem
from .schema import BLANKS, hash_texts, require_different

__all__ = ["FrameTable", "has_columns", "pandas_frame"]

_ROWS = 4096


def has_columns(data: Any) -> bool:
    """Whether data are a table whose columns have names: a DataFrame of pandas or polars, or a table of Arrow."""
    return hasattr(type(data), "columns")


def pandas_frame(table: Any) -> Any:
    """A DataFrame of pandas with the columns of one of polars, or of a table of Arrow.

    Raises
    ------
    DataError
        It is none of these, or cannot be converted.
    """
    if hasattr(table, "iloc"):
        return table
    name = f"{type(table).__module__.partition('.')[0]}.{type(table).__name__}"
    if not hasattr(table, "to_pandas"):
        raise DataError(f"expected a DataFrame, got {name}, which does not hold its rows")
    try:
        return table.to_pandas()
    except ImportError as error:
        raise DataError(f"{name}: cannot be made a DataFrame of pandas ({error})", "pip install pyarrow") from None


class FrameTable(Table):
    """A DataFrame as a table.

    Columns of numbers and booleans (0 and 1) hold numbers, those of text and of pandas' categories hold categories; a
    column of objects is what its first value is that is not missing.

    Parameters
    ----------
    frame : pandas.DataFrame
    name : str
        For messages.

    Raises
    ------
    DataError
        Two columns have the same name.
    """

    def __init__(self, frame: Any, name: str):
        super().__init__([str(column).strip(BLANKS) for column in frame.columns], name)
        require_different(self.header, name)
        self._frame = frame.set_axis(self.header, axis=1)

    def kinds(self) -> dict[str, str]:
        """Whether each column has numbers or categories; ``other`` if neither."""
        return {name: self._kind_of(self._frame[name]) for name in self.header}

    def type_of(self, column: str) -> str:
        """The type of a column, for messages."""
        return str(self._frame[column].dtype)

    def _kind_of(self, column: Any) -> str:
        from pandas.api import types

        kind = column.dtype
        if isinstance(kind, types.CategoricalDtype):
            return "category"
        if types.is_bool_dtype(kind) or (types.is_numeric_dtype(kind) and not types.is_complex_dtype(kind)):
            return "number"
        if types.is_string_dtype(kind) or types.is_object_dtype(kind):
            first = next((value for value in self._values(column) if value is not None), 0)
            return "number" if _is_number(first) else "category" if isinstance(first, str) else "other"
        return "other"

    def _batches(self, names: Sequence[str], numbers: Sequence[str]) -> Iterator[Batch]:
        for start in range(0, len(self._frame), _ROWS):
            frame = self._frame.iloc[start : start + _ROWS]
            yield Batch({name: frame[name] for name in names}, 1 + start + np.arange(len(frame)), {})

    def _values(self, column: Any) -> list[Any]:
        return column.astype(object).where(column.notna(), None).tolist()

    def _numbers(self, column: Any, name: str, problems: dict[int, RowProblem]) -> np.ndarray:
        if column.dtype != object:  # NumPy would read text among objects as numbers, if all of a batch can be read
            with contextlib.suppress(ValueError, TypeError, OverflowError):
                return column.to_numpy(dtype=np.float64, na_value=np.nan).copy()
        values = np.full(len(column), np.nan)
        for row, value in enumerate(self._values(column)):
            if _is_number(value):
                try:
                    values[row] = value
                except OverflowError:  # an int beyond every float
                    values[row] = np.inf
            elif value is not None:
                problem = RowProblem(f"expected a number, got {value!r}", Fault.NOT_A_NUMBER, name)
                problems.setdefault(row, problem)
        return values

    def _texts(self, column: Any, name: str, problems: dict[int, RowProblem]) -> list[str | None]:
        values = self._values(column)
        for row, value in enumerate(values):
            if isinstance(value, (float, np.floating)) or (isinstance(value, Decimal) and value.as_tuple().exponent):
                problem = RowProblem(f"expected text or a whole number for a category, got {value!r}", column=name)
                problems.setdefault(row, problem)
        return [None if value is None else str(value) for value in values]

    def _hashes(self, column: Any, name: str, bits: int, problems: dict[int, RowProblem]) -> np.ndarray:
        return hash_texts(self._texts(column, name, problems), name, bits)

    def _has_fractions(self, column: Any) -> bool:
        from pandas.api import types

        kind = column.dtype
        of_values = kind.categories.dtype if isinstance(kind, types.CategoricalDtype) else kind
        return types.is_float_dtype(of_values) and bool(column.notna().any())


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float, np.number, np.bool_, Decimal))
