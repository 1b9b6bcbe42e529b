"""Write a report into a folder: every file complete or untouched, the same bytes for the same table."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from ..errors import ResultsError
from .compare import Comparison
from .compare_render import comparison_to_csv, comparison_to_markdown
from .html import to_html
from .render import to_csv, to_latex, to_markdown
from .table import ResultTable

__all__ = ["replace_files", "write_report"]

_COMPARISON_FILES = ("comparison.md", "comparison.csv")


def write_report(folder: str | os.PathLike, table: ResultTable, comparison: Comparison | None = None) -> list[Path]:
    """Write the table, and the comparison if there is one, into a folder.

    A comparison that an earlier report left there is removed if there is none now: it would stand beside a
    table that it does not belong to.

    Parameters
    ----------
    folder : path-like
        Created if it is not there.
    table : ResultTable
        Written as table.md, table.tex, table.csv and table.html.
    comparison : Comparison, optional
        Written as comparison.md and comparison.csv.

    Returns
    -------
    list of Path
        The files, in the order in which they were written.

    Raises
    ------
    ResultsError
        If the folder or a file cannot be written.
    """
    folder = Path(folder)
    texts = {
        "table.md": to_markdown(table),
        "table.tex": to_latex(table),
        "table.csv": to_csv(table),
        "table.html": to_html(table),
    }
    if comparison is not None:
        texts |= zip(_COMPARISON_FILES, (comparison_to_markdown(comparison), comparison_to_csv(comparison)))
    stale = [name for name in _COMPARISON_FILES if name not in texts]
    return replace_files(folder, {name: text.encode("utf-8") for name, text in texts.items()}, stale)


def replace_files(folder: Path, files: Mapping[str, bytes], stale: Iterable[str] = ()) -> list[Path]:
    """Write files into a folder, each in one step, and remove others.

    Raises
    ------
    ResultsError
        If the folder or a file cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in stale:
            (folder / name).unlink(missing_ok=True)
        for name, content in files.items():
            _replace(folder / name, content)
    except OSError as error:
        raise ResultsError(
            f"cannot write the report into {folder}: {error}",
            "free the folder, or choose another one with --out DIR",
        ) from error
    return [folder / name for name in files]


def _replace(path: Path, content: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(content)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
