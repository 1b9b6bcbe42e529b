"""Fetch a dataset's files: from the cache, then from mirrors, then from the official addresses.

A file keeps its compression. Nothing enters the cache before its content has been verified, and it enters by a rename,
so that a killed process leaves either the old file or the new one.
"""

import contextlib
import errno
import os
import shutil
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO

from ..errors import DataError, DataUnavailable
from .cache import LocalFile, RawFile, local_files, part_file, stamp_of
from .content import DAMAGED, SUFFIXES, suffix_of
from .download import SourceMissing, clear_downloads, download
from .entry import DatasetEntry, Form
from .sources import Notify, Sources, is_remote, local_path

__all__ = ["fetch_form"]

_LARGEST_ARCHIVE = 1 << 32  # bytes
_DAMAGED_ARCHIVE = (ValueError, OverflowError, OSError, *DAMAGED)  # what tarfile and zipfile let through
_NO_FILE = "no such file"
_SHOWN = 8  # names of files in an archive


def fetch_form(entry: DatasetEntry, form: Form, sources: Sources, notify: Notify, fresh: bool = False) -> list[RawFile]:
    """Bring all files of one form into the cache and verify them; the caller holds the dataset's lock.

    DataUnavailable if no source has a file, DataError if no source has the expected content; both list all attempts.
    """
    folders = {file.folder for file in local_files(entry, form, sources)}
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
        for leftover in folder.glob(".part-*"):  # of a killed process, since this one holds the lock
            leftover.unlink()
    with contextlib.ExitStack() as archives:
        kept: dict[str, Path] = {}
        fetched = [_Fetch(entry, file, sources, notify, archives, kept).fetch(fresh) for file in form.all_files]
    for folder in folders:
        clear_downloads(folder)
    return fetched


@dataclass(frozen=True)
class _Fetch(LocalFile):
    """One file of a dataset that is being fetched.

    Downloaded archives are kept, by address, until all files of the form are there: several may come from one archive.
    """

    notify: Notify
    archives: contextlib.ExitStack
    kept: dict[str, Path]

    def fetch(self, fresh: bool) -> RawFile:
        if self.sources.keeps and (foreign := self.foreign):
            what = f"{self.entry.name}: {self.file.name}: the cache has {foreign}"
            hint = f"{self.entry.fetch_command(self.sources)}  # or another name for one of the two datasets"
            raise DataUnavailable(f"{what}, and only 'run' and 'data fetch' replace it", hint)
        attempts: list[str] = []
        found_wrong = False
        steps = list(self._steps(fresh))
        for number, (place, step) in enumerate(steps, 1):
            try:
                raw = step()
            except SourceMissing as missing:
                attempts.append(f"{place}: {missing}")
            except DataError as error:
                found_wrong = True
                attempts.append(error.message if error.message.startswith(place) else f"{place}: {error.message}")
                if number < len(steps):  # otherwise the error says it
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
        self.notify(f"note: {self.entry.name}: {text}")

    def _steps(self, fresh: bool) -> Iterator[tuple[str, Callable[[], RawFile]]]:
        if not fresh:
            yield "cache", self._from_cache
        for path in self._addresses:  # before mirrors: a user's own file is read again after each change
            yield str(path), partial(self._from_path, path, "file", str(path))
        for mirror in self.sources.mirrors:
            if is_remote(mirror):
                base = f"{mirror.rstrip('/')}/{self.entry.home}/{self.file.name}"
                addresses = [base + suffix for suffix in SUFFIXES]
                yield f"mirror {mirror}", partial(self._from_web, addresses, "mirror", mirror)
            else:
                yield f"mirror {mirror}", partial(self._from_mirror, mirror)
        for url in filter(is_remote, self.file.urls):
            yield url, partial(self._from_web, [url], url, url)

    def _from_cache(self) -> RawFile:
        if self.cached is None:
            raise SourceMissing("not found")
        if outdated := self.outdated:
            self._say(outdated)
            raise SourceMissing(outdated)
        return self.check_cached(self.cached)

    def _from_mirror(self, mirror: str) -> RawFile:
        folder = local_path(mirror)
        if not os.path.isdir(folder):
            self._say(f"the mirror {folder} is not a folder")
            raise SourceMissing("no such folder")
        path = self.in_mirror(folder)
        if path is None:
            expected = f"{self.entry.home}/{self.file.name}"
            problem = _problem(folder / expected)
            raise SourceMissing(f"no {expected}" if problem == _NO_FILE else f"{expected}: {problem}")
        return self._from_path(path, "mirror", mirror)

    def _from_path(self, path: Path, source: str, origin: str) -> RawFile:
        if problem := _problem(path):
            raise SourceMissing(problem)
        with part_file(self.folder) as part:
            stamp = stamp_of(path)  # before it is read, so that a change during reading is noticed later
            shutil.copyfile(path, part)
            return self._accept(part, path, {"source": source, "origin": origin, "stamp": stamp})

    def _from_web(self, addresses: list[str], source: str, origin: str) -> RawFile:
        if self.sources.offline:
            raise SourceMissing("not tried, offline")
        limit = self.limit if self.file.member is None else _LARGEST_ARCHIVE
        reasons: list[str] = []
        wrong: list[DataError] = []
        for address in addresses:
            with part_file(self.folder) as part:
                try:
                    if address in self.kept:
                        shutil.copyfile(self.kept[address], part)
                    else:
                        what = f"{self.entry.name}: {self.file.name}"
                        os.replace(download(address, self.folder, limit, what, self.notify), part)
                        if self.file.member is not None and _is_archive(part):
                            self.kept[address] = self.archives.enter_context(part_file(self.folder))
                            shutil.copyfile(part, self.kept[address])
                    return self._accept(part, address, {"source": source, "origin": origin})
                except SourceMissing as error:
                    reasons.append(str(error))
                    if not error.answered:
                        break
                except DataError as error:  # a mirror may answer with a page to names that it does not have
                    wrong.append(error)
        if wrong:
            raise wrong[0]
        raise SourceMissing("; ".join(dict.fromkeys(reasons)))

    def _accept(self, part: Path, shown: Path | str, note: dict[str, str]) -> RawFile:
        """Verify a new file and move it to its place, with a note of where it came from."""
        try:
            if self.file.member is not None:
                _extract(part, self.file.member, self.limit)
            sha256 = self.checked(part)
        except DataError as error:
            raise DataError(error.message.replace(str(part), str(shown))) from None
        target = self.folder / (self.file.name + suffix_of(part))
        part.chmod(0o644)
        # The note comes first: beside an older file it is found out, and a file without a note is never out of date.
        self.write_note({"sha256": sha256, **note})
        os.replace(part, target)
        for other in {self.folder / (self.file.name + suffix) for suffix in SUFFIXES} - {target}:
            other.unlink(missing_ok=True)
        return replace(self.raw(target, sha256, note["source"]), is_new=True)

    def _failure(self, attempts: list[str], found_wrong: bool) -> DataError:
        entry, file = self.entry, self.file
        if not file.urls:
            attempts.append("no official address is known")
        asked = "".join(f"\n  - {attempt}" for attempt in attempts)
        if found_wrong:
            hint = f"{entry.fetch_command(self.sources)}  # after correcting the source that is wrong"
            return DataError(f"{entry.name}: {file.name}: no source has the expected content{asked}", hint)
        if file.urls and not any(map(is_remote, file.urls)):
            hint = f"put the file there, or correct its address in {entry.catalogue}"
        else:
            place = f"<folder>/{entry.home}/{file.name}"
            hint = f"put the file at {place} (or {', '.join(SUFFIXES[1:])}) and pass --mirror <folder>"
            hint = f"run without --offline, or {hint}" if self.sources.offline else hint
        return DataUnavailable(f"{entry.name}: {file.name}: unavailable{asked}", hint)


def _problem(path: Path) -> str:
    """Why there is no file that can be read; empty if there is one."""
    try:
        mode = path.stat().st_mode  # from Python 3.14 on, Path.is_file has no errors
        if stat.S_ISREG(mode):
            with path.open("rb"):
                return ""
        return "a folder, expected a file" if stat.S_ISDIR(mode) else "a pipe or device, expected a file"
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return _NO_FILE
    except OSError as error:
        return error.strerror or str(error)


def _is_zip(path: Path) -> bool:
    """Whether this is a .zip archive, possibly without its end, by which Python knows it."""
    with path.open("rb") as stream:
        return stream.read(4) == b"PK\3\4" or zipfile.is_zipfile(path)


def _is_archive(path: Path) -> bool:
    try:
        return _is_zip(path) or tarfile.is_tarfile(path)
    except _DAMAGED_ARCHIVE:
        return False


def _extract(part: Path, member: str, limit: int) -> None:
    """Replace an archive by one of its members; other files stay as they are."""
    if not _is_archive(part):
        return
    with part_file(part.parent) as bare:
        try:
            with _member(part, member, limit) as stream, bare.open("wb") as out:
                shutil.copyfileobj(stream, out)
            os.replace(bare, part)
        except (*_DAMAGED_ARCHIVE, tarfile.TarError, zipfile.BadZipFile, RuntimeError) as error:
            # A damaged .zip may lead to a place before its beginning, which is EINVAL.
            if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
                raise
            raise DataError(f"{part}: the archive is truncated or damaged ({error})") from None


def _plain(path: str) -> str:
    """A path inside an archive as entries write it: some archives have ``./path`` or ``/path``."""
    return path.removeprefix("./").lstrip("/")


@contextlib.contextmanager
def _member(part: Path, member: str, limit: int) -> Iterator[IO[bytes]]:
    """Open the file at that path in a .zip or .tar archive, or the only one whose path ends with it, else DataError."""
    with contextlib.ExitStack() as opened:
        found: dict[str, tuple[int, Callable[[], IO[bytes] | None]]]
        if _is_zip(part):
            zipped = opened.enter_context(zipfile.ZipFile(part))
            infos = (info for info in zipped.infolist() if not info.is_dir())
            found = {_plain(info.filename): (info.file_size, partial(zipped.open, info)) for info in infos}
        else:
            tar = opened.enter_context(tarfile.open(part))
            files = (info for info in tar if info.isfile())
            found = {_plain(info.name): (info.size, partial(tar.extractfile, info)) for info in files}
        names = [member] if member in found else [name for name in found if name.endswith(f"/{member}")]
        if len(names) != 1:
            shown = names or list(found)
            listed = ", ".join(shown[:_SHOWN]) + (", ..." if len(shown) > _SHOWN else "")
            got = f"{len(names)}: {listed}" if names else f"none; it has {listed or 'no files'}"
            raise DataError(f"{part}: expected a file {member} in the archive, found {got}")
        size, open_member = found[names[0]]
        if size > limit:
            raise DataError(f"{part}: expected {member} of at most {limit:,} bytes, got {size:,}")
        stream = open_member()
        assert stream is not None  # none of them is a folder
        yield opened.enter_context(stream)
