"""Frequent directions in coordinates: OPAUC's steps without touching weights or sketches on all features.

Everything that the algorithm of `frequent_directions.py` ever forms is a combination of rows seen so far. For some
hundred or thousand rows directions are fixed: for each class p the base B_p, its sketch at first, and the rows X_p that
have come since; besides, the sums s_p of all rows of the class. In them,

    Z_p = [B_p X_p] C_p                                                        shared by all settings
    w   = alpha (fade V + sum over p of [B_p X_p] beta_p + Z_p b_p + gamma_p s_p)        one for each setting.

A new row x needs the products B'x, X'x, s'x, V'x, taken on its nonzero features. The rest of the step is small:

* x becomes the next free column of Z_p, with coefficient 0; s_p grows by x, so that beta_p loses gamma_p there;
* with a = w'(x - c_o), q = Z_o'w and f = 1 - eta lam, the gradient step is alpha <- f alpha, and then in units of alpha
  beta_p += eta (y - a) at x,  b_o -= eta q / T_o,  gamma_o += (eta w'c_o - eta (y - a)) / T_o;
* Q_p = Z_p'w and u_p = s_p'w follow from the Gram matrices of [Z_+ Z_- s_+ s_-], which are kept as well;
* a full Z_p becomes Z_p A: beta_p += C_p b_p, b_p = 0, C_p <- C_p A, Q_p <- A'Q_p.

When too many rows wait, [B X] beta goes into V, B becomes Z, and s takes in its rows: the only time that all features
are touched, by matrix products. Where eta lam = 1 exactly, f = 0: all of w but the last step goes, and so do its
coordinates. Where alpha leaves [1e-100, 1e100] it is multiplied into the others. V is left alone by both: ``fade`` is
its own factor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from ..base import State
from ..blocks import BlockOfProducts
from ..rows import aligned_zeros, padded, taken
from .family import padded_settings
from .frequent_directions_kernels import Models, Shared, largest_entries, take_rows
from .pending_rows import DenseRows, RowIndices, SparseRows, dense_limit

__all__ = ["Implicit", "begin", "memory_bytes", "seconds_per_row"]

_PIECE = 256  # rows whose products are taken at once
_BLOCK = 4096  # features at a time when weights are formed
_LARGE = 1e100


def _width(n_settings: int) -> int:
    return n_settings if n_settings == 1 else padded(n_settings, 8)


def _limit(n_features: int, tau: int) -> int:
    """Rows that may wait: with more, all features are updated less often, and a step costs more."""
    return int(np.clip(np.sqrt(0.3 * n_features * 2 * tau), max(64, tau), 2048))


def seconds_per_row(n_features: int, n_nonzero: float, n_settings: int, tau: int, in_blocks: bool) -> float:
    """Rough CPU time of a row."""
    width, limit = _width(n_settings), _limit(n_features, tau)
    step = 5e-5 + 7e-11 * width * (1.5 * tau * tau + limit)
    change = 1.2e-10 * n_features * tau * (width + tau)  # of bases, divided among the rows that wait for it
    if n_nonzero < n_features:
        return step + n_nonzero * (5e-10 * (width + 2 * tau) + 2e-10 * limit) + change / limit
    limit = min(limit, dense_limit(n_features))
    if in_blocks:
        return step + 5e-11 * n_features * (width + 2 * tau + limit) + change / limit
    return step + n_features * (2.5e-10 * (width + 2 * tau) + 1e-10 * limit) + change / limit


def memory_bytes(n_features: int, n_settings: int, tau: int) -> float:
    """Rough size of the state, and of the weights that are made of it and handed over."""
    width, limit = _width(n_settings), _limit(n_features, tau)
    small = 2 * (tau + limit) * (width + tau) + _PIECE * (limit + width)
    return 8.0 * (n_features * (2 * width + n_settings + 2 * tau + 4) + small)


def begin(n_features: int, settings: dict[str, np.ndarray], tau: int, k: int) -> Implicit:
    """The state before the first row; a full sketch loses the square of its singular value number ``k``."""
    n_settings = len(next(iter(settings.values())))
    width, limit = _width(n_settings), _limit(n_features, tau)
    return Implicit(
        settings=settings,
        W=aligned_zeros(n_features, width),
        tau=tau,
        k=k,
        base=aligned_zeros(n_features, padded(2 * tau + 2, 8)),
        shared=Shared(
            counts=np.zeros(2),
            filled=np.zeros(2, dtype=np.int64),
            based=np.zeros(2, dtype=np.int64),
            waiting=np.zeros(3, dtype=np.int64),
            rows=np.zeros((2, limit), dtype=np.int64),
            C=np.zeros((2, tau + limit, tau)),
            ZZ=np.zeros((2, 2, tau, tau)),
            ZS=np.zeros((2, 2, tau)),
            SS=np.zeros((2, 2)),
        ),
        models=Models(
            alpha=np.ones(width),
            fade=np.ones(width),
            peak=np.zeros(width),
            beta=np.zeros((2, tau + limit, width)),
            b=np.zeros((2, tau, width)),
            gamma=np.zeros((2, width)),
            Q=np.zeros((2, tau, width)),
            u=np.zeros((2, width)),
        ),
    )


@dataclass
class Implicit(State):
    """Weights in coordinates; ``W`` is V, shape (n_features, width)."""

    tau: int
    k: int
    base: np.ndarray  # (n_features, >= 2 tau + 2): columns of B_+, B_-, s_+ and s_-
    shared: Shared
    models: Models
    wait: Any = None  # SparseRows or DenseRows, once a row has come
    resizable: ClassVar = ("wait.indices", "wait.data", "wait.rows")

    # ------------------------------------------------------------------ the pass

    def consume(self, X, y: np.ndarray) -> None:
        """Take rows, dense or CSR or a block; the form of the first ones decides in which the rows wait."""
        if self.wait is None:
            self.wait = self._nothing_waits(sparse.issparse(X), isinstance(X, BlockOfProducts))
        X = self.wait.in_its_form(X)
        eta, lam = padded_settings(self.settings, self.W.shape[1])
        start = 0
        while start < len(y):
            stop = start + self.wait.room(X, start, min(len(y), start + _PIECE), int(self.shared.waiting[2]))
            products = self.wait.products(X, start, stop, self.base, self.W, int(self.shared.waiting[2]))
            take_rows(*products, y[start:stop], eta, lam, self.tau, self.k, self.shared, self.models)
            if self.wait.full(int(self.shared.waiting[2])):
                self._rebase()
            start = stop

    def _nothing_waits(self, are_sparse: bool, by_products: bool = False) -> SparseRows | DenseRows:
        kind = SparseRows if are_sparse else RowIndices if by_products else DenseRows
        return kind(self.base.shape[0], self.shared.rows.shape[1])

    def restore(self, saved):
        wait = saved.get("wait")
        if wait is not None:
            self.wait = self._nothing_waits("indptr" in wait)
        super().restore(saved)

    def _rebase(self) -> None:
        """Let the rows that wait go: V, B and s take them in."""
        tau, s, m = self.tau, self.shared, self.models
        n_rows = int(s.waiting[2])
        of_models, of_base = np.empty((n_rows, self.W.shape[1])), np.zeros((n_rows, self.base.shape[1]))
        for p in (0, 1):
            rows, ends = s.rows[p, : s.waiting[p]], tau + int(s.waiting[p])
            of_models[rows] = m.beta[p, tau:ends]
            of_base[rows, p * tau : (p + 1) * tau] = s.C[p, tau:ends]
            of_base[rows, 2 * tau + p] = 1.0
        self.wait.fold(self.W, self.base, m.fade, m.beta, s.C, s.based, of_models, of_base)
        for p in (0, 1):
            s.C[p] = 0.0
            s.C[p, : s.filled[p], : s.filled[p]] = np.eye(s.filled[p])
        m.peak[:] = largest_entries(self.W)
        m.beta[:] = 0.0
        m.fade[:] = 1.0
        s.based[:] = s.filled
        s.waiting[:] = 0

    # ------------------------------------------------------------------ weights

    def coef(self, n_features):
        return self._weights(np.arange(self.n_live))[:n_features]

    def coef_at(self, features):
        on_base, of_rows = self._coordinates(columns := np.arange(self.n_live))
        W = self.W[features][:, columns] * self.models.fade[columns] + self.base[features] @ on_base
        if self.wait is not None:
            W += self.wait.at(features, of_rows)
        return W * self.models.alpha[columns]

    def _weights(self, columns: np.ndarray) -> np.ndarray:
        """Weights of some settings, shape (n_features, n_columns)."""
        on_base, of_rows = self._coordinates(columns)
        W = self.W[:, columns]
        W *= self.models.fade[columns]
        for start in range(0, len(W), _BLOCK):
            W[start : start + _BLOCK] += self.base[start : start + _BLOCK] @ on_base
        if self.wait is not None:
            self.wait.add(W, of_rows)
        W *= self.models.alpha[columns]
        return W

    def _coordinates(self, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coordinates of w on the base and on the rows that wait, in units of alpha and beside V."""
        tau, s, m = self.tau, self.shared, self.models
        on_base = np.zeros((self.base.shape[1], len(columns)))
        of_rows = np.zeros((int(s.waiting[2]), len(columns)))
        for p in (0, 1):
            ends = tau + int(s.waiting[p])
            b = m.b[p][: s.filled[p], columns]
            on = m.beta[p][:ends, columns] + s.C[p, :ends, : s.filled[p]] @ b
            on_base[p * tau : (p + 1) * tau] = on[:tau]
            on_base[2 * tau + p] = m.gamma[p, columns]
            of_rows[s.rows[p, : s.waiting[p]]] = on[tau:] + m.gamma[p, columns]
        return on_base, of_rows

    def sketch(self, p: int) -> np.ndarray:
        """Z of class ``p``, shape (n_features, columns in use)."""
        tau, s = self.tau, self.shared
        C = s.C[p, : tau + s.waiting[p], : s.filled[p]]
        Z = self.base[:, p * tau : (p + 1) * tau] @ C[:tau]
        if self.wait is not None:
            of_rows = np.zeros((int(s.waiting[2]), C.shape[1]))
            of_rows[s.rows[p, : s.waiting[p]]] = C[tau:]
            self.wait.add(Z, of_rows)
        return Z

    def finite(self, n_features):
        """As of the weights, but those are formed only where a coordinate is very large."""
        n, m = self.n_live, self.models
        largest = np.abs(m.alpha[:n])
        for coordinates in (m.b, m.Q, m.beta, m.gamma, m.u, m.fade, m.peak):
            largest = np.maximum(largest, np.abs(coordinates.reshape(-1, self.W.shape[1])[:, :n]).max(axis=0))
        finite = largest < _LARGE
        if len(doubtful := np.flatnonzero(~finite & np.isfinite(largest))):
            finite[doubtful] = np.isfinite(self._weights(doubtful)).all(axis=0)
        return finite

    def keep(self, columns):
        width = _width(len(columns))
        self.settings = {axis: values[columns] for axis, values in self.settings.items()}
        self.W = taken(self.W, columns, -1, width)
        self.models = Models(*(taken(array, columns, -1, width) for array in self.models))
        self.models.alpha[len(columns) :] = 1.0

    def _arrays(self) -> tuple[np.ndarray, ...]:
        return self.W, self.base, *self.shared, *self.models

    def widened(self, fresh):
        for old, new in zip(self._arrays(), fresh._arrays()):
            new[tuple(map(slice, old.shape))] = old
        if self.wait is not None:
            fresh.wait = self.wait.widened(fresh.base.shape[0], fresh.shared.rows.shape[1])
        return fresh
