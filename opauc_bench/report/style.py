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
    best : callable, optional
        Highlights the best mean of each row.
    """

    escape: Callable[[str], str]
    note: Callable[[int], str]
    plus_minus: str = "±"
    win: str = MARKS["win"]
    loss: str = MARKS["loss"]
    pending: str = "…"
    mean_width: int = 0
    best: Callable[[str], str] | None = None


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
        rows = [[style.escape(dataset), *_row(row, style, metric)] for dataset, row in table.rows(entries)]
        groups.append(Group(heading, rows, [] if groups else _foot_rows(table)))
    return groups


def _row(entries: list[Entry], style: Style, metric: Metric) -> list[str]:
    means = [entry.mean for entry in entries if entry.mean is not None]
    best = metric.text(metric.best(means)) if style.best and means else None
    return [
        cell_text(entry, style, metric, is_best=entry.mean is not None and metric.text(entry.mean) == best)
        for entry in entries
    ]


def _foot_rows(table: ResultTable) -> list[list[str]]:
    """Return the counts below the table, the same in every format: win/tie/loss, datasets that entered."""
    if not table.tallies:
        return []
    tallies = [table.tallies.get(column.key) for column in table.columns]
    n_datasets = len(table.datasets)
    return [
        ["win/tie/loss", *(str(tally or "") for tally in tallies)],
        ["counted", *(f"{tally.counted} of {n_datasets}" if tally else "" for tally in tallies)],
    ]


def cell_text(entry: Entry, style: Style, metric: Metric = AUC, is_best: bool = False) -> str:
    """Write one entry: its value, or how far it has come, or N/A."""
    if entry.status == "ok":
        return value_text(entry.mean, entry.std, entry.verdict, style, metric, is_best)
    text = f"{style.pending} {entry.n}/{entry.expected}" if entry.status == "pending" else "N/A"
    return text + (style.note(entry.note) if entry.note else "")


def value_text(
    mean: float,
    std: float | None,
    verdict: Verdict | None,
    style: Style,
    metric: Metric = AUC,
    is_best: bool = False,
) -> str:
    """Write `.8309 ± .0350 •`, without what is None."""
    text = metric.text(mean).rjust(style.mean_width)
    if is_best:
        text = style.best(text)
    if std is not None:
        text += f" {style.plus_minus} {metric.text(std)}"
    return text + {"win": f" {style.win}", "loss": f" {style.loss}"}.get(verdict, "")
