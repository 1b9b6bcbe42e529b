"""From the values of the files to those of the arrays: binary labels, scaled features."""

import hashlib
from collections import Counter
from typing import Any

import numpy as np

from ..errors import DataError, LabelError, suggest
from ..sentences import label_text
from .entry import Form

__all__ = ["binary_labels", "minmax", "scale", "unit_rows"]

_MANY_LABELS = 20
_SQUARES_UNDERFLOW = 1e-140  # shorter rows lose digits in the squares of their values


def binary_labels(labels: np.ndarray, form: Form) -> tuple[np.ndarray, dict[str, Any]]:
    """Turn labels into y of -1 and +1 (int8) by the form's rule; also return the manifest's entry on the rule.

    ``positive`` lists the classes that become +1; ``random_half`` orders the classes by the SHA-256 of
    ``"<seed>:<label>"`` and takes the first half (rounded down), the same on every machine; ``largest_class`` takes
    the most frequent label (of equally frequent ones, the first by name); without a rule, the greater one of two labels
    is positive. Several labels of one row are text with commas.

    DataError if a positive label does not occur, or if there is only one class.
    """
    counts = _counts(labels, form)
    positive = _positive(counts, form)
    absent = [label for label in positive if label not in counts]
    if absent:
        hint = _other_spelling(absent[0], list(counts))
        if form.format in ("csv", "table") and len(counts) >= _MANY_LABELS:
            hint += f". These look like features: set 'label_column' (1 is the first column; now {form.label_column})"
        raise LabelError(
            f"expected the positive labels {_listing(positive)}, got the labels {_listing(list(counts))}; "
            f"{_listing(absent)} does not occur{hint}"
        )
    if form.format == "svmlight_multilabel":
        combinations, inverse = np.unique(labels, return_inverse=True)
        hit = np.array([not set(positive).isdisjoint(found.split(",")) for found in combinations.tolist()])[inverse]
    else:
        hit = np.isin(labels, positive)
    if hit.all() or not hit.any():
        found = f"labels {_listing(list(counts))}, positive {_listing(positive)}"
        raise DataError(f"expected two classes, got one: {found}")
    binary: dict[str, Any] = {"positive": [label_text(label) for label in positive]}
    if form.random_half is not None:
        binary["random_half_seed"] = form.random_half.seed
    if form.largest_class:
        binary["largest_class"] = True
    return np.where(hit, 1, -1).astype(np.int8), binary


def _other_spelling(label: Any, known: list[Any]) -> str:
    """A question whether a label that does occur was meant; booleans are numbers but in files of text."""
    numbers = {"true": 1, "false": 0}
    if set(known) == {0.0, 1.0} and str(label).lower() in numbers:
        return f" (did you mean {numbers[str(label).lower()]}?)"
    return suggest(label, known) if all(isinstance(one, str) for one in known) else ""


def _positive(counts: dict[Any, int], form: Form) -> list[Any]:
    if form.positive is not None:
        numeric = form.numeric_labels if form.source is None else not any(isinstance(label, str) for label in counts)
        return [_as_label(label, numeric) for label in form.positive]
    if form.largest_class:
        return [max(counts, key=counts.__getitem__)] if counts else []
    if form.random_half is None:
        if len(counts) != 2:
            found = _listing(list(counts))
            raise LabelError(f"expected two labels, or the positive ones under 'positive'; the labels are {found}")
        return [max(counts)]
    seed = form.random_half.seed
    ordered = sorted(counts, key=lambda label: hashlib.sha256(f"{seed}:{label_text(label)}".encode()).digest())
    return sorted(ordered[: len(counts) // 2])


def _as_label(label: Any, numeric: bool) -> Any:
    """A label of an entry as those of the data are; one that is not a number where they are does not occur."""
    if not numeric:
        return label_text(label)
    try:
        return float(label)
    except ValueError:
        return label


def _counts(labels: np.ndarray, form: Form) -> dict[Any, int]:
    """Return the number of rows with each label, in the order of the labels."""
    found: Counter[Any] = Counter()
    for value, count in zip(*(array.tolist() for array in np.unique(labels, return_counts=True))):
        for label in filter(None, set(value.split(","))) if form.format == "svmlight_multilabel" else [value]:
            found[label] += count
    return dict(sorted(found.items()))


def _listing(labels: Any) -> str:
    texts = [label_text(label) for label in np.asarray(labels).tolist()]
    return ", ".join(texts if len(texts) <= 12 else [*texts[:12], "..."])


def scale(blocks: list[Any], scaling: str | None) -> None:
    """Apply one of the catalogue's scalings to all rows, in place; see `DatasetEntry.scaling`."""
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
    """Divide rows of an array or CSR matrix by their Euclidean lengths, if not 0; DataError if a length overflows."""
    dense = isinstance(block, np.ndarray)
    data = np.asarray(block if dense else block.data, dtype=np.float64)
    with np.errstate(over="ignore"):
        squares = data * data
        # Each row is summed separately: a cumulative sum over all rows would lose digits.
        lengths = np.sqrt(squares.sum(axis=1) if dense else _row_sums(squares, block.indptr))
    tiny = lengths < _SQUARES_UNDERFLOW
    if tiny.any() and (data[tiny] if dense else data[np.repeat(tiny, np.diff(block.indptr))]).any():
        return unit_rows(_enlarged(block, tiny))
    if not np.isfinite(lengths).all():
        raise DataError("expected rows of finite length, got one whose sum of squares overflows")
    lengths[lengths == 0] = 1.0
    if dense:
        return data / lengths[:, None]
    block.data = data / np.repeat(lengths, np.diff(block.indptr))
    return block


def _enlarged(block: Any, rows: np.ndarray) -> Any:
    """Some rows times powers of two, so that their largest value is between one half and one; zeros stay."""
    dense = isinstance(block, np.ndarray)
    largest = np.abs(block).max(axis=1) if dense else abs(block).max(axis=1).toarray().ravel()
    exponents = np.where(rows, -np.frexp(np.asarray(largest, dtype=np.float64))[1], 0)
    if dense:
        return np.ldexp(np.asarray(block, dtype=np.float64), exponents[:, None])
    block = block.astype(np.float64)
    block.data = np.ldexp(block.data, np.repeat(exponents, np.diff(block.indptr)))
    return block


def _row_sums(values: np.ndarray, indptr: np.ndarray) -> np.ndarray:
    sums = np.zeros(len(indptr) - 1)
    filled = np.flatnonzero(np.diff(indptr))
    if len(filled):
        sums[filled] = np.add.reduceat(values, indptr[filled])
    return sums


def minmax(blocks: list[Any]) -> None:
    """Map each feature to [-1, 1] by its smallest and largest value, constant ones to 0; blocks become dense.

    DataError if the range of a feature overflows.
    """
    low = np.min([_extreme(block, "min") for block in blocks], axis=0)
    high = np.max([_extreme(block, "max") for block in blocks], axis=0)
    constant = low == high
    with np.errstate(over="ignore"):
        span = np.where(constant, 1.0, high - low)
    if not np.isfinite(span).all():
        feature = int(np.argmin(np.isfinite(span)))
        found = f"{low[feature]:g} to {high[feature]:g}"
        raise DataError(f"expected feature {feature + 1} to have a finite range, got {found}")
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
