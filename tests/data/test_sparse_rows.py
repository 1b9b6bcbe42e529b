"""Sparse rows: dense ones in CSR form, against SciPy, and what kernels cannot read."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

from opauc_bench.learners import LEARNERS, get_learner
from opauc_bench.learners.rows import csr_of

values = st.one_of(st.sampled_from([0.0, -0.0, np.nan, np.inf]), st.floats(width=64))


@given(hnp.arrays(float, hnp.array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=6), elements=values))
def test_csr_of_is_what_scipy_makes_of_dense_rows(rows):
    got, expected = csr_of(rows), sparse.csr_matrix(rows)
    assert got.shape == expected.shape
    np.testing.assert_array_equal(got.indptr, expected.indptr)
    np.testing.assert_array_equal(got.indices, expected.indices)
    np.testing.assert_array_equal(got.data.view(np.int64), expected.data.view(np.int64))


@pytest.mark.parametrize("name", LEARNERS)
def test_learners_refuse_rows_that_kernels_cannot_read(name):
    learner = get_learner(name)
    X, y = sparse.csr_matrix([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]] * 10), np.array([1, 0] * 10)
    calls = ["fit", "partial_fit"] if hasattr(learner(), "partial_fit") else ["fit"]
    fitted = learner().fit(X, y)
    for index in (-1, 3, 10**6):
        outside = sparse.csr_matrix(X)
        outside.indices = X.indices.copy()
        outside.indices[4] = index
        for call in calls:
            with pytest.raises(ValueError, match=r"ind(ex|ices)"):
                getattr(learner(), call)(outside, y)
        with pytest.raises(ValueError, match=r"ind(ex|ices)"):
            fitted.decision_function(outside)
    wide = sparse.csr_matrix((X.data, X.indices.astype(np.int64), X.indptr.astype(np.int64)), shape=(20, 2**31))
    for call in calls:
        with pytest.raises(ValueError, match="expected at most 2,147,483,646 features, got 2,147,483,648"):
            getattr(learner(), call)(wide, y)
    axis = learner.grid_axes[0]
    with pytest.raises(ValueError, match="expected at most 2,147,483,646 features"):
        learner().fit_grid(wide, np.where(y, 1, -1), {axis: np.array([getattr(learner(), axis)])})
