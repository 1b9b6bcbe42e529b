"""Errors that a user can cause and mend: each says what was expected, what came, where, and what to do.

The command line prints these without a traceback and exits with ``exit_code``; any other exception is a bug
of ours and keeps its traceback.
"""

import traceback
from pathlib import Path

__all__ = [
    "ConfigError",
    "DataError",
    "DataUnavailable",
    "LearnerError",
    "OpaucBenchError",
    "ResultsError",
    "RunnerError",
    "ZeroIndexError",
    "place_of",
]


class OpaucBenchError(Exception):
    """Base class of the errors that are printed without a traceback.

    Parameters
    ----------
    message : str
        What was expected, what came, and where.
    hint : str, optional
        What to do about it, preferably a command.
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
    """The experiment or the catalogue says something that cannot be meant."""

    exit_code = 2


class DataError(OpaucBenchError):
    """A dataset is not what the catalogue promises."""

    exit_code = 3


class DataUnavailable(DataError):
    """A dataset's files are in no cache, no mirror and at no reachable address."""


class ZeroIndexError(DataError):
    """A feature has the index 0 in a file whose indices should begin with 1."""


class LearnerError(OpaucBenchError):
    """A learner cannot be found, or cannot do what was asked of it."""


class ResultsError(OpaucBenchError):
    """A results folder cannot be read, written or trusted."""


class RunnerError(OpaucBenchError):
    """Workers cannot be had, or cannot do this work."""


def place_of(error: BaseException, file: str | Path | None) -> str:
    """Where an error came from, as ``file:line``.

    Parameters
    ----------
    error : BaseException
    file : str or Path or None
        The user's own code: its last line on the way counts, and not what it called. Without one there, or without such
        a file, it is the line that raised.
    """
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if file is not None and Path(frame.filename) == Path(file)]
    found = (own or frames)[-1]
    return f"{found.filename}:{found.lineno}"
