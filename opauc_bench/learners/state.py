"""What a learner remembers between rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..errors import LearnerError
from .rows import fill, padded, taken
from .snapshot import as_tree, from_tree

__all__ = ["State", "empty_state", "n_settings_of"]

_PACKAGE = __name__.rpartition(".")[0]
_WEIGHTS_AT_ONCE = 1 << 18  # that are gathered for a check


@dataclass
class State:
    """The state of a learner between rows, for several settings at once.

    Attributes
    ----------
    settings : dict of str to ndarray of shape (n_live,)
        Hyper-parameters of the settings that are still finite.
    W : ndarray of shape (>= n_features, >= n_live)
        One model per column. Kernels may pad both axes with zeros.
    settings_axes : dict of str to int
        Arrays with an axis over the live settings, and which axis that is.
    lanes : int
        The length of those axes is padded to a multiple of it, except in a pass that began with one setting.
    resizable : tuple of str
        Arrays whose shape depends on the rows so far.
    ends_with_intercept : bool
        Whether the last entry of ``W`` is that of the intercept, behind the features.
    """

    settings_axes: ClassVar[dict[str, int]] = {"W": -1}
    lanes: ClassVar[int] = 1
    resizable: ClassVar[tuple[str, ...]] = ()
    ends_with_intercept: ClassVar[bool] = False
    settings: dict[str, np.ndarray]
    W: np.ndarray

    @property
    def n_live(self) -> int:
        return len(next(iter(self.settings.values())))

    def require_shape(self, n_features: int, n_settings: int) -> None:
        """Raise LearnerError if the weights of a user's learner are not one for each feature and setting.

        States of this package may be padded; one with a `coef` of its own says how its weights are read.
        """
        own = type(self) is not State and type(self).__module__.startswith(_PACKAGE)
        if own or type(self).coef is not State.coef or self.ends_with_intercept or self.lanes > 1:
            return
        if np.iscomplexobj(self.W):
            raise LearnerError(
                f"expected real weights W, got {np.asarray(self.W).dtype}", "opauc-bench learners check FILE:CLASS"
            )
        expected, shape = (n_features, n_settings), np.shape(self.W)
        if shape != expected:
            raise LearnerError(
                f"expected W of shape (n_features, n_settings), here {expected}; got {shape}",
                "opauc-bench learners check FILE:CLASS",
            )

    def expect(self, n_rows: int | None) -> None:
        """Receive the number of rows to come, before the first one; None if it is not known."""

    def stand_for(self, sizes: np.ndarray) -> None:
        """Receive the number of identical features that each one stands for, shape (n_features,), before the first row.

        Only called where the learner has ``_merges_identical_columns``.
        """
        raise TypeError(f"{type(self).__name__} has to define stand_for(sizes)")

    def coef(self, n_features: int) -> np.ndarray:
        """Weights of the live settings, shape (n_features, n_live)."""
        return self.W[:n_features, : self.n_live]

    def finite(self, n_features: int) -> np.ndarray:
        """Which live settings have finite weights, shape (n_live,); checked between chunks of rows."""
        return np.isfinite(self.coef(n_features)).all(axis=0)

    def finite_at(self, features: np.ndarray) -> np.ndarray:
        """Which live settings have finite weights at some ``features``, shape (n_live,)."""
        finite, step = np.ones(self.n_live, dtype=bool), max(1, _WEIGHTS_AT_ONCE // self.n_live)
        for start in range(0, len(features), step):
            finite &= np.isfinite(self.coef_at(features[start : start + step])).all(axis=0)
        return finite

    def finite_elsewhere(self) -> bool:
        """Whether all weights but those of the last rows' features are certainly finite, if they were before.

        Only called where the learner has ``_moves_own_features``, after each chunk of rows.
        """
        return True

    def coef_at(self, features: np.ndarray) -> np.ndarray:
        """Weights of the live settings at some ``features``, which may repeat; shape (len(features), n_live)."""
        return self.coef(int(features.max(initial=-1)) + 1)[features]

    def keep(self, columns: np.ndarray) -> None:
        """Drop every setting but ``columns`` (integer positions among the live ones)."""
        self.settings = {axis: values[columns] for axis, values in self.settings.items()}
        for name, axis in self.settings_axes.items():
            setattr(self, name, taken(getattr(self, name), columns, axis, padded(len(columns), self.lanes)))

    def widened(self, fresh: State) -> State:
        """Move the state into ``fresh``, which has room for more features, and return it.

        It comes from ``_begin``, for the same settings and more features. Arrays are copied into the leading corner of
        its own, which is right where every axis over features begins with the first one, and where a feature that no
        row has had yet leaves nothing but zeros.

        Raises
        ------
        ValueError
            If a new feature would need values other than zeros, or the state has attributes that are not arrays.
        """
        for name, old in vars(self).items():
            new = getattr(fresh, name, None)
            if isinstance(old, np.ndarray) and isinstance(new, np.ndarray):
                if old.shape != new.shape and new.any():
                    raise ValueError(f"{name} does not begin with zeros")
                if name == "W" and self.ends_with_intercept:
                    new[-1], old = old[-1], old[:-1]
                fill(new, old)
            elif isinstance(old, np.random.Generator):
                setattr(fresh, name, old)
            elif name != "settings" and old != new:
                raise ValueError(f"{name} is not an array")
        return fresh

    def snapshot(self) -> dict[str, Any]:
        """Return everything that is remembered as a tree of arrays and plain values, see `snapshot.py`.

        Raises
        ------
        TypeError
            If the state has an attribute of another type; a learner then defines ``snapshot`` and ``restore``.
        """
        return as_tree(self)

    def restore(self, saved: dict[str, Any]) -> None:
        """Take over what `snapshot` returned; the state comes from ``_begin`` for the same settings and width.

        Raises
        ------
        ValueError
            If names, types or shapes are not those of this state.
        """
        from_tree(self, saved, self.resizable)


def empty_state(
    begin: Callable[[int, dict[str, np.ndarray]], State],
    n_features: int,
    settings: dict[str, np.ndarray],
    several: bool,
) -> State:
    """A state before the first row, with the layout of a pass that began with several settings, or with one."""
    if not several or n_settings_of(settings) > 1:
        return begin(n_features, settings)
    state = begin(n_features, {axis: np.repeat(values, 2) for axis, values in settings.items()})
    state.keep(np.array([0]))
    return state


def n_settings_of(settings: Mapping[str, np.ndarray]) -> int:
    """How many settings there are."""
    return len(next(iter(settings.values())))
