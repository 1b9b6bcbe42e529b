"""The leaderboard of a tuned training as a table of 80 columns at most."""

from __future__ import annotations

from typing import Any

from .progress import shown_auc

__all__ = ["shown_leaderboard"]

_LINES = 10
_SHOWN_PARAMETERS = 2
_SHOWN_FIRST = ("eta", "gamma", "xi", "lam", "l1")


def shown_leaderboard(leaderboard: list[dict[str, Any]]) -> str:
    """The first lines of a leaderboard, and how many there are beside them.

    Parameters
    ----------
    leaderboard : list of dict
        As in `LinearModel`.
    """
    from tabulate import tabulate

    varied = _varied(leaderboard)
    rows = []
    for one in leaderboard[:_LINES]:
        settings = ", ".join(f"{name}={one['parameters'][name]:g}" for name in varied[one["learner"]])
        error = "" if one["standard_error"] is None else f"{one['standard_error']:.4f}".removeprefix("0")
        outcome = "averaged" if one.get("averaged") else one["outcome"]  # an average is the best
        rows.append([one["learner"], settings, shown_auc(one["auc"]), error, f"{one['n_rows']:,}", outcome])
    table = tabulate(
        rows,
        ["learner", "setting", "AUC", "+-", "rows", ""],
        tablefmt="simple",
        disable_numparse=True,
        colalign=("left", "left", "right", "right", "right", "left"),
    )
    more = len(leaderboard) - _LINES
    return table if more <= 0 else f"{table}\nand {more} more, dropped earlier or ranked lower"


def _varied(leaderboard: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Which numbers differ between the settings of a learner; of a single setting, step size and regularisation."""
    of_learner: dict[str, list[dict[str, Any]]] = {}
    for one in leaderboard:
        of_learner.setdefault(one["learner"], []).append(one["parameters"])
    varied = {}
    for learner, settings in of_learner.items():
        names = [name for name, value in settings[0].items() if type(value) is float]
        names.sort(key=lambda name: _SHOWN_FIRST.index(name) if name in _SHOWN_FIRST else len(_SHOWN_FIRST))
        differ = [name for name in names if len({parameters[name] for parameters in settings}) > 1]
        varied[learner] = differ or names[:_SHOWN_PARAMETERS]
    return varied
