"""Records on disk, in two states.

    <results>/running/<id>.json          a record of the run that is under way, written in one step; git ignores these
    <results>/running/<id>.partial       inner folds of a task under way
    <results>/running/<id>.claim         which process has begun a task
    <results>/records/<dataset>.jsonl    finished records, one a line, sorted by column, trial and fold

A file of records is written whole and moved into place; only then are the loose records that it has taken up removed.
So whenever a process is killed, each record is in one of the two places or, as the same text, in both.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import hashlib
import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import ResultsError
from ..files import read_json, remove_file, write_bytes, write_text
from ..task import Task
from .record import Record, record_of_line, record_to_line

__all__ = ["Damage", "Records", "Store"]

RUNNING, PACKED = "running", "records"
_BEGIN = b'{"id":"'


@dataclass(frozen=True)
class Damage:
    """A record that cannot be used.

    Attributes
    ----------
    place : str
        File, and line where it has several.
    problem : str
    """

    place: str
    problem: str

    def __str__(self) -> str:
        return f"{self.place}: {self.problem}"


@dataclass
class Records(Mapping[str, Record]):
    """The records of a folder, by id.

    Attributes
    ----------
    by_id : dict of str to Record
    damaged : list of Damage
    loose : set of str
        Ids of those that are not packed.
    reused : dict of str to str
        Folders of records that are not this folder's own, by id.
    """

    by_id: dict[str, Record] = field(default_factory=dict)
    damaged: list[Damage] = field(default_factory=list)
    loose: set[str] = field(default_factory=set)
    reused: dict[str, str] = field(default_factory=dict)

    def __getitem__(self, id: str) -> Record:
        return self.by_id[id]

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_id)

    def __len__(self) -> int:
        return len(self.by_id)

    def of(self, task: Task) -> Record | None:
        """Return a task's record, or None if there is none."""
        return None if task.id is None else self.by_id.get(task.id)

    def own(self) -> Iterator[Record]:
        """Yield the records that are in the folder itself."""
        return (record for id, record in self.by_id.items() if id not in self.reused)

    def add(self, record: Record) -> None:
        """Take up a record that has just been computed."""
        self.by_id[record.id] = record
        self.loose.add(record.id)
        self.reused.pop(record.id, None)

    def raise_if_damaged(self, mend: str) -> None:
        """Refuse damaged records, all at once.

        Raises
        ------
        ResultsError
        """
        if self.damaged:
            count = f"{len(self.damaged)} damaged record{'s' if len(self.damaged) > 1 else ''}"
            raise ResultsError("\n  ".join([f"{count}:", *map(str, self.damaged)]), f"{mend}  # computes them again")


class _Line(NamedTuple):
    """A packed record: where it stands in its file, and its text."""

    order: tuple[str, int, int, str]
    text: bytes


class Store:
    """The records of one results folder.

    Parameters
    ----------
    folder : Path
    """

    def __init__(self, folder: Path):
        self.folder = folder

    def packed_path(self, dataset: str) -> Path:
        """File of a dataset's finished records."""
        return self.folder / PACKED / f"{dataset}.jsonl"

    def loose_path(self, task: Task | Record) -> Path:
        """File of a record of the run that is under way."""
        return self.folder / RUNNING / f"{task.id}.json"

    def partial_path(self, task: Task) -> Path:
        """File of the inner folds of a task that is under way."""
        return self.folder / RUNNING / f"{task.id}.partial"

    # ------------------------------------------------------------------ reading

    def read(self, only: Collection[str] | None = None) -> Records:
        """Read all records, packed and loose; of the same id the loose one counts.

        Parameters
        ----------
        only : collection of str, optional
            Ids to read; others are passed over unread.

        Returns
        -------
        Records
            What is damaged is listed there, and raises nothing.
        """
        found = Records()
        with _no_garbage_collection():
            for path in self._packed():
                self._read_packed(path, found, only)
            for path in sorted(self.folder.glob(f"{RUNNING}/*.json")):
                if only is None or path.stem in only:
                    self._read_loose(path, found)
        return found

    def _packed(self) -> list[Path]:
        return sorted(self.folder.glob(f"{PACKED}/*.jsonl"))

    def _read_packed(self, path: Path, found: Records, only: Collection[str] | None) -> None:
        try:
            with path.open("rb") as file:
                for number, line in enumerate(file, 1):
                    if not line.strip():
                        continue
                    # A line that is damaged where the id stands cannot be known to be one of these.
                    if only is not None and _id_at_begin(line) not in only:
                        continue
                    try:
                        record = record_of_line(line)
                        if record.id in found.by_id:
                            raise ValueError(f"another line has the same id {record.id}")
                        if record.dataset != path.stem:
                            raise ValueError(f"it is about {record.dataset}")
                    except ValueError as error:
                        found.damaged.append(Damage(f"{path}, line {number}", _said(error)))
                    else:
                        found.by_id[record.id] = record
        except OSError as error:
            found.damaged.append(Damage(str(path), _said(error)))

    def _read_loose(self, path: Path, found: Records) -> None:
        try:
            record, _ = _loose_line(path)
        except (OSError, ValueError) as error:
            found.damaged.append(Damage(str(path), _said(error)))
        else:
            found.by_id[record.id] = record
            found.loose.add(record.id)

    def read_loose(self, task: Task) -> Record | None:
        """Return the record that the run under way has written for a task, or None; a damaged one counts as none."""
        try:
            return record_of_line(self.loose_path(task).read_bytes())
        except (OSError, ValueError):
            return None

    # ------------------------------------------------------------------ writing

    def write(self, record: Record) -> None:
        """Write a loose record and forget its inner folds."""
        write_bytes(self.loose_path(record), record_to_line(record) + b"\n")
        remove_file(self.partial_path(record))

    def discard(self, tasks: Iterable[Task]) -> None:
        """Forget the records of tasks and their inner folds, so that they are computed again."""
        ids: dict[str, set[str]] = {}
        for task in tasks:
            ids.setdefault(task.dataset, set()).add(str(task.id))
            remove_file(self.loose_path(task))
            remove_file(self.partial_path(task))
        for dataset, gone in ids.items():
            lines = self._lines(dataset)
            if not gone.isdisjoint(lines):
                self._write_packed(dataset, {id: line for id, line in lines.items() if id not in gone})

    def remove_damaged(self) -> None:
        """Remove lines and loose records that `read` calls damaged: whatever they were of, they are of no use.

        Raises
        ------
        ResultsError
            If a file cannot be read, or not be written.
        """
        for path in self._packed():
            lines = self._lines(path.stem)
            if len(lines) < len(self._texts(path.stem)):
                self._write_packed(path.stem, lines)
        for path in self.folder.glob(f"{RUNNING}/*.json"):
            try:
                _loose_line(path)
            except (OSError, ValueError):
                remove_file(path)

    def pack(self, more: Iterable[Record] = ()) -> int:
        """Take loose records up into the files of finished ones; lines that are damaged are dropped from these.

        Parameters
        ----------
        more : iterable of Record
            Further records to take up, in place of those with the same id.

        Returns
        -------
        int
            How many records were taken up.
        """
        added: dict[str, dict[str, _Line]] = {}
        loose: dict[str, list[Path]] = {}
        for path in sorted(self.folder.glob(f"{RUNNING}/*.json")):
            with contextlib.suppress(OSError, ValueError):
                record, text = _loose_line(path)
                added.setdefault(record.dataset, {})[record.id] = _Line(_order(record), text)
                loose.setdefault(record.dataset, []).append(path)
        for record in more:
            added.setdefault(record.dataset, {})[record.id] = _Line(_order(record), record_to_line(record))
        for dataset, lines in added.items():
            self._write_packed(dataset, {**self._lines(dataset), **lines})
            for path in loose.get(dataset, ()):
                remove_file(path)
        with contextlib.suppress(OSError):  # it has inner folds of tasks that are not finished, or is not there
            (self.folder / RUNNING).rmdir()
        return sum(map(len, added.values()))

    def _lines(self, dataset: str) -> dict[str, _Line]:
        """A dataset's packed records that are not damaged, by id."""
        lines: dict[str, _Line] = {}
        for text in self._texts(dataset):
            with contextlib.suppress(ValueError):
                record = record_of_line(text)
                if record.dataset == dataset:
                    lines.setdefault(record.id, _Line(_order(record), text))
        return lines

    def _texts(self, dataset: str) -> list[bytes]:
        """All lines of a dataset's file, damaged or not."""
        path = self.packed_path(dataset)
        try:
            return [line for line in path.read_bytes().splitlines() if line.strip()]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise ResultsError(
                f"{path} cannot be read: {error.strerror}", "make it readable, or remove it to compute it again"
            ) from error

    def _write_packed(self, dataset: str, lines: Mapping[str, _Line]) -> None:
        if lines:
            write_bytes(self.packed_path(dataset), b"".join(line.text + b"\n" for line in sorted(lines.values())))
        else:
            remove_file(self.packed_path(dataset))

    # ------------------------------------------------------------------ tasks under way

    def read_partial(self, task: Task) -> dict[str, Any]:
        """Inner folds that an interrupted run has left, or an empty dict; what is damaged is dropped."""
        try:
            partial = read_json(self.partial_path(task))
        except (OSError, ValueError):
            return {}
        checksum = partial.pop("checksum", None) if isinstance(partial, dict) else None
        return partial if checksum and checksum == _checksum(partial) and partial.get("id") == task.id else {}

    def write_partial(self, task: Task, partial: dict[str, Any]) -> None:
        """Keep inner folds; numbers go from there into a record, so that they have a checksum."""
        content = {"id": task.id, **partial}
        text = json.dumps({**content, "checksum": _checksum(content)}, allow_nan=False)
        write_text(self.partial_path(task), text + "\n")

    def claim(self, task: Task, pid: int) -> Path:
        """Note that a worker has begun a task, so that it is known who was at work when one dies; returns the note."""
        path = self._claim_path(task)
        write_text(path, json.dumps({"pid": pid}), durable=False)  # no process is at work after a power cut
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
        return self.folder / RUNNING / f"{task.id}.claim"

    def sweep(self) -> None:
        """Remove what killed writers have left; call only while no other process writes."""
        leftovers = [*self.folder.glob(".*.*.????????.tmp"), *self.folder.glob(f"{RUNNING}/*.claim")]
        for place in (RUNNING, PACKED):
            leftovers += self.folder.glob(f"{place}/.*.tmp")
        for path in leftovers:
            remove_file(path)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other runs out of the folder; the lock goes with the process, however it ends.

        A folder that did not exist and in which nothing was written is removed again.

        Raises
        ------
        ResultsError
            If another run is at work there, or the folder cannot be written.
        """
        made = [path for path in (self.folder, *self.folder.parents) if not path.exists()]
        path = self.folder / ".lock"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            file = open(path, "a+", encoding="ascii")  # noqa: SIM115 (held open on purpose)
        except OSError as error:
            raise ResultsError(
                f"{self.folder} cannot be written: {error.strerror}",
                "choose another folder (run --out, report --to)",
            ) from error
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                file.seek(0)
                owner = file.read().strip() or "?"
                raise ResultsError(
                    f"{self.folder}: another run (process {owner}) is at work in this folder",
                    "wait for it, or give this one a folder of its own with --out",
                ) from None
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            self.sweep()
            try:
                yield
            finally:
                if made and not any(entry != path for entry in self.folder.iterdir()):
                    path.unlink()
                    for empty in made:
                        with contextlib.suppress(OSError):
                            empty.rmdir()


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Records have no cycles, and looking for them takes as long as reading a hundred thousand of them."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _loose_line(path: Path) -> tuple[Record, bytes]:
    """The record in a loose file and its text; raises OSError or ValueError."""
    text = path.read_bytes().rstrip(b"\n")
    record = record_of_line(text)
    if record.id != path.stem:
        raise ValueError(f"it has the id {record.id}")
    return record, text


def _id_at_begin(line: bytes) -> str:
    begin, id = line[: len(_BEGIN)], line[len(_BEGIN) : len(_BEGIN) + 16]
    return id.decode(errors="replace") if begin == _BEGIN else ""


def _order(record: Record) -> tuple[str, int, int, str]:
    return record.column, record.trial, record.fold, record.id


def _said(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


def _checksum(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
