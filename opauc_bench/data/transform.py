"""Pure steps from what the files say to what learners see: binary labels, features in [-1, 1]."""

import hashlib
from typing import Any

import numpy as np

from ..errors import DataError
from .catalogue import Form

__all__ = ["binary_labels", "minmax", "positive_classes", "scale", "spelled", "unit_rows"]

_MANY_LABELS = 20


def binary_labels(labels: np.ndarray, form: Form) -> np.ndarray:
    """Turn labels into -1 and +1 by the form's rule.

    Parameters
    ----------
    labels : ndarray of shape (n_samples,)
        Numbers or text, finite. Where rows have several labels, text with commas between them.
    form : Form
        ``positive`` lists the classes that become +1; ``random_half`` orders the classes by the SHA-256 of
        ``"<seed>:<label>"`` and takes the first half (rounded down), the same on every machine; ``largest_class``
        takes the label of most rows (of equally large ones, the first in the order of their names).

    Returns
    -------
    ndarray of shape (n_samples,), int8

    Raises
    ------
    DataError
        A positive label does not occur, or only one class remains.
    """
    counts = _counts(labels, form)
    positive = _positive(counts, form)
    absent = [label for label in positive if label not in counts]
    if absent:
        raise DataError(
            f"expected the positive labels {_listing(positive)}, got the labels {_listing(list(counts))}; "
            f"{_listing(absent)} does not occur{_other_column(counts, form)}"
        )
    if form.format == "svmlight_multilabel":
        combinations, inverse = np.unique(labels, return_inverse=True)
        hit = np.array([not set(positive).isdisjoint(labels.split(",")) for labels in combinations.tolist()])[inverse]
    else:
        hit = np.isin(labels, positive)
    if hit.all() or not hit.any():
        came = f"labels {_listing(list(counts))}, positive {_listing(positive)}"
        raise DataError(f"expected two classes, got one: {came}")
    return np.where(hit, 1, -1).astype(np.int8)


def _other_column(counts: dict[Any, int], form: Form) -> str:
    """Point at the key for the label's column where what was read does not look like labels."""
    if form.format not in ("csv", "table") or len(counts) < _MANY_LABELS:
        return ""
    return (
        f". So many labels are seldom ones: 'label_column: 1' takes them from column 1, now it is {form.label_column}"
    )


def positive_classes(labels: np.ndarray, form: Form) -> list[Any]:
    """Return the labels that become +1, in the type of the labels; see `binary_labels`."""
    return _positive(_counts(labels, form), form)


def _positive(counts: dict[Any, int], form: Form) -> list[Any]:
    if form.positive is not None:
        return [float(label) if form.numeric_labels else str(label) for label in form.positive]
    if form.largest_class:
        return [max(counts, key=counts.__getitem__)] if counts else []
    seed = form.random_half.seed
    ordered = sorted(counts, key=lambda label: hashlib.sha256(f"{seed}:{spelled(label)}".encode()).digest())
    return sorted(ordered[: len(counts) // 2])


def _counts(labels: np.ndarray, form: Form) -> dict[Any, int]:
    """Return how many rows have each label, in the order of the labels."""
    values, counts = np.unique(labels, return_counts=True)
    if form.format != "svmlight_multilabel":
        return dict(zip(values.tolist(), counts.tolist()))
    found: dict[str, int] = {}
    for combination, count in zip(values.tolist(), counts.tolist()):
        for label in filter(None, set(combination.split(","))):
            found[label] = found.get(label, 0) + count
    return dict(sorted(found.items()))


def spelled(label: Any) -> str:
    """Write a label as a person would: 3 and not 3.0."""
    return f"{label:g}" if isinstance(label, float) else str(label)


def _listing(labels: Any) -> str:
    texts = [spelled(label) for label in np.asarray(labels).tolist()]
    return ", ".join(texts if len(texts) <= 30 else [*texts[:30], "..."])


def scale(blocks: list[Any], scaling: str) -> None:
    """Apply one of the catalogue's scalings to rows that are in memory, in place.

    Parameters
    ----------
    blocks : list of ndarray or csr_matrix
        All rows, in pieces.
    scaling : {"minmax", "maxabs", "unit_rows", "none"}
    """
    if scaling == "minmax":
        minmax(blocks)
    elif scaling == "maxabs":
        largest = np.max([np.maximum(_extreme(block, "max"), -_extreme(block, "min")) for block in blocks], axis=0)
        divisor = np.where(largest > 0, largest, 1.0)
        for position, block in enumerate(blocks):
            if isinstance(block, np.ndarray):
                blocks[position] = block / divisor
            else:
                block.data /= divisor[block.indices]
    elif scaling == "unit_rows":
        for position, block in enumerate(blocks):
            blocks[position] = unit_rows(block)


def unit_rows(block: Any) -> Any:
    """Divide each row by its Euclidean length; rows of zeros stay as they are.

    Raises
    ------
    DataError
        A length overflows.
    """
    dense = isinstance(block, np.ndarray)
    data = np.asarray(block if dense else block.data, dtype=np.float64)
    with np.errstate(over="ignore"):
        squares = data * data
        # A running sum over all rows would lose digits; each row is summed on its own.
        lengths = np.sqrt(squares.sum(axis=1) if dense else _row_sums(squares, block.indptr))
    if not np.isfinite(lengths).all():
        raise DataError("expected rows of finite length, got one whose sum of squares overflows")
    lengths[lengths == 0] = 1.0
    if dense:
        return data / lengths[:, None]
    block.data = data / np.repeat(lengths, np.diff(block.indptr))
    return block


def _row_sums(values: np.ndarray, indptr: np.ndarray) -> np.ndarray:
    sums = np.zeros(len(indptr) - 1)
    filled = np.flatnonzero(np.diff(indptr))
    if len(filled):
        sums[filled] = np.add.reduceat(values, indptr[filled])
    return sums


def minmax(blocks: list[Any]) -> None:
    """Map each feature to [-1, 1] by its smallest and largest value; a constant one becomes 0.

    Parameters
    ----------
    blocks : list of ndarray or csr_matrix
        All rows, in pieces; each piece is replaced by a dense float64 array.

    Raises
    ------
    DataError
        The range of a feature overflows.
    """
    low = np.min([_extreme(block, "min") for block in blocks], axis=0)
    high = np.max([_extreme(block, "max") for block in blocks], axis=0)
    constant = low == high
    with np.errstate(over="ignore"):
        span = np.where(constant, 1.0, high - low)
    if not np.isfinite(span).all():
        feature = int(np.argmin(np.isfinite(span)))
        came = f"{low[feature]:g} to {high[feature]:g}"
        raise DataError(f"expected feature {feature + 1} to have a finite range, got {came}")
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
