"""Which executor computes the tasks, as the command line specifies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..data import DatasetEntry
from ..errors import ConfigError
from ..task import Task

if TYPE_CHECKING:
    from .execute import Executor

__all__ = ["Engine", "workers"]

_BACKENDS = ("loky", "dask")
_FEW = 8


@dataclass(frozen=True)
class Engine:
    """A backend with its workers; ConfigError if it is unknown, or takes no scheduler."""

    backend: str = "loky"
    scheduler: str | None = None  # address of a Dask scheduler, which has its own workers
    n_jobs: int = 1  # worker processes on this machine

    def __post_init__(self):
        if self.backend not in _BACKENDS:
            raise ConfigError(f"--backend {self.backend}: expected {' or '.join(_BACKENDS)}")
        if self.scheduler is not None and self.backend != "dask":
            raise ConfigError("--scheduler is an address for Dask", f"--backend dask --scheduler {self.scheduler}")

    @property
    def title(self) -> str:
        """The workers, for a line of progress."""
        return f"the workers of {self.scheduler}" if self.scheduler else workers(self.n_jobs)

    def alone(self) -> Engine:
        """This engine with one worker on this machine, for tasks that measure time; ConfigError with a scheduler."""
        if self.scheduler is not None:
            raise ConfigError(f"{self.title} may run other work: times are measured on this machine only")
        return replace(self, n_jobs=1)

    def for_tasks(self, n_tasks: int) -> Engine:
        """This engine with no more workers on this machine than there are tasks."""
        return replace(self, n_jobs=max(1, min(self.n_jobs, n_tasks)))

    def ordered(self, tasks: list[Task]) -> list[Task]:
        """Tasks in the order in which they should start: with many workers, the longest first.

        With a few workers the cheap datasets come first, so that their rows are complete early.
        """
        few = self.scheduler is None and self.n_jobs <= _FEW
        return tasks if few else sorted(tasks, key=lambda task: -task.seconds)

    def executor(self, entries: dict[str, DatasetEntry]) -> Executor:
        """The executor; RunnerError if it is Dask's and Dask is not installed."""
        if self.backend == "dask":
            from .dask_engine import DaskExecutor

            return DaskExecutor(self.scheduler, self.n_jobs, entries)
        from .execute import LocalExecutor

        return LocalExecutor(self.n_jobs)


def workers(n_jobs: int) -> str:
    """A number of workers, for messages."""
    return "1 worker" if n_jobs == 1 else f"{n_jobs} workers"
