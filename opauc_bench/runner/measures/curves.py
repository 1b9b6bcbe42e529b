"""Kinds ``sweep``, ``convergence`` and ``timing``: what figures show.

Their records have under ``measured`` columns of equal length: a row for each setting of the grid, for each point of a
pass, or one row. Columns of times are under ``measured`` of ``timing``: computed again, they come out otherwise.
"""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np

from ...evaluation.convergence import checkpoints, learning_curve
from ...evaluation.sweep import sweep
from ...evaluation.timing import time_training
from ..work import Work, from_json, to_json
from .choice import best_settings, parts_of
from .holdout import borrow_axes

__all__ = ["measure_convergence", "measure_sweep", "measure_timing"]


def measure_sweep(work: Work) -> dict[str, Any]:
    """Train and test every setting of the grid.

    Returns
    -------
    dict
        Status, and AUC and sparse ratio of every setting, null where it diverged.
    """
    parts = parts_of(work)
    if trouble := borrow_axes(work, parts):
        return {"status": "diverged", "message": trouble, **parts.counts}
    scored = {"auc": parts.test, **({} if parts.validation is None else {"validation_auc": parts.validation})}
    kept = {int(setting): values for setting, values in work.partial.get("sweep", {}).items()}

    def keep(found: dict[int, dict[str, float]]) -> None:
        work.keep(
            {"sweep": {k: dict(zip(values, to_json(np.array(list(values.values()))))) for k, values in found.items()}}
        )

    measured = sweep(
        work.learner,
        work.data.X,
        work.data.y,
        work.grid,
        parts.train,
        scored,
        # Sparse ratios and two sets of scores come on top of what a learner reckons with.
        memory_bytes=None if work.memory_bytes is None else work.memory_bytes / 2,
        on_chunk=work.deadline.check,
        auc=parts.auc,
        finished={int(k): dict(zip(row, from_json(list(row.values())))) for k, row in kept.items()},
        on_block=keep,
    )
    n_diverged = int(np.isnan(measured["auc"]).sum())
    outcome = {"status": "ok", "message": ""}
    if n_diverged == len(measured["auc"]):
        outcome = {"status": "diverged", "message": "no setting stayed finite"}
    return {
        **outcome,
        **parts.counts,
        "measured": {name: to_json(values) for name, values in measured.items()},
        "timing": {"fit_cpu_seconds": work.cpu_seconds},
    }


def measure_convergence(work: Work) -> dict[str, Any]:
    """Test one setting on the way through a pass.

    Returns
    -------
    dict
        Status, chosen setting, and rows seen, AUC and CPU seconds of learning at each point.
    """
    protocol = work.task.protocol
    parts = parts_of(work)
    at = checkpoints(len(parts.train), protocol["points"], protocol["spacing"])
    outcome = {"status": "diverged", "message": "no setting stayed finite", **parts.counts, "timing": {}}
    for setting in best_settings(work, parts, outcome):
        began = time.process_time()
        curve = learning_curve(
            work.learner, work.data.X, work.data.y, setting, parts.train, parts.test, at, parts.auc, work.deadline.check
        )
        if np.isfinite(curve.auc[-1]):
            outcome |= {"status": "ok", "message": "", "chosen": setting}
            outcome["measured"] = {"n_seen": curve.n_seen.tolist(), "auc": to_json(curve.auc)}
            outcome["timing"]["measured"] = {"seconds": to_json(curve.cpu_seconds)}
            outcome["timing"]["fit_cpu_seconds"] = time.process_time() - began
            break
    return outcome


def measure_timing(work: Work) -> dict[str, Any]:
    """Train one setting several times and note how long each pass took.

    Returns
    -------
    dict
        Status, chosen setting, medians, every pass, and the load of the machine before and after.
    """
    parts = parts_of(work)
    outcome = {"status": "diverged", "message": "no setting stayed finite", **parts.counts, "timing": {}}
    for setting in best_settings(work, parts, outcome):
        load = os.getloadavg()[0]
        timing = time_training(
            work.learner,
            work.data.X,
            work.data.y,
            setting,
            parts.train,
            work.task.protocol["repeats"],
            work.deadline.check,
        )
        if np.isfinite(timing.coef).all():
            passes = {"seconds": timing.cpu, "wall_seconds": timing.wall}
            outcome |= {"status": "ok", "message": "", "chosen": setting, "measured": {}}
            outcome["timing"] |= {
                "measured": {name: [float(np.median(values))] for name, values in passes.items()},
                "passes": {name: values.tolist() for name, values in passes.items()},
                "load": [load, os.getloadavg()[0]],
                "fit_cpu_seconds": float(timing.cpu.sum()),
            }
            break
    return outcome
