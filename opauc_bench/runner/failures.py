"""The records of tasks whose process ended before they did."""

from __future__ import annotations

from ..results.record import Record
from ..task import Task
from .limits import OVERTIME, overrun_in
from .warm_up import SECONDS_TO_LOAD, load_learner
from .worker import WorkerConfig, record_of, run_task

__all__ = ["failed_record", "lost_record", "overdue_record"]


def overdue_record(task: Task, config: WorkerConfig, trace: str | None) -> Record | None:
    """The record of a task that was ended together with its process; None if it ended for another reason."""
    overrun, limit = overrun_in(trace or "", run_task), config.seconds
    if overrun is None or limit is None:
        return None
    seconds = limit + OVERTIME
    message = f"time limit of {limit:g} s reached in {overrun.place}; its process had to be ended"
    if overrun.called == load_learner.__name__:
        seconds = limit + SECONDS_TO_LOAD
        message = f"its learner was not loaded within {seconds:g} s; its process had to be ended"
    return failed_record(task, "timeout", message, seconds)


def lost_record(task: Task) -> Record:
    """The record of a task whose worker process died twice, the second time with no other task running."""
    message = (
        "the worker process died twice on this task, the second time alone: most likely the system ran out of memory "
        "(see limits.memory_gb in the config), or the learner ended its process"
    )
    return failed_record(task, "error", message)


def failed_record(task: Task, status: str, message: str, seconds: float = 0.0) -> Record:
    """The record of a task whose process ended: how much memory it had is not known."""
    return record_of(task, {"status": status, "message": message}, seconds, 0)
