"""A comparison as Markdown, CSV and a terminal's plain text."""

from collections.abc import Sequence

from .cell_notes import NOT_STARTED, STATUS_WORDS
from .compare import ComparedCell, Comparison
from .render import csv_text, escape_markdown, markdown_table
from .style import Style, cell_text, mean_text
from .text import GAP, columns_text, display_width, paragraph

__all__ = [
    "COMPARISON_FIELDS",
    "COMPARISON_WIDTH",
    "comparison_to_csv",
    "comparison_to_markdown",
    "comparison_to_terminal",
    "note_texts",
]

COMPARISON_FIELDS = (
    *("dataset", "column", "ours_mean", "ours_std", "published_mean", "published_std", "difference", "deviation"),
    *("ours_verdict", "published_verdict", "verdicts_agree", "status", "standing", "notes"),
)
COMPARISON_WIDTH = 80  # the narrowest terminal that the columns are made for

# Statuses of cells without records, as headings for their datasets.
_WITHOUT_RECORDS = {"pending": "not computed yet", **{status: STATUS_WORDS[status] for status in NOT_STARTED}}
_PLAIN = Style(str, note=lambda number: "")
_AGREES = {True: "yes", False: "no", None: "-"}
_NOTES_WIDTH = 5
_INDENT = "  "


def comparison_to_markdown(comparison: Comparison) -> str:
    """Render as Markdown: the summary, all cells, those further than one published std, the notes."""
    metric = ["metric"] if comparison.has_metrics else []
    headers = [*metric, "datasets", "method", "ours", "published", "difference", "in stds", "verdicts agree"]
    rows = []
    for cell in comparison.cells:
        lead = [cell.metric.heading] if metric else []
        rows.append([*map(escape_markdown, [*lead, cell.dataset, *_row(comparison, cell)]), cell.standing])
    parts = [f"**{escape_markdown(_title(comparison))}**", escape_markdown(_source(comparison))]
    parts.append(_bullets(comparison.summary().sentences()))
    parts.append(markdown_table([*headers, "notes", "standing"], rows))
    for heading, items in _sections(comparison):
        parts += [f"**{heading}**", _bullets(items)]
    if notes := note_texts(comparison):
        parts += ["**Notes**", "\n".join(f"{i}. {escape_markdown(text)}" for i, text in enumerate(notes, 1))]
    return "\n\n".join(parts) + "\n"


def comparison_to_csv(comparison: Comparison) -> str:
    """Render as CSV with one line per cell.

    The fields are `COMPARISON_FIELDS`, and ``metric`` after the column where there are several; the deviation is the
    difference in units of the published std.
    """
    fields: Sequence[str] = COMPARISON_FIELDS
    rows = [_csv_row(cell) for cell in comparison.cells]
    if comparison.has_metrics:
        fields = [*fields[:2], "metric", *fields[2:]]
        rows = [[*row[:2], cell.metric.key, *row[2:]] for cell, row in zip(comparison.cells, rows)]
    return csv_text(fields, rows)


def comparison_to_terminal(comparison: Comparison, width: int = 80) -> str:
    """Render as plain text in lines of at most `width` characters (but at least `COMPARISON_WIDTH`).

    The cells are grouped by dataset. Datasets without records are only named.
    """
    width = max(width, COMPARISON_WIDTH)
    parts = [paragraph(_title(comparison), width), paragraph(_source(comparison), width)]
    without = _without_records(comparison.cells)
    cells = [cell for cell in comparison.cells if cell.dataset not in without]
    if cells:
        parts.append("\n".join(_cell_lines(comparison, cells, width)))
    for status, words in _WITHOUT_RECORDS.items():
        if datasets := [dataset for dataset, why in without.items() if why == status]:
            parts.append(paragraph(f"{words.capitalize()}: {', '.join(datasets)}", width))
    for heading, items in _sections(comparison):
        parts.append("\n".join([f"{heading}:", *(paragraph(item, width, "- ") for item in items)]))
    shown = {number for cell in cells for number in comparison.numbers(cell)}
    texts = [(number, text) for number, text in enumerate(note_texts(comparison), 1) if number in shown]
    if texts:
        parts.append("\n".join(["Notes:", *(paragraph(text, width, f"{number}. ") for number, text in texts)]))
    parts.append("\n".join(paragraph(line, width) for line in comparison.summary().sentences()))
    return "\n\n".join(parts) + "\n"


def _title(comparison: Comparison) -> str:
    return f"{comparison.title}: ours beside the published values"


def _source(comparison: Comparison) -> str:
    return f"Published: {comparison.published.source}, {comparison.published.table}"


def _row(comparison: Comparison, cell: ComparedCell) -> list[str]:
    """Return method, ours, published, difference, deviation, agreement and note numbers of one cell."""
    numbers = ", ".join(map(str, comparison.numbers(cell)))
    return [cell.column.title, *_values(cell), _AGREES[cell.agrees], numbers]


def _values(cell: ComparedCell) -> list[str]:
    """Return ours, published, difference and deviation of one cell."""
    printed = cell.published
    published, difference, deviation = "N/A", "-", "-"
    if printed.mean is not None:
        published = mean_text(printed.mean, printed.std, printed.verdict, _PLAIN, cell.printed_metric)
    if cell.difference is not None and cell.deviation is not None:
        difference = cell.metric.signed(cell.difference)
        rounded = round(cell.deviation, 2) + 0.0  # adding zero turns -0.0 into 0.0
        deviation = f"{rounded:+.2f}" if abs(rounded) < 100 else f"{rounded:+.0f}"
    return [cell_text(cell.ours, _PLAIN, cell.metric), published, difference, deviation]


def _without_records(cells: Sequence[ComparedCell]) -> dict[str, str]:
    """Datasets without records, and the status of their cells: pending, if there are several."""
    statuses: dict[str, set[str]] = {}
    for cell in cells:
        statuses.setdefault(cell.dataset, set()).add("ok" if cell.ours.n else cell.ours.status)
    return {
        dataset: found.pop() if len(found) == 1 else "pending"
        for dataset, found in statuses.items()
        if found <= _WITHOUT_RECORDS.keys()
    }


def _cell_lines(comparison: Comparison, cells: list[ComparedCell], width: int) -> list[str]:
    headers = ["", "ours", "published", "diff", "stds", "agree", "notes"]
    rows = [_row(comparison, cell) for cell in cells]
    if all(cell.agrees is None for cell in cells):  # as of a table without marks
        headers, *rows = ([*row[:-2], row[-1]] for row in (headers, *rows))
    widths = [max(map(display_width, column)) for column in zip(headers, *rows)]
    widths[-1] = _NOTES_WIDTH
    widths[0] = min(widths[0], width - len(_INDENT) - sum(widths[1:]) - GAP * (len(widths) - 1))
    lines = [_INDENT + line for line in columns_text([headers], widths)]
    previous = None
    for cell, row in zip(cells, rows):
        heading = f"{cell.metric.heading}, {cell.dataset}" if comparison.has_metrics else cell.dataset
        if heading != previous:
            lines.append(paragraph(heading, width))
            previous = heading
        lines += [_INDENT + line for line in columns_text([row], widths)]
    return lines


def _sections(comparison: Comparison) -> list[tuple[str, list[str]]]:
    distant = [_description(comparison, cell) for cell in comparison.distant()]
    remarks = list(comparison.remarks)
    if any(cell.standing == "not published" for cell in comparison.cells):
        remarks.append(f"Printed as N/A: {comparison.published.not_available}.")
    return [("Further than one published std", distant or ["none"]), ("Remarks", remarks)]


def _description(comparison: Comparison, cell: ComparedCell) -> str:
    expected = [note for note in cell.notes if cell.difference is not None and note.expects(cell.difference)]
    numbers = [str(comparison.notes.index(note) + 1) for note in expected]
    see = f", see note{'s' if len(numbers) > 1 else ''} {', '.join(numbers)}" if numbers else ""
    metric = f"{cell.metric.heading}, " if comparison.has_metrics else ""
    ours, published, difference, deviation = _values(cell)
    return (
        f"{metric}{cell.dataset}, {cell.column.title}: ours {ours}, published {published}, difference "
        f"{difference} ({deviation} published stds): {cell.standing}{see}"
    )


def note_texts(comparison: Comparison) -> list[str]:
    """Return the notes, each with the cells it is about and whether its cause is known."""
    titles = {cell.column.key: cell.column.title for cell in comparison.cells}
    titles |= {column.key: column.title for column in comparison.published.columns}
    texts = []
    for note in comparison.notes:
        columns = ", ".join(titles[key] for key in note.columns if key in titles)  # an experiment may have fewer
        scope = "; ".join(filter(None, [", ".join(note.datasets), columns]))
        texts.append(f"{scope}: {note.text}" + (" Cause unknown." if note.kind == "unexplained" else ""))
    return texts


def _bullets(items: list[str]) -> str:
    return "\n".join(f"- {escape_markdown(item)}" for item in items)


def _csv_row(cell: ComparedCell) -> list:
    def fixed(value: float | None, digits: int) -> str | None:
        return None if value is None else f"{value:.{digits}f}"

    ours, printed = cell.ours, cell.published
    return [
        *(cell.dataset, cell.column.key, ours.mean, ours.std, printed.mean, printed.std),
        *(fixed(cell.difference, 6), fixed(cell.deviation, 4), ours.verdict, printed.verdict, _AGREES[cell.agrees]),
        *(ours.status, cell.standing, " ".join(note.text for note in cell.notes)),
    ]
