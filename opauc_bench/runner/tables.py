"""From the records of a session to the table that shows them, and its comparison with a published one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..errors import ConfigError, ResultsError
from ..plan import Column as PlannedColumn
from ..plan import Task
from ..report.compare import Comparison, compare
from ..report.footnotes import origin_notes
from ..report.published import load_published
from ..report.table import Cell, Column, ResultTable, build_table
from .folds import Records
from .records import metrics_of
from .session import Session

__all__ = ["build_report", "check_test", "missing_because"]

# The time of a pass belongs to the machine, and stands with the other times of a record.
_OTHERS: dict[str, Callable[[dict[str, Any]], float]] = {
    "sparse_ratio": lambda record: metrics_of(record)["sparse_ratio"],
    "seconds": lambda record: record["timing"]["fit_cpu_seconds"],
}


def build_report(
    session: Session,
    test: str | None,
    chosen_only: bool = False,
    is_hopeless: Callable[[Task], bool] | None = None,
    records: Records | None = None,
) -> tuple[ResultTable, Comparison | None]:
    """The table of what is recorded; of the chosen datasets and columns only, beside the reference, if so asked.

    Which tasks are beyond all memory is told by the session, for this machine, unless `is_hopeless` is given. Records
    are read again unless those of the session are given.
    """
    check_test(test)
    experiment = session.experiment
    rows, keys = session.rows(), experiment.columns
    if chosen_only:
        rows = {row: dataset for row, dataset in rows.items() if dataset in (session.datasets or rows.values())}
        keys = [key for key in keys if key in (*(session.learners or keys), experiment.reference)]
    found = session.records() if records is None else records
    records = {(row, key): tasks for (row, key), tasks in found.items() if row in rows and key in keys}
    if not any(record for tasks in records.values() for _, record in tasks):
        raise ResultsError(f"{session.folder}: no records of this experiment", session.command("run"))
    protocol = experiment.protocol
    expected = protocol.n_repetitions
    titles = column_titles(session.columns)
    table = build_table(
        title=experiment.title,
        datasets=list(rows),
        columns=[Column(column.key, titles[column.key]) for column in session.columns if column.key in keys],
        cells={
            key: _cell(tasks, expected, missing_because(session, tasks, is_hopeless), protocol.metrics)
            for key, tasks in records.items()
        },
        reference=experiment.reference,
        test=test or experiment.report.test,
        test_fraction=protocol.test_fraction,
        footnotes=tuple(_origins(titles, records)),
        metrics=protocol.metrics,
        ddof=protocol.ddof,
        runs=protocol.runs,
    )
    published = experiment.report.published
    return table, compare(table, load_published(published)) if published else None


def column_titles(columns: Sequence[PlannedColumn]) -> dict[str, str]:
    """A title for each column's key: where several share one, with the parameters that differ, or else with the key."""
    sharing: dict[str, list[PlannedColumn]] = {}
    for column in columns:
        sharing.setdefault(column.title, []).append(column)
    titles = {}
    for title, group in sharing.items():
        params = [column.identity["params"] for column in group]
        names = dict.fromkeys(name for one in params for name in one)
        differing = [name for name in names if any(one.get(name) != params[0].get(name) for one in params)]
        told = [", ".join(f"{name} {one[name]}" for name in differing if name in one) for one in params]
        unlike = len(set(told)) == len(group)
        for column, values in zip(group, told):
            apart = values if unlike else column.key
            titles[column.key] = f"{title} ({apart})" if len(group) > 1 and apart else title
    return {column.key: titles[column.key] for column in columns}


def _origins(titles: dict[str, str], records) -> Iterator[str]:
    """What records tell of how a column was computed, such as by which program."""
    for column, title in titles.items():
        kept = (record for (_, key), rows in records.items() if key == column for _, record in rows if record)
        told = (record.get("learner_info", {}).get("note") for record in kept)
        yield from origin_notes(title, filter(None, told))


def missing_because(
    session: Session,
    rows: list[tuple[Task, dict[str, Any] | None]],
    is_hopeless: Callable[[Task], bool] | None = None,
) -> str | None:
    """Why tasks without any record cannot have one here, or None; None as well if one of them has a record."""
    if any(record is not None for _, record in rows):
        return None
    absent = session.not_to_be_had()
    if any(task.dataset in absent for task, _ in rows):
        return "unavailable"
    return "too_large" if any((is_hopeless or session.is_hopeless)(task) for task, _ in rows) else None


def _cell(
    rows: list[tuple[Task, dict[str, Any] | None]], expected: int, reason: str | None, metrics: tuple[str, ...]
) -> Cell:
    finished = [record for _, record in rows if record is not None]
    good = [record for record in finished if record["status"] == "ok"]
    statuses = Counter(record["status"] for record in finished if record["status"] != "ok")
    if reason:
        statuses[reason] = expected
    return Cell(
        aucs=tuple(metrics_of(record)["auc"] for record in good),
        others={name: tuple(map(_OTHERS[name], good)) for name in metrics if name in _OTHERS},
        folds=tuple((record["trial"], record["fold"]) for record in good),
        expected=expected,
        statuses=dict(statuses),
        messages=tuple(sorted({record["message"] for record in finished if record["message"]})),
    )


def check_test(test: str | None) -> None:
    if test not in (None, "paired", "corrected"):
        raise ConfigError(f"--test {test}: expected paired or corrected")
