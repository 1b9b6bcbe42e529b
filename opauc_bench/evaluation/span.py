"""Few wide rows: the same learning problem in as many dimensions as there are rows, from their inner products.

OPAUC, its sketches by frequent directions, random projection and hashing, OAM and the univariate losses start at zero
and add combinations of rows only. So they commute with rotations: on the coordinates of the rows in any orthonormal
basis of their span they give the same scores, in at most as many dimensions as there are rows. The coordinates follow
from the inner products alone. The bases here are

* the eigenvectors of the Gram matrix, for up to 3,000 rows: one basis for a dataset, with as many dimensions as its
  rank;
* that of Gram and Schmidt in the order of a visit, for more rows: the row at place t has t + 1 coordinates, so that
  half of them are zero and a pass needs room only for the coordinates so far.

The learners that take several rows at once need no basis: their weights are the coefficients of the rows, and scores
are sums of inner products.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular

__all__ = [
    "MOST_ROWS",
    "SECONDS_TO_GENERATE",
    "RowsByProducts",
    "TiesByRounding",
    "TriangularRows",
    "are_products_worth_it",
    "are_usable",
    "gram_matrix",
    "has_few_rows",
    "is_narrower",
    "seconds_for_gram_matrix",
    "seconds_for_products",
    "seconds_for_triangular_rows",
    "span_coordinates",
    "triangular_rows",
]

# The Gram matrix of so many rows takes 3.2 GB.
MOST_ROWS = 20_000
# The eigen-decomposition costs about 10 n^3 operations.
_FEW_ROWS = 3000
_BLOCK_BYTES = 64e6  # of few rows
_LARGE_BLOCK_BYTES = 512e6  # of more rows, which may be made again each time they are read
_PANEL = 512  # columns of a triangular factor between two checks of the limits
_SECONDS_PER_PRODUCT = 6e-11  # a multiplication and an addition in a matrix product
_SECONDS_TO_GATHER = 2e-9  # an inner product of stored ones
# An entry of a row that is computed when it is read: a cosine, and copies.
SECONDS_TO_GENERATE = 1.2e-8
# Added to each squared length, relative to itself: rounding makes the smallest eigenvalues negative, for rows of length
# 1 by less than n^2 times the machine precision (Demmel 1989), which the last value exceeds.
_SHIFTS = (1e-10, 1e-8, 1e-6)
# Squared distances between equal rows, relative to the squared length: what rounding may leave by inner products, and
# between rows that are computed when they are read.
_EQUAL_BY_PRODUCTS = 1e-13
_EQUAL_AS_READ = 1e-24
_EPS = float(np.finfo(float).eps)


def is_narrower(n_rows: int, n_features: int) -> bool:
    """Whether so many dense rows have few enough to work with their inner products: at most half of the dimensions."""
    return n_rows <= MOST_ROWS and 2 * n_rows <= n_features


def has_few_rows(n_rows: int) -> bool:
    """Whether `span_coordinates` are worth their cost, which `triangular_rows` are otherwise."""
    return n_rows <= _FEW_ROWS


def gram_matrix(X: Any, out: np.ndarray | None = None, check: Callable[[], None] = lambda: None) -> np.ndarray:
    """The Gram matrix: inner products of all rows.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Read by ``X[rows]``, which gives a dense array.
    out : ndarray of shape (n_samples, n_samples), optional
        Where to write them.
    check : callable, optional
        Called again and again; what it raises ends the work.

    Returns
    -------
    ndarray of shape (n_samples, n_samples)
        Equal rows have equal ones, to the last bit. Whether a search may use them is to be asked of `are_usable`: the
        diagonal is NaN for a row that differs from another one by less than inner products can tell.
    """
    n, d = X.shape
    step = _block(n, d)
    starts = range(0, n, step)
    gram = np.empty((n, n)) if out is None else out
    for a in starts:
        left = np.asarray(X[np.arange(a, min(a + step, n))], dtype=np.float64)
        for b in starts:
            if b > a:
                break
            right = left if a == b else np.asarray(X[np.arange(b, min(b + step, n))], dtype=np.float64)
            with np.errstate(over="ignore", invalid="ignore"):  # see `are_usable`
                product = left @ right.T
            gram[a : a + step, b : b + step] = product
            gram[b : b + step, a : a + step] = product.T
            check()
    if not are_usable(gram):
        return gram
    squares, first = gram.diagonal().copy(), np.arange(n)
    for start in range(0, n, _PANEL):
        panel = slice(start, start + _PANEL)
        first[panel] = _first_equal(gram[panel], squares[panel], squares)
        check()
    later = np.flatnonzero(first < np.arange(n))
    for rows in np.array_split(later, -(-len(later) // step) or 1):
        difference = np.asarray(X[rows], dtype=np.float64) - np.asarray(X[first[rows]], dtype=np.float64)
        differ = np.einsum("ij,ij->i", difference, difference) > _EQUAL_AS_READ * squares[rows]
        for row in rows[~differ]:
            gram[row] = gram[first[row]]
            gram[:, row] = gram[:, first[row]]
        gram[rows[differ], rows[differ]] = np.nan
        check()
    return gram


def are_usable(gram: np.ndarray) -> bool:
    """Whether settings can be compared by a Gram matrix: it is finite, and rows that differ have different rows of it.

    It overflows before the scores do.
    """
    return bool(np.isfinite(gram.diagonal()).all())


def _block(n_rows: int, n_features: int) -> int:
    """Rows that are read at a time."""
    return max(1, int((_BLOCK_BYTES if has_few_rows(n_rows) else _LARGE_BLOCK_BYTES) / (8 * n_features)))


def span_coordinates(gram: np.ndarray) -> np.ndarray:
    """Coordinates of all rows in an orthonormal basis of their span.

    Parameters
    ----------
    gram : ndarray of shape (n_samples, n_samples)
        Their inner products.

    Returns
    -------
    ndarray of shape (n_samples, rank)
        One column of zeros if all rows are zero.
        The inner products of its rows are ``gram``, up to rounding: an absolute error of about n 1e-16 times the
        largest eigenvalue for rows of about the same length; for others, relative to their lengths.
    """
    # Rounding would hide short rows behind long ones, so all get about the same length. Powers of two are exact.
    lengths = np.sqrt(gram.diagonal())
    exponents = 4 * np.rint(np.frexp(lengths / (lengths.max() or 1.0))[1] / 4).astype(int)
    values, vectors = np.linalg.eigh(np.ldexp(gram, -exponents - exponents[:, None]))
    kept = values > len(gram) * _EPS * max(values[-1], 0.0)
    kept[-1] = True
    coordinates = np.ascontiguousarray((vectors[:, kept] * np.sqrt(values[kept]))[:, ::-1])
    coordinates[lengths == 0.0] = 0.0  # exactly: some learners treat rows of zeros otherwise
    return np.ldexp(coordinates, exponents[:, None])[_first_equal(gram, gram.diagonal(), gram.diagonal())]


def _first_equal(products: np.ndarray, squares: np.ndarray, all_squares: np.ndarray) -> np.ndarray:
    """Of some rows, the first of all rows that each is equal to: equal rows are to have equal scores, to the last bit.

    ``products`` are inner products of some rows and all, ``squares`` and ``all_squares`` their squared lengths.
    """
    half = 0.5 * squares[:, None]  # two squares may overflow in a sum
    return np.argmax(half + 0.5 * all_squares - products <= _EQUAL_BY_PRODUCTS * half, axis=1)


class TiesByRounding:
    """Scores that would be equal on the rows themselves, and that rounding has moved apart.

    Two rows that differ in features without a weight only have equal scores on the rows. By coordinates or inner
    products the difference is some multiple of the machine precision, relative to the lengths of row and weights.

    Parameters
    ----------
    gram : ndarray of shape (n_samples, n_samples)
        Inner products of all rows of a dataset.
    tolerance : float
        Such differences are at most so large, relative to both lengths.
    """

    def __init__(self, gram: np.ndarray, tolerance: float):
        self._lengths, self._tolerance = np.sqrt(gram.diagonal()), tolerance

    @classmethod
    def of_coordinates(cls, gram: np.ndarray) -> TiesByRounding:
        """Ties of `span_coordinates`: eigenvectors have errors in proportion to their number."""
        return cls(gram, 32.0 * len(gram) * _EPS)

    @classmethod
    def of_triangular_rows(cls, gram: np.ndarray) -> TiesByRounding:
        """Ties of `triangular_rows`."""
        return cls(gram, 64.0 * math.sqrt(len(gram)) * _EPS)

    @classmethod
    def of_products(cls, gram: np.ndarray) -> TiesByRounding:
        """Ties of `RowsByProducts`."""
        return cls(gram, 64.0 * _EPS)

    def restored(self, scores: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Scores of some rows in the order that they have, those equal that differ by rounding only.

        ``scores`` has shape (len(rows), n_settings). The length of the weights is not known: the largest score for the
        length of its row, which is at most as large, stands for it. Settings with a score that overflows stay as they
        are.
        """
        lengths = self._lengths[rows]
        long = lengths > 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            of_weights = np.max(np.abs(scores[long]) / lengths[long, None], axis=0, initial=0.0)
        overflow = ~np.isfinite(of_weights)
        of_weights[overflow] = 0.0
        order = np.argsort(scores, axis=0, kind="stable")
        ordered = np.take_along_axis(scores, order, axis=0)
        error = self._tolerance * lengths[order] * of_weights
        with np.errstate(over="ignore", invalid="ignore"):
            apart = np.diff(ordered, axis=0) > np.maximum(error[1:], error[:-1])
        begins = np.zeros(scores.shape, dtype=np.intp)
        begins[1:] = np.maximum.accumulate(np.where(apart, np.arange(1, len(rows))[:, None], 0), axis=0)
        restored = np.empty_like(scores)
        np.put_along_axis(restored, order, np.take_along_axis(ordered, begins, axis=0), axis=0)
        restored[:, overflow] = scores[:, overflow]
        return restored


class RowsByProducts:
    """Rows by their inner products with those that are visited: the weights are coefficients of these.

    Read by ``X[rows]``, dense, as the rows of a dataset; for a learner that ``takes_blocks``.

    Parameters
    ----------
    gram : ndarray of shape (n_samples, n_samples)
        Inner products of all rows of a dataset.
    order : ndarray of int, shape (n_visited,)
        Distinct rows, in the order of the visit.
    n_features : int, optional
        So many of them alone, from the first one on.
    """

    def __init__(self, gram: np.ndarray, order: np.ndarray, n_features: int | None = None):
        self._gram, self._order = gram, order
        self._place = np.full(len(gram), -1)
        self._place[order] = np.arange(len(order))
        self.shape = (len(gram), len(order) if n_features is None else n_features)

    def __getitem__(self, rows: Any) -> np.ndarray:
        return np.asarray(self._gram[rows])[:, self._order[: self.shape[1]]]

    def places(self, rows: np.ndarray) -> np.ndarray:
        """Places of rows among those visited."""
        return self._place[rows]

    def visited(self, places: np.ndarray) -> np.ndarray:
        """The rows at some places."""
        return self[self._order[places]]

    def n_leading(self, rows: np.ndarray) -> int:
        """How many are visited until these rows have been."""
        return min(self.shape[1], int(self._place[rows].max(initial=-1)) + 1)

    def leading(self, n_features: int) -> RowsByProducts:
        """The rows by their inner products with the first ones alone."""
        return RowsByProducts(self._gram, self._order, n_features)


class TriangularRows:
    """Coordinates of rows in an orthonormal basis that begins with the row visited first.

    Read by ``X[rows]``, dense, as the rows of a dataset. The row at place t of the visit has no coordinates from
    t + 1 on.

    Parameters
    ----------
    factor : ndarray of shape (n_visited, n_features)
        Lower triangular.
    place : ndarray of int, shape (n_samples,)
        Of each row of the dataset in the order of the visit; -1 where it is not visited.
    """

    def __init__(self, factor: np.ndarray, place: np.ndarray):
        self._factor, self._place = factor, place
        self.shape = (len(place), factor.shape[1])

    def __getitem__(self, rows: Any) -> np.ndarray:
        places = self._place[rows]
        if np.any(places < 0):
            raise IndexError("rows that were not visited have no coordinates")
        return self._factor[places]

    def n_leading(self, rows: np.ndarray) -> int:
        """Coordinates from which on some rows, and all that are visited before them, have zeros only."""
        return min(self.shape[1], int(self._place[rows].max(initial=-1)) + 1)

    def leading(self, n_features: int) -> TriangularRows:
        """The first coordinates alone."""
        return TriangularRows(self._factor[:, :n_features], self._place)


def triangular_rows(gram: np.ndarray, order: np.ndarray, check: Callable[[], None] = lambda: None) -> TriangularRows:
    """Coordinates of some rows by the Cholesky decomposition of their inner products.

    Parameters
    ----------
    gram : ndarray of shape (n_samples, n_samples)
        Inner products of all rows of a dataset.
    order : ndarray of int, shape (n_visited,)
        Distinct rows, in the order of the visit.
    check : callable, optional
        Called again and again; what it raises ends the work.

    Returns
    -------
    TriangularRows
        Its inner products are those in ``gram``, up to rounding, with every squared length larger by a factor of
        1 + 1e-10: rows may depend on each other linearly. More, 1 + 1e-6 at most, where rounding requires it.
    """
    squares, first = np.asarray(gram.diagonal()[order]), np.arange(len(order))
    for shift in _SHIFTS:
        factor = np.empty((len(order), len(order)))
        for start in range(0, len(order), _PANEL):
            panel = slice(start, start + _PANEL)
            factor[panel] = gram[order[panel]][:, order]
            first[panel] = _first_equal(factor[panel], squares[panel], squares)
        factor.flat[:: len(order) + 1] += np.where(squares > 0.0, shift * squares, 1.0)
        try:
            _factorize(factor, check)
        except LinAlgError:
            if shift == _SHIFTS[-1]:
                raise
        else:
            break
    zero = np.flatnonzero(squares == 0.0)
    factor[zero, zero] = 0.0  # exactly, as above
    for row in np.flatnonzero(first < np.arange(len(order))):
        factor[row] = factor[first[row]]
    place = np.full(len(gram), -1)
    place[order] = np.arange(len(order))
    return TriangularRows(factor, place)


def _factorize(A: np.ndarray, check: Callable[[], None]) -> None:
    """Overwrite a symmetric matrix by its Cholesky factor, a panel of columns at a time."""
    for start, stop in itertools.pairwise([*range(0, len(A), _PANEL), len(A)]):
        A[start:, start:stop] -= A[start:, :start] @ A[start:stop, :start].T
        corner = A[start:stop, start:stop]
        corner[:] = cholesky(corner, lower=True, check_finite=False)
        A[stop:, start:stop] = solve_triangular(corner, A[stop:, start:stop].T, lower=True, check_finite=False).T
        A[start:stop, stop:] = 0.0
        check()


def seconds_for_gram_matrix(n_rows: int, n_features: int, seconds_to_read: float = 0.0) -> float:
    """Estimate what `gram_matrix` takes, in CPU seconds; ``seconds_to_read`` is for one entry of ``X``."""
    n_blocks = -(-n_rows // _block(n_rows, n_features))
    read = seconds_to_read * n_rows * n_features * (n_blocks + 1) / 2.0
    return _SECONDS_PER_PRODUCT * n_rows**2 * n_features / 2.0 + read


def seconds_for_triangular_rows(n_rows: float) -> float:
    """Estimate what `triangular_rows` takes, in CPU seconds."""
    return _SECONDS_PER_PRODUCT * n_rows**3 / 3.0


def seconds_for_products(n_rows: float, folds: int) -> float:
    """Estimate what reading `RowsByProducts` takes, in CPU seconds, in a search by inner folds."""
    return _SECONDS_TO_GATHER * folds * n_rows**2


def are_products_worth_it(
    learner: Any,
    shape: tuple[int, int],
    n_rows: float,
    n_settings: int,
    folds: int,
    n_repetitions: int,
    seconds_to_read: float = 0.0,
) -> bool:
    """Whether a search by inner folds takes less time with inner products than on the rows themselves.

    By the estimates of the learner. Inner products are computed once for all repetitions.

    Parameters
    ----------
    learner : Learner
    shape : tuple of int
        Of the dataset.
    n_rows : float
        Of the search.
    n_settings, folds, n_repetitions : int
    seconds_to_read : float
        For one entry of a row.
    """
    n, d = shape
    inner, half = n_rows * (folds - 1) / folds, math.ceil(n_rows / 2)
    passes = folds * learner.cost(inner, half, float(half), n_settings)[0]
    on_rows = folds * (learner.cost(inner, d, float(d), n_settings)[0] + seconds_to_read * n_rows * d)
    set_up = seconds_for_products(n_rows, folds) if learner.takes_blocks else seconds_for_triangular_rows(n_rows)
    return passes + set_up + seconds_for_gram_matrix(n, d, seconds_to_read) / n_repetitions < on_rows
