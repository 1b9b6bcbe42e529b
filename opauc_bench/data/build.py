"""From a catalogue entry to arrays: fetch, read, make binary, scale, assert, write."""

import contextlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError, DataUnavailable, ZeroIndexError
from .arrange import arrange, collect
from .cache import RawFile, discard, kept_file, local_file, locked
from .catalogue import DatasetEntry, Form
from .download import Notify
from .fetch import fetch_form
from .formats import read_blocks
from .lines import Block
from .sources import Sources
from .store import Dataset, Filled, content_key, find_prepared, is_intact, recipe_key, write_prepared
from .transform import positive_classes, scale, spelled

__all__ = ["at_hand", "prepare", "read_original"]


def prepare(
    entry: DatasetEntry,
    sources: Sources,
    notify: Notify | None = None,
    fresh: bool = False,
    *,
    hashed: bool = False,
) -> Dataset:
    """Return a dataset ready for use; fetch and parse it first if the cache does not have it.

    Several processes may ask for the same dataset: one does the work, the others wait for it.

    Parameters
    ----------
    entry : DatasetEntry
        From `load_catalogue`.
    sources : Sources
        Cache, mirrors, and whether the network may be used.
    notify : callable, optional
        Called with a line of text on progress and on anything noteworthy.
    fresh : bool
        Fetch the files again and prepare them again, whatever the cache holds.
    hashed : bool
        Hash the arrays that the cache holds, and prepare them again if they have changed on disk.

    Returns
    -------
    Dataset

    Raises
    ------
    DataUnavailable
        The files are nowhere to be had; all places that were asked are listed.
    DataError
        The files are not what the catalogue promises, or the cache cannot be written.
    """
    notify = notify or _silent
    with _usable_cache(entry, sources):
        found = None if fresh else find_prepared(entry, sources)
        if found and (not hashed or is_intact(found, notify)):
            return found
        with locked(entry, sources, notify):
            # Whoever held the lock may have done the work.
            found = None if fresh else find_prepared(entry, sources)
            if found and (not hashed or is_intact(found, _silent)):
                return found
            return _rebuild(entry, sources, notify, found) if found else _build(entry, sources, notify, fresh)


def _rebuild(entry: DatasetEntry, sources: Sources, notify: Notify, damaged: Dataset) -> Dataset:
    trouble = f"{entry.name}: the prepared arrays in {damaged.folder} have changed on disk"
    notify(f"{trouble}; preparing them again")
    try:
        return _build(entry, sources, notify, fresh=False)
    except DataError as error:
        raise type(error)(f"{trouble}, and cannot be prepared again:\n{error.message}", error.hint) from None


def read_original(entry: DatasetEntry, sources: Sources, notify: Notify | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return scaled features and the labels as the files have them, for choosing how they become binary.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features), float64
    labels : ndarray of shape (n_samples,)

    Raises
    ------
    DataUnavailable, DataError
        As `prepare`.
    """
    notify = notify or _silent
    with _usable_cache(entry, sources), locked(entry, sources, notify):
        form, raw = _fetch_any(entry, sources, notify, fresh=False)
        blocks, labels = collect(_blocks(entry, form, raw))
    scale(blocks, entry.scaling)
    dense = [block if isinstance(block, np.ndarray) else block.toarray() for block in blocks]
    return np.concatenate(dense).astype(np.float64, copy=False), labels


def at_hand(entry: DatasetEntry, form: Form, sources: Sources) -> bool:
    """Whether all files of a form are in the cache, in mirror folders or at local addresses."""
    return all(kept_file(entry, file, sources) or local_file(entry, file, sources) is not None for file in form.files)


def _silent(text: str) -> None:
    del text


@contextlib.contextmanager
def _usable_cache(entry: DatasetEntry, sources: Sources) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:  # whoever listened to `notify` has gone; nothing is wrong with the cache
        raise
    except OSError as error:
        raise DataError(
            f"{entry.name}: the cache {sources.cache} cannot be used: {error.strerror or error}",
            "set OPAUC_BENCH_CACHE to a folder with enough space that you may write to",
        ) from None


def _fetch_any(entry: DatasetEntry, sources: Sources, notify: Notify, fresh: bool) -> tuple[Form, list[RawFile]]:
    """Fetch the first form that can be had, those on this machine first."""
    failures: list[DataError] = []
    for form in sorted(entry.forms, key=lambda form: not at_hand(entry, form, sources)):
        try:
            return form, fetch_form(entry, form, sources, notify, fresh)
        except DataError as error:
            failures.append(error)
    wrong = [error for error in failures if not isinstance(error, DataUnavailable)]
    kind = DataError if wrong else DataUnavailable
    raise kind("\n".join(error.message for error in failures), (wrong or failures)[0].hint)


def _build(entry: DatasetEntry, sources: Sources, notify: Notify, fresh: bool) -> Dataset:
    form, raw = _fetch_any(entry, sources, notify, fresh)
    notify(f"{entry.name}: reading {', '.join(file.name for file in raw) or form.source.sklearn}")
    key = f"{recipe_key(entry, form)}-{content_key([file.sha256 for file in raw])}"
    try:
        return write_prepared(entry, key, sources, partial(_fill, entry, form, raw))
    except DataError as error:
        for file, copy in zip(form.files, raw):
            # What somebody put into the cache by hand is not ours to remove.
            if file.sha256 not in (None, copy.sha256) and copy.source != "unknown":
                discard(copy)
        raise _not_as_promised(entry, raw, error) from None


def _fill(entry: DatasetEntry, form: Form, raw: list[RawFile], folder: Path) -> Filled:
    found = arrange(entry, form, _blocks(entry, form, raw), folder)
    manifest = {
        "files": _origins(form, raw),
        "n_samples": len(found.y),
        "n_features": found.n_features,
        "n_positive": int((found.y == 1).sum()),
        "density": found.density,
        "value_range": [found.low, found.high],
        "binary": _rule(form, found.labels),
        "scaling": entry.scaling,
        "storage": found.kind,
    }
    if found.fourier:
        manifest["fourier"] = found.fourier
    return Filled(found.kind, (len(found.y), found.n_features), found.y, manifest)


def _not_as_promised(entry: DatasetEntry, raw: list[RawFile], error: DataError) -> DataError:
    if isinstance(error, ZeroIndexError):
        hint = f"first_index: 0 in the entry in {entry.catalogue}, if indices begin with 0"
    elif raw and all(copy.origin for copy in raw):
        again = "what has changed is read again by the same command"
        hint = f"correct the file, or the entry in {entry.catalogue}; {again}"
    else:
        hint = f"{entry.fetch_command}  # or correct the catalogue, if that is wrong"
    places = [f"{copy.place}" if copy.origin else f"{copy.place} (from {copy.source})" for copy in raw]
    # Where the line is told, so is the file.
    if len(places) == 1 and error.message.startswith(f"{places[0]}:"):
        places = []
    return DataError("\n  in ".join([f"{entry.name}: {error.message}", *places]), hint)


def _blocks(entry: DatasetEntry, form: Form, raw: list[RawFile]) -> Iterator[Block]:
    if form.source is None:
        yield from read_blocks(raw, form, entry.n_features)
        return
    from sklearn import datasets

    X, labels = getattr(datasets, form.source.sklearn)(return_X_y=True)
    yield Block(np.asarray(X, dtype=np.float64), labels.astype(np.float64))


def _origins(form: Form, raw: list[RawFile]) -> list[dict[str, Any]]:
    if form.source is not None:
        return [{"name": form.source.sklearn, "source": "scikit-learn"}]
    return [
        {"name": file.name, "sha256": file.sha256, "confirmed": file.confirmed, "source": file.source} for file in raw
    ]


def _rule(form: Form, labels: np.ndarray) -> dict[str, Any]:
    rule: dict[str, Any] = {"positive": [spelled(label) for label in positive_classes(labels, form)]}
    if form.random_half is not None:
        rule["random_half_seed"] = form.random_half.seed
    if form.largest_class:
        rule["largest_class"] = True
    return rule
