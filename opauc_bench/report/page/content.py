"""What the page shows, as plain values; where they come from is the runner's business."""

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
    """One outer fold (or trial) of a cell.

    Attributes
    ----------
    trial, fold : int
        From 0.
    status : str
    auc : float or None
        On the test set.
    selected : dict of str to float
        The setting that the inner cross-validation selected; empty where nothing is tuned.
    """

    trial: int
    fold: int
    status: str
    auc: float | None
    selected: Mapping[str, float]


@dataclass(frozen=True)
class GridMap:
    """Inner cross-validation over the grid of one cell, averaged over its outer folds, on at most two axes.

    Where a learner tunes more axes, the best value over the others is kept.

    Attributes
    ----------
    x, y : (str, tuple of float) or None
        Name and values of the two axes; `y` is None if there is one only.
    auc : ndarray of shape (n_y, n_x)
        Mean over the outer folds in which the setting stayed finite; NaN where there was none.
    diverged : ndarray of int of shape (n_y, n_x)
        In how many outer folds the setting overflowed.
    selected : ndarray of int of shape (n_y, n_x)
        In how many it was selected.
    n_folds : int
    others : tuple of str
        Axes over which the best was kept.
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
    """CPU seconds of one cell.

    Attributes
    ----------
    fit : tuple of float
        Of the refit with the selected setting, one for each finished fold.
    selection : float
        Of the whole inner search, summed over the folds.
    """

    fit: tuple[float, ...]
    selection: float


@dataclass(frozen=True)
class Provenance:
    """How the numbers came about.

    Attributes
    ----------
    facts : sequence of (str, str)
        Short ones: protocol, seed, software.
    datasets : sequence of dict
        For each dataset its ``name``, sizes and hashes, or only ``name`` and ``unavailable``.
    learners : sequence of dict
        For each column its ``title``, ``learner``, ``params`` and ``grid``, all as text.
    machines : sequence of (str, int)
        Software and machine as text, and how many records were computed there.
    experiment : str
        The whole experiment as JSON.
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
        Registry names, which colours go by.
    provenance : Provenance
    runs : str
        What the numbers behind a cell are called: folds or trials.
    sources : dict of str to str
        The dataset that each row is of; by default every row is a dataset of its own.
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
    shape = tuple(len(values) for values in grid.values())
    n_settings = int(np.prod(shape))
    rows = [row for row in aucs if len(row) == n_settings]
    if not grid or not rows:
        return None
    values = np.array(rows, dtype=float)
    alive = np.isfinite(values)
    counts = alive.sum(axis=0)
    mean = np.where(counts > 0, np.where(alive, values, 0.0).sum(axis=0) / np.maximum(counts, 1), np.nan)
    picked = np.zeros(shape, dtype=int)
    for setting in selected:
        where = tuple(_position(values, setting.get(axis)) for axis, values in grid.items())
        if None not in where:
            picked[where] += 1
    mean, diverged = mean.reshape(shape), (len(rows) - counts).reshape(shape)
    axes = list(grid)
    kept = sorted(range(len(axes)), key=lambda i: -shape[i])[:2]
    dropped = tuple(i for i in range(len(axes)) if i not in kept)
    if dropped:
        mean = np.where(np.isnan(mean), -np.inf, mean).max(axis=dropped)
        mean = np.where(np.isinf(mean), np.nan, mean)
        diverged, picked = diverged.min(axis=dropped), picked.sum(axis=dropped)
    if len(kept) == 1:
        mean, diverged, picked = mean[None, :], diverged[None, :], picked[None, :]
    elif kept[0] < kept[1]:  # the longer axis is x
        mean, diverged, picked = mean.T, diverged.T, picked.T
    named = [(axes[i], tuple(float(value) for value in grid[axes[i]])) for i in kept]
    return GridMap(
        x=named[0],
        y=named[1] if len(named) > 1 else None,
        auc=mean,
        diverged=diverged,
        selected=picked,
        n_folds=len(rows),
        others=tuple(axes[i] for i in dropped),
    )


def _position(values: Sequence[float], value: float | None) -> int | None:
    return next((i for i, known in enumerate(values) if float(known) == value), None)
