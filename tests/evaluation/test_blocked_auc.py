"""AUC within blocks against pairs one by one, and its standard errors against repetitions."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from opauc_bench.evaluation.blocked_auc import BlockedAUC


@given(st.lists(st.tuples(st.booleans(), st.integers(-2, 2), st.integers(-2, 2)), min_size=1, max_size=40), st.data())
def test_pairs_one_by_one(rows, data):
    cuts = sorted({0, len(rows), *data.draw(st.lists(st.integers(0, len(rows)), max_size=4))})
    positive, scores = np.array([row[0] for row in rows]), np.array([row[1:] for row in rows], dtype=float)
    got = BlockedAUC(positive, scores, np.diff(cuts))
    pairs, ordered, blocks = 0, np.zeros(2), 0
    for start, stop in itertools.pairwise(cuts):
        here = [
            np.sign(scores[i] - scores[j])
            for i in range(start, stop)
            for j in range(start, stop)
            if positive[i] and not positive[j]
        ]
        pairs, blocks = pairs + len(here), blocks + bool(here)
        ordered += sum((1 + sign) / 2 for sign in here)
    assert got.n_blocks == blocks
    np.testing.assert_allclose(got.aucs, ordered / pairs if pairs else [np.nan] * 2)


def test_one_block_is_the_auc():
    rng = np.random.default_rng(0)
    positive, scores = rng.random(300) < 0.2, rng.standard_normal((300, 2))
    scores[:, 1] = scores[:, 1].round(1)  # with ties
    expected = [roc_auc_score(positive, column) for column in scores.T]
    np.testing.assert_allclose(BlockedAUC(positive, scores, [300]).aucs, expected, rtol=1e-12)


def test_standard_errors_are_those_of_repetitions():
    """Two scores of the same rows that share most of their noise: errors of both and of their difference."""
    rng = np.random.default_rng(0)
    aucs, errors = [], []
    for _ in range(400):
        positive = rng.random(60 * 64) < 0.1
        common = positive + rng.standard_normal(len(positive))
        scores = common[:, None] + rng.standard_normal((len(positive), 2)) * [0.2, 0.5]
        got = BlockedAUC(positive, scores, [64] * 60)
        aucs.append(got.aucs)
        errors.append([*got.standard_errors(), got.standard_errors(behind=0)[1]])
    aucs = np.array(aucs)
    actual = [*aucs.std(axis=0), (aucs[:, 1] - aucs[:, 0]).std()]
    np.testing.assert_allclose(np.mean(errors, axis=0), actual, rtol=0.12)
    assert actual[2] < 0.6 * actual[0]
    assert got.standard_errors(behind=0)[0] == 0.0
