"""SOLAM (Ying, Wen and Lyu, NIPS 2016) and FSAUC (Liu et al., ICML 2018) on dense vectors."""

import numpy as np


def solam(X, y, xi, radius):
    """One pass of SOLAM; returns the average of the iterates before each step, weighted by the step sizes."""
    d = X.shape[1]
    w, a, b, alpha = np.full(d, radius / np.sqrt(d)), radius, radius, 2 * radius
    total, steps, positives = np.zeros(d), 0.0, 0
    for t, (x, label) in enumerate(zip(X, y), 1):
        positives += label == 1
        p, gamma, score = positives / t, xi / np.sqrt(t), w @ x
        total, steps = total + gamma * w, steps + gamma
        if label == 1:
            g_w, g_a, g_b = 2 * (1 - p) * (score - a - 1 - alpha) * x, -2 * (1 - p) * (score - a), 0.0
            g_alpha = -2 * (1 - p) * score - 2 * p * (1 - p) * alpha
        else:
            g_w, g_a, g_b = 2 * p * (score - b + 1 + alpha) * x, 0.0, -2 * p * (score - b)
            g_alpha = 2 * p * score - 2 * p * (1 - p) * alpha
        w = w - gamma * g_w
        w = w * min(1.0, radius / np.linalg.norm(w)) if w.any() else w
        a, b = min(a - gamma * g_a, radius), min(b - gamma * g_b, radius)
        alpha = np.clip(alpha + gamma * g_alpha, -2 * radius, 2 * radius)
    return total / steps


def project_l1(v, radius):
    """The nearest point of the l1 ball, by sorting (Duchi et al., ICML 2008)."""
    if np.abs(v).sum() <= radius:
        return v
    sizes = np.sort(np.abs(v))[::-1]
    excess = (np.cumsum(sizes) - radius) / np.arange(1, len(v) + 1)
    threshold = excess[np.flatnonzero(sizes > excess)[-1]]
    return np.sign(v) * np.maximum(np.abs(v) - threshold, 0.0)


def epochs(n):
    """Number of epochs of FSAUC on n rows, and rows of each; one epoch where the formula has none."""
    m = int(0.5 * np.log2(2 * n / np.log2(n))) - 1 if n >= 4 else 1
    m = max(m, 1)
    return m, n // m


def fsauc(X, y, eta, radius, *, variant="paper"):
    """One pass of FSAUC; returns the average over the last epoch (``released``: over the rows that are left)."""
    n, d = X.shape
    m, n0 = epochs(n)
    r, delta, beta = 2 * np.sqrt(3) * radius, 0.1, 9.0
    D = 2 * np.sqrt(2) * r
    v1, alpha1 = np.zeros(d + 2), 0.0
    sums, counts, t = {1: np.zeros(d), -1: np.zeros(d)}, {1: 0, -1: 0}, 0
    sizes = [n0] * m + ([n - m * n0] if variant == "released" and n > m * n0 else [])
    for size in sizes:
        v, alpha, mean_v = v1.copy(), alpha1, np.zeros(d + 2)
        for x, label in zip(X[t : t + size], y[t : t + size]):
            t += 1
            counts[label] += 1
            sums[label] = sums[label] + x
            p = counts[1] / t
            w, a, b = v[:d], v[d], v[d + 1]
            score = w @ x
            if label == 1:
                g = np.append((1 - p) * (score - a - 1 - alpha) * x, [(p - 1) * (score - a), 0.0])
                g_alpha = (p - 1) * (score + p * alpha)
            else:
                g = np.append(p * (score - b + 1 + alpha) * x, [0.0, p * (b - score)])
                g_alpha = p * (score + (p - 1) * alpha)
            v = v - eta * g
            v = np.append(project_l1(v[:d], radius), np.clip(v[d:], -radius, radius))
            alpha = np.clip(alpha + eta * g_alpha, -2 * radius, 2 * radius)
            gap = np.linalg.norm(v - v1)
            v = v1 + (v - v1) * (r / gap) if gap > r else v
            alpha = np.clip(alpha, alpha1 - D, alpha1 + D)
            mean_v = mean_v + v / size
        v1, r = mean_v, r / 2
        means = {c: sums[c] / max(counts[c], 1) for c in (1, -1)}
        alpha1 = (means[-1] - means[1]) @ v1[:d]
        p = counts[1] / t
        L, q = np.log(12 / delta), min(p, 1 - p)
        spread = q * n0 - np.sqrt(2 * n0 * L)
        D = (
            2 * np.sqrt(2) * r + 12 * np.sqrt(2) * (2 + np.sqrt(2 * L)) * radius / np.sqrt(spread)
            if spread > 0
            else 1e7
        )
        room = q - np.sqrt(2 * L / n0)
        new_beta = 9 + 288 * (2 + np.sqrt(2 * L)) ** 2 / room if room > 0 else 1e7
        eta, beta = min(eta * np.sqrt(new_beta / beta) / 2, eta), new_beta
    return v1[:d]
