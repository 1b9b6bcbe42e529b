"""What the readers of text share: blocks of rows, and problems that have a line."""

import codecs
import math
from typing import Any, NamedTuple

import numpy as np

from ..errors import DataError

__all__ = ["Block", "LineProblem", "finite_number", "shown"]


class Block(NamedTuple):
    """Consecutive rows: ``X`` of shape (rows, n_features), dense or CSR, and their labels."""

    X: Any
    labels: np.ndarray


class LineProblem(Exception):
    """A line that cannot be read: its number and what is wrong with it; ``kind`` is the error that it leads to."""

    def __init__(self, number: int, problem: str, kind: type[DataError] = DataError):
        super().__init__(number, problem, kind)
        self.number = number
        self.problem = problem
        self.kind = kind


def shown(token: bytes) -> str:
    """Quote a token for a message, cut where it is long."""
    text = token.decode("utf-8", "replace")
    return repr(text if len(text) <= 40 else text[:37] + "...")


def finite_number(token: bytes, line: int, what: str) -> float:
    """Return a finite number, or say that ``what`` is none."""
    try:
        value = float(token) if b"_" not in token else None
    except ValueError:
        value = None
    if value is None:
        mark = token.startswith(codecs.BOM_UTF8)
        why = "; the file begins with a byte order mark: leave it out (tail -c +4)" if mark else ""
        raise LineProblem(line, f"expected {what} to be a number, got {shown(token)}{why}")
    if not math.isfinite(value):
        raise LineProblem(line, f"expected {what} to be finite, got {shown(token)}")
    return value
