"""Models that one can use: as scikit-learn classifiers, shown in a terminal, with probabilities, trained further."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_svmlight_file
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import brier_score_loss, get_scorer, log_loss, roc_auc_score
from sklearn.preprocessing import normalize
from streams import a_model, estimator, rows, threshold, trained, write

import opauc_bench
from opauc_bench.data.schema import Schema
from opauc_bench.errors import DataError
from opauc_bench.learners.online import OnlineModel
from opauc_bench.streaming.alignment import aligned
from opauc_bench.streaming.calibration import calibrate
from opauc_bench.streaming.model import LinearModel

# ---------------------------------------------------------------------- in Python


def test_a_model_is_a_scikit_learn_classifier(desk, model):
    X, y = load_svmlight_file(str(desk / "data.svm"))
    learner = estimator("ftrl_auc").fit(X, y)
    classifier = opauc_bench.load_model(model)
    assert is_classifier(classifier)
    for rows_ in (X, X.toarray(), X.tocsc(), X.toarray().tolist(), pd.DataFrame(X.toarray())):
        np.testing.assert_allclose(classifier.decision_function(rows_), learner.decision_function(X), rtol=1e-13)
        np.testing.assert_array_equal(classifier.predict(rows_), learner.predict(X))
    np.testing.assert_array_equal(classifier.classes_, [-1.0, 1.0])
    np.testing.assert_array_equal(classifier.coef_, learner.coef_)
    assert classifier.n_features_in_ == 9
    p = classifier.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert brier_score_loss(y > 0, p[:, 1]) < 0.6 * (y > 0).mean() * (y < 0).mean()
    assert 0.5 < classifier.score(X, y) <= 1.0
    np.testing.assert_array_equal(clone(FrozenEstimator(classifier)).fit(X, y).predict(X), learner.predict(X))
    assert repr(classifier) == "<TrainedClassifier: ftrl_auc, 9 features>"
    with pytest.raises(TypeError, match="FrozenEstimator"):
        classifier.fit(X, y)


def test_scorers_of_scikit_learn_agree_whichever_label_is_positive(command, tmp_path):
    """A scikit-learn classifier has sorted classes, and its scores are those of the second one."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(600, 3)), columns=list("abc"))
    frame["label"] = np.where(frame["a"] + rng.normal(size=600) > 0, "yes", "no")
    frame.to_csv(tmp_path / "rows.csv", index=False)
    found = []
    for positive in ("yes", "no"):
        model = f"{positive}.npz"
        options = ("--label", "label", "--positive", positive, "--learner", "uni_log", "--calibration", "platt")
        command("train", "rows.csv", *options, "--out", model, cwd=tmp_path, exits=0)
        classifier = opauc_bench.load_model(tmp_path / model)
        assert classifier.classes_.tolist() == ["no", "yes"]
        is_yes, scores = frame["label"] == "yes", classifier.decision_function(frame)
        p = classifier.predict_proba(frame)
        assert get_scorer("roc_auc")(classifier, frame, frame["label"]) == roc_auc_score(is_yes, scores) > 0.7
        assert get_scorer("neg_log_loss")(classifier, frame, frame["label"]) == -log_loss(is_yes, p[:, 1])
        assert ((classifier.predict(frame) == "yes") == (scores > 0)).all()
        np.testing.assert_allclose(frame[list("abc")] @ classifier.coef_[0] + classifier.intercept_, scores)
        found.append(scores)
    assert np.corrcoef(*found)[0, 1] > 0.9


def test_rows_that_do_not_fit_are_errors(model):
    classifier = opauc_bench.load_model(str(model))
    with pytest.raises(ValueError, match="Complex"):
        classifier.predict(np.zeros((2, 9), dtype=complex))
    assert classifier.decision_function(sparse.lil_matrix((2, 9))).shape == (2,)
    assert classifier.decision_function(sparse.dok_matrix((2, 9))).shape == (2,)
    with pytest.raises(ValueError, match=r"expected an array of shape \(n, 9\), got \(2, 8\)"):
        classifier.predict(np.zeros((2, 8)))
    with pytest.raises(ValueError, match="NaN"):
        classifier.predict(np.full((1, 9), np.nan))
    outside = sparse.csr_matrix((2, 9))
    outside.data, outside.indices, outside.indptr = np.ones(1), np.array([10**6]), np.array([0, 1, 1])
    with pytest.raises(ValueError, match="indices must be < 9"):
        classifier.predict(outside)
    # Readers of svmlight files make sparse rows as wide as the file.
    assert classifier.decision_function(sparse.csr_matrix((2, 4))).shape == (2,)
    assert classifier.decision_function(sparse.csr_matrix((2, 40))).shape == (2,)


def test_a_score_that_is_not_a_number_has_no_label(tmp_path):
    a_model([10.0, -10.0]).save(tmp_path / "m.npz")
    classifier = opauc_bench.load_model(tmp_path / "m.npz")
    rows = np.array([[1.0, 0.0], [1e308, 1e308], [1e308, 0.0]])
    assert np.isnan(classifier.decision_function(rows)).tolist() == [False, True, False]
    with pytest.raises(ValueError, match="row 1 has the score nan"):
        classifier.predict(rows)
    assert classifier.predict(rows[[0, 2]]).tolist() == [1, 1]


def test_without_calibration_there_are_no_probabilities(tmp_path):
    a_model([1.0, -1.0]).save(tmp_path / "m.npz")
    classifier = opauc_bench.load_model(tmp_path / "m.npz")
    assert not hasattr(classifier, "predict_proba")
    with pytest.raises(AttributeError):
        classifier.predict_proba(np.zeros((1, 2)))


def test_scores_of_arrays():
    X = np.array([[1.0, 2.0], [0.0, 0.0], [3.0, 4.0]])
    expected = a_model([1.0, 10.0]).scores(sparse.csr_matrix(X))[0]
    for rows_ in (X, X.tolist(), sparse.csc_matrix(X), sparse.coo_array(X), pd.DataFrame(X)):
        np.testing.assert_array_equal(a_model([1.0, 10.0]).scores(rows_)[0], expected)
    unit = a_model([1.0, 10.0], unit_length=True)
    np.testing.assert_allclose(unit.scores(X)[0], normalize(X) @ [1.0, 10.0] - 0.5)
    with pytest.raises(ValueError, match="two axes"):
        unit.scores(X[0])
    # A feature that is stored twice in a row has the sum as its value, and the caller's arrays stay as they are.
    twice = sparse.csr_matrix(([3.0, 1.0, 3.0], [1, 0, 1], [0, 3]), shape=(1, 2))
    np.testing.assert_array_equal(unit.scores(twice)[0], unit.scores(twice.toarray())[0])
    assert twice.nnz == 3


# ---------------------------------------------------------------------- probabilities


def test_score_prints_probabilities_and_how_reliable_they_are(command, desk, model, tmp_path):
    X, y = rows(9000, seed=0)
    write(tmp_path / "new.svm", *rows(3000, seed=0))
    done = command("score", model, "new.svm", "--probability", cwd=tmp_path, exits=0)
    X, y = load_svmlight_file(str(tmp_path / "new.svm"))
    p = np.array(done.stdout.split(), dtype=float)
    np.testing.assert_array_equal(p, opauc_bench.load_model(model).predict_proba(X)[:, 1])
    said = {line[:21].strip(): line[21:].split() for line in done.stderr.splitlines() if " ." in line[21:]}
    scores = opauc_bench.load_model(model).decision_function(X)
    assert float(said["calibrated"][0]) == pytest.approx(brier_score_loss(y > 0, p), abs=6e-6)
    assert float(said["1 / (1 + exp(-score))"][0]) == pytest.approx(
        brier_score_loss(y > 0, 1 / (1 + np.exp(-scores))), abs=6e-6
    )
    assert f"AUC {roc_auc_score(y, scores):.4f}".replace("0.", ".") in done.stderr
    assert max(map(len, done.stderr.splitlines())) <= 80
    without = command("score", model, "new.svm", cwd=tmp_path)
    assert "Brier" not in without.stderr
    np.testing.assert_array_equal(np.array(without.stdout.split(), dtype=float), scores)


def test_rows_without_known_labels_have_probabilities_too(command, model, tmp_path):
    X, _ = rows(50)
    write(tmp_path / "new.svm", X, np.zeros(50))
    done = command("score", model, "new.svm", "--probability", cwd=tmp_path, exits=0)
    assert len(done.stdout.split()) == 50
    assert "no AUC" in done.stderr
    assert "Brier" not in done.stderr


def test_score_says_what_to_do_without_calibration(command, desk, tmp_path):
    trained(command, desk, tmp_path, "--calibration", "none")
    done = command("score", tmp_path / "m.npz", desk / "data.svm", "--probability", cwd=tmp_path, exits=3)
    assert "this model has no probabilities" in done.stderr
    assert "--calibration auto" in done.stderr


@pytest.mark.parametrize(("given", "method"), [("auto", "platt"), ("isotonic", "isotonic"), ("platt", "platt")])
def test_the_calibration_is_that_of_scores_before_rows_were_learnt(command, tmp_path, given, method):
    X, y = rows(1000)
    write(tmp_path / "data.svm", X, y)
    model = trained(command, tmp_path, tmp_path, "--learner", "ftrl_auc", "--calibration", given)
    X, y = load_svmlight_file(str(tmp_path / "data.svm"))
    learner, scores = OnlineModel(estimator("ftrl_auc"), n_features=9), []
    for start in range(0, 1000, 64):  # a block is scored before it is learnt
        block = X[start : start + 64]
        weights = learner.learner.current_weights() if start else np.zeros(9)
        scores.append(block @ weights + threshold(X[:start], y[:start] > 0, block, weights))
        learner.learn(X[start : start + 64], y[start : start + 64] > 0)
    first = 512  # the window has about half of the rows after the first block, in whole blocks
    blocks = [(scores[start // 64], y[start : start + 64] > 0) for start in range(first, 1000, 64)]
    moved, _ = aligned(blocks, (X @ model.weights + model.intercept, y > 0))
    expected = calibrate(moved, y[first:] > 0, given)
    assert model.calibration.method == method
    assert (model.calibration.n_rows, model.calibration.n_positive) == (1000 - first, (y[first:] > 0).sum())
    at = np.linspace(-3, 3, 50)
    np.testing.assert_allclose(model.calibration.probability(at), expected.probability(at), rtol=1e-6)


@pytest.mark.parametrize("learner", ["opauc", "ada_oam"])
def test_probabilities_do_not_suffer_from_features_far_from_0(command, tmp_path, learner):
    X, y = rows(6000)
    X = X.toarray()
    X[:, 0] += 100.0
    write(tmp_path / "data.svm", X, y)
    model = trained(command, tmp_path, tmp_path, "--learner", learner)
    p = model.calibration.probability(model.scores(X)[0])
    edges = np.quantile(p, np.linspace(0, 1, 9)[1:-1])
    groups = np.digitize(p, edges)
    gaps = [abs(p[groups == k].mean() - (y[groups == k] > 0).mean()) for k in np.unique(groups)]
    assert max(gaps) < 0.07


# ---------------------------------------------------------------------- model show


def test_show_says_how_many_features_were_centred(command, tmp_path):
    X, y = rows(2000)
    write(tmp_path / "data.svm", X.toarray() + 100.0, y)
    trained(command, tmp_path, tmp_path)
    assert (
        "scaling   9 features centred and scaled in training\n"
        in command("model", "show", "m.npz", cwd=tmp_path).stdout
    )


def test_show_says_what_a_model_is(command, desk, model):
    done = command("model", "show", model, cwd=desk)
    assert (done.returncode, done.stderr) == (0, "")
    assert max(map(len, done.stdout.splitlines())) <= 80 or str(model) in done.stdout.splitlines()[0]
    weights = LinearModel.load(model).weights
    largest = np.argmax(np.abs(weights))
    assert re.search(rf"^{largest + 1} +{re.escape(f'{weights[largest]:.5g}')} #+$", done.stdout, re.M)
    for text in (
        "learner   ftrl_auc",
        "gamma=0.1",
        "rows      9,000",
        "classes   1 (positive), -1",
        "isotonic",
        "9 of 9",
    ):
        assert text in done.stdout
    assert "largest weights (3 of 9)" in command("model", "show", model, "--weights", 3, cwd=desk).stdout
    assert "largest" not in command("model", "show", model, "--weights", 0, cwd=desk).stdout


def test_show_for_machines(command, desk, model):
    done = command("model", "show", model, "--json", "--weights", 2, cwd=desk)
    about = json.loads(done.stdout)
    loaded = LinearModel.load(model)
    assert (about["learner"], about["n_rows"], about["classes"]) == ("ftrl_auc", 9000, [-1.0, 1.0])
    assert about["parameters"] == loaded.parameters
    assert about["calibration"] == loaded.calibration.to_json()
    assert about["can_continue"] is True
    assert len(about["largest_weights"]) == 2
    assert about["largest_weights"][0]["weight"] == loaded.weights[np.argmax(np.abs(loaded.weights))]


def test_the_description_in_the_file_is_json(command, tmp_path):
    (tmp_path / "two.svm").write_text("1 1:1\n-1 2:1\n")
    command("train", "two.svm", "--out", "m.npz", cwd=tmp_path, exits=0)
    with np.load(tmp_path / "m.npz") as archive:
        about = json.loads(archive["about"].item(), parse_constant=pytest.fail)  # NaN would be none
    assert about["leaderboard"][0]["auc"] is None


def test_a_plot_of_the_auc_over_the_rows(command, tmp_path):
    progress = [[1000 * k, 0.9 - 0.2 / k] for k in range(1, 50)]
    best = {"learner": "ftrl_auc", "parameters": {}, "auc": 0.8959, "standard_error": 0.0123}
    model = a_model([0.0, 2.0, -1.0], progress=progress, zero_based=True, leaderboard=[best])
    model.save(tmp_path / "m.npz")
    lines = command("model", "show", "m.npz", cwd=tmp_path).stdout.splitlines()
    assert max(map(len, lines)) <= 80
    plot = [line.partition("|")[2] for line in lines if "|" in line]
    assert plot[0].endswith("*")  # high at the end
    assert plot[-1].startswith("*")  # and low in the beginning
    assert sum(line.count("*") for line in plot) == 68
    assert any(line.startswith("   .7000 |") for line in lines)
    assert any(line.endswith("49,000 rows") for line in lines)
    assert any(line.startswith("1 ") for line in lines)  # features from 0
    assert "AUC       .8959 +- .0123, of the latest rows, each scored before it was learnt" in lines


def test_show_refuses_descriptions_that_make_no_sense(tmp_path, command):
    a_model([1.0], calibration=calibrate(np.arange(40.0), np.arange(40) > 20, "platt"), reliability={"n_rows": 3}).save(
        tmp_path / "m.npz"
    )
    done = command("model", "show", "m.npz", cwd=tmp_path, exits=3)
    assert "damaged" in done.stderr


def test_show_refuses_a_progress_without_end(tmp_path, command):
    a_model([1.0], progress=[[1, 0.5], [float("inf"), 0.6]]).save(tmp_path / "m.npz")
    done = command("model", "show", "m.npz", cwd=tmp_path, exits=3)
    assert "damaged" in done.stderr


def test_names_of_features_stay_on_their_line(tmp_path, command):
    schema = Schema("y", (), ("s",), bits=1, names=((0, "s=x\ny\x1b[31m"),))
    a_model([0.5, 0.0], schema=schema).save(tmp_path / "m.npz")
    shown = command("model", "show", "m.npz", cwd=tmp_path).stdout
    assert "\ns=x\\ny\\x1b[31m " in shown


def test_show_names_a_file_that_is_no_model(command, tmp_path):
    (tmp_path / "text.npz").write_text("1 1:0.5\n")
    done = command("model", "show", "text.npz", cwd=tmp_path, exits=3)
    assert "this is not a model" in done.stderr


# ---------------------------------------------------------------------- what a file has


def test_a_model_without_state_is_smaller(command, desk, tmp_path):
    with_state = trained(command, desk, tmp_path)
    assert with_state.state is None  # it is not read unless it is wanted
    size = (tmp_path / "m.npz").stat().st_size
    assert LinearModel.load(tmp_path / "m.npz", with_state=True).state["pass"]["numbers"]["n_rows"] == 9000
    trained(command, desk, tmp_path, "--small", "--overwrite")
    assert (tmp_path / "m.npz").stat().st_size < size
    assert LinearModel.load(tmp_path / "m.npz", with_state=True).state is None
    assert "not possible" in command("model", "show", tmp_path / "m.npz", cwd=desk).stdout


def test_the_whole_model_survives_its_file(tmp_path):
    state = {"a": [np.arange(3), {"b": None}], "c": {"d": np.ones((2, 2)), "e": "text", "f": 2**100}}
    calibration = calibrate(np.linspace(-1, 1, 60), np.arange(60) % 3 == 0, "isotonic")
    model = a_model(
        [1.0], state=state, calibration=calibration, progress=[[10, 0.5], [20, None]], leaderboard=[{"a": 1}]
    )
    model.save(tmp_path / "m.npz")
    back = LinearModel.load(tmp_path / "m.npz", with_state=True)
    assert (back.progress, back.leaderboard) == (model.progress, model.leaderboard)
    assert back.calibration.to_json() == calibration.to_json()
    np.testing.assert_array_equal(back.state["a"][0], state["a"][0])
    np.testing.assert_array_equal(back.state["c"]["d"], state["c"]["d"])
    assert (back.state["a"][1], back.state["c"]["e"], back.state["c"]["f"]) == ({"b": None}, "text", 2**100)


@pytest.mark.parametrize(
    "change",
    [
        {"calibration": {"method": "platt"}},
        {"calibration": []},
        {"state": {"a": {"array": "state/7"}}},
        {"state": {"a": {"array": 3}}},
        {"state": 3},
        {"progress": [1.0]},
        {"leaderboard": ["a"]},
    ],
)
def test_damaged_descriptions_are_refused(tmp_path, change):
    a_model([1.0, 2.0], state={"a": np.ones(2)}).save(tmp_path / "m.npz")
    with np.load(tmp_path / "m.npz") as archive:
        entries = dict(archive)
    entries["about"] = np.array(json.dumps(json.loads(entries["about"].item()) | change))
    np.savez(tmp_path / "m.npz", **entries)
    with pytest.raises(DataError):
        LinearModel.load(tmp_path / "m.npz", with_state=True)
