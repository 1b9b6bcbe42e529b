"""Protocol kind holdout: its splits, its AUC, its choice of a setting, beside slow loops that are easy to follow."""

import json
from pathlib import Path

import numpy as np
import pytest
from folders import HEBB, changed, records_of, signed
from hypothesis import assume, given
from hypothesis import strategies as st
from reference import records
from reference.released import released_auc, released_split
from sklearn.metrics import roc_auc_score

from opauc_bench.data import Sources, load_catalogue, prepare
from opauc_bench.evaluation import auc_columns, holdout_split, released_auc_columns
from opauc_bench.evaluation.holdout import kept_rows
from opauc_bench.learners import FTRLAUC, SPAML2, SPAMElastic
from opauc_bench.protocols import Holdout
from opauc_bench.results.manifest import read_manifest
from opauc_bench.results.record import make_record, record_to_line
from opauc_bench.results.store import Store
from opauc_bench.runner.worker import WorkerConfig, compute, run_task

PROTOCOL = {
    "kind": "holdout",
    "trials": 10,
    "shares": [4, 1, 1],
    "split": "released",
    "imbalance": None,
    "auc": "released",
    "seed": 17,
}
GRID = {"gamma": (0.01, 0.1, 1.0), "l1": (1e-4, 0.5, 40.0)}


def labels(n, share=0.4, seed=0):
    return np.where(np.random.default_rng(seed).random(n) < share, 1, -1).astype(np.int8)


def split_of(y, trial=0, **changes):
    settings = {"shares": (4, 1, 1), "split": "released", "imbalance": None, "seed": 17, "dataset": "d", **changes}
    return holdout_split(y, trial=trial, **settings)


# ---------------------------------------------------------------------- splits


@pytest.mark.parametrize("imbalance", [None, 0.1, 0.05])
@pytest.mark.parametrize("n", [601, 1200, 4143])
def test_released_splits_are_those_of_the_program(n, imbalance):
    y = labels(n)
    for trial in (0, 1, 9):
        made = split_of(y, trial, imbalance=imbalance)
        for part, expected in zip((made.train, made.validation, made.test), released_split(y, trial, 17, imbalance)):
            assert part.tolist() == expected


def test_sizes_of_the_parts_of_farm_ads():
    made = split_of(labels(4143))
    assert (len(made.train), len(made.validation), len(made.test)) == (2762, 690, 691)


def test_released_split_does_not_change_the_global_generator():
    np.random.seed(5)  # noqa: NPY002
    split_of(labels(300), 3)
    drawn = np.random.random()  # noqa: NPY002
    np.random.seed(5)  # noqa: NPY002
    assert drawn == np.random.random()  # noqa: NPY002


@pytest.mark.parametrize("imbalance", [0.1, 0.3])
def test_kept_rows_are_all_negatives_and_the_first_positives(imbalance):
    y = labels(500)
    kept = kept_rows(y, imbalance)
    positives = [row for row in kept if y[row] > 0]
    assert [row for row in kept if y[row] < 0] == np.flatnonzero(y < 0).tolist()
    assert positives == np.flatnonzero(y > 0)[: int(imbalance * (y < 0).sum())].tolist()
    assert kept.tolist() == sorted(kept)
    assert kept_rows(y, None).tolist() == list(range(500))


def both_classes_everywhere(y, trial, shares):
    """Whether the slices of the program's permutation have rows of both classes."""
    rows = np.random.RandomState(17)
    order = [rows.permutation(len(y)) for _ in range(trial + 1)][trial]
    ends = np.cumsum(shares) * len(y) // sum(shares)
    return all(len(set(y[part])) == 2 for part in np.split(order, ends[:2]))


@given(
    st.integers(12, 200),
    st.integers(12, 200),
    st.tuples(*[st.integers(1, 5)] * 3),
    st.sampled_from(["stratified", "released"]),
    st.integers(0, 4),
)
def test_holdout_sets_are_a_partition_of_the_rows(n_positive, n_negative, shares, split, trial):
    y = np.random.default_rng(1).permutation(np.repeat([1, -1], [n_positive, n_negative]))
    if split == "stratified":
        assume(all(min(n_positive, n_negative) * share >= sum(shares) for share in shares))
    else:
        assume(both_classes_everywhere(y, trial, shares))
    made = split_of(y, trial, shares=shares, split=split)
    parts = (made.train, made.validation, made.test)
    assert sorted(np.concatenate(parts)) == list(range(len(y)))
    for part, share in zip(parts, shares):
        assert abs(len(part) - len(y) * share / sum(shares)) < 2
        if split == "stratified":
            assert abs((y[part] > 0).sum() - n_positive * share / sum(shares)) < 1


def test_stratified_split_depends_on_seed_dataset_and_trial():
    y = labels(300)
    base = split_of(y, split="stratified")
    assert split_of(y, split="stratified").train.tolist() == base.train.tolist()
    for other in (
        split_of(y, 1, split="stratified"),
        split_of(y, split="stratified", seed=18),
        split_of(y, split="stratified", dataset="e"),
    ):
        assert other.train.tolist() != base.train.tolist()
        assert other.seed != base.seed
    assert base.train.tolist() != sorted(base.train)


def test_holdout_set_of_one_class_is_an_error():
    y = np.full(60, -1)
    y[:2] = 1
    with pytest.raises(ValueError, match=r"the (training|validation|test) set of trial 1 has rows of one class only"):
        split_of(y)


# ---------------------------------------------------------------------- the AUC of the program


@given(st.lists(st.tuples(st.sampled_from([1, -1]), st.integers(-3, 3)), min_size=2, max_size=30))
def test_released_auc_is_the_area_without_the_last_trapezoid(rows):
    y, scores = np.array([label for label, _ in rows]), np.array([score / 3 for _, score in rows])
    if len(set(y.tolist())) < 2:
        return
    found = released_auc_columns(y, np.column_stack([scores, -scores]))
    assert found[0] == pytest.approx(released_auc(y, scores), abs=1e-12)
    assert found[1] == pytest.approx(released_auc(y, -scores), abs=1e-12)


def test_without_ties_released_auc_lacks_one_negative_or_nothing():
    y, scores = labels(200), np.random.default_rng(3).permutation(200.0 * np.arange(200))[:, None]
    lacking = auc_columns(y, scores)[0] - released_auc_columns(y, scores)[0]
    lowest = y[np.argmin(scores)]
    assert lacking == pytest.approx(1 / (y < 0).sum() if lowest < 0 else 0.0, abs=1e-12)
    assert np.isnan(released_auc_columns(y, np.where(scores == scores[7], np.inf, scores))[0])
    with pytest.raises(ValueError, match="two classes"):
        released_auc_columns(np.ones(3), np.zeros((3, 1)))


# ---------------------------------------------------------------------- a task, written out


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    return prepare(load_catalogue()["digits"], Sources(tmp_path_factory.mktemp("cache"), (), True))


def task_of(data, learner="ftrl_auc", grid=GRID, params=None, tuned_by=None, **protocol):
    return records.task_of(
        dataset=data.name,
        column="mine",
        learner=learner,
        trial=2,
        fold=0,
        fingerprint=data.fingerprint,
        definition={"learner": learner, "protocol": protocol, "tuned_by": str(tuned_by)},
        params=params or {},
        grid=grid,
        protocol=Holdout(**{**PROTOCOL, **protocol}),
        tuned_by=tuned_by,
    )


def place_of(data, folder, **limits):
    return WorkerConfig(results=folder, prepared={data.name: str(data.folder)}, **limits)


def computed(task, config, store=None):
    """The record of a task, as far as the task decides it."""
    return make_record(task, {"timing": {}, **compute(task, config, store)}, "e" * 16)


def settings_of(grid):
    """All combinations, the last axis fastest."""
    combined = [{}]
    for axis, values in grid.items():
        combined = [{**setting, axis: value} for setting in combined for value in values]
    return combined


def by_a_loop(data, make, settings, measure, **split):
    """Train each setting by itself; select by the validation rows; train and measure the selected one again."""
    X, y = np.asarray(data.X), np.asarray(data.y)
    parts = released_split(y, 2, 17, split.get("imbalance"))
    train, validation, test = map(np.array, parts)
    aucs = [
        measure(y[validation], make(**setting).fit(X[train], y[train]).decision_function(X[validation]))
        for setting in settings
    ]
    selected = settings[max(range(len(settings)), key=lambda i: round(aucs[i], 12))]
    model = make(**selected).fit(X[train], y[train])
    return parts, aucs, selected, y[test], model.decision_function(X[test]), model.coef_[0]


@pytest.mark.parametrize("imbalance", [None, 0.3])
@pytest.mark.parametrize("auc", ["released", "exact"])
def test_holdout_task_equals_selection_training_and_test_as_a_loop(digits, tmp_path, auc, imbalance):
    record = computed(task_of(digits, auc=auc, imbalance=imbalance), place_of(digits, tmp_path))
    measure = released_auc if auc == "released" else roc_auc_score
    parts, aucs, selected, y, scores, w = by_a_loop(digits, FTRLAUC, settings_of(GRID), measure, imbalance=imbalance)
    assert len(set(aucs)) > 4, "settings have to differ for this to tell anything"
    assert record.status == "ok"
    assert record.selection.auc == pytest.approx(aucs, abs=1e-12)
    assert (record.selection.n_settings, record.selection.n_diverged) == (9, 0)
    assert record.selected == selected
    sizes = (record.outcome.n_train, record.outcome.n_validation, record.outcome.n_test)
    assert sizes == tuple(map(len, parts))
    metrics = record.metrics
    assert metrics["auc"] == pytest.approx(measure(y, scores), abs=1e-12)
    assert metrics["sparse_ratio"] == np.mean(w != 0)
    assert 0 < metrics["sparse_ratio"] < 1
    assert ("auc_exact" in metrics) == (auc == "released")
    assert metrics.get("auc_exact", metrics["auc"]) == pytest.approx(roc_auc_score(y, scores), abs=1e-12)
    assert record.timing.fit_cpu_seconds > 0


def test_of_equal_settings_the_first_one_is_selected(digits, tmp_path):
    grid = {"gamma": (0.1,), "l1": (5e5, 1e6, 2e6)}
    record = computed(task_of(digits, grid=grid, auc="exact"), place_of(digits, tmp_path))
    assert record.selection.auc.tolist() == [0.5] * 3
    assert record.selected == {"gamma": 0.1, "l1": 5e5}
    assert record.metrics == {"auc": 0.5, "sparse_ratio": 0.0}


def test_axes_from_inherits_the_values_that_another_learner_selects(digits, tmp_path):
    grid = {"xi": (0.01, 1.0), "l2": (1e-3, 1.0)}
    tuned_by = {"learner": "spam_l2", "params": {}, "grid": grid, "axes": ["xi", "l2"]}
    task = task_of(digits, "spam_elastic", {"l1": (1e-4, 1e-2, 1.0)}, tuned_by=tuned_by)
    record = computed(task, place_of(digits, tmp_path))
    _, _, first, *_ = by_a_loop(digits, SPAML2, settings_of(grid), released_auc)
    settings = [{"l1": l1, **first} for l1 in (1e-4, 1e-2, 1.0)]
    _, aucs, selected, y, scores, _ = by_a_loop(digits, SPAMElastic, settings, released_auc)
    assert record.selection.auc == pytest.approx(aucs, abs=1e-9)
    assert record.selected == selected
    assert record.metrics["auc"] == pytest.approx(released_auc(y, scores), abs=1e-9)


def test_max_train_takes_the_first_rows_of_the_order(digits, tmp_path):
    task = task_of(digits, grid={"gamma": (0.1,), "l1": (1e-3,)})
    object.__setattr__(task, "max_train", 100)
    record = computed(task, place_of(digits, tmp_path))
    X, y = np.asarray(digits.X), np.asarray(digits.y)
    train, _, test = map(np.array, released_split(y, 2))
    model = FTRLAUC(gamma=0.1, l1=1e-3).fit(X[train[:100]], y[train[:100]])
    assert (record.outcome.n_train, record.max_train) == (100, 100)
    assert record.metrics["auc"] == pytest.approx(released_auc(y[test], X[test] @ model.coef_[0]), abs=1e-12)


DIVERGES = (
    HEBB
    + '''
PASSES = []


class Overflows(Hebb):
    """Overflows where eta is above ``limit``; by itself also where eta is 0.5; counts its passes."""

    def __init__(self, eta=0.1, limit=0.9):
        self.eta = eta
        self.limit = limit

    def _begin(self, n_features, settings):
        PASSES.append(settings["eta"].tolist())
        if len(PASSES) > 3 and self.limit == 0.77:
            raise KeyboardInterrupt
        return super()._begin(n_features, settings)

    def behave(self, state, X):
        eta = state.settings["eta"]
        state.W[:, eta > self.limit] = np.inf
        if len(eta) == 1:
            state.W[:, eta == 0.5] = np.nan
'''
)


@pytest.fixture
def overflows(tmp_path):
    (tmp_path / "overflows.py").write_text(DIVERGES)
    return f"{tmp_path / 'overflows.py'}:Overflows"


def test_settings_that_overflow_are_left_out_and_the_next_best_is_taken(digits, tmp_path, overflows):
    config = place_of(digits, tmp_path)
    record = computed(task_of(digits, overflows, {"eta": (0.5, 0.25, 1.0)}), config)
    assert record.status == "ok"
    assert np.isnan(record.selection.auc).tolist() == [False, False, True]
    assert record.selection.n_diverged == 1
    assert record.outcome.diverged_in_refit == ({"eta": 0.5},)
    assert record.selected == {"eta": 0.25}
    nothing = computed(task_of(digits, overflows, {"eta": (0.5, 1.0)}), config)
    assert (nothing.status, nothing.message) == ("diverged", "no setting stayed finite")
    assert (nothing.metrics, nothing.selected) == ({}, {})
    tuned_by = {"learner": overflows, "params": {}, "grid": {"eta": (1.0, 2.0)}, "axes": ["eta"]}
    inherits = computed(task_of(digits, overflows, {}, tuned_by=tuned_by), config)
    assert inherits.status == "diverged"
    assert "which selects the axes first" in inherits.message


def test_blocks_of_settings_that_are_done_are_not_done_again(digits, tmp_path, overflows, monkeypatch):
    """One setting fits in memory at a time; the run is interrupted in the fourth pass, and goes on from there."""
    from opauc_bench.learners import get_learner
    from opauc_bench.runner import worker

    monkeypatch.setattr(worker, "_WORTH_KEEPING", -1.0)
    grid = {"eta": (0.3, 0.1, 0.25, 0.4, 0.2)}
    task = task_of(digits, overflows, grid, params={"limit": 0.77})
    class_ = get_learner(overflows)
    memory = class_().cost(1, 64, 64.0, 1)[1] / 0.7
    config = place_of(digits, tmp_path / "results", memory_bytes=memory)
    store = Store(tmp_path / "results")
    passes = class_._begin.__globals__["PASSES"]
    passes.clear()
    with pytest.raises(KeyboardInterrupt):
        compute(task, config, store)
    kept = json.loads(store.partial_path(task).read_text())
    assert list(kept["validation"]) == ["0", "1", "2"]
    assert passes == [[0.3], [0.1], [0.25], [0.4]]
    monkeypatch.setitem(class_._consume.__globals__, "PASSES", passes)
    passes[:] = [[9.0]] * 2  # a pass more than these is refused: two are left, and that of the selected setting
    whole = computed(task_of(digits, overflows, grid), config)
    passes.clear()
    task_again = task_of(digits, overflows, grid, params={"limit": 0.77})
    passes.clear()
    again = computed(task_again, config, store)
    assert passes[:2] == [[0.4], [0.2]]
    assert len(passes) == 3
    assert again.selection.auc.tolist() == whole.selection.auc.tolist()
    assert again.metrics == whole.metrics


def test_holdout_record_is_checked_when_it_is_read(digits, tmp_path):
    task = task_of(digits)
    record = run_task(task, place_of(digits, tmp_path))
    store = Store(tmp_path)
    assert record_to_line(store.read()[task.id]) == record_to_line(record)
    content = json.loads(record_to_line(record))
    del content["checksum"]
    for change, complaint in (
        ({"auc": 1.5}, "expected a number in [0, 1] for metrics.auc, got 1.5"),
        ({"auc": 0.5, "sparse_ratio": -1.0}, "expected a number in [0, 1] for metrics.sparse_ratio"),
        ({"auc": None}, "expected a number for metrics.auc, got null"),
        ({"auc": 0.5, "sparse_ratio": "x"}, "outcome.metrics.sparse_ratio: expected a number, got 'x'"),
        ({"auc": 0.5}, "expected metrics.sparse_ratio with status ok"),
        ({}, "expected metrics.auc with status ok"),
        ([1], "outcome.metrics: "),
    ):
        store.loose_path(task).write_bytes(signed(changed(content, {"outcome.metrics": change})))
        found = store.read()
        assert len(found) == 0
        (damage,) = found.damaged
        assert complaint in damage


# ---------------------------------------------------------------------- the command line

SMALL = """
title: A small holdout
datasets: [breast_cancer, digits]
learners:
  - {learner: ftrl_auc, title: FTRL-AUC}
  - {learner: ftrl_auc, name: ftrl_auc_released, title: "FTRL-AUC (released)", params: {variant: released}}
  - {learner: spam_l2, title: SPAM-l2}
  - {learner: spam_elastic, title: SPAM-l1/l2, axes_from: spam_l2}
  - {learner: rda_l1, title: RDA-l1, grid: {gamma: [1, 10], l1: [0.001], rho: [0, 0.005]}}
grids: {gamma: [0.1, 1], l1: [0.0001, 0.1, 1], l2: [0.001, 0.1], xi: [0.1, 1]}
protocol: {kind: holdout, trials: 2, split: released, auc: released, imbalance: [0.5, 0.25]}
"""


@pytest.fixture(scope="module")
def small(invoke, tmp_path_factory):
    folder = tmp_path_factory.mktemp("small")
    (folder / "small.yaml").write_text(SMALL)
    done = invoke("run", "small.yaml", "--jobs", "2", cwd=folder, exits=0)
    return folder, done.stdout


def test_tables_have_a_section_per_metric_in_every_format(small):
    folder, printed = small
    assert max(map(len, printed.splitlines())) <= 80
    results = folder / "results" / "small"
    rows = ["breast_cancer @ 0.5", "breast_cancer @ 0.25", "digits @ 0.5", "digits @ 0.25"]
    for text in (printed, *((results / f"table.{end}").read_text() for end in ("md", "tex", "html"))):
        places = [
            text.index(heading) for heading in ("AUC\n" if text is printed else "AUC", "Sparse ratio", "Run time")
        ]
        assert places == sorted(places)
        assert all(text.count(row.replace("_", r"\_") if "\\" in text else row) >= 3 for row in rows), text
        assert "Mean ± std (n)" in text or r"Mean $\pm$ std (n)" in text
    csv = (results / "table.csv").read_text().splitlines()
    assert csv[0].split(",")[:4] == ["dataset", "column", "metric", "mean"]
    assert [line.split(",")[2] for line in csv[1:]] == [
        m for m in ("auc", "sparse_ratio", "seconds") for _ in range(20)
    ]
    assert all(line.split(",")[-1] == "ok" for line in csv[1:])


def test_means_and_deviations_are_those_of_the_records(small):
    import pandas as pd

    results = small[0] / "results" / "small"
    table = pd.read_csv(results / "table.csv").set_index(["dataset", "column", "metric"])
    folds = pd.read_csv(results / "folds.csv")
    assert list(folds.columns[7:10]) == ["auc", "auc_exact", "sparse_ratio"]
    assert (folds.auc_exact >= folds.auc - 1e-12).all()
    assert set(folds.dataset) == {"breast_cancer", "digits"}
    groups = folds.groupby(["row", "learner"])
    assert len(groups) == 20
    for (row, column), group in groups:
        assert len(group) == 2
        for name, values in (("auc", group.auc), ("sparse_ratio", group.sparse_ratio)):
            assert table.loc[(row, column, name), "mean"] == pytest.approx(values.mean(), abs=1e-15)
            assert table.loc[(row, column, name), "std"] == pytest.approx(values.std(ddof=0), abs=1e-15)
    definitions = read_manifest(results).definitions
    seconds = [
        record.timing.fit_cpu_seconds
        for record in records_of(results)
        if (record.dataset, record.column) == ("digits", "ftrl_auc")
        and definitions[record.definition]["protocol"]["imbalance"] == 0.5
    ]
    assert len(seconds) == 2
    assert table.loc[("digits @ 0.5", "ftrl_auc", "seconds"), "mean"] == pytest.approx(np.mean(seconds))


def test_other_commands_accept_a_holdout_experiment(small, command):
    folder, printed = small
    assert command("run", "small.yaml", cwd=folder).stdout + "\nwritten to results/small/\n" == printed
    status = command("status", "small.yaml", cwd=folder).stdout
    assert status.count("2/2") == 20
    assert "digits @ 0.25" in status
    plan = command("plan", "small.yaml", cwd=folder).stdout
    assert "40 tasks done, 0 to do" in plan
    command("verify", "results/small", "--sample", "3", cwd=folder, exits=0)


def test_single_ratio_has_the_same_tasks(small, command):
    folder, _ = small
    (folder / "one.yaml").write_text(SMALL.replace("[0.5, 0.25]", "0.25") + "reuse: [small]\n")
    done = command("run", "one.yaml", cwd=folder, exits=0)
    assert "0 of 20 tasks to compute\n" in done.stderr
    results = folder / "results" / "one"
    assert records_of(results) == []
    ((name, ids),) = read_manifest(results).reused.items()
    assert (name, len(ids)) == ("small", 20)
    folds = (results / "folds.csv").read_text().splitlines()
    assert folds[1:] == [
        line for line in (folder / "results/small/folds.csv").read_text().splitlines() if " @ 0.25," in line
    ]
    again = command("run", "one.yaml", cwd=folder)
    assert "0 of 20 tasks to compute: all have records" in again.stderr


def test_too_few_positives_are_reported_before_the_run(small, command):
    folder, _ = small
    for old, new, told in (
        ("[0.5, 0.25]", "3", "imbalance 3 asks for 636 positive rows, and it has 357"),
        ("[0.5, 0.25]", "[0.5, 0.01]", "breast_cancer: its rarer class has 2 rows, too few to be divided 4 : 1 : 1"),
    ):
        Path(folder / "few.yaml").write_text(SMALL.replace(old, new))
        done = command("run", "few.yaml", cwd=folder, exits=2)
        assert told in " ".join(done.stderr.split())


def test_a_released_split_with_rows_of_one_class_is_an_error_before_the_run(command, tmp_path):
    (tmp_path / "h.yaml").write_text(
        """
title: t
datasets: [wine]
learners: [uni_log]
grids: {eta: [0.25]}
protocol: {kind: holdout, trials: 6, split: released, imbalance: 0.06}
"""
    )
    done = command("run", "h.yaml", cwd=tmp_path)
    assert done.returncode != 0
    assert "wine" in done.stderr
    assert "at random, as 'split: released' does, the validation set of trial" in " ".join(done.stderr.split())
    assert not (tmp_path / "results").exists()
