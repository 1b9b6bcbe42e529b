"""Records on disk: one small JSON file a task, written to a temporary file and moved into place.

    <results>/manifest.json                                    what was run, on which data
    <results>/records/<dataset>/<column>/t<trial>-f<fold>-<id>.json
    <results>/partial/<id>.json                                inner folds of a task under way

A record is found by its path alone, so the folder can be copied, merged and versioned like any other. To compute a task
again, delete its file.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from ..errors import ResultsError
from ..files import read_json, remove_file, write_text
from ..plan import Task
from .records import trouble_with

__all__ = ["Store", "write_json"]


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file, one key a line, so that a reader finds the old file or the new one, never a part.

    Raises
    ------
    ResultsError
        If the folder cannot be written.
    """
    lines = (f"{json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in content.items())
    write_text(path, "{\n" + ",\n".join(lines) + "\n}\n")


class Store:
    """The records of one results folder.

    Parameters
    ----------
    folder : Path
    """

    def __init__(self, folder: Path):
        self.folder = folder

    def record_path(self, task: Task) -> Path:
        name = f"t{task.trial + 1}-f{task.fold + 1}-{task.id}.json"
        return self.folder / "records" / task.dataset / task.column / name

    def partial_path(self, task: Task) -> Path:
        return self.folder / "partial" / f"{task.id}.json"

    def read(self, task: Task) -> dict[str, Any] | None:
        """Return a task's record, or None if there is none.

        Raises
        ------
        ResultsError
            If there is a file which is not the record of this task.
        """
        if task.id is None:
            return None
        path = self.record_path(task)
        record = _read_json(path)
        if record is None:
            return None
        problem = trouble_with(record, task)
        if problem:
            raise ResultsError(
                f"{path} is not a record of this task: {problem}", f"rm '{path}'  # it is computed again"
            )
        return record

    def write(self, task: Task, record: dict[str, Any]) -> None:
        """Write a task's record and forget its inner folds."""
        write_json(self.record_path(task), record)
        remove_file(self.partial_path(task))

    def discard(self, task: Task) -> None:
        """Forget a task's record and its inner folds, so that it is computed again."""
        remove_file(self.record_path(task))
        remove_file(self.partial_path(task))

    def find(self, task: Task) -> dict[str, Any] | None:
        """Return the record of the same task under whatever column, as if it were this task's own, or None."""
        if task.id is None:
            return None
        pattern = f"*/t{task.trial + 1}-f{task.fold + 1}-{task.id}.json"
        for path in sorted((self.folder / "records" / task.dataset).glob(pattern)):
            record = {**(_read_json(path) or {}), "column": task.column}
            if not trouble_with(record, task):
                return record
        return None

    def strangers(self, tasks: list[Task]) -> list[Path]:
        """Records in the folder that belong to none of these tasks: of another definition, or of another experiment."""
        known = {self.record_path(task) for task in tasks if task.id is not None}
        return sorted(path for path in self.folder.glob("records/*/*/*.json") if path not in known)

    def read_partial(self, task: Task) -> dict[str, Any]:
        """Inner folds that an interrupted run has left, or an empty dict; what is damaged is dropped."""
        try:
            partial = _read_json(self.partial_path(task))
        except ResultsError:
            return {}
        seal = partial.pop("seal", None) if partial else None
        return partial if partial and seal == _seal(partial) and partial.get("id") == task.id else {}

    def write_partial(self, task: Task, partial: dict[str, Any]) -> None:
        """Keep inner folds; numbers go from there into a record, so they are sealed against every change."""
        content = {"id": task.id, **partial}
        write_json(self.partial_path(task), {**content, "seal": _seal(content)})

    def claim(self, task: Task, pid: int) -> Path:
        """Note that a worker has begun a task, so that it is known who was at work when one dies; returns the note."""
        path = self._claim_path(task)
        write_text(path, json.dumps({"pid": pid}), durable=False)  # nobody is at work after a power cut
        return path

    def clear_claim(self, task: Task) -> str | None:
        """Remove the note; return what it said, or None if there was none."""
        path = self._claim_path(task)
        try:
            said = path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return None
        remove_file(path)
        return said

    def _claim_path(self, task: Task) -> Path:
        return self.folder / "partial" / f"{task.id}-{task.column}.claim"

    def sweep(self) -> None:
        """Remove what killed writers have left; call only while no one else writes."""
        leftovers = [*self.folder.glob(".*.*.????????.tmp"), *(self.folder / "partial").glob("*.claim")]
        for place in ("records", "partial"):
            leftovers += (self.folder / place).rglob(".*.tmp")
        for path in leftovers:
            remove_file(path)


def _seal(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        content = read_json(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise ResultsError(f"{path} cannot be read: {error}", f"rm '{path}'  # it is computed again") from error
    return content if isinstance(content, dict) else {}
