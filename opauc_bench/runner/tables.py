"""From the records of a session to the table that shows them, and its comparison with a published one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from ..errors import ConfigError, ResultsError
from ..plan import Task
from ..report.compare import Comparison, compare
from ..report.footnotes import origin_notes
from ..report.published import load_published
from ..report.table import Cell, Column, ResultTable, build_table
from .session import Session

__all__ = ["build_report", "check_test"]


def build_report(
    session: Session, test: str | None, chosen_only: bool = False
) -> tuple[ResultTable, Comparison | None]:
    """The table of what is recorded; of the chosen datasets and columns only, beside the reference, if so asked."""
    check_test(test)
    if not session.prepared:
        session.find_data()
    experiment = session.experiment
    datasets, keys = experiment.datasets, experiment.columns
    if chosen_only:
        datasets = session.datasets or datasets
        keys = [key for key in keys if key in (*(session.learners or keys), experiment.reference)]
    not_to_be_had = session.not_to_be_had()
    records = {(d, key): rows for (d, key), rows in session.records().items() if d in datasets and key in keys}
    if not any(record for rows in records.values() for _, record in rows):
        raise ResultsError(f"{session.folder}: no records of this experiment", session.command("run"))
    expected = experiment.protocol.trials * experiment.protocol.folds
    table = build_table(
        title=experiment.title,
        datasets=list(datasets),
        columns=[Column(column.key, column.title) for column in session.columns if column.key in keys],
        cells={key: _cell(rows, expected, key[0] in not_to_be_had) for key, rows in records.items()},
        reference=experiment.reference,
        test=test or experiment.report.test,
        test_fraction=1.0 / experiment.protocol.folds,
        footnotes=tuple(_origins(session, records)),
    )
    published = experiment.report.published
    return table, compare(table, load_published(published)) if published else None


def _origins(session: Session, records) -> Iterator[str]:
    """What records tell of how a column was computed, such as by which program."""
    for column in session.columns:
        kept = (record for (_, key), rows in records.items() if key == column.key for _, record in rows if record)
        told = (record.get("learner_info", {}).get("note") for record in kept)
        yield from origin_notes(column.title, filter(None, told))


def _cell(rows: list[tuple[Task, dict[str, Any] | None]], expected: int, unavailable: bool) -> Cell:
    finished = [record for _, record in rows if record is not None]
    good = [record for record in finished if record["status"] == "ok"]
    statuses = Counter(record["status"] for record in finished if record["status"] != "ok")
    if unavailable and not finished:
        statuses["unavailable"] = expected
    return Cell(
        aucs=tuple(record["test_auc"] for record in good),
        folds=tuple((record["trial"], record["fold"]) for record in good),
        expected=expected,
        statuses=dict(statuses),
        messages=tuple(sorted({record["message"] for record in finished if record["message"]})),
    )


def check_test(test: str | None) -> None:
    if test not in (None, "paired", "corrected"):
        raise ConfigError(f"--test {test}: expected paired or corrected")
