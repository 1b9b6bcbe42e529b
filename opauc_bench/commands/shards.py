"""One experiment on several machines without a common disk: each computes one shard of the tasks.

The shard of a task follows from its place in the experiment file alone, not from costs or finished tasks, so that all
machines agree on it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product

from ..config import Experiment
from ..errors import ConfigError
from ..task import Task

__all__ = ["Shard", "parse_shard"]


@dataclass(frozen=True)
class Shard:
    """The ``index``-th of ``count`` shards, counted from 1."""

    index: int
    count: int

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    @property
    def suffix(self) -> str:
        """Suffix of the name of the results folder."""
        return f".shard-{self.index}-of-{self.count}"

    def select(self, tasks: Iterable[Task], experiment: Experiment) -> list[Task]:
        """Return the tasks of this shard, in the order given."""
        places = product(experiment.datasets, experiment.columns, experiment.protocol.repetitions())
        numbers = {place: number for number, place in enumerate(places)}
        return [
            task
            for task in tasks
            if numbers[task.dataset, task.column, (task.trial, task.fold)] % self.count == self.index - 1
        ]


def parse_shard(text: str) -> Shard:
    """Read ``i/n``; ConfigError if it is anything else, or ``i`` is not in 1 ... ``n``."""
    found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text.strip())
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise ConfigError(f"--shard {text}: expected i/n with i from 1 to n", "--shard 1/4, then 2/4, 3/4 and 4/4")
    return Shard(int(found[1]), int(found[2]))
