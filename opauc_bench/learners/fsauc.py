"""FSAUC: fast stochastic AUC maximisation, in epochs whose steps and search regions shrink.

Primal variables v = (w, a, b) and a dual variable alpha take a step of the size eta a row, with p the share of
positives so far (Liu, Zhang, Chen, Wang and Yang 2018):

    y = +1:  g_w = (1 - p) (w'x - a - 1 - alpha) x,   g_a = -(1 - p) (w'x - a),   g_alpha = -(1 - p) (w'x + p alpha)
    y = -1:  g_w = p (w'x - b + 1 + alpha) x,         g_b = -p (w'x - b),         g_alpha = p (w'x - (1 - p) alpha)

Then w is projected onto the l1 ball of radius R, a and b are kept within R and alpha within 2 R; and v within r, alpha
within D of where the epoch began. An epoch begins at the mean of the iterates of the one before it, with alpha set to
the score of the difference of the class means; r is halved, and D and eta follow from r and from p. There are
m = floor(log2(2 n / log2 n) / 2) - 1 epochs of floor(n / m) rows, so the number n of rows has to be known beforehand.

Projection onto the l1 ball looks at every weight: O(d) a row and setting.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..compiled import njit
from .base import OnePassLearner, State
from .sparse_rows import require_positive, require_variant, rows_of

__all__ = ["FSAUC"]

_CONFIDENCE = np.log(12.0 / 0.1)  # ln(12 / delta)


@dataclass
class _Epochs(State):
    """Models are rows of ``W``, ``start`` and ``total``, of shape (n_live, n_features + 2), with a and b at the end."""

    start: np.ndarray  # where the epoch began
    total: np.ndarray  # mean of the epoch's iterates, once it is complete
    dual: np.ndarray  # (4, n_live): alpha, where the epoch began it, r, D
    counts: np.ndarray  # (2,), positives and negatives so far
    sums: np.ndarray  # (2, n_features), of the rows of each class
    step: np.ndarray  # (2,): what eta is multiplied by, and the beta that it comes from
    clock: np.ndarray  # (2,), epochs done and rows of the current one
    lengths: np.ndarray | None = None  # (3,), epochs, rows of each, rows of one more

    def expect(self, n_rows):
        m = int(0.5 * np.log2(2 * n_rows / np.log2(n_rows))) - 1 if n_rows >= 4 else 1
        m = max(m, 1)
        self.lengths = np.array([m, n_rows // m, n_rows % m])

    def coef(self, n_features):
        # Iterates that are not finite show before their epoch is over.
        return (self.start + 0.0 * self.W)[:, :n_features].T

    def widened(self, fresh):
        d = self.sums.shape[1]
        for old, new in ((self.W, fresh.W), (self.start, fresh.start), (self.total, fresh.total)):
            new[:, :d], new[:, -2:] = old[:, :d], old[:, -2:]
        fresh.sums[:, :d] = self.sums
        fresh.dual, fresh.counts, fresh.step, fresh.clock = self.dual, self.counts, self.step, self.clock
        fresh.lengths = self.lengths
        return fresh

    def keep(self, columns):
        self.settings = {axis: values[columns] for axis, values in self.settings.items()}
        self.W, self.start, self.total = (
            np.ascontiguousarray(values[columns]) for values in (self.W, self.start, self.total)
        )
        self.dual = np.ascontiguousarray(self.dual[:, columns])


class FSAUC(OnePassLearner):
    """Fast stochastic AUC maximisation with the least square loss on an l1 ball.

    Parameters
    ----------
    eta : float, default=0.5
        Step size of the first epoch.
    radius : float, default=10.0
        R, of the l1 ball that w stays in.
    variant : {'paper', 'released'}, default='paper'
        What becomes of the n mod m rows that are left after m epochs: 'paper' leaves them out; 'released' makes one
        more epoch of them and returns its mean (of m - 1 iterates at most), as the FTRL-AUC authors' program does.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
        The mean of the iterates of the last epoch.
    intercept_ : ndarray of shape (1,)
        Threshold midway between the class means' scores; AUC does not depend on it.
    classes_ : ndarray of shape (2,)

    Notes
    -----
    With fewer than 44 rows the formula has no epoch; we make one of all rows. There is no ``partial_fit``.

    References
    ----------
    M. Liu, X. Zhang, Z. Chen, X. Wang, T. Yang: Fast stochastic AUC maximization with O(1/n)-convergence rate. ICML
    2018.
    """

    grid_axes = ("eta", "radius")
    _sparse_chunks = True

    def __init__(self, eta=0.5, radius=10.0, variant="paper"):
        self.eta = eta
        self.radius = radius
        self.variant = variant

    @property
    def partial_fit(self):
        """Not there: epochs are laid out by the number of all rows."""
        raise AttributeError("FSAUC has no partial_fit: it lays out its epochs by the number of all rows; use fit")

    def check_params(self):
        require_variant(self.variant)

    def _begin(self, n_features, settings):
        require_positive(settings, "eta", "radius")
        n_settings = len(settings["eta"])
        with np.errstate(over="ignore"):
            r = 2.0 * np.sqrt(3.0) * settings["radius"]
            reach = 2.0 * np.sqrt(2.0) * r
        models = (n_settings, n_features + 2)
        return _Epochs(
            settings=settings,
            W=np.zeros(models),
            start=np.zeros(models),
            total=np.zeros(models),
            dual=np.array([np.zeros(n_settings), np.zeros(n_settings), r, reach]),
            counts=np.zeros(2),
            sums=np.zeros((2, n_features)),
            step=np.array([1.0, 9.0]),
            clock=np.zeros(2, dtype=np.int64),
        )

    def _consume(self, state, X, y):
        how = (state.settings["eta"], state.settings["radius"], self.variant == "released", state.lengths)
        memory = (state.counts, state.sums, state.step, state.clock)
        _learn(*rows_of(X), y, *how, *memory, state.dual, state.start, state.total, state.W)

    def seconds_per_row(self, n_features, n_nonzero, n_settings):
        return 2e-7 + n_settings * (1e-7 + 4e-9 * n_features)

    def memory_bytes(self, n_features, n_settings):
        # Beside three iterates the weights, which are formed between chunks, with what that takes.
        return 8.0 * 6 * n_features * n_settings


@njit(error_model="numpy")
def _learn(indptr, indices, data, y, eta, radius, released, lengths, counts, sums, step, clock, dual, start, total, W):
    n_epochs, d = lengths[0], sums.shape[1]
    for t in range(len(y)):
        size = lengths[1] if clock[0] < n_epochs else lengths[2]
        if clock[0] >= n_epochs and not (released and size > 0):
            return
        there, x = indices[indptr[t] : indptr[t + 1]], data[indptr[t] : indptr[t + 1]]
        own = 0 if y[t] > 0 else 1
        counts[own] += 1.0
        for k in range(len(x)):
            sums[own, there[k]] += x[k]
        p = counts[0] / (counts[0] + counts[1])
        for g in range(len(eta)):
            w = W[g]
            dual[0, g] = _primal_and_dual_step(there, x, own, p, step[0] * eta[g], dual[0, g], w)
            project_l1(w[:d], radius[g])
            for i in range(d, d + 2):
                w[i] = min(max(w[i], -radius[g]), radius[g])
            _stay_near(w, start[g], dual[2, g])
            alpha = min(max(dual[0, g], -2.0 * radius[g]), 2.0 * radius[g])
            dual[0, g] = min(max(alpha, dual[1, g] - dual[3, g]), dual[1, g] + dual[3, g])
            for i in range(d + 2):
                total[g, i] += w[i] / size
        clock[1] += 1
        if clock[1] == size:
            _next_epoch(radius, lengths[1], p, counts, sums, step, dual, start, total, W)
            clock[0] += 1
            clock[1] = 0


@njit(error_model="numpy")
def _primal_and_dual_step(there, x, own, p, eta, alpha, w):
    """Steps of w, a and b in place; returns alpha after its own."""
    d = len(w) - 2
    score = 0.0
    for k in range(len(x)):
        score += x[k] * w[there[k]]
    if own == 0:
        share, factor, towards = 1.0 - p, score - w[d] - 1.0 - alpha, -score - p * alpha
    else:
        share, factor, towards = p, score - w[d + 1] + 1.0 + alpha, score - (1.0 - p) * alpha
    w[d + own] += eta * share * (score - w[d + own])
    for k in range(len(x)):
        w[there[k]] -= eta * share * factor * x[k]
    return alpha + eta * share * towards


@njit(error_model="numpy", fastmath={"reassoc"})
def project_l1(w, radius):
    """Project ``w`` onto the l1 ball in place: drop what lies below the threshold until nothing does (Michelot)."""
    kept = len(w)
    size = 0.0
    for i in range(len(w)):
        size += abs(w[i])
    if not size > radius:
        return
    threshold = (size - radius) / kept
    while True:
        size, still = 0.0, 0
        for i in range(len(w)):
            above = abs(w[i]) > threshold
            size += abs(w[i]) if above else 0.0
            still += 1 if above else 0
        if still == kept or still == 0:
            break
        kept, threshold = still, (size - radius) / still
    for i in range(len(w)):
        u = w[i]
        w[i] = u - threshold if u > threshold else (u + threshold if u < -threshold else 0.0 * u)


@njit(error_model="numpy", fastmath={"reassoc"})
def _stay_near(w, start, r):
    """Project ``w`` onto the ball of radius ``r`` around ``start`` in place."""
    square = 0.0
    for i in range(len(w)):
        square += (w[i] - start[i]) * (w[i] - start[i])
    if square > r * r:
        shorter = r / np.sqrt(square)
        for i in range(len(w)):
            w[i] = start[i] + (w[i] - start[i]) * shorter


@njit(error_model="numpy")
def _next_epoch(radius, n_rows, p, counts, sums, step, dual, start, total, W):
    """Begin at the mean of the epoch that is over, with r halved and D and eta that follow from it."""
    d = sums.shape[1]
    q, spread = min(p, 1.0 - p), 2.0 + np.sqrt(2.0 * _CONFIDENCE)
    root = q * n_rows - np.sqrt(2.0 * n_rows * _CONFIDENCE)
    room = q - np.sqrt(2.0 * _CONFIDENCE / n_rows)
    beta = 9.0 + 288.0 * spread**2 / room if room > 0.0 else 1e7
    step[0] *= min(np.sqrt(beta / step[1]) / 2.0, 1.0)
    step[1] = beta
    for g in range(len(radius)):
        dual[2, g] /= 2.0
        near = 2.0 * np.sqrt(2.0) * dual[2, g]
        dual[3, g] = near + 12.0 * np.sqrt(2.0) * spread * radius[g] / np.sqrt(root) if root > 0.0 else 1e7
        alpha = 0.0
        for i in range(d):
            alpha += (sums[1, i] / max(counts[1], 1.0) - sums[0, i] / max(counts[0], 1.0)) * total[g, i]
        dual[0, g] = dual[1, g] = alpha
        for i in range(d + 2):
            start[g, i] = W[g, i] = total[g, i]
            total[g, i] = 0.0
