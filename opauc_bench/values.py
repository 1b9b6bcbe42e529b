"""Single values of an experiment file: names, durations, grids.

Each function takes a value as YAML gave it and returns what the experiment keeps, or raises ValueError (`Problems`, if
the mistake is inside the value) with a message for the author of the file.
"""

import math
import re
import sys
import unicodedata
from collections.abc import Callable, Collection, Mapping
from typing import Any

from .errors import suggest
from .sentences import Problem, Problems, convert_each, raise_problems, show

__all__ = [
    "Scalar",
    "address",
    "by_axis",
    "distinct",
    "grid_values",
    "is_name",
    "line",
    "not_empty",
    "parameter",
    "parse_duration",
    "percent",
    "plain_name",
    "power",
    "ratios",
    "repeated",
    "row_cap",
    "shares_or_all",
    "spell_axis",
    "unknown_names",
]

Scalar = str | int | float | bool | None

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_ADDRESS = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+|.+\.py:[A-Za-z_]\w*")
_DURATION = re.compile(r"(\d+(?:\.\d+)?) ?([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_POWER = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(?:\^|\*\*)([+-]?[0-9]+)")
_EXPECTED_VALUES = "expected a list of positive numbers or {pow2: [lowest, highest]}"
_SMALLEST_POWER, _LARGEST_POWER = -1074, 1023  # 2^k is positive and finite in float64


def is_name(text: str) -> bool:
    """Whether a text can name a column or a folder: letters, digits, ``_ . -``, not starting with ``.`` or ``-``."""
    return _NAME.fullmatch(text) is not None


def plain_name(text: str) -> str:
    """Accept a name, see `is_name`."""
    if not is_name(text):
        raise ValueError(f"expected a name of letters, digits, '_', '.' and '-', got {show(text)}")
    return text


def address(text: Any) -> str:
    """Accept the address of a class: ``package.module.Class`` or ``path/to/file.py:Class``."""
    if not isinstance(text, str) or not _ADDRESS.fullmatch(text) or text.endswith(".py"):
        raise ValueError(f"expected package.module.Class or path/to/file.py:Class, got {show(text)}")
    return text


def line(text: str) -> str:
    """Accept one line of text; blanks around it are removed."""
    text = text.strip()
    if len(text.splitlines()) > 1:
        raise ValueError("expected one line of text, got several")
    if control := [character for character in text if unicodedata.category(character) == "Cc"]:
        raise ValueError(f"expected text, got a control character (U+{ord(control[0]):04X})")
    return text


def not_empty(text: str) -> str:
    """Accept any text that is not empty."""
    if not text:
        raise ValueError("expected text, got nothing")
    return text


def parse_duration(value: Any) -> float | None:
    """Return seconds from a positive number, a text like 90s, 10m, 3h, 2d, or None."""
    if isinstance(value, str) and (found := _DURATION.fullmatch(value.strip())):
        value = float(found[1]) * _SECONDS[found[2]]
    return _positive_or_none(value, "seconds, or text like 90s, 10m, 3h, 2d;")


def _positive_or_none(value: Any, expected: str) -> float | None:
    if value is not None and not _is_positive(value):
        raise ValueError(f"expected {expected} got {show(value)}")
    return value if value is None else float(value)


def _is_positive(value: Any) -> bool:
    return _is_finite_number(value) and value > 0


def _is_finite_number(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and abs(value) <= sys.float_info.max  # a whole number may be too large for a float


def power(text: str) -> float | None:
    """The value of a power such as ``2^-8`` or ``2**-8``; None for other texts, and if it is too large for a float."""
    found = _POWER.fullmatch(text)
    try:
        return float(found[1]) ** int(found[2]) if found else None
    except (ValueError, OverflowError, ZeroDivisionError):  # ValueError: of an exponent of thousands of digits
        return None


def _or_power(value: Any) -> Any:
    """The value, or the number if it is a power written as text."""
    number = power(value) if isinstance(value, str) else None
    return value if number is None else number


def grid_values(value: Any) -> tuple[float, ...]:
    """Return the values of one grid axis: a list of numbers >= 0, or ``{pow2: [low, high]}`` expanded.

    A number may be written as a power, such as ``2^-8``.
    """
    if isinstance(value, Mapping):
        return _powers_of_two(value)
    if not isinstance(value, list | tuple):
        raise ValueError(
            f"{_EXPECTED_VALUES}, got {show(value)}; a single value that is not tuned belongs under params"
        )
    return _different_numbers(
        value, "0 or a positive finite number", lambda item: _is_finite_number(item) and item >= 0
    )


def _different_numbers(value: Collection[Any], expected: str, accepts: Callable[[Any], bool]) -> tuple[float, ...]:
    if not value:
        raise ValueError("expected at least one value, got an empty list")
    numbers = [_or_power(item) for item in value]
    problems = [
        Problem((position,), f"expected {expected}, got {show(item)}")
        for position, item in enumerate(numbers)
        if not accepts(item)
    ]
    raise_problems(problems or repeated([float(item) for item in numbers]))
    return tuple(float(item) for item in numbers)


def _powers_of_two(value: Mapping[str, Any]) -> tuple[float, ...]:
    if value and not any(key == "pow2" or suggest(key, ["pow2"]) for key in value):
        raise ValueError(
            f"{_EXPECTED_VALUES}, got a mapping with {', '.join(map(repr, value))}; "
            "axes stand directly under grids, those of one learner under its grid"
        )
    raise_problems(
        Problem((key,), f"unknown key{suggest(key, ['pow2'])}; allowed: pow2", True) for key in value if key != "pow2"
    )
    if "pow2" not in value:
        raise ValueError("expected {pow2: [lowest, highest]}, got an empty mapping")
    bounds = value["pow2"]
    whole = isinstance(bounds, list | tuple) and all(type(bound) is int for bound in bounds)
    if not whole or len(bounds) not in (2, 3):
        message = "expected the lowest and the highest exponent and, if not 1, the step, all whole numbers"
        raise Problems([Problem(("pow2",), f"{message}, as in [-12, 10, 2]; got {bounds!r}")])
    low, high, step = (*bounds, 1)[:3]
    if not _SMALLEST_POWER <= low <= high <= _LARGEST_POWER or step < 1:
        message = f"expected {_SMALLEST_POWER} <= lowest <= highest <= {_LARGEST_POWER} and a step above 0"
        raise Problems([Problem(("pow2",), f"{message}, got {bounds}")])
    return tuple(2.0**exponent for exponent in range(low, high + 1, step))


def ratios(value: Any) -> float | tuple[float, ...] | None:
    """Return a positive number, several different ones, or None."""
    if isinstance(value, list | tuple) and value:
        found = _different_numbers(value, "a positive finite number", _is_positive)
        raise_problems(_printed_alike(found, "{:g}".format))
        return found
    return _positive_or_none(value, "a positive number or a list of them,")


def shares_or_all(value: Any) -> float | tuple[float | None, ...] | None:
    """Return a share between 0 and 1, None for ``all``, or several different ones of a list."""
    if not isinstance(value, list | tuple):
        return _share_or_all(value, "'all', a share between 0 and 1, or a list of them")
    if not value:
        raise ValueError("expected at least one share, got an empty list")
    shares = convert_each(enumerate(value), lambda _, item: _share_or_all(item, "'all' or a share between 0 and 1"))
    raise_problems(
        repeated(["all" if share is None else share for share in shares])
        or _printed_alike(shares, lambda share: "all" if share is None else percent(share))
    )
    return tuple(shares)


def percent(share: float) -> str:
    """A share as the rows of tables have it."""
    return f"{100 * share:g}%"


def _printed_alike(values: Collection[Any], text_of: Callable[[Any], str]) -> list[Problem]:
    """A problem for each value whose row would have the name of an earlier one."""
    first: dict[str, Any] = {}
    return [
        Problem((position,), f"{show(value)} and {show(other)} would both be the row '@ {text}'; keep one of them")
        for position, value in enumerate(values)
        if (other := first.setdefault(text := text_of(value), value)) != value
    ]


def _share_or_all(value: Any, expected: str) -> float | None:
    if value in (None, "all"):
        return None
    if not _is_positive(value) or value >= 1:
        raise ValueError(f"expected {expected}, got {show(value)}")
    return float(value)


def row_cap(value: Any) -> int | dict[str, int] | None:
    """Return a number of rows, or numbers by dataset with ``default`` for the others, or None."""
    if not isinstance(value, Mapping):
        return value if value is None else _rows(value)
    if not value:
        raise ValueError("expected 'default: rows' or 'dataset: rows' lines, got an empty mapping")
    return dict(zip(map(str, value), convert_each(value.items(), lambda _, rows: _rows(rows))))


def _rows(value: Any) -> int:
    if type(value) is not int or value < 2:
        raise ValueError(f"expected a whole number of rows of at least 2, got {show(value)}")
    return value


def by_axis(value: Any, convert: Callable[[Any], Any]) -> dict[str, Any]:
    """Convert each value of a mapping and spell ``lambda`` as ``lam``, reporting all mistakes at once."""
    if not isinstance(value, Mapping):
        raise ValueError(f"expected 'name: value' lines, got {show(value)}")
    by_name: dict[str, Any] = {}

    def add(key: Any, item: Any) -> None:
        axis = spell_axis(key)
        if axis in by_name:
            raise Problems([Problem((), "lam and lambda are the same; keep one of them", at_key=True)])
        by_name[axis] = convert(item)

    convert_each(value.items(), add)
    return by_name


def spell_axis(axis: Any) -> str:
    """Return the name that the code uses for an axis or a parameter."""
    return "lam" if axis == "lambda" else str(axis)


def parameter(value: Any) -> Scalar:
    """Accept the value of a constructor parameter: a scalar that JSON can represent; a power as text is its number."""
    value = _or_power(value)
    if not isinstance(value, Scalar) or (isinstance(value, float) and not math.isfinite(value)):
        raise ValueError(f"expected text, a finite number, true, false or null, got {show(value)}")
    return value


def unknown_names(keys: Collection[str], allowed: Collection[str], what: str) -> list[Problem]:
    """Return a problem for each key that is not among ``allowed``."""
    listed = ", ".join(allowed) or "none"
    return [
        Problem((key,), f"{what} '{key}'{suggest(key, allowed)}; known: {listed}", at_key=True)
        for key in keys
        if spell_axis(key) not in allowed
    ]


def distinct(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Accept values that are different."""
    raise_problems(repeated(values))
    return values


def repeated(values: Collection[str | float], advice: str = "") -> list[Problem]:
    """Return a problem for each value that occurred before."""
    seen: set[str | float] = set()
    problems = []
    for position, value in enumerate(values):
        if value in seen:
            problems.append(Problem((position,), f"{show(value)} is listed twice{advice}"))
        seen.add(value)
    return problems
