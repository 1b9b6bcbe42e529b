"""Metrics beside the AUC: against scikit-learn, in tables and records, and computed from kept test scores."""

import re
import shutil

import numpy as np
import pytest
from folders import record_of, records_of
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_wine
from sklearn.metrics import average_precision_score, brier_score_loss, log_loss, roc_auc_score
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import MinMaxScaler

from opauc_bench.evaluation.metrics import evaluate, metric_name, ranking_metric, selection_metric
from opauc_bench.evaluation.splits import inner_splits, outer_fold
from opauc_bench.report.metrics import metric_of
from opauc_bench.results.manifest import read_manifest

EXPERIMENT = """
title: Metrics
datasets: [wine]
learners:
  - {learner: uni_log, grid: {eta: [0.25, 0.5]}}
  - {estimator: sklearn.linear_model.LogisticRegression, name: logreg, grid: {C: [0.01, 1]}}
protocol: {kind: cv, trials: 1, folds: 2, inner_folds: 2, keep_scores: true%s}
"""


@given(
    st.lists(st.tuples(st.booleans(), st.integers(-4, 4)), min_size=2, max_size=40).filter(
        lambda rows: 0 < sum(label for label, _ in rows) < len(rows)
    ),
    st.floats(0.01, 0.99),
)
def test_metrics_are_those_of_scikit_learn_with_ties(rows, rate):
    y = np.array([1 if label else -1 for label, _ in rows])
    scores = np.array([score / 3 for _, score in rows])
    name = metric_name(f"partial_auc@{rate:g}")
    found = evaluate(["auc", "average_precision", name], y, scores, None)
    assert found["auc"] == pytest.approx(roc_auc_score(y, scores), abs=1e-12)
    assert found["average_precision"] == pytest.approx(average_precision_score(y, scores), abs=1e-12)
    limit = float(name.partition("@")[2])
    assert found[name] == pytest.approx(roc_auc_score(y, scores, max_fpr=limit), abs=1e-10)


@pytest.mark.parametrize(("n_positive", "n_negative", "rate"), [(25, 358, 0.41), (53, 263, 0.38636363636363635)])
def test_a_partial_auc_is_not_above_one(n_positive, n_negative, rate):
    y, scores = np.repeat([1, -1], [n_positive, n_negative]), np.random.default_rng(1).random(n_positive + n_negative)
    name = metric_name(f"partial_auc@{rate}")
    assert evaluate([name], y, scores + 2 * (y > 0), None)[name] == 1


def test_metrics_of_probabilities_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    y = np.where(rng.random(300) < 0.2, 1, -1)
    p = np.clip(rng.random(300), 0, 1)
    p[:4] = [0.0, 1.0, 0.0, 1.0]
    y[:4] = [1, -1, -1, 1]
    found = evaluate(["log_loss", "brier"], y, p, p)
    assert found["log_loss"] == pytest.approx(log_loss(y, p), rel=1e-12)
    assert found["brier"] == pytest.approx(brier_score_loss(y, p), rel=1e-12)
    assert evaluate(["log_loss", "brier", "auc"], y, p, None)["brier"] is None
    found = evaluate(["log_loss"], y, p, p.astype(np.float32))
    assert found["log_loss"] == pytest.approx(log_loss(y, p.astype(np.float32)), rel=1e-6)
    for wrong in (np.nan, 1.5, -0.1, np.inf):
        found = evaluate(["log_loss", "brier", "auc"], y, p, np.where(np.arange(300) == 7, wrong, p))
        assert (found["log_loss"], found["brier"]) == (None, None)
        assert found["auc"] == pytest.approx(roc_auc_score(y, p))


def test_a_rate_keeps_all_its_digits():
    assert metric_name("partial_auc@0.9999999") == "partial_auc@0.9999999"
    assert metric_name("partial_auc@0.10") == metric_name("partial_auc@.1") == "partial_auc@0.1"
    assert metric_name(metric_name("partial_auc@0.0000001")) == "partial_auc@1e-07"


@pytest.mark.parametrize(("name", "loss"), [("log_loss", log_loss), ("brier", brier_score_loss)])
def test_a_setting_is_selected_by_a_loss(command, tmp_path, name, loss):
    """By the mean over the inner folds, against a loop over scikit-learn."""
    values = [1e-4, 0.01, 1, 100]
    entry = f"{{estimator: sklearn.naive_bayes.GaussianNB, name: bayes, grid: {{var_smoothing: {values}}}}}"
    text = f"title: t\ndatasets: [wine]\nlearners:\n  - {entry}\n"
    (tmp_path / "e.yaml").write_text(f"{text}protocol: {{trials: 1, folds: 2, inner_folds: 2, select: {name}}}\n")
    command("run", "e.yaml", "--out", "results", cwd=tmp_path, exits=0)
    command("verify", "results", "--sample", 2, cwd=tmp_path, exits=0)
    data = load_wine()
    X, y = MinMaxScaler((-1, 1)).fit_transform(data.data), np.where(data.target == 0, 1, -1)
    for record in records_of(tmp_path / "results"):
        split = outer_fold(y, trial=0, fold=record.fold, dataset="wine", folds=2, stratified=True, seed=0)
        seed = split.seed
        losses = np.zeros(len(values))
        for train, held_out in inner_splits(y[split.train], inner_folds=2, stratified=True, seed=seed):
            train, held_out = split.train[train], split.train[held_out]
            for k, value in enumerate(values):
                model = GaussianNB(var_smoothing=value).fit(X[train], y[train])
                losses[k] += loss(y[held_out], model.predict_proba(X[held_out])[:, 1]) / 2
        np.testing.assert_allclose(record.selection.auc, -losses, rtol=1e-9)
        assert record.selected["var_smoothing"] == values[np.argmin(losses)]
    command("report", "results", "--to", "page", "--html", cwd=tmp_path, exits=0)
    assert f"<p>Minus the {metric_of(name).meaning} of each setting" in (tmp_path / "page" / "report.html").read_text()


@pytest.mark.parametrize("name", ["auc", "average_precision", "partial_auc@0.5", "log_loss", "brier"])
def test_rows_of_one_class_have_no_value(name):
    y, columns = np.full(4, -1), np.linspace(0, 1, 4)[:, None]
    for compute in (selection_metric(name), lambda y, columns: evaluate([name], y, columns[:, 0], columns[:, 0])):
        with pytest.raises(ValueError, match=r"need rows of two classes; got the labels \[-1\]"):
            compute(y, columns)


def test_a_column_with_scores_that_are_not_finite_has_no_value():
    y = np.array([1, -1, 1, -1])
    scores = np.array([[1.0, 2.0], [0.0, np.inf], [3.0, 1.0], [2.0, 0.0]])
    for name in ("auc", "average_precision", "partial_auc@0.5"):
        assert np.isnan(ranking_metric(name)(y, scores)).tolist() == [False, True]
    for name in ("log_loss", "brier"):
        assert np.isnan(selection_metric(name)(y, scores / 3)).tolist() == [False, True]
        assert np.isnan(selection_metric(name)(y, scores)).all()  # not all are probabilities


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("average_precison", "did you mean 'average_precision'"),
        ("partial_auc@1.5", "false positive rate between 0 and 1"),
        ("partial_auc", "as in partial_auc@0.1"),
        ("f1", "known: auc, average_precision"),
    ],
)
def test_unknown_metrics_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        metric_name(text)
    assert metric_name("partial_auc@.10") == "partial_auc@0.1"


@pytest.fixture(scope="module")
def kept(invoke, tmp_path_factory):
    """A run whose test scores were kept."""
    desk = tmp_path_factory.mktemp("metrics")
    (desk / "e.yaml").write_text(EXPERIMENT % "")
    invoke("run", "e.yaml", "--out", "results", cwd=desk, exits=0)
    return desk


def test_kept_scores_are_those_of_the_test_rows_and_give_the_recorded_auc(kept):
    for record in records_of(kept / "results"):
        with np.load(kept / f"results/scores/{record.id}.npz") as scores:
            assert roc_auc_score(scores["y"], scores["scores"]) == pytest.approx(record.metrics["auc"], abs=1e-12)
            assert len(scores["rows"]) == record.outcome.n_test
            assert ("probabilities" in scores.files) == (record.column == "logreg")


def test_added_metrics_are_those_of_a_run_that_asks_for_them(kept, command, tmp_path):
    names = ["average_precision", "partial_auc@0.2", "log_loss", "brier"]
    (tmp_path / "e.yaml").write_text(EXPERIMENT % f", metrics: [{', '.join(names)}]")
    command("run", "e.yaml", "--out", "asked", cwd=tmp_path, exits=0)
    (tmp_path / "e.yaml").write_text(EXPERIMENT % "")
    command("run", "e.yaml", "--out", "added", cwd=tmp_path, exits=0)
    done = command("metrics", "added", *(word for name in names for word in ("--add", name)), cwd=tmp_path, exits=0)
    assert "4 records completed" in done.stderr
    assert "Average precision" in done.stdout
    for asked, added in zip(records_of(tmp_path / "asked"), records_of(tmp_path / "added")):
        assert list(asked.metrics) == ["auc", *names]
        assert (asked.id, asked.metrics) == (added.id, added.metrics)
        assert (asked.metrics["brier"] is None) == (asked.column == "uni_log")
    listed = command("metrics", "added", cwd=tmp_path).stdout
    assert "auc, average_precision, partial_auc@0.2, log_loss, brier" in " ".join(listed.split())
    # Commands that read and check the folder go on working; numbers are compared also where the config lists fewer.
    command("verify", "added", "--sample", "4", cwd=tmp_path, exits=0)
    assert "4 of 4 agree" in command("verify", "e.yaml", "--out", "added", "--sample", "4", cwd=tmp_path).stdout
    assert "Average precision" in command("report", "added", cwd=tmp_path).stdout
    # A table with a metric that the records lack: the tasks are computed again, with the same ids.
    (tmp_path / "e.yaml").write_text(EXPERIMENT % ", metrics: [partial_auc@0.3]")
    again = command("run", "e.yaml", "--out", "added", cwd=tmp_path)
    assert "4 of 4 tasks to compute" in again.stderr
    assert record_of(tmp_path / "added", column="uni_log", fold=1).metrics.keys() == {"auc", "partial_auc@0.3"}


def test_metrics_that_a_protocol_always_measures_are_not_lost(command, tmp_path):
    protocol = "protocol: {kind: holdout, trials: 1, auc: released}"
    (tmp_path / "e.yaml").write_text(re.sub("protocol: .*", protocol, EXPERIMENT % ""))
    command("run", "e.yaml", "--out", "results", cwd=tmp_path, exits=0)
    (record, *_) = records_of(tmp_path / "results")
    assert list(record.metrics) == ["auc", "auc_exact", "sparse_ratio"]
    again = command("run", "e.yaml", "--out", "results", "--fresh", cwd=tmp_path, exits=0)
    assert "2 of 2 tasks to compute" in again.stderr
    assert "lose" not in again.stderr


def test_records_from_before_scores_were_kept_are_named(kept, command, tmp_path):
    shutil.copytree(kept / "results", tmp_path / "results")
    (tmp_path / "e.yaml").write_text(EXPERIMENT % "")
    assert "without test scores" not in command("run", "e.yaml", "--out", "results", cwd=tmp_path).stderr
    shutil.rmtree(tmp_path / "results/scores")
    done = command("run", "e.yaml", "--out", "results", cwd=tmp_path)
    assert "note: 4 records without test scores (removed, or from before keep_scores was set); --fresh" in done.stderr
    assert "computes these again and keeps their scores" in done.stderr


def test_verify_looks_at_kept_scores(kept, command, tmp_path):
    results = tmp_path / "results"
    shutil.copytree(kept / "results", results)
    assert "scores" not in command("verify", results, "--sample", "0", cwd=tmp_path, exits=0).stdout
    first, second, third, _ = sorted((results / "scores").iterdir())
    content = dict(np.load(first))
    np.savez_compressed(first, **content | {"scores": -content["scores"]})
    second.write_text("xx")
    third.unlink()
    done = command("verify", results, "--sample", "0", cwd=tmp_path, exits=1)
    told = " ".join(done.stdout.split())
    assert f"{first} is damaged: their AUC is" in told
    assert f"{second} is damaged: " in told
    assert "1 record without test scores, which the protocol keeps" in told


def test_without_kept_scores_the_error_names_the_setting(command, tmp_path):
    (tmp_path / "e.yaml").write_text((EXPERIMENT % "").replace(", keep_scores: true", ""))
    command("run", "e.yaml", "--out", "results", cwd=tmp_path, exits=0)
    done = command("metrics", "results", "--add", "brier", cwd=tmp_path, exits=1)
    assert "no test scores of wine" in done.stderr
    assert "keep_scores: true" in done.stderr
    done = command("metrics", "results", "--add", "f1", cwd=tmp_path, exits=2)
    assert "no metric is called 'f1'" in done.stderr


def test_damaged_scores_are_an_error(kept, command, tmp_path):
    shutil.copytree(kept / "results", tmp_path / "results")
    path = sorted((tmp_path / "results/scores").iterdir())[0]
    content = path.read_bytes()
    with np.load(path) as archive:
        arrays = dict(archive)
    changed = {
        "expected rows, y and scores of one length, got rows": {"rows": arrays["rows"], "y": arrays["y"]},
        "expected rows, y and scores of one length": arrays | {"scores": arrays["scores"][:-3]},
        "their AUC is": arrays | {"scores": arrays["scores"][::-1]},
        "their AUC is nan": arrays | {"scores": np.full_like(arrays["scores"], np.nan)},
        "metrics need rows of two classes": arrays | {"y": np.ones_like(arrays["y"])},
        "": None,
    }
    for message, found in changed.items():
        if found is None:
            path.write_bytes(content[:100])
        else:
            np.savez_compressed(path, **found)
        done = command("metrics", "results", "--add", "brier", cwd=tmp_path, exits=1)
        assert f"{path.name} is damaged: {message}" in done.stderr


def test_metrics_of_an_experiment_that_was_not_run_are_an_error(command, tmp_path):
    (tmp_path / "e.yaml").write_text(EXPERIMENT % "")
    done = command("metrics", "e.yaml", "--add", "brier", cwd=tmp_path, exits=1)
    assert "results/e: no records" in done.stderr
    assert not (tmp_path / "results/e/manifest.json").exists()


def test_metrics_of_an_experiment_whose_tasks_all_failed_are_an_error(command, tmp_path):
    (tmp_path / "e.yaml").write_text(EXPERIMENT % "" + "limits: {seconds: 0.000001}\n")
    command("run", "e.yaml", "--out", "results", cwd=tmp_path, exits=1)
    manifest = (tmp_path / "results/manifest.json").read_bytes()
    done = command("metrics", "results", "--add", "brier", cwd=tmp_path, exits=1)
    assert "results: no records with metrics" in done.stderr
    assert (tmp_path / "results/manifest.json").read_bytes() == manifest


@pytest.mark.parametrize("some", [False, True], ids=["all shards", "some shards"])
def test_merge_shows_metrics_that_were_added_to_all_shards(some, command, tmp_path):
    (tmp_path / "e.yaml").write_text(EXPERIMENT % "")
    for k in (1, 2):
        command("run", "e.yaml", "--shard", f"{k}/2", cwd=tmp_path, exits=0)
        if k == 1 or not some:
            command("metrics", f"results/e.shard-{k}-of-2", "--add", "brier", cwd=tmp_path)
    for _ in range(2):
        command("merge", "e.yaml", "results/e.shard-1-of-2", "results/e.shard-2-of-2", cwd=tmp_path, exits=0)
        assert ("Brier" in (tmp_path / "results/e/table.md").read_text()) == (not some)
    if some:
        command("metrics", "results/e", "--add", "brier", cwd=tmp_path, exits=0)
        command("merge", "e.yaml", "results/e.shard-1-of-2", cwd=tmp_path, exits=0)
        assert "Brier" in (tmp_path / "results/e/table.md").read_text(), "merging again takes nothing away"


@pytest.fixture
def twice(kept, command, tmp_path):
    """The same records with scores in one folder, and with a metric in another."""
    shutil.copytree(kept / "results", tmp_path / "results/scored")
    (tmp_path / "e.yaml").write_text((EXPERIMENT % ", metrics: [brier]").replace("keep_scores: true, ", ""))
    command("run", "e.yaml", "--out", "results/measured", cwd=tmp_path, exits=0)
    assert not (tmp_path / "results/measured/scores").exists()
    return tmp_path / "results"


@pytest.mark.parametrize(
    "folders", [("scored", "measured", "new"), ("measured", "scored", "new"), ("scored", "measured")], ids=" ".join
)
def test_merge_keeps_scores_whichever_folder_has_them(folders, twice, command):
    *others, into = folders
    command("merge", "../e.yaml", *others, "--out", into, cwd=twice, exits=0)
    merged = records_of(twice / into)
    assert all(list(record.metrics) == ["auc", "brier"] for record in merged)
    for record in merged:
        scores = f"scores/{record.id}.npz"
        assert (twice / into / scores).read_bytes() == (twice / "scored" / scores).read_bytes()


@pytest.mark.parametrize("folders", ["[scored, measured]", "[measured, scored]"])
def test_records_with_the_metrics_are_reused_whichever_folder_has_them(folders, twice, command):
    (twice / "again.yaml").write_text((EXPERIMENT % ", metrics: [brier]") + f"reuse: {folders}\n")
    done = command("run", "again.yaml", "--out", "again", cwd=twice, exits=0)
    assert "0 of 4 tasks to compute" in done.stderr
    assert set(read_manifest(twice / "again").reused) == {"measured"}


def test_kinds_without_a_tested_setting_have_no_metrics_to_add(command, tmp_path):
    done = command("metrics", "prequential", "--add", "brier", cwd=tmp_path, exits=2)
    assert "--add: expected an experiment of kind cv or holdout or predefined, and this is prequential" in done.stderr


def test_a_metric_of_some_records_is_no_result_yet(kept, command, tmp_path):
    shutil.copytree(kept / "results", tmp_path / "results")
    sorted((tmp_path / "results/scores").iterdir())[0].unlink()
    done = command("metrics", "results", "--add", "average_precision", cwd=tmp_path, exits=1)
    assert "… 1/2" in done.stdout.partition("Average precision")[2]
    assert "1 are done" in done.stdout
    assert "not defined" not in done.stdout


def test_a_metric_stays_in_the_tables_when_another_is_added(kept, command, tmp_path):
    (tmp_path / "e.yaml").write_text(EXPERIMENT % "")
    shutil.copytree(kept / "results", tmp_path / "results/e")
    for place, name in (("e.yaml", "average_precision"), ("e.yaml", "partial_auc@0.2"), ("results/e", "brier")):
        done = command("metrics", place, "--add", name, cwd=tmp_path)
    shown = "metrics: [auc, average_precision, partial_auc@0.2, brier]"
    assert shown in " ".join(done.stderr.split())
    table = (tmp_path / "results/e/table.md").read_text()
    assert all(title in table for title in ("Average precision", "Partial AUC", "Brier score"))
    verified = " ".join(command("verify", "e.yaml", "--sample", 0, cwd=tmp_path, exits=0).stdout.split())
    again = " ".join(command("run", "e.yaml", cwd=tmp_path, exits=0).stderr.split())
    for said in (verified, again):
        assert "the tables also have average_precision, partial_auc@0.2, brier, added by 'opauc-bench metrics'" in said
        assert f"put {shown} under protocol of e.yaml" in said


def test_metrics_of_the_config_are_not_taken_for_added_ones(kept, command, tmp_path):
    (tmp_path / "e.yaml").write_text(EXPERIMENT % ", metrics: [average_precision, partial_auc@0.2]")
    command("run", "e.yaml", cwd=tmp_path, exits=0)
    command("metrics", "e.yaml", "--add", "brier", cwd=tmp_path)
    said = " ".join(command("run", "e.yaml", cwd=tmp_path, exits=0).stderr.split())
    assert "note: the tables also have brier, added by 'opauc-bench metrics'" in said


def test_scores_of_records_that_another_folder_has(kept, command, tmp_path):
    shutil.copytree(kept / "results", tmp_path / "results/first")
    (tmp_path / "second.yaml").write_text((EXPERIMENT % "") + "reuse: [first]\n")
    command("run", "second.yaml", cwd=tmp_path, exits=0)
    assert not list((tmp_path / "results/second").glob("scores/*"))
    done = command("metrics", "results/second", "--add", "average_precision", cwd=tmp_path, exits=0)
    assert "4 records completed" in done.stderr
    done = command("metrics", "results/second", "--add", "brier", cwd=tmp_path)
    assert "4 records completed" in done.stderr
    assert "average_precision, brier" in command("metrics", "results/second", cwd=tmp_path).stdout


def test_a_setting_is_selected_by_the_metric_that_is_asked_for(command, tmp_path):
    text = EXPERIMENT.replace("[0.25, 0.5]", "[0.001, 0.25, 4]").replace(
        "keep_scores: true", "select: average_precision"
    )
    (tmp_path / "e.yaml").write_text(text % "")
    command("run", "e.yaml", "--out", "results", cwd=tmp_path, exits=0)
    (tmp_path / "e.yaml").write_text(text.replace("average_precision", "auc") % "")
    command("run", "e.yaml", "--out", "by_auc", cwd=tmp_path, exits=0)
    by_precision, by_auc = (record_of(tmp_path / name, column="uni_log") for name in ("results", "by_auc"))
    assert by_precision.id != by_auc.id
    assert not np.array_equal(by_precision.selection.auc, by_auc.selection.auc)
    assert (
        by_precision.selection.auc.max()
        == by_precision.selection.auc[[0.001, 0.25, 4].index(by_precision.selected["eta"])]
    )


def test_selection_by_a_loss_needs_probabilities_where_splits_are_taken_over_too(command, tmp_path):
    splits = "{kind: convergence, splits: {kind: cv, trials: 1, folds: 2, inner_folds: 2, select: log_loss}}"
    text = "title: t\ndatasets: [wine]\nlearners: [opauc]\ngrids: {eta: [0.1], lambda: [0.1]}\n"
    (tmp_path / "e.yaml").write_text(f"{text}protocol: {splits}\n")
    done = command("plan", "e.yaml", cwd=tmp_path, exits=2)
    assert "opauc has no probabilities, which select: log_loss needs" in done.stderr


def test_selection_by_a_loss_refuses_estimators_without_probabilities_before_anything_runs(command, tmp_path):
    columns = "\n".join(
        f"  - {{estimator: {name}}}"
        for name in ("sklearn.linear_model.LogisticRegression", "sklearn.linear_model.RidgeClassifier")
    )
    protocol = "{trials: 1, folds: 2, inner_folds: 2, select: log_loss}"
    (tmp_path / "e.yaml").write_text(f"title: t\ndatasets: [wine]\nlearners:\n{columns}\nprotocol: {protocol}\n")
    done = command("plan", "e.yaml", cwd=tmp_path, exits=2)
    assert "e.yaml:5:5: learners[1]: RidgeClassifier has no probabilities, which select: log_loss needs" in done.stderr
    assert "LogisticRegression has no" not in done.stderr


@pytest.mark.parametrize(
    ("settings", "place"),
    [
        (", metrics: [auc, f1]", "e.yaml:6:93: protocol.metrics[1]: no metric is called 'f1'"),
        (", select: brier", "uni_log has no probabilities, which select: brier needs"),
        (", select: f1", "protocol.select: no metric is called 'f1'"),
        (", metrics: [auc, 3]", "protocol.metrics[1]: expected text, got 3"),
        (", metrics: [brier, brier]", "protocol.metrics[1]: 'brier' is listed twice"),
        (", metrics: auc", "protocol.metrics: expected a list, got 'auc'"),
    ],
)
def test_errors_in_a_config_have_a_position(command, tmp_path, settings, place):
    (tmp_path / "e.yaml").write_text(EXPERIMENT.lstrip() % settings)
    done = command("run", "e.yaml", cwd=tmp_path, exits=2)
    assert place in done.stderr
