"""Get a dataset's files: from the cache, then from mirrors, then from the official addresses.

A file keeps the compression in which it came. Nothing enters the cache before its content has been checked,
and it enters by a rename, so that a killed process leaves either the old file or the new one.
"""

import contextlib
import fcntl
import json
import os
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ..errors import DataError, DataUnavailable
from .catalogue import DatasetEntry, FileSpec, Form
from .content import SUFFIXES, digest, suffix_of
from .download import Notify, Unreachable, download
from .sources import Sources, is_remote, local_path

__all__ = [
    "RawFile",
    "cached_file",
    "changed_at_origin",
    "check_cached",
    "discard",
    "fetch_form",
    "local_file",
    "local_origin",
    "locked",
]


@dataclass(frozen=True)
class RawFile:
    """A checked file in the cache.

    Attributes
    ----------
    path : Path
        Possibly compressed.
    name : str
        As in the catalogue.
    sha256 : str
        Of the uncompressed content.
    limit : int
        Bytes of uncompressed content that are believed.
    confirmed : bool
        Whether the content is known to be that of the official file.
    source : str
        The official address, ``"mirror"``, ``"file"`` (a local address of the catalogue), or ``"unknown"``
        for a file that somebody put into the cache.
    """

    path: Path
    name: str
    sha256: str
    limit: int
    confirmed: bool
    source: str


class _Missing(Exception):
    """A source does not have the file; the text says why."""


# ------------------------------------------------------------------------------------------ what is where


def raw_folder(entry: DatasetEntry, sources: Sources) -> Path:
    """Return the folder of a dataset's downloaded files."""
    return sources.cache / entry.name / "raw"


def size_limit(entry: DatasetEntry, file: FileSpec) -> int:
    """Return how many bytes of uncompressed content are believed.

    Four times the known size, else 32 bytes for each number of the table: more than any text format needs.
    """
    return 4 * file.bytes if file.bytes else 32 * entry.n_samples * (entry.n_features + 16) + 2**20


def cached_file(entry: DatasetEntry, file: FileSpec, sources: Sources) -> Path | None:
    """Return the cache's copy of a file, unchecked, or None."""
    return _variant(raw_folder(entry, sources), file)


def local_file(entry: DatasetEntry, file: FileSpec, sources: Sources) -> Path | None:
    """Return a copy of a file in a mirror folder or at a ``file://`` address, unchecked, or None."""
    folders = [local_path(mirror) / entry.name for mirror in sources.mirrors if not is_remote(mirror)]
    found = [_variant(folder, file) for folder in folders]
    return next(filter(None, [*found, local_origin(file)]), None)


def local_origin(file: FileSpec) -> Path | None:
    """Return the first ``file://`` address of a file that leads to one, as a path, or None."""
    paths = (local_path(url) for url in file.urls if not is_remote(url))
    return next((path for path in paths if path.is_file()), None)


def changed_at_origin(entry: DatasetEntry, file: FileSpec, sources: Sources) -> bool:
    """Whether a file that was copied from a ``file://`` address has other content there now.

    Such a file is a user's own and may still be worked on; the copy in the cache must not stand for it for ever.
    """
    origin = None if file.confirmed else local_origin(file)
    if origin is None:
        return False
    note = _read_note(raw_folder(entry, sources), file)
    if note.get("source") != "file" or note.get("stamp") == _stamp(origin):
        return False
    try:
        return digest(origin, size_limit(entry, file))[0] != note.get("sha256")
    except DataError:  # what is wrong with it is told when it is fetched
        return True


def _stamp(path: Path) -> str:
    """Size and time of a file: where they are the same, its content is not read again."""
    found = path.stat()
    return f"{path} {found.st_size} {found.st_mtime_ns}"


def _variant(folder: Path, file: FileSpec) -> Path | None:
    candidates = (folder / (file.name + suffix) for suffix in SUFFIXES)
    return next((path for path in candidates if path.is_file()), None)


@contextlib.contextmanager
def locked(entry: DatasetEntry, sources: Sources, notify: Notify) -> Iterator[None]:
    """Hold the dataset's lock; another process that wants it waits, and then finds the work done."""
    folder = sources.cache / entry.name
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            notify(f"{entry.name}: waiting for another process that prepares it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield  # closing the file releases the lock


# ------------------------------------------------------------------------------------------ fetching


def fetch_form(entry: DatasetEntry, form: Form, sources: Sources, notify: Notify, fresh: bool = False) -> list[RawFile]:
    """Bring all files of one form into the cache and check them.

    The caller holds the dataset's lock.

    Raises
    ------
    DataUnavailable
        A file is nowhere to be had; every place that was asked is listed.
    DataError
        A file was found, but never with the right content.
    """
    folder = raw_folder(entry, sources)
    folder.mkdir(parents=True, exist_ok=True)
    for leftover in folder.glob(".part-*"):  # of a killed process: nobody else holds the lock
        leftover.unlink()
    return [_File(entry, file, sources, notify).fetch(fresh) for file in form.files]


def check_cached(entry: DatasetEntry, file: FileSpec, path: Path) -> RawFile:
    """Hash a file of the cache again.

    Raises
    ------
    DataError
        It is not what it was when it came, or not what the catalogue promises.
    """
    note = _read_note(path.parent, file)
    sha256 = _checked(path, entry, file)
    if note.get("sha256", sha256) != sha256:
        raise DataError(f"{path}: expected sha256 {note['sha256']} as it was fetched, got {sha256}")
    return _raw(entry, file, path, sha256, note.get("source", "unknown"))


def discard(raw: RawFile) -> None:
    """Drop a file that was let in without the known hash and has proved wrong, so that sources are asked again."""
    raw.path.unlink(missing_ok=True)
    _note_path(raw.path.parent, raw.name).unlink(missing_ok=True)


@dataclass(frozen=True)
class _File:
    """One file of one dataset on its way into the cache."""

    entry: DatasetEntry
    file: FileSpec
    sources: Sources
    notify: Notify

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
                attempts.append(f"{place}: {error.message}")
                self.notify(f"{self.entry.name}: {error.message}; looking further")
            else:
                self._notice_other_content(raw)
                return raw
        raise self._failure(attempts, found_wrong)

    def _steps(self, fresh: bool) -> Iterator[tuple[str, Callable[[], RawFile]]]:
        if not fresh:
            yield "cache", self._from_cache
        for mirror in self.sources.mirrors:
            base = f"{mirror.rstrip('/')}/{self.entry.name}/{self.file.name}"
            if is_remote(mirror):
                addresses = [base + suffix for suffix in SUFFIXES]
                yield f"mirror {mirror}", partial(self._from_web, addresses, "mirror")
            else:
                yield f"mirror {mirror}", partial(self._from_mirror, local_path(mirror))
        for url in self.file.urls:
            if is_remote(url):
                yield url, partial(self._from_web, [url], url)
            else:
                yield url, partial(self._from_path, local_path(url), "file")

    def _from_cache(self) -> RawFile:
        path = cached_file(self.entry, self.file, self.sources)
        if path is None:
            raise _Missing("not there")
        if changed_at_origin(self.entry, self.file, self.sources):
            self.notify(f"{self.entry.name}: {local_origin(self.file)} has changed since it was read")
            raise _Missing("older than the file at its address")
        return check_cached(self.entry, self.file, path)

    def _from_mirror(self, mirror: Path) -> RawFile:
        if not mirror.is_dir():
            self.notify(f"{self.entry.name}: the mirror {mirror} is not a folder")
            raise _Missing("no such folder")
        path = _variant(mirror / self.entry.name, self.file)
        if path is None:
            raise _Missing(f"no {self.entry.name}/{self.file.name}")
        return self._from_path(path, "mirror")

    def _from_path(self, path: Path, source: str) -> RawFile:
        if not path.is_file():
            raise _Missing("no such file")
        with _part(raw_folder(self.entry, self.sources)) as part:
            stamp = _stamp(path)  # before it is read: a change while it is read shows later
            try:
                shutil.copyfile(path, part)
            except PermissionError as error:
                raise _Missing(f"{path}: {error.strerror}") from None
            return self._accept(part, source, path, {"stamp": stamp} if source == "file" else {})

    def _from_web(self, addresses: list[str], source: str) -> RawFile:
        if self.sources.offline:
            raise _Missing("not asked, offline")
        what = f"{self.entry.name}: {self.file.name}"
        reasons: list[str] = []
        for address in addresses:
            with _part(raw_folder(self.entry, self.sources)) as part:
                try:
                    download(address, part, size_limit(self.entry, self.file), what, self.notify)
                except Unreachable as error:
                    reasons.append(str(error))
                    if not error.answered:
                        break
                else:
                    return self._accept(part, source, address)
        raise _Missing("; ".join(dict.fromkeys(reasons)))

    def _accept(self, part: Path, source: str, shown: Path | str, known: dict[str, str] | None = None) -> RawFile:
        """Check a new file and move it to its place, with a note of what is known of it."""
        try:
            if self.file.member is not None:
                _extract(part, self.file.member, size_limit(self.entry, self.file))
            sha256 = _checked(part, self.entry, self.file)
        except DataError as error:
            raise DataError(error.message.replace(str(part), str(shown))) from None
        target = part.parent / (self.file.name + suffix_of(part))
        part.chmod(0o644)
        os.replace(part, target)
        for suffix in SUFFIXES:
            other = part.parent / (self.file.name + suffix)
            if other != target:
                other.unlink(missing_ok=True)
        _write_note(part.parent, self.file, {"sha256": sha256, "source": source, **(known or {})})
        return _raw(self.entry, self.file, target, sha256, source)

    def _notice_other_content(self, raw: RawFile) -> None:
        if self.file.sha256 and raw.sha256 != self.file.sha256:
            self.notify(
                f"{self.entry.name}: {raw.name} (from {raw.source}) is not the copy that the catalogue knows "
                f"(sha256 {raw.sha256}, known {self.file.sha256}); nobody could confirm the official hash, "
                "so counts and ranges decide"
            )

    def _failure(self, attempts: list[str], found_wrong: bool) -> DataError:
        name, file = self.entry.name, self.file
        if not file.urls:
            attempts.append("no official address is known")
        asked = "".join(f"\n  - {attempt}" for attempt in attempts)
        if found_wrong:
            return DataError(
                f"{name}: {file.name}: no source has the expected content{asked}",
                f"{self.entry.fetch_command}  # after mending the source that is wrong",
            )
        hint = f"put the file at <folder>/{name}/{file.name} (or .xz, .bz2, .gz) and pass --mirror <folder>"
        if self.sources.offline:
            hint = f"run without --offline, or {hint}"
        return DataUnavailable(f"{name}: {file.name}: not to be had{asked}", hint)


# ------------------------------------------------------------------------------------------ checking


def _checked(path: Path, entry: DatasetEntry, file: FileSpec) -> str:
    sha256, size = digest(path, size_limit(entry, file))
    if file.confirmed and sha256 != file.sha256:
        expected = f"sha256 {file.sha256}" + (f" ({file.bytes:,} bytes)" if file.bytes else "")
        raise DataError(f"{path}: expected {expected}, got {sha256} ({size:,} bytes)")
    return sha256


def _raw(entry: DatasetEntry, file: FileSpec, path: Path, sha256: str, source: str) -> RawFile:
    confirmed = file.confirmed and sha256 == file.sha256
    return RawFile(path, file.name, sha256, size_limit(entry, file), confirmed, source)


def _extract(part: Path, member: str, limit: int) -> None:
    """Replace an archive by one of its members; a file that is no archive stays as it is."""
    if not tarfile.is_tarfile(part):
        return
    bare = part.with_name(part.name + "-member")
    try:
        with tarfile.open(part) as archive, bare.open("wb") as out:
            info = next((item for item in archive if item.isfile() and Path(item.name).name == member), None)
            if info is None:
                raise DataError(f"{part}: expected a file {member} in the archive, found none")
            if info.size > limit:
                raise DataError(f"{part}: expected {member} of at most {limit:,} bytes, got {info.size:,}")
            shutil.copyfileobj(archive.extractfile(info), out)
        os.replace(bare, part)
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise DataError(f"{part}: the archive is truncated or damaged ({error})") from None
    finally:
        bare.unlink(missing_ok=True)


# ------------------------------------------------------------------------------------------ small files


@contextlib.contextmanager
def _part(folder: Path) -> Iterator[Path]:
    handle, name = tempfile.mkstemp(prefix=".part-", dir=folder)
    os.close(handle)
    try:
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def _note_path(folder: Path, name: str) -> Path:
    return folder / f".{name}.json"


def _read_note(folder: Path, file: FileSpec) -> dict[str, str]:
    try:
        note = json.loads(_note_path(folder, file.name).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return note if isinstance(note, dict) else {}


def _write_note(folder: Path, file: FileSpec, note: dict[str, str]) -> None:
    with _part(folder) as part:
        part.write_text(json.dumps(note), "utf-8")
        part.chmod(0o644)
        os.replace(part, _note_path(folder, file.name))
