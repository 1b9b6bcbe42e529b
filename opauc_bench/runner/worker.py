"""One task, from names and seeds to its record. It never raises; it records."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import resource
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import blas
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from ..data import Dataset, open_prepared
from ..errors import OpaucBenchError, place_of
from ..evaluation.selection import score_columns
from ..evaluation.span import is_narrower, span_coordinates
from ..learners import get_learner
from ..results.environment import environment_id
from ..results.record import Record, make_record
from ..results.store import Store
from ..task import Task, expand_grid
from .limits import OVERTIME, TimeLimitReached, last_resort, memory_limit, overrun_in
from .measures import MEASURES
from .work import Work

__all__ = [
    "SECONDS_TO_LOAD",
    "Workplace",
    "compute",
    "failed_record",
    "load_learner",
    "load_within",
    "lost_record",
    "overdue_record",
    "run_task",
]


SECONDS_TO_LOAD = 180.0  # beyond the time limit of a task
_BYTES_TO_LOAD = 2e9
_LONGEST_MESSAGE = 2000
_AGES = 1e8  # seconds, that clocks can still count


@dataclass(frozen=True)
class Workplace:
    """Where a task finds its data and leaves its record, and what it may use.

    Attributes
    ----------
    results : Path
    prepared : dict of str to str
        Folder of each dataset's prepared arrays.
    seconds : float or None
    memory_bytes : float or None
    unloaded : frozenset of str
        Learners that are not loaded ahead of a task, since that has failed before: what is wrong with them is for the
        task to find out, within its limits.
    """

    results: Path
    prepared: dict[str, str]
    seconds: float | None = None
    memory_bytes: float | None = None
    unloaded: frozenset[str] = frozenset()

    def to_load(self, patience: float) -> tuple[float | None, float | None]:
        """Seconds and bytes for loading a learner: compiling takes what it takes, so there is a good deal more."""
        return (
            None if self.seconds is None else min(self.seconds, _AGES) + patience,
            None if self.memory_bytes is None else self.memory_bytes + _BYTES_TO_LOAD,
        )


def run_task(task: Task, workplace: Workplace, note: Path | None = None) -> Record:
    """Compute a task and write its record.

    Parameters
    ----------
    task : Task
    workplace : Workplace
    note : Path, optional
        Where to leave word if the task has to be ended together with its process, because it is far beyond its time
        limit and does not look at the clock; see `overdue_record`. Without it, such a task goes on.

    Returns
    -------
    Record
        Its status is ``ok``, or tells why there is no number.
    """
    store = Store(workplace.results)
    start = time.monotonic()
    try:
        with threadpool_limits(1):
            # Libraries are loaded and their buffers allocated before memory is short: BLAS waits for ever if it is.
            if task.learner not in workplace.unloaded:
                load_learner(task)
            with last_resort(_patience(task, workplace, store), note), memory_limit(workplace.memory_bytes):
                outcome = compute(task, workplace, store)
    except TimeLimitReached as reached:
        outcome = {"status": "timeout", "message": str(reached)}
    except MemoryError as error:
        limit = workplace.memory_bytes
        reason = f"memory limit of {limit / 1e9:g} GB reached" if limit else "out of memory"
        outcome = {"status": "out_of_memory", "message": f"{reason}: {_text_of(error)}".rstrip(": ")}
    except OpaucBenchError as error:
        outcome = {"status": "error", "message": str(error)}
    except (Exception, SystemExit) as error:
        outcome = {
            "status": "error",
            "message": f"{type(error).__name__}: {_text_of(error)}{_own_place(error, task)}",
            "traceback": _cut(traceback.format_exc(limit=-4)),
        }
    record = _record(task, outcome, time.monotonic() - start)
    store.write(record)
    return record


def _own_place(error: BaseException, task: Task) -> str:
    """Which line of a learner from a file an error came through; for other learners nothing."""
    path = task.learner.rpartition(":")[0]
    # Without its folder: records do not depend on where things lie.
    return f" ({os.path.basename(place_of(error, path))})" if path.endswith(".py") else ""


def compute(task: Task, workplace: Workplace, store: Store | None = None) -> dict[str, Any]:
    """Do the work of a task.

    Parameters
    ----------
    task : Task
    workplace : Workplace
    store : Store, optional
        Where finished parts are kept; without it the task starts from nothing.

    Returns
    -------
    dict
        Status, message, outcome and timing of the record.
    """
    started = time.monotonic()
    learner, grid = _searched(task.learner, task.params, task.grid)
    lender = task.lender
    folder = workplace.prepared[task.dataset]
    data = _dataset(folder, task.fingerprint)
    narrow = learner.rotation_invariant and not sparse.issparse(data.X) and is_narrower(*data.X.shape)
    work = Work(
        task=task,
        data=data,
        learner=learner,
        grid=grid,
        lender=_searched(lender["learner"], lender["params"], lender["grid"]) if lender else None,
        narrow=_coordinates(folder, task.fingerprint) if narrow else None,
        store=store,
        seconds=workplace.seconds,
        memory_bytes=workplace.memory_bytes,
        started=started,
    )
    return MEASURES[task.protocol["kind"]](work)


def _text_of(error: BaseException) -> str:
    """What an exception says; it may be of a learner's own making, and fail at that as well."""
    try:
        text = str(error)
    except Exception:
        return "(an error without words)"
    return _cut(text)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_MESSAGE else f"{text[:_LONGEST_MESSAGE]} ..."


def _searched(name: str, params: dict[str, Any], grid: dict[str, tuple[float, ...]]):
    """A learner and all settings to try; where the experiment fixes every axis, that is one."""
    learner = get_learner(name)(**params)
    return learner, expand_grid(grid) or {axis: np.array([getattr(learner, axis)]) for axis in learner.grid_axes}


def _patience(task: Task, workplace: Workplace, store: Store) -> float | None:
    """Seconds from now after which a task is ended by force."""
    if workplace.seconds is None:
        return None
    left = workplace.seconds - store.read_partial(task).get("seconds", 0.0)
    return min(max(0.0, left), _AGES) + OVERTIME


def overdue_record(task: Task, workplace: Workplace, note: str | None) -> Record | None:
    """The record of a task that was ended together with its process, or None if its end was another."""
    place = overrun_in(note or "", compute.__name__)
    if place is None:
        return None
    message = f"time limit of {workplace.seconds:g} s reached in {place}; its process had to be ended"
    return failed_record(task, "timeout", message, workplace.seconds + OVERTIME)


def lost_record(task: Task) -> Record:
    """The record of a task that brought down its worker twice, the second time with no other task under way."""
    message = (
        "the worker process died twice on this task, the second time alone: most likely the system ran out of memory; "
        "see limits.memory_gb in the config"
    )
    return failed_record(task, "error", message)


def failed_record(task: Task, status: str, message: str, seconds: float = 0.0) -> Record:
    """The record of a task that did not come to its own end."""
    return _record(task, {"status": status, "message": message}, seconds)


def load_learner(task: Task) -> None:
    """Load, and if need be compile, everything that a task's learner runs on.

    It is fed a few rows of made-up data, which it need not be able to learn from: what matters fails again in the task.
    """
    _take_blas_buffers()
    for learner, params, grid in (
        (task.learner, task.params, task.grid),
        *([[task.lender[key] for key in ("learner", "params", "grid")]] if task.lender else []),
    ):
        _load(learner, json.dumps(params), json.dumps({axis: values[0] for axis, values in grid.items()}))


def load_within(task: Task, seconds: float | None, memory_bytes: float | None) -> None:
    """Load a learner before its first task; end this process if that takes too long.

    Parameters
    ----------
    task : Task
    seconds, memory_bytes : float or None
        Limits, see `Workplace.to_load`.
    """
    with threadpool_limits(1), last_resort(seconds, Path(os.devnull)), memory_limit(memory_bytes):
        load_learner(task)


@functools.lru_cache(maxsize=1)
def _take_blas_buffers() -> None:
    """Let each BLAS allocate what it works in: NumPy has one, and SciPy another, which numba's kernels use as well.

    They do so in the first product that is not small, and try again and again if there is no memory.
    """
    A = np.ones((200, 200))
    blas.dgemm(1.0, A, A @ A)


@functools.lru_cache(maxsize=64)
def _load(learner: str, params: str, setting: str) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (20, 3)), np.array([1, -1] * 10, dtype=np.int8)
    with contextlib.suppress(Exception, SystemExit):
        estimator = get_learner(learner)(**json.loads(params)).set_params(**json.loads(setting))
        for n_settings in (1, 2):
            grid = {axis: np.full(n_settings, getattr(estimator, axis)) for axis in estimator.grid_axes}
            for rows in (X, sparse.csr_matrix(X)):
                score_columns(rows, y, np.arange(20), clone(estimator).fit_grid(rows, y, grid))


@functools.lru_cache(maxsize=2)
def _dataset(folder: str, fingerprint: str) -> Dataset:
    return open_prepared(Path(folder), fingerprint)


@functools.lru_cache(maxsize=1)
def _coordinates(folder: str, fingerprint: str) -> np.ndarray:
    return span_coordinates(_dataset(folder, fingerprint).X)


def _record(task: Task, content: dict[str, Any], seconds: float) -> Record:
    timing = {
        **content.get("timing", {}),
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "wall_seconds": seconds,
        "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }
    try:
        return make_record(task, {**content, "timing": timing}, environment_id())
    except ValueError as error:  # a learner from a file may return what JSON cannot hold
        content = {"status": "error", "message": f"its outcome is invalid: {error}", "timing": timing}
        return make_record(task, content, environment_id())
