"""A learner from the command line: its name, ``--eta 0.1``, ``--set name=value``."""

from __future__ import annotations

import inspect
import itertools
import math
import re
from collections.abc import Collection, Sequence
from typing import Any, TypeGuard

import numpy as np

from ..errors import LearnerError, suggest
from ..learners import OnePassLearner, get_learner, learner_addresses
from ..values import power
from .tuning import Candidate

__all__ = ["AUTO", "candidates", "step_option"]

AUTO = "auto"

# The parameter that --eta sets where a learner calls its step size otherwise.
_STEP_SIZES = {"ftrl_auc": "gamma", "ftrl_proximal": "gamma", "solam": "xi"} | dict.fromkeys(
    ("spam_l1", "spam_l2", "spam_elastic"), "xi"
)
_UNTUNED = "nag"  # what auto is without tuning: its default suits features of any scale
# A step of these reads a matrix of n_features x n_features, however few values of the row are not 0.
_MOST_FEATURES = {"opauc": 100, "ada_oam": 300}


class _UnknownParameter(LearnerError):
    """A learner does not have a parameter, so that its value may be meant for another one."""


def _powers(first: int, last: int, step: int = 1) -> list[float]:
    return [2.0**k for k in range(first, last + 1, step)]


# What auto compares: parameters that are not the learner's defaults, and a grid.
_AUTO: dict[str, tuple[dict[str, Any], dict[str, list[float]]]] = {
    "nag": ({}, {"eta": _powers(-2, 3)}),
    "adagrad": ({"l1": 0.0}, {"eta": _powers(-4, 1)}),
    "ftrl_proximal": ({"l1": 0.0, "refresh": True}, {"gamma": _powers(-4, 2)}),
    "ftrl_auc": ({"l1": 0.1}, {"gamma": _powers(-7, 0)}),
    "uni_log": ({}, {"eta": _powers(-10, 2, 2)}),
    "opauc": ({"lam": 2.0**-12}, {"eta": _powers(-13, -6)}),
    "ada_oam": ({"lam": 2.0**-14}, {"eta": _powers(-8, -1)}),
}
# What is compared of a learner that is named; of others, the first axis around its default.
_GRIDS: dict[str, dict[str, list[float]]] = {
    "nag": {"eta": _powers(-4, 4)},
    "adagrad": {"eta": _powers(-7, 2), "l1": [0.0, 1e-6, 1e-5, 1e-4]},
    "ftrl_proximal": {"gamma": _powers(-7, 3), "l1": [0.0, 0.1, 1.0]},
    "ftrl_auc": {"gamma": _powers(-9, 1), "l1": [0.0, 0.1, 1.0]},
    **{name: {"eta": _powers(-12, 3)} for name in ("uni_exp", "uni_log", "uni_squ")},
    "opauc": {"eta": _powers(-14, -3), "lam": [2.0**-14, 2.0**-8]},
    "ada_oam": {"eta": _powers(-9, 1), "lam": [2.0**-14, 2.0**-8]},
}
_AROUND_DEFAULT = [4.0**k for k in range(-4, 5)]
_INTEGER = re.compile(r"[+-]?[0-9]{1,308}")


def candidates(name: str, given: dict[str, str | None], assignments: list[str], tune: bool) -> list[Candidate]:
    """What takes part in a training: the settings of one learner, or of all those that ``auto`` stands for.

    Parameters that are given are not tuned. With ``auto`` they are for the learners that have them, and the others do
    not take part.

    Raises
    ------
    LearnerError
        If there is no such learner, it needs all rows at once, or has no such parameter or value; with ``auto``, if
        that is so for all of its learners.
    """
    assigned = [*map(_assignment, assignments)]
    is_auto = name == AUTO and tune
    name = _UNTUNED if name == AUTO else name
    found, problem = [], None
    for one, (fixed, grid) in _AUTO.items() if is_auto else [(name, ({}, _GRIDS.get(name)))]:
        try:
            learner, typed = _make_learner(one, given, assigned)
        except LearnerError as error:
            if not is_auto:
                raise
            lacks = isinstance(problem, _UnknownParameter)
            if problem is None or (lacks and not isinstance(error, _UnknownParameter)):
                problem = error
            continue
        learner.set_params(**{key: value for key, value in fixed.items() if key not in typed})
        axes = (grid or _around_default(learner)) if tune else {}
        axes = {axis: values for axis, values in axes.items() if axis not in typed}
        found.append(Candidate(one, learner, _product(axes), _MOST_FEATURES.get(one) if is_auto else None))
    if problem is not None and not found:
        of_another = "--learner NAME, if it is for another one: opauc-bench learners list"
        raise LearnerError(
            f"no learner of auto can be made ({', '.join(_AUTO)}): {problem.message}",
            of_another if isinstance(problem, _UnknownParameter) else problem.hint,
        )
    return found


def _around_default(learner: OnePassLearner) -> dict[str, list[float]]:
    """The first axis of a learner, around its default."""
    first = learner.grid_axes[0]
    default = float(getattr(type(learner)(), first))
    return {first: [default * factor for factor in _AROUND_DEFAULT] if default else [0.0]}


def _product(axes: dict[str, list[float]]) -> dict[str, np.ndarray] | None:
    settings = np.array(list(itertools.product(*axes.values())))
    return dict(zip(axes, settings.T)) if axes else None


def _parameter(name: str, option: str, known: Any) -> str:
    """The parameter of a learner that an option stands for."""
    parameter = "lam" if option == "lambda" else option
    return _STEP_SIZES.get(name, parameter) if parameter == "eta" and "eta" not in known else parameter


def _make_learner(
    name: str, given: dict[str, str | None], assigned: Sequence[tuple[str, str]]
) -> tuple[OnePassLearner, Collection[str]]:
    """A learner with the values that were typed, and the names of these parameters; errors as `candidates`."""
    kind = get_learner(name)
    if not _streams(kind):
        raise LearnerError(
            f"{name} needs the whole training set: it cannot learn from a stream",
            f"one of {', '.join(_one_pass_learners())}",
        )
    known = inspect.signature(kind).parameters
    typed: dict[str, str] = {}
    for option, value in [*given.items(), *assigned]:
        if value is None:
            continue
        parameter = _parameter(name, option, known)
        if parameter not in known:
            raise _UnknownParameter(
                _unknown(name, option, known), f"opauc-bench learners show {name}  # what they mean"
            )
        if parameter in typed:
            raise LearnerError(f"{parameter} of {name} is given twice: {typed[parameter]} and {value}")
        typed[parameter] = value
    values = {parameter: _value(name, parameter, text, known[parameter].default) for parameter, text in typed.items()}
    if "random_state" in known:
        values.setdefault("random_state", 0)  # the same file gives the same model
    try:
        return kind(**values), typed
    except TypeError as error:
        raise LearnerError(f"{name} cannot be made: {error}") from error


def step_option(name: str, learner: OnePassLearner) -> str:
    """The options to change where a learner's steps are too large."""
    has_eta = name in _STEP_SIZES or "eta" in learner.get_params()
    return "a smaller --eta" if has_eta else f"other values of {', '.join(learner.grid_axes)}, with --set"


def _streams(kind: type) -> TypeGuard[type[OnePassLearner]]:
    return issubclass(kind, OnePassLearner) and kind.streams


def _one_pass_learners() -> list[str]:
    found = []
    for name in learner_addresses():
        try:
            found += [name] if _streams(get_learner(name)) else []
        except LearnerError:
            continue
    return found


def _assignment(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise LearnerError(f"--set: expected name=value, got {text!r}", "--set gamma=0.1")
    return name.strip(), value.strip()


def _unknown(name: str, option: str, known: Any) -> str:
    listed = ", ".join(f"{one.name}={_spelled(one.default)}" for one in known.values())
    return f"{name} has no parameter {option}{suggest(option, known)}; it has {listed}"


def _spelled(value: Any) -> str:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return f"{value:g}"
    return {True: "true", False: "false", None: "none"}.get(value, str(value))


def _value(learner: str, parameter: str, text: str, default: Any) -> Any:
    """Read a value as what the parameter's default is."""
    if isinstance(default, str):
        return text
    if isinstance(default, bool):
        if text.lower() not in ("true", "false"):
            raise LearnerError(f"{parameter} of {learner}: expected true or false, got {text!r}")
        return text.lower() == "true"
    if default is None and text.lower() == "none":
        return None
    whole = default is None or isinstance(default, int)
    if whole and _INTEGER.fullmatch(text):  # which may have more digits than a float
        return int(text)
    number = _number(text)
    if number is None or (whole and number != int(number)):
        what = "a whole number" if whole else "a number such as 0.1, 1e-3 or 2^-8"
        raise LearnerError(f"{parameter} of {learner}: expected {what}, got {text!r}")
    return int(number) if whole else number


def _number(text: str) -> float | None:
    try:
        number = power(text)
        number = float(text) if number is None else number
    except ValueError:
        return None
    return number if math.isfinite(number) and "_" not in text else None
