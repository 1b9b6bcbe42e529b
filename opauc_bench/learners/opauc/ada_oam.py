"""AdaOAM: OPAUC's gradient with a step size per coordinate, from the squares of all gradients so far.

With the gradient g of `full.py` at the weights before the row, and every operation coordinate by coordinate,

    q <- q + g^2,        H = delta + sqrt(q),        w <- Pi(w - eta g / H),

where Pi projects on |w| <= 1 / sqrt(lam) in the norm of H: Pi(u) minimises sum_i H_i (w_i - u_i)^2, so that
w_i = u_i H_i / (H_i + mu) with the mu >= 0 that makes |w| = 1 / sqrt(lam), or 0 where u is inside. 1 / |w(mu)| is
increasing and concave: Newton's method for it converges from mu = 0 without overshooting.

Means and covariances depend on no setting, so one pass carries the weights and q of all settings, with the product of
OPAUC's kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...kernels import njit
from ..parameters import NOT_NEGATIVE, POSITIVE
from ..rows import aligned_zeros, padded
from .full import OPAUC, Moments, add_pending, count_row, moments_times_W

__all__ = ["AdaOAM"]

_ON_BALL = 1e-14  # of its radius: how far outside weights may be
_NEWTON_STEPS = 100


@dataclass
class _AdaptiveMoments(Moments):
    squares: np.ndarray  # of the shape of W, sums of squared gradients
    settings_axes: ClassVar = {"W": -1, "squares": -1}


class AdaOAM(OPAUC):
    """Adaptive online AUC maximisation: OPAUC with a step size per coordinate.

    Parameters
    ----------
    eta : float, default=2**-4
        Multiplies every step.
    lam : float, default=2**-8
        Regularisation; multiplies ``|w|^2 / 2`` in the loss of a row, and keeps ``|w|`` at or below 1 / sqrt(lam). 0 is
        neither.
    delta : float, default=1.0
        Added to the root of the sum of squared gradients. With delta and eta going to infinity at a fixed ratio,
        this is OPAUC with the step size eta / delta and a Euclidean projection.

    Notes
    -----
    A step costs what one of OPAUC costs, and O(d) per setting more. No update is made before both classes have been
    seen.

    The text of the paper was not available, only its abstract; no program of its authors was found. What is taken: the
    gradient is that of OPAUC (Gao et al. 2016, Eqs. 7 and 8), lam w included; q has the gradient of the current row;
    the projection is in the norm of H, as in the adaptive method of Duchi et al. 2011, whose regret analysis needs it;
    the result is the last iterate. The minimiser of OPAUC's loss lies inside of the ball.

    References
    ----------
    Y. Ding, P. Zhao, S. C. H. Hoi, Y.-S. Ong: An adaptive gradient method for online AUC maximization. AAAI 2015;
    the longer version is arXiv 1602.00351.

    J. Duchi, E. Hazan, Y. Singer: Adaptive subgradient methods for online learning and stochastic optimization.
    JMLR 12 (2011).
    """

    rotation_invariant = False
    parameter_constraints: ClassVar = {"eta": POSITIVE, "lam": NOT_NEGATIVE, "delta": POSITIVE}

    def __init__(self, eta: float = 2**-4, lam: float = 2**-8, delta: float = 1.0):
        super().__init__(eta, lam)
        self.delta = delta

    def _begin(self, n_features, settings):
        moments = super()._begin(n_features, settings)
        return _AdaptiveMoments(**vars(moments), squares=aligned_zeros(*moments.W.shape))

    def _take_steps(self, state, *shared):
        delta, d = float(self.delta), len(state.W)
        if state.W.shape[1] == 1:
            _one_setting(*shared, delta, state.W.reshape(d), state.squares.reshape(d))
        else:
            _all_settings(*shared, delta, state.squares, state.W, aligned_zeros(*state.W.shape))

    def seconds_per_row(self, n_features, n_nonzero, n_settings):
        return super().seconds_per_row(n_features, n_nonzero, n_settings) + 1.5e-9 * n_features * n_settings

    def memory_bytes(self, n_features, n_settings):
        of_squares = 8.0 * padded(n_features, 4) * padded(n_settings, 8)
        return super().memory_bytes(n_features, n_settings) + of_squares


@njit(fastmath={"contract"})
def _all_settings(X, y, eta, lam, counts, means, moments, pending, n_pending, delta, squares, W, V):
    """``V`` is room for the products, all zeros."""
    n, d = X.shape
    width = W.shape[1]
    A, z, lengths = np.empty((4, d)), np.empty(d), np.empty(width)
    for t in range(n):
        x = X[t]
        own, opp, sign = (0, 1, 1.0) if y[t] > 0 else (1, 0, -1.0)
        if n_pending[own] == pending.shape[1]:
            add_pending(own, moments, pending, n_pending)
        count_row(x, own, counts, means, pending, n_pending)
        if counts[opp] == 0.0:
            continue
        moments_times_W(x, opp, counts, means, moments, pending, n_pending, A, z, W, V)
        for g in range(width):
            lengths[g] = 0.0
        for i in range(d):
            push = sign * z[i]
            w, v, q = W[i], V[i], squares[i]
            for g in range(width):
                gradient = lam[g] * w[g] + v[g] - push
                v[g] = 0.0
                q[g] += gradient * gradient
                w[g] -= eta[g] * gradient / (delta + np.sqrt(q[g]))
                lengths[g] += w[g] * w[g]
        for g in range(width):
            if lam[g] * lengths[g] > 1.0:
                _project(W[:, g], squares[:, g], delta, lengths[g], 1.0 / np.sqrt(lam[g]))


@njit(fastmath={"contract", "reassoc"})
def _one_setting(X, y, etas, lams, counts, means, moments, pending, n_pending, delta, w, q):
    """The same step for a single model, with weights ``w`` and sums ``q``: the product reads M_o once."""
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
        length = 0.0
        for i in range(d):
            gradient = lam * w[i] + z[i] * (margin - sign) + v[i] / counts[opp] - c[i] * centre
            q[i] += gradient * gradient
            w[i] -= eta * gradient / (delta + np.sqrt(q[i]))
            length += w[i] * w[i]
        if lam * length > 1.0:
            _project(w, q, delta, length, 1.0 / np.sqrt(lam))


@njit(fastmath={"contract"}, error_model="numpy")
def _project(w, squares, delta, squared_length, radius):
    """Move weights from outside of the ball to its nearest point in the norm of delta + sqrt(squares)."""
    if not np.isfinite(squared_length):
        for i in range(len(w)):
            w[i] = np.nan
        return
    mu = 0.0
    for _ in range(_NEWTON_STEPS):
        total, slope = 0.0, 0.0
        for i in range(len(w)):
            h = delta + np.sqrt(squares[i])
            moved = w[i] / radius * (h / (h + mu))
            total += moved * moved
            slope += moved * moved / (h + mu)
        excess = np.sqrt(total) - 1.0
        if not excess > _ON_BALL:
            break
        mu += excess * total / slope
    for i in range(len(w)):
        h = delta + np.sqrt(squares[i])
        w[i] *= h / (h + mu)
