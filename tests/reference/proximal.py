"""SPAM (Natole, Ying and Lyu, ICML 2018) and SPAUC (Lei and Ying, JMLR 2021) as the FTRL-AUC program states them."""

import numpy as np


def soft(u, threshold):
    return np.sign(u) * np.maximum(np.abs(u) - threshold, 0.0)


def spam(X, y, xi, l1=0.0, l2=0.0, *, variant="paper"):
    """One pass of SPAM with running class frequencies and means; returns the last w."""
    d = X.shape[1]
    w, a, b = np.zeros(d), 0.0, 0.0
    sums, counts = {1: np.zeros(d), -1: np.zeros(d)}, {1: 0, -1: 0}
    for t, (x, label) in enumerate(zip(X, y), 1):
        counts[label] += 1
        sums[label] = sums[label] + x
        p, eta, score = counts[1] / t, xi / np.sqrt(t), w @ x
        mean = {c: sums[c] / max(counts[c], 1) for c in (1, -1)}
        if label == 1:
            a = w @ mean[1]
            g = 2 * (1 - p) * ((score - 1 - b) * x + a * mean[1] - score * mean[-1])
        else:
            b = w @ mean[-1]
            g = 2 * p * ((score + 1 - a) * x - score * mean[1] + b * mean[-1])
        u = w - eta * g
        if l1 <= 0:
            w = u / (1 + eta * l2)
        else:
            kept = soft(u, eta * l1)
            w = np.where((variant == "released") & (kept > 0), kept, kept / (1 + eta * l2))
    return w


def spauc(X, y, mu, l1):
    """One pass of SPAUC with running class frequencies and means; returns the last w."""
    d = X.shape[1]
    w, a, b = np.zeros(d), 0.0, 0.0
    sums, counts = {1: np.zeros(d), -1: np.zeros(d)}, {1: 0, -1: 0}
    for t, (x, label) in enumerate(zip(X, y)):
        counts[label] += 1
        sums[label] = sums[label] + x
        p, eta, score = counts[1] / (t + 1), 2 / (mu * t + 1), w @ x
        mean = {c: sums[c] / max(counts[c], 1) for c in (1, -1)}
        if label == 1:
            a = w @ mean[1]
            g = 2 * (1 - p) * (score - a) * (x - mean[1])
        else:
            b = w @ mean[-1]
            g = 2 * p * (score - b) * (x - mean[-1])
        g = g + 2 * p * (1 - p) * (1 + b - a) * (mean[-1] - mean[1])
        w = soft(w - eta * g, eta * l1)
    return w
