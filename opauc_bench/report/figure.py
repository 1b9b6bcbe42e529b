"""A figure before it is drawn: panels of lines, each point a mean over repetitions.

What one repetition has measured is a :class:`Sample`, a small table. Its exact columns (values of grid axes, the number
of a point of a pass) identify rows of different repetitions; its measured columns are averaged. A point has a mean only
where every expected repetition has a finite value. `figure_draw` draws.
"""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ..figures import FigureEntry
from .figure_labels import value_label

__all__ = [
    "DATASET",
    "POINT",
    "Cell",
    "Column",
    "Figure",
    "Line",
    "Panel",
    "Point",
    "Sample",
    "build_figure",
]

DATASET, POINT = "dataset", "point"
_ABSENT = {
    "unavailable": "not available",
    "left_out": "left out",
    "too_large": "too large for the memory of this machine",
}


@dataclass(frozen=True)
class Sample:
    """What one repetition has measured: exact and measured columns of one length, NaN where there is no number."""

    exact: Mapping[str, Sequence[float]]
    measured: Mapping[str, Sequence[float]]

    @property
    def n_rows(self) -> int:
        return len(next(iter(self.measured.values())))


@dataclass(frozen=True)
class Column:
    """A column of the experiment; ``params`` are those that are numbers."""

    key: str
    title: str
    learner: str
    params: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Cell:
    """Finished repetitions of one dataset and column, the expected number, and the statuses of the others."""

    samples: tuple[Sample, ...]
    expected: int
    statuses: Mapping[str, int] = field(default_factory=dict)

    @property
    def pending(self) -> int:
        return self.expected - len(self.samples) - sum(self.statuses.values())


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

    @property
    def complete(self) -> bool:
        return self.n == self.expected


@dataclass(frozen=True)
class Line:
    """Points of one learner.

    Attributes
    ----------
    column, learner, label : str
    setting : dict of str to float
        Values of the grid axes that this line holds fixed.
    variant : int
        Its number among the learner's lines in this figure.
    points : tuple of Point
    """

    column: str
    learner: str
    label: str
    setting: Mapping[str, float]
    variant: int
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


def build_figure(
    spec: FigureEntry,
    datasets: Sequence[str],
    columns: Sequence[Column],
    cells: Mapping[tuple[str, str], Cell],
    ddof: int = 1,
) -> Figure:
    """Average over repetitions and sort the points into lines.

    ``cells`` are by dataset and column key; standard deviations divide by n - ``ddof``.
    """
    numbers: dict[tuple[str, str, tuple], int] = {}
    panels: dict[str, dict[tuple, Line]] = {}
    several = len({column.learner if _by_param(spec, column) else column.key for column in columns}) > 1
    for dataset in datasets:
        for column in columns:
            cell = cells[dataset, column.key]
            for setting, points in _lines(spec, dataset, column, cell, ddof):
                # Where x is a parameter of the column, columns of one learner are points of one line.
                owner = column.learner if _by_param(spec, column) else column.key
                key = (owner, tuple(setting.items()))
                variant = numbers.setdefault((column.learner, *key), _count(numbers, column.learner))
                label = _label(column, setting, several)
                lines = panels.setdefault("" if spec.x == DATASET else dataset, {})
                before = lines[key].points if key in lines else ()
                lines[key] = Line(column.key, column.learner, label, setting, variant, (*before, *points))
    return Figure(
        spec=spec,
        panels=tuple(Panel(name, tuple(lines.values())) for name, lines in panels.items()),
        exact_x=not _is_measured(spec, cells.values()),
        notes=tuple(_notes(datasets, columns, cells)),
    )


def _by_param(spec: FigureEntry, column: Column) -> bool:
    return spec.x in column.params


def _is_measured(spec: FigureEntry, cells) -> bool:
    return any(spec.x in sample.measured for cell in cells for sample in cell.samples)


def _count(numbers: Mapping[tuple, int], learner: str) -> int:
    return sum(key[0] == learner for key in numbers)


def _label(column: Column, setting: Mapping[str, float], several: bool) -> str:
    values = ", ".join(value_label(axis, value) for axis, value in setting.items())
    if not values:
        return column.title
    return f"{column.title}, {values}" if several else values


def _lines(
    spec: FigureEntry, dataset: str, column: Column, cell: Cell, ddof: int
) -> Iterator[tuple[dict, tuple[Point, ...]]]:
    """The lines of one cell, each with its fixed values."""
    if not cell.samples:
        return
    axes = [axis for axis in cell.samples[0].exact if axis != POINT]
    along = spec.along or (spec.x if spec.x in axes else POINT)
    others = [axis for axis in axes if axis != along]
    fixed = others if spec.others == "each" else []
    # By fixed values, then by position along the line, one (x, y) for each repetition.
    found: dict[tuple, dict[float, list[tuple[float, float]]]] = {}
    for sample in cell.samples:
        for row in _drawn_rows(sample, along, fixed):
            where = sample.exact[along][row] if along in sample.exact else 0.0
            key = tuple(sample.exact[axis][row] for axis in fixed)
            found.setdefault(key, {}).setdefault(where, []).append(_coordinates(spec, dataset, column, sample, row))
    for key, places in found.items():
        yield dict(zip(fixed, key)), tuple(_point(column.key, pairs, cell.expected, ddof) for pairs in places.values())


def _drawn_rows(sample: Sample, along: str, fixed: Sequence[str]) -> Iterator[int]:
    """Rows of a sample that are drawn: all, or of those that differ only in other axes, the one that validates best."""
    keys = [axis for axis in sample.exact if axis == along or axis in fixed]
    validation = sample.measured.get("validation_auc")
    if validation is None or len(keys) == len(sample.exact):
        yield from range(sample.n_rows)
        return
    best: dict[tuple, int] = {}
    for row in range(sample.n_rows):
        key = tuple(sample.exact[axis][row] for axis in keys)
        current = best.get(key)
        # As for tables: compared after rounding to 12 decimals, the first one wins.
        if current is None or _rounded(validation[row]) > _rounded(validation[current]):
            best[key] = row
    yield from best.values()


def _rounded(value: float) -> float:
    return -math.inf if math.isnan(value) else round(value, 12)


def _coordinates(spec: FigureEntry, dataset: str, column: Column, sample: Sample, row: int) -> tuple:
    if spec.x == DATASET:
        x = dataset
    elif spec.x in sample.measured:
        x = sample.measured[spec.x][row]
    elif spec.x in sample.exact:
        x = sample.exact[spec.x][row]
    else:
        x = column.params[spec.x]
    return x, sample.measured[spec.y][row]


def _point(column: str, pairs: Sequence[tuple], expected: int, ddof: int) -> Point:
    good = [(x, y) for x, y in pairs if isinstance(x, str) or math.isfinite(x) if math.isfinite(y)]
    xs, ys = [x for x, _ in good], [y for _, y in good]
    x = pairs[0][0]
    if len(good) < expected:
        return Point(column, x, math.nan, math.nan, math.nan, len(good), expected)
    if isinstance(x, str):
        return Point(column, x, math.nan, *_mean_and_std(ys, ddof), len(good), expected)
    return Point(column, *_mean_and_std(xs, ddof), *_mean_and_std(ys, ddof), len(good), expected)


def _mean_and_std(values: Sequence[float], ddof: int) -> tuple[float, float]:
    # Exactly rounded, so that the bytes of a file do not depend on how a machine orders its sums.
    if len(values) <= ddof:
        return values[0], math.nan
    if len(set(values)) == 1:
        return values[0], 0.0
    return statistics.fmean(values), (statistics.stdev if ddof else statistics.pstdev)(values)


def _notes(datasets: Sequence[str], columns: Sequence[Column], cells: Mapping[tuple[str, str], Cell]) -> Iterator[str]:
    """Which cells are not drawn, a sentence per reason."""
    reasons: dict[str, list[str]] = {}
    for dataset in datasets:
        by_reason: dict[str, list[str]] = {}
        for column in columns:
            cell = cells[dataset, column.key]
            for status, count in cell.statuses.items():
                reason = _ABSENT.get(status, f"{status} in {count} of {cell.expected}")
                by_reason.setdefault(reason, []).append(column.key)
            if cell.pending:
                by_reason.setdefault(f"{len(cell.samples)} of {cell.expected} done", []).append(column.key)
        for reason, keys in by_reason.items():
            name = dataset if len(keys) == len(columns) else f"{dataset} ({', '.join(keys)})"
            reasons.setdefault(reason, []).append(name)
    for reason, names in reasons.items():
        yield f"{reason}: {', '.join(names)}"
