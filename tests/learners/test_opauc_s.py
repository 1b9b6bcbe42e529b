"""OPAUC with sparse second moments against Algorithm 3 on dense matrices, the authors' numbers and its own bounds."""

import pickle
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core.errors import TypingError
from reference.examples import ARRANGEMENTS, assert_close, examples
from reference.opauc import opauc
from reference.opauc_s import dense, keep_above, keep_largest, n_entries, opauc_s
from reference.peers import fixture_runs, golden_runs
from scipy import sparse

from opauc_bench.learners import OPAUCS, DivergenceError
from opauc_bench.learners.opauc.intrinsics import LANES, _add_rows_in_python, add_rows, add_rows_in_fours
from opauc_bench.learners.opauc.sparse_matrix_kernels import SymmetricRows, add_outer
from opauc_bench.learners.opauc.sparse_moments import _lower_triangle, _LowerTriangle, _times_matrix

GRID = {"eta": np.array([0.02, 0.05, 0.08]), "lam": np.array([0.01, 0.5, 2.0])}
RULES = {"paper": keep_largest, "released": keep_above}


def state_after(X, y, **parameters):
    """The state of a single model after the rows."""
    learner = OPAUCS(**parameters)
    return learner.partial_fit(X, y, classes=[-1, 1])._state


def counted(rng, n, d):
    """Rows of few small whole numbers, so that many products are equal, and some cancel."""
    X = rng.integers(-2, 3, (n, d)) / 2.0
    X[rng.random((n, d)) < rng.random()] = 0.0
    return X, np.where(rng.random(n) < 0.4, 1, -1)


# ---------------------------------------------------------------------- the paper's algorithm


@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
@pytest.mark.parametrize(("d", "tau"), [(1, 1), (5, 1), (17, 3), (17, 16), (33, 2), (33, 50)])
def test_passes_equal_algorithm_3(d, tau, arrangement):
    X, y = examples(120, d, arrangement)
    grid = {axis: values / d if axis == "eta" else values for axis, values in GRID.items()}
    want = [opauc_s(X, y, eta, lam, tau)[0] for eta, lam in zip(grid["eta"], grid["lam"])]
    assert_close(OPAUCS(tau=tau).fit_grid(sparse.csr_matrix(X), y, grid), np.column_stack(want))
    alone = OPAUCS(eta=grid["eta"][1], lam=grid["lam"][1], tau=tau).fit(X, y)
    assert_close(alone.coef_[0], want[1])


@pytest.mark.parametrize("n_settings", [1, 2, 15, 16, 17, 50])
def test_grids_of_any_size_equal_the_algorithm_of_the_paper(n_settings):
    X, y = examples(150, 20, "sparse")
    grid = {"eta": np.geomspace(0.001, 0.02, n_settings), "lam": np.resize([0.01, 0.5], n_settings)}
    want = [opauc_s(X, y, eta, lam, 2)[0] for eta, lam in zip(grid["eta"], grid["lam"])]
    assert_close(OPAUCS(tau=2).fit_grid(X, y, grid), np.column_stack(want))


@settings(max_examples=60, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), d=st.integers(1, 25), tau=st.integers(1, 6), slack=st.sampled_from([0.0, 0.3]))
def test_second_moments_are_those_of_algorithm_3_with_ties_and_cancellation(seed, d, tau, slack):
    X, y = counted(np.random.default_rng(seed), 60, d)
    state = state_after(X, y, eta=0.01 / d, tau=tau, slack=slack)
    w, moments = opauc_s(X, y, 0.01 / d, 2**-8, tau, slack=slack)
    for matrix, label in zip(state.matrices, (1, -1)):
        np.testing.assert_array_equal(dense(matrix), moments[label])
    np.testing.assert_allclose(state.coef(d)[:, 0], w, rtol=0, atol=1e-12 * max(np.abs(w).max(), 1e-9))


@settings(max_examples=30, derandomize=True)
@given(
    seed=st.integers(0, 2**32 - 1),
    tau=st.integers(1, 4),
    slack=st.sampled_from([0.0, 0.3]),
    share=st.sampled_from([0.2, 0.8, 1.0]),
)
def test_dense_rows_among_sparse_ones_keep_the_entries_of_algorithm_3(seed, tau, slack, share):
    """Dense rows have more products than are kept, so that most of them are never formed."""
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((40, 30)), np.where(rng.random(40) < 0.4, 1, -1)
    sparse_rows = rng.random(40) > share
    X[sparse_rows] *= rng.random((sparse_rows.sum(), 30)) < 0.15
    X[rng.random(40) < 0.2] *= 1e-3
    state = state_after(X, y, eta=0.001, tau=tau, slack=slack)
    w, moments = opauc_s(X, y, 0.001, 2**-8, tau, slack=slack)
    for matrix, label in zip(state.matrices, (1, -1)):
        np.testing.assert_array_equal(dense(matrix), moments[label])
    np.testing.assert_allclose(state.coef(30)[:, 0], w, rtol=0, atol=1e-12 * np.abs(w).max())


@settings(max_examples=30, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), d=st.integers(20, 30), tau=st.integers(1, 9), slack=st.sampled_from([0.0, 0.3]))
def test_dense_rows_that_cancel_products_of_others_keep_the_entries_of_algorithm_3(seed, d, tau, slack):
    rng = np.random.default_rng(seed)
    X, y = rng.choice([1.0, 2.0, 4.0], d) * rng.choice([-1.0, 1.0], (12, d)), np.tile([1, -1], 6)
    state = state_after(X, y, eta=0.01 / d, tau=tau, slack=slack)
    _, moments = opauc_s(X, y, 0.01 / d, 2**-8, tau, slack=slack)
    for matrix, label in zip(state.matrices, (1, -1)):
        np.testing.assert_array_equal(dense(matrix), moments[label])


def test_dense_rows_take_memory_for_the_entries_kept_and_not_for_all_products():
    X, y = examples(40, 600, "mixed")
    assert X.all()
    state = state_after(X, y, eta=1e-4, tau=2)
    n_kept, n_products = 600 * 2, 600**2
    for matrix in state.matrices:
        assert n_entries(matrix) in (n_kept - 1, n_kept)
        assert len(matrix.cols) < n_products / 20
    _, memory = OPAUCS(tau=2).cost(1e6, 50_002, 50_002, 299)
    assert memory < 1e9


def test_products_that_underflow_are_no_entries():
    X, y = examples(20, 12, "mixed")
    X[3] = 1e-200
    state = state_after(X, y, eta=0.001, tau=2)
    _, moments = opauc_s(X, y, 0.001, 2**-8, 2)
    for matrix, label in zip(state.matrices, (1, -1)):
        np.testing.assert_array_equal(dense(matrix), moments[label])


@settings(max_examples=40, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), d=st.integers(1, 40), whole=st.booleans())
def test_product_with_the_weights_is_that_of_the_full_matrix(seed, d, whole):
    """Of whole numbers to the last bit; the room of the lower triangle is used again, or too small."""
    rng = np.random.default_rng(seed)

    def numbers(*shape):
        return rng.integers(-9, 10, shape).astype(float) if whole else rng.standard_normal(shape)

    matrix = SymmetricRows(d, selects=False)
    W, cols, vals = numbers(d, LANES), matrix.cols, matrix.vals
    lower = _LowerTriangle(np.zeros(d + 1, np.int64), np.zeros(0, np.uint32), np.zeros(0), np.ones(d, dtype=bool))
    for _ in range(rng.integers(1, 8)):
        there = np.flatnonzero(rng.random(d) < 0.5).astype(np.int32)
        cols, vals = add_outer(there, numbers(len(there)), 0, matrix.index, cols, vals)
        matrix.cols, matrix.vals = cols, vals
        lower = _lower_triangle(matrix.index, cols, vals, lower)
        V, want = numbers(d, LANES), dense(matrix) @ W
        want += V
        _times_matrix(matrix.index, cols, vals, lower, W, V)
        np.testing.assert_array_equal(lower.touched, dense(matrix).any(axis=1))
        np.testing.assert_allclose(V, want, rtol=0, atol=0 if whole else 1e-12 * d)


@pytest.mark.parametrize("add", [add_rows, add_rows_in_fours])
@pytest.mark.parametrize(("begin", "end"), [(0, 0), (3, 4), (2, 6), (5, 16), (0, 18)])
def test_rows_are_added_in_registers_as_in_python(add, begin, end):
    rng = np.random.default_rng(1)
    A, out = rng.integers(-9, 10, (7, LANES)) / 8.0, rng.integers(-9, 10, LANES) / 8.0
    columns, values = rng.integers(0, 7, 18).astype(np.uint32), rng.integers(-9, 10, 18) / 8.0
    want = out + values[begin:end] @ A[columns[begin:end]]
    in_python = out.copy()
    _add_rows_in_python(add is add_rows_in_fours, in_python, A, columns, values, begin, end)
    add(out, A, columns, values, begin, end)
    np.testing.assert_array_equal(out, want)
    np.testing.assert_array_equal(in_python, want)


def test_arrays_of_other_types_are_not_added():
    A, values = np.ones((3, LANES)), np.ones(2)
    for wrong in (A.astype(np.float32), A[:, ::2], A[0]):
        with pytest.raises(TypingError):
            add_rows(np.zeros(LANES), wrong, np.zeros(2, np.uint32), values, 0, 2)
    with pytest.raises(TypingError):
        add_rows(np.zeros(LANES), A, np.zeros(2, np.int32), values, 0, 2)


def test_a_state_with_blocks_of_another_width_is_refused():
    """Kernels would read and write outside of its arrays."""
    state = OPAUCS()._begin(4, {"eta": np.ones(2), "lam": np.ones(2)})
    saved = vars(state) | {"models": state.models._replace(W=state.models.W[:, :, :16].copy())}
    with pytest.raises(ValueError, match="its settings are in blocks of 16, expected 32"):
        state.__setstate__(saved)


def test_more_settings_than_a_block_has_equal_algorithm_3_each():
    X, y = examples(12, 70, "mixed")
    eta = 2.0 ** -np.arange(8.0, 8.0 + LANES + 3)
    want = [opauc_s(X, y, step, 0.5, 60)[0] for step in eta]
    found = OPAUCS(tau=60).fit_grid(X, y, {"eta": eta, "lam": np.full(len(eta), 0.5)})
    assert_close(found, np.column_stack(want))


@settings(max_examples=40, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), d=st.integers(2, 20), tau=st.integers(1, 4))
def test_released_rule_on_random_rows(seed, d, tau):
    X, y = examples(60, d, ("mixed", "sparse")[seed % 2], seed=seed)
    state = state_after(X, y, eta=0.01 / d, tau=tau, variant="released")
    _, moments = opauc_s(X, y, 0.01 / d, 2**-8, tau, rule=keep_above)
    for matrix, label in zip(state.matrices, (1, -1)):
        np.testing.assert_allclose(dense(matrix), moments[label], rtol=0, atol=1e-12)
        assert n_entries(matrix) == np.count_nonzero(moments[label])


@pytest.mark.parametrize("source", [fixture_runs, golden_runs])
def test_authors_program(source):
    """The authors' Matlab program, run on 40 rows; the paper's rule gives something else there."""
    runs = source("opaucs")
    assert len(runs) == 2
    for run in runs:
        parameters = {name: run[name] for name in ("eta", "lam", "tau")}
        assert_close(OPAUCS(variant="released", **parameters).fit(run["X"], run["y"]).coef_[0], run["w"])
        assert_close(opauc_s(run["X"], run["y"], **parameters, rule=keep_above)[0], run["w"])
        by_the_text = OPAUCS(**parameters).fit(run["X"], run["y"]).coef_[0]
        assert np.abs(by_the_text - run["w"]).max() > 0.01


def test_released_threshold_may_leave_no_entry():
    """All products are equal: the bracket ends at their value, which nothing exceeds."""
    state = state_after(np.ones((1, 5)), [1], tau=2, variant="released")
    assert n_entries(state.matrices[0]) == 0


# ---------------------------------------------------------------------- what holds whatever the rows


@settings(max_examples=25, derandomize=True)
@given(
    seed=st.integers(0, 2**32 - 1), d=st.integers(2, 30), tau=st.integers(1, 5), variant=st.sampled_from(list(RULES))
)
def test_never_more_entries_than_allowed_and_exact_below(seed, d, tau, variant):
    X, y = counted(np.random.default_rng(seed), 40, d)
    learner, pruned = OPAUCS(eta=1e-4, tau=tau, variant=variant), {1: False, -1: False}
    for t in range(len(y)):
        learner.partial_fit(X[t : t + 1], y[t : t + 1], classes=[-1, 1])
        for matrix, label in zip(learner._state.matrices, (1, -1)):
            rows = X[: t + 1][y[: t + 1] == label]
            exact, full = rows.T @ rows, dense(matrix)
            pruned[label] |= np.count_nonzero(exact) > d * tau
            assert n_entries(matrix) == np.count_nonzero(full) <= d * tau
            if not pruned[label]:
                np.testing.assert_array_equal(full, exact)
            elif variant == "paper" and t == len(y) - 1:
                assert (np.abs(full) <= X.shape[0]).all()
                assert ((full == 0) | (np.abs(full) <= np.sqrt(np.outer(np.diag(exact), np.diag(exact))) + 1e-12)).all()


@settings(max_examples=15, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), slack=st.sampled_from([0.1, 0.5, 2.0]))
def test_slack_bounds_entries(seed, slack):
    X, y = examples(60, 20, "sparse", seed=seed)
    learner = OPAUCS(eta=1e-4, tau=2, slack=slack)
    sizes = []
    for t in range(len(y)):
        learner.partial_fit(X[t : t + 1], y[t : t + 1], classes=[-1, 1])
        sizes += [n_entries(matrix) for matrix in learner._state.matrices]
    assert 40 < max(sizes) <= 40 + int(slack * 40)


@settings(max_examples=25, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), d=st.integers(1, 12))
def test_with_room_for_all_entries_equals_opauc(seed, d):
    X, y = examples(80, d, "sparse", seed=seed)
    if len(np.unique(y)) < 2 or not X.any():
        return
    w = opauc(X, y, 0.1 / d, 0.25)
    for slack, tau in ((0.0, d), (d / 1.0, 1)):
        got = OPAUCS(eta=0.1 / d, lam=0.25, tau=tau, slack=slack).fit(X, y).coef_[0]
        np.testing.assert_allclose(got, w, rtol=0, atol=1e-11 * np.abs(w).max())


@pytest.mark.parametrize("slack", [0.0, 0.2])
def test_pieces_of_any_length_give_equal_bits(slack):
    X, y = examples(300, 40, "sparse")
    X[::17] = 0.0
    X = sparse.csr_matrix(X)
    whole = OPAUCS(eta=0.05, tau=3, slack=slack).fit(X, y)
    for cuts in (range(301), [0, 1, 150, 299, 300]):
        pieces = OPAUCS(eta=0.05, tau=3, slack=slack)
        for start, stop in pairwise(cuts):
            pieces.partial_fit(X[start:stop], y[start:stop], classes=[-1, 1])
            if start == 150:
                pieces = pickle.loads(pickle.dumps(pieces))
        np.testing.assert_array_equal(pieces.coef_, whole.coef_)
    grid = {axis: np.resize(values / 10, 20) for axis, values in GRID.items()}
    learner = OPAUCS(tau=3, slack=slack)
    in_one = learner.fit_grid(X, y, grid)
    learner.seconds_per_row = lambda *_: 1.0  # chunks as short as they get
    np.testing.assert_array_equal(learner.fit_grid(X, y, grid), in_one)


# ---------------------------------------------------------------------- corners


def test_settings_that_overflow_leave_the_others_unchanged():
    X, y = examples(300, 30, "sparse")
    eta = np.array([0.01, 1e30, 0.02, 1e200, *np.geomspace(0.005, 0.02, 16), 1e300, 0.03])
    coef = OPAUCS(tau=2).fit_grid(X, y, {"eta": eta})
    wild = eta > 1
    assert np.isnan(coef[:, wild]).all()
    assert_close(coef[:, ~wild], OPAUCS(tau=2).fit_grid(X, y, {"eta": eta[~wild]}))


def test_sums_that_cancel_do_not_hide_a_feature():
    """Both class sums of the first feature are zero at the end, and it still has a weight."""
    X = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, 0.5], [-1.0, 0.5]])
    y = np.array([1, -1, 1, -1, 1, 1])
    assert_close(OPAUCS(eta=0.1, tau=2).fit(X, y).coef_[0], opauc_s(X, y, 0.1, 2**-8, 2)[0])


def test_a_rare_class_uses_its_rows_and_a_common_one_its_matrix():
    X, y = examples(400, 60, "sparse")
    y[:] = -1
    y[[3, 90, 200]] = 1
    state = state_after(X, y, eta=0.01, tau=10)
    assert state.shared.n_rows.tolist() == [3, -1]
    assert 2 * state.rows[0].pointers[3] < n_entries(state.matrices[0])
    want, _ = opauc_s(X, y, 0.01, 2**-8, 10)
    assert_close(state.coef(60)[:, 0], want)


def test_rows_without_features_and_one_class_at_first():
    X, y = examples(200, 15, "late")
    X[::3] = 0.0
    X[:5] = 0.0
    assert_close(OPAUCS(eta=0.02, tau=2).fit(X, y).coef_[0], opauc_s(X, y, 0.02, 2**-8, 2)[0])
    learner = OPAUCS(tau=2).partial_fit(X[:50], y[:50], classes=[-1, 1])
    assert not learner.coef_.any()
    learner.partial_fit(np.zeros((3, 15)), [1, -1, 1])
    assert np.isfinite(learner.coef_).all()


@pytest.mark.parametrize("slack", [0, 1.0])
def test_products_that_overflow_are_a_divergence(slack):
    X, bits = np.zeros((6, 40)), np.arange(8)
    for k in range(4):
        X[k, :8] = np.where(bits >> k & 1, -1e200, 1e200)
    X[4, 20:25], X[5, 30] = 1e200, 1.0
    with pytest.raises(DivergenceError):
        OPAUCS(eta=1e-3, tau=1, slack=slack).fit(X, [1, 1, 1, 1, 1, -1])


def test_states_have_the_same_bytes_whatever_was_in_memory():
    X, y = examples(300, 40, "sparse")
    pickled = []
    for value in (0.0, -7e77):
        learner = OPAUCS(tau=3)
        for start in range(0, 300, 20):
            for size in (64, *range(100, 4000, 50)):  # free memory of all sizes that arrays may come from
                np.full(size, value)
            learner.partial_fit(X[start : start + 20], y[start : start + 20], classes=[-1, 1])
        pickled.append(pickle.dumps(learner))
    assert pickled[0] == pickled[1]


def test_float32_and_duplicate_entries():
    X, y = examples(100, 12, "sparse")
    X = X.astype(np.float32)
    doubled = sparse.csr_matrix(X)
    doubled = sparse.csr_matrix(
        (np.repeat(doubled.data / 2, 2), np.repeat(doubled.indices, 2), 2 * doubled.indptr), shape=X.shape
    )
    want = OPAUCS(tau=2).fit_grid(X.astype(float), y, GRID)
    np.testing.assert_array_equal(OPAUCS(tau=2).fit_grid(X, y, GRID), want)
    np.testing.assert_array_equal(OPAUCS(tau=2).fit_grid(doubled, y, GRID), want)


def test_cost_grows_with_stored_entries():
    learner = OPAUCS()
    few, many = (learner.cost(n, 50_000, 80, 299) for n in (10, 20_000))
    assert many[0] > 2000 * few[0]
    assert many[1] >= few[1]
    assert learner.cost(20_000, 50_000, 80, 299)[0] <= 20_000 * learner.seconds_per_row(50_000, 80, 299)
