"""svmlight text of any length: chunks in constant memory, and errors with file and line."""

import bz2
import gzip
import io
import lzma
import os
import re
import threading
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix, vstack
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from opauc_bench.data import stream_svmlight
from opauc_bench.data.content import LineProblem
from opauc_bench.data.svmlight import _strict, parse_svmlight
from opauc_bench.errors import DataError

ROWS = b"".join(b"%d %d:%d 90:.5\n" % (row % 2, row % 89 + 1, row + 1) for row in range(10_000))
COMPRESS = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


def joined(chunks) -> tuple[csr_matrix, np.ndarray]:
    chunks = list(chunks)
    return vstack([chunk.X for chunk in chunks], format="csr"), np.concatenate([chunk.labels for chunk in chunks])


def assert_equal(came: csr_matrix, due: csr_matrix):
    assert came.shape == due.shape
    for array in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(came, array), getattr(due, array))


# ------------------------------------------------------------------------------------------ chunks


@pytest.mark.parametrize("suffix", COMPRESS)
def test_chunks_equal_whole_file_in_each_compression(tmp_path, monkeypatch, suffix):
    monkeypatch.setattr("opauc_bench.data.content.CHUNK", 5_000)
    path = tmp_path / f"rows.svm{suffix}"
    path.write_bytes(COMPRESS[suffix](ROWS))
    chunks = list(stream_svmlight(path, chunk_rows=300, n_features=100))
    assert max(chunk.X.shape[0] for chunk in chunks) == 300
    due, labels = load_svmlight_file(io.BytesIO(ROWS), n_features=100, zero_based=False)
    X, y = joined(chunks)
    assert_equal(X, due)
    np.testing.assert_array_equal(y, labels)
    starts = np.cumsum([0] + [chunk.X.shape[0] for chunk in chunks[:-1]]) + 1
    assert [chunk.first_line for chunk in chunks] == starts.tolist()


def test_open_file_and_pipe_are_read_and_left_open():
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as source, os.fdopen(writing, "wb") as sink:
        writer = threading.Thread(target=lambda: (sink.write(gzip.compress(ROWS)), sink.close()))
        writer.start()
        X, _ = joined(stream_svmlight(source))
        writer.join()
        assert not source.closed
    assert X.shape == (10_000, 90)
    assert joined(stream_svmlight(io.BytesIO(ROWS)))[0].shape == (10_000, 90)


def test_chunks_without_width_never_become_narrower():
    chunks = list(stream_svmlight(io.BytesIO(b"1 2:1\n-1\n1 7:1\n-1 1:1\n"), chunk_rows=1))
    assert [chunk.X.shape for chunk in chunks] == [(1, 2), (1, 2), (1, 7), (1, 7)]


def test_first_line_counts_lines_without_rows():
    text = b"# a header\n\n1 1:1\n\n\n# two rows\n-1 1:2\n\n"
    chunks = list(stream_svmlight(io.BytesIO(text), chunk_rows=2))
    assert [(chunk.first_line, chunk.labels.tolist()) for chunk in chunks] == [(3, [1]), (7, [-1])]


@pytest.mark.parametrize("text", [b"", b"\n\n", b"# nothing\n"])
def test_empty_input_gives_no_chunks(text):
    assert list(stream_svmlight(io.BytesIO(text))) == []


@pytest.mark.parametrize(
    ("text", "zero_based", "columns"),
    [
        (b"1 1:1\n1 3:1\n", False, [0, 2]),
        (b"1 1:1\n1 3:1\n", True, [1, 3]),
        (b"1 1:1\n1 3:1\n", "auto", [0, 2]),
        (b"1 1:1\n1 0:1\n", "auto", [1, 0]),
        (b"1\n1\n", "auto", []),
    ],
)
def test_zero_based_sets_first_index(text, zero_based, columns):
    X, _ = joined(stream_svmlight(io.BytesIO(text), zero_based=zero_based))
    assert X.indices.tolist() == columns


def test_memory_does_not_depend_on_file_size(tmp_path):
    def peak(copies: int) -> int:
        path = tmp_path / "rows.svm"
        path.write_bytes(ROWS * copies)
        tracemalloc.start()
        try:
            for _ in stream_svmlight(path, n_features=90):
                pass
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(1)  # compiles
    assert peak(400) < 1.1 * peak(40)


# ------------------------------------------------------------------------------------------ errors


def test_error_names_line_of_file(tmp_path, monkeypatch):
    monkeypatch.setattr("opauc_bench.data.content.CHUNK", 1_000)
    lines = ROWS.splitlines()
    lines[7_654] = b"1 5:x"
    path = tmp_path / "rows.svm"
    path.write_bytes(b"\n".join(lines))
    with pytest.raises(DataError, match=rf"^{re.escape(str(path))}:7655: expected the value of feature 5 to be a num"):
        joined(stream_svmlight(path, chunk_rows=17))


@pytest.mark.parametrize(
    ("text", "options", "problem"),
    [
        (b"1 1:1\n1 0:1\n", {}, ":2: expected indices from 1, got '0:1'; is the file zero-based?"),
        (b"1 0:1\n1 3:1\n", {"n_features": 3, "zero_based": True}, ":2: expected indices up to 2, got 3"),
        (b"1 0:1\n1 3:1\n", {"n_features": 3, "zero_based": "auto"}, ":2: expected indices up to 2, got 3"),
        (b"1 1:1\n1 4:1\n", {"n_features": 3}, ":2: expected indices up to 3, got 4"),
        (b"1 3000000000:1\n", {}, ":1: expected indices up to 2147483647, got 3000000000"),
        (b"1 " + b"9" * 9000 + b":1\n", {}, ":1: expected indices up to 2147483647"),
        (gzip.compress(ROWS)[:-50], {}, "<stream>: the compressed file is truncated or damaged"),
        (bz2.compress(ROWS)[:-50], {}, "<stream>: the compressed file is truncated or damaged"),
        (bz2.compress(ROWS)[:200] + b"x" * 200, {}, "<stream>: the compressed file is truncated or damaged"),
    ],
)
def test_invalid_text_is_refused(text, options, problem):
    with pytest.raises(DataError, match=re.escape(problem)):
        joined(stream_svmlight(io.BytesIO(text), **options))


def test_auto_index_base_refuses_zero_after_first_block(monkeypatch):
    monkeypatch.setattr("opauc_bench.data.content.CHUNK", 6)
    with pytest.raises(DataError, match=r":3: expected indices from 1, got '0:1'"):
        joined(stream_svmlight(io.BytesIO(b"1 1:1\n1 2:1\n1 0:1\n"), zero_based="auto"))


def test_line_without_end_does_not_fill_memory(monkeypatch):
    monkeypatch.setattr("opauc_bench.data.content._LONGEST_LINE", 5_000_000)
    with pytest.raises(DataError, match=r"<stream>:1: expected a line end within 5,000,000 bytes"):
        joined(stream_svmlight(io.BytesIO(b"1" * 20_000_000)))


def test_missing_file_is_reported(tmp_path):
    with pytest.raises(DataError, match=r"none.svm: cannot be read \(No such file or directory\)"):
        joined(stream_svmlight(tmp_path / "none.svm"))


def test_invalid_arguments_are_refused():
    with pytest.raises(ValueError, match="at least 1"):
        stream_svmlight(io.BytesIO(b""), chunk_rows=0)
    with pytest.raises(TypeError, match="binary mode"):
        joined(stream_svmlight(io.StringIO("1 1:1\n")))


# ------------------------------------------------------------------------------------------ the compiled reader

decimals = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.tuples(st.integers(-(10**20), 10**20), st.integers(-30, 30)).map(lambda pair: f"{pair[0]}e{pair[1]}"),
    st.from_regex(r"\A[+-]?([0-9]{1,22}\.?[0-9]{0,22}|\.[0-9]{1,22})([eE][+-]?[0-9]{1,2})?\Z"),
)


@given(st.lists(decimals, min_size=1, max_size=20))
def test_decimals_are_rounded_as_python_rounds_them(texts):
    lines = b"\n".join(f"{text} 2:{text}".encode() for text in texts)
    X, labels = parse_svmlight(lines, 1, None)
    due = [float(text) for text in texts]
    assert X.data.tolist() == due
    assert labels.tolist() == due


whole = st.sampled_from(["\n1", "\n-1.5", " 1:2", " 7:.5", "\t30:-4e1 ", " 50:0", "\r\n", "#3:4", "\n\n"])
broken = st.sampled_from([*"0123456789 \t\r\n::#.-+ex_\v", " 51:1", " 0:1", "nan", " 2:1e999", " qid:3"])


@given(st.lists(whole) | st.lists(whole | broken))
def test_compiled_and_strict_reader_agree_on_any_text(symbols):
    text = "".join(symbols).encode()
    answers = []
    for reader in (lambda: _strict(text, 1, 1, 50), lambda: parse_svmlight(text, 1, 50)):
        try:
            answers.append(reader())
        except LineProblem as problem:
            answers.append(str(problem))
    due, came = answers
    if isinstance(due, str):
        assert came == due
        return
    labels, indptr, indices, data = due
    assert_equal(came[0], csr_matrix((data, indices, indptr), shape=(len(labels), 50)))
    np.testing.assert_array_equal(came[1], labels)


@given(st.integers(0, 2**32))
def test_stream_reads_what_scikit_learn_writes(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((6, 5)) * (rng.random((6, 5)) < 0.5)
    buffer = io.BytesIO()
    dump_svmlight_file(X, rng.integers(-2, 3, 6), buffer, zero_based=True)
    came, y = joined(stream_svmlight(io.BytesIO(buffer.getvalue()), n_features=5, zero_based=True, chunk_rows=4))
    due, labels = load_svmlight_file(io.BytesIO(buffer.getvalue()), n_features=5, zero_based=True)
    assert_equal(came, due)
    np.testing.assert_array_equal(y, labels)
