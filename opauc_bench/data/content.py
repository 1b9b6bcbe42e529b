"""The uncompressed content of files, read in pieces and never trusted; and what the readers of text share.

Python's readers of bzip2 and xz end where a second member is damaged, as if the file ended there. Here it is an error.
"""

import bz2
import codecs
import contextlib
import gzip
import hashlib
import io
import lzma
import math
import os
import re
import select
import stat
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol

import numpy as np

from ..errors import DataError
from .faults import Fault, LineProblem

__all__ = [
    "DAMAGED",
    "SUFFIXES",
    "Block",
    "Readable",
    "chunks",
    "compression_of",
    "decompressed",
    "digest",
    "finite_number",
    "import_pyarrow",
    "is_number",
    "opened",
    "pieces",
    "shown",
    "suffix_of",
    "text_blocks",
    "utf8",
]

SUFFIXES = ("", ".xz", ".bz2", ".gz", ".zst")
CHUNK = 1 << 20
DAMAGED = (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile)  # and an OSError without errno, of bz2

_MOST_MEMORY = 1 << 29  # bytes for xz: its strongest setting takes 65 MiB, a hostile file could ask for 4 GiB
_READ = 1 << 16
_SECONDS_OF_A_PIECE = 0.2
_LONGEST_LINE = 1 << 28  # bytes
_HTML = re.compile(rb"(?:\xef\xbb\xbf)?\s*<(?:!doctype\s+html|html|head|\?xml)\b", re.IGNORECASE)
# The first file of an .npz archive is an array.
_ARCHIVE = re.compile(rb"PK\x03\x04(?!.{26}[^/]*\.npy)|.{257}ustar(?:  )?\x00", re.DOTALL)
_MAGIC = (
    (re.compile(rb"\xfd7zXZ\x00"), ".xz"),
    (re.compile(rb"BZh[1-9](?:1AY&SY|\x17\x72\x45\x38\x50\x90)", re.DOTALL), ".bz2"),
    (re.compile(rb"\x1f\x8b\x08"), ".gz"),
    (re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18"), ".zst"),  # or a frame to be skipped, RFC 8878
)


class Readable(Protocol):
    """A binary stream, of which only this is used."""

    def read(self, size: int = -1, /) -> bytes:
        """Read at most ``size`` bytes, or all; no bytes mean the end."""
        ...


def compression_of(head: bytes) -> str:
    """Return the suffix of the compression of content that begins with these 16 bytes, or an empty text."""
    return next((suffix for magic, suffix in _MAGIC if magic.match(head)), "")


def suffix_of(path: Path) -> str:
    """Return the suffix of a file's compression, whatever its name."""
    with path.open("rb") as stream:
        return compression_of(stream.read(16))


def decompressed(stream: BinaryIO) -> Readable:
    """Return the uncompressed content of a binary stream, for reading; its first bytes decide about the compression."""
    if not hasattr(stream, "peek"):
        stream = io.BufferedReader(stream)  # type: ignore[type-var]  # BinaryIO has no readinto
    suffix = compression_of(stream.peek(16)[:16])
    if suffix == ".gz":
        return gzip.GzipFile(fileobj=stream)
    if suffix == ".zst":
        pyarrow = import_pyarrow("zstd")
        return pyarrow.CompressedInputStream(pyarrow.PythonFile(stream, "r"), "zstd")
    return _Members(stream, suffix) if suffix else stream


def import_pyarrow(what: str) -> Any:
    """Import pyarrow, or raise DataError that says what needs it."""
    try:
        import pyarrow
    except ImportError:
        raise DataError(f"{what} needs pyarrow, which is not installed", "pip install 'opauc-bench[parquet]'") from None
    return pyarrow


class _Members(io.RawIOBase):
    """Consecutive members of bzip2 or xz as one stream."""

    def __init__(self, stream: BinaryIO, suffix: str):
        super().__init__()
        self._stream, self._is_xz = stream, suffix == ".xz"
        self._decoder, self._rest = self._new_decoder(), b""

    def _new_decoder(self) -> Any:
        return lzma.LZMADecompressor(lzma.FORMAT_XZ, _MOST_MEMORY) if self._is_xz else bz2.BZ2Decompressor()

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """Read at most ``size`` bytes; no bytes mean the end of the stream."""
        if size < 0:
            return b"".join(iter(lambda: self.read(_READ), b""))
        while size:
            if self._decoder.eof and not self._next_member():
                return b""
            data = b""
            if self._decoder.needs_input:
                data, self._rest = self._rest or self._stream.read(_READ), b""
                if not data:
                    raise EOFError("it ends too soon")
            if content := self._decoder.decompress(data, size):
                return content
        return b""

    def _next_member(self) -> bool:
        """Begin with what follows the end of a member; return whether there is anything."""
        left = self._decoder.unused_data
        while True:
            left = left.lstrip(b"\0") if self._is_xz else left  # zeros may follow a member of xz
            if left:
                break
            if not (left := self._stream.read(_READ)):
                return False
        self._decoder, self._rest = self._new_decoder(), left
        return True


@contextlib.contextmanager
def opened(path_or_file: str | Path | BinaryIO) -> Iterator[tuple[Readable, str]]:
    """Open a path, or take an open binary file and leave it open; yield the uncompressed content and a name."""
    if not isinstance(path_or_file, (str, Path)):
        name = str(getattr(path_or_file, "name", "<stream>"))
        if isinstance(path_or_file, io.TextIOBase):
            raise TypeError(f"{name}: expected a file opened in binary mode")
        yield decompressed(path_or_file), name
        return
    try:
        stream = open(path_or_file, "rb")  # noqa: SIM115 - closed below; errors of the reader are not those of opening
    except OSError as error:
        raise DataError(f"{path_or_file}: cannot be read ({error.strerror or error})") from None
    with stream:
        yield decompressed(stream), str(path_or_file)


def chunks(path: Path, limit: int) -> Iterator[bytes]:
    """Yield the uncompressed content of a file, at most 1 MiB at a time.

    DataError if it is damaged or unreadable, or has more than ``limit`` bytes (small files may decompress into huge
    ones).
    """
    total = 0
    with opened(path) as (stream, name):
        for piece in pieces(stream, name):
            total += len(piece)
            if total > limit:
                raise DataError(
                    f"{path}: expected at most {limit:,} bytes of uncompressed content, got more; if that is right, "
                    "set 'bytes:' of this file in the catalogue"
                )
            yield piece


def pieces(stream: Readable, name: str) -> Iterator[bytes]:
    """Yield the content of a stream in pieces of 1 MiB; DataError if it is damaged or unreadable.

    The last piece may be shorter. So are those of a pipe whose writer is slow: they have what came within a fifth of a
    second.
    """
    read = _read_from_pipe if _is_pipe(stream) else _read_all
    ended = False
    while not ended:
        try:
            piece, ended = read(stream)
        except (OSError, *DAMAGED) as error:
            if not isinstance(error, OSError) or error.errno is None:
                raise DataError(f"{name}: the compressed file is truncated or damaged ({error})") from None
            raise DataError(f"{name}: cannot be read ({error.strerror or error})") from None
        if piece:
            yield piece


def _is_pipe(stream: Readable) -> bool:
    """Whether a stream has the plain content of a pipe, socket or terminal; compressed content comes in blocks."""
    if not isinstance(stream, io.BufferedReader):
        return False
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stat.S_ISCHR(mode)


def _read_all(stream: Readable) -> tuple[bytes, bool]:
    """The next MiB, and whether that was the end."""
    parts: list[bytes] = []
    held = 0
    while held < CHUNK:
        if not (part := stream.read(CHUNK - held)):
            return b"".join(parts), True
        parts.append(part)
        held += len(part)
    return b"".join(parts), False


def _read_from_pipe(stream: Any) -> tuple[bytes, bool]:
    """The next MiB, or what comes within some time after its first bytes; and whether that was the end."""
    parts, held = [stream.read1(CHUNK)], 0
    until = time.monotonic() + _SECONDS_OF_A_PIECE
    while parts[-1] and (held := held + len(parts[-1])) < CHUNK:
        ready, _, _ = select.select([stream], [], [], max(0.0, until - time.monotonic()))
        if not ready:
            break
        parts.append(stream.read1(CHUNK - held))
    return b"".join(parts), not parts[-1]


def digest(path: Path, limit: int) -> tuple[str, int]:
    """Return SHA-256 (hex) and size of the content; DataError as `chunks`, or if it is not a file of data."""
    sha256, size, head = hashlib.sha256(), 0, b""
    for piece in chunks(path, limit):
        head = head or piece[:512]
        sha256.update(piece)
        size += len(piece)
    if size == 0:
        raise DataError(f"{path}: expected data, got an empty file")
    if _HTML.match(head):
        raise DataError(f"{path}: expected data, got an HTML page (an error page or a moved address?)")
    if _ARCHIVE.match(head):
        raise DataError(
            f"{path}: expected data, got a .zip or .tar archive; unpack it, or, unless it is a table with a header "
            "line, list it under 'files' with a 'member' (.zip, .tar, .tar.gz, .tar.bz2 or .tar.xz)"
        )
    return sha256.hexdigest(), size


class Block(NamedTuple):
    """Consecutive rows: ``X`` of shape (rows, n_features), dense or CSR, their labels, the position of their file."""

    X: Any
    labels: np.ndarray
    file: int = 0


def text_blocks(source: Iterator[bytes], size: int, name: str) -> Iterator[tuple[int, int, bytes]]:
    """Cut a text into pieces of at least ``size`` bytes that end with a line.

    Yields
    ------
    first_line, n_line_ends : int
        Number of the first line of the piece, and how many line ends it has.
    lines : bytes
        The piece, without its last line end.

    Raises
    ------
    DataError
        If the content has a NUL byte, or a line that is longer than any line of data.
    """
    pending: list[bytes] = []
    first_line, held = 1, 0
    for piece in source:
        if b"\0" in piece:
            line = first_line + b"".join([*pending, piece.partition(b"\0")[0]]).count(b"\n")
            raise DataError(f"{name}:{line}: expected text, got a NUL byte: a binary file, or text in UTF-16")
        end = piece.rfind(b"\n") if held + len(piece) >= size else -1
        if end >= 0:
            text = b"".join([*pending, memoryview(piece)[:end]])
            n_line_ends = _n_line_ends(text)
            yield first_line, n_line_ends, text
            first_line += n_line_ends + 1
            pending, held = [piece[end + 1 :]], len(piece) - end - 1
            continue
        pending.append(piece)
        held += len(piece)
        if held > size + _LONGEST_LINE:
            raise DataError(f"{name}:{first_line}: expected a line end within {_LONGEST_LINE:,} bytes, got none")
    if text := b"".join(pending):
        yield first_line, _n_line_ends(text), text


def _n_line_ends(text: bytes) -> int:
    """How many line ends a text has; several times as fast as ``text.count``."""
    return int(np.count_nonzero(np.frombuffer(text, dtype=np.uint8) == ord("\n")))


def shown(token: bytes) -> str:
    """Quote a token for a message; long ones are shortened."""
    text = token.decode("utf-8", "replace")
    return repr(text if len(text) <= 40 else text[:37] + "...")


def utf8(token: bytes, line: int, what: str = "") -> str:
    """Return the text of a token, or raise LineProblem with ``what`` if it is not in UTF-8."""
    try:
        return token.decode()
    except UnicodeDecodeError:
        expected = f"{what}: expected" if what else "expected"
        raise LineProblem(
            line, f"{expected} text in UTF-8 (iconv -f latin1 -t utf8 FILE), got {shown(token)}"
        ) from None


def is_number(token: bytes) -> bool:
    """Whether a token is written as a number, finite or not."""
    try:
        float(token)
    except ValueError:
        return False
    return b"_" not in token


def finite_number(token: bytes, line: int, what: str, fault: Fault = Fault.OTHER) -> float:
    """Return a finite number, or raise LineProblem with ``what``, of this ``fault`` if it is no number."""
    value = float(token) if is_number(token) else None
    if value is None:
        mark = token.startswith(codecs.BOM_UTF8)
        why = "; the file begins with a byte order mark: remove it (tail -c +4)" if mark else ""
        raise LineProblem(line, f"expected {what} to be a number, got {shown(token)}{why}", fault)
    if not math.isfinite(value):
        raise LineProblem(line, f"expected {what} to be finite, got {shown(token)}")
    return value
