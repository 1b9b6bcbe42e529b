"""Our table beside the published one, cell by cell, and a summary that can be checked by hand."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ..errors import ResultsError
from .published import Note, Published, PublishedCell, list_published
from .table import Column, Entry, ResultTable

__all__ = ["ComparedCell", "Comparison", "Summary", "compare"]

Standing = Literal["not computed", "not published", "within", "explained", "open"]


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
    """

    dataset: str
    column: Column
    ours: Entry
    published: PublishedCell
    notes: tuple[Note, ...]
    same_reference: bool

    @property
    def difference(self) -> float | None:
        """Ours minus published, in units of AUC; None unless both have a mean."""
        if self.ours.mean is None or self.published.mean is None:
            return None
        return self.ours.mean - self.published.mean

    @property
    def deviation(self) -> float | None:
        """The difference in units of the published std."""
        return None if self.difference is None else self.difference / self.published.std

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
        knows a cause.
        """
        if self.published.mean is None:
            return "not published"
        if self.difference is None:
            return "not computed"
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

    def sentences(self) -> list[str]:
        """Put the counts into sentences, one a line of the summary."""
        return [
            f"Compared: {self.compared} of {self.published} published cells ({self.not_computed} not "
            f"computed, {self.not_published} printed as N/A, {self.absent} not in this experiment).",
            f"Within one published std: {self.within_one} of {self.compared}; within two: {self.within_two}.",
            f"Verdicts agreeing: {self.agreeing} of {self.verdicts}.",
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

    def distant(self) -> list[ComparedCell]:
        """Return the cells that are further than one published std."""
        return [cell for cell in self.cells if cell.standing in ("explained", "open")]

    def summary(self) -> Summary:
        """Count."""
        deviations = [abs(cell.deviation) for cell in self.cells if cell.deviation is not None]
        standings = [cell.standing for cell in self.cells]
        judged = [cell.agrees for cell in self.cells if cell.agrees is not None]
        return Summary(
            published=len(self.published.cells),
            compared=len(deviations),
            not_computed=standings.count("not computed"),
            not_published=standings.count("not published"),
            absent=len(self.published.cells) - len(self.cells),
            within_one=standings.count("within"),
            within_two=sum(deviation <= 2 for deviation in deviations),
            explained=standings.count("explained"),
            open=standings.count("open"),
            verdicts=len(judged),
            agreeing=sum(judged),
            known=len(self.notes),
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
        ComparedCell(dataset, column, entry, cell, published.notes_on(dataset, column.key), same_reference)
        for dataset, column, entry, cell in _common(table, published)
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


def _common(table: ResultTable, published: Published) -> Iterator[tuple[str, Column, Entry, PublishedCell]]:
    for dataset, entries in table.rows():
        for column, entry in zip(table.columns, entries):
            cell = published.cells.get((dataset, column.key))
            if cell is not None:
                yield dataset, column, entry, cell


def _own_remarks(table: ResultTable, published: Published) -> Iterator[str]:
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
