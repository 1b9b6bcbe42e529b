"""Averages of the weights along a pass: against sums written out, and inside of a tuned pass."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.metrics import roc_auc_score
from test_streaming import write

from opauc_bench.learners import get_learner
from opauc_bench.streaming.averages import AveragedWeights
from opauc_bench.streaming.model import LinearModel
from opauc_bench.streaming.tuning import Candidate, TunedModel

CLASSES = np.array([-1.0, 1.0])
N = 70_000


def average(weights, ends):
    """Weights after n rows count n^8 - m^8 times, those before having come after m rows."""
    weights = [np.atleast_1d(w) for w in weights]
    counts = np.diff([0.0, *(float(end) ** 8 for end in ends)])
    width = max(len(w) for w in weights)
    wide = [np.pad(w, [(0, width - len(w))] + [(0, 0)] * (w.ndim - 1)) for w in weights]
    return np.average(wide, axis=0, weights=counts)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=12), st.integers(0, 2**32 - 1))
def test_the_sum_written_out(widths, seed):
    rng = np.random.default_rng(seed)
    weights = [rng.standard_normal((width, 3)) for width in sorted(widths)]
    intercepts = rng.standard_normal((len(weights), 3))
    ends = np.cumsum(rng.integers(1, 50, len(weights)))
    averages = AveragedWeights(3)
    for w, b, end in zip(weights, intercepts, ends.tolist()):
        averages.add(w, b, end)
    expected = average(weights, ends)
    np.testing.assert_allclose(averages.at(None, 6), np.pad(expected, [(0, 6 - len(expected)), (0, 0)]), atol=1e-12)
    np.testing.assert_allclose(averages.intercepts, average(intercepts, ends), atol=1e-12)

    features = rng.permutation(6)[:4]  # some of which no weights had
    X = sparse.random_array((7, 4), density=0.5, rng=rng, format="csr")
    of_features = np.pad(expected, [(0, 6 - len(expected)), (0, 0)])[features]
    np.testing.assert_allclose(averages.score_rows(features, X), X @ of_features, atol=1e-12)
    np.testing.assert_array_equal(averages.score_rows(None, X), X @ averages.at(None, 4))

    back = AveragedWeights.restored(averages.snapshot(), 3)
    for one in (averages, back):
        one.keep(np.array([2, 0]))
        one.add(np.ones((6, 2)), np.zeros(2), 1000)
    np.testing.assert_array_equal(back.weights, averages.weights)
    kept = average([*(w[:, [2, 0]] for w in weights), np.ones((6, 2))], [*ends, 1000])
    np.testing.assert_allclose(back.weights, kept, atol=1e-12)


@pytest.mark.parametrize("change", [{"weights": np.zeros((3, 2))}, {"intercepts": np.zeros(2)}, {"n_rows": 0}])
def test_a_state_that_does_not_fit_is_refused(change):
    averages = AveragedWeights(3)
    averages.add(np.zeros((4, 3)), np.zeros(3), 10)
    with pytest.raises(ValueError, match="not those of its settings"):
        AveragedWeights.restored(averages.snapshot() | change, 3)


@pytest.fixture(scope="module")
def noisy():
    """Rows whose labels are mostly noise, and settings with so large steps that the last weights are, too."""
    rng = np.random.default_rng(0)
    X = sparse.random_array((N, 6), density=0.6, rng=rng, data_sampler=rng.standard_normal, format="csr")
    late = np.where(np.arange(N) < 50_000, 0.0, 1.0)  # a feature that comes late
    X = sparse.csr_matrix(sparse.hstack([X[:, :5], sparse.diags_array(late) @ X[:, 5:]]))
    X.eliminate_zeros()
    return X, X @ np.arange(1.0, 7.0) + 8.0 * rng.standard_normal(N) > 4.0


NOISY = {
    "ftrl_auc": ({}, {"gamma": np.array([64.0, 128.0]), "l1": np.zeros(2)}),
    "uni_log": ({"intercept": True}, {"eta": np.array([0.5, 1.0])}),
}


def tuned(X, positive, name, cuts=()):
    parameters, grid = NOISY[name]
    model = TunedModel([Candidate(name, get_learner(name)(**parameters), grid)], window=100_000)
    for start, stop in zip([0, *cuts], [*cuts, N]):
        if start:
            model = TunedModel.restored(model.snapshot())
        piece = X[start:stop]
        model.learn(piece[:, : piece.indices.max() + 1], positive[start:stop])
    return model


@pytest.mark.parametrize("name", NOISY)
def test_noisy_weights_are_averaged(noisy, name):
    """The weights and the AUC that is reported are those of a pass by hand, whether an intercept is trained or not."""
    X, positive = noisy
    model = tuned(X, positive, name)
    learner, best = model.finish(CLASSES), model.leaderboard[0]
    assert [one["averaged"] for one in model.leaderboard] == [True, False]

    alone, taken, intercepts, scores = get_learner(name)(**best["parameters"]), [], [], []
    ends = [*range(32768, N, 2048)]
    blocks = [
        0,
        *range(64, 8192, 64),
        *range(8192, 16384, 128),
        *range(16384, 32768, 256),
        *range(32768, 65536, 512),
        *range(65536, N, 1024),
        N,
    ]
    pairs = ordered = 0.0
    for start, stop in pairwise(blocks):
        block, of = X[start:stop], positive[start:stop]
        if start:
            trains = alone.trained_intercepts() is not None
            w, b = (
                (average(taken, ends[: len(taken)]), average(intercepts, ends[: len(taken)]))
                if taken
                else (alone.coef_[0], alone.intercept_[0])
            )
            scores.append(block @ w + (b if trains else 0.0))
            if start >= N - model.n_in_window:
                n = of.sum() * (~of).sum()
                pairs, ordered = pairs + n, ordered + n * roc_auc_score(of, scores[-1])
        alone.partial_fit(block, np.where(of, 1.0, -1.0), classes=CLASSES)
        if stop in ends:
            taken.append(alone.coef_[0].copy())
            intercepts.append(alone.intercept_[0])
    assert best["auc"] == pytest.approx(ordered / pairs, abs=1e-9)
    np.testing.assert_allclose(learner.coef_[0], average(taken, ends), rtol=1e-9)
    recent, _ = model.recent()
    np.testing.assert_allclose(recent, np.concatenate(scores)[-len(recent) :], rtol=1e-8, atol=1e-9)
    if alone.trained_intercepts() is None:
        means = [X[members].mean(axis=0) @ learner.coef_[0] for members in (positive, ~positive)]
        assert learner.intercept_[0] == pytest.approx(-np.mean(means))
    else:
        assert learner.intercept_[0] == pytest.approx(average(intercepts, ends)[0])


@pytest.mark.parametrize("cuts", [(32_768,), (5000, 34_100, 65_536, 69_999)])
def test_a_pass_in_several_sessions_has_the_same_averages(noisy, cuts):
    X, positive = noisy
    whole, piecewise = tuned(X, positive, "uni_log"), tuned(X, positive, "uni_log", cuts)
    one, other = (model.finish(CLASSES) for model in (whole, piecewise))
    np.testing.assert_array_equal(one.coef_, other.coef_)
    np.testing.assert_array_equal(one.intercept_, other.intercept_)
    assert whole.leaderboard == piecewise.leaderboard
    assert whole.leaderboard[0]["averaged"]


def test_the_command_says_so(noisy, command, tmp_path):
    X, positive = noisy
    write(tmp_path / "noisy.svm", X, np.where(positive, 1, -1))
    options = ("--learner", "ftrl_auc", "--gamma", 64, "--out", "model.npz")
    done = command("train", "noisy.svm", *options, cwd=tmp_path)
    shown = command("model", "show", "model.npz", cwd=tmp_path)
    for lines in (done.stdout, shown.stdout):
        assert "best, averaged" in lines
        assert "6 of 6 are not 0, averaged over the end of the pass" in lines
    weights = LinearModel.load(tmp_path / "model.npz").weights
    steep = get_learner("ftrl_auc")(gamma=64.0, l1=0.0).fit(X, np.where(positive, 1, -1))
    assert np.linalg.norm(weights) < 0.9 * np.linalg.norm(steep.coef_)


def test_one_setting_is_not_averaged(noisy):
    X, positive = noisy
    model = TunedModel([Candidate("nag", get_learner("nag")(eta=8.0))], window=100_000)
    model.learn(X, positive)
    learner = model.finish(CLASSES)
    assert not model.leaderboard[0]["averaged"]
    alone = get_learner("nag")(eta=8.0).fit(X, np.where(positive, 1.0, -1.0))
    np.testing.assert_allclose(learner.coef_, alone.coef_, rtol=1e-12)


def test_small_steps_keep_their_last_weights(noisy):
    """Weights that still grow towards the best are not averaged."""
    X, positive = noisy
    grid = {"eta": 2.0 ** np.array([-22.0, -21.0])}
    model = TunedModel([Candidate("uni_log", get_learner("uni_log")(), grid)], window=100_000)
    model.learn(X, positive)
    learner = model.finish(CLASSES)
    assert not any(one["averaged"] for one in model.leaderboard)
    assert learner.coef_[0] == pytest.approx(learner.current_weights()[: X.shape[1]])
