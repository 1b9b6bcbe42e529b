"""What figures take over from the protocols that fill tables: their sets, and the setting that they choose."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from ...evaluation.selection import ranking
from ..work import Work
from .cross_validation import select_by_inner_folds, split_into_folds
from .holdout import select_by_validation, split_in_three
from .parts import Parts

__all__ = ["best_settings", "parts_of"]

_SPLIT = {"cv": split_into_folds, "holdout": split_in_three}
_SELECT = {"cv": select_by_inner_folds, "holdout": select_by_validation}


def parts_of(work: Work) -> Parts:
    """The sets of one repetition, as the protocol under ``splits`` makes them."""
    splits = work.task.protocol["splits"]
    return _SPLIT[splits["kind"]](work, splits)


def best_settings(work: Work, parts: Parts, outcome: dict[str, Any]) -> Iterator[dict[str, float]]:
    """Settings from the best one on: what is known to be chosen, the only one, or what is chosen here.

    What a choice found and took is put into ``outcome``.
    """
    if work.task.chosen is not None:
        yield dict(work.task.chosen)
        return
    n_settings = len(next(iter(work.grid.values())))
    best = [0]
    if n_settings > 1:
        splits = work.task.protocol["splits"]
        began = time.process_time()
        aucs, outcome["selection"] = _SELECT[splits["kind"]](work, splits, parts)
        outcome["timing"]["selection_cpu_seconds"] = time.process_time() - began
        best = ranking(aucs)
    for position in best:
        yield {axis: float(values[position]) for axis, values in work.grid.items()}
