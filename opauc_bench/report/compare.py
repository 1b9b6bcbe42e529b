"""Our table beside the published one, cell by cell, and a summary that can be checked by hand."""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from ..errors import ConfigError
from .metrics import Metric
from .published import Note, Published, PublishedCell, list_published
from .table import Entry, ResultTable, TableColumn

__all__ = ["ComparedCell", "Comparison", "Summary", "compare"]

Standing = Literal["not computed", "not published", "within", "explained", "open", "another machine"]


@dataclass(frozen=True)
class ComparedCell:
    """One cell of both tables, with the notes on the published one.

    ``comparable`` states whether both tables have verdicts of t-tests from the side of the same column.
    """

    dataset: str
    column: TableColumn
    ours: Entry
    published: PublishedCell
    notes: tuple[Note, ...]
    comparable: bool
    metric: Metric
    digits: int  # of a published AUC

    @property
    def printed_metric(self) -> Metric:
        """The metric with the digits that are printed in the paper."""
        return replace(self.metric, digits=self.digits) if self.metric.key == "auc" else self.metric

    @property
    def difference(self) -> float | None:
        """Ours minus published; None unless both have a mean."""
        if self.ours.mean is None or self.published.mean is None:
            return None
        return self.ours.mean - self.published.mean

    @property
    def deviation(self) -> float | None:
        """The difference in units of the published std."""
        ours, printed, std = self.ours.mean, self.published.mean, self.published.std
        if ours is None or printed is None or std is None:
            return None
        if std == 0:  # it was rounded to the printed digits
            equal = self.metric.text(ours) == self.metric.text(printed)
            return 0.0 if equal else math.copysign(math.inf, ours - printed)
        return (ours - printed) / std

    @property
    def agrees(self) -> bool | None:
        """Whether the verdicts are the same; None where one is missing or they cannot be compared."""
        if not self.comparable or self.ours.verdict is None or self.published.verdict is None:
            return None
        return self.ours.verdict == self.published.verdict

    @property
    def standing(self) -> Standing:
        """Classify the cell: within one published std, further away with a known cause, or open.

        A cell further away is explained only if a note is about values on that side and all such notes have a known
        cause. Run times of two machines are shown and not judged.
        """
        difference, deviation = self.difference, self.deviation
        if self.published.mean is None:
            return "not published"
        if difference is None or deviation is None:
            return "not computed"
        if not self.metric.machine_independent:
            return "another machine"
        if abs(deviation) <= 1:
            return "within"
        kinds = {note.kind for note in self.notes if note.expects(difference)}
        return "explained" if kinds == {"explained"} else "open"


@dataclass(frozen=True)
class Comparison:
    """A result table beside a published one."""

    title: str
    published: Published
    cells: tuple[ComparedCell, ...]  # those that both tables have, in the order of ours
    notes: tuple[Note, ...]  # on these cells; renderers number them from 1
    remarks: tuple[str, ...]  # on the comparison as a whole

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

    def summary(self) -> "Summary":
        """Count the cells."""
        return Summary(self)


class Summary:
    """Counts over the cells of a comparison."""

    def __init__(self, comparison: Comparison):
        cells, published = comparison.cells, comparison.published
        judged = [cell for cell in cells if cell.metric.machine_independent]
        deviations = [abs(cell.deviation) for cell in judged if cell.deviation is not None]
        standings = Counter(cell.standing for cell in cells)
        verdicts = [cell.agrees for cell in cells if cell.agrees is not None]
        tables = {"auc": published.cells, **published.others}
        printed = {(metric, *place) for metric, table in tables.items() for place in table}
        names = published.stand_for
        ours = {(cell.metric.key, cell.dataset, names.get(cell.column.key, cell.column.key)) for cell in cells}

        self.published = len(printed)  # cells of the published table
        self.compared = len(deviations)  # cells with a mean on both sides
        self.not_computed = sum(cell.standing == "not computed" for cell in judged)  # incomplete in ours
        self.not_published = standings["not published"]  # printed as N/A
        self.absent = len(printed - ours)  # not part of our experiment
        self.within_one = standings["within"]  # published std
        self.within_two = sum(deviation <= 2 for deviation in deviations)
        self.explained = standings["explained"]  # further than one published std, with a known cause
        self.open = standings["open"]  # further than one published std, without a known cause
        self.verdicts = len(verdicts)  # cells with a verdict on both sides
        self.agreeing = sum(verdicts)  # cells with the same verdict on both sides
        self.known = len(comparison.notes)  # notes on the published cells of our experiment
        self.pairs = len(judged)  # our cells beside published ones, several for variants of a learner
        self.not_judged = standings["another machine"]  # those of them that depend on the machine and are not judged
        self.marked = bool(published.reference)  # whether the published table has marks
        self.comparable = self.marked and all(
            cell.comparable for cell in cells
        )  # whether ours can be compared with them

    def sentences(self) -> list[str]:
        """Return the counts as sentences, one per line of the summary."""
        if self.marked:
            compared = f"Compared: {self.compared} of {self.published} published cells"
        else:
            compared = f"Compared: {self.compared} of {self.pairs} cells that have a published one beside them"
        return [
            f"{compared} ({self.not_computed} not computed, {self.not_published} printed as N/A, {self.absent} not in "
            "this experiment).",
            f"Within one published std: {self.within_one} of {self.compared}; within two: {self.within_two}.",
            *([f"Run times, which are not judged: {self.not_judged}."] if self.not_judged else []),
            *([f"Verdicts agreeing: {self.agreeing} of {self.verdicts}."] if self.comparable else []),
            f"Further than one published std: {self.explained + self.open}, of which {self.explained} have a known "
            f"cause and {self.open} are open.",
            f"Known discrepancies of the published cells: {self.known}, listed as notes.",
        ]


def compare(table: ResultTable, published: Published) -> Comparison:
    """Compare our table with a published one by dataset and column key; raises ConfigError without a common cell."""
    comparable = table.reference == published.reference and table.test != "bayes"
    cells = []
    for metric, entries in table.sections:
        for dataset, row in table.rows(entries):
            for column, entry in zip(table.columns, row):
                if (cell := published.cell(dataset, column.key, metric.key)) is not None:
                    notes = published.notes_on(dataset, column.key, metric.key)
                    of_cell = (dataset, column, entry, cell, notes, comparable, metric, published.digits)
                    cells.append(ComparedCell(*of_cell))
    if not cells:
        raise nothing_in_common_error(table.title, published)
    used = {note for cell in cells for note in cell.notes}
    return Comparison(
        title=table.title,
        published=published,
        cells=tuple(cells),
        notes=tuple(note for note in published.notes if note in used),
        remarks=tuple(_remarks(table, published)),
    )


def nothing_in_common_error(title: str, published: Published) -> ConfigError:
    """The error of an experiment without a dataset and learner of the published table."""
    return ConfigError(
        f"{title!r} has no dataset and learner in common with the published {published.name}, "
        f"which has the datasets {', '.join(published.datasets)} and the learners "
        f"{', '.join(column.key for column in published.columns)}",
        f"under report, name the published table that the experiment reproduces, if any: {', '.join(list_published())}",
    )


def _remarks(table: ResultTable, published: Published) -> Iterator[str]:
    yield from published.remarks
    if table.protocol != published.protocol:
        yield f"Our values are of {table.protocol}, the printed ones of {published.protocol}."
    if published.ddof not in (None, table.ddof):
        divisors = ["n - 1" if ddof else "n" for ddof in (table.ddof, published.ddof)]
        yield f"Our std divides by {divisors[0]}, the printed one by {divisors[1]}."
    yield from table.protocol_notes
    if published.reference and table.test == "bayes":
        yield (
            "Our verdicts come from the Bayesian test and are not compared with the printed ones: with --test paired "
            "both are of one kind."
        )
    if published.reference and table.test == "corrected":
        yield (
            "Our verdicts come from the corrected test, the printed ones from the uncorrected one: "
            "with --test paired both are of one kind."
        )
    if published.reference and table.reference != published.reference:
        yield (
            f"Our verdicts are from the side of {table.reference}, the printed ones from that of "
            f"{published.reference}: they are not compared."
        )
    for column in table.columns:
        yield from (f"{column.title}: {note}" for note in table.edges.get(column.key, ()))
