"""All records of a folder as one CSV: a row an outer fold, for pandas and spreadsheets."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from ..files import write_text
from ..plan import Task
from .records import metrics_of

__all__ = ["folds_text", "write_folds"]

Records = dict[tuple[str, str], list[tuple[Task, dict[str, Any] | None]]]

_FIELDS = [
    "dataset",
    "column",
    "trial",
    "fold",
    "status",
    "test_auc",
    "chosen",
    "n_diverged",
    "n_settings",
    "id",
]


def write_folds(path: Path, records: Records) -> None:
    """Write one row for each record, without timings: the same results give the same bytes.

    Parameters
    ----------
    path : Path
    records : dict of (dataset, column) to list of (Task, record or None)

    Raises
    ------
    ResultsError
        If the file cannot be written.
    """
    write_text(path, folds_text(records))


def folds_text(records: Records) -> str:
    """Return what `write_folds` writes; what was measured beside the AUC has columns after it."""
    text = io.StringIO()
    finished = [(task, record) for tasks in records.values() for task, record in tasks if record is not None]
    others = dict.fromkeys(name for _, record in finished for name in metrics_of(record) if name != "auc")
    place = _FIELDS.index("test_auc") + 1
    writer = csv.DictWriter(text, [*_FIELDS[:place], *others, *_FIELDS[place:]], lineterminator="\n")
    writer.writeheader()
    writer.writerows(_row(task, record) for task, record in finished)
    return text.getvalue()


def _row(task: Task, record: dict[str, Any]) -> dict[str, Any]:
    selection, metrics = record.get("selection", {}), metrics_of(record)
    return {
        **{name: value for name, value in metrics.items() if name != "auc"},
        **{key: record[key] for key in ("column", "status", "id")},
        "dataset": task.row or task.dataset,
        "trial": record["trial"] + 1,
        "fold": record["fold"] + 1,
        "test_auc": "" if record["status"] != "ok" else metrics["auc"],
        "chosen": " ".join(f"{axis}={value!r}" for axis, value in record.get("chosen", {}).items()),
        "n_diverged": selection.get("n_diverged", ""),
        "n_settings": selection.get("n_settings", ""),
    }
