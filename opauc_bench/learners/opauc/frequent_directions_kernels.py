"""Steps of `frequent_directions_state.py` once a row's products are known: no array here has an axis of features."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...kernels import njit
from .products import add_product, add_row

__all__ = ["Models", "Shared", "largest_entries", "shrink_map", "take_rows"]

_SMALL, _LARGE = 1e-100, 1e100
_EPS = float(np.finfo(np.float64).eps)


class Shared(NamedTuple):
    """State that all settings share. Class 0 is positive, class 1 negative; R rows may wait."""

    counts: np.ndarray  # (2,)
    filled: np.ndarray  # (2,), columns of Z in use
    based: np.ndarray  # (2,), columns of B in use
    waiting: np.ndarray  # (3,), rows that wait: of each class, and of both
    rows: np.ndarray  # (2, R), their numbers among all that wait
    C: np.ndarray  # (2, tau + R, tau)
    ZZ: np.ndarray  # (2, 2, tau, tau), [a, c] is Z_a'Z_c
    ZS: np.ndarray  # (2, 2, tau), [a, c] is Z_a's_c
    SS: np.ndarray  # (2, 2)


class Models(NamedTuple):
    """State of each setting, one per column."""

    alpha: np.ndarray  # (width,)
    fade: np.ndarray  # (width,)
    peak: np.ndarray  # (width,), the largest entry of V
    beta: np.ndarray  # (2, tau + R, width)
    b: np.ndarray  # (2, tau, width)
    gamma: np.ndarray  # (2, width)
    Q: np.ndarray  # (2, tau, width), Z'w / alpha
    u: np.ndarray  # (2, width), s'w / alpha


@njit()
def largest_entries(V):
    """Largest absolute value in each column, shape (width,); NaN where there is one."""
    largest = np.zeros(V.shape[1])
    for i in range(V.shape[0]):
        for g in range(V.shape[1]):
            if not abs(V[i, g]) <= largest[g]:
                largest[g] = abs(V[i, g])
    return largest


@njit()
def shrink_map(gram, k):
    """How a full sketch Z, with Z'Z = ``gram``, is shrunk by the square of its singular value ``k``, from 1 to tau.

    Returns A of shape (tau, tau), where Z becomes Z A; the diagonal of A'Z'Z A, which has no other entries; and the
    number of columns of A that are not zero.
    """
    tau = len(gram)
    A, left = np.zeros((tau, tau)), np.zeros(tau)
    if not np.isfinite(gram).all():
        A[:, 0], left[0] = np.nan, np.nan  # rows overflow when they are squared: so will the weights
        return A, left, 1
    squares, V = np.linalg.eigh(gram)
    cut = max(squares[tau - k], 0.0)
    n_left = 0
    for i in range(tau - 1, tau - k, -1):
        rest = squares[i] - cut
        if rest <= tau * _EPS * squares[tau - 1]:
            break
        share = np.sqrt(rest / squares[i])
        for j in range(tau):
            A[j, n_left] = V[j, i] * share
        left[n_left] = rest
        n_left += 1
    return A, left, n_left


@njit(fastmath={"contract"})
def take_rows(on_base, on_rows, on_models, squares, y, eta, lam, tau, k, s, m):
    """One step per row, from its products with the base, [B_+ B_- s_+ s_-]'x, the waiting rows, X'x, V, and itself.

    The sums s are as they were when the waiting began.
    """
    width = len(eta)
    score, push = np.empty(width), np.empty(width)
    kappa = np.empty((tau, width))
    by_rows = np.empty((2, s.rows.shape[1] + 1))
    zx, sx = np.empty((2, tau)), np.empty(2)
    for t in range(len(y)):
        own, opp, sign = (0, 1, 1.0) if y[t] > 0 else (1, 0, -1.0)
        for g in range(width):
            score[g] = m.fade[g] * on_models[t, g]
        for p in range(2):
            n = s.waiting[p]
            sx[p] = on_base[t, 2 * tau + p]
            for i in range(n):
                by_rows[p, i] = on_rows[t, s.rows[p, i]]
                sx[p] += by_rows[p, i]
            of_class = on_base[t, p * tau : (p + 1) * tau]
            zx[p] = 0.0
            add_row(zx[p, : s.filled[p]], of_class, s.C[p], s.based[p])
            add_row(zx[p, : s.filled[p]], by_rows[p], s.C[p, tau:], n)
            add_row(score, of_class, m.beta[p], s.based[p])
            add_row(score, by_rows[p], m.beta[p, tau:], n)
            add_row(score, zx[p], m.b[p], s.filled[p])
            for g in range(width):
                score[g] += sx[p] * m.gamma[p, g]
        s.counts[own] += 1.0
        empty = squares[t] == 0.0
        if not empty:
            _insert(own, squares[t], zx, sx, score, tau, s, m)
        if s.counts[opp] > 0.0:
            _move(own, opp, sign, empty, score, zx, sx, eta, lam, push, kappa, tau, s, m)
        if s.filled[own] == tau:
            _shrink(own, tau, k, s, m)


@njit(fastmath={"contract"})
def _insert(p, square, zx, sx, score, tau, s, m):
    """The row becomes a column of Z_p and a term of s_p, and w stays where it is; ``zx`` and ``sx`` follow."""
    column, place = s.filled[p], s.waiting[p]
    s.rows[p, place] = s.waiting[2]
    s.waiting[p] += 1
    s.waiting[2] += 1
    s.filled[p] += 1
    s.C[p, :, column] = 0.0
    s.C[p, tau + place, column] = 1.0
    zx[p, column] = square
    for a in range(2):
        for i in range(s.filled[a]):
            s.ZZ[p, a, column, i] = s.ZZ[a, p, i, column] = zx[a, i]
        s.ZS[p, a, column] = sx[a]
    for a in range(2):
        for i in range(s.filled[a]):
            s.ZS[a, p, i] += zx[a, i]
    s.SS[p, p] += 2.0 * sx[p] + square
    s.SS[p, 1 - p] += sx[1 - p]
    s.SS[1 - p, p] = s.SS[p, 1 - p]
    sx[p] += square
    for g in range(len(score)):
        m.beta[p, tau + place, g] = -m.gamma[p, g]
        m.b[p, column, g] = 0.0
        m.Q[p, column, g] = score[g]
        m.u[p, g] += score[g]


@njit(fastmath={"contract"})
def _move(own, opp, sign, empty, score, zx, sx, eta, lam, push, kappa, tau, s, m):
    """The gradient step of Eqs. 14 and 15, for all settings."""
    width, n, count = len(eta), s.filled[opp], s.counts[opp]
    gamma, scale, faded = np.empty(width), np.empty(width), np.empty(width)
    for g in range(width):
        alpha = m.alpha[g]
        centre = alpha * m.u[opp, g] / count
        step = eta[g] * (sign - alpha * score[g] + centre)
        faded[g] = alpha * (1.0 - eta[g] * lam[g])
        new = faded[g] if _SMALL < abs(faded[g]) < _LARGE else 1.0
        m.alpha[g] = new
        push[g] = step / new
        gamma[g] = (eta[g] * centre - step) / (count * new)
        scale[g] = -eta[g] * alpha / (count * new)
    for j in range(n):
        for g in range(width):
            kappa[j, g] = scale[g] * m.Q[opp, j, g]
    for g in range(width):
        if not _SMALL < abs(faded[g]) < _LARGE:
            _take_in(g, faded[g], m)
    if not empty:
        last = m.beta[own, tau + s.waiting[own] - 1]
        for g in range(width):
            last[g] += push[g]
    for j in range(n):
        for g in range(width):
            m.b[opp, j, g] += kappa[j, g]
    for g in range(width):
        m.gamma[opp, g] += gamma[g]
    for a in range(2):
        Q, u, zs = m.Q[a], m.u[a], s.ZS[a, opp]
        for j in range(s.filled[a]):
            for g in range(width):
                Q[j, g] += zx[a, j] * push[g] + zs[j] * gamma[g]
        add_product(Q, s.ZZ[a, opp], kappa, s.filled[a], n)
        for g in range(width):
            u[g] += sx[a] * push[g] + s.SS[a, opp] * gamma[g]
        add_row(u, s.ZS[opp, a], kappa, n)


@njit()
def _take_in(g, factor, m):
    """Multiply the coordinates of one setting by ``factor``: its alpha has become 1."""
    m.fade[g] *= factor
    for p in range(2):
        m.gamma[p, g] *= factor
        m.u[p, g] *= factor
        for j in range(m.b.shape[1]):
            m.b[p, j, g] *= factor
            m.Q[p, j, g] *= factor
        for j in range(m.beta.shape[1]):
            m.beta[p, j, g] *= factor


@njit(fastmath={"contract"})
def _shrink(p, tau, k, s, m):
    """Algorithm 2 on a full Z_p: Z_p A takes its place, and w stays where it is."""
    A, squares, n = shrink_map(s.ZZ[p, p], k)
    ends, o = tau + s.waiting[p], 1 - p
    add_product(m.beta[p], s.C[p], m.b[p], ends, tau)
    m.b[p] = 0.0
    C = np.zeros((ends, tau))
    add_product(C, s.C[p], A, ends, tau)
    _copy(C, s.C[p])
    transposed = np.ascontiguousarray(A.T)
    Q = np.zeros_like(m.Q[p])
    add_product(Q, transposed, m.Q[p], n, tau)
    _copy(Q, m.Q[p])
    cross = np.zeros((tau, tau))
    add_product(cross, transposed, s.ZZ[p, o], n, tau)
    s.ZZ[p, p] = 0.0
    for i in range(tau):
        s.ZZ[p, p, i, i] = squares[i]
        for j in range(tau):
            s.ZZ[p, o, i, j] = s.ZZ[o, p, j, i] = cross[i, j]
    for c in range(2):
        product = A.T @ s.ZS[p, c]
        for i in range(tau):
            s.ZS[p, c, i] = product[i]
    s.filled[p] = n


@njit()
def _copy(source, to):
    for i in range(source.shape[0]):
        for j in range(source.shape[1]):
            to[i, j] = source[i, j]
