"""OPAUC with frequent directions as printed (Gao et al. 2016, section 4.1), with dense matrices and an SVD."""

import numpy as np


def insert(Z, x, variant="paper"):
    """Algorithm 2: put ``x`` into a free column of ``Z``, and shrink when none is left.

    Parameters
    ----------
    Z : ndarray of shape (n_features, tau)
    x : ndarray of shape (n_features,)
    variant : {'paper', 'released'}
        ``released`` is the authors' program: it takes sigma_k off with k = ceil(0.9 tau), and k = floor(tau / 2) is
        the paper's.

    Returns
    -------
    Z : ndarray of shape (n_features, tau)
        A new array. Singular values that rounding alone explains count as zero.
    """
    tau = Z.shape[1]
    Z = Z.copy()
    Z[:, np.flatnonzero(~Z.any(axis=0))[0]] = x
    if not Z.any(axis=0).all():
        return Z
    U, values, _ = np.linalg.svd(Z, full_matrices=False)
    k = tau // 2 if variant == "paper" else int(np.ceil(0.9 * tau))
    squares = np.zeros(tau)  # there are min(n_features, tau) of them; the others are 0
    squares[: len(values)] = values**2
    left = squares - squares[k - 1]
    left[left <= tau * np.finfo(float).eps * squares[0]] = 0.0
    Z = np.zeros_like(Z)
    Z[:, : len(values)] = U * np.sqrt(left[: len(values)])
    return Z


def opauc_fd(X, y, eta, lam, tau, variant="paper"):
    """Algorithm 1 with the covariances of Eqs. 10 and 11: the weights after one pass over the rows.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,)
        Labels, -1 or +1.
    eta, lam : float
    tau : int
    variant : {'paper', 'released'}

    Returns
    -------
    w : ndarray of shape (n_features,)
    """
    d = X.shape[1]
    w = np.zeros(d)
    T = {+1: 0, -1: 0}
    c = {+1: np.zeros(d), -1: np.zeros(d)}
    Z = {+1: np.zeros((d, tau)), -1: np.zeros((d, tau))}
    for x, label in zip(X, y):
        T[label] += 1
        c[label] = c[label] + (x - c[label]) / T[label]
        Z[label] = insert(Z[label], x, variant)
        if T[-label] > 0:  # L_t(w) = 0 while only one class has been seen
            w = w - eta * gradient(w, x, label, c[-label], Z[-label], T[-label], lam)
    return w


def gradient(w, x, label, c, Z, T, lam):
    """Eq. 14 (label +1) and Eq. 15 (label -1); ``c``, ``Z`` and ``T`` are those of the opposite class."""
    z = x - c
    return -label * z + z * (z @ w) + lam * w + Z @ (Z.T @ w) / T - c * (c @ w)
