"""Batch least squares: closed forms against explicit pairs and examples."""

import numpy as np
import pytest
from reference.batch import pairs, pairwise_squared_minimiser, slopes, univariate_objective
from reference.examples import assert_close, examples, solution_tolerance
from scipy import sparse
from sklearn import clone

from opauc_bench.learners import LSSVM, BatchUniSqu

LAMBDAS = 2.0 ** np.arange(-10, 11, 4)


@pytest.mark.parametrize("arrangement", ["mixed", "sparse"])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("shape", [(40, 5), (30, 60)], ids=["tall", "wide"])
def test_ls_svm_is_least_squares_over_all_pairs(shape, form, arrangement):
    X, y = examples(*shape, arrangement)
    coef = LSSVM().fit_grid(form(X), y, {"lam": LAMBDAS})
    for lam, w in zip(LAMBDAS, coef.T):
        assert_close(w, pairwise_squared_minimiser(X, y, lam), 1e-11)


@pytest.mark.parametrize("loss_scale", ["mean", "sum"])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weights", ["none", "balanced", "prior"])
@pytest.mark.parametrize("shape", [(40, 5), (20, 30)], ids=["tall", "wide"])
def test_uni_squ_is_where_the_objective_is_flat(shape, weights, intercept, loss_scale):
    X, y = examples(*shape)
    model = BatchUniSqu(lam=0.3, weights=weights, intercept=intercept, loss_scale=loss_scale).fit(X, y)

    def objective(point):
        b = point[-1] if intercept else 0.0
        return univariate_objective("squared", point[: X.shape[1]], b, X, y, 0.3, weights, loss_scale)

    found = np.append(model.coef_[0], model.intercept_ if intercept else [])
    scale = np.abs(slopes(objective, np.zeros(len(found)))).max()
    assert np.abs(slopes(objective, found)).max() < 1e-7 * scale


@pytest.mark.parametrize("shape", [(300, 7), (20, 50)], ids=["tall", "wide"])
def test_balanced_uni_squ_with_intercept_has_the_direction_of_ls_svm(shape):
    """Both solve a system A w = v, where A is the Hessian over pairs except for a share of the rank-one term.

    Where there are more features than rows, they solve it through the Gram matrix, w = (v - Z'a) / lam. The difference
    is rounded by eps |v| and divided by lam, while |w| is at least |v| / |A|: that is eps times the condition number
    once more.
    """
    X, y = examples(*shape)
    pairwise = LSSVM().fit_grid(X, y, {"lam": 2 * LAMBDAS})
    univariate = BatchUniSqu(weights="balanced", intercept=True).fit_grid(X, y, {"lam": LAMBDAS})
    Z = pairs(X, y)
    for lam, one, other in zip(2 * LAMBDAS, pairwise.T, univariate.T):
        hessian = lam * np.eye(X.shape[1]) + Z.T @ Z / len(Z)
        off = np.linalg.norm(other / np.linalg.norm(other) - one / np.linalg.norm(one))
        assert off < solution_tolerance(hessian, max(X.shape)), f"lam = {lam:g}"


def test_other_weights_and_no_intercept_have_other_directions():
    """The classes differ in their variances, and zero lies outside of them."""
    X, y = examples(300, 7)
    X[y > 0, :3] *= 3
    X += 0.5
    direction = LSSVM(lam=0.2).fit(X, y).coef_[0]
    for parameters in ({"weights": "balanced"}, {"weights": "none", "intercept": True}):
        other = BatchUniSqu(lam=0.1, **parameters).fit(X, y).coef_[0]
        cosine = direction @ other / np.linalg.norm(direction) / np.linalg.norm(other)
        assert 0.3 < cosine < 0.999


def test_a_trained_intercept_is_used_by_predict():
    X, y = examples(300, 4)
    model = BatchUniSqu(lam=1e-3, intercept=True).fit(X + 0.5, y)
    assert np.mean(model.predict(X + 0.5) == y) > 0.6
    scores = model.decision_function(X + 0.5)
    assert abs(np.mean(scores - y)) < 1e-12


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("sparsely", [False, True])
def test_uni_squ_has_all_digits_for_small_lambdas_of_wide_rows(intercept, sparsely):
    X, y = examples(40, 200)
    centred = X - X.mean(axis=0) if intercept else X
    U, s, Vt = np.linalg.svd(centred, full_matrices=False)
    lam = np.array([2.0**-10, 2.0**-20, 1e-9, 1e-12])
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = Vt.T @ (((s / len(y)) * (U.T @ y))[:, None] / (s[:, None] ** 2 / len(y) + lam))
    learner = BatchUniSqu(weights="none", intercept=intercept)
    found = learner.fit_grid(sparse.csr_matrix(X) if sparsely else X, y, {"lam": lam})
    largest = np.abs(expected).max(axis=0)
    # The condition number of ZZ' + lam I, which has a null vector where rows are centred.
    assert (np.abs(found - expected).max(axis=0) < (1e-12 + 1e-15 / lam * intercept) * largest).all()


@pytest.mark.parametrize("size", [1e3, 1e9, 1e12])
def test_small_features_keep_their_digits_beside_a_large_one(size):
    """By the definition, in features of one size: an id or a timestamp beside standard normal columns."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.standard_normal((300, 3)), size * rng.uniform(1.0, 1.02, 300)])
    y = np.where(X[:, 0] + rng.standard_normal(300) > 0, 1, -1)
    scales = X.std(axis=0)
    positive, negative = X[y > 0] / scales, X[y < 0] / scales
    m = positive.mean(axis=0) - negative.mean(axis=0)
    covariances = np.cov(positive, rowvar=False, bias=True) + np.cov(negative, rowvar=False, bias=True)
    lam = 2.0 ** np.array([-10, -3, 2])
    models = LSSVM().fit_grid(X, y, {"lam": lam})
    for k, one in enumerate(lam):
        u = np.linalg.solve(np.diag(one / scales**2) + covariances, m)
        np.testing.assert_allclose(models[:, k] * scales, u / (1.0 + m @ u), rtol=1e-6)


@pytest.mark.parametrize("learner", [LSSVM(lam=2**-10), BatchUniSqu(lam=2**-10, intercept=True)])
@pytest.mark.parametrize("columns", ["twice", "with their sum", "with its complement"])
def test_collinear_large_features_beside_a_small_one_have_finite_weights(learner, columns):
    """The regularisation is lost beside them, and the matrix has no Cholesky factors; the direction is that without."""
    rng = np.random.default_rng(0)
    large, small = 1e8 * rng.exponential(size=(400, 2)), rng.standard_normal(400)
    further = {"twice": large[:, 0], "with their sum": large.sum(axis=1), "with its complement": 1e8 - large[:, 0]}
    y = np.where(large[:, 0] / 1e8 + small + rng.standard_normal(400) > 1, 1, -1)
    X = np.column_stack([large, small > 0])
    alone, collinear = (clone(learner).fit(each, y) for each in (X, np.column_stack([X, further[columns]])))
    scores = alone.decision_function(X)
    np.testing.assert_allclose(
        collinear.decision_function(np.column_stack([X, further[columns]])), scores, rtol=0, atol=1e-3 * np.ptp(scores)
    )
