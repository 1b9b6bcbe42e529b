"""Write a report into a folder: every file complete or untouched, the same bytes for the same table."""

import os
from pathlib import Path

from ..files import remove_file, write_text
from .compare import Comparison
from .compare_render import comparison_to_csv, comparison_to_markdown
from .html import to_html
from .latex import to_latex
from .render import to_csv, to_markdown
from .table import ResultTable

__all__ = ["report_texts", "write_report"]

_COMPARISON_FILES = ("comparison.md", "comparison.csv")


def report_texts(table: ResultTable, comparison: Comparison | None = None) -> dict[str, str]:
    """Return the files of a report, names and contents; see `write_report`."""
    texts = {
        "table.md": to_markdown(table),
        "table.tex": to_latex(table),
        "table.csv": to_csv(table),
        "table.html": to_html(table),
    }
    if comparison is not None:
        texts |= zip(_COMPARISON_FILES, (comparison_to_markdown(comparison), comparison_to_csv(comparison)))
    return texts


def write_report(folder: str | os.PathLike, table: ResultTable, comparison: Comparison | None = None) -> list[Path]:
    """Write the table, and the comparison if there is one, into a folder; returns the files.

    The comparison of an earlier report is removed if there is none now: it does not belong to this table.
    """
    folder = Path(folder)
    texts = report_texts(table, comparison)
    for name in _COMPARISON_FILES:
        if name not in texts:
            remove_file(folder / name)
    for name, text in texts.items():
        write_text(folder / name, text)
    return [folder / name for name in texts]
