"""Metrics of scores beside the AUC, ties handled as scikit-learn does.

Names are those of an experiment file: ``auc``, ``average_precision``, ``partial_auc@F`` with a false positive rate F,
and for models with probabilities ``log_loss`` and ``brier``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

import numpy as np

from ..errors import suggest
from .auc import auc_columns, positive_rows

__all__ = ["RANKING", "evaluate", "metric_name", "needs_probabilities", "ranking_metric", "selection_metric"]

Metric = Callable[[Any, np.ndarray], np.ndarray]

_PARTIAL = re.compile(r"partial_auc@(\d*\.?\d+(?:e-\d+)?)")
RANKING = ("auc", "average_precision", "partial_auc@F")
_OF_PROBABILITIES = ("log_loss", "brier")


def metric_name(text: str) -> str:
    """Return a metric's name in its one spelling, such as ``partial_auc@0.1``.

    Raises
    ------
    ValueError
        If there is no such metric, or a false positive rate is not between 0 and 1.
    """
    if (found := _PARTIAL.fullmatch(text)) and 0 < float(found[1]) < 1:
        return f"partial_auc@{float(found[1])!r}"
    known = (*RANKING, *_OF_PROBABILITIES)
    if text in known and "@" not in text:
        return text
    advice = "" if text in known else suggest(text, known)
    rate = "; F is a false positive rate between 0 and 1, as in partial_auc@0.1" if "partial" in text else ""
    raise ValueError(f"no metric is called {text!r}{advice}; known: {', '.join(known)}{rate}")


def needs_probabilities(name: str) -> bool:
    """Whether a metric is one of probabilities, which a ranking does not have."""
    return name in _OF_PROBABILITIES


def ranking_metric(name: str) -> Metric:
    """Return the function of a ranking metric, from labels and columns of scores to a value per column.

    Values are NaN where a score of a column is not finite. ValueError for a metric of probabilities; the function
    raises it if the labels are not of two classes.
    """
    if name == "auc":
        return auc_columns
    if name == "average_precision":
        return partial(_by_column, _average_precision)
    if found := _PARTIAL.fullmatch(name):
        return partial(_by_column, partial(_partial_auc, max_fpr=float(found[1])))
    raise ValueError(f"{name} is not a metric of a ranking")


def selection_metric(name: str) -> Metric:
    """Return the function by which settings are selected, the larger the better: of a loss, minus its value.

    NaN where a score is not finite, or a probability not between 0 and 1. Its attribute ``of_probabilities`` says
    whether its columns are probabilities instead of scores.
    """
    if needs_probabilities(name):
        return _NegativeLoss(_log_loss if name == "log_loss" else _brier)
    return ranking_metric(name)


class _NegativeLoss:
    of_probabilities = True

    def __init__(self, loss: Callable[[np.ndarray, np.ndarray], float]):
        self._loss = loss

    def __call__(self, y: Any, probabilities: np.ndarray) -> np.ndarray:
        inside = ((probabilities >= 0) & (probabilities <= 1)).all(axis=0)
        return -_by_column(self._loss, y, np.where(inside, probabilities, np.nan))


def evaluate(
    names: Collection[str], y: Any, scores: np.ndarray, probabilities: np.ndarray | None
) -> dict[str, float | None]:
    """Metrics of one model.

    Parameters
    ----------
    names : collection of str
        In the spelling of `metric_name`.
    y : ndarray of shape (n_samples,)
        Two classes; the greater label is positive.
    scores : ndarray of shape (n_samples,)
        Finite.
    probabilities : ndarray of shape (n_samples,) or None
        Of the positive class.

    Returns
    -------
    dict of str to float or None
        None for metrics of probabilities, where there are none, or some are not between 0 and 1.
    """
    if probabilities is not None and not ((probabilities >= 0) & (probabilities <= 1)).all():
        probabilities = None
    values: dict[str, float | None] = {}
    for name in names:
        if not needs_probabilities(name):
            values[name] = float(ranking_metric(name)(y, scores[:, None])[0])
        elif probabilities is None:
            values[name] = None
        else:
            positive = positive_rows(y)
            values[name] = (_log_loss if name == "log_loss" else _brier)(positive, np.asarray(probabilities))
    return values


def _by_column(metric: Callable[[np.ndarray, np.ndarray], float], y: Any, scores: np.ndarray) -> np.ndarray:
    positive = positive_rows(y)
    return np.array([metric(positive, column) if np.isfinite(column).all() else np.nan for column in scores.T])


def _counts(positive: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """True and false positives at each distinct threshold, from the largest score on."""
    order = np.argsort(-scores, kind="stable")
    ordered = scores[order]
    last = np.append(np.flatnonzero(ordered[1:] != ordered[:-1]), len(ordered) - 1)  # of rows with equal scores
    true = np.cumsum(positive[order])[last]
    return true, 1 + last - true


def _average_precision(positive: np.ndarray, scores: np.ndarray) -> float:
    """Precision at each threshold, weighted by the increase of recall."""
    true, false = _counts(positive, scores)
    return float(np.sum(np.diff(true, prepend=0) * (true / (true + false))) / true[-1])


def _partial_auc(positive: np.ndarray, scores: np.ndarray, max_fpr: float) -> float:
    """Area below the ROC curve up to a false positive rate, standardised: 0.5 by chance, 1 at best (McClish 1989)."""
    true, false = _counts(positive, scores)
    tpr, fpr = np.append(0.0, true / true[-1]), np.append(0.0, false / false[-1])
    inside = np.searchsorted(fpr, max_fpr, side="right")
    at_limit = np.interp(max_fpr, fpr[inside - 1 : inside + 1], tpr[inside - 1 : inside + 1])
    area = np.trapezoid(np.append(tpr[:inside], at_limit), np.append(fpr[:inside], max_fpr))
    least = 0.5 * max_fpr**2
    # Rounding may exceed 1, which no record accepts.
    return min(1.0, float(0.5 * (1 + (area - least) / (max_fpr - least))))


def _log_loss(positive: np.ndarray, probabilities: np.ndarray) -> float:
    """Mean negative logarithm of the true class's probability, which is cut off at machine precision."""
    eps = np.finfo(probabilities.dtype).eps
    p = np.clip(probabilities, eps, 1 - eps)
    return float(-np.mean(np.where(positive, np.log(p), np.log1p(-p))))


def _brier(positive: np.ndarray, probabilities: np.ndarray) -> float:
    """Mean squared difference of probability and label."""
    return float(np.mean((probabilities - positive) ** 2))
