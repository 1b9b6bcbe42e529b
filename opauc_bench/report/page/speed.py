"""Run times: a row per dataset, a marker per learner, on a logarithmic axis; and as numbers."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from ..figure_style import style_of
from ..table import ResultTable, TableColumn
from ..template import render_svg

if TYPE_CHECKING:
    from ...results.record import Record

__all__ = ["run_times", "seconds_text"]

_LEAST = 1e-6  # below the resolution of process clocks

Key = tuple[str, str]


def run_times(table: ResultTable, records: Mapping[Key, Sequence[Record]]) -> dict[str, Any] | None:
    """CPU seconds of the refit in each finished fold and of the inner search over the folds; None if there are none."""
    fit: dict[Key, list[float]] = {}
    search: dict[Key, float] = {}
    for key, found in records.items():
        timings = [record.timing for record in found if record.ok]
        if measured := [timing.fit_cpu_seconds for timing in timings if timing.fit_cpu_seconds is not None]:
            fit[key] = measured
            search[key] = sum(timing.selection_cpu_seconds or 0.0 for timing in timings)
    if not fit:
        return None
    rows = []
    for dataset in table.datasets:
        keys = [(dataset, column.key) for column in table.columns]
        if any(key in fit for key in keys):
            texts = {
                key: (seconds_text(statistics.median(fit[key])), seconds_text(search[key]))
                for key in keys
                if key in fit
            }
            rows.append((dataset, [texts.get(key) for key in keys]))
    looks = _looks(table.columns)
    total = sum(search[key] + sum(fit[key]) for key in fit)
    return {"svg": _drawing(table, fit, looks), "looks": looks, "rows": rows, "total": seconds_text(total)}


def _looks(columns: Sequence[TableColumn]) -> dict[str, tuple[str, str]]:
    """Colour and marker of each column: its learner's own; further columns of one learner are lighter."""
    seen: Counter[str] = Counter()
    looks = {}
    for column in columns:
        style = style_of(column.learner, seen[column.learner])
        seen[column.learner] += 1
        looks[column.key] = (style.colour, style.marker)
    return looks


def seconds_text(seconds: float) -> str:
    """A time with two digits and its unit."""
    for unit, size in (("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3)):
        if seconds >= (2 if size > 1 else 1) * size:
            return f"{_two_digits(seconds / size)} {unit}"
    return f"{_two_digits(seconds * 1e6)} µs"


def _drawing(table: ResultTable, fit: Mapping[Key, Sequence[float]], looks: Mapping[str, tuple[str, str]]) -> Markup:
    """Draw the median time of the refit over the folds, with a line from the shortest to the longest."""
    logs = [math.log10(max(second, _LEAST)) for seconds in fit.values() for second in seconds]
    low = math.floor(min(logs))
    high = max(math.ceil(max(logs)), low + 1)

    def share(seconds: float) -> float:
        return (math.log10(max(seconds, _LEAST)) - low) / (high - low)

    rows = []
    for dataset in table.datasets:
        marks = []
        for place, column in enumerate(table.columns):
            if seconds := fit.get((dataset, column.key)):
                ends = min(seconds), statistics.median(seconds), max(seconds)
                shortest, median, longest = map(seconds_text, ends)
                title = f"{dataset}, {column.title}: {median} ({shortest} to {longest})"
                marks.append((place, title, *looks[column.key], *map(share, ends)))
        if marks:
            rows.append((dataset, marks))
    ticks = [((power - low) / (high - low), seconds_text(10.0**power)) for power in range(low, high + 1)]
    n_letters = max(len(dataset) for dataset, _ in rows)
    return render_svg("speed.svg", rows=rows, ticks=ticks, longest=n_letters, n_learners=len(table.columns))


def _two_digits(value: float) -> str:
    return f"{value:.0f}" if value >= 9.95 else f"{value:.1f}".removesuffix(".0")
