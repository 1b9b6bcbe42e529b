"""From entries to arrays: the catalogue, binary labels, scaling, checks, and prepared arrays."""

import fcntl
import io
import json
import pickle
import re
import shutil
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from reference.examples import toy_entry
from scipy.sparse import csr_matrix

from opauc_bench.data import (
    Sources,
    availability,
    download_size,
    find_prepared,
    load_catalogue,
    open_prepared,
    prepare,
    read_original,
    verify,
)
from opauc_bench.data.arrange import _write_dense
from opauc_bench.data.entry import DatasetEntry, packaged_catalogue
from opauc_bench.data.store import _seal
from opauc_bench.data.transform import binary_labels, minmax, scale
from opauc_bench.errors import ConfigError, DataError

DENSE = b"1 1:0.5 2:1\n2 1:-1\n3 2:-0.25\n1 1:0.125 2:1\n"
SPARSE = b"".join(b"%d %d:1\n" % (row % 3, row % 10 + 1) for row in range(30)) + b"1\n"


entry_of = partial(toy_entry, n_positive=2)
SPARSE_ENTRY = {"n_samples": 31, "n_features": 10, "n_positive": 11, "range": (0, 1)}


@pytest.fixture
def sources(tmp_path):
    """Return a cache and a mirror with one toy file, to be overwritten with `put`."""
    put(tmp_path, DENSE)
    return Sources(tmp_path / "cache", (str(tmp_path / "mirror"),), offline=True)


def put(tmp_path: Path, content: bytes, name: str = "toy.txt") -> None:
    (tmp_path / "mirror" / "toy").mkdir(parents=True, exist_ok=True)
    (tmp_path / "mirror" / "toy" / name).write_bytes(content)


def is_mapped(array: np.ndarray) -> bool:
    while array is not None:
        if isinstance(array, np.memmap):
            return True
        array = array.base
    return False


# ------------------------------------------------------------------------------------------ arrays


def test_dense_arrays_are_mapped_into_memory(sources):
    dataset = prepare(entry_of(), sources)
    assert isinstance(dataset.X, np.memmap)
    assert dataset.X.dtype == np.float64
    assert dataset.X.flags.c_contiguous
    assert not dataset.X.flags.writeable
    assert dataset.y.dtype == np.int8
    np.testing.assert_array_equal(dataset.X, [[0.5, 1], [-1, 0], [0, -0.25], [0.125, 1]])
    assert dataset.y.tolist() == [1, -1, -1, 1]
    assert dataset.name == "toy"


def test_sparse_arrays_are_mapped_into_memory(sources, tmp_path):
    put(tmp_path, SPARSE)
    X = prepare(entry_of(**SPARSE_ENTRY), sources).X
    assert isinstance(X, csr_matrix)
    assert X.shape == (31, 10)
    assert (X.data.dtype, X.indices.dtype, X.indptr.dtype) == (np.float64, np.int32, np.int32)
    assert all(map(is_mapped, (X.data, X.indices, X.indptr)))
    assert X[[30]].nnz == 0  # a row with only a label is a row
    np.testing.assert_array_equal(X[:30].toarray(), np.tile(np.eye(10), (3, 1)))


def test_manifest_is_plain_json_without_local_paths(sources, tmp_path):
    manifest = prepare(entry_of(), sources).manifest
    assert str(tmp_path) not in json.dumps(manifest)
    del manifest["files"]
    assert manifest == {
        "n_samples": 4,
        "n_features": 2,
        "n_positive": 2,
        "density": 0.75,
        "value_range": [-1.0, 1.0],
        "binary": {"positive": ["1"]},
        "scaling": "none",
        "storage": "dense",
    }


def test_several_files_are_concatenated_in_order(sources, tmp_path):
    put(tmp_path, b"2 1:1 2:1", "toy.t")  # no final newline
    put(tmp_path, b"1 1:-1 2:.5\n", "toy.u")
    entry = entry_of(files=[{"name": name} for name in ("toy.t", "toy.txt", "toy.u")], n_samples=6, n_positive=3)
    dataset = prepare(entry, sources)
    assert dataset.X[:, 0].tolist() == [1, 0.5, -1, 0, 0.125, -1]
    assert dataset.y.tolist() == [-1, 1, -1, -1, 1, 1]
    assert [file["name"] for file in dataset.manifest["files"]] == ["toy.t", "toy.txt", "toy.u"]


def test_fingerprint_depends_on_content_only(sources, tmp_path):
    first = prepare(entry_of(), sources).fingerprint
    assert re.fullmatch("[0-9a-f]{64}", first)
    elsewhere = Sources(tmp_path / "elsewhere", sources.mirrors)
    assert prepare(entry_of(title="Another title"), elsewhere).fingerprint == first
    put(tmp_path, DENSE.replace(b"0.125", b"0.126"))
    assert prepare(entry_of(), Sources(tmp_path / "third", sources.mirrors)).fingerprint != first
    put(tmp_path, DENSE.replace(b"2 1:-1", b"1 1:-1"))
    assert prepare(entry_of(n_positive=3), Sources(tmp_path / "4th", sources.mirrors)).fingerprint != first


def test_quickstart_datasets_come_from_scikit_learn(tmp_path):
    catalogue, sources = load_catalogue(), Sources(tmp_path, offline=True)
    for name in ("breast_cancer", "wine", "digits"):
        assert availability(catalogue[name], sources) == "cached"
        dataset = prepare(catalogue[name], sources)
        assert dataset.manifest["value_range"] == [-1.0, 1.0]
        assert dataset.manifest["files"][0]["source"] == "scikit-learn"
        assert availability(catalogue[name], sources) == "prepared"


def test_scikit_learn_source_takes_class_names_and_numbers(tmp_path):
    counts = {"n_samples": 569, "n_features": 30, "scaling": "minmax", "n_positive": 212}
    entries = {
        f"toy{key}": entry_of(
            name=f"toy{key}",
            format=None,
            files=[],
            source={"sklearn": "load_breast_cancer"},
            positive=[label],
            **counts,
        )
        for key, label in enumerate(("malignant", 0))
    }
    named, numbered = (prepare(entry, Sources(tmp_path, offline=True)) for entry in entries.values())
    assert named.fingerprint == numbered.fingerprint
    assert (named.manifest["binary"], numbered.manifest["binary"]) == ({"positive": ["malignant"]}, {"positive": ["0"]})
    wrong = entry_of(format=None, files=[], source={"sklearn": "load_iris"}, positive=["rose"], n_features=4)
    with pytest.raises(
        DataError, match="expected the positive labels rose, got the labels setosa, versicolor, virginica"
    ):
        prepare(wrong, Sources(tmp_path, offline=True))


# ------------------------------------------------------------------------------------------ checks


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"n_samples": 5}, "toy: expected 5 rows, got 4"),
        ({"n_features": 3}, "expected 3 features, got 2"),
        ({"n_positive": 3}, "expected 3 positive rows, got 2"),
        ({"n_samples": 5, "n_positive": 3}, "expected 5 rows, got 4; expected 3 positive rows, got 2"),
        ({"n_features": 1}, "toy.txt:1: expected indices up to 1, got 2"),
        ({"range": (0, 1)}, "expected values within [0.0, 1.0], got [-1.0, 1.0]"),
        ({"positive": [1, 4]}, "expected the positive labels 1, 4, got the labels 1, 2, 3; 4 does not occur"),
        ({"positive": [1, 2, 3]}, "expected two classes, got one: labels 1, 2, 3, positive 1, 2, 3"),
    ],
)
def test_data_that_differ_from_entry_are_refused(sources, changes, problem):
    with pytest.raises(DataError) as caught:
        prepare(entry_of(**changes), sources)
    assert problem in caught.value.message
    assert "toy.txt (from mirror)" in caught.value.message
    assert "opauc-bench data fetch toy --fresh" in caught.value.hint
    assert find_prepared(entry_of(**changes), sources) is None
    assert prepare(entry_of(), sources).manifest["n_samples"] == 4


def test_one_class_is_refused(sources, tmp_path):
    put(tmp_path, b"1 2:1\n1 2:2\n")
    with pytest.raises(DataError, match="expected two classes, got one: labels 1, positive 1"):
        prepare(entry_of(), sources)


def test_file_of_blank_lines_is_refused(sources, tmp_path):
    put(tmp_path, b"\n \n\n")
    for entry in (entry_of(), entry_of(n_features=None)):
        with pytest.raises(DataError, match="expected rows of data, got none"):
            prepare(entry, sources)


@pytest.mark.parametrize(
    ("changes", "text", "message"),
    [
        ({}, b"1\n-1\n1\n-1\n", "expected rows with features, got none"),
        ({"format": "csv", "label_column": 1}, b"1\n-1\n1\n-1\n", "toy.txt:1: expected more than 1 column, got 1"),
        ({"format": "csv"}, b"\n1;2;1\n3;4;-1\n", "toy.txt:2: .* semicolons are not supported"),
        ({"format": "csv"}, b"1\t2\t1\n", "toy.txt:1: .* use 'format: table'"),
        ({"format": "table"}, b"1,2,1\n", "toy.txt:1: .* use 'format: csv'"),
    ],
)
def test_rows_without_features_are_refused(sources, tmp_path, changes, text, message):
    put(tmp_path, text)
    with pytest.raises(DataError, match=message):
        prepare(entry_of(n_features=None, **changes), sources)


@pytest.mark.parametrize("last", [3, 20_000])
@pytest.mark.parametrize("given", [False, True])
def test_the_largest_index_counts_also_if_its_values_are_zero(sources, tmp_path, last, given):
    put(tmp_path, b"".join(b"%d 1:0.5 2:%d %d:0\n" % (row % 3, row % 2, last) for row in range(12)))
    rows = {"n_samples": 12, "n_positive": 4, "scaling": "maxabs", "n_features": last if given else None}
    assert prepare(entry_of(**rows), sources).X.shape == (12, last)


def test_data_that_do_not_fit_in_memory_are_an_error_of_the_dataset(sources, monkeypatch):
    def fail(*_):
        raise MemoryError("Unable to allocate 112. GiB")

    monkeypatch.setattr("opauc_bench.data.build.arrange", fail)
    with pytest.raises(DataError, match=r"toy: not enough memory to prepare it \(Unable to allocate 112\. GiB\)"):
        prepare(entry_of(), sources)


# ------------------------------------------------------------------------------------------ labels, scaling


def test_text_labels_become_binary(sources):
    form = entry_of(format="csv", positive=["g"])
    assert binary_labels(np.array(["h", "g", "i"]), form)[0].tolist() == [-1, 1, -1]


def test_numeric_labels_are_compared_as_numbers(sources):
    assert binary_labels(np.array([1.0, -1.0]), entry_of(format="csv", positive=[1]))[0].tolist() == [1, -1]


def test_random_half_is_seeded_balanced_and_the_same_everywhere():
    labels = np.repeat(np.arange(10.0), 3)
    entries = [entry_of(positive=None, random_half={"seed": seed}) for seed in range(20)]
    halves = [tuple(binary_labels(labels, entry)[0]) for entry in entries]
    assert all(sum(half) == 0 for half in halves)
    assert len(set(halves)) > 15
    first = binary_labels(np.arange(10.0), entry_of(positive=None, random_half={"seed": 0}))[0]
    # sorted(sorted(range(10), key=lambda k: sha256(f"0:{k}".encode()).digest())[:5])
    assert np.flatnonzero(first == 1).tolist() == [3, 4, 7, 8, 9]


@settings(max_examples=60, deadline=None)
@given(
    X=hnp.arrays(
        np.float64,
        st.tuples(st.integers(1, 12), st.integers(1, 4)),
        elements=st.floats(-1e6, 1e6) | st.just(0),
    ),
    cut=st.integers(0, 12),
    sparse=st.booleans(),
)
def test_minmax_reaches_both_ends_and_keeps_the_order(X, cut, sparse):
    blocks = [block for block in (X[:cut].copy(), X[cut:].copy()) if len(block)]
    if sparse:
        blocks[0] = csr_matrix(blocks[0])
    minmax(blocks)
    scaled = np.concatenate(blocks)
    assert scaled.shape == X.shape
    for before, after in zip(X.T, scaled.T):
        if before.min() == before.max():
            assert (after == 0).all()
        else:
            assert (after.min(), after.max()) == (-1, 1)
            order = np.argsort(before, kind="stable")
            assert (np.diff(after[order]) >= 0).all()


def test_minmax_refuses_overflowing_range():
    with pytest.raises(DataError, match=r"expected feature 2 to have a finite range, got -1e\+308 to 1e\+308"):
        minmax([np.array([[0.0, -1e308], [1.0, 1e308]])])


def test_minmax_makes_sparse_data_dense(sources, tmp_path):
    put(tmp_path, SPARSE)
    dataset = prepare(entry_of(**(SPARSE_ENTRY | {"scaling": "minmax", "range": (-1, 1)})), sources)
    assert dataset.manifest["density"] == 1.0
    assert dataset.X[0].tolist() == [1] + [-1] * 9


def test_read_original_keeps_the_classes(sources):
    X, labels = read_original(entry_of(scaling="minmax"), sources)
    assert labels.tolist() == [1, 2, 3, 1]
    np.testing.assert_allclose(X[:, 0], [1, -1, 1 / 3, 0.5])


# ------------------------------------------------------------------------------------------ the prepared cache


def test_prepared_data_needs_neither_files_nor_sources(sources, tmp_path):
    first = prepare(entry_of(), sources)
    (tmp_path / "mirror" / "toy" / "toy.txt").unlink()
    (tmp_path / "cache" / "toy" / "raw" / "toy.txt").unlink()
    said = []
    again = prepare(entry_of(), Sources(sources.cache, offline=True), said.append)
    assert again.fingerprint == first.fingerprint
    assert again.manifest == first.manifest
    assert said == []


@pytest.mark.parametrize(
    "changes",
    [{"positive": [2], "n_positive": 1}, {"scaling": "minmax"}, {"n_positive": None}, {"range": (-2, 2)}],
)
def test_changed_entry_is_prepared_again(sources, changes):
    first = prepare(entry_of(), sources)
    assert find_prepared(entry_of(**changes), sources) is None
    said = []
    second = prepare(entry_of(**changes), sources, said.append)
    assert said == ["toy: reading toy.txt"]
    assert second.folder != first.folder
    assert open_prepared(first.folder, first.fingerprint).manifest == first.manifest


@pytest.mark.parametrize("changes", [{"title": "Other"}, {"origin": "Elsewhere"}, {"licence": "Free"}])
def test_titles_do_not_change_key(sources, changes):
    assert prepare(entry_of(), sources).folder == find_prepared(entry_of(**changes), sources).folder


def test_open_prepared_maps_same_arrays(sources):
    dataset = prepare(entry_of(), sources)
    again = open_prepared(dataset.folder, dataset.fingerprint)
    np.testing.assert_array_equal(again.X, dataset.X)
    np.testing.assert_array_equal(again.y, dataset.y)
    with pytest.raises(DataError, match=f"expected data with fingerprint {'0' * 64}, got {dataset.fingerprint}"):
        open_prepared(dataset.folder, "0" * 64)


@pytest.mark.parametrize(
    ("file", "content", "problem"),
    [
        ("X.npy", b"short", r"X\.npy: expected 192 bytes, got 5"),
        ("y.npy", None, r"y\.npy: expected an array, it cannot be read"),
        ("X.npy", bytes(192), r"X\.npy: expected an array, it cannot be read"),
        ("meta.json", b"{}", r"meta\.json cannot be read"),
        ("meta.json", b"\xff", r"meta\.json cannot be read"),
        ("meta.json", None, r"meta\.json cannot be read"),
    ],
)
def test_damaged_arrays_are_refused(sources, file, content, problem):
    dataset = prepare(entry_of(), sources)
    path = dataset.folder / file
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError, match=problem) as caught:
        open_prepared(dataset.folder, dataset.fingerprint)
    assert caught.value.hint == "opauc-bench data fetch toy --fresh"
    assert not all(check.ok for check in verify(entry_of(), sources))
    assert find_prepared(entry_of(), sources) is None
    repaired = prepare(entry_of(), sources)
    assert repaired.fingerprint == dataset.fingerprint
    assert all(check.ok for check in verify(entry_of(), sources))


@pytest.mark.parametrize(("content", "changes", "array"), [(DENSE, {}, "X"), (SPARSE, SPARSE_ENTRY, "indices")])
def test_verify_detects_flipped_bit(sources, tmp_path, content, changes, array):
    put(tmp_path, content)
    entry = entry_of(**changes)
    dataset = prepare(entry, sources)
    assert [check.item for check in verify(entry, sources)] == ["toy.txt", "arrays"]
    assert all(check.ok for check in verify(entry, sources))
    path = dataset.folder / f"{array}.npy"
    damaged = bytearray(path.read_bytes())
    damaged[-1] ^= 1
    path.write_bytes(damaged)
    (bad,) = [check for check in verify(entry, sources) if not check.ok]
    assert bad.item == "arrays"
    assert dataset.fingerprint in bad.detail
    assert bad.hint == f"opauc-bench data fetch toy --fresh --mirror {sources.mirrors[0]}"


@pytest.mark.parametrize(
    ("content", "changes", "array"),
    [(DENSE, {}, "X"), (DENSE, {}, "y"), (SPARSE, SPARSE_ENTRY, "indices"), (SPARSE, SPARSE_ENTRY, "data")],
)
def test_changed_arrays_are_prepared_again(sources, tmp_path, content, changes, array):
    put(tmp_path, content)
    entry, said = entry_of(**changes), []
    dataset = prepare(entry, sources)
    good = flip(dataset.folder / f"{array}.npy")
    assert prepare(entry, sources, said.append).folder == dataset.folder, "sizes are unchanged"
    assert said == []
    repaired = prepare(entry, sources, said.append, hashed=True)
    assert said[0] == f"note: toy: the prepared arrays in {dataset.folder} have changed on disk; preparing them again"
    assert repaired.fingerprint == dataset.fingerprint
    assert (repaired.folder / f"{array}.npy").read_bytes() == good
    said.clear()
    prepare(entry, sources, said.append, hashed=True)
    assert said == []


def flip(path: Path, position: int = -1) -> bytes:
    """Change one bit of a file; return its previous content."""
    good = path.read_bytes()
    damaged = bytearray(good)
    damaged[position] ^= 1
    path.write_bytes(damaged)
    return good


def test_changed_arrays_without_source_are_reported(sources, tmp_path):
    dataset = prepare(entry_of(), sources)
    flip(dataset.folder / "X.npy")
    shutil.rmtree(tmp_path / "mirror")
    shutil.rmtree(tmp_path / "cache/toy/raw")
    with pytest.raises(DataError, match="have changed on disk, and cannot be prepared again:\\ntoy: "):
        prepare(entry_of(), sources, hashed=True)


def test_hashing_of_large_arrays_is_announced(sources, monkeypatch):
    said = []
    prepare(entry_of(), sources)
    monkeypatch.setattr("opauc_bench.data.store._LARGE", 10)
    prepare(entry_of(), sources, said.append, hashed=True)
    assert said == ["toy: checking 0 GB of arrays"]


def test_waiting_process_finds_repaired_arrays(sources):
    dataset, said = prepare(entry_of(), sources), []
    good = flip(dataset.folder / "X.npy")

    def repair(text):
        said.append(text)
        (dataset.folder / "X.npy").write_bytes(good)
        lock.close()

    with (dataset.folder.parent.parent / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        prepare(entry_of(), sources, repair, hashed=True)
    assert said == ["toy: waiting for another process that prepares it"]


@pytest.mark.faults
@pytest.mark.parametrize(("content", "changes"), [(DENSE, {}), (SPARSE, SPARSE_ENTRY)])
def test_flipped_bit_in_meta_or_header_is_detected_or_harmless(sources, tmp_path, content, changes):
    put(tmp_path, content)
    entry = entry_of(**changes)
    dataset = prepare(entry, sources)
    rows, labels = csr_matrix(dataset.X).toarray(), np.array(dataset.y)
    for path in sorted(dataset.folder.iterdir()):
        good = path.read_bytes()
        for place in range(len(good) if path.suffix == ".json" else 128):
            for bit in (1, 2, 16):
                path.write_bytes(good[:place] + bytes([good[place] ^ bit]) + good[place + 1 :])
                try:
                    found = open_prepared(dataset.folder, dataset.fingerprint)
                except DataError:
                    continue
                np.testing.assert_array_equal(csr_matrix(found.X).toarray(), rows)
                np.testing.assert_array_equal(found.y, labels)
                assert found.manifest == dataset.manifest
                assert found.X.dtype == np.float64
        path.write_bytes(good)


@pytest.mark.parametrize("array", ["X", "y"])
def test_arrays_are_never_unpickled(sources, array):
    class Trap:
        def __reduce__(self):
            return exec, ("raise SystemExit('a pickle was run')",)

    dataset = prepare(entry_of(), sources)
    path, meta = dataset.folder / f"{array}.npy", dataset.folder / "meta.json"
    for content in (pickled(np.array([Trap()] * 9, dtype=object)), pickle.dumps(Trap())):
        path.write_bytes(content)
        described = json.loads(meta.read_text())
        described["files"][path.name] = len(content)
        described["seal"] = _seal(described)
        meta.write_text(json.dumps(described))
        with pytest.raises(DataError, match=f"{array}.npy: expected an array, it cannot be read"):
            open_prepared(dataset.folder, dataset.fingerprint)


def pickled(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def test_verify_of_empty_cache_is_empty(sources):
    assert verify(entry_of(), sources) == []


def test_download_size_sums_known_sizes(tmp_path):
    sources = Sources(tmp_path)
    file = {"name": "toy.txt", "urls": ["https://example.org/toy.txt"]}
    assert download_size(entry_of(files=[file | {"bytes": 70}]), sources) == 70
    assert download_size(entry_of(files=[file]), sources) is None
    assert download_size(entry_of(files=[file]), Sources(tmp_path, offline=True)) == 0


# ------------------------------------------------------------------------------------------ alternatives


LOSS = {"format": "csv_tokens", "tokens": ["b", "x"], "positive": ["loss"], "files": [{"name": "game.csv"}]}


def two_forms() -> DatasetEntry:
    other = {"format": "svmlight", "files": [{"name": "game"}], "positive": [-1]}
    return entry_of(**LOSS, alternatives=[other], n_samples=3, n_positive=1, range=(0, 1))


def test_local_form_is_used(sources, tmp_path):
    put(tmp_path, b"-1 1:1\n0 2:1\n1 2:1\n", "game")
    assert availability(two_forms(), sources) == "mirror"
    from_second = prepare(two_forms(), sources)
    put(tmp_path, b"b,loss\nx,draw\nx,win\n", "game.csv")
    assert find_prepared(two_forms(), sources).fingerprint == from_second.fingerprint
    from_first = prepare(two_forms(), Sources(tmp_path / "new", sources.mirrors))
    assert from_first.manifest["files"][0]["name"] == "game.csv"
    assert from_first.fingerprint == from_second.fingerprint
    np.testing.assert_array_equal(from_first.X, [[1, 0], [0, 1], [0, 1]])


def test_error_lists_all_unavailable_forms(sources):
    with pytest.raises(DataError) as caught:
        prepare(two_forms(), sources)
    assert "game.csv: unavailable" in caught.value.message
    assert "toy: game: unavailable" in caught.value.message


# ------------------------------------------------------------------------------------------ several processes


PROGRAM = """
import sys
from pathlib import Path
from opauc_bench.data import Sources, load_catalogue, prepare
entry = load_catalogue(Path(sys.argv[1]))["toy"]
dataset = prepare(entry, Sources(Path(sys.argv[2]), (sys.argv[3],), offline=True), print)
print("done", dataset.fingerprint, dataset.X.shape, flush=True)
"""


@pytest.mark.faults
def test_concurrent_processes_prepare_once(sources, tmp_path):
    rows = 20_000
    put(tmp_path, b"".join(b"%d 1:%d 2:1\n" % (row % 2, row) for row in range(rows)))
    catalogue = tmp_path / "own.yaml"
    catalogue.write_text(
        "datasets: {toy: {title: Toy, format: svmlight, files: [{name: toy.txt}], positive: [1], "
        f"n_samples: {rows}, n_features: 2, n_positive: {rows // 2}, scaling: minmax}}}}\n"
    )
    command = [sys.executable, "-c", PROGRAM, str(catalogue), str(sources.cache), *sources.mirrors]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    said = [process.communicate(timeout=60)[0] for process in running]
    assert [process.returncode for process in running] == [0, 0, 0]
    assert sum("reading" in text for text in said) == 1
    assert len({text.splitlines()[-1] for text in said}) == 1
    assert len(list((sources.cache / "toy" / "prepared").iterdir())) == 1


def test_waiting_process_says_so_and_uses_finished_arrays(sources):
    first = prepare(entry_of(), sources)
    hidden = first.folder.rename(first.folder.with_name(".hidden"))
    said, found = [], []
    with (sources.cache / "toy" / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        waiting = threading.Event()

        def listen(text: str) -> None:
            said.append(text)
            waiting.set()

        thread = threading.Thread(target=lambda: found.append(prepare(entry_of(), sources, listen)))
        thread.start()
        assert waiting.wait(10)
        hidden.rename(first.folder)
    thread.join(10)
    assert said == ["toy: waiting for another process that prepares it"]
    assert found[0].fingerprint == first.fingerprint


# ------------------------------------------------------------------------------------------ the catalogue

TABLE1 = {  # AIJ 2016, Table 1
    "diabetes": (768, 8),
    "fourclass": (862, 2),
    "german": (1000, 24),
    "splice": (3175, 60),
    "usps": (9298, 256),
    "letter": (15000, 16),
    "magic04": (19020, 10),
    "a9a": (32561, 123),
    "w8a": (49749, 300),
    "kddcup04": (50000, 65),
    "mnist": (60000, 780),
    "connect-4": (67557, 126),
    "acoustic": (78823, 50),
    "ijcnn1": (141691, 22),
    "epsilon": (400000, 2000),
    "covtype": (581012, 54),
}


def test_catalogue_has_table_1():
    catalogue = load_catalogue()
    assert {name: (catalogue[name].n_samples, catalogue[name].n_features) for name in TABLE1} == TABLE1
    assert {name: entry.name for name, entry in catalogue.items()} == {name: name for name in catalogue}
    for name in TABLE1:
        forms = catalogue[name].forms
        assert any(all(file.urls for file in form.files) for form in forms), f"{name} has no official address"


def test_multi_class_halves_have_equal_number_of_classes():
    catalogue = load_catalogue()
    assert {name: len(catalogue[name].positive) for name in ("usps", "mnist", "letter")} == {
        "usps": 5,
        "mnist": 5,
        "letter": 13,
    }
    assert catalogue["mnist"].alternatives[0].positive == catalogue["mnist"].positive


def own_catalogue(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "own.yaml"
    path.write_text(text)
    return path


OWN = """\
datasets:
  mine:
    title: Mine
    format: csv
    files: [{name: mine.csv}]
    positive: [yes]
    n_samples: 4
    n_features: 2
    scaling: minmax
"""


def test_extra_catalogue_is_added(tmp_path):
    catalogue = load_catalogue(own_catalogue(tmp_path, OWN))
    assert list(catalogue)[-1] == "mine"
    assert catalogue["mine"].positive == ("yes",)
    assert "german" in catalogue


def test_path_is_relative_to_folder_of_catalogue(tmp_path, monkeypatch):
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "my own.csv").write_text("0,1,yes\n1,0,no\n1,1,yes\n0,0,no\n")
    text = OWN.replace("{name: mine.csv}", "{name: mine.csv, urls: ['rows/my own.csv']}")
    text += "  again:\n    base: mine\n    title: Again\n    scaling: none\n"
    own_catalogue(tmp_path, text)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    catalogue = load_catalogue(Path("../own.yaml"))
    sources = Sources(cache=tmp_path / "cache", offline=True)
    for name, least in (("mine", -1.0), ("again", 0.0)):
        assert availability(catalogue[name], sources) in ("local", "cached")
        assert prepare(catalogue[name], sources).X.min() == least


def test_path_may_start_with_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    text = OWN.replace("{name: mine.csv}", "{name: mine.csv, urls: [~/a.csv]}")
    (url,) = load_catalogue(own_catalogue(tmp_path, text))["mine"].files[0].urls
    assert url == (tmp_path / "home" / "a.csv").as_uri()


def test_missing_path_gives_hint_without_mirrors(tmp_path):
    path = own_catalogue(tmp_path, OWN.replace("{name: mine.csv}", "{name: mine.csv, urls: [example.org/mine.csv]}"))
    with pytest.raises(DataError) as caught:
        prepare(load_catalogue(path)["mine"], Sources(cache=tmp_path / "cache"))
    assert f"- {tmp_path / 'example.org' / 'mine.csv'}: no such file" in caught.value.message
    assert caught.value.hint == f"put the file there, or correct its address in {path}"


def test_extra_entry_with_packaged_name_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="already has german"):
        load_catalogue(own_catalogue(tmp_path, OWN.replace("mine:", "german:")))


@pytest.mark.parametrize(
    ("before", "after", "where", "problem"),
    [
        ("scaling:", "scalling:", "9:5", "did you mean 'scaling'"),
        ("scaling: minmax", "scaling: standard", "9:14", "'minmax', 'maxabs', 'unit_rows' or 'none'"),
        ("n_samples: 4", "n_samples: four", "7:16", "a whole number"),
        ("n_samples: 4", "n_samples: 0", "7:16", "more than 0"),
        ("name: mine.csv", "name: ../mine.csv", "5:20", "not a plain file name"),
        ("name: mine.csv", "name: /mine.csv", "5:20", "not a plain file name"),
        ("name: mine.csv", "name: .mine.csv", "5:20", "not a plain file name"),
        ("name: mine.csv", 'name: "a\\\\b"', "5:20", "not a plain file name"),
        ("name: mine.csv", "name: a, sha256: abc", "5:31", "text that matches"),
        ("name: mine.csv", "name: a, confirmed: true", "5:34", "without sha256"),
        ("name: mine.csv", "name: a, urls: ['ftp://x']", "5:30", "or the path of a file, got 'ftp://x'"),
        ("name: mine.csv", "name: a, urls: ['file:a.csv']", "5:30", "or the path of a file, got 'file:a.csv'"),
        ("name: mine.csv", "name: a, urls: ['']", "5:30", "or the path of a file, got ''"),
        ("name: mine.csv", "name: a, urls: ['file://a.csv']", "5:30", "relative paths have no file://"),
        ("{name: mine.csv}", "{name: a}, {name: a}", "5:31", "'a' is listed twice"),
        ("  mine:", "  ../mine:", "2:3", "letters, digits"),
        ("format: csv", "format: svmlight", "6:15", "labels of this format are numbers"),
        ("format: csv", "format: mnist_idx", "5:12", "two files"),
        ("format: csv", "format: csv_tokens", "3:5", "tokens"),
        (
            "positive: [yes]",
            "drop_columns: []",
            "3:5",
            "expected one of 'positive', 'random_half'",
        ),
        ("positive: [yes]", "positive: []", "6:15", "at least 1 item"),
        ("positive: [yes]", "positive: [true]", "6:16", "text, got true; text like this needs quotes"),
        ("title: Mine", "title: Mine\n    name: mine", "4:5", "the key above is the name"),
        ("format: csv", "source: {sklearn: load_wine}", "4:13", "either 'source', or"),
        ("format: csv", "label_column: 0", "4:19", "expected a column from 1"),
    ],
)
def test_catalogue_error_has_position(tmp_path, before, after, where, problem):
    assert before in OWN
    path = own_catalogue(tmp_path, OWN.replace(before, after))
    with pytest.raises(ConfigError) as caught:
        load_catalogue(path)
    assert problem in caught.value.message
    assert f"{path}:{where}:" in caught.value.message


def test_packaged_catalogue_exists():
    assert packaged_catalogue().name == "catalogue.yaml"
    assert packaged_catalogue().exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="it stands for a full disk")
def test_a_full_disk_is_an_error_not_the_end_of_the_process(tmp_path):
    (tmp_path / "X.npy").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left"):
        _write_dense(tmp_path, (1000, 20), iter([np.ones((1000, 20))]))


@pytest.mark.parametrize("form", [np.asarray, csr_matrix])
def test_maxabs_divides_by_the_largest_absolute_value(form):
    blocks = [form(np.array([[-4.0, 1.0]])), form(np.array([[2.0, 0.0]]))]
    scale(blocks, "maxabs")
    dense = [block if isinstance(block, np.ndarray) else block.toarray() for block in blocks]
    assert [block.tolist() for block in dense] == [[[-1.0, 1.0]], [[0.5, 0.0]]]


def test_maxabs_of_wide_sparse_rows_divides_by_the_largest_absolute_value(tmp_path):
    (tmp_path / "t.svm").write_text("1 1:-4 20000:2\n-1 1:2 5:-3\n")
    entry = {"source": {"svmlight": str(tmp_path / "t.svm")}, "scaling": "maxabs"}
    data = prepare(load_catalogue({"mine": entry})["mine"], Sources(tmp_path / "cache", offline=True))
    assert data.X[:, [0, 4, 19999]].toarray().tolist() == [[-1.0, 0.0, 1.0], [0.5, -1.0, 0.0]]
