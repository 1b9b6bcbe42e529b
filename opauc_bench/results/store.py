"""Records on disk, in two states.

    <results>/running/<id>.json          a record of the run that is under way, written in one step; git ignores these
    <results>/running/<id>.partial       inner folds of a task under way
    <results>/running/<id>.claim         which process has begun a task
    <results>/running/again.txt          ids of records that a run computes again: `Store.note_again`
    <results>/scores/<id>.npz            test scores of a task, where the protocol keeps them
    <results>/records/<dataset>.jsonl    finished records, one a line, sorted by column, trial and fold

A file of records is written whole and moved into place; only then are the loose records that it now has removed.
So whenever a process is killed, each record is in one of the two places or, as the same text, in both.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shlex
import time
import zipfile
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from filelock import FileLock, Timeout

from ..errors import ResultsError
from ..files import named_errors, read_json, remove_file, write_bytes, write_text, written_at_once
from ..task import Task
from .record import OtherVersion, Record, record_of_line, record_to_line

__all__ = ["Records", "Store"]

RUNNING, PACKED, SCORES = "running", "records", "scores"
_AGAIN = "again.txt"
_BEGIN = b'{"id":"'
_CHECKSUM_LENGTH = len('"checksum":"0123456789abcdef"}')
_LONGEST_LOOK = 0.2  # seconds: `Store.at_work` has the lock for some microseconds


class Records(dict[str, Record]):
    """The records of a folder, by id."""

    def __init__(self, by_id: Mapping[str, Record] | None = None, reused: Mapping[str, str] | None = None):
        super().__init__(by_id or {})
        self.damaged: list[str] = []  # for each record that cannot be used, its file and line, and the problem
        self.loose: set[str] = set()  # ids of records that are not packed
        self.again: set[str] = set()  # ids of records that a run was to compute again, and has not yet
        self.reused = dict(reused or {})  # other folders of records, by id

    def of(self, task: Task) -> Record | None:
        """Return a task's record, or None if there is none."""
        return self.get(task.id or "")

    def own(self) -> Iterator[Record]:
        """Yield the records of the folder itself."""
        return (record for id, record in self.items() if id not in self.reused)

    def add(self, record: Record) -> bool:
        """Add a record that has just been computed; returns whether it replaces the one before, see `_replaces`."""
        self.again.discard(record.id)
        if not _replaces(record, self.get(record.id)):
            return False
        self[record.id] = record
        self.loose.add(record.id)
        self.reused.pop(record.id, None)
        return True

    def raise_if_damaged(self, command: str) -> None:
        """Raise a ResultsError that lists all damaged records; `command` computes them again."""
        if self.damaged:
            count = f"{len(self.damaged)} damaged record{'s' if len(self.damaged) > 1 else ''}"
            raise ResultsError("\n  ".join([f"{count}:", *self.damaged]), f"{command}  # computes them again")


class _Line(NamedTuple):
    """A packed record: its position in the order of its file, and its text."""

    order: tuple[str, int, int, str]
    text: bytes
    record: Record

    @classmethod
    def of(cls, record: Record, text: bytes | None = None) -> _Line:
        order = record.column, record.trial, record.fold, record.id
        return cls(order, record_to_line(record) if text is None else text, record)


class Store:
    """The records of one results folder."""

    def __init__(self, folder: Path):
        self.folder = folder

    def packed_path(self, dataset: str) -> Path:
        return self.folder / PACKED / f"{dataset}.jsonl"

    def loose_path(self, task: Task | Record) -> Path:
        return self.folder / RUNNING / f"{task.id}.json"

    def partial_path(self, task: Task | Record) -> Path:
        return self.folder / RUNNING / f"{task.id}.partial"

    def read(self, only: Collection[str] | None = None) -> Records:
        """Read all records, packed and loose, or those with the ids in `only`.

        Of the same id the loose one counts, unless it is a failure and the packed one has a number.

        Damaged records are listed in the result, and raise nothing. A run may be at work in the folder: since `pack`
        moves records from loose to packed files, the loose ones are read first.

        Raises
        ------
        ResultsError
            If a folder cannot be read, or if another version of this package has written a record.
        """
        found, damaged = Records(), []
        conflicts: set[str] = set()
        for path in self._loose():
            if only is None or path.stem in only:
                try:
                    loose, _ = _loose_line(path)
                except FileNotFoundError:
                    continue  # packed since the folder was listed
                except PermissionError as error:
                    raise _unreadable(path) from error
                except (OSError, ValueError) as error:
                    damaged.append(f"{path}: {_reason(error)}")
                else:
                    found.add(loose)
        for path in self._packed():
            try:
                for number, _, record in _packed_lines(path, only):
                    if isinstance(record, ValueError):
                        found.damaged.append(f"{path}, line {number}: {record}")
                        conflicts |= {record.id} if isinstance(record, _Conflict) else set()
                    elif record.id not in found or not _replaces(found[record.id], record):
                        found[record.id] = record
            except FileNotFoundError:
                continue  # its last record was removed since the folder was listed
            except PermissionError as error:
                raise _unreadable(path) from error
            except OSError as error:
                found.damaged.append(f"{path}: {_reason(error)}")
        found.damaged += damaged
        for id in conflicts - found.loose:
            found.pop(id, None)
        found.again = self._again() - found.loose
        return found

    def _packed(self) -> list[Path]:
        return self._files(PACKED, ".jsonl")

    def _loose(self) -> list[Path]:
        return self._files(RUNNING, ".json")

    def _files(self, name: str, suffix: str) -> list[Path]:
        folder = self.folder / name
        try:
            return sorted(folder / file for file in os.listdir(folder) if file.endswith(suffix))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise ResultsError(f"{folder} cannot be read: {error.strerror}", f"chmod -R u+rX '{folder}'") from error

    def read_loose(self, task: Task) -> Record | None:
        """Return the loose record of a task, or None if there is none or it is damaged."""
        try:
            return record_of_line(self.loose_path(task).read_bytes())
        except (OSError, ValueError):
            return None

    def write(self, record: Record) -> None:
        """Write a loose record and remove its inner folds."""
        write_bytes(self.loose_path(record), record_to_line(record) + b"\n")
        remove_file(self.partial_path(record))

    def scores_path(self, id: str) -> Path:
        """Where the test scores of a task are kept."""
        return self.folder / SCORES / f"{id}.npz"

    def write_scores(
        self, task: Task, rows: np.ndarray, y: np.ndarray, scores: np.ndarray, probabilities: np.ndarray | None
    ) -> None:
        """Keep the test scores of a task, compressed; the same scores give the same bytes."""
        path = self.scores_path(task.id or "")
        with named_errors(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
        arrays = {"rows": rows, "y": y, "scores": scores}
        if probabilities is not None:
            arrays["probabilities"] = probabilities
        with written_at_once(path) as stream:
            np.savez_compressed(stream, **arrays)  # type: ignore[arg-type]

    def scores_file(self, id: str) -> bytes | None:
        """The file of a task's test scores; None where they were not kept."""
        path = self.scores_path(id)
        return path.read_bytes() if path.is_file() else None

    def write_scores_file(self, id: str, content: bytes | None) -> None:
        """Keep what another folder's `scores_file` has given."""
        if content is not None:
            write_bytes(self.scores_path(id), content)

    def copy_scores(self, other: Store, id: str) -> None:
        """Copy the test scores of a task from another folder, if they were kept there and are not here."""
        if not self.scores_path(id).is_file():
            self.write_scores_file(id, other.scores_file(id))

    def read_scores(self, id: str) -> dict[str, np.ndarray] | None:
        """Rows, labels, scores and perhaps probabilities of a task; None where they were not kept.

        Raises
        ------
        ResultsError
            If the file is damaged.
        """
        path = self.scores_path(id)
        if not path.is_file():
            return None
        try:
            with np.load(path, allow_pickle=False) as archive:
                kept = {name: archive[name] for name in archive.files}
        except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise self.damaged_scores_error(id, str(error)) from error
        if not {"rows", "y", "scores"} <= set(kept) or len({array.shape for array in kept.values()}) > 1:
            found = ", ".join(f"{name} {array.shape}" for name, array in kept.items())
            raise self.damaged_scores_error(id, f"expected rows, y and scores of one length, got {found or 'nothing'}")
        return kept

    def damaged_scores_error(self, id: str, reason: str) -> ResultsError:
        """The error for the file of a task's test scores."""
        path = self.scores_path(id)
        return ResultsError(
            f"{path} is damaged: {reason}", f"rm '{path}' and compute this task again: opauc-bench run ... --fresh"
        )

    def note_again(self, tasks: Iterable[Task]) -> None:
        """Note that tasks are to be computed again, from the start; their records stay until the new ones are written.

        The records of an interrupted run are packed first, so that a loose record is a new one from here on.
        """
        self.pack()
        tasks = list(tasks)
        for task in tasks:
            remove_file(self.partial_path(task))
        self._write_again(self._again().union(str(task.id) for task in tasks))

    def discard(self, record: Record) -> None:
        """Remove a loose failure that replaces no number, here or in another folder; see `_replaces`."""
        if again := self._again():
            self._write_again(again - {record.id})
        remove_file(self.loose_path(record))

    @property
    def again_path(self) -> Path:
        return self.folder / RUNNING / _AGAIN

    def _again(self) -> set[str]:
        try:
            return set(self.again_path.read_text(encoding="ascii", errors="replace").split())
        except (FileNotFoundError, NotADirectoryError):
            return set()
        except OSError as error:
            raise _unreadable(self.again_path) from error

    def _write_again(self, ids: Collection[str]) -> None:
        if ids:
            write_text(self.again_path, "".join(f"{id}\n" for id in sorted(ids)))
        else:
            remove_file(self.again_path)

    def remove(self, tasks: Iterable[Task | Record]) -> None:
        """Remove the records of tasks, then their test scores, and their inner folds."""
        tasks = list(tasks)
        ids: dict[str, set[str]] = {}
        for task in tasks:
            ids.setdefault(task.dataset, set()).add(str(task.id))
            remove_file(self.loose_path(task))
            remove_file(self.partial_path(task))
        for dataset, gone in ids.items():
            lines, _ = self._lines(dataset)
            if not gone.isdisjoint(lines):
                self._write_packed(dataset, {id: line for id, line in lines.items() if id not in gone})
        for task in tasks:
            self.remove_scores(str(task.id))

    def remove_scores(self, id: str) -> None:
        """Remove the test scores of a task, if they were kept."""
        remove_file(self.scores_path(id))

    def remove_damaged(self) -> None:
        """Remove the lines and the loose records that `read` lists as damaged."""
        for path in self._packed():
            lines, n_lines = self._lines(path.stem)
            if len(lines) < n_lines:
                self._write_packed(path.stem, lines)
        for path in self._loose():
            try:
                _loose_line(path)
            except (OSError, ValueError):
                remove_file(path)

    def pack(self, more: Iterable[Record] = ()) -> int:
        """Pack loose records, and `more`; damaged packed lines are removed. Returns the number of records given.

        A failure is not packed where there is a number; see `_replaces`.
        """
        added: dict[str, dict[str, _Line]] = {}
        loose: dict[str, list[Path]] = {}
        for path in self._loose():
            with contextlib.suppress(OSError, ValueError):
                record, text = _loose_line(path)
                added.setdefault(record.dataset, {})[record.id] = _Line.of(record, text)
                loose.setdefault(record.dataset, []).append(path)
        for record in more:
            added.setdefault(record.dataset, {})[record.id] = _Line.of(record)
        for dataset, lines in added.items():
            packed, _ = self._lines(dataset)
            for id, line in lines.items():
                if _replaces(line.record, packed[id].record if id in packed else None):
                    packed[id] = line
            self._write_packed(dataset, packed)
            paths = loose.get(dataset, [])
            if again := self._again():
                self._write_again(again - {path.stem for path in paths})
            for path in paths:
                remove_file(path)
        with contextlib.suppress(OSError):  # it has inner folds of unfinished tasks, or does not exist
            (self.folder / RUNNING).rmdir()
        return sum(map(len, added.values()))

    def forget_other_tasks(self, tasks: Iterable[Task]) -> None:
        """Remove the inner folds of tasks that are not among `tasks`, and the notes that they are to be computed again.

        The experiment does not have these tasks any more.
        """
        known = {str(task.id) for task in tasks}
        for path in self.folder.glob(f"{RUNNING}/*.partial"):
            if path.stem not in known:
                remove_file(path)
        if again := self._again():
            self._write_again(again & known)

    def _lines(self, dataset: str) -> tuple[dict[str, _Line], int]:
        """A dataset's packed records that are not damaged, by id, and the number of all lines."""
        path, lines, n_lines = self.packed_path(dataset), {}, 0
        conflicts: set[str] = set()
        try:
            for _, text, record in _packed_lines(path):
                n_lines += 1
                if isinstance(record, Record):
                    lines[record.id] = _Line.of(record, text)
                elif isinstance(record, _Conflict):
                    conflicts.add(record.id)
        except FileNotFoundError:
            pass
        except PermissionError as error:
            raise _unreadable(path) from error
        except OSError as error:
            raise ResultsError(
                f"{path} cannot be read: {error.strerror}", "make it readable, or remove it to compute it again"
            ) from error
        return {id: line for id, line in lines.items() if id not in conflicts}, n_lines

    def _write_packed(self, dataset: str, lines: Mapping[str, _Line]) -> None:
        if lines:
            write_bytes(self.packed_path(dataset), b"".join(line.text + b"\n" for line in sorted(lines.values())))
        else:
            remove_file(self.packed_path(dataset))

    def read_partial(self, task: Task) -> dict[str, Any]:
        """Inner folds of an interrupted run; an empty dict if there are none, or if they are damaged."""
        try:
            partial = read_json(self.partial_path(task))
        except (OSError, ValueError):
            return {}
        checksum = partial.pop("checksum", None) if isinstance(partial, dict) else None
        return partial if checksum and checksum == _checksum(partial) and partial.get("id") == task.id else {}

    def write_partial(self, task: Task, partial: dict[str, Any]) -> None:
        """Keep inner folds, with a checksum, since their numbers become part of a record."""
        content = {"id": task.id, **partial}
        text = json.dumps({**content, "checksum": _checksum(content)}, allow_nan=False)
        write_text(self.partial_path(task), text + "\n")

    def claim(self, task: Task, pid: int) -> Path:
        """Write, and return, a file that says that a worker has begun a task: to know which one a worker died in."""
        path = self._claim_path(task)
        write_text(path, json.dumps({"pid": pid}), durable=False)  # no process is at work after a power cut
        return path

    def clear_claim(self, task: Task) -> str | None:
        """Remove the file of `claim`; return its content, or None if there was none."""
        path = self._claim_path(task)
        try:
            content = path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return None
        remove_file(path)
        return content

    def begun(self) -> dict[str, float]:
        """For how many seconds each task that a worker has noted has been running, by id."""
        begun, now = {}, time.time()
        for path in (self.folder / RUNNING).glob("*.claim"):
            with contextlib.suppress(FileNotFoundError):
                begun[path.stem] = max(0.0, now - path.stat().st_mtime)
        return begun

    def _claim_path(self, task: Task) -> Path:
        return self.folder / RUNNING / f"{task.id}.claim"

    def remove_leftovers(self) -> None:
        """Remove temporary files and claims of killed processes; call only while no other process writes."""
        in_folders = [f"{name}/.*.tmp" for name in (RUNNING, PACKED, SCORES)]
        for pattern in (".*.*.????????.tmp", f"{RUNNING}/*.claim", *in_folders):
            for path in self.folder.glob(pattern):
                remove_file(path)

    @contextmanager
    def locked(self, readable: bool = False) -> Iterator[ResultsError | None]:
        """Keep other runs out of the folder; raises ResultsError if there is one. The lock ends with the process.

        A folder that did not exist and in which nothing was written is removed again. With `readable`, the error for a
        folder that exists and cannot be written is yielded, for the caller to raise before it writes.
        """
        made = [path for path in (self.folder, *self.folder.parents) if not path.exists()]
        path = self._lock_path
        lock = FileLock(path, timeout=_LONGEST_LOOK)
        refused = None
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            owner = self._owner()  # before the attempt, since old versions of filelock empty the file
            lock.acquire()
            path.write_text(str(os.getpid()), encoding="ascii")
        except Timeout:
            raise ResultsError(
                f"{self.folder}: another run (process {owner}) is at work in this folder",
                "wait for it, or select another folder for this one with --out",
            ) from None
        except (FileExistsError, NotADirectoryError) as error:
            reason = "it is a file" if isinstance(error, FileExistsError) else "it is in a file"
            raise ResultsError(f"{self.folder} cannot be written: {reason}, expected a folder", "--out DIR") from None
        except OSError as error:
            refused = ResultsError(
                f"{self.folder} cannot be written: {error.strerror}", "select another folder (run --out, report --to)"
            )
            if made or not readable:
                raise refused from error
        try:
            if not refused:
                self.remove_leftovers()
            yield refused
        finally:
            with contextlib.suppress(OSError):  # it may have been removed, which must not hide another error
                if made and not any(entry != path for entry in self.folder.iterdir()):
                    path.unlink()
                    for empty in made:
                        empty.rmdir()
            lock.release()

    def at_work(self) -> str | None:
        """The process id of the run that has locked the folder, "?" if it is not known; None if there is none."""
        try:
            with self._lock_path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return self._owner()
        except OSError:
            pass
        return None

    @property
    def _lock_path(self) -> Path:
        return self.folder / ".lock"

    def _owner(self) -> str:
        """The process that was the last one to lock the folder."""
        return (self._lock_path.read_text("ascii", "replace").strip() if self._lock_path.exists() else "") or "?"


def _replaces(new: Record, old: Record | None) -> bool:
    """Whether a record replaces an older one of the same id.

    A time or memory limit, or an error, may be due to the machine or to a limit of this run: a number stays.
    """
    return old is None or not old.ok or new.ok or new.status == "diverged"


def _result(record: Record) -> str:
    """The content of a record without times and machine."""
    return record.model_dump_json(exclude={"timing", "environment"})


class _Conflict(ValueError):
    """Two lines of one id that differ: neither counts."""

    def __init__(self, id: str):
        super().__init__(f"another line has the same id {id} and other content")
        self.id = id


def _packed_lines(path: Path, only: Collection[str] | None = None) -> Iterator[tuple[int, bytes, Record | ValueError]]:
    """Number, text and record of each line, or why it is damaged; with `only`, lines with these ids.

    Lines with one id that agree but for times and machine, as a merge by hand leaves them, are one record: the first
    counts. Where they differ, the second one is a `_Conflict`, and the caller drops the record.
    """
    known: dict[str, tuple[bytes, Record]] = {}
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            text = line.rstrip(b"\r\n")
            # A line that is damaged at its id cannot be known to be one of these.
            if not text.strip() or (only is not None and _id_at_begin(text) not in only):
                continue
            try:
                record = record_of_line(text)
                if record.dataset != path.stem:
                    raise ValueError(f"it is about {record.dataset}")
                checksum = text[-_CHECKSUM_LENGTH:]
                of_first, first = known.setdefault(record.id, (checksum, record))
                if checksum != of_first:
                    if _result(record) != _result(first):
                        raise _Conflict(record.id)
                    continue
            except OtherVersion as error:
                raise _of_other_version(f"{path}, line {number}", error) from None
            except ValueError as error:
                yield number, text, error
            else:
                yield number, text, record


def _loose_line(path: Path) -> tuple[Record, bytes]:
    """The record in a loose file and its text; raises OSError or ValueError."""
    text = path.read_bytes().rstrip(b"\n")
    try:
        record = record_of_line(text)
    except OtherVersion as error:
        raise _of_other_version(str(path), error) from None
    if record.id != path.stem:
        raise ValueError(f"it has the id {record.id}")
    return record, text


def _of_other_version(place: str, error: OtherVersion) -> ResultsError:
    """The error for a record that is intact, and that must not be removed or computed again."""
    return ResultsError(
        f"{place}: {error}; another version of opauc-bench has written this record",
        "install the version that wrote it, most likely a later one, or select another folder with --out",
    )


def _id_at_begin(line: bytes) -> str:
    begin, id = line[: len(_BEGIN)], line[len(_BEGIN) : len(_BEGIN) + 16]
    return id.decode(errors="replace") if begin == _BEGIN else ""


def _unreadable(path: Path) -> ResultsError:
    return ResultsError(f"{path} cannot be read: Permission denied", f"chmod u+r {shlex.quote(str(path))}")


def _reason(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


def _checksum(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
