"""The published datasets, if a mirror has them: counts that are known from other sources."""

import os
import shutil

import numpy as np
import pytest
from scipy.sparse import issparse

from opauc_bench.data import Sources, availability, load_catalogue, prepare, read_original

MIRROR = os.environ.get("OPAUC_BENCH_MIRROR")

pytestmark = pytest.mark.skipif(not MIRROR, reason="OPAUC_BENCH_MIRROR names no mirror of the real datasets")

# rows, features, positive rows, nonzero values (None if not published), first digits of the fingerprint
# (a change means other numbers: raise PREPARE_VERSION)
KNOWN = {
    "diabetes": (768, 8, 500, None, "011a11bf"),
    "fourclass": (862, 2, 307, None, "7e394c1d"),
    "german": (1000, 24, 300, None, "e8aced71"),
    "usps": (9298, 256, 5300, None, "4d387eca"),
    "letter": (15000, 16, 7409, None, "d39914b7"),
    "magic04": (19020, 10, 12332, None, "0ff9a102"),
    "a9a": (32561, 123, 7841, 451592, "20a3c6da"),
    "w8a": (49749, 300, 1479, 579586, "43a212e5"),
    "mnist": (60000, 780, 30186, None, "df611363"),
    "connect-4": (67557, 126, 16635, 67557 * 42, "c7ff4158"),
    "ijcnn1": (141691, 22, 13565, None, "03ac617b"),
    "news20": (15935, 62061, 7982, 1272569, "803239ca"),
    "news20.unit": (15935, 62061, 7982, 1272569, "645d86bb"),
    "news20.g1": (15935, 62061, 7958, 1272569, "ed1872e2"),
    "sector": (9619, 55197, 4859, 1569904, "10efcb61"),
    "sector.lvr": (9619, 55197, 105, 1569904, "1d232706"),
    "farm-ads": (4143, 54877, 2210, 817141, ""),
    "imdb": (50000, 89527, 25000, 6796858, "00724e84"),
    "reviews": (8000, 473856, 4000, 1519266, "b006e526"),
}
SPARSE = {"a9a", "w8a", "news20", "news20.unit", "news20.g1", "sector", "sector.lvr", "farm-ads", "imdb", "reviews"}
LARGE = {"mnist", "connect-4", "ijcnn1", *SPARSE} - {"a9a", "w8a"}


def marked(*names: str) -> list:
    """Names of datasets as parameters of a test; the large ones take seconds each."""
    return [pytest.param(name, marks=pytest.mark.large) if name in LARGE else name for name in names]


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """Return the mirror of the environment with an empty cache, and remove that afterwards: it is large."""
    cache = tmp_path_factory.mktemp("cache")
    yield Sources(cache, Sources.from_environment(offline=True).mirrors, offline=True)
    shutil.rmtree(cache)


def available(name: str, sources: Sources):
    entry = load_catalogue()[name]
    if availability(entry, sources) == "unavailable":
        pytest.skip(f"the mirror has no {name}")
    return entry


@pytest.mark.parametrize("name", marked(*KNOWN))
def test_dataset_has_known_counts(name, sources):
    n_samples, n_features, n_positive, nonzero, fingerprint = KNOWN[name]
    said = []
    dataset = prepare(available(name, sources), sources, said.append)
    assert dataset.X.shape == (n_samples, n_features)
    assert int((dataset.y == 1).sum()) == n_positive
    assert int((dataset.y == -1).sum()) == n_samples - n_positive
    assert issparse(dataset.X) == (name in SPARSE)
    if nonzero is not None:
        assert round(dataset.manifest["density"] * n_samples * n_features) == nonzero
    assert len(said) == 1, "a notice means that the mirror has other files than the catalogue knows"
    assert dataset.fingerprint.startswith(fingerprint)


def test_rows_without_features_are_kept(sources):
    X = prepare(available("w8a", sources), sources).X
    assert int((np.diff(X.indptr) == 0).sum()) == 4203


@pytest.mark.large
def test_scaled_counts_have_largest_value_one(sources):
    X = prepare(available("news20", sources), sources).X
    largest = X.max(axis=0).toarray().ravel()
    assert set(largest.tolist()) == {0.0, 1.0}
    assert int((largest == 0).sum()) == 1715  # features that never occur


@pytest.mark.parametrize("name", marked("news20.unit", "imdb", "reviews"))
def test_rows_have_unit_length(name, sources):
    X = prepare(available(name, sources), sources).X
    np.testing.assert_allclose(X.multiply(X).sum(axis=1), 1.0, rtol=1e-12)


@pytest.mark.large
def test_reviews_are_sorted_by_class(sources):
    y = prepare(available("reviews", sources), sources).y
    assert (y[:4000] == 1).all()
    assert (y[4000:] == -1).all()


def test_number_of_random_features_is_as_published(sources):
    for name, width in (("fourclass.rff", 50_002), ("letter.rff", 50_016)):
        dataset = prepare(available(name, sources), sources)
        assert dataset.X.shape[1] == width == load_catalogue()[name].width
        assert sum(file.stat().st_size for file in dataset.folder.iterdir()) < 40e6


@pytest.mark.large
def test_one_hot_rows_have_one_token_per_square(sources):
    X = prepare(available("connect-4", sources), sources).X
    squares = np.asarray(X).reshape(-1, 42, 3)
    assert (squares.sum(axis=2) == 1).all()
    assert (squares.sum(axis=1) == [34, 4, 4]).all()  # b, o, x: eight moves were made


@pytest.mark.large
def test_mnist_has_known_digits(sources):
    _, labels = read_original(available("mnist", sources), sources)
    assert np.bincount(labels.astype(int)).tolist() == [
        5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949,
    ]  # fmt: skip
