"""Time and memory limits of one task, inside its own process."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Deadline", "TimeLimitReached", "memory_limit"]


class TimeLimitReached(Exception):
    """The task has used up its time."""


class Deadline:
    """Raise when a task has run for too long; looked at between chunks of rows.

    Parameters
    ----------
    seconds : float or None
        Wall-clock limit; None for no limit.
    used : float
        Seconds that the task ran for before it was interrupted.
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
def memory_limit(n_bytes: float | None) -> Iterator[None]:
    """Let allocations beyond ``n_bytes`` more than the process has now fail with MemoryError.

    The limit is on private writable memory: files that are mapped for reading, such as the datasets, do not count.
    """
    if n_bytes is None:
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = int(_private_bytes() + n_bytes)
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
