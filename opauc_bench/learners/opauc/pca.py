"""OPAUC after a projection onto principal components; see `projected.py`."""

from __future__ import annotations

import functools
import math
from copy import copy
from typing import Any, ClassVar

import numpy as np

from ..ranker import Learner, Reduced
from ..rows import by_rows, check_rows
from .full import OPAUC
from .principal_components import (
    component_coefficients,
    principal_components,
    seconds_for_coefficients,
    seconds_for_components,
)
from .projected import BLOCK_BYTES, DENSE_FROM, SECONDS_PER_PRODUCT, ProjectedOPAUC, Projection

__all__ = ["OPAUCPCA"]

_BLOCK = 1024  # rows of inner products that are copied at a time


class _Components(Projection):
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


class OPAUCPCA(ProjectedOPAUC):
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
    _gram_matrix = None  # of all rows of a dataset, where they are at hand
    _random_combinations: _RandomCombinations

    @property
    def partial_fit(self):
        """Not there: components come from all rows."""
        raise AttributeError("OPAUCPCA has no partial_fit: its components come from all training rows; use fit")

    def _projection(self, n_features):
        return _Components(self._basis)

    def fit_grid(self, X, y, grid, *, order=None, on_chunk=None):  # type: ignore[override]
        self._settings(grid)
        X, learner = by_rows(X), copy(self)
        order = np.arange(X.shape[0]) if order is None else np.asarray(order)
        learner._basis = self._basis_of(X, order, (lambda: on_chunk(0)) if on_chunk else (lambda: None))
        return super(OPAUCPCA, learner).fit_grid(X, y, grid, order=order, on_chunk=on_chunk)

    def fit(self, X, y):
        from sklearn.utils.validation import check_X_y

        checked, _ = check_X_y(X, y, accept_sparse="csr", dtype=np.float64, order="C", estimator=self)
        check_rows(checked)
        self.check_params()
        order = np.arange(checked.shape[0])
        self._basis = principal_components(checked, order, int(self.n_components), self.random_state)
        try:
            return super().fit(X, y)
        finally:
            del self._basis

    def given_gram_matrix(self, gram_matrix):
        """A copy that takes the components of any rows of that dataset from the inner products."""
        learner = copy(self)
        learner._gram_matrix = gram_matrix
        learner._random_combinations = _RandomCombinations()
        return learner

    def reduced(self, X, rows, check):
        """The components of any of the rows from inner products alone."""
        if (gram := self._usable_products(X.shape[1])) is None:
            return None
        return OPAUCPCAFromGramMatrix(self, self._combinations(X, check), X.shape[1]), gram

    def _usable_products(self, n_features):
        """The inner products; None if they are not at hand, of no use, or not usable (see `span.are_usable`)."""
        if self._gram_matrix is None or n_features <= self.n_components:
            return None
        gram = self._gram_matrix()
        return gram if np.isfinite(gram.diagonal()).all() else None

    def _combinations(self, X, check):
        return functools.partial(self._random_combinations, X, self.random_state, check)

    def _basis_of(self, X, order, check):
        """P of the rows ``order``."""
        if (gram := self._usable_products(X.shape[1])) is None:
            return principal_components(X, order, int(self.n_components), self.random_state)
        gram, C = _coefficients(self, gram, order, self._combinations(X, check), X.shape[1])
        del gram
        P, step = np.zeros((X.shape[1], C.shape[1])), max(1, BLOCK_BYTES // (8 * X.shape[1]))
        for start in range(0, len(order), step):
            P += np.asarray(X[order[start : start + step]], dtype=np.float64).T @ C[start : start + step]
            check()
        return P

    def reduced_size(self, n_rows, n_features, n_nonzero):
        if self._gram_matrix is None or n_features <= self.n_components:
            return None
        return Reduced(
            learner=OPAUCPCAFromGramMatrix(self, None, n_features),
            n_features=math.ceil(n_rows),
            n_nonzero=float(n_rows),
            seconds=SECONDS_PER_PRODUCT * n_rows * n_features * self.n_components,
            memory_bytes=8.0 * (n_rows + n_features) * self.n_components + BLOCK_BYTES,
            uses_gram_matrix=True,
        )

    def cost(self, n_rows, n_features, n_nonzero, n_settings) -> tuple[float, float]:
        p = min(int(self.n_components), n_features, n_rows)
        fewer = copy(self)
        fewer.n_components = p  # rows span no more
        seconds, memory = super(OPAUCPCA, fewer).cost(n_rows, n_features, n_nonzero, n_settings)
        if self._gram_matrix is None or n_features <= self.n_components:
            components = seconds_for_components(n_rows, n_features, n_nonzero, p)
            return seconds + components, memory + 32.0 * n_features * p
        components = seconds_for_coefficients(n_rows, p) + SECONDS_PER_PRODUCT * n_rows * n_nonzero * p
        return seconds + components, memory + 16.0 * n_features * p + 8.0 * n_rows * (n_rows + 4 * p)

    def _seconds_to_project(self, n_features, n_nonzero, n_components):
        return n_nonzero * n_components * (SECONDS_PER_PRODUCT if n_nonzero > DENSE_FROM * n_features else 1e-9)


class OPAUCPCAFromGramMatrix(Learner):
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
    takes_gram_matrix = True

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
            step = max(1, BLOCK_BYTES // (8 * X.shape[1]))
            for start in range(0, X.shape[0], step):
                rows = slice(start, min(start + step, X.shape[0]))
                np.matmul(np.asarray(X[rows], dtype=np.float64), Omega, out=combinations[rows])
                check()
            self._found = (random_state, k), combinations
        return self._found[1]
