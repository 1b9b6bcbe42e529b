"""Folds that keep groups of rows whole, such as all rows of one patient."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["grouped_folds"]


def grouped_folds(y: Any, group: Any, n_folds: int, rng: np.random.Generator, stratified: bool = True) -> np.ndarray:
    """Assign each group to a fold, so that folds have similar shares of each class.

    Groups are assigned one by one, those with the largest shares of the classes first; those whose sums of shares lie
    between the same powers of two come in random order, since folds would hardly depend on ``rng`` otherwise. Each goes
    to the fold where the sum over folds and classes of squared shares of the class grows least; of equal folds, to that
    with fewest rows, then to the first.

    Parameters
    ----------
    y : ndarray of shape (n_samples,)
        Labels -1 or +1.
    group : ndarray of shape (n_samples,)
        Rows with equal values belong together.
    n_folds : int
    rng : numpy.random.Generator
    stratified : bool
        If False, the classes are not distinguished, and only the sizes of the folds are balanced.

    Returns
    -------
    ndarray of int, shape (n_samples,)

    Raises
    ------
    ValueError
        If a fold has rows of one class only.
    """
    y = np.asarray(y)
    names, numbers = np.unique(group, return_inverse=True)
    positive = np.bincount(numbers[y > 0], minlength=len(names))
    negative = np.bincount(numbers, minlength=len(names)) - positive
    counts = np.stack([positive, negative] if stratified else [positive + negative, np.zeros_like(positive)], axis=1)
    # Integers, so that equal folds are equal: shares times the product of the class sizes.
    factors = [max(1, int(total)) for total in counts.sum(axis=0)[::-1]]
    shuffled = rng.permutation(len(names))
    powers = np.array([int(size).bit_length() for size in counts @ factors])
    order = shuffled[np.argsort(-powers[shuffled], kind="stable")]
    assigned = np.empty(len(names), dtype=np.int64)
    in_folds = [(0, 0)] * n_folds
    # Python numbers: calls of NumPy take longer than the few operations for a group.
    for name, (first, second) in zip(order.tolist(), counts[order].tolist()):
        weights = first * factors[0] ** 2, second * factors[1] ** 2
        _, _, fold = min((weights[0] * a + weights[1] * b, a + b, k) for k, (a, b) in enumerate(in_folds))
        assigned[name] = fold
        in_folds[fold] = in_folds[fold][0] + first, in_folds[fold][1] + second
    folds = assigned[numbers]
    n_positive = np.bincount(folds[y > 0], minlength=n_folds)
    n_negative = np.bincount(folds[y < 0], minlength=n_folds)
    if min(n_positive.min(), n_negative.min()) == 0:
        raise ValueError(
            f"{n_folds} folds of {len(names)} groups, {np.count_nonzero(positive)} of them with positive rows and "
            f"{np.count_nonzero(negative)} with negative ones: a fold has rows of one class only"
        )
    return folds
