"""Tasks and records for tests of storage: of every kind, without data and learners."""

from pydantic import TypeAdapter

from opauc_bench.protocols import AnyProtocol
from opauc_bench.results.record import Record, make_record, record_to_line
from opauc_bench.results.store import Store
from opauc_bench.task import Task

PROTOCOLS = {
    "cv": {"kind": "cv", "folds": 3},
    "holdout": {"kind": "holdout"},
    "sweep": {"kind": "sweep", "splits": {"kind": "cv"}},
    "convergence": {"kind": "convergence", "points": 3},
    "timing": {"kind": "timing", "repeats": 2},
    "sketch_error": {"kind": "sketch_error", "sizes": [2, 4]},
    "prequential": {"kind": "prequential"},
    "predefined": {"kind": "predefined"},
}
TESTED = {
    "n_train": 8,
    "n_test": 4,
    "selected": {"eta": 0.5},
    "selection": {"n_settings": 2, "n_diverged": 1, "auc": [0.75, None]},
}
OUTCOMES = {
    "cv": {**TESTED, "metrics": {"auc": 0.1 + 0.2}},
    "holdout": {**TESTED, "n_validation": 2, "metrics": {"auc": 0.75, "sparse_ratio": 0.5}},
    "predefined": {**TESTED, "metrics": {"auc": 0.75, "sparse_ratio": 0.5}},
    "sweep": {"columns": {"auc": [0.5, None], "sparse_ratio": [1.0, None]}},
    "convergence": {"selected": {"eta": 0.5}, "columns": {"n_seen": [1, 2, 4], "auc": [0.5, 0.75, 1.0]}},
    "timing": {"selected": {"eta": 0.5}},
    "sketch_error": {"columns": {"positive_error": [0.5, 0.25], "negative_error": [0.5, 0.25]}},
    "prequential": {
        **TESTED,
        "metrics": {"auc": 0.75},
        "columns": {"n_seen": [2, 4], "running_auc": [None, 0.75], "window_auc": [None, 1.0]},
    },
}
TIMES = {
    "convergence": {"columns": {"seconds": [0.1, 0.2, 0.4]}},
    "timing": {"columns": {"seconds": [0.5], "wall_seconds": [0.75]}, "passes": {"seconds": [0.5, 0.5]}},
}
ENVIRONMENT = "e" * 16


def task_of(kind="cv", **changes) -> Task:
    """A task of the data ``wine``, unless ``changes`` say otherwise."""
    content = {
        "dataset": "wine",
        "column": "opauc",
        "learner": "opauc",
        "trial": 0,
        "fold": 2,
        "fingerprint": "f" * 64,
        "params": {},
        "grid": {"eta": (0.5, 0.25)},
        "protocol": PROTOCOLS[kind],
        "seconds": 1.0,
        "memory_bytes": 1.0,
    } | changes
    content.setdefault("row", content["dataset"])
    content.setdefault("definition", {key: content[key] for key in ("learner", "protocol")})
    content["protocol"] = TypeAdapter(AnyProtocol).validate_python(content["protocol"])
    return Task(**content)


def content_of(kind="cv", **changes) -> dict:
    """What is particular to the record of a finished task."""
    timing = {"finished": "2026-11-22T10:00:00Z", "wall_seconds": 1.5, "fit_cpu_seconds": 0.5, **TIMES.get(kind, {})}
    return {"status": "ok", "outcome": {"kind": kind, **OUTCOMES[kind]}, "timing": timing} | changes


def record_of(task: Task, **changes) -> Record:
    """A record of a task."""
    return make_record(task, content_of(task.protocol.kind, **changes), ENVIRONMENT)


def lines(records) -> dict[str, bytes]:
    """Records by id, as text: two of them are equal if their texts are."""
    return {record.id: record_to_line(record) for record in records.values()}


def plain(folder) -> list[dict]:
    """All records of a folder as plain JSON, packed and loose, in the order of dataset, column, trial and fold."""
    found = [record.model_dump(mode="json", exclude_defaults=True) for record in Store(folder).read().values()]
    return sorted(found, key=lambda record: [record[key] for key in ("dataset", "column", "trial", "fold")])
