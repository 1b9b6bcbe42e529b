"""Samples of scores: the last blocks, and rows of each class with equal chances."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from opauc_bench.streaming.samples import ClassSamples, RecentScores

SCORES = st.lists(st.tuples(st.floats(-5, 5), st.booleans()), min_size=1, max_size=60)


@given(pairs=SCORES, size=st.integers(2, 20), length=st.integers(1, 7))
def test_recent_scores_are_those_of_the_last_blocks(pairs, size, length):
    scores, positive = np.array([s for s, _ in pairs]), np.array([p for _, p in pairs])
    recent = RecentScores(size)
    starts = range(0, len(scores), length)
    for start in starts:
        block = slice(start, start + length)
        recent.add(np.column_stack([scores[block], -scores[block]]), positive[block])
    wanted = min(size, len(scores) // 2)
    first = max(start for start in starts if len(scores) - start >= wanted)
    assert len(recent) == len(scores) - first
    got = recent.rows_of(1)
    np.testing.assert_array_equal(got[0], -scores[first:])
    np.testing.assert_array_equal(got[1], positive[first:])


@given(pairs=SCORES, cut=st.integers(0, 60))
def test_samples_that_keep_all_are_exact(pairs, cut):
    scores, positive = np.array([s for s, _ in pairs]), np.array([p for _, p in pairs])
    samples = ClassSamples(60)
    samples.add(scores[:cut], positive[:cut])
    samples.add(scores[cut:], positive[cut:])
    assert samples.complete
    if len(set(positive)) < 2:
        assert samples.auc() is None
    else:
        assert samples.auc() == pytest.approx(roc_auc_score(positive, scores), abs=1e-12)


def test_every_row_of_a_class_has_the_same_chance_to_be_kept():
    times, n, size = np.zeros(40), 4000, 10
    samples = [ClassSamples(size) for _ in range(n)]
    for k, one in enumerate(samples):
        one._rng = np.random.default_rng(k)
        for start in (0, 7, 25):
            stop = {0: 7, 7: 25, 25: 40}[start]
            one.add(np.arange(start, stop, dtype=float), np.ones(stop - start, dtype=bool))
        kept = one._kept[1].astype(int)
        assert len(set(kept)) == size
        times[kept] += 1
    expected = n * size / 40
    assert np.abs(times - expected).max() < 5 * np.sqrt(expected)


@pytest.mark.parametrize("share", [0.25, 0.75])
def test_the_rarer_class_of_recent_scores_may_be_either(share):
    recent = RecentScores(100)
    for _ in range(2):
        recent.add(np.zeros((8, 1)), np.arange(8) < 8 * share)
    assert recent.n_rarer == 2
