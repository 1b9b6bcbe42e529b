"""Which settings are kept at a checkpoint.

At checkpoints after 1024, 2048, 4096, ... rows, settings are compared by their AUC over the window: the latest half of
the rows that were scored (all but the first block), so that windows of two checkpoints have no row in common, but at
most as many rows as asked for. Let gap be how much less AUC a setting has than the best one of its learner, and error
the standard error of this difference. A setting is dropped if

    gap > z error - tolerance        and        gap > 3/4 gap_before - tolerance,

where gap_before is its gap to the same best one at the checkpoint before: it is certainly not better than the best one
by more than the tolerance, and it is not catching up as settings do whose steps are small. Learning curves of different
learners cross late: only from 131,072 rows on, the best one is that of all learners. Where more settings than the
schedule has room for are left, those with the least AUC are dropped, the best of each learner last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

__all__ = ["FEWEST_BLOCKS", "is_checkpoint", "settings_to_keep"]

FEWEST_BLOCKS = 16  # with both classes, for standard errors to mean something
_FIRST_CHECKPOINT = 1024  # rows, as those below
_ALL_UNTIL = 8192  # from here on the room for settings halves as rows double
_ACROSS_FROM = 131072  # before, settings are compared with others of their learner only
_Z = 3.0
_TOLERANCE = 5e-4
_NOT_CATCHING_UP = 0.75


def is_checkpoint(n_rows: int) -> bool:
    """Whether settings are compared after so many rows."""
    return n_rows >= _FIRST_CHECKPOINT and n_rows.bit_count() == 1


def settings_to_keep(
    aucs: np.ndarray,
    aucs_before: np.ndarray,
    standard_errors: Callable[[int], np.ndarray],
    *,
    sizes: Sequence[int],
    n_rows: int,
    n_at_first: int,
) -> np.ndarray:
    """Decide which settings go on after a checkpoint.

    Parameters
    ----------
    aucs, aucs_before : ndarray of shape (n_live,)
        Over the window, now and at the checkpoint before; NaN where there was none.
    standard_errors : callable
        Of the differences of all AUCs from that of the setting whose number it is given.
    sizes : sequence of int
        Live settings of each learner; they are next to each other.
    n_rows : int
        Rows so far.
    n_at_first : int
        How many settings began.

    Returns
    -------
    ndarray of shape (n_live,), bool
    """
    n_live = len(aucs)
    worse, is_best = np.zeros(n_live, dtype=bool), np.zeros(n_live, dtype=bool)
    start = 0
    for size in sizes if n_rows < _ACROSS_FROM else [n_live]:
        own = slice(start, start := start + size)
        best = own.start + int(np.argmax(aucs[own]))
        gap, gap_before = aucs[best] - aucs[own], aucs_before[best] - aucs_before[own]
        error = standard_errors(best)[own]
        worse[own] = (gap > _Z * error - _TOLERANCE) & (gap > _NOT_CATCHING_UP * gap_before - _TOLERANCE)
        is_best[best] = True
    worse &= ~is_best
    room = max(1, -(-n_at_first * _ALL_UNTIL // n_rows), np.count_nonzero(is_best))
    ranked = np.lexsort((-aucs, ~is_best, worse))
    kept = np.zeros(n_live, dtype=bool)
    kept[ranked[:room]] = True
    return kept & ~worse
