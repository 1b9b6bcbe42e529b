"""Files of a results folder: each is complete or untouched, whatever happens while it is written."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from .errors import ResultsError

__all__ = ["remove_file", "write_bytes", "write_text"]


def remove_file(path: Path) -> None:
    """Remove a file, if it is there.

    Raises
    ------
    ResultsError
        If it cannot be removed.
    """
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise ResultsError(f"{path} cannot be removed: {error.strerror}", "choose another folder with --out") from error


def write_text(path: Path, text: str) -> None:
    """Write a text file in one step, as UTF-8 with the line ends as given; see `write_bytes`."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file in one step; missing folders are made.

    Raises
    ------
    ResultsError
        If the folder cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, 0o666 & ~_umask())
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise ResultsError(
            f"{path} cannot be written: {error.strerror}",
            "free some space, or choose another folder with --out",
        ) from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
