"""Kinds ``sweep``, ``convergence`` and ``timing``: what figures show.

Their outcomes have columns of equal length: a row for each setting of the grid, for each point of a pass, or one row.
Columns of times are under ``timing``: computed again, they come out otherwise.
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

_ALL_DIVERGED = "no setting stayed finite"


def measure_sweep(work: Work) -> dict[str, Any]:
    """Train and test every setting of the grid.

    Returns
    -------
    dict
        Status, and AUC and sparse ratio of every setting, null where it diverged.
    """
    parts = parts_of(work)
    outcome = {"kind": "sweep", **parts.counts}
    if trouble := borrow_axes(work, parts):
        return {"status": "diverged", "message": trouble, "outcome": outcome}
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
    diverged = bool(np.isnan(measured["auc"]).all())
    return {
        "status": "diverged" if diverged else "ok",
        "message": _ALL_DIVERGED if diverged else "",
        "outcome": {**outcome, "columns": {name: to_json(values) for name, values in measured.items()}},
        "timing": {"fit_cpu_seconds": work.cpu_seconds},
    }


def measure_convergence(work: Work) -> dict[str, Any]:
    """Test one setting on the way through a pass.

    Returns
    -------
    dict
        Status, selected setting, and rows seen, AUC and CPU seconds of learning at each point.
    """
    protocol = work.task.protocol
    parts = parts_of(work)
    at = checkpoints(len(parts.train), protocol["points"], protocol["spacing"])
    content = {"status": "diverged", "message": _ALL_DIVERGED, "timing": {}}
    content["outcome"] = outcome = {"kind": "convergence", **parts.counts}
    for setting in best_settings(work, parts, content):
        began = time.process_time()
        curve = learning_curve(
            work.learner, work.data.X, work.data.y, setting, parts.train, parts.test, at, parts.auc, work.deadline.check
        )
        if np.isfinite(curve.auc[-1]):
            content |= {"status": "ok", "message": ""}
            outcome["selected"] = setting
            outcome["columns"] = {"n_seen": curve.n_seen.tolist(), "auc": to_json(curve.auc)}
            content["timing"]["columns"] = {"seconds": to_json(curve.cpu_seconds)}
            content["timing"]["fit_cpu_seconds"] = time.process_time() - began
            break
    return content


def measure_timing(work: Work) -> dict[str, Any]:
    """Train one setting several times and note how long each pass took.

    Returns
    -------
    dict
        Status, selected setting, medians, every pass, and the load of the machine before and after.
    """
    parts = parts_of(work)
    content = {"status": "diverged", "message": _ALL_DIVERGED, "timing": {}}
    content["outcome"] = outcome = {"kind": "timing", **parts.counts}
    for setting in best_settings(work, parts, content):
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
            content |= {"status": "ok", "message": ""}
            outcome["selected"] = setting
            content["timing"] |= {
                "columns": {name: [float(np.median(values))] for name, values in passes.items()},
                "passes": {name: values.tolist() for name, values in passes.items()},
                "load": [load, os.getloadavg()[0]],
                "fit_cpu_seconds": float(timing.cpu.sum()),
            }
            break
    return content
