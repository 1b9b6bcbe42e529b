"""RDA-l1 and AdaGrad against dense sums of gradients, and against the FTRL-AUC authors' program."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import dual_averaging as paper
from reference.examples import ARRANGEMENTS, assert_close, examples
from reference.ftrl_peers import fixture_runs, golden_runs
from scipy import sparse

from opauc_bench.learners import RDAL1, AdaGrad

LEARNERS = {"rda_l1": RDAL1, "adagrad": AdaGrad}
GRIDS = {
    "rda_l1": {
        "gamma": np.array([1.0, 0.1, 10.0, 5.0]),
        "l1": np.array([0.0, 1e-3, 0.01, 0.05]),
        "rho": np.array([0.0, 0.0, 0.005, 0.01]),
    },
    "adagrad": {"eta": np.array([0.01, 0.1, 1.0, 0.3]), "l1": np.array([0.0, 1e-3, 0.01, 0.05])},
}
BOTH = pytest.mark.parametrize("name", LEARNERS)
VARIANTS = pytest.mark.parametrize("variant", ["paper", "released"])


def by_the_paper(X, y, name, variant):
    runs = [getattr(paper, name)(X, y, *setting, variant=variant) for setting in zip(*GRIDS[name].values())]
    return np.column_stack([w for w, _ in runs]), [b for _, b in runs]


@BOTH
@VARIANTS
@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
@pytest.mark.parametrize("d", [1, 3, 12])
def test_grid_pass_equals_dual_averaging(d, arrangement, variant, name):
    X, y = examples(200, d, arrangement)
    got = LEARNERS[name](variant=variant).fit_grid(sparse.csr_matrix(X), y, GRIDS[name])
    assert_close(got, by_the_paper(X, y, name, variant)[0], tolerance=1e-11)


@BOTH
@VARIANTS
def test_single_setting_and_its_intercept(variant, name):
    X, y = examples(150, 6, "sparse")
    coef, intercepts = by_the_paper(X, y, name, variant)
    for k, setting in enumerate(zip(*GRIDS[name].values())):
        learner = LEARNERS[name](variant=variant, **dict(zip(GRIDS[name], setting))).fit(X, y)
        np.testing.assert_allclose(learner.coef_[0], coef[:, k], rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(learner.intercept_, intercepts[k], rtol=1e-11, atol=1e-12)


@BOTH
@settings(max_examples=20, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), threshold=st.floats(0.0, 0.1))
def test_weights_minimise_the_regularised_linear_model(name, seed, threshold):
    """w = argmin G'w + l1 |w|_1 + h(w) / t: no move of a coordinate is better."""
    X, y = examples(60, 5, seed=seed)
    learner = LEARNERS[name](l1=threshold).fit(X, y)
    total, squares = learner._state.W[:-1, 0, 0], learner._state.W[:-1, 1, 0]
    t = len(y)
    curvature = 1 / np.sqrt(t) if name == "rda_l1" else (1e-8 + np.sqrt(squares)) / (0.1 * t)

    def objective(v):
        return total / t * v + threshold * np.abs(v) + curvature * v**2 / 2

    w = learner.coef_[0]
    for step in (1e-4, -1e-4):
        assert (objective(w + step) >= objective(w) - 1e-15).all()


def check_run(run):
    parameters = {"l1" if name == "lam" else name: value for name, value in run.parameters.items()}
    for variant in run.variants:
        learner = LEARNERS[run.algorithm](**parameters, variant=variant)
        rows = run.X, run.y
        w, b = getattr(paper, run.algorithm)(*rows, **parameters, variant=variant)
        np.testing.assert_allclose(np.append(w, b), run.w, atol=1e-13, rtol=0)
        learner.partial_fit(*rows, classes=[-1, 1])
        np.testing.assert_allclose(np.append(learner.coef_, learner.intercept_), run.w, atol=1e-12, rtol=0)
    return len(run.variants)


def test_the_ftrl_auc_program():
    assert sum(check_run(run) for run in fixture_runs(*LEARNERS)) == 6


def test_the_ftrl_auc_program_on_the_way():
    assert sum(check_run(run) for run in golden_runs(*LEARNERS)) == 42
