"""Proximal steps that move every coordinate, because class means are part of the gradient: O(d) per row."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...kernels import njit
from ..base import OnePassLearner, State

__all__ = ["DenseLearner", "DenseState", "dense_step", "first_look", "scores"]


@dataclass
class DenseState(State):
    """Weights, and the sums of the rows of each class; class 0 is positive."""

    counts: np.ndarray  # (2,)
    reach: np.ndarray  # (1,), one more than the last feature that any row has had
    sums: np.ndarray  # (2, n_features)
    sizes: np.ndarray  # (n_features,), identical features that each one stands for; empty where that is only itself
    mean_scores: np.ndarray  # (2, n_live), of the class means, as of the last row of each class
    products: np.ndarray  # (2, n_live), inner products of the weights and the sums
    settings_axes: ClassVar = dict.fromkeys(("W", "mean_scores", "products"), -1)

    def stand_for(self, sizes):
        self.sizes = sizes

    def arrays(self) -> tuple[np.ndarray, ...]:
        """Arguments of the kernels, in their order."""
        return self.counts, self.reach, self.sums, self.sizes, self.mean_scores, self.products, self.W


class DenseLearner(OnePassLearner):
    """Base class of learners whose steps move every weight."""

    _sparse_chunks = True
    _merges_identical_columns = True

    def _begin(self, n_features, settings):
        n_settings = len(settings["l1"])
        return DenseState(
            settings=settings,
            W=np.zeros((n_features, n_settings)),
            counts=np.zeros(2),
            reach=np.zeros(1, dtype=np.int64),
            sums=np.zeros((2, n_features)),
            sizes=np.zeros(0),
            mean_scores=np.zeros((2, n_settings)),
            products=np.zeros((2, n_settings)),
        )

    def seconds_per_row(self, n_features, n_nonzero, n_settings):
        return 2e-7 + n_features * (5e-10 if n_settings == 1 else 2e-9 + 8e-10 * n_settings)

    def memory_bytes(self, n_features, n_settings):
        # Weights and what is returned; the sums of both classes, and which columns are identical.
        return 8.0 * n_features * (2 * n_settings + 4)


@njit(error_model="numpy")
def scores(there, x, W, score):
    """Scores of the row with the values ``x`` at the features ``there``, for every setting."""
    score[:] = 0.0
    for k in range(len(x)):
        w, v = W[there[k]], x[k]
        for g in range(len(score)):
            score[g] += v * w[g]


@njit(error_model="numpy")
def first_look(there, x, own, counts, reach, sums, sizes, mean_scores, products, W, score):
    """Take a row into the statistics of its class, with its scores and the class mean's."""
    counts[own] += 1.0
    score[:] = 0.0
    for k in range(len(x)):
        i = there[k]
        reach[0] = max(reach[0], i + 1)
        sums[own, i] += x[k]
        w, v = W[i], x[k] * sizes[i] if len(sizes) else x[k]
        for g in range(len(score)):
            score[g] += v * w[g]
    for g in range(len(score)):
        products[own, g] += score[g]
        mean_scores[own, g] = products[own, g] / counts[own]


@njit(error_model="numpy")
def dense_step(there, x, own, push, prox, reach, sums, sizes, products, W):
    """w <- prox(w - push[0] x - push[1] (own class's sum) - push[2] (the other's)), for every setting.

    ``prox`` has thresholds, and what weights above 0 and below 0 are divided by afterwards.
    """
    width = W.shape[1]
    for k in range(len(x)):
        w, v = W[there[k]], x[k]
        for g in range(width):
            w[g] -= push[0, g] * v
    n, merged = reach[0], len(sizes) > 0
    s_own, s_opp = sums[own, :n], sums[1 - own, :n]
    if width == 1:
        by, rule = push[1:, 0], prox[:, 0]
        w = W.reshape(W.size)[:n]  # contiguous, unlike W[:n, 0]
        in_one = _step_of_one(by[0], by[1], rule[0], rule[1], rule[2], s_own, s_opp, sizes[:n], w)
        products[own, 0], products[1 - own, 0] = in_one
        return
    products[:] = 0.0
    p_own, p_opp = products[own], products[1 - own]
    by_own, by_opp, threshold, above, below = push[1], push[2], prox[0], prox[1], prox[2]
    divided = False
    for g in range(width):
        divided |= above[g] != 1.0 or below[g] != 1.0
    for i in range(n):
        w, own_i, opp_i = W[i], s_own[i], s_opp[i]
        if own_i == 0.0 and opp_i == 0.0 and not w.any():
            continue  # most often a feature that no row has had; sums may also cancel, and then there are weights
        all_own, all_opp = (sizes[i] * own_i, sizes[i] * opp_i) if merged else (own_i, opp_i)
        for g in range(width):
            u = w[g] - by_own[g] * own_i - by_opp[g] * opp_i
            # By size, and without branches: the loop is of vector instructions then. NaN stays NaN.
            w[g] = math.copysign(max(abs(u) - threshold[g], 0.0 * u), u)
        if divided:
            for g in range(width):
                w[g] /= above[g] if w[g] > 0.0 else below[g]
        for g in range(width):
            p_own[g] += w[g] * all_own
            p_opp[g] += w[g] * all_opp


@njit(error_model="numpy", fastmath={"reassoc"})
def _step_of_one(by_own, by_opp, threshold, above, below, s_own, s_opp, sizes, w):
    """The dense part of the step for a single setting; returns the inner products of the weights and the sums."""
    p_own, p_opp, merged = 0.0, 0.0, len(sizes) > 0
    for i in range(len(w)):
        u = w[i] - by_own * s_own[i] - by_opp * s_opp[i]
        up, down = (u - threshold) / above, (u + threshold) / below
        w[i] = up if u > threshold else (down if u < -threshold else 0.0 * u)
        counted = w[i] * sizes[i] if merged else w[i]
        p_own += counted * s_own[i]
        p_opp += counted * s_opp[i]
    return p_own, p_opp
