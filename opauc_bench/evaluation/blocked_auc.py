"""AUC of pairs within blocks of rows: for scores that only rows of the same block can be compared by.

Of block b, let n_b be the number of pairs of a positive and a negative, and c_b how many of them are in the right
order, ties as one half. The AUC is A = sum c_b / sum n_b. Blocks are independent of each other, so that the variance
of this ratio is sum (c_b - A n_b)^2 / (sum n_b)^2. That of the difference D of two AUCs on the same rows has
c_b - c'_b - D n_b instead: scores that rank alike have a difference that is known much better than either AUC.

A positive is compared with the negatives of its block only. That costs little: most of the variance of an AUC comes
from which positives there are, and blocks of 64 rows have enough negatives for each.
"""

from __future__ import annotations

import numpy as np

from ..kernels import njit

__all__ = ["BlockedAUC"]

_MOST_PAIRS_PER_ROW = 16  # with more, sorting is faster


class BlockedAUC:
    """AUCs of several scores of the same rows, within blocks.

    Parameters
    ----------
    positive : ndarray of bool, shape (n_samples,)
    scores : ndarray of shape (n_samples, n_settings)
        Finite.
    lengths : sequence of int
        How many rows the blocks have, in their order.

    Attributes
    ----------
    n_blocks : int
        Blocks with rows of both classes.
    aucs : ndarray of shape (n_settings,)
        NaN if there are none.
    """

    def __init__(self, positive: np.ndarray, scores: np.ndarray, lengths: np.ndarray):
        ends = np.cumsum(np.asarray(lengths, dtype=np.int64))
        self._pairs, self._ordered = np.zeros(len(ends)), np.zeros((len(ends), scores.shape[1]))
        _count(positive, np.ascontiguousarray(scores), ends, self._pairs, self._ordered)
        self.n_blocks = int(np.count_nonzero(self._pairs))
        with np.errstate(invalid="ignore"):
            self.aucs = self._ordered.sum(axis=0) / self._pairs.sum()

    def standard_errors(self, behind: int | None = None) -> np.ndarray:
        """Standard errors of the AUCs, or of their differences to that of one setting; shape (n_settings,)."""
        ordered, aucs = self._ordered, self.aucs
        if behind is not None:
            ordered, aucs = ordered - ordered[:, [behind]], aucs - aucs[behind]
        errors = ordered - aucs * self._pairs[:, None]
        with np.errstate(invalid="ignore"):
            return np.sqrt((errors**2).sum(axis=0)) / self._pairs.sum()


@njit()
def _count(positive, scores, ends, pairs, ordered):
    start = 0
    for b in range(len(ends)):
        rows = slice(start, ends[b])
        n_positive = np.count_nonzero(positive[rows])
        pairs[b] = n_positive * (len(positive[rows]) - n_positive)
        if pairs[b] > _MOST_PAIRS_PER_ROW * len(positive[rows]):
            _count_by_sorting(positive[rows], scores[rows], ordered[b])
        else:
            _count_by_pairs(positive[rows], scores[rows], ordered[b])
        start = ends[b]


@njit()
def _count_by_pairs(positive, scores, ordered):
    for i in range(len(positive)):
        if not positive[i]:
            continue
        for j in range(len(positive)):
            if positive[j]:
                continue
            for g in range(len(ordered)):
                ordered[g] += 1.0 * (scores[i, g] > scores[j, g]) + 0.5 * (scores[i, g] == scores[j, g])


@njit()
def _count_by_sorting(positive, scores, ordered):
    for g in range(len(ordered)):
        negatives = np.sort(scores[:, g].copy()[~positive])
        for i in range(len(positive)):
            if positive[i]:
                below = np.searchsorted(negatives, scores[i, g], "left")
                ordered[g] += 0.5 * (below + np.searchsorted(negatives, scores[i, g], "right"))
