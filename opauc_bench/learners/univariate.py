"""Online univariate losses: a surrogate of AUC that looks at one example at a time.

With the margin m = y (w'x + b) of an example and its class weight omega, a step is the gradient step of omega l(m):

    w <- w + eta omega phi(m) y x,        b <- b + eta omega phi(m) y    (only with an intercept)

    exponential  l(m) = exp(-m)            phi(m) = exp(-m)
    logistic     l(m) = log(1 + exp(-m))   phi(m) = 1 / (1 + exp(m))
    squared      l(m) = (1 - m)^2 / 2      phi(m) = 1 - m

Only the coordinates of ``x`` that are not zero are touched, for all settings side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import sparse

from ..kernels import njit
from .base import OnePassLearner, State
from .parameters import POSITIVE, Boolean, Options
from .rows import csr_of, rows_of

__all__ = ["UniExp", "UniLog", "UniSqu"]

_WEIGHTS = ("none", "balanced", "prior")
_EXPONENTIAL, _LOGISTIC, _SQUARED = 0, 1, 2
_BLOCK = 128  # dense rows whose steps are taken together


@dataclass
class _Univariate(State):
    counts: np.ndarray  # (2,), positives and negatives so far
    intercepts: np.ndarray  # (n_live,)
    settings_axes: ClassVar = {"W": -1, "intercepts": -1}

    def coef(self, n_features: int) -> np.ndarray:
        # Rows without features move the intercept alone.
        coef, bounded = super().coef(n_features), np.isfinite(self.intercepts)
        return coef if bounded.all() else np.where(bounded, coef, np.nan)


class _UnivariateLearner(OnePassLearner):
    """Base class of the online univariate losses.

    Parameters
    ----------
    eta : float, default=2**-6
        Constant step size.
    weights : {'none', 'balanced', 'prior'}, default='none'
        Class weights from the class frequencies so far (the example itself included): 'none' gives 1, 'balanced'
        n / (2 n_y), so that both classes weigh the same (Kotlowski et al. 2011), 'prior' 2 n_y / n. The published
        values of Gao et al. 2016 are those of 'none', although the text describes weighted losses.
    intercept : bool, default=False
        Whether to train an intercept.

    Attributes
    ----------
    intercept_ : ndarray of shape (1,)
        The trained intercept, or else a threshold midway between the class means' scores.

    References
    ----------
    W. Kotlowski, K. Dembczynski, E. Huellermeier: Bipartite ranking through minimization of univariate loss.
    ICML 2011. As a baseline of one-pass AUC optimisation: W. Gao et al., Artificial Intelligence 236 (2016),
    section 7.1.
    """

    grid_axes = ("eta",)
    parameter_constraints: ClassVar = {"eta": POSITIVE, "weights": Options(*_WEIGHTS), "intercept": Boolean()}
    rotation_invariant = True
    _sparse_chunks = True
    _keeps_dense_rows = True
    _moves_own_features = True
    takes_blocks = True
    _loss: int
    _state: _Univariate

    def __init__(self, eta: float = 2**-6, weights: str = "none", intercept: bool = False):
        self.eta = eta
        self.weights = weights
        self.intercept = intercept

    def _begin(self, n_features, settings):
        n_settings = len(settings["eta"])
        return _Univariate(
            settings=settings,
            W=np.zeros((n_features, n_settings)),
            counts=np.zeros(2),
            intercepts=np.zeros(n_settings),
        )

    def _fixed(self, state):
        return state.settings["eta"], self._loss, _WEIGHTS.index(self.weights), bool(self.intercept)

    def _consume(self, state, X, y):
        kernel = _one_setting if state.W.shape[1] == 1 else _all_settings
        rows = rows_of(X if sparse.issparse(X) else csr_of(X))
        kernel(*rows, y, *self._fixed(state), state.counts, state.W, state.intercepts)

    def _consume_in_blocks(self, state, X, y):
        for start in range(0, len(y), _BLOCK):
            rows, labels = X[start : start + _BLOCK], y[start : start + _BLOCK]
            pushes, fixed = rows.values @ state.W, self._fixed(state)
            _steps_of_block(rows.gram_matrix(), labels, *fixed, state.counts, pushes, state.intercepts)
            rows.add_to(state.W, pushes)

    def trained_intercepts(self):
        return self._state.intercepts if self.intercept else None

    def seconds_per_row(self, n_features, n_nonzero, n_settings):
        if self._in_blocks(n_features, n_nonzero):
            return 2e-6 + 2e-8 * n_settings + n_features * (2e-9 + 1e-10 * n_settings)
        return 2e-7 + 8e-9 * n_settings + n_nonzero * (3e-9 + 6e-10 * n_settings)

    def memory_bytes(self, n_features, n_settings):
        return 8.0 * n_features * n_settings


class UniExp(_UnivariateLearner):
    """Online gradient descent on the univariate exponential loss."""

    _loss = _EXPONENTIAL
    expected_failed_checks: ClassVar = dict.fromkeys(
        (
            "check_fit_idempotent",
            "check_fit_check_is_fitted",
            "check_n_features_in",
            "check_estimators_partial_fit_n_features",  # of scikit-learn 1.6
        ),
        "the exponential loss overflows on features of the size 100 that this check feeds",
    )


class UniLog(_UnivariateLearner):
    """Online gradient descent on the univariate logistic loss."""

    _loss = _LOGISTIC


class UniSqu(_UnivariateLearner):
    """Online gradient descent on the univariate squared loss, (1 - m)^2 / 2."""

    _loss = _SQUARED


@njit()
def _class_weight(weights, counts, own):
    """Weight of a class, from the counts with the current example in them."""
    if weights == 1:
        return (counts[0] + counts[1]) / (2.0 * counts[own])
    if weights == 2:
        return 2.0 * counts[own] / (counts[0] + counts[1])
    return 1.0


@njit()
def _phi(loss, margin):
    """Minus the derivative of the loss."""
    if loss == _EXPONENTIAL:
        return np.exp(-margin)
    if loss == _LOGISTIC:
        return 1.0 / (1.0 + np.exp(margin))
    return 1.0 - margin


@njit(fastmath={"contract"})
def _all_settings(indptr, indices, data, y, eta, loss, weights, intercept, counts, W, b):
    width = W.shape[1]
    push = np.empty(width)
    for t in range(len(y)):
        own, sign = (0, 1.0) if y[t] > 0 else (1, -1.0)
        counts[own] += 1.0
        omega = _class_weight(weights, counts, own)
        for g in range(width):
            push[g] = b[g]
        for k in range(indptr[t], indptr[t + 1]):
            v, w = data[k], W[indices[k]]
            for g in range(width):
                push[g] += v * w[g]
        for g in range(width):
            push[g] = eta[g] * omega * sign * _phi(loss, sign * push[g])
        if intercept:
            for g in range(width):
                b[g] += push[g]
        for k in range(indptr[t], indptr[t + 1]):
            v, w = data[k], W[indices[k]]
            for g in range(width):
                w[g] += v * push[g]


@njit(fastmath={"contract"})
def _steps_of_block(gram, y, eta, loss, weights, intercept, counts, pushes, b):
    """Steps on the rows of a block from their inner products; row t of ``pushes``, its scores before, is what its
    multiple is then."""
    for t in range(len(y)):
        own, sign, push = (0, 1.0, pushes[t]) if y[t] > 0 else (1, -1.0, pushes[t])
        counts[own] += 1.0
        omega = _class_weight(weights, counts, own)
        for i in range(t):
            for g in range(len(b)):
                push[g] += gram[t, i] * pushes[i, g]
        for g in range(len(b)):
            push[g] = eta[g] * omega * sign * _phi(loss, sign * (push[g] + b[g]))
            if intercept:
                b[g] += push[g]


@njit(fastmath={"contract", "reassoc"})
def _one_setting(indptr, indices, data, y, eta, loss, weights, intercept, counts, W, b):
    w = W[:, 0]
    for t in range(len(y)):
        own, sign = (0, 1.0) if y[t] > 0 else (1, -1.0)
        counts[own] += 1.0
        score = b[0]
        for k in range(indptr[t], indptr[t + 1]):
            score += data[k] * w[indices[k]]
        push = eta[0] * _class_weight(weights, counts, own) * sign * _phi(loss, sign * score)
        if intercept:
            b[0] += push
        for k in range(indptr[t], indptr[t + 1]):
            w[indices[k]] += data[k] * push
