"""Tables and svmlight files of the user's own, read twice: sizes are counted first."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from .entry import COLUMN_OPTIONS, ROW_METADATA, DataSource
from .inputs import RowChunk, Source
from .schema import ColumnOptions, Schema

__all__ = ["TableData", "column_options"]


class TableData:
    """Tables whose rows are read twice: to count rows and features, and to yield the rows.

    Features of categories that no row has are left out; a missing value becomes the mean of all rows, with ``missing:
    indicator`` as well. The arguments are those of `inputs.Source`.

    Attributes
    ----------
    n_rows, n_features, n_values : int
        The last one counts the values that are not 0.
    n_skipped : int
        Rows that were left out.
    schema : Schema or None
        None for svmlight files.
    remarks : list of str
        What the user should know: columns and rows that were left out.

    Raises
    ------
    DataError
        With the place.
    """

    def __init__(self, files: Sequence[Any], options: ColumnOptions, format: Any, **more: Any):
        self._open = partial(Source, files, options, format, **more)
        self.n_rows = self.n_features = self.n_values = 0
        with contextlib.closing(self._open()) as source:
            used = np.zeros(source.n_features or 0, dtype=bool)
            means = _IndicatedMeans(source.schema) if source.is_table and options.missing == "indicator" else None
            for chunk in source.chunks():
                self.n_rows += chunk.X.shape[0]
                self.n_features = max(self.n_features, chunk.X.shape[1])
                self.n_values += chunk.X.nnz
                if source.is_table:
                    used[chunk.X.indices] = True
                if means is not None:
                    means.add(chunk.X)
            self.schema = source.schema_at(source.statistics_so_far())
            if self.schema is not None and means is not None:
                self.schema = replace(self.schema, offsets=means.offsets())
            self.n_skipped, self.remarks = source.n_skipped, source.remarks()
        self._numbers: np.ndarray | None = None  # those of the features of a table
        if self.schema is not None:
            used[: len(self.schema.numbers)] = True
            self._numbers = (np.cumsum(used) - 1).astype(np.int32)
            self.n_features = int(used.sum())

    def chunks(self) -> Iterator[RowChunk]:
        """Yield the rows."""
        from scipy.sparse import csr_matrix

        with contextlib.closing(self._open(schema=self.schema, fixed_means=True)) as source:
            for chunk in source.chunks():
                X = chunk.X
                indices = X.indices if self._numbers is None else self._numbers[X.indices]
                arrays = (X.data, indices, X.indptr)
                yield chunk._replace(X=csr_matrix(arrays, shape=(X.shape[0], self.n_features)))


class _IndicatedMeans:
    """Means of the columns of numbers over rows in which a missing number is 0 and its indicator 1."""

    def __init__(self, schema: Schema | None):
        assert schema is not None
        self._n = len(schema.numbers)
        self._means, self._counts = np.zeros(self._n), np.zeros(self._n)

    def add(self, X: Any) -> None:
        present = X.shape[0] - np.asarray(X[:, self._n : 2 * self._n].sum(axis=0)).ravel()
        self._counts += present
        weights = 1.0 / np.maximum(self._counts, 1.0)
        # Each term is divided first, so that means of very large values do not overflow.
        shares = X[:, : self._n].multiply(weights).sum(axis=0)
        self._means += np.asarray(shares).ravel() - self._means * (present * weights)

    def offsets(self) -> tuple[float, ...]:
        return tuple(self._means.tolist())


def column_options(source: DataSource) -> ColumnOptions:
    """How a source of a table wants its columns to be used; those of row metadata are not features."""
    aside = tuple(filter(None, (getattr(source, name) for name in ROW_METADATA)))
    return ColumnOptions(**{name: getattr(source, name) for name in COLUMN_OPTIONS}, aside=aside)
