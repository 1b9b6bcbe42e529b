"""Tests over all datasets: Wilcoxon's of the reference against each other column, and the Bayesian signed-rank test of
the reference and of all pairs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations

from ..evaluation.bayes import Posterior, bayesian_signed_rank_test
from ..evaluation.ranks import holm, wilcoxon_test
from .style import MARKS, percent_text
from .table import ALPHA, ResultTable, TableColumn
from .text import auc_text, rope_text

__all__ = ["HEADINGS", "MIN_DATASETS", "ColumnTest", "OverDatasets", "all_pairs", "cases_of", "over_datasets"]

MIN_DATASETS = 5
HEADINGS = ("against", "n", "p", "Holm", "better / equivalent / worse")


@dataclass(frozen=True)
class ColumnTest:
    """The reference against one column, on the datasets where both are complete."""

    column: TableColumn
    n_datasets: int
    p_value: float  # of Wilcoxon's test
    adjusted: float  # the p-value after Holm's correction for all columns that are tested
    posterior: Posterior  # of the Bayesian signed-rank test, from the side of the reference


@dataclass(frozen=True)
class OverDatasets:
    """The tests of all columns that have enough datasets, and the sentences that explain them."""

    tests: tuple[ColumnTest, ...]
    sentences: tuple[str, ...]

    def rows(self) -> list[list[str]]:
        """Return the cells of a table with the headings `HEADINGS`."""
        return [
            [
                test.column.title,
                str(test.n_datasets),
                _p_text(test.p_value),
                _p_text(test.adjusted),
                _marked(test.posterior),
            ]
            for test in self.tests
        ]


def over_datasets(table: ResultTable) -> OverDatasets:
    """Test the reference against each other column, on the mean AUC of each dataset where both are complete
    and tested on the same rows.

    Several rows of one dataset are not tested, since the tests take them as independent.
    """
    reference, *others = table.columns
    if table.has_repeated_datasets:
        sentence = "There is no test over datasets: some rows are of one dataset, which would count several times."
        return OverDatasets((), (sentence,))
    differences = {column: _differences(table, reference, column) for column in others}
    tested = [column for column in others if len(differences[column]) >= MIN_DATASETS]
    p_values = [wilcoxon_test(differences[column])[1] for column in tested]
    tests = tuple(
        ColumnTest(
            column,
            len(differences[column]),
            p_value,
            float(adjusted),
            bayesian_signed_rank_test(differences[column], table.rope),
        )
        for column, p_value, adjusted in zip(tested, p_values, holm(p_values))
    )
    sentences = []
    if repeated := sorted({table.sources.get(row, row) for row in table.datasets} & set(table.repeats)):
        pairs = ", ".join(f"{name} (as {table.repeats[name]})" for name in repeated)
        sentences.append(f"Datasets with the same data count once: {pairs}.")
    if tests:
        n_tests = f"{len(tests)} test{'s' * (len(tests) != 1)}"
        sentences.append(
            "n: datasets on which both are complete. p: Wilcoxon's signed-rank test of their mean AUC, two-sided; "
            f"Holm: corrected for {n_tests}. Probabilities in percent, by the Bayesian signed-rank test: "
            f"on most datasets like these, {reference.title} is better / practically equivalent "
            f"(±{rope_text(table.rope)} AUC) / worse; • / ≈ / ◦: above {100 * (1 - ALPHA):g}, ?: none is."
        )
    least = len(tests) * 2.0 ** (1 - max((test.n_datasets for test in tests), default=0))
    if tests and least >= ALPHA:
        n = max(test.n_datasets for test in tests)
        sentences.append(
            f"With {n} datasets and {n_tests}, Holm cannot fall below {auc_text(min(least, 1.0))}, however clear the "
            "differences are."
        )
    if too_few := [f"{column.title} ({len(differences[column])})" for column in others if column not in tested]:
        sentences.append(f"Not tested over datasets, with fewer than {MIN_DATASETS} in common: {', '.join(too_few)}.")
    return OverDatasets(tests, tuple(sentences))


def cases_of(table: ResultTable) -> dict[str, ResultTable]:
    """Tables with one row per dataset: the table itself, or where datasets have several rows, one for each kind of row.

    The key is the end of the rows' names, such as ``@ 1%``; it is empty for the rows without one.
    """
    if not table.has_repeated_datasets:
        return {"": table}
    rows: dict[str, list[str]] = {}
    for row in table.datasets:
        rows.setdefault(row.removeprefix(table.sources.get(row, row)).strip(), []).append(row)
    return {end: replace(table, datasets=tuple(names)) for end, names in rows.items()}


def all_pairs(table: ResultTable) -> list[tuple[str, list[str]]]:
    """Return, for each column, its title and its Bayesian signed-rank test against each column, as mark and percent.

    A text is empty on the diagonal, and where fewer than `MIN_DATASETS` datasets are common. The list is
    empty for fewer than three columns and where several rows are of one dataset.
    """
    if len(table.columns) < 3 or table.has_repeated_datasets:
        return []
    texts: dict[tuple[str, str], str] = {}
    for a, b in combinations(table.columns, 2):
        if len(differences := _differences(table, a, b)) >= MIN_DATASETS:
            found = bayesian_signed_rank_test(differences, table.rope)
            texts[a.key, b.key] = _marked(found)
            texts[b.key, a.key] = _marked(Posterior(found.worse, found.equivalent, found.better))
    return [(a.title, [texts.get((a.key, b.key), "") for b in table.columns]) for a in table.columns]


def _marked(posterior: Posterior) -> str:
    return f"{MARKS[posterior.verdict(ALPHA)]} {percent_text(posterior)}"


def _differences(table: ResultTable, reference: TableColumn, column: TableColumn) -> list[float]:
    found: dict[str, float] = {}  # by dataset, of those with the same data the first one that can be tested
    for row in table.datasets:
        a, b = table.entries[row, reference.key], table.entries[row, column.key]
        if a.mean is not None and b.mean is not None and a.tested_rows == b.tested_rows:
            name = table.sources.get(row, row)
            found.setdefault(table.repeats.get(name, name), a.mean - b.mean)
    return list(found.values())


def _p_text(p_value: float) -> str:
    return "<.0001" if p_value < 1e-4 else auc_text(p_value)
