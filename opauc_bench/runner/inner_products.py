"""Inner products of all rows of a dataset, computed by one process and kept beside its arrays."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout

from ..evaluation.span import inner_products

__all__ = ["has_stored_products", "stored_products"]

_NAME = "inner_products.npy"
_SECONDS_TO_WAIT = 1.0  # for another process, between two checks of the limits


def stored_products(X: Any, folder: Path, check: Callable[..., None]) -> np.ndarray:
    """Inner products of all rows, mapped into memory; those of a folder that cannot be written to are in memory.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
    folder : Path
        Prepared arrays of the dataset.
    check : callable
        Called again and again; what it raises ends the work.

    Returns
    -------
    ndarray of shape (n_samples, n_samples)
    """
    path = folder / _NAME
    if not path.exists() and not os.access(folder, os.W_OK):
        return inner_products(X, check=check)
    while not path.exists():
        try:
            with FileLock(folder / "inner_products.lock", timeout=_SECONDS_TO_WAIT):
                if not path.exists():
                    _write(X, path, check)
        except Timeout:
            check()
    return np.load(path, mmap_mode="r")


def has_stored_products(folder: Path) -> bool:
    """Whether a folder of prepared arrays has inner products."""
    return (folder / _NAME).exists()


def _write(X: Any, path: Path, check: Callable[..., None]) -> None:
    unfinished = path.with_suffix(".part")
    products = np.lib.format.open_memmap(unfinished, mode="w+", dtype=np.float64, shape=(X.shape[0], X.shape[0]))
    inner_products(X, products, check)
    products.flush()
    os.replace(unfinished, path)
