"""Known names of datasets, learners and tables, which the caller passes to the validators as their context."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationInfo

from ..errors import LearnerError
from ..sentences import Problem
from ..values import spell_axis

__all__ = ["FROM_FILE", "KnownNames", "absolute", "known_parameters"]

FROM_FILE = re.compile(r"(?P<file>.+\.py):(?P<name>[A-Za-z_]\w*)")


@dataclass
class KnownNames:
    """Known names, and functions that look them up; what is None is not checked."""

    path: Path  # of the experiment file
    # Names that `datasets` may use; or a function from the path of the extra catalogue (or None) to the names, which
    # also takes its entries and the path of the experiment file, and then raises Problems.
    known_datasets: Collection[str] | Callable[..., Collection[str]] | None = None
    # From a registry name or /absolute/file.py:Class to the names of the constructor parameters and of the grid axes;
    # raises LearnerError.
    learner_parameters: Callable[[str], tuple[Collection[str], Collection[str]]] | None = None
    known_published: Collection[str] | None = None  # ids that `report.published` may use
    # From a known learner, one of its grid axes and values to the positions that it refuses, with reasons.
    refused_values: Callable[[str, str, Collection[float]], Mapping[int, str]] | None = None
    # Checks the entry of an estimator, given `estimator`, `params`, `pipeline` and `grid`; returns whether it may have
    # probabilities; raises LearnerError, with the place in the entry as `loc`.
    check_estimator: Callable[..., bool] | None = None
    # From a known learner and its `params` to the parameters whose values it refuses, each with the reason.
    refused_parameters: Callable[[str, Mapping[str, Any]], Collection[tuple[str, str]]] | None = None
    _seen: dict[str, tuple[list[str], list[str]] | LearnerError] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """The folder of the experiment file."""
        return self.path.parent

    def names_of_datasets(self, catalogue: str | Mapping[str, Any] | None) -> Collection[str] | None:
        """Return the known datasets, those of an extra catalogue included; None where that is unknown.

        Problems if the catalogue is given by its entries, and they have mistakes.
        """
        if not callable(self.known_datasets):
            return self.known_datasets
        if isinstance(catalogue, Mapping):
            return self.known_datasets(catalogue, self.path)
        return self.known_datasets(None if catalogue is None else self.folder / catalogue)

    def learner(self, text: str) -> tuple[list[str], list[str]] | LearnerError | None:
        """Return parameters and grid axes of a learner, or the error of loading it; None where that is unknown."""
        if self.learner_parameters is None:
            return None
        if text not in self._seen:
            try:
                parameters, axes = self.learner_parameters(absolute(text, self.folder))
                self._seen[text] = (sorted({*parameters, *axes}), list(axes))
            except LearnerError as error:
                self._seen[text] = error
        return self._seen[text]

    def refused_in_grid(self, text: str, grid: Mapping[str, Collection[float]], written: Mapping) -> Iterator[Problem]:
        """Yield a problem for each value of ``grid`` that a known learner refuses, at its place in ``written``."""
        if self.refused_values is None:
            return
        for key, values in written.items():
            axis = spell_axis(key)
            if axis in grid:
                refused = self.refused_values(absolute(text, self.folder), axis, grid[axis])
                in_list = isinstance(values, list | tuple)
                for position, reason in refused.items() if in_list else list(refused.items())[:1]:
                    yield Problem((key, position) if in_list else (key,), reason)

    def refused(self, text: str, params: Mapping[str, Any]) -> Collection[tuple[str, str]]:
        """Return parameters that a known learner refuses, with reasons; one without a name is the learner's own."""
        return self.refused_parameters(absolute(text, self.folder), params) if self.refused_parameters else ()


def absolute(learner: str, folder: Path) -> str:
    """Return a learner or an estimator with its file relative to ``folder``, if it is one from a file."""
    found = FROM_FILE.fullmatch(learner)
    return f"{(folder / found['file']).resolve()}:{found['name']}" if found else learner


def known_parameters(info: ValidationInfo, learner: str | None) -> tuple[list[str], list[str]] | None:
    known = info.context.learner(learner) if info.context and learner and not learner.startswith(":") else None
    return known if isinstance(known, tuple) else None
