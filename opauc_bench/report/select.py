"""A part of a table: some of its rows and columns, with less in a cell."""

from collections.abc import Sequence
from dataclasses import replace

from ..errors import ResultsError
from .metrics import Metric
from .table import Entry, ResultTable, Section

__all__ = ["select"]


def select(
    table: ResultTable,
    columns: Sequence[str] = (),
    rows: Sequence[str] = (),
    *,
    digits: int | None = None,
    std: bool = True,
    marks: bool = True,
) -> ResultTable:
    """Return a part of a table; the datasets that remain are counted again.

    `columns` are keys and `rows` datasets, in order; by default all. Rows without a mean in any of the columns are left
    out. Without the reference column there are no marks. `digits` are the decimals of means and stds, by default those
    of each metric. The counts go with the marks. Raises ResultsError if no dataset is left.
    """
    by_key = {column.key: column for column in table.columns}
    keys = list(columns or by_key)
    wanted = rows or table.datasets
    shown = [row for row in wanted if any(table.entries[row, key].mean is not None for key in keys)]
    if not shown:
        raise ResultsError(f"nothing to print: no complete value of {', '.join(keys)} in {', '.join(wanted)}")
    places = [(row, key) for row in shown for key in keys]
    notes = list(dict.fromkeys(table.entries[place].note for place in places if table.entries[place].note))
    tested = marks and table.reference in keys

    def reduced(entry: Entry) -> Entry:
        return replace(
            entry,
            std=entry.std if std else None,
            verdict=entry.verdict if tested else None,
            posterior=entry.posterior if tested else None,
            note=notes.index(entry.note) + 1 if entry.note else None,
        )

    def precise(metric: Metric) -> Metric:
        return metric if digits is None else replace(metric, digits=digits)

    return replace(
        table,
        datasets=tuple(shown),
        columns=tuple(by_key[key] for key in keys),
        sections=tuple(
            Section(precise(metric), {place: reduced(entries[place]) for place in places})
            for metric, entries in table.sections
        ),
        reference=table.reference if tested else None,
        cell_notes=tuple(table.cell_notes[note - 1] for note in notes),
    )
