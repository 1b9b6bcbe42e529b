"""OPAUC with sketched second moments as its papers print it, one row at a time on dense vectors."""

import numpy as np


def sketched_opauc(X, y, draws, eta, lam, nu=None):
    """Weights after one pass: Eqs. 8-11 of Gao et al. 2013; with ``nu=1``, Eqs. 14-15 of Gao et al. 2016.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,)
        Labels, -1 or +1.
    draws : ndarray of shape (n_samples, tau)
        What multiplies each row in the sketch Z of its class.
    eta, lam : float
    nu : float, optional
        Factor of c c' in the covariance; by default the squared length of the class's mean draw.

    Returns
    -------
    w : ndarray of shape (n_features,)
    """
    d, tau = X.shape[1], draws.shape[1]
    w = np.zeros(d)
    T = {+1: 0, -1: 0}
    c = {+1: np.zeros(d), -1: np.zeros(d)}
    h = {+1: np.zeros(tau), -1: np.zeros(tau)}
    Z = {+1: np.zeros((d, tau)), -1: np.zeros((d, tau))}
    for x, label, r in zip(X, y, draws):
        T[label] += 1
        c[label] = c[label] + (x - c[label]) / T[label]
        h[label] = h[label] + (r - h[label]) / T[label]
        Z[label] += np.outer(x, r)
        if T[-label] > 0:  # L_t(w) = 0 while only one class has been seen
            factor = h[-label] @ h[-label] if nu is None else nu
            w = w - eta * gradient(w, x, label, c[-label], Z[-label], T[-label], factor, lam)
    return w


def gradient(w, x, label, c, Z, T, factor, lam):
    """Eqs. 7 and 8 of the 2016 paper with S = Z Z' / T - factor c c', all of the opposite class."""
    z = x - c
    return lam * w - label * z + z * (z @ w) + Z @ (Z.T @ w) / T - factor * c * (c @ w)
