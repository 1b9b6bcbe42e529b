"""Pairwise SGD against its step by step form, and what follows from its pairs."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.examples import ARRANGEMENTS, assert_close, examples
from reference.pair_sgd import pair_sgd
from scipy import sparse
from sklearn.linear_model import SGDClassifier

from opauc_bench.learners import PairSGD
from opauc_bench.learners.online import OnlineModel

ETAS = 2.0 ** np.arange(-6, 7, 3)
SEEDS = st.integers(0, 2**32 - 1)


def step_by_step(X, y, etas=ETAS):
    return np.column_stack([pair_sgd(X, y, eta) for eta in etas])


@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("d", [1, 2, 7, 30])
def test_grid_pass_equals_step_by_step(d, form, arrangement):
    X, y = examples(400, d, arrangement)
    want = step_by_step(X, y)
    assert_close(PairSGD().fit_grid(form(X), y, {"eta": ETAS}), want)
    assert_close(PairSGD(eta=ETAS[3]).fit(form(X), y).coef_[0], want[:, 3])


@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
def test_weights_are_those_of_scikit_learns_averaged_sgd_on_differences(arrangement):
    """A row whose class is that of the row before has the weight 0 there, but counts for t and for the mean."""
    X, y = examples(400, 7, arrangement)
    options = {"penalty": None, "fit_intercept": False, "shuffle": False, "average": True}
    other = SGDClassifier(loss="hinge", learning_rate="invscaling", eta0=0.5, power_t=0.5, **options)
    differences, pairs = np.diff(X, axis=0, prepend=X[:1]), np.diff(y, prepend=y[:1]) != 0
    other.partial_fit(differences, y, classes=[-1, 1], sample_weight=pairs.astype(float))
    assert_close(PairSGD(eta=0.5).fit(X, y).coef_[0], other.coef_[0], 1e-10)


@given(SEEDS, st.lists(st.integers(1, 12), max_size=8), st.sampled_from([np.asarray, sparse.csr_matrix]))
def test_pieces_of_a_stream_give_the_weights_of_the_whole(seed, lengths, form):
    """The last row of a piece is paired with the first row of the next one."""
    X, y = examples(60, 5, "sparse", seed)
    cuts = [0, *[cut for cut in np.cumsum(lengths) if cut < 60], 60]
    model = PairSGD(eta=2.0)
    for first, end in pairwise(cuts):
        model.partial_fit(form(X[first:end]), y[first:end], classes=[-1, 1])
    np.testing.assert_array_equal(model.coef_, PairSGD(eta=2.0).fit(X, y).coef_)


def test_features_that_come_late_in_a_stream():
    X, y = examples(200, 6)
    X[:100, 3:] = 0.0
    model = OnlineModel(PairSGD(eta=2.0))
    for rows in (slice(0, 100), slice(100, 200)):
        model.learn(sparse.csr_matrix(X[rows, : 3 if rows.start == 0 else 6]), y[rows] > 0)
    assert_close(model.learner.current_weights()[:6], pair_sgd(X, y, 2.0))
