"""One pass that trains a whole grid: chunks of rows, the settings that have not overflowed, and their weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from ..errors import LearnerError
from .blocks import BlockOfProducts
from .identical_columns import ColumnGroups, identical_columns
from .state import State, empty_state
from .stream_learner import LONGEST_CHUNK

if TYPE_CHECKING:
    from .base import OnePassLearner

__all__ = ["FIRST_CHUNK", "GridPass"]

# Most settings that overflow do so at once: short first chunks get rid of them early.
FIRST_CHUNK = 16
# A chunk takes about this long, so that limits and progress are checked often enough.
_CHUNK_SECONDS = 0.25
# Wide rows that are made when they are read come in fewer.
_CHUNK_BYTES = 1 << 26
_FIRST_FEATURES = 256  # of rows that get more and more of them


class GridPass:
    """The state of every setting of a grid in a pass over the rows ``order`` of ``X``; see `OnePassLearner.fit_grid`.

    Attributes
    ----------
    live : ndarray of int
        The settings that have not overflowed.
    length : int
        How many rows the next chunk should have.

    Raises
    ------
    LearnerError
        If ``_begin`` of the learner does not return a state of the right shape.
    """

    def __init__(self, learner: OnePassLearner, X: Any, order: np.ndarray, settings: dict[str, np.ndarray]):
        self._learner, self._X = learner, X
        self._n_settings = len(next(iter(settings.values())))
        self._features = _features_in_use(X) if learner._skips_zero_features else None
        self._groups = self._identical_columns(order) if learner._merges_identical_columns else None
        if self._groups is not None:
            self._features = self._groups.features
        self._grows = hasattr(X, "n_leading")
        self._n_features = X.shape[1] if self._features is None else len(self._features)
        if self._grows:
            self._n_features = min(self._n_features, _FIRST_FEATURES)
        self._begin = learner._begin if sparse.issparse(X) else learner._begin_dense
        self._state = self._begun(settings, len(order))
        self._n_nonzero = X.nnz / max(1, X.shape[0]) if sparse.issparse(X) else float(X.shape[1])
        self._most = LONGEST_CHUNK
        if not (sparse.issparse(X) and learner._sparse_chunks):
            self._most = min(self._most, max(1, _CHUNK_BYTES // (8 * X.shape[1])))
        self.live = np.arange(self._n_settings)
        self.length = min(FIRST_CHUNK, self._most)

    def _begun(self, settings: dict[str, np.ndarray], n_rows: int) -> State:
        state = self._begin(self._n_features, settings)
        if not isinstance(state, State):
            name = type(self._learner).__name__
            raise LearnerError(f"{name}._begin has to return a State, got {type(state).__name__}")
        state.require_shape(self._n_features, self._n_settings)
        state.expect(n_rows)
        if self._groups is not None:
            state.stand_for(self._groups.sizes)
        return state

    def learn(self, rows: np.ndarray, y: np.ndarray) -> None:
        """Learn some rows, and drop the settings that overflow."""
        X, learner = self._X, self._learner
        if self._grows and (n_leading := X.n_leading(rows)) > self._n_features:
            self._n_features = min(X.shape[1], n_leading + n_leading // 8)
            fresh = empty_state(self._begin, self._n_features, self._state.settings, self._n_settings > 1)
            self._state = self._state.widened(fresh)
        leading = X.leading(self._n_features) if self._grows else X
        chunk = learner._chunk(leading, rows, self._features)
        if hasattr(X, "places"):
            chunk = BlockOfProducts(chunk, X.places(rows), leading.visited)
        learner._consume_at_hand(self._state, chunk, np.asarray(y, dtype=np.int8))
        finite = learner._finite(self._state, chunk, self._n_features)
        if not finite.all():
            self.live = self.live[finite]
            if len(self.live):
                self._state.keep(np.flatnonzero(finite))
        seconds = learner.seconds_per_row(self._n_features, self._n_nonzero, max(1, len(self.live)))
        self.length = min(2 * self.length, max(FIRST_CHUNK, int(_CHUNK_SECONDS / seconds)), self._most)

    def weights(self, at: np.ndarray | None = None) -> np.ndarray:
        """Weights of all settings, shape (n_features, n_settings), NaN for those that overflowed.

        Given an array of features, their rows only.
        """
        live, n_settings = self.live, self._n_settings
        if at is not None and self._groups is None and self._features is None and not self._grows:
            some = np.full((len(at), n_settings), np.nan)
            some[:, live] = self._state.coef_at(at)
            return some
        coef = np.zeros((self._X.shape[1], n_settings))
        coef[:, np.setdiff1d(np.arange(n_settings), live)] = np.nan
        if len(live):
            self._put_into(coef)
        return coef if at is None else coef[at]

    def _put_into(self, coef: np.ndarray) -> None:
        """Write the weights of the live settings into their columns."""
        found, shape = self._state.coef(self._n_features), (self._n_features, len(self.live))
        if np.shape(found) != shape:
            raise LearnerError(
                f"expected weights of shape (n_features, n_settings), here {shape}; got {np.shape(found)}",
                "opauc-bench learners check FILE:CLASS",
            )
        if self._groups is not None:
            self._groups.expand(found, coef, self.live)
        elif self._features is not None:
            coef[np.ix_(self._features, self.live)] = found
        else:
            coef[: self._n_features, self.live if len(self.live) < self._n_settings else slice(None)] = found

    def _identical_columns(self, order: np.ndarray) -> ColumnGroups | None:
        """Groups of identical columns in the rows ``order`` of a sparse ``X``; None if it is dense."""
        if not sparse.issparse(self._X):
            return None
        stored = sparse.csr_matrix(self._X)  # the rows alone, if X does more when it is asked for them
        pieces = [order[start : start + LONGEST_CHUNK] for start in range(0, len(order), LONGEST_CHUNK)]
        chunk = self._learner._chunk
        return identical_columns(lambda: (chunk(stored, rows, None) for rows in pieces), stored.shape[1])


def _features_in_use(X: Any) -> np.ndarray | None:
    """Columns of a dense ``X`` with any nonzero entry, or None if that is all of them (or ``X`` is not an array).

    Where a feature that is zero in every row keeps a zero weight, leaving it out changes nothing: with O(d^2) per step,
    on mnist it saves a seventh of the work.
    """
    if not isinstance(X, np.ndarray):
        return None
    used = np.zeros(X.shape[1], dtype=bool)
    for start in range(0, X.shape[0], LONGEST_CHUNK):
        used |= (X[start : start + LONGEST_CHUNK] != 0).any(axis=0)
        if used.all():
            return None
    return np.flatnonzero(used)
