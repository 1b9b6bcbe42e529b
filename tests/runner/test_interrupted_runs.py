"""Runs that are killed, interrupted and resumed: nothing is lost, and the tables are the same."""

import ctypes
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest
from command_line import children, claims, parent_of, wait_until
from folders import contents
from runs import QUICK, changed, leftovers, linux, loose, slow_ones, snapshot, tables, wait_until_busy, written

from opauc_bench.runner.execute import LocalExecutor


def test_records_do_not_depend_on_the_number_of_workers(command, place, undisturbed):
    command("run", "paused.yaml", "--offline", "--jobs", 1, "--out", "one", cwd=place, exits=0)
    assert tables(place / "one") == tables(undisturbed)
    assert contents(place / "one") == contents(undisturbed)


@pytest.mark.faults
@linux
def test_killed_worker_costs_no_record(bench, place, undisturbed):
    folder = place / "worker"
    process = bench.start("run", "paused.yaml", "--offline", "--jobs", 2, "--out", folder, cwd=place)
    (worker, *_) = wait_until(lambda: slow_ones(folder) and claims(folder))
    assert parent_of(worker) == process.pid
    os.kill(worker, signal.SIGKILL)
    _, err = process.communicate(timeout=100)
    assert process.returncode == 0, err
    assert "Traceback" not in err
    assert tables(folder) == tables(undisturbed)
    assert contents(folder) == contents(undisturbed)
    assert leftovers(folder) == []


@pytest.mark.faults
@linux
def test_run_killed_repeatedly_and_started_again_gives_the_same_tables_and_records(bench, command, place, undisturbed):
    folder, moments, orphans = place / "again", random.Random(2016), []
    for _ in range(3):
        target = len(slow_ones(folder)) + moments.randrange(2)
        process = bench.start("run", "paused.yaml", "--offline", "--jobs", 2, "--out", folder, cwd=place)
        wait_until_busy(process, folder, target)
        time.sleep(moments.uniform(0.0, 0.15))
        orphans += children(process.pid)
        process.kill()
        process.communicate()
        assert target <= len(slow_ones(folder)) < 12
    assert len(orphans) >= 6
    wait_until(lambda: not any(parent_of(orphan) for orphan in orphans))
    before = written(folder)
    assert len(loose(folder)) == len(before), "nothing is packed before a run ends"
    done = command("run", "paused.yaml", "--offline", "--jobs", 2, "--out", folder, cwd=place, exits=0)
    assert f"{len(before)} records of an interrupted run kept" in done.stderr
    assert f"{24 - len(before)} of 24 tasks to compute" in done.stderr
    after = written(folder)
    assert len(after) == 24
    assert changed(before, after) == after.keys() - before.keys()
    assert tables(folder) == tables(undisturbed)
    assert contents(folder) == contents(undisturbed)
    assert leftovers(folder) == []


@pytest.mark.faults
def test_ctrl_c_saves_finished_records_and_prints_the_command_to_continue(bench, command, place, undisturbed):
    folder = place / "in two words"
    process = bench.start("run", "paused.yaml", "--offline", "--fresh", "--jobs", 2, "--out", "in two words", cwd=place)
    wait_until(lambda: slow_ones(folder) and claims(folder))
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=100)
    before = written(folder)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert 0 < len(slow_ones(folder)) < 12
    assert "interrupted; finished tasks are saved" in err
    (line,) = [line.strip() for line in err.splitlines() if line.startswith("  opauc-bench run")]
    resume = shlex.split(line)[1:]
    assert resume == ["run", "paused.yaml", "--offline", "--jobs", "2", "--out", "in two words"]
    assert len(loose(folder)) == len(before)
    status = command("status", "paused.yaml", "--out", "in two words", cwd=place)
    assert re.search(rf"\b{len(before)} records? of an interrupted run not packed", " ".join(status.stdout.split()))
    command(*resume, cwd=place, exits=0)
    after = written(folder)
    assert len(after) == 24
    assert changed(before, after) == after.keys() - before.keys()
    assert tables(folder) == tables(undisturbed)
    assert contents(folder) == contents(undisturbed)
    assert leftovers(folder) == []


@pytest.mark.faults
@linux
def test_records_stay_until_a_fresh_run_has_replaced_them(bench, command, place, undisturbed):
    folder = place / "replaced"
    shutil.copytree(undisturbed, folder)
    before = written(folder)
    process = bench.start("run", "paused.yaml", "--offline", "--fresh", "--jobs", 2, "--out", folder, cwd=place)
    wait_until(lambda: loose(folder) and claims(folder))
    workers = children(process.pid)
    process.kill()
    process.communicate()
    wait_until(lambda: not any(parent_of(worker) for worker in workers))
    new = loose(folder)
    assert 0 < len(new) < 24
    assert contents(folder) == contents(undisturbed)
    left = 24 - len(new)
    status = " ".join(command("status", "paused.yaml", "--out", folder, cwd=place).stdout.split())
    assert f"{left} records to be computed again, as an interrupted run was to do" in status
    command("verify", folder, "--sample", 0, cwd=place, exits=0)
    done = command("run", "paused.yaml", "--offline", "--jobs", 2, "--out", folder, cwd=place, exits=0)
    assert f"{left} of 24 tasks to compute" in done.stderr
    assert f"note: {left} records computed again, since an interrupted run was to do so (rm " in done.stderr
    assert changed(before, written(folder)) == set(before)
    assert contents(folder) == contents(undisturbed)
    assert tables(folder) == tables(undisturbed)
    assert leftovers(folder) == []


@pytest.mark.parametrize("kept", ["loose", "loose and packed"])
def test_run_packs_loose_records_without_computing_them_again(desk, folder, command, idle, kept):
    """Either state is what a kill leaves: before the records are packed, or before the loose ones are removed."""
    before = snapshot(folder)
    for (*_, id), line in written(folder).items():
        (folder / "running").mkdir(exist_ok=True)
        (folder / f"running/{id}.json").write_bytes(line + b"\n")
    if kept == "loose":
        shutil.rmtree(folder / "records")
    idle()
    done = command("run", "quick.yaml", "--offline", cwd=desk, exits=0)
    assert "4 records of an interrupted run kept\n0 of 4 tasks to compute\n" in done.stderr
    assert snapshot(folder) == before
    assert leftovers(folder) == []


@pytest.mark.faults
@linux
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_workers_end_with_their_run_in_the_middle_of_tasks(bench, desk, hangups, how):
    (desk / "sleeps.yaml").write_text(QUICK.replace("uni_log, uni_squ", '"mine.py:Sleeps"'))
    process = bench.start("run", "sleeps.yaml", "--offline", "--jobs", 2, "--out", "out", cwd=desk)
    wait_until_busy(process, desk / "out", 0)
    workers = children(process.pid)
    process.send_signal(how)
    if how != signal.SIGKILL:  # as `timeout` does, to the process and to its group
        time.sleep(0.001)
        process.send_signal(how)
    _, err = process.communicate(timeout=100)
    wait_until(lambda: not any(parent_of(worker) for worker in workers))
    assert len(workers) >= 2
    assert "Traceback" not in err
    assert process.returncode == (-9 if how == signal.SIGKILL else 130)
    assert ("opauc-bench run sleeps.yaml" in err) == (how != signal.SIGKILL)


@pytest.mark.faults
@linux
def test_signal_that_another_thread_gets_ends_a_run(bench, desk):
    """As after Ctrl-Z, ``kill`` and ``fg``: any thread of a process that continues may take the signal."""
    (desk / "sleeps.yaml").write_text(QUICK.replace("uni_log, uni_squ", '"mine.py:Sleeps"'))
    process = bench.start("run", "sleeps.yaml", "--offline", "--jobs", 2, "--out", "thread", cwd=desk)
    wait_until_busy(process, desk / "thread", 0)
    other = max(int(thread) for thread in os.listdir(f"/proc/{process.pid}/task"))
    assert other != process.pid
    assert ctypes.CDLL(None).tgkill(process.pid, other, int(signal.SIGTERM)) == 0
    process.communicate(timeout=100)
    assert process.returncode == 130


@pytest.mark.faults
def test_ctrl_c_while_workers_are_starting_prints_no_traceback(bench, place):
    process = bench.start("run", "paused.yaml", "--offline", "--jobs", 2, "--out", "starting", cwd=place)
    line = ""
    while "tasks to compute" not in line:
        line = process.stderr.readline()
        assert line, "the run ended too soon"
    time.sleep(0.25)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=100)
    assert process.returncode == 130
    said = [line for line in err.splitlines() if line != "interrupted"]
    assert said[0] == "interrupted; finished tasks are saved. To continue:"
    assert len(said) == 2


INTERRUPTED = """
import itertools, signal
from concurrent.futures._base import _AcquireFutures
from opauc_bench.cli import main

enter, calls = _AcquireFutures.__enter__, itertools.count()


def acquire(self):
    enter(self)
    if next(calls) == 2:
        signal.raise_signal(signal.{name})


_AcquireFutures.__enter__ = acquire
main()
"""


@pytest.mark.faults
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_interrupted_while_it_holds_the_locks_of_futures_a_run_still_ends(environment, desk, name):
    program = [sys.executable, "-c", INTERRUPTED.format(name=name), "run", "quick.yaml", "--offline", "--jobs", "2"]
    done = subprocess.run(program, cwd=desk, env=environment, capture_output=True, text=True, timeout=100)
    assert done.returncode == 130, done.stderr
    assert "interrupted; finished tasks are saved" in done.stderr
    assert "Traceback" not in done.stderr


def test_executor_stopped_right_after_submitting_prints_nothing(monkeypatch):
    """loky's own thread would fail on a task that it first meets while it shuts down."""
    said = []
    monkeypatch.setattr(threading, "excepthook", said.append)
    executor = LocalExecutor(2)
    pool = executor._open(2)
    pool.submit(time.sleep, 0).result()
    asleep = [pool.submit(time.sleep, 600) for _ in range(4)]
    executor.stop()
    assert all(future.exception() for future in asleep)
    assert said == []
