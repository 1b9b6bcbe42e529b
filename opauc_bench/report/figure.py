"""A figure before it is drawn: panels of lines, each point a mean over repetitions.

What one repetition has measured is a `Sample`, a small table. Its exact columns (values of grid axes, the number
of a point of a pass) identify rows of different repetitions; its measured columns are averaged. A point has a mean only
where every expected repetition has a finite value. `figure_draw` draws.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..evaluation.auc import AUC_DECIMALS
from ..figures import FigureEntry
from .cell_notes import NOT_STARTED, STATUS_WORDS
from .table import TableColumn
from .text import mean_and_std, value_label
from .titles import differing_names, distinct_titles

__all__ = [
    "DATASET",
    "POINT",
    "Figure",
    "FigureCell",
    "Line",
    "Panel",
    "Point",
    "Sample",
    "build_figure",
]

DATASET, POINT = "dataset", "point"


@dataclass(frozen=True)
class Sample:
    """What one repetition has measured: exact and measured columns of one length, NaN where there is no number."""

    exact: Mapping[str, Sequence[float]]
    measured: Mapping[str, Sequence[float]]

    @property
    def n_rows(self) -> int:
        return len(next(iter(self.measured.values())))


@dataclass(frozen=True)
class FigureCell:
    """Finished repetitions of one dataset and column, the expected number, and the statuses of the others."""

    samples: tuple[Sample, ...]
    expected: int
    statuses: Mapping[str, int] = field(default_factory=dict)

    @property
    def pending(self) -> int:
        return self.expected - len(self.samples) - sum(self.statuses.values())

    @property
    def is_measured(self) -> bool:
        """Whether every expected repetition has a sample."""
        return len(self.samples) == self.expected


@dataclass(frozen=True)
class Point:
    """Mean and standard deviation over repetitions; NaN where ``n`` is less than expected."""

    column: str
    x: float | str
    x_std: float
    y: float
    y_std: float
    n: int
    expected: int
    along: float  # value of the grid axis that the line follows, or number of the point of a pass; NaN without these

    @property
    def complete(self) -> bool:
        return self.n == self.expected


@dataclass(frozen=True)
class Line:
    """Points of one learner."""

    column: str
    learner: str
    label: str
    setting: Mapping[str, float]  # values of the grid axes that this line holds fixed
    variant: int  # its number among the learner's lines in this figure
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Panel:
    """The lines of one dataset; of all of them, with an empty name, where x is the dataset."""

    dataset: str
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Figure:
    """What is drawn, and notes on what is not."""

    spec: FigureEntry
    panels: tuple[Panel, ...]
    exact_x: bool
    notes: tuple[str, ...]

    def is_drawn(self, point: Point) -> bool:
        """Whether a point is complete, and positive along every logarithmic axis."""
        return point.complete and not any(_outside_scale(self.spec, point))

    @property
    def drawn_panels(self) -> tuple[Panel, ...]:
        """Panels and lines with at least one point that is drawn."""
        drawn = []
        for panel in self.panels:
            if lines := tuple(line for line in panel.lines if any(map(self.is_drawn, line.points))):
                drawn.append(Panel(panel.dataset, lines))
        return tuple(drawn)


def build_figure(
    spec: FigureEntry,
    datasets: Sequence[str],
    columns: Sequence[TableColumn],
    cells: Mapping[tuple[str, str], FigureCell],
    ddof: int = 1,
) -> Figure:
    """Average over repetitions and sort the points into lines.

    ``cells`` are by dataset and column key; standard deviations divide by n - ``ddof``.
    """
    samples = {
        column.key: [sample for dataset in datasets for sample in cells[dataset, column.key].samples]
        for column in columns
    }
    undrawn = {column.key: reason for column in columns if (reason := _undrawn(spec, column, samples[column.key]))}
    drawn = [column for column in columns if column.key not in undrawn]
    owners = _owners(spec, drawn, [sample for found in samples.values() for sample in found])
    titles = _titles(drawn, owners)
    numbers: dict[tuple[str, tuple, tuple], int] = {}
    panels: dict[str, dict[tuple, Line]] = {}
    for dataset in datasets:
        for column in drawn:
            cell = cells[dataset, column.key]
            for setting, points in _lines(spec, dataset, column, cell, ddof):
                owner = owners[column.key]
                key = (owner, tuple(setting.items()))
                n_lines = sum(learner == column.learner for learner, *_ in numbers)
                variant = numbers.setdefault((column.learner, *key), n_lines)
                label = _label(titles[owner], setting, len(titles) > 1)
                lines = panels.setdefault("" if spec.x == DATASET else dataset, {})
                before = lines[key].points if key in lines else ()
                lines[key] = Line(column.key, column.learner, label, setting, variant, (*before, *points))
    measured = [column.key for column in columns if all(cells[name, column.key].is_measured for name in datasets)]
    return Figure(
        spec=spec,
        panels=tuple(Panel(name, tuple(lines.values())) for name, lines in panels.items()),
        exact_x=not any(spec.x in sample.measured for cell in cells.values() for sample in cell.samples),
        notes=(
            *_notes(datasets, columns, cells),
            *_notes_on_columns(spec, samples, undrawn),
            *_notes_on_points(spec, [line for lines in panels.values() for line in lines.values()], measured),
        ),
    )


def _outside_scale(spec: FigureEntry, point: Point) -> Iterator[str]:
    """Names of what has no place on a logarithmic axis, since it is not positive."""
    for name, scale, value in ((spec.x, spec.x_scale, point.x), (spec.y, spec.y_scale, point.y)):
        if scale != "linear" and not isinstance(value, str) and value <= 0:
            yield name


def _owners(spec: FigureEntry, columns: Sequence[TableColumn], samples: Sequence[Sample]) -> dict[str, tuple[str, ...]]:
    """What the lines of each column belong to: the column.

    Where x is a parameter, and not tuned anywhere, columns of one learner are points of one line of the learner. If two
    of them have the same x, there is a line for all values of the other parameters that differ.
    """
    owners: dict[str, tuple[str, ...]] = {column.key: ("column", column.key) for column in columns}
    if any(spec.x in sample.exact or spec.x in sample.measured for sample in samples):
        return owners
    by_learner: dict[str, list[TableColumn]] = {}
    for column in columns:
        if spec.x in column.params:
            by_learner.setdefault(column.learner, []).append(column)
    for learner, of_learner in by_learner.items():
        differing = differing_names([column.params for column in of_learner])
        for others in ((), [name for name in differing if name != spec.x]):
            lines = [tuple(f"{name} {column.params.get(name)}" for name in others) for column in of_learner]
            places = {(line, column.params[spec.x]) for line, column in zip(lines, of_learner)}
            if len(places) == len(of_learner):
                owners |= {column.key: ("learner", learner, *line) for line, column in zip(lines, of_learner)}
                break
    return owners


def _titles(columns: Sequence[TableColumn], owners: Mapping[str, tuple[str, ...]]) -> dict[tuple[str, ...], str]:
    """A title for each owner of lines, which no other owner has."""
    distinct = distinct_titles({column.key: (column.title, column.params) for column in columns})
    titles = {}
    for owner in owners.values():
        found = {column.title for column in columns if owners[column.key] == owner}
        titles[owner] = found.pop() if len(found) == 1 else ", ".join(owner[1:])
    shared = {title for title, count in Counter(titles.values()).items() if count > 1}
    return {
        owner: title if title not in shared else distinct[owner[1]] if owner[0] == "column" else ", ".join(owner[1:])
        for owner, title in titles.items()
    }


def _undrawn(spec: FigureEntry, column: TableColumn, samples: Sequence[Sample]) -> str:
    """Why the samples of a column cannot be drawn, or an empty string."""
    known = {DATASET, *column.params}
    if samples and not any(spec.x in {*known, *sample.exact, *sample.measured} for sample in samples):
        return f"{spec.x} is not tuned"
    for name in (spec.x, spec.y):
        values = [value for sample in samples for value in sample.measured.get(name, ())]
        if values and not any(map(math.isfinite, values)):
            return f"{name} is not defined"
    return ""


def _label(title: str, setting: Mapping[str, float], several: bool) -> str:
    values = ", ".join(value_label(axis, value) for axis, value in setting.items())
    if not values:
        return title
    return f"{title}, {values}" if several else values


def _lines(
    spec: FigureEntry, dataset: str, column: TableColumn, cell: FigureCell, ddof: int
) -> Iterator[tuple[dict, tuple[Point, ...]]]:
    """The lines of one cell, each with its fixed values."""
    if not cell.samples:
        return
    axes = [axis for axis in cell.samples[0].exact if axis != POINT]
    along = spec.along or (spec.x if spec.x in axes else POINT)
    fixed = [axis for axis in axes if axis != along] if spec.others == "each" else []
    # By fixed values, then by position along the line, one (x, y) for each repetition.
    found: dict[tuple, dict[float, list[tuple[Any, float]]]] = {}
    for sample in cell.samples:
        for row in _drawn_rows(sample, along, fixed):
            exact = {name: values[row] for name, values in sample.exact.items()}
            measured = {name: values[row] for name, values in sample.measured.items()}
            x = {**column.params, **exact, **measured, DATASET: dataset}[spec.x]
            places = found.setdefault(tuple(exact[axis] for axis in fixed), {})
            places.setdefault(exact.get(along, math.nan), []).append((x, measured[spec.y]))
    for key, places in found.items():
        points = (_point(column.key, *place, cell.expected, ddof) for place in places.items())
        yield dict(zip(fixed, key)), tuple(points)


def _drawn_rows(sample: Sample, along: str, fixed: Sequence[str]) -> Iterable[int]:
    """Rows of a sample that are drawn: all, or of those that differ only in other axes, the one that validates best."""
    keys = [axis for axis in sample.exact if axis == along or axis in fixed]
    validation = sample.measured.get("validation_auc")
    if validation is None or len(keys) == len(sample.exact):
        return range(sample.n_rows)
    alike: dict[tuple, list[int]] = {}
    for row in range(sample.n_rows):
        alike.setdefault(tuple(sample.exact[axis][row] for axis in keys), []).append(row)
    # As for tables: compared after rounding to 12 decimals, the first one wins.
    rounded = [-math.inf if math.isnan(auc) else round(auc, AUC_DECIMALS) for auc in validation]
    return [max(rows, key=rounded.__getitem__) for rows in alike.values()]


def _point(column: str, along: float, pairs: Sequence[tuple[Any, float]], expected: int, ddof: int) -> Point:
    good = [(x, y) for x, y in pairs if isinstance(x, str) or math.isfinite(x) if math.isfinite(y)]
    x, y = (pairs[0][0], math.nan), (math.nan, math.nan)
    if len(good) == expected:
        y = _mean_and_std([y for _, y in good], ddof)
        x = x if isinstance(x[0], str) else _mean_and_std([x for x, _ in good], ddof)
    return Point(column, *x, *y, len(good), expected, along)


def _mean_and_std(values: Sequence[float], ddof: int) -> tuple[float, float]:
    mean, std = mean_and_std(values, ddof)
    return mean, math.nan if std is None else std


def _notes(
    datasets: Sequence[str], columns: Sequence[TableColumn], cells: Mapping[tuple[str, str], FigureCell]
) -> Iterator[str]:
    """Which cells are not drawn, a sentence per reason."""
    reasons: dict[str, list[str]] = {}
    for dataset in datasets:
        by_reason: dict[str, list[str]] = {}
        for column in columns:
            cell = cells[dataset, column.key]
            for status, count in cell.statuses.items():
                reason = STATUS_WORDS.get(status, status)
                reason += "" if status in NOT_STARTED else f" in {count} of {cell.expected}"
                by_reason.setdefault(reason, []).append(column.key)
            if cell.pending:
                by_reason.setdefault(f"{len(cell.samples)} of {cell.expected} done", []).append(column.key)
        for reason, keys in by_reason.items():
            name = dataset if len(keys) == len(columns) else f"{dataset} ({', '.join(keys)})"
            reasons.setdefault(reason, []).append(name)
    for reason, names in reasons.items():
        yield f"{reason}: {', '.join(names)}"


def _notes_on_columns(
    spec: FigureEntry, samples: Mapping[str, Sequence[Sample]], undrawn: Mapping[str, str]
) -> Iterator[str]:
    """Which columns have no lines, or points only, a sentence per reason."""
    for reason in dict.fromkeys(undrawn.values()):
        yield f"not drawn, since {reason}: {', '.join(key for key, why in undrawn.items() if why == reason)}"
    if spec.along:
        points = [key for key, found in samples.items() if any(spec.along not in sample.exact for sample in found)]
        if points := [key for key in points if key not in undrawn]:
            yield f"points without a line, since {spec.along} is not tuned: {', '.join(points)}"


def _notes_on_points(spec: FigureEntry, lines: Sequence[Line], measured: Collection[str]) -> Iterator[str]:
    """Which lines have points outside of a logarithmic axis, and which are not drawn anywhere, a sentence each.

    ``measured`` are the columns that lack no repetition anywhere: other notes are about the rest.
    """
    outside: dict[str, dict[str, None]] = {}
    for line in lines:
        for point in line.points:
            for name in _outside_scale(spec, point) if point.complete else ():
                outside.setdefault(name, {})[line.label] = None
    for name, labels in outside.items():
        shown = ", ".join(labels)
        yield f"points not drawn, since a logarithmic axis has no place for {name} of 0 or less: {shown}"
    complete = {line.label for line in lines if any(point.complete for point in line.points)}
    if diverged := dict.fromkeys(
        line.label for line in lines if line.column in measured and line.label not in complete
    ):
        yield f"not drawn, since no point is finite in all repetitions: {', '.join(diverged)}"
