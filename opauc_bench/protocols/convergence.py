"""Kind ``convergence``: test AUC at points of one pass, for the setting that the splits' own protocol selects."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from ..evaluation.splits import Split
from .base import Cost, KnownKind, TrainingCost, scoring_seconds
from .context import TaskContext, as_grid
from .on_splits import ShowsSelected
from .outcome import CurveOutcome, Setting, to_json

if TYPE_CHECKING:
    from ..learners import Learner

__all__ = ["Convergence", "ConvergenceOutcome", "checkpoints", "learning_curve"]


_MOST_ROWS = 2.0**53  # that a float counts exactly


class ConvergenceOutcome(CurveOutcome):
    """Test AUC at points of one pass."""

    needs: ClassVar = ("columns.n_seen", "columns.auc", "columns.seconds")
    kind: Literal["convergence"]
    selected: Setting | None = None

    @model_validator(mode="after")
    def _check_n_seen(self) -> ConvergenceOutcome:
        n_seen = self.columns.get("n_seen")
        if n_seen is None or not len(n_seen):
            return self
        if not (n_seen[0] >= 1 and n_seen[-1] <= _MOST_ROWS and (np.diff(n_seen) > 0).all()):
            raise ValueError("expected increasing numbers of rows in columns.n_seen")
        return self


class Convergence(ShowsSelected):
    """Test AUC at points of one pass, for the setting that the splits' own protocol selects."""

    outcome: ClassVar = ConvergenceOutcome
    quantities: ClassVar = ("n_seen", "auc", "seconds")

    kind: Annotated[Literal["convergence"], KnownKind] = Field(
        "convergence", description="convergence: test AUC at points of one pass."
    )
    points: int = Field(25, ge=2, le=10_000, description="How often the model is tested during the pass.")
    spacing: Literal["linear", "log"] = Field("linear", description="linear: even steps; log: even ratios.")
    alone: bool = Field(False, description="One worker only, as for kind timing: for plots against time.")

    @property
    def exclusive(self) -> bool:
        return self.alone

    def learner_error(self, learner: type[Learner]) -> tuple[str, str] | None:
        if learner.supports_stops:
            return None
        return (
            "does not learn in one pass over the rows: it has no convergence to show",
            "leave it out, or compare it under kind cv",
        )

    def cost_of_one(self, n_samples: int, max_train: int | None, training: TrainingCost) -> Cost:
        train, _, test = self.splits.sizes(n_samples, max_train)
        seconds, memory = training(train, 1)
        return seconds + self.points * scoring_seconds(test, 1), memory + 16.0 * test

    def compute(self, context: TaskContext) -> dict[str, Any]:
        """Test one setting during its pass; see `Protocol.compute`."""

        def measure(split: Split, setting: dict[str, float]):
            began = time.process_time()
            at = checkpoints(len(split.train), self.points, self.spacing)
            aucs, seconds = learning_curve(context, setting, split.train, split.test, at, self.splits.auc_columns)
            if not np.isfinite(aucs[-1]):
                return None
            timing = {"columns": {"seconds": to_json(seconds)}, "fit_cpu_seconds": time.process_time() - began}
            return {"columns": {"n_seen": at.tolist(), "auc": to_json(aucs)}}, timing

        return self.measure_selected(context, self.make_split(context), measure)

    def point_rows(self, repetitions: Sequence[Mapping[str, np.ndarray]]) -> list[np.ndarray]:
        """Rows by the number of the checkpoint; those that are equal in all repetitions are one point.

        Training sets of different sizes may have different equal checkpoints.
        """
        rows = [
            np.searchsorted(columns["n_seen"], _rounded(int(columns["n_seen"][-1]), self.points, self.spacing))
            for columns in repetitions
        ]
        distinct = np.any(np.diff(rows, prepend=-1), axis=0)
        return [each[distinct] for each in rows]


def checkpoints(n_rows: int, n_points: int, spacing: str = "linear") -> np.ndarray:
    """Points of a pass of ``n_rows``: at most ``n_points`` increasing numbers of rows, the last of them ``n_rows``.

    Even steps for 'linear'; for 'log' even ratios that start from ten rows, or from one where there are fewer.
    """
    return np.unique(_rounded(n_rows, n_points, spacing))


def _rounded(n_rows: int, n_points: int, spacing: str) -> np.ndarray:
    """`checkpoints` of shape (n_points,): some are equal where there are few rows."""
    if spacing == "log":
        points = np.geomspace(min(10, n_rows), n_rows, n_points)
    else:
        points = n_rows * np.arange(1, n_points + 1) / n_points
    return np.maximum(1, np.rint(points).astype(np.int64))


def learning_curve(
    context: TaskContext,
    setting: dict[str, float],
    train: np.ndarray,
    test: np.ndarray,
    at: np.ndarray,
    auc: Callable[..., np.ndarray],
) -> tuple[np.ndarray, np.ndarray]:
    """Train one setting in one pass over the rows ``train``, and test it after each number of rows in ``at``.

    Returns
    -------
    aucs, cpu_seconds : ndarray of shape (len(at),)
        AUC on the rows ``test``, and CPU time of learning so far, without that of scoring. NaN from where the weights
        overflow.
    """
    from ..evaluation.selection import evaluate_models

    X, y = context.data.X, context.data.y
    aucs, seconds = np.full(len(at), np.nan), np.full(len(at), np.nan)
    position = {int(n): k for k, n in enumerate(at)}
    labels = y[test]
    learned, since = 0.0, time.process_time()

    def look(n_rows: int, weights: Callable[[], np.ndarray]) -> None:
        nonlocal learned, since
        learned += time.process_time() - since
        value = evaluate_models(X, labels, test, weights(), auc)[0]
        if np.isfinite(value):
            aucs[position[n_rows]], seconds[position[n_rows]] = value, learned
        since = time.process_time()

    context.learner.fit_grid(
        X,
        y,
        as_grid(setting),
        order=train,
        on_chunk=context.check_limits,
        stops=frozenset(position),
        on_stop=look,
    )
    return aucs, seconds
