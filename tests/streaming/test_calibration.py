"""Probabilities from scores: fits against scikit-learn's, invariants, and measures of reliability."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, log_loss

from opauc_bench.streaming.calibration import (
    FEWEST,
    FEWEST_FOR_ISOTONIC,
    Calibration,
    Reliability,
    calibrate,
    check,
)
from opauc_bench.streaming.score import _Tally


def sample(n=4000, slope=0.8, offset=-2.0, scale=3.0, seed=0):
    rng = np.random.default_rng(seed)
    scores = scale * rng.standard_normal(n)
    return scores, rng.random(n) < 1 / (1 + np.exp(-(slope * scores + offset)))


def bounds(positive):
    n_positive = positive.sum()
    return 1 / (len(positive) - n_positive + 2), (n_positive + 1) / (n_positive + 2)


# ---------------------------------------------------------------------- the fits


@pytest.mark.parametrize(("scale", "shift"), [(1.0, 0.0), (1e-6, 0.0), (1e6, 0.0), (1.0, 1e4), (1e-3, -50.0)])
def test_platt_is_the_maximum_likelihood_for_smoothed_targets(scale, shift):
    """scikit-learn's logistic regression without penalty, each row twice, weighted by its target and the rest."""
    s, positive = sample()
    low, high = bounds(positive)
    targets = np.where(positive, high, low)
    expected = LogisticRegression(C=np.inf, tol=1e-12, max_iter=1000).fit(
        np.r_[s, s][:, None], np.repeat([1, 0], len(s)), sample_weight=np.r_[targets, 1 - targets]
    )
    fitted = calibrate(scale * s + shift, positive, "platt")
    p = fitted.probability(scale * s + shift)
    np.testing.assert_allclose(p, expected.predict_proba(s[:, None])[:, 1], rtol=2e-5)
    # At the maximum, the residuals are orthogonal to the constant and to the scores.
    np.testing.assert_allclose([(p - targets).mean(), ((p - targets) * s).mean()], 0.0, atol=1e-7)


@pytest.mark.parametrize("factor", [2.0**-1000, 2.0**600, 2.0**1000])
def test_platt_of_scores_whose_squares_are_out_of_range(factor):
    scores, positive = sample(400)
    one, other = calibrate(scores, positive, "platt"), calibrate(scores * factor, positive, "platt")
    np.testing.assert_allclose(other.probability(scores * factor), one.probability(scores), rtol=1e-12)


def test_isotonic_is_scikit_learns():
    scores, positive = sample()
    scores = np.round(scores, 2)  # with ties
    fitted = calibrate(scores, positive, "isotonic")
    expected = IsotonicRegression(out_of_bounds="clip").fit(scores, positive)
    at = np.r_[-20.0, scores, 20.0]
    np.testing.assert_allclose(fitted.probability(at), np.clip(expected.predict(at), *bounds(positive)), atol=1e-12)


def test_separated_classes_and_constant_scores_have_finite_fits():
    positive = np.arange(100) < 30
    for method in ("platt", "isotonic"):
        low, high = calibrate(np.where(positive, 1.0, -1.0), positive, method).probability(np.array([-1.0, 1.0]))
        np.testing.assert_allclose([low, high], bounds(positive), rtol=1e-6)
        p = calibrate(np.ones(100), positive, method).probability(np.array([-5.0, 1.0, 5.0]))
        np.testing.assert_allclose(p, 0.3, atol=0.01)


def test_a_ranking_that_is_worse_than_none_is_not_turned_round():
    scores, positive = sample()
    for method in ("platt", "isotonic"):
        p = calibrate(-scores, positive, method).probability(np.array([-5.0, 0.0, 5.0]))
        assert (np.diff(p) >= 0).all()
    np.testing.assert_allclose(calibrate(-scores, positive, "platt").probability(scores), positive.mean(), rtol=0.01)


SAMPLES = st.lists(st.tuples(st.floats(-1e6, 1e6), st.booleans()), min_size=20, max_size=80)


@given(pairs=SAMPLES, method=st.sampled_from(["platt", "isotonic"]))
def test_probabilities_never_decrease_and_are_neither_0_nor_1(pairs, method):
    scores, positive = np.array([s for s, _ in pairs]), np.array([p for _, p in pairs])
    fitted = calibrate(scores, positive, method)
    if min(positive.sum(), (~positive).sum()) < FEWEST:
        assert fitted is None
        return
    p = fitted.probability(np.sort(scores))
    assert (np.diff(p) >= 0).all()
    if method == "isotonic":
        low, high = bounds(positive)
        assert low <= p[0]
        assert p[-1] <= high
        assert p.mean() == pytest.approx(positive.mean(), abs=max(low, 1 - high))
    again = Calibration.from_json(json.loads(json.dumps(fitted.to_json())))
    np.testing.assert_array_equal(again.probability(scores), fitted.probability(scores))


@pytest.mark.filterwarnings("error")
def test_scores_that_overflow_have_the_probabilities_0_and_1():
    fitted = calibrate(*sample(slope=8.0), "platt")
    assert fitted.slope > 2
    assert fitted.probability(np.array([-np.inf, -1e308, 1e308, np.inf])).tolist() == [0, 0, 1, 1]


# ---------------------------------------------------------------------- which rows, which method


def test_auto_depends_on_the_rarer_class():
    for n_rare, expected in ((FEWEST - 1, None), (FEWEST, "platt"), (999, "platt"), (FEWEST_FOR_ISOTONIC, "isotonic")):
        for positive in (np.arange(5000) < n_rare, np.arange(5000) >= n_rare):
            fitted = calibrate(np.linspace(-1, 1, 5000), positive)
            assert (fitted.method if fitted else None) == expected
    assert calibrate(*sample(), "none") is None


def test_what_cannot_be_calibrated():
    scores, positive = sample(3000)
    assert check(calibrate(scores, positive), scores, positive)["n_rows"] == 1500
    assert calibrate(np.where(positive, np.inf, scores), positive) is None
    assert calibrate(scores[:0], positive[:0]) is None


def test_the_check_is_on_rows_that_were_not_fitted():
    scores, positive = sample(2000)
    calibration = calibrate(scores, positive, "platt")
    older = calibrate(scores[:1000], positive[:1000], "platt")
    figures = check(calibration, scores, positive)["figures"]
    p, y = older.probability(scores[1000:]), positive[1000:]
    assert figures["calibrated"]["brier"] == pytest.approx(brier_score_loss(y, p), abs=1e-12)
    assert figures["constant"]["brier"] == pytest.approx(np.mean((positive[:1000].mean() - y) ** 2), abs=1e-12)
    one_class_first = np.argsort(positive, kind="stable")
    assert check(calibration, scores[one_class_first], positive[one_class_first]) is None


# ---------------------------------------------------------------------- reliability


def test_reliability_is_that_of_all_rows_at_once():
    scores, positive = sample(3000)
    calibration = calibrate(scores, positive, "isotonic")
    p = calibration.probability(scores)
    whole, pieces = (Reliability(calibration.edges, 0.25) for _ in range(2))
    whole.add(scores, p, positive)
    for start in range(0, 3000, 700):
        part = slice(start, start + 700)
        pieces.add(scores[part], p[part], positive[part])
    whole, pieces = whole.to_json(), pieces.to_json()
    figures = whole["figures"]
    logistic = 1 / (1 + np.exp(-scores))
    for name, q in (("calibrated", p), ("logistic", logistic), ("constant", np.full(3000, 0.25))):
        assert figures[name]["brier"] == pytest.approx(brier_score_loss(positive, q), abs=1e-12)
        assert figures[name]["log_loss"] == pytest.approx(log_loss(positive, q), abs=1e-9)
        assert pieces["figures"][name] == pytest.approx(figures[name])
    bins = np.digitize(scores, calibration.edges)
    for name, q in (("calibrated", p), ("logistic", logistic)):
        error = sum(abs((q - positive)[bins == k].sum()) for k in range(12)) / 3000
        assert figures[name]["calibration_error"] == pytest.approx(error, abs=1e-12)
    assert sum(rows for rows, _, _ in whole["bins"]) == whole["n_rows"] == 3000
    assert sum(rows * observed for rows, _, observed in whole["bins"]) == pytest.approx(whole["n_positive"])


def test_calibration_makes_probabilities_better():
    scores, positive = sample(20_000)
    calibration = calibrate(scores, positive)
    assert calibration.method == "isotonic"
    figures = check(calibration, scores, positive)["figures"]
    assert figures["calibrated"]["brier"] < figures["constant"]["brier"] < figures["logistic"]["brier"]
    assert figures["calibrated"]["calibration_error"] < 0.2 * figures["logistic"]["calibration_error"]


BROKEN = {
    "method": ["sigmoid", 3, None],
    "scores": [None, [], [2.0, 1.0], ["a"], [np.nan]],
    "probabilities": [[0.5], [2.0, 3.0], "a"],
    "slope": [-1.0, np.inf, "1"],
    "edges": [[[1.0]], [2.0, 1.0]],
    "n_rows": [0, "10", 1.5],
    "n_positive": [0, 10_000],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in BROKEN.items() for value in values])
def test_calibrations_that_are_not_valid_are_refused(name, value):
    values = calibrate(np.array([0.0, 1.0] * 20), np.array([False, True] * 20), "isotonic").to_json()
    assert Calibration.from_json(values)
    with pytest.raises(ValueError, match="calibration is not valid"):
        Calibration.from_json(values | {name: value})


def test_the_constant_that_probabilities_are_compared_with_is_the_share_of_positives():
    calibration = SimpleNamespace(edges=np.zeros(0), n_positive=1, n_rows=4)
    tally = _Tally(SimpleNamespace(classes=(-1.0, 1.0)), calibration)
    tally._reliability.add(np.zeros(2), np.full(2, 0.5), np.array([False, False]))
    assert tally._reliability.to_json()["figures"]["constant"]["brier"] == pytest.approx(0.25**2)
