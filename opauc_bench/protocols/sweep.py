"""Kind ``sweep``: every setting of the grid, trained on each training set and tested."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from ..task import Task, expand_grid
from .base import Cost, KnownKind, TrainingCost, scoring_seconds
from .context import TaskContext
from .on_splits import OnSplits
from .outcome import CurveOutcome, from_json, to_json

__all__ = ["Sweep", "SweepOutcome", "sweep"]


class SweepOutcome(CurveOutcome):
    """Every setting of the grid, trained and tested; one point per setting."""

    needs: ClassVar = ("columns.auc", "columns.sparse_ratio")
    kind: Literal["sweep"]


class Sweep(OnSplits):
    """Every setting of the grid, trained on each training set and tested: the influence of a hyper-parameter."""

    outcome: ClassVar = SweepOutcome
    sweeps: ClassVar = True
    unused: ClassVar = ("metrics", "keep_scores", "select")

    kind: Annotated[Literal["sweep"], KnownKind] = Field(
        "sweep", description="sweep: every setting of the grid, trained and tested."
    )

    @property
    def quantities(self) -> tuple[str, ...]:
        has_validation = self.splits.sizes(1, None)[1] > 0
        return ("auc", "sparse_ratio", *(("validation_auc",) if has_validation else ()))

    def cost(self, n_samples: int, n_settings: int, max_train: int | None, training: TrainingCost) -> Cost:
        train, validation, test = self.splits.sizes(n_samples, max_train)
        seconds, memory = training(train, n_settings)
        scored = validation + test
        return seconds + scoring_seconds(scored, n_settings), memory + 16.0 * max(validation, test) * n_settings

    def compute(self, context: TaskContext) -> dict[str, Any]:
        """Train and test every setting; see `Protocol.compute`. Values are null where a setting diverged."""
        split = self.make_split(context)
        outcome = {"kind": "sweep", **split.counts}
        if message := self.splits.inherit_axes(context, split):
            return {"status": "diverged", "message": message, "outcome": outcome}
        sets = {"auc": split.test} | ({} if split.validation is None else {"validation_auc": split.validation})
        measured = sweep(context, split.train, sets, self.splits.auc_columns)
        diverged = bool(np.isnan(measured["auc"]).all())
        return {
            "status": "diverged" if diverged else "ok",
            "message": context.all_diverged if diverged else "",
            "outcome": {**outcome, "columns": {name: to_json(values) for name, values in measured.items()}},
            "timing": {"fit_cpu_seconds": context.cpu_seconds},
        }

    def point_axes(self, task: Task) -> dict[str, Sequence[float]]:
        return {axis: values.tolist() for axis, values in expand_grid(task.grid).items()}

    def n_points(self, task: Task) -> int:
        return task.n_settings


def sweep(
    context: TaskContext, train: np.ndarray, sets: dict[str, np.ndarray], auc: Callable[..., np.ndarray]
) -> dict[str, np.ndarray]:
    """Train every setting on the rows ``train``, in as few passes as the memory allows, and score it on some sets.

    The values of finished settings are kept after each pass. Returns an AUC for each set and ``sparse_ratio``, the
    share of weights that are not zero, of shape (n_settings,); NaN where the setting diverged.
    """
    from ..evaluation.selection import blocks_that_fit, evaluate_models, sparse_ratios

    X, y, learner = context.data.X, context.data.y, context.learner
    found = {
        int(k): dict(zip(values, from_json(list(values.values()))))
        for k, values in context.partial.get("sweep", {}).items()
    }
    # Sparse ratios and two sets of scores come on top of the learner's own estimate.
    memory_bytes = None if context.memory_bytes is None else context.memory_bytes / 2
    for block, grid in blocks_that_fit(learner, X, len(train), context.grid, found, memory_bytes):
        models = learner.fit_grid(X, y, grid, order=train, on_chunk=context.check_limits)
        measured = {
            name: evaluate_models(X, y[rows], rows, models, auc, context.check_limits) for name, rows in sets.items()
        }
        finite = np.logical_and.reduce([np.isfinite(values) for values in measured.values()])
        measured["sparse_ratio"] = sparse_ratios(models)
        for k, setting in enumerate(block):
            found[setting] = {name: float(values[k]) if finite[k] else np.nan for name, values in measured.items()}
        context.keep({"sweep": {k: dict(zip(values, to_json(values.values()))) for k, values in found.items()}})
    return {name: np.array([found[setting][name] for setting in range(context.n_settings)]) for name in found[0]}
