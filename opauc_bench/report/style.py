"""What a table's cells look like: one builder for all formats, and a `Style` for each of them."""

from collections.abc import Callable
from dataclasses import dataclass

from ..evaluation.significance import Verdict
from .metrics import AUC, Metric
from .table import Entry, ResultTable

__all__ = ["MARKS", "Group", "Style", "body_groups", "cell_text", "value_text"]

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


@dataclass(frozen=True)
class Group:
    """The rows of one metric, and the counts below them; the heading is empty where a table has one metric only."""

    heading: str
    rows: list[list[str]]
    foot: list[list[str]]


def body_groups(table: ResultTable, style: Style) -> list[Group]:
    """Return the table's body: the dataset, then `.8309 ± .0350 •`, `… 12/25` or `N/A¹` for each column."""
    groups = []
    for metric, entries in table.parts():
        heading = style.escape(metric.heading) if table.sections else ""
        rows = [
            [style.escape(dataset), *(cell_text(entry, style, metric) for entry in row)]
            for dataset, row in table.rows(entries)
        ]
        groups.append(Group(heading, rows, [] if groups else _foot_rows(table)))
    return groups


def _foot_rows(table: ResultTable) -> list[list[str]]:
    """Return the counts below the table, the same in every format: win/tie/loss, datasets that entered."""
    tallies = table.tallies.values()
    if not tallies:
        return []
    return [
        ["win/tie/loss", "", *map(str, tallies)],
        ["counted", "", *(f"{tally.counted} of {len(table.datasets)}" for tally in tallies)],
    ]


def cell_text(entry: Entry, style: Style, metric: Metric = AUC) -> str:
    """Write one entry: its value, or how far it has come, or N/A."""
    if entry.status == "ok":
        return value_text(entry.mean, entry.std, entry.verdict, style, metric)
    text = f"{style.pending} {entry.n}/{entry.expected}" if entry.status == "pending" else "N/A"
    return text + (style.note(entry.note) if entry.note else "")


def value_text(mean: float, std: float | None, verdict: Verdict | None, style: Style, metric: Metric = AUC) -> str:
    """Write `.8309 ± .0350 •`, without what is None."""
    text = metric.text(mean).rjust(style.mean_width)
    if std is not None:
        text += f" {style.plus_minus} {metric.text(std)}"
    return text + {"win": f" {style.win}", "loss": f" {style.loss}"}.get(verdict, "")
