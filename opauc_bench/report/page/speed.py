"""Run times: a row a dataset, a marker a learner, on a logarithmic axis."""

from __future__ import annotations

import math
import statistics

from markupsafe import Markup

from ..figure_style import style_of
from .content import PageContent, Seconds
from .svg import element, marker, picture, text

__all__ = ["learner_looks", "seconds_text", "speed_svg"]

_SPAN, _RIGHT, _TOP, _LETTER = 700, 24, 26, 7.2  # pixels: of the axis, beside and above it, of a letter
_LEAST = 1e-6  # below what clocks of processes tell


def learner_looks(content: PageContent) -> dict[str, tuple[str, str]]:
    """Colour and marker of each column: its learner's own; further columns of one learner are lighter."""
    seen: dict[str, int] = {}
    looks = {}
    for column in content.table.columns:
        learner = content.learners[column.key]
        style = style_of(learner, seen.get(learner, 0))
        seen[learner] = seen.get(learner, 0) + 1
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
    datasets = [d for d in content.table.datasets if any((d, c.key) in content.seconds for c in content.table.columns)]
    looks = learner_looks(content)
    values = [max(second, _LEAST) for seconds in content.seconds.values() for second in seconds.fit]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    high = max(high, low + 1)
    row = max(20, 7 * len(looks) + 8)
    bottom = _TOP + row * len(datasets)
    left = 30 + _LETTER * max(map(len, datasets))
    width = left + _SPAN + _RIGHT

    def place(seconds: float) -> float:
        share = (math.log10(max(seconds, _LEAST)) - low) / (high - low)
        return left + share * _SPAN

    pieces = []
    for power in range(low, high + 1):
        x = place(10.0**power)
        pieces.append(element("line", x1=x, x2=x, y1=_TOP, y2=bottom, class_="rule"))
        pieces += [text(x, y, seconds_text(10.0**power), text_anchor="middle") for y in (_TOP - 8, bottom + 16)]
    for i, dataset in enumerate(datasets):
        top = _TOP + row * i
        if i % 2 == 0:
            pieces.insert(0, element("rect", x=0, y=top, width=width, height=row, class_="band"))
        pieces.append(text(left - 10, top + row / 2 + 4, dataset, text_anchor="end"))
        for j, column in enumerate(content.table.columns):
            if seconds := content.seconds.get((dataset, column.key)):
                y = top + (row - 7 * len(looks)) / 2 + 7 * (j + 0.5)
                pieces.append(_mark(f"{dataset}, {column.title}", seconds, place, y, looks[column.key]))
    label = "CPU seconds of one training pass, by dataset and learner; the numbers are in the table below."
    return picture(width, bottom + 22, label, pieces, class_="speed")


def _mark(name: str, seconds: Seconds, place, y: float, look: tuple[str, str]) -> Markup:
    middle, ends = statistics.median(seconds.fit), (min(seconds.fit), max(seconds.fit))
    colour, kind = look
    said = f"{name}: {seconds_text(middle)} ({seconds_text(ends[0])} to {seconds_text(ends[1])})"
    span = element("line", x1=place(ends[0]), x2=place(ends[1]), y1=y, y2=y, stroke=colour, class_="span")
    return element("g", element("title", said), span, marker(kind, place(middle), y, 3.6, colour))


def _two_digits(value: float) -> str:
    return f"{value:.0f}" if value >= 9.95 else f"{value:.1f}".removesuffix(".0")
