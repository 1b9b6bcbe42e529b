"""OPAUC: one-pass AUC optimisation from class means and covariances.

For an example (x, y) whose opposite class o has been seen T_o times, with mean c_o and covariance S_o, the pairwise
least square loss of x against every example of that class has the gradient (Gao et al. 2016, Eqs. 7 and 8)

    g(w) = lam w - y (x - c_o) + (x - c_o) (x - c_o)' w + S_o w,        w <- w - eta g(w).

Means and covariances do not depend on eta or lam, so one pass carries a matrix ``W`` with a column for each setting.
With raw second moments M_o = sum x x', S_o = M_o / T_o - c_o c_o', a step is one product ``A W`` of

    A = M_o / T_o - c_o c_o' + (x - c_o) (x - c_o)'

and a column-wise update. The kernel forms ``A`` six rows at a time, gives ``M_o`` the rows that arrived since it was
last used while it is at it, and multiplies the strip by ``W`` while it is in the first-level cache: second moments are
read once a step, and no d x d intermediate is written.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...kernels import njit
from ..base import State
from .family import SecondMomentLearner, padded, padded_columns

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

    def keep(self, columns: np.ndarray) -> None:
        self.settings = {axis: values[columns] for axis, values in self.settings.items()}
        self.W = padded_columns(self.W, columns, padded(len(columns), 8))


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
            W=np.zeros((d, n_settings if n_settings == 1 else padded(n_settings, 8))),
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
        if width == 1:
            eta, lam = state.settings["eta"][0], state.settings["lam"][0]
            state.W[:, 0] = _one_setting(rows, y, eta, lam, *statistics, state.W[:, 0])
            return
        eta, lam = np.zeros(width), np.zeros(width)
        eta[: state.n_live] = state.settings["eta"]
        lam[: state.n_live] = state.settings["lam"]
        _all_settings(rows, y, eta, lam, *statistics, state.W)

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
def _all_settings(X, y, eta, lam, counts, means, moments, pending, n_pending, W):
    n, d = X.shape
    width = W.shape[1]
    V = np.empty((d, width))
    A = np.empty((6, d))
    z = np.empty(d)
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


@njit(fastmath={"contract"}, inline="always")
def moments_times_W(x, opp, counts, means, moments, pending, n_pending, A, z, W, V):
    """z = x - c_o and V = (M_o / T_o - c_o c_o' + z z') W, after M_o has got its pending rows."""
    d, c = len(x), means[opp]
    for i in range(d):
        z[i] = x[i] - c[i]
    i = 0
    while i < d:
        n_rows = 6 if i + 6 <= d else 2
        _strip_of_A(A, i, n_rows, moments[opp], pending[opp], n_pending[opp], 1.0 / counts[opp], c, z)
        if n_rows == 6:
            _six_rows_times_W(A, i, W, V)
        else:
            _two_rows_times_W(A, i, W, V)
        i += n_rows
    n_pending[opp] = 0


@njit(fastmath={"contract"}, inline="always")
def _strip_of_A(A, i, n_rows, M, pending, n_pending, per_count, c, z):
    """A = n_rows rows, from row i, of M / T - c c' + z z', after M has got its pending rows."""
    d = M.shape[0]
    for k in range(n_rows):
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


@njit(fastmath={"contract"}, inline="always")
def _six_rows_times_W(A, i, W, V):
    """V[i:i+6] = A W: 24 coefficients stay in registers while the settings stream by."""
    V0, V1, V2, V3, V4, V5 = V[i], V[i + 1], V[i + 2], V[i + 3], V[i + 4], V[i + 5]
    for j in range(0, W.shape[0], 4):
        a00, a01, a02, a03 = A[0, j], A[0, j + 1], A[0, j + 2], A[0, j + 3]
        a10, a11, a12, a13 = A[1, j], A[1, j + 1], A[1, j + 2], A[1, j + 3]
        a20, a21, a22, a23 = A[2, j], A[2, j + 1], A[2, j + 2], A[2, j + 3]
        a30, a31, a32, a33 = A[3, j], A[3, j + 1], A[3, j + 2], A[3, j + 3]
        a40, a41, a42, a43 = A[4, j], A[4, j + 1], A[4, j + 2], A[4, j + 3]
        a50, a51, a52, a53 = A[5, j], A[5, j + 1], A[5, j + 2], A[5, j + 3]
        W0, W1, W2, W3 = W[j], W[j + 1], W[j + 2], W[j + 3]
        if j == 0:
            for g in range(W.shape[1]):
                w0, w1, w2, w3 = W0[g], W1[g], W2[g], W3[g]
                V0[g] = a00 * w0 + a01 * w1 + a02 * w2 + a03 * w3
                V1[g] = a10 * w0 + a11 * w1 + a12 * w2 + a13 * w3
                V2[g] = a20 * w0 + a21 * w1 + a22 * w2 + a23 * w3
                V3[g] = a30 * w0 + a31 * w1 + a32 * w2 + a33 * w3
                V4[g] = a40 * w0 + a41 * w1 + a42 * w2 + a43 * w3
                V5[g] = a50 * w0 + a51 * w1 + a52 * w2 + a53 * w3
        else:
            for g in range(W.shape[1]):
                w0, w1, w2, w3 = W0[g], W1[g], W2[g], W3[g]
                V0[g] += a00 * w0 + a01 * w1 + a02 * w2 + a03 * w3
                V1[g] += a10 * w0 + a11 * w1 + a12 * w2 + a13 * w3
                V2[g] += a20 * w0 + a21 * w1 + a22 * w2 + a23 * w3
                V3[g] += a30 * w0 + a31 * w1 + a32 * w2 + a33 * w3
                V4[g] += a40 * w0 + a41 * w1 + a42 * w2 + a43 * w3
                V5[g] += a50 * w0 + a51 * w1 + a52 * w2 + a53 * w3


@njit(fastmath={"contract"}, inline="always")
def _two_rows_times_W(A, i, W, V):
    """V[i:i+2] = A[:2] W, for the rows that six do not divide."""
    V0, V1 = V[i], V[i + 1]
    for j in range(0, W.shape[0], 4):
        a00, a01, a02, a03 = A[0, j], A[0, j + 1], A[0, j + 2], A[0, j + 3]
        a10, a11, a12, a13 = A[1, j], A[1, j + 1], A[1, j + 2], A[1, j + 3]
        W0, W1, W2, W3 = W[j], W[j + 1], W[j + 2], W[j + 3]
        if j == 0:
            for g in range(W.shape[1]):
                w0, w1, w2, w3 = W0[g], W1[g], W2[g], W3[g]
                V0[g] = a00 * w0 + a01 * w1 + a02 * w2 + a03 * w3
                V1[g] = a10 * w0 + a11 * w1 + a12 * w2 + a13 * w3
        else:
            for g in range(W.shape[1]):
                w0, w1, w2, w3 = W0[g], W1[g], W2[g], W3[g]
                V0[g] += a00 * w0 + a01 * w1 + a02 * w2 + a03 * w3
                V1[g] += a10 * w0 + a11 * w1 + a12 * w2 + a13 * w3


@njit(fastmath={"contract", "reassoc"})
def _one_setting(X, y, eta, lam, counts, means, moments, pending, n_pending, w):
    """The same step for a single model: a matrix-vector product that reads M_o once."""
    n, d = X.shape
    w = np.ascontiguousarray(w)
    z = np.empty(d)
    v = np.empty(d)
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
    return w
