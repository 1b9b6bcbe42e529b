"""An svmlight file of any length as chunks of rows, in constant memory."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple

import numpy as np

from .content import opened, pieces, text_blocks
from .faults import Fault, LineProblem
from .svmlight import parse_svmlight

__all__ = ["SvmlightChunk", "stream_svmlight"]


class SvmlightChunk(NamedTuple):
    """Consecutive rows of a stream.

    Attributes
    ----------
    X : csr_matrix of shape (rows, n_features), float64
        At least one row. Explicit zeros of the file are kept.
    labels : ndarray of shape (rows,), float64
    first_line : int
        Number (from 1) of the first line of the chunk.
    text : bytes
        The lines.
    """

    X: Any
    labels: np.ndarray
    first_line: int
    text: bytes

    def line_of(self, row: int) -> int:
        """Return the number of the line of a row; blank lines and comments are lines, but not rows."""
        lines = self.text.split(b"\n")
        return [self.first_line + k for k, line in enumerate(lines) if line.partition(b"#")[0].strip()][row]


def stream_svmlight(
    path_or_file: str | Path | BinaryIO,
    *,
    chunk_rows: int = 4096,
    n_features: int | None = None,
    zero_based: bool | Literal["auto"] = False,
    on_bad_line: Callable[[str, LineProblem], bytes | None] | None = None,
) -> Iterator[SvmlightChunk]:
    """Read rows of ``label index:value ...`` in chunks.

    Parameters
    ----------
    path_or_file : str, Path or binary file
        Plain, xz, bzip2, gzip or zstd: the first bytes decide, whatever the name; for example ``sys.stdin.buffer``.
    chunk_rows : int
        Largest number of rows of a chunk; fewer if lines are long or a pipe is slow, since about 1 MiB of text is
        read at a time at most.
    n_features : int, optional
        Width of the chunks; a larger index is an error. By default a chunk is as wide as the largest index so far.
    zero_based : bool or "auto"
        Whether indices begin with 0. ``"auto"``: if index 0 occurs in the text that is read first; if it occurs only
        later, that is an error.
    on_bad_line : callable, optional
        Called with the message about a line that cannot be read, and the `LineProblem`; the line is then left out, or
        replaced by the one that is returned. By default it is an error, as is always an index 0 if indices begin with
        1.

    Yields
    ------
    SvmlightChunk

    Raises
    ------
    DataError
        With file and line; also if the file cannot be read or is damaged.
    ValueError
        If ``chunk_rows`` or ``n_features`` is less than 1.
    """
    if chunk_rows < 1 or (n_features is not None and n_features < 1):
        raise ValueError(f"expected chunk_rows and n_features of at least 1, got {chunk_rows} and {n_features}")
    return _chunks(path_or_file, chunk_rows, n_features, zero_based, on_bad_line)


def _chunks(path_or_file, chunk_rows: int, n_features: int | None, zero_based, on_bad_line) -> Iterator[SvmlightChunk]:
    first_index = None if zero_based == "auto" else 0 if zero_based else 1
    width = 0
    with opened(path_or_file) as (stream, name):
        for first_line, n_line_ends, text in text_blocks(pieces(stream, name), 1, name):
            try:
                if first_index is None:
                    indices = parse_svmlight(text, first_line, None, first_index=0)[0].indices
                    first_index = 0 if (indices == 0).any() else 1
                todo = [*_pieces_of(text, first_line, n_line_ends, chunk_rows)][::-1]
                while todo:
                    line, lines = todo.pop()
                    try:
                        X, labels = parse_svmlight(lines, line, n_features, first_index=first_index, at_least=width)
                    except LineProblem as problem:
                        if on_bad_line is None or problem.fault is Fault.ZERO_INDEX:
                            raise
                        instead = on_bad_line(f"{name}:{problem.number}: {problem.problem}", problem)
                        after, before = _around(line, lines, problem.number)
                        todo += [after, (problem.number, instead or b""), before]
                        continue
                    width = X.shape[1]
                    if len(labels):
                        yield SvmlightChunk(X, labels, line, lines)
            except LineProblem as problem:
                raise problem.error(f"{name}:{problem.number}: {problem.problem}") from None


def _around(first_line: int, text: bytes, line: int) -> list[tuple[int, bytes]]:
    """What comes after a line of a text, and what comes before it."""
    lines = text.split(b"\n")
    position = line - first_line
    before, after = b"\n".join(lines[:position]), b"\n".join(lines[position + 1 :])
    return [(line + 1, after), (first_line, before)]


def _pieces_of(text: bytes, first_line: int, n_line_ends: int, n_lines: int) -> Iterator[tuple[int, bytes]]:
    """Cut a text after every ``n_lines`` lines."""
    if n_line_ends < n_lines:
        yield first_line, text
        return
    ends = np.flatnonzero(np.frombuffer(text, dtype=np.uint8) == 10)[n_lines - 1 :: n_lines] + 1
    start = 0
    for position, end in enumerate([*ends.tolist(), len(text)]):
        if end > start:
            yield first_line + position * n_lines, text[start:end]
        start = end
