"""How far a pass has come: one line that is written over on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from datetime import timedelta

from .rows import Source

__all__ = ["Meter", "shown_auc"]

_ON_TERMINAL, _ELSEWHERE = 0.5, 10.0  # seconds between two lines


def shown_auc(auc: float | None) -> str:
    """``.9123``, or ``-`` where there is none."""
    return "-" if auc is None else f"{auc:.4f}".removeprefix("0")


class Meter:
    """Say on standard error, unless ``quiet``, how many rows have been read, how fast, and how long it will take."""

    def __init__(self, source: Source, quiet: bool = False):
        self._source = source
        self._terminal = sys.stderr.isatty()
        self._quiet = quiet
        self._begin = time.monotonic()
        self._said = self._begin
        self._written = False

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._begin

    def tick(self, n_rows: int, more: Callable[[], str] = str, position: int | None = None) -> None:
        """Say how far it is, if it was not said just now; ``more`` makes the end of the line.

        ``position`` is how many bytes had been read when these rows came; by default those that have been read by now.
        """
        now = time.monotonic()
        if self._quiet or now - self._said < (_ON_TERMINAL if self._terminal else _ELSEWHERE):
            return
        self._said = now
        seconds = now - self._begin
        parts = [f"{n_rows:,} rows", f"{n_rows / seconds:,.0f} rows/s"]
        position = self._source.position if position is None else position
        share = position / self._source.size if self._source.size else 0.0
        if 0.0 < share < 1.0:
            parts += [f"{100 * share:.0f} %", f"{timedelta(seconds=round(seconds / share - seconds))} left"]
        elif not share:  # otherwise the last rows of the file are under way, and how many is not known
            parts.append(f"{position / 1e6:,.0f} MB")
        line = "  ".join(filter(None, [*parts, more()]))
        if self._terminal:
            # A line that wraps could not be written over.
            line = f"\r{line[: shutil.get_terminal_size().columns - 1]}\x1b[K"
            self._written = True
        print(line, end="" if self._terminal else "\n", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Take the line away, before something else is printed."""
        if self._written:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._written = False
