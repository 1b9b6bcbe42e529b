"""Coordinates of rows in an orthonormal basis of their span: the same learning problem in fewer dimensions.

OPAUC, its sketches by frequent directions, random projection and hashing, OAM and the univariate losses start at zero
and add combinations of rows only. So they commute with rotations: on the coordinates of the rows in any orthonormal
basis of their span they give the same scores, in at most as many dimensions as there are rows. The coordinates follow
from the inner products alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["MOST_ROWS", "is_narrower", "span_coordinates"]

# The eigen-decomposition of the Gram matrix costs about 10 n^3 operations.
MOST_ROWS = 3000
_BLOCK_BYTES = 64e6


def is_narrower(n_rows: int, n_features: int) -> bool:
    """Whether coordinates of so many dense rows pay off: at most half of the dimensions, at a small cost."""
    return n_rows <= MOST_ROWS and 2 * n_rows <= n_features


def span_coordinates(X: Any) -> np.ndarray:
    """Coordinates of all rows in an orthonormal basis of their span.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Read by ``X[rows]``, which gives a dense array.

    Returns
    -------
    ndarray of shape (n_samples, rank)
        Inner products of its rows are those of the rows of ``X``, up to rounding: an absolute error of about
        n 1e-16 times the largest eigenvalue of ``X X'``.
    """
    n, d = X.shape
    step = max(1, int(_BLOCK_BYTES / (8 * d)))
    starts = range(0, n, step)
    gram = np.empty((n, n))
    for a in starts:
        left = np.asarray(X[np.arange(a, min(a + step, n))], dtype=np.float64)
        for b in starts:
            if b > a:
                break
            right = left if a == b else np.asarray(X[np.arange(b, min(b + step, n))], dtype=np.float64)
            product = left @ right.T
            gram[a : a + step, b : b + step] = product
            gram[b : b + step, a : a + step] = product.T
    values, vectors = np.linalg.eigh(gram)
    kept = values > n * np.finfo(float).eps * max(values[-1], 0.0)
    coordinates = np.ascontiguousarray((vectors[:, kept] * np.sqrt(values[kept]))[:, ::-1])
    coordinates[gram.diagonal() == 0.0] = 0.0  # exactly: some learners treat rows of zeros otherwise
    return coordinates
