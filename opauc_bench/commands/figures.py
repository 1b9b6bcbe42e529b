"""From records to figures: measurements as samples that `report.figure` averages."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from ..errors import ResultsError
from ..report.figure import POINT, Cell, Column, Figure, Sample, build_figure
from ..report.figure_write import write_figure
from ..report.titles import plain_title
from ..results.record import Record
from ..task import Task
from .recorded import Pair, Recorded
from .session import shell_command
from .tables import missing_because

__all__ = ["NO_MATPLOTLIB", "figures_of", "write_figures"]

NO_MATPLOTLIB = "figures are not drawn without matplotlib; their numbers are in the CSV files"


def figures_of(recorded: Recorded, restricted: bool = False) -> list[Figure]:
    """The figures of an experiment, ``restricted`` to the datasets and columns of the command line.

    Raises
    ------
    ResultsError
        If there is no record.
    """
    session = recorded.session
    experiment, rows = session.experiment, session.experiment.rows
    keys = set(experiment.columns)
    if restricted:
        rows = {row: dataset for row, dataset in rows.items() if dataset in (session.datasets or rows.values())}
        keys &= set(session.learners or keys)
    pairs = {(row, key): found for (row, key), found in recorded.cells.items() if row in rows and key in keys}
    if not any(record for found in pairs.values() for _, record in found):
        raise ResultsError(f"{session.folder}: no records of this experiment", shell_command(session, "run"))
    expected = experiment.protocol.n_repetitions
    cells = {
        place: _cell(found, expected, missing_because(recorded, place[0], found)) for place, found in pairs.items()
    }
    columns = [
        Column(
            column.key,
            plain_title(column.title),
            column.identity["learner"],
            column.identity["params"],
        )
        for column in session.columns
        if column.key in keys
    ]
    return [build_figure(figure, list(rows), columns, cells, experiment.protocol.ddof) for figure in experiment.figures]


def write_figures(folder: Path, figures: list[Figure]) -> bool:
    """Write figures into a folder; return whether they could be drawn."""
    drawn = find_spec("matplotlib") is not None
    for figure in figures:
        write_figure(folder, figure, drawn)
    return drawn


def _cell(pairs: list[Pair], expected: int, missing: str | None) -> Cell:
    finished = [(task, record) for task, record in pairs if record is not None]
    good = [(task, record) for task, record in finished if record.ok]
    statuses = Counter(record.status for _, record in finished if not record.ok)
    if missing:
        statuses[missing] = expected
    return Cell(tuple(_samples(good)), expected, dict(statuses))


def _samples(pairs: list[tuple[Task, Record]]) -> Iterator[Sample]:
    """What the finished repetitions of a dataset and a column have measured."""
    rows = pairs[0][0].protocol.point_rows([record.columns for _, record in pairs]) if pairs else []
    for (task, record), at in zip(pairs, rows):
        if not record.columns:
            measured = {"seconds": record.timing.fit_cpu_seconds, **record.metrics}
            # A metric is None where it is not defined for the learner.
            yield Sample({}, {name: [math.nan if value is None else value] for name, value in measured.items()})
        else:
            measured = {name: values[at].tolist() for name, values in record.columns.items()}
            yield Sample(task.protocol.point_axes(task) or {POINT: list(range(len(at)))}, measured)
