"""The exact AUC against scikit-learn, against counting pairs, and against what must not change it."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics import roc_auc_score

from opauc_bench.evaluation.auc import auc_columns, auc_of_prefixes, auc_score

# Few different values: most pairs tie.
TIED = st.integers(-2, 2).map(float)
ANY = st.floats(-1e300, 1e300)


@st.composite
def scored(draw, values=TIED | ANY, n_columns=None):
    n = draw(st.integers(2, 40))
    y = draw(arrays(np.int8, n, elements=st.sampled_from([-1, 1])))
    assume(len(np.unique(y)) == 2)
    shape = n if n_columns is None else (n, n_columns)
    return y, draw(arrays(float, shape, elements=values))


def by_counting(y, scores):
    """Twice the area, in pairs: an integer over an integer."""
    differences = scores[y == 1][:, None] - scores[y == -1][None, :]
    return (2 * np.sum(differences > 0) + np.sum(differences == 0)) / (2 * differences.size)


@given(scored())
def test_auc_equals_scikit_learn(example):
    y, scores = example
    assert auc_score(y, scores) == pytest.approx(roc_auc_score(y, scores), abs=1e-12)


@given(scored(TIED))
def test_ties_count_one_half_to_the_last_bit(example):
    y, scores = example
    assert auc_score(y, scores) == by_counting(y, scores)


@given(scored())
def test_auc_ignores_increasing_maps_of_the_scores(example):
    y, scores = example
    ranks = np.searchsorted(np.unique(scores), scores)
    assert auc_score(y, ranks) == auc_score(y, scores)
    assert auc_score(y, np.exp(ranks / 40.0)) == auc_score(y, scores)


@given(scored())
def test_swapped_labels_and_negated_scores_give_the_complement(example):
    y, scores = example
    auc = auc_score(y, scores)
    assert auc_score(-y, scores) == pytest.approx(1.0 - auc, abs=1e-15)
    assert auc_score(y, -scores) == pytest.approx(1.0 - auc, abs=1e-15)
    assert auc_score(-y, -scores) == auc


@given(scored(), st.randoms(use_true_random=False))
def test_auc_ignores_the_order_of_rows(example, random):
    y, scores = example
    order = list(range(len(y)))
    random.shuffle(order)
    assert auc_score(y[order], scores[order]) == auc_score(y, scores)


@pytest.mark.parametrize(
    ("positives", "negatives", "auc"),
    [
        ([1.0], [0.0], 1.0),
        ([0.0], [1.0], 0.0),
        ([0.0], [0.0], 0.5),
        ([0.0], [-0.0], 0.5),
        ([1, 2, 3], [1, 2, 3], 0.5),
        ([2, 2], [1, 2, 3], 0.5),
        ([3, 1], [2, 2, 1], 7 / 12),
        ([5e-324], [0.0], 1.0),
        ([1.0 + 2**-52], [1.0], 1.0),
    ],
)
def test_small_cases_by_hand(positives, negatives, auc):
    y = np.repeat([1, -1], [len(positives), len(negatives)])
    assert auc_score(y, np.array([*positives, *negatives], dtype=float)) == auc


def test_auc_is_exact_where_nearly_all_rows_tie():
    rng = np.random.default_rng(5)
    y = np.where(rng.random(20_000) < 0.03, 1, -1)
    scores = np.where(rng.random(20_000) < 0.999, 0.0, rng.choice([-1.0, 1.0], 20_000))
    above, below = [np.bincount(1 + scores[y == sign].astype(int), minlength=3) for sign in (1, -1)]
    wins = above[1] * below[0] + above[2] * (below[0] + below[1])
    ties = (above * below).sum()
    assert auc_score(y, scores) == (2 * wins + ties) / (2 * above.sum() * below.sum())


def test_auc_counts_more_pairs_than_32_bits():
    y = np.repeat([1, -1], 100_000)
    assert auc_score(y, y.astype(float)) == 1.0
    assert auc_score(y, np.zeros(200_000)) == 0.5


# ---------------------------------------------------------------------- several columns


@given(scored(n_columns=3))
def test_columns_are_scored_independently(example):
    y, scores = example
    aucs = auc_columns(y, scores)
    assert aucs.shape == (3,)
    assert aucs.tolist() == [auc_score(y, scores[:, g]) for g in range(3)]
    assert auc_columns(y, np.asfortranarray(scores)).tolist() == aucs.tolist()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_column_with_a_score_that_is_not_finite_is_nan_and_no_other(bad):
    y = np.array([1, -1, 1, -1])
    scores = np.column_stack([y, y, -y]).astype(float)
    scores[2, 1] = bad
    np.testing.assert_array_equal(auc_columns(y, scores), [1.0, np.nan, 0.0])
    assert np.isnan(auc_score(y, scores[:, 1]))


def test_no_columns_give_no_aucs():
    assert auc_columns([1, -1], np.empty((2, 0))).shape == (0,)


def test_scores_of_any_kind_of_number_and_labels_of_any_two_kinds():
    assert auc_score(["no", "yes", "no"], [1, 2, 0]) == 1.0
    assert auc_score([0, 1], np.array([1, 2], dtype=np.float32)) == 1.0
    assert auc_score([True, False], [3, 4]) == 0.0


def test_auc_does_not_change_the_scores():
    y, scores = np.array([1, -1, 1]), np.array([[3.0], [2.0], [1.0]])
    scores.flags.writeable = False
    auc_columns(y, scores)
    assert scores.ravel().tolist() == [3.0, 2.0, 1.0]


@pytest.mark.parametrize(
    ("y", "scores", "message"),
    [
        ([1, 1], np.zeros((2, 1)), "two classes; got the labels \\[1\\]"),
        ([1, 2, 3], np.zeros((3, 1)), "two classes; got the labels \\[1, 2, 3\\]"),
        ([1, np.nan], np.zeros((2, 1)), "two classes; got the labels \\[1.0, nan\\]"),
        ([], np.zeros((0, 1)), "two classes; got the labels \\[\\]"),
        ([1, -1], np.zeros((3, 1)), "got \\(2,\\) and \\(3, 1\\)"),
        ([1, -1], np.zeros(2), "got \\(2,\\) and \\(2,\\)"),
        ([[1], [-1]], np.zeros((2, 1)), "got \\(2, 1\\) and \\(2, 1\\)"),
    ],
)
def test_auc_refuses_other_than_two_classes(y, scores, message):
    with pytest.raises(ValueError, match=message):
        auc_columns(y, scores)


def test_one_scoring_has_one_dimension():
    with pytest.raises(ValueError, match=r"one-dimensional; got shape \(2, 1\)"):
        auc_score([1, -1], [[1.0], [2.0]])


@given(scored(TIED))
def test_auc_of_prefixes_is_that_of_each_alone_to_the_last_bit(example):
    y, scores = example
    ends = np.arange(1, len(y) + 1)
    want = [auc_score(y[:end], scores[:end]) if len(np.unique(y[:end])) == 2 else np.nan for end in ends]
    np.testing.assert_array_equal(auc_of_prefixes(y, scores, ends), want)
    np.testing.assert_array_equal(auc_of_prefixes(y, scores, ends[::3]), want[::3])
