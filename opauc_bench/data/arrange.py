"""From blocks of rows to finished arrays in a folder: labels, scaling, what the catalogue asserts, dense or sparse."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError
from .catalogue import WIDE, DatasetEntry
from .forms import Form
from .fourier import draw_frequencies
from .lines import Block
from .spool import Spool
from .store import DTYPES
from .transform import binary_labels, scale, unit_rows

__all__ = ["Arranged", "arrange", "collect"]

DENSE_ABOVE = 0.2  # density from which rows are stored dense
_ROWS = 4096  # rows that are made dense at a time


@dataclass(frozen=True)
class Arranged:
    """What `arrange` has written, and what it found.

    Attributes
    ----------
    kind : str
        One of `store.ARRAYS`.
    labels : ndarray of shape (n_samples,)
        As in the files.
    y : ndarray of shape (n_samples,), int8
    n_features : int
    density, low, high : float
        Share of values that are not zero; smallest and largest value, zeros included.
    fourier : dict or None
        Number, bandwidth and seed of random features.
    """

    kind: str
    labels: np.ndarray
    y: np.ndarray
    n_features: int
    density: float
    low: float
    high: float
    fourier: dict[str, Any] | None = None


def arrange(entry: DatasetEntry, form: Form, source: Iterator[Block], folder: Path) -> Arranged:
    """Write all arrays but y to a folder.

    Wide sparse rows go to disk as they come; others are collected in memory.

    Raises
    ------
    DataError
        The data are not what the catalogue promises.
    """
    wide = form.drop_empty or (entry.n_features >= WIDE and entry.scaling != "minmax")
    return (_on_disk if wide else _in_memory)(entry, form, source, folder)


def _in_memory(entry: DatasetEntry, form: Form, source: Iterator[Block], folder: Path) -> Arranged:
    blocks, labels = collect(source)
    numbered = form.has_indices or form.format == "token_counts"
    width = max(_width(block) if numbered else block.shape[1] for block in blocks)
    y = _checked_labels(entry, form, labels, width)
    scale(blocks, entry.scaling)
    density, low, high = _summary(blocks, entry.n_features)
    _check_range(entry, low, high)
    kind = "dense" if density > DENSE_ABOVE or entry.fourier else "csr"
    shape = (len(y), entry.n_features)
    (_write_dense if kind == "dense" else _write_csr)(folder, blocks, shape)
    arranged = Arranged(kind, labels, y, entry.n_features, density, low, high)
    return _with_fourier(entry, arranged, folder) if entry.fourier else arranged


def _on_disk(entry: DatasetEntry, form: Form, source: Iterator[Block], folder: Path) -> Arranged:
    from scipy.sparse import csr_matrix

    spool, labels = Spool(folder), []
    for block in source:
        X = csr_matrix(block.X, dtype=np.float64)
        spool.add(unit_rows(X) if entry.scaling == "unit_rows" else X)
        labels.append(block.labels)
    spool.close()
    if spool.n_values == 0:
        raise DataError("expected values, got none but zeros")
    largest = spool.largest_values()
    if form.drop_empty:
        used = largest > 0
        spool.renumber((np.cumsum(used) - 1).astype(np.int32))
        largest = largest[used]
    joined = np.concatenate(labels)
    y = _checked_labels(entry, form, joined, len(largest))
    if entry.scaling == "maxabs":
        spool.divide(largest)
    n_cells = len(y) * entry.n_features
    low, high = spool.extremes()
    if spool.n_values < n_cells:
        low, high = min(low, 0.0), max(high, 0.0)
    _check_range(entry, low, high)
    kind, density = "csr", spool.n_values / n_cells
    if density > DENSE_ABOVE:
        kind = "dense"
        _make_dense(folder, (len(y), entry.n_features))
    return Arranged(kind, joined, y, entry.n_features, density, low, high)


def collect(source: Iterator[Block]) -> tuple[list[Any], np.ndarray]:
    """Keep all blocks, each in the smaller of its two forms.

    Raises
    ------
    DataError
        There are none.
    """
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


# ------------------------------------------------------------------------------------------ what is asserted


def _checked_labels(entry: DatasetEntry, form: Form, labels: np.ndarray, width: int) -> np.ndarray:
    y = binary_labels(labels, form)
    counts = [("rows", entry.n_samples, len(y))]
    if not (entry.n_features_at_most and width <= entry.n_features):
        counts.append(("features", entry.n_features, width))
    if entry.n_positive is not None:
        counts.append(("positive rows", entry.n_positive, int((y == 1).sum())))
    wrong = [f"expected {due:,} {what}, got {came:,}" for what, due, came in counts if due != came]
    if wrong:
        raise DataError("; ".join(wrong))
    return y


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


def _check_range(entry: DatasetEntry, low: float, high: float) -> None:
    if not entry.range[0] <= low <= high <= entry.range[1]:
        raise DataError(
            f"expected values within {list(entry.range)}, got {[low, high]}; if they are right as they are, "
            "say so with 'range:' in the entry, or scale them with 'scaling:'"
        )


# ------------------------------------------------------------------------------------------ writing


def _write_dense(folder: Path, blocks: list[Any], shape: tuple[int, int]) -> None:
    X = np.lib.format.open_memmap(folder / "X.npy", mode="w+", dtype=DTYPES["X"], shape=shape)
    for start, block in _drain(blocks):
        X[start : start + block.shape[0]] = block if isinstance(block, np.ndarray) else block.toarray()
    X.flush()


def _write_csr(folder: Path, blocks: list[Any], shape: tuple[int, int]) -> None:
    from scipy.sparse import csr_matrix, vstack

    del shape
    X = vstack([csr_matrix(block) for _, block in _drain(blocks)], format="csr", dtype=np.float64)
    X.eliminate_zeros()
    for array, values in (("data", X.data), ("indices", X.indices), ("indptr", X.indptr)):
        np.save(folder / f"{array}.npy", values.astype(DTYPES[array]))


def _drain(blocks: list[Any]) -> Iterator[tuple[int, Any]]:
    """Take blocks from a list, so that their memory is freed as they are written."""
    start = 0
    blocks.reverse()
    while blocks:
        block = blocks.pop()
        yield start, block
        start += block.shape[0]


def _make_dense(folder: Path, shape: tuple[int, int]) -> None:
    """Turn the sparse arrays of a folder into a dense one."""
    from scipy.sparse import csr_matrix

    paths = [folder / f"{array}.npy" for array in ("data", "indices", "indptr")]
    sparse = csr_matrix(tuple(np.load(path, mmap_mode="r") for path in paths), shape=shape, copy=False)
    X = np.lib.format.open_memmap(folder / "X.npy", mode="w+", dtype=DTYPES["X"], shape=shape)
    for start in range(0, shape[0], _ROWS):
        X[start : start + _ROWS] = sparse[start : start + _ROWS].toarray()
    X.flush()
    for path in paths:
        path.unlink()


def _with_fourier(entry: DatasetEntry, arranged: Arranged, folder: Path) -> Arranged:
    n = entry.fourier.n
    X = np.load(folder / "X.npy", mmap_mode="r")
    omega, phase, bandwidth = draw_frequencies(X, n, entry.fourier.bandwidth, entry.fourier.seed)
    np.save(folder / "omega.npy", omega)
    np.save(folder / "phase.npy", phase)
    largest = float(np.sqrt(2.0 / n))
    return replace(
        arranged,
        kind="fourier",
        n_features=entry.width,
        density=(arranged.density * entry.n_features + n) / entry.width,
        low=min(arranged.low, -largest),
        high=max(arranged.high, largest),
        fourier={"n": n, "bandwidth": bandwidth, "seed": entry.fourier.seed},
    )
