"""NAG: adaptive steps that do not depend on the scale of any feature, with the logistic loss.

Let s_i be the largest absolute value of feature i so far, the current row included, and u_i = x_i / s_i. With the
gradient factor c = -y / (1 + exp(y w'x)), a row changes

    G_i <- G_i + (c x_i)^2,        N <- N + sum_i u_i^2,        w_i <- w_i - eta sqrt(t / N) c x_i / (s_i sqrt(G_i)),

after w_i <- w_i s_i / |x_i| where |x_i| is the new s_i. The kernel stores v_i = w_i s_i, which a new s_i leaves as it
is, and G_i / s_i^2: all of it is arithmetic on u, whatever the unit of a feature. A constant feature of value 1 is the
intercept, and counts in N.

A step is followed to its end (Karampatziakis and Langford 2011): the gradient factor is that of the score on the way,
so that no step passes the point where the loss of the row is lowest. With h = eta sqrt(t / N) sum_i u_i^2 s_i /
sqrt(G_i) and the margin m = y w'x, the new margin m + delta solves

    delta + exp(m) (exp(delta) - 1) = h.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...kernels import njit
from ..base import OnePassLearner, State
from ..parameters import POSITIVE
from ..rows import aligned_zeros, rows_of

__all__ = ["NAG"]

_V, _G = range(2)
_LARGEST_MARGIN = 500.0  # exp of it is finite; no step is left to be made there
_NEWTON_STEPS = 50
_LANES = 8  # doubles of the widest vector register


@dataclass
class _Normalized(State):
    """``W`` is of shape (n_features + 1, 2, n_live): v and G / s^2; the last coordinate is the intercept."""

    largest: np.ndarray  # (n_features,), s
    totals: np.ndarray  # (2,), t and N
    ends_with_intercept: ClassVar = True

    def coef(self, n_features):
        return _divided(self.W[:-1, _V], self.largest)

    def coef_at(self, features):
        return _divided(self.W[features, _V], self.largest[features])

    @property
    def intercepts(self) -> np.ndarray:
        """Of the live settings."""
        return self.W[-1, _V]


@njit()
def _divided(v, largest):
    """Weights in the units of the features; 0 for a feature that no row has had."""
    weights = np.empty(v.shape)
    for i in range(v.shape[0]):
        unit = largest[i] if largest[i] > 0.0 else 1.0
        for g in range(v.shape[1]):
            weights[i, g] = v[i, g] / unit
    return weights


class NAG(OnePassLearner):
    """Normalised adaptive gradient descent on the logistic loss: the scale of a feature does not matter.

    Parameters
    ----------
    eta : float, default=0.5
        Multiplies every step.

    Attributes
    ----------
    intercept_ : ndarray of shape (1,)
        The trained intercept.

    Notes
    -----
    Features multiplied by constants give weights divided by them. The default of Vowpal Wabbit with the logistic loss
    is the same algorithm, with the same eta.

    Of the first paper's text only the abstract and the introduction could be read here. The algorithm is as its authors
    describe it elsewhere, NAG with the rescaling of weights for a learning rate of t^-1/2.

    References
    ----------
    S. Ross, P. Mineiro, J. Langford: Normalized online learning. UAI 2013, Algorithm 2.

    N. Karampatziakis, J. Langford: Online importance weight aware updates. UAI 2011.
    """

    grid_axes = ("eta",)
    parameter_constraints: ClassVar = {"eta": POSITIVE}
    _sparse_chunks = True
    _moves_own_features = True
    _state: _Normalized

    def __init__(self, eta: float = 0.5):
        self.eta = eta

    def _begin(self, n_features, settings):
        return _Normalized(
            settings=settings,
            W=aligned_zeros(n_features + 1, 2, len(settings["eta"])),
            largest=np.zeros(n_features),
            totals=np.zeros(2),
        )

    def _consume(self, state, X, y):
        kernel = _all_settings if state.W.shape[2] > 1 else _one_setting
        kernel(*rows_of(X), y, state.settings["eta"], state.totals, state.largest, state.W)

    def trained_intercepts(self):
        return self._state.intercepts

    def seconds_per_row(self, n_features, n_nonzero, n_settings):
        return 1e-7 + 1.5e-7 * n_settings + (n_nonzero + 1) * (8e-9 + 4e-9 * n_settings)

    def memory_bytes(self, n_features, n_settings):
        return 8.0 * n_features * (3 * n_settings + 1)


@njit(error_model="numpy")
def _one_setting(indptr, indices, data, y, etas, totals, largest, W):
    """As `_all_settings`, bit for bit; vector registers hold several coordinates of a row."""
    eta, intercept, state = etas[0], W.shape[0] - 1, W.reshape(W.shape[:2])
    longest = 0
    for row in range(len(y)):
        longest = max(longest, indptr[row + 1] - indptr[row])
    buffers = np.zeros((5, -(-(longest + 1) // _LANES) * _LANES))
    u, s, v, squares, rates = buffers[0], buffers[1], buffers[2], buffers[3], buffers[4]
    for row in range(len(y)):
        first, n = indptr[row], indptr[row + 1] - indptr[row] + 1
        n_padded = -(-n // _LANES) * _LANES
        for k in range(n, n_padded):
            u[k], s[k], squares[k] = 0.0, 1.0, 0.0
        u[0], s[0], v[0], squares[0] = 1.0, 1.0, state[intercept, _V], state[intercept, _G]
        for k in range(1, n):
            i, x = np.uint32(indices[first + k - 1]), data[first + k - 1]
            v[k], squares[k] = state[i, _V], state[i, _G]
            if abs(x) > largest[i]:
                ratio = largest[i] / abs(x)
                largest[i] = abs(x)
                squares[k] *= ratio * ratio
            u[k], s[k] = x, largest[i]
        for k in range(n_padded):
            u[k] /= s[k]
        score, size = v[0], 1.0
        for k in range(1, n):
            size += u[k] * u[k]
            score += u[k] * v[k]
        totals[0] += 1.0
        totals[1] += size
        pace, sign = np.sqrt(totals[0] / totals[1]), float(y[row])
        c = 1.0 / (1.0 + np.exp(sign * score))
        push = c * c
        for k in range(n_padded):
            squares[k] += push * (u[k] * u[k])
            rates[k] = 1.0 / np.sqrt(squares[k]) if squares[k] > 0.0 else 0.0
        reach = 0.0
        for k in range(n):
            reach += u[k] * u[k] * rates[k]
        push = sign * _way(sign * score, eta * pace * reach) / reach if reach > 0.0 else 0.0
        for k in range(n_padded):
            v[k] += push * u[k] * rates[k]
        state[intercept, _V], state[intercept, _G] = v[0], squares[0]
        for k in range(1, n):
            i = np.uint32(indices[first + k - 1])
            state[i, _V], state[i, _G] = v[k], squares[k]


@njit(error_model="numpy")
def _all_settings(indptr, indices, data, y, etas, totals, largest, W):
    width, intercept = len(etas), W.shape[0] - 1
    longest = 0
    for row in range(len(y)):
        longest = max(longest, indptr[row + 1] - indptr[row])
    u, rates = np.empty(longest + 1), np.empty((longest + 1, width))
    score, push, reach = np.empty(width), np.empty(width), np.empty(width)
    u[0] = 1.0
    for row in range(len(y)):
        first, n = indptr[row], indptr[row + 1] - indptr[row]
        size = 1.0  # of the row in units of s, squared
        for g in range(width):
            score[g] = W[intercept, _V, g]
        for k in range(n):
            i, x = indices[first + k], data[first + k]
            if abs(x) > largest[i]:
                ratio = largest[i] / abs(x)
                largest[i] = abs(x)
                for g in range(width):
                    W[i, _G, g] *= ratio * ratio
            u[k + 1] = x / largest[i]
            size += u[k + 1] * u[k + 1]
            for g in range(width):
                score[g] += u[k + 1] * W[i, _V, g]
        totals[0] += 1.0
        totals[1] += size
        pace, sign = np.sqrt(totals[0] / totals[1]), float(y[row])
        for g in range(width):
            c = 1.0 / (1.0 + np.exp(sign * score[g]))
            push[g], reach[g] = c * c, 0.0
        for k in range(n + 1):
            i = indices[first + k - 1] if k else intercept
            square, of, squares = u[k] * u[k], rates[k], W[i, _G]
            for g in range(width):
                squares[g] += push[g] * square
                of[g] = 1.0 / np.sqrt(squares[g]) if squares[g] > 0.0 else 0.0
                reach[g] += square * of[g]
        for g in range(width):
            push[g] = sign * _way(sign * score[g], etas[g] * pace * reach[g]) / reach[g] if reach[g] > 0.0 else 0.0
        for k in range(n + 1):
            i = indices[first + k - 1] if k else intercept
            v, of, value = W[i, _V], rates[k], u[k]
            for g in range(width):
                v[g] += push[g] * value * of[g]


@njit(error_model="numpy")
def _way(margin, h):
    """Solve delta + exp(margin) (exp(delta) - 1) = h for delta >= 0 by Newton's method, from above."""
    if not margin < _LARGEST_MARGIN:
        return 0.0 * margin  # NaN stays NaN
    if margin < -_LARGEST_MARGIN:
        margin = -_LARGEST_MARGIN
    scale = np.exp(margin)
    delta = min(h, np.log1p(h / scale))
    for _ in range(_NEWTON_STEPS):
        excess = scale * np.expm1(delta)
        change = (delta + excess - h) / (1.0 + scale + excess)
        delta -= change
        if not abs(change) > 1e-13 * delta:
            break
    return delta
