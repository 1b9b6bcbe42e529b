"""Readers: from the bytes of a file to blocks of features and labels.

Readers yield blocks in the order of the rows, so that only one block of text is in memory at a time. They raise an
error with file and line for anything that the format does not allow; only blank lines are skipped.
"""

import math
import re
import struct
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from ..errors import DataError
from .cache import RawFile
from .content import Block, chunks, finite_number, is_number, shown, text_blocks, utf8
from .entry import DatasetEntry, Form
from .faults import LineProblem
from .metadata import Encoded, read_metadata
from .svmlight import parse_svmlight

__all__ = ["Block", "PublishedData", "read_blocks"]

BLOCK = 8 << 20  # bytes of text parsed at once
_LONGEST_CELL = 256  # bytes
_TABLES = ("csv", "table", "csv_tokens")
_LARGEST_WITH_GAPS = (1 << 26) - 1  # with drop_empty, n_features does not bound the indices, but memory does
_LABEL = b"#label#"
_LONG = 300  # digits from which a number may overflow


class PublishedData:
    """The rows of an entry in a form of the catalogue, with the attributes and methods of `own.OwnData`."""

    def __init__(self, entry: DatasetEntry, form: Form, files: list[RawFile]):
        n_files = len(form.files)
        self._form, self._files, self._files_of_metadata = form, files[:n_files], files[n_files:]
        self._n_rows: Counter[int] = Counter()  # of each file
        self.facts: dict[str, Any] = {}
        self.remarks: list[str] = []
        if entry.scaling is None:  # of an entry with a source, of which this form is an alternative
            entry = entry.model_copy(update={"scaling": "minmax"})
        if entry.n_features is None and not form.drop_empty:  # with that it is known at the end only
            entry = entry.model_copy(update={"n_features": _count_features(self._files, form)})
        self.entry = entry

    def blocks(self) -> Iterator[Block]:
        """Yield the rows."""
        for block in read_blocks(self._files, self._form, self.entry.n_features):
            self._n_rows[block.file] += len(block.labels)
            yield block

    def metadata(self) -> dict[str, Encoded]:
        """The row metadata, after all blocks."""
        rows_of_files = [self._n_rows[position] for position in range(len(self._files))]
        return read_metadata(self._form, self._files_of_metadata, self._n_rows.total(), rows_of_files)


def read_blocks(files: list[RawFile], form: Form, n_features: int | None) -> Iterator[Block]:
    """Yield non-empty blocks of the files of one form, in order; DataError with file and line.

    ``n_features`` may be None for svmlight files: then a block is as wide as its largest index.
    """
    if form.format == "mnist_idx":
        images, labels = files
        yield from _read_idx(images, labels, form, n_features)
        return
    parse = _token_counts_parser() if form.format == "token_counts" else _PARSERS[form.format]
    for position, file in enumerate(files):
        for first_line, _, text in text_blocks(chunks(file.path, file.limit), BLOCK, str(file.place)):
            try:
                block = parse(text, first_line, form, n_features)
            except LineProblem as line:
                cause = _cause(text.partition(b"\n")[0], form) if line.number == first_line == 1 else ""
                raise line.error(f"{file.place}:{line.number}: {line.problem}{cause}") from None
            if len(block.labels):
                yield block._replace(file=position)


def _count_features(files: list[RawFile], form: Form) -> int:
    """The number of features of svmlight files, or of files of a table by their first row; errors as `read_blocks`."""
    if form.has_indices:
        return _some(max((block.X.shape[1] for block in read_blocks(files, form, None)), default=None))
    aside = len({*form.drop_columns, form.label_column})
    separator = None if form.format == "table" else b","
    for file in files:
        for first_line, _, text in text_blocks(chunks(file.path, file.limit), 1, str(file.place)):
            for number, line in enumerate(text.split(b"\n"), first_line):
                if line.strip():
                    n_columns = len(line.split(separator))
                    if n_columns <= aside:
                        expected = f"expected more than {aside} column{'s' * (aside > 1)}, got {n_columns}"
                        raise DataError(f"{file.place}:{number}: {expected}{_cause(line, form)}")
                    return (n_columns - aside) * max(1, len(form.tokens))
    return _some(None)


def _some(n_features: int | None) -> int:
    """A number of features; DataError if there are none, or no rows (None)."""
    if not n_features:
        raise DataError(f"expected rows {'of data' if n_features is None else 'with features'}, got none")
    return n_features


def _cause(line: bytes, form: Form) -> str:
    """Return the most likely reason why the first line of a file cannot be read."""
    if form.format not in _TABLES:
        return ""
    tokens = {token.encode() for token in form.tokens}
    if b";" in line:
        return "; values separated by semicolons are not supported"
    if form.format == "table" and b"," in line:
        return "; for numbers separated by commas use 'format: csv'"
    if form.format != "table" and b"," not in line and len(line.split()) > 1:
        return "; for numbers separated by spaces or tabs use 'format: table'"
    if not any(cell in tokens or is_number(cell) for cell in re.split(rb'[\s,"]+', line) if cell):
        return "; for a file with a header line use 'source: {csv: FILE, label: COLUMN}', or remove it (tail -n +2)"
    if b'"' in line:
        return "; quotes are not supported: remove them (tr -d '\"')"
    if form.format == "csv" and line.rstrip().endswith(b","):
        return "; remove the comma at the end of lines (sed 's/,\\r\\?$//')"
    return ""


def _parse_svmlight(text: bytes, first_line: int, form: Form, n_features: int | None) -> Block:
    width, first = None if form.drop_empty else n_features, form.first_index
    return Block(*parse_svmlight(text, first_line, width, first_index=first, largest=_LARGEST_WITH_GAPS - first))


def _parse_multilabel(text: bytes, first_line: int, form: Form, n_features: int | None) -> Block:
    """Whole numbers separated by commas, then features; a row may have no labels, or no features."""
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
    return Block(_parse_svmlight(b"\n".join(lines), first_line, form, n_features).X, np.array(labels, dtype=np.str_))


def _token_counts_parser() -> Callable[[bytes, int, Form, int | None], Block]:
    """Return a parser of ``word:count ... #label#:class`` that numbers words by their first occurrence in all files."""
    from scipy.sparse import csr_matrix

    numbers: dict[bytes, int] = {}

    def parse(text: bytes, first_line: int, form: Form, n_features: int | None) -> Block:
        assert n_features is not None
        labels: list[str] = []
        indptr, indices, data = array("i", [0]), array("i"), array("d")
        for line_number, line in enumerate(text.split(b"\n"), first_line):
            tokens = line.split()
            if not tokens:
                continue
            word, _, label = tokens[-1].rpartition(b":")
            if word != _LABEL or not label:
                found = f"got {shown(tokens[-1])}"
                raise LineProblem(line_number, f"expected {_LABEL.decode()}:class at the end of the line, {found}")
            labels.append(utf8(label, line_number, "the label"))
            row: dict[int, float] = {}
            for token in tokens[:-1]:
                word, _, count = token.rpartition(b":")
                if not word:
                    raise LineProblem(line_number, f"expected word:count, got {shown(token)}")
                index = numbers.setdefault(word, len(numbers))
                if index in row:
                    raise LineProblem(line_number, f"expected each word once in a line, got {shown(word)} again")
                plain = count.isdigit() and len(count) < _LONG
                row[index] = float(count) if plain else finite_number(count, line_number, f"the count of {shown(word)}")
            if len(numbers) > n_features:
                raise LineProblem(line_number, f"expected at most {n_features:,} different words, got more")
            indices.extend(sorted(row))
            data.extend(row[index] for index in sorted(row))
            indptr.append(len(indices))
        arrays = np.array(data), np.array(indices, dtype=np.int32), np.array(indptr, dtype=np.int32)
        return Block(csr_matrix(arrays, shape=(len(labels), n_features)), np.array(labels, dtype=np.str_))

    return parse


# ------------------------------------------------------------------------------------ tables


def _parse_table(text: bytes, first_line: int, form: Form, n_features: int | None) -> Block:
    """Numbers, or tokens as one-hot features: column j with the k-th token becomes feature j * len(tokens) + k."""
    assert n_features is not None
    n_tokens = max(1, len(form.tokens))
    aside = set(form.drop_columns)
    label = n_features // n_tokens + len(aside) + 1 if form.label_column == -1 else form.label_column
    aside.add(label)
    width = n_features // n_tokens + len(aside)
    if max(aside) > width:
        message = f"expected {n_features // n_tokens} features and the column {max(aside)}, got {width} columns"
        raise LineProblem(first_line, message)
    kept = [j for j in range(width) if j + 1 not in aside]
    read = partial(_one_hot, [token.encode() for token in form.tokens]) if form.tokens else _numbers
    separator = None if form.format == "table" else b","
    rows, labels = [], []
    for number, line in enumerate(text.split(b"\n"), first_line):
        if not line.strip():
            continue
        cells = line.split(separator)
        if len(cells) != width:
            raise LineProblem(number, f"expected {width} columns, got {len(cells)}")
        if max(map(len, cells)) > _LONGEST_CELL:
            longest = shown(max(cells, key=len))
            raise LineProblem(number, f"expected at most {_LONGEST_CELL} bytes per column, got {longest}")
        rows.append(read(cells, kept, number))
        labels.append(_label(cells[label - 1].strip(), number, form))
    X = np.array(rows, dtype=np.uint8 if form.tokens else np.float64).reshape(len(rows), len(kept) * n_tokens)
    return Block(X, np.array(labels, dtype=np.float64 if form.numeric_labels else np.str_))


def _numbers(cells: list[bytes], columns: list[int], number: int) -> list[float]:
    try:
        values = [float(cells[j]) for j in columns]
    except ValueError:
        values = [math.nan]
    if all(map(math.isfinite, values)) and b"_" not in b"".join(cells):
        return values
    return [finite_number(cells[j].strip(), number, f"column {j + 1}") for j in columns]


def _one_hot(tokens: list[bytes], cells: list[bytes], columns: list[int], number: int) -> list[bool]:
    hot = []
    for j in columns:
        cell = cells[j].strip()
        if cell not in tokens:
            expected = b", ".join(tokens).decode()
            raise LineProblem(number, f"expected column {j + 1} to be one of {expected}, got {shown(cell)}")
        hot += [cell == token for token in tokens]
    return hot


def _label(cell: bytes, number: int, form: Form) -> float | str:
    if not cell:
        raise LineProblem(number, "expected a label, got nothing")
    if not form.numeric_labels:
        return utf8(cell, number, "the label")
    try:
        return finite_number(cell, number, "the label")
    except LineProblem as error:
        raise LineProblem(number, f"{error.problem}; text labels must be listed under 'positive'") from None


_PARSERS: dict[str | None, Callable[[bytes, int, Form, int | None], Block]] = {
    "svmlight": _parse_svmlight,
    "svmlight_multilabel": _parse_multilabel,
    **dict.fromkeys(_TABLES, _parse_table),
}


# ------------------------------------------------------------------------------------ MNIST


def _read_idx(images: RawFile, labels: RawFile, form: Form, n_features: int | None) -> Iterator[Block]:
    """Read a pair of idx files (big-endian header; unsigned bytes), as described on the MNIST page."""
    assert n_features is not None
    n_images, rows, columns, pixels = _idx(images, 3)
    expected = n_features + len(set(form.drop_columns))
    if rows * columns != expected or max(form.drop_columns, default=0) > expected:
        raise DataError(f"{images.place}: expected images of {expected} pixels, got {rows} x {columns}")
    n_labels, classes = _idx(labels, 1)
    if n_images != n_labels:
        raise DataError(f"{labels.place}: expected {n_images} labels, one per image, got {n_labels}")
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
