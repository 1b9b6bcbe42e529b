"""Batch learners on rows that are hardly rows: finite weights over the paper's grid, and the right ones."""

import numpy as np
import pytest
from reference.examples import assert_close, examples
from scipy import sparse
from sklearn.exceptions import NotFittedError

from opauc_bench.errors import LearnerError
from opauc_bench.evaluation import auc_score
from opauc_bench.learners import LEARNERS, BatchLearner, DivergenceError, get_learner

GRID = 2.0 ** np.arange(-10, 11)
BATCH = [name for name in LEARNERS if issubclass(get_learner(name), BatchLearner)]
FORMS = [np.asarray, sparse.csr_matrix]


@pytest.fixture(params=BATCH)
def learner(request):
    made = get_learner(request.param)()
    return made.set_params(engine="native") if request.param == "svm_perf" else made


@pytest.fixture(params=FORMS, ids=["dense", "sparse"])
def form(request):
    return request.param


def path(learner, X, y):
    return learner.fit_grid(X, y, {learner.grid_axes[0]: GRID})


def test_one_sample_a_class(learner, form):
    X, y = np.array([[0.5, -1.0, 0.25], [-0.5, 0.5, 0.25]]), np.array([1, -1])
    coef = path(learner, form(X), y)
    assert np.isfinite(coef).all()
    assert ((X[0] - X[1]) @ coef > 0).all()


def test_equal_class_means(learner, form):
    """The classes are the same rows: nothing is to be learned, and zero is the best that the pairwise losses have."""
    X, _ = examples(30, 4)
    X, y = np.vstack([X, X]), np.repeat([1, -1], 30)
    coef = path(learner, form(X), y)
    assert np.isfinite(coef).all()
    assert np.abs(coef).max() < 1e-9


def test_separable_classes(learner, form):
    X, y = examples(100, 4)
    X[:, 0] = y * np.maximum(np.abs(X[:, 0]), 0.2)
    coef = path(learner, form(X), y)
    best = max(auc_score(y, X @ w) for w in coef.T)
    assert best > 0.99


def test_constant_features_do_not_matter_to_pairs(learner):
    X, y = examples(80, 4)
    X[:, 1] = 0.7
    learner.set_params(**learner.exact_params)
    coef = path(learner, X, y)
    assert np.isfinite(coef).all()
    if "weights" not in learner.get_params():
        assert np.abs(coef[1]).max() < 1e-9 * np.abs(coef).max()
        rest = path(learner, np.delete(X, 1, axis=1), y)
        assert_close(np.delete(coef, 1, axis=0), rest, 1e-5)


def test_more_features_than_rows(learner, form):
    X, y = examples(25, 60)
    coef = path(learner, form(X), y)
    assert np.isfinite(coef).all()
    # Weights are combinations of rows.
    assert_close(X.T @ np.linalg.lstsq(X.T, coef, rcond=None)[0], coef, 1e-8)


def test_one_class_is_refused(learner):
    X, y = examples(20, 3)
    with pytest.raises(ValueError, match=r"needs training rows of both classes; all have the label -1"):
        learner.fit_grid(X, y, {learner.grid_axes[0]: GRID}, order=np.flatnonzero(y < 0))
    with pytest.raises(ValueError, match=r"needs training rows of both classes; there are no rows"):
        learner.fit_grid(X, y, {learner.grid_axes[0]: GRID}, order=[])


def test_rows_outside_order_are_not_read(learner):
    X, y = examples(60, 4)
    order = np.random.default_rng(0).permutation(60)[:40]
    learner.set_params(**learner.exact_params)
    want = path(learner, X[np.sort(order)], y[np.sort(order)])
    others = np.setdiff1d(np.arange(60), order)
    X[others], y[others] = np.nan, 1
    assert_close(learner.fit_grid(X, y, {learner.grid_axes[0]: GRID}, order=order), want, 1e-5)


class Direction(BatchLearner):
    """The difference of the class means: all that a user-written learner has to define."""

    grid_axes = ("lam",)

    def __init__(self, lam=1.0):
        self.lam = lam

    def _fit_path(self, X, y, settings, tick):
        tick()
        return np.outer(y @ X, 1 / settings["lam"]), None


def test_cost_has_a_default():
    seconds, memory = Direction().cost(1000, 10, 10.0, 3)
    assert seconds > 0
    assert memory > 0
    assert Direction().cost(2000, 10, 10.0, 3)[0] > seconds


@pytest.mark.parametrize(
    ("returns", "came"),
    [
        (lambda W: None, "got None"),
        (lambda W: W, r"got ndarray of shape \(3, 2\)"),
        (lambda W: (W.T, None), r"got \(ndarray of shape \(2, 3\), None\)"),
    ],
)
def test_wrong_result_of_fit_path_is_an_error(returns, came):
    class Wrong(Direction):
        def _fit_path(self, X, y, settings, tick):
            return returns(super()._fit_path(X, y, settings, tick)[0])

    X, y = np.eye(4, 3) + 0.5, np.array([1, -1, 1, -1])
    with pytest.raises(LearnerError, match=rf"Wrong\._fit_path has to return .* here \(3, 2\), .*{came}"):
        Wrong().fit_grid(X, y, {"lam": [1.0, 2.0]})


@pytest.mark.parametrize("shape", [(30, 5), (8, 20)])
def test_squares_that_overflow_are_nan(learner, form, shape):
    X, y = examples(*shape)
    y[:2] = 1, -1
    X[3] *= 1e160
    assert np.isnan(path(learner, form(X), y)).all()
    with pytest.raises(DivergenceError):
        learner.fit(form(X), y)


@pytest.mark.parametrize("name", [name for name in LEARNERS if issubclass(get_learner(name), BatchLearner)])
def test_a_fit_that_fails_leaves_nothing_of_an_earlier_one(name):
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (40, 5)), np.tile([1, -1], 20)
    learner = get_learner(name)().fit(X, y)
    with pytest.raises(ValueError, match="class"):
        learner.fit(X[:, :3], np.ones(40))
    assert [attribute for attribute in vars(learner) if attribute.endswith("_")] == []
    with pytest.raises(NotFittedError):
        learner.predict(X)
