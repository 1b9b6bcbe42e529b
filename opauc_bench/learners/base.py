"""The learner contract: scikit-learn estimators that can also train a whole grid of settings in one pass.

A learner is two methods on top of this class:

``_begin(n_features, settings)``
    returns a :class:`State`: everything the algorithm remembers, for all settings at once;
``_consume(state, X, y)``
    reads a few rows and changes the state in place.

Inherited are ``fit``, ``partial_fit``, ``fit_grid``, prediction, progress and time limits between chunks of
rows, and the removal of settings that overflow. ``fit`` is the case of a single setting.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse

from .identical_columns import ColumnGroups, identical_columns
from .ranker import DivergenceError, LinearRanker
from .rows import add_class_sums, by_rows, csr_of, fill, rows_between, taken
from .snapshot import as_tree, from_tree

__all__ = ["DivergenceError", "OnePassLearner", "State"]

# A chunk takes about this long, so that limits and progress are checked often enough.
_CHUNK_SECONDS = 0.25
# Most settings that overflow do so at once: short first chunks get rid of them early.
_FIRST_CHUNK = 16
_LONGEST_CHUNK = 4096
_SECONDS_PER_CHECK = 2.5e-9  # of a weight, whether it is finite
_WEIGHTS_AT_ONCE = 1 << 18  # that are gathered for a check
_SECONDS_TO_COMPARE = 7e-8  # per nonzero, and per feature
# Wide rows that are made dense, or made when they are read, come in fewer.
_CHUNK_BYTES = 1 << 26
_DENSE_VALUES = 1 << 21
_FIRST_FEATURES = 256  # of rows that get more and more of them


@dataclass
class State:
    """The state of a learner between rows, for several settings at once.

    Attributes
    ----------
    settings : dict of str to ndarray of shape (n_live,)
        Hyper-parameters of the settings that are still finite.
    W : ndarray of shape (>= n_features, >= n_live)
        One model per column. Kernels may pad both axes with zeros.
    settings_axes : dict of str to int
        Arrays with an axis over the live settings, and which axis that is.
    resizable : tuple of str
        Arrays whose shape depends on the rows so far.
    """

    settings_axes: ClassVar[dict[str, int]] = {"W": -1}
    resizable: ClassVar[tuple[str, ...]] = ()
    settings: dict[str, np.ndarray]
    W: np.ndarray

    @property
    def n_live(self) -> int:
        return len(next(iter(self.settings.values())))

    def expect(self, n_rows: int | None) -> None:
        """Receive the number of rows to come, before the first one; None if it is not known."""

    def stand_for(self, sizes: np.ndarray) -> None:
        """Receive the number of identical features that each one stands for, shape (n_features,), before the first row.

        Only called where the learner has ``_merges_identical_columns``.
        """
        raise TypeError(f"{type(self).__name__} has to define stand_for(sizes)")

    def coef(self, n_features: int) -> np.ndarray:
        """Weights of the live settings, shape (n_features, n_live)."""
        return self.W[:n_features, : self.n_live]

    def finite(self, n_features: int) -> np.ndarray:
        """Which live settings have finite weights, shape (n_live,); checked between chunks of rows."""
        return np.isfinite(self.coef(n_features)).all(axis=0)

    def finite_at(self, features: np.ndarray) -> np.ndarray:
        """Which live settings have finite weights at some ``features``, shape (n_live,)."""
        finite, step = np.ones(self.n_live, dtype=bool), max(1, _WEIGHTS_AT_ONCE // self.n_live)
        for start in range(0, len(features), step):
            finite &= np.isfinite(self.coef_at(features[start : start + step])).all(axis=0)
        return finite

    def finite_elsewhere(self) -> bool:
        """Whether all weights but those of the last rows' features are certainly finite, if they were before.

        Only called where the learner has ``_moves_own_features``, after each chunk of rows.
        """
        return True

    def coef_at(self, features: np.ndarray) -> np.ndarray:
        """Weights of the live settings at some ``features``, which may repeat; shape (len(features), n_live)."""
        return self.coef(int(features.max(initial=-1)) + 1)[features]

    def keep(self, columns: np.ndarray) -> None:
        """Drop every setting but ``columns`` (integer positions among the live ones)."""
        self.settings = {axis: values[columns] for axis, values in self.settings.items()}
        for name, axis in self.settings_axes.items():
            setattr(self, name, taken(getattr(self, name), columns, axis))

    def widened(self, fresh: State) -> State:
        """Move the state into ``fresh``, which has room for more features, and return it.

        It comes from ``_begin``, for the same settings and more features. Arrays are copied into the leading corner of
        its own, which is right where every axis over features begins with the first one, and where a feature that no
        row has had yet leaves nothing but zeros.

        Raises
        ------
        ValueError
            If a new feature would need values other than zeros, or the state has attributes that are not arrays.
        """
        for name, old in vars(self).items():
            new = getattr(fresh, name, None)
            if isinstance(old, np.ndarray) and isinstance(new, np.ndarray):
                if old.shape != new.shape and new.any():
                    raise ValueError(f"{name} does not begin with zeros")
                fill(new, old)
            elif isinstance(old, np.random.Generator):
                setattr(fresh, name, old)
            elif name != "settings" and old != new:
                raise ValueError(f"{name} is not an array")
        return fresh

    def snapshot(self) -> dict[str, Any]:
        """Return everything that is remembered as a tree of arrays and plain values, see :mod:`.snapshot`.

        Raises
        ------
        TypeError
            If the state has an attribute of another type; a learner then defines ``snapshot`` and ``restore``.
        """
        return as_tree(self)

    def restore(self, saved: dict[str, Any]) -> None:
        """Take over what `snapshot` returned; the state comes from ``_begin`` for the same settings and width.

        Raises
        ------
        ValueError
            If names, types or shapes are not those of this state.
        """
        from_tree(self, saved, self.resizable)


class OnePassLearner(LinearRanker):
    """Base class of linear learners that see every example once.

    Subclasses store hyper-parameters in ``__init__`` and implement ``_begin`` and ``_consume``. To train on rows of a
    stream without scikit-learn's checks: ``start_pass``, then ``learn_rows``, ``current_weights`` and ``widen`` in
    any order, at last ``finish_pass``.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
        The last iterate.
    n_samples_seen_ : int
        Rows learnt since ``start_pass`` or the beginning of ``fit``.
    class_counts_ : ndarray of shape (2,)
        How many of them were positive and negative.
    """

    # Whether rows may come one after the other, none of them known beforehand.
    streams = True
    supports_stops = True
    _sparse_chunks = False
    # Whether features of a dense X that are zero in every row are found first and left out.
    _skips_zero_features = False
    # Whether rows change what is stored of their own features only, so that only these are checked for overflow.
    _moves_own_features = False
    # Whether identical features of a sparse X are found first and trained as one.
    _merges_identical_columns = False

    def _begin(self, n_features: int, settings: dict[str, np.ndarray]) -> State:
        """Allocate the state for ``n_features`` and the given settings."""
        raise TypeError(f"{type(self).__name__} has to define _begin(n_features, settings)")

    def _begin_dense(self, n_features: int, settings: dict[str, np.ndarray]) -> State:
        """As ``_begin``, where it is known that all rows will be dense."""
        return self._begin(n_features, settings)

    def _consume(self, state: State, X: Any, y: np.ndarray) -> None:
        """Update ``state`` with rows ``X`` and labels -1/+1 (int8).

        Rows are dense, or where ``_sparse_chunks`` CSR, with no feature stored twice and no zero stored.
        """
        raise TypeError(f"{type(self).__name__} has to define _consume(state, X, y)")

    def seconds_per_row(self, n_features: int, n_nonzero: float, n_settings: int) -> float:
        """Rough CPU time of one row on one core, which ``plan`` and the length of chunks depend on; see ``cost``."""
        return 1e-6 + 1e-9 * n_features * n_settings

    def memory_bytes(self, n_features: int, n_settings: int) -> float:
        """Rough size of the state, in bytes."""
        return 8.0 * n_features * n_settings * 2

    def cost(self, n_rows: float, n_features: int, n_nonzero: float, n_settings: int) -> tuple[float, float]:
        # Weights are checked after each chunk and copied at the end: with many features that is most of the work.
        checks = math.log2(max(2.0, n_rows / _FIRST_CHUNK)) + n_rows / _LONGEST_CHUNK
        checked = checks * n_features
        if self._moves_own_features:
            checked = min(checked, n_rows * n_nonzero)
        seconds = n_rows * self.seconds_per_row(n_features, n_nonzero, n_settings)
        seconds += _SECONDS_PER_CHECK * (checked + 2 * n_features) * n_settings
        if self._merges_identical_columns:  # their number is not known: the estimate is for none
            seconds += _SECONDS_TO_COMPARE * (n_rows * n_nonzero + n_features)
        return seconds, self.memory_bytes(n_features, n_settings)

    # ------------------------------------------------------------------ the whole grid in one pass

    def fit_grid(
        self,
        X: Any,
        y: Any,
        grid: Mapping[str, np.ndarray],
        *,
        order: np.ndarray | None = None,
        on_chunk: Callable[[int], None] | None = None,
        stops: Collection[int] = (),
        on_stop: Callable[[int, Callable[..., np.ndarray]], None] | None = None,
    ) -> np.ndarray:
        """Train every setting of a grid in one pass, as :meth:`LinearRanker.fit_grid`.

        Parameters
        ----------
        X : ndarray or CSR matrix of shape (n_samples, n_features)
            Read in chunks, as ``X[rows]``: it may be memory-mapped and larger than memory, or make its rows when they
            are asked for. Where later rows have more features, it can say so by ``n_leading(rows)``, those that some
            rows and all before them have, and ``leading(n_features)``, which gives ``X`` with the first ones alone: a
            row then costs no more than the features so far.
        stops : collection of int
            Numbers of rows after which to call ``on_stop``.
        on_stop : callable, optional
            Called with the number of rows consumed so far and a function that returns the weights at that point, in
            the form of this method's result; given an array of features, it returns their rows only. Not called any
            more once every setting has overflowed.
        """
        settings, X = self._settings(grid), by_rows(X)
        n_settings = len(next(iter(settings.values())))
        order = np.arange(X.shape[0]) if order is None else np.asarray(order)
        features = _features_in_use(X) if self._skips_zero_features else None
        groups = self._identical_columns(X, order) if self._merges_identical_columns else None
        if groups is not None:
            features = groups.features
        grows = hasattr(X, "n_leading")
        n_features = X.shape[1] if features is None else len(features)
        if grows:
            n_features = min(n_features, _FIRST_FEATURES)
        begin = self._begin_dense if grows else self._begin
        state = begin(n_features, settings)
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

        def weights(at: np.ndarray | None = None) -> np.ndarray:
            if at is not None and groups is None and features is None and not grows:
                some = np.full((len(at), n_settings), np.nan)
                some[:, live] = state.coef_at(at)
                return some
            coef = np.zeros((X.shape[1], n_settings))
            coef[:, np.setdiff1d(np.arange(n_settings), live)] = np.nan
            if len(live) == 0:
                return coef if at is None else coef[at]
            if groups is not None:
                groups.expand(state.coef(n_features), coef, live)
            elif features is not None:
                coef[np.ix_(features, live)] = state.coef(n_features)
            else:
                coef[:n_features, live if len(live) < n_settings else slice(None)] = state.coef(n_features)
            return coef if at is None else coef[at]

        with np.errstate(over="ignore", invalid="ignore"):
            while start < len(order) and len(live):
                end = ends[bisect_right(ends, start)]
                rows = order[start : min(start + length, end)]
                if grows and (n_leading := X.n_leading(rows)) > n_features:
                    n_features = min(X.shape[1], n_leading + n_leading // 8)
                    state = state.widened(_empty_state(begin, n_features, state.settings, n_settings > 1))
                chunk = self._chunk(X.leading(n_features) if grows else X, rows, features)
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

    # ------------------------------------------------------------------ rows of a stream

    def start_pass(
        self, n_features: int, n_rows: int | None = None, grid: Mapping[str, np.ndarray] | None = None
    ) -> None:
        """Forget everything and begin a pass with the estimator's own setting, or with every setting of a grid.

        Parameters
        ----------
        n_features : int
        n_rows : int, optional
            How many rows will come, if that is known.
        grid : mapping of axis name to array of shape (n_settings,), optional
            As in ``fit_grid``. Before ``finish_pass``, ``keep_settings`` has to leave one.

        Raises
        ------
        ValueError
            If a parameter has a value that its constraint does not accept.
        """
        self.check_params()
        settings = self._settings(grid) if grid else self._own_setting()
        self._begin_pass(n_features, n_rows, settings, _length(settings) > 1)

    def _begin_pass(self, n_features: int, n_rows: int | None, settings: dict[str, np.ndarray], several: bool) -> None:
        self._several = several  # whether the pass began with several settings
        self._state = _empty_state(self._begin, n_features, settings, several)
        self._state.expect(n_rows)
        self._width, self._n_rows_expected = n_features, n_rows
        self._class_sums = np.zeros((2, n_features))
        self.class_counts_ = np.zeros(2)
        self.n_samples_seen_ = 0

    def learn_rows(self, X: Any, positive: np.ndarray) -> None:
        """Learn rows; with sparse rows, only the learner's own work depends on the number of features.

        Parameters
        ----------
        X : ndarray or CSR matrix of shape (n, n_features)
            As many features as given to ``start_pass`` or ``widen``, finite values.
        positive : ndarray of bool, shape (n,)
        """
        signs = np.where(positive, 1, -1).astype(np.int8)
        length = _LONGEST_CHUNK
        if sparse.issparse(X) and not self._sparse_chunks:
            length = min(length, max(1, _DENSE_VALUES // X.shape[1]))
        with np.errstate(over="ignore", invalid="ignore"):
            for first in range(0, X.shape[0], length):
                rows = slice(first, min(first + length, X.shape[0]))
                if sparse.issparse(X):
                    chunk = rows_between(X, rows.start, rows.stop)
                    plain = add_class_sums(chunk, positive[rows], self._class_sums)
                    if not (plain and self._sparse_chunks):
                        chunk = self._chunk(chunk, np.arange(chunk.shape[0]), None)
                else:
                    chunk = self._chunk(X, np.arange(rows.start, rows.stop), None)
                self._consume(self._state, chunk, signs[rows])
        for k, members in enumerate((positive, ~positive)):
            self.class_counts_[k] += np.count_nonzero(members)
            if not sparse.issparse(X):
                self._class_sums[k] += X[members].sum(axis=0)
        self.n_samples_seen_ += X.shape[0]

    def score_rows(self, features: np.ndarray, values: sparse.csr_matrix) -> np.ndarray:
        """Scores of rows under the weights as they are, finite or not, shape (n, n_live).

        Parameters
        ----------
        features : ndarray of int, shape (k,)
            Those that the rows have.
        values : csr_matrix of shape (n, k)
            Of these features.
        """
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            return values @ self._state.coef_at(features)

    @property
    def n_rows_expected(self) -> int | None:
        """How many rows the pass was begun for, if that was known."""
        return self._n_rows_expected

    @property
    def live_settings(self) -> dict[str, np.ndarray]:
        """Values of the grid axes of the settings in this pass, each of shape (n_live,)."""
        return self._state.settings

    def keep_settings(self, columns: np.ndarray) -> None:
        """Go on with some of the live settings only, by their positions; if that is one, it becomes the estimator's."""
        self._state.keep(columns)
        if len(columns) == 1:
            self.set_params(**{axis: float(values[0]) for axis, values in self._state.settings.items()})

    def finite_settings(self, n_features: int) -> np.ndarray:
        """Which live settings have finite weights at the first features, shape (n_live,)."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            return self._state.finite(n_features)

    def current_weights(self, features: np.ndarray | None = None) -> np.ndarray:
        """Weights as they are now, finite or not, of all features or at some ``features``, which may repeat."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            if features is None:
                return self._state.coef(self._width)[:, 0].copy()
            return self._state.coef_at(features)[:, 0]

    def trained_intercepts(self) -> np.ndarray | None:
        """Intercepts of the live settings as they are now, shape (n_live,); None if the learner trains none."""
        return None

    def widen(self, n_features: int) -> None:
        """Make room for more features, which have weight 0 until a row has them.

        Raises
        ------
        ValueError
            If the state cannot be widened, as that of SOLAM, whose first weights depend on the number of features.
        """
        fresh = _empty_state(self._begin, n_features, self._state.settings, self._several)
        if self.n_samples_seen_:
            fresh = self._state.widened(fresh)
        else:
            fresh.expect(self._n_rows_expected)
        self._state, self._width = fresh, n_features
        sums, self._class_sums = self._class_sums, np.zeros((2, n_features))
        self._class_sums[:, : sums.shape[1]] = sums

    def snapshot(self) -> dict[str, Any]:
        """Return what a pass remembers, to go on with it elsewhere by `restore`.

        Returns
        -------
        dict
            A tree of arrays, numbers and text, which can be stored without pickle. Arrays are not copied.

        Raises
        ------
        TypeError
            If the state has an attribute that is neither of these nor a random generator.
        """
        return {
            "n_features": self._width,
            "n_rows_expected": self._n_rows_expected,
            "several": self._several,
            "n_rows": self.n_samples_seen_,
            "class_counts": self.class_counts_,
            "class_sums": self._class_sums,
            "state": self._state.snapshot(),
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Begin a pass where `snapshot` was called: rows that follow change the weights as they would have there.

        The parameters have to be the same, those of ``grid_axes`` aside.

        Raises
        ------
        ValueError
            If ``saved`` is not from a learner of this class with these parameters.
        """
        try:
            n_features, n_rows, several = (saved[name] for name in ("n_features", "n_rows_expected", "several"))
            settings = {axis: np.asarray(values, dtype=float) for axis, values in saved["state"]["settings"].items()}
            if set(settings) != set(self.grid_axes) or type(n_features) is not int or type(several) is not bool:
                raise TypeError
            self._begin_pass(n_features, n_rows, self._settings(settings), several)
            if several and self._state.n_live == 1:
                self.set_params(**{axis: float(values[0]) for axis, values in settings.items()})
            # The sums have been cut to the features in use, if the pass was finished.
            sums = saved["class_sums"]
            self._class_sums[:, : sums.shape[1]] = sums
            self.class_counts_ = from_tree(self.class_counts_, saved["class_counts"], name="class_counts")
            self.n_samples_seen_ = from_tree(self.n_samples_seen_, saved["n_rows"], name="n_rows")
            self._state.restore(saved["state"])
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{type(self).__name__}: this is no state of a pass ({error!r})") from error

    def finish_pass(self, n_features: int | None = None):
        """Set ``coef_`` and ``intercept_`` from the rows so far; more rows may follow.

        Parameters
        ----------
        n_features : int, optional
            The first features, if there is room for more.

        Raises
        ------
        DivergenceError
            If a weight is not finite.
        """
        n_features = n_features or self._class_sums.shape[1]
        self._class_sums = np.ascontiguousarray(self._class_sums[:, :n_features])
        weights = self.current_weights()[:n_features]
        if not np.isfinite(weights).all():
            raise self.overflowed()
        self.coef_ = weights[None, :]
        with np.errstate(over="ignore", invalid="ignore"):
            self.intercept_ = np.array([self._intercept(weights)])
        return self

    def overflowed(self) -> DivergenceError:
        """The error that says so."""
        return DivergenceError(
            f"{type(self).__name__} overflowed within {self.n_samples_seen_} rows "
            f"({', '.join(f'{axis}={getattr(self, axis):g}' for axis in self.grid_axes)}): "
            "take smaller steps, or scale the features to [-1, 1]"
        )

    # ------------------------------------------------------------------ scikit-learn

    def fit(self, X: Any, y: Any) -> Self:
        from sklearn.utils.validation import validate_data

        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, order="C")
        self._set_classes(y)
        self.start_pass(X.shape[1], X.shape[0])
        self.learn_rows(X, y == self.classes_[1])
        return self.finish_pass()

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
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
            As ``fit``, or if there is a label that is neither class.
        DivergenceError
            If the weights overflow.
        """
        from sklearn.utils.validation import validate_data

        first = not hasattr(self, "_state")
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, order="C", reset=first)
        if first:
            self._set_classes(y if classes is None else np.asarray(classes))
            self.start_pass(X.shape[1])
        else:
            self.check_params()
        if unknown := sorted(set(np.unique(y).tolist()) - set(self.classes_.tolist())):
            raise ValueError(f"y has the labels {unknown}; the classes are {self.classes_.tolist()}")
        self.learn_rows(X, y == self.classes_[1])
        return self.finish_pass()

    def _intercept(self, weights: np.ndarray) -> float:
        return self._threshold(weights, self._class_sums, self.class_counts_)


def _empty_state(
    begin: Callable[[int, dict[str, np.ndarray]], State],
    n_features: int,
    settings: dict[str, np.ndarray],
    several: bool,
) -> State:
    """A state before the first row, with the layout of a pass that began with several settings, or with one."""
    if not several or _length(settings) > 1:
        return begin(n_features, settings)
    state = begin(n_features, {axis: np.repeat(values, 2) for axis, values in settings.items()})
    state.keep(np.array([0]))
    return state


def _length(settings: Mapping[str, np.ndarray]) -> int:
    """How many settings there are."""
    return len(next(iter(settings.values())))


def _features_in_use(X) -> np.ndarray | None:
    """Columns of a dense ``X`` with any nonzero entry, or None if that is all of them (or ``X`` is no array).

    Where a feature that is zero in every row keeps a zero weight, leaving it out changes nothing: with O(d^2) per step,
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
