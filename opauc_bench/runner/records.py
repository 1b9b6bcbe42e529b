"""What a record has to be like before anybody believes it: files of JSON can be cut off, or edited by hand."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from typing import Any

from ..plan import Task
from ..protocol import FIGURE_KINDS

__all__ = ["SCHEMA", "STATUSES", "columns_of", "is_number", "metrics_of", "selection_aucs", "trouble_with"]

SCHEMA = 1
STATUSES = ("ok", "diverged", "timeout", "out_of_memory", "error")
# What a table or a figure of each kind cannot do without.
_METRICS = {"cv": ("auc",), "holdout": ("auc", "sparse_ratio")}
_COLUMNS = {
    "sweep": ("auc", "sparse_ratio"),
    "convergence": ("n_seen", "auc", "seconds"),
    "timing": ("seconds", "wall_seconds"),
    "sketch_error": ("positive_error", "negative_error"),
}
_SHARES = ("auc", "auc_exact", "validation_auc", "sparse_ratio")
_CLOCKS = ("wall_seconds", "selection_cpu_seconds", "fit_cpu_seconds", "peak_rss_bytes")


def trouble_with(record: dict[str, Any], task: Task) -> str:
    """Why this is not the record of a task, or an empty string."""
    expected = {"schema": SCHEMA, "id": task.id, "dataset": task.dataset, "column": task.column}
    expected |= {"trial": task.trial, "fold": task.fold}
    for key, value in expected.items():
        if type(record.get(key)) is not type(value) or record[key] != value:
            return f"{key} is {record.get(key)!r}, expected {value!r}"
    if record.get("status") not in STATUSES:
        return f"status is {record.get('status')!r}, expected one of {', '.join(STATUSES)}"
    good = record["status"] == "ok"
    kind = task.protocol.get("kind", "cv")
    parts: dict[str, type] = {"message": str, "timing": dict}
    if good and kind not in FIGURE_KINDS:
        parts |= {"chosen": dict, "selection": dict}
    for key, wanted in parts.items():
        if not isinstance(record.get(key), wanted):
            return f"{key} is {record.get(key)!r}, expected a {wanted.__name__}"
    if good:
        trouble = (_trouble_with_columns if kind in FIGURE_KINDS else _trouble_with_metrics)(record, task, kind)
        if trouble:
            return trouble
    return _trouble_with_others(record)


def _trouble_with_metrics(record: dict[str, Any], task: Task, kind: str) -> str:
    metrics = metrics_of(record)
    if not isinstance(metrics, dict):
        return f"metrics is {metrics!r}, expected a dict"
    if not (isinstance(auc := metrics.get("auc"), float) and 0 <= auc <= 1):
        return f"{'metrics.auc' if 'metrics' in record else 'test_auc'} is {auc!r}, expected a number in [0, 1]"
    for name in (*_METRICS.get(kind, ()), *metrics):
        if not (isinstance(value := metrics.get(name), float) and math.isfinite(value)):
            return f"metrics.{name} is {value!r}, expected a finite number"
        if name in _SHARES and not _is_share(value):
            return f"metrics.{name} is {value!r}, expected a number in [0, 1]"
    if not is_number(seconds := record["timing"].get("fit_cpu_seconds")):
        return f"timing.fit_cpu_seconds is {seconds!r}, expected a finite number"
    return ""


def _trouble_with_columns(record: dict[str, Any], task: Task, kind: str) -> str:
    for measured in (record.get("measured"), record["timing"].get("measured", {})):
        if not (isinstance(measured, dict) and all(isinstance(values, list) for values in measured.values())):
            return f"measured is {measured!r}, expected a dict of lists"
    columns = columns_of(record)
    if len({len(values) for values in columns.values()}) != 1:
        return "measured has no columns, or columns of different lengths"
    for name, values in columns.items():
        if not all(value is None or is_number(value) for value in values):
            return f"measured.{name} has something that is neither a finite number nor null"
        if name in _SHARES and not _are_aucs(values):
            return f"measured.{name} has something that is not in [0, 1]"
    if missing := [name for name in _COLUMNS[kind] if name not in columns]:
        return f"measured has no column {missing[0]}"
    n_settings = math.prod(len(values) for values in task.grid.values())
    lengths = {"sweep": n_settings, "timing": 1, "sketch_error": len(task.protocol.get("sizes", ()))}
    n_rows = len(columns[_COLUMNS[kind][0]])
    if n_rows != lengths.get(kind, n_rows) or n_rows == 0:
        return f"measured has columns of {n_rows} values, expected {lengths.get(kind, 'some')}"
    return ""


def _trouble_with_others(record: dict[str, Any]) -> str:
    """What reports, estimates and the page read where it is there."""
    for name, (is_right, wanted) in _OTHERS.items():
        found: Any = record
        for part in name.split("."):
            found = found.get(part) if isinstance(found, dict) else None
        if found is not None and not is_right(found):
            return f"{name} is {found!r}, expected {wanted}"
    return ""


def is_number(value: Any) -> bool:
    """Whether a value of JSON is a finite number."""
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


def _is_clock(value: Any) -> bool:
    return is_number(value) and value >= 0


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _are_aucs(values: Any) -> bool:
    return isinstance(values, list) and all(value is None or _is_share(value) for value in values)


def _is_share(value: Any) -> bool:
    return is_number(value) and 0 <= value <= 1


def _is_setting(values: Any) -> bool:
    return isinstance(values, dict) and all(map(is_number, values.values()))


_OTHERS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    **{f"timing.{clock}": (_is_clock, "a finite number from 0") for clock in _CLOCKS},
    "selection": (lambda value: isinstance(value, dict), "a dict"),
    "selection.n_settings": (_is_count, "a count"),
    "selection.n_diverged": (_is_count, "a count"),
    "selection.mean_auc": (_are_aucs, "a list of shares and nulls"),
    "selection.auc": (_are_aucs, "a list of shares and nulls"),
    "chosen": (_is_setting, "a number for each axis"),
    "diverged_in_refit": (
        lambda values: isinstance(values, list) and all(map(_is_setting, values)),
        "a list of settings",
    ),
    "learner_info": (lambda value: isinstance(value, dict), "a dict"),
    "learner_info.note": (lambda value: isinstance(value, str), "text"),
    "identity": (lambda value: isinstance(value, dict), "a dict"),
    "environment": (lambda value: isinstance(value, dict), "a dict"),
}


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
