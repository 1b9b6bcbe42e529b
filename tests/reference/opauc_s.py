"""OPAUC with sparse second moments: Algorithm 3 of Gao et al. (2016) on dense matrices, and the authors' own rule."""

import numpy as np

from opauc_bench.learners.opauc.sparse_matrix_kernels import NNZ


def keep_largest(G, size):
    """The ``size`` largest absolute entries of a symmetric matrix, the others nullified.

    Equal ones are kept in the order of the upper triangle, row by row; an entry beside the diagonal takes two places,
    and as soon as something does not fit, nothing more is kept.
    """
    i, j = np.nonzero(np.triu(G))
    order = np.argsort(-abs(G[i, j]), kind="stable")
    i, j = i[order], j[order]
    fits = np.cumsum(np.where(i == j, 1, 2)) <= size
    i, j = i[fits], j[fits]
    kept = np.zeros_like(G)
    kept[i, j] = kept[j, i] = G[i, j]
    return kept


def keep_above(moments, size):
    """Entries above a threshold, found by bisection, that leaves between nine tenths of ``size`` and ``size``."""
    low, high = moments.min(), moments.max()
    while True:
        threshold = (low + high) / 2
        n_above = (moments > threshold).sum()
        if n_above > size:
            low = threshold
        elif n_above < np.ceil(0.9 * size):
            high = threshold
        else:
            break
        if high - low < 1e-5:
            threshold = high
            break
    return np.where(moments > threshold, moments, 0.0)


def opauc_s(X, y, eta, lam, tau, *, rule=keep_largest, slack=0.0):
    """Algorithm 3: the weights after one pass over the rows, and the second moments of both classes.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,)
        Labels, -1 or +1.
    eta, lam : float
    tau : int
    rule : callable
        What to do with more than ``n_features * tau`` nonzero entries.
    slack : float
        The rule is applied when there are more than ``(1 + slack) * n_features * tau``.

    Returns
    -------
    w : ndarray of shape (n_features,)
    G : dict of label to ndarray of shape (n_features, n_features)
    """
    d = X.shape[1]
    w = np.zeros(d)
    T = {+1: 0, -1: 0}
    c = {+1: np.zeros(d), -1: np.zeros(d)}
    G = {+1: np.zeros((d, d)), -1: np.zeros((d, d))}
    for x, label in zip(X, y):
        T[label] += 1
        c[label] = c[label] + (x - c[label]) / T[label]
        G[label] = G[label] + np.outer(x, x)
        if np.count_nonzero(G[label]) > d * tau + int(slack * d * tau):
            G[label] = rule(G[label], d * tau)
        o = -label
        if T[o] > 0:
            z = x - c[o]
            gradient = -label * z + z * (z @ w) + lam * w + (G[o] / T[o] - np.outer(c[o], c[o])) @ w  # Eqs. 16, 17
            w = w - eta * gradient
    return w, G


def n_entries(matrix) -> int:
    """Nonzero entries of the full matrix, as a learner's `SymmetricRows` counts them."""
    return int(matrix.index.counters[NNZ])


def dense(matrix) -> np.ndarray:
    """The full matrix of a learner's `SymmetricRows`."""
    full = np.zeros((len(matrix.index.start),) * 2)
    for i, (start, length) in enumerate(zip(matrix.index.start, matrix.index.length)):
        there = matrix.cols[start : start + length]
        full[i, there] = full[there, i] = matrix.vals[start : start + length]
    return full
