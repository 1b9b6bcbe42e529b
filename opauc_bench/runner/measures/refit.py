"""The last step of a task: train the chosen setting by itself, and measure it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..work import Work

__all__ = ["refit"]


def refit(
    work: Work,
    train: np.ndarray,
    best_first: Iterable[int],
    measure: Callable[[np.ndarray], dict[str, float]],
    outcome: dict[str, Any],
) -> dict[str, Any]:
    """Train one setting alone, the next best one where it overflows.

    Parameters
    ----------
    work : Work
    train : ndarray of int
        Rows to learn from, in this order.
    best_first : iterable of int
        Positions of the settings in the grid.
    measure : callable
        From weights of shape (n_features, 1) to metrics; an empty dict where the weights overflowed.
    outcome : dict
        What is known already.

    Returns
    -------
    dict
        Status, message, outcome and timing of the record.
    """
    selection_cpu = work.cpu_seconds
    refused: list[dict[str, float]] = []
    for setting in best_first:
        selected = {axis: float(values[setting]) for axis, values in work.grid.items()}
        fit_cpu = time.process_time()
        coef = work.learner.fit_grid(
            work.data.X,
            work.data.y,
            {axis: np.array([value]) for axis, value in selected.items()},
            order=train,
            on_chunk=work.deadline.check,
        )
        fit_cpu = time.process_time() - fit_cpu
        if metrics := measure(coef):
            outcome |= {"metrics": metrics, "selected": selected, "diverged_in_refit": refused}
            if info := work.learner.provenance():
                outcome["learner_info"] = info
            timing = {"selection_cpu_seconds": selection_cpu, "fit_cpu_seconds": fit_cpu}
            return {"status": "ok", "outcome": outcome, "timing": timing}
        # It stayed finite while the settings were compared, but not here: on more rows, or by a hair.
        refused.append(selected)
    outcome["diverged_in_refit"] = refused
    return {"status": "diverged", "message": "no setting stayed finite", "outcome": outcome}
