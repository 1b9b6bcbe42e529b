"""Records on disk: one small JSON file a task, written to a temporary file and moved into place.

    <results>/manifest.json                                    what was run, on which data
    <results>/records/<dataset>/<column>/t<trial>-f<fold>-<id>.json
    <results>/partial/<id>.json                                inner folds of a task under way

A record is found by its path alone, so the folder can be copied, merged and versioned like any other. To compute a task
again, delete its file.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from ..errors import ResultsError
from ..files import write_text
from ..plan import Task
from ..protocol import FIGURE_KINDS

__all__ = ["SCHEMA", "STATUSES", "Store", "columns_of", "metrics_of", "selection_aucs", "write_json"]

SCHEMA = 1
STATUSES = ("ok", "diverged", "timeout", "out_of_memory", "error")


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file, one key a line, so that a reader finds the old file or the new one, never a part.

    Raises
    ------
    ResultsError
        If the folder cannot be written.
    """
    lines = (f"{json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in content.items())
    write_text(path, "{\n" + ",\n".join(lines) + "\n}\n")


class Store:
    """The records of one results folder.

    Parameters
    ----------
    folder : Path
    """

    def __init__(self, folder: Path):
        self.folder = folder

    def record_path(self, task: Task) -> Path:
        name = f"t{task.trial + 1}-f{task.fold + 1}-{task.id}.json"
        return self.folder / "records" / task.dataset / task.column / name

    def partial_path(self, task: Task) -> Path:
        return self.folder / "partial" / f"{task.id}.json"

    def read(self, task: Task) -> dict[str, Any] | None:
        """Return a task's record, or None if there is none.

        Raises
        ------
        ResultsError
            If there is a file which is not the record of this task.
        """
        if task.id is None:
            return None
        path = self.record_path(task)
        record = _read_json(path)
        if record is None:
            return None
        problem = _problem(record, task)
        if problem:
            raise ResultsError(
                f"{path} is not a record of this task: {problem}", f"rm '{path}'  # it is computed again"
            )
        return record

    def write(self, task: Task, record: dict[str, Any]) -> None:
        """Write a task's record and forget its inner folds."""
        write_json(self.record_path(task), record)
        self.partial_path(task).unlink(missing_ok=True)

    def discard(self, task: Task) -> None:
        """Forget a task's record and its inner folds, so that it is computed again."""
        self.record_path(task).unlink(missing_ok=True)
        self.partial_path(task).unlink(missing_ok=True)

    def find(self, task: Task) -> dict[str, Any] | None:
        """Return the record of the same task under whatever column, as if it were this task's own, or None."""
        if task.id is None:
            return None
        pattern = f"*/t{task.trial + 1}-f{task.fold + 1}-{task.id}.json"
        for path in sorted((self.folder / "records" / task.dataset).glob(pattern)):
            record = {**(_read_json(path) or {}), "column": task.column}
            if not _problem(record, task):
                return record
        return None

    def strangers(self, tasks: list[Task]) -> list[Path]:
        """Records in the folder that belong to none of these tasks: of another definition, or of another experiment."""
        known = {self.record_path(task) for task in tasks if task.id is not None}
        return sorted(path for path in self.folder.glob("records/*/*/*.json") if path not in known)

    def read_partial(self, task: Task) -> dict[str, Any]:
        """Inner folds that an interrupted run has left, or an empty dict; what is damaged is dropped."""
        try:
            partial = _read_json(self.partial_path(task))
        except ResultsError:
            return {}
        sound = partial and partial.get("id") == task.id
        sound = sound and all(type(partial.get(clock, 0.0)) in (int, float) for clock in ("seconds", "cpu_seconds"))
        return partial if sound else {}

    def write_partial(self, task: Task, partial: dict[str, Any]) -> None:
        write_json(self.partial_path(task), {"id": task.id, **partial})

    def claim(self, task: Task, pid: int) -> Path:
        """Note that a worker has begun a task, so that it is known who was at work when one dies; returns the note."""
        path = self._claim_path(task)
        write_json(path, {"pid": pid})
        return path

    def clear_claim(self, task: Task) -> str | None:
        """Remove the note; return what it said, or None if there was none."""
        path = self._claim_path(task)
        try:
            said = path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return None
        path.unlink(missing_ok=True)
        return said

    def _claim_path(self, task: Task) -> Path:
        return self.folder / "partial" / f"{task.id}-{task.column}.claim"

    def sweep(self) -> None:
        """Remove what killed writers have left; call only while no one else writes."""
        for place, pattern in (("records", ".*.tmp"), ("partial", ".*.tmp"), ("partial", "*.claim")):
            for path in (self.folder / place).rglob(pattern):
                path.unlink(missing_ok=True)


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise ResultsError(f"{path} cannot be read: {error}", f"rm '{path}'  # it is computed again") from error
    return content if isinstance(content, dict) else {}


def _problem(record: dict[str, Any], task: Task) -> str:
    """What is wrong with a record, or an empty string."""
    expected = {"schema": SCHEMA, "id": task.id, "dataset": task.dataset, "column": task.column}
    expected |= {"trial": task.trial, "fold": task.fold}
    for key, value in expected.items():
        if record.get(key) != value:
            return f"{key} is {record.get(key)!r}, expected {value!r}"
    if record.get("status") not in STATUSES:
        return f"status is {record.get('status')!r}, expected one of {', '.join(STATUSES)}"
    parts = {"message": str, "timing": dict}
    if record["status"] == "ok" and task.protocol.get("kind") in FIGURE_KINDS:
        if trouble := _trouble_with_columns(record):
            return trouble
    elif record["status"] == "ok":
        if trouble := _trouble_with_metrics(record):
            return trouble
        parts |= {"chosen": dict, "selection": dict}
    for key, kind in parts.items():
        if not isinstance(record.get(key), kind):
            return f"{key} is {record.get(key)!r}, expected a {kind.__name__}"
    return ""


def _trouble_with_metrics(record: dict[str, Any]) -> str:
    metrics = metrics_of(record)
    if not isinstance(metrics, dict):
        return f"metrics is {metrics!r}, expected a dict"
    if not (isinstance(auc := metrics.get("auc"), float) and 0 <= auc <= 1):
        return f"{'metrics.auc' if 'metrics' in record else 'test_auc'} is {auc!r}, expected a number in [0, 1]"
    for name, value in metrics.items():
        if not (isinstance(value, float) and math.isfinite(value)):
            return f"metrics.{name} is {value!r}, expected a finite number"
    return ""


def _trouble_with_columns(record: dict[str, Any]) -> str:
    for measured in (record.get("measured"), record["timing"].get("measured", {})):
        if not (isinstance(measured, dict) and all(isinstance(values, list) for values in measured.values())):
            return f"measured is {measured!r}, expected a dict of lists"
    columns = columns_of(record)
    if len({len(values) for values in columns.values()}) != 1:
        return "measured has no columns, or columns of different lengths"
    for name, values in columns.items():
        if not all(value is None or (isinstance(value, int | float) and math.isfinite(value)) for value in values):
            return f"measured.{name} has something that is neither a finite number nor null"
    return ""


def columns_of(record: dict[str, Any]) -> dict[str, list[float | None]]:
    """What a task has measured for a figure: columns of equal length, times among them."""
    return {**record["measured"], **record["timing"].get("measured", {})}


def metrics_of(record: dict[str, Any]) -> dict[str, float]:
    """What a task has measured, by name: under ``metrics``, or the one number of cross-validation."""
    return record["metrics"] if "metrics" in record else {"auc": record.get("test_auc")}


def selection_aucs(record: dict[str, Any]) -> list[float | None]:
    """The AUC of every setting that the choice was made by; empty where there is none."""
    selection = record.get("selection", {})
    return selection.get("mean_auc", selection.get("auc", []))
