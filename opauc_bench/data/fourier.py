"""Random Fourier features (Rahimi and Recht, 2007), computed when they are read and never stored as a matrix."""

import math
from typing import Any, Literal

import numpy as np

from ..kernels import njit

__all__ = ["RandomFourierRows", "draw_frequencies"]

_MOST_BYTES = 4 << 30  # of features computed at once
_ROWS = 8
_PAIRS = 20_000


class RandomFourierRows:
    """A matrix whose rows are computed on access: the rows of ``X``, followed by cosine features of them.

    Feature j is ``sqrt(2 / n) cos(2 pi (x . omega_j + phase_j))``: the inner product of the cosine features of two rows
    approximates a Gaussian kernel, ``exp(-|x - x'|^2 / (2 bandwidth^2))``, and their length is about 1.

    Parameters
    ----------
    X : ndarray of shape (n_samples, d)
    omega : ndarray of shape (d, n)
        Frequencies in turns a unit: independent, normal with mean 0 and standard deviation 1 / (2 pi bandwidth).
    phase : ndarray of shape (n,)
        In turns: independent, uniform on [0, 1).
    """

    ndim = 2
    dtype = np.dtype(np.float64)

    def __init__(self, X: np.ndarray, omega: np.ndarray, phase: np.ndarray):
        self.X, self.omega, self.phase = X, omega, phase
        self.shape = (X.shape[0], X.shape[1] + len(phase))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> np.ndarray:
        """Return rows, float64 of shape (len(rows), d + n), or (d + n,) for one row; indexed as an ndarray.

        MemoryError if they would take more than 4 GiB, IndexError for columns.
        """
        if isinstance(rows, tuple):
            raise IndexError("these features are computed by row; index the columns of X[rows]")
        own = np.asarray(self.X[rows], dtype=np.float64)
        if own.ndim == 1:
            return self[[rows]][0]
        d, n = self.omega.shape
        if 8 * len(own) * self.shape[1] > _MOST_BYTES:
            gigabytes = 8 * len(own) * self.shape[1] / 1e9
            raise MemoryError(
                f"{len(own):,} rows of {self.shape[1]:,} features would take {gigabytes:,.1f} GB: these features are "
                "computed in chunks of rows, for learners that read one chunk at a time"
            )
        made = np.empty((len(own), self.shape[1]))
        made[:, :d] = own
        for start in range(0, len(own), _ROWS):  # as many as stay in the processor's cache
            piece = made[start : start + _ROWS]
            np.matmul(own[start : start + _ROWS], self.omega, out=piece[:, d:])
            _cosines(piece, d, self.phase, math.sqrt(2.0 / n))
        return made

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Compute all rows, for small data."""
        return np.asarray(self[:], dtype=dtype)


def draw_frequencies(
    X: np.ndarray, n: int, bandwidth: float | Literal["median"], seed: int
) -> tuple[np.ndarray, np.ndarray, float]:
    """Draw omega, phase and bandwidth of `RandomFourierRows`; the same on every machine with the same NumPy.

    A bandwidth of ``"median"`` is the median Euclidean distance of 20,000 random pairs of different rows.
    """
    rng = np.random.default_rng(seed)
    if bandwidth == "median":
        bandwidth = _median_distance(X, np.random.default_rng([seed, 1]))
    omega = rng.standard_normal((X.shape[1], n))
    omega /= 2.0 * np.pi * bandwidth
    return omega, rng.uniform(0.0, 1.0, n), float(bandwidth)


def _median_distance(X: np.ndarray, rng: np.random.Generator) -> float:
    squares = []
    for _ in range(_PAIRS // 1000):
        one, other = rng.integers(0, len(X), (2, 1000))
        squares.append(np.square(np.asarray(X[one]) - np.asarray(X[other])).sum(axis=1))
    found = np.concatenate(squares)
    found = found[found > 0]
    return float(np.sqrt(np.median(found))) if len(found) else 1.0


# sin(2 pi r) = r (c0 + c1 r^2 + ...), Taylor's series: for |r| <= 1/4 ten terms are enough for doubles.
_C0, _C1, _C2, _C3, _C4, _C5, _C6, _C7, _C8, _C9 = (
    (-1) ** k * (2.0 * math.pi) ** (2 * k + 1) / math.factorial(2 * k + 1) for k in range(10)
)


@njit()
def _cosines(made, d, phase, scale):
    """Replace ``made[:, d:]``, in turns, by scaled cosines, with errors up to 1e-15; 20 times as fast as NumPy."""
    for i in range(made.shape[0]):
        for j in range(len(phase)):
            turns = made[i, d + j] + phase[j]
            turns -= np.floor(turns + 0.5)
            r = 0.25 - abs(turns)
            s = r * r
            p = _C5 + s * (_C6 + s * (_C7 + s * (_C8 + s * _C9)))
            p = _C0 + s * (_C1 + s * (_C2 + s * (_C3 + s * (_C4 + s * p))))
            made[i, d + j] = scale * (r * p)
