"""How the commands speak: results on standard output, as wide as the terminal; all else on standard error."""

from __future__ import annotations

import sys
import textwrap
from shutil import get_terminal_size

__all__ = ["say", "width", "wrapped"]


def width() -> int:
    """Characters a line of the terminal; 80 where there is none."""
    return get_terminal_size((80, 24)).columns


def wrapped(text: str, indent: str = "") -> str:
    """Break a text into lines that fit the terminal, but no path; `indent` goes before all lines but the first."""
    return textwrap.fill(text, width(), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def say(text: str) -> None:
    """Print a line on standard error, at once."""
    print(text, file=sys.stderr, flush=True)
