"""The pairwise hinge loss and its cutting-plane solver: against brute force, liblinear and the real SVM-perf."""

import numpy as np
import pytest
from reference.batch import (
    pairs,
    pairwise_hinge_minimiser,
    pairwise_hinge_objective,
    slopes,
    svm_perf_runs,
)
from reference.examples import assert_close, examples
from scipy import sparse

from opauc_bench.evaluation import auc_score
from opauc_bench.learners import SVMOR, SVMPerf
from opauc_bench.learners.batch import cutting_plane
from opauc_bench.learners.batch.cutting_plane import hinge_path, pairwise_hinge

PAPER = 2.0 ** np.arange(-10, 11)
PROGRAM = 1.0 / (100.0 * PAPER)


# ---------------------------------------------------------------------- separation


@pytest.mark.parametrize("scale", [0.01, 0.3, 5.0])
def test_risk_and_gradient_are_those_of_all_pairs(scale):
    X, y = examples(60, 4)
    w = scale * np.array([1.0, -2.0, 0.5, 3.0])
    risk, c = pairwise_hinge(X @ w, y)
    Z = pairs(X, y)
    hinges = 1 - Z @ w
    assert abs(risk - np.maximum(hinges, 0).mean()) < 1e-14
    assert_close(X.T @ c, -(Z * (hinges > 0)[:, None]).mean(axis=0) + 0.0, 1e-12)
    assert_close(X.T @ c, slopes(lambda v: pairwise_hinge(X @ v, y)[0], w), 1e-6)
    assert abs(c.sum()) < 1e-15


def test_ties_at_the_margin_give_a_subgradient():
    """Integer scores: a third of the pairs lie exactly at the margin of 1."""
    rng = np.random.default_rng(0)
    y = np.where(rng.random(50) < 0.4, 1, -1)
    scores = rng.integers(-2, 3, 50).astype(float)
    risk, c = pairwise_hinge(scores, y)
    assert abs(c.sum()) < 1e-15
    for _ in range(200):
        other = scores + rng.choice([1e-3, 1.0]) * rng.standard_normal(50)
        assert pairwise_hinge(other, y)[0] >= risk + c @ (other - scores) - 1e-12


def test_counts_of_pairs_beyond_32_bits():
    y = np.repeat([1, -1], 70_000)
    risk, c = pairwise_hinge(np.zeros(140_000), y)
    assert abs(risk - 1) < 1e-12
    np.testing.assert_allclose(c, np.where(y > 0, -1, 1) / 70_000)


# ---------------------------------------------------------------------- the path


@pytest.mark.parametrize("arrangement", ["mixed", "sparse"])
def test_objectives_are_those_of_liblinear_on_explicit_pairs(arrangement):
    X, y = examples(40, 5, arrangement)
    lam = np.array([1.0, 0.1, 0.01, 1e-3])
    path = hinge_path(X, y, lam, gap=1e-8)
    for k in range(len(lam)):
        want = pairwise_hinge_objective(pairwise_hinge_minimiser(X, y, lam[k]), X, y, lam[k])
        got = pairwise_hinge_objective(path.coef[:, k], X, y, lam[k])
        assert abs(got - path.objective[k]) < 1e-13
        assert abs(got - want) < 1e-6 * want


@pytest.mark.parametrize("gap", [1e-2, 1e-3, 1e-6])
@pytest.mark.parametrize("grid", [PAPER, PROGRAM], ids=["paper", "program"])
def test_the_certified_gap_is_true(gap, grid):
    X, y = examples(300, 6)
    path, exact = hinge_path(X, y, grid, gap=gap), hinge_path(X, y, grid, gap=1e-10)
    J = path.objective
    assert (path.gap <= gap * np.minimum(np.maximum(J, 0.1), 1 - J) + 1e-14).all()
    assert (J - path.gap <= exact.objective + 1e-13).all()
    assert (exact.objective - exact.gap - 1e-13 <= J).all()


def test_zero_weights_are_not_accepted_at_large_lambda():
    """J(0) = 1 is within 1e-3 of the minimum there, but ranks nothing."""
    X, y = examples(300, 6)
    path = hinge_path(X, y, np.array([256.0, 1024.0]))
    assert (1 - path.objective < 1e-3).all()
    m = X[y > 0].mean(axis=0) - X[y < 0].mean(axis=0)
    for lam, w in zip((256.0, 1024.0), path.coef.T):
        assert_close(w, m / lam)
    assert path.gap.max() == 0


@pytest.mark.parametrize("form", [sparse.csr_array, sparse.csr_matrix])
def test_sparse_rows_reach_the_same_objectives(form):
    X, y = examples(200, 10, "sparse")
    dense, csr = hinge_path(X, y, PROGRAM, gap=1e-9), hinge_path(form(X), y, PROGRAM, gap=1e-9)
    assert_close(csr.objective, dense.objective, 1e-8)


def test_planes_are_reused_for_all_lambdas():
    X, y = examples(500, 8)
    alone = sum(hinge_path(X, y, np.array([lam])).n_planes for lam in PROGRAM)
    assert hinge_path(X, y, PROGRAM).n_planes < 0.5 * alone


def test_dropping_planes_changes_no_result(monkeypatch):
    X, y = examples(200, 30)
    want = hinge_path(X, y, PROGRAM, gap=1e-5)
    monkeypatch.setattr(cutting_plane, "_CAPACITY", 32)
    solver = cutting_plane._Solver(X, y.astype(float), 1e-5, lambda: None)
    objectives = np.array([solver.solve(lam)[1] for lam in PROGRAM])
    assert_close(objectives, want.objective, 1e-5)
    assert len(solver.planes.b) <= 128 < want.n_planes / 4


def test_lambda_without_a_certified_gap_is_nan():
    X, y = examples(50, 3)
    path = hinge_path(X, y, np.array([1e-300, 0.1, 1e-30]))
    np.testing.assert_array_equal(np.isnan(path.coef).any(axis=0), [True, False, True])


def test_tick_stops_between_planes():
    X, y = examples(300, 10)
    done = []

    def stop(n_done):
        done.append(n_done)
        if n_done == 5:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        SVMOR().fit_grid(X, y, {"lam": PROGRAM}, on_chunk=stop)
    assert done == [1, 2, 3, 4, 5]


# ---------------------------------------------------------------------- the same problem under other names


def test_svm_or_and_svm_perf_differ_by_the_meaning_of_their_parameter():
    X, y = examples(200, 5)
    C = np.array([0.01, 1.0, 100.0])
    of_lam = SVMOR(gap=1e-10).fit_grid(X, y, {"lam": 1 / (100 * C)})
    assert_close(SVMPerf(engine="native", gap=1e-10).fit_grid(X, y, {"C": C}), of_lam, 1e-6)
    mean = SVMPerf(engine="native", gap=1e-10, loss_scale="mean").fit_grid(X, y, {"C": 100 * C})
    assert_close(mean, of_lam, 1e-6)


@pytest.mark.parametrize("golden", [False, True], ids=["fixture", "golden"])
def test_objectives_match_the_real_svm_perf(golden):
    runs = svm_perf_runs(golden)
    for run in runs:
        X, y, C, unit = run["X"], run["y"], run["C"], 100 * run["C"]
        ours = SVMPerf(engine="native").fit_grid(X, y, {"C": [C]})[:, 0]
        J = unit * pairwise_hinge_objective(ours, X, y, 1 / unit)
        assert J - run["Jstar"] <= 1e-3 * max(run["Jstar"], 0.1 * unit), run["name"]
        exact = SVMPerf(engine="native", gap=1e-9).fit_grid(X, y, {"C": [C]})[:, 0]
        J = unit * pairwise_hinge_objective(exact, X, y, 1 / unit)
        # The reference is known to about 6e-7; the program is not better than the minimum.
        assert abs(J - run["Jstar"]) <= 1e-6 * run["Jstar"], run["name"]
        assert run["Jw"] * (1 + 1e-6) >= J, run["name"]
        assert abs(auc_score(y, X @ exact) - run["auc_star"]) < 2e-6 or C > 8, run["name"]


def test_the_real_programs_weights_pass_the_check_of_the_wrapper():
    for run in svm_perf_runs():
        X, y, lam = run["X"], run["y"], np.array([1 / (100 * run["C"])])
        exact = hinge_path(X, y, lam, gap=1e-9)
        learner = SVMPerf(eps=run["eps"])
        coef = np.array(run["w"])[:, None]
        excess = learner._excess(X, y, coef, lam, exact.objective - exact.gap)
        assert abs(excess - (run["Jw"] - run["Jstar"]) * lam[0]) < 2e-6
