"""Datasets with a `source`: tables, svmlight files, `.npz` archives, arrays in memory and datasets of scikit-learn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..errors import DataError
from ..task import DENSE_ABOVE
from .cache import RawFile
from .content import Block
from .entry import ROW_METADATA, WIDE, DatasetEntry, Form
from .faults import LineProblem
from .memory import MemoryRows, checked_block
from .metadata import Encoded, encode, read_metadata
from .remedies import entry_remedies
from .schema import ColumnOptions, listing
from .table_data import TableData, column_options

__all__ = ["OwnData"]

_MANY_VALUES = 100  # of all categories: fewer are no reason for a note


class OwnData:
    """The rows of an entry in a form with a ``source``; sizes are counted.

    Attributes
    ----------
    entry : DatasetEntry
        The same, with sizes and scaling.
    facts : dict
        For the manifest: the columns, and the number of rows that were left out.
    remarks : list of str
        For the user: how many columns are numbers and how many categories, and what was left out.

    Raises
    ------
    DataError
        With the place, if there is one.
    """

    def __init__(self, entry: DatasetEntry, form: Form, files: Sequence[RawFile]):
        assert form.source is not None
        self._form, self._source, self._files = form, form.source, files
        self._catalogue = entry.catalogue
        self.facts: dict[str, Any] = {}
        self.remarks: list[str] = []
        self._columns = {name: getattr(form.source, name) for name in ROW_METADATA if getattr(form.source, name)}
        self._texts: dict[str, list[str]] = {name: [] for name in self._columns}
        self._places: list[tuple[int, Callable[[int], str]]] = []
        self._table: TableData | None = None
        if self._source.is_table or self._source.svmlight:
            self._table = self._read_table(zero_based=form.first_index == 0)
            if self._source.svmlight:  # whose largest index may be less
                self._table.n_features = max(self._table.n_features, entry.n_features or 0)
            n_rows, n_features, n_values = self._table.n_rows, self._table.n_features, self._table.n_values
        else:
            if self._source.sklearn:
                rows = _bundled_rows(self._source.sklearn, form)
            else:
                rows = self._read_npz() if self._source.npz else entry._arrays
            self._block, self._texts = rows
            X = self._block.X
            n_rows, n_features = X.shape
            n_values = int(np.count_nonzero(X)) if isinstance(X, np.ndarray) else X.nnz
        self.entry = _completed(entry, self._source.kind, n_rows, n_features, n_values)

    def blocks(self) -> Iterator[Block]:
        """Yield the rows."""
        if self._table is None:
            yield Block(self._block.X.copy(), self._block.labels)  # scaling changes it
            return
        n_rows = 0
        for chunk in self._table.chunks():
            self._places.append((n_rows, chunk.place))
            n_rows += chunk.X.shape[0]
            for name, texts in self._texts.items():
                texts += chunk.texts(self._columns[name])
            assert chunk.labels is not None  # these rows are learnt
            yield Block(chunk.X, chunk.labels)

    def metadata(self) -> dict[str, Encoded]:
        """The row metadata, after all blocks."""
        if self._source.sklearn:  # which has no files but those of row metadata
            return read_metadata(self._form, self._files, len(self._block.labels), ())
        found = {}
        for name, texts in self._texts.items():
            try:
                found[name] = encode(name, texts)
            except LineProblem as problem:
                place = self._place(problem.number - 1)
                column = f"column {self._columns[name]!r}: " if name in self._columns else ""
                raise DataError(f"{place}: {column}{problem.problem}") from None
        return found

    def _read_table(self, zero_based: bool) -> TableData:
        given = self._source
        table = TableData(
            [str(file.path) for file in self._files],
            column_options(given) if given.is_table else ColumnOptions(),
            given.kind,
            names=[str(file.place) for file in self._files],
            skip_bad_rows=given.skip_bad_rows,
            zero_based=zero_based,
            remedies=entry_remedies(self._catalogue, all(file.origin for file in self._files)),
        )
        if table.n_skipped:
            self.facts["rows_left_out"] = table.n_skipped
        if table.schema is not None:
            numbers, categories = list(table.schema.numbers), list(table.schema.categories)
            self.facts["columns"] = {"numbers": numbers, "categories": categories}
            self.remarks.append(
                f"{len(numbers)} column{'s' * (len(numbers) != 1)} of numbers, {len(categories)} of categories"
                + (f": {listing(categories)}" if categories else "")
            )
            n_values = table.n_features - len(numbers)
            if n_values > max(_MANY_VALUES, table.n_rows / 2):
                self.remarks.append(
                    f"note: the categories have {n_values:,} values in {table.n_rows:,} rows: is one of them an id? "
                    "'drop' under 'source' leaves a column out"
                )
        self.remarks += table.remarks
        return table

    def _place(self, row: int) -> str:
        for first, place in reversed(self._places):
            if first <= row:
                return place(row - first)
        return f"{self._files[0].place}, row {row + 1}" if self._files else f"row {row + 1}"

    def _read_npz(self) -> MemoryRows:
        from scipy.sparse import csr_matrix

        (file,) = self._files
        expected = "expected arrays X and y, or data, indices, indptr, shape and y"
        sparse = {"data", "indices", "indptr", "shape"}
        arrays: dict[str, np.ndarray] = {}
        name = ""
        try:
            loaded = np.load(file.path, allow_pickle=False)
            if not isinstance(loaded, np.lib.npyio.NpzFile):
                raise ValueError("it has a single array, and no names")
            with loaded as archive:
                names = archive.files
                rows = {"X"} if "X" in names else sparse
                for name in sorted({*rows, "y", *self._columns.values()} & {*names}):
                    arrays[name] = archive[name]
        except Exception as error:  # many kinds, for damage and other formats
            reason = getattr(error, "strerror", None) or error
            if "allow_pickle" in str(error):
                reason = f"{name} has Python objects" if name else "it is not an .npz archive"
            raise DataError(f"{file.place}: {expected}; it cannot be read ({reason})") from None
        if not arrays.keys() >= {*rows, "y"}:
            raise DataError(f"{file.place}: {expected}, got {', '.join(sorted(names)) or 'none'}")
        try:
            if "X" in arrays:
                X = arrays["X"]
            else:
                for name in ("indices", "indptr"):
                    if arrays[name].dtype.kind not in "iu":
                        raise ValueError(f"expected whole numbers in {name}, got {arrays[name].dtype}")
                X = csr_matrix((arrays["data"], arrays["indices"], arrays["indptr"]), shape=tuple(arrays["shape"]))
            block = checked_block(X, arrays["y"])
        except (ValueError, TypeError) as error:
            raise DataError(f"{file.place}: {error}") from None
        texts = {}
        for name, key in self._columns.items():
            if key not in arrays or arrays[key].shape != block.labels.shape:
                raise DataError(f"{file.place}: expected an array {key!r} with a value per row ({name})")
            values = arrays[key]
            if values.dtype.kind == "M":
                values = values.astype("datetime64[us]")  # finer ones would become whole numbers
            absent = np.flatnonzero(values != values)  # NaN and NaT
            if len(absent):
                found = values[absent[0]]
                raise DataError(f"{file.place}: {key}[{absent[0]}]: expected a value per row ({name}), got {found}")
            texts[name] = [*map(str, values.tolist())]
        return MemoryRows(block, texts)


def _bundled_rows(name: str, form: Form) -> MemoryRows:
    """The rows of a dataset that is part of scikit-learn."""
    from sklearn import datasets

    found = getattr(datasets, name)()
    labels = found.target.astype(np.float64) if form.numeric_labels else found.target_names.astype(str)[found.target]
    return MemoryRows(Block(np.asarray(found.data, dtype=np.float64), labels), {})


def _completed(entry: DatasetEntry, kind: str, n_rows: int, n_features: int, n_values: int) -> DatasetEntry:
    if n_rows == 0 or n_features == 0:
        raise DataError("expected rows with features, got none")
    if entry.n_features not in (None, n_features):
        raise DataError(f"expected {entry.n_features:,} features, got {n_features:,}")
    scaling = entry.scaling
    if scaling is None and kind != "memory":
        scaling = "minmax"
        if n_features >= WIDE and n_values <= DENSE_ABOVE * n_rows * n_features:
            raise DataError(
                f"expected 'scaling' for sparse rows of {n_features:,} features: minmax, the default, would make them "
                "dense; 'maxabs', 'unit_rows' and 'none' keep zeros"
            )
    sizes = {"n_samples": entry.n_samples or n_rows, "n_features": n_features}
    # Of sparse rows the last columns may have zeros only.
    return entry.model_copy(update={**sizes, "scaling": scaling or "none", "n_features_at_most": True})
