"""Which datasets are available without the network; whether files and arrays in the cache are unchanged."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ..errors import DataError
from .cache import LocalFile, is_local, local_files
from .entry import DatasetEntry
from .sources import Sources, is_remote
from .store import find_prepared, fingerprint_of, open_prepared, prepared_folders

__all__ = ["Check", "availability", "download_size", "foreign_files", "has_changed_files", "verify"]


def availability(entry: DatasetEntry, sources: Sources) -> str:
    """Return how a dataset is available; no http request is made.

    Returns
    -------
    {"prepared", "cached", "mirror", "local", "download", "unavailable"}
        The arrays are ready; the files are in the cache (or part of scikit-learn); they are in mirror folders (or
        partly in the cache); all are the user's own files; some must be downloaded; some have no known source.
    """
    if find_prepared(entry, sources):
        return "prepared"
    best = "unavailable"
    for form in entry.forms:
        if form.source is not None and form.source.memory and entry._arrays is None:
            continue
        files = local_files(entry, form, sources)
        if all(file.current for file in files):
            return "cached"
        if is_local(entry, form, sources):
            best = "local" if all(file.origin for file in files) else "mirror"
        elif best not in ("mirror", "local") and not sources.offline:
            # A remote mirror may have any file.
            remote = any(map(is_remote, sources.mirrors)) or all(
                file.current or file.elsewhere or any(map(is_remote, file.file.urls)) for file in files
            )
            best = "download" if remote else best
    return best


def has_changed_files(entry: DatasetEntry, sources: Sources) -> bool:
    """Whether one of the user's own files has changed since it was copied into the cache."""
    files = [file for form in entry.forms for file in local_files(entry, form, sources)]
    return any(file.note.get("source") == "file" and file.outdated and not file.foreign for file in files)


def foreign_files(entry: DatasetEntry, sources: Sources) -> list[str]:
    """What the cache has in place of files of a dataset: those of another entry with the same names."""
    files = (file for form in entry.forms for file in local_files(entry, form, sources))
    return [f"{file.file.name}: the cache has {foreign}" for file in files if (foreign := file.foreign)]


def download_size(entry: DatasetEntry, sources: Sources) -> int | None:
    """Return the largest number of bytes that a download takes (without compression), or None if unknown."""
    if availability(entry, sources) != "download":
        return 0
    sizes = [file.file.bytes for file in local_files(entry, entry, sources) if not file.current]
    return None if None in sizes else sum(size or 0 for size in sizes)


@dataclass(frozen=True)
class Check:
    """Result of the verification of one item."""

    item: str  # a file name, or "arrays"
    ok: bool
    detail: str  # the hash, or an error message
    hint: str = ""  # the command that fetches the item again


def verify(entry: DatasetEntry, sources: Sources) -> list[Check]:
    """Hash everything in the cache that belongs to a dataset again.

    Returns
    -------
    list of Check
        One per file and per set of prepared arrays; empty if nothing is in the cache.
    """
    files = [file for form in entry.forms for file in local_files(entry, form, sources)]
    items = [(file.file.name, partial(_checked_file, file, path)) for file in files if (path := file.cached)]
    folders = sorted(prepared_folders(entry, sources, "[!.]*"))
    items += [("arrays", partial(_checked_arrays, folder)) for folder in folders]
    checks = []
    for item, check in items:
        try:
            checks.append(Check(item, True, check()))
        except DataError as error:
            checks.append(Check(item, False, error.message, entry.fetch_command(sources)))
    return checks


def _checked_file(file: LocalFile, cached: Path) -> str:
    if outdated := file.outdated:
        raise DataError(f"{cached}: {outdated}")
    return f"sha256 {file.check_cached(cached).sha256}"


def _checked_arrays(folder: Path) -> str:
    dataset = open_prepared(folder)
    found = fingerprint_of(folder, dataset.manifest, dataset.X.shape)
    if found != dataset.fingerprint:
        raise DataError(f"{folder}: expected {dataset.fingerprint}, got {found}")
    return f"fingerprint {found}"
