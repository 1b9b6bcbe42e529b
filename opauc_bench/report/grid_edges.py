"""Cells whose selected settings lie at an edge of the grid, as notes of columns, and grids that reach further."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, takewhile

from ..evaluation.edges import axes_cut_off
from ..results.record import Record
from ..task import Task, expand_grid
from .text import power_of_two, value_text

__all__ = ["Edge", "Edges", "edge_notes", "edges_of", "wider_grids"]

_LARGEST_SHARE = 0.2  # of the folds of a cell: edges that are selected more often are reported
_MOST_LISTED = 4  # values that are added to one end of a list


@dataclass(frozen=True)
class Edge:
    """A value at the end of an axis that was selected in ``n`` of ``of`` repetitions of a cell."""

    axis: str
    value: float
    n: int
    of: int


Edges = Mapping[tuple[str, str], tuple[Edge, ...]]


def edges_of(cells: Mapping[tuple[str, str], Iterable[tuple[Task, Record | None]]]) -> Edges:
    """Edges of the grid that cut off more than a fifth of the finished repetitions, by row and column; see
    `axes_cut_off`.
    """
    found = {}
    for place, pairs in cells.items():
        searched = [
            (task, record.selection, record.selected)
            for task, record in pairs
            if record is not None and record.ok and record.selection
        ]
        if not searched:
            continue
        settings = expand_grid(searched[0][0].grid)
        counts: Counter[tuple[str, float]] = Counter()
        for _, selection, selected in searched:
            counts.update(axes_cut_off(settings, selection.auc, selected).items())
        edges = [Edge(axis, value, n, len(searched)) for (axis, value), n in sorted(counts.items())]
        if often := tuple(edge for edge in edges if edge.n > _LARGEST_SHARE * edge.of):
            found[place] = often
    return found


def edge_notes(edges: Edges, rows: Collection[str], columns: Iterable[str], runs: str) -> dict[str, list[str]]:
    """Sentences on each column with an edge in some rows of the table, one for each axis and end."""
    notes: dict[str, list[str]] = {}
    for column in columns:
        by_value: dict[tuple[str, float], dict[tuple[int, int], list[str]]] = {}
        for row in rows:
            for edge in edges.get((row, column), ()):
                by_count = by_value.setdefault((edge.axis, edge.value), {})
                by_count.setdefault((edge.n, edge.of), []).append(row)
        if by_value:
            notes[column] = [_note(*place, by_value[place], runs) for place in sorted(by_value)]
    return notes


def _note(axis: str, value: float, rows: Mapping[tuple[int, int], Sequence[str]], runs: str) -> str:
    parts, previous = [], None
    for n, of in sorted(rows, key=lambda count: (-count[0] / count[1], count)):
        counted = f"{n} of {of} {runs if of > 1 else runs.removesuffix('s')}" if of != previous else str(n)
        parts.append(f"{counted} ({', '.join(rows[n, of])})")
        previous = of
    return f"selected at the edge of the grid, {axis} = {value_text(value, superscripts=False)}, in {', '.join(parts)}."


def wider_grids(
    edges: Edges,
    grids: Mapping[str, Mapping[str, Sequence[float]]],
    integer_axes: Callable[[str], Collection[str]] = lambda column: (),
    accepts: Callable[[str, str, float], bool] = lambda column, axis, value: True,
) -> dict[str, list[str]]:
    """Axes that reach half their length beyond the edges that cut off, as in a config, with the columns they are for.

    ``grids`` has the axes of each column; ``integer_axes`` gives those of a column that take positive integers only,
    ``accepts`` whether an axis of a column takes a further value.
    """
    cut: dict[tuple[str, str], set[float]] = {}
    for (_, column), found in edges.items():
        for edge in found:
            cut.setdefault((column, edge.axis), set()).add(edge.value)
    wider: dict[str, list[str]] = {}
    for column, grid in grids.items():
        for axis, values in grid.items():
            if (ends := cut.get((column, axis))) and (
                text := _widened(values, ends, axis in integer_axes(column), partial(accepts, column, axis))
            ):
                wider.setdefault(f"{axis}: {text}", []).append(column)
    return wider


def _widened(values: Sequence[float], ends: Collection[float], integers: bool, accepts: Callable[[float], bool]) -> str:
    """A wider axis, or an empty text where nothing lies beyond its ends."""
    ordered = sorted(values)
    exponents = [exponent for value in ordered if (exponent := power_of_two(value)) is not None]
    step = exponents[1] - exponents[0] if len(exponents) == len(ordered) else 0
    regular = step > 0 and exponents == list(range(exponents[0], exponents[-1] + 1, step))
    n_more = (len(ordered) + 1) // 2
    n_more = n_more if regular else min(n_more, _MOST_LISTED)
    below, above = (
        list(takewhile(accepts, _beyond(last, inside, n_more if last in ends else 0, integers)))
        for last, inside in ((ordered[0], ordered[1]), (ordered[-1], ordered[-2]))
    )
    if not below and not above:
        return ""
    if regular:
        low, high = exponents[0] - len(below) * step, exponents[-1] + len(above) * step
        return f"{{pow2: {[low, high, *([step] if step > 1 else [])]}}}"
    return f"[{', '.join(map(_exact_text, chain(below[::-1], ordered, above)))}]"


def _beyond(last: float, inside: float, n: int, integers: bool) -> Iterator[float]:
    """The next values of a geometric axis: integers, exact powers of two, or of four digits, and more if need be."""
    ratio = last / inside if inside else 2.0
    is_exact = power_of_two(last) is not None and power_of_two(ratio) is not None
    value = previous = last
    for _ in range(n):
        value *= ratio
        if not math.isfinite(value):
            return
        if integers:
            forms = [float(round(value))]
        elif is_exact:
            forms = [value]
        else:
            forms = [*(float(f"{value:.{digits}g}") for digits in (4, 6, 8, 12)), value]
        if integers and forms == [previous]:
            continue
        found = next((form for form in forms if _lies_beyond(form, previous, inside)), 0.0)
        if found == 0.0 or not math.isfinite(found):
            return
        yield found
        previous = found


def _lies_beyond(value: float, previous: float, inside: float) -> bool:
    return value > previous if previous > inside else value < previous


def _exact_text(value: float) -> str:
    if value.is_integer() and abs(value) < 1e15:
        return f"{value:.0f}"
    text = f"{value:g}"
    return text if float(text) == value else repr(value)
