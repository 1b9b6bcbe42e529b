"""The result table: per-fold values in, means, verdicts and counts out.

The AUC is tested and counted. Other metrics of the same models have sections of their own.

The status of a cell, the same in every format:

* ``ok``: all folds finished. Only these cells have a mean, and only these are tested (if the reference cell is ``ok``).
* ``pending``: folds are still to be run; shown as ``… 12/25``.
* ``undefined``: the learner does not have this metric, or not in all folds; shown as –.
* the names of its failures, such as ``timeout``: no fold finished, or all folds ran and some failed; shown as N/A with
  a footnote, as in the papers.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Literal, NamedTuple, get_args

from ..errors import ResultsError
from ..evaluation.bayes import ROPE, Posterior, bayesian_t_test
from ..evaluation.significance import TestResult, Verdict, corrected_t_test, paired_t_test
from .cell_notes import failure_note, other_rows_note
from .metrics import AUC, Metric, metric_of
from .text import mean_and_std
from .titles import plain_title

__all__ = ["Cell", "Entry", "MetricSection", "ResultTable", "TableColumn", "Tally", "Test", "build_table"]

ALPHA = 0.05  # level of the tests; a Bayesian verdict has a probability above 1 - ALPHA

Test = Literal["paired", "corrected", "bayes"]
TestedRows = tuple[int, int | None]  # rows before the first test row, in a protocol with one order; number of test rows


@dataclass(frozen=True)
class TableColumn:
    """A column of a table, or the learner of lines in a figure."""

    key: str
    markup: str  # the heading, which may have mathematics between dollars
    learner: str = ""  # its registry name, which determines colours
    params: Mapping[str, Any] = field(default_factory=dict, hash=False)  # that are not tuned

    @property
    def title(self) -> str:
        """The heading as plain text."""
        return plain_title(self.markup)


@dataclass(frozen=True)
class Cell:
    """The recorded folds of one dataset and one column.

    Raises
    ------
    ValueError
        If folds are repeated or out of order, if there are too many, or if an AUC is not in [0, 1].
    """

    aucs: tuple[float, ...]  # on the test sets of the finished folds
    folds: tuple[tuple[int, int], ...]  # (trial, fold) of each of them, in order
    expected: int  # number of folds of the whole experiment, such as 25
    statuses: dict[str, int] = field(default_factory=dict)  # number of folds per status other than ok
    messages: tuple[str, ...] = ()  # of the failed folds
    # Further metrics of the finished folds: None where it was not computed, NaN where it is not defined.
    others: dict[str, tuple[float | None, ...]] = field(default_factory=dict)
    tested_rows: tuple[TestedRows, ...] = ()  # of the finished folds

    def __post_init__(self):
        for name, values in {"AUC": self.aucs, **self.others}.items():
            if len(values) != len(self.folds):
                raise ValueError(f"{len(values)} {name} values for {len(self.folds)} folds")
        if list(self.folds) != sorted(set(self.folds)):
            raise ValueError(f"folds are repeated or out of order: {self.folds}")
        if not all(0 <= auc <= 1 for auc in self.aucs):
            raise ValueError(f"an AUC lies in [0, 1], got {self.aucs}")
        if self.expected < 1 or self.missing < 0:
            raise ValueError(f"{len(self.folds)} folds and {self.statuses} where {self.expected} are expected")

    @property
    def failed(self) -> int:
        return sum(self.statuses.values())

    @property
    def missing(self) -> int:
        return self.expected - len(self.folds) - self.failed

    @property
    def status(self) -> str:
        """``ok``, ``pending``, or the names of the failures joined by ``+``; see the module's docstring."""
        if len(self.folds) == self.expected:
            return "ok"
        if self.failed and (not self.folds or not self.missing):
            return "+".join(sorted(status for status, count in self.statuses.items() if count))
        return "pending"


@dataclass(frozen=True)
class Entry:
    """One cell as the table shows it."""

    status: str
    n: int  # finished folds
    expected: int  # folds of the whole experiment
    mean: float | None = None  # None unless the status is ok
    std: float | None = None  # None also for a single fold
    verdict: Verdict | None = None  # of the reference column against this one; None where nothing was tested
    p_value: float | None = None  # of a t-test
    posterior: Posterior | None = None  # of the Bayesian test
    note: int | None = None  # number of a footnote, from 1
    tested_rows: tuple[TestedRows, ...] = ()  # of the finished folds


@dataclass(frozen=True)
class Tally:
    """Number of rows with each verdict of the reference against a column."""

    win: int
    tie: int
    loss: int
    equivalent: int
    undecided: int

    @property
    def counted(self) -> int:
        return self.win + self.tie + self.loss + self.equivalent + self.undecided

    def __str__(self) -> str:
        return f"{self.win}/{self.tie}/{self.loss}"


class MetricSection(NamedTuple):
    """A metric, and its entries for every dataset and column."""

    metric: Metric
    entries: dict[tuple[str, str], Entry]


@dataclass(frozen=True)
class ResultTable:
    """A table ready to be rendered."""

    markup: str  # the title; it may have mathematics between dollars
    datasets: tuple[str, ...]
    columns: tuple[TableColumn, ...]
    sections: tuple[MetricSection, ...]  # the AUC, which is tested, and other metrics
    reference: str | None  # key of the reference column; None if it is not shown
    test: Test
    test_fraction: float  # share of the rows that a fold tests on, 1 / 5 for 5-fold cross-validation
    cell_notes: tuple[str, ...]  # footnotes of single cells
    origins: Mapping[str, Sequence[str]]  # footnotes of columns: how their numbers were computed
    ddof: int = 1  # a std has n - ddof in the denominator
    runs: str = "folds"  # the name of a repetition in the paper: folds or trials
    same_rows: bool = False  # whether the repetitions have the same rows, in other orders
    # Rows and columns of cells with fewer training rows than there are: repetitions have others.
    limited: Collection[tuple[str, str]] = ()
    rope: float = ROPE  # half the width of the region of practical equivalence, in units of AUC
    repeats: Mapping[str, str] = field(default_factory=dict)  # datasets, and an earlier one with the same data
    sources: Mapping[str, str] = field(default_factory=dict)  # dataset of each row, by default the row itself
    edges: Mapping[str, Sequence[str]] = field(default_factory=dict)  # footnotes of columns, on edges of the grid
    protocol: str = ""  # what the values of a cell are of, such as "5 trials of 5-fold cross-validation"
    protocol_notes: tuple[str, ...] = ()  # footnotes on the rows that are used and on what is measured

    @property
    def title(self) -> str:
        """The title as plain text."""
        return plain_title(self.markup)

    @property
    def metric(self) -> Metric:
        """The AUC."""
        return self.sections[0].metric

    @property
    def entries(self) -> dict[tuple[str, str], Entry]:
        """Entries of the AUC, by dataset and column key."""
        return self.sections[0].entries

    @property
    def compares(self) -> bool:
        """Whether the reference and another column are shown."""
        return self.reference is not None and len(self.columns) > 1

    @property
    def expected(self) -> int:
        """Number of folds of the whole experiment."""
        return next(iter(self.entries.values())).expected

    @property
    def has_metrics(self) -> bool:
        """Whether there are other metrics than the AUC."""
        return len(self.sections) > 1

    @cached_property
    def tallies(self) -> dict[str, Tally]:
        """Counts of the verdicts of each column but the reference; empty if nothing is tested."""
        counted = {}
        for column in self.columns if self.compares and self.expected > 1 else ():
            if column.key != self.reference:
                verdicts = [self.entries[dataset, column.key].verdict for dataset in self.datasets]
                counted[column.key] = Tally(*map(verdicts.count, get_args(Verdict)))
        return counted

    @property
    def reference_title(self) -> str:
        return next(column.title for column in self.columns if column.key == self.reference)

    @property
    def has_repeated_datasets(self) -> bool:
        """Whether several rows are of one dataset."""
        return len({self.sources.get(row, row) for row in self.datasets}) < len(self.datasets)

    @property
    def column_notes(self) -> tuple[tuple[TableColumn, str], ...]:
        """Each column with a footnote, once for each of its footnotes."""
        kinds = (self.origins, self.edges)
        return tuple((column, note) for of in kinds for column in self.columns for note in of.get(column.key, ()))

    def rows(self, entries: dict[tuple[str, str], Entry] | None = None) -> Iterator[tuple[str, list[Entry]]]:
        """Yield each dataset with its entries (those of the AUC, or the given ones) in the order of the columns."""
        entries = self.entries if entries is None else entries
        for dataset in self.datasets:
            yield dataset, [entries[dataset, column.key] for column in self.columns]


def build_table(
    title: str,
    datasets: list[str],
    columns: list[TableColumn],
    cells: dict[tuple[str, str], Cell],
    reference: str,
    test: Test,
    test_fraction: float,
    origins: Mapping[str, Sequence[str]] | None = None,
    metrics: tuple[str, ...] = ("auc",),
    **fields: Any,
) -> ResultTable:
    """Summarise the cells, test each column against the reference, count the verdicts.

    There is a cell for each dataset and column key; one that has not been run has no folds. The reference column is
    moved to the front, as in the paper. The tests are the paper's paired t-test or the corrected test of Nadeau and
    Bengio, both at the level 0.05, or the Bayesian correlated t-test. `metrics` are names of `metric_of`, "auc" first;
    cells have values of all the others. ``fields`` are those of `ResultTable` that have a default.

    Raises
    ------
    ValueError
        If the reference is not a column, a name is repeated, a cell is absent, or there is no such test.
    ResultsError
        If two complete cells of a dataset come from different folds.
    """
    columns = sorted(columns, key=lambda column: column.key != reference)
    table = ResultTable(
        title, tuple(datasets), tuple(columns), (), reference, test, test_fraction, (), origins or {}, **fields
    )
    tests: dict[str, Callable[..., TestResult | Posterior]] = {
        "paired": paired_t_test,
        "corrected": partial(corrected_t_test, test_fraction=test_fraction),
        "bayes": partial(bayesian_t_test, test_fraction=test_fraction, rope=table.rope),
    }
    if test not in tests:
        raise ValueError(f"test must be one of {sorted(tests)}, got {test!r}")
    keys = [column.key for column in columns]
    if reference not in keys:
        raise ValueError(f"the reference {reference!r} is not one of the columns {keys}")
    if len(set(keys)) < len(keys) or len(set(datasets)) < len(datasets):
        raise ValueError(f"datasets and columns must not repeat: {datasets}, {keys}")
    if absent := [(dataset, key) for dataset in datasets for key in keys if (dataset, key) not in cells]:
        raise ValueError(f"no cell for {absent}")
    notes: list[str] = []
    entries = {}
    for dataset in datasets:
        for column in columns:
            cell, compared_to = cells[dataset, column.key], cells[dataset, reference]
            result, untested = None, ""
            if column.key != reference and cell.status == compared_to.status == "ok":
                _require_same_folds(dataset, reference, compared_to, column.key, cell)
                if cell.tested_rows != compared_to.tested_rows:
                    untested = other_rows_note(cell.tested_rows, compared_to.tested_rows)
                elif table.same_rows and cell.expected > 1 and len(set(cell.aucs)) == len(set(compared_to.aucs)) == 1:
                    untested = "not tested: no order of the rows changed this value or that of the reference"
                elif cell.expected > 1:
                    result = tests[test](compared_to.aucs, cell.aucs)
            entry = replace(_entry(table, cell, cell.aucs, result, notes), tested_rows=cell.tested_rows)
            entries[dataset, column.key] = replace(entry, note=_numbered(untested, notes)) if untested else entry
    sections = [MetricSection(metric_of("auc") if len(metrics) > 1 else AUC, entries)]
    for key in metrics[1:]:
        others = {place: _entry(table, c, c.others.get(key, ()), None, notes) for place, c in cells.items()}
        sections.append(MetricSection(metric_of(key), others))
    return replace(table, sections=tuple(sections), cell_notes=tuple(notes))


def _require_same_folds(dataset: str, reference: str, a: Cell, key: str, b: Cell) -> None:
    if a.folds != b.folds:
        raise ResultsError(
            f"{dataset}: {reference} has {len(a.folds)} folds and {key} has {len(b.folds)}, and they are "
            "not the same (trial, fold) pairs: such columns cannot be compared",
            "run both again with one protocol: opauc-bench run CONFIG --fresh",
        )


def _numbered(text: str, notes: list[str]) -> int:
    """The number of a footnote, which is added if it is new."""
    if text not in notes:
        notes.append(text)
    return notes.index(text) + 1


def _entry(
    table: ResultTable,
    cell: Cell,
    found: tuple[float | None, ...],
    result: TestResult | Posterior | None,
    notes: list[str],
) -> Entry:
    n, note = len(cell.folds), None
    if cell.failed:
        text = failure_note(cell.statuses, n, cell.expected, cell.messages, table.runs)
        note = _numbered(text, notes)
    if cell.status != "ok":
        return Entry(cell.status, n, cell.expected, note=note)
    values = tuple(value for value in found if value is not None)
    if len(values) < len(found):
        return Entry("pending", len(values), cell.expected)
    n_defined = len(values) - sum(map(math.isnan, values))
    if n_defined < len(values) or not values:
        text = f"defined in {n_defined} of {n} {table.runs} only"
        return Entry("undefined", n, cell.expected, note=_numbered(text, notes) if n_defined else note)
    mean, std = mean_and_std(values, table.ddof)
    entry = Entry("ok", n, cell.expected, mean, std)
    if isinstance(result, Posterior):
        return replace(entry, verdict=result.verdict(ALPHA), posterior=result)
    return replace(entry, verdict=result.verdict(ALPHA), p_value=result.p_value) if result else entry
