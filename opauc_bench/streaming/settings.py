"""A learner from the command line: its name, ``--eta 0.1``, ``--set name=value``."""

from __future__ import annotations

import difflib
import inspect
import math
import re
from typing import Any

from ..errors import LearnerError
from ..learners import OnePassLearner, get_learner, learner_names

__all__ = ["make_learner", "step_option"]

# The parameter that --eta sets where a learner calls its step size otherwise.
_STEP_SIZES = {"ftrl_auc": "gamma", "ftrl_proximal": "gamma", "solam": "xi"} | dict.fromkeys(
    ("spam_l1", "spam_l2", "spam_elastic"), "xi"
)
_POWER = re.compile(r"([0-9.]+)(?:\^|\*\*)([+-]?[0-9]+)")


def make_learner(name: str, given: dict[str, str | None], assignments: list[str]) -> OnePassLearner:
    """Make a learner from values as they were typed: ``given`` by parameter, where None is left out, and assignments.

    Raises
    ------
    LearnerError
        If there is no such learner, it needs all rows at once, or has no such parameter or value.
    """
    kind = get_learner(name)
    if not _streams(kind):
        raise LearnerError(
            f"{name} needs the whole training set: it cannot learn from a stream",
            f"one of {', '.join(_one_pass_learners())}",
        )
    known = inspect.signature(kind).parameters
    typed: dict[str, str] = {}
    for option, value in [*given.items(), *map(_assignment, assignments)]:
        if value is None:
            continue
        parameter = "lam" if option == "lambda" else option
        if parameter == "eta" and "eta" not in known:
            parameter = _STEP_SIZES.get(name, parameter)
        if parameter not in known:
            raise LearnerError(_unknown(name, option, known), f"opauc-bench learners show {name}  # what they mean")
        if parameter in typed:
            raise LearnerError(f"{parameter} of {name} is given twice: {typed[parameter]} and {value}")
        typed[parameter] = value
    values = {parameter: _value(name, parameter, text, known[parameter].default) for parameter, text in typed.items()}
    if "random_state" in known:
        values.setdefault("random_state", 0)  # the same file gives the same model
    try:
        return kind(**values)
    except TypeError as error:
        raise LearnerError(f"{name} cannot be made: {error}") from error


def step_option(name: str, learner: OnePassLearner) -> str:
    """The options to change where a learner's steps are too large."""
    has_eta = name in _STEP_SIZES or "eta" in learner.get_params()
    return "a smaller --eta" if has_eta else f"other values of {', '.join(learner.grid_axes)}, with --set"


def _streams(kind: type) -> bool:
    return issubclass(kind, OnePassLearner) and kind.streams


def _one_pass_learners() -> list[str]:
    found = []
    for name in learner_names():
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
    near = difflib.get_close_matches(option, known, 1)
    listed = ", ".join(f"{one.name}={_spelled(one.default)}" for one in known.values())
    return f"{name} has no parameter {option}" + (f" (did you mean {near[0]}?)" if near else "") + f"; it has {listed}"


def _spelled(value: Any) -> str:
    return f"{value:g}" if _is_number(value) else {True: "true", False: "false", None: "none"}.get(value, str(value))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


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
    number = _number(text)
    whole = default is None or isinstance(default, int)
    if number is None or (whole and number != int(number)):
        what = "a whole number" if whole else "a number such as 0.1, 1e-3 or 2^-8"
        raise LearnerError(f"{parameter} of {learner}: expected {what}, got {text!r}")
    return int(number) if whole else number


def _number(text: str) -> float | None:
    power = _POWER.fullmatch(text)
    try:
        number = float(power[1]) ** int(power[2]) if power else float(text)
    except (ValueError, OverflowError, ZeroDivisionError):
        return None
    return number if math.isfinite(number) and "_" not in text else None
