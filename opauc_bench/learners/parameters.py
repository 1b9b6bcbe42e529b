"""Constraints on the parameters of learners: declared beside a learner, checked in one place, one form of message.

A learner declares them in ``parameter_constraints``, a dict of parameter name to constraint. ``str`` of a constraint
completes the sentence "eta has to be ...".
"""

from __future__ import annotations

import math
import numbers
import os
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

__all__ = [
    "NOT_NEGATIVE",
    "POSITIVE",
    "VARIANT",
    "Boolean",
    "Constraint",
    "Integer",
    "OptionalPath",
    "Options",
    "Real",
    "Seed",
    "require",
]


class Constraint(Protocol):
    """What a parameter may be."""

    def accepts(self, value: Any) -> bool:
        """Whether ``value`` is allowed."""


@dataclass(frozen=True)
class Real:
    """A finite number, but not True or False, with an optional lower bound.

    Parameters
    ----------
    above : float, optional
        Exclusive lower bound.
    at_least : float, optional
        Inclusive lower bound.
    """

    above: float = -np.inf
    at_least: float = -np.inf

    def accepts(self, value: Any) -> bool:
        if not isinstance(value, numbers.Real) or isinstance(value, bool):
            return False
        try:
            number = float(value)
        except OverflowError:
            return False
        return math.isfinite(number) and number > self.above and number >= self.at_least

    def __str__(self) -> str:
        if self.above > -np.inf:
            return f"a number > {self.above:g}"
        return f"a number >= {self.at_least:g}" if self.at_least > -np.inf else "a finite number"


@dataclass(frozen=True)
class Integer:
    """An integer between two bounds, both included, but not True or False."""

    at_least: int
    at_most: int = 2**31 - 1  # sizes of arrays; the kernels count in 64 bits

    def accepts(self, value: Any) -> bool:
        if not isinstance(value, numbers.Integral) or isinstance(value, bool):
            return False
        return self.at_least <= int(value) <= self.at_most

    def __str__(self) -> str:
        return f"an integer from {self.at_least} to {self.at_most}"


class Boolean:
    """True or False."""

    def accepts(self, value: Any) -> bool:
        return isinstance(value, bool | np.bool_)

    def __str__(self) -> str:
        return "True or False"


class Options:
    """One of several words."""

    def __init__(self, *words: str):
        self.words = words

    def accepts(self, value: Any) -> bool:
        return isinstance(value, str) and value in self.words

    def __str__(self) -> str:
        return f"one of {', '.join(self.words)}"


class Seed:
    """What ``numpy.random.default_rng`` is seeded with."""

    def accepts(self, value: Any) -> bool:
        if isinstance(value, numbers.Integral) and not isinstance(value, bool):
            return int(value) >= 0
        return value is None or isinstance(value, np.random.Generator)

    def __str__(self) -> str:
        return "None, an integer >= 0 or a numpy.random.Generator"


class OptionalPath:
    """The path of a file, or None."""

    def accepts(self, value: Any) -> bool:
        return value is None or isinstance(value, str | os.PathLike)

    def __str__(self) -> str:
        return "None or the path of a file"


POSITIVE = Real(above=0)
NOT_NEGATIVE = Real(at_least=0)
VARIANT = Options("paper", "released")


def require(learner: str, name: str, constraint: Constraint, value: Any) -> None:
    """Check one value.

    Raises
    ------
    ValueError
        If the constraint does not accept it; the message has learner, parameter, what is expected, and the value.
    """
    if not constraint.accepts(value):
        shown = value.item() if isinstance(value, np.generic) else value
        raise ValueError(f"{learner}: {name} has to be {constraint}, got {shown!r}")
