"""One task, from names and seeds to its record. A failure is recorded, not raised."""

from __future__ import annotations

import contextlib
import functools
import os
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

from ..data import Dataset, open_prepared
from ..errors import LearnerError, OpaucBenchError, ResultsError, RunnerError, place_of, printable
from ..evaluation.span import gram_matrix, has_few_rows, is_narrower, span_coordinates
from ..learners import ESTIMATOR, learner_class
from ..learners.user_files import file_of, pinned_files
from ..memory import memory_limit, peak_memory
from ..protocols.context import TaskContext
from ..results.environment import environment_id
from ..results.record import Record, make_record
from ..results.store import Store
from ..task import Task
from .gram_matrix import stored_gram_matrix
from .limits import OVERTIME, Deadline, TimeLimitReached, hard_time_limit
from .warm_up import SECONDS_TO_LOAD, learner_and_grid, load_learner

__all__ = [
    "WorkerConfig",
    "compute",
    "record_of",
    "run_task",
]


_BYTES_TO_LOAD = 2e9
_LONGEST_MESSAGE = 2000
_MOST_SECONDS = 1e8  # that clocks can count
_WORTH_KEEPING = 5.0  # seconds: shorter tasks keep nothing when they are interrupted


@dataclass(frozen=True)
class WorkerConfig:
    """Folders and limits of a task, and which learners are not loaded before it."""

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


def run_task(task: Task, config: WorkerConfig, trace_file: Path | None = None) -> Record:
    """Compute a task and write its record.

    Where the task is far beyond its time limit and does not check it, the process is ended, and ``trace_file`` says
    where it was (see `overdue_record`); without that, such a task continues.
    """
    store = Store(config.results)
    start = time.monotonic()
    environment_id()  # before a learner loads a BLAS of its own
    try:
        with threadpool_limits(1), pinned_files():
            # Libraries are loaded and their buffers allocated before memory is limited: BLAS would wait forever.
            task.protocol.load()
            if task.learner not in config.unloaded:
                seconds, memory_bytes = config.to_load(SECONDS_TO_LOAD)
                with hard_time_limit(seconds, trace_file), memory_limit(memory_bytes):
                    load_learner(task)
            with hard_time_limit(_seconds_to_end(task, config, store), trace_file), memory_limit(config.memory_bytes):
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
    if message := outcome.get("message"):
        outcome["message"] = printable(message)
    record = record_of(task, outcome, time.monotonic() - start, peak_memory())
    store.write(record)
    return record


def _own_place(error: BaseException, task: Task) -> str:
    """The line that raised an error, for a learner from a file."""
    address = task.params["estimator"] if task.learner == ESTIMATOR else task.learner
    file = file_of(address)
    # Without the folder: records do not depend on paths.
    return "" if file is None else f" ({os.path.basename(place_of(error, file))})"


def _require_planned_files(task: Task) -> None:
    """Raise LearnerError if a file of the user is not the one whose hash is in the identity of the task."""
    of_task = [(task.definition, task.learner, task.params)]
    if task.tuned_by:
        of_task.append((task.definition["axes_from"], task.tuned_by["learner"], task.tuned_by["params"]))
    for definition, learner, params in of_task:
        if (planned := definition.get("source")) is None:
            continue
        class_ = learner_class(learner)
        present = class_(**params).identity(learner, ())["source"] if learner == ESTIMATOR else class_.source_hash
        if present != planned:
            raise LearnerError(
                "a file of this learner has changed since the task was planned; the next run computes it with the new "
                "text, or with the former one after --retry-failed"
            )


def compute(task: Task, config: WorkerConfig, store: Store | None = None) -> dict[str, Any]:
    """Compute the status, message, outcome and timing of a task's record; finished parts are kept in ``store``."""
    started = time.monotonic()
    learner, grid = learner_and_grid(task.learner, task.params, task.grid)
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
        tuned_by=learner_and_grid(tuned_by["learner"], tuned_by["params"], tuned_by["grid"]) if tuned_by else None,
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


def _seconds_to_end(task: Task, config: WorkerConfig, store: Store) -> float | None:
    """Seconds from now after which a task is ended with its process."""
    if config.seconds is None:
        return None
    left = config.seconds - store.read_partial(task).get("seconds", 0.0)
    return min(max(0.0, left), _MOST_SECONDS) + OVERTIME


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


def record_of(task: Task, content: dict[str, Any], seconds: float, peak_rss_bytes: int) -> Record:
    """The record of a task that took ``seconds`` of wall-clock time, now."""
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
