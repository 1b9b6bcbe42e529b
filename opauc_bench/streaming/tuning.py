"""Many settings of several learners in one pass: rows are scored before they are learnt, and bad settings dropped.

All rows of a block are scored by the same weights, and the AUC is that of pairs within blocks. Scores of different
blocks are not compared: large steps move the scores of all rows up and down, which no held-out row would notice.

At checkpoints, settings that will not be the best are dropped by the rule in `dropping`.

Once there are enough rows, they are also scored by the average of the weights of each setting, which takes no part in
dropping. The model has the average if it was the best in the end: large steps leave noise in the last weights. A
setting with l1 > 0 keeps its last weights, because an average has more weights that are not 0.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from ..evaluation.auc import auc_score
from ..evaluation.blocked_auc import BlockedAUC
from ..learners import DivergenceError, OnePassLearner, get_learner
from ..learners.online import OnlineModel, memory_of, require_memory
from ..learners.rows import csr_rows, narrowed
from .alignment import aligned
from .averages import AveragedWeights, is_due
from .blocks import Blocks, Rows
from .dropping import FEWEST_BLOCKS, is_checkpoint, settings_to_keep
from .samples import RecentScores

__all__ = ["Candidate", "TunedModel"]

_MOST_PROGRESS = 60
# With fewer rows of the rarer class in the window, or blocks, the best of many settings is better by luck.
_FEW_ROWS, _FEW_BLOCKS = 100, 4
_LATEST_ROWS = 1024  # at least, by which the scores of the model that is written are compared with those before
_NUMBERS = ("_n_learnt", "_n_values", "n_rows", "n_features")  # of a TunedModel


@dataclass
class Candidate:
    """A learner and the settings of it that take part."""

    name: str
    learner: OnePassLearner
    grid: dict[str, np.ndarray] | None = None  # settings to compare, by axis; None is the learner's own
    most_features: int | None = None  # beyond these it takes part only if no learner takes as many as there are


@dataclass(eq=False)
class _Setting:
    """A line of the leaderboard."""

    learner: str
    parameters: dict[str, Any]
    auc: float | None = None
    standard_error: float | None = None
    n_rows: int = 0
    outcome: str = "kept"
    averaged: bool = False  # whether the AUC is that of the average of its weights
    auc_before: float | None = None  # at the checkpoint before

    def line(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "auc_before"}


@dataclass
class _Entrant:
    """A learner that still takes part, its live settings in the order of their columns, and their averages."""

    candidate: Candidate
    model: OnlineModel
    settings: list[_Setting]
    averages: AveragedWeights | None = None

    def scored_by_average(self, X: sparse.csr_matrix, narrow: tuple | None) -> tuple[np.ndarray, np.ndarray]:
        """Scores of rows by the averages, and the intercepts that go with them, as `StreamLearner.score_rows`."""
        assert self.averages is not None
        self.model.make_room(X.shape[1])
        features, values = narrow or (None, X)
        scores, weights = self.averages.score_rows(features, values)
        learner = self.model.learner
        trains = learner.trained_intercepts() is not None
        return scores, self.averages.intercepts if trains else learner.thresholds(features, values, weights)


class TunedModel:
    """Train several settings on pieces of rows, drop the worse ones on the way, and finish with the best.

    Which settings are dropped depends on the rows alone, not on the pieces in which they come.

    Parameters
    ----------
    candidates : sequence of Candidate
    window : int
        How many rows an AUC is taken over, at most.
    n_features, n_rows : int, optional
        As in `OnlineModel`.

    Attributes
    ----------
    n_rows : int
        Rows so far.
    n_features : int
        Given, or one more than the largest index so far.
    progress : list of [int, float]
        Number of rows, and AUC of the window by the setting that led then; at most 60 of them.
    lacks_blocks : bool
        Whether no setting was dropped at the latest checkpoint, because too few blocks of the window had both classes.
    retired_best : str
        The learner that was the best when it was dropped because of the number of features; empty if there is none.
    is_undecided : bool
        Whether the window has too few rows of a class to tell settings apart, so that the model has the one nearest to
        the defaults.

    Raises
    ------
    LearnerError
        If a parameter has a value that a learner does not accept.
    """

    def __init__(
        self,
        candidates: Sequence[Candidate],
        *,
        window: int,
        n_features: int | None = None,
        n_rows: int | None = None,
    ):
        self._entrants = []
        for one, takes in zip(candidates, _which_take(candidates, n_features or 0)):
            if not takes:
                continue
            model = OnlineModel(one.learner, n_features=n_features, n_rows=n_rows, grid=one.grid)
            values = model.learner.live_settings
            settings = [
                _Setting(one.name, one.learner.get_params() | {axis: float(of[k]) for axis, of in values.items()})
                for k in range(len(next(iter(values.values()))))
            ]
            self._entrants.append(_Entrant(one, model, settings))
        self._settings = self.live
        self._leader = self._default_setting()
        self._recent = RecentScores(window)
        self._blocks = Blocks()
        self._n_learnt = self.n_rows = 0
        self._n_values = 0  # that were learnt since the weights were added to averages
        self._seen = np.zeros(0, dtype=bool)  # features that have occurred, if there are several settings
        self._latest: list[Rows] = []  # blocks
        self.n_features = n_features or 0
        self.progress: list[list] = []
        self.lacks_blocks = False
        self.retired_best = ""
        self.is_undecided = False

    @property
    def candidates(self) -> list[Candidate]:
        """Candidates of which a setting is still trained."""
        return [one.candidate for one in self._entrants]

    @property
    def live(self) -> list[_Setting]:
        """The settings that are still trained, in the order of the columns of their scores."""
        return [setting for entrant in self._entrants for setting in entrant.settings]

    @property
    def leader_name(self) -> str:
        """The learner of the setting that was best at the latest checkpoint."""
        return self._leader.learner

    @property
    def memory_bytes(self) -> float:
        """Estimate of what the settings that are left take, for the features so far."""
        return memory_of([one.model for one in self._entrants], self.n_features)

    @property
    def n_in_window(self) -> int:
        """How many rows the AUC is taken over now."""
        return len(self._recent)

    @property
    def leaderboard(self) -> list[dict[str, Any]]:
        """All settings, the best first and then by how long they were kept.

        Each has ``learner``, ``parameters``, ``auc`` and ``standard_error`` (None if no block of the window had rows of
        both classes) at ``n_rows`` rows, when it was dropped or at the end, ``outcome``: "best", "chosen" (the one of
        the model where settings cannot be told apart), "kept", "dropped" or "diverged", and ``averaged``: whether it is
        the one of the model by the average of its weights; ``auc`` is that of the average then.
        """
        order = ["best", "chosen", "kept", "dropped", "diverged"]
        ranked = sorted(self._settings, key=lambda one: (order.index(one.outcome), -one.n_rows, -(one.auc or 0.0)))
        return [one.line() for one in ranked]

    def recent(self) -> tuple[np.ndarray, np.ndarray]:
        """Scores that the rows of the window had before they were learnt, by the leader, and which are positive.

        They have the intercept, trained or not, that went with the weights of that time: both drift.

        Returns
        -------
        scores : ndarray of shape (n,), float64
        positive : ndarray of shape (n,), bool
        """
        return self._recent.rows_of(self._column_of_leader)

    def n_occurring(self, first: int) -> int:
        """How many features from ``first`` on have occurred; 0 for a single setting, which needs no averages."""
        return int(np.count_nonzero(self._seen[first:]))

    def latest(self, trained: OnePassLearner) -> tuple[np.ndarray, np.ndarray]:
        """Scores w'x of the latest rows by the model, without its intercept, and which of them are positive."""
        weights = np.append(trained.coef_[0], 0.0)  # rows without any feature have one
        with np.errstate(over="ignore", invalid="ignore"):
            scores = [X @ weights[: X.shape[1]] for X, _ in self._latest]
        return np.concatenate(scores), np.concatenate([positive for _, positive in self._latest])

    def recent_by(self, trained: OnePassLearner, intercept: float) -> tuple[np.ndarray, np.ndarray]:
        """As `recent`, with all scores moved to where those of the model with this intercept lie; see `aligned`."""
        blocks = self._recent.blocks_of(self._column_of_leader)
        if not blocks:
            return self.recent()
        scores, positive = self.latest(trained)
        return aligned(blocks, (scores + intercept, positive))

    def auc(self) -> float | None:
        """AUC within the blocks of the window by the leader; None if no block has both classes."""
        if not len(self._recent):
            return None
        column = self._column_of_leader
        found = self._recent.aucs(slice(column, column + 1))
        return float(found.aucs[0]) if found.n_blocks else None

    def auc_across_blocks(self) -> float | None:
        """AUC of all pairs of the window by the leader, with the intercepts of their time.

        None if there is no `auc`, or if the intercept is trained: it moves with every step, which no ranking notices.
        """
        trains = self._entrant_of_leader.model.learner.trained_intercepts() is not None
        if trains or self.auc() is None:
            return None
        return auc_score(*reversed(self.recent()))

    @property
    def _entrant_of_leader(self) -> _Entrant:
        return next(one for one in self._entrants if self._leader in one.settings)

    @property
    def _column_of_leader(self) -> int:
        """Column of the leader in the recent scores, which end with those of averages."""
        live = self.live
        return live.index(self._leader) + (len(live) if self._leader.averaged else 0)

    def learn(self, X: sparse.csr_matrix, positive: np.ndarray) -> None:
        """Score and then learn rows, whose classes are given by a boolean array of shape (n,).

        Blocks begin and end at fixed numbers of rows: the last few rows wait for more.

        Raises
        ------
        DivergenceError
            If all settings have overflowed.
        LearnerError
            If a new feature needs more memory than there is, or the learner cannot take it on.
        """
        self.n_rows += X.shape[0]
        for block in self._blocks.add(X, positive):
            self._learn(*block)

    def finish(self, classes: np.ndarray) -> OnePassLearner:
        """Return the learner of the best setting as a fitted estimator for ``n_features`` features and ``classes``.

        Raises
        ------
        DivergenceError
            If all settings have overflowed.
        """
        if (rest := self._blocks.rest()) is not None:
            self._learn(*rest)
        self._drop(np.concatenate([one.model.finite() for one in self._entrants]), "diverged")
        self._compare()
        self._compare_averages()
        self._prefer_default()
        self._leader.outcome = "chosen" if self._leader.auc is None or self.is_undecided else "best"
        entrant = self._entrant_of_leader
        column, average = entrant.settings.index(self._leader), None
        if entrant.averages is not None and self._leader.averaged:
            weights = entrant.averages.at(None, entrant.model.n_features)[:, column]
            average = np.ascontiguousarray(weights), float(entrant.averages.intercepts[column])
        if len(entrant.settings) > 1:
            entrant.model.learner.keep_settings(np.array([column]))
        return entrant.model.finish(classes, average)

    # ------------------------------------------------------------------ a pass in several sessions

    def snapshot(self) -> dict[str, Any]:
        """Return all that is remembered, to continue by `restored`: a tree of arrays, numbers and text.

        It is a copy, because `finish` learns the rows that wait for more, and leaves one setting.
        """
        entrants = [
            {
                "candidate": {
                    key: value for key, value in vars(one.candidate).items() if key not in ("learner", "grid")
                },
                "parameters": one.candidate.learner.get_params(),
                "model": one.model.snapshot(),
                "averages": None if one.averages is None else one.averages.snapshot(),
                "settings": [self._settings.index(setting) for setting in one.settings],
            }
            for one in self._entrants
        ]
        X, positive = self._blocks.waiting()
        return copy.deepcopy(
            {
                "entrants": entrants,
                "settings": [vars(setting) for setting in self._settings],
                "leader": self._settings.index(self._leader),
                "recent": self._recent.snapshot(),
                "waiting": {"X": _tree_of(X), "positive": positive},
                "latest": [{"X": _tree_of(X), "positive": positive} for X, positive in self._latest],
                "seen": self._seen,
                "numbers": {name: getattr(self, name) for name in _NUMBERS},
                "progress": self.progress,
            }
        )

    @classmethod
    def restored(cls, saved: Mapping[str, Any]) -> TunedModel:
        """Go on where `snapshot` was called: rows that follow give the same model, bit for bit, as without the pause.

        Raises
        ------
        LearnerError
            If a learner is not there any more.
        ValueError
            If ``saved`` is not from `snapshot`, or from another version of a learner.
        """
        model = cls.__new__(cls)
        try:
            model.restore(saved)
        except (KeyError, TypeError, IndexError, AttributeError) as error:
            raise ValueError(f"this is not the state of a training run ({error!r})") from error
        return model

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Take over what `snapshot` returned, instead of all that is there."""
        self._settings = [_Setting(**line) for line in saved["settings"]]
        self._leader = self._settings[saved["leader"]]
        self._entrants = []
        for one in saved["entrants"]:
            learner = get_learner(one["candidate"]["name"])(**one["parameters"])
            if not isinstance(learner, OnePassLearner):
                raise TypeError(f"{one['candidate']['name']} is not a one-pass learner")
            candidate = Candidate(learner=learner, **one["candidate"])
            settings = [self._settings[k] for k in one["settings"]]
            averages = one["averages"]
            if averages is not None:
                averages = AveragedWeights.restored(averages, len(settings))
            self._entrants.append(_Entrant(candidate, OnlineModel.restored(learner, one["model"]), settings, averages))
        self._recent = RecentScores(saved["recent"]["size"])
        self._recent.restore(saved["recent"])
        positive = np.asarray(saved["waiting"]["positive"], dtype=bool)
        X = _rows_of_tree(saved["waiting"]["X"])
        self._latest = [
            (_rows_of_tree(block["X"]), np.asarray(block["positive"], dtype=bool)) for block in saved["latest"]
        ]
        if any(rows.shape[0] != len(classes) for rows, classes in [(X, positive), *self._latest]):
            raise ValueError("the rows of the state are not those of its labels")
        for name in _NUMBERS:
            setattr(self, name, int(saved["numbers"][name]))
        self._blocks = Blocks(self._n_learnt, (X, positive))
        self._seen = np.array(saved["seen"], dtype=bool)
        if len(self._seen) > max(self.n_features, 1):
            raise ValueError("the features of the state are more than its rows have")
        self.progress = list(saved["progress"])
        self.lacks_blocks = False
        self.retired_best = ""
        self.is_undecided = False
        n_live = [len(next(iter(one.model.learner.live_settings.values()))) for one in self._entrants]
        if n_live != [len(one.settings) for one in self._entrants] or self._leader not in self.live:
            raise ValueError("the settings of the state are not those of its learners")
        averaged = {one.averages is not None for one in self._entrants}
        n_columns = len(self.live) * (2 if averaged == {True} else 1)
        rows = [one.averages.n_rows for one in self._entrants if one.averages is not None]
        wrong_columns = len(self._recent) and self._recent.n_columns != n_columns
        if len(averaged) > 1 or wrong_columns or any(n > self._n_learnt for n in rows):
            raise ValueError("the averages of the state are not those of its settings and rows")

    @property
    def is_over(self) -> bool:
        """Whether a learner has had all rows that it has laid out its pass for."""
        learners = [one.model.learner for one in self._entrants if not hasattr(one.model.learner, "partial_fit")]
        return any((one.n_rows_expected or 0) <= self.n_rows for one in learners)

    # ------------------------------------------------------------------ blocks

    def _learn(self, X: sparse.csr_matrix, positive: np.ndarray) -> None:
        """Score and learn one block, and do what is due after it."""
        # By the rows of the block alone: a reader may know later ones already.
        self.n_features = max(self.n_features, int(X.indices.max(initial=-1)) + 1)
        X = csr_rows(X.data, X.indices, X.indptr, max(self.n_features, 1))
        self._retire_by_width()
        require_memory([one.model for one in self._entrants], self.n_features)
        # The weights of all features are looked at where that is less than to find out which ones the rows have.
        narrow = narrowed(X) if X.shape[1] * len(self.live) > X.nnz else None
        averaged = [one.scored_by_average(X, narrow) for one in self._entrants if one.averages]
        scored = [one.model.score_then_learn(X, positive, narrow) for one in self._entrants]
        scores, intercepts = zip(*scored, *averaged)
        before, self._n_learnt = self._n_learnt, self._n_learnt + X.shape[0]
        self._keep_latest(X, positive)
        if before:  # the first block has no other scores than 0
            self._recent.add(np.concatenate(scores, axis=1), positive, np.concatenate(intercepts))
        finite = np.concatenate([np.isfinite(one).all(axis=0) for one in scores])
        self._drop(np.logical_and.reduce(finite.reshape(-1, len(self.live))), "diverged")
        if is_checkpoint(self._n_learnt):
            self._compare()
            self._drop_worse()
        self._n_values += X.nnz
        if len(self._settings) > 1:
            self._see(X)
            n_seen = self.n_occurring(0)
            if n_seen and is_due(self._n_learnt, n_seen * len(self.live), self._n_values):
                self._average()
        # Two numbers while rows double: where the square of the number of rows passes a power of two.
        if (self._n_learnt**2).bit_length() > (before**2).bit_length():
            self._note_progress()

    def _keep_latest(self, X: sparse.csr_matrix, positive: np.ndarray) -> None:
        self._latest.append((X, positive))
        while sum(len(classes) for _, classes in self._latest[1:]) >= _LATEST_ROWS:
            del self._latest[0]

    def _note_progress(self) -> None:
        auc = self.auc()
        if auc is not None:
            self.progress = [*self.progress[-_MOST_PROGRESS + 1 :], [self._n_learnt, auc]]

    def _see(self, X: sparse.csr_matrix) -> None:
        """Note which features occur."""
        if X.shape[1] > len(self._seen):
            self._seen = np.concatenate([self._seen, np.zeros(X.shape[1] - len(self._seen), dtype=bool)])
        self._seen[X.indices] = True

    def _average(self) -> None:
        """Add the weights as they are now to the averages."""
        self._n_values = 0
        if self._entrants[0].averages is None:
            # Up to now an average would have been the last weights.
            self._recent.keep(np.tile(np.arange(len(self.live)), 2))
            for one in self._entrants:
                one.averages = AveragedWeights(len(one.settings))
        # Of a table with categories, few of all features have occurred.
        features = None if self._seen.all() else np.flatnonzero(self._seen)
        for one in self._entrants:
            assert one.averages is not None
            weights = one.model.learner.settings_weights(one.model.n_features if features is None else features)
            one.averages.add(weights, one.model.intercepts(), self._n_learnt, features)

    # ------------------------------------------------------------------ comparisons

    def _compare(self) -> None:
        """Take AUCs and standard errors over the window, and find the leader."""
        live = self.live
        for setting in live:
            setting.n_rows, setting.auc_before = self._n_learnt, setting.auc
            setting.auc = setting.standard_error = None
        if not len(self._recent):
            return
        self._aucs = self._recent.aucs(slice(len(live)))
        if not self._aucs.n_blocks:
            return
        for setting, auc, error in zip(live, self._aucs.aucs, self._standard_errors(self._aucs)):
            setting.auc, setting.standard_error = float(auc), error
        self._leader = live[int(np.argmax(self._aucs.aucs))]

    def _compare_averages(self) -> None:
        """Make the best average the leader if it is better than the best last weights."""
        live = self.live
        if self._entrants[0].averages is None or not len(self._recent) or not self._aucs.n_blocks:
            return
        found = self._recent.aucs(slice(len(live), None))
        without = self._keeps_last_weights()
        best = int(np.argmax(np.where(without, -1.0, found.aucs)))
        if not without[best] and found.aucs[best] > self._leader.auc:
            self._leader = live[best]
            self._leader.auc, self._leader.averaged = float(found.aucs[best]), True
            self._leader.standard_error = self._standard_errors(found)[best]

    def _prefer_default(self) -> None:
        """Make the default setting the leader where few rows do not show that another one is better.

        The best of many settings has to be better by more than two standard errors of the difference.
        """
        live, default = self.live, self._default_setting()
        if self._leader is default or not len(self._recent) or not self._aucs.n_blocks:
            return
        if self._recent.n_rarer >= _FEW_ROWS:
            return
        found = self._recent.aucs()
        place = live.index(default)
        if len(found.aucs) > len(live) and not self._keeps_last_weights()[place]:
            place += len(live) * int(found.aucs[place + len(live)] > found.aucs[place])
        error = found.standard_errors(behind=place)[self._column_of_leader]
        if found.n_blocks >= _FEW_BLOCKS and found.aucs[self._column_of_leader] - found.aucs[place] > 2.0 * error:
            return
        if (best := self._leader).averaged:  # in the leaderboard, only the model can be an average
            last = live.index(best)
            best.auc, best.averaged = float(found.aucs[last]), False
            best.standard_error = self._standard_errors(found)[last]
        self._leader, self.is_undecided = default, True
        default.auc, default.averaged = float(found.aucs[place]), place >= len(live)
        default.standard_error = self._standard_errors(found)[place]

    def _default_setting(self) -> _Setting:
        """Of the first learner's settings, the one nearest to its defaults, if settings cannot be told apart."""
        first = self._entrants[0]
        defaults = first.candidate.learner.get_params()

        def distance(setting: _Setting) -> float:
            changed = [axis for axis in first.candidate.grid or {} if setting.parameters[axis] != defaults[axis]]
            return sum(abs(setting.parameters[axis] - defaults[axis]) / (defaults[axis] or 1.0) for axis in changed)

        return min(first.settings, key=distance)

    def _best(self) -> _Setting | None:
        """The live setting with the largest AUC by its last weights or its average; None if there is no AUC yet."""
        live = self.live
        found = self._recent.aucs(slice(None)) if len(self._recent) else None
        if found is None or not found.n_blocks:
            return None
        without = np.append(np.zeros(len(live), dtype=bool), self._keeps_last_weights())[: len(found.aucs)]
        return live[int(np.argmax(np.where(without, -1.0, found.aucs))) % len(live)]

    def _keeps_last_weights(self) -> np.ndarray:
        """Which live settings never have the average, because it has more weights that are not 0."""
        return np.array([one.parameters.get("l1", 0.0) > 0.0 for one in self.live])

    @staticmethod
    def _standard_errors(found: BlockedAUC) -> list[float | None]:
        """Standard errors of all AUCs; None where there are too few blocks to tell."""
        errors = found.standard_errors().tolist()
        return errors if found.n_blocks >= FEWEST_BLOCKS else [None] * len(errors)

    def _drop_worse(self) -> None:
        """Drop settings that will not be the best, and those that there is no room for any more."""
        live = self.live
        self.lacks_blocks = len(live) > 1 and self._aucs.n_blocks < FEWEST_BLOCKS
        if len(live) == 1 or self.lacks_blocks:
            return
        aucs, before = np.array([(one.auc, one.auc_before) for one in live], dtype=np.float64).T  # None becomes NaN
        kept = settings_to_keep(
            aucs,
            before,
            lambda behind: self._aucs.standard_errors(behind=behind),
            sizes=[len(one.settings) for one in self._entrants],
            n_rows=self._n_learnt,
            n_at_first=len(self._settings),
        )
        self._drop(kept, "dropped")

    def _retire_by_width(self) -> None:
        """Drop learners that do not take so many features; before the first row, as if they had not been candidates."""
        takes = _which_take(self.candidates, self.n_features)
        kept = np.repeat(takes, [len(one.settings) for one in self._entrants])
        if not self._n_learnt:
            self._settings = [setting for setting, stays in zip(self.live, kept) if stays]
        best = None if kept.all() else self._best()
        self._drop(kept, "dropped")
        if best is not None and best not in self.live:
            self.retired_best = best.learner

    def _drop(self, kept: np.ndarray, outcome: str) -> None:
        """Go on with the settings ``kept``, a boolean array over the live ones; the others have this outcome."""
        if kept.all():
            return
        if not kept.any():
            raise self._all_diverged()
        for setting, stays in zip(self.live, kept):
            if not stays:
                setting.outcome, setting.n_rows = outcome, self._n_learnt
        self._recent.keep(np.flatnonzero(kept if self._entrants[0].averages is None else np.tile(kept, 2)))
        start = 0
        for entrant in self._entrants:
            stays = kept[start : start + len(entrant.settings)]
            start += len(stays)
            if stays.any() and not stays.all():
                entrant.model.learner.keep_settings(np.flatnonzero(stays))
                if entrant.averages is not None:
                    entrant.averages.keep(np.flatnonzero(stays))
            entrant.settings = [setting for setting, one in zip(entrant.settings, stays) if one]
        self._entrants = [entrant for entrant in self._entrants if entrant.settings]
        if self._leader not in self.live:
            best = max(self.live, key=lambda one: one.auc or 0.0)
            self._leader = self._default_setting() if best.auc is None else best

    def _all_diverged(self) -> DivergenceError:
        if len(self._settings) == 1:
            return self._entrants[0].model.learner.overflow_error()
        return DivergenceError(f"all {len(self._settings)} settings overflowed within {self._n_learnt:,} rows")


def _tree_of(X: sparse.csr_matrix) -> list:
    """Rows as a list of arrays and their width."""
    return [X.data, X.indices, X.indptr, X.shape[1]]


def _rows_of_tree(saved: Sequence) -> sparse.csr_matrix:
    """What `_tree_of` made a list; ValueError if its parts do not fit."""
    *arrays, width = saved
    X = sparse.csr_matrix(tuple(arrays), shape=(len(arrays[2]) - 1, width))
    X.check_format()
    return X


def _which_take(candidates: Sequence[Candidate], n_features: int) -> list[bool]:
    """Which learners take so many features; all, if none does: they are slow then, but there is no other."""
    takes = [n_features <= (one.most_features or n_features) for one in candidates]
    return takes if any(takes) else [True] * len(takes)
