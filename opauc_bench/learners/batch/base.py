"""The contract of batch learners: they have the whole training set, and train the whole regularisation path at once.

A batch learner is one method on top of `BatchLearner`: ``_fit_path`` gets rows, labels and settings, and returns
a model for each setting. Settings share work: one eigen-decomposition, cutting
planes, a warm start. ``fit`` is the path of a single setting.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse

from ...errors import LearnerError
from ..parameters import POSITIVE
from ..ranker import DivergenceError, LinearRanker
from ..rows import by_rows, check_rows

__all__ = ["BatchLearner"]

Tick = Callable[[], None]


class BatchLearner(LinearRanker):
    """Base class of linear learners that minimise an objective over all their training rows.

    Subclasses store hyper-parameters in ``__init__`` and implement ``_fit_path``. There is no ``partial_fit``.

    Attributes
    ----------
    path_tolerance : float
        How far a column of ``fit_grid`` may lie from the same setting trained alone, from other forms of the same rows,
        or from the same rows in another order; relative to its largest weight. Used by the contract checks only.
    exact_params : dict
        Parameters with which those checks are made: they let the iterations go on until the comparison means something.
    """

    axis_constraint = POSITIVE
    path_tolerance = 1e-10
    exact_params: ClassVar[dict[str, Any]] = {}

    def _fit_path(
        self, X, y: np.ndarray, settings: dict[str, np.ndarray], tick: Tick
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Train all settings.

        Parameters
        ----------
        X : ndarray (C order) or CSR array of shape (n_samples, n_features), float64
            The training rows, without features that are zero in all of them. Not to be written to: they may be the
            caller's own. No feature is stored twice in a row.
        y : ndarray of shape (n_samples,), float64
            Labels -1 and +1, both of them present.
        settings : dict of axis to ndarray of shape (n_settings,)
            Positive and finite.
        tick : callable
            To be called between units of work; what it raises ends the training.

        Returns
        -------
        coef : ndarray of shape (n_features, n_settings)
        intercepts : ndarray of shape (n_settings,), or None
            Trained intercepts, if the model has one; no AUC depends on them.
        """
        raise TypeError(f"{type(self).__name__} has to define _fit_path(X, y, settings, tick)")

    def cost(self, n_rows: float, n_features: int, n_nonzero: float, n_settings: int) -> tuple[float, float]:
        # A guess of fifty passes over the rows per setting, for learners without an estimate.
        seconds = 1e-3 + 50 * n_settings * n_rows * (1e-7 + 1e-9 * n_nonzero)
        return seconds, 8.0 * (2 * n_rows * n_nonzero + 2 * n_features * n_settings)

    def fit_grid(
        self,
        X: Any,
        y: Any,
        grid: Mapping[str, np.ndarray],
        *,
        order: np.ndarray | None = None,
        on_chunk: Callable[[int], None] | None = None,
    ) -> np.ndarray:
        X = by_rows(X)
        rows = slice(None) if order is None else np.asarray(order, dtype=None if len(order) else int)
        return self._path(X[rows], np.asarray(y[rows]), grid, on_chunk)[0]

    def _path(self, X, y, grid, on_chunk=None) -> tuple[np.ndarray, np.ndarray | None]:
        settings = self._settings(grid)
        y = y.astype(np.float64)
        if not (y > 0).any() or (y > 0).all():
            found = f"all have the label {y[0]:g}" if len(y) else "there are no rows"
            raise ValueError(f"{type(self).__name__} needs training rows of both classes; {found}")
        n_done = 0

        def tick():
            nonlocal n_done
            n_done += 1
            if on_chunk is not None:
                on_chunk(n_done)

        # A feature that is zero in every row gets no weight from any of these objectives.
        used = np.unique(X.indices[X.data != 0.0]) if sparse.issparse(X) else np.flatnonzero(X.any(axis=0))
        coef = np.zeros((X.shape[1], len(next(iter(settings.values())))))
        intercepts = None
        X = X if len(used) == X.shape[1] else X[:, used]
        form = sparse.csr_array if sparse.issparse(X) else np.ascontiguousarray
        X = form(X, dtype=np.float64)
        if sparse.issparse(X) and not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        if len(used):
            with np.errstate(over="ignore", invalid="ignore", under="ignore"):
                path = self._fit_path(X, y, settings, tick)
                coef[used], intercepts = self._require_path(path, (len(used), coef.shape[1]))
            coef[:, ~np.isfinite(coef).all(axis=0)] = np.nan
        tick()
        return coef, intercepts

    def _require_path(self, found, shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray | None]:
        """Check and return the result of ``_fit_path``."""
        if isinstance(found, tuple) and len(found) == 2 and np.shape(found[0]) == shape:
            return found
        came = f"({', '.join(map(_described, found))})" if isinstance(found, tuple) else _described(found)
        raise LearnerError(
            f"{type(self).__name__}._fit_path has to return weights of shape (n_features, n_settings), here {shape}, "
            f"and intercepts or None; got {came}"
        )

    # ------------------------------------------------------------------ scikit-learn

    def fit(self, X: Any, y: Any) -> Self:
        from sklearn.utils.validation import validate_data

        self.check_params()
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, order="C")
        try:
            return self._fit(X, y)
        except BaseException:
            self._forget_fit()
            raise

    def _fit(self, X: Any, y: np.ndarray) -> Self:
        check_rows(X)
        self._set_classes(y)
        positive = y == self.classes_[1]
        own = self._own_setting()
        coef, intercepts = self._path(X, np.where(positive, 1.0, -1.0), own)
        if not np.isfinite(coef).all():
            setting = ", ".join(f"{axis}={values[0]:g}" for axis, values in own.items())
            raise DivergenceError(
                f"{type(self).__name__} found no finite weights for {setting}: scale the features to [-1, 1], "
                "or select a setting nearer to 1"
            )
        self.coef_ = coef.T.copy()
        if intercepts is None:
            sums = np.stack([np.asarray(members.astype(np.float64) @ X) for members in (positive, ~positive)])
            counts = np.array([positive.sum(), (~positive).sum()], dtype=float)
            self.intercept_ = np.array([self._threshold(coef[:, 0], sums, counts)])
        else:
            self.intercept_ = intercepts.copy()
        return self


def _described(value) -> str:
    return "None" if value is None else f"{type(value).__name__} of shape {np.shape(value)}"
