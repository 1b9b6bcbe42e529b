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

Gamma v - u loses as many digits as the scale falls. Before the scale falls below 2^-8 an era ends, and the next one
begins with the scale 1 and Gamma 0. A coordinate learns of it when a row has it next: since era e,

    u <- u - tail_e v,   v <- fall_e v,   fall_e = s_e s_{e+1} ... ,   tail_e = Gamma_e + s_e Gamma_{e+1} + ...

with s_e and Gamma_e as they were when the eras ended. A new end of an era changes tail and fall of the last few eras
only, as the others have fallen to nothing. Every d / 16 eras all coordinates are brought up to date, and so they are
when an era has lasted for 1 + d / 32 rows: from then on until it ends, no row has to ask how far its coordinates are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...kernels import njit
from ..base import OnePassLearner, State
from ..rows import aligned_zeros, require_positive, rows_of

__all__ = ["SOLAM"]

_V, _U = range(2)
_SCALE, _GAMMA, _STEPS, _SQUARE, _A, _B, _ALPHA = range(7)
_TAIL, _FALL = range(2)
_SMALLEST_SCALE = 2.0**-8
# What has fallen below this is 0: the sum of the iterates has lost sight of it long before.
_SMALLEST_FALL = 2.0**-100
_FEWEST_ERAS, _FEATURES_AN_ERA, _FEATURES_A_ROW = 64, 16, 32
_SECONDS_A_WEIGHT = 2e-8


@dataclass
class _Saddle(State):
    """``W`` is of shape (n_features, 2, n_live): v and u."""

    scalars: np.ndarray  # (7, n_live): scale, Gamma, sum of gamma_t, |w|^2 / R^2, a, b, alpha
    counts: np.ndarray  # (2,), positives and negatives so far
    era: np.ndarray  # (n_live,), the current one
    age: np.ndarray  # (n_live,), rows that it has lasted, as far as they are counted
    since: np.ndarray  # (n_features, n_live), the era that v and u are of
    eras: np.ndarray  # (n_live, most eras, 2): tail and fall; 0 and 1 for the current one

    def coef(self, n_features):
        return self.coef_at(np.arange(n_features))

    def coef_at(self, features):
        coef = np.empty((len(features), self.n_live))
        _means(features, self.W, self.scalars, self.era, self.since, self.eras, coef)
        return coef

    def finite(self, n_features):
        # What overflows in v or u has made |w|^2 overflow.
        return np.isfinite(self.scalars).all(axis=0)

    def keep(self, columns):
        self.settings = {axis: values[columns] for axis, values in self.settings.items()}
        W = aligned_zeros(*self.W.shape[:2], len(columns))
        self.W = np.take(self.W, columns, axis=2, out=W, mode="clip")  # without another copy on the way
        self.scalars, self.since = (np.ascontiguousarray(a[:, columns]) for a in (self.scalars, self.since))
        self.era, self.age, self.eras = self.era[columns], self.age[columns], self.eras[columns]


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
        n_settings, most_eras = len(radius), max(_FEWEST_ERAS, n_features // _FEATURES_AN_ERA)
        W = aligned_zeros(n_features, 2, n_settings)
        W[:, _V] = radius / np.sqrt(n_features)
        scalars = np.zeros((7, n_settings))
        with np.errstate(over="ignore"):
            scalars[_SCALE], scalars[_SQUARE], scalars[_A], scalars[_B] = 1.0, 1.0, radius, radius
            scalars[_ALPHA] = 2.0 * radius
        eras = np.zeros((n_settings, most_eras, 2))
        eras[:, 0, _FALL] = 1.0
        return _Saddle(
            settings=settings,
            W=W,
            scalars=scalars,
            counts=np.zeros(2),
            era=np.zeros(n_settings, dtype=np.int32),
            age=np.full(n_settings, _settling(n_features)),
            since=np.zeros((n_features, n_settings), dtype=np.int32),
            eras=eras,
        )

    def _consume(self, state, X, y):
        learn = _one_setting if state.n_live == 1 else _all_settings
        memory = state.counts, state.scalars, state.W, state.era, state.age, state.since, state.eras
        learn(*rows_of(X), y, state.settings["xi"], state.settings["radius"], *memory)

    def seconds_per_row(self, n_features, n_nonzero, n_settings):
        return 1e-7 + 3e-8 * n_settings + n_nonzero * (6e-9 + 4.5e-9 * n_settings)

    def cost(self, n_rows, n_features, n_nonzero, n_settings):
        # Between chunks nobody looks at the weights; they are formed and copied in the end.
        seconds = n_rows * self.seconds_per_row(n_features, n_nonzero, n_settings)
        seconds += _SECONDS_A_WEIGHT * n_features * n_settings
        return seconds, self.memory_bytes(n_features, n_settings)

    def memory_bytes(self, n_features, n_settings):
        # v, u, the era of both and tables of a sixteenth of their size; in the end the weights, twice.
        return 8.0 * 4.625 * n_features * n_settings + 1024.0 * n_settings


@njit(error_model="numpy")
def _settling(n_features):
    """Rows after which all coordinates are brought up to date: so many have asked for about what that costs."""
    return 1 + n_features // _FEATURES_A_ROW


@njit(error_model="numpy")
def _all_settings(indptr, indices, data, y, xi, radius, counts, scalars, W, era, age, since, eras):
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
                behind += since[indices[k], g] != era[g]
            if behind > 0:
                for g in range(width):
                    _bring_up_to_date(indices[k], g, W, era, since, eras)
        for k in range(start, stop):
            x, v = data[k], W[indices[k], _V]
            length += x * x
            for g in range(width):
                score[g] += x * v[g]
        counts[0 if y[t] > 0 else 1] += 1.0
        for g in range(width):
            v_by_v[g], v_by_x[g], u_by_v[g], u_by_x[g] = _step(
                y[t], counts, score[g], length, xi[g], radius[g], scalars[:, g], era[g : g + 1], age[g : g + 1], eras[g]
            )
        for k in range(start, stop):
            x, v, u, s = data[k], W[indices[k], _V], W[indices[k], _U], since[indices[k]]
            for g in range(width):
                u[g] += u_by_v[g] * v[g] + u_by_x[g] * x
                v[g] = v_by_v[g] * v[g] + v_by_x[g] * x
                s[g] = era[g]
        for g in range(width):
            if age[g] < settling:
                _grow_older(g, W, era, age, since, eras)


@njit(error_model="numpy")
def _one_setting(indptr, indices, data, y, xi, radius, counts, scalars, W, era, age, since, eras):
    """The same without loops over settings, bit for bit."""
    state, state_since, of_model, settling = W.reshape(W.shape[:2]), since.ravel(), scalars.ravel(), _settling(len(W))
    for t in range(len(y)):
        start, stop = indptr[t], indptr[t + 1]
        score, length, now = 0.0, 0.0, era[0]
        for k in range(start, stop if age[0] < settling else start):
            if state_since[np.uint32(indices[k])] != now:
                _bring_up_to_date(np.uint32(indices[k]), 0, W, era, since, eras)
        for k in range(start, stop):
            length += data[k] * data[k]
            score += data[k] * state[np.uint32(indices[k]), _V]
        counts[0 if y[t] > 0 else 1] += 1.0
        v_by_v, v_by_x, u_by_v, u_by_x = _step(
            y[t], counts, score, length, xi[0], radius[0], of_model, era, age, eras[0]
        )
        if era[0] == now:
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
                state_since[i] = era[0]
        if age[0] < settling:
            _grow_older(0, W, era, age, since, eras)


@njit(error_model="numpy")
def _bring_up_to_date(i, g, W, era, since, eras):
    """v and u of a coordinate as they are in the current era."""
    e = since[i, g]
    W[i, _U, g] -= eras[g, e, _TAIL] * W[i, _V, g]
    W[i, _V, g] *= eras[g, e, _FALL]
    since[i, g] = era[g]


@njit(error_model="numpy")
def _step(y, counts, vx, length, xi, radius, scalars, era, age, eras):
    """The whole step but for v and u, with ``vx`` = v'x and ``length`` = |x|^2.

    Returns what v becomes (by v, by x) and what is added to u (by v, by x).
    """
    n_rows = counts[0] + counts[1]
    gamma, scale = xi / np.sqrt(n_rows), scalars[_SCALE]
    scalars[_GAMMA] += gamma * scale
    scalars[_STEPS] += gamma
    score = scale * vx
    push = gamma * _steps_beside_w(y, counts[0] / n_rows, gamma, score, radius, scalars)
    square = scalars[_SQUARE] + (push / radius) * ((push / radius) * length - 2.0 * (score / radius))
    if square <= 1.0:
        scalars[_SQUARE] = square
        return 1.0, -push / scale, 0.0, scalars[_GAMMA] * (-push / scale)
    shorter = 1.0 / np.sqrt(square) if square < np.inf else np.nan
    scalars[_SQUARE] = 1.0 if square < np.inf else np.nan
    if scale * shorter >= _SMALLEST_SCALE:
        scalars[_SCALE] = scale * shorter
        return 1.0, -push / scale, 0.0, scalars[_GAMMA] * (-push / scale)
    gamma_of_era = scalars[_GAMMA]
    scalars[_SCALE], scalars[_GAMMA] = 1.0, 0.0
    _end_era(scale * shorter, gamma_of_era, era, age, eras)
    return scale * shorter, -push * shorter, -gamma_of_era, 0.0


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
def _end_era(scale, gamma, era, age, eras):
    for e in range(era[0], -1, -1):
        fall = eras[e, _FALL]
        if fall == 0.0:
            break
        eras[e, _TAIL] += fall * gamma
        eras[e, _FALL] = fall * scale if fall * scale > _SMALLEST_FALL else 0.0
    era[0] += 1
    age[0] = 0
    eras[era[0], _TAIL], eras[era[0], _FALL] = 0.0, 1.0


@njit(error_model="numpy")
def _grow_older(g, W, era, age, since, eras):
    """Count a row of the era; when it has lasted or there is no room for another, bring all coordinates up to date."""
    age[g] += 1
    if age[g] < _settling(len(W)) and era[g] < eras.shape[1] - 1:
        return
    for i in range(len(W)):
        _bring_up_to_date(i, g, W, era, since, eras)
        since[i, g] = 0
    era[g] = 0
    age[g] = _settling(len(W))
    eras[g, 0, _TAIL], eras[g, 0, _FALL] = 0.0, 1.0


@njit(error_model="numpy")
def _means(features, W, scalars, era, since, eras, coef):
    """The mean of the iterates at some features."""
    for k in range(len(features)):
        i = features[k]
        for g in range(coef.shape[1]):
            past = eras[g, since[i, g]]
            of_v = past[_TAIL] + scalars[_GAMMA, g] * past[_FALL]
            coef[k, g] = (of_v * W[i, _V, g] - W[i, _U, g]) / scalars[_STEPS, g]
