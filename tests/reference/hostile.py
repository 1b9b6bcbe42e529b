"""Check a reader on any bytes: it gives the rows of the slow reference, or an error with file and line.

`examine` takes one input; its first bytes choose the reader and how the rest reaches it, so that a fuzzer can steer all
of that. Anything but "accepted" and "refused" is an exception.
"""

import bz2
import contextlib
import gzip
import io
import json
import lzma
import re
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import numpy as np

from opauc_bench.data import content, fetch, formats, store, stream
from opauc_bench.data.cache import RawFile
from opauc_bench.data.entry import FileSpec, Form
from opauc_bench.errors import DataError
from opauc_bench.streaming.model import LinearModel

from . import readers
from .readers import Read

N_FEATURES = 6
TOKENS = ("b", "o", "x")
LIMIT = 1 << 22  # bytes of uncompressed content


class Finding(AssertionError):
    """A reader has not behaved as specified."""


def require(condition: bool, what: str) -> None:
    if not condition:
        raise Finding(what)


def examine(data: bytes, folder: Path) -> str:
    """Give an input to a reader.

    Parameters
    ----------
    data : bytes
        The reader, an option of it, the size of blocks, and what is read.
    folder : Path
        For files.

    Returns
    -------
    str
        ``"<reader>: accepted"`` or ``"<reader>: refused"``.
    """
    head, text = data[:3].ljust(3, b"\0"), data[3:]
    name = list(READERS)[head[0] % len(READERS)]
    size = (1 << 20, 1, 7, 64)[head[2] % 4]
    with (
        mock.patch.object(formats, "BLOCK", size),
        mock.patch.object(content, "CHUNK", size),
        mock.patch.object(content, "_LONGEST_LINE", 1 << 16),
    ):
        return f"{name}: {READERS[name](text, head[1], folder)}"


# ---------------------------------------------------------------------------------------------- readers of a catalogue


def _form(kind: str, **options) -> Form:
    files = tuple(FileSpec(name=name) for name in ("one", "two")[: 2 if kind == "mnist_idx" else 1])
    labels = {} if {"largest_class", "positive"} & set(options) else {"positive": (1,)}
    return Form(format=kind, files=files, **labels, **options)


def _raw(path: Path, data: bytes) -> RawFile:
    path.write_bytes(data)
    return RawFile(path, path.name, "0" * 64, LIMIT, False, "mirror")


def _compare(blocks: Callable[[], Iterator], due: Read | None, name: str, n_features: int | None) -> str:
    """Compare the blocks of a reader with the reference."""
    try:
        blocks = list(blocks())
    except DataError as error:
        if due is not None and not re.search("uncompressed content|line end within|truncated or damaged", str(error)):
            place = re.match(rf"{re.escape(name)}:(\d+): ", error.message)
            require(place is not None, f"no file and line in: {error.message}")
            require(int(place.group(1)) in due.wrong, f"nothing is wrong with the line of: {error.message}")
        return "refused"
    require(due is not None and not due.wrong, f"accepted, though {due and sorted(due.wrong)[:5]} is wrong")
    rows = [row for X, *_ in blocks for row in _rows_of(X, n_features)]
    labels = [label for _, found, *_ in blocks for label in found.tolist()]
    require(labels == due.labels, f"labels {labels}, expected {due.labels}")
    require(rows == [{j: v for j, v in row.items() if v != 0} for row in due.rows], "other values than the reference")
    return "accepted"


def _rows_of(X, n_features: int | None) -> Iterator[dict[int, float]]:
    """Rows without zeros; the arrays are checked first."""
    require(n_features is None or X.shape[1] == n_features, f"{X.shape[1]} features")
    if isinstance(X, np.ndarray):
        require(X.ndim == 2 and np.isfinite(X).all(), "values that are not finite")
        for row in X:
            yield {j: float(row[j]) for j in np.flatnonzero(row).tolist()}
        return
    require(X.indptr[0] == 0 and X.indptr[-1] == len(X.data) == len(X.indices), "an index pointer that does not fit")
    require((np.diff(X.indptr) >= 0).all() and np.isfinite(X.data).all(), "values that are not finite")
    for start, end in zip(X.indptr[:-1].tolist(), X.indptr[1:].tolist()):
        indices = X.indices[start:end]
        require(len(indices) == 0 or (indices[0] >= 0 and indices[-1] < X.shape[1]), "an index out of bounds")
        require((np.diff(indices) > 0).all(), "indices that do not ascend")
        yield {j: v for j, v in zip(indices.tolist(), X.data[start:end].tolist()) if v != 0}


def _catalogued(text: bytes, folder: Path, form: Form, n_features: int, due: Read) -> str:
    file = _raw(folder / "file", text)
    plain = content.suffix_of(file.path) == ""
    if not plain:  # by chance: other inputs are about that
        return "refused"
    return _compare(lambda: formats.read_blocks([file], form, n_features), due, str(file.path), n_features)


def _svmlight(text: bytes, option: int, folder: Path) -> str:
    first = option & 1
    form = _form("svmlight", first_index=first)
    return _catalogued(text, folder, form, N_FEATURES, readers.svmlight(text, N_FEATURES, first))


def _multilabel(text: bytes, option: int, folder: Path) -> str:
    form = _form("svmlight_multilabel", largest_class=True, first_index=option & 1)
    return _catalogued(text, folder, form, N_FEATURES, readers.multilabel(text, N_FEATURES, option & 1))


def _token_counts(text: bytes, option: int, folder: Path) -> str:
    form = _form("token_counts", positive=("good",))
    return _catalogued(text, folder, form, N_FEATURES, readers.token_counts(text, N_FEATURES))


def _numbers(text: bytes, option: int, folder: Path) -> str:
    kind, separator = ("csv", b",") if option & 1 else ("table", None)
    numeric, first = bool(option & 2), bool(option & 4)
    width = 1 + (option >> 3) % 3
    form = _form(kind, positive=(1,) if numeric else ("good",), label_column=1 if first else -1)
    due = readers.table(text, width, separator, 0 if first else width, numeric)
    return _catalogued(text, folder, form, width, due)


def _categories(text: bytes, option: int, folder: Path) -> str:
    form = _form("csv_tokens", tokens=TOKENS, positive=("good",))
    due = readers.categories(text, 2, tuple(token.encode() for token in TOKENS))
    return _catalogued(text, folder, form, 2 * len(TOKENS), due)


def _idx(text: bytes, option: int, folder: Path) -> str:
    cut = len(text) - min(option, len(text))
    images, labels = text[:cut], text[cut:]
    files = [_raw(folder / "images", images), _raw(folder / "labels", labels)]
    if any(content.suffix_of(file.path) for file in files):
        return "refused"
    due = readers.idx(images, labels, N_FEATURES)
    try:
        blocks = list(formats.read_blocks(files, _form("mnist_idx"), N_FEATURES))
    except DataError as error:
        require(due is None, f"refused: {error}")
        require("labels" in error.message or "images" in error.message, f"no file in: {error.message}")
        return "refused"
    return _compare(lambda: iter(blocks), due, "", N_FEATURES)


# ---------------------------------------------------------------------------------------------- streams


def _stream(text: bytes, option: int, folder: Path) -> str:
    first, rows = option & 1, (4096, 1, 3, 17)[(option >> 1) % 4]
    width = None if option & 8 else N_FEATURES
    if content.compression_of(text[:16]):
        return "refused"
    due = readers.svmlight(text, (1 << 31) - 1 if width is None else width, first)

    def blocks():
        options = {"chunk_rows": rows, "n_features": width, "zero_based": not first}
        for chunk in stream.stream_svmlight(io.BytesIO(text), **options):
            require(0 < len(chunk.labels) == chunk.X.shape[0] <= rows, "a chunk of another size")
            yield chunk.X, chunk.labels

    return _compare(blocks, due, "<stream>", width)


_COMPRESS = (gzip.compress, bz2.compress, lzma.compress)


def _compressed(text: bytes, option: int, folder: Path) -> str:
    """Two consecutive members: complete, truncated, or with a changed byte."""
    compress, how = _COMPRESS[option % 3], (option // 3) % 4
    at, text = int.from_bytes(text[:2], "little"), text[2:]
    middle = len(text) // 2
    packed = compress(text[:middle]) + compress(text[middle:])
    if how == 1:
        packed = packed[: at % len(packed)]
    elif how == 2:
        at, change = at % len(packed), 1 << (at >> 8) % 8
        packed = packed[:at] + bytes([packed[at] ^ change]) + packed[at + 1 :]
    elif how == 3:
        packed += text[:8] or b"x"
    path = folder / "packed"
    path.write_bytes(packed)
    try:
        came = b"".join(content.chunks(path, LIMIT))
    except DataError as error:
        require(how != 0, f"refused: {error}")
        require(str(path) in error.message, f"no file in: {error.message}")
        return "refused"
    if content.suffix_of(path):
        # A cut between the members leaves a file that is whole; so do zeros after the last of them.
        allowed = {text, text[:middle]} if how == 1 else {text}
        require(came in allowed, f"other content: {came[:60]!r}")
    else:
        require(came == packed, "plain content that is not the file's")
    return "accepted"


def _raw_compressed(text: bytes, option: int, folder: Path) -> str:
    """Bytes that only begin like a compressed file."""
    path = folder / "packed"
    path.write_bytes((b"\x1f\x8b\x08", b"BZh91AY&SY", b"\xfd7zXZ\x00")[option % 3] + text)
    try:
        size = sum(map(len, content.chunks(path, 1000)))
    except DataError as error:
        require(str(path) in error.message, f"no file in: {error.message}")
        return "refused"
    require(size <= 1000, "more than the limit")
    return "accepted"


# ---------------------------------------------------------------------------------------------- files of the package


def _archive(text: bytes, option: int, folder: Path) -> str:
    """A tar archive with changed bytes: the member as it was, or a refusal; never more than the limit."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=("w", "w:gz", "w:bz2", "w:xz")[option % 4]) as archive:
        info = tarfile.TarInfo("folder/rows.svm")
        info.size = 12
        archive.addfile(info, io.BytesIO(b"1 1:1\n2 2:2\n"))
    data = bytearray(packed.getvalue())
    for at, value in zip(text[0:40:2], text[1:41:2]):
        data[(at * 131) % len(data)] ^= value
    path = folder / "archive.tar"
    path.write_bytes(data[: len(data) - option // 8 * 37])
    try:
        fetch._extract(path, "rows.svm", 1000)
    except DataError:
        return "refused"
    require(path.stat().st_size <= max(1000, len(data)), "more than the limit")
    return "accepted"


def _model(text: bytes, option: int, folder: Path) -> str:
    path = folder / "model.npz"
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    if option & 1:
        path.write_bytes(text)
    else:
        LinearModel(np.arange(8.0), 0.5, (-1.0, 1.0), "opauc", {"eta": 1.0}, 9, True, False, False).save(path)
        data = bytearray(path.read_bytes())
        for at, value in zip(text[0:12:2], text[1:13:2]):
            data[(at * 7 + option) % len(data)] ^= value
        path.write_bytes(data)
    try:
        model = LinearModel.load(path)
    except DataError as error:
        require(str(path) in error.message, f"no file in: {error.message}")
        return "refused"
    require(model.weights.dtype == np.float64 and np.isfinite(model.weights).all(), "weights that are none")
    return "accepted"


def _prepared(text: bytes, option: int, folder: Path) -> str:
    """A prepared folder with one changed file."""
    arrays = {"data": np.arange(1.0, 6.0), "indices": np.array([0, 2, 1, 0, 1], "<i4")}
    arrays |= {"indptr": np.array([0, 2, 3, 5], "<i4"), "y": np.array([1, -1, 1], "|i1")}
    place = folder / "prepared"
    place.mkdir(exist_ok=True)
    for array, values in arrays.items():
        np.save(place / f"{array}.npy", values)
    meta = {"name": "toy", "kind": "csr", "shape": [3, 3], "manifest": {"storage": "csr"}}
    meta["fingerprint"] = store.fingerprint_of(place, meta["manifest"], (3, 3))
    meta["files"] = {f"{array}.npy": (place / f"{array}.npy").stat().st_size for array in arrays}
    if option % 5 < 4:
        victim = place / f"{list(arrays)[option % 5]}.npy"
        data = text if option & 128 else _changed(victim.read_bytes(), text)
        victim.write_bytes(data)
        meta["files"][victim.name] = len(data)
        whole = json.dumps(meta).encode()
    else:
        whole = text if option & 128 else _changed(json.dumps(meta).encode(), text)
    # A JSON object has the seal of its content.
    with contextlib.suppress(ValueError, TypeError, AttributeError, RecursionError):
        content = json.loads(whole)
        whole = json.dumps(content | {"seal": store._seal(content)}).encode()
    (place / "meta.json").write_bytes(whole)
    try:
        dataset = store.open_prepared(place)
        if not store.is_intact(dataset, lambda _: None):
            return "refused"
    except DataError as error:
        require(str(place) in error.message, f"no folder in: {error.message}")
        return "refused"
    require(option % 5 == 4 or np.array_equal(dataset.X.toarray(), [[1, 0, 2], [0, 3, 0], [4, 5, 0]]), "other values")
    require(option % 5 == 4 or dataset.y.tolist() == [1, -1, 1], "other labels")
    return "accepted"


def _changed(data: bytes, changes: bytes) -> bytes:
    changed = bytearray(data)
    for at, value in zip(changes[0:8:2], changes[1:9:2]):
        changed[at % len(changed)] ^= value
    return bytes(changed)


READERS: dict[str, Callable[[bytes, int, Path], str]] = {
    "svmlight": _svmlight,
    "stream": _stream,
    "multilabel": _multilabel,
    "token_counts": _token_counts,
    "numbers": _numbers,
    "categories": _categories,
    "idx": _idx,
    "compressed": _compressed,
    "raw_compressed": _raw_compressed,
    "archive": _archive,
    "model": _model,
    "prepared": _prepared,
}

# Where a fuzzer begins; the first byte is set to the reader.
SEEDS: dict[str, tuple[bytes, ...]] = {
    "svmlight": (b"+1 1:0.5 3:-2e-1 \r\n-1\n\n-1.0 2:1 # a comment\n2  1:-1\t2:.5", b"1 9223372036854775808:1\n"),
    "stream": (b"1 1:1 2147483647:1e-320\n-1 2:123456789012345678\n", b"1 0:1\n0 5:nan\n"),
    "multilabel": (b"3,17 1:0.5\n 2:1\n5\n545, 32 1:1 2:2\n",),
    "token_counts": (b"a:1 b_c:2 #label#:good\nb_c:1 d:3 #label#:bad\n",),
    "numbers": (b"1,2,3\n4,5,6\n", b"1 2 good\n.5\t-1e3 bad\n"),
    "categories": (b"b,x,good\r\no,o,bad\n",),
    "idx": (b"\0\0\x08\x03\0\0\0\1\0\0\0\2\0\0\0\3" + b"abcdef" + b"\0\0\x08\x01\0\0\0\1" + b"\7",),
    "compressed": (b"\x10\x031 1:1\n2 2:1\n",),
    "raw_compressed": (gzip.compress(b"1 1:1\n")[3:], bz2.compress(b"1 1:1\n")[10:], lzma.compress(b"1 1:1\n")[6:]),
    "archive": (b"\x01\x00",),
    "model": (b"\x01\x00",),
    "prepared": (b"\x01\x00", b"{}"),
}


def seeds() -> Iterator[bytes]:
    """Inputs that reach all readers and options, as a start for the fuzzer."""
    for number, name in enumerate(READERS):
        for text in SEEDS[name]:
            for option in (0, 1, 2, 3, 4, 5, 8, 9, 128, 132):
                yield bytes([number, option, option % 4]) + text
