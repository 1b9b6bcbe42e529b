"""OAM on sparse rows of very many features: buffers of sparse rows, O(N k) per step and setting instead of O(N d).

The steps are those of `oam.py`. Only the products differ: scores of the buffered rows gather
the weights at their k nonzero features, all settings side by side, and a step scatters to the same places. The Gram
matrix of a buffer changes by one sparse product per row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...kernels import njit
from ..base import State
from ..rows import rows_of
from .pair_steps import all_at_once, one_after_another

__all__ = ["SparseBuffers", "consume_sparse"]


@dataclass
class SparseBuffers(State):
    """``W`` has one model per column; class 0 is positive, class 1 negative."""

    rng: np.random.Generator
    counts: np.ndarray  # (2,), examples seen
    sizes: np.ndarray  # (2,), examples buffered
    lengths: np.ndarray  # (2, buffer_size), nonzero features of a buffered row
    features: np.ndarray  # (2, buffer_size, room), int32
    values: np.ndarray  # (2, buffer_size, room)
    gram: np.ndarray  # (2, buffer_size, buffer_size)
    resizable: ClassVar = ("features", "values")

    @classmethod
    def empty(cls, settings: dict[str, np.ndarray], n_features: int, buffer_size: int, rng) -> SparseBuffers:
        """Buffers without rows, and weights of zero."""
        return cls(
            settings=settings,
            W=np.zeros((n_features, len(settings["eta"]))),
            rng=rng,
            counts=np.zeros(2),
            sizes=np.zeros(2, dtype=np.int64),
            lengths=np.zeros((2, buffer_size), dtype=np.int64),
            features=np.zeros((2, buffer_size, 0), dtype=np.int32),
            values=np.zeros((2, buffer_size, 0)),
            gram=np.zeros((2, buffer_size, buffer_size)),
        )

    def make_room(self, longest: int) -> None:
        """Let buffered rows have up to ``longest`` nonzero features."""
        more = longest - self.features.shape[2]
        if more > 0:
            room = ((0, 0), (0, 0), (0, max(more, self.features.shape[2] // 2)))
            self.features, self.values = np.pad(self.features, room), np.pad(self.values, room)

    def widened(self, fresh: State) -> State:
        fresh.make_room(self.features.shape[2])  # type: ignore[attr-defined]
        return super().widened(fresh)


def consume_sparse(state: SparseBuffers, X, y: np.ndarray, slots: np.ndarray, caps: np.ndarray, sequential: bool):
    """Update the state with CSR rows; parameters as in the dense kernel."""
    lengths = np.diff(X.indptr)
    state.make_room(int(lengths.max(initial=0)))
    buffers = state.counts, state.sizes, state.lengths, state.features, state.values, state.gram
    _pass(*rows_of(X), y, slots, caps, sequential, *buffers, state.W, np.zeros(state.W.shape[0]))


@njit()
def _pass(indptr, indices, data, y, slots, caps, sequential, counts, sizes, lengths, features, values, gram, W, spread):
    n_settings = W.shape[1]
    buffer_size = gram.shape[1]
    scores, of_row = np.empty((n_settings, buffer_size + 1)), np.empty(n_settings)
    products = np.empty(buffer_size + 1)
    for t in range(len(y)):
        row, worths = indices[indptr[t] : indptr[t + 1]], data[indptr[t] : indptr[t + 1]]
        own, opp, sign = (0, 1, 1.0) if y[t] > 0 else (1, 0, -1.0)
        counts[own] += 1.0
        slot, k = slots[t], len(row)
        for i in range(k):
            spread[row[i]] = worths[i]
        if slot >= 0:
            sizes[own] = max(sizes[own], slot + 1)
            lengths[own, slot] = k
            for i in range(k):
                features[own, slot, i], values[own, slot, i] = row[i], worths[i]
            if sequential:
                for j in range(sizes[own]):
                    gram[own, slot, j] = _dot(features[own, j], values[own, j], lengths[own, j], spread)
                    gram[own, j, slot] = gram[own, slot, j]
        m = sizes[opp]
        if m > 0:
            worth = max(1.0, counts[opp] / buffer_size)
            for j in range(m):
                _gather(features[opp, j], values[opp, j], lengths[opp, j], W, of_row, scores[:, j])
            _gather(row, worths, k, W, of_row, scores[:, m])
            if sequential:
                for j in range(m):
                    products[j] = _dot(features[opp, j], values[opp, j], lengths[opp, j], spread)
                products[m] = _dot(row, worths, k, spread)
                for g in range(n_settings):
                    one_after_another(scores[g], m, sign, caps[g] * worth, products, gram[opp])
            else:
                for g in range(n_settings):
                    all_at_once(scores[g], m, sign, caps[g] * worth)
            for j in range(m):
                _scatter(features[opp, j], values[opp, j], lengths[opp, j], W, of_row, scores[:, j])
            _scatter(row, worths, k, W, of_row, scores[:, m])
        for i in range(k):
            spread[row[i]] = 0.0


@njit(fastmath={"contract"})
def _dot(features, values, length, spread):
    total = 0.0
    for i in range(length):
        total += values[i] * spread[features[i]]
    return total


@njit(fastmath={"contract"})
def _gather(features, values, length, W, total, scores):
    """scores = W'x; ``total`` is room for them where they lie side by side."""
    total[:] = 0.0
    for i in range(length):
        w, value = W[features[i]], values[i]
        for g in range(len(total)):
            total[g] += value * w[g]
    for g in range(len(total)):
        scores[g] = total[g]


@njit(fastmath={"contract"})
def _scatter(features, values, length, W, step, coefficients):
    """W += x coefficients', where any of them is not zero; ``step`` is room for them where they lie side by side."""
    for g in range(len(step)):
        step[g] = coefficients[g]
    if not step.any():
        return
    for i in range(length):
        w, value = W[features[i]], values[i]
        for g in range(len(step)):
            w[g] += value * step[g]
