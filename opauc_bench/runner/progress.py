"""Progress of a run: a bar on a terminal, a line every few seconds elsewhere. Estimates go by cost, not by count."""

from __future__ import annotations

import os
import sys
import time
from collections import defaultdict
from typing import Any

from ..plan import Task

__all__ = ["Progress", "duration"]

_SECONDS_BETWEEN_LINES = 10.0


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
        self._planned: dict[tuple[str, str], float] = defaultdict(float)
        self._taken: dict[tuple[str, str], float] = defaultdict(float)

    def learn(self, task: Task, record: dict[str, Any]) -> None:
        timing = record.get("timing", {})
        taken = timing.get("selection_cpu_seconds", 0.0) + timing.get("fit_cpu_seconds", 0.0)
        if record["status"] == "ok" and taken > 0:
            self._planned[task.dataset, task.column] += task.seconds
            self._taken[task.dataset, task.column] += taken

    def seconds(self, tasks: list[Task]) -> float:
        planned, taken = sum(self._planned.values()), sum(self._taken.values())
        # A learner or dataset of which nothing is known yet is as far off as the others are on the whole.
        overall = taken / planned if planned > 0 else 1.0
        total = 0.0
        for task in tasks:
            kind = (task.dataset, task.column)
            total += task.seconds * (self._taken[kind] / self._planned[kind] if self._planned[kind] else overall)
        return total


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
        self._left = {(task.id, task.column): task for task in tasks}
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

    def done(self, task: Task, record: dict[str, Any]) -> None:
        """Take note of a finished task."""
        self._left.pop((task.id, task.column), None)
        self._estimate.learn(task, record)
        failed = record["status"] != "ok"
        self._failed += failed
        left = f"about {duration(self._estimate.seconds(list(self._left.values())) / self._n_jobs)} left"
        if self._bar is not None:
            self._bar.update(self._row, advance=1, description=task.label, left=left if self._left else "")
        if failed:
            self.say(f"{task.label}: {record['status']}: {record['message']}")
        elif self._bar is None and not self._quiet and time.monotonic() - self._said >= _SECONDS_BETWEEN_LINES:
            finished = self._total - len(self._left)
            self.say(f"{finished}/{self._total} tasks, {self._failed} failed, {left} ({task.label} done)")

    def say(self, text: str) -> None:
        """Print a line, whatever the bar is doing."""
        self._said = time.monotonic()
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False)
        else:
            print(text, file=sys.stderr, flush=True)
