"""NAG against the algorithm in the units of the features, and its invariances."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.examples import ARRANGEMENTS, assert_close, examples
from reference.normalized import nag, step
from scipy import sparse

from opauc_bench.learners import NAG
from opauc_bench.learners.sparse.normalized import _way

ETAS = np.array([0.1, 0.5, 2.0, 8.0])


@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
@pytest.mark.parametrize("d", [1, 3, 12])
def test_grid_pass_equals_the_algorithm(d, arrangement):
    X, y = examples(200, d, arrangement)
    got = NAG().fit_grid(sparse.csr_matrix(X), y, {"eta": ETAS})
    assert_close(got, np.column_stack([nag(X, y, eta)[0] for eta in ETAS]), tolerance=1e-9)


def test_single_setting_and_its_intercept():
    X, y = examples(150, 6, "sparse")
    for eta in ETAS:
        learner = NAG(eta=eta).fit(X, y)
        w, b = nag(X, y, eta)
        np.testing.assert_allclose(learner.coef_[0], w, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(learner.intercept_, b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
def test_single_setting_equals_its_column_of_a_grid_bit_for_bit(arrangement):
    X, y = examples(300, 21, arrangement)
    X *= 10.0 ** np.arange(-10, 11)  # features on scales of their own
    grid = NAG().fit_grid(sparse.csr_matrix(X), y, {"eta": ETAS})
    for k, eta in enumerate(ETAS):
        np.testing.assert_array_equal(NAG(eta=eta).fit(X, y).coef_[0], grid[:, k])


@settings(max_examples=25, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), powers=st.lists(st.integers(-300, 300), min_size=5, max_size=5))
def test_units_do_not_matter(seed, powers):
    """Features times powers of two give weights divided by them, bit for bit."""
    X, y = examples(80, 5, seed=seed)
    units = 2.0 ** np.array(powers)
    own, scaled = NAG().fit(X, y), NAG().fit(X * units, y)
    np.testing.assert_array_equal(scaled.coef_[0] * units, own.coef_[0])
    assert scaled.intercept_ == own.intercept_


@settings(max_examples=200, deadline=None, derandomize=True)
@given(margin=st.floats(-30, 30), h=st.floats(1e-6, 1e3))
def test_a_step_is_followed_to_its_end(margin, h):
    assert _way(margin, h) == pytest.approx(step(margin, h), rel=1e-9, abs=1e-14)


@pytest.mark.parametrize(("margin", "way"), [(1e4, 0.0), (-1e4, 3.0), (np.inf, np.nan), (np.nan, np.nan)])
def test_ends_of_the_margin(margin, way):
    np.testing.assert_equal(_way(margin, 3.0), way)
