"""Whether a results folder is consistent: all checks that compute no task again."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from shlex import quote

import numpy as np

from ..data import find_prepared
from ..errors import OpaucBenchError, ResultsError
from ..evaluation.selection import ranking
from ..protocols import SplitProtocol
from ..protocols.outcome import TestedOutcome
from ..results.manifest import find_manifest
from ..results.record import Record
from ..results.reuse import beside, find_reusable
from ..task import Task, content_hash, expand_grid, identity_of
from .metrics import kept_scores
from .page import PAGE
from .planning import selecting_plan
from .recorded import Recorded
from .reports import report_files
from .session import Session, shell_command
from .terminal import counted

__all__ = ["Audit", "audit"]


@dataclass
class Audit:
    """The result of an audit: findings are errors, notes are not.

    ``pairs`` are the intact records of the experiment by dataset, column, trial and fold; ``n_records`` counts all
    records in the folder and those that it refers to.
    """

    findings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    pairs: list[tuple[Task, Record]] = field(default_factory=list)
    n_records: int = 0


def audit(recorded: Recorded) -> Audit:
    """Check the records, their data, and the tables made from them, of all datasets and learners.

    * Every record has the checksum of its content, and its id is the hash of its definition, data, trial and fold.
    * The selected setting is the best of the inner cross-validation, and there is an AUC for each setting. Where it was
      selected in another folder, it is the one that is recorded there.
    * Kept test scores have the AUC of their record.
    * The data on this machine are those of the manifest.
    * ``folds.csv``, tables, comparison and page are, byte by byte, what the records and the manifest's test give.

    Raises
    ------
    ResultsError
        If there are records and no manifest.
    """
    folder = recorded.session.folder
    if find_manifest(folder) is None and len(recorded.records):
        raise ResultsError(
            f"{folder} has no manifest.json, which says what its records are",
            f"{shell_command(recorded.session, 'run')}  # writes it again; tasks with a record are not computed",
        )
    found = Audit(n_records=len(recorded.records) + len(recorded.records.damaged))
    found.findings += recorded.records.damaged
    for name, count in recorded.missing_references().items():
        found.findings.append(f"{beside(recorded.session.folder, name)}/: {counted(count, 'record')} missing")
    found.notes += recorded.session.changed_versions()
    _check_data(recorded, found)
    _check_records(recorded, found)
    if recorded.records.damaged:
        found.notes.append("tables were not compared with the records: not all of these can be read")
    else:
        _check_tables(recorded, found)
    return found


def _check_data(recorded: Recorded, found: Audit) -> None:
    for name in recorded.session.experiment.datasets:
        known, entry = recorded.known_fingerprint(name), recorded.session.catalogue.get(name)
        data = find_prepared(entry, recorded.session.sources) if known and entry else None
        if data is not None and known != data.fingerprint:
            found.findings.append(
                f"{name}: the data on this machine have the fingerprint {data.fingerprint}, the manifest says {known}"
            )


def _check_records(recorded: Recorded, found: Audit) -> None:
    for record in recorded.records.values():
        if problem := _identity_problem(recorded, record):
            found.findings.append(f"{record.label}: {problem}")
    sources = _selections_elsewhere(recorded)
    for task, record in recorded.pairs:
        problem = _selection_problem(task, record)
        if not problem and task.place in sources and record.selected not in ({}, sources[task.place]):
            problem = f"its setting is {record.selected}, selected was {sources[task.place]}"
        if problem:
            found.findings.append(f"{task.label}: {problem}")
        else:
            found.pairs.append((task, record))
    _check_scores(recorded, found)
    found.pairs.sort(key=lambda pair: (pair[0].dataset, pair[0].column, pair[0].trial, pair[0].fold))
    for dataset, count in sorted(Counter(record.dataset for record in recorded.orphaned).items()):
        found.notes.append(
            f"{dataset}: {counted(count, 'record')} orphaned (of another definition than the manifest's: data, "
            "learner, grid or protocol) and in no table"
        )


def _check_scores(recorded: Recorded, found: Audit) -> None:
    """Kept test scores can be read, and their AUC is that of the record."""
    protocol, n_missing = recorded.session.experiment.protocol, 0
    if not isinstance(protocol, SplitProtocol):
        return
    for _, record in found.pairs:
        if record.ok:
            try:
                n_missing += kept_scores(recorded.store_of(record), record, protocol) is None
            except ResultsError as error:
                found.findings.append(error.message)
    if protocol.keep_scores and n_missing:
        found.notes.append(f"{counted(n_missing, 'record')} without test scores, which the protocol keeps")


def _identity_problem(recorded: Recorded, record: Record) -> str:
    """Why a record does not have the right id, or an empty string."""
    definition = recorded.definitions.get(record.definition)
    if definition is None:
        return f"the manifest does not have its definition {record.definition}"
    computed = content_hash(identity_of(definition, record))
    return "" if computed == record.id else f"what defines it has the hash {computed}, its id is {record.id}"


def _selections_elsewhere(recorded: Recorded) -> dict[tuple[str, str, int, int], dict[str, float]]:
    """Settings that other folders have selected for figures of this one, if these folders exist."""
    session = recorded.session
    selecting = selecting_plan(session, recorded.shapes)
    referred = {id for ids in recorded.manifest.selected_in.values() for id in ids}
    records = find_reusable(session.reuse, {task.id for task in selecting if task.id in referred}) if referred else {}
    return {task.place: records[task.id].selected for task in selecting if task.id in records}


def _selection_problem(task: Task, record: Record) -> str:
    """Why the selected setting does not follow from the inner cross-validation, or an empty string."""
    outcome = record.outcome
    if not isinstance(outcome, TestedOutcome) or (selection := outcome.selection) is None:
        return ""
    n_diverged = int(np.isnan(selection.auc).sum())
    if n_diverged != selection.n_diverged:
        return f"{n_diverged} settings have no inner AUC, its n_diverged is {selection.n_diverged}"
    grid = expand_grid(task.grid)
    order = ranking(selection.auc)
    refused = outcome.diverged_in_refit
    expected = [{axis: float(column[i]) for axis, column in grid.items()} for i in order[: len(refused) + 1]]
    given = [*refused, *([record.selected] if record.ok else [])]
    # What another column has selected first is not in the grid.
    given = [{axis: value for axis, value in setting.items() if axis in grid} for setting in given]
    if len(given) > len(order) or (record.status == "diverged" and len(given) != len(order)):
        return f"{len(given)} settings were refit, {len(order)} have an inner AUC"
    if grid and given != expected[: len(given)]:
        return f"the inner AUCs select {expected[len(given) - 1]}, the record says {given[-1]}"
    return ""


def _check_tables(recorded: Recorded, found: Audit) -> None:
    session, folder = recorded.session, recorded.session.folder
    command = f"opauc-bench report {quote(str(folder))} --write"
    if changed := session.change_of_config():
        found.notes.append(f"{changed}; here they are compared with what the records gave then")
    try:
        if changed:
            recorded = Recorded.read(Session.of_folder(folder, sources=session.sources))
        files = report_files(recorded, recorded.manifest.test, (folder / PAGE).is_file(), draw=False)
    except OpaucBenchError as error:
        found.notes.append(f"there are no tables to compare: {error.message}")
        return
    texts = {name: text for name, text in files.items() if isinstance(text, str)}
    present = {name: path.read_bytes() for name in texts if (path := folder / name).is_file()}
    if wrong := [name for name, content in present.items() if content != texts[name].encode()]:
        found.findings.append(
            f"{', '.join(wrong)}: not what the records give; '{command}' writes them again from the records"
        )
    if absent := [name for name in texts if name not in present]:
        found.notes.append(f"not written: {', '.join(absent)}; '{command}' writes them")
