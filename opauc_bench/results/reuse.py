"""Records of other folders: they are referred to by id, not copied."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from .manifest import Manifest, find_manifest
from .store import Records, Store

__all__ = ["absent_folders", "beside", "find_reusable", "join_references", "read_results", "references_to"]


def beside(folder: Path, name: str = "") -> Path:
    """The folder called ``name`` beside a results folder, or the one that both are in.

    The results folder may be written as ``.``, or be a symbolic link: then it is beside the link.
    """
    parent = os.path.dirname(os.path.abspath(folder))
    return Path(parent if folder.is_absolute() else os.path.relpath(parent), name)


def read_results(folder: Path, manifest: Manifest | None, only: Collection[str] | None = None) -> Records:
    """Read the records of a folder and those of other folders that its manifest refers to; each folder once.

    With `only`, only records with these ids are read. References to missing records are left out.
    """
    records = Store(folder).read(only)
    for name, ids in (manifest.reused if manifest else {}).items():
        wanted = {id for id in ids if id not in records or not records[id].ok}  # a failure here hides no number there
        others = Store(beside(folder, name)).read(wanted if only is None else wanted & set(only))
        taken = {id: record for id, record in others.items() if record.ok or id not in records}
        records |= taken
        records.reused |= dict.fromkeys(taken, name)
        records.damaged += others.damaged
    return records


def find_reusable(folders: Iterable[Path], ids: Collection[str], metrics: Collection[str] = ()) -> Records:
    """Find finished records in folders beside each other and in those that they refer to.

    The first record of an id that has the ``metrics`` counts; ``reused`` has the folder of each. A folder that does not
    exist has no records.
    """
    found = Records()
    for folder in folders:
        records = read_results(folder, find_manifest(folder), set(ids).difference(found))
        good = {id: record for id, record in records.items() if record.ok and set(metrics) <= record.metrics.keys()}
        found |= good
        found.reused |= {id: records.reused.get(id, folder.name) for id in good}
    return found


def absent_folders(folders: Iterable[Path]) -> list[str]:
    """Sentences on folders under ``reuse`` that do not exist: a misspelt name would cost days."""
    text = "named under reuse, does not exist: none of its records are used"
    return [f"{folder}/, {text}" for folder in folders if not folder.is_dir()]


def references_to(reused: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Turn folders by id into ids by folder."""
    names = sorted(set(reused.values()))
    return {name: tuple(sorted(id for id, folder in reused.items() if folder == name)) for name in names}


def join_references(*references: Mapping[str, Iterable[str]]) -> dict[str, tuple[str, ...]]:
    """Join references by folder; of an id in several folders the last one counts."""
    return references_to({id: name for each in references for name, ids in each.items() for id in ids})
