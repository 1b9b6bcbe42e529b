"""Kind ``holdout``: the setting that validates best, trained once more by itself, scored on the test rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...evaluation.auc import AUCS
from ...evaluation.holdout import HoldoutSplit, holdout_split
from ...evaluation.selection import fit_and_score, ranking, score_columns
from ..work import Work, from_json, to_json
from .refit import refit

__all__ = ["measure_holdout"]


def measure_holdout(work: Work) -> dict[str, Any]:
    """Compute one trial.

    Returns
    -------
    dict
        Status, metrics on the test rows, chosen setting, the validation AUCs and timings.
    """
    task, data, settings = work.task, work.data, work.task.protocol
    split = holdout_split(
        data.y,
        trial=task.trial,
        dataset=task.dataset,
        **{key: settings[key] for key in ("shares", "split", "imbalance", "seed")},
    )
    train = split.train[: task.max_train]
    outcome = {
        "status": "diverged",
        "message": "no setting stayed finite",
        "n_train": len(train),
        "n_validation": len(split.validation),
        "n_test": len(split.test),
    }
    if work.lender is not None:
        best = ranking(_validate(work, *work.lender, split, train, "lender"))
        if len(best) == 0:
            return outcome | {"message": f"no setting of {task.lender['learner']}, which chooses first, stayed finite"}
        lent = {axis: work.lender[1][axis][best[0]] for axis in task.lender["axes"]}
        n_settings = len(next(iter(work.grid.values())))
        work.grid = {**work.grid, **{axis: np.full(n_settings, value) for axis, value in lent.items()}}
    aucs = _validate(work, work.learner, work.grid, split, train, "validation")
    outcome["selection"] = {
        "n_settings": len(aucs),
        "n_diverged": int(np.isnan(aucs).sum()),
        "auc": to_json(aucs),
    }

    def measure(coef: np.ndarray) -> dict[str, Any]:
        metrics = _metrics(data, split.test, coef, settings["auc"])
        return {"metrics": metrics} if np.isfinite(metrics["auc"]) else {}

    return outcome | refit(work, train, ranking(aucs), measure)


def _validate(work: Work, learner, grid, split: HoldoutSplit, train: np.ndarray, name: str) -> np.ndarray:
    """AUC of every setting on the validation rows; finished ones are kept under ``name``."""
    if "random_state" in learner.get_params():
        learner.set_params(random_state=split.seed)
    kept = work.partial.get(name, {})

    def keep(aucs: dict[int, float]) -> None:
        work.partial[name] = dict(zip(map(str, aucs), to_json(np.array(list(aucs.values())))))
        work.keep({key: work.partial[key] for key in ("lender", "validation") if key in work.partial})

    return fit_and_score(
        learner,
        work.data.X,
        work.data.y,
        grid,
        train,
        split.validation,
        memory_bytes=work.memory_bytes,
        on_chunk=work.deadline.check,
        auc=AUCS[work.task.protocol["auc"]],
        finished=dict(zip(map(int, kept), from_json(list(kept.values())))),
        on_block=keep,
    )


def _metrics(data, rows: np.ndarray, coef: np.ndarray, auc: str) -> dict[str, float]:
    """What is measured of one model; the exact AUC beside another one, so that no reader has to do without it."""
    y = data.y[rows]
    found = {"auc": float(score_columns(data.X, y, rows, coef, AUCS[auc])[0])}
    if auc != "exact":
        found["auc_exact"] = float(score_columns(data.X, y, rows, coef)[0])
    return {**found, "sparse_ratio": np.count_nonzero(coef) / len(coef)}
