"""Tasks that fail, in every way: their records say how, and the others are computed."""

import shutil
from pathlib import Path

import pytest
from folders import contents
from runs import QUICK, changed, leftovers, snapshot, written

import opauc_bench
from opauc_bench.errors import ResultsError
from opauc_bench.results.store import Store
from opauc_bench.runner.execute import LocalExecutor


@pytest.fixture(scope="module")
def failing(invoke, place):
    done = invoke("run", "failing.yaml", "--offline", "--jobs", 2, cwd=place, exits=1)
    found = {}
    for record in contents(place / "results" / "failing").values():
        found.setdefault(record["column"], []).append(record)
    return done, found


@pytest.mark.parametrize(
    ("column", "status", "message"),
    [
        ("Raises", "error", "KeyError: 'no such thing' (mine.py:"),
        ("Exits", "error", "SystemExit: 7"),
        ("Cancels", "error", "CancelledError: "),
        ("Greedy", "out_of_memory", "memory limit of 0.3 GB reached"),
        ("Slow", "timeout", "time limit of 2 s reached"),
        ("Diverges", "diverged", "no setting stayed finite"),
        ("Unborn", "error", "ValueError: size has to be at least 2, got 1"),
    ],
)
def test_failure_of_a_learner_is_recorded(failing, column, status, message):
    done, found = failing
    assert [record["status"] for record in found[column]] == [status, status]
    assert all(record["message"].startswith(message) for record in found[column])
    assert all("metrics" not in record.get("outcome", {}) for record in found[column])
    assert done.stderr.count(f"wine {column} trial 1 fold ") == 2


def test_exported_tables_say_why_there_is_no_number(failing, place):
    _, found = failing
    frame = opauc_bench.load_results(place / "results/failing")
    messages = {
        record["column"]: record["message"]
        for records in found.values()
        for record in records[-1:]
        if record["status"] != "ok"
    }
    assert frame.groupby("learner")["message"].last().dropna().to_dict() == messages
    assert frame.loc[frame["learner"] == "uni_squ", "message"].isna().all()


@pytest.mark.faults
def test_task_that_kills_its_worker_is_recorded_and_the_others_computed(bench, place):
    done = bench("run", "killing.yaml", "--offline", "--jobs", 2, cwd=place, exits=1)
    found = [(r["column"], r["status"]) for r in contents(place / "results" / "killing").values()]
    assert found == [("Kills", "error")] * 2 + [("uni_squ", "ok")] * 2
    messages = [r.get("message", "") for r in contents(place / "results" / "killing").values()]
    assert [message.partition(", the")[0] for message in messages] == [
        *["the worker process died twice on this task"] * 2,
        *[""] * 2,
    ]
    assert done.stderr.count("wine Kills trial 1 fold ") == 2
    assert "printed by a learner" not in done.stdout, "the table alone is there"
    assert "printed by a learner" in done.stderr


@pytest.mark.faults
def test_a_thread_that_a_learner_leaves_does_not_keep_the_run(bench, place):
    (place / "thread.yaml").write_text(QUICK.replace("uni_log, uni_squ", '"mine.py:LeavesAThread"'))
    bench("run", "thread.yaml", "--offline", "--jobs", 2, cwd=place, exits=0)  # within the time limit of the test


def test_learners_beside_failing_ones_have_their_numbers(failing, place, command):
    _, found = failing
    assert [record["status"] for record in found["uni_squ"]] == ["ok", "ok"]
    assert len(found) == 8
    command("run", "failing.yaml", "--offline", "--learner", "uni_squ", "--out", "calm", cwd=place)
    assert list(contents(place / "calm").values()) == found["uni_squ"]


def test_failures_are_counted_and_not_computed_again_without_being_asked(failing, place, command):
    done, _ = failing
    counts = "14 of 16 tasks have no number (2 diverged, 8 error, 2 out_of_memory, 2 timeout)"
    assert counts in done.stderr
    assert "N/A" in (place / "results" / "failing" / "table.md").read_text()
    before = snapshot(place / "results" / "failing")
    again = command("run", "failing.yaml", "--offline", cwd=place, exits=1)
    assert again.stderr.startswith("0 of 16 tasks to compute: all have records from ")
    assert counts in again.stderr
    assert snapshot(place / "results" / "failing") == before


def test_record_of_an_unforeseen_error_has_the_end_of_the_traceback(failing):
    assert 'raise KeyError("no such thing")' in failing[1]["Raises"][0]["traceback"]


def test_error_in_a_learner_from_a_file_names_the_line(failing, place):
    lines = (place / "mine.py").read_text().splitlines()
    message = failing[1]["Raises"][0]["message"]
    file, _, line = message.partition(" (")[2].removesuffix(")").rpartition(":")
    assert (Path(file).name, lines[int(line) - 1].strip()) == ("mine.py", 'raise KeyError("no such thing")')


def test_status_and_plan_name_failures(failing, place, command):
    status = command("status", "failing.yaml", cwd=place, exits=0)
    assert "0/2 !2" in status.stdout
    assert "wine Slow: 2 x timeout: time limit of 2 s reached" in status.stdout
    assert max(map(len, status.stdout.splitlines())) <= 100
    plan = command("plan", "failing.yaml", "--offline", cwd=place)
    assert "14 of the done tasks have failed" in " ".join(plan.stdout.split())


def test_status_of_some_columns_leaves_out_the_others(failing, place, command):
    status = command("status", "failing.yaml", "-d", "wine", "-l", "Slow", "-l", "uni_squ", cwd=place, exits=0).stdout
    rows = [line.split() for line in status.splitlines()]
    assert rows.index(["dataset", "uni_squ", "Slow"]) + 2 == rows.index(["wine", "2/2", "0/2", "!2"])
    assert "wine Slow: 2 x timeout" in status
    assert "Raises" not in status
    unknown = command("status", "failing.yaml", "-d", "vine", cwd=place, exits=2)
    assert "--dataset vine: not in this experiment (did you mean 'wine'?)" in " ".join(unknown.stderr.split())


def test_retry_failed_computes_failed_tasks_and_no_other(desk, command):
    (desk / "fragile.yaml").write_text(QUICK.replace("uni_squ", '"mine.py:Fragile", "mine.py:Raises"'))
    folder = desk / "results" / "fragile"
    first = command("run", "fragile.yaml", "--offline", cwd=desk, exits=1)
    assert "RuntimeError: broken" in first.stderr
    before = written(folder)
    (desk / "mended").touch()
    command("run", "fragile.yaml", "--offline", cwd=desk, exits=1)
    assert written(folder) == before
    retried = command("run", "fragile.yaml", "--offline", "--retry-failed", "-l", "Fragile", cwd=desk, exits=0)
    assert "2 of 2 tasks to compute" in retried.stderr
    after = written(folder)
    assert changed(before, after) == {key for key in before if key[1] == "Fragile"}
    assert after.keys() == before.keys()
    assert leftovers(folder) == []
    statuses = {column: record["status"] for (_, column, *_), record in contents(folder).items()}
    assert statuses == {"uni_log": "ok", "Fragile": "ok", "Raises": "error"}


def test_a_record_to_be_replaced_is_not_taken_for_the_new_one(desk, command, monkeypatch):
    """Where the pool breaks, a loose record that is there counts as the result: it must not be the old one."""
    (desk / "raises.yaml").write_text(QUICK.replace("uni_squ", '"mine.py:Raises"'))
    command("run", "raises.yaml", "--offline", cwd=desk, exits=1)
    folder, asked = desk / "results/raises", []
    for record in Store(folder).read().values():  # as an interrupted run leaves them
        Store(folder).write(record)
    shutil.rmtree(folder / "records")

    def nothing(self, tasks, config):
        store = Store(config.results)
        asked.extend((task.column, store.read_loose(task), store.read().of(task).status) for task in tasks)
        return iter(())

    monkeypatch.setattr(LocalExecutor, "run", nothing)
    done = command("run", "raises.yaml", "--offline", "--retry-failed", cwd=desk)
    assert asked == [("Raises", None, "error")] * 2
    assert done.returncode == 1
    assert "2 of 4 tasks have no number (2 error)" in done.stderr


@pytest.mark.parametrize("error", [ResultsError("a full disk"), KeyboardInterrupt()], ids=["error", "Ctrl-C"])
def test_ended_run_leaves_no_half_written_file(desk, command, monkeypatch, error):
    """Where one worker cannot write, or the user stops the run, the others are ended while they write."""

    def ended_while_writing(self, tasks, config):
        scores = config.results / "scores"
        scores.mkdir()
        (scores / ".0123.npz.abcdefgh.tmp").touch()
        raise error

    monkeypatch.setattr(LocalExecutor, "run", ended_while_writing)
    assert command("run", "quick.yaml", "--offline", cwd=desk).returncode != 0
    assert not list((desk / "results").rglob(".*.tmp"))


def test_tasks_that_were_not_started_are_not_said_to_be_computed_by_retry_failed(command, tmp_path):
    (tmp_path / "large.yaml").write_text(
        """
title: t
datasets: [wine]
learners: [uni_log, svm_or]
grids: {eta: [0.25], lambda: [1]}
protocol: {trials: 1, folds: 2, inner_folds: 2}
limits: {memory_gb: 0.0004}
"""
    )
    done = command("run", "large.yaml", cwd=tmp_path)
    assert "2 missing)" in done.stderr
    assert "--retry-failed" not in done.stderr


def test_a_task_has_the_text_of_its_learner_that_it_was_planned_with(place, tmp_path, command):
    """The first task has it to its end; the second one would begin with another one."""
    shutil.copy(place / "mine.py", tmp_path)
    (tmp_path / "edits.yaml").write_text(QUICK.replace("uni_squ", "mine.py:Edits"))
    done = command("run", "edits.yaml", "--offline", cwd=tmp_path, exits=1)
    records = [r for r in contents(tmp_path / "results/edits").values() if r["column"] == "Edits"]
    assert [record["status"] for record in records] == ["ok", "error"]
    assert "a file of this learner has changed since the task was planned" in " ".join(done.stderr.split())
    command("run", "edits.yaml", "--offline", cwd=tmp_path, exits=0)


def test_hints_are_not_part_of_what_a_table_says(tmp_path, command):
    (tmp_path / "few.yaml").write_text(
        QUICK.replace("{trials: 1, folds: 2, inner_folds: 2}", "{kind: prequential, trials: 1, order: file}")
    )
    done = command("run", "few.yaml", "--offline", cwd=tmp_path, exits=1)
    assert "expected both classes among" in " ".join(done.stdout.split())
    assert "hint" not in done.stdout
