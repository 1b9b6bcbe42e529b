"""Errors that a user can cause and correct. Each states what was expected, what was found, where, and what to do.

The command line prints these without a traceback and exits with ``exit_code``; any other exception is a bug and keeps
its traceback.
"""

import difflib
import traceback
from collections.abc import Iterable
from pathlib import Path

__all__ = [
    "ConfigError",
    "DataError",
    "DataUnavailable",
    "LabelError",
    "LearnerError",
    "OpaucBenchError",
    "ResultsError",
    "RunnerError",
    "ZeroIndexError",
    "place_of",
    "printable",
    "suggest",
]


class OpaucBenchError(Exception):
    """Base class of the errors that are printed without a traceback.

    Parameters
    ----------
    message : str
        What was expected, what was found, and where.
    hint : str, optional
        What to do, preferably a command.
    """

    exit_code = 1

    def __init__(self, message: str, hint: str = ""):
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __reduce__(self):
        return type(self), (self.message, self.hint)

    def __str__(self) -> str:
        return f"{self.message}\n  hint: {self.hint}" if self.hint else self.message


class ConfigError(OpaucBenchError):
    """The experiment, the catalogue or an option is invalid."""

    exit_code = 2


class DataError(OpaucBenchError):
    """A dataset does not agree with the catalogue."""

    exit_code = 3


class DataUnavailable(DataError):
    """A dataset's files are in no cache, no mirror and at no reachable address."""


class LabelError(DataError):
    """The labels are not two, and not those that the entry calls positive."""


class ZeroIndexError(DataError):
    """A feature has the index 0 in a file whose indices should begin with 1."""


class LearnerError(OpaucBenchError):
    """A learner cannot be found, or does not support the request."""


class ResultsError(OpaucBenchError):
    """A results folder cannot be read, written or trusted."""


class RunnerError(OpaucBenchError):
    """Workers are unavailable, or cannot compute these tasks."""


def _calls_a_kernel(frame: traceback.FrameSummary) -> bool:
    return frame.name == "__call__" and Path(frame.filename) == Path(__file__).with_name("kernels.py")


def place_of(error: BaseException, file: str | Path | None) -> str:
    """Where an error came from, as ``file:line``: the last line in the user's own `file`, else the line that raised."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if file is not None and Path(frame.filename) == Path(file)]
    found = (own or [frame for frame in frames if not _calls_a_kernel(frame)] or frames)[-1]
    return f"{found.filename}:{found.lineno}"


def printable(text: str) -> str:
    """Text without control characters, which would change the colours of a terminal or clear it; line ends stay."""
    return "".join(character if character.isprintable() or character == "\n" else "?" for character in text)


def suggest(name: str, allowed: Iterable[str]) -> str:
    """Return ``" (did you mean 'x'?)"`` with the most similar allowed name, or an empty text."""
    by_folded = {candidate.casefold(): candidate for candidate in allowed}
    near = difflib.get_close_matches(str(name).casefold(), by_folded, n=1, cutoff=0.6)
    return f" (did you mean '{by_folded[near[0]]}'?)" if near else ""
