"""Dense rows of which several are learnt at once, by matrix products."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

__all__ = ["Block", "BlockOfProducts"]

_STRIP = 1024  # features at a time


class Block:
    """Rows whose weights are those of their features.

    Parameters
    ----------
    values : ndarray of shape (n, n_features)
        Times the weights, they are the scores.
    """

    def __init__(self, values: np.ndarray):
        self.values = values

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: slice) -> Block:
        return Block(self.values[rows])

    def gram_matrix(self) -> np.ndarray:
        """Inner products of the rows with each other, shape (n, n)."""
        return self.values @ self.values.T

    def add_to(self, W: np.ndarray, coefficients: np.ndarray) -> None:
        """Add combinations of the rows to weights: W += X' coefficients."""
        for start in range(0, len(W), _STRIP):
            some = slice(start, start + _STRIP)
            W[some] += self.values[:, some].T @ coefficients

    def last(self) -> tuple[np.ndarray, np.ndarray]:
        """The last row, as places of weights, ascending, and what is added to these."""
        return np.arange(self.values.shape[1], dtype=np.int32), self.values[-1].copy()


class BlockOfProducts(Block):
    """Rows by their inner products with the rows of a pass, whose coefficients are the weights.

    Parameters
    ----------
    values : ndarray of shape (n, n_visited)
        Inner products.
    places : ndarray of int, shape (n,)
        Of these rows among those visited.
    visited : callable
        From places to inner products of the rows there.
    """

    def __init__(self, values: np.ndarray, places: np.ndarray, visited: Callable[[np.ndarray], np.ndarray]):
        super().__init__(values)
        self.places, self.visited = places, visited

    def __getitem__(self, rows: slice) -> BlockOfProducts:
        return BlockOfProducts(self.values[rows], self.places[rows], self.visited)

    def after(self, places: np.ndarray) -> BlockOfProducts:
        """The rows at some places, and these rows after them."""
        values = np.concatenate([self.visited(places), self.values])
        return BlockOfProducts(values, np.concatenate([places, self.places]), self.visited)

    def gram_matrix(self) -> np.ndarray:
        return self.values[:, self.places]

    def add_to(self, W: np.ndarray, coefficients: np.ndarray) -> None:
        W[self.places] += coefficients

    def last(self) -> tuple[np.ndarray, np.ndarray]:
        return self.places[-1:].astype(np.int32), np.ones(1)
