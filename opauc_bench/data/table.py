"""Delimited text (CSV, TSV) with a header, as RFC 4180 describes it: a compiled reader that keeps the place of a cell.

Cells may be in quotes, and then have separators, line ends and doubled quotes inside. Blanks around a cell are not part
of it, inside quotes as well, since typed formats have no quotes. Blank lines are skipped. Numbers are plain decimals,
rounded correctly, so that a table and the same numbers as svmlight text give the same bits.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ..errors import DataError
from ..kernels import njit
from .base_table import Batch, Table, no_value
from .content import is_number, shown, utf8
from .decimals import HARD, READ, decimal
from .faults import Fault, LineProblem, RowProblem
from .schema import MISSING_WORDS, hash_spans, require_different

__all__ = ["TextTable"]

_SEPARATORS = b",\t;|"
_MOST_ROWS = 4096  # of a piece
_MOST_CELLS = 1 << 20
_LOOKED_AT = 1 << 16  # bytes
_LONGEST_ROW = 1 << 24  # bytes; longer ones are due to a quote that is never closed
_WITH_COMMA = re.compile(rb"[+-]?[0-9][0-9.]*(,[0-9]+)+(\.[0-9]+)?")  # a decimal comma, or separators of thousands
_QUOTED = re.compile(rb'(?:^|(?<=[,\t;|\n]))[ \r]*+"[^"]*+(?:""[^"]*+)*+(?:"|$)')  # quotes inside a cell are part of it
_TRUTH_VALUES = {b"false": 0.0, b"true": 1.0}  # in columns of numbers, in any case; as in typed formats


class TextTable(Table):
    """A table in delimited text.

    The separator is the one of comma, tab, semicolon and vertical bar that the header has most often. A column holds
    numbers if the first value in it that is not missing is one.

    Parameters
    ----------
    source : iterator of bytes
        The content, in pieces.
    name : str
        Of the file, for messages.

    Attributes
    ----------
    header : list of str
    with_comma : dict of str to str
        Columns that hold no numbers because of the comma in their first value, and that value; known after `kinds`.
    markers : dict of str to str
        Columns that hold no numbers because of their first value, though most others are numbers; likewise.

    Raises
    ------
    DataError
        There is no header.
    """

    place = "{}:{}"
    has_types = False

    def __init__(self, source: Iterator[bytes], name: str):
        self._source, self.name = _without_mark(source), name
        self._text, self._line, self._ended = b"", 1, False
        self.with_comma: dict[str, str] = {}
        self.markers: dict[str, str] = {}
        self._fill()
        while not self._ended and b"\n" not in self._text.lstrip() and len(self._text) <= _LONGEST_ROW:
            self._fill()
        line, line_end, _ = self._text.lstrip().partition(b"\n")
        if b"\r" in _outside_quotes(line.rstrip(b"\r")):
            raise DataError(
                f"{name}:1: expected lines that end with LF or CR LF, got lines that end with CR",
                "tr '\\r' '\\n' < FILE > NEW",
            )
        if json := _JSON.match(self._text):
            lines = ", lines=True" if json[1].startswith(b"{") else ""
            raise DataError(
                f"{name}: expected a table (csv, parquet or arrow), got JSON",
                f"python -c \"import pandas; pandas.read_json({name!r}{lines}).to_parquet('rows.parquet')\"",
            )
        if not (line_end or self._ended):
            raise DataError(f"{name}: expected a header line within {_LONGEST_ROW:,} bytes, got no line end")
        if not line.strip():
            raise DataError(f"{name}: expected a header line with the names of columns, got an empty file")
        self._separator = _separator_of(self._text.lstrip())
        self.header = self._read_header()

    def _read_header(self) -> list[str]:
        n_columns = 1
        while True:
            scan = _Scan(self._text, self._ended, self._separator, np.zeros(n_columns, dtype=np.int8), 1)
            if scan.n_rows and scan.problems[0] > 0:
                n_columns = int(scan.problems[0])
            elif not scan.n_rows and not self._ended and len(self._text) <= _LONGEST_ROW:
                self._fill()
            else:
                break
        if scan.n_rows and scan.problems[0] == _AFTER_QUOTE:
            raise DataError(
                f"{self.name}:1: expected a separator after a closing quote in the header line, got other text"
            )
        if not scan.n_rows or scan.problems[0]:
            raise DataError(f"{self.name}:1: expected a header line, got a quote that is never closed")
        texts = [scan.token(0, column) for column in range(n_columns)]
        try:
            names = [text.decode() for text in texts]
        except UnicodeDecodeError:
            raise DataError(f"{self.name}:1: expected names of columns in UTF-8", "iconv -f latin1 -t utf8") from None
        if all(is_number(text) for text in texts):
            raise DataError(
                f"{self.name}:1: expected a header line with the names of columns, got numbers",
                "put a line with names in front: sed '1i label,a,b,c' FILE",
            )
        require_different([name for name in names if name], f"{self.name}:1")
        self._advance(scan.end)
        return names

    def kinds(self) -> dict[str, str]:
        """Whether each column has numbers or categories, by its first value that is not missing.

        Looks at the first 64 KiB of rows, or at one row if that is longer; a column without a value there has numbers.
        """
        size, found = _LOOKED_AT, self._kinds_within(_LOOKED_AT)
        while len(found) < len(self.header):  # otherwise a slow pipe need not bring more
            while len(self._text) < size and not self._ended:
                self._fill()
            found = self._kinds_within(size)
            if found or size > min(len(self._text), _LONGEST_ROW):
                break
            size *= 2
        return {name: found.get(column, "number") for column, name in enumerate(self.header)}

    def _kinds_within(self, size: int) -> dict[int, str]:
        text, ended = self._text[:size], self._ended and len(self._text) <= size
        found: dict[int, str] = {}
        start, n_columns = 0, len(self.header)
        while len(found) < n_columns:
            scan = _Scan(text, ended, self._separator, np.ones(n_columns, np.int8), _rows_for(n_columns), start)
            usable = (scan.problems == 0)[:, None] & (scan.flags & _MISSING == 0)
            for column in np.flatnonzero(usable.any(axis=0)).tolist():
                if column not in found:
                    token = scan.token(int(np.argmax(usable[:, column])), column)
                    found[column] = "number" if is_number(token) else "category"
                    if _WITH_COMMA.fullmatch(token):
                        self.with_comma[self.header[column]] = token.decode()
                    elif found[column] == "category" and _mostly_numbers(scan, usable[:, column], column):
                        self.markers[self.header[column]] = token.decode("utf-8", "replace")
            if not scan.n_rows:
                break
            start = scan.end
        return found

    def _batches(self, names: Sequence[str], numbers: Sequence[str]) -> Iterator[Batch]:
        known = {name: column for column, name in enumerate(self.header)}
        columns = {name: known[name] for name in names}
        numeric = np.zeros(len(self.header), dtype=np.int8)
        numeric[[columns[name] for name in numbers]] = 1
        texts = {name: column for name, column in columns.items() if not numeric[column]}
        for scan in self._scans(numeric):
            unusable = np.flatnonzero(scan.problems).tolist()
            problems = {row: RowProblem(self._row_problem(int(scan.problems[row]))) for row in unusable}
            self._find_other_encodings(scan, texts, problems)
            yield Batch({name: (scan, column) for name, column in columns.items()}, scan.lines(self._line), problems)

    def _scans(self, numeric: np.ndarray) -> Iterator[_Scan]:
        """The rows that follow the header, in pieces; `_line` is the line of the first one."""
        start, most = 0, _rows_for(len(self.header))
        while True:
            scan = _Scan(self._text, self._ended, self._separator, numeric, most, start)
            if scan.n_rows:
                yield scan
                self._line += self._text.count(b"\n", start, scan.end)
                start = scan.end
                continue
            self._text, start = self._text[start:], 0
            if self._ended:
                return
            if len(self._text) <= _LONGEST_ROW:
                self._fill()
                continue
            scan = _Scan(self._text, True, self._separator, numeric, 1)
            if scan.n_rows and scan.problems[0] not in (_OPEN_QUOTE, _AFTER_QUOTE):
                raise DataError(
                    f"{self.name}:{self._line}: expected the end of a row within {_LONGEST_ROW:,} bytes, got none"
                )
            if scan.n_rows:  # else there are blank lines only
                yield scan
            self._advance(scan.end)

    def _row_problem(self, code: int) -> str:
        if code == _OPEN_QUOTE:
            return "a quote is never closed"
        if code == _AFTER_QUOTE:
            return "expected a separator after a closing quote, got other text"
        return f"expected {len(self.header)} columns, got {code}"

    def _find_other_encodings(self, scan: _Scan, texts: dict[str, int], problems: dict[int, RowProblem]) -> None:
        """Find cells of these columns that are not in UTF-8: different ones would become the same text."""
        if not texts:
            return
        try:
            str(memoryview(scan.text)[scan.start : scan.end], "utf-8")  # all at once: rows of another encoding are rare
        except UnicodeDecodeError:
            places = scan.start + np.flatnonzero(scan.codes[scan.start : scan.end] >= 128)
            for row in np.unique(np.searchsorted(scan.begins, places, side="right") - 1).tolist():
                for name, column in texts.items():
                    try:
                        utf8(scan.token(row, column), row)
                    except LineProblem as error:
                        problems.setdefault(row, RowProblem(error.problem, column=name))

    def _finite_numbers(
        self, batch: Batch, names: Sequence[str], complete: bool, problems: dict[int, RowProblem]
    ) -> np.ndarray:
        """All columns at once."""
        scan, _ = next(iter(batch.columns.values()))
        columns = [batch.columns[name][1] for name in names]
        values, flags = scan.values[:, columns], scan.flags[:, columns]
        known = _PLAIN if complete else _PLAIN | _MISSING
        for row, k in np.argwhere((flags & known == 0) & (scan.problems == 0)[:, None]).tolist():
            token, flag = scan.token(row, columns[k]), flags[row, k]
            if flag & _MISSING:
                problems.setdefault(row, no_value(names[k]))
            elif flag & _LONG and np.isfinite(value := float(token)):
                values[row, k] = value
            elif token.lower() in _TRUTH_VALUES:
                values[row, k] = _TRUTH_VALUES[token.lower()]
            else:
                expected, fault = "a number", Fault.NOT_A_NUMBER
                if is_number(token):
                    expected, fault = "a finite number", Fault.OTHER
                elif _WITH_COMMA.fullmatch(token):
                    expected, fault = "a number with a decimal point", Fault.OTHER
                problem = RowProblem(f"expected {expected}, got {shown(token)}", fault, names[k])
                problems.setdefault(row, problem)
        return values

    def _texts(self, column: _Column, name: str, problems: dict[int, RowProblem]) -> list[str]:
        scan, position = column
        return [scan.text_of(row, position) for row in range(scan.n_rows)]

    def _hashes(self, column: _Column, name: str, bits: int, problems: dict[int, RowProblem]) -> np.ndarray:
        scan, position = column
        whole = scan.problems == 0
        starts, ends = (np.where(whole, places[:, position], 0) for places in (scan.starts, scan.ends))
        return hash_spans(scan.codes, starts, ends, name, bits, scan.flags[:, position] & _ESCAPED != 0)

    def _has_fractions(self, column: _Column) -> bool:
        return False

    def _text_of(self, columns: dict[str, _Column]) -> Callable[[int, str], str]:
        return lambda row, name: columns[name][0].text_of(row, columns[name][1])

    def _fill(self) -> None:
        piece = next(self._source, b"")
        if b"\0" in piece:
            raise DataError(f"{self.name}: expected text, got a NUL byte: a binary file, or text in UTF-16")
        self._ended = not piece
        self._text += piece

    def _advance(self, end: int) -> None:
        self._line += self._text.count(b"\n", 0, end)
        self._text = self._text[end:]


def _without_mark(source: Iterator[bytes]) -> Iterator[bytes]:
    """The content without the byte order mark of UTF-8."""
    head = b""
    for piece in source:
        head += piece
        if not codecs.BOM_UTF8.startswith(head):
            break
    yield head.removeprefix(codecs.BOM_UTF8)
    yield from source


def _outside_quotes(line: bytes) -> bytes:
    return _QUOTED.sub(b"", line)


def _separator_of(text: bytes) -> bytes:
    header = _outside_quotes(text).partition(b"\n")[0]  # a name may have a line end in its quotes
    return max((bytes([code]) for code in _SEPARATORS), key=header.count)


def _rows_for(n_columns: int) -> int:
    return max(16, min(_MOST_ROWS, _MOST_CELLS // n_columns))


def _mostly_numbers(scan: _Scan, usable: np.ndarray, column: int) -> bool:
    """Whether most of the values of a column after the first one are numbers, of the first hundred."""
    values = [scan.token(row, column) for row in np.flatnonzero(usable)[1:101].tolist()]
    return 2 * sum(map(is_number, values)) > len(values)


class _Scan:
    """The cells of some rows of a text that are complete, from ``start`` on.

    ``numeric`` is 1 for columns of numbers, 0 for others.
    """

    flags: np.ndarray

    def __init__(self, text: bytes, ended: bool, separator: bytes, numeric: np.ndarray, most: int, start: int = 0):
        shape = (min(most, 1 + text.count(b"\n", start)), len(numeric))
        cells = np.empty(shape, np.int64), np.empty(shape, np.int64), np.zeros(shape, np.int8), np.empty(shape)
        rows = np.zeros(shape[0], np.int64), np.zeros(shape[0], np.int64)
        self.text, self.start, self.codes = text, start, np.frombuffer(text, dtype=np.uint8)
        self.n_rows, self.end = _scan(self.codes, start, ended, separator[0], numeric, cells, rows)
        self.starts, self.ends, self.flags, self.values = (array[: self.n_rows] for array in cells)
        self.begins, self.problems = (array[: self.n_rows] for array in rows)

    def token(self, row: int, column: int) -> bytes:
        """The content of a cell, without quotes; nothing if the row cannot be used."""
        if self.problems[row]:
            return b""
        token = self.text[self.starts[row, column] : self.ends[row, column]]
        return token.replace(b'""', b'"') if self.flags[row, column] & _ESCAPED else token

    def text_of(self, row: int, column: int) -> str:
        """The content of a cell as text."""
        return self.token(row, column).decode("utf-8", "replace")

    def lines(self, first: int) -> np.ndarray:
        """The line of each row, of which the text from ``start`` on begins with line ``first``."""
        line_ends = np.flatnonzero(self.codes[self.start : self.end] == 10) + self.start
        return first + np.searchsorted(line_ends, self.begins)


_Column = tuple[_Scan, int]  # and the position in it

# ------------------------------------------------------------------------------------ compiled

_JSON = re.compile(rb'\s*(\{\s*"|\[\s*[\[{])')
_ESCAPED, _PLAIN, _LONG, _MISSING = 1, 2, 4, 8  # flags of a cell
_OPEN_QUOTE, _AFTER_QUOTE = -1, -2  # problems of a row; otherwise its number of columns, if that is wrong
_WORDS = np.array([int.from_bytes(word.encode()) for word in MISSING_WORDS])  # of up to 7 letters


@njit()
def _scan(text, at, ended, separator, numeric, cells, rows):
    """Find the cells of complete rows; return the number of rows and the position after the last one."""
    starts, ends, flags, values = cells
    begins, problems = rows
    size, n_columns = len(text), len(numeric)
    most = len(begins)
    row = 0
    while row < most:
        # Blank lines are not rows.
        begin = at
        while at < size and (text[at] == 10 or text[at] == 13 or text[at] == 32 or (text[at] == 9 and separator != 9)):
            at += 1
            if text[at - 1] == 10:
                begin = at
        if at == size:
            return row, (size if ended else begin)
        at = begin
        column, problem, complete = 0, 0, False
        while not complete:
            while at < size and text[at] != separator and (text[at] == 32 or text[at] == 9 or text[at] == 13):
                at += 1
            start, flag = at, 0
            if at < size and text[at] == 34:
                start = at = at + 1
                closed = False
                while at < size and not closed:
                    if text[at] == 34:
                        if at + 1 < size and text[at + 1] == 34:
                            flag |= _ESCAPED
                            at += 1
                        else:
                            closed = True
                    at += 1
                end = at - 1 if closed else at
                if not closed or (at == size and not ended):
                    if not ended:
                        return row, begin
                    problem = problem if closed else _OPEN_QUOTE
                while start < end and (text[start] == 32 or text[start] == 9 or text[start] == 13):
                    start += 1
                while at < size and text[at] != separator and text[at] != 10:
                    if text[at] != 32 and text[at] != 9 and text[at] != 13:
                        problem = _AFTER_QUOTE
                    at += 1
            else:
                while at < size and text[at] != separator and text[at] != 10:
                    at += 1
                end = at
            while end > start and (text[end - 1] == 32 or text[end - 1] == 9 or text[end - 1] == 13):
                end -= 1
            if at == size and not ended:
                return row, begin
            if column < n_columns:
                starts[row, column], ends[row, column] = start, end
                if numeric[column] == 1:
                    values[row, column] = np.nan
                    value, after, kind = decimal(text[:end], start)
                    if kind == READ and after == end:
                        values[row, column] = value
                        flag |= _PLAIN
                    elif kind == HARD and after == end:
                        flag |= _LONG
                    elif _is_missing(text, start, end):
                        flag |= _MISSING
                flags[row, column] = flag
            column += 1
            complete = at == size or text[at] == 10
            at += 1
        at = min(at, size)
        if problem != 0:  # a quote that should not be there may end many lines below: only its own line is lost
            at = begin
            while at < size and text[at] != 10:
                at += 1
            at = min(at + 1, size)
        begins[row] = begin
        problems[row] = problem if problem or column == n_columns else column
        row += 1
    return row, at


@njit()
def _is_missing(text, start, end):
    """Whether a cell is one of the words for a missing value, in any case."""
    if end - start > 7:
        return False
    found = 0
    for at in range(start, end):
        code = np.int64(text[at])
        found = found * 256 + (code + 32 if 65 <= code <= 90 else code)  # type: ignore[assignment]
    known = False
    for word in _WORDS:
        known = known or found == word
    return known
