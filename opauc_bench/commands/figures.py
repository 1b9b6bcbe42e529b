"""From records to figures: measurements as samples that `report.figure` averages."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ..report.figure import POINT, Figure, FigureCell, Sample, build_figure
from ..results.record import Record
from ..task import Task
from .recorded import Pair, Recorded
from .tables import count_statuses, select_cells, shown_column

__all__ = ["figures_of"]


def figures_of(recorded: Recorded, restricted: bool = False) -> list[Figure]:
    """The figures of an experiment, if it has any, ``restricted`` to the datasets and columns of the command line.

    ResultsError if there is no record.
    """
    session, experiment = recorded.session, recorded.session.experiment
    if not experiment.figures:
        return []
    datasets, keys = experiment.datasets, experiment.columns
    if restricted:
        datasets, keys = session.datasets, session.learners
    rows, found = select_cells(recorded, datasets, keys)
    cells = {place: _cell(recorded, place[0], pairs) for place, pairs in found.items()}
    columns = [shown_column(column, column.title) for column in session.columns if column.key in keys]
    return [build_figure(figure, list(rows), columns, cells, experiment.protocol.ddof) for figure in experiment.figures]


def _cell(recorded: Recorded, row: str, pairs: list[Pair]) -> FigureCell:
    good = [(task, record) for task, record in pairs if record is not None and record.ok]
    statuses = count_statuses(recorded, row, pairs)
    return FigureCell(tuple(_samples(good)), recorded.session.experiment.protocol.n_repetitions, statuses)


def _samples(pairs: list[tuple[Task, Record]]) -> Iterator[Sample]:
    """What the finished repetitions of a dataset and a column have measured."""
    rows = pairs[0][0].protocol.point_rows([record.columns for _, record in pairs]) if pairs else []
    for (task, record), at in zip(pairs, rows):
        if not record.columns:
            numbers = {"seconds": record.timing.fit_cpu_seconds, **record.metrics}
            # A metric is None where it is not defined for the learner.
            yield Sample({}, {name: [math.nan if value is None else value] for name, value in numbers.items()})
        else:
            measured = {name: values[at].tolist() for name, values in record.columns.items()}
            yield Sample(task.protocol.point_axes(task) or {POINT: list(range(len(at)))}, measured)
