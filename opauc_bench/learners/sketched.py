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

from ..compiled import njit, prefetch
from .base import OnePassLearner, State
from .sparse_rows import aligned_zeros, rows_of

__all__ = ["OPAUCh", "OPAUCr"]

_ALGORITHMS = ("implicit", "plain")
_SMALLEST, _SMALL, _LARGEST = 1e-150, 1e-60, 1e150  # of alpha; what is small is folded with what is too small
_LONGEST_RUN = 6  # steps after which p of the class that the rows are of catches up
_BLOCK_ROWS = 6 * 128


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


@dataclass
class _Implicit(State):
    """``W`` is v; all widths are n_live padded to a multiple of 8."""

    draws: _Gaussian
    counts: np.ndarray  # (2,)
    mean_draws: np.ndarray  # (2, tau)
    basis: np.ndarray  # B, (n_features, 2, tau + 1 padded to a multiple of 8)
    gram: np.ndarray  # (2, rows, columns): B'B of each class with itself, a column for the step, padding
    cross: np.ndarray  # (2, rows, columns): B'B of each class with the other, columns for the steps of a run, padding
    run: np.ndarray  # class of the last rows, steps on its rows that its p has yet to follow, all steps, step of a fold
    alpha: np.ndarray  # (width,)
    in_basis: np.ndarray  # (2, rows, width), b without the run
    products: np.ndarray  # (2, rows, width), p = B'u; of the class of the run, as it was before
    delta: np.ndarray  # (columns of cross, width): what the run added to b of the other class, and its steps
    fades: np.ndarray  # (3, width): step of the last fold, of the one before, and the factor of the last
    seen: np.ndarray  # (n_features,), step at which a row of v was last up to date
    of_last: np.ndarray  # (width,), where f = 0: v is this multiple of the last row
    last_row: tuple[np.ndarray, np.ndarray]  # its features, ascending, and values

    def coef(self, n_features):
        n, (own, n_steps), (_, c, width) = self.n_live, self.run[:2], self.in_basis.shape
        b = self.in_basis.copy()
        if n_steps:
            b[:, :, np.flatnonzero(self.settings["eta"] * self.settings["lam"] == 1.0)] = 0.0
            b[1 - own, : self.draws.tau + 1] += self.delta[: self.draws.tau + 1]
        coef, block = np.empty((n_features, n)), np.zeros((_BLOCK_ROWS, width))
        columns = np.zeros((_BLOCK_ROWS, 2 * c))
        for start in range(0, n_features, _BLOCK_ROWS):
            rows = slice(start, min(start + _BLOCK_ROWS, n_features))
            length = rows.stop - start
            block[:length], columns[:length] = self.W[rows], self.basis[rows]
            _bring_up_to_date(block[:length], self.seen[rows], self.fades)
            _add_product(columns, b.reshape(2 * c, width), block)
            coef[rows] = block[:length, :n]
        indices, data = self.last_row
        coef[indices] += np.outer(data, self.of_last[:n])
        coef *= self.alpha[:n]
        coef[:, ~np.isfinite(coef).all(axis=0)] = np.nan
        return coef

    def finite(self, n_features):
        small = (*self.in_basis, *self.products, self.delta, self.of_last)
        return np.isfinite(np.vstack(small)[:, : self.n_live] * self.alpha[: self.n_live]).all(axis=0)

    def keep(self, columns):
        self.settings = {axis: values[columns] for axis, values in self.settings.items()}
        width = _padded(len(columns), 8)
        kept = self.W.reshape(-1)[: self.W.shape[0] * width].reshape(-1, width)
        _pack(self.W, columns, kept)
        self.W = kept
        for name in ("alpha", "in_basis", "products", "delta", "fades", "of_last"):
            old = getattr(self, name)
            new = aligned_zeros(*old.shape[:-1], width)
            new[..., : len(columns)] = old[..., columns]
            setattr(self, name, new)
        self.alpha[len(columns) :] = 1.0


class _SketchedOPAUC(OnePassLearner):
    grid_axes = ("eta", "lam")
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
        c, width = tau + 1, _padded(n_settings, 8)
        half, n_rows, in_run = _padded(c, 8), _padded(c, 3), _padded(c + 2 * _LONGEST_RUN, 8)
        return _Implicit(
            W=aligned_zeros(n_features, width),
            basis=aligned_zeros(n_features, 2 * half),
            gram=aligned_zeros(2, n_rows, _padded(c + 1, 8)),
            cross=aligned_zeros(2, n_rows, in_run),
            run=np.zeros(4, dtype=np.int64),
            alpha=np.ones(width),
            in_basis=aligned_zeros(2, half, width),
            products=aligned_zeros(2, n_rows, width),
            delta=aligned_zeros(in_run, width),
            fades=np.zeros((3, width)),
            seen=np.zeros(n_features),
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
        in_basis = (state.basis, state.gram, state.cross, state.run)
        small = (state.alpha, state.in_basis, state.products, state.delta, state.fades, state.seen, state.of_last)
        _implicit_steps(*rows, eta, f, *shared, *in_basis, *small, *state.last_row, state.W)
        if len(y):
            last = slice(*X.indptr[-2:])
            state.last_row = X.indices[last].astype(np.int32), X.data[last].copy()

    def seconds_per_row(self, n_features, n_nonzero, n_settings):
        if self._plainly(n_settings):
            return 5e-7 + 4.3e-10 * n_features * self.tau
        width = _padded(n_settings, 8)
        far = 1.0 if n_features * (2 * self.tau + width) < 4e6 else 2.0  # whether memory is beyond the caches
        by_feature = far * n_nonzero * (2e-8 + 2.5e-10 * (width + 2 * self.tau))
        return 2e-6 + by_feature + 1e-9 * self.tau**2 + (3.3e-11 * self.tau + 4e-10) * self.tau * width

    def memory_bytes(self, n_features, n_settings):
        if self._plainly(n_settings):
            return 8.0 * n_features * (2 * self.tau + 4)
        c, width = self.tau + 1, _padded(n_settings, 8)
        return 8.0 * (n_features * (2 * _padded(c, 8) + width + n_settings + 1) + 6 * c * (width + c))


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
    indptr, indices, data, y, rho, eta, f, nu, counts, mean_draws, basis, gram, cross, run, alpha, b, p, delta, fades, seen,
    of_last, features, values, V,
):  # fmt: skip
    width, c, half = V.shape[1], rho.shape[1], basis.shape[1] // 2
    z, xu, others, push = np.zeros(2 * half), np.empty(width), np.empty(width), np.empty(width)
    r, beta = np.zeros(half), np.zeros((-(-(c + 1) // 4) * 4, width))
    survives, factor = np.where(f == 0.0, 0.0, 1.0), np.where(f == 0.0, 1.0, f)
    forgetful, every = np.flatnonzero(f == 0.0), np.arange(c)
    for t in range(len(y)):
        x_features, x = indices[indptr[t] : indptr[t + 1]], data[indptr[t] : indptr[t + 1]]
        own, opp, sign = (0, 1, 1.0) if y[t] > 0 else (1, 0, -1.0)
        r[:c] = rho[t]
        _count(own, rho[t], counts, mean_draws)
        z[:] = 0.0
        _add_rows(basis, x_features, x, z)
        z_own, z_opp = z[own * half : (own + 1) * half], z[opp * half : (opp + 1) * half]
        n = run[1]
        if n > 0 and (run[0] != own or n == _LONGEST_RUN):
            _catch_up(run[0], n, c, cross[run[0]], delta, forgetful, b, p)
            n = 0
        started = counts[opp] > 0.0
        if started:
            xu[:] = 0.0
            push[:] = 0.0
            _times_two(z_own, r, b[own], xu, push)
            _add_rows(b[opp], every, z_opp, xu)
            others[:] = 0.0
            if n > 0:
                _add_rows(delta, every, z_opp, others)
                for g in forgetful:
                    xu[g] = 0.0
            for k in range(0, len(x), 4):
                four = x_features[k : k + 4]
                for i in four:
                    if seen[i] < run[3]:
                        _bring_up_to_date(V[i : i + 1], seen[i : i + 1], fades)
                    seen[i] = run[2]
                _add_rows(V, four, x[k : k + 4], xu)
            if len(forgetful):
                with_last = _product(x_features, x, features, values)
                for g in forgetful:
                    xu[g] += of_last[g] * with_last
        _learn_own(basis, x_features, x, r, z_own, z_opp, own, gram[own], cross[own], cross[opp])
        if not started:
            continue
        run[0], run[1], run[2] = own, n + 1, run[2] + 1
        per_count = 1.0 / counts[opp]
        correction = _correction(nu, mean_draws[opp])
        p_sum, by_x, by_r = p[opp, c - 1], delta[c + 2 * n], delta[c + 2 * n + 1]
        outside = False
        for g in range(width):
            centre = alpha[g] * p_sum[g] * per_count
            step = eta[g] * (sign - alpha[g] * (xu[g] + others[g]) + centre)
            alpha[g] *= factor[g]
            per_alpha = 1.0 / alpha[g]
            outside |= not (_SMALLEST < abs(alpha[g]) < _LARGEST)
            e = step * per_alpha
            by_x[g] = e
            by_r[g] = survives[g] * xu[g]
            push[g] = survives[g] * (e - push[g])
            of_last[g] = e - survives[g] * e
            others[g] = (eta[g] * correction * centre - step) * per_count * per_alpha
            xu[g] = -eta[g] / factor[g] * per_count
        for k in range(len(x)):
            row = V[x_features[k]]
            for g in range(width):
                row[g] += x[k] * push[g]
        if t + 1 < len(y):
            _fetch(indices[indptr[t + 1] : indptr[t + 2]], basis, V)
        for i in range(c):
            gram[opp, i, c] = z_opp[i]
            cross[own, i, c + 2 * n] = z_own[i]
            cross[own, i, c + 2 * n + 1] = r[i]
        new = delta[: len(beta)] if n == 0 else beta
        for j in range(c - 1):
            new_j, p_j = new[j], p[opp, j]
            for g in range(width):
                new_j[g] = xu[g] * p_j[g]
        new[c - 1] = others
        if n > 0:
            beta[c] = by_x
            _accumulate(delta, beta, survives, c, c + 2 * n)
        _clear(p[opp], forgetful)
        _add_product(gram[opp][:, : len(new)], new, p[opp])
        if outside:
            _fold(alpha, b, p, delta, V, fades, run[2])
            run[3] = run[2]
        features, values = x_features, x


@njit(fastmath={"contract"})
def _accumulate(delta, beta, survives, c, used):
    """delta += beta; where f = 0, nothing that was there before is left."""
    for j in range(c):
        total, new = delta[j], beta[j]
        for g in range(len(survives)):
            total[g] = survives[g] * total[g] + new[g]
    for j in range(c, used):
        total = delta[j]
        for g in range(len(survives)):
            total[g] *= survives[g]


@njit()
def _clear(A, columns):
    for i in range(A.shape[0]):
        for g in columns:
            A[i, g] = 0.0


@njit(fastmath={"contract"})
def _catch_up(own, n, c, cross_own, delta, forgetful, b, p):
    """End a run of n steps on rows of one class: p and b of that class follow."""
    used = c + 2 * n
    padded = min(-(-used // 4) * 4, delta.shape[0])
    cross_own[:, used:padded] = 0.0
    delta[used:padded] = 0.0
    for A in (p[own], b[own], b[1 - own]):
        _clear(A, forgetful)
    for j in range(c):
        b_opp, change = b[1 - own, j], delta[j]
        for g in range(b.shape[2]):
            b_opp[g] += change[g]
    _add_product(cross_own[:, :padded], delta, p[own])


@njit(fastmath={"contract"})
def _learn_own(basis, features, x, r, z_own, z_opp, own, G_own, cross_own, cross_opp):
    """B_own += x r', and what that makes of the Gram matrices and of z."""
    half, square = len(r), 0.0
    for k in range(len(x)):
        square += x[k] * x[k]
        row = basis[features[k]][own * half : (own + 1) * half]
        for j in range(half):
            row[j] += x[k] * r[j]
    for i in range(min(half, len(G_own))):
        with_own, across, back = G_own[i], cross_own[i], cross_opp[i]
        ri, by_r, zi = r[i], z_own[i] + square * r[i], z_opp[i]
        for j in range(half):
            with_own[j] += by_r * r[j] + ri * z_own[j]
            across[j] += ri * z_opp[j]
            back[j] += zi * r[j]
    for j in range(half):
        z_own[j] += square * r[j]


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


@njit()
def _fetch(rows, *matrices):
    """Have rows of large matrices brought near while something else is computed."""
    for A in matrices:
        for i in rows:
            for j in range(0, A.shape[1], 8):
                prefetch(A, i, j)


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
def _times_two(z, r, b, by_z, by_r):
    """Add z'b and r'b."""
    for i in range(0, b.shape[0], 8):
        b0, b1, b2, b3, b4, b5, b6, b7 = (
            b[i], b[i + 1], b[i + 2], b[i + 3], b[i + 4], b[i + 5], b[i + 6], b[i + 7]
        )  # fmt: skip
        z0, z1, z2, z3, z4, z5, z6, z7 = (
            z[i], z[i + 1], z[i + 2], z[i + 3], z[i + 4], z[i + 5], z[i + 6], z[i + 7]
        )  # fmt: skip
        r0, r1, r2, r3, r4, r5, r6, r7 = (
            r[i], r[i + 1], r[i + 2], r[i + 3], r[i + 4], r[i + 5], r[i + 6], r[i + 7]
        )  # fmt: skip
        for g in range(b.shape[1]):
            w0, w1, w2, w3, w4, w5, w6, w7 = b0[g], b1[g], b2[g], b3[g], b4[g], b5[g], b6[g], b7[g]
            by_z[g] += z0 * w0 + z1 * w1 + z2 * w2 + z3 * w3 + z4 * w4 + z5 * w5 + z6 * w6 + z7 * w7
            by_r[g] += r0 * w0 + r1 * w1 + r2 * w2 + r3 * w3 + r4 * w4 + r5 * w5 + r6 * w6 + r7 * w7


@njit(fastmath={"contract"})
def _add_product(M, S, P):
    """P += M S: 24 coefficients stay in registers while the settings stream by."""
    n_sixes = M.shape[0] - M.shape[0] % 6
    for i in range(0, n_sixes, 6):
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

    for i in range(n_sixes, M.shape[0], 3):
        P0, P1, P2 = P[i], P[i + 1], P[i + 2]
        for j in range(0, M.shape[1], 4):
            a00, a01, a02, a03 = M[i, j], M[i, j + 1], M[i, j + 2], M[i, j + 3]
            a10, a11, a12, a13 = M[i + 1, j], M[i + 1, j + 1], M[i + 1, j + 2], M[i + 1, j + 3]
            a20, a21, a22, a23 = M[i + 2, j], M[i + 2, j + 1], M[i + 2, j + 2], M[i + 2, j + 3]
            S0, S1, S2, S3 = S[j], S[j + 1], S[j + 2], S[j + 3]
            for g in range(P.shape[1]):
                s0, s1, s2, s3 = S0[g], S1[g], S2[g], S3[g]
                P0[g] += a00 * s0 + a01 * s1 + a02 * s2 + a03 * s3
                P1[g] += a10 * s0 + a11 * s1 + a12 * s2 + a13 * s3
                P2[g] += a20 * s0 + a21 * s1 + a22 * s2 + a23 * s3


@njit()
def _fold(alpha, b, p, delta, V, fades, step):
    """Multiply alphas into u; into v at once where they grow, else when its rows are next needed."""
    for g in range(len(alpha)):
        size = abs(alpha[g])
        if not np.isfinite(size) or _SMALL <= size <= _LARGEST:
            continue
        for A in (delta, b[0], b[1], p[0], p[1]):
            A[:, g] *= alpha[g]
        if size > _LARGEST:
            V[:, g] *= alpha[g]
        else:
            fades[1, g], fades[0, g], fades[2, g] = fades[0, g], step, alpha[g]
        alpha[g] = 1.0


@njit()
def _bring_up_to_date(V, seen, fades):
    """Multiply rows of v by the alphas that have been folded since; two folds leave nothing of them."""
    last, before, factor = fades[0], fades[1], fades[2]
    for i in range(V.shape[0]):
        row, since = V[i], seen[i]
        for g in range(len(row)):
            left = factor[g] if since >= before[g] else 0.0
            row[g] *= 1.0 if since >= last[g] else left
