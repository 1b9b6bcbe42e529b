"""Parquet files, Arrow files (Feather) and Arrow streams as tables, read in batches by pyarrow."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, BinaryIO

import numpy as np

from ..errors import DataError
from .content import LineProblem, finite_number, import_pyarrow
from .schema import BLANKS, Cells, Schema, fractions, hash_spans
from .table import Problem, TableRows

__all__ = ["ArrowTable"]

_ROWS = 4096


class ArrowTable:
    """A table of typed columns.

    Columns of integers, floats, decimals and booleans (0 and 1) hold numbers, those of text and dictionaries of text
    hold categories; nulls and NaN are missing values. Columns of other types, such as times, can only be dropped.

    Parameters
    ----------
    stream : binary file
        Uncompressed. Parquet and Arrow files need one that can be searched; an Arrow stream does not.
    name : str
        Of the file, for messages.
    format : {"parquet", "arrow"}

    Attributes
    ----------
    header : list of str
    n_rows : int or None
        Where the format says it.

    Raises
    ------
    DataError
        pyarrow is not installed, or the file cannot be read.
    """

    place = "{}, row {}"

    def __init__(self, stream: BinaryIO, name: str, format: str):
        pyarrow = import_pyarrow("Parquet" if format == "parquet" else "Arrow")
        self.name, self._pyarrow = name, pyarrow
        self.n_rows: int | None = None
        self._described = "a Parquet file" if format == "parquet" else "an Arrow file or stream"
        try:
            if format == "parquet":
                from pyarrow import parquet

                self._file = parquet.ParquetFile(stream, pre_buffer=False, buffer_size=1 << 20)
                self._schema, self.n_rows = self._file.schema_arrow, self._file.metadata.num_rows
            else:
                from pyarrow import ipc

                head = stream.peek(6)[:6]
                open_ = ipc.open_file if head == b"ARROW1" else ipc.open_stream
                self._file = open_(stream)
                self._schema = self._file.schema
        except (pyarrow.ArrowException, OSError) as error:
            raise self._damaged(error) from None
        self.header = list(self._schema.names)
        for column, one in enumerate(self.header):
            if one in self.header[:column]:
                raise DataError(f"{name}: expected different names of columns, got {one!r} twice")

    def kinds(self) -> dict[str, str]:
        """Whether each column has numbers or categories; ``other`` if neither."""
        return {field.name: self._kind_of(field.type) for field in self._schema}

    def type_of(self, column: str) -> str:
        """The type of a column, for messages."""
        return str(self._schema.field(column).type)

    def _kind_of(self, kind: Any) -> str:
        types = self._pyarrow.types
        if types.is_dictionary(kind):
            kind = kind.value_type
        is_number = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean, types.is_null)
        if any(check(kind) for check in is_number):
            return "number"
        is_text = (types.is_string, types.is_large_string, types.is_string_view)
        return "category" if any(check(kind) for check in is_text) else "other"

    def rows(
        self, schema: Schema, numeric_labels: bool, aside: tuple[str, ...] = (), labels_needed: bool = True
    ) -> Iterator[TableRows]:
        """Yield the rows in pieces; see `table.TextTable.rows`."""
        label = () if schema.label is None or schema.label not in self.header else (schema.label,)
        wanted = [*schema.columns, *label, *aside]
        n_before = 0
        for batch in self._batches(wanted):
            problems: dict[int, str] = {}
            columns = {name: batch.column(name) for name in wanted}
            numbers = [self._numbers(columns[name], name, problems, schema.missing) for name in schema.numbers]
            categories = [self._categories(columns[name], name, schema, problems) for name in schema.categories]
            labels = label_text = None
            if label:
                label_text = partial(_text, batch, label, k=0)
                labels = self._labels(columns[label[0]], label[0], numeric_labels, labels_needed, problems)
            yield TableRows(
                Cells(
                    np.column_stack(numbers) if numbers else np.empty((batch.num_rows, 0)),
                    np.column_stack(categories) if categories else np.empty((batch.num_rows, 0), np.int64),
                    partial(_text, batch, schema.categories),
                ),
                labels,
                {
                    name: ["" if one is None or one != one else str(one) for one in columns[name].to_pylist()]
                    for name in aside
                },
                n_before + 1 + np.arange(batch.num_rows),
                [Problem(row, problems[row]) for row in sorted(problems)],
                label_text,
            )
            n_before += batch.num_rows

    def _batches(self, columns: list[str]) -> Iterator[Any]:
        pyarrow = self._pyarrow
        try:
            if hasattr(self._file, "iter_batches"):
                yield from self._file.iter_batches(batch_size=_ROWS, columns=columns)
                return
            if hasattr(self._file, "num_record_batches"):
                batches = (self._file.get_batch(k) for k in range(self._file.num_record_batches))
            else:
                batches = iter(self._file)
            for batch in batches:
                for start in range(0, batch.num_rows, _ROWS):
                    yield batch.slice(start, _ROWS)
        except (pyarrow.ArrowException, OSError) as error:
            raise self._damaged(error) from None

    def _damaged(self, error: Exception) -> DataError:
        text = " ".join(str(error).split())
        return DataError(f"{self.name}: expected {self._described}, it cannot be read ({text})")

    def _numbers(self, column: Any, name: str, problems: dict[int, str], missing: str) -> np.ndarray:
        types = self._pyarrow.types
        if types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if types.is_boolean(column.type):
            column = column.cast("uint8")
        values = np.array(column.cast("float64", safe=False).to_numpy(zero_copy_only=False), dtype=np.float64)
        for row in np.flatnonzero(np.isinf(values)).tolist():
            problems.setdefault(row, f"column {name!r}: expected a finite number, got {values[row]}")
        if missing == "error":
            for row in np.flatnonzero(np.isnan(values)).tolist():
                problems.setdefault(row, f"column {name!r}: expected a value, got nothing")
        return values

    def _categories(self, column: Any, name: str, schema: Schema, problems: dict[int, str]) -> np.ndarray:
        self._refuse_fractions(column, name)
        column = self._as_text(column)
        _, offsets, content = column.buffers()
        ends = np.frombuffer(offsets, dtype=np.int64)[column.offset : column.offset + len(column) + 1]
        text = np.frombuffer(content if content is not None else b"", dtype=np.uint8)
        hashes = hash_spans(text, ends[:-1], ends[1:], name, schema.bits)
        if column.null_count:
            hashes[column.is_null().to_numpy(zero_copy_only=False)] = -1
        if schema.missing == "error":
            for row in np.flatnonzero(hashes < 0).tolist():
                problems.setdefault(row, f"column {name!r}: expected a value, got nothing")
        return hashes

    def _refuse_fractions(self, column: Any, name: str) -> None:
        """Raise DataError for values of a type of numbers with a fraction; a column of text without values has one."""
        types = self._pyarrow.types
        kind = column.type.value_type if types.is_dictionary(column.type) else column.type
        if types.is_floating(kind) or (types.is_decimal(kind) and kind.scale > 0):
            known = column.dictionary_decode() if types.is_dictionary(column.type) else column
            if known.is_null(nan_is_null=True).to_numpy(zero_copy_only=False).all():
                return
            raise DataError(*fractions(self.name, name, str(column.type)))

    def _as_text(self, column: Any) -> Any:
        if self._pyarrow.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if self._pyarrow.types.is_boolean(column.type):
            from pyarrow import compute

            return compute.if_else(column, "True", "False").cast("large_string")  # as Python and pandas write them
        return column.cast("large_string")

    def _labels(self, column: Any, name: str, numeric: bool, needed: bool, problems: dict[int, str]) -> np.ndarray:
        if numeric and self._kind_of(column.type) == "number":
            return self._numbers(column, name, problems if needed else {}, "error")
        if needed:
            self._refuse_fractions(column, name)
        texts = [(text or "").strip(BLANKS) for text in self._as_text(column).to_pylist()]
        if numeric:
            return np.array([_number(text) for text in texts])
        for row, text in enumerate(texts):
            if not text and needed:
                problems.setdefault(row, f"column {name!r}: expected a value, got nothing")
        return np.array(texts, dtype=np.str_)


def _text(batch: Any, columns: tuple[str, ...], row: int, k: int) -> str:
    value = batch.column(columns[k])[row].as_py()
    return "" if value is None or value != value else str(value).strip(BLANKS)


def _number(text: str) -> float:
    """A finite number that is written as text, as in CSV; else NaN."""
    try:
        return finite_number(text.encode(), 0, "")
    except LineProblem:
        return np.nan
