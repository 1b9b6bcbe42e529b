"""``opauc-bench`` as tests run it: in its own process, or inside the process of the test."""

import contextlib
import functools
import io
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer.main

# The commands are the same each time, and typer builds all of them again for each call.
_get_command = functools.cache(typer.main.get_command)


class Bench:
    """``opauc-bench`` in a process of its own."""

    def __init__(self, environment: dict[str, str]):
        self.environment = environment

    def start(
        self,
        *arguments,
        cwd: Path,
        prefix=(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) -> subprocess.Popen:
        """Start a command in its own process group, after the words of ``prefix``."""
        return subprocess.Popen(
            [*prefix, sys.executable, "-m", "opauc_bench", *map(str, arguments)],
            cwd=cwd,
            env=self.environment,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            text=True,
            start_new_session=True,
        )

    def __call__(self, *arguments, cwd: Path, exits: int | None = None) -> subprocess.CompletedProcess:
        """Run a command to its end; its exit code has to be ``exits``, if that is given."""
        process = self.start(*arguments, cwd=cwd)
        try:
            out, err = process.communicate(timeout=300)
        except BaseException:
            process.kill()
            raise
        assert "Traceback" not in err, err
        return _ended(process.args, process.returncode, out, err, exits)


class Command:
    """``opauc-bench`` inside this process; an unforeseen exception is an error of the test.

    Parameters
    ----------
    environment : dict of str to str
        Variables ``OPAUC_BENCH_*`` and ``COLUMNS`` are taken from here; others are those of this process.
    processes : bool
        Whether tasks are computed by worker processes.
    encoding : str
        Encoding of the terminal.
    """

    def __init__(self, environment: dict[str, str], processes: bool = False, encoding: str = "utf-8"):
        self.environment, self.processes, self.encoding = environment, processes, encoding

    def __call__(self, *arguments, cwd: Path, exits: int | None = None) -> subprocess.CompletedProcess:
        """Run a command to its end; its exit code has to be ``exits``, if that is given."""
        from opauc_bench.cli import main
        from opauc_bench.runner.execute import LocalExecutor

        out, err = (io.TextIOWrapper(io.BytesIO(), encoding=self.encoding, newline="") for _ in range(2))
        with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            for name in [name for name in os.environ if name.startswith("OPAUC_BENCH_")]:
                patch.delenv(name)
            for name, value in self.environment.items():
                if name.startswith("OPAUC_BENCH_") or name == "COLUMNS":
                    patch.setenv(name, value)
            patch.chdir(cwd)
            patch.setattr(sys, "argv", ["opauc-bench", *map(str, arguments)])
            patch.setattr(typer.main, "get_command", _get_command)
            replaced_by_test = LocalExecutor.run.__module__ != LocalExecutor.__module__
            if not self.processes and not replaced_by_test:
                patch.setattr(LocalExecutor, "run", _compute_in_this_process)
            with pytest.raises(SystemExit) as ended:
                main()
        return _ended(arguments, ended.value.code, _text_of(out), _text_of(err), exits)


@contextlib.contextmanager
def undrawn():
    """Let reports write only the numbers of figures, as without matplotlib: drawing takes longer than most tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("opauc_bench.commands.reports.find_spec", lambda name: None)
        yield


def wait_until(condition, seconds=100.0):
    """Return the first true value of ``condition``."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.005)
    raise AssertionError("it did not happen in time")


def parent_of(pid: int) -> int | None:
    """The parent of a process; None if it has ended."""
    try:
        state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    except OSError:
        return None
    return None if state == "Z" else int(parent)


def children(pid: int) -> list[int]:
    return [int(path.name) for path in Path("/proc").glob("[0-9]*") if parent_of(int(path.name)) == pid]


def claims(folder: Path) -> list[int]:
    """The process ids of the workers that are in the middle of a task."""
    found = []
    for path in folder.glob("running/*.claim"):
        with contextlib.suppress(FileNotFoundError):
            found.append(json.loads(path.read_text())["pid"])
    return found


def _ended(arguments, code: int, out: str, err: str, exits: int | None) -> subprocess.CompletedProcess:
    assert exits in (None, code), f"exit code {code}, expected {exits}:\n{out}\n{err}"
    return subprocess.CompletedProcess(arguments, code, out, err)


def _text_of(stream: io.TextIOWrapper) -> str:
    stream.flush()
    return stream.buffer.getvalue().decode()


def _compute_in_this_process(executor, tasks, config):
    """Stand-in for ``LocalExecutor.run`` that starts no process."""
    from opauc_bench.runner import worker

    worker._dataset.cache_clear()  # a new process has mapped nothing yet
    for task in tasks:
        yield task, worker.run_task(task, config)
