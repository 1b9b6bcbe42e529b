"""The catalogue: one YAML entry per dataset says what its files are and what must come out of them."""

import functools
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PrivateAttr, model_validator

from ..errors import ConfigError
from ..yamlio import Problem, Problems, read_yaml, suggest
from .forms import NAME, Count, FileSpec, Form, RandomHalf, SklearnSource, Strict, as_address

__all__ = ["DatasetEntry", "FileSpec", "Form", "Fourier", "RandomHalf", "SklearnSource", "load_catalogue"]

WIDE = 10_000  # features from which rows are taken to be sparse


class Fourier(Strict):
    """Random cosine features that are appended to the finished ones; see `fourier.RandomFourierRows`.

    Attributes
    ----------
    n : int
        How many.
    bandwidth : float or "median"
        Of the Gaussian kernel that they approximate; ``median`` is the median distance of two rows.
    seed : int
    """

    n: Count
    bandwidth: Annotated[float, Field(gt=0)] | Literal["median"] = "median"
    seed: Annotated[int, Field(ge=0)] = 0


class DatasetEntry(Form):
    """One dataset of the catalogue.

    Attributes
    ----------
    name : str
        The entry's key; filled in on loading.
    base : str or None
        Another entry, whose files are used, and from which all that is not said here is taken.
    title, origin, licence : str
        For people.
    n_samples, n_features : int
        Asserted when the files are read.
    n_features_at_most : bool
        Whether the largest index of the files may be less than ``n_features``.
    n_positive : int or None
        Asserted when it is known.
    nonzero_per_row : float or None
        Nonzero features of an average row, which `plan` goes by until the files have been read; not asserted.
    scaling : {"minmax", "maxabs", "unit_rows", "none"}
        ``minmax`` maps each feature to [-1, 1] (a constant one to 0); ``maxabs`` divides each feature by its largest
        absolute value; ``unit_rows`` divides each row by its Euclidean length (a row of zeros stays).
    range : tuple of float
        All values of the finished arrays lie inside; asserted.
    fourier : Fourier or None
        Random features to append.
    alternatives : tuple of Form
        Other published forms of the same data, for when the first is not to be had.
    """

    name: str = ""
    base: str | None = None
    title: str
    origin: str = ""
    licence: str = ""
    n_samples: Count
    n_features: Count
    n_features_at_most: bool = False
    n_positive: Count | None = None
    nonzero_per_row: float | None = Field(None, gt=0)
    scaling: Literal["minmax", "maxabs", "unit_rows", "none"]
    range: tuple[float, float] = (-1.0, 1.0)
    fourier: Fourier | None = None
    alternatives: tuple[Form, ...] = ()

    _file: Path | None = PrivateAttr(default=None)
    _home: str | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _check_entry(self) -> Self:
        problems = []
        if self.n_features_at_most and not self.has_indices:
            problems.append(Problem(("n_features_at_most",), "'n_features_at_most' belongs to svmlight files"))
        if self.drop_empty and self.scaling == "minmax":
            problems.append(Problem(("scaling",), "with 'drop_empty', expected maxabs, unit_rows or none, got minmax"))
        if self.fourier and (self.n_features >= WIDE or self.drop_empty):
            problems.append(Problem(("fourier",), f"random features are for data of fewer than {WIDE:,} features"))
        if problems:
            raise Problems(problems)
        return self

    @property
    def home(self) -> str:
        """The dataset among whose files those of this entry are kept: its own name, or that of its base."""
        return self._home or self.name

    @property
    def width(self) -> int:
        """Features of the finished data."""
        return self.n_features + (self.fourier.n if self.fourier else 0)

    @property
    def density(self) -> float:
        """Share of nonzero entries that is to be expected of the finished data; 1 where nobody has said."""
        if self.nonzero_per_row is None or self.fourier:
            return 1.0
        return min(1.0, self.nonzero_per_row / self.width)

    @property
    def catalogue(self) -> Path:
        """The file that has the entry."""
        return self._file or packaged_catalogue()

    @property
    def fetch_command(self) -> str:
        """The command that fetches and prepares the dataset anew."""
        place = () if self._file is None else ("--catalogue", str(self._file))
        return shlex.join(["opauc-bench", "data", "fetch", self.name, "--fresh", *place])

    @property
    def forms(self) -> tuple[Form, ...]:
        """The entry's own form and its alternatives, in order of preference."""
        return (self, *self.alternatives)


class _Catalogue(Strict):
    datasets: dict[str, DatasetEntry]

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        problems = []
        for key, entry in self.datasets.items():
            if not NAME.match(key):
                problems.append(Problem(("datasets", key), "expected letters, digits, '.', '_' and '-'", at_key=True))
            if entry.name:
                problems.append(Problem(("datasets", key, "name"), "the key above is the name", at_key=True))
        if problems:
            raise Problems(problems)
        return self


_RULES = ("positive", "random_half", "largest_class")


def _derived(name: str, known: dict[str, Any]) -> Any:
    """Give an entry with a base what it does not say itself."""
    entry = known[name]
    base = entry.get("base") if isinstance(entry, dict) else None
    if not isinstance(base, str):
        return entry
    here = ("datasets", name, "base")
    if not isinstance(known.get(base), dict):
        raise Problems([Problem(here, f"no entry is called {base!r}{suggest(base, set(known) - {name})}")])
    if "base" in known[base]:
        raise Problems([Problem(here, f"{base!r} has a base itself; name that one")])
    taken = dict(known[base])
    # What the base asserts holds for its own choices only.
    if any(rule in entry for rule in _RULES):
        taken = {key: value for key, value in taken.items() if key not in (*_RULES, "n_positive", "alternatives")}
    if "files" in entry or "format" in entry:
        taken = {key: value for key, value in taken.items() if key not in ("n_positive", "alternatives")}
    if "scaling" in entry:
        taken.pop("range", None)
    return taken | entry


def _placed(entry: Any, folder: Path) -> Any:
    """Replace the addresses of an entry's files that are paths by ``file://`` addresses; paths start at `folder`."""
    if not isinstance(entry, dict):
        return entry
    placed = dict(entry)
    if isinstance(entry.get("alternatives"), list):
        placed["alternatives"] = [_placed(form, folder) for form in entry["alternatives"]]
    if isinstance(entry.get("files"), list):
        placed["files"] = [_placed_file(file, folder) for file in entry["files"]]
    return placed


def _placed_file(file: Any, folder: Path) -> Any:
    if not isinstance(file, dict) or not isinstance(file.get("urls"), list):
        return file
    return file | {"urls": [as_address(url, folder) if isinstance(url, str) else url for url in file["urls"]]}


def packaged_catalogue() -> Path:
    """Return the catalogue that came with this installation (in a checkout: ``datasets/catalogue.yaml``)."""
    here = Path(__file__).resolve()
    installed = here.with_name("catalogue.yaml")
    return installed if installed.exists() else here.parents[2] / "datasets" / "catalogue.yaml"


def load_catalogue(extra: Path | None = None) -> dict[str, DatasetEntry]:
    """Read the packaged catalogue, and a user's file of the same schema beside it.

    Parameters
    ----------
    extra : Path, optional
        YAML file with ``datasets: {name: entry}``.

    Returns
    -------
    dict of str to DatasetEntry
        In the order of the files.

    Raises
    ------
    ConfigError
        With file, line and column: a mistake in a catalogue. Also a name that the packaged catalogue has.
    """
    packaged = packaged_catalogue()
    entries = dict(_read_packaged(packaged, packaged.stat().st_mtime_ns))
    if extra is not None:
        own = _read(Path(extra), entries)
        taken = sorted(set(entries) & set(own))
        if taken:
            raise ConfigError(
                f"{extra}: the packaged catalogue already has {', '.join(taken)}",
                "give your entry another name",
            )
        for entry in own.values():
            entry._file = Path(extra)
        entries |= own
    return entries


@functools.lru_cache(maxsize=1)
def _read_packaged(path: Path, changed: int) -> dict[str, DatasetEntry]:
    """Read once what the checks of an experiment and its session both ask for."""
    return _read(path, {})


def _read(path: Path, others: dict[str, DatasetEntry]) -> dict[str, DatasetEntry]:
    bases = {
        name: entry.model_dump(mode="json", exclude_unset=True, exclude={"name"}) for name, entry in others.items()
    }
    document = read_yaml(path)
    own = document.data.get("datasets")
    if isinstance(own, dict):
        try:
            complete = {name: _derived(name, bases | own) for name in own}
        except Problems as error:
            raise document.error(error.problems) from None
        placed = {name: _placed(entry, path.absolute().parent) for name, entry in complete.items()}
        document = replace(document, data=document.data | {"datasets": placed})
    entries = {}
    for name, entry in document.validate(_Catalogue).datasets.items():
        entries[name] = entry.model_copy(update={"name": name})
        entries[name]._home = entry.base or name
    return entries
