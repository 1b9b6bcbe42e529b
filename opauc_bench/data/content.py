"""The uncompressed content of a file, read in pieces, never trusted."""

import bz2
import gzip
import hashlib
import lzma
import re
import zlib
from collections.abc import Iterator
from pathlib import Path

from ..errors import DataError

__all__ = ["SUFFIXES", "chunks", "digest", "suffix_of"]

SUFFIXES = ("", ".xz", ".bz2", ".gz")
CHUNK = 1 << 20

_MAGIC = (
    (re.compile(rb"\xfd7zXZ\x00"), ".xz"),
    (re.compile(rb"BZh[1-9](?:1AY&SY|\x17\x72\x45\x38\x50\x90)", re.DOTALL), ".bz2"),
    (re.compile(rb"\x1f\x8b\x08"), ".gz"),
)
_OPENERS = {"": open, ".xz": lzma.open, ".bz2": bz2.open, ".gz": gzip.open}
_HTML = re.compile(rb"(?:\xef\xbb\xbf)?\s*<(?:!doctype\s+html|html|head|\?xml)\b", re.IGNORECASE)


def suffix_of(path: Path) -> str:
    """Return the compression suffix that fits a file's first bytes (servers and users rename files)."""
    with path.open("rb") as stream:
        head = stream.read(16)
    return next((suffix for magic, suffix in _MAGIC if magic.match(head)), "")


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
        with _OPENERS[suffix_of(path)](path, "rb") as stream:
            while piece := stream.read(CHUNK):
                total += len(piece)
                if total > limit:
                    raise DataError(f"{path}: expected at most {limit:,} bytes of uncompressed content, got more")
                yield piece
    except (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path}: the compressed file is truncated or damaged ({error})") from None
    except OSError as error:
        damaged = error.errno is None  # bz2 reports a damaged stream as a bare OSError
        what = "the compressed file is truncated or damaged" if damaged else "cannot be read"
        raise DataError(f"{path}: {what} ({error.strerror or error})") from None


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
