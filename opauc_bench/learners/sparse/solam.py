"""SOLAM: stochastic online AUC maximisation as a saddle point problem, at O(k) per row.

Primal variables w, a, b and a dual variable alpha take one gradient step per row, of the size gamma_t = xi / sqrt(t),
with p the share of positives so far (Ying, Wen and Lyu 2016, Algorithm 1):

    y = +1:  g_w = 2 (1 - p) (w'x - a - 1 - alpha) x,   g_a = -2 (1 - p) (w'x - a),
             g_alpha = -2 (1 - p) w'x - 2 p (1 - p) alpha
    y = -1:  g_w = 2 p (w'x - b + 1 + alpha) x,         g_b = -2 p (w'x - b),
             g_alpha = 2 p w'x - 2 p (1 - p) alpha

w is projected onto the ball of radius R, a and b are kept below R, alpha within 2 R. All start on the border of these
sets: w = R / sqrt(d) everywhere. The result is the mean of the iterates before each step, weighted by gamma_t.

Projections only scale w, so we keep w = scale v, and the weighted sum of iterates as A = Gamma v - u with Gamma the sum
of gamma_t scale: a row then changes v and u at its own features. |w|^2 follows from w'x and |x|^2.

Gamma v - u loses as many digits as the scale falls. Before the scale falls below 2^-8 an epoch ends, and the next one
begins with the scale 1 and Gamma 0. A coordinate is rescaled when a row has it next: since epoch e,

    u <- u - tail_e v,   v <- fall_e v,   fall_e = s_e s_{e+1} ... ,   tail_e = Gamma_e + s_e Gamma_{e+1} + ...

with s_e and Gamma_e as they were when the epochs ended. The end of an epoch changes tail and fall of the last few
epochs only, as those of the others are 0 by then. Every d / 16 epochs all coordinates are brought up to date, and also
when an epoch has lasted for 1 + d / 32 rows: from then on until it ends, no coordinate has to be checked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...kernels import njit
from ..base import OnePassLearner, State
from ..parameters import POSITIVE
from ..rows import aligned_zeros, rows_of

__all__ = ["SOLAM"]

_V, _U = range(2)
# Of a model: scale, Gamma, the sum of gamma_t, |w|^2 / R^2, a, b and alpha.
_MODEL = np.dtype([(name, np.float64) for name in ("scale", "gamma", "steps", "square", "a", "b", "alpha")])
_TAIL, _FALL = range(2)
_SMALLEST_SCALE = 2.0**-8
# A fall below this counts as 0: the sum of the iterates has rounded it away long before.
_SMALLEST_FALL = 2.0**-100
_FEWEST_EPOCHS, _FEATURES_PER_EPOCH, _FEATURES_PER_ROW = 64, 16, 32
_SECONDS_PER_WEIGHT = 2e-8


@dataclass
class _Saddle(State):
    """``W`` is of shape (n_features, 2, n_live): v and u."""

    models: np.ndarray  # (n_live,), records
    counts: np.ndarray  # (2,), positives and negatives so far
    epoch: np.ndarray  # (n_live,), the current one
    age: np.ndarray  # (n_live,), rows that it has lasted, as far as they are counted
    since: np.ndarray  # (n_features, n_live), the epoch that v and u are of
    epochs: np.ndarray  # (n_live, most epochs, 2): tail and fall; 0 and 1 for the current one
    settings_axes: ClassVar = {"W": -1, "models": 0, "epoch": 0, "age": 0, "since": -1, "epochs": 0}

    def coef(self, n_features):
        return self.coef_at(np.arange(n_features))

    def coef_at(self, features):
        coef = np.zeros((len(features), self.n_live))
        if not self.counts.any():  # the mean of no iterates
            return coef
        _means(features, self.W, self.models, self.since, self.epochs, coef)
        return coef

    def finite(self, n_features):
        # Where v or u overflows, |w|^2 has overflowed.
        return np.isfinite(self.models.view(np.float64).reshape(self.n_live, -1)).all(axis=1)


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

    References
    ----------
    Y. Ying, L. Wen, S. Lyu: Stochastic online AUC maximization. NIPS 2016, Algorithm 1.
    """

    grid_axes = ("xi", "radius")
    parameter_constraints: ClassVar = dict.fromkeys(grid_axes, POSITIVE)
    _sparse_chunks = True
    contract_exceptions: ClassVar = {
        "constant features": "w starts at R / sqrt(d) everywhere, and the average remembers it",
    }

    def __init__(self, xi: float = 1.0, radius: float = 1.0):
        self.xi = xi
        self.radius = radius

    def _begin(self, n_features, settings):
        radius = settings["radius"]
        n_settings, most_epochs = len(radius), max(_FEWEST_EPOCHS, n_features // _FEATURES_PER_EPOCH)
        W = aligned_zeros(n_features, 2, n_settings)
        W[:, _V] = radius / np.sqrt(n_features)
        models = np.zeros(n_settings, _MODEL)
        with np.errstate(over="ignore"):
            models["alpha"] = 2.0 * radius
        models["scale"] = models["square"] = 1.0
        models["a"] = models["b"] = radius
        epochs = np.zeros((n_settings, most_epochs, 2))
        epochs[:, 0, _FALL] = 1.0
        return _Saddle(
            settings=settings,
            W=W,
            models=models,
            counts=np.zeros(2),
            epoch=np.zeros(n_settings, dtype=np.int32),
            age=np.full(n_settings, _settling(n_features)),
            since=np.zeros((n_features, n_settings), dtype=np.int32),
            epochs=epochs,
        )

    def _consume(self, state, X, y):
        learn = _one_setting if state.n_live == 1 else _all_settings
        memory = state.counts, state.models, state.W, state.epoch, state.age, state.since, state.epochs
        learn(*rows_of(X), y, state.settings["xi"], state.settings["radius"], *memory)

    def seconds_per_row(self, n_features, n_nonzero, n_settings):
        return 1e-7 + 3e-8 * n_settings + n_nonzero * (6e-9 + 4.5e-9 * n_settings)

    def cost(self, n_rows, n_features, n_nonzero, n_settings):
        # Weights are not checked between chunks; they are formed and copied in the end.
        seconds = n_rows * self.seconds_per_row(n_features, n_nonzero, n_settings)
        seconds += _SECONDS_PER_WEIGHT * n_features * n_settings
        return seconds, self.memory_bytes(n_features, n_settings)

    def memory_bytes(self, n_features, n_settings):
        # v, u, the epoch of both and tables of a sixteenth of their size; in the end the weights, twice.
        return 8.0 * 4.625 * n_features * n_settings + 1024.0 * n_settings


@njit(error_model="numpy")
def _settling(n_features):
    """Rows after which all coordinates are brought up to date: so many have asked for about what that costs."""
    return 1 + n_features // _FEATURES_PER_ROW


@njit(error_model="numpy")
def _all_settings(indptr, indices, data, y, xi, radius, counts, models, W, epoch, age, since, epochs):
    width, settling = len(xi), _settling(len(W))
    score = np.empty(width)
    v_by_v, v_by_x, u_by_v, u_by_x = np.empty(width), np.empty(width), np.empty(width), np.empty(width)
    for t in range(len(y)):
        start, stop = indptr[t], indptr[t + 1]
        score[:] = 0.0
        length = 0.0
        for k in range(start, stop if age.min() < settling else start):
            behind = 0
            for g in range(width):
                behind += since[indices[k], g] != epoch[g]
            if behind > 0:
                for g in range(width):
                    _bring_up_to_date(indices[k], g, W, epoch, since, epochs)
        for k in range(start, stop):
            x, v = data[k], W[indices[k], _V]
            length += x * x
            for g in range(width):
                score[g] += x * v[g]
        counts[0 if y[t] > 0 else 1] += 1.0
        for g in range(width):
            v_by_v[g], v_by_x[g], u_by_v[g], u_by_x[g] = _step(
                y[t], counts, score[g], length, xi[g], radius[g], models[g], epoch[g : g + 1], age[g : g + 1], epochs[g]
            )
        for k in range(start, stop):
            x, v, u, s = data[k], W[indices[k], _V], W[indices[k], _U], since[indices[k]]
            for g in range(width):
                u[g] += u_by_v[g] * v[g] + u_by_x[g] * x
                v[g] = v_by_v[g] * v[g] + v_by_x[g] * x
                s[g] = epoch[g]
        for g in range(width):
            if age[g] < settling:
                _count_row(g, W, epoch, age, since, epochs)


@njit(error_model="numpy")
def _one_setting(indptr, indices, data, y, xi, radius, counts, models, W, epoch, age, since, epochs):
    """The pass of one setting, without loops over settings: the same weights bit for bit."""
    state, state_since, settling = W.reshape(W.shape[:2]), since.ravel(), _settling(len(W))
    for t in range(len(y)):
        start, stop = indptr[t], indptr[t + 1]
        score, length, now = 0.0, 0.0, epoch[0]
        for k in range(start, stop if age[0] < settling else start):
            if state_since[np.uint32(indices[k])] != now:
                _bring_up_to_date(np.uint32(indices[k]), 0, W, epoch, since, epochs)
        for k in range(start, stop):
            length += data[k] * data[k]
            score += data[k] * state[np.uint32(indices[k]), _V]
        counts[0 if y[t] > 0 else 1] += 1.0
        v_by_v, v_by_x, u_by_v, u_by_x = _step(
            y[t], counts, score, length, xi[0], radius[0], models[0], epoch, age, epochs[0]
        )
        if epoch[0] == now:
            for k in range(start, stop):
                i, x = np.uint32(indices[k]), data[k]
                state[i, _V] += v_by_x * x
                state[i, _U] += u_by_x * x
        else:
            for k in range(start, stop):
                i, x = np.uint32(indices[k]), data[k]
                v = state[i, _V]
                state[i, _U] += u_by_v * v + u_by_x * x
                state[i, _V] = v_by_v * v + v_by_x * x
                state_since[i] = epoch[0]
        if age[0] < settling:
            _count_row(0, W, epoch, age, since, epochs)


@njit(error_model="numpy")
def _bring_up_to_date(i, g, W, epoch, since, epochs):
    """v and u of a coordinate as they are in the current epoch."""
    e = since[i, g]
    W[i, _U, g] -= epochs[g, e, _TAIL] * W[i, _V, g]
    W[i, _V, g] *= epochs[g, e, _FALL]
    since[i, g] = epoch[g]


@njit(error_model="numpy")
def _step(y, counts, vx, length, xi, radius, model, epoch, age, epochs):
    """The whole step except for v and u, with ``vx`` = v'x and ``length`` = |x|^2.

    Returns the factors of v and x in the new v, and in what is added to u.
    """
    n_rows = counts[0] + counts[1]
    gamma, scale = xi / np.sqrt(n_rows), model.scale
    model.gamma += gamma * scale
    model.steps += gamma
    score = scale * vx
    push = gamma * _steps_beside_w(y, counts[0] / n_rows, gamma, score, radius, model)
    square = model.square + (push / radius) * ((push / radius) * length - 2.0 * (score / radius))
    if square <= 1.0:
        model.square = square
        return 1.0, -push / scale, 0.0, model.gamma * (-push / scale)
    shorter = 1.0 / np.sqrt(square) if square < np.inf else np.nan
    model.square = 1.0 if square < np.inf else np.nan
    if scale * shorter >= _SMALLEST_SCALE:
        model.scale = scale * shorter
        return 1.0, -push / scale, 0.0, model.gamma * (-push / scale)
    gamma_of_epoch = model.gamma
    model.scale, model.gamma = 1.0, 0.0
    _end_epoch(scale * shorter, gamma_of_epoch, epoch, age, epochs)
    return scale * shorter, -push * shorter, -gamma_of_epoch, 0.0


@njit(error_model="numpy")
def _steps_beside_w(y, p, gamma, score, radius, model):
    """Steps of a, b and alpha; returns the factor of x in g_w, from their values before."""
    a, b, alpha = model.a, model.b, model.alpha
    if y > 0:
        share, factor, towards = 2.0 * (1.0 - p), score - a - 1.0 - alpha, -score - p * alpha
        model.a = min(a + gamma * share * (score - a), radius)
    else:
        share, factor, towards = 2.0 * p, score - b + 1.0 + alpha, score - (1.0 - p) * alpha
        model.b = min(b + gamma * share * (score - b), radius)
    model.alpha = min(max(alpha + gamma * share * towards, -2.0 * radius), 2.0 * radius)
    return share * factor


@njit(error_model="numpy")
def _end_epoch(scale, gamma, epoch, age, epochs):
    for e in range(epoch[0], -1, -1):
        fall = epochs[e, _FALL]
        if fall == 0.0:
            break
        epochs[e, _TAIL] += fall * gamma
        epochs[e, _FALL] = fall * scale if fall * scale > _SMALLEST_FALL else 0.0
    epoch[0] += 1
    age[0] = 0
    epochs[epoch[0], _TAIL], epochs[epoch[0], _FALL] = 0.0, 1.0


@njit(error_model="numpy")
def _count_row(g, W, epoch, age, since, epochs):
    """Count a row of the epoch; if it has lasted, or there is no room for another, bring all coordinates up to date."""
    age[g] += 1
    if age[g] < _settling(len(W)) and epoch[g] < epochs.shape[1] - 1:
        return
    for i in range(len(W)):
        _bring_up_to_date(i, g, W, epoch, since, epochs)
        since[i, g] = 0
    epoch[g] = 0
    age[g] = _settling(len(W))
    epochs[g, 0, _TAIL], epochs[g, 0, _FALL] = 0.0, 1.0


@njit(error_model="numpy")
def _means(features, W, models, since, epochs, coef):
    """The mean of the iterates at some features."""
    for k in range(len(features)):
        i = features[k]
        for g in range(coef.shape[1]):
            past = epochs[g, since[i, g]]
            of_v = past[_TAIL] + models[g].gamma * past[_FALL]
            coef[k, g] = (of_v * W[i, _V, g] - W[i, _U, g]) / models[g].steps
