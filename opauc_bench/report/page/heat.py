"""Heat maps of the inner cross-validation: where the grid is good, where it overflows, what was selected."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from ...evaluation.auc import AUC_DECIMALS
from ..template import render_svg
from ..text import AXIS_SYMBOLS, auc_text, value_text

__all__ = ["COLOURS", "EDGES", "GridMap", "axes_text", "grid_map", "heat_caption", "heat_svg"]

# How far a setting is below the best of its map, in units of AUC, and the colour of that class (ColorBrewer's YlGnBu,
# dark is best; its lightness falls evenly, so that it can be read in grey and by colour-blind readers).
EDGES = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
COLOURS = ("#081d58", "#253494", "#225ea8", "#1d91c0", "#41b6c4", "#7fcdbb", "#c7e9b4", "#edf8b1", "#ffffd9")
_STYLES = [*(Markup('fill="{}"').format(colour) for colour in COLOURS), Markup('class="some"'), Markup('class="all"')]
_SOMETIMES, _ALWAYS = len(COLOURS), len(COLOURS) + 1

_WIDTH, _SMALLEST, _LARGEST, _STRIP = 161, 7, 14, 21  # pixels: of a map, of its cells, of a map's only row


@dataclass(frozen=True)
class GridMap:
    """Inner cross-validation over the grid of one cell, averaged over its outer folds, on at most two axes.

    Where a learner tunes more axes, the best value over the `others` is kept.
    """

    x: tuple[str, tuple[float, ...]]  # name and values of an axis
    y: tuple[str, tuple[float, ...]] | None
    auc: np.ndarray  # (n_y, n_x): mean over the outer folds in which the setting stayed finite; NaN if there is none
    diverged: np.ndarray  # (n_y, n_x): in how many outer folds the setting overflowed
    selected: np.ndarray  # (n_y, n_x): in how many outer folds it was selected
    n_folds: int  # in which it was searched
    others: tuple[str, ...] = ()


def grid_map(
    grid: Mapping[str, Sequence[float]], aucs: Sequence[np.ndarray], selected: Sequence[Mapping[str, float]]
) -> GridMap | None:
    """Average the inner cross-validations of a cell's outer folds, or return None if there is nothing to map.

    `grid` has the values of each axis in the order in which the settings were laid out (the last axis varies fastest),
    `aucs` for each outer fold the mean inner AUC of each setting, NaN where it overflowed. Folds whose values do not
    fit the grid are left out. `selected` are the selected settings.
    """
    axes = {name: [float(value) for value in values] for name, values in grid.items()}
    shape = tuple(map(len, axes.values()))
    folds = np.array([fold for fold in aucs if len(fold) == np.prod(shape)], dtype=float)
    if not axes or not len(folds):
        return None
    finite = np.isfinite(folds)
    counts = finite.sum(axis=0)
    mean = np.where(counts > 0, np.where(finite, folds, 0.0).sum(axis=0) / np.maximum(counts, 1), np.nan)
    mean, diverged = mean.reshape(shape), (len(folds) - counts).reshape(shape)
    times_selected = np.zeros(shape, dtype=int)
    for setting in selected:
        if all(setting.get(name) in values for name, values in axes.items()):
            times_selected[tuple(values.index(setting[name]) for name, values in axes.items())] += 1
    kept = sorted(range(len(axes)), key=lambda i: -shape[i])[:2]  # the longer axis is x
    others = tuple(i for i in range(len(axes)) if i not in kept)
    order = (*others, *reversed(kept))
    mean, diverged, times_selected = (a.transpose(order) for a in (mean, diverged, times_selected))
    # Over other axes the best value is kept, of the settings that never overflowed if there are any.
    mean, diverged, times_selected = (a.reshape(-1, *a.shape[len(others) :]) for a in (mean, diverged, times_selected))
    never = diverged == 0
    candidates = np.where(never | ~never.any(axis=0), mean, np.nan)
    best = np.where(np.isnan(candidates), -np.inf, candidates).argmax(axis=0)[None]
    names = list(axes)
    named = [(names[i], tuple(axes[names[i]])) for i in kept]
    return GridMap(
        x=named[0],
        y=named[1] if len(named) > 1 else None,
        auc=np.atleast_2d(np.take_along_axis(candidates, best, axis=0)[0]),
        diverged=np.atleast_2d(np.take_along_axis(diverged, best, axis=0)[0]),
        selected=np.atleast_2d(times_selected.sum(axis=0)),
        n_folds=len(folds),
        others=tuple(names[i] for i in others),
    )


def heat_svg(grid: GridMap, caption: Sequence[str]) -> Markup:
    """Draw one map: small x values on the left, small y values at the bottom."""
    n_y, n_x = grid.auc.shape
    side = min(_LARGEST, max(_SMALLEST, _WIDTH // n_x))
    row_height = side if grid.y else _STRIP
    height = row_height * n_y
    classes = _classes(grid)

    def path(kind: int) -> str:
        return "".join(_runs(classes[y] == kind, height - row_height * (y + 1), side, row_height) for y in range(n_y))

    n_selected = np.count_nonzero(grid.selected)
    were = f"{n_selected} settings were" if n_selected != 1 else "one setting was"
    return render_svg(
        "heat.svg",
        width=side * n_x,
        height=height,
        label=f"{'; '.join(caption)}; {were} selected in {grid.selected.sum()} folds",
        paths=[(_STYLES[kind], path(kind)) for kind in np.unique(classes)],
        circles=[
            (
                side * (x + 0.5),
                height - row_height * (y + 0.5),
                side * (0.16 + 0.34 * math.sqrt(grid.selected[y, x] / grid.n_folds)),
            )
            for y, x in zip(*np.nonzero(grid.selected))
        ],
        auc=" ".join("" if np.isnan(auc) else str(round(auc * 10000)) for auc in grid.auc.ravel()),
        diverged=" ".join(str(count or "") for count in grid.diverged.ravel()),
        selected=" ".join(str(count or "") for count in grid.selected.ravel()),
        x=_axis_data(grid.x),
        y=_axis_data(grid.y),
        n_folds=grid.n_folds,
    )


def heat_caption(grid: GridMap, expected: int) -> list[str]:
    """The lines below a map: its best value and place, how many settings overflowed, how many folds are absent, if any.

    ``expected`` is the number of folds of the whole experiment.
    """
    caption = "every setting overflows"
    if (place := _best(grid)) is not None:
        axes = ((grid.x, place[1]), (grid.y, place[0]))
        where = ", ".join(f"{_symbol(axis[0])} {value_text(axis[1][i])}" for axis, i in axes if axis)
        caption = f"best {auc_text(float(grid.auc[place]))} at {where}"
    overflowed = np.count_nonzero(grid.diverged)
    lines = [caption, *([f"{overflowed} of {grid.auc.size} overflow"] if overflowed else [])]
    return [*lines, f"of {grid.n_folds} of {expected}"] if grid.n_folds < expected else lines


def axes_text(grid: GridMap) -> list[str]:
    """The axes of a map, such as ``η 2⁻¹² … 2¹⁰ →``."""
    lines = [
        f"{_symbol(axis[0])} {value_text(axis[1][0])} … {value_text(axis[1][-1])} {arrow}"
        for axis, arrow in ((grid.x, "→"), (grid.y, "↑"))
        if axis
    ]
    return lines + ([f"best over {', '.join(map(_symbol, grid.others))}"] if grid.others else [])


def _classes(grid: GridMap) -> np.ndarray:
    """The index in `_STYLES` of each setting."""
    place = _best(grid)
    below = np.zeros(grid.auc.shape) if place is None else grid.auc[place] - grid.auc
    classes = np.searchsorted(np.array(EDGES), np.round(below, AUC_DECIMALS), side="left")
    classes[grid.diverged > 0] = _SOMETIMES
    classes[np.isnan(grid.auc)] = _ALWAYS
    return classes


def _runs(row: np.ndarray, top: int, side: int, height: int) -> str:
    """The path of the runs of True in a row."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], row.astype(np.int8), [0]])))
    return "".join(
        f"M{side * start} {top}h{side * (end - start)}v{height}h-{side * (end - start)}z"
        for start, end in zip(edges[::2], edges[1::2])
    )


def _axis_data(axis: tuple[str, tuple[float, ...]] | None) -> str:
    return "|".join([_symbol(axis[0]), *map(value_text, axis[1])]) if axis else ""


def _symbol(axis: str) -> str:
    return AXIS_SYMBOLS.get(axis, axis)


def _best(grid: GridMap) -> tuple[int, int] | None:
    """Row and column of the best setting, of those that never overflowed if there are any."""
    never_overflowed = np.where(grid.diverged > 0, np.nan, grid.auc)
    candidates = grid.auc if np.isnan(never_overflowed).all() else never_overflowed
    if np.isnan(candidates).all():
        return None
    y, x = np.unravel_index(np.nanargmax(candidates), candidates.shape)
    return int(y), int(x)
