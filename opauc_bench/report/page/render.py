"""From the content to the page: what each cell says, then one template, in which everything is escaped."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from importlib import resources
from typing import Any

from markupsafe import Markup

from ..compare import ComparedCell, Comparison
from ..compare_render import note_texts
from ..figure_labels import AXIS_SYMBOLS, value_text
from ..metrics import Metric
from ..style import MARKS
from ..table import Entry, ResultTable
from ..text import auc_text
from .content import Fold, PageContent
from .heat import COLOURS, EDGES, axes_text, heat_caption, heat_svg
from .ranks import MIN_DATASETS, diagram, rank
from .speed import learner_looks, seconds_text, speed_svg
from .svg import marker, picture

__all__ = ["render_page"]

_TESTS = {"paired": "paired t-test", "corrected": "corrected for overlapping training sets"}
# Distances in published stds, and how they are coloured on either side (Okabe and Ito's orange and blue, lightened).
_DISTANCES = (0.5, 1.0, 2.0)


def render_page(content: PageContent) -> str:
    """Render everything as one HTML document that loads nothing.

    Parameters
    ----------
    content : PageContent

    Returns
    -------
    str
        The same for the same content; ends with a newline.
    """
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    table, ranking = content.table, rank(content.table, content.sources)
    page = environment.from_string(_file("page.html")).render(
        title=table.title,
        description=content.description.strip(),
        style=Markup(_file("page.css")),
        script=Markup(_file("page.js")),
        facts=_facts(content),
        columns=table.columns,
        parts=_parts(content),
        runs=content.runs,
        tests=[(name, words, name == content.test) for name, words in _TESTS.items()],
        tallies={name: _tallies(one) for name, one in content.tables.items()},
        cell_notes=table.cell_notes,
        footnotes={name: one.footnotes for name, one in content.tables.items()},
        compared=_compared(content.comparison) if content.comparison else None,
        ranking=ranking,
        min_datasets=MIN_DATASETS,
        diagram=diagram(ranking) if ranking.test else "",
        maps=_maps(content),
        legend=_legend(),
        speed=_speed(content) if content.seconds else None,
        folds=_fold_sections(content),
        per_trial=_per_trial(content),
        provenance=content.provenance,
        data_rows=[_data_row(entry) for entry in content.provenance.datasets],
        p_text=_p_text,
        math=math,
    )
    return "\n".join(line.rstrip() for line in page.splitlines()) + "\n"


def _file(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _facts(content: PageContent) -> list[str]:
    table = content.table
    entries = table.entries.values()
    complete = sum(all(entry.status == "ok" for entry in row) for _, row in table.rows())
    finished, expected = sum(entry.n for entry in entries), sum(entry.expected for entry in entries)
    bad = sum(fold.status != "ok" for folds in content.folds.values() for fold in folds)
    facts = [f"{complete} of {len(table.datasets)} datasets complete", f"{len(table.columns)} learners"]
    facts.append(f"{finished:,} of {expected:,} {content.runs} have a number")
    return facts + ([f"{bad:,} ended without one"] if bad else [])


# ------------------------------------------------------------------ the table


def _parts(content: PageContent) -> list[dict[str, Any]]:
    """The AUC and other metrics, each with its rows; the heading of the only one is the section's."""
    several = bool(content.table.sections)
    return [
        {
            "heading": metric.heading if several else "",
            "rows": [
                {"dataset": dataset, "cells": [_cell(content, metric, entries, i, j) for j in range(len(row))]}
                for i, (dataset, row) in enumerate(content.table.rows(entries))
            ],
        }
        for metric, entries in content.table.parts()
    ]


def _cell(
    content: PageContent, metric: Metric, entries: dict[tuple[str, str], Entry], i: int, j: int
) -> dict[str, Any]:
    dataset, key = content.table.datasets[i], content.table.columns[j].key
    entry = entries[dataset, key]
    cell = {"id": f"f-{i}-{j}" if (dataset, key) in content.folds else "", "note": entry.note}
    if entry.status != "ok":
        text = f"… {entry.n}/{entry.expected}" if entry.status == "pending" else "N/A"
        return {**cell, "text": text, "value": "", "std": "", "marks": []}
    return {
        **cell,
        "text": metric.text(entry.mean),
        "value": repr(entry.mean),
        "std": "" if entry.std is None else metric.text(entry.std),
        "marks": _marks(content, dataset, key) if entries is content.table.entries else [],
    }


def _marks(content: PageContent, dataset: str, key: str) -> list[dict[str, str]]:
    marks = []
    for name, table in content.tables.items():
        verdict = table.entries[dataset, key].verdict
        if verdict in MARKS:
            word = "better" if verdict == "win" else "worse"
            said = f"{table.columns[0].title} significantly {word}"
            marks.append({"test": name, "sign": MARKS[verdict], "said": said})
    return marks


def _tallies(table: ResultTable) -> list[tuple[str, str]]:
    found = (table.tallies.get(column.key) for column in table.columns)
    return [(str(tally), f"{tally.counted} of {len(table.datasets)}") if tally else ("", "") for tally in found]


def _p_text(p: float) -> str:
    return "< .0001" if p < 1e-4 else f"= {auc_text(p)}"


# ------------------------------------------------------------------ beside the published values


def _compared(comparison: Comparison) -> dict[str, Any]:
    cells = {(cell.metric.key, cell.dataset, cell.column.key): cell for cell in comparison.cells}
    columns = list({cell.column.key: cell.column for cell in comparison.cells}.values())
    rows, shown = [], set()
    for metric, dataset in dict.fromkeys((cell.metric, cell.dataset) for cell in comparison.cells):
        found = [cells.get((metric.key, dataset, column.key)) for column in columns]
        name = f"{dataset}, {metric.heading}" if comparison.has_metrics else dataset
        if any(cell is not None and cell.ours.mean is not None for cell in found):
            rows.append((name, [_beside(comparison, cell) if cell else None for cell in found]))
            shown.add(dataset)
    summary = comparison.summary()
    return {
        "source": f"{comparison.published.source}, {comparison.published.table}",
        "columns": columns,
        "rows": rows,
        "hidden": list(dict.fromkeys(cell.dataset for cell in comparison.cells if cell.dataset not in shown)),
        "marked": summary.marked,
        "sentences": summary.sentences(),
        "remarks": comparison.remarks,
        "notes": note_texts(comparison),
    }


def _beside(comparison: Comparison, cell: ComparedCell) -> dict[str, Any]:
    printed, ours, metric = cell.published, cell.ours, cell.metric
    deviation = cell.deviation if metric.elsewhere else None
    return {
        "ours": "N/A" if ours.mean is None else metric.text(ours.mean),
        "published": "N/A" if printed.mean is None else f"{metric.text(printed.mean)} ± {metric.text(printed.std)}",
        "deviation": "" if deviation is None else _signed(deviation),
        "difference": "" if cell.difference is None else metric.signed(cell.difference),
        "distance": _distance(deviation),
        "disagrees": cell.agrees is False,
        "standing": cell.standing,
        "numbers": comparison.numbers(cell),
    }


def _distance(deviation: float | None) -> str:
    """The class of a cell's colour: none, near, or up/down with how many limits are passed."""
    if deviation is None:
        return "none"
    passed = sum(abs(deviation) > limit for limit in _DISTANCES)
    return "near" if not passed else f"{'up' if deviation > 0 else 'down'}{passed}"


def _signed(deviation: float) -> str:
    if math.isinf(deviation):
        return "+∞" if deviation > 0 else "−∞"
    digits = 1 if abs(deviation) < 99.95 else 0
    return f"{round(deviation, digits) + 0.0:+.{digits}f}".replace("-", "−")


# ------------------------------------------------------------------ maps, times, folds, data


def _maps(content: PageContent) -> dict[str, Any] | None:
    if not content.grids:
        return None
    datasets = content.table.datasets
    columns = [column for column in content.table.columns if any((d, column.key) in content.grids for d in datasets)]
    heads = [next(content.grids[d, c.key] for d in datasets if (d, c.key) in content.grids) for c in columns]
    rows = []
    for dataset in datasets:
        grids = [content.grids.get((dataset, column.key)) for column in columns]
        if any(grids):
            rows.append((dataset, [(heat_svg(grid), heat_caption(grid)) if grid else None for grid in grids]))
    return {"columns": [(column.title, axes_text(grid)) for column, grid in zip(columns, heads)], "rows": rows}


def _legend() -> list[tuple[str, str]]:
    limits = [auc_text(edge).rstrip("0") for edge in EDGES]
    return list(zip(COLOURS, [*(f"≤ {limit}" for limit in limits), f"> {limits[-1]}"]))


def _speed(content: PageContent) -> dict[str, Any]:
    looks = learner_looks(content)
    keys = [
        (column.title, picture(14, 14, "", [marker(looks[column.key][1], 7, 7, 4.6, looks[column.key][0])]))
        for column in content.table.columns
    ]
    rows = []
    for dataset in content.table.datasets:
        found = [content.seconds.get((dataset, column.key)) for column in content.table.columns]
        if any(found):
            cells = [(seconds_text(statistics.median(s.fit)), seconds_text(s.selection)) if s else None for s in found]
            rows.append((dataset, cells))
    total = sum(seconds.selection + sum(seconds.fit) for seconds in content.seconds.values())
    return {"svg": speed_svg(content), "keys": keys, "rows": rows, "total": seconds_text(total)}


def _fold_sections(content: PageContent) -> list[tuple[str, list[dict[str, Any]]]]:
    sections = []
    for i, dataset in enumerate(content.table.datasets):
        cells = [
            _fold_cell(content, dataset, i, j)
            for j, column in enumerate(content.table.columns)
            if (dataset, column.key) in content.folds
        ]
        if cells:
            sections.append((dataset, cells))
    return sections


def _per_trial(content: PageContent) -> int:
    """Folds of a trial, so that each trial has a line; 0 where they would not fit into one."""
    most = max((fold.fold + 1 for folds in content.folds.values() for fold in folds), default=0)
    return most if 1 < most <= 6 else 0


def _fold_cell(content: PageContent, dataset: str, i: int, j: int) -> dict[str, Any]:
    column = content.table.columns[j]
    folds, metric = content.folds[dataset, column.key], content.table.metric
    split = any(fold.fold for fold in folds)
    entry = content.table.entries[dataset, column.key]
    settings = Counter(_setting(fold) for fold in folds if fold.selected)
    return {
        "id": f"f-{i}-{j}",
        "dataset": dataset,
        "title": column.title,
        "mean": "" if entry.mean is None else metric.text(entry.mean),
        "std": "" if entry.std is None else metric.text(entry.std),
        "n": entry.n,
        "expected": entry.expected,
        "reference": content.table.columns[0].title if j else "",
        "p": [(words, content.tables[name].entries[dataset, column.key].p_value) for name, words in _TESTS.items()],
        "often": [(setting, count) for setting, count in settings.most_common(3)],
        "more": max(0, len(settings) - 3),
        "folds": [(_fold_name(fold, split), _fold_text(fold, metric), _setting(fold)) for fold in folds],
    }


def _fold_name(fold: Fold, split: bool) -> str:
    return f"{fold.trial + 1}.{fold.fold + 1}" if split else str(fold.trial + 1)


def _fold_text(fold: Fold, metric: Metric) -> str:
    return fold.status if fold.auc is None else metric.text(fold.auc)


def _setting(fold: Fold) -> str:
    return ", ".join(f"{AXIS_SYMBOLS.get(axis, axis)} {value_text(value)}" for axis, value in fold.selected.items())


def _data_row(entry: dict[str, Any]) -> dict[str, Any]:
    if "fingerprint" not in entry:
        return {"name": entry["name"], "known": False}
    n, positive = entry.get("n_samples"), entry.get("n_positive")
    return {
        "name": entry["name"],
        "known": True,
        "n": f"{n:,}" if n is not None else "",
        "d": f"{entry['n_features']:,}" if "n_features" in entry else "",
        "positive": f"{100 * positive / n:.1f} %" if n and positive is not None else "",
        "scaling": str(entry.get("scaling", "")),
        "fingerprint": entry["fingerprint"],
        "files": [
            (file.get("name", ""), file.get("sha256") or file.get("source", "")) for file in entry.get("files", [])
        ],
    }
