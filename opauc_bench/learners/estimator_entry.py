"""What an experiment file says of a scikit-learn compatible estimator: how it is made, checked and identified.

An estimator is given by an address, ``package.module.Class`` or ``path/to/file.py:Class``, with parameters that are
plain values or estimators again: ``{"estimator": address, "params": {...}}``.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline, make_pipeline

from ..errors import LearnerError, suggest
from .user_files import file_hash, file_of, load_file, pin_module, pinned_module

__all__ = [
    "EstimatorDescription",
    "EstimatorError",
    "are_integers",
    "check_estimator_entry",
    "final_step",
    "owner_of",
    "passed_values",
]

_OWN_PACKAGE = __name__.partition(".")[0]


class EstimatorError(LearnerError):
    """An estimator cannot be made as it is described; ``loc`` is the place in its entry of the experiment file."""

    def __init__(self, message: str, hint: str = "", loc: tuple[str | int, ...] = (), at_key: bool = False):
        super().__init__(message, hint)
        self.loc, self.at_key = loc, at_key

    def __reduce__(self):
        return type(self), (self.message, self.hint, self.loc, self.at_key)


class EstimatorDescription:
    """What an entry says of an estimator, its parameters and the steps in front."""

    def __init__(self, address: str, params: Mapping[str, Any] | None, pipeline: Sequence[Any]):
        self.address, self.params, self.pipeline = address, dict(params or {}), pipeline
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

    def identity(self) -> dict[str, Any]:
        """What the results depend on: as of `Learner.identity`, without the folders of files."""
        addresses = [self.address, *(address for address, _ in self.parts())]
        params = {key: _without_folder(value) for key, value in self.params.items()}
        if self.pipeline:
            params["pipeline"] = [_without_folder(step) for step in self.pipeline]
        found = {
            "learner": _without_folder(self.address),
            "version": ", ".join(dict.fromkeys(filter(None, map(_package_of, addresses)))),
            "params": params,
        }
        hashes = [_present_hash(Path(file)) for file in dict.fromkeys(filter(None, map(_source_of, addresses)))]
        return {**found, "source": " ".join(hashes)} if hashes else found


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
    model = EstimatorDescription(estimator, params, pipeline).make()
    try:
        clone(model)
    except (RuntimeError, TypeError) as error:  # of a constructor that changes a parameter
        raise EstimatorError(f"{estimator}: {error}", loc=("estimator",)) from None
    final = final_step(model)
    # StackingClassifier makes its default final estimator in fit, and has its methods from then on.
    has_probabilities = hasattr(final, "predict_proba") or getattr(final, "final_estimator", final) is None
    if not hasattr(final, "fit") or not (has_probabilities or hasattr(final, "decision_function")):
        raise EstimatorError(
            f"{estimator} gives no scores: expected fit, and decision_function or predict_proba", loc=("estimator",)
        )
    for axis, values in grid.items():
        owner = owner_of(model, axis)
        known = owner.get_params(deep=True)
        if axis not in known:
            tunable = {*final.get_params(), *(name for name in model.get_params() if "__" in name)}
            raise EstimatorError(_unknown(estimator, axis, tunable), loc=("grid", axis), at_key=True)
        # One fraction makes the whole axis floats. Where that is refused, it is the value to name: fractions go first.
        passed = sorted(
            enumerate(passed_values(model, axis, values, values)), key=lambda item: float(item[1]).is_integer()
        )
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
    if (file := file_of(address)) is not None:
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
        advice = suggest(name, [key for key, value in vars(module).items() if isinstance(value, type)])
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


_HASHES: dict[str, str] = {}  # of the user's modules that were imported, by file


def _imported(name: str) -> Any:
    """A module; one of the user's is imported again after an edit, as its file is part of the identity."""
    module = importlib.import_module(name)
    file = getattr(module, "__file__", None)
    if file is None or any(Path(file).is_relative_to(prefix) for prefix in (sys.prefix, sys.base_prefix)):
        return module
    if pinned_module(Path(file)) is not None:
        return module
    now = file_hash(Path(file))
    if _HASHES.setdefault(file, now) != now:
        importlib.invalidate_caches()
        module, _HASHES[file] = importlib.reload(module), now
    pin_module(Path(file), module)
    return module


def _present_hash(path: Path) -> str:
    """Hash of a file, or of what was imported from it where that is pinned."""
    module = pinned_module(path)
    return file_hash(path) if module is None else getattr(module, "source_hash", None) or _HASHES[str(path)]


def _source_of(address: str) -> str | None:
    """The file whose content is part of the identity: of a class that no installed package has."""
    if (file := file_of(address)) is not None or _package_of(address) or address.startswith(f"{_OWN_PACKAGE}."):
        return file
    return getattr(sys.modules.get(_class_at(address, ()).__module__), "__file__", None)


def _without_folder(value: Any) -> Any:
    """An address without the path of its file, which is not part of an identity; inside descriptions too."""
    if isinstance(value, str):
        return value.rpartition(":")[2] if file_of(value) else value
    if isinstance(value, Mapping):
        return {key: _without_folder(below) for key, below in value.items()}
    return [_without_folder(below) for below in value] if isinstance(value, list | tuple) else value


def _package_of(address: str) -> str:
    """The installed package of an address with its version; empty for a file. A learner of ours has its own version."""
    if file_of(address):
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
    return f"{address} has no parameter {name!r}{suggest(name, known)}; known: {', '.join(sorted(known))}"


def final_step(model: Any) -> Any:
    return model[-1] if isinstance(model, Pipeline) else model


def owner_of(model: Any, axis: str) -> Any:
    """Whose parameter an axis is: of the estimator itself, or of the pipeline as ``step__parameter``."""
    final = final_step(model)
    return final if axis in final.get_params(deep=True) else model


def passed_values(
    model: Any, axis: str, values: Sequence[float] | np.ndarray, tried: Sequence[float]
) -> list[float] | list[int]:
    """Values of an axis as the estimator gets them; all that are ``tried`` decide whether they are integers."""
    number = int if are_integers(model, axis, tried) else float
    return [number(value) for value in values]


def are_integers(model: Any, axis: str, tried: Sequence[float]) -> bool:
    default = owner_of(model, axis).get_params(deep=True).get(axis)
    return all(float(value).is_integer() for value in tried) and not isinstance(default, float)
