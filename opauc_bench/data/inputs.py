"""Several files of any format as one stream of rows, in constant memory: what ``train`` and ``score`` read."""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import re
import shlex
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import numpy as np

from ..errors import ConfigError, DataError
from .arrow import ArrowTable
from .base_table import Table, TableRows
from .content import compression_of, decompressed, pieces
from .faults import Fault, LineProblem
from .feature_offsets import FeatureOffsets
from .frames import FrameTable
from .remedies import MODEL_FRAME, TRAIN, Remedies
from .row_encoder import FarValues, RowEncoder, Statistics, offsets_of, scales_of
from .schema import ColumnOptions, Schema, absent_column, header_hint, listing
from .stream import SvmlightChunk, stream_svmlight
from .table import TextTable

__all__ = ["INPUT_FORMATS", "InputFormat", "RowChunk", "Source", "format_of", "matrix_of"]

InputFormat = Literal["svmlight", "csv", "parquet", "arrow"]
INPUT_FORMATS: tuple[InputFormat, ...] = ("svmlight", "csv", "parquet", "arrow")
_SVMLIGHT_ROW = re.compile(r"\S+(\s+\d+:\S+)+\s*(#.*)?$")
_ROWS_OF_OFFSETS, _CELLS_OF_OFFSETS = 1000, 1 << 22  # at most
_SUFFIXES: dict[str, InputFormat] = {
    **{".csv": "csv", ".tsv": "csv", ".tab": "csv"},
    **{".parquet": "parquet", ".pq": "parquet", ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow"},
}
_BAD_LINE = b"0 # a line that cannot be read"
_COMPRESSED = {".gz": "gunzip", ".bz2": "bunzip2", ".xz": "xz -d", ".zst": "zstd -d"}  # and what reverses it


class RowChunk(NamedTuple):
    """Consecutive rows."""

    X: Any  # csr_matrix of shape (rows, n_features), float64; at least one row
    labels: np.ndarray | None  # (rows,), float64 or text; None if the file has no labels
    place: Callable[[int], str]  # from the position of a row in the chunk to its place, such as ``clicks.csv:17``
    bad: np.ndarray | None = None  # (rows,), bool: which rows could not be read, where these are marked
    # Of tables: from the position of a row and the name of a column to the text that is there.
    text: Callable[[int, str], str] | None = None
    file: int = 0  # number of the file

    def texts(self, column: str) -> list[str]:
        """What all rows of a table have in a column."""
        return [self.text(row, column) for row in range(self.X.shape[0])] if self.text else []


class _Rows(NamedTuple):
    """Rows of a table, which of them are to be used, and, if they are only scored, which of them are bad."""

    table: Table
    rows: TableRows
    keep: np.ndarray  # positions
    bad: np.ndarray | None  # (len(keep),), bool
    file: int = 0  # number of the file


def format_of(file: str, head: bytes = b"") -> InputFormat:
    """The format of a file, by its first bytes and by its name; svmlight if neither says anything."""
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith((b"ARROW1", b"\xff\xff\xff\xff")):  # a file, or a stream
        return "arrow"
    name = Path(file).name.lower()
    for suffix in _COMPRESSED:
        name = name.removesuffix(suffix)
    return _SUFFIXES.get(Path(name).suffix, "svmlight")


class _Bytes(io.FileIO):
    """Bytes of a file as they lie on the disk, counted; ``-`` is standard input."""

    def __init__(self, file: str, count: Callable[[int], None], name: str):
        try:
            super().__init__(os.dup(0) if file == "-" else file)
        except OSError as error:
            raise DataError(
                f"{name}: cannot be read ({error.strerror})", "name a data file, or - for standard input"
            ) from None
        self.name = name
        status = os.fstat(self.fileno())
        self.size = status.st_size if stat.S_ISREG(status.st_mode) else None  # bytes in all, where that is known
        self._count = count

    def readinto(self, buffer) -> int:
        n = super().readinto(buffer)
        self._count(n or 0)
        return n


@dataclass
class Source:
    """Files, or DataFrames, as one stream of rows.

    Compression of text is recognised by the first bytes. Tables (CSV, TSV, Parquet, Arrow) have columns by name, and
    the first file gives the schema; in the others, the order of columns may differ, further columns are ignored.

    Attributes
    ----------
    schema : Schema or None
        Of tables; with ``missing: mean`` it has the means of the rows so far. None for svmlight files.
    n_skipped : int
        Rows that were left out so far.
    first_skipped : str
        What was wrong with the first of them.
    notes : list of str
        On columns that are ignored.
    size : int or None
        Bytes of all files, where that is known.
    position : int
        Bytes read so far.

    Raises
    ------
    DataError
        A file cannot be read; it has no label column.
    """

    files: str | Sequence[Any]  # paths, - for standard input, or DataFrames
    options: ColumnOptions = field(default_factory=ColumnOptions)  # of tables
    # By default as `format_of` says; a file with a label column is CSV if nothing else is known.
    format: InputFormat | None = None
    schema: Schema | None = None  # of a model: the files have to have its columns
    n_features: int | None = None  # of svmlight files: a larger index is an error; of tables that of the schema
    zero_based: bool = False  # whether the indices of svmlight files begin with 0
    learnt: bool = True  # whether the rows are learnt: then they need labels
    # Whether rows that cannot be read are counted, and left out; marked if the rows are not learnt.
    skip_bad_rows: bool = False
    # Whether columns of numbers are learnt less their medians in the first rows, by their scale there (`scales_of`),
    # and features of svmlight files where some lie far from 0 (`FeatureOffsets`).
    centred: bool = False
    feature_offsets: FeatureOffsets | None = None  # of svmlight files; by default those of the first rows
    fixed_means: bool | None = None  # whether means of columns stay those of the schema; by default unless learnt
    names: Sequence[str] | None = None  # of the files, for messages
    # Whether the labels of tables are numbers, as those of a model; by default as they are in the first file.
    numeric_labels: bool | None = None
    remedies: Remedies = TRAIN  # what the hints of errors say
    model: str | None = None  # file of a model of svmlight text, for messages: tables are then refused

    def __post_init__(self) -> None:
        self.files = [self.files] if isinstance(self.files, str) else list(self.files)
        if self.names is None:
            self.names = [_name_of(file) for file in self.files]
        self.name = self.names[0]
        if len(self.files) > 1:
            self.name = f"{len(self.files)} files from {self.name}"
        # Whether they can be read a second time.
        self.again = all(not isinstance(file, str) or (file != "-" and os.path.isfile(file)) for file in self.files)
        self.n_skipped, self.first_skipped = 0, ""
        self.notes: list[str] = []
        self.position = 0
        self._open = contextlib.ExitStack()
        self._encoder: RowEncoder | None = None
        self._continues = self.schema is not None  # what occurred in earlier rows is not known
        self._far: FarValues | None = None
        self._first: Any = None
        if sum(isinstance(file, str) and file == "-" for file in self.files) > 1:
            raise DataError("standard input is listed twice: it can be read only once")
        try:
            sizes = [self._check(file) for file in self.files]
            self.size = None if None in sizes else sum(size or 0 for size in sizes)
            self._first = self._opened(0)
            self.is_table = not isinstance(self._first, tuple)
            if self.is_table:
                self._begin(self._first)
            else:
                self._refuse_column_options()
                self.numeric_labels = True
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close all files."""
        self._open.close()

    def statistics_so_far(self) -> Statistics | None:
        """Statistics of the columns in the rows so far; None for svmlight text, which has no columns."""
        return None if self._encoder is None else self._encoder.statistics()

    def schema_at(self, statistics: Statistics | None) -> Schema | None:
        """The schema with these statistics, and the names of the categories so far."""
        return None if self._encoder is None or statistics is None else self._encoder.schema(statistics)

    def remarks(self) -> list[str]:
        """What the user should know after the pass."""
        unknown = [] if self._encoder is None else self._encoder.unknown_categories()
        lines = [f"note: {note}" for note in [*self.notes, *self._about_far_values(), *self._about_ids(), *unknown]]
        if self.n_skipped:
            rows = "1 bad row" if self.n_skipped == 1 else f"{self.n_skipped:,} bad rows"
            what = "left out" if self.learnt else "without a score (nan)"
            lines.append(f"note: {rows} {what}; the first: {self.first_skipped}")
        return lines

    @property
    def ids(self) -> list[str]:
        """Columns of categories that have another value in nearly every row."""
        if self._encoder is None or not self.learnt or self._continues:
            return []
        return self._encoder.ids()

    def _about_ids(self) -> list[str]:
        if not (columns := self.ids):
            return []
        what, have, them = ("columns", "have", "them") if len(columns) > 1 else ("column", "has", "it")
        return [
            f"{what} {listing(columns)} {have} another value in most rows, as an id or a date: such values are not "
            f"found in other rows; {self.remedies.drop_in_note(columns)} leaves {them} out"
        ]

    def _about_far_values(self) -> list[str]:
        if self._far is None or self.schema is None:
            return []
        names, growing = self.schema.numbers, self._far.growing()
        lines = [
            f"column {names[k]!r} leaves the range of the first rows in {share:.0%} of all rows: if it grows along the "
            f"file, as an id or a date does, later rows will be scored worse than these; "
            f"{self.remedies.drop_in_note([names[k]])} leaves it out"
            for k, share in growing.items()
        ]
        found = {k: what for k, what in self._far.found.items() if k not in growing}
        if not found:
            return lines
        columns = listing(names[column] for column in sorted(found))
        k, (value, place) = min(found.items())
        return [
            *lines,
            f"values far from the others in {columns}: {value:g}, where the median is {self._far.medians[k]:g} "
            f"(first {place}); if that stands for a missing value, leave the cell empty and "
            f"{self.remedies.fill_note}, else try its logarithm",
        ]

    def chunks(self) -> Iterator[RowChunk]:
        """Yield the rows of all files, in their order; once.

        Raises
        ------
        DataError
            With the place, unless bad rows are skipped.
        """
        if self.is_table:
            yield from self._encoded(self._rows_of_tables())
            return
        chunks = self._chunks_of_text()
        yield from self._centred_chunks(chunks) if self.centred else chunks

    def _chunks_of_text(self) -> Iterator[RowChunk]:
        for number, opened in enumerate(self._opened_in_turn()):
            if not isinstance(opened, tuple):
                raise DataError(f"{opened.name}: expected a svmlight file like the first one, got a table")
            stream, name = opened
            for chunk in stream_svmlight(
                stream, n_features=self.n_features, zero_based=self.zero_based, on_bad_line=self._skip_line
            ):
                bad = np.ones(1, dtype=bool) if chunk.text == _BAD_LINE else None
                place = partial(_place_in_text, name, chunk)
                yield RowChunk(chunk.X, chunk.labels, place, bad=bad, file=number)

    def _centred_chunks(self, chunks: Iterator[RowChunk]) -> Iterator[RowChunk]:
        """Rows less the offsets of features; the first ones wait until these are known."""
        waiting: list[RowChunk] = []
        while self.feature_offsets is None and (chunk := next(chunks, None)) is not None:
            waiting.append(chunk)
            if sum(held.X.shape[0] for held in waiting) >= _ROWS_OF_OFFSETS:
                break
        if waiting:
            # A fixed number of rows, so that the offsets do not depend on how the rows came.
            self.feature_offsets = FeatureOffsets.of_first_rows(
                _stacked([held.X for held in waiting])[:_ROWS_OF_OFFSETS]
            )
            if note := self.feature_offsets.note(self.zero_based):
                self.notes.append(note)
        for chunk in itertools.chain(waiting, chunks):
            assert self.feature_offsets is not None
            yield chunk._replace(X=self.feature_offsets.applied(chunk.X))

    def _opened_in_turn(self) -> Iterator[Any]:
        """Each file, as `_opened` returns it, which is closed when the next one is asked for."""
        for number in range(len(self.files)):
            opened = self._first if number == 0 else self._opened(number)
            self._first = None
            yield opened
            self._open.close()

    def _check(self, file: Any) -> int | None:
        """Return the size of a file, if it is known; DataError if it cannot be read."""
        if not isinstance(file, str):
            return None
        if file != "-" and os.path.exists(file) and not (os.path.isfile(file) or os.path.isdir(file)):
            return None  # a pipe would be lost to its writer if it were opened twice
        with contextlib.closing(_Bytes(file, self._count, _name_of(file))) as raw:
            return raw.size

    def _count(self, n: int) -> None:
        self.position += n

    def _opened(self, number: int) -> Any:
        """A table, or a stream of svmlight text with its name."""
        file, name = self.files[number], cast(Sequence[str], self.names)[number]
        if not isinstance(file, str):
            return FrameTable(file, name)
        raw = self._open.enter_context(contextlib.closing(_Bytes(file, self._count, name)))
        buffered: io.BufferedReader = io.BufferedReader(raw, 1 << 16)
        try:
            head = buffered.peek(16)[:16]
        except OSError as error:
            raise DataError(f"{name}: cannot be read ({error.strerror or error})") from None
        given = "FILE" if file == "-" else shlex.quote(file)
        if head.startswith(b"PK\x03\x04"):
            raise DataError(
                f"{name}: expected text, Parquet or Arrow, got an archive (.zip, .npz or a workbook of Excel)",
                f"unzip -p {given} > NEW.csv, or save the table as CSV",
            )
        format = self.format or format_of(file, head)
        if format == "svmlight" and self.format is None and self.model is None:
            format = "csv" if self.options.label is not None or self.schema is not None else format
        if format in ("parquet", "arrow"):
            if compression := compression_of(head):
                raise DataError(
                    f"{name}: expected {format.capitalize()}, got a compressed file ({compression[1:]}): only text is "
                    "read compressed",
                    f"{_COMPRESSED[compression]} < {given} > NEW.{format}",
                )
            if (format == "parquet" or head.startswith(b"ARROW1")) and not raw.seekable():
                raise DataError(f"{name}: a {format.capitalize()} file cannot be read from a pipe", "name the file")
            return ArrowTable(buffered, name, format)
        return TextTable(pieces(decompressed(buffered), name), name) if format == "csv" else (buffered, name)

    def _refuse_column_options(self) -> None:
        if self.schema is not None:
            raise DataError(
                f"{self.name}: expected a table with the columns of the model, got svmlight text", "--format csv"
            )
        is_text, hint = "this is svmlight text", "--format csv"
        if self.model is not None:
            is_text, hint = f"{self.model} was trained on svmlight text", "leave {} out"
        for option in ("drop", "categorical", "label", "missing", "bits"):
            if getattr(self.options, option):
                raise ConfigError(f"{self.name}: --{option} is for tables, and {is_text}", hint.format(f"--{option}"))

    def _begin(self, table: Table) -> None:
        """Take the schema from the first table, or check it against the one that is given."""
        if self.model is not None:
            raise DataError(
                f"{table.name}: expected svmlight text, on which {self.model} was trained, got a table: the features "
                "of the model have numbers, those of the table have names"
            )
        self._lacks_offsets = self.centred and self.schema is None
        if self.schema is None:
            if self.options.label is None and _is_svmlight(table):
                raise DataError(f"{table.name}: expected a table, got svmlight text", "--format svmlight")
            if self.options.label is None:
                raise DataError(
                    f"{table.name}: expected the name of the column of labels; the columns are {listing(table.header)}",
                    header_hint(table.header, "--label NAME"),
                )
            if _is_svmlight(table):
                raise DataError(
                    f"{table.name}: expected a table with the column {self.options.label!r}, got svmlight text",
                    self.remedies.read_svmlight,
                )
            self.schema = Schema.of_columns(table.kinds(), self.options, table.name, self.remedies.other_name)
            with_comma = table.with_comma if isinstance(table, TextTable) else {}
            markers = table.markers if isinstance(table, TextTable) else {}
            self.notes += [
                f"column {name!r} of {table.name} has categories, as it begins with {value!r}, but most of its values "
                f"are numbers: if that stands for a missing value, leave the cell empty and {self.remedies.fill_note}"
                for name, value in markers.items()
                if name in self.schema.categories and name not in self.options.categorical
            ]
            self.notes += [
                f"column {name!r} of {table.name} has categories: numbers have a decimal point and no commas, "
                f"got {value!r}"
                for name, value in with_comma.items()
                if name in self.schema.categories and name not in self.options.categorical
            ]
        self._require_columns(table, self.schema)
        label = self.schema.label
        if label in table.header and (self.learnt or self.numeric_labels is None):
            kind = table.kinds()[label]
            if kind == "other" and self.learnt:
                raise DataError(f"{table.name}: column {label!r}: expected labels that are numbers or text")
            if self.numeric_labels is None:
                self.numeric_labels = kind == "number" and label not in self.options.categorical
        if unnamed := [str(place) for place, name in enumerate(table.header, 1) if not name]:
            columns, verb = (
                ("columns", "have no name and are") if len(unnamed) > 1 else ("column", "has no name and is")
            )
            self.notes.append(f"{columns} {', '.join(unnamed)} of {table.name} {verb} left out")
        self.n_features = self.schema.n_features
        self._encoder = self._new_encoder(self.schema)

    def _new_encoder(self, schema: Schema) -> RowEncoder:
        frozen = not self.learnt if self.fixed_means is None else self.fixed_means
        return RowEncoder(schema, frozen, self.centred)

    def _require_columns(self, table: Table, schema: Schema) -> None:
        """Raise DataError if a table lacks a column or has other types."""
        known = set(table.header)
        labels = [schema.label] if self.learnt and schema.label is not None else []
        for column in [*schema.columns, *self.options.aside, *labels]:
            if column in known:
                continue
            if _is_svmlight(table):
                raise DataError(
                    f"{table.name}: expected a table with the columns {listing(schema.columns)}, got svmlight text"
                )
            hint = header_hint(table.header, self.remedies.absent_column) if column in schema.columns else ""
            raise DataError(absent_column(table.name, column, table.header), hint)
        if table.has_types:
            _check_types(table, schema, self.remedies)

    def _rows_of_tables(self) -> Iterator[_Rows]:
        for number, table in enumerate(self._opened_in_turn()):
            if isinstance(table, tuple):
                raise DataError(f"{table[1]}: expected a table with columns like the first file, got svmlight")
            for rows in self._rows_of(table):
                yield rows._replace(file=number)

    def _rows_of(self, table: Table) -> Iterator[_Rows]:
        schema = self.schema
        assert schema is not None
        self._require_columns(table, schema)
        known = {*schema.columns, *schema.dropped, schema.label, ""}
        if further := [name for name in table.header if name not in known]:
            self.notes.append(f"columns of {table.name} that are not features are ignored: {listing(further)}")
        numeric_labels = self.numeric_labels is not False
        label = schema.label or ""
        has_labels = schema.label is not None and label in table.header
        if has_labels and table.has_types:
            kind = table.kinds()[label]
            has_labels = kind == "number" or (kind == "category" and not (numeric_labels and self.learnt))
            if not has_labels and not self.learnt:
                self.notes.append(
                    f"column {label!r} of {table.name} has no labels: they are numbers or text, and it has the type "
                    f"{table.type_of(label)}"
                )
            if self.learnt and not has_labels:
                expected = "numbers" if numeric_labels else "text"
                raise DataError(
                    f"{table.name}: column {label!r}: expected labels that are {expected}, as those before, "
                    f"got the type {table.type_of(label)}"
                )
        shown_schema = schema if has_labels else replace(schema, label=None)
        for rows in table.rows(shown_schema, numeric_labels, self.options.aside, self.learnt):
            if len((usable := self._usable(table, rows)).keep):
                yield usable

    def _usable(self, table: Table, rows: TableRows) -> _Rows:
        """Leave out, or mark, the rows that cannot be used."""
        kept = np.ones(len(rows.places), dtype=bool)
        for row in sorted(rows.problems):
            kept[row] = False
            problem, never_filled = rows.problems[row], [self.schema and self.schema.label, *self.options.aside]
            fault = Fault.OTHER if problem.column in never_filled and problem.fault is Fault.MISSING else problem.fault
            self._skip(f"{table.place.format(table.name, rows.places[row])}: {problem}", self.remedies.of_row(fault))
        if self.learnt:
            return _Rows(table, rows, np.flatnonzero(kept), None)
        rows.numbers[~kept], rows.categories[~kept] = np.nan, -1
        return _Rows(table, rows, np.arange(len(kept)), ~kept)

    def _encoded(self, of_tables: Iterator[_Rows]) -> Iterator[RowChunk]:
        """Rows as features; the first ones wait until the offsets of the columns are known."""
        assert self.schema is not None
        waiting: list[_Rows] = []
        n_wanted = min(_ROWS_OF_OFFSETS, 1 + _CELLS_OF_OFFSETS // len(self.schema.columns))
        for rows in of_tables:
            if self._lacks_offsets:
                waiting.append(rows)
                if sum(len(held.keep) for held in waiting) < n_wanted:
                    continue
                self._set_offsets(waiting, n_wanted)
            for held in waiting or [rows]:
                yield self._chunk_of(held)
            waiting = []
        if waiting:
            self._set_offsets(waiting, n_wanted)
            yield from map(self._chunk_of, waiting)

    def _set_offsets(self, first: list[_Rows], n_rows: int) -> None:
        """Take the offsets from a fixed number of rows, so that they do not depend on how the rows came."""
        assert self.schema is not None
        numbers = np.concatenate([held.rows.numbers[held.keep] for held in first])[:n_rows]
        offsets = offsets_of(numbers)
        self.schema = replace(self.schema, offsets=offsets, scales=scales_of(numbers, offsets))
        self._far = FarValues(numbers)
        self._encoder, self._lacks_offsets = self._new_encoder(self.schema), False

    def _chunk_of(self, held: _Rows) -> RowChunk:
        assert self._encoder is not None
        table, rows, keep, bad, file = held
        numbers, categories, places = rows.numbers[keep], rows.categories[keep], rows.places[keep]
        labels = None if rows.labels is None else rows.labels[keep]

        def text(row: int, column: str) -> str:
            return rows.text(int(keep[row]), column)

        def place(row: int) -> str:
            return table.place.format(table.name, int(places[row]))

        if self.learnt:
            self._encoder.learn_names(categories, text)
        else:
            self._encoder.count_unknown(categories, text)
        if self._far is not None:
            self._far.add(numbers, place)
        return RowChunk(self._encoder.features(numbers, categories), labels, place, bad, text, file)

    def _skip_line(self, message: str, problem: LineProblem) -> bytes | None:
        """As `_skip`; return the line in its place, if it is to be marked."""
        hint = self.remedies.of_row(problem.fault, problem.number == 1, n_features_given=self.n_features is not None)
        self._skip(message, hint)
        return None if self.learnt else _BAD_LINE

    def _skip(self, message: str, hint: str) -> None:
        """Count a row that cannot be used, or raise the error."""
        if not self.skip_bad_rows:
            raise DataError(message, hint)
        self.n_skipped += 1
        self.first_skipped = self.first_skipped or message


def _stacked(blocks: Sequence[Any]) -> Any:
    """CSR blocks of different widths as one."""
    from scipy.sparse import csr_matrix, vstack

    width = max(X.shape[1] for X in blocks)
    wide = (csr_matrix((X.data, X.indices, X.indptr), shape=(X.shape[0], width)) for X in blocks)
    return vstack([*wide], format="csr")


def _is_svmlight(table: Table) -> bool:
    """Whether what was read as a header is a row of svmlight text."""
    return len(table.header) == 1 and _SVMLIGHT_ROW.match(table.header[0]) is not None


def _check_types(table: Table, schema: Schema, remedies: Remedies) -> None:
    """Raise DataError if a typed column does not have what the schema says."""
    kinds = table.kinds()
    not_numbers = [column for column in schema.numbers if kinds[column] != "number"]
    wrong = [*not_numbers, *(column for column in schema.categories if kinds[column] == "other")]
    if wrong:
        expected = "numbers" if not_numbers else "numbers or text" if remedies.drop else "text"
        raise DataError(
            f"{table.name}: column {wrong[0]!r}: expected {expected}, got the type {table.type_of(wrong[0])}",
            remedies.of_columns(wrong),
        )


def _name_of(file: Any) -> str:
    if not isinstance(file, str):
        return "the DataFrame"
    return "standard input" if file == "-" else file


def _place_in_text(name: str, chunk: SvmlightChunk, row: int) -> str:
    return f"{name}:{chunk.line_of(row)}"


def matrix_of(frame: Any, schema: Schema) -> Any:
    """The rows of a DataFrame as the features of a model, by the names of its columns.

    Parameters
    ----------
    frame : pandas.DataFrame
        Has at least the columns of features.
    schema : Schema
        Of the model.

    Returns
    -------
    csr_matrix of shape (n_rows, schema.n_features), float64

    Raises
    ------
    DataError
        A column is absent or of another type, or a value is missing or infinite.
    """
    from scipy.sparse import csr_matrix, vstack

    source = Source([frame], schema=schema, learnt=False, remedies=MODEL_FRAME)
    blocks = [chunk.X for chunk in source.chunks()]
    return vstack(blocks, format="csr") if blocks else csr_matrix((0, schema.n_features))
