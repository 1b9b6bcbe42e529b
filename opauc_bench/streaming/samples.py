"""A bounded number of scores, from which an exact AUC can be taken."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..evaluation.auc import auc_of_sorted
from ..evaluation.blocked_auc import BlockedAUC

__all__ = ["ClassSamples", "RecentScores"]


class RecentScores:
    """The scores that several settings gave to the latest half of the rows, about ``size`` rows at most, by blocks.

    The rows of a block were scored by the same weights. Scores of different blocks should not be compared for an AUC:
    large steps move all scores up and down.
    """

    def __init__(self, size: int):
        self._size = size
        self._blocks: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        self._seen = self._held = 0

    def __len__(self) -> int:
        return self._held

    @property
    def n_rarer(self) -> int:
        """Rows of the class that has fewer."""
        n_positive = sum(int(np.count_nonzero(positive)) for _, positive, _ in self._blocks)
        return min(n_positive, self._held - n_positive)

    @property
    def n_columns(self) -> int:
        """How many scores a row has; 0 without rows."""
        return self._blocks[0][0].shape[1] if self._blocks else 0

    def add(self, scores: np.ndarray, positive: np.ndarray, intercepts: np.ndarray | None = None) -> None:
        """Take in the scores w'x of one more block, shape (n, n_settings), and the intercepts (n_settings,) then."""
        self._blocks.append((scores, positive, np.zeros(scores.shape[1]) if intercepts is None else intercepts))
        self._seen, self._held = self._seen + len(positive), self._held + len(positive)
        wanted = min(self._size, self._seen // 2)
        while len(self._blocks) > 1 and self._held - len(self._blocks[0][1]) >= wanted:
            self._held -= len(self._blocks.pop(0)[1])

    def keep(self, columns: np.ndarray) -> None:
        """Keep the scores of some settings, by their positions."""
        self._blocks = [(scores[:, columns], positive, b[columns]) for scores, positive, b in self._blocks]

    def snapshot(self) -> dict[str, Any]:
        """Return what is kept, to continue by `restore`."""
        blocks = self._blocks or [(np.zeros((0, 0)), np.zeros(0, dtype=bool), np.zeros(0))]
        return {
            "size": self._size,
            "seen": self._seen,
            "scores": np.concatenate([scores for scores, _, _ in blocks]),
            "positive": np.concatenate([positive for _, positive, _ in blocks]),
            "intercepts": np.stack([intercepts for _, _, intercepts in blocks]),
            "lengths": [len(positive) for _, positive, _ in self._blocks],
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Take over what `snapshot` returned; ValueError if its parts do not fit."""
        scores, positive = np.array(saved["scores"], dtype=float), np.array(saved["positive"], dtype=bool)
        ends = np.cumsum(saved["lengths"], dtype=int)
        intercepts = np.array(saved["intercepts"], dtype=float)
        if scores.ndim != 2 or len({len(scores), len(positive), *ends[-1:].tolist()}) != 1:
            raise ValueError("the scores of the state are not those of its rows")
        if intercepts.shape != (max(1, len(ends)), scores.shape[1]):
            raise ValueError("the intercepts of the state are not those of its blocks")
        self._seen, self._held = int(saved["seen"]), len(positive)
        self._blocks = list(zip(np.split(scores, ends), np.split(positive, ends), intercepts))[: len(ends)]

    def rows_of(self, column: int) -> tuple[np.ndarray, np.ndarray]:
        """The scores of one setting with its intercepts, shape (n,), and which of the rows are positive."""
        if not self._blocks:
            return np.zeros(0), np.zeros(0, dtype=bool)
        scores = np.concatenate([block[:, column] + intercepts[column] for block, _, intercepts in self._blocks])
        return scores, np.concatenate([positive for _, positive, _ in self._blocks])

    def blocks_of(self, column: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """The scores of one setting and which rows are positive, block by block.

        With the changes of the intercept since the first of them: the intercept itself may be so large that a sum would
        lose the digits of the scores.
        """
        first = self._blocks[0][2][column] if self._blocks else 0.0
        return [(block[:, column] + (b[column] - first), positive) for block, positive, b in self._blocks]

    def aucs(self, columns: slice = slice(None)) -> BlockedAUC:
        """AUCs of some settings within the blocks."""
        scores = np.concatenate([block[:, columns] for block, _, _ in self._blocks])
        positive = np.concatenate([positive for _, positive, _ in self._blocks])
        return BlockedAUC(positive, scores, np.array([len(positive) for _, positive, _ in self._blocks]))


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
        return auc_of_sorted(positives, negatives)
