"""Kind ``sketch_error``: how far what a learner keeps of each class's second moments is from the second moments."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...evaluation.sketch_error import second_moment_norm, sketch_errors
from ...evaluation.splits import seed_for
from ...learners.opauc.second_moments import second_moment_sketch
from ..work import Work, from_json, to_json

__all__ = ["measure_sketch_error"]


def measure_sketch_error(work: Work) -> dict[str, Any]:
    """Sketch the rows of each class, in one random order, at every size.

    Returns
    -------
    dict
        Status, and for each class the Frobenius errors as shares of the norm of its second moments.
    """
    task, data, protocol = work.task, work.data, work.task.protocol
    seed = seed_for("sketch", protocol["seed"], task.dataset, task.trial)
    order = np.random.default_rng(seed).permutation(data.X.shape[0])[: task.max_train]
    if "random_state" in work.learner.get_params():
        work.learner.set_params(random_state=seed)
    finished = {name: list(from_json(errors)) for name, errors in work.partial.get("errors", {}).items()}
    for name, label in (("positive_error", 1), ("negative_error", -1)):
        errors = finished.setdefault(name, [])
        if len(errors) == len(protocol["sizes"]):
            continue
        rows = data.X[order[np.asarray(data.y[order]) == label]]
        norm = second_moment_norm(rows)
        for size in protocol["sizes"][len(errors) :]:
            work.deadline.check()
            errors += sketch_errors(rows, [size], _build(work.learner), norm).tolist()
            work.keep({"errors": {key: to_json(values) for key, values in finished.items()}})
    columns = {name: to_json(errors) for name, errors in finished.items()}
    return {
        "status": "ok",
        "outcome": {"kind": "sketch_error", "n_train": len(order), "columns": columns},
        "timing": {"fit_cpu_seconds": work.cpu_seconds},
    }


def _build(learner):
    return lambda rows, size: second_moment_sketch(learner.set_params(tau=size), rows)
