"""The batch univariate logistic loss, by Newton steps along the regularisation path.

    J(w) = lam/2 |w|^2 + sum_i W_i log(1 + exp(-y_i w'x_i))
    g    = lam w - X'(W y sigma(-y Xw)),        H = lam I + X' diag(W sigma(1 - sigma)) X

The path goes from the largest lambda to the smallest and starts each from the one before. The data's share of H
changes little along the way, so it is kept, and only its Cholesky factor is computed again for each lambda, until steps
with it get slow. Above a few thousand features H is not formed, and the step comes from conjugate gradients.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.sparse.linalg import LinearOperator, cg

from .base import Tick
from .univariate import BatchUnivariate

__all__ = ["BatchUniLog"]

_GRADIENT = 1e-10  # of its norm at w = 0, where the steps end
_GRADIENT_PENALISED = 1e-6  # of that of the weights alone
_EXPLICIT = 3000  # features up to which the Hessian is formed
_ENOUGH = 0.25  # what a step with an old Hessian has to leave of the gradient at most
_STEPS = 200
_ALIKE = 1e6  # ratio of the sizes of features up to which they are left as they are
_LARGEST_SCALE = 1e140  # whose square does not overflow


class BatchUniLog(BatchUnivariate):
    """Batch univariate logistic loss, log(1 + exp(-m))."""

    path_tolerance = 1e-6

    def _fit_path(self, X, y, settings, tick):
        weights, lam = self._for_the_mean(y, settings["lam"])
        if (scales := _scales(X, self.intercept)) is not None:
            X = X @ sparse.diags_array(1.0 / scales, format="csr") if sparse.issparse(X) else X / scales
        penalised = np.ones(X.shape[1]) if scales is None else 1.0 / scales**2
        if self.intercept:
            ones = np.ones((len(y), 1))
            X = sparse.hstack([X, ones], format="csr") if sparse.issparse(X) else np.hstack([X, ones])
            penalised = np.append(penalised, 0.0)
        coef = logistic_path(X, y, weights, lam, penalised, tick)
        coef, intercept = (coef[:-1], coef[-1]) if self.intercept else (coef, None)
        return coef if scales is None else coef / scales[:, None], intercept

    def cost(self, n_rows, n_features, n_nonzero, n_settings):
        steps = 10 + 2 * n_settings
        if n_features > _EXPLICIT:
            return 30 * steps * n_rows * n_nonzero * 4e-9, 8.0 * (10 * n_features + 4 * n_rows * n_nonzero)
        product = min(n_rows * n_features**2 / 1e10, 3e-9 * n_rows * n_nonzero**2)
        seconds = 10 * product + (10 + n_settings) * n_features**3 / 4e10
        seconds += 3 * steps * n_rows * (1e-7 + 1e-9 * n_nonzero)
        return seconds, 8.0 * (3 * n_features**2 + 2 * n_rows * n_nonzero)


def _scales(X: Any, intercept: bool) -> np.ndarray | None:
    """Powers of 2 that bring all features to one size; None where their sizes are alike.

    The norm of a gradient, and the matrix of second derivatives, are ruled by the largest feature otherwise. An
    ``intercept`` is a feature of size 1.
    """
    sizes = abs(X).max(axis=0)
    sizes = np.asarray(sizes.todense() if sparse.issparse(sizes) else sizes, dtype=np.float64).ravel()
    found = np.append(sizes[sizes > 0.0], [1.0] * intercept)
    if not len(found) or not _ALIKE * found.min() < found.max() < np.inf:
        return None
    return np.exp2(np.rint(np.log2(np.clip(np.where(sizes > 0.0, sizes, 1.0), 1 / _LARGEST_SCALE, _LARGEST_SCALE))))


def logistic_path(X, y, weights, lam, penalised, tick: Tick) -> np.ndarray:
    """Minimise the logistic loss with the ``weights`` W_i for every lambda; shape (n_features, n_lam).

    Lambda is multiplied by ``penalised`` for each feature: 1, the inverse square of a scale, or 0 for an intercept. At
    each lambda the gradient's norm is below 1e-10 of what it is at w = 0, or rounding hides any further decrease of the
    loss; NaN where that one has overflowed, or after 200 steps without either. ``tick`` is called after each step.
    """
    problem = _Problem(X, y, weights, penalised)
    if not np.isfinite(problem.largest):
        return np.full((X.shape[1], len(lam)), np.nan)
    coef = np.empty((X.shape[1], len(lam)))
    w = np.zeros(X.shape[1])
    for k in np.argsort(-lam, kind="stable"):
        coef[:, k] = _minimise(problem, w, lam[k], tick)
        if np.isfinite(coef[:, k]).all():
            w = coef[:, k]
    return coef


class _Problem:
    """The objective, and the Hessian's factor that is in use."""

    def __init__(self, X, y, weights, penalised):
        self.X, self.y, self.weights, self.penalised = X, y, weights, penalised
        self.is_penalised = (penalised > 0.0).astype(float)
        first = self.gradient(np.zeros(len(y)), np.zeros(X.shape[1]), 0.0)
        self.largest, self.largest_penalised = np.linalg.norm(first), np.linalg.norm(self.is_penalised * first)
        # What rounding leaves of a gradient that is zero.
        sizes = np.asarray(abs(X).T @ weights)
        self.noise, self.noise_penalised = (
            1e-16 * np.sqrt(sizes @ sizes),
            1e-16 * np.linalg.norm(self.is_penalised * sizes),
        )
        self.update_curvature(np.zeros(len(y)))

    def solved(self, gradient) -> bool:
        if not np.linalg.norm(gradient) <= max(_GRADIENT * self.largest, self.noise):
            return False
        # Beside that of the intercept, the gradient of tiny features would not be seen.
        size = np.linalg.norm(self.is_penalised * gradient)
        return bool(size <= max(_GRADIENT_PENALISED * self.largest_penalised, self.noise_penalised))

    def value(self, scores, w, lam) -> float:
        return 0.5 * lam * (self.penalised * w) @ w + self.weights @ np.logaddexp(0.0, -self.y * scores)

    def gradient(self, scores, w, lam) -> np.ndarray:
        # sigma(-m) = (1 - tanh(m / 2)) / 2 overflows nowhere.
        pull = 0.5 * self.weights * self.y * (1.0 - np.tanh(0.5 * self.y * scores))
        return lam * self.penalised * w - np.asarray(self.X.T @ pull)

    def update_curvature(self, scores) -> None:
        """Compute the curvature at these scores."""
        self._factor: tuple[float, Any] = (np.nan, None)
        self._curvature = 0.25 * self.weights * (1.0 - np.tanh(0.5 * scores) ** 2)
        if self.X.shape[1] > _EXPLICIT:
            self._data_share = None
        elif sparse.issparse(self.X):
            self._data_share = (self.X.T @ sparse.diags_array(self._curvature, format="csr") @ self.X).toarray()
        else:
            root = np.sqrt(self._curvature)[:, None] * self.X
            self._data_share = root.T @ root

    def step(self, gradient, lam) -> np.ndarray:
        """The solution of H p = gradient with the curvature of the last update."""
        if self._data_share is None:
            return self._step_by_products(gradient, lam)
        if self._factor[0] != lam:
            H = self._data_share.copy()
            H[np.diag_indices_from(H)] += lam * self.penalised + 1e-14 * np.trace(H) / len(H)
            try:
                self._factor = lam, cho_factor(H, lower=True, overwrite_a=True, check_finite=False)
            except LinAlgError:  # features so large and so alike that rounding makes H indefinite
                self._factor = lam, None
        if self._factor[1] is None:
            return self._step_by_products(gradient, lam)
        return cho_solve(self._factor[1], gradient, check_finite=False)

    def _step_by_products(self, gradient, lam) -> np.ndarray:
        X, curvature = self.X, self._curvature
        squares = X.multiply(X) if sparse.issparse(X) else X * X
        diagonal = lam * self.penalised + np.asarray(squares.T @ curvature)
        diagonal[diagonal == 0.0] = 1.0
        shape = (len(gradient), len(gradient))
        H = LinearOperator(shape, lambda v: lam * self.penalised * v + X.T @ (curvature * (X @ v)), dtype=float)
        inverse = LinearOperator(shape, lambda v: v / diagonal, dtype=float)
        accuracy = min(0.1, np.linalg.norm(gradient) / self.largest)
        return cg(H, gradient, rtol=accuracy, maxiter=500, M=inverse)[0]


def _minimise(problem: _Problem, w: np.ndarray, lam: float, tick: Tick) -> np.ndarray:
    scores = np.asarray(problem.X @ w)
    gradient = problem.gradient(scores, w, lam)
    size = np.linalg.norm(gradient)
    fresh = False
    for _ in range(_STEPS):
        if problem.solved(gradient):
            break
        step = problem.step(gradient, lam)
        step_scores = np.asarray(problem.X @ step)
        length, new_gradient = 1.0, problem.gradient(scores - step_scores, w - step, lam)
        new_size = np.linalg.norm(new_gradient)
        if not new_size <= _ENOUGH * size:
            if not fresh:
                problem.update_curvature(scores)
                fresh = True
                continue
            length = _step_length(problem, scores, step_scores, w, step, gradient, lam)
            if length == 0.0:  # rounding hides any further decrease
                break
            new_gradient = problem.gradient(scores - length * step_scores, w - length * step, lam)
            new_size = np.linalg.norm(new_gradient)
        w, scores = w - length * step, scores - length * step_scores
        gradient, size = new_gradient, new_size
        fresh = False
        tick()
    else:
        return np.full_like(w, np.nan)
    return w


def _step_length(problem, scores, step_scores, w, step, gradient, lam) -> float:
    """Halve the step until the objective falls by a share of what its slope promises (Armijo); 0 if it never does."""
    before, slope, length = problem.value(scores, w, lam), gradient @ step, 1.0
    while length > 1e-10:
        after = problem.value(scores - length * step_scores, w - length * step, lam)
        if after <= before - 1e-4 * length * slope:
            return length
        length *= 0.5
    return 0.0
