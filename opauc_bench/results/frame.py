"""Records as tidy tables: one row per record, per setting that was tried, or per point of a curve."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..task import Task, expand_grid
from .record import Record

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["curve_frame", "folds_text", "grid_frame", "record_frame"]

Pairs = Iterable[tuple[Task, Record]]

_TIMES = ("fit_seconds", "selection_seconds")
_COUNTS = ("n_train", "n_test", "n_settings", "n_diverged")
_PLACE = ("dataset", "row", "learner", "title", "trial", "fold")
_FIXED = frozenset({*_PLACE, "status", "message", *_COUNTS, *_TIMES, "inner_auc", "selected", "id"})


def record_frame(pairs: Pairs, titles: Mapping[str, str]) -> pd.DataFrame:
    """One row per record, as docs/results_api.md describes; ``titles`` are the headings of columns by key."""
    import pandas as pd

    rows, columns = _record_rows(list(pairs), titles)
    types = dict.fromkeys(_COUNTS, "Int64") | dict.fromkeys(_TIMES, "float64")
    return pd.DataFrame(rows, columns=columns).astype(types)


def folds_text(pairs: Pairs, titles: Mapping[str, str]) -> str:
    """Return `record_frame` as CSV without times and messages: the same results give the same bytes."""
    rows, columns = _record_rows(list(pairs), titles)
    text = io.StringIO()
    kept = [name for name in columns if name not in (*_TIMES, "message")]
    writer = csv.DictWriter(text, kept, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def grid_frame(pairs: Pairs, titles: Mapping[str, str]) -> pd.DataFrame:
    """One row per setting that was tried, with the AUC that it was selected by, NaN where it diverged.

    With another metric under ``select``, ``inner_auc`` is that metric, or minus a loss.
    """
    import pandas as pd

    frames, pairs = [], list(pairs)
    names = _names_of_axes(pairs)
    for task, record in pairs:
        if record.selection is None:
            continue
        # An axis that another column has tuned, or that is fixed, has one value.
        axes = {**record.selected, **expand_grid(task.grid)}
        selected = np.full(len(record.selection.auc), record.ok or bool(record.selected))
        for axis, value in record.selected.items():
            selected &= axes[axis] == value
        frames.append(
            pd.DataFrame(
                {
                    **_place(task, record, titles),
                    **{names[axis]: values for axis, values in axes.items()},
                    "inner_auc": record.selection.auc,
                    "selected": selected,
                    "id": record.id,
                }
            )
        )
    return _joined(frames, ["inner_auc", "selected", "id"])


def curve_frame(pairs: Pairs, titles: Mapping[str, str]) -> pd.DataFrame:
    """One row per point of a figure: per setting of a sweep, point of a pass, or size of a sketch."""
    import pandas as pd

    pairs = list(pairs)
    names = _names_of_axes(pairs)
    frames = [
        pd.DataFrame(
            {
                **_place(task, record, titles),
                **{names[axis]: values for axis, values in task.protocol.point_axes(task).items()},
                **record.columns,
                "id": record.id,
            }
        )
        for task, record in pairs
        if record.columns
    ]
    return _joined(frames, ["id"])


def _place(task: Task, record: Record, titles: Mapping[str, str]) -> dict[str, Any]:
    return {
        "dataset": task.dataset,
        "row": task.row,
        "learner": task.column,
        "title": titles[task.column],
        "trial": record.trial + 1,
        "fold": record.fold + 1,
    }


def _names_of_axes(pairs: list[tuple[Task, Record]]) -> dict[str, str]:
    """The column of each grid axis; an estimator may have a parameter with the name of another column."""
    taken, axes = set(_FIXED), set()
    for task, record in pairs:
        taken |= {*record.metrics, *record.columns, *task.protocol.record_metrics}
        axes |= {*record.selected, *task.grid, *task.protocol.point_axes(task)}
    return {axis: f"param_{axis}" if axis in taken else axis for axis in axes}


def _record_rows(pairs: list[tuple[Task, Record]], titles: Mapping[str, str]) -> tuple[list[dict[str, Any]], list[str]]:
    # Those of the protocol too: where no task has a number, the columns are there all the same.
    of_protocol = pairs[0][0].protocol.record_metrics if pairs else ()
    metrics = dict.fromkeys([*(name for _, record in pairs for name in record.metrics), *of_protocol])
    names = _names_of_axes(pairs)
    axes = dict.fromkeys(names[axis] for _, record in pairs for axis in record.selected)
    rows = [
        {
            **_place(task, record, titles),
            "status": record.status,
            "message": record.message or None,
            **record.metrics,
            **{names[axis]: value for axis, value in record.selected.items()},
            **{name: getattr(record.outcome, name, None) for name in ("n_train", "n_test")},
            **{name: getattr(record.selection, name, None) for name in ("n_settings", "n_diverged")},
            "fit_seconds": record.timing.fit_cpu_seconds,
            "selection_seconds": record.timing.selection_cpu_seconds,
            "id": record.id,
        }
        for task, record in pairs
    ]
    return rows, [*_PLACE, "status", "message", *metrics, *axes, *_COUNTS, *_TIMES, "id"]


def _joined(frames: list[pd.DataFrame], last: list[str]) -> pd.DataFrame:
    import pandas as pd

    if not frames:
        return pd.DataFrame(columns=[*_PLACE, *last])
    joined = pd.concat(frames, ignore_index=True)
    return joined[[name for name in joined.columns if name not in last] + last]
