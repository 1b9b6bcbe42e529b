"""The files of a report: each complete or untouched, the same bytes for the same contents."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from ..files import remove_file, write_bytes
from .compare import Comparison
from .compare_render import comparison_to_csv, comparison_to_markdown
from .figure import Figure
from .figure_style import DRAWING_FORMATS
from .figure_text import figure_to_csv
from .latex import to_latex
from .render import to_csv, to_html, to_markdown
from .table import ResultTable

__all__ = ["Files", "figure_files", "names_of_files", "table_files", "write_files"]

# Contents by name; None for a file of an earlier report that does not belong to this one.
Files = Mapping[str, str | bytes | None]
_TABLE_FILES = ("table.md", "table.tex", "table.csv", "table.html", "comparison.md", "comparison.csv")


def table_files(table: ResultTable, comparison: Comparison | None = None) -> dict[str, str | None]:
    """Render the table, and the comparison if there is one, in every format."""
    formats = to_markdown, to_latex, to_csv, to_html
    compared = [to(comparison) if comparison else None for to in (comparison_to_markdown, comparison_to_csv)]
    return dict(zip(_TABLE_FILES, [*(to(table) for to in formats), *compared], strict=True))


def figure_files(figure: Figure, draw: bool) -> dict[str, str | bytes | None]:
    """Render the numbers as CSV and, with ``draw``, the drawing, if anything is drawn."""
    drawn = {}
    if draw and figure.drawn_panels:
        from .figure_draw import render

        drawn = render(figure)
    name = figure.spec.name
    return {
        f"{name}.csv": figure_to_csv(figure),
        **{f"{name}.{ending}": drawn.get(ending) for ending in DRAWING_FORMATS},
    }


def names_of_files(figures: Iterable[str], has_table: bool) -> set[str]:
    """Names of all files that tables and figures may have, but for the page."""
    of_figures = {f"{name}.{ending}" for name in figures for ending in ("csv", *DRAWING_FORMATS)}
    return of_figures | (set(_TABLE_FILES) if has_table else set())


def write_files(folder: Path, files: Files) -> None:
    """Write or remove files; raises ResultsError if the folder or one of them cannot be written."""
    for name, content in files.items():
        if content is None:
            remove_file(folder / name)
        else:
            write_bytes(folder / name, content.encode() if isinstance(content, str) else content)
