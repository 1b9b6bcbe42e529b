"""A bounded number of scores, from which an exact AUC can be taken."""

from __future__ import annotations

import numpy as np

from ..evaluation.auc import _auc_of_sorted

__all__ = ["ClassSamples", "RecentScores"]


class RecentScores:
    """The scores that several settings gave to the latest half of the rows, ``size`` rows at most, none of the first.

    A sample of all rows would mix scores of the present models with those of their beginnings, which differ in size.

    Parameters
    ----------
    size : int
    first : int
        How many rows at the beginning are left out.
    """

    def __init__(self, size: int, first: int = 0):
        self._size, self._first = size, first
        self._pieces: list[tuple[np.ndarray, np.ndarray]] = []
        self._seen = self._held = 0

    def __len__(self) -> int:
        return max(0, min(self._size, self._seen - max(self._first, self._seen // 2)))

    def add(self, scores: np.ndarray, positive: np.ndarray) -> None:
        """Take in the scores of more rows, shape (n, n_settings), in their order."""
        self._pieces.append((scores, positive))
        self._seen, self._held = self._seen + len(positive), self._held + len(positive)
        while self._held - len(self._pieces[0][1]) >= len(self):
            self._held -= len(self._pieces.pop(0)[1])
            if not self._pieces:
                break

    def keep(self, columns: np.ndarray) -> None:
        """Keep the scores of some settings, by their positions."""
        self._pieces = [(scores[:, columns], positive) for scores, positive in self._pieces]

    def rows_of(self, column: int) -> tuple[np.ndarray, np.ndarray]:
        """The scores of one setting, shape (n,), and which of the rows are positive."""
        scores = np.concatenate([piece[:, column] for piece, _ in self._pieces])
        positive = np.concatenate([piece for _, piece in self._pieces])
        start = len(positive) - len(self)
        return scores[start:], positive[start:]

    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Scores of shape (n, n_settings), and which of the rows are positive."""
        scores, positive = (np.concatenate(parts) for parts in zip(*self._pieces))
        start = len(positive) - len(self)
        return scores[start:], positive[start:]


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
