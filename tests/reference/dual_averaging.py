"""RDA-l1 (Xiao, JMLR 2010, Eq. 30) and AdaGrad (Duchi et al., JMLR 2011, primal-dual form) on dense vectors."""

import numpy as np


def rda_l1(X, y, gamma, l1, rho, *, variant="paper"):
    """One pass of enhanced l1-RDA with the logistic loss and an intercept without penalty.

    Returns
    -------
    w : ndarray of shape (n_features,)
    b : float
    """

    def model(total, total_b, squares, squares_b, t):
        mean, scale = total / t, np.sqrt(t) / gamma
        threshold = l1 + gamma * rho / np.sqrt(t)
        below = np.abs(mean) + 1 if variant == "released" else np.abs(mean) - threshold
        w = np.where(mean > threshold, -scale * (mean - threshold), np.where(mean < -threshold, scale * below, 0.0))
        return w, -scale * total_b / t

    return dual_averaging(X, y, model, variant)


def adagrad(X, y, eta, l1, eps=1e-8, *, variant="paper"):
    """One pass of AdaGrad's composite dual averaging with the logistic loss and an intercept without penalty."""

    def model(total, total_b, squares, squares_b, t):
        mean, scale = total / t, eta * t / (eps + np.sqrt(squares))
        excess = np.maximum(np.abs(mean) - l1, 0.0)
        up = excess if variant == "released" else scale * excess
        w = np.where(mean > 0, -scale * excess, np.where(mean < 0, up, 0.0))
        step_b = eta * t / (eps + np.sqrt(squares_b)) * abs(total_b / t)
        if variant == "released" and total_b < 0:
            step_b = abs(total_b / t)
        return w, -np.sign(total_b) * step_b

    return dual_averaging(X, y, model, variant)


def dual_averaging(X, y, model, variant):
    """Sums of gradients and of their squares, and a model of them; ``released`` never forgets a gradient."""
    d = X.shape[1]
    w, b = np.zeros(d), 0.0
    total, squares, buffer = np.zeros(d), np.zeros(d), np.zeros(d)
    total_b = squares_b = 0.0
    for t, (x, label) in enumerate(zip(X, y), 1):
        c = -label / (1 + np.exp(label * (w @ x + b)))
        buffer = np.where(x != 0, c * x, buffer) if variant == "released" else c * x
        total, squares = total + buffer, squares + (c * x) ** 2
        total_b, squares_b = total_b + c, squares_b + c**2
        w, b = model(total, total_b, squares, squares_b, t)
    return w, b
