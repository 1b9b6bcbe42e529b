"""The table of recorded results, and its comparison with a published one."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import cast, get_args

from ..config import Experiment
from ..errors import ConfigError, ResultsError
from ..plan import Column
from ..report.cell_notes import origin_notes
from ..report.compare import Comparison, compare, nothing_in_common_error
from ..report.grid_edges import edge_notes
from ..report.metrics import metric_of
from ..report.published import load_published
from ..report.table import Cell, ResultTable, TableColumn, Test, TestedRows, build_table
from ..report.titles import distinct_titles, plain_title
from ..results.manifest import DatasetFacts
from ..results.record import Record
from ..runner.limits import exceeds_memory
from .recorded import Cells, Pair, Recorded
from .session import Session, shell_command

__all__ = [
    "build_report",
    "check_published",
    "check_test",
    "count_statuses",
    "notes_on_protocol",
    "plain_titles",
    "select_cells",
    "shown_column",
]


def build_report(
    recorded: Recorded, test: str | None, restricted: bool = False
) -> tuple[ResultTable, Comparison | None]:
    """Build the table of the recorded results, and its comparison with the published one.

    The test is by default that of the config. `restricted` leaves out datasets and columns that the command line
    excludes, but not the reference. Raises ResultsError if there are no records.
    """
    chosen = check_test(test)
    session, experiment = recorded.session, recorded.session.experiment
    datasets = experiment.datasets
    keys: Collection[str] = experiment.columns
    if restricted:
        datasets, keys = session.datasets, {*session.learners, experiment.reference}
    rows, cells = select_cells(recorded, datasets, keys)
    protocol = experiment.protocol
    titles = column_titles(session.columns)
    table = build_table(
        title=experiment.title,
        datasets=list(rows),
        columns=[shown_column(column, titles[column.key]) for column in session.columns if column.key in keys],
        cells={place: _cell(recorded, place[0], pairs) for place, pairs in cells.items()},
        reference=experiment.reference,
        test=chosen or experiment.report.test,
        test_fraction=protocol.test_fraction,
        origins={column: _origins(column, cells) for column in titles},
        edges=edge_notes(recorded.edges, rows, keys, protocol.runs),
        metrics=protocol.table_metrics,
        ddof=protocol.ddof,
        runs=protocol.runs,
        same_rows=protocol.same_rows,
        limited=_limited(recorded, rows),
        rope=experiment.report.rope,
        repeats=_repeats(recorded, dict.fromkeys(rows.values())),
        sources=rows,
        protocol=protocol.summary,
        protocol_notes=notes_on_protocol(session, rows, keys),
    )
    published = experiment.report.published
    return table, compare(table, load_published(published)) if published else None


def _limited(recorded: Recorded, rows: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    """Rows and columns of cells whose limit of training rows is less than the rows of the dataset."""
    n_rows = {name: shape.n_samples for name, shape in recorded.shapes.items()}
    return frozenset(
        (row, column.key)
        for column in recorded.session.columns
        for row, dataset in rows.items()
        if column.max_train.get(dataset, math.inf) < n_rows.get(dataset, math.inf)
    )


def _repeats(recorded: Recorded, datasets: Iterable[str]) -> dict[str, str]:
    """Datasets with the same arrays as an earlier one, and that one."""
    first: dict[str, str] = {}
    repeats = {}
    for name in datasets:
        fingerprint = recorded.known_fingerprint(name)
        if fingerprint is not None and first.setdefault(fingerprint, name) != name:
            repeats[name] = first[fingerprint]
    return repeats


def notes_on_protocol(session: Session, rows: Mapping[str, str], keys: Collection[str]) -> tuple[str, ...]:
    """Footnotes on the rows that are used and on what is measured, for some rows of a table and some columns.

    ``rows`` has the dataset of each row.
    """
    protocol, columns = session.experiment.protocol, [column for column in session.columns if column.key in keys]
    return (*protocol.table_notes, *notes_on_training(columns, set(rows.values()), protocol.selecting_metric))


def notes_on_training(columns: Sequence[Column], datasets: Collection[str], selecting: str = "auc") -> Iterator[str]:
    """By what settings are selected, which columns have a limit of training rows or settings of another column."""
    titles = plain_titles([*columns, *(column.tuned_by for column in columns if column.tuned_by is not None)])
    if selecting != "auc":
        yield f"Settings are selected by another metric than the AUC: {metric_of(selecting).heading}."
    limited: dict[str, list[str]] = {}
    for column in columns:
        if limits := {dataset: limit for dataset, limit in column.max_train.items() if dataset in datasets}:
            text = _text_of_limits(limits, everywhere=limits.keys() == set(datasets))
            limited.setdefault(text, []).append(titles[column.key])
    for text, of in limited.items():
        yield f"At most {text}: {', '.join(of)}."
    for column in columns:
        if column.tuned_by is not None:
            axes, tuner = " and ".join(column.inherited_axes), titles[column.tuned_by.key]
            yield f"{titles[column.key]}: {axes} as selected for {tuner}."


def _text_of_limits(limits: Mapping[str, int], everywhere: bool) -> str:
    """Limits of training rows by dataset: ``8,000 training rows (epsilon: 2,000)``."""
    by_limit: dict[int, list[str]] = {}
    for dataset, limit in limits.items():
        by_limit.setdefault(limit, []).append(dataset)
    if not everywhere:
        return "; ".join(f"{limit:,} training rows on {', '.join(of)}" for limit, of in by_limit.items())
    usual = max(by_limit, key=lambda limit: len(by_limit[limit]))
    others = "; ".join(f"{', '.join(of)}: {limit:,}" for limit, of in by_limit.items() if limit != usual)
    return f"{usual:,} training rows" + (f" ({others})" if others else "")


def select_cells(recorded: Recorded, datasets: Collection[str], keys: Collection[str]) -> tuple[dict[str, str], Cells]:
    """Return the rows of some datasets, and their cells in some columns. ResultsError if no cell has a record."""
    session = recorded.session
    rows = {row: dataset for row, dataset in session.experiment.rows.items() if dataset in datasets}
    cells = {(row, key): pairs for (row, key), pairs in recorded.cells.items() if row in rows and key in keys}
    if not any(record for pairs in cells.values() for _, record in pairs):
        raise ResultsError(f"{session.folder}: no records of this experiment", shell_command(session, "run"))
    return rows, cells


def shown_column(column: Column, title: str) -> TableColumn:
    """A column for tables and figures."""
    return TableColumn(column.key, title, column.identity["learner"], column.identity["params"])


def column_titles(columns: Sequence[Column]) -> dict[str, str]:
    """A title for each column's key, which no other column has."""
    return distinct_titles({column.key: (column.title, column.identity["params"]) for column in columns})


def plain_titles(columns: Sequence[Column]) -> dict[str, str]:
    """`column_titles` without mathematics."""
    return {key: plain_title(title) for key, title in column_titles(columns).items()}


def _origins(column: str, cells: Cells) -> list[str]:
    """Notes of records on how a column was computed, such as by which program."""
    kept = (record for (_, key), pairs in cells.items() if key == column for _, record in pairs if record)
    return origin_notes(filter(None, (getattr(record.outcome, "learner_info", {}).get("note") for record in kept)))


def count_statuses(recorded: Recorded, row: str, pairs: list[Pair]) -> dict[str, int]:
    """Count the tasks of a cell without a number by status; all of them where none can have one."""
    experiment, manifest = recorded.session.experiment, recorded.manifest
    if any(record is not None for _, record in pairs):
        return Counter(record.status for _, record in pairs if record is not None and not record.ok)
    dataset, reason = experiment.rows[row], None
    if manifest.datasets.get(dataset, DatasetFacts()).unavailable:
        reason = "unavailable"
    elif not pairs and dataset in recorded.shapes:  # without a size, none has tasks yet
        reason = "left_out"
    elif any(exceeds_memory(task, manifest.memory_bytes) for task, _ in pairs):
        reason = "too_large"
    return {reason: experiment.protocol.n_repetitions} if reason else {}


def _cell(recorded: Recorded, row: str, pairs: list[Pair]) -> Cell:
    protocol = recorded.session.experiment.protocol
    finished = [record for _, record in pairs if record is not None]
    good = [record for record in finished if record.ok]
    return Cell(
        aucs=tuple(record.auc for record in good),
        others={name: tuple(_value(record, name) for record in good) for name in protocol.table_metrics[1:]},
        folds=tuple((record.trial, record.fold) for record in good),
        expected=protocol.n_repetitions,
        statuses=count_statuses(recorded, row, pairs),
        messages=tuple(sorted({record.message for record in finished if record.message})),
        tested_rows=tuple(map(_tested_rows, good)),
    )


def _tested_rows(record: Record) -> TestedRows:
    n_before = 0 if record.outcome is None else record.outcome.n_before_test
    return n_before, getattr(record.outcome, "n_test", None)


def _value(record: Record, name: str) -> float | None:
    """A metric of a record, or its time; NaN where it is not defined, None where it was not computed."""
    if name == "seconds":
        return record.timing.fit_cpu_seconds
    value = record.metrics.get(name)
    return math.nan if value is None and name in record.metrics else value


def check_published(experiment: Experiment) -> None:
    """Raise a ConfigError if an experiment names a published table that has none of its cells."""
    if not (experiment.report.published and experiment.protocol.table_metrics):
        return
    published = load_published(experiment.report.published)
    places = itertools.product(experiment.rows, experiment.columns, experiment.protocol.table_metrics)
    if all(published.cell(*place) is None for place in places):
        raise nothing_in_common_error(experiment.title, published)


def check_test(test: str | None) -> Test | None:
    if test not in (None, *get_args(Test)):
        raise ConfigError(f"--test {test}: expected paired, corrected or bayes")
    return cast("Test | None", test)
