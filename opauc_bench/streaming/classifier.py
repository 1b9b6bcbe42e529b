"""A model file as a scikit-learn classifier."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_array
from sklearn.utils.metaestimators import available_if

from ..data.frames import has_columns, pandas_frame
from ..data.inputs import matrix_of
from .model import LinearModel

__all__ = ["TrainedClassifier", "load_model"]


def load_model(file: str | Path) -> TrainedClassifier:
    """Read a model that ``opauc-bench train`` has written, as a scikit-learn classifier.

    Parameters
    ----------
    file : str or Path

    Returns
    -------
    TrainedClassifier

    Raises
    ------
    DataError
        If the file cannot be read, is not a model, or is damaged.
    """
    return TrainedClassifier(LinearModel.load(Path(file)))


def _is_calibrated(classifier: TrainedClassifier) -> bool:
    if classifier.model.calibration is None:
        raise AttributeError("this model has no probabilities: train with --calibration platt, or on more rows")
    return True


class TrainedClassifier(ClassifierMixin, BaseEstimator):
    """A trained linear model, which cannot be fitted: ``opauc-bench train --continue`` continues training.

    In meta-estimators that fit, such as CalibratedClassifierCV, wrap it in ``sklearn.frozen.FrozenEstimator``.

    Parameters
    ----------
    model : LinearModel

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        Both labels, sorted, as scikit-learn expects them. Where the positive one is the first, weights and scores have
        the other sign than those of ``opauc-bench score``.
    coef_ : ndarray of shape (1, n_features)
    intercept_ : ndarray of shape (1,)
    n_features_in_ : int
    """

    def __init__(self, model: LinearModel):
        self.model = model

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return f"<{type(self).__name__}: {self.model.learner}, {self.n_features_in_:,} features>"

    def fit(self, X: Any, y: Any = None) -> TrainedClassifier:
        """Raise TypeError."""
        raise TypeError(
            "this model is trained: wrap it in sklearn.frozen.FrozenEstimator, or use opauc-bench train --continue"
        )

    def __sklearn_is_fitted__(self) -> bool:
        return True

    @property
    def classes_(self) -> np.ndarray:
        return np.array(self.model.classes)[:: self._sign]

    @property
    def _sign(self) -> int:
        """-1 if the positive label is the first of ``classes_``."""
        return 1 if list(self.model.classes) == sorted(self.model.classes) else -1

    @property
    def coef_(self) -> np.ndarray:
        return self._sign * self.model.weights[None, :]

    @property
    def intercept_(self) -> np.ndarray:
        return np.array([self._sign * self.model.intercept])

    @property
    def n_features_in_(self) -> int:
        return len(self.model.weights)

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Names of the features, for a model of a table whose columns are all numbers."""
        schema = self.model.schema
        if schema is None or len(schema.numbers) != self.n_features_in_:
            raise AttributeError("the features of this model have no names of columns")
        return np.array(schema.numbers, dtype=object)

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores of shape (n_samples,), higher for ``classes_[1]``.

        They are those of ``opauc-bench score``, with the other sign if the positive label is the first of ``classes_``.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or DataFrame
            A DataFrame, for a model of a table, has the columns of that table, in any order; further ones are ignored.
            A sparse matrix may have more or fewer columns, as readers of svmlight files make them: features that the
            model has not seen are ignored. Of a table with columns of categories, that is the encoded matrix.

        Raises
        ------
        DataError
            If a column of a DataFrame is absent, or a value cannot be used.
        ValueError
            If a dense ``X`` has another number of columns than the model, a value is not finite, or indices of a sparse
            ``X`` are outside of its shape.
        """
        schema = self.model.schema
        if schema is not None and has_columns(X):
            X = matrix_of(pandas_frame(X), schema)
        elif schema and schema.categories and not (sparse.issparse(X) or np.shape(X)[1:] == (self.n_features_in_,)):
            raise ValueError(
                "expected a DataFrame, since the model is of a table with columns of categories: "
                f"{', '.join(schema.categories[:5])}{', ...' if len(schema.categories) > 5 else ''}"
            )
        X = check_array(X, accept_sparse="csr", dtype=np.float64, ensure_min_samples=0, ensure_min_features=0)
        if sparse.issparse(X):
            X.check_format(full_check=True)  # products would read outside of the weights
        elif X.shape[1] != self.n_features_in_:
            raise ValueError(f"expected an array of shape (n, {self.n_features_in_}), got {X.shape}")
        return self._sign * self.model.scores(X)[0]

    def predict(self, X: Any) -> np.ndarray:
        """Labels of shape (n_samples,): the positive one where its score is above 0, calibrated or not.

        Raises
        ------
        DataError, ValueError
            As `decision_function`, and if a score is nan because values of the row are too large.
        """
        negative, positive = self.model.classes
        return np.where(self._sign * self._known_scores(X) > 0, positive, negative)

    @available_if(_is_calibrated)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of ``classes_``, shape (n_samples, 2); absent if the model is not calibrated.

        Raises
        ------
        DataError, ValueError
            As `predict`.
        """
        calibration = self.model.calibration
        assert calibration is not None  # available_if
        p = calibration.probability(self._sign * self._known_scores(X))
        return np.column_stack([1.0 - p, p][:: self._sign])

    def _known_scores(self, X: Any) -> np.ndarray:
        """Scores of `decision_function`; ValueError if one is not a number."""
        scores = self.decision_function(X)
        if (unknown := np.isnan(scores)).any():
            raise ValueError(f"row {int(np.argmax(unknown))} has the score nan: its values are too large")
        return scores

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse = True
        return tags
