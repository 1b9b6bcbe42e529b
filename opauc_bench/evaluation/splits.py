"""Cross-validation splits and visiting orders, drawn from seeds that no learner enters."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from .chronological import expanding_windows
from .grouped import grouped_folds

__all__ = [
    "Split",
    "inner_splits",
    "n_positives_kept",
    "outer_fold",
    "random_folds",
    "seed_for",
    "thinned",
]


def seed_for(*parts) -> int:
    """A 64-bit seed from names and numbers: the same on every platform and in every process."""
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


@dataclass(frozen=True)
class Split:
    """The rows of one repetition.

    Attributes
    ----------
    train : ndarray of int
        Training rows in the order in which every learner visits them.
    test : ndarray of int
    seed : int
        Of everything random inside the repetition.
    validation : ndarray of int or None
        Rows that a setting is selected on; None where inner folds are used.
    """

    train: np.ndarray
    test: np.ndarray
    seed: int
    validation: np.ndarray | None = None

    @property
    def counts(self) -> dict[str, int]:
        """Sizes of the sets, as records have them."""
        of_validation = {} if self.validation is None else {"n_validation": len(self.validation)}
        return {"n_train": len(self.train), **of_validation, "n_test": len(self.test)}


def random_folds(y: Any, n_folds: int, rng: np.random.Generator, stratified: bool = True) -> np.ndarray:
    """Assign each row to a fold.

    Stratified: the rows of each class are shuffled and assigned in turn, the second class continuing where the first
    ends, so that class counts and fold sizes differ by at most one.

    Parameters
    ----------
    y : ndarray of shape (n_samples,)
        Labels -1 or +1.
    n_folds : int
    rng : numpy.random.Generator
    stratified : bool

    Returns
    -------
    ndarray of int, shape (n_samples,)

    Raises
    ------
    ValueError
        If a class has fewer rows than there are folds.
    """
    y = np.asarray(y)
    positive, negative = np.flatnonzero(y > 0), np.flatnonzero(y < 0)
    if min(len(positive), len(negative)) < n_folds:
        raise ValueError(
            f"{n_folds} folds need at least {n_folds} rows of each class; "
            f"there are {len(positive)} positive and {len(negative)} negative ones"
        )
    folds = np.empty(len(y), dtype=np.int64)
    if stratified:
        shuffled = np.concatenate([rng.permutation(positive), rng.permutation(negative)])
    else:
        shuffled = rng.permutation(len(y))
    folds[shuffled] = np.arange(len(y)) % n_folds
    return folds


def _folds(y: Any, n_folds: int, rng: np.random.Generator, stratified: bool, group: Any) -> np.ndarray:
    """Assign each row to a fold, with the rows of a group in the same one."""
    if group is None:
        return random_folds(y, n_folds, rng, stratified)
    return grouped_folds(y, group, n_folds, rng, stratified)


def inner_splits(
    y: Any, *, inner_folds: int, stratified: bool, seed: int, group: Any = None, time: Any = None
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Divide a training set for a cross-validation inside it.

    Parameters
    ----------
    y : ndarray of shape (n_rows,)
        Labels -1 or +1 of the training rows, in visiting order.
    inner_folds : int
    stratified : bool
    seed : int
        Of the outer fold.
    group : ndarray of shape (n_rows,), optional
        Rows with equal values stay in the same fold.
    time : ndarray of shape (n_rows,), optional
        If given, every fold is trained on rows that are earlier than those it is tested on; see `expanding_windows`.

    Returns
    -------
    list of (train, held_out)
        Positions in ``y``; those to train on are in visiting order.
    """
    if time is not None:
        return expanding_windows(y, time, inner_folds)
    assigned = _folds(y, inner_folds, np.random.default_rng([seed, 1]), stratified, group)
    return [(np.flatnonzero(assigned != fold), np.flatnonzero(assigned == fold)) for fold in range(inner_folds)]


def outer_fold(
    y: Any,
    *,
    trial: int,
    fold: int,
    folds: int,
    stratified: bool,
    seed: int,
    dataset: str,
    group: Any = None,
    time: Any = None,
) -> Split:
    """One outer fold of repeated cross-validation; `seed`, of the experiment, trial and dataset determine the split.

    ``y``, of shape (n_samples,), has labels -1 or +1; ``group`` and ``time`` are those of `inner_splits`.
    """
    fold_seed = seed_for("fold", seed, dataset, trial, fold)
    if time is not None:
        return Split(*expanding_windows(y, time, folds)[fold], fold_seed)
    assigned = _folds(y, folds, np.random.default_rng(seed_for("split", seed, dataset, trial)), stratified, group)
    train = np.random.default_rng(fold_seed).permutation(np.flatnonzero(assigned != fold))
    return Split(train, np.flatnonzero(assigned == fold), fold_seed)


def n_positives_kept(share: float, n_negative: int) -> int:
    """Positives of a training set that are kept beside all negatives, so that they are at most this share of it."""
    return int(share / (1.0 - share) * n_negative + 1e-9)


def thinned(y: Any, rows: np.ndarray, share: float, seed: int) -> np.ndarray:
    """Leave out positives of a training set, drawn at random, beyond a share of it.

    Those that stay are spread over the visit: learners of one pass, and the first rows of a training set, would have
    nothing but negatives in the end otherwise.

    Parameters
    ----------
    y : ndarray of shape (n_samples,)
        Labels -1 or +1.
    rows : ndarray of int
        The training set in visiting order.
    share : float
        Of positives among the rows that are left, between 0 and 1.
    seed : int
        Of the outer fold. The positives of a smaller share are some of those of a larger one.

    Returns
    -------
    ndarray of int
        In the same order; all rows if the share of positives is smaller already.
    """
    stays = np.asarray(y[rows]) < 0
    kept = n_positives_kept(share, int(np.count_nonzero(stays)))
    positives = np.random.default_rng([seed, 2]).permutation(np.flatnonzero(~stays))
    stays[positives[:kept]] = True
    return rows[stays]
