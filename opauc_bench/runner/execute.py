"""Executors: who computes the tasks. They get tasks and a workplace, never arrays, and yield records as they come.

An executor is anything with ``run(tasks, workplace) -> iterator of (task, record)``. It may lose workers, but no task.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import resource_tracker
from typing import Protocol

from ..results.record import Record
from ..results.store import Store
from ..task import Task
from .worker import SECONDS_TO_LOAD, Workplace, load_within, lost_record, overdue_record, run_task

__all__ = ["Executor", "LocalExecutor"]

Done = tuple[Task, Record]

_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)
_SECONDS_BETWEEN_LOOKS = 0.1
_SECONDS_TO_BE_TAKEN = 5.0
_PR_SET_PDEATHSIG = 1


class Executor(Protocol):
    """What the runner needs of an engine."""

    def connect(self) -> None:
        """Make sure that there are workers.

        Raises
        ------
        RunnerError
        """
        ...

    def run(self, tasks: list[Task], workplace: Workplace) -> Iterator[Done]:
        """Compute the tasks, in whatever order, and yield each with its record."""
        ...

    def stop(self) -> None:
        """End all work at once; what has been recorded stays."""
        ...


class LocalExecutor:
    """Worker processes of this machine, one BLAS thread each (joblib's loky).

    When a worker dies, loky ends its neighbours too, and nobody can tell who was to blame. So the tasks that were under
    way are tried again, each alone; the one that brings down its worker even then is recorded as an error. A worker
    that ends itself, since its task is over time and does not react, has left word: there the neighbours just start
    again.

    Parameters
    ----------
    n_jobs : int
    """

    def __init__(self, n_jobs: int):
        self.n_jobs = n_jobs
        self._pool = None

    def connect(self) -> None:
        """See `Executor.connect`: processes of this machine start with the first task."""

    def run(self, tasks: list[Task], workplace: Workplace) -> Iterator[Done]:
        store = Store(workplace.results)
        workplace = replace(workplace, unloaded=self._load_learners(tasks, workplace))
        waiting = {task.id: task for task in tasks}
        while waiting:
            for task, record in self._compute(list(waiting.values()), workplace, self.n_jobs):
                del waiting[task.id]
                yield task, record
            if not waiting:
                return
            # Tasks are left: the pool broke. What was recorded but not reported is found by reading it.
            for task in list(waiting.values()):
                if (record := store.read_loose(task)) is not None:
                    del waiting[task.id]
                    yield task, record
            notes = {key: note for key, task in waiting.items() if (note := store.clear_claim(task)) is not None}
            store.sweep()  # what the workers were writing when they ended
            overdue = {key: record for key in notes if (record := overdue_record(waiting[key], workplace, notes[key]))}
            for key, record in overdue.items():
                task = waiting.pop(key)
                store.write(record)
                yield task, record
            if overdue:  # so the others were ended only because they were neighbours
                continue
            # A worker that dies before it can claim its first task leaves no suspect; some task has to be the one.
            for key in list(notes or waiting)[: len(notes) or 1]:
                yield from self._alone(waiting.pop(key), workplace, store)

    def _load_learners(self, tasks: list[Task], workplace: Workplace) -> frozenset[str]:
        """Let one worker compile the kernels and cache them on disk, before all would do it at the same time.

        Returns
        -------
        frozenset of str
            Learners that bring down their worker, or never come back: they do so again in their tasks, where it is
            recorded.
        """
        from joblib.externals.loky.process_executor import BrokenProcessPool

        failed = set()
        for task in {(task.learner, str(task.params)): task for task in tasks}.values():
            for _ in range(2):  # a worker may be killed for another reason
                try:
                    limits = workplace.to_load(SECONDS_TO_LOAD)
                    error = _submit(self._open(self.n_jobs), load_within, task, *limits).exception()
                except BrokenProcessPool as broken:
                    error = broken
                if not isinstance(error, BrokenProcessPool):
                    break
                self.stop()
            else:
                failed.add(task.learner)
        return frozenset(failed)

    def _alone(self, task: Task, workplace: Workplace, store: Store) -> Iterator[Done]:
        done = list(self._compute([task], workplace, 1))
        if not done:
            note = store.clear_claim(task)
            store.sweep()
            record = store.read_loose(task)
            if record is None:
                record = overdue_record(task, workplace, note) or lost_record(task)
                store.write(record)
            done = [(task, record)]
        yield from done

    def _compute(self, tasks: list[Task], workplace: Workplace, n_jobs: int) -> Iterator[Done]:
        """Run tasks in worker processes until all are done or a worker dies."""
        from joblib.externals.loky import wait
        from joblib.externals.loky.process_executor import BrokenProcessPool

        pool = self._open(n_jobs)
        waiting, running = iter(tasks), set()
        try:
            while True:
                # A few tasks ahead keep the workers busy; more would only be lost together.
                for task in itertools.islice(waiting, 2 * n_jobs - len(running)):
                    running.add(_submit(pool, _work, task, workplace))
                if not running:
                    return
                finished, running = wait(running, return_when="FIRST_COMPLETED")
                for future in finished:
                    yield future.result()
        except BrokenProcessPool:
            self.stop()  # from now on, no worker writes anything

    def _open(self, n_jobs: int):
        """Worker processes that stand ready: those there are, or new ones."""
        from joblib.externals.loky import get_reusable_executor

        # Were Python's own resource tracker to start together with the workers, it would undo the next line.
        resource_tracker.ensure_running()
        with _interrupts_held_back():
            self._pool = get_reusable_executor(
                n_jobs,
                timeout=600,
                initializer=_end_with,
                initargs=(os.getpid(),),
                env=dict.fromkeys(_THREAD_VARIABLES, "1"),
            )
        return self._pool

    def stop(self) -> None:
        if self._pool is not None:
            _let_all_be_taken(self._pool)
            self._pool.shutdown(wait=True, kill_workers=True)


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Let processes that start in here inherit that they get no Ctrl-C: what it means is for the parent to decide."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _submit(pool, function, *arguments):
    with _interrupts_held_back():  # workers are started when there is work
        return pool.submit(function, *arguments)


def _let_all_be_taken(pool) -> None:
    """Wait until loky's thread has seen every task submitted so far: one it first meets at shutdown ends it noisily."""
    try:
        last = _submit(pool, os.getpid)  # they are taken in their order
    except RuntimeError:  # broken or shut down: the thread has ended
        return
    deadline = time.monotonic() + _SECONDS_TO_BE_TAKEN
    while not (last.running() or last.done()) and time.monotonic() < deadline:
        time.sleep(0.001)


def _end_with(parent: int) -> None:
    """End this worker when its parent is gone: a parent that is killed cannot, and another run may take its place."""
    if sys.platform == "linux":  # the thread has no turn as long as a kernel keeps the interpreter busy
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    os._exit(1)


def _work(task: Task, workplace: Workplace) -> Done:
    store = Store(workplace.results)
    note = store.claim(task, os.getpid())
    record = run_task(task, workplace, note)
    store.clear_claim(task)
    return task, record
