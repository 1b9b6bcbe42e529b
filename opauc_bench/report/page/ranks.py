"""Average ranks over the datasets, and the critical-difference diagram; or why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from markupsafe import Markup

from ...evaluation.ranks import RankTest, friedman_nemenyi
from ..table import Column, ResultTable
from .svg import element, number, picture, text

__all__ = ["Ranking", "diagram", "rank"]

ALPHA = 0.05
MIN_DATASETS = 5
MIN_COLUMNS = 3

_SPAN, _STEP, _LETTER = 420, 19, 7.2  # pixels: of the axis, of a line, of a letter
_AXIS, _RULER = 48, 18


@dataclass(frozen=True)
class Ranking:
    """What the diagram is made of.

    Attributes
    ----------
    columns : tuple of Column
        Those with at least one complete cell.
    datasets : tuple of str
        Those on which all of these columns are complete.
    left_out : tuple of (str, str)
        Datasets and columns that do not enter, with the reason.
    test : RankTest or None
        None where there is too little to rank.
    refusal : str
        Why.
    """

    columns: tuple[Column, ...]
    datasets: tuple[str, ...]
    left_out: tuple[tuple[str, str], ...]
    test: RankTest | None
    refusal: str = ""


def rank(table: ResultTable, sources: Mapping[str, str] | None = None) -> Ranking:
    """Rank the columns of a table by their mean AUC on each dataset where all of them have one.

    A mean over fewer folds than the others have does not enter, nor does a dataset with a missing cell: ranks of
    different sets of learners cannot be averaged. Several rows of one dataset are not ranked at all, since the test
    takes them as independent.

    Parameters
    ----------
    table : ResultTable
    sources : mapping of row to dataset, optional
        By default every row is a dataset of its own.
    """
    complete = {key for key, entry in table.entries.items() if entry.status == "ok"}
    columns = tuple(c for c in table.columns if any((dataset, c.key) in complete for dataset in table.datasets))
    left_out = [(c.title, "no dataset is complete") for c in table.columns if c not in columns]
    datasets = []
    for dataset in table.datasets:
        lacking = [column.title for column in columns if (dataset, column.key) not in complete]
        if not lacking:
            datasets.append(dataset)
        else:
            everything = len(lacking) == len(columns)
            left_out.append((dataset, "no results" if everything else f"{', '.join(lacking)} not complete"))
    refusal = _refusal(columns, datasets)
    if len({(sources or {}).get(name, name) for name in datasets}) < len(datasets):
        refusal = "There is no diagram: some rows are of one dataset, and ranks over them would count it several times."
    test = None
    if not refusal:
        means = [[table.entries[dataset, column.key].mean for column in columns] for dataset in datasets]
        test = friedman_nemenyi(means, ALPHA)
    return Ranking(columns, tuple(datasets), tuple(left_out), test, refusal)


def _have_results(n_columns: int) -> str:
    return "1 learner has results" if n_columns == 1 else f"{n_columns} learners have results"


def _refusal(columns: tuple[Column, ...], datasets: list[str]) -> str:
    if len(columns) < MIN_COLUMNS:
        return f"There is nothing to rank: {_have_results(len(columns))}, and a comparison by ranks needs three."
    if len(datasets) < MIN_DATASETS:
        several = "1 dataset" if len(datasets) == 1 else f"{len(datasets)} datasets"
        return (
            f"There is no diagram: on {several} all {len(columns)} learners are complete, and with "
            f"fewer than {MIN_DATASETS} no difference of ranks says anything."
        )
    return ""


def diagram(ranking: Ranking) -> Markup:
    """Draw the mean ranks on an axis, best on the left, and join the learners that are not told apart."""
    test, titles = ranking.test, [column.title for column in ranking.columns]
    k = len(titles)
    order = sorted(range(k), key=lambda i: (test.ranks[i], i))

    margin = 70 + _LETTER * max(map(len, titles))

    def place(value: float) -> float:
        return margin + (value - 1) / (k - 1) * _SPAN

    labels = _AXIS + 22 + 9 * len(test.groups)
    half = (k + 1) // 2
    pieces = [*_axis(k, place), *_ruler(test.critical_difference, k, place)]
    for row, group in enumerate(test.groups):
        y = _AXIS + 13 + 9 * row
        ends = place(test.ranks[group[0]]) - 4, place(test.ranks[group[-1]]) + 4
        pieces.append(element("line", x1=ends[0], x2=ends[1], y1=y, y2=y, class_="group"))
    for position, i in enumerate(order):
        left = position < half
        y = labels + _STEP * (position if left else k - 1 - position)
        x, edge = place(test.ranks[i]), margin - 12 if left else margin + _SPAN + 12
        path = f"M{number(x)} {_AXIS}V{number(y)}H{number(edge)}"
        pieces.append(element("path", d=path, class_="stem"))
        words = f"{titles[i]}  {test.ranks[i]:.2f}" if left else f"{test.ranks[i]:.2f}  {titles[i]}"
        pieces.append(text(edge + (-5 if left else 5), y + 4, words, text_anchor="end" if left else "start"))
    said = "; ".join(f"{titles[i]} {test.ranks[i]:.2f}" for i in order)
    label = f"Mean ranks, 1 is best: {said}. Critical difference {test.critical_difference:.2f}."
    return picture(2 * margin + _SPAN, labels + _STEP * half + 2, label, pieces, class_="cd")


def _axis(k: int, place) -> list[Markup]:
    pieces = [element("line", x1=place(1), x2=place(k), y1=_AXIS, y2=_AXIS, class_="axis")]
    for tick in range(2 * k - 1):
        x, whole = place(1 + tick / 2), tick % 2 == 0
        pieces.append(element("line", x1=x, x2=x, y1=_AXIS - (7 if whole else 4), y2=_AXIS, class_="axis"))
        if whole:
            pieces.append(text(x, _AXIS - 11, str(1 + tick // 2), text_anchor="middle"))
    return pieces


def _ruler(difference: float, k: int, place) -> list[Markup]:
    start, end = place(1), place(1 + min(difference, k - 1))
    more = "" if difference <= k - 1 else ", more than the whole axis"
    pieces = [element("line", x1=start, x2=end, y1=_RULER, y2=_RULER, class_="axis")]
    pieces += [element("line", x1=x, x2=x, y1=_RULER - 4, y2=_RULER + 4, class_="axis") for x in (start, end)]
    return [*pieces, text((start + end) / 2, _RULER - 6, f"CD = {difference:.2f}{more}", text_anchor="middle")]
