"""Tests of the paired tests: scipy is the oracle, and a model in which the corrected test is exact."""

import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from opauc_bench.evaluation.significance import corrected_t_test, paired_t_test

FIFTH = partial(corrected_t_test, test_fraction=0.2)

aucs = st.integers(0, 10_000).map(lambda n: n / 10_000)
pairs = st.integers(2, 30).flatmap(
    lambda n: st.tuples(st.lists(aucs, min_size=n, max_size=n), st.lists(aucs, min_size=n, max_size=n))
)


@pytest.mark.parametrize("n_folds", [2, 5, 25])
@pytest.mark.parametrize("shift", [0.0, 0.003, -0.02])
def test_paired_test_equals_scipy(n_folds, shift):
    rng = np.random.default_rng(n_folds)
    a = rng.uniform(0.7, 0.9, n_folds)
    b = a - shift + rng.normal(0, 0.01, n_folds)
    expected = stats.ttest_rel(a, b)
    result = paired_t_test(a, b)
    assert result.statistic == pytest.approx(expected.statistic, rel=1e-12)
    assert result.p_value == pytest.approx(expected.pvalue, rel=1e-10)
    assert result.mean_difference == pytest.approx(np.mean(a - b), rel=1e-12)


def test_corrected_test_widens_the_variance_of_the_mean():
    rng = np.random.default_rng(3)
    a, b = rng.uniform(0.7, 0.9, (2, 25))
    paired, corrected = stats.ttest_rel(a, b), FIFTH(a, b)
    expected = paired.statistic * math.sqrt((1 / 25) / (1 / 25 + 1 / 4))
    assert corrected.statistic == pytest.approx(expected, rel=1e-12)
    assert corrected.p_value == pytest.approx(2 * stats.t.sf(abs(expected), 24), rel=1e-10)


@pytest.mark.parametrize(("test", "critical"), [(paired_t_test, 0.4128), (FIFTH, 1.1115)])
def test_critical_size_of_the_mean_in_units_of_the_std(test, critical):
    noise = np.linspace(-1, 1, 25)
    noise /= noise.std(ddof=1)
    zero = np.zeros(25)
    assert test(noise + critical - 0.001, zero).verdict() == "tie"
    assert test(noise + critical + 0.001, zero).verdict() == "win"
    assert test(noise - critical - 0.001, zero).verdict() == "loss"
    assert test(noise + critical + 0.001, zero).verdict(alpha=0.01) == "tie"


def test_only_the_corrected_test_keeps_its_level_when_folds_are_correlated():
    # Equal correlation n_test / (n_test + n_train) of the differences: the corrected statistic is exactly t.
    rng = np.random.default_rng(20)
    n_runs, n_folds, correlation = 3000, 25, 0.2
    shared = rng.normal(size=(n_runs, 1)) * math.sqrt(correlation)
    differences = shared + rng.normal(size=(n_runs, n_folds)) * math.sqrt(1 - correlation)
    zero = np.zeros(n_folds)
    rejected = {
        test: np.mean([test(row, zero).p_value < 0.05 for row in differences]) for test in (paired_t_test, FIFTH)
    }
    assert rejected[FIFTH] == pytest.approx(0.05, abs=4 * math.sqrt(0.05 * 0.95 / n_runs))
    assert rejected[paired_t_test] > 0.4


def auc_by_ranks(y, scores):
    positive = y > 0
    n_pos, n_neg = positive.sum(), (~positive).sum()
    return (stats.rankdata(scores)[positive].sum() - n_pos * (n_pos + 1) / 2) / (n_pos * n_neg)


def cross_validated_aucs(rng):
    """Give the 25 AUC values of two equal learners: least squares on either half of the features."""
    n_rows, half = 200, 8
    y = np.where(rng.random(n_rows) < 0.4, 1, -1)
    x = rng.normal(size=(n_rows, 2 * half)) + 0.25 * y[:, None]
    scores = []
    for _ in range(5):
        order = rng.permutation(n_rows)
        for fold in range(5):
            test = np.zeros(n_rows, dtype=bool)
            test[order[fold::5]] = True
            for features in (slice(0, half), slice(half, None)):
                z = x[~test][:, features] - x[~test][:, features].mean(axis=0)
                w = np.linalg.solve(z.T @ z + np.eye(half), z.T @ y[~test])
                scores.append(auc_by_ranks(y[test], x[test][:, features] @ w))
    return scores[::2], scores[1::2]


def test_under_cross_validation_the_papers_test_finds_differences_between_equal_learners():
    rng = np.random.default_rng(5)
    runs = [cross_validated_aucs(rng) for _ in range(60)]
    rejected = {test: np.mean([test(a, b).p_value < 0.05 for a, b in runs]) for test in (paired_t_test, FIFTH)}
    assert rejected[paired_t_test] > 0.2
    assert rejected[FIFTH] < 0.12


@pytest.mark.parametrize("test", [paired_t_test, FIFTH])
def test_differences_without_variance(test):
    same = test([0.8, 0.7, 0.9], [0.8, 0.7, 0.9])
    assert (same.statistic, same.p_value, same.mean_difference) == (0.0, 1.0, 0.0)
    better = test([0.75] * 25, [0.5] * 25)
    assert (better.statistic, better.p_value, better.mean_difference) == (math.inf, 0.0, 0.25)
    assert test([0.5] * 25, [0.75] * 25).statistic == -math.inf
    # The mean of 25 times 0.2 is not quite 0.2: equal differences must not get a tiny variance from rounding.
    assert test([0.2] * 25, [0.0] * 25).statistic == math.inf
    assert test([0.2] * 25, [0.0] * 25).verdict() == "win"
    assert test([0.2] * 25, [0.2] * 25).verdict() == "tie"


@given(pairs)
def test_verdict_reverses_when_learners_are_swapped(pair):
    a, b = pair
    for test in (paired_t_test, FIFTH):
        one, other = test(a, b), test(b, a)
        assert one.p_value == pytest.approx(other.p_value, rel=1e-12)
        assert one.statistic == -other.statistic
        turned = {"win": "loss", "loss": "win", "tie": "tie"}
        assert one.verdict() == turned[other.verdict()]


@given(pairs, st.sampled_from([0.125, 0.5, 2.0, 1024.0]))
def test_tests_ignore_the_scale(pair, scale):
    a, b = np.array(pair)
    for test in (paired_t_test, FIFTH):
        assert test(a, b).p_value == test(scale * a, scale * b).p_value


@given(pairs, st.floats(0.01, 0.99))
def test_the_correction_never_makes_a_difference_more_significant(pair, test_fraction):
    assert corrected_t_test(*pair, test_fraction).p_value >= paired_t_test(*pair).p_value


@pytest.mark.parametrize(
    ("a", "b"),
    [([0.8], [0.7]), ([0.8, 0.9], [0.7]), ([[0.8, 0.9]], [[0.7, 0.6]]), ([0.8, math.nan], [0.7, 0.6])],
)
def test_paired_test_refuses_unpaired_values(a, b):
    with pytest.raises(ValueError, match="paired test needs"):
        paired_t_test(a, b)


@pytest.mark.parametrize("test_fraction", [0, 1, -0.2, 5])
def test_test_fraction_outside_0_and_1_is_refused(test_fraction):
    with pytest.raises(ValueError, match="test_fraction"):
        corrected_t_test([0.8, 0.9], [0.7, 0.6], test_fraction)


@pytest.mark.parametrize("test", [paired_t_test, FIFTH])
def test_differences_that_are_equal_but_for_rounding_have_no_variance(test):
    b = [0.8 + 0.01 * fold for fold in range(15)]
    a = [0.805 + 0.01 * fold for fold in range(15)]
    assert len({x - y for x, y in zip(a, b)}) > 1
    assert test(a, b).statistic == math.inf
    nearly = [value + 1e-16 for value in b]
    assert nearly != b
    assert (test(nearly, b).p_value, test(nearly, b).mean_difference) == (1.0, 0.0)
