"""OPAUC with frequent directions against Algorithm 2, the authors' numbers and Liberty's bound."""

import functools
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.examples import ARRANGEMENTS, assert_close, examples, fit_grid_by_products, some_settings
from reference.frequent_directions import insert, opauc_fd
from reference.peers import fixture_runs, golden_runs
from scipy import sparse

from opauc_bench.learners import OPAUC, OPAUCFD, DivergenceError, stream_learner
from opauc_bench.learners.opauc.frequent_directions import shrinks_by
from opauc_bench.learners.opauc.second_moments import second_moment_sketch

VARIANTS = ("paper", "released")
FORMS = pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])


def by_the_paper(X, y, grid, tau, variant="paper"):
    X = X.toarray() if sparse.issparse(X) else X
    return np.column_stack([opauc_fd(X, y, eta, lam, tau, variant) for eta, lam in zip(grid["eta"], grid["lam"])])


def grid_for(n_features, n_settings):
    """Settings with stable step sizes, one in three of them with eta lam = 1 exactly."""
    eta = 2.0 ** np.linspace(-6, -2, n_settings).round() / 2.0 ** np.ceil(np.log2(n_features))
    lam = np.resize([2.0**-10, 0.0, 0.3], n_settings)
    return {"eta": eta, "lam": np.where(lam == 0.0, 1 / eta, lam)}


def sparse_rows(n, d, k=12, seed=0):
    """CSR rows of unit length with about k features, the first ones often and the last ones hardly ever."""
    rng = np.random.default_rng(seed)
    features = [np.unique(row) for row in (d ** rng.random((n, k)) - 1).astype(int)]
    features[3] = features[-1] = features[3][:0]  # empty rows
    indptr = np.cumsum([0, *map(len, features)])
    data = rng.standard_normal(indptr[-1]) / np.sqrt(np.repeat(np.maximum(np.diff(indptr), 1), np.diff(indptr)))
    X = sparse.csr_matrix((data, np.concatenate(features), indptr), shape=(n, d))
    return X, np.where(X @ rng.standard_normal(d) + 0.3 * rng.standard_normal(n) > 0.2, 1, -1)


@FORMS
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
@pytest.mark.parametrize(("d", "tau"), [(1, 2), (3, 50), (5, 3), (17, 5), (33, 10)])
def test_grid_pass_equals_the_papers_algorithm(d, tau, arrangement, variant, form):
    X, y = examples(350, d, arrangement)
    coef = OPAUCFD(tau=tau, variant=variant).fit_grid(form(X), y, grid_for(d, 11))
    assert_close(coef[:, ::2], expected_weights(d, tau, arrangement, variant))


@pytest.fixture
def blocks(monkeypatch):
    """Let dense rows be taken in blocks, whatever their number of features."""
    monkeypatch.setattr(stream_learner, "_MANY", 0)


@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
@pytest.mark.parametrize(("d", "tau"), [(3, 50), (17, 5), (33, 10)])
def test_blocks_of_dense_rows(d, tau, arrangement, blocks):
    X, y = examples(350, d, arrangement)
    grid, learner = grid_for(d, 11), OPAUCFD(tau=tau)
    coef = learner.fit_grid(X, y, grid)
    assert_close(coef[:, ::2], expected_weights(d, tau, arrangement, "paper"))
    model = learner.set_params(eta=grid["eta"][3], lam=grid["lam"][3]).fit(X, y)
    assert_close(model.coef_[0], coef[:, 3])


@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
@pytest.mark.parametrize(("d", "tau"), [(3, 50), (17, 5), (33, 10)])
def test_steps_by_inner_products_equal_steps_on_features(d, tau, arrangement, monkeypatch):
    X, y = examples(350, d, arrangement)
    coef = fit_grid_by_products(OPAUCFD(tau=tau), X, y, grid_for(d, 11), monkeypatch)
    assert_close(coef[:, ::2], expected_weights(d, tau, arrangement, "paper"))


@functools.cache
def expected_weights(d, tau, arrangement, variant):
    """Weights of every second setting by the printed algorithm, for dense and sparse rows."""
    X, y = examples(350, d, arrangement)
    return by_the_paper(X, y, {axis: values[::2] for axis, values in grid_for(d, 11).items()}, tau, variant)


@FORMS
@pytest.mark.parametrize("algorithm", ["implicit", "plain"])
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("tau", [2, 3, 4, 7, 20])
def test_single_setting_equals_the_papers_algorithm(tau, variant, algorithm, form):
    X, y = examples(350, 9, "sparse")
    model = OPAUCFD(eta=0.03, lam=2.0**-4, tau=tau, variant=variant, algorithm=algorithm).fit(form(X), y)
    assert_close(model.coef_[0], opauc_fd(X, y, 0.03, 2.0**-4, tau, variant))


@pytest.mark.parametrize("n_settings", [1, 2, 7, 8, 9, 299])
def test_grids_of_any_size_equal_the_algorithm_of_the_paper(n_settings):
    X, y = examples(120, 6)
    grid = grid_for(6, n_settings)
    columns, of_these = some_settings(grid)
    assert_close(OPAUCFD(tau=4).fit_grid(X, y, grid)[:, columns], by_the_paper(X, y, of_these, 4))


@pytest.mark.parametrize("variant", VARIANTS)
def test_coordinates_agree_with_the_plain_algorithm_over_thousands_of_steps(variant):
    """Bases change many times, alpha is taken in often, and one setting forgets everything in each step."""
    X, y = sparse_rows(6000, 700)
    eta = np.array([2.0**-6, 2.0**-2, 2.0**-2, 2.0**-1, 0.3])
    lam = np.array([2.0**-10, 2.0**2, 2.0, 1.999999, 1 / 0.3 - 1e-3])
    coef = OPAUCFD(tau=10, variant=variant).fit_grid(X, y, {"eta": eta, "lam": lam})
    for column, e, r in zip(coef.T, eta, lam):
        plain = OPAUCFD(eta=e, lam=r, tau=10, variant=variant, algorithm="plain").fit(X, y).coef_[0]
        assert_close(column, plain, tolerance=1e-10)


def test_a_sketch_as_wide_as_the_features_is_exact():
    """With tau / 2 beyond the number of features nothing is ever taken off, and OPAUC itself is left."""
    X, y = examples(400, 6)
    grid = grid_for(6, 5)
    assert_close(OPAUCFD(tau=14).fit_grid(X, y, grid), OPAUC().fit_grid(X, y, grid), tolerance=1e-11)


@pytest.mark.parametrize("source", [fixture_runs, golden_runs])
def test_authors_program(source):
    """The authors' Matlab program, run on 40 rows, is the variant called released, and not the paper's."""
    runs = source("opauc_fd")
    assert len(runs) == 2
    for run in runs:
        given = {name: run[name] for name in ("eta", "lam", "tau")}
        for algorithm in ("implicit", "plain"):
            model = OPAUCFD(**given, variant="released", algorithm=algorithm).fit(run["X"], run["y"])
            assert_close(model.coef_[0], run["w"])
        assert_close(opauc_fd(run["X"], run["y"], **given, variant="released"), run["w"])
        paper = OPAUCFD(**given).fit(run["X"], run["y"]).coef_[0]
        assert np.abs(paper - run["w"]).max() > 0.01 * np.abs(run["w"]).max()


def test_released_variant_shrinks_as_the_authors_program():
    taus = range(2, 400)
    assert [shrinks_by(tau, "released") for tau in taus] == [np.ceil(0.9 * tau) for tau in taus]
    assert [shrinks_by(tau, "paper") for tau in taus] == [np.floor(tau / 2) for tau in taus]


# ---------------------------------------------------------------------- rows that are hard on a sketch


@FORMS
@pytest.mark.parametrize("algorithm", ["implicit", "plain"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_equal_rows_and_empty_rows(variant, algorithm, form):
    """tau equal rows have one direction: with tau < 4 the paper's variant takes all of it off."""
    rng = np.random.default_rng(0)
    X = np.repeat(rng.standard_normal((4, 8)), 40, axis=0)
    X[::7] = 0.0
    y = np.tile([1, -1, -1], 54)[:160]
    for tau in (2, 3, 4, 5, 8, 30):
        model = OPAUCFD(eta=0.02, lam=0.5, tau=tau, variant=variant, algorithm=algorithm)
        assert_close(model.fit(form(X), y).coef_[0], opauc_fd(X, y, 0.02, 0.5, tau, variant), tolerance=1e-9)


def test_blocks_with_equal_rows_and_empty_rows(blocks):
    test_equal_rows_and_empty_rows("paper", "implicit", np.asarray)


@pytest.mark.parametrize("algorithm", ["implicit", "plain"])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_rows_whose_squared_length_underflows_are_empty(algorithm, form):
    X = np.array([[1e-170, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 1], [1e-180, 0, 1e-200], [0, 0, 1.0]])
    y = np.array([-1, -1, 1, -1, 1, 1], dtype=np.int8)
    grid = {"eta": np.array([0.25]), "lam": np.array([0.0])}
    found = OPAUCFD(tau=50, algorithm=algorithm).fit_grid(form(X), y, grid)
    np.testing.assert_allclose(found, OPAUC().fit_grid(X, y, grid), rtol=0, atol=1e-14)


@FORMS
def test_fewer_rows_than_columns(form):
    X, y = examples(9, 30)
    grid = grid_for(30, 4)
    assert_close(OPAUCFD().fit_grid(form(X), y, grid), OPAUC().fit_grid(X, y, grid))


# ---------------------------------------------------------------------- the pass


@FORMS
@pytest.mark.parametrize("algorithm", ["implicit", "plain"])
def test_pieces_of_any_length_give_the_same_bits(algorithm, form):
    X, y = sparse_rows(700, 120)
    X = form(X.toarray())
    whole = OPAUCFD(eta=0.1, tau=6, algorithm=algorithm).fit(X, y).coef_
    for length in (1, 7, 64, 333):
        model = OPAUCFD(eta=0.1, tau=6, algorithm=algorithm)
        for start in range(0, len(y), length):
            model.partial_fit(X[start : start + length], y[start : start + length], classes=[-1, 1])
        np.testing.assert_array_equal(model.coef_, whole)


@FORMS
def test_chunks_of_any_length_give_the_same_bits(form):
    X, y = sparse_rows(700, 120)
    X, grid = form(X.toarray()), {"eta": np.full(9, 0.1), "lam": np.geomspace(1e-3, 10.0, 9)}
    slow = OPAUCFD(tau=6)
    slow.seconds_per_row = lambda *_: 1.0
    np.testing.assert_array_equal(slow.fit_grid(X, y, grid), OPAUCFD(tau=6).fit_grid(X, y, grid))


def test_dense_and_sparse_rows_may_alternate():
    X, y = sparse_rows(400, 50)
    whole = OPAUCFD(eta=0.1, tau=6).fit(X, y).coef_[0]
    for first, second in ((np.asarray, sparse.csr_matrix), (sparse.csr_matrix, np.asarray)):
        model = OPAUCFD(eta=0.1, tau=6).partial_fit(first(X[:150].toarray()), y[:150])
        model.partial_fit(second(X[150:].toarray()), y[150:])
        assert_close(model.coef_[0], whole)


@FORMS
def test_weights_at_some_features(form):
    X, y = sparse_rows(300, 90)
    learner, grid = OPAUCFD(tau=6), grid_for(90, 3)
    for n in (3, 50, 300):  # bases change after 64 rows
        state = learner._begin(90, grid)
        learner._consume(state, form(X[:n].toarray()), y[:n].astype(np.int8))
        for features in ([5, 0, 5, 89], []):
            features = np.array(features, dtype=int)
            np.testing.assert_allclose(state.coef_at(features), state.coef(90)[features], rtol=1e-12, atol=1e-15)


@FORMS
def test_features_that_come_midway_give_equal_weights(form):
    X, y = sparse_rows(900, 300)
    X = X.toarray()
    X[:400, 100:] = 0.0
    learner, grid = OPAUCFD(tau=6), grid_for(300, 3)
    for n in (0, 20, 400):
        state = learner._begin(100, grid)
        learner._consume(state, form(X[:n, :100].copy()), y[:n].astype(np.int8))
        state = state.widened(learner._begin(300, grid))
        learner._consume(state, form(X[n:]), y[n:].astype(np.int8))
        assert_close(state.coef(300), by_the_paper(X, y, grid, 6), tolerance=1e-11)


def test_finite_detects_overflow_without_forming_weights():
    X, y = sparse_rows(2000, 20_000, k=20)
    grid = {"eta": np.resize([0.1, 4.0, 1e200], 60), "lam": np.full(60, 2.0)}
    learner = OPAUCFD(tau=6)
    coef = learner.fit_grid(X, y, grid)
    assert np.isfinite(coef[:, ::3]).all()
    assert np.isnan(coef[:, 1::3]).all()
    assert np.isnan(coef[:, 2::3]).all()
    assert_close(coef[:, ::3], learner.fit_grid(X, y, {"eta": [0.1] * 20, "lam": [2.0] * 20}))
    state = learner._begin(20_000, {axis: values[::3] for axis, values in grid.items()})
    learner._consume(state, X[:50], y[:50].astype(np.int8))
    tracemalloc.start()
    assert state.finite(20_000).all()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.5 * state.W.nbytes


@pytest.mark.parametrize("n_settings", [1, 40])
@pytest.mark.parametrize("algorithm", ["implicit", "plain"])
def test_memory_is_predicted(algorithm, n_settings):
    d = 20_000
    X, y = sparse_rows(700, d, k=60)
    learner = OPAUCFD(tau=20, algorithm=algorithm)
    grid = {"eta": np.full(n_settings, 0.01)}
    learner.fit_grid(X, y, grid)  # what is compiled stays
    tracemalloc.start()
    weights = learner.fit_grid(X, y, grid)
    used = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert weights.shape == (d, n_settings)
    assert used / 1.5 < learner.memory_bytes(d, n_settings) < 1.5 * used


@FORMS
@pytest.mark.parametrize("algorithm", ["implicit", "plain"])
def test_rows_whose_squares_overflow_diverge(algorithm, form):
    X, y = examples(60, 4)
    with pytest.raises(DivergenceError, match="OPAUCFD overflowed within 60 rows"):
        OPAUCFD(tau=3, algorithm=algorithm).fit(form(1e170 * X), y)


# ---------------------------------------------------------------------- invariants

SEEDS = st.integers(0, 2**32 - 1)


def sketch(X, tau, variant="paper"):
    return second_moment_sketch(OPAUCFD(tau=tau, variant=variant), X)


@settings(max_examples=40, derandomize=True)
@given(seed=SEEDS, d=st.integers(1, 12), tau=st.integers(2, 9), variant=st.sampled_from(VARIANTS))
def test_the_sketch_keeps_liberty_s_bound(seed, d, tau, variant):
    """0 <= X X' - Z Z' in the psd order, and its spectral norm is at most tr(X X') / k; X has the rows as columns.

    Proof. A shrink takes U min(Sigma^2, delta) U' off Z Z', with delta = sigma_k^2. That is psd, its spectral norm is
    at most delta, and its trace at least k delta, because sigma_1, ..., sigma_k are not below sigma_k. Rows are only
    added in between. So X X' - Z Z' is the sum of what was taken off: it is psd, its spectral norm is at most the sum
    of the deltas, and k times that sum is at most its trace, tr(X X') - tr(Z Z') <= tr(X X').

    With k = floor(tau / 2) that is Lemma 1 of the paper, 2 / tau of the trace, where tau is even. For odd tau it is
    2 / (tau - 1), and Lemma 1 does not hold: see the next test.
    """
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rng.integers(1, 60), d)) * rng.choice([0.01, 1.0, 5.0], d)
    X[rng.random(X.shape) < 0.3] = 0.0
    Z, of_csr = sketch(X, tau, variant=variant), sketch(sparse.csr_matrix(X), tau, variant=variant)
    missing = X.T @ X - Z @ Z.T
    values, trace = np.linalg.eigvalsh(missing), (X**2).sum()
    k = shrinks_by(tau, variant)
    assert Z.shape[1] < tau
    assert values.min() >= -1e-13 * trace
    assert values.max() <= (1 / k + 1e-13) * trace
    if variant == "paper" and tau % 2 == 0:
        assert values.max() <= (2 / tau + 1e-13) * trace
    dense = np.zeros((d, tau))
    for x in X:
        dense = insert(dense, x, variant)
    np.testing.assert_allclose(Z @ Z.T, dense @ dense.T, rtol=0, atol=1e-13 * trace)
    np.testing.assert_allclose(of_csr @ of_csr.T, Z @ Z.T, rtol=0, atol=1e-13 * trace)


def test_lemma_1_needs_an_even_number_of_columns():
    """Three equal rows and tau = 3: everything is taken off, which is all of the trace and not two thirds of it."""
    X = np.ones((3, 4))
    assert not sketch(X, 3).any()
    assert np.linalg.norm(X.T @ X, 2) > 2 / 3 * (X**2).sum()


def test_the_sketch_of_many_rows():
    """Bases change on the way."""
    X = sparse_rows(3000, 300)[0]
    for rows in (X, X.toarray()):
        Z = sketch(rows, 12)
        dense = np.zeros((300, 12))
        for x in X.toarray():
            dense = insert(dense, x)
        assert_close(Z @ Z.T, dense @ dense.T)


@settings(max_examples=10, derandomize=True)
@given(seed=SEEDS, tau=st.integers(2, 12), limit=st.integers(1, 40), variant=st.sampled_from(VARIANTS))
def test_time_of_base_changes_does_not_matter(seed, tau, limit, variant):
    """However few rows may wait, weights are those of the printed algorithm."""
    X, y = sparse_rows(120, 25, k=5, seed=seed)
    learner, grid = OPAUCFD(tau=tau, variant=variant), grid_for(4, 4)
    for form in (X, X.toarray()):
        state = learner._begin(25, grid)
        state.shared = state.shared._replace(rows=state.shared.rows[:, :limit].copy())
        learner._consume(state, form, y.astype(np.int8))
        assert_close(state.coef(25), by_the_paper(X, y, grid, tau, variant), tolerance=1e-11)
