"""One task, from names and seeds to its record. A failure is recorded, not raised."""

from __future__ import annotations

import contextlib
import copy
import functools
import json
import os
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import blas
from threadpoolctl import threadpool_limits

from ..data import Dataset, open_prepared
from ..errors import LearnerError, OpaucBenchError, ResultsError, RunnerError, place_of
from ..evaluation.selection import score_columns
from ..evaluation.span import gram_matrix, has_few_rows, is_narrower, span_coordinates
from ..learners import ESTIMATOR, class_of_column
from ..learners.user_files import may_compile, pinned_files
from ..memory import memory_limit, peak_memory
from ..protocols.context import TaskContext
from ..results.environment import environment_id
from ..results.record import Record, make_record
from ..results.store import Store
from ..task import Task, expand_grid
from .gram_matrix import stored_gram_matrix
from .limits import OVERTIME, Deadline, TimeLimitReached, hard_time_limit, overrun_in

__all__ = [
    "SECONDS_TO_LOAD",
    "WorkerConfig",
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
_MOST_SECONDS = 1e8  # that clocks can count
_VERY_WIDE = 10**9  # features, more than any projection keeps
_WORTH_KEEPING = 5.0  # seconds: shorter tasks keep nothing when they are interrupted


@dataclass(frozen=True)
class WorkerConfig:
    """Folders and limits of a task."""

    results: Path
    prepared: dict[str, str]  # folder of each dataset's prepared arrays
    seconds: float | None = None
    memory_bytes: float | None = None
    # Learners that are not loaded before a task, because that has failed: they fail again in the task, within its
    # limits, where it is recorded.
    unloaded: frozenset[str] = frozenset()

    def to_load(self, margin: float) -> tuple[float | None, float | None]:
        """Seconds and bytes for loading a learner, with a large margin for compiling."""
        return (
            None if self.seconds is None else min(self.seconds, _MOST_SECONDS) + margin,
            None if self.memory_bytes is None else self.memory_bytes + _BYTES_TO_LOAD,
        )


def run_task(task: Task, config: WorkerConfig, note: Path | None = None) -> Record:
    """Compute a task and write its record.

    Where the task is far beyond its time limit and does not check it, the process is ended, and ``note`` says where it
    was (see `overdue_record`); without a note, such a task continues.
    """
    store = Store(config.results)
    start = time.monotonic()
    environment_id()  # before a learner loads a BLAS of its own
    try:
        with threadpool_limits(1), pinned_files():
            # Libraries are loaded and their buffers allocated before memory is limited: BLAS would wait forever.
            task.protocol.load()
            if task.learner not in config.unloaded:
                with hard_time_limit(config.to_load(SECONDS_TO_LOAD)[0], note):
                    load_learner(task)
            with hard_time_limit(_seconds_to_end(task, config, store), note), memory_limit(config.memory_bytes):
                _require_planned_files(task)
                outcome = compute(task, config, store)
    except TimeLimitReached as reached:
        outcome = {"status": "timeout", "message": str(reached)}
    except MemoryError as error:
        limit = config.memory_bytes
        reason = f"memory limit of {limit / 1e9:g} GB reached" if limit else "out of memory"
        outcome = {"status": "out_of_memory", "message": f"{reason}: {_text_of(error)}".rstrip(": ")}
    except (ResultsError, RunnerError):  # the results folder or the cache has no room: no fault of the task
        raise
    except OpaucBenchError as error:
        outcome = {"status": "error", "message": error.message}
    except BaseException as error:  # Ctrl-C is for the parent; a learner may raise it, or what is no Exception
        outcome = {
            "status": "error",
            "message": f"{type(error).__name__}: {_text_of(error)}{_own_place(error, task)}",
            "traceback": _cut(traceback.format_exc(limit=-4)),
        }
    record = _record(task, outcome, time.monotonic() - start, peak_memory())
    store.write(record)
    return record


def _own_place(error: BaseException, task: Task) -> str:
    """The line that raised an error, for a learner from a file."""
    address = task.params["estimator"] if task.learner == ESTIMATOR else task.learner
    path = address.rpartition(":")[0]
    # Without the folder: records do not depend on paths.
    return f" ({os.path.basename(place_of(error, path))})" if path.endswith(".py") else ""


def _require_planned_files(task: Task) -> None:
    """Raise LearnerError if a file of the user is not the one whose hash is in the identity of the task."""
    of_task = [(task.definition, task.learner, task.params)]
    if task.tuned_by:
        of_task.append((task.definition["axes_from"], task.tuned_by["learner"], task.tuned_by["params"]))
    for definition, learner, params in of_task:
        if (planned := definition.get("source")) is None:
            continue
        class_ = class_of_column(learner)
        present = class_(**params).identity(learner, ())["source"] if learner == ESTIMATOR else class_.source_hash
        if present != planned:
            raise LearnerError(
                "a file of this learner has changed since the task was planned; the next run computes it with the new "
                "text, or with the former one after --retry-failed"
            )


def compute(task: Task, config: WorkerConfig, store: Store | None = None) -> dict[str, Any]:
    """Compute the status, message, outcome and timing of a task's record; finished parts are kept in ``store``."""
    started = time.monotonic()
    learner, grid = _searched(task.learner, task.params, task.grid)
    tuned_by = task.tuned_by
    folder = config.prepared[task.dataset]
    data = _dataset(folder, task.fingerprint)
    narrow = not sparse.issparse(data.X) and is_narrower(*data.X.shape)
    few = narrow and has_few_rows(len(data.y))
    partial = store.read_partial(task) if store else {}
    deadline = Deadline(config.seconds, partial.get("seconds", 0.0) + time.monotonic() - started)

    def keep(finished: dict[str, Any]) -> None:
        if store and deadline.used > _WORTH_KEEPING:
            clocks = {"seconds": deadline.used, "cpu_seconds": context.cpu_seconds}
            with contextlib.suppress(ResultsError):  # it saves time after an interruption, no more
                store.write_partial(task, {**finished, **clocks})

    context = TaskContext(
        task=task,
        data=data,
        learner=learner,
        grid=grid,
        tuned_by=_searched(tuned_by["learner"], tuned_by["params"], tuned_by["grid"]) if tuned_by else None,
        gram_matrix=functools.partial(_products, folder, task.fingerprint, deadline.check) if narrow else None,
        coordinates=functools.partial(_coordinates, folder, task.fingerprint) if few else None,
        memory_bytes=config.memory_bytes,
        check_limits=deadline.check,
        partial=partial,
        keep=keep,
        keep_scores=functools.partial(store.write_scores, task) if store else lambda *_: None,
        cpu_seconds_before=partial.get("cpu_seconds", 0.0),
    )
    return task.protocol.compute(context)


def _text_of(error: BaseException) -> str:
    """The message of an exception, which a learner may have defined and which may fail itself."""
    try:
        return _cut(str(error))
    except Exception:
        return "(no message)"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_MESSAGE else f"{text[:_LONGEST_MESSAGE]} ..."


def _searched(name: str, params: dict[str, Any], grid: dict[str, tuple[float, ...]]):
    """A learner and all settings to try; where the experiment fixes every axis, that is one."""
    learner = class_of_column(name)(**params)
    return learner, expand_grid(grid) or {axis: np.array([getattr(learner, axis)]) for axis in learner.grid_axes}


def _seconds_to_end(task: Task, config: WorkerConfig, store: Store) -> float | None:
    """Seconds from now after which a task is ended with its process."""
    if config.seconds is None:
        return None
    left = config.seconds - store.read_partial(task).get("seconds", 0.0)
    return min(max(0.0, left), _MOST_SECONDS) + OVERTIME


def overdue_record(task: Task, config: WorkerConfig, note: str | None) -> Record | None:
    """The record of a task that was ended together with its process; None if it ended for another reason."""
    overrun, limit = overrun_in(note or "", run_task), config.seconds
    if overrun is None or limit is None:
        return None
    seconds = limit + OVERTIME
    message = f"time limit of {limit:g} s reached in {overrun.place}; its process had to be ended"
    if overrun.called == load_learner.__name__:
        seconds = limit + SECONDS_TO_LOAD
        message = f"its learner was not loaded within {seconds:g} s; its process had to be ended"
    return failed_record(task, "timeout", message, seconds)


def lost_record(task: Task) -> Record:
    """The record of a task whose worker process died twice, the second time with no other task running."""
    message = (
        "the worker process died twice on this task, the second time alone: most likely the system ran out of memory "
        "(see limits.memory_gb in the config), or the learner ended its process"
    )
    return failed_record(task, "error", message)


def failed_record(task: Task, status: str, message: str, seconds: float = 0.0) -> Record:
    """The record of a task whose process ended: how much memory it had is not known."""
    return _record(task, {"status": status, "message": message}, seconds, 0)


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
        estimator, grid = _searched(learner, json.loads(params), first)
        if learner == ESTIMATOR and not estimator.estimator.startswith("opauc_bench."):
            estimator.check_params()  # imports it; there is nothing to compile, and it may reject made-up rows
            return
        if not may_compile(type(estimator)):
            score_columns(X, y, np.arange(n_rows), np.zeros((3, 1)))
            return
        reduced = estimator.reduced_size(n_rows, _VERY_WIDE, 1.0)  # what a search may train instead
        for trained in [estimator] + ([] if reduced is None else [reduced.learner]):
            for n_settings in (1, 2):
                settings = {axis: np.repeat(values, n_settings) for axis, values in grid.items()}
                for rows in (X, sparse.csr_matrix(X)):
                    score_columns(rows, y, np.arange(n_rows), copy.deepcopy(trained).fit_grid(rows, y, settings))


@functools.lru_cache(maxsize=2)
def _dataset(folder: str, fingerprint: str | None) -> Dataset:
    return open_prepared(Path(folder), fingerprint)


def _products(folder: str, fingerprint: str | None, check: Callable[..., None]) -> np.ndarray:
    X = _dataset(folder, fingerprint).X
    return _products_of_few(folder, fingerprint) if has_few_rows(len(X)) else stored_gram_matrix(X, Path(folder), check)


@functools.lru_cache(maxsize=1)
def _products_of_few(folder: str, fingerprint: str | None) -> np.ndarray:
    return gram_matrix(_dataset(folder, fingerprint).X)


@functools.lru_cache(maxsize=1)
def _coordinates(folder: str, fingerprint: str | None) -> np.ndarray:
    return span_coordinates(_products_of_few(folder, fingerprint))


def _record(task: Task, content: dict[str, Any], seconds: float, peak_rss_bytes: int) -> Record:
    timing = {
        **content.get("timing", {}),
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "wall_seconds": seconds,
        "peak_rss_bytes": peak_rss_bytes,
    }
    try:
        return make_record(task, {**content, "timing": timing}, environment_id())
    except ValueError as error:  # a learner from a file may return what JSON cannot hold
        content = {"status": "error", "message": f"its outcome is invalid: {error}", "timing": timing}
        return make_record(task, content, environment_id())
