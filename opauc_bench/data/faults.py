"""What is wrong with a row of a file: a text for the user, and its kind, on which the hint depends."""

from __future__ import annotations

import enum
from typing import NamedTuple

from ..errors import DataError, ZeroIndexError

__all__ = ["Fault", "LineProblem", "RowProblem"]


class Fault(enum.Enum):
    """Kinds of faults for which there may be more to do than to correct the row."""

    OTHER = enum.auto()
    MISSING = enum.auto()  # a value of a column
    NOT_A_NUMBER = enum.auto()  # in a column of numbers
    # Of svmlight text:
    NO_LABEL = enum.auto()  # the line begins with index:value
    FORM = enum.auto()  # something else than the label, a number, and index:value
    CSV = enum.auto()
    JSON = enum.auto()
    ZERO_INDEX = enum.auto()  # where indices begin with 1
    LARGE_INDEX = enum.auto()


class RowProblem(NamedTuple):
    """What is wrong with a row of a table."""

    text: str
    fault: Fault = Fault.OTHER
    column: str | None = None  # the column it is in, if it is in one

    def __str__(self) -> str:
        return self.text if self.column is None else f"column {self.column!r}: {self.text}"


class LineProblem(Exception):
    """A line that cannot be read: its number, what is wrong with it, and the kind of its fault."""

    def __init__(self, number: int, problem: str, fault: Fault = Fault.OTHER):
        super().__init__(number, problem, fault)
        self.number, self.problem, self.fault = number, problem, fault

    def error(self, message: str) -> DataError:
        """The error to raise, with this message."""
        return ZeroIndexError(message) if self.fault is Fault.ZERO_INDEX else DataError(message)
