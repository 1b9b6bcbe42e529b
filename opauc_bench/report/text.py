"""Plain text: how numbers are printed, and columns that keep to a width."""

import textwrap
from collections.abc import Sequence
from itertools import zip_longest

from .metrics import AUC

__all__ = ["GAP", "auc_text", "columns_text", "paragraph", "signed_text", "superscript"]

GAP = 2  # blanks between columns

_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def auc_text(value: float) -> str:
    """Print an AUC or its std as the paper does: four decimals, no leading zero (.8309, but 1.0000)."""
    return AUC.text(value)


def signed_text(value: float) -> str:
    """Print a difference of two AUC values: four decimals with the sign, no leading zero (+.0012)."""
    return AUC.signed(value)


def superscript(number: int) -> str:
    """Print a footnote's number in superscript digits."""
    return str(number).translate(_SUPERSCRIPTS)


def paragraph(text: str, width: int, first: str = "", rest: str | None = None) -> str:
    """Break a text into lines of at most `width`, with a prefix to its first line and its other lines."""
    indent = " " * len(first) if rest is None else rest
    return textwrap.fill(text, width, initial_indent=first, subsequent_indent=indent, break_on_hyphens=False)


def columns_text(rows: Sequence[Sequence[str]], widths: Sequence[int]) -> list[str]:
    """Lay rows out in columns; a text wider than its column goes on in the lines below.

    Parameters
    ----------
    rows : sequence of sequences of str
        The cells, each row as long as `widths`.
    widths : sequence of int
        Characters a column; the lines take ``sum(widths) + GAP * (len(widths) - 1)`` at most.

    Returns
    -------
    list of str
        Lines without trailing blanks.
    """
    lines = []
    for row in rows:
        broken = [_broken(cell, width) for cell, width in zip(row, widths)]
        for parts in zip_longest(*broken, fillvalue=""):
            padded = [part.ljust(width) for part, width in zip(parts, widths)]
            lines.append((" " * GAP).join(padded).rstrip())
    return lines


def _broken(cell: str, width: int) -> list[str]:
    return [cell] if len(cell) <= width else textwrap.wrap(cell, width)
