"""Plain text: printed numbers, and columns of a given width."""

import textwrap
from collections.abc import Sequence
from itertools import zip_longest

from .metrics import AUC

__all__ = ["GAP", "auc_text", "columns_text", "paragraph", "rope_text", "superscript"]

GAP = 2  # blanks between columns

_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def auc_text(value: float) -> str:
    """Print an AUC or its std as the paper does: four decimals, no leading zero (.8309, but 1.0000)."""
    return AUC.text(value)


def rope_text(rope: float) -> str:
    """Print half the width of a region of practical equivalence: .005."""
    return f"{rope:g}".removeprefix("0") or "0"


def superscript(number: int) -> str:
    """Print a number, such as that of a footnote, in superscript digits."""
    return str(number).translate(_SUPERSCRIPTS)


def paragraph(text: str, width: int, first: str = "") -> str:
    """Break a text into lines of at most `width`, with a prefix to its first line; the others are indented as far."""
    indent = " " * len(first)
    return textwrap.fill(text, width, initial_indent=first, subsequent_indent=indent, break_on_hyphens=False)


def columns_text(rows: Sequence[Sequence[str]], widths: Sequence[int]) -> list[str]:
    """Lay out rows in columns of the given numbers of characters; a wider text continues in the lines below."""
    lines = []
    for row in rows:
        broken = [[cell] if len(cell) <= width else textwrap.wrap(cell, width) for cell, width in zip(row, widths)]
        for parts in zip_longest(*broken, fillvalue=""):
            padded = [part.ljust(width) for part, width in zip(parts, widths)]
            lines.append((" " * GAP).join(padded).rstrip())
    return lines
