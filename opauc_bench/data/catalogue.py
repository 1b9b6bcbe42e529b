"""The catalogue: one YAML entry per dataset, packaged or a user's own."""

import functools
import json
import os.path
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ..errors import ConfigError, suggest
from ..sentences import Problem, Problems, problems_of
from ..yamlio import Document, read_yaml
from .entry import FILE_SOURCES, NAME, ROW_METADATA, RULES, DatasetEntry, FileSpec, Strict, packaged_catalogue

__all__ = ["load_catalogue"]

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


class _Catalogue(Strict):
    datasets: dict[str, DatasetEntry]

    def _problems(self) -> list[Problem]:
        problems = []
        for key, entry in self.datasets.items():
            if not NAME.match(key):
                problems.append(Problem(("datasets", key), "expected letters, digits, '.', '_' and '-'", at_key=True))
            if entry.name:
                problems.append(Problem(("datasets", key, "name"), "the key above is the name", at_key=True))
        return problems


def load_catalogue(
    extra: Path | Mapping[str, Any] | None = None, experiment: Path | None = None
) -> dict[str, DatasetEntry]:
    """Read the packaged catalogue, and optionally the entries of a user.

    Parameters
    ----------
    extra : Path or mapping, optional
        A file with the schema of the packaged catalogue, or an experiment file with entries or the path of such a file
        under ``catalogue``; or entries by name.
    experiment : Path, optional
        The experiment file that has the entries.

    Raises
    ------
    ConfigError
        With file, line and column: a mistake in a catalogue. Also a name of the packaged catalogue.
    Problems
        Mistakes in entries that are not from a file.
    """
    packaged = packaged_catalogue()
    entries = dict(_read_packaged(packaged, packaged.stat().st_mtime_ns))
    if isinstance(extra, Mapping):
        own = _entries_of(extra, entries, experiment or Path("experiment.yaml"))
        entries |= own
    elif extra is not None:
        document = read_yaml(extra)
        of_experiment = document.data.get("catalogue")
        if isinstance(of_experiment, dict):
            return entries | _entries_in(document, of_experiment, entries, Path(extra))
        if isinstance(of_experiment, str):
            extra = Path(extra).parent / of_experiment
        own = _read(Path(extra), entries)
        if taken := sorted(set(entries) & set(own)):
            message = f"{extra}: the packaged catalogue already has {', '.join(taken)}"
            raise ConfigError(message, "give your entry another name")
        for entry in own.values():
            entry._file = Path(extra)
        entries |= own
    return entries


@functools.lru_cache(maxsize=1)
def _read_packaged(path: Path, changed: int) -> dict[str, DatasetEntry]:
    return _read(path, {})


def _read(path: Path, others: dict[str, DatasetEntry]) -> dict[str, DatasetEntry]:
    document = read_yaml(path)
    own = document.data.get("datasets")
    if isinstance(own, dict):
        try:
            complete = _complete(own, others, path)
        except Problems as error:
            raise document.error(error.problems) from None
        document = replace(document, data=document.data | {"datasets": complete})
    return _named(document.validate(_Catalogue), others)


def _complete(own: Mapping[str, Any], others: dict[str, DatasetEntry], path: Path) -> dict[str, Any]:
    """The content of entries with the settings of their bases, with defaults, and with addresses for paths."""
    known = {
        name: entry.model_dump(mode="json", exclude_unset=True, exclude={"name"}) for name, entry in others.items()
    }
    known |= own
    folder = path.absolute().parent
    return {name: _placed(_with_defaults(name, _derived(name, known)), folder) for name in own}


def _named(catalogue: _Catalogue, others: dict[str, DatasetEntry]) -> dict[str, DatasetEntry]:
    """Entries with their names and the folders of their files."""
    entries = {name: entry.model_copy(update={"name": name}) for name, entry in catalogue.datasets.items()}
    _share_folders(entries, others)
    return entries


def _share_folders(entries: dict[str, DatasetEntry], others: dict[str, DatasetEntry]) -> None:
    """Let entries keep their files in the folder of their base, unless they have other ones, or others of a name."""
    for entry in entries.values():
        if entry.base is not None:
            base = (others | entries)[entry.base]
            of_base = {file.name: file for form in base.forms for file in form.data_files}
            common = [(file, of_base[file.name]) for file in entry.data_files if file.name in of_base]
            if not entry.data_files or (common and all(_may_be_same(*pair) for pair in common)):
                entry._home = base.name
                shared = [file for form in base.forms for file in form.all_files]
                own = (set(form.all_files) - set(form.data_files) - set(shared) for form in entry.forms)
                entry._own_files = frozenset().union(*own)


def _may_be_same(file: FileSpec, other: FileSpec) -> bool:
    """Whether a file of an entry is that of the same name of its base, as far as the entry says."""
    if file.sha256 is not None and other.sha256 is not None:
        return file.sha256 == other.sha256
    return not file.urls or file.urls == other.urls


def _entries_in(
    experiment: Document, own: dict[str, Any], packaged: dict[str, DatasetEntry], path: Path
) -> dict[str, DatasetEntry]:
    """Entries of an experiment file, the rest of which is not checked."""
    try:
        return _entries_of(own, packaged, path)
    except Problems as error:
        problems = [replace(problem, loc=("catalogue", *problem.loc)) for problem in error.problems]
        raise experiment.error(problems) from None


def _entries_of(data: Mapping[str, Any], packaged: dict[str, DatasetEntry], path: Path) -> dict[str, DatasetEntry]:
    """Entries that an experiment file has."""
    if taken := [name for name in data if name in packaged]:
        message = "the packaged catalogue has a dataset of this name; give yours another one"
        raise Problems([Problem((name,), message, at_key=True) for name in taken])
    try:
        content = {"datasets": _complete(data, packaged, path)}
        catalogue = _Catalogue.model_validate_json(json.dumps(content), strict=True)
    except (ValidationError, Problems) as error:
        found = error.problems if isinstance(error, Problems) else problems_of(error, _Catalogue, content)
        raise Problems([Problem(p.loc[1:], p.message, p.at_key) for p in found]) from None
    entries = _named(catalogue, packaged)
    for entry in entries.values():
        entry._file, entry._in_experiment = path, True
    return entries


def _derived(name: str, known: dict[str, Any]) -> Any:
    """Return an entry with the settings of its base."""
    entry = _with_rule(name, known[name])
    base = entry.get("base") if isinstance(entry, dict) else None
    if not isinstance(base, str):
        return entry
    here = ("datasets", name, "base")
    if not isinstance(known.get(base), dict):
        raise Problems([Problem(here, f"no entry is called {base!r}{suggest(base, set(known) - {name})}")])
    if "base" in known[base]:
        raise Problems([Problem(here, f"{base!r} has a base itself; name that one")])
    # Counts and ranges of the base hold for its own settings only.
    own: set[str] = {"range"} if "scaling" in entry else set()
    if any(rule in entry for rule in RULES):
        own |= {*RULES, "n_positive", "alternatives"}
    if "files" in entry or "format" in entry:
        own |= {"n_positive", "alternatives", *ROW_METADATA}
    return {key: value for key, value in _with_rule(base, known[base]).items() if key not in own} | entry


def _with_rule(name: str, entry: Any) -> Any:
    """Return an entry with ``positive`` of its source beside the source, where the other rules are."""
    source = entry.get("source") if isinstance(entry, dict) else None
    if not isinstance(source, dict) or "positive" not in source:
        return entry
    if "positive" in entry:
        place = ("datasets", name, "source", "positive")
        raise Problems([Problem(place, "'positive' is given here and beside 'source'; keep one of them")])
    rest = {key: value for key, value in source.items() if key != "positive"}
    return entry | {"source": rest, "positive": source["positive"]}


def _with_defaults(name: str, entry: Any) -> Any:
    """Return an entry with the values that one with a ``source`` may leave out."""
    if not isinstance(entry, dict) or not isinstance(source := entry.get("source"), dict):
        return entry
    return {"title": name, **({"scaling": "minmax"} if "sklearn" in source else {"range": None}), **entry}


def _placed(part: Any, folder: Path) -> Any:
    """Return an entry, one of its alternatives or files as the model takes it: addresses for paths, lists for values.

    Paths are the items of ``urls``, row metadata that are given as text, and the files of a ``source``. Beside and
    under ``source``, a single value may stand for a list.
    """
    if not isinstance(part, dict):
        return part
    placed = dict(part)
    for key in ROW_METADATA:
        if isinstance(path := part.get(key), str):
            placed[key] = {"name": path.rpartition("/")[2], "urls": [_address(path, folder)]}
        elif key in part:
            placed[key] = _placed(part[key], folder)
    for key in ("alternatives", "files"):
        if isinstance(part.get(key), list):
            placed[key] = [_placed(below, folder) for below in part[key]]
    if isinstance(part.get("urls"), list):
        placed["urls"] = [_address(url, folder) for url in part["urls"]]
    if isinstance(part.get("source"), dict):
        source = placed["source"] = dict(part["source"])
        if isinstance(part.get("positive"), str | int | float):
            placed["positive"] = [part["positive"]]
        for key in (*FILE_SOURCES, "drop", "categorical"):
            if isinstance(source.get(key), str):
                source[key] = [source[key]]
            if key in FILE_SOURCES and isinstance(source.get(key), list):
                source[key] = [_address(path, folder) for path in source[key]]
    return placed


def _address(url: Any, folder: Path) -> Any:
    if not isinstance(url, str) or not url or _SCHEME.match(url):
        return url
    return Path(os.path.abspath(folder / os.path.expanduser(url))).as_uri()
