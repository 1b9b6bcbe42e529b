"""Helpers of the learners for sparse rows: aligned state, CSR rows as a kernel takes them."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from ..kernels import njit

__all__ = [
    "MOST_FEATURES",
    "add_class_sums",
    "add_to_sums",
    "aligned_zeros",
    "by_rows",
    "check_rows",
    "csr_of",
    "csr_rows",
    "fill",
    "is_plain",
    "narrowed",
    "padded",
    "rows_between",
    "rows_of",
    "taken",
]

# Indices are 32-bit in the kernels, and a state may have one coordinate more than there are features.
MOST_FEATURES = 2**31 - 2
_CACHE_LINE = 64
_ROWS_AT_ONCE = 1024


def aligned_zeros(*shape: int) -> np.ndarray:
    """Zeros that begin on a cache line, so that the few values of one coordinate never lie on two of them."""
    n_bytes = 8 * int(np.prod(shape))
    raw = np.zeros(n_bytes + _CACHE_LINE, dtype=np.uint8)
    start = -raw.ctypes.data % _CACHE_LINE
    return raw[start : start + n_bytes].view(np.float64).reshape(shape)


def padded(n: int, multiple: int) -> int:
    """The smallest multiple that is not below ``n``."""
    return -(-n // multiple) * multiple


def taken(array: np.ndarray, places: np.ndarray, axis: int, size: int | None = None) -> np.ndarray:
    """Some ``places`` along an axis, C-contiguous; numbers begin on a cache line, with zeros up to ``size`` places."""
    if array.dtype != np.float64:
        return np.ascontiguousarray(np.take(array, places, axis=axis))
    shape = list(array.shape)
    shape[axis] = size or len(places)
    some = aligned_zeros(*shape)
    if axis % array.ndim == 0:
        np.take(array, places, axis=0, out=some[: len(places)], mode="clip")  # without another copy on the way
        return some
    for start in range(0, shape[0], _ROWS_AT_ONCE):
        fill(some[start:], np.take(array[start : start + _ROWS_AT_ONCE], places, axis=axis))
    return some


def fill(room: np.ndarray, values: np.ndarray) -> None:
    """Copy ``values`` into the leading corner of zeros. Pages that would have zeros only stay unused."""
    corner = tuple(map(slice, values.shape[1:]))
    for start in range(0, len(values), _ROWS_AT_ONCE):
        part = values[start : start + _ROWS_AT_ONCE]
        if part.dtype.names or part.any():
            room[(slice(start, start + len(part)), *corner)] = part


def check_rows(X) -> None:
    """Raise ValueError if kernels cannot read sparse rows: they would read and write outside of their arrays."""
    _check_width(X)
    if sparse.issparse(X):
        X.check_format(full_check=True)


def _check_width(X) -> None:
    if X.shape[1] > MOST_FEATURES:
        raise ValueError(f"expected at most {MOST_FEATURES:,} features, got {X.shape[1]:,}")


def by_rows(X):
    """Sparse rows as CSR, which kernels take for granted; anything else as it is, but for data frames."""
    if hasattr(X, "iloc"):
        raise TypeError("expected an array or a sparse matrix, got a data frame: pass X.to_numpy()")
    _check_width(X)
    return X.tocsr() if sparse.issparse(X) and X.format != "csr" else X


def rows_of(X) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """``indptr`` (int64), ``indices`` (int32) and ``data`` of CSR rows, read-only.

    To numba, arrays that may be written and arrays that may not are two types: kernels would be compiled for each.
    """
    indptr, indices = X.indptr.astype(np.int64, copy=False), X.indices.astype(np.int32, copy=False)
    return _read_only(indptr), _read_only(indices), _read_only(X.data)


def _read_only(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.flags.writeable = False
    return view


def csr_rows(data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, n_features: int) -> sparse.csr_matrix:
    """CSR rows of these arrays, none of which is copied; ``csr_matrix`` would look through them first."""
    rows = sparse.csr_matrix((len(indptr) - 1, n_features), dtype=data.dtype)
    rows.data, rows.indices, rows.indptr = data, indices, indptr.astype(indices.dtype, copy=False)
    return rows


def rows_between(X: sparse.csr_matrix, first: int, last: int) -> sparse.csr_matrix:
    """The rows from ``first`` to before ``last``, without a copy of what is stored."""
    if first == 0 and last == X.shape[0]:
        return X
    start, stop = X.indptr[first], X.indptr[last]
    return csr_rows(X.data[start:stop], X.indices[start:stop], X.indptr[first : last + 1] - start, X.shape[1])


def add_class_sums(X: sparse.csr_matrix, positive: np.ndarray, sums: np.ndarray) -> bool:
    """Add CSR rows to the sums of their classes, shape (2, n_features), positives first, entry after entry.

    The sums are the same, however the rows are cut into pieces; of shape (2, 0), they are left out. Returns whether the
    rows are plain, which is seen on the way: float64, with indices that rise within each row, all values finite, and no
    zero stored.
    """
    return _add_class_sums(*rows_of(X), positive, sums) and X.dtype == np.float64


@njit()
def _add_class_sums(indptr, indices, data, positive, sums):
    flat, n_features, plain = sums.reshape(-1), sums.shape[1], True
    for t in range(len(positive)):
        first, last = indptr[t], indptr[t + 1]
        if n_features:
            add_to_sums(indices, data, first, last, 0 if positive[t] else n_features, flat)
        plain &= is_plain(indices, data, first, last)  # the row is in the cache
    return plain


@njit()
def add_to_sums(indices, data, first, last, offset, sums):
    """Add entries ``first`` to before ``last`` of CSR rows, at ``offset`` plus their features."""
    # Positions without a sign: numba does not ask whether they are negative.
    offset = np.uint64(offset)
    for k in range(np.uint64(first), np.uint64(last)):
        sums[offset + np.uint64(np.uint32(indices[k]))] += data[k]


@njit()
def is_plain(indices, data, first, last):
    """Whether the features of these entries rise, and all values are finite and not zero."""
    first, last, one, n_odd = np.uint64(first), np.uint64(last), np.uint64(1), 0
    for k in range(first, last):
        n_odd += (data[k] == 0.0) | (data[k] - data[k] != 0.0)
    for k in range(first + one, last):
        n_odd += indices[k] <= indices[k - one]
    return n_odd == 0


def narrowed(X) -> tuple[np.ndarray, sparse.csr_matrix]:
    """The features that occur in CSR rows, in the order in which they come, and the rows with these features alone."""
    indices = X.indices
    places = np.empty(len(indices), dtype=np.int32)
    features = np.empty(min(len(indices), X.shape[1]), dtype=np.int32)
    # Zeros take no memory until they are changed: there may be billions of features.
    n = _number(indices, np.zeros(X.shape[1], dtype=np.int32), features, places)
    return features[:n], csr_rows(X.data, places, X.indptr, n)


@njit()
def _number(indices, numbers, features, places):
    n = 0
    for k in range(len(indices)):
        i = indices[k]
        if numbers[i] == 0:
            features[n] = i
            n += 1
            numbers[i] = n
        places[k] = numbers[i] - 1
    return n


def csr_of(rows: np.ndarray) -> sparse.csr_matrix:
    """CSR form of dense float64 rows, C-contiguous: what SciPy makes of them, several times as fast."""
    n_rows, n_features = rows.shape
    indptr = np.zeros(n_rows + 1, dtype=np.int64)
    _count(rows, indptr)
    n_stored = indptr[-1]
    if n_stored == rows.size:  # without a copy of the values
        indices = np.tile(np.arange(n_features, dtype=np.int32), n_rows)
        return sparse.csr_matrix((rows.reshape(-1), indices, indptr), shape=(n_rows, n_features))
    indices, data = np.empty(n_stored + 1, dtype=np.int32), np.empty(n_stored + 1)
    _gather(rows, indices, data)
    return sparse.csr_matrix((data[:n_stored], indices[:n_stored], indptr), shape=(n_rows, n_features))


@njit()
def _count(rows, indptr):
    for i in range(rows.shape[0]):
        n = 0
        for x in rows[i]:
            n += x != 0.0
        indptr[i + 1] = indptr[i] + n


@njit()
def _gather(rows, indices, data):
    """Without a branch, which would be guessed wrong half of the time: a zero is overwritten by what comes next."""
    k = 0
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            indices[k], data[k] = j, rows[i, j]
            k += rows[i, j] != 0.0
