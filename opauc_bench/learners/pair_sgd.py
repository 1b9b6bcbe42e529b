"""Pairwise SGD: each row is paired with the row before it, and the iterates are averaged.

Where row t and the row before it are of opposite classes, with z = y_t (x_t - x_{t-1}),

    w_t = w_{t-1} + eta / sqrt(t) z    if w_{t-1}'z < 1, the step of the hinge loss max(0, 1 - w'z);

otherwise w_t = w_{t-1}. The result is the mean of w_1, ..., w_t. Their sum is t w_t - u_t, where a step c z of row t
adds (t - 1) c z to u. So a row changes w and u at the features of two rows, and the mean w - u / t is computed when it
is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..kernels import njit
from .base import OnePassLearner, State
from .parameters import POSITIVE
from .rows import aligned_zeros, rows_of

__all__ = ["PairSGD"]

_FAR_FROM_OVERFLOW = 1e290


@dataclass
class _Pairs(State):
    """``W`` is of shape (n_features, 2, n_live): w and u."""

    n_rows: np.ndarray  # (1,)
    largest: np.ndarray  # (1,), of all values so far, in size
    last_indices: np.ndarray  # features of the last row
    last_values: np.ndarray
    last_label: int  # 0 before the first row
    resizable: ClassVar = ("last_indices", "last_values")

    def coef(self, n_features):
        return self._means(self.W[:n_features])

    def coef_at(self, features):
        return self._means(self.W[features])

    def _means(self, W):
        return W[:, 0] - W[:, 1] / max(1, self.n_rows[0])

    def finite_elsewhere(self):
        """No step is longer than 2 eta |x| / sqrt(t) in any coordinate, and u is at most t times their sum."""
        bound = 8.0 * self.settings["eta"] * self.largest[0] * float(self.n_rows[0]) ** 1.5
        return bool((bound < _FAR_FROM_OVERFLOW).all())

    def widened(self, fresh):
        fresh.W[: len(self.W)] = self.W
        for name in ("n_rows", "largest", "last_indices", "last_values", "last_label"):
            setattr(fresh, name, getattr(self, name))
        return fresh


class PairSGD(OnePassLearner):
    """Stochastic gradient descent on pairs of consecutive rows, with the hinge loss and averaged iterates.

    Parameters
    ----------
    eta : float, default=1.0
        Multiplies every step: that of row t is eta / sqrt(t). t counts all rows, from 1, whether they make a step or
        not.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
        The mean of the iterates after each row, those without a step included.

    Notes
    -----
    A row takes O(k) for each setting, k the number of nonzero features of the row and the one before it. The first row
    has no row before it.

    The text of the paper was not available. Pairs, t and the mean are those of the authors' program
    (github.com/zhenhuan-yang/simple-pairwise, ``alg/auc_fifo_hinge.py``), which draws rows with replacement over
    several passes, reports means over stretches of the run, and has two options that are not taken: steps of constant
    size eta / sqrt(n), and a projection on a ball whose radius it selects beside eta. Here eta alone regularises.

    References
    ----------
    Z. Yang, Y. Lei, P. Wang, T. Yang, Y. Ying: Simple stochastic and online gradient descent algorithms for pairwise
    learning. NeurIPS 2021.
    """

    grid_axes = ("eta",)
    parameter_constraints: ClassVar = {"eta": POSITIVE}
    rotation_invariant = True
    _sparse_chunks = True
    _moves_own_features = True

    def __init__(self, eta: float = 1.0):
        self.eta = eta

    def _begin(self, n_features, settings):
        return _Pairs(
            settings=settings,
            W=aligned_zeros(n_features, 2, len(settings["eta"])),
            n_rows=np.zeros(1, dtype=np.int64),
            largest=np.zeros(1),
            last_indices=np.zeros(0, dtype=np.int32),
            last_values=np.zeros(0),
            last_label=0,
        )

    def _consume(self, state, X, y):
        indptr, indices, data = rows_of(X)
        last = state.last_indices, state.last_values, state.last_label
        _learn(indptr, indices, data, y, *last, state.settings["eta"], state.n_rows, state.W)
        state.largest[0] = max(state.largest[0], np.abs(data).max(initial=0.0))
        if len(y):
            row = slice(indptr[-2], indptr[-1])
            state.last_indices, state.last_values, state.last_label = indices[row].copy(), data[row].copy(), int(y[-1])

    def seconds_per_row(self, n_features, n_nonzero, n_settings):
        return 1.5e-7 + n_nonzero * (1e-8 + 4e-10 * n_settings)

    def memory_bytes(self, n_features, n_settings):
        # Beside w and u the means, which are formed in the end, and a copy of them.
        return 8.0 * 4 * n_features * n_settings


@njit(fastmath={"contract"})
def _learn(indptr, indices, data, y, last_indices, last_values, last_label, eta, n_rows, W):
    width = W.shape[2]
    push = np.empty(width)
    longest = len(last_indices)
    for t in range(len(y)):
        longest = max(longest, indptr[t + 1] - indptr[t])
    features, z = np.empty(2 * longest, dtype=np.int32), np.empty(2 * longest)
    for t in range(len(y)):
        row_indices, row_values = indices[indptr[t] : indptr[t + 1]], data[indptr[t] : indptr[t + 1]]
        if y[t] * last_label < 0:
            n = _difference(row_indices, row_values, last_indices, last_values, float(y[t]), features, z)
            for g in range(width):
                push[g] = 0.0
            for k in range(n):
                value, w = z[k], W[features[k], 0]
                for g in range(width):
                    push[g] += value * w[g]
            rate, before = 1.0 / np.sqrt(n_rows[0] + 1.0), float(n_rows[0])
            for g in range(width):
                push[g] = rate * eta[g] if push[g] < 1.0 else 0.0
            for k in range(n):
                value, w, u = z[k], W[features[k], 0], W[features[k], 1]
                for g in range(width):
                    step = value * push[g]
                    w[g] += step
                    u[g] += before * step
        n_rows[0] += 1
        last_indices, last_values, last_label = row_indices, row_values, int(y[t])


@njit()
def _difference(left_indices, left_values, right_indices, right_values, sign, features, values):
    """Write sign (left - right), two rows with sorted features, and return how many of its entries are not zero."""
    n, i, j = 0, 0, 0
    while i < len(left_indices) or j < len(right_indices):
        if j == len(right_indices) or (i < len(left_indices) and left_indices[i] < right_indices[j]):
            feature, value = left_indices[i], left_values[i]
            i += 1
        elif i == len(left_indices) or right_indices[j] < left_indices[i]:
            feature, value = right_indices[j], -right_values[j]
            j += 1
        else:
            feature, value = left_indices[i], left_values[i] - right_values[j]
            i, j = i + 1, j + 1
        if value != 0.0:
            features[n], values[n] = feature, sign * value
            n += 1
    return n
