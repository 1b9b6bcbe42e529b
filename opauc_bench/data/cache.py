"""The files of a dataset on this machine: in the cache, in mirror folders, and what is noted about them."""

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from ..errors import DataError
from .content import SUFFIXES, digest
from .entry import DatasetEntry, FileSpec, Form
from .sources import Notify, Sources, is_remote, local_path

__all__ = [
    "LocalFile",
    "RawFile",
    "cache_error",
    "is_local",
    "local_files",
    "locked",
    "lost_files",
    "part_file",
    "stamp_of",
]

_LARGEST_FILE = 1 << 36
_ELSEWHERE = "a file of this name, but from another address"


@dataclass(frozen=True)
class RawFile:
    """A verified file in the cache."""

    path: Path  # possibly compressed
    name: str  # as in the catalogue
    sha256: str  # of the uncompressed content
    limit: int  # bytes of uncompressed content that readers accept
    confirmed: bool  # whether the content is known to be that of the official file
    source: str  # the official address, "mirror", "file" (a local address), or "unknown" (put into the cache by hand)
    origin: Path | None = None  # the user's own file of which this is a copy, if it still exists
    is_new: bool = False  # whether it was fetched just now

    @property
    def place(self) -> Path:
        """The path for messages: a user's own file is corrected where it is, not in the cache."""
        return self.origin or self.path


@dataclass(frozen=True)
class LocalFile:
    """One file of a dataset, and where it is on this machine; no path that is returned has been verified."""

    entry: DatasetEntry
    file: FileSpec
    sources: Sources

    @property
    def folder(self) -> Path:
        """The folder of the downloaded file; entries that use files of their base share that of the base."""
        return self.sources.cache / self.entry.home_of(self.file) / "raw"

    @property
    def limit(self) -> int:
        """Accepted bytes of content: four times the known size, else 32 per number (enough for text), up to 64 GiB."""
        if self.file.bytes:
            return 4 * self.file.bytes
        # A table may have columns that are left out.
        if self.entry.has_own_data or self.entry.n_samples is None or self.entry.n_features is None:
            return _LARGEST_FILE
        return min(32 * self.entry.n_samples * (self.entry.n_features + 16) + 2**20, _LARGEST_FILE)

    @property
    def cached(self) -> Path | None:
        """The cache's copy."""
        return _variant(self.folder, self.file.name)

    @property
    def current(self) -> Path | None:
        """The cache's copy, unless the file at its address has changed."""
        return None if self.outdated else self.cached

    @property
    def elsewhere(self) -> Path | None:
        """The file at a ``file://`` address, or a copy in a mirror folder."""
        found = (self.in_mirror(local_path(mirror)) for mirror in self.sources.mirrors if not is_remote(mirror))
        return self.origin or next(filter(None, found), None)

    def in_mirror(self, mirror: Path) -> Path | None:
        """A mirror folder's copy, under the file's name or its path in the archive."""
        names = filter(None, (self.file.name, self.file.member))
        return next(filter(None, (_variant(mirror / self.entry.home, name) for name in names)), None)

    @property
    def origin(self) -> Path | None:
        """The first ``file://`` address that is an existing file."""
        return next(filter(os.path.isfile, self._addresses), None)

    @property
    def _addresses(self) -> list[Path]:
        return [local_path(url) for url in self.file.urls if not is_remote(url)]

    @property
    def outdated(self) -> str:
        """Why the cache's copy is not the file of the entry, as far as that shows without the network; empty if it is.

        Users edit their own files and the addresses of an entry, and two catalogues may use the same dataset name.
        """
        if self.file.confirmed:
            return ""
        note, origin = self.note, self.origin
        source = note.get("source")
        if source is None:  # put into the cache by hand, or removed with its note
            return f"{origin} has not been read" if origin and not self.cached else ""
        elsewhere = f"{_ELSEWHERE} ({note.get('origin', source)})"
        if source != "file":
            is_known = self.file.sha256 is not None and self.file.sha256 == note.get("sha256")
            from_mirror = source == "mirror" and origin is None
            return "" if is_known or from_mirror or source in self.file.urls else elsewhere
        is_same = note.get("origin") in (None, *map(str, self._addresses))
        if origin is None:
            return "" if is_same else elsewhere
        stamp, is_noted = stamp_of(origin), note.get("origin", str(origin)) == str(origin)
        if note.get("stamp") == stamp and is_noted:
            return ""
        with contextlib.suppress(DataError):  # reported when the file is fetched
            if digest(origin, self.limit)[0] == note.get("sha256"):
                if is_noted:
                    with contextlib.suppress(OSError):  # so that the next command does not have to read it
                        self.write_note(note | {"stamp": stamp})
                return ""
        return f"{origin} has changed since it was read" if is_same else elsewhere

    @property
    def is_unknown(self) -> bool:
        """Whether nothing says which of the user's own files the arrays in the cache are of: no copy, and no note."""
        return self.entry.has_own_data and not (self.cached or self.note.get("sha256"))

    @property
    def foreign(self) -> str:
        """What the cache's copy is, if it is not of this entry, but of another one with the same names; else empty."""
        return outdated if (outdated := self.outdated).startswith(_ELSEWHERE) else ""

    @property
    def lost(self) -> str:
        """The local address of the cache's copy, if there is no file any more; else empty."""
        note = self.note
        is_lost = note.get("source") == "file" and self.origin is None and not self.outdated
        path = note.get("origin", "")
        return path if is_lost and not os.path.isfile(path) else ""

    @property
    def note(self) -> dict[str, str]:
        """What was noted about the file when it was fetched; may be empty."""
        try:
            note = json.loads(_note_path(self.folder, self.file.name).read_text("utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        return note if isinstance(note, dict) and all(isinstance(value, str) for value in note.values()) else {}

    def write_note(self, note: dict[str, str]) -> None:
        with part_file(self.folder) as part:
            part.write_text(json.dumps(note), "utf-8")
            part.chmod(0o644)
            os.replace(part, _note_path(self.folder, self.file.name))

    def checked(self, path: Path) -> str:
        """Return the hash of a file's content; raise DataError if the catalogue has another, confirmed one."""
        sha256, size = digest(path, self.limit)
        if self.file.confirmed and sha256 != self.file.sha256:
            expected = f"sha256 {self.file.sha256}" + (f" ({self.file.bytes:,} bytes)" if self.file.bytes else "")
            raise DataError(f"{path}: expected {expected}, got {sha256} ({size:,} bytes)")
        return sha256

    def check_cached(self, path: Path) -> RawFile:
        """Hash a file of the cache again; raise DataError if it has changed since it was fetched, or see `checked`."""
        sha256, note = self.checked(path), self.note
        if note.get("sha256", sha256) != sha256:
            raise DataError(f"{path}: expected sha256 {note['sha256']} as it was fetched, got {sha256}")
        return self.raw(path, sha256, note.get("source", "unknown"))

    def raw(self, path: Path, sha256: str, source: str) -> RawFile:
        """Describe a file that has been verified."""
        confirmed = self.file.confirmed and sha256 == self.file.sha256
        origin = self.origin if source == "file" else None
        return RawFile(path, self.file.name, sha256, self.limit, confirmed, source, origin)


def local_files(entry: DatasetEntry, form: Form, sources: Sources) -> list[LocalFile]:
    """Return the files of a form, in their order."""
    return [LocalFile(entry, file, sources) for file in form.all_files]


def is_local(entry: DatasetEntry, form: Form, sources: Sources) -> bool:
    """Whether all files of a form are in the cache, in mirror folders or at local addresses."""
    return all(file.current or file.elsewhere for file in local_files(entry, form, sources))


def cache_error(entry: DatasetEntry, sources: Sources, error: OSError) -> DataError:
    """The error of a cache that cannot be read or written."""
    return DataError(
        f"{entry.name}: the cache {sources.cache} cannot be used: {error.strerror or error}",
        "set OPAUC_BENCH_CACHE to a writable folder with enough space",
    )


def lost_files(entry: DatasetEntry, sources: Sources) -> list[str]:
    """Return the paths of the user's own files that have been removed since they were copied into the cache."""
    return [file.lost for form in entry.forms for file in local_files(entry, form, sources) if file.lost]


def stamp_of(path: Path) -> str:
    """Return path, size and time of a file; if they are unchanged, its content is not read again."""
    found = path.stat()
    return f"{path} {found.st_size} {found.st_mtime_ns}"


def _variant(folder: Path, name: str) -> Path | None:
    """Return the file of that name, plain or compressed."""
    candidates = (folder / (name + suffix) for suffix in SUFFIXES)
    return next(filter(os.path.isfile, candidates), None)  # Path.is_file() raises errors for unreadable folders


def _note_path(folder: Path, name: str) -> Path:
    return folder / f".{name}.json"


@contextlib.contextmanager
def locked(entry: DatasetEntry, sources: Sources, notify: Notify) -> Iterator[None]:
    """Hold the locks of a dataset's files and of its arrays; another process that wants one of them waits.

    Datasets that share files share the first lock. Another catalogue may have a dataset of this name that shares none.
    """
    with contextlib.ExitStack() as held:
        for name in sorted({entry.home, entry.name}):  # in one order, so that two processes do not wait for each other
            folder = sources.cache / name
            folder.mkdir(parents=True, exist_ok=True)
            lock = FileLock(folder / ".lock")
            try:
                held.enter_context(lock.acquire(blocking=False))
            except Timeout:
                notify(f"{entry.name}: waiting for another process that prepares it")
                held.enter_context(lock.acquire())
        yield


@contextlib.contextmanager
def part_file(folder: Path) -> Iterator[Path]:
    """Yield a new file, and remove it afterwards unless it was moved away."""
    handle, name = tempfile.mkstemp(prefix=".part-", dir=folder)
    os.close(handle)
    try:
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)
