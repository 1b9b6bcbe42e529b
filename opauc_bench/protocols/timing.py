"""Kind ``timing``: training time of one setting, measured several times with nothing else running."""

from __future__ import annotations

import os
import time
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from ..evaluation.splits import Split
from ..task import Task
from .base import Cost, KnownKind, TrainingCost
from .context import TaskContext, as_grid
from .on_splits import ShowsSelected
from .outcome import CurveOutcome, Setting

__all__ = ["Timing", "TimingOutcome"]


class TimingOutcome(CurveOutcome):
    """Training time of one setting: a single point of medians, all of it under the record's timing."""

    needs: ClassVar = ("columns.seconds", "columns.wall_seconds")
    kind: Literal["timing"]
    selected: Setting | None = None


class Timing(ShowsSelected):
    """Training time of one setting, measured several times with nothing else running."""

    outcome: ClassVar = TimingOutcome
    quantities: ClassVar = ("seconds", "wall_seconds")
    exclusive: ClassVar = True

    kind: Annotated[Literal["timing"], KnownKind] = Field(
        "timing", description="timing: training time of one setting, with one worker only."
    )
    repeats: int = Field(5, ge=1, le=1_000_000, description="Passes over each training set; the median counts.")

    def cost_of_one(self, n_samples: int, max_train: int | None, training: TrainingCost) -> Cost:
        train, _, _ = self.splits.sizes(n_samples, max_train)
        seconds, memory = training(train, 1, alone=True)
        return self.repeats * seconds, memory

    def compute(self, context: TaskContext) -> dict[str, Any]:
        """Train one setting several times; records medians, all passes, and the load average before and after."""

        from ..evaluation.selection import finite_models

        def measure(split: Split, setting: dict[str, float]):
            load, data = os.getloadavg()[0], context.data
            alone = context.learner
            if context.gram_matrix is not None:  # what passes over the dataset share is part of each
                alone = alone.given_gram_matrix(None)
            cpu, wall = np.empty(self.repeats), np.empty(self.repeats)
            for k in range(self.repeats):
                started = time.process_time(), time.perf_counter()
                models = alone.fit_grid(
                    data.X, data.y, as_grid(setting), order=split.train, on_chunk=context.check_limits
                )
                cpu[k], wall[k] = time.process_time() - started[0], time.perf_counter() - started[1]
            if not finite_models(models).all():
                return None
            passes = {"seconds": cpu, "wall_seconds": wall}
            return {}, {
                "columns": {name: [float(np.median(values))] for name, values in passes.items()},
                "passes": {name: values.tolist() for name, values in passes.items()},
                "load": [load, os.getloadavg()[0]],
                "fit_cpu_seconds": float(cpu.sum()),
            }

        return self.measure_selected(context, self.make_split(context), measure)

    def n_points(self, task: Task) -> int:
        return 1
