"""Plain text: printed numbers, labels of quantities, and columns of a given width.

Widths are in columns of a terminal, of which a Chinese character takes two.
"""

import math
import statistics
from collections.abc import Sequence
from itertools import zip_longest

from wcwidth import ljust, wrap
from wcwidth import width as display_width

from .metrics import AUC

__all__ = [
    "AXIS_SYMBOLS",
    "GAP",
    "QUANTITY_LABELS",
    "auc_text",
    "columns_text",
    "display_width",
    "mean_and_std",
    "paragraph",
    "power_of_two",
    "quantity_label",
    "rope_text",
    "superscript",
    "value_label",
    "value_text",
]

GAP = 2  # blanks between columns

_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
QUANTITY_LABELS = {
    "auc": "test AUC",
    "sparse_ratio": "sparse ratio",
    "n_seen": "training examples seen",
    "seconds": "CPU time (seconds)",
    "wall_seconds": "time (seconds)",
    "positive_error": "relative error, positive class",
    "negative_error": "relative error, negative class",
    "eta": "step size η",
    "lam": "regularisation λ",
    "l1": "regularisation λ",
    "gamma": "initial rate γ",
    "tau": "sketch size τ",
    "dataset": "",
}
AXIS_SYMBOLS = {"eta": "η", "lam": "λ", "l1": "λ", "gamma": "γ", "tau": "τ"}


def auc_text(value: float) -> str:
    """Print an AUC or its std as the paper does: four decimals, no leading zero (.8309, but 1.0000)."""
    return AUC.text(value)


def rope_text(rope: float) -> str:
    """Print half the width of a region of practical equivalence: .005."""
    return f"{rope:g}".removeprefix("0") or "0"


def superscript(number: int) -> str:
    """Print a number, such as that of a footnote, in superscript digits."""
    return str(number).translate(_SUPERSCRIPTS)


def mean_and_std(values: Sequence[float], ddof: int) -> tuple[float, float | None]:
    """Mean and standard deviation, None for a single value; with ``n - ddof`` in the denominator.

    Exactly rounded, so that the bytes of a file do not depend on how a machine orders its sums.
    """
    if len(set(values)) == 1:
        return values[0], 0.0 if len(values) > 1 else None
    return statistics.fmean(values), (statistics.stdev if ddof else statistics.pstdev)(values)


def paragraph(text: str, width: int, first: str = "") -> str:
    """Break a text into lines of at most `width`, with a prefix to its first line; the others are indented as far."""
    indent = " " * display_width(first)
    return "\n".join(wrap(text, width, initial_indent=first, subsequent_indent=indent, break_on_hyphens=False))


def columns_text(rows: Sequence[Sequence[str]], widths: Sequence[int]) -> list[str]:
    """Lay out rows in columns of the given widths; a wider text continues in the lines below."""
    lines = []
    for row in rows:
        broken = [[cell] if display_width(cell) <= width else wrap(cell, width) for cell, width in zip(row, widths)]
        for parts in zip_longest(*broken, fillvalue=""):
            padded = [ljust(part, width) for part, width in zip(parts, widths)]
            lines.append((" " * GAP).join(padded).rstrip())
    return lines


def quantity_label(name: str) -> str:
    """The label of an axis."""
    return QUANTITY_LABELS.get(name, " ".join({"auc": "AUC"}.get(word, word) for word in name.split("_")))


def value_label(axis: str, value: float) -> str:
    """Such as ``λ = 2⁻⁸``."""
    return f"{AXIS_SYMBOLS.get(axis, axis)} = {value_text(value)}"


def value_text(value: float, superscripts: bool = True) -> str:
    """A power of two such as ``2⁻⁸``, unless it is 1, 2, 4 or 8; any other number with four digits.

    Without ``superscripts`` such as ``2^-8``, for texts that LaTeX gets as well.
    """
    exponent = power_of_two(value)
    if exponent is None or 0 <= exponent <= 3:
        return f"{value:.4g}"
    return f"2{superscript(exponent)}" if superscripts else f"2^{exponent}"


def power_of_two(value: float) -> int | None:
    """The exponent, or None if the value is not a power of two."""
    if not (value > 0 and math.isfinite(value)):
        return None
    mantissa, exponent = math.frexp(value)
    return exponent - 1 if mantissa == 0.5 else None
