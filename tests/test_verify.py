"""Verifying a results folder, from the outside: what was computed agrees, and what was changed is found."""

import json
import re
import shutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opauc_bench.plan import Task, task_id
from opauc_bench.runner.verify import compare_records, draw

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
FLAT = """
import numpy as np

from opauc_bench.learners import OnePassLearner
from opauc_bench.learners.base import State


class Flat(OnePassLearner):
    grid_axes = ("eta",)

    def __init__(self, eta=0.1):
        self.eta = eta

    def _begin(self, n_features, settings):
        return State(settings=settings, W=np.zeros((n_features, len(settings["eta"]))))

    def _consume(self, state, X, y):
        state.W += np.outer(X.T @ y, state.settings["eta"])
        if X.shape[1] == 13:
            state.W[:] = np.inf
"""


@pytest.fixture(scope="module")
def place(bench, tmp_path_factory):
    """A folder with an experiment that was run, and the data that only it has."""
    desk = tmp_path_factory.mktemp("verify")
    (desk / "tiny.yaml").write_text(TINY)
    (desk / "mine.yaml").write_text(CATALOGUE % (desk / "mine.csv"))
    (desk / "Flat.py").write_text(FLAT)
    values = np.random.default_rng(0).uniform(-1, 1, (30, 2)).round(3)
    (desk / "mine.csv").write_text("".join(f"{a},{b},{i % 2}\n" for i, (a, b) in enumerate(values)))
    done = bench("run", "tiny.yaml", "--offline", "--jobs", 2, cwd=desk)
    assert done.returncode == 1, done.stderr
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
    def call(folder, *options):
        done = command("verify", folder, "--offline", "--jobs", 1, *options, cwd=place)
        done.text = " ".join(done.stdout.split())
        return done

    return call


def record_of(folder, dataset="wine", column="opauc", fold=1):
    (path,) = (folder / "records" / dataset / column).glob(f"t1-f{fold}-*.json")
    return path


def change(path, **changes):
    """Change a record as someone with an editor would."""
    record = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps(record))
    return record


def snapshot(folder):
    return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.rglob("*") if path.is_file()}


# ---------------------------------------------------------------------- nothing was changed


def test_what_was_computed_agrees_to_the_last_bit_and_nothing_is_written(verify, place):
    before = snapshot(place / "results")
    done = verify("results/tiny", "--all")
    assert done.returncode == 0, done.stdout
    assert "27 records, 27 of the experiment are in order" in done.text
    assert "27 of 27 agree: 27 same bits" in done.text
    assert "WRONG" not in done.text
    assert "tables agree with the records" in done.text
    assert re.search(r"wine Flat 1\.1 diverged same 3 same \d+ s same bits", done.text), "what diverged is drawn too"
    assert all(len(line) <= 80 for line in done.stdout.splitlines() if "/" not in line)
    assert snapshot(place / "results") == before


def test_a_config_in_place_of_its_folder(verify):
    done = verify("tiny.yaml", "--sample", 0)
    assert done.returncode == 0
    assert done.stdout.startswith("results/tiny/: 27 records, 27 of the experiment are in order")


def test_the_folder_can_be_named_from_elsewhere(command, place, tmp_path):
    done = command("verify", place / "results" / "tiny", "--offline", "--sample", 1, "-j", 1, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "1 of 1 agree" in done.stdout


def test_a_seed_draws_the_same_records_and_a_fresh_one_is_told(verify):
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


def test_a_draw_can_be_restricted(verify):
    done = verify("results/tiny", "--all", "--dataset", "mine", "--learner", "uni_log")
    assert done.returncode == 0
    assert "3 of 3 agree" in done.text
    quick = verify("results/tiny", "--all", "--max-seconds", 0, "-d", "mine")
    assert quick.returncode == 1
    assert "no record can be computed again" in quick.stderr
    assert "took over 0 s" in quick.stderr
    assert verify("results/tiny", "-d", "wien").returncode == 2


# ---------------------------------------------------------------------- what is found without computing


def wrong(done):
    """The findings, each on one line."""
    return [" ".join(text.split()) for text in re.findall(r"^WRONG  (.*(?:\n {7}.*)*)", done.stdout, re.M)]


def test_a_changed_identity(verify, copy):
    path = record_of(copy)
    identity = json.loads(path.read_text())["identity"]
    change(path, identity={**identity, "protocol": {**identity["protocol"], "seed": 1}})
    done = verify(copy, "--sample", 0)
    assert done.returncode == 1
    (found,) = wrong(done)
    assert found.startswith(f"records/wine/opauc/{path.name}: its identity hashes to ")
    assert "one of them has been changed" in found


def test_a_changed_identity_with_everything_made_to_fit(verify, copy):
    """Then it is no record of this experiment, and the tables lack one."""
    path = record_of(copy)
    record = json.loads(path.read_text())
    record["identity"]["protocol"]["seed"] = 1
    record["id"] = task_id(record["identity"])
    path.unlink()
    path.with_name(f"t1-f1-{record['id']}.json").write_text(json.dumps(record))
    done = verify(copy, "--sample", 0)
    assert done.returncode == 1
    assert "wine: 1 records are of another definition" in done.text
    assert any("not what the records give" in found for found in wrong(done))


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"fold": 1}, "fold is 1, expected 0"),
        ({"dataset": "mine"}, "dataset is 'mine', expected 'wine'"),
        ({"column": "uni_log"}, "column is 'uni_log', expected 'opauc'"),
        ({"id": "0" * 16}, "its id is 0000000000000000"),
        ({"test_auc": 1.5}, "test_auc is 1.5, expected a number in [0, 1]"),
        ({"status": "fine"}, "status is 'fine'"),
        ({"identity": None}, "its identity hashes to"),
        ({"identity": 10**400}, "its identity hashes to"),
        ({"selection": {"n_settings": 6, "n_diverged": 0, "mean_auc": [0.5]}}, "1 inner AUCs and 6 settings"),
        ({"selection": {"n_settings": 6, "n_diverged": 0, "mean_auc": [0.5] * 5 + [None]}}, "0 are told"),
        ({"selection": {"n_settings": 6, "n_diverged": 0, "mean_auc": [2.0] * 6}}, "expected a list of shares"),
        ({"selection": {"n_settings": 6, "n_diverged": 6, "mean_auc": [None] * 6}}, "1 settings were refit, 0 have"),
        ({"selection": "all"}, "expected a dict"),
    ],
)
def test_a_changed_record(verify, copy, changes, found):
    change(record_of(copy), **changes)
    done = verify(copy, "--sample", 0)
    assert done.returncode == 1
    assert any(found in line for line in wrong(done)), done.stdout


def test_another_chosen_setting_or_another_best(verify, copy):
    path = record_of(copy)
    record = json.loads(path.read_text())
    other = next(eta for eta in (2**-8, 2**-4, 1.0) if eta != record["chosen"]["eta"])
    change(path, chosen={**record["chosen"], "eta": other})
    second = record_of(copy, "mine", "uni_log", 2)
    aucs = json.loads(second.read_text())["selection"]["mean_auc"]
    change(second, selection={"n_settings": 3, "n_diverged": 0, "mean_auc": [1 - auc for auc in aucs]})
    found = wrong(verify(copy, "--sample", 0))
    assert len([line for line in found if "the inner AUCs choose" in line]) == 2


def test_a_file_that_is_no_record(verify, copy):
    record_of(copy).write_text("{")
    done = verify(copy, "--sample", 0)
    assert done.returncode == 1
    assert "cannot be read as a record" in " ".join(wrong(done))
    assert "tables were not compared with the records" in done.text
    (copy / "records" / "wine" / "opauc" / "stray.json").write_text("[]")
    assert any(line.startswith("records/wine/opauc/stray.json") for line in wrong(verify(copy, "--sample", 0)))


@pytest.mark.parametrize("name", ["folds.csv", "table.md", "table.csv", "table.tex", "table.html"])
def test_a_changed_table(verify, copy, name):
    path = copy / name
    path.write_text(path.read_text().replace("9", "8", 1))
    done = verify(copy, "--sample", 0)
    assert done.returncode == 1
    (found,) = wrong(done)
    assert found.startswith(f"{name}: not what the records give")


def test_tables_with_the_other_test_are_in_order_and_absent_ones_are_told(verify, copy, command, place):
    assert command("report", copy, "--test", "corrected", cwd=place).returncode == 0
    assert "corrected" in (copy / "table.md").read_text()
    (copy / "table.tex").unlink()
    done = verify(copy, "--sample", 0)
    assert done.returncode == 0, done.stdout
    assert "not there: table.tex" in done.text


def test_other_data_than_the_manifest_names(verify, copy):
    path = copy / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["datasets"]["wine"]["fingerprint"] = "f" * 64
    path.write_text(json.dumps(manifest))
    done = verify(copy, "--sample", 2)
    assert done.returncode == 1
    assert any(line.startswith("wine: the data at hand have fingerprint") for line in wrong(done))
    assert "wine: 9 records are of another definition" in done.text
    assert "2 of 2 agree" in done.text, "of the other datasets"


# ---------------------------------------------------------------------- what is found by computing


def test_a_changed_test_auc_is_found(verify, copy, command, place):
    path = record_of(copy)
    auc = json.loads(path.read_text())["test_auc"]
    change(path, test_auc=auc - 2**-30)
    assert command("report", copy, cwd=place).returncode == 0
    assert verify(copy, "--sample", 0).returncode == 0, "the tables have been made to fit"
    done = verify(copy, "--all", "-d", "wine", "-l", "opauc")
    assert done.returncode == 1
    assert "2 of 3 agree: 1 DIFFERS, 2 same bits" in done.text
    told = f"wine opauc trial 1 fold 1: test_auc is {auc - 2**-30!r} in the record, {auc!r} computed again"
    assert told in done.text


def test_a_changed_inner_auc_is_found(verify, copy):
    path = record_of(copy)
    selection = json.loads(path.read_text())["selection"]
    worst = int(np.argmin(selection["mean_auc"]))
    selection["mean_auc"][worst] -= 1e-15
    change(path, selection=selection)
    assert verify(copy, "--sample", 0).returncode == 0
    done = verify(copy, "--all", "-d", "wine", "-l", "opauc")
    assert done.returncode == 1
    assert "1/6 differ" in done.text
    assert f"selection.mean_auc[{worst}] is" in done.text


def test_what_says_it_diverged_and_did_not(verify, copy):
    path = record_of(copy, "mine", "Flat")
    record = json.loads(path.read_text())
    del record["test_auc"], record["chosen"]
    record |= {"status": "diverged", "selection": {"n_settings": 3, "n_diverged": 3, "mean_auc": [None] * 3}}
    path.write_text(json.dumps(record))
    done = verify(copy, "--all", "-d", "mine", "-l", "Flat")
    assert done.returncode == 1
    assert "status is 'diverged' in the record, 'ok' computed again" in done.text


def test_another_platform_may_differ_by_1e_9_and_is_told(verify, copy, command, place):
    for fold, shift in ((1, 1e-12), (2, 1e-6), (3, 0.0)):
        path = record_of(copy, fold=fold)
        record = json.loads(path.read_text())
        elsewhere = {**record["environment"], "numpy": "1.0", "cores": 99}
        change(path, test_auc=record["test_auc"] - shift, environment=elsewhere)
    command("report", copy, cwd=place)
    done = verify(copy, "--all", "-d", "wine", "-l", "opauc")
    assert done.returncode == 1
    assert "2 of 3 agree: 1 within 1e-9, 1 DIFFERS, 1 same bits" in done.text
    assert "3 records are of another platform, so numbers may differ by 1e-9: numpy 1.0 (here 2" in done.text


def test_failures_of_the_machine_are_not_drawn(verify, copy):
    path = record_of(copy)
    change(path, status="timeout", message="3600 s")
    done = verify(copy, "--all", "-d", "wine", "-l", "opauc")
    assert "1 records with status timeout were not drawn from" in done.text
    assert "2 of 2 agree" in done.text


def test_a_learner_that_has_changed_since(bench, place):
    """Its text is part of what defines a record, so the old ones are of another definition."""
    before = (place / "Flat.py").read_text()
    try:
        (place / "Flat.py").write_text(before + "\n")
        done = bench("verify", "results/tiny", "--sample", 0, "--offline", cwd=place)
    finally:
        (place / "Flat.py").write_text(before)
    assert done.returncode == 1
    text = " ".join(done.stdout.split())
    assert "27 records, 18 of the experiment are in order" in text
    assert "wine: 3 records are of another definition" in text


def test_data_that_cannot_be_had_are_named(bench, environment, place, tmp_path):
    alone = type(bench)({**environment, "OPAUC_BENCH_CACHE": str(tmp_path / "empty")})
    (place / "mine.csv").rename(place / "away.csv")
    try:
        some = alone("verify", "results/tiny", "--sample", 18, "--offline", "--seed", 1, "-j", 1, cwd=place)
        none = alone("verify", "results/tiny", "--offline", "-d", "mine", cwd=place)
    finally:
        (place / "away.csv").rename(place / "mine.csv")
    assert some.returncode == 0, some.stdout
    assert "mine: not drawn from, its data cannot be had" in " ".join(some.stdout.split())
    assert "18 of 18 agree" in some.stdout
    assert none.returncode == 3
    assert "no record can be computed again" in none.stderr


# ---------------------------------------------------------------------- mistakes


def test_a_folder_without_a_manifest_or_records_is_explained(command, tmp_path, copy, place):
    (tmp_path / "empty").mkdir()
    done = command("verify", "empty", cwd=tmp_path)
    assert done.returncode == 2
    assert "got a folder without manifest.json" in done.stderr
    shutil.rmtree(copy / "records")
    done = command("verify", copy, cwd=place)
    assert done.returncode == 1
    assert "no records" in done.stderr
    (copy / "manifest.json").write_text('{"datasets": {}}')
    done = command("verify", copy, cwd=place)
    assert done.returncode == 1
    assert "is not the manifest of a run" in done.stderr


def test_out_goes_with_a_config(command, place):
    done = command("report", "results/tiny", "--out", "elsewhere", cwd=place)
    assert done.returncode == 2
    assert "--out goes with a config" in done.stderr


def test_a_manifest_that_this_version_does_not_understand(command, copy, place):
    path = copy / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["experiment"] |= {"datasets": ["wien"], "colour": "red"}
    path.write_text(json.dumps(manifest))
    done = command("status", copy, cwd=place)
    assert done.returncode == 2
    assert "unknown dataset 'wien'" in done.stderr
    assert "colour: unknown key" in done.stderr


@pytest.mark.parametrize("name", ["status", "report"])
def test_a_folder_says_what_its_config_says(command, place, name):
    by_config = command(name, "tiny.yaml", cwd=place)
    by_folder = command(name, "results/tiny", cwd=place)
    assert by_folder.returncode == by_config.returncode == 0
    assert by_folder.stdout == by_config.stdout


# ---------------------------------------------------------------------- the parts


def task_of(dataset, fold, column="opauc"):
    identity = {"dataset": dataset, "fold": fold}
    return Task(dataset, column, "opauc", 0, fold, "f" * 64, identity, {}, {}, {}, 1.0, 1.0)


CANDIDATES = [(task_of(dataset, fold), {}) for dataset in "abc" for fold in range(6)]


@given(
    sample=st.none() | st.integers(1, 25),
    seed=st.integers(0, 2**31),
    there=st.sets(st.sampled_from("abc")),
)
def test_draws_are_of_what_can_be_had_without_repetition(sample, seed, there):
    pairs, missing = draw(CANDIDATES, sample, seed, lambda task: task.dataset in there)
    assert len(pairs) == min(6 * len(there), sample or 99)
    assert {task.dataset for task, _ in pairs} <= there
    positions = [CANDIDATES.index(pair) for pair in pairs]
    assert positions == sorted(set(positions))
    assert not set(missing) & there
    assert draw(CANDIDATES, sample, seed, lambda task: task.dataset in there) == (pairs, missing)


def test_draws_are_uniform():
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
def test_a_record_agrees_only_with_its_equal(old, new):
    task = task_of("a", 0)
    recorded = {"status": "ok", "value": old, "environment": {"numpy": "2", "cores": 2}}
    computed = {"status": "ok", "value": new, "environment": {"numpy": "2", "cores": 4}, "timing": {}}
    outcome = compare_records(task, recorded, computed)
    assert outcome.same_platform
    assert outcome.agrees == (json.dumps(old, sort_keys=True) == json.dumps(new, sort_keys=True))
    assert compare_records(task, recorded, {**recorded, "timing": {"wall_seconds": 1.0}}).agrees
