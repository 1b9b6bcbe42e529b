"""Scores of different times: what is taken away, what stays, and where they come to lie."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opauc_bench.streaming.alignment import aligned


def blocks_with(moves, rng, n=400, centres=(-1.0, 2.0), share=0.3):
    """Blocks of scores around the centres of their classes, each moved by a constant; and the scores without it."""
    positive = [rng.random(n) < share for _ in moves]
    still = [np.array(centres)[classes.astype(int)] + rng.standard_normal(n) for classes in positive]
    return [(scores + move, classes) for scores, move, classes in zip(still, moves, positive)], np.concatenate(still)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=6), st.floats(-100, 100), st.integers(0, 9))
def test_moves_of_blocks_are_taken_away(moves, final, seed):
    rng = np.random.default_rng(seed)
    blocks, still = blocks_with(moves, rng)
    (latest,), _ = blocks_with([final], rng, n=2000)
    scores, positive = aligned(blocks, latest)
    np.testing.assert_array_equal(positive, np.concatenate([classes for _, classes in blocks]))
    # Medians of 400 and of 2,000 scores are known to .06 and .03.
    assert np.abs(scores - still - final).max() < 0.4


@given(st.floats(-1e3, 1e3), st.integers(0, 9))
def test_a_move_of_all_blocks_changes_nothing(move, seed):
    blocks, _ = blocks_with([0.0, 3.0], np.random.default_rng(seed))
    moved = [(scores + move, classes) for scores, classes in blocks]
    expected = aligned(blocks, blocks[-1])[0]
    np.testing.assert_allclose(aligned(moved, blocks[-1])[0], expected, rtol=1e-6, atol=1e-6)


def test_a_block_with_more_of_a_class_is_not_moved():
    """The classes are far apart: medians of all scores of a block would be those of its larger class."""
    rng = np.random.default_rng(0)
    parts = [blocks_with([0.0], rng, centres=(-9.0, 9.0), share=share) for share in (0.2, 0.45, 0.55, 0.8)]
    blocks, still = [block for (block,), _ in parts], np.concatenate([scores for _, scores in parts])
    scores, _ = aligned(blocks, blocks[-1])
    assert np.abs(scores - still).max() < 0.4


def test_blocks_of_one_class_have_the_move_of_the_nearest_with_both():
    rng = np.random.default_rng(0)
    parts = [
        blocks_with([move], rng, share=share) for move, share in ((5.0, 0.0), (5.0, 0.4), (-3.0, 0.6), (-3.0, 1.0))
    ]
    blocks, still = [block for (block,), _ in parts], np.concatenate([scores for _, scores in parts])
    latest = still[400:1200], np.concatenate([classes for _, classes in blocks[1:3]])
    scores, _ = aligned(blocks, latest)
    assert np.abs(scores - still).max() < 0.5


def test_blocks_of_one_class_each_keep_the_distance_of_the_classes():
    rng = np.random.default_rng(0)
    parts = [blocks_with([0.0], rng, share=share) for share in (0.0, 0.0, 1.0, 1.0)]
    blocks, still = [block for (block,), _ in parts], np.concatenate([scores for _, scores in parts])
    scores, _ = aligned(blocks, (still + 7.0, np.concatenate([classes for _, classes in blocks])))
    np.testing.assert_allclose(scores, still + 7.0, atol=1e-9)


def test_one_score_far_from_all_others_moves_none_of_them():
    rng = np.random.default_rng(0)
    blocks, _ = blocks_with([0.0, 0.0], rng)
    expected, _ = aligned(blocks, blocks[-1])
    blocks[0][0][7] = blocks[1][0][9] = 1e30
    scores, _ = aligned(blocks, blocks[-1])
    others = np.delete(np.arange(800), [7, 409])
    np.testing.assert_allclose(scores[others], expected[others], atol=0.05)


@pytest.mark.parametrize("lengths", [[3], [64] * 5, [64] * 9, [256, 1]])
def test_short_blocks_are_joined(lengths):
    rng = np.random.default_rng(0)
    blocks = [(rng.standard_normal(n), rng.random(n) < 0.5) for n in lengths]
    scores, positive = aligned(blocks, blocks[-1])
    assert len(scores) == len(positive) == sum(lengths)
    assert np.isfinite(scores).all()


def test_a_single_class():
    scores = np.arange(300.0)
    found, _ = aligned([(scores, np.zeros(300, dtype=bool))], (scores + 7.0, np.zeros(300, dtype=bool)))
    np.testing.assert_allclose(found, scores + 7.0)
