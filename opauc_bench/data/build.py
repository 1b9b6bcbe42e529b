"""From a catalogue entry to arrays: fetch, read, make binary, scale, assert, write."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError, DataUnavailable, LabelError, ZeroIndexError
from .arrange import arrange, collect
from .cache import RawFile, cache_error, is_local, locked, lost_files
from .entry import DatasetEntry, FileSpec, Form
from .fetch import fetch_form
from .formats import PublishedData
from .own import OwnData
from .sources import Notify, Sources
from .store import DTYPES, Dataset, Filled, find_prepared, is_intact, write_prepared
from .transform import scale

__all__ = ["prepare", "read_original"]


def prepare(
    entry: DatasetEntry,
    sources: Sources,
    notify: Notify | None = None,
    fresh: bool = False,
    *,
    hashed: bool = False,
) -> Dataset:
    """Return a dataset ready for use; fetch and parse it first if it is not in the cache.

    Several processes may prepare the same dataset: one does the work, the others wait for it.

    Parameters
    ----------
    entry : DatasetEntry
        From `load_catalogue`.
    sources : Sources
    notify : callable, optional
        Called with lines of text: progress and warnings.
    fresh : bool
        Fetch and prepare the files again, even if they are in the cache.
    hashed : bool
        Hash cached arrays, and prepare them again if they have changed on disk.

    Returns
    -------
    Dataset

    Raises
    ------
    DataUnavailable
        No source has the files; all sources that were tried are listed.
    DataError
        The files do not agree with the catalogue, or the cache cannot be written.
    """
    notify = notify or _silent
    with _usable_cache(entry, sources):
        for path in [] if fresh else lost_files(entry, sources):
            notify(f"note: {entry.name}: {path} does not exist any more; its copy in the cache is used")
        found = None if fresh else find_prepared(entry, sources)
        if found and (not hashed or is_intact(found, notify)):
            return found
        with locked(entry, sources, notify):
            # Another process may have prepared it while this one waited for the lock.
            found = None if fresh else find_prepared(entry, sources)
            if found is None:
                return _build(entry, sources, notify, fresh)
            if not hashed or is_intact(found, _silent):
                return found
            damage = f"{entry.name}: the prepared arrays in {found.folder} have changed on disk"
            notify(f"note: {damage}; preparing them again")
            try:
                return _build(entry, sources, notify, fresh=False)
            except DataError as error:
                message = f"{damage}, and cannot be prepared again:\n{error.message}"
                raise type(error)(message, error.hint) from None


def read_original(entry: DatasetEntry, sources: Sources) -> tuple[np.ndarray, np.ndarray]:
    """Return scaled features (n_samples, n_features) as float64, and the original labels; errors as `prepare`."""
    with _usable_cache(entry, sources), locked(entry, sources, _silent):
        form, raw = _fetch_any(entry, sources, _silent, fresh=False)
        data = _data_of(entry, form, raw)
        blocks, labels, _ = collect(data.blocks())
    scale(blocks, data.entry.scaling)
    dense = [block if isinstance(block, np.ndarray) else block.toarray() for block in blocks]
    return np.concatenate(dense).astype(np.float64, copy=False), labels


def _silent(text: str) -> None:
    """Ignore a message."""


@contextlib.contextmanager
def _usable_cache(entry: DatasetEntry, sources: Sources) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:  # raised by `notify`, not by the cache
        raise
    except OSError as error:
        raise cache_error(entry, sources, error) from None


def _fetch_any(entry: DatasetEntry, sources: Sources, notify: Notify, fresh: bool) -> tuple[Form, list[RawFile]]:
    """Fetch the first form that is available, those on this machine first."""
    if entry.source is not None and entry.source.memory and entry._arrays is None:
        raise DataUnavailable(
            f"{entry.name}: its arrays were in the memory of another process",
            f"opauc_bench.run(..., data={{{entry.name!r}: (X, y)}})",
        )
    failures: list[DataError] = []
    for form in sorted(entry.forms, key=lambda form: not is_local(entry, form, sources)):
        try:
            return form, fetch_form(entry, form, sources, notify, fresh)
        except DataError as error:
            failures.append(error)
    wrong = [error for error in failures if not isinstance(error, DataUnavailable)]
    kind = DataError if wrong else DataUnavailable
    raise kind("\n".join(error.message for error in failures), (wrong or failures)[0].hint)


def _build(entry: DatasetEntry, sources: Sources, notify: Notify, fresh: bool) -> Dataset:
    form, raw = _fetch_any(entry, sources, notify, fresh)
    try:
        return _arranged(entry, form, raw, sources, notify)
    except DataError as error:
        if not any(_may_be_outdated(file, copy) for file, copy in zip(form.all_files, raw)):
            raise
        failure = error
    notify(f"note: {entry.name}: the files in the cache cannot be used; fetching them again")
    hashes = [copy.sha256 for copy in raw]
    try:
        form, raw = _fetch_any(entry, sources, notify, fresh=True)
    except DataError:
        raise failure from None
    if [copy.sha256 for copy in raw] == hashes:
        raise failure
    return _arranged(entry, form, raw, sources, notify)


def _may_be_outdated(file: FileSpec, copy: RawFile) -> bool:
    """Whether the source of a cached file may have another one now; copies of local files have been compared."""
    return not copy.is_new and copy.source not in ("file", "unknown") and copy.sha256 != file.sha256


def _arranged(entry: DatasetEntry, form: Form, raw: list[RawFile], sources: Sources, notify: Notify) -> Dataset:
    bundled, memory = (form.source.sklearn, form.source.memory) if form.source else (None, None)
    names = ", ".join(file.origin.name if file.origin else file.name for file in raw)
    notify(f"{entry.name}: reading {names or bundled or 'arrays'}")
    files: list[dict[str, Any]] = [{"name": bundled, "source": "scikit-learn"}] if bundled else []
    files += [{"name": "arrays", "sha256": memory, "source": "memory"}] if memory else []
    files += [{"name": f.name, "sha256": f.sha256, "confirmed": f.confirmed, "source": f.source} for f in raw]

    def fill(folder: Path) -> Filled:
        data = _data_of(entry, form, raw)

        def remark(text: str) -> None:
            notify(f"{entry.name}: {text}")

        for text in data.remarks:
            remark(text)
        y, facts = arrange(data.entry, form, data.blocks(), folder, remark)
        metadata = data.metadata()
        for name, found in metadata.items():
            np.save(folder / f"{name}.npy", found.values.astype(DTYPES[name]))
        described = {"row_metadata": {name: found.facts for name, found in metadata.items()}} if metadata else {}
        return y, {"files": files} | facts | data.facts | described

    try:
        return write_prepared(entry, form, raw, sources, fill)
    except DataError as error:
        raise _with_places(entry, raw, sources, error) from None
    except MemoryError as error:
        raise DataError(
            f"{entry.name}: not enough memory to prepare it ({error})",
            "a scaling that keeps zeros (maxabs, unit_rows, none), a dataset with fewer rows or features, or a machine "
            "with more memory",
        ) from None


def _data_of(entry: DatasetEntry, form: Form, raw: list[RawFile]) -> OwnData | PublishedData:
    return PublishedData(entry, form, raw) if form.source is None else OwnData(entry, form, raw)


def _with_places(entry: DatasetEntry, raw: list[RawFile], sources: Sources, error: DataError) -> DataError:
    """Add the files and a hint to an error."""
    in_own_file = any(error.message.startswith(f"{copy.origin}:") for copy in raw)
    if isinstance(error, ZeroIndexError):
        hint = f"first_index: 0 in the entry in {entry.catalogue}, if indices begin with 0"
    elif entry.has_own_data and error.hint:
        hint = f"{error.hint}; the same command reads it again"
    elif entry.source is not None and isinstance(error, LabelError):
        hint = f"'positive: [LABEL]' under 'source' of the entry in {entry.catalogue}, with labels that occur"
    elif in_own_file or (raw and all(copy.origin for copy in raw)):
        hint = f"correct the file, or the entry in {entry.catalogue}; the same command reads changed files again"
    else:
        hint = f"{entry.fetch_command(sources)}  # or correct the catalogue, if that is wrong"
    places = [f"{copy.place}" if copy.origin else f"{copy.place} (from {copy.source})" for copy in raw]
    # A message with a line already names the file.
    if in_own_file:
        places = []
    return DataError("\n  in ".join([f"{entry.name}: {error.message}", *places]), hint)
