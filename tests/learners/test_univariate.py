"""Univariate losses against gradient descent on the losses as they are written."""

import numpy as np
import pytest
from reference import univariate as paper
from reference.examples import ARRANGEMENTS, assert_close, examples, fit_grid_by_products
from scipy import sparse
from sklearn.exceptions import NotFittedError

from opauc_bench.learners import DivergenceError, UniExp, UniLog, UniSqu, stream_learner

LEARNERS = {"exp": UniExp, "log": UniLog, "squ": UniSqu}
ALL = pytest.mark.parametrize("loss", LEARNERS)
ETA = np.array([2.0**-9, 0.003, 2.0**-7])


def by_the_paper(X, y, loss, **options):
    return np.column_stack([paper.univariate(X, y, loss, eta, **options)[0] for eta in ETA])


@ALL
@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
@pytest.mark.parametrize("d", [1, 2, 3, 5, 17, 33])
def test_grid_pass_equals_gradient_descent(d, arrangement, loss):
    X, y = examples(250, d, arrangement)
    assert_close(LEARNERS[loss]().fit_grid(X, y, {"eta": ETA}), by_the_paper(X, y, loss))


@ALL
@pytest.mark.parametrize("weights", ["none", "balanced", "prior"])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("arrangement", ["mixed", "late"])
def test_weights_and_intercept(arrangement, intercept, weights, loss):
    X, y = examples(250, 5, arrangement)
    options = {"weights": weights, "intercept": intercept}
    learner = LEARNERS[loss](eta=0.005, **options)
    assert_close(learner.fit_grid(X, y, {"eta": ETA}), by_the_paper(X, y, loss, **options))
    w, b = paper.univariate(X, y, loss, 0.005, **options)
    assert_close(learner.fit(X, y).coef_[0], w)
    if intercept:
        assert_close(learner.intercept_, [b])


@ALL
@pytest.mark.parametrize("weights", ["none", "balanced", "prior"])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
def test_blocks_of_dense_rows(arrangement, intercept, weights, loss, monkeypatch):
    monkeypatch.setattr(stream_learner, "_MANY", 0)
    X, y = examples(300, 7, arrangement)
    X[100], X[200:230] = 0.0, X[:30]
    options = {"weights": weights, "intercept": intercept}
    learner = LEARNERS[loss](eta=0.003, **options)
    assert_close(learner.fit_grid(X, y, {"eta": ETA}), by_the_paper(X, y, loss, **options))
    assert_close(learner.fit(X, y).coef_[0], paper.univariate(X, y, loss, 0.003, **options)[0])


@ALL
@pytest.mark.parametrize("intercept", [False, True])
def test_steps_by_inner_products_equal_steps_on_features(intercept, loss, monkeypatch):
    X, y = examples(300, 7)
    options = {"weights": "balanced", "intercept": intercept}
    coef = fit_grid_by_products(LEARNERS[loss](**options), X, y, {"eta": ETA}, monkeypatch)
    assert_close(coef, by_the_paper(X, y, loss, **options))


@pytest.mark.parametrize("loss", ["exp", "squ"])
def test_settings_that_overflow_in_a_block_are_dropped(loss, monkeypatch):
    monkeypatch.setattr(stream_learner, "_MANY", 0)
    X, y = examples(300, 7)
    coef = LEARNERS[loss]().fit_grid(X, y, {"eta": np.array([0.003, 1e200, 0.002])})
    assert np.isfinite(coef).all(axis=0).tolist() == [True, False, True]
    assert_close(coef[:, 0], paper.univariate(X, y, loss, 0.003)[0])


@ALL
def test_sparse_rows(loss):
    X, y = examples(250, 17, "sparse")
    coef = LEARNERS[loss]().fit_grid(sparse.csr_matrix(X), y, {"eta": ETA})
    assert_close(coef, by_the_paper(X, y, loss))


@ALL
def test_derivative_equals_that_of_the_loss(loss):
    margins = np.linspace(-3, 3, 25)
    h = 1e-5
    slopes = (paper.LOSSES[loss](margins + h) - paper.LOSSES[loss](margins - h)) / (2 * h)
    assert_close(paper.DERIVATIVES[loss](margins), slopes, tolerance=1e-9)


@pytest.mark.parametrize(
    ("weights", "by_hand"),
    [("none", [1, 1, 1, 1]), ("balanced", [1 / 2, 2 / 2, 3 / 4, 4 / 6]), ("prior", [2, 2 / 2, 4 / 3, 6 / 4])],
)
def test_class_weights_by_hand(weights, by_hand):
    """Rows that share no feature all have the margin 0: their weights can be read off."""
    X, y = np.eye(4), np.array([1, -1, -1, -1])
    fitted = UniSqu(eta=1e-3, weights=weights).fit(X, y)
    assert_close(fitted.coef_[0], 1e-3 * y * by_hand)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_intercept_that_overflows_is_divergence(form):
    """In rows without features nothing else moves."""
    X, y = np.zeros((10, 3)), np.resize([1, -1], 10)
    learner = UniExp(eta=1024.0, intercept=True)
    coef = learner.fit_grid(form(X), y, {"eta": np.array([0.1, 1024.0])})
    assert (coef[:, 0] == 0).all()
    assert np.isnan(coef[:, 1]).all()
    with pytest.raises(DivergenceError):
        learner.fit(form(X), y)


def test_partial_fit_goes_on_with_the_same_setting_and_classes():
    X, y = np.eye(4), np.array([0, 1, 0, 1])
    learner = UniSqu(eta=0.1).partial_fit(X, y)
    with pytest.raises(ValueError, match=r"the pass began with eta=0.1, got 0.5: call fit again, or set it back"):
        learner.set_params(eta=0.5).partial_fit(X, y)
    learner.set_params(eta=0.1).partial_fit(X, y, classes=[1, 0])
    with pytest.raises(ValueError, match=r"the pass began with the classes \[0, 1\], got \[0, 5\]"):
        learner.partial_fit(X, y, classes=[0, 5])


def test_failed_fit_leaves_no_model():
    """Old weights with new labels, or of another number of features, are not a model."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), rng.integers(0, 2, 60)
    learner = UniSqu(eta=0.01).fit(X, np.where(y, "b", "a"))
    with pytest.raises(DivergenceError):
        learner.set_params(eta=1e6).fit(100 * X, np.where(y, "d", "c"))
    with pytest.raises(NotFittedError):
        learner.predict(X)


def test_intercept_that_overflows_is_a_divergence():
    rng = np.random.default_rng(0)
    X = np.clip(rng.normal(size=(60, 3)), -1, 1) * 1e160
    with pytest.raises(DivergenceError, match="scale the features"):
        UniLog().fit(X, rng.integers(0, 2, 60))
