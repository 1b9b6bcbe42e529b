"""Executors compute tasks: they send names and limits to workers, never arrays, and yield records as they finish.

An executor is anything with the methods of `Executor`. It may lose workers, but no task.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import resource_tracker
from typing import Protocol

from ..results.environment import environment, environment_id
from ..results.manifest import add_environment
from ..results.record import TaskRecord
from ..results.store import Store
from ..signals import ENDING
from ..task import Task
from .failures import lost_record, overdue_record
from .warm_up import SECONDS_TO_LOAD, load_within
from .worker import WorkerConfig, run_task

__all__ = ["Executor", "LocalExecutor"]


_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)
_SECONDS_BETWEEN_CHECKS = 0.1
_SECONDS_UNTIL_SIGNALS = 0.2
_SECONDS_UNTIL_TAKEN = 5.0
_PR_SET_PDEATHSIG = 1


class Executor(Protocol):
    """Computes tasks with some workers."""

    n_jobs: int  # workers; of a scheduler's, known when it is connected

    def connect(self) -> None:
        """Check that there are workers, or raise RunnerError."""

    def run(self, tasks: list[Task], config: WorkerConfig) -> Iterator[TaskRecord]:
        """Compute the tasks, in any order, and yield each with its record."""

    def stop(self) -> None:
        """End all work at once; records that are written stay."""


class LocalExecutor:
    """``n_jobs`` worker processes of this machine (joblib's loky), one BLAS thread each.

    When a worker dies, loky ends all workers, and the cause is not known. So the tasks that were running are tried
    again, each alone; one whose worker dies even then is recorded as an error. A worker that ends itself because its
    task is beyond its time limit leaves a trace: then the other tasks just start again.
    """

    def __init__(self, n_jobs: int):
        self.n_jobs = n_jobs
        self._pool = None

    def connect(self) -> None:
        """Nothing to check: the processes start with the first task."""

    def run(self, tasks: list[Task], config: WorkerConfig) -> Iterator[TaskRecord]:
        store = Store(config.results)
        self._note_environment(config)
        config = replace(config, unloaded=self._load_learners(tasks, config))
        waiting = {task.id: task for task in tasks}
        while waiting:
            for task, record in self._compute(list(waiting.values()), config, self.n_jobs):
                del waiting[task.id]
                yield task, record
            if not waiting:
                return
            # Tasks are left: the pool broke. Some may have a record that was written but not reported.
            for task in list(waiting.values()):
                if (found := store.read_loose(task)) is not None:
                    del waiting[task.id]
                    yield task, found
            claims = {key: claim for key, task in waiting.items() if (claim := store.clear_claim(task)) is not None}
            store.remove_leftovers()  # what the workers were writing when they ended
            overdue = {key: late for key in claims if (late := overdue_record(waiting[key], config, claims[key]))}
            for key, record in overdue.items():
                task = waiting.pop(key)
                store.write(record)
                yield task, record
            if overdue:  # the other workers were ended by loky
                continue
            # A worker that dies before it claims a task leaves none to suspect: take the first.
            for key in list(claims or waiting)[: len(claims) or 1]:
                yield from self._alone(waiting.pop(key), config, store)

    def _note_environment(self, config: WorkerConfig) -> None:
        """Write the environment of the workers, to which records will refer, into the manifest."""
        from joblib.externals.loky.process_executor import BrokenProcessPool

        try:
            running = {_submit(self._open(self.n_jobs), environment)}
            while running:
                finished, running = _finished(running)
            add_environment(config.results, finished.pop().result())
        except BrokenProcessPool:  # the manifest has that of this process, which is most often the same
            self.stop()

    def _load_learners(self, tasks: list[Task], config: WorkerConfig) -> frozenset[str]:
        """Let one worker compile and cache the kernels; return learners whose worker died or had to be ended.

        These fail again in their tasks, where it is recorded.
        """
        from joblib.externals.loky.process_executor import BrokenProcessPool

        failed = set()
        seconds, memory_bytes = config.to_load(SECONDS_TO_LOAD)
        for task in {(task.learner, str(task.params)): task for task in tasks}.values():
            for last in (False, True):  # a worker may die for another reason
                started = time.monotonic()
                try:
                    running = {_submit(self._open(self.n_jobs), load_within, task, seconds, memory_bytes)}
                    while running:
                        finished, running = _finished(running)
                    (error,) = (future.exception() for future in finished)
                except BrokenProcessPool as broken:
                    error = broken
                if not isinstance(error, BrokenProcessPool):
                    break
                self.stop()
                if last or (seconds is not None and time.monotonic() - started > seconds):
                    failed.add(task.learner)
                    break
        return frozenset(failed)

    def _alone(self, task: Task, config: WorkerConfig, store: Store) -> Iterator[TaskRecord]:
        done = list(self._compute([task], config, 1))
        if not done:
            claim = store.clear_claim(task)
            store.remove_leftovers()
            record = store.read_loose(task)
            if record is None:
                record = overdue_record(task, config, claim) or lost_record(task)
                store.write(record)
            done = [(task, record)]
        yield from done

    def _compute(self, tasks: list[Task], config: WorkerConfig, n_jobs: int) -> Iterator[TaskRecord]:
        """Run tasks in worker processes until all are done or a worker dies."""
        from joblib.externals.loky.process_executor import BrokenProcessPool

        pool = self._open(n_jobs)
        waiting = iter(tasks)
        running: set[Future[TaskRecord]] = set()
        try:
            while True:
                # A few tasks ahead keep the workers busy; more would be lost together.
                for task in itertools.islice(waiting, 2 * n_jobs - len(running)):
                    running.add(_submit(pool, _work, task, config))
                if not running:
                    return
                finished, running = _finished(running)
                for future in finished:
                    yield future.result()
        except BrokenProcessPool:
            self.stop()  # from now on, no worker writes anything

    def _open(self, n_jobs: int):
        """The worker processes; they are started if there are none."""
        from joblib.externals.loky import get_reusable_executor

        # Workers that grow by 300 MB, as those that read large datasets do, are replaced with this warning.
        warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning)
        # Otherwise it starts together with the workers and undoes the next line.
        resource_tracker.ensure_running()
        with _signals_deferred(), _interrupts_blocked():
            self._pool = get_reusable_executor(
                n_jobs,
                timeout=600,
                initializer=_initialize,
                initargs=(os.getpid(),),
                env=dict.fromkeys(_THREAD_VARIABLES, "1"),
            )
        return self._pool

    def stop(self) -> None:
        if self._pool is not None:
            with _signals_deferred():
                _wait_until_taken(self._pool)
                self._pool.shutdown(wait=True, kill_workers=True)


@contextmanager
def _signals_deferred() -> Iterator[None]:
    """Answer signals that end the run on leaving.

    An exception in the middle of a method of a future or of loky can leave its locks taken: `Condition.__enter__` is
    Python code. loky's thread then waits for the lock, and stopping waits for loky's thread.
    """
    came: list[int] = []
    before = {}
    try:
        if threading.current_thread() is threading.main_thread():  # others have no signals to answer
            for number in ENDING:
                if (handler := signal.getsignal(number)) not in (signal.SIG_IGN, None):
                    before[number] = handler
                    signal.signal(number, lambda number, _: came.append(number))
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Let processes that start in here ignore Ctrl-C and a closed terminal, which the parent handles."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _submit(pool, function, *arguments):
    with _signals_deferred(), _interrupts_blocked():  # workers are started when there is work
        return pool.submit(function, *arguments)


def _finished(running: set) -> tuple[set, set]:
    """Wait for a future to finish, but not for long, so that signals are answered; returns (finished, running)."""
    from joblib.externals.loky import wait

    with _signals_deferred():
        return wait(running, timeout=_SECONDS_UNTIL_SIGNALS, return_when="FIRST_COMPLETED")


def _wait_until_taken(pool) -> None:
    """Wait until loky's thread has taken every task submitted so far: one that it first sees at shutdown fails it."""
    try:
        last = _submit(pool, os.getpid)  # tasks are taken in order
    except RuntimeError:  # broken or shut down: the thread has ended
        return
    deadline = time.monotonic() + _SECONDS_UNTIL_TAKEN
    while not (last.running() or last.done()) and time.monotonic() < deadline:
        time.sleep(0.001)


def _initialize(parent: int) -> None:
    """Note the environment of this worker, and end it when its parent is gone: one that is killed cannot do so.

    What a learner prints goes to standard error: standard output has the table.
    """
    os.dup2(2, 1)
    environment_id()  # before a learner loads a BLAS of its own
    if sys.platform == "linux":  # the thread below has to wait while a kernel holds the interpreter
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_SECONDS_BETWEEN_CHECKS)
    os._exit(1)


def _work(task: Task, config: WorkerConfig) -> TaskRecord:
    store = Store(config.results)
    claim_file = store.claim(task, os.getpid())
    record = run_task(task, config, claim_file)
    store.clear_claim(task)
    return task, record
