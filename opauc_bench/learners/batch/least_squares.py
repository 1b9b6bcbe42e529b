"""Batch least squares over pairs and over examples, in closed form: one eigen-decomposition serves every lambda.

**LS-SVM** (Gao et al. 2016, Eq. 4) minimises

    lam/2 |w|^2 + 1/2 mean over pairs of (1 - w'(x_i - x_j))^2,        i positive, j negative.

With class means c+ and c-, m = c+ - c-, and class covariances S+ and S- (divided by the class sizes), the mean of
(x_i - x_j)(x_i - x_j)' over all pairs is S+ + S- + m m'. By Sherman and Morrison

    u = (lam I + S+ + S-)^-1 m,        w = u / (1 + m'u),

so w has the direction of regularised linear discriminant analysis.

**Uni-Squ** minimises lam/2 |w|^2 + 1/2 sum_i W_i (y_i - w'x_i - b)^2; with a free intercept b, rows and labels are
taken from their weighted means. With balanced weights that is (2 lam I + S+ + S- + m m'/2)^-1 m, once more a multiple
of u, at twice the lambda.

Both are (lam I + Z'Z)^-1 v for weighted and centred rows Z, which `ridge_path` solves for all lambdas.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy import sparse

from ..parameters import POSITIVE
from .base import BatchLearner
from .univariate import BatchUnivariate

__all__ = ["LSSVM", "BatchUniSqu"]

_MOST_ALIKE = 1e12  # ratio of squared sizes of features up to which eigenvectors have enough digits for all of them


def _cost(_learner, n_rows, n_features, n_nonzero, n_settings) -> tuple[float, float]:
    small = min(n_rows, n_features)
    product = min(n_rows * n_features * small / 1e10, 3e-9 * n_rows * n_nonzero * min(n_nonzero, n_rows))
    seconds = 1e-3 + product + small**3 / 6e9 + 4e-10 * n_features * small * n_settings
    return seconds, 8.0 * (3 * small**2 + 2 * n_rows * n_nonzero + n_features * n_settings)


class LSSVM(BatchLearner):
    """Batch least squares over all pairs of a positive and a negative example (LS-SVM), in closed form.

    Parameters
    ----------
    lam : float, default=2**-7
        Regularisation; multiplies ``|w|^2 / 2`` beside the mean over pairs of half the squared loss.

    References
    ----------
    W. Gao, L. Wang, R. Jin, S. Zhu, Z.-H. Zhou: One-pass AUC optimization. Artificial Intelligence 236 (2016) 1-29,
    Eq. 4 and Table 3.
    """

    grid_axes = ("lam",)
    parameter_constraints: ClassVar = {"lam": POSITIVE}

    def __init__(self, lam: float = 2**-7):
        self.lam = lam

    def _fit_path(self, X, y, settings, tick):
        classes = np.stack([y > 0, y < 0], axis=1).astype(float)
        weights = classes @ (1.0 / classes.sum(axis=0))
        m = np.asarray(X.T @ (weights * y))
        u = ridge_path(X, weights, classes, m, settings["lam"])
        tick()
        return u / (1.0 + m @ u), None

    cost = _cost


class BatchUniSqu(BatchUnivariate):
    """Batch univariate squared loss, (1 - m)^2 / 2, in closed form."""

    def _fit_path(self, X, y, settings, tick):
        weights, lam = self._for_the_mean(y, settings["lam"])
        total, x_sum, y_sum = weights.sum(), np.asarray(X.T @ weights), weights @ y
        v = np.asarray(X.T @ (weights * y))
        if self.intercept:
            v -= y_sum / total * x_sum
        coef = ridge_path(X, weights, np.ones((len(y), int(self.intercept))), v, lam, np.sqrt(weights) * y)
        tick()
        return coef, (y_sum - x_sum @ coef) / total if self.intercept else None

    cost = _cost


def ridge_path(
    X, weights: np.ndarray, groups: np.ndarray, v: np.ndarray, lam: np.ndarray, r: np.ndarray | None = None
) -> np.ndarray:
    """Solve (lam I + sum_i weights_i z_i z_i') w = v for every lam; z_i is x_i minus the weighted mean of its group.

    ``groups``, of shape (n_samples, n_groups), has one 1 per row; without groups, rows are not centred. Sparse rows
    stay sparse: they are centred in the products. Where v = Z'r, ``r``, of shape (n_samples,), keeps all digits for
    small lambdas. Returns shape (n_features, n_lam), NaN where squares overflow.
    """
    n_samples, n_features = X.shape
    by_group = groups.T * weights
    centres = np.asarray(by_group @ X) / by_group.sum(axis=1)[:, None]
    form = _SparseRows if sparse.issparse(X) else _DenseRows
    Z = form(X, np.sqrt(weights), groups, centres)
    if n_features <= n_samples:
        C = Z.moments()
        squares = C.diagonal()[C.diagonal() > 0.0]
        if len(squares) and _MOST_ALIKE * squares.min() < squares.max() < np.inf:
            return np.stack([_solved_by_scales(C, v, one) for one in lam], axis=1)
        e, V = _eigh(C)
        return V @ ((V.T @ v)[:, None] / (np.maximum(e, 0.0)[:, None] + lam))
    e, U = _eigh(Z.gram())
    if r is not None:  # (lam I + Z'Z)^-1 Z' = Z' (lam I + ZZ')^-1
        return Z.transposed_times(U @ ((U.T @ r)[:, None] / (np.maximum(e, 0.0)[:, None] + lam)))
    # (lam I + Z'Z)^-1 = (I - Z' (lam I + ZZ')^-1 Z) / lam
    inner = U @ ((U.T @ Z.times(v))[:, None] / (np.maximum(e, 0.0)[:, None] + lam))
    return (v[:, None] - Z.transposed_times(inner)) / lam


def _solved_by_scales(C: np.ndarray, v: np.ndarray, lam: float) -> np.ndarray:
    """(lam I + C)^-1 v by eigenvectors of the matrix with a diagonal of ones.

    Rounding is then relative to the size of each feature. That of the eigenvectors of C is relative to the largest one.
    Where features are collinear and lam is lost beside them, eigenvalues are 0 but for rounding: v has no part along
    their eigenvectors.
    """
    A = C + lam * np.eye(len(C))
    scales = 1.0 / np.sqrt(A.diagonal())
    e, V = _eigh(A * np.outer(scales, scales))
    smallest = len(e) * np.finfo(float).eps * e[-1]
    inverse = np.divide(1.0, e, out=np.zeros_like(e), where=~(e <= smallest))  # of NaN it is NaN
    return scales * (V @ (inverse * (V.T @ (scales * v))))


def _eigh(C: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues and eigenvectors of a symmetric matrix; NaN where its entries have overflowed."""
    if not np.isfinite(C).all():
        return np.full(len(C), np.nan), np.full(C.shape, np.nan)
    return np.linalg.eigh(C)


class _DenseRows:
    """Z = diag(root) (X - groups centres), written out."""

    def __init__(self, X, root, groups, centres):
        self.Z = groups @ centres
        np.subtract(X, self.Z, out=self.Z)
        self.Z *= root[:, None]

    def moments(self) -> np.ndarray:
        return self.Z.T @ self.Z

    def gram(self) -> np.ndarray:
        return self.Z @ self.Z.T

    def times(self, v: np.ndarray) -> np.ndarray:
        return self.Z @ v

    def transposed_times(self, U: np.ndarray) -> np.ndarray:
        return self.Z.T @ U


class _SparseRows:
    """Z = diag(root) X - (diag(root) groups) centres as a sparse matrix and a correction of low rank."""

    def __init__(self, X, root, groups, centres):
        self.X = sparse.diags_array(root, format="csr") @ X
        self.groups = root[:, None] * groups
        self.centres = centres

    def moments(self) -> np.ndarray:
        totals = (self.groups**2).sum(axis=0)
        return (self.X.T @ self.X).toarray() - (self.centres.T * totals) @ self.centres

    def gram(self) -> np.ndarray:
        across = np.asarray(self.X @ self.centres.T) @ self.groups.T
        means = self.groups @ (self.centres @ self.centres.T) @ self.groups.T
        return (self.X @ self.X.T).toarray() - across - across.T + means

    def times(self, v: np.ndarray) -> np.ndarray:
        return self.X @ v - self.groups @ (self.centres @ v)

    def transposed_times(self, U: np.ndarray) -> np.ndarray:
        return np.asarray(self.X.T @ U) - self.centres.T @ (self.groups.T @ U)
