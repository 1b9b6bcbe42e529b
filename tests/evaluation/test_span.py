"""Searching settings in fewer dimensions: coordinates in the span of the rows, projected rows, inner products."""

import errno
import itertools
import os
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from filelock import FileLock
from folders import records_of
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from opauc_bench.errors import LearnerError, RunnerError
from opauc_bench.evaluation import span
from opauc_bench.evaluation.auc import auc_columns
from opauc_bench.evaluation.selection import fit_and_evaluate
from opauc_bench.evaluation.span import (
    RowsByProducts,
    are_products_worth_it,
    are_usable,
    gram_matrix,
    is_narrower,
    span_coordinates,
    triangular_rows,
)
from opauc_bench.learners import LEARNERS, OPAUCPCA, UniLog, get_learner
from opauc_bench.learners.opauc import principal_components
from opauc_bench.protocols.context import TaskContext
from opauc_bench.runner.gram_matrix import stored_gram_matrix

INVARIANT = [name for name in LEARNERS if get_learner(name).rotation_invariant]
PROJECTED = ["opauc_feat", "opauc_rp", "opauc_pca"]


@pytest.fixture(scope="module")
def wide():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(60, 7)) @ rng.normal(size=(7, 300)) / 20
    X[5] = 0.0
    y = np.where(rng.random(60) < 0.4, 1, -1).astype(np.int8)
    return X, y


def small(name, **parameters):
    """A learner with sizes that suit a few rows."""
    learner = get_learner(name)()
    for parameter, value in {"tau": 5, "n_components": 4, "random_state": 0, **parameters}.items():
        if parameter in learner.get_params():
            learner.set_params(**{parameter: value})
    return learner


def grid_of(learner):
    return {axis: np.array([0.01, 0.1]) for axis in learner.grid_axes}


# ---------------------------------------------------------------------- coordinates


def test_coordinates_have_as_many_dimensions_as_the_rank(wide, monkeypatch):
    X, _ = wide
    C = span_coordinates(gram_matrix(X))
    assert C.shape == (60, 7)
    np.testing.assert_allclose(C @ C.T, X @ X.T, atol=1e-13)
    monkeypatch.setattr(span, "_BLOCK_BYTES", 8 * 300 * 11)
    np.testing.assert_allclose(gram_matrix(X), X @ X.T, atol=1e-14)
    np.testing.assert_array_equal(span_coordinates(np.zeros((4, 4))), np.zeros((4, 1)))


def test_coordinates_of_short_rows_are_not_lost_behind_long_ones():
    X = np.random.default_rng(0).normal(size=(40, 100)) * 10.0 ** np.linspace(-70, 70, 40)[:, None]
    lengths = np.linalg.norm(X, axis=1)
    C = span_coordinates(X @ X.T)
    assert (np.abs(C @ C.T - X @ X.T) <= 1e-12 * np.outer(lengths, lengths)).all()


def test_equal_rows_have_equal_inner_products(monkeypatch):
    monkeypatch.setattr(span, "_BLOCK_BYTES", 8 * 301 * 11)
    monkeypatch.setattr(span, "_PANEL", 7)
    rng = np.random.default_rng(0)
    copied = rng.permutation(np.arange(60) % 45)
    X = rng.normal(size=(45, 301))[copied]
    X[3] = X[40] = 0.0
    gram = gram_matrix(X)
    np.testing.assert_allclose(gram, X @ X.T, atol=1e-12)
    np.testing.assert_array_equal(gram, gram.T)
    assert len(np.unique(gram, axis=0)) == len(np.unique(X, axis=0))


def test_weights_of_rows_are_those_of_the_visited_ones_alone():
    gram = np.arange(25.0).reshape(5, 5)
    rows = RowsByProducts(gram, np.array([3, 0, 4]))
    np.testing.assert_array_equal(rows[[1, 3]], [[8, 5, 9], [18, 15, 19]])
    np.testing.assert_array_equal(rows.leading(2)[[1]], [[8, 5]])
    np.testing.assert_array_equal(rows.visited(np.array([1])), [[3, 0, 4]])
    assert (rows.shape, rows.n_leading(np.array([3, 0])), rows.places(4)) == ((5, 3), 2, 2)


def test_is_narrower_for_few_rows_of_many_features():
    assert is_narrower(862, 50_002)
    assert is_narrower(19_020, 50_010)
    assert not is_narrower(20_001, 50_016)
    assert not is_narrower(500, 800)


@settings(max_examples=20, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 40), rank=st.integers(1, 40), panel=st.integers(1, 50))
def test_triangular_rows_have_the_inner_products(seed, n, rank, panel):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, rank)) * rng.integers(0, 2, size=(n, 1)) * 10.0 ** rng.integers(0, 6, size=(n, 1))
    order = rng.permutation(n)[: max(1, n - 3)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(span, "_PANEL", panel)
        T = triangular_rows(X @ X.T, order)
    rows, lengths = T[order], np.linalg.norm(X[order], axis=1)
    errors = np.abs(rows @ rows.T - X[order] @ X[order].T)
    assert (errors <= 1.1e-10 * np.outer(lengths, lengths)).all()
    np.testing.assert_array_equal(rows, np.tril(rows))
    assert not rows[(X[order] == 0.0).all(axis=1)].any()
    assert T.n_leading(order[:2]) == min(2, len(order))
    np.testing.assert_array_equal(T.leading(1)[order], rows[:, :1])
    if len(order) < n:
        with pytest.raises(IndexError, match="not visited"):
            T[np.setdiff1d(np.arange(n), order)]


@pytest.mark.parametrize("form", ["eigenvectors", "triangular"])
def test_equal_rows_have_equal_coordinates(form, monkeypatch):
    monkeypatch.setattr(span, "_PANEL", 7)
    rng = np.random.default_rng(0)
    copied = rng.permutation(np.arange(60) % 45)
    X = rng.normal(size=(45, 300))[copied] * 10.0 ** (copied % 5)[:, None]
    gram = X @ X.T
    gram *= 1.0 + 1e-15 * rng.normal(size=gram.shape)  # as by sums in another order
    order = rng.permutation(60)
    C = span_coordinates(gram) if form == "eigenvectors" else triangular_rows(gram, order)[np.arange(60)]
    assert len(np.unique(C, axis=0)) == 45
    for row in range(45):
        assert len(np.unique(C[copied == row], axis=0)) == 1
    np.testing.assert_allclose(C @ C.T, X @ X.T, rtol=1e-9, atol=1e-9 * (X**2).sum(axis=1).max())


def test_limits_are_checked_while_coordinates_are_computed(wide, monkeypatch):
    monkeypatch.setattr(span, "_PANEL", 20)
    calls = []
    triangular_rows(wide[0] @ wide[0].T, np.arange(60), lambda: calls.append(1))
    assert len(calls) == 3


@pytest.mark.parametrize("row", [0, 7])
def test_rows_whose_gram_matrix_overflows_are_searched_as_they_are(wide, row, recwarn):
    X = wide[0].copy()
    X[row, 3], X[20, 5] = 1e200, -1e180
    assert_searched_as_they_are(X)
    assert not recwarn.list


@pytest.mark.parametrize("n_alike", [2, 40])
def test_rows_too_close_for_the_gram_matrix_are_searched_as_they_are(wide, n_alike):
    X = wide[0].copy()
    X[:n_alike] = 1000.0 + 3e-4 * (X[:n_alike] > 0.0)
    assert len(np.unique(X, axis=0)) == len(np.unique(wide[0], axis=0))
    assert_searched_as_they_are(X)


def assert_searched_as_they_are(X):
    gram, data = gram_matrix(X), SimpleNamespace(X=X)
    assert not are_usable(gram)
    of_few = {"coordinates": lambda: pytest.fail("coordinates of rows that they do not tell apart")}
    for name, options in itertools.product(("uni_log", "oam_seq", "opauc_pca"), ({}, of_few)):
        context = TaskContext(None, data, small(name), {}, gram_matrix=lambda: gram, **options)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(TaskContext, "_are_products_worth_it", lambda *_: True)
            assert context.search_problem(np.arange(60), 5) == (context.learner, X, None)


@pytest.fixture(scope="module")
def with_names():
    """Dense rows of few kinds, each with a feature of its own, such as a name: no pass has seen that of another row."""
    rng = np.random.default_rng(5)
    kinds = (rng.random((6, 60)) < 0.6).astype(float)
    kind = rng.integers(0, 6, 40)
    y = np.where(rng.random(40) < 0.2 + 0.5 * (kind < 3), 1, -1).astype(np.int8)
    order = rng.permutation(40)
    return np.hstack([kinds[kind], np.eye(40)]), y, order[:26], order[26:]


def searched_as(form, learner, X, order, monkeypatch):
    """The problem of a search by coordinates of few rows, by inner products or triangular rows, or by learner."""
    gram = gram_matrix(X)
    learner.given_gram_matrix(lambda: gram)
    few = {"coordinates": lambda: span_coordinates(gram)} if form == "coordinates" else {}
    context = TaskContext(None, SimpleNamespace(X=X), learner, {}, gram_matrix=lambda: gram, **few)
    monkeypatch.setattr(TaskContext, "_are_products_worth_it", lambda *_: True)
    return context.search_problem(order, 2)


@pytest.mark.parametrize("form", ["coordinates", "products"])
@pytest.mark.parametrize("name", ["opauc_pca", *INVARIANT])
def test_rows_that_differ_in_features_without_weight_keep_equal_scores(with_names, monkeypatch, name, form):
    X, y, train, held_out = with_names
    learner = small(name)
    grid = grid_of(learner)
    weights = learner.fit_grid(X, y, grid, order=train)
    scores = np.array([[x @ w for w in weights.T.copy()] for x in X[held_out]])  # each row alone: no block has an end
    there, Z, ties = searched_as(form, small(name), X, np.r_[train, held_out], monkeypatch)
    found = fit_and_evaluate(there, Z, y, grid, train, held_out, ties=ties)
    np.testing.assert_allclose(found, auc_columns(y[held_out], scores), rtol=0, atol=1e-14)


def test_ties_by_rounding_are_restored_in_their_order_and_no_others():
    gram = np.diag([1.0, 1.0, 1.0, 4.0, 0.0, 1e-20])
    ties = span.TiesByRounding(gram, 1e-13)
    scores = np.array(
        [[0.5, 1e-300], [0.5 + 4e-14, 0.0], [0.5 + 2e-13, 2e-300], [2.0, 0.0], [0.0, 0.0], [1e-10, 1e-310]]
    )
    found = ties.restored(scores, np.arange(6))
    assert found[:, 0].tolist() == [0.5, 0.5, 0.5 + 2e-13, 2.0, 0.0, 1e-10]
    assert found[:, 1].tolist() == scores[:, 1].tolist()
    np.testing.assert_array_equal(ties.restored(scores[:0], np.arange(0)), scores[:0])


def test_ties_by_rounding_leave_settings_whose_scores_overflow(recwarn):
    ties = span.TiesByRounding(np.diag([1.0, 1e-300, 0.0, 1.0]), 1e-13)
    scores = np.array([[np.inf, np.nan, 1.0, 1.0], [1.0, 1.0, 1e300, 0.0], np.zeros(4), [-np.inf, 2.0, 2.0, 1 + 1e-15]])
    found = ties.restored(scores, np.arange(4))
    np.testing.assert_array_equal(found[:, :3], scores[:, :3])
    assert found[:, 3].tolist() == [1.0, 0.0, 0.0, 1.0]
    assert not recwarn.list


@pytest.mark.parametrize("scale", [1.0, 1e153])
def test_rows_that_differ_by_rounding_have_equal_inner_products(wide, scale):
    X = scale * wide[0]
    X[30:] = X[:30] * (1.0 + 2.0**-52)
    gram = gram_matrix(X)
    assert are_usable(gram)
    np.testing.assert_array_equal(gram[30:], gram[:30])


def test_rounding_that_leaves_negative_eigenvalues_gets_larger_squared_lengths():
    rng = np.random.default_rng(0)
    noise = 1e-9 * rng.normal(size=(30, 30))
    T = triangular_rows(np.ones((30, 30)) + noise + noise.T, np.arange(30))
    rows = T[np.arange(30)]
    np.testing.assert_allclose(rows @ rows.T, np.ones((30, 30)), atol=1e-6)


def test_rotation_invariant_learners_are_the_expected_ones():
    assert {"opauc", "opauc_fd", "opauc_r", "opauc_h", "oam_seq", "oam_gra", "uni_exp", "uni_squ"} <= set(INVARIANT)
    assert not {"opauc_s", "ftrl_auc", "spam_l1", "adagrad", "rda_l1", *PROJECTED} & set(INVARIANT)


IN_BLOCKS = [name for name in INVARIANT if small(name).takes_blocks]


@pytest.mark.parametrize(
    ("name", "form"),
    [*itertools.product(INVARIANT, ["eigenvectors", "triangular"]), *itertools.product(IN_BLOCKS, ["products"])],
)
def test_scores_on_coordinates_equal_scores_on_rows(name, form, wide, monkeypatch):
    monkeypatch.setattr("opauc_bench.learners.grid_pass._FIRST_FEATURES", 3)
    monkeypatch.setattr("opauc_bench.learners.grid_pass.FIRST_CHUNK", 4)
    X, y = wide
    order = np.random.default_rng(1).permutation(60)
    make = {"triangular": triangular_rows, "products": RowsByProducts}
    C = span_coordinates(X @ X.T) if form == "eigenvectors" else make[form](gram_matrix(X), order)
    learner, train = small(name), order[np.arange(60) % 5 > 0]
    values = grid_of(learner)
    on_rows = X[order] @ learner.fit_grid(X, y, values, order=train)
    on_coordinates = C[order] @ learner.fit_grid(C, y, values, order=train)
    np.testing.assert_allclose(on_coordinates, on_rows, rtol=1e-8, atol=1e-8 * np.abs(on_rows).max())


@pytest.mark.parametrize("form", ["eigenvectors", "products"])
def test_pairs_that_meet_the_margin_are_the_same_on_coordinates(form):
    """Rows of 0 and 1, whose margins with steps that are powers of two are often exactly 1."""
    rng = np.random.default_rng(5)
    X, y = (rng.random((150, 400)) < 0.3).astype(float), np.where(rng.random(150) < 0.5, 1, -1).astype(np.int8)
    gram, order = gram_matrix(X), np.arange(150)
    C = span_coordinates(gram) if form == "eigenvectors" else RowsByProducts(gram, order)
    learner, values = get_learner("oam_gra")(random_state=1), {"eta": 2.0 ** np.arange(-12, 11)}
    on_rows, on_coordinates = (rows[order] @ learner.fit_grid(rows, y, values, order=order) for rows in (X, C))
    np.testing.assert_allclose(on_coordinates, on_rows, atol=1e-10 * np.abs(on_rows).max())


@pytest.mark.parametrize("steps", [[1e-3, 1e200, 1e-2], [1e-3, 1e200]])
def test_settings_that_overflow_are_dropped_from_a_state_that_grows(steps, wide, monkeypatch):
    monkeypatch.setattr("opauc_bench.learners.grid_pass._FIRST_FEATURES", 2)
    X, y = wide
    learner, T = small("uni_squ"), triangular_rows(X @ X.T, np.arange(60))
    on_rows, on_coordinates = (
        rows[np.arange(60)] @ learner.fit_grid(rows, y, {"eta": np.array(steps)}) for rows in (X, T)
    )
    np.testing.assert_array_equal(np.isnan(on_rows).all(axis=0), np.array(steps) > 1)
    np.testing.assert_allclose(on_coordinates, on_rows, atol=1e-9)


class _OnSigns(get_learner("opauc")):
    def _consume(self, state, X, y):
        super()._consume(state, np.sign(X), y)


class _ProjectedTwice(get_learner("opauc_rp")):
    def _consume(self, state, X, y):
        super()._consume(state, X, y)
        super()._consume(state, X, y)


class _Rotated(get_learner("opauc")):
    rotation_invariant = True


def test_a_class_of_the_user_does_not_inherit_what_its_base_class_computes_in_fewer_dimensions(wide):
    assert (_OnSigns.rotation_invariant, _Rotated.rotation_invariant) == (False, True)
    projected = _ProjectedTwice(n_components=4)
    assert projected.reduced(wide[0], np.arange(60), lambda: None) is None
    assert projected.reduced_size(60, 300, 300) is None


# ---------------------------------------------------------------------- problems of the learners' own


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("name", PROJECTED)
def test_the_reduced_problem_has_equal_scores(name, form, wide, monkeypatch):
    for name_of in ("projected.SPARSE_ROWS", "projected.BLOCK_BYTES", "pca.BLOCK_BYTES"):
        monkeypatch.setattr(f"opauc_bench.learners.opauc.{name_of}", 7 if name_of.endswith("ROWS") else 8 * 300 * 7)
    X, y = wide
    X = X + 0.01 * np.random.default_rng(0).normal(size=X.shape)  # distinct variances
    learner, train, held_out = small(name), np.arange(40), np.arange(40, 50)
    calls = []
    if form is not sparse.csr_matrix:
        learner = learner.given_gram_matrix(lambda: X @ X.T)
    reduced = learner.reduced(form(X), np.arange(50), lambda: calls.append(1))
    if reduced is None:
        assert (name, form) == ("opauc_pca", sparse.csr_matrix)
        return
    other, Z = reduced
    values = grid_of(learner)
    want = X[held_out] @ small(name).fit_grid(form(X), y, values, order=train)
    np.testing.assert_allclose(
        Z[held_out] @ other.fit_grid(Z, y, values, order=train), want, atol=1e-10 * np.abs(want).max()
    )
    assert len(calls) == 8 or name == "opauc_pca"
    on_data = X[held_out] @ learner.fit_grid(form(X), y, values, order=train, on_chunk=lambda n_rows: None)
    np.testing.assert_allclose(on_data, want, atol=1e-10 * np.abs(want).max())
    assert learner.reduced(form(X[:, :4]), np.arange(50), lambda: None) is None


@pytest.mark.parametrize("n_positive", [3, 150])
@pytest.mark.parametrize("density", [0.005, 0.2])
def test_selected_features_of_sparse_rows_have_sparse_second_moments(density, n_positive):
    rng = np.random.default_rng(n_positive)
    X = sparse.random(300, 400, density, "csr", random_state=rng, data_rvs=lambda n: rng.normal(size=n))
    y = np.where(rng.permutation(300) < n_positive, 1, -1)
    learner, train, held_out = small("opauc_feat", n_components=50), np.arange(250), np.arange(250, 300)
    other, Z = learner.reduced(X, np.arange(300), lambda: None)
    few = density == 0.005
    assert type(other).__name__ == ("OPAUCS" if few else "OPAUC")
    assert type(learner.reduced_size(300, 400, 400 * density).learner) is type(other)
    values = {"eta": np.array([2.0**-6, 0.25, 2.0**9]), "lam": np.array([2.0**-10, 2.0**-4, 1.0])}
    weights, others = learner.fit_grid(X, y, values, order=train), other.fit_grid(Z, y, values, order=train)
    for found in (weights, others):
        np.testing.assert_array_equal(np.isfinite(found).all(axis=0), [True, True, False])
    want, found = X[held_out] @ weights, Z[held_out] @ others
    np.testing.assert_allclose(found[:, :2], want[:, :2], atol=1e-10 * np.abs(want[:, :2]).max())


@pytest.mark.parametrize("n_components", [3, 30, 250])
def test_components_from_the_gram_matrix_are_those_of_the_randomised_algorithm(n_components, wide, monkeypatch):
    monkeypatch.setattr(principal_components, "_EXACT", 20)
    X, y = wide
    X = X + 0.1 * np.random.default_rng(0).normal(size=X.shape)
    learner, train, held_out = OPAUCPCA(n_components=n_components, random_state=3), np.arange(40), np.arange(40, 60)
    monkeypatch.setattr("opauc_bench.learners.opauc.pca.BLOCK_BYTES", 8 * 300 * 7)
    values = grid_of(learner)
    want = X[held_out] @ learner.fit_grid(X, y, values, order=train)
    informed = learner.given_gram_matrix(lambda: X @ X.T)
    other, K = informed.reduced(X, train, lambda: None)
    for _ in range(2):
        for found in (
            K[held_out] @ other.fit_grid(K, y, values, order=train),
            X[held_out] @ informed.fit_grid(X, y, values, order=train),
        ):
            np.testing.assert_allclose(found, want, atol=1e-9 * np.abs(want).max())


def test_components_from_the_gram_matrix_of_rows_that_do_not_vary_or_overflow(wide):
    _, y = wide
    X = np.ones((60, 300))
    informed = OPAUCPCA(n_components=3).given_gram_matrix(lambda: X @ X.T)
    other, K = informed.reduced(X, np.arange(60), lambda: None)
    assert not informed.fit_grid(X, y, {"eta": np.array([0.1, 0.2])}).any()
    assert not other.fit_grid(K, y, {"eta": np.array([0.1, 0.2])}).any()
    with np.errstate(over="ignore"):
        assert np.isnan(other.fit_grid(1e308 * K, y, {"eta": np.array([0.1, 0.2])})).any()


@pytest.mark.parametrize("n", [1, 3, 4, 70])
def test_dense_rows_are_projected_to_the_bits_of_sparse_ones(n):
    X = np.random.default_rng(0).normal(size=(n, 1100))
    X[:, ::9] = 0.0
    projection = small("opauc_rp", n_components=37)._projection(1100)
    want = projection.forward(sparse.csr_matrix(X))
    np.testing.assert_array_equal(projection.forward(X), want)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("opauc_bench.learners.opauc.random_projection._MOST_STORED", 0)
        np.testing.assert_array_equal(projection.forward(X), want)
    P = projection.back(np.eye(37))
    np.testing.assert_allclose(want, X @ P, atol=1e-12)


def test_many_projected_rows_are_in_a_file(wide, monkeypatch):
    monkeypatch.setattr("opauc_bench.learners.opauc.projected._MOST_IN_MEMORY", 0)
    X, _ = wide
    _, Z = small("opauc_rp").reduced(X, np.arange(50), lambda: None)
    assert isinstance(Z, np.memmap)
    assert Z[:50].any(axis=1).sum() == 49
    assert not Z[50:].any()


# ---------------------------------------------------------------------- kept on disk


def test_the_gram_matrix_is_computed_once_by_one_of_several_workers(wide, tmp_path, monkeypatch):
    X, _ = wide
    computed = []
    compute = gram_matrix
    monkeypatch.setattr(
        "opauc_bench.runner.gram_matrix.gram_matrix", lambda *args: computed.append(1) or compute(*args)
    )
    found = []
    workers = [
        threading.Thread(target=lambda: found.append(stored_gram_matrix(X, tmp_path, lambda: None))) for _ in range(4)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(computed) == 1
    for products in found:
        np.testing.assert_allclose(products, X @ X.T, atol=1e-14)
    assert not list(tmp_path.glob("*.part"))


def test_the_gram_matrix_is_whole_or_absent(wide, tmp_path):
    X, _ = wide

    def stop():
        raise TimeoutError

    with pytest.raises(TimeoutError):
        stored_gram_matrix(X, tmp_path, stop)
    assert not list(tmp_path.glob("*.[np]*"))
    np.testing.assert_allclose(stored_gram_matrix(X, tmp_path, lambda: None), X @ X.T, atol=1e-14)


@pytest.mark.parametrize("damage", ["cut off", "changed"])
def test_a_gram_matrix_that_has_changed_on_disk_is_computed_again(damage, wide, tmp_path):
    X, _ = wide
    stored_gram_matrix(X, tmp_path, lambda: None)
    path = tmp_path / "gram_matrix.npy"
    content = path.read_bytes()
    path.write_bytes(content[:-100] if damage == "cut off" else content[:-8] + bytes(8))
    np.testing.assert_allclose(stored_gram_matrix(X, tmp_path, lambda: None), X @ X.T, atol=1e-14)


def test_a_folder_without_permission_to_write_is_no_obstacle(wide, tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda *_: False)
    np.testing.assert_allclose(stored_gram_matrix(wide[0], tmp_path, lambda: None), wide[0] @ wide[0].T, atol=1e-14)
    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_an_error_that_names_the_folder(wide, tmp_path, monkeypatch):
    def fill(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", fill, raising=False)
    monkeypatch.setattr("opauc_bench.learners.opauc.projected._MOST_IN_MEMORY", 0)
    with pytest.raises(RunnerError, match=r"gram_matrix.npy: .* needs 2.9e-05 GB: No space left"):
        stored_gram_matrix(wide[0], tmp_path, lambda: None)
    assert not list(tmp_path.glob("*.[np]*"))
    with pytest.raises(LearnerError, match=r"projected rows need .* GB: No space left"):
        small("opauc_rp").reduced(wide[0], np.arange(50), lambda: None)


EXPERIMENT = """
title: Wide rows
catalogue: {wide: {title: wide, source: {npz: wide.npz}, scaling: none}}
datasets: [wide]
learners:
  - {learner: opauc_fd, params: {tau: 5}}
  - {learner: oam_seq, params: {buffer_size: 8}}
  - {learner: opauc_rp, params: {n_components: 6}}
  - {learner: opauc_pca, params: {n_components: 6}}
grids: {eta: {pow2: [-8, -2, 2]}, lambda: {pow2: [-8, -2, 3]}}
protocol: {kind: cv, trials: 1, folds: 2, inner_folds: 2}
"""


@pytest.mark.parametrize("few", [True, False], ids=["few rows", "more rows"])
def test_an_experiment_has_the_numbers_of_a_search_on_the_data(few, wide, command, tmp_path, monkeypatch):
    X, y = wide
    X = X + 0.02 * np.random.default_rng(0).normal(size=X.shape)
    np.savez(tmp_path / "wide.npz", X=X, y=y)
    (tmp_path / "e.yaml").write_text(EXPERIMENT)
    monkeypatch.setitem(command.environment, "OPAUC_BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(span, "are_products_worth_it", lambda *_: True)
    monkeypatch.setattr("opauc_bench.plan.are_products_worth_it", lambda *_: True)
    monkeypatch.setattr(span, "_FEW_ROWS", 3000 if few else 10)
    if not few:
        plan = command("plan", "e.yaml", "--offline", cwd=tmp_path)
        assert "wide: its first task computes the Gram matrix of the rows and keeps it in the" in plan.stdout
    done = command("run", "e.yaml", "--offline", "--jobs", "1", "--out", "reduced", cwd=tmp_path)
    assert (done.returncode, "keeps it in the cache" in done.stderr) == (0, not few)
    assert len(list(tmp_path.glob("cache/wide/prepared/*/gram_matrix.npy"))) == (0 if few else 1)
    monkeypatch.setattr("opauc_bench.runner.worker.is_narrower", lambda *_: False)
    monkeypatch.setattr("opauc_bench.learners.opauc.projected.ProjectedOPAUC.reduced", lambda *_: None)
    command("run", "e.yaml", "--offline", "--jobs", "1", "--out", "plain", cwd=tmp_path, exits=0)
    reduced, plain = (records_of(tmp_path / out) for out in ("reduced", "plain"))
    assert len(plain) == 8
    for one, other in zip(reduced, plain):
        assert (one.id, one.selected) == (other.id, other.selected)
        assert one.metrics["auc"] == pytest.approx(other.metrics["auc"], abs=1e-10)
        np.testing.assert_allclose(one.selection.auc, other.selection.auc, atol=1e-10)


def test_waiting_for_the_gram_matrix_of_another_process_ends_with_the_time_limit(wide, tmp_path, monkeypatch):
    monkeypatch.setattr("opauc_bench.runner.gram_matrix._SECONDS_TO_WAIT", 0.01)
    looks = []

    def stop():
        raise TimeoutError

    def has_ended(path):
        looks.append(path)
        assert len(looks) < 100, "it waits for ever"
        return False

    monkeypatch.setattr("opauc_bench.runner.gram_matrix._is_intact", has_ended)
    with FileLock(tmp_path / "gram_matrix.lock"), pytest.raises(TimeoutError):
        stored_gram_matrix(wide[0], tmp_path, stop)


def test_ties_by_rounding_are_those_of_the_longer_row():
    ties = span.TiesByRounding(np.diag([1e4, 1.0, 1.0, 1e4]), 1e-13)  # lengths 100, 1, 1, 100
    near = 0.5 + 4e-12  # 4e-12 is within 1e-13 times 100, not within 1e-13 times 1
    scores = np.array([[0.5, near], [near, 0.5], [1.0, 1.0], [2.0, -2.0]])
    found = ties.restored(scores, np.arange(4))
    assert found[:, 0].tolist() == [0.5, 0.5, 1.0, 2.0]
    assert found[:, 1].tolist() == [0.5, 0.5, 1.0, -2.0]


def test_inner_products_pay_where_many_repetitions_share_them_or_rows_are_slow_to_read():
    cases = [(1, 0.0), (25, 0.0), (1000, 0.0), (25, 1.2e-8)]
    found = [are_products_worth_it(UniLog(), (4000, 10_000), 3200, 1, 2, n, read) for n, read in cases]
    assert found == [False, False, True, True]


@pytest.mark.parametrize(("kind", "multiple"), [("coordinates", 3200), ("triangular_rows", 640), ("products", 64)])
def test_how_far_apart_rounding_may_move_ties(kind, multiple):
    ties = getattr(span.TiesByRounding, f"of_{kind}")(np.eye(100))
    apart = multiple * np.finfo(float).eps
    scores = np.array([[0.5], [0.5 + 0.9 * apart], [0.2], [0.2 + 1.1 * apart], [1.0]])
    found = ties.restored(scores, np.arange(5))
    assert found.ravel().tolist() == [0.5, 0.5, 0.2, 0.2 + 1.1 * apart, 1.0]
