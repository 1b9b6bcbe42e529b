"""Any scikit-learn compatible classifier as a learner: its scores are ranked, its grid is a loop of fits."""

from __future__ import annotations

import contextlib
import copy
import math
import re
import time
import warnings
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.base import OneToOneFeatureMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import SelectorMixin
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state, get_tags
from threadpoolctl import threadpool_limits

from .estimator_entry import (
    EstimatorDescription,
    EstimatorError,
    are_integers,
    check_estimator_entry,
    final_step,
    owner_of,
    passed_values,
)
from .ranker import DivergenceError, Learner

__all__ = ["EstimatorLearner", "FittedEstimators"]

# What a fit may raise because a number overflowed: the setting has diverged. For scikit-learn it is a ValueError.
_OVERFLOWS = (DivergenceError, FloatingPointError, OverflowError, np.linalg.LinAlgError)
_OVERFLOW_IN_WORDS = re.compile(
    r"overflow|contains infinity|infs or nans|too large for dtype|non-finite|not finite", re.IGNORECASE
)
_SHAPE_IN_WORDS = re.compile(r"square|dimension", re.IGNORECASE)  # of a LinAlgError
_FIRST_MEASUREMENT = 500  # rows
_LONG_ENOUGH = 0.2  # seconds: what does not depend on the number of rows takes less
_TOO_LONG = 10.0  # seconds


class FittedEstimators:
    """The models of a grid, see `Models`: a fitted estimator per setting, None where the setting diverged.

    Parameters
    ----------
    estimators : list of estimator or None
    dense : bool
        Whether sparse rows are made dense before they are scored.
    losses : list of str, optional
        Why settings were dropped; scores that are not finite are added.
    """

    def __init__(self, estimators: Sequence[Any], dense: bool = False, losses: list[str] | None = None):
        self._estimators, self.dense = list(estimators), dense
        self._losses = [] if losses is None else losses

    def finite(self) -> np.ndarray:
        """Which settings have not diverged, shape (n_settings,)."""
        return np.array([estimator is not None for estimator in self._estimators])

    def scores(self, X: Any) -> np.ndarray:
        """Scores of shape (n_rows, number of finite settings): of ``decision_function``, else of ``predict_proba``."""
        return self._columns(X, _scores_of)

    def probabilities(self, X: Any) -> np.ndarray | None:
        """Probabilities of the positive class, shaped like the scores; None if an estimator has none.

        Of the precision that they have: it decides where the logarithm of a loss is cut off.
        """
        if not all(hasattr(estimator, "predict_proba") for estimator in self._estimators if estimator is not None):
            return None
        try:
            return self._columns(X, _probabilities_of, dtype=None)
        except (NotImplementedError, AttributeError):
            return None

    def sparse_ratio(self) -> np.ndarray:
        """Share of weights that are not 0, shape (n_settings,); NaN where a setting has no weights for features."""
        finals = [estimator[-1] if isinstance(estimator, Pipeline) else estimator for estimator in self._estimators]
        weights = [getattr(final, "coef_", None) for final in finals]
        return np.array([np.nan if coef is None else _share_of_nonzero(coef) for coef in weights])

    def _columns(self, X: Any, values: Callable[[Any, Any], np.ndarray], dtype: Any = float) -> np.ndarray:
        rows = X.toarray() if self.dense and sparse.issparse(X) else X
        alive = [estimator for estimator in self._estimators if estimator is not None]
        if sparse.issparse(rows) and not getattr(rows, "has_sorted_indices", True):
            rows = rows.sorted_indices()
        content = _checksum(rows)
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            columns = [np.asarray(values(estimator, rows), dtype=dtype) for estimator in alive]
        if _checksum(rows) != content:
            raise EstimatorError("the estimator changes the rows that it is to score", "let it work on a copy")
        for estimator, column in zip(alive, columns):
            if column.size != X.shape[0]:
                raise EstimatorError(
                    f"{type(estimator).__name__}: expected one score per row, got an array of shape {column.shape}"
                )
            if not np.isfinite(column).all():
                self._losses.append(f"{type(estimator).__name__} gave scores that are not finite")
        return np.column_stack([column.ravel() for column in columns])


class EstimatorLearner(Learner):
    """A scikit-learn compatible classifier, trained once for each setting of its grid.

    Parameters
    ----------
    estimator : str
        ``package.module.Class`` or ``path/to/file.py:Class``. Its instances have ``fit`` and ``decision_function`` or
        ``predict_proba``; they get the labels 0 and 1.
    params : dict, optional
        Constructor parameters. A value may describe an estimator itself, as ``{"estimator": ..., "params": ...}``.
    pipeline : sequence of str or dict
        Transformers in front, in order, fitted on training rows only; each an address or ``{"estimator": ...}``.
    axes : mapping of str to sequence of float, optional
        Parameters that are tuned, of the estimator or of a step of the pipeline as ``step__parameter``, and the values
        that are tried of each.
    dense : bool
        Whether sparse rows are made dense.
    random_state : int, optional
        Seed of every ``random_state`` that ``params`` leaves open, and of NumPy's global generator in each fit.

    Notes
    -----
    An axis whose values are all whole numbers is passed as integers, unless the default of that parameter is a float.
    ``LogisticRegression`` starts each setting from the weights of the one before (except with liblinear), as does any
    estimator with ``params: {warm_start: true}``. BLAS and OpenMP run one thread, and ``n_jobs`` is 1.
    """

    not_identity: ClassVar[tuple[str, ...]] = ("random_state", "axes")

    def __init__(
        self,
        estimator: str = "sklearn.linear_model.LogisticRegression",
        params: Mapping[str, Any] | None = None,
        pipeline: Sequence[Any] = (),
        axes: Mapping[str, Sequence[float]] | None = None,
        dense: bool = False,
        random_state: int | None = None,
    ):
        self.estimator = estimator
        self.params = params
        self.pipeline = pipeline
        self.axes = axes
        self.dense = dense
        self.random_state = random_state
        self.measured: dict[int, tuple[float, float]] = {}

    @property
    def grid_axes(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(self.axes or ())

    def check_params(self) -> None:
        EstimatorDescription(self.estimator, self.params, self.pipeline).make()

    def integer_axes(self) -> set[str]:
        """Axes whose values are passed as integers."""
        model = EstimatorDescription(self.estimator, self.params, self.pipeline).make()
        return {axis for axis, tried in (self.axes or {}).items() if are_integers(model, axis, tried)}

    def accepts(self, axis: str, value: float) -> bool:
        """Whether an axis may have a further value, as far as the estimator declares it."""
        tried = [*(self.axes or {})[axis], value]
        try:
            check_estimator_entry(self.estimator, self.params or {}, self.pipeline, {axis: tried})
        except EstimatorError:
            return False
        return True

    def accepts_sparse(self) -> bool:
        """Whether sparse rows can be used, as far as the estimator and the steps in front say it."""
        if self.dense:
            return True
        model = EstimatorDescription(self.estimator, self.params, self.pipeline).make()
        for _, step in model.steps if isinstance(model, Pipeline) else [("", model)]:
            if hasattr(step, "__sklearn_tags__") and not get_tags(step).input_tags.sparse:
                return False
            if not isinstance(step, OneToOneFeatureMixin | SelectorMixin):
                break  # its output may be dense, as that of TruncatedSVD
        return True

    def identity(self, name: str, tuned: Collection[str]) -> dict[str, Any]:
        found = EstimatorDescription(self.estimator, self.params, self.pipeline).identity()
        if self.dense:
            found["params"]["dense"] = True
        return found

    def cost(self, n_rows: float, n_features: int, n_nonzero: float, n_settings: int) -> tuple[float, float]:
        """As `Learner.cost`: a fit that was `measured` for this width, else a guess of fifty passes."""
        scale, exponent = self.measured.get(n_features, (50 * (1e-7 + 1e-9 * n_nonzero), 1.0))
        numbers = n_rows * (n_features if self.dense else 1.5 * n_nonzero)
        return n_settings * (1e-3 + scale * n_rows**exponent), 8.0 * (3 * numbers + n_features * n_settings)

    def n_passes(
        self, n_rows: int, n_features: int, n_nonzero: float, n_settings: int, memory_bytes: float | None
    ) -> int:
        """As `Learner.n_passes`; 1 with warm starts, whose numbers would depend on where a pass begins."""
        n_passes = super().n_passes(n_rows, n_features, n_nonzero, n_settings, memory_bytes)
        if n_passes == 1:
            return 1
        model = EstimatorDescription(self.estimator, self.params, self.pipeline).make()
        return 1 if _starts_warm(model, self.params or {}) else n_passes

    def measure_cost(
        self, X: Any, y: np.ndarray, grid: Mapping[str, np.ndarray]
    ) -> Iterator[dict[int, tuple[float, float]]]:
        """Measure fits of a dataset's rows, whose times `cost` extrapolates by a power of the number of rows.

        Of 500 rows, and then of four times as many, until a fit takes .2 s or has all rows, but of two numbers of rows
        at least. Of a grid, the first and the last setting are measured. What the estimator raises is left to the run.

        Parameters
        ----------
        X, y : arrays
            The whole dataset.
        grid : dict of axis to ndarray of shape (n_settings,)

        Yields
        ------
        dict
            For `measured`, better each time: seconds of a fit by the number of features, as a factor and an exponent of
            the rows.
        """
        rng, labels = np.random.default_rng(0), np.asarray(y)
        rows = rng.permutation(len(labels))
        rare = [np.flatnonzero(labels == label)[:10] for label in (1, -1)]  # both classes, however rare
        ends = {axis: values[[0, -1]] for axis, values in grid.items()}
        sizes: list[int] = []
        times: list[float] = []
        n_rows = _FIRST_MEASUREMENT
        while not times or (sizes[-1] < len(rows) and times[-1] < (_TOO_LONG if len(times) < 2 else _LONG_ENOUGH)):
            order = np.unique(np.concatenate([rows[:n_rows], *rare]))
            # The first fit also loads and compiles; where it is short, a second one tells how long it takes.
            for _ in range(1 if times else 2):
                began = time.process_time()
                try:
                    self.fit_grid(X, y, ends, order=order)
                except Exception:
                    return
                seconds = max(1e-5, time.process_time() - began) / len(next(iter(ends.values()), (0,)))
                if seconds > _TOO_LONG / 10:
                    break
            sizes.append(len(order))
            times.append(seconds)
            n_rows *= 4
            exponent = 1.0
            if len(times) > 1:
                # Over three sizes where there are, since between two a cache that is full looks like a higher power.
                before = max(-3, -len(times))
                exponent = math.log(times[-1] / times[before]) / math.log(sizes[-1] / sizes[before])
                exponent = min(3.0, max(1.0, exponent))
            yield {X.shape[1]: (times[-1] / sizes[-1] ** exponent, exponent)}

    def fit_grid(
        self,
        X: Any,
        y: Any,
        grid: Mapping[str, np.ndarray],
        *,
        order: np.ndarray | None = None,
        on_chunk: Callable[[int], None] | None = None,
    ) -> FittedEstimators:
        name = self.estimator.rpartition("/")[2]  # records do not depend on paths
        rows = slice(None) if order is None else np.asarray(order)
        labels = (np.asarray(y[rows]) > 0).astype(int)
        if len(np.unique(labels)) < 2:
            raise ValueError(f"{name} needs training rows of both classes")
        train = X[rows]
        if self.dense and sparse.issparse(train):
            train = train.toarray()
        template = self._seeded(EstimatorDescription(self.estimator, self.params, self.pipeline).make())
        n_settings = len(next(iter(grid.values()), (0,)))  # without axes, one
        warm = _starts_warm(template, self.params or {}) and n_settings > 1
        if warm:
            final_step(template).set_params(warm_start=True)
        values = {axis: passed_values(template, axis, grid[axis], (self.axes or {})[axis]) for axis in grid}
        fitted: list[Any] = []
        losses: list[str] = []
        self._losses = losses
        model, seen = clone(template), set()
        if sparse.issparse(train) and hasattr(train, "sort_indices"):
            train.sort_indices()  # many estimators do so
        content = _checksum(train, labels)
        for position in range(n_settings):
            if not warm:
                model = clone(template)
            setting = {axis: along[position] for axis, along in values.items()}
            try:
                try:
                    seen |= _fit(model, setting, train, labels, self._seed)
                except ValueError:
                    if not fitted or not warm or all(owner_of(model, axis) is final_step(model) for axis in setting):
                        raise
                    # A step in front may give another number of features than the weights before have.
                    model = clone(template)
                    seen |= _fit(model, setting, train, labels, self._seed)
                fitted.append(copy.deepcopy(model) if warm else model)
            except _OVERFLOWS as error:
                if isinstance(error, np.linalg.LinAlgError) and _SHAPE_IN_WORDS.search(str(error)):
                    raise
                event = error.event if isinstance(error, DivergenceError) else f"{type(error).__name__}: {error}"
                losses.append(event)
                fitted.append(None)
                model = clone(template)
            if _checksum(train, labels) != content:
                raise EstimatorError(
                    f"{name} changes the rows that it is given, from which other settings learn as well",
                    "let fit and the steps in front work on a copy (copy=True)",
                )
            if on_chunk is not None:
                on_chunk(len(fitted))
        self._not_converged = any(issubclass(category, ConvergenceWarning) for category in seen)
        return FittedEstimators(fitted, self.dense, losses)

    def provenance(self) -> dict[str, Any]:
        """A note if the last fits ended with a ConvergenceWarning."""
        if not getattr(self, "_not_converged", False):
            return {}
        name = self.estimator.rpartition(":")[2].rpartition(".")[2]
        return {"note": f"{name} ended before it converged in some fits (ConvergenceWarning)"}

    def why_diverged(self) -> str:
        return next(iter(getattr(self, "_losses", ())), "")

    @property
    def _seed(self) -> int | None:
        if self.random_state is None:
            return None
        return int(np.random.SeedSequence(self.random_state).generate_state(1)[0])

    def _seeded(self, model: Any) -> Any:
        if self.random_state is not None:
            open_seeds = [
                name
                for name, value in model.get_params(deep=True).items()
                if value is None and re.fullmatch(r"(.*__)?random_state", name)
            ]
            model.set_params(**dict.fromkeys(open_seeds, self._seed))
        return model


@contextlib.contextmanager
def _global_seed(seed: int | None) -> Iterator[None]:
    """Seed NumPy's global generator, which estimators without ``random_state`` draw from, for the block."""
    if seed is None:
        yield
        return
    generator = check_random_state(None)
    state = generator.get_state()
    generator.seed(seed)
    try:
        yield
    finally:
        generator.set_state(state)


def _fit(
    model: Any, setting: Mapping[str, Any], train: Any, labels: np.ndarray, seed: int | None
) -> set[type[Warning]]:
    """Train with one thread and the values of a setting; return the kinds of warnings."""
    for axis, value in setting.items():
        owner_of(model, axis).set_params(**{axis: value})
    with (
        threadpool_limits(1),
        warnings.catch_warnings(record=True) as caught,
        np.errstate(all="ignore"),
        _global_seed(seed),
    ):
        warnings.simplefilter("always")
        try:
            model.fit(train, labels)
        except ValueError as error:
            # The rows are finite: infinite ones come from a step in front, whatever the parameters of the last one.
            independent = str(error).startswith("Input X ") and not any("__" in axis for axis in setting)
            if isinstance(error, np.linalg.LinAlgError) or independent or not _OVERFLOW_IN_WORDS.search(str(error)):
                raise
            raise DivergenceError(f"ValueError: {error}") from error
    return {warning.category for warning in caught}


def _checksum(*arrays: Any) -> list[int]:
    """Of the content of arrays; rows of a DataFrame or of another kind are not looked at."""
    parts = [of for each in arrays for of in ((each.data, each.indices) if hasattr(each, "indptr") else (each,))]
    return [zlib.crc32(np.ascontiguousarray(part).data) for part in parts if isinstance(part, np.ndarray)]


def _starts_warm(model: Any, params: Mapping[str, Any]) -> bool:
    if "warm_start" in params:
        return bool(params["warm_start"])
    final = final_step(model)
    return type(final) is LogisticRegression and final.solver != "liblinear"


def _share_of_nonzero(coef: Any) -> float:
    dense = coef.toarray() if sparse.issparse(coef) else np.asarray(coef)  # SVC has sparse weights after sparse rows
    return np.count_nonzero(dense) / dense.size


def _scores_of(estimator: Any, X: Any) -> np.ndarray:
    if hasattr(estimator, "decision_function"):
        scores = estimator.decision_function(X)
        return -np.asarray(scores) if _position_of_positive(estimator) == 0 else scores
    return _probabilities_of(estimator, X)


def _probabilities_of(estimator: Any, X: Any) -> np.ndarray:
    found = np.asarray(estimator.predict_proba(X))
    if found.ndim != 2 or found.shape[1] != 2:
        raise EstimatorError(
            f"{type(estimator).__name__}.predict_proba: expected two probabilities of each row, got an array of shape "
            f"{found.shape}"
        )
    return found[:, _position_of_positive(estimator)]


def _position_of_positive(estimator: Any) -> int:
    """Where the label 1 is among an estimator's two classes, which only scikit-learn's own ones always sort."""
    classes = getattr(estimator, "classes_", None)
    return 0 if classes is not None and len(classes) == 2 and classes[0] == 1 and classes[1] != 1 else 1
