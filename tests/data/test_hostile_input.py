"""Invalid and hostile input: every reader gives the right rows or an error, in bounded memory."""

import binascii
import bz2
import gzip
import io
import json
import lzma
import os
import pickle
import random
import subprocess
import sys
import tarfile
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.examples import toy_entry
from reference.hostile import READERS, examine, seeds

from opauc_bench.data import Sources, prepare, stream_svmlight
from opauc_bench.data import content as content_module
from opauc_bench.data.cache import RawFile
from opauc_bench.data.content import chunks
from opauc_bench.data.entry import FileSpec, Form
from opauc_bench.data.formats import read_blocks
from opauc_bench.errors import DataError
from opauc_bench.streaming.model import LinearModel

FOUND = Path(__file__).parents[1] / "fixtures" / "fuzz"
TEXT = b"1 1:0.5 3:1\n2 2:1\n"
COMPRESS = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


# ---------------------------------------------------------------------------------------------- any bytes


@pytest.mark.parametrize("path", sorted(FOUND.glob("*.bin")), ids=lambda path: path.stem)
def test_former_findings_of_fuzzer(path, tmp_path):
    assert examine(path.read_bytes(), tmp_path).endswith((": accepted", ": refused"))


def test_seeds_of_fuzzer(tmp_path):
    outcomes = {examine(data, tmp_path) for data in seeds()}
    assert {f"{name}: accepted" for name in READERS} <= outcomes


words = st.sampled_from(
    [b"1", b" ", b"\n", b":", b"2:.5", b",", b"#", b"1e999", b"nan", b"9" * 20, b"\0", b"\xff", b"\r"]
)
edits = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 9), words | st.binary(max_size=6)), max_size=6)


@pytest.mark.faults
@settings(max_examples=300)
@given(st.sampled_from(list(seeds())), edits, st.binary(min_size=2, max_size=2))
def test_changed_files_are_read_correctly_or_refused(tmp_path_factory, data, changes, options):
    for at, length, new in changes:
        at = 3 + at % max(1, len(data) - 2)
        data = data[:at] + new + data[at + length :]
    examine(data[:1] + options + data[3:], tmp_path_factory.getbasetemp())


@pytest.mark.faults
@given(st.sampled_from(range(len(READERS))), st.binary(max_size=200))
def test_any_bytes_are_read_correctly_or_refused(tmp_path_factory, reader, data):
    examine(bytes([reader]) + data, tmp_path_factory.getbasetemp())


# ---------------------------------------------------------------------------------------------- svmlight


def rows(text: bytes, **options) -> tuple[np.ndarray, list[float]]:
    found = list(stream_svmlight(io.BytesIO(text), n_features=3, **options))
    dense = [row for chunk in found for row in chunk.X.toarray().tolist()]
    return dense, [label for chunk in found for label in chunk.labels.tolist()]


@pytest.mark.parametrize("index", [2**31, 2**32 + 1, 2**63 - 1, 2**63, 2**63 + 1, 2**64 + 1, 10**400])
def test_index_beyond_integer_range_is_refused(index):
    with pytest.raises(DataError, match=f"^<stream>:2: expected indices up to 3, got {str(index)[:30]}"):
        rows(b"1 1:1\n1 %d:1\n" % index)
    with pytest.raises(DataError, match=r"^<stream>:1: expected indices up to 2147483647, got"):
        list(stream_svmlight(io.BytesIO(b"1 %d:1\n" % index)))


def test_largest_index_is_read():
    (chunk,) = stream_svmlight(io.BytesIO(b"1 2147483647:1\n"))
    assert chunk.X.shape == (1, 2**31 - 1)
    assert chunk.X.indices.tolist() == [2**31 - 2]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"1 1:1\n1:1 2:1\n", ":2: expected a label first, got '1:1'"),
        (b"1 -1:1\n", ":1: expected index:value, got '-1:1'"),
        (b"1 1:1\r-1 2:1\r", ":1: expected index:value, got '-1'; do lines end with CR? (tr "),
        (b"1 3:1 2:1\n", ":1: expected ascending indices, got 2 after 3"),
        (b"1 3:1 3:1\n", ":1: expected ascending indices, got 3 after 3"),
        (b"1 1:inf\n", ":1: expected the value of feature 1 to be finite, got 'inf'"),
        (b"-NaN 1:1\n", ":1: expected the label to be finite, got '-NaN'"),
        (b"\xef\xbb\xbf1 1:1\n", ":1: expected the label to be a number"),
        ("1 1:1\n2 2:1\n".encode("utf-16"), ":1: expected text, got a NUL byte: a binary file, or text in UTF-16"),
        (b"1 1:1\n1 2:1\0\n", ":2: expected text, got a NUL byte"),
        (random.Random(0).randbytes(3000), ":3: expected text, got a NUL byte"),
        (random.Random(0).randbytes(3000).replace(b"\0", b"x"), ":1: expected the label to be a number"),
    ],
)
def test_invalid_text_is_refused(text, problem):
    with pytest.raises(DataError) as refused:
        rows(text)
    assert refused.value.message.startswith(f"<stream>{problem}")


@pytest.mark.parametrize("text", [b"", b"\n", b"# nothing\n# at all", b" \t\r\n\n", b"\n" * 3000 + b"#"])
def test_files_without_rows_give_no_chunks(text):
    assert rows(text) == ([], [])


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n", b"\n\n", b" ", b"#", b"\n#"])
def test_last_line_may_end_in_any_way(end):
    assert rows(TEXT.rstrip() + end) == ([[0.5, 0, 1], [0, 1, 0]], [1, 2])
    assert rows(TEXT.replace(b"\n", b"\r\n").rstrip() + end) == ([[0.5, 0, 1], [0, 1, 0]], [1, 2])


@pytest.mark.faults
@pytest.mark.parametrize("variable", ["NUMBA_DISABLE_JIT", "NUMBA_BOUNDSCHECK"])
def test_compiled_reader_stays_in_bounds(variable, tmp_path):
    """The compiled reader, run by Python and with bounds checks."""
    program = (
        "import sys, pathlib; sys.path[:0] = [sys.argv[1]]\n"
        "from reference.hostile import examine, seeds\n"
        "print(*sorted({examine(data, pathlib.Path(sys.argv[2])) for data in seeds() if data[0] < 2}), sep=', ')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(FOUND.parents[1]), str(tmp_path)],
        env=os.environ | {variable: "1", "NUMBA_CACHE_DIR": str(tmp_path / "numba")},
        capture_output=True,
        text=True,
        timeout=280,
    )
    due = "stream: accepted, stream: refused, svmlight: accepted, svmlight: refused\n"
    assert done.stdout == due, done.stderr


# ---------------------------------------------------------------------------------------------- memory

STREAM = """
import io, resource, sys
from opauc_bench.data import stream_svmlight
from opauc_bench.errors import DataError

class Endless(io.RawIOBase):
    def __init__(self, piece, size):
        self.piece, self.at, self.end = piece, 0, size // len(piece) * len(piece)
    def readable(self):
        return True
    def readinto(self, buffer):
        size = min(len(buffer), self.end - self.at)
        start = self.at % len(self.piece)
        copies = 1 + (start + size) // len(self.piece)
        buffer[:size] = (self.piece * copies)[start : start + size]
        self.at += size
        return size

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

def read(piece, megabytes):
    try:
        return sum(len(chunk.labels) for chunk in stream_svmlight(Endless(piece, megabytes << 20), n_features=90))
    except DataError as error:
        return str(error)

row = b"1 " + b" ".join(b"%d:0.5" % j for j in range(1, 90)) + b"\\n"
read(row, 8)
before = peak()
print(read(row, 160), peak() - before)
print(read(b"1 1:0.25 ", 512), peak() - before)
"""


@pytest.mark.faults
def test_memory_is_bounded_for_long_file_and_long_line():
    done = subprocess.run([sys.executable, "-c", STREAM], capture_output=True, text=True, timeout=280, check=True)
    long_file, long_line = done.stdout.splitlines()
    n_rows, grown = map(int, long_file.split())
    assert n_rows == (160 << 20) // 616  # bytes a row
    assert grown < 40
    assert long_line.startswith("<stream>:1: expected a line end within 268,435,456 bytes, got none ")
    assert int(long_line.split()[-1]) < 600


def test_long_cell_is_refused(tmp_path):
    text = b"1,2,good\n" * 100_000 + b"3,%s,bad\n" % (b"4" * 1_000_000)
    with pytest.raises(DataError, match=r"file:100001: expected at most 256 bytes per column, got '444"):
        read(tmp_path, text, "csv", 2, positive=("good",))


def read(tmp_path, text: bytes, kind: str, n_features: int, **options):
    path = tmp_path / "file"
    path.write_bytes(text)
    files = [RawFile(path, "file", "0" * 64, 1 << 30, False, "mirror")]
    form = Form(format=kind, files=(FileSpec(name="file"),), **{"positive": (1,), **options})
    return [block for block in read_blocks(files, form, n_features) if len(block.labels)]


def test_drop_empty_bounds_largest_index(tmp_path):
    assert read(tmp_path, b"1 67108863:1\n", "svmlight", 3, drop_empty=True)[0].X.shape == (1, 67108863)
    with pytest.raises(DataError, match="file:1: expected indices up to 67108863, got 67108864"):
        read(tmp_path, b"1 67108864:1\n", "svmlight", 3, drop_empty=True)


def test_overflowing_counts_are_refused(tmp_path):
    text = b"a:1 #label#:x\nb:%s #label#:x\n" % (b"9" * 400)
    with pytest.raises(DataError, match="file:2: expected the count of 'b' to be finite, got '999"):
        read(tmp_path, text, "token_counts", 5, positive=("x",))


def test_labels_of_thousands_of_digits_are_read(tmp_path):
    (block,) = read(tmp_path, b"0%s,7 1:1\n" % (b"9" * 5000), "svmlight_multilabel", 3)
    assert block.labels.tolist() == ["9" * 5000 + ",7"]


def test_impossible_label_column_is_refused(tmp_path):
    with pytest.raises(DataError, match="file:1: expected 2 features and the column 9, got 3 columns"):
        read(tmp_path, b"1,2,3\n", "csv", 2, label_column=9)


# ---------------------------------------------------------------------------------------------- compression


entry_of = partial(toy_entry, n_samples=2, n_features=3)


def sources_with(tmp_path: Path, content: bytes, name: str = "toy.txt") -> Sources:
    (tmp_path / "mirror/toy").mkdir(parents=True)
    (tmp_path / "mirror/toy" / name).write_bytes(content)
    return Sources(tmp_path / "cache", (str(tmp_path / "mirror"),), offline=True)


@pytest.mark.parametrize("suffix", COMPRESS)
def test_decompression_bomb_is_refused(tmp_path, suffix):
    bomb = COMPRESS[suffix](TEXT + b"\n" * (16 << 20))
    assert len(bomb) < 100_000
    sources = sources_with(tmp_path, bomb, f"toy.txt{suffix}")
    with pytest.raises(DataError) as refused:
        prepare(entry_of(), sources)
    assert "expected at most 1,049,792 bytes of uncompressed content, got more" in refused.value.message
    assert "set 'bytes:' of this file in the catalogue" in refused.value.message
    assert not list((tmp_path / "cache").rglob("*.txt*")), "no file is left"
    known = entry_of(files=[{"name": "toy.txt", "bytes": len(TEXT) + (16 << 20)}])
    assert prepare(known, sources).X.shape == (2, 3)


@pytest.mark.parametrize("suffix", COMPRESS)
def test_compressed_line_without_end_is_refused(suffix, monkeypatch):
    monkeypatch.setattr(content_module, "_LONGEST_LINE", 1 << 20)
    with pytest.raises(DataError, match="<stream>:1: expected a line end within 1,048,576 bytes"):
        rows(COMPRESS[suffix](b"1 " + b" " * (8 << 20)))


@pytest.mark.parametrize("suffix", COMPRESS)
def test_consecutive_members_are_read(suffix):
    compress = COMPRESS[suffix]
    lines = TEXT.splitlines(keepends=True)
    packed = compress(lines[0]) + compress(b"") + compress(lines[1])
    assert rows(packed) == rows(TEXT)
    for end in range(20, len(packed)):
        whole = end in (len(compress(lines[0])), len(compress(lines[0]) + compress(b"")))
        if whole:
            assert rows(packed[:end]) == ([[0.5, 0, 1]], [1])
        else:
            with pytest.raises(DataError, match="<stream>: the compressed file is truncated or damaged"):
                rows(packed[:end])


@pytest.mark.parametrize("suffix", COMPRESS)
def test_damaged_second_member_is_refused(suffix):
    first, second = (COMPRESS[suffix](line) for line in TEXT.splitlines(keepends=True))
    for damaged in (b"junk" + second, first + b"\xff" + second[1:], first + second + b"rows\n"):
        if damaged.startswith(b"junk"):
            damaged = first + damaged
        with pytest.raises(DataError, match="truncated or damaged"):
            rows(damaged)


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
def test_zeros_may_follow_a_member(suffix):
    packed = COMPRESS[suffix](TEXT)
    assert rows(packed + bytes(200_000) + packed + bytes(4)) == rows(TEXT + TEXT)


def test_xz_with_excessive_memory_is_refused():
    packed = bytearray(lzma.compress(TEXT))
    assert packed[14:16] == b"\x21\x01", "LZMA2, one byte: the size of its dictionary"
    header = 4 * (packed[12] + 1)
    packed[16] = 40  # 4 GiB
    packed[12 + header - 4 : 12 + header] = binascii.crc32(packed[12 : 12 + header - 4]).to_bytes(4, "little")
    with pytest.raises(DataError, match=r"truncated or damaged \(Memory usage limit exceeded\)"):
        rows(bytes(packed))


def test_read_all_equals_reading_pieces(tmp_path):
    content = os.urandom(300_000) + bytes(300_000)
    for suffix, compress in COMPRESS.items():
        path = tmp_path / f"file{suffix}"
        path.write_bytes(compress(content))
        assert b"".join(chunks(path, 1 << 20)) == content
        with path.open("rb") as file:
            assert content_module.decompressed(file).read() == content


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_truncated_archives_are_refused(tmp_path, mode):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=mode) as archive:
        info = tarfile.TarInfo("deep/toy.dat")
        info.size = len(TEXT)
        archive.addfile(info, io.BytesIO(TEXT))
    data = packed.getvalue()
    entry = entry_of(files=[{"name": "toy.txt", "member": "toy.dat", "urls": [(tmp_path / "a.tar").as_uri()]}])
    for number, end in enumerate(range(1, len(data), max(1, len(data) // 40))):
        (tmp_path / "a.tar").write_bytes(data[:end])
        sources = Sources(tmp_path / f"cache{number}", offline=True)
        try:
            found = prepare(entry, sources)
        except DataError:
            continue
        assert found.X.tolist() == [[0.5, 0, 1], [0, 1, 0]]


# ---------------------------------------------------------------------------------------------- pickles


class Trap:
    def __reduce__(self):
        return exec, ("raise SystemExit('a pickle was run')",)


def test_models_are_never_unpickled(tmp_path):
    path = tmp_path / "model.npz"
    model = LinearModel(np.arange(3.0), 0.0, (-1.0, 1.0), "opauc", {}, 1, True, False, False)
    model.save(path)
    with np.load(path) as archive:
        about = json.loads(archive["about"].item())
    trapped = np.array([Trap()] * 3, dtype=object)
    for arrays in (
        {"about": np.array(json.dumps(about)), "weights": trapped},
        {"about": trapped, "weights": np.arange(3.0)},
        {"about": np.array(json.dumps(about)), "weights": np.arange(3.0), "more": trapped},
    ):
        np.savez(path, allow_pickle=True, **arrays)
        with pytest.raises(DataError, match="this is not a model, or it is damaged"):
            LinearModel.load(path)
    path.write_bytes(pickle.dumps(Trap()))
    with pytest.raises(DataError, match=r"expected an \.npz archive"):
        LinearModel.load(path)
