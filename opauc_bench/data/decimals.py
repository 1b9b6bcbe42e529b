"""Decimals in text, for kernels: correctly rounded, or left to Python."""

import numpy as np

from ..kernels import njit

__all__ = ["HARD", "INVALID", "READ", "decimal", "short_decimal"]

READ, HARD, INVALID = 0, 1, 2  # what became of a decimal; a hard one is for Python's float()

_TENS = 10.0 ** np.arange(23)  # all exact
_EXACT = 2**53
_SPLITTER = 2.0**27 + 1
_SHORT = 15  # digits whose number is exact
_ZERO, _ONE, _TEN = np.uint64(48), np.uint64(1), np.uint64(10)


@njit()
def decimal(text, at):
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
                mantissa = mantissa * 10 + (np.int64(code) - 48)  # type: ignore[assignment]
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
        return 0.0, at, INVALID
    if at < end and (text[at] == 101 or text[at] == 69):
        at += 1
        below = False
        if at < end and (text[at] == 43 or text[at] == 45):
            below = text[at] == 45
            at += 1
        power, start = 0, at
        while at < end and 48 <= text[at] <= 57:
            power = min(10 * power + (np.int64(text[at]) - 48), 100_000)  # type: ignore[assignment]
            at += 1
        if at == start:
            return 0.0, at, INVALID
        exponent += -power if below else power
    if digits > 18 or exponent < -22 or exponent > 22:
        return 0.0, at, HARD
    value, sure = _times_ten(mantissa, exponent)
    return -value if negative else value, at, READ if sure else HARD


@njit()
def short_decimal(text, at):
    """As `decimal`, for up to 15 digits without sign and exponent, as most are; anything else is `HARD`."""
    if at + _SHORT + 3 > len(text):
        return 0.0, at, HARD
    place, mantissa = np.uint64(at), np.uint64(0)
    last = place + np.uint64(_SHORT)
    digit = np.uint64(text[place]) - _ZERO  # what is not a digit is more than 9
    start = place
    while digit < _TEN and place < last:
        mantissa = mantissa * _TEN + digit
        place += _ONE
        digit = np.uint64(text[place]) - _ZERO
    if place == start:
        return 0.0, at, HARD
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
        return 0.0, at, HARD
    return np.float64(mantissa) / _TENS[behind], np.int64(place), READ


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
