"""Base classes of all learners: `Learner`, and `LinearRanker` with linear scores, checked settings and classes.

`OnePassLearner` sees every example once; `BatchLearner` has the
whole training set. Everything else in the project only knows what is declared here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from ..errors import LearnerError
from .docs import complete_docstring
from .parameters import Constraint, Real, require
from .rows import check_rows
from .sklearn_api import Estimator

__all__ = ["AbsentLearner", "DivergenceError", "Learner", "LinearRanker", "Reduced"]

_PACKAGE = __name__.partition(".")[0]
# Shortcuts that hold for what a class computes. A class outside this package may compute something else than its base.
_NOT_INHERITED = (
    "rotation_invariant",
    "given_gram_matrix",
    "reduced",
    "reduced_size",
    "_skips_zero_features",
    "_moves_own_features",
    "_merges_identical_columns",
    "takes_blocks",
)
_SHARE_OF_TRAINING = 0.7


class DivergenceError(ArithmeticError):
    """The weights of a single model overflowed: the step size is too large for the data.

    Parameters
    ----------
    event : str
        What overflowed, and where.
    advice : str, optional
        What to do about it.
    """

    def __init__(self, event: str, advice: str = ""):
        super().__init__(event, advice)
        self.event, self.advice = event, advice

    def __str__(self) -> str:
        return f"{self.event}: {self.advice}" if self.advice else self.event


@dataclass(frozen=True)
class Reduced:
    """Size and cost of an equal problem in fewer dimensions.

    Attributes
    ----------
    learner : Learner
    n_features, n_nonzero : float
        Dimensions, and those of them in which an average row is not zero.
    seconds, memory_bytes : float
        What it takes to set the problem up, once for all passes; the memory stays in use.
    uses_gram_matrix : bool
    """

    learner: Learner
    n_features: int
    n_nonzero: float
    seconds: float
    memory_bytes: float
    uses_gram_matrix: bool = False


class Learner(Estimator):
    """What an experiment knows of a learner: it trains all settings of a grid, and each gives a score to a row.

    Attributes
    ----------
    version : int
        Part of the identity of every recorded number: raise it when the learner's results change.
    grid_axes : tuple of str
        Names of the hyper-parameters that ``fit_grid`` accepts one value per setting for.
    parameter_constraints : dict of str to Constraint
        What each parameter may be, see `parameters.py`; a grid axis without one is a finite number.
    rotation_invariant : bool
        Whether rotating all rows keeps the scores, except for rounding: few wide rows can be narrowed first.
        A class outside this package does not inherit it, nor the methods `given_gram_matrix`, `reduced` and
        `reduced_size`.
    takes_blocks : bool
        Whether ``fit_grid`` takes dense rows in blocks, so that it also takes inner products instead of features.
    takes_gram_matrix : bool
        Whether it takes nothing else: its rows are the inner products with all rows of a dataset.
    source_hash : str or None
        Of the file of a user's learner: it is still worked on, and every edit may change numbers.
    not_identity : tuple of str
        Parameters that say how or where a number is computed, not which: they are not part of its identity.
    supports_stops : bool
        Whether ``fit_grid`` takes ``stops`` and ``on_stop``, which give the weights during the pass.
    sketches_second_moments : bool
        Whether the learner keeps a sketch of each class's second moments, of size ``tau``.
    """

    version = 1
    grid_axes: tuple[str, ...] = ()
    parameter_constraints: ClassVar[dict[str, Constraint]] = {}
    axis_constraint: ClassVar[Constraint] = Real()  # of grid axes that have none of their own
    rotation_invariant: ClassVar[bool] = False
    takes_gram_matrix: ClassVar[bool] = False
    source_hash: ClassVar[str | None] = None
    not_identity: ClassVar[tuple[str, ...]] = ("random_state",)
    supports_stops: ClassVar[bool] = False
    sketches_second_moments: ClassVar[bool] = False

    @property
    def takes_blocks(self) -> bool:
        return False

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        if cls.__module__.startswith(f"{_PACKAGE}."):
            return
        for name in _NOT_INHERITED:
            definitions = [vars(base)[name] for base in cls.__mro__ if name in vars(base)]
            if definitions and name not in vars(cls):
                setattr(cls, name, definitions[-1])

    def fit_grid(
        self,
        X: Any,
        y: Any,
        grid: Mapping[str, np.ndarray],
        *,
        order: np.ndarray | None = None,
        on_chunk: Callable[[int], None] | None = None,
    ) -> Any:
        """Train every setting of a grid on the rows ``order``.

        Parameters
        ----------
        X : ndarray or CSR matrix of shape (n_samples, n_features)
        y : ndarray of shape (n_samples,)
            Labels, -1 or +1.
        grid : mapping of axis name to array of shape (n_settings,)
            One value per setting for each name in ``grid_axes`` that should differ from this estimator's own value.
        order : ndarray of int, optional
            Rows to visit, in this order; by default all of them from first to last.
        on_chunk : callable, optional
            Called with the number of rows consumed so far after each chunk (by a batch learner, with the number of
            planes or Newton steps after each of them, by `EstimatorLearner` with the number of trained settings); what
            it raises ends the training.

        Returns
        -------
        coef : ndarray of shape (n_features, n_settings)
            One model per column; columns of settings that overflowed are NaN. A learner that is not linear returns its
            `Models` instead.

        Raises
        ------
        ValueError
            If ``grid`` is empty, has an unknown axis, axes of different lengths or a value that its constraint does not
            accept; from a batch learner also if one of the classes is missing among the rows.
        """
        raise TypeError(f"{type(self).__name__} has to define fit_grid")

    def given_gram_matrix(self, gram_matrix: Callable[[], np.ndarray] | None) -> Self:
        """This learner, or a copy that trains with less work on a dataset of few wide rows.

        Parameters
        ----------
        gram_matrix : callable or None
            Returns those of all rows of the dataset, shape (n_samples, n_samples). None takes them away again.
        """
        return self

    def reduced(self, X: Any, rows: np.ndarray, check: Callable[[], None]) -> tuple[Learner, Any] | None:
        """A learner and rows that give equal scores for all settings, except for rounding, at less cost.

        Several passes over parts of the same rows follow: what these have in common is computed once. What
        ``rotation_invariant`` allows need not be repeated here.

        Parameters
        ----------
        X : ndarray or CSR matrix of shape (n_samples, n_features)
        rows : ndarray of int
            Those that will be used.
        check : callable
            To be called again and again; what it raises ends the work.

        Returns
        -------
        (learner, array of shape (n_samples, n_dimensions)) or None
            None if there is no such problem.
        """
        return None

    def reduced_size(self, n_rows: float, n_features: int, n_nonzero: float) -> Reduced | None:
        """What `reduced` gives and costs, for ``plan``."""
        return None

    def cost(self, n_rows: float, n_features: int, n_nonzero: float, n_settings: int) -> tuple[float, float]:
        """Rough CPU seconds of ``fit_grid`` on one core, and the bytes it needs beside the data, for ``plan``.

        Parameters
        ----------
        n_rows, n_features : int
        n_nonzero : float
            Nonzero features of an average row.
        n_settings : int
        """
        raise TypeError(f"{type(self).__name__} has to define cost")

    def n_passes(
        self, n_rows: int, n_features: int, n_nonzero: float, n_settings: int, memory_bytes: float | None
    ) -> int:
        """How many passes a grid has to be split into so that each keeps within ``memory_bytes``, by the estimate.

        Part of the memory is left to scoring and to what the estimate misses. Where not even a single setting fits,
        splitting does not help: 1.
        """
        if memory_bytes is None:
            return 1

        def fits(n_passes: int) -> bool:
            at_once = -(-n_settings // n_passes)
            return self.cost(n_rows, n_features, n_nonzero, at_once)[1] <= _SHARE_OF_TRAINING * memory_bytes

        if not fits(n_settings):
            return 1
        return next(n_passes for n_passes in range(1, n_settings + 1) if fits(n_passes))

    @classmethod
    def constraints(cls) -> dict[str, Constraint]:
        """What each grid axis, and each parameter that declares a constraint, may be."""
        return dict.fromkeys(cls.grid_axes, cls.axis_constraint) | cls.parameter_constraints

    def check_params(self) -> None:
        """Check all parameters; called before any work.

        Raises
        ------
        ValueError
            If one has a value that is not allowed.
        """

    def identity(self, name: str, tuned: Collection[str]) -> dict[str, Any]:
        """What defines the learner in a record: name, version, parameters that are not ``tuned``; JSON-ready."""
        not_fixed = {*tuned, *self.not_identity}
        fixed = {key: value for key, value in self.get_params(deep=False).items() if key not in not_fixed}
        return {"learner": name.rpartition(":")[2], "version": self.version, "params": fixed}

    def provenance(self) -> dict[str, Any]:
        """What a record contains about the last training beside the parameters; JSON-ready, by default nothing."""
        return {}

    def why_diverged(self) -> str:
        """What happened to the first setting that the last training dropped, where it may be more than an overflow."""
        return ""


class AbsentLearner(Learner):
    """Stands for a learner whose class is not on this machine: its records can be read, and nothing can be computed."""

    def cost(self, n_rows, n_features, n_nonzero, n_settings):
        return 0.0, 0.0


class LinearRanker(Learner):
    """A linear scoring function ``w'x``, trained for a whole grid of settings at once.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
    intercept_ : ndarray of shape (1,)
        Threshold midway between the class means' scores; AUC does not depend on it.
    classes_ : ndarray of shape (2,)
        Both labels, the positive one last.
    """

    n_features_in_: int
    coef_: np.ndarray
    intercept_: np.ndarray
    classes_: np.ndarray

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        complete_docstring(cls)

    def fit(self, X: Any, y: Any) -> Self:
        """Train on the rows of ``X``, from first to last, forgetting everything before.

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
            If there are not exactly two classes, or a parameter has a value that its constraint does not accept.
        DivergenceError
            If the weights overflow.
        """
        raise TypeError(f"{type(self).__name__} has to define fit")

    def check_params(self) -> None:
        for name, constraint in self.constraints().items():
            require(type(self).__name__, name, constraint, getattr(self, name))

    def _settings(self, grid: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Complete ``grid`` by this estimator's own values and check it."""
        self.check_params()
        if unknown := sorted(set(grid) - set(self.grid_axes)):
            raise ValueError(
                f"{type(self).__name__}.fit_grid has the axes {', '.join(self.grid_axes)}; got {', '.join(unknown)}"
            )
        # As objects: an array of numbers would hide that a value was text or True.
        given = {axis: np.atleast_1d(np.asarray(values, dtype=object)) for axis, values in grid.items()}
        lengths = {axis: len(values) for axis, values in given.items()}
        if not given or len(set(lengths.values())) != 1 or 0 in lengths.values():
            raise ValueError(f"fit_grid needs one value per setting on each axis; got lengths {lengths}")
        constraints = self.constraints()
        for axis, values in given.items():
            for value in values:
                require(type(self).__name__, axis, constraints[axis], value)
        n_settings = next(iter(lengths.values()))
        own = {axis: np.full(n_settings, value[0]) for axis, value in self._own_setting().items()}
        return own | {axis: values.astype(float) for axis, values in given.items()}

    def _own_setting(self) -> dict[str, np.ndarray]:
        if not self.grid_axes:
            raise LearnerError(
                f"{type(self).__name__}: grid_axes has to name at least one hyper-parameter; it is empty",
                "opauc-bench learners check FILE:CLASS",
            )
        return {axis: np.array([float(getattr(self, axis))]) for axis in self.grid_axes}

    def _forget_fit(self) -> None:
        """After a fit that has failed: weights of an earlier one do not belong to its classes and features."""
        for name in [name for name in vars(self) if name.endswith("_") or name == "_state"]:
            delattr(self, name)

    def _set_classes(self, y) -> None:
        if np.issubdtype(y.dtype, np.integer):  # seen at once, as most often
            classes = np.array([y.min(), y.max()])
            if classes[0] < classes[1] and ((y == classes[0]) | (y == classes[1])).all():
                self.classes_ = classes
                return
        from sklearn.utils.multiclass import check_classification_targets, type_of_target

        kind = type_of_target(y, input_name="y", raise_unknown=True)
        if kind != "binary":
            check_classification_targets(y)
            raise ValueError(f"Only binary classification is supported. The type of the target is {kind}.")
        classes = np.unique(y)
        if len(classes) == 0:
            raise ValueError("classes: expected both labels, got none")
        if len(classes) != 2:
            advice = ". In partial_fit, name both with classes=..." if hasattr(self, "partial_fit") else ""
            raise ValueError(
                f"{type(self).__name__} needs two classes to rank one above the other; "
                f"got 1 class: {classes.tolist()[0]!r}{advice}"
            )
        self.classes_ = classes

    def _threshold(self, weights: np.ndarray, class_sums: np.ndarray, class_counts: np.ndarray) -> Any:
        """Place the threshold of ``predict`` midway between the scores of the class means; no AUC depends on it.

        ``weights`` of shape (d,) have one threshold, those of shape (d, n_settings) one for each setting.
        """
        return -0.5 * ((class_sums @ weights).T / np.maximum(class_counts, 1.0)).sum(axis=-1)

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores of shape (n_samples,): the larger, the more likely ``classes_[1]``."""
        from sklearn.utils.validation import check_is_fitted, validate_data

        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        check_rows(X)
        return np.asarray(X @ self.coef_[0]) + self.intercept_[0]

    def predict(self, X: Any) -> np.ndarray:
        """Labels of shape (n_samples,)."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(int)]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy of `predict`: the share of rows, or of their weights, whose label is ``y``."""
        from sklearn.metrics import accuracy_score

        return accuracy_score(y, self.predict(X), sample_weight=sample_weight)

    def get_metadata_routing(self) -> Any:
        """What scikit-learn's searches pass on, where metadata routing is enabled; see `set_score_request`."""
        from sklearn.utils.metadata_routing import MetadataRequest

        if not hasattr(self, "_metadata_request"):
            request = MetadataRequest(owner=self)
            request.score.add_request(param="sample_weight", alias=None)
            return request
        return deepcopy(self._metadata_request)

    def set_score_request(self, *, sample_weight: bool | str | None) -> Self:
        """Say whether scikit-learn's searches pass ``sample_weight`` on to `score`, where metadata routing is enabled.

        Parameters
        ----------
        sample_weight : bool, str or None
            A text is the name under which the search is given it. None, as at first: to give it is an error.

        Returns
        -------
        self
        """
        request = self.get_metadata_routing()
        request.score.add_request(param="sample_weight", alias=sample_weight)
        self._metadata_request = request  # the name under which scikit-learn's ``clone`` keeps it
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "coef_")  # after a first partial_fit that failed there are classes and features only

    def __sklearn_tags__(self):
        from sklearn.utils import ClassifierTags

        tags = super().__sklearn_tags__()
        tags.estimator_type = "classifier"
        tags.classifier_tags = ClassifierTags(multi_class=False)
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        return tags
