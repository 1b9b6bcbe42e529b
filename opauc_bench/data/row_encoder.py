"""From values of a table to rows of features, with the statistics of the columns that are learnt on the way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..kernels import njit
from .schema import Schema, category_name, folded, seed_of

__all__ = ["LARGEST", "FarValues", "RowEncoder", "Statistics", "offsets_of", "scales_of"]

_LARGEST_OFFSET = 1e100  # no difference or product with it overflows
LARGEST = 1.7e308  # of a quotient that would overflow
# Of categories: names of all columns together, but that many of each, and characters of one.
_MOST_NAMES, _NAMES_OF_COLUMN, _LONGEST_NAME = 10_000, 1000, 60
_LEAST_OF_IDS = 500  # different values of a column that is said to have ids


def offsets_of(numbers: np.ndarray) -> tuple[float | None, ...]:
    """What to subtract from columns of numbers so that they lie around 0: their medians.

    Gradient steps on a column far from 0, such as a year, are along the intercept: its differences are hardly learnt.
    A column in which most values are 0 keeps its zeros.

    Parameters
    ----------
    numbers : ndarray of shape (n, n_columns)
        Rows; NaN where a value is missing.

    Returns
    -------
    tuple of float or None
        None for a column without values, of which `RowEncoder` subtracts the first one. 0 for a column whose median is
        too large to compute with.
    """
    found: list[float | None] = []
    for column in numbers.T:
        values = column[~np.isnan(column)]
        # The lower one of two medians is a value of the column, so that columns of 0 and 1 keep such values.
        middle = (len(values) - 1) // 2
        median = float(np.partition(values, middle)[middle]) if len(values) else None
        found.append(median if median is None or abs(median) <= _LARGEST_OFFSET else 0.0)
    return tuple(found)


def scales_of(numbers: np.ndarray, offsets: tuple[float | None, ...]) -> tuple[float, ...]:
    """What to divide columns of numbers by so that one step size does for all: their interquartile ranges.

    Where half of the values or more are equal, that may be 0 or arbitrarily small: if it is less than a tenth of the
    median distance of the others from the offset, it is that distance, so that a column of 0 and 1 stays as it is.

    Parameters
    ----------
    numbers : ndarray of shape (n, n_columns)
        Rows; NaN where a value is missing.
    offsets : tuple of float or None
        From `offsets_of`.

    Returns
    -------
    tuple of float
        1 where there is nothing to measure, or too large or small a number.
    """
    found = []
    for column, offset in zip(numbers.T, offsets):
        scale, values = 0.0, column[~np.isnan(column)]
        with np.errstate(over="ignore", invalid="ignore"):
            if len(values):
                low, high = np.percentile(values, [25, 75])
                scale = float(high - low)
            if (distances := np.abs(values - (offset or 0.0))).any():
                distance = float(np.median(distances[distances > 0.0]))
                scale = distance if scale < 0.1 * distance else scale
        found.append(scale if 1.0 / _LARGEST_OFFSET < scale < _LARGEST_OFFSET else 1.0)
    return tuple(found)


class FarValues:
    """Values far from the others of their columns: they spoil a linear model, and may stand for missing ones.

    Far is more than 100 times the interquartile range, or the scale if that is larger (`scales_of`), from the median,
    all of the first rows.

    Parameters
    ----------
    first : ndarray of shape (n, n_columns)
        The first rows; NaN where a value is missing.

    Attributes
    ----------
    found : dict of int to (float, str)
        By column, the farthest value, and the place of the first row with one.
    medians : ndarray of shape (n_columns,)
        0 for a column without values in the first rows, none of whose values is far.
    """

    _GROWS = 0.2  # share of values outside the range of the first rows; of equal rows it would be some .002

    def __init__(self, first: np.ndarray):
        self.medians, self._limits = np.zeros(first.shape[1]), np.full(first.shape[1], np.inf)
        self.found: dict[int, tuple[float, str]] = {}
        self._range = np.full((2, first.shape[1]), [[-np.inf], [np.inf]])
        self._n_rows, self._n_outside = 0, np.zeros(first.shape[1], dtype=np.int64)
        scales = scales_of(first, offsets_of(first))
        for k, column in enumerate(first.T):
            if len(values := column[~np.isnan(column)]):
                with np.errstate(over="ignore"):
                    low, self.medians[k], high = np.percentile(values, [25, 50, 75])
                    if values.min() < values.max():  # otherwise there is no scale
                        self._limits[k] = 100.0 * max(high - low, scales[k])
                self._range[:, k] = values.min(), values.max()

    def add(self, numbers: np.ndarray, place: Callable[[int], str]) -> None:
        """Look at some rows, whose places are given by their positions."""
        with np.errstate(over="ignore", invalid="ignore"):
            distances = np.abs(numbers - self.medians)
            far = distances > self._limits
            self._n_outside += ((numbers < self._range[0]) | (numbers > self._range[1])).sum(axis=0)
        self._n_rows += len(numbers)
        for k in np.flatnonzero(far.any(axis=0)).tolist():
            value = float(numbers[np.nanargmax(distances[:, k]), k])
            farthest, first = self.found.get(k, (value, place(int(np.argmax(far[:, k])))))
            if abs(value - self.medians[k]) < abs(farthest - self.medians[k]):
                value = farthest
            self.found[k] = value, first

    def growing(self) -> dict[int, float]:
        """Columns that leave the range of the first rows for good, as a date does, and the share of rows outside."""
        shares = self._n_outside / max(self._n_rows, 1)
        return {k: float(shares[k]) for k in np.flatnonzero(shares > self._GROWS).tolist()}


class Statistics(NamedTuple):
    """What has been learnt of the columns of numbers, which further rows do not change."""

    means: np.ndarray  # with ``missing: mean``
    counts: np.ndarray  # the numbers of values behind them
    offsets: np.ndarray  # NaN where there is none yet


class RowEncoder:
    """Turn values of a table into features, and learn statistics of columns and names of categories on the way.

    If ``frozen``, the means stay those of the schema. If ``centred``, its offsets are subtracted and the differences
    divided by its scales; the offset of a column which has none is its first value.
    """

    def __init__(self, schema: Schema, frozen: bool = False, centred: bool = False):
        self._schema, self._frozen, self._centred = schema, frozen, centred and len(schema.offsets) > 0
        none = np.nan if self._centred else 0.0
        offsets = [none if offset is None else offset for offset in schema.offsets or [0.0] * len(schema.numbers)]
        self._offsets = np.array(offsets, dtype=np.float64)
        self._scales = np.array(schema.scales or [1.0] * len(schema.numbers), dtype=np.float64)
        self._means, self._counts = np.array(schema.means, dtype=np.float64), np.array(schema.counts, dtype=np.int64)
        self._names = dict(schema.names)
        self._seen = np.zeros(1 << schema.bits if schema.categories else 0, dtype=bool)
        self._seen[list(self._names)] = True
        self._most_names = max(_MOST_NAMES // max(len(schema.categories), 1), _NAMES_OF_COLUMN)
        self._n_names = np.zeros(len(schema.categories), dtype=np.int64)  # by column
        starts = {column: f"{column}="[: _LONGEST_NAME - 3] for column in schema.categories}
        for name in self._names.values():
            of = max((column for column in starts if name.startswith(starts[column])), key=len, default=None)
            if of is not None:
                self._n_names[schema.categories.index(of)] += 1
        self._occurred = np.zeros_like(self._seen)  # positions of categories
        self._n_new = np.zeros(len(schema.categories), dtype=np.int64)  # by column, values that came for the first time
        self._n_values, self._n_unknown = (np.zeros(len(schema.categories), dtype=np.int64) for _ in range(2))
        self._first_unknown: dict[int, str] = {}  # by column

    def statistics(self) -> Statistics:
        """Statistics of the columns in the rows so far."""
        return Statistics(self._means.copy(), self._counts.copy(), self._offsets.copy())

    def schema(self, statistics: Statistics) -> Schema:
        """The schema with these statistics, and the names of the categories so far."""
        offsets = tuple(None if np.isnan(offset) else offset for offset in statistics.offsets.tolist())
        return replace(
            self._schema,
            names=tuple(self._names.items()),
            means=tuple(statistics.means.tolist()),
            counts=tuple(statistics.counts.tolist()),
            offsets=offsets if self._centred else self._schema.offsets,
        )

    def features(self, numbers: np.ndarray, categories: np.ndarray) -> Any:
        """Values, as in `base_table.TableRows`, as CSR rows of the schema's features, without zeros, indices sorted."""
        from scipy.sparse import csr_matrix

        schema = self._schema
        if schema.missing == "indicator" and (categories < 0).any():
            empty = [int(folded(seed_of(column), schema.bits)) for column in schema.categories]
            categories = np.where(categories < 0, np.array(empty), categories)
        n_rows, room = len(numbers), numbers.size + categories.size
        if schema.missing == "indicator":  # a missing number may set two features
            room += int(np.count_nonzero(np.isnan(numbers)))
        data, indices, indptr = np.empty(room), np.empty(room, np.int32), np.empty(n_rows + 1, np.int32)
        policy = ("error", "mean", "indicator").index(schema.missing)
        learnt = self._means, self._counts, self._frozen
        offsets = self._offsets, self._scales, self._centred
        n_entries = _assemble(
            numbers, categories, policy, schema.first_category, learnt, offsets, data, indices, indptr
        )
        X = csr_matrix((data[:n_entries], indices[:n_entries], indptr), shape=(n_rows, schema.n_features))
        X.has_canonical_format = True
        return X

    @property
    def _has_all_names(self) -> np.ndarray:
        """Of which columns of categories every category has a name, shape (n_columns,)."""
        return self._n_names < self._most_names

    def _without_name(self, categories: np.ndarray) -> np.ndarray:
        """Which categories of rows have no name, in columns that may have all."""
        return ~self._seen[categories] & (categories >= 0) & self._has_all_names

    def learn_names(self, categories: np.ndarray, text: Callable[[int, str], str]) -> None:
        """Take in the positions of categories of rows, whose values are given by row and column."""
        self._n_values += (categories >= 0).sum(axis=0)
        for k, column in enumerate(categories.T):
            new = np.unique(column[(column >= 0) & ~self._occurred[column]])
            self._occurred[new] = True
            self._n_new[k] += len(new)
        if not self._has_all_names.any():
            return
        for row, k in np.argwhere(self._without_name(categories)).tolist():
            position, column = int(categories[row, k]), self._schema.categories[k]
            if position not in self._names and self._n_names[k] < self._most_names:
                name = f"{column}={category_name(text(row, column))}"
                self._names[position] = name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 3] + "..."
                self._seen[position] = True
                self._n_names[k] += 1

    def count_unknown(self, categories: np.ndarray, text: Callable[[int, str], str]) -> None:
        """Count the categories of rows that the schema has no name of, in columns of which it has all names."""
        if not self._has_all_names.any():
            return
        unknown = self._without_name(categories)
        self._n_values += (categories >= 0).sum(axis=0)
        self._n_unknown += unknown.sum(axis=0)
        for k in np.flatnonzero(unknown.any(axis=0)).tolist():
            if k not in self._first_unknown:
                self._first_unknown[k] = text(int(np.argmax(unknown[:, k])), self._schema.categories[k])

    def ids(self) -> list[str]:
        """Columns of categories of which most values occur once."""
        often = (self._n_new >= _LEAST_OF_IDS) & (self._n_new > 0.5 * self._n_values)
        return [self._schema.categories[k] for k in np.flatnonzero(often).tolist()]

    def unknown_categories(self) -> list[str]:
        """A sentence on each column with categories that `count_unknown` has found."""
        return [
            f"column {self._schema.categories[k]!r}: {self._n_unknown[k]:,} of {self._n_values[k]:,} values did not "
            f"occur in the training and are ignored; the first: {first!r}"
            for k, first in sorted(self._first_unknown.items())
        ]


@njit()
def _assemble(numbers, categories, policy, first_category, learnt, of_columns, data, indices, indptr):
    """Fill the arrays of a CSR matrix; return the number of entries. ``policy``: 0 error, 1 mean, 2 indicator."""
    means, counts, frozen = learnt
    offsets, scales, centred = of_columns
    n_rows, n_numbers = numbers.shape
    n_categories = categories.shape[1]
    entry = 0
    indptr[0] = 0
    for row in range(n_rows):
        for j in range(n_numbers):
            value = numbers[row, j]
            if centred and value == value and offsets[j] != offsets[j]:
                offsets[j] = value if abs(value) <= _LARGEST_OFFSET else 0.0
            if policy == 1:
                if value != value:
                    value = means[j] if counts[j] > 0 else offsets[j]
                elif not frozen:
                    counts[j] += 1
                    # Both terms are halved first, so that means of very large values do not overflow.
                    means[j] += 2.0 * ((0.5 * value - 0.5 * means[j]) / counts[j])
            elif policy == 2 and value != value:
                value = offsets[j]
            if centred:
                value = (value - offsets[j]) / scales[j]  # NaN as long as all were missing: then no entry
                value = min(max(value, -LARGEST), LARGEST) if value == value else value
            if value == value and value != 0.0:
                data[entry] = value
                indices[entry] = j
                entry += 1
        if policy == 2:
            for j in range(n_numbers):
                if numbers[row, j] != numbers[row, j]:
                    data[entry] = 1.0
                    indices[entry] = n_numbers + j
                    entry += 1
        start = entry
        for j in range(n_categories):
            if categories[row, j] < 0:
                continue
            feature = first_category + categories[row, j]
            at = entry
            while at > start and indices[at - 1] > feature:
                at -= 1
            if at > start and indices[at - 1] == feature:  # two categories share it
                data[at - 1] += 1.0
                continue
            for place in range(entry, at, -1):
                data[place] = data[place - 1]
                indices[place] = indices[place - 1]
            data[at] = 1.0
            indices[at] = feature
            entry += 1
        indptr[row + 1] = entry
    return entry
