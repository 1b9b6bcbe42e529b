"""The load of the machine by other processes, for measurements of time."""

from __future__ import annotations

import os
import time
from pathlib import Path

__all__ = ["what_else_runs"]

STAT = Path("/proc/stat")
_SECONDS = 0.5  # fifty ticks of the system's clock on each core
_QUIET = 0.2  # cores that a machine with nothing to do keeps at work, with a little to spare
_QUIET_LOAD = 0.3  # the same as a load average


def what_else_runs() -> str | None:
    """Describe the load if the machine is not idle now, or return None; takes half a second on Linux.

    The load average of the last minute includes a run that has just ended. It is used only on systems that do not count
    the time of their cores.
    """
    before = _ticks()
    if before is not None:
        time.sleep(_SECONDS)
        after = _ticks()
        if after is not None and after[1] > before[1]:
            cores = os.cpu_count() or 1
            at_work = cores * (after[0] - before[0]) / (after[1] - before[1])
            return f"{at_work:.1f} of {cores} cores are used by other processes" if at_work > _QUIET else None
    load = os.getloadavg()[0]
    return f"its load average of the last minute is {load:.1f}" if load > _QUIET_LOAD else None


def _ticks() -> tuple[int, int] | None:
    """Return ticks of all cores at work, with those that other guests of the host have taken, and all ticks."""
    try:
        name, *numbers = STAT.read_text().splitlines()[0].split()
        user, nice, system, idle, waiting, *others = (int(number) for number in numbers[:8])
    except (OSError, IndexError, ValueError):
        return None
    at_work = user + nice + system + sum(others)
    return (at_work, at_work + idle + waiting) if name == "cpu" else None
