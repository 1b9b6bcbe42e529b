"""Records that were damaged: a run names them and computes them again."""

import re
import shlex

import pytest
from folders import contents, forged
from runs import changed, edit_lines, leftovers, remove_lines, snapshot, tables, written

from opauc_bench.results.record import record_of_line

DAMAGES = {
    "cut off": lambda line: line[:-20],
    "empty object": lambda line: b"{}",
    "no text": lambda line: b"\xff\xfe\x00",
    "other number": lambda line: re.sub(rb'"auc":[01]\.\d', b'"auc":0.1', line, count=1),
    "other trial": lambda line: line.replace(b'"trial":0', b'"trial":1'),
    "empty list": lambda line: b"[]",
    "older make": lambda line: b'{"schema": 1}',
    "two lines in one": lambda line: line + line,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_line_is_named_and_only_its_task_is_computed_again(desk, folder, command, damage):
    before, known, shown = written(folder), contents(folder), tables(folder)
    edit_lines(folder, {1: DAMAGES[damage](list(before.values())[1]) + b"\n"})
    report = command("report", "quick.yaml", cwd=desk, exits=1)
    status = command("status", "quick.yaml", cwd=desk, exits=1)
    plan = command("plan", "quick.yaml", "--offline", cwd=desk, exits=0)
    for text in (report.stderr, status.stdout, plan.stdout):
        assert "results/quick/records/wine.jsonl, line 2: " in " ".join(text.split())
    assert "3 tasks done, 1 to do" in plan.stdout
    (hint,) = re.findall(r"^  try: opauc-bench (.*)", report.stderr, re.MULTILINE)
    done = command(*shlex.split(hint, comments=True), "--offline", cwd=desk, exits=0)
    problem = "its checksum is" if damage.startswith("other") else ""
    said = f"damaged, to be computed again: results/quick/records/wine.jsonl, line 2: {problem}"
    assert said in done.stderr
    assert "1 of 4 tasks to compute" in done.stderr
    assert changed(before, written(folder)) == {list(before)[1]}
    assert contents(folder) == known
    assert tables(folder) == shown


def test_report_lists_all_damaged_records_at_once(desk, folder, command):
    known = contents(folder)
    lines = list(written(folder).values())
    edit_lines(folder, {number: damage(lines[number]) + b"\n" for number, damage in zip(range(4), DAMAGES.values())})
    before = snapshot(folder)
    for options in (["report"], ["report", "--write"], ["report", "--to", desk / "elsewhere"], ["status"]):
        done = command(*options, "results/quick", cwd=desk)
        said = done.stdout + done.stderr
        assert done.returncode == 1
        assert re.findall(r"wine\.jsonl, line (\d): ", said) == ["1", "2", "3", "4"]
        assert "opauc-bench run quick.yaml" in said
        assert options == ["status"] or (done.stdout == "" and "error: 4 damaged records:" in said)
    assert snapshot(folder) == before
    assert not (desk / "elsewhere").exists()
    done = command("run", "quick.yaml", "--offline", cwd=desk)
    assert "4 of 4 tasks to compute" in done.stderr
    assert contents(folder) == known
    command("report", "quick.yaml", cwd=desk, exits=0)


def test_damaged_loose_record_is_computed_again(desk, folder, command):
    before, known = written(folder), contents(folder)
    key = list(before)[3]
    remove_lines(folder, 3)
    (folder / "running").mkdir()
    (folder / f"running/{key[-1]}.json").write_bytes(before[key][:100])
    command("report", "quick.yaml", cwd=desk, exits=1)
    done = command("run", "quick.yaml", "--offline", cwd=desk)
    assert f"damaged, to be computed again: results/quick/running/{key[-1]}.json" in done.stderr
    assert "1 of 4 tasks to compute" in done.stderr
    assert changed(before, written(folder)) == {key}
    assert contents(folder) == known
    assert leftovers(folder) == []


@pytest.mark.parametrize("position", [0, 3])
def test_of_two_records_of_one_task_that_differ_neither_counts(desk, folder, command, position):
    before, known = written(folder), contents(folder)
    lines = list(before.values())
    other = forged(lines[0], lambda content: content["outcome"]["metrics"].update(auc=0.5))
    edit_lines(folder, {position: b"\n".join([lines[position], other][:: -1 if position == 0 else 1]) + b"\n"})
    assert "another line has the same id" in command("report", "quick.yaml", cwd=desk, exits=1).stderr
    done = command("run", "quick.yaml", "--offline", cwd=desk, exits=0)
    assert "1 of 4 tasks to compute" in done.stderr
    assert contents(folder) == known


def leave_conflict_marks(folder, lines):
    edit_lines(folder, {0: b"<<<<<<< HEAD\n" + lines[0] + b"\n=======\n", 1: lines[1] + b"\n>>>>>>> theirs\n"})


def add_an_empty_object(folder, lines):
    edit_lines(folder, {3: lines[3] + b"\n\n{}\n"})


def stand_in_another_file(folder, lines):
    (folder / "records/breast_cancer.jsonl").write_bytes(lines[0] + b"\n")


def stand_under_another_id(folder, lines):
    (folder / "running").mkdir()
    (folder / "running/0123456789abcdef.json").write_bytes(lines[0] + b"\n")


def orphan_damaged(folder, lines):
    (folder / "records/breast_cancer.jsonl").write_bytes(lines[0][:-9] + b"\n")


def orphan_damaged_while_running(folder, lines):
    (folder / "running").mkdir()
    (folder / "running/0123456789abcdef.json").write_bytes(lines[0][:-9])


def damaged_beside_the_packed_one(folder, lines):
    (folder / "running").mkdir()
    (folder / f"running/{record_of_line(lines[0]).id}.json").write_text("{")


@pytest.mark.parametrize(
    "damage",
    [
        leave_conflict_marks,
        add_an_empty_object,
        stand_in_another_file,
        stand_under_another_id,
        orphan_damaged,
        orphan_damaged_while_running,
        damaged_beside_the_packed_one,
    ],
)
def test_run_removes_damaged_lines_for_which_nothing_is_to_compute(desk, folder, command, idle, damage):
    """Report refuses such a folder and names this command, so it has to help."""
    before = snapshot(folder)
    damage(folder, list(written(folder).values()))
    refused = command("report", "quick.yaml", cwd=desk, exits=1)
    assert "opauc-bench run quick.yaml" in refused.stderr
    assert "WRONG" in command("verify", folder, "--sample", 0, cwd=desk).stdout
    idle()
    done = command("run", "quick.yaml", "--offline", cwd=desk, exits=0)
    assert "damaged" in done.stderr
    assert snapshot(folder) == before
    command("report", "quick.yaml", cwd=desk, exits=0)
