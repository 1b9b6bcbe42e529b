"""Readers: from the bytes of a file to blocks of features and labels.

Each reader takes checked files and yields blocks in the order of the rows, so that only one block of text
is in memory at a time. They refuse what they do not understand, with file and line; nothing is guessed, and
nothing skipped but blank lines.
"""

import math
import struct
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..errors import DataError
from .cache import RawFile
from .catalogue import Form
from .content import chunks, text_blocks
from .lines import Block, LineProblem, finite_number, shown
from .svmlight import parse_svmlight
from .token_counts import TokenCounts

__all__ = ["Block", "read_blocks"]

BLOCK = 8 << 20  # bytes of text parsed at once
_LONGEST_CELL = 256  # bytes
_TABLES = ("csv", "table", "csv_tokens")
# Where features that never occur are left out, nobody knows the largest index before. Memory is taken up to there.
_LARGEST_WITH_GAPS = (1 << 26) - 1


def read_blocks(files: list[RawFile], form: Form, n_features: int) -> Iterator[Block]:
    """Read the files of one form, one after the other.

    Parameters
    ----------
    files : list of RawFile
        Checked files, in the order of the form.
    form : Form
        Says which format, which column is the label, what to drop.
    n_features : int
        Declared width of the finished data.

    Yields
    ------
    Block
        Never empty. Features are finite.

    Raises
    ------
    DataError
        With file, line, what was expected and what came.
    """
    if form.format == "mnist_idx":
        yield from _read_idx(*files, form, n_features)
        return
    parse = TokenCounts().parse if form.format == "token_counts" else _PARSERS[form.format]
    for file in files:
        for first_line, text in text_blocks(chunks(file.path, file.limit), BLOCK, str(file.place)):
            try:
                block = parse(text, first_line, form, n_features)
            except LineProblem as line:
                cause = _cause(text.partition(b"\n")[0], form) if line.number == first_line == 1 else ""
                raise line.kind(f"{file.place}:{line.number}: {line.problem}{cause}") from None
            if len(block.labels):
                yield block


def _cause(line: bytes, form: Form) -> str:
    """Say what is most likely the matter with a file whose first line cannot be read."""
    if form.format not in _TABLES:
        return ""
    if b'"' in line:
        return "; quotes are not understood: leave them out (tr -d '\"')"
    if b";" in line:
        return "; numbers between semicolons are not understood"
    if form.format == "table" and b"," in line:
        return "; for numbers between commas there is 'format: csv'"
    if form.format != "table" and b"," not in line and len(line.split()) > 1:
        return "; for numbers between blanks or tabs there is 'format: table'"
    if form.format != "csv_tokens" and not any(map(_is_number, line.replace(b",", b" ").split())):
        return "; if this is a header line, leave it out (tail -n +2)"
    if form.format == "csv" and line.rstrip().endswith(b","):
        return "; leave out the comma at the end of lines (sed 's/,\\r\\?$//')"
    return ""


def _is_number(cell: bytes) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _parse_svmlight(text: bytes, first_line: int, form: Form, n_features: int) -> Block:
    return Block(*_parse_features(text, first_line, form, n_features))


def _parse_features(text: bytes, first_line: int, form: Form, n_features: int) -> tuple[Any, np.ndarray]:
    width = None if form.drop_empty else n_features
    return parse_svmlight(
        text, first_line, width, first_index=form.first_index, largest=_LARGEST_WITH_GAPS - form.first_index
    )


def _parse_multilabel(text: bytes, first_line: int, form: Form, n_features: int) -> Block:
    """Whole numbers between commas, then features; a row may have no labels, or no features."""
    labels, lines = [], []
    for number, line in enumerate(text.split(b"\n"), first_line):
        head, colon, rest = line.partition(b"#")[0].partition(b":")
        words = head.split()
        if not words and not colon:
            lines.append(b"")
            continue
        index = words.pop() if words and colon and not head[-1:].isspace() else b""
        before = b" ".join(words)
        found = [label.strip() for label in before.split(b",")] if before else []
        if not all(label.isdigit() for label in found):
            raise LineProblem(number, f"expected labels such as 3,17 first, got {shown(before)}")
        labels.append(",".join(label.lstrip(b"0").decode() or "0" for label in found))
        lines.append(b"0 " + index + colon + rest)
    X, _ = _parse_features(b"\n".join(lines), first_line, form, n_features)
    return Block(X, np.array(labels, dtype=np.str_))


# ------------------------------------------------------------------------------------ tables


def _cells(text: bytes, first_line: int, separator: bytes | None, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Split lines into byte strings of shape (rows, width), and say which line each row was."""
    rows, numbers = [], []
    for number, line in enumerate(text.split(b"\n"), first_line):
        if line.strip():
            rows.append(line.rstrip(b"\r").split(separator))
            numbers.append(number)
    for number, row in zip(numbers, rows):
        if len(row) != width:
            raise LineProblem(number, f"expected {width} columns, got {len(row)}")
        # All cells take as much room as the longest.
        if len(longest := max(row, key=len)) > _LONGEST_CELL:
            raise LineProblem(number, f"expected at most {_LONGEST_CELL} bytes a column, got {shown(longest)}")
    cells = np.array(rows, dtype=np.bytes_)
    return (np.char.strip(cells) if separator and len(cells) else cells), np.array(numbers)


def _columns(form: Form, n_features: int, first_line: int) -> tuple[int, np.ndarray]:
    """Return how many columns there have to be, and which of them (from 0) are features."""
    aside = set(form.drop_columns)
    aside.add(n_features + len(aside) + 1 if form.label_column == -1 else form.label_column)
    width = n_features + len(aside)
    if max(aside) > width:
        raise LineProblem(
            first_line, f"expected {n_features} features and the column {max(aside)}, got {width} columns"
        )
    return width, np.array([column for column in range(width) if column + 1 not in aside], dtype=int)


def _labels(cells: np.ndarray, numbers: np.ndarray, form: Form) -> np.ndarray:
    column = cells[:, form.label_column if form.label_column == -1 else form.label_column - 1]
    for number, token in zip(numbers, column):
        if not token:
            raise LineProblem(int(number), "expected a label, got nothing")
    if not form.numeric_labels:
        return np.char.decode(column, "utf-8", "replace")
    try:
        return _floats(column[:, None], numbers, np.array([form.label_column]), "the label")[:, 0]
    except LineProblem as error:
        raise LineProblem(error.number, f"{error.problem}; labels in words are named under positive") from None


def _floats(cells: np.ndarray, numbers: np.ndarray, columns: np.ndarray, what: str) -> np.ndarray:
    try:
        values = cells.astype(np.float64)
    except ValueError:
        values = np.array(np.nan)
    if np.isfinite(values).all() and not (np.char.find(cells, b"_") >= 0).any():
        return values
    found = [
        [finite_number(token, int(number), what or f"column {column + 1}") for column, token in zip(columns, row)]
        for number, row in zip(numbers, cells)
    ]
    return np.array(found).reshape(cells.shape)


def _parse_numbers(text: bytes, first_line: int, form: Form, n_features: int) -> Block:
    width, keep = _columns(form, n_features, first_line)
    cells, numbers = _cells(text, first_line, b"," if form.format == "csv" else None, width)
    if not len(cells):
        return Block(np.empty((0, n_features)), np.empty(0))
    return Block(_floats(cells[:, keep], numbers, keep, ""), _labels(cells, numbers, form))


def _parse_tokens(text: bytes, first_line: int, form: Form, n_features: int) -> Block:
    """One-hot: column j with the k-th token becomes feature j * len(tokens) + k."""
    width, keep = _columns(form, n_features // len(form.tokens), first_line)
    cells, numbers = _cells(text, first_line, b",", width)
    if not len(cells):
        return Block(np.empty((0, n_features), dtype=np.uint8), np.empty(0))
    tokens = np.array([token.encode() for token in form.tokens])
    hot = cells[:, keep, None] == tokens
    unknown = np.argwhere(~hot.any(axis=2))
    if len(unknown):
        row, column = unknown[0]
        raise LineProblem(
            int(numbers[row]),
            f"expected column {keep[column] + 1} to be one of {', '.join(form.tokens)}, "
            f"got {shown(bytes(cells[row, keep[column]]))}",
        )
    return Block(hot.reshape(len(cells), -1).astype(np.uint8), _labels(cells, numbers, form))


_PARSERS: dict[str, Callable[[bytes, int, Form, int], Block]] = {
    "svmlight": _parse_svmlight,
    "svmlight_multilabel": _parse_multilabel,
    "csv": _parse_numbers,
    "table": _parse_numbers,
    "csv_tokens": _parse_tokens,
}


# ------------------------------------------------------------------------------------ MNIST


def _read_idx(images: RawFile, labels: RawFile, form: Form, n_features: int) -> Iterator[Block]:
    """Read a pair of idx files (big-endian header; unsigned bytes), as described on the MNIST page."""
    n_images, rows, columns, pixels = _idx(images, 3)
    expected = n_features + len(set(form.drop_columns))
    if rows * columns != expected or max(form.drop_columns, default=0) > expected:
        raise DataError(f"{images.place}: expected images of {expected} pixels, got {rows} x {columns}")
    n_labels, classes = _idx(labels, 1)
    if n_images != n_labels:
        raise DataError(f"{labels.place}: expected {n_images} labels, one an image, got {n_labels}")
    X = np.frombuffer(pixels, dtype=np.uint8).reshape(n_images, rows * columns)
    X = np.delete(X, [column - 1 for column in form.drop_columns], axis=1)
    y = np.frombuffer(classes, dtype=np.uint8).astype(np.float64)
    step = max(1, BLOCK // max(1, X.shape[1]))
    for start in range(0, n_images, step):
        yield Block(X[start : start + step], y[start : start + step])


def _idx(file: RawFile, dimensions: int) -> tuple[Any, ...]:
    content = b"".join(chunks(file.path, file.limit))
    header = struct.calcsize(f">{1 + dimensions}I")
    magic = 0x0800 + dimensions  # unsigned bytes
    if len(content) < header or struct.unpack_from(">I", content)[0] != magic:
        raise DataError(f"{file.place}: expected an idx file that begins with {magic:#010x}, got 0x{content[:4].hex()}")
    shape = struct.unpack_from(f">{dimensions}I", content, 4)
    expected = header + math.prod(shape)
    if len(content) != expected:
        raise DataError(f"{file.place}: expected {expected:,} bytes for shape {shape}, got {len(content):,}")
    return (*shape, content[header:])
