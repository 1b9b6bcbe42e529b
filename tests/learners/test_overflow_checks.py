"""Settings that overflow are found at the same chunk, whether all weights are checked or only those of its rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from opauc_bench.learners import FTRLAUC, LEARNERS, SPAML2, AdaGrad, get_learner
from opauc_bench.learners.base import OnePassLearner

NAMES = sorted(
    name for name in LEARNERS if issubclass(get_learner(name), OnePassLearner) and get_learner(name)._moves_own_features
)
WILD = (1e-300, 1e-8, 0.1, 1.0, 30.0, 1e10, 1e100, 1e155, 1e200, 1e300, 1e307, np.finfo(float).max)


def pass_of(learner, X, y, grid, everywhere):
    """Weights, and the settings left after each chunk of 16 rows."""
    left, looks = [], []
    learner.seconds_per_row = lambda *_: 1.0
    learner._moves_own_features = not everywhere
    consume, finite = learner._consume, learner._finite

    def counted(state, chunk, n_features):
        ask = state.finite
        state.finite = lambda n: looks.append(n) or ask(n)
        found = finite(state, chunk, n_features)
        del state.finite
        left.append([tuple(column) for column in np.transpose([v[found] for v in state.settings.values()])])
        return found

    learner._consume, learner._finite = consume, counted
    with np.errstate(all="ignore"):
        return learner.fit_grid(X, y, grid), left, len(looks)


def check(make, X, y, grid):
    got, left, looks = pass_of(make(), X, y, grid, everywhere=False)
    want, left_by_looking_everywhere, all_looks = pass_of(make(), X, y, grid, everywhere=True)
    assert left == left_by_looking_everywhere
    np.testing.assert_array_equal(got, want)
    assert all_looks == len(left)
    return got, looks, all_looks


def rows(seed, scale=1.0, n_rows=150, n_features=60, density=0.05):
    rng = np.random.default_rng(seed)
    X = sparse.random(n_rows, n_features, density, format="csr", random_state=rng, data_rvs=rng.standard_normal)
    X.data *= scale
    return X, np.where(rng.random(n_rows) < 0.4, 1, -1)


def test_which_learners_move_their_own_features_only():
    assert NAMES == [
        "adagrad",
        "ftrl_auc",
        "ftrl_proximal",
        "nag",
        "pair_sgd",
        "rda_l1",
        "spam_l2",
        "uni_exp",
        "uni_log",
        "uni_squ",
    ]


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=30, deadline=None, derandomize=True)
@given(data=st.data())
def test_the_same_settings_are_dropped_at_the_same_chunk(name, data):
    learner = get_learner(name)
    scale = data.draw(st.sampled_from([1.0, 1.0, 1e-160, 1e100, 1e150, 1e300]))
    X, y = rows(data.draw(st.integers(0, 1000)), scale, density=data.draw(st.sampled_from([0.0, 0.02, 0.3])))
    values = st.lists(st.sampled_from(WILD), min_size=4, max_size=4)
    grid = {axis: np.array(data.draw(values)) for axis in learner.grid_axes}
    options = {}
    if "variant" in learner().get_params():
        options["variant"] = data.draw(st.sampled_from(["paper", "released"]))
    if name == "adagrad":
        options["eps"] = data.draw(st.sampled_from([1e-8, 0.0, 1e-300]))
    if name.startswith("ftrl"):
        options["beta"], options["l2"] = data.draw(st.sampled_from([(0.0, 1.0), (1.0, 0.0), (1.0, 1.0)]))
        options["refresh"] = data.draw(st.booleans())
    check(lambda: learner(**options), X, y, grid)


@pytest.mark.parametrize("name", NAMES)
def test_ordinary_settings_are_checked_at_features_of_rows_only(name):
    learner = get_learner(name)()
    X, y = rows(3)
    grid = {axis: np.full(3, getattr(learner, axis)) * [1.0, 0.5, 2.0] for axis in learner.grid_axes}
    got, looks, all_looks = check(get_learner(name), X, y, grid)
    assert np.isfinite(got).all()
    assert (looks, all_looks) == (0, 10)


@pytest.mark.parametrize("name", NAMES)
def test_settings_that_overflow_are_dropped_during_the_pass(name):
    """Settings that overflow late, beside others that stay."""
    axis = get_learner(name).grid_axes[0]
    X, y = rows(5, density=0.3)
    X = sparse.csr_matrix(X * 4.0)
    values = 10.0 ** np.arange(-3, 309, 6)
    got, _, _ = check(get_learner(name), X, y, {axis: values})
    assert np.isfinite(got[:, 0]).all()


def test_weights_that_change_without_a_row():
    """AdaGrad's weights grow with the number of rows: those of features that no row has any more overflow too."""
    X = sparse.csr_matrix(np.r_[np.c_[np.ones((16, 1)), np.zeros((16, 1))], np.zeros((144, 2))])
    y = np.where(np.arange(160) % 2, 1, -1)
    grid = {"eta": np.array([1e307, 2e306, 1.0]), "l1": np.zeros(3)}
    got, looks, _ = check(lambda: AdaGrad(variant="paper"), X, y, grid)
    assert np.isnan(got[:, :2]).all()
    assert np.isfinite(got[:, 2]).all()
    assert 0 < looks < 10


def test_weights_of_features_that_no_row_has():
    X, y = rows(1)
    X = sparse.csr_matrix((X.data, X.indices, X.indptr), shape=(150, 61))
    got, looks, _ = check(lambda: FTRLAUC(refresh=True, beta=1e-300), X, y, {"gamma": [1e100, 1e200]})
    assert np.isnan(got).all()
    assert looks == 1


def test_class_sums_that_overflow_the_weights_of_features_without_rows():
    """SPAM-l2's factors of the class sums grow, and first overflow the weights of a feature whose sums are large."""
    X = sparse.csr_matrix(np.repeat([[1e5, 0.0], [0.0, 1.0]], [2, 158], axis=0))
    y = np.where(np.arange(160) % 2, 1, -1)
    got, looks, _ = check(SPAML2, X, y, {"xi": np.append(10.0 ** np.linspace(-3, 6, 37), 1e-14), "l2": np.zeros(38)})
    assert np.isnan(got).any()
    assert np.isfinite(got).any()
    assert looks
