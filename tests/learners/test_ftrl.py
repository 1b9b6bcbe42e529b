"""FTRL-AUC and FTRL-Proximal against Algorithm 1 on dense vectors, and against the authors' program."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import ftrl as paper
from reference.examples import ARRANGEMENTS, assert_close, examples
from reference.ftrl_peers import fixture_runs, golden_runs
from scipy import sparse

from opauc_bench.learners import FTRLAUC, FTRLProximal

LEARNERS = {"auc": FTRLAUC, "proximal": FTRLProximal}
ORACLES = {"auc": paper.ftrl_auc, "proximal": paper.ftrl_proximal}
BOTH = pytest.mark.parametrize("loss", LEARNERS)
GRID = {"gamma": np.array([0.1, 1.0, 0.3, 2.0]), "l1": np.array([0.0, 1e-3, 0.1, 2.5])}
OPTIONS = [
    {},
    {"variant": "released"},
    {"refresh": True},
    {"refresh": True, "variant": "released"},
    {"l2": 0.1, "beta": 2.0},
]


def by_the_paper(X, y, loss, **options):
    return np.column_stack([ORACLES[loss](X, y, gamma, l1, **options) for gamma, l1 in zip(*GRID.values())])


@BOTH
@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
@pytest.mark.parametrize("d", [1, 2, 7, 8, 9, 33])
def test_grid_pass_equals_algorithm_1(d, arrangement, loss):
    X, y = examples(200, d, arrangement)
    assert_close(LEARNERS[loss]().fit_grid(X, y, GRID), by_the_paper(X, y, loss))


@BOTH
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_options(options, loss):
    X, y = examples(200, 12, "sparse")
    coef = LEARNERS[loss](**options).fit_grid(X, y, GRID)
    assert_close(coef, by_the_paper(X, y, loss, **options))
    assert 0 < np.count_nonzero(coef[:, 3]) < len(coef), "l1 is to matter"


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
def test_not_lazy(arrangement, options):
    X, y = examples(200, 12, arrangement)
    learner = FTRLAUC(lazy=False, **options)
    assert_close(learner.fit_grid(X, y, GRID), by_the_paper(X, y, "auc", lazy=False, **options))
    assert_close(
        learner.set_params(gamma=0.3, l1=0.1).fit(X, y).coef_[0], by_the_paper(X, y, "auc", lazy=False, **options)[:, 2]
    )


@pytest.mark.parametrize("learner", [FTRLAUC, FTRLProximal])
@pytest.mark.parametrize("density", [0.01, 0.1, 0.5])
def test_one_setting_has_the_bits_of_the_grid(density, learner):
    """Rows of all lengths, empty ones among them: vector registers lie across coordinates here, settings there."""
    X = sparse.random(300, 60, density, "csr", random_state=0)
    y = np.where(X.toarray().sum(axis=1) > density * 30, 1, -1)
    for variant in ("paper", "released"):
        coef = learner(variant=variant).fit_grid(X, y, GRID)
        alone = [learner(gamma=gamma, l1=l1, variant=variant).fit(X, y).coef_[0] for gamma, l1 in zip(*GRID.values())]
        np.testing.assert_array_equal(coef, np.column_stack(alone))
        assert coef.any()


def check_run(run):
    parameters, y = run.parameters, run.y
    lazy = {"ftrl_auc": {"lazy": True}, "ftrl_auc_nonlazy": {"lazy": False}}.get(run.algorithm)
    learner = FTRLProximal if lazy is None else FTRLAUC
    oracle = paper.ftrl_proximal if lazy is None else paper.ftrl_auc
    axes = {axis: [parameters[axis]] for axis in learner.grid_axes}
    for variant in run.variants:
        options = {"variant": variant, **(lazy or {})}
        fixed = {name: value for name, value in parameters.items() if name not in axes}
        want = run.w[: run.X.shape[1]]
        np.testing.assert_allclose(learner(**fixed, **options).fit_grid(run.X, y, axes)[:, 0], want, atol=1e-13, rtol=0)
        np.testing.assert_allclose(oracle(run.X, y, **parameters, **options), want, atol=1e-13, rtol=0)
    return len(run.variants)


ALGORITHMS = ("ftrl_auc", "ftrl_auc_nonlazy", "ftrl_proximal")


def test_the_authors_program():
    assert sum(check_run(run) for run in fixture_runs(*ALGORITHMS)) == 12


def test_the_authors_program_on_the_way():
    assert sum(check_run(run) for run in golden_runs(*ALGORITHMS)) == 84


@pytest.mark.parametrize("lazy", [True, False])
def test_gradient_compares_scores_with_the_other_class(lazy):
    """Three rows by hand: a positive, a negative, and a positive that meets the negative's score."""
    X, y = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 0.0]]), np.array([1, -1, 1])
    # Row 1 has p = 1, hence c = 0. Row 2 has p = 1/2 and score 0: c = 1, z = (1, 1), q = (1, 1).
    # Row 3 has score 0 still: c = 2/3 (0 - 0 - 1), and its w_1 comes from z_1 = 1: -(1 - .5) / (1 + 1).
    assert_close(FTRLAUC(gamma=1.0, l1=0.5, lazy=lazy).fit(X, y).coef_[0], [-0.25, 0.0])
    # In the end z_1 = 1 - 2/3 - (sqrt(13/9) - 1) (-.25), within l1, and z_2 = 1.
    refreshed = FTRLAUC(gamma=1.0, l1=0.5, lazy=lazy, refresh=True).fit(X, y).coef_[0]
    assert_close(refreshed, [0.0, -0.25])


@BOTH
@settings(max_examples=20, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), threshold=st.floats(0.0, 2.0))
def test_refreshed_weights_minimise_the_regularised_sum(loss, seed, threshold):
    """w = argmin z'w + l1 |w|_1 + sum_i (beta + sqrt(q_i)) w_i^2 / (2 gamma): no move of a coordinate is better."""
    X, y = examples(60, 6, seed=seed)
    learner = LEARNERS[loss](gamma=0.5, l1=threshold, refresh=True).fit(X, y)
    w, (_, z, q, root) = learner.coef_[0], learner._state.W[:, :, 0].T
    np.testing.assert_allclose(root, np.sqrt(q), rtol=1e-15)

    def objective(v):
        return z * v + threshold * np.abs(v) + (1 + root) * v**2

    for step in (1e-4, -1e-4):
        assert (objective(w + step) >= objective(w)).all()


@BOTH
def test_stored_zeros_and_repeated_features_are_summed(loss):
    X, y = examples(100, 6, "sparse")
    csr = sparse.csr_matrix(X)
    halves = sparse.csr_matrix((np.repeat(csr.data / 2, 2), np.repeat(csr.indices, 2), 2 * csr.indptr), shape=csr.shape)
    full = sparse.csr_matrix((X.ravel(), np.tile(np.arange(6), 100), np.arange(0, 601, 6)), shape=X.shape)
    learner = LEARNERS[loss]()
    for rows in (halves, full):
        np.testing.assert_array_equal(learner.fit_grid(rows, y, GRID), learner.fit_grid(X, y, GRID))
        np.testing.assert_array_equal(learner.fit(rows, y).coef_, learner.fit(X, y).coef_)


@BOTH
@pytest.mark.parametrize("form", ["plain", "unsorted", "duplicates", "zeros"])
def test_rows_of_any_form_are_learnt_in_one_loop_or_two(form, loss):
    """Rows up to the first unusual one are learnt and summed in one loop, the others in two."""
    dense, y = examples(300, 12, "sparse")
    X = sparse.csr_matrix(dense)
    row = int(np.flatnonzero(np.diff(X.indptr)[:150] >= 2)[-1])
    places = slice(X.indptr[row], X.indptr[row] + 2)
    if form == "unsorted":
        for stored in (X.indices, X.data):
            stored[places] = stored[places][::-1].copy()
        X.has_sorted_indices = False
    elif form == "duplicates":
        dense[row, X.indices[places]] = X.data[places].sum(), 0.0
        X.indices[places] = X.indices[places][0]
        X.has_canonical_format = False
    elif form == "zeros":
        dense[row, X.indices[places]] = X.data[places] = 0.0
    fitted, expected = LEARNERS[loss]().fit(X, y), LEARNERS[loss]()
    expected.start_pass(12)
    for first in range(0, 300, 7):  # dense rows are never summed in the same loop
        rows = slice(first, first + 7)
        expected.learn_rows(dense[rows], y[rows] > 0)
    expected.finish_pass()
    assert_close(fitted.coef_[0], expected.coef_[0])
    assert_close(fitted.intercept_, expected.intercept_)
    assert fitted.n_samples_seen_ == 300


@BOTH
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_sparse_rows_that_are_not_finite_are_refused_and_nothing_goes_on_from_them(value, loss):
    dense, y = examples(300, 12, "sparse")
    X = sparse.csr_matrix(dense)
    X.data[200] = value
    learner = LEARNERS[loss]()
    with pytest.raises(ValueError, match=r"Input X contains (NaN|infinity)"):
        learner.fit(X, y)
    continued = learner.partial_fit(dense, y)
    assert np.array_equal(continued.coef_, LEARNERS[loss]().fit(dense, y).coef_)
