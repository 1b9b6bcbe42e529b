"""Average ranks, Friedman's test and Nemenyi's critical difference, against SciPy, printed values and slow code."""

import math
from itertools import product
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import friedmanchisquare, norm, rankdata

from opauc_bench.evaluation.ranks import critical_difference, friedman_nemenyi, holm, wilcoxon_test

# AUC of C4.5, of C4.5 with the parameter m, and with both m and cf, on 14 datasets: Tables 2 and 6 of Demsar (2006).
C45 = [0.763, 0.599, 0.954, 0.628, 0.882, 0.936, 0.661, 0.583, 0.775, 1.0, 0.940, 0.619, 0.972, 0.957]
C45_M = [0.768, 0.591, 0.971, 0.661, 0.888, 0.931, 0.668, 0.583, 0.838, 1.0, 0.962, 0.666, 0.981, 0.978]
C45_CF = [0.771, 0.590, 0.968, 0.654, 0.886, 0.916, 0.609, 0.563, 0.866, 1.0, 0.965, 0.614, 0.975, 0.946]
C45_M_CF = [0.798, 0.569, 0.967, 0.657, 0.898, 0.931, 0.685, 0.625, 0.875, 1.0, 0.962, 0.669, 0.975, 0.970]


@pytest.mark.parametrize(
    ("k", "q"),
    [(2, 1.960), (3, 2.343), (4, 2.569), (5, 2.728), (6, 2.850), (7, 2.949), (8, 3.031), (9, 3.102), (10, 3.164)],
)
def test_quantiles_are_those_of_the_table_of_demsar(k, q):
    """Table 5(a) of the paper, three decimals, some of them rounded down."""
    assert critical_difference(1, k) / math.sqrt(k * (k + 1) / 6) == pytest.approx(q, abs=1.1e-3)


def test_the_example_of_demsar():
    """Four learners on 14 datasets: CD = 1.25 at 0.05 and 1.12 at 0.10 (section 3.2.2)."""
    assert critical_difference(14, 4) == pytest.approx(1.25, abs=5e-3)
    assert critical_difference(14, 4, 0.10) == pytest.approx(1.12, abs=5e-3)


SCORES = st.tuples(st.integers(2, 8), st.integers(3, 6)).flatmap(
    lambda shape: arrays(float, shape, elements=st.sampled_from([0.5, 0.6, 0.7, 0.8, 0.9]))
)


@given(scores=SCORES)
def test_friedman_equals_scipy(scores):
    found = friedman_nemenyi(scores)
    k = scores.shape[1]
    if all(len(set(row)) == 1 for row in scores):
        assert (found.chi2, found.p_chi2) == (0.0, 1.0)
    else:
        statistic, p = friedmanchisquare(*scores.T)
        assert found.chi2 == pytest.approx(statistic, abs=1e-9)
        assert found.p_chi2 == pytest.approx(p, abs=1e-12)
    assert sum(found.ranks) == pytest.approx(k * (k + 1) / 2)
    assert 0 <= found.p_f <= 1


@given(scores=SCORES)
def test_ranks_and_groups_equal_a_loop(scores):
    found = friedman_nemenyi(scores)
    k = scores.shape[1]
    for j in range(k):
        each = [1 + sum(row > row[j]) + (sum(row == row[j]) - 1) / 2 for row in scores]
        assert found.ranks[j] == pytest.approx(np.mean(each))
    joined = {
        frozenset(i for i in range(k) if low <= found.ranks[i] and found.ranks[i] - low < found.critical_difference)
        for low in found.ranks
    }
    joined = {group for group in joined if len(group) > 1}
    maximal = {group for group in joined if not any(group < other for other in joined)}
    assert {frozenset(group) for group in found.groups} == maximal
    for group in found.groups:
        assert list(group) == sorted(group, key=lambda i: found.ranks[i])


def test_equal_means_of_other_folds_share_a_rank():
    a, b = fmean([0.66, 0.63, 0.95]), fmean([0.69, 0.60, 0.95])
    assert a != b
    assert friedman_nemenyi([[a, b, 0.5]] * 4).ranks == (1.5, 1.5, 3.0)
    assert friedman_nemenyi([[a, a + 1e-9, 0.5]] * 4).ranks == (2.0, 1.0, 3.0)


def test_where_all_agree_the_f_statistic_is_infinite():
    found = friedman_nemenyi(np.tile([0.9, 0.8, 0.7], (6, 1)))
    assert found.ranks == (1.0, 2.0, 3.0)
    assert math.isinf(found.f)
    assert found.p_f == 0.0
    assert found.chi2 == pytest.approx(12)


def test_friedman_rejects_a_true_null_at_its_level():
    """Iman and Davenport's p-value below 0.05 in about 5 % of 400 random tables: 20 with a std of 4.4."""
    rng = np.random.default_rng(5)
    rejected = sum(friedman_nemenyi(rng.normal(size=(10, 5))).p_f < 0.05 for _ in range(400))
    assert 8 <= rejected <= 34


@pytest.mark.parametrize(
    "scores", [[[0.5, 0.6, 0.7]], [[0.5, 0.6], [0.5, 0.6]], [[0.5, 0.6, math.nan], [0.5, 0.6, 0.7]], [0.5, 0.6, 0.7]]
)
def test_friedman_refuses_too_few_datasets_or_learners(scores):
    with pytest.raises(ValueError, match="scores must"):
        friedman_nemenyi(scores)


def test_wilcoxon_of_the_example_of_demsar():
    """Section 3.1.3: rank sums of 93 and 12; 12 is below 21, the critical value of 14 datasets at .05."""
    statistic, p_value = wilcoxon_test(np.subtract(C45_M, C45))
    assert statistic == 12
    assert 0.005 < p_value < 0.05
    assert wilcoxon_test(np.subtract(C45, C45_M)) == (statistic, p_value)


def test_holm_of_the_example_of_demsar():
    """Section 3.2.2: C4.5 beside the others, z = 2.416, 2.342 and .512; Holm rejects the first two at .05.

    The printed means of C4.5+m+cf and C4.5+cf on voting are equal, and their ranks are not: 3 and 2.
    """
    scores = np.column_stack([C45, C45_M, C45_CF, C45_M_CF])
    scores[12, 3] -= 1e-4
    ranks = friedman_nemenyi(scores).ranks
    assert ranks == pytest.approx([3.143, 2.000, 2.893, 1.964], abs=5e-4)
    z = (ranks[0] - np.array(ranks)[[3, 1, 2]]) / math.sqrt(4 * 5 / (6 * 14))
    assert z == pytest.approx([2.416, 2.342, 0.512], abs=1.5e-3)
    p_values = 2 * norm.sf(z)
    assert p_values == pytest.approx([0.016, 0.019, 0.607], abs=2e-3)
    assert list(holm(p_values) < 0.05) == [True, True, False]


@given(st.lists(st.integers(-6, 6).map(lambda n: n / 100), min_size=2, max_size=8))
def test_wilcoxon_equals_all_assignments_of_signs(differences):
    """The exact distribution also with ties and zeros, whose ranks are divided between both sums."""
    ranks = rankdata(np.abs(np.round(differences, 9)))
    signs = np.sign(np.round(differences, 9))

    def statistic(signs):
        positive = (ranks * (signs > 0)).sum() + (ranks * (signs == 0)).sum() / 2
        return min(positive, ranks.sum() - positive)

    of_signs = [statistic(np.array(s) * np.abs(signs)) for s in product([-1, 1], repeat=len(ranks))]
    found = wilcoxon_test(differences)
    assert found[0] == statistic(signs)
    assert found[1] == pytest.approx(np.mean(np.array(of_signs) <= found[0] + 1e-9))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_holm_rejects_what_its_steps_reject(p_values):
    """The step-down procedure: from the smallest p-value on, as long as p < alpha / (number of those that remain)."""
    adjusted = holm(p_values)
    for alpha in (0.01, 0.05, 0.3):
        rejected = set()
        for step, i in enumerate(np.argsort(p_values, kind="stable")):
            if not p_values[i] * (len(p_values) - step) < alpha:
                break
            rejected.add(int(i))
        assert {i for i, p in enumerate(adjusted) if p < alpha} == rejected
    assert all(adjusted >= np.array(p_values))
    assert all(adjusted <= 1)


@pytest.mark.parametrize("differences", [[0.1], [0.1, math.nan], [[0.1, 0.2]]])
def test_wilcoxon_refuses_what_is_no_list_of_differences(differences):
    with pytest.raises(ValueError, match="differences must"):
        wilcoxon_test(differences)


def test_differences_that_are_equal_but_for_rounding_share_a_rank():
    differences = [0.85 - 0.80, 0.70 - 0.75, 0.6 - 0.5]
    assert abs(differences[0]) != abs(differences[1])
    assert wilcoxon_test(differences) == wilcoxon_test([0.05, -0.05, 0.1])


def test_the_level_decides_the_critical_difference():
    scores = np.random.default_rng(0).normal(size=(6, 4))
    for alpha in (0.05, 0.1):
        assert friedman_nemenyi(scores, alpha).critical_difference == critical_difference(6, 4, alpha)
