"""Row metadata: what a dataset says of each row beside features and label.

``split`` is the part of a row (train, validation or test), ``group`` its group, ``time`` a number or a date.
`encode` turns their texts into an array, wherever they come from; `read_metadata` reads them from text files.
"""

import codecs
import datetime
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..errors import DataError, suggest
from .cache import RawFile
from .content import chunks, finite_number, is_number, shown, text_blocks, utf8
from .entry import PARTS, Form
from .faults import LineProblem
from .schema import BLANKS

__all__ = ["Encoded", "encode", "read_metadata"]

_LARGEST_EXACT = 2.0**53
_BLOCK = 1 << 20  # bytes of text decoded at once


class Encoded(NamedTuple):
    """Row metadata of one name: values of shape (n_samples,), and the manifest's entry on them."""

    values: np.ndarray
    facts: dict[str, Any]


def read_metadata(
    form: Form, files: Sequence[RawFile], n_samples: int, rows_of_files: Sequence[int]
) -> dict[str, Encoded]:
    """Read the row metadata of a form.

    Parameters
    ----------
    form : Form
    files : sequence of RawFile
        Those of row metadata, in the order of `Form.all_files`.
    n_samples : int
    rows_of_files : sequence of int
        Number of rows in each of the files of the rows.

    Returns
    -------
    dict of str to Encoded
        By name, in the order of `entry.ROW_METADATA`.

    Raises
    ------
    DataError
        With file and line: a file has not one line per row, or a line that is not such a value.
    """
    left = iter(files)
    found = {}
    for name in form.row_metadata:
        of_files = getattr(form, name)
        if isinstance(of_files, tuple):
            found[name] = encode(name, np.repeat(of_files, rows_of_files).tolist())
            continue
        file = next(left)
        try:
            found[name] = encode(name, _lines(file, n_samples))
        except LineProblem as problem:
            raise DataError(f"{file.place}:{problem.number}: {problem.problem}") from None
    return found


def _lines(file: RawFile, n_samples: int) -> list[str]:
    """The lines of a file, one per row of the data; empty ones at the end are left out."""
    lines: list[bytes] = []
    for _, _, text in text_blocks(chunks(file.path, file.limit), _BLOCK, str(file.place)):
        lines += [line.strip() for line in text.split(b"\n")]
    while lines and not lines[-1]:
        lines.pop()
    if len(lines) != n_samples:
        expected = f"expected {n_samples:,} lines, one per row of the data and no header, got {len(lines):,}"
        raise LineProblem(min(len(lines), n_samples) + 1, expected)
    if lines[0].startswith(codecs.BOM_UTF8):
        raise LineProblem(1, "the file begins with a byte order mark: remove it (tail -c +4)")
    return [utf8(line, number) for number, line in enumerate(lines, 1)]


def encode(name: str, texts: Sequence[str]) -> Encoded:
    """Turn the texts of one value per row into numbers.

    Parameters
    ----------
    name : {"split", "group", "time"}
    texts : sequence of str
        ``split``: train, validation or test. ``group``: any text; groups are numbered by first occurrence. ``time``:
        numbers, or dates in ISO 8601, which become seconds since 1970; without a time zone they are taken as UTC.

    Raises
    ------
    LineProblem
        With the number of the row, from 1.
    """
    texts = [text.strip(BLANKS) for text in texts]  # as cells of a table
    for number, text in enumerate(texts, 1):
        if not text:
            raise LineProblem(number, f"expected a value of {name}, got an empty line")
    return _ENCODERS[name](texts)


def _encode_split(texts: Sequence[str]) -> Encoded:
    for number, text in enumerate(texts, 1):
        if text not in PARTS:
            expected = f"{', '.join(PARTS[:-1])} or {PARTS[-1]}"
            raise LineProblem(number, f"expected {expected}, got {shown(text.encode())}{suggest(text, PARTS)}")
    values = np.array([PARTS.index(text) for text in texts])
    return Encoded(values, dict(zip(PARTS, np.bincount(values, minlength=len(PARTS)).tolist())))


def _encode_group(texts: Sequence[str]) -> Encoded:
    numbers: dict[str, int] = {}
    values = np.array([numbers.setdefault(text, len(numbers)) for text in texts])
    return Encoded(values, {"n_groups": len(numbers)})


def _encode_time(texts: Sequence[str]) -> Encoded:
    read = _number if is_number(texts[0].encode()) else _date
    values = np.array([read(text, number) for number, text in enumerate(texts, 1)])
    return Encoded(values, {"first": texts[int(values.argmin())], "last": texts[int(values.argmax())]})


def _number(text: str, number: int) -> float:
    time = finite_number(text.encode(), number, "the time, as in line 1,")
    if abs(time) > _LARGEST_EXACT and text.lstrip("+-").isdigit() and int(time) != int(text):
        expected = "expected a time that a 64-bit float holds exactly"
        raise LineProblem(number, f"{expected}, got {text}; subtract the first one, or take a coarser unit")
    return time


def _date(text: str, number: int) -> float:
    try:
        date = datetime.datetime.fromisoformat(text)
    except ValueError:
        expected = "expected the time to be a number in every line, or a date such as 2024-05-31 or 2024-05-31T10:00"
        raise LineProblem(number, f"{expected} in every line, got {shown(text.encode())}") from None
    if re.search(r"[.,]\d{6}\d*[1-9]", text):  # fromisoformat drops these digits
        raise LineProblem(number, f"expected a time in microseconds or a coarser unit, got {shown(text.encode())}")
    return (date if date.tzinfo else date.replace(tzinfo=datetime.UTC)).timestamp()


_ENCODERS: dict[str, Callable[[Sequence[str]], Encoded]] = {
    "split": _encode_split,
    "group": _encode_group,
    "time": _encode_time,
}
