"""What a table's cells look like: one builder for all formats, and a `Style` for each of them."""

from collections.abc import Callable
from dataclasses import dataclass

from ..evaluation.significance import Verdict
from .table import Entry, ResultTable
from .text import auc_text

__all__ = ["MARKS", "Style", "body_rows", "cell_text", "foot_rows", "value_text"]

MARKS = {"win": "•", "loss": "◦"}


@dataclass(frozen=True)
class Style:
    """How one format writes a cell.

    Attributes
    ----------
    escape : callable
        Makes a name safe in the format.
    note : callable
        Writes the number of a footnote.
    plus_minus, win, loss, pending : str
        The symbols.
    mean_width : int
        Means are padded to this width on the left.
    """

    escape: Callable[[str], str]
    note: Callable[[int], str]
    plus_minus: str = "±"
    win: str = MARKS["win"]
    loss: str = MARKS["loss"]
    pending: str = "…"
    mean_width: int = 0


def body_rows(table: ResultTable, style: Style) -> list[list[str]]:
    """Return the table's body: the dataset, then `.8309 ± .0350 •`, `… 12/25` or `N/A¹` for each column."""
    return [
        [style.escape(dataset), *(cell_text(entry, style) for entry in entries)] for dataset, entries in table.rows()
    ]


def foot_rows(table: ResultTable) -> list[list[str]]:
    """Return the counts below the table, the same in every format: win/tie/loss, datasets that entered."""
    tallies = table.tallies.values()
    if not tallies:
        return []
    return [
        ["win/tie/loss", "", *map(str, tallies)],
        ["counted", "", *(f"{tally.counted} of {len(table.datasets)}" for tally in tallies)],
    ]


def cell_text(entry: Entry, style: Style) -> str:
    """Write one entry: its value, or how far it has come, or N/A."""
    if entry.status == "ok":
        return value_text(entry.mean, entry.std, entry.verdict, style)
    text = f"{style.pending} {entry.n}/{entry.expected}" if entry.status == "pending" else "N/A"
    return text + (style.note(entry.note) if entry.note else "")


def value_text(mean: float, std: float | None, verdict: Verdict | None, style: Style) -> str:
    """Write `.8309 ± .0350 •`, without what is None."""
    text = auc_text(mean).rjust(style.mean_width)
    if std is not None:
        text += f" {style.plus_minus} {auc_text(std)}"
    return text + {"win": f" {style.win}", "loss": f" {style.loss}"}.get(verdict, "")
