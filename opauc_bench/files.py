"""Files of a results folder: each is complete or untouched, whatever happens while it is written."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from .errors import ResultsError

__all__ = ["read_json", "remove_file", "write_bytes", "write_text", "written_at_once"]


def read_json(path: Path) -> Any:
    """Read a file of JSON, whoever has written it.

    Raises
    ------
    OSError
        If it cannot be read.
    ValueError
        If it is not JSON in UTF-8, or nested so deeply that nothing of ours has written it.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


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
        raise ResultsError(f"{path} cannot be removed: {error.strerror}", "choose another folder") from error


def write_text(path: Path, text: str, durable: bool = True) -> None:
    """Write a text file in one step, as UTF-8 with the line ends as given; see `write_bytes`."""
    write_bytes(path, text.encode("utf-8"), durable)


def write_bytes(path: Path, content: bytes, durable: bool = True) -> None:
    """Write a file in one step; missing folders are made.

    Parameters
    ----------
    path : Path
    content : bytes
    durable : bool
        Whether to wait until the file would outlive a power cut.

    Raises
    ------
    ResultsError
        If the folder cannot be written.
    """
    with _named_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    with written_at_once(path, durable) as file:
        file.write(content)


@contextlib.contextmanager
def written_at_once(path: Path, durable: bool = True) -> Iterator[BinaryIO]:
    """Open a file that takes its name when all of it is written, and leaves nothing if that does not come to pass.

    Raises
    ------
    ResultsError
        If it cannot be written.
    """
    with _named_errors(path):
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
                file.flush()
                if durable:
                    os.fsync(file.fileno())
            os.chmod(temporary, 0o666 & ~_umask())
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise


@contextlib.contextmanager
def _named_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ResultsError(
            f"{path} cannot be written: {error.strerror}",
            "free some space, or choose another folder",
        ) from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
