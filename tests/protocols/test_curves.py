"""What figures measure, against slow loops: sweeps, learning curves, training times."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.examples import examples
from scipy import sparse
from sklearn.metrics import roc_auc_score

from opauc_bench.evaluation.auc import auc_columns
from opauc_bench.evaluation.splits import Split
from opauc_bench.learners import get_learner
from opauc_bench.protocols import Timing
from opauc_bench.protocols.context import TaskContext
from opauc_bench.protocols.convergence import checkpoints, learning_curve
from opauc_bench.protocols.sweep import sweep

X, Y = examples(240, 6)
TRAIN, TEST = np.random.default_rng(1).permutation(240)[:160], np.arange(200, 240)
GRID = {"eta": np.array([2.0**-8, 2.0**-4, 2.0**9]), "lam": np.array([0.01, 0.5, 4.0])}


def context_of(learner, X=X, grid=GRID, **options):
    task = SimpleNamespace(selected={axis: float(values[0]) for axis, values in grid.items()})
    return TaskContext(task, SimpleNamespace(X=X, y=Y), learner, grid, **options)


def swept(learner, X=X, grid=GRID, sets=None, **options):
    return sweep(context_of(learner, X, grid, **options), TRAIN, sets or {"auc": TEST}, auc_columns)


def fitted(learner, setting, rows):
    return get_learner(learner)(**setting).fit(X[rows], Y[rows])


def slow_auc(weights, rows=TEST):
    return roc_auc_score(Y[rows], X[rows] @ weights)


# ---------------------------------------------------------------------- sweeps


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix, lambda X: X.astype(np.float32).astype(np.float64)])
def test_sweep_equals_loop_over_settings(form):
    learner = get_learner("ftrl_auc")()
    grid = {"gamma": np.array([0.1, 1.0, 0.1]), "l1": np.array([1e-3, 1.0, 100.0])}
    found = swept(learner, form(X), grid, {"auc": TEST, "validation_auc": np.arange(160, 200)})
    for k in range(3):
        setting = {axis: values[k] for axis, values in grid.items()}
        weights = get_learner("ftrl_auc")(**setting).fit(form(X)[TRAIN], Y[TRAIN]).coef_[0]
        assert found["auc"][k] == pytest.approx(slow_auc(weights), abs=1e-12)
        assert found["validation_auc"][k] == pytest.approx(slow_auc(weights, np.arange(160, 200)), abs=1e-12)
        assert found["sparse_ratio"][k] == np.mean(weights != 0)
    assert found["sparse_ratio"][2] == 0.0
    assert found["auc"][2] == 0.5


def test_sweep_gives_nan_for_diverged_settings():
    found = swept(get_learner("opauc")())
    assert np.isfinite(found["auc"]).tolist() == [True, True, False]
    assert np.isfinite(found["sparse_ratio"]).tolist() == [True, True, False]


def test_sweep_in_blocks_continues_after_an_interruption():
    whole = swept(get_learner("opauc")())
    seen = []

    def keep(found):
        seen.append(sorted(found["sweep"]))

    one_at_a_time = swept(get_learner("opauc")(), memory_bytes=1, keep=keep)
    kept = {"1": {"auc": 0.125, "sparse_ratio": 0.5}}
    resumed = swept(get_learner("opauc")(), partial={"sweep": kept})
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
def test_learning_curve_equals_training_on_the_first_rows(learner, setting):
    at = np.array([1, 7, 16, 17, 100, 160])
    seed = {"random_state": 0} if "random_state" in get_learner(learner)().get_params() else {}
    aucs, seconds = learning_curve(context_of(get_learner(learner)(**seed)), setting, TRAIN, TEST, at, auc_columns)
    for n, auc in zip(at[1:], aucs[1:]):
        rows = TRAIN[:n]
        assert len(np.unique(Y[rows])) == 2
        weights = get_learner(learner)(**setting, **seed).fit_grid(
            X, Y, {axis: np.array([value]) for axis, value in setting.items()}, order=rows
        )
        assert auc == pytest.approx(slow_auc(weights[:, 0]), abs=1e-9)
    assert (np.diff(seconds) >= 0).all()


def test_stops_do_not_change_the_weights():
    grid = {"eta": np.array([2.0**-6]), "lam": np.array([0.01])}
    plain = get_learner("opauc")().fit_grid(X, Y, grid, order=TRAIN)
    looked = get_learner("opauc")().fit_grid(
        X, Y, grid, order=TRAIN, stops=[5, 50], on_stop=lambda n, weights: weights()
    )
    np.testing.assert_allclose(looked, plain, rtol=1e-12)


def test_learning_curve_is_nan_from_an_overflow_on():
    context, setting = context_of(get_learner("opauc")()), {"eta": 2.0**9, "lam": 4.0}
    aucs, seconds = learning_curve(context, setting, TRAIN, TEST, np.arange(1, 161), auc_columns)
    alive = np.isfinite(aucs)
    assert alive[0]
    assert not alive[-1]
    assert (np.diff(alive.astype(int)) <= 0).all()
    assert (np.isfinite(seconds) == alive).all()


def test_stops_are_independent_of_chunks():
    seen = []
    get_learner("opauc")().fit_grid(
        X, Y, GRID, order=TRAIN, stops={3, 16, 20, 999}, on_stop=lambda n, weights: seen.append((n, weights().shape))
    )
    assert seen == [(3, (6, 3)), (16, (6, 3)), (20, (6, 3))]


def test_learning_time_excludes_scoring():
    clock = []

    def slow_score(y, scores):
        total = 0.0
        for k in range(300_000):
            total += k
        clock.append(total)
        return np.array([0.5])

    setting = {"eta": 2.0**-6, "lam": 0.01}
    context = context_of(get_learner("opauc")())
    _, slow = learning_curve(context, setting, TRAIN, TEST, np.arange(1, 41), slow_score)
    _, plain = learning_curve(context, setting, TRAIN, TEST, np.array([40]), auc_columns)
    assert len(clock) == 40
    # Forty looks of some 10 ms each; forty rows take less than one of them.
    assert slow[-1] < 0.2 + plain[-1]


# ---------------------------------------------------------------------- times


def test_timing_repeats_the_same_pass():
    passes = []

    class Learner:
        def fit_grid(self, *arguments, **options):
            passes.append(get_learner("opauc")().fit_grid(*arguments, **options))
            return passes[-1]

    setting = {"eta": 2.0**-6, "lam": 0.01}
    context = context_of(Learner(), grid={axis: np.array([value]) for axis, value in setting.items()})
    protocol = Timing(repeats=3)
    object.__setattr__(protocol, "make_split", lambda context: Split(TRAIN, TEST, 0))
    content = protocol.compute(context)
    assert (content["status"], content["outcome"]["selected"]) == ("ok", setting)
    timing = content["timing"]
    assert len(passes) == len(timing["passes"]["seconds"]) == len(timing["passes"]["wall_seconds"]) == 3
    assert timing["columns"]["wall_seconds"] == [sorted(timing["passes"]["wall_seconds"])[1]]
    assert min(timing["passes"]["wall_seconds"]) > 0
    expected = fitted("opauc", setting, TRAIN).coef_.T
    for coef in passes:
        np.testing.assert_allclose(coef, expected, rtol=1e-10)
