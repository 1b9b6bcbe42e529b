"""Results folders as tests read them and edit them, and the beginning of a file of learners."""

import csv
import hashlib
import json
from pathlib import Path

from opauc_bench.results.record import Record, record_of_line
from opauc_bench.results.store import Store

HEBB = Path(__file__).with_name("reference").joinpath("hebb.py").read_text()  # for files of learners
REMOVED = "(removed)"  # text, so that names of tests are the same in every process


def records_of(folder: Path) -> list[Record]:
    """All records in a folder, by dataset, column, trial and fold; they are not damaged."""
    found = Store(folder).read()
    assert not found.damaged
    return sorted(found.values(), key=key_of)


def record_of(folder: Path, dataset: str = "wine", column: str = "opauc", fold: int = 1, trial: int = 1) -> Record:
    """The record of a task; trial and fold count from 1, as in messages."""
    place = (dataset, column, trial - 1, fold - 1)
    (record,) = (r for r in records_of(folder) if (r.dataset, r.column, r.trial, r.fold) == place)
    return record


def key_of(record: Record) -> tuple[str, str, int, int, str]:
    return record.dataset, record.column, record.trial, record.fold, record.id


def contents(folder: Path) -> dict[tuple, dict]:
    """All records by place, without what may differ from run to run."""
    return {
        key_of(record): record.model_dump(mode="json", exclude_defaults=True, exclude={"timing", "environment"})
        for record in records_of(folder)
    }


def rows_of(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file by column."""
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def edit(folder: Path, record: Record, changes: dict[str, object]) -> None:
    """Change a packed record as with an editor: its checksum stays, and is wrong now.

    Parameters
    ----------
    folder : Path
    record : Record
    changes : dict
        New values by dotted path; `REMOVED` takes a key away.
    """
    _replace_line(folder, record, lambda line: _plain(changed(json.loads(line), changes)))


def forge(folder: Path, record: Record, changes: dict[str, object]) -> None:
    """Change a packed record and its checksum with it; the content need not be that of a record any more."""
    _replace_line(folder, record, lambda line: forged(line, lambda content: changed(content, changes)))


def forged(line: bytes, change) -> bytes:
    """A line whose content was changed and whose checksum was made to fit."""
    content = json.loads(line)
    del content["checksum"]
    change(content)
    return signed(content)


def signed(content: dict) -> bytes:
    """The line of a record with this content, whatever that is; written out here, `record_to_line` is under test."""
    return with_checksum(_plain(content)[:-1])


def with_checksum(body: bytes) -> bytes:
    """The text of an object without its closing brace, with the checksum that belongs to it."""
    return b'%s,"checksum":"%s"}' % (body, hashlib.sha256(body).hexdigest()[:16].encode())


def changed(content: dict, changes: dict[str, object]) -> dict:
    """Content with new values by dotted path."""
    for path, value in changes.items():
        *way, last = path.split(".")
        part = content
        for key in way:
            part = part[key]
        if value is REMOVED:
            del part[last]
        else:
            part[last] = value
    return content


def remove_records(folder: Path, *records: Record) -> None:
    """Take lines away."""
    for record in records:
        _replace_line(folder, record, lambda line: b"")


def _plain(content: dict) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()


def _replace_line(folder: Path, record: Record, new) -> None:
    path = Store(folder).packed_path(record.dataset)
    lines = path.read_bytes().splitlines()
    (number,) = (i for i, line in enumerate(lines) if line.startswith(b'{"id":"%s"' % record.id.encode()))
    assert record_of_line(lines[number]).id == record.id, "it is not damaged yet"
    before, lines[number] = lines[number], new(lines[number])
    assert lines[number] != before
    path.write_bytes(b"".join(line + b"\n" for line in lines if line))


def unpack(folder: Path) -> None:
    """Make of a folder what an interrupted run leaves: the same records as loose files."""
    store = Store(folder)
    for record in records_of(folder):
        store.write(record)
        store.packed_path(record.dataset).unlink(missing_ok=True)
    (folder / "records").rmdir()


def snapshot(folder: Path) -> dict[str, object]:
    """All that a reading command must not change: names, contents and times of files, and folders."""
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes()) if path.is_file() else None
        for path in folder.rglob("*")
    }
