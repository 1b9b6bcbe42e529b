"""Joining the folders of machines that share nothing, with a check that they belong to one experiment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ResultsError
from ..plan import Task
from .manifest import recorded_datasets
from .records import metrics_of
from .session import Session
from .store import Store

__all__ = ["Merged", "merge_folders"]


@dataclass(frozen=True)
class Merged:
    """What joining folders did: records copied, and those that were there already."""

    copied: int
    present: int


def merge_folders(session: Session, folders: Sequence[Path]) -> Merged:
    """Copy the records of an experiment from several folders into the session's; all or nothing.

    Parameters
    ----------
    session : Session
        Its folder is locked.
    folders : sequence of Path

    Raises
    ------
    ResultsError
        If a folder has no manifest, was computed from other data, has records of another definition, or two records of
        one task differ in their number.
    """
    datasets: dict[str, dict[str, Any]] = {}
    origin: dict[str, Path] = {}
    for folder in (session.folder, *folders):
        for name, entry in _datasets_of(folder, required=folder != session.folder).items():
            known = datasets.get(name, {}).get("fingerprint")
            if known and entry.get("fingerprint") not in (None, known):
                raise ResultsError(
                    f"{folder} was computed on another {name} than {origin[name]}: fingerprints "
                    f"{entry['fingerprint'][:16]} and {known[:16]}",
                    "opauc-bench data verify, on both machines; nothing was merged",
                )
            if not known:
                datasets[name], origin[name] = entry, folder
    session.told = {name: datasets[name] for name in session.experiment.datasets if name in datasets}
    tasks = session.all_tasks()
    chosen: dict[tuple[str | None, str], tuple[Task, dict[str, Any], Path]] = {}
    for folder in (session.folder, *folders):
        store = Store(folder)
        strangers = store.strangers(tasks) if folder != session.folder else []
        if strangers:
            raise ResultsError(
                f"{folder} has {len(strangers)} records that are not of {session.experiment.path}: another grid, "
                f"protocol, learner or dataset; such as {strangers[0].name}",
                "merge with the config that the shards were run with; nothing was merged",
            )
        for task in tasks:
            if (record := store.read(task)) is not None:
                _choose(chosen, task, record, folder)
    session.remember(session.told)
    copied = present = 0
    for task, record, folder in chosen.values():
        if folder == session.folder:
            present += 1
        else:
            session.store.write(task, record)
            copied += 1
    return Merged(copied, present)


def _choose(chosen: dict, task: Task, record: dict[str, Any], folder: Path) -> None:
    """Keep a record unless a better one of the same task is there; a number is better than a failure."""
    key = (task.id, task.column)
    if key not in chosen or (chosen[key][1]["status"] != "ok" and record["status"] == "ok"):
        chosen[key] = (task, record, folder)
    elif record["status"] == "ok" and _numbers(record) != _numbers(chosen[key][1]):
        other = chosen[key][1]
        values = [f"{metrics_of(each).get('auc')!r} in " if "measured" not in each else "" for each in (other, record)]
        raise ResultsError(
            f"two records of {task.label} differ: {values[0]}{chosen[key][2]} and {values[1]}{folder}",
            f"rm '{Store(folder).record_path(task)}'  # or the other one; nothing was merged",
        )


def _numbers(record: dict[str, Any]) -> Any:
    """What is the same wherever a task is computed."""
    return record.get("measured") or metrics_of(record)


def _datasets_of(folder: Path, required: bool) -> dict[str, dict[str, Any]]:
    if required and not (folder / "manifest.json").is_file():
        raise ResultsError(f"{folder} is no results folder: it has no manifest.json", "opauc-bench merge --help")
    return recorded_datasets(folder)
