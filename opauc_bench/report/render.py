"""A table as Markdown and CSV; `latex`, `html` and `terminal` hold the other forms.

The bytes depend on nothing but the table: no dates, no timings, LF newlines.
"""

import csv
import io
import re
from collections.abc import Iterable, Sequence

from .style import Style, body_groups
from .table import ResultTable
from .text import superscript

__all__ = ["CSV_FIELDS", "csv_text", "escape_markdown", "markdown_table", "to_csv", "to_markdown"]

CSV_FIELDS = ("dataset", "column", "mean", "std", "n", "expected", "verdict", "p_value", "status")


def to_markdown(table: ResultTable) -> str:
    """Render as a Markdown table (GitHub's pipe syntax) with its footnotes as a list."""
    headers = ["datasets", *(escape_markdown(column.title) for column in table.columns)]
    rows: list[list[str]] = []
    for group in body_groups(table, Style(escape_markdown, superscript)):
        heading = [f"**{group.heading}**", *[""] * len(table.columns)]
        rows += [*([heading] if group.heading else []), *group.rows, *group.foot]
    notes = [f"- {superscript(i)} {escape_markdown(note)}" for i, note in enumerate(table.cell_notes, 1)]
    notes += [f"- {escape_markdown(note)}" for note in table.footnotes]
    title = f"**{escape_markdown(table.title)}**"
    return "\n".join([title, "", markdown_table(headers, rows), "", *notes, ""])


def markdown_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lay out escaped cells as a pipe table, left aligned."""
    from tabulate import tabulate

    left = ["left"] * len(headers)
    return tabulate(rows, headers, tablefmt="pipe", disable_numparse=True, colalign=left)


def escape_markdown(text: str) -> str:
    """Make a text safe inside a Markdown table."""
    return re.sub(r"([\\`*_|<>\[\]~])", r"\\\1", " ".join(text.split()))


def to_csv(table: ResultTable) -> str:
    """Render as CSV with one line per cell.

    The fields are `CSV_FIELDS`, and ``metric`` after the column where a table has several. Mean and std have all their
    digits and are empty unless the status is ``ok``; the p-value has six, because its last digits depend on the library
    that computed it.
    """
    fields = (*CSV_FIELDS[:2], "metric", *CSV_FIELDS[2:]) if table.sections else CSV_FIELDS
    rows = []
    for metric, entries in table.parts():
        for dataset, row in table.rows(entries):
            for column, entry in zip(table.columns, row):
                p_value = None if entry.p_value is None else f"{entry.p_value:.6g}"
                place = [dataset, column.key, *([metric.key] if table.sections else [])]
                numbers = [entry.mean, entry.std, entry.n, entry.expected]
                rows.append([*place, *numbers, entry.verdict, p_value, entry.status])
    return csv_text(fields, rows)


def csv_text(fields: Sequence[str], rows: Iterable[Sequence]) -> str:
    """Write CSV with LF newlines; None becomes an empty field, and floats keep all their digits."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(fields)
    writer.writerows(rows)
    return buffer.getvalue()
