"""What figures take over from the protocols that fill tables: their sets, and the setting that they select."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from ...evaluation.selection import ranking
from ..work import Work
from .cross_validation import select_by_inner_folds, split_into_folds
from .holdout import borrow_axes, select_by_validation, split_in_three
from .parts import Parts

__all__ = ["best_settings", "parts_of"]

_SPLIT = {"cv": split_into_folds, "holdout": split_in_three}
_SELECT = {"cv": select_by_inner_folds, "holdout": select_by_validation}


def parts_of(work: Work) -> Parts:
    """The sets of one repetition, as the protocol under ``splits`` makes them; the learner gets its seed."""
    splits = work.task.protocol["splits"]
    parts = _SPLIT[splits["kind"]](work, splits)
    parts.seed_learner(work.learner)
    return parts


def best_settings(work: Work, parts: Parts, content: dict[str, Any]) -> Iterator[dict[str, float]]:
    """Settings from the best one on: what is known to be selected, the only one, or what is selected here.

    What a selection took, or why there is none, is put into ``content``; what it compared is not, so that a record is
    the same wherever its setting comes from.
    """
    if work.task.selected is not None:
        yield dict(work.task.selected)
        return
    began = time.process_time()
    if trouble := borrow_axes(work, parts):
        content["message"] = trouble
        return
    best = [0]
    if len(next(iter(work.grid.values()))) > 1:
        splits = work.task.protocol["splits"]
        aucs, _ = _SELECT[splits["kind"]](work, splits, parts)
        content["timing"]["selection_cpu_seconds"] = time.process_time() - began
        best = ranking(aucs)
    for position in best:
        yield {axis: float(values[position]) for axis, values in work.grid.items()}
