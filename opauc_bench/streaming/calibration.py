"""Probabilities from scores: isotonic regression or Platt's logistic function, and how reliable they are.

Both are fitted to progressive scores: each row's is from before the row was learnt, as will be those of new rows.

Platt: p = 1 / (1 + exp(-(a s + b))) with the maximum likelihood for smoothed targets, (N+ + 1) / (N+ + 2) for positives
and 1 / (N- + 2) for negatives, by Newton's method with step halving (Lin, Lin, Weng 2007, Algorithm 1). Isotonic: the
non-decreasing function of least squared error, interpolated linearly (Zadrozny, Elkan 2002), between the same two
bounds, so that no row has probability 0 or 1.
"""

from __future__ import annotations

import importlib
import threading
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Calibration", "Reliability", "calibrate", "check", "load_ahead"]

FEWEST_FOR_ISOTONIC = 1000  # rows of each class
FEWEST = 10
# Of the scores; the last ones are narrow because probabilities of a rare class are large there.
_QUANTILES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
_NEWTON_STEPS, _HALVINGS = 100, 40
_SMALLEST = 1e-15  # probability in a logarithm


@dataclass(frozen=True)
class Calibration:
    """A non-decreasing function from scores to probabilities."""

    method: str  # 'isotonic' or 'platt'
    # Of 'isotonic': points, shape (n_points,), that are joined by lines; constant beyond the first and last.
    scores: np.ndarray
    probabilities: np.ndarray
    slope: float  # of 'platt': a
    offset: float  # of 'platt': b
    edges: np.ndarray  # (11,): bins in which the reliability is measured, fixed quantiles of the scores of the fit
    n_rows: int  # that it was fitted to
    n_positive: int

    def probability(self, scores: np.ndarray) -> np.ndarray:
        """Probability of the positive class for each score, shape (n,)."""
        if self.method == "platt":
            with np.errstate(over="ignore", invalid="ignore"):  # a score may be infinite, and the slope 0
                return _logistic(self.slope * scores + self.offset)
        return np.interp(scores, self.scores, self.probabilities)

    def to_json(self) -> dict[str, Any]:
        """As a dict of numbers, text and lists."""
        return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in vars(self).items()}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Calibration:
        """The calibration that `to_json` has made plain.

        Raises
        ------
        ValueError
            If a value is missing or not valid.
        """
        try:
            arrays = {name: np.array(values[name], dtype=np.float64) for name in ("scores", "probabilities", "edges")}
            made = cls(**{**values, **arrays})
            valid = (
                all(np.isfinite(value).all() for value in (*arrays.values(), np.array([made.slope, made.offset])))
                and all(value.ndim == 1 and (np.diff(value) >= 0).all() for value in arrays.values())
                and ((made.probabilities >= 0) & (made.probabilities <= 1)).all()
                and len(made.scores) == len(made.probabilities) >= (made.method == "isotonic")
                and made.method in ("isotonic", "platt")
                and made.slope >= 0
                and type(made.n_rows) is type(made.n_positive) is int
                and 0 < made.n_positive < made.n_rows
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"the calibration is not valid ({error!r})") from None
        if not valid:
            raise ValueError("the calibration is not valid")
        return made


def load_ahead() -> None:
    """Import what an isotonic calibration needs, in another thread: it takes as long as a pass over 100 MB."""
    threading.Thread(target=importlib.import_module, args=("scipy.optimize",), daemon=True).start()


def calibrate(scores: np.ndarray, positive: np.ndarray, method: str = "auto") -> Calibration | None:
    """Fit a calibration to progressive scores.

    Parameters
    ----------
    scores : ndarray of shape (n,)
        Of recent rows, in their order, with the intercept of the model. Scores of the beginning of a pass come from
        another model, on another scale.
    positive : ndarray of bool, shape (n,)
    method : {'auto', 'isotonic', 'platt', 'none'}, default='auto'
        'auto' is isotonic from 1,000 rows of each class on, else Platt's.

    Returns
    -------
    Calibration or None
        None with 'none', if a class has fewer than 10 rows, or if a score is not finite.
    """
    fewest = int(min(np.count_nonzero(positive), np.count_nonzero(~positive)))
    if method == "none" or fewest < FEWEST or not np.isfinite(scores).all():
        return None
    if method == "auto":
        method = "isotonic" if fewest >= FEWEST_FOR_ISOTONIC else "platt"
    return _fitted(scores, positive, method)


def check(calibration: Calibration, scores: np.ndarray, positive: np.ndarray) -> dict[str, Any] | None:
    """`Reliability.to_json` of the same method on the newer half of the rows, fitted to the older half.

    None if the older half has one class only.
    """
    half = len(scores) // 2
    older = positive[:half]
    if older.all() or not older.any():
        return None
    fitted = _fitted(scores[:half], older, calibration.method)
    reliability = Reliability(calibration.edges, fitted.n_positive / fitted.n_rows)
    reliability.add(scores[half:], fitted.probability(scores[half:]), positive[half:])
    return reliability.to_json()


def _fitted(scores: np.ndarray, positive: np.ndarray, method: str) -> Calibration:
    n_positive = int(np.count_nonzero(positive))
    low, high = 1.0 / (len(scores) - n_positive + 2.0), (n_positive + 1.0) / (n_positive + 2.0)
    points, probabilities, slope, offset = np.zeros(0), np.zeros(0), 0.0, 0.0
    if method == "isotonic":
        points, probabilities = _isotonic(scores, positive)
        probabilities = np.clip(probabilities, low, high)
    else:
        slope, offset = _platt(scores, np.where(positive, high, low))
    return Calibration(
        method=method,
        scores=points,
        probabilities=probabilities,
        slope=slope,
        offset=offset,
        edges=np.quantile(scores, _QUANTILES),
        n_rows=len(scores),
        n_positive=n_positive,
    )


def _isotonic(scores: np.ndarray, positive: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The ends of each constant piece of the isotonic fit."""
    from scipy.optimize import isotonic_regression

    points, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    shares = np.bincount(place, weights=positive) / counts
    fit = isotonic_regression(shares, weights=counts).x
    ends = np.ones(len(points), dtype=bool)
    ends[1:-1] = (fit[1:-1] != fit[:-2]) | (fit[1:-1] != fit[2:])
    return points[ends], fit[ends]


def _platt(scores: np.ndarray, targets: np.ndarray) -> tuple[float, float]:
    """Slope and offset; the slope is not negative: of a ranking that is worse than none, nothing is used."""
    unit = 2.0 ** int(np.frexp(np.abs(scores).max())[1].clip(-1021, 1023))  # squares of scores may overflow
    scores = scores / unit
    centre, scale = float(scores.mean()), float(scores.std())
    share = float(targets.mean())
    constant = 0.0, float(np.log(share / (1.0 - share)))
    if not scale > 0.0:
        return constant
    s = (scores - centre) / scale  # Newton's method does not depend on the scale, its arithmetic does
    a, b = constant
    loss = _loss(a, b, s, targets)
    for _ in range(_NEWTON_STEPS):
        p = _logistic(a * s + b)
        residuals, curvature = p - targets, p * (1.0 - p)
        g_a, g_b = float(residuals @ s), float(residuals.sum())
        if max(abs(g_a), abs(g_b)) <= 1e-9 * len(s):
            break
        h_aa, h_ab, h_bb = float(curvature @ (s * s)) + 1e-12, float(curvature @ s), float(curvature.sum()) + 1e-12
        determinant = h_aa * h_bb - h_ab * h_ab
        d_a, d_b = (h_ab * g_b - h_bb * g_a) / determinant, (h_ab * g_a - h_aa * g_b) / determinant
        slope, step = g_a * d_a + g_b * d_b, 1.0
        for _ in range(_HALVINGS):
            new = _loss(a + step * d_a, b + step * d_b, s, targets)
            if new <= loss + 1e-4 * step * slope:
                break
            step /= 2.0
        else:
            break  # as low as rounding lets it be
        a, b, loss = a + step * d_a, b + step * d_b, new
    slope = float(a) / scale / unit
    return (slope, b - a * centre / scale) if a > 0.0 and slope < np.inf else constant


def _loss(a: float, b: float, s: np.ndarray, targets: np.ndarray) -> float:
    z = a * s + b
    return float((np.logaddexp(0.0, z) - targets * z).sum())


def _logistic(z: np.ndarray) -> np.ndarray:
    return np.exp(-np.logaddexp(0.0, -z))  # exact for small probabilities


class Reliability:
    """How well probabilities agree with what happened, for calibrated ones, the logistic function, and a constant.

    Parameters
    ----------
    edges : ndarray
        Scores that separate the bins.
    constant : float
        The share of positives that is known beforehand.
    """

    def __init__(self, edges: np.ndarray, constant: float):
        self._edges, self._constant = edges, constant
        n_bins = len(edges) + 1
        self._n, self._positive, self._predicted = np.zeros(n_bins), np.zeros(n_bins), np.zeros((3, n_bins))
        self._brier, self._log_loss = np.zeros(3), np.zeros(3)

    def add(self, scores: np.ndarray, probabilities: np.ndarray, positive: np.ndarray) -> None:
        """Take in more rows: scores, calibrated probabilities, and which rows are positive."""
        bins = np.searchsorted(self._edges, scores, side="right")
        n_bins = len(self._n)
        self._n += np.bincount(bins, minlength=n_bins)
        self._positive += np.bincount(bins, weights=positive, minlength=n_bins)
        y = positive.astype(float)
        constant = np.full(len(scores), self._constant)
        for k, p in enumerate((_logistic(scores), probabilities, constant)):
            self._predicted[k] += np.bincount(bins, weights=p, minlength=n_bins)
            self._brier[k] += float(((p - y) ** 2).sum())
            kept = np.clip(p, _SMALLEST, 1.0 - _SMALLEST)
            self._log_loss[k] -= float(np.log(np.where(positive, kept, 1.0 - kept)).sum())

    def to_json(self) -> dict[str, Any]:
        """What `show.reliability_lines` prints.

        ``figures`` are Brier score and log loss of the three, and the expected calibration error of the first two: the
        mean over rows of the distance, in the row's bin, between the mean probability and the share of positives. A
        constant says nothing about bins of scores. ``bins`` has rows, mean calibrated probability and share of
        positives of each bin that is not empty.
        """
        n_rows = int(self._n.sum())
        n = max(1, n_rows)
        errors = np.abs(self._predicted - self._positive).sum(axis=1) / n
        figures = {}
        for k, name in enumerate(("logistic", "calibrated", "constant")):
            figures[name] = {"brier": float(self._brier[k] / n), "log_loss": float(self._log_loss[k] / n)}
            if name != "constant":
                figures[name]["calibration_error"] = float(errors[k])
        filled = self._n > 0
        shares = np.stack([self._predicted[1], self._positive], axis=1)[filled] / self._n[filled, None]
        bins = [[int(rows), *pair] for rows, pair in zip(self._n[filled], shares.tolist())]
        return {"n_rows": n_rows, "n_positive": int(self._positive.sum()), "figures": figures, "bins": bins}
