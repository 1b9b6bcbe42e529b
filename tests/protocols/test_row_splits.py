"""Splits by row metadata: parts, groups and time, beside slow loops; then the protocols, from the command line."""

import hashlib
import re
from itertools import pairwise
from math import prod
from types import SimpleNamespace

import numpy as np
import pytest
from folders import record_of, records_of
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedGroupKFold

from opauc_bench.commands.session import Session
from opauc_bench.data import Sources, load_catalogue, prepare
from opauc_bench.errors import ConfigError
from opauc_bench.evaluation import holdout_split, outer_fold
from opauc_bench.evaluation.chronological import cut_in_time, expanding_windows
from opauc_bench.evaluation.grouped import grouped_folds
from opauc_bench.evaluation.splits import inner_splits
from opauc_bench.learners import OPAUC
from opauc_bench.protocols import CrossValidation, Holdout, Predefined, Sweep
from opauc_bench.task import Shape


def labels(n, share=0.4, seed=0):
    return np.where(np.random.default_rng(seed).random(n) < share, 1, -1).astype(np.int8)


# ---------------------------------------------------------------------- time


def slow_cuts(time, shares):
    """Cut a sorted list at the nearest places between two different times."""
    rows = sorted(range(len(time)), key=lambda row: time[row])
    changes = [k for k in range(len(rows) + 1) if k in (0, len(rows)) or time[rows[k - 1]] < time[rows[k]]]
    ends = [0]
    for position in range(1, len(shares)):
        wanted = len(rows) * sum(shares[:position]) // sum(shares)
        ends.append(min(changes, key=lambda k: abs(k - wanted)))
    return [rows[a:b] for a, b in pairwise([*ends, len(rows)])]


def joined(blocks):
    return [row for block in blocks for row in block]


TIMES = st.lists(st.integers(0, 12).map(float), min_size=5, max_size=60)


@given(TIMES, st.lists(st.integers(1, 4), min_size=2, max_size=5))
def test_parts_in_time_equal_a_slow_search_for_the_nearest_cuts(time, shares):
    parts = cut_in_time(np.array(time), shares)
    assert [part.tolist() for part in parts] == slow_cuts(time, shares)
    assert sorted(np.concatenate(parts)) == list(range(len(time)))
    times = [[time[row] for row in part] for part in parts if len(part)]
    assert all(max(earlier) < min(later) for earlier, later in pairwise(times)), "rows of equal time are in one part"


@given(TIMES, st.integers(2, 4), st.integers(0, 9))
def test_windows_are_trained_on_all_earlier_blocks_and_nothing_later(time, n_folds, seed):
    time, y = np.array(time), labels(len(time), 0.5, seed)
    blocks = slow_cuts(time.tolist(), [1] * (n_folds + 1))
    if any(len({y[row] for row in block}) < 2 for block in blocks):
        with pytest.raises(ValueError, match=rf"cut into {n_folds + 1} blocks along time, block \d has"):
            expanding_windows(y, time, n_folds)
        return
    windows = expanding_windows(y, time, n_folds)
    for fold, (train, test) in enumerate(windows):
        assert train.tolist() == joined(blocks[: fold + 1])
        assert test.tolist() == blocks[fold + 1]
        assert time[train].max() < time[test].min()
        assert (np.diff(time[train]) >= 0).all()


def test_inner_windows_respect_time_too():
    rng = np.random.default_rng(4)
    time, y = rng.permutation(200) // 2, labels(200)
    split = outer_fold(y, trial=0, fold=3, folds=4, stratified=True, seed=0, dataset="d", time=time)
    inner = inner_splits(y[split.train], inner_folds=3, stratified=True, seed=split.seed, time=time[split.train])
    assert len(inner) == 3
    for train, held_out in inner:
        assert time[split.train[train]].max() < time[split.train[held_out]].min() <= time[split.test].min()


def test_holdout_along_time_has_sets_one_after_the_other():
    time, y = np.random.default_rng(0).permutation(120).astype(float), labels(120)
    settings = {"trial": 0, "shares": (4, 1, 1), "split": "stratified", "seed": 17, "dataset": "d"}
    split = holdout_split(y, imbalance=None, time=time, **settings)
    assert [len(part) for part in (split.train, split.validation, split.test)] == [80, 20, 20]
    assert np.argsort(time).tolist() == [*split.train, *split.validation, *split.test]
    fewer = holdout_split(y, imbalance=0.1, time=time, **settings)
    kept = np.sort(np.concatenate([fewer.train, fewer.validation, fewer.test]))
    assert kept.tolist() == [
        row for row in range(120) if y[row] < 0 or (y[: row + 1] > 0).sum() <= int(0.1 * (y < 0).sum())
    ]
    with pytest.raises(ValueError, match="the test set of trial 1 has no rows"):
        holdout_split(y, imbalance=None, time=np.repeat([1.0, 2.0], 60), **settings)


# ---------------------------------------------------------------------- groups


def slow_folds(y, group, n_folds, order, stratified):
    """Put each group where the sum of squared shares of all folds is least, in exact fractions."""
    from fractions import Fraction

    classes = [[row for row in range(len(y)) if y[row] == label] for label in (1, -1)]
    classes = classes if stratified else [list(range(len(y)))]
    folds = [[] for _ in range(n_folds)]
    rows_of = {name: [row for row in range(len(y)) if group[row] == name] for name in order}

    def shares(rows):
        return [Fraction(len(set(rows).intersection(of)), max(1, len(of))) for of in classes]

    totals = [max(1, len(of)) for of in classes]

    def power(name):
        return int(sum(shares(rows_of[name])) * prod(totals)).bit_length()

    for name in sorted(order, key=lambda name: -power(name)):
        costs = []
        for k in range(n_folds):
            tried = [fold + rows_of[name] if j == k else fold for j, fold in enumerate(folds)]
            costs.append((sum(share**2 for fold in tried for share in shares(fold)), len(folds[k]), k))
        folds[min(costs)[2]] += rows_of[name]
    return [next(k for k in range(n_folds) if row in folds[k]) for row in range(len(y))]


@st.composite
def grouped_rows(draw):
    group = np.array(draw(st.lists(st.integers(0, 20), min_size=20, max_size=60)))
    return labels(len(group), 0.5, draw(st.integers(0, 99))), group, draw(st.integers(2, 4)), draw(st.booleans())


@given(grouped_rows(), st.integers(0, 2**32))
def test_groups_are_whole_and_assigned_as_the_slow_loop_does(rows, seed):
    y, group, n_folds, stratified = rows
    order = np.unique(group)[np.random.default_rng(seed).permutation(len(np.unique(group)))].tolist()
    expected = slow_folds(y, group, n_folds, order, stratified)
    if any(len({y[row] for row in range(len(y)) if expected[row] == k}) < 2 for k in range(n_folds)):
        with pytest.raises(ValueError, match=f"{n_folds} folds of {len(order)} groups, .* rows of one class only"):
            grouped_folds(y, group, n_folds, np.random.default_rng(seed), stratified)
        return
    assigned = grouped_folds(y, group, n_folds, np.random.default_rng(seed), stratified)
    assert assigned.tolist() == expected
    assert all(len(set(assigned[group == name])) == 1 for name in order)


@given(grouped_rows())
def test_no_group_is_on_both_sides_of_an_outer_or_inner_fold_and_every_row_is_tested_once(rows):
    y, group, n_folds, stratified = rows
    settings = {"folds": n_folds, "stratified": stratified, "seed": 3, "dataset": "d", "group": group}
    try:
        splits = [outer_fold(y, trial=1, fold=fold, **settings) for fold in range(n_folds)]
    except ValueError:
        assume(False)
    assert sorted(np.concatenate([split.test for split in splits])) == list(range(len(y)))
    for split in splits:
        assert sorted([*split.train, *split.test]) == list(range(len(y)))
        assert not set(group[split.train]) & set(group[split.test])
        of_train = group[split.train]
        try:
            inner = inner_splits(y[split.train], inner_folds=2, stratified=stratified, seed=split.seed, group=of_train)
        except ValueError:
            continue
        assert sorted(np.concatenate([held_out for _, held_out in inner])) == list(range(len(of_train)))
        assert all(not set(of_train[train]) & set(of_train[held_out]) for train, held_out in inner)


def test_grouped_folds_are_no_less_even_than_those_of_scikit_learn():
    def unevenness(y, assigned):
        return sum(np.var([(y[assigned == k] == c).sum() / (y == c).sum() for k in range(5)]) for c in (1, -1))

    ours, theirs = [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        group = np.repeat(np.arange(50), rng.geometric(0.15, 50))
        y = np.where(rng.random(len(group)) < rng.beta(0.7, 2, 50)[group], 1, -1)
        ours.append(unevenness(y, grouped_folds(y, group, 5, rng)))
        other = np.empty(len(y), dtype=int)
        for k, (_, test) in enumerate(StratifiedGroupKFold(5, shuffle=True, random_state=seed).split(y, y, group)):
            other[test] = k
        theirs.append(unevenness(y, other))
    assert np.mean(ours) < np.mean(theirs)


@pytest.mark.parametrize("n_groups", [20, 50, 500])
def test_trials_have_other_folds_although_no_two_groups_are_equal(n_groups):
    rng = np.random.default_rng(3)
    group = np.repeat(np.arange(n_groups), np.ceil(rng.lognormal(3, 1, n_groups)).astype(int))
    y = labels(len(group), 0.4)
    tested = set()
    for trial in range(5):
        for fold in range(5):
            split = outer_fold(y, trial=trial, fold=fold, folds=5, stratified=True, seed=0, dataset="d", group=group)
            tested.add(tuple(sorted(split.test)))
    assert len(tested) >= 17  # of 25; a group as large as a fold may be alone in one each time


def test_groups_of_one_row_are_spread_as_evenly_as_rows():
    y = labels(203)
    assigned = grouped_folds(y, np.arange(203), 5, np.random.default_rng(0))
    for rows in (y > 0, y < 0, y != 0):
        counts = np.bincount(assigned[rows], minlength=5)
        assert counts.max() - counts.min() <= 1


# ---------------------------------------------------------------------- identity and cost


def test_settings_that_were_added_later_leave_older_identities_as_they_are():
    assert CrossValidation().identity() == {"kind": "cv", "folds": 5, "inner_folds": 5, "stratified": True, "seed": 0}
    assert "order" not in Holdout().identity()
    assert "groups" not in Sweep().identity()["splits"]
    assert CrossValidation(groups=True).identity() == CrossValidation().identity() | {"groups": True}
    assert CrossValidation(order="time", trials=1).identity() == CrossValidation().identity() | {"order": "time"}
    assert Holdout(order="time", trials=1).identity() == Holdout().identity() | {"order": "time"}
    assert Predefined(trials=9).identity() == Predefined().identity()
    assert CrossValidation(**CrossValidation(groups=True).model_dump()) == CrossValidation(groups=True)


def test_predefined_sets_have_the_cost_of_their_sizes():
    def training(n_rows, n_settings, folds=0):
        return (folds - 1 if folds else 1) * n_rows * n_settings, 8.0 * n_settings

    def of(parts):
        return Predefined(inner_folds=4).on(Shape(1000, 5, 1.0, None, parts=parts))

    assert of((600, 100, 300)).sizes(1000, None) == (600, 100, 300)
    assert of((600, 100, 300)).sizes(1000, 50) == (50, 100, 300)
    assert of((600, 100, 300)).cost(1000, 10, None, training)[0] == pytest.approx(600 * 10 + 600, rel=1e-3)
    assert of((700, 0, 300)).cost(1000, 10, None, training)[0] == pytest.approx(4 * 525 * 10 + 700, rel=1e-3)
    assert of(None).sizes(1000, None) == (1000, 0, 1000)
    assert Sweep(splits=Predefined()).on(Shape(1000, 5, 1.0, None, parts=(600, 100, 300))).splits.sizes(1000, 9)[0] == 9


# ---------------------------------------------------------------------- from the command line

N = 569
CATALOGUE = """
datasets:
  parts: {base: breast_cancer, title: With validation rows, split: parts.txt}
  halves: {base: breast_cancer, title: Without them, split: halves.txt}
  people: {base: breast_cancer, title: Rows of persons, group: people.txt}
  days: {base: breast_cancer, title: Rows of days, time: days.txt}
"""
EXPERIMENT = """
title: Splits
catalogue: own.yaml
datasets: [{dataset}]
learners: [opauc]
grids: {{eta: [0.01, 0.1], lambda: [0.01, 1]}}
protocol: {protocol}
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with four datasets that say something of their rows."""
    place = tmp_path_factory.mktemp("splits")
    rng = np.random.default_rng(0)
    files = {
        "parts": rng.choice(["train", "validation", "test"], N, p=[0.6, 0.2, 0.2]),
        "halves": rng.choice(["train", "test"], N),
        "people": rng.integers(0, 60, N).astype(str),
        "days": np.datetime_as_string(np.datetime64("2024-01-01") + rng.integers(0, 200, N)),
    }
    for name, values in files.items():
        (place / f"{name}.txt").write_text("\n".join(values))
    (place / "own.yaml").write_text(CATALOGUE)
    return place


def write(place, name, dataset, protocol, more=""):
    (place / f"{name}.yaml").write_text(EXPERIMENT.format(dataset=dataset, protocol=protocol) + more)
    return f"{name}.yaml"


def data_of(place, name):
    return prepare(load_catalogue(place / "own.yaml")[name], Sources(place / "cache", offline=True))


def seed_for(*parts):
    return int.from_bytes(hashlib.sha256("\x1f".join(map(str, parts)).encode()).digest()[:8], "big")


def auc_of(data, setting, train, test):
    """AUC of one setting, trained alone."""
    model = OPAUC(**setting).fit(np.asarray(data.X)[train], data.y[train])
    return roc_auc_score(data.y[test], np.asarray(data.X)[test] @ model.coef_.ravel())


SETTINGS = [{"eta": eta, "lam": lam} for eta in (0.01, 0.1) for lam in (0.01, 1.0)]


def check_record(record, data, train, selecting, test):
    """Compare a record with a loop over settings and the sets that select them."""
    aucs = [np.mean([auc_of(data, setting, *sets) for sets in selecting]) for setting in SETTINGS]
    np.testing.assert_allclose(record.outcome.selection.auc, aucs, atol=1e-12)
    best = SETTINGS[int(np.argmax(np.round(aucs, 12)))]
    assert record.outcome.selected == best
    assert record.outcome.metrics["auc"] == pytest.approx(auc_of(data, best, train, test), abs=1e-12)
    assert (record.outcome.n_train, record.outcome.n_test) == (len(train), len(test))


def run(invoke, place, config, *expected):
    done = invoke("run", config, "--jobs", "1", cwd=place, exits=0)
    folder = place / "results" / config.removesuffix(".yaml")
    assert all(text in done.stdout for text in expected), done.stdout
    done = invoke("verify", folder, "--sample", "1", cwd=place)
    assert "1 of 1 agree" in done.stdout, done.stdout
    done = invoke("run", config, cwd=place)
    assert "0 of" in done.stderr, done.stderr
    return folder


def test_predefined_split_with_validation_rows(invoke, place):
    folder = run(invoke, place, write(place, "a", "parts", "{kind: predefined, trials: 2}"), "over 2 trials")
    data = data_of(place, "parts")
    parts = np.array((place / "parts.txt").read_text().split())
    train, validation, test = (np.flatnonzero(parts == name) for name in ("train", "validation", "test"))
    for record in records_of(folder):
        order = np.random.default_rng(seed_for("predefined", 0, "parts", record.trial)).permutation(train)
        check_record(record, data, order, [(order, validation)], test)
        assert record.outcome.n_validation == len(validation)
        assert record.outcome.metrics.keys() == {"auc", "sparse_ratio"}
    first, second = records_of(folder)
    assert first.outcome.metrics != second.outcome.metrics


def test_predefined_split_without_validation_rows(invoke, place):
    config = write(place, "b", "halves", "{kind: predefined, trials: 1, inner_folds: 3, seed: 4}")
    (record,) = records_of(run(invoke, place, config))
    data, parts = data_of(place, "halves"), np.array((place / "halves.txt").read_text().split())
    seed = seed_for("predefined", 4, "halves", 0)
    order = np.random.default_rng(seed).permutation(np.flatnonzero(parts == "train"))
    inner = inner_splits(data.y[order], inner_folds=3, stratified=True, seed=seed)
    sets = [(order[train], order[held_out]) for train, held_out in inner]
    check_record(record, data, order, sets, np.flatnonzero(parts == "test"))
    assert record.outcome.n_validation is None


def test_cross_validation_with_groups(invoke, place):
    config = write(place, "c", "people", "{trials: 1, folds: 3, inner_folds: 2, groups: true}")
    folder = run(invoke, place, config, "over 3 outer folds")
    data, group = data_of(place, "people"), np.array((place / "people.txt").read_text().split())
    tested = []
    for fold in range(3):
        settings = {"folds": 3, "stratified": True, "seed": 0, "dataset": "people", "group": data.group}
        split = outer_fold(data.y, trial=0, fold=fold, **settings)
        assert not set(group[split.train]) & set(group[split.test])
        inner = inner_splits(
            data.y[split.train], inner_folds=2, stratified=True, seed=split.seed, group=data.group[split.train]
        )
        sets = [(split.train[train], split.train[held_out]) for train, held_out in inner]
        check_record(record_of(folder, "people", fold=fold + 1), data, split.train, sets, split.test)
        tested += split.test.tolist()
    assert sorted(tested) == list(range(N))


def test_cross_validation_along_time(invoke, place):
    config = write(place, "d", "days", "{trials: 1, folds: 2, inner_folds: 2, order: time}")
    folder = run(invoke, place, config, "over 2 outer folds")
    data, days = data_of(place, "days"), (place / "days.txt").read_text().split()
    blocks = slow_cuts(days, [1, 1, 1])
    for fold in range(2):
        train, test = joined(blocks[: fold + 1]), blocks[fold + 1]
        pieces = [[train[k] for k in piece] for piece in slow_cuts([days[row] for row in train], [1, 1, 1])]
        sets = [(pieces[0], pieces[1]), (pieces[0] + pieces[1], pieces[2])]
        check_record(record_of(folder, "days", fold=fold + 1), data, train, sets, test)


def test_holdout_along_time(invoke, place):
    config = write(place, "e", "days", "{kind: holdout, trials: 1, order: time}")
    (record,) = records_of(run(invoke, place, config))
    data, days = data_of(place, "days"), (place / "days.txt").read_text().split()
    train, validation, test = slow_cuts(days, [4, 1, 1])
    check_record(record, data, train, [(train, validation)], test)


def test_a_limit_of_training_rows_keeps_the_latest_ones(invoke, place):
    config = write(place, "f", "days", "{trials: 1, folds: 2, inner_folds: 2, order: time}")
    text = (place / config).read_text().replace("[opauc]", "[{learner: opauc, max_train: 100}]")
    (place / config).write_text(text)
    folder = run(invoke, place, config)
    data, days = data_of(place, "days"), (place / "days.txt").read_text().split()
    blocks = slow_cuts(days, [1, 1, 1])
    train = (blocks[0] + blocks[1])[-100:]
    pieces = [[train[k] for k in piece] for piece in slow_cuts([days[row] for row in train], [1, 1, 1])]
    sets = [(pieces[0], pieces[1]), (pieces[0] + pieces[1], pieces[2])]
    check_record(record_of(folder, "days", fold=2), data, train, sets, blocks[2])


def test_a_limit_that_leaves_too_few_rows_for_inner_folds_is_named(invoke, place):
    config = write(place, "h", "days", "{trials: 1, folds: 2, inner_folds: 2, order: time}")
    text = (place / config).read_text().replace("[opauc]", "[{learner: opauc, max_train: 4}]")
    (place / config).write_text(text)
    done = invoke("run", config, "--offline", cwd=place)
    assert done.returncode == 1
    assert re.search(r"error: max_train 4 (of days: |leaves \d positive)", done.stdout + done.stderr)


def test_figures_use_predefined_splits(invoke, place):
    figure = "figures: [{x: eta, y: auc, along: ''}]\n"
    config = write(place, "g", "parts", "{kind: sweep, splits: {kind: predefined, trials: 2}}", figure)
    for record in records_of(run(invoke, place, config)):
        assert set(record.outcome.columns) == {"auc", "validation_auc", "sparse_ratio"}
        assert record.outcome.n_train + record.outcome.n_validation + record.outcome.n_test == N


@pytest.mark.parametrize(
    ("dataset", "protocol", "place_of", "problem"),
    [
        ("wine", "{kind: predefined}", "4:12: datasets[0]", "this protocol needs 'split' for each row, and the"),
        ("people", "{groups: true, trials: 1, order: time}", "7:44: protocol.order", "expected one of 'groups: true'"),
        (
            "days",
            "{groups: true}",
            "4:12: datasets[0]",
            "this protocol needs 'group' for each row, and the",
        ),
        ("days", "{order: time}", "7:19: protocol.order", "expected 'trials: 1' beside it, got 5"),
        ("days", "{kind: holdout, order: time}", "7:34: protocol.order", "expected 'trials: 1' beside it, got 10"),
        (
            "days",
            "{kind: holdout, trials: 1, split: released, order: time}",
            "7:62: protocol.order",
            "rows are cut along time: expected no 'split: released' beside it",
        ),
        ("days", "{kind: holdout, groups: true}", "7:27: protocol.groups", "unknown key"),
        ("wine", "{kind: sweep, splits: {kind: predefined}}", "4:12: datasets[0]", "add 'split: FILE' to the entry"),
        (
            "wine",
            "{kind: sweep, splits: {kind: sweep}}",
            "7:40: protocol.splits.kind",
            "expected 'cv' or 'holdout' or 'predefined', got 'sweep'",
        ),
    ],
)
def test_mistakes_have_line_and_column(place, dataset, protocol, place_of, problem):
    config = write(place, "wrong", dataset, protocol)
    with pytest.raises(ConfigError) as caught:
        Session.open(place / config, sources=Sources(place / "cache", offline=True))
    assert f"wrong.yaml:{place_of}: " in caught.value.message
    assert problem in caught.value.message


def test_groups_are_tried_in_all_folds_before_tasks_start():
    """Four groups with positives: two of them are in one of three folds, and too few remain for three inner folds."""
    rng, group = np.random.default_rng(0), np.repeat(np.arange(8), 20)
    y = np.where((group < 4) & (rng.random(len(group)) < 0.3 + 0.2 * (group % 2)), 1, -1)
    protocol = CrossValidation(trials=1, folds=3, inner_folds=3, groups=True)
    error = protocol.data_problem(SimpleNamespace(y=y, group=group, name="x"))
    assert error.startswith("the training set of a fold: 3 folds of 5 groups, 2 of them with positive rows")


@pytest.mark.parametrize(
    ("metadata", "values", "protocol", "problem"),
    [
        ("split", ["train"] * 400 + ["test"] * 169, "{kind: predefined}", ""),
        ("split", ["test"] * N, "{kind: predefined}", "its training set has 0 positive and 0 negative rows, expected"),
        ("split", ["train"] * N, "{kind: predefined}", "its test set has 0 positive and 0 negative rows, expected at"),
        (
            "split",
            ["validation"] + ["train"] * 400 + ["test"] * 168,
            "{kind: predefined}",
            "its validation set has 0 positive and 1 negative rows, expected at least 1 of each class",
        ),
        (
            "split",
            ["train"] * 3 + ["test"] * 566,
            "{kind: predefined}",
            "its training set has 0 positive and 3 negative rows, expected at least 5 of each class for inner folds, "
            "since it has no validation rows",
        ),
        ("group", ["a"] * 300 + ["b"] * 200 + ["c"] * 69, "{groups: true}", "5 folds of 3 groups, 3 of them with"),
        (
            "time",
            ["1"] * 300 + ["2"] * 269,
            "{trials: 1, order: time}",
            "cut into 6 blocks along time, block 1 has no rows, since many rows have the same time",
        ),
        (
            "time",
            ["1"] * 300 + ["2"] * 269,
            "{kind: holdout, trials: 1, order: time}",
            "cut 4 : 1 : 1 along time, the test set of trial 1 has no rows",
        ),
    ],
)  # fmt: skip
def test_data_that_cannot_be_split_are_refused_before_tasks_start(
    command, tmp_path, metadata, values, protocol, problem
):
    (tmp_path / "values.txt").write_text("\n".join(values))
    (tmp_path / "own.yaml").write_text(
        f"datasets: {{mine: {{base: breast_cancer, title: Mine, {metadata}: values.txt}}}}\n"
    )
    config = write(tmp_path, "x", "mine", protocol)
    command("data", "fetch", "mine", "--catalogue", "own.yaml", cwd=tmp_path, exits=0)
    planned = " ".join(command("plan", config, cwd=tmp_path).stdout.split())
    assert ("It would not start: mine: " in planned) == bool(problem)
    assert problem in planned
    if problem:
        done = command("run", config, cwd=tmp_path, exits=2)
        assert f"mine: {problem}" in done.stderr
        assert not (tmp_path / "results/x/running").exists()


def test_data_info_shows_row_metadata(invoke, place):
    for name, expected in (
        ("parts", r"split       3\d\d train, 1\d\d validation, 1\d\d test"),
        ("people", "group       60 groups"),
        ("days", "time        2024-01-01 to 2024-07-18"),
    ):
        invoke("data", "fetch", name, "--catalogue", "own.yaml", cwd=place, exits=0)
        done = invoke("data", "info", name, "--catalogue", "own.yaml", cwd=place)
        assert re.search(rf"^{expected}$", done.stdout, re.MULTILINE), done.stdout
