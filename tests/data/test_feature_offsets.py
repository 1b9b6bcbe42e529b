"""Features of svmlight rows that are centred and scaled while they are learnt."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from opauc_bench.data.feature_offsets import FeatureOffsets
from opauc_bench.data.inputs import Source


def of_rows(X):
    return FeatureOffsets.of_first_rows(sparse.csr_matrix(X))


def units(n=400, seed=0):
    """Rows of a feature around 1,000, one around 0, one that most rows lack, and one of another scale."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4)) * [1.0, 1.0, 1.0, 50.0] + [1000.0, 0.0, 3.0, 7.0]
    X[:, 2] *= rng.random(n) < 0.4
    return X


def test_features_of_most_rows_are_centred_and_scaled_if_any_is_far_from_0():
    X = units()
    found = of_rows(X)
    assert found.features.tolist() == [0, 1, 3]
    for column, offset, scale in zip(X.T[found.features], found.offsets, found.scales):
        assert np.count_nonzero(column < offset) in (199, 200)
        assert scale == pytest.approx(np.subtract(*np.percentile(column, [75, 25])))
    assert found.note(zero_based=False) == (
        "3 features centred and scaled while they are learnt, since some lie far from 0 for their spread "
        f"(1 around 1e+03, 2 around {found.offsets[1]:.3g}, 4 around {found.offsets[2]:.3g})"
    )
    assert "(0 around 1e+03, 1 around " in found.note(zero_based=True)


@pytest.mark.parametrize(
    "X", [units()[:, 1:3], np.eye(30), np.ones((5, 2)), np.zeros((4, 3)), np.random.default_rng(0).random((300, 5))]
)
def test_features_that_are_scaled_or_sparse_are_learnt_as_they_are(X):
    found = of_rows(X)
    rows = sparse.csr_matrix(X)
    assert found.applied(rows) is rows
    assert found.note(zero_based=False) == ""


@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.floats(0.0, 1.0))
def test_rows_are_those_of_the_dense_matrix(seed, n_features, density):
    rng = np.random.default_rng(seed)
    features = np.flatnonzero(rng.random(n_features + 2) < 0.5).astype(np.int32)  # some beyond the last of these rows
    found = FeatureOffsets(features, rng.integers(-2, 3, len(features)) * 1.0, rng.uniform(0.5, 2.0, len(features)))
    X = rng.integers(-2, 3, (7, n_features)) * (rng.random((7, n_features)) < density) * 1.0
    expected = np.hstack([X, np.zeros((7, 2))])
    expected[:, features] = (expected[:, features] - found.offsets) / found.scales
    shifted = found.applied(sparse.csr_matrix(X))
    assert shifted.has_sorted_indices
    assert np.all(shifted.data != 0.0)
    np.testing.assert_array_equal(shifted.toarray(), expected[:, : shifted.shape[1]])
    assert not expected[:, shifted.shape[1] :].any()


def test_memory_does_not_depend_on_the_largest_index():
    X = sparse.csr_matrix(units())
    wide = sparse.csr_matrix((X.data, np.where(X.indices == 3, 2_000_000_000, X.indices), X.indptr), (400, 2**31 - 1))
    tracemalloc.start()
    found = FeatureOffsets.of_first_rows(wide)
    shifted = found.applied(wide)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1e6
    assert found.features.tolist() == [0, 1, 2_000_000_000]
    assert found.offsets.tolist() == of_rows(X).offsets.tolist()
    assert shifted.data.tolist() == of_rows(X).applied(X).data.tolist()


def test_a_quotient_that_would_overflow_is_the_largest_number():
    found = FeatureOffsets(np.array([0], np.int32), np.array([1000.0]), np.array([0.1]))
    assert found.applied(sparse.csr_matrix([[1.79e308], [-1.79e308]])).data.tolist() == [1.7e308, -1.7e308]


def test_offsets_are_those_of_the_first_thousand_rows_however_they_come(tmp_path):
    X = units(2500)
    lines = ["1 " + " ".join(f"{j}:{x!r}" for j, x in enumerate(row, 1) if x) + "\n" for row in X.tolist()]
    for name, part in (("all", lines), ("a", lines[:70]), ("b", lines[70:])):
        (tmp_path / name).write_text("".join(part))
    found = []
    for files in ("all",), ("a", "b"):
        source = Source([str(tmp_path / file) for file in files], format="svmlight", centred=True)
        shifted = sparse.vstack([chunk.X for chunk in source.chunks()])
        found.append((shifted.toarray(), source.feature_offsets))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    expected = of_rows(X[:1000])
    for one, other in zip(found[0][1], expected):
        np.testing.assert_array_equal(one, other)
