"""A bounded number of scores, from which an exact AUC can be taken."""

from __future__ import annotations

import numpy as np

from ..evaluation.auc import _auc_of_sorted, auc_score

__all__ = ["ClassSamples", "RecentScores"]


class RecentScores:
    """The scores of the latest rows.

    A sample of all rows would mix scores of the present model with those of its beginnings, which differ in size.
    """

    def __init__(self, size: int):
        self._scores = np.empty(size)
        self._positive = np.empty(size, dtype=bool)
        self._seen = 0

    def __len__(self) -> int:
        return min(self._seen, len(self._scores))

    def add(self, scores: np.ndarray, positive: np.ndarray) -> None:
        """Take in the scores of more rows, in their order."""
        size = len(self._scores)
        scores, positive = scores[-size:], positive[-size:]
        places = (self._seen + np.arange(len(scores))) % size
        self._scores[places], self._positive[places] = scores, positive
        self._seen += len(scores)

    def auc(self) -> float | None:
        """Exact AUC of the rows that are kept, or None if they are of one class or have scores that are not finite."""
        scores, positive = self._scores[: len(self)], self._positive[: len(self)]
        if positive.all() or not positive.any() or not np.isfinite(scores).all():
            return None
        return auc_score(positive, scores)


class ClassSamples:
    """Up to ``size`` scores of each class, every row of a class with the same chance to be among them.

    Because AUC compares the classes, each has a reservoir of its own: a rare one is kept whole.
    """

    def __init__(self, size: int):
        self._rng = np.random.default_rng(0)
        self._kept = np.empty((2, size))
        self.seen = [0, 0]  # negatives, positives

    @property
    def complete(self) -> bool:
        """Whether every score is kept."""
        return max(self.seen) <= self._kept.shape[1]

    @property
    def sizes(self) -> tuple[int, int]:
        """How many negatives and positives are kept."""
        negatives, positives = (min(n, self._kept.shape[1]) for n in self.seen)
        return negatives, positives

    def add(self, scores: np.ndarray, positive: np.ndarray) -> None:
        """Take in the scores of more rows."""
        for k, members in enumerate((~positive, positive)):
            values = scores[members]
            turn = self.seen[k] + 1 + np.arange(len(values))
            size = self._kept.shape[1]
            slots = np.where(turn <= size, turn - 1, (self._rng.random(len(values)) * turn).astype(np.int64))
            kept = slots < size
            self._kept[k, slots[kept]] = values[kept]  # of several for one slot, the last stays
            self.seen[k] += len(values)

    def auc(self) -> float | None:
        """Exact AUC of the scores that are kept, or None if they are of one class or not finite."""
        negatives, positives = (kept[:n] for kept, n in zip(self._kept, self.sizes))
        if not len(negatives) or not len(positives):
            return None
        if not (np.isfinite(negatives).all() and np.isfinite(positives).all()):
            return None
        # In place: which row has which slot does not matter, and another copy would.
        negatives.sort()
        positives.sort()
        return _auc_of_sorted(positives, negatives)
