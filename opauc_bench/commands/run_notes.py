"""What ``run`` says before it computes, and when it is interrupted."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable
from pathlib import Path

from ..learners import ESTIMATOR
from ..results.store import Store
from ..runner.engines import Engine
from ..task import Task
from .planning import LocalPlan
from .progress import Estimate
from .recorded import Recorded
from .session import Session, shell_command
from .terminal import counted, duration_text

__all__ = [
    "folder_notes",
    "how_to_continue",
    "lost_metrics",
    "nothing_to_compute",
    "replaced_records",
    "time_needed",
    "without_scores",
]


def time_needed(session: Session, todo: list[Task], estimate: Estimate, engine: Engine, n_jobs: int) -> str:
    """How long it will take; costs of estimators are not known before one of their tasks has finished."""
    estimators = dict.fromkeys(task.column for task in todo if task.learner == ESTIMATOR)
    unknown = [column for column in estimators if not estimate.has_measured(column)]
    known = [task for task in todo if task.column not in unknown]
    longest = max(1.0, estimate.seconds(known) / n_jobs)  # not "up to 0 s"
    time = f", up to {duration_text(longest)} on {engine.title}" if known else ""
    measured = f"{shell_command(session, 'plan')} measures fits of {', '.join(unknown)}"
    return time + (f" without classifiers ({measured})" if unknown else "")


def folder_notes(before: Recorded) -> list[str]:
    """Notes on records of another experiment, and on damaged ones, in a folder that will be written to."""
    session, of = before.session, before.manifest.config_name
    notes = []
    if of != session.experiment.path.name:
        notes = [
            f"note: {session.folder}/ has the results of {of}: its records stay, but the manifest and the tables "
            f"become those of {session.experiment.path.name}"
        ]
    elif (
        not before.lacks_manifest
        and (orphaned := before.orphaned)
        and len(orphaned) == sum(1 for _ in before.records.own())
    ):
        notes = [
            f"note: {session.folder}/ has {counted(len(orphaned), 'record')} of "
            f"{before.manifest.experiment['title']!r}, and none of {session.experiment.path} as it is: they stay, but "
            "the manifest and the tables become its own"
        ]
    if dropped := before.records.again.difference(str(task.id) for task in before.tasks):
        notes.append(
            f"note: {counted(len(dropped), 'record')} that an interrupted run was to compute again: the experiment "
            "does not have their tasks any more, so they stay as they are"
        )
    return [*notes, *(f"damaged, to be computed again: {damage}" for damage in before.records.damaged)]


def replaced_records(before: Recorded, todo: Iterable[Task], fresh: bool) -> list[str]:
    """A note on records that are computed again by ``--fresh``, or since an interrupted run was to do so."""
    records = before.records
    of_todo = [task.id for task in todo if records.of(task) is not None]
    if fresh and of_todo:
        return [f"--fresh replaces {counted(len(of_todo), 'record')}, each when its task is done"]
    if left := records.again.intersection(filter(None, of_todo)):
        file = Store(before.session.folder).again_path
        return [
            f"{counted(len(left), 'record')} computed again, since an interrupted run was to do so "
            f"(rm {shlex.quote(str(file))} before a run keeps them)"
        ]
    return []


def lost_metrics(before: Recorded, todo: Iterable[Task]) -> list[str]:
    """A note on metrics that the command ``metrics`` has added to records that are computed again, if there are any."""
    replaced = [(task, record) for task in todo if (record := before.records.of(task)) is not None]
    lost = sorted(
        {name for task, record in replaced for name in record.metrics if name not in task.protocol.record_metrics}
    )
    if not lost:
        return []
    config = before.session.experiment.path.name
    return [
        f"{counted(len(replaced), 'record')} that are computed again lose {', '.join(lost)}, which 'opauc-bench "
        f"metrics' added: name them under metrics of the protocol in {config}, or add them again"
    ]


def without_scores(before: Recorded, plan: LocalPlan, todo: Iterable[Task]) -> list[str]:
    """A note on records that are taken over without the test scores that the protocol keeps, if there are any."""
    if not before.session.experiment.protocol.keeps_scores:
        return []
    due = {task.id for task in todo}
    taken = filter(None, (before.records.of(task) for task in plan.tasks if task.id not in due))
    n = sum(record.ok and not before.store_of(record).scores_path(record.id).is_file() for record in taken)
    missing = f"{counted(n, 'record')} without test scores (removed, or from before keep_scores was set)"
    return [f"{missing}; --fresh computes these again and keeps their scores"] if n else []


def nothing_to_compute(before: Recorded, plan: LocalPlan, n_too_large: int) -> str:
    """That all tasks which fit in memory have records, and from when these are."""
    dates = sorted(
        record.timing.finished[:10]
        for task in plan.tasks
        if (record := before.records.of(task)) is not None and record.timing.finished
    )
    since = f" from {dates[0]}" + (f" to {dates[-1]}" if dates[-1] != dates[0] else "") if dates else ""
    have = f"{len(plan.tasks) - n_too_large} have" if n_too_large else "all have"
    return (
        f"0 of {len(plan.tasks)} tasks to compute: {have} records{since} "
        "(--fresh computes them again, --out DIR elsewhere)"
    )


def how_to_continue() -> list[str]:
    """The command, or call, that continues an interrupted run."""
    said = "interrupted; finished tasks are saved"
    program = Path(sys.argv[0])
    if program.stem != "opauc-bench" and program.parent.name != "opauc_bench":  # `opauc_bench.run` from a script
        return [f"{said}: the same call continues"]
    # With these two, the next run would compute finished tasks again; without them, it computes what this one has left.
    again = [argument for argument in sys.argv[1:] if argument not in ("--fresh", "--retry-failed")]
    return [f"{said}. To continue:", f"  {shlex.join(['opauc-bench', *again])}"]
