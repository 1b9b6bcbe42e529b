"""RankSVM with the squared hinge loss: against explicit pairs, L-BFGS, liblinear, and its own guarantee."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.batch import pairs, pairwise_squared_hinge, pairwise_squared_hinge_minimiser
from reference.examples import assert_close, examples
from scipy import sparse
from sklearn.svm import LinearSVC

from opauc_bench.learners import DivergenceError, RankSVML2
from opauc_bench.learners.batch import rank_svm
from opauc_bench.learners.batch.rank_svm import ActivePairs, squared_hinge_path

LAMBDAS = 2.0 ** np.arange(-12, 13, 3)
SCORES = st.lists(st.tuples(st.integers(-8, 8).map(lambda k: k / 4), st.booleans()), min_size=2, max_size=12)


def laplacian(scores, y):
    """The graph of the pairs with a loss, and the sum of their losses, pair by pair."""
    D, total = np.zeros((len(y), len(y))), 0.0
    for i in np.flatnonzero(y > 0):
        for j in np.flatnonzero(y < 0):
            loss = max(0.0, 1.0 - scores[i] + scores[j])
            total += loss**2
            if loss > 0.0:
                edge = np.zeros(len(y))
                edge[i], edge[j] = 1.0, -1.0
                D += np.outer(edge, edge)
    return D, total


@given(SCORES, st.integers(0, 2**32 - 1))
def test_active_pairs_are_those_with_a_loss(rows, seed):
    """Scores are multiples of 1/4: many ties, and many margins of exactly 1, which may count as active or not."""
    scores = np.array([score for score, _ in rows])
    y = np.array([1.0 if positive else -1.0 for _, positive in rows])
    y[:2] = 1.0, -1.0
    found, (D, total) = ActivePairs(scores, y), laplacian(scores, y)
    np.testing.assert_allclose(found.times(found.shifted), D @ found.shifted, atol=1e-12)
    np.testing.assert_allclose(found.shifted @ found.times(found.shifted), total, atol=1e-11)
    distinct, z = np.random.default_rng(seed).standard_normal((2, len(y)))
    np.testing.assert_allclose(ActivePairs(distinct, y).times(z), laplacian(distinct, y)[0] @ z, atol=1e-12)
    X = np.random.default_rng(seed).integers(-1, 2, (len(y), 3)) * 1.5
    for form in (X, sparse.csr_array(X)):
        expected = X.T @ laplacian(distinct, y)[0] @ X
        np.testing.assert_allclose(ActivePairs(distinct, y).quadratic_form(form), expected, atol=1e-11)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize(("n_samples", "n_features"), [(60, 4), (30, 50)])
def test_gap_beside_l_bfgs_on_explicit_pairs(form, n_samples, n_features):
    X, y = examples(n_samples, n_features, "sparse")
    coef, Z = squared_hinge_path(form(X), y.astype(float), LAMBDAS), pairs(X, y)
    for lam, w in zip(LAMBDAS, coef.T):
        found, gradient = pairwise_squared_hinge(w, Z, lam)
        other, _ = pairwise_squared_hinge(pairwise_squared_hinge_minimiser(Z, lam), Z, lam)
        assert abs(found - other) <= 1e-6 * min(other, 1.0 - other)
        # By strong convexity; the gradient is that of every pair written out.
        assert gradient @ gradient / (2.0 * lam) <= 1e-14 * 0.5 * lam * w @ w


def test_weights_are_liblinears_on_explicit_pairs():
    X, y = examples(50, 5)
    Z, lam = pairs(X, y), 2.0**-5
    other = LinearSVC(fit_intercept=False, C=1.0 / (2 * lam * len(Z)), tol=1e-10, max_iter=100_000, dual=False)
    other.fit(np.vstack([Z, -Z]), np.repeat([1, -1], len(Z)))
    assert_close(RankSVML2(lam=lam).fit(X, y).coef_[0], other.coef_[0], 1e-6)


def test_results_do_not_depend_on_the_rest_of_the_grid():
    X, y = examples(300, 12)
    path = RankSVML2().fit_grid(X, y, {"lam": LAMBDAS})
    alone = np.hstack([RankSVML2().fit_grid(X, y, {"lam": [lam]}) for lam in LAMBDAS])
    for w, other in zip(path.T, alone.T):
        assert np.linalg.norm(w - other) <= 2e-8 * np.linalg.norm(w)


def test_separable_rows_with_hardly_any_regularisation():
    X, y = examples(200, 5)
    X = X + y[:, None] * np.array([2.0, 0, 0, 0, 0])
    lam, steps = 2.0 ** -np.arange(0, 40, 3.0), []
    coef = RankSVML2().fit_grid(X, y, {"lam": lam}, on_chunk=steps.append)
    Z = pairs(X, y)
    assert (Z @ coef[:, -1]).min() > 0.99
    assert (np.diff([pairwise_squared_hinge(w, Z, 0.0)[0] for w in coef.T]) < 0.0).all()
    assert len(steps) < 150


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_steps_by_the_matrix_are_those_by_products(form, monkeypatch):
    X, y = examples(300, 12, "sparse")
    X, found, quadratic_form, formed = form(X), {}, ActivePairs.quadratic_form, []
    monkeypatch.setattr(ActivePairs, "quadratic_form", lambda *given: formed.append(1) or quadratic_form(*given))
    for worth in (rank_svm._PRODUCTS, 1):
        assert not formed
        monkeypatch.setattr(rank_svm, "_matrix_worth", lambda X, n_few, worth=worth: worth)
        found[worth] = RankSVML2().fit_grid(X, y, {"lam": LAMBDAS})
    assert formed
    assert_close(*found.values(), 2e-8)


def test_products_go_on_where_the_matrix_has_no_factor(monkeypatch):
    X, y = examples(100, 3)
    expected = RankSVML2().fit_grid(X, y, {"lam": LAMBDAS})
    refused = []

    def refuse(matrix, **options):
        refused.append(matrix)
        raise np.linalg.LinAlgError("not positive definite")

    monkeypatch.setattr(rank_svm, "_matrix_worth", lambda X, n_few: 1)
    monkeypatch.setattr(rank_svm, "cho_factor", refuse)
    assert_close(RankSVML2().fit_grid(X, y, {"lam": LAMBDAS}), expected, 2e-8)
    assert refused


def test_full_steps_that_do_not_pay_are_shortened(monkeypatch):
    X, y = examples(100, 3)
    problem, lengths = rank_svm._Problem(X, y.astype(float)), []
    search = rank_svm._step_length
    monkeypatch.setattr(rank_svm, "_step_length", lambda *given: lengths.append(search(*given)) or lengths[-1])
    found = rank_svm._minimise(problem, np.array([3.0, -5.0, 2.0]), 1e-3, lambda: None)
    assert any(0.0 < length < 1.0 for length in lengths)
    assert_close(found, RankSVML2(lam=1e-3).fit(X, y).coef_[0], 1e-7)


@pytest.mark.parametrize("scale", [1e-12, 1e6, 1e100])
def test_scaling_rows_is_scaling_lambda(scale):
    X, y = examples(120, 6)
    scaled = RankSVML2().fit_grid(scale * X, y, {"lam": scale**2 * LAMBDAS})
    assert_close(scaled * scale, RankSVML2().fit_grid(X, y, {"lam": LAMBDAS}), 1e-7)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("scale", [1e153, 1e155, 1e200])
def test_overflow_is_nan(form, scale):
    X, y = examples(60, 3)
    assert np.isnan(RankSVML2().fit_grid(form(scale * X), y, {"lam": [2.0**-10, 1.0]})).all()
    with pytest.raises(DivergenceError, match="no finite weights"):
        RankSVML2().fit(form(scale * X), y)
