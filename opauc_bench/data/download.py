"""Transfers over http: with further tries, from where an interrupted one ended; and what an address would give."""

from __future__ import annotations

import gzip
import hashlib
import re
import ssl
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path

from ..errors import DataError
from .content import DAMAGED
from .sources import Notify

__all__ = ["Answer", "SourceMissing", "ask", "clear_downloads", "download"]

TIMEOUT = 30.0  # seconds without a byte
TRIES = 3
WAIT = 1.0  # seconds before the second try, doubled for each further one
LONGEST_WAIT = 60.0  # seconds, if the server asks for more than that
_LONG_WAIT = 5.0  # seconds from which on it is said
REPORT_EVERY = 5.0  # seconds between progress messages
_CHUNK = 1 << 16
_PREFIX = ".download-"
# What is kept is continued as it is sent: the server should not compress it. Some do.
_HEADERS = {"Accept-Encoding": "identity"}
_GZIP = frozenset({"gzip", "x-gzip"})
_UNREADABLE = frozenset({"br", "compress", "deflate", "x-compress", "zstd"})  # other words change no byte


class _BrokenOff(Exception):
    """A transfer that cannot go on; the text says why."""


class SourceMissing(Exception):
    """A source does not have the file; the text says why, ``answered`` whether a server responded."""

    def __init__(self, reason: str, answered: bool = False):
        super().__init__(reason)
        self.answered = answered


def download(address: str, folder: Path, limit: int, what: str, notify: Notify) -> Path:
    """Download an http address into a folder, and return the file, which the caller moves away.

    It is tried again after failures that may be temporary. What has come is kept, also when the process is killed, and
    the next call asks for the rest only, if the server says that the file is still the same one (an entity tag or a
    time, with ``If-Range``).

    Parameters
    ----------
    address : str
    folder : Path
    limit : int
        Bytes that are accepted.
    what : str
        Name for messages.
    notify : callable
        Called with a message every few seconds; if it has a method ``bar``, that may return a bar instead.

    Raises
    ------
    SourceMissing
        If there is no file, connection or answer, or the transfer breaks off.
    DataError
        Above ``limit`` bytes.
    """
    import requests
    import urllib3

    kept = _Kept(folder / f"{_PREFIX}{hashlib.sha256(address.encode()).hexdigest()[:16]}")
    for attempt in range(TRIES):
        try:
            with _Progress(what, limit, notify) as progress:
                _transfer(address, kept, progress)
            return kept.path
        except DataError:
            kept.discard()
            raise
        # A server may redirect to an address that is none, which is a plain ValueError.
        except (requests.RequestException, urllib3.exceptions.HTTPError, ValueError, _BrokenOff) as error:
            failure, wait = _failure(error, address)
            if wait is None or attempt + 1 == TRIES:
                break
            wait = max(wait, WAIT * 2**attempt)
            if wait >= _LONG_WAIT:
                notify(f"{what}: {failure}; trying again in {wait:.0f} s")
            time.sleep(wait)
    if kept.size and kept.version:
        failure.args = (f"{failure}; the same command continues after {kept.size / 1e6:.1f} MB",)
    raise failure


def _failure(error, address: str) -> tuple[SourceMissing, float | None]:
    """What went wrong, and the seconds that the server wants to pass before a further try; None if none may succeed."""
    import requests

    if isinstance(error, _BrokenOff):
        return SourceMissing(f"the transfer broke off: {error}"), 0.0
    if isinstance(error, requests.HTTPError) and error.response is not None:
        status, wait = error.response.status_code, _seconds_to_wait(error.response)
        reason = f"HTTP status {status}" + (f", to be asked again in {wait:,.0f} s" if wait > LONGEST_WAIT else "")
        may_succeed = (status >= 500 or status in (416, 429)) and wait <= LONGEST_WAIT
        return SourceMissing(reason, answered=True), wait if may_succeed else None
    cause = error
    while cause.__context__ is not None:
        cause = cause.__context__
    because = f" ({cause.strerror})" if isinstance(cause, OSError) and cause.strerror else ""
    # An invalid address, or one of an unknown kind, is a ValueError too.
    lasts = isinstance(error, (requests.TooManyRedirects, ValueError))
    if isinstance(error, (requests.exceptions.ProxyError, requests.exceptions.InvalidProxyURL)):
        reason = f"no connection by the proxy {_proxy(address)}{because}"
    elif isinstance(error, requests.exceptions.SSLError):
        reason = f"no secure connection{because}"
    elif lasts:
        reason = str(error)
    elif isinstance(error, requests.Timeout):
        reason = f"no answer in {TIMEOUT:g} s"
    elif "timed out" in str(error).lower():  # a stalled transfer is not a Timeout
        reason = "the transfer stalled"
    elif isinstance(error, requests.ConnectionError):
        reason = f"no connection{because}"
    else:
        reason = f"the transfer broke off ({type(error).__name__})"
    return SourceMissing(reason), None if lasts or isinstance(cause, ssl.SSLCertVerificationError) else 0.0


def _seconds_to_wait(response) -> float:
    """What Retry-After says, as seconds or as a date; 0 without."""
    text = response.headers.get("Retry-After", "")
    if text.isdecimal():
        return float(text)
    try:
        return max(0.0, (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds())
    except (TypeError, ValueError):  # no date, or one without a time zone
        return 0.0


def _proxy(address: str) -> str:
    """The proxy that is set for an address, without a password."""
    from requests.utils import get_environ_proxies, select_proxy

    scheme, _, place = (select_proxy(address, get_environ_proxies(address)) or "").rpartition("://")
    return f"{scheme}://{place.rpartition('@')[2]}" if scheme else place.rpartition("@")[2]


def _transfer(address: str, kept: _Kept, progress: _Progress) -> None:
    """Ask for a file, or for the rest of it, and add what comes to what is kept."""
    import requests

    start, version = kept.size, kept.version
    wanted = {"Range": f"bytes={start}-", "If-Range": version} if start and version else {}
    with requests.get(address, headers=_HEADERS | wanted, stream=True, timeout=TIMEOUT) as response:
        if response.status_code == 416:  # no byte is left, or the file is shorter now
            kept.discard()
        response.raise_for_status()
        if response.status_code != 206:
            start = 0
        elif (
            not response.headers.get("Content-Range", "").startswith(f"bytes {start}-")
            or _version(response) not in ("", version)  # some servers ignore If-Range
            or kept.whole not in (0, _size(response, start))
        ):
            kept.discard()
            raise _BrokenOff("another part, or another version, than the one that was asked for")
        codings = _codings(response)
        if unreadable := _unreadable(codings):
            raise requests.exceptions.InvalidHeader(unreadable)
        pieces, size = response.raw.stream(_CHUNK, decode_content=False), _size(response, start)
        if codings & _GZIP:  # by Python's reader: that of urllib3 takes content that ends too soon
            pieces, size = iter(partial(gzip.GzipFile(fileobj=response.raw).read, _CHUNK), b""), 0
        kept.begin(start, _version(response), size)
        progress.begin(start, size)
        try:
            with kept.path.open("ab") as out:
                for piece in pieces:
                    progress.add(len(piece))
                    out.write(piece)
        except DAMAGED as error:
            kept.discard()
            raise _BrokenOff(f"the compressed content is damaged ({error})") from None
        if kept.size < size:  # some servers send less of a part than they were asked for
            raise _BrokenOff(f"expected {size:,} bytes, got {kept.size:,}")


def _codings(response) -> set[str]:
    return {word.strip().lower() for word in response.headers.get("Content-Encoding", "").split(",")}


def _unreadable(codings: set[str]) -> str:
    """What is wrong with the codings of an answer; empty if it can be read."""
    found = sorted(codings & _UNREADABLE)
    return f"encoded as {found[0]}, which was not asked for" if found else ""


def _size(response, start: int) -> int:
    """Bytes of the whole file, or 0."""
    if in_part := re.fullmatch(r"bytes \d+-\d+/(\d+)", response.headers.get("Content-Range", "")):
        return int(in_part[1])
    length = response.headers.get("Content-Length", "")
    return start + int(length) if length.isdecimal() else 0


def _version(response) -> str:
    """What tells this file from later ones at the address: a strong entity tag or a time; empty without both."""
    headers = response.headers
    if headers.get("Accept-Ranges") == "none" or headers.get("Content-Encoding", "identity") != "identity":
        return ""
    tag = headers.get("ETag", "")
    return tag if tag.startswith('"') else headers.get("Last-Modified", "")


@dataclass(frozen=True)
class _Kept:
    """What an interrupted transfer has left, with the version of the file that it is part of."""

    path: Path

    @property
    def _note(self) -> Path:
        return self.path.with_name(f"{self.path.name}.version")

    @property
    def size(self) -> int:
        return self.path.stat().st_size if self.path.is_file() else 0

    @property
    def version(self) -> str:
        return self._noted[0]

    @property
    def whole(self) -> int:
        """Bytes of the whole file, or 0."""
        return int(self._noted[1])

    @property
    def _noted(self) -> tuple[str, str]:
        try:
            version, _, whole = self._note.read_text("latin-1").partition("\n")
        except OSError:
            return "", "0"
        return (version, whole) if whole.isdecimal() else ("", "0")

    def begin(self, start: int, version: str, whole: int) -> None:
        """Keep the first ``start`` bytes of this version, a file of ``whole`` bytes."""
        noted = version if not start or version else self.version
        with self.path.open("ab") as file:  # first, so that bytes of an older version never stand beside a newer note
            file.truncate(start)
        self._note.write_text(f"{noted}\n{whole}", "latin-1")

    def discard(self) -> None:
        self.path.unlink(missing_ok=True)
        self._note.unlink(missing_ok=True)


def clear_downloads(folder: Path) -> None:
    """Remove what interrupted transfers have left in a folder."""
    for leftover in folder.glob(f"{_PREFIX}*"):
        leftover.unlink()


class _Progress:
    """Progress of a transfer: a bar, or a message every few seconds; and an error above the size limit."""

    def __init__(self, what: str, limit: int, notify: Notify):
        self._what, self._limit, self._notify = what, limit, notify
        self._done, self._total, self._last = 0, 0, time.monotonic()
        self._bar = None

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *_) -> None:
        if self._bar is not None:
            self._bar.stop()

    def begin(self, done: int, total: int) -> None:
        """Begin after so many bytes of so many; 0 where they are not known."""
        self._done, self._total = done, total
        bar = getattr(self._notify, "bar", None)
        self._bar = bar(self._what, done, total) if bar else None
        if done:
            self._notify(f"{self._what}: continuing after {done / 1e6:.1f} MB")
        self._check_size(max(done, total))

    def add(self, size: int) -> None:
        self._done += size
        self._check_size(self._done)
        if self._bar is not None:
            self._bar.update(self._done)
        elif time.monotonic() - self._last >= REPORT_EVERY:
            self._last = time.monotonic()
            of = f" of {self._total / 1e6:.1f}" if self._total else ""
            self._notify(f"{self._what}: {self._done / 1e6:.1f}{of} MB")

    def _check_size(self, size: int) -> None:
        if size > self._limit + (1 << 20):
            raise DataError(f"{self._what}: expected a download of at most {self._limit:,} bytes, got more")


@dataclass(frozen=True)
class Answer:
    """What an address would give."""

    good: bool  # whether there is a file
    text: str  # the HTTP status, or why there was none
    size: int | None = None  # bytes of the file as it is sent, where the server says it
    resumes: bool = False  # whether an interrupted transfer could go on


def ask(address: str, timeout: float = 10.0) -> Answer:
    """Ask an http address for its size, without the file: for one byte of it, of which most servers know the whole."""
    import requests
    import urllib3

    headers = _HEADERS | {"Range": "bytes=0-0"}
    try:
        with requests.get(address, headers=headers, stream=True, timeout=timeout) as response:
            if response.status_code not in (200, 206):
                return Answer(False, f"HTTP {response.status_code}")
            if response.headers.get("Content-Type", "").startswith("text/html"):
                return Answer(False, "an HTML page")
            if unreadable := _unreadable(_codings(response)):
                return Answer(False, unreadable)
            if response.status_code == 206:
                in_part = re.fullmatch(r"bytes 0-\d+/(\d+|\*)", response.headers.get("Content-Range", ""))
                if in_part is None:
                    return Answer(False, "HTTP 206 without the range that was asked for")
                return Answer(True, "ok", None if in_part[1] == "*" else int(in_part[1]), bool(_version(response)))
            if response.headers.get("Content-Length") == "0":
                return Answer(False, "an empty file")
            return Answer(True, "ok", _size(response, 0) or None)
    except requests.Timeout:
        return Answer(False, f"no answer in {timeout:g} s")
    except (requests.RequestException, urllib3.exceptions.HTTPError, ValueError) as error:
        return Answer(False, str(_failure(error, address)[0]))
