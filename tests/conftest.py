"""The command line as the tests of the runner use it: with a cache of its own, without mirrors, 80 columns wide."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

# Kernels are compiled on their first call, and continuous integration is slow at times.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")

# Files that take minutes. They are begun first, so that no process is left alone with one at the end.
_LONG = ("contract", "dask", "cli", "limits", "runner", "page", "figure_runs", "frequent_directions", "docs", "holdout")


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


@pytest.fixture
def command(environment, monkeypatch, capsys):
    """Call the command line inside this process; anything but a regular end is an error of the test."""

    def call(*arguments, cwd: Path) -> subprocess.CompletedProcess:
        from opauc_bench.cli import main

        for name in [name for name in os.environ if name.startswith("OPAUC_BENCH_")]:
            monkeypatch.delenv(name)
        for name in ("OPAUC_BENCH_CACHE", "COLUMNS"):
            monkeypatch.setenv(name, environment[name])
        monkeypatch.chdir(cwd)
        monkeypatch.setattr(sys, "argv", ["opauc-bench", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        return subprocess.CompletedProcess(sys.argv, ended.value.code, *capsys.readouterr())

    return call
