"""Base of the protocols that split rows, select a setting and test it; figures may take over their splits."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..evaluation.splits import Split
from .base import Protocol
from .context import TaskContext, as_grid
from .outcome import Selection

__all__ = ["ALL_DIVERGED", "SplitProtocol"]

ALL_DIVERGED = "no setting stayed finite"


class SplitProtocol(Protocol):
    """A protocol that can stand under ``splits`` of the kinds that draw figures."""

    @abstractmethod
    def sizes(self, n_samples: int, max_train: int | None) -> tuple[float, float, float]:
        """Rows in a training, a validation and a test set, of ``n_samples`` in all."""

    @property
    def auc_columns(self) -> Callable[..., np.ndarray]:
        """From labels and columns of scores to an AUC per column."""
        from ..evaluation.auc import AUCS

        return AUCS[getattr(self, "auc", "exact")]

    @abstractmethod
    def make_split(self, context: TaskContext) -> Split:
        """The rows of the task's trial and fold."""

    @abstractmethod
    def search(self, context: TaskContext, split: Split) -> np.ndarray:
        """AUC of every setting, by which one is selected; NaN where it diverged."""

    @abstractmethod
    def measure(self, context: TaskContext, split: Split, coef: np.ndarray) -> dict[str, float]:
        """Metrics of weights of shape (n_features, 1) on the test rows; the AUC is NaN where they overflowed."""

    def inherit_axes(self, context: TaskContext, split: Split) -> str:
        """Put the values that another column selects into the grid; return why there are none, or an empty string."""
        return ""

    def compute(self, context: TaskContext) -> dict[str, Any]:
        """Select a setting, train it alone on the whole training set, and test it; see `Protocol.compute`."""
        from ..evaluation.selection import ranking

        split = self.make_split(context)
        outcome = {"kind": self.kind, **split.counts}
        if message := self.inherit_axes(context, split):
            return {"status": "diverged", "message": message, "outcome": outcome}
        aucs = self.search(context, split)
        return self._refit(context, split, ranking(aucs), outcome | {"selection": Selection.of(aucs)})

    def _refit(
        self, context: TaskContext, split: Split, best_first: Iterable[int], outcome: dict[str, Any]
    ) -> dict[str, Any]:
        """Train one setting alone, the next best one where it overflows."""
        selection_cpu = context.cpu_seconds
        outcome["diverged_in_refit"] = diverged = []
        for position in best_first:
            selected = context.setting(position)
            began = time.process_time()
            coef = context.learner.fit_grid(
                context.data.X,
                context.data.y,
                as_grid(selected),
                order=split.train,
                on_chunk=context.check_limits,
            )
            fit_cpu = time.process_time() - began
            metrics = self.measure(context, split, coef)
            if np.isfinite(metrics["auc"]):
                outcome |= {"metrics": metrics, "selected": selected}
                if info := context.learner.provenance():
                    outcome["learner_info"] = info
                timing = {"selection_cpu_seconds": selection_cpu, "fit_cpu_seconds": fit_cpu}
                return {"status": "ok", "outcome": outcome, "timing": timing}
            # It stayed finite while the settings were compared, but not here: on more rows, or by a small margin.
            diverged.append(selected)
        return {"status": "diverged", "message": ALL_DIVERGED, "outcome": outcome}
