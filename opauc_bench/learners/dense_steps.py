"""Proximal steps that move every coordinate, because class means are part of the gradient: O(d) a row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..compiled import njit
from .base import State

__all__ = ["DenseState", "dense_step", "first_look", "scores"]


@dataclass
class DenseState(State):
    """Weights, and the sums of the rows of each class; class 0 is positive."""

    counts: np.ndarray  # (2,)
    sums: np.ndarray  # (2, n_features)
    mean_scores: np.ndarray  # (2, n_live), of the class means, as of the last row of each class
    products: np.ndarray  # (2, n_live), inner products of the weights and the sums

    @classmethod
    def begin(cls, n_features: int, settings: dict[str, np.ndarray]) -> DenseState:
        """Nothing but zeros."""
        n_settings = len(next(iter(settings.values())))
        return cls(
            settings=settings,
            W=np.zeros((n_features, n_settings)),
            counts=np.zeros(2),
            sums=np.zeros((2, n_features)),
            mean_scores=np.zeros((2, n_settings)),
            products=np.zeros((2, n_settings)),
        )

    def arrays(self) -> tuple[np.ndarray, ...]:
        """What kernels take, in their order."""
        return self.counts, self.sums, self.mean_scores, self.products, self.W

    def keep(self, columns):
        super().keep(columns)
        self.mean_scores = np.ascontiguousarray(self.mean_scores[:, columns])
        self.products = np.ascontiguousarray(self.products[:, columns])


@njit(error_model="numpy")
def scores(there, x, W, score):
    """Scores of the row with the values ``x`` at the features ``there``, for every setting."""
    score[:] = 0.0
    for k in range(len(x)):
        w, v = W[there[k]], x[k]
        for g in range(len(score)):
            score[g] += v * w[g]


@njit(error_model="numpy")
def first_look(there, x, own, score, counts, sums, mean_scores, products):
    """Take a row into the statistics of its class, and look at the class mean's score."""
    counts[own] += 1.0
    for k in range(len(x)):
        sums[own, there[k]] += x[k]
    for g in range(len(score)):
        products[own, g] += score[g]
        mean_scores[own, g] = products[own, g] / counts[own]


@njit(error_model="numpy")
def dense_step(there, x, own, push, prox, sums, products, W):
    """w <- prox(w - push[0] x - push[1] (own class's sum) - push[2] (the other's)), for every setting.

    ``prox`` has thresholds, and what weights above 0 and below 0 are divided by afterwards.
    """
    width = W.shape[1]
    for k in range(len(x)):
        w, v = W[there[k]], x[k]
        for g in range(width):
            w[g] -= push[0, g] * v
    s_own, s_opp = sums[own], sums[1 - own]
    if width == 1:
        in_one = _step_of_one(push[1, 0], push[2, 0], prox[0, 0], prox[1, 0], prox[2, 0], s_own, s_opp, W[:, 0])
        products[own, 0], products[1 - own, 0] = in_one
        return
    products[:] = 0.0
    p_own, p_opp = products[own], products[1 - own]
    by_own, by_opp, threshold, above, below = push[1], push[2], prox[0], prox[1], prox[2]
    for i in range(len(s_own)):
        w, own_i, opp_i = W[i], s_own[i], s_opp[i]
        if own_i == 0.0 and opp_i == 0.0 and not w.any():
            continue  # most often a feature that no row has had; sums may also cancel, and then there are weights
        for g in range(width):
            w[g] = _shrunk(w[g] - by_own[g] * own_i - by_opp[g] * opp_i, threshold[g], above[g], below[g])
            p_own[g] += w[g] * own_i
            p_opp[g] += w[g] * opp_i


@njit(error_model="numpy")
def _shrunk(u, threshold, above, below):
    if u > threshold:
        return (u - threshold) / above
    if u < -threshold:
        return (u + threshold) / below
    return 0.0 * u  # NaN stays NaN


@njit(error_model="numpy", fastmath={"reassoc"})
def _step_of_one(by_own, by_opp, threshold, above, below, s_own, s_opp, w):
    """The dense part of the step for a single setting; returns the inner products of the weights and the sums."""
    p_own, p_opp = 0.0, 0.0
    for i in range(len(w)):
        u = w[i] - by_own * s_own[i] - by_opp * s_opp[i]
        up, down = (u - threshold) / above, (u + threshold) / below
        w[i] = up if u > threshold else (down if u < -threshold else 0.0 * u)
        p_own += w[i] * s_own[i]
        p_opp += w[i] * s_opp[i]
    return p_own, p_opp
