"""Notes of ``opauc-bench train`` on what the user should know about a pass: memory, order of the rows, settings."""

from __future__ import annotations

import math
import shlex
import sys

import numpy as np

from ..data.schema import MOST_BITS
from ..learners import OnePassLearner
from ..sentences import label_text
from .options import TrainOptions
from .progress import shown_auc
from .rows import Source
from .settings import AUTO
from .tuning import TunedModel

__all__ = ["MemoryNote", "pass_notes"]

_ROWS_WITHOUT_DROPPING = 1 << 13  # from here on settings should be dropped
_MUCH_MEMORY = 2e9
_SHARE_OF_POSITIONS = 0.1  # that categories may take: with n of m, about n / m of them share one
# Rows of a class that are expected in the window, and the share of them below which the rows are in some order.
_EXPECTED_OF_A_CLASS, _SHARE_IN_SOME_ORDER = 50, 0.25
_DRIFT = 0.02  # of the AUC, by which it is less over the whole window than within blocks; large steps cost up to .007


class MemoryNote:
    """Say once, unless ``quiet``, that the features of the rows so far take much memory."""

    def __init__(self, options: TrainOptions, source: Source):
        self._small, self._is_table, self._said = options.small, source.is_table, options.quiet

    def __call__(self, model: TunedModel) -> None:
        memory = model.memory_bytes * (1 if self._small else 2)  # the state that is kept for --continue is a copy
        if self._said or memory <= _MUCH_MEMORY:
            return
        self._said = True
        ways = ["fewer --bits"] if self._is_table else ["indices without large gaps"]
        ways += ["--small"] * (not self._small) + ["--no-tune"]
        print(
            f"note: {len(model.live)} settings of {model.n_features:,} features take up to {memory / 1e9:.0f} GB of "
            f"memory; less with {', '.join(ways)}",
            file=sys.stderr,
        )


def pass_notes(model: TunedModel, trained: OnePassLearner, source: Source, is_given: bool) -> list[str]:
    """Notes on a finished pass, in the order in which they are printed.

    Parameters
    ----------
    model : TunedModel
    trained : OnePassLearner
        Its best setting.
    source : Source
    is_given : bool
        Whether the user has said which label is the positive one.
    """
    of_model = (_comparison_note, _drift_note, _blocks_note, _width_note)
    return [
        *source.remarks(),
        *_positive_note(trained, is_given),
        *_shared_features_note(model, source),
        *_order_note(model, trained),
        *(note for about in of_model for note in about(model)),
    ]


def _positive_note(trained: OnePassLearner, is_given: bool) -> list[str]:
    """A note if the label that comes later in the alphabet, and is positive therefore, is that of most rows."""
    negative, positive = trained.classes_.tolist()
    if is_given or not isinstance(positive, str) or trained.class_counts_[0] <= trained.class_counts_[1]:
        return []
    return [
        f"note: the positive label is {positive!r}, the later one in alphabetical order, and most rows have it; "
        f"--positive {shlex.quote(negative)} ranks the rows with {negative!r} first"
    ]


def _blocks_note(model: TunedModel) -> list[str]:
    """A note if the pass has taken longer than it had to."""
    if not model.lacks_blocks or model.n_rows < _ROWS_WITHOUT_DROPPING or model.auc() is None:
        return []
    note = (
        f"note: {len(model.live)} settings were trained to the end: few blocks of the window have rows of both classes"
    )
    return [f"{note}; a larger --window has more" if 2 * model.n_in_window < model.n_rows else note]


def _comparison_note(model: TunedModel) -> list[str]:
    """A note if there was nothing, or too little, that settings could be compared by."""
    if model.is_undecided:
        return [
            f"note: the last {model.n_in_window:,} rows have too few of a class to tell settings apart: the model has "
            f"the one nearest to the defaults of {model.leader_name}"
        ]
    if len(model.leaderboard) == 1 or model.auc() is not None:
        return []  # of a single setting, `_order_note` says it
    if not model.n_in_window:
        nearest = f"the model has the one nearest to the defaults of {model.leader_name}"
        return [f"note: settings could not be compared, the rows are too few; {nearest}"]
    return [
        f"note: no block of the last {model.n_in_window:,} rows has rows of both classes, so that settings could not "
        "be compared at the end; shuffle the rows, if they are sorted by label"
    ]


def _order_note(model: TunedModel, trained: OnePassLearner) -> list[str]:
    """A note if the window has hardly any rows of a class that is common in the whole pass."""
    window = model.recent()[1]
    if model.auc() is None:
        if len(model.leaderboard) > 1 or not len(window):  # see `_comparison_note`
            return []
        return [
            f"note: no block of the last {len(window):,} rows has rows of both classes; shuffle the rows, if they are "
            "sorted by label"
        ]
    for label, count, is_positive in zip(trained.classes_[::-1], trained.class_counts_, (True, False)):
        share, found = count / model.n_rows, np.count_nonzero(window == is_positive) / len(window)
        if share * len(window) >= _EXPECTED_OF_A_CLASS and found < _SHARE_IN_SOME_ORDER * share:
            return [
                f"note: {100 * found:.3g} % of the last {len(window):,} rows have the label {label_text(label.item())} "
                f"and {100 * share:.3g} % of all: probabilities are those of the last rows; shuffle the rows, if they "
                "are sorted by label"
            ]
    return []


def _drift_note(model: TunedModel) -> list[str]:
    """A note if scores of early and late rows cannot be compared."""
    within, across, error = model.auc(), model.auc_across_blocks(), model.leaderboard[0]["standard_error"]
    if within is None or across is None or error is None or within - across <= max(_DRIFT, 2.0 * error):
        return []
    return [
        f"note: the AUC is {shown_auc(within)} among rows of the same time, and {shown_auc(across)} among all of the "
        "window: scores drift, because of a column that grows along the file, such as a date or an id (--drop), of "
        "large steps (a smaller --eta), or of rows that change"
    ]


def _width_note(model: TunedModel) -> list[str]:
    """A note if the number of features has cost the best learner."""
    if not (name := model.retired_best):
        return []
    return [
        f"note: {name} was the best until there were too many features for it in {AUTO}; --learner {name} takes them"
    ]


def _shared_features_note(model: TunedModel, source: Source) -> list[str]:
    """A note if many categories share a feature, unless most of them are ids."""
    schema = source.schema
    if schema is None or not schema.categories or source.ids:
        return []
    n_taken, n_features = model.n_occurring(schema.first_category), 1 << schema.bits
    if n_taken <= _SHARE_OF_POSITIONS * n_features:
        return []
    bits = min(math.ceil(math.log2(n_taken / _SHARE_OF_POSITIONS)), MOST_BITS)
    more = f"; --bits {bits} has room for them" if bits > schema.bits else ""
    taken = f"{n_taken:,} of {n_features:,} features"
    return [f"note: categories take {taken}, so that many of them share one with another{more}"]
