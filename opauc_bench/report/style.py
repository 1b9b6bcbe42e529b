"""The cells of a table: one builder for all formats, and a `Style` for each of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ..evaluation.bayes import Posterior
from ..evaluation.significance import Verdict
from .metrics import AUC, Metric
from .table import Entry, ResultTable

__all__ = ["MARKS", "Group", "Style", "body_groups", "cell_text", "foot_rows", "mean_text", "percent_text"]

MARKS = {"win": "•", "loss": "◦", "equivalent": "≈", "undecided": "?"}
_COUNTS = {"better": "win", "equivalent": "equivalent", "worse": "loss", "undecided": "undecided"}


@dataclass(frozen=True)
class Style:
    """How one format writes a cell.

    ``escape`` makes a name safe, ``note`` writes the number of a footnote, and ``best``, if given, highlights the best
    mean of each row. Means are padded to ``mean_width`` on the left. ``percent``, if given, writes the probabilities of
    the Bayesian test.
    """

    escape: Callable[[str], str]
    note: Callable[[int], str]
    plus_minus: str = "±"
    marks: Mapping[str, str] = field(default_factory=lambda: MARKS)
    pending: str = "…"
    mean_width: int = 0
    best: Callable[[str], str] | None = None
    percent: Callable[[str], str] | None = None


@dataclass(frozen=True)
class Group:
    """The rows of one metric, and the counts below them; the heading is empty where a table has one metric only."""

    heading: str
    rows: list[list[str]]
    foot: list[list[str]]


def body_groups(table: ResultTable, style: Style) -> list[Group]:
    """Return the table's body: the dataset, then `.8309 ± .0350 •`, `… 12/25` or `N/A¹` for each column."""
    groups: list[Group] = []
    for metric, entries in table.sections:
        heading = style.escape(metric.heading) if table.has_metrics else ""
        rows = []
        for dataset, row in table.rows(entries):
            means = [entry.mean for entry in row if entry.mean is not None]
            best = metric.text(metric.best(means)) if style.best and means else None
            is_best = [entry.mean is not None and metric.text(entry.mean) == best for entry in row]
            rows.append([style.escape(dataset), *(cell_text(e, style, metric, b) for e, b in zip(row, is_best))])
        groups.append(Group(heading, rows, [] if groups else foot_rows(table)))
    return groups


def foot_rows(table: ResultTable) -> list[list[str]]:
    """Return the counts below the table: those of each verdict, and the rows that are counted."""
    if not table.tallies:
        return []
    tallies = [table.tallies.get(column.key) for column in table.columns]
    if table.test == "bayes":
        rows = [[name, *(str(getattr(t, verdict)) if t else "" for t in tallies)] for name, verdict in _COUNTS.items()]
    else:
        rows = [["win/tie/loss", *(str(t or "") for t in tallies)]]
    return [*rows, ["counted", *(f"{t.counted} of {len(table.datasets)}" if t else "" for t in tallies)]]


def cell_text(entry: Entry, style: Style, metric: Metric = AUC, is_best: bool = False) -> str:
    """Write one entry: its value, or the number of its finished folds, or N/A."""
    if entry.mean is not None:
        text = mean_text(entry.mean, entry.std, entry.verdict, style, metric, is_best)
        if style.percent and entry.posterior:
            text = text + " " + style.percent(percent_text(entry.posterior))
        return text + (style.note(entry.note) if entry.note else "")
    absent = {"pending": f"{style.pending} {entry.n}/{entry.expected}", "undefined": "–"}
    text = absent.get(entry.status, "N/A")
    return text + (style.note(entry.note) if entry.note else "")


def mean_text(
    mean: float, std: float | None, verdict: Verdict | None, style: Style, metric: Metric = AUC, is_best: bool = False
) -> str:
    """Write `.8309 ± .0350 •`, without the parts that are None."""
    text = metric.text(mean).rjust(style.mean_width)
    if is_best and style.best:
        text = style.best(text)
    if std is not None:
        text += f" {style.plus_minus} {metric.text(std)}"
    return text + " " + style.marks[verdict] if verdict and verdict in style.marks else text


def percent_text(posterior: Posterior) -> str:
    """Write the probabilities of better, equivalent and worse in percent: `97/3/0`."""
    return "/".join(f"{100 * p:.0f}" for p in (posterior.better, posterior.equivalent, posterior.worse))
