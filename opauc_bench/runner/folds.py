"""All records of a folder as one CSV: a row an outer fold, for pandas and spreadsheets."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from ..files import write_text
from ..plan import Task

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
    """Return what `write_folds` writes."""
    text = io.StringIO()
    writer = csv.DictWriter(text, _FIELDS, lineterminator="\n")
    writer.writeheader()
    for rows in records.values():
        writer.writerows(_row(record) for _, record in rows if record is not None)
    return text.getvalue()


def _row(record: dict[str, Any]) -> dict[str, Any]:
    selection = record.get("selection", {})
    return {
        **{key: record[key] for key in ("dataset", "column", "status", "id")},
        "trial": record["trial"] + 1,
        "fold": record["fold"] + 1,
        "test_auc": record.get("test_auc", ""),
        "chosen": " ".join(f"{axis}={value!r}" for axis, value in record.get("chosen", {}).items()),
        "n_diverged": selection.get("n_diverged", ""),
        "n_settings": selection.get("n_settings", ""),
    }
