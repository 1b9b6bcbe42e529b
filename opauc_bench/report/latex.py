"""A table as LaTeX: all of it for `table.tex`, or a part for a paper."""

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, Literal

from ..errors import ResultsError
from .footnotes import reading_note, significance_note
from .metrics import Metric
from .style import Group, Style, body_groups
from .table import Entry, MetricSection, ResultTable
from .titles import escape_latex, latex_title

__all__ = ["paper_table", "select", "to_latex"]

_NUMBER = re.compile(r"^(Table|Figure)s? [\dIVX]+: ")
_STYLE = Style(
    escape_latex,
    lambda number: f"$^{{{number}}}$",
    plus_minus=r"$\pm$",
    marks={"win": r"$\bullet$", "loss": r"$\circ$", "equivalent": r"$\approx$", "undecided": "?"},
    percent=r"{{\scriptsize {}}}".format,
    pending=r"\ldots{}",
)


def paper_table(
    table: ResultTable, *, bold: Literal["best", "none"] = "none", transpose: bool = False, label: str = "", **part: Any
) -> str:
    """Render a part of a table, as `select` takes it, with `to_latex`."""
    return to_latex(select(table, **part), bold=bold, transpose=transpose, label=label)


def select(
    table: ResultTable,
    columns: Sequence[str] = (),
    rows: Sequence[str] = (),
    *,
    digits: int | None = None,
    std: bool = True,
    marks: bool = True,
) -> ResultTable:
    """Return a part of a table; the datasets that remain are counted again.

    `columns` are keys and `rows` datasets, in order; by default all. Rows without a mean in any of the columns are left
    out. Without the reference column there are no marks. `digits` are the decimals of means and stds, by default those
    of each metric. The counts go with the marks. Raises ResultsError if no dataset is left.
    """
    by_key = {column.key: column for column in table.columns}
    keys = list(columns or by_key)
    wanted = rows or table.datasets
    shown = [row for row in wanted if any(table.entries[row, key].mean is not None for key in keys)]
    if not shown:
        raise ResultsError(f"nothing to print: no complete value of {', '.join(keys)} in {', '.join(wanted)}")
    places = [(row, key) for row in shown for key in keys]
    found = (entries[place].note for _, entries in table.sections for place in places)
    notes = list(dict.fromkeys(filter(None, found)))
    tested = marks and table.reference in keys

    def reduced(entry: Entry) -> Entry:
        return replace(
            entry,
            std=entry.std if std else None,
            verdict=entry.verdict if tested else None,
            posterior=entry.posterior if tested else None,
            note=notes.index(entry.note) + 1 if entry.note else None,
        )

    def precise(metric: Metric) -> Metric:
        return metric if digits is None else replace(metric, digits=digits)

    return replace(
        table,
        datasets=tuple(shown),
        columns=tuple(by_key[key] for key in keys),
        sections=tuple(
            MetricSection(precise(metric), {place: reduced(entries[place]) for place in places})
            for metric, entries in table.sections
        ),
        reference=table.reference if tested else None,
        cell_notes=tuple(table.cell_notes[note - 1] for note in notes),
    )


def to_latex(
    table: ResultTable, *, bold: Literal["best", "none"] = "none", transpose: bool = False, label: str = ""
) -> str:
    r"""Render as a LaTeX table for the booktabs package, with the footnotes in small type below.

    `bold` states whether the best mean of each dataset is bold; means that are printed alike are equally good. With
    `transpose`, columns become rows. `label` is for ``\ref``.
    """
    style = replace(_STYLE, best=r"\textbf{{{}}}".format) if bold == "best" else _STYLE
    header = ["datasets", *(latex_title(column.markup) for column in table.columns)]
    # The verdicts only: how many datasets were counted is their sum.
    groups = [Group(group.heading, group.rows, group.foot[:-1]) for group in body_groups(table, style)]
    if transpose:
        header, groups = _transposed(header, groups)
    body = []
    for group in groups:
        heading = rf"\multicolumn{{{len(header)}}}{{l}}{{\emph{{{group.heading}}}}} \\"
        body += [r"\midrule", *([heading] if group.heading else []), *_lines(group.rows)]
        body += [r"\midrule", *_lines(group.foot)] if group.foot else []
    lines = [
        r"% needs \usepackage{booktabs}",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{latex_title(_caption(table.markup))}}}",
        *([rf"\label{{{label}}}"] if label else []),
        rf"\begin{{tabular}}{{{'l' * len(header)}}}",
        r"\toprule",
        *_lines([header]),
        *body,
        r"\bottomrule",
        r"\end{tabular}",
        r"\par\smallskip",
        r"\begin{minipage}{\linewidth}\footnotesize",
        " \\par\n".join(_notes(table, bold)),
        r"\end{minipage}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _caption(title: str) -> str:
    """A title without its number, since LaTeX numbers captions."""
    without = _NUMBER.sub("", title)
    return title if without == title else without[:1].upper() + without[1:]


def _transposed(header: Sequence[str], groups: Sequence[Group]) -> tuple[list[str], list[Group]]:
    """Turn rows into columns; a group without counts gets empty cells below those of the first."""
    n_counts = len(groups[0].foot)
    turned = []
    for group in groups:
        counts = group.foot or [[""] * len(header)] * n_counts
        _, *rows = zip(header, *group.rows, *counts)
        turned.append(Group(group.heading, [list(row) for row in rows], []))
    names = [row[0] for row in (*groups[0].rows, *groups[0].foot)]
    return ["learners", *names], turned


def _lines(rows: Collection[Sequence[str]]) -> list[str]:
    return [" & ".join(row) + r" \\" for row in rows]


def _notes(table: ResultTable, bold: str) -> list[str]:
    reference = next((column.markup for column in table.columns if column.key == table.reference), None)
    return [
        *(f"$^{{{i}}}$ {escape_latex(note)}" for i, note in enumerate(table.cell_notes, 1)),
        latex_title(reading_note(table, reference)),
        *(["Bold: the best mean of each dataset."] if bold == "best" else []),
        *map(escape_latex, table.protocol_notes),
        *(f"{latex_title(column.markup)}: {escape_latex(note)}" for column, note in table.column_notes),
        *([escape_latex(significance_note(table))] if table.tallies else []),
    ]
