"""The uncompressed content of a file, read in pieces, never trusted."""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from ..errors import DataError
from . import compression
from .compression import DAMAGED, decompressed

__all__ = ["SUFFIXES", "chunks", "digest", "pieces", "suffix_of", "text_blocks"]

SUFFIXES = ("", ".xz", ".bz2", ".gz")
CHUNK = 1 << 20

_LONGEST_LINE = 1 << 28  # bytes
_HTML = re.compile(rb"(?:\xef\xbb\xbf)?\s*<(?:!doctype\s+html|html|head|\?xml)\b", re.IGNORECASE)


def suffix_of(path: Path) -> str:
    """Return the compression suffix that fits a file's first bytes (servers and users rename files)."""
    with path.open("rb") as stream:
        return compression.suffix_of(stream.read(16))


def chunks(path: Path, limit: int) -> Iterator[bytes]:
    """Yield the uncompressed content of a file, at most 1 MiB at a time.

    Parameters
    ----------
    path : Path
        Plain, xz, bzip2 or gzip; the first bytes decide.
    limit : int
        More bytes than this are refused: a small file can decompress into something that fills the disk.

    Raises
    ------
    DataError
        The file is truncated or damaged, larger than the limit, or cannot be read.
    """
    total = 0
    try:
        stream = path.open("rb")
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from None
    with stream:
        for piece in pieces(decompressed(stream), str(path)):
            total += len(piece)
            if total > limit:
                raise DataError(
                    f"{path}: expected at most {limit:,} bytes of uncompressed content, got more; if that is right, "
                    "say how many with 'bytes:' for this file in the catalogue"
                )
            yield piece


def pieces(stream: BinaryIO, name: str) -> Iterator[bytes]:
    """Yield what a stream of `decompressed` has, at most 1 MiB at a time.

    Raises
    ------
    DataError
        The stream is truncated or damaged, or cannot be read.
    """
    while True:
        try:
            piece = stream.read(CHUNK)
        except DAMAGED as error:
            raise DataError(f"{name}: the compressed file is truncated or damaged ({error})") from None
        except OSError as error:
            damaged = error.errno is None  # bz2 reports a damaged stream as a bare OSError
            what = "the compressed file is truncated or damaged" if damaged else "cannot be read"
            raise DataError(f"{name}: {what} ({error.strerror or error})") from None
        if not piece:
            return
        yield piece


def text_blocks(source: Iterator[bytes], size: int, name: str) -> Iterator[tuple[int, bytes]]:
    """Yield pieces of at least ``size`` bytes that end with a line, each with the number of its first line.

    Raises
    ------
    DataError
        The content is no text: it has a NUL byte, or a line that is longer than any data and must not fill the memory.
    """
    first_line, pending, held = 1, [], 0
    for piece in source:
        if b"\0" in piece:
            line = first_line + b"".join([*pending, piece.partition(b"\0")[0]]).count(b"\n")
            raise DataError(f"{name}:{line}: expected text, got a NUL byte: a binary file, or text in UTF-16")
        pending.append(piece)
        held += len(piece)
        if held >= size and b"\n" in piece:
            text, _, rest = b"".join(pending).rpartition(b"\n")
            yield first_line, text
            first_line += text.count(b"\n") + 1
            pending, held = [rest], len(rest)
        elif held > size + _LONGEST_LINE:
            raise DataError(f"{name}:{first_line}: expected a line end within {_LONGEST_LINE:,} bytes, got none")
    if text := b"".join(pending):
        yield first_line, text


def digest(path: Path, limit: int) -> tuple[str, int]:
    """Return the SHA-256 (hex) and the size in bytes of the uncompressed content.

    Raises
    ------
    DataError
        As `chunks`; also if the content is empty, or an HTML page where data should be.
    """
    sha256, size, head = hashlib.sha256(), 0, b""
    for piece in chunks(path, limit):
        head = head or piece[:512]
        sha256.update(piece)
        size += len(piece)
    if size == 0:
        raise DataError(f"{path}: expected data, got an empty file")
    if _HTML.match(head):
        raise DataError(f"{path}: expected data, got an HTML page (an error page or a moved address?)")
    return sha256.hexdigest(), size
