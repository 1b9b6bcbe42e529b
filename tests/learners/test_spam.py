"""SPAM in its three regularisations and SPAUC: against dense vectors, and against the FTRL-AUC authors' program."""

import numpy as np
import pytest
from reference import proximal as paper
from reference.examples import ARRANGEMENTS, assert_close, examples
from reference.ftrl_peers import fixture_runs, golden_runs
from scipy import sparse

from opauc_bench.learners import SPAML1, SPAML2, SPAUC, SPAMElastic, get_learner

L1, L2 = np.array([0.0, 1e-3, 3e-3, 0.01]), np.array([0.3, 1e-2, 0.0, 1.0])
XI = np.array([0.3, 0.1, 1.0, 0.03])
CASES = {
    "l1": (SPAML1, paper.spam, {"xi": XI, "l1": L1}),
    "l2": (SPAML2, paper.spam, {"xi": XI, "l2": L2}),
    "elastic": (SPAMElastic, paper.spam, {"xi": XI, "l1": L1, "l2": L2}),
    "spauc": (SPAUC, paper.spauc, {"mu": np.array([1.0, 2.0, 0.5, 3.0]), "l1": L1}),
}
ALL = pytest.mark.parametrize("case", CASES)


def by_the_paper(X, y, case, **options):
    _, oracle, grid = CASES[case]
    return np.column_stack([oracle(X, y, **dict(zip(grid, setting)), **options) for setting in zip(*grid.values())])


def check_grid_and_fits(X, y, case, tolerance=1e-10, **options):
    learner, _, grid = CASES[case]
    want = by_the_paper(X, y, case, **options)
    assert_close(learner(**options).fit_grid(sparse.csr_matrix(X), y, grid), want, tolerance)
    for k, setting in enumerate(zip(*grid.values())):
        alone = learner(**dict(zip(grid, setting)), **options).fit(X, y).coef_[0]
        np.testing.assert_allclose(alone, want[:, k], rtol=0, atol=tolerance * np.abs(want).max())
    return want


@ALL
@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
@pytest.mark.parametrize("d", [1, 3, 17])
def test_passes_equal_steps_on_dense_vectors(d, arrangement, case):
    check_grid_and_fits(*examples(200, d, arrangement), case)


@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
def test_released_elastic_net(arrangement):
    X, y = examples(200, 8, arrangement)
    released = check_grid_and_fits(X, y, "elastic", variant="released")
    assert (released[:, [1, 3]] != by_the_paper(X, y, "elastic")[:, [1, 3]]).any()


@pytest.mark.parametrize("case", ["l1", "elastic", "spauc"])
def test_thresholds_make_zeros(case):
    X, y = examples(200, 17, "sparse")
    learner, _, grid = CASES[case]
    thresholds = np.array([1e-3, 0.01, 0.02, 0.03, 0.05, 0.1, 1.0])
    own = {axis: np.full(len(thresholds), values[0]) for axis, values in grid.items()}
    kept = np.count_nonzero(learner().fit_grid(X, y, own | {"l1": thresholds}), axis=0)
    assert ((kept > 0) & (kept < 17)).any()
    assert kept[-1] == 0


def test_scale_that_would_underflow_is_multiplied_into_v():
    """With eta l2 in the thousands, the scale of SPAM-l2 falls below 1e-300 within a hundred rows."""
    X, y = examples(300, 9, "sparse")
    learner = SPAML2(xi=1e3, l2=5.0)
    scales = []
    for start in range(0, 300, 10):
        learner.partial_fit(X[start : start + 10], y[start : start + 10], classes=[-1, 1])
        scales.append(learner._state.models["scale"][0])
    assert min(scales) < 1e-30
    assert_close(learner.coef_[0], paper.spam(X, y, 1e3, l2=5.0), tolerance=1e-9)


def check_run(run):
    terms = [name for name in ("l1", "l2") if name in run.parameters]
    case = "spauc" if run.algorithm == "spauc" else "elastic" if len(terms) == 2 else terms[0]
    learner, oracle, _ = CASES[case]
    variants = run.variants if case == "elastic" else [None]
    for variant in variants:
        options = {"variant": variant} if variant else {}
        np.testing.assert_allclose(oracle(run.X, run.y, **run.parameters, **options), run.w, atol=1e-13, rtol=0)
        learnt = learner(**run.parameters, **options).partial_fit(run.X, run.y, classes=[-1, 1])
        np.testing.assert_allclose(learnt.coef_[0], run.w, atol=1e-12, rtol=0)
    return len(variants)


def test_the_ftrl_auc_program():
    assert sum(check_run(run) for run in fixture_runs("spam", "spauc")) == 5


def test_the_ftrl_auc_program_on_the_way():
    assert sum(check_run(run) for run in golden_runs("spam", "spauc")) == 56


@pytest.mark.parametrize("name", ["spam_l1", "spam_elastic", "spauc"])
def test_weights_shrink_also_where_the_sums_of_a_feature_cancel(name):
    learner = get_learner(name)()
    rng = np.random.default_rng(2)
    X = rng.choice([-1.0, 0.0, 1.0], size=(60, 4))
    y = np.where(rng.random(60) < 0.5, 1, -1).astype(np.int8)
    X[:, 0] = 0.0
    X[y > 0, 0] = np.resize([1.0, -1.0], np.count_nonzero(y > 0))  # after every second positive row both sums are 0
    values = {axis: np.array([getattr(learner, axis)] * 3) * [0.5, 1.0, 2.0] for axis in learner.grid_axes}
    together = learner.fit_grid(X, y, values)
    for g in range(3):
        alone = learner.fit_grid(X, y, {axis: column[g : g + 1] for axis, column in values.items()})
        np.testing.assert_allclose(together[:, g], alone[:, 0], rtol=1e-9, atol=1e-12)
