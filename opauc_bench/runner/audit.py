"""Whether a results folder agrees with itself: all that can be told without computing anything again."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ResultsError
from ..evaluation.selection import ranking
from ..files import read_json
from ..plan import Task, expand_grid, task_id
from ..protocol import FIGURE_KINDS
from ..report.figure_write import figure_texts
from ..report.write import report_texts
from .figures import figures_of
from .folds import folds_text
from .manifest import read_manifest
from .page import PAGE, page_text
from .records import selection_aucs
from .session import Session
from .tables import build_report

__all__ = ["Audit", "audit"]

# A report with --test stays until the next one; and whether memory would do was judged where the report was made.
_TESTS = ("paired", "corrected")
_HOPELESS = (None, lambda task: False, lambda task: True)


@dataclass
class Audit:
    """What an audit found.

    Attributes
    ----------
    findings : list of str
        What cannot be if the folder is as a run has left it.
    notes : list of str
        What a reader should know, without being wrong.
    records : list of (Task, dict)
        Records of the experiment that are in order, by dataset, column, trial and fold.
    n_files : int
        Records in the folder, whatever they are.
    """

    findings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    records: list[tuple[Task, dict[str, Any]]] = field(default_factory=list)
    n_files: int = 0


def audit(session: Session) -> Audit:
    """Check the records, the data that they name, and the tables that were made from them.

    * Every record's id is the hash of its identity, and both agree with its path and with the manifest.
    * The chosen setting is the best of the inner cross-validation, and there is a value for each setting.
    * The data at hand are those of the manifest.
    * ``folds.csv``, the tables, the comparison and the page are, byte by byte, what the records give.

    Parameters
    ----------
    session : Session
        With ``as_recorded`` set. Its choice of datasets and learners does not matter here.

    Raises
    ------
    ResultsError
        If the folder has no manifest.
    """
    found = Audit()
    manifest = read_manifest(session.folder)
    _check_data(session, manifest, found)
    readable = _check_records(session, found)
    if readable:
        _check_tables(session, found)
    else:
        found.notes.append("tables were not compared with the records: not all of these can be read")
    return found


def _check_data(session: Session, manifest: dict[str, Any], found: Audit) -> None:
    for name, data in session.prepared.items():
        known = manifest["datasets"].get(name, {}).get("fingerprint")
        if known is not None and known != data.fingerprint:
            found.findings.append(
                f"{name}: the data at hand have fingerprint {data.fingerprint}, the manifest says {known}"
            )


def _check_records(session: Session, found: Audit) -> bool:
    """Look at every record; tell whether those of the experiment can be read."""
    store = session.store
    planned = {store.record_path(task): task for task in session.all_tasks() if task.id is not None}
    strangers: Counter[str] = Counter()
    readable = True
    for path in sorted((session.folder / "records").glob("*/*/*.json")):
        found.n_files += 1
        place = path.relative_to(session.folder)
        task = planned.get(path)
        problem = ""
        try:
            record = read_json(path)
            problem = _trouble_with_identity(record, path)
            if task is None:
                strangers[path.parts[-3]] += not problem
            elif store.read(task) is not None and not problem:
                problem = _trouble_with_choice(record, task)
        except ResultsError as error:
            problem, readable = problem or error.message.partition(": ")[2], False
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            problem = f"cannot be read as a record ({type(error).__name__}: {error})"
            readable = readable and task is None
        if problem:
            found.findings.append(f"{place}: {problem}")
        elif task is not None:
            found.records.append((task, record))
    found.records.sort(key=lambda pair: (pair[0].dataset, pair[0].column, pair[0].trial, pair[0].fold))
    for dataset, count in sorted(strangers.items()):
        if count:
            found.notes.append(
                f"{dataset}: {count} records are of another definition than the manifest's (data, learner, grid or "
                "protocol) and enter no table"
            )
    return readable


def _trouble_with_identity(record: dict[str, Any], path: Path) -> str:
    """Why a record is not what its id and its path say, or an empty string."""
    identity = record["identity"]
    if (computed := task_id(identity)) != record["id"]:
        return f"its identity hashes to {computed}, its id is {record['id']}: one of them has been changed"
    dataset, column, _ = path.parts[-3:]
    told = {"dataset": dataset, "column": column, "trial": identity["trial"], "fold": identity["fold"]}
    for key, value in told.items():
        if record[key] != value:
            return f"{key} is {record[key]!r}, expected {value!r}"
    if identity["dataset"] != dataset:
        return f"it is about {identity['dataset']}, and lies under {dataset}"
    name = f"t{record['trial'] + 1}-f{record['fold'] + 1}-{record['id']}.json"
    return "" if path.name == name else f"its name should be {name}"


def _trouble_with_choice(record: dict[str, Any], task: Task) -> str:
    """Why the chosen setting does not follow from the inner cross-validation, or an empty string."""
    selection = record.get("selection")
    if selection is None:
        return ""
    values = np.array([np.nan if auc is None else auc for auc in selection_aucs(record)], dtype=float)
    grid = expand_grid(task.grid)
    n_settings = len(next(iter(grid.values()))) if grid else 1
    if not len(values) == selection["n_settings"] == n_settings:
        return f"{len(values)} inner AUCs and {selection['n_settings']} settings, the grid has {n_settings}"
    if int(np.isnan(values).sum()) != selection["n_diverged"]:
        return f"{int(np.isnan(values).sum())} settings without an inner AUC, {selection['n_diverged']} are told"
    if np.nanmax(values, initial=0.0) > 1 or np.nanmin(values, initial=1.0) < 0:
        return "an inner AUC is not in [0, 1]"
    order = ranking(values)
    refused = record.get("diverged_in_refit", [])
    expected = [{axis: float(column[i]) for axis, column in grid.items()} for i in order[: len(refused) + 1]]
    given = [*refused, *([record["chosen"]] if record["status"] == "ok" else [])]
    # What another column has chosen first is not in the grid.
    given = [{axis: value for axis, value in setting.items() if axis in grid} for setting in given]
    if len(given) > len(order) or (record["status"] == "diverged" and len(given) != len(order)):
        return f"{len(given)} settings were refit, {len(order)} have an inner AUC"
    if grid and given != expected[: len(given)]:
        return f"the inner AUCs choose {expected[len(given) - 1]}, the record says {given[-1]}"
    return ""


def _check_tables(session: Session, found: Audit) -> None:
    command = f"opauc-bench report {session.folder}"
    folds = {"folds.csv": folds_text(session.records())}
    kind, figures = session.experiment.protocol.kind, {}
    wrong: list[str] | None = None
    for test, is_hopeless in itertools.product(_TESTS, _HOPELESS):
        try:
            if session.experiment.figures:
                figures = figure_texts(figures_of(session))
            tables = {}
            if kind not in FIGURE_KINDS:
                tables = report_texts(*build_report(session, test, is_hopeless=is_hopeless))
            texts = {**tables, **figures, **folds}
        except ResultsError as error:
            found.notes.append(f"there are no tables to compare: {error.message}")
            return
        if (session.folder / PAGE).is_file():
            texts[PAGE] = page_text(session, test, is_hopeless)
        present = {name: path.read_bytes() for name in texts if (path := session.folder / name).is_file()}
        other = [name for name, content in present.items() if content != texts[name].encode()]
        wrong = other if wrong is None or len(other) < len(wrong) else wrong
        if not wrong:
            break
    if wrong:
        found.findings.append(
            f"{', '.join(wrong)}: not what the records give; '{command}' writes them again from the records"
        )
    if absent := [name for name in texts if name not in present]:
        found.notes.append(f"not there: {', '.join(absent)}; '{command}' writes them")
