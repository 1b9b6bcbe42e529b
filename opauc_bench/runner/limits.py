"""The time limit of one task inside its own process, and the memory that it may use."""

from __future__ import annotations

import faulthandler
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from ..memory import total_memory
from ..task import Task

__all__ = [
    "OVERTIME",
    "Deadline",
    "Overrun",
    "TimeLimitReached",
    "available_memory",
    "exceeds_memory",
    "hard_time_limit",
    "overrun_in",
]

OVERTIME = 3.0  # seconds beyond its limit after which the process of a task is ended
_HEADING = "Timeout ("
_CALL_OF_A_KERNEL = ("kernels.py", "__call__")
_UNKNOWN_PLACE = "a place that is not known"
_FRAME = re.compile(r'  File "(?:.*/)?([^"/]+)", line (\d+) in (.+)')


def available_memory(limit: float | None) -> float:
    """Bytes that one task may use: the limit of the config, or the memory of this machine."""
    return limit or total_memory()


def exceeds_memory(task: Task, memory_bytes: float) -> bool:
    """Whether a task needs far more memory than it may use; estimates are good to a factor of two."""
    return task.memory_bytes > 2 * memory_bytes


class TimeLimitReached(Exception):
    """The time limit of a task is reached."""


class Deadline:
    """Raise when a task has run longer than ``seconds`` of wall-clock time, ``used`` included; None for no limit."""

    def __init__(self, seconds: float | None, used: float = 0.0):
        self.seconds = seconds
        self._start = time.monotonic() - used

    @property
    def used(self) -> float:
        return time.monotonic() - self._start

    def check(self, *_) -> None:
        if self.seconds is not None and self.used > self.seconds:
            raise TimeLimitReached(f"time limit of {self.seconds:g} s reached")


@contextmanager
def hard_time_limit(seconds: float | None, trace_file: Path | None) -> Iterator[None]:
    """End this process if the block takes longer than ``seconds``, even inside a kernel or LAPACK.

    These cannot be interrupted and block other Python threads, so the timer is a thread of C. It appends to
    ``trace_file`` where the time was spent (see `overrun_in`). Nothing is ended if either is None.
    """
    if seconds is None or trace_file is None:
        yield
        return
    with open(trace_file, "a", encoding="utf-8") as file:
        faulthandler.dump_traceback_later(seconds, exit=True, file=file)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()


class Overrun(NamedTuple):
    """Where `hard_time_limit` has ended a process."""

    place: str  # such as ``least_squares.py:117 in ridge_path``
    called: str  # name of the function that ran the place


def overrun_in(trace: str, caller: Callable[..., Any]) -> Overrun | None:
    """Where `hard_time_limit` has ended a process; None if it ended for another reason.

    ``trace`` is the content of the file. ``caller`` is the function that computes tasks, which only one thread has
    called; `Overrun.called` is what it had called.
    """
    _, heading, traces = trace.partition(_HEADING)
    if not heading:
        return None
    computes = os.path.basename(caller.__code__.co_filename), caller.__name__
    for thread in traces.split("\n\n"):
        frames = [(file, name, f"{file}:{line} in {name}") for file, line, name in _FRAME.findall(thread)]
        calls = [number for number, (*function, _) in enumerate(frames) if tuple(function) == computes]
        if not calls:
            continue
        called = frames[: calls[-1]]  # the most recent call comes first
        # A kernel has no frame of its own: it is the line that calls it.
        places = (place for *function, place in called if tuple(function) != _CALL_OF_A_KERNEL)
        return Overrun(next(places, _UNKNOWN_PLACE), called[-1][1] if called else "")
    return Overrun(_UNKNOWN_PLACE, "")
