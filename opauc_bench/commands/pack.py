"""``pack``: pack the records of an interrupted run, copy those of other folders, remove orphaned ones."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Mapping
from typing import Any

from ..files import read_json
from ..results.manifest import Manifest, find_manifest, write_manifest
from ..results.record import Record
from ..results.reuse import beside, join_references
from ..results.store import Store
from ..task import Task
from .recorded import Recorded
from .reports import write_report_files
from .session import Session, shell_command
from .terminal import counted

__all__ = ["pack_results"]


def pack_results(session: Session, self_contained: bool = False, prune: bool = False) -> None:
    """Pack the loose records of an interrupted run, write the report, and print what was done.

    With `self_contained`, the records of other folders that this one refers to are copied. With `prune`, records that
    belong to no task of the last run's experiment are removed, and the definitions and environments that only they had.
    Those that a folder beside this one refers to stay, and those whose task has no other record: its learner has
    changed since, or its data.
    """
    if prune:  # a config that was changed and not run yet must not cost the records of the last run
        session = Session.of_folder(session.folder, sources=session.sources)
    store = Store(session.folder)
    with store.locked():
        recorded = Recorded.read_intact(session)
        store.forget_other_tasks(recorded.tasks)
        orphaned = recorded.orphaned if prune else []
        needed = _ids_used_elsewhere(session) if orphaned else set()
        definitions = recorded.definitions
        open_tasks = [task for task in recorded.tasks if recorded.records.of(task) is None]
        open_places = {place for task in open_tasks for place in _places(task, task.definition)}

        def has_open_task(record: Record) -> bool:
            return not open_places.isdisjoint(_places(record, definitions.get(record.definition, {})))

        alone = {record.id for record in orphaned if has_open_task(record)}
        removed = [record for record in orphaned if record.id not in needed | alone]
        note = _kept(needed.intersection(record.id for record in orphaned), "to which other folders refer")
        note += _kept(alone - needed, f"whose tasks have no other: {shell_command(session, 'run')} computes these")
        manifest = recorded.manifest
        if prune:
            known = {task.id for task in recorded.tasks}
            of_others = [recorded.records[id] for id in recorded.records.reused if id not in known]
            unused = {record.id for record in of_others if not has_open_task(record)}
            manifest = _without(recorded, unused.union(record.id for record in removed))
            for id in unused:
                del recorded.records[id], recorded.records.reused[id]
        copied = [recorded.records[id] for id in recorded.records.reused] if self_contained else []
        loose = recorded.records.loose.difference(record.id for record in removed)
        if not (copied or loose or removed) and manifest == recorded.manifest:
            print(f"{session.folder}/: nothing to pack{note}")
            return
        if copied:
            reused = {name: set(ids).difference(recorded.records.reused) for name, ids in manifest.reused.items()}
            manifest = manifest.model_copy(update={"reused": join_references(reused)})
            # Scores first: a record that is here already is not copied again by the command that follows a kill.
            for id, name in recorded.records.reused.items():
                store.copy_scores(Store(beside(session.folder, name)), id)
            store.pack(copied)
            recorded.records.reused.clear()
        # Records first: a kill in between leaves definitions that nothing uses, and not records without one.
        store.remove(removed)
        for record in removed:
            del recorded.records[record.id]
        if manifest != recorded.manifest:
            write_manifest(session.folder, manifest)
        recorded = Recorded(session, manifest, recorded.records)
        write_report_files(recorded, session.folder, manifest.test)
        store.pack()
    print(f"{session.folder}/: {counted(len(loose), 'record')} packed, {len(copied)} copied from other folders")
    if prune:
        print(f"{counted(len(removed), 'orphaned record')} removed{note}")


def _places(of: Task | Record, definition: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """Where in the table a task or a record belongs, by its column and by its learner: columns may be renamed."""
    learner = json.dumps([definition.get("learner"), definition.get("params")], sort_keys=True)
    return [(name, of.dataset, of.trial, of.fold) for name in (("column", of.column), ("learner", learner))]


def _kept(ids: Collection[str], reason: str) -> str:
    return f", {counted(len(ids), 'orphaned record')} kept, {reason}" if ids else ""


def _ids_used_elsewhere(session: Session) -> set[str]:
    """Ids of the records of this folder to which the folders beside it refer."""
    used: set[str] = set()
    for path in beside(session.folder).glob("*/manifest.json"):
        with contextlib.suppress(OSError, ValueError):
            content = read_json(path)
            if not isinstance(content, dict) or "experiment" not in content:
                continue  # of another program
        other = find_manifest(path.parent)
        for references in (other.reused, other.selected_in) if other else ():
            used.update(references.get(session.folder.absolute().name, ()))
    return used


def _without(recorded: Recorded, gone: set[str]) -> Manifest:
    """The manifest without references to some records, and with definitions and environments of the others only."""
    rest = [record for id, record in recorded.records.items() if id not in gone]
    definitions, environments = {record.definition for record in rest}, {record.environment for record in rest}
    manifest = recorded.manifest
    return manifest.model_copy(
        update={
            "reused": join_references({name: set(ids) - gone for name, ids in manifest.reused.items()}),
            "definitions": {name: entry for name, entry in manifest.definitions.items() if name in definitions},
            "environments": {name: entry for name, entry in manifest.environments.items() if name in environments},
        }
    )
