"""Atomic writing of files: each is complete or untouched, even if the process is killed."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from .errors import ResultsError

__all__ = ["named_errors", "read_json", "remove_file", "write_bytes", "write_text", "written_at_once"]


def read_json(path: Path) -> Any:
    """Read a JSON file; raises OSError, or ValueError if it is not JSON in UTF-8, or nested too deeply."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def remove_file(path: Path) -> None:
    """Remove a file, if it exists; raises ResultsError if it cannot be removed."""
    try:
        path.unlink(missing_ok=True)
    except NotADirectoryError as error:
        raise ResultsError(
            f"{path.parent} cannot be written: it is a file, expected a folder", "select another folder"
        ) from error
    except OSError as error:
        raise ResultsError(f"{path} cannot be removed: {error.strerror}", "select another folder") from error


def write_text(path: Path, text: str, durable: bool = True) -> None:
    """Write a text file atomically, as UTF-8 with the line ends as given; see `write_bytes`."""
    write_bytes(path, text.encode("utf-8"), durable)


def write_bytes(path: Path, content: bytes, durable: bool = True) -> None:
    """Write a file atomically; missing folders are created. Raises ResultsError if that fails.

    `durable` waits until the file would survive a power failure.
    """
    with named_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    with written_at_once(path, durable) as file:
        file.write(content)


@contextlib.contextmanager
def written_at_once(path: Path, durable: bool = True) -> Iterator[BinaryIO]:
    """Open a temporary file that is renamed to `path` on success and removed otherwise; see `write_bytes`."""
    with named_errors(path):
        start = path.name[:60]  # a name may have 255 bytes
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{start}.", suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
                file.flush()
                if durable:
                    os.fsync(file.fileno())
            os.umask(mask := os.umask(0))
            os.chmod(temporary, 0o666 & ~mask)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise


@contextlib.contextmanager
def named_errors(path: Path) -> Iterator[None]:
    """Turn an OSError into a ResultsError that names the file."""
    try:
        yield
    except BrokenPipeError:  # of a reader such as head
        raise
    except (FileExistsError, NotADirectoryError) as error:
        raise ResultsError(f"{path} cannot be written: it is in a file", "select another folder") from error
    except OSError as error:
        free = "free some space, or " if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
        raise ResultsError(f"{path} cannot be written: {error.strerror}", f"{free}select another folder") from error
