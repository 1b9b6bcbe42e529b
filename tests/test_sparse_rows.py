"""Dense rows in CSR form, against SciPy."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

from opauc_bench.learners.rows import csr_of

values = st.one_of(st.sampled_from([0.0, -0.0, np.nan, np.inf]), st.floats(width=64))


@given(hnp.arrays(float, hnp.array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=6), elements=values))
def test_csr_of_is_what_scipy_makes_of_dense_rows(rows):
    got, expected = csr_of(rows), sparse.csr_matrix(rows)
    assert got.shape == expected.shape
    np.testing.assert_array_equal(got.indptr, expected.indptr)
    np.testing.assert_array_equal(got.indices, expected.indices)
    np.testing.assert_array_equal(got.data.view(np.int64), expected.data.view(np.int64))
