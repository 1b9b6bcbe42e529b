"""A table as a self-contained fragment of a page."""

from .style import MARKS, Style, body_groups
from .table import ResultTable
from .template import render_template

__all__ = ["to_html"]


def to_html(table: ResultTable) -> str:
    """Render as one ``section`` element with its own style; screen readers read the marks as words."""
    from markupsafe import Markup, escape

    def mark(verdict: str, word: str) -> Markup:
        label = f"{table.columns[0].title} significantly {word}"
        return Markup('<span role="img" aria-label="{0}" title="{0}">{1}</span>').format(label, MARKS[verdict])

    style = Style(escape, Markup("<sup>{}</sup>").format, win=mark("win", "better"), loss=mark("loss", "worse"))
    return render_template("table.html", table=table, groups=body_groups(table, style)) + "\n"
