"""Tasks on a Dask cluster: a scheduler that runs elsewhere, or worker processes of this machine.

Only names, hashes, seeds and the entry of the catalogue travel to a worker. It gets the data from its own cache, a
mirror or the official address, checks that the arrays have the hash that the task names, computes the record and sends
it back; this process writes it. So workers need no folder in common, and whatever becomes of them, a record is whole or
absent.
"""

from __future__ import annotations

import itertools
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import __version__
from ..data import DatasetEntry, Sources, prepare
from ..errors import DataError, RunnerError
from ..results.environment import environment
from ..results.manifest import add_environment
from ..results.record import Record
from ..results.store import Store
from ..task import Task
from .worker import SECONDS_TO_LOAD, Workplace, failed_record, load_within, lost_record, overdue_record, run_task

if TYPE_CHECKING:
    from distributed import Client, Future

__all__ = ["DaskExecutor"]

Done = tuple[Task, Record]

_SECONDS_FOR_SCHEDULER = 60.0
_SECONDS_FOR_WORKERS = 600.0
_ATTEMPTS_IN_VAIN = 5
_MEMORY = "memory"


class _SchedulerLost(Exception):
    """The connection broke; what was under way has to be sent again."""


# Whatever is asked of a scheduler that is not there any more ends in one of these.
_LOST = (_SchedulerLost, CancelledError, OSError)


class DaskExecutor:
    """An engine that hands tasks to Dask.

    Parameters
    ----------
    scheduler : str or None
        Address such as ``tcp://host:8786``; None starts ``n_jobs`` workers on this machine.
    n_jobs : int
        Workers to start where there is no scheduler.
    entries : dict of str to DatasetEntry
        The catalogue's entry of each dataset, which a worker gets the data by.

    Raises
    ------
    RunnerError
        If Dask is not installed, or the scheduler does not answer, or its workers cannot do this work.
    """

    def __init__(self, scheduler: str | None, n_jobs: int, entries: dict[str, DatasetEntry]):
        try:
            import distributed  # noqa: F401 (only to find out whether it is there)
        except ImportError as error:
            raise RunnerError("--backend dask needs Dask", "pip install 'opauc-bench[dask]'") from error
        self.scheduler = scheduler
        self.n_jobs = n_jobs
        self.entries = entries
        self._name = secrets.token_hex(8)
        self._client: Client | None = None
        self._cluster = None
        self._environments: set[str] = set()  # that are in the manifest

    def connect(self) -> None:
        """See `Executor.connect`; a scheduler that goes away meanwhile is waited for by `run`."""
        try:
            self._connect()
        except _LOST:
            self._disconnect()

    def run(self, tasks: list[Task], workplace: Workplace) -> Iterator[Done]:
        store = Store(workplace.results)
        left = {task.id: task for task in tasks}
        attempt = in_vain = 0
        try:
            while left:
                before = len(left)
                try:
                    client = self._connect()
                    unloaded = _warm_up(client, list(left.values()), workplace)
                    there = replace(workplace, unloaded=unloaded)
                    for task, record in self._drained(client, list(left.values()), there, attempt):
                        store.write(record)
                        del left[task.id]
                        yield task, record
                except _LOST as error:
                    self._disconnect()
                    attempt += 1
                    in_vain = in_vain + 1 if len(left) == before else 0
                    if in_vain == _ATTEMPTS_IN_VAIN:
                        raise RunnerError(
                            f"the connection to the scheduler broke {in_vain} times without a task done: {error!r}",
                            "look at what the scheduler and its workers say; the same command goes on",
                        ) from error
        finally:
            self.stop()

    def stop(self) -> None:
        """Give up what is under way and leave; workers that we started end, others go on waiting."""
        self._disconnect()
        if self._cluster is not None:
            self._cluster.close(timeout=10)
            self._cluster = None

    # ------------------------------------------------------------------ connection

    def _connect(self) -> Client:
        """The client, of a scheduler that has come back if need be."""
        if self._client is not None:
            return self._client
        from distributed import Client

        if self.scheduler is None:
            self._cluster = self._cluster or _local_cluster(self.n_jobs)
            self._client = Client(self._cluster)
        else:
            self._client = _patient_client(self.scheduler)
        try:
            _check_workers(self._client, self.scheduler)
        except BaseException:
            self.stop()
            raise
        return self._client

    def _disconnect(self) -> None:
        if self._client is not None:
            # Futures that nobody holds are cancelled by the scheduler.
            self._client.close(timeout=5)
            self._client = None

    # ------------------------------------------------------------------ tasks

    def _drained(self, client: Client, tasks: list[Task], workplace: Workplace, attempt: int) -> Iterator[Done]:
        """Compute all tasks; those on a worker that died go once more, each alone, so that the guilty one is known."""
        suspects = []
        for task, record in self._drain(client, tasks, workplace, f"{attempt}"):
            if record is None:
                suspects.append(task)
            else:
                yield task, record
        for task in suspects:
            try:
                client.wait_for_workers(1, timeout=_SECONDS_FOR_WORKERS)
            except TimeoutError as error:
                raise RunnerError(
                    f"all workers are gone, and none has come for {_SECONDS_FOR_WORKERS:.0f} s",
                    "start workers; the same command goes on",
                ) from error
            began = time.monotonic()
            for _, record in self._drain(client, [task], workplace, f"{attempt}-alone"):
                yield task, record or _given_up(task, workplace.seconds, time.monotonic() - began)

    def _drain(
        self, client: Client, tasks: list[Task], workplace: Workplace, attempt: str
    ) -> Iterator[tuple[Task, Record | None]]:
        """Send tasks, a few more than there are workers at a time, and yield what comes back; None if a worker died."""
        from distributed import as_completed

        waiting = iter(enumerate(tasks))
        under_way: dict[Future, tuple[int, Task]] = {}
        refused_by: dict[str | None, dict[str, str]] = {}
        sendings = itertools.count()
        memory = _declared_memory(client)
        queue = as_completed()

        def send(number: int, task: Task) -> None:
            refusals = refused_by.get(task.id, {})
            resources = {_MEMORY: min(task.memory_bytes, memory)} if memory else None
            future = client.submit(
                _compute_there,
                task,
                self.entries[task.dataset],
                replace(workplace, results=Path(), prepared={}),
                self._name,
                key=f"opauc-bench-{task.id}-{attempt}-{next(sendings)}",
                # Not these alone: one that dies comes back under another address, and nobody would be left.
                workers=[name for name in _addresses(client) if name not in refusals] if refusals else None,
                allow_other_workers=bool(refusals),
                resources=resources,
                priority=-number,
                pure=False,
            )
            under_way[future] = (number, task)
            queue.add(future)

        def refill() -> None:
            while len(under_way) < 2 * max(1, len(_addresses(client))) + 2:
                if (following := next(waiting, None)) is None:
                    return
                send(*following)

        refill()
        while under_way:
            future = next(queue)
            number, task = under_way.pop(future)
            outcome = _outcome_of(future, task)
            if isinstance(outcome, _Refusal):
                refusals = refused_by.setdefault(task.id, {})
                refusals[outcome.worker] = outcome.message
                if any(name not in refusals for name in _addresses(client)):
                    send(number, task)
                    continue
                outcome = failed_record(task, "error", f"no worker has the data: {outcome.message}")
            elif isinstance(outcome, _Computed):
                self._note_environment(workplace.results, outcome)
                outcome = outcome.record
            yield task, outcome
            refill()

    def _note_environment(self, folder: Path, computed: _Computed) -> None:
        """Write into the manifest what a record of another machine refers to, before the record."""
        if computed.record.environment not in self._environments:
            add_environment(folder, computed.environment)
            self._environments.add(computed.record.environment)


def _given_up(task: Task, limit: float | None, elapsed: float) -> Record:
    """The record of a task that was alone when its worker died, and left no word."""
    if limit is None or elapsed < limit:
        return lost_record(task)
    message = f"time limit of {limit:g} s reached; its worker ended after {elapsed:.0f} s"
    return failed_record(task, "timeout", message)


class _Computed(NamedTuple):
    """A record, and what it was computed with."""

    record: Record
    environment: dict[str, Any]


class _Refusal:
    """What a worker says that cannot get the data of a task."""

    def __init__(self, worker: str, message: str):
        self.worker = worker
        self.message = message


def _outcome_of(future: Future, task: Task) -> _Computed | Record | _Refusal | None:
    """A record, a refusal, or None if its worker died; raises _SchedulerLost if it was lost with the scheduler."""
    from distributed import KilledWorker

    if future.status == "cancelled":
        raise _SchedulerLost
    error = future.exception()
    if isinstance(error, KilledWorker):
        return None
    if error is not None:
        # Tasks do not raise; what comes here is about sending and receiving them.
        return failed_record(task, "error", f"{type(error).__name__}: {error}")
    return future.result()


# ---------------------------------------------------------------------------------------------- on the worker

_HASHED: set[str | None] = set()  # fingerprints of the arrays that this process has read and found right


def _compute_there(task: Task, entry: DatasetEntry, limits: Workplace, run: str) -> _Computed | _Refusal:
    from distributed import get_worker

    worker = get_worker()
    try:
        data = prepare(entry, Sources.from_environment(), lambda text: None, hashed=task.fingerprint not in _HASHED)
    except DataError as error:
        return _Refusal(worker.address, f"{worker.address}: {error}")
    if data.fingerprint != task.fingerprint:
        return _Refusal(
            worker.address,
            f"{worker.address}: its {entry.name} has the fingerprint {data.fingerprint[:16]}, "
            f"expected {str(task.fingerprint)[:16]}",
        )
    _HASHED.add(data.fingerprint)
    results = Path(tempfile.mkdtemp(prefix="opauc-bench-", dir=worker.local_directory))
    workplace = replace(limits, results=results, prepared={task.dataset: str(data.folder)})
    # Beside the folders of this host's workers: it outlives the process, and whoever is sent the task next finds it.
    note = Path(worker.local_directory).parent / f"opauc-bench-{run}-{task.id}"
    try:
        said = note.read_text(encoding="utf-8", errors="replace") if note.exists() else None
        return _Computed(overdue_record(task, workplace, said) or run_task(task, workplace, note), environment())
    finally:
        note.unlink(missing_ok=True)
        shutil.rmtree(results, ignore_errors=True)


def _warm_up(client: Client, tasks: list[Task], workplace: Workplace) -> frozenset[str]:
    """Let one worker of each host compile the kernels and cache them on disk before all do at once.

    Returns
    -------
    frozenset of str
        Learners that bring down their worker, or never come back.
    """
    from distributed import KilledWorker

    hosts = {address.rpartition("://")[2].rpartition(":")[0]: address for address in _addresses(client)}
    firsts = {(task.learner, str(task.params)): task for task in tasks}.values()
    limits = workplace.to_load(SECONDS_TO_LOAD)
    futures = [
        (client.submit(load_within, task, *limits, workers=[address], allow_other_workers=True, pure=False), task)
        for address in hosts.values()
        for task in firsts
    ]
    return frozenset(task.learner for future, task in futures if isinstance(future.exception(), KilledWorker))


# ---------------------------------------------------------------------------------------------- workers


def _local_cluster(n_jobs: int):
    import dask
    from distributed import LocalCluster

    # Whoever was on a worker that died is tried again alone; no need to lose more workers before.
    dask.config.set({"distributed.scheduler.allowed-failures": 0})
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return LocalCluster(
        n_workers=n_jobs,
        threads_per_worker=1,
        processes=True,
        memory_limit=0,  # limits.memory_gb of the experiment is what counts
        resources={_MEMORY: memory / n_jobs},
        dashboard_address=None,
    )


def _patient_client(address: str) -> Client:
    from distributed import Client

    give_up = time.monotonic() + _SECONDS_FOR_SCHEDULER
    while True:
        try:
            return Client(address, timeout=10)
        except (OSError, ValueError) as error:
            if isinstance(error, ValueError) or time.monotonic() > give_up:
                raise RunnerError(
                    f"no scheduler answers at {address}: {error}",
                    "dask scheduler  # on that host; then one 'dask worker ADDRESS --nthreads 1' for each core",
                ) from error
            time.sleep(1.0)


def _check_workers(client: Client, scheduler: str | None) -> None:
    """Workers have to be there, with one thread each and this version of the program."""
    start = f"dask worker {scheduler or 'ADDRESS'} --nthreads 1  # one for each core"
    try:
        client.wait_for_workers(1, timeout=_SECONDS_FOR_SCHEDULER)
    except TimeoutError as error:
        raise RunnerError(f"the scheduler {scheduler} has no workers", start) from error
    workers = client.scheduler_info(n_workers=-1)["workers"]
    if threaded := [name for name, worker in workers.items() if worker["nthreads"] != 1]:
        raise RunnerError(
            f"worker {threaded[0]} has {workers[threaded[0]]['nthreads']} threads: limits hold for a process, "
            "so that it can have one task at a time",
            start,
        )
    for name, version in client.run(_version_there, on_error="return").items():
        if version != __version__:
            raise RunnerError(
                f"worker {name} has opauc-bench {version}, this is {__version__}", "install the same version there"
            )


def _version_there() -> str:
    return __version__


def _addresses(client: Client) -> list[str]:
    return sorted(client.scheduler_info(n_workers=-1)["workers"])


def _declared_memory(client: Client) -> float | None:
    """The memory of the largest worker, if all of them declare it as a resource (``--resources memory=BYTES``)."""
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    declared = [worker["resources"].get(_MEMORY) for worker in workers]
    return max(declared) if declared and all(declared) else None
