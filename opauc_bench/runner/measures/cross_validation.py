"""Kind ``cv``: inner grid search, refit with the best setting, test AUC."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from ...evaluation.selection import cross_validate, ranking, score_columns
from ...evaluation.splits import outer_fold
from ..work import Work, from_json, to_json

__all__ = ["measure_cross_validation"]


def measure_cross_validation(work: Work) -> dict[str, Any]:
    """Compute one outer fold.

    Returns
    -------
    dict
        Status, test AUC, chosen setting, the inner AUCs and timings.
    """
    task, data, grid = work.task, work.data, work.grid
    protocol = task.protocol
    fold = outer_fold(
        data.y,
        trial=task.trial,
        fold=task.fold,
        folds=protocol["folds"],
        stratified=protocol["stratified"],
        seed=protocol["seed"],
        dataset=task.dataset,
    )
    # Rows of a fold are in random order, so the first ones are a random sample.
    train = fold.train[: task.max_train]
    learner = work.learner
    if "random_state" in learner.get_params():
        learner.set_params(random_state=fold.seed)
    finished = {int(k): from_json(aucs) for k, aucs in work.partial.get("inner_aucs", {}).items()}

    def keep(inner_fold: int, aucs: np.ndarray) -> None:
        finished[inner_fold] = aucs
        work.keep({"inner_aucs": {k: to_json(v) for k, v in finished.items()}})

    selection = cross_validate(
        learner,
        data.X if work.narrow is None else work.narrow,
        data.y,
        grid,
        train,
        inner_folds=protocol["inner_folds"],
        stratified=protocol["stratified"],
        seed=fold.seed,
        memory_bytes=work.memory_bytes,
        on_chunk=work.deadline.check,
        finished=dict(finished),
        on_fold=keep,
    )
    selection_cpu = work.cpu_seconds
    mean_auc = selection.mean_auc
    outcome = {
        "status": "diverged",
        "message": "no setting stayed finite",
        "n_train": len(train),
        "n_test": len(fold.test),
        "selection": {
            "n_settings": len(mean_auc),
            "n_diverged": int(np.isnan(mean_auc).sum()),
            "mean_auc": to_json(mean_auc),
        },
    }
    refused = []
    for setting in ranking(mean_auc):
        chosen = {axis: float(values[setting]) for axis, values in grid.items()}
        fit_cpu = time.process_time()
        coef = learner.fit_grid(
            data.X,
            data.y,
            {axis: np.array([value]) for axis, value in chosen.items()},
            order=train,
            on_chunk=work.deadline.check,
        )
        fit_cpu = time.process_time() - fit_cpu
        auc = score_columns(data.X, data.y[fold.test], fold.test, coef)[0]
        if np.isfinite(auc):
            outcome |= {"status": "ok", "message": "", "test_auc": float(auc), "chosen": chosen}
            outcome["timing"] = {"selection_cpu_seconds": selection_cpu, "fit_cpu_seconds": fit_cpu}
            if info := learner.provenance():
                outcome["learner_info"] = info
            break
        # It stayed finite on every inner training set, but not on the larger outer one.
        refused.append(chosen)
    if refused:
        outcome["diverged_in_refit"] = refused
    return outcome
