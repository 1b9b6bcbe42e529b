"""Learning on coordinates in the span of the rows is learning on the rows."""

import numpy as np
import pytest

from opauc_bench.evaluation.span import is_narrower, span_coordinates
from opauc_bench.learners import LEARNERS, get_learner

INVARIANT = [name for name in LEARNERS if get_learner(name).rotation_invariant]


@pytest.fixture(scope="module")
def wide():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(60, 7)) @ rng.normal(size=(7, 300)) / 20
    X[5] = 0.0
    y = np.where(rng.random(60) < 0.4, 1, -1).astype(np.int8)
    return X, y


def test_inner_products_are_kept_in_as_many_dimensions_as_the_rank(wide, monkeypatch):
    X, _ = wide
    C = span_coordinates(X)
    assert C.shape == (60, 7)
    np.testing.assert_allclose(C @ C.T, X @ X.T, atol=1e-13)
    monkeypatch.setattr("opauc_bench.evaluation.span._BLOCK_BYTES", 8 * 300 * 11)
    np.testing.assert_allclose(span_coordinates(X) @ C.T @ C @ span_coordinates(X).T, (X @ X.T) @ (X @ X.T), atol=1e-12)
    assert span_coordinates(np.zeros((4, 9))).shape == (4, 0)


def test_is_narrower_for_few_rows_of_many_features():
    assert is_narrower(862, 50_002)
    assert not is_narrower(15_000, 50_016)
    assert not is_narrower(500, 800)


def test_rotation_invariant_learners_are_the_expected_ones():
    assert {"opauc", "opauc_fd", "opauc_r", "opauc_h", "oam_seq", "oam_gra", "uni_exp", "uni_squ"} <= set(INVARIANT)
    assert not {"opauc_s", "opauc_feat", "opauc_rp", "ftrl_auc", "spam_l1", "adagrad", "rda_l1"} & set(INVARIANT)


@pytest.mark.parametrize("name", INVARIANT)
def test_scores_on_coordinates_equal_scores_on_rows(name, wide):
    X, y = wide
    C = span_coordinates(X)
    learner = get_learner(name)()
    if "random_state" in learner.get_params():
        learner.set_params(random_state=0)
    for parameter, value in {"tau": 5, "n_components": 4}.items():
        if parameter in learner.get_params():
            learner.set_params(**{parameter: value})
    values = {axis: np.array([0.01, 0.1]) for axis in learner.grid_axes}
    order = np.arange(50)
    on_rows = X @ learner.fit_grid(X, y, values, order=order)
    on_coordinates = C @ learner.fit_grid(C, y, values, order=order)
    np.testing.assert_allclose(on_coordinates, on_rows, rtol=1e-8, atol=1e-10 * np.abs(on_rows).max())
