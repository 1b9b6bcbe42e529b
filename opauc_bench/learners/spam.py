"""SPAM: stochastic proximal AUC maximisation with the least square loss, in three regularisations.

With running class frequencies, means m and scores a = w'm+, b = w'm- (each taken when its class had its last row),
the row (x, y) gives the gradient (here for y = +1; for y = -1 the classes change places)

    g = 2 (1 - p) [(w'x - 1 - b) x + a m+ - (w'x) m-],        w <- prox(w - eta g),    eta = xi / sqrt(t),

which differentiates a and b through w. The steps are those of the program of the FTRL-AUC authors, whose tables have
these baselines. Natole et al. take frequencies and means of the whole training set, leave out the terms in m, and
average the iterates.

    prox of l1 |w|_1 + l2 |w|^2 / 2:      u -> S(u, eta l1) / (1 + eta l2),     S(u, s) = sign(u) max(|u| - s, 0)

A threshold has to look at every coordinate, since m+ and m- move them all: O(d) a row. Without one the weights are
w = scale v + K+ P + K- N, with the sums P and N of the rows of each class: a row changes the coefficients, and v at
its own features. With the inner products of v, P and N kept up to date, that is O(k) a row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from .base import OnePassLearner, State
from .dense_steps import DenseState, dense_step, first_look, scores
from .sparse_rows import require_positive, require_variant, rows_of

__all__ = ["SPAML1", "SPAML2", "SPAMElastic"]

_SMALLEST_SCALE = 1e-100

_ATTRIBUTES = """

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
        The last iterate.
    intercept_ : ndarray of shape (1,)
        Threshold midway between the class means' scores; AUC does not depend on it.
    classes_ : ndarray of shape (2,)

    References
    ----------
    M. Natole, Y. Ying, S. Lyu: Stochastic proximal algorithms for AUC maximization. ICML 2018. As a baseline, with
    these steps: B. Zhou, Y. Ying, S. Skiena, ICDM 2020.
    """


class _DenseSPAM(OnePassLearner):
    _sparse_chunks = True

    def _begin(self, n_features, settings):
        require_positive(settings, "xi")
        require_variant(getattr(self, "variant", "paper"))
        return DenseState.begin(n_features, settings)

    def _consume(self, state, X, y):
        settings = state.settings
        l2 = settings.get("l2", np.zeros(state.n_live))
        released = getattr(self, "variant", "paper") == "released"
        _learn_dense(*rows_of(X), y, settings["xi"], settings["l1"], l2, released, *state.arrays())

    def seconds_per_row(self, n_features, n_nonzero, n_settings):
        return 2e-7 + n_features * (2e-9 if n_settings == 1 else 2e-9 + 8e-10 * n_settings)

    def memory_bytes(self, n_features, n_settings):
        return 8.0 * n_features * (n_settings + 2)


class SPAML1(_DenseSPAM):
    __doc__ = (
        """SPAM with an l1 regulariser.

    Parameters
    ----------
    xi : float, default=0.1
        Multiplies every step: eta = xi / sqrt(t) at row t.
    l1 : float, default=1e-3
        Multiplies ``|w|_1``: thresholds are eta l1."""
        + _ATTRIBUTES
    )
    grid_axes = ("xi", "l1")

    def __init__(self, xi=0.1, l1=1e-3):
        self.xi = xi
        self.l1 = l1


class SPAMElastic(_DenseSPAM):
    __doc__ = (
        """SPAM with an l1 and an l2 regulariser.

    Parameters
    ----------
    xi : float, default=0.1
        Multiplies every step: eta = xi / sqrt(t) at row t.
    l1 : float, default=1e-3
        Multiplies ``|w|_1``: thresholds are eta l1.
    l2 : float, default=1e-3
        Multiplies ``|w|^2 / 2``: weights are divided by 1 + eta l2.
    variant : {'paper', 'released'}, default='paper'
        'released' divides negative weights only (where l1 > 0), as the program of the FTRL-AUC authors does."""
        + _ATTRIBUTES
    )
    grid_axes = ("xi", "l1", "l2")

    def __init__(self, xi=0.1, l1=1e-3, l2=1e-3, variant="paper"):
        self.xi = xi
        self.l1 = l1
        self.l2 = l2
        self.variant = variant


@dataclass
class _Combination(State):
    """w = scale v + coefficients[0] sums[0] + coefficients[1] sums[1]; ``W`` holds v. Class 0 is positive."""

    scale: np.ndarray  # (n_live,)
    coefficients: np.ndarray  # (2, n_live)
    mean_scores: np.ndarray  # (2, n_live), a and b
    products: np.ndarray  # (2, n_live), inner products of v and the sums
    counts: np.ndarray  # (2,)
    sums: np.ndarray  # (n_features, 2), of the rows of each class
    gram: np.ndarray  # (2, 2), inner products of the sums

    def coef(self, n_features):
        return self.scale * self.W + self.sums @ self.coefficients

    def keep(self, columns):
        super().keep(columns)
        self.scale = self.scale[columns]
        self.coefficients, self.mean_scores, self.products = (
            np.ascontiguousarray(values[:, columns]) for values in (self.coefficients, self.mean_scores, self.products)
        )


class SPAML2(OnePassLearner):
    __doc__ = (
        """SPAM with an l2 regulariser, at O(k) a row.

    Parameters
    ----------
    xi : float, default=0.1
        Multiplies every step: eta = xi / sqrt(t) at row t.
    l2 : float, default=1e-3
        Multiplies ``|w|^2 / 2``: weights are divided by 1 + eta l2."""
        + _ATTRIBUTES
    )
    grid_axes = ("xi", "l2")
    _sparse_chunks = True

    def __init__(self, xi=0.1, l2=1e-3):
        self.xi = xi
        self.l2 = l2

    def _begin(self, n_features, settings):
        require_positive(settings, "xi")
        n_settings = len(settings["xi"])
        return _Combination(
            settings=settings,
            W=np.zeros((n_features, n_settings)),
            scale=np.ones(n_settings),
            coefficients=np.zeros((2, n_settings)),
            mean_scores=np.zeros((2, n_settings)),
            products=np.zeros((2, n_settings)),
            counts=np.zeros(2),
            sums=np.zeros((n_features, 2)),
            gram=np.zeros((2, 2)),
        )

    def _consume(self, state, X, y):
        shared = state.counts, state.sums, state.gram
        own = state.scale, state.coefficients, state.mean_scores, state.products, state.W
        _learn_lazily(*rows_of(X), y, state.settings["xi"], state.settings["l2"], *shared, *own)

    def seconds_per_row(self, n_features, n_nonzero, n_settings):
        return 1e-7 + 2e-8 * n_settings + n_nonzero * (6e-9 + 1e-9 * n_settings)

    def memory_bytes(self, n_features, n_settings):
        return 8.0 * n_features * (n_settings + 2)


@njit(cache=True, error_model="numpy")
def _learn_dense(indptr, indices, data, y, xi, l1, l2, released, counts, sums, mean_scores, products, W):
    width = len(xi)
    score, push = np.empty(width), np.empty((3, width))
    prox = np.empty((3, width))
    for t in range(len(y)):
        there, x = indices[indptr[t] : indptr[t + 1]], data[indptr[t] : indptr[t + 1]]
        scores(there, x, W, score)
        own, opp, sign = (0, 1, 1.0) if y[t] > 0 else (1, 0, -1.0)
        first_look(there, x, own, score, counts, sums, mean_scores, products)
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
        dense_step(there, x, own, push, prox, sums, products, W)


@njit(cache=True, error_model="numpy")
def _learn_lazily(indptr, indices, data, y, xi, l2, counts, sums, gram, scale, coefficients, mean_scores, products, V):
    width = len(xi)
    vx, change = np.empty(width), np.empty(width)
    for t in range(len(y)):
        there, x = indices[indptr[t] : indptr[t + 1]], data[indptr[t] : indptr[t + 1]]
        scores(there, x, V, vx)
        own, opp, sign = (0, 1, 1.0) if y[t] > 0 else (1, 0, -1.0)
        with_own, with_opp, length = _add_to_sums(there, x, own, counts, sums, gram)
        n_rows, gram_own, gram_both = counts[0] + counts[1], gram[own, own], gram[0, 1]
        share = 2.0 * counts[opp] / n_rows
        for g in range(width):
            # The row has joined its sum, so the same w is (scale v - K_own x) + K_own (new sum) + K_opp (other sum).
            k_own, k_opp = coefficients[own, g], coefficients[opp, g]
            score = scale[g] * vx[g] + k_own * (with_own - length) + k_opp * with_opp
            products[own, g] += vx[g]
            of_sum = scale[g] * products[own, g] - k_own * with_own + k_own * gram_own + k_opp * gram_both
            mean_scores[own, g] = of_sum / counts[own]
            eta = xi[g] / np.sqrt(n_rows)
            change[g] = -(k_own + eta * share * (score - sign - mean_scores[opp, g])) / scale[g]
            products[own, g] += change[g] * with_own
            products[opp, g] += change[g] * with_opp
            shrink = 1.0 / (1.0 + eta * l2[g])
            coefficients[own, g] = shrink * (k_own - eta * share * mean_scores[own, g] / counts[own])
            coefficients[opp, g] = shrink * (k_opp + eta * share * score / max(counts[opp], 1.0))
            scale[g] *= shrink
        for k in range(len(x)):
            v, xk = V[there[k]], x[k]
            for g in range(width):
                v[g] += change[g] * xk
        for g in range(width):
            if scale[g] < _SMALLEST_SCALE:
                V[:, g] *= scale[g]
                products[:, g] *= scale[g]
                scale[g] = 1.0


@njit(cache=True, error_model="numpy")
def _add_to_sums(there, x, own, counts, sums, gram):
    """Take a row into its class's sum; returns its products with that sum and with the other one, and |x|^2."""
    opp = 1 - own
    with_own, with_opp, length = 0.0, 0.0, 0.0
    for k in range(len(x)):
        s = sums[there[k]]
        with_opp += x[k] * s[opp]
        length += x[k] * x[k]
        s[own] += x[k]
        with_own += x[k] * s[own]
    gram[own, own] += 2.0 * with_own - length
    gram[own, opp] += with_opp
    gram[opp, own] = gram[own, opp]
    counts[own] += 1.0
    return with_own, with_opp, length
