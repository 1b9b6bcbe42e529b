"""Errors that a user can cause and mend: each says what was expected, what came, where, and what to do.

The command line prints these without a traceback and exits with ``exit_code``; any other exception is a bug
of ours and keeps its traceback.
"""

__all__ = [
    "ConfigError",
    "DataError",
    "DataUnavailable",
    "LearnerError",
    "OpaucBenchError",
    "ResultsError",
    "RunnerError",
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


class LearnerError(OpaucBenchError):
    """A learner cannot be found, or cannot do what was asked of it."""


class ResultsError(OpaucBenchError):
    """A results folder cannot be read, written or trusted."""


class RunnerError(OpaucBenchError):
    """Workers cannot be had, or cannot do this work."""
