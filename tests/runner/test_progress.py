"""Progress of a run: estimates of the time left, lines and bars."""

import dataclasses
import io
import os
import re
import sys
import time

import pytest
from folders import forge
from runs import QUICK

from opauc_bench.commands.progress import Estimate, Progress
from opauc_bench.commands.terminal import duration_text
from opauc_bench.learners import ESTIMATOR
from opauc_bench.results.environment import environment_id
from opauc_bench.results.record import make_record
from opauc_bench.results.store import Store
from opauc_bench.task import Task


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.4, "0 s"),
        (99.4, "99 s"),
        (99.6, "2 min"),
        (600, "10 min"),
        (5399, "90 min"),
        (5400, "1.5 h"),
        (86400, "24.0 h"),
        (172800, "2.0 d"),
        (1e6, "11.6 d"),
    ],
)
def test_durations_in_words(seconds, text):
    assert duration_text(seconds) == text


def planned(dataset, column, fold, seconds):
    return Task(dataset, column, column, 0, fold, "f" * 64, {"learner": column}, {}, {}, {}, seconds, 0.0)


def taken(task, seconds, status="ok"):
    """Return a record that took so many CPU seconds, or does not say so."""
    timing = {"selection_cpu_seconds": seconds * 0.75, "fit_cpu_seconds": seconds * 0.25} if seconds else {}
    outcome = {"kind": "sweep", "columns": {"auc": [0.5], "sparse_ratio": [0.0]}}
    content = {"status": status, "message": "why", "timing": timing, "outcome": outcome}
    return make_record(task, content, environment_id())


def test_column_that_takes_less_than_estimated_tells_little_elsewhere():
    estimate = Estimate()
    estimate.learn(planned("a", "x", 0, 10.0), taken(planned("a", "x", 0, 10.0), 1.0))
    assert estimate.seconds([planned("a", "x", 1, 30.0)]) == pytest.approx(3.0)
    assert estimate.seconds([planned("b", "x", 1, 30.0)]) == pytest.approx(15.0), "the column on another dataset"
    assert estimate.seconds([planned("a", "y", 1, 30.0)]) == pytest.approx(30.0), "another column of the dataset"


def test_estimate_is_corrected_by_finished_tasks_of_the_same_kind():
    estimate, slow, other = Estimate(), planned("a", "x", 1, 10.0), planned("b", "y", 1, 1.0)
    done = {kind: planned(*kind, 0, seconds) for kind, seconds in {("a", "x"): 10.0, ("b", "y"): 1.0}.items()}
    assert estimate.seconds([slow, other]) == 11.0
    estimate.learn(done["a", "x"], taken(done["a", "x"], 20.0))
    assert estimate.seconds([slow]) == pytest.approx(20.0)
    assert estimate.seconds([other]) == pytest.approx(2.0), "where other columns are slow, it may be the machine"
    estimate.learn(done["b", "y"], taken(done["b", "y"], 9.0, "timeout"))
    estimate.learn(done["b", "y"], taken(done["b", "y"], None))
    assert estimate.seconds([other]) == pytest.approx(2.0), "only finished tasks teach"
    estimate.learn(done["b", "y"], taken(done["b", "y"], 0.5))
    assert estimate.seconds([other]) == pytest.approx(0.5)


def test_plan_and_status_name_a_dataset_whose_size_is_not_known(desk, command):
    catalogue = '\ncatalogue: {far: {source: {svmlight: "http://127.0.0.1:9/x.svm"}}}\n'
    (desk / "quick.yaml").write_text(catalogue + QUICK.replace("[wine]", "[wine, far]"))
    said = "rows and features are known after the download only: far."
    done = command("plan", "quick.yaml", cwd=desk, exits=0)
    assert re.search(r"^far +download +0( +\?){3}$", done.stdout, re.MULTILINE)
    assert said in " ".join(done.stdout.split())
    assert "To download: far of unknown size." in done.stdout
    command("run", "quick.yaml", "--offline", cwd=desk, exits=3)
    assert said in " ".join(command("plan", "quick.yaml", cwd=desk, exits=0).stdout.split())
    assert "far" not in command("plan", "quick.yaml", "-d", "wine", cwd=desk, exits=0).stdout
    status = command("status", "quick.yaml", cwd=desk, exits=0).stdout
    assert re.search(r"^far +0/2 +0/2$", status, re.MULTILINE)
    assert "unavailable in the last run: far; opauc-bench run quick.yaml tries again" in status


def test_plan_and_run_estimate_a_dataset_alike_alone_and_with_others(desk, command):
    text = QUICK.replace("[wine]", "[wine, breast_cancer]")
    (desk / "quick.yaml").write_text(text)
    command("run", "quick.yaml", "--offline", "--dataset", "wine", cwd=desk, exits=0)
    folder = desk / "results/quick"
    for record in Store(folder).read().values():
        forge(folder, record, {"timing.fit_cpu_seconds": 4000.0})
    planned = re.compile(r"breast_cancer .* 4 +([\d.]+ .+?)  ")
    (alone,) = planned.findall(command("plan", "quick.yaml", "--offline", "-d", "breast_cancer", cwd=desk).stdout)
    assert planned.findall(command("plan", "quick.yaml", "--offline", cwd=desk).stdout) == [alone]
    assert alone.split()[1] in ("h", "d"), "a fold of the other dataset took an hour"
    done = command("run", "quick.yaml", "--offline", "--jobs", 1, "-d", "breast_cancer", cwd=desk, exits=0)
    assert f"4 of 4 tasks to compute, up to {alone} on 1 worker" in done.stderr


def test_without_a_terminal_there_is_a_line_every_few_seconds(capsys, monkeypatch):
    tasks = [planned("a", "x", fold, 10.0) for fold in range(3)]
    now = [100.0]
    monkeypatch.setattr("opauc_bench.commands.progress.time.monotonic", lambda: now[0])
    with Progress(tasks, 2, Estimate()) as progress:
        progress.done(tasks[0], taken(tasks[0], 10.0))
        now[0] += 11.0
        progress.done(tasks[1], taken(tasks[1], 10.0))
        progress.done(tasks[2], taken(tasks[2], 1.0, "timeout"))
    assert capsys.readouterr().err.splitlines() == [
        "2/3 tasks, 0 failed, about 5 s left (a x trial 1 fold 2 done)",
        "a x trial 1 fold 3: timeout: why",
    ]


def clock(monkeypatch):
    """The time that `Progress` sees, in a list; it looks at the tasks under way only when it is asked to."""
    now = [100.0]
    monkeypatch.setattr("opauc_bench.commands.progress.time.monotonic", lambda: now[0])
    monkeypatch.setattr("opauc_bench.commands.progress._SECONDS_BETWEEN_LOOKS", 3600.0)
    return now


def test_without_a_terminal_there_is_a_line_every_minute_while_no_task_finishes(tmp_path, capsys, monkeypatch):
    tasks = [planned("a", "x", fold, 600.0) for fold in range(3)]
    now, store = clock(monkeypatch), Store(tmp_path)
    with Progress(tasks, 1, Estimate(), store) as progress:
        now[0] += 59.0
        progress._look()
        now[0] += 1.0
        progress._look()
        note = store.claim(tasks[1], 1)
        begun = time.time() - 120.0
        os.utime(note, (begun, begun))
        now[0] += 60.0
        progress._look()
        progress._look()
        progress.done(tasks[1], taken(tasks[1], 600.0))
        store.clear_claim(tasks[1])
        now[0] += 180.0
        progress._look()
    assert capsys.readouterr().err.splitlines() == [
        "0/3 tasks, 0 failed, about 30 min left (loading data, compiling kernels)",
        "0/3 tasks, 0 failed, about 28 min left (a x trial 1 fold 2, running for 2 min)",
        "1/3 tasks, 0 failed, about 20 min left (none has finished for 3 min)",
    ]


def test_there_is_no_estimate_before_a_task_of_an_estimator_has_finished(capsys, monkeypatch):
    monkeypatch.setattr("opauc_bench.commands.progress._SECONDS_BETWEEN_LINES", 0.0)
    known = planned("a", "x", 0, 10.0)
    unknown = [dataclasses.replace(planned("a", "y", fold, 0.0), learner=ESTIMATOR) for fold in range(2)]
    with Progress([known, *unknown], 1, Estimate()) as progress:
        progress.done(known, taken(known, 10.0))
        progress.done(unknown[0], taken(unknown[0], 7.0))
    assert capsys.readouterr().err.splitlines()[0] == "1/3 tasks, 0 failed (a x trial 1 fold 1 done)"


def test_quiet_prints_failures_only(capsys, monkeypatch):
    monkeypatch.setattr("opauc_bench.commands.progress._SECONDS_BETWEEN_LINES", 0.0)
    tasks = [planned("a", "x", fold, 10.0) for fold in range(2)]
    with Progress(tasks, 1, Estimate(), quiet=True) as progress:
        progress.done(tasks[0], taken(tasks[0], 10.0))
        progress.done(tasks[1], taken(tasks[1], 10.0, "error"))
    assert capsys.readouterr().err.splitlines() == ["a x trial 1 fold 2: error: why"]


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("variable", "value"), [(None, None), ("NO_COLOR", "1"), ("TERM", "dumb")])
def test_on_a_terminal_there_is_a_bar_unless_it_is_not_wanted(monkeypatch, variable, value):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    if variable:
        monkeypatch.setenv(variable, value)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    tasks = [planned("a", "[b]x", fold, 10.0) for fold in range(2)]
    with Progress(tasks, 1, Estimate()) as progress:
        progress.done(tasks[0], taken(tasks[0], 10.0, "error"))
        progress.done(tasks[1], taken(tasks[1], 10.0))
    shown = terminal.getvalue()
    assert "a [b]x trial 1 fold 1: error: why" in shown
    assert ("2/2" in shown) == ("\x1b[" in shown) == (variable is None)


def test_a_task_that_runs_for_longer_than_estimated_takes_nothing_from_the_others(tmp_path, capsys, monkeypatch):
    tasks = [planned("a", "x", fold, 600.0) for fold in range(3)]
    now, store = clock(monkeypatch), Store(tmp_path)
    with Progress(tasks, 1, Estimate(), store) as progress:
        begun = time.time() - 1500.0
        os.utime(store.claim(tasks[0], 1), (begun, begun))
        now[0] += 60.0
        progress._look()
    assert "about 20 min left (a x trial 1 fold 1, running for 25 min)" in capsys.readouterr().err


def test_plan_counts_no_tasks_of_data_that_are_unavailable(desk, command):
    (desk / "quick.yaml").write_text(QUICK.replace("[wine]", "[wine, german]"))
    planned = " ".join(command("plan", "quick.yaml", "--offline", cwd=desk, exits=0).stdout.split())
    assert "Unavailable: german." in planned
    assert "0 tasks done, 4 to do: " in planned
