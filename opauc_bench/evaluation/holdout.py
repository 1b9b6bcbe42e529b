"""Splits into training, validation and test rows, drawn from seeds that no learner enters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .chronological import cut_in_time
from .splits import Split, seed_for

__all__ = ["holdout_split", "kept_rows"]

# The FTRL-AUC program draws the permutations of ten trials when it loads a dataset; then it makes it imbalanced and
# draws others.
_DRAWN_BY_LOADER = 10


def holdout_split(
    y: Any,
    *,
    trial: int,
    shares: Sequence[int],
    split: str,
    imbalance: float | None,
    seed: int,
    dataset: str,
    time: Any = None,
) -> Split:
    """Divide the rows of a dataset into training, validation and test set.

    Parameters
    ----------
    y : ndarray of shape (n_samples,)
        Labels -1 or +1.
    trial : int
        From 0.
    shares : three int
        Relative sizes of the three sets.
    split : {'stratified', 'released'}
        'stratified': each class is permuted and divided, and the training rows are permuted again, by seed, dataset and
        trial. 'released': as in the program of the FTRL-AUC paper, trial ``i`` has the i-th permutation of all rows
        from one stream of NumPy's legacy generator, cut into three slices.
    imbalance : float or None
        See `kept_rows`.
    seed : int
    dataset : str
    time : ndarray of shape (n_samples,), optional
        If given, the rows are cut along time instead, and training rows are visited in that order; see `cut_in_time`.

    Returns
    -------
    Split

    Raises
    ------
    ValueError
        If a training, validation or test set has rows of one class only, or none.
    """
    y = np.asarray(y)
    kept = kept_rows(y, imbalance)
    own_seed = seed_for("holdout", seed, dataset, trial)
    if time is not None:
        parts = [kept[part] for part in cut_in_time(np.asarray(time)[kept], shares)]
    elif split == "released":
        parts = _cut(kept[_released_permutation(len(y), len(kept), trial, seed, imbalance is not None)], shares)
    else:
        parts = _stratified(y, kept, shares, np.random.default_rng(own_seed))
    for name, part in zip(("training", "validation", "test"), parts):
        if len(np.unique(y[part])) < 2:
            found = "rows of one class only" if len(part) else "no rows"
            raise ValueError(f"the {name} set of trial {trial + 1} has {found}")
    return Split(parts[0], parts[2], own_seed, parts[1])


def kept_rows(y: Any, imbalance: float | None) -> np.ndarray:
    """Rows that are left when a dataset is made imbalanced: every negative, and the first ``int(imbalance n_neg)``
    positives; all of them for None. In the order of the file.
    """
    y = np.asarray(y)
    if imbalance is None:
        return np.arange(len(y))
    keep = y < 0
    keep[np.flatnonzero(y > 0)[: int(imbalance * np.count_nonzero(keep))]] = True
    return np.flatnonzero(keep)


def _released_permutation(n_samples: int, n_kept: int, trial: int, seed: int, imbalanced: bool) -> np.ndarray:
    stream = np.random.RandomState(seed)
    for _ in range(_DRAWN_BY_LOADER if imbalanced else 0):
        stream.permutation(n_samples)
    for _ in range(trial):
        stream.permutation(n_kept)
    return stream.permutation(n_kept)


def _cut(rows: np.ndarray, shares: Sequence[int]) -> list[np.ndarray]:
    total = sum(shares)
    return np.split(rows, [len(rows) * shares[0] // total, len(rows) * (shares[0] + shares[1]) // total])


def _stratified(y, kept: np.ndarray, shares: Sequence[int], rng: np.random.Generator) -> list[np.ndarray]:
    of_classes = [_cut(rng.permutation(kept[y[kept] == label]), shares) for label in (1, -1)]
    train, validation, test = (np.concatenate(parts) for parts in zip(*of_classes))
    return [rng.permutation(train), np.sort(validation), np.sort(test)]
