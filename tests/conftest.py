"""The command line as tests use it: with its own cache, without mirrors, 80 columns wide.

Most tests call it inside the test process, and tasks are computed there as well. Tests of processes use `bench`, or the
marker ``processes``. The marker ``faults`` is for fault injection: kills, limits, clusters, fuzzing, full disks.
"""

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path

# One BLAS thread per process, as in a worker; it has to be set before NumPy is imported.
for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import pytest  # noqa: E402
from hypothesis import settings  # noqa: E402

# Without a deadline: kernels are compiled on their first call, and continuous integration is slow at times.
settings.register_profile("quick", deadline=None, max_examples=25)
settings.register_profile("thorough", deadline=None, max_examples=100)
settings.load_profile("quick")

# Files that take longest. They are begun first, so that no process is left alone with one at the end.
_LONG = ("contract", "dask", "cli", "limits", "runner", "page", "figure_runs", "frequent_directions", "docs", "holdout")


def pytest_configure(config):
    if config.getoption("markexpr") == "faults" and not config.getoption("--hypothesis-profile"):
        settings.load_profile("thorough")


def pytest_collection_modifyitems(items):
    ranks = {f"test_{name}": rank for rank, name in enumerate(_LONG)}
    items.sort(key=lambda item: ranks.get(item.path.stem, len(ranks)))


@pytest.fixture(scope="session")
def environment(tmp_path_factory) -> dict[str, str]:
    """Variables for a command: nothing of this machine's own datasets or settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OPAUC_BENCH_", "COVERAGE"))}
    return kept | {
        "OPAUC_BENCH_CACHE": str(tmp_path_factory.mktemp("cache")),
        "COLUMNS": "80",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
    }


class Bench:
    """``opauc-bench`` in a process of its own."""

    def __init__(self, environment: dict[str, str]):
        self.environment = environment

    def start(self, *arguments, cwd: Path) -> subprocess.Popen:
        """Start a command in its own process group."""
        return subprocess.Popen(
            [sys.executable, "-m", "opauc_bench", *map(str, arguments)],
            cwd=cwd,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def __call__(self, *arguments, cwd: Path) -> subprocess.CompletedProcess:
        """Run a command to its end."""
        process = self.start(*arguments, cwd=cwd)
        try:
            out, err = process.communicate(timeout=300)
        except BaseException:
            process.kill()
            raise
        assert "Traceback" not in err, err
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)


@pytest.fixture(scope="session")
def bench(environment) -> Bench:
    return Bench(environment)


class Command:
    """``opauc-bench`` inside this process; an unforeseen exception is an error of the test.

    Parameters
    ----------
    environment : dict of str to str
        Variables ``OPAUC_BENCH_*`` and ``COLUMNS`` are taken from here; others are those of this process.
    processes : bool
        Whether tasks are computed by worker processes.
    """

    def __init__(self, environment: dict[str, str], processes: bool = False):
        self.environment, self.processes = environment, processes

    def __call__(self, *arguments, cwd: Path) -> subprocess.CompletedProcess:
        """Run a command to its end."""
        from opauc_bench.cli import main
        from opauc_bench.runner.execute import LocalExecutor

        out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="") for _ in range(2))
        with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            for name in [name for name in os.environ if name.startswith("OPAUC_BENCH_")]:
                patch.delenv(name)
            for name, value in self.environment.items():
                if name.startswith("OPAUC_BENCH_") or name == "COLUMNS":
                    patch.setenv(name, value)
            patch.chdir(cwd)
            patch.setattr(sys, "argv", ["opauc-bench", *map(str, arguments)])
            replaced_by_test = LocalExecutor.run.__module__ != LocalExecutor.__module__
            if not self.processes and not replaced_by_test:
                patch.setattr(LocalExecutor, "run", _compute_in_this_process)
            with pytest.raises(SystemExit) as ended:
                main()
        return subprocess.CompletedProcess(arguments, ended.value.code, _text_of(out), _text_of(err))


def _text_of(stream: io.TextIOWrapper) -> str:
    stream.flush()
    return stream.buffer.getvalue().decode()


def _compute_in_this_process(executor, tasks, workplace):
    """Stand-in for ``LocalExecutor.run`` that starts no process."""
    from opauc_bench.runner import worker

    worker._dataset.cache_clear()  # a new process has mapped nothing yet
    for task in tasks:
        yield task, worker.run_task(task, workplace)


@pytest.fixture(scope="session")
def invoke(environment) -> Command:
    """``opauc-bench`` inside this process, for fixtures that several tests share."""
    return Command(environment)


@pytest.fixture
def command(environment, request) -> Command:
    """``opauc-bench`` inside this process."""
    return Command(environment, processes=request.node.get_closest_marker("processes") is not None)
