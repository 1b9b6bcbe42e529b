"""How good a model is while it learns: its test AUC and the time spent at given points of one pass."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from .auc import auc_columns
from .selection import score_columns

__all__ = ["Curve", "checkpoints", "learning_curve"]


@dataclass(frozen=True)
class Curve:
    """Test AUC along one pass; all arrays are of shape (n_points,).

    Attributes
    ----------
    n_seen : ndarray of int
        Rows learned from.
    auc : ndarray
        On the test rows, NaN from where the weights overflow.
    cpu_seconds : ndarray
        CPU time of learning so far, without what forming and scoring the models took; NaN like ``auc``.
    """

    n_seen: np.ndarray
    auc: np.ndarray
    cpu_seconds: np.ndarray


def checkpoints(n_rows: int, n_points: int, spacing: Literal["linear", "log"] = "linear") -> np.ndarray:
    """Where along a pass to look: increasing numbers of rows, the last of them ``n_rows``.

    Parameters
    ----------
    n_rows : int
        Length of the pass.
    n_points : int
        Looks at most; fewer where several would fall on one row.
    spacing : {'linear', 'log'}
        Even steps, or even ratios that start from ten rows (from one where there are fewer).

    Returns
    -------
    ndarray of int
    """
    if spacing == "log":
        points = np.geomspace(min(10, n_rows), n_rows, n_points)
    else:
        points = n_rows * np.arange(1, n_points + 1) / n_points
    return np.unique(np.maximum(1, np.rint(points).astype(np.int64)))


def learning_curve(
    learner,
    X,
    y,
    setting: dict[str, float],
    train: np.ndarray,
    test: np.ndarray,
    at: np.ndarray,
    auc: Callable[..., np.ndarray] = auc_columns,
    on_chunk: Callable[[int], None] | None = None,
) -> Curve:
    """Train one setting in one pass and test it on the way.

    Parameters
    ----------
    learner : OnePassLearner
    X, y : arrays
        The whole dataset.
    setting : dict of axis to float
    train, test : ndarray of int
        Rows to learn from, in this order, and rows to score.
    at : ndarray of int
        Numbers of rows after which to test, increasing and at most ``len(train)``.
    auc : callable
        From labels and columns of scores to an AUC a column.
    on_chunk : callable, optional
        Passed on to ``fit_grid``.

    Returns
    -------
    Curve
    """
    aucs, seconds = np.full(len(at), np.nan), np.full(len(at), np.nan)
    position = {int(n): k for k, n in enumerate(at)}
    labels = y[test]
    learned, since = 0.0, time.process_time()

    def look(n_rows: int, weights: Callable[[], np.ndarray]) -> None:
        nonlocal learned, since
        learned += time.process_time() - since
        value = score_columns(X, labels, test, weights(), auc)[0]
        if np.isfinite(value):
            aucs[position[n_rows]], seconds[position[n_rows]] = value, learned
        since = time.process_time()

    learner.fit_grid(
        X,
        y,
        {axis: np.array([value]) for axis, value in setting.items()},
        order=train,
        on_chunk=on_chunk,
        stops=frozenset(position),
        on_stop=look,
    )
    return Curve(np.asarray(at), aucs, seconds)
