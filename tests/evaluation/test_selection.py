"""Inner cross-validation is a plain loop over settings and folds, only faster; and how the best setting is chosen."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.examples import examples
from scipy import sparse
from sklearn.metrics import roc_auc_score

from opauc_bench.evaluation import selection
from opauc_bench.evaluation.selection import cross_validate, evaluate_models, ranking
from opauc_bench.evaluation.splits import random_folds
from opauc_bench.learners import OPAUC, DivergenceError, UniLog
from opauc_bench.learners.estimator import FittedEstimators
from opauc_bench.learners.oam.oam import OAMSeq

SEED = 11
GRID = {"eta": np.array([2**-8, 2**-6, 2**-4, 2**-2]), "lam": np.array([2**-8, 2**-2, 2**-8, 2**-2])}
PROTOCOL = {"inner_folds": 3, "stratified": True, "seed": SEED}


@pytest.fixture(scope="module")
def data():
    X, y = examples(200, 4, seed=3)
    rows = np.random.default_rng(1).permutation(200)[:150]
    return X, y, rows


def by_a_loop(learner, X, y, grid, rows):
    """Fit one setting at a time on the rows of one inner training set in their order; score with scikit-learn."""
    assigned = random_folds(y[rows], 3, np.random.default_rng([SEED, 1]))
    n_settings = len(next(iter(grid.values())))
    aucs = np.full((3, n_settings), np.nan)
    for fold in range(3):
        train, held_out = rows[assigned != fold], rows[assigned == fold]
        for g in range(n_settings):
            learner.set_params(**{axis: float(values[g]) for axis, values in grid.items()})
            try:
                scores = learner.fit(X[train], y[train]).decision_function(X[held_out])
            except DivergenceError:
                continue
            aucs[fold, g] = roc_auc_score(y[held_out], scores)
    return aucs


@pytest.mark.parametrize("learner", [OPAUC(), UniLog(), OAMSeq(buffer_size=10, random_state=3)], ids=repr)
@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_matrix], ids=["dense", "csr"])
def test_cross_validate_equals_loop_over_settings_and_folds(data, learner, storage):
    X, y, rows = data
    grid = {axis: GRID[axis] for axis in learner.grid_axes}
    found = cross_validate(learner, storage(X), y, grid, rows, **PROTOCOL)
    assert found.shape == (3, 4)
    assert len(np.unique(found)) > 6, "settings and folds have to differ for this to tell anything"
    np.testing.assert_allclose(found, by_a_loop(learner, storage(X), y, grid, rows), rtol=0, atol=1e-12)


class Recorder:
    """Remembers which rows it was given, in which order."""

    grid_axes = ("eta",)

    def __init__(self):
        self.orders = []

    def fit_grid(self, X, y, grid, order, on_chunk):
        self.orders.append(order.tolist())
        if on_chunk is not None:
            on_chunk(len(order))
        return np.ones((X.shape[1], len(grid["eta"])))


def test_inner_training_sets_keep_the_order_of_the_outer_one(data):
    X, y, rows = data
    learner = Recorder()
    cross_validate(learner, X, y, {"eta": np.ones(2)}, rows, **PROTOCOL)
    assert len(learner.orders) == 3
    for order in learner.orders:
        assert order == [row for row in rows if row in set(order)]
    held_out = [set(rows) - set(order) for order in learner.orders]
    assert sorted(row for part in held_out for row in part) == sorted(rows)


def test_inner_folds_depend_on_the_seed_of_the_outer_fold(data):
    X, y, rows = data

    def orders(seed):
        learner = Recorder()
        cross_validate(learner, X, y, {"eta": np.ones(1)}, rows, **{**PROTOCOL, "seed": seed})
        return learner.orders

    assert orders(1) == orders(1)
    assert orders(1) != orders(2)


def test_cross_validate_ignores_rows_outside_the_training_set(data):
    X, y, rows = data
    others = np.setdiff1d(np.arange(len(y)), rows)
    spoilt_X, spoilt_y = X.copy(), y.copy()
    spoilt_X[others], spoilt_y[others] = 1e6, -y[others]
    clean = cross_validate(OPAUC(), X, y, GRID, rows, **PROTOCOL)
    spoilt = cross_validate(OPAUC(), spoilt_X, spoilt_y, GRID, rows, **PROTOCOL)
    assert clean.tolist() == spoilt.tolist()


def test_finished_folds_are_not_computed_again(data):
    X, y, rows = data
    whole = cross_validate(OPAUC(), X, y, GRID, rows, **PROTOCOL)
    learner, reported = Recorder(), []
    left = np.array([np.nan, 0.25, 0.5, 0.75])
    resumed = cross_validate(
        learner,
        X,
        y,
        GRID,
        rows,
        **PROTOCOL,
        finished={0: whole[0], 2: left},
        on_fold=lambda fold, aucs: reported.append((fold, len(aucs))),
    )
    assert len(learner.orders) == 1
    assert reported == [(1, 4)]
    assert resumed[0].tolist() == whole[0].tolist()
    np.testing.assert_array_equal(resumed[2], left)


def test_resuming_gives_the_same_bits(data):
    X, y, rows = data
    kept = {}
    whole = cross_validate(OPAUC(), X, y, GRID, rows, **PROTOCOL, on_fold=kept.__setitem__)
    assert list(kept) == [0, 1, 2]
    for done in (1, 2, 3):
        finished = {fold: kept[fold] for fold in range(done)}
        assert cross_validate(OPAUC(), X, y, GRID, rows, **PROTOCOL, finished=finished).tolist() == (whole.tolist())
        assert list(finished) == list(range(done)), "the caller's dict is not to be changed"


def test_progress_and_limits_reach_the_learner(data):
    class Stop(Exception):
        pass

    def stop(consumed):
        raise Stop

    X, y, rows = data
    with pytest.raises(Stop):
        cross_validate(OPAUC(), X, y, GRID, rows, **PROTOCOL, on_chunk=stop)


def test_settings_that_overflow_are_nan_and_do_not_affect_the_others(data):
    X, y, rows = data
    grid = {"eta": np.array([2**-6, 2.0**30, 2**-4]), "lam": np.full(3, 2**-6)}
    with_it = cross_validate(OPAUC(), X, y, grid, rows, **PROTOCOL)
    without = cross_validate(OPAUC(), X, y, {axis: values[[0, 2]] for axis, values in grid.items()}, rows, **PROTOCOL)
    assert np.isnan(with_it[:, 1]).all()
    np.testing.assert_allclose(with_it[:, [0, 2]], without, rtol=0, atol=1e-12)
    assert 1 not in ranking(with_it.mean(axis=0))


def test_setting_that_overflows_in_one_fold_is_not_ranked():
    aucs = np.array([[0.9, 0.8], [np.nan, 0.7]])
    np.testing.assert_array_equal(aucs.mean(axis=0), [np.nan, 0.75])
    assert ranking(aucs.mean(axis=0)).tolist() == [1]


def test_too_few_rows_for_the_inner_folds_is_an_error(data):
    X, y, _ = data
    rows = np.concatenate([np.flatnonzero(y == 1)[:2], np.flatnonzero(y == -1)])
    with pytest.raises(ValueError, match="3 folds need at least 3 rows of each class; there are 2 positive"):
        cross_validate(OPAUC(), X, y, GRID, rows, **PROTOCOL)


# ---------------------------------------------------------------------- scores


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("block_bytes", [1, 32 * 7, 64e6])
def test_score_columns_equals_scikit_learn_for_all_block_lengths(data, storage, block_bytes, monkeypatch):
    monkeypatch.setattr(selection, "_BLOCK_BYTES", block_bytes)
    X, y, rows = data
    coef = np.random.default_rng(0).standard_normal((4, 3))
    coef[2, 1] = np.nan
    aucs = evaluate_models(storage(X), y[rows], rows, coef)
    expected = [roc_auc_score(y[rows], X[rows] @ coef[:, g]) for g in (0, 2)]
    np.testing.assert_allclose(aucs[[0, 2]], expected, rtol=0, atol=1e-12)
    assert np.isnan(aucs[1])


@pytest.mark.parametrize(("dense", "n", "longest"), [(False, 2100, 1024), (True, 20, 8)])
def test_rows_of_a_million_features_are_scored_many_at_once_unless_they_are_made_dense(dense, n, longest):
    class FirstFeature:
        def __init__(self):
            self.lengths = []

        def decision_function(self, X):
            self.lengths.append(X.shape[0])
            return X[:, [0]] @ np.ones(1)

    rng = np.random.default_rng(0)
    first, y, rows = rng.integers(1, 9, size=n), np.where(np.arange(n) % 3, 1, -1), np.arange(n)
    X = sparse.csr_matrix((first, (rows, np.zeros(n, dtype=int))), shape=(n, 1_000_001), dtype=float)
    estimator = FirstFeature()
    [auc] = evaluate_models(X, y, rows, FittedEstimators([estimator], dense))
    assert (sum(estimator.lengths), max(estimator.lengths)) == (n, longest)
    assert auc == pytest.approx(roc_auc_score(y, first))


@pytest.mark.parametrize("n_settings", [1, 5, 23])
def test_equal_rows_have_equal_scores_wherever_they_are(n_settings):
    rng = np.random.default_rng(0)
    for n, d in ((123, 8), (107, 13), (153, 60)):
        copied = rng.integers(4, size=n)
        X, y, rows = rng.standard_normal((4, d))[copied], rng.choice([-1, 1], n), np.arange(n)
        X[copied == 0] = rng.choice([-0.0, 0.0], (np.count_nonzero(copied == 0), d))
        W = rng.standard_normal((d, n_settings))
        scores = (np.unique(X, axis=0) @ W)[np.unique(X, axis=0, return_inverse=True)[1]]
        expected = [roc_auc_score(y, column) for column in scores.T]
        np.testing.assert_allclose(evaluate_models(X, y, rows, W), expected, rtol=0, atol=1e-14)
        first, _ = selection.scores_and_probabilities(X, rows, W[:, :1], lambda n_rows: None)
        assert len(np.unique(first)) == 4


@pytest.mark.parametrize("n_settings", [1, 5, 23])
def test_rows_that_differ_where_weights_are_zero_have_equal_scores_wherever_they_are(n_settings, monkeypatch):
    rng = np.random.default_rng(0)
    for n, d in ((43, 110), (42, 150), (7, 300)):
        X, W = np.hstack([np.tile(rng.standard_normal(d), (n, 1)), np.eye(n)]), np.zeros((d + n, n_settings))
        W[:d] = rng.standard_normal((d, n_settings))
        for block_bytes in (64e6, 8 * (d + n) * 9):
            monkeypatch.setattr(selection, "_BLOCK_BYTES", block_bytes)
            y = np.where(np.arange(n) < 3, 1, -1)
            np.testing.assert_array_equal(evaluate_models(X, y, np.arange(n), W), 0.5)


def test_scores_that_overflow_are_nan_without_a_warning(data):
    X, y, rows = data
    coef = np.column_stack([np.full(4, 1e308), np.ones(4)])
    aucs = evaluate_models(X * 4, y[rows], rows, coef)
    assert np.isnan(aucs[0])
    assert aucs[1] == pytest.approx(roc_auc_score(y[rows], X[rows].sum(axis=1)))


def test_score_columns_gives_nan_without_finite_weights(data):
    X, y, rows = data
    np.testing.assert_array_equal(evaluate_models(X, y[rows], rows, np.full((4, 2), np.inf)), [np.nan, np.nan])


# ---------------------------------------------------------------------- the choice


@pytest.mark.parametrize(
    ("means", "order"),
    [
        ([0.7, 0.9, 0.8], [1, 2, 0]),
        ([0.9, 0.9, 0.9], [0, 1, 2]),
        ([0.9, 0.9 + 1e-13, 0.8], [0, 1, 2]),
        ([0.9, 0.9 + 1e-11, 0.8], [1, 0, 2]),
        ([np.nan, 0.5, np.nan, 0.6], [3, 1]),
        ([np.nan, np.nan], []),
        ([], []),
    ],
)
def test_ranking_puts_the_best_first_and_the_first_of_equals(means, order):
    assert ranking(np.array(means, dtype=float)).tolist() == order


@given(st.lists(st.sampled_from([0.5, 0.75, 1.0, np.nan]), max_size=300))
def test_ranking_equals_its_rule_as_a_loop(means):
    left, order = {i: mean for i, mean in enumerate(means) if not np.isnan(mean)}, []
    while left:
        best = max(left.values())
        order.append(next(i for i in sorted(left) if left[i] == best))
        del left[order[-1]]
    assert ranking(np.array(means)).tolist() == order


def test_grid_that_exceeds_memory_is_trained_in_blocks():
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (200, 4)), np.where(rng.random(200) < 0.4, 1, -1).astype(np.int8)
    grid = {"eta": 2.0 ** np.arange(-8, 2)}
    passes = []

    class Watched(UniLog):
        def fit_grid(self, X, y, grid, **options):
            passes.append(len(grid["eta"]))
            return super().fit_grid(X, y, grid, **options)

    split = {"inner_folds": 2, "stratified": True, "seed": 3}
    whole = cross_validate(Watched(), X, y, grid, np.arange(200), **split)
    budget = Watched().cost(100, 4, 4.0, 4)[1] / 0.7
    parts = cross_validate(Watched(), X, y, grid, np.arange(200), memory_bytes=budget, **split)
    nothing = cross_validate(Watched(), X, y, grid, np.arange(200), memory_bytes=1.0, **split)
    assert passes == [10, 10] + [4, 3, 3] * 2 + [10, 10]
    np.testing.assert_array_equal(parts, whole)
    np.testing.assert_array_equal(nothing, whole)


def test_limits_are_checked_while_rows_are_scored(monkeypatch):
    monkeypatch.setattr(selection, "_BLOCK_BYTES", 1)
    monkeypatch.setattr(selection, "_AUCS_AT_ONCE", 2)
    X, y = examples(20, 3)
    done = []
    evaluate_models(X, y, np.arange(20), np.ones((3, 5)), on_chunk=done.append)
    assert done == [8, 16, 20, 20, 20, 20]


class NarrowProbabilities:
    dense = False

    def finite(self):
        return np.array([True])

    def scores(self, X):
        return np.ones((X.shape[0], 1))

    def probabilities(self, X):
        return np.full((X.shape[0], 1), 0.5, dtype=np.float32)


def test_probabilities_keep_the_precision_that_decides_where_their_logarithm_is_cut_off():
    found = selection.scores_and_probabilities(
        np.ones((4, 2)), np.arange(4), NarrowProbabilities(), lambda n: None, True
    )
    assert found[1].dtype == np.float32
