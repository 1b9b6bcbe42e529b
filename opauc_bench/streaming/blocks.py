"""A stream of rows, cut into blocks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy import sparse

from ..learners.rows import csr_rows, rows_between

__all__ = ["SHORT_BLOCK", "Blocks", "Rows"]

Rows = tuple[sparse.csr_matrix, np.ndarray]  # and which of them are positive, boolean

# Rows of a block, powers of two: a short one has scores of the latest weights, a long one costs less for each row.
SHORT_BLOCK, _LONG_BLOCK = 64, 1024
_BLOCKS_BEFORE = 64  # a block is no longer than this share of the rows before it, unless it is a short one


class Blocks:
    """Cut pieces of rows into blocks that end at fixed numbers of rows, whatever the pieces are.

    Parameters
    ----------
    n_rows : int
        Rows of earlier blocks.
    waiting : Rows, optional
        Rows after these blocks, too few for another one.

    Attributes
    ----------
    n_rows : int
        Rows of all blocks so far.
    """

    def __init__(self, n_rows: int = 0, waiting: Rows | None = None):
        self.n_rows = n_rows
        self._waiting: list[Rows] = []
        self._n_waiting = 0
        if waiting is not None:
            self._wait(*waiting)

    def add(self, X: sparse.csr_matrix, positive: np.ndarray) -> Iterator[Rows]:
        """Yield the blocks that end in these rows; the last few rows wait for more."""
        start, n = 0, X.shape[0]
        while (length := self._next_length()) <= self._n_waiting + n - start:
            stop = start + length - self._n_waiting
            block = rows_between(X, start, stop), positive[start:stop]
            if self._n_waiting:
                self._wait(*block)
                block = self._joined()
            self.n_rows += length
            yield block
            start = stop
        if start < n:
            self._wait(rows_between(X, start, n), positive[start:])

    def rest(self) -> Rows | None:
        """Return the rows that wait for more as the last block, or None if there are none."""
        if not self._n_waiting:
            return None
        self.n_rows += self._n_waiting
        return self._joined()

    def waiting(self) -> Rows:
        """The rows that wait for more; they go on waiting."""
        if not self._n_waiting:
            return sparse.csr_matrix((0, 0)), np.zeros(0, dtype=bool)
        rows = self._joined()
        self._wait(*rows)
        return rows

    def _wait(self, X: sparse.csr_matrix, positive: np.ndarray) -> None:
        self._waiting.append((X, positive))
        self._n_waiting += X.shape[0]

    def _next_length(self) -> int:
        """Rows of the next block: as many as the rows before it allow."""
        allowed = 1 << (self.n_rows // _BLOCKS_BEFORE).bit_length() >> 1
        return min(max(SHORT_BLOCK, allowed), _LONG_BLOCK)

    def _joined(self) -> Rows:
        """Take all rows that were waiting."""
        waiting, self._waiting, self._n_waiting = self._waiting, [], 0
        if len(waiting) == 1:
            return waiting[0]
        pieces, classes = zip(*waiting)
        starts = np.cumsum([0, *(X.nnz for X in pieces)])
        rows = csr_rows(
            np.concatenate([X.data for X in pieces]),
            np.concatenate([X.indices for X in pieces]),
            np.concatenate([pieces[0].indptr[:1], *(X.indptr[1:] + start for X, start in zip(pieces, starts))]),
            max(X.shape[1] for X in pieces),
        )
        return rows, np.concatenate(classes)
