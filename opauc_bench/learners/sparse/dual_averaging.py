"""RDA-l1 and AdaGrad with the logistic loss: weights from the sum of all gradients, at O(k) per row.

With the gradient g_t = c x_t, c = -y / (1 + exp(y (w'x + b))), let G be the mean of all gradients so far and Q the sum
of their squares, coordinate by coordinate. After t rows

    RDA-l1   w_i = -(sqrt(t) / gamma) S(G_i, l1 + gamma rho / sqrt(t))       (Xiao 2010, Eq. 30, with Eq. 31's rate)
    AdaGrad  w_i = -(eta t / (eps + sqrt(Q_i))) S(G_i, l1)                   (Duchi et al. 2011, Eq. 3 with l1)

where S(u, s) = sign(u) max(|u| - s, 0). The intercept b has the same formula without a threshold. A weight is needed
only when a row has its coordinate, and follows from the sums then: nothing else has to be touched, and the weights of
all coordinates are computed once, in the end.

The authors of FTRL-AUC released a program (and published its numbers) in which the gradient of a coordinate is added
again at every row that does not have it. With the number of the row that had it last, that is O(k) as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...kernels import njit
from ..base import OnePassLearner, State
from ..parameters import NOT_NEGATIVE, POSITIVE, VARIANT
from ..rows import aligned_zeros, rows_of

__all__ = ["RDAL1", "AdaGrad"]

_SUM, _SQUARES, _LAST = range(3)
_FAR_FROM_OVERFLOW = 1e290


@dataclass
class _Sums(State):
    """``W`` is of shape (n_features + 1, 3, n_live): sum of gradients, of their squares, and the last gradient.

    The last coordinate is the intercept.
    """

    rule: tuple[bool, bool]  # adaptive, released
    rates: np.ndarray  # (2, n_live), gamma and rho, or eta and eps
    n_rows: np.ndarray  # (1,)
    last_row: np.ndarray  # (n_features,), number of the row that had the coordinate last, from 1
    largest: np.ndarray  # (1,), of all values so far, in size
    settings_axes: ClassVar = {"W": -1, "rates": -1}
    ends_with_intercept: ClassVar = True

    def coef(self, n_features):
        return self._weights(self.W, self.last_row)[:-1]

    def coef_at(self, features):
        return self._weights(self.W[np.append(features, -1)], self.last_row[features])[:-1]

    @property
    def intercepts(self) -> np.ndarray:
        """Of the live settings."""
        return self._weights(self.W[-1:], self.last_row[:0])[-1]

    def finite_elsewhere(self):
        """Weights change with the number of rows, but |c| <= 1: no mean gradient is larger than the largest value."""
        t, threshold, (rate, extra) = float(self.n_rows[0]), np.abs(self.settings["l1"]), self.rates
        if self.rule[0]:
            if not (extra > 0.0).all():
                return False
            scale = rate * t / extra
        else:
            scale, threshold = np.sqrt(t) / rate, threshold + np.abs(rate * extra) / np.sqrt(t)
        return bool((scale * (1.0 + 2.0 * self.largest[0] + threshold) < _FAR_FROM_OVERFLOW).all())

    def _weights(self, W: np.ndarray, last_row: np.ndarray) -> np.ndarray:
        weights = np.empty((W.shape[0], W.shape[2]))
        _all_weights(*self.rule, self.settings["l1"], self.rates, self.n_rows[0], last_row, W, weights)
        return weights


class _DualAveraging(OnePassLearner):
    """Base class of dual averaging.

    Parameters
    ----------
    l1 : float, default=1e-3
        Threshold on the mean gradient; multiplies ``|w|_1``, with the mean of all losses.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
        The weights after the last row.
    intercept_ : ndarray of shape (1,)
        The trained intercept.
    """

    _sparse_chunks = True
    _moves_own_features = True
    _adaptive: bool
    eps: float
    variant: str
    _state: _Sums

    def _begin(self, n_features, settings):
        n_settings = len(settings["l1"])
        if self._adaptive:
            rates = np.array([settings["eta"], np.full(n_settings, float(self.eps))])
        else:
            rates = np.array([settings["gamma"], settings["rho"]])
        return _Sums(
            settings=settings,
            W=aligned_zeros(n_features + 1, 3, n_settings),
            rule=(self._adaptive, self.variant == "released"),
            rates=rates,
            n_rows=np.zeros(1, dtype=np.int64),
            last_row=np.zeros(n_features, dtype=np.int64),
            largest=np.zeros(1),
        )

    def _consume(self, state, X, y):
        rows, l1 = (*rows_of(X), y), state.settings["l1"]
        state.largest[0] = max(state.largest[0], np.abs(X.data).max(initial=0.0))
        _learn(*rows, *state.rule, l1, state.rates, state.n_rows, state.last_row, state.W)

    def trained_intercepts(self):
        return self._state.intercepts

    def seconds_per_row(self, n_features, n_nonzero, n_settings):
        return 1e-7 + (n_nonzero + 1) * (8e-9 + 6e-9 * n_settings)

    def memory_bytes(self, n_features, n_settings):
        # Beside the three sums the weights, which are formed in the end, and a copy of them.
        return 8.0 * (5 * n_features * n_settings + n_features)


class RDAL1(_DualAveraging):
    """Enhanced l1-regularised dual averaging of the logistic loss.

    Parameters
    ----------
    gamma : float, default=1.0
        Divides every step: the rate after t rows is sqrt(t) / gamma. On farm-ads the published grid (10 and more) is
        too high for the algorithm as its paper has it, whose best values lie below 1.
    rho : float, default=0.0
        Adds gamma rho / sqrt(t) to the threshold.
    variant : {'paper', 'released'}, default='paper'
        'released' adds the last gradient of a coordinate again at every row that does not have it, and for a mean
        gradient below the threshold takes the weight (sqrt(t) / gamma) (|G_i| + 1), as the FTRL-AUC authors' program.

    References
    ----------
    L. Xiao: Dual averaging methods for regularized stochastic learning and online optimization. JMLR 11 (2010).
    """

    grid_axes = ("gamma", "l1", "rho")
    parameter_constraints: ClassVar = {"gamma": POSITIVE, "l1": NOT_NEGATIVE, "rho": NOT_NEGATIVE, "variant": VARIANT}
    _adaptive = False

    def __init__(self, gamma: float = 1.0, l1: float = 1e-3, rho: float = 0.0, variant: str = "paper"):
        self.gamma = gamma
        self.l1 = l1
        self.rho = rho
        self.variant = variant

    @property
    def expected_failed_checks(self) -> dict[str, str]:
        """scikit-learn's checks that the released program's weights cannot pass."""
        if self.variant == "released":
            return {"check_classifiers_train": "the released program's weights classify worse than this check asks for"}
        return {}


class AdaGrad(_DualAveraging):
    """Dual averaging of the logistic loss with adaptive rates and l1 regularisation.

    Parameters
    ----------
    eta : float, default=0.1
        Multiplies every step: the rate of coordinate i after t rows is eta t / (eps + sqrt(Q_i)).
    eps : float, default=1e-8
        Added to sqrt(Q_i).
    variant : {'paper', 'released'}, default='paper'
        'released' adds the last gradient of a coordinate again at every row that does not have it (not its square),
        and for a negative mean gradient leaves out the rate, w_i = |G_i| - l1, as the FTRL-AUC authors' program.

    References
    ----------
    J. Duchi, E. Hazan, Y. Singer: Adaptive subgradient methods for online learning and stochastic optimization.
    JMLR 12 (2011).
    """

    grid_axes = ("eta", "l1")
    parameter_constraints: ClassVar = {"eta": POSITIVE, "l1": NOT_NEGATIVE, "eps": NOT_NEGATIVE, "variant": VARIANT}
    _adaptive = True

    def __init__(self, eta: float = 0.1, l1: float = 1e-3, eps: float = 1e-8, variant: str = "paper"):
        self.eta = eta
        self.l1 = l1
        self.eps = eps
        self.variant = variant


@njit(error_model="numpy")
def _weight(total, squares, t, adaptive, released, l1, rate, extra):
    """Weight of a coordinate after ``t`` rows, from the sums of its gradients and of their squares."""
    mean = total / t
    if adaptive:
        scale = rate * t / (extra + np.sqrt(squares))
        excess = abs(mean) - l1
        if excess <= 0.0:
            return 0.0
        if mean > 0.0:
            return -scale * excess
        return excess if released else scale * excess
    scale, threshold = np.sqrt(t) / rate, l1 + rate * extra / np.sqrt(t)
    if mean > threshold:
        return -scale * (mean - threshold)
    if mean < -threshold:
        return scale * (1.0 - mean) if released else scale * (-mean - threshold)
    return 0.0 * mean  # NaN stays NaN


@njit(error_model="numpy")
def _intercept(total, squares, t, adaptive, released, rates):
    """As `_weight`, of the intercept: without a threshold, and in the released RDA-l1 as in the paper."""
    if adaptive:
        return _weight(total, squares, t, adaptive, released, 0.0, rates[0], rates[1])
    return _weight(total, squares, t, adaptive, False, 0.0, rates[0], 0.0)


@njit(error_model="numpy")
def _all_weights(adaptive, released, l1, rates, n_rows, last_row, W, weights):
    n_features = len(last_row)
    weights[:] = 0.0
    if n_rows == 0:
        return
    for i in range(n_features + 1):
        again = n_rows - last_row[i] if released and i < n_features else 0
        for g in range(len(l1)):
            total, squares = W[i, _SUM, g] + again * W[i, _LAST, g], W[i, _SQUARES, g]
            if i < n_features:
                weights[i, g] = _weight(total, squares, n_rows, adaptive, released, l1[g], rates[0, g], rates[1, g])
            else:
                weights[i, g] = _intercept(total, squares, n_rows, adaptive, released, rates[:, g])


@njit(error_model="numpy")
def _learn(indptr, indices, data, y, adaptive, released, l1, rates, n_rows, last_row, W):
    width = len(l1)
    score = np.empty(width)
    b = W.shape[0] - 1
    for row in range(len(y)):
        t = n_rows[0]
        for g in range(width):
            score[g] = 0.0
            if t > 0:
                score[g] = _intercept(W[b, _SUM, g], W[b, _SQUARES, g], t, adaptive, released, rates[:, g])
        for k in range(indptr[row], indptr[row + 1]):
            i, v = indices[k], data[k]
            if t == 0 or last_row[i] == 0:
                continue
            again = t - last_row[i] if released else 0
            for g in range(width):
                if again:
                    W[i, _SUM, g] += again * W[i, _LAST, g]
                score[g] += v * _weight(
                    W[i, _SUM, g], W[i, _SQUARES, g], t, adaptive, released, l1[g], rates[0, g], rates[1, g]
                )
        for g in range(width):
            # An infinite score is not forgotten.
            score[g] = -y[row] / (1.0 + np.exp(y[row] * score[g])) + 0.0 * score[g]
            W[b, _SUM, g] += score[g]
            W[b, _SQUARES, g] += score[g] * score[g]
        n_rows[0] = t + 1
        for k in range(indptr[row], indptr[row + 1]):
            i, v = indices[k], data[k]
            last_row[i] = t + 1
            for g in range(width):
                gradient = score[g] * v
                W[i, _SUM, g] += gradient
                W[i, _SQUARES, g] += gradient * gradient
                W[i, _LAST, g] = gradient
