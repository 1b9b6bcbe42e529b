"""Bayesian tests: against a published example, numerical integration, explicit sums over pairs, and the p-value."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, special

from opauc_bench.evaluation.bayes import Posterior, bayesian_signed_rank_test, bayesian_t_test
from opauc_bench.evaluation.significance import corrected_t_test

# Accuracy of naive Bayes minus that of AODE on the dataset anneal, 10 runs of 10-fold cross-validation, rounded to five
# decimals, and the number of folds with this difference.
ANNEAL = {
    **{-0.06742: 1, -0.06667: 2, -0.05618: 1, -0.05556: 1, -0.05555: 1, -0.04494: 2, -0.04445: 3, -0.03371: 2},
    **{-0.0337: 1, -0.03334: 2, -0.03333: 6, -0.02247: 6, -0.02223: 5, -0.02222: 15, -0.01124: 3, -0.01123: 1},
    **{-0.01112: 2, -0.01111: 30, 0.0: 16},
}

aucs = st.integers(0, 1000).map(lambda n: n / 1000)
pairs = st.integers(2, 12).flatmap(
    lambda n: st.tuples(st.lists(aucs, min_size=n, max_size=n), st.lists(aucs, min_size=n, max_size=n))
)
ropes = st.sampled_from([0.0, 0.005, 0.02, 0.1])
differences = st.lists(st.integers(-40, 40).map(lambda n: n / 1000), min_size=1, max_size=8)


def mirrored(posterior):
    return Posterior(posterior.worse, posterior.equivalent, posterior.better)


def probabilities(posterior):
    return [posterior.better, posterior.equivalent, posterior.worse]


def test_correlated_t_test_reproduces_the_tutorial_of_benavoli():
    """Printed for a rope of .01 in the notebook on this test that accompanies the tutorial (JMLR 18, 2017).

    Its data have more digits than the rounded differences, which moves the probabilities by 1e-5.
    """
    values = np.repeat(list(ANNEAL), list(ANNEAL.values()))
    assert len(values) == 100
    found = bayesian_t_test(values, np.zeros(100), test_fraction=0.1, rope=0.01)
    assert found.worse == pytest.approx(0.9542966, abs=3e-5)
    assert found.equivalent == pytest.approx(0.0457031, abs=3e-5)
    assert found.better == pytest.approx(3.035e-7, rel=0.02)
    assert found.verdict() == "loss"


@pytest.mark.parametrize(("shift", "noise"), [(0.0, 0.002), (0.004, 0.01), (-0.03, 0.01), (0.0051, 0.001)])
def test_correlated_t_test_equals_numerical_integration_of_the_posterior(shift, noise):
    rng = np.random.default_rng(7)
    a = rng.uniform(0.7, 0.9, 25)
    b = a - shift - rng.normal(0, noise, 25)
    difference = a - b
    nu, location = 24, difference.mean()
    scale = math.sqrt((1 / 25 + 0.25) * difference.var(ddof=1))
    constant = special.gamma((nu + 1) / 2) / (special.gamma(nu / 2) * math.sqrt(nu * math.pi) * scale)

    def density(x):
        return constant * (1 + ((x - location) / scale) ** 2 / nu) ** (-(nu + 1) / 2)

    expected = [
        integrate.quad(density, low, high, epsabs=1e-12, limit=200)[0]
        for low, high in ((0.005, np.inf), (-0.005, 0.005), (-np.inf, -0.005))
    ]
    assert probabilities(bayesian_t_test(a, b, 0.2)) == pytest.approx(expected, abs=1e-8)


@given(pairs, ropes, st.sampled_from([0.1, 0.2, 0.5]))
def test_correlated_t_test_is_a_distribution_that_mirrors(pair, rope, fraction):
    a, b = pair
    found, swapped = bayesian_t_test(a, b, fraction, rope), bayesian_t_test(b, a, fraction, rope)
    assert sum(probabilities(found)) == pytest.approx(1, abs=1e-12)
    assert min(probabilities(found)) >= 0
    assert probabilities(swapped) == pytest.approx(probabilities(mirrored(found)), abs=1e-12)
    wider = bayesian_t_test(a, b, fraction, 2 * rope + 0.001)
    assert wider.equivalent >= found.equivalent - 1e-12


@given(pairs)
def test_without_a_rope_the_smaller_tail_is_half_the_p_value_of_the_corrected_test(pair):
    found = bayesian_t_test(*pair, test_fraction=0.2, rope=0.0)
    p_value = corrected_t_test(*pair, test_fraction=0.2).p_value
    if len(set(np.subtract(*pair))) > 1:
        assert 2 * min(found.better, found.worse) == pytest.approx(p_value, abs=1e-12)


@pytest.mark.parametrize(
    ("difference", "expected"),
    [(0.0, "equivalent"), (0.005, "equivalent"), (-0.005, "equivalent"), (0.0051, "win"), (-0.0051, "loss")],
)
def test_constant_differences_are_in_one_region(difference, expected):
    b = np.full(25, 0.8)
    found = bayesian_t_test(b + difference, b, 0.2)
    assert sorted(probabilities(found)) == [0, 0, 1]
    assert found.verdict() == expected


@pytest.mark.parametrize(
    ("posterior", "verdict"),
    [
        (Posterior(0.96, 0.04, 0.0), "win"),
        (Posterior(0.95, 0.05, 0.0), "undecided"),
        (Posterior(0.01, 0.97, 0.02), "equivalent"),
        (Posterior(0.0, 0.04, 0.96), "loss"),
    ],
)
def test_a_verdict_needs_a_probability_above_its_level(posterior, verdict):
    assert posterior.verdict() == verdict
    assert Posterior(0.92, 0.08, 0.0).verdict(alpha=0.1) == "win"


def masses_by_pairs(z, weights, rope):
    """Sum over all pairs, one by one, in whole thousandths."""
    better = equivalent = worse = 0.0
    for z_i, w_i in zip(z, weights):
        for z_j, w_j in zip(z, weights):
            total = round(1000 * z_i) + round(1000 * z_j)
            if total > 2000 * rope:
                better += w_i * w_j
            elif total < -2000 * rope:
                worse += w_i * w_j
            else:
                equivalent += w_i * w_j
    return better, equivalent, worse


@given(differences, ropes, st.sampled_from([0.5, 1.0, 3.0]))
def test_signed_rank_test_equals_sums_over_pairs(z, rope, strength):
    draws = np.random.RandomState(3).dirichlet([strength, *[1.0] * len(z)], 20)
    found = bayesian_signed_rank_test(z, rope, prior_strength=strength, n_samples=20, seed=3)
    winners = [np.argsort(masses_by_pairs([0.0, *z], draw, rope))[-1] for draw in draws]
    assert probabilities(found) == [winners.count(k) / 20 for k in range(3)]


@given(differences, ropes)
def test_signed_rank_test_mirrors(z, rope):
    found = bayesian_signed_rank_test(z, rope, n_samples=200)
    assert sum(probabilities(found)) == pytest.approx(1, abs=1e-12)
    swapped = bayesian_signed_rank_test([-value for value in z], rope, n_samples=200)
    assert probabilities(swapped) == pytest.approx(probabilities(mirrored(found)))


@pytest.mark.parametrize(
    ("z", "verdict"),
    [([0.03] * 12, "win"), ([-0.03] * 12, "loss"), ([0.001, -0.001] * 6, "equivalent"), ([0.1, -0.1] * 2, "undecided")],
)
def test_signed_rank_test_decides_where_all_datasets_agree(z, verdict):
    assert bayesian_signed_rank_test(z).verdict() == verdict


def test_signed_rank_test_of_one_dataset_is_that_of_a_beta_distribution():
    """One difference with weight u of Beta(1, s): a mass 1 - (1 - u)^2 of pairs above the rope is over half for
    u > 1 - 1 / sqrt(2), which has the probability 2^(-s / 2)."""
    for strength in (0.5, 1.0):
        found = bayesian_signed_rank_test([0.1], prior_strength=strength)
        assert found.better == pytest.approx(2 ** (-strength / 2), abs=0.01)
        assert found.worse == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bayesian_t_test([0.8, math.nan], [0.7, 0.6], 0.2), "finite values"),
        (lambda: bayesian_t_test([0.8], [0.7], 0.2), "length >= 2"),
        (lambda: bayesian_t_test([0.8, 0.9], [0.7, 0.6], 1.0), "test_fraction"),
        (lambda: bayesian_t_test([0.8, 0.9], [0.7, 0.6], 0.2, rope=-0.01), "rope"),
        (lambda: bayesian_t_test([0.8, 0.8], [0.7, 0.7], 0.2, rope=math.nan), "rope"),
        (lambda: bayesian_signed_rank_test([]), "differences"),
        (lambda: bayesian_signed_rank_test([0.1, math.inf]), "differences"),
        (lambda: bayesian_signed_rank_test([[0.1]]), "differences"),
        (lambda: bayesian_signed_rank_test([0.1], prior_strength=0), "prior_strength"),
        (lambda: bayesian_signed_rank_test([0.1], rope=math.inf), "rope"),
    ],
)
def test_bad_values_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_differences_that_are_equal_but_for_rounding_are_in_one_region():
    folds = 0.01 * np.arange(15)
    assert len(set((0.805 + folds) - (0.8 + folds))) > 1
    assert probabilities(bayesian_t_test(0.805 + folds, 0.8 + folds, 0.2, rope=0.005)) == [0, 1, 0]


def test_the_default_prior_of_the_signed_rank_test_has_half_the_weight_of_a_dataset():
    assert bayesian_signed_rank_test([0.1]).better == pytest.approx(2**-0.25, abs=0.01)


@pytest.mark.parametrize("difference", [0.805 - 0.8, 0.8 - 0.805])
def test_rounding_does_not_move_a_difference_out_of_the_rope(difference):
    assert abs(difference) > 0.005
    assert bayesian_signed_rank_test([difference] * 6, rope=0.005).equivalent == 1.0
