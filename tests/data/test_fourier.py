"""Random Fourier features: definition, access by rows, use by learners, and preparation."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.examples import toy_entry
from sklearn.metrics.pairwise import rbf_kernel

from opauc_bench.data import Sources, find_prepared, open_prepared, prepare, verify
from opauc_bench.data.fourier import RandomFourierRows, draw_frequencies
from opauc_bench.evaluation.selection import evaluate_models
from opauc_bench.learners import get_learner


def rows_of(n_samples: int = 40, d: int = 3, n: int = 50, seed: int = 0, bandwidth=1.5) -> RandomFourierRows:
    X = np.random.default_rng(seed).uniform(-1, 1, (n_samples, d))
    omega, phase, _ = draw_frequencies(X, n, bandwidth, seed)
    return RandomFourierRows(X, omega, phase)


def plainly(rows: RandomFourierRows) -> np.ndarray:
    cosines = np.cos(2 * np.pi * (rows.X @ rows.omega + rows.phase))
    return np.hstack([rows.X, np.sqrt(2 / len(rows.phase)) * cosines])


# ------------------------------------------------------------------------------------------ the features


@given(seed=st.integers(0, 1000), d=st.integers(1, 6), n=st.integers(1, 40), bandwidth=st.floats(0.01, 100))
def test_features_equal_cosines_of_definition(seed, d, n, bandwidth):
    rows = rows_of(17, d, n, seed, bandwidth)
    largest = np.abs(rows.X @ rows.omega).max() + 1
    np.testing.assert_allclose(rows[:], plainly(rows), rtol=0, atol=1e-14 * largest)


def test_inner_products_approximate_the_gaussian_kernel():
    rows = rows_of(30, 4, 40_000, bandwidth=0.8)
    cosines = rows[:][:, 4:]
    np.testing.assert_allclose(cosines @ cosines.T, rbf_kernel(rows.X, gamma=1 / (2 * 0.8**2)), atol=0.03)
    np.testing.assert_allclose(np.linalg.norm(cosines, axis=1), 1, atol=0.02)


def test_median_bandwidth_is_median_distance():
    X = np.random.default_rng(0).standard_normal((500, 3))
    differences = X[:, None] - X[None, :]
    due = np.median(np.sqrt((differences**2).sum(axis=2))[np.triu_indices(500, 1)])
    assert draw_frequencies(X, 10, "median", 7)[2] == pytest.approx(due, rel=0.02)
    assert draw_frequencies(np.ones((5, 2)), 10, "median", 0)[2] == 1.0  # all rows are equal


def test_frequencies_depend_on_seed_only():
    X = np.random.default_rng(0).standard_normal((50, 3))
    for one, other in zip(draw_frequencies(X, 10, "median", 1), draw_frequencies(X, 10, "median", 1)):
        np.testing.assert_array_equal(one, other)
    assert (draw_frequencies(X, 10, 1.0, 1)[0] != draw_frequencies(X, 10, 1.0, 2)[0]).all()


# ------------------------------------------------------------------------------------------ like a matrix


@pytest.mark.parametrize(
    "rows",
    [
        slice(3, 9),
        slice(None, None, 7),
        np.array([5, 0, 5]),
        [1, 2],
        np.arange(40) % 3 == 0,
        np.array([], dtype=int),
        4,
        -1,
    ],
)
def test_rows_equal_rows_of_matrix(rows):
    lazy = rows_of()
    np.testing.assert_allclose(lazy[rows], plainly(lazy)[rows], atol=1e-14)
    assert lazy.shape == plainly(lazy).shape
    assert len(lazy) == 40
    np.testing.assert_allclose(np.asarray(lazy), plainly(lazy), atol=1e-14)


def test_column_index_is_refused():
    with pytest.raises(IndexError, match=r"columns of X\[rows\]"):
        rows_of()[:, 1]
    with pytest.raises(IndexError):
        rows_of()[[40]]


def test_whole_large_matrix_is_refused():
    rows = RandomFourierRows(np.zeros((200_000, 2)), np.zeros((2, 50_000)), np.zeros(50_000))
    with pytest.raises(MemoryError, match=r"200,000 rows of 50,002 features would take 80.0 GB"):
        rows[:]
    with pytest.raises(MemoryError):
        get_learner("batch_uni_squ")().fit_grid(rows, np.tile([1, -1], 100_000), {"lam": np.array([1.0])})
    assert rows[np.array([3, 199_999])].shape == (2, 50_002)


@pytest.mark.parametrize(
    "name", ["opauc", "opauc_fd", "opauc_s", "opauc_pca", "uni_squ", "oam_seq", "ftrl_auc", "batch_uni_squ"]
)
def test_learners_give_same_weights_as_on_matrix(name):
    lazy = rows_of(120, 3, 30)
    y = np.where(lazy.X[:, 0] + 0.3 * np.random.default_rng(1).standard_normal(120) > 0, 1, -1)
    learner = get_learner(name)()
    grid = {axis: np.array([0.01, 0.1]) for axis in learner.grid_axes}
    order = np.random.default_rng(2).permutation(120)[:100]
    coef = learner.fit_grid(lazy, y, grid, order=order)
    due = get_learner(name)().fit_grid(plainly(lazy), y, grid, order=order)
    np.testing.assert_allclose(coef, due, rtol=1e-9, atol=1e-12)
    held_out = np.setdiff1d(np.arange(120), order)
    aucs = evaluate_models(lazy, y[held_out], held_out, coef)
    np.testing.assert_array_equal(aucs, evaluate_models(plainly(lazy), y[held_out], held_out, coef))


def test_pass_keeps_one_chunk_in_memory():
    lazy = rows_of(4000, 2, 20_000)  # 640 MB as a matrix
    y = np.where(lazy.X[:, 0] > 0, 1, -1)
    learner = get_learner("uni_squ")()
    learner.fit_grid(lazy, y, {"eta": np.array([0.1])}, order=np.arange(20))  # compiles
    tracemalloc.start()
    try:
        learner.fit_grid(lazy, y, {"eta": np.array([0.1])})
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 250e6


# ------------------------------------------------------------------------------------------ preparation


@pytest.fixture
def prepared(tmp_path):
    """Return an entry with cosine features, and sources in which it is prepared."""
    rng = np.random.default_rng(0)
    lines = [
        f"{2 * (i % 2) - 1} " + " ".join(f"{j + 1}:{v:.3f}" for j, v in enumerate(rng.uniform(1, 9, 3)))
        for i in range(25)
    ]
    (tmp_path / "mirror" / "toy").mkdir(parents=True)
    (tmp_path / "mirror" / "toy" / "toy.txt").write_text("\n".join(lines))
    entry = toy_entry(n_samples=25, n_features=3, scaling="minmax", fourier={"n": 200, "seed": 3})
    sources = Sources(tmp_path / "cache", (str(tmp_path / "mirror"),))
    return entry, sources, prepare(entry, sources)


def test_dataset_with_fourier_features_is_prepared_and_verified(prepared):
    entry, sources, dataset = prepared
    assert dataset.X.shape == (25, 203) == (25, entry.width)
    assert dataset.manifest["n_features"] == 203
    assert dataset.manifest["storage"] == "fourier"
    assert dataset.manifest["fourier"]["n"] == 200
    assert 0.5 < dataset.manifest["fourier"]["bandwidth"] < 3
    assert dataset.manifest["density"] == pytest.approx(1.0, abs=0.02)
    assert dataset.X[:][:, :3].min() == -1.0  # the originals are scaled
    again = open_prepared(dataset.folder, dataset.fingerprint)
    np.testing.assert_array_equal(again.X[:], dataset.X[:])
    assert find_prepared(entry, sources).fingerprint == dataset.fingerprint
    assert all(check.ok for check in verify(entry, sources))
    (dataset.folder / "phase.npy").write_bytes((dataset.folder / "phase.npy").read_bytes()[:-1] + b"\x01")
    assert not all(check.ok for check in verify(entry, sources))


def test_other_frequencies_change_fingerprint(prepared):
    entry, sources, dataset = prepared
    for change in ({"seed": 4}, {"n": 201}, {"bandwidth": 2.0}):
        other = entry.model_copy(update={"fourier": entry.fourier.model_copy(update=change)})
        assert prepare(other, sources).fingerprint != dataset.fingerprint
    assert prepare(entry.model_copy(update={"fourier": None}), sources).X.shape == (25, 3)
