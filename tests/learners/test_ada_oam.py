"""AdaOAM against a version with covariances and projection written out, against OPAUC, and its symmetries."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import opauc as paper
from reference.ada_oam import ada_oam, projection
from reference.examples import ARRANGEMENTS, assert_close, examples
from scipy import sparse
from scipy.optimize import minimize

from opauc_bench.learners import OPAUC, AdaOAM
from opauc_bench.learners.opauc.ada_oam import _project

# Calm settings, steps that leave the ball at most rows, and no ball at all.
GRID = {"eta": np.array([0.05, 0.5, 0.3, 4.0, 0.2]), "lam": np.array([2.0**-8, 0.1, 1.0, 4.0, 0.0])}
SEEDS = st.integers(0, 2**32 - 1)


def written_out(X, y, delta=1.0, grid=GRID):
    return np.column_stack([ada_oam(X, y, eta, lam, delta) for eta, lam in zip(grid["eta"], grid["lam"])])


@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
@pytest.mark.parametrize(("d", "delta"), [(1, 1.0), (2, 0.05), (5, 1.0), (17, 0.2)])
def test_grid_pass_and_single_fits_equal_the_algorithm_written_out(d, delta, arrangement):
    X, y = examples(220, d, arrangement)
    want = written_out(X, y, delta)
    assert_close(AdaOAM(delta=delta).fit_grid(X, y, GRID), want, 1e-11)
    assert_close(AdaOAM(delta=delta).fit_grid(sparse.csr_matrix(X), y, GRID), want, 1e-11)
    for k, w in enumerate(want.T):
        assert_close(AdaOAM(eta=GRID["eta"][k], lam=GRID["lam"][k], delta=delta).fit(X, y).coef_[0], w, 1e-11)


def test_the_grid_of_these_tests_leaves_the_ball():
    X, y = examples(220, 5)
    free = np.column_stack(
        [ada_oam(X, y, eta, lam, 1.0) for eta, lam in zip(GRID["eta"], GRID["lam"] * [1, 1, 1, 0, 1])]
    )
    moved = np.abs(free - written_out(X, y)).max(axis=0)
    assert moved[3] > 0.1


@given(SEEDS, st.integers(1, 8), st.floats(0.01, 0.999))
def test_projection_finds_the_nearest_point_in_the_norm_of_h(seed, d, share):
    rng = np.random.default_rng(seed)
    u, squares, delta = rng.standard_normal(d), rng.exponential(size=d) ** 4, rng.exponential()
    H, radius = delta + np.sqrt(squares), share * np.linalg.norm(u)
    w = u.copy()
    _project(w, squares, delta, u @ u, radius)
    assert_close(w, projection(u, H, radius), 1e-12)
    assert abs(np.linalg.norm(w) / radius - 1.0) < 1e-12


def test_projection_beside_a_general_optimiser():
    rng = np.random.default_rng(0)
    for _ in range(5):
        u, H = rng.standard_normal(4), rng.exponential(size=4) + 0.1
        ball = {"type": "ineq", "fun": lambda w: 0.25 - w @ w}
        options = {"ftol": 1e-15, "maxiter": 1000}
        other = minimize(
            lambda w, u, H: H @ (w - u) ** 2, np.zeros(4), (u, H), "SLSQP", constraints=ball, options=options
        )
        assert_close(projection(u, H, 0.5), other.x, 1e-5)


def test_large_delta_is_opauc_with_a_euclidean_projection():
    X, y = examples(220, 5)
    large = 1e12
    found = AdaOAM(delta=large).fit_grid(X, y, {"eta": GRID["eta"] * large, "lam": GRID["lam"]})
    assert_close(found, np.column_stack([projected_opauc(X, y, *setting) for setting in zip(*GRID.values())]), 1e-9)
    # Where no step leaves the ball, it is OPAUC.
    inside = {"eta": np.array([0.01, 0.05, 0.1]), "lam": np.array([0.0, 0.01, 0.1])}
    found = AdaOAM(delta=large).fit_grid(X, y, inside | {"eta": inside["eta"] * large})
    assert_close(found, OPAUC().fit_grid(X, y, inside), 1e-9)


def projected_opauc(X, y, eta, lam):
    w = np.zeros(X.shape[1])
    for t, (x, label) in enumerate(zip(X, y)):
        opponents = X[:t][y[:t] == -label]
        if len(opponents):
            covariance = np.atleast_2d(np.cov(opponents.T, bias=True))
            w = w - eta * paper.gradient(w, x, label, opponents.mean(axis=0), covariance, lam)
            w = w / max(1.0, np.sqrt(lam) * np.linalg.norm(w))
    return w


@given(SEEDS, st.floats(2.0**-12, 2.0**12), st.floats(2.0**-10, 2.0**10), st.floats(1e-3, 1e3))
def test_weights_stay_in_the_ball(seed, eta, lam, delta):
    X, y = examples(40, 5, seed=seed)
    w = AdaOAM(eta=eta, lam=lam, delta=delta).fit(X, y).coef_[0]
    assert np.linalg.norm(w) <= (1.0 + 1e-9) / np.sqrt(lam)


@given(SEEDS, st.floats(0.1, 10.0))
def test_scaling_rows_is_scaling_eta_lam_and_delta(seed, scale):
    X, y = examples(60, 4, seed=seed)
    scaled = {"eta": GRID["eta"] / scale, "lam": GRID["lam"] * scale**2}
    assert_close(AdaOAM(delta=scale).fit_grid(scale * X, y, scaled) * scale, AdaOAM().fit_grid(X, y, GRID), 1e-9)
