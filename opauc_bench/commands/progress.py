"""Progress of a run: a bar on a terminal, a line every few seconds elsewhere. Estimates go by cost, not by count."""

from __future__ import annotations

import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping

from ..results.record import Record
from ..task import Task

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
    """CPU seconds of tasks: the plan's own estimate, corrected by what tasks of the same kind have taken."""

    def __init__(self):
        self._planned: dict[Kind, float] = defaultdict(float)
        self._taken: dict[Kind, float] = defaultdict(float)

    def learn(self, task: Task, record: Record) -> None:
        """Take note of what a task has taken; only finished ones teach."""
        if record.ok and (taken := record.timing.cpu_seconds) > 0:
            self._planned[task.dataset, task.column] += task.seconds
            self._taken[task.dataset, task.column] += taken

    def seconds(self, tasks: Iterable[Task]) -> float:
        return self.corrected(planned_by_kind(tasks))

    def corrected(self, planned: Mapping[Kind, float]) -> float:
        """Seconds of tasks of which only the plan's own estimates are given, summed by dataset and column."""
        known, taken = sum(self._planned.values()), sum(self._taken.values())
        # A learner or dataset of which nothing is known yet is as far off as the others are on the whole.
        overall = taken / known if known > 0 else 1.0
        return sum(
            seconds * (self._taken[kind] / self._planned[kind] if self._planned[kind] else overall)
            for kind, seconds in planned.items()
        )


def planned_by_kind(tasks: Iterable[Task]) -> dict[Kind, float]:
    """The plan's estimates, summed by dataset and column."""
    planned: dict[Kind, float] = defaultdict(float)
    for task in tasks:
        planned[task.dataset, task.column] += task.seconds
    return planned


class Progress:
    """Follow a run on standard error.

    Parameters
    ----------
    tasks : list of Task
        What is to be done.
    n_jobs : int
    estimate : Estimate
    quiet : bool
    """

    def __init__(self, tasks: list[Task], n_jobs: int, estimate: Estimate, quiet: bool = False):
        # Sums and not the tasks: with a hundred thousand of them, a look at each after each would take hours.
        self._left = {task.id for task in tasks}
        self._planned = planned_by_kind(tasks)
        self._total = len(tasks)
        self._n_jobs = n_jobs
        self._estimate = estimate
        self._quiet = quiet
        self._failed = 0
        self._said = time.monotonic()
        self._bar = None

    def __enter__(self) -> Progress:
        if (
            not self._quiet
            and sys.stderr.isatty()
            and "NO_COLOR" not in os.environ
            and os.environ.get("TERM") != "dumb"
        ):
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
            from rich.progress import Progress as Bar

            self._bar = Bar(
                BarColumn(20),
                MofNCompleteColumn(),
                TextColumn("{task.fields[left]}"),
                TextColumn("{task.description}"),
                console=Console(stderr=True),
                transient=True,
            )
            self._row = self._bar.add_task("starting", total=self._total, left="")
            self._bar.start()
        return self

    def __exit__(self, *_) -> None:
        if self._bar is not None:
            self._bar.stop()

    def done(self, task: Task, record: Record) -> None:
        """Take note of a finished task."""
        if task.id in self._left:
            self._left.remove(task.id)
            self._planned[task.dataset, task.column] -= task.seconds
        self._estimate.learn(task, record)
        failed = not record.ok
        self._failed += failed
        if self._bar is not None:
            self._bar.update(self._row, advance=1, description=task.label, left=self._time_left() if self._left else "")
        if failed:
            self.say(f"{task.label}: {record.status}: {record.message}")
        elif self._bar is None and not self._quiet and time.monotonic() - self._said >= _SECONDS_BETWEEN_LINES:
            finished = self._total - len(self._left)
            left = self._time_left()
            self.say(f"{finished}/{self._total} tasks, {self._failed} failed, {left} ({task.label} done)")

    def _time_left(self) -> str:
        # What is left of a sum of floats may be a hair below zero.
        return f"about {duration(max(0.0, self._estimate.corrected(self._planned)) / self._n_jobs)} left"

    def say(self, text: str) -> None:
        """Print a line, whatever the bar is doing."""
        self._said = time.monotonic()
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False)
        else:
            print(text, file=sys.stderr, flush=True)
