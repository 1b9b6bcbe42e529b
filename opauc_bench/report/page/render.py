"""From the content to the page: everything is computed here or read from the content, and printed by templates."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..compare import Comparison
from ..compare_render import note_texts
from ..footnotes import footnotes, verdict_text
from ..over_datasets import HEADINGS, all_pairs, cases_of, over_datasets
from ..style import MARKS, foot_rows, percent_text
from ..table import ResultTable, Test
from ..template import render_template
from ..text import AXIS_SYMBOLS, auc_text, value_text
from .heat import COLOURS, EDGES, axes_text, grid_map, heat_caption, heat_svg
from .ranks import diagram, rank
from .speed import run_times

if TYPE_CHECKING:
    from ...results.record import Record

__all__ = ["PageContent", "render_page"]

_TESTS: dict[Test, str] = {
    "paired": "paired t-test",
    "corrected": "corrected for overlapping training sets",
    "bayes": "Bayesian, with equivalence",
}
# Distances in published stds, and how they are coloured on either side (Okabe and Ito's orange and blue, lightened).
_DISTANCES = (0.5, 1.0, 2.0)

Key = tuple[str, str]


@dataclass(frozen=True)
class PageContent:
    """Everything on the page; keys are dataset and column key."""

    description: str
    tables: Mapping[Test, ResultTable]  # the same cells under each test
    test: Test  # the one that is shown first
    comparison: Comparison | None  # under the paired test, which is the papers'
    records: Mapping[Key, Sequence[Record]]  # in the order of trial and fold
    grids: Mapping[str, Mapping[str, Sequence[float]]]  # values of each tuned axis by column key
    # How the numbers were computed: `facts` and `machines` as pairs of texts, `datasets` and `learners` as mappings,
    # and the `experiment` as JSON.
    provenance: Mapping[str, Any]
    selected_by: str = "AUC"  # heading of the metric by which settings were selected

    @property
    def table(self) -> ResultTable:
        return self.tables[self.test]


def render_page(content: PageContent) -> str:
    """Render everything as one HTML document that loads nothing; the same for the same content."""
    ranking = rank(content.table)
    cases = cases_of(content.tables["bayes"])
    page = render_template(
        "page.html",
        content=content,
        table=content.table,
        runs=content.table.runs,
        facts=_facts(content),
        tests=[(name, words, name == content.test) for name, words in _TESTS.items()],
        signs=MARKS,
        footnotes=footnotes,
        verdict_text=verdict_text,
        percent_text=percent_text,
        foot_rows=foot_rows,
        over_datasets=[(end, over_datasets(rows), all_pairs(rows)) for end, rows in cases.items()],
        over_headings=HEADINGS,
        compared=_compared(content.comparison) if content.comparison else None,
        ranking=ranking,
        diagram=diagram(ranking) if ranking.test else "",
        maps=_maps(content),
        legend=_legend(),
        speed=run_times(content.table, content.records),
        setting_text=_setting_text,
        settings=_settings,
        per_trial=_per_trial(content),
        p_text=lambda p: "< .0001" if p < 1e-4 else f"= {auc_text(p)}",
        math=math,
    )
    return "\n".join(line.rstrip() for line in page.splitlines()) + "\n"


def _facts(content: PageContent) -> list[str]:
    table = content.table
    entries = table.entries.values()
    complete = sum(all(entry.status == "ok" for entry in row) for _, row in table.rows())
    finished, expected = sum(entry.n for entry in entries), sum(entry.expected for entry in entries)
    failed = sum(not record.ok for records in content.records.values() for record in records)
    where = "rows" if table.has_repeated_datasets else "datasets"
    facts = [f"{complete} of {len(table.datasets)} {where} complete", f"{len(table.columns)} learners"]
    facts.append(f"{finished:,} of {expected:,} {table.runs} have a number")
    return facts + ([f"{failed:,} ended without one"] if failed else [])


def _compared(comparison: Comparison) -> dict[str, Any]:
    cells = {(cell.metric, cell.dataset, cell.column): cell for cell in comparison.cells}
    columns = list(dict.fromkeys(cell.column for cell in comparison.cells))
    rows, shown = [], set()
    for metric, dataset in dict.fromkeys((cell.metric, cell.dataset) for cell in comparison.cells):
        found = [cells.get((metric, dataset, column)) for column in columns]
        if any(cell is not None and cell.ours.mean is not None for cell in found):
            rows.append((f"{dataset}, {metric.heading}" if comparison.has_metrics else dataset, found))
            shown.add(dataset)
    return {
        "columns": columns,
        "rows": rows,
        "hidden": list(dict.fromkeys(cell.dataset for cell in comparison.cells if cell.dataset not in shown)),
        "summary": comparison.summary(),
        "notes": note_texts(comparison),
        "numbers": comparison.numbers,
        "deviation": lambda cell: cell.deviation if cell.metric.machine_independent else None,
        "deviation_text": _deviation_text,
        "distance": _distance,
    }


def _distance(deviation: float | None) -> str:
    """The class of a cell's colour: none, near, or up/down with the number of limits that are passed."""
    if deviation is None:
        return "none"
    passed = sum(abs(deviation) > limit for limit in _DISTANCES)
    return "near" if not passed else f"{'up' if deviation > 0 else 'down'}{passed}"


def _deviation_text(deviation: float) -> str:
    if math.isinf(deviation):
        return "+∞" if deviation > 0 else "−∞"
    digits = 1 if abs(deviation) < 99.95 else 0
    return f"{round(deviation, digits) + 0.0:+.{digits}f}".replace("-", "−")


def _maps(content: PageContent) -> dict[str, Any] | None:
    found = {}
    for (dataset, key), records in content.records.items():
        aucs = [record.selection.auc for record in records if record.selection is not None]
        selected = [record.selected for record in records if record.selection is not None and record.ok]
        grid = grid_map(content.grids.get(key, {}), aucs, selected)
        if grid is not None:
            found[dataset, key] = grid
    if not found:
        return None
    columns, rows = [], []
    for column in content.table.columns:
        if of_column := [grid for (_, key), grid in found.items() if key == column.key]:
            columns.append((column, axes_text(of_column[0])))
    for dataset in content.table.datasets:
        grids = [found.get((dataset, column.key)) for column, _ in columns]
        if any(grids):
            captions = [heat_caption(grid, content.table.expected) if grid else [] for grid in grids]
            drawn = [(heat_svg(grid, caption), caption) if grid else None for grid, caption in zip(grids, captions)]
            rows.append((dataset, drawn))
    return {"columns": columns, "rows": rows}


def _legend() -> list[tuple[str, str]]:
    limits = [auc_text(edge).rstrip("0") for edge in EDGES]
    return list(zip(COLOURS, [*(f"≤ {limit}" for limit in limits), f"> {limits[-1]}"]))


def _per_trial(content: PageContent) -> int:
    """Folds per trial, so that each trial has a line; 0 where they would not fit into one."""
    most = max((record.fold + 1 for records in content.records.values() for record in records), default=0)
    return most if 1 < most <= 6 else 0


def _settings(records: Sequence[Record]) -> list[tuple[str, int]]:
    """Selected settings and how often each was selected, the most frequent first."""
    return Counter(_setting_text(record) for record in records if record.selected).most_common()


def _setting_text(record: Record) -> str:
    return ", ".join(f"{AXIS_SYMBOLS.get(axis, axis)} {value_text(value)}" for axis, value in record.selected.items())
