"""A comparison as Markdown, CSV and a terminal's plain text."""

from collections.abc import Sequence

from .compare import ComparedCell, Comparison
from .render import csv_text, escape_markdown, markdown_table
from .style import Style, cell_text, value_text
from .text import GAP, columns_text, paragraph

__all__ = [
    "COMPARISON_FIELDS",
    "COMPARISON_WIDTH",
    "comparison_to_csv",
    "comparison_to_markdown",
    "comparison_to_terminal",
    "note_texts",
]

COMPARISON_FIELDS = (
    "dataset",
    "column",
    "ours_mean",
    "ours_std",
    "published_mean",
    "published_std",
    "difference",
    "deviation",
    "ours_verdict",
    "published_verdict",
    "verdicts_agree",
    "status",
    "standing",
    "notes",
)
COMPARISON_WIDTH = 80  # the narrowest terminal that the columns are made for

# What a cell is without anything on record, and how its dataset is named then.
_WITHOUT_RECORDS = {
    "pending": "Not computed yet",
    "unavailable": "Data unavailable",
    "too_large": "Not started for want of memory",
}
_PLAIN = Style(str, note=lambda number: "")
_AGREES = {True: "yes", False: "no", None: "-"}
_NOTES_WIDTH = 5
_INDENT = "  "


def comparison_to_markdown(comparison: Comparison) -> str:
    """Render as Markdown: the summary, all cells, those further than one published std, the notes.

    Parameters
    ----------
    comparison : Comparison

    Returns
    -------
    str
        Ends with a newline.
    """
    metric = ["metric"] if comparison.has_metrics else []
    headers = [*metric, "datasets", "method", "ours", "published", "difference", "in stds", "verdicts agree"]
    rows = [
        [
            *([cell.metric.heading] if metric else []),
            escape_markdown(cell.dataset),
            *map(escape_markdown, _row(comparison, cell)),
            cell.standing,
        ]
        for cell in comparison.cells
    ]
    parts = [f"**{escape_markdown(_title(comparison))}**", escape_markdown(_source(comparison))]
    parts.append(_bullets(comparison.summary().sentences()))
    parts.append(markdown_table([*headers, "notes", "standing"], rows))
    for heading, items in _sections(comparison):
        parts += [f"**{heading}**", _bullets(items)]
    notes = [f"{i}. {escape_markdown(text)}" for i, text in enumerate(note_texts(comparison), 1)]
    if notes:
        parts += ["**Notes**", "\n".join(notes)]
    return "\n\n".join(parts) + "\n"


def comparison_to_csv(comparison: Comparison) -> str:
    """Render as CSV with one line a cell.

    Parameters
    ----------
    comparison : Comparison

    Returns
    -------
    str
        The fields `COMPARISON_FIELDS`, and ``metric`` after the column where several are compared; the deviation is the
        difference in units of the published std.
    """
    rows = [_csv_row(cell) for cell in comparison.cells]
    if not comparison.has_metrics:
        return csv_text(COMPARISON_FIELDS, rows)
    fields = [*COMPARISON_FIELDS[:2], "metric", *COMPARISON_FIELDS[2:]]
    keys = [cell.metric.key for cell in comparison.cells]
    return csv_text(fields, ([*row[:2], key, *row[2:]] for key, row in zip(keys, rows)))


def comparison_to_terminal(comparison: Comparison, width: int = 80) -> str:
    """Render as plain text, the cells grouped by dataset; datasets of which nothing is on record are only named.

    Parameters
    ----------
    comparison : Comparison
    width : int
        Characters a line; less than `COMPARISON_WIDTH` counts as that.

    Returns
    -------
    str
        No line is wider than `width`; ends with a newline.
    """
    width = max(width, COMPARISON_WIDTH)
    parts = [paragraph(_title(comparison), width), paragraph(_source(comparison), width)]
    untouched = _untouched(comparison.cells)
    cells = [cell for cell in comparison.cells if cell.dataset not in untouched]
    if cells:
        parts.append("\n".join(_cell_lines(comparison, cells, width)))
    for status, words in _WITHOUT_RECORDS.items():
        if datasets := [dataset for dataset, why in untouched.items() if why == status]:
            parts.append(paragraph(f"{words}: {', '.join(datasets)}", width))
    for heading, items in _sections(comparison):
        parts.append("\n".join([f"{heading}:", *(paragraph(item, width, "- ") for item in items)]))
    notes = [paragraph(text, width, f"{i}. ") for i, text in enumerate(note_texts(comparison), 1)]
    if notes:
        parts.append("\n".join(["Notes:", *notes]))
    parts.append("\n".join(paragraph(line, width) for line in comparison.summary().sentences()))
    return "\n\n".join(parts) + "\n"


def _title(comparison: Comparison) -> str:
    return f"{comparison.title}: ours beside the published values"


def _source(comparison: Comparison) -> str:
    return f"Published: {comparison.published.source}, {comparison.published.table}"


def _row(comparison: Comparison, cell: ComparedCell) -> list[str]:
    """Return method, ours, published, difference, deviation, agreement and note numbers of one cell."""
    numbers = ", ".join(map(str, comparison.numbers(cell)))
    values = [_ours(cell), _published(cell), _difference(cell), _deviation(cell)]
    return [cell.column.title, *values, _AGREES[cell.agrees], numbers]


def _ours(cell: ComparedCell) -> str:
    return cell_text(cell.ours, _PLAIN, cell.metric)


def _published(cell: ComparedCell) -> str:
    printed = cell.published
    if printed.mean is None:
        return "N/A"
    return value_text(printed.mean, printed.std, printed.verdict, _PLAIN, cell.metric)


def _difference(cell: ComparedCell) -> str:
    return "-" if cell.difference is None else cell.metric.signed(cell.difference)


def _deviation(cell: ComparedCell) -> str:
    if cell.deviation is None:
        return "-"
    rounded = round(cell.deviation, 2) + 0.0  # adding zero turns -0.0 into 0.0
    return f"{rounded:+.2f}" if abs(rounded) < 100 else f"{rounded:+.0f}"


def _untouched(cells: Sequence[ComparedCell]) -> dict[str, str]:
    """Datasets of which nothing is on record, and the status of their cells: pending, if there are several."""
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
    widths = [max(map(len, column)) for column in zip(headers, *rows)]
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
    distant = [_about(comparison, cell) for cell in comparison.distant()]
    remarks = list(comparison.remarks)
    if any(cell.standing == "not published" for cell in comparison.cells):
        remarks.append(f"Printed as N/A: {comparison.published.not_available}.")
    return [("Further than one published std", distant or ["none"]), ("Remarks", remarks)]


def _about(comparison: Comparison, cell: ComparedCell) -> str:
    notes = [note for note in cell.notes if note.expects(cell.difference)]
    numbers = ", ".join(str(comparison.notes.index(note) + 1) for note in notes)
    see = f", see note{'s' if len(notes) > 1 else ''} {numbers}" if notes else ""
    metric = f"{cell.metric.heading}, " if comparison.has_metrics else ""
    return (
        f"{metric}{cell.dataset}, {cell.column.title}: ours {_ours(cell)}, published {_published(cell)}, difference "
        f"{_difference(cell)} ({_deviation(cell)} published stds): {cell.standing}{see}"
    )


def note_texts(comparison: Comparison) -> list[str]:
    """Return the notes, each with the cells it is about and a word on its cause."""
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
        cell.dataset,
        cell.column.key,
        ours.mean,
        ours.std,
        printed.mean,
        printed.std,
        fixed(cell.difference, 6),
        fixed(cell.deviation, 4),
        ours.verdict,
        printed.verdict,
        _AGREES[cell.agrees],
        ours.status,
        cell.standing,
        " ".join(note.text for note in cell.notes),
    ]
