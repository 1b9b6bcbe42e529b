"""From blocks of rows to finished arrays in a folder: labels, scaling, checks, dense or sparse."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError
from ..task import DENSE_ABOVE
from .content import Block
from .entry import WIDE, DatasetEntry, Form, Fourier
from .fourier import draw_frequencies
from .row_encoder import offsets_of, scales_of
from .store import DTYPES
from .transform import binary_labels, scale, unit_rows

__all__ = ["arrange", "collect"]

_ROWS_OF_OFFSETS = 1000  # at most
_FAR = 100.0  # interquartile ranges from 0, of a median
_ROWS = 4096  # rows that are made dense at a time
_PIECE = 1 << 22  # values on disk that are processed at a time
_MOST_VALUES = 2**31 - 1  # positions are stored in 32 bits


def arrange(
    entry: DatasetEntry, form: Form, rows: Iterator[Block], folder: Path, remark: Callable[[str], None]
) -> tuple[np.ndarray, dict[str, Any]]:
    """Write all arrays but y to a folder; wide sparse rows are collected on disk, others in memory.

    ``remark`` is called with what the user should know about the features.

    Returns
    -------
    y : ndarray of shape (n_samples,), int8
    facts : dict
        Entries of the manifest: counts, density, value range, positive classes, scaling and kind of `store.ARRAYS`.

    Raises
    ------
    DataError
        The data do not agree with the catalogue.
    """
    if form.drop_empty or ((entry.n_features or 0) >= WIDE and entry.scaling != "minmax"):
        return _on_disk(entry, form, rows, folder)
    return _in_memory(entry, form, rows, folder, remark)


def _in_memory(entry, form, rows, folder, remark):
    blocks, labels, width = collect(rows)
    if not (form.has_indices or form.format == "token_counts"):
        width = max(block.shape[1] for block in blocks)
    y, binary = _checked_labels(entry, form, labels, width)
    scale(blocks, entry.scaling)
    if entry.scaling != "minmax" and isinstance(blocks[0], np.ndarray) and (note := _far_feature(blocks[0])):
        remark(note)
    nonzero = sum(int(np.count_nonzero(block if isinstance(block, np.ndarray) else block.data)) for block in blocks)
    density = nonzero / (len(y) * entry.n_features)
    low, high = min(float(block.min()) for block in blocks), max(float(block.max()) for block in blocks)
    facts = _facts(entry, y, binary, density, low, high)
    if density > DENSE_ABOVE or entry.fourier:
        _write_dense(folder, (len(y), entry.n_features), _drain(blocks))
        added = {"storage": "dense"} if entry.fourier is None else _add_fourier(entry, entry.fourier, facts, folder)
        return y, facts | added
    _write_csr(folder, (Block(block, labels[:0]) for block in _drain(blocks)))
    return y, facts | {"storage": "csr"}


def _far_feature(rows: np.ndarray) -> str:
    """A note on the feature that is farthest from 0 for its spread in the first rows, where that costs digits."""
    rows = np.asarray(rows[:_ROWS_OF_OFFSETS], dtype=np.float64)
    offsets = offsets_of(rows)
    ratios = np.abs(np.array(offsets, dtype=np.float64)) / np.array(scales_of(rows, offsets))
    ratios[rows.max(axis=0) == rows.min(axis=0)] = 0.0  # constant in these rows: without a spread
    farthest = int(np.argmax(ratios))
    if ratios[farthest] <= _FAR:
        return ""
    return (
        f"note: feature {farthest + 1} is around {offsets[farthest]:g}, {ratios[farthest]:.0f} times its spread: its "
        "differences are hardly learnt, and products of such values lose digits; scaling: minmax, or centre it before"
    )


def _on_disk(entry, form, rows, folder):
    n_values, labels, width = _write_csr(folder, rows, unit_rows if entry.scaling == "unit_rows" else None)
    if n_values == 0:
        raise DataError("expected values, got only zeros")
    values, indices = (np.load(folder / f"{array}.npy", mmap_mode="r+") for array in ("data", "indices"))
    pieces = [slice(start, start + _PIECE) for start in range(0, n_values, _PIECE)]
    largest = np.zeros(max(int(indices[piece].max()) for piece in pieces) + 1)
    for piece in pieces:
        np.maximum.at(largest, indices[piece], np.abs(values[piece]))
    if form.drop_empty:
        used = largest > 0
        numbers = (np.cumsum(used) - 1).astype(np.int32)
        for piece in pieces:
            indices[piece] = numbers[indices[piece]]
        largest = largest[used]
        width = len(largest)
        if entry.n_features is None:
            entry = entry.model_copy(update={"n_features": len(largest)})
    y, binary = _checked_labels(entry, form, labels, width)
    if entry.scaling == "maxabs":
        for piece in pieces:
            values[piece] /= largest[indices[piece]]
    density = n_values / (len(y) * entry.n_features)
    low, high = min(float(values[piece].min()) for piece in pieces), max(float(values[piece].max()) for piece in pieces)
    if density < 1:
        low, high = min(low, 0.0), max(high, 0.0)
    facts = _facts(entry, y, binary, density, low, high)
    if density <= DENSE_ABOVE:
        return y, facts | {"storage": "csr"}
    from scipy.sparse import csr_matrix

    shape = (len(y), entry.n_features)
    X = csr_matrix((values, indices, np.load(folder / "indptr.npy")), shape=shape, copy=False)
    _write_dense(folder, shape, (X[start : start + _ROWS] for start in range(0, len(y), _ROWS)))
    for array in ("data", "indices", "indptr"):
        (folder / f"{array}.npy").unlink()
    return y, facts | {"storage": "dense"}


def collect(rows: Iterator[Block]) -> tuple[list[Any], np.ndarray, int]:
    """Return all blocks, each in the smaller of its two forms, the labels, and the largest index (from 1) if sparse.

    DataError if there are no rows.
    """
    blocks, labels, width = [], [], 0
    for block in rows:
        X = block.X
        width = max(width, _width(X))
        if not isinstance(X, np.ndarray) and X.nnz > DENSE_ABOVE * X.shape[0] * X.shape[1]:
            X = X.toarray()
        blocks.append(X)
        labels.append(block.labels)
    if not blocks:
        raise DataError("expected rows of data, got none")
    return blocks, np.concatenate(labels), width


def _checked_labels(
    entry: DatasetEntry, form: Form, labels: np.ndarray, width: int
) -> tuple[np.ndarray, dict[str, Any]]:
    """Return y, and the manifest's entry on the positive classes."""
    y, binary = binary_labels(labels, form)
    assert entry.n_features is not None  # given or counted by now
    counts = [] if entry.n_samples is None else [("rows", entry.n_samples, len(y))]
    if not (entry.n_features_at_most and width <= entry.n_features):
        counts.append(("features", entry.n_features, width))
    if entry.n_positive is not None:
        counts.append(("positive rows", entry.n_positive, int((y == 1).sum())))
    wrong = [f"expected {expected:,} {what}, got {found:,}" for what, expected, found in counts if expected != found]
    if wrong:
        raise DataError("; ".join(wrong))
    return y, binary


def _width(X: Any) -> int:
    """Return the largest index (from 1) in sparse rows, also if its value is 0; 0 for dense rows."""
    return 0 if isinstance(X, np.ndarray) else int(X.indices.max(initial=-1)) + 1


def _facts(
    entry: DatasetEntry, y: np.ndarray, binary: dict[str, Any], density: float, low: float, high: float
) -> dict[str, Any]:
    if entry.range is not None and not entry.range[0] <= low <= high <= entry.range[1]:
        raise DataError(
            f"expected values within {list(entry.range)}, got {[low, high]}; if they are correct, "
            "set 'range:' in the entry, or scale them with 'scaling:'"
        )
    return {
        "n_samples": len(y),
        "n_features": entry.n_features,
        "n_positive": int((y == 1).sum()),
        "density": density,
        "value_range": [low, high],
        "binary": binary,
        "scaling": entry.scaling,
    }


def _write_dense(folder: Path, shape: tuple[int, int], blocks: Iterator[Any]) -> None:
    """Write X, by calls that fail if the disk is full: a process that writes to a map would be killed."""
    with (folder / "X.npy").open("wb") as file:
        start = _write_header(file, DTYPES["X"], shape)
        for block in blocks:
            rows = block if isinstance(block, np.ndarray) else block.toarray()
            file.write(np.ascontiguousarray(rows, dtype=DTYPES["X"]).data)
        if file.tell() != start + 8 * shape[0] * shape[1]:
            raise RuntimeError("the blocks have another shape than the matrix")


def _drain(blocks: list[Any]) -> Iterator[Any]:
    """Take blocks from a list, so that their memory is freed as they are written."""
    blocks.reverse()
    while blocks:
        yield blocks.pop()


def _write_csr(
    folder: Path, rows: Iterator[Block], change: Callable[[Any], Any] | None = None
) -> tuple[int, np.ndarray, int]:
    """Write the arrays of a CSR matrix without explicit zeros, with one block in memory.

    Returns the number of values, the labels, and the largest index (from 1), also if its value is 0.
    """
    from scipy.sparse import csr_matrix

    n_values, width, lengths, labels = 0, 0, [np.zeros(1, np.int32)], []
    paths = {array: folder / f"{array}.npy" for array in ("data", "indices")}
    with paths["data"].open("wb") as data, paths["indices"].open("wb") as indices:
        files = {"data": data, "indices": indices}
        starts = {array: _write_header(file, DTYPES[array], (0,)) for array, file in files.items()}
        for block in rows:
            X = csr_matrix(block.X, dtype=np.float64)
            width = max(width, _width(X))
            X = change(X) if change else X
            X.eliminate_zeros()
            n_values += X.nnz
            if n_values > _MOST_VALUES:
                raise DataError(f"expected at most {_MOST_VALUES:,} nonzero values, got more")
            for array, file in files.items():
                file.write(np.ascontiguousarray(getattr(X, array), dtype=DTYPES[array]).data)
            lengths.append(np.diff(X.indptr).astype(np.int32))
            labels.append(block.labels)
        for array, file in files.items():
            file.seek(0)
            if _write_header(file, DTYPES[array], (n_values,)) != starts[array]:
                raise RuntimeError("numpy wrote two headers of different sizes")
    np.save(folder / "indptr.npy", np.cumsum(np.concatenate(lengths), dtype=DTYPES["indptr"]))
    return n_values, np.concatenate(labels) if labels else np.empty(0), width


def _write_header(file: Any, dtype: str, shape: tuple[int, ...]) -> int:
    """Write the header of an ``.npy`` file, in which NumPy leaves room for the number of rows to grow."""
    np.lib.format.write_array_header_1_0(file, {"descr": dtype, "fortran_order": False, "shape": shape})
    return file.tell()


def _add_fourier(entry: DatasetEntry, fourier: Fourier, facts: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Write the frequencies and phases of random features; return the entries of the manifest that change."""
    n = fourier.n
    X = np.load(folder / "X.npy", mmap_mode="r")
    omega, phase, bandwidth = draw_frequencies(X, n, fourier.bandwidth, fourier.seed)
    np.save(folder / "omega.npy", omega)
    np.save(folder / "phase.npy", phase)
    largest = float(np.sqrt(2.0 / n))
    low, high = facts["value_range"]
    return {
        "n_features": entry.width,
        "density": (facts["density"] * entry.n_features + n) / entry.width,
        "value_range": [min(low, -largest), max(high, largest)],
        "storage": "fourier",
        "fourier": {"n": n, "bandwidth": bandwidth, "seed": fourier.seed},
    }
