"""Shares of an experiment are disjoint and complete, and joining them gives what one run gives; what pack does."""

import json
import shutil

import pytest
from folders import edit, forge, record_of, records_of, remove_records, snapshot, unpack
from hypothesis import given
from hypothesis import strategies as st
from reference.records import record_of as stored_record
from reference.records import task_of

from opauc_bench.commands.merge import _difference
from opauc_bench.commands.pack import pack_results
from opauc_bench.commands.session import Session
from opauc_bench.commands.shards import Shard, parse_shard
from opauc_bench.config import load_experiment
from opauc_bench.data import Sources
from opauc_bench.errors import ConfigError
from opauc_bench.learners import get_learner
from opauc_bench.plan import make_columns, make_plan
from opauc_bench.results.manifest import read_manifest
from opauc_bench.results.record import Record
from opauc_bench.results.store import Store
from opauc_bench.task import Shape

TEXT = """
title: An experiment in shares
datasets: [wine, breast_cancer]
learners: [uni_log, uni_squ]
grids: {eta: [0.25, 0.5]}
protocol: {trials: 2, folds: 2, inner_folds: 2}
"""
NUMBERS = ("folds.csv", "table.csv", "table.md", "table.html", "table.tex")


@pytest.fixture
def experiment(tmp_path):
    (tmp_path / "shared.yaml").write_text(TEXT)
    return load_experiment(tmp_path / "shared.yaml")


@given(count=st.integers(1, 20), sizes=st.lists(st.integers(10, 10**6), min_size=2, max_size=2))
def test_shares_are_disjoint_complete_even_and_do_not_depend_on_costs(tmp_path_factory, count, sizes):
    path = tmp_path_factory.mktemp("x") / "shared.yaml"
    path.write_text(TEXT)
    experiment = load_experiment(path)
    columns = make_columns(experiment, get_learner)

    def shares(sizes):
        shapes = {name: Shape(n, 5, 1.0, "f") for name, n in zip(experiment.datasets, sizes)}
        tasks = make_plan(experiment, shapes, columns)
        return tasks, [Shard(i, count).select(tasks, experiment) for i in range(1, count + 1)]

    tasks, parts = shares(sizes)
    names = [{task.label for task in part} for part in parts]
    assert sorted(label for part in names for label in part) == sorted(task.label for task in tasks)
    assert max(map(len, names)) - min(map(len, names)) <= 1
    assert [{task.label for task in part} for part in shares(sizes[::-1])[1]] == names


@pytest.mark.parametrize("text", ["0/3", "4/3", "1", "a/b", "1/0", "-1/3", "1/3/5", ""])
def test_malformed_share_is_refused(text):
    with pytest.raises(ConfigError, match="expected i/n"):
        parse_shard(text)


def test_a_share_without_tasks(command, tmp_path):
    (tmp_path / "e.yaml").write_text(TEXT.replace(", breast_cancer", "").replace(", uni_squ", ""))
    done = command("run", "e.yaml", "--shard", "5/6", cwd=tmp_path, exits=2)
    assert "shard 5/6 has no tasks" in done.stderr


# ---------------------------------------------------------------------- merge


@pytest.fixture(scope="module")
def desk(invoke, tmp_path_factory):
    """A folder with an experiment that was run as a whole, and in three shares."""
    desk = tmp_path_factory.mktemp("shares")
    (desk / "shared.yaml").write_text(TEXT)
    runs = [("--out", "whole"), *(("--shard", f"{i}/3") for i in (1, 2, 3))]
    for options in runs:
        invoke("run", "shared.yaml", "--offline", "--jobs", 1, *options, cwd=desk, exits=0)
    return desk


@pytest.fixture
def shards(desk, tmp_path):
    """Copies of the folders of the shares, to be tampered with, and the config beside them."""
    shutil.copy(desk / "shared.yaml", tmp_path)
    return [shutil.copytree(desk / f"results/shared.shard-{i}-of-3", tmp_path / f"shard{i}") for i in (1, 2, 3)]


def test_joined_shares_are_what_one_run_gives(command, desk, shards, tmp_path):
    assert sorted(len(records_of(folder)) for folder in shards) == [5, 5, 6]
    merged = command("merge", "shared.yaml", *shards, cwd=tmp_path, exits=0)
    assert "16 records merged into results/shared/, 0 were there" in merged.stderr
    result = tmp_path / "results/shared"
    for name in NUMBERS:
        assert (result / name).read_bytes() == (desk / "whole" / name).read_bytes()
    of_the_shards = {line for folder in shards for path in folder.glob("records/*") for line in path.open()}
    assert {line for path in result.glob("records/*") for line in path.open()} == of_the_shards
    whole = read_manifest(desk / "whole")
    assert read_manifest(result).model_copy(update={"memory_bytes": whole.memory_bytes}) == whole
    before = snapshot(result / "records")
    again = command("merge", "shared.yaml", *shards, cwd=tmp_path)
    assert "0 records merged into results/shared/, 16 were there" in again.stderr
    assert snapshot(result / "records") == before
    command("verify", result, "--sample", 0, cwd=tmp_path, exits=0)


def test_the_manifest_of_a_share_says_which_it_is(shards):
    assert [read_manifest(folder).shard for folder in shards] == ["1/3", "2/3", "3/3"]


def test_merge_says_which_shard_is_missing_and_takes_it_later(command, desk, shards, tmp_path):
    some = command("merge", "shared.yaml", shards[0], shards[2], cwd=tmp_path, exits=1)
    said = " ".join(some.stderr.split())
    assert "5 of 16 tasks have no record: wine uni_log trial 1 fold 2, " in said
    assert "and 2 more" in said
    assert "no folder has shard 2/3: opauc-bench run shared.yaml --shard 2/3" in said
    assert "opauc-bench run shared.yaml computes the missing tasks here" in said
    assert len(records_of(tmp_path / "results/shared")) == 11
    rest = command("merge", "shared.yaml", shards[1], cwd=tmp_path, exits=0)
    assert "5 records merged into results/shared/, 11 were there" in rest.stderr
    assert (tmp_path / "results/shared/folds.csv").read_bytes() == (desk / "whole/folds.csv").read_bytes()


def test_shards_that_were_merged_before_are_not_missing(command, shards, tmp_path):
    command("merge", "shared.yaml", shards[0], cwd=tmp_path, exits=1)
    done = command("merge", "shared.yaml", shards[1], cwd=tmp_path, exits=1)
    said = " ".join(done.stderr.split())
    assert "no folder has shard 3/3: " in said
    assert "no folder has shard 1/3" not in said


def test_merge_names_the_tasks_that_a_share_has_not_finished(command, shards, tmp_path):
    lost = records_of(shards[1])[0]
    remove_records(shards[1], lost)
    done = command("merge", "shared.yaml", *shards, cwd=tmp_path, exits=1)
    assert f"1 of 16 tasks have no record: {lost.label}" in " ".join(done.stderr.split())
    assert "no folder has shard" not in done.stderr


def test_merge_leaves_out_what_a_share_was_to_compute_again(command, shards, tmp_path):
    left = sorted(record.id for record in records_of(shards[1]))[:2]
    (shards[1] / "running").mkdir()
    (shards[1] / "running/again.txt").write_text("\n".join(left))
    done = command("merge", "shared.yaml", *shards, cwd=tmp_path, exits=1)
    said = " ".join(done.stderr.split())
    assert f"{shards[1]}: without 2 records that an interrupted run was to compute again" in said
    assert "2 of 16 tasks have no record" in said
    assert {record.id for record in records_of(tmp_path / "results/shared")}.isdisjoint(left)


def merge_is_refused(command, place, *arguments):
    """Merge; return what it says, after a look that it has left nothing behind."""
    before = snapshot(place)
    done = command("merge", *arguments, cwd=place)
    assert (done.returncode, done.stdout) == (1, "")
    assert snapshot(place) == before
    return done.stderr


def test_folder_without_results_is_not_merged(command, shards, tmp_path):
    assert "there is no such folder" in merge_is_refused(command, tmp_path, "shared.yaml", shards[0], "nowhere")
    assert "it has no manifest.json" in merge_is_refused(command, tmp_path, "shared.yaml", shards[0], tmp_path)


def test_records_of_another_experiment_are_not_merged(command, shards, tmp_path):
    (tmp_path / "other.yaml").write_text(TEXT.replace("[0.25, 0.5]", "[0.25]"))
    said = merge_is_refused(command, tmp_path, "other.yaml", *shards)
    assert "of another experiment than other.yaml: another grid" in said
    assert f"after a change of it run this shard again, then: opauc-bench pack {shards[0]} --prune" in said


def test_records_that_contradict_each_other_are_not_merged(command, shards, tmp_path):
    copy = shutil.copytree(shards[0], tmp_path / "copy")
    record = records_of(copy)[0]
    forge(copy, record, {"outcome.metrics.auc": record.metrics["auc"] / 2})
    said = merge_is_refused(command, tmp_path, "shared.yaml", *shards, copy)
    assert f"two records of {record.label} differ in the test set's metrics: {record.metrics['auc']!r} in " in said
    assert "nothing was merged" in said


@pytest.mark.parametrize("place", ["outcome.selected", "outcome.selection.auc"])
def test_records_of_different_searches_are_not_merged(command, shards, tmp_path, place):
    copy = shutil.copytree(shards[0], tmp_path / "copy")
    record = records_of(copy)[0]
    aucs = record.selection.auc.tolist()
    other = {axis: 2 * value for axis, value in record.selected.items()}
    forge(copy, record, {place: other if place == "outcome.selected" else [*aucs[:-1], aucs[-1] / 2]})
    said = merge_is_refused(command, tmp_path, "shared.yaml", *shards, copy)
    assert f"differ in the {'selected setting' if place == 'outcome.selected' else 'inner AUCs'}: " in said


def test_inner_aucs_may_differ_in_their_last_bits(command, shards, tmp_path):
    copy = shutil.copytree(shards[0], tmp_path / "copy")
    record = records_of(copy)[0]
    forge(copy, record, {"outcome.selection.auc": [auc - 1e-15 for auc in record.selection.auc.tolist()]})
    command("merge", "shared.yaml", *shards, copy, cwd=tmp_path, exits=0)


def test_damaged_records_are_not_merged(command, shards, tmp_path):
    for folder in shards[:2]:
        edit(folder, records_of(folder)[0], {"outcome.metrics.auc": 0.0})
    assert "1 damaged record:" in merge_is_refused(command, tmp_path, "shared.yaml", *shards)


def test_results_on_other_data_are_not_merged(command, shards, tmp_path):
    path = shards[1] / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["datasets"]["wine"]["fingerprint"] = "0" * 64
    path.write_text(json.dumps(manifest))
    said = merge_is_refused(command, tmp_path, "shared.yaml", *shards, "--out", "third/inner")
    assert "on another wine than" in said


def test_an_unknown_test_is_refused_before_anything_is_merged(command, shards, tmp_path):
    before = snapshot(tmp_path)
    command("merge", "shared.yaml", *shards, "--test", "none", cwd=tmp_path, exits=2)
    assert snapshot(tmp_path) == before


def test_a_refused_merge_leaves_earlier_results_as_they_are(command, shards, tmp_path):
    command("merge", "shared.yaml", shards[0], cwd=tmp_path, exits=1)
    edit(shards[2], records_of(shards[2])[0], {"column": "uni_exp"})
    before = snapshot(tmp_path / "results")
    command("merge", "shared.yaml", shards[1], shards[2], cwd=tmp_path, exits=1)
    after = snapshot(tmp_path / "results")
    lock = "shared/.lock"
    assert {**after, lock: None} == {**before, lock: None}


def test_computed_record_replaces_a_failure(command, shards, tmp_path):
    copy = shutil.copytree(shards[0], tmp_path / "copy")
    record = records_of(copy)[0]
    forge(copy, record, {"status": "error", "message": "lost"})
    done = command("merge", "shared.yaml", copy, *shards, cwd=tmp_path, exits=0)
    assert "16 records merged" in done.stderr
    result = record_of(tmp_path / "results/shared", record.dataset, record.column, record.fold + 1, record.trial + 1)
    assert (result.status, result.metrics) == ("ok", record.metrics)


def test_advice_in_the_folder_of_a_share_is_about_the_share(command, desk, tmp_path):
    shutil.copy(desk / "shared.yaml", tmp_path)
    folder = shutil.copytree(desk / "results/shared.shard-1-of-3", tmp_path / "results/shared.shard-1-of-3")
    record = records_of(folder)[0]
    edit(folder, record, {"outcome.n_test": 1})
    for place in [["results/shared.shard-1-of-3"], ["shared.yaml", "--out", "results/shared.shard-1-of-3"]]:
        said = " ".join(command("status", *place, cwd=tmp_path).stdout.split())
        assert "opauc-bench run shared.yaml --shard 1/3 computes damaged records again" in said
    again = command("run", "shared.yaml", "--shard", "1/3", "--offline", "--jobs", 1, cwd=tmp_path)
    assert "1 of 6 tasks to compute" in again.stderr
    assert read_manifest(folder).shard == "1/3"


def test_merge_says_that_records_lack_a_metric(command, shards, tmp_path):
    (tmp_path / "shared.yaml").write_text(TEXT.replace("protocol: {", "protocol: {metrics: [average_precision], "))
    done = command("merge", "shared.yaml", *shards, cwd=tmp_path, exits=1)
    said = " ".join(done.stderr.split())
    assert "16 records without a metric of the config: opauc-bench run shared.yaml computes them again" in said


def test_merge_takes_metrics_and_scores_along(command, tmp_path):
    text = TEXT.replace("protocol: {", "protocol: {keep_scores: true, ")
    (tmp_path / "first.yaml").write_text(text)
    command("run", "first.yaml", "--offline", "--jobs", 1, cwd=tmp_path, exits=0)
    (tmp_path / "second.yaml").write_text(text + "reuse: [first]\n")
    command("run", "second.yaml", "--shard", "1/1", "--offline", "--jobs", 1, cwd=tmp_path, exits=0)
    share = tmp_path / "results/second.shard-1-of-1"
    command("merge", "second.yaml", share, cwd=tmp_path, exits=0)
    scores = {path.name: path.read_bytes() for path in (tmp_path / "results/second/scores").iterdir()}
    assert scores == {path.name: path.read_bytes() for path in (tmp_path / "results/first/scores").iterdir()}
    # Metrics that were added to the records of a share later come with them.
    command("metrics", share, "--add", "average_precision", cwd=tmp_path, exits=0)
    command("merge", "second.yaml", share, cwd=tmp_path, exits=0)
    assert all("average_precision" in record.metrics for record in records_of(tmp_path / "results/second"))


# ---------------------------------------------------------------------- records of other folders, and pack


@pytest.fixture
def reusing(command, desk, tmp_path):
    """An experiment whose first column is in another folder."""
    shutil.copytree(desk / "whole", tmp_path / "results/shared")
    (tmp_path / "shared.yaml").write_text(TEXT)
    (tmp_path / "both.yaml").write_text(TEXT.replace("[uni_log, uni_squ]", "[uni_log, oam_seq]") + "reuse: [shared]\n")
    done = command("run", "both.yaml", "--offline", "--jobs", 1, cwd=tmp_path, exits=0)
    assert "8 of 16 tasks to compute" in done.stderr
    return tmp_path / "results/both"


def without_lock(found):
    return {name: content for name, content in found.items() if not name.endswith(".lock")}


def test_reused_records_without_tables_are_no_finished_run(command, desk, tmp_path):
    shutil.copytree(desk / "whole", tmp_path / "results/shared")
    (tmp_path / "again.yaml").write_text(TEXT + "reuse: [shared]\n")
    (tmp_path / "results/again/table.md").mkdir(parents=True)
    done = command("run", "again.yaml", "--offline", "--jobs", 1, cwd=tmp_path)
    assert done.returncode != 0
    (tmp_path / "results/again/table.md").rmdir()
    command("run", "again.yaml", "--offline", "--jobs", 1, cwd=tmp_path, exits=0)
    assert (tmp_path / "results/again/folds.csv").read_bytes() == (desk / "whole/folds.csv").read_bytes()
    assert (tmp_path / "results/again/table.md").is_file()
    command("verify", "results/again", "--sample", 0, cwd=tmp_path, exits=0)


def test_self_contained_folder_needs_no_other_folder(command, reusing, tmp_path):
    tables = {name: (reusing / name).read_bytes() for name in NUMBERS}
    done = command("pack", reusing, "--self-contained", cwd=tmp_path, exits=0)
    assert "0 records packed, 8 copied from other folders" in done.stdout
    assert {line for path in reusing.glob("records/*") for line in path.open() if '"uni_log"' in line} == {
        line for path in tmp_path.glob("results/shared/records/*") for line in path.open() if '"uni_log"' in line
    }
    assert read_manifest(reusing).reused == {}
    moved = reusing.rename(tmp_path / "moved")
    shutil.rmtree(tmp_path / "results")
    verified = command("verify", moved, "--sample", 3, "--offline", "--jobs", 1, cwd=tmp_path, exits=0)
    assert "3 of 3 agree: 3 same bits" in verified.stdout
    assert "another platform" not in verified.stdout
    command("report", moved, "--to", "tables", cwd=tmp_path, exits=0)
    assert {name: (tmp_path / "tables" / name).read_bytes() for name in NUMBERS} == tables
    again = command("pack", moved, "--self-contained", cwd=tmp_path)
    assert again.stdout == f"{moved}/: nothing to pack\n"


def test_self_contained_folder_has_its_test_scores_after_a_kill(session_of_reuse, monkeypatch):
    session, scores = session_of_reuse

    def killed(store, other, id):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Store, "copy_scores", killed)
        with pytest.raises(KeyboardInterrupt):
            pack_results(session, self_contained=True)
    pack_results(session, self_contained=True)
    assert {path.name: path.read_bytes() for path in (session.folder / "scores").iterdir()} == scores
    assert read_manifest(session.folder).reused == {}


@pytest.fixture
def session_of_reuse(command, tmp_path, monkeypatch):
    """A session of records that are in another folder, and the test scores there."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "first.yaml").write_text(TEXT.replace("protocol: {", "protocol: {keep_scores: true, "))
    (tmp_path / "second.yaml").write_text((tmp_path / "first.yaml").read_text() + "reuse: [first]\n")
    for name in ("first", "second"):
        command("run", f"{name}.yaml", "--offline", "--jobs", 1, cwd=tmp_path, exits=0)
    scores = {path.name: path.read_bytes() for path in (tmp_path / "results/first/scores").iterdir()}
    return Session.open(tmp_path / "second.yaml", sources=Sources(tmp_path / "cache", offline=True)), scores


def test_pack_prune_drops_references_to_records_of_no_task(command, reusing, tmp_path):
    grid = next(line for line in TEXT.splitlines() if "grid" in line)
    for name in ("shared", "both"):
        path = tmp_path / f"{name}.yaml"
        path.write_text(path.read_text().replace(grid, "grids: {eta: [0.125, 0.0625]}"))
        command("run", path.name, "--offline", "--jobs", 1, cwd=tmp_path, exits=0)
    assert len(read_manifest(reusing).reused["shared"]) == 16
    for folder, removed, left in ((reusing, 8, 8), (reusing.parent / "shared", 16, 16)):
        done = command("pack", folder, "--prune", cwd=tmp_path)
        assert done.stdout.splitlines()[-1] == f"{removed} orphaned records removed"
        assert len(records_of(folder)) == left
    assert len(read_manifest(reusing).reused["shared"]) == 8
    command("verify", reusing, "--sample", 0, cwd=tmp_path, exits=0)


def test_pack_includes_records_of_an_interrupted_run(command, shards, tmp_path):
    folder = shards[0]
    before = snapshot(folder)
    unpack(folder)
    (folder / "folds.csv").unlink()
    status = " ".join(command("status", folder, cwd=tmp_path).stdout.split())
    assert f"{len(records_of(folder))} records of an interrupted run not packed" in status
    assert f"opauc-bench pack {folder}" in status
    done = command("pack", folder, cwd=tmp_path, exits=0)
    assert done.stdout == f"{folder}/: {len(records_of(folder))} records packed, 0 copied from other folders\n"
    assert not (folder / "running").exists()
    contents = {name: found and found[1] for name, found in without_lock(snapshot(folder)).items()}
    assert contents == {name: found and found[1] for name, found in without_lock(before).items()}
    packed = without_lock(snapshot(folder))
    assert command("pack", folder, cwd=tmp_path).stdout == f"{folder}/: nothing to pack\n"
    assert without_lock(snapshot(folder)) == packed


def test_a_published_table_of_other_cells_is_refused_before_anything_is_written(command, tmp_path):
    (tmp_path / "shared.yaml").write_text(TEXT)
    command("run", "shared.yaml", "--shard", "1/2", "--out", "one", cwd=tmp_path, exits=0)
    (tmp_path / "shared.yaml").write_text(TEXT + "report: {published: aij2016_table3}\n")
    done = command("merge", "shared.yaml", "one", "--out", "all", cwd=tmp_path)
    assert done.returncode == 2
    assert "has no dataset and learner in common" in done.stderr
    assert not (tmp_path / "all").exists()


def test_a_merge_has_the_least_memory_and_the_references_of_all_shards(command, shards, tmp_path):
    """Tasks left out on the smallest machine are too large; other folders must not lose what a shard has read."""
    for number, folder in enumerate(shards, 1):
        content = json.loads((folder / "manifest.json").read_text())
        content |= {"memory_bytes": number * 1e9, "selected_in": {f"table{number}": [f"{number}" * 16]}}
        (folder / "manifest.json").write_text(json.dumps(content))
    command("merge", "shared.yaml", *shards[::-1], cwd=tmp_path, exits=0)
    merged = read_manifest(tmp_path / "results/shared")
    assert merged.memory_bytes == 1e9
    assert merged.selected_in == {f"table{number}": (f"{number}" * 16,) for number in (1, 2, 3)}


@pytest.mark.parametrize("kind", ["sweep", "convergence", "prequential", "sketch_error"])
def test_records_whose_curves_differ_contradict_each_other(kind):
    record = stored_record(task_of(kind))
    content = record.model_dump(mode="json", exclude_defaults=True)
    (name, values), *_ = reversed(content["outcome"]["columns"].items())
    content["outcome"]["columns"][name] = [*values[:-1], 0.125]
    other = Record.model_validate(content)
    assert _difference(record, record) == ""
    assert _difference(record, other) == " in their curves"
