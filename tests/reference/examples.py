"""Rows for the comparisons of kernels with oracles, how close they have to be, and the entry of a small dataset."""

import numpy as np

from opauc_bench.data.entry import DatasetEntry
from opauc_bench.evaluation.span import RowsByProducts

ARRANGEMENTS = ("mixed", "late", "blocks", "sparse")


def examples(n_samples, n_features, arrangement="mixed", seed=0):
    """Rows in [-1, 1] whose classes differ in their means.

    Parameters
    ----------
    n_samples, n_features : int
    arrangement : {'mixed', 'late', 'blocks', 'sparse'}
        ``late``: the first hundred rows are of one class; ``blocks``: runs of one class, some of them longer
        than the 64 rows that OPAUC lets wait; ``sparse``: four entries out of five are zero.
    seed : int
    """
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n_samples) < 0.4, 1, -1)
    if arrangement == "late":
        y[:100] = -1
    elif arrangement == "blocks":
        y = np.repeat(np.resize([1, -1], 8), [70, 130, 3, 1, 64, 65, 1, n_samples])[:n_samples]
    X = np.clip(0.4 * rng.standard_normal((n_samples, n_features)) + 0.1 * y[:, None], -1.0, 1.0)
    if arrangement == "sparse":
        X[rng.random(X.shape) < 0.8] = 0.0
    return X, y


def some_settings(grid):
    """Settings of a large grid that a slow reference is run on: the first, the last, and every 13th between them.

    Returns
    -------
    columns : ndarray of int
    settings : dict of str to ndarray
        The grid of these settings.
    """
    n = len(next(iter(grid.values())))
    columns = np.unique(np.r_[: min(n, 16), 0:n:13, max(n - 16, 0) : n])
    return columns, {axis: values[columns] for axis, values in grid.items()}


def fit_grid_by_products(learner, X, y, grid, monkeypatch):
    """Weights of features from the coefficients that a learner gives rows known by their inner products.

    The rows are visited from last to first, as if that was their order, and the state grows on the way.
    """
    monkeypatch.setattr("opauc_bench.learners.grid_pass._FIRST_FEATURES", 3)
    backwards = np.arange(len(y))[::-1]
    rows = RowsByProducts(X[backwards] @ X[backwards].T, backwards)
    return X.T @ learner.fit_grid(rows, y[backwards], grid, order=backwards)


def orthogonal(n, rng):
    """A random orthogonal matrix."""
    return np.linalg.qr(rng.standard_normal((n, n)))[0]


def assert_close(got, want, tolerance=1e-12):
    """Entries agree within ``tolerance`` of the largest one, which has to be finite and not zero."""
    want = np.asarray(want)
    scale = np.abs(want).max()
    assert np.isfinite(scale), "the values to compare with have to be finite"
    assert scale > 0, "the values to compare with are all zero"
    np.testing.assert_allclose(got, want, rtol=0, atol=tolerance * scale)


def solution_tolerance(A, n_terms):
    """How far apart two computed solutions w of A w = v may lie, as a share of |w|.

    Sums of ``n_terms`` products make the entries of A and v, which rounds them by t = n_terms u, u = eps / 2 (Higham,
    Accuracy and Stability of Numerical Algorithms, 2nd ed., (3.5)). If A and v are off by t |A| and t |v|, then w is
    off by 2 t k(A) |w|, k the condition number in the 2-norm, to first order (Golub and Van Loan, Matrix Computations,
    4th ed., Theorem 2.6.2). Two solutions are off by twice that. Their directions w / |w| are no further apart.
    """
    return 2 * n_terms * np.finfo(float).eps * np.linalg.cond(A)


def sensitivity(function, X, n_draws=2):
    """How far the values of ``function(X)`` move, as a share of the largest, when each entry of X is off by eps.

    The error of a good algorithm is the condition of the problem times eps (Higham, Accuracy and Stability of Numerical
    Algorithms, 2nd ed., section 1.6). Here no formula gives the condition, so it is measured.
    """
    want, rng, eps = function(X), np.random.default_rng(0), np.finfo(float).eps
    moved = [function(X * (1 + eps * rng.choice([-1, 1], X.shape))) for _ in range(n_draws)]
    return np.abs(np.array(moved) - want).max() / np.abs(want).max()


def toy_entry(**changes) -> DatasetEntry:
    """The entry of a dataset in one svmlight file."""
    values = {
        "name": "toy",
        "title": "Toy",
        "format": "svmlight",
        "files": [{"name": "toy.txt"}],
        "positive": [1],
        "n_samples": 4,
        "n_features": 2,
        "scaling": "none",
    }
    return DatasetEntry.model_validate(values | changes)
