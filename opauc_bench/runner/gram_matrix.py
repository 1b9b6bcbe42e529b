"""The Gram matrix of a dataset (inner products of all rows), computed by one process and kept beside its arrays."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout

from ..errors import RunnerError
from ..evaluation.span import gram_matrix

__all__ = ["has_stored_gram_matrix", "stored_gram_matrix"]

_NAME = "gram_matrix.npy"
_HASH = ".sha256"  # in a file beside it
_SECONDS_TO_WAIT = 1.0  # for another process, between two checks of the limits


def stored_gram_matrix(X: Any, folder: Path, check: Callable[..., None]) -> np.ndarray:
    """The Gram matrix, mapped into memory; that of a folder that cannot be written to is in memory.

    ``folder`` is that of the prepared arrays. ``check`` is called again and again; what it raises ends the work.
    """
    path = folder / _NAME
    while not _is_intact(path):
        if not os.access(folder, os.W_OK):
            return gram_matrix(X, check=check)
        try:
            with FileLock(folder / "gram_matrix.lock", timeout=_SECONDS_TO_WAIT):
                if not _is_intact(path):
                    _write(X, path, check)
        except Timeout:
            check()
    return np.load(path, mmap_mode="r")


def has_stored_gram_matrix(folder: Path) -> bool:
    """Whether a folder of prepared arrays has a Gram matrix."""
    return (folder / _NAME).exists()


def _is_intact(path: Path) -> bool:
    """Whether there is a Gram matrix, as it was written."""
    try:
        status = path.stat()
        return _hash_of(path, status.st_size, status.st_mtime_ns) == path.with_suffix(_HASH).read_text("ascii")
    except (OSError, ValueError):
        return False


@functools.lru_cache(maxsize=2)
def _hash_of(path: Path, size: int, changed: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write(X: Any, path: Path, check: Callable[..., None]) -> None:
    unfinished = path.with_suffix(".part")
    products = np.lib.format.open_memmap(unfinished, mode="w+", dtype=np.float64, shape=(X.shape[0], X.shape[0]))
    size = products.offset + products.nbytes
    try:
        try:
            if hasattr(os, "posix_fallocate"):  # macOS has none
                with unfinished.open("r+b") as file:
                    os.posix_fallocate(file.fileno(), 0, size)  # a page without room on the disk would end the process
        except OSError as error:
            needed = f"{path}: the Gram matrix needs {size / 1e9:.2g} GB: {error.strerror}"
            raise RunnerError(
                needed, "free some of the disk, or set OPAUC_BENCH_CACHE to a folder with more room"
            ) from None
        gram_matrix(X, products, check)
    except BaseException:
        unfinished.unlink()
        raise
    products.flush()
    status = unfinished.stat()
    path.with_suffix(_HASH).write_text(_hash_of(unfinished, status.st_size, status.st_mtime_ns), "ascii")
    os.replace(unfinished, path)
