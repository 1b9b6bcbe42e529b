"""Base of the protocols that draw figures on the splits of another one."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import Field, model_validator

from ..evaluation.splits import Split
from ..sentences import Problem, raise_problems
from .base import Cost, Protocol, TrainingCost
from .context import TaskContext, seed_learner
from .cross_validation import CrossValidation

if TYPE_CHECKING:
    from ..data import Dataset
    from ..task import Shape
    from .splitting import SplitProtocol as Splits

__all__ = ["OnSplits", "ShowsSelected"]

# From the rows and a setting to fields of the outcome and of its timing; None where the setting overflowed.
Measure = Callable[[Split, dict[str, float]], tuple[dict[str, Any], dict[str, Any]] | None]


class OnSplits(Protocol):
    """A protocol whose repetitions, sets and classes are those of the protocol under ``splits``."""

    # Settings of ``splits`` that do not change what is drawn.
    unused: ClassVar[tuple[str, ...]] = ("metrics", "keep_scores")

    kind: str
    # The union of all kinds that split rows, which `protocols` makes of its tuple.
    splits: Splits = Field(
        CrossValidation(), description="Protocol whose sets are used, and by which a setting is selected."
    )

    @model_validator(mode="after")
    def _check_unused(self) -> Self:
        fields = type(self.splits).model_fields
        given = [name for name in self.unused if getattr(self.splits, name) != fields[name].default]
        message = f"a figure of kind {self.kind} does not use it: leave it out"
        raise_problems(Problem(("splits", name), message) for name in given)
        return self

    @property
    def ddof(self) -> int:
        return self.splits.ddof

    @property
    def supports_axes_from(self) -> bool:
        return self.splits.supports_axes_from

    @property
    def n_repetitions(self) -> int:
        return self.splits.n_repetitions

    def repetitions(self) -> Iterator[tuple[int, int]]:
        return self.splits.repetitions()

    def cases(self) -> list[tuple[str, Self]]:
        return [(end, self.model_copy(update={"splits": case})) for end, case in self.splits.cases()]

    @property
    def row_metadata(self) -> tuple[str, ...]:
        return self.splits.row_metadata

    @property
    def selecting_metric(self) -> str:
        return self.splits.selecting_metric

    def on(self, shape: Shape) -> Self:
        return self.model_copy(update={"splits": self.splits.on(shape)})

    def n_rows(self, n_samples: int, n_positive: int | None) -> int:
        return self.splits.n_rows(n_samples, n_positive)

    def identity(self) -> dict[str, Any]:
        return {**self.model_dump(mode="json"), "splits": self.splits.identity()}

    def reason_left_out(self, n_samples: int, n_positive: int) -> str:
        return self.splits.reason_left_out(n_samples, n_positive)

    def class_size_problem(self, n_positive: int, n_negative: int) -> str | None:
        return self.splits.class_size_problem(n_positive, n_negative)

    def data_problem(self, data: Dataset) -> str | None:
        return self.splits.data_problem(data)

    def make_split(self, context: TaskContext) -> Split:
        """The rows of one repetition; the learner gets its seed."""
        split = self.splits.make_split(context)
        seed_learner(context.learner, split.seed)
        return split


class ShowsSelected(OnSplits):
    """A protocol that measures the setting which the protocol under ``splits`` selects."""

    @abstractmethod
    def cost_of_one(self, n_samples: int, max_train: int | None, training: TrainingCost) -> Cost:
        """Cost of measuring one setting."""

    def cost(self, n_samples: int, n_settings: int, max_train: int | None, training: TrainingCost) -> Cost:
        seconds, memory = self.cost_of_one(n_samples, max_train, training)
        if n_settings == 1:
            return seconds, memory
        selection, needed = self.splits.cost(n_samples, n_settings, max_train, training)
        return selection + seconds, max(needed, memory)

    def measure_selected(self, context: TaskContext, split: Split, measure: Measure) -> dict[str, Any]:
        """Measure the best setting, the next best one where it overflows; see `Protocol.compute`."""
        outcome: dict[str, Any] = {"kind": self.kind, **split.counts}
        timing: dict[str, Any] = {}
        content: dict[str, Any] = {"status": "diverged", "message": "", "outcome": outcome, "timing": timing}
        for setting in self._best_settings(context, split, content):
            if (found := measure(split, setting)) is not None:
                outcome |= {"selected": setting, **found[0]}
                timing |= found[1]
                return content | {"status": "ok"}
        return content | {"message": content["message"] or context.all_diverged}

    def _best_settings(self, context: TaskContext, split: Split, content: dict[str, Any]) -> Iterator[dict[str, float]]:
        """Settings from the best one on: the one that is known to be selected, the only one, or all as ranked here.

        What was compared is not recorded, so that a record is the same wherever its setting comes from.
        """
        from ..evaluation.selection import ranking

        if context.task.selected is not None:
            yield dict(context.task.selected)
            return
        began = time.process_time()
        if message := self.splits.inherit_axes(context, split):
            content["message"] = message
            return
        best: Iterable[int] = [0]
        if context.n_settings > 1:
            best = ranking(self.splits.search(context, split))
            content["timing"]["selection_cpu_seconds"] = time.process_time() - began
        for position in best:
            yield context.setting(position)
