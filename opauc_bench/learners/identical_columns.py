"""Features that have the same value in every training row, so that one of them can be trained for all.

In text most features occur in one row only, and those of one row are all the same to a learner that begins with zeros
and moves a weight by its feature's values, by sums of them and by inner products. Such a learner may train one weight
for each group of identical columns, if its inner products count it as often as there are columns in the group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from scipy import sparse

__all__ = ["ColumnGroups", "identical_columns"]

_COLUMNS_AT_ONCE = 1 << 14


@dataclass(frozen=True)
class ColumnGroups:
    """Groups of identical columns, in the order in which rows have them first. Columns of zeros are in none."""

    features: np.ndarray  # (n_groups,), the column that stands for each group
    sizes: np.ndarray  # (n_groups,), columns of each group
    place: np.ndarray  # (n_columns,), the group of each column, -1 for a column of zeros

    def expand(self, weights: np.ndarray, into: np.ndarray, settings: np.ndarray) -> None:
        """Write weights of groups, shape (n_groups, n), to all their rows in the columns ``settings`` of ``into``."""
        columns = np.flatnonzero(self.place >= 0)
        for start in range(0, len(columns), _COLUMNS_AT_ONCE):
            some = columns[start : start + _COLUMNS_AT_ONCE]
            into[np.ix_(some, settings)] = weights[self.place[some]]


def identical_columns(chunks: Callable[[], Iterable[sparse.csr_matrix]], n_columns: int) -> ColumnGroups:
    """Find identical columns of the rows that ``chunks`` returns, twice, piece by piece; they store no zeros.

    Columns with equal hashes are compared value by value, so that what is returned is exact whatever the hashes.
    """
    hashes, first_row = _hashes(chunks(), n_columns)
    seen = np.flatnonzero(first_row >= 0)
    _, of_group, group = np.unique(hashes[seen], return_index=True, return_inverse=True)
    stands_for = np.full(n_columns, -1)
    stands_for[seen] = seen[of_group[group]]
    different = _different(chunks(), seen, stands_for)
    stands_for[different] = different

    features = np.flatnonzero(stands_for == np.arange(n_columns))
    features = features[np.argsort(first_row[features], kind="stable")]
    place = np.full(n_columns, -1)
    place[features] = np.arange(len(features))
    place[seen] = place[stands_for[seen]]
    return ColumnGroups(features, np.bincount(place[seen], minlength=len(features)).astype(float), place)


def _hashes(chunks: Iterable[sparse.csr_matrix], n_columns: int) -> tuple[np.ndarray, np.ndarray]:
    """For each column, a sum modulo 2^64 over its values and their rows, and the row that has it first or else -1."""
    hashes, first_row = np.zeros(n_columns, dtype=np.uint64), np.full(n_columns, -1)
    rng, n_rows = np.random.default_rng(0), 0
    for chunk in chunks:
        keys = rng.integers(2**64, size=chunk.shape[0], dtype=np.uint64)
        rows = np.repeat(np.arange(chunk.shape[0]), np.diff(chunk.indptr))
        np.add.at(hashes, chunk.indices, _mixed(chunk.data.astype(np.float64).view(np.uint64) ^ keys[rows]))
        # The last assignment to a place is the one that stays: the first row.
        new = np.flatnonzero(first_row[chunk.indices] < 0)[::-1]
        first_row[chunk.indices[new]] = n_rows + rows[new]
        n_rows += chunk.shape[0]
    return hashes, first_row


def _mixed(bits: np.ndarray) -> np.ndarray:
    """A one-to-one function of 64 bits, each bit of which depends on all of them (the last steps of splitmix64)."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def _different(chunks: Iterable[sparse.csr_matrix], seen: np.ndarray, stands_for: np.ndarray) -> np.ndarray:
    """Those columns of ``seen`` that differ from the column that is to stand for them in any row."""
    differs = np.zeros(len(stands_for), dtype=bool)
    others = seen[stands_for[seen] != seen]
    for chunk in chunks:
        difference = (chunk[:, others] - chunk[:, stands_for[others]]).tocsr()
        differs[others[difference.indices[difference.data != 0]]] = True
    return np.flatnonzero(differs)
