"""Building blocks of the contract checks: a learner on trial, rows and settings for it, and comparisons."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Any

import numpy as np
from scipy import sparse

from ..learners.base import OnePassLearner, State
from ..learners.ranker import DivergenceError

__all__ = [
    "N_FEATURES",
    "N_ROWS",
    "ContractBroken",
    "CountingRows",
    "Trial",
    "changed_method",
    "dropping",
    "each",
    "left_alone",
    "overwritten",
    "require",
    "require_same_verdict",
]

_TOLERANCE = 1e-12  # of the largest weight of a setting, for learners whose every step is fixed by the rows
N_ROWS, N_FEATURES = 400, 7


class ContractBroken(AssertionError):
    """A learner does not keep its contract; the message says what was expected and what came."""


class Trial:
    """A learner to build, rows to train it on, and a few settings around its own.

    Rows are in [-1, 1] with zeros among them; a third are positive; some equal rows have both labels.
    Settings are all combinations of half, once and twice the learner's value (2^-6 for zero) on each axis.
    """

    def __init__(self, make):
        self.make = make
        rng = np.random.default_rng(0)
        self.y = np.where(rng.random(N_ROWS) < 1 / 3, 1, -1)
        X = 0.5 * rng.standard_normal((N_ROWS, N_FEATURES)) + 0.5 * self.y[:, None]
        X[rng.random(X.shape) < 0.2] = 0.0
        self.X = np.clip(X, -1.0, 1.0)
        self.X[300:320], self.y[300:320] = self.X[0], np.resize([1, -1], 20)
        self.csr = sparse.csr_matrix(self.X)
        self.axes = self.learner().grid_axes
        require(len(self.axes) > 0, "expected grid_axes to name at least one hyper-parameter; it is empty")
        self.own = {axis: float(getattr(self.learner(), axis)) or 2.0**-6 for axis in self.axes}
        factors = np.array(list(product((0.5, 1.0, 2.0), repeat=len(self.axes))))
        self.grid = {axis: factors[:, k] * self.own[axis] for k, axis in enumerate(self.axes)}
        # Learners that need all rows first may not be able to begin without them.
        if isinstance(learner := self.learner(), OnePassLearner) and learner.streams:
            _require_state(learner._begin(N_FEATURES, dict(self.grid)), len(factors))

    def learner(self, **params) -> Any:
        """A new learner as exact as it gets, with a fixed seed, if it draws any random numbers."""
        learner = self.make()
        seed = {"random_state": 0} if "random_state" in learner.get_params() else {}
        return learner.set_params(**(seed | getattr(learner, "exact_params", {}) | params))

    def fit_grid(self, X=None, y=None, grid=None, **options) -> np.ndarray:
        """Weights of a new learner, by default on all rows and for all settings."""
        X, y = self.X if X is None else X, self.y if y is None else y
        return self.learner().fit_grid(X, y, self.grid if grid is None else grid, **options)

    def require_close(self, got, want, got_is, want_is, grid=None, tolerance=None) -> None:
        """Columns agree within ``tolerance`` of the largest wanted entry, by default the learner's; NaN with NaN."""
        tolerance = getattr(self.make(), "path_tolerance", _TOLERANCE) if tolerance is None else tolerance
        require(got.shape == want.shape, f"{got_is}: expected the shape {want.shape}, as {want_is}; got {got.shape}")
        scale = np.abs(want).max(axis=0)
        off = np.abs(got - want) / np.where(scale > 0, scale, 1.0)
        off = np.where(np.isnan(got) & np.isnan(want), 0.0, np.where(np.isnan(off), np.inf, off))
        if (off <= tolerance).all():
            return
        i, g = np.unravel_index(np.argmax(off), off.shape)
        setting = "" if grid is None else f" of {list(each(grid))[g]}"
        n_wrong = int((off > tolerance).any(axis=0).sum())
        raise ContractBroken(
            f"{got_is}: expected what {want_is} gives, within {tolerance:g} of its largest entry; "
            f"{n_wrong} of {off.shape[1]} columns differ. Worst, by {off[i, g]:.1e}: entry {i}{setting}, "
            f"expected {want[i, g]:.17g}, got {got[i, g]:.17g}"
        )

    def fit(self, X=None, y=None, **params) -> np.ndarray:
        """Weights of a new learner with ``params`` as a column, by default on all rows."""
        X, y = self.X if X is None else X, self.y if y is None else y
        return self.learner(**params).fit(X, y).coef_.T


def _require_state(state, n_settings: int) -> None:
    """``_begin`` has to return a state with one model per column."""
    require(
        isinstance(state, State),
        f"expected _begin to return a State, with settings and W; got {type(state).__name__}",
    )
    state.require_shape(N_FEATURES, n_settings)


def each(grid: Mapping[str, np.ndarray]) -> Iterator[dict[str, float]]:
    for values in zip(*grid.values()):
        yield {axis: float(value) for axis, value in zip(grid, values)}


def require(kept: bool, message: str) -> None:
    if not kept:
        raise ContractBroken(message)


def require_same_verdict(trial: Trial, setting: Mapping[str, float], diverged: bool) -> None:
    """``fit`` raises DivergenceError for a setting if and only if ``fit_grid`` gives NaN for it."""
    try:
        trial.fit(**setting)
    except DivergenceError as error:
        require(diverged, f"fit_grid gave finite weights for {setting}, but fit says: {error}")
    else:
        require(not diverged, f"fit_grid says that {setting} overflows, but fit gave finite weights")


# ---------------------------------------------------------------------- rows that count reads, passes in other pieces


class CountingRows(sparse.csr_matrix):
    """Rows that remember which of them have been read."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.rows_read: list[int] = []

    def __getitem__(self, rows):
        self.rows_read += np.atleast_1d(np.arange(self.shape[0])[rows]).tolist()
        return sparse.csr_matrix(self)[rows]


@contextlib.contextmanager
def changed_method(trial: Trial, method: str, change: Callable[[Callable], Callable]):
    """While active, learners on trial are of a class with another ``method``, which their copies keep."""
    make = trial.make

    def make_changed():
        learner = make()
        kind = type(learner)
        members = {"__module__": kind.__module__, method: change(getattr(kind, method))}
        learner.__class__ = type(kind.__name__, (kind,), members)
        return learner

    trial.make = make_changed
    try:
        yield
    finally:
        trial.make = make


def _arrays(X) -> tuple[np.ndarray, ...]:
    return (X.data, X.indices, X.indptr) if sparse.issparse(X) else (X,)


def left_alone(consume):
    """Rows and labels of a chunk have to be left as they are."""

    def watching(self, state, X, y):
        arrays = (*_arrays(X), y)
        before = [array.copy() for array in arrays]
        consume(self, state, X, y)
        same = all(np.array_equal(array, old) for array, old in zip(arrays, before))
        require(same, "expected _consume to leave the rows and labels that it gets as they are; it changed them")

    return watching


def overwritten(consume):
    """Rows and labels of a chunk become something else as soon as they are consumed."""

    def overwriting(self, state, X, y):
        consume(self, state, X, y)
        for array in (*_arrays(X), y):
            array.fill(1)

    return overwriting


def dropping(finite):
    """The first check of the weights reports overflow of the first setting, the second check of one in the middle."""
    n_checks = 0

    def dropping_some(self, state, chunk, n_features):
        nonlocal n_checks
        n_checks += 1
        found = finite(self, state, chunk, n_features).copy()
        if n_checks <= 2:
            found[0 if n_checks == 1 else len(found) // 2] = False
        return found

    return dropping_some
