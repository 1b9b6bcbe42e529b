"""The tasks of an experiment on the data of this machine, and their records in other folders."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ..plan import make_plan
from ..results.record import Record
from ..results.reuse import find_reusable
from ..results.store import Records
from ..task import Task
from .local_data import LocalData
from .recorded import Recorded, shapes_of
from .session import Session

__all__ = ["LocalPlan", "fold_problems", "memory_problems", "plan_locally", "selecting_plan"]


@dataclass
class LocalPlan:
    """Tasks on the data of this machine.

    Attributes
    ----------
    tasks : list of Task
        Those that the command line and the shard select, in the order of computation.
    reusable : Records
        Records of other folders that are reused for tasks without one.
    selections : Records
        Records of other folders whose selected setting is used.
    """

    tasks: list[Task]
    reusable: Records = field(default_factory=Records)
    selections: Records = field(default_factory=Records)

    def done(self, task: Task, recorded: Recorded) -> Record | None:
        """The record that a task has, here or in another folder."""
        return recorded.records.of(task) or self.reusable.of(task)


def plan_locally(recorded: Recorded, local: LocalData) -> LocalPlan:
    """Plan an experiment on the data of this machine; for datasets that are not prepared, on known or stated sizes."""
    session = recorded.session
    shapes = shapes_of(session, {**recorded.manifest.datasets, **local.facts()})
    selections, selected = Records(), {}
    if selecting := selecting_plan(session, shapes):
        selections = find_reusable(session.reuse, {task.id for task in selecting})
        selected = {task.place: record.selected for task in selecting if (record := selections.of(task))}
    tasks = make_plan(session.experiment, shapes, session.columns, selected)
    if session.shard:
        tasks = session.shard.select(tasks, session.experiment)
    tasks = [
        task
        for task in tasks
        if (not session.datasets or task.dataset in session.datasets)
        and (not session.learners or task.column in session.learners)
    ]
    without = {task.id for task in tasks if recorded.records.of(task) is None and task.id is not None}
    return LocalPlan(tasks, find_reusable(session.reuse, without) if without else Records(), selections)


def selecting_plan(session: Session, shapes) -> list[Task]:
    """Tasks of the protocol under ``splits`` that select the settings which are measured; none for other kinds."""
    protocol = session.experiment.protocol
    if not (protocol.shows_selected and session.experiment.reuse):
        return []
    selecting = session.experiment.model_copy(update={"protocol": protocol.splits})
    return make_plan(selecting, shapes, [column for column in session.columns if column.n_settings > 1])


def fold_problems(session: Session, local: LocalData, names: Iterable[str]) -> list[str]:
    """Which datasets the protocol cannot use, such as those too small for rows of both classes in every set."""
    problems = []
    for name in dict.fromkeys(names):
        if name not in local.prepared:
            continue
        facts = local.prepared[name].manifest
        positive, negative = facts["n_positive"], facts["n_samples"] - facts["n_positive"]
        for _, protocol in session.experiment.protocol.cases():
            if error := protocol.validation_error(positive, negative):
                problems.append(f"{name}: {error}")
    return problems


def memory_problems(session: Session, tasks: Iterable[Task], memory_bytes: float) -> list[str]:
    """Which datasets and columns have tasks that need more memory than they may use."""
    limit = session.experiment.limits.memory_gb
    allowed = f"limits.memory_gb allows {limit:g}" if limit else f"this machine has {memory_bytes / 1e9:.0f}"
    over = {(task.dataset, task.column): task.memory_bytes for task in tasks if task.memory_bytes > memory_bytes}
    return [
        f"{dataset} {column} needs about {size / 1e9:.1f} GB per task, {allowed}"
        for (dataset, column), size in over.items()
    ]
