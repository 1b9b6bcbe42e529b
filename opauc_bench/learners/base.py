"""The learner contract: scikit-learn estimators that can also train a whole grid of settings in one pass.

A learner is two methods on top of this class:

``_begin(n_features, settings)``
    returns a :class:`State`: everything the algorithm remembers, for all settings at once;
``_consume(state, X, y)``
    reads a few rows and changes the state in place.

What comes for free: ``fit``, ``partial_fit``, ``fit_grid``, prediction, progress and time limits between chunks of
rows, and the removal of settings that overflow. ``fit`` is the case of a single setting.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from sklearn.utils.validation import validate_data

from .identical_columns import ColumnGroups, identical_columns
from .ranker import DivergenceError, LinearRanker
from .rows import by_rows, csr_of

__all__ = ["DivergenceError", "OnePassLearner", "State"]

# A chunk is about this long, so that limits and progress are looked at often enough.
_CHUNK_SECONDS = 0.25
# Most settings that overflow do so at once: short first chunks get rid of them early.
_FIRST_CHUNK = 16
_LONGEST_CHUNK = 4096
_SECONDS_A_LOOK = 2.5e-9  # a weight
_WEIGHTS_AT_ONCE = 1 << 18  # that are gathered for a look
_SECONDS_TO_COMPARE = 7e-8  # a nonzero, and a feature
# Wide rows that are made dense, or made when they are read, come in fewer.
_CHUNK_BYTES = 1 << 26


@dataclass
class State:
    """What a learner remembers between rows, for several settings at once.

    Attributes
    ----------
    settings : dict of str to ndarray of shape (n_live,)
        Hyper-parameters of the settings that are still finite.
    W : ndarray of shape (>= n_features, >= n_live)
        One model a column. Kernels may pad both axes with zeros.
    """

    settings: dict[str, np.ndarray]
    W: np.ndarray

    @property
    def n_live(self) -> int:
        return len(next(iter(self.settings.values())))

    def expect(self, n_rows: int | None) -> None:
        """Be told how many rows will come in all, before the first one does; None if nobody knows."""

    def stand_for(self, sizes: np.ndarray) -> None:
        """Be told how many identical features each one stands for, shape (n_features,), before the first row.

        Of the states of learners with ``_merges_identical_columns``.
        """
        raise TypeError(f"{type(self).__name__} has to define stand_for(sizes)")

    def coef(self, n_features: int) -> np.ndarray:
        """Weights of the live settings, shape (n_features, n_live)."""
        return self.W[:n_features, : self.n_live]

    def finite(self, n_features: int) -> np.ndarray:
        """Which live settings have finite weights, shape (n_live,); looked at between chunks of rows."""
        return np.isfinite(self.coef(n_features)).all(axis=0)

    def finite_at(self, features: np.ndarray) -> np.ndarray:
        """Which live settings have finite weights at some ``features``, shape (n_live,)."""
        finite, step = np.ones(self.n_live, dtype=bool), max(1, _WEIGHTS_AT_ONCE // self.n_live)
        for start in range(0, len(features), step):
            finite &= np.isfinite(self.coef_at(features[start : start + step])).all(axis=0)
        return finite

    def finite_elsewhere(self) -> bool:
        """Whether the weights of all features but those of the last rows are finite for certain, if they were before.

        Asked of the states of learners with ``_moves_own_features``, after each chunk of rows.
        """
        return True

    def coef_at(self, features: np.ndarray) -> np.ndarray:
        """Weights of the live settings at some ``features``, which may repeat; shape (len(features), n_live)."""
        return self.coef(int(features.max(initial=-1)) + 1)[features]

    def keep(self, columns: np.ndarray) -> None:
        """Drop every setting but ``columns`` (integer positions among the live ones)."""
        self.settings = {axis: values[columns] for axis, values in self.settings.items()}
        self.W = np.ascontiguousarray(self.W[:, columns])

    def widened(self, fresh: State) -> State:
        """Move what has been learnt into a new state that has room for more features, and return that one.

        Arrays are copied into the leading corner of the new ones, which is right where every axis that goes by features
        begins with the first one, and where a feature that no row has had yet leaves nothing but zeros.

        Parameters
        ----------
        fresh : State
            As ``_begin`` makes it for the same settings and more features. It is written to.

        Raises
        ------
        ValueError
            If the state cannot be widened, because something else than zeros belongs to a new feature, or because it
            keeps what is no array.
        """
        for name, old in vars(self).items():
            new = getattr(fresh, name, None)
            if isinstance(old, np.ndarray) and isinstance(new, np.ndarray):
                if old.shape != new.shape and new.any():
                    raise ValueError(f"{name} does not begin with zeros")
                new[tuple(map(slice, old.shape))] = old
            elif isinstance(old, np.random.Generator):
                setattr(fresh, name, old)
            elif name != "settings" and old != new:
                raise ValueError(f"{name} is no array")
        return fresh


class OnePassLearner(LinearRanker):
    """Base class of linear learners that see every example once.

    Subclasses store hyper-parameters in ``__init__`` and implement ``_begin`` and ``_consume``.
    """

    # Whether rows may come one after the other, none of them known beforehand.
    streams = True
    _sparse_chunks = False
    # Whether a dense X is looked through first, so that features that are zero in every row need not be carried.
    _skips_zero_features = False
    # Whether rows change what is stored of their own features only, so that nothing else need be looked at after them.
    _moves_own_features = False
    # Whether the rows of a sparse X are looked through first, so that identical features are carried as one.
    _merges_identical_columns = False

    def _begin(self, n_features: int, settings: dict[str, np.ndarray]) -> State:
        """Allocate the state for ``n_features`` and the given settings."""
        raise TypeError(f"{type(self).__name__} has to define _begin(n_features, settings)")

    def _consume(self, state: State, X, y: np.ndarray) -> None:
        """Update ``state`` with rows ``X`` and labels -1/+1 (int8).

        Rows are dense, or where ``_sparse_chunks`` CSR, with no feature stored twice and no zero stored.
        """
        raise TypeError(f"{type(self).__name__} has to define _consume(state, X, y)")

    def seconds_per_row(self, n_features: int, n_nonzero: float, n_settings: int) -> float:
        """Rough CPU time of one row on one core, which ``plan`` and the length of chunks go by.

        Parameters
        ----------
        n_features : int
        n_nonzero : float
            Nonzero features of an average row.
        n_settings : int
        """
        return 1e-6 + 1e-9 * n_features * n_settings

    def memory_bytes(self, n_features: int, n_settings: int) -> float:
        """Rough size of the state, in bytes."""
        return 8.0 * n_features * n_settings * 2

    def cost(self, n_rows, n_features, n_nonzero, n_settings):
        # Weights are looked at after each chunk and copied at the end: with many features that is most of the work.
        looks = math.log2(max(2.0, n_rows / _FIRST_CHUNK)) + n_rows / _LONGEST_CHUNK
        looked_at = looks * n_features
        if self._moves_own_features:
            looked_at = min(looked_at, n_rows * n_nonzero)
        seconds = n_rows * self.seconds_per_row(n_features, n_nonzero, n_settings)
        seconds += _SECONDS_A_LOOK * (looked_at + 2 * n_features) * n_settings
        if self._merges_identical_columns:  # how many there are nobody knows: the rest is what it takes without any
            seconds += _SECONDS_TO_COMPARE * (n_rows * n_nonzero + n_features)
        return seconds, self.memory_bytes(n_features, n_settings)

    # ------------------------------------------------------------------ the whole grid in one pass

    def fit_grid(
        self,
        X,
        y,
        grid: Mapping[str, np.ndarray],
        *,
        order: np.ndarray | None = None,
        on_chunk: Callable[[int], None] | None = None,
        stops: Collection[int] = (),
        on_stop: Callable[[int, Callable[[], np.ndarray]], None] | None = None,
    ) -> np.ndarray:
        """Train every setting of a grid in one pass over the rows.

        Parameters
        ----------
        X : ndarray or CSR matrix of shape (n_samples, n_features)
            Read in chunks, as ``X[rows]``: it may be memory-mapped and larger than memory, or make its rows when they
            are asked for.
        y : ndarray of shape (n_samples,)
            Labels, -1 or +1.
        grid : mapping of axis name to array of shape (n_settings,)
            One value a setting for each name in ``grid_axes`` that should differ from this estimator's own value.
        order : ndarray of int, optional
            Rows to visit, in this order; by default all of them from first to last.
        on_chunk : callable, optional
            Called with the number of rows consumed so far after each chunk; what it raises ends the pass.
        stops : collection of int
            Numbers of rows after which to call ``on_stop``.
        on_stop : callable, optional
            Called with the number of rows consumed so far and a function that returns the weights at that point, in
            the form of this method's result. Not called any more once every setting has overflowed.

        Returns
        -------
        coef : ndarray of shape (n_features, n_settings)
            One model a column. Columns of settings that overflowed are NaN.

        Raises
        ------
        ValueError
            If ``grid`` is empty, has an unknown axis or axes of different lengths.
        """
        settings, X = self._settings(grid), by_rows(X)
        n_settings = len(next(iter(settings.values())))
        order = np.arange(X.shape[0]) if order is None else np.asarray(order)
        features = _features_in_use(X) if self._skips_zero_features else None
        groups = self._identical_columns(X, order) if self._merges_identical_columns else None
        if groups is not None:
            features = groups.features
        n_features = X.shape[1] if features is None else len(features)
        state = self._begin(n_features, settings)
        state.expect(len(order))
        if groups is not None:
            state.stand_for(groups.sizes)
        live = np.arange(n_settings)
        n_nonzero = X.nnz / X.shape[0] if sparse.issparse(X) else float(X.shape[1])
        most = _LONGEST_CHUNK
        if not (sparse.issparse(X) and self._sparse_chunks):
            most = min(most, max(1, _CHUNK_BYTES // (8 * X.shape[1])))
        start, length = 0, min(_FIRST_CHUNK, most)
        ends = sorted({*stops, len(order)})

        def weights() -> np.ndarray:
            coef = np.zeros((X.shape[1], n_settings))
            coef[:, np.setdiff1d(np.arange(n_settings), live)] = np.nan
            if len(live) == 0:
                return coef
            if groups is not None:
                groups.expand(state.coef(n_features), coef, live)
            elif features is not None:
                coef[np.ix_(features, live)] = state.coef(n_features)
            else:
                coef[:, live if len(live) < n_settings else slice(None)] = state.coef(n_features)
            return coef

        with np.errstate(over="ignore", invalid="ignore"):
            while start < len(order) and len(live):
                end = next(end for end in ends if end > start)
                rows = order[start : min(start + length, end)]
                chunk = self._chunk(X, rows, features)
                self._consume(state, chunk, np.asarray(y[rows], dtype=np.int8))
                finite = self._finite(state, chunk, n_features)
                if not finite.all():
                    live = live[finite]
                    if len(live):
                        state.keep(np.flatnonzero(finite))
                start += len(rows)
                longest = int(_CHUNK_SECONDS / self.seconds_per_row(n_features, n_nonzero, max(1, len(live))))
                length = min(2 * length, max(_FIRST_CHUNK, longest), most)
                if on_chunk is not None:
                    on_chunk(start)
                if on_stop is not None and start in stops and len(live):
                    on_stop(start, weights)
        return weights()

    def _finite(self, state: State, chunk, n_features: int) -> np.ndarray:
        """Which settings have finite weights after a chunk, if all had before; shape (n_live,)."""
        if not (self._moves_own_features and state.finite_elsewhere()):
            return state.finite(n_features)
        own = np.zeros(n_features, dtype=bool)
        own[chunk.indices] = True
        return state.finite_at(np.flatnonzero(own))

    def _identical_columns(self, X, order: np.ndarray) -> ColumnGroups | None:
        """Groups of identical columns in the rows ``order`` of a sparse ``X``; None if it is dense."""
        if not sparse.issparse(X):
            return None
        stored = sparse.csr_matrix(X)  # the rows alone, if X does more when it is asked for them
        starts = range(0, len(order), _LONGEST_CHUNK)
        return identical_columns(
            lambda: (self._chunk(stored, order[start : start + _LONGEST_CHUNK], None) for start in starts), X.shape[1]
        )

    def _chunk(self, X, rows: np.ndarray, features: np.ndarray | None):
        """Rows of ``X`` in the form that the kernel reads."""
        chunk = X[rows]
        if sparse.issparse(chunk):
            if chunk.dtype != np.float64:
                chunk = chunk.astype(np.float64)
            if not self._sparse_chunks:
                return chunk.toarray()
            if features is not None:
                chunk = chunk[:, features]
            chunk.sum_duplicates()
            if not chunk.data.all():
                chunk.eliminate_zeros()
            return chunk
        if features is not None:
            chunk = chunk[:, features]
        chunk = np.ascontiguousarray(chunk, dtype=np.float64)
        return csr_of(chunk) if self._sparse_chunks else chunk

    # ------------------------------------------------------------------ scikit-learn

    def fit(self, X, y):
        """Train on the rows of ``X`` from first to last, forgetting everything before.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Two classes; ``classes_[1]``, the greater label, is the positive one.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If there are not exactly two classes.
        DivergenceError
            If the weights overflow.
        """
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, order="C")
        self._set_classes(y)
        self._forget(X.shape[1], X.shape[0])
        return self._learn(X, y)

    def partial_fit(self, X, y, classes=None):
        """Go on training with more rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        classes : array-like of shape (2,), optional
            Both labels; needed in the first call unless ``y`` has both.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If there are not exactly two classes, or a label that is neither.
        DivergenceError
            If the weights overflow.
        """
        first = not hasattr(self, "_state")
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, order="C", reset=first)
        if first:
            self._set_classes(y if classes is None else np.asarray(classes))
            self._forget(X.shape[1], None)
        return self._learn(X, y)

    def _forget(self, n_features: int, n_rows: int | None) -> None:
        self._state = self._new_state(n_features)
        self._state.expect(n_rows)
        self._class_counts = np.zeros(2)
        self._class_sums = np.zeros((2, n_features))
        self.n_samples_seen_ = 0

    def _new_state(self, n_features: int) -> State:
        """A state for the estimator's own setting."""
        self.check_params()
        return self._begin(n_features, {axis: np.array([float(getattr(self, axis))]) for axis in self.grid_axes})

    def _learn(self, X, y):
        if strangers := sorted(set(np.unique(y).tolist()) - set(self.classes_.tolist())):
            raise ValueError(f"y has the labels {strangers}; the classes are {self.classes_.tolist()}")
        self._take_in(X, y == self.classes_[1])
        with np.errstate(over="ignore", invalid="ignore"):
            weights = self._state.coef(X.shape[1])[:, 0].copy()
        return self._present(weights)

    def _take_in(self, X, positive: np.ndarray) -> None:
        """Consume checked rows; no work but the learner's own goes by the number of features if ``X`` is sparse."""
        signs = np.where(positive, 1, -1).astype(np.int8)
        with np.errstate(over="ignore", invalid="ignore"):
            for start in range(0, X.shape[0], _LONGEST_CHUNK):
                rows = np.arange(start, min(start + _LONGEST_CHUNK, X.shape[0]))
                self._consume(self._state, self._chunk(X, rows, None), signs[rows])
        for k, members in enumerate((positive, ~positive)):
            self._class_counts[k] += np.count_nonzero(members)
            if sparse.issparse(X):
                # One entry after the other: the same sums, however the rows are cut into pieces.
                stored = np.repeat(members, np.diff(X.indptr))
                np.add.at(self._class_sums[k], X.indices[stored], X.data[stored])
            else:
                self._class_sums[k] += X[members].sum(axis=0)
        self.n_samples_seen_ += X.shape[0]

    def _present(self, weights: np.ndarray):
        """Set what a trained estimator shows; divergence is found here."""
        if not np.isfinite(weights).all():
            raise DivergenceError(
                f"{type(self).__name__} overflowed within {self.n_samples_seen_} rows "
                f"({', '.join(f'{axis}={getattr(self, axis):g}' for axis in self.grid_axes)}): "
                "take smaller steps, or scale the features to [-1, 1]"
            )
        self.coef_ = weights[None, :]
        with np.errstate(over="ignore", invalid="ignore"):
            self.intercept_ = np.array([self._intercept(weights)])
        return self

    def _intercept(self, weights: np.ndarray) -> float:
        return self._threshold(weights, self._class_sums, self._class_counts)


def _features_in_use(X) -> np.ndarray | None:
    """Columns of a dense ``X`` with any nonzero entry, or None if that is all of them (or ``X`` is no array).

    Where a feature that is zero in every row keeps a zero weight, leaving it out changes nothing: with O(d^2) a step,
    on mnist it saves a seventh of the work.
    """
    if not isinstance(X, np.ndarray):
        return None
    used = np.zeros(X.shape[1], dtype=bool)
    for start in range(0, X.shape[0], _LONGEST_CHUNK):
        used |= (X[start : start + _LONGEST_CHUNK] != 0).any(axis=0)
        if used.all():
            return None
    return np.flatnonzero(used)
