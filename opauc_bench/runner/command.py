"""What the commands that work on an experiment do, from preparing data to printing the table."""

from __future__ import annotations

import shlex
import signal
import sys
from collections import Counter, defaultdict
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..data import availability, download_size
from ..errors import ConfigError, DataError
from ..files import write_text
from ..plan import Task
from ..protocol import FIGURE_KINDS
from ..report.compare_render import comparison_to_terminal
from ..report.figure_text import figure_to_terminal
from ..report.terminal import to_terminal
from ..report.write import write_report
from .busy import what_else_runs
from .engines import Engine, workers
from .figures import NO_MATPLOTLIB, figures_of, write_figures
from .folds import write_folds
from .merge import merge_folders
from .page import PAGE, page_text
from .progress import Estimate, Progress, duration
from .session import Session, status_counts
from .store import Store
from .tables import build_report, check_test
from .terminal import say, width, wrapped

__all__ = ["describe_plan", "describe_status", "merge_results", "print_comparison", "print_report", "run_experiment"]


def run_experiment(
    session: Session, engine: Engine, *, fresh: bool, retry_failed: bool, test: str | None, quiet: bool
) -> int:
    """Run what is missing, write and print the report; returns the exit code."""
    check_test(test)
    with session.locked():
        if other := session.belongs_to_another():
            say(
                f"note: {session.folder}/ has the results of {other}: its records stay there, but manifest and tables "
                f"become those of {session.experiment.path.name}"
            )
        notify = (lambda text: None) if quiet else say
        session.prepare_data(notify)
        for error in session.unavailable.values():
            say(f"not available: {error}")
        tasks, todo, estimate = _planned(session, fresh, retry_failed)
        if changed := session.check_data({task.dataset for task in todo}, notify):
            for name in session.unavailable.keys() & set(changed):
                say(f"not available: {session.unavailable[name]}")
            tasks, todo, estimate = _planned(session, fresh, retry_failed)
        if session.experiment.protocol.exclusive:
            engine = engine.alone()
            if todo:
                _warn_of_load()
        todo = _without_hopeless(session, todo)
        engine = engine.for_tasks(len(todo))
        todo = engine.ordered(todo)
        if not quiet and todo:
            for line in _not_there(session):
                say(f"note: {line}")
            say(
                f"{len(todo)} of {len(tasks)} tasks to compute, "
                f"up to {duration(estimate.seconds(todo) / engine.n_jobs)} on {engine.title}"
            )
        if todo:
            _compute(session, todo, engine, estimate, quiet)
        print_report(session, test)
        counts = status_counts(tasks, session.store)
    failed = sum(counts.values()) - counts["ok"]
    if failed:
        words = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()) if status != "ok")
        say(f"{failed} of {len(tasks)} tasks have no number ({words}); --retry-failed computes them again")
    return 3 if session.unavailable else 1 if failed else 0


def _planned(session: Session, fresh: bool, retry_failed: bool) -> tuple[list[Task], list[Task], Estimate]:
    """All tasks on the data at hand, those to compute, and an estimate; the manifest says the same."""
    session.write_manifest()
    tasks = [task for task in session.tasks() if task.dataset in session.prepared]
    if not tasks:
        own = session.experiment.catalogue_path
        place = ("--catalogue", str(own)) if own else ()
        raise DataError(
            "none of the datasets can be had here and now", shlex.join(["opauc-bench", "data", "list", *place])
        )
    _check_folds(session, {task.dataset for task in tasks})
    return tasks, *_to_do(session, tasks, fresh, retry_failed)


def _not_there(session: Session) -> list[str]:
    """Folders to take records from that are not there; without a word, a slip of the pen would cost days."""
    folders = (session.folder.parent / name for name in session.experiment.reuse)
    return [
        f"{folder}/, named under reuse, is not there: nothing is taken over from it"
        for folder in folders
        if not folder.is_dir()
    ]


def _warn_of_load() -> None:
    """Times are measured: say so if something else is at work."""
    if busy := what_else_runs():
        say(
            f"warning: the machine is busy ({busy}): times measured now may be too long. "
            "For times to be published, start this again when nothing else runs, with --fresh"
        )


def merge_results(session: Session, folders: list[Path], test: str | None) -> None:
    """Join the folders of shards and print the report."""
    check_test(test)
    with session.locked():
        merged = merge_folders(session, folders)
        say(f"{merged.copied} records merged into {session.folder}/, {merged.present} were there")
        print_report(session, test)


def _check_folds(session: Session, names: set[str]) -> None:
    """Every part of a split has to have rows of both classes."""
    if problems := _trouble_with_folds(session, names):
        path = session.experiment.path
        raise ConfigError(
            "\n".join(problems),
            f"take fewer folds, or larger parts, under protocol of {path}, or leave these datasets out",
        )


def _trouble_with_folds(session: Session, names: set[str]) -> list[str]:
    problems = []
    for name, data in session.prepared.items():
        positive = data.manifest["n_positive"]
        negative = data.manifest["n_samples"] - positive
        for _, protocol in session.experiment.protocol.cases() if name in names else ():
            if trouble := protocol.trouble_with(positive, negative):
                problems.append(f"{name}: {trouble}")
    return problems


def _without_hopeless(session: Session, tasks: list[Task]) -> list[Task]:
    """Leave out tasks that need far more memory than there is, and say so."""
    hopeless = [task for task in tasks if session.is_hopeless(task)]
    for line in _too_large(session, hopeless):
        say(f"not started: {line}")
    return [task for task in tasks if not session.is_hopeless(task)]


def _to_do(session: Session, tasks: list[Task], fresh: bool, retry_failed: bool) -> tuple[list[Task], Estimate]:
    """Tasks to compute, and an estimate that knows what the others have taken."""
    store = session.store
    for task in tasks:
        if fresh or (retry_failed and _has_failed(store.read(task))):
            store.discard(task)
    if not fresh:
        session.take_over(tasks)
    estimate, todo = Estimate(), []
    for task in tasks:
        if (record := store.read(task)) is None:
            todo.append(task)
        else:
            estimate.learn(task, record)
    return todo, estimate


def _has_failed(record: dict[str, Any] | None) -> bool:
    return record is not None and record["status"] != "ok"


def _compute(session: Session, todo: list[Task], engine: Engine, estimate: Estimate, quiet: bool) -> None:
    executor = engine.executor(session.catalogue)
    with _terminable(), Progress(todo, engine.n_jobs, estimate, quiet) as progress:
        try:
            for task, record in session.run(todo, executor):
                progress.done(task, record)
        except KeyboardInterrupt:
            executor.stop()
            # These two have done their part when a run begins; given again, they would undo what is finished.
            again = [argument for argument in sys.argv[1:] if argument not in ("--fresh", "--retry-failed")]
            progress.say("interrupted; what is finished is saved. To go on:")
            progress.say(f"  {shlex.join(['opauc-bench', *again])}")
            raise
        except BaseException:
            executor.stop()
            raise


@contextmanager
def _terminable():
    """Let a polite kill save and explain like Ctrl-C."""

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


# ---------------------------------------------------------------------------------------------- tables


def print_report(session: Session, test: str | None = None, page: bool = False) -> None:
    """Print the table and the figures' numbers of what is recorded, and write the report.

    The page is written if it is asked for, or if there is one: it would not belong to the tables any more.
    """
    has_table = session.experiment.protocol.kind not in FIGURE_KINDS
    if page and not has_table:
        raise ConfigError(
            f"{session.experiment.path}: draws figures; the page is about tables", session.command("report")
        )
    if has_table:
        _print_table(session, test)
    if session.experiment.figures:
        _print_figures(session)
    write_folds(session.folder / "folds.csv", session.records())
    print(f"\nwritten to {session.folder}/")
    if page or (has_table and (session.folder / PAGE).is_file()):
        write_text(session.folder / PAGE, page_text(session, test))
        print(f"the page: {session.folder / PAGE}")


def _print_table(session: Session, test: str | None) -> None:
    table, comparison = build_report(session, test)
    shown, _ = build_report(session, test, chosen_only=True) if session.datasets or session.learners else (table, None)
    print(to_terminal(shown, width()).rstrip("\n"))
    if comparison is not None:
        print()
        sentences = [f"Beside {comparison.published.title}:", *comparison.summary().sentences()]
        print("\n".join(map(wrapped, [*sentences, "Cell by cell: opauc-bench compare, or comparison.md"])))
    write_report(session.folder, table, comparison)


def _print_figures(session: Session) -> None:
    if session.experiment.protocol.kind in FIGURE_KINDS:
        print(wrapped(session.experiment.title))
    for figure in figures_of(session, chosen_only=True):
        print()
        print(figure_to_terminal(figure, width()).rstrip("\n"))
    if not write_figures(session, figures_of(session)):
        say(f"{NO_MATPLOTLIB}\n  try: pip install 'opauc-bench[plots]' && {session.command('report')}")


def print_comparison(session: Session, test: str | None = None) -> None:
    """Print our values beside the published ones."""
    if session.experiment.protocol.kind in FIGURE_KINDS:
        raise ConfigError(f"{session.experiment.path}: draws figures, and there is no published table of them")
    table, comparison = build_report(session, test)
    if comparison is None:
        raise ConfigError(
            f"{session.experiment.path}: names no published table to compare with",
            "add e.g. 'report: {published: aij2016_table2}' to the config",
        )
    print(comparison_to_terminal(comparison, width()))
    write_report(session.folder, table, comparison)


# ---------------------------------------------------------------------------------------------- overviews


def describe_plan(session: Session, n_jobs: int) -> str:
    """What a run would do, as text."""
    from tabulate import tabulate

    n_jobs = 1 if session.experiment.protocol.exclusive else n_jobs
    tasks = session.tasks()
    estimate, todo, hopeless = Estimate(), defaultdict(list), []
    done, failed = Counter(), 0
    others = [Store(session.folder.parent / name) for name in session.experiment.reuse]
    for task in tasks:
        record = session.store.read(task)
        if record is None:
            found = (other.find(task) for other in others)
            record = next((record for record in found if record and record["status"] == "ok"), None)
        if record is None:
            (hopeless if session.is_hopeless(task) else todo[task.dataset]).append(task)
        else:
            done[task.dataset] += 1
            failed += _has_failed(record)
            estimate.learn(task, record)
    rows, missing, download = [], [], 0
    for dataset in dict.fromkeys(task.dataset for task in tasks):
        entry = session.catalogue[dataset]
        where = availability(entry, session.sources)
        size = download_size(entry, session.sources) if where == "download" else None
        download += size or 0
        left = todo[dataset]
        rows.append(
            [
                dataset,
                where + (f" {size / 1e6:.0f} MB" if size else ""),
                done[dataset],
                len(left),
                duration(estimate.seconds(left)) if left else "-",
                f"{max((task.memory_bytes for task in left), default=0) / 1e6:.0f} MB" if left else "-",
            ]
        )
        if where == "unavailable":
            missing.append(dataset)
    left = [task for tasks_left in todo.values() for task in tasks_left if task.dataset not in missing]
    headers = ["dataset", "data", "done", "to do", "CPU time", "memory/task"]
    cpu = estimate.seconds(left)
    notes = [
        f"{sum(done.values())} tasks done, {len(left)} to do: at most about {duration(cpu)} of CPU time, "
        f"{duration(cpu / n_jobs)} on {workers(n_jobs)}. Settings that overflow are dropped on the way, which often "
        "halves it; what has been measured corrects the estimate."
    ]
    notes += [f"{line}." for line in _not_there(session)] if left else []
    if failed:
        notes.append(f"{failed} of those done have failed: they are computed again with --retry-failed.")
    if download:
        notes.append(f"To download: {download / 1e6:.0f} MB.")
    if missing:
        notes.append(f"Not available here and now: {', '.join(missing)}.")
    notes += [f"It would not start: {line}." for line in _trouble_with_folds(session, set(todo))]
    notes += [f"{line}." for line in _too_large(session, left + hopeless)]
    if hopeless:
        notes.append(
            f"{len(hopeless)} tasks that need more than twice the memory there is are not counted here, and run leaves "
            "them out: raise limits.memory_gb if they fit."
        )
    table = tabulate(rows, headers, tablefmt="simple", colalign=("left", "left", *["right"] * 4))
    return "\n".join([*_heading(session), table, "", *map(wrapped, notes)])


def _too_large(session: Session, tasks: list[Task]) -> list[str]:
    """One sentence for each dataset and column whose tasks need more memory than they may use."""
    limit = session.experiment.limits.memory_gb
    allowed = f"limits.memory_gb allows {limit:g}" if limit else "this machine has"
    has = "" if limit else f" {session.memory_at_hand() / 1e9:.0f}"
    over = {
        (task.dataset, task.column): task.memory_bytes for task in tasks if task.memory_bytes > session.memory_at_hand()
    }
    return [
        f"{dataset} {column} needs about {size / 1e9:.1f} GB a task, {allowed}{has}"
        for (dataset, column), size in over.items()
    ]


def describe_status(session: Session) -> str:
    """What is recorded, as text."""
    from tabulate import tabulate

    records = session.records()
    rows = []
    for row in session.rows():
        cells = [row]
        for column in session.columns:
            tasks = records[row, column.key]
            failed = sum(_has_failed(record) for _, record in tasks)
            good = sum(record is not None for _, record in tasks) - failed
            cells.append(f"{good}/{len(tasks)}" + (f" !{failed}" if failed else ""))
        rows.append(cells)
    table = tabulate(rows, ["dataset", *(column.key for column in session.columns)], tablefmt="simple")
    failures = Counter(
        (task.row, task.column, record["status"], record["message"])
        for tasks in records.values()
        for task, record in tasks
        if record and record["status"] != "ok"
    )
    notes = ["!n: n tasks have failed"] if failures else []
    notes += [
        f"{row} {column}: {count} x {status}: {message}" for (row, column, status, message), count in failures.items()
    ]
    if stale := session.store.strangers([task for tasks in records.values() for task, _ in tasks]):
        notes.append(
            f"{len(stale)} records are of another definition (data, learner, grid or protocol have changed since) and "
            f"are not used, such as {stale[0]}"
        )
    return "\n".join([*_heading(session), table, *map(wrapped, notes)])


def _heading(session: Session) -> list[str]:
    return [wrapped(session.experiment.title), f"results: {session.folder}/", ""]
