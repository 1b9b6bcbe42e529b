"""Average ranks, Friedman's test and Nemenyi's critical difference, against SciPy, printed values and slow code."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import friedmanchisquare

from opauc_bench.evaluation.ranks import critical_difference, friedman_nemenyi


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
