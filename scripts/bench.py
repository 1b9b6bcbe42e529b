"""Benchmarks beside their targets: of kernels, batch learners, many features, sparse rows, streams, and the runner.

    python scripts/bench.py kernels|batch|highdim|sparse|stream|runner [OPTIONS]

Each has a description: ``python scripts/bench.py kernels --help``. Times are CPU times of one core, except
those of the runner. Each is a module in ``scripts/benchmarks``.
"""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.batch import batch
from benchmarks.highdim import HIGHDIM_LEARNERS, HIGHDIM_SHAPES, highdim
from benchmarks.kernels import DIMENSIONS, kernels
from benchmarks.runner import runner
from benchmarks.sparse import sparse_learners
from benchmarks.stream import STREAM_DATASETS, STREAM_PARTS, stream
from threadpoolctl import threadpool_limits

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, metavar="BENCHMARK")

    def add(name: str, function: Callable) -> argparse.ArgumentParser:
        about = inspect.getdoc(function)
        command = commands.add_parser(
            name,
            help=about.partition("\n")[0],
            description=about,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.set_defaults(function=function)
        return command

    of_kernels = add("kernels", kernels)
    of_kernels.add_argument("--dimensions", type=int, nargs="+", default=DIMENSIONS, help="numbers of features")
    add("batch", batch)
    of_highdim = add("highdim", highdim)
    of_highdim.add_argument(
        "names", nargs="*", metavar="SHAPE|LEARNER", choices=[*HIGHDIM_SHAPES, *HIGHDIM_LEARNERS], default=None
    )
    add("sparse", sparse_learners)
    of_stream = add("stream", stream)
    of_stream.add_argument("--parts", nargs="+", choices=STREAM_PARTS, default=STREAM_PARTS, help="what to measure")
    of_stream.add_argument(
        "--datasets",
        nargs="+",
        metavar="DATASET",
        choices=STREAM_DATASETS,
        default=[],
        help=f"of the comparison of AUCs (default: all): {', '.join(STREAM_DATASETS)}",
    )
    of_stream.add_argument("--vw-python", default=sys.executable, help="interpreter that has vowpalwabbit")
    of_stream.add_argument("--megabytes", type=int, nargs=2, default=(10, 1000), help="a small file and a large one")
    of_runner = add("runner", runner)
    of_runner.add_argument("--tasks", type=int, default=2000, help="empty tasks per timing")
    of_runner.add_argument("--many", type=int, default=100_000, help="empty tasks for the measurement of memory")
    of_runner.add_argument(
        "--configs",
        nargs="*",
        type=Path,
        default=[ROOT / "configs/table2.yaml"],
        help="of recorded results, for lengths",
    )
    given = vars(parser.parse_args())
    function = given.pop("function")
    if function in (runner, stream):  # their work is done in other processes
        function(**given)
    else:
        with threadpool_limits(1):
            function(**given)


if __name__ == "__main__":
    main()
