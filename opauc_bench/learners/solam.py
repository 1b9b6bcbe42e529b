"""SOLAM: stochastic online AUC maximisation as a saddle point problem, at O(k) a row.

Primal variables w, a, b and a dual variable alpha take one gradient step a row, of the size gamma_t = xi / sqrt(t),
with p the share of positives so far (Ying, Wen and Lyu 2016, Algorithm 1):

    y = +1:  g_w = 2 (1 - p) (w'x - a - 1 - alpha) x,   g_a = -2 (1 - p) (w'x - a),
             g_alpha = -2 (1 - p) w'x - 2 p (1 - p) alpha
    y = -1:  g_w = 2 p (w'x - b + 1 + alpha) x,         g_b = -2 p (w'x - b),
             g_alpha = 2 p w'x - 2 p (1 - p) alpha

w is projected onto the ball of radius R, a and b are kept below R, alpha within 2 R. All start on the border of these
sets: w = R / sqrt(d) everywhere. What is returned is the mean of the iterates before each step, weighted by gamma_t.

Projections only scale w, so we keep w = scale v, and the weighted sum of iterates as A = Gamma v - u with Gamma the sum
of gamma_t scale: a row then changes v and u at its own features. |w|^2 follows from w'x and |x|^2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..compiled import njit
from .base import OnePassLearner, State
from .sparse_rows import aligned_zeros, require_positive, rows_of

__all__ = ["SOLAM"]

_V, _U = range(2)
_SCALE, _GAMMA, _STEPS, _SQUARE, _A, _B, _ALPHA = range(7)
# Below this the scale is taken into v, because Gamma v - u loses as many digits as the scale has fallen by.
_SMALLEST_SCALE = 2.0**-8


@dataclass
class _Saddle(State):
    """``W`` is of shape (n_features, 2, n_live): v and u."""

    scalars: np.ndarray  # (7, n_live): scale, Gamma, sum of gamma_t, |w|^2, a, b, alpha
    counts: np.ndarray  # (2,), positives and negatives so far

    def coef(self, n_features):
        return self._weights(self.W)

    def coef_at(self, features):
        return self._weights(self.W[features])

    def _weights(self, W: np.ndarray) -> np.ndarray:
        return (self.scalars[_GAMMA] * W[:, _V] - W[:, _U]) / self.scalars[_STEPS]

    def keep(self, columns):
        self.settings = {axis: values[columns] for axis, values in self.settings.items()}
        W = aligned_zeros(*self.W.shape[:2], len(columns))
        W[:] = self.W[:, :, columns]
        self.W = W
        self.scalars = np.ascontiguousarray(self.scalars[:, columns])


class SOLAM(OnePassLearner):
    """Stochastic online AUC maximisation with the least square loss.

    Parameters
    ----------
    xi : float, default=1.0
        Multiplies every step: gamma_t = xi / sqrt(t).
    radius : float, default=1.0
        R, of the l2 ball that w stays in.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
        The mean of the iterates before each step, weighted by the steps. No weight is 0, because the first iterate has
        none: not even that of a feature that is always 0.
    intercept_ : ndarray of shape (1,)
        Threshold midway between the class means' scores; AUC does not depend on it.
    classes_ : ndarray of shape (2,)

    References
    ----------
    Y. Ying, L. Wen, S. Lyu: Stochastic online AUC maximization. NIPS 2016, Algorithm 1.
    """

    grid_axes = ("xi", "radius")
    _sparse_chunks = True
    contract_exceptions: ClassVar = {
        "constant features": "w starts at R / sqrt(d) everywhere, and the average remembers it",
    }

    def __init__(self, xi=1.0, radius=1.0):
        self.xi = xi
        self.radius = radius

    def _begin(self, n_features, settings):
        require_positive(settings, "xi", "radius")
        radius = settings["radius"]
        W = aligned_zeros(n_features, 2, len(radius))
        W[:, _V] = radius / np.sqrt(n_features)
        scalars = np.zeros((7, len(radius)))
        with np.errstate(over="ignore"):
            scalars[_SCALE], scalars[_SQUARE], scalars[_A], scalars[_B] = 1.0, radius**2, radius, radius
            scalars[_ALPHA] = 2.0 * radius
        return _Saddle(settings=settings, W=W, scalars=scalars, counts=np.zeros(2))

    def _consume(self, state, X, y):
        learn = _one_setting if state.n_live == 1 else _all_settings
        rule = state.settings["xi"], state.settings["radius"]
        learn(*rows_of(X), y, *rule, state.counts, state.scalars, state.W)

    def seconds_per_row(self, n_features, n_nonzero, n_settings):
        return 1e-7 + 3e-8 * n_settings + n_nonzero * (6e-9 + 2e-9 * n_settings)

    def memory_bytes(self, n_features, n_settings):
        # Beside v and u the weights, which are formed in the end, with what that takes.
        return 8.0 * 5 * n_features * n_settings


@njit(error_model="numpy")
def _all_settings(indptr, indices, data, y, xi, radius, counts, scalars, W):
    width = len(xi)
    score, change = np.empty(width), np.empty(width)
    for t in range(len(y)):
        start, stop = indptr[t], indptr[t + 1]
        score[:] = 0.0
        length = 0.0
        for k in range(start, stop):
            x, v = data[k], W[indices[k], _V]
            length += x * x
            for g in range(width):
                score[g] += x * v[g]
        counts[0 if y[t] > 0 else 1] += 1.0
        for g in range(width):
            change[g] = _change_of_v(y[t], counts, score[g], length, xi[g], radius[g], scalars[:, g])
        for k in range(start, stop):
            x, v, u = data[k], W[indices[k], _V], W[indices[k], _U]
            for g in range(width):
                step = change[g] * x
                v[g] += step
                u[g] += scalars[_GAMMA, g] * step
        for g in range(width):
            if scalars[_SCALE, g] < _SMALLEST_SCALE:
                _take_scale_into_v(g, scalars, W)


@njit(error_model="numpy")
def _one_setting(indptr, indices, data, y, xi, radius, counts, scalars, W):
    """The same without loops over settings, bit for bit."""
    state, of_model = W[:, :, 0], scalars[:, 0]
    for t in range(len(y)):
        start, stop = indptr[t], indptr[t + 1]
        score, length = 0.0, 0.0
        for k in range(start, stop):
            length += data[k] * data[k]
            score += data[k] * state[np.uint32(indices[k]), _V]
        counts[0 if y[t] > 0 else 1] += 1.0
        change = _change_of_v(y[t], counts, score, length, xi[0], radius[0], of_model)
        gamma = of_model[_GAMMA]
        for k in range(start, stop):
            i, step = np.uint32(indices[k]), change * data[k]
            state[i, _V] += step
            state[i, _U] += gamma * step
        if of_model[_SCALE] < _SMALLEST_SCALE:
            _take_scale_into_v(0, scalars, W)


@njit(error_model="numpy")
def _change_of_v(y, counts, vx, length, xi, radius, scalars):
    """The whole step but for v and u; returns what v gets of x. ``vx`` is v'x, ``length`` |x|^2."""
    n_rows = counts[0] + counts[1]
    gamma, scale = xi / np.sqrt(n_rows), scalars[_SCALE]
    scalars[_GAMMA] += gamma * scale
    scalars[_STEPS] += gamma
    score = scale * vx
    push = gamma * _steps_beside_w(y, counts[0] / n_rows, gamma, score, radius, scalars)
    square = scalars[_SQUARE] + push * (push * length - 2.0 * score)
    if square > radius * radius:
        scalars[_SCALE] = scale * (radius / np.sqrt(square))
        square = radius * radius
    scalars[_SQUARE] = square
    return -push / scale


@njit(error_model="numpy")
def _steps_beside_w(y, p, gamma, score, radius, scalars):
    """Steps of a, b and alpha; returns the factor of x in g_w, from their values before."""
    a, b, alpha = scalars[_A], scalars[_B], scalars[_ALPHA]
    if y > 0:
        share, factor, towards = 2.0 * (1.0 - p), score - a - 1.0 - alpha, -score - p * alpha
        scalars[_A] = min(a + gamma * share * (score - a), radius)
    else:
        share, factor, towards = 2.0 * p, score - b + 1.0 + alpha, score - (1.0 - p) * alpha
        scalars[_B] = min(b + gamma * share * (score - b), radius)
    scalars[_ALPHA] = min(max(alpha + gamma * share * towards, -2.0 * radius), 2.0 * radius)
    return share * factor


@njit(error_model="numpy")
def _take_scale_into_v(g, scalars, W):
    """The same w and the same sum of iterates, with the scale 1 and Gamma 0."""
    scale, gamma, square = scalars[_SCALE, g], scalars[_GAMMA, g], 0.0
    for i in range(W.shape[0]):
        W[i, _U, g] -= gamma * W[i, _V, g]
        W[i, _V, g] *= scale
        square += W[i, _V, g] * W[i, _V, g]
    scalars[_SCALE, g], scalars[_GAMMA, g], scalars[_SQUARE, g] = 1.0, 0.0, square
