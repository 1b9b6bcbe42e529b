"""Which selected settings lie at an edge of the grid, so that a wider one may have a better setting."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

__all__ = ["FLAT", "axes_cut_off"]

FLAT = 1e-4  # units of AUC


def axes_cut_off(
    settings: Mapping[str, np.ndarray], aucs: np.ndarray, selected: Mapping[str, float]
) -> dict[str, float]:
    """Find the axes at whose edge a setting was selected while the AUC still rises towards that edge.

    An axis with fewer than three values has no inside, and nothing lies beyond a value of 0: neither counts. Nor does
    an edge on a plateau: with the next value of the axis, and any values of the others, a setting is as good to `FLAT`.

    Parameters
    ----------
    settings : mapping of axis name to ndarray of shape (n_settings,)
        The expanded grid.
    aucs : ndarray of shape (n_settings,)
        What the settings were selected by; NaN where one diverged.
    selected : mapping of axis name to float
        The selected setting; axes that are not in the grid are left out.

    Returns
    -------
    dict of str to float
        The selected value of each such axis.
    """
    found = {}
    for axis, values in settings.items():
        distinct, value = np.unique(values), selected.get(axis)
        if len(distinct) < 3 or value is None or value == 0 or distinct[0] < value < distinct[-1]:
            continue
        inside = distinct[1] if value == distinct[0] else distinct[-2]
        if not _best(aucs[values == value]) - _best(aucs[values == inside]) <= FLAT:
            found[axis] = float(value)
    return found


def _best(aucs: np.ndarray) -> float:
    """The largest AUC, or another metric; -inf where all have diverged."""
    return float(np.max(aucs, initial=-np.inf, where=np.isfinite(aucs)))
