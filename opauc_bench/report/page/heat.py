"""Heat maps of the inner cross-validation: where the grid is good, where it overflows, what was selected."""

from __future__ import annotations

import math

import numpy as np
from markupsafe import Markup

from ..figure_labels import AXIS_SYMBOLS, value_text
from ..text import auc_text
from .content import GridMap
from .svg import element, number, picture

__all__ = ["COLOURS", "EDGES", "axes_text", "heat_caption", "heat_svg"]

# How far a setting is below the best of its map, in units of AUC, and the colour of that class (ColorBrewer's YlGnBu,
# dark is best; its lightness falls evenly, so that it can be read in grey and by colour-blind eyes).
EDGES = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
COLOURS = ("#081d58", "#253494", "#225ea8", "#1d91c0", "#41b6c4", "#7fcdbb", "#c7e9b4", "#edf8b1", "#ffffd9")
SOMETIMES, ALWAYS = len(COLOURS), len(COLOURS) + 1

_WIDTH, _SMALLEST, _LARGEST, _STRIP = 161, 7, 14, 21  # pixels: of a map, of its cells, of a map's only row


def heat_svg(grid: GridMap) -> Markup:
    """Draw one map: small x values on the left, small y values at the bottom."""
    n_y, n_x = grid.auc.shape
    side = min(_LARGEST, max(_SMALLEST, _WIDTH // n_x))
    rows = side if grid.y else _STRIP
    height = rows * n_y
    classes = _classes(grid)
    pieces = []
    for kind in np.unique(classes):
        path = "".join(_runs(classes[y] == kind, height - rows * (y + 1), side, rows) for y in range(n_y))
        pieces.append(element("path", d=path, **_paint(int(kind))))
    for y, x in zip(*np.nonzero(grid.selected)):
        radius = side * (0.16 + 0.34 * math.sqrt(grid.selected[y, x] / grid.n_folds))
        cy = height - rows * (y + 0.5)
        pieces.append(element("circle", cx=side * (x + 0.5), cy=cy, r=radius, class_="pick"))
    return picture(
        side * n_x,
        height,
        _spoken(grid),
        pieces,
        class_="heat",
        data_auc=" ".join("" if np.isnan(auc) else str(round(auc * 10000)) for auc in grid.auc.ravel()),
        data_div=" ".join(str(count or "") for count in grid.diverged.ravel()),
        data_pick=" ".join(str(count or "") for count in grid.selected.ravel()),
        data_x=_axis(grid.x),
        data_y=_axis(grid.y),
        data_n=str(grid.n_folds),
    )


def heat_caption(grid: GridMap) -> list[str]:
    """Two short lines below a map: its best value and place, and what overflowed."""
    overflowed = int((grid.diverged > 0).sum())
    place = _best(grid)
    told = "every setting overflows"
    if place is not None:
        y, x = place
        where = [f"{_symbol(grid.x[0])} {value_text(grid.x[1][x])}"]
        where += [f"{_symbol(grid.y[0])} {value_text(grid.y[1][y])}"] if grid.y else []
        told = f"best {auc_text(float(grid.auc[place]))} at {', '.join(where)}"
    return [told, f"{overflowed} of {grid.auc.size} overflow" if overflowed else ""]


def axes_text(grid: GridMap) -> list[str]:
    """What the axes of a map are, such as ``η 2⁻¹² … 2¹⁰ →``."""
    told = [f"{_symbol(grid.x[0])} {value_text(grid.x[1][0])} … {value_text(grid.x[1][-1])} →"]
    if grid.y:
        told.append(f"{_symbol(grid.y[0])} {value_text(grid.y[1][0])} … {value_text(grid.y[1][-1])} ↑")
    return told + ([f"best over {', '.join(map(_symbol, grid.others))}"] if grid.others else [])


def _classes(grid: GridMap) -> np.ndarray:
    place = _best(grid)
    below = np.zeros(grid.auc.shape) if place is None else grid.auc[place] - grid.auc
    classes = np.searchsorted(np.array(EDGES), np.round(below, 12), side="left")
    classes[grid.diverged > 0] = SOMETIMES
    classes[np.isnan(grid.auc)] = ALWAYS
    return classes


def _runs(row: np.ndarray, top: int, side: int, height: int) -> str:
    """The path of the runs of True in a row."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], row.astype(np.int8), [0]])))
    return "".join(
        f"M{side * start} {top}h{side * (end - start)}v{height}h-{side * (end - start)}z"
        for start, end in zip(edges[::2], edges[1::2])
    )


def _paint(kind: int) -> dict[str, str]:
    if kind in (SOMETIMES, ALWAYS):
        return {"class_": "some" if kind == SOMETIMES else "all"}
    return {"fill": COLOURS[kind]}


def _axis(axis: tuple[str, tuple[float, ...]] | None) -> str:
    return "|".join([_symbol(axis[0]), *map(value_text, axis[1])]) if axis else ""


def _symbol(axis: str) -> str:
    return AXIS_SYMBOLS.get(axis, axis)


def _best(grid: GridMap) -> tuple[int, int] | None:
    """Row and column of the best setting, of those that never overflowed if there are any."""
    safe = np.where(grid.diverged > 0, np.nan, grid.auc)
    candidates = grid.auc if np.isnan(safe).all() else safe
    if np.isnan(candidates).all():
        return None
    y, x = np.unravel_index(np.nanargmax(candidates), candidates.shape)
    return int(y), int(x)


def _spoken(grid: GridMap) -> str:
    picked = int((grid.selected > 0).sum())
    many = f"{picked} settings were" if picked != 1 else "one setting was"
    return f"{'; '.join(filter(None, heat_caption(grid)))}; {many} selected in {number(grid.selected.sum())} folds"
