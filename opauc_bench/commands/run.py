"""``run``: from preparing data to writing and printing the report."""

from __future__ import annotations

import shlex
import signal
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import ConfigError, DataError
from ..learners import ESTIMATOR
from ..results.manifest import DatasetFacts, Manifest, find_manifest, write_manifest
from ..results.reuse import absent_folders, beside, join_references, references_to
from ..results.store import Records, Store
from ..runner.engines import Engine
from ..runner.execute import Executor
from ..runner.limits import available_memory, exceeds_memory
from ..runner.worker import WorkerConfig
from ..task import Task
from .busy import what_else_runs
from .local_data import LocalData
from .manifests import compose_manifest
from .planning import LocalPlan, fold_problems, kept_notes, left_out_cases, memory_problems, plan_locally
from .progress import Estimate, Progress, duration
from .recorded import Recorded
from .reports import has_other_folds, print_report, remove_outdated_files, write_report_files
from .session import Session, shell_command
from .tables import check_published, check_test
from .terminal import counted, say

__all__ = ["compute_experiment", "run_experiment"]


def run_experiment(
    session: Session, engine: Engine, *, fresh: bool, retry_failed: bool, test: str | None, quiet: bool
) -> int:
    """Compute tasks without a record, write and print the report; returns the exit code.

    If there is nothing to compute and the tables are those of the records, or the run fails before it computes, nothing
    is written.
    """
    recorded, plan, local, written = compute_experiment(
        session, engine, fresh=fresh, retry_failed=retry_failed, test=test, quiet=quiet
    )
    print_report(recorded, test)
    if written:
        print(f"\nwritten to {session.folder}/")
    return _exit_code(recorded, plan, local)


def compute_experiment(
    session: Session, engine: Engine, *, fresh: bool, retry_failed: bool, test: str | None, quiet: bool
) -> tuple[Recorded, LocalPlan, LocalData, bool]:
    """Compute tasks without a record and write the report; returns also whether anything was written."""
    check_test(test)
    check_published(session.experiment)
    notify = _say_notes if quiet else say
    store = Store(session.folder)
    local = LocalData(session.catalogue, session.sources)
    with store.locked(readable=True) as refused:
        before = Recorded.read(session)
        for name in session.datasets:
            local.prepare(name, notify)
        plan, todo = _due(before, local, fresh, retry_failed)
        if changed := local.check({task.dataset for task in todo}, notify):
            notify(f"planned again, since arrays have changed: {', '.join(changed)}")
            plan, todo = _due(before, local, fresh, retry_failed)
        if getattr(session.experiment.protocol, "keep_scores", False) and (note := _without_scores(before, plan, todo)):
            notify(note)
        memory = available_memory(session.experiment.limits.memory_bytes)
        too_large = [task for task in todo if exceeds_memory(task, memory)]
        todo = [task for task in todo if not exceeds_memory(task, memory)]
        if too_large and not (todo or plan.reusable or any(before.records.of(task) for task in plan.tasks)):
            raise ConfigError(
                "\n".join(["no task fits in memory", *memory_problems(session, too_large, memory)]),
                f"raise limits.memory_gb in {session.experiment.path}, or select other datasets and learners",
            )
        if not (todo or before.records.loose or before.records.damaged or plan.reusable or _is_outdated(before, plan)):
            notify(_nothing_to_compute(plan, before, too_large))
            if change := session.change_of_config():
                notify(f"note: {change}")
            recorded = before
        elif refused:
            raise refused
        else:
            recorded = _compute_and_write(before, local, plan, todo, engine, memory, test, quiet, fresh)
        for line in local.absences():
            say(line)
        for line in memory_problems(session, too_large, memory):
            say(f"not started: {line}")
    return recorded, plan, local, recorded is not before


def _due(before: Recorded, local: LocalData, fresh: bool, retry_failed: bool) -> tuple[LocalPlan, list[Task]]:
    """The plan on the data of this machine, and its tasks to compute, each once."""
    session = before.session
    if problems := fold_problems(session, local, (name for name in session.datasets if name in local.prepared)):
        raise ConfigError(
            "\n".join(problems),
            f"use fewer folds, or other shares, under protocol of {session.experiment.path}, correct the parts or "
            "groups that the data name, or leave these datasets out",
        )
    plan = plan_locally(before, local)
    plan.tasks = [task for task in plan.tasks if task.dataset in local.prepared]
    if not plan.tasks and (left_out := left_out_cases(before, local)):
        raise ConfigError(
            "\n".join(["no dataset is measured", *left_out]),
            f"use other shares under train_positives, or fewer least_positives, in {session.experiment.path}",
        )
    if not plan.tasks and not local.unavailable:
        what = f"shard {session.shard}" if session.shard else "the selection"
        raise ConfigError(f"{what} has no tasks", "use fewer shards, or other datasets and learners")
    if not plan.tasks:
        raise DataError("\n".join(["none of the datasets is available", *local.absences()]))
    if fresh:
        plan.reusable = Records()
    todo: dict[str | None, Task] = {}
    for task in plan.tasks:
        record = None if fresh else plan.done(task, before)
        if record is None or (retry_failed and not record.ok):
            todo.setdefault(task.id, task)
    return plan, list(todo.values())


def _compute_and_write(
    before: Recorded,
    local: LocalData,
    plan: LocalPlan,
    todo: list[Task],
    engine: Engine,
    memory: float,
    test: str | None,
    quiet: bool,
    fresh: bool,
) -> Recorded:
    session, records = before.session, before.records
    _announce(before, quiet)
    if session.experiment.protocol.exclusive:
        engine = engine.alone()
        if todo and (busy := what_else_runs()):
            say(
                f"warning: the machine is busy ({busy}): times measured now may be too long. "
                "For times to be published, start this again when nothing else runs, with --fresh"
            )
    engine = engine.for_tasks(len(todo))
    todo = engine.ordered(todo)
    estimate = Estimate() if fresh else plan.estimate(before)
    for line in absent_folders(session.reuse) if todo else ():
        say(f"note: {line}")
    executor = engine.executor(session.catalogue) if todo else None
    if executor is not None:
        if engine.scheduler is not None and not quiet:
            say(f"waiting for the scheduler {engine.scheduler} and its workers, two minutes at most")
        executor.connect()  # before any record is removed
    if not quiet:
        n_jobs = engine.n_jobs if executor is None else executor.n_jobs
        say(f"{len(todo)} of {len(plan.tasks)} tasks to compute{_time_needed(session, todo, estimate, engine, n_jobs)}")
    for line in [*_lost_metrics(before, todo), *kept_notes(local, todo)]:
        say(f"note: {line}")
    manifest = _manifest(before, local, plan, todo, memory, test)
    remove_outdated_files(session.folder, before.manifest, manifest)
    if todo:  # otherwise last: references to other folders without tables would look like a finished run
        write_manifest(session.folder, manifest)
    store = Store(session.folder)
    if fresh and (n_before := sum(task.id in records for task in todo)):
        say(f"note: --fresh removes {counted(n_before, 'record')}; the tables stay as they are until the run ends")
    # Other tasks keep the inner folds of an interrupted run. A failed record gives way to that of another folder.
    again = todo if fresh else [task for task in todo if task.id in records]
    store.remove([*again, *(record for id, record in records.items() if id in plan.reusable)])
    if records.damaged:
        store.remove_damaged()
    for task in todo:
        records.pop(task.id or "", None)
    records |= plan.reusable
    records.reused |= plan.reusable.reused
    if executor is not None:
        _compute(before, local, todo, executor, estimate, quiet)
    written = find_manifest(session.folder) if todo else None  # with the environments of the workers
    recorded = Recorded(session, written or manifest, records)
    recorded.records.damaged.clear()
    write_report_files(recorded, session.folder, test)
    if not todo:
        write_manifest(session.folder, manifest)
    store.remove_partials(recorded.tasks)
    store.pack()
    return recorded


def _say_notes(text: str) -> None:
    """Print what users should know of their data, and no progress."""
    if "note: " in text:
        say(text)


def _time_needed(session: Session, todo: list[Task], estimate: Estimate, engine: Engine, n_jobs: int) -> str:
    """How long it will take; costs of estimators are not known before one of their tasks has finished."""
    estimators = dict.fromkeys(task.column for task in todo if task.learner == ESTIMATOR)
    unknown = [column for column in estimators if not estimate.has_measured(column)]
    known = [task for task in todo if task.column not in unknown]
    longest = max(1.0, estimate.seconds(known) / n_jobs)  # not "up to 0 s"
    time = f", up to {duration(longest)} on {engine.title}" if known else ""
    measured = f"{shell_command(session, 'plan')} measures fits of {', '.join(unknown)}"
    return time + (f" without classifiers ({measured})" if unknown else "")


def _is_outdated(before: Recorded, plan: LocalPlan) -> bool:
    """Whether the manifest has other data than the records, or is lost, or the tables are those of other records.

    Tables of another config are not written again here: `Session.change_of_config` says what to do.
    """
    have = {task.dataset: task.fingerprint for task in plan.tasks if before.records.of(task) is not None}
    if any(before.known_fingerprint(dataset) != fingerprint for dataset, fingerprint in have.items()):
        return True
    # A part of the columns says nothing of the files that the others come from.
    return not (before.session.is_part or before.session.change_of_config()) and has_other_folds(before)


def _announce(before: Recorded, quiet: bool) -> None:
    """Print notes about the folder before it is written to."""
    session, of = before.session, before.manifest.config_name
    if of != session.experiment.path.name:
        say(
            f"note: {session.folder}/ has the results of {of}: its records stay, but the manifest and the tables "
            f"become those of {session.experiment.path.name}"
        )
    elif (
        not before.lacks_manifest
        and (orphaned := before.orphaned)
        and len(orphaned) == sum(1 for _ in before.records.own())
    ):
        say(
            f"note: {session.folder}/ has {counted(len(orphaned), 'record')} of "
            f"{before.manifest.experiment['title']!r}, and none of {session.experiment.path} as it is: they stay, but "
            "the manifest and the tables become its own"
        )
    for damage in before.records.damaged:
        say(f"damaged, to be computed again: {damage}")
    if before.records.loose and not quiet:
        say(f"{counted(len(before.records.loose), 'record')} of an interrupted run kept")


def _lost_metrics(before: Recorded, todo: list[Task]) -> list[str]:
    """A note on metrics that the command ``metrics`` has added to records that are computed again, if there are any."""
    replaced = [(task, record) for task in todo if (record := before.records.of(task)) is not None]
    lost = sorted(
        {
            name
            for task, record in replaced
            for name in record.metrics
            if name not in getattr(task.protocol, "metrics", record.metrics)
        }
    )
    if not lost:
        return []
    config = before.session.experiment.path.name
    return [
        f"{counted(len(replaced), 'record')} that are computed again lose {', '.join(lost)}, which 'opauc-bench "
        f"metrics' added: name them under metrics of the protocol in {config}, or add them again"
    ]


def _without_scores(before: Recorded, plan: LocalPlan, todo: list[Task]) -> str:
    """A note on records that are taken over without the test scores that the protocol keeps, if there are any."""
    due = {task.id for task in todo}
    taken = filter(None, (before.records.of(task) for task in plan.tasks if task.id not in due))
    n = sum(record.ok and not before.store_of(record).scores_path(record.id).is_file() for record in taken)
    missing = f"{counted(n, 'record')} without test scores, removed or from before keep_scores"
    return f"note: {missing}; --fresh keeps them" if n else ""


def _nothing_to_compute(plan: LocalPlan, before: Recorded, too_large: list[Task]) -> str:
    dates = sorted(
        record.timing.finished[:10]
        for task in plan.tasks
        if (record := before.records.of(task)) is not None and record.timing.finished
    )
    since = f" from {dates[0]}" + (f" to {dates[-1]}" if dates[-1] != dates[0] else "") if dates else ""
    have = f"{len(plan.tasks) - len(too_large)} have" if too_large else "all have"
    return (
        f"0 of {len(plan.tasks)} tasks to compute: {have} records{since} "
        "(--fresh computes them again, --out DIR elsewhere)"
    )


def _manifest(
    before: Recorded, local: LocalData, plan: LocalPlan, todo: list[Task], memory: float, test: str | None
) -> Manifest:
    """The new manifest: the datasets of this run, and everything that the records refer to."""
    session = before.session
    computed = {task.id for task in todo}
    absent = {
        name: DatasetFacts(unavailable=True) for name in local.unavailable if before.known_fingerprint(name) is None
    }
    references = join_references(before.manifest.reused, references_to(plan.reusable.reused))
    reused = join_references({name: set(ids) - computed for name, ids in references.items()})
    others = (find_manifest(beside(session.folder, name)) for name in reused)
    records = {**before.records, **plan.reusable}
    return compose_manifest(
        session,
        datasets={**before.manifest.datasets, **absent, **local.facts()},
        memory_bytes=memory,
        test=test,
        known=[before.manifest.model_copy(update={"definitions": before.definitions}), *filter(None, others)],
        records=[record for id, record in records.items() if id not in computed],
        todo=todo,
        reused=reused,
        selected_in=join_references(before.manifest.selected_in, references_to(plan.selections.reused)),
    )


def _compute(
    before: Recorded,
    local: LocalData,
    todo: list[Task],
    executor: Executor,
    estimate: Estimate,
    quiet: bool,
) -> None:
    """Compute tasks and collect their records."""
    session, limits = before.session, before.session.experiment.limits
    config = WorkerConfig(
        results=session.folder.resolve(),
        prepared=local.folders(),
        seconds=limits.seconds,
        memory_bytes=limits.memory_bytes,
    )
    with _terminable(), Progress(todo, executor.n_jobs, estimate, Store(config.results), quiet) as progress:
        try:
            for task, record in executor.run(todo, config):
                before.records.add(record)
                progress.done(task, record)
        except BaseException as error:
            executor.stop()
            Store(config.results).remove_leftovers()  # a worker may have been ended while it wrote a file
            for line in _how_to_continue(session) if isinstance(error, KeyboardInterrupt) else ():
                progress.say(line)
            raise


def _how_to_continue(session: Session) -> list[str]:
    said = "interrupted; finished tasks are saved"
    program = Path(sys.argv[0])
    if program.stem != "opauc-bench" and program.parent.name != "opauc_bench":  # `opauc_bench.run` from a script
        return [f"{said}: the same call continues"]
    # With these two, the next run would compute finished tasks again.
    again = [argument for argument in sys.argv[1:] if argument not in ("--fresh", "--retry-failed")]
    lines = [f"{said}. To continue:", f"  {shlex.join(['opauc-bench', *again])}"]
    if "--fresh" in sys.argv and session.reuse:
        lines.append(
            "That takes what the folders under reuse have; with --fresh, all tasks are computed from the start."
        )
    return lines


@contextmanager
def _terminable() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C, and ignore both while the first is answered; only the main thread can.

    `timeout` and shells may send a signal twice, and the second one would end the stopping of the workers.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_):
        for number in before:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    before = {number: handler for number, handler in handlers.items() if handler not in (signal.SIG_IGN, None)}
    for number in before:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _exit_code(recorded: Recorded, plan: LocalPlan, local: LocalData) -> int:
    counts = Counter(record.status if (record := recorded.records.of(task)) else "missing" for task in plan.tasks)
    failed = sum(counts.values()) - counts["ok"]
    if failed:
        words = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()) if status != "ok")
        again = "; --retry-failed computes them again" if failed > counts["missing"] else ""
        say(f"{failed} of {len(plan.tasks)} tasks have no number ({words}){again}")
    return 3 if local.unavailable else 1 if failed else 0
