"""OPAUC after a projection to fewer dimensions: selected features, random projection, principal components.

With a d x p matrix P, rows are mapped to z = P'x, OPAUC trains p weights v on them with full covariances (Algorithm 1
of Gao et al. 2016), and since v'z = (P v)'x, the weights in the original features are w = P v. These are the OPAUC^f,
OPAUC^rp and OPAUC^pca of sections 7.2 and 7.3, with p = 1,000.

    opauc_feat   P has the unit vectors of p features, drawn without replacement
    opauc_rp     P has independent normal entries of variance 1 / p: `random_projection`
    opauc_pca    P has the p leading eigenvectors of the covariance of all training rows: `pca`

Only ``opauc_pca`` needs the rows for P; the others need the number of features and the seed. None of them subtracts
a mean from the rows: OPAUC sees only differences of rows and covariances, so it makes no difference.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy import sparse

from ...errors import LearnerError
from ..parameters import Integer, Seed
from ..ranker import Reduced
from ..rows import by_rows
from .full import OPAUC, Moments
from .sparse_moments import OPAUCS

__all__ = [
    "BLOCK_BYTES",
    "DENSE_FROM",
    "SECONDS_PER_PRODUCT",
    "SPARSE_ROWS",
    "FeatureSelection",
    "OPAUCFeat",
    "ProjectedOPAUC",
    "Projection",
]

SPARSE_ROWS = 4096  # sparse rows that are projected at a time
BLOCK_BYTES = 1 << 28  # of dense rows that are projected at a time
DENSE_FROM = 0.3  # share of nonzero features, from which products of rows are counted as dense
SECONDS_PER_PRODUCT = 8e-11  # a multiplication and addition of dense rows
_MOST_IN_MEMORY = 1e9  # bytes of projected rows
_FEW_PRODUCTS = 0.1  # share of the second moments' entries, up to which OPAUC costs less on those that are not zero


class Projection:
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


class FeatureSelection(Projection):
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


@dataclass
class _Projected(Moments):
    """OPAUC's state in the dimensions of the projection."""

    projection: Projection

    def coef(self, n_features):
        coef = self.projection.back(self.W[: self.projection.n_components, : self.n_live])
        coef[:, ~np.isfinite(coef).all(axis=0)] = np.nan
        return coef

    def coef_at(self, features):
        used, place = np.unique(features, return_inverse=True)
        return self.projection.back_at(used, self.W[: self.projection.n_components, : self.n_live])[place]

    def finite(self, n_features):
        return np.isfinite(self.W[:, : self.n_live]).all(axis=0)


class ProjectedOPAUC(OPAUC):
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
    _keeps_dense_rows = True
    _skips_zero_features = False
    parameter_constraints: ClassVar = OPAUC.parameter_constraints | {
        "n_components": Integer(at_least=1),
        "random_state": Seed(),
    }

    def __init__(
        self,
        eta: float = 2**-6,
        lam: float = 2**-8,
        n_components: int = 1000,
        random_state: int | np.random.Generator | None = None,
    ):
        super().__init__(eta=eta, lam=lam)
        self.n_components = n_components
        self.random_state = random_state

    def _projection(self, n_features: int) -> Projection:
        raise NotImplementedError

    def _begin(self, n_features, settings):
        projection = self._projection(n_features)
        moments = super()._begin(projection.n_components, settings)
        return _Projected(**vars(moments), projection=projection)

    def _consume(self, state, X, y):
        super()._consume(state, state.projection.forward(X), y)

    def reduced(self, X, rows, check):
        """OPAUC on the projected rows: the projection depends on the seed alone."""
        if X.shape[1] <= self.n_components:
            return None
        X, projection = by_rows(X), self._projection(X.shape[1])
        Z = _room(X.shape[0], projection.n_components)
        step = SPARSE_ROWS if sparse.issparse(X) else max(1, BLOCK_BYTES // (8 * X.shape[1]))
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
            memory_bytes=stored + 2.0 * BLOCK_BYTES + (projected if projected <= _MOST_IN_MEMORY else 0.0),
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


class OPAUCFeat(ProjectedOPAUC):
    """OPAUC on randomly selected features.

    Notes
    -----
    In sparse rows, few pairs of selected features are nonzero together. A grid search then keeps second moments as
    a sparse matrix from which nothing is dropped: `OPAUCS` with a limit that is never reached.
    """

    def _projection(self, n_features):
        rng, n_components = np.random.default_rng(self.random_state), min(int(self.n_components), n_features)
        return FeatureSelection(n_features, np.sort(rng.choice(n_features, n_components, replace=False)))

    def reduced(self, X, rows, check):
        if X.shape[1] <= self.n_components or not sparse.issparse(X):
            return super().reduced(X, rows, check)
        Z = by_rows(X)[:, self._projection(X.shape[1]).features]
        if not self._has_few_products(_n_pairs(Z[rows])):
            return super().reduced(X, rows, check)
        return self._with_sparse_moments(), Z

    def reduced_size(self, n_rows, n_features, n_nonzero):
        reduced = super().reduced_size(n_rows, n_features, n_nonzero)
        if reduced is None:
            return None
        selected = n_nonzero * self.n_components / n_features  # of a row, on average
        n_pairs = n_rows * (selected**2 + selected)  # a Poisson variable's mean square
        if not self._has_few_products(n_pairs):
            return reduced
        memory = 24.0 * n_rows * selected
        return replace(reduced, learner=self._with_sparse_moments(), n_nonzero=selected, memory_bytes=memory)

    def _has_few_products(self, n_pairs: float) -> bool:
        return n_pairs <= _FEW_PRODUCTS * int(self.n_components) ** 2

    def _with_sparse_moments(self) -> OPAUCS:
        return OPAUCS(eta=self.eta, lam=self.lam, tau=int(self.n_components))


def _n_pairs(Z: sparse.csr_matrix) -> int:
    """Pairs of features that are both nonzero in some row."""
    nonzero = Z.astype(bool).astype(np.float64)
    return (nonzero.T @ nonzero).nnz


def _room(n: int, p: int) -> np.ndarray:
    """Zeros of shape (n, p); in a file without a name where they are many."""
    if 8 * n * p <= _MOST_IN_MEMORY:
        return np.zeros((n, p))
    with tempfile.TemporaryFile() as file:
        try:
            if hasattr(os, "posix_fallocate"):  # macOS has none
                os.posix_fallocate(file.fileno(), 0, 8 * n * p)  # a page without room on the disk would end the process
        except OSError as error:
            place, size = tempfile.gettempdir(), 8e-9 * n * p
            raise LearnerError(
                f"{place}: projected rows need {size:.2g} GB: {error.strerror}", "set TMPDIR to a folder with more room"
            ) from None
        return np.memmap(file, np.float64, "w+", shape=(n, p))
