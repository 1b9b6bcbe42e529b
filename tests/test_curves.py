"""What figures measure, against slow loops: sweeps, learning curves, training times."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.examples import examples
from scipy import sparse
from sklearn.metrics import roc_auc_score

from opauc_bench.evaluation.convergence import checkpoints, learning_curve
from opauc_bench.evaluation.sweep import sweep
from opauc_bench.evaluation.timing import time_training
from opauc_bench.learners import get_learner

X, Y = examples(240, 6)
TRAIN, TEST = np.random.default_rng(1).permutation(240)[:160], np.arange(200, 240)
GRID = {"eta": np.array([2.0**-8, 2.0**-4, 2.0**9]), "lam": np.array([0.01, 0.5, 4.0])}


def fitted(learner, setting, rows):
    return get_learner(learner)(**setting).fit(X[rows], Y[rows])


def slow_auc(weights, rows=TEST):
    return roc_auc_score(Y[rows], X[rows] @ weights)


# ---------------------------------------------------------------------- sweeps


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix, lambda X: X.astype(np.float32).astype(np.float64)])
def test_a_sweep_is_a_loop_over_settings(form):
    learner = get_learner("ftrl_auc")()
    grid = {"gamma": np.array([0.1, 1.0, 0.1]), "l1": np.array([1e-3, 1.0, 100.0])}
    found = sweep(learner, form(X), Y, grid, TRAIN, {"auc": TEST, "validation_auc": np.arange(160, 200)})
    for k in range(3):
        setting = {axis: values[k] for axis, values in grid.items()}
        weights = get_learner("ftrl_auc")(**setting).fit(form(X)[TRAIN], Y[TRAIN]).coef_[0]
        assert found["auc"][k] == pytest.approx(slow_auc(weights), abs=1e-12)
        assert found["validation_auc"][k] == pytest.approx(slow_auc(weights, np.arange(160, 200)), abs=1e-12)
        assert found["sparse_ratio"][k] == np.mean(weights != 0)
    assert found["sparse_ratio"][2] == 0.0
    assert found["auc"][2] == 0.5


def test_what_diverges_has_no_number_at_all():
    found = sweep(get_learner("opauc")(), X, Y, GRID, TRAIN, {"auc": TEST})
    assert np.isfinite(found["auc"]).tolist() == [True, True, False]
    assert np.isfinite(found["sparse_ratio"]).tolist() == [True, True, False]


def test_a_sweep_in_blocks_goes_on_where_it_was_interrupted():
    whole = sweep(get_learner("opauc")(), X, Y, GRID, TRAIN, {"auc": TEST})
    seen = []

    def on_block(found):
        seen.append(sorted(found))

    one_at_a_time = sweep(get_learner("opauc")(), X, Y, GRID, TRAIN, {"auc": TEST}, memory_bytes=1, on_block=on_block)
    kept = {1: {"auc": 0.125, "sparse_ratio": 0.5}}
    resumed = sweep(get_learner("opauc")(), X, Y, GRID, TRAIN, {"auc": TEST}, finished=kept)
    assert seen[-1] == [0, 1, 2]
    np.testing.assert_allclose(one_at_a_time["auc"], whole["auc"], rtol=1e-12)
    assert resumed["auc"][1] == 0.125
    np.testing.assert_allclose(resumed["auc"][[0, 2]], whole["auc"][[0, 2]], rtol=1e-12)


# ---------------------------------------------------------------------- points along a pass


@given(st.integers(1, 10**6), st.integers(2, 200), st.sampled_from(["linear", "log"]))
def test_checkpoints_increase_and_end_with_the_last_row(n_rows, n_points, spacing):
    at = checkpoints(n_rows, n_points, spacing)
    assert at[-1] == n_rows
    assert at[0] >= 1
    assert (np.diff(at) > 0).all()
    assert 1 <= len(at) <= n_points


def test_checkpoints_are_even_steps_or_even_ratios():
    assert checkpoints(100, 4).tolist() == [25, 50, 75, 100]
    assert checkpoints(3, 10).tolist() == [1, 2, 3]
    assert checkpoints(10_000, 4, "log").tolist() == [10, 100, 1000, 10_000]
    assert checkpoints(5, 3, "log").tolist() == [5]


@pytest.mark.parametrize(
    ("learner", "setting"),
    [
        ("opauc", {"eta": 2.0**-6, "lam": 0.01}),
        ("oam_seq", {"eta": 0.05}),
        ("oam_gra", {"eta": 0.05}),
        ("uni_log", {"eta": 0.1}),
        ("ftrl_auc", {"gamma": 0.5, "l1": 1e-3}),
        ("spauc", {"mu": 1e-3, "l1": 1e-4}),
    ],
)
def test_a_learning_curve_is_training_anew_on_the_first_rows(learner, setting):
    at = np.array([1, 7, 16, 17, 100, 160])
    seed = {"random_state": 0} if "random_state" in get_learner(learner)().get_params() else {}
    curve = learning_curve(get_learner(learner)(**seed), X, Y, setting, TRAIN, TEST, at)
    assert curve.n_seen.tolist() == at.tolist()
    for n, auc in zip(at[1:], curve.auc[1:]):
        rows = TRAIN[:n]
        assert len(np.unique(Y[rows])) == 2
        weights = get_learner(learner)(**setting, **seed).fit_grid(
            X, Y, {axis: np.array([value]) for axis, value in setting.items()}, order=rows
        )
        assert auc == pytest.approx(slow_auc(weights[:, 0]), abs=1e-9)
    assert (np.diff(curve.cpu_seconds) >= 0).all()


def test_looking_changes_nothing():
    grid = {"eta": np.array([2.0**-6]), "lam": np.array([0.01])}
    plain = get_learner("opauc")().fit_grid(X, Y, grid, order=TRAIN)
    looked = get_learner("opauc")().fit_grid(
        X, Y, grid, order=TRAIN, stops=[5, 50], on_stop=lambda n, weights: weights()
    )
    np.testing.assert_allclose(looked, plain, rtol=1e-12)


def test_a_curve_ends_where_the_weights_overflow():
    curve = learning_curve(get_learner("opauc")(), X, Y, {"eta": 2.0**9, "lam": 4.0}, TRAIN, TEST, np.arange(1, 161))
    alive = np.isfinite(curve.auc)
    assert alive[0]
    assert not alive[-1]
    assert (np.diff(alive.astype(int)) <= 0).all()
    assert (np.isfinite(curve.cpu_seconds) == alive).all()


def test_stops_reach_their_rows_whatever_the_chunks():
    seen = []
    get_learner("opauc")().fit_grid(
        X, Y, GRID, order=TRAIN, stops={3, 16, 20, 999}, on_stop=lambda n, weights: seen.append((n, weights().shape))
    )
    assert seen == [(3, (6, 3)), (16, (6, 3)), (20, (6, 3))]


def test_learning_time_leaves_out_the_looking():
    clock = []

    def slow_score(y, scores):
        total = 0.0
        for k in range(300_000):
            total += k
        clock.append(total)
        return np.array([0.5])

    setting = {"eta": 2.0**-6, "lam": 0.01}
    curve = learning_curve(get_learner("opauc")(), X, Y, setting, TRAIN, TEST, np.arange(1, 41), slow_score)
    plain = learning_curve(get_learner("opauc")(), X, Y, setting, TRAIN, TEST, np.array([40]))
    assert len(clock) == 40
    # Forty looks of some 10 ms each; forty rows take less than one of them.
    assert curve.cpu_seconds[-1] < 0.2 + plain.cpu_seconds[-1]


# ---------------------------------------------------------------------- times


def test_times_are_of_separate_equal_passes():
    timing = time_training(get_learner("opauc")(), X, Y, {"eta": 2.0**-6, "lam": 0.01}, TRAIN, 3)
    assert timing.cpu.shape == timing.wall.shape == (3,)
    assert (timing.wall > 0).all()
    expected = fitted("opauc", {"eta": 2.0**-6, "lam": 0.01}, TRAIN).coef_.T
    np.testing.assert_allclose(timing.coef, expected, rtol=1e-10)
