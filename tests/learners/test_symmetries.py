"""What is known of weights without computing them: they follow rows that are turned, moved, scaled or relabelled."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.examples import assert_close, examples, orthogonal

from opauc_bench.learners import (
    OPAUC,
    OPAUCFD,
    OPAUCS,
    AdaOAM,
    LinearRanker,
    OAMGra,
    OAMSeq,
    PairSGD,
    UniExp,
    UniLog,
    UniSqu,
)
from opauc_bench.learners.opauc.random_sketch import OPAUCh, OPAUCr


class Case(NamedTuple):
    """A learner, some settings, and what its weights follow."""

    learner: LinearRanker
    grid: dict[str, np.ndarray]
    follows: str


# eta lam is 1 in one setting: what was learnt is forgotten at each step.
GRID = {"eta": np.array([0.02, 0.05, 0.08, 0.5]), "lam": np.array([0.01, 0.5, 2.0, 2.0])}
OAM = {"eta": np.array([2.0**-8, 0.03, 0.5])}
UNI = {"eta": np.array([2.0**-9, 0.003, 2.0**-7])}
# Calm settings, steps that leave the ball at most rows, and no ball at all.
BALL = {"eta": np.array([0.05, 0.5, 0.3, 4.0, 0.2]), "lam": np.array([2.0**-8, 0.1, 1.0, 4.0, 0.0])}
CASES = {
    # Means and covariances are the only things that OPAUC knows of the data.
    "opauc": Case(OPAUC(), GRID, "order rotation shift scale classes one-class"),
    "opauc_fd": Case(OPAUCFD(tau=5), GRID, "rotation scale classes one-class"),
    "opauc_fd released": Case(OPAUCFD(tau=5, variant="released"), GRID, "rotation scale classes one-class"),
    "opauc_r": Case(OPAUCr(tau=5, random_state=0), GRID, "rotation scale classes one-class"),
    "opauc_h": Case(OPAUCh(tau=5, random_state=0), GRID, "rotation scale classes one-class"),
    "opauc_s": Case(OPAUCS(tau=2), GRID, "classes one-class"),
    "opauc_s released": Case(OPAUCS(tau=2, variant="released"), GRID, "classes one-class"),
    "ada_oam": Case(AdaOAM(), BALL, "order shift classes one-class"),
    # OAM and pairwise SGD know differences of rows only.
    "oam_seq": Case(OAMSeq(buffer_size=7, random_state=3), OAM, "rotation shift scale"),
    "oam_gra": Case(OAMGra(buffer_size=7, random_state=3), OAM, "rotation shift scale"),
    "pair_sgd": Case(PairSGD(), {"eta": 2.0 ** np.arange(-6, 7, 3)}, "rotation shift scale classes one-class"),
    "uni_exp": Case(UniExp(), UNI, "rotation scale"),
    "uni_log": Case(UniLog(), UNI, "rotation scale"),
    "uni_squ": Case(UniSqu(), UNI, "rotation scale"),
}
SEEDS = st.integers(0, 2**32 - 1)


def following(what):
    names = [name for name, case in CASES.items() if what in case.follows.split()]
    return pytest.mark.parametrize("name", names)


def weights(name, X, y, grid=None):
    return CASES[name].learner.fit_grid(X, y, grid or CASES[name].grid)


@following("order")
@settings(max_examples=15, derandomize=True)
@given(seed=SEEDS, d=st.integers(1, 12))
def test_permuting_features_permutes_weights(name, seed, d):
    X, y = examples(60, d, seed=seed)
    order = np.random.default_rng(seed).permutation(d)
    assert_close(weights(name, X[:, order], y), weights(name, X, y)[order], 1e-12 if name == "opauc" else 1e-9)


@following("rotation")
@settings(max_examples=15, derandomize=True)
@given(seed=SEEDS, d=st.integers(1, 12))
def test_rotating_rows_rotates_weights(name, seed, d):
    X, y = examples(60, d, seed=seed)
    Q = orthogonal(d, np.random.default_rng(seed))
    assert_close(weights(name, X @ Q.T, y), Q @ weights(name, X, y), 1e-9)


@following("shift")
@settings(max_examples=15, derandomize=True)
@given(seed=SEEDS, d=st.integers(1, 12))
def test_shifting_rows_changes_nothing(name, seed, d):
    X, y = examples(60, d, seed=seed)
    assert_close(weights(name, X + np.random.default_rng(seed).standard_normal(d), y), weights(name, X, y), 1e-9)


@following("scale")
@settings(max_examples=15, derandomize=True)
@given(seed=SEEDS, scale=st.floats(0.1, 10.0))
def test_scaling_rows_is_scaling_the_settings(name, seed, scale):
    """With rows s x, step eta / s^2 and regulariser s^2 lam, the weights are w / s."""
    X, y = examples(60, 5, seed=seed)
    powers = {"eta": scale**-2, "lam": scale**2}
    scaled = {axis: values * powers[axis] for axis, values in CASES[name].grid.items()}
    assert_close(weights(name, scale * X, y, scaled) * scale, weights(name, X, y), 1e-9)


@following("classes")
@settings(max_examples=15, derandomize=True)
@given(seed=SEEDS, arrangement=st.sampled_from(["mixed", "sparse"]))
def test_swapping_classes_negates_weights(name, seed, arrangement):
    X, y = examples(60, 5, arrangement, seed=seed)
    if name == "ada_oam":
        assert_close(weights(name, X, -y), -weights(name, X, y), 1e-9)
    else:
        assert_close(weights(name, X, -y), -weights(name, X, y))


@following("one-class")
@pytest.mark.parametrize("label", [-1, 1])
def test_one_class_alone_leaves_the_weights_at_zero(name, label):
    X, _ = examples(100, 4)
    assert not weights(name, X, np.full(100, label)).any()
