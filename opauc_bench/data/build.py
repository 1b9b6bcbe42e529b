"""From a catalogue entry to arrays: fetch, read, make binary, scale, assert, write."""

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..errors import DataError, DataUnavailable
from .catalogue import DatasetEntry, Form
from .download import Notify
from .fetch import RawFile, cached_file, discard, fetch_form, local_file, local_origin, locked
from .formats import Block, read_blocks
from .sources import Sources
from .store import Dataset, content_key, find_prepared, recipe_key, write_prepared
from .transform import binary_labels, minmax, positive_classes, spelled

__all__ = ["at_hand", "prepare", "read_original"]

DENSE_ABOVE = 0.2  # density from which rows are stored dense


def prepare(entry: DatasetEntry, sources: Sources, notify: Notify | None = None, fresh: bool = False) -> Dataset:
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
    if not fresh and (found := find_prepared(entry, sources)):
        return found
    with _usable_cache(entry, sources), locked(entry, sources, notify):
        if not fresh and (found := find_prepared(entry, sources)):
            return found
        return _build(entry, sources, notify, fresh)


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
        blocks, labels = _collect(_blocks(entry, form, raw))
    if entry.scaling == "minmax":
        minmax(blocks)
    dense = [block if isinstance(block, np.ndarray) else block.toarray() for block in blocks]
    return np.concatenate(dense).astype(np.float64, copy=False), labels


def at_hand(entry: DatasetEntry, form: Form, sources: Sources) -> bool:
    """Whether all files of a form are in the cache, in mirror folders or at local addresses."""
    return all(cached_file(entry, file, sources) or local_file(entry, file, sources) is not None for file in form.files)


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
    try:
        blocks, labels = _collect(_blocks(entry, form, raw))
        y = binary_labels(labels, form)
        _check_counts(entry, form, blocks, y)
        if entry.scaling == "minmax":
            minmax(blocks)
        density, low, high = _summary(blocks, entry.n_features)
        if not entry.range[0] <= low <= high <= entry.range[1]:
            raise DataError(f"expected values within {list(entry.range)}, got {[low, high]}")
    except DataError as error:
        for file, copy in zip(form.files, raw):
            # What somebody put into the cache by hand is not ours to remove.
            if file.sha256 not in (None, copy.sha256) and copy.source != "unknown":
                discard(copy)
        raise _not_as_promised(entry, form, raw, error) from None
    kind = "dense" if density > DENSE_ABOVE else "csr"
    manifest = {
        "files": _origins(form, raw),
        "n_samples": len(y),
        "n_features": entry.n_features,
        "n_positive": int((y == 1).sum()),
        "density": density,
        "value_range": [low, high],
        "binary": _rule(form, labels),
        "scaling": entry.scaling,
        "storage": kind,
    }
    key = f"{recipe_key(entry, form)}-{content_key([file.sha256 for file in raw])}"
    return write_prepared(entry, key, sources, kind, blocks, y, manifest)


def _not_as_promised(entry: DatasetEntry, form: Form, raw: list[RawFile], error: DataError) -> DataError:
    # A file of the user's own is mended where it is, not in the cache.
    origins = [
        f"a copy of {local_origin(file)}" if copy.source == "file" else f"from {copy.source}"
        for file, copy in zip(form.files, raw)
    ]
    files = ", ".join(f"{copy.path} ({origin})" for copy, origin in zip(raw, origins))
    return DataError(
        f"{entry.name}: {error.message}" + (f"\n  in {files}" if files else ""),
        f"{entry.fetch_command}  # or correct the catalogue, if that is wrong",
    )


def _blocks(entry: DatasetEntry, form: Form, raw: list[RawFile]) -> Iterator[Block]:
    if form.source is None:
        yield from read_blocks(raw, form, entry.n_features)
        return
    from sklearn import datasets

    X, labels = getattr(datasets, form.source.sklearn)(return_X_y=True)
    yield Block(np.asarray(X, dtype=np.float64), labels.astype(np.float64))


def _collect(source: Iterator[Block]) -> tuple[list[Any], np.ndarray]:
    """Keep all blocks, each in the smaller of its two forms."""
    blocks, labels = [], []
    for block in source:
        X = block.X
        if not isinstance(X, np.ndarray) and X.nnz > DENSE_ABOVE * X.shape[0] * X.shape[1]:
            X = X.toarray()
        blocks.append(X)
        labels.append(block.labels)
    if not blocks:
        raise DataError("expected rows of data, got none")
    return blocks, np.concatenate(labels)


def _check_counts(entry: DatasetEntry, form: Form, blocks: list[Any], y: np.ndarray) -> None:
    width = max(_width(block) if form.format == "svmlight" else block.shape[1] for block in blocks)
    counts = [("rows", entry.n_samples, len(y)), ("features", entry.n_features, width)]
    if entry.n_positive is not None:
        counts.append(("positive rows", entry.n_positive, int((y == 1).sum())))
    wrong = [f"expected {due:,} {what}, got {came:,}" for what, due, came in counts if due != came]
    if wrong:
        raise DataError("; ".join(wrong))


def _width(block: Any) -> int:
    """Return the largest feature (from 1) that is anywhere nonzero."""
    used = block.any(axis=0).nonzero()[0] if isinstance(block, np.ndarray) else block.indices
    return int(used.max(initial=-1)) + 1


def _summary(blocks: list[Any], n_features: int) -> tuple[float, float, float]:
    """Return density, smallest and largest value, the implicit zeros of sparse blocks included."""
    nonzero = sum(int(np.count_nonzero(block if isinstance(block, np.ndarray) else block.data)) for block in blocks)
    rows = sum(block.shape[0] for block in blocks)
    low = min(float(block.min()) for block in blocks)
    high = max(float(block.max()) for block in blocks)
    return nonzero / (rows * n_features), low, high


def _origins(form: Form, raw: list[RawFile]) -> list[dict[str, Any]]:
    if form.source is not None:
        return [{"name": form.source.sklearn, "source": "scikit-learn"}]
    return [
        {"name": file.name, "sha256": file.sha256, "confirmed": file.confirmed, "source": file.source} for file in raw
    ]


def _rule(form: Form, labels: np.ndarray) -> dict[str, Any]:
    rule = {"positive": [spelled(label) for label in positive_classes(np.unique(labels), form)]}
    return rule if form.random_half is None else {**rule, "random_half_seed": form.random_half.seed}
