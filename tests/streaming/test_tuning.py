"""Tuning in one pass: against separate models without any of its machinery, and what has to hold whatever the rows."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import roc_auc_score

from opauc_bench.errors import LearnerError
from opauc_bench.learners import DivergenceError, get_learner
from opauc_bench.learners.rows import csr_rows
from opauc_bench.streaming.settings import candidates
from opauc_bench.streaming.tuning import Candidate, TunedModel

CLASSES = np.array([-1, 1])


def rows(n=3000, d=12, seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d)) * (rng.random((n, d)) < 0.4)
    positive = X @ rng.standard_normal(d) + 0.5 * rng.standard_normal(n) > 0.6
    return sparse.csr_matrix(X * scale), positive


def tuned(X, positive, given=None, cuts=(), name="auto", **options):
    model = TunedModel(candidates(name, given or {}, [], True), **{"window": 100_000} | options)
    for start, stop in zip([0, *cuts], [*cuts, X.shape[0]]):
        model.learn(X[start:stop], positive[start:stop])
    return model, model.finish(CLASSES)


def separately(X, positive, settings):
    """AUC of each setting within the later half of the blocks of 64 rows, by models trained one by one."""
    aucs = []
    for name, parameters in settings:
        learner, pairs, ordered = get_learner(name)(**parameters), 0, 0.0
        for start in range(0, X.shape[0], 64):
            block, of = X[start : start + 64], positive[start : start + 64]
            n = of.sum() * (~of).sum()
            if start >= X.shape[0] // 2 and n:
                pairs, ordered = pairs + n, ordered + n * roc_auc_score(of, block @ learner.coef_[0])
            learner.partial_fit(block, np.where(of, 1, -1), classes=CLASSES)
        aucs.append(ordered / pairs)
    return aucs


def test_the_best_of_models_trained_one_by_one():
    X, positive = rows(960)  # before the first checkpoint: nothing is dropped
    model, learner = tuned(X, positive)
    assert {one["outcome"] for one in model.leaderboard} == {"best", "kept"}
    settings = [(one["learner"], one["parameters"]) for one in model.leaderboard]
    assert {name for name, _ in settings} == {
        *("nag", "adagrad", "ftrl_proximal", "ftrl_auc", "uni_log", "opauc", "ada_oam")
    }
    expected = separately(X, positive, settings)
    np.testing.assert_allclose([one["auc"] for one in model.leaderboard], expected, atol=1e-9)
    best = model.leaderboard[0]
    assert best["auc"] == max(one["auc"] for one in model.leaderboard)
    alone = get_learner(best["learner"])(**best["parameters"]).fit(X, np.where(positive, 1, -1))
    assert type(learner) is type(alone)
    assert learner.get_params() == best["parameters"]
    np.testing.assert_allclose(learner.coef_, alone.coef_, rtol=1e-9)
    np.testing.assert_allclose(learner.intercept_, alone.intercept_, rtol=1e-9)


@pytest.mark.parametrize("cuts", [(1, 2, 700, 2999), range(100, 3000, 100), (64, 128)])
def test_pieces_do_not_matter(cuts):
    X, positive = rows()
    whole, piecewise = tuned(X, positive), tuned(X, positive, cuts=cuts)
    assert piecewise[0].leaderboard == whole[0].leaderboard
    assert piecewise[0].progress == whole[0].progress
    np.testing.assert_array_equal(piecewise[1].coef_, whole[1].coef_)
    np.testing.assert_array_equal(piecewise[1].intercept_, whole[1].intercept_)
    for got, expected in zip(piecewise[0].recent(), whole[0].recent()):
        np.testing.assert_array_equal(got, expected)


def test_bad_settings_are_dropped_and_the_best_is_not():
    X, positive = rows(10_000)
    grid = {"eta": 2.0 ** np.arange(-24, 2, 2)}
    model = TunedModel([Candidate("uni_log", get_learner("uni_log")(), grid)], window=100_000)
    counts = []
    for start in range(0, 10_000, 1000):
        model.learn(X[start : start + 1000], positive[start : start + 1000])
        counts.append(len(model.live))
    model.finish(CLASSES)
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[-1]
    assert counts[-1] <= len(grid["eta"]) / 2
    aucs = dict(zip(grid["eta"], separately(X, positive, [("uni_log", {"eta": eta}) for eta in grid["eta"]])))
    assert aucs[model.leaderboard[0]["parameters"]["eta"]] > max(aucs.values()) - 0.001
    assert min(aucs, key=aucs.get) not in [
        one["parameters"]["eta"] for one in model.leaderboard if one["n_rows"] == 10_000
    ]
    for one in model.leaderboard:
        if one["outcome"] == "dropped":
            assert one["n_rows"] in (2048, 4096, 8192)


def test_equal_settings_cost_no_more_than_one_in_the_end():
    """Settings that rank alike cannot be told apart: all but one are dropped as not better by the tolerance."""
    X, positive = rows(5000)
    grid = {"gamma": np.full(6, 0.1), "l1": np.zeros(6)}
    model = TunedModel([Candidate("ftrl_auc", get_learner("ftrl_auc")(), grid)], window=100_000)
    model.learn(X, positive)
    assert len(model.live) == 1


def test_window_and_progress():
    X, positive = rows(6400)
    model, _ = tuned(X, positive, window=1000)
    scores, of = model.recent()
    assert len(scores) == len(of) == model.n_in_window == 1024
    np.testing.assert_array_equal(of, positive[-1024:])
    assert model.auc() == pytest.approx(model.leaderboard[0]["auc"], abs=1e-12)
    assert len(model.progress) <= 60
    assert [n for n, _ in model.progress] == sorted({n for n, _ in model.progress})
    assert all(0.0 <= auc <= 1.0 for _, auc in model.progress)


def test_standard_errors_need_several_blocks_with_both_classes():
    X, positive = rows(3000)
    model, _ = tuned(X[:1000], positive[:1000])  # a window of 8 blocks
    assert {one["standard_error"] for one in model.leaderboard} == {None}
    model, _ = tuned(X, positive)
    assert all(one["standard_error"] > 0 for one in model.leaderboard if one["outcome"] in ("best", "kept"))


def test_where_too_few_blocks_have_both_classes_nothing_is_dropped_and_that_is_known():
    X, _ = rows(20_000)
    positive = np.arange(20_000) % 1500 == 0
    model, _ = tuned(X, positive, name="uni_log")
    assert model.lacks_blocks
    assert {one["outcome"] for one in model.leaderboard} == {"chosen", "kept"}
    model, _ = tuned(*rows(20_000), name="uni_log")
    assert not model.lacks_blocks


def test_the_best_of_many_settings_has_to_be_clearly_better_where_a_class_has_few_rows():
    X, _ = rows(20_000)
    margin = X.toarray() @ np.linspace(-1, 1, 12)
    rare = margin > np.sort(margin)[-60]
    model, _ = tuned(X, rare, name="uni_log")
    assert not model.is_undecided  # larger steps are better by many standard errors
    luck = np.random.default_rng(0).permutation(rare)
    model, _ = tuned(X, luck, name="uni_log")
    assert model.is_undecided
    assert model.leaderboard[0]["outcome"] == "chosen"
    etas = [one["parameters"]["eta"] for one in model.leaderboard if one["outcome"] in ("chosen", "kept")]
    assert etas[0] == min(etas, key=lambda eta: abs(eta - get_learner("uni_log")().eta))
    assert model.leaderboard[0]["auc"] == pytest.approx(model.auc(), abs=1e-12)
    assert not any(one["averaged"] for one in model.leaderboard[1:])


def test_features_that_do_not_occur_change_nothing():
    """Their number decides neither how often weights are averaged nor what the averages are."""
    X, positive = rows(6000, seed=3)
    wide = csr_rows(X.data, X.indices, X.indptr, 200_000)
    models = [tuned(of, positive, name="adagrad", n_features=of.shape[1]) for of in (X, wide)]
    (narrow_model, narrow), (wide_model, wider) = models
    assert narrow_model.leaderboard == wide_model.leaderboard
    assert narrow_model.leaderboard[0]["averaged"]
    np.testing.assert_array_equal(narrow.coef_[0], wider.coef_[0, :12])
    assert not wider.coef_[0, 12:].any()


def test_rows_without_any_feature():
    positive = np.arange(3000) % 3 == 0
    model, learner = tuned(sparse.csr_matrix((3000, 4)), positive, name="adagrad")
    assert model.auc() == 0.5
    assert not learner.coef_.any()


def test_scores_of_the_window_are_moved_to_those_of_the_model():
    X, positive = rows(40_000, scale=30.0)
    model, learner = tuned(X, positive, name="nag", given={"eta": "8"})
    final, classes = model.latest(learner)
    assert len(final) >= 1024
    np.testing.assert_allclose(final, X[-len(final) :] @ learner.coef_[0], rtol=1e-12)
    np.testing.assert_array_equal(classes, positive[-len(final) :])
    scores, of_window = model.recent_by(learner, 5.0)
    np.testing.assert_array_equal(of_window, model.recent()[1])
    for k in (False, True):
        assert np.median(scores[of_window == k]) == pytest.approx(np.median(final[classes == k] + 5.0), abs=0.3)


def test_memory_is_that_of_all_learners_together(monkeypatch):
    X, positive = rows(200)
    wide = sparse.hstack([X, sparse.csr_matrix((200, 100_000))]).tolil()
    wide[150, 100_011] = 1.0
    model = TunedModel(candidates("auto", {}, [], True), window=100)
    needed = [
        one.model.learner.memory_bytes(100_012, len(one.settings))
        for one in model._entrants
        if one.candidate.most_features is None
    ]
    monkeypatch.setattr("opauc_bench.learners.online.total_memory", lambda: 1.2 * max(needed))
    tuned(wide.tocsr(), positive, name="nag")
    with pytest.raises(LearnerError, match=r"learners would need .* GB for 100,012 features; this machine") as raised:
        tuned(wide.tocsr(), positive)
    assert "--no-tune" in raised.value.hint


def widened(X, row):
    """The rows with 400 more features, of which this row has the last one."""
    wide = sparse.hstack([X, sparse.csr_matrix((X.shape[0], 400))]).tolil()
    wide[row, -1] = 1.0
    return wide.tocsr()


def test_learners_of_dense_rows_leave_when_there_are_many_features():
    X, positive = rows(2000)
    model, _ = tuned(widened(X, 1500), positive)
    outcomes = {one["outcome"] for one in model.leaderboard if one["learner"] in ("opauc", "ada_oam")}
    assert outcomes == {"dropped"}
    model, _ = tuned(widened(X, 0), positive)
    assert not {"opauc", "ada_oam"} & {one["learner"] for one in model.leaderboard}


@pytest.mark.parametrize("n_features", [None, 412])
def test_learners_of_dense_rows_stay_where_there_is_no_other(n_features):
    X, positive = rows(2000)
    model, _ = tuned(widened(X, 1500), positive, given={"lam": "2^-8"}, n_features=n_features)
    assert {one["learner"] for one in model.leaderboard} == {"opauc", "ada_oam"}
    assert model.n_features == 412
    assert max(one["n_rows"] for one in model.leaderboard if one["learner"] == "opauc") == 2000


def test_learner_of_dense_rows_stays_after_all_others_were_dropped():
    X, positive = rows(1000)
    wide = widened(X, 999)
    entered = [Candidate("nag", get_learner("nag")()), Candidate("opauc", get_learner("opauc")(), most_features=100)]
    model = TunedModel(entered, window=100_000)
    model.learn(wide[:900], positive[:900])
    model._drop(np.array([False, True]), "dropped")
    model.learn(wide[900:], positive[900:])
    learner = model.finish(CLASSES)
    assert [(one["learner"], one["outcome"]) for one in model.leaderboard] == [("opauc", "best"), ("nag", "dropped")]
    alone = get_learner("opauc")().fit(wide, np.where(positive, 1, -1))
    np.testing.assert_allclose(learner.coef_, alone.coef_, rtol=1e-9, atol=1e-15)
    assert model.retired_best == ""


def test_best_learner_that_takes_too_few_features_is_named():
    X, positive = rows(2000)
    wide = widened(X, 1999)
    worse = Candidate("nag", get_learner("nag")(eta=1e-9))
    entered = [worse, Candidate("opauc", get_learner("opauc")(), most_features=100)]
    model = TunedModel(entered, window=100_000)
    model.learn(wide[:1900], positive[:1900])
    model.learn(wide[1900:], positive[1900:])
    model.finish(CLASSES)
    assert model.leader_name == "nag"
    assert model.retired_best == "opauc"


def test_overflow_is_no_error_while_one_setting_is_left():
    X, positive = rows(1000, scale=1e160)
    model, learner = tuned(X, positive)
    outcomes = {one["outcome"] for one in model.leaderboard}
    assert "diverged" in outcomes
    assert learner.__class__.__name__ == "NAG"
    assert np.isfinite(learner.coef_).all()


def test_all_settings_overflow():
    X, positive = rows(1000, scale=1e160)
    with pytest.raises(DivergenceError, match="all 16 settings overflowed within"):
        tuned(X, positive, name="uni_squ")


@pytest.mark.parametrize(
    ("name", "near"), [("auto", {"eta": 0.5}), ("adagrad", {"eta": 0.125, "l1": 1e-4}), ("uni_log", {"eta": 2.0**-6})]
)
def test_with_too_few_rows_to_compare_settings_the_one_nearest_to_the_defaults_is_chosen(name, near):
    X, positive = rows(64)
    model, learner = tuned(X, positive, name=name)
    first = model.leaderboard[0]
    assert (first["outcome"], first["auc"]) == ("chosen", None)
    assert {axis: first["parameters"][axis] for axis in near} == near
    assert learner.get_params() == first["parameters"]


def test_rows_sorted_by_label_have_no_auc_in_the_end():
    X, positive = rows(3000)
    order = np.argsort(~positive, kind="stable")
    order = np.concatenate([order[:1000], order[-2000:]])
    model, _ = tuned(X[order], positive[order])
    assert model.progress, "there was one before"
    assert model.auc() is model.auc_across_blocks() is None
    assert {one["auc"] for one in model.leaderboard if one["outcome"] != "dropped"} == {None}
    assert model.leaderboard[0]["outcome"] == "chosen"


def test_auc_across_blocks_is_that_of_all_recent_scores():
    model, _ = tuned(*rows(), name="ada_oam")
    scores, positive = model.recent()
    assert model.auc_across_blocks() == pytest.approx(roc_auc_score(positive, scores), abs=1e-12)
    assert model.auc_across_blocks() != model.auc()
    assert tuned(*rows(), name="nag")[0].auc_across_blocks() is None


def test_one_class_is_no_obstacle():
    X, _ = rows(1500)
    model, _ = tuned(X, np.zeros(1500, dtype=bool))
    assert model.auc() is None
    assert model.progress == []
    assert model.leaderboard[0]["auc"] is None


def test_given_parameters_stay_fixed():
    found = {one.name: one for one in candidates("auto", {"eta": "0.25"}, [], True)}
    assert all(one.grid is None for one in found.values())
    assert (found["nag"].learner.eta, found["ftrl_auc"].learner.gamma) == (0.25, 0.25)
    (one,) = candidates("ftrl_auc", {"l1": "0.5"}, ["lazy=false"], True)
    assert set(one.grid) == {"gamma"}
    assert (one.learner.l1, one.learner.lazy) == (0.5, False)
    assert {one.name for one in candidates("auto", {"l1": "0.5"}, [], True)} == {"adagrad", "ftrl_proximal", "ftrl_auc"}


def test_without_tuning_there_is_one_setting():
    (one,) = candidates("auto", {}, [], False)
    assert (one.name, one.grid, one.learner.eta) == ("nag", None, 0.5)
    X, positive = rows()
    model = TunedModel([one], window=100_000)
    model.learn(X, positive)
    learner = model.finish(CLASSES)
    expected = get_learner("nag")().fit(X, np.where(positive, 1, -1))
    np.testing.assert_array_equal(learner.coef_, expected.coef_)
    np.testing.assert_array_equal(learner.intercept_, expected.intercept_)
    assert [line["outcome"] for line in model.leaderboard] == ["best"]


@pytest.mark.parametrize("name", ["opauc_r", "spam_l1", "rda_l1", "fsauc", "solam", "oam_seq", "pair_sgd"])
def test_any_learner_has_a_grid(name):
    X, positive = rows(1200)
    found = candidates(name, {}, [], True)
    model = TunedModel(found, window=1000, n_features=X.shape[1], n_rows=X.shape[0])
    model.learn(X, positive)
    assert model.finish(CLASSES).coef_.shape == (1, X.shape[1])
    assert len(model.leaderboard) > 1


def test_a_value_that_no_learner_takes():
    with pytest.raises(LearnerError, match="eta has to be"):
        TunedModel(candidates("nag", {"eta": "-1"}, [], True), window=100)


@pytest.mark.parametrize("seed", [2**53 + 1, 2**100 + 1, 7])
def test_a_seed_keeps_all_its_digits(seed):
    (one,) = candidates("opauc_r", {}, [f"random_state={seed}"], False)
    assert one.learner.random_state == seed


def test_the_leaderboard_has_settings_that_were_kept_for_longer_first():
    X, positive = rows(20_000)
    model, _ = tuned(X, positive, name="uni_log")
    board = model.leaderboard
    assert board[0]["outcome"] == "best"
    dropped = [one["n_rows"] for one in board if one["outcome"] == "dropped"]
    assert len(set(dropped)) > 1
    assert dropped == sorted(dropped, reverse=True)


def test_the_best_setting_in_two_blocks_may_be_so_by_luck():
    """A standard error over so few blocks says nothing, and may be very small."""
    X, positive = rows(192, scale=1000.0)
    grid = {"eta": np.array([2.0**-26, 2.0**-6])}
    model = TunedModel([Candidate("uni_log", get_learner("uni_log")(), grid)], window=100_000)
    model.learn(X, positive)
    assert model.finish(CLASSES).eta == 2.0**-6, "the default"
    assert model.is_undecided
    assert model.leaderboard[0]["auc"] < model.leaderboard[1]["auc"] - 0.05
