"""OPAUC after a projection to fewer dimensions: selected features, random projection, principal components.

With a d x p matrix P, rows are mapped to z = P'x, OPAUC trains p weights v on them with full covariances (Algorithm 1
of Gao et al. 2016), and since v'z = (P v)'x, the weights in the original features are w = P v. These are the OPAUC^f,
OPAUC^rp and OPAUC^pca of sections 7.2 and 7.3, with p = 1,000.

    opauc_feat   P has the unit vectors of p features, drawn without replacement
    opauc_rp     P has independent normal entries of variance 1 / p
    opauc_pca    P has the p leading eigenvectors of the covariance of all training rows

Only ``opauc_pca`` needs the rows for P; the others need the number of features and the seed. None of them subtracts
a mean from the rows: OPAUC sees only differences of rows and covariances, so it makes no difference.
"""

from __future__ import annotations

import functools
import math
import tempfile
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import numpy as np
from scipy import sparse

from ...kernels import njit
from ..parameters import Integer, Seed
from ..ranker import Learner, Reduced
from ..rows import by_rows, rows_of
from .full import OPAUC, Moments
from .principal_components import (
    component_coefficients,
    principal_components,
    seconds_for_coefficients,
    seconds_for_components,
)

__all__ = ["OPAUCPCA", "OPAUCRP", "OPAUCFeat"]

_BLOCK = 1024  # features whose rows of P are in memory at a time
_ROWS = 4096  # sparse rows that are projected at a time
_DENSE_BYTES = 1 << 28  # of dense rows that are projected at a time
_MOST_STORED = 1e9  # bytes of P
_STORED: WeakKeyDictionary[_Projection, np.ndarray] = WeakKeyDictionary()  # no part of what is pickled
_MOST_IN_MEMORY = 1e9  # bytes of projected rows
_IN_CACHE = 64  # features whose rows of P stay in the second-level cache
_DENSE_FROM = 0.3  # share of nonzero features
_SECONDS_DENSE, _SECONDS_SPARSE = 8e-11, 4e-10  # of a multiplication and addition


class _Projection:
    """P, of shape (n_features, n_components)."""

    def __init__(self, n_features: int, n_components: int):
        self.n_features, self.n_components = n_features, n_components

    def forward(self, X) -> np.ndarray:
        """Rows, CSR or dense, times P; how rows are cut into pieces changes no bit."""
        raise NotImplementedError

    def back_at(self, features: np.ndarray, V: np.ndarray) -> np.ndarray:
        """Some rows of P times weights of shape (n_components, n_settings)."""
        raise NotImplementedError

    def back(self, V: np.ndarray) -> np.ndarray:
        """P times weights."""
        return self.back_at(np.arange(self.n_features), V)


class _Selection(_Projection):
    """``features`` of ``n_features``."""

    def __init__(self, n_features: int, features: np.ndarray):
        super().__init__(n_features, len(features))
        self.features = features
        self.place = np.full(n_features, -1)
        self.place[features] = np.arange(len(features))

    def forward(self, X):
        if not sparse.issparse(X):
            return X[:, self.features]
        Z = np.zeros((X.shape[0], self.n_components))
        row, place = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr)), self.place[X.indices]
        selected = place >= 0
        Z[row[selected], place[selected]] = X.data[selected]
        return Z

    def back_at(self, features, V):
        place = self.place[features]
        return np.where(place[:, None] >= 0, V[place], 0.0)


class _Gaussian(_Projection):
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
        for row, feature in zip(P, features):
            np.random.Generator(np.random.Philox(key=[self.seed, int(feature)])).standard_normal(out=row)
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


class _Components(_Projection):
    """The columns of a given matrix."""

    def __init__(self, P: np.ndarray):
        super().__init__(*P.shape)
        self.P = P

    def forward(self, X):
        return np.asarray(X @ self.P)

    def back_at(self, features, V):
        return self.P[features] @ V

    def back(self, V):
        return self.P @ V  # without a copy of P


@dataclass
class _Projected(Moments):
    """OPAUC's state in the dimensions of the projection."""

    projection: _Projection

    def coef(self, n_features):
        coef = self.projection.back(self.W[: self.projection.n_components, : self.n_live])
        coef[:, ~np.isfinite(coef).all(axis=0)] = np.nan
        return coef

    def coef_at(self, features):
        used, place = np.unique(features, return_inverse=True)
        return self.projection.back_at(used, self.W[: self.projection.n_components, : self.n_live])[place]

    def finite(self, n_features):
        return np.isfinite(self.W[:, : self.n_live]).all(axis=0)


class _ProjectedOPAUC(OPAUC):
    """Base class of OPAUC after a projection.

    Parameters
    ----------
    lam : float, default=2**-8
        Regularisation; multiplies ``|v|^2 / 2`` for the weights v after the projection.
    n_components : int, default=1000
        Dimensions after the projection. If there are no more features than that, rows stay as they are and this is
        OPAUC.
    random_state : int, Generator or None, default=None
        Seed of the projection.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
        The last iterate, mapped back to the original features.

    References
    ----------
    W. Gao, L. Wang, R. Jin, S. Zhu, Z.-H. Zhou: One-pass AUC optimization. Artificial Intelligence 236 (2016) 1-29,
    sections 7.2 and 7.3.
    """

    rotation_invariant = False
    _sparse_chunks = True
    _skips_zero_features = False
    parameter_constraints: ClassVar = OPAUC.parameter_constraints | {
        "n_components": Integer(at_least=1),
        "random_state": Seed(),
    }

    def __init__(self, eta=2**-6, lam=2**-8, n_components=1000, random_state=None):
        super().__init__(eta=eta, lam=lam)
        self.n_components = n_components
        self.random_state = random_state

    def _projection(self, n_features: int) -> _Projection:
        raise NotImplementedError

    def _begin(self, n_features, settings):
        projection = self._projection(n_features)
        moments = super()._begin(projection.n_components, settings)
        return _Projected(**vars(moments), projection=projection)

    def _chunk(self, X, rows, features):
        if sparse.issparse(X):
            return super()._chunk(X, rows, features)
        return np.ascontiguousarray(X[rows], dtype=np.float64)

    def _consume(self, state, X, y):
        super()._consume(state, state.projection.forward(X), y)

    def reduced(self, X, rows, check):
        """OPAUC on the projected rows: the projection depends on the seed alone."""
        if X.shape[1] <= self.n_components:
            return None
        X, projection = by_rows(X), self._projection(X.shape[1])
        Z = _room(X.shape[0], projection.n_components)
        step = _ROWS if sparse.issparse(X) else max(1, _DENSE_BYTES // (8 * X.shape[1]))
        for start in range(0, len(rows), step):
            some = rows[start : start + step]
            Z[some] = projection.forward(self._chunk(X, some, None))
            check()
        return OPAUC(eta=self.eta, lam=self.lam), Z

    def reduced_size(self, n_rows, n_features, n_nonzero):
        p = int(self.n_components)
        if n_features <= p:
            return None
        draws, stored = self._draws(n_rows, n_features, n_nonzero)
        seconds = n_rows * self._seconds_to_project(n_features, n_nonzero, p)
        seconds += draws * self._seconds_to_draw(n_features)
        projected = 8.0 * n_rows * p
        return Reduced(
            learner=OPAUC(),
            n_features=p,
            n_nonzero=float(p),
            seconds=seconds,
            memory_bytes=stored + 2.0 * _DENSE_BYTES + (projected if projected <= _MOST_IN_MEMORY else 0.0),
        )

    def _seconds_to_project(self, n_features: int, n_nonzero: float, n_components: int) -> float:
        """Of one row, by a projection that is there."""
        return 0.0

    def _seconds_to_draw(self, n_features: int) -> float:
        """Of the projection."""
        return 0.0

    def seconds_per_row(self, n_features, n_nonzero, n_settings):
        p = min(int(self.n_components), n_features)
        opauc = super().seconds_per_row(p, p, n_settings)
        return opauc + (self._seconds_to_project(n_features, n_nonzero, p) if p < n_features else 0.0)

    def memory_bytes(self, n_features, n_settings):
        opauc = super().memory_bytes(min(int(self.n_components), n_features), n_settings)
        return opauc + 8.0 * n_features * (n_settings + 2)

    def cost(self, n_rows, n_features, n_nonzero, n_settings):
        seconds, memory = super().cost(n_rows, n_features, n_nonzero, n_settings)
        if n_features <= self.n_components:
            return seconds, memory
        draws, stored = self._draws(n_rows, n_features, n_nonzero)
        return seconds + (draws + 1) * self._seconds_to_draw(n_features), memory + stored

    def _draws(self, n_rows: float, n_features: int, n_nonzero: float) -> tuple[int, float]:
        """How often the projection is drawn for some rows, and the bytes of it that are stored."""
        return 0, 0.0


class OPAUCFeat(_ProjectedOPAUC):
    """OPAUC on randomly selected features."""

    def _projection(self, n_features):
        rng, n_components = np.random.default_rng(self.random_state), min(int(self.n_components), n_features)
        return _Selection(n_features, np.sort(rng.choice(n_features, n_components, replace=False)))


class OPAUCRP(_ProjectedOPAUC):
    """OPAUC after a Gaussian random projection.

    Notes
    -----
    For sparse rows the projection is not stored: a feature's row of it is drawn again for each chunk of rows that needs
    it, and once more for the weights at the end. For dense rows it is, unless it takes more than 1 GB.
    """

    def _projection(self, n_features):
        if n_features <= self.n_components:
            return _Selection(n_features, np.arange(n_features))
        return _Gaussian(n_features, int(self.n_components), self.random_state)

    def _seconds_to_project(self, n_features, n_nonzero, n_components):
        return n_nonzero * n_components * (_SECONDS_DENSE if n_nonzero > _DENSE_FROM * n_features else _SECONDS_SPARSE)

    def _seconds_to_draw(self, n_features):
        return 2.2e-8 * n_features * self.n_components

    def _draws(self, n_rows, n_features, n_nonzero):
        size = 8.0 * n_features * self.n_components
        if n_nonzero <= _DENSE_FROM * n_features:
            return math.ceil(n_rows / _ROWS), 0.0
        return (1, size) if size <= _MOST_STORED else (math.ceil(8.0 * n_rows * n_features / _DENSE_BYTES), 0.0)


class OPAUCPCA(_ProjectedOPAUC):
    """OPAUC after a projection onto the principal components of the training rows.

    Parameters
    ----------
    n_components : int, default=1000
        Dimensions after the projection. Fewer, if the rows vary in fewer; then nothing is lost.
    random_state : int, Generator or None, default=None
        Seed of the approximate decomposition of large data.

    Notes
    -----
    Not a one-pass learner: components come from all training rows, before the pass begins; there is no ``partial_fit``.
    Time limits are not checked while they are computed.
    """

    # Components differ by rounding between forms and orders of the same rows, the more the closer eigenvalues are.
    path_tolerance = 1e-8
    contract_exceptions: ClassVar[dict[str, str]] = {
        "really one pass": "principal components are computed from all rows before the pass"
    }

    streams = False
    supports_stops = False
    _inner_products = None  # of all rows of a dataset, where they are at hand

    @property
    def partial_fit(self):
        """Not there: components come from all rows."""
        raise AttributeError("OPAUCPCA has no partial_fit: its components come from all training rows; use fit")

    def _projection(self, n_features):
        return _Components(self._basis)

    def fit_grid(self, X, y, grid, *, order=None, on_chunk=None):
        self._settings(grid)
        X, learner = by_rows(X), copy(self)
        order = np.arange(X.shape[0]) if order is None else np.asarray(order)
        learner._basis = self._basis_of(X, order, (lambda: on_chunk(0)) if on_chunk else (lambda: None))
        return super(OPAUCPCA, learner).fit_grid(X, y, grid, order=order, on_chunk=on_chunk)

    def fit(self, X, y):
        from sklearn.utils.validation import check_X_y

        checked, _ = check_X_y(X, y, accept_sparse="csr", dtype=np.float64, order="C", estimator=self)
        self.check_params()
        order = np.arange(checked.shape[0])
        self._basis = principal_components(checked, order, int(self.n_components), self.random_state)
        try:
            return super().fit(X, y)
        finally:
            del self._basis

    def given_inner_products(self, inner_products):
        """A copy that takes the components of any rows of that dataset from the inner products."""
        learner = copy(self)
        learner._inner_products = inner_products
        learner._random_combinations = _RandomCombinations()
        return learner

    def reduced(self, X, rows, check):
        """The components of any of the rows from inner products alone."""
        if self._inner_products is None or X.shape[1] <= self.n_components:
            return None
        return OPAUCPCAFromInnerProducts(self, self._combinations(X, check), X.shape[1]), self._inner_products()

    def _combinations(self, X, check):
        return functools.partial(self._random_combinations, X, self.random_state, check)

    def _basis_of(self, X, order, check):
        """P of the rows ``order``."""
        if self._inner_products is None or X.shape[1] <= self.n_components:
            return principal_components(X, order, int(self.n_components), self.random_state)
        gram, C = _coefficients(self, self._inner_products(), order, self._combinations(X, check), X.shape[1])
        del gram
        P, step = np.zeros((X.shape[1], C.shape[1])), max(1, _DENSE_BYTES // (8 * X.shape[1]))
        for start in range(0, len(order), step):
            P += np.asarray(X[order[start : start + step]], dtype=np.float64).T @ C[start : start + step]
            check()
        return P

    def reduced_size(self, n_rows, n_features, n_nonzero):
        if self._inner_products is None or n_features <= self.n_components:
            return None
        return Reduced(
            learner=OPAUCPCAFromInnerProducts(self, None, n_features),
            n_features=math.ceil(n_rows),
            n_nonzero=float(n_rows),
            seconds=_SECONDS_DENSE * n_rows * n_features * self.n_components,
            memory_bytes=8.0 * (n_rows + n_features) * self.n_components + _DENSE_BYTES,
            uses_inner_products=True,
        )

    def cost(self, n_rows, n_features, n_nonzero, n_settings) -> tuple[float, float]:
        p = min(int(self.n_components), n_features, n_rows)
        seconds, memory = super().cost(n_rows, n_features, n_nonzero, n_settings)
        if self._inner_products is None or n_features <= self.n_components:
            components = seconds_for_components(n_rows, n_features, n_nonzero, p)
            return seconds + components, memory + 32.0 * n_features * p
        components = seconds_for_coefficients(n_rows, p) + _SECONDS_DENSE * n_rows * n_nonzero * p
        return seconds + components, memory + 16.0 * n_features * p + 8.0 * n_rows * (n_rows + 4 * p)

    def _seconds_to_project(self, n_features, n_nonzero, n_components):
        return 1e-9 * n_nonzero * n_components


class OPAUCPCAFromInnerProducts(Learner):
    """OPAUC on principal components of some rows, from the inner products of all rows.

    With the training rows X, the components are P = X'C, and any row x has P'x = C'(X x). So what takes the place of a
    row are its inner products with all rows, and weights v on the components become weights C v on the training rows.

    Parameters
    ----------
    learner : OPAUCPCA
    random_combinations : callable
        From k to k random combinations of the features of all rows, shape (n_samples, k).
    n_features : int
        Of the rows themselves.
    """

    grid_axes = OPAUCPCA.grid_axes

    def __init__(self, learner, random_combinations, n_features):
        self.learner = learner
        self.random_combinations = random_combinations
        self.n_features = n_features

    def fit_grid(self, X, y, grid, *, order=None, on_chunk=None):
        learner, order = self.learner, np.arange(X.shape[0]) if order is None else np.asarray(order)
        gram, C = _coefficients(learner, X, order, self.random_combinations, self.n_features)
        V = OPAUC(eta=learner.eta, lam=learner.lam).fit_grid(gram @ C, np.asarray(y)[order], grid, on_chunk=on_chunk)
        W = np.zeros((X.shape[0], V.shape[1]))
        W[order] = C @ V
        return W

    def cost(self, n_rows, n_features, n_nonzero, n_settings):
        p = min(int(self.learner.n_components), int(n_rows))
        seconds, memory = OPAUC().cost(n_rows, p, float(p), n_settings)
        components = seconds_for_coefficients(n_rows, p)
        return seconds + components, memory + 8.0 * n_rows * (n_rows + 4 * p) + 8.0 * n_features * n_settings


def _coefficients(learner, gram, order, random_combinations, n_features):
    """Inner products of the rows ``order``, and C with the components X'C of these rows X."""
    own = np.empty((len(order), len(order)))
    for start in range(0, len(order), _BLOCK):
        own[start : start + _BLOCK] = gram[order[start : start + _BLOCK]][:, order]
    n_components = int(learner.n_components)
    return own, component_coefficients(own, n_features, n_components, lambda k: random_combinations(k)[order])


class _RandomCombinations:
    """X times a normal matrix of as many columns as asked for, which is kept for the next time."""

    def __init__(self):
        self._found: tuple[Any, np.ndarray] | None = None

    def __call__(self, X, random_state, check, k):
        if self._found is None or self._found[0] != (random_state, k):
            Omega = np.random.default_rng(random_state).standard_normal((X.shape[1], k))
            combinations = np.empty((X.shape[0], k))
            step = max(1, _DENSE_BYTES // (8 * X.shape[1]))
            for start in range(0, X.shape[0], step):
                rows = slice(start, min(start + step, X.shape[0]))
                np.matmul(np.asarray(X[rows], dtype=np.float64), Omega, out=combinations[rows])
                check()
            self._found = (random_state, k), combinations
        return self._found[1]


def _room(n: int, p: int) -> np.ndarray:
    """Zeros of shape (n, p); in a file without a name where they are many."""
    if 8 * n * p <= _MOST_IN_MEMORY:
        return np.zeros((n, p))
    with tempfile.TemporaryFile() as file:
        return np.memmap(file, np.float64, "w+", shape=(n, p))


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
