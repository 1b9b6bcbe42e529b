"""``plan`` and ``status``: the work of a run, and the state of its records; both only read."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from shlex import quote
from typing import Any

from ..data import DatasetEntry, availability, download_size, foreign_files, has_changed_files
from ..learners import ESTIMATOR, get_learner
from ..report.grid_edges import Edges, edge_notes, wider_grids
from ..report.titles import plain_title
from ..results.reuse import absent_folders, beside
from ..results.store import Store
from ..runner.engines import workers
from ..runner.limits import available_memory, exceeds_memory
from ..task import Task
from .local_data import LocalData
from .planning import (
    LocalPlan,
    fold_problems,
    kept_notes,
    left_out_cases,
    measure_estimators,
    memory_problems,
    plan_locally,
)
from .progress import Estimate
from .recorded import Recorded
from .session import Session, shell_command
from .terminal import counted, duration_text, folded_table, megabytes, say, table_text, wrapped

__all__ = ["describe_plan", "describe_status"]


@dataclass
class _Work:
    """The tasks of a plan: those with a record, those without one, and those that need too much memory."""

    done: Counter[str] = field(default_factory=Counter)  # by dataset
    failed: int = 0  # of those done
    todo: dict[str, list[Task]] = field(default_factory=lambda: defaultdict(list))  # by dataset
    too_large: list[Task] = field(default_factory=list)

    @classmethod
    def of(cls, plan: LocalPlan, recorded: Recorded, memory: float) -> _Work:
        work = cls()
        for task in plan.tasks:
            record = plan.done(task, recorded)
            if record is not None:
                work.done[task.dataset] += 1
                work.failed += not record.ok
            elif exceeds_memory(task, memory):
                work.too_large.append(task)
            else:
                work.todo[task.dataset].append(task)
        return work

    def cost_of(self, dataset: str, estimate: Estimate) -> list[Any]:
        """Tasks done, tasks to do, CPU time and memory of one, for a row of the table."""
        if not (left := self.todo[dataset]):
            return [self.done[dataset], 0, "-", "-"]
        memory = max(task.memory_bytes for task in left)
        return [self.done[dataset], len(left), duration_text(estimate.seconds(left)), f"{memory / 1e6:.0f} MB"]

    def about_failed(self) -> list[str]:
        """A note on tasks whose record is a failure, if there are any."""
        again = "--retry-failed computes them again"
        return [f"{self.failed} of the done tasks have failed: {again}."] if self.failed else []

    def about_too_large(self) -> list[str]:
        """A note on tasks that run leaves out, if there are any."""
        if not self.too_large:
            return []
        return [
            f"{len(self.too_large)} tasks that need more than twice the available memory are not counted here, and run "
            "leaves them out: raise limits.memory_gb if they fit."
        ]


def describe_plan(session: Session, n_jobs: int) -> str:
    """Describe the work of a run; raises as `Session.require_all`."""
    session.require_all()
    n_jobs = 1 if session.experiment.protocol.exclusive else n_jobs
    recorded = Recorded.read(session)
    local = LocalData(session.catalogue, replace(session.sources, keeps=True))
    local.find(session.experiment.datasets)
    without_size = _prepare_unknown(session, recorded, local)
    checked = {name: fold_problems(session, local, [name]) for name in session.datasets}
    impossible = {name: problems for name, problems in checked.items() if problems}
    plan = plan_locally(recorded, local, impossible)
    if measure_estimators(session, local, (task for task in plan.tasks if plan.done(task, recorded) is None)):
        plan = plan_locally(recorded, local, impossible)
    memory = available_memory(session.experiment.limits.memory_bytes)
    estimate = plan.estimate(recorded)
    work = _Work.of(plan, recorded, memory)
    planned = dict.fromkeys(task.dataset for task in plan.tasks)
    without_size = [name for name in without_size if name not in planned]  # folders under reuse may know it
    entries = {name: session.catalogue[name] for name in (*planned, *without_size, *impossible)}
    where = {name: availability(entry, session.sources) for name, entry in entries.items()}
    sizes = {name: download_size(entries[name], session.sources) for name in entries if where[name] == "download"}
    rows = []
    for name, found in where.items():
        data = f"{found} {megabytes(size)}" if (size := sizes.get(name)) else found
        unknown = name in without_size or name in impossible
        cost: list[Any] = [0, "?", "?", "?"] if unknown else work.cost_of(name, estimate)
        rows.append([name, data, *cost])
    headers = ["dataset", "data", "done", "to do", "CPU time", "memory/task"]
    table = table_text(rows, headers, colalign=("left", "left", *["right"] * 4))
    missing = [name for name, found in where.items() if found == "unavailable"]
    left = [task for tasks in work.todo.values() for task in tasks if task.dataset not in missing]
    cpu = estimate.seconds(left)
    notes = [
        f"{work.done.total()} tasks done, {len(left)} to do: at most about {duration_text(cpu)} of CPU time, "
        f"{duration_text(cpu / n_jobs)} on {workers(n_jobs)}. Settings that overflow are dropped during the pass, "
        "which often halves it; measured times correct the estimate of their column.",
        *_without_cost(local, estimate, left),
        *([f"{line}." for line in absent_folders(session.reuse)] if left else []),
        *session.changed_versions(),
        *work.about_failed(),
        *_data_notes(local, entries, sizes, without_size, missing),
        *(f"Damaged, to be computed again: {damage}." for damage in recorded.records.damaged),
        *(f"{line}." for line in kept_notes(local, left)),
        *left_out_cases(recorded, local),
        *(f"It would not start: {line}." for problems in impossible.values() for line in problems),
        *(f"{line}." for line in memory_problems(session, left + work.too_large, memory)),
        *_wider_grids(recorded),
        *work.about_too_large(),
    ]
    return "\n".join([*_heading(session), table, "", *map(wrapped, notes)])


def _data_notes(
    local: LocalData,
    entries: Mapping[str, DatasetEntry],
    sizes: Mapping[str, int | None],
    without_size: Sequence[str],
    missing: Sequence[str],
) -> list[str]:
    """Notes on what a run would download, and on data that are not here or are others."""
    notes = [f"To download: {_download(sizes)}."] if sizes else []
    notes += [line for text in local.absences() for line in text.splitlines()]
    notes += [
        f"{name}: {line}. run reads the file of this experiment."
        for name, entry in entries.items()
        if name not in local.prepared
        for line in foreign_files(entry, local.sources)
    ]
    if without_size:
        notes.append(
            f"Not counted, since rows and features are known after the download only: {', '.join(without_size)}. "
            "n_samples and n_features in the catalogue tell them before it."
        )
    return [*notes, *([f"Unavailable: {', '.join(missing)}."] if missing else [])]


def _prepare_unknown(session: Session, recorded: Recorded, local: LocalData) -> list[str]:
    """Prepare files of this machine whose size is not known; return the datasets whose size a download will tell."""
    after_download = []
    for dataset in session.experiment.datasets:
        entry = session.catalogue[dataset]
        known = dataset in local.prepared or dataset in recorded.known_datasets
        unknown = not known and not (entry.n_samples and entry.width)
        if has_changed_files(entry, session.sources) or (
            unknown and availability(entry, session.sources) != "download"
        ):
            local.prepare(dataset, say)  # rows and features of own files are counted
        elif unknown and dataset in session.datasets:
            after_download.append(dataset)
    return after_download


def _without_cost(local: LocalData, estimate: Estimate, tasks: list[Task]) -> list[str]:
    """A note on classifiers whose fits are not measured, because the data are not there yet."""
    found = [
        task
        for task in tasks
        if task.learner == ESTIMATOR and task.dataset not in local.prepared and not estimate.has_measured(task.column)
    ]
    if not found:
        return []
    datasets: dict[str, set[str]] = defaultdict(set)
    for task in found:
        datasets[task.column].add(task.dataset)
    without = "; ".join(f"{column} on {', '.join(sorted(names))}" for column, names in datasets.items())
    return [
        f"That is without {without}: fits of classifiers are measured on prepared data, and opauc-bench data fetch "
        "prepares them."
    ]


def _download(sizes: Mapping[str, int | None]) -> str:
    """What is to be downloaded, from the bytes of each dataset, where they are known."""
    total = sum(filter(None, sizes.values()))
    unknown = [name for name, size in sizes.items() if size is None]
    parts = [megabytes(total)] * bool(total) + [f"{', '.join(unknown)} of unknown size"] * bool(unknown)
    return ", and ".join(parts)


def _wider_grids(recorded: Recorded) -> list[str]:
    """Wider grids for the columns whose selected settings lie at an edge, a line per axis."""
    columns = recorded.session.columns
    estimators = {column.key: column.estimator for column in columns if column.learner == ESTIMATOR}
    constraints = {
        column.key: get_learner(column.learner).constraints() for column in columns if column.learner != ESTIMATOR
    }

    def accepts(key: str, axis: str, value: float) -> bool:
        if key in estimators:
            return estimators[key].accepts(axis, value)
        return constraints[key][axis].accepts(value)

    wider = wider_grids(
        _selected_edges(recorded),
        {column.key: column.grid for column in columns},
        integer_axes=lambda key: estimators[key].integer_axes() if key in estimators else (),
        accepts=accepts,
    )
    return [
        f"At an edge of the grid (see status); a wider one for {', '.join(keys)}: {axis}"
        for axis, keys in wider.items()
    ]


def describe_status(session: Session) -> tuple[str, bool]:
    """Describe the recorded tasks, and return whether all records can be read."""
    recorded = Recorded.read(session)
    rows = []
    experiment, learners = session.experiment, session.learners
    n_repetitions = experiment.protocol.n_repetitions
    known = recorded.known_datasets
    for row, dataset in experiment.rows.items():
        if dataset not in session.datasets:
            continue
        cells = [row]
        for learner in learners:
            pairs = recorded.cells[row, learner]
            finished = sum(record is not None and record.ok for _, record in pairs)
            failed = sum(record is not None and not record.ok for _, record in pairs)
            expected = len(pairs) if dataset in known else n_repetitions
            cells.append(f"{finished}/{expected}" + (f" !{failed}" if failed else ""))
        rows.append(cells)
    table = folded_table(rows, ["dataset", *learners])
    failures = Counter(
        (task.row, task.column, record.status, record.message)
        for task, record in recorded.pairs
        if not record.ok and session.selects(task)
    )
    notes = ["!n: n tasks have failed"] if failures else []
    notes += [
        f"{row} {column}: {count} x {status}: {message}" for (row, column, status, message), count in failures.items()
    ]
    at_edges = edge_notes(_selected_edges(recorded), experiment.rows, learners, experiment.protocol.runs)
    notes += [f"{column}: {note}" for column, found in at_edges.items() for note in found]
    run, folder = shell_command(session, "run"), quote(str(session.folder))
    if unavailable := sorted(set(recorded.manifest.datasets).intersection(session.datasets) - known):
        notes.append(f"unavailable in the last run: {', '.join(unavailable)}; {run} tries again")
    if recorded.lacks_manifest:
        notes.append(
            f"{counted(len(recorded.records), 'record')}, but no manifest.json, which says what they belong to: {run} "
            "writes it again, and computes only what has no record"
        )
    elif orphaned := recorded.orphaned:
        notes.append(
            f"{counted(len(orphaned), 'record')} orphaned and not used, since the experiment, its data or a learner "
            f"has changed: such as {orphaned[0].label}; after {run}, or {shell_command(session, 'report', '--write')} "
            f"where nothing is left to compute, opauc-bench pack {folder} --prune removes them"
        )
    loose = counted(len(recorded.records.loose), "record")
    if owner := Store(session.folder).at_work():
        notes.append(f"a run (process {owner}) is at work in this folder: {loose} not packed yet")
    elif recorded.records.loose:
        notes.append(f"{loose} of an interrupted run not packed: {run} continues it, or opauc-bench pack {folder}")
    if again := recorded.records.again.intersection(task.id for task, _ in recorded.pairs if task.id):
        notes.append(f"{counted(len(again), 'record')} to be computed again, as an interrupted run was to do: {run}")
    for name, count in recorded.missing_references().items():
        other = beside(session.folder, name)
        records = counted(count, "record")
        notes.append(f"{records} missing in {other}/, to which this folder refers: {run} computes them here")
    notes += recorded.lacking_metrics()
    notes += recorded.changed_data() + session.changed_versions()
    damaged = recorded.records.damaged
    if damaged:
        notes += [f"damaged: {damage}" for damage in damaged] + [f"{run} computes damaged records again"]
    return "\n".join([*_heading(session), table, *map(wrapped, notes)]), not damaged


def _selected_edges(recorded: Recorded) -> Edges:
    """The edges of what the command line selects."""
    session = recorded.session
    return {
        (row, column): found
        for (row, column), found in recorded.edges.items()
        if session.experiment.rows[row] in session.datasets and column in session.learners
    }


def _heading(session: Session) -> list[str]:
    return [wrapped(plain_title(session.experiment.title)), f"results: {session.folder}/", ""]
