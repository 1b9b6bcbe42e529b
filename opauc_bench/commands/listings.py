"""The output of the commands about data, learners and the installation."""

from __future__ import annotations

import inspect
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, requires, version
from itertools import groupby
from pathlib import Path

from .. import __version__
from ..data import (
    DatasetEntry,
    Sources,
    ask,
    availability,
    download_size,
    find_prepared,
    load_catalogue,
    lost_files,
    verify,
)
from ..data.sources import is_remote, local_path
from ..errors import DataError, LearnerError
from ..learners import contested_names, get_learner, learner_addresses, learner_parameters
from ..sentences import suggest
from .terminal import megabytes, table_text, width, wrapped

__all__ = [
    "check_links",
    "describe_dataset",
    "describe_learner",
    "examine",
    "find_entries",
    "list_datasets",
    "list_learners",
    "verify_datasets",
]

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


def verify_datasets(names: list[str], extra: Path | None, sources: Sources) -> tuple[list[str], bool]:
    """Verify the cached files; returns lines to print and whether all are good."""
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
    return lines, good


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


def list_learners() -> str:
    """All learners with their parameters."""
    rows = []
    for name, address in learner_addresses().items():
        try:
            parameters, axes = learner_parameters(name)
            summary = (get_learner(name).__doc__ or "").strip().partition("\n")[0]
        except LearnerError as error:
            rows.append([name, "", "", f"cannot be loaded: {error.message}"])
            continue
        fixed = [parameter for parameter in parameters if parameter not in axes and parameter != "random_state"]
        rows.append([name, ", ".join(axes), ", ".join(fixed), f"{summary} ({address.rpartition(':')[2]})"])
    headers = ["learner", "tuned", "parameters", "description"]
    table = table_text(rows, headers, maxcolwidths=[None, 14, 14, 31])
    return "\n".join([table, *contested_names()])


def describe_learner(name: str) -> str:
    """One learner: its description, its parameters and their meaning."""
    learner = get_learner(name)
    _, axes = learner_parameters(name)
    text = inspect.cleandoc(learner.__doc__) if learner.__doc__ else f"{learner.__name__} has no description."
    about, _, rest = text.partition("\nAttributes\n")
    if "\nParameters\n" not in about:
        about = f"{about.strip()}\n\nParameters: {str(inspect.signature(learner))[1:-1]}"
    tuned = f"Tuned in experiments: {', '.join(axes)}"
    parts = [f"{name}: {about.strip()}", tuned, *_section(rest, "Notes"), *_section(rest, "References")]
    return "\n".join(_fitted("\n\n".join(parts).splitlines()))


def _fitted(lines: list[str]) -> Iterator[str]:
    """Lines of a numpydoc text for this terminal: paragraphs that are too wide are wrapped again."""

    def paragraph(numbered: tuple[int, str]) -> tuple[int, int]:
        """The indent, and the number of a line that is not joined: blank, below a heading, or a parameter."""
        k, line = numbered
        alone = not line.strip() or set(line) == {"-"} or re.match(r"\w[\w, ]* : ", line)
        return len(line) - len(line.lstrip()), k if alone else -1

    for (indent, alone), group in groupby(enumerate(lines), paragraph):
        block = [line for _, line in group]
        if max(map(len, block)) <= width():
            yield from block
        else:
            start = " " * indent
            hanging = start + ("    " if alone >= 0 else "")
            text = " ".join(line.strip() for line in block)
            yield wrapped(text, hanging, start)


def _section(text: str, heading: str) -> list[str]:
    """A section of a numpydoc text, with its heading, if it is there."""
    found = re.search(rf"^{heading}\n-+\n.*?(?=^\w+\n-+\n|\Z)", text, re.DOTALL | re.MULTILINE)
    return [found[0].strip()] if found else []


def examine(sources: Sources) -> tuple[list[str], bool]:
    """Examine the installation; returns lines to print and whether all is good."""
    from ..evaluation.auc import auc_of_sorted
    from ..kernels import kept_on_disk

    lines, good = [f"opauc-bench {__version__}"], True
    lines.append(f"python {sys.version.split()[0]} on {sys.platform}, {os.cpu_count()} cores")
    try:
        needed = [line for line in requires("opauc-bench") or () if "extra ==" not in line]
    except PackageNotFoundError:
        good, needed = False, []
        lines.append("BAD  opauc-bench is not installed, only found on the path; pip install -e . in its checkout")
    for package in (re.split(r"[^\w.-]", line)[0] for line in needed):
        try:
            lines.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            good = False
            lines.append(f"BAD  {package} is not installed; pip install {package}")
    for name, problem in (
        (f"cache {sources.cache}", _unwritable(sources.cache)),
        ("compiled kernels", _kernel_problem()),
    ):
        good = good and not problem
        lines.append(f"{'BAD ' if problem else 'ok  '} {name}{': ' + problem if problem else ''}")
    lines += [f"     {sentence}" for sentence in contested_names()]
    if not kept_on_disk(auc_of_sorted):
        lines.append("     each process compiles its kernels again; set NUMBA_CACHE_DIR to a writable folder")
    try:
        lines.append(f"     svm_perf: {_svm_perf_engine()}")
    except LearnerError as error:
        good = False
        lines.append(f"BAD  svm_perf: {error.message}")
    for mirror in map(str, sources.mirrors):
        absent = not is_remote(mirror) and not local_path(mirror).is_dir()
        good = good and not absent
        lines.append(f"{'BAD ' if absent else '    '} mirror {mirror}{': there is no such folder' if absent else ''}")
    if not sources.mirrors:
        lines.append("     no mirror (OPAUC_BENCH_MIRROR): datasets come from their official addresses")
    return lines, good


def _unwritable(folder: Path) -> str:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return ""
    except OSError as error:
        return f"cannot be written ({error.strerror}); set OPAUC_BENCH_CACHE to another folder"


def _svm_perf_engine() -> str:
    from ..learners.batch.svm_perf_program import ENVIRONMENT, PROGRAM, find_program

    program = find_program()
    if program is None:
        return f"our own solver, since there is no {PROGRAM} on PATH or in {ENVIRONMENT}"
    return f"the program {program}"


def _kernel_problem() -> str:
    import numpy as np

    from ..learners import OPAUC

    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (50, 4)), np.array([1, -1] * 25)
    one = OPAUC(eta=0.1, lam=0.1).fit(X, y).coef_[0]
    grid = OPAUC().fit_grid(X, y, {"eta": np.array([0.1, 0.2]), "lam": np.array([0.1, 0.1])})[:, 0]
    return "" if np.allclose(one, grid, rtol=1e-10, atol=0) else "grid and single fits disagree; please report this"
