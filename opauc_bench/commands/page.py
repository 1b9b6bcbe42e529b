"""The page of a results folder, from its records and its manifest."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, get_args

from ..plan import Column
from ..report.metrics import metric_of
from ..report.page import PageContent, render_page
from ..report.table import Test
from ..report.titles import plain_title
from .recorded import Recorded
from .tables import build_report, check_test
from .terminal import counted

__all__ = ["PAGE", "page_text"]

PAGE = "report.html"


def page_text(recorded: Recorded, test: str | None = None) -> str:
    """Return the page as HTML, the same bytes for the same records.

    `test` is the one shown first, by default that of the config.
    """
    session = recorded.session
    tables, comparisons = {}, {}
    for name in get_args(Test):
        tables[name], comparisons[name] = build_report(recorded, name)
    selecting = metric_of(session.experiment.protocol.selecting_metric)
    kept = {place: [record for _, record in pairs if record is not None] for place, pairs in recorded.cells.items()}
    content = PageContent(
        description=session.experiment.description,
        tables=tables,
        test=check_test(test) or session.experiment.report.test,
        comparison=comparisons["paired"],
        records={place: records for place, records in kept.items() if records},
        grids={column.key: column.grid for column in session.columns},
        selected_by=f"Minus the {selecting.meaning}" if selecting.lower_is_better else selecting.heading,
        provenance=_provenance(recorded),
    )
    return render_page(content)


def _provenance(recorded: Recorded) -> dict[str, Any]:
    manifest, session = recorded.manifest, recorded.session
    experiment = session.experiment
    protocol = experiment.protocol.model_dump(mode="json")
    limits = experiment.limits.model_dump(mode="json", exclude_none=True)
    machines = Counter(_pairs(recorded.environment_of(record)) for _, record in recorded.pairs)
    known = {name: facts.plain() for name, facts in manifest.datasets.items()}
    return {
        "facts": [
            ("protocol", _pairs(protocol)),
            ("limits", _pairs(limits) or "none"),
            ("config", manifest.config_name),
            ("opauc-bench", manifest.opauc_bench),
        ],
        "datasets": [{"name": name, **known.get(name, {})} for name in experiment.datasets],
        "learners": [
            {
                "title": plain_title(column.title),
                "learner": column.identity["learner"],
                "version": str(column.identity["version"]),
                "params": "; ".join(_fixed(column)) or "-",
                "grid": "; ".join(f"{axis}: {counted(len(v), 'value')}" for axis, v in column.grid.items()) or "-",
            }
            for column in session.columns
        ],
        "machines": sorted(machines.items(), key=lambda pair: (-pair[1], pair[0])),
        "experiment": json.dumps(experiment.plain(), indent=1, ensure_ascii=False),
    }


def _fixed(column: Column) -> Iterator[str]:
    """What is not tuned: parameters, axes of another column, the limit of training rows."""
    if column.identity["params"]:
        yield _pairs(column.identity["params"])
    if column.tuned_by is not None:
        yield f"{', '.join(column.inherited_axes)} of {plain_title(column.tuned_by.title)}"
    if limits := column.max_train:
        same = len(set(limits.values())) == 1
        yield f"max_train {next(iter(limits.values())) if same else f'({_pairs(limits)})'}"


def _pairs(values: dict[str, Any]) -> str:
    return ", ".join(f"{key} {_plain(value)}" for key, value in values.items())


def _plain(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_plain, value))}]"
    return str(value).lower() if isinstance(value, bool) else "none" if value is None else str(value)
