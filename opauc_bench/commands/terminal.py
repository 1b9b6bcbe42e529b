"""Output of the commands: results on standard output, as wide as the terminal; all else on standard error."""

from __future__ import annotations

import sys
import textwrap
from shutil import get_terminal_size

__all__ = ["counted", "say", "width", "wrapped"]


def counted(count: int, noun: str) -> str:
    """A count with its noun, such as ``1 record`` and ``2 records``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def width() -> int:
    """Characters per line of the terminal; 80 where there is none."""
    return get_terminal_size((80, 24)).columns


def wrapped(text: str, indent: str = "", first: str = "") -> str:
    """Break a text into lines that fit the terminal; paths stay whole. `indent` is that of all lines but the first."""
    options = {"initial_indent": first, "subsequent_indent": indent}
    return textwrap.fill(text, width(), **options, break_long_words=False, break_on_hyphens=False)


def say(text: str) -> None:
    """Print a line on standard error, at once."""
    print(text, file=sys.stderr, flush=True)
