"""Which tasks an experiment has on the data of this machine, and which of them have records elsewhere."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ..plan import make_plan
from ..protocol import FIGURE_KINDS
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
        Those that the command line and the shard leave, in the order of computation.
    reusable : Records
        Records of other folders that stand for tasks without one.
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
    """Plan an experiment on the data of this machine; where a dataset is not ready, on what is known of it.

    Parameters
    ----------
    recorded : Recorded
    local : LocalData
        Its datasets are ready, or not.
    """
    session = recorded.session
    shapes = shapes_of(session, {**recorded.manifest.datasets, **local.facts()})
    selections, selected = Records(), {}
    if choosing := selecting_plan(session, shapes):
        selections = find_reusable(session.reuse, {task.id for task in choosing})
        selected = {task.place: record.selected for task in choosing if (record := selections.of(task))}
    tasks = make_plan(session.experiment, shapes, session.columns, selected)
    if session.shard:
        tasks = session.shard.choose(tasks, session.experiment)
    tasks = [
        task
        for task in tasks
        if (not session.datasets or task.dataset in session.datasets)
        and (not session.learners or task.column in session.learners)
    ]
    without = {task.id for task in tasks if recorded.records.of(task) is None and task.id is not None}
    return LocalPlan(tasks, find_reusable(session.reuse, without) if without else Records(), selections)


def selecting_plan(session: Session, shapes) -> list[Task]:
    """Tasks of the splits' own protocol that select the settings which a figure shows; none for other kinds."""
    protocol = session.experiment.protocol
    if not (protocol.kind in FIGURE_KINDS and protocol.chooses and session.experiment.reuse):
        return []
    choosing = session.experiment.model_copy(update={"protocol": protocol.splits})
    return make_plan(choosing, shapes, [column for column in session.columns if column.n_settings > 1])


def fold_problems(session: Session, local: LocalData, names: Iterable[str]) -> list[str]:
    """Say which datasets cannot be split: every part of a split has to have rows of both classes."""
    problems = []
    for name in dict.fromkeys(names):
        if name not in local.prepared:
            continue
        facts = local.prepared[name].manifest
        positive, negative = facts["n_positive"], facts["n_samples"] - facts["n_positive"]
        for _, protocol in session.experiment.protocol.cases():
            if trouble := protocol.trouble_with(positive, negative):
                problems.append(f"{name}: {trouble}")
    return problems


def memory_problems(session: Session, tasks: Iterable[Task], memory_bytes: float) -> list[str]:
    """Say which datasets and columns have tasks that need more memory than they may use."""
    limit = session.experiment.limits.memory_gb
    allowed = f"limits.memory_gb allows {limit:g}" if limit else f"this machine has {memory_bytes / 1e9:.0f}"
    over = {(task.dataset, task.column): task.memory_bytes for task in tasks if task.memory_bytes > memory_bytes}
    return [
        f"{dataset} {column} needs about {size / 1e9:.1f} GB per task, {allowed}"
        for (dataset, column), size in over.items()
    ]
