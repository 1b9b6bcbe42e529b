"""A table as LaTeX: all of it for `table.tex`, or a part for a paper."""

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, Literal

from .footnotes import reading_note, significance_note
from .select import select
from .style import Group, Style, body_groups
from .table import ResultTable
from .titles import escape_latex, latex_title

__all__ = ["paper_table", "to_latex"]

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
        *(f"{latex_title(column.markup)}: {escape_latex(note)}" for column, note in table.column_notes),
        *([escape_latex(significance_note(table))] if table.tallies else []),
    ]
