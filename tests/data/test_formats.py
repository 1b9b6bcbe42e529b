"""Readers of text and idx files: accepted input, and errors with file and line."""

import io
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.datasets import dump_svmlight_file

from opauc_bench.data import formats
from opauc_bench.data.cache import RawFile
from opauc_bench.data.entry import FileSpec, Form
from opauc_bench.data.formats import read_blocks
from opauc_bench.errors import DataError


def raw(path: Path, content: bytes) -> RawFile:
    path.write_bytes(content)
    return RawFile(path, path.name, "0" * 64, 1 << 30, False, "mirror")


def form(kind: str, **options) -> Form:
    files = tuple(FileSpec(name=name) for name in ("one", "two")[: 2 if kind == "mnist_idx" else 1])
    return Form(format=kind, files=files, **({"positive": (1,)} | options))


def read(tmp_path: Path, content: bytes, kind: Form, n_features: int) -> tuple[np.ndarray, np.ndarray]:
    blocks = list(read_blocks([raw(tmp_path / "file", content)], kind, n_features))
    X = [block.X if isinstance(block.X, np.ndarray) else block.X.toarray() for block in blocks]
    return np.concatenate(X), np.concatenate([block.labels for block in blocks])


# ------------------------------------------------------------------------------------------ svmlight


def test_svmlight_reads_variants_of_published_files(tmp_path):
    text = b"+1 1:0.5 3:-2e-1 \r\n-1\n\n-1.0 2:1 # a comment\n2  1:-1\t2:.5"
    X, labels = read(tmp_path, text, form("svmlight"), 3)
    assert X.tolist() == [[0.5, 0, -0.2], [0, 0, 0], [0, 1, 0], [-1, 0.5, 0]]
    assert labels.tolist() == [1, -1, -1, 2]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"1 0:5", "expected indices from 1, got '0:5'; is the file zero-based?"),
        (b"1 2:1 1:1", "expected ascending indices, got 1 after 2"),
        (b"1 2:1 2:1", "expected ascending indices, got 2 after 2"),
        (b"1 1:1 4:1", "expected indices up to 3, got 4"),
        (b"1 99999999999999999999:1", "expected indices up to 3, got 99999999999999999999"),
        (b"1 1:nan", "expected the value of feature 1 to be finite, got 'nan'"),
        (b"1 1:-inf", "expected the value of feature 1 to be finite, got '-inf'"),
        (b"1 1:1e999", "expected the value of feature 1 to be finite, got '1e999'"),
        (b"1 1:", "expected the value of feature 1 to be a number, got ''"),
        (b"1 1:2:3", "expected the value of feature 1 to be a number, got '2:3'"),
        (b"1 1:1_0", "expected the value of feature 1 to be a number, got '1_0'"),
        (b"1 1:2,5", "expected the value of feature 1 to be a number, got '2,5'"),
        (b"1 word", "expected index:value, got 'word'"),
        (b"1 -1:3", "expected index:value, got '-1:3'"),
        (b"1 qid:3 1:1", "expected index:value, got 'qid:3'"),
        (b"1 :3", "expected index:value, got ':3'"),
        (b"nan 1:1", "expected the label to be finite, got 'nan'"),
        (b"a 1:1", "expected the label to be a number, got 'a'"),
        (b"1,2 1:1", "expected the label to be a number, got '1,2'"),
        (b" 1:1 2:1", "expected a label first, got '1:1'"),
        (b"\xff\xfe 1:1", "expected the label to be a number"),
    ],
)
def test_svmlight_error_names_line(tmp_path, line, problem):
    text = b"-1 1:1\n-1\n\n" + line + b"\n1 2:1\n"
    with pytest.raises(DataError) as caught:
        read(tmp_path, text, form("svmlight"), 3)
    assert caught.value.message.startswith(f"{tmp_path / 'file'}:4: ")
    assert problem in caught.value.message


def test_blocks_keep_rows_and_line_numbers(tmp_path, monkeypatch):
    lines = [f"{i % 2} 1:{i} 2:{i * 0.5}".encode() for i in range(1, 400)]
    whole = read(tmp_path, b"\n".join(lines), form("svmlight"), 2)
    monkeypatch.setattr(formats, "BLOCK", 64)
    monkeypatch.setattr("opauc_bench.data.content.CHUNK", 50)
    cut = read(tmp_path, b"\n".join(lines), form("svmlight"), 2)
    np.testing.assert_array_equal(cut[0], whole[0])
    np.testing.assert_array_equal(cut[1], whole[1])
    lines[341] = b"1 7:1"
    with pytest.raises(DataError, match=r"file:342: expected indices up to 2, got 7"):
        read(tmp_path, b"\n".join(lines), form("svmlight"), 2)


finite = st.floats(-1e300, 1e300)  # the largest doubles round up to infinity in 16 digits


@settings(max_examples=60, deadline=None)
@given(
    X=hnp.arrays(np.float64, st.tuples(st.integers(1, 8), st.integers(1, 6)), elements=finite | st.just(0.0)),
    block=st.sampled_from([1, 40, 1 << 20]),
    data=st.data(),
)
def test_svmlight_reads_what_scikit_learn_writes(tmp_path_factory, X, block, data):
    labels = data.draw(hnp.arrays(np.int64, len(X), elements=st.integers(-3, 30)))
    buffer = io.BytesIO()
    dump_svmlight_file(X, labels, buffer, zero_based=False)
    before = formats.BLOCK
    formats.BLOCK = block
    try:
        came = read(tmp_path_factory.mktemp("round"), buffer.getvalue(), form("svmlight"), X.shape[1])
    finally:
        formats.BLOCK = before
    np.testing.assert_allclose(came[0], X, rtol=1e-15)  # 16 digits are written
    np.testing.assert_array_equal(came[1], labels)


# ------------------------------------------------------------------------------------------ tables


def test_csv_reads_class_names(tmp_path):
    X, labels = read(tmp_path, b"1.5, 2,g\r\n-3,4e1,h\n\n", form("csv", positive=("g",)), 2)
    assert X.tolist() == [[1.5, 2], [-3, 40]]
    assert labels.tolist() == ["g", "h"]


def test_table_reads_label_column_and_drops_columns(tmp_path):
    kind = form("table", label_column=2, drop_columns=(1, 4))
    X, labels = read(tmp_path, b"7\t1\t.5\t999\t2\n8 0  .25 999 3\n", kind, 2)
    assert X.tolist() == [[0.5, 2], [0.25, 3]]
    assert labels.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"1,2,g\n1,2,3,g\n", ":2: expected 3 columns, got 4"),
        (b"1,2,g\n\n1,g\n", ":3: expected 3 columns, got 2"),
        (b"1,2,3,g\n", ":1: expected 3 columns, got 4"),
        (b"1,2,g\n1,?,g\n", ":2: expected column 2 to be a number, got '?'"),
        (b"1,2,g\n1,,g\n", ":2: expected column 2 to be a number, got ''"),
        (b"1,2,g\nnan,2,g\n", ":2: expected column 1 to be finite, got 'nan'"),
        (b"1,2,g\n1_0,2,g\n", ":2: expected column 1 to be a number, got '1_0'"),
        (b"1,2,g\n1,2,\n", ":2: expected a label, got nothing"),
        (
            b"a,b,class\n1,2,g\n",
            ":1: expected column 1 to be a number, got 'a'; for a file with a header line use ",
        ),
        (
            b'"a","b","class"\n1,2,g\n',
            ":1: expected column 1 to be a number, got '\"a\"'; for a file with a header line use ",
        ),
        (b"a,b,c,class\n1,2,g\n", ":1: expected 3 columns, got 4; for a file with a header line use "),
        (b"1;2;g\n", ":1: expected 3 columns, got 1; values separated by semicolons are not supported"),
        (b"1\t2\tg\n", ":1: expected 3 columns, got 1; for numbers separated by spaces or tabs use 'format: table'"),
        (b"1,2,g,\n", ":1: expected 3 columns, got 4; remove the comma at the end of lines (sed 's/,\\r\\?$//')"),
        (b'"1","2","g"\n', ":1: expected column 1 to be a number, got '\"1\"'; quotes are not supported"),
        (
            b"\xef\xbb\xbf1,2,g\n",
            ":1: expected column 1 to be a number, got '\\ufeff1'; the file begins with a byte order mark: remove it",
        ),
    ],
)
def test_csv_error_names_line(tmp_path, content, problem):
    with pytest.raises(DataError) as caught:
        read(tmp_path, content, form("csv", positive=("g",)), 2)
    assert str(tmp_path / "file") + problem in caught.value.message


def test_header_hint_is_given_for_first_line_only(tmp_path):
    with pytest.raises(DataError, match=r":2: expected column 1 to be a number, got 'a'$"):
        read(tmp_path, b"1,2,g\na,b,g\n", form("csv", positive=("g",)), 2)


def test_table_with_commas_suggests_csv(tmp_path):
    with pytest.raises(DataError, match=r":1: expected 3 columns, got 1; .*'format: csv'"):
        read(tmp_path, b"1,2,1\n", form("table"), 2)


def test_svmlight_suggests_csv(tmp_path):
    with pytest.raises(DataError, match=r":1: .* such as '1 1:0.5 7:2', got '1,2,3'; is this a csv file\?"):
        read(tmp_path, b"1,2,3\n", form("svmlight"), 2)


def test_csv_numeric_label_must_be_a_number(tmp_path):
    with pytest.raises(DataError, match=r"file:2: expected the label to be a number, got 'x'"):
        read(tmp_path, b"1,2,1\n1,2,x\n", form("csv"), 2)


def test_tokens_become_one_hot(tmp_path):
    kind = form("csv_tokens", tokens=("b", "o", "x"), positive=("loss",))
    X, labels = read(tmp_path, b"b,x,loss\no,o,win\n", kind, 6)
    assert X.tolist() == [[1, 0, 0, 0, 0, 1], [0, 1, 0, 0, 1, 0]]
    assert labels.tolist() == ["loss", "win"]


def test_unknown_token_is_reported(tmp_path):
    kind = form("csv_tokens", tokens=("b", "o", "x"), positive=("loss",))
    with pytest.raises(DataError, match=r"file:2: expected column 2 to be one of b, o, x, got 'q'"):
        read(tmp_path, b"b,x,loss\no,q,win\n", kind, 6)
    with pytest.raises(DataError, match=r"file:1: expected 3 columns, got 4"):
        read(tmp_path, b"b,x,b,loss\n", kind, 6)


# ------------------------------------------------------------------------------------------ MNIST


def idx(shape: tuple[int, ...], values: bytes) -> bytes:
    return struct.pack(f">{1 + len(shape)}I", 0x0800 + len(shape), *shape) + values


def read_idx(tmp_path: Path, images: bytes, labels: bytes, **options) -> list[formats.Block]:
    files = [raw(tmp_path / "images", images), raw(tmp_path / "labels", labels)]
    kind = form("mnist_idx", **options)
    return list(read_blocks(files, kind, 4 - len(kind.drop_columns)))


def test_idx_reads_pair_of_files(tmp_path):
    (block,) = read_idx(
        tmp_path, idx((2, 2, 2), bytes([0, 1, 2, 3, 4, 5, 6, 255])), idx((2,), b"\x07\x01"), drop_columns=(1,)
    )
    assert block.X.tolist() == [[1, 2, 3], [5, 6, 255]]
    assert block.labels.tolist() == [7, 1]


@pytest.mark.parametrize(
    ("images", "labels", "problem"),
    [
        (idx((1, 2, 2), b"1234"), idx((2,), b"12"), "labels: expected 1 labels, one per image, got 2"),
        (
            idx((2, 2, 2), b"1234"),
            idx((2,), b"12"),
            r"images: expected 24 bytes for shape \(2, 2, 2\), got 20",
        ),
        (idx((1, 2, 2), b"12345"), idx((1,), b"1"), "images: expected 20 bytes"),
        (idx((1,), b"1"), idx((1,), b"1"), "images: expected an idx file that begins with 0x00000803"),
        (
            idx((1, 2, 2), b"1234"),
            b"\x00",
            "labels: expected an idx file that begins with 0x00000801, got 0x00",
        ),
    ],
)
def test_idx_error_names_file(tmp_path, images, labels, problem):
    with pytest.raises(DataError, match=problem):
        read_idx(tmp_path, images, labels)


def test_images_of_later_blocks_have_their_labels(tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "BLOCK", 4)
    images = raw(tmp_path / "one", struct.pack(">4I", 0x803, 3, 1, 3) + bytes(range(9)))
    labels = raw(tmp_path / "two", struct.pack(">2I", 0x801, 3) + b"\1\2\3")
    blocks = list(read_blocks([images, labels], form("mnist_idx"), 3))
    assert [block.X.tolist() for block in blocks] == [[[0, 1, 2]], [[3, 4, 5]], [[6, 7, 8]]]
    assert [block.labels.tolist() for block in blocks] == [[1], [2], [3]]
