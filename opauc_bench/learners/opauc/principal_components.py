"""Principal components of rows, dense or sparse, without centring them in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import eigh, lu, qr

from .projected import DENSE_FROM

__all__ = [
    "component_coefficients",
    "principal_components",
    "seconds_for_coefficients",
    "seconds_for_components",
]

_EXACT = 2048  # rows or features, up to which their Gram matrix is decomposed
_OVERSAMPLED = 10
_CHUNK = 1024  # dense rows at a time
_NEGLIGIBLE = 1e-10  # variances, relative to the largest: beyond, eigenvectors of a Gram matrix are noise


def principal_components(X, order: np.ndarray, n_components: int, random_state) -> np.ndarray:
    """Leading eigenvectors of the covariance of the rows ``order``, shape (n_features, k), dense rows read in chunks.

    With more than 2,048 rows and features the decomposition is randomised: power iterations of a random subspace, ten
    dimensions too large (Halko, Martinsson and Tropp 2011, Algorithm 4.4), as often as scikit-learn's PCA does.
    Smaller problems are solved by the eigenvectors of a Gram matrix.

    Columns are orthonormal, with zeros for features that are zero in all rows. k is ``n_components``, or less if fewer
    directions have any variance; at least 1: a column of zeros, if none has, or of NaN, if variances overflow.
    """
    if len(order) == 0:
        return np.zeros((X.shape[1], 1))
    with np.errstate(over="ignore", invalid="ignore"):
        return _components(_CentredRows(X, order), n_components, random_state)


def _components(rows: _CentredRows, n_components: int, random_state) -> np.ndarray:
    if min(rows.shape) > _EXACT:
        P = _approximately(rows, n_components, np.random.default_rng(random_state))
    elif rows.shape[1] <= rows.shape[0]:
        variances, vectors = _leading(rows.covariance(), n_components)
        P = vectors[:, _not_negligible(variances)]
    else:
        variances, vectors = _leading(rows.gram(), n_components)
        P = rows.transposed_times(vectors[:, _not_negligible(variances)])
        P /= np.linalg.norm(P, axis=0)
    P = np.ascontiguousarray(P) if P.shape[1] else np.zeros((rows.shape[1], 1))
    P[~rows.used] = 0.0
    return P


def component_coefficients(
    gram: np.ndarray, n_features: int, n_components: int, random_combinations: Callable[[int], np.ndarray]
) -> np.ndarray:
    """C of shape (n_rows, k), such that the `principal_components` of the rows X are X'C, by the same algorithm.

    Parameters
    ----------
    gram : ndarray of shape (n_rows, n_rows)
        Inner products of the rows, fewer than features.
    n_features, n_components : int
    random_combinations : callable
        From a number to as many random combinations of the features, shape (n_rows, number): the rows times the normal
        matrix that `principal_components` draws.

    Returns
    -------
    ndarray of shape (n_rows, k)
        Its columns sum to 0.
    """
    n_rows = len(gram)
    if n_rows == 0:
        return np.zeros((0, 1))
    with np.errstate(over="ignore", invalid="ignore"):
        if min(n_rows, n_features) <= _EXACT:
            variances, vectors = _leading(_centred(gram), n_components)
            C = vectors[:, _not_negligible(variances)]
            C /= np.sqrt(np.einsum("ij,ij->j", C, _times_centred(gram, C)))
        else:
            size = min(n_components + _OVERSAMPLED, n_rows)
            start = random_combinations(size)
            Q, _ = lu(start - start.mean(axis=0), permute_l=True, check_finite=False)
            for _ in range(_n_iterations(n_components, n_rows)):
                Q, _ = lu(_times_centred(gram, Q), permute_l=True, check_finite=False)
            Q, _ = qr(Q, mode="economic", check_finite=False)
            variances, vectors = _leading(Q.T @ _times_centred(gram, Q), n_components)
            kept = _not_negligible(variances)
            C = Q @ (vectors[:, kept] / np.sqrt(variances[kept]))
    return C - C.mean(axis=0) if C.shape[1] else np.zeros((n_rows, 1))


def _centred(gram: np.ndarray) -> np.ndarray:
    """Inner products of rows minus their mean."""
    means = gram.mean(axis=0)
    return gram - means - means[:, None] + means.mean()


def _times_centred(gram: np.ndarray, Q: np.ndarray) -> np.ndarray:
    """`_centred` times ``Q``, without a copy."""
    product = gram @ (Q - Q.mean(axis=0))
    product -= product.mean(axis=0)
    return product


def seconds_for_coefficients(n_rows: float, n_components: int) -> float:
    """Estimate what `component_coefficients` takes, without the random combinations."""
    dense = 9e-11
    if n_rows <= _EXACT:
        return 6.0 * dense * n_rows**3
    size, n_iterations = n_components + _OVERSAMPLED, _n_iterations(n_components, int(n_rows))
    return dense * n_rows * size * ((n_iterations + 1) * n_rows + (n_iterations + 6) * size)


def seconds_for_components(n_rows: int, n_features: int, n_nonzero: float, n_components: int) -> float:
    """Estimate what `principal_components` takes; ``n_nonzero`` is of a row.

    Counted are multiplications: 0.09 ns in dense matrices, 1.5 ns in sparse ones.
    """
    dense, shorter = 9e-11, min(n_rows, n_features)
    entry = n_rows * n_nonzero * (dense if n_nonzero > DENSE_FROM * n_features else 1.5e-9)
    if shorter <= _EXACT:
        wide = n_rows < n_features
        gram = entry * n_nonzero * (n_rows / n_features if wide else 1.0)
        back = entry * n_components + 1e-8 * n_features * n_components if wide else 0.0
        return gram + 6.0 * dense * shorter**3 + back
    size, n_iterations = n_components + _OVERSAMPLED, _n_iterations(n_components, shorter)
    factors = n_iterations * shorter + 4 * n_rows + 2 * n_features
    return (2 * n_iterations + 2) * entry * size + dense * factors * size**2


def _n_iterations(n_components: int, shorter: int) -> int:
    return 7 if n_components < 0.1 * shorter else 4


def _approximately(rows: _CentredRows, n_components: int, rng) -> np.ndarray:
    shorter = min(rows.shape)
    size = min(n_components + _OVERSAMPLED, shorter)
    Q = rng.standard_normal((rows.shape[1], size))
    # The subspace is the same whether rows or features are made well-conditioned: those that are fewer cost less.
    if rows.shape[0] < rows.shape[1]:
        Q, _ = lu(rows.times(Q), permute_l=True, check_finite=False)
        for _ in range(_n_iterations(n_components, shorter)):
            Q, _ = lu(rows.times(rows.transposed_times(Q)), permute_l=True, check_finite=False)
    else:
        for _ in range(_n_iterations(n_components, shorter)):
            Q, _ = lu(rows.transposed_times(rows.times(Q)), permute_l=True, check_finite=False)
        Q = rows.times(Q)
    Q, _ = qr(Q, mode="economic", check_finite=False)
    B = rows.transposed_times(Q)
    variances, vectors = _leading(B.T @ B, n_components)
    kept = _not_negligible(variances)
    return B @ (vectors[:, kept] / np.sqrt(variances[kept]))


def _not_negligible(variances: np.ndarray) -> np.ndarray:
    return variances > _NEGLIGIBLE * variances.max(initial=0.0)


def _leading(C: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    size = len(C)
    if not np.isfinite(C).all():
        return np.ones(1), np.full((size, 1), np.nan)
    values, vectors = eigh(C, subset_by_index=[max(0, size - n), size - 1])
    return values[::-1], vectors[:, ::-1]


class _CentredRows:
    """Rows minus their mean, which are never formed."""

    def __init__(self, X, order):
        self.X, self.order = X, order
        if sparse.issparse(X):
            self.X, self.order = X[order].astype(np.float64, copy=False), None
            self.X.sum_duplicates()
        self.shape = (len(order), X.shape[1])
        self.mean, self.used = np.zeros(X.shape[1]), np.zeros(X.shape[1], dtype=bool)
        for _, chunk in self._chunks():
            self.mean += np.asarray(chunk.sum(axis=0)).ravel() / len(order)
            if sparse.issparse(chunk):
                self.used[chunk.indices] = True
            else:
                self.used |= (chunk != 0).any(axis=0)

    def _chunks(self):
        """Places among the rows, and the rows there; all at once where they are sparse."""
        if self.order is None:
            yield slice(None), self.X
            return
        for start in range(0, len(self.order), _CHUNK):
            here = slice(start, start + _CHUNK)
            yield here, np.asarray(self.X[self.order[here]], dtype=np.float64)

    def times(self, V: np.ndarray) -> np.ndarray:
        product = np.empty((self.shape[0], V.shape[1]))
        for here, chunk in self._chunks():
            product[here] = chunk @ V
        return product - self.mean @ V

    def transposed_times(self, U: np.ndarray) -> np.ndarray:
        product: Any = 0.0
        for here, chunk in self._chunks():
            product += chunk.T @ U[here]
        sums = U.sum(axis=0)
        for start in range(0, len(product), _CHUNK):  # without another array of this size
            product[start : start + _CHUNK] -= np.outer(self.mean[start : start + _CHUNK], sums)
        return product

    def covariance(self) -> np.ndarray:
        """The covariance of the rows, times their number."""
        total = np.outer(-self.shape[0] * self.mean, self.mean)
        for _, chunk in self._chunks():
            total += _dense(chunk.T @ chunk)
        return total

    def gram(self) -> np.ndarray:
        """Inner products of the rows."""
        products = np.empty((self.shape[0], self.shape[0]))
        for here, chunk in self._chunks():
            for there, other in self._chunks():
                products[here, there] = _dense(chunk @ other.T)
        return _centred(products)


def _dense(product) -> np.ndarray:
    return product.toarray() if sparse.issparse(product) else product
