"""Sparse rows on their way to disk: written as they come, so that no more than a block of them is in memory."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError

__all__ = ["Spool"]

_PIECE = 1 << 22  # values looked at together
_MOST_VALUES = 2**31 - 1  # positions are kept in 32 bits


class Spool:
    """The arrays ``data``, ``indices`` and ``indptr`` of a CSR matrix, as ``.npy`` files that grow.

    Parameters
    ----------
    folder : Path
        Where the files are; nobody else writes there.
    """

    def __init__(self, folder: Path):
        self._folder = folder
        self._data = _Growing(folder / "data.npy", "<f8")
        self._indices = _Growing(folder / "indices.npy", "<i4")
        self._lengths: list[np.ndarray] = []
        self.n_rows = 0

    @property
    def n_values(self) -> int:
        """Nonzero values so far."""
        return self._data.size

    def add(self, X: Any) -> None:
        """Append the rows of a CSR matrix, without the zeros that it stores.

        Raises
        ------
        DataError
            More values than the positions of 32 bits can tell apart.
        """
        X.eliminate_zeros()
        if self.n_values + X.nnz > _MOST_VALUES:
            raise DataError(f"expected at most {_MOST_VALUES:,} nonzero values, got more")
        self._data.append(X.data)
        self._indices.append(X.indices)
        self._lengths.append(np.diff(X.indptr).astype(np.int32))
        self.n_rows += X.shape[0]

    def close(self) -> None:
        """Complete the files; nothing can be added any more."""
        self._data.close()
        self._indices.close()
        indptr = np.zeros(self.n_rows + 1, dtype="<i4")
        np.cumsum(np.concatenate([np.zeros(0, np.int32), *self._lengths]), out=indptr[1:])
        np.save(self._folder / "indptr.npy", indptr)

    def pieces(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield values and their indices, some millions at a time; writing to them writes to the files."""
        if self.n_values == 0:
            return
        data = np.load(self._folder / "data.npy", mmap_mode="r+")
        indices = np.load(self._folder / "indices.npy", mmap_mode="r+")
        for start in range(0, self.n_values, _PIECE):
            yield data[start : start + _PIECE], indices[start : start + _PIECE]

    def largest_values(self) -> np.ndarray:
        """Largest absolute value of each feature, as far as the largest index that occurs."""
        largest = np.zeros(0)
        for data, indices in self.pieces():
            short = int(indices.max()) + 1 - len(largest)
            largest = np.concatenate([largest, np.zeros(max(0, short))])
            np.maximum.at(largest, indices, np.abs(data))
        return largest

    def divide(self, divisor: np.ndarray) -> None:
        """Divide each value by its feature's divisor."""
        for data, indices in self.pieces():
            data /= divisor[indices]

    def renumber(self, numbers: np.ndarray) -> None:
        """Give feature j the number ``numbers[j]``; the order must stay."""
        for _, indices in self.pieces():
            indices[:] = numbers[indices]

    def extremes(self) -> tuple[float, float]:
        """Return the smallest and the largest value of those that are not zero, or zeros if there is none."""
        found = [(float(data.min()), float(data.max())) for data, _ in self.pieces()]
        return (min(low for low, _ in found), max(high for _, high in found)) if found else (0.0, 0.0)


class _Growing:
    """A one-dimensional ``.npy`` file to which values are appended."""

    def __init__(self, path: Path, dtype: str):
        self._file = path.open("wb")
        self._dtype = dtype
        self.size = 0
        self._write_header()
        self._start = self._file.tell()

    def _write_header(self) -> None:
        # numpy leaves room in the header for the first axis to grow.
        header = {"descr": self._dtype, "fortran_order": False, "shape": (self.size,)}
        np.lib.format.write_array_header_1_0(self._file, header)

    def append(self, values: np.ndarray) -> None:
        self._file.write(np.ascontiguousarray(values, dtype=self._dtype).data)
        self.size += len(values)

    def close(self) -> None:
        self._file.seek(0)
        self._write_header()
        if self._file.tell() != self._start:
            raise RuntimeError(f"numpy wrote headers of {self._start} and {self._file.tell()} bytes")
        self._file.close()
