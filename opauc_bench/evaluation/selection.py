"""Inner cross-validation over a grid, one pass per fold for all settings, and the ranking of settings."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from typing import Any

import numpy as np
from scipy import sparse

from .auc import auc_columns
from .splits import stratified_folds

__all__ = ["blocks_that_fit", "cross_validate", "fit_and_score", "ranking", "score_columns"]

_BLOCK_BYTES = 64e6
_AUCS_AT_ONCE = 16  # columns of a million rows take about a second


def cross_validate(
    learner: Any,
    X: Any,
    y: Any,
    grid: dict[str, np.ndarray],
    rows: np.ndarray,
    *,
    inner_folds: int,
    stratified: bool,
    seed: int,
    memory_bytes: float | None = None,
    on_chunk: Callable[[int], None] | None = None,
    finished: dict[int, np.ndarray] | None = None,
    on_fold: Callable[[int, np.ndarray], None] | None = None,
) -> np.ndarray:
    """Score every setting of a grid by cross-validation inside a training set.

    Parameters
    ----------
    learner : LinearRanker
    X, y : arrays
        The whole dataset.
    grid : dict of axis to ndarray of shape (n_settings,)
    rows : ndarray of int
        The training set in visiting order; inner training sets keep that order.
    inner_folds : int
    stratified : bool
    seed : int
        Of the outer fold.
    memory_bytes, on_chunk
        As in :func:`fit_and_score`.
    finished : dict of int to ndarray, optional
        AUCs of inner folds that an interrupted run has kept.
    on_fold : callable, optional
        Called with the number of an inner fold and its AUCs when it is finished.

    Returns
    -------
    ndarray of shape (inner_folds, n_settings)
        AUC on each held-out part; NaN where the setting diverged.
    """
    labels = np.asarray(y[rows])
    assigned = stratified_folds(labels, inner_folds, np.random.default_rng([seed, 1]), stratified)
    aucs = dict(finished or {})
    for fold in range(inner_folds):
        if fold in aucs:
            continue
        held_out = assigned == fold
        aucs[fold] = fit_and_score(
            learner, X, y, grid, rows[~held_out], rows[held_out], memory_bytes=memory_bytes, on_chunk=on_chunk
        )
        if on_fold is not None:
            on_fold(fold, aucs[fold])
    return np.stack([aucs[fold] for fold in range(inner_folds)])


def fit_and_score(
    learner: Any,
    X: Any,
    y: Any,
    grid: dict[str, np.ndarray],
    train: np.ndarray,
    held_out: np.ndarray,
    *,
    memory_bytes: float | None = None,
    on_chunk: Callable[[int], None] | None = None,
    auc: Callable[..., np.ndarray] = auc_columns,
    finished: dict[int, float] | None = None,
    on_block: Callable[[dict[int, float]], None] | None = None,
) -> np.ndarray:
    """Train every setting on some rows and score it on others, in as few passes as the memory allows.

    Parameters
    ----------
    learner : LinearRanker
    X, y : arrays
        The whole dataset.
    grid : dict of axis to ndarray of shape (n_settings,)
    train, held_out : ndarray of int
        Rows to learn from, in this order, and rows to score.
    memory_bytes : float, optional
        Limit of a pass: where the learner's estimate for the whole grid is higher, settings are trained in blocks.
    on_chunk : callable, optional
        Passed on to ``fit_grid``, and called while rows are scored.
    auc : callable
        From labels and columns of scores to an AUC per column.
    finished : dict of int to float, optional
        AUC of settings that an interrupted run has kept.
    on_block : callable, optional
        Called after a block with the AUC of every setting so far.

    Returns
    -------
    ndarray of shape (n_settings,)
        AUC on the held-out rows, NaN where the setting diverged.
    """
    aucs = dict(finished or {})
    for block, part in blocks_that_fit(learner, X, len(train), grid, aucs, memory_bytes):
        coef = learner.fit_grid(X, y, part, order=train, on_chunk=on_chunk)
        aucs |= zip(block, score_columns(X, y[held_out], held_out, coef, auc, on_chunk).tolist())
        if on_block is not None:
            on_block(aucs)
    return np.array([aucs[setting] for setting in range(len(aucs))])


def blocks_that_fit(
    learner: Any,
    X: Any,
    n_train: int,
    grid: dict[str, np.ndarray],
    finished: Container[int],
    memory_bytes: float | None,
) -> Iterator[tuple[list[int], dict[str, np.ndarray]]]:
    """Cut a grid into the fewest blocks of about equal size that each fit into memory by the learner's estimate.

    ``n_train`` is the number of rows of a pass. Yields positions of settings that are not ``finished``, with their part
    of the grid. One block if not even one setting fits.
    """
    n_settings = len(next(iter(grid.values())))
    left = np.array([setting for setting in range(n_settings) if setting not in finished], dtype=int)
    if len(left) == 0:
        return
    n_nonzero = X.nnz / X.shape[0] if sparse.issparse(X) else float(X.shape[1])
    size = (n_train, X.shape[1], n_nonzero, len(left))
    for block in np.array_split(left, 1 if memory_bytes is None else learner.n_passes(*size, memory_bytes)):
        yield block.tolist(), {axis: values[block] for axis, values in grid.items()}


def score_columns(
    X: Any,
    y: Any,
    rows: np.ndarray,
    coef: np.ndarray,
    auc: Callable[..., np.ndarray] = auc_columns,
    on_chunk: Callable[[int], None] | None = None,
) -> np.ndarray:
    """AUC of each column of ``coef`` on some rows of ``X``, NaN for columns that are not finite.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n_samples, n_features)
    y : ndarray of shape (len(rows),)
        Labels of those rows.
    rows : ndarray of int
    coef : ndarray of shape (n_features, n_settings)
    auc : callable
        From labels and columns of scores to an AUC per column.
    on_chunk : callable, optional
        Called with the number of rows scored so far, again and again; what it raises ends the scoring.

    Returns
    -------
    ndarray of shape (n_settings,)
    """
    on_chunk = on_chunk or (lambda n_rows: None)
    aucs = np.full(coef.shape[1], np.nan)
    finite = np.flatnonzero(np.isfinite(coef).all(axis=0))
    if len(finite) == 0:
        return aucs
    weights = np.ascontiguousarray(coef[:, finite])
    scores = np.empty((len(rows), len(finite)), order="F")
    step = max(1, int(_BLOCK_BYTES / (8 * X.shape[1])))
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, len(rows), step):
            block = X[rows[start : start + step]]
            product = block @ weights
            scores[start : start + step] = product.toarray() if sparse.issparse(product) else product
            on_chunk(min(start + step, len(rows)))
    for start in range(0, len(finite), _AUCS_AT_ONCE):
        columns = slice(start, start + _AUCS_AT_ONCE)
        aucs[finite[columns]] = auc(y, scores[:, columns])
        on_chunk(len(rows))
    return aucs


def ranking(mean_auc: np.ndarray) -> np.ndarray:
    """Settings from best to worst; those that diverged are left out.

    AUCs are compared after rounding to 12 decimals, since small validation sets have many ties. Of equal ones
    the first in the grid wins: the smallest step size, then the smallest regularisation.

    Parameters
    ----------
    mean_auc : ndarray of shape (n_settings,)
        NaN for settings that diverged.

    Returns
    -------
    ndarray of int
    """
    alive = np.flatnonzero(np.isfinite(mean_auc))
    return alive[np.argsort(-np.round(mean_auc[alive], 12), kind="stable")]
