"""Verifying a results folder, from the outside: what was computed agrees, and what was changed is found."""

import json
import re
import shutil

import numpy as np
import pandas as pd
import pytest
from folders import HEBB, REMOVED, edit, forge, record_of, records_of, remove_records, signed, snapshot
from hypothesis import given
from hypothesis import strategies as st

from opauc_bench import load_results
from opauc_bench.commands.verify import _compared, compare_records, draw
from opauc_bench.learners import UniLog
from opauc_bench.results.environment import differences
from opauc_bench.results.environment import environment as environment_here
from opauc_bench.results.manifest import add_environment, read_manifest
from opauc_bench.results.record import Record, record_to_line
from opauc_bench.task import Task, content_hash, identity_of

TINY = """
title: A tiny experiment
datasets: [wine, breast_cancer, mine]
catalogue: mine.yaml
learners: [opauc, uni_log, Flat.py:Flat]
grids: {eta: {pow2: [-8, 0, 4]}, lambda: {pow2: [-6, 0, 6]}}
protocol: {trials: 1, folds: 3, inner_folds: 2}
"""

CATALOGUE = """
datasets:
  mine:
    title: Thirty rows of two numbers
    format: csv
    files: [{name: mine.csv, urls: ["file://%s"]}]
    n_samples: 30
    n_features: 2
    positive: [1]
    scaling: none
"""

# On wine it overflows with every setting, so its records there say that it diverged.
FLAT = (
    HEBB
    + """

class Flat(Hebb):
    def behave(self, state, X):
        if X.shape[1] == 13:
            state.W[:] = np.inf
"""
)


@pytest.fixture(scope="module")
def place(invoke, tmp_path_factory):
    """A folder with an experiment that was run, and the data that only it has."""
    desk = tmp_path_factory.mktemp("verify")
    (desk / "tiny.yaml").write_text(TINY)
    (desk / "mine.yaml").write_text(CATALOGUE % (desk / "mine.csv"))
    (desk / "Flat.py").write_text(FLAT)
    values = np.random.default_rng(0).uniform(-1, 1, (30, 2)).round(3)
    (desk / "mine.csv").write_text("".join(f"{a},{b},{i % 2}\n" for i, (a, b) in enumerate(values)))
    done = invoke("run", "tiny.yaml", "--offline", "--jobs", 2, cwd=desk, exits=1)
    assert "3 diverged" in done.stderr
    return desk


@pytest.fixture
def copy(place, tmp_path):
    """A copy of the results, to be tampered with; the config stays where it is."""
    folder = place / "results" / tmp_path.name
    shutil.copytree(place / "results" / "tiny", folder)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def verify(command, place):
    def call(folder, *options, exits=None):
        done = command("verify", folder, "--offline", "--jobs", 1, *options, cwd=place, exits=exits)
        done.text = " ".join(done.stdout.split())
        return done

    return call


def wrong(done):
    """The findings, each on one line."""
    return [" ".join(text.split()) for text in re.findall(r"^WRONG(.*(?:\n {7}.*)*)", done.stdout, re.M)]


# ---------------------------------------------------------------------- nothing was changed


def test_verify_agrees_to_the_last_bit_and_writes_nothing(verify, place):
    before = snapshot(place / "results")
    refused = verify("results/tiny", "--all", "--sample", "3", exits=2)
    assert "--all computes all records again, and --sample 3 some: expected one of them" in refused.stderr
    done = verify("results/tiny", "--all", exits=0)
    assert "27 records, 27 of the experiment are in order" in done.text
    assert "27 of 27 agree: 27 same bits" in done.text
    assert "WRONG" not in done.text
    assert "checksums, ids, fingerprints, selected settings and tables agree with the records" in done.text
    assert re.search(r"wine Flat 1\.1 diverged same 3 same \d+ s same bits", done.text), "what diverged is drawn too"
    assert all(len(line) <= 80 for line in done.stdout.splitlines() if "/" not in line)
    assert snapshot(place / "results") == before


def test_a_config_in_place_of_its_folder(verify):
    done = verify("tiny.yaml", "--sample", 0, exits=0)
    assert done.stdout.startswith("results/tiny/: 27 records, 27 of the experiment are in order")


def test_the_folder_can_be_named_from_elsewhere(command, place, tmp_path):
    done = command("verify", place / "results" / "tiny", "--offline", "--sample", 1, "-j", 1, cwd=tmp_path, exits=0)
    assert "1 of 1 agree" in done.stdout


def test_seed_draws_the_same_records_and_a_new_seed_is_printed(verify):
    drawn = [
        re.findall(r"^(\w+ +\w+ +\d\.\d)", verify("results/tiny", "-n", 2, "--seed", 3).stdout, re.M) for _ in "ab"
    ]
    assert drawn[0] == drawn[1]
    assert len(drawn[0]) == 2
    fresh = verify("results/tiny", "--sample", 1)
    seed = re.search(r"1 of 27 at random \(--seed (\d+) draws the same\)", fresh.text)[1]
    again = verify("results/tiny", "--sample", 1, "--seed", seed)
    row = r"^\w+ +\w+ +\d\.\d +[.\w]+ "
    assert re.search(row, fresh.stdout, re.M)[0] == re.search(row, again.stdout, re.M)[0]


def test_sample_can_be_restricted(verify):
    done = verify("results/tiny", "--all", "--dataset", "mine", "--learner", "uni_log", exits=0)
    assert "3 of 3 agree" in done.text
    quick = verify("results/tiny", "--all", "--max-seconds", 0, "-d", "mine", exits=1)
    assert "no record can be computed again" in quick.stderr
    assert "took over 0 s" in quick.stderr
    assert "try: opauc-bench verify with another --max-seconds" in quick.stderr
    verify("results/tiny", "-d", "wien", exits=2)


# ---------------------------------------------------------------------- records that were edited


def test_a_signed_record_is_what_the_program_writes(copy):
    """Otherwise what is forged below would be found for the wrong reason."""
    for record in records_of(copy):
        content = json.loads(record_to_line(record))
        del content["checksum"]
        assert signed(content) == record_to_line(record)


def test_an_edited_record_is_found_by_its_checksum(verify, copy):
    record = record_of(copy)
    edit(copy, record, {"outcome.metrics.auc": record.metrics["auc"] - 2**-30})
    done = verify(copy, "--sample", 0, exits=1)
    (found,) = wrong(done)
    assert re.search(r"records/wine\.jsonl, line \d: its checksum is [0-9a-f]{16}, its content gives ", found)
    assert "27 records, 26 of the experiment are in order" in done.text
    assert "tables were not compared with the records" in done.text


@pytest.mark.parametrize(
    "changes",
    [
        {"timing.wall_seconds": 0.0},
        {"column": "uni_log"},
        {"outcome.learner_info": {"note": "by hand"}},
        {"environment": "0" * 16},
        {"checksum": "0" * 16},
    ],
    ids=str,
)
def test_any_edit_is_found(verify, copy, changes):
    edit(copy, record_of(copy), changes)
    assert "its checksum is" in "".join(wrong(verify(copy, "--sample", 0)))


def test_a_run_of_a_part_names_and_drops_damaged_records_of_other_parts(command, copy, place):
    edit(copy, record_of(copy), {"outcome.metrics.auc": 0.0})
    part = command("run", "tiny.yaml", "--out", copy, "--offline", "--jobs", 1, "-d", "mine", "--fresh", cwd=place)
    assert "damaged, to be computed again: " in part.stderr
    assert "wine.jsonl, line " in part.stderr
    status = command("status", copy, cwd=place)
    assert (status.returncode, "2/3" in status.stdout) == (0, True)
    whole = command("run", "tiny.yaml", "--out", copy, "--offline", "--jobs", 1, cwd=place)
    assert "1 of 27 tasks to compute" in whole.stderr


def test_a_file_of_records_that_cannot_be_read_is_named(command, copy, place):
    """Here since it is a folder; records that may be good are not written over."""
    path = copy / "records" / "wine.jsonl"
    path.unlink()
    path.mkdir()
    status = command("status", copy, cwd=place, exits=1)
    assert f"{path}: Is a directory" in " ".join(status.stdout.split())
    done = command("run", "tiny.yaml", "--out", copy, "--offline", "--jobs", 1, cwd=place, exits=1)
    assert f"{path} cannot be read: Is a directory" in done.stderr


# ---------------------------------------------------------------------- records whose checksum was forged as well


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"fold": 1}, "fold is 1, expected 0"),
        ({"trial": 7}, "trial is 7, expected 0"),
        ({"fingerprint": "f" * 64}, "fingerprint is 'ffff"),
        ({"max_train": 9}, "max_train is 9, expected None"),
        ({"dataset": "mine"}, "wine.jsonl, line 4: it is about mine"),
        ({"id": "0" * 16}, "its id is 0000000000000000"),
        ({"definition": "0" * 16}, "the manifest does not have its definition 0000000000000000"),
        ({"definition": 10**400}, "line 4: definition: "),
        ({"definition": REMOVED}, "line 4: definition: "),
        ({"outcome": None}, "expected an outcome with status ok"),
        ({"outcome.kind": "holdout"}, "expected metrics.sparse_ratio with status ok"),
        ({"outcome.metrics.auc": 1.5}, "expected a number in [0, 1] for metrics.auc, got 1.5"),
        ({"outcome.metrics": {}}, "expected metrics.auc with status ok"),
        ({"outcome.selected": REMOVED}, "expected selected with status ok"),
        ({"outcome.selection": "all"}, "line 4: outcome.selection: "),
        ({"outcome.selection.auc": [0.5]}, "selection has 1 AUCs of 6 settings, and the grid has 6"),
        ({"outcome.selection.n_settings": 5}, "selection has 6 AUCs of 5 settings, and the grid has 6"),
        ({"outcome.selection.auc": [0.5] * 5 + [None]}, "1 settings have no inner AUC, its n_diverged is 0"),
        ({"outcome.selection.auc": [2.0] * 6}, "outcome.selection.auc[0]: expected at most 1"),
        (
            {"outcome.selection.auc": [None] * 6, "outcome.selection.n_diverged": 6},
            "1 settings were refit, 0 have an inner AUC",
        ),
    ],
    ids=str,
)
def test_a_forged_record(verify, copy, changes, found):
    record = record_of(copy)
    forge(copy, record, changes)
    done = verify(copy, "--sample", 0, exits=1)
    assert any(found in line for line in wrong(done)), done.stdout


def redefine(folder, record, **protocol):
    """Change a record's definition in the manifest; returns the new definition and its hash."""
    manifest = json.loads((folder / "manifest.json").read_text())
    definition = manifest["definitions"][record.definition]
    definition = {**definition, "protocol": {**definition["protocol"], **protocol}}
    manifest["definitions"][content_hash(definition)] = definition
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return definition, content_hash(definition)


def test_a_changed_definition_in_the_manifest(verify, copy):
    manifest = json.loads((copy / "manifest.json").read_text())
    name = record_of(copy).definition
    manifest["definitions"][name]["protocol"]["seed"] = 1
    (copy / "manifest.json").write_text(json.dumps(manifest))
    done = verify(copy, "--sample", 0, exits=1)
    assert f"definitions.{name} has the hash " in done.stderr
    assert "it was changed" in done.stderr


def test_a_record_with_another_definition(verify, copy):
    record = record_of(copy)
    _, name = redefine(copy, record, seed=1)
    forge(copy, record, {"definition": name})
    done = verify(copy, "--sample", 0, exits=1)
    (found,) = wrong(done)
    assert found.startswith("wine opauc trial 1 fold 1: what defines it has the hash ")
    assert found.endswith(f"its id is {record.id}")


def test_consistent_forgery_of_a_definition_is_found(verify, copy):
    """Then it is not a record of this experiment, and the tables lack one."""
    record = record_of(copy)
    definition, name = redefine(copy, record, seed=1)
    forge(copy, record, {"id": content_hash(identity_of(definition, record)), "definition": name})
    done = verify(copy, "--sample", 0, exits=1)
    assert "wine: 1 record orphaned" in done.text
    (found,) = wrong(done)
    assert "not what the records give" in found


def test_another_selected_setting_or_another_best(verify, copy):
    record = record_of(copy)
    other = next(eta for eta in (2**-8, 2**-4, 1.0) if eta != record.selected["eta"])
    forge(copy, record, {"outcome.selected.eta": other})
    second = record_of(copy, "mine", "uni_log", 2)
    forge(copy, second, {"outcome.selection.auc": (1 - second.selection.auc).tolist()})
    found = wrong(verify(copy, "--sample", 0))
    assert len([line for line in found if "the inner AUCs select" in line]) == 2


def test_a_file_that_has_no_records(verify, copy):
    (copy / "records" / "stray.jsonl").write_text("[]\n")
    done = verify(copy, "--sample", 0, exits=1)
    (found,) = wrong(done)
    assert found.endswith(
        "records/stray.jsonl, line 1: it does not end with a checksum: it is cut off, or not a record"
    )


def test_a_missing_record(verify, copy):
    remove_records(copy, record_of(copy))
    done = verify(copy, "--sample", 0, exits=1)
    assert "26 records, 26 of the experiment are in order" in done.text
    assert any("folds.csv" in found and "not what the records give" in found for found in wrong(done))


# ---------------------------------------------------------------------- tables and data


@pytest.mark.parametrize("name", ["folds.csv", "table.md", "table.csv", "table.tex", "table.html"])
def test_a_changed_table(verify, copy, name):
    path = copy / name
    path.write_text(path.read_text().replace("9", "8", 1))
    done = verify(copy, "--sample", 0, exits=1)
    (found,) = wrong(done)
    assert found.startswith(f"{name}: not what the records give")
    assert found.endswith(f"'opauc-bench report {copy} --write' writes them again from the records")


def test_the_manifest_names_the_test_of_the_tables(verify, copy, command, place):
    assert read_manifest(copy).test == "paired"
    command("report", copy, "--test", "corrected", "--write", cwd=place, exits=0)
    assert read_manifest(copy).test == "corrected"
    assert "corrected" in (copy / "table.md").read_text()
    verify(copy, "--sample", 0, exits=0)
    command("report", copy, "--write", cwd=place, exits=0)
    assert read_manifest(copy).test == "paired", "that of the config"
    verify(copy, "--sample", 0, exits=0)


def test_tables_of_another_test_than_the_manifest_names(verify, copy):
    path = copy / "manifest.json"
    path.write_text(path.read_text().replace('"test": "paired"', '"test": "corrected"'))
    assert read_manifest(copy).test == "corrected"
    done = verify(copy, "--sample", 0, exits=1)
    (found,) = wrong(done)
    names = found.partition(": ")[0].split(", ")
    assert sorted(names) == ["table.csv", "table.html", "table.md", "table.tex"], "folds are tested by no test"


def test_tables_are_compared_by_the_config_with_which_they_were_written(command, copy, place):
    changed = TINY.replace("title: ", "title: Renamed, ")
    assert changed != TINY
    (place / "changed.yaml").write_text(changed)
    verify = ("verify", "changed.yaml", "--out", copy, "--offline", "--sample", 0)
    done = command(*verify, cwd=place, exits=0)
    assert "changed.yaml has changed since the tables were written" in " ".join(done.stdout.split())
    (copy / "table.md").write_text("something else")
    (found,) = wrong(command(*verify, cwd=place, exits=1))
    assert found.startswith("table.md: not what the records give")


def test_missing_tables_are_reported(verify, copy):
    (copy / "table.tex").unlink()
    done = verify(copy, "--sample", 0, exits=0)
    assert "not written: table.tex" in done.text


def test_other_data_than_the_manifest_names(verify, copy):
    path = copy / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["datasets"]["wine"]["fingerprint"] = "f" * 64
    path.write_text(json.dumps(manifest))
    done = verify(copy, "--sample", 2, exits=1)
    assert any(line.startswith("wine: the data on this machine have the fingerprint") for line in wrong(done))
    assert "wine: 9 records orphaned" in done.text
    assert "2 of 2 agree" in done.text, "of the other datasets"


# ---------------------------------------------------------------------- what is found by computing


def test_a_forged_test_auc_is_found(verify, copy, command, place):
    record = record_of(copy)
    auc = record.metrics["auc"]
    forge(copy, record, {"outcome.metrics.auc": auc - 2**-30})
    command("report", copy, "--write", cwd=place, exits=0)
    assert verify(copy, "--sample", 0).returncode == 0, "the tables have been made to fit"
    done = verify(copy, "--all", "-d", "wine", "-l", "opauc", exits=1)
    assert "2 of 3 agree: 1 DIFFERS, 2 same bits" in done.text
    told = f"wine opauc trial 1 fold 1: metrics.auc is {auc - 2**-30!r} in the record, {auc!r} computed again"
    assert told in done.text


def test_a_metric_that_was_added_later_is_said_to_be_unchecked(verify, copy, command, place):
    record = record_of(copy)
    forge(copy, record, {"outcome.metrics.average_precision": 0.123})
    command("report", copy, "--write", cwd=place, exits=0)
    done = verify(copy, "--all", "-d", "wine", "-l", "opauc", exits=0)
    assert "average_precision of 1 record: added later, not computed again" in done.text


def test_a_forged_inner_auc_is_found(verify, copy):
    record = record_of(copy)
    aucs = record.selection.auc.tolist()
    worst = int(np.argmin(aucs))
    aucs[worst] -= 1e-15
    forge(copy, record, {"outcome.selection.auc": aucs})
    verify(copy, "--sample", 0, exits=0)
    done = verify(copy, "--all", "-d", "wine", "-l", "opauc", exits=1)
    assert "1/6 differ" in done.text
    assert f"selection.auc[{worst}] is" in done.text


def test_false_divergence_in_a_record_is_found(verify, copy):
    selection = {"n_settings": 3, "n_diverged": 3, "auc": [None] * 3}
    changes = {"status": "diverged", "outcome.metrics": {}, "outcome.selected": None, "outcome.selection": selection}
    forge(copy, record_of(copy, "mine", "Flat"), changes)
    done = verify(copy, "--all", "-d", "mine", "-l", "Flat", exits=1)
    assert "status is 'diverged' in the record, 'ok' computed again" in done.text


def test_other_platform_may_differ_by_1e_9_and_is_reported(verify, copy, command, place):
    records = {fold: record_of(copy, fold=fold) for fold in (1, 2, 3)}
    elsewhere = {**read_manifest(copy).environments[records[1].environment], "numpy": "1.0", "cores": 99}
    add_environment(copy, elsewhere)
    for fold, shift in ((1, 1e-12), (2, 1e-6), (3, 0.0)):
        changes = {"outcome.metrics.auc": records[fold].metrics["auc"] - shift, "environment": content_hash(elsewhere)}
        forge(copy, records[fold], changes)
    command("report", copy, "--write", cwd=place)
    done = verify(copy, "--all", "-d", "wine", "-l", "opauc", exits=1)
    assert "2 of 3 agree: 1 within 1e-9, 1 DIFFERS, 1 same bits" in done.text
    told = "3 records were computed on another platform, so that numbers may differ by 1e-9: numpy 1.0 (here 2"
    assert told in done.text


@pytest.mark.parametrize(
    ("recorded", "told"),
    [
        ("openblas Zen", "OPENBLAS_CORETYPE=Zen opauc-bench verify ... takes those of these records"),
        (None, "OPENBLAS_CORETYPE=Haswell opauc-bench verify ... takes those of other processors"),
    ],
)
def test_numbers_that_differ_with_the_kernels_of_blas(verify, copy, command, place, recorded, told):
    """Two processors of one name may have different ones, and OpenBLAS can be told to take those of another."""
    record = record_of(copy, fold=1)
    elsewhere = {**read_manifest(copy).environments[record.environment], "blas": recorded}
    if recorded is None:  # from before it was recorded
        del elsewhere["blas"]
    add_environment(copy, elsewhere)
    changes = {"outcome.metrics.auc": record.metrics["auc"] - 1e-6, "environment": content_hash(elsewhere)}
    forge(copy, record, changes)
    command("report", copy, "--write", cwd=place)
    done = verify(copy, "--all", "-d", "wine", "-l", "opauc", exits=1)
    here = environment_here()["blas"]
    assert (f"blas {recorded} (here {here})" if recorded else f"not recorded: blas (here {here})") in done.text
    assert told in done.text


def test_a_record_whose_environment_the_manifest_does_not_have(verify, copy):
    """Nothing says that the bits have to be the same."""
    forge(copy, record_of(copy), {"environment": "0" * 16})
    done = verify(copy, "--all", "-d", "wine", "-l", "opauc", exits=0)
    assert "3 of 3 agree: 3 same bits" in done.text
    told = (
        "1 record was computed on another platform, so that numbers may differ by 1e-9: the manifest does not say which"
    )
    assert told in done.text


def test_failures_of_the_machine_are_not_drawn(verify, copy):
    forge(copy, record_of(copy), {"status": "timeout", "message": "3600 s"})
    done = verify(copy, "--all", "-d", "wine", "-l", "opauc")
    assert "left out: 1 record with status timeout" in done.text
    for fold in (1, 2, 3):
        forge(copy, record_of(copy, "mine", "Flat", fold), {"status": "timeout", "message": "3600 s"})
    none = verify(copy, "--all", "-d", "mine", "-l", "Flat", exits=1)
    assert "try: opauc-bench run tiny.yaml --out" in none.stderr
    assert none.stderr.endswith("--retry-failed\n")
    assert "2 of 2 agree" in done.text


@pytest.mark.parametrize("place_of", ["tiny.yaml", "results/tiny"])
def test_results_of_a_learner_whose_file_has_changed_are_read_as_they_are(command, place, place_of):
    def contents():
        return {path.name: path.read_bytes() for path in (place / "results" / "tiny").glob("[!.]*.*")}

    before, tables = (place / "Flat.py").read_text(), contents()
    note = "Flat: the file has changed since these results were computed; opauc-bench run tiny.yaml computes them with"
    shown = command("report", place_of, cwd=place, exits=0).stdout
    try:
        (place / "Flat.py").write_text(before + "\n")
        done = command("verify", place_of, "--all", "--offline", "--jobs", 1, cwd=place, exits=0)
        report = command("report", place_of, "--write", cwd=place, exits=0)
        command("export", place_of, "--out", "all.csv", cwd=place, exits=0)
        status = command("status", place_of, cwd=place, exits=0).stdout
        ordered = command("plan", place_of, cwd=place, exits=0).stdout
    finally:
        (place / "Flat.py").write_text(before)
    text = " ".join(done.stdout.split())
    assert "27 records, 27 of the experiment are in order" in text
    assert f"note {note}" in text
    assert "left out: 9 records of columns whose version or file has changed since" in text
    assert "18 of 18 agree" in text
    assert report.stdout.startswith(shown.rstrip("\n"))
    assert note in " ".join(report.stderr.split())
    assert contents() == tables  # nothing that was computed goes
    assert (place / "all.csv").read_text().count("\n") == 28
    assert "18 tasks done, 9 to do" in " ".join(ordered.split())  # `run` computes with the file as it is
    assert "9 records orphaned and not used" in " ".join(status.split())


TWO_FILES = """
title: One class name in two files
datasets: [wine]
learners: [{learner: "a.py:Mine", name: a}, {learner: "b.py:Mine", name: b}]
grids: {eta: [0.01, 0.1]}
protocol: {trials: 1, folds: 2, inner_folds: 2}
"""


def write_learner(path, base, comment=""):
    path.write_text(f"from opauc_bench.learners import {base}\n\n\nclass Mine({base}):\n    pass\n{comment}")


def mean_aucs(command, folder):
    """Mean test AUC of each column with records."""
    return mean_aucs_of(command, "two.yaml", folder)


def mean_aucs_of(command, place, folder):
    command("export", place, "--out", "all.csv", cwd=folder, exits=0)
    return pd.read_csv(folder / "all.csv").groupby("learner")["auc"].mean().to_dict()


def contents_of(folder):
    return {path: path.read_bytes() for path in folder.rglob("*.*") if path.is_file()}


def test_columns_of_one_class_name_in_two_files_have_their_own_records(command, tmp_path):
    (tmp_path / "two.yaml").write_text(TWO_FILES)
    write_learner(tmp_path / "a.py", "UniLog")
    write_learner(tmp_path / "b.py", "UniSqu")
    command("run", "two.yaml", "-l", "a", "--jobs", 1, cwd=tmp_path, exits=0)
    assert mean_aucs(command, tmp_path).keys() == {"a"}
    command("run", "two.yaml", "--jobs", 1, cwd=tmp_path, exits=0)
    both = mean_aucs(command, tmp_path)
    assert both["a"] != both["b"]
    write_learner(tmp_path / "b.py", "UniSqu", "# changed\n")
    assert mean_aucs(command, tmp_path) == both
    pruned = command("pack", "results/two", "--prune", cwd=tmp_path, exits=0).stdout
    assert "nothing to pack" in pruned
    assert mean_aucs(command, tmp_path) == both


def test_results_of_a_file_that_has_changed_twice_are_those_of_the_last_run(command, tmp_path):
    (tmp_path / "two.yaml").write_text(TWO_FILES)
    write_learner(tmp_path / "a.py", "UniLog")
    means = []
    for base in ("UniSqu", "UniExp", "UniLog"):  # some of them have the larger hash
        write_learner(tmp_path / "b.py", base, "# b\n")
        command("run", "two.yaml", "--jobs", 1, cwd=tmp_path, exits=0)
        means.append(mean_aucs(command, tmp_path)["b"])
        write_learner(tmp_path / "b.py", base, "# changed\n")
        assert mean_aucs(command, tmp_path)["b"] == means[-1]
    assert len(set(means)) == 3


VERSIONS = """
title: Two versions
datasets: [wine]
learners:
  - uni_log
  - {estimator: sklearn.linear_model.LogisticRegression, name: logreg, grid: {C: [0.1, 1]}}
grids: {eta: [0.01, 0.1]}
protocol: {trials: 1, folds: 2, inner_folds: 2}
"""


@pytest.fixture
def versions(monkeypatch):
    """A function that makes another version of the learner and of the estimator's package the present one."""

    def set_version(number):
        monkeypatch.setattr(UniLog, "version", number)
        monkeypatch.setattr(
            "opauc_bench.learners.estimator_entry._package_of", lambda address: f"scikit-learn {number}.0"
        )

    return set_version


def test_results_of_another_version_are_read_as_they_are(command, tmp_path, versions):
    (tmp_path / "two.yaml").write_text(VERSIONS)
    versions(3)
    first = command("run", "two.yaml", "--jobs", 1, cwd=tmp_path, exits=0).stdout
    folder = tmp_path / "results" / "two"
    tables = {path.name: path.read_bytes() for path in folder.glob("[!.]*.*")}
    for place in ("two.yaml", "results/two"):
        versions(12)
        report = command("report", place, "--write", cwd=tmp_path, exits=0)
        assert report.stdout == first
        notes = report.stderr.splitlines()
        again = "opauc-bench run two.yaml computes them with it"
        assert notes == [
            f"note: uni_log: computed with version 3, and the present one is 12; {again}",
            f"note: logreg: computed with scikit-learn 3.0, and scikit-learn 12.0 is installed; {again}",
        ]
        assert {path.name: path.read_bytes() for path in folder.glob("[!.]*.*")} == tables
        assert mean_aucs(command, tmp_path).keys() == {"uni_log", "logreg"}
        checked = command("verify", place, "--offline", cwd=tmp_path, exits=1).stderr
        assert "left out: 4 records of columns whose version or file has changed since" in checked
        for name, count in (("plan", "4 to do"), ("status", "4 records orphaned")):
            text = " ".join(command(name, place, cwd=tmp_path, exits=0).stdout.split())
            assert count in text
            assert f"logreg: computed with scikit-learn 3.0, and scikit-learn 12.0 is installed; {again}" in text
        assert "nothing to pack" in command("pack", place, "--prune", cwd=tmp_path, exits=0).stdout
    assert "4 of 4 tasks to compute" in command("run", "two.yaml", "--jobs", 1, cwd=tmp_path, exits=0).stderr
    versions(4)  # of two recorded versions, the last run's
    notes = command("report", "two.yaml", cwd=tmp_path, exits=0).stderr
    command("report", "two.yaml", "--write", cwd=tmp_path, exits=0)
    assert "computed with version 12, and" in command("report", "results/two", "--write", cwd=tmp_path, exits=0).stderr
    assert "computed with scikit-learn 12.0, and" in notes


def test_shards_of_another_version_are_merged(command, tmp_path, versions):
    (tmp_path / "two.yaml").write_text(VERSIONS)
    versions(3)
    whole = command("run", "two.yaml", "--jobs", 1, "--out", "whole", cwd=tmp_path, exits=0).stdout
    shards = ("results/two.shard-1-of-2", "results/two.shard-2-of-2")
    for number in (1, 2):
        command("run", "two.yaml", "--jobs", 1, "--shard", f"{number}/2", cwd=tmp_path, exits=0)
    versions(12)
    merged = command("merge", "two.yaml", *shards, cwd=tmp_path, exits=0).stdout
    assert merged.replace("results/two/", "whole/") == whole
    command("run", "two.yaml", "--jobs", 1, cwd=tmp_path, exits=0)
    command("merge", "two.yaml", *shards, cwd=tmp_path, exits=1)  # the folder has numbers of the present version
    command("run", "two.yaml", "--jobs", 1, "--shard", "2/2", cwd=tmp_path, exits=0)
    refused = command("merge", "two.yaml", *shards, "--out", "mixed", cwd=tmp_path, exits=1)
    assert "another grid, protocol, learner or dataset" in refused.stderr


ELSEWHERE = """
title: Learners and data from elsewhere
catalogue: mine.yaml
datasets: [mine, wine]
learners:
  - uni_log
  - {learner: "own.py:Own", name: own, params: {steps: 3}}
  - {estimator: "own.py:Line", name: line, pipeline: [sklearn.preprocessing.StandardScaler], grid: {alpha: [1, 2]}}
grids: {eta: [0.01, 0.1]}
protocol: {trials: 1, folds: 2, inner_folds: 2}
"""

OWN_FILE = """
from sklearn.linear_model import RidgeClassifier

from opauc_bench.learners import UniLog


class Line(RidgeClassifier):
    pass


class Own(UniLog):
    def __init__(self, eta=0.1, steps=1):
        super().__init__(eta=eta)
        self.steps = steps
"""


@pytest.fixture(scope="module")
def elsewhere(invoke, place, tmp_path_factory):
    """The folder of an experiment, and what its report printed."""
    folder = tmp_path_factory.mktemp("elsewhere")
    (folder / "two.yaml").write_text(ELSEWHERE)
    (folder / "own.py").write_text(OWN_FILE)
    (folder / "mine.yaml").write_text((place / "mine.yaml").read_text())
    invoke("run", "two.yaml", "--jobs", 1, cwd=folder, exits=0)
    return folder, invoke("report", "two.yaml", cwd=folder, exits=0).stdout


@pytest.mark.parametrize("lost", ["files", "class", "parameter", "import"])
def test_records_are_read_where_learners_and_catalogue_are_not(command, elsewhere, tmp_path, lost):
    folder, shown = elsewhere
    shutil.copytree(folder / "results" / "two", tmp_path / "two")
    text = {
        "class": OWN_FILE.replace("Line", "Other").replace("Own", "Else"),
        "parameter": OWN_FILE.replace("steps", "moves").replace("RidgeClassifier)", "RidgeClassifier, int)"),
        "import": "import no_such_package\n" + OWN_FILE,
    }
    if lost != "files":
        (tmp_path / "own.py").write_text(text[lost])
        shutil.copy(folder / "mine.yaml", tmp_path)
        shutil.copy(folder / "two.yaml", tmp_path)
    before = contents_of(tmp_path / "two")
    report = command("report", "two", cwd=tmp_path, exits=0)
    assert report.stdout == shown
    own, line = report.stderr.splitlines()
    assert own.startswith("note: own: shown as recorded: ")
    assert line.startswith("note: line: shown as recorded: ")
    command("report", "two", "--write", cwd=tmp_path, exits=0)
    command("pack", "two", "--prune", cwd=tmp_path, exits=0)
    assert contents_of(tmp_path / "two") == before
    assert mean_aucs_of(command, "two", tmp_path) == mean_aucs_of(command, folder / "results" / "two", tmp_path)
    assert len(load_results(tmp_path / "two", grid=True)) == 24
    status = command("status", "two", cwd=tmp_path, exits=0).stdout
    assert re.findall(r"(\S+) +2/2 +2/2 +2/2", status) == ["mine", "wine"]
    checked = command("verify", "two", "--all", "--jobs", 1, "--offline", cwd=tmp_path, exits=0).stdout
    text = " ".join(checked.split())
    assert "12 records, 12 of the experiment are in order" in text
    assert "left out: 8 records of columns whose learner is not on this machine" in text
    assert ("mine: not drawn from, no catalogue here has an entry of it" in text) == (lost == "files")
    assert f"{2 if lost == 'files' else 4} of {2 if lost == 'files' else 4} agree" in text
    why = {"files": "no file", "class": "defines no 'Own'", "parameter": "'steps'", "import": "no_such_package"}[lost]
    assert why in command("plan", "two", cwd=tmp_path, exits=1).stderr


def test_records_are_read_where_a_learner_without_any_is_not(command, elsewhere, tmp_path):
    for name in ("two.yaml", "own.py", "mine.yaml"):
        shutil.copy(elsewhere[0] / name, tmp_path)
    command("run", "two.yaml", "-l", "uni_log", "--jobs", 1, cwd=tmp_path, exits=0)
    (tmp_path / "own.py").unlink()
    status = command("status", "results/two", cwd=tmp_path, exits=0).stdout
    assert re.findall(r"(\S+) +2/2 +0/2 +0/2", status) == ["mine", "wine"]
    command("report", "results/two", cwd=tmp_path, exits=0)
    command("verify", "results/two", "--sample", 0, cwd=tmp_path, exits=0)


def test_data_that_are_unavailable_are_named(command, environment, place, tmp_path):
    alone = type(command)({**environment, "OPAUC_BENCH_CACHE": str(tmp_path / "empty")})
    (place / "mine.csv").rename(place / "away.csv")
    try:
        some = alone("verify", "results/tiny", "--sample", 18, "--offline", "--seed", 1, "-j", 1, cwd=place)
        none = alone("verify", "results/tiny", "--offline", "-d", "mine", cwd=place)
    finally:
        (place / "away.csv").rename(place / "mine.csv")
    assert some.returncode == 0, some.stdout
    assert "mine: not drawn from, its data are unavailable" in " ".join(some.stdout.split())
    assert "18 of 18 agree" in some.stdout
    assert none.returncode == 3
    assert "no record can be computed again" in none.stderr


# ---------------------------------------------------------------------- mistakes


def test_a_folder_without_a_manifest_or_records_is_explained(command, tmp_path, copy, place):
    (tmp_path / "empty").mkdir()
    done = command("verify", "empty", cwd=tmp_path, exits=2)
    assert "got a folder without manifest.json" in done.stderr
    shutil.rmtree(copy / "records")
    done = command("verify", copy, cwd=place, exits=1)
    assert "no records" in done.stderr
    (copy / "manifest.json").write_text('{"datasets": {}}')
    done = command("verify", copy, cwd=place, exits=1)
    assert "is not the manifest of a run" in done.stderr


def test_records_without_a_manifest(command, place, copy):
    (copy / "manifest.json").unlink()
    done = command("verify", "tiny.yaml", "--out", copy, cwd=place, exits=1)
    assert done.stderr.startswith(f"error: {copy} has no manifest.json")
    hint = done.stderr.splitlines()[1]
    again = hint[hint.index("opauc-bench") : hint.index("  #")].split()[1:]
    done = command(*again, "--offline", cwd=place)
    assert "0 of 27 tasks to compute" in done.stderr
    command("verify", copy, "--sample", 0, cwd=place, exits=0)


def test_out_goes_with_a_config(command, place):
    done = command("report", "results/tiny", "--out", "elsewhere", cwd=place, exits=2)
    assert "--out is only for a config" in done.stderr


def test_a_manifest_that_this_version_does_not_understand(command, copy, place):
    path = copy / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["experiment"] |= {"datasets": ["wien"], "colour": "red"}
    path.write_text(json.dumps(manifest))
    done = command("status", copy, cwd=place, exits=2)
    assert "unknown dataset 'wien'" in done.stderr
    assert "colour: unknown key" in done.stderr


@pytest.mark.parametrize("name", ["status", "report"])
def test_folder_gives_the_output_of_its_config(command, place, name):
    by_config = command(name, "tiny.yaml", cwd=place)
    by_folder = command(name, "results/tiny", cwd=place)
    assert by_folder.returncode == by_config.returncode == 0
    assert by_folder.stdout == by_config.stdout


# ---------------------------------------------------------------------- the parts


def task_of(dataset, fold, column="opauc"):
    return Task(dataset, column, "opauc", 0, fold, "f" * 64, {}, {}, {}, {}, 1.0, 1.0)


CANDIDATES = [(task_of(dataset, fold), {}) for dataset in "abc" for fold in range(6)]


def test_differences_ignore_cores_and_the_release_of_the_kernel():
    here = {"numpy": "2.0", "platform": "Linux-6.1.0-13-amd64-x86_64-with-glibc2.36", "cores": 2}
    assert differences({**here, "platform": "Linux-6.1.0-18-amd64-x86_64-with-glibc2.36", "cores": 8}, here) == {}
    glibc = "Linux-6.1.0-13-amd64-x86_64-with-glibc2.39"
    assert differences({**here, "platform": glibc}, here) == {"platform": glibc}
    assert differences({**here, "numpy": "1.0"}, here) == {"numpy": "1.0"}
    assert differences({}, here).keys() == {"numpy", "platform"}


@given(
    sample=st.none() | st.integers(1, 25),
    seed=st.integers(0, 2**31),
    there=st.sets(st.sampled_from("abc")),
)
def test_sample_has_available_records_without_repetition(sample, seed, there):
    pairs, missing = draw(CANDIDATES, sample, seed, lambda task: task.dataset in there)
    assert len(pairs) == min(6 * len(there), sample or 99)
    assert {task.dataset for task, _ in pairs} <= there
    positions = [CANDIDATES.index(pair) for pair in pairs]
    assert positions == sorted(set(positions))
    assert not set(missing) & there
    assert draw(CANDIDATES, sample, seed, lambda task: task.dataset in there) == (pairs, missing)


def test_sample_is_uniform():
    """Each of 18 records is drawn with probability 1/6: 1000 of 6000 times, with a std of 29."""
    counts = dict.fromkeys(range(18), 0)
    for seed in range(6000):
        for pair in draw(CANDIDATES, 3, seed, lambda task: True)[0]:
            counts[CANDIDATES.index(pair)] += 1
    assert sum(counts.values()) == 18000
    assert all(850 < count < 1150 for count in counts.values())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(0, 1) | st.sampled_from(["ok", "diverged"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


@given(old=JSON, new=JSON)
def test_only_equal_contents_have_no_differences(old, new):
    assert (_compared(old, new) == []) == (json.dumps(old, sort_keys=True) == json.dumps(new, sort_keys=True))


@st.composite
def contents(draw):
    """What a task may have given, of few values, so that two are often equal."""
    few = st.sampled_from([0.25, 0.5, 0.5 + 1e-12])
    aucs = draw(st.lists(st.none() | few, min_size=2, max_size=2))
    good = draw(st.booleans())
    outcome = {"kind": "cv", "n_train": draw(st.integers(3, 4)), "n_test": 2}
    outcome["selection"] = {"n_settings": 2, "n_diverged": sum(auc is None for auc in aucs), "auc": aucs}
    if good:
        outcome |= {"metrics": {"auc": draw(few)}, "selected": {"eta": draw(few)}}
    return {"status": "ok" if good else "diverged", "message": draw(st.sampled_from(["", "why"])), "outcome": outcome}


def record_with(content, environment, seconds):
    place = {"id": "a" * 16, "dataset": "a", "column": "opauc", "trial": 0, "fold": 0, "fingerprint": "f" * 64}
    timing = {"wall_seconds": seconds, "fit_cpu_seconds": seconds}
    hashes = {"definition": "d" * 16, "environment": environment}
    return Record.model_validate({**place, **hashes, **content, "timing": timing}, strict=False)


@given(old=contents(), new=contents())
def test_a_record_agrees_only_with_its_equal(old, new):
    """Where it was computed, how long that took and in which words are not part of it."""
    recorded, computed = record_with(old, "e" * 16, 1.0), record_with(new, "0" * 16, 2.0)
    outcome = compare_records(task_of("a", 0), recorded, computed, same_platform=True)
    assert outcome.agrees == ({**old, "message": ""} == {**new, "message": ""})
    assert outcome.within == []
    assert compare_records(task_of("a", 0), recorded, record_with(old, "0" * 16, 3.0), True).agrees


@given(old=contents(), new=contents())
def test_elsewhere_numbers_may_be_within_1e_9(old, new):
    """Two of the three values differ by 1e-12."""

    def rounded(content):
        return json.loads(json.dumps({**content, "message": ""}), parse_float=lambda text: round(float(text), 9))

    outcome = compare_records(task_of("a", 0), record_with(old, "e" * 16, 1.0), record_with(new, "0" * 16, 2.0), False)
    assert outcome.agrees == (rounded(old) == rounded(new))


@pytest.mark.faults
def test_all_finds_a_learner_whose_tasks_share_a_state(bench, tmp_path):
    (tmp_path / "mine.py").write_text(
        HEBB + "\n\nclass Shares(Hebb):\n    calls = 0\n\n    def behave(self, state, X):\n"
        "        Shares.calls += 1\n        state.W[0] += Shares.calls\n"
    )
    (tmp_path / "e.yaml").write_text(
        "title: t\ndatasets: [wine]\nlearners: ['mine.py:Shares', uni_log]\ngrids: {eta: [0.25, 0.5]}\n"
        "protocol: {trials: 1, folds: 3, inner_folds: 2}\n"
    )
    bench("run", "e.yaml", "--offline", "--jobs", 1, cwd=tmp_path, exits=0)
    done = bench("verify", "e.yaml", "--all", "--offline", "--jobs", 1, cwd=tmp_path, exits=1)
    assert "DIFFERS" in done.stdout
    assert "uni_log" not in "".join(line for line in done.stdout.splitlines() if "DIFFERS" in line)
