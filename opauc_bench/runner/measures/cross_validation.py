"""Kind ``cv``: inner grid search, refit with the best setting, test AUC."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...evaluation.selection import cross_validate, ranking, score_columns
from ...evaluation.splits import outer_fold
from ..work import Work, from_json, to_json
from .parts import Parts, capped
from .refit import refit

__all__ = ["measure_cross_validation", "select_by_inner_folds", "split_into_folds"]


def measure_cross_validation(work: Work) -> dict[str, Any]:
    """Compute one outer fold.

    Returns
    -------
    dict
        Status, test AUC, selected setting, the inner AUCs and timings; see `results.record.CrossValidationOutcome`.
    """
    parts = split_into_folds(work, work.task.protocol)
    aucs, selection = select_by_inner_folds(work, work.task.protocol, parts)
    data = work.data

    def measure(coef: np.ndarray) -> dict[str, float]:
        auc = score_columns(data.X, data.y[parts.test], parts.test, coef)[0]
        return {"auc": float(auc)} if np.isfinite(auc) else {}

    return refit(work, parts.train, ranking(aucs), measure, {"kind": "cv", **parts.counts, "selection": selection})


def split_into_folds(work: Work, protocol: dict[str, Any]) -> Parts:
    """Training and test set of the task's trial and fold."""
    task = work.task
    fold = outer_fold(
        work.data.y,
        trial=task.trial,
        fold=task.fold,
        folds=protocol["folds"],
        stratified=protocol["stratified"],
        seed=protocol["seed"],
        dataset=task.dataset,
    )
    return Parts(capped(fold.train, work, protocol["inner_folds"]), fold.test, fold.seed)


def select_by_inner_folds(work: Work, protocol: dict[str, Any], parts: Parts) -> tuple[np.ndarray, dict[str, Any]]:
    """Mean AUC of every setting over the inner folds, and the same for the record."""
    parts.seed_learner(work.learner)
    finished = {int(k): from_json(aucs) for k, aucs in work.partial.get("inner_aucs", {}).items()}

    def keep(inner_fold: int, aucs: np.ndarray) -> None:
        finished[inner_fold] = aucs
        work.keep({"inner_aucs": {k: to_json(v) for k, v in finished.items()}})

    selection = cross_validate(
        work.learner,
        work.data.X if work.narrow is None else work.narrow,
        work.data.y,
        work.grid,
        parts.train,
        inner_folds=protocol["inner_folds"],
        stratified=protocol["stratified"],
        seed=parts.seed,
        memory_bytes=work.memory_bytes,
        on_chunk=work.deadline.check,
        finished=dict(finished),
        on_fold=keep,
    )
    mean_auc = selection.mean_auc
    return mean_auc, {
        "n_settings": len(mean_auc),
        "n_diverged": int(np.isnan(mean_auc).sum()),
        "auc": to_json(mean_auc),
    }
