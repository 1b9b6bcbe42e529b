"""Data in memory as a dataset: arrays, sparse matrices and DataFrames."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from pydantic import ValidationError

from ..errors import ConfigError, DataError
from ..sentences import problems_of
from .content import Block
from .entry import COLUMN_OPTIONS, ROW_METADATA, DataSource
from .frames import has_columns, pandas_frame
from .remedies import FRAME
from .table_data import TableData, column_options

__all__ = ["MemoryRows", "checked_block", "rows_in_memory"]

_LABEL = "label of the rows"


class MemoryRows(NamedTuple):
    """Rows in memory: features with labels, and row metadata as text."""

    block: Block
    texts: dict[str, list[str]]


def rows_in_memory(X: Any, y: Any, settings: Mapping[str, Any]) -> tuple[MemoryRows, str]:
    """Return data as a block of rows, and the SHA-256 of their content.

    Parameters
    ----------
    X : array, sparse matrix or DataFrame of shape (n_samples, n_features)
    y : array-like of shape (n_samples,), or str
        Numbers or text; the name of a column, if ``X`` is a DataFrame.
    settings : mapping
        Those of `entry.DataSource` for columns, if ``X`` is a DataFrame.

    Raises
    ------
    DataError
        They have other shapes, or values that are missing or infinite.
    ConfigError
        A setting is not valid.
    """
    if has_columns(X):
        rows = _of_frame(pandas_frame(X), y, settings)
    elif further := set(settings) - {"positive"}:
        raise ConfigError(f"source: {', '.join(sorted(further))}: expected with a DataFrame only")
    else:
        try:
            rows = MemoryRows(checked_block(X, y), {})
        except (ValueError, TypeError) as error:
            raise DataError(str(error)) from None
    return rows, _digest(rows)


def checked_block(X: Any, y: Any) -> Block:
    """Features and labels as arrays of float64, or CSR; ValueError if they are not such arrays, or not finite.

    Labels are numbers, or text. A masked value is a missing one.
    """
    from scipy.sparse import csr_matrix, issparse

    if np.iscomplexobj(X):
        raise ValueError("expected real features, got complex ones")
    if issparse(X):
        if hasattr(X, "check_format"):
            X.check_format(full_check=True)  # compiled code would read and write outside of the arrays
        X = csr_matrix(X, dtype=np.float64, copy=True)
        X.sum_duplicates()
        X.eliminate_zeros()
    else:
        X = np.array(_unmasked(X), dtype=np.float64)
    y = np.asarray(_unmasked(y))
    if y.dtype == object and all(isinstance(label, (bool, int, float, np.number, np.bool_)) for label in y.flat):
        y = y.astype(np.float64)
    if X.ndim != 2 or y.shape != X.shape[:1] or not len(y):
        raise ValueError(f"expected rows of features and a label for each, got the shapes {X.shape} and {y.shape}")
    if not np.isfinite(values := X.data if issparse(X) else X).all():
        first = int(np.argmin(np.isfinite(values)))
        entries = X.tocoo() if issparse(X) else None
        row, column = (entries.row[first], entries.col[first]) if entries is not None else divmod(first, X.shape[1])
        raise ValueError(f"expected finite features, got {X[row, column]} at X[{row}, {column}]")
    if y.dtype.kind in "biuf":
        y = y.astype(np.float64)
        if not np.isfinite(y).all():
            raise ValueError("expected finite labels, got missing or infinite ones")
    elif all(isinstance(label, str) for label in y.tolist()):
        y = y.astype(np.str_)
    else:
        raise ValueError("expected labels that are all numbers or all text")
    return Block(X, y)


def _unmasked(values: Any) -> Any:
    """An array without a mask: NaN where a value was masked."""
    if not np.ma.isMaskedArray(values) or not np.ma.getmaskarray(values).any():
        return values
    if values.dtype.kind not in "biuf":
        raise ValueError("expected a label for each row, got masked ones")
    return np.ma.filled(values.astype(np.float64), np.nan)


def _of_frame(frame: Any, y: Any, settings: Mapping[str, Any]) -> MemoryRows:
    if getattr(frame.columns, "nlevels", 1) > 1:
        raise DataError("expected columns with one name each, got a MultiIndex")
    if not len(frame):
        raise DataError("expected rows, got a DataFrame without any")
    if unnamed := [number for number, name in enumerate(map(str, frame.columns), 1) if not name]:
        raise DataError(f"column {unnamed[0]} of the DataFrame has no name")
    if not isinstance(y, str):
        if np.shape(y) != (len(frame),):
            raise DataError(f"expected a label for each of {len(frame):,} rows, got the shape {np.shape(y)}")
        if hasattr(y, "iloc") and not frame.index.equals(y.index):
            raise DataError(
                "expected y with the index of X, got another one: labels would go to other rows",
                "y.loc[X.index], or y.to_numpy() if the order of the rows is the same",
            )
        if _LABEL in frame.columns:
            raise DataError(f"the DataFrame has a column {_LABEL!r}", f"rename it, or give y={_LABEL!r}")
        frame = frame.assign(**{_LABEL: np.asarray(y)})
        y = _LABEL
    known = {*COLUMN_OPTIONS, *ROW_METADATA} - {"label"}
    if further := sorted(set(settings) - known - {"positive"}):
        raise ConfigError(f"source: unknown key {further[0]!r}; allowed: {', '.join(sorted(known))}")
    given: dict[str, Any] = {
        name: [value] if isinstance(value, str) and name in ("drop", "categorical") else value
        for name, value in settings.items()
        if name in known
    }
    try:
        # A source of a table, instead of the DataFrame.
        checked = DataSource.model_validate({"csv": ["table.csv"], "label": y, **given})
    except ValidationError as error:
        problem = problems_of(error, DataSource, given)[0]
        raise ConfigError(f"source: {problem}") from None
    table = TableData([frame], column_options(checked), None, names=["the DataFrame"], remedies=FRAME)
    from scipy.sparse import vstack

    chunks = list(table.chunks())
    columns = {name: given[name] for name in ROW_METADATA if given.get(name)}
    texts = {name: [text for chunk in chunks for text in chunk.texts(column)] for name, column in columns.items()}
    X = vstack([chunk.X for chunk in chunks], format="csr")
    return MemoryRows(Block(X, np.concatenate([chunk.labels for chunk in chunks])), texts)


def _digest(rows: MemoryRows) -> str:
    X, labels, _ = rows.block
    sha256 = hashlib.sha256(f"{X.shape} {labels.dtype.kind}\n".encode())
    arrays = [X] if isinstance(X, np.ndarray) else [X.data, X.indices.astype(np.int64), X.indptr.astype(np.int64)]
    for array in arrays:
        sha256.update(np.ascontiguousarray(array).data)
    metadata = [[name, *texts] for name, texts in rows.texts.items()]
    for texts in [list(map(str, labels.tolist())), *metadata]:
        sha256.update("\0".join(texts).encode("utf-8", "surrogatepass"))
        sha256.update(b"\1")
    return sha256.hexdigest()
