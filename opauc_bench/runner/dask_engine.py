"""Tasks on a Dask cluster: a scheduler elsewhere, or worker processes of this machine.

A worker receives names, hashes, seeds and the dataset's entry of the catalogue. It takes the data from its own cache, a
mirror or the official address, checks their hash, computes the record and sends it back, with the test scores where
they are kept; this process writes them. So workers need no common folder, and a record is complete or absent.
"""

from __future__ import annotations

import itertools
import logging
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
from ..errors import DataError, ResultsError, RunnerError
from ..results.environment import environment
from ..results.manifest import add_environment
from ..results.record import Record, TaskRecord
from ..results.store import Store
from ..task import Task
from .failures import failed_record, lost_record, overdue_record
from .limits import available_memory
from .warm_up import SECONDS_TO_LOAD, load_within
from .worker import WorkerConfig, run_task

if TYPE_CHECKING:
    from distributed import Client, Future

__all__ = ["DaskExecutor"]


_SECONDS_FOR_SCHEDULER = 60.0
_SECONDS_FOR_WORKERS = 600.0
_SECONDS_BETWEEN_LOOKS = 5.0  # for workers
_MOST_FAILED_ATTEMPTS = 5
_MEMORY = "memory"


class _SchedulerLost(Exception):
    """The connection broke: tasks that were running have to be sent again."""


# What calls raise when the scheduler is gone.
_LOST = (_SchedulerLost, CancelledError, OSError)


class DaskExecutor:
    """An executor that sends tasks to Dask.

    ``scheduler`` is an address such as ``tcp://host:8786``; None starts ``n_jobs`` workers on this machine. ``entries``
    are the catalogue's, by dataset. RunnerError if Dask is not installed, the scheduler does not answer, or its workers
    cannot be used.
    """

    def __init__(self, scheduler: str | None, n_jobs: int, entries: dict[str, DatasetEntry]):
        try:
            import distributed  # noqa: F401
        except ImportError as error:
            raise RunnerError("--backend dask needs Dask", "pip install 'opauc-bench[dask]'") from error
        self.scheduler = scheduler
        self.n_jobs = n_jobs
        self.entries = entries
        self._name = secrets.token_hex(8)
        self._client: Client | None = None
        self._cluster = None
        self._environments: set[str] = set()  # in the manifest

    def connect(self) -> None:
        """See `Executor.connect`; if the connection breaks, `run` connects again."""
        try:
            self._connect()
        except _LOST:
            self._disconnect()

    def run(self, tasks: list[Task], config: WorkerConfig) -> Iterator[TaskRecord]:
        store = Store(config.results)
        left = {task.id: task for task in tasks}
        attempt = n_failed = 0
        try:
            while left:
                before = len(left)
                try:
                    client = self._connect()
                    unloaded = _warm_up(client, list(left.values()), config)
                    there = replace(config, unloaded=unloaded)
                    for task, record in self._drained(client, list(left.values()), there, attempt):
                        store.write(record)
                        del left[task.id]
                        yield task, record
                except _LOST as error:
                    self._disconnect()
                    attempt += 1
                    n_failed = n_failed + 1 if len(left) == before else 0
                    if n_failed == _MOST_FAILED_ATTEMPTS:
                        raise RunnerError(
                            f"the connection to the scheduler broke {n_failed} times without a task done: {error!r}",
                            "see the output of the scheduler and its workers; the same command continues",
                        ) from error
        finally:
            self.stop()

    def stop(self) -> None:
        """Cancel what is running and disconnect; workers that were started here end."""
        self._disconnect()
        if self._cluster is not None:
            self._cluster.close(timeout=10)
            self._cluster = None

    # ------------------------------------------------------------------ connection

    def _connect(self) -> Client:
        """The client; it is connected again if the connection broke."""
        if self._client is not None:
            return self._client
        from distributed import Client

        if self.scheduler is None:
            self._cluster = self._cluster or _local_cluster(self.n_jobs)
            self._client = Client(self._cluster)
        else:
            self._client = _patient_client(self.scheduler)
        try:
            self.n_jobs = _check_workers(self._client, self.scheduler)
        except BaseException:
            self.stop()
            raise
        return self._client

    def _disconnect(self) -> None:
        if self._client is not None:
            # The scheduler cancels futures that no client holds.
            self._client.close(timeout=5)
            self._client = None

    # ------------------------------------------------------------------ tasks

    def _drained(self, client: Client, tasks: list[Task], config: WorkerConfig, attempt: int) -> Iterator[TaskRecord]:
        """Compute all tasks; those whose worker died run again, each alone, so that the cause is known."""
        suspects = []
        for task, record in self._drain(client, tasks, config, f"{attempt}"):
            if record is None:
                suspects.append(task)
            else:
                yield task, record
        for task in suspects:
            try:
                client.wait_for_workers(1, timeout=_SECONDS_FOR_WORKERS)
            except TimeoutError as error:
                raise _no_workers() from error
            began = time.monotonic()
            for _, record in self._drain(client, [task], config, f"{attempt}-alone"):
                yield task, record or _given_up(task, config.seconds, time.monotonic() - began)

    def _drain(
        self, client: Client, tasks: list[Task], config: WorkerConfig, attempt: str
    ) -> Iterator[tuple[Task, Record | None]]:
        """Send tasks, a few more than there are workers at a time, and yield the records; None if a worker died."""
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
                replace(config, results=Path(), prepared={}),
                self._name,
                key=f"opauc-bench-{task.id}-{attempt}-{next(sendings)}",
                # Others are allowed: a worker that dies returns under another address, and none might be left.
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
            _wait_for_one(queue, client)
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
                self._note_environment(config.results, outcome)
                Store(config.results).write_scores_file(outcome.record.id, outcome.scores)
                outcome = outcome.record
            yield task, outcome
            refill()

    def _note_environment(self, folder: Path, computed: _Computed) -> None:
        """Write the environment that a record refers to into the manifest, before the record."""
        if computed.record.environment not in self._environments:
            add_environment(folder, computed.environment)
            self._environments.add(computed.record.environment)


def _wait_for_one(queue: Any, client: Client) -> None:
    """Wait until a task is done; raises RunnerError where there is no worker for as long as a new one may take."""
    there = looked = time.monotonic()
    while not queue.has_ready():
        time.sleep(0.01)
        now = time.monotonic()
        if now - looked >= _SECONDS_BETWEEN_LOOKS:
            looked = now
            if _addresses(client):
                there = now
            elif now - there >= _SECONDS_FOR_WORKERS:
                raise _no_workers()


def _no_workers() -> RunnerError:
    return RunnerError(
        f"all workers are gone, and no worker has started for {_SECONDS_FOR_WORKERS:.0f} s",
        "start workers; the same command continues",
    )


def _given_up(task: Task, limit: float | None, elapsed: float) -> Record:
    """The record of a task that was alone when its worker died, without a trace."""
    if limit is None or elapsed < limit:
        return lost_record(task)
    message = f"time limit of {limit:g} s reached; its worker ended after {elapsed:.0f} s"
    return failed_record(task, "timeout", message)


class _Computed(NamedTuple):
    """A record, the environment that it was computed in, and the file of its test scores, where they are kept."""

    record: Record
    environment: dict[str, Any]
    scores: bytes | None


class _Refusal(NamedTuple):
    """The answer of a worker for which the data are unavailable."""

    worker: str
    message: str


def _outcome_of(future: Future, task: Task) -> _Computed | Record | _Refusal | None:
    """A record, a refusal, or None if its worker died; raises _SchedulerLost if it was lost with the scheduler."""
    from distributed import KilledWorker

    if future.status == "cancelled":
        raise _SchedulerLost
    error = future.exception()
    if isinstance(error, KilledWorker):
        return None
    if isinstance(error, (ResultsError, RunnerError)):  # no room on the disk of the worker
        raise error
    if error is not None:
        # Tasks do not raise anything else: this is about sending or receiving them.
        return failed_record(task, "error", f"{type(error).__name__}: {error}")
    return future.result()


# ---------------------------------------------------------------------------------------------- on the worker

_HASHED: set[str | None] = set()  # fingerprints of the arrays that this process has checked


def _compute_there(task: Task, entry: DatasetEntry, limits: WorkerConfig, run: str) -> _Computed | _Refusal:
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
    config = replace(limits, results=results, prepared={task.dataset: str(data.folder)})
    # Beside the folders of this host's workers: it outlives the process, and the next worker of the task finds it.
    trace_file = Path(worker.local_directory).parent / f"opauc-bench-{run}-{task.id}"
    try:
        trace = trace_file.read_text(encoding="utf-8", errors="replace") if trace_file.exists() else None
        record = overdue_record(task, config, trace) or run_task(task, config, trace_file)
        return _Computed(record, environment(), Store(results).scores_file(record.id))
    finally:
        trace_file.unlink(missing_ok=True)
        shutil.rmtree(results, ignore_errors=True)


def _warm_up(client: Client, tasks: list[Task], config: WorkerConfig) -> frozenset[str]:
    """Let one worker of each host compile and cache the kernels; return learners whose worker died or was ended."""
    from distributed import KilledWorker

    hosts = {address.rpartition("://")[2].rpartition(":")[0]: address for address in _addresses(client)}
    firsts = {(task.learner, str(task.params)): task for task in tasks}.values()
    limits = config.to_load(SECONDS_TO_LOAD)
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

    # A task whose worker died is tried again alone, before it costs more workers. And workers are replaced however
    # often they die: Dask gives up one that is not there this long after any of its deaths, though it may have died
    # again since.
    dask.config.set(
        {"distributed.scheduler.allowed-failures": 0, "distributed.deploy.lost-worker-timeout": "10000 days"}
    )
    return LocalCluster(
        n_workers=n_jobs,
        threads_per_worker=1,
        processes=True,
        memory_limit=0,  # limits.memory_gb of the experiment applies
        resources={_MEMORY: available_memory(None) / n_jobs},
        # Any port: that of Dask may be taken.
        scheduler_kwargs={"dashboard": False, "dashboard_address": "127.0.0.1:0"},
        # Records say which tasks failed and why. What Dask says of a worker that ended names none of them, and comes
        # with the traceback of a heartbeat where that worker was still starting when the cluster closed.
        silence_logs=logging.CRITICAL,
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


def _check_workers(client: Client, scheduler: str | None) -> int:
    """Workers have to be there, with one thread each and this version of the program; returns their number."""
    start = f"dask worker {scheduler or 'ADDRESS'} --nthreads 1  # one for each core"
    try:
        client.wait_for_workers(1, timeout=_SECONDS_FOR_SCHEDULER)
    except TimeoutError as error:
        raise RunnerError(f"the scheduler {scheduler} has no workers", start) from error
    workers = client.scheduler_info(n_workers=-1)["workers"]
    if threaded := [name for name, worker in workers.items() if worker["nthreads"] != 1]:
        raise RunnerError(
            f"worker {threaded[0]} has {workers[threaded[0]]['nthreads']} threads: limits apply to a process, "
            "so that it can run one task at a time",
            start,
        )
    for name, version in client.run(_version_there, on_error="return").items():
        if version != __version__:
            raise RunnerError(
                f"worker {name} has opauc-bench {version}, this is {__version__}", "install the same version there"
            )
    return len(workers)


def _version_there() -> str:
    return __version__


def _addresses(client: Client) -> list[str]:
    return sorted(client.scheduler_info(n_workers=-1)["workers"])


def _declared_memory(client: Client) -> float | None:
    """The memory of the largest worker, if all of them declare it as a resource (``--resources memory=BYTES``)."""
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    declared = [worker["resources"].get(_MEMORY) for worker in workers]
    return max(declared) if declared and all(declared) else None
