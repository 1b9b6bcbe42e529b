"""Files of a results folder: each is complete or untouched, whatever happens while it is written."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from .errors import ResultsError

__all__ = ["write_text"]


def write_text(path: Path, text: str) -> None:
    """Write a text file in one step, as UTF-8 with the line ends as given; missing folders are made.

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
                file.write(text.encode("utf-8"))
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
