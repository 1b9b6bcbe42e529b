"""The contents of the page, as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..compare import Comparison
from ..table import ResultTable, Test

__all__ = ["Fold", "GridMap", "PageContent", "Provenance", "Seconds", "grid_map"]

Key = tuple[str, str]


@dataclass(frozen=True)
class Fold:
    """One outer fold or trial of a cell, counted from 0.

    The AUC is that on the test set. ``selected`` is the setting that the inner cross-validation selected, empty where
    nothing is tuned.
    """

    trial: int
    fold: int
    status: str
    auc: float | None
    selected: Mapping[str, float]


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
    n_folds: int
    others: tuple[str, ...] = ()


@dataclass(frozen=True)
class Seconds:
    """CPU seconds of one cell: of the refit in each finished fold, and of the inner search summed over the folds."""

    fit: tuple[float, ...]
    selection: float


@dataclass(frozen=True)
class Provenance:
    """How the numbers were computed."""

    facts: Sequence[tuple[str, str]]  # protocol, limits, config, version
    datasets: Sequence[Mapping[str, Any]]  # the name of each and known facts
    learners: Sequence[Mapping[str, str]]  # of each column title, learner, version, params and grid, as text
    machines: Sequence[tuple[str, int]]  # software and machine as text, and how many records were computed there
    experiment: str  # as JSON


@dataclass(frozen=True)
class PageContent:
    """Everything on the page; keys are dataset and column key."""

    description: str
    tables: Mapping[Test, ResultTable]  # the same cells under each test
    test: Test  # the one that is shown first
    comparison: Comparison | None  # under the paired test, which is the papers'
    folds: Mapping[Key, Sequence[Fold]]  # in the order of trial and fold
    grids: Mapping[Key, GridMap]  # of cells whose records have an inner search
    seconds: Mapping[Key, Seconds]
    learners: Mapping[str, str]  # registry names by column key, which determine colours
    provenance: Provenance
    selected_by: str = "AUC"  # heading of the metric by which settings were selected

    @property
    def table(self) -> ResultTable:
        return self.tables[self.test]


def grid_map(
    grid: Mapping[str, Sequence[float]], aucs: Sequence[Sequence[float]], selected: Sequence[Mapping[str, float]]
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
    over = tuple(range(len(others)))
    names = list(axes)
    named = [(names[i], tuple(axes[names[i]])) for i in kept]
    return GridMap(
        x=named[0],
        y=named[1] if len(named) > 1 else None,
        auc=np.atleast_2d(np.fmax.reduce(mean, axis=over)),  # NaN only where all are
        diverged=np.atleast_2d(diverged.min(axis=over)),
        selected=np.atleast_2d(times_selected.sum(axis=over)),
        n_folds=len(folds),
        others=tuple(names[i] for i in others),
    )
