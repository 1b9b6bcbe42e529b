"""Get a dataset's files: from the cache, then from mirrors, then from the official addresses.

A file keeps the compression in which it came. Nothing enters the cache before its content has been checked, and
it enters by a rename, so that a killed process leaves either the old file or the new one.
"""

import contextlib
import fcntl
import json
import os
import shutil
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ..errors import DataError, DataUnavailable
from .catalogue import DatasetEntry, FileSpec, Form
from .content import SUFFIXES, chunks, digest, suffix_of
from .sources import Sources, is_remote, local_path

__all__ = ["RawFile", "cached_file", "fetch_form", "locked", "mirrored_file"]

TIMEOUT = 30.0  # seconds without a byte
TRIES = 3
WAIT = 2.0  # seconds before the second try, doubled for each further one
REPORT_EVERY = 5.0  # seconds between progress messages

Notify = Callable[[str], None]


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
        The official address, ``"mirror"``, or ``"unknown"`` for a file that somebody put into the cache.
    """

    path: Path
    name: str
    sha256: str
    limit: int
    confirmed: bool
    source: str


class _Missing(Exception):
    """A source does not have the file; the text says which and why."""


def raw_folder(entry: DatasetEntry, sources: Sources) -> Path:
    """Return the folder of a dataset's downloaded files."""
    return sources.cache / entry.name / "raw"


def size_limit(entry: DatasetEntry, file: FileSpec) -> int:
    """Return how many bytes of uncompressed content are believed.

    Four times the known size, else 32 bytes for each number of the table: more than any text format needs.
    """
    return 4 * file.bytes if file.bytes else 32 * entry.n_samples * (entry.n_features + 16) + 2**20


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


def cached_file(entry: DatasetEntry, file: FileSpec, sources: Sources) -> Path | None:
    """Return the cache's copy of a file, unchecked, or None."""
    return _variant(raw_folder(entry, sources), file)


def mirrored_file(entry: DatasetEntry, file: FileSpec, mirror: str) -> Path | None:
    """Return a file of a mirror folder, unchecked, or None."""
    return None if is_remote(mirror) else _variant(local_path(mirror) / entry.name, file)


def _variant(folder: Path, file: FileSpec) -> Path | None:
    candidates = (folder / (file.name + suffix) for suffix in SUFFIXES)
    return next((path for path in candidates if path.is_file()), None)


def fetch_form(
    entry: DatasetEntry, form: Form, sources: Sources, notify: Notify, fresh: bool = False
) -> list[RawFile]:
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
    return [_fetch_file(entry, file, sources, notify, fresh) for file in form.files]


def _fetch_file(
    entry: DatasetEntry, file: FileSpec, sources: Sources, notify: Notify, fresh: bool
) -> RawFile:
    attempts: list[str] = []
    found_wrong = False
    steps: list[tuple[str, Callable[[], RawFile]]] = []
    if not fresh:
        steps.append(("cache", lambda: _from_cache(entry, file, sources)))
    for mirror in sources.mirrors:
        if not is_remote(mirror):
            steps.append((f"mirror {mirror}", lambda at=mirror: _from_folder(entry, file, at, sources)))
        elif not sources.offline:
            addresses = [f"{mirror.rstrip('/')}/{entry.name}/{file.name}{suffix}" for suffix in SUFFIXES]
            steps.append(
                (
                    f"mirror {mirror}",
                    lambda at=addresses: _from_web(entry, file, at, "mirror", sources, notify),
                )
            )
        else:
            attempts.append(f"mirror {mirror}: not asked, offline")
    for url in file.urls:
        if not is_remote(url):
            steps.append((url, lambda at=url: _from_path(entry, file, local_path(at), sources)))
        elif not sources.offline:
            steps.append((url, lambda at=url: _from_web(entry, file, [at], at, sources, notify)))
        else:
            attempts.append(f"{url}: not asked, offline")
    for place, step in steps:
        try:
            raw = step()
        except _Missing as missing:
            attempts.append(f"{place}: {missing}")
        except DataError as error:
            found_wrong = True
            attempts.append(f"{place}: {error.message}")
            notify(f"{entry.name}: {error.message}; looking further")
        else:
            if file.sha256 and raw.sha256 != file.sha256:
                notify(
                    f"{entry.name}: {file.name} has sha256 {raw.sha256}, the catalogue's unconfirmed copy "
                    f"{file.sha256}; counts and ranges decide"
                )
            return raw
    raise _nowhere(entry, file, sources, attempts, found_wrong)


def _nowhere(
    entry: DatasetEntry, file: FileSpec, sources: Sources, attempts: list[str], found_wrong: bool
) -> DataError:
    if not file.urls:
        attempts.append("no official address is known")
    asked = "".join(f"\n  - {attempt}" for attempt in attempts)
    what = "no source has the expected content" if found_wrong else "not to be had"
    message = f"{entry.name}: {file.name}: {what}{asked}"
    if found_wrong:
        return DataError(message, f"opauc-bench data fetch {entry.name} --fresh")
    place = f"<folder>/{entry.name}/{file.name}"
    hint = f"put the file at {place} (or .xz, .bz2, .gz) and pass --mirror <folder>"
    return DataUnavailable(message, f"run without --offline, or {hint}" if sources.offline else hint)


# ------------------------------------------------------------------------------------ sources


def _from_cache(entry: DatasetEntry, file: FileSpec, sources: Sources) -> RawFile:
    path = cached_file(entry, file, sources)
    if path is None:
        raise _Missing("not there")
    return check_cached(entry, file, path)


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


def _from_folder(entry: DatasetEntry, file: FileSpec, mirror: str, sources: Sources) -> RawFile:
    if not local_path(mirror).is_dir():
        raise _Missing("no such folder")
    path = mirrored_file(entry, file, mirror)
    if path is None:
        raise _Missing(f"no {entry.name}/{file.name}")
    return _from_path(entry, file, path, sources, source="mirror")


def _from_path(
    entry: DatasetEntry, file: FileSpec, path: Path, sources: Sources, source: str = "file"
) -> RawFile:
    if not path.is_file():
        raise _Missing("no such file")
    with _part(raw_folder(entry, sources)) as part:
        try:
            shutil.copyfile(path, part)
        except OSError as error:
            raise DataError(f"{path}: cannot be copied ({error.strerror})") from None
        return _accept(entry, file, part, source, shown=path)


def _from_web(
    entry: DatasetEntry, file: FileSpec, addresses: list[str], source: str, sources: Sources, notify: Notify
) -> RawFile:
    reasons: list[str] = []
    for address in addresses:
        with _part(raw_folder(entry, sources)) as part:
            try:
                _download(address, part, size_limit(entry, file), f"{entry.name}: {file.name}", notify)
            except _Missing as missing:
                reasons.append(str(missing))
                continue
            return _accept(entry, file, part, source, shown=address)
    raise _Missing("; ".join(dict.fromkeys(reasons)))


def _download(address: str, part: Path, limit: int, what: str, notify: Notify) -> None:
    import requests
    from pooch import HTTPDownloader

    failure = ""
    for attempt in range(TRIES):
        if attempt:
            time.sleep(WAIT * 2 ** (attempt - 1))
        progress = _Progress(what, limit, notify)
        try:
            HTTPDownloader(progressbar=progress, chunk_size=1 << 16, timeout=TIMEOUT)(address, part, None)
            return
        except requests.HTTPError as error:
            status = error.response.status_code
            failure = f"HTTP status {status}"
            if status < 500 and status != 429:
                break
        except requests.Timeout:
            failure = f"no answer in {TIMEOUT:g} s"
        except requests.ConnectionError:
            failure = "no connection"
        except requests.RequestException as error:
            failure = f"the transfer broke off ({type(error).__name__})"
    raise _Missing(failure)


class _Progress:
    """Progress bar as pooch wants it: says now and then how far a download is, and stops a runaway one."""

    def __init__(self, what: str, limit: int, notify: Notify):
        self.total = 0
        self._what, self._limit, self._notify = what, limit, notify
        self._done, self._last = 0, time.monotonic()

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

    def close(self) -> None:
        self._done = 0


# ------------------------------------------------------------------------------------ into the cache


@contextlib.contextmanager
def _part(folder: Path) -> Iterator[Path]:
    handle, name = tempfile.mkstemp(prefix=".part-", dir=folder)
    os.close(handle)
    try:
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def _accept(entry: DatasetEntry, file: FileSpec, part: Path, source: str, shown: Path | str) -> RawFile:
    """Check a new file and move it to its place."""
    try:
        if file.member is not None:
            _extract(part, file.member, size_limit(entry, file))
        sha256 = _checked(part, entry, file)
    except DataError as error:
        raise DataError(error.message.replace(str(part), str(shown))) from None
    target = part.parent / (file.name + suffix_of(part))
    part.chmod(0o644)
    os.replace(part, target)
    for suffix in SUFFIXES:
        other = part.parent / (file.name + suffix)
        if other != target:
            other.unlink(missing_ok=True)
    _write_note(part.parent, file, {"sha256": sha256, "source": source})
    return _raw(entry, file, target, sha256, source)


def _checked(path: Path, entry: DatasetEntry, file: FileSpec) -> str:
    sha256, size = digest(path, size_limit(entry, file))
    if file.confirmed and sha256 != file.sha256:
        expected = f"sha256 {file.sha256}" + (f" ({file.bytes:,} bytes)" if file.bytes else "")
        raise DataError(f"{path}: expected {expected}, got {sha256} ({size:,} bytes)")
    return sha256


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
    except (tarfile.TarError, EOFError, OSError) as error:
        raise DataError(f"{part}: the archive is truncated or damaged ({error})") from None
    finally:
        bare.unlink(missing_ok=True)


def _raw(entry: DatasetEntry, file: FileSpec, path: Path, sha256: str, source: str) -> RawFile:
    confirmed = file.confirmed and sha256 == file.sha256
    return RawFile(path, file.name, sha256, size_limit(entry, file), confirmed, source)


def _note_path(folder: Path, file: FileSpec) -> Path:
    return folder / f".{file.name}.json"


def _read_note(folder: Path, file: FileSpec) -> dict[str, str]:
    try:
        note = json.loads(_note_path(folder, file).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return note if isinstance(note, dict) else {}


def _write_note(folder: Path, file: FileSpec, note: dict[str, str]) -> None:
    with _part(folder) as part:
        part.write_text(json.dumps(note), "utf-8")
        os.replace(part, _note_path(folder, file))


def read_pieces(raw: RawFile) -> Iterator[bytes]:
    """Yield a checked file's uncompressed content piece by piece."""
    return chunks(raw.path, raw.limit)
