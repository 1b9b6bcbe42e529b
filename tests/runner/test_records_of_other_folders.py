"""``reuse``: records of other folders are referred to, not copied and not computed again."""

import shutil

import pytest
from folders import contents, rows_of
from runs import QUICK, changed, edit_lines, remove_lines, snapshot, tables, written

from opauc_bench.results.manifest import read_manifest


@pytest.fixture
def borrower(desk, folder, command):
    """Return a desk with an experiment that reuses the records of quick for a column of another name, its folder, and
    that of quick.
    """
    text = QUICK.replace("uni_log, uni_squ", "{learner: uni_log, name: mine}") + "reuse: [quick, nowhere]\n"
    (desk / "other.yaml").write_text(text)
    return desk, desk / "results" / "other", folder


@pytest.fixture
def borrowed(borrower, command):
    """Return the same after a run."""
    command("run", "other.yaml", "--offline", cwd=borrower[0], exits=0)
    return borrower


def test_reused_records_are_referred_to_and_not_copied(borrower, command, idle):
    desk, folder, lender = borrower
    lent = snapshot(lender)
    plan = command("plan", "other.yaml", "--offline", cwd=desk)
    assert "2 tasks done, 0 to do" in plan.stdout
    idle()
    command("run", "other.yaml", "--offline", cwd=desk, exits=0)
    theirs = [record for record in contents(lender).values() if record["column"] == "uni_log"]
    assert read_manifest(folder).reused == {"quick": tuple(sorted(record["id"] for record in theirs))}
    assert contents(folder) == {}
    assert not (folder / "records").exists()
    rows = rows_of(folder / "folds.csv")
    assert [row["learner"] for row in rows] == ["mine", "mine"]
    assert [float(row["auc"]) for row in rows] == [record["outcome"]["metrics"]["auc"] for record in theirs]
    assert snapshot(lender) == lent


def test_plan_finds_reused_records_before_data_are_prepared(borrower, command, monkeypatch, tmp_path):
    monkeypatch.setitem(command.environment, "OPAUC_BENCH_CACHE", str(tmp_path / "empty"))
    plan = command("plan", "other.yaml", "--offline", cwd=borrower[0])
    assert "2 tasks done, 0 to do" in plan.stdout
    assert not (tmp_path / "empty").exists()


def test_run_with_all_records_in_another_folder_writes_nothing_the_second_time(borrowed, command, idle):
    desk, folder, _ = borrowed
    before = snapshot(folder)
    idle()
    done = command("run", "other.yaml", "--offline", cwd=desk)
    assert done.stderr.startswith("0 of 2 tasks to compute: all have records from ")
    assert snapshot(folder) == before


def test_missing_folder_of_reused_records_is_an_error_that_names_the_command(borrowed, command):
    """Nothing is printed from half of the records."""
    desk, folder, lender = borrowed
    shown = tables(folder)
    shutil.rmtree(lender)
    before = snapshot(folder)
    for name in ("report", "pack"):
        refused = command(name, "other.yaml", cwd=desk, exits=1)
        words = " ".join(refused.stderr.split())
        assert "results/other/ refers to 2 records of results/quick/, which does not exist" in words
        assert "opauc-bench run other.yaml" in words
    assert snapshot(folder) == before
    status = " ".join(command("status", "other.yaml", cwd=desk).stdout.split())
    assert "2 records missing in results/quick/, to which this folder refers" in status
    done = command("run", "other.yaml", "--offline", cwd=desk, exits=0)
    assert "2 of 2 tasks to compute" in done.stderr
    assert [record["column"] for record in contents(folder).values()] == ["mine", "mine"]
    assert read_manifest(folder).reused == {}
    assert tables(folder) == shown
    command("report", "other.yaml", cwd=desk, exits=0)


def test_single_missing_reused_record_is_computed_here_and_the_others_stay_references(borrowed, command):
    desk, folder, lender = borrowed
    shown, first = tables(folder), next(iter(contents(lender)))
    remove_lines(lender, 0)
    refused = command("report", "other.yaml", cwd=desk, exits=1)
    assert "refers to 1 record of results/quick/, which does not have them" in " ".join(refused.stderr.split())
    assert "WRONG" in command("verify", folder, "--sample", 0, cwd=desk, exits=1).stdout
    assert "1 of 2 tasks to compute" in command("run", "other.yaml", "--offline", cwd=desk).stderr
    assert [key[-1] for key in contents(folder)] == [first[-1]]
    assert [len(ids) for ids in read_manifest(folder).reused.values()] == [1]
    assert tables(folder) == shown


def test_damaged_reused_record_is_computed_here(borrowed, command):
    desk, folder, lender = borrowed
    shown = tables(folder)
    edit_lines(lender, {1: list(written(lender).values())[1].replace(b'"ok"', b'"ko"') + b"\n"})
    damaged = snapshot(lender)
    refused = command("report", "other.yaml", cwd=desk)
    assert (refused.returncode, "results/quick/records/wine.jsonl, line 2" in refused.stderr) == (1, True)
    assert "1 of 2 tasks to compute" in command("run", "other.yaml", "--offline", cwd=desk).stderr
    assert tables(folder) == shown
    command("report", "other.yaml", cwd=desk, exits=0)
    assert snapshot(lender) == damaged


def test_damage_in_another_folder_that_is_not_referred_to_does_not_matter(borrowed, command, idle):
    desk, folder, lender = borrowed
    lines = list(written(lender).values())
    edit_lines(lender, {2: b"\xff" + lines[2] + b"\n", 3: lines[3][:-9] + b"\n"})
    before = snapshot(folder)
    command("report", "other.yaml", cwd=desk, exits=0)
    idle()
    command("run", "other.yaml", "--offline", cwd=desk, exits=0)
    assert snapshot(folder) == before


def test_fresh_computes_reused_records_here(borrowed, command):
    desk, folder, lender = borrowed
    lent, shown = snapshot(lender), tables(folder)
    done = command("run", "other.yaml", "--offline", "--fresh", cwd=desk)
    assert "2 of 2 tasks to compute" in done.stderr
    assert len(contents(folder)) == 2
    assert read_manifest(folder).reused == {}
    assert tables(folder) == shown
    assert snapshot(lender) == lent


def test_a_number_of_another_folder_is_not_replaced_by_a_failure(borrowed, command):
    desk, folder, _ = borrowed
    shown, text = tables(folder), (desk / "other.yaml").read_text()
    (desk / "other.yaml").write_text(f"{text}limits: {{seconds: 1.0e-6}}\n")
    done = command("run", "other.yaml", "--offline", "--fresh", cwd=desk, exits=1)
    assert done.stderr.endswith("2 tasks failed this time: their records from before stay\n")
    assert contents(folder) == {}
    (desk / "other.yaml").write_text(text)
    command("report", "other.yaml", cwd=desk, exits=0)
    assert tables(folder) == shown
    assert "2/2" in command("status", "other.yaml", cwd=desk, exits=0).stdout


def test_reference_to_a_record_that_is_itself_reused_names_the_folder_that_has_it(borrowed, command, idle):
    desk, folder, _ = borrowed
    text = QUICK.replace("uni_log, uni_squ", "{learner: uni_log, name: third}") + "reuse: [other]\n"
    (desk / "third.yaml").write_text(text)
    idle()
    command("run", "third.yaml", "--offline", cwd=desk, exits=0)
    assert read_manifest(desk / "results/third").reused == read_manifest(folder).reused
    ours, theirs = (rows_of(path / "folds.csv") for path in (desk / "results/third", folder))
    assert [row["auc"] for row in ours] == [row["auc"] for row in theirs]


def test_absent_folder_under_reuse_is_named(desk, command):
    (desk / "misspelt.yaml").write_text(QUICK.replace("uni_log, uni_squ", "uni_log") + "reuse: [qiuck]\n")
    said = "results/qiuck/, named under reuse, does not exist: none of its records are used"
    assert said in " ".join(command("plan", "misspelt.yaml", "--offline", cwd=desk).stdout.split())
    assert f"note: {said}\n" in command("run", "misspelt.yaml", "--offline", cwd=desk).stderr


def test_run_into_the_folder_of_another_experiment_keeps_its_records_and_prints_a_note(desk, command):
    for name, learner in {"first": "uni_log", "second": "uni_squ"}.items():
        (desk / f"{name}.yaml").write_text(QUICK.replace("uni_log, uni_squ", learner))
    first = command("run", "first.yaml", "--offline", "--out", "shared", cwd=desk)
    again = command("run", "first.yaml", "--offline", "--out", "shared", cwd=desk)
    second = command("run", "second.yaml", "--offline", "--out", "shared", cwd=desk)
    assert "note:" not in first.stderr + again.stderr
    assert "note: shared/ has the results of first.yaml: its records stay, but the manifest" in second.stderr
    assert second.returncode == 0
    assert [column for _, column, *_ in contents(desk / "shared")] == ["uni_log"] * 2 + ["uni_squ"] * 2


def test_run_of_another_experiment_with_the_same_tasks_writes_nothing(desk, command, idle):
    for name in ("first", "second"):
        (desk / f"{name}.yaml").write_text(QUICK)
    command("run", "first.yaml", "--offline", "--out", "shared", cwd=desk, exits=0)
    before = snapshot(desk / "shared")
    idle()
    command("run", "second.yaml", "--offline", "--out", "shared", cwd=desk, exits=0)
    assert snapshot(desk / "shared") == before


def test_failed_records_of_another_experiment_are_not_reused(desk, command):
    (desk / "a.yaml").write_text(QUICK.replace("uni_log, uni_squ", '"mine.py:Fragile"'))
    (desk / "b.yaml").write_text(QUICK.replace("uni_log, uni_squ", '"mine.py:Fragile"') + "reuse: [a]\n")
    command("run", "a.yaml", "--offline", cwd=desk, exits=1)
    assert "0 tasks done, 2 to do" in command("plan", "b.yaml", "--offline", cwd=desk).stdout
    (desk / "mended").touch()
    command("run", "b.yaml", "--offline", cwd=desk, exits=0)


def test_two_columns_of_the_same_computation_share_one_record(desk, command):
    (desk / "twins.yaml").write_text(QUICK.replace("uni_squ", "{learner: uni_log, name: again}"))
    done = command("run", "twins.yaml", "--offline", "--jobs", 2, cwd=desk, exits=0)
    assert "2 of 4 tasks to compute" in done.stderr
    folder = desk / "results" / "twins"
    assert len(written(folder)) == 2
    rows = rows_of(folder / "folds.csv")
    assert [row["learner"] for row in rows] == ["uni_log", "uni_log", "again", "again"]
    assert [row["auc"] for row in rows[:2]] == [row["auc"] for row in rows[2:]]
    assert all(0.9 < float(row["auc"]) <= 1 for row in rows)
    assert "2/2" in command("status", "twins.yaml", cwd=desk).stdout.split("again")[-1]


@pytest.mark.parametrize("column", ["uni_log", "again"])
def test_record_computed_for_one_column_is_not_computed_again_for_its_twin(desk, command, idle, column):
    (desk / "twins.yaml").write_text(QUICK.replace("uni_squ", "{learner: uni_log, name: again}"))
    command("run", "twins.yaml", "--offline", "-l", column, cwd=desk, exits=0)
    idle()
    done = command("run", "twins.yaml", "--offline", cwd=desk, exits=0)
    assert done.stderr.startswith("0 of 4 tasks to compute: all have records from ")


def test_lost_record_of_twins_is_computed_once_and_shown_in_both(desk, command):
    (desk / "twins.yaml").write_text(QUICK.replace("uni_squ", "{learner: uni_log, name: again}"))
    command("run", "twins.yaml", "--offline", cwd=desk, exits=0)
    folder = desk / "results" / "twins"
    before, shown = written(folder), tables(folder)
    remove_lines(folder, 1)
    done = command("run", "twins.yaml", "--offline", cwd=desk)
    assert "1 of 4 tasks to compute" in done.stderr
    assert changed(before, written(folder)) == {list(before)[1]}
    assert tables(folder) == shown


def test_learner_with_all_axes_fixed_has_one_setting(desk, command):
    (desk / "fixed.yaml").write_text(
        QUICK.replace("[uni_log, uni_squ]", "[uni_log, {learner: opauc, params: {eta: 0.25, lambda: 0.5}}]")
    )
    command("run", "fixed.yaml", "--offline", "--jobs", 2, cwd=desk, exits=0)
    fixed = [record for record in contents(desk / "results" / "fixed").values() if record["column"] == "opauc"]
    assert [record["outcome"]["selected"] for record in fixed] == [{"eta": 0.25, "lam": 0.5}] * 2
    assert [record["outcome"]["selection"]["n_settings"] for record in fixed] == [1, 1]


def test_learner_that_fails_on_the_rows_that_load_it_still_runs(desk, command):
    (desk / "particular.yaml").write_text(QUICK.replace("uni_squ", '"mine.py:Particular"'))
    command("run", "particular.yaml", "--offline", "--jobs", 2, cwd=desk, exits=0)
