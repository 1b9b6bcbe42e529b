"""What a measurement is handed: the data, the learner, the grid, the limits, and a place for what is half done."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..data import Dataset
from ..results.store import Store
from ..task import Task
from .limits import Deadline

__all__ = ["Work", "from_json", "to_json"]

# Tasks shorter than this leave nothing behind when they are interrupted.
_WORTH_KEEPING = 5.0


@dataclass
class Work:
    """One task, ready to be computed.

    Attributes
    ----------
    task : Task
    data : Dataset
    learner : LinearRanker
        With the experiment's parameters set.
    grid : dict of axis to ndarray of shape (n_settings,)
    lender : (LinearRanker, dict) or None
        Learner and grid that are searched first; the values that it chooses for ``task.lender["axes"]`` are taken.
    narrow : ndarray or None
        Coordinates of all rows in the span of the rows, where the learner gives the same scores on them. They are for
        choosing among settings; what is trained for the record itself is trained on the data.
    store : Store or None
        Where finished parts are kept; without it the task starts from nothing.
    seconds : float or None
        Wall-clock limit, what an interrupted run has used included.
    started : float
        Reading of ``time.monotonic()`` when the work on the task began.
    memory_bytes : float or None
        What one training pass may use: settings go in blocks where all of them together need more.
    """

    task: Task
    data: Dataset
    learner: Any
    grid: dict[str, np.ndarray]
    lender: tuple[Any, dict[str, np.ndarray]] | None = None
    narrow: np.ndarray | None = None
    store: Store | None = None
    seconds: float | None = None
    memory_bytes: float | None = None
    started: float = field(default_factory=time.monotonic)
    deadline: Deadline = field(init=False)
    partial: dict[str, Any] = field(init=False)

    def __post_init__(self):
        self.partial = self.store.read_partial(self.task) if self.store else {}
        self.deadline = Deadline(self.seconds, self.partial.get("seconds", 0.0) + time.monotonic() - self.started)
        self._cpu_start = time.process_time() - self.partial.get("cpu_seconds", 0.0)

    @property
    def cpu_seconds(self) -> float:
        """CPU time of the task so far, what an interrupted run has used included."""
        return time.process_time() - self._cpu_start

    def keep(self, finished: dict[str, Any]) -> None:
        """Leave JSON-ready parts for the case of an interruption; they come back as ``partial``."""
        if self.store and self.deadline.used > _WORTH_KEEPING:
            clocks = {"seconds": self.deadline.used, "cpu_seconds": self.cpu_seconds}
            self.store.write_partial(self.task, {**finished, **clocks})


def to_json(values: Iterable[float]) -> list[float | None]:
    """Floats as JSON takes them: NaN becomes null."""
    return [None if np.isnan(value) else float(value) for value in values]


def from_json(values: list[float | None]) -> np.ndarray:
    """What :func:`to_json` was given."""
    return np.array([np.nan if value is None else value for value in values], dtype=float)
