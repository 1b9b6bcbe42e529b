"""How long one setting takes to train: the same pass several times over, on a quiet machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

__all__ = ["Timing", "time_training"]


@dataclass(frozen=True)
class Timing:
    """Repeated measurements of the same work, in seconds.

    Attributes
    ----------
    cpu : ndarray of shape (repeats,)
        CPU time of this process, all threads.
    wall : ndarray of shape (repeats,)
        Time on the clock.
    coef : ndarray of shape (n_features, 1)
        What was trained.
    """

    cpu: np.ndarray
    wall: np.ndarray
    coef: np.ndarray


def time_training(
    learner,
    X,
    y,
    setting: dict[str, float],
    train: np.ndarray,
    repeats: int,
    on_chunk: Callable[[int], None] | None = None,
) -> Timing:
    """Train one setting ``repeats`` times, each from nothing, and time each pass from first row to weights.

    Parameters
    ----------
    learner : LinearRanker
    X, y : arrays
        The whole dataset; reading its rows is part of what is timed.
    setting : dict of axis to float
    train : ndarray of int
        Rows to learn from, in this order.
    repeats : int
    on_chunk : callable, optional
        Passed on to ``fit_grid``.

    Returns
    -------
    Timing
    """
    grid = {axis: np.array([value]) for axis, value in setting.items()}
    cpu, wall = np.empty(repeats), np.empty(repeats)
    for k in range(repeats):
        started = time.process_time(), time.perf_counter()
        coef = learner.fit_grid(X, y, grid, order=train, on_chunk=on_chunk)
        cpu[k], wall[k] = time.process_time() - started[0], time.perf_counter() - started[1]
    return Timing(cpu, wall, coef)
