"""Any scikit-learn compatible classifier as a learner: its scores are ranked, its grid is a loop of fits.

An estimator is given by an address, ``package.module.Class`` or ``path/to/file.py:Class``, with parameters that are
plain values or estimators again: ``{"estimator": address, "params": {...}}``.
"""

from __future__ import annotations

import contextlib
import copy
import difflib
import functools
import importlib
import math
import re
import sys
import time
import warnings
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.base import OneToOneFeatureMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import SelectorMixin
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils import check_random_state, get_tags
from threadpoolctl import threadpool_limits

from ..errors import LearnerError
from .ranker import DivergenceError, Learner
from .user_files import file_hash, load_file

__all__ = ["EstimatorError", "EstimatorLearner", "FittedEstimators", "check_estimator_entry"]

# What a fit may raise because a number overflowed: the setting has diverged. For scikit-learn it is a ValueError.
_OVERFLOWS = (DivergenceError, FloatingPointError, OverflowError, np.linalg.LinAlgError)
_OVERFLOW_IN_WORDS = re.compile(r"overflow|infinity|non-finite|not finite", re.IGNORECASE)
_FIRST_MEASUREMENT = 500  # rows
_LONG_ENOUGH = 0.2  # seconds: what does not depend on the number of rows takes less
_TOO_LONG = 10.0  # seconds
_OWN_PACKAGE = __name__.partition(".")[0]


class EstimatorError(LearnerError):
    """An estimator cannot be made as it is described; ``loc`` is the place in its entry of the experiment file."""

    def __init__(self, message: str, hint: str = "", loc: tuple[str | int, ...] = (), at_key: bool = False):
        super().__init__(message, hint)
        self.loc, self.at_key = loc, at_key

    def __reduce__(self):
        return type(self), (self.message, self.hint, self.loc, self.at_key)


class FittedEstimators:
    """The models of a grid, see `Models`: a fitted estimator per setting, None where the setting diverged.

    Parameters
    ----------
    estimators : list of estimator or None
    dense : bool
        Whether sparse rows are made dense before they are scored.
    """

    def __init__(self, estimators: Sequence[Any], dense: bool = False):
        self._estimators, self.dense = list(estimators), dense

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
        if sparse.issparse(rows) and hasattr(rows, "sort_indices"):
            rows.sort_indices()
        content = _checksum(rows)
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            columns = [np.asarray(values(estimator, rows), dtype=dtype) for estimator in alive]
        if _checksum(rows) != content:
            raise EstimatorError("the estimator changes the rows that it is to score", "let it work on a copy")
        if wrong := [column for column in columns if column.size != X.shape[0]]:
            raise ValueError(f"expected one score per row, {X.shape[0]} in all; got an array of shape {wrong[0].shape}")
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
        _Description(self.estimator, self.params, self.pipeline).make()

    def integer_axes(self) -> set[str]:
        """Axes whose values are passed as integers."""
        model = _Description(self.estimator, self.params, self.pipeline).make()
        return {axis for axis, tried in (self.axes or {}).items() if _are_integers(model, axis, tried)}

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
        model = _Description(self.estimator, self.params, self.pipeline).make()
        for _, step in model.steps if isinstance(model, Pipeline) else [("", model)]:
            if hasattr(step, "__sklearn_tags__") and not get_tags(step).input_tags.sparse:
                return False
            if not isinstance(step, OneToOneFeatureMixin | SelectorMixin):
                break  # its output may be dense, as that of TruncatedSVD
        return True

    def identity(self, name: str, tuned: Collection[str]) -> dict[str, Any]:
        description = _Description(self.estimator, self.params, self.pipeline)
        addresses = [description.address, *(address for address, _ in description.parts())]
        params = dict(self.params or {})
        if self.pipeline:
            params["pipeline"] = [_without_folder(step) for step in self.pipeline]
        if self.dense:
            params["dense"] = True
        found = {
            "learner": _without_folder(self.estimator),
            "version": ", ".join(dict.fromkeys(filter(None, map(_package_of, addresses)))),
            "params": {key: _without_folder(value) for key, value in params.items()},
        }
        hashes = [file_hash(Path(file)) for file in dict.fromkeys(filter(None, map(_source_of, addresses)))]
        return {**found, "source": " ".join(hashes)} if hashes else found

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
        model = _Description(self.estimator, self.params, self.pipeline).make()
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
        rows = slice(None) if order is None else np.asarray(order)
        labels = (np.asarray(y[rows]) > 0).astype(int)
        if len(np.unique(labels)) < 2:
            raise ValueError(f"{self.estimator} needs training rows of both classes")
        train = X[rows]
        if self.dense and sparse.issparse(train):
            train = train.toarray()
        template = self._seeded(_Description(self.estimator, self.params, self.pipeline).make())
        n_settings = len(next(iter(grid.values()), (0,)))  # without axes, one
        warm = _starts_warm(template, self.params or {}) and n_settings > 1
        if warm:
            _final(template).set_params(warm_start=True)
        values = {axis: _passed(template, axis, grid[axis], (self.axes or {})[axis]) for axis in grid}
        fitted: list[Any] = []
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
                    if not fitted or not warm or all(_owner(model, axis) is _final(model) for axis in setting):
                        raise
                    # A step in front may give another number of features than the weights before have.
                    model = clone(template)
                    seen |= _fit(model, setting, train, labels, self._seed)
                fitted.append(copy.deepcopy(model) if warm else model)
            except _OVERFLOWS:
                fitted.append(None)
                model = clone(template)
            if _checksum(train, labels) != content:
                raise EstimatorError(
                    f"{self.estimator} changes the rows that it is given, from which other settings learn as well",
                    "let fit and the steps in front work on a copy (copy=True)",
                )
            if on_chunk is not None:
                on_chunk(len(fitted))
        self._not_converged = any(issubclass(category, ConvergenceWarning) for category in seen)
        return FittedEstimators(fitted, self.dense)

    def provenance(self) -> dict[str, Any]:
        """A note if the last fits ended with a ConvergenceWarning."""
        if not getattr(self, "_not_converged", False):
            return {}
        name = self.estimator.rpartition(":")[2].rpartition(".")[2]
        return {"note": f"{name} ended before it converged in some fits (ConvergenceWarning)"}

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
        _owner(model, axis).set_params(**{axis: value})
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
            if independent or not _OVERFLOW_IN_WORDS.search(str(error)):
                raise
            raise DivergenceError(str(error)) from error
    return {warning.category for warning in caught}


class _Description:
    """What an entry says of an estimator, its parameters and the steps in front."""

    def __init__(self, address: str, params: Mapping[str, Any] | None, pipeline: Sequence[Any]):
        self.address, self.params = address, dict(params or {})
        self.steps = [step if isinstance(step, Mapping) else {"estimator": step} for step in pipeline]

    def make(self) -> Any:
        """The unfitted estimator, in a pipeline if there are steps in front; raises EstimatorError."""
        final = _made(self.address, self.params, ("estimator",), ("params",))
        steps = []
        for position, step in enumerate(self.steps):
            place = ("pipeline", position)
            made = _made(step["estimator"], step.get("params", {}), place, (*place, "params"))
            if not hasattr(made, "transform"):
                raise EstimatorError(f"{step['estimator']} is not a transformer: it has no transform", loc=place)
            steps.append(made)
        return make_pipeline(*steps, final) if steps else final

    def parts(self) -> Iterator[tuple[str, Any]]:
        """Address and parameters of all estimators inside this one."""
        yield from _described([*self.params.values(), *self.steps])


def _described(values: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """Address and parameters of the estimators that values describe, or have inside."""
    for value in values:
        if _describes(value):
            yield value["estimator"], value.get("params", {})
            yield from _described(value.get("params", {}).values())
        elif isinstance(value, Mapping):
            yield from _described(value.values())
        elif isinstance(value, list | tuple):
            yield from _described(value)


def check_estimator_entry(
    estimator: str, params: Mapping[str, Any], pipeline: Sequence[Any], grid: Mapping[str, Sequence[float]]
) -> bool:
    """Check the entry of an estimator in an experiment file, without data.

    Returns
    -------
    bool
        Whether it has ``predict_proba`` with these parameters.

    Raises
    ------
    EstimatorError
        With the place in the entry: a class that cannot be imported, a parameter that it does not have or a value that
        it refuses, no scores, several threads.
    """
    model = _Description(estimator, params, pipeline).make()
    try:
        clone(model)
    except (RuntimeError, TypeError) as error:  # of a constructor that changes a parameter
        raise EstimatorError(f"{estimator}: {error}", loc=("estimator",)) from None
    final = _final(model)
    # StackingClassifier makes its default final estimator in fit, and has its methods from then on.
    has_probabilities = hasattr(final, "predict_proba") or getattr(final, "final_estimator", final) is None
    if not hasattr(final, "fit") or not (has_probabilities or hasattr(final, "decision_function")):
        raise EstimatorError(
            f"{estimator} gives no scores: expected fit, and decision_function or predict_proba", loc=("estimator",)
        )
    for axis, values in grid.items():
        owner = _owner(model, axis)
        known = owner.get_params(deep=True)
        if axis not in known:
            raise EstimatorError(_unknown(estimator, axis, known), loc=("grid", axis), at_key=True)
        # One fraction makes the whole axis floats. Where that is refused, it is the value to name: fractions go first.
        passed = sorted(enumerate(_passed(model, axis, values, values)), key=lambda item: float(item[1]).is_integer())
        for position, value in passed:
            owner.set_params(**{axis: value})
            _validate(model if owner is not final else final, ("grid", axis, position))
    return has_probabilities


def _made(address: str, params: Mapping[str, Any], place: tuple, place_of_params: tuple) -> Any:
    class_ = _class_at(address, place)
    made = {name: _value(value, (*place_of_params, name)) for name, value in params.items()}
    try:
        known = class_().get_params(deep=False)
    except Exception:
        known = made  # it cannot be made without parameters: the constructor has the last word
    if not hasattr(class_, "get_params"):
        raise EstimatorError(f"{address} is not a scikit-learn estimator: it has no get_params", loc=place)
    if not made.keys() <= known.keys():
        with contextlib.suppress(Exception):  # those of LightGBM take others than they list
            known = known | class_(**made).get_params(deep=False)
    for name in made:
        if name not in known:
            raise EstimatorError(_unknown(address, name, known), loc=(*place_of_params, name), at_key=True)
        if isinstance(known[name], tuple) and isinstance(made[name], list):  # YAML has no tuples
            made[name] = tuple(made[name])
    weights = made.get("class_weight")
    for label in weights if isinstance(weights, Mapping) else ():
        if label not in (0, 1):
            message = f"expected the classes 0 and 1, got {label!r}"
            raise EstimatorError(message, loc=(*place_of_params, "class_weight", str(label)), at_key=True)
    if "n_jobs" in known and made.setdefault("n_jobs", 1) not in (None, 1):
        message = f"expected 1, got {made['n_jobs']}: tasks run in parallel, one thread each; use run --jobs"
        raise EstimatorError(message, loc=(*place_of_params, "n_jobs"))
    try:
        model = class_(**made)
    except Exception as error:
        raise EstimatorError(f"{address}: {type(error).__name__}: {error}", loc=place) from error
    _validate(model, place_of_params)
    return model


def _validate(model: Any, place: tuple) -> None:
    """Let scikit-learn check the values of parameters, where the estimator declares what they may be."""
    steps = [step for _, step in model.steps] if isinstance(model, Pipeline) else [model]
    for step in steps:
        if hasattr(step, "_validate_params") and hasattr(step, "_parameter_constraints"):
            try:
                step._validate_params()
            except ValueError as error:
                named = re.search(r"'(\w+)' parameter", str(error))
                here = (*place, named[1]) if named and place[-1] == "params" else place
                raise EstimatorError(str(error), loc=here) from None


def _class_at(address: str, place: tuple) -> type:
    if (file := _file_of(address)) is not None:
        name = address.rpartition(":")[2]
        try:
            module = load_file(Path(file))
        except LearnerError as error:
            raise EstimatorError(error.message, error.hint, place) from error
        module_name = str(file)
    else:
        module_name, _, name = address.rpartition(".")
        try:
            module = _imported(module_name)
        except (ImportError, ValueError) as error:
            raise EstimatorError(
                f"{address!r} cannot be imported: {error}",
                "expected package.module.Class, of an installed package, or path/to/file.py:Class",
                place,
            ) from error
    found = getattr(module, name, None)
    if not isinstance(found, type):
        near = difflib.get_close_matches(name, [key for key, value in vars(module).items() if isinstance(value, type)])
        advice = f" (did you mean {near[0]!r}?)" if near else ""
        raise EstimatorError(f"{module_name} has no class {name!r}{advice}", loc=place)
    return found


def _value(value: Any, place: tuple) -> Any:
    """The value of a parameter, with the estimators that it describes.

    Keys are as they were written: JSON makes text of whole numbers, such as the labels of ``class_weight``.
    """
    if _describes(value):
        return _made(value["estimator"], value.get("params", {}), place, (*place, "params"))
    if isinstance(value, list | tuple):
        return [_value(below, (*place, position)) for position, below in enumerate(value)]
    if isinstance(value, Mapping):
        return {
            int(key) if re.fullmatch(r"-?\d+", str(key)) else key: _value(below, (*place, key))
            for key, below in value.items()
        }
    return value


def _describes(value: Any) -> bool:
    return isinstance(value, Mapping) and "estimator" in value


def _file_of(address: str) -> str | None:
    file = address.rpartition(":")[0]
    return file if file.endswith(".py") else None


_HASHES: dict[str, str] = {}  # of the user's modules that were imported, by file


def _imported(name: str) -> Any:
    """A module; one of the user's is imported again after an edit, as its file is part of the identity."""
    module = importlib.import_module(name)
    file = getattr(module, "__file__", None)
    if file is None or any(Path(file).is_relative_to(prefix) for prefix in (sys.prefix, sys.base_prefix)):
        return module
    now = file_hash(Path(file))
    if _HASHES.setdefault(file, now) != now:
        importlib.invalidate_caches()
        module, _HASHES[file] = importlib.reload(module), now
    return module


def _source_of(address: str) -> str | None:
    """The file whose content is part of the identity: of a class that no installed package has."""
    if (file := _file_of(address)) is not None or _package_of(address) or address.startswith(f"{_OWN_PACKAGE}."):
        return file
    return getattr(sys.modules.get(_class_at(address, ()).__module__), "__file__", None)


def _checksum(*arrays: Any) -> list[int]:
    """Of the content of arrays; rows of a DataFrame or of another kind are not looked at."""
    parts = [of for each in arrays for of in ((each.data, each.indices) if hasattr(each, "indptr") else (each,))]
    return [zlib.crc32(np.ascontiguousarray(part).data) for part in parts if isinstance(part, np.ndarray)]


def _without_folder(value: Any) -> Any:
    """An address without the path of its file, which is not part of an identity; inside descriptions too."""
    if isinstance(value, str):
        return value.rpartition(":")[2] if _file_of(value) else value
    if isinstance(value, Mapping):
        return {key: _without_folder(below) for key, below in value.items()}
    return [_without_folder(below) for below in value] if isinstance(value, list | tuple) else value


def _package_of(address: str) -> str:
    """The installed package of an address with its version; empty for a file. A learner of ours has its own version."""
    if _file_of(address):
        return ""
    top = address.partition(".")[0]
    if top == _OWN_PACKAGE:
        version = getattr(_class_at(address, ()), "version", 1)
        return f"{address.rpartition('.')[2]} version {version}" if version > 1 else ""
    name = _distribution_of(top)
    return f"{name} {metadata.version(name)}" if name else ""


@functools.cache
def _distribution_of(module: str) -> str:
    """The distribution that has installed a module, if any. That takes a quarter of a second: all files are listed."""
    return next(iter(metadata.packages_distributions().get(module, [])), "")


def _unknown(address: str, name: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(name, known, 1)
    advice = f" (did you mean {near[0]!r}?)" if near else ""
    return f"{address} has no parameter {name!r}{advice}; known: {', '.join(sorted(known))}"


def _final(model: Any) -> Any:
    return model[-1] if isinstance(model, Pipeline) else model


def _owner(model: Any, axis: str) -> Any:
    """Whose parameter an axis is: of the estimator itself, or of the pipeline as ``step__parameter``."""
    final = _final(model)
    return final if axis in final.get_params(deep=True) else model


def _passed(
    model: Any, axis: str, values: Sequence[float] | np.ndarray, tried: Sequence[float]
) -> list[float] | list[int]:
    """Values of an axis as the estimator gets them; all that are ``tried`` decide whether they are integers."""
    number = int if _are_integers(model, axis, tried) else float
    return [number(value) for value in values]


def _are_integers(model: Any, axis: str, tried: Sequence[float]) -> bool:
    default = _owner(model, axis).get_params(deep=True).get(axis)
    return all(float(value).is_integer() for value in tried) and not isinstance(default, float)


def _starts_warm(model: Any, params: Mapping[str, Any]) -> bool:
    if "warm_start" in params:
        return bool(params["warm_start"])
    final = _final(model)
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
    return estimator.predict_proba(X)[:, _position_of_positive(estimator)]


def _position_of_positive(estimator: Any) -> int:
    """Where the label 1 is among an estimator's two classes, which only scikit-learn's own ones always sort."""
    classes = getattr(estimator, "classes_", None)
    return 0 if classes is not None and len(classes) == 2 and classes[0] == 1 and classes[1] != 1 else 1
