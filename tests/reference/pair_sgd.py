"""SGD on pairs of consecutive rows (Yang, Lei, Wang, Yang and Ying, NeurIPS 2021), step by step."""

import numpy as np


def pair_sgd(X, y, eta):
    """The mean of the iterates after each row.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,)
        Labels, -1 or +1.
    eta : float

    Returns
    -------
    w : ndarray of shape (n_features,)
    """
    w, total = np.zeros(X.shape[1]), np.zeros(X.shape[1])
    for t in range(1, len(y) + 1):
        if t > 1 and y[t - 1] != y[t - 2]:
            z = y[t - 1] * (X[t - 1] - X[t - 2])
            w = w - eta / np.sqrt(t) * hinge_slope(w @ z) * z
        total += w
    return total / len(y)


def hinge_slope(margin):
    """The derivative of max(0, 1 - margin); 0 at the kink."""
    return -1.0 if margin < 1.0 else 0.0
