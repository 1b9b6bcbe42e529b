"""Kind ``sketch_error``: how well learners for high dimensions keep the second moments of each class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from ..task import Task
from .base import Cost, KnownKind, Protocol, TrainingCost
from .context import TaskContext, seed_learner
from .outcome import CurveOutcome, from_json, to_json

if TYPE_CHECKING:
    from ..learners import Learner

__all__ = ["SketchError", "SketchErrorOutcome"]

_SECONDS_PER_PAIR = 5e-8  # an inner product of two sparse rows of some hundred features


class SketchErrorOutcome(CurveOutcome):
    """Errors of sketched second moments; one point per size of the sketch."""

    needs: ClassVar = ("columns.positive_error", "columns.negative_error")
    kind: Literal["sketch_error"]


class SketchError(Protocol):
    """How well learners for high dimensions keep the second moments of each class, by the size of their sketch."""

    outcome: ClassVar = SketchErrorOutcome
    quantities: ClassVar = ("positive_error", "negative_error")
    trains: ClassVar = False
    own_axes: ClassVar = ("tau",)

    kind: Annotated[Literal["sketch_error"], KnownKind] = Field(
        "sketch_error", description="sketch_error: relative Frobenius error of the class second moments."
    )
    sizes: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        (10, 25, 50, 75, 100), min_length=1, description="Values of tau."
    )
    trials: int = Field(5, ge=1, description="Repetitions, each with another order of the rows and other draws.")
    seed: int = Field(0, ge=0, description="Seed of orders and draws.")

    def learner_error(self, learner: type[Learner]) -> tuple[str, str] | None:
        if learner.sketches_second_moments:
            return None
        from ..learners import LEARNERS, get_learner

        with_sketch = [name for name in LEARNERS if get_learner(name).sketches_second_moments]
        return "keeps no sketch of second moments", f"those that do are {', '.join(with_sketch)}"

    def cost(self, n_samples: int, n_settings: int, max_train: int | None, training: TrainingCost) -> Cost:
        """A pass for each size, and the Gram matrix of all rows; see `Protocol.cost`."""
        rows = n_samples if max_train is None else min(n_samples, max_train)
        seconds, memory = training(rows, 1)
        return len(self.sizes) * seconds + _SECONDS_PER_PAIR * rows**2, memory

    def load(self) -> None:
        from ..learners.opauc import second_moments  # noqa: F401

    def compute(self, context: TaskContext) -> dict[str, Any]:
        """Sketch the rows of each class, in one random order, at every size; see `Protocol.compute`.

        Errors are Frobenius norms of the difference as shares of the norm of the class's second moments.
        """
        from ..evaluation.sketch_error import second_moment_norm, sketch_errors
        from ..evaluation.splits import seed_for
        from ..learners.opauc.second_moments import second_moment_sketch

        task, data, learner = context.task, context.data, context.learner
        seed = seed_for("sketch", self.seed, task.dataset, task.trial)
        order = np.random.default_rng(seed).permutation(data.X.shape[0])[: task.max_train]
        seed_learner(learner, seed)
        finished = {name: list(from_json(errors)) for name, errors in context.partial.get("errors", {}).items()}
        for name, label in (("positive_error", 1), ("negative_error", -1)):
            errors = finished.setdefault(name, [])
            if len(errors) == len(self.sizes):
                continue
            rows = data.X[order[np.asarray(data.y[order]) == label]]
            norm = second_moment_norm(rows)
            for size in self.sizes[len(errors) :]:
                context.check_limits()
                errors += sketch_errors(
                    rows, [size], lambda A, tau: second_moment_sketch(learner.set_params(tau=tau), A), norm
                ).tolist()
                context.keep({"errors": {key: to_json(values) for key, values in finished.items()}})
        columns = {name: to_json(errors) for name, errors in finished.items()}
        return {
            "status": "ok",
            "outcome": {"kind": "sketch_error", "n_train": len(order), "columns": columns},
            "timing": {"fit_cpu_seconds": context.cpu_seconds},
        }

    def point_axes(self, task: Task) -> dict[str, Sequence[float]]:
        return {"tau": self.sizes}
