"""Learners as scikit-learn's own estimators, whose base class they do not have."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin, clone, is_classifier
from sklearn.exceptions import NotFittedError, UnsetMetadataPassedError
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils import get_tags

import opauc_bench
from opauc_bench.learners import OPAUC, DivergenceError, EstimatorLearner, get_learner
from opauc_bench.learners.sklearn_api import Estimator


class _Parameters:
    def __init__(self, tau=50, inner=None, eta=0.1, name="x"):
        self.tau = tau
        self.inner = inner
        self.eta = eta
        self.name = name


class Ours(_Parameters, Estimator):
    pass


class Theirs(_Parameters, BaseEstimator):
    pass


class TheirClassifier(ClassifierMixin, BaseEstimator):
    pass


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (60, 4))
    return X, np.where(X[:, 0] + 0.3 * rng.standard_normal(60) > 0, "yes", "no")


@pytest.mark.parametrize("inner", [None, MinMaxScaler(), Theirs(eta=3)])
def test_parameters_are_those_of_scikit_learn(inner):
    for deep in (False, True):
        ours, theirs = (cls(tau=2, inner=inner).get_params(deep) for cls in (Ours, Theirs))
        assert list(ours) == list(theirs) or deep
        assert ours == theirs
    if inner is not None:
        assert any(name.startswith("inner__") for name in ours)


def test_parameters_are_set_inside_too():
    made = Ours(inner=Ours(inner=Theirs()))
    assert made.set_params(eta=2.0, inner__tau=3, inner__inner__name="y") is made
    assert (made.eta, made.inner.tau, made.inner.inner.name) == (2.0, 3, "y")
    with pytest.raises(ValueError, match="Ours has no parameter 'alpha'; it has eta, inner, name, tau"):
        made.set_params(alpha=1)


@pytest.mark.parametrize("params", [{}, {"eta": 2}, {"tau": 1, "name": "y", "inner": Theirs(eta=np.float64(2))}])
def test_shown_as_scikit_learn_shows_it(params):
    assert repr(Ours(**params)) == repr(Theirs(**params)).replace("Theirs", "Ours", 1)
    assert "<style>" in Ours(**params)._repr_html_()


def test_tags_are_those_of_scikit_learn():
    tags = get_tags(OPAUC())
    expected = get_tags(TheirClassifier())
    expected.classifier_tags.multi_class, expected.input_tags.sparse = False, True
    assert tags == expected
    assert is_classifier(OPAUC())
    assert get_tags(EstimatorLearner()).estimator_type is None


@pytest.mark.parametrize(("size", "labels"), [(1.0, [1, 1, 1, 1]), (1e200, [0, 1, 0, 1])])
def test_a_first_partial_fit_that_fails_leaves_nothing_fitted(size, labels):
    learner, X = OPAUC(), np.eye(4)
    with pytest.raises((ValueError, DivergenceError)):
        learner.partial_fit(size * X, labels)
    with pytest.raises(NotFittedError):
        learner.predict(X)
    assert learner.fit(X, [0, 1, 0, 1]).partial_fit(X, [1, 1, 0, 0]).predict(X).shape == (4,)


def test_classes_are_both_labels(rows):
    X, y = rows
    with pytest.raises(ValueError, match="classes: expected both labels, got none"):
        OPAUC().partial_fit(X, y, classes=[])
    with pytest.raises(ValueError, match="needs two classes"):
        OPAUC().partial_fit(X, y, classes="yes")
    learner = OPAUC().partial_fit(X[:1], y[:1], classes=["no", "yes"])
    with pytest.raises(ValueError, match=r"began with the classes \['no', 'yes'\], got \['yes'\]"):
        learner.partial_fit(X, y, classes="yes")


def test_names_can_be_completed():
    assert set(opauc_bench.__all__) <= set(dir(opauc_bench))
    assert set(opauc_bench.learners.__all__) <= set(dir(opauc_bench.learners))


def test_learners_work_where_estimators_do(rows):
    X, y = rows
    model = make_pipeline(MinMaxScaler((-1, 1)), OPAUC(eta=0.5))
    assert clone(model)[-1].get_params() == model[-1].get_params()
    assert "OPAUC" in model._repr_html_()
    with sklearn.config_context(enable_metadata_routing=True):
        search = GridSearchCV(model, {"opauc__eta": [0.05, 0.1]}).fit(X, y)
    assert (search.cv_results_["mean_test_score"] > 0.7).all()
    weights = np.linspace(0, 1, len(y))
    predicted = search.predict(X)
    assert search.best_estimator_[-1].score(model[0].fit_transform(X), y, weights) == accuracy_score(
        y, predicted, sample_weight=weights
    )


@pytest.mark.parametrize(("requested", "name"), [(True, "sample_weight"), ("importance", "importance")])
def test_searches_pass_on_the_weights_of_a_score_that_asks_for_them(rows, requested, name):
    X, y = rows
    weights, (train, test) = np.linspace(0, 1, len(y)), np.array_split(np.arange(len(y)), 2)
    with sklearn.config_context(enable_metadata_routing=True):
        search = GridSearchCV(OPAUC(), {"eta": [0.1]}, cv=[(train, test)])
        with pytest.raises(UnsetMetadataPassedError, match="set_score_request"):
            search.fit(X, y, sample_weight=weights)
        search.set_params(estimator=OPAUC().set_score_request(sample_weight=requested)).fit(X, y, **{name: weights})
    predicted = OPAUC(eta=0.1).fit(X[train], y[train]).predict(X[test])
    expected = accuracy_score(y[test], predicted, sample_weight=weights[test])
    assert search.cv_results_["mean_test_score"].tolist() == [expected]
    assert expected != accuracy_score(y[test], predicted)


@pytest.mark.parametrize("name", ["opauc", "ls_svm"])
def test_fit_grid_says_what_it_expects(name):
    learner = get_learner(name)()
    X, y = np.random.default_rng(0).uniform(-1, 1, (40, 3)), np.tile([1, -1], 20)
    grid = {axis: np.array([0.5]) for axis in learner.grid_axes}
    with pytest.raises(TypeError, match="got a data frame"):
        learner.fit_grid(pd.DataFrame(X), y, grid)
    if name == "opauc":
        with pytest.raises(ValueError, match="a label for each of 40 rows, got 30"):
            learner.fit_grid(X, y[:30], grid)
