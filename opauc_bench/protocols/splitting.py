"""Base of the protocols that split rows, select a setting and test it; figures may take over their splits."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import AfterValidator, Field

from ..evaluation.splits import Split
from ..sentences import Problem, Problems
from ..values import distinct
from .base import Cost, Protocol, TrainingCost, scoring_seconds
from .context import TaskContext, as_grid
from .outcome import Selection

__all__ = ["KEEP_SCORES", "METRICS", "SELECT", "SplitProtocol"]


def _metric(text: str) -> str:
    """The one spelling of a name."""
    from ..evaluation.metrics import metric_name

    return metric_name(text)


def _auc_first(names: tuple[str, ...]) -> tuple[str, ...]:
    """Names of metrics, each once, with the AUC first, which is always measured."""
    return ("auc", *(name for name in distinct(names) if name != "auc"))


METRICS = Annotated[
    tuple[Annotated[str, AfterValidator(_metric)], ...],
    AfterValidator(_auc_first),
    Field(description="Metrics of the test rows: auc, average_precision, partial_auc@F, log_loss, brier."),
]
SELECT = Annotated[str, AfterValidator(_metric), Field(description="Metric by which a setting is selected.")]
KEEP_SCORES = Annotated[
    bool, Field(description="Whether test scores are stored, for opauc-bench metrics FOLDER --add NAME.")
]


class SplitProtocol(Protocol):
    """A protocol that can stand under ``splits`` of the kinds that draw figures."""

    @abstractmethod
    def sizes(self, n_samples: int, max_train: int | None) -> tuple[float, float, float]:
        """Rows in a training, a validation and a test set, of ``n_samples`` in all."""

    added_later: ClassVar[frozenset[str]] = frozenset({"metrics", "select", "keep_scores"})

    if TYPE_CHECKING:
        metrics: tuple[str, ...]
        select: str
        keep_scores: bool

        @property
        def inner_folds(self) -> int: ...  # of kinds that may have no validation rows

    def cost(self, n_samples: int, n_settings: int, max_train: int | None, training: TrainingCost) -> Cost:
        train, validation, _ = self.sizes(n_samples, max_train)
        selection, memory = training(train, n_settings, 0 if validation else self.inner_folds)
        refit, memory_of_refit = training(train, 1)
        held_out = validation or train / self.inner_folds
        seconds = selection + scoring_seconds(validation or train, n_settings) + refit
        return seconds, max(memory + 16.0 * held_out * n_settings, memory_of_refit)

    def identity(self) -> dict[str, Any]:
        """As `Protocol.identity`; metrics and kept scores come on top of a number, they do not change it."""
        return {key: value for key, value in super().identity().items() if key not in ("metrics", "keep_scores")}

    @property
    def record_metrics(self) -> tuple[str, ...]:
        return self.metrics

    @property
    def selecting_metric(self) -> str:
        return self.select

    @property
    def keeps_scores(self) -> bool:
        return self.keep_scores

    def lacks(self, metrics: Collection[str]) -> bool:
        return not set(self.metrics) <= set(metrics)

    @property
    def selected_by(self) -> Callable[..., np.ndarray]:
        """From labels and columns of scores to the value per column by which a setting is selected."""
        from ..evaluation.metrics import selection_metric

        return self.auc_columns if self.select == "auc" else selection_metric(self.select)

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
        """AUC of every setting, or the metric by which one is selected; NaN where it diverged."""

    def measure(self, context: TaskContext, split: Split, models: Any) -> dict[str, float | None]:
        """Metrics of one trained setting on the test rows; the AUC is NaN where it overflowed.

        None stands for a metric that is not defined for the model.
        """
        from ..evaluation.metrics import evaluate, needs_probabilities
        from ..evaluation.selection import scores_and_probabilities

        y, keeps = context.data.y[split.test], self.keep_scores
        probable = keeps or any(map(needs_probabilities, self.metrics))
        scores, probabilities = scores_and_probabilities(
            context.data.X, split.test, models, context.check_limits, probable
        )
        if scores is None or not np.isfinite(scores).all():
            return {"auc": np.nan}
        if keeps:
            context.keep_scores(split.test, y, scores, probabilities)
        return {**self.own_metrics(y, scores, models), **evaluate(self.metrics[1:], y, scores, probabilities)}

    def own_metrics(self, y: np.ndarray, scores: np.ndarray, models: Any) -> dict[str, float | None]:
        """The AUC of the test rows and what else this kind always measures."""
        return {"auc": float(self.auc_columns(y, scores[:, None])[0])}

    def require_one_trial(self) -> None:
        """Refuse several trials where the rows have one order and one division."""
        if self.trials > 1:
            came = f"{self.trials}{'' if 'trials' in self.model_fields_set else ', the default'}"
            message = f"time divides the rows in one way: expected 'trials: 1' beside it, got {came}"
            raise Problems([Problem(("order",), message)])

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
            models = context.learner.fit_grid(
                context.data.X,
                context.data.y,
                as_grid(selected),
                order=split.train,
                on_chunk=context.check_limits,
            )
            fit_cpu = time.process_time() - began
            metrics = self.measure(context, split, models)
            if (auc := metrics["auc"]) is not None and np.isfinite(auc):
                outcome |= {"metrics": metrics, "selected": selected}
                if info := context.learner.provenance():
                    outcome["learner_info"] = info
                timing = {"selection_cpu_seconds": selection_cpu, "fit_cpu_seconds": fit_cpu}
                return {"status": "ok", "outcome": outcome, "timing": timing}
            # It stayed finite while the settings were compared, but not here: on more rows, or by a small margin.
            diverged.append(selected)
        return {"status": "diverged", "message": context.all_diverged, "outcome": outcome}
