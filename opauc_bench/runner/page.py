"""From a session to the page of its results: everything it shows is read from the records and the manifest."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from ..plan import Task
from ..report.page import PageContent, render_page
from ..report.page.content import Fold, GridMap, Provenance, Seconds, grid_map
from .manifest import read_manifest
from .records import metrics_of, selection_aucs
from .session import Session
from .tables import build_report

__all__ = ["PAGE", "page_content", "page_text"]

PAGE = "report.html"

Record = dict[str, Any]


def page_text(session: Session, test: str | None = None, is_hopeless: Callable[[Task], bool] | None = None) -> str:
    """Return the page as HTML, the same bytes for the same records.

    Raises
    ------
    ResultsError
        If there are no records, or no manifest.
    """
    return render_page(page_content(session, test, is_hopeless))


def page_content(
    session: Session, test: str | None = None, is_hopeless: Callable[[Task], bool] | None = None
) -> PageContent:
    """Collect what the page shows.

    Parameters
    ----------
    session : Session
    test : {'paired', 'corrected'}, optional
        The one shown first, by default that of the config.
    is_hopeless : callable, optional
        As for `build_report`.
    """
    tables, comparisons, rows = {}, {}, session.records()
    for name in ("paired", "corrected"):
        tables[name], comparisons[name] = build_report(session, name, is_hopeless=is_hopeless, records=rows)
    records = {key: [record for _, record in pairs if record is not None] for key, pairs in rows.items()}
    return PageContent(
        description=session.experiment.description,
        tables=tables,
        test=test or session.experiment.report.test,
        comparison=comparisons["paired"],
        folds={key: [_fold(record) for record in found] for key, found in records.items() if found},
        grids={key: found for key, pairs in rows.items() if (found := _grid(pairs)) is not None},
        seconds={key: found for key, kept in records.items() if (found := _seconds(kept)) is not None},
        learners={column.key: column.learner.rpartition(":")[2] for column in session.columns},
        runs=session.experiment.protocol.runs,
        sources=session.rows(),
        provenance=_provenance(session, [record for found in records.values() for record in found]),
    )


def _fold(record: Record) -> Fold:
    good = record["status"] == "ok"
    return Fold(
        trial=record["trial"],
        fold=record["fold"],
        status=record["status"],
        auc=metrics_of(record)["auc"] if good else None,
        chosen=record.get("chosen", {}) if good else {},
    )


def _grid(pairs: list[tuple[Task, Record | None]]) -> GridMap | None:
    searched = [(task, record) for task, record in pairs if record is not None and selection_aucs(record)]
    if not searched:
        return None
    return grid_map(
        searched[0][0].grid,
        [selection_aucs(record) for _, record in searched],
        [record["chosen"] for _, record in searched if record["status"] == "ok"],
    )


def _seconds(records: list[Record]) -> Seconds | None:
    timings = [record["timing"] for record in records if record["status"] == "ok"]
    fit = tuple(timing["fit_cpu_seconds"] for timing in timings if "fit_cpu_seconds" in timing)
    if not fit:
        return None
    return Seconds(fit, sum(timing.get("selection_cpu_seconds", 0.0) for timing in timings))


def _provenance(session: Session, records: list[Record]) -> Provenance:
    manifest = read_manifest(session.folder)
    experiment = session.experiment
    protocol = experiment.protocol.model_dump(mode="json")
    limits = experiment.limits.model_dump(mode="json", exclude_none=True)
    facts = [("protocol", _pairs(protocol)), ("limits", _pairs(limits) or "none")]
    facts += [("config", str(manifest.get("config", ""))), ("opauc-bench", str(manifest.get("opauc_bench", "")))]
    machines = Counter(_pairs(record.get("environment", {})) for record in records)
    return Provenance(
        facts=facts,
        datasets=[{"name": name, **manifest["datasets"].get(name, {})} for name in experiment.datasets],
        learners=[
            {
                "title": column.title,
                "learner": column.identity["learner"],
                "version": str(column.identity["version"]),
                "params": _pairs(column.identity["params"]) or "-",
                "grid": "; ".join(_values(axis, len(values)) for axis, values in column.grid.items()) or "-",
            }
            for column in session.columns
        ],
        machines=sorted(machines.items(), key=lambda pair: (-pair[1], pair[0])),
        experiment=json.dumps(manifest["experiment"], indent=1, ensure_ascii=False),
    )


def _pairs(values: dict[str, Any]) -> str:
    return ", ".join(f"{key} {_plain(value)}" for key, value in values.items())


def _plain(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "[" + _joined(value) + "]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _joined(values: Iterable[Any]) -> str:
    return ", ".join(map(_plain, values))


def _values(axis: str, count: int) -> str:
    return f"{axis}: {count} value{'' if count == 1 else 's'}"
