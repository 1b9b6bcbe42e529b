"""Write a figure into a folder: every file complete or untouched, the same bytes for the same numbers."""

from pathlib import Path

from .figure import Figure
from .figure_text import figure_to_csv
from .write import replace_files

__all__ = ["write_figure"]

_FORMATS = ("pdf", "svg", "png")


def write_figure(folder: Path, figure: Figure, draw: bool) -> list[Path]:
    """Write the numbers as CSV and, if asked for, the drawing as PDF, SVG and PNG.

    Drawings that an earlier report left there are removed if there is nothing to draw, or no means to: they would stand
    beside numbers that they do not show.

    Parameters
    ----------
    folder : Path
        Created if it is not there.
    figure : Figure
    draw : bool
        Whether matplotlib may be used.

    Returns
    -------
    list of Path
        The files.

    Raises
    ------
    ResultsError
        If the folder or a file cannot be written.
    """
    name = figure.spec.name
    files = {f"{name}.csv": figure_to_csv(figure).encode()}
    if draw and any(point.complete for panel in figure.panels for line in panel.lines for point in line.points):
        from .figure_draw import render

        files |= {f"{name}.{ending}": content for ending, content in render(figure).items()}
    stale = [f"{name}.{ending}" for ending in _FORMATS if f"{name}.{ending}" not in files]
    return replace_files(folder, files, stale)
