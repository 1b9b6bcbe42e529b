"""SPAM: stochastic proximal AUC maximisation with the least square loss, in three regularisations.

With running class frequencies, means m and scores a = w'm+, b = w'm- (each taken when its class had its last row),
the row (x, y) gives the gradient (here for y = +1; for y = -1 the classes change places)

    g = 2 (1 - p) [(w'x - 1 - b) x + a m+ - (w'x) m-],        w <- prox(w - eta g),    eta = xi / sqrt(t),

which differentiates a and b through w. The steps are those of the program of the FTRL-AUC authors, whose tables have
these baselines. Natole et al. take frequencies and means of the whole training set, leave out the terms in m, and
average the iterates.

    prox of l1 |w|_1 + l2 |w|^2 / 2:      u -> S(u, eta l1) / (1 + eta l2),     S(u, s) = sign(u) max(|u| - s, 0)

A threshold affects every coordinate, since m+ and m- move them all: O(d) per row. Without one the weights are
w = scale v + K+ P + K- N, with the sums P and N of the rows of each class: a row changes the coefficients, and v at
its own features. With the inner products of v, P and N kept up to date, that is O(k) per row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...kernels import njit
from ..base import OnePassLearner, State
from ..parameters import NOT_NEGATIVE, POSITIVE, VARIANT
from ..rows import rows_of
from .dense_steps import DenseLearner, dense_step, first_look, scores

__all__ = ["SPAML1", "SPAML2", "SPAMElastic"]

_SMALLEST_SCALE = 1e-100
_LOST_IN_ROUNDING = 1e290  # does not make the largest finite number overflow when it is added
# Of a model w = scale v + K+ P + K- N: K, the scores of the class means, and the inner products of v with P and N.
_MODEL = np.dtype(
    [("scale", np.float64), ("factor", np.float64, 2), ("mean_score", np.float64, 2), ("product", np.float64, 2)]
)


class _SPAM(OnePassLearner):
    """Base class of the three regularisations.

    Parameters
    ----------
    xi : float, default=0.1
        Multiplies every step: eta = xi / sqrt(t) at row t.
    l1 : float, default=1e-3
        Multiplies ``|w|_1``: thresholds are eta l1.
    l2 : float, default=1e-3
        Multiplies ``|w|^2 / 2``: weights are divided by 1 + eta l2.

    References
    ----------
    M. Natole, Y. Ying, S. Lyu: Stochastic proximal algorithms for AUC maximization. ICML 2018. As a baseline, with
    these steps: B. Zhou, Y. Ying, S. Skiena, ICDM 2020.
    """

    _sparse_chunks = True


class _DenseSPAM(DenseLearner, _SPAM):
    def _consume(self, state, X, y):
        settings = state.settings
        l2 = settings.get("l2", np.zeros(state.n_live))
        released = getattr(self, "variant", "paper") == "released"
        _learn_dense(*rows_of(X), y, settings["xi"], settings["l1"], l2, released, *state.arrays())


class SPAML1(_DenseSPAM):
    """SPAM with an l1 regulariser."""

    grid_axes = ("xi", "l1")
    parameter_constraints: ClassVar = {"xi": POSITIVE, "l1": NOT_NEGATIVE}

    def __init__(self, xi: float = 0.1, l1: float = 1e-3):
        self.xi = xi
        self.l1 = l1


class SPAMElastic(_DenseSPAM):
    """SPAM with an l1 and an l2 regulariser.

    Parameters
    ----------
    variant : {'paper', 'released'}, default='paper'
        'released' divides negative weights only (where l1 > 0), as the program of the FTRL-AUC authors does.
    """

    grid_axes = ("xi", "l1", "l2")
    parameter_constraints: ClassVar = {"xi": POSITIVE, "l1": NOT_NEGATIVE, "l2": NOT_NEGATIVE, "variant": VARIANT}

    def __init__(self, xi: float = 0.1, l1: float = 1e-3, l2: float = 1e-3, variant: str = "paper"):
        self.xi = xi
        self.l1 = l1
        self.l2 = l2
        self.variant = variant


@dataclass
class _Combination(State):
    """w = scale v + K+ P + K- N, with v in ``W`` and P and N in ``sums``; class 0 is positive."""

    models: np.ndarray  # (n_live,), records
    counts: np.ndarray  # (2,)
    sums: np.ndarray  # (n_features, 2), of the rows of each class
    gram: np.ndarray  # (2, 2), inner products of the sums
    settings_axes: ClassVar = {"W": -1, "models": -1}

    def coef(self, n_features):
        return self._weights(self.W, self.sums)

    def coef_at(self, features):
        return self._weights(self.W[features], self.sums[features])

    def _weights(self, v: np.ndarray, sums: np.ndarray) -> np.ndarray:
        return self.models["scale"] * v + sums @ np.ascontiguousarray(self.models["factor"].T)

    def finite_elsewhere(self):
        """A finite v times a scale of at most 1 is finite, and so is its sum with something as small as that."""
        factors = np.abs(self.models["factor"]).sum(axis=1)
        small = np.abs(self.sums).max(initial=0.0) * factors < _LOST_IN_ROUNDING
        return bool((small & (self.models["scale"] <= 1.0)).all())


class SPAML2(_SPAM):
    """SPAM with an l2 regulariser, at O(k) per row."""

    grid_axes = ("xi", "l2")
    parameter_constraints: ClassVar = {"xi": POSITIVE, "l2": NOT_NEGATIVE}
    _moves_own_features = True

    def __init__(self, xi: float = 0.1, l2: float = 1e-3):
        self.xi = xi
        self.l2 = l2

    def _begin(self, n_features, settings):
        n_settings = len(settings["xi"])
        models = np.zeros(n_settings, _MODEL)
        models["scale"] = 1.0
        return _Combination(
            settings=settings,
            W=np.zeros((n_features, n_settings)),
            models=models,
            counts=np.zeros(2),
            sums=np.zeros((n_features, 2)),
            gram=np.zeros((2, 2)),
        )

    def _consume(self, state, X, y):
        learn = _one_setting if state.n_live == 1 else _all_settings
        rule = state.settings["xi"], state.settings["l2"]
        learn(*rows_of(X), y, *rule, state.counts, state.sums, state.gram, state.models, state.W)

    def seconds_per_row(self, n_features, n_nonzero, n_settings):
        return 1e-7 + 2e-8 * n_settings + n_nonzero * (6e-9 + 1e-9 * n_settings)

    def memory_bytes(self, n_features, n_settings):
        # Beside v the weights, which are formed between chunks, with what that takes.
        return 8.0 * n_features * (4 * n_settings + 2)


@njit(error_model="numpy")
def _learn_dense(indptr, indices, data, y, xi, l1, l2, released, counts, reach, sums, sizes, mean_scores, products, W):
    width = len(xi)
    score, push = np.empty(width), np.empty((3, width))
    prox = np.empty((3, width))
    for t in range(len(y)):
        there, x = indices[indptr[t] : indptr[t + 1]], data[indptr[t] : indptr[t + 1]]
        own, opp, sign = (0, 1, 1.0) if y[t] > 0 else (1, 0, -1.0)
        first_look(there, x, own, counts, reach, sums, sizes, mean_scores, products, W, score)
        n_rows = counts[0] + counts[1]
        share = 2.0 * counts[opp] / n_rows
        for g in range(width):
            eta = xi[g] / np.sqrt(n_rows)
            push[0, g] = eta * share * (score[g] - sign - mean_scores[opp, g])
            push[1, g] = eta * share * mean_scores[own, g] / counts[own]
            push[2, g] = -eta * share * score[g] / max(counts[opp], 1.0)
            prox[0, g] = eta * l1[g]
            prox[1, g] = 1.0 if released and l1[g] > 0.0 else 1.0 + eta * l2[g]
            prox[2, g] = 1.0 + eta * l2[g]
        dense_step(there, x, own, push, prox, reach, sums, sizes, products, W)


@njit(error_model="numpy")
def _all_settings(indptr, indices, data, y, xi, l2, counts, sums, gram, models, V):
    width = len(xi)
    vx, change = np.empty(width), np.empty(width)
    for t in range(len(y)):
        there, x = indices[indptr[t] : indptr[t + 1]], data[indptr[t] : indptr[t + 1]]
        scores(there, x, V, vx)
        row = _add_to_sums(there, x, y[t], counts, sums, gram)
        for g in range(width):
            change[g] = _change_of_v(y[t], row, counts, gram, vx[g], xi[g], l2[g], models[g])
        for k in range(len(x)):
            v, xk = V[there[k]], x[k]
            for g in range(width):
                v[g] += change[g] * xk
        for g in range(width):
            if models[g].scale < _SMALLEST_SCALE:
                _take_scale_into_v(g, models[g], V)


@njit(error_model="numpy")
def _one_setting(indptr, indices, data, y, xi, l2, counts, sums, gram, models, V):
    """The pass of one setting, without loops over settings: the same weights bit for bit."""
    v = V[:, 0]
    for t in range(len(y)):
        there, x = indices[indptr[t] : indptr[t + 1]], data[indptr[t] : indptr[t + 1]]
        vx = 0.0
        for k in range(len(x)):
            vx += x[k] * v[np.uint32(there[k])]
        row = _add_to_sums(there, x, y[t], counts, sums, gram)
        change = _change_of_v(y[t], row, counts, gram, vx, xi[0], l2[0], models[0])
        for k in range(len(x)):
            v[np.uint32(there[k])] += change * x[k]
        if models[0].scale < _SMALLEST_SCALE:
            _take_scale_into_v(0, models[0], V)


@njit(error_model="numpy")
def _change_of_v(y, row, counts, gram, vx, xi, l2, model):
    """The whole step except for v; returns what v gets of x. ``row`` comes from ``_add_to_sums``, ``vx`` is v'x."""
    own, opp, sign = (0, 1, 1.0) if y > 0 else (1, 0, -1.0)
    with_own, with_opp, length = row
    # The row has joined its sum, so the same w is (scale v - K_own x) + K_own (new sum) + K_opp (other sum).
    scale, k_own, k_opp = model.scale, model.factor[own], model.factor[opp]
    score = scale * vx + k_own * (with_own - length) + k_opp * with_opp
    of_sum = scale * (model.product[own] + vx) + k_own * (gram[own, own] - with_own) + k_opp * gram[0, 1]
    mean_score = of_sum / counts[own]
    n_rows = counts[0] + counts[1]
    eta = xi / np.sqrt(n_rows)
    push, shrink = eta * (2.0 * counts[opp] / n_rows), 1.0 / (1.0 + eta * l2)
    change = -(k_own + push * (score - sign - model.mean_score[opp])) / scale
    model.product[own] += vx + change * with_own
    model.product[opp] += change * with_opp
    model.mean_score[own] = mean_score
    model.factor[own] = shrink * (k_own - push * mean_score / counts[own])
    model.factor[opp] = shrink * (k_opp + push * score / max(counts[opp], 1.0))
    model.scale = shrink * scale
    return change


@njit(error_model="numpy")
def _take_scale_into_v(g, model, V):
    """Multiply v by the scale of w, which becomes 1; w stays the same."""
    for i in range(V.shape[0]):
        V[i, g] *= model.scale
    model.product[0] *= model.scale
    model.product[1] *= model.scale
    model.scale = 1.0


@njit(error_model="numpy")
def _add_to_sums(there, x, y, counts, sums, gram):
    """Take a row into its class's sum; returns its products with that sum and with the other one, and |x|^2."""
    own, opp = (0, 1) if y > 0 else (1, 0)
    with_own, with_opp, length = 0.0, 0.0, 0.0
    for k in range(len(x)):
        i = np.uint32(there[k])
        with_opp += x[k] * sums[i, opp]
        length += x[k] * x[k]
        total = sums[i, own] + x[k]
        sums[i, own] = total
        with_own += x[k] * total
    gram[own, own] += 2.0 * with_own - length
    gram[own, opp] += with_opp
    gram[opp, own] = gram[own, opp]
    counts[own] += 1.0
    return with_own, with_opp, length
