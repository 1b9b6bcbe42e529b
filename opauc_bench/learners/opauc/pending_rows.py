"""Rows that wait until the base of `frequent_directions_state.py` changes; their products with what has features."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from ...kernels import njit
from ..blocks import Block
from ..rows import rows_of
from .products import add_product, dot

__all__ = ["DenseRows", "RowIndices", "SparseRows", "dense_limit", "most_entries"]

_FOLD = 4096  # features at a time in the products of dense rows
_STRIP = 16  # features at a time when the base of sparse rows changes
_FIRST_ENTRIES = 1 << 12


def most_entries(n_features: int) -> int:
    """Nonzero entries of rows that may wait."""
    return max(1 << 22, 4 * n_features)


def dense_limit(n_features: int) -> int:
    """Dense rows that may wait."""
    return max(16, (1 << 23) // n_features)


class SparseRows:
    """CSR rows."""

    def __init__(self, n_features: int, limit: int):
        self.limit = limit
        self.used = 0
        self.place = np.full(n_features, -1, dtype=np.int32)  # of a feature among those of a few rows; -1 between calls
        self.touched = np.zeros(n_features, dtype=bool)  # features of earlier rows
        self.indptr = np.zeros(limit + 1, dtype=np.int64)
        self.indices = np.zeros(_FIRST_ENTRIES, dtype=np.int32)
        self.data = np.zeros(_FIRST_ENTRIES)

    def in_its_form(self, X):
        return X if sparse.issparse(X) else sparse.csr_matrix(X)

    def room(self, X, start: int, stop: int, waiting: int) -> int:
        """How many of the rows from ``start`` to ``stop`` may come before the base has to change."""
        stop = min(stop, start + self.limit - waiting)
        entries = self.used + X.indptr[start + 1 : stop + 1].astype(np.int64) - X.indptr[start]
        return min(stop - start, 1 + int(np.searchsorted(entries, most_entries(len(self.place)))))

    def full(self, waiting: int) -> bool:
        return waiting == self.limit or self.used >= most_entries(len(self.place))

    def products(self, X, start, stop, base, V, waiting):
        """The products of the rows that ``take_rows`` needs; the rows join those that wait."""
        indptr, indices, data = rows_of(X)
        indptr = indptr[start : stop + 1]
        self._grow(self.used + int(indptr[-1] - indptr[0]))
        n = stop - start
        on_base, on_models = np.zeros((n, base.shape[1])), np.zeros((n, V.shape[1]))
        squares = np.zeros(n)
        _sparse_products(indptr, indices, data, base, V, on_base, on_models, squares)
        total = _join(indptr, indices, data, squares, waiting, self.indptr, self.indices, self.data)
        self.used = int(self.indptr[total])
        on_rows = _overlaps(indptr, indices, data, self.place, self.indptr[: total + 1], self.indices, self.data)
        return on_base, on_rows, on_models, squares

    def _grow(self, entries: int) -> None:
        if entries > len(self.data):
            size = max(entries, 2 * len(self.data))
            for name in ("indices", "data"):
                old = getattr(self, name)
                new = np.zeros(size, dtype=old.dtype)
                new[: self.used] = old[: self.used]
                setattr(self, name, new)

    def add(self, out: np.ndarray, coefficients: np.ndarray) -> None:
        """out += X' coefficients, for the rows that wait."""
        _add_sparse(out, self.indptr, self.indices, self.data, coefficients)

    def at(self, features: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        """X' coefficients at some features, which may repeat."""
        features, where = np.unique(features, return_inverse=True)
        out = np.zeros((len(features), coefficients.shape[1]))
        _add_sparse_at(out, features, self.place, self.indptr, self.indices, self.data, coefficients)
        return out[where]

    def widened(self, n_features: int, limit: int) -> SparseRows:
        """The same rows with room for more features."""
        wide = SparseRows(n_features, limit)
        wide.used, wide.indices, wide.data = self.used, self.indices, self.data
        wide.touched[: len(self.touched)] = self.touched
        wide.indptr[: len(self.indptr)] = self.indptr
        return wide

    def fold(self, V, base, fade, beta, C, based, of_models, of_base) -> None:
        """V becomes V fade + B beta + X' of_models, each class's B becomes B C + X' of_base; rows can be dropped."""
        n, used = len(of_models), slice(self.used)
        shape = (n, len(V))
        by_feature = sparse.csr_matrix((self.data[used], self.indices[used], self.indptr[: n + 1]), shape).tocsc()
        self.touched[self.indices[used]] = True
        _fold_sparse(
            np.flatnonzero(self.touched),
            *(by_feature.indptr.astype(np.int64), by_feature.indices, by_feature.data),
            *(V, base, fade, beta, C, based, of_models, of_base),
        )
        self.used = 0


class DenseRows:
    """Rows with all their features."""

    rows: np.ndarray

    def __init__(self, n_features: int, limit: int):
        self.rows = np.zeros((min(limit, dense_limit(n_features)), n_features))

    def in_its_form(self, X):
        return X.toarray() if sparse.issparse(X) else X

    def room(self, X, start, stop, waiting):
        return min(stop - start, len(self.rows) - waiting)

    def full(self, waiting):
        return waiting == len(self.rows)

    def products(self, X, start, stop, base, V, waiting):
        n = stop - start
        if isinstance(X, Block):
            X = X.values[start:stop]
            squares = np.einsum("ti,ti->t", X, X)
            joining = np.flatnonzero(squares > 0.0)
            total = waiting + len(joining)
            self.rows[waiting:total] = X[joining]
            return X @ base, X @ self.rows[:total].T, X @ V, squares
        on_base, on_models = np.zeros((n, base.shape[1])), np.zeros((n, V.shape[1]))
        on_rows, squares = np.zeros((n, waiting + n)), np.zeros(n)
        _dense_products(X[start:stop], waiting, self.rows, base, V, on_base, on_rows, on_models, squares)
        return on_base, on_rows, on_models, squares

    def add(self, out, coefficients):
        for start in range(0, len(out), _FOLD):
            out[start : start + _FOLD] += self.rows[: len(coefficients), start : start + _FOLD].T @ coefficients

    def at(self, features, coefficients):
        return self.rows[: len(coefficients), features].T @ coefficients

    def widened(self, n_features, limit):
        wide = DenseRows(n_features, limit)
        wide.rows = np.zeros((max(len(self.rows), len(wide.rows)), n_features))
        wide.rows[: len(self.rows), : self.rows.shape[1]] = self.rows
        return wide

    def fold(self, V, base, fade, beta, C, based, of_models, of_base):
        tau = C.shape[2]
        for start in range(0, len(V), _FOLD):
            features = slice(start, start + _FOLD)
            V[features] *= fade
            for p in (0, 1):
                old = base[features, p * tau : p * tau + based[p]]
                V[features] += old @ beta[p, : based[p]]
                base[features, p * tau : (p + 1) * tau] = old @ C[p, : based[p]]
        self.add(V, of_models)
        self.add(base, of_base)


class RowIndices(DenseRows):
    """Rows given by their inner products with those of the pass: what waits is their indices."""

    def __init__(self, n_features: int, limit: int):
        self.rows = np.zeros(limit, dtype=np.int64)

    def products(self, X, start, stop, base, V, waiting):
        some = X[start:stop]
        squares = some.gram_matrix().diagonal().copy()
        joining = np.flatnonzero(squares > 0.0)
        total = waiting + len(joining)
        self.rows[waiting:total] = some.places[joining]
        return some.values @ base, some.values[:, self.rows[:total]], some.values @ V, squares

    def add(self, out, coefficients):
        out[self.rows[: len(coefficients)]] += coefficients

    def at(self, features, coefficients):
        places = self.rows[: len(coefficients)]
        out = np.zeros((max(features.max(initial=-1), places.max(initial=-1)) + 1, coefficients.shape[1]))
        out[places] = coefficients
        return out[features]

    def widened(self, n_features, limit):
        wide = RowIndices(n_features, max(limit, len(self.rows)))
        wide.rows[: len(self.rows)] = self.rows
        return wide


@njit(fastmath={"contract"})
def _sparse_products(indptr, indices, data, base, V, on_base, on_models, squares):
    for t in range(len(squares)):
        b, v = on_base[t], on_models[t]
        for e in range(indptr[t], indptr[t + 1]):
            x, row_of_base, row_of_V = data[e], base[indices[e]], V[indices[e]]
            squares[t] += x * x
            for j in range(len(b)):
                b[j] += x * row_of_base[j]
            for g in range(len(v)):
                v[g] += x * row_of_V[g]


@njit()
def _join(indptr, indices, data, squares, waiting, starts, kept, values):
    """Let the rows whose squared length is not 0 wait after the others; how many there are then."""
    used = starts[waiting]
    for t in range(len(indptr) - 1):
        if squares[t] == 0.0:
            continue
        for e in range(indptr[t], indptr[t + 1]):
            kept[used], values[used] = indices[e], data[e]
            used += 1
        waiting += 1
        starts[waiting] = used
    return waiting


@njit(fastmath={"contract"})
def _overlaps(indptr, indices, data, place, starts, kept, values):
    """Inner products of a few rows with all that wait, shape (n, rows that wait).

    Waiting rows are read once, from front to back. For each feature there is a list of the few rows that have it, or
    where these are many, a row with a place for all of them.
    """
    n, first, last = len(indptr) - 1, indptr[0], indptr[len(indptr) - 1]
    ends, row, x = _lists_of_features(indptr, indices, data, place)
    full, n_full = np.full(len(ends), -1), 0
    for i in range(len(ends) - 1):
        if 4 * (ends[i + 1] - ends[i]) > n:
            full[i] = n_full
            n_full += 1
    spread = np.zeros((n_full, n))
    for i in range(len(ends) - 1):
        if full[i] >= 0:
            for q in range(ends[i], ends[i + 1]):
                spread[full[i], row[q]] = x[q]
    overlaps = np.zeros((len(starts) - 1, n))
    for r in range(len(starts) - 1):
        of_row = overlaps[r]
        for e in range(starts[r], starts[r + 1]):
            i, v = place[kept[e]], values[e]
            if i < 0:
                continue
            if full[i] >= 0:
                of_feature = spread[full[i]]
                for t in range(n):
                    of_row[t] += v * of_feature[t]
            else:
                for q in range(ends[i], ends[i + 1]):
                    of_row[row[q]] += v * x[q]
    for e in range(first, last):
        place[indices[e]] = -1
    return overlaps.T.copy()


@njit()
def _lists_of_features(indptr, indices, data, place):
    """By the ``place`` of each feature of a few rows: where its list ends; in the lists, the rows and their values."""
    n, n_places, first, last = len(indptr) - 1, 0, indptr[0], indptr[len(indptr) - 1]
    ends = np.zeros(last - first + 1, dtype=np.int64)
    for e in range(first, last):
        if place[indices[e]] < 0:
            place[indices[e]] = n_places
            n_places += 1
        ends[place[indices[e]] + 1] += 1
    ends = ends[: n_places + 1]
    for i in range(n_places):
        ends[i + 1] += ends[i]
    row, x, free = np.empty(last - first, dtype=np.int64), np.empty(last - first), ends[:-1].copy()
    for t in range(n):
        for e in range(indptr[t], indptr[t + 1]):
            i = place[indices[e]]
            row[free[i]], x[free[i]] = t, data[e]
            free[i] += 1
    return ends, row, x


@njit(fastmath={"contract"})
def _add_sparse(out, starts, indices, data, coefficients):
    for r in range(len(coefficients)):
        c = coefficients[r]
        for e in range(starts[r], starts[r + 1]):
            row, x = out[indices[e]], data[e]
            for g in range(len(c)):
                row[g] += x * c[g]


@njit(fastmath={"contract"})
def _add_sparse_at(out, features, place, starts, indices, data, coefficients):
    for f in range(len(features)):
        place[features[f]] = f
    for r in range(len(coefficients)):
        c = coefficients[r]
        for e in range(starts[r], starts[r + 1]):
            if place[indices[e]] >= 0:
                row, x = out[place[indices[e]]], data[e]
                for g in range(len(c)):
                    row[g] += x * c[g]
    for f in range(len(features)):
        place[features[f]] = -1


@njit(fastmath={"contract"})
def _fold_sparse(features, starts, rows, data, V, base, fade, beta, C, based, of_models, of_base):
    """One pass over the features that any row had, a few at a time, so that they stay in the cache."""
    width, wide, tau = V.shape[1], base.shape[1], C.shape[2]
    new_v, new_b = np.empty((_STRIP, width)), np.empty((_STRIP, wide))
    old, new = np.empty((_STRIP, tau)), np.empty((_STRIP, tau))
    for start in range(0, len(features), _STRIP):
        n = min(_STRIP, len(features) - start)
        for f in range(n):
            i = features[start + f]
            for g in range(width):
                new_v[f, g] = V[i, g] * fade[g]
            for j in range(wide):
                new_b[f, j] = base[i, j]
        for p in range(2):
            for f in range(n):
                for j in range(based[p]):
                    old[f, j] = new_b[f, p * tau + j]
            new[:] = 0.0
            add_product(new_v, old, beta[p], n, based[p])
            add_product(new, old, C[p], n, based[p])
            for f in range(n):
                for j in range(tau):
                    new_b[f, p * tau + j] = new[f, j]
        for f in range(n):
            i = features[start + f]
            to_b, to_v = new_b[f], new_v[f]
            for e in range(starts[i], starts[i + 1]):
                x, b, v = data[e], of_base[rows[e]], of_models[rows[e]]
                for j in range(wide):
                    to_b[j] += x * b[j]
                for g in range(width):
                    to_v[g] += x * v[g]
            for j in range(wide):
                base[i, j] = to_b[j]
            for g in range(width):
                V[i, g] = to_v[g]


@njit(fastmath={"contract"})
def _dense_products(X, waiting, rows, base, V, on_base, on_rows, on_models, squares):
    n, d = X.shape
    add_product(on_base, X, base, n, d)
    add_product(on_models, X, V, n, d)
    for t in range(n):
        squares[t] = dot(X[t], X[t])
        for r in range(waiting):
            on_rows[t, r] = dot(X[t], rows[r])
        if squares[t] > 0.0:
            for i in range(d):
                rows[waiting, i] = X[t, i]
            waiting += 1
