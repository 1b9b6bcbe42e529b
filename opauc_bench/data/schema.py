"""What the columns of a table mean: which are features, how they become numbers, and what a missing value becomes.

The features are, in this order: a feature per column of numbers; with ``missing: indicator``, a second one per column
of numbers, 1 where the value is missing; ``2**bits`` features that the columns of categories share. A category has the
value 1 at the position that the hash of ``column=value`` gives (Weinberger et al., 2009, without signs).
"""

from __future__ import annotations

import csv
import itertools
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..errors import DataError, suggest
from ..kernels import njit
from .content import is_number

__all__ = [
    "BLANKS",
    "MISSING_WORDS",
    "ColumnOptions",
    "Missing",
    "Schema",
    "absent_column",
    "category_name",
    "folded",
    "hash_spans",
    "hash_texts",
    "header_hint",
    "listing",
    "read_names",
    "require_different",
    "seed_of",
    "written_names",
]

Missing = Literal["error", "mean", "indicator"]

DEFAULT_BITS, MOST_BITS = 18, 30
# Words for a missing number, in any case: those of pandas and R, of Excel, and of exports of databases.
MISSING_WORDS = ("", "na", "n/a", "#n/a", "<na>", "nan", "null", "none", r"\n", "?")
BLANKS = " \t\r"  # around a cell or a name they are not part of it
_SHOWN = 12  # names of columns in a message


def read_names(text: str, option: str) -> list[str]:
    """The names in the value of an option: separated by commas, in double quotes where a name has one.

    Raises
    ------
    DataError
        If quotes are not around a whole name.
    """
    try:
        (names,) = csv.reader([text], skipinitialspace=True, strict=True)
    except (csv.Error, ValueError):
        raise DataError(
            f"{option}: expected names separated by commas, got {text!r}, in which quotes are not around a whole name",
            f"{option} '\"one, with a comma\",two'",
        ) from None
    return [name.strip(BLANKS) for name in names]


def written_names(names: Iterable[str]) -> str:
    """Names as `read_names` reads them."""
    return ",".join('"' + name.replace('"', '""') + '"' if set(name) & set(',"\r\n') else name for name in names)


@dataclass(frozen=True)
class ColumnOptions:
    """How the columns of a table are to be used."""

    label: str | None = None  # column of the labels
    drop: tuple[str, ...] = ()  # columns that are left out
    categorical: tuple[str, ...] = ()  # columns of categories whose values look like numbers
    missing: Missing | None = None  # what a missing value becomes, see `Schema`; None, not given: "error"
    bits: int | None = None  # binary logarithm of the number of features that all categories share; None: 18
    aside: tuple[str, ...] = ()  # columns that are not features but are handed on as text


@dataclass(frozen=True)
class Schema:
    """The columns of a table as features; part of a model, as plain JSON."""

    __pydantic_config__ = {"extra": "forbid", "allow_inf_nan": False}  # noqa: RUF012

    label: str | None  # column of the labels
    numbers: tuple[str, ...]  # columns of features, in the order of the file
    categories: tuple[str, ...] = ()  # likewise
    dropped: tuple[str, ...] = ()  # columns that are left out on purpose
    # ``error``: a missing value is an error. ``mean``: it becomes the mean of the column in the rows before it, its
    # offset if there are none; after the training, that in all training rows. ``indicator``: it becomes the offset of
    # the column, and the second feature of the column becomes 1. A missing category sets no feature with ``mean``; with
    # ``indicator`` it is a category of its own.
    missing: Missing = "error"
    bits: int = DEFAULT_BITS  # binary logarithm of the number of features that all categories share
    means: tuple[float, ...] = ()  # with ``mean``: that of each column of numbers in the rows so far; otherwise empty
    counts: tuple[int, ...] = ()  # with ``mean``: the number of values behind each mean
    # Of each column of numbers, what is subtracted from it while it is learnt, see `row_encoder.offsets_of`; None as
    # long as it has had no value. Empty if nothing is subtracted.
    offsets: tuple[float | None, ...] = ()
    scales: tuple[float, ...] = ()  # what each is then divided by, see `row_encoder.scales_of`
    # For people: positions of categories and the first ``column=value`` that had it; of a column at most 10,000 divided
    # by the number of such columns, or 1,000.
    names: tuple[tuple[int, str], ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns of features."""
        return self.numbers + self.categories

    @property
    def first_category(self) -> int:
        """The first of the features that categories share."""
        return len(self.numbers) * (2 if self.missing == "indicator" else 1)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.first_category + (1 << self.bits if self.categories else 0)

    def described(self) -> str:
        """How many columns of each kind there are, and what becomes of them."""
        text = f"{len(self.numbers):,} of numbers"
        if self.categories:
            text += f", {len(self.categories):,} of categories (2^{self.bits} features)"
        return f"{text}; missing values: {self.missing}"

    def feature_name(self, feature: int) -> str:
        """What a feature (from 0) is called: its column, ``column is missing``, or ``column=value`` if known."""
        if feature < len(self.numbers):
            return self.numbers[feature]
        if feature < self.first_category:
            return f"{self.numbers[feature - len(self.numbers)]} is missing"
        position = feature - self.first_category
        return next((name for known, name in self.names if known == position), f"category #{position}")

    @classmethod
    def from_json(cls, plain: Any) -> Schema:
        """The schema that ``dataclasses.asdict`` and JSON have made plain; ValueError if it is not one."""
        from pydantic import TypeAdapter, ValidationError  # for those who read a model only

        try:
            schema = TypeAdapter(cls).validate_json(json.dumps(plain), strict=True)
        except ValidationError as error:
            first = error.errors()[0]
            raise ValueError(f"the schema is not valid: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
        n_means = len(schema.numbers) if schema.missing == "mean" else 0
        if not (
            1 <= schema.bits <= MOST_BITS
            and len(schema.means) == len(schema.counts) == n_means
            and len(schema.offsets) in (0, len(schema.numbers))
            and len(schema.scales) in (0, len(schema.offsets))
            and all(scale > 0.0 for scale in schema.scales)
            and all(0 <= count < 2**63 for count in schema.counts)
            and all(0 <= position < 1 << schema.bits for position, _ in schema.names)
        ):
            raise ValueError("the schema is not valid: a number is out of its range, or means are not those of columns")
        return schema

    @classmethod
    def of_columns(cls, kinds: dict[str, str], options: ColumnOptions, name: str, other_name: str) -> Schema:
        """The schema of a table.

        Parameters
        ----------
        kinds : dict of str to {"number", "category"}
            The columns in their order.
        options : ColumnOptions
        name : str
            Of the file, for messages.
        other_name : str
            For messages: what to do if an option, which replaces ``{}``, names a column that is not there.

        Raises
        ------
        DataError
            A column that an option names is not there, the label is to be dropped, or no feature is left.
        """
        label = () if options.label is None else (options.label,)
        for what, names in (("label", label), ("drop", options.drop), ("categorical", options.categorical)):
            for column in names:
                if column not in kinds:
                    hint = header_hint(kinds, other_name.replace("{}", what))
                    raise DataError(absent_column(name, column, kinds), hint)
        if options.label in options.drop:
            others = listing(column for column in kinds if column != options.label)
            raise DataError(
                f"{name}: {options.label!r} is the label and cannot be dropped; the others are {others}",
                other_name.replace("{}", "drop"),
            )
        left_out = {*label, *options.drop, *options.aside, ""}
        kept = [column for column in kinds if column not in left_out]
        if not kept:
            raise DataError(f"{name}: expected columns of features, got none beside the label")
        are_numbers = [kinds[column] == "number" and column not in options.categorical for column in kept]
        numbers = tuple(itertools.compress(kept, are_numbers))
        return cls(
            label=options.label,
            numbers=numbers,
            categories=tuple(column for column, is_number in zip(kept, are_numbers) if not is_number),
            dropped=tuple(dict.fromkeys((*options.drop, *options.aside))),
            missing=options.missing or "error",
            bits=options.bits or DEFAULT_BITS,
            means=(0.0,) * len(numbers) if options.missing == "mean" else (),
            counts=(0,) * len(numbers) if options.missing == "mean" else (),
        )


def absent_column(name: str, column: str, known: Sequence[str] | dict[str, str]) -> str:
    """A sentence on a column that a file does not have."""
    return f"{name}: expected a column {column!r}{suggest(column, known)}; the columns are {listing(known)}"


def header_hint(names: Iterable[str], usual: str) -> str:
    """What to do about an absent column: as ``usual``, unless the first line does not seem to have the names."""
    first, *others = [*filter(None, names), ""]
    if not any(others) and first.startswith(("#", "sep=")):
        return f"remove the first line, {first!r}: the names of the columns have to come first"
    if any(is_number(name.encode()) for name in (first, *others)):
        return f"{usual}; if these are values, the names of the columns have to be in the line before"
    return usual


def require_different(names: Sequence[str], place: str) -> None:
    """Raise DataError if two columns have the same name."""
    seen = set()
    for name in names:
        if name in seen:
            raise DataError(f"{place}: expected different names of columns, got {name!r} twice")
        seen.add(name)


def listing(names: Iterable[str]) -> str:
    """Names of columns for a message; of many, the first ones."""
    quoted = [repr(name) for name in names if name]
    return ", ".join(quoted[:_SHOWN]) + (f" and {len(quoted) - _SHOWN} more" if len(quoted) > _SHOWN else "")


# ------------------------------------------------------------------------------------ hashes of categories

_BASIS, _PRIME = np.uint64(14695981039346656037), np.uint64(1099511628211)
_QUOTE = 34
# Parquet and Arrow files have truth values, pandas takes them from CSV files in three spellings: all are one category.
_TRUE, _FALSE = (np.frombuffer(word, dtype=np.uint8) for word in (b"True", b"False"))


def category_name(text: str) -> str:
    """The spelling of a category: that of Python for truth values."""
    return {"true": "True", "false": "False"}.get(text.lower(), text)


def seed_of(column: str) -> np.uint64:
    """The state of the hash after ``column=``."""
    text = np.frombuffer(f"{column}=".encode(), dtype=np.uint8)
    return np.uint64(hashed(text, 0, len(text), False, _BASIS))


def hash_texts(texts: Sequence[str | None], column: str, bits: int) -> np.ndarray:
    """Hashes of values of a column, shape (n,), int64; -1 for None and for text that is empty or blank."""
    encoded = [b"" if text is None else text.encode("utf-8", "surrogatepass") for text in texts]
    ends = np.cumsum([len(text) for text in encoded], dtype=np.int64)
    starts = np.concatenate([np.zeros(min(1, len(ends)), np.int64), ends[:-1]])
    return hash_spans(np.frombuffer(b"".join(encoded), dtype=np.uint8), starts, ends, column, bits)


def hash_spans(
    text: np.ndarray, starts: np.ndarray, ends: np.ndarray, column: str, bits: int, escaped: np.ndarray | None = None
) -> np.ndarray:
    """Hashes of pieces of a text (uint8) without the blanks around them, shape (n,), int64; -1 for empty ones.

    Truth values have one hash in upper and lower case, that of ``True`` or ``False``.
    Where ``escaped``, a boolean array, two quotes are one.
    """
    out = np.empty(len(starts), dtype=np.int64)
    _hash_spans(
        text, starts, ends, np.zeros(len(starts), bool) if escaped is None else escaped, seed_of(column), bits, out
    )
    return out


@njit()
def hashed(text, start, end, escaped, state):
    """FNV-1a with 64 bits (Fowler, Noll, Vo); where ``escaped``, two quotes are one."""
    at = start
    while at < end:
        code = text[at]
        if escaped and code == _QUOTE:
            at += 1
        state = (state ^ np.uint64(code)) * _PRIME
        at += 1
    return state


@njit()
def folded(state, bits):
    """The hash in ``bits`` bits: by folding, as its authors advise."""
    return np.int64(((state >> np.uint64(bits)) ^ state) & np.uint64((1 << bits) - 1))


@njit()
def _hash_spans(text, starts, ends, escaped, seed, bits, out):
    for k in range(len(starts)):
        start, end = starts[k], ends[k]
        while start < end and _is_blank(text[start]):
            start += 1
        while start < end and _is_blank(text[end - 1]):
            end -= 1
        if start == end:
            out[k] = -1
        elif _is_word(text, start, end, _TRUE):
            out[k] = folded(hashed(_TRUE, 0, len(_TRUE), False, seed), bits)
        elif _is_word(text, start, end, _FALSE):
            out[k] = folded(hashed(_FALSE, 0, len(_FALSE), False, seed), bits)
        else:
            out[k] = folded(hashed(text, start, end, escaped[k], seed), bits)


@njit()
def _is_word(text, start, end, word):
    """Whether a piece of a text is the word, of ASCII letters, in upper or lower case."""
    same = end - start == len(word)
    for k in range(len(word) if same else 0):
        same &= text[start + k] | 32 == word[k] | 32
    return same


@njit()
def _is_blank(code):
    return code == 32 or code == 9 or code == 13
