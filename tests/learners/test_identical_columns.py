"""Identical columns are found exactly, and training one of them for all gives the weights of training each."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.examples import assert_close, examples
from scipy import sparse

from opauc_bench.learners import SPAML1, SPAUC, SPAMElastic
from opauc_bench.learners.identical_columns import ColumnGroups, identical_columns

L1 = np.array([1e-3, 0.0, 0.02])
CASES = {
    "l1": (SPAML1(), {"xi": np.array([0.3, 0.1, 0.03]), "l1": L1}),
    "elastic": (SPAMElastic(), {"xi": np.array([0.3, 0.1, 0.03]), "l1": L1, "l2": np.array([0.1, 0.0, 0.3])}),
    "released": (SPAMElastic(variant="released"), {"xi": np.array([0.3, 0.1, 0.03]), "l1": L1}),
    "spauc": (SPAUC(), {"mu": np.array([1.0, 0.5, 3.0]), "l1": L1}),
}
ALL = pytest.mark.parametrize("case", CASES)


def groups_by_bytes(X):
    """The oracle: a set of columns for each content that is not all zeros."""
    groups = {}
    for j, column in enumerate(np.asarray(X).T + 0.0):
        if column.any():
            groups.setdefault(column.tobytes(), set()).add(j)
    return sorted(map(sorted, groups.values()))


def in_chunks(X, n_rows):
    rows = sparse.csr_matrix(X)
    return lambda: (rows[start : start + n_rows] for start in range(0, rows.shape[0], n_rows))


def members(groups):
    return sorted(np.flatnonzero(groups.place == k).tolist() for k in range(len(groups.features)))


@st.composite
def rows_with_copies(draw):
    """Rows few of whose columns are different: most repeat another one, some are zero, some differ in one entry."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_rows, n_features = draw(st.integers(2, 60)), draw(st.integers(1, 25))
    X, y = examples(n_rows, n_features, draw(st.sampled_from(["mixed", "sparse"])), seed=draw(st.integers(0, 99)))
    X[:, rng.random(n_features) < 0.2] = 0.0
    X = X[:, rng.integers(n_features, size=draw(st.integers(1, 40)))]
    for _ in range(draw(st.integers(0, 4))):
        X[rng.integers(n_rows), rng.integers(X.shape[1])] = rng.choice([0.0, 0.5, -0.5])
    y[:2] = 1, -1
    order = rng.permutation(n_rows)[: draw(st.integers(1, n_rows))]
    return X, y, order


@settings(max_examples=150, deadline=None, derandomize=True)
@given(example=rows_with_copies(), n_rows=st.integers(1, 70))
def test_groups_are_those_of_equal_columns(example, n_rows):
    X, _, order = example
    groups = identical_columns(in_chunks(X[order], n_rows), X.shape[1])
    assert members(groups) == groups_by_bytes(X[order])
    np.testing.assert_array_equal(groups.place[groups.features], np.arange(len(groups.features)))
    np.testing.assert_array_equal(
        groups.sizes, np.bincount(groups.place[groups.place >= 0], minlength=len(groups.sizes))
    )
    first = (X[order][:, groups.features] != 0).argmax(axis=0)
    assert (np.diff(first) >= 0).all(), "groups stand in the order of the first rows that have them"


@settings(max_examples=50, deadline=None, derandomize=True)
@given(example=rows_with_copies())
def test_columns_with_equal_hashes_are_compared_by_value(example):
    """Whatever the hashes, no column is in the group of another one that differs from it."""
    X, _, order = example
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("opauc_bench.learners.identical_columns._mixed", np.zeros_like)
        groups = identical_columns(in_chunks(X[order], 7), X.shape[1])
    for group in members(groups):
        assert (X[order][:, group] == X[order][:, group[:1]]).all()
    np.testing.assert_array_equal(groups.place >= 0, X[order].any(axis=0))


def test_values_and_rows_matter():
    """The same values in other rows, or with the other sign, are another column; so is one unit in the last place."""
    column = np.array([0.0, 0.5, -0.25, 0.0])
    X = np.column_stack([column, column[::-1], -column, column, column * (1 + 2**-52), 2 * column])
    assert members(identical_columns(in_chunks(X, 2), 6)) == [[0, 3], [1], [2], [4], [5]]


def test_expanding_leaves_other_settings_and_columns_of_zeros():
    groups = ColumnGroups(np.array([2, 0]), np.array([2.0, 1.0]), np.array([1, -1, 0, 0]))
    into = np.full((4, 3), 9.0)
    groups.expand(np.array([[1.0, 2.0], [3.0, 4.0]]), into, np.array([2, 0]))
    np.testing.assert_array_equal(into, [[4.0, 9.0, 3.0], [9.0, 9.0, 9.0], [2.0, 9.0, 1.0], [2.0, 9.0, 1.0]])


def trained(case, X, y, merging, grid=None, **options):
    learner, own = CASES[case]
    learner = type(learner)(**learner.get_params())
    learner._merges_identical_columns = merging
    return learner.fit_grid(X, y, grid or own, **options)


@ALL
@settings(max_examples=60, deadline=None, derandomize=True)
@given(example=rows_with_copies(), alone=st.booleans())
def test_merging_changes_no_weight(case, example, alone):
    X, y, order = example
    grid = {axis: values[:1] for axis, values in CASES[case][1].items()} if alone else None
    with_merging, without = (trained(case, sparse.csr_matrix(X), y, way, grid, order=order) for way in (True, False))
    atol = 1e-12 * np.abs(without).max(axis=0)
    assert (np.abs(with_merging - without) <= atol).all()
    np.testing.assert_array_equal(with_merging[~X[order].any(axis=0)], 0.0)


def weights_at_stops(case, X, y, merging, order):
    seen = {}
    options = {"stops": [9, 37, 100], "on_stop": lambda n, weights: seen.update({n: weights()})}
    trained(case, X, y, merging, order=order, **options)
    return seen


@ALL
def test_stops_get_weights_of_all_features(case):
    X, y = examples(120, 6, "sparse")
    X = sparse.csr_matrix(X[:, [0, 1, 2, 2, 3, 0, 4, 5, 5, 5]])
    order = np.random.default_rng(3).permutation(120)[:100]
    got, want = (weights_at_stops(case, X, y, way, order) for way in (True, False))
    assert list(got) == [9, 37, 100]
    for n in want:
        assert_close(got[n], want[n])


@ALL
def test_rows_in_any_storage_give_equal_groups(case):
    """Entries stored twice, in any order, or as zero, narrow numbers, and read-only rows."""
    X, y = examples(50, 4, "sparse")
    X = X.astype(np.float32)[:, [0, 1, 1, 2, 3, 3]]
    want = trained(case, sparse.csr_matrix(X.astype(float)), y, False)
    rows, columns = np.nonzero(X)
    twice = np.append(np.arange(len(rows)), [0, 1, 2, *range(len(rows))])[::-1]
    values = np.concatenate([X[rows, columns] / 2, [0.0] * 3, X[rows, columns] / 2])[::-1]
    stored = sparse.coo_matrix((values, (rows[twice], columns[twice])), shape=X.shape)
    as_they_came = np.argsort(stored.row, kind="stable")
    indptr = np.searchsorted(stored.row[as_they_came], np.arange(51))
    stored = sparse.csr_matrix((stored.data[as_they_came], stored.col[as_they_came], indptr), shape=X.shape)
    assert not stored.has_canonical_format
    for form in (stored, sparse.csr_matrix(X)):
        form.data.setflags(write=False)
        before = form.indices.copy()
        assert_close(trained(case, form, y, True), want)
        np.testing.assert_array_equal(form.indices, before)


@ALL
def test_overflow_is_the_same_with_merging(case):
    X, y = examples(300, 5, "sparse")
    X = sparse.csr_matrix(X[:, [0, 0, 1, 2, 3, 4, 4]])
    grid = {axis: np.repeat(values[:1], 3) for axis, values in CASES[case][1].items()}
    first = next(iter(grid))
    grid[first] = np.array([grid[first][0], 1e200, 0.0 if first == "mu" else 1e307])
    got, want = (trained(case, X, y, way, grid) for way in (True, False))
    assert_close(got[:, 0], want[:, 0])
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))


@ALL
def test_rows_of_zeros(case):
    for shape in ((5, 3), (5, 0)):
        X = sparse.csr_matrix(shape)
        assert not trained(case, X, np.array([1, -1, 1, -1, 1]), True).any()
