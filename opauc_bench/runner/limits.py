"""Time and memory limits of one task, inside its own process."""

from __future__ import annotations

import faulthandler
import os
import re
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..task import Task

__all__ = [
    "OVERTIME",
    "Deadline",
    "TimeLimitReached",
    "available_memory",
    "exceeds_memory",
    "last_resort",
    "memory_limit",
    "overrun_in",
]

OVERTIME = 3.0  # seconds beyond its limit after which a task is not asked any more
_MOST_BYTES = 2.0**62  # that the system can count
_HEADING = "Timeout ("
_FRAME = re.compile(r'  File "(?:.*/)?([^"/]+)", line (\d+) in (.+)')


def available_memory(limit_gb: float | None) -> float:
    """Bytes that one task may use: the limit of the config, else the memory of this machine."""
    return limit_gb * 1e9 if limit_gb else float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


def exceeds_memory(task: Task, memory_bytes: float) -> bool:
    """Whether a task needs far more memory than it may use; estimates are good to a factor of two."""
    return task.memory_bytes > 2 * memory_bytes


class TimeLimitReached(Exception):
    """The task has used up its time."""


class Deadline:
    """Raise when a task has run for too long; looked at between chunks of rows.

    Parameters
    ----------
    seconds : float or None
        Wall-clock limit; None for no limit.
    used : float
        Seconds that the task has run for already.
    """

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
def last_resort(seconds: float | None, note: Path | None) -> Iterator[None]:
    """End this process if the block takes longer than that, whatever it is in the middle of.

    A kernel or a routine of LAPACK cannot be interrupted, and keeps other threads of Python from running. The clock
    that runs here is a thread of C. It leaves behind where the time was spent, and then the process is gone.

    Parameters
    ----------
    seconds : float or None
        None for no limit.
    note : Path or None
        File that the place is appended to, for `overrun_in`. None where the process must not be ended.
    """
    if seconds is None or note is None:
        yield
        return
    with open(note, "a", encoding="utf-8") as file:
        faulthandler.dump_traceback_later(seconds, exit=True, file=file)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()


def overrun_in(note: str, function: str) -> str | None:
    """Where a process was that `last_resort` has ended, such as ``least_squares.py:117 in ridge_path``.

    Parameters
    ----------
    note : str
        Contents of the file.
    function : str
        A function of the thread that matters.

    Returns
    -------
    str or None
        None if the process came to another end.
    """
    _, heading, traces = note.partition(_HEADING)
    if not heading:
        return None
    threads = [_FRAME.findall(thread) for thread in traces.split("\n\n")]
    frames = next((frames for frames in threads if any(name == function for *_, name in frames)), [])
    return "{}:{} in {}".format(*frames[0]) if frames else "a place that it could not tell"


@contextmanager
def memory_limit(n_bytes: float | None) -> Iterator[None]:
    """Let allocations beyond ``n_bytes`` more than the process has now fail with MemoryError.

    The limit is on private writable memory: files that are mapped for reading, such as the datasets, do not count.
    """
    if n_bytes is None:
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = int(min(_private_bytes() + n_bytes, _MOST_BYTES))
    resource.setrlimit(resource.RLIMIT_DATA, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _private_bytes() -> int:
    try:
        with open("/proc/self/status", encoding="ascii") as file:
            for line in file:
                if line.startswith("VmData:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
