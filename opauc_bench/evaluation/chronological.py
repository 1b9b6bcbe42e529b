"""Splits along time: rows of a later set are later than all rows of an earlier one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["cut_in_time", "expanding_windows"]


def cut_in_time(time: Any, shares: Sequence[int]) -> list[np.ndarray]:
    """Cut rows along time into consecutive parts.

    Rows of equal time stay together: a cut among them moves to their nearer end, to the earlier one if both are equally
    near.

    Parameters
    ----------
    time : ndarray of shape (n_samples,)
    shares : sequence of int
        Relative sizes of the parts.

    Returns
    -------
    list of ndarray of int
        Rows of each part, in the order of time, those of equal time in their own order. A part may be empty.
    """
    time = np.asarray(time)
    order = np.argsort(time, kind="stable")
    sorted_time = time[order]
    cuts = np.cumsum(shares)[:-1] * len(time) // sum(shares)
    first, end = (np.searchsorted(sorted_time, sorted_time[cuts], side) for side in ("left", "right"))
    return np.split(order, np.where(cuts - first <= end - cuts, first, end))


def expanding_windows(y: Any, time: Any, n_folds: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Cut rows along time into ``n_folds + 1`` blocks; fold k is tested on block k + 1 and trained on all before it.

    Parameters
    ----------
    y : ndarray of shape (n_samples,)
        Labels -1 or +1.
    time : ndarray of shape (n_samples,)
    n_folds : int

    Returns
    -------
    list of (train, test)
        Rows in the order of time.

    Raises
    ------
    ValueError
        If a set has rows of one class only, or none.
    """
    y = np.asarray(y)
    blocks = cut_in_time(time, [1] * (n_folds + 1))
    for number, block in enumerate(blocks, 1):
        # Training sets begin with the first block.
        if len(np.unique(y[block])) < 2:
            what = "rows of one class only" if len(block) else "no rows, since many rows have the same time"
            raise ValueError(f"cut into {n_folds + 1} blocks along time, block {number} has {what}")
    return [(np.concatenate(blocks[: fold + 1]), blocks[fold + 1]) for fold in range(n_folds)]
