"""FTRL-AUC, and FTRL-Proximal with the logistic loss: sparse weights at O(k) per row with k nonzero features.

Both keep, for every coordinate, z (gradients, less a correction for the steps taken) and q (their squares). A row
touches its own coordinates only (Zhou, Ying and Skiena 2020, Algorithm 1, lines 19 to 21):

    w_i <- -sign(z_i) max(|z_i| - l1, 0) / ((beta + sqrt(q_i)) / gamma + l2)
    z_i <- z_i + g_i - (sqrt(q_i + g_i^2) - sqrt(q_i)) / gamma w_i,       q_i <- q_i + g_i^2,

with the gradient g = c x. FTRL-AUC has the least square loss against the mean score of the opposite class (Eq. 9),

    y = +1:  c = 2 (1 - p) (w'x - b - 1),       y = -1:  c = 2 p (w'x - a + 1),

where p is the share of positives so far, and a and b are the means of the scores that positives and negatives had when
they came (the lazy update; without it, scores of the class mean under the weights of the last row of that class).
FTRL-Proximal has c = -y / (1 + exp(y w'x)).

The four values w, z, q and sqrt(q) of a coordinate lie side by side, so that for a single setting a visit fetches one
cache line and takes one square root. Vector registers hold several settings of one coordinate in the pass for the
grid, and several coordinates of one row, gathered beforehand, in the pass for a single setting. Either does the same
arithmetic, bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...kernels import njit
from ..base import OnePassLearner, State
from ..parameters import NOT_NEGATIVE, POSITIVE, VARIANT, Boolean
from ..rows import add_to_sums, aligned_zeros, is_plain, rows_of

__all__ = ["FTRLAUC", "FTRLProximal"]

_W, _Z, _Q, _ROOT = range(4)
_LANES = 8  # doubles of the widest vector register


@dataclass
class _Leader(State):
    """``W`` is of shape (n_features, 4, n_live): w, z, q and sqrt(q) of each coordinate."""

    shrink: np.ndarray  # (2, n_live), what is taken from a z above l1 and, in size, from one below -l1
    shared: tuple[float, float]  # beta, l2
    refresh: bool
    counts: np.ndarray  # (2,), positives and negatives so far
    mean_scores: np.ndarray  # (2, n_live), a and b
    class_sums: np.ndarray  # (n_features, 2), or empty where class means are not needed
    products: np.ndarray  # (2, n_live), inner products of the weights and the class sums
    settings_axes: ClassVar = dict.fromkeys(("W", "shrink", "mean_scores", "products"), -1)

    @property
    def is_single(self) -> bool:
        """Whether the kernels for one setting apply."""
        return self.W.shape[2] == 1 and len(self.class_sums) == 0

    def coef(self, n_features):
        return self._weights(self.W)

    def coef_at(self, features):
        return self._weights(self.W[features]) if self.refresh else self.W[features, _W]

    def finite_elsewhere(self):
        return not self.refresh  # which gives features without any row a weight too, 0/0 if beta / gamma underflows

    def _weights(self, W: np.ndarray) -> np.ndarray:
        if not self.refresh:
            return W[:, _W]
        z, l1 = W[:, _Z], self.settings["l1"]
        beta, l2 = self.shared
        left = np.where(z > l1, self.shrink[0] - z, np.where(z < -l1, -z - self.shrink[1], 0.0))
        fresh = left / ((beta + W[:, _ROOT]) * (1.0 / self.settings["gamma"]) + l2)
        return np.where(np.isfinite(W[:, _W]), fresh, np.nan)


class _FTRL(OnePassLearner):
    """Base class of the FTRL family.

    Parameters
    ----------
    gamma : float, default=0.1
        Multiplies every step: the rate of coordinate i is gamma / (beta + sqrt(q_i)).
    l1 : float, default=1e-3
        Threshold on |z_i| below which w_i is 0; multiplies ``|w|_1`` (the paper's lambda, with the sum of all losses).
    l2 : float, default=0.0
        Added to the inverse of the rate; multiplies ``|w|^2 / 2``. The FTRL-AUC paper has none.
    beta : float, default=1.0
        Added to sqrt(q_i). Above 0 if l2 is 0.
    refresh : bool, default=False
        Whether all weights are computed from z at the end. Without it a weight is as of the last visit to its
        coordinate, and a feature that came only once has weight 0. That is what the published tables count: on
        farm-ads the refresh doubles the share of weights that are not 0.
    variant : {'paper', 'released'}, default='paper'
        'released' takes from z what the FTRL-AUC authors' program takes: z - 1 where z > l1, and z - l1 where z < -l1.
        That makes weights much sparser and AUC lower, and the published Tables II and III were computed with it.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
        The weights that the last row left.
    """

    grid_axes = ("gamma", "l1")
    parameter_constraints: ClassVar = {
        "gamma": POSITIVE,
        **dict.fromkeys(("l1", "l2", "beta"), NOT_NEGATIVE),
        "refresh": Boolean(),
        "variant": VARIANT,
    }
    _sparse_chunks = True
    _moves_own_features = True
    _logistic: bool

    def __init__(
        self,
        gamma: float = 0.1,
        l1: float = 1e-3,
        l2: float = 0.0,
        beta: float = 1.0,
        refresh: bool = False,
        variant: str = "paper",
    ):
        self.gamma = gamma
        self.l1 = l1
        self.l2 = l2
        self.beta = beta
        self.refresh = refresh
        self.variant = variant

    def check_params(self):
        super().check_params()
        if self.beta == 0 and self.l2 == 0:  # the first weight would be 0/0
            raise ValueError(f"{type(self).__name__}: beta has to be a number > 0 if l2 is 0, got {self.beta!r}")

    def _begin(self, n_features, settings):
        l1 = settings["l1"]
        n_settings = len(l1)
        return _Leader(
            settings=settings,
            W=aligned_zeros(n_features, 4, n_settings),
            shrink=np.array([np.ones(n_settings), -l1]) if self.variant == "released" else np.array([l1, l1]),
            shared=(float(self.beta), float(self.l2)),
            refresh=bool(self.refresh),
            counts=np.zeros(2),
            mean_scores=np.zeros((2, n_settings)),
            class_sums=np.zeros((0 if getattr(self, "lazy", True) else n_features, 2)),
            products=np.zeros((2, n_settings)),
        )

    def _consume(self, state, X, y):
        if state.is_single:
            self._consume_plain(state, X, y, np.empty((2, 0)))
        else:
            means = state.counts, state.mean_scores, state.class_sums, state.products
            _all_settings(*rows_of(X), y, self._rule(state), self._logistic, *means, state.W)

    def _consume_plain(self, state, X, y, class_sums):
        if not state.is_single:
            return 0
        means = state.counts, state.mean_scores, class_sums
        return _one_setting(*rows_of(X), y, self._rule(state), self._logistic, *means, state.W)

    @staticmethod
    def _rule(state):
        return (1.0 / state.settings["gamma"], state.settings["l1"], state.shrink, *state.shared)

    def seconds_per_row(self, n_features, n_nonzero, n_settings):
        return 3e-8 + n_nonzero * (5e-9 if n_settings == 1 else 5e-9 + 2.5e-9 * n_settings)

    def memory_bytes(self, n_features, n_settings):
        return 8.0 * 4 * n_features * n_settings


class FTRLAUC(_FTRL):
    """Follow-the-regularised-leader for AUC, with sparse weights.

    Parameters
    ----------
    lazy : bool, default=True
        Whether a and b are running means of past scores; otherwise scores of the class means, each with the weights
        that the last row of that class met. Both take O(k) per row here.

    Notes
    -----
    The order of operations is that of the authors' program, in both variants. Algorithm 1 as printed differs: it
    uses p and the means from before the row (lines 8 and 13), and line 20 multiplies by the weight from before line 19.
    On farm-ads these are worth less than .0005 of AUC on balanced data, and .001 at one positive in ten.

    References
    ----------
    B. Zhou, Y. Ying, S. Skiena: Online AUC optimization for high-dimensional sparse datasets. ICDM 2020, Algorithm 1.
    """

    parameter_constraints: ClassVar = _FTRL.parameter_constraints | {"lazy": Boolean()}
    _logistic = False

    def __init__(
        self,
        gamma: float = 0.1,
        l1: float = 1e-3,
        l2: float = 0.0,
        beta: float = 1.0,
        lazy: bool = True,
        refresh: bool = False,
        variant: str = "paper",
    ):
        super().__init__(gamma, l1, l2, beta, refresh, variant)
        self.lazy = lazy


class FTRLProximal(_FTRL):
    """Follow-the-regularised-leader for the logistic loss, with sparse weights.

    Parameters
    ----------
    gamma : float, default=0.1
        Multiplies every step: the rate of coordinate i is gamma / (beta + sqrt(q_i)); McMahan et al. call it alpha.

    Attributes
    ----------
    intercept_ : ndarray of shape (1,)
        Threshold midway between the class means' scores; no intercept is trained.

    References
    ----------
    H. B. McMahan et al.: Ad click prediction: a view from the trenches. KDD 2013, Algorithm 1.
    """

    _logistic = True


@njit(error_model="numpy")
def _weight(z, root, inverse_gamma, l1, above, below, beta, l2):
    """Line 19 of Algorithm 1."""
    left = above - z if z > l1 else (-below - z if z < -l1 else 0.0 * z)  # NaN stays NaN
    return left / ((beta + root) * inverse_gamma + l2)


@njit(error_model="numpy")
def _one_setting(indptr, indices, data, y, rule, logistic, counts, mean_scores, class_sums, W):
    """With ``class_sums`` of shape (2, n_features), see ``_consume_plain``; with none, all rows are plain."""
    sums, n_features = class_sums.reshape(-1), class_sums.shape[1]
    inverse_gammas, l1s, shrink, beta, l2 = rule
    inverse_gamma, l1, above, below = inverse_gammas[0], l1s[0], shrink[0, 0], shrink[1, 0]
    state, (w, z, q, root, x) = W.reshape(W.shape[:2]), _row_buffers(indptr)
    for t in range(len(y)):
        first, n = indptr[t], indptr[t + 1] - indptr[t]
        n_padded = -(-n // _LANES) * _LANES
        x[n:n_padded] = 0.0
        score = 0.0
        for k in range(n):
            i = np.uint32(indices[first + k])
            x[k], z[k], q[k], root[k] = data[first + k], state[i, _Z], state[i, _Q], state[i, _ROOT]
            if not logistic:
                score += x[k] * state[i, _W]
        if n_features:  # the row is in the cache now
            if not is_plain(indices, data, first, first + n):
                return t
            add_to_sums(indices, data, first, first + n, 0 if y[t] > 0 else n_features, sums)
        for k in range(n_padded):
            w[k] = _weight(z[k], root[k], inverse_gamma, l1, above, below, beta, l2)
        if logistic:
            for k in range(n):
                score += x[k] * w[k]
            c = -y[t] / (1.0 + np.exp(y[t] * score))
        else:
            own, opp, sign = (0, 1, 1.0) if y[t] > 0 else (1, 0, -1.0)
            counts[own] += 1.0
            mean_scores[own, 0] += (score - mean_scores[own, 0]) / counts[own]
            c = 2.0 * counts[opp] / (counts[0] + counts[1]) * (score - mean_scores[opp, 0] - sign)
        for k in range(n_padded):
            gradient = c * x[k]
            q[k] += gradient * gradient
            new_root = np.sqrt(q[k])
            z[k] += gradient - (new_root - root[k]) * inverse_gamma * w[k]
            root[k] = new_root
        for k in range(n):
            i = np.uint32(indices[first + k])
            state[i, _W], state[i, _Z], state[i, _Q], state[i, _ROOT] = w[k], z[k], q[k], root[k]
    return len(y)


@njit(error_model="numpy")
def _row_buffers(indptr):
    """Room for w, z, q, sqrt(q) and x of the longest row, in whole vector registers."""
    longest = 0
    for t in range(len(indptr) - 1):
        longest = max(longest, indptr[t + 1] - indptr[t])
    rows = np.zeros((5, -(-longest // _LANES) * _LANES))
    return rows[0], rows[1], rows[2], rows[3], rows[4]


@njit(error_model="numpy")
def _all_settings(indptr, indices, data, y, rule, logistic, counts, mean_scores, class_sums, products, W):
    """With ``class_sums``, the means are scores of class means: ``products`` follow the changes of sums and weights."""
    width, lazy = W.shape[2], len(class_sums) == 0
    c, before = np.empty(width), np.empty(width)
    for t in range(len(y)):
        start, stop = indptr[t], indptr[t + 1]
        own, opp, sign = (0, 1, 1.0) if y[t] > 0 else (1, 0, -1.0)
        if logistic:
            _new_scores(indices[start:stop], data[start:stop], rule, W, c)
            for g in range(width):
                c[g] = -y[t] / (1.0 + np.exp(y[t] * c[g]))
        else:
            _scores(indices[start:stop], data[start:stop], W, c)
            counts[own] += 1.0
            share = 2.0 * counts[opp] / (counts[0] + counts[1])
            for g in range(width):
                if lazy:
                    mean_scores[own, g] += (c[g] - mean_scores[own, g]) / counts[own]
                else:
                    products[own, g] += c[g]
                    mean_scores[own, g] = products[own, g] / counts[own]
                c[g] = share * (c[g] - mean_scores[opp, g] - sign)
        if lazy:
            for k in range(start, stop):
                _visit(W[indices[k]], c, data[k], rule)
            continue
        for k in range(start, stop):
            i = indices[k]
            class_sums[i, own] += data[k]
            for g in range(width):
                before[g] = W[i, _W, g]
            _visit(W[i], c, data[k], rule)
            for g in range(width):
                change = W[i, _W, g] - before[g]
                products[0, g] += change * class_sums[i, 0]
                products[1, g] += change * class_sums[i, 1]


@njit(error_model="numpy")
def _scores(indices, data, W, score):
    """Scores of one row under the weights as they are."""
    score[:] = 0.0
    for k in range(len(data)):
        v, w = data[k], W[indices[k], _W]
        for g in range(len(score)):
            score[g] += v * w[g]


@njit(error_model="numpy")
def _new_scores(indices, data, rule, W, score):
    """Scores of one row under the weights that its visits will compute."""
    inverse_gamma, l1, shrink, beta, l2 = rule
    score[:] = 0.0
    for k in range(len(data)):
        v, z, root = data[k], W[indices[k], _Z], W[indices[k], _ROOT]
        for g in range(len(score)):
            score[g] += v * _weight(z[g], root[g], inverse_gamma[g], l1[g], shrink[0, g], shrink[1, g], beta, l2)


@njit(error_model="numpy")
def _visit(block, c, v, rule):
    """Lines 19 to 21 for one coordinate of a row, with the value ``v``."""
    inverse_gamma, l1, shrink, beta, l2 = rule
    w, z, q, root, above, below = block[_W], block[_Z], block[_Q], block[_ROOT], shrink[0], shrink[1]
    for g in range(len(c)):
        w[g] = _weight(z[g], root[g], inverse_gamma[g], l1[g], above[g], below[g], beta, l2)
        gradient = c[g] * v
        q[g] += gradient * gradient
        new_root = np.sqrt(q[g])
        z[g] += gradient - (new_root - root[g]) * inverse_gamma[g] * w[g]
        root[g] = new_root
