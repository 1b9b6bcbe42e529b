"""The numbers of a figure: as CSV, and a summary for the terminal."""

import math
from collections.abc import Sequence

from ..protocols import is_share
from .figure import DATASET, Figure, Line, Point
from .render import csv_text
from .text import GAP, auc_text, columns_text, display_width, paragraph, quantity_label, value_text

__all__ = ["figure_to_csv", "figure_to_terminal"]

_SHOWN_EXACT, _SHOWN_MEASURED = 5, 3


def figure_to_csv(figure: Figure) -> str:
    """One row per point: x, mean and standard deviation of y, and the number of repetitions.

    Points that lack repetitions have no mean. A measured x has a mean and a standard deviation; where a line follows a
    grid axis, its value is before them.
    """
    spec = figure.spec
    fixed = list(dict.fromkeys(axis for panel in figure.panels for line in panel.lines for axis in line.setting))
    x_names = [] if spec.x == DATASET else [spec.x] if figure.exact_x else [f"{spec.x}_mean", f"{spec.x}_std"]
    along = [spec.along] if spec.along else []
    rows = []
    for panel in figure.panels:
        for line in panel.lines:
            for point in line.points:
                xs = [] if isinstance(point.x, str) else [point.x, point.x_std][: len(x_names)]
                values = [*([point.along] if along else []), *xs, point.y, point.y_std]
                where = [panel.dataset or point.x, point.column, *(line.setting.get(axis, "") for axis in fixed)]
                numbers = [None if math.isnan(value) else float(value) for value in values]
                rows.append([*where, *numbers, point.n, point.expected])
    fields = ["dataset", "column", *fixed, *along, *x_names, f"{spec.y}_mean", f"{spec.y}_std", "n", "expected"]
    return csv_text(fields, rows)


def figure_to_terminal(figure: Figure, width: int = 80) -> str:
    """A few points of every line, and what is not drawn; no line of the text is wider than ``width``."""
    spec = figure.spec
    parts = [paragraph(spec.title, width)] if spec.title else []
    if spec.x == DATASET:
        parts += _dataset_table(figure, width)
    else:
        parts += [_line_table(figure, panel.dataset, list(panel.lines), width) for panel in figure.panels]
    parts += [paragraph(note, width) for note in figure.notes]
    return "\n\n".join(parts) + "\n"


def _line_table(figure: Figure, dataset: str, lines: list[Line], width: int) -> str:
    heading = quantity_label(figure.spec.y) + " by " + quantity_label(figure.spec.x)
    if figure.exact_x:  # lines may have other values of x, and other numbers of them
        xs = _spread(sorted({point.x for line in lines for point in line.points}), _SHOWN_EXACT)
        by_x = [{point.x: point for point in line.points} for line in lines]
        rows = [[line.label, *(_cell(figure, points.get(x)) for x in xs)] for line, points in zip(lines, by_x)]
        rows.insert(0, ["", *(_x_text(figure, x) for x in xs)])
        n_points, n_shown = len({point.x for line in lines for point in line.points}), len(xs)
    else:
        shown = [_spread(line.points, _SHOWN_MEASURED) for line in lines]
        n_points, n_shown = (max(map(len, of)) for of in ([line.points for line in lines], shown))
        rows = [
            [line.label, *(_cell(figure, point) for point in points), *[""] * (n_shown - len(points))]
            for line, points in zip(lines, shown)
        ]
    some = f" ({n_shown} of {n_points} points)" if n_shown < n_points else ""
    return f"{paragraph(f'{dataset}: {heading}{some}', width)}\n{_table(rows, width)}"


def _spread(items: Sequence, n_shown: int) -> list:
    """At most ``n_shown`` items at even distances, the first and the last among them."""
    return [items[k] for k in sorted({round(k * (len(items) - 1) / (n_shown - 1)) for k in range(n_shown)})]


def _dataset_table(figure: Figure, width: int) -> list[str]:
    """Datasets as rows, learners as columns, in blocks that fit."""
    (panel,) = figure.panels or (None,)
    if panel is None:
        return []
    names = list(dict.fromkeys(str(point.x) for line in panel.lines for point in line.points))
    by_line = [(line.label, {point.x: point for point in line.points}) for line in panel.lines]
    lead = max(map(display_width, names))
    each = max([9, *(display_width(label) for label, _ in by_line)])
    fitting = max(1, (width - lead) // (each + GAP))
    tables = []
    for start in range(0, len(by_line), fitting):
        block = by_line[start : start + fitting]
        rows = [["", *(label for label, _ in block)]]
        rows += [[name, *(_cell(figure, points.get(name)) for _, points in block)] for name in names]
        tables.append(_table(rows, width))
    heading = f"{quantity_label(figure.spec.y)}: mean over repetitions"
    return [f"{paragraph(heading, width)}\n{tables[0]}", *tables[1:]]


def _table(rows: list[list[str]], width: int) -> str:
    widths = [max(display_width(row[k]) for row in rows) for k in range(len(rows[0]))]
    spare = width - sum(widths[1:]) - GAP * (len(widths) - 1)
    widths[0] = max(8, min(widths[0], spare))
    return "\n".join(columns_text(rows, widths))


def _cell(figure: Figure, point: Point | None) -> str:
    if point is None:
        return "-"
    if not point.complete:
        return f"- {point.n}/{point.expected}"
    y = _measured_text(figure.spec.y, point.y)
    return y if figure.exact_x or isinstance(point.x, str) else f"{y} at {_x_text(figure, point.x)}"


def _x_text(figure: Figure, x: float) -> str:
    if figure.spec.x == "n_seen":
        return f"{x:.0f}"
    return value_text(x) if figure.exact_x else _measured_text(figure.spec.x, x)


def _measured_text(name: str, value: float) -> str:
    shown_as_share = is_share(name) and (value == 0.0 or value >= 1e-3)  # small ones keep their digits
    return auc_text(value) if shown_as_share else f"{value:.3g}"
