"""What a process does before its first task: loading and compiling a learner outside of all timings."""

from __future__ import annotations

import contextlib
import copy
import functools
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import blas
from threadpoolctl import threadpool_limits

from ..evaluation.selection import evaluate_models
from ..learners import ESTIMATOR, learner_class
from ..learners.user_files import may_compile
from ..memory import memory_limit
from ..task import Task, expand_grid
from .limits import hard_time_limit

__all__ = ["SECONDS_TO_LOAD", "learner_and_grid", "load_learner", "load_within"]

SECONDS_TO_LOAD = 180.0  # beyond the time limit of a task
_VERY_WIDE = 10**9  # features, more than any projection keeps


def learner_and_grid(name: str, params: dict[str, Any], grid: dict[str, tuple[float, ...]]):
    """A learner and all settings to try; where the experiment fixes every axis, that is one."""
    learner = learner_class(name)(**params)
    return learner, expand_grid(grid) or {axis: np.array([getattr(learner, axis)]) for axis in learner.grid_axes}


def load_learner(task: Task) -> None:
    """Load, and compile where needed, everything that a task's learner uses, by training it on some made-up rows.

    One that has nothing to compile is not trained: its fits may be slow, and count in the time limit of a task. Errors
    are ignored: they occur again in the task.
    """
    _allocate_blas_buffers()
    for learner, params, grid in (
        (task.learner, task.params, task.grid),
        *([[task.tuned_by[key] for key in ("learner", "params", "grid")]] if task.tuned_by else []),
    ):
        _load(learner, json.dumps(params), json.dumps({axis: values[0] for axis, values in grid.items()}))


def load_within(task: Task, seconds: float | None, memory_bytes: float | None) -> None:
    """Load a learner before its first task, within the limits of `WorkerConfig.to_load`, or end this process."""
    with threadpool_limits(1), hard_time_limit(seconds, Path(os.devnull)), memory_limit(memory_bytes):
        load_learner(task)


@functools.lru_cache(maxsize=1)
def _allocate_blas_buffers() -> None:
    """Let each BLAS allocate its buffers, in the first product that is not small: NumPy's, and SciPy's for numba."""
    A = np.ones((200, 200))
    blas.dgemm(1.0, A, A @ A)


@functools.lru_cache(maxsize=64)
def _load(learner: str, params: str, setting: str) -> None:
    rng = np.random.default_rng(0)
    n_rows = 200  # some kernels are first called when a sketch, or the rows that wait for it, are full
    X, y = rng.uniform(-1, 1, (n_rows, 3)), np.tile(np.array([1, -1], dtype=np.int8), n_rows // 2)
    with contextlib.suppress(BaseException):
        first: dict[str, tuple[float, ...]] = {axis: (value,) for axis, value in json.loads(setting).items()}
        estimator, grid = learner_and_grid(learner, json.loads(params), first)
        if learner == ESTIMATOR and not estimator.estimator.startswith("opauc_bench."):
            estimator.check_params()  # imports it; there is nothing to compile, and it may reject made-up rows
            return
        if not may_compile(type(estimator)):
            evaluate_models(X, y, np.arange(n_rows), np.zeros((3, 1)))
            return
        reduced = estimator.reduced_size(n_rows, _VERY_WIDE, 1.0)  # what a search may train instead
        for trained in [estimator] + ([] if reduced is None else [reduced.learner]):
            for n_settings in (1, 2):
                settings = {axis: np.repeat(values, n_settings) for axis, values in grid.items()}
                for rows in (X, sparse.csr_matrix(X)):
                    evaluate_models(rows, y, np.arange(n_rows), copy.deepcopy(trained).fit_grid(rows, y, settings))
