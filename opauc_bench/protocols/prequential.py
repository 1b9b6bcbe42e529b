"""Kind ``prequential``: one pass in which each row is scored before it is learnt."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator
from scipy import sparse

from ..errors import ConfigError
from ..sentences import Problem, Problems
from .base import Cost, KnownKind, Protocol, TrainingCost, scoring_seconds
from .context import TaskContext, as_grid, seed_learner
from .convergence import checkpoints
from .outcome import CurveOutcome, Selection, TestedOutcome, from_json, to_json

if TYPE_CHECKING:
    from ..learners import Learner

__all__ = ["Prequential", "PrequentialOutcome", "progressive_scores"]

_SECONDS_PER_ROW = 2e-4  # of the calls for one row, whatever the learner does
_ROWS_AT_ONCE = 1024


class PrequentialOutcome(TestedOutcome, CurveOutcome):
    """One pass: the AUC of all reported rows, and one point per checkpoint and end of a window.

    ``n_train`` is the length of the pass, ``n_validation`` the number of rows that a setting was selected on, and
    ``n_test`` the number of rows that are reported.
    """

    needs: ClassVar = (
        *("metrics.auc", "selected", "timing.fit_cpu_seconds"),
        *("columns.n_seen", "columns.running_auc", "columns.window_auc"),
    )
    kind: Literal["prequential"]

    @property
    def n_before_test(self) -> int:
        """Rows that a setting was selected on."""
        return self.n_validation or 0


class Prequential(Protocol):
    """One pass in which each row is scored before it is learnt, so that all rows test and all rows train.

    Where there is more than one setting, the one with the best AUC on the first rows of the pass is selected, and these
    rows are not reported.
    """

    outcome: ClassVar = PrequentialOutcome
    table_metrics: ClassVar = ("auc",)
    record_metrics: ClassVar = ("auc",)
    quantities: ClassVar = ("n_seen", "running_auc", "window_auc")
    same_rows: ClassVar = True
    # A row is scored after half of the rows on average: n_test / n_train is 2.
    test_fraction: ClassVar = 2 / 3

    kind: Annotated[Literal["prequential"], KnownKind] = Field(
        "prequential", description="prequential: each row is scored before it is learnt."
    )
    order: Literal["random", "file"] = Field(
        "random", description="random: another order per trial; file: that of the file, with one trial."
    )
    trials: int = Field(5, ge=1, description="Repetitions, each with another order of the rows.")
    selection: float = Field(0.2, gt=0, lt=1, description="Share of the rows that a setting is selected on.")
    window: int = Field(1000, ge=2, description="Rows of a window; each window has an AUC.")
    points: int = Field(25, ge=2, le=10_000, description="Checkpoints along the reported rows.")
    spacing: Literal["linear", "log"] = Field("linear", description="linear: even steps; log: even ratios.")
    seed: int = Field(0, ge=0, description="Seed of all orders.")

    @model_validator(mode="after")
    def _check_trials(self) -> Prequential:
        if self.order == "file" and self.trials > 1:
            came = f"{self.trials}{'' if 'trials' in self.model_fields_set else ', the default'}"
            message = f"the file has one order: expected 'trials: 1' beside it, got {came}"
            raise Problems([Problem(("order",), message)])
        return self

    def learner_error(self, learner: type[Learner]) -> tuple[str, str] | None:
        if learner.supports_stops:
            return None
        return "does not learn row by row in one pass", "leave it out, or compare it under kind cv"

    def class_size_problem(self, n_positive: int, n_negative: int) -> str | None:
        rarer = min(n_positive, n_negative)
        return None if rarer > 1 else f"its rarer class has {rarer} rows, too few to select a setting and to report"

    def cost(self, n_samples: int, n_settings: int, max_train: int | None, training: TrainingCost) -> Cost:
        n_rows = n_samples if max_train is None else min(n_samples, max_train)
        seconds, memory = training(n_rows, 1)
        seconds += _SECONDS_PER_ROW * n_rows
        if n_settings > 1:
            n_first = self.selection * n_rows
            selection, needed = training(n_first, n_settings)
            seconds += selection + _SECONDS_PER_ROW * n_first + scoring_seconds(n_first, n_settings)
            memory = max(memory, needed + 16.0 * n_first * n_settings)
        return seconds, memory + 16.0 * n_rows

    def compute(self, context: TaskContext) -> dict[str, Any]:
        """Select a setting on the first rows, then make one pass with it; see `Protocol.compute`."""
        from ..evaluation.auc import auc_score
        from ..evaluation.selection import ranking

        order = self._order(context)
        selects = context.n_settings > 1
        n_first = round(self.selection * len(order)) if selects else 0
        y = np.asarray(context.data.y[order])
        for part in (y[:n_first], y[n_first:]) if selects else (y,):
            if len(np.unique(part)) < 2:
                raise ConfigError(
                    f"expected both classes among {len(part)} of {len(order)} rows of {context.task.dataset}, "
                    f"with 'selection: {self.selection:g}' and in this order",
                    "'order: random', or another share of the rows under selection",
                )
        outcome: dict[str, Any] = {"kind": self.kind, "n_train": len(order), "n_test": len(order) - n_first}
        outcome["diverged_in_refit"] = diverged = []
        best: Iterable[int] = [0]
        timing: dict[str, float] = {}
        if selects:
            aucs = self._select(context, order[:n_first])
            best, timing = ranking(aucs), {"selection_cpu_seconds": context.cpu_seconds}
            outcome |= {"n_validation": n_first, "selection": Selection.of(aucs)}
        for position in best:
            selected, began = context.setting(position), time.process_time()
            scores = progressive_scores(context.learner, context.data, as_grid(selected), order, context.check_limits)[
                n_first:, 0
            ]
            if np.isfinite(scores).all():
                timing["fit_cpu_seconds"] = time.process_time() - began
                outcome |= {
                    "metrics": {"auc": auc_score(y[n_first:], scores)},
                    "selected": selected,
                    "columns": self._columns(y[n_first:], scores, n_first),
                }
                return {"status": "ok", "outcome": outcome, "timing": timing}
            diverged.append(selected)
        return {"status": "diverged", "message": context.all_diverged, "outcome": outcome, "timing": timing}

    def _order(self, context: TaskContext) -> np.ndarray:
        """The rows of the pass; the learner gets its seed."""
        from ..evaluation.splits import seed_for

        seed = seed_for("prequential", self.seed, context.task.dataset, context.task.trial)
        seed_learner(context.learner, seed)
        rows = np.arange(context.data.X.shape[0])
        return context.capped(np.random.default_rng(seed).permutation(rows) if self.order == "random" else rows, 1)

    def _select(self, context: TaskContext, rows: np.ndarray) -> np.ndarray:
        """AUC of every setting on the first rows of the pass; finished blocks of settings are kept."""
        from ..evaluation.auc import auc_columns
        from ..evaluation.selection import blocks_that_fit

        aucs = dict(enumerate(from_json(context.partial.get("aucs", []))))
        of_pass = (context.learner, context.data.X, len(rows), context.grid)
        for block, grid in blocks_that_fit(*of_pass, aucs, context.memory_bytes):
            scores = progressive_scores(context.learner, context.data, grid, rows, context.check_limits)
            aucs |= zip(block, auc_columns(context.data.y[rows], scores))
            context.keep({"aucs": to_json(aucs.values())})
        return np.array(list(aucs.values()))

    def _columns(self, y: np.ndarray, scores: np.ndarray, n_first: int) -> dict[str, list[float | None]]:
        """AUC of all rows so far and of the last ones, at checkpoints and ends of windows; null for one class."""
        from ..evaluation.auc import auc_of_prefixes, auc_score

        at = np.union1d(
            checkpoints(len(y), self.points, self.spacing), np.arange(self.window, len(y) + 1, self.window)
        ).tolist()
        windows = [slice(max(0, end - self.window), end) for end in at]
        has_both = [len(np.unique(y[window])) == 2 for window in windows]
        return {
            "n_seen": [n_first + end for end in at],
            "running_auc": to_json(auc_of_prefixes(y, scores, at)),
            "window_auc": to_json(
                auc_score(y[window], scores[window]) if both else np.nan for window, both in zip(windows, has_both)
            ),
        }


def progressive_scores(
    learner: Any,
    data: Any,
    grid: dict[str, np.ndarray],
    order: np.ndarray,
    on_chunk: Callable[[int], None] | None = None,
) -> np.ndarray:
    """Score each row under the weights that the rows before it have given, in one pass for all settings.

    Parameters
    ----------
    learner : OnePassLearner
    data : Dataset
        Its ``X`` and ``y``.
    grid : dict of axis to ndarray of shape (n_settings,)
    order : ndarray of int
        Rows to visit, in this order.
    on_chunk : callable, optional
        Called after each row; what it raises ends the pass.

    Returns
    -------
    ndarray of shape (len(order), n_settings)
        0 in the first row, NaN from where a setting overflows.
    """
    scores = np.full((len(order), len(next(iter(grid.values())))), np.nan)
    scores[0] = 0.0
    block: Any = None
    first = -_ROWS_AT_ONCE

    def score(n_seen: int, weights: Callable[..., np.ndarray]) -> None:
        nonlocal block, first
        if n_seen >= first + _ROWS_AT_ONCE:
            block, first = data.X[order[n_seen : n_seen + _ROWS_AT_ONCE]], n_seen
            block = sparse.csr_matrix(block) if sparse.issparse(block) else np.asarray(block)
        row = n_seen - first
        if sparse.issparse(block):
            stored = slice(block.indptr[row], block.indptr[row + 1])
            values, features = block.data[stored], block.indices[stored]
        else:
            values, features = block[row], np.arange(block.shape[1])
        with np.errstate(over="ignore", invalid="ignore"):
            scores[n_seen] = values.astype(np.float64, copy=False) @ weights(features)

    learner.fit_grid(
        data.X, data.y, grid, order=order, on_chunk=on_chunk, stops=frozenset(range(1, len(order))), on_stop=score
    )
    return scores
