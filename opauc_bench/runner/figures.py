"""From records to figures: what each kind of protocol has measured, as samples that `report.figure` averages."""

from __future__ import annotations

import math
from collections import Counter
from importlib.util import find_spec
from typing import Any

from ..errors import ResultsError
from ..plan import Task, expand_grid
from ..protocol import FIGURE_KINDS
from ..report.figure import POINT, Cell, Column, Figure, FigureSpec, Sample, build_figure
from ..report.figure_write import write_figure
from .records import columns_of, metrics_of
from .session import Session
from .tables import missing_because

__all__ = ["NO_MATPLOTLIB", "figures_of", "write_figures"]

NO_MATPLOTLIB = "figures are not drawn without matplotlib; their numbers are in the CSV files"


def figures_of(session: Session, chosen_only: bool = False) -> list[Figure]:
    """The figures of an experiment, from what is recorded.

    Parameters
    ----------
    session : Session
    chosen_only : bool
        Whether to leave out datasets and columns that the command line has not asked for.

    Raises
    ------
    ResultsError
        If there is no record.
    """
    experiment, rows = session.experiment, session.rows()
    keys = set(experiment.columns)
    if chosen_only:
        rows = {row: dataset for row, dataset in rows.items() if dataset in (session.datasets or rows.values())}
        keys &= set(session.learners or keys)
    records = {(row, key): found for (row, key), found in session.records().items() if row in rows and key in keys}
    if not any(record for found in records.values() for _, record in found):
        raise ResultsError(f"{session.folder}: no records of this experiment", session.command("run"))
    expected = experiment.protocol.n_repetitions
    cells = {key: _cell(found, expected, missing_because(session, found)) for key, found in records.items()}
    columns = [
        Column(column.key, column.title, column.learner.rpartition(":")[2], _numbers(column.identity["params"]))
        for column in session.columns
        if column.key in keys
    ]
    return [
        build_figure(FigureSpec(**figure.model_dump()), list(rows), columns, cells, experiment.protocol.ddof)
        for figure in experiment.figures
    ]


def write_figures(session: Session, figures: list[Figure]) -> bool:
    """Write the figures into the results folder; tell whether they could be drawn."""
    drawn = find_spec("matplotlib") is not None
    for figure in figures:
        write_figure(session.folder, figure, drawn)
    return drawn


def _numbers(params: dict[str, Any]) -> dict[str, float]:
    return {
        name: value for name, value in params.items() if isinstance(value, int | float) and not isinstance(value, bool)
    }


def _cell(found: list[tuple[Task, dict[str, Any] | None]], expected: int, missing: str | None) -> Cell:
    finished = [(task, record) for task, record in found if record is not None]
    good = [_sample(task, record) for task, record in finished if record["status"] == "ok"]
    statuses = Counter(record["status"] for _, record in finished if record["status"] != "ok")
    if missing:
        statuses[missing] = expected
    return Cell(tuple(good), expected, dict(statuses))


def _sample(task: Task, record: dict[str, Any]) -> Sample:
    kind = task.protocol["kind"]
    if kind not in FIGURE_KINDS:
        measured = {"seconds": record["timing"]["fit_cpu_seconds"], **metrics_of(record)}
        return Sample({}, {name: [value] for name, value in measured.items()})
    measured = {
        name: [math.nan if value is None else value for value in values] for name, values in columns_of(record).items()
    }
    n_rows = len(next(iter(measured.values())))
    if kind == "sweep":
        exact = {axis: values.tolist() for axis, values in expand_grid(task.grid).items()}
    elif kind == "sketch_error":
        exact = {"tau": task.protocol["sizes"]}
    else:
        exact = {POINT: list(range(n_rows))}
    return Sample(exact, measured)
