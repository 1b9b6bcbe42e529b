"""Every setting of a grid, trained once and tested: what a hyper-parameter does, not which one to choose."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from .auc import auc_columns
from .selection import blocks_that_fit, score_columns

__all__ = ["sweep"]


def sweep(
    learner,
    X,
    y,
    grid: Mapping[str, np.ndarray],
    train: np.ndarray,
    parts: Mapping[str, np.ndarray],
    *,
    memory_bytes: float | None = None,
    on_chunk: Callable[[int], None] | None = None,
    auc: Callable[..., np.ndarray] = auc_columns,
    finished: Mapping[int, Mapping[str, float]] | None = None,
    on_block: Callable[[dict[int, dict[str, float]]], None] | None = None,
) -> dict[str, np.ndarray]:
    """Train every setting on some rows, in as few passes as the memory allows, and score it on others.

    Parameters
    ----------
    learner : LinearRanker
    X, y : arrays
        The whole dataset.
    grid : mapping of axis to ndarray of shape (n_settings,)
    train : ndarray of int
        Rows to learn from, in this order.
    parts : mapping of str to ndarray of int
        Rows to score, under the names that their AUC is to have.
    memory_bytes, on_chunk, auc
        As in :func:`~opauc_bench.evaluation.selection.fit_and_score`.
    finished : mapping of int to mapping of str to float, optional
        What an interrupted run has left of each setting.
    on_block : callable, optional
        Called after a pass with what is known of every setting so far.

    Returns
    -------
    dict of str to ndarray of shape (n_settings,)
        An AUC for each part, and ``sparse_ratio``, the share of weights that are not zero. NaN where the setting
        diverged.
    """
    n_settings = len(next(iter(grid.values())))
    found = {setting: dict(values) for setting, values in (finished or {}).items()}
    left = np.array([setting for setting in range(n_settings) if setting not in found], dtype=int)
    for block in blocks_that_fit(learner, X, len(train), left, memory_bytes):
        part = {axis: values[block] for axis, values in grid.items()}
        coef = learner.fit_grid(X, y, part, order=train, on_chunk=on_chunk)
        measured = {name: score_columns(X, y[rows], rows, coef, auc, on_chunk) for name, rows in parts.items()}
        finite = np.logical_and.reduce([np.isfinite(values) for values in measured.values()])
        measured["sparse_ratio"] = np.count_nonzero(coef, axis=0) / len(coef)
        for k, setting in enumerate(block.tolist()):
            found[setting] = {name: float(values[k]) if finite[k] else np.nan for name, values in measured.items()}
        if on_block is not None:
            on_block(found)
    return {name: np.array([found[setting][name] for setting in range(n_settings)]) for name in found[0]}
