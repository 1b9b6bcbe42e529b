"""Get a dataset's files: from the cache, then from mirrors, then from the official addresses.

A file keeps the compression in which it came. Nothing enters the cache before its content has been checked,
and it enters by a rename, so that a killed process leaves either the old file or the new one.
"""

import contextlib
import os
import shutil
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ..errors import DataError, DataUnavailable
from .cache import (
    RawFile,
    cached_file,
    changed_at_origin,
    check_cached,
    checked,
    in_mirror,
    local_origin,
    part_file,
    raw_file,
    raw_folder,
    size_limit,
    stamp_of,
    write_note,
)
from .catalogue import DatasetEntry, FileSpec, Form
from .compression import DAMAGED
from .content import SUFFIXES, suffix_of
from .download import Notify, Unreachable, download
from .sources import Sources, is_remote, local_path

__all__ = ["fetch_form"]

_LARGEST_ARCHIVE = 1 << 32  # bytes


class _Missing(Exception):
    """A source does not have the file; the text says why."""


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
    with contextlib.ExitStack() as archives:
        kept: dict[str, Path] = {}
        return [_File(entry, file, sources, notify, archives, kept).fetch(fresh) for file in form.files]


@dataclass(frozen=True)
class _File:
    """One file of one dataset on its way into the cache.

    Archives are kept, by address, until all files of the form are there: several may come from the same one.
    """

    entry: DatasetEntry
    file: FileSpec
    sources: Sources
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
                self.notify(f"{self.entry.name}: {error.message}; looking further")
            else:
                self._notice_other_content(raw)
                return raw
        raise self._failure(attempts, found_wrong)

    def _steps(self, fresh: bool) -> Iterator[tuple[str, Callable[[], RawFile]]]:
        if not fresh:
            yield "cache", self._from_cache
        for mirror in self.sources.mirrors:
            base = f"{mirror.rstrip('/')}/{self.entry.home}/{self.file.name}"
            if is_remote(mirror):
                addresses = [base + suffix for suffix in SUFFIXES]
                yield f"mirror {mirror}", partial(self._from_web, addresses, "mirror")
            else:
                yield f"mirror {mirror}", partial(self._from_mirror, local_path(mirror))
        for url in self.file.urls:
            if is_remote(url):
                yield url, partial(self._from_web, [url], url)
            else:
                yield str(local_path(url)), partial(self._from_path, local_path(url), "file")

    def _from_cache(self) -> RawFile:
        path = cached_file(self.entry, self.file, self.sources)
        if path is None:
            raise _Missing("not there")
        if changed_at_origin(self.entry, self.file, self.sources):
            origin = local_origin(self.file)
            if origin is None:
                raise _Missing(f"a file of this name, but from another place ({path})")
            self.notify(f"{self.entry.name}: {origin} has changed since it was read")
            raise _Missing("older than the file at its address")
        return check_cached(self.entry, self.file, path)

    def _from_mirror(self, mirror: Path) -> RawFile:
        if not mirror.is_dir():
            self.notify(f"{self.entry.name}: the mirror {mirror} is not a folder")
            raise _Missing("no such folder")
        path = in_mirror(self.entry, self.file, mirror)
        if path is None:
            raise _Missing(f"no {self.entry.home}/{self.file.name}")
        return self._from_path(path, "mirror")

    def _from_path(self, path: Path, source: str) -> RawFile:
        if not path.is_file():
            raise _Missing("a folder, expected a file" if path.is_dir() else "no such file")
        with part_file(raw_folder(self.entry, self.sources)) as part:
            stamp = stamp_of(path)  # before it is read: a change while it is read shows later
            try:
                shutil.copyfile(path, part)
            except PermissionError as error:
                raise _Missing(f"{path}: {error.strerror}") from None
            return self._accept(part, source, path, {"stamp": stamp, "origin": str(path)} if source == "file" else {})

    def _from_web(self, addresses: list[str], source: str) -> RawFile:
        if self.sources.offline:
            raise _Missing("not asked, offline")
        what = f"{self.entry.name}: {self.file.name}"
        limit = size_limit(self.entry, self.file) if self.file.member is None else _LARGEST_ARCHIVE
        reasons: list[str] = []
        for address in addresses:
            with part_file(raw_folder(self.entry, self.sources)) as part:
                try:
                    if address in self.kept:
                        shutil.copyfile(self.kept[address], part)
                    else:
                        download(address, part, limit, what, self.notify)
                        self._keep(address, part)
                except Unreachable as error:
                    reasons.append(str(error))
                    if not error.answered:
                        break
                else:
                    return self._accept(part, source, address)
        raise _Missing("; ".join(dict.fromkeys(reasons)))

    def _keep(self, address: str, part: Path) -> None:
        if self.file.member is not None and _is_archive(part):
            archive = self.archives.enter_context(part_file(part.parent))
            shutil.copyfile(part, archive)
            self.kept[address] = archive

    def _accept(self, part: Path, source: str, shown: Path | str, known: dict[str, str] | None = None) -> RawFile:
        """Check a new file and move it to its place, with a note of what is known of it."""
        try:
            if self.file.member is not None:
                _extract(part, self.file.member, size_limit(self.entry, self.file))
            sha256 = checked(part, self.entry, self.file)
        except DataError as error:
            raise DataError(error.message.replace(str(part), str(shown))) from None
        target = part.parent / (self.file.name + suffix_of(part))
        part.chmod(0o644)
        os.replace(part, target)
        for suffix in SUFFIXES:
            other = part.parent / (self.file.name + suffix)
            if other != target:
                other.unlink(missing_ok=True)
        write_note(part.parent, self.file, {"sha256": sha256, "source": source, **(known or {})})
        return raw_file(self.entry, self.file, target, sha256, source)

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
        if file.urls and not any(map(is_remote, file.urls)):
            return DataUnavailable(
                f"{name}: {file.name}: not to be had{asked}",
                f"put the file there, or correct its address in {self.entry.catalogue}",
            )
        hint = f"put the file at <folder>/{self.entry.home}/{file.name} (or .xz, .bz2, .gz) and pass --mirror <folder>"
        if self.sources.offline:
            hint = f"run without --offline, or {hint}"
        return DataUnavailable(f"{name}: {file.name}: not to be had{asked}", hint)


def _is_archive(path: Path) -> bool:
    try:
        return tarfile.is_tarfile(path)
    except (ValueError, OverflowError, OSError, *DAMAGED):  # it does not catch all that a damaged one may raise
        return False


def _extract(part: Path, member: str, limit: int) -> None:
    """Replace an archive by one of its members; a file that is no archive stays as it is."""
    if not _is_archive(part):
        return
    bare = part.with_name(part.name + "-member")
    try:
        with tarfile.open(part) as archive, bare.open("wb") as out:
            info = next((item for item in archive if item.isfile() and f"/{item.name}".endswith(f"/{member}")), None)
            if info is None:
                raise DataError(f"{part}: expected a file {member} in the archive, found none")
            if info.size > limit:
                raise DataError(f"{part}: expected {member} of at most {limit:,} bytes, got {info.size:,}")
            shutil.copyfileobj(archive.extractfile(info), out)
        os.replace(bare, part)
    except (tarfile.TarError, ValueError, OverflowError, *DAMAGED) as error:
        raise DataError(f"{part}: the archive is truncated or damaged ({error})") from None
    except OSError as error:
        if error.errno is not None:
            raise
        raise DataError(f"{part}: the archive is truncated or damaged ({error})") from None
    finally:
        bare.unlink(missing_ok=True)
