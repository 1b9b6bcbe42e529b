"""The classifiers for river: its own checks, and the weights of the learners that have arrays."""

import contextlib
import doctest
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from opauc_bench import learners
from opauc_bench.learners import DivergenceError

river = pytest.importorskip("river")

from river import checks, datasets, evaluate, metrics, preprocessing  # noqa: E402

import opauc_bench.river  # noqa: E402
from opauc_bench.river import FTRLAUC, OPAUC  # noqa: E402

PAGE = Path(__file__).resolve().parents[2] / "docs" / "river.md"
MODELS = [FTRLAUC(), FTRLAUC(variant="released"), OPAUC()]


def rows(n, n_features, density, seed=0):
    """Rows of which a third are positive, as an array and as dictionaries without zeros, the features in any order."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 1 / 3
    X = (rng.uniform(-1, 1, (n, n_features)) + 0.3 * y[:, None]) * (rng.random((n, n_features)) < density)
    dictionaries = [{f"f{i}": row[i] for i in rng.permutation(n_features) if row[i]} for row in X]
    return X, y, dictionaries


def weights_of(model, n_features):
    return np.array([model.weights.get(f"f{i}", 0.0) for i in range(n_features)])


@pytest.mark.parametrize("model", MODELS, ids=repr)
@pytest.mark.parametrize("check", list(checks.yield_checks(FTRLAUC())), ids=lambda check: check.__name__)
def test_rivers_checks(model, check):
    check(model.clone())


@pytest.mark.parametrize("params", [{}, {"gamma": 2.0, "l1": 0.05, "l2": 0.1, "beta": 0.5}, {"variant": "released"}])
def test_ftrl_has_the_weights_of_the_learner(params):
    X, y, dictionaries = rows(400, 30, 0.2)
    model = FTRLAUC(**params)
    for row, positive in zip(dictionaries, y):
        model.learn_one(row, positive)
    fitted = learners.FTRLAUC(**params).fit(sparse.csr_matrix(X), y)
    np.testing.assert_allclose(weights_of(model, 30), fitted.coef_[0], rtol=1e-9, atol=1e-12)
    scores = [model.score_one(row) for row in dictionaries]
    np.testing.assert_allclose(scores, X @ fitted.coef_[0], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("density", [1.0, 0.3])
def test_opauc_has_the_weights_of_the_learner(density):
    X, y, dictionaries = rows(200, 8, density)
    model = OPAUC(eta=0.05, lam=0.1)
    for row, positive in zip(dictionaries, y):
        model.learn_one(row, positive)
    fitted = learners.OPAUC(eta=0.05, lam=0.1).fit(X, y)
    np.testing.assert_allclose(weights_of(model, 8), fitted.coef_[0], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("model", [FTRLAUC(), OPAUC()], ids=repr)
@given(data=st.data())
def test_a_zero_is_a_missing_feature(model, data):
    value = st.sampled_from([0.0, 0, False, 0.5, -1, True])
    stream = data.draw(st.lists(st.tuples(st.dictionaries(st.sampled_from("abcd"), value), st.booleans()), max_size=8))
    with_zeros, without = model.clone(), model.clone()
    for row, positive in stream:
        with_zeros.learn_one(row, positive)
        without.learn_one({name: v for name, v in row.items() if v}, positive)
    assert with_zeros.weights == without.weights
    assert with_zeros.predict_proba_one({"a": 1.0}) == without.predict_proba_one({"a": 1.0})


def test_probabilities_of_normal_scores_are_right():
    """On scores that are normal in either class, the log odds are those of the two normal densities."""
    rng = np.random.default_rng(0)
    model = OPAUC()
    for _ in range(6000):
        positive = rng.random() < 0.2
        (model._positives if positive else model._negatives).add(rng.normal(1.0 if positive else -0.5, 0.7))
    model._weights = {"score": 1.0}
    for score in (-1.0, 0.0, 0.5, 1.5):
        odds = 0.2 / 0.8 * math.exp(((score + 0.5) ** 2 - (score - 1.0) ** 2) / (2 * 0.7**2))
        assert model.predict_proba_one({"score": score})[True] == pytest.approx(odds / (1 + odds), abs=0.04)


def test_probabilities_rise_with_the_score_and_begin_with_the_share_of_positives():
    model = FTRLAUC()
    assert model.predict_proba_one({"a": 1.0}) == {False: 0.5, True: 0.5}
    for _ in range(8):
        model.learn_one({"a": 1.0}, False)
    assert model.predict_proba_one({"a": 1.0})[True] == pytest.approx(0.1)
    _, y, dictionaries = rows(300, 10, 0.5)
    for row, positive in zip(dictionaries, y):
        model.learn_one(row, positive)
    order = sorted(dictionaries, key=model.score_one)
    probabilities = [model.predict_proba_one(row)[True] for row in order]
    assert probabilities == sorted(probabilities)
    name, weight = next(iter(model.weights.items()))
    assert model.predict_proba_one({name: 1e12 * weight})[True] == 1.0


def test_they_are_as_good_as_the_learners_promise():
    for model in (FTRLAUC(), OPAUC()):
        found = evaluate.progressive_val_score(
            datasets.Phishing(), preprocessing.StandardScaler() | model, metrics.ROCAUC(n_thresholds=1000)
        )
        assert found.get() > 0.95


@pytest.mark.parametrize(
    ("kind", "params", "message"),
    [
        (FTRLAUC, {"gamma": 0}, "FTRLAUC: gamma has to be a number > 0, got 0"),
        (FTRLAUC, {"variant": "new"}, "FTRLAUC: variant has to be one of paper, released, got 'new'"),
        (FTRLAUC, {"beta": 0, "l2": 0}, "FTRLAUC: beta has to be a number > 0 if l2 is 0, got 0"),
        (OPAUC, {"lam": -1.0}, "OPAUC: lam has to be a number >= 0, got -1.0"),
    ],
)
def test_parameters_are_checked(kind, params, message):
    with pytest.raises(ValueError, match=message):
        kind(**params)


def test_values_have_to_be_finite():
    with pytest.raises(ValueError, match="feature 'b' has to be a finite number, got nan"):
        FTRLAUC().learn_one({"a": 1.0, "b": math.nan}, True)


@pytest.mark.parametrize("value", [None, "", "x", [], float("nan"), "1.5", "10001", b"3", bytearray(b"3")])
def test_a_value_that_is_no_number_is_named(value):
    for use in (FTRLAUC().predict_proba_one, lambda x: FTRLAUC().learn_one(x, True)):
        with pytest.raises(ValueError, match="feature 'a' has to be a finite number"):
            use({"a": value})


@pytest.mark.parametrize("kind", [FTRLAUC, OPAUC])
def test_labels_are_true_and_false(kind):
    for label in ("yes", "0", -1, 2, None, float("nan")):
        with pytest.raises(ValueError, match="expected the label True or False, or 1 or 0, got"):
            kind().learn_one({"a": 1.0}, label)
    found = []
    for positive, negative in ((True, False), (1, 0), (np.True_, np.False_), (1.0, 0.0)):
        model = kind()
        for label in (positive, negative, positive):
            model.learn_one({"a": float(label), "b": 1.0}, label)
        found.append(model.weights)
    assert found[0]
    assert all(one == found[0] for one in found)


def test_overflow_is_an_error():
    def learn(n):
        model = OPAUC(eta=1e3)
        for k in range(n):
            model.learn_one({"a": 10.0 + k % 3, "b": 1.0}, k % 2 == 0)

    learn(10)
    with pytest.raises(DivergenceError, match=r"OPAUC overflowed within \d+ rows: take smaller steps"):
        learn(500)
    model = FTRLAUC()
    for value in (1e200, -1e200, 1e200):
        with contextlib.suppress(DivergenceError):
            model.learn_one({"a": value}, value > 0)
    for use in (model.predict_proba_one, model.score_one):
        with pytest.raises(DivergenceError, match="FTRLAUC overflowed within"):
            use({"a": 1e200})
    # A row without the feature whose weight is lost has a finite score, and must not hide that.
    with pytest.raises(DivergenceError, match="begin with a new model"):
        model.learn_one({"b": 1.0}, True)
    assert "b" not in model.weights


def test_examples():
    assert doctest.testmod(opauc_bench.river).failed == 0
    found = doctest.testfile(str(PAGE), module_relative=False)
    assert found.attempted >= 6
    assert found.failed == 0
