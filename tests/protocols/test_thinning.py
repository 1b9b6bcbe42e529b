"""Training sets with fewer positives: which rows stay, and what becomes of datasets that have too few."""

import json

import numpy as np
import pytest
from folders import record_of, records_of
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from opauc_bench.config import Experiment
from opauc_bench.evaluation.splits import outer_fold, thinned
from opauc_bench.protocols import CrossValidation

EXPERIMENT = """
title: Fewer positives
datasets: [breast_cancer, digits]
learners: [uni_log]
grids: {eta: [0.25]}
protocol: {kind: cv, trials: 1, folds: 2, inner_folds: 2, train_positives: [all, 0.4, 0.02], least_positives: 4}
"""


@given(st.lists(st.booleans(), min_size=1, max_size=60), st.floats(0.01, 0.9), st.integers(0, 5))
def test_as_many_positives_as_the_share_allows_stay_and_all_negatives(labels, share, seed):
    y = np.where(labels, 1, -1)
    rows = np.random.default_rng(seed).permutation(len(y))
    kept = thinned(y, rows, share, seed).tolist()
    assert kept == [row for row in rows if row in set(kept)]
    assert [row for row in kept if y[row] < 0] == [row for row in rows if y[row] < 0]
    n_negative, n_positive = (sum(y[row] == label for row in kept) for label in (-1, 1))
    allowed = share * n_negative * (1 + 1e-9) + 1e-9
    assert n_positive * (1 - share) <= allowed
    assert n_positive == sum(labels) or (n_positive + 1) * (1 - share) > allowed
    assert set(thinned(y, rows, share / 2, seed).tolist()) <= set(kept)
    assert kept == thinned(y, rows, share, seed).tolist()


def test_the_positives_that_stay_are_spread_over_the_visit():
    y = np.repeat([1, -1], [3000, 7000])
    rows = np.random.default_rng(0).permutation(10_000)
    places = np.flatnonzero(y[thinned(y, rows, 0.05, 1)] > 0)
    assert len(places) == 368
    quarters = np.bincount(places // (7368 // 4), minlength=4)
    assert stats.chisquare(quarters).pvalue > 1e-3
    assert not np.array_equal(places, np.flatnonzero(y[thinned(y, rows, 0.05, 2)] > 0))


def test_least_positives_need_a_share():
    for shares in (None, "all", ["all"]):
        with pytest.raises(ValueError, match="expected a share under train_positives beside it"):
            CrossValidation(train_positives=shares, least_positives=50)


def test_settings_without_thinning_keep_their_identity():
    plain = CrossValidation()
    assert "train_positives" not in plain.identity()
    (_, of_all), _ = CrossValidation(train_positives=("all", 0.1), least_positives=50).cases()
    assert of_all.identity() == plain.identity()
    thin = CrossValidation(train_positives=0.1)
    assert thin.identity() == {**plain.identity(), "train_positives": 0.1, "thinning": 2}
    assert CrossValidation(train_positives=0.1, least_positives=50).identity() == thin.identity()
    content = {"title": "t", "datasets": ["wine"], "learners": ["opauc"], "grids": {"eta": [1], "lam": [1]}}
    made = Experiment.model_validate({**content, "protocol": {"train_positives": ["all", 0.1]}})
    assert list(made.rows) == ["wine", "wine @ 10%"]
    assert Experiment.model_validate(json.loads(json.dumps(made.plain()))) == made


def test_a_run_thins_training_sets_only_and_leaves_out_what_has_too_few(command, tmp_path):
    (tmp_path / "e.yaml").write_text(EXPERIMENT)
    planned = command("plan", "e.yaml", cwd=tmp_path)
    done = command("run", "e.yaml", "--out", "results", cwd=tmp_path, exits=0)
    found = {record.id: record for record in records_of(tmp_path / "results")}
    sizes = sorted((r.dataset, r.outcome.n_train, r.outcome.n_test) for r in found.values() if r.fold == 0)
    # breast_cancer has 357 positive and 212 negative rows, digits 906 and 891.
    assert sizes == [
        ("breast_cancer", 106 + 70, 285),
        ("breast_cancer", 284, 285),
        ("digits", 445 + 9, 899),
        ("digits", 445 + 296, 899),
        ("digits", 898, 899),
    ]
    assert "N/A" in next(line for line in done.stdout.splitlines() if line.startswith("breast_cancer @ 2%"))
    assert "left out" in done.stdout
    again = command("plan", "e.yaml", "--out", "results", cwd=tmp_path).stdout
    assert "Left out: breast_cancer @ 2%, since 2% are 2 positive training rows, fewer than 4." in " ".join(
        again.split()
    )
    other = command("plan", "e.yaml", "--out", "results", "--dataset", "digits", cwd=tmp_path).stdout
    assert "Left out" not in other
    assert planned.returncode == 0
    verified = command("verify", "results", "--all", cwd=tmp_path, exits=0)
    assert "breast_cancer @ 40%" in verified.stdout


def test_the_inner_folds_and_the_refit_see_the_thinned_set(command, tmp_path):
    (tmp_path / "e.yaml").write_text(
        EXPERIMENT.replace("[all, 0.4, 0.02]", "0.2").replace("[breast_cancer, digits]", "[breast_cancer]")
    )
    command("run", "e.yaml", "--out", "results", cwd=tmp_path, exits=0)
    record = record_of(tmp_path / "results", "breast_cancer", "uni_log", fold=1)
    from sklearn.datasets import load_breast_cancer
    from sklearn.metrics import roc_auc_score
    from sklearn.preprocessing import MinMaxScaler

    from opauc_bench.learners import get_learner

    X = MinMaxScaler((-1, 1)).fit_transform(load_breast_cancer().data)
    y = np.where(load_breast_cancer().target == 1, 1, -1).astype(np.int8)
    split = outer_fold(y, trial=0, fold=0, dataset="breast_cancer", folds=2, stratified=True, seed=0)
    train = thinned(y, split.train, 0.2, split.seed)
    fitted = get_learner("uni_log")(eta=0.25).fit(X[train], y[train])
    expected = roc_auc_score(y[split.test], X[split.test] @ fitted.coef_[0])
    assert record.metrics["auc"] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("1.5", "expected 'all', a share between 0 and 1, or a list of them, got 1.5"),
        ("[all, 2]", "train_positives[1]: expected 'all' or a share between 0 and 1"),
        ("[0.1, 0.1]", "train_positives[1]: 0.1 is listed twice"),
        ("[0.1, all, 0.1000001]", "train_positives[2]: 0.1000001 and 0.1 would both be the row '@ 10%'; keep one"),
        ("[]", "expected at least one share"),
    ],
)
def test_mistakes(command, tmp_path, value, message):
    (tmp_path / "e.yaml").write_text(EXPERIMENT.replace("[all, 0.4, 0.02]", value))
    done = command("run", "e.yaml", cwd=tmp_path, exits=2)
    assert message in done.stderr


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ("train_positives: 0.9", ["no dataset is measured", "Left out: wine, since no more than 90% of its rows"]),
        ("train_positives: 0.1, least_positives: 30", ["Left out: wine, since 10% are 6 positive training rows"]),
        ("train_positives: 0.02", ["wine: train_positives: 0.02 leaves 1 positive training rows, too few for 2 inner"]),
    ],
)
def test_shares_that_leave_nothing_to_measure(command, tmp_path, settings, expected):
    text = EXPERIMENT.partition("protocol")[0].replace("[breast_cancer, digits]", "[wine]")
    (tmp_path / "e.yaml").write_text(f"{text}protocol: {{trials: 1, folds: 2, inner_folds: 2, {settings}}}\n")
    done = command("run", "e.yaml", "--out", "results", cwd=tmp_path, exits=2)
    for words in expected:
        assert words in " ".join(done.stderr.split())
    assert "least_positives" in done.stderr


def test_a_row_that_is_left_out_is_said_to_be_before_it_was_run(command, tmp_path):
    settings = "trials: 1, folds: 2, inner_folds: 2, train_positives: [0.05, all], least_positives: 4"
    text = EXPERIMENT.partition("protocol")[0].replace("digits]", "wine]")
    (tmp_path / "e.yaml").write_text(f"{text}protocol: {{{settings}}}\n")
    command("run", "e.yaml", "--dataset", "breast_cancer", "--out", "r", cwd=tmp_path, exits=0)
    table = command("report", "e.yaml", "--out", "r", cwd=tmp_path).stdout
    rows = {line.split("  ")[0]: line for line in table.splitlines()}
    assert "N/A" in rows["wine @ 5%"]
    assert "0/2" in rows["wine"]
    refused = command("verify", "r", "-d", "wine @ 5%", cwd=tmp_path, exits=2).stderr
    assert refused == "error: --dataset wine @ 5%: this is a row of the table; its dataset is wine\n"
