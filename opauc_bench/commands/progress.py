"""Progress of a run: a bar on a terminal, a line every few seconds elsewhere. Estimates are by cost, not by count."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping

from ..results.record import Record
from ..task import Task
from .terminal import has_bars, say

__all__ = ["Progress", "duration"]

_SECONDS_BETWEEN_LINES = 10.0

Kind = tuple[str, str]  # dataset and column


def duration(seconds: float) -> str:
    """A length of time in words: ``45 s``, ``12 min``, ``3.4 h``, ``2.1 d``."""
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    for unit, size, limit in (("min", 60, 90), ("h", 3600, 48)):
        if seconds / size < limit:
            return f"{seconds / size:.{0 if unit == 'min' else 1}f} {unit}"
    return f"{seconds / 86400:.1f} d"


class Estimate:
    """CPU seconds of tasks: estimates of the plan, corrected by measured times of the same column."""

    def __init__(self):
        # Of finished tasks: by dataset and column, by column, and (None) of all.
        self._planned: dict[Kind | str | None, float] = defaultdict(float)
        self._taken: dict[Kind | str | None, float] = defaultdict(float)

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

    def corrected(self, planned: Mapping[Kind, float]) -> float:
        """Seconds of tasks of which only the plan's own estimates are given, summed by dataset and column."""

        def factor(kind: Kind) -> float:
            for key in (kind, kind[1]):
                if self._planned[key]:
                    return self._taken[key] / self._planned[key]
            # A slow machine is slow for all columns. That others take less than estimated says nothing about this one.
            return max(1.0, self._taken[None] / self._planned[None]) if self._planned[None] else 1.0

        return sum(seconds * factor(kind) for kind, seconds in planned.items())


def planned_by_kind(tasks: Iterable[Task]) -> dict[Kind, float]:
    """The plan's estimates, summed by dataset and column."""
    planned: dict[Kind, float] = defaultdict(float)
    for task in tasks:
        planned[task.dataset, task.column] += task.seconds
    return planned


class Progress:
    """Show the progress of a run on standard error."""

    def __init__(self, tasks: list[Task], n_jobs: int, estimate: Estimate, quiet: bool = False):
        # Sums instead of the tasks: with a hundred thousand of them, a loop over all after each would take hours.
        self._left = {task.id for task in tasks}
        self._planned = planned_by_kind(tasks)
        self._total = len(tasks)
        self._n_jobs = n_jobs
        self._estimate = estimate
        self._quiet = quiet
        self._failed = 0
        self._last_line = time.monotonic()
        self._bar = None

    def __enter__(self) -> Progress:
        if not self._quiet and has_bars():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
            from rich.progress import Progress as Bar

            texts = TextColumn("{task.fields[left]}"), TextColumn("{task.description}")
            self._bar = Bar(BarColumn(20), MofNCompleteColumn(), *texts, console=Console(stderr=True), transient=True)
            self._row = self._bar.add_task("loading data, compiling kernels", total=self._total, left="")
            self._bar.start()
        return self

    def __exit__(self, *_) -> None:
        if self._bar is not None:
            self._bar.stop()

    def done(self, task: Task, record: Record) -> None:
        """Count a finished task."""
        if task.id in self._left:
            self._left.remove(task.id)
            self._planned[task.dataset, task.column] -= task.seconds
        self._estimate.learn(task, record)
        self._failed += not record.ok
        if self._bar is not None:
            self._bar.update(self._row, advance=1, description=task.label, left=self._time_left() if self._left else "")
        if not record.ok:
            self.say(f"{task.label}: {record.status}: {' '.join(record.message.split())}")
        elif self._bar is None and not self._quiet and time.monotonic() - self._last_line >= _SECONDS_BETWEEN_LINES:
            finished = self._total - len(self._left)
            self.say(f"{finished}/{self._total} tasks, {self._failed} failed, {self._time_left()} ({task.label} done)")

    def _time_left(self) -> str:
        # Rounding may leave a sum of floats just below zero.
        return f"about {duration(max(0.0, self._estimate.corrected(self._planned)) / self._n_jobs)} left"

    def say(self, text: str) -> None:
        """Print a line, above the bar if there is one."""
        self._last_line = time.monotonic()
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False)
        else:
            say(text)
