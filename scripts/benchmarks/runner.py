"""What the runner itself costs, and how near its order of tasks comes to the best one."""

from __future__ import annotations

import heapq
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import scipy.linalg  # noqa: F401  compiled np.dot calls SciPy's BLAS, which has to be loaded to be limited

from opauc_bench.commands.recorded import Recorded, shapes_of
from opauc_bench.commands.session import Session
from opauc_bench.data import Sources, availability
from opauc_bench.plan import make_plan
from opauc_bench.results.record import Record
from opauc_bench.runner.engines import Engine
from opauc_bench.runner.limits import available_memory, exceeds_memory

EMPTY = '''
import numpy as np

from opauc_bench.learners import OnePassLearner


class Empty(OnePassLearner):
    """No work at all."""

    grid_axes = ("eta",)

    def __init__(self, eta=0.1):
        self.eta = eta

    def fit_grid(self, X, y, grid, *, order=None, on_chunk=None):
        return np.zeros((X.shape[1], len(grid["eta"])))
'''

EMPTY_CONFIG = """
title: Tasks with nothing in them
datasets: [wine]
learners: ["empty.py:Empty"]
grids: {{eta: [1]}}
protocol: {{trials: {trials}, folds: 5, inner_folds: 2}}
"""

REAL_CONFIG = """
title: Tasks of a second or so
datasets: [digits]
learners: [opauc, oam_gra]
grids: {{eta: {{pow2: [-12, 10]}}, lambda: {{pow2: [-10, 2]}}}}
protocol: {{trials: {trials}, folds: 5, inner_folds: 5}}
"""


# What the parent can ask for has the memory of workers in it, if they had more.
MEASURED = """
import atexit, resource, sys
from opauc_bench.cli import main
atexit.register(lambda: print("peak", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr))
main()
"""


class Cost(NamedTuple):
    """Of a run: seconds on the clock, CPU seconds with those of its workers, and peak MB, workers not counted."""

    wall: float
    cpu: float
    megabytes: float


def run_experiment(config: str, *options, **variables) -> Cost:
    """Run an experiment, and see what it costs."""
    command = [sys.executable, "-c", MEASURED, "run", config, "--quiet", *map(str, options)]
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=os.environ | variables)
    assert process.stderr is not None
    said = process.stderr.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"run {config} failed:\n{said}")
    own_kilobytes = int(said.rpartition("peak ")[2])
    return Cost(time.perf_counter() - start, usage.ru_utime + usage.ru_stime, own_kilobytes / 1e3)


def empty_tasks(count: int) -> None:
    """Time a few and many empty tasks; the difference is without the start of the workers."""
    print(f"Empty tasks (wine, {count} tasks):")
    for engine, options in (("loky", ()), ("dask", ("--backend", "dask"))):
        for jobs in (1, 2):
            costs = []
            for n in (count // 10, count):
                name = f"{engine}-{jobs}-{n}"
                Path(f"{name}.yaml").write_text(EMPTY_CONFIG.format(trials=n // 5))
                costs.append(run_experiment(f"{name}.yaml", "--jobs", jobs, *options))
            few, many = costs
            n = count - count // 10
            wall, cpu = n / (many.wall - few.wall), 1000 * (many.cpu - few.cpu) / n
            print(f"  {engine}, {jobs} workers: {wall:6.0f} a second, {cpu:.1f} ms of CPU time each", flush=True)


def many_tasks(count: int) -> None:
    """Peak memory of the runner's own process with very many tasks, and the time to see that they are all done."""
    Path("many.yaml").write_text(EMPTY_CONFIG.format(trials=count // 5))
    first, again = run_experiment("many.yaml", "--jobs", 2), run_experiment("many.yaml", "--jobs", 2)
    print(
        f"\n{count} tasks: {first.wall:.0f} s, {first.megabytes:.0f} MB in the runner's process; all done, seen in "
        f"{again.wall:.0f} s ({again.cpu:.0f} s of CPU time)",
        flush=True,
    )


def two_workers() -> None:
    """Wall-clock time of real tasks with one and with two workers, by turns: of a few, and what many more take."""
    sizes = {"few": 2, "many": 14}
    for name, trials in sizes.items():
        Path(f"{name}.yaml").write_text(REAL_CONFIG.format(trials=trials))
    run_experiment("few.yaml", "--jobs", 2, "--out", "warm")
    best = {(name, jobs): float("inf") for name in sizes for jobs in (1, 2)}
    for turn in range(2):
        for name, jobs in best:
            wall = run_experiment(f"{name}.yaml", "--jobs", jobs, "--out", f"{name}-{jobs}-{turn}").wall
            best[name, jobs] = min(best[name, jobs], wall)
    more = {jobs: best["many", jobs] - best["few", jobs] for jobs in (1, 2)}
    whole = {jobs: best["many", jobs] for jobs in (1, 2)}
    print(
        f"\n{10 * sizes['many']} real tasks: {whole[1]:.1f} s with one worker, {whole[2]:.1f} s with two, "
        f"{efficiency(whole):.2f} efficient; without start and end, {efficiency(more):.2f}",
        flush=True,
    )


def efficiency(seconds: dict[int, float]) -> float:
    return seconds[1] / (2 * seconds[2])


def schedules(config: Path) -> None:
    """End of the work when tasks of recorded lengths start in the runner's order, against the lower bound.

    The order goes by the estimates of ``plan``, as in a run, not by the recorded lengths.
    """
    session = Session.open(config, out=config.parents[1] / "results" / config.stem, sources=Sources.from_environment())
    recorded = Recorded.read(session)
    lengths = {record.id: _length(record) for _, record in recorded.pairs}
    if not lengths:
        print(f"\n{config.stem}: no records in {session.folder}/")
        return
    tasks = [task for task in {task.id: task for task in recorded.tasks}.values() if task.id in lengths]
    total, longest = sum(lengths.values()), max(lengths.values())
    print(f"\n{config.stem}: {len(tasks)} recorded tasks, {total / 3600:.1f} CPU hours, the longest {longest:.0f} s")
    for workers in (2, 64, 1000):
        bound = max(total / workers, longest)
        order = Engine(n_jobs=workers).ordered(tasks)
        end = makespan([lengths[task.id] for task in order], workers)
        print(f"  {workers:4d} workers: done after {end:6.0f} s, {end / bound:.2f} of the lower bound")


def planned_times(config: Path) -> None:
    """What ``plan`` says a table will cost on 2, 64 and 1,000 workers, from the learners' measured unit costs.

    As there, without datasets that are not available and tasks that need too much memory.
    """
    session = Session.open(config, sources=Sources.from_environment())
    memory = available_memory(session.experiment.limits.memory_bytes)
    shapes = {
        name: shape
        for name, shape in shapes_of(session, {}).items()
        if availability(session.catalogue[name], session.sources) != "unavailable"
    }
    planned = make_plan(session.experiment, shapes, session.columns)
    tasks = [task for task in planned if not exceeds_memory(task, memory)]
    total, longest = sum(task.seconds for task in tasks), max(tasks, key=lambda task: task.seconds)
    print(
        f"\n{config.stem}: {len(tasks)} tasks, {total / 3600:,.0f} CPU hours; "
        f"the longest, {longest.dataset} {longest.column}, {longest.seconds / 3600:.2f} h"
    )
    for workers in (2, 64, 1000):
        end = makespan([task.seconds for task in Engine(n_jobs=workers).ordered(tasks)], workers)
        print(f"  {workers:4d} workers: {end / 3600:,.2f} h")


def _length(record: Record) -> float:
    timing = record.timing
    selection = timing.wall_seconds if timing.selection_cpu_seconds is None else timing.selection_cpu_seconds
    return selection + (timing.fit_cpu_seconds or 0.0)


def makespan(lengths: Iterable[float], workers: int) -> float:
    """When the last task ends if each starts on the first worker that is free."""
    free = [0.0] * workers
    for seconds in lengths:
        heapq.heapreplace(free, free[0] + seconds)
    return max(free)


def runner(tasks: int, many: int, configs: list[Path]) -> None:
    """What the runner itself costs: tasks a second without work in them, memory, efficiency, and the order of tasks.

    Prints, for each engine, empty tasks a second; the memory of the runner with very many tasks; how much faster two
    workers are than one on real tasks; and for tasks as long as those on record, how near the order in which they are
    started comes to the best possible end on 2, 64 and 1,000 workers.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    configs = [config.resolve() for config in configs]
    if absent := [str(config) for config in configs if not config.is_file()]:
        raise SystemExit(f"no such file: {', '.join(absent)}")
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        Path("empty.py").write_text(EMPTY)
        print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n")
        empty_tasks(tasks)
        many_tasks(many)
        two_workers()
    for config in configs:
        schedules(config)
        planned_times(config)
