"""OPAUC with sketched second moments: random low rank (``opauc_r``) and hashing (``opauc_h``).

Each example x of a class draws a row r, and the class keeps Z = sum of x r' (d x tau) instead of a d x d matrix. With
the count T, the sum s and the mean c = s / T of the opposite class, its covariance is taken to be

    S = Z Z' / T - nu c c'          nu = |mean of the r|^2 for opauc_r (2013, Eqs. 8-11), 1 for opauc_h (2016, Eqs. 14-15)

and the step is OPAUC's (2016, Eqs. 7 and 8), w <- w - eta [lam w - y (x - c) + (x - c) (x - c)'w + S w].

Done as written (``algorithm='plain'``) a step takes O(d tau). But it only ever adds multiples of x, s and the columns of
Z to w, so that w need not be formed. With B = [Z+ s+ Z- s-], d x m, m = 2 (tau + 1),

    w = alpha u,    u = v + B b,

where v changes at the nonzero features of x only, b has m entries and alpha is a number. Put rho = (r, 1), so that
an own example changes its class's columns by x rho'. What is carried along is p = B'u and the Gram matrix B'B; then

    x'u  = x'v + (B'x)'b             c'u = p_s / T,   Z'u = p_Z           (columns of the opposite class)
    B_own += x rho',   v -= (rho'b_own) x,   p_own += rho (x'u)           (u stays as it is)
    f = 1 - eta lam,   a = alpha (x'u - c'u),   e = eta (y - a) / (f alpha)
    beta = (-eta p_Z / (f T),  (eta nu alpha c'u / (f alpha) - e) / T)
    alpha *= f,   v += e x,   b_opp += beta,   p += e B'x + (B'B)_opp beta

which are the same weights at O(k tau + tau^2) a step for k nonzero features, and for a grid of settings two small
matrix products. Where f = 0 nothing of u survives a step: v is a multiple of the last row, which is kept as such.
Where alpha leaves [1e-150, 1e150] it is multiplied into u.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..compiled import njit
from .base import OnePassLearner, State
from .sparse_rows import aligned_zeros, rows_of

__all__ = ["OPAUCh", "OPAUCr"]

_ALGORITHMS = ("implicit", "plain")
_SMALLEST, _LARGEST = 1e-150, 1e150
_BLOCK_ROWS = 8192


class _Gaussian:
    """Rows r of independent normal numbers with the variance 1 / tau."""

    def __init__(self, tau, random_state):
        self.tau, self.rng = tau, np.random.default_rng(random_state)

    def rows(self, n: int) -> np.ndarray:
        """The next ``n`` rows, shape (n, tau); cutting the calls differently gives the same numbers."""
        return self.rng.standard_normal((n, self.tau)) / np.sqrt(self.tau)


class _SignedUnit(_Gaussian):
    """Rows r with a random sign in one random place."""

    def rows(self, n):
        place, positive = np.divmod((2 * self.tau * self.rng.random(n)).astype(np.int64), 2)
        rows = np.zeros((n, self.tau))
        rows[np.arange(n), place] = np.where(positive, 1.0, -1.0)
        return rows


@dataclass
class _Plain(State):
    """Class 0 is positive, class 1 negative; ``W`` is of shape (n_features, 1)."""

    draws: _Gaussian
    counts: np.ndarray  # (2,)
    mean_draws: np.ndarray  # (2, tau), means of the r
    sums: np.ndarray  # (2, n_features)
    sketches: np.ndarray  # (2, n_features, tau)

    def widened(self, fresh):
        fresh.draws = self.draws
        return super().widened(fresh)


@dataclass
class _Implicit(State):
    """``W`` is v; all widths are n_live padded to a multiple of 8."""

    draws: _Gaussian
    counts: np.ndarray  # (2,)
    mean_draws: np.ndarray  # (2, tau)
    basis: np.ndarray  # B, (n_features, m padded to a multiple of 8)
    gram: np.ndarray  # (2, rows, columns): B'B_0 and B'B_1, each with two more columns for the step and padding
    alpha: np.ndarray  # (width,)
    in_basis: np.ndarray  # b, (rows, width)
    products: np.ndarray  # p = B'u, (rows, width)
    of_last: np.ndarray  # (width,), where f = 0: v is this multiple of the last row
    last_row: tuple[np.ndarray, np.ndarray]  # its features, ascending, and values

    def coef(self, n_features):
        n, m = self.n_live, self.in_basis.shape[0]
        coef = np.empty((n_features, n))
        m = min(m, self.basis.shape[1])  # what lies beyond is padding on either side
        b = self.in_basis[:m, :n]
        for start in range(0, n_features, _BLOCK_ROWS):
            rows = slice(start, min(start + _BLOCK_ROWS, n_features))
            np.matmul(self.basis[rows, :m], b, out=coef[rows])
            coef[rows] += self.W[rows, :n]
        indices, data = self.last_row
        coef[indices] += np.outer(data, self.of_last[:n])
        coef *= self.alpha[:n]
        coef[:, ~np.isfinite(coef).all(axis=0)] = np.nan
        return coef

    def coef_at(self, features):
        n, m = self.n_live, min(self.in_basis.shape[0], self.basis.shape[1])
        coef = np.empty((len(features), n))
        for start in range(0, len(features), _BLOCK_ROWS):
            some = features[start : start + _BLOCK_ROWS]
            coef[start : start + _BLOCK_ROWS] = self.basis[some, :m] @ self.in_basis[:m, :n] + self.W[some, :n]
        indices, data = self.last_row
        if len(indices) and self.of_last[:n].any():
            place = np.minimum(np.searchsorted(indices, features), len(indices) - 1)
            coef += np.outer(np.where(indices[place] == features, data[place], 0.0), self.of_last[:n])
        return coef * self.alpha[:n]

    def widened(self, fresh):
        fresh.draws, fresh.last_row = self.draws, self.last_row
        return super().widened(fresh)

    def finite(self, n_features):
        small = np.vstack([self.in_basis, self.products, self.of_last])[:, : self.n_live]
        return np.isfinite(small * self.alpha[: self.n_live]).all(axis=0)

    def keep(self, columns):
        self.settings = {axis: values[columns] for axis, values in self.settings.items()}
        width = _padded(len(columns), 8)
        if width < self.W.shape[1]:
            kept = self.W.reshape(-1)[: self.W.shape[0] * width].reshape(-1, width)
            _pack(self.W, columns, kept)
            self.W = kept
        else:
            _pack(self.W, columns, self.W)
        for name in ("alpha", "in_basis", "products", "of_last"):
            old = getattr(self, name)
            new = aligned_zeros(*old.shape[:-1], width)
            new[..., : len(columns)] = old[..., columns]
            setattr(self, name, new)
        self.alpha[len(columns) :] = 1.0


class _SketchedOPAUC(OnePassLearner):
    grid_axes = ("eta", "lam")
    rotation_invariant = True
    _sparse_chunks = True
    _draws: type[_Gaussian]

    def __init__(self, eta=2**-6, lam=2**-8, tau=50, algorithm="implicit", random_state=None):
        self.eta = eta
        self.lam = lam
        self.tau = tau
        self.algorithm = algorithm
        self.random_state = random_state

    def check_params(self):
        if self.algorithm not in _ALGORITHMS:
            raise ValueError(f"algorithm is one of {', '.join(_ALGORITHMS)}; got {self.algorithm!r}")
        if not (isinstance(self.tau, (int, np.integer)) and self.tau >= 1):
            raise ValueError(f"tau is a whole number of at least 1; got {self.tau!r}")

    def _plainly(self, n_settings):
        return self.algorithm == "plain" and n_settings == 1

    def _begin(self, n_features, settings):
        tau, n_settings = int(self.tau), len(settings["eta"])
        common = {
            "settings": settings,
            "draws": self._draws(tau, self.random_state),
            "counts": np.zeros(2),
            "mean_draws": np.zeros((2, tau)),
        }
        if self._plainly(n_settings):
            sketches = aligned_zeros(2, n_features, tau)
            return _Plain(W=np.zeros((n_features, 1)), sums=np.zeros((2, n_features)), sketches=sketches, **common)
        m, width = 2 * (tau + 1), _padded(n_settings, 8)
        n_rows, n_columns = _padded(m, 6), _padded(tau + 3, 4)
        return _Implicit(
            W=aligned_zeros(n_features, width),
            basis=aligned_zeros(n_features, _padded(m, 8)),
            gram=aligned_zeros(2, n_rows, n_columns),
            alpha=np.ones(width),
            in_basis=aligned_zeros(n_rows, width),
            products=aligned_zeros(n_rows, width),
            of_last=np.zeros(width),
            last_row=(np.zeros(0, dtype=np.int32), np.zeros(0)),
            **common,
        )

    def _consume(self, state, X, y):
        rho = np.ones((len(y), int(self.tau) + 1))
        rho[:, :-1] = state.draws.rows(len(y))
        rows = (*rows_of(X), y, rho)
        shared = (self._nu, state.counts, state.mean_draws)
        if isinstance(state, _Plain):
            eta, lam = (float(state.settings[axis][0]) for axis in ("eta", "lam"))
            _plain_steps(*rows, eta, lam, *shared, state.sums, state.sketches, state.W[:, 0])
            return
        eta, f = np.zeros(len(state.alpha)), np.ones(len(state.alpha))
        eta[: state.n_live] = state.settings["eta"]
        f[: state.n_live] -= state.settings["eta"] * state.settings["lam"]
        small = (state.alpha, state.in_basis, state.products, state.of_last)
        _implicit_steps(*rows, eta, f, *shared, state.basis, state.gram, *small, *state.last_row, state.W)
        if len(y):
            last = slice(*X.indptr[-2:])
            state.last_row = X.indices[last].astype(np.int32), X.data[last].copy()

    def seconds_per_row(self, n_features, n_nonzero, n_settings):
        if self._plainly(n_settings):
            return 1e-6 + 8e-10 * n_features * self.tau
        width = _padded(n_settings, 8)
        return 5e-6 + 1e-9 * n_nonzero * (self.tau + width) + 1.2e-11 * self.tau**2 * width

    def memory_bytes(self, n_features, n_settings):
        if self._plainly(n_settings):
            return 8.0 * n_features * (2 * self.tau + 4)
        width, m = _padded(n_settings, 8), 2 * (self.tau + 1)
        return 8.0 * (n_features * (_padded(m, 8) + width + n_settings) + m * (3 * width + m))


_PARAMETERS = """

    Parameters
    ----------
    eta : float, default=2**-6
        Constant step size.
    lam : float, default=2**-8
        Regularisation; multiplies ``|w|^2 / 2``.
    tau : int, default=50
        Columns of the sketch of each class.
    algorithm : {'implicit', 'plain'}, default='implicit'
        'plain' takes the O(n_features tau) steps of the paper where a single setting is trained; grids of several
        settings are implicit either way. Weights agree but for rounding.
    random_state : int, Generator or None, default=None
        Seed of the sketch.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
        The last iterate.
    intercept_ : ndarray of shape (1,)
        Threshold midway between the class means' scores; AUC does not depend on it.
    classes_ : ndarray of shape (2,)

    Notes
    -----
    Memory is O(d tau + d n_settings). No update is made (not even shrinkage) before both classes have been seen.
"""


class OPAUCr(_SketchedOPAUC):
    __doc__ = (
        "One-pass AUC optimisation with random low-rank covariances."
        + _PARAMETERS
        + """
    References
    ----------
    W. Gao, R. Jin, S. Zhu, Z.-H. Zhou: One-pass AUC optimization. ICML 2013, section 3.2, Eqs. 8-11. The text divides
    r by tau in the definition and by its square root in the recursion; it is the square root here.
    """
    )
    _draws = _Gaussian
    _nu = np.nan  # taken from the draws


class OPAUCh(_SketchedOPAUC):
    __doc__ = (
        "One-pass AUC optimisation with hashed covariances."
        + _PARAMETERS
        + """
    References
    ----------
    W. Gao, L. Wang, R. Jin, S. Zhu, Z.-H. Zhou: One-pass AUC optimization. Artificial Intelligence 236 (2016) 1-29,
    Eqs. 14-15 and section 7.2, which names hashing without a formula: each example is added with a random sign to a
    random column.
    """
    )
    _draws = _SignedUnit
    _nu = 1.0


def _padded(n: int, multiple: int) -> int:
    return -(-n // multiple) * multiple


@njit()
def _pack(old, columns, new):
    """Move ``columns`` of ``old`` to the front, and zero what follows; ``new`` may lie over the same memory."""
    n, buffer = len(columns), np.empty(len(columns))
    for i in range(old.shape[0]):
        for j in range(n):
            buffer[j] = old[i, columns[j]]
        new[i, :n] = buffer
        new[i, n:] = 0.0


@njit(fastmath={"contract"})
def _count(own, rho, counts, mean_draws):
    counts[own] += 1.0
    for j in range(mean_draws.shape[1]):
        mean_draws[own, j] += (rho[j] - mean_draws[own, j]) / counts[own]


@njit(fastmath={"contract"})
def _correction(nu, mean_draw):
    """``nu``, or where that is NaN the squared length of the mean draw."""
    if not np.isnan(nu):
        return nu
    total = 0.0
    for h in mean_draw:
        total += h * h
    return total


@njit(fastmath={"contract", "reassoc"})
def _plain_steps(indptr, indices, data, y, rho, eta, lam, nu, counts, mean_draws, sums, sketches, w):
    """The paper's algorithm for one setting."""
    d, tau = sketches.shape[1:]
    q = np.empty(tau)
    for t in range(len(y)):
        own, opp, sign = (0, 1, 1.0) if y[t] > 0 else (1, 0, -1.0)
        _count(own, rho[t], counts, mean_draws)
        score = 0.0
        for k in range(indptr[t], indptr[t + 1]):
            i, x, row = indices[k], data[k], sketches[own, indices[k]]
            score += x * w[i]
            sums[own, i] += x
            for j in range(tau):
                row[j] += x * rho[t, j]
        if counts[opp] == 0.0:
            continue
        Z, s, per_count = sketches[opp], sums[opp], 1.0 / counts[opp]
        q[:] = 0.0
        centre = 0.0
        for i in range(d):
            wi, row = w[i], Z[i]
            centre += s[i] * wi
            for j in range(tau):
                q[j] += row[j] * wi
        centre *= per_count
        e = eta * (sign - (score - centre))
        f, by_sum = 1.0 - eta * lam, (eta * _correction(nu, mean_draws[opp]) * centre - e) * per_count
        for j in range(tau):
            q[j] *= eta * per_count
        for i in range(d):
            row, total = Z[i], 0.0
            for j in range(tau):
                total += row[j] * q[j]
            w[i] = f * w[i] + by_sum * s[i] - total
        for k in range(indptr[t], indptr[t + 1]):
            w[indices[k]] += e * data[k]


@njit(fastmath={"contract"})
def _implicit_steps(
    indptr,
    indices,
    data,
    y,
    rho,
    eta,
    f,
    nu,
    counts,
    mean_draws,
    basis,
    gram,
    alpha,
    b,
    p,
    of_last,
    features,
    values,
    V,
):
    width, c = V.shape[1], rho.shape[1]
    n_rows, m = b.shape[0], basis.shape[1]
    z, full_rho = np.zeros(max(m, n_rows)), np.zeros(n_rows)
    xu, push = np.empty(width), np.empty(width)
    steps = np.zeros((gram.shape[2], width))  # beta, e and x'u, one after the other, as rows
    survives = np.where(f == 0.0, 0.0, 1.0)
    factor = np.where(f == 0.0, 1.0, f)
    forgetful = np.flatnonzero(f == 0.0)
    for t in range(len(y)):
        start, stop = indptr[t], indptr[t + 1]
        x_features, x = indices[start:stop], data[start:stop]
        own, opp, sign = (0, 1, 1.0) if y[t] > 0 else (1, 0, -1.0)
        r = rho[t]
        _count(own, r, counts, mean_draws)
        z[:] = 0.0
        _add_rows(basis, x_features, x, z[:m])
        square = 0.0
        for k in range(len(x)):
            square += x[k] * x[k]
        started = counts[opp] > 0.0
        if started:
            xu[:] = 0.0
            _add_rows(V, x_features, x, xu)
            if len(forgetful):
                with_last = _product(x_features, x, features, values)
                for g in forgetful:
                    xu[g] += of_last[g] * with_last
            full_rho[:] = 0.0
            full_rho[own * c : (own + 1) * c] = r
            push[:] = 0.0
            _times_b(z, full_rho, b, xu, push)  # x'u and rho'b
        _add_to_gram(gram[own], gram[opp], own * c, opp * c, z, r, square)
        for j in range(c):
            z[own * c + j] += square * r[j]
        for k in range(len(x)):
            row = basis[x_features[k]][own * c : (own + 1) * c]
            for j in range(c):
                row[j] += x[k] * r[j]
        if not started:
            continue
        per_count = 1.0 / counts[opp]
        correction = _correction(nu, mean_draws[opp])
        p_opp, b_opp = p[opp * c : (opp + 1) * c], b[opp * c : (opp + 1) * c]
        outside = False
        for g in range(width):
            centre = alpha[g] * p_opp[c - 1, g] * per_count
            e = eta[g] * (sign - alpha[g] * xu[g] + centre)
            by_sum = (eta[g] * correction * centre - e) * per_count
            alpha[g] *= factor[g]
            per_alpha = 1.0 / alpha[g]
            outside |= not (_SMALLEST < abs(alpha[g]) < _LARGEST)
            e *= per_alpha
            steps[c - 1, g] = by_sum * per_alpha
            steps[c, g] = e
            steps[c + 1, g] = survives[g] * xu[g]
            push[g] = survives[g] * (e - push[g])
            of_last[g] = e - survives[g] * e
        for j in range(c - 1):
            beta, p_j = steps[j], p_opp[j]
            for g in range(width):
                beta[g] = -eta[g] / factor[g] * per_count * p_j[g]
        for g in forgetful:
            b[:, g] = 0.0
            p[:, g] = 0.0
        for j in range(c):
            beta, b_j = steps[j], b_opp[j]
            for g in range(width):
                b_j[g] += beta[g]
        M = gram[opp]
        for j in range(n_rows):
            M[j, c], M[j, c + 1] = z[j], full_rho[j]
        _add_product(M, steps, p)
        for k in range(len(x)):
            row = V[x_features[k]]
            for g in range(width):
                row[g] += x[k] * push[g]
        if outside:
            _fold(alpha, b, p, V)
        features, values = x_features, x


@njit(fastmath={"contract"})
def _add_rows(A, rows, x, total):
    """total += x'A[rows]: four rows a time, which are fetched from memory side by side."""
    width, n = total.shape[0], len(rows)
    n_fours = n - n % 4
    for k in range(0, n_fours, 4):
        A0, A1, A2, A3 = A[rows[k]], A[rows[k + 1]], A[rows[k + 2]], A[rows[k + 3]]
        x0, x1, x2, x3 = x[k], x[k + 1], x[k + 2], x[k + 3]
        for g in range(width):
            total[g] += x0 * A0[g] + x1 * A1[g] + x2 * A2[g] + x3 * A3[g]
    for k in range(n_fours, n):
        A0, x0 = A[rows[k]], x[k]
        for g in range(width):
            total[g] += x0 * A0[g]


@njit(fastmath={"contract"})
def _product(features, x, others, values):
    """Inner product of two sparse rows with ascending features."""
    total, k = 0.0, 0
    for j in range(len(features)):
        while k < len(others) and others[k] < features[j]:
            k += 1
        if k < len(others) and others[k] == features[j]:
            total += x[j] * values[k]
    return total


@njit(fastmath={"contract"})
def _times_b(z, r, b, by_z, by_r):
    """Add z'b and r'b."""
    for i in range(0, b.shape[0], 6):
        b0, b1, b2, b3, b4, b5 = b[i], b[i + 1], b[i + 2], b[i + 3], b[i + 4], b[i + 5]
        z0, z1, z2, z3, z4, z5 = z[i], z[i + 1], z[i + 2], z[i + 3], z[i + 4], z[i + 5]
        r0, r1, r2, r3, r4, r5 = r[i], r[i + 1], r[i + 2], r[i + 3], r[i + 4], r[i + 5]
        for g in range(b.shape[1]):
            w0, w1, w2, w3, w4, w5 = b0[g], b1[g], b2[g], b3[g], b4[g], b5[g]
            by_z[g] += z0 * w0 + z1 * w1 + z2 * w2 + z3 * w3 + z4 * w4 + z5 * w5
            by_r[g] += r0 * w0 + r1 * w1 + r2 * w2 + r3 * w3 + r4 * w4 + r5 * w5


@njit(fastmath={"contract"})
def _add_to_gram(G_own, G_opp, at_own, at_opp, z, r, square):
    """Follow B_own += x r' in B'B_own and B'B_opp, with z = B'x from before."""
    c = len(r)
    z_own, z_opp = z[at_own : at_own + c], z[at_opp : at_opp + c]
    for i in range(c):
        own, across, back = G_own[at_own + i], G_own[at_opp + i], G_opp[at_own + i]
        by_r, by_z = z_own[i] + square * r[i], r[i]
        by_opp = z_opp[i]
        for j in range(c):
            own[j] += by_r * r[j] + by_z * z_own[j]
            across[j] += by_opp * r[j]
            back[j] += by_z * z_opp[j]


@njit(fastmath={"contract"})
def _add_product(M, S, P):
    """P += M S: 24 coefficients stay in registers while the settings stream by."""
    for i in range(0, M.shape[0], 6):
        P0, P1, P2, P3, P4, P5 = P[i], P[i + 1], P[i + 2], P[i + 3], P[i + 4], P[i + 5]
        for j in range(0, M.shape[1], 4):
            a00, a01, a02, a03 = M[i, j], M[i, j + 1], M[i, j + 2], M[i, j + 3]
            a10, a11, a12, a13 = M[i + 1, j], M[i + 1, j + 1], M[i + 1, j + 2], M[i + 1, j + 3]
            a20, a21, a22, a23 = M[i + 2, j], M[i + 2, j + 1], M[i + 2, j + 2], M[i + 2, j + 3]
            a30, a31, a32, a33 = M[i + 3, j], M[i + 3, j + 1], M[i + 3, j + 2], M[i + 3, j + 3]
            a40, a41, a42, a43 = M[i + 4, j], M[i + 4, j + 1], M[i + 4, j + 2], M[i + 4, j + 3]
            a50, a51, a52, a53 = M[i + 5, j], M[i + 5, j + 1], M[i + 5, j + 2], M[i + 5, j + 3]
            S0, S1, S2, S3 = S[j], S[j + 1], S[j + 2], S[j + 3]
            for g in range(P.shape[1]):
                s0, s1, s2, s3 = S0[g], S1[g], S2[g], S3[g]
                P0[g] += a00 * s0 + a01 * s1 + a02 * s2 + a03 * s3
                P1[g] += a10 * s0 + a11 * s1 + a12 * s2 + a13 * s3
                P2[g] += a20 * s0 + a21 * s1 + a22 * s2 + a23 * s3
                P3[g] += a30 * s0 + a31 * s1 + a32 * s2 + a33 * s3
                P4[g] += a40 * s0 + a41 * s1 + a42 * s2 + a43 * s3
                P5[g] += a50 * s0 + a51 * s1 + a52 * s2 + a53 * s3


@njit()
def _fold(alpha, b, p, V):
    """Multiply alphas that have become very small or large into u."""
    outside = np.flatnonzero(np.isfinite(alpha) & ~((_SMALLEST < np.abs(alpha)) & (np.abs(alpha) < _LARGEST)))
    for A in (V, b, p):
        for i in range(A.shape[0]):
            for g in outside:
                A[i, g] *= alpha[g]
    alpha[outside] = 1.0
