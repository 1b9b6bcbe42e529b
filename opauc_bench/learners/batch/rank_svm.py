"""RankSVM with the squared hinge loss over all pairs, by truncated Newton steps along the regularisation path.

With the scores s = X w and the mean over the P = n+ n- pairs of a positive i and a negative j,

    J(w) = lam/2 |w|^2 + R(w),        R(w) = 1/P sum_ij max(0, 1 - s_i + s_j)^2.

**Pairs by sorting.** Let positives lose 1/2 and negatives gain 1/2, u = s - y/2: the pair (i, j) has a loss where
u_i < u_j, and the loss is (u_j - u_i)^2. So with D the Laplacian matrix of the graph of these pairs,

    R = u'Du / P,        gradient lam w + 2/P X'Du,        Hessian lam I + 2/P X'DX,

and in the order of u a product D z takes prefix sums: (D z)_i = n_i z_i - (sum of z_j over the n_i negatives above i),
and likewise for negatives with the positives below. That is O(n log n) for the sort and O(n) for each product. The
gradient is continuous; where the Hessian jumps, any of its values serves as the generalised Hessian.

**Steps.** Conjugate gradients solve for the Newton step roughly, and an exact line search on the slope, which is
piecewise linear, follows where the full step does not reduce the gradient enough. Each lambda starts from the solution
of the next larger one.

**Few features.** X'DX takes O(n d^2) on dense rows and O(n k^2 + m k d) on sparse ones, with k nonzeros in a row and m
rows in the smaller class. For small lambda, conjugate gradients may need more time than that. The first step that does
not end within as many products as the matrix is worth, and all steps after it, take the matrix and its Cholesky factor.

**Stopping.** J is strongly convex with the modulus lam, so |w - w*| <= |g| / lam and J(w) - J* <= |g|^2 / (2 lam).
Steps end at |g| <= 1e-8 lam |w|: the weights are off by at most 1e-8 |w| in the 2-norm, whatever else is in the grid,
and the gap is at most 1e-16 lam/2 |w|^2. That is 1e-16 of both J and, nearly, of 1 - J*, which is at least
lam/2 |w*|^2, because R is convex and R(0) = 1. Where lam is so small that rounding alone makes the gradient larger than
that, steps end there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import sparse
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.sparse.linalg import LinearOperator, cg

from ...kernels import njit
from ..parameters import POSITIVE
from ..rows import rows_of
from .base import BatchLearner, Tick

__all__ = ["ActivePairs", "RankSVML2", "squared_hinge_path"]

_ACCURACY = 1e-8  # of the gradient beside lam |w|
_ENOUGH = 0.25  # what a full step has to leave of the gradient at most
_STEPS = 200  # Newton steps for one lambda
_PRODUCTS = 500  # Hessian products for one step
_LONGEST = 2.0**20  # times the Newton step
_FACTOR_SPEED = 6e10  # d^3 over the seconds of a Cholesky factor
_FAR = 1e3  # times the gradient at which steps are to end


class RankSVML2(BatchLearner):
    """Batch ranking SVM with the squared hinge loss (RankSVM, L2 loss).

    Minimises ``lam/2 |w|^2`` plus the mean over pairs of a positive and a negative example of the squared hinge loss,
    by truncated Newton steps. With a weight C of the sum over pairs beside ``|w|^2 / 2``, ``lam`` is
    1 / (C n_positive n_negative).

    Parameters
    ----------
    lam : float, default=2**-7
        Regularisation; multiplies ``|w|^2 / 2`` beside the mean over pairs of ``max(0, 1 - w'(x_i - x_j))^2``.

    Notes
    -----
    A gradient or a product with the Hessian takes O(nnz + n log n); the Hessian itself is formed where that takes less
    time than the products. The weights are within 1e-8 of the minimiser, relative to their 2-norm, unless rounding
    prevents it. The text of the paper was not available: the method is
    derived in the module. The authors' program, an extension of LIBLINEAR, has a trust region and selection trees in
    place of the line search and prefix sums, which suffice for two classes.

    References
    ----------
    C.-P. Lee, C.-J. Lin: Large-scale linear RankSVM. Neural Computation 26 (2014) 781-817.
    """

    version = 2
    grid_axes = ("lam",)
    parameter_constraints: ClassVar = {"lam": POSITIVE}
    path_tolerance = 1e-6

    def __init__(self, lam: float = 2**-7):
        self.lam = lam

    def _fit_path(self, X, y, settings, tick):
        return squared_hinge_path(X, y, settings["lam"], tick=tick), None

    def cost(self, n_rows, n_features, n_nonzero, n_settings):
        product = _product_seconds(n_rows, n_nonzero)
        # The widest matrix whose factor takes less time than the products it replaces.
        width = min(n_features, (_PRODUCTS * product * _FACTOR_SPEED) ** (1 / 3))
        numbers = n_features * (n_settings + 10) + 20 * n_rows + 3 * n_rows * n_nonzero + 2 * width**2
        return (40 + 120 * n_settings) * product, 8.0 * numbers


class ActivePairs:
    """The pairs that have a loss at given scores, as the Laplacian matrix D of their graph.

    Parameters
    ----------
    scores : ndarray of shape (n_samples,)
    y : ndarray of shape (n_samples,)
        Labels, -1 or +1, both of them present.

    Attributes
    ----------
    shifted : ndarray of shape (n_samples,)
        Scores, lowered by 1/2 for positives and raised by 1/2 for negatives: the loss of an active pair is the square
        of their difference, and the sum of all losses is ``shifted @ times(shifted)``.
    """

    def __init__(self, scores: np.ndarray, y: np.ndarray):
        self.shifted = scores - 0.5 * y
        self._order = np.argsort(self.shifted)
        self._positive = (y[self._order] > 0).astype(np.float64)
        positives_below = np.cumsum(self._positive)
        negatives_below = np.arange(1.0, len(y) + 1.0) - positives_below
        self._degrees = np.where(self._positive, negatives_below[-1] - negatives_below, positives_below)

    def times(self, z: np.ndarray) -> np.ndarray:
        """D z, of shape (n_samples,), in O(n_samples)."""
        # D has the constants in its null space: without the mean less cancels.
        return _laplacian_times(self._order, self._positive, self._degrees, z - z.mean())

    def quadratic_form(self, X) -> np.ndarray:
        """X'DX, of shape (n_features, n_features), for an array in C order or a CSR matrix X."""
        if not sparse.issparse(X):
            return X.T @ _laplacian_times_rows(self._order, self._positive, self._degrees, X)
        n_positive = self._positive.sum()
        fewer_positives = 2.0 * n_positive <= len(self._positive)
        in_smaller = self._positive if fewer_positives else 1.0 - self._positive
        # From the top for positives, who lose against negatives above; from the bottom for negatives.
        k = slice(None, None, -1) if fewer_positives else slice(None)
        half = _half_quadratic_form(self._order[k], in_smaller[k], self._degrees[k], *rows_of(X), X.shape[1])
        return half + half.T


@njit(fastmath={"contract"})
def _laplacian_times(order, positive, degrees, z):
    """D z from rows in the order of their shifted scores, whose classes are 1 (positive) or 0; without branches."""
    product = np.empty(len(z))
    positives_below = 0.0
    for k in range(len(z)):
        value = z[order[k]]
        product[order[k]] = degrees[k] * value - (1.0 - positive[k]) * positives_below
        positives_below += positive[k] * value
    negatives_above = 0.0
    for k in range(len(z) - 1, -1, -1):
        product[order[k]] -= positive[k] * negatives_above
        negatives_above += (1.0 - positive[k]) * z[order[k]]
    return product


@njit(fastmath={"contract"})
def _laplacian_times_rows(order, positive, degrees, X):
    """D X for dense rows."""
    n_samples, n_features = X.shape
    product = np.empty((n_samples, n_features))
    positives_below = np.zeros(n_features)
    for k in range(n_samples):
        i = order[k]
        for f in range(n_features):
            product[i, f] = degrees[k] * X[i, f] - (1.0 - positive[k]) * positives_below[f]
            positives_below[f] += positive[k] * X[i, f]
    negatives_above = np.zeros(n_features)
    for k in range(n_samples - 1, -1, -1):
        i = order[k]
        for f in range(n_features):
            product[i, f] -= positive[k] * negatives_above[f]
            negatives_above[f] += (1.0 - positive[k]) * X[i, f]
    return product


@njit(fastmath={"contract"})
def _half_quadratic_form(order, in_smaller, degrees, indptr, indices, data, n_features):
    """A with A + A' = X'DX: half of the diagonal of D, and each row of the smaller class with the sum of its pairs."""
    half = np.zeros((n_features, n_features))
    larger_sum = np.zeros(n_features)  # of the rows of the larger class so far
    for k in range(len(order)):
        row = range(indptr[order[k]], indptr[order[k] + 1])
        for a in row:
            scaled = 0.5 * degrees[k] * data[a]
            of_feature = half[indices[a]]
            for b in row:
                of_feature[indices[b]] += scaled * data[b]
            if in_smaller[k] > 0.0:
                for f in range(n_features):
                    of_feature[f] -= data[a] * larger_sum[f]
        if in_smaller[k] == 0.0:
            for a in row:
                larger_sum[indices[a]] += data[a]
    return half


def squared_hinge_path(X, y: np.ndarray, lam: np.ndarray, *, tick: Tick = lambda: None) -> np.ndarray:
    """Minimise lam/2 |w|^2 plus the mean squared hinge loss over pairs, for every lambda.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,)
        Labels, -1 or +1, both of them present.
    lam : ndarray of shape (n_lam,)
        Positive, in any order: solved from the largest to the smallest.
    tick : callable
        Called after each Newton step; what it raises ends the search.

    Returns
    -------
    ndarray of shape (n_features, n_lam)
        NaN where steps end far from the minimiser, as they do when squares of the features overflow.
    """
    problem = _Problem(X, y)
    coef = np.full((X.shape[1], len(lam)), np.nan)
    if not np.isfinite(problem.longest_row):
        return coef
    w = np.zeros(X.shape[1])
    for k in np.argsort(-lam, kind="stable"):
        coef[:, k] = found = _minimise(problem, w, float(lam[k]), tick)
        w = found if np.isfinite(found).all() else w
    return coef


@dataclass(frozen=True)
class _Point:
    """Weights, their scores, the pairs that have a loss there, and the gradient."""

    w: np.ndarray
    scores: np.ndarray
    pairs: ActivePairs
    gradient: np.ndarray


class _Problem:
    """Gradients and Hessian products of the objective."""

    def __init__(self, X, y):
        self.X, self.y = X, y
        n_positive = int(np.count_nonzero(y > 0))
        self.per_pair = 2.0 / (n_positive * (len(y) - n_positive))
        squares = X.multiply(X).sum(axis=1) if sparse.issparse(X) else np.einsum("ij,ij->i", X, X)
        self.longest_row = np.sqrt(np.max(squares))
        self.matrix_worth = _matrix_worth(X, min(n_positive, len(y) - n_positive))
        self.takes_matrix = False

    def slopes(self, pairs: ActivePairs) -> np.ndarray:
        """The gradient of R with respect to the scores."""
        return self.per_pair * pairs.times(pairs.shifted)

    def at(self, w, scores, lam) -> _Point:
        pairs = ActivePairs(scores, self.y)
        return _Point(w, scores, pairs, lam * w + np.asarray(self.X.T @ self.slopes(pairs)))

    def wanted(self, point: _Point, lam) -> float:
        """The norm of the gradient at which steps end."""
        weights = lam * np.linalg.norm(point.w)
        # The mean of |u_j - u_i| over active pairs is at most 1 + max s - min s, and each pair has two rows.
        terms = 4.0 * self.longest_row * (1.0 + np.ptp(point.scores)) + weights
        return float(max(_ACCURACY * weights, np.finfo(float).eps * terms))

    def newton_step(self, point: _Point, lam, accuracy) -> np.ndarray:
        """H p = -gradient, solved to a relative residual of ``accuracy``."""

        def hessian(v):
            return lam * v + self.per_pair * np.asarray(self.X.T @ point.pairs.times(np.asarray(self.X @ v)))

        def solved(most):
            H = LinearOperator((len(point.w), len(point.w)), hessian, dtype=float)
            return cg(H, -point.gradient, rtol=accuracy, maxiter=most)

        if not self.takes_matrix:
            most = min(_PRODUCTS, self.matrix_worth)
            step, unfinished = solved(most)
            if not unfinished or most == _PRODUCTS:
                return step
            self.takes_matrix = True
        matrix = self.per_pair * point.pairs.quadratic_form(self.X)
        matrix[np.diag_indices_from(matrix)] += lam
        try:
            factor = cho_factor(matrix, overwrite_a=True, check_finite=False)
            return cho_solve(factor, -point.gradient, check_finite=False)
        except LinAlgError:  # lambda is small beside the rounding errors of the matrix, or numbers have overflowed
            return solved(_PRODUCTS)[0]


def _product_seconds(n_rows: float, n_nonzero: float) -> float:
    """Seconds of one product with the Hessian."""
    return 3e-5 + n_rows * (5e-9 + 1e-9 * n_nonzero)


def _matrix_worth(X, n_few: int) -> int:
    """The number of products that take as long as the matrix X'DX and its Cholesky factor."""
    n_samples, n_features = X.shape
    if sparse.issparse(X):
        n_nonzero = X.nnz / n_samples
        matrix = X.nnz * n_nonzero * 2e-9 + n_few * n_nonzero * n_features * 4e-10
    else:
        n_nonzero = n_features
        matrix = n_samples * n_features * (8e-9 + n_features * 1e-10)
    worth = (matrix + n_features**3 / _FACTOR_SPEED) / _product_seconds(n_samples, n_nonzero)
    return max(1, min(_PRODUCTS, round(worth)))


def _minimise(problem: _Problem, w: np.ndarray, lam: float, tick: Tick) -> np.ndarray:
    """The minimiser for one lambda; NaN if steps end far from it."""
    point = problem.at(w, np.asarray(problem.X @ w), lam)
    size = first_size = np.linalg.norm(point.gradient)
    for _ in range(_STEPS):
        if size <= problem.wanted(point, lam):
            break
        accuracy = max(min(0.1, size / first_size), 0.1 * problem.wanted(point, lam) / size)
        step = problem.newton_step(point, lam, accuracy)
        step_scores = np.asarray(problem.X @ step)
        new = problem.at(point.w + step, point.scores + step_scores, lam)
        if not np.linalg.norm(new.gradient) <= _ENOUGH * size:
            length = _step_length(problem, point, step, step_scores, lam)
            if length == 0.0:
                break
            new = problem.at(point.w + length * step, point.scores + length * step_scores, lam)
        point, size = new, np.linalg.norm(new.gradient)
        tick()
    return point.w if size <= _FAR * problem.wanted(point, lam) else np.full(len(w), np.nan)


def _step_length(problem, point, step, step_scores, lam) -> float:
    """Where the objective is smallest along the step; 0 if it does not fall."""
    from scipy.optimize import brentq

    def slope(length):
        pairs = ActivePairs(point.scores + length * step_scores, problem.y)
        return float(problem.slopes(pairs) @ step_scores + lam * ((point.w + length * step) @ step))

    if not slope(0.0) < 0.0:
        return 0.0
    end = 1.0
    while slope(end) < 0.0 and end < _LONGEST:
        end *= 2.0
    return float(brentq(slope, 0.0, end, xtol=1e-12, rtol=1e-6)) if slope(end) > 0.0 else end
