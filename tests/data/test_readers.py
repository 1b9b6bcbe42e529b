"""Readers of the high-dimensional sets: several labels, named counts, zero-based indices; and a small catalogue."""

import io
import re
import shutil
import tarfile
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from opauc_bench.data import Sources, availability, load_catalogue, prepare
from opauc_bench.data.cache import RawFile
from opauc_bench.data.entry import DatasetEntry, FileSpec, Form
from opauc_bench.data.formats import read_blocks
from opauc_bench.data.transform import unit_rows
from opauc_bench.errors import ConfigError, DataError

FIXTURES = Path(__file__).parents[1] / "fixtures" / "data"


def read(path: Path, n_features: int, **options) -> tuple[np.ndarray, np.ndarray]:
    form = Form.model_validate({"files": [FileSpec(name="one")], "positive": (1,)} | options)
    blocks = list(read_blocks([RawFile(path, path.name, "0" * 64, 1 << 30, False, "mirror")], form, n_features))
    return np.concatenate([block.X.toarray() for block in blocks]), np.concatenate([block.labels for block in blocks])


def read_text(tmp_path: Path, text: bytes, n_features: int, **options):
    path = tmp_path / "file"
    path.write_bytes(text)
    return read(path, n_features, **options)


# ------------------------------------------------------------------------------------------ zero-based indices


def test_first_index_zero_is_read():
    X, labels = read(FIXTURES / "labeledBow.feat", 5, format="svmlight", first_index=0)
    assert X.tolist() == [[9, 1, 0, 0, 2], [0, 0, 0, 4, 0], [1, 0, 0, 0, 0], [0, 0, 3, 0, 0]]
    assert labels.tolist() == [9, 7, 1, 4]


def test_zero_based_file_is_refused_by_default():
    with pytest.raises(DataError, match=r"labeledBow.feat:1: expected indices from 1, got '0:9'; is the file zero-ba"):
        read(FIXTURES / "labeledBow.feat", 5, format="svmlight")


def test_last_index_of_zero_based_file_is_checked(tmp_path):
    with pytest.raises(DataError, match=r"file:2: expected indices up to 4, got 5"):
        read_text(tmp_path, b"1 4:1\n1 5:1\n", 5, format="svmlight", first_index=0)


# ------------------------------------------------------------------------------------------ several labels

MULTI = {"format": "svmlight_multilabel", "largest_class": True, "positive": None}


def test_several_labels_are_read():
    X, labels = read(FIXTURES / "topics.svm", 4, **MULTI)
    assert labels.tolist() == ["3,17", "17", "", "5", "545,32", "32"]
    assert X.tolist() == [[0.5, 0, 0, 0], [0, 1, 0, 0], [0, 0, 2, 0], [0, 0, 0, 0], [1, 2, 0, 0], [0, 0, 0, 7]]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"3,x 1:1", "expected labels such as 3,17 first, got '3,x'"),
        (b"3,,5 1:1", "expected labels such as 3,17 first, got '3,,5'"),
        (b"3 5 1:1", "expected labels such as 3,17 first, got '3 5'"),
        (b"3.5 1:1", "expected labels such as 3,17 first, got '3.5'"),
        (b"3,5", None),
        (b"3,5:1", "expected index:value, got '3,5:1'"),
        (b"3 :1", "expected index:value"),
        (b"3 1:x", "expected the value of feature 1 to be a number, got 'x'"),
        (b"3 2:1 1:1", "expected ascending indices, got 1 after 2"),
        (b"3 5:1", "expected indices up to 4, got 5"),
    ],
)
def test_several_labels_error_names_line(tmp_path, line, problem):
    text = b"1 1:1\n\n" + line + b"\n2 2:1\n"
    if problem is None:
        assert read_text(tmp_path, text, 4, **MULTI)[1].tolist() == ["1", "3,5", "2"]
        return
    with pytest.raises(DataError, match=re.escape(f"{tmp_path / 'file'}:3: {problem}")):
        read_text(tmp_path, text, 4, **MULTI)


# ------------------------------------------------------------------------------------------ named counts

COUNTS = {"format": "token_counts", "positive": ("positive",)}


def test_words_are_numbered_by_first_occurrence():
    X, labels = read(FIXTURES / "books.review", 5, **COUNTS)
    assert X.tolist() == [[1, 2, 0, 0, 0], [0, 1, 1, 3, 0], [0, 0, 0, 0, 1]]
    assert labels.tolist() == ["positive", "negative", "negative"]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"good:1 bad:2", "expected #label#:class at the end of the line, got 'bad:2'"),
        (b"good:1 #label#:", "expected #label#:class at the end of the line, got '#label#:'"),
        (b"good:1 #label#:positive bad:1", "expected #label#:class at the end of the line, got 'bad:1'"),
        (b"good #label#:positive", "expected word:count, got 'good'"),
        (b":3 #label#:positive", "expected word:count, got ':3'"),
        (b"good:x #label#:positive", "expected the count of 'good' to be a number, got 'x'"),
        (b"good:nan #label#:positive", "expected the count of 'good' to be finite, got 'nan'"),
        (b"good: #label#:positive", "expected the count of 'good' to be a number, got ''"),
        (b"good:1 good:2 #label#:positive", "expected each word once in a line, got 'good' again"),
        (b"a:1 b:1 c:1 d:1 e:1 f:1 #label#:positive", "expected at most 5 different words, got more"),
    ],
)
def test_named_counts_error_names_line(tmp_path, line, problem):
    text = b"good:1 #label#:positive\n\n" + line + b"\n"
    with pytest.raises(DataError, match=re.escape(f"{tmp_path / 'file'}:3: {problem}")):
        read_text(tmp_path, text, 5, **COUNTS)


def test_word_may_contain_colon(tmp_path):
    X, _ = read_text(tmp_path, b"10:30:2 #label#:positive\n10:30:1 #label#:negative\n", 1, **COUNTS)
    assert X.tolist() == [[2], [1]]


# ------------------------------------------------------------------------------------------ from the fixtures to arrays

CATALOGUE = """
datasets:
  topics:
    title: Rows with several labels
    format: svmlight_multilabel
    files: [{name: topics.svm}]
    n_samples: 6
    n_features: 4
    largest_class: true
    scaling: maxabs
  film:
    title: Zero-based
    format: svmlight
    files: [{name: film.feat, member: aclImdb/train/labeledBow.feat}]
    first_index: 0
    n_samples: 4
    n_features: 5
    n_positive: 2
    positive: [7, 9]
    scaling: unit_rows
  film.counts: {base: film, title: Counts, scaling: none, range: [0, 100]}
  film.other: {base: film, title: The others, positive: [1, 4]}
  film.wide: {base: film, title: Wide, n_features: 20000, n_features_at_most: true}
  film.close: {base: film, title: Closed up, n_features: 5, drop_empty: true, scaling: maxabs}
  film.cosines: {base: film, title: Cosines, fourier: {n: 300, bandwidth: 2.0, seed: 4}}
  words:
    title: Words
    format: token_counts
    files: [{name: books.review}]
    n_samples: 3
    n_features: 5
    n_positive: 1
    positive: [positive]
    scaling: unit_rows
"""


@pytest.fixture
def small(tmp_path):
    """Return the entries of `CATALOGUE`, and sources with a mirror of the fixtures."""
    path = tmp_path / "own.yaml"
    path.write_text(CATALOGUE)
    for folder, name, fixture in [
        ("topics", "topics.svm", "topics.svm"),
        ("film/aclImdb/train", "labeledBow.feat", "labeledBow.feat"),
        ("words", "books.review", "books.review"),
    ]:
        (tmp_path / "mirror" / folder).mkdir(parents=True)
        (tmp_path / "mirror" / folder / name).write_bytes((FIXTURES / fixture).read_bytes())
    return load_catalogue(path), Sources(tmp_path / "cache", (str(tmp_path / "mirror"),), offline=True)


def dense(dataset) -> np.ndarray:
    return np.asarray(dataset.X[:] if isinstance(dataset.X, np.ndarray) else dataset.X.toarray())


def test_most_frequent_label_is_positive(small):
    entries, sources = small
    dataset = prepare(entries["topics"], sources)
    assert dataset.y.tolist() == [1, 1, -1, -1, -1, -1]  # 17 and 32 twice each: the first in the order of names
    assert dataset.manifest["binary"] == {"positive": ["17"], "largest_class": True}
    np.testing.assert_array_equal(dense(dataset).max(axis=0), [1, 1, 1, 1])


def test_unit_rows_have_unit_length(small):
    entries, sources = small
    for name in ("film", "film.wide"):
        dataset = prepare(entries[name], sources)
        np.testing.assert_allclose(np.linalg.norm(dense(dataset), axis=1), 1.0, rtol=1e-15)
        assert dataset.y.tolist() == [1, 1, -1, -1]
    assert prepare(entries["film.wide"], sources).X.shape == (4, 20000)


@pytest.mark.parametrize("factor", [1e-160, 1e-300])
def test_rows_whose_squares_underflow_have_unit_length(factor):
    X = np.random.default_rng(0).normal(size=(6, 3))
    X[2] = 0
    small = X * factor
    small[4] = X[4]
    np.testing.assert_allclose(unit_rows(small), unit_rows(X), rtol=1e-14)
    np.testing.assert_allclose(unit_rows(sparse.csr_matrix(small)).toarray(), unit_rows(X), rtol=1e-14)


def test_named_counts_become_a_dataset(small):
    entries, sources = small
    dataset = prepare(entries["words"], sources)
    assert dataset.y.tolist() == [1, -1, -1]
    np.testing.assert_allclose(dense(dataset)[0], np.array([1, 2, 0, 0, 0]) / np.sqrt(5))


def test_derived_entries_share_files_of_base(small, tmp_path):
    entries, sources = small
    assert prepare(entries["film.counts"], sources).manifest["value_range"] == [0, 9]
    other = prepare(entries["film.other"], sources)
    assert other.y.tolist() == [-1, -1, 1, 1]
    assert other.manifest["n_positive"] == 2
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == ["film", "film.counts", "film.other"]
    assert not (tmp_path / "cache" / "film.other" / "raw").exists()
    assert availability(entries["film"], sources) == "cached"


def test_drop_empty_numbers_features_consecutively(small, tmp_path):
    entries, sources = small
    (tmp_path / "mirror/film/aclImdb/train/labeledBow.feat").write_bytes(b"9 0:9 30:2\n7 7:4\n1 0:1\n4 1000:5 2000:1\n")
    X = dense(prepare(entries["film.close"], sources))
    assert X.tolist() == [[1, 0, 1, 0, 0], [0, 1, 0, 0, 0], [1 / 9, 0, 0, 0, 0], [0, 0, 0, 1, 1]]


def test_wrong_number_of_features_is_refused(small, tmp_path):
    entries, sources = small
    feat = tmp_path / "mirror/film/aclImdb/train/labeledBow.feat"
    feat.write_bytes(b"9 0:9 2:2\n7 1:4\n1 0:1\n4 1000:5\n")
    with pytest.raises(DataError, match="expected 5 features, got 4"):
        prepare(entries["film.close"], sources)
    feat.write_bytes(b"9 0:9 2:2\n7 1:4\n1 0:1\n4 20000:5\n")
    with pytest.raises(DataError, match=r":4: expected indices up to 19999, got 20000"):
        prepare(entries["film.wide"], sources, fresh=True)


def test_data_of_zeros_are_refused(small, tmp_path):
    entries, sources = small
    (tmp_path / "mirror/film/aclImdb/train/labeledBow.feat").write_bytes(b"9 0:0\n7\n1 1:0\n4\n")
    with pytest.raises(DataError, match="expected values, got only zeros"):
        prepare(entries["film.wide"], sources)


def test_members_of_one_archive_are_downloaded_once(small, tmp_path, monkeypatch):
    archive = tmp_path / "reviews.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        for sign in ("positive", "negative"):
            for folder, text in (("books", f"{sign[:3]}:1 #label#:{sign}\n"), ("dvd", f"all:2 #label#:{sign}\n")):
                info = tarfile.TarInfo(f"./processed_acl/{folder}/{sign}.review")
                info.size = len(text)
                tar.addfile(info, io.BytesIO(text.encode()))
    asked = []

    def download(address, folder, limit, what, notify):
        asked.append(address)
        return shutil.copyfile(archive, folder / "download")

    monkeypatch.setattr("opauc_bench.data.fetch.download", download)
    files = [
        {
            "name": f"{folder}.{sign}",
            "member": f"processed_acl/{folder}/{sign}.review",
            "urls": ["https://example.org/reviews.tar.gz"],
        }
        for sign in ("positive", "negative")
        for folder in ("books", "dvd")
    ]
    values = {"name": "acl", "title": "", "files": files, "n_samples": 4, "n_features": 3, "scaling": "none"}
    entry = DatasetEntry.model_validate(values | {"range": (0, 2), **COUNTS})
    dataset = prepare(entry, Sources(tmp_path / "cache"))
    assert asked == ["https://example.org/reviews.tar.gz"]
    assert dataset.y.tolist() == [1, 1, -1, -1]
    assert dense(dataset).tolist() == [[1, 0, 0], [0, 2, 0], [0, 0, 1], [0, 2, 0]]
    raw = sorted(path.name for path in (tmp_path / "cache/acl/raw").iterdir() if not path.name.startswith("."))
    assert raw == ["books.negative", "books.positive", "dvd.negative", "dvd.positive"]
    assert not list((tmp_path / "cache/acl/raw").glob(".part-*"))


# ------------------------------------------------------------------------------------------ mistakes in a catalogue


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        ("base: film, title: Counts", "base: flim, title: Counts", "no entry is called 'flim' (did you mean 'film'?)"),
        ("base: film, title: Counts", "base: film.other, title: Counts", "'film.other' has a base itself"),
        ("fourier: {n: 300,", "fourier: {n: 0,", "expected more than 0, got 0"),
        ("bandwidth: 2.0", "bandwidth: mean", "'median'"),
        ("title: Cosines,", "title: Cosines, n_features: 20000,", "fewer than 10,000 features"),
        (
            "drop_empty: true, scaling: maxabs",
            "drop_empty: true, scaling: minmax",
            "with 'drop_empty', expected maxabs",
        ),
        ("aclImdb/train", "../train", "is not a relative path"),
        ("aclImdb/train", "/train", "is not a relative path"),
        ("largest_class: true", "random_half: {seed: 1}", "rows with several labels cannot be split"),
        ("positive: [positive]", "positive: [positive]\n    first_index: 0", "'first_index' belongs to svmlight files"),
        ("positive: [positive]", "positive: [positive]\n    drop_columns: [1]", "token_counts files have no columns"),
        ("first_index: 0", "first_index: 2", "expected 0 or 1, got 2"),
    ],
)
def test_catalogue_mistake_has_position(tmp_path, before, after, problem):
    assert before in CATALOGUE
    path = tmp_path / "own.yaml"
    path.write_text(CATALOGUE.replace(before, after, 1))
    with pytest.raises(ConfigError) as caught:
        load_catalogue(path)
    assert problem in caught.value.message
    assert re.match(rf"{re.escape(str(path))}:\d+:\d+: ", caught.value.message)


def test_entry_may_derive_from_packaged_entry(tmp_path):
    path = tmp_path / "own.yaml"
    path.write_text("datasets:\n  mine: {base: news20, title: Mine, positive: [1, 2]}\n")
    mine, base = (load_catalogue(path)[name] for name in ("mine", "news20"))
    assert (mine.home, mine.files, mine.scaling, mine.n_samples) == ("news20", base.files, "maxabs", 15935)
    assert (mine.positive, mine.n_positive) == ((1, 2), None)
