"""FTRL-AUC (Zhou, Ying and Skiena, ICDM 2020, Algorithm 1) and FTRL-Proximal, one row at a time on dense vectors."""

import numpy as np


def shrunk(z, l1, variant):
    """What l1 leaves of -z: -S(z, l1), or what the released program computes in its place."""
    if variant == "released":
        return np.where(z > l1, -(z - 1.0), np.where(z < -l1, -z + l1, 0.0))
    return -np.sign(z) * np.maximum(np.abs(z) - l1, 0.0)


def ftrl_auc(X, y, gamma, l1, l2=0.0, beta=1.0, *, variant="paper", lazy=True, refresh=False):
    """One pass of Algorithm 1, in the order of operations of the released program; returns w."""
    d = X.shape[1]
    w, z, q = np.zeros((3, d))
    mean_score, sums, counts = {1: 0.0, -1: 0.0}, {1: np.zeros(d), -1: np.zeros(d)}, {1: 0, -1: 0}
    for t, (x, label) in enumerate(zip(X, y), 1):
        counts[label] += 1
        sums[label] = sums[label] + x
        p = counts[1] / t
        score = w @ x
        if lazy:
            mean_score[label] += (score - mean_score[label]) / counts[label]
        else:
            mean_score[label] = w @ sums[label] / counts[label]
        c = 2 * (1 - p) * (score - mean_score[-1] - 1) if label == 1 else 2 * p * (score - mean_score[1] + 1)
        w, z, q = ftrl_step(w, z, q, c * x, x != 0, gamma, l1, l2, beta, variant)
    return weights(z, q, gamma, l1, l2, beta, variant) if refresh else w


def ftrl_proximal(X, y, gamma, l1, l2=0.0, beta=1.0, *, variant="paper", refresh=False):
    """The same with the logistic loss, whose score is taken with up-to-date weights; returns w."""
    w, z, q = np.zeros((3, X.shape[1]))
    for x, label in zip(X, y):
        score = weights(z, q, gamma, l1, l2, beta, variant) @ x
        g = -label / (1 + np.exp(label * score)) * x
        w, z, q = ftrl_step(w, z, q, g, x != 0, gamma, l1, l2, beta, variant)
    return weights(z, q, gamma, l1, l2, beta, variant) if refresh else w


def weights(z, q, gamma, l1, l2, beta, variant):
    """Line 19 of Algorithm 1."""
    return shrunk(z, l1, variant) / ((beta + np.sqrt(q)) / gamma + l2)


def ftrl_step(w, z, q, g, touched, gamma, l1, l2, beta, variant):
    """Lines 19 to 21; the weights of line 20 are those that line 19 has just set."""
    w = np.where(touched, weights(z, q, gamma, l1, l2, beta, variant), w)
    z = z + g - (np.sqrt(q + g**2) - np.sqrt(q)) / gamma * w
    return w, z, q + g**2
