"""OPAUC: one-pass AUC optimisation from class means and covariances.

For an example (x, y) whose opposite class o has been seen T_o times, with mean c_o and covariance S_o, the pairwise
least square loss of x against every example of that class has the gradient (Gao et al. 2016, Eqs. 7 and 8)

    g(w) = lam w - y (x - c_o) + (x - c_o) (x - c_o)' w + S_o w,        w <- w - eta g(w).

Means and covariances do not depend on eta or lam, so one pass carries a matrix ``W`` with a column for each setting.
With raw second moments M_o = sum x x', S_o = M_o / T_o - c_o c_o', a step is one product ``A W`` of

    A = M_o / T_o - c_o c_o' + (x - c_o) (x - c_o)'

and a column-wise update. The kernel forms ``A`` four rows at a time, gives ``M_o`` the rows that arrived since it was
last used while it is at it, and multiplies the strip by ``W`` while it is in the first-level cache: second moments are
read once a step, and no d x d intermediate is written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...kernels import njit
from ..base import State
from ..rows import aligned_zeros, padded
from .family import SecondMomentLearner, padded_settings
from .products import add_four_rows

__all__ = ["OPAUC"]

_PENDING = 64  # rows of a class that may wait before they enter its second moments


@dataclass
class Moments(State):
    """Class 0 is positive, class 1 negative; ``d`` is n_features padded to a multiple of 4."""

    counts: np.ndarray  # (2,)
    means: np.ndarray  # (2, d)
    moments: np.ndarray  # (2, d, d), sums of x x' of the rows that are no longer pending
    pending: np.ndarray  # (2, _PENDING, d)
    n_pending: np.ndarray  # (2,)
    lanes: ClassVar = 8


class OPAUC(SecondMomentLearner):
    """One-pass AUC optimisation with full class covariances.

    Notes
    -----
    Memory is O(d^2 + d n_settings) and a step costs O(d^2) per setting, whatever the number of rows. No update is made
    (not even shrinkage) before both classes have been seen.

    References
    ----------
    W. Gao, L. Wang, R. Jin, S. Zhu, Z.-H. Zhou: One-pass AUC optimization. Artificial Intelligence 236 (2016) 1-29,
    Algorithm 1 and Eqs. 7-9.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import minmax_scale
    >>> from opauc_bench.evaluation import auc_score
    >>> from opauc_bench.learners import OPAUC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = minmax_scale(X, (-1, 1))
    >>> model = OPAUC(eta=2**-6, lam=2**-8).fit(X, y)
    >>> bool(auc_score(y, model.decision_function(X)) > 0.98)
    True
    """

    _skips_zero_features = True

    def _begin(self, n_features, settings):
        d = padded(n_features, 4)
        n_settings = len(settings["eta"])
        return Moments(
            settings=settings,
            W=aligned_zeros(d, n_settings if n_settings == 1 else padded(n_settings, 8)),
            counts=np.zeros(2),
            means=np.zeros((2, d)),
            moments=np.zeros((2, d, d)),
            pending=np.zeros((2, _PENDING, d)),
            n_pending=np.zeros(2, dtype=np.int64),
        )

    def _consume(self, state, X, y):
        d, width = state.W.shape
        rows = np.zeros((len(X), d))
        rows[:, : X.shape[1]] = X
        statistics = (state.counts, state.means, state.moments, state.pending, state.n_pending)
        self._take_steps(state, rows, y, *padded_settings(state.settings, width), *statistics)

    def _take_steps(self, state, *shared):
        if state.W.shape[1] == 1:
            _one_setting(*shared, state.W.reshape(-1))
        else:
            _all_settings(*shared, state.W, aligned_zeros(*state.W.shape))

    def seconds_per_row(self, n_features, n_nonzero, n_settings):
        d = padded(n_features, 4)
        return 3e-7 + d * d * (2.2e-10 if n_settings == 1 else 1e-9 + 2.2e-11 * n_settings)

    def memory_bytes(self, n_features, n_settings):
        d = padded(n_features, 4)
        return 8.0 * (2 * d * d + 2 * d * padded(n_settings, 8) + 2 * _PENDING * d)


@njit(fastmath={"contract"})
def count_row(x, p, counts, means, pending, n_pending):
    """Take the row into the count and mean of its class, and let it wait for the second moments."""
    counts[p] += 1.0
    for i in range(x.shape[0]):
        means[p, i] += (x[i] - means[p, i]) / counts[p]
        pending[p, n_pending[p], i] = x[i]
    n_pending[p] += 1


@njit(fastmath={"contract"})
def add_pending(p, moments, pending, n_pending):
    """M += sum of x x' over the pending rows of one class."""
    M, rows = moments[p], pending[p, : n_pending[p]]
    d = len(M)
    for i in range(d if len(rows) else 0):
        row = M[i]
        for q in range(len(rows)):
            x = rows[q]
            xi = x[i]
            if xi != 0.0:
                for j in range(d):
                    row[j] += xi * x[j]
    n_pending[p] = 0


@njit(fastmath={"contract"})
def _all_settings(X, y, eta, lam, counts, means, moments, pending, n_pending, W, V):
    """``V`` is room for the products, all zeros."""
    n, d = X.shape
    width = W.shape[1]
    A, z = np.empty((4, d)), np.empty(d)
    for t in range(n):
        x = X[t]
        own, opp, sign = (0, 1, 1.0) if y[t] > 0 else (1, 0, -1.0)
        if n_pending[own] == pending.shape[1]:
            add_pending(own, moments, pending, n_pending)
        count_row(x, own, counts, means, pending, n_pending)
        if counts[opp] == 0.0:
            continue
        moments_times_W(x, opp, counts, means, moments, pending, n_pending, A, z, W, V)
        for i in range(d):
            push = sign * z[i]
            Wi, Vi = W[i], V[i]
            for g in range(width):
                Wi[g] += eta[g] * (push - lam[g] * Wi[g] - Vi[g])
                Vi[g] = 0.0


@njit(fastmath={"contract"}, inline="always")
def moments_times_W(x, opp, counts, means, moments, pending, n_pending, A, z, W, V):
    """z = x - c_o and V += (M_o / T_o - c_o c_o' + z z') W, after M_o has got its pending rows."""
    d, c = len(x), means[opp]
    for i in range(d):
        z[i] = x[i] - c[i]
    for i in range(0, d, 4):
        _strip_of_A(A, i, moments[opp], pending[opp], n_pending[opp], 1.0 / counts[opp], c, z)
        add_four_rows(V, i, A, 0, W, d)
    n_pending[opp] = 0


@njit(fastmath={"contract"}, inline="always")
def _strip_of_A(A, i, M, pending, n_pending, per_count, c, z):
    """A = four rows, from row i, of M / T - c c' + z z', after M has got its pending rows."""
    d = M.shape[0]
    for k in range(4):
        row, a = M[i + k], A[k]
        for q in range(n_pending):
            x = pending[q]
            xi = x[i + k]
            if xi != 0.0:
                for j in range(d):
                    row[j] += xi * x[j]
        ci, zi = c[i + k], z[i + k]
        for j in range(d):
            a[j] = row[j] * per_count - ci * c[j] + zi * z[j]


@njit(fastmath={"contract", "reassoc"})
def _one_setting(X, y, etas, lams, counts, means, moments, pending, n_pending, w):
    """The same step for a single model: a matrix-vector product that reads M_o once."""
    (n, d), eta, lam = X.shape, etas[0], lams[0]
    z, v = np.empty(d), np.empty(d)
    for t in range(n):
        x = X[t]
        own, opp, sign = (0, 1, 1.0) if y[t] > 0 else (1, 0, -1.0)
        if n_pending[own] == pending.shape[1]:
            add_pending(own, moments, pending, n_pending)
        count_row(x, own, counts, means, pending, n_pending)
        if counts[opp] == 0.0:
            continue
        add_pending(opp, moments, pending, n_pending)
        c, M = means[opp], moments[opp]
        margin, centre = 0.0, 0.0
        for i in range(d):
            z[i] = x[i] - c[i]
            margin += z[i] * w[i]
            centre += c[i] * w[i]
        for i in range(d):
            total = 0.0
            row = M[i]
            for j in range(d):
                total += row[j] * w[j]
            v[i] = total
        for i in range(d):
            w[i] += eta * (z[i] * (sign - margin) - v[i] / counts[opp] + c[i] * centre - lam * w[i])
