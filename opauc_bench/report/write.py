"""The files of a report: each complete or untouched, the same bytes for the same contents."""

from collections.abc import Mapping
from pathlib import Path

from ..files import remove_file, write_bytes
from .compare import Comparison
from .compare_render import comparison_to_csv, comparison_to_markdown
from .figure import Figure
from .figure_style import FORMATS
from .figure_text import figure_to_csv
from .latex import to_latex
from .render import to_csv, to_html, to_markdown
from .table import ResultTable

__all__ = ["Files", "figure_files", "table_files", "write_files"]

# Contents by name; None for a file of an earlier report that does not belong to this one.
Files = Mapping[str, str | bytes | None]


def table_files(table: ResultTable, comparison: Comparison | None = None) -> dict[str, str | None]:
    """Render the table, and the comparison if there is one, in every format."""
    return {
        "table.md": to_markdown(table),
        "table.tex": to_latex(table),
        "table.csv": to_csv(table),
        "table.html": to_html(table),
        "comparison.md": comparison_to_markdown(comparison) if comparison else None,
        "comparison.csv": comparison_to_csv(comparison) if comparison else None,
    }


def figure_files(figure: Figure, draw: bool) -> dict[str, str | bytes | None]:
    """Render the numbers as CSV and, with ``draw``, the drawing, if anything is drawn."""
    drawn = {}
    if draw and figure.drawn_panels:
        from .figure_draw import render

        drawn = render(figure)
    name = figure.spec.name
    return {f"{name}.csv": figure_to_csv(figure), **{f"{name}.{ending}": drawn.get(ending) for ending in FORMATS}}


def write_files(folder: Path, files: Files) -> None:
    """Write or remove files; raises ResultsError if the folder or one of them cannot be written."""
    for name, content in files.items():
        if content is None:
            remove_file(folder / name)
        else:
            write_bytes(folder / name, content.encode() if isinstance(content, str) else content)
