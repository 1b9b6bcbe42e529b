"""Progress of a run: a bar on a terminal, lines elsewhere. Estimates are by cost, not by count."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ..learners import ESTIMATOR
from ..results.record import Record
from ..results.store import Store
from ..task import Task
from .terminal import duration_text, has_bars, say

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

__all__ = ["Estimate", "Progress"]

_SECONDS_BETWEEN_LINES = 10.0
_SECONDS_BETWEEN_LOOKS = 1.0
# That a column took less than this part of its estimate comes from its datasets, and says nothing about others.
_LEAST_OF_OTHERS = 0.5
_SECONDS_OF_SILENCE = 60.0  # without a terminal, while no task finishes

CellKey = tuple[str, str]  # dataset and column


class Estimate:
    """CPU seconds of tasks: estimates of the plan, corrected by measured times of the same column."""

    def __init__(self) -> None:
        # Of finished tasks: by dataset and column, by column, and (None) of all.
        self._planned: dict[CellKey | str | None, float] = defaultdict(float)
        self._taken: dict[CellKey | str | None, float] = defaultdict(float)

    def learn(self, task: Task, record: Record | None) -> None:
        """Add the measured time of a task, if it has finished."""
        if record is not None and record.ok and (taken := record.timing.cpu_seconds) > 0:
            for key in ((task.dataset, task.column), task.column, None):
                self._planned[key] += task.seconds
                self._taken[key] += taken

    def has_measured(self, column: str) -> bool:
        """Whether a task of the column has finished."""
        return self._planned.get(column, 0.0) > 0

    def seconds(self, tasks: Iterable[Task]) -> float:
        return self.corrected(planned_by_kind(tasks))

    def corrected(self, planned: Mapping[CellKey, float]) -> float:
        """Seconds of tasks of which only the plan's own estimates are given, summed by dataset and column."""

        def factor(kind: CellKey) -> float:
            if self._planned[kind]:
                return self._taken[kind] / self._planned[kind]
            if self._planned[kind[1]]:
                return max(_LEAST_OF_OTHERS, self._taken[kind[1]] / self._planned[kind[1]])
            # A slow machine is slow for all columns. That others take less than estimated says nothing about this one.
            return max(1.0, self._taken[None] / self._planned[None]) if self._planned[None] else 1.0

        return sum(seconds * factor(kind) for kind, seconds in planned.items())


def planned_by_kind(tasks: Iterable[Task]) -> dict[CellKey, float]:
    """The plan's estimates, summed by dataset and column."""
    planned: dict[CellKey, float] = defaultdict(float)
    for task in tasks:
        planned[task.dataset, task.column] += task.seconds
    return planned


class Progress:
    """Show the progress of a run on standard error.

    Parameters
    ----------
    tasks : list of Task
        To be computed.
    n_jobs : int
        Tasks that run at the same time.
    estimate : Estimate
        Learns from each finished task.
    store : Store, optional
        Where workers note which tasks they have begun: shown while no task finishes.
    quiet : bool, default=False
        Print failures only.
    """

    def __init__(
        self, tasks: list[Task], n_jobs: int, estimate: Estimate, store: Store | None = None, quiet: bool = False
    ):
        self._left = {task.id: task for task in tasks}
        # Sums by kind: with a hundred thousand tasks, a loop over all after each would take hours.
        self._planned = planned_by_kind(tasks)
        self._estimators = {task.column for task in tasks if task.learner == ESTIMATOR}
        self._total = len(tasks)
        self._n_jobs = n_jobs
        self._estimate = estimate
        self._store = store
        self._quiet = quiet
        self._failed = 0
        self._last_line = self._last_done = time.monotonic()
        self._bar: Bar | None = None
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Progress:
        if not self._quiet and has_bars():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
            from rich.progress import Progress as Bar

            texts = [TextColumn(f"{{task.{field}}}", markup=False) for field in ("fields[left]", "description")]
            self._bar = Bar(BarColumn(20), MofNCompleteColumn(), *texts, console=Console(stderr=True), transient=True)
            self._row = self._bar.add_task(self._activity({}), total=self._total, left="")
            self._bar.start()
        if not self._quiet:
            self._watcher.start()
        return self

    def __exit__(self, *_) -> None:
        self._ended.set()
        if not self._quiet:
            self._watcher.join()
        if self._bar is not None:
            self._bar.stop()

    def done(self, task: Task, record: Record) -> None:
        """Count a finished task."""
        with self._lock:
            if self._left.pop(task.id, None) is not None:
                self._planned[task.dataset, task.column] -= task.seconds
            self._estimate.learn(task, record)
            self._failed += not record.ok
            self._last_done = time.monotonic()
            if self._bar is not None:
                self._bar.update(self._row, advance=1, description=task.label, left=self._time_left({}))
            if not record.ok:
                self.say(f"{task.label}: {record.status}: {' '.join(record.message.split())}")
            elif self._is_silent(_SECONDS_BETWEEN_LINES):
                self._say_state(f"{task.label} done", {})

    def _watch(self) -> None:
        while not self._ended.wait(_SECONDS_BETWEEN_LOOKS):
            self._look()

    def _look(self) -> None:
        """Show what is running, if no task has finished for some time."""
        with self._lock:
            if self._bar is not None and time.monotonic() - self._last_done >= _SECONDS_BETWEEN_LINES:
                running = self._running()
                self._bar.update(self._row, description=self._activity(running), left=self._time_left(running))
            elif self._is_silent(_SECONDS_OF_SILENCE):
                running = self._running()
                self._say_state(self._activity(running), running)

    def _running(self) -> dict[str, float]:
        """Tasks at work and for how many seconds each, the longest first."""
        begun = self._store.begun() if self._store else {}
        return {id: seconds for id, seconds in sorted(begun.items(), key=lambda item: -item[1]) if id in self._left}

    def _activity(self, running: Mapping[str, float]) -> str:
        for id, seconds in running.items():
            return f"{self._left[id].label}, running for {duration_text(seconds)}"
        if len(self._left) == self._total:
            return "loading data, compiling kernels"
        return f"none has finished for {duration_text(time.monotonic() - self._last_done)}"

    def _time_left(self, running: Mapping[str, float]) -> str:
        unknown = not all(map(self._estimate.has_measured, self._estimators))  # the plan has no costs of estimators
        if unknown or not self._left:
            return ""
        tasks = ((self._left[id], seconds) for id, seconds in running.items())
        spent = sum(min(seconds, self._estimate.seconds([task])) for task, seconds in tasks)
        # Rounding may leave a sum of floats just below zero.
        return f"about {duration_text(max(0.0, self._estimate.corrected(self._planned) - spent) / self._n_jobs)} left"

    def _is_silent(self, seconds: float) -> bool:
        """Whether lines are printed, and there was none for some time."""
        return self._bar is None and not self._quiet and time.monotonic() - self._last_line >= seconds

    def _say_state(self, activity: str, running: Mapping[str, float]) -> None:
        finished = self._total - len(self._left)
        parts = filter(None, (f"{finished}/{self._total} tasks", f"{self._failed} failed", self._time_left(running)))
        self.say(f"{', '.join(parts)} ({activity})")

    def say(self, text: str) -> None:
        """Print a line, above the bar if there is one."""
        with self._lock:
            self._last_line = time.monotonic()
            if self._bar is not None:
                self._bar.console.print(text, markup=False, highlight=False)
            else:
                say(text)
