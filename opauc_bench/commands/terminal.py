"""Output of the commands: results on standard output, as wide as the terminal; all else on standard error."""

from __future__ import annotations

import math
import os
import sys
import textwrap
from collections.abc import Iterable, Sequence
from shutil import get_terminal_size
from typing import Any

__all__ = ["counted", "duration_text", "folded_table", "has_bars", "megabytes", "say", "table_text", "width", "wrapped"]


def counted(count: int, noun: str) -> str:
    """A count with its noun, such as ``1 record`` and ``2 records``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def duration_text(seconds: float) -> str:
    """A length of time in words: ``45 s``, ``12 min``, ``3.4 h``, ``2.1 d``."""
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    for unit, size, limit in (("min", 60, 90), ("h", 3600, 48)):
        if seconds / size < limit:
            return f"{seconds / size:.{0 if unit == 'min' else 1}f} {unit}"
    return f"{seconds / 86400:.1f} d"


def megabytes(size: float) -> str:
    """A size with its unit, rounded up where it is small."""
    size /= 1e6
    return f"{size:,.0f} MB" if size >= 10 else f"{max(0.1, math.ceil(10 * size) / 10):.1f} MB"


def width() -> int:
    """Characters per line of the terminal; 80 where there is none."""
    return get_terminal_size((80, 24)).columns


def wrapped(text: str, indent: str = "", first: str = "") -> str:
    """Break a text into lines that fit the terminal; paths stay whole. `indent` is that of all lines but the first."""
    return textwrap.fill(
        text, width(), initial_indent=first, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def table_text(rows: Iterable[Sequence[Any]], headers: Sequence[str], **options: Any) -> str:
    """Lay out a table below its headings; `options` are those of tabulate."""
    from tabulate import tabulate

    return tabulate(rows, headers, tablefmt="simple", **options)


def folded_table(rows: Sequence[Sequence[str]], headers: Sequence[str]) -> str:
    """Lay out a table of text; what is too wide for the terminal follows below, with the first column again."""
    from wcwidth import width as display_width

    # tabulate makes a column two characters wider than its heading.
    widths = [max(display_width(heading) + 2, *map(display_width, cells)) for heading, *cells in zip(headers, *rows)]
    parts: list[list[int]] = [[0]]
    for k in range(1, len(widths)):
        if len(parts[-1]) > 1 and sum(widths[j] + 2 for j in parts[-1]) + widths[k] > width():
            parts.append([0])
        parts[-1].append(k)
    tables = (table_text([[row[k] for k in part] for row in rows], [headers[k] for k in part]) for part in parts)
    return "\n\n".join(tables)


class _Say:
    """Print a line on standard error, at once; with a bar for transfers, if that is a terminal."""

    def __call__(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def bar(self, what: str, done: int, total: int) -> TransferBar | None:
        """Draw a bar of bytes, unless standard error is not a terminal or a plain one."""
        return TransferBar(what, done, total) if has_bars() else None


say = _Say()


def has_bars() -> bool:
    """Whether standard error can show a bar."""
    return sys.stderr.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


class TransferBar:
    """A bar on standard error, which disappears when it stops. ``total`` is 0 where it is not known."""

    def __init__(self, what: str, done: int, total: int):
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        columns = TextColumn("{task.description}", markup=False), BarColumn(20), DownloadColumn(), TimeRemainingColumn()
        self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self._row = self._bar.add_task(what, total=total or None, completed=done)
        self._bar.start()

    def update(self, done: int) -> None:
        """Show that so many bytes have come."""
        self._bar.update(self._row, completed=done)

    def stop(self) -> None:
        """Remove the bar."""
        self._bar.stop()
