"""SPAUC: stochastic proximal AUC maximisation with an unbiased gradient of the least square loss.

With running class frequencies, means m and scores a = w'm+, b = w'm- (each taken when its class had its last row) and
k = 2 p (1 - p) (1 + b - a), a row gives

    y = +1:  g = 2 (1 - p) (w'x - a) (x - m+) + k (m- - m+),       y = -1:  g = 2 p (w'x - b) (x - m-) + k (m- - m+),

    w <- S(w - eta g, eta l1),        eta = 2 / (mu (t - 1) + 1),       S(u, s) = sign(u) max(|u| - s, 0).

The class means move every coordinate: O(d) per row.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ...kernels import njit
from ..parameters import NOT_NEGATIVE
from ..rows import rows_of
from .dense_steps import DenseLearner, dense_step, first_look

__all__ = ["SPAUC"]


class SPAUC(DenseLearner):
    """Stochastic proximal AUC maximisation with an l1 regulariser (SPAUC).

    Parameters
    ----------
    mu : float, default=1.0
        How fast steps decrease: eta = 2 / (mu (t - 1) + 1) at row t, so that the first one is 2 whatever mu.
    l1 : float, default=1e-3
        Multiplies ``|w|_1``: thresholds are eta l1.

    References
    ----------
    Y. Lei, Y. Ying: Stochastic proximal AUC maximization. JMLR 22 (2021); the steps are those of the program of
    B. Zhou, Y. Ying, S. Skiena, ICDM 2020.
    """

    grid_axes = ("mu", "l1")
    parameter_constraints: ClassVar = dict.fromkeys(("mu", "l1"), NOT_NEGATIVE)

    def __init__(self, mu: float = 1.0, l1: float = 1e-3):
        self.mu = mu
        self.l1 = l1

    def _consume(self, state, X, y):
        _learn(*rows_of(X), y, state.settings["mu"], state.settings["l1"], *state.arrays())


@njit(error_model="numpy")
def _learn(indptr, indices, data, y, mu, l1, counts, reach, sums, sizes, mean_scores, products, W):
    width = len(mu)
    score, push = np.empty(width), np.empty((3, width))
    prox = np.ones((3, width))
    for t in range(len(y)):
        there, x = indices[indptr[t] : indptr[t + 1]], data[indptr[t] : indptr[t + 1]]
        own, opp, sign = (0, 1, 1.0) if y[t] > 0 else (1, 0, -1.0)
        first_look(there, x, own, counts, reach, sums, sizes, mean_scores, products, W, score)
        n_rows = counts[0] + counts[1]
        share = 2.0 * counts[opp] / n_rows
        both = share * counts[own] / n_rows
        for g in range(width):
            eta = 2.0 / (mu[g] * (n_rows - 1.0) + 1.0)
            own_way = share * (score[g] - mean_scores[own, g])
            mean_way = sign * both * (1.0 + mean_scores[1, g] - mean_scores[0, g])
            push[0, g] = eta * own_way
            push[1, g] = -eta * (own_way + mean_way) / counts[own]
            push[2, g] = eta * mean_way / max(counts[opp], 1.0)
            prox[0, g] = eta * l1[g]
        dense_step(there, x, own, push, prox, reach, sums, sizes, products, W)
