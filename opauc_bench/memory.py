"""The memory of this process: its peak, and a limit for what is private."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["memory_limit", "peak_memory", "total_memory", "without_memory_limit"]

_MOST_BYTES = 2.0**62  # that the system accepts


def total_memory() -> float:
    """Bytes of memory of this machine."""
    return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


def peak_memory() -> int:
    """Largest resident memory of this process so far, in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


@contextmanager
def memory_limit(n_bytes: float | None) -> Iterator[None]:
    """Let allocations of more than ``n_bytes`` beyond the present use fail with MemoryError.

    Private writable memory counts; files that are mapped for reading, such as the datasets, do not.
    """
    if n_bytes is None:
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_DATA)
    _set_limit(_private_bytes() + n_bytes, before[1])
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


@contextmanager
def without_memory_limit() -> Iterator[None]:
    """Let allocations succeed in spite of `memory_limit`, and add what is kept of them to the limit.

    For machine code: LLVM ends the process where it gets no memory.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if soft == hard:
        yield
        return
    before = _private_bytes()
    resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))
    try:
        yield
    finally:
        _set_limit(soft + max(0, _private_bytes() - before), hard)


def _set_limit(n_bytes: float, hard: int) -> None:
    limit = int(min(n_bytes, _MOST_BYTES))
    resource.setrlimit(resource.RLIMIT_DATA, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


def _private_bytes() -> int:
    try:
        with open("/proc/self/status", encoding="ascii") as file:
            for line in file:
                if line.startswith("VmData:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return peak_memory()
