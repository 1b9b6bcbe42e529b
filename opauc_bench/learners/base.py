"""The learner contract: scikit-learn estimators that can also train a whole grid of settings in one pass.

A learner is two methods on top of this class:

``_begin(n_features, settings)``
    returns a `State`: everything the algorithm remembers, for all settings at once;
``_consume(state, X, y)``
    reads a few rows and changes the state in place.

Inherited are ``fit``, ``partial_fit``, ``fit_grid``, prediction, progress and time limits between chunks of
rows, and the removal of settings that overflow. ``fit`` is the case of a single setting.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping
from typing import Any, Self

import numpy as np
from scipy import sparse

from .grid_pass import FIRST_CHUNK, GridPass
from .ranker import DivergenceError
from .rows import by_rows, check_rows
from .snapshot import is_writeable
from .state import State
from .stream_learner import LONGEST_CHUNK, StreamLearner

__all__ = ["DivergenceError", "OnePassLearner", "State"]

_SECONDS_PER_CHECK = 2.5e-9  # whether a weight is finite
_SECONDS_TO_COMPARE = 7e-8  # per nonzero, and per feature


class OnePassLearner(StreamLearner):
    """Base class of linear learners that see every example once.

    Subclasses store hyper-parameters in ``__init__`` and implement ``_begin`` and ``_consume``. `StreamLearner` has the
    methods that train on rows of a stream.

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
    # Whether features of a dense X that are zero in every row are found first and left out.
    _skips_zero_features = False
    # Whether rows change what is stored of their own features only, so that only these are checked for overflow.
    _moves_own_features = False
    # Whether identical features of a sparse X are found first and trained as one.
    _merges_identical_columns = False

    def seconds_per_row(self, n_features: int, n_nonzero: float, n_settings: int) -> float:
        """Rough CPU time of one row on one core, which ``plan`` and the length of chunks depend on; see ``cost``."""
        return 1e-6 + 1e-9 * n_features * n_settings

    def memory_bytes(self, n_features: int, n_settings: int) -> float:
        """Rough size of the state, in bytes."""
        return 8.0 * n_features * n_settings * 2

    def cost(self, n_rows: float, n_features: int, n_nonzero: float, n_settings: int) -> tuple[float, float]:
        # Weights are checked after each chunk and copied at the end: with many features that is most of the work.
        checks = math.log2(max(2.0, n_rows / FIRST_CHUNK)) + n_rows / LONGEST_CHUNK
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
        """Train every setting of a grid in one pass, as `LinearRanker.fit_grid`.

        Parameters
        ----------
        X : ndarray or CSR matrix of shape (n_samples, n_features)
            Read in chunks, as ``X[rows]``: it may be memory-mapped and larger than memory, or make its rows when they
            are asked for. Where later rows have more features, it can say so by ``n_leading(rows)``, those that some
            rows and all before them have, and ``leading(n_features)``, which gives ``X`` with the first ones alone: a
            row then costs no more than the features so far. Where a learner ``takes_blocks``, ``X`` may have inner
            products with the rows of the pass in place of features: ``places(rows)`` are those of some rows in it,
            ``visited(places)`` the rows there. The weights are coefficients of the rows of the pass then.
        stops : collection of int
            Numbers of rows after which to call ``on_stop``.
        on_stop : callable, optional
            Called with the number of rows consumed so far and a function that returns the weights at that point, in
            the form of this method's result; given an array of features, it returns their rows only. Not called any
            more once every setting has overflowed.
        """
        settings, X = self._settings(grid), by_rows(X)
        if len(y) != X.shape[0]:
            raise ValueError(f"expected a label for each of {X.shape[0]} rows, got {len(y)}")
        order = np.arange(X.shape[0]) if order is None else np.asarray(order)
        if order.dtype == bool:
            raise ValueError("order: expected numbers of rows, got a mask; np.flatnonzero(mask) has the numbers")
        training = GridPass(self, X, order, settings)
        start, ends = 0, sorted({*stops, len(order)})
        with np.errstate(over="ignore", invalid="ignore"):
            while start < len(order) and len(training.live):
                rows = order[start : min(start + training.length, ends[bisect_right(ends, start)])]
                training.learn(rows, y[rows])
                start += len(rows)
                if on_chunk is not None:
                    on_chunk(start)
                if on_stop is not None and start in stops and len(training.live):
                    on_stop(start, training.weights)
        return training.weights()

    def _finite(self, state: State, chunk: Any, n_features: int) -> np.ndarray:
        """Which settings have finite weights after a chunk, if all had before; shape (n_live,)."""
        if not (self._moves_own_features and sparse.issparse(chunk) and state.finite_elsewhere()):
            return state.finite(n_features)
        own = np.zeros(n_features, dtype=bool)
        own[chunk.indices] = True
        return state.finite_at(np.flatnonzero(own))

    # ------------------------------------------------------------------ scikit-learn

    def fit(self, X: Any, y: Any) -> Self:
        from sklearn.utils.validation import validate_data

        finite = not sparse.issparse(X)  # sparse rows are checked when they are learnt
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, order="C", ensure_all_finite=finite)
        try:
            check_rows(X)
            self._set_classes(y)
            self.start_pass(X.shape[1], X.shape[0])
            self.learn_rows(X, y == self.classes_[1], are_all=True)
            return self.finish_pass()
        except BaseException:
            self._forget_fit()
            raise

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
            As ``fit``, or if there is a label that is neither class, or if ``classes`` or a parameter are others than
            in the first call.
        DivergenceError
            If the weights overflow: this pass cannot go on. The weights of the call before stay.
        """
        from sklearn.utils.validation import validate_data

        first = not hasattr(self, "_state")
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, order="C", reset=first)
        check_rows(X)
        if first:
            self._set_classes(y if classes is None else np.atleast_1d(classes))
        else:
            self.check_params()
            self._require_same_pass(classes)
            if not is_writeable([self._state, self._class_sums, self.class_counts_]):
                self.restore(self.snapshot())  # joblib maps large arrays for its workers
        if unknown := sorted(set(np.unique(y).tolist()) - set(self.classes_.tolist())):
            raise ValueError(f"y has the labels {unknown}; the classes are {self.classes_.tolist()}")
        if first:
            self.start_pass(X.shape[1])
        self.learn_rows(X, y == self.classes_[1])
        try:
            return self.finish_pass()
        except DivergenceError as error:
            raise DivergenceError(error.event, f"{error.advice}; call fit, or begin with a new estimator") from None

    def _require_same_pass(self, classes: Any) -> None:
        """Raise ValueError if the classes or a parameter are not those that the pass began with."""
        if classes is not None and sorted(np.unique(classes).tolist()) != sorted(self.classes_.tolist()):
            raise ValueError(
                f"the pass began with the classes {self.classes_.tolist()}, got {np.unique(classes).tolist()}"
            )
        began = self._params_of_pass | {axis: float(values[0]) for axis, values in self.live_settings.items()}
        for name, value in self._params_now().items():
            if value is not began[name] and value != began[name]:
                raise ValueError(
                    f"the pass began with {name}={began[name]!r}, got {value!r}: call fit again, or set it back"
                )
