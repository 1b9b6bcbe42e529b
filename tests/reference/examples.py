"""Rows for the comparisons of kernels with oracles, and how close they have to be."""

import numpy as np

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
