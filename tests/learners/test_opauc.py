"""OPAUC against the paper's recursion, its loss and other people's numbers."""

import numpy as np
import pytest
from reference import opauc as paper
from reference.examples import ARRANGEMENTS, assert_close, examples, some_settings
from reference.peers import fixture_runs, golden_runs
from scipy import sparse

from opauc_bench.learners import OPAUC

DIMENSIONS = (1, 2, 3, 5, 17, 33)


def grid_for(n_features, n_settings):
    """Settings with stable step sizes."""
    return {
        "eta": np.geomspace(0.02, 0.4, n_settings) / n_features,
        "lam": np.resize([2.0**-10, 0.3, 2.0**-4], n_settings),
    }


def by_the_paper(X, y, grid):
    return np.column_stack([paper.opauc(X, y, eta, lam) for eta, lam in zip(grid["eta"], grid["lam"])])


@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
@pytest.mark.parametrize("d", DIMENSIONS)
def test_grid_pass_equals_the_papers_algorithm(d, arrangement):
    X, y = examples(350, d, arrangement)
    grid = grid_for(d, 11)
    assert_close(OPAUC().fit_grid(X, y, grid), by_the_paper(X, y, grid))


@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
@pytest.mark.parametrize("d", DIMENSIONS)
def test_single_setting_equals_the_papers_algorithm(d, arrangement):
    X, y = examples(350, d, arrangement)
    eta, lam = 0.3 / d, 2.0**-4
    assert_close(OPAUC(eta=eta, lam=lam).fit(X, y).coef_[0], paper.opauc(X, y, eta, lam))


@pytest.mark.parametrize("n_settings", [1, 2, 7, 8, 9, 299])
def test_grids_of_any_size_equal_the_algorithm_of_the_paper(n_settings):
    X, y = examples(120, 6)
    grid = grid_for(6, n_settings)
    columns, of_these = some_settings(grid)
    assert_close(OPAUC().fit_grid(X, y, grid)[:, columns], by_the_paper(X, y, of_these))


def test_sparse_rows():
    X, y = examples(350, 17, "sparse")
    grid = grid_for(17, 5)
    assert_close(OPAUC().fit_grid(sparse.csr_matrix(X), y, grid), by_the_paper(X, y, grid))


def test_axes_that_are_not_in_the_grid_keep_the_estimators_value():
    X, y = examples(200, 4)
    coef = OPAUC(lam=0.7).fit_grid(X, y, {"eta": [0.05, 0.1]})
    assert_close(coef, by_the_paper(X, y, {"eta": [0.05, 0.1], "lam": [0.7, 0.7]}))


@pytest.mark.parametrize("label", [-1, 1])
def test_gradient_equals_that_of_the_pairwise_loss(label):
    """Eqs. 7 and 8 against finite differences of Eq. 5, which names every pair."""
    rng = np.random.default_rng(0)
    opponents, x, w = rng.uniform(-1, 1, (30, 5)), rng.uniform(-1, 1, 5), rng.standard_normal(5)
    c, S = opponents.mean(axis=0), np.cov(opponents.T, bias=True)
    h = 1e-4 * np.eye(5)
    slopes = [
        (paper.loss(w + e, x, label, opponents, 0.3) - paper.loss(w - e, x, label, opponents, 0.3)) / 2e-4 for e in h
    ]
    assert_close(paper.gradient(w, x, label, c, S, 0.3), slopes, tolerance=1e-9)


@pytest.mark.parametrize("source", [fixture_runs, golden_runs])
def test_authors_program(source):
    """The authors' Matlab program, run on 40 rows."""
    runs = source("opauc")
    assert len(runs) == 3
    for run in runs:
        single = OPAUC(eta=run["eta"], lam=run["lam"]).fit(run["X"], run["y"])
        beside = {"eta": [run["eta"], 0.01], "lam": [run["lam"], 0.01]}
        assert_close(single.coef_[0], run["w"])
        assert_close(OPAUC().fit_grid(run["X"], run["y"], beside)[:, 0], run["w"])
        assert_close(paper.opauc(run["X"], run["y"], run["eta"], run["lam"]), run["w"])
