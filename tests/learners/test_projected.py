"""OPAUC after a projection: the projections against scikit-learn, and what follows against plain OPAUC."""

import pickle
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.examples import assert_close, examples
from reference.opauc import opauc
from scipy import sparse, stats
from sklearn.decomposition import PCA
from sklearn.metrics import roc_auc_score
from sklearn.random_projection import GaussianRandomProjection

from opauc_bench.learners import OPAUC, OPAUCPCA, OPAUCRP, OPAUCFeat
from opauc_bench.learners.opauc.principal_components import principal_components
from opauc_bench.testing.contract import check_learner

ALL = pytest.mark.parametrize("Learner", [OPAUCFeat, OPAUCRP, OPAUCPCA])
DRAWN = pytest.mark.parametrize("Learner", [OPAUCFeat, OPAUCRP])
GRID = {"eta": np.array([0.002, 0.005, 0.008]), "lam": np.array([0.01, 0.5, 2.0])}


def matrix_of(Learner, n_features, n_components, seed=0):
    """P, of the learners that draw it."""
    projection = Learner(n_components=n_components, random_state=seed)._projection(n_features)
    return projection.back(np.eye(n_components))


def span(P):
    """The projector onto the span of orthonormal columns."""
    return P @ P.T


def decaying(n, d, seed=0):
    """Rows off the origin whose variances decay."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)) * np.geomspace(1, 0.01, d) + 3 * rng.random(d)


# ---------------------------------------------------------------------- project, train, map back


@DRAWN
def test_training_equals_opauc_on_projected_rows(Learner):
    X, y = examples(250, 30, "sparse")
    P = matrix_of(Learner, 30, 7)
    want = np.column_stack([P @ opauc(X @ P, y, eta, lam) for eta, lam in zip(GRID["eta"], GRID["lam"])])
    learner = Learner(n_components=7, random_state=0)
    assert_close(learner.fit_grid(X, y, GRID), want)
    assert_close(learner.fit_grid(sparse.csr_matrix(X), y, GRID), want)
    alone = Learner(eta=GRID["eta"][1], lam=GRID["lam"][1], n_components=7, random_state=0)
    assert_close(alone.fit(X, y).coef_[0], want[:, 1])


def test_training_equals_opauc_on_principal_components():
    X, y = examples(250, 30)
    order = np.random.default_rng(0).permutation(250)[:200]
    pca = PCA(7).fit(X[order])
    Z = pca.transform(X[order])
    want = [pca.components_.T @ opauc(Z, y[order], eta, lam) for eta, lam in zip(GRID["eta"], GRID["lam"])]
    for rows in (X, sparse.csr_matrix(X)):
        assert_close(OPAUCPCA(n_components=7).fit_grid(rows, y, GRID, order=order), np.column_stack(want), 1e-10)


@ALL
@pytest.mark.parametrize("n_components", [9, 10, 1000])
def test_with_room_for_all_features_equals_opauc(n_components, Learner):
    X, y = examples(200, 9, "sparse")
    tolerance = 1e-10 if Learner is OPAUCPCA else 0.0
    got = Learner(n_components=n_components, random_state=3).fit_grid(X, y, GRID)
    np.testing.assert_allclose(got, OPAUC().fit_grid(X, y, GRID), rtol=0, atol=tolerance)


def test_components_of_fewer_rows_than_dimensions_lose_nothing():
    X, y = examples(40, 100)
    assert_close(OPAUCPCA().fit_grid(X, y, GRID), OPAUC().fit_grid(X, y, GRID), 1e-10)


@DRAWN
def test_pieces_of_any_length_give_equal_bits(Learner):
    X, y = examples(120, 1000, "sparse")
    X[:, ::2] = 0.0
    X[::11] = 0.0
    X = sparse.csr_matrix(X)
    make = partial(Learner, n_components=12, random_state=5, eta=2**-9)
    whole = make().fit(X, y)
    for cuts in (range(121), [0, 50, 119, 120]):
        pieces = make()
        for start, stop in pairwise(cuts):
            pieces.partial_fit(X[start:stop], y[start:stop], classes=[-1, 1])
            if start == 50:
                pieces = pickle.loads(pickle.dumps(pieces))
        np.testing.assert_array_equal(pieces.coef_, whole.coef_)


@ALL
def test_seeds(Learner):
    X, y = examples(100, 40)
    coef = [Learner(n_components=5, random_state=seed).fit(X, y).coef_ for seed in (1, 1, 2)]
    np.testing.assert_array_equal(coef[0], coef[1])
    assert Learner is OPAUCPCA or np.abs(coef[0] - coef[2]).max() > 0.01 * np.abs(coef[0]).max()


@ALL
@pytest.mark.parametrize("arrangement", ["late", "sparse"])
def test_rows_with_few_values(arrangement, Learner):
    X, y = examples(150, 20, arrangement)
    X[:7] = 0.0
    X[:, 4] = 0.0
    want = Learner(n_components=6, random_state=0).fit(X, y)
    assert np.isfinite(want.coef_).all()
    assert_close(Learner(n_components=6, random_state=0).fit(sparse.csr_matrix(X), y).coef_, want.coef_, 1e-10)
    single = Learner(n_components=1, random_state=0).fit(X.astype(np.float32), y)
    assert np.isfinite(single.coef_).all()
    nothing = Learner(n_components=6, random_state=0).fit(np.zeros((4, 20)), [1, -1, 1, -1])
    assert not nothing.coef_.any()


@pytest.mark.parametrize("Learner", [OPAUCFeat, OPAUCRP])
def test_the_contract_holds_but_for_features_of_zeros(Learner):
    """One more feature is another draw."""
    results = check_learner(partial(Learner, n_components=4))
    assert [result.name for result in results if not result.passed] == ["constant features"]


def test_the_contract_of_components():
    results = check_learner(partial(OPAUCPCA, n_components=4))
    assert not [f"{result.name}: {result.detail}" for result in results if not result.passed]


def test_components_need_all_rows():
    assert not hasattr(OPAUCPCA(), "partial_fit")
    assert not hasattr(OPAUCPCA().fit(*examples(30, 3)), "_basis")


# ---------------------------------------------------------------------- the projections


@settings(max_examples=20, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), d=st.integers(2, 60))
def test_selected_features_are_distinct_and_others_get_no_weight(seed, d):
    P = matrix_of(OPAUCFeat, d, d // 2, seed)
    assert set(np.unique(P)) == {0.0, 1.0}
    assert (P.sum(axis=0) == 1).all()
    assert P.sum(axis=1).max() == 1


def test_every_feature_is_as_likely_to_be_selected():
    times = sum(matrix_of(OPAUCFeat, 20, 5, seed).sum(axis=1) for seed in range(2000))
    assert stats.chisquare(times).pvalue > 1e-3


def test_gaussian_entries_are_distributed_as_scikit_learns():
    d, p = 400, 50
    got = matrix_of(OPAUCRP, d, p)
    expected = GaussianRandomProjection(p, random_state=0).fit(np.zeros((1, d))).components_.T
    assert got.shape == expected.shape
    assert stats.ks_2samp(got.ravel(), expected.ravel()).pvalue > 1e-3
    assert stats.kstest(np.sqrt(p) * got.ravel(), "norm").pvalue > 1e-3
    correlations = np.corrcoef(got)[np.triu_indices(d, 1)]
    assert np.abs(correlations).max() < 5.5 / np.sqrt(p)
    assert abs(correlations.mean()) < 0.005


def test_a_row_of_the_random_projection_has_a_generator_of_its_own():
    d, p = 70_000, 33
    projection = OPAUCRP(n_components=p, random_state=3)._projection(d)
    features = np.array([0, 1, 2, 69_999, 40, 40])
    seed = int(np.random.default_rng(3).integers(2**63))
    generators = [np.random.Generator(np.random.Philox(key=[seed, feature])) for feature in features]
    expected = np.array([generator.standard_normal(p) for generator in generators]) / np.sqrt(p)
    np.testing.assert_array_equal(projection.rows(features), expected)


def test_components_cost_no_more_than_rows_can_span():
    most, fewer = OPAUCPCA(n_components=1000), OPAUCPCA(n_components=100)
    assert most.cost(100, 5000, 5000.0, 10) == fewer.cost(100, 5000, 5000.0, 10)
    assert most.cost(2000, 5000, 5000.0, 10)[0] > fewer.cost(2000, 5000, 5000.0, 10)[0]


def test_random_projection_keeps_lengths_and_ranks_as_scikit_learns():
    X, y = examples(400, 1500)
    P = matrix_of(OPAUCRP, 1500, 200)
    ratio = np.linalg.norm(X @ P, axis=1) / np.linalg.norm(X, axis=1)
    assert abs(ratio.mean() - 1) < 0.02
    assert ratio.std() < 1.5 / np.sqrt(2 * 200)
    train, test = slice(None, 300), slice(300, None)
    got = OPAUCRP(eta=2**-9, n_components=200, random_state=0).fit(X[train], y[train]).decision_function(X[test])
    Z = GaussianRandomProjection(200, random_state=0).fit_transform(X)
    expected = OPAUC(eta=2**-9).fit(Z[train], y[train]).decision_function(Z[test])
    assert abs(roc_auc_score(y[test], got) - roc_auc_score(y[test], expected)) < 0.06


@pytest.mark.parametrize(("n", "d", "p"), [(300, 20, 5), (300, 20, 20), (40, 120, 7), (40, 120, 60), (2, 9, 3)])
def test_exact_components_are_scikit_learns(n, d, p):
    X = decaying(n, d)
    for rows in (X, sparse.csr_matrix(X)):
        P = principal_components(rows, np.arange(n), p, 0)
        assert P.shape[1] == min(p, d, n - 1)
        np.testing.assert_allclose(P.T @ P, np.eye(P.shape[1]), atol=1e-11)
        want = PCA(min(p, d, n)).fit(X).components_[: P.shape[1]].T
        np.testing.assert_allclose(span(P), span(want), atol=1e-10)


@pytest.mark.parametrize(("n", "d"), [(300, 200), (200, 300)])
def test_approximate_components_explain_what_scikit_learns_do(n, d, monkeypatch):
    monkeypatch.setattr("opauc_bench.learners.opauc.principal_components._EXACT", 50)
    X = decaying(n, d)
    centred = X - X.mean(axis=0)
    _, lengths, vectors = np.linalg.svd(centred, full_matrices=False)
    best = (lengths[:10] ** 2).sum()
    expected = PCA(10, svd_solver="randomized", random_state=0).fit(X).components_.T
    for rows in (X, sparse.csr_matrix(X)):
        P = principal_components(rows, np.arange(n), 10, 0)
        np.testing.assert_allclose(P.T @ P, np.eye(10), atol=1e-10)
        explained, explained_expected = (((centred @ Q) ** 2).sum() / best for Q in (P, expected))
        assert explained > 0.999
        assert explained > explained_expected - 1e-3
        full = principal_components(rows, np.arange(n), 1000, 0)
        np.testing.assert_allclose(span(full), span(vectors[: min(n - 1, d)].T), atol=1e-8)


def test_components_of_selected_rows_read_in_chunks(monkeypatch):
    X, order = decaying(100, 12), np.random.default_rng(1).permutation(100)[:70]
    want = span(PCA(4).fit(X[order]).components_.T)
    for chunk in (1, 7, 1024):
        monkeypatch.setattr("opauc_bench.learners.opauc.principal_components._CHUNK", chunk)
        np.testing.assert_allclose(span(principal_components(X, order, 4, 0)), want, atol=1e-10)
        np.testing.assert_allclose(span(principal_components(X[:9], np.arange(9), 99, 0)).trace(), 8, atol=1e-10)


def test_rows_that_do_not_vary_have_no_components():
    assert not principal_components(np.ones((5, 3)), np.arange(5), 2, 0).any()


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize(("shape", "exact"), [((30, 5), 2048), ((8, 20), 2048), ((30, 20), 10)])
def test_variances_that_overflow_are_nan(monkeypatch, form, shape, exact):
    monkeypatch.setattr("opauc_bench.learners.opauc.principal_components._EXACT", exact)
    X, y = examples(*shape)
    coef = OPAUCPCA(random_state=0, n_components=3).fit_grid(form(1e200 * X), y, {"eta": np.array([0.01, 0.1])})
    assert np.isnan(coef).all()


def test_no_rows_at_all():
    X, y = examples(10, 4)
    for learner in (OPAUCPCA(), OPAUC()):
        assert (learner.fit_grid(X, y, {"eta": np.array([0.01])}, order=[]) == 0).all()
