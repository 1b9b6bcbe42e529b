"""A table as a self-contained fragment of a page."""

from html import escape

from .style import MARKS, Group, Style, body_groups
from .table import ResultTable

__all__ = ["to_html"]

_CSS = """\
.opauc-table { font: 0.9rem/1.5 system-ui, sans-serif; max-width: 100%; }
.opauc-table .scroll { overflow-x: auto; }
.opauc-table table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
.opauc-table caption { text-align: left; font-weight: 600; padding-bottom: 0.5em; }
.opauc-table th, .opauc-table td { padding: 0.15em 0.8em; text-align: left; white-space: nowrap; }
.opauc-table th { font-weight: 500; }
.opauc-table thead, .opauc-table tfoot { border-block: 1px solid currentColor; }
.opauc-table sup { line-height: 0; }
.opauc-table ol, .opauc-table p { font-size: 0.85em; max-width: 75ch; margin: 0.5em 0; }"""


def to_html(table: ResultTable) -> str:
    """Render as one ``section`` element with its own style; the marks have names that screen readers speak.

    Parameters
    ----------
    table : ResultTable

    Returns
    -------
    str
        Ends with a newline.
    """
    title = escape(table.title)
    style = Style(escape, lambda number: f"<sup>{number}</sup>", **_marks(table.columns[0].title))
    headings = ["datasets", *(escape(column.title) for column in table.columns)]
    head = "".join(f'<th scope="col">{heading}</th>' for heading in headings)
    groups = body_groups(table, style)
    foot = [_row(cells) for cells in groups[0].foot]
    notes = [f"<li>{escape(note)}</li>" for note in table.cell_notes]
    lines = [
        '<section class="opauc-table">',
        f"<style>\n{_CSS}\n</style>",
        f'<div class="scroll" tabindex="0" role="region" aria-label="{title}">',
        "<table>",
        f"<caption>{title}</caption>",
        f"<thead>\n<tr>{head}</tr>\n</thead>",
        *(line for group in groups for line in _body(group, len(headings))),
        *(["<tfoot>", *foot, "</tfoot>"] if foot and len(groups) == 1 else []),
        "</table>",
        "</div>",
        *(["<ol>", *notes, "</ol>"] if notes else []),
        *(f"<p>{escape(note)}</p>" for note in table.footnotes),
        "</section>",
    ]
    return "\n".join(lines) + "\n"


def _marks(reference: str) -> dict[str, str]:
    def mark(verdict: str, word: str) -> str:
        label = escape(f"{reference} significantly {word}")
        return f'<span role="img" aria-label="{label}" title="{label}">{MARKS[verdict]}</span>'

    return {"win": mark("win", "better"), "loss": mark("loss", "worse")}


def _body(group: Group, width: int) -> list[str]:
    heading = f'<tr class="metric"><th scope="rowgroup" colspan="{width}">{group.heading}</th></tr>'
    # A table has one foot, and that is the end of all groups: counts of the first of several stand in its body.
    foot = group.foot if group.heading else []
    return ["<tbody>", *([heading] if group.heading else []), *map(_row, [*group.rows, *foot]), "</tbody>"]


def _row(cells: list[str]) -> str:
    data = "".join(f"<td>{cell}</td>" for cell in cells[1:])
    return f'<tr><th scope="row">{cells[0]}</th>{data}</tr>'
