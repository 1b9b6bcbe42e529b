"""The output of the commands about datasets."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ..data import (
    DatasetEntry,
    Sources,
    ask,
    availability,
    download_size,
    find_prepared,
    load_catalogue,
    lost_files,
    prepare,
    verify,
)
from ..data.sources import is_remote
from ..errors import DataError
from ..sentences import suggest
from .terminal import megabytes, say, table_text, wrapped

__all__ = ["check_links", "describe_dataset", "fetch_datasets", "find_entries", "list_datasets", "verify_datasets"]

_ASKED_AT_ONCE = 8  # addresses

_SCALINGS = {
    "minmax": "each feature to [-1, 1]",
    "maxabs": "each feature divided by its largest absolute value",
    "unit_rows": "each row divided by its length",
    "none": "as in the file",
}


def find_entries(names: list[str], extra: Path | None = None) -> list[DatasetEntry]:
    """Entries by name of the packaged catalogue and of a user's; all of them if there are no names."""
    catalogue = load_catalogue(extra)
    for name in names:
        if name not in catalogue:
            raise DataError(
                f"no dataset is called {name!r}{suggest(name, catalogue)}",
                "opauc-bench data list  # shows all names; --catalogue FILE adds yours, or those of an experiment",
            )
    return [catalogue[name] for name in names] if names else list(catalogue.values())


def list_datasets(catalogue: dict[str, DatasetEntry], sources: Sources) -> str:
    """All datasets with their sizes and where their files are available."""
    rows = []
    for entry in catalogue.values():
        size = download_size(entry, sources)
        found = None if entry.n_samples and entry.width and entry.n_positive else find_prepared(entry, sources)
        n_samples, n_features = found.X.shape if found else (entry.n_samples, entry.width)
        n_positive = found.manifest["n_positive"] if found else entry.n_positive
        positive = f"{100 * n_positive / n_samples:.1f} %" if n_positive and n_samples else "?"
        where = availability(entry, sources) + (f" (at most {megabytes(size)})" if size else "")
        where += " (the file was removed)" if lost_files(entry, sources) else ""
        rows.append([entry.name, _number(n_samples), _number(n_features), positive, where])
    headers = ["dataset", "rows", "features", "positive", "data"]
    align = ("left", "right", "right", "right", "left")
    return table_text(rows, headers, colalign=align, disable_numparse=True)


def _number(count: int | None) -> str:
    return "?" if count is None else f"{count:,}"


def describe_dataset(entry: DatasetEntry, sources: Sources) -> str:
    """One dataset: its entry in the catalogue, and the facts found when it was read."""
    found = find_prepared(entry, sources)
    n_positive = found.manifest["n_positive"] if found else entry.n_positive
    n_samples, n_features = found.X.shape if found else (entry.n_samples, entry.width)
    facts = [
        ("dataset", entry.name),
        ("title", entry.title),
        *([("origin", entry.origin), ("licence", entry.licence or "see the origin")] if entry.origin else []),
        ("rows", f"{_number(n_samples)}, {_number(n_positive)} of them positive"),
        ("features", _number(n_features) + (f", {entry.fourier.n:,} of them random cosines" if entry.fourier else "")),
        ("positive", _positive_classes(entry)),
        ("scaling", _SCALINGS[found.manifest["scaling"] if found else entry.scaling or "minmax"]),
        ("data", availability(entry, sources)),
    ]
    if entry.base:
        facts.insert(1, ("files of", entry.base))
    for file in entry.all_files:
        unconfirmed = " (unconfirmed)" if file.sha256 and not file.confirmed else ""
        facts += [("file", file.name), ("", f"sha256 {file.sha256 or 'unknown'}{unconfirmed}")]
        facts += [("", url) for url in file.urls]
    if found:
        manifest = found.manifest
        low, high = manifest["value_range"]
        density = f"{100 * manifest['density']:.3g} % nonzero, stored {manifest['storage']}"
        facts += [("prepared", str(found.folder)), ("fingerprint", found.fingerprint)]
        facts.append(("values", f"[{low:g}, {high:g}], {density}"))
        if fourier := manifest.get("fourier"):
            facts.append(("cosines", f"bandwidth {fourier['bandwidth']:g}, seed {fourier['seed']}"))
        facts += [(name, _ROW_METADATA[name](**found)) for name, found in manifest.get("row_metadata", {}).items()]
    return "\n".join(f"{name:12s}{text}" for name, text in facts)


_ROW_METADATA: dict[str, Callable[..., str]] = {
    "split": lambda train, validation, test: f"{train:,} train, {validation:,} validation, {test:,} test",
    "group": lambda n_groups: f"{n_groups:,} groups",
    "time": lambda first, last: f"{first} to {last}",
}


def _positive_classes(entry: DatasetEntry) -> str:
    if entry.positive:
        return "classes " + ", ".join(map(str, entry.positive))
    if entry.random_half is not None:
        return f"random half of the classes, seed {entry.random_half.seed}"
    return "the largest class" if entry.largest_class else "the greater one of two labels"


def fetch_datasets(names: list[str], extra: Path | None, sources: Sources, fresh: bool) -> None:
    """Prepare datasets, and print what is ready; DataError after the last one if any could not be prepared."""
    failures = []
    for entry in find_entries(names, extra):
        try:
            data = prepare(entry, sources, say, fresh)
        except DataError as error:
            failures.append(error)
        else:
            print(f"{entry.name}: {data.X.shape[0]:,} rows, {data.X.shape[1]:,} features, ready")
    if len(failures) > 1:
        raise DataError("\n".join(map(str, failures)))
    for failure in failures:
        raise failure


def verify_datasets(names: list[str], extra: Path | None, sources: Sources) -> tuple[str, bool]:
    """The cached files, a line each with its state; and whether all are good."""
    lines, good, entries = [], True, find_entries(names, extra)
    for entry in entries:
        checks = verify(entry, sources)
        if names and not checks:
            lines.append(f"{entry.name}: nothing in the cache; {entry.fetch_command(sources)}")
        for check in checks:
            lines.append(f"{'ok  ' if check.ok else 'BAD '} {entry.name} {check.item}: {check.detail}")
            lines += [] if check.ok else [f"     try: {check.hint}"]
        good = good and all(check.ok for check in checks)
    lines = lines or ["nothing of the catalogue is in the cache"]
    known = {name for entry in entries for name in (entry.name, entry.home)}
    found = {path.parent.name for kept in ("raw", "prepared") for path in sources.cache.glob(f"*/{kept}")}
    if not names and (others := sorted(found - known)):
        lines.append(f"not checked, of no entry here: {', '.join(others)}; --catalogue FILE adds an experiment's")
    return "\n".join(lines), good


def check_links(names: list[str], extra: Path | None) -> tuple[str, bool]:
    """What each address would give, as a table; and whether each file has one that answers, or is local."""
    files: dict[tuple[str, str], tuple[str, ...]] = {}
    unknown = []
    for entry in find_entries(names, extra):
        for form in entry.forms:
            for file in form.all_files:
                if urls := tuple(filter(is_remote, file.urls)):
                    files.setdefault((entry.home, file.name), urls)
                elif not file.urls:
                    unknown.append(f"{entry.home} {file.name}")
    addresses: dict[str, str] = {}
    for (name, _), urls in files.items():
        for url in urls:
            addresses.setdefault(url, name)
    with ThreadPoolExecutor(_ASKED_AT_ONCE) as pool:
        answers = dict(zip(addresses, pool.map(ask, addresses)))
    rows = []
    for url, name in addresses.items():
        answer = answers[url]
        size = "" if answer.size is None else megabytes(answer.size)
        rows.append([name, answer.text, size, "yes" if answer.resumes else "", url])
    lacking = [wrapped(f"no address is known of {', '.join(dict.fromkeys(unknown))}")] if unknown else []
    if not rows:
        return "\n".join(lacking or ["these need no http address"]), not unknown
    headers = ["dataset", "answer", "size", "resumes", "address"]
    table = table_text(rows, headers, colalign=("left", "left", "right", "left", "left"))
    good = [url for url in addresses if answers[url].good]
    lost = [f"{name} {file}" for (name, file), urls in files.items() if not any(answers[url].good for url in urls)]
    lines = [table, "", f"{len(good)} of {len(addresses)} addresses answer"]
    lines += [wrapped(f"no address answers for {', '.join(lost)}")] if lost else []
    return "\n".join([*lines, *lacking]), not lost and not unknown
