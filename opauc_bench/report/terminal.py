"""A table as plain text that keeps to a terminal's width."""

from .style import Style, body_rows, foot_rows
from .table import ResultTable
from .text import GAP, auc_text, columns_text, paragraph, superscript

__all__ = ["MIN_WIDTH", "to_terminal"]

MIN_WIDTH = 40  # room for the datasets and one column
_LONGEST_HEADING = 15


def to_terminal(table: ResultTable, width: int = 80) -> str:
    """Render as plain text; columns that do not fit stand in further blocks below, each beside the reference.

    Parameters
    ----------
    table : ResultTable
    width : int
        Characters a line; less than `MIN_WIDTH` counts as that.

    Returns
    -------
    str
        No line is wider than `width`; ends with a newline.
    """
    width = max(width, MIN_WIDTH)
    means = [auc_text(entry.mean) for entry in table.entries.values() if entry.mean is not None]
    style = Style(str, superscript, mean_width=max(map(len, means), default=0))
    headings = [["datasets", *(column.title for column in table.columns)]]
    body, foot = body_rows(table, style), foot_rows(table)
    widths = _widths(headings[0], body + foot, width)
    parts = [paragraph(table.title, width)]
    for block in _blocks(widths, width):
        chosen = [widths[i] for i in block]
        rule = "-" * (sum(chosen) + GAP * (len(chosen) - 1))
        sections = [
            columns_text([[row[i] for i in block] for row in rows], chosen) for rows in (headings, body, foot) if rows
        ]
        parts.append(f"\n{rule}\n".join("\n".join(lines) for lines in sections))
    notes = [paragraph(note, width, f"{superscript(i)} ") for i, note in enumerate(table.cell_notes, 1)]
    notes += [paragraph(note, width) for note in table.footnotes]
    return "\n\n".join([*parts, "\n".join(notes)]) + "\n"


def _widths(headings: list[str], rows: list[list[str]], width: int) -> list[int]:
    cells = [max(len(row[i]) for row in rows) for i in range(len(headings))]
    widths = [max(cell, min(len(text), _LONGEST_HEADING)) for cell, text in zip(cells, headings)]
    return [min(widths[0], width // 3), *widths[1:]]


def _blocks(widths: list[int], width: int) -> list[list[int]]:
    """Split the column numbers into blocks: the datasets (0), the reference (1), and what still fits."""
    lead = [0, 1] if sum(widths[:2]) + max(widths[2:], default=0) + 2 * GAP <= width else [0]
    blocks = [[0, 1]]
    for i in range(2, len(widths)):
        if sum(widths[j] + GAP for j in blocks[-1]) + widths[i] > width:
            blocks.append(list(lead))
        blocks[-1].append(i)
    return blocks
