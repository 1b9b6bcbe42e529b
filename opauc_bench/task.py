"""A task: one number to compute, with all that defines it, small enough to be sent to workers.

The ``id`` of a task is a hash of all that defines its number, and of nothing else: not the order of tasks, the number
of jobs, paths or library versions.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

__all__ = ["DENSE_ABOVE", "Shape", "Task", "content_hash", "expand_grid", "identity_of"]

DENSE_ABOVE = 0.2  # density above which rows are stored dense


@dataclass(frozen=True)
class Shape:
    """What the plan needs to know of a dataset."""

    n_samples: int
    n_features: int
    density: float  # share of nonzero entries
    fingerprint: str | None  # identity of the prepared arrays; None while the dataset is unavailable
    n_positive: int | None = None
    generated: bool = False  # whether rows are computed each time they are read
    parts: tuple[int, int, int] | None = None  # rows for training, validation and test, where the dataset says so

    @property
    def is_sparse(self) -> bool:
        """Whether rows are stored sparse."""
        return self.density <= DENSE_ABOVE and not self.generated


@dataclass(frozen=True)
class Task:
    """One number to compute."""

    dataset: str
    column: str
    learner: str
    trial: int
    fold: int
    fingerprint: str | None  # of the dataset's arrays; without it the task has no id
    definition: dict[str, Any]  # what defines the number and many tasks share: learner, parameters, grid, protocol
    params: dict[str, Any]
    grid: dict[str, tuple[float, ...]]
    protocol: Any
    seconds: float  # estimated CPU time on one core, before settings that overflow are dropped
    memory_bytes: float  # estimated, without the data, which are mapped into memory
    kept_bytes: float = 0.0  # of inner products of rows, which the first task that needs them leaves in the cache
    max_train: int | None = None  # training rows at most: the first ones of the fold, which are in random order
    row: str = ""  # of the table: the dataset, and the case where the protocol has several
    # `learner`, `params` and `grid` of another column that is searched first, and the inherited `axes`.
    tuned_by: dict[str, Any] | None = None
    # The setting that the protocol under `splits` selects, where it is known; it follows from the definition.
    selected: dict[str, float] | None = None

    @property
    def place(self) -> tuple[str, str, int, int]:
        """Row, column, trial and fold."""
        return self.row, self.column, self.trial, self.fold

    @cached_property
    def id(self) -> str | None:
        return None if self.fingerprint is None else content_hash(identity_of(self.definition, self))

    @property
    def n_settings(self) -> int:
        """Settings of the grid."""
        return math.prod(len(values) for values in self.grid.values())

    @property
    def label(self) -> str:
        return f"{self.row or self.dataset} {self.column} trial {self.trial + 1} fold {self.fold + 1}"


def identity_of(definition: Mapping[str, Any], of: Any) -> dict[str, Any]:
    """All that defines a number: the definition that many tasks share, and the place of one, a task or its record."""
    place = {"dataset": of.dataset, "fingerprint": of.fingerprint, "trial": of.trial, "fold": of.fold}
    return {**definition, **place, **({} if of.max_train is None else {"max_train": of.max_train})}


def content_hash(identity: Mapping[str, Any]) -> str:
    """Hash an identity: 16 hexadecimal digits, the same after a round trip through JSON."""
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def expand_grid(grid: Mapping[str, tuple[float, ...]]) -> dict[str, np.ndarray]:
    """All combinations of the axes' values, the last axis varying fastest; arrays of shape (n_settings,)."""
    mesh = np.meshgrid(*(np.asarray(values, dtype=float) for values in grid.values()), indexing="ij")
    return {axis: values.ravel() for axis, values in zip(grid, mesh)}
