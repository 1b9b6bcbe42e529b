"""The contents of the page, as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..compare import Comparison
from ..table import ResultTable

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

    Where a learner tunes more axes, the best value over the `others` is kept. ``x`` and ``y`` are names and values of
    the axes; `y` is None if there is one only.

    Attributes
    ----------
    auc : ndarray of shape (n_y, n_x)
        Mean over the outer folds in which the setting stayed finite; NaN where there was none.
    diverged, selected : ndarray of int of shape (n_y, n_x)
        In how many outer folds the setting overflowed, and in how many it was selected.
    """

    x: tuple[str, tuple[float, ...]]
    y: tuple[str, tuple[float, ...]] | None
    auc: np.ndarray
    diverged: np.ndarray
    selected: np.ndarray
    n_folds: int
    others: tuple[str, ...] = ()


@dataclass(frozen=True)
class Seconds:
    """CPU seconds of one cell: of the refit in each finished fold, and of the inner search summed over the folds."""

    fit: tuple[float, ...]
    selection: float


@dataclass(frozen=True)
class Provenance:
    """How the numbers were computed.

    ``machines`` are software and machine as text with the number of records that were computed there, ``experiment`` is
    the whole experiment as JSON. Of each dataset there is its ``name`` and known facts, of each column as text its
    ``title``, ``learner``, ``version``, ``params`` and ``grid``.
    """

    facts: Sequence[tuple[str, str]]
    datasets: Sequence[Mapping[str, Any]]
    learners: Sequence[Mapping[str, str]]
    machines: Sequence[tuple[str, int]]
    experiment: str


@dataclass(frozen=True)
class PageContent:
    """Everything on the page.

    Attributes
    ----------
    description : str
    tables : dict of {'paired', 'corrected'} to ResultTable
        The same cells under both tests.
    test : {'paired', 'corrected'}
        The one that is shown first.
    comparison : Comparison or None
        Under the paired test, which is the papers'.
    folds : dict of (dataset, column key) to sequence of Fold
        In the order of trial and fold.
    grids : dict of (dataset, column key) to GridMap
        Cells whose records have an inner search.
    seconds : dict of (dataset, column key) to Seconds
    learners : dict of column key to str
        Registry names, which determine colours.
    provenance : Provenance
    runs : {'folds', 'trials'}
    sources : dict of str to str
        The dataset of each row; by default every row is a dataset of its own.
    """

    description: str
    tables: Mapping[str, ResultTable]
    test: str
    comparison: Comparison | None
    folds: Mapping[Key, Sequence[Fold]]
    grids: Mapping[Key, GridMap]
    seconds: Mapping[Key, Seconds]
    learners: Mapping[str, str]
    provenance: Provenance
    runs: str = "folds"
    sources: Mapping[str, str] = field(default_factory=dict)

    @property
    def table(self) -> ResultTable:
        return self.tables[self.test]


def grid_map(
    grid: Mapping[str, Sequence[float]], aucs: Sequence[Sequence[float]], selected: Sequence[Mapping[str, float]]
) -> GridMap | None:
    """Average the inner cross-validations of a cell's outer folds.

    Parameters
    ----------
    grid : mapping of str to sequence of float
        Values of each axis, in the order in which the settings were laid out (the last axis varies fastest).
    aucs : sequence of sequences of float
        For each outer fold the mean inner AUC of each setting; NaN where it overflowed.
    selected : sequence of mappings
        Selected settings, of the folds that have one.

    Returns
    -------
    GridMap or None
        None where there is nothing to map: no axis, or no fold whose values fit the grid.
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
    order = (*others, *reversed(kept)) if len(kept) > 1 else (0,)
    mean, diverged, times_selected = (a.transpose(order) for a in (mean, diverged, times_selected))
    over = tuple(range(len(others)))
    mean = np.where(np.isnan(mean), -np.inf, mean).max(axis=over)
    named = [(name, tuple(axes[name])) for name in (list(axes)[i] for i in kept)]
    return GridMap(
        x=named[0],
        y=named[1] if len(named) > 1 else None,
        auc=np.atleast_2d(np.where(np.isinf(mean), np.nan, mean)),
        diverged=np.atleast_2d(diverged.min(axis=over)),
        selected=np.atleast_2d(times_selected.sum(axis=over)),
        n_folds=len(folds),
        others=tuple(list(axes)[i] for i in others),
    )
