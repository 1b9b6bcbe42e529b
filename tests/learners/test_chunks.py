"""Constants that cut rows, features and settings into chunks change no result.

They are so large that no other test has a second chunk.
"""

import numpy as np
import pytest
from reference.examples import assert_close, examples
from reference.frequent_directions import opauc_fd
from reference.opauc import opauc
from reference.sketched import sketched_opauc
from scipy import sparse

from opauc_bench.learners import (
    OPAUC,
    OPAUCFD,
    OPAUCPCA,
    SPAML1,
    DivergenceError,
    OAMGra,
    OAMSeq,
    OPAUCh,
    OPAUCr,
    UniLog,
    UniSqu,
    blocks,
    get_learner,
    grid_pass,
    identical_columns,
    state,
    stream_learner,
)
from opauc_bench.learners.oam import oam
from opauc_bench.learners.online import OnlineModel
from opauc_bench.learners.opauc import frequent_directions_state, pca, pending_rows, random_sketch, second_moments
from opauc_bench.learners.opauc.second_moments import second_moment_sketch


def test_weights_of_blocks_change_in_strips_of_features(monkeypatch):
    X, y = examples(300, 7)
    grid = {"eta": np.array([2.0**-9, 0.003, 2.0**-7])}
    want = UniLog().fit_grid(sparse.csr_matrix(X), y, grid)
    monkeypatch.setattr(stream_learner, "_MANY", 0)
    monkeypatch.setattr(blocks, "_STRIP", 3)
    assert_close(UniLog().fit_grid(X, y, grid), want)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
def test_weights_and_bases_are_formed_a_few_features_at_a_time(form, monkeypatch):
    monkeypatch.setattr(frequent_directions_state, "_BLOCK", 5)
    monkeypatch.setattr(pending_rows, "_FOLD", 5)
    X, y = examples(350, 17)
    eta, lam = np.array([2.0**-9, 2.0**-7]), np.array([0.3, 2.0**7])
    want = np.column_stack([opauc_fd(X, y, *setting, 5) for setting in zip(eta, lam)])
    assert_close(OPAUCFD(tau=5).fit_grid(form(X), y, {"eta": eta, "lam": lam}), want)


def test_the_plain_algorithm_on_many_features():
    X, y = examples(60, 1100)
    model = OPAUCFD(eta=2.0**-12, lam=0.5, tau=4, algorithm="plain").fit(X, y)
    assert_close(model.coef_[0], opauc_fd(X, y, 2.0**-12, 0.5, 4))


@pytest.mark.parametrize("Learner", [OPAUCr, OPAUCh])
def test_weights_are_formed_a_few_features_at_a_time(Learner, monkeypatch):
    monkeypatch.setattr(random_sketch, "_BLOCK_ROWS", 7)
    X, y = examples(120, 17)
    draws = Learner(tau=5, random_state=0)._begin(1, {"eta": np.ones(1), "lam": np.ones(1)}).draws.rows(120)
    want = sketched_opauc(X, y, draws, 0.01, 0.3, {OPAUCr: None, OPAUCh: 1.0}[Learner])
    model = Learner(eta=0.01, lam=0.3, tau=5, random_state=0).fit(X, y)
    assert_close(model.coef_[0], want)
    assert_close(model._state.coef_at(np.arange(17)[::-1])[:, 0], want[::-1])


def test_inner_products_are_copied_a_few_rows_at_a_time(monkeypatch):
    monkeypatch.setattr(pca, "_BLOCK", 7)
    X, y = examples(60, 100)
    learner = OPAUCPCA(n_components=4).given_gram_matrix(lambda: X @ X.T)
    grid, order = {"eta": np.array([0.01, 0.1])}, np.random.default_rng(0).permutation(60)[:40]
    want = OPAUCPCA(n_components=4).fit_grid(X, y, grid, order=order)
    assert_close(learner.fit_grid(X, y, grid, order=order), want, 1e-9)


def test_features_that_come_late_are_in_use(monkeypatch):
    monkeypatch.setattr(grid_pass, "LONGEST_CHUNK", 16)
    X, y = examples(100, 5)
    X[:, 0], X[:40, 2] = 0.0, 0.0
    assert_close(OPAUC().fit_grid(X, y, {"eta": [0.02], "lam": [0.5]})[:, 0], opauc(X, y, 0.02, 0.5))


def test_columns_that_differ_late_are_not_merged(monkeypatch):
    monkeypatch.setattr(grid_pass, "LONGEST_CHUNK", 16)
    monkeypatch.setattr(identical_columns, "_COLUMNS_AT_ONCE", 2)
    X, y = examples(100, 5, "sparse")
    X = X[:, [0, 1, 1, 2, 3, 3, 4]]
    X[40:, 2] *= 2.0
    grid = {"xi": np.array([0.3, 0.1]), "l1": np.array([1e-3, 0.0])}
    assert_close(SPAML1().fit_grid(sparse.csr_matrix(X), y, grid), SPAML1().fit_grid(X, y, grid))


def test_weights_are_gathered_a_few_at_a_time(monkeypatch):
    monkeypatch.setattr(state, "_WEIGHTS_AT_ONCE", 6)
    begun = UniLog()._begin(9, {"eta": np.ones(3)})
    assert begun.finite_at(np.arange(9)).all()
    begun.W[7, 1] = np.inf
    assert begun.finite_at(np.arange(9)).tolist() == [True, False, True]
    assert begun.finite_at(np.arange(7)).all()


def test_weights_at_some_features_of_the_settings_that_are_left():
    X, y = examples(100, 5, "sparse")
    seen = []
    UniSqu().fit_grid(
        X,
        y,
        {"eta": np.array([1e200, 0.01, 0.1])},
        stops=[50],
        on_stop=lambda n, weights: seen.extend([weights(np.array([3, 0, 3])), weights()[[3, 0, 3]]]),
    )
    assert np.isnan(seen[0][:, 0]).all()
    np.testing.assert_array_equal(*seen)


@pytest.mark.parametrize("name", ["opauc_fd", "opauc_s", "opauc_r", "opauc_h"])
def test_rows_of_a_sketch_are_read_in_chunks(name, monkeypatch):
    A = examples(50, 8)[0]
    learner = get_learner(name)(tau=4)
    learner.set_params(**({"random_state": 0} if "random_state" in learner.get_params() else {}))
    want = second_moment_sketch(learner, A)
    monkeypatch.setattr(second_moments, "_ROWS", 7)
    found = second_moment_sketch(learner, A)
    want, found = (Z.toarray() if sparse.issparse(Z) else Z @ Z.T for Z in (want, found))
    assert_close(found, want)


@pytest.mark.parametrize("name", ["opauc", "uni_log", "ftrl_auc", "spam_l2"])
def test_long_pieces_are_learnt_in_chunks(name, monkeypatch):
    X, y = examples(100, 5, "sparse")
    want = get_learner(name)().fit(X, y)
    monkeypatch.setattr(stream_learner, "LONGEST_CHUNK", 16)
    monkeypatch.setattr(stream_learner, "_PLAIN_CHUNK", 24)
    for rows in (X, sparse.csr_matrix(X)):
        found = get_learner(name)().fit(rows, y)
        assert_close(found.coef_, want.coef_)
        assert_close(found.intercept_, want.intercept_)


@pytest.mark.parametrize("Learner", [OAMSeq, OAMGra])
def test_repeated_features_of_wide_rows_are_summed(Learner, monkeypatch):
    monkeypatch.setattr(oam, "_WIDE", 0)
    X, y = examples(200, 9, "sparse")
    rows = sparse.csr_matrix(X)
    twice = sparse.csr_matrix((np.repeat(rows.data / 2, 2), np.repeat(rows.indices, 2), 2 * rows.indptr), shape=X.shape)
    learner = Learner(buffer_size=20, random_state=3)
    want = learner.fit_grid(rows, y, {"eta": np.array([0.03, 0.5])})
    np.testing.assert_array_equal(learner.fit_grid(twice, y, {"eta": np.array([0.03, 0.5])}), want)


def test_a_state_of_thousands_of_features_grows():
    rng = np.random.default_rng(0)
    X = sparse.csr_matrix(sparse.random_array((200, 3000), density=0.01, rng=rng))
    y = np.where(rng.random(200) < 0.5, 1, -1)
    X = sparse.vstack([X[:100].multiply(np.arange(3000) < 2000), X[100:]], format="csr")
    X.eliminate_zeros()
    for name in ("ftrl_auc", "nag", "uni_log"):
        model = OnlineModel(get_learner(name)())
        model.learn(X[:100, :2000], y[:100] > 0)
        model.learn(X[100:], y[100:] > 0)
        found = model.finish(np.array([-1, 1]))
        assert_close(found.coef_, get_learner(name)().fit(X, y).coef_, 1e-9)


def test_overflow_ends_a_stream_after_64_pieces():
    X, y = examples(400, 5, "sparse")
    model, n_rows = OnlineModel(UniSqu(eta=1e30)), 0
    with pytest.raises(DivergenceError, match="overflowed within 256 rows"):  # noqa: PT012
        while n_rows < 400:
            model.learn(sparse.csr_matrix(X[n_rows : n_rows + 4]), y[n_rows : n_rows + 4] > 0)
            n_rows += 4
    assert n_rows == 252
