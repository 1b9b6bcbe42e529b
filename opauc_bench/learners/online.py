"""One model on rows that come piece by piece, with a number of features that is not known beforehand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from ..errors import LearnerError
from ..memory import total_memory
from .base import OnePassLearner
from .rows import MOST_FEATURES, csr_rows
from .state import n_settings_of

__all__ = ["OnlineModel", "ParameterError", "memory_of", "require_memory"]

# Overflow shows in the scores of the next rows, unless they have none of the features concerned.
_PIECES_BETWEEN_CHECKS = 64


class ParameterError(LearnerError):
    """A parameter has a value that the learner does not accept."""


class OnlineModel:
    """Train a learner on pieces of CSR rows that may have ever more features.

    The state grows when a feature comes that it has no room for: new features have weight 0 until then. Where a step
    touches every feature it grows by as much as needed, because room costs time there, otherwise to twice its size.
    Memory is that of the learner's state, whatever the number of rows.

    Parameters
    ----------
    learner : OnePassLearner
        Its settings are used, and it is what `finish` returns.
    n_features : int, optional
        Width from the beginning; wider rows widen it.
    n_rows : int, optional
        How many rows will come, for learners that need the number.
    grid : mapping of axis name to array of shape (n_settings,), optional
        Settings to train side by side, instead of the learner's own.

    Attributes
    ----------
    n_features : int
        Given, or one more than the largest index so far.

    Raises
    ------
    ParameterError
        If a parameter has a value that the learner does not accept.
    """

    def __init__(self, learner: OnePassLearner, *, n_features: int | None = None, n_rows: int | None = None, grid=None):
        self.learner = learner
        self.n_features = 0
        self._room = 0
        self._n_pieces = 0
        try:
            learner.start_pass(1, n_rows, grid)
        except (ValueError, TypeError) as error:
            name = type(learner).__name__
            raise ParameterError(str(error) if str(error).startswith(f"{name}: ") else f"{name}: {error}") from error
        if n_features:
            self._widen(n_features)

    @staticmethod
    def can_widen(learner: OnePassLearner) -> bool:
        """Whether the learner's state can take on features midway: tried on a few made-up rows.

        It can if the weights are those of a state that had room from the beginning. Those of SOLAM are not: its first
        weights depend on the number of features.
        """
        params = learner.get_params()
        params |= {"random_state": 0} if "random_state" in params else {}
        wide, grown = (OnlineModel(type(learner)(**params), n_features=n, n_rows=40) for n in (7, None))
        rng = np.random.default_rng(0)
        X, positive = rng.uniform(-1, 1, (40, 7)), np.arange(40) % 3 == 0
        X[:20, 3:] = 0.0
        try:
            for model in (wide, grown):
                model.learn(sparse.csr_matrix(X[:20, : model.n_features or 3]), positive[:20])
                model.learn(sparse.csr_matrix(X[20:]), positive[20:])
        except LearnerError:
            return False
        weights, expected = grown.learner.current_weights()[:7], wide.learner.current_weights()[:7]
        return np.allclose(weights, expected, rtol=1e-9, atol=1e-12, equal_nan=True)

    def snapshot(self) -> dict[str, Any]:
        """Return what the pass remembers, as `OnePassLearner.snapshot`."""
        return {"n_features": self.n_features, "learner": self.learner.snapshot()}

    @classmethod
    def restored(cls, learner: OnePassLearner, saved: Mapping[str, Any]) -> OnlineModel:
        """Go on where `snapshot` was called: rows that follow give the same model, bit for bit, as without the pause.

        Parameters
        ----------
        learner : OnePassLearner
            Not trained, with the parameters of the one in ``saved``.
        saved : mapping
            From `snapshot`.

        Raises
        ------
        ValueError
            If ``saved`` does not belong to this learner.
        """
        model = cls.__new__(cls)
        try:
            model.restore(learner, saved)
        except (KeyError, TypeError) as error:
            raise ValueError(f"this is not the state of a pass ({error!r})") from error
        return model

    def restore(self, learner: OnePassLearner, saved: Mapping[str, Any]) -> None:
        """Take over a learner and what `snapshot` returned, instead of all that is there."""
        learner.restore(saved["learner"])
        n_features, room = saved["n_features"], saved["learner"]["n_features"]
        if type(n_features) is not int or not 0 <= n_features <= room:
            raise ValueError(f"{n_features!r} features in a state with room for {room}")
        self.learner, self.n_features, self._room, self._n_pieces = learner, n_features, room, 0

    @property
    def n_rows(self) -> int:
        """Rows learnt so far."""
        return self.learner.n_samples_seen_

    def scores(self, X: sparse.csr_matrix) -> np.ndarray:
        """Scores w'x of rows under the weights as they are, shape (n,); features without room yet are ignored.

        Raises
        ------
        DivergenceError
            If the weights have overflowed.
        """
        if not self.n_rows:
            return np.zeros(X.shape[0])
        with np.errstate(over="ignore", invalid="ignore"):
            known = X.indices < self._room
            products = np.zeros(X.nnz)
            products[known] = self.learner.current_weights(X.indices[known]) * X.data[known]
            rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
            scores = np.bincount(rows, weights=products, minlength=X.shape[0])
        if not np.isfinite(scores).all():
            self._check_overflow()
        return scores

    def learn(self, X: sparse.csr_matrix, positive: np.ndarray) -> None:
        """Learn rows, whose classes are given by a boolean array of shape (n,).

        Raises
        ------
        DivergenceError
            If the weights have overflowed.
        LearnerError
            If a new feature needs more memory than there is, or the learner cannot take it on.
        """
        self.learner.learn_rows(self._fitting(X), positive)
        self._n_pieces += 1
        if self._n_pieces % _PIECES_BETWEEN_CHECKS == 0:
            self._check_overflow()

    def score_then_learn(
        self, X: sparse.csr_matrix, positive: np.ndarray, narrow: tuple | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Learn rows, and return how all settings scored them before, as `StreamLearner.score_rows`.

        Parameters
        ----------
        X : csr_matrix of shape (n, any)
        positive : ndarray of bool, shape (n,)
        narrow : tuple, optional
            ``narrowed(X)``, to score with the weights of these features only.

        Raises
        ------
        LearnerError
            As `learn`.
        """
        X = self._fitting(X)
        scores, intercepts = self.learner.score_rows(*(narrow or (None, X)))
        if not self.n_rows:  # some learners have no weights yet
            scores[:] = 0.0
        self.learner.learn_rows(X, positive)
        return scores, intercepts

    def intercepts(self) -> np.ndarray:
        """Intercepts of all settings as they are now, if the learner trains them, otherwise zeros; shape (n_live,)."""
        trained = self.learner.trained_intercepts()
        n_live = n_settings_of(self.learner.live_settings)
        return np.zeros(n_live) if trained is None else np.array(trained[:n_live])

    def finite(self) -> np.ndarray:
        """Which settings have finite weights, shape (n_live,)."""
        return self.learner.finite_settings(max(self.n_features, 1))

    def make_room(self, n_features: int) -> None:
        """Widen the state, if it has fewer features; LearnerError as `learn`."""
        if n_features > self.n_features or not self._room:
            self._widen(max(n_features, 1))

    def _fitting(self, X: sparse.csr_matrix) -> sparse.csr_matrix:
        """Rows as wide as the state, which is widened if need be."""
        self.make_room(X.shape[1])
        if X.shape[1] == self._room:
            return X
        return csr_rows(X.data, X.indices, X.indptr, self._room)

    def finish(self, classes: np.ndarray, average: tuple[np.ndarray, float] | None = None) -> OnePassLearner:
        """Return the learner as a fitted estimator for ``n_features`` features and ``classes`` (the positive last).

        ``average`` is that of `StreamLearner.finish_pass`.

        Raises
        ------
        DivergenceError
            If the weights have overflowed.
        """
        self.learner.classes_ = np.asarray(classes)
        self.learner.n_features_in_ = self.n_features
        return self.learner.finish_pass(self.n_features, average)

    def _check_overflow(self) -> None:
        if not np.isfinite(self.learner.current_weights()[: self.n_features]).all():
            self.learner.finish_pass(self.n_features)

    def _widen(self, n_features: int) -> None:
        """Make room for ``n_features`` and count them."""
        if n_features > self._room:
            room = self._room_for(n_features)
            try:
                self.learner.widen(room)
            except MemoryError:
                raise _memory_error(self.learner, room) from None
            except ValueError as error:
                raise LearnerError(
                    f"{type(self.learner).__name__} cannot accept new features during the pass: it began with "
                    f"{self.n_features:,}, and then came feature {n_features:,} ({error})",
                    "--features N  # the largest index in the data",
                ) from error
            self._room = room
        self.n_features = n_features

    def _room_for(self, n_features: int) -> int:
        """A width that leaves room for more, where width costs memory only; otherwise as much as needed."""
        learner = self.learner
        if n_features > MOST_FEATURES or _bytes(learner, n_features) > total_memory():
            raise _memory_error(learner, n_features)
        narrow, wide = (learner.seconds_per_row(width, 1.0, 1) for width in (n_features, 4 * n_features))
        ample = min(2 * self._room, MOST_FEATURES)
        costs_memory_only = wide < 1.5 * narrow and _bytes(learner, ample) <= total_memory()
        return ample if ample > n_features and costs_memory_only else n_features


def require_memory(models: Sequence[OnlineModel], n_features: int) -> None:
    """Check that this machine has memory for several models with so many features.

    Raises
    ------
    LearnerError
        If it has not.
    """
    needed = memory_of(models, n_features)
    if len(models) > 1 and needed > total_memory():
        raise LearnerError(
            f"{len(models)} learners would need {needed / 1e9:,.1f} GB for {n_features:,} features; "
            f"this machine has {total_memory() / 1e9:,.1f} GB",
            "number the features without gaps (of a table: fewer --bits), or train one setting anew: --no-tune",
        )


def memory_of(models: Sequence[OnlineModel], n_features: int) -> float:
    """Estimate of the bytes that several models take for so many features."""
    return sum(_bytes(model.learner, n_features) for model in models)


def _bytes(learner: OnePassLearner, width: int) -> float:
    """Size of the state, and of the class sums beside it."""
    return float(learner.memory_bytes(width, n_settings_of(learner.live_settings))) + 16.0 * width


def _memory_error(learner: OnePassLearner, width: int) -> LearnerError:
    needed = _bytes(learner, width)
    refused = "the system does not give this process so much: is there a limit (ulimit -a)?"
    has = f"this machine has {total_memory() / 1e9:,.1f} GB" if needed > total_memory() else refused
    return LearnerError(
        f"{type(learner).__name__} would need {needed / 1e9:,.1f} GB for {width:,} features; {has}",
        "number the features without gaps (of a table: fewer --bits), or use a learner with less memory per feature",
    )
