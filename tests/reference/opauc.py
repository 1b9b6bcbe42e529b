"""OPAUC as Gao, Wang, Jin, Zhu and Zhou print it (Artificial Intelligence 236, 2016, section 3)."""

import numpy as np


def opauc(X, y, eta, lam):
    """Algorithm 1 with full covariances: the weights after one pass over the rows.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,)
        Labels, -1 or +1.
    eta, lam : float

    Returns
    -------
    w : ndarray of shape (n_features,)
    """
    d = X.shape[1]
    w = np.zeros(d)
    T = {+1: 0, -1: 0}
    c = {+1: np.zeros(d), -1: np.zeros(d)}
    S = {+1: np.zeros((d, d)), -1: np.zeros((d, d))}
    for x, label in zip(X, y):
        T[label] += 1
        c_old, S_old = c[label], S[label]
        c_new = c_old + (x - c_old) / T[label]
        S[label] = (
            S_old
            + np.outer(c_old, c_old)
            - np.outer(c_new, c_new)
            + (np.outer(x, x) - S_old - np.outer(c_old, c_old)) / T[label]
        )
        c[label] = c_new
        if T[-label] > 0:  # L_t(w) = 0 while only one class has been seen
            w = w - eta * gradient(w, x, label, c[-label], S[-label], lam)
    return w


def gradient(w, x, label, c, S, lam):
    """Eq. 7 (label +1) and Eq. 8 (label -1); ``c`` and ``S`` are those of the opposite class."""
    z = x - c
    return lam * w - label * z + z * (z @ w) + S @ w


def loss(w, x, label, opponents, lam):
    """Eq. 5: L_t(w), with the rows of the opposite class seen so far written out."""
    margins = label * (x - opponents) @ w
    return lam / 2 * (w @ w) + ((1 - margins) ** 2).sum() / (2 * len(opponents))
