"""A pass over the rows of a stream: rows are learnt as they come, by one setting or by several at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import sparse

from .blocks import Block
from .ranker import DivergenceError, LinearRanker
from .rows import add_class_sums, csr_of, rows_between
from .snapshot import from_tree
from .state import State, empty_state, n_settings_of

__all__ = ["LONGEST_CHUNK", "StreamLearner"]

LONGEST_CHUNK = 4096
_PLAIN_CHUNK = 65536  # rows that ``_consume_plain`` is given at once; it copies none
_DENSE_VALUES = 1 << 21  # of sparse rows that are made dense at a time
_MANY = 1024  # features from which on matrix products are worth a block of rows


class StreamLearner(LinearRanker):
    """Base class of learners that see every example once, as rows of a stream: without scikit-learn's checks.

    ``start_pass``, then ``learn_rows``, ``current_weights`` and ``widen`` in any order, at last ``finish_pass``.
    Subclasses implement ``_begin`` and ``_consume``.
    """

    # Whether rows are given to ``_consume`` as CSR rather than dense; and dense ones, too, or as they are.
    _sparse_chunks = False
    _keeps_dense_rows = False

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

    def _consume_in_blocks(self, state: State, X: Block, y: np.ndarray) -> None:
        """As ``_consume``, for dense rows of many features; rounding may depend on how the rows are cut into pieces.

        Called where ``takes_blocks`` and all rows of the pass are at hand.
        """
        raise TypeError(f"{type(self).__name__} has to define _consume_in_blocks(state, X, y)")

    def _consume_at_hand(self, state: State, X: Any, y: np.ndarray) -> None:
        """Consume rows of a pass whose rows are all at hand."""
        if isinstance(X, Block):
            self._consume_in_blocks(state, X, y)
        elif not sparse.issparse(X) and self._in_blocks(X.shape[1], X.shape[1]):
            self._consume_in_blocks(state, Block(X), y)
        else:
            self._consume(state, X, y)

    def _in_blocks(self, n_features: int, n_nonzero: float) -> bool:
        """Whether rows with so many features and nonzero ones are taken in blocks, where all are at hand."""
        return self.takes_blocks and n_features > _MANY and n_nonzero >= n_features

    def _consume_plain(self, state: State, X: Any, y: np.ndarray, class_sums: np.ndarray) -> int:
        """As ``_consume``, with rows added to the sums of their classes in the same loop; where that is not faster, 0.

        Called where ``_sparse_chunks``, with CSR rows as they came: some may have an unusual form.

        Parameters
        ----------
        class_sums : ndarray of shape (2, n_features)
            Positives first.

        Returns
        -------
        n_learnt : int
            Rows before the first one whose features do not rise, or with a value that is zero or not finite.
        """
        return 0

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
        return csr_of(chunk) if self._sparse_chunks and not self._keeps_dense_rows else chunk

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
        self._begin_pass(n_features, n_rows, settings, n_settings_of(settings) > 1)

    def _begin_pass(self, n_features: int, n_rows: int | None, settings: dict[str, np.ndarray], several: bool) -> None:
        self._several = several  # whether the pass began with several settings
        self._params_of_pass = self._params_now()
        for name in ("_state", "_class_sums"):  # their memory serves for the new ones
            vars(self).pop(name, None)
        self._state = empty_state(self._begin, n_features, settings, several)
        self._state.require_shape(n_features, n_settings_of(settings))
        self._state.expect(n_rows)
        self._width, self._n_rows_expected = n_features, n_rows
        try:
            self._class_sums = self._sums_of(n_features)
        except MemoryError:
            del self._state
            raise
        self.class_counts_ = np.zeros(2)
        self.n_samples_seen_ = 0

    def _params_now(self) -> dict[str, Any]:
        return self.get_params(deep=False) | {axis: float(getattr(self, axis)) for axis in self.grid_axes}

    def _sums_of(self, n_features: int) -> np.ndarray:
        """Sums of the rows of each class, which only the threshold needs: none if the learner trains an intercept."""
        return np.zeros((2, n_features if self.trained_intercepts() is None else 0))

    def learn_rows(self, X: Any, positive: np.ndarray, are_all: bool = False) -> None:
        """Learn rows; with sparse rows, only the learner's own work depends on the number of features.

        Parameters
        ----------
        X : ndarray or CSR matrix of shape (n, n_features)
            As many features as given to ``start_pass`` or ``widen``, finite values.
        positive : ndarray of bool, shape (n,)
        are_all : bool, default=False
            Whether these are all rows of the pass, so that it does not matter that rounding depends on their number.

        Raises
        ------
        ValueError
            If a value of sparse rows is not finite, with the rows before learnt.
        """
        signs = np.where(positive, 1, -1).astype(np.int8)
        length, consume = LONGEST_CHUNK, self._consume_at_hand if are_all else self._consume
        if sparse.issparse(X):
            length = _PLAIN_CHUNK if self._sparse_chunks else min(length, max(1, _DENSE_VALUES // X.shape[1]))
        with np.errstate(over="ignore", invalid="ignore"):
            for first in range(0, X.shape[0], length):
                rows = slice(first, min(first + length, X.shape[0]))
                if sparse.issparse(X):
                    self._learn_sparse(rows_between(X, rows.start, rows.stop), positive[rows], signs[rows])
                else:
                    consume(self._state, self._chunk(X, np.arange(rows.start, rows.stop), None), signs[rows])
            for k, members in enumerate((positive, ~positive)):
                self.class_counts_[k] += np.count_nonzero(members)
                if self._class_sums.shape[1] and not sparse.issparse(X):
                    self._class_sums[k] += members.astype(np.float64) @ X
        self.n_samples_seen_ += X.shape[0]

    def _learn_sparse(self, X: sparse.csr_matrix, positive: np.ndarray, signs: np.ndarray) -> None:
        n_learnt = 0
        if self._class_sums.shape[1] and self._sparse_chunks and X.dtype == np.float64:
            n_learnt = self._consume_plain(self._state, X, signs, self._class_sums)
        for first in range(n_learnt, X.shape[0], LONGEST_CHUNK):
            rows = slice(first, min(first + LONGEST_CHUNK, X.shape[0]))
            self._learn_chunk(rows_between(X, rows.start, rows.stop), positive[rows], signs[rows])

    def _learn_chunk(self, X: sparse.csr_matrix, positive: np.ndarray, signs: np.ndarray) -> None:
        plain = add_class_sums(X, positive, self._class_sums)
        if not plain and not np.isfinite(X.data).all():
            from sklearn.utils import check_array

            check_array(X, accept_sparse="csr", estimator=self, input_name="X")  # raises the error that users expect
        if not (plain and self._sparse_chunks):
            X = self._chunk(X, np.arange(X.shape[0]), None)
        self._consume(self._state, X, signs)

    def score_rows(self, features: np.ndarray | None, values: sparse.csr_matrix) -> tuple[np.ndarray, np.ndarray]:
        """Scores w'x of rows under the weights as they are, finite or not, and the intercepts that go with them.

        Parameters
        ----------
        features : ndarray of int, shape (k,), or None
            Those that the rows have; None for all that there is room for.
        values : csr_matrix of shape (n, k)
            Of these features.

        Returns
        -------
        scores : ndarray of shape (n, n_live)
        intercepts : ndarray of shape (n_live,)
            The trained ones; otherwise thresholds, see `thresholds`.
        """
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            weights = self._state.coef(self._width) if features is None else self._state.coef_at(features)
            trained = self.trained_intercepts()
            n_live = weights.shape[1]
            intercepts = self.thresholds(features, values, weights) if trained is None else trained[:n_live].copy()
            return values @ weights, intercepts

    def thresholds(self, features: np.ndarray | None, values: sparse.csr_matrix, weights: np.ndarray) -> np.ndarray:
        """Thresholds for rows, midway between the scores of the class means so far over the features that they have.

        Parameters
        ----------
        features, values
            As in `score_rows`.
        weights : ndarray of shape (k, n_settings)
            Of these features.

        Returns
        -------
        ndarray of shape (n_settings,)
        """
        if features is None:
            sums = self._class_sums[:, : len(weights)] * (np.bincount(values.indices, minlength=len(weights)) > 0)
        else:
            sums = self._class_sums[:, features]
        with np.errstate(over="ignore", invalid="ignore"):
            return self._threshold(weights, sums, self.class_counts_)

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

    def settings_weights(self, features: int | np.ndarray) -> np.ndarray:
        """Weights of the live settings as they are now, at some or so many first features; shape (k, n_live)."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            if isinstance(features, np.ndarray):
                return self._state.coef_at(features)
            return self._state.coef(self._width)[:features]

    def current_weights(self, features: np.ndarray | None = None) -> np.ndarray:
        """Weights as they are now, finite or not, of all features or at some ``features``, which may repeat."""
        return self.settings_weights(self._width if features is None else features)[:, 0].copy()

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
        fresh = empty_state(self._begin, n_features, self._state.settings, self._several)
        if self.n_samples_seen_:
            fresh = self._state.widened(fresh)
        else:
            fresh.expect(self._n_rows_expected)
        self._state, self._width = fresh, n_features
        sums, self._class_sums = self._class_sums, self._sums_of(n_features)
        self._class_sums[:, : sums.shape[1]] = sums

    def snapshot(self) -> dict[str, Any]:
        """Return what a pass remembers, to continue it elsewhere by `restore`.

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
            self._class_sums = from_tree(self._class_sums, saved["class_sums"], name="class_sums")
            self.class_counts_ = from_tree(self.class_counts_, saved["class_counts"], name="class_counts")
            self.n_samples_seen_ = from_tree(self.n_samples_seen_, saved["n_rows"], name="n_rows")
            self._state.restore(saved["state"])
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{type(self).__name__}: this is not the state of a pass ({error!r})") from error

    def finish_pass(self, n_features: int | None = None, average: tuple[np.ndarray, float] | None = None):
        """Set ``coef_`` and ``intercept_`` from the rows so far; more rows may follow.

        Parameters
        ----------
        n_features : int, optional
            The first features, if there is room for more.
        average : tuple of ndarray of shape (n_features,) and float, optional
            Averages of the weights along the pass, and of the intercept if the learner trains it, to be set instead of
            the last ones.

        Raises
        ------
        DivergenceError
            If a weight or the intercept is not finite.
        """
        n_features = n_features or self._width
        class_sums = np.ascontiguousarray(self._class_sums[:, :n_features])
        weights = self.current_weights()[:n_features] if average is None else average[0]
        if not np.isfinite(weights).all():
            raise self.overflow_error()
        with np.errstate(over="ignore", invalid="ignore"):
            trained = self.trained_intercepts()
            if trained is None:
                intercept = float(self._threshold(weights, class_sums, self.class_counts_))
            else:
                intercept = float(trained[0]) if average is None else average[1]
        if not np.isfinite(intercept):
            raise self.overflow_error()
        self.coef_, self.intercept_ = weights[None, :], np.array([intercept])
        return self

    def overflow_error(self) -> DivergenceError:
        """The error of weights that overflowed, with the setting that is being trained."""
        return DivergenceError(
            f"{type(self).__name__} overflowed within {self.n_samples_seen_} rows "
            f"({', '.join(f'{axis}={float(getattr(self, axis)):g}' for axis in self.grid_axes)})",
            "take smaller steps, or scale the features to [-1, 1]",
        )
