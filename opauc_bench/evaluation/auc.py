"""The exact area under the ROC curve: the share of (positive, negative) pairs in the right order, ties as one half."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..kernels import njit

__all__ = ["AUCS", "auc_columns", "auc_of_sorted", "auc_score", "positive_rows", "released_auc_columns"]


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


def released_auc_columns(y: Any, scores: Any) -> np.ndarray:
    """AUC as computed by the program of the FTRL-AUC paper; parameters as in `auc_columns`.

    Rows are sorted from the largest score to the smallest, equal scores in the order of the rows, and the trapezoids
    below the ROC curve are added up, except the last one. If the row with the lowest score is negative, as nearly
    always, the result is ``1 / n_negative`` less than the area.
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
