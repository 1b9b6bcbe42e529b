"""The svmlight text format, ``label index:value ...``: a compiled reader, and a strict one that finds mistakes.

The compiled loop stops at anything but plain numbers; the strict one then either names the line and the mistake, or
reads unusual but correct text. Both round decimals correctly, so their results are equal to the last bit.
"""

from typing import Any

import numpy as np

from ..errors import DataError, ZeroIndexError
from ..kernels import njit
from .content import LineProblem, finite_number, shown

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
    room, rows = np.count_nonzero(codes == ord(":")), np.count_nonzero(codes == ord("\n")) + 1
    labels, indptr = np.empty(rows), np.empty(rows + 1, dtype=np.int32)
    indices, data = np.empty(room, dtype=np.int32), np.empty(room)
    hard = np.empty((room + rows, 3), dtype=np.int64)
    rows, entries, n_hard, plain = _scan(codes, first_index, last_index, labels, indptr, indices, data, hard)
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
    width = max(at_least, int(indices.max(initial=-1)) + 1) if n_features is None else n_features
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
            raise LineProblem(line_number, f"expected a label first, got {shown(tokens[0])}")
        if len(tokens) == 1 and b"," in tokens[0]:
            came = f"got {shown(tokens[0])}; is this a csv file?"
            raise LineProblem(line_number, f"expected a line such as '1 1:0.5 7:2', {came}")
        labels.append(finite_number(tokens[0], line_number, "the label"))
        previous = None
        for token in tokens[1:]:
            index, colon, value = token.partition(b":")
            if not colon or not index.isdigit():
                raise LineProblem(line_number, f"expected index:value, got {shown(token)}")
            position = int(index.lstrip(b"0")[:30] or 0)  # Python refuses to convert thousands of digits
            if position < first_index:
                zero = position == 0
                came = f"got {shown(token)}" + ("; is the file zero-based?" if zero else "")
                kind = ZeroIndexError if zero else DataError
                raise LineProblem(line_number, f"expected indices from {first_index}, {came}", kind)
            if previous is not None and position <= previous:
                raise LineProblem(line_number, f"expected ascending indices, got {position} after {previous}")
            if position > last_index:
                raise LineProblem(line_number, f"expected indices up to {last_index}, got {position}")
            indices.append(position - first_index)
            data.append(finite_number(value, line_number, f"the value of feature {position}"))
            previous = position
        indptr.append(len(data))
    return np.array(labels), np.array(indptr, dtype=np.int32), np.array(indices, dtype=np.int32), np.array(data)


# ------------------------------------------------------------------------------------ compiled

_TENS = 10.0 ** np.arange(23)  # all exact
_EXACT = 2**53
_SPLITTER = 2.0**27 + 1
_OK, _HARD, _BAD = 0, 1, 2
_SHORT = 15  # digits whose number is exact
_ZERO, _ONE, _TEN = np.uint64(48), np.uint64(1), np.uint64(10)


@njit()
def _decimal(text, at):
    """Return the decimal at ``at``, the position after it, and whether it is exact, left to Python, or invalid."""
    end = len(text)
    negative = False
    if at < end and (text[at] == 43 or text[at] == 45):
        negative = text[at] == 45
        at += 1
    mantissa, digits, exponent, seen, point = 0, 0, 0, False, False
    while at < end:
        code = text[at]
        if 48 <= code <= 57:
            seen = True
            if digits < 18:
                mantissa = mantissa * 10 + (np.int64(code) - 48)
            if digits or code != 48:
                digits += 1
            if point:
                exponent -= 1
        elif code == 46 and not point:
            point = True
        else:
            break
        at += 1
    if not seen:
        return 0.0, at, _BAD
    if at < end and (text[at] == 101 or text[at] == 69):
        at += 1
        below = False
        if at < end and (text[at] == 43 or text[at] == 45):
            below = text[at] == 45
            at += 1
        power, start = 0, at
        while at < end and 48 <= text[at] <= 57:
            power = min(10 * power + (np.int64(text[at]) - 48), 100_000)
            at += 1
        if at == start:
            return 0.0, at, _BAD
        exponent += -power if below else power
    if digits > 18 or exponent < -22 or exponent > 22:
        return 0.0, at, _HARD
    value, sure = _times_ten(mantissa, exponent)
    return -value if negative else value, at, _OK if sure else _HARD


@njit()
def _short_decimal(text, at):
    """As `_decimal`, for up to 15 digits without sign and exponent, as most are; anything else is `_HARD`."""
    if at + _SHORT + 3 > len(text):
        return 0.0, at, _HARD
    place, mantissa = np.uint64(at), np.uint64(0)
    last = place + np.uint64(_SHORT)
    digit = np.uint64(text[place]) - _ZERO  # what is no digit is more than 9
    start = place
    while digit < _TEN and place < last:
        mantissa = mantissa * _TEN + digit
        place += _ONE
        digit = np.uint64(text[place]) - _ZERO
    if place == start:
        return 0.0, at, _HARD
    behind = np.uint64(0)
    if text[place] == 46:
        place += _ONE
        point, last = place, last + _ONE
        digit = np.uint64(text[place]) - _ZERO
        while digit < _TEN and place < last:
            mantissa = mantissa * _TEN + digit
            place += _ONE
            digit = np.uint64(text[place]) - _ZERO
        behind = place - point
    if text[place] > 32:
        return 0.0, at, _HARD
    return np.float64(mantissa) / _TENS[behind], np.int64(place), _OK


@njit()
def _times_ten(mantissa, exponent):
    """Return ``mantissa * 10**exponent`` (exponent within -22 to 22), and whether the rounding is known to be correct.

    One operation on exact doubles if the mantissa is one (Clinger, 1990). Otherwise the product or quotient of the
    nearest double and its error (Dekker, 1971); their sum may be too near to a tie.
    """
    power = _TENS[abs(exponent)]
    if mantissa <= _EXACT:
        return (mantissa / power if exponent < 0 else mantissa * power), True
    high = np.float64(mantissa)
    low = np.float64(mantissa - np.int64(high))
    if exponent < 0:
        value = high / power
        product, error = _product(value, power)
        rest = ((high - product - error) + low) / power
    else:
        value, error = _product(high, power)
        rest = error + low * power
    margin = abs(rest) * 2.0**-48
    return value + rest, value + (rest - margin) == value + (rest + margin)


@njit()
def _product(a, b):
    """Return the rounded product of two doubles, and its rounding error."""
    product = a * b
    scaled = _SPLITTER * a
    a_high = scaled - (scaled - a)
    a_low = a - a_high
    scaled = _SPLITTER * b
    b_high = scaled - (scaled - b)
    b_low = b - b_high
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


@njit(nogil=True)
def _scan(text, first_index, last_index, labels, indptr, indices, data, hard):
    """Fill the arrays; return numbers of rows, entries and hard decimals, and whether all text was plain.

    A row of ``hard`` is a decimal's start and end, and its place in ``data``, or -1 - its row.
    """
    end = len(text)
    at, row, entry, n_hard = 0, 0, 0, 0
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
        labels[row], at, kind = _decimal(text, start)
        if kind == _BAD or not _ends(text, at):
            return row, entry, n_hard, False
        if kind == _HARD:
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
                index = index * 10 + (np.int64(text[at]) - 48)
                at += 1
            if at in (start, end) or text[at] != 58 or index <= previous or index > last_index:
                return row, entry, n_hard, False
            previous = index
            indices[entry] = index - first_index
            start = at + 1
            value, at, kind = _short_decimal(text, start)
            if kind != _OK:
                value, at, kind = _decimal(text, start)
            data[entry] = value
            if kind == _BAD or not _ends(text, at):
                return row, entry, n_hard, False
            if kind == _HARD:
                hard[n_hard, 0], hard[n_hard, 1], hard[n_hard, 2] = start, at, entry
                n_hard += 1
            entry += 1
        row += 1
        indptr[row] = entry
    return row, entry, n_hard, True


@njit()
def _ends(text, at):
    """Whether a token may end before ``at``."""
    return at == len(text) or text[at] == 32 or text[at] == 9 or text[at] == 13 or text[at] == 10 or text[at] == 35


@njit()
def _line_end(text, at):
    while at < len(text) and text[at] != 10:
        at += 1
    return at
