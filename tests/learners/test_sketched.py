"""OPAUC with sketched second moments against its papers' steps and the authors' numbers."""

import tracemalloc

import numpy as np
import pytest
from reference.examples import ARRANGEMENTS, assert_close, examples, fit_grid_by_products, some_settings
from reference.peers import fixture_runs, golden_runs
from reference.sketched import sketched_opauc
from scipy import sparse

from opauc_bench.learners import stream_learner
from opauc_bench.learners.opauc import random_sketch
from opauc_bench.learners.opauc.random_sketch import OPAUCh, OPAUCr

BOTH = pytest.mark.parametrize("Learner", [OPAUCr, OPAUCh])
NU = {OPAUCr: None, OPAUCh: 1.0}
TAU = 5


def draws_of(Learner, n, tau=TAU, seed=0):
    return Learner(tau=tau, random_state=seed)._begin(1, {"eta": np.ones(1), "lam": np.ones(1)}).draws.rows(n)


def by_the_papers(Learner, X, y, grid, tau=TAU, seed=0):
    X, draws = X.toarray() if sparse.issparse(X) else X, draws_of(Learner, len(y), tau, seed)
    pairs = zip(grid["eta"], grid["lam"])
    return np.column_stack([sketched_opauc(X, y, draws, eta, lam, NU[Learner]) for eta, lam in pairs])


def grid_for(n_features, n_settings):
    """Settings with stable step sizes, one in three of them with eta lam = 1."""
    eta = np.geomspace(0.02, 0.4, n_settings) / n_features
    return {
        "eta": eta,
        "lam": np.where(np.arange(n_settings) % 3 == 1, 1 / eta, np.resize([2.0**-10, 0.3], n_settings)),
    }


def sparse_rows(n, d, seed=0):
    """Rows of unit length with few features, some of them empty."""
    X, y = examples(n, d, "sparse", seed)
    X[np.random.default_rng(seed).random(n) < 0.05] = 0.0
    X[:, d // 2 :] *= np.random.default_rng(seed).random((n, d - d // 2)) < 0.1  # features that seldom come
    return X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-9), y


@BOTH
@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
@pytest.mark.parametrize("d", [1, 2, 5, 17, 33])
def test_grid_pass_equals_the_papers_algorithm(d, arrangement, Learner):
    X, y = examples(350, d, arrangement)
    grid = grid_for(d, 11)
    assert_close(Learner(tau=TAU, random_state=0).fit_grid(X, y, grid), by_the_papers(Learner, X, y, grid))


@BOTH
@pytest.mark.parametrize("algorithm", ["implicit", "plain"])
@pytest.mark.parametrize("tau", [1, 4, 7, 50])
def test_single_setting_equals_the_papers_algorithm(tau, algorithm, Learner):
    X, y = examples(350, 9, "sparse")
    grid = {"eta": [0.03], "lam": [0.5]}
    single = Learner(eta=0.03, lam=0.5, tau=tau, algorithm=algorithm, random_state=0).fit(sparse.csr_matrix(X), y)
    assert_close(single.coef_.T, by_the_papers(Learner, X, y, grid, tau))


@BOTH
@pytest.mark.parametrize("n_settings", [1, 2, 7, 8, 9, 299])
def test_grids_of_any_size_equal_the_algorithm_of_the_paper(n_settings, Learner):
    X, y = examples(120, 6)
    grid = grid_for(6, n_settings)
    columns, of_these = some_settings(grid)
    coef = Learner(tau=TAU, random_state=0).fit_grid(X, y, grid)
    assert_close(coef[:, columns], by_the_papers(Learner, X, y, of_these))


@BOTH
def test_thousands_of_rows_with_weights_that_fade(Learner):
    """1 - eta lam takes the scalar factor out of its range many times, upwards and downwards, or is 0 or nearly so."""
    X, y = sparse_rows(5000, 40)
    f = np.array([0.0, 0.0, 0.5, -0.5, 0.93, 1e-3, 2.0**-53, 1 - 2.0**-12, 0.0, 0.75, -0.9])
    eta = np.resize([0.5, 0.02, 2.0**-4], len(f))
    grid = {"eta": eta, "lam": (1 - f) / eta}
    assert np.count_nonzero(1 - grid["eta"] * grid["lam"] == 0) >= 3
    coef = Learner(tau=TAU, random_state=0).fit_grid(sparse.csr_matrix(X), y, grid)
    want = by_the_papers(Learner, X, y, grid)
    for got, column in zip(coef.T, want.T):
        assert_close(got, column, tolerance=1e-10)
    for g, column in enumerate(want.T):
        plain = Learner(tau=TAU, random_state=0, algorithm="plain")
        assert_close(plain.fit_grid(X, y, {axis: values[[g]] for axis, values in grid.items()})[:, 0], column, 1e-10)


@BOTH
def test_weights_that_grow(Learner):
    """Past the range of the scalar factor, and not yet past that of numbers."""
    X, y = examples(500, 4, "sparse")
    grid = {"eta": np.array([1.0, 1.0, 2.0**-8]), "lam": np.array([3.5, 2.0, 2.0**-4])}
    want = by_the_papers(Learner, X, y, grid)
    assert np.abs(want[:, 0]).max() > 1e160
    for got, column in zip(Learner(tau=TAU, random_state=0).fit_grid(X, y, grid).T, want.T):
        assert_close(got, column, tolerance=1e-10)


@pytest.fixture
def blocks(monkeypatch):
    """Let dense rows be taken in blocks, of 32 rows at most, whatever their number of features."""
    monkeypatch.setattr(stream_learner, "_MANY", 0)
    monkeypatch.setattr(random_sketch, "_LONGEST_BLOCK", 32)


@BOTH
@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
@pytest.mark.parametrize("d", [1, 9, 40])
def test_blocks_of_dense_rows(d, arrangement, Learner, blocks):
    X, y = examples(350, d, arrangement)
    X[200:220], X[100] = X[:20], 0.0
    grid, learner = grid_for(d, 11), Learner(tau=TAU, random_state=0)
    wanted = by_the_papers(Learner, X, y, grid)
    assert_close(learner.fit_grid(X, y, grid), wanted)
    for g in (0, 1):
        assert_close(learner.set_params(eta=grid["eta"][g], lam=grid["lam"][g]).fit(X, y).coef_.T, wanted[:, [g]])


@BOTH
def test_blocks_with_weights_that_fade_and_grow(Learner, blocks):
    X, y = sparse_rows(1500, 40)
    f = np.array([0.0, 0.5, -0.5, 1e-3, 2.0**-53, 1 - 2.0**-12, 0.0, -0.9, -1.3])
    eta = np.resize([0.5, 0.02, 2.0**-4], len(f))
    grid = {"eta": eta, "lam": (1 - f) / eta}
    coef, want = Learner(tau=TAU, random_state=0).fit_grid(X, y, grid), by_the_papers(Learner, X, y, grid)
    assert np.abs(want[:, -1]).max() > 1e160
    for got, column in zip(coef.T, want.T):
        assert_close(got, column, tolerance=1e-10)


@BOTH
@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
def test_steps_by_inner_products_equal_steps_on_features(arrangement, Learner, blocks, monkeypatch):
    X, y = examples(350, 9, arrangement)
    X[200:220], X[100], grid = X[:20], 0.0, grid_for(9, 11)
    coef = fit_grid_by_products(Learner(tau=TAU, random_state=0), X, y, grid, monkeypatch)
    assert_close(coef, by_the_papers(Learner, X, y, grid))


@BOTH
def test_bits_do_not_depend_on_other_settings(Learner):
    X, y = sparse_rows(300, 30)
    grid = grid_for(5, 20)
    whole = Learner(tau=TAU, random_state=0).fit_grid(X, y, grid)
    for selected in ([3], [4], [1, 17, 5], np.arange(19, -1, -1)):
        some = {axis: values[selected] for axis, values in grid.items()}
        np.testing.assert_array_equal(Learner(tau=TAU, random_state=0).fit_grid(X, y, some), whole[:, selected])


@BOTH
@pytest.mark.parametrize("algorithm", ["implicit", "plain"])
def test_cutting_rows_into_pieces_changes_no_bit(algorithm, Learner):
    X, y = sparse_rows(400, 30)
    options = {"eta": 0.5, "lam": 2.0, "tau": TAU, "algorithm": algorithm, "random_state": 3}
    whole, pieces = Learner(**options).fit(X, y), Learner(**options)
    for rows in np.array_split(np.arange(400), [1, 2, 7, 8, 150, 301]):
        pieces.partial_fit(X[rows], y[rows], classes=[-1, 1])
    np.testing.assert_array_equal(pieces.coef_, whole.coef_)
    if algorithm == "implicit":
        alone = Learner(**options).fit_grid(X, y, {"eta": [0.5, 0.1], "lam": [2.0, 0.1]})
        np.testing.assert_array_equal(alone[:, 0], whole.coef_[0])


@BOTH
@pytest.mark.parametrize("n_rows", [1, 30, 31, 32, 33, 250])
def test_weights_at_some_features(n_rows, Learner):
    X, y = sparse_rows(300, 30)
    grid, learner = grid_for(5, 20), Learner(tau=TAU, random_state=0)
    state = learner._begin(30, grid)
    learner._consume(state, sparse.csr_matrix(X[:n_rows]), y[:n_rows].astype(np.int8))
    features = np.array([29, 3, 3, 0, 17])
    np.testing.assert_array_equal(state.coef_at(features), state.coef(30)[features])
    assert state.coef_at(features[:0]).shape == (0, 20)


@BOTH
@pytest.mark.parametrize(("algorithm", "n_settings"), [("implicit", 20), ("plain", 1)])
def test_features_may_come_midway(algorithm, n_settings, Learner):
    X, y = sparse_rows(300, 30)
    X[:171, 20:] = 0.0
    X, y = sparse.csr_matrix(X), y.astype(np.int8)
    grid, learner = grid_for(5, n_settings), Learner(tau=TAU, algorithm=algorithm, random_state=0)
    state = learner._begin(20, grid)
    learner._consume(state, X[:171, :20], y[:171])
    state = state.widened(learner._begin(30, grid))
    learner._consume(state, X[171:], y[171:])
    np.testing.assert_array_equal(state.coef(30), learner.fit_grid(X, y, grid))


@BOTH
def test_settings_that_overflow_leave_the_others_unchanged(Learner):
    X, y = sparse_rows(600, 20)
    calm = grid_for(5, 9)
    wild = {axis: np.insert(values, [0, 4, 9], [1e3, 1e200, 8.0]) for axis, values in calm.items()}
    coef = Learner(tau=TAU, random_state=0).fit_grid(X, y, wild)
    np.testing.assert_array_equal(np.isnan(coef).all(axis=0), np.isin(np.arange(12), [0, 5, 11]))
    np.testing.assert_array_equal(
        np.delete(coef, [0, 5, 11], axis=1), Learner(tau=TAU, random_state=0).fit_grid(X, y, calm)
    )


def test_seed_decides_the_sketch():
    X, y = examples(100, 5)
    first, second, again = (OPAUCr(random_state=seed).fit(X, y).coef_ for seed in (1, 2, 1))
    assert np.array_equal(first, again)
    assert not np.allclose(first, second)


def test_hashing_draws_each_place_and_sign_equally_often():
    rows = draws_of(OPAUCh, 40_000, tau=4)
    assert (np.count_nonzero(rows, axis=1) == 1).all()
    assert set(np.unique(rows)) == {-1.0, 0.0, 1.0}
    for sign in (-1.0, 1.0):
        np.testing.assert_allclose((rows == sign).mean(axis=0), 1 / 8, atol=0.006)


def test_gaussian_draws_have_the_variance_one_over_tau():
    rows = draws_of(OPAUCr, 40_000, tau=4)
    np.testing.assert_allclose(rows.T @ rows / len(rows), np.eye(4) / 4, atol=0.006)


class Recorded:
    def __init__(self, rows):
        self._rows, self.tau = rows, rows.shape[1]

    def rows(self, n):
        first, self._rows = self._rows[:n], self._rows[n:]
        return first


@pytest.mark.parametrize("source", [fixture_runs, golden_runs])
@pytest.mark.parametrize("algorithm", ["implicit", "plain"])
def test_authors_program(algorithm, source):
    """The authors' Matlab program on 40 rows, with the normal numbers that it drew."""
    (run,) = source("opaucr")
    draws = np.array(run["gaussians"]) / np.sqrt(run["tau"])
    learner = OPAUCr(tau=run["tau"], algorithm=algorithm)
    state = learner._begin(run["X"].shape[1], {"eta": np.array([run["eta"]]), "lam": np.array([run["lam"]])})
    state.draws = Recorded(draws)
    for rows in (slice(0, 15), slice(15, 40)):
        learner._consume(state, sparse.csr_matrix(run["X"][rows]), run["y"][rows].astype(np.int8))
    assert_close(state.coef(run["X"].shape[1])[:, 0], run["w"])
    assert_close(sketched_opauc(run["X"], run["y"], draws, run["eta"], run["lam"]), run["w"])


@BOTH
def test_finite_forms_no_weights(Learner):
    d, grid = 200_000, {"eta": np.full(40, 0.01), "lam": np.full(40, 0.1)}
    state = Learner(tau=TAU)._begin(d, grid)
    tracemalloc.start()
    assert state.finite(d).all()
    assert tracemalloc.get_traced_memory()[1] < d
    tracemalloc.stop()


@BOTH
@pytest.mark.parametrize(("algorithm", "n_settings"), [("implicit", 1), ("plain", 1), ("plain", 20), ("implicit", 65)])
def test_memory_bytes_is_close_to_the_memory_used(n_settings, algorithm, Learner):
    d, learner = 20_000, Learner(algorithm=algorithm)
    tracemalloc.start()
    state = learner._begin(d, {"eta": np.full(n_settings, 0.01), "lam": np.full(n_settings, 0.1)})
    weights = state.coef(d)
    used = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert weights.shape == (d, n_settings)
    assert used / 1.3 < learner.memory_bytes(d, n_settings) < 1.3 * used
