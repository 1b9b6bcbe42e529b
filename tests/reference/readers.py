"""Slow and simple readers: one line and one token at a time, written from the description of each format.

Each returns rows and labels, or the lines on which something is wrong.
"""

import math
import re
import struct
from dataclasses import dataclass, field

DECIMAL = re.compile(rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
BLANKS = re.compile(rb"[ \t\n\r\v\f]+")


@dataclass
class Read:
    """Rows as dicts from column to value, and their labels; or wrong lines."""

    rows: list = field(default_factory=list)
    labels: list = field(default_factory=list)
    wrong: set = field(default_factory=set)


class Wrong(Exception):
    pass


def read_lines(text: bytes, row_of) -> Read:
    """Read each line by ``row_of(line)``, which gives (row, label), or None for a line that is not a row."""
    read = Read()
    for number, line in enumerate(text.split(b"\n"), 1):
        try:
            if b"\0" in line:
                raise Wrong
            found = row_of(line)
        except Wrong:
            read.wrong.add(number)
            continue
        if found is not None:
            read.rows.append(found[0])
            read.labels.append(found[1])
    return read


def words(line: bytes) -> list[bytes]:
    return [word for word in BLANKS.split(line) if word]


def utf8(token: bytes) -> str:
    try:
        return token.decode()
    except UnicodeDecodeError:
        raise Wrong from None


def number(token: bytes) -> float:
    if not DECIMAL.fullmatch(token) or not math.isfinite(value := float(token)):
        raise Wrong
    return value


def features(tokens: list[bytes], first: int, last: int) -> dict[int, float]:
    row, previous = {}, first - 1
    for token in tokens:
        index, colon, value = token.partition(b":")
        if not (colon and re.fullmatch(rb"[0-9]+", index)):
            raise Wrong
        index = index.lstrip(b"0") or b"0"
        if len(index) > 12 or not previous < int(index) <= last:
            raise Wrong
        previous = int(index)
        row[previous - first] = number(value)
    return row


def svmlight(text: bytes, n_features: int, first: int) -> Read:
    def row_of(line):
        tokens = words(line.partition(b"#")[0])
        return (features(tokens[1:], first, n_features - 1 + first), number(tokens[0])) if tokens else None

    return read_lines(text, row_of)


def multilabel(text: bytes, n_features: int, first: int) -> Read:
    def row_of(line):
        line = line.partition(b"#")[0]
        # Labels end where the first index begins: at the word that has a colon in it.
        match = re.match(rb"([^:]*?)(([^:\s]*):(.*))?\Z", line, re.DOTALL)
        before, rest = match.group(1), match.group(2) or b""
        if not words(line):
            return None
        before = b" ".join(words(before))
        labels = [label.strip() for label in before.split(b",")] if before else []
        if not all(re.fullmatch(rb"[0-9]+", label) for label in labels):
            raise Wrong
        labels = [(label.lstrip(b"0") or b"0").decode() for label in labels]
        return features(words(rest), first, n_features - 1 + first), ",".join(labels)

    return read_lines(text, row_of)


def token_counts(text: bytes, n_features: int) -> Read:
    known: dict[bytes, int] = {}

    def row_of(line):
        tokens = words(line)
        if not tokens:
            return None
        before, _, label = tokens.pop().rpartition(b":")
        if before != b"#label#" or not label:
            raise Wrong
        row = {}
        for token in tokens:
            word, _, count = token.rpartition(b":")
            if not word or known.setdefault(word, len(known)) in row:
                raise Wrong
            row[known[word]] = number(count)
        if len(known) > n_features:
            raise Wrong
        return row, utf8(label)

    return read_lines(text, row_of)


LONGEST_CELL = 256  # bytes, blanks around it among them


def cells_of(line: bytes, separator: bytes | None, width: int) -> list[bytes] | None:
    """The cells of a line without surrounding blanks; None for a blank line."""
    if not words(line):
        return None
    cells = words(line) if separator is None else line.rstrip(b"\r").split(separator)
    if len(cells) != width or max(map(len, cells)) > LONGEST_CELL:
        raise Wrong
    return [cell.strip() for cell in cells]


def table(text: bytes, n_features: int, separator: bytes | None, label_at: int, numeric: bool) -> Read:
    """Numbers; the column ``label_at`` (from 0) is the label."""

    def row_of(line):
        cells = cells_of(line, separator, n_features + 1)
        if cells is None:
            return None
        label = cells.pop(label_at)
        if not label:
            raise Wrong
        label = number(label) if numeric else utf8(label)
        return dict(enumerate(map(number, cells))), label

    return read_lines(text, row_of)


def categories(text: bytes, n_columns: int, tokens: tuple[bytes, ...]) -> Read:
    def row_of(line):
        cells = cells_of(line, b",", n_columns + 1)
        if cells is None:
            return None
        *cells, label = cells
        if not label or not set(cells) <= set(tokens):
            raise Wrong
        hot = {column * len(tokens) + tokens.index(cell): 1.0 for column, cell in enumerate(cells)}
        return hot, utf8(label)

    return read_lines(text, row_of)


def idx(images: bytes, labels: bytes, n_features: int) -> Read | None:
    """Rows of pixels; None if the files do not fit together."""
    if len(images) < 16 or len(labels) < 8:
        return None
    magic, n, rows, columns = struct.unpack(">4I", images[:16])
    label_magic, n_labels = struct.unpack(">2I", labels[:8])
    fits = (magic, label_magic, n_labels, rows * columns) == (0x803, 0x801, n, n_features)
    if not fits or len(images) != 16 + n * n_features or len(labels) != 8 + n:
        return None
    pixels = [images[16 + k * n_features : 16 + (k + 1) * n_features] for k in range(n)]
    return Read([dict(enumerate(map(float, row))) for row in pixels], [float(label) for label in labels[8:]])
