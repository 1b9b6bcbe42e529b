"""Batch Uni-Log: against scikit-learn, finite differences, and its own other ways of solving."""

import numpy as np
import pytest
from reference.batch import slopes, univariate_objective
from reference.examples import assert_close, examples
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from opauc_bench.learners import BatchUniLog
from opauc_bench.learners.batch import logistic

LAMBDAS = 2.0 ** np.arange(-10, 11, 2)
WEIGHTS = {
    "none": lambda y: np.ones(len(y)),
    "balanced": lambda y: len(y) / (2.0 * np.where(y > 0, np.sum(y > 0), np.sum(y < 0))),
    "prior": lambda y: 2.0 * np.where(y > 0, np.sum(y > 0), np.sum(y < 0)) / len(y),
}


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weights", list(WEIGHTS))
@pytest.mark.parametrize("loss_scale", ["mean", "sum"])
def test_the_path_is_scikit_learns_value_by_value(weights, intercept, loss_scale):
    X, y = examples(400, 6)
    learner = BatchUniLog(weights=weights, intercept=intercept, loss_scale=loss_scale)
    coef = learner.fit_grid(X, y, {"lam": LAMBDAS})
    for lam, w in zip(LAMBDAS, coef.T):
        C = 1.0 / (lam * (len(y) if loss_scale == "mean" else 1))
        other = LogisticRegression(C=C, fit_intercept=intercept, solver="newton-cholesky", tol=1e-12, max_iter=1000)
        assert_close(w, other.fit(X, y, sample_weight=WEIGHTS[weights](y)).coef_[0], 1e-6)


@pytest.mark.parametrize("intercept", [False, True])
def test_the_objective_is_flat_at_the_solution(intercept):
    X, y = examples(60, 4)
    model = BatchUniLog(lam=0.01, weights="balanced", intercept=intercept).fit(X, y)

    def objective(point):
        b = point[-1] if intercept else 0.0
        return univariate_objective("logistic", point[:4], b, X, y, 0.01, "balanced", "mean")

    found = np.append(model.coef_[0], model.intercept_ if intercept else [])
    assert np.abs(slopes(objective, found)).max() < 1e-8 * np.abs(slopes(objective, np.zeros(len(found)))).max() + 1e-10


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("intercept", [False, True])
def test_conjugate_gradients_find_the_same_solution(monkeypatch, form, intercept):
    X, y = examples(50, 80, "sparse")
    learner = BatchUniLog(intercept=intercept, weights="balanced")
    want = learner.fit_grid(form(X), y, {"lam": LAMBDAS})
    monkeypatch.setattr(logistic, "_EXPLICIT", 10)
    assert_close(learner.fit_grid(form(X), y, {"lam": LAMBDAS}), want, 1e-8)


def test_separable_rows_with_hardly_any_regularisation():
    """Full Newton steps from zero overshoot here; weights grow by orders of magnitude along the path."""
    X, y = examples(200, 5)
    X = X + y[:, None] * np.array([2.0, 0, 0, 0, 0])
    lam = 2.0 ** -np.arange(0, 40, 3)
    ticks = []
    coef = BatchUniLog().fit_grid(X, y, {"lam": lam}, on_chunk=ticks.append)
    gradient = lam * coef - X.T @ (y[:, None] / (1 + np.exp(y[:, None] * (X @ coef)))) / len(y)
    assert np.abs(gradient).max() < 1e-9
    assert np.linalg.norm(coef[:, -1]) > 10 * np.linalg.norm(coef[:, 0])
    assert len(ticks) < 300


def test_start_far_from_the_solution_takes_shorter_steps():
    X, y = examples(100, 3)
    problem = logistic._Problem(X, y.astype(float), np.full(100, 0.01), np.ones(3))
    far = np.array([300.0, -500.0, 200.0])
    problem.update_curvature(X @ far)
    found = logistic._minimise(problem, far, 1e-3, lambda: None)
    want = BatchUniLog(lam=1e-3).fit(X, y).coef_[0]
    assert_close(found, want, 1e-6)


@pytest.mark.parametrize("weights", list(WEIGHTS))
def test_tiny_features_matter_beside_the_intercept(weights):
    """As features go to zero, weights become proportional to them."""
    X, y = examples(60, 4)
    learner = BatchUniLog(weights=weights, intercept=True)
    grid = {"lam": np.array([2.0**-10, 1.0, 2.0**10])}
    tiny, small = (learner.fit_grid(scale * X, y, grid) / scale for scale in (1e-12, 1e-6))
    assert_close(tiny, small, 1e-5)
    assert (np.abs(small).max(axis=0)[:-1] > 100 * np.abs(small).max(axis=0)[1:]).all()


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("column", [lambda u: 1e8 * u, lambda u: 1.6e12 + 1e9 * u, lambda u: 1e-9 * u])
def test_features_of_very_different_sizes_are_all_solved(form, intercept, column):
    """The derivative by each feature is zero, relative to its own size: ids and timestamps beside normal columns."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.standard_normal((300, 3)), column(rng.uniform(size=300))])
    y = np.where(X[:, 0] + rng.standard_normal(300) > 0, 1, -1)
    lam = 2.0**-7
    model = BatchUniLog(lam=lam, intercept=intercept).fit(form(X), y)
    w, scores = model.coef_[0], X @ model.coef_[0] + model.intercept_[0] * intercept
    derivative = lam * w - X.T @ (y / (1.0 + np.exp(y * scores))) / len(y)
    assert np.abs(derivative / np.abs(X).max(axis=0)).max() < 1e-8


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("weights", ["none", "balanced"])
@pytest.mark.parametrize("column", [lambda u: -1e8 * np.log(u), lambda u: 1.6e9 + 1e6 * u[:, :1]])
def test_an_intercept_beside_large_features_only_is_solved(form, weights, column):
    rng = np.random.default_rng(1)
    X = column(rng.random((300, 5)))
    y = np.where(rng.random(300) < 0.5, 1, -1)
    grid = {"lam": 2.0 ** np.arange(-10, 11, 5)}
    assert np.isfinite(BatchUniLog(intercept=True, weights=weights).fit_grid(form(X), y, grid)).all()
    for lam in grid["lam"]:
        model = BatchUniLog(lam=lam, intercept=True, weights=weights).fit(form(X), y)
        scores = X @ model.coef_[0] + model.intercept_[0]
        pull = WEIGHTS[weights](y) * y / (1.0 + np.exp(y * scores)) / len(y)
        assert np.abs((lam * model.coef_[0] - X.T @ pull) / np.abs(X).max(axis=0)).max() < 1e-8
        assert abs(pull.sum()) < 1e-8


def test_large_features_that_depend_on_each_other_raise_no_error_of_linear_algebra():
    rng = np.random.default_rng(1)
    X = 1e8 * rng.exponential(size=(400, 3)) @ rng.random((3, 600))
    y = np.where(rng.random(400) < 0.5, 1, -1)
    BatchUniLog(intercept=True).fit_grid(X, y, {"lam": 2.0 ** np.arange(-10, 11, 5)})


def test_the_path_goes_on_from_the_last_weights_that_were_found(monkeypatch):
    X, y = examples(100, 4)
    want = BatchUniLog().fit_grid(X, y, {"lam": LAMBDAS})
    minimise = logistic._minimise
    lost = lambda problem, w, lam, tick: np.full_like(w, np.nan) if lam == 1.0 else minimise(problem, w, lam, tick)  # noqa: E731
    monkeypatch.setattr(logistic, "_minimise", lost)
    found = BatchUniLog().fit_grid(X, y, {"lam": LAMBDAS})
    assert np.isnan(found[:, LAMBDAS == 1.0]).all()
    assert_close(found[:, LAMBDAS != 1.0], want[:, LAMBDAS != 1.0], 1e-6)
