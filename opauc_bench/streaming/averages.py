"""Averages of the weights along a pass, in which the late weights count most."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import sparse

from ..learners.rows import taken
from ..learners.snapshot import as_tree, from_tree

__all__ = ["AveragedWeights", "is_due"]

_DECAY = 8
_FROM = 1024  # rows
_MOST_TIMES = 32  # while rows double,
_WEIGHTS_PER_VALUE = 2  # and where that is no more than two weights for each value that was learnt


def is_due(n_rows: int, n_weights: int, n_values: int) -> bool:
    """Whether the weights after ``n_rows`` rows are to be added: at multiples of the length of any block.

    There are ``n_weights`` of them, and ``n_values`` values have been learnt since they were added last.
    """
    if n_rows < _FROM:
        return False
    doubled = 1 << n_rows.bit_length() - 1
    return n_rows % (doubled // _MOST_TIMES) == 0 and n_weights <= _WEIGHTS_PER_VALUE * n_values


class AveragedWeights:
    """Polynomial-decay averages of the weights and intercepts of several settings, in memory for one more model each.

    Weights w that come after n rows change the average v to (1 - r) v + r w, with r = 1 - (m / n)^8 if the ones before
    came after m rows: they count for n^8 - m^8, and the latest eighth of the rows for two thirds of the average.

    References
    ----------
    O. Shamir, T. Zhang: Stochastic gradient descent for non-smooth optimization. ICML 2013, Section 4.
    """

    def __init__(self, n_settings: int):
        self.weights = np.zeros((0, n_settings))  # one setting per column
        self.intercepts = np.zeros(n_settings)
        self.n_rows = 0

    def add(self, weights: np.ndarray, intercepts: np.ndarray, n_rows: int, features: np.ndarray | None = None) -> None:
        """Take in the weights after ``n_rows`` rows; earlier ones had 0 for new features.

        Parameters
        ----------
        weights : ndarray of shape (k, n_settings)
        intercepts : ndarray of shape (n_settings,)
        n_rows : int
            More than at the time before.
        features : ndarray of int, shape (k,), optional
            Which ones the weights are of, in ascending order; the others have had 0 so far. By default the first k.
        """
        share = 1.0 - (self.n_rows / n_rows) ** _DECAY
        self.n_rows = n_rows
        n_features = len(weights) if features is None else int(features[-1]) + 1
        if n_features > len(self.weights):
            self.weights = self.at(None, n_features)
        if features is None:
            # In place: (1 - r) v + r w makes two arrays of the same size.
            self.weights *= 1.0 - share
            self.weights[: len(weights)] += share * weights
        else:
            self.weights[features] = (1.0 - share) * self.weights[features] + share * weights
        self.intercepts = (1.0 - share) * self.intercepts + share * intercepts

    def at(self, features: np.ndarray | None, n_features: int) -> np.ndarray:
        """Averages at ``n_features`` features, by default the first ones; 0 where there were no weights yet."""
        if features is None and n_features <= len(self.weights):
            return self.weights[:n_features]
        found = np.zeros((n_features, self.weights.shape[1]))
        if features is None:
            found[: len(self.weights)] = self.weights
        elif len(self.weights):
            self.weights.take(features, axis=0, out=found, mode="clip")
            found[features >= len(self.weights)] = 0.0
        return found

    def score_rows(self, features: np.ndarray | None, values: sparse.csr_matrix) -> tuple[np.ndarray, np.ndarray]:
        """Scores w'x of rows by the averages, of shape (n, n_settings), and these, of shape (k, n_settings).

        Parameters
        ----------
        features : ndarray of int, shape (k,), or None
            Those that the rows have; None for the first k.
        values : csr_matrix of shape (n, k)
            Of these features.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            weights = self.at(features, values.shape[1])
            return values @ weights, weights

    def keep(self, columns: np.ndarray) -> None:
        """Keep some settings, by their positions."""
        self.weights, self.intercepts = taken(self.weights, columns, -1), self.intercepts[columns]

    def snapshot(self) -> dict[str, Any]:
        """Return what is remembered, to continue by `restored`."""
        return as_tree(self)

    @classmethod
    def restored(cls, saved: Mapping[str, Any], n_settings: int) -> AveragedWeights:
        """Go on where `snapshot` was called; ValueError if its parts do not fit."""
        averages = from_tree(cls(n_settings), saved, ("weights",), "averages of the state")
        if averages.weights.shape[1] != n_settings or averages.n_rows < 1:
            raise ValueError("the averages of the state are not those of its settings")
        return averages
