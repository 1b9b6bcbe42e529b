"""A table as plain text that keeps to a terminal's width."""

from wcwidth import clip

from .footnotes import brief_notes
from .over_datasets import HEADINGS, OverDatasets
from .style import Style, body_groups
from .table import ResultTable
from .text import GAP, columns_text, display_width, paragraph, superscript

__all__ = ["MIN_WIDTH", "over_datasets_to_terminal", "to_terminal"]

MIN_WIDTH = 40  # room for the datasets and one column
_LONGEST_HEADING = 15  # in one line; a word of up to a third of the terminal is not broken


def to_terminal(table: ResultTable, width: int = 80) -> str:
    """Render as plain text in lines of at most `width` characters (but at least `MIN_WIDTH`).

    Columns that do not fit are in further blocks below, each beside the reference.
    """
    width = max(width, MIN_WIDTH)
    means = [table.metric.text(entry.mean) for entry in table.entries.values() if entry.mean is not None]
    style = Style(str, superscript, mean_width=max(map(len, means), default=0), percent=str)
    headings = [["datasets", *(column.title for column in table.columns)]]
    groups = body_groups(table, style)
    widths = _widths(headings[0], [row for group in groups for row in group.rows + group.foot], width)
    parts = [paragraph(table.title, width)]
    for block in _blocks(widths, width):
        shown = [widths[i] for i in block]
        rule = "-" * (sum(shown) + GAP * (len(shown) - 1))
        sections = [("", headings)]
        for group in groups:
            sections += [(group.heading, group.rows), ("", group.foot)]
        lines = [
            [*([heading] if heading else []), *columns_text([[row[i] for i in block] for row in rows], shown)]
            for heading, rows in sections
            if rows
        ]
        parts.append(f"\n{rule}\n".join(map("\n".join, lines)))
    notes = [_one_line(f"{superscript(i)} {note}", width) for i, note in enumerate(table.cell_notes, 1)]
    notes += [paragraph(note, width) for note in table.protocol_notes]
    notes += [paragraph(f"{column.title}: {note}", width) for column, note in table.column_notes]
    notes += [paragraph(note, width) for note in brief_notes(table)]
    return "\n\n".join([*parts, "\n".join(notes)]) + "\n"


def over_datasets_to_terminal(found: OverDatasets, width: int = 80) -> str:
    """Render the tests over datasets as plain text in lines of at most `width` characters."""
    width = max(width, MIN_WIDTH)
    notes = [paragraph(sentence, width) for sentence in found.sentences]
    if not found.tests:
        return "\n".join([*notes, ""])
    rows = found.rows()
    gaps = GAP * (len(HEADINGS) - 1)
    widths = [max(map(display_width, column)) for column in zip(HEADINGS, *rows)]
    if sum(widths) + gaps > width:  # the last heading is broken at its blanks
        widths[-1] = max(len("equivalent"), *(display_width(row[-1]) for row in rows))
        widths[0] = min(widths[0], width - gaps - sum(widths[1:]))
    rule = "-" * (sum(widths) + gaps)
    return "\n".join([*columns_text([HEADINGS], widths), rule, *columns_text(rows, widths), rule, *notes, ""])


def _one_line(text: str, width: int) -> str:
    return text if display_width(text) <= width else clip(text, 0, width - 1) + "…"


def _widths(headings: list[str], rows: list[list[str]], width: int) -> list[int]:
    cells = [max(display_width(row[i]) for row in rows) for i in range(len(headings))]
    words = [min(max(map(display_width, text.split()), default=0), width // 3) for text in headings]
    short = [min(display_width(text), _LONGEST_HEADING) for text in headings]
    widths = [max(needed) for needed in zip(cells, words, short)]
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
