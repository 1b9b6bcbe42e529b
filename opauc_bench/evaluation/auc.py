"""The exact area under the ROC curve: the share of (positive, negative) pairs in the right order, ties as one half."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..kernels import njit

__all__ = [
    "AUCS",
    "AUC_DECIMALS",
    "auc_columns",
    "auc_of_prefixes",
    "auc_of_sorted",
    "auc_score",
    "positive_rows",
    "released_auc_columns",
]


AUC_DECIMALS = 12  # of an AUC, or of a mean or difference of some: what comes after them is rounding


def auc_score(y: Any, scores: Any) -> float:
    """Exact AUC of one scoring.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Two classes; the greater label is positive.
    scores : array-like of shape (n_samples,)

    Returns
    -------
    float
        NaN if any score is not finite.

    Raises
    ------
    ValueError
        If there are not exactly two classes, or the shapes differ.
    """
    scores = np.asarray(scores, dtype=np.float64)
    if scores.ndim != 1:
        raise ValueError(f"scores has to be one-dimensional; got shape {scores.shape}")
    return float(auc_columns(y, scores[:, None])[0])


def auc_columns(y: Any, scores: Any) -> np.ndarray:
    """Exact AUC of several scores of the same rows.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Two classes; the greater label is positive.
    scores : ndarray of shape (n_samples, n_settings)

    Returns
    -------
    ndarray of shape (n_settings,)
        NaN where any score of a column is not finite.

    Raises
    ------
    ValueError
        If there are not exactly two classes, or the shapes differ.
    """
    positive, scores = _checked(y, scores)
    # Column by column: most time is spent on sorting, and NumPy sorts contiguous numbers with vector instructions.
    aucs = np.full(scores.shape[1], np.nan)
    for g in range(scores.shape[1]):
        column = np.ascontiguousarray(scores[:, g])
        if np.isfinite(column).all():
            aucs[g] = auc_of_sorted(np.sort(column[positive]), np.sort(column[~positive]))
    return aucs


def auc_of_prefixes(y: Any, scores: Any, ends: Any) -> np.ndarray:
    """Exact AUC of the first rows, for several numbers of them, in O(n log n).

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        At most two classes; the greater label is positive.
    scores : array-like of shape (n_samples,)
        Finite.
    ends : array-like of int
        Numbers of rows, ascending, from 1 on.

    Returns
    -------
    ndarray of shape (len(ends),)
        NaN where the rows have one class.
    """
    y = np.asarray(y)
    ranks = np.unique(scores, return_inverse=True)[1].astype(np.int64)
    return _auc_of_prefixes(y == y.max(), ranks, np.asarray(ends, dtype=np.int64))


def released_auc_columns(y: Any, scores: Any) -> np.ndarray:
    """AUC as computed by the program of the FTRL-AUC paper; parameters as in `auc_columns`.

    Rows are sorted from the largest score to the smallest, equal scores in the order of the rows, and the trapezoids
    below the ROC curve are added up, except the last one. If no scores are equal and the row with the lowest one is
    negative, as nearly always, the result is ``1 / n_negative`` less than the area.
    """
    positive, scores = _checked(y, scores)
    n_pairs = np.count_nonzero(positive) * np.count_nonzero(~positive)
    aucs = np.full(scores.shape[1], np.nan)
    for g in range(scores.shape[1]):
        if np.isfinite(scores[:, g]).all():
            ordered = positive[np.argsort(-scores[:, g], kind="stable")]
            # A negative has a trapezoid as high as the share of positives above it; a positive has none.
            above = np.cumsum(ordered)[:-1]
            aucs[g] = int(above[~ordered[:-1]].sum()) / n_pairs
    return aucs


AUCS = {"exact": auc_columns, "released": released_auc_columns}


def positive_rows(y: Any) -> np.ndarray:
    """Which rows have the greater one of two labels; ValueError if there are not exactly two."""
    classes = np.unique(y)
    if len(classes) != 2 or classes[1] != classes[1]:  # NaN comes last
        raise ValueError(f"metrics need rows of two classes; got the labels {classes.tolist()[:5]}")
    return np.asarray(y) == classes[1]


def _checked(y, scores) -> tuple[np.ndarray, np.ndarray]:
    """Which rows are positive, and the scores as floats."""
    y, scores = np.asarray(y), np.asarray(scores, dtype=np.float64)
    positive = positive_rows(y)
    if y.ndim != 1 or scores.ndim != 2 or len(y) != len(scores):
        raise ValueError(f"expected labels of shape (n,) and scores of shape (n, k); got {y.shape} and {scores.shape}")
    return positive, scores


@njit()
def _auc_of_prefixes(positive, ranks, ends):
    """Count twice the pairs in order plus the ties as rows come; a Fenwick tree for each class has its ranks so far."""
    aucs, k = np.full(len(ends), np.nan), 0
    trees, counts, twice = np.zeros((2, ranks.max() + 2), dtype=np.int64), np.zeros(2, dtype=np.int64), 0
    for t in range(len(ranks)):
        own, other = (1, 0) if positive[t] else (0, 1)
        below, up_to = _count_below(trees[other], ranks[t]), _count_below(trees[other], ranks[t] + 1)
        twice += below + up_to if own == 1 else 2 * counts[other] - below - up_to
        counts[own] += 1
        place = ranks[t] + 1
        while place < trees.shape[1]:
            trees[own, place] += 1
            place += place & -place
        while k < len(ends) and ends[k] == t + 1:
            if counts[0] > 0 and counts[1] > 0:
                aucs[k] = twice / (2.0 * counts[1] * counts[0])
            k += 1
    return aucs


@njit()
def _count_below(tree, rank):
    total = 0
    while rank > 0:
        total += tree[rank]
        rank &= rank - 1
    return total


@njit()
def auc_of_sorted(positives, negatives):
    """Return the AUC of sorted scores: merge them, and count twice the pairs in order plus the ties, in integers.

    Parameters
    ----------
    positives, negatives : ndarray of shape (n,) and (m,), float64
        Of each class, ascending; at least one.
    """
    below, up_to, twice = 0, 0, 0
    n = len(negatives)
    for score in positives:
        while below < n and negatives[below] < score:
            below += 1
        while up_to < n and negatives[up_to] <= score:
            up_to += 1
        twice += below + up_to
    return twice / (2.0 * len(positives) * n)
