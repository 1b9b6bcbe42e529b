"""Experiments with learners that misbehave, and what tests read off a folder of results."""

from pathlib import Path

import pytest
from command_line import children, claims, wait_until
from folders import HEBB, key_of

from opauc_bench.results.record import record_of_line
from opauc_bench.results.store import Store

# They behave badly on real data; on the few columns of made-up data that load them, only some do.
LEARNERS = (
    HEBB
    + '''
import asyncio
import os
import sys
import threading
import time
from pathlib import Path


class Paused(OnData):
    def misbehave(self):
        time.sleep(0.03)


class Raises(Hebb):
    def behave(self, state, X):
        raise KeyError("no such thing")


class Cancels(Hebb):
    def behave(self, state, X):
        raise asyncio.CancelledError  # as KeyboardInterrupt, no Exception


class LeavesAThread(OnData):
    def misbehave(self):
        threading.Thread(target=time.sleep, args=(600,)).start()


class Edits(OnData):
    """Its file is another one from its first fit on real data on."""

    def misbehave(self):
        path = Path(__file__)
        if not path.read_text().endswith("# edited"):
            path.write_text(path.read_text() + "# edited")


class Exits(Hebb):
    def behave(self, state, X):
        sys.exit(7)


class Kills(Hebb):
    def behave(self, state, X):
        print("printed by a learner", flush=True)
        os.kill(os.getpid(), 9)


class Greedy(OnData):
    def misbehave(self):
        self.hoard = np.ones(2**27)


class Slow(OnData):
    def misbehave(self):
        time.sleep(1.1)


class Sleeps(OnData):
    def misbehave(self):
        time.sleep(600)


class Particular(Hebb):
    def behave(self, state, X):
        if X.shape[1] == 3:
            raise ValueError("three features are too few for me")


class Diverges(Hebb):
    def behave(self, state, X):
        state.W[:] = np.inf


class Unborn(Hebb):
    def __init__(self, eta=0.1, size=1):
        super().__init__(eta)
        self.size = size

    def _begin(self, n_features, settings):
        raise ValueError(f"size has to be at least 2, got {self.size}")


class Fragile(Hebb):
    def behave(self, state, X):
        if not Path(__file__).with_name("mended").exists():
            raise RuntimeError("broken")


class StumblesLate(Hebb):
    """Overflows on more than 100 rows where eta is 1."""

    def _begin(self, n_features, settings):
        state = super()._begin(n_features, settings)
        state.rows = 0
        return state

    def behave(self, state, X):
        state.rows += len(X)
        if state.rows > 100:
            state.W[:, state.settings["eta"] == 1.0] = np.nan


class StopsAtTheThird(Hebb):
    """Fails in the third pass over the data, and says which passes there were."""

    passes = 0

    def _begin(self, n_features, settings):
        type(self).passes += 1
        if type(self).passes == 3:
            raise RuntimeError("the third pass")
        return super()._begin(n_features, settings)
'''
)

PAUSED = """
title: Tasks of half a second
datasets: [wine]
learners: ["mine.py:Paused", uni_log]
grids: {eta: {pow2: [-8, 0, 4]}}
protocol: {trials: 4, folds: 3, inner_folds: 3}
"""

FAILING = """
title: Everything that can go wrong
datasets: [wine]
learners:
  - uni_squ
  - "mine.py:Raises"
  - "mine.py:Exits"
  - "mine.py:Cancels"
  - "mine.py:Greedy"
  - "mine.py:Slow"
  - "mine.py:Diverges"
  - {learner: "mine.py:Unborn", params: {size: 1}}
grids: {eta: [0.25, 0.5]}
protocol: {trials: 1, folds: 2, inner_folds: 2}
limits: {seconds: 2, memory_gb: 0.3}
"""

KILLING = """
title: A learner that ends its process
datasets: [wine]
learners: [uni_squ, "mine.py:Kills"]
grids: {eta: [0.25, 0.5]}
protocol: {trials: 1, folds: 2, inner_folds: 2}
"""

QUICK = """
title: Tasks of no time
datasets: [wine]
learners: [uni_log, uni_squ]
grids: {eta: [0.25, 0.5]}
protocol: {trials: 1, folds: 2, inner_folds: 2}
"""

TABLES = ["folds.csv", "table.csv", "table.html", "table.md", "table.tex"]


def tables(folder):
    return {name: (folder / name).read_bytes() for name in TABLES}


def written(folder):
    """Return the line of each record with its times: a record that was computed again has another one."""
    paths = [*folder.glob("records/*.jsonl"), *folder.glob("running/*.json")]
    lines = [line for path in paths for line in path.read_bytes().splitlines()]
    found = {key_of(record_of_line(line)): line for line in lines}
    assert len(found) == len(lines), "a record stands twice"
    return found


def changed(before, after):
    """Return the keys of records that are new or were computed again."""
    return {key for key, line in after.items() if before.get(key) != line}


def loose(folder):
    return sorted(path.stem for path in folder.glob("running/*.json"))


def slow_ones(folder):
    return [record for record in Store(folder).read().values() if record.column == "Paused"]


def leftovers(folder):
    """Return what a run that came to its end should have removed."""
    return [str(path) for path in (*folder.rglob("*.tmp"), *folder.glob("running"), *folder.glob("running/*"))]


def snapshot(folder):
    """Return all files with their contents, except for the lock, which every run takes."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


def wait_until_busy(process, folder, n_slow):
    """Wait until so many slow tasks are done and a worker of this very run is in the middle of another one."""
    wait_until(lambda: len(slow_ones(folder)) >= n_slow and set(claims(folder)) & set(children(process.pid)))


linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="/proc is needed to find processes")


def remove_lines(folder, *numbers):
    """Remove lines of the only packed file, counted from 0."""
    edit_lines(folder, dict.fromkeys(numbers, b""))


def edit_lines(folder, edits):
    """Replace lines of the only packed file by number; an empty text removes the line."""
    (path,) = folder.glob("records/*.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(edits.get(number, line) for number, line in enumerate(lines)))
