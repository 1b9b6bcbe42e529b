"""Uncompressed content of gzip, bzip2 and xz: several members one after the other, and nothing else.

The readers of Python's library end where a second member of bzip2 or xz is damaged, as if the file ended there. Here
all of a file has to make sense.
"""

import bz2
import gzip
import io
import lzma
import re
import zlib
from collections.abc import Callable
from typing import Any, BinaryIO

__all__ = ["DAMAGED", "decompressed", "suffix_of"]

DAMAGED = (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile)  # and an OSError without a number, of bz2
_MOST_MEMORY = 1 << 29  # bytes for xz: its strongest setting takes 65 MiB, a hostile file could ask for 4 GiB
_READ = 1 << 16

_MAGIC = (
    (re.compile(rb"\xfd7zXZ\x00"), ".xz"),
    (re.compile(rb"BZh[1-9](?:1AY&SY|\x17\x72\x45\x38\x50\x90)", re.DOTALL), ".bz2"),
    (re.compile(rb"\x1f\x8b\x08"), ".gz"),
)


def suffix_of(head: bytes) -> str:
    """Return the suffix of the compression that the first 16 bytes of a file tell of."""
    return next((suffix for magic, suffix in _MAGIC if magic.match(head)), "")


def decompressed(stream: BinaryIO) -> BinaryIO:
    """Return the uncompressed content of a binary stream, for reading; its first bytes decide about the compression."""
    if not hasattr(stream, "peek"):
        stream = io.BufferedReader(stream)
    suffix = suffix_of(stream.peek(16)[:16])
    return _Members(stream, *_DECODERS[suffix]) if suffix else stream


class _Gzip:
    """zlib's decoder of one gzip member, with the methods of those of bz2 and lzma."""

    def __init__(self):
        self._decoder = zlib.decompressobj(wbits=31)

    @property
    def eof(self) -> bool:
        return self._decoder.eof

    @property
    def needs_input(self) -> bool:
        return not self._decoder.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._decoder.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return self._decoder.decompress(self._decoder.unconsumed_tail + data, max_length)


_DECODERS = {
    ".gz": (_Gzip, True),
    ".bz2": (bz2.BZ2Decompressor, False),
    ".xz": (lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MOST_MEMORY), True),
}


class _Members(io.RawIOBase):
    """Compressed members as one stream.

    Parameters
    ----------
    stream : binary file
    decoder : callable
        Makes a decoder for one member.
    padded : bool
        Whether zeros may follow a member.
    """

    def __init__(self, stream: BinaryIO, decoder: Callable[[], Any], padded: bool):
        super().__init__()
        self._stream, self._new, self._padded = stream, decoder, padded
        self._decoder, self._rest = decoder(), b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """Read at most ``size`` bytes; fewer are no sign of the end, none are."""
        if size < 0:
            return self.readall()
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

    def readall(self) -> bytes:
        return b"".join(iter(lambda: self.read(_READ), b""))

    def _next_member(self) -> bool:
        """Begin with what follows the end of a member; tell whether there is anything."""
        left = self._decoder.unused_data
        while True:
            left = left.lstrip(b"\0") if self._padded else left
            if left:
                break
            if not (left := self._stream.read(_READ)):
                return False
        self._decoder, self._rest = self._new(), left
        return True
