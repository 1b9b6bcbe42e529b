"""A table as Markdown, CSV and HTML; `latex` and `terminal` hold the other forms.

The bytes depend on nothing but the table: no dates, no timings, LF newlines.
"""

import csv
import io
import re
from collections.abc import Iterable, Sequence

from .footnotes import footnotes, verdict_text
from .over_datasets import HEADINGS, cases_of, over_datasets
from .style import MARKS, Style, body_groups
from .table import Entry, ResultTable
from .template import render_template
from .text import superscript

__all__ = ["CSV_FIELDS", "csv_text", "escape_markdown", "markdown_table", "to_csv", "to_html", "to_markdown"]

CSV_FIELDS = ("dataset", "column", "mean", "std", "n", "expected", "verdict", "p_value", "status")


def to_markdown(table: ResultTable) -> str:
    """Render as a Markdown table (GitHub's pipe syntax) with its footnotes as a list."""
    headers = ["datasets", *(escape_markdown(column.title) for column in table.columns)]
    rows: list[list[str]] = []
    for group in body_groups(table, Style(escape_markdown, superscript, percent=str)):
        heading = [f"**{group.heading}**", *[""] * len(table.columns)]
        rows += [*([heading] if group.heading else []), *group.rows, *group.foot]
    notes = [f"- {superscript(i)} {escape_markdown(note)}" for i, note in enumerate(table.cell_notes, 1)]
    notes += [f"- {escape_markdown(note)}" for note in footnotes(table)]
    title = f"**{escape_markdown(table.title)}**"
    cases = cases_of(table) if table.test == "bayes" and table.compares else {}
    over = [line for end, rows in cases.items() for line in _over_datasets(rows, end)]
    return "\n".join([title, "", markdown_table(headers, rows), "", *notes, "", *over])


def _over_datasets(table: ResultTable, end: str) -> list[str]:
    found = over_datasets(table)
    rows = [list(map(escape_markdown, row)) for row in found.rows()]
    where = f", rows {end}" if end else ""
    title = f"**{escape_markdown(table.reference_title)} over the datasets{escape_markdown(where)}**"
    notes = [f"- {escape_markdown(sentence)}" for sentence in found.sentences]
    return [title, "", *([markdown_table(HEADINGS, rows), ""] if rows else []), *notes, ""] if notes else []


def markdown_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lay out escaped cells as a pipe table, left aligned."""
    from tabulate import tabulate

    left = ["left"] * len(headers)
    return tabulate(rows, headers, tablefmt="pipe", disable_numparse=True, colalign=left)


def escape_markdown(text: str) -> str:
    """Make a text safe inside a Markdown table."""
    return re.sub(r"([\\`*_|<>\[\]~])", r"\\\1", " ".join(text.split()))


def to_html(table: ResultTable) -> str:
    """Render as one ``section`` element with its own style; screen readers read the marks as words."""
    from markupsafe import Markup, escape

    template = Markup('<span role="img" aria-label="{0}" title="{0}">{1}</span>')
    marks = {verdict: template.format(verdict_text(table, verdict), mark) for verdict, mark in MARKS.items()}
    style = Style(escape, Markup("<sup>{}</sup>").format, marks=marks, percent=Markup("<small>{}</small>").format)
    return (
        render_template("table.html", table=table, groups=body_groups(table, style), footnotes=footnotes(table)) + "\n"
    )


def to_csv(table: ResultTable) -> str:
    """Render as CSV with one line per cell.

    The fields are `CSV_FIELDS`, with the three probabilities of the Bayesian test instead of the p-value, and
    ``metric`` after the column where a table has several. Mean and std have all their digits and are empty unless the
    status is ``ok``; probabilities have six, because their last digits depend on the library that computed them.
    """
    fields = list(CSV_FIELDS)
    if table.test == "bayes":
        fields[-2:-1] = ["p_better", "p_equivalent", "p_worse"]
    if table.has_metrics:
        fields.insert(2, "metric")
    rows = []
    for metric, entries in table.sections:
        for dataset, row in table.rows(entries):
            for column, entry in zip(table.columns, row):
                place = [dataset, column.key, *([metric.key] if table.has_metrics else [])]
                numbers = [entry.mean, entry.std, entry.n, entry.expected]
                rows.append([*place, *numbers, entry.verdict, *_probabilities(entry, table.test), entry.status])
    return csv_text(fields, rows)


def _probabilities(entry: Entry, test: str) -> list[str | None]:
    posterior = entry.posterior
    if test != "bayes":
        values = [entry.p_value]
    else:
        values = [posterior.better, posterior.equivalent, posterior.worse] if posterior else [None] * 3
    return [None if value is None else f"{value:.6g}" for value in values]


def csv_text(fields: Sequence[str], rows: Iterable[Sequence]) -> str:
    """Write CSV with LF newlines; None becomes an empty field, and floats keep all their digits."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(fields)
    writer.writerows(rows)
    return buffer.getvalue()
