"""Kind ``holdout``: the setting that validates best, trained once more by itself, scored on the test rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...evaluation.auc import AUCS
from ...evaluation.holdout import holdout_split
from ...evaluation.selection import fit_and_score, ranking, score_columns
from ..work import Work, from_json, to_json
from .parts import Parts, capped
from .refit import refit

__all__ = ["borrow_axes", "measure_holdout", "select_by_validation", "split_in_three"]


def measure_holdout(work: Work) -> dict[str, Any]:
    """Compute one trial.

    Returns
    -------
    dict
        Status, metrics on the test rows, selected setting, the validation AUCs and timings; see
        `results.record.HoldoutOutcome`.
    """
    protocol = work.task.protocol
    parts = split_in_three(work, protocol)
    outcome = {"kind": "holdout", **parts.counts}
    if trouble := borrow_axes(work, parts):
        return {"status": "diverged", "message": trouble, "outcome": outcome}
    aucs, outcome["selection"] = select_by_validation(work, protocol, parts)

    def measure(coef: np.ndarray) -> dict[str, float]:
        metrics = _metrics(work.data, parts.test, coef, protocol["auc"])
        return metrics if np.isfinite(metrics["auc"]) else {}

    return refit(work, parts.train, ranking(aucs), measure, outcome)


def split_in_three(work: Work, protocol: dict[str, Any]) -> Parts:
    """Training, validation and test set of the task's trial."""
    split = holdout_split(
        work.data.y,
        trial=work.task.trial,
        dataset=work.task.dataset,
        **{key: protocol[key] for key in ("shares", "split", "imbalance", "seed")},
    )
    return Parts(capped(split.train, work, 1), split.test, split.seed, split.validation, AUCS[protocol["auc"]])


def borrow_axes(work: Work, parts: Parts) -> str:
    """Let another column's learner, if the task names one, choose values first; tell why it cannot, or nothing."""
    if work.lender is None:
        return ""
    lender = work.task.lender
    best = ranking(_validate(work, *work.lender, parts, "lender"))
    if len(best) == 0:
        return f"no setting of {lender['learner']}, which chooses first, stayed finite"
    lent = {axis: work.lender[1][axis][best[0]] for axis in lender["axes"]}
    n_settings = len(next(iter(work.grid.values())))
    work.grid = {**work.grid, **{axis: np.full(n_settings, value) for axis, value in lent.items()}}
    return ""


def select_by_validation(work: Work, protocol: dict[str, Any], parts: Parts) -> tuple[np.ndarray, dict[str, Any]]:
    """AUC of every setting on the validation set, and the same for the record."""
    aucs = _validate(work, work.learner, work.grid, parts, "validation")
    return aucs, {"n_settings": len(aucs), "n_diverged": int(np.isnan(aucs).sum()), "auc": to_json(aucs)}


def _validate(work: Work, learner, grid, parts: Parts, name: str) -> np.ndarray:
    """AUC of every setting on the validation rows; finished ones are kept under ``name``."""
    parts.seed_learner(learner)
    kept = work.partial.get(name, {})

    def keep(aucs: dict[int, float]) -> None:
        work.partial[name] = dict(zip(map(str, aucs), to_json(list(aucs.values()))))
        work.keep({key: work.partial[key] for key in ("lender", "validation") if key in work.partial})

    return fit_and_score(
        learner,
        work.data.X,
        work.data.y,
        grid,
        parts.train,
        parts.validation,
        memory_bytes=work.memory_bytes,
        on_chunk=work.deadline.check,
        auc=parts.auc,
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
