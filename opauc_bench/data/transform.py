"""Pure steps from what the files say to what learners see: binary labels, features in [-1, 1]."""

import hashlib
from typing import Any

import numpy as np

from ..errors import DataError
from .catalogue import Form

__all__ = ["binary_labels", "minmax", "positive_classes", "spelled"]


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
    positive = positive_classes(classes, form)
    absent = [label for label in positive if label not in classes]
    if absent:
        raise DataError(
            f"expected the positive labels {_listing(positive)}, got the labels {_listing(classes)}; "
            f"{_listing(absent)} does not occur"
        )
    y = np.where(np.isin(labels, positive), 1, -1).astype(np.int8)
    if len(np.unique(y)) < 2:
        raise DataError(f"expected two classes, got one: labels {_listing(classes)}, positive {_listing(positive)}")
    return y


def positive_classes(classes: np.ndarray, form: Form) -> list[Any]:
    """Return the labels that become +1, in the type of the labels; see `binary_labels`."""
    if form.positive is not None:
        return [float(label) if form.numeric_labels else str(label) for label in form.positive]
    seed = form.random_half.seed
    ordered = sorted(classes.tolist(), key=lambda label: hashlib.sha256(f"{seed}:{spelled(label)}".encode()).digest())
    return sorted(ordered[: len(classes) // 2])


def spelled(label: Any) -> str:
    """Write a label as a person would: 3 and not 3.0."""
    return f"{label:g}" if isinstance(label, float) else str(label)


def _listing(labels: Any) -> str:
    texts = [spelled(label) for label in np.asarray(labels).tolist()]
    return ", ".join(texts if len(texts) <= 30 else [*texts[:30], "..."])


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
