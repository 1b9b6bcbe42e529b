"""Scores of different times, moved to where the scores of the model that is written lie.

Probabilities are fitted to scores that rows had before they were learnt. Meanwhile weights and intercepts move, and
with them all scores of a time: where rows lie far from zero, or a single value far from all others. So the window is
cut into segments, and score i of segment j is taken as

    s_i = move_j + centre_(class of i) + rest_i,

fitted by medians (Tukey's median polish, 1977), which values far from the others do not shift, nor a segment that has
more rows of one class. Of a segment that lacks a class which others have, the move cannot be told from the centre of
the other class: it gets that of the nearest segment with both. The fit to the latest rows under the final weights gives
the move that all segments get.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["Scored", "aligned"]

Scored = tuple[np.ndarray, np.ndarray]  # scores, and which rows are positive, each of shape (n,)

_FEWEST_ROWS = 256  # of a segment: the median of few scores is not known well
_FEWEST_OF_A_CLASS = 64  # of the latest rows, for a median of its own
# Rows of a class that are expected in a segment, and the share of them below which it lacks the class.
_FEWEST_EXPECTED, _SHARE_OF_A_LACKING_CLASS = 16, 1 / 16
_MOST_ROUNDS = 50


def aligned(blocks: Sequence[Scored], latest: Scored) -> Scored:
    """Move the scores of each segment by a constant, to where those of the latest rows are.

    Parameters
    ----------
    blocks : sequence of (scores, positive)
        Progressive scores in the order of time; those of a block have the same weights.
    latest : (scores, positive)
        Scores of some rows by the final model.

    Returns
    -------
    scores, positive : ndarray of shape (n,)
        Of all blocks.
    """
    scores, positive = (np.concatenate(parts) for parts in zip(*blocks))
    lengths = _merged([len(block) for block, _ in blocks])
    segment = np.repeat(np.arange(len(lengths)), lengths)
    moves, centres = _median_polish(scores, positive, segment, len(lengths))
    return scores - moves[segment] + _move_of_learnt(*latest, centres), positive


def _move_of_learnt(scores: np.ndarray, positive: np.ndarray, centres: np.ndarray) -> float:
    """The move of rows that the model has learnt: they are further apart than new ones, by class in both directions."""
    of_classes = [scores[~positive] - centres[0], scores[positive] - centres[1]]
    if min(map(len, of_classes)) >= _FEWEST_OF_A_CLASS:
        return float(np.mean([np.median(rest) for rest in of_classes]))
    return float(np.median(np.concatenate(of_classes)))


def _merged(lengths: Sequence[int]) -> list[int]:
    """Rows of segments: consecutive blocks until there are enough; what is left at the end joins the last one."""
    merged, n_rows = [], 0
    for length in lengths:
        n_rows += length
        if n_rows >= _FEWEST_ROWS:
            merged.append(n_rows)
            n_rows = 0
    if n_rows and merged:
        merged[-1] += n_rows
    return merged or [n_rows]


def _median_polish(
    scores: np.ndarray, positive: np.ndarray, segment: np.ndarray, n_segments: int
) -> tuple[np.ndarray, np.ndarray]:
    """The move of each segment and the centre of each class, (negative, positive)."""
    classes = positive.astype(int)
    starts = np.flatnonzero(np.diff(segment, prepend=-1))
    moves, centres = np.zeros(n_segments), np.zeros(2)
    source = _segments_to_take_from(
        np.stack([np.bincount(segment[classes == k], minlength=n_segments) for k in (0, 1)])
    )
    for _ in range(_MOST_ROUNDS):
        before = moves
        rest = scores - centres[classes]
        if source is not None:
            moves = np.array([np.median(part) for part in np.split(rest, starts[1:])])[source]
        rest = scores - moves[segment]
        centres = np.array([np.median(rest[classes == k]) if (classes == k).any() else 0.0 for k in range(2)])
        if np.allclose(moves, before, rtol=1e-9, atol=0.0):
            break
    return moves, centres


def _segments_to_take_from(counts: np.ndarray) -> np.ndarray | None:
    """For each segment the nearest one whose move can be fitted, itself if possible; None if there is none.

    ``counts``, of shape (2, n_segments), are the rows of each class.
    """
    expected = counts.sum(axis=0) * counts.sum(axis=1, keepdims=True) / counts.sum()
    lacks = (expected >= _FEWEST_EXPECTED) & (counts < _SHARE_OF_A_LACKING_CLASS * expected)
    mixed = np.flatnonzero(~lacks.any(axis=0))
    if not len(mixed):
        return None
    return mixed[np.abs(np.arange(counts.shape[1])[:, None] - mixed).argmin(axis=1)]
