"""Errors of second-moment sketches against dense matrices, and the ranking that Figure 4 of the paper shows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.opauc_s import dense
from scipy import sparse

from opauc_bench.evaluation import second_moment_error, second_moment_norm, sketch_errors
from opauc_bench.learners import OPAUC, get_learner
from opauc_bench.learners.opauc.second_moments import second_moment_sketch

METHODS = ("opauc_s", "opauc_fd", "opauc_r", "opauc_h")


def builder(method, seed=0, **parameters):
    learner = get_learner(method)()
    given = {"random_state": seed} if "random_state" in learner.get_params() else {}
    return lambda A, tau: second_moment_sketch(learner.set_params(tau=tau, **given, **parameters), A)


def rows_of_a_class(n, d, seed=0, density=0.1):
    """Rows of unit length whose features are the rarer, the later they come."""
    rng = np.random.default_rng(seed)
    A = np.abs(rng.standard_normal((n, d))) * (rng.random((n, d)) < np.minimum(1.0, 10 * density / np.arange(1, d + 1)))
    return A / np.maximum(np.linalg.norm(A, axis=1, keepdims=True), 1e-9)


def stands_for(sketch):
    return sketch.toarray() if sparse.issparse(sketch) else sketch @ sketch.T


def rounding_alone(A):
    """What rounding can make of an error of zero, as a share of |S|, S = A'A: less than it means nothing.

    The square of an error is |S|^2 - 2 |A Z|^2 + |Z'Z|^2. The square of each norm is a sum of at most m^2 squares of
    sums of at most m products, m = max(n, d). Sums of k products are off by about sqrt(k) u of the sizes of these, with
    u = eps / 2 (Higham and Mary, A new approach to probabilistic rounding error analysis, SIAM J. Sci. Comput. 41,
    2019), so that a square is off by (m + 2 sqrt(m)) u <= m eps of itself. Together the squares are 4 |S|^2.
    """
    return np.sqrt(4 * max(A.shape) * np.finfo(float).eps)


class MadeOnDemand:
    """Rows that are there only when they are asked for."""

    def __init__(self, A):
        self.A, self.shape = A, A.shape

    def __getitem__(self, rows):
        return self.A[rows]


FORMS = pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix, sparse.csr_array, MadeOnDemand])


@FORMS
@pytest.mark.parametrize("values", [1, 300, 1 << 24])
@pytest.mark.parametrize(("n", "d"), [(1, 1), (1, 40), (40, 1), (70, 30), (30, 70)])
def test_norm_of_the_second_moments(n, d, values, form, monkeypatch):
    monkeypatch.setattr("opauc_bench.evaluation.sketch_error._VALUES", values)
    A = rows_of_a_class(n, d)
    np.testing.assert_allclose(second_moment_norm(form(A)), np.linalg.norm(A.T @ A), rtol=1e-13)


@FORMS
@pytest.mark.parametrize("values", [1, 300, 1 << 24])
def test_error_of_any_sketch(values, form, monkeypatch):
    monkeypatch.setattr("opauc_bench.evaluation.sketch_error._VALUES", values)
    A, rng = rows_of_a_class(50, 30), np.random.default_rng(1)
    B = rng.standard_normal((30, 30)) * (rng.random((30, 30)) < 0.2)
    for sketch in (rng.standard_normal((30, 4)), np.zeros((30, 0)), sparse.csr_matrix(B), sparse.coo_array(B)):
        wanted = np.linalg.norm(A.T @ A - stands_for(sketch))
        np.testing.assert_allclose(second_moment_error(form(A), sketch), wanted, rtol=1e-12)
        np.testing.assert_allclose(second_moment_error(form(A), sketch, np.linalg.norm(A.T @ A)), wanted, rtol=1e-12)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("n", "d"), [(60, 40), (30, 200), (500, 25)])
def test_errors_of_each_method(n, d, method):
    A = rows_of_a_class(n, d)
    sizes = (2, 5, 20)
    errors = sketch_errors(A, sizes, builder(method))
    S = A.T @ A
    wanted = [np.linalg.norm(S - stands_for(builder(method)(A, tau))) / np.linalg.norm(S) for tau in sizes]
    np.testing.assert_allclose(errors, wanted, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(
        sketch_errors(sparse.csr_matrix(A), sizes, builder(method)), errors, rtol=1e-7, atol=1e-7
    )


@settings(max_examples=30, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), exponent=st.floats(-6.0, 0.0))
def test_error_has_the_documented_accuracy(seed, exponent):
    """An error of r |S| has a relative error of about eps / r^2; r is known because Z is A except for one row."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((30, 12))
    A[0] *= np.sqrt(10.0**exponent * np.linalg.norm(A.T @ A)) / np.linalg.norm(A[0])
    wanted = A[0] @ A[0]
    share = wanted / np.linalg.norm(A.T @ A)
    assert abs(second_moment_error(A, A[1:].T) - wanted) <= 100 * np.finfo(float).eps / share**2 * wanted


def test_error_of_exact_sketch_is_within_rounding():
    A = rows_of_a_class(40, 30)
    assert second_moment_error(A, A.T) < rounding_alone(A) * second_moment_norm(A)


def test_exact_sketches_have_no_error():
    """Algorithm 3 with room for all entries, and frequent directions with room for all directions."""
    A = rows_of_a_class(40, 12)
    assert sketch_errors(A, [12], builder("opauc_s"))[0] < rounding_alone(A)
    assert sketch_errors(A, [26], builder("opauc_fd"))[0] < rounding_alone(A)


def test_the_ranking_of_figure_4():
    """On sparse rows the largest entries are the best approximation, then frequent directions, then random ones."""
    A = sparse.csr_matrix(rows_of_a_class(600, 400))
    sizes = (10, 40)
    errors = {method: sketch_errors(A, sizes, builder(method)) for method in METHODS}
    assert (errors["opauc_s"] < errors["opauc_fd"]).all()
    assert (errors["opauc_fd"] < errors["opauc_r"]).all()
    assert (errors["opauc_fd"] < errors["opauc_h"]).all()


def test_random_sketches_depend_on_the_seed_alone():
    A = rows_of_a_class(50, 30)
    for method in ("opauc_r", "opauc_h"):
        first, again, other = (builder(method, seed)(A, 5) for seed in (1, 1, 2))
        np.testing.assert_array_equal(first, again)
        assert np.abs(first - other).max() > 0


def test_sketch_equals_the_state_of_the_learner():
    """After a pass over rows of one class, the state has what the function gives."""
    A = rows_of_a_class(200, 20)
    y = np.ones(200, dtype=np.int8)
    for method in ("opauc_r", "opauc_h"):
        learner = get_learner(method)(tau=4, random_state=3, algorithm="plain")
        state = learner._begin(20, {"eta": np.ones(1), "lam": np.ones(1)})
        learner._consume(state, sparse.csr_matrix(A), y)
        np.testing.assert_allclose(second_moment_sketch(learner, A), state.sketches[0], rtol=1e-12, atol=1e-14)
    learner = get_learner("opauc_s")(tau=4)
    state = learner._begin(20, {"eta": np.ones(1), "lam": np.ones(1)})
    learner._consume(state, sparse.csr_matrix(A), y)
    np.testing.assert_array_equal(second_moment_sketch(learner, A).toarray(), dense(state.matrices[0]))


def test_rows_without_any_second_moments():
    assert np.isnan(sketch_errors(np.zeros((5, 4)), [2, 3], builder("opauc_fd"))).all()
    assert second_moment_norm(sparse.csr_matrix((5, 4))) == 0.0


def test_sketch_of_another_width_is_refused():
    A = rows_of_a_class(10, 8)
    for sketch in (np.zeros((9, 2)), sparse.csr_matrix((8, 9))):
        with pytest.raises(ValueError, match="expected a sketch of 8 features; got one of the shape"):
            second_moment_error(A, sketch)
    with pytest.raises(TypeError, match="OPAUC keeps no approximate second moments"):
        second_moment_sketch(OPAUC(), A)
    with pytest.raises(ValueError, match="tau"):
        second_moment_sketch(get_learner("opauc_fd")(tau=1), A)
