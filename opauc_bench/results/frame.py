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

__all__ = ["curve_frame", "folds_text", "grid_frame", "record_frame", "rows_of_columns"]

Pairs = Iterable[tuple[Task, Record]]

_TIMES = ("fit_seconds", "selection_seconds")
_COUNTS = ("n_train", "n_test", "n_settings", "n_diverged")
_SIZES = ("n_train", "n_test")


def record_frame(pairs: Pairs, titles: Mapping[str, str]) -> pd.DataFrame:
    """One row per record; the columns are described in docs/results_api.md.

    Parameters
    ----------
    pairs : iterable of (Task, Record)
    titles : mapping of str to str
        Heading of each column of the table.
    """
    import pandas as pd

    rows, columns = _record_rows(list(pairs), titles)
    types = dict.fromkeys(_COUNTS, "Int64") | dict.fromkeys(_TIMES, "float64")
    return pd.DataFrame(rows, columns=columns).astype(types)


def folds_text(pairs: Pairs, titles: Mapping[str, str]) -> str:
    """Return `record_frame` as CSV without the times: the same results give the same bytes."""
    rows, columns = _record_rows(list(pairs), titles)
    kept = [i for i, name in enumerate(columns) if name not in _TIMES]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([columns[i] for i in kept])
    writer.writerows([row[i] for i in kept] for row in rows)
    return text.getvalue()


def grid_frame(pairs: Pairs, titles: Mapping[str, str]) -> pd.DataFrame:
    """One row per setting that was tried, with the AUC that it was selected by, NaN where it diverged."""
    import pandas as pd

    frames = []
    for task, record in pairs:
        if record.selection is None:
            continue
        aucs = record.selection.auc
        # An axis that another column has tuned, or that is fixed, has one value.
        axes = {
            **{axis: np.full(len(aucs), value) for axis, value in record.selected.items()},
            **expand_grid(task.grid),
        }
        selected = [axes[axis] == value for axis, value in record.selected.items()]
        frames.append(
            pd.DataFrame(
                {
                    **_place(task, record, titles),
                    **axes,
                    "inner_auc": aucs,
                    "selected": np.logical_and.reduce(selected) if selected else np.zeros(len(aucs), dtype=bool),
                    "id": record.id,
                }
            )
        )
    return _joined(frames, ["inner_auc", "selected", "id"])


def curve_frame(pairs: Pairs, titles: Mapping[str, str]) -> pd.DataFrame:
    """One row per point of what a figure shows: per setting of a sweep, look at a pass, or size of a sketch."""
    import pandas as pd

    frames = [
        pd.DataFrame(
            {**_place(task, record, titles), **rows_of_columns(task, record), **record.columns, "id": record.id}
        )
        for task, record in pairs
        if record.columns
    ]
    return _joined(frames, ["id"])


def rows_of_columns(task: Task, record: Record) -> dict[str, list[float]]:
    """What the rows of a record's columns are about: the axes of a setting, or the size of a sketch."""
    if record.outcome.kind == "sweep":
        return {axis: values.tolist() for axis, values in expand_grid(task.grid).items()}
    if record.outcome.kind == "sketch_error":
        return {"tau": list(task.protocol["sizes"])}
    return {}


def _place(task: Task, record: Record, titles: Mapping[str, str]) -> dict[str, Any]:
    return {
        "dataset": task.dataset,
        "row": task.row,
        "learner": task.column,
        "title": titles[task.column],
        "trial": record.trial + 1,
        "fold": record.fold + 1,
    }


def _record_rows(pairs: list[tuple[Task, Record]], titles: Mapping[str, str]) -> tuple[list[list[Any]], list[str]]:
    metrics = list(dict.fromkeys(name for _, record in pairs for name in record.metrics))
    axes = list(dict.fromkeys(axis for _, record in pairs for axis in record.selected))
    rows, columns = [], ["dataset", "row", "learner", "title", "trial", "fold", "status", *metrics, *axes]
    columns += ["n_train", "n_test", "n_settings", "n_diverged", *_TIMES, "id"]
    for task, record in pairs:
        sizes = [getattr(record.outcome, name, None) for name in _SIZES]
        searched = record.selection
        rows.append(
            [
                *_place(task, record, titles).values(),
                record.status,
                *map(record.metrics.get, metrics),
                *map(record.selected.get, axes),
                *sizes,
                *((searched.n_settings, searched.n_diverged) if searched else (None, None)),
                record.timing.fit_cpu_seconds,
                record.timing.selection_cpu_seconds,
                record.id,
            ]
        )
    return rows, columns


def _joined(frames: list[pd.DataFrame], last: list[str]) -> pd.DataFrame:
    import pandas as pd

    if not frames:
        return pd.DataFrame(columns=["dataset", "row", "learner", "title", "trial", "fold", *last])
    joined = pd.concat(frames, ignore_index=True)
    return joined[[name for name in joined.columns if name not in last] + last]
