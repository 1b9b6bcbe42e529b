"""NAG (Ross, Mineiro and Langford 2013, Algorithm 2) in the units of the features, with steps followed to their end."""

import numpy as np
from scipy.optimize import brentq


def nag(X, y, eta):
    """One pass with the logistic loss and a constant feature.

    Returns
    -------
    w : ndarray of shape (n_features,)
    b : float
    """
    X = np.column_stack([X, np.ones(len(X))])
    w, s, G, N = (np.zeros(X.shape[1]) for _ in range(4))
    N = 0.0
    for t, (x, label) in enumerate(zip(X, y), 1):
        size = np.abs(x)
        grown = size > s
        w[grown] *= s[grown] / size[grown]
        s = np.maximum(s, size)
        there = x != 0
        N += ((x[there] / s[there]) ** 2).sum()
        c = 1 / (1 + np.exp(label * (w @ x)))
        G += (c * x) ** 2
        rate = np.zeros_like(w)
        rate[there] = np.sqrt(t / N) / (s[there] * np.sqrt(G[there]))
        w += label * step(label * (w @ x), eta * (rate * x * x).sum()) / (rate * x * x).sum() * rate * x
    return w[:-1], w[-1]


def step(margin, h):
    """How far the margin goes while the loss is followed for the time h: delta + e^m (e^delta - 1) = h."""
    with np.errstate(over="ignore"):  # at the end of a long interval the excess is infinite, and above 0
        return brentq(lambda delta: delta + np.exp(margin) * np.expm1(delta) - h, 0.0, h, xtol=1e-15, rtol=1e-14)
