"""FTRL-AUC and OPAUC for `river <https://riverml.xyz>`_: one row at a time, as a dictionary of features by name.

Nothing inside is an array: features come when a row has them first, and a feature that a row does not have is 0. On the
same rows the weights are those of `opauc_bench.learners.FTRLAUC` and `opauc_bench.learners.OPAUC`, except for rounding.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

try:
    from river import base
except ImportError as error:
    raise ImportError("opauc_bench.river needs river: pip install 'opauc-bench[river]'") from error

from .learners.parameters import NOT_NEGATIVE, POSITIVE, VARIANT, Constraint, require
from .learners.ranker import DivergenceError

__all__ = ["FTRLAUC", "OPAUC"]

Row = dict[base.typing.FeatureName, float]

_LATEST = 1000  # rows of a class that its mean score and their variance are of, more or less


@dataclass
class _ClassScores:
    """Scores that rows of one class had when they came: their number, running mean and running variance."""

    n: int = 0
    mean: float = 0.0
    variance: float = 0.0

    def add(self, score: float) -> None:
        self.n += 1
        rate = 1.0 / min(self.n, _LATEST)
        before = score - self.mean
        self.mean += rate * before
        self.variance += rate * (before * (score - self.mean) - self.variance)


class _Ranker(base.Classifier):
    """Base class: a linear score w'x, which gives a probability by the scores that both classes have had.

    A derived class has ``weights``, ``_score`` and ``_learn``.

    Notes
    -----
    The AUC does not depend on how scores are turned into probabilities. Here the scores of either class, each from
    before its row was learnt, are assumed normal, with means a (positives) and b (negatives) and the variance v, the
    mean of the variances of both classes. Then the log odds of a row with the score s are

        (a - b) / v (s - (a + b) / 2) + log((n+ + 1) / (n- + 1))

    with the numbers of rows n+ and n-. Means and variances are running ones over some 1,000 rows of each class, because
    scores change with the weights. Where a < b the slope is 0.
    """

    _constraints: ClassVar[dict[str, Constraint]] = {}

    def __init__(self) -> None:
        for name, constraint in self._constraints.items():
            require(type(self).__name__, name, constraint, getattr(self, name))
        self._positives, self._negatives = _ClassScores(), _ClassScores()
        self._overflowed = False

    def learn_one(self, x: dict[base.typing.FeatureName, Any], y: base.typing.ClfTarget) -> None:
        """Learn one row.

        Parameters
        ----------
        x : dict of feature name to number
        y : bool
            Whether the row is positive; 0 and 1 do too.

        Raises
        ------
        ValueError
            If a value is not a finite number, or ``y`` is neither of these.
        DivergenceError
            If the weights have overflowed, now or before: the step size is too large for the data.
        """
        if y not in (False, True):
            raise ValueError(f"expected the label True or False, or 1 or 0, got {y!r}")
        row = _row(x)
        score = self._finite_score(row)
        (self._positives if y else self._negatives).add(score)
        self._learn(row, bool(y), score)

    def predict_proba_one(
        self, x: dict[base.typing.FeatureName, Any], **kwargs: Any
    ) -> dict[base.typing.ClfTarget, float]:
        """Probabilities of False and True; higher for rows with higher scores, see the notes.

        Raises
        ------
        ValueError, DivergenceError
            As `learn_one`.
        """
        score = self._finite_score(_row(x))
        positives, negatives = self._positives, self._negatives
        variance = (positives.variance + negatives.variance) / 2
        slope = max(0.0, positives.mean - negatives.mean) / variance if variance > 0 else 0.0
        centred = score - (positives.mean + negatives.mean) / 2
        probability = _logistic(slope * centred + math.log((positives.n + 1) / (negatives.n + 1)))
        return {False: 1.0 - probability, True: probability}

    def score_one(self, x: dict[base.typing.FeatureName, Any]) -> float:
        """The score w'x: the higher, the more likely positive.

        Raises
        ------
        ValueError, DivergenceError
            As `learn_one`.
        """
        return self._finite_score(_row(x))

    @abstractmethod
    def _score(self, row: Row) -> float:
        """The score w'x."""

    @abstractmethod
    def _learn(self, row: Row, positive: bool, score: float) -> None:
        """Learn a row, which had this score before."""

    def _finite_score(self, row: Row) -> float:
        score = math.nan if self._overflowed else self._score(row)
        if not math.isfinite(score):
            self._overflowed = True  # a row without the features whose weights are lost has a finite score
            raise DivergenceError(
                f"{type(self).__name__} overflowed within {self._positives.n + self._negatives.n} rows",
                "take smaller steps, or scale the features to [-1, 1], and begin with a new model",
            )
        return score


class FTRLAUC(_Ranker):
    """Follow-the-regularised-leader for AUC, with sparse weights: O(k) for a row with k features.

    Parameters
    ----------
    gamma : float, default=0.1
        Multiplies every step.
    l1 : float, default=1e-3
        Threshold below which a weight is 0; multiplies ``|w|_1``.
    l2 : float, default=0.0
        Multiplies ``|w|^2 / 2``.
    beta : float, default=1.0
        Added to the square root of the sum of squared gradients of a feature, which divides its steps.
    variant : {'paper', 'released'}, default='paper'
        As in `opauc_bench.learners.FTRLAUC`.

    Notes
    -----
    Probabilities: scores of either class are assumed to be normal with one variance; see docs/river.md.

    References
    ----------
    B. Zhou, Y. Ying, S. Skiena: Online AUC optimization for high-dimensional sparse datasets. ICDM 2020, Algorithm 1.

    Examples
    --------
    >>> from opauc_bench.river import FTRLAUC
    >>> model = FTRLAUC(gamma=0.5)
    >>> for clicked, word in [(True, "sale"), (False, "news")] * 3:
    ...     model.learn_one({word: 1.0}, clicked)
    >>> model.predict_one({"sale": 1.0}), model.predict_one({"news": 1.0})
    (True, False)
    """

    _constraints: ClassVar = {
        "gamma": POSITIVE,
        **dict.fromkeys(("l1", "l2", "beta"), NOT_NEGATIVE),
        "variant": VARIANT,
    }

    def __init__(
        self, gamma: float = 0.1, l1: float = 1e-3, l2: float = 0.0, beta: float = 1.0, variant: str = "paper"
    ):
        self.gamma = gamma
        self.l1 = l1
        self.l2 = l2
        self.beta = beta
        self.variant = variant
        super().__init__()
        if beta == 0 and l2 == 0:  # the first weight would be 0/0
            raise ValueError(f"FTRLAUC: beta has to be a number > 0 if l2 is 0, got {beta!r}")
        self._features: dict[base.typing.FeatureName, tuple[float, float, float, float]] = {}  # w, z, q and sqrt(q)
        self._mean_scores = [0.0, 0.0]

    @property
    def weights(self) -> Row:
        """Weights by feature, without those that are 0."""
        return {name: values[0] for name, values in self._features.items() if values[0] != 0.0}

    def _score(self, row: Row) -> float:
        return sum(value * self._features[name][0] for name, value in row.items() if name in self._features)

    def _learn(self, row: Row, positive: bool, score: float) -> None:
        own, opp, sign = (0, 1, 1.0) if positive else (1, 0, -1.0)
        counts, means = (self._positives.n, self._negatives.n), self._mean_scores
        means[own] += (score - means[own]) / counts[own]
        c = 2.0 * counts[opp] / (counts[0] + counts[1]) * (score - means[opp] - sign)
        for name, value in row.items():
            _, z, q, root = self._features.get(name, (0.0, 0.0, 0.0, 0.0))
            w, gradient = self._weight(z, root), c * value
            q += gradient * gradient
            new_root = math.sqrt(q)
            z += gradient - (new_root - root) / self.gamma * w
            self._features[name] = w, z, q, new_root

    def _weight(self, z: float, root: float) -> float:
        """Line 19 of Algorithm 1."""
        if abs(z) <= self.l1:
            return 0.0
        above, below = (1.0, -self.l1) if self.variant == "released" else (self.l1, self.l1)
        left = above - z if z > 0 else -below - z
        return left / ((self.beta + root) / self.gamma + self.l2)


@dataclass
class _Moments:
    """Rows of one class: their number, the sum of each feature, and of each product of two features."""

    n: int = 0
    sums: Row = field(default_factory=dict)
    products: dict[base.typing.FeatureName, Row] = field(default_factory=dict)

    def add(self, row: Row) -> None:
        self.n += 1
        for name, value in row.items():
            self.sums[name] = self.sums.get(name, 0.0) + value
            with_others = self.products.setdefault(name, {})
            for other, other_value in row.items():
                with_others[other] = with_others.get(other, 0.0) + value * other_value


class OPAUC(_Ranker):
    """One-pass AUC optimisation with the covariances of both classes: O(d^2) for a row, with d features so far.

    Parameters
    ----------
    eta : float, default=0.015625
        Step size.
    lam : float, default=0.00390625
        Multiplies ``|w|^2 / 2``.

    Notes
    -----
    Scale the features, for instance by ``preprocessing.StandardScaler``: steps that are too large for them overflow.
    Nothing is learnt before both classes have been seen. Probabilities: scores of either class are assumed normal
    with one variance; see docs/river.md.

    References
    ----------
    W. Gao, L. Wang, R. Jin, S. Zhu, Z.-H. Zhou: One-pass AUC optimization. Artificial Intelligence 236 (2016) 1-29,
    Algorithm 1 and Eqs. 7-9.
    """

    _constraints: ClassVar = {"eta": POSITIVE, "lam": NOT_NEGATIVE}

    def __init__(self, eta: float = 2**-6, lam: float = 2**-8):
        self.eta = eta
        self.lam = lam
        super().__init__()
        self._weights: Row = {}
        self._classes = (_Moments(), _Moments())

    @property
    def weights(self) -> Row:
        """Weights by feature, without those that are 0."""
        return {name: weight for name, weight in self._weights.items() if weight != 0.0}

    def _score(self, row: Row) -> float:
        return sum(value * self._weights.get(name, 0.0) for name, value in row.items())

    def _learn(self, row: Row, positive: bool, score: float) -> None:
        own, opp, sign = (0, 1, 1.0) if positive else (1, 0, -1.0)
        self._classes[own].add(row)
        other, weights = self._classes[opp], self._weights
        if not other.n:
            return
        means = {name: total / other.n for name, total in other.sums.items()}
        mean_score = sum(mean * weights.get(name, 0.0) for name, mean in means.items())
        beyond = score - mean_score - sign
        stepped = {}
        for name in {**weights, **means, **row}:
            weight, mean = weights.get(name, 0.0), means.get(name, 0.0)
            products = other.products.get(name, {})
            with_moments = sum(product * weights.get(j, 0.0) for j, product in products.items()) / other.n
            gradient = self.lam * weight + beyond * (row.get(name, 0.0) - mean) + with_moments - mean_score * mean
            stepped[name] = weight - self.eta * gradient
        self._weights = stepped


def _row(x: dict[base.typing.FeatureName, Any]) -> Row:
    """Features that are not 0, as floats."""
    row = {}
    for name, value in x.items():
        try:
            # A category such as "10001" would become a number.
            number = math.nan if isinstance(value, str | bytes | bytearray) else float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not math.isfinite(number):
            raise ValueError(f"feature {name!r} has to be a finite number, got {value!r}")
        if number:
            row[name] = number
    return row


def _logistic(log_odds: float) -> float:
    if log_odds < 0:
        odds = math.exp(log_odds)
        return odds / (1.0 + odds)
    return 1.0 / (1.0 + math.exp(-log_odds))
