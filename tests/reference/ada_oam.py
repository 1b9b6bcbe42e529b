"""AdaOAM (Ding, Zhao, Hoi and Ong, AAAI 2015), with means, covariances and projection written out."""

import numpy as np
from scipy.optimize import brentq

from reference.opauc import gradient


def ada_oam(X, y, eta, lam, delta):
    """The weights after one pass over the rows.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,)
        Labels, -1 or +1.
    eta, lam, delta : float

    Returns
    -------
    w : ndarray of shape (n_features,)
    """
    w, q = np.zeros(X.shape[1]), np.zeros(X.shape[1])
    for t, (x, label) in enumerate(zip(X, y)):
        opponents = X[:t][y[:t] == -label]
        if len(opponents) == 0:
            continue
        centred = opponents - opponents.mean(axis=0)
        g = gradient(w, x, label, opponents.mean(axis=0), centred.T @ centred / len(opponents), lam)
        q = q + g**2
        H = delta + np.sqrt(q)
        w = w - eta * g / H
        if lam > 0:
            w = projection(w, H, 1 / np.sqrt(lam))
    return w


def projection(u, H, radius):
    """The w with |w| <= radius that minimises sum_i H_i (w_i - u_i)^2: H (w - u) + mu w = 0 for the multiplier mu."""
    if np.linalg.norm(u) <= radius:
        return u
    end = H.max() * np.linalg.norm(u) / radius  # where |w| <= radius for certain
    mu = brentq(lambda mu: np.linalg.norm(u * H / (H + mu)) - radius, 0.0, end, xtol=1e-300, rtol=1e-15, maxiter=1000)
    return u * H / (H + mu)
