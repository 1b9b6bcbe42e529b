"""OPAUC after a Gaussian random projection; see `projected.py`."""

from __future__ import annotations

import math
from weakref import WeakKeyDictionary

import numpy as np
from scipy import sparse

from ...kernels import njit
from ..rows import rows_of
from .projected import (
    BLOCK_BYTES,
    DENSE_FROM,
    SECONDS_PER_PRODUCT,
    SPARSE_ROWS,
    FeatureSelection,
    ProjectedOPAUC,
    Projection,
)

__all__ = ["OPAUCRP"]

_BLOCK = 1024  # features whose rows of P are in memory at a time
_MOST_STORED = 1e9  # bytes of P
_STORED: WeakKeyDictionary[Projection, np.ndarray] = WeakKeyDictionary()  # no part of what is pickled
_IN_CACHE = 64  # features whose rows of P stay in the second-level cache
_SECONDS_SPARSE = 4e-10  # of a multiplication and addition


class _Gaussian(Projection):
    """Normal entries that are drawn again whenever they are needed, with the feature as key."""

    def __init__(self, n_features: int, n_components: int, random_state):
        super().__init__(n_features, n_components)
        self.seed = int(np.random.default_rng(random_state).integers(2**63))

    @property
    def _stores(self) -> bool:
        return 8 * self.n_features * self.n_components <= _MOST_STORED

    def _stored(self) -> np.ndarray:
        """P, which dense rows all need: drawn for the first of them."""
        if self not in _STORED:
            _STORED[self] = self.rows(np.arange(self.n_features))
        return _STORED[self]

    def rows(self, features: np.ndarray) -> np.ndarray:
        """Rows of P, shape (len(features), n_components)."""
        P = np.empty((len(features), self.n_components))
        # One generator whose key is set anew: to make one takes longer than to draw a row.
        bits = np.random.Philox(key=[self.seed, 0])
        normal, state = np.random.Generator(bits), bits.state
        for row, feature in zip(P, features):
            state["state"]["key"][1] = feature
            bits.state = state
            normal.standard_normal(out=row)
        P /= np.sqrt(self.n_components)
        return P

    def forward(self, X):
        if not sparse.issparse(X):
            Z, step = np.zeros((len(X), self.n_components)), self.n_features if self._stores else _BLOCK
            for start in range(0, self.n_features, step):
                features = slice(start, min(start + step, self.n_features))
                P = self._stored() if self._stores else self.rows(np.arange(features.start, features.stop))
                _add_product(X[:, features], P, Z)
            return Z
        indptr, _, data = rows_of(X)
        used, place = np.unique(X.indices, return_inverse=True)
        Z, at = np.zeros((X.shape[0], self.n_components)), indptr[:-1].copy()
        for start in range(0, len(used), _BLOCK):
            _add_block(self.rows(used[start : start + _BLOCK]), start, indptr, place, data, at, Z)
        return Z

    def back_at(self, features, V):
        W = np.empty((len(features), V.shape[1]))
        for start in range(0, len(features), _BLOCK):
            np.matmul(self.rows(features[start : start + _BLOCK]), V, out=W[start : start + _BLOCK])
        return W


class OPAUCRP(ProjectedOPAUC):
    """OPAUC after a Gaussian random projection.

    Notes
    -----
    For sparse rows the projection is not stored: a feature's row of it is drawn again for each chunk of rows that needs
    it, and once more for the weights at the end. For dense rows it is, unless it takes more than 1 GB.
    """

    def _projection(self, n_features):
        if n_features <= self.n_components:
            return FeatureSelection(n_features, np.arange(n_features))
        return _Gaussian(n_features, int(self.n_components), self.random_state)

    def _seconds_to_project(self, n_features, n_nonzero, n_components):
        return (
            n_nonzero * n_components * (SECONDS_PER_PRODUCT if n_nonzero > DENSE_FROM * n_features else _SECONDS_SPARSE)
        )

    def _seconds_to_draw(self, n_features):
        return 2.2e-8 * n_features * self.n_components

    def _draws(self, n_rows, n_features, n_nonzero):
        size = 8.0 * n_features * self.n_components
        if n_nonzero <= DENSE_FROM * n_features:
            return math.ceil(n_rows / SPARSE_ROWS), 0.0
        return (1, size) if size <= _MOST_STORED else (math.ceil(8.0 * n_rows * n_features / BLOCK_BYTES), 0.0)


@njit(fastmath={"contract"})
def _add_product(X, P, Z):
    """Z += X P, every sum in the order of the features: four rows by four features at a time."""
    n, d = X.shape
    whole = n - n % 4
    for begin in range(0, d, _IN_CACHE):
        end = min(begin + _IN_CACHE, d)
        fours = end - (end - begin) % 4
        for t in range(0, whole, 4):
            for e in range(begin, fours, 4):
                _add_four_by_four(X[t : t + 4, e : e + 4], P[e : e + 4], Z[t : t + 4])
            for e in range(fours, end):
                for k in range(t, t + 4):
                    _add_multiple(X[k, e], P[e], Z[k])
        for t in range(whole, n):
            for e in range(begin, end):
                _add_multiple(X[t, e], P[e], Z[t])


@njit(fastmath={"contract"}, inline="always")
def _add_four_by_four(X, P, Z):
    P0, P1, P2, P3 = P[0], P[1], P[2], P[3]
    Z0, Z1, Z2, Z3 = Z[0], Z[1], Z[2], Z[3]
    for c in range(Z.shape[1]):
        p0, p1, p2, p3 = P0[c], P1[c], P2[c], P3[c]
        Z0[c] = (((Z0[c] + X[0, 0] * p0) + X[0, 1] * p1) + X[0, 2] * p2) + X[0, 3] * p3
        Z1[c] = (((Z1[c] + X[1, 0] * p0) + X[1, 1] * p1) + X[1, 2] * p2) + X[1, 3] * p3
        Z2[c] = (((Z2[c] + X[2, 0] * p0) + X[2, 1] * p1) + X[2, 2] * p2) + X[2, 3] * p3
        Z3[c] = (((Z3[c] + X[3, 0] * p0) + X[3, 1] * p1) + X[3, 2] * p2) + X[3, 3] * p3


@njit(fastmath={"contract"}, inline="always")
def _add_multiple(x, p, z):
    for c in range(len(z)):
        z[c] += x * p[c]


@njit(fastmath={"contract"})
def _add_block(P, start, indptr, place, data, at, Z):
    """Z += X P for the features at the places from ``start`` on; ``at`` is how far each row has got."""
    for t in range(len(Z)):
        z, e = Z[t], at[t]
        while e < indptr[t + 1] and place[e] < start + len(P):
            _add_multiple(data[e], P[place[e] - start], z)
            e += 1
        at[t] = e
