"""Which tasks a run computes, and what it leaves as it is."""

import errno
import fcntl
import json
import os
import re
import shutil

import pytest
from filelock import FileLock
from folders import contents, forge, unpack
from runs import QUICK, changed, leftovers, remove_lines, snapshot, tables, written

from opauc_bench.results.manifest import read_manifest
from opauc_bench.results.record import record_of_line
from opauc_bench.results.store import Store


def test_run_with_nothing_to_compute_says_so_and_writes_nothing(desk, folder, command, idle):
    before = snapshot(folder)
    idle()
    done = command("run", "quick.yaml", "--offline", cwd=desk, exits=0)
    said = done.stderr.splitlines()[0]
    assert re.fullmatch(
        r"0 of 4 tasks to compute: all have records from 20\d\d-\d\d-\d\d "
        r"\(--fresh computes them again, --out DIR elsewhere\)",
        said,
    )
    assert "written to" not in done.stdout
    assert snapshot(folder) == before


def test_run_with_nothing_to_compute_needs_no_folder_that_can_be_written(desk, folder, command, idle, monkeypatch):
    class ReadOnly(FileLock):
        def acquire(self, *arguments, **options):
            raise PermissionError(errno.EACCES, "Permission denied")

    before = snapshot(folder)
    table = command("report", "quick.yaml", cwd=desk).stdout
    idle()
    monkeypatch.setattr("opauc_bench.results.store.FileLock", ReadOnly)
    done = command("run", "quick.yaml", "--offline", cwd=desk, exits=0)
    assert done.stdout == table
    refused = command("run", "quick.yaml", "--offline", "--fresh", cwd=desk, exits=1).stderr
    assert "results/quick cannot be written: Permission denied" in refused
    assert "select another folder (run --out, report --to)" in refused
    assert snapshot(folder) == before


@pytest.mark.parametrize("options", [["--test", "corrected"], ["-l", "uni_log"], ["--retry-failed"], ["--quiet"]])
def test_options_do_not_make_a_run_with_nothing_to_compute_write(desk, folder, command, idle, options):
    before = snapshot(folder)
    idle()
    command("run", "quick.yaml", "--offline", *options, cwd=desk, exits=0)
    assert snapshot(folder) == before


def test_run_with_an_unavailable_dataset_and_nothing_else_to_compute_writes_nothing(desk, folder, command, idle):
    before = snapshot(folder)
    (desk / "quick.yaml").write_text(QUICK.replace("[wine]", "[wine, a9a]"))
    idle()
    done = command("run", "quick.yaml", "--offline", cwd=desk, exits=3)
    assert done.stderr.startswith("0 of 4 tasks to compute")
    assert "unavailable: a9a" in done.stderr
    assert snapshot(folder) == before


def test_lost_manifest_is_written_again_without_computing(desk, folder, command, idle):
    before = snapshot(folder)
    (folder / "manifest.json").unlink()
    idle()
    done = command("run", "quick.yaml", "--offline", cwd=desk, exits=0)
    assert "none of" not in done.stderr
    assert snapshot(folder) == before


def test_manifest_that_names_other_data_than_the_records_of_this_machine_is_written_again(desk, folder, command, idle):
    """As after the data have changed and come back: there are records of both, and the table is of the present ones."""
    before = snapshot(folder)
    fingerprint = read_manifest(folder).datasets["wine"].fingerprint
    text = (folder / "manifest.json").read_text()
    (folder / "manifest.json").write_text(text.replace(fingerprint, "0" * 64))
    idle()
    command("run", "quick.yaml", "--offline", cwd=desk, exits=0)
    assert snapshot(folder) == before


def test_run_that_fails_before_computing_writes_nothing(desk, folder, command):
    before = snapshot(folder)
    (desk / "quick.yaml").write_text(QUICK.replace("[wine]", "[a9a]"))
    done = command("run", "quick.yaml", "--offline", cwd=desk, exits=3)
    assert "none of the datasets is available" in done.stderr
    assert snapshot(folder) == before


@pytest.mark.parametrize("out", ["new", "new/below"])
def test_run_that_fails_before_computing_leaves_no_new_folder(desk, command, out):
    (desk / "absent.yaml").write_text(QUICK.replace("[wine]", "[a9a]"))
    before = sorted(desk.rglob("*"))
    command("run", "absent.yaml", "--offline", "--out", out, cwd=desk, exits=3)
    assert sorted(desk.rglob("*")) == before


def test_a_published_table_without_a_common_cell_is_refused_before_computing(desk, command):
    (desk / "odd.yaml").write_text(f"{QUICK}report: {{published: aij2016_table2}}\n")
    done = command("run", "odd.yaml", "--offline", cwd=desk)
    assert (done.returncode, "no dataset and learner in common" in done.stderr) == (2, True)
    assert not (desk / "results/odd").exists()


def test_only_the_task_of_a_deleted_line_is_computed_again(desk, folder, command):
    before, known, shown = written(folder), contents(folder), tables(folder)
    remove_lines(folder, 2)
    done = command("run", "quick.yaml", "--offline", "--jobs", 2, cwd=desk)
    assert "1 of 4 tasks to compute" in done.stderr
    assert changed(before, written(folder)) == {list(before)[2]}
    assert contents(folder) == known
    assert tables(folder) == shown


def test_all_tasks_of_a_deleted_file_are_computed_again(desk, folder, command):
    known, shown = contents(folder), tables(folder)
    shutil.rmtree(folder / "records")
    assert "4 of 4 tasks to compute" in command("run", "quick.yaml", "--offline", cwd=desk).stderr
    assert contents(folder) == known
    assert tables(folder) == shown


def test_fresh_computes_everything_again(desk, folder, command):
    before, known = written(folder), contents(folder)
    said = command("run", "quick.yaml", "--offline", "--fresh", cwd=desk).stderr
    assert "4 of 4 tasks to compute" in said
    assert "note: --fresh replaces 4 records, each when its task is done" in said
    assert changed(before, written(folder)) == set(before)
    assert contents(folder) == known
    assert leftovers(folder) == []


def test_a_number_is_not_replaced_by_a_failure(desk, folder, command):
    before, known, shown = written(folder), contents(folder), tables(folder)
    (desk / "quick.yaml").write_text(f"{QUICK}limits: {{seconds: 1.0e-6}}\n")
    done = command("run", "quick.yaml", "--offline", "--fresh", "-l", "uni_log", cwd=desk, exits=1)
    assert "wine uni_log trial 1 fold 2: timeout: " in done.stderr
    assert done.stderr.endswith("2 tasks failed this time: their records from before stay\n")
    assert (written(folder), contents(folder), tables(folder)) == (before, known, shown)
    assert leftovers(folder) == []
    assert "0 of 4 tasks to compute" in command("run", "quick.yaml", "--offline", cwd=desk, exits=0).stderr


def test_records_that_were_not_computed_again_are_counted_apart(desk, folder, command):
    (folder / "running").mkdir()
    (folder / "running/again.txt").write_text("\n".join(sorted(Store(folder).read())[:2]))
    (desk / "quick.yaml").write_text(f"{QUICK}limits: {{memory_gb: 1.0e-7}}\n")
    done = command("run", "quick.yaml", "--offline", cwd=desk, exits=1)
    assert "have no number" not in done.stderr
    assert done.stderr.endswith("2 records not computed again: they stay as they are\n")
    assert ".9" in done.stdout


def test_records_of_dropped_tasks_are_not_computed_again_any_more(desk, folder, command):
    """A run of fewer trials, or columns, ends what an interrupted ``--fresh`` had to do for the others."""
    (folder / "running").mkdir()
    (folder / "running/again.txt").write_text("\n".join(Store(folder).read()))
    (desk / "quick.yaml").write_text(QUICK.replace(", uni_squ", ""))
    done = command("run", "quick.yaml", "--offline", cwd=desk, exits=0)
    said = " ".join(done.stderr.split())
    assert "note: 2 records that an interrupted run was to compute again: the experiment does not have" in said
    (desk / "quick.yaml").write_text(QUICK)
    done = command("run", "quick.yaml", "--offline", cwd=desk, exits=0)
    assert "0 of 4 tasks to compute" in done.stderr
    assert "interrupted" not in done.stderr


def test_fresh_computes_only_what_the_command_line_names(desk, folder, command):
    before = written(folder)
    command("run", "quick.yaml", "--offline", "--fresh", "-l", "uni_log", cwd=desk, exits=0)
    after = written(folder)
    assert changed(before, after) == {key for key in before if key[1] == "uni_log"}
    assert after.keys() == before.keys()


def test_changed_experiment_computes_only_what_has_changed(desk, folder, command):
    before = written(folder)
    text = QUICK.replace("uni_squ", "{learner: uni_squ, grid: {eta: [0.25]}}").replace("no time", "other words")
    (desk / "quick.yaml").write_text(text)
    done = command("run", "quick.yaml", "--offline", "--jobs", 2, cwd=desk)
    assert "2 of 4 tasks to compute" in done.stderr
    after = written(folder)
    assert {key: after[key] for key in before} == before
    assert len(after) == 6
    status = " ".join(command("status", "quick.yaml", cwd=desk).stdout.split())
    assert "2 records orphaned" in status
    (desk / "quick.yaml").write_text(QUICK)
    assert "0 of 4 tasks to compute" in command("run", "quick.yaml", "--offline", cwd=desk).stderr


def test_definitions_of_orphaned_records_stay_in_the_manifest(desk, folder, command):
    (desk / "quick.yaml").write_text(QUICK.replace("uni_squ", "{learner: uni_squ, grid: {eta: [0.25]}}"))
    command("run", "quick.yaml", "--offline", cwd=desk, exits=0)
    manifest = read_manifest(folder)
    found = Store(folder).read().values()
    assert {record.definition for record in found} == set(manifest.definitions)
    assert {record.environment for record in found} == set(manifest.environments)
    assert len(manifest.definitions) == 3


def test_pack_prune_removes_orphaned_records_and_what_only_they_need(desk, folder, command):
    before = written(folder)
    changed_grid = QUICK.replace("uni_squ", "{learner: uni_squ, grid: {eta: [0.25]}}")
    (desk / "quick.yaml").write_text(changed_grid)
    # Before the changed config was run, nothing is orphaned: its records are those of the last run.
    assert command("pack", "quick.yaml", "--prune", cwd=desk).stdout == "results/quick/: nothing to pack\n"
    assert written(folder) == before
    command("run", "quick.yaml", "--offline", cwd=desk, exits=0)
    old = [record_of_line(line) for key, line in before.items() if key[1] == "uni_squ"]
    (desk / "results/other").mkdir()
    content = json.loads((folder / "manifest.json").read_text())
    (desk / "results/other/manifest.json").write_text(json.dumps({**content, "reused": {"quick": [old[0].id]}}))
    done = command("pack", folder, "--prune", cwd=desk)
    assert done.stdout.splitlines()[-1].startswith("1 orphaned record removed, 1 orphaned record kept, to which other")
    assert {record.id for record in old} & set(Store(folder).read()) == {old[0].id}
    shutil.rmtree(desk / "results/other")
    assert command("pack", folder, "--prune", cwd=desk).stdout.splitlines()[-1] == "1 orphaned record removed"
    assert len(written(folder)) == 4
    assert set(read_manifest(folder).definitions) == {record.definition for record in Store(folder).read().values()}
    assert "orphaned" not in command("status", "quick.yaml", cwd=desk).stdout
    command("verify", folder, "--sample", 0, cwd=desk, exits=0)


def test_pack_prune_ignores_manifests_of_other_programs(desk, folder, command):
    (desk / "results/website").mkdir()
    (desk / "results/website/manifest.json").write_text('{"name": "a web page", "icons": []}')
    assert command("pack", "quick.yaml", "--prune", cwd=desk, exits=0).stdout == "results/quick/: nothing to pack\n"


def test_pack_prune_keeps_records_whose_learner_has_changed(tmp_path, command):
    """Nothing else has their numbers, until the learner has been run as it is."""
    (tmp_path / "own.py").write_text("from opauc_bench.learners import UniLog\n\n\nclass Own(UniLog):\n    pass\n")
    (tmp_path / "quick.yaml").write_text(QUICK.replace("uni_squ", "{learner: own.py:Own, name: own}"))
    command("run", "quick.yaml", "--offline", cwd=tmp_path, exits=0)
    folder = tmp_path / "results/quick"
    before = written(folder)
    (tmp_path / "own.py").write_text((tmp_path / "own.py").read_text() + "# edited\n")
    assert "2 records orphaned" in command("status", "quick.yaml", cwd=tmp_path).stdout
    assert "nothing to pack" in command("pack", folder, "--prune", cwd=tmp_path).stdout
    assert written(folder) == before
    command("run", "quick.yaml", "--offline", cwd=tmp_path, exits=0)
    assert "2 orphaned records removed" in command("pack", folder, "--prune", cwd=tmp_path).stdout
    moved = tmp_path / "elsewhere/results/quick"
    moved.parent.mkdir(parents=True)
    folder.rename(moved)
    done = command("report", ".", cwd=moved, exits=0)
    assert done.stderr.startswith("note: own: shown as recorded: no file ")
    assert command("report", "../../../quick.yaml", "--out", ".", cwd=moved, exits=0).stdout == done.stdout
    beside = moved.rename(tmp_path / "beside")
    assert command("report", ".", cwd=beside, exits=0).stderr == ""


def test_pack_prune_keeps_records_of_a_renamed_column_whose_tasks_have_no_other(desk, folder, command):
    before = written(folder)
    (desk / "quick.yaml").write_text(QUICK.replace("uni_squ", "{learner: uni_squ, name: renamed}"))
    command("report", "quick.yaml", "--write", cwd=desk, exits=0)
    (desk / "quick.yaml").write_text(QUICK.replace("uni_squ", "{learner: uni_squ, name: renamed, grid: {eta: [0.25]}}"))
    command("run", "quick.yaml", "--offline", "-l", "uni_log", cwd=desk, exits=0)
    command("report", "quick.yaml", "--write", cwd=desk, exits=0)
    done = command("pack", folder, "--prune", cwd=desk, exits=0)
    assert "nothing to pack, 2 orphaned records kept, whose tasks have no other" in done.stdout
    assert written(folder) == before


@pytest.fixture
def reusing(desk, folder):
    """The folder of an experiment that takes its four records from ``folder``, beside it."""
    (desk / "second.yaml").write_text(QUICK + "reuse: [quick]\n")
    yield desk / "results" / "second"
    shutil.rmtree(desk / "results" / "second", ignore_errors=True)


@pytest.mark.parametrize("form", ["inside", "link"])
def test_folders_that_are_referred_to_are_beside_the_folder_however_it_is_written(
    desk, reusing, command, tmp_path, form
):
    command("run", "second.yaml", "--offline", cwd=desk, exits=0)
    shown = command("report", "second.yaml", cwd=desk, exits=0).stdout
    if form == "link":
        reusing.rename(tmp_path / "far")
        reusing.symlink_to(tmp_path / "far")
    where = {"cwd": reusing} if form == "inside" else {"cwd": desk}
    folder = "." if form == "inside" else "results/second"
    try:
        assert command("report", folder, **where, exits=0).stdout == shown
        assert "WRONG" not in command("verify", folder, "--sample", 0, **where, exits=0).stdout
        copied = command("pack", folder, "--self-contained", **where, exits=0).stdout
        assert "4 copied from other folders" in copied
    finally:
        if form == "link":
            reusing.unlink()


def test_a_failed_record_gives_way_to_a_number_of_another_folder(desk, reusing, command):
    (desk / "second.yaml").write_text(QUICK)
    command("run", "second.yaml", "--offline", cwd=desk, exits=0)
    record = next(iter(Store(reusing).read().values()))
    forge(reusing, record, {"status": "error", "message": "the disk was full"})
    (desk / "second.yaml").write_text(QUICK + "reuse: [quick]\n")
    done = command("run", "second.yaml", "--offline", cwd=desk, exits=0)
    assert "0 of 4 tasks to compute" in done.stderr
    assert read_manifest(reusing).reused == {"quick": (record.id,)}
    assert record.id not in Store(reusing).read()
    command("verify", "second.yaml", "--sample", 0, cwd=desk, exits=0)


def test_note_on_metrics_that_are_lost_when_a_run_computes_others(desk, reusing, command):
    scores = QUICK.replace("protocol: {", "protocol: {keep_scores: true, ")
    (desk / "second.yaml").write_text(scores)
    command("run", "second.yaml", "--offline", cwd=desk, exits=0)
    command("metrics", "second.yaml", "--add", "average_precision", cwd=desk, exits=0)
    (desk / "second.yaml").write_text(scores.replace("protocol: {", "protocol: {metrics: [auc, partial_auc@0.1], "))
    done = " ".join(command("run", "second.yaml", "--offline", cwd=desk, exits=0).stderr.split())
    assert "4 records that are computed again lose average_precision, which 'opauc-bench metrics' added" in done


def test_note_on_a_folder_with_results_of_another_experiment_of_the_same_name(desk, folder, command):
    (desk / "quick.yaml").write_text(
        QUICK.replace("Tasks of no time", "Other grids").replace("eta: [", "eta: [0.375, ")
    )
    done = " ".join(command("run", "quick.yaml", "--offline", cwd=desk, exits=0).stderr.split())
    assert "note: results/quick/ has 4 records of 'Tasks of no time', and none of quick.yaml as it is" in done


def test_a_manifest_without_a_newer_key_of_the_config_is_of_the_same_config(desk, folder, command):
    manifest = json.loads((folder / "manifest.json").read_text())
    del manifest["experiment"]["report"]["rope"]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    done = command("run", "quick.yaml", "--offline", cwd=desk)
    assert "0 of 4 tasks to compute" in done.stderr
    assert "has changed since" not in done.stderr


def test_a_config_that_only_looks_different_is_not_computed_and_the_note_says_how_to_render_it(desk, folder, command):
    before = tables(folder)
    (desk / "quick.yaml").write_text(QUICK.replace("Tasks of no time", "Another title"))
    done = command("run", "quick.yaml", "--offline", cwd=desk)
    assert "0 of 4 tasks to compute" in done.stderr
    said = " ".join(done.stderr.split())
    assert "note: quick.yaml has changed since the tables were written; opauc-bench report quick.yaml --write" in said
    assert tables(folder) == before
    command("report", "quick.yaml", "--write", cwd=desk, exits=0)
    assert "Another title" in (folder / "table.md").read_text()
    assert "note:" not in command("run", "quick.yaml", "--offline", cwd=desk).stderr


def test_more_trials_add_to_the_records(desk, folder, command):
    before = written(folder)
    (desk / "quick.yaml").write_text(QUICK.replace("trials: 1", "trials: 2"))
    assert "4 of 8 tasks to compute" in command("run", "quick.yaml", "--offline", "--jobs", 2, cwd=desk).stderr
    after = written(folder)
    assert changed(before, after) == {key for key in after if key[2] == 1}
    assert list(after) == sorted(after), "lines are sorted by column, trial and fold"


def test_tables_are_written_again_after_a_learner_was_changed_and_changed_back(desk, command):
    (desk / "quick.yaml").write_text(QUICK.replace("uni_squ", '"mine.py:Hebb"'))
    learner = desk / "mine.py"
    first = learner.read_text()
    run = ("run", "quick.yaml", "--offline")
    command(*run, cwd=desk, exits=0)
    expected = tables(desk / "results/quick")
    learner.write_text(first.replace("+= ", "-= "))
    assert learner.read_text() != first
    command(*run, cwd=desk, exits=0)
    assert tables(desk / "results/quick") != expected
    learner.write_text(first)
    done = command(*run, cwd=desk, exits=0)
    assert "0 of 4 tasks to compute" in done.stderr
    assert "written to results/quick/" in done.stdout
    assert tables(desk / "results/quick") == expected
    command("verify", "results/quick", "--sample", 0, cwd=desk, exits=0)
    assert "written to" not in command(*run, cwd=desk, exits=0).stdout
    (desk / "results/quick/folds.csv").unlink()  # as in a clone: it is not committed
    assert "written to" not in command(*run, cwd=desk, exits=0).stdout


def test_second_run_in_the_same_folder_at_the_same_time_is_refused(desk, folder, command):
    with open(folder / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write("4242")
        lock.flush()
        second = command("run", "quick.yaml", "--offline", cwd=desk, exits=1)
        assert "another run (process 4242) is at work in this folder" in second.stderr
        assert "--out" in second.stderr
        assert command("report", "quick.yaml", cwd=desk).returncode == 0, "reading is allowed"
        told = "a run (process 4242) is at work in this folder: 0 records not packed yet"
        assert told in " ".join(command("status", "quick.yaml", cwd=desk, exits=0).stdout.split())
        unpack(folder)
        status = " ".join(command("status", "quick.yaml", cwd=desk, exits=0).stdout.split())
        assert told.replace("0 records", "4 records") in status
        assert "interrupted" not in status
    assert "4 records of an interrupted run" in " ".join(command("status", "quick.yaml", cwd=desk).stdout.split())
    command("run", "quick.yaml", "--offline", cwd=desk, exits=0)
    assert (folder / ".lock").read_text() == str(os.getpid())


@pytest.mark.faults
@pytest.mark.processes
def test_environments_are_those_of_the_workers_before_a_learner_loads_its_own_libraries(desk, command):
    """Here, what a learner's module imports changes which BLAS is found; in this process it is imported first."""
    with (desk / "mine.py").open("a") as file:
        file.write(
            "\nfrom opauc_bench.results import environment\n"
            "environment._blas = lambda: 'one that a learner has loaded'\n"
        )
    (desk / "quick.yaml").write_text(QUICK.replace("uni_squ", '"mine.py:Paused"'))
    command("run", "quick.yaml", "--offline", "--jobs", 2, cwd=desk, exits=0)
    environments = read_manifest(desk / "results/quick").environments
    blas = {environments[record.environment]["blas"] for record in Store(desk / "results/quick").read().values()}
    assert len(blas) == 1
    assert "one that a learner has loaded" not in blas


def test_a_run_of_other_columns_keeps_the_tables_of_a_learner_that_has_changed(tmp_path, command):
    (tmp_path / "own.py").write_text("from opauc_bench.learners import UniLog\n\n\nclass Own(UniLog):\n    pass\n")
    (tmp_path / "quick.yaml").write_text(QUICK.replace("uni_squ", "{learner: own.py:Own, name: own}"))
    command("run", "quick.yaml", "--offline", cwd=tmp_path, exits=0)
    before = snapshot(tmp_path / "results/quick")
    (tmp_path / "own.py").write_text((tmp_path / "own.py").read_text() + "# edited\n")
    done = command("run", "quick.yaml", "--offline", "-l", "uni_log", cwd=tmp_path, exits=0)
    assert done.stderr.startswith("0 of 2 tasks to compute")
    assert snapshot(tmp_path / "results/quick") == before
    assert "WRONG" not in command("verify", "results/quick", "--sample", 0, cwd=tmp_path, exits=0).stdout


def test_pack_prune_keeps_records_whose_settings_another_folder_has_taken(desk, folder, command):
    before = written(folder)
    (desk / "quick.yaml").write_text(QUICK.replace("uni_squ", "{learner: uni_squ, grid: {eta: [0.25]}}"))
    command("run", "quick.yaml", "--offline", cwd=desk, exits=0)
    old = next(record_of_line(line) for key, line in before.items() if key[1] == "uni_squ")
    (desk / "results/other").mkdir()
    content = json.loads((folder / "manifest.json").read_text())
    (desk / "results/other/manifest.json").write_text(json.dumps({**content, "selected_in": {"quick": [old.id]}}))
    command("pack", folder, "--prune", cwd=desk, exits=0)
    assert old.id in Store(folder).read()
