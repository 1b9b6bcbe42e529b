"""scripts/digit_partitions.py: training of all partitions at once against the package's learners, one at a time."""

import importlib
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from opauc_bench.evaluation.selection import cross_validate, fit_and_evaluate, ranking
from opauc_bench.evaluation.splits import outer_fold, random_folds
from opauc_bench.learners import LSSVM, BatchUniLog, BatchUniSqu, UniExp, UniLog, UniSqu

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def script():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "scripts")
        yield importlib.import_module("digit_partitions")


@pytest.fixture(scope="module")
def data():
    """Rows in [-1, 1] of six digits, and three labellings of them: classes of other sizes each."""
    X, digits = load_digits(return_X_y=True)
    few = np.flatnonzero(digits < 6)[:240]
    signs = np.array([[1, 1, 1, -1, -1, -1], [1, -1, -1, 1, -1, 1], [1, -1, 1, -1, -1, -1]], dtype=float)
    return X[few] / 8.0 - 1.0, digits[few], signs


@pytest.mark.parametrize(("loss", "learner"), [("uni_exp", UniExp), ("uni_log", UniLog), ("uni_squ", UniSqu)])
def test_the_pass_trains_each_labelling_and_step_as_the_learner_does(script, data, loss, learner):
    X, digits, signs = data
    order = np.random.default_rng(0).permutation(len(X))[:200]
    # More columns than are trained at once.
    eta = 2.0 ** np.linspace(-12, -8, 30)
    weights = script.online(X, digits, order, np.repeat(signs, 30, axis=0), np.tile(eta, 3), loss)
    for k, labels in enumerate(signs):
        expected = learner().fit_grid(X, labels[digits], {"eta": eta}, order=order)
        assert np.abs(expected).max() > 0.01
        np.testing.assert_allclose(weights[:, 30 * k : 30 * (k + 1)], expected, rtol=0, atol=1e-10)


def test_moments_of_the_digits_give_ls_svm(script, data):
    X, digits, signs = data
    for labels, found in zip(signs, script.ls_svm(X, digits, signs), strict=True):
        expected = LSSVM().fit_grid(X, labels[digits], {"lam": script.LAMBDAS}, order=np.arange(len(X)))
        unit = np.linalg.norm(expected, axis=0) / np.linalg.norm(found, axis=0)
        np.testing.assert_allclose(found * unit, expected, rtol=0, atol=1e-9)


def test_one_decomposition_gives_batch_uni_squ(script, data):
    X, digits, signs = data
    for labels, found in zip(signs, script.batch_uni_squ(X, digits, signs), strict=True):
        learner = BatchUniSqu(loss_scale="sum")
        expected = learner.fit_grid(X, labels[digits], {"lam": script.LAMBDAS}, order=np.arange(len(X)))
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8)


def test_steps_of_all_labellings_give_batch_uni_log(script, data):
    X, digits, signs = data
    lambdas = 2.0 ** np.array([-3, 2, 5])
    found = script.batch_uni_log(X, digits, signs, lambdas, accuracy=1e-11)
    for labels, weights in zip(signs, found, strict=True):
        learner = BatchUniLog(loss_scale="sum")
        expected = learner.fit_grid(X, labels[digits], {"lam": lambdas}, order=np.arange(len(X)))
        np.testing.assert_allclose(weights, expected, rtol=0, atol=1e-8)


def test_folds_of_two_digits_are_those_of_the_package(script):
    digits = np.random.default_rng(1).integers(0, 2, 103)
    y = 1.0 - 2.0 * digits
    found = script.digit_folds(digits, 5, np.random.default_rng(7))
    np.testing.assert_array_equal(found, random_folds(y, 5, np.random.default_rng(7)))
    train, test, seed = script.outer_split(digits, "any", 3)
    expected = outer_fold(y, trial=0, fold=3, folds=5, stratified=True, seed=0, dataset="any")
    np.testing.assert_array_equal(train, expected.train)
    np.testing.assert_array_equal(test, expected.test)
    assert seed == expected.seed


def test_a_fold_selects_and_tests_as_the_package_does(script):
    """Two digits: folds stratified by digit are those by class."""
    X, digits = load_digits(n_class=2, return_X_y=True)
    y = 1.0 - 2.0 * digits
    X = X / 8.0 - 1.0 + np.random.default_rng(3).normal(scale=2.0, size=X.shape)  # not separable
    grid = {"eta": 2.0 ** np.array([-14.0, -8.0, -4.0])}
    signs = np.array([[1.0, -1.0]])

    def train(X, digits, rows, signs):
        return iter([script.online(X, digits, rows, np.repeat(signs, 3, axis=0), grid["eta"], "uni_log")])

    split = outer_fold(y, trial=0, fold=1, folds=5, stratified=True, seed=0, dataset="d")
    rows = split.train[:150]
    inner = cross_validate(UniLog(), X, y, grid, rows, inner_folds=5, stratified=True, seed=split.seed).mean(axis=0)
    best = ranking(inner)[0]
    expected = fit_and_evaluate(UniLog(), X, y, {"eta": grid["eta"][[best]]}, rows, split.test)
    aucs, chosen = script.one_fold(X, digits, signs, "d", 1, 150, train)
    assert len(np.unique(inner)) > 1
    assert chosen[0] == best
    assert aucs[0] == pytest.approx(expected[0], abs=1e-12)


def test_there_are_126_partitions(script):
    signs = script.partitions()
    assert signs.shape == (126, 10)
    assert (signs.sum(axis=1) == 0).all()
    assert len({tuple(row) for row in np.concatenate([signs, -signs])}) == 252
