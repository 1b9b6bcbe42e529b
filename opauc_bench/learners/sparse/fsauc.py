"""FSAUC: fast stochastic AUC maximisation, in epochs whose steps and search regions shrink.

Primal variables v = (w, a, b) and a dual variable alpha take a step of the size eta per row, with p the share of
positives so far (Liu, Zhang, Chen, Wang and Yang 2018):

    y = +1:  g_w = (1 - p) (w'x - a - 1 - alpha) x,   g_a = -(1 - p) (w'x - a),   g_alpha = -(1 - p) (w'x + p alpha)
    y = -1:  g_w = p (w'x - b + 1 + alpha) x,         g_b = -p (w'x - b),         g_alpha = p (w'x - (1 - p) alpha)

Then w is projected onto the l1 ball of radius R, a and b are kept within R and alpha within 2 R; and v within r, alpha
within D of where the epoch began. An epoch begins at the mean of the iterates of the one before it, with alpha set to
the score of the difference of the class means (of all rows so far; negatives less positives). There are
m = floor(log2(2 n / log2 n) / 2) - 1 epochs of n_0 = floor(n / m) rows, so the number n of rows has to be known
beforehand. At first r = 2 sqrt(3) R, D = 2 sqrt(2) r, and all variables are 0. As an epoch ends, with L = log(120),
s = 2 + sqrt(2 L) and q = min(p, 1 - p), r is halved and

    D = 2 sqrt(2) r + 12 sqrt(2) s R / sqrt(q n_0 - sqrt(2 n_0 L)),          1e7 where the root has no positive argument
    eta <- eta min(1, sqrt(k / k_before) / 2)
    k = 9 + 288 s^2 / (q - sqrt(2 L / n_0)),                    9 at first; 1e7 where the divisor is not positive

Beside the nonzero features of a row, only what projections do may change a weight:

    onto the l1 ball      w_i <- sign(w_i) max(|w_i| - theta, 0)
    near the start s      w_i <- s_i + c (w_i - s_i)

Weights that are stored are *listed*; all others are beta s_i with one beta per setting, 1 as an epoch begins. |w|_1
and |w - s|^2 are kept up to date, so that a row that needs no projection costs O(k). The first projection takes theta
from the listed weights alone, which is right where beta max |s_i| does not exceed it (where it does, all are listed);
then beta is 0, and weights that have become 0 are listed no more. The second one makes beta 1 - c (1 - beta). Both go
through the listed weights. Small balls keep few of them, and in large ones projections are rare.

In the sum of an epoch's iterates a weight is added when it changes, as often as it was there, from the number of that
row if it is listed and else from the sum of the betas. Features get places in the order in which rows bring them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...kernels import njit
from ..base import OnePassLearner, State
from ..parameters import POSITIVE, VARIANT
from ..rows import rows_of

__all__ = ["FSAUC"]

_CONFIDENCE = np.log(12.0 / 0.1)  # ln(12 / delta)
_FIRST_PLACES = 1024
_EPOCHS_DONE, _ROWS, _PLACES = range(3)
# The mark is -1 - t where w is listed and in the sum up to before row t of the epoch, else the sum of the betas that
# are in it.
_WEIGHT = np.dtype([(name, np.float64) for name in ("w", "start", "total", "mark")])
_MODEL = np.dtype(
    [
        (name, np.float64)
        for name in (
            *("alpha", "alpha_start", "r", "d"),
            *("a", "b", "a_start", "b_start", "a_sum", "b_sum", "beta", "beta_sum"),
            *("n_listed", "size", "square"),  # of listed weights: their number, |w|_1 and |w - s|^2
            *("size_of_rest", "square_of_rest"),  # |s|_1 and |s|^2 of the others
            *("size_of_start", "square_of_start", "largest"),  # |s|_1, |s|^2 and the largest |s_i| of all
        )
    ]
)


@dataclass
class _Epochs(State):
    """``W`` has a record for each setting and place: weight, where the epoch began it, sum of iterates, mark."""

    listed: np.ndarray  # (n_live, places), the places of the listed weights first
    models: np.ndarray  # (n_live,), records
    place: np.ndarray  # (n_features,), -1 where no row has had the feature
    counts: np.ndarray  # (2,), positives and negatives so far
    sums: np.ndarray  # (2, places), of the rows of each class
    step: np.ndarray  # (2,): what eta is multiplied by, and the beta that it comes from
    clock: np.ndarray  # (3,), epochs done, rows of the current one, and places taken
    lengths: np.ndarray | None = None  # (3,), epochs, rows of each, rows of one more
    settings_axes: ClassVar = {"W": 0, "listed": 0, "models": 0}
    resizable: ClassVar = ("W", "listed", "sums")

    def expect(self, n_rows):
        if n_rows is None:
            raise ValueError("the number of rows has to be known: the lengths of its stages depend on it")
        m = int(0.5 * np.log2(2 * n_rows / np.log2(n_rows))) - 1 if n_rows >= 4 else 1
        m = max(m, 1)
        self.lengths = np.array([m, n_rows // m, n_rows % m])

    def finite(self, n_features):
        return np.isfinite(self.models.view(np.float64).reshape(self.n_live, -1)).all(axis=1)

    def coef(self, n_features):
        return self.coef_at(np.arange(n_features))

    def coef_at(self, features):
        coef, place = np.zeros((len(features), self.n_live)), self.place[features]
        known = place >= 0
        for g in range(self.n_live):  # one after the other, which takes less memory
            coef[known, g] = self.W[g, place[known]]["start"]
        coef[:, ~self.finite(len(self.place))] = np.nan  # which shows before an epoch is over
        return coef

    def make_room(self, n_places):
        """Take on places, to twice their number if that is enough."""
        n_old = self.W.shape[1]
        if n_places > n_old:
            n_new = min(max(n_places, 2 * n_old), len(self.place)) - n_old
            for name in ("W", "listed", "sums"):
                old = getattr(self, name)
                setattr(self, name, np.concatenate([old, np.zeros((len(old), n_new), old.dtype)], axis=1))

    def widened(self, fresh):
        fresh.place[: len(self.place)] = self.place
        for name in ("W", "listed", "models", "counts", "sums", "step", "clock", "lengths"):
            setattr(fresh, name, getattr(self, name))
        return fresh


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

    Notes
    -----
    With fewer than 44 rows the formula has no epoch; we make one of all rows. There is no ``partial_fit``.

    References
    ----------
    M. Liu, X. Zhang, Z. Chen, X. Wang, T. Yang: Fast stochastic AUC maximization with O(1/n)-convergence rate. ICML
    2018.
    """

    grid_axes = ("eta", "radius")
    parameter_constraints: ClassVar = {"eta": POSITIVE, "radius": POSITIVE, "variant": VARIANT}
    _sparse_chunks = True

    def __init__(self, eta: float = 0.5, radius: float = 10.0, variant: str = "paper"):
        self.eta = eta
        self.radius = radius
        self.variant = variant

    @property
    def partial_fit(self):
        """Not available: epochs are laid out by the number of all rows."""
        raise AttributeError("FSAUC has no partial_fit: it lays out its epochs by the number of all rows; use fit")

    def _begin(self, n_features, settings):
        n_settings = len(settings["eta"])
        models = np.zeros(n_settings, _MODEL)
        with np.errstate(over="ignore"):
            models["r"] = 2.0 * np.sqrt(3.0) * settings["radius"]
            models["d"] = 2.0 * np.sqrt(2.0) * models["r"]
        models["beta"] = 1.0
        n_places = min(n_features, _FIRST_PLACES)
        return _Epochs(
            settings=settings,
            W=np.zeros((n_settings, n_places), _WEIGHT),
            listed=np.zeros((n_settings, n_places), dtype=np.int32),
            models=models,
            place=np.full(n_features, -1, dtype=np.int32),
            counts=np.zeros(2),
            sums=np.zeros((2, n_places)),
            step=np.array([1.0, 9.0]),
            clock=np.zeros(3, dtype=np.int64),
        )

    def _consume(self, state, X, y):
        indptr, indices, data = rows_of(X)
        places = np.empty_like(indices)
        _find_places(indices, state.place, state.clock, places)
        state.make_room(state.clock[_PLACES])
        how = (state.settings["eta"], state.settings["radius"], self.variant == "released", state.lengths)
        memory = (state.counts, state.sums, state.step, state.clock)
        _learn(indptr, places, data, y, *how, *memory, state.models, state.listed, state.W)

    def seconds_per_row(self, n_features, n_nonzero, n_settings):
        # Measured over the paper's grid on imdb and reviews. Most settings take the time of the nonzeros; a few, whose
        # steps just fill their ball, go through all weights at every row.
        return 2e-7 + n_settings * (1e-7 + 1e-8 * n_nonzero + 1e-10 * n_features)

    def memory_bytes(self, n_features, n_settings):
        # Four values and a number a place, half as much where places become twice as many. With the weights, which are
        # formed in the end and copied, that is less.
        return (36.0 + 18.0) * n_features * n_settings + 28.0 * n_features


@njit(error_model="numpy")
def _find_places(indices, place, clock, places):
    for k in range(len(indices)):
        i = indices[k]
        if place[i] < 0:
            place[i] = clock[_PLACES]
            clock[_PLACES] += 1
        places[k] = place[i]


@njit(error_model="numpy")
def _learn(indptr, there, data, y, eta, radius, released, lengths, counts, sums, step, clock, models, listed, W):
    """Setting by setting, so that one model at a time is in the cache, up to where an epoch ends."""
    scratch = np.empty(W.shape[1])
    t = 0
    while t < len(y):
        size = lengths[1] if clock[_EPOCHS_DONE] < lengths[0] else lengths[2]
        if clock[_EPOCHS_DONE] >= lengths[0] and not (released and size > 0):
            return
        stop = min(len(y), t + size - clock[_ROWS])
        for g in range(len(eta)):
            rows = (indptr[t : stop + 1], there, data, y[t:stop])
            _learn_setting(*rows, step[0] * eta[g], radius[g], counts, clock, models[g], listed[g], W[g], scratch)
        for row in range(t, stop):
            own = 0 if y[row] > 0 else 1
            counts[own] += 1.0
            for k in range(indptr[row], indptr[row + 1]):
                sums[own, there[k]] += data[k]
        clock[_ROWS] += stop - t
        t = stop
        if clock[_ROWS] == size:
            _next_epoch(size, radius, lengths[1], counts, sums, step, clock, models, W)
            clock[_EPOCHS_DONE] += 1
            clock[_ROWS] = 0


@njit(error_model="numpy")
def _learn_setting(indptr, there, data, y, eta, radius, counts, clock, own, listed, model, scratch):
    n_positives, n_rows = counts[0], counts[0] + counts[1]
    for t in range(len(y)):
        n_positives += 1.0 if y[t] > 0 else 0.0
        n_rows += 1.0
        now = clock[_ROWS] + t
        places, x = there[indptr[t] : indptr[t + 1]], data[indptr[t] : indptr[t + 1]]
        _primal_and_dual_step(places, x, y[t], n_positives / n_rows, eta, now, own, listed, model)
        if not own.size < np.inf:  # overflowed, for good
            return
        if own.size + own.beta * own.size_of_rest > radius:
            _project_l1(radius, now, clock[_PLACES], own, listed, model, scratch)
        own.a = min(max(own.a, -radius), radius)
        own.b = min(max(own.b, -radius), radius)
        _stay_near(now, own, listed, model)
        alpha = min(max(own.alpha, -2.0 * radius), 2.0 * radius)
        own.alpha = min(max(alpha, own.alpha_start - own.d), own.alpha_start + own.d)
        own.a_sum += own.a
        own.b_sum += own.b
        own.beta_sum += own.beta


@njit(error_model="numpy")
def _primal_and_dual_step(places, x, y, p, eta, now, own, listed, model):
    """Steps of w at the features of a row, which are listed from now on, of a, b and alpha."""
    score = 0.0
    for k in range(len(x)):
        weight = model[np.uint32(places[k])]
        if weight.mark >= 0.0:
            _list(places[k], now, own, listed, model)
        else:
            _add_to_sum(weight, now)
        score += x[k] * weight.w
    a, b, alpha = own.a, own.b, own.alpha
    if y > 0:
        share, factor, towards = 1.0 - p, score - a - 1.0 - alpha, -score - p * alpha
        own.a = a + eta * share * (score - a)
    else:
        share, factor, towards = p, score - b + 1.0 + alpha, score - (1.0 - p) * alpha
        own.b = b + eta * share * (score - b)
    own.alpha = alpha + eta * share * towards
    push, size, square = eta * share * factor, own.size, own.square
    for k in range(len(x)):
        weight = model[np.uint32(places[k])]
        w, start = weight.w, weight.start
        new = w - push * x[k]
        size += abs(new) - abs(w)
        square += (new - w) * ((new - start) + (w - start))
        weight.w = new
    own.size, own.square = size, square


@njit(error_model="numpy")
def _add_to_sum(weight, now):
    """Add a listed weight to the sum for the rows before this one, as it may change now."""
    weight.total += weight.w * (now + 1.0 + weight.mark)
    weight.mark = -1.0 - now


@njit(error_model="numpy")
def _list(i, now, own, listed, model):
    weight = model[i]
    w, start = own.beta * weight.start, weight.start
    weight.total += start * (own.beta_sum - weight.mark)
    weight.w, weight.mark = w, -1.0 - now
    listed[int(own.n_listed)] = i
    own.n_listed += 1.0
    own.size += abs(w)
    own.square += (w - start) * (w - start)
    own.size_of_rest -= abs(start)
    own.square_of_rest -= start * start


@njit(error_model="numpy")
def _project_l1(radius, now, n_places, own, listed, model, scratch):
    """Project w onto the l1 ball of a radius that it exceeds."""
    n = int(own.n_listed)
    for k in range(n):
        scratch[k] = abs(model[listed[k]].w)
    threshold = l1_threshold(scratch[:n], radius)
    if own.beta * own.largest > threshold:
        for i in range(n_places):
            if model[i].mark >= 0.0 and model[i].start != 0.0:
                _list(i, now, own, listed, model)
        n = int(own.n_listed)
        for k in range(n):
            scratch[k] = abs(model[listed[k]].w)
        threshold = l1_threshold(scratch[:n], radius)
    own.beta = 0.0
    kept, size, square, size_of_start, square_of_start = 0, 0.0, 0.0, 0.0, 0.0
    for k in range(n):
        weight = model[listed[k]]
        _add_to_sum(weight, now)
        w, start = weight.w, weight.start
        if abs(w) <= threshold:
            weight.mark = own.beta_sum
            continue
        w = w - threshold if w > 0.0 else w + threshold
        weight.w = w
        listed[kept] = listed[k]
        kept += 1
        size += abs(w)
        square += (w - start) * (w - start)
        size_of_start += abs(start)
        square_of_start += start * start
    own.n_listed, own.size, own.square = kept, size, square
    own.size_of_rest = own.size_of_start - size_of_start
    own.square_of_rest = own.square_of_start - square_of_start


@njit(error_model="numpy")
def l1_threshold(sizes, radius):
    """The threshold of the projection onto the l1 ball, at least 0; changes ``sizes``, those of the weights.

    Sizes below the threshold are dropped until none is (Michelot 1986). Their number falls each time: to look at those
    dropped before once more, as rounding errors may bring them back, would never end.
    """
    size, kept = 0.0, len(sizes)
    for k in range(kept):
        size += sizes[k]
    while size > radius:
        threshold = (size - radius) / kept
        size, still = 0.0, 0
        for k in range(kept):
            u = sizes[k]
            sizes[still] = u
            above = u > threshold
            size += u if above else 0.0
            still += 1 if above else 0
        if still == kept or still == 0:
            return threshold
        kept = still
    return 0.0


@njit(error_model="numpy")
def _stay_near(now, own, listed, model):
    """Project (w, a, b) onto the ball of radius r around where the epoch began."""
    from_a, from_b, of_rest = own.a - own.a_start, own.b - own.b_start, 1.0 - own.beta
    square = own.square + of_rest * of_rest * own.square_of_rest + from_a * from_a + from_b * from_b
    if not square > own.r * own.r:
        return
    shorter = own.r / np.sqrt(square)
    own.a, own.b = own.a_start + from_a * shorter, own.b_start + from_b * shorter
    own.beta = 1.0 - shorter * of_rest
    size, square = 0.0, 0.0
    for k in range(int(own.n_listed)):
        weight = model[listed[k]]
        _add_to_sum(weight, now)
        away = (weight.w - weight.start) * shorter
        weight.w = weight.start + away
        size += abs(weight.w)
        square += away * away
    own.size, own.square = size, square


@njit(error_model="numpy")
def _next_epoch(size, radius, n_rows, counts, sums, step, clock, models, W):
    """Begin at the mean of the epoch that is over, with r halved and D and eta that follow from it."""
    p = counts[0] / (counts[0] + counts[1])
    q, spread = min(p, 1.0 - p), 2.0 + np.sqrt(2.0 * _CONFIDENCE)
    root = q * n_rows - np.sqrt(2.0 * n_rows * _CONFIDENCE)
    room = q - np.sqrt(2.0 * _CONFIDENCE / n_rows)
    beta = 9.0 + 288.0 * spread**2 / room if room > 0.0 else 1e7
    step[0] *= min(np.sqrt(beta / step[1]) / 2.0, 1.0)
    step[1] = beta
    for g in range(len(radius)):
        own = models[g]
        own.r /= 2.0
        near = 2.0 * np.sqrt(2.0) * own.r
        own.d = near + 12.0 * np.sqrt(2.0) * spread * radius[g] / np.sqrt(root) if root > 0.0 else 1e7
        _begin_at_mean(size, counts, sums, clock[_PLACES], own, W[g])


@njit(error_model="numpy")
def _begin_at_mean(size, counts, sums, n_places, own, model):
    alpha, size_of_start, square_of_start, largest = 0.0, 0.0, 0.0, 0.0
    for i in range(n_places):
        weight = model[i]
        if weight.mark >= 0.0:
            weight.total += weight.start * (own.beta_sum - weight.mark)
        else:
            _add_to_sum(weight, size)
        mean = weight.total / size
        alpha += (sums[1, i] / max(counts[1], 1.0) - sums[0, i] / max(counts[0], 1.0)) * mean
        weight.start, weight.total, weight.mark = mean, 0.0, 0.0
        size_of_start += abs(mean)
        square_of_start += mean * mean
        largest = max(largest, abs(mean))
    own.alpha = own.alpha_start = alpha
    own.a = own.a_start = own.a_sum / size
    own.b = own.b_start = own.b_sum / size
    own.a_sum = own.b_sum = 0.0
    own.beta, own.beta_sum, own.n_listed, own.square = 1.0, 0.0, 0.0, 0.0
    own.size = 0.0 if own.size < np.inf else np.nan
    own.size_of_start = own.size_of_rest = size_of_start
    own.square_of_start = own.square_of_rest = square_of_start
    own.largest = largest
