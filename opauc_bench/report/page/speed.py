"""Run times: a row per dataset, a marker per learner, on a logarithmic axis."""

from __future__ import annotations

import math
import statistics
from collections import Counter

from markupsafe import Markup

from ..figure_style import style_of
from ..template import render_svg
from .content import PageContent

__all__ = ["learner_looks", "seconds_text", "speed_svg"]

_LEAST = 1e-6  # below the resolution of process clocks


def learner_looks(content: PageContent) -> dict[str, tuple[str, str]]:
    """Colour and marker of each column: its learner's own; further columns of one learner are lighter."""
    seen, looks = Counter(), {}
    for column in content.table.columns:
        learner = content.learners[column.key]
        style = style_of(learner, seen[learner])
        seen[learner] += 1
        looks[column.key] = (style.colour, style.marker)
    return looks


def seconds_text(seconds: float) -> str:
    """A time with two digits and its unit."""
    for unit, size in (("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3)):
        if seconds >= (2 if size > 1 else 1) * size:
            return f"{_two_digits(seconds / size)} {unit}"
    return f"{_two_digits(seconds * 1e6)} µs"


def speed_svg(content: PageContent) -> Markup:
    """Draw the median time of the refit over the folds, with a line from the shortest to the longest."""
    columns, looks = content.table.columns, learner_looks(content)
    logs = {
        key: [math.log10(max(second, _LEAST)) for second in seconds.fit] for key, seconds in content.seconds.items()
    }
    low = math.floor(min(map(min, logs.values())))
    high = max(math.ceil(max(map(max, logs.values()))), low + 1)

    def share(seconds: float) -> float:
        return (math.log10(max(seconds, _LEAST)) - low) / (high - low)

    rows = []
    for dataset in content.table.datasets:
        marks = []
        for place, column in enumerate(columns):
            if seconds := content.seconds.get((dataset, column.key)):
                ends = min(seconds.fit), statistics.median(seconds.fit), max(seconds.fit)
                shortest, median, longest = map(seconds_text, ends)
                title = f"{dataset}, {column.title}: {median} ({shortest} to {longest})"
                marks.append((place, title, *looks[column.key], *map(share, ends)))
        if marks:
            rows.append((dataset, marks))
    ticks = [((power - low) / (high - low), seconds_text(10.0**power)) for power in range(low, high + 1)]
    longest = max(len(dataset) for dataset, _ in rows)
    return render_svg("speed.svg", rows=rows, ticks=ticks, longest=longest, n_learners=len(columns))


def _two_digits(value: float) -> str:
    return f"{value:.0f}" if value >= 9.95 else f"{value:.1f}".removesuffix(".0")
