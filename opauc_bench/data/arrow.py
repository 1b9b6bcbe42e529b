"""Parquet files, Arrow files (Feather) and Arrow streams as tables, read in batches by pyarrow."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..errors import DataError
from .base_table import Batch, Table
from .content import import_pyarrow
from .faults import RowProblem
from .schema import BLANKS, hash_spans, require_different

__all__ = ["ArrowTable"]

_ROWS = 4096
_ROW_NUMBERS = re.compile("__index_level_[0-9]+__")  # what pandas calls an index without a name


class ArrowTable(Table):
    """A file as a table.

    Columns of integers, floats, decimals and booleans (0 and 1) hold numbers. Those of text hold categories, as do
    dictionaries, which the categories of pandas become. Nulls and NaN are missing values. Columns of other types, such
    as times, can only be dropped.

    Parameters
    ----------
    stream : binary file
        Uncompressed. Parquet and Arrow files need one that can be searched; an Arrow stream does not.
    name : str
        Of the file, for messages.
    format : {"parquet", "arrow"}

    Raises
    ------
    DataError
        pyarrow is not installed, the file cannot be read, or two columns have the same name.
    """

    def __init__(self, stream: io.BufferedReader, name: str, format: str):
        pyarrow = import_pyarrow("Parquet" if format == "parquet" else "Arrow")
        self.name, self._pyarrow = name, pyarrow
        self._described = "a Parquet file" if format == "parquet" else "an Arrow file or stream"
        try:
            if format == "parquet":
                from pyarrow import parquet

                self._file = parquet.ParquetFile(stream, pre_buffer=False, buffer_size=1 << 20)
                self._schema = self._file.schema_arrow
            else:
                from pyarrow import ipc

                head = stream.peek(6)[:6]
                open_ = ipc.open_file if head == b"ARROW1" else ipc.open_stream
                self._file = open_(stream)
                self._schema = self._file.schema
        except (pyarrow.ArrowException, OSError) as error:
            raise self._damaged(error) from None
        stripped = [one.strip(BLANKS) for one in self._schema.names]
        super().__init__(["" if _ROW_NUMBERS.fullmatch(one) else one for one in stripped], name)
        require_different([one for one in self.header if one], name)
        self._fields = dict(zip(self.header, self._schema.names))  # names of columns as they are in the file

    def kinds(self) -> dict[str, str]:
        """Whether each column has numbers or categories; ``other`` if neither."""
        return {name: self._kind_of(kind) for name, kind in zip(self.header, self._schema.types)}

    def type_of(self, column: str) -> str:
        """The type of a column, for messages."""
        return str(self._schema.field(self._fields[column]).type)

    def _kind_of(self, kind: Any) -> str:
        types = self._pyarrow.types
        values = kind.value_type if types.is_dictionary(kind) else kind
        is_number = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean, types.is_null)
        if any(check(values) for check in is_number):
            return "category" if types.is_dictionary(kind) else "number"
        is_text = (types.is_string, types.is_large_string, types.is_string_view)
        return "category" if any(check(values) for check in is_text) else "other"

    def _batches(self, names: Sequence[str], numbers: Sequence[str]) -> Iterator[Batch]:
        n_before, fields = 0, {name: self._fields[name] for name in names}
        try:
            for batch in self._record_batches(list(fields.values())):
                for start in range(0, batch.num_rows, _ROWS):
                    piece = batch.slice(start, _ROWS)
                    places = 1 + n_before + start + np.arange(piece.num_rows)
                    yield Batch({name: piece.column(field) for name, field in fields.items()}, places, {})
                n_before += batch.num_rows
        except (self._pyarrow.ArrowException, OSError) as error:
            raise self._damaged(error) from None

    def _record_batches(self, names: Sequence[str]) -> Iterator[Any]:
        if hasattr(self._file, "iter_batches"):
            return self._file.iter_batches(batch_size=_ROWS, columns=names)
        if hasattr(self._file, "num_record_batches"):
            return (self._file.get_batch(k) for k in range(self._file.num_record_batches))
        return iter(self._file)

    def _damaged(self, error: Exception) -> DataError:
        text = " ".join(str(error).split())
        return DataError(f"{self.name}: expected {self._described}, it cannot be read ({text})")

    def _values(self, column: Any) -> list[Any]:
        return [None if value is None or value != value else value for value in column.to_pylist()]

    def _numbers(self, column: Any, name: str, problems: dict[int, RowProblem]) -> np.ndarray:
        column, types = self._decoded(column), self._pyarrow.types
        if types.is_boolean(column.type):
            column = column.cast("uint8")
        elif types.is_decimal(column.type):  # without text between them, they are not rounded as those of CSV files are
            column = column.cast("string")
        return np.array(column.cast("float64", safe=False).to_numpy(zero_copy_only=False), dtype=np.float64)

    def _texts(self, column: Any, name: str, problems: dict[int, RowProblem]) -> list[str | None]:
        return self._as_text(column).to_pylist()

    def _hashes(self, column: Any, name: str, bits: int, problems: dict[int, RowProblem]) -> np.ndarray:
        column = self._as_text(column)
        _, offsets, content = column.buffers()
        ends = np.frombuffer(offsets, dtype=np.int64)[column.offset : column.offset + len(column) + 1]
        text = np.frombuffer(content if content is not None else b"", dtype=np.uint8)
        hashes = hash_spans(text, ends[:-1], ends[1:], name, bits)
        if column.null_count:
            hashes[column.is_null().to_numpy(zero_copy_only=False)] = -1
        return hashes

    def _has_fractions(self, column: Any) -> bool:
        types, column = self._pyarrow.types, self._decoded(column)
        if not (types.is_floating(column.type) or (types.is_decimal(column.type) and column.type.scale > 0)):
            return False
        return not column.is_null(nan_is_null=True).to_numpy(zero_copy_only=False).all()

    def _decoded(self, column: Any) -> Any:
        return column.dictionary_decode() if self._pyarrow.types.is_dictionary(column.type) else column

    def _as_text(self, column: Any) -> Any:
        column = self._decoded(column)
        if self._pyarrow.types.is_boolean(column.type):
            from pyarrow import compute

            return compute.if_else(column, "True", "False").cast("large_string")  # as Python and pandas write them
        return column.cast("large_string")
