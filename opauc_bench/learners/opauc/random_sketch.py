"""OPAUC with sketched second moments: random low rank (``opauc_r``) and hashing (``opauc_h``).

Each example x of a class draws a row r, and the class keeps Z = sum of x r' (d x tau) instead of a d x d matrix. With
the count T, the sum s and the mean c = s / T of the opposite class, its covariance is taken to be

    S = Z Z' / T - nu c c'

with nu = |mean of the r|^2 for ``opauc_r`` (2013, Eqs. 8-11), 1 for ``opauc_h`` (2016, Eqs. 14-15),

and the step is OPAUC's (2016, Eqs. 7 and 8): w <- w - eta [lam w - y (x - c) + (x - c) (x - c)'w + S w].

Done as written (``algorithm='plain'``) a step takes O(d tau). But it only ever adds multiples of x, s and the columns
of Z to w, so that w need not be formed. With B = [Z+ s+ Z- s-], d x m, m = 2 (tau + 1),

    w = alpha u,    u = v + B b,

where v changes at the nonzero features of x only, b has m entries and alpha is a number. Put rho = (r, 1), so that
an own example changes its class's columns by x rho'. What is carried along is p = B'u and the Gram matrix B'B; then

    x'u  = x'v + (B'x)'b             c'u = p_s / T,   Z'u = p_Z           (columns of the opposite class)
    B_own += x rho',   v -= (rho'b_own) x,   p_own += rho (x'u)           (u stays as it is)
    f = 1 - eta lam,   a = alpha (x'u - c'u),   e = eta (y - a) / (f alpha)
    beta = (-eta p_Z / (f T),  (eta nu alpha c'u / (f alpha) - e) / T)
    alpha *= f,   v += e x,   b_opp += beta,   p += e B'x + (B'B)_opp beta

which are the same weights at O(k tau + tau^2) per step for k nonzero features, and for a grid of settings two small
matrix products. Where f = 0 nothing of u survives a step: v is a multiple of the last row, which is kept as such.
Where alpha leaves [1e-150, 1e150] it is multiplied into u.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import sparse

from ..base import State
from ..parameters import Seed
from ..rows import aligned_zeros, csr_of, csr_rows, padded, rows_of
from .family import SketchLearner, padded_settings
from .products import add_product
from .random_sketch_kernels import LONGEST_RUN, bring_up_to_date, implicit_steps, plain_steps, squared_lengths

__all__ = ["OPAUCh", "OPAUCr"]

_BLOCK_ROWS = 768
_LONGEST_BLOCK = 128  # dense rows whose steps are taken together


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
    settings_axes: ClassVar = dict.fromkeys(("W", "alpha", "in_basis", "products", "delta", "fades", "of_last"), -1)
    lanes: ClassVar = 8
    resizable: ClassVar = ("last_row",)

    def coef(self, n_features):
        coef, b = np.empty((n_features, self.n_live)), self._b()
        for start in range(0, n_features, _BLOCK_ROWS):
            rows = slice(start, min(start + _BLOCK_ROWS, n_features))
            self._form(rows, b, coef[rows])
        indices, data = self.last_row
        coef[indices] += np.outer(data, self.of_last[: self.n_live])
        coef *= self.alpha[: self.n_live]
        coef[:, ~np.isfinite(coef).all(axis=0)] = np.nan
        return coef

    def coef_at(self, features):
        coef, b = np.empty((len(features), self.n_live)), self._b()
        for start in range(0, len(features), _BLOCK_ROWS):
            some = features[start : start + _BLOCK_ROWS]
            self._form(some, b, coef[start : start + _BLOCK_ROWS])
        (indices, data), of_last = self.last_row, self.of_last[: self.n_live]
        if len(indices) and of_last.any():
            place = np.minimum(np.searchsorted(indices, features), len(indices) - 1)
            coef += np.outer(np.where(indices[place] == features, data[place], 0.0), of_last)
        return coef * self.alpha[: self.n_live]

    def _b(self):
        """All of b, one class below the other."""
        (own, n_steps), c, b = self.run[:2], self.draws.tau + 1, self.in_basis.copy()
        if n_steps:
            b[:, :, np.flatnonzero(self.settings["eta"] * self.settings["lam"] == 1.0)] = 0.0
            b[1 - own, :c] += self.delta[:c]
        return b.reshape(-1, b.shape[2])

    def _form(self, rows, b, coef):
        """Write some rows of v + B b, without what v has where f = 0."""
        v = self.W[rows].copy()
        bring_up_to_date(v, self.seen[rows], self.fades)
        add_product(v, self.basis[rows], b, len(v), len(b))
        coef[:] = v[:, : self.n_live]

    def widened(self, fresh):
        fresh.draws, fresh.last_row = self.draws, self.last_row
        return super().widened(fresh)

    def finite(self, n_features):
        small = (*self.in_basis, *self.products, self.delta, self.of_last)
        return np.isfinite(np.vstack(small)[:, : self.n_live] * self.alpha[: self.n_live]).all(axis=0)

    def keep(self, columns):
        super().keep(columns)
        self.alpha[len(columns) :] = 1.0


class _SketchedOPAUC(SketchLearner):
    """Base class of OPAUC with second moments in a random sketch: memory is O(d tau + d n_settings).

    Parameters
    ----------
    random_state : int, Generator or None, default=None
        Seed of the sketch.
    """

    parameter_constraints: ClassVar = SketchLearner.parameter_constraints | {"random_state": Seed()}
    _draws: type[_Gaussian]
    _nu: float
    _keeps_dense_rows = True

    def __init__(
        self,
        eta: float = 2**-6,
        lam: float = 2**-8,
        tau: int = 50,
        algorithm: str = "implicit",
        random_state: int | np.random.Generator | None = None,
    ):
        super().__init__(eta, lam, tau, algorithm)
        self.random_state = random_state

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
        c, width = tau + 1, padded(n_settings, 8)
        half, n_rows, in_run = padded(c, 8), padded(c, 3), padded(c + 2 * LONGEST_RUN, 8)
        return _Implicit(
            W=aligned_zeros(n_features, width),
            basis=aligned_zeros(n_features, 2 * half),
            gram=aligned_zeros(2, n_rows, padded(c + 1, 8)),
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
        X = X if sparse.issparse(X) else csr_of(X)
        rows, rho = rows_of(X), self._rho(state, len(y))
        if isinstance(state, _Plain):
            eta, lam = (float(state.settings[axis][0]) for axis in ("eta", "lam"))
            shared = (self._nu, state.counts, state.mean_draws)
            plain_steps(*rows, y, rho, eta, lam, *shared, state.sums, state.sketches, state.W[:, 0])
            return
        squares = squared_lengths(rows[0], rows[2])
        self._take_steps(state, rows, rows, squares, y, rho, state.basis, state.seen, state.last_row, state.W)
        if len(y):
            last = slice(*X.indptr[-2:])
            state.last_row = X.indices[last].astype(np.int32), X.data[last].copy()

    def _consume_in_blocks(self, state, X, y):
        rho, n_blocks = self._rho(state, len(y)), -(-len(y) // _LONGEST_BLOCK)
        for block in np.array_split(np.arange(len(y)), n_blocks):
            here = slice(block[0], block[-1] + 1)
            self._consume_block(state, X[here], y[here], rho[here])

    def _consume_block(self, state, X, y, rho):
        """The steps of a few dense rows in other coordinates: n for products, n for the rows themselves, and two more.

        Row t is read as its products with what there was before the block, coordinate t, and with the rows of the block
        before it, coordinates n + i; it is added to coordinate n + t. Coordinate 2n is that of the row before the
        block, where f = 0. The last one shows what multiplies v meanwhile.
        """
        n, (indices, data) = len(y), state.last_row
        if state.seen.min() < state.run[3]:
            bring_up_to_date(state.W, state.seen, state.fades)
        gram = X.gram_matrix()
        read = np.zeros((n, 2 * n + 2))
        read[:, :n], read[:, n : 2 * n], read[0, 2 * n] = np.eye(n), np.tril(gram, -1), X.values[0, indices] @ data
        basis, W = aligned_zeros(2 * n + 2, state.basis.shape[1]), aligned_zeros(2 * n + 2, state.W.shape[1])
        basis[:n], W[:n], W[-1] = X.values @ state.basis, X.values @ state.W, 1.0
        seen = np.full(2 * n + 2, float(state.run[2]))
        last_row = np.full(len(indices[:1]), 2 * n, dtype=np.int32), np.ones(len(indices[:1]))
        to = rows_of(csr_rows(np.ones(n), np.arange(n, 2 * n, dtype=np.int32), np.arange(n + 1), 2 * n + 2))
        self._take_steps(state, rows_of(csr_of(read)), to, gram.diagonal().copy(), y, rho, basis, seen, last_row, W)
        bring_up_to_date(W, seen, state.fades)
        if (W[-1] != 1.0).any():
            state.W *= W[-1]
        X.add_to(state.W, W[n : 2 * n])
        X.add_to(state.basis, basis[n : 2 * n])
        state.seen[:] = state.run[2]
        state.last_row = X.last()

    def _rho(self, state, n):
        """(r, 1) of the next ``n`` rows."""
        rho = np.ones((n, int(self.tau) + 1))
        rho[:, :-1] = state.draws.rows(n)
        return rho

    def _take_steps(self, state, rows, to, squares, y, rho, basis, seen, last_row, W):
        eta, lam = padded_settings(state.settings, len(state.alpha))
        f = 1.0 - eta * lam
        fading = np.where(f == 0.0, 1.0, f), np.where(f == 0.0, 0.0, 1.0), np.flatnonzero(f == 0.0)
        shared = (self._nu, state.counts, state.mean_draws, basis, state.gram, state.cross, state.run)
        small = (state.alpha, state.in_basis, state.products, state.delta, state.fades, seen, state.of_last)
        implicit_steps(*rows, *to, squares, y, rho, eta, *fading, *shared, *small, *last_row, W)

    def seconds_per_row(self, n_features, n_nonzero, n_settings):
        if self._plainly(n_settings):
            return 5e-7 + 4.3e-10 * n_features * self.tau
        width = padded(n_settings, 8)
        far = 1.0 if n_features * (2 * self.tau + width) < 4e6 else 2.0  # whether memory is beyond the caches
        by_feature = far * n_nonzero * (2e-8 + 2.5e-10 * (width + 2 * self.tau))
        if self._in_blocks(n_features, n_nonzero):
            by_feature = 1e-10 * n_features * (width + 2 * self.tau)
        return 2e-6 + by_feature + 1e-9 * self.tau**2 + (3.3e-11 * self.tau + 4e-10) * self.tau * width

    def memory_bytes(self, n_features, n_settings):
        if self._plainly(n_settings):
            return 8.0 * n_features * (2 * self.tau + 4)
        c, width = self.tau + 1, padded(n_settings, 8)
        return 8.0 * (n_features * (2 * padded(c, 8) + width + n_settings + 1) + 6 * c * (width + c))


class OPAUCr(_SketchedOPAUC):
    """One-pass AUC optimisation with random low-rank covariances.

    References
    ----------
    W. Gao, R. Jin, S. Zhu, Z.-H. Zhou: One-pass AUC optimization. ICML 2013, section 3.2, Eqs. 8-11. The text divides
    r by tau in the definition and by its square root in the recursion; it is the square root here.
    """

    _draws = _Gaussian
    _nu = np.nan  # taken from the draws


class OPAUCh(_SketchedOPAUC):
    """One-pass AUC optimisation with hashed covariances.

    References
    ----------
    W. Gao, L. Wang, R. Jin, S. Zhu, Z.-H. Zhou: One-pass AUC optimization. Artificial Intelligence 236 (2016) 1-29,
    Eqs. 14-15 and section 7.2, which names hashing without a formula: each example is added with a random sign to a
    random column.
    """

    _draws = _SignedUnit
    _nu = 1.0
