"""From a catalogue entry to arrays: fetch, read, make binary, scale, assert, write."""

import contextlib
import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..errors import DataError, DataUnavailable
from .catalogue import DatasetEntry, Form
from .fetch import Notify, RawFile, cached_file, fetch_form, locked, mirrored_file
from .formats import Block, read_blocks
from .sources import Sources
from .store import Dataset, content_key, find_prepared, recipe_key, write_prepared

__all__ = ["at_hand", "binary_labels", "minmax", "prepare", "read_original"]

DENSE_ABOVE = 0.2  # density from which rows are stored dense


def prepare(
    entry: DatasetEntry, sources: Sources, notify: Notify | None = None, fresh: bool = False
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
    notify = notify or (lambda text: None)
    if not fresh and (found := find_prepared(entry, sources)):
        return found
    with _usable_cache(entry, sources), locked(entry, sources, notify):
        if not fresh and (found := find_prepared(entry, sources)):
            return found
        return _build(entry, sources, notify, fresh)


def at_hand(entry: DatasetEntry, form: Form, sources: Sources) -> bool:
    """Whether all files of a form are in the cache or in mirror folders."""
    return all(
        cached_file(entry, file, sources) or any(mirrored_file(entry, file, at) for at in sources.mirrors)
        for file in form.files
    )


def read_original(
    entry: DatasetEntry, sources: Sources, notify: Notify | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return scaled features and the labels as they are in the files, for choosing how they become binary.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features), float64
    labels : ndarray of shape (n_samples,)

    Raises
    ------
    DataUnavailable, DataError
        As `prepare`.
    """
    notify = notify or (lambda text: None)
    with _usable_cache(entry, sources), locked(entry, sources, notify):
        form, raw = _fetch_any(entry, sources, notify, fresh=False)
        blocks, labels = _collect(_blocks(entry, form, raw))
    if entry.scaling == "minmax":
        minmax(blocks)
    dense = [block if isinstance(block, np.ndarray) else block.toarray() for block in blocks]
    return np.concatenate(dense).astype(np.float64, copy=False), labels


@contextlib.contextmanager
def _usable_cache(entry: DatasetEntry, sources: Sources) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DataError(
            f"{entry.name}: the cache {sources.cache} cannot be used: {error.strerror or error}",
            "set OPAUC_BENCH_CACHE to a folder with enough space that you may write to",
        ) from None


def _fetch_any(
    entry: DatasetEntry, sources: Sources, notify: Notify, fresh: bool
) -> tuple[Form, list[RawFile]]:
    """Fetch the first form that can be had, those on this machine first."""
    failures: list[DataError] = []
    for form in sorted(entry.forms, key=lambda form: not at_hand(entry, form, sources)):
        try:
            return form, fetch_form(entry, form, sources, notify, fresh)
        except DataError as error:
            failures.append(error)
    kind = DataUnavailable if all(isinstance(error, DataUnavailable) for error in failures) else DataError
    raise kind("\n".join(error.message for error in failures), failures[0].hint)


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
        _check_range(entry, raw, low, high)
    except DataError as error:
        hint = error.hint or f"opauc-bench data fetch {entry.name} --fresh"
        raise DataError(f"{entry.name}: {error.message}", hint) from None
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


def _origins(form: Form, raw: list[RawFile]) -> list[dict[str, Any]]:
    if form.source is not None:
        return [{"name": form.source.sklearn, "source": "scikit-learn"}]
    return [
        {"name": file.name, "sha256": file.sha256, "confirmed": file.confirmed, "source": file.source}
        for file in raw
    ]


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


def binary_labels(labels: np.ndarray, form: Form) -> np.ndarray:
    """Turn labels into -1 and +1 by the form's rule.

    Parameters
    ----------
    labels : ndarray of shape (n_samples,)
        Numbers or text, finite.
    form : Form
        ``positive`` lists the classes that become +1; ``random_half`` orders the classes by the SHA-256 of
        ``"<seed>:<label>"`` and takes the first half (rounded down), the same on every machine.

    Returns
    -------
    ndarray of shape (n_samples,), int8

    Raises
    ------
    DataError
        A positive label does not occur, or only one class remains.
    """
    classes = np.unique(labels)
    positive = _positive_classes(classes, form)
    absent = [label for label in positive if label not in classes]
    if absent:
        raise DataError(
            f"expected the positive labels {_listing(positive)}, got {_listing(classes)}; "
            f"{_listing(absent)} does not occur"
        )
    y = np.where(np.isin(labels, positive), 1, -1).astype(np.int8)
    if len(np.unique(y)) < 2:
        raise DataError(
            f"expected two classes, got one: labels {_listing(classes)}, positive {_listing(positive)}"
        )
    return y


def _positive_classes(classes: np.ndarray, form: Form) -> list[Any]:
    if form.positive is not None:
        return [float(label) if form.numeric_labels else str(label) for label in form.positive]
    seed = form.random_half.seed
    ordered = sorted(
        classes.tolist(), key=lambda label: hashlib.sha256(f"{seed}:{_spelled(label)}".encode()).digest()
    )
    return sorted(ordered[: len(classes) // 2])


def _spelled(label: Any) -> str:
    return f"{label:g}" if isinstance(label, float) else str(label)


def _listing(labels: Any) -> str:
    texts = [_spelled(label) for label in np.asarray(labels).tolist()]
    return ", ".join(texts if len(texts) <= 30 else [*texts[:30], "..."])


def _rule(form: Form, labels: np.ndarray) -> dict[str, Any]:
    positive = _positive_classes(np.unique(labels), form)
    rule = {"positive": [_spelled(label) for label in positive]}
    return rule if form.random_half is None else {**rule, "random_half_seed": form.random_half.seed}


def _check_counts(entry: DatasetEntry, form: Form, blocks: list[Any], y: np.ndarray) -> None:
    width = blocks[0].shape[1]
    if not all(isinstance(block, np.ndarray) for block in blocks):
        width = max(int(block.indices.max(initial=-1)) + 1 for block in blocks)
    elif form.format == "svmlight":
        width = max(int(np.flatnonzero(block.any(axis=0)).max(initial=-1)) + 1 for block in blocks)
    counts = [("rows", entry.n_samples, len(y)), ("features", entry.n_features, width)]
    if entry.n_positive is not None:
        counts.append(("positive rows", entry.n_positive, int((y == 1).sum())))
    wrong = [
        f"expected {expected:,} {what}, got {came:,}" for what, expected, came in counts if expected != came
    ]
    if wrong:
        raise DataError("; ".join(wrong))


def _check_range(entry: DatasetEntry, raw: list[RawFile], low: float, high: float) -> None:
    if not entry.range[0] <= low <= high <= entry.range[1]:
        where = " + ".join(str(file.path) for file in raw) or "scikit-learn"
        raise DataError(f"{where}: expected values within {list(entry.range)}, got {[low, high]}")


def minmax(blocks: list[Any]) -> None:
    """Map each feature to [-1, 1] by its smallest and largest value; a constant one becomes 0.

    Parameters
    ----------
    blocks : list of ndarray or csr_matrix
        All rows, in pieces; each piece is replaced by a dense float64 array.
    """
    low = np.min([_extreme(block, "min") for block in blocks], axis=0)
    high = np.max([_extreme(block, "max") for block in blocks], axis=0)
    constant = low == high
    span = np.where(constant, 1.0, high - low)
    if not np.isfinite(span).all():
        raise DataError("expected features whose range is a finite number, got values too far apart")
    for position, block in enumerate(blocks):
        dense = np.array(block if isinstance(block, np.ndarray) else block.toarray(), dtype=np.float64)
        dense -= low
        dense /= span
        dense *= 2.0
        dense -= 1.0
        dense[:, constant] = 0.0
        blocks[position] = dense


def _extreme(block: Any, which: str) -> np.ndarray:
    found = getattr(block, which)(axis=0)
    return np.asarray(found if isinstance(found, np.ndarray) else found.toarray(), dtype=np.float64).ravel()


def _summary(blocks: list[Any], n_features: int) -> tuple[float, float, float]:
    """Return density, smallest and largest value, the implicit zeros of sparse blocks included."""
    nonzero = sum(
        int(np.count_nonzero(block if isinstance(block, np.ndarray) else block.data)) for block in blocks
    )
    rows = sum(block.shape[0] for block in blocks)
    low = min(float(block.min()) for block in blocks)
    high = max(float(block.max()) for block in blocks)
    return nonzero / (rows * n_features), low, high
