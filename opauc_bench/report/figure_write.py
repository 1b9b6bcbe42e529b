"""Write a figure into a folder: each file complete or untouched, the same bytes for the same numbers."""

from collections.abc import Iterable
from pathlib import Path

from ..files import remove_file, write_bytes
from .figure import Figure
from .figure_text import figure_to_csv

__all__ = ["figure_texts", "write_figure"]

_FORMATS = ("pdf", "svg", "png")


def figure_texts(figures: Iterable[Figure]) -> dict[str, str]:
    """Names and contents of the CSV files of figures."""
    return {f"{figure.spec.name}.csv": figure_to_csv(figure) for figure in figures}


def write_figure(folder: Path, figure: Figure, draw: bool) -> list[Path]:
    """Write the numbers as CSV and, with ``draw``, the drawing as PDF, SVG and PNG; return the files.

    Drawings of an earlier report are removed if nothing is drawn: they would not show the numbers beside them.
    ResultsError if the folder or a file cannot be written.
    """
    name = figure.spec.name
    files = {file: text.encode() for file, text in figure_texts([figure]).items()}
    if draw and any(point.complete for panel in figure.panels for line in panel.lines for point in line.points):
        from .figure_draw import render

        files |= {f"{name}.{ending}": content for ending, content in render(figure).items()}
    for ending in _FORMATS:
        if f"{name}.{ending}" not in files:
            remove_file(folder / f"{name}.{ending}")
    for file, content in files.items():
        write_bytes(folder / file, content)
    return [folder / file for file in files]
