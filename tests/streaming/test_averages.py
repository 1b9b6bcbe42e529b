"""Averages of the weights along a pass: against sums written out, and inside of a tuned pass."""

import re
from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.metrics import roc_auc_score
from streams import threshold, write

from opauc_bench.learners import get_learner
from opauc_bench.streaming import dropping
from opauc_bench.streaming.averages import AveragedWeights, is_due
from opauc_bench.streaming.leaderboard import shown_leaderboard
from opauc_bench.streaming.model import LinearModel
from opauc_bench.streaming.settings import candidates
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
    np.testing.assert_allclose(averages.score_rows(features, X)[0], X @ of_features, atol=1e-12)
    np.testing.assert_array_equal(averages.score_rows(None, X)[0], X @ averages.at(None, 4))

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
    with pytest.raises(ValueError, match="averages of the state"):
        AveragedWeights.restored(averages.snapshot() | change, 3)


# After how many rows weights are added to averages: at most 32 times while rows double, after whole blocks.
ENDS = [
    *range(1024, 4096, 64),
    *range(4096, 8192, 128),
    *range(8192, 16384, 256),
    *range(16384, 32768, 512),
    *range(32768, 65536, 1024),
    *range(65536, N, 2048),
]


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
STEEP = {
    "ftrl_auc": ({}, {"gamma": 2.0 ** np.arange(5, 9), "l1": np.zeros(4)}),
    "uni_log": ({"intercept": True}, {"eta": 2.0 ** np.arange(-2, 2)}),
    "nag": ({}, {"eta": 2.0 ** np.arange(6, 10)}),
}


def begun(grids, window=100_000):
    found = [Candidate(name, get_learner(name)(**fixed), grid) for name, (fixed, grid) in grids.items()]
    return TunedModel(found, window=window)


def learnt(X, positive, model, cuts=(), folder=None):
    """A pass in several sessions, with files between them; the numbers of settings after each."""
    counts = []
    for start, stop in pairwise([0, *cuts, N]):
        if start:
            blank = LinearModel(np.ones(1), 0.0, (-1.0, 1.0), "auto", {}, 1, True, False, False)
            LinearModel(**vars(blank) | {"state": model.snapshot()}).save(folder / "m.npz")
            model = TunedModel.restored(LinearModel.load(folder / "m.npz", with_state=True).state)
        piece = X[start:stop]
        model.learn(piece[:, : piece.indices.max() + 1], positive[start:stop])
        counts.append(len(model.live))
    return model, counts


@pytest.mark.parametrize("name", NOISY)
def test_noisy_weights_are_averaged(noisy, name):
    """The weights and the AUC that is reported are those of a pass by hand, whether an intercept is trained or not."""
    X, positive = noisy
    model, _ = learnt(X, positive, begun({name: NOISY[name]}))
    learner, best = model.finish(CLASSES), model.leaderboard[0]
    assert [one["averaged"] for one in model.leaderboard] == [True, False]

    alone, taken, intercepts, scores = get_learner(name)(**best["parameters"]), [], [], []
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
                (average(taken, ENDS[: len(taken)]), average(intercepts, ENDS[: len(taken)]))
                if taken
                else (alone.coef_[0], alone.intercept_[0])
            )
            scores.append(block @ w + (b if trains else threshold(X[:start], positive[:start], block, w)))
            if start >= N - model.n_in_window:
                n = of.sum() * (~of).sum()
                pairs, ordered = pairs + n, ordered + n * roc_auc_score(of, scores[-1])
        alone.partial_fit(block, np.where(of, 1.0, -1.0), classes=CLASSES)
        if stop in ENDS:
            taken.append(alone.coef_[0].copy())
            intercepts.append(alone.intercept_[0])
    assert best["auc"] == pytest.approx(ordered / pairs, abs=1e-9)
    np.testing.assert_allclose(learner.coef_[0], average(taken, ENDS), rtol=1e-9)
    recent, _ = model.recent()
    np.testing.assert_allclose(recent, np.concatenate(scores)[-len(recent) :], rtol=1e-8, atol=1e-9)
    if alone.trained_intercepts() is None:
        means = [X[members].mean(axis=0) @ learner.coef_[0] for members in (positive, ~positive)]
        assert learner.intercept_[0] == pytest.approx(-np.mean(means))
    else:
        assert learner.intercept_[0] == pytest.approx(average(intercepts, ENDS)[0])


@pytest.mark.parametrize("names", list(permutations(STEEP)), ids="-".join)
def test_averages_of_several_learners(noisy, steep, names, tmp_path, monkeypatch):
    """The same in any order, and in several sessions; settings are dropped after averages have begun."""
    monkeypatch.setattr(dropping, "_ACROSS_FROM", 65536)
    X, positive = noisy
    cuts = {"nag": (32_768, 65_000), "uni_log": (50_001,), "ftrl_auc": (34_100, 65_536, 69_999)}[names[0]]
    model, counts = learnt(X, positive, begun({name: STEEP[name] for name in names}, 16_000), cuts, tmp_path)
    learner = model.finish(CLASSES)
    (expected, expected_counts), expected_learner = steep
    assert counts[-1] == expected_counts[-1]
    np.testing.assert_array_equal(learner.coef_, expected_learner.coef_)
    np.testing.assert_array_equal(learner.intercept_, expected_learner.intercept_)
    np.testing.assert_array_equal(model.recent()[0], expected.recent()[0])
    assert model.leaderboard[0] == expected.leaderboard[0]
    assert model.auc() == model.leaderboard[0]["auc"]


@pytest.fixture(scope="module")
def steep(noisy):
    """One pass with several learners, several settings of which are averaged."""
    X, positive = noisy
    model = begun(STEEP, 16_000)
    counts = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dropping, "_ACROSS_FROM", 65536)
        for start in range(0, N, 8192):
            model.learn(X[start : start + 8192], positive[start : start + 8192])
            counts.append(len(model.live))
    assert counts[4] > counts[-1]  # after 40,960 rows, and in the end
    learner = model.finish(CLASSES)
    assert model.leaderboard[0]["averaged"]
    return (model, counts), learner


def test_the_average_is_that_of_the_best_setting(noisy, steep):
    X, positive = noisy
    (model, _), learner = steep
    best = model.leaderboard[0]
    alone, taken = get_learner(best["learner"])(**best["parameters"]), []
    for start, stop in pairwise([0, *ENDS]):
        alone.partial_fit(X[start:stop], np.where(positive[start:stop], 1.0, -1.0), classes=CLASSES)
        taken.append(alone.coef_[0].copy())
    np.testing.assert_allclose(learner.coef_[0], average(taken, ENDS), rtol=1e-9)


def test_averages_come_less_often_as_rows_double_and_where_features_are_many():
    due = [n for n in range(0, 1 << 20, 64) if is_due(n, n_weights=20, n_values=10**9)]
    assert due[: len(ENDS)] == ENDS
    for power in range(11, 20):
        assert sum(1 << power <= n < 2 << power for n in due) == 32
    assert not is_due(65536, n_weights=2 * 10**6 + 2, n_values=10**6)
    assert is_due(65536, n_weights=2 * 10**6 + 2, n_values=10**6 + 1)


def test_sparse_weights_stay_sparse(noisy):
    X, positive = noisy
    grid = {"gamma": np.array([64.0, 128.0]), "l1": np.array([0.01, 0.01])}
    model = begun({"ftrl_auc": ({}, grid)})
    model.learn(X, positive)
    model.finish(CLASSES)
    assert not model.leaderboard[0]["averaged"]


def damaged(saved, change):
    first = saved["entrants"][0]
    if change == "averages of one learner only":
        first["averages"] = None
    elif change == "averages without content":
        first["averages"] = {}
    elif change == "no averages, but their scores":
        for one in saved["entrants"]:
            one["averages"] = None
    elif change == "averages of rows to come":
        first["averages"]["n_rows"] = 10**9
    else:
        saved["recent"] |= {key: saved["recent"][key][:, 1:] for key in ("scores", "intercepts")}
    return saved


@pytest.mark.parametrize(
    "change",
    [
        "averages of one learner only",
        "averages without content",
        "no averages, but their scores",
        "averages of rows to come",
        "too few scores",
    ],
)
def test_damaged_states_are_refused(noisy, change):
    X, positive = noisy
    model = begun(STEEP)
    model.learn(X[:40_000], positive[:40_000])
    TunedModel.restored(model.snapshot())
    with pytest.raises(ValueError, match="state"):
        TunedModel.restored(damaged(model.snapshot(), change))


def test_the_command_says_so(noisy, command, tmp_path):
    X, positive = noisy
    write(tmp_path / "noisy.svm", X, np.where(positive, 1, -1))
    options = ("--learner", "opauc", "--eta", 0.5, "--out", "model.npz")
    done = command("train", "noisy.svm", *options, cwd=tmp_path)
    shown = command("model", "show", "model.npz", cwd=tmp_path)
    for lines in (done.stdout, shown.stdout):
        assert re.search(r"^opauc .* averaged$", lines, re.MULTILINE)
        assert "6 of 6 are not 0, averaged over the end of the pass" in lines
    weights = LinearModel.load(tmp_path / "model.npz").weights
    last = get_learner("opauc")(eta=0.5, lam=2.0**-14).fit(X, np.where(positive, 1, -1))
    assert np.linalg.norm(weights) < 0.9 * np.linalg.norm(last.coef_)


@pytest.mark.parametrize("name", ["auto", "opauc", "ada_oam", "ftrl_proximal", "adagrad"])
def test_leaderboards_have_80_columns_at_most(name):
    lines = [
        {
            "learner": one.name,
            "parameters": one.learner.get_params() | {key: float(v[k]) for key, v in one.grid.items()},
        }
        for one in candidates(name, {}, [], True)
        for k in range(len(next(iter(one.grid.values()))))
    ]
    of_all = {"auc": 0.91, "standard_error": 0.0123, "n_rows": 9_999_999, "outcome": "diverged"}
    board = [one | of_all for one in lines]
    board[0] |= {"outcome": "best", "averaged": True}
    assert max(map(len, shown_leaderboard(board).splitlines())) <= 80


def test_leaderboard_has_the_step_size_of_a_single_setting():
    board = [{"auc": 0.9, "standard_error": None, "n_rows": 9, "outcome": "best"} for _ in range(2)]
    board[0] |= {"learner": "ada_oam", "parameters": {"delta": 1.0, "eta": 0.25, "lam": 0.5}}
    board[1] |= {"learner": "ftrl_auc", "parameters": {"beta": 1.0, "gamma": 0.125, "lazy": True}}
    first, second = shown_leaderboard(board).splitlines()[2:]
    assert "eta=0.25, lam=0.5 " in first
    assert "gamma=0.125, beta=1 " in second


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
