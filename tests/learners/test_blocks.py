"""Blocks of a stream of rows: where they end depends on the number of rows alone."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from opauc_bench.streaming.blocks import Blocks

N = 2500
X = sparse.random(N, 30, density=0.1, format="csr", random_state=0)
POSITIVE = np.random.default_rng(0).random(N) < 0.5


def lengths():
    """Lengths of blocks by their definition: the largest power of two up to 1/64 of the rows before, 64 to 1024."""
    n = 0
    while n < N:
        length = min(max(64, 2 ** int(np.log2(max(n // 64, 1)))), 1024)
        yield min(length, N - n)
        n += length


@given(cuts=st.lists(st.integers(0, N), max_size=12), pause=st.integers(0, 12))
def test_the_same_blocks_however_rows_come(cuts, pause):
    blocks, found = Blocks(), []
    bounds = [0, *sorted(cuts), N]
    for number, (start, stop) in enumerate(itertools.pairwise(bounds)):
        if number == pause:
            blocks = Blocks(blocks.n_rows, blocks.waiting())
        # Until a row has them, later features are not known.
        width = X[:stop].indices.max(initial=-1) + 1
        found += blocks.add(X[start:stop, :width], POSITIVE[start:stop])
        assert blocks.n_rows == sum(len(positive) for _, positive in found)
    if (rest := blocks.rest()) is not None:
        found.append(rest)
    assert blocks.rest() is None
    assert blocks.n_rows == N
    assert [len(positive) for _, positive in found] == [*lengths()]
    np.testing.assert_array_equal(np.concatenate([positive for _, positive in found]), POSITIVE)
    for rows, start in zip(found, np.cumsum([0, *lengths()])):
        expected = X[start : start + len(rows[1])]
        assert rows[0].has_canonical_format
        np.testing.assert_array_equal(rows[0].data, expected.data)
        np.testing.assert_array_equal(rows[0].indices, expected.indices)
        np.testing.assert_array_equal(rows[0].indptr, expected.indptr)
