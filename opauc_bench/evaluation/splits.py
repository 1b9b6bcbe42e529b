"""Cross-validation splits and visiting orders, drawn from seeds that no learner enters."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

__all__ = ["Fold", "outer_fold", "outer_folds", "seed_for", "stratified_folds"]


def seed_for(*parts) -> int:
    """A 64-bit seed from names and numbers: the same on every platform and in every process."""
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


@dataclass(frozen=True)
class Fold:
    """One outer fold.

    Attributes
    ----------
    trial, fold : int
    train : ndarray of int
        Training rows in the order in which every learner visits them.
    test : ndarray of int
        Test rows, ascending.
    seed : int
        For everything random inside the fold.
    """

    trial: int
    fold: int
    train: np.ndarray
    test: np.ndarray
    seed: int


def stratified_folds(y, n_folds: int, rng: np.random.Generator, stratified: bool = True) -> np.ndarray:
    """Assign each row to a fold.

    Stratified: the rows of each class are shuffled and dealt out in turn, the second class going on where the first
    stopped, so that both class counts and fold sizes differ by at most one.

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
        dealt = np.concatenate([rng.permutation(positive), rng.permutation(negative)])
    else:
        dealt = rng.permutation(len(y))
    folds[dealt] = np.arange(len(y)) % n_folds
    return folds


def outer_folds(y, *, trials: int, folds: int, stratified: bool, seed: int, dataset: str) -> Iterator[Fold]:
    """All outer folds of ``trials`` x ``folds`` cross-validation, in order.

    Parameters
    ----------
    y : ndarray of shape (n_samples,)
        Labels -1 or +1.
    trials, folds : int
    stratified : bool
    seed : int
        Of the experiment.
    dataset : str
        Its name: with the seed and the trial it decides the split.

    Yields
    ------
    Fold
    """
    for trial in range(trials):
        for fold in range(folds):
            yield outer_fold(y, trial=trial, fold=fold, folds=folds, stratified=stratified, seed=seed, dataset=dataset)


def outer_fold(y, *, trial: int, fold: int, folds: int, stratified: bool, seed: int, dataset: str) -> Fold:
    """One outer fold; parameters as in :func:`outer_folds`."""
    assigned = stratified_folds(y, folds, np.random.default_rng(seed_for("split", seed, dataset, trial)), stratified)
    fold_seed = seed_for("fold", seed, dataset, trial, fold)
    train = np.random.default_rng(fold_seed).permutation(np.flatnonzero(assigned != fold))
    return Fold(trial, fold, train, np.flatnonzero(assigned == fold), fold_seed)
