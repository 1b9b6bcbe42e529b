"""Scikit-learn compatible classifiers as columns, against loops that call scikit-learn alone."""

import functools
import json
import shutil
import textwrap

import numpy as np
import pytest
from command_line import Command
from folders import record_of, records_of
from scipy import sparse
from sklearn.datasets import load_wine
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier, VotingClassifier
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.utils import check_random_state

from opauc_bench.evaluation.selection import fit_and_evaluate, scores_and_probabilities
from opauc_bench.evaluation.splits import outer_fold, random_folds
from opauc_bench.learners import ESTIMATOR, EstimatorLearner, learner_class
from opauc_bench.learners.estimator_entry import EstimatorError, check_estimator_entry
from opauc_bench.learners.user_files import pinned_files

LOGISTIC = "sklearn.linear_model.LogisticRegression"
BOOSTING = "sklearn.ensemble.HistGradientBoostingClassifier"
SCALER = "sklearn.preprocessing.StandardScaler"

OWN = """
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin


class Centroids(ClassifierMixin, BaseEstimator):
    \"\"\"Difference of the class means, times a number; a negative one overflows.\"\"\"

    def __init__(self, scale=1.0, offset=0):
        self.scale = scale
        self.offset = offset

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        if self.scale > 100:
            raise OverflowError("scale")
        self.w_ = self.scale * (X[y == 1].mean(axis=0) - X[y == 0].mean(axis=0))
        return self

    def decision_function(self, X):
        return np.asarray(X @ np.asarray(self.w_).ravel()).ravel() + self.offset


class NoScores(BaseEstimator):
    def fit(self, X, y):
        return self
"""

DRAWS = """
def fit(self, X, y):
    super().fit(X, y)
    self.w_ = np.random.normal(size=X.shape[1])
    return self
"""

EXPERIMENT = """
title: Estimators beside a learner
datasets: [wine]
learners:
  - uni_log
  - {estimator: sklearn.linear_model.LogisticRegression, name: logreg, params: {C: 0.5}}
  - estimator: sklearn.ensemble.HistGradientBoostingClassifier
    name: hgb
    params: {max_iter: 5}
    grid: {learning_rate: [0.1, 0.5], max_leaf_nodes: [3, 7]}
  - {estimator: own.py:Centroids, name: own, grid: {scale: [1, 1000]}}
  - {estimator: sklearn.naive_bayes.GaussianNB, pipeline: [sklearn.preprocessing.StandardScaler]}
grids: {eta: [0.25]}
protocol: {kind: PROTOCOL, trials: 1, folds: 3, inner_folds: 2}
"""


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(180, 6)) * (rng.random((180, 6)) < 0.7)
    y = np.where(X @ rng.normal(size=6) + rng.normal(size=180) > 0.8, 1, -1).astype(np.int8)
    return X, y


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    path = tmp_path_factory.mktemp("own") / "own.py"
    path.write_text(OWN)
    return path


def test_scores_are_those_of_scikit_learn(rows):
    X, y = rows
    train, test = np.arange(120)[::-1], np.arange(120, 180)
    for learner, reference in (
        (EstimatorLearner(LOGISTIC, {"C": 0.3}), LogisticRegression(C=0.3)),
        (
            EstimatorLearner("sklearn.naive_bayes.GaussianNB", pipeline=[SCALER]),
            make_pipeline(StandardScaler(), GaussianNB()),
        ),
        (EstimatorLearner(BOOSTING, {"max_iter": 7}, random_state=3), HistGradientBoostingClassifier(max_iter=7)),
    ):
        reference.fit(X[train], y[train])
        score = getattr(reference, "decision_function", None) or (lambda Z, m=reference: m.predict_proba(Z)[:, 1])
        models = learner.fit_grid(X, y, {}, order=train)
        np.testing.assert_array_equal(models.scores(X[test])[:, 0], score(X[test]))
        (auc,) = fit_and_evaluate(learner, X, y, {}, train, test)
        assert auc == pytest.approx(roc_auc_score(y[test], score(X[test])), abs=1e-12)
    np.testing.assert_array_equal(
        learner.fit_grid(X, y, {}, order=train).probabilities(X[test])[:, 0], reference.predict_proba(X[test])[:, 1]
    )


def test_scores_leave_unsorted_rows_as_they_are(rows):
    X, y = rows
    models = EstimatorLearner(LOGISTIC, {"C": 0.3}).fit_grid(X, y, {})
    stored = sparse.csr_matrix(X)
    n_features = X.shape[1]
    flipped = np.concatenate([np.arange(a, b)[::-1] for a, b in zip(stored.indptr, stored.indptr[1:])])
    unsorted = sparse.csr_matrix((stored.data[flipped], stored.indices[flipped], stored.indptr), (len(y), n_features))
    unsorted.indices.flags.writeable = unsorted.data.flags.writeable = False
    before = unsorted.indices.copy()
    np.testing.assert_allclose(models.scores(unsorted), models.scores(X), rtol=1e-12)
    np.testing.assert_array_equal(unsorted.indices, before)


def test_settings_that_start_from_the_one_before_reach_the_same_optimum(rows):
    X, y = rows
    grid = {"C": np.array([1e-3, 1.0, 100.0, 0.1])}
    learner = EstimatorLearner(LOGISTIC, {"tol": 1e-10, "max_iter": 10000}, axes=grid)
    scores = learner.fit_grid(X, y, grid).scores(X)
    for position, C in enumerate(grid["C"]):
        alone = LogisticRegression(C=C, tol=1e-10, max_iter=10000).fit(X, y)
        np.testing.assert_allclose(scores[:, position], alone.decision_function(X), rtol=1e-4, atol=1e-5)
    # Each setting keeps its own model, and those of estimators that do not start warm are exact.
    learner = EstimatorLearner(LOGISTIC, {"solver": "liblinear"}, axes=grid, random_state=0)
    scores = learner.fit_grid(X, y, grid).scores(X)
    for position in range(4):
        alone = learner.fit_grid(X, y, {"C": grid["C"][position : position + 1]})
        np.testing.assert_array_equal(scores[:, position], alone.scores(X)[:, 0])


def test_a_memory_limit_does_not_change_where_warm_starts_begin():
    size = (200, 200_000, 40.0, 16, 1e7)
    assert EstimatorLearner(LOGISTIC).n_passes(*size) == 1
    assert EstimatorLearner(LOGISTIC, {"warm_start": False}).n_passes(*size) > 1


def test_warm_starts_where_a_step_changes_the_number_of_features(rows):
    """Where a step in front gives another number of features, the weights before cannot be taken over."""
    X, y = rows
    step = "sklearn.feature_selection.SelectKBest"
    grid = {"C": np.repeat([0.1, 1.0, 10.0], 2), "selectkbest__k": np.tile([2.0, 5.0], 3)}
    learner = EstimatorLearner(LOGISTIC, {"tol": 1e-10}, [step], axes=grid)
    seen = []
    scores = learner.fit_grid(X, y, grid, on_chunk=seen.append).scores(X)
    assert seen == [1, 2, 3, 4, 5, 6]
    for position, (C, k) in enumerate(zip(*grid.values())):
        alone = make_pipeline(SelectKBest(k=int(k)), LogisticRegression(C=C, tol=1e-10)).fit(X, y)
        np.testing.assert_allclose(scores[:, position], alone.decision_function(X), rtol=1e-3, atol=1e-4)


BAD = """
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin


class Changes(ClassifierMixin, BaseEstimator):
    def __init__(self, what="rows"):
        self.what = what

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        changed = X if self.what == "rows" else y
        changed[:] = 1 - changed
        return self

    def decision_function(self, X):
        return X[:, 0] + 0.0


class ChangesTest(Changes):
    def fit(self, X, y):
        return self

    def decision_function(self, X):
        X *= 2
        return X[:, 0]


class NoProbabilities(ChangesTest):
    def decision_function(self, X):
        return X[:, 0] + 0.0

    def predict_proba(self, X):
        raise NotImplementedError


class Single(NoProbabilities):
    def predict_proba(self, X):
        positive = (X[:, :1] > 0).astype(np.float32)
        return np.hstack([1 - positive, positive])


class OneColumn(NoProbabilities):
    @property
    def decision_function(self):
        raise AttributeError

    def predict_proba(self, X):
        return X[:, :1] * 0 + 0.5


class Reversed(ChangesTest):
    classes_ = [1, 0]

    def decision_function(self, X):
        return -X[:, 0]

    def predict_proba(self, X):
        positive = 1 / (1 + np.exp(-X[:, :1]))
        return np.hstack([positive, 1 - positive])


class ReversedProbabilities(Reversed):
    @property
    def decision_function(self):
        raise AttributeError


class NeedsMode(Single):
    def __init__(self, mode=None):
        if mode is None:
            raise ValueError("mode needed")
        self.mode = mode


class TakesOthers(Single):
    def __init__(self, mode=1, **others):
        self.mode, self.others = mode, others

    def get_params(self, deep=True):
        return {"mode": self.mode, **self.others}


class Modifies(Single):
    def __init__(self, mode=1):
        self.mode = [mode]


class Ends(ChangesTest):
    def fit(self, X, y):
        raise SystemExit(3)


class EndsProcess(ChangesTest):
    def fit(self, X, y):
        import os
        os._exit(3)
"""


def test_rows_that_an_estimator_changes_are_an_error(rows, tmp_path):
    X, y = rows
    (tmp_path / "bad.py").write_text(BAD)
    for what in ("rows", "labels"):
        learner = EstimatorLearner(f"{tmp_path}/bad.py:Changes", {"what": what})
        with pytest.raises(EstimatorError, match=r"^bad\.py:Changes changes the rows that it is given"):
            learner.fit_grid(X, y, {}, order=np.arange(len(y)))
    models = EstimatorLearner(f"{tmp_path}/bad.py:ChangesTest").fit_grid(X, y, {})
    with pytest.raises(EstimatorError, match="changes the rows that it is to score"):
        models.scores(X.copy())
    models = EstimatorLearner(f"{tmp_path}/bad.py:NoProbabilities").fit_grid(X, y, {})
    assert models.probabilities(X) is None
    np.testing.assert_array_equal(models.scores(X)[:, 0], X[:, 0])
    models = EstimatorLearner(f"{tmp_path}/bad.py:OneColumn").fit_grid(X, y, {})
    with pytest.raises(EstimatorError, match=r"^OneColumn\.predict_proba: expected two .* of shape \(180, 1\)"):
        models.scores(X)
    models = EstimatorLearner(f"{tmp_path}/bad.py:Single").fit_grid(X, y, {})
    scores, probabilities = scores_and_probabilities(X, np.arange(len(y)), models, lambda n: None, probabilities=True)
    assert (scores.dtype, probabilities.dtype) == (np.float64, np.float32)


def test_scores_and_probabilities_are_of_the_positive_class_wherever_it_is(rows, tmp_path):
    X, y = rows
    (tmp_path / "bad.py").write_text(BAD)
    probabilities = 1 / (1 + np.exp(-X[:, 0]))
    for name, scores in (("Reversed", X[:, 0]), ("ReversedProbabilities", probabilities)):
        models = EstimatorLearner(f"{tmp_path}/bad.py:{name}").fit_grid(X, y, {})
        np.testing.assert_allclose(models.scores(X)[:, 0], scores, rtol=1e-12)
        np.testing.assert_allclose(models.probabilities(X)[:, 0], probabilities, rtol=1e-12)


def test_a_class_that_needs_a_parameter_is_taken_with_it(tmp_path):
    (tmp_path / "bad.py").write_text(BAD)
    assert check_estimator_entry(f"{tmp_path}/bad.py:NeedsMode", {"mode": "x"}, [], {})
    with pytest.raises(EstimatorError, match="ValueError: mode needed"):
        check_estimator_entry(f"{tmp_path}/bad.py:NeedsMode", {}, [], {})
    assert check_estimator_entry(f"{tmp_path}/bad.py:TakesOthers", {"is_unbalance": True}, [], {})
    with pytest.raises(EstimatorError, match="the constructor either does not set or modifies parameter mode"):
        check_estimator_entry(f"{tmp_path}/bad.py:Modifies", {}, [], {})


def test_plan_says_where_fits_of_classifiers_are_not_measured(environment, tmp_path):
    (tmp_path / "e.yaml").write_text(
        "title: t\ndatasets: [wine]\nlearners: [uni_log, {estimator: sklearn.naive_bayes.GaussianNB}]\n"
        "grids: {eta: [0.5]}\nprotocol: {trials: 1, folds: 2, inner_folds: 2}\n"
    )
    fresh = Command({**environment, "OPAUC_BENCH_CACHE": str(tmp_path / "cache")})
    assert "That is without GaussianNB on wine" in fresh("plan", "e.yaml", cwd=tmp_path, exits=0).stdout
    fresh("data", "fetch", "wine", cwd=tmp_path, exits=0)
    assert "That is without" not in fresh("plan", "e.yaml", cwd=tmp_path, exits=0).stdout


def test_plan_outlives_estimators_that_end_their_process(command, tmp_path):
    (tmp_path / "bad.py").write_text(BAD)
    names = ("Ends", "EndsProcess", "NoProbabilities")
    entries = "".join(f"  - {{estimator: bad.py:{name}, name: {name.lower()}}}\n" for name in names)
    end = "protocol: {trials: 1, folds: 2, inner_folds: 2}\n"
    (tmp_path / "e.yaml").write_text(f"title: t\ndatasets: [wine]\nlearners:\n{entries}{end}")
    done = command("plan", "e.yaml", cwd=tmp_path, exits=0)
    assert "0 tasks done, 6 to do" in done.stdout


def test_lists_become_tuples_and_lists_may_have_estimators(rows):
    X, y = rows
    scaler = {"estimator": "sklearn.preprocessing.MinMaxScaler", "params": {"feature_range": [-1, 1]}}
    bayes, logistic = {"estimator": "sklearn.naive_bayes.GaussianNB"}, {"estimator": LOGISTIC, "params": {"C": 0.5}}
    voting = "sklearn.ensemble.VotingClassifier"
    params = {"voting": "soft", "estimators": [["a", bayes], ["b", logistic]]}
    check_estimator_entry(voting, params, [scaler], {})
    found = EstimatorLearner(voting, params, [scaler]).fit_grid(X, y, {}).scores(X)[:, 0]
    members = [("a", GaussianNB()), ("b", LogisticRegression(C=0.5))]
    alone = make_pipeline(MinMaxScaler((-1, 1)), VotingClassifier(members, voting="soft")).fit(X, y)
    np.testing.assert_array_equal(found, alone.predict_proba(X)[:, 1])
    stacking = "sklearn.ensemble.StackingClassifier"  # its default for final_estimator is made in fit
    assert not check_estimator_entry("sklearn.linear_model.SGDClassifier", {}, [], {})
    assert check_estimator_entry(stacking, {"estimators": [["a", bayes], ["b", logistic]]}, [], {})
    with pytest.raises(EstimatorError, match="gives no scores"):
        check_estimator_entry(voting, {"estimators": [["a", bayes]]}, [], {})
    with pytest.raises(EstimatorError, match="no parameter 'c'") as raised:
        check_estimator_entry(voting, {"estimators": [["b", {"estimator": LOGISTIC, "params": {"c": 1}}]]}, [], {})
    assert raised.value.loc == ("params", "estimators", 0, 1, "params", "c")


def test_a_class_that_no_installed_package_has_is_identified_by_its_file(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "not_installed_module.py").write_text(OWN)
    learner = EstimatorLearner("not_installed_module.Centroids")
    learner.check_params()
    before = learner.identity("own", ())
    (tmp_path / "not_installed_module.py").write_text(OWN + "# changed\n")
    assert before["source"] != learner.identity("own", ())["source"]
    assert "source" not in EstimatorLearner(LOGISTIC).identity("logreg", ())
    for name, version in (("OPAUC", ""), ("RankSVML2", "RankSVML2 version 2")):
        found = EstimatorLearner(f"opauc_bench.learners.{name}").identity(name, ())
        assert found == {"learner": f"opauc_bench.learners.{name}", "version": version, "params": {}}


def test_whole_numbers_are_integers_unless_the_default_is_a_float(rows):
    X, y = rows
    grid = {"max_leaf_nodes": np.array([3.0, 7.0]), "learning_rate": np.array([1.0, 1.0])}
    models = EstimatorLearner(BOOSTING, {"max_iter": 2}, axes=grid).fit_grid(X, y, grid)
    params = [model.get_params() for model in models._estimators]
    assert [(p["max_leaf_nodes"], type(p["max_leaf_nodes"])) for p in params] == [(3, int), (7, int)]
    assert {type(p["learning_rate"]) for p in params} == {float}
    assert EstimatorLearner(BOOSTING, axes=grid).integer_axes() == {"max_leaf_nodes"}
    forest = "sklearn.ensemble.RandomForestClassifier"
    grid = {"max_features": np.array([0.5, 1.0])}
    learner = EstimatorLearner(forest, {"n_estimators": 2}, axes=grid)
    for along in grid["max_features"], grid["max_features"][1:]:  # the search, and the training of the selected setting
        models = learner.fit_grid(X, y, {"max_features": along})
        assert [model.max_features for model in models._estimators] == along.tolist()
        assert type(models._estimators[-1].max_features) is float  # one feature would be the integer


def test_unset_seeds_come_from_the_fold_and_threads_are_limited_to_one(rows):
    X, y = rows
    learner = EstimatorLearner("sklearn.ensemble.RandomForestClassifier", {"n_estimators": 5})
    scores = [learner.set_params(random_state=seed).fit_grid(X, y, {}).scores(X) for seed in (2**63, 2**63, 1)]
    assert np.array_equal(scores[0], scores[1])
    assert not np.array_equal(scores[0], scores[2])
    learner = EstimatorLearner("sklearn.ensemble.RandomForestClassifier", {"n_estimators": 5, "random_state": 4})
    (model,) = learner.set_params(random_state=9).fit_grid(X, y, {})._estimators
    assert model.n_jobs == 1
    expected = RandomForestClassifier(n_estimators=5, random_state=4).fit(X, y > 0).predict_proba(X)[:, 1]
    np.testing.assert_array_equal(model.predict_proba(X)[:, 1], expected)
    inside = {"estimator": {"estimator": LOGISTIC, "params": {"solver": "liblinear"}}, "n_estimators": 2}
    (model,) = (
        EstimatorLearner("sklearn.ensemble.BaggingClassifier", inside, random_state=1).fit_grid(X, y, {})._estimators
    )
    assert isinstance(model.estimator, LogisticRegression)
    assert model.estimator.solver == "liblinear"
    assert isinstance(model.random_state, int)
    assert model.estimator.random_state == model.random_state


def test_draws_from_the_global_generator_are_those_of_the_seed(rows, tmp_path):
    """As of ``TargetEncoder``, which has no ``random_state`` from scikit-learn 1.9 on."""
    X, y = rows
    (tmp_path / "own.py").write_text(OWN + "\n\nclass Draws(Centroids):\n" + textwrap.indent(DRAWS, "    "))
    learner = EstimatorLearner(f"{tmp_path}/own.py:Draws")
    state = check_random_state(None).get_state()[1].copy()
    scores = [learner.set_params(random_state=seed).fit_grid(X, y, {}).scores(X) for seed in (7, 7, 8)]
    assert np.array_equal(scores[0], scores[1])
    assert not np.array_equal(scores[0], scores[2])
    assert np.array_equal(check_random_state(None).get_state()[1], state)


def test_setting_that_overflows_is_not_selected(rows, own):
    X, y = rows
    grid = {"scale": np.array([1.0, 1000.0, 3.0])}
    learner = EstimatorLearner(f"{own}:Centroids", axes=grid)
    counts = []
    models = learner.fit_grid(X, y, grid, on_chunk=counts.append)
    assert counts == [1, 2, 3]
    assert models.finite().tolist() == [True, False, True]
    aucs = fit_and_evaluate(learner, X, y, grid, np.arange(120), np.arange(120, 180))
    assert np.isnan(aucs).tolist() == [False, True, False]
    assert aucs[0] == aucs[2]
    # scikit-learn raises a ValueError where weights overflow.
    network = {"solver": "sgd", "max_iter": 5, "hidden_layer_sizes": [3]}
    grid = {"learning_rate_init": np.array([0.01, 1e100])}
    learner = EstimatorLearner("sklearn.neural_network.MLPClassifier", network, axes=grid, random_state=0)
    assert learner.fit_grid(X, y, grid).finite().tolist() == [True, False]


def test_infinity_from_a_step_in_front_is_an_error_unless_a_setting_makes_it(rows, tmp_path):
    (tmp_path / "own.py").write_text(
        "from sklearn.preprocessing import MaxAbsScaler\n\n\nclass Times(MaxAbsScaler):\n"
        "    def __init__(self, factor=1e308):\n        self.factor = factor\n\n"
        "    def fit(self, X, y=None):\n        return self\n\n"
        "    def transform(self, X):\n        return X * self.factor * self.factor\n"
    )
    X, y = rows
    made = functools.partial(EstimatorLearner, LOGISTIC, pipeline=[f"{tmp_path}/own.py:Times"])
    for grid in ({"C": np.array([0.1, 1.0])}, {}):
        with pytest.raises(ValueError, match="Input X contains infinity"):
            made(axes=grid).fit_grid(X, y, grid)
    grid = {"times__factor": np.array([1.0, 1e308])}
    assert made(axes=grid).fit_grid(X, y, grid).finite().tolist() == [True, False]


def test_a_mistake_that_mentions_infinity_is_no_overflow(rows, tmp_path):
    text = "unknown norm: expected l1, l2 or infinity"
    body = f"\n\nclass Fails(Centroids):\n    def fit(self, X, y):\n        raise ValueError({text!r})\n"
    (tmp_path / "own.py").write_text(OWN + body)
    with pytest.raises(ValueError, match=text):
        EstimatorLearner(f"{tmp_path}/own.py:Fails").fit_grid(*rows, {})


LOST = """

class Lost(Centroids):
    def __init__(self, how="shape", scale=1.0):
        super().__init__(scale)
        self.how = how

    def fit(self, X, y):
        super().fit(X, y)
        if self.how == "shape":
            np.linalg.inv(X)
        if self.how == "singular":
            np.linalg.inv(np.zeros((2, 2)))
        if self.how == "words":
            raise ValueError("stack overflow of options")
        return self

    def decision_function(self, X):
        scores = super().decision_function(X)
        if self.how == "scores":
            scores[0] = np.nan
        return scores[:3] if self.how == "few" else scores

    def predict_proba(self, X):
        return np.ones((3, 3))
"""


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("singular", "LinAlgError: Singular matrix"),
        ("words", "ValueError: stack overflow of options"),
        ("scores", "Lost gave scores that are not finite"),
    ],
)
def test_why_a_setting_was_dropped_is_known(rows, tmp_path, how, reason):
    (tmp_path / "own.py").write_text(OWN + LOST)
    learner = EstimatorLearner(f"{tmp_path}/own.py:Lost", {"how": how})
    assert np.isnan(fit_and_evaluate(learner, *rows, {}, np.arange(120), np.arange(120, 180))).all()
    assert learner.why_diverged() == reason
    learner.set_params(params={"how": "nothing"})
    assert np.isfinite(fit_and_evaluate(learner, *rows, {}, np.arange(120), np.arange(120, 180))).all()
    assert learner.why_diverged() == ""


def test_arrays_of_a_wrong_shape_are_no_overflow(rows, tmp_path):
    (tmp_path / "own.py").write_text(OWN + LOST)
    with pytest.raises(np.linalg.LinAlgError, match="square"):
        EstimatorLearner(f"{tmp_path}/own.py:Lost").fit_grid(*rows, {})
    models = EstimatorLearner(f"{tmp_path}/own.py:Lost", {"how": "few"}).fit_grid(*rows, {})
    with pytest.raises(EstimatorError, match=r"^Lost: expected one score per row, got an array of shape \(3,\)"):
        models.scores(rows[0])
    with pytest.raises(EstimatorError, match=r"^Lost\.predict_proba: expected two .* \(3, 3\)"):
        models.probabilities(rows[0])


def test_one_class_and_missing_convergence_are_reported(rows):
    X, y = rows
    learner = EstimatorLearner(LOGISTIC, {"max_iter": 1})
    with pytest.raises(ValueError, match="both classes"):
        learner.fit_grid(X, np.ones_like(y), {})
    learner.fit_grid(X, y, {})
    assert "LogisticRegression ended before it converged" in learner.provenance()["note"]
    assert EstimatorLearner(LOGISTIC, {"max_iter": 500}).fit_grid(X, y, {}).finite().all()


def test_sparse_rows_stay_sparse_unless_they_are_made_dense(rows):
    X, y = rows
    csr = sparse.csr_matrix(X)
    assert EstimatorLearner(LOGISTIC).accepts_sparse()
    assert not EstimatorLearner(BOOSTING).accepts_sparse()
    steps = ["sklearn.preprocessing.MaxAbsScaler", "sklearn.feature_selection.SelectKBest"]
    assert EstimatorLearner(LOGISTIC, pipeline=steps).accepts_sparse()
    assert not EstimatorLearner(BOOSTING, pipeline=steps).accepts_sparse()
    # What comes behind this one gets dense rows.
    decomposed = EstimatorLearner(BOOSTING, {"max_iter": 3}, ["sklearn.decomposition.TruncatedSVD", SCALER])
    assert decomposed.accepts_sparse()
    assert decomposed.fit_grid(csr, y, {}).finite().all()
    dense = EstimatorLearner(BOOSTING, {"max_iter": 3}, dense=True)
    assert dense.accepts_sparse()
    np.testing.assert_array_equal(dense.fit_grid(csr, y, {}).scores(csr), dense.fit_grid(X, y, {}).scores(X))
    logistic = EstimatorLearner(LOGISTIC, {"tol": 1e-10})
    np.testing.assert_allclose(
        logistic.fit_grid(csr, y, {}).scores(csr), logistic.fit_grid(X, y, {}).scores(X), atol=1e-5
    )
    assert 0 < logistic.fit_grid(csr, y, {}).sparse_ratio()[0] <= 1
    assert np.isnan(dense.fit_grid(csr, y, {}).sparse_ratio()[0])
    assert EstimatorLearner("sklearn.svm.SVC", {"kernel": "linear"}).fit_grid(csr, y, {}).sparse_ratio() == [1]


def test_identity_has_versions_and_contents_of_files_but_no_paths(own, tmp_path, monkeypatch):
    def identity(*arguments, **settings):
        return EstimatorLearner(*arguments, **settings).identity(ESTIMATOR, ())

    address = f"{own}:Centroids"
    found = identity(LOGISTIC, {"C": 2, "class_weight": "balanced"}, [SCALER], random_state=5)
    assert found["learner"] == LOGISTIC
    assert found["version"].startswith("scikit-learn 1.")
    assert found["params"] == {"C": 2, "class_weight": "balanced", "pipeline": [SCALER]}
    of_file = identity(address)
    assert of_file["learner"] == "Centroids"
    shutil.copy(own, tmp_path / "own.py")
    assert identity(f"{tmp_path / 'own.py'}:Centroids") == of_file
    (tmp_path / "own.py").write_text(OWN + "\n# edited\n")
    assert identity(f"{tmp_path / 'own.py'}:Centroids") != of_file
    nested = identity("sklearn.ensemble.BaggingClassifier", {"estimator": {"estimator": address}})
    assert nested["source"] == of_file["source"]
    assert str(own.parent) not in json.dumps([of_file, nested])
    monkeypatch.setattr("opauc_bench.learners.estimator_entry.metadata.version", lambda name: "99.1")
    assert identity(LOGISTIC)["version"] == "scikit-learn 99.1"
    assert learner_class(ESTIMATOR) is EstimatorLearner


def test_cost_is_that_of_a_measured_fit(rows):
    X, y = rows
    learner = EstimatorLearner(BOOSTING, {"max_iter": 3}, axes={"max_leaf_nodes": (3.0, 5.0, 7.0)})
    guess = learner.cost(1e4, 6, 6.0, 4)[0]
    for found in learner.measure_cost(X, y, {"max_leaf_nodes": np.array([3.0, 5.0, 7.0])}):
        learner.measured |= found
    measured = learner.cost(len(y), 6, 6.0, 1)[0]
    assert measured != guess
    assert 1e-4 < measured < 5
    assert learner.cost(len(y), 6, 6.0, 4)[0] == pytest.approx(4 * measured)
    assert learner.cost(1e4, 6, 6.0, 4)[0] >= 4 * measured * 0.9
    constant = 1e-3  # of a fit
    assert learner.cost(1e6, 6, 6.0, 1)[0] - constant >= 1e6 / len(y) * (measured - constant) * 0.999  # at least linear
    assert learner.cost(len(y), 7, 7.0, 4)[0] != learner.cost(len(y), 6, 6.0, 4)[0]  # of another width: not measured


@pytest.mark.parametrize(
    ("entry", "place", "message"),
    [
        ({"estimator": "sklearn.linear_model.LogisticRegresion"}, ("estimator",), "did you mean 'LogisticRegression'"),
        ({"estimator": "not_installed.Thing"}, ("estimator",), "No module named 'not_installed'"),
        ({"estimator": "sklearn.linear_model.Ridge"}, ("estimator",), "gives no scores"),
        ({"params": {"c": 1}}, ("params", "c"), "no parameter 'c'"),
        ({"params": {"C": -1}}, ("params", "C"), "'C' parameter of LogisticRegression must be"),
        ({"params": {"n_jobs": 2}}, ("params", "n_jobs"), "run --jobs"),
        ({"grid": {"CC": (1.0,)}}, ("grid", "CC"), "did you mean 'C'"),
        ({"grid": {"max_iter": (5.0, -3.0)}}, ("grid", "max_iter", 1), "'max_iter' parameter"),
        ({"grid": {"max_iter": (100.0, 0.5)}}, ("grid", "max_iter", 1), "Got 0.5 instead"),
        ({"pipeline": ["sklearn.svm.SVC"]}, ("pipeline", 0), "not a transformer"),
        ({"pipeline": [{"estimator": SCALER, "params": {"a": 1}}]}, ("pipeline", 0, "params", "a"), "no parameter"),
        ({"grid": {"standardscaler__mean": (1.0,)}}, ("grid", "standardscaler__mean"), "no parameter"),
    ],
)  # fmt: skip
def test_errors_name_the_position_in_the_entry(entry, place, message):
    complete = {"estimator": LOGISTIC, "params": {}, "pipeline": [], "grid": {}, **entry}
    with pytest.raises(EstimatorError, match=message.replace("(", r"\(")) as caught:
        check_estimator_entry(**complete)
    assert caught.value.loc == place


def test_values_of_a_config_reach_the_estimator_as_they_were_written(command, tmp_path):
    entry = "{estimator: sklearn.linear_model.LogisticRegression, name: weighted, params: {class_weight: {0: 1, 1: 9}}}"
    text = (
        EXPERIMENT[: EXPERIMENT.index("  - uni_log")]
        + f"  - {entry}\nprotocol: {{trials: 1, folds: 2, inner_folds: 2}}\n"
    )
    (tmp_path / "e.yaml").write_text(text)
    command("run", "e.yaml", "--out", "results", cwd=tmp_path, exits=0)
    X, y = MinMaxScaler((-1, 1)).fit_transform(load_wine().data), np.where(load_wine().target == 0, 1, -1)
    split = outer_fold(y, trial=0, fold=0, dataset="wine", folds=2, stratified=True, seed=0)
    model = LogisticRegression(class_weight={0: 1, 1: 9}).fit(X[split.train], y[split.train] > 0)
    expected = roc_auc_score(y[split.test], model.decision_function(X[split.test]))
    assert record_of(tmp_path / "results", column="weighted").metrics["auc"] == pytest.approx(expected, abs=1e-12)
    (tmp_path / "e.yaml").write_text(text.replace("{0: 1, 1: 9}", "{0: 1, 1: .inf}"))
    done = command("run", "e.yaml", cwd=tmp_path, exits=2)
    assert "params.class_weight.1: expected a finite number, got inf" in done.stderr
    (tmp_path / "e.yaml").write_text(text.replace("{0: 1, 1: 9}", '{"0.0": 1, -1: 9}'))
    done = command("run", "e.yaml", cwd=tmp_path, exits=2)
    assert "params.class_weight.0.0: expected the classes 0 and 1, got '0.0'" in done.stderr


def test_own_classes_are_checked_too(own):
    check_estimator_entry(f"{own}:Centroids", {"offset": 1}, [], {"scale": (1.0, 2.0)})
    with pytest.raises(EstimatorError, match="gives no scores"):
        check_estimator_entry(f"{own}:NoScores", {}, [], {})
    with pytest.raises(EstimatorError, match="has no class 'Centroid'"):
        check_estimator_entry(f"{own}:Centroid", {}, [], {})
    with pytest.raises(EstimatorError, match="no file"):
        check_estimator_entry(f"{own.parent / 'none.py'}:Centroids", {}, [], {})
    (own.parent / "not_installed_helper.py").touch()
    (own.parent / "imports.py").write_text("import not_installed_helper")
    with pytest.raises(EstimatorError, match="No module named 'not_installed_helper'") as raised:
        check_estimator_entry(f"{own.parent / 'imports.py'}:Centroids", {}, [], {})
    assert raised.value.hint.startswith("put what it imports from its folder into the file")


@pytest.fixture(scope="module")
def finished(invoke, tmp_path_factory):
    """A finished run with cross-validation, in a folder of its own."""
    folder = tmp_path_factory.mktemp("estimators")
    (folder / "own.py").write_text(OWN)
    (folder / "mixed.yaml").write_text(EXPERIMENT.replace("PROTOCOL", "cv"))
    invoke("run", "mixed.yaml", "--out", "results", cwd=folder, exits=0)
    return folder


def test_a_run_selects_and_tests_as_a_loop_over_scikit_learn_does(finished):
    X, y = MinMaxScaler((-1, 1)).fit_transform(load_wine().data), np.where(load_wine().target == 0, 1, -1)
    records = records_of(finished / "results")
    assert len(records) == 15
    assert {record.status for record in records} == {"ok"}
    assert json.loads((finished / "results/manifest.json").read_text())["definitions"]
    for fold in (1, 2, 3):
        record = record_of(finished / "results", column="hgb", fold=fold)
        split = outer_fold(y, trial=0, fold=fold - 1, dataset="wine", folds=3, stratified=True, seed=0)
        inner = random_folds(y[split.train], 2, np.random.default_rng([split.seed, 1]), True)
        tried, train = {}, split.train
        for rate in (0.1, 0.5):
            for leaves in (3, 7):
                aucs = []
                for k in range(2):
                    model = HistGradientBoostingClassifier(max_iter=5, learning_rate=rate, max_leaf_nodes=leaves)
                    model.fit(X[train[inner != k]], y[train[inner != k]])
                    held_out = train[inner == k]
                    aucs.append(roc_auc_score(y[held_out], model.decision_function(X[held_out])))
                tried[rate, leaves] = np.mean(aucs)
        np.testing.assert_allclose(record.selection.auc, list(tried.values()), atol=1e-12)
        best = max(tried, key=lambda setting: round(tried[setting], 12))
        assert (record.selected["learning_rate"], record.selected["max_leaf_nodes"]) == best
        model = HistGradientBoostingClassifier(max_iter=5, learning_rate=best[0], max_leaf_nodes=best[1])
        model.fit(X[train], y[train])
        expected = roc_auc_score(y[split.test], model.decision_function(X[split.test]))
        assert record.metrics["auc"] == pytest.approx(expected, abs=1e-12)
    own = record_of(finished / "results", column="own")
    assert (own.selected, own.selection.n_diverged) == ({"scale": 1.0}, 1)
    assert record_of(finished / "results", column="GaussianNB").selected == {}


def test_commands_work_as_for_any_column(finished, command):
    for words in (
        ("report", "mixed.yaml", "--out", "results"),
        ("status", "mixed.yaml", "--out", "results"),
        ("plan", "mixed.yaml", "--out", "results"),
        ("verify", "mixed.yaml", "--out", "results", "--sample", "15"),
        ("export", "results", "--out", "frame.csv"),
    ):
        command(*words, cwd=finished, exits=0)
    again = command("run", "mixed.yaml", "--out", "results", cwd=finished)
    assert again.stderr.startswith("0 of 15 tasks to compute: all have records")


def test_holdout_has_no_sparse_ratio_where_there_are_no_weights(command, tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    text = EXPERIMENT.replace("PROTOCOL, trials: 1, folds: 3, inner_folds: 2", "holdout, trials: 2")
    (tmp_path / "mixed.yaml").write_text(text)
    done = command("run", "mixed.yaml", "--out", "results", cwd=tmp_path, exits=0)
    sections = done.stdout.split("Sparse ratio")[1:]
    assert sum(section.partition("Run time")[0].count("–") for section in sections) == 3
    assert "nan" not in done.stdout


def test_a_dense_classifier_on_sparse_data_is_an_error_with_its_place(command, tmp_path):
    rng = np.random.default_rng(0)
    lines = [f"{label} " + " ".join(f"{j + 1}:{rng.random():.3f}" for j in sorted(rng.choice(40, 3, replace=False)))
             for label in [1, -1] * 30]  # fmt: skip
    (tmp_path / "rows.svm").write_text("\n".join(lines) + "\n")
    (tmp_path / "own.yaml").write_text(
        "datasets:\n  rows:\n    title: rows\n    format: svmlight\n"
        f"    files: [{{name: rows.svm, sha256: null, urls: ['{(tmp_path / 'rows.svm').as_uri()}']}}]\n"
        "    n_samples: 60\n    n_features: 40\n    n_positive: 30\n    positive: [1]\n    scaling: none\n"
    )
    entry = "{estimator: sklearn.ensemble.HistGradientBoostingClassifier, name: hgb, params: {max_iter: 2}}"
    (tmp_path / "e.yaml").write_text(
        f"title: t\ncatalogue: own.yaml\ndatasets: [rows]\nlearners:\n  - {entry}\n"
        "protocol: {kind: cv, trials: 1, folds: 2, inner_folds: 2}\n"
    )
    done = command("run", "e.yaml", "--out", "results", cwd=tmp_path, exits=2)
    assert "e.yaml:5:5: learners[0]: this estimator needs dense rows, and rows is sparse" in done.stderr
    assert "dense: true" in done.stderr
    (tmp_path / "e.yaml").write_text((tmp_path / "e.yaml").read_text().replace("name: hgb", "name: hgb, dense: true"))
    command("run", "e.yaml", "--out", "results", cwd=tmp_path, exits=0)


def test_a_pinned_file_is_imported_once(rows, tmp_path):
    X, y = rows
    path = tmp_path / "sign.py"
    path.write_text(BAD + "\n\nclass Sign(Single):\n    def decision_function(self, X):\n        return X[:, 0]\n")
    learner = EstimatorLearner(f"{path}:Sign")
    before = learner.identity("", ())["source"]
    with pinned_files():
        np.testing.assert_array_equal(learner.fit_grid(X, y, {}).scores(X)[:, 0], X[:, 0])
        path.write_text(path.read_text().replace("return X[:, 0]\n", "return -X[:, 0]\n"))
        np.testing.assert_array_equal(learner.fit_grid(X, y, {}).scores(X)[:, 0], X[:, 0])
        assert learner.identity("", ())["source"] == before
    np.testing.assert_array_equal(learner.fit_grid(X, y, {}).scores(X)[:, 0], -X[:, 0])
    assert learner.identity("", ())["source"] != before
