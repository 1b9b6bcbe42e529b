"""The files of a dataset on this machine: in the cache, in mirror folders, and what is noted about them."""

import contextlib
import fcntl
import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..errors import DataError
from .catalogue import DatasetEntry, FileSpec
from .content import SUFFIXES, digest
from .download import Notify
from .sources import Sources, is_remote, local_path

__all__ = [
    "RawFile",
    "cached_file",
    "changed_at_origin",
    "check_cached",
    "checked",
    "discard",
    "in_mirror",
    "kept_file",
    "local_file",
    "local_origin",
    "locked",
    "part_file",
    "raw_file",
    "raw_folder",
    "size_limit",
    "stamp_of",
    "write_note",
]

_LARGEST_FILE = 1 << 36


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
    origin : Path or None
        The user's own file that this is a copy of, if its source is ``"file"`` and it is still there.
    """

    path: Path
    name: str
    sha256: str
    limit: int
    confirmed: bool
    source: str
    origin: Path | None = None

    @property
    def place(self) -> Path:
        """Where the file is to be looked at and mended: a user's own is where it is, not in the cache."""
        return self.origin or self.path


def raw_folder(entry: DatasetEntry, sources: Sources) -> Path:
    """Return the folder of a dataset's downloaded files; entries with a base share that of the base."""
    return sources.cache / entry.home / "raw"


def size_limit(entry: DatasetEntry, file: FileSpec) -> int:
    """Return how many bytes of uncompressed content are believed.

    Four times the known size, else 32 bytes for each number of the table: more than any text format needs,
    but never more than 64 GiB.
    """
    dense = 32 * entry.n_samples * (entry.n_features + 16) + 2**20
    return 4 * file.bytes if file.bytes else min(dense, _LARGEST_FILE)


def cached_file(entry: DatasetEntry, file: FileSpec, sources: Sources) -> Path | None:
    """Return the cache's copy of a file, unchecked, or None."""
    return variant(raw_folder(entry, sources), file.name)


def kept_file(entry: DatasetEntry, file: FileSpec, sources: Sources) -> Path | None:
    """Return the cache's copy of a file if it still stands for the file at its address, or None."""
    return None if changed_at_origin(entry, file, sources) else cached_file(entry, file, sources)


def local_file(entry: DatasetEntry, file: FileSpec, sources: Sources) -> Path | None:
    """Return a copy of a file in a mirror folder or at a ``file://`` address, unchecked, or None."""
    found = [in_mirror(entry, file, local_path(mirror)) for mirror in sources.mirrors if not is_remote(mirror)]
    return next(filter(None, [*found, local_origin(file)]), None)


def in_mirror(entry: DatasetEntry, file: FileSpec, mirror: Path) -> Path | None:
    """Return a mirror folder's copy of a file, under its name or its path in the archive, or None."""
    names = filter(None, (file.name, file.member))
    return next(filter(None, (variant(mirror / entry.home, name) for name in names)), None)


def local_origin(file: FileSpec) -> Path | None:
    """Return the first ``file://`` address of a file that leads to one, as a path, or None."""
    paths = (local_path(url) for url in file.urls if not is_remote(url))
    return next((path for path in paths if path.is_file()), None)


def changed_at_origin(entry: DatasetEntry, file: FileSpec, sources: Sources) -> bool:
    """Whether a file that was copied from a ``file://`` address has other content there now.

    Such a file is a user's own and may still be worked on; the copy in the cache must not stand for it for ever. Nor
    may it stand for a file at another address that is not there: two catalogues may call their datasets the same.
    """
    note = {} if file.confirmed else read_note(raw_folder(entry, sources), file)
    if note.get("source") != "file":
        return False
    origin = local_origin(file)
    if origin is None:
        known = note.get("origin")
        return known is not None and known not in [str(local_path(url)) for url in file.urls if not is_remote(url)]
    if note.get("stamp") == stamp_of(origin) and note.get("origin", str(origin)) == str(origin):
        return False
    try:
        return digest(origin, size_limit(entry, file))[0] != note.get("sha256")
    except DataError:  # what is wrong with it is told when it is fetched
        return True


def stamp_of(path: Path) -> str:
    """Return size and time of a file: where they are the same, its content is not read again."""
    found = path.stat()
    return f"{path} {found.st_size} {found.st_mtime_ns}"


def variant(folder: Path, name: str) -> Path | None:
    """Return the file of that name, plain or compressed, or None."""
    candidates = (folder / (name + suffix) for suffix in SUFFIXES)
    return next((path for path in candidates if path.is_file()), None)


@contextlib.contextmanager
def locked(entry: DatasetEntry, sources: Sources, notify: Notify) -> Iterator[None]:
    """Hold the dataset's lock; another process that wants it waits, and then finds the work done.

    Datasets that share files share the lock.
    """
    folder = sources.cache / entry.home
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            notify(f"{entry.name}: waiting for another process that prepares it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield  # closing the file releases the lock


# ------------------------------------------------------------------------------------------ checking


def check_cached(entry: DatasetEntry, file: FileSpec, path: Path) -> RawFile:
    """Hash a file of the cache again.

    Raises
    ------
    DataError
        It is not what it was when it came, or not what the catalogue promises.
    """
    note = read_note(path.parent, file)
    sha256 = checked(path, entry, file)
    if note.get("sha256", sha256) != sha256:
        raise DataError(f"{path}: expected sha256 {note['sha256']} as it was fetched, got {sha256}")
    return raw_file(entry, file, path, sha256, note.get("source", "unknown"))


def discard(raw: RawFile) -> None:
    """Drop a file that was let in without the known hash and has proved wrong, so that sources are asked again."""
    raw.path.unlink(missing_ok=True)
    _note_path(raw.path.parent, raw.name).unlink(missing_ok=True)


def checked(path: Path, entry: DatasetEntry, file: FileSpec) -> str:
    """Return the hash of a file's content.

    Raises
    ------
    DataError
        The file is confirmed and this is another content; or it cannot be read.
    """
    sha256, size = digest(path, size_limit(entry, file))
    if file.confirmed and sha256 != file.sha256:
        expected = f"sha256 {file.sha256}" + (f" ({file.bytes:,} bytes)" if file.bytes else "")
        raise DataError(f"{path}: expected {expected}, got {sha256} ({size:,} bytes)")
    return sha256


def raw_file(entry: DatasetEntry, file: FileSpec, path: Path, sha256: str, source: str) -> RawFile:
    """Describe a file that has been checked."""
    confirmed = file.confirmed and sha256 == file.sha256
    origin = local_origin(file) if source == "file" else None
    return RawFile(path, file.name, sha256, size_limit(entry, file), confirmed, source, origin)


# ------------------------------------------------------------------------------------------ small files


@contextlib.contextmanager
def part_file(folder: Path) -> Iterator[Path]:
    """Yield a new file, and remove it afterwards unless it was moved away."""
    handle, name = tempfile.mkstemp(prefix=".part-", dir=folder)
    os.close(handle)
    try:
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def _note_path(folder: Path, name: str) -> Path:
    return folder / f".{name}.json"


def read_note(folder: Path, file: FileSpec) -> dict[str, str]:
    """Return what was noted about a file when it came; empty if nothing was."""
    try:
        note = json.loads(_note_path(folder, file.name).read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return note if isinstance(note, dict) else {}


def write_note(folder: Path, file: FileSpec, note: dict[str, str]) -> None:
    """Note hash and origin of a file beside it."""
    with part_file(folder) as part:
        part.write_text(json.dumps(note), "utf-8")
        part.chmod(0o644)
        os.replace(part, _note_path(folder, file.name))
