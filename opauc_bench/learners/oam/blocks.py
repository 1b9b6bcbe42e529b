"""OAM on dense rows of many features, in blocks of rows.

Within a block, the weights are those from before it plus a combination of the rows at hand, which are the buffered ones
and those of the block. So the steps of all rows follow from inner products: of the rows at hand with each other, and
with the weights from before the block. The weights change once a block, and all work on features is matrix products.
"""

from __future__ import annotations

import numpy as np

from ...kernels import njit
from ..blocks import Block, BlockOfProducts
from .pair_steps import all_at_once, one_after_another

__all__ = ["block_size", "consume_in_blocks"]


def block_size(buffer_size: int) -> int:
    """Rows of a block: as many as are buffered, so that inner products of both cost about the same."""
    return max(64, 2 * buffer_size)


def consume_in_blocks(
    X: Block,
    y: np.ndarray,
    slots: np.ndarray,
    caps: np.ndarray,
    sequential: bool,
    counts: np.ndarray,
    sizes: np.ndarray,
    rows: np.ndarray,
    places: np.ndarray,
    W: np.ndarray,
) -> None:
    """Take the steps of the rows ``X``.

    Parameters as in the kernel that takes one row at a time, but for ``places``: those of the buffered rows, where
    ``X`` has inner products.
    """
    length = block_size(rows.shape[1] - 1)
    for start in range(0, len(y), length):
        here = slice(start, start + length)
        at_hand = _with_buffered(X[here], sizes, rows, places)
        first = len(at_hand) - len(y[here])
        buffered = np.full((2, rows.shape[1] - 1), -1)  # places among those at hand; -1 where there is none
        buffered[0, : sizes[0]], buffered[1, : sizes[1]] = np.arange(sizes[0]), sizes[0] + np.arange(sizes[1])
        products, scores = at_hand.gram_matrix(), W @ at_hand.values.T
        coefficients = np.zeros_like(scores)
        _steps(y[here], slots[here], caps, sequential, counts, sizes, buffered, first, products, scores, coefficients)
        at_hand.add_to(W.T, coefficients.T)
        for own in (0, 1):
            for slot in np.flatnonzero(buffered[own] >= first):
                if isinstance(at_hand, BlockOfProducts):
                    places[own, slot] = at_hand.places[buffered[own, slot]]
                else:
                    rows[own, slot] = at_hand.values[buffered[own, slot]]


def _with_buffered(X: Block, sizes: np.ndarray, rows: np.ndarray, places: np.ndarray) -> Block:
    """The buffered rows, positives first, and those of the block."""
    if isinstance(X, BlockOfProducts):
        return X.after(np.concatenate([places[0, : sizes[0]], places[1, : sizes[1]]]))
    return Block(np.concatenate([rows[0, : sizes[0]], rows[1, : sizes[1]], X.values]))


@njit(fastmath={"contract"})
def _steps(y, slots, caps, sequential, counts, sizes, places, first, products, scores, coefficients):
    """Coefficients of the rows at hand after the steps of the rows from ``first`` on."""
    buffer_size, n_at_hand = places.shape[1], products.shape[0]
    gram, of_x, change = np.empty((buffer_size, buffer_size)), np.empty(buffer_size + 1), np.empty(buffer_size + 1)
    for t in range(len(y)):
        x = first + t
        own, opp, sign = (0, 1, 1.0) if y[t] > 0 else (1, 0, -1.0)
        counts[own] += 1.0
        if slots[t] >= 0:
            sizes[own] = max(sizes[own], slots[t] + 1)
            places[own, slots[t]] = x
        m = sizes[opp]
        if m == 0:
            continue
        opponents = places[opp]
        worth = max(1.0, counts[opp] / buffer_size)
        for i in range(m):
            of_x[i] = products[x, opponents[i]]
            if sequential:
                for j in range(m):
                    gram[i, j] = products[opponents[i], opponents[j]]
        of_x[m] = products[x, x]
        for g in range(len(caps)):
            for i in range(m):
                change[i] = scores[g, opponents[i]]
            change[m] = scores[g, x]
            if sequential:
                one_after_another(change, m, sign, caps[g] * worth, of_x, gram)
            else:
                all_at_once(change, m, sign, caps[g] * worth)
            for i in range(m + 1):
                if change[i] != 0.0:
                    place = opponents[i] if i < m else x
                    coefficients[g, place] += change[i]
                    for j in range(n_at_hand):
                        scores[g, j] += change[i] * products[place, j]
