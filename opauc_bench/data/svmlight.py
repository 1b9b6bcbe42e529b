"""The svmlight text format, ``label index:value ...``: a compiled reader, and a strict one that finds mistakes.

The compiled loop stops at anything but plain numbers; the strict one then either names the line and the mistake, or
reads unusual but correct text. Both round decimals correctly, so their results are equal to the last bit.
"""

from typing import Any

import numpy as np

from ..kernels import njit
from .content import finite_number, shown
from .decimals import HARD, INVALID, READ, decimal, short_decimal
from .faults import Fault, LineProblem

__all__ = ["LARGEST_INDEX", "parse_svmlight"]

LARGEST_INDEX = 2**31 - 2  # indices are kept in 32 bits


def parse_svmlight(
    text: bytes,
    first_line: int,
    n_features: int | None,
    *,
    first_index: int = 1,
    at_least: int = 0,
    largest: int = LARGEST_INDEX,
) -> tuple[Any, np.ndarray]:
    """Parse lines into a CSR matrix (rows, width) of float64 and labels (rows,), all finite; LineProblem if invalid.

    The width is ``n_features``, or if that is None, the largest index, at least ``at_least`` and at most ``largest`` +
    1. ``first_index`` is the index of the first feature; ``first_line`` is the number of the first line, for messages.
    """
    from scipy.sparse import csr_matrix

    last_index = (largest if n_features is None else n_features - 1) + first_index
    codes = np.frombuffer(text, dtype=np.uint8)
    room, rows = _most(codes)
    labels, indptr = np.empty(rows), np.empty(rows + 1, dtype=np.int32)
    indices, data = np.empty(room, dtype=np.int32), np.empty(room)
    hard = np.empty((room + rows, 3), dtype=np.int64)
    rows, entries, n_hard, width, plain = _scan(codes, first_index, last_index, labels, indptr, indices, data, hard)
    if plain:
        labels, indptr, indices, data = labels[:rows], indptr[: rows + 1], indices[:entries], data[:entries]
        if n_hard:
            starts, ends, places = hard[:n_hard].T
            values = np.array([float(text[start:end]) for start, end in zip(starts.tolist(), ends.tolist())])
            data[places[places >= 0]] = values[places >= 0]
            labels[-1 - places[places < 0]] = values[places < 0]
        plain = n_hard == 0 or bool(np.isfinite(data).all() and np.isfinite(labels).all())  # 1e999 is written plainly
    if not plain:
        labels, indptr, indices, data = _strict(text, first_line, first_index, last_index)
        width = int(indices.max(initial=-1)) + 1
    width = max(at_least, width) if n_features is None else n_features
    X = csr_matrix((data, indices, indptr), shape=(len(labels), width))
    X.has_canonical_format = True
    return X, labels


def _strict(text: bytes, first_line: int, first_index: int, last_index: int) -> tuple[np.ndarray, ...]:
    labels, indptr, indices, data = [], [0], [], []
    for line_number, line in enumerate(text.split(b"\n"), first_line):
        tokens = line.partition(b"#")[0].split()
        if not tokens:
            continue
        if b":" in tokens[0]:
            fault = Fault.JSON if tokens[0].startswith(b"{") else Fault.NO_LABEL
            raise LineProblem(line_number, f"expected a label first, got {shown(tokens[0])}", fault)
        if len(tokens) == 1 and b"," in tokens[0]:
            came = f"got {shown(tokens[0])}; is this a csv file?"
            raise LineProblem(line_number, f"expected a line such as '1 1:0.5 7:2', {came}", Fault.CSV)
        labels.append(finite_number(tokens[0], line_number, "the label", Fault.FORM))
        previous = None
        for token in tokens[1:]:
            index, colon, value = token.partition(b":")
            if not colon or not index.isdigit():
                why, fault = "", Fault.FORM
                if index == b"qid":
                    why, fault = "; query ids are not read (sed 's/ qid:[0-9]*//' FILE > NEW)", Fault.OTHER
                elif b"\r" in line.strip():
                    why, fault = "; do lines end with CR? (tr '\\r' '\\n' < FILE > NEW)", Fault.OTHER
                raise LineProblem(line_number, f"expected index:value, got {shown(token)}{why}", fault)
            position = int(index.lstrip(b"0")[:30] or 0)  # Python refuses to convert thousands of digits
            if position < first_index:
                zero = position == 0
                came = f"got {shown(token)}" + ("; is the file zero-based?" if zero else "")
                fault = Fault.ZERO_INDEX if zero else Fault.OTHER
                raise LineProblem(line_number, f"expected indices from {first_index}, {came}", fault)
            if previous is not None and position <= previous:
                raise LineProblem(line_number, f"expected ascending indices, got {position} after {previous}")
            if position > last_index:
                problem = f"expected indices up to {last_index}, got {position}"
                raise LineProblem(line_number, problem, Fault.LARGE_INDEX)
            indices.append(position - first_index)
            data.append(finite_number(value, line_number, f"the value of feature {position}"))
            previous = position
        indptr.append(len(data))
    return np.array(labels), np.array(indptr, dtype=np.int32), np.array(indices, dtype=np.int32), np.array(data)


# ------------------------------------------------------------------------------------ compiled


@njit()
def _most(text):
    """How many entries and rows there can be: as many as colons and lines."""
    n_colons, n_line_ends = 0, 0
    for code in text:
        n_colons += code == 58
        n_line_ends += code == 10
    return n_colons, n_line_ends + 1


@njit()
def _scan(text, first_index, last_index, labels, indptr, indices, data, hard):
    """Fill the arrays; return numbers of rows, entries, hard decimals and features, and whether all text was plain.

    A row of ``hard`` is a decimal's start and end, and its place in ``data``, or -1 - its row.
    """
    end = len(text)
    at, row, entry, n_hard, width = 0, 0, 0, 0, 0
    indptr[0] = 0
    while at < end:
        code = text[at]
        if code == 32 or code == 9 or code == 13 or code == 10:
            at += 1
            continue
        if code == 35:
            at = _line_end(text, at)
            continue
        start = at
        labels[row], at, kind = decimal(text, start)
        if kind == INVALID or not _ends(text, at):
            return row, entry, n_hard, width, False
        if kind == HARD:
            hard[n_hard, 0], hard[n_hard, 1], hard[n_hard, 2] = start, at, -1 - row
            n_hard += 1
        previous = first_index - 1
        while at < end and text[at] != 10:
            code = text[at]
            if code == 32 or code == 9 or code == 13:
                at += 1
                continue
            if code == 35:
                at = _line_end(text, at)
                break
            start, index = at, 0
            while at < end and 48 <= text[at] <= 57 and index <= last_index:
                index = index * 10 + (np.int64(text[at]) - 48)  # type: ignore[assignment]
                at += 1
            if at in (start, end) or text[at] != 58 or index <= previous or index > last_index:
                return row, entry, n_hard, width, False
            previous = index
            indices[entry] = index - first_index
            start = at + 1
            value, at, kind = short_decimal(text, start)
            if kind != READ:
                value, at, kind = decimal(text, start)
            data[entry] = value
            if kind == INVALID or not _ends(text, at):
                return row, entry, n_hard, width, False
            if kind == HARD:
                hard[n_hard, 0], hard[n_hard, 1], hard[n_hard, 2] = start, at, entry
                n_hard += 1
            entry += 1
        width = max(width, previous - first_index + 1)
        row += 1
        indptr[row] = entry
    return row, entry, n_hard, width, True


@njit()
def _ends(text, at):
    """Whether a token may end before ``at``."""
    return at == len(text) or text[at] == 32 or text[at] == 9 or text[at] == 13 or text[at] == 10 or text[at] == 35


@njit()
def _line_end(text, at):
    while at < len(text) and text[at] != 10:
        at += 1
    return at
