"""Average ranks over the datasets, and the critical-difference diagram; or why there is none."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from ...evaluation.ranks import RankTest, friedman_nemenyi
from ..over_datasets import MIN_DATASETS
from ..table import ALPHA, ResultTable, TableColumn
from ..template import render_svg

__all__ = ["Ranking", "diagram", "rank"]

MIN_COLUMNS = 3

_SPAN, _LETTER = 420, 7.2  # pixels: of the axis, of a letter


@dataclass(frozen=True)
class Ranking:
    """The contents of the diagram."""

    columns: tuple[TableColumn, ...]  # those with a complete cell
    datasets: tuple[str, ...]  # those on which all of these columns are complete
    left_out: tuple[tuple[str, str], ...]  # other datasets and columns, with the reason
    test: RankTest | None  # None where there is too little to rank
    refusal: str = ""  # the reason of that


def rank(table: ResultTable) -> Ranking:
    """Rank the columns of a table by their mean AUC on each dataset where all of them have one.

    A mean over fewer folds than the others have is excluded, and so is a dataset with a missing cell: ranks of
    different sets of learners cannot be averaged. So is a dataset whose columns have different test rows. Several rows
    of one dataset are not ranked at all, since the test takes them as independent.
    """
    complete = {key: entry.mean for key, entry in table.entries.items() if entry.mean is not None}
    columns = tuple(c for c in table.columns if any((dataset, c.key) in complete for dataset in table.datasets))
    left_out = [(c.title, "no dataset is complete") for c in table.columns if c not in columns]
    datasets: list[str] = []
    first: dict[str, str] = {}  # of datasets with the same data
    for dataset in table.datasets:
        incomplete = [column.title for column in columns if (dataset, column.key) not in complete]
        if not incomplete and len({table.entries[dataset, column.key].tested_rows for column in columns}) > 1:
            left_out.append((dataset, "not all columns have the same test rows"))
        elif not incomplete:
            name = table.sources.get(dataset, dataset)
            if (same := first.setdefault(table.repeats.get(name, name), name)) != name:
                left_out.append((dataset, f"the same data as {same}"))
            else:
                datasets.append(dataset)
        elif len(incomplete) == len(columns):
            left_out.append((dataset, "no results"))
        else:
            left_out.append((dataset, f"{', '.join(incomplete)} not complete"))
    refusal, test = _refusal(columns, datasets), None
    if len({table.sources.get(name, name) for name in datasets}) < len(datasets):
        refusal = "There is no diagram: some rows are of one dataset, and ranks over them would count it several times."
    if not refusal:
        means = [[complete[dataset, column.key] for column in columns] for dataset in datasets]
        test = friedman_nemenyi(means, ALPHA)
    return Ranking(columns, tuple(datasets), tuple(left_out), test, refusal)


def _refusal(columns: tuple[TableColumn, ...], datasets: list[str]) -> str:
    if len(columns) < MIN_COLUMNS:
        have = "1 learner has results" if len(columns) == 1 else f"{len(columns)} learners have results"
        return f"There is nothing to rank: {have}, and a comparison by ranks needs three."
    if len(datasets) < MIN_DATASETS:
        several = "1 dataset" if len(datasets) == 1 else f"{len(datasets)} datasets"
        return (
            f"There is no diagram: on {several} all {len(columns)} learners are complete, and with "
            f"fewer than {MIN_DATASETS} no difference of ranks says anything."
        )
    return ""


def diagram(ranking: Ranking) -> Markup:
    """Draw the mean ranks on an axis, best on the left, and join the learners that do not differ significantly."""
    test, k = ranking.test, len(ranking.columns)
    assert test is not None
    ranks = test.ranks
    margin = 70 + _LETTER * max(len(column.title) for column in ranking.columns)
    return render_svg(
        "ranks.svg",
        k=k,
        span=_SPAN,
        margin=margin,
        place=lambda rank: margin + (rank - 1) / (k - 1) * _SPAN,
        difference=test.critical_difference,
        learners=[(ranking.columns[i].title, ranks[i]) for i in sorted(range(k), key=lambda i: (ranks[i], i))],
        groups=[(ranks[group[0]], ranks[group[-1]]) for group in test.groups],
    )
