"""A table as a self-contained fragment of a page."""

from .footnotes import verdict_text
from .style import MARKS, Style, body_groups
from .table import ResultTable
from .template import render_template

__all__ = ["to_html"]


def to_html(table: ResultTable) -> str:
    """Render as one ``section`` element with its own style; screen readers read the marks as words."""
    from markupsafe import Markup, escape

    template = Markup('<span role="img" aria-label="{0}" title="{0}">{1}</span>')
    marks = {verdict: template.format(verdict_text(table, verdict), mark) for verdict, mark in MARKS.items()}
    style = Style(escape, Markup("<sup>{}</sup>").format, marks=marks, percent=Markup("<small>{}</small>").format)
    return render_template("table.html", table=table, groups=body_groups(table, style)) + "\n"
