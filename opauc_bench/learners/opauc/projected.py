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

from copy import copy
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...kernels import njit
from ..parameters import Integer, Seed
from ..rows import by_rows, rows_of
from .full import OPAUC, Moments
from .principal_components import principal_components, seconds_for_components

__all__ = ["OPAUCPCA", "OPAUCRP", "OPAUCFeat"]

_BLOCK = 1024  # features whose rows of P are in memory at a time


class _Projection:
    """P, of shape (n_features, n_components)."""

    def __init__(self, n_features: int, n_components: int):
        self.n_features, self.n_components = n_features, n_components

    def forward(self, X) -> np.ndarray:
        """Rows (CSR) times P; how rows are cut into pieces changes no bit."""
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
        self.place = np.full(n_features, -1)
        self.place[features] = np.arange(len(features))

    def forward(self, X):
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

    def rows(self, features: np.ndarray) -> np.ndarray:
        """Rows of P, shape (len(features), n_components)."""
        P = np.empty((len(features), self.n_components))
        for row, feature in zip(P, features):
            np.random.Generator(np.random.Philox(key=[self.seed, int(feature)])).standard_normal(out=row)
        P /= np.sqrt(self.n_components)
        return P

    def forward(self, X):
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

    def _consume(self, state, X, y):
        super()._consume(state, state.projection.forward(X), y)

    def _seconds_to_project(self, n_nonzero, n_components):
        return 0.0

    def seconds_per_row(self, n_features, n_nonzero, n_settings):
        p = min(int(self.n_components), n_features)
        opauc = super().seconds_per_row(p, p, n_settings)
        return opauc + (self._seconds_to_project(n_nonzero, p) if p < n_features else 0.0)

    def memory_bytes(self, n_features, n_settings):
        opauc = super().memory_bytes(min(int(self.n_components), n_features), n_settings)
        return opauc + 8.0 * n_features * (n_settings + 2)


class OPAUCFeat(_ProjectedOPAUC):
    """OPAUC on randomly selected features."""

    def _projection(self, n_features):
        rng, n_components = np.random.default_rng(self.random_state), min(int(self.n_components), n_features)
        return _Selection(n_features, np.sort(rng.choice(n_features, n_components, replace=False)))


class OPAUCRP(_ProjectedOPAUC):
    """OPAUC after a Gaussian random projection.

    Notes
    -----
    The projection is not stored: a feature's row of it is drawn again for each chunk of rows that needs it, and once
    more for the weights at the end.
    """

    def _projection(self, n_features):
        if n_features <= self.n_components:
            return _Selection(n_features, np.arange(n_features))
        return _Gaussian(n_features, int(self.n_components), self.random_state)

    def _seconds_to_project(self, n_nonzero, n_components):
        return n_nonzero * (2e-5 + 1.2e-8 * n_components)


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

    @property
    def partial_fit(self):
        """Not there: components come from all rows."""
        raise AttributeError("OPAUCPCA has no partial_fit: its components come from all training rows; use fit")

    def _projection(self, n_features):
        return _Components(self._basis)

    def _with_basis(self, X, order):
        self.check_params()
        learner = copy(self)
        learner._basis = principal_components(X, order, int(self.n_components), self.random_state)
        return learner

    def fit_grid(self, X, y, grid, *, order=None, on_chunk=None):
        self._settings(grid)
        X = by_rows(X)
        order = np.arange(X.shape[0]) if order is None else np.asarray(order)
        return super(OPAUCPCA, self._with_basis(X, order)).fit_grid(X, y, grid, order=order, on_chunk=on_chunk)

    def fit(self, X, y):
        from sklearn.utils.validation import check_X_y

        checked, _ = check_X_y(X, y, accept_sparse="csr", dtype=np.float64, order="C", estimator=self)
        self._basis = self._with_basis(checked, np.arange(checked.shape[0]))._basis
        try:
            return super().fit(X, y)
        finally:
            del self._basis

    def cost(self, n_rows, n_features, n_nonzero, n_settings) -> tuple[float, float]:
        p = min(int(self.n_components), n_features, n_rows)
        seconds, memory = super().cost(n_rows, n_features, n_nonzero, n_settings)
        return seconds + seconds_for_components(n_rows, n_features, n_nonzero, p), memory + 32.0 * n_features * p

    def _seconds_to_project(self, n_nonzero, n_components):
        return 1e-9 * n_nonzero * n_components


@njit(fastmath={"contract"})
def _add_block(P, start, indptr, place, data, at, Z):
    """Z += X P for the features at the places from ``start`` on; ``at`` is how far each row has got."""
    for t in range(len(Z)):
        z, e = Z[t], at[t]
        while e < indptr[t + 1] and place[e] < start + len(P):
            p, v = P[place[e] - start], data[e]
            for c in range(len(z)):
                z[c] += v * p[c]
            e += 1
        at[t] = e
