"""Our table beside the published one, cell by cell, and a summary that can be checked by hand."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ..errors import ResultsError
from .metrics import Metric
from .published import Note, Published, PublishedCell, list_published
from .table import Column, Entry, ResultTable

__all__ = ["ComparedCell", "Comparison", "Summary", "compare"]

Standing = Literal["not computed", "not published", "within", "explained", "open", "another machine"]


@dataclass(frozen=True)
class ComparedCell:
    """One cell of both tables.

    Attributes
    ----------
    dataset : str
    column : Column
    ours : Entry
    published : PublishedCell
    notes : tuple of Note
        What is known about the published cell.
    same_reference : bool
        Whether both tables give their verdicts from the side of the same column.
    metric : Metric
    """

    dataset: str
    column: Column
    ours: Entry
    published: PublishedCell
    notes: tuple[Note, ...]
    same_reference: bool
    metric: Metric

    @property
    def difference(self) -> float | None:
        """Ours minus published; None unless both have a mean."""
        if self.ours.mean is None or self.published.mean is None:
            return None
        return self.ours.mean - self.published.mean

    @property
    def deviation(self) -> float | None:
        """The difference in units of the published std."""
        if self.difference is None:
            return None
        if self.published.std == 0:
            # A std that prints as 0 says no more than how many digits there are.
            return (
                0.0
                if self.metric.text(self.ours.mean) == self.metric.text(self.published.mean)
                else math.copysign(math.inf, self.difference)
            )
        return self.difference / self.published.std

    @property
    def agrees(self) -> bool | None:
        """Whether the verdicts are the same; None where one is missing or they have different references."""
        if not self.same_reference or self.ours.verdict is None or self.published.verdict is None:
            return None
        return self.ours.verdict == self.published.verdict

    @property
    def standing(self) -> Standing:
        """How the cell stands: within one published std, further with a known cause, or open.

        A cell further away is explained only if a note speaks about values on that side and every such note
        knows a cause. Run times of two machines are set side by side and not judged.
        """
        if self.published.mean is None:
            return "not published"
        if self.difference is None:
            return "not computed"
        if not self.metric.elsewhere:
            return "another machine"
        if abs(self.deviation) <= 1:
            return "within"
        kinds = {note.kind for note in self.notes if note.expects(self.difference)}
        return "explained" if kinds == {"explained"} else "open"


@dataclass(frozen=True)
class Summary:
    """Counts over the cells of a comparison.

    Attributes
    ----------
    published : int
        Cells of the published table.
    compared : int
        Cells with a mean on both sides.
    not_computed, not_published, absent : int
        Cells that are incomplete in ours, printed as N/A, and not part of our experiment at all.
    within_one, within_two : int
        Compared cells within one and within two published stds.
    explained, open : int
        Compared cells further than one published std, with and without a known cause.
    verdicts, agreeing : int
        Cells with a verdict on both sides, and those where it is the same.
    known : int
        Notes on the published cells of our experiment.
    pairs, elsewhere : int
        Cells of ours that are set beside published ones, several where there are two variants of a learner; those of
        them that depend on the machine and are not judged.
    marked : bool
        Whether the published table has marks.
    """

    published: int
    compared: int
    not_computed: int
    not_published: int
    absent: int
    within_one: int
    within_two: int
    explained: int
    open: int
    verdicts: int
    agreeing: int
    known: int
    pairs: int
    elsewhere: int
    marked: bool

    def sentences(self) -> list[str]:
        """Put the counts into sentences, one a line of the summary."""
        if self.marked:
            compared = f"Compared: {self.compared} of {self.published} published cells"
            verdicts = [f"Verdicts agreeing: {self.agreeing} of {self.verdicts}."]
        else:
            compared = f"Compared: {self.compared} of {self.pairs} cells that have a published one beside them"
            verdicts = []
        times = [f"Run times, which are not judged: {self.elsewhere}."] if self.elsewhere else []
        return [
            f"{compared} ({self.not_computed} not "
            f"computed, {self.not_published} printed as N/A, {self.absent} not in this experiment).",
            f"Within one published std: {self.within_one} of {self.compared}; within two: {self.within_two}.",
            *times,
            *verdicts,
            f"Further than one published std: {self.explained + self.open}, of which {self.explained} have a "
            f"known cause and {self.open} are open.",
            f"Known discrepancies of the published cells: {self.known}, listed as notes.",
        ]


@dataclass(frozen=True)
class Comparison:
    """A result table beside a published one.

    Attributes
    ----------
    title : str
        Of our table.
    published : Published
    cells : tuple of ComparedCell
        Those that both tables have, in the order of ours.
    notes : tuple of Note
        All notes on these cells, in the order in which renderers number them from 1.
    remarks : tuple of str
        What holds for the comparison as a whole.
    """

    title: str
    published: Published
    cells: tuple[ComparedCell, ...]
    notes: tuple[Note, ...]
    remarks: tuple[str, ...]

    def numbers(self, cell: ComparedCell) -> list[int]:
        """Return the numbers of the notes on a cell."""
        return [self.notes.index(note) + 1 for note in cell.notes]

    @property
    def has_metrics(self) -> bool:
        """Whether anything but the AUC is compared."""
        return any(cell.metric.key != "auc" for cell in self.cells)

    def distant(self) -> list[ComparedCell]:
        """Return the cells that are further than one published std."""
        return [cell for cell in self.cells if cell.standing in ("explained", "open")]

    def summary(self) -> Summary:
        """Count."""
        judged_cells = [cell for cell in self.cells if cell.metric.elsewhere]
        deviations = [abs(cell.deviation) for cell in judged_cells if cell.deviation is not None]
        standings = [cell.standing for cell in self.cells]
        judged = [cell.agrees for cell in self.cells if cell.agrees is not None]
        printed = {
            (metric, *place)
            for metric, cells in {"auc": self.published.cells, **self.published.others}.items()
            for place in cells
        }
        stand_for = self.published.stand_for
        ours = {(cell.metric.key, cell.dataset, stand_for.get(cell.column.key, cell.column.key)) for cell in self.cells}
        return Summary(
            published=len(printed),
            compared=len(deviations),
            not_computed=sum(cell.standing == "not computed" for cell in judged_cells),
            not_published=standings.count("not published"),
            absent=len(printed - ours),
            within_one=standings.count("within"),
            within_two=sum(deviation <= 2 for deviation in deviations),
            explained=standings.count("explained"),
            open=standings.count("open"),
            verdicts=len(judged),
            agreeing=sum(judged),
            known=len(self.notes),
            pairs=len(judged_cells),
            elsewhere=standings.count("another machine"),
            marked=bool(self.published.reference),
        )


def compare(table: ResultTable, published: Published) -> Comparison:
    """Set our table beside a published one.

    Parameters
    ----------
    table : ResultTable
        Cells are matched by dataset and column key.
    published : Published

    Returns
    -------
    Comparison

    Raises
    ------
    ResultsError
        If the two have no cell in common.
    """
    same_reference = table.reference == published.reference
    cells = tuple(
        ComparedCell(
            dataset, column, entry, cell, published.notes_on(dataset, column.key, metric.key), same_reference, metric
        )
        for metric, dataset, column, entry, cell in _common(table, published)
    )
    if not cells:
        raise ResultsError(
            f"{table.title!r} has no dataset and learner in common with the published {published.name}, "
            f"which has the datasets {', '.join(published.datasets)} and the learners "
            f"{', '.join(column.key for column in published.columns)}",
            f"name the published table that this experiment reproduces: {', '.join(list_published())}",
        )
    concerned = {note for cell in cells for note in cell.notes}
    return Comparison(
        title=table.title,
        published=published,
        cells=cells,
        notes=tuple(note for note in published.notes if note in concerned),
        remarks=published.remarks + tuple(_own_remarks(table, published)),
    )


def _common(table: ResultTable, published: Published) -> Iterator[tuple[Metric, str, Column, Entry, PublishedCell]]:
    for metric, entries in table.parts():
        for dataset, row in table.rows(entries):
            for column, entry in zip(table.columns, row):
                if (cell := published.cell(dataset, column.key, metric.key)) is not None:
                    yield metric, dataset, column, entry, cell


def _own_remarks(table: ResultTable, published: Published) -> Iterator[str]:
    if not published.reference:
        return
    if table.test == "corrected":
        yield (
            "Our verdicts come from the corrected test, the printed ones from the uncorrected one: "
            "with --test paired both are of one kind."
        )
    if table.reference != published.reference:
        yield (
            f"Our verdicts are from the side of {table.reference}, the printed ones from that of "
            f"{published.reference}: they are not compared."
        )
