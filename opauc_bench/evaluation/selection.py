"""Inner cross-validation over a grid, one pass per fold for all settings, and the ranking of settings."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from scipy import sparse

from ..errors import LearnerError
from .auc import AUC_DECIMALS, auc_columns
from .splits import inner_splits

if TYPE_CHECKING:
    from .span import TiesByRounding

__all__ = [
    "Models",
    "blocks_that_fit",
    "cross_validate",
    "evaluate_models",
    "finite_models",
    "fit_and_evaluate",
    "ranking",
    "scores_and_probabilities",
    "sparse_ratios",
]

_BLOCK_BYTES = 64e6
_ROWS_AT_ONCE = 8  # a multiple of what the kernels of OpenBLAS take at once
_SPARSE_ROWS = 1024  # enough that calls of an estimator take little time beside its work
_AUCS_AT_ONCE = 16  # columns of a million rows take about a second


class Models(Protocol):
    """The models of a grid, where they are not the columns of a matrix of weights."""

    dense: bool  # whether sparse rows are made dense before they are scored

    def finite(self) -> np.ndarray:
        """Which settings have not diverged, shape (n_settings,)."""

    def scores(self, X: Any) -> np.ndarray:
        """Scores of shape (n_rows, number of finite settings)."""

    def probabilities(self, X: Any) -> np.ndarray | None:
        """Probabilities of the positive class, shaped like the scores; None where there are none."""

    def sparse_ratio(self) -> np.ndarray:
        """Share of weights that are not 0, shape (n_settings,); NaN where a setting has no weights for features."""


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
    group: Any = None,
    time: Any = None,
    finished: dict[int, np.ndarray] | None = None,
    on_fold: Callable[[int, np.ndarray], None] | None = None,
    **options: Any,
) -> np.ndarray:
    """Score every setting of a grid by cross-validation inside a training set.

    Parameters
    ----------
    learner : Learner
    X, y : arrays
        The whole dataset.
    grid : dict of axis to ndarray of shape (n_settings,)
    rows : ndarray of int
        The training set in visiting order; inner training sets keep that order.
    inner_folds : int
    stratified : bool
    seed : int
        Of the outer fold.
    group, time : ndarray of shape (n_samples,), optional
        Of the whole dataset; see `inner_splits`.
    finished : dict of int to ndarray, optional
        AUCs of inner folds that an interrupted run has kept.
    on_fold : callable, optional
        Called with the number of an inner fold and its AUCs when it is finished.
    **options
        ``memory_bytes``, ``on_chunk``, ``metric`` and ``ties`` of `fit_and_evaluate`.

    Returns
    -------
    ndarray of shape (inner_folds, n_settings)
        AUC, or another metric, on each held-out part; NaN where the setting diverged.
    """
    metadata = {name: np.asarray(of[rows]) for name, of in (("group", group), ("time", time)) if of is not None}
    splits = inner_splits(np.asarray(y[rows]), inner_folds=inner_folds, stratified=stratified, seed=seed, **metadata)
    aucs = dict(finished or {})
    for fold, (train, held_out) in enumerate(splits):
        if fold in aucs:
            continue
        aucs[fold] = fit_and_evaluate(learner, X, y, grid, rows[train], rows[held_out], **options)
        if on_fold is not None:
            on_fold(fold, aucs[fold])
    return np.stack([aucs[fold] for fold in range(inner_folds)])


def fit_and_evaluate(
    learner: Any,
    X: Any,
    y: Any,
    grid: dict[str, np.ndarray],
    train: np.ndarray,
    held_out: np.ndarray,
    *,
    memory_bytes: float | None = None,
    on_chunk: Callable[[int], None] | None = None,
    metric: Callable[..., np.ndarray] = auc_columns,
    ties: TiesByRounding | None = None,
    finished: dict[int, float] | None = None,
    on_block: Callable[[dict[int, float]], None] | None = None,
) -> np.ndarray:
    """Train every setting on some rows and score it on others, in as few passes as the memory allows.

    Parameters
    ----------
    learner : Learner
    X, y : arrays
        The whole dataset.
    grid : dict of axis to ndarray of shape (n_settings,)
    train, held_out : ndarray of int
        Rows to learn from, in this order, and rows to score.
    memory_bytes : float, optional
        Limit of a pass: where the learner's estimate for the whole grid is higher, settings are trained in blocks.
    on_chunk : callable, optional
        Passed on to ``fit_grid``, and called while rows are scored.
    metric : callable
        From labels and columns of scores to a value per column, such as an AUC: the larger, the better.
    ties : TiesByRounding, optional
        Where ``X`` stands for other rows, on which equal scores are equal to the last bit.
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
        models = learner.fit_grid(X, y, part, order=train, on_chunk=on_chunk)
        aucs |= zip(block, evaluate_models(X, y[held_out], held_out, models, metric, on_chunk, ties).tolist())
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
    n_settings = len(next(iter(grid.values()), (0,)))  # without axes, one
    left = np.array([setting for setting in range(n_settings) if setting not in finished], dtype=int)
    if len(left) == 0:
        return
    n_nonzero = X.nnz / X.shape[0] if sparse.issparse(X) else float(X.shape[1])
    size = (n_train, X.shape[1], n_nonzero, len(left))
    for block in np.array_split(left, 1 if memory_bytes is None else learner.n_passes(*size, memory_bytes)):
        yield block.tolist(), {axis: values[block] for axis, values in grid.items()}


def evaluate_models(
    X: Any,
    y: Any,
    rows: np.ndarray,
    models: np.ndarray | Models,
    metric: Callable[..., np.ndarray] = auc_columns,
    on_chunk: Callable[[int], None] | None = None,
    ties: TiesByRounding | None = None,
) -> np.ndarray:
    """AUC of each model on some rows of ``X``, NaN for models that are not finite.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n_samples, n_features)
    y : ndarray of shape (len(rows),)
        Labels of those rows.
    rows : ndarray of int
    models : ndarray of shape (n_features, n_settings) or Models
        What ``fit_grid`` returns: weights, one model per column, or models of another kind.
    metric : callable
        As in `fit_and_evaluate`.
    on_chunk : callable, optional
        Called with the number of rows scored so far, again and again; what it raises ends the scoring.
    ties : TiesByRounding, optional
        As in `fit_and_evaluate`.

    Returns
    -------
    ndarray of shape (n_settings,)
    """
    on_chunk = on_chunk or (lambda n_rows: None)
    is_finite = finite_models(models)
    aucs, finite = np.full(len(is_finite), np.nan), np.flatnonzero(is_finite)
    if len(finite) == 0:
        return aucs
    if getattr(metric, "of_probabilities", False):
        scores = None
        if not isinstance(models, np.ndarray):
            scores = _in_blocks(X, rows, models.probabilities, len(finite), on_chunk, models.dense)
        if scores is None:
            raise LearnerError(
                "this learner has no probabilities, by whose loss settings are to be selected", "select: auc"
            )
    else:
        scores = _scores(X, rows, models, finite, on_chunk)
    for start in range(0, len(finite), _AUCS_AT_ONCE):
        columns = slice(start, start + _AUCS_AT_ONCE)
        found = scores[:, columns]
        aucs[finite[columns]] = metric(y, found if ties is None else ties.restored(found, rows))
        on_chunk(len(rows))
    return aucs


def scores_and_probabilities(
    X: Any, rows: np.ndarray, models: np.ndarray | Models, on_chunk: Callable[[int], None], probabilities: bool = False
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Scores and, on demand, probabilities of one model on some rows, each of shape (len(rows),).

    None instead of the scores where the model is not finite, of the probabilities where it has none.
    """
    if not finite_models(models)[0]:
        return None, None
    scores = _scores(X, rows, models, np.array([0]), on_chunk)[:, 0]
    if not probabilities or isinstance(models, np.ndarray):
        return scores, None
    found = _in_blocks(X, rows, models.probabilities, 1, on_chunk, models.dense)
    return scores, None if found is None else found[:, 0]


def finite_models(models: np.ndarray | Models) -> np.ndarray:
    """Which models have not overflowed, shape (n_settings,)."""
    return np.isfinite(models).all(axis=0) if isinstance(models, np.ndarray) else models.finite()


def sparse_ratios(models: np.ndarray | Models) -> np.ndarray:
    """Share of weights that are not 0, shape (n_settings,); NaN for a model without weights for features."""
    return np.count_nonzero(models, axis=0) / len(models) if isinstance(models, np.ndarray) else models.sparse_ratio()


def _scores(
    X: Any, rows: np.ndarray, models: np.ndarray | Models, finite: np.ndarray, on_chunk: Callable[[int], None]
) -> Any:
    """Scores of some rows, shape (len(rows), len(finite)); ``finite`` are the positions of finite models."""
    if not isinstance(models, np.ndarray):
        return _in_blocks(X, rows, models.scores, len(finite), on_chunk, models.dense)
    weights = np.ascontiguousarray(models[:, finite])

    def product(block: Any) -> np.ndarray:
        if not isinstance(block, np.ndarray):
            values = block @ weights
            return values.toarray() if sparse.issparse(values) else values
        # The BLAS adds up the last rows in another order, which breaks ties of rows that differ where weights are 0.
        filled = block
        if n_more := -len(block) % _ROWS_AT_ONCE:
            filled = np.concatenate([block, np.zeros((n_more, block.shape[1]), dtype=block.dtype)])
        return (filled @ weights)[_first_equal_rows(block)]

    return _in_blocks(X, rows, product, len(finite), on_chunk)


def _first_equal_rows(block: np.ndarray) -> np.ndarray:
    """Position of the first row that each row is equal to: equal rows are to have equal scores, to the last bit."""
    words = np.add(block, 0.0, dtype=np.float64).view(np.uint64)  # -0.0 becomes 0.0
    words ^= words >> np.uint64(32)  # whole numbers differ in the upper bits only
    factors = np.random.default_rng(0).integers(2**63, size=block.shape[1], dtype=np.uint64)
    _, first, inverse = np.unique(words @ (2 * factors + 1), return_index=True, return_inverse=True)
    found = first[inverse]
    copies = np.flatnonzero(found < np.arange(len(found)))
    unlike = copies[(block[copies] != block[found[copies]]).any(axis=1)]
    found[unlike] = unlike
    return found


def _in_blocks(
    X: Any,
    rows: np.ndarray,
    values: Callable[[Any], np.ndarray | None],
    n_columns: int,
    on_chunk: Callable[[int], None],
    makes_dense: bool = False,
) -> np.ndarray | None:
    """Columns of values for some rows, read in blocks; None as soon as a block has None.

    ``makes_dense`` says whether ``values`` needs memory for the zeros of sparse rows.
    """
    found = None if len(rows) else np.empty((0, n_columns))
    step = _rows_of_a_block(X.shape[1])
    if sparse.issparse(X) and not makes_dense:
        step = max(step, min(_SPARSE_ROWS, _rows_of_a_block(X.nnz / max(1, X.shape[0]))))
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, len(rows), step):
            block = values(X[rows[start : start + step]])
            if block is None:
                return None
            if found is None:
                dtype = np.float32 if block.dtype == np.float32 else np.float64
                found = np.empty((len(rows), n_columns), dtype=dtype, order="F")
            found[start : start + step] = block
            on_chunk(min(start + step, len(rows)))
    return found


def _rows_of_a_block(n_numbers: float) -> int:
    """How many rows of so many numbers fit into a block."""
    return max(1, int(_BLOCK_BYTES / (8 * max(1.0, n_numbers) * _ROWS_AT_ONCE))) * _ROWS_AT_ONCE


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
    return alive[np.argsort(-np.round(mean_auc[alive], AUC_DECIMALS), kind="stable")]
