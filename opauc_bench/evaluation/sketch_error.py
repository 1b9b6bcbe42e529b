"""Errors of sketched second moments in the Frobenius norm: Figure 4 of Gao et al. 2016.

A has the rows of a class, whose second moments are S = A'A, d x d. A sketch is Z with Z Z' for S (frequent directions,
random low rank, hashing), or a sparse symmetric matrix B for S (Algorithm 3). No d x d matrix is formed, unless it is
small:

    |S - Z Z'|^2 = |S|^2 - 2 |A Z|^2 + |Z'Z|^2
    |S - B|^2    = |S|^2 - 2 <A, A B> + |B|^2
    |S|^2        = |A A'|^2, a block of rows at a time

Each term is rounded to a few eps |S|^2, eps = 2.2e-16. So an error of r |S| has a relative accuracy of a few eps / r^2:
nine digits at r = 1e-3 and one at 1e-7. Differences below zero count as zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import sparse

__all__ = ["second_moment_error", "second_moment_norm", "sketch_errors"]

_VALUES = 1 << 24  # of a dense block
_ROWS = 256  # of a block in the Gram matrix
_FEATURES = 4096  # A'A itself is no larger than a block


def second_moment_norm(A: Any) -> float:
    """Frobenius norm of A'A.

    Parameters
    ----------
    A : matrix of shape (n, d)
        The rows of one class: an ndarray, a sparse matrix, or an object that gives rows as an ndarray for a slice.

    Returns
    -------
    float
    """
    n, d = A.shape
    if d <= min(n, _FEATURES):
        moments = np.zeros((d, d))
        for rows in _blocks(n, _VALUES // d):
            block = _rows(A, rows)
            product = block.T @ block
            moments += product.toarray() if sparse.issparse(product) else product
        return float(np.linalg.norm(moments))
    total = 0.0
    for rows in _blocks(n, min(_ROWS, _VALUES // d)):
        # One column per row of the block. The Gram matrix is symmetric: the rows before the block are counted.
        block = _rows(A, rows)
        block = np.ascontiguousarray(block.toarray().T if sparse.issparse(block) else block.T)
        total += _square(_rows(A, rows) @ block)
        for others in _blocks(n, n if sparse.issparse(A) else _VALUES // d, rows.stop):
            total += 2.0 * _square(_rows(A, others) @ block)
    return float(np.sqrt(total))


def second_moment_error(A: Any, sketch: Any, norm: float | None = None) -> float:
    """Frobenius norm of the difference of A'A and a sketch.

    Parameters
    ----------
    A : matrix of shape (n, d)
        The rows of one class, as in `second_moment_norm`.
    sketch : ndarray of shape (d, m), or sparse matrix of shape (d, d)
        A dense array Z stands for Z Z', a sparse matrix for itself.
    norm : float, optional
        ``second_moment_norm(A)``, if it is known.

    Returns
    -------
    float
        See the module for its accuracy.

    Raises
    ------
    ValueError
        If the sketch is not of ``d`` features.
    """
    n, d = A.shape
    wanted = (d, d) if sparse.issparse(sketch) else (d,)
    if sketch.shape[: len(wanted)] != wanted:
        raise ValueError(f"expected a sketch of {d} features; got one of the shape {sketch.shape}")
    square = (second_moment_norm(A) if norm is None else norm) ** 2
    inner = 0.0
    for rows in _blocks(n, _VALUES // d):
        block = _rows(A, rows)
        product = block @ sketch
        if not sparse.issparse(sketch):
            inner += _square(product)
        elif sparse.issparse(block):
            inner += float(block.multiply(product).sum())
        else:
            inner += float((block * product).sum())
    own = _square(sketch) if sparse.issparse(sketch) else _square(sketch.T @ sketch)
    return float(np.sqrt(max(square - 2.0 * inner + own, 0.0)))


def sketch_errors(A: Any, sizes: Sequence[int], build: Callable, norm: float | None = None) -> np.ndarray:
    """Errors of one method at several sketch sizes, as shares of the norm of A'A.

    Parameters
    ----------
    A : matrix of shape (n, d)
        The rows of one class, in the order of their visit.
    sizes : sequence of int
        Sketch sizes tau.
    build : callable
        ``build(A, size)`` is a sketch as `second_moment_error` takes it.
    norm : float, optional
        ``second_moment_norm(A)``, if it is known.

    Returns
    -------
    ndarray of shape (n_sizes,)
        Times ``norm``, these are the errors of the paper. NaN where A'A is zero.
    """
    norm = second_moment_norm(A) if norm is None else norm
    errors = np.array([second_moment_error(A, build(A, size), norm) for size in sizes])
    return errors / norm if norm > 0 else np.full(len(sizes), np.nan)


def _blocks(n: int, step: int, start: int = 0):
    """Slices of ``start`` to ``n``."""
    step = max(1, step)
    return [slice(first, min(first + step, n)) for first in range(start, n, step)]


def _rows(A, rows: slice):
    """Some rows, as 64-bit floats."""
    block = A[rows]
    return block.astype(np.float64, copy=False) if sparse.issparse(block) else np.asarray(block, dtype=np.float64)


def _square(M) -> float:
    """Squared Frobenius norm."""
    if sparse.issparse(M):
        M = M.tocsr(copy=True)
        M.sum_duplicates()
        M = M.data
    values = np.ravel(M)
    return float(values @ values)
