"""Executors: who computes the tasks. They get tasks and a workplace, never arrays, and yield records as they come.

An executor is anything with ``run(tasks, workplace) -> iterator of (task, record)``. It may lose workers, but no task.
"""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Iterator
from typing import Any, Protocol

from ..plan import Task
from .store import Store
from .task import Workplace, lost_record, run_task

__all__ = ["Executor", "LocalExecutor", "make_executor"]

Done = tuple[Task, dict[str, Any]]

_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)


class Executor(Protocol):
    """What the runner needs of an engine."""

    def run(self, tasks: list[Task], workplace: Workplace) -> Iterator[Done]:
        """Compute the tasks, in whatever order, and yield each with its record."""
        ...

    def stop(self) -> None:
        """End all work at once; what has been recorded stays."""
        ...


class LocalExecutor:
    """Worker processes of this machine, one BLAS thread each (joblib's loky).

    When a worker dies, loky ends its neighbours too, and nobody can tell who was to blame. So the tasks that were under
    way are tried again, each alone; the one that brings down its worker even then is recorded as an error.

    Parameters
    ----------
    n_jobs : int
    """

    def __init__(self, n_jobs: int):
        self.n_jobs = n_jobs

    def run(self, tasks: list[Task], workplace: Workplace) -> Iterator[Done]:
        waiting = {task.id: task for task in tasks}
        while waiting:
            for task, record in self._pool(list(waiting.values()), workplace, self.n_jobs):
                del waiting[task.id]
                yield task, record
            # Tasks are left: the pool broke. What was recorded but not reported is found by reading it.
            store = Store(workplace.results)
            for task in list(waiting.values()):
                if (record := store.read(task)) is not None:
                    del waiting[task.id]
                    yield task, record
            suspects = [task for task in waiting.values() if store.clear_claim(task)]
            # A worker that dies before it can claim its first task leaves no suspect; some task has to be the one.
            for task in suspects or list(waiting.values())[:1]:
                del waiting[task.id]
                yield from self._alone(task, workplace, store)

    def _alone(self, task: Task, workplace: Workplace, store: Store) -> Iterator[Done]:
        done = list(self._pool([task], workplace, 1))
        if not done:
            store.clear_claim(task)
            record = store.read(task)
            if record is None:
                record = lost_record(task)
                store.write(task, record)
            done = [(task, record)]
        yield from done

    def _pool(self, tasks: list[Task], workplace: Workplace, n_jobs: int) -> Iterator[Done]:
        """Run tasks in worker processes until all are done or a worker dies."""
        from joblib.externals.loky import get_reusable_executor, wait
        from joblib.externals.loky.process_executor import BrokenProcessPool

        pool = get_reusable_executor(n_jobs, timeout=600, env=dict.fromkeys(_THREAD_VARIABLES, "1"))
        waiting, running = iter(tasks), set()
        try:
            while True:
                # A few tasks ahead keep the workers busy; more would only be lost together.
                for task in itertools.islice(waiting, 2 * n_jobs - len(running)):
                    running.add(pool.submit(_work, task, workplace))
                if not running:
                    return
                finished, running = wait(running, return_when="FIRST_COMPLETED")
                for future in finished:
                    yield future.result()
        except BrokenProcessPool:
            return

    def stop(self) -> None:
        from joblib.externals.loky import get_reusable_executor

        get_reusable_executor(max_workers=1, reuse=True, kill_workers=True).shutdown(wait=True, kill_workers=True)


def make_executor(n_jobs: int) -> Executor:
    """The executor for so many workers on this machine."""
    return LocalExecutor(max(1, n_jobs))


def _work(task: Task, workplace: Workplace) -> Done:
    # Ctrl-C reaches the whole process group; the parent alone decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    store = Store(workplace.results)
    store.claim(task, os.getpid())
    record = run_task(task, workplace)
    store.clear_claim(task)
    return task, record
