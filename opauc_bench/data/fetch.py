"""Fetch a dataset's files: from the cache, then from mirrors, then from the official addresses.

A file keeps its compression. Nothing enters the cache before its content has been verified, and it enters by a rename,
so that a killed process leaves either the old file or the new one.
"""

import contextlib
import os
import shutil
import tarfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ..errors import DataError, DataUnavailable
from .cache import LocalFile, RawFile, part_file, stamp_of
from .catalogue import DatasetEntry, Form
from .content import DAMAGED, SUFFIXES, suffix_of
from .sources import Notify, Sources, is_remote, local_path

__all__ = ["fetch_form"]

TIMEOUT = 30.0  # seconds without a byte
TRIES = 3
WAIT = 1.0  # seconds before the second try, doubled for each further one
REPORT_EVERY = 5.0  # seconds between progress messages
_LARGEST_ARCHIVE = 1 << 32  # bytes


class _Missing(Exception):
    """A source does not have the file; the text says why, ``answered`` whether a server responded."""

    def __init__(self, reason: str, answered: bool = False):
        super().__init__(reason)
        self.answered = answered


def fetch_form(entry: DatasetEntry, form: Form, sources: Sources, notify: Notify, fresh: bool = False) -> list[RawFile]:
    """Bring all files of one form into the cache and verify them; the caller holds the dataset's lock.

    DataUnavailable if no source has a file, DataError if no source has the expected content; both list all attempts.
    """
    folder = sources.cache / entry.home / "raw"
    folder.mkdir(parents=True, exist_ok=True)
    for leftover in folder.glob(".part-*"):  # of a killed process, since this one holds the lock
        leftover.unlink()
    with contextlib.ExitStack() as archives:
        kept: dict[str, Path] = {}
        return [_Fetch(entry, file, sources, notify, archives, kept).fetch(fresh) for file in form.all_files]


@dataclass(frozen=True)
class _Fetch(LocalFile):
    """One file of a dataset that is being fetched.

    Downloaded archives are kept, by address, until all files of the form are there: several may come from one archive.
    """

    notify: Notify
    archives: contextlib.ExitStack
    kept: dict[str, Path]

    def fetch(self, fresh: bool) -> RawFile:
        attempts: list[str] = []
        found_wrong = False
        for place, step in self._steps(fresh):
            try:
                raw = step()
            except _Missing as missing:
                attempts.append(f"{place}: {missing}")
            except DataError as error:
                found_wrong = True
                attempts.append(error.message if error.message.startswith(place) else f"{place}: {error.message}")
                self._say(f"{error.message}; trying the next source")
            else:
                if self.file.sha256 and raw.sha256 != self.file.sha256:
                    self._say(
                        f"{raw.name} (from {raw.source}) is not the file of the catalogue (sha256 {raw.sha256}, "
                        f"expected {self.file.sha256}); that hash is unconfirmed, so only counts and ranges are checked"
                    )
                return raw
        raise self._failure(attempts, found_wrong)

    def _say(self, text: str) -> None:
        self.notify(f"{self.entry.name}: {text}")

    def _steps(self, fresh: bool) -> Iterator[tuple[str, Callable[[], RawFile]]]:
        if not fresh:
            yield "cache", self._from_cache
        for mirror in self.sources.mirrors:
            if is_remote(mirror):
                base = f"{mirror.rstrip('/')}/{self.entry.home}/{self.file.name}"
                yield f"mirror {mirror}", partial(self._from_web, [base + suffix for suffix in SUFFIXES], "mirror")
            else:
                yield f"mirror {mirror}", partial(self._from_mirror, local_path(mirror))
        for url in self.file.urls:
            if is_remote(url):
                yield url, partial(self._from_web, [url], url)
            else:
                yield str(local_path(url)), partial(self._from_path, local_path(url), "file")

    def _from_cache(self) -> RawFile:
        if self.cached is None:
            raise _Missing("not found")
        if self.has_changed:
            if self.origin is None:
                raise _Missing(f"a file of this name, but from another address ({self.cached})")
            self._say(f"{self.origin} has changed since it was read")
            raise _Missing("older than the file at its address")
        return self.check_cached(self.cached)

    def _from_mirror(self, mirror: Path) -> RawFile:
        if not mirror.is_dir():
            self._say(f"the mirror {mirror} is not a folder")
            raise _Missing("no such folder")
        path = self.in_mirror(mirror)
        if path is None:
            raise _Missing(f"no {self.entry.home}/{self.file.name}")
        return self._from_path(path, "mirror")

    def _from_path(self, path: Path, source: str) -> RawFile:
        if not path.is_file():
            raise _Missing("a folder, expected a file" if path.is_dir() else "no such file")
        with part_file(self.folder) as part:
            stamp = stamp_of(path)  # before it is read, so that a change during reading is noticed later
            try:
                shutil.copyfile(path, part)
            except PermissionError as error:
                raise _Missing(f"{path}: {error.strerror}") from None
            return self._accept(part, source, path, {"stamp": stamp, "origin": str(path)} if source == "file" else {})

    def _from_web(self, addresses: list[str], source: str) -> RawFile:
        if self.sources.offline:
            raise _Missing("not tried, offline")
        limit = self.limit if self.file.member is None else _LARGEST_ARCHIVE
        reasons: list[str] = []
        for address in addresses:
            with part_file(self.folder) as part:
                try:
                    if address in self.kept:
                        shutil.copyfile(self.kept[address], part)
                    else:
                        _download(address, part, limit, f"{self.entry.name}: {self.file.name}", self.notify)
                        if self.file.member is not None and _is_archive(part):
                            self.kept[address] = self.archives.enter_context(part_file(self.folder))
                            shutil.copyfile(part, self.kept[address])
                except _Missing as error:
                    reasons.append(str(error))
                    if not error.answered:
                        break
                else:
                    return self._accept(part, source, address, {})
        raise _Missing("; ".join(dict.fromkeys(reasons)))

    def _accept(self, part: Path, source: str, shown: Path | str, known: dict[str, str]) -> RawFile:
        """Verify a new file and move it to its place, with a note of what is known of it."""
        try:
            if self.file.member is not None:
                _extract(part, self.file.member, self.limit)
            sha256 = self.checked(part)
        except DataError as error:
            raise DataError(error.message.replace(str(part), str(shown))) from None
        target = self.folder / (self.file.name + suffix_of(part))
        part.chmod(0o644)
        os.replace(part, target)
        for other in {self.folder / (self.file.name + suffix) for suffix in SUFFIXES} - {target}:
            other.unlink(missing_ok=True)
        self.write_note({"sha256": sha256, "source": source, **known})
        return self.raw(target, sha256, source)

    def _failure(self, attempts: list[str], found_wrong: bool) -> DataError:
        entry, file = self.entry, self.file
        if not file.urls:
            attempts.append("no official address is known")
        asked = "".join(f"\n  - {attempt}" for attempt in attempts)
        if found_wrong:
            hint = f"{entry.fetch_command}  # after correcting the source that is wrong"
            return DataError(f"{entry.name}: {file.name}: no source has the expected content{asked}", hint)
        if file.urls and not any(map(is_remote, file.urls)):
            hint = f"put the file there, or correct its address in {entry.catalogue}"
        else:
            hint = f"put the file at <folder>/{entry.home}/{file.name} (or .xz, .bz2, .gz) and pass --mirror <folder>"
            hint = f"run without --offline, or {hint}" if self.sources.offline else hint
        return DataUnavailable(f"{entry.name}: {file.name}: unavailable{asked}", hint)


def _is_archive(path: Path) -> bool:
    try:
        return tarfile.is_tarfile(path)
    except (ValueError, OverflowError, OSError, *DAMAGED):  # tarfile does not catch all errors of damaged archives
        return False


def _extract(part: Path, member: str, limit: int) -> None:
    """Replace an archive by one of its members; other files stay as they are."""
    if not _is_archive(part):
        return
    with part_file(part.parent) as bare:
        try:
            with tarfile.open(part) as archive, bare.open("wb") as out:
                found = (item for item in archive if item.isfile() and f"/{item.name}".endswith(f"/{member}"))
                info = next(found, None)
                if info is None:
                    raise DataError(f"{part}: expected a file {member} in the archive, found none")
                if info.size > limit:
                    raise DataError(f"{part}: expected {member} of at most {limit:,} bytes, got {info.size:,}")
                shutil.copyfileobj(archive.extractfile(info), out)
            os.replace(bare, part)
        except (tarfile.TarError, ValueError, OverflowError, OSError, *DAMAGED) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise DataError(f"{part}: the archive is truncated or damaged ({error})") from None


def _download(address: str, target: Path, limit: int, what: str, notify: Notify) -> None:
    """Download an http address to a file; try again after failures that may be temporary.

    _Missing if there is no file, connection or answer, or the transfer breaks off; DataError above ``limit``
    bytes.
    """
    import requests
    from pooch import HTTPDownloader

    for attempt in range(TRIES):
        if attempt:
            time.sleep(WAIT * 2 ** (attempt - 1))
        progress = _Progress(what, limit, notify)
        try:
            HTTPDownloader(progressbar=progress, chunk_size=1 << 16, timeout=TIMEOUT)(address, target, None)
            return
        except requests.HTTPError as error:
            status = error.response.status_code
            failure = _Missing(f"HTTP status {status}", answered=True)
            if status < 500 and status != 429:
                break
        except requests.Timeout:
            failure = _Missing(f"no answer in {TIMEOUT:g} s")
        except requests.ConnectionError as error:
            stalled = "timed out" in str(error).lower()  # requests raises ConnectionError for a stalled transfer too
            failure = _Missing("the transfer stalled" if stalled else "no connection")
        except requests.RequestException as error:
            failure = _Missing(f"the transfer broke off ({type(error).__name__})")
    raise failure


class _Progress:
    """The progress bar that pooch updates: a message every few seconds, and an error above the size limit."""

    def __init__(self, what: str, limit: int, notify: Notify):
        self._what, self._limit, self._notify = what, limit, notify
        self.total, self._done, self._last = 0, 0, time.monotonic()

    def update(self, size: int) -> None:
        self._done += size
        if self._done > self._limit + (1 << 20):
            raise DataError(f"{self._what}: expected a download of at most {self._limit:,} bytes, got more")
        if time.monotonic() - self._last >= REPORT_EVERY:
            self._last = time.monotonic()
            of = f" of {self.total / 1e6:.1f}" if self.total else ""
            self._notify(f"{self._what}: {self._done / 1e6:.1f}{of} MB")

    def reset(self) -> None:
        self._done = 0

    close = reset
