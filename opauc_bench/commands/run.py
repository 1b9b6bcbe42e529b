"""``run``: from preparing data to writing and printing the report."""

from __future__ import annotations

import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ..errors import ConfigError, DataError
from ..results.manifest import DatasetFacts, Manifest, find_manifest, write_manifest
from ..results.reuse import absent_folders, beside, join_references, references_to
from ..results.store import Records, Store
from ..runner.engines import Engine
from ..runner.execute import Executor
from ..runner.limits import available_memory, exceeds_memory
from ..runner.worker import WorkerConfig
from ..signals import ENDING, interrupt
from ..task import Task
from .busy import what_else_runs
from .local_data import LocalData
from .manifests import compose_manifest
from .planning import LocalPlan, fold_problems, kept_notes, left_out_cases, memory_problems, plan_locally
from .progress import Estimate, Progress
from .recorded import Recorded
from .reports import has_other_folds, print_report, remove_outdated_files, write_report_files
from .run_notes import (
    folder_notes,
    how_to_continue,
    lost_metrics,
    nothing_to_compute,
    replaced_records,
    time_needed,
    without_scores,
)
from .session import Session
from .tables import check_published, check_test
from .terminal import counted, say

__all__ = ["RunOptions", "compute_experiment", "run_experiment"]


@dataclass(frozen=True)
class RunOptions:
    """What ``run`` computes again, the test of its tables, and whether it is silent on progress.

    With ``keep_workers`` the worker processes stay for the next call from Python. In a command, one with a thread that
    a learner has left would keep the process for ever.
    """

    fresh: bool = False
    retry_failed: bool = False
    test: str | None = None
    quiet: bool = False
    keep_workers: bool = False

    def notify(self, text: str) -> None:
        """Print a line; of a quiet run, only what users should know of their data."""
        if not self.quiet or "note: " in text:
            say(text)


@dataclass(frozen=True)
class RunOutcome:
    """The records after a run, the tasks that it was to have, and its data."""

    recorded: Recorded
    plan: LocalPlan
    local: LocalData
    written: bool  # whether the folder has changed
    n_kept: int  # records with a number whose tasks have failed in this run

    @property
    def failed(self) -> Counter[str]:
        """Tasks without a number, by the status of their records, or ``missing``."""
        records = map(self.recorded.records.of, self.plan.tasks)
        return Counter(record.status if record else "missing" for record in records if record is None or not record.ok)

    @property
    def n_left(self) -> int:
        """Number of records with a number that were to be computed again, and were not."""
        records = self.recorded.records
        return len(records.again & {record.id for record in map(records.of, self.plan.tasks) if record and record.ok})

    @property
    def exit_code(self) -> int:
        """3 if a dataset is unavailable, 1 if a task has no number, or failed or was not computed this time, else 0."""
        return 3 if self.local.unavailable else 1 if self.failed or self.n_kept or self.n_left else 0


def run_experiment(session: Session, engine: Engine, options: RunOptions) -> int:
    """Compute tasks without a record, write and print the report; returns the exit code.

    If there is nothing to compute and the tables are those of the records, or the run fails before it computes, nothing
    is written.
    """
    outcome = compute_experiment(session, engine, options)
    print_report(outcome.recorded, options.test)
    if outcome.written:
        print(f"\nwritten to {session.folder}/")
    if failed := outcome.failed:
        words = ", ".join(f"{count} {status}" for status, count in sorted(failed.items()))
        again = "; --retry-failed computes them again" if failed.total() > failed["missing"] else ""
        say(f"{failed.total()} of {len(outcome.plan.tasks)} tasks have no number ({words}){again}")
    if outcome.n_kept:
        say(f"{counted(outcome.n_kept, 'task')} failed this time: their records from before stay")
    if outcome.n_left:
        say(f"{counted(outcome.n_left, 'record')} not computed again: they stay as they are")
    return outcome.exit_code


def compute_experiment(session: Session, engine: Engine, options: RunOptions) -> RunOutcome:
    """Compute tasks without a record and write the report."""
    check_test(options.test)
    check_published(session.experiment)
    local = LocalData(session.catalogue, session.sources)
    with Store(session.folder).locked(readable=True) as refused:
        before = Recorded.read(session)
        for name in session.datasets:
            local.prepare(name, options.notify)
        run = _Run(before, local, options)
        if changed := local.check({task.dataset for task in run.todo}, options.notify):
            options.notify(f"planned again, since arrays have changed: {', '.join(changed)}")
            run = _Run(before, local, options)
        for line in without_scores(before, run.plan, [*run.todo, *run.too_large]):
            options.notify(f"note: {line}")
        run.require_task_that_fits()
        recorded = before
        if run.changes_nothing():
            options.notify(nothing_to_compute(before, run.plan, len(run.too_large)))
            if change := session.change_of_config():
                options.notify(f"note: {change}")
        elif refused:
            raise refused
        else:
            recorded = run.compute(engine)
        for line in local.absences():
            say(line)
        for line in memory_problems(session, run.too_large, run.memory):
            say(f"not started: {line}")
    return RunOutcome(recorded, run.plan, local, written=recorded is not before, n_kept=run.n_kept)


class _Run:
    """A run in its locked folder: the records before it, the data of this machine, and the tasks to compute.

    Raises
    ------
    ConfigError
        If the selection has no tasks, or folds cannot be made.
    DataError
        If no dataset is available.
    """

    def __init__(self, before: Recorded, local: LocalData, options: RunOptions):
        self.before = before
        self.local = local
        self.options = options
        self.session = before.session
        self.memory = available_memory(self.session.experiment.limits.memory_bytes)
        self.plan = self._plan()
        due = self._due()
        self.too_large = [task for task in due if exceeds_memory(task, self.memory)]
        self.todo = [task for task in due if not exceeds_memory(task, self.memory)]
        self.n_kept = 0  # records with a number whose tasks have failed now

    def _plan(self) -> LocalPlan:
        session, local = self.session, self.local
        if problems := fold_problems(session, local, (name for name in session.datasets if name in local.prepared)):
            raise ConfigError(
                "\n".join(problems),
                f"use fewer folds, or other shares, under protocol of {session.experiment.path}, correct the parts or "
                "groups that the data name, or leave these datasets out",
            )
        plan = plan_locally(self.before, local)
        plan.tasks = [task for task in plan.tasks if task.dataset in local.prepared]
        if not plan.tasks and (left_out := left_out_cases(self.before, local)):
            raise ConfigError(
                "\n".join(["no dataset is measured", *left_out]),
                f"use other shares under train_positives, or fewer least_positives, in {session.experiment.path}",
            )
        if not plan.tasks and not local.unavailable:
            what = f"shard {session.shard}" if session.shard else "the selection"
            raise ConfigError(f"{what} has no tasks", "use fewer shards, or other datasets and learners")
        if not plan.tasks:
            raise DataError("\n".join(["none of the datasets is available", *local.absences()]))
        if self.options.fresh:
            plan.reusable = Records()
        return plan

    def _due(self) -> list[Task]:
        """Tasks to compute, each once."""
        due: dict[str | None, Task] = {}
        for task in self.plan.tasks:
            record = None if self.options.fresh else self.plan.done(task, self.before)
            if record is None or (self.options.retry_failed and not record.ok):
                due.setdefault(task.id, task)
        return list(due.values())

    def require_task_that_fits(self) -> None:
        """Raise ConfigError if no task fits in memory, and none has a record."""
        recorded = any(self.before.records.of(task) for task in self.plan.tasks)
        if self.too_large and not (self.todo or self.plan.reusable or recorded):
            raise ConfigError(
                "\n".join(["no task fits in memory", *memory_problems(self.session, self.too_large, self.memory)]),
                f"raise limits.memory_gb in {self.session.experiment.path}, or select other datasets and learners",
            )

    def changes_nothing(self) -> bool:
        """Whether there is nothing to compute, to pack or to take over, and the tables are those of the records."""
        records = self.before.records
        return not (self.todo or records.loose or records.damaged or self.plan.reusable or self._is_outdated())

    def _is_outdated(self) -> bool:
        """Whether the manifest has other data than the records, or is lost, or the tables are those of other records.

        Tables of another config are not written again here: `Session.change_of_config` says what to do.
        """
        before, session = self.before, self.session
        have = {task.dataset: task.fingerprint for task in self.plan.tasks if before.records.of(task) is not None}
        if any(before.known_fingerprint(dataset) != fingerprint for dataset, fingerprint in have.items()):
            return True
        # A part of the columns says nothing of the files that the others come from.
        return not (session.is_part or session.change_of_config()) and has_other_folds(before)

    def compute(self, engine: Engine) -> Recorded:
        """Compute what is due, and write the records, the manifest and the report."""
        session, before, plan, options = self.session, self.before, self.plan, self.options
        records = before.records
        again = self._to_note_again()
        for line in folder_notes(before):
            say(line)
        if records.loose and not (options.quiet or options.fresh):
            say(f"{counted(len(records.loose), 'record')} of an interrupted run kept")
        if session.experiment.protocol.exclusive:
            engine = engine.alone()
            if self.todo and (busy := what_else_runs()):
                say(
                    f"warning: the machine is busy ({busy}): times measured now may be too long. "
                    "For times to be published, start this again when nothing else runs, with --fresh"
                )
        engine = engine.for_tasks(len(self.todo))
        self.todo = engine.ordered(self.todo)
        estimate = Estimate() if options.fresh else plan.estimate(before)
        for line in absent_folders(session.reuse) if self.todo else ():
            say(f"note: {line}")
        executor = engine.executor(session.catalogue) if self.todo else None
        if executor is not None:
            if engine.scheduler is not None and not options.quiet:
                say(f"waiting for the scheduler {engine.scheduler} and its workers, two minutes at most")
            executor.connect()  # before any record is removed
        if not options.quiet:
            time = time_needed(session, self.todo, estimate, engine, executor.n_jobs if executor else engine.n_jobs)
            say(f"{len(self.todo)} of {len(plan.tasks)} tasks to compute{time}")
        replaced = replaced_records(before, self.todo, options.fresh)
        for line in [*replaced, *lost_metrics(before, self.todo), *kept_notes(self.local, self.todo)]:
            say(f"note: {line}")
        store = Store(session.folder)
        superseded = [records[id] for id in plan.reusable if id in records]  # a failure here, a number there
        records |= plan.reusable
        records.reused |= plan.reusable.reused
        manifest = self._manifest()
        remove_outdated_files(session.folder, before.manifest, manifest)
        if self.todo:  # otherwise last: references to other folders without tables would look like a finished run
            write_manifest(session.folder, manifest)
        store.remove(superseded)
        if records.damaged:
            store.remove_damaged()
        if again:
            store.note_again(again)
            records.again |= {str(task.id) for task in again}
        if executor is not None:
            self._run_tasks(executor, estimate)
            manifest = self._manifest()
        recorded = Recorded(session, manifest, records)
        recorded.records.damaged.clear()
        write_report_files(recorded, session.folder, options.test)
        write_manifest(session.folder, manifest)
        store.forget_other_tasks(recorded.tasks)
        store.pack()
        return recorded

    def _to_note_again(self) -> list[Task]:
        """Tasks that are computed again although they have a record, here or in another folder."""
        if self.options.fresh:
            return self.todo
        records = self.before.records
        return [task for task in self.todo if task.id in records and task.id not in records.again]

    def _manifest(self) -> Manifest:
        """The manifest of this run: its datasets, and everything that the records refer to.

        Before the tasks are computed, that includes the records which they replace; after them, the environments of the
        workers, which the folder has by then.
        """
        session, before, local, plan = self.session, self.before, self.local, self.plan
        records = before.records
        absent = {
            name: DatasetFacts(unavailable=True) for name in local.unavailable if before.known_fingerprint(name) is None
        }
        own = records.keys() - records.reused.keys()
        references = join_references(before.manifest.reused, references_to(plan.reusable.reused))
        reused = join_references({name: set(ids) - own for name, ids in references.items()})
        others = (find_manifest(beside(session.folder, name)) for name in reused)
        written = find_manifest(session.folder)
        return compose_manifest(
            session,
            datasets={**before.manifest.datasets, **absent, **local.facts()},
            memory_bytes=self.memory,
            test=self.options.test,
            known=[
                before.manifest.model_copy(update={"definitions": before.definitions}),
                *filter(None, (written, *others)),
            ],
            records=records.values(),
            todo=self.todo,
            reused=reused,
            selected_in=join_references(before.manifest.selected_in, references_to(plan.selections.reused)),
        )

    def _run_tasks(self, executor: Executor, estimate: Estimate) -> None:
        """Compute tasks and collect their records."""
        limits = self.session.experiment.limits
        config = WorkerConfig(
            results=self.session.folder.resolve(),
            prepared=self.local.folders(),
            seconds=limits.seconds,
            memory_bytes=limits.memory_bytes,
        )
        store = Store(config.results)
        with _terminable(), Progress(self.todo, executor.n_jobs, estimate, store, self.options.quiet) as progress:
            try:
                for task, record in executor.run(self.todo, config):
                    if not self.before.records.add(record):
                        store.discard(record)
                        self.n_kept += 1
                    elif not (record.ok and task.protocol.keeps_scores):
                        store.remove_scores(record.id)  # of the record that this one replaces
                    progress.done(task, record)
                if not self.options.keep_workers:
                    executor.stop()
            except BaseException as error:
                executor.stop()
                store.remove_leftovers()  # a worker may have been ended while it wrote a file
                for line in how_to_continue() if isinstance(error, KeyboardInterrupt) else ():
                    progress.say(line)
                raise


@contextmanager
def _terminable() -> Iterator[None]:
    """Treat all signals like Ctrl-C, and ignore them while the first is answered; only the main thread can.

    `timeout` and shells may send a signal twice, and the second one would end the stopping of the workers.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt_once(number, frame):
        for each in before:
            signal.signal(each, signal.SIG_IGN)
        interrupt(number, frame)

    handlers = {number: signal.getsignal(number) for number in ENDING}
    before = {number: handler for number, handler in handlers.items() if handler not in (signal.SIG_IGN, None)}
    for number in before:
        signal.signal(number, interrupt_once)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
