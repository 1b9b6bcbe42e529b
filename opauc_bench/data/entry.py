"""Entries of the catalogue: what a dataset's files are, and the arrays that they must give."""

import itertools
import os.path
import re
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import unquote, urlparse

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, model_validator

from ..sentences import INTERNAL, Loc, Problem, Problems
from .content import SUFFIXES
from .sources import Sources

__all__ = [
    "COLUMN_OPTIONS",
    "FILE_SOURCES",
    "NAME",
    "PARTS",
    "ROW_METADATA",
    "RULES",
    "WIDE",
    "DataSource",
    "DatasetEntry",
    "FileSpec",
    "Form",
    "Fourier",
    "RandomHalf",
    "Strict",
    "packaged_catalogue",
]

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")  # of datasets and files
WIDE = 10_000  # number of features from which rows are expected to be sparse
ROW_METADATA = ("split", "group", "time")  # what a dataset may say of each row beside features and label
PARTS = ("train", "validation", "test")  # values of ``split``
RULES = ("positive", "random_half", "largest_class")  # that say which labels are positive

_LONGEST_NAME = 230  # of a file: most file systems have 255, and the cache adds to it
_SVMLIGHT = ("svmlight", "svmlight_multilabel")
_NOT_COUNTED = ("token_counts", "mnist_idx")  # formats whose number of features has to be given
_TABLES = ("csv", "parquet", "arrow")
FILE_SOURCES = (*_TABLES, "svmlight", "npz")
COLUMN_OPTIONS = ("label", "drop", "categorical", "missing", "bits")  # of `schema.ColumnOptions`

Positive = int | float | str
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Count = Annotated[int, Field(gt=0)]
Seed = Annotated[int, Field(ge=0)]
Format = Literal["svmlight", "svmlight_multilabel", "token_counts", "csv", "csv_tokens", "table", "mnist_idx"]


class Strict(BaseModel):
    """No unknown keys, no changes, finite numbers."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if problems := self._problems():
            raise Problems(problems)
        return self

    def _problems(self) -> list[Problem]:
        return []

    def _misplaced(self, keys: Iterable[str], where: str) -> list[Problem]:
        """Problems of those keys that are set, where they mean nothing."""
        fields = type(self).model_fields
        given = (key for key in keys if getattr(self, key) != fields[key].default)
        return [Problem((key,), f"'{key}' belongs to {where}") for key in given]


class FileSpec(Strict):
    """One file of a dataset."""

    name: str  # without a compression suffix; sources may have it as it is or as .xz, .bz2, .gz or .zst
    sha256: Sha256 | None = None  # of the uncompressed content, if known
    # Whether sha256 is that of the official file. Then a file with another hash is an error; else it is read with a
    # notice, and its hash goes into the manifest.
    confirmed: bool = False
    bytes: Count | None = None  # size of the uncompressed content
    urls: tuple[str, ...] = ()  # official addresses, tried in order, or paths relative to the catalogue's folder
    member: str | None = None  # path inside the .tar or .zip archive at the addresses; also that of a mirror

    def _problems(self) -> list[Problem]:
        problems = []
        if not NAME.match(self.name):
            expected = "expected letters, digits, '.', '_' and '-', no folders and no leading dot"
            problems.append(Problem(("name",), f"{self.name!r} is not a plain file name; {expected}"))
        if len(self.name) > _LONGEST_NAME:
            problems.append(Problem(("name",), f"expected at most {_LONGEST_NAME} characters, got {len(self.name)}"))
        if self.member is not None and {"", ".", ".."} & {*self.member.split("/")}:
            problems.append(Problem(("member",), f"{self.member!r} is not a relative path, such as 'folder/file.txt'"))
        for position, url in enumerate(self.urls):
            if not url.startswith(("http://", "https://", "file://")):
                expected = f"an http or https address, or the path of a file, got {url!r}"
                if "//" not in url:
                    expected += f"; a path with a colon is written ./{url}"
            elif url.startswith("file://") and urlparse(url).netloc not in ("", "localhost"):
                expected = f"file:/// and an absolute path, got {url!r}; relative paths have no file://"
            else:
                continue
            problems.append(Problem(("urls", position), f"expected {expected}"))
        if self.confirmed and self.sha256 is None:
            problems.append(Problem(("confirmed",), "a file without sha256 cannot be confirmed"))
        return problems


class RandomHalf(Strict):
    """Half of the classes, selected by a seed, become positive."""

    seed: Seed


class DataSource(Strict):
    """Data instead of `format` and `files`: own files, arrays in memory, or a dataset that is part of scikit-learn."""

    sklearn: Literal["load_breast_cancer", "load_digits", "load_iris", "load_wine"] | None = None
    # Paths relative to the catalogue's folder, or addresses; of tables all with the columns of the first.
    csv: tuple[str, ...] = ()
    parquet: tuple[str, ...] = ()
    arrow: tuple[str, ...] = ()
    svmlight: tuple[str, ...] = ()
    npz: tuple[str, ...] = ()
    # Of arrays that were passed to `opauc_bench.run`.
    memory: Annotated[Sha256 | None, Field(json_schema_extra=INTERNAL)] = None
    positive: None = None  # belongs to the entry, where the catalogue moves it; here for messages about keys
    # Of tables; see `schema.ColumnOptions`.
    label: str | None = None
    drop: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    missing: Literal["error", "mean", "indicator"] = "error"
    bits: Annotated[int, Field(ge=1, le=26)] = 24
    skip_bad_rows: bool = False
    # Columns (of tables and DataFrames), or arrays (of npz), of row metadata.
    split: str | None = None
    group: str | None = None
    time: str | None = None

    def _problems(self) -> list[Problem]:
        kinds = [kind for kind in (*FILE_SOURCES, "sklearn", "memory") if getattr(self, kind)]
        if len(kinds) != 1:
            return [Problem((), f"expected one of {', '.join(FILE_SOURCES)} and sklearn, got {len(kinds)} of them")]
        problems = []
        if self.is_table and self.label is None:
            problems.append(Problem((), "expected 'label': the column of the labels"))
        if not self.is_table:
            problems += self._misplaced(COLUMN_OPTIONS, "csv, parquet and arrow")
        if not (self.is_table or self.npz or self.memory):
            problems += self._misplaced(ROW_METADATA, "csv, parquet, arrow and npz")
        if not (self.is_table or self.svmlight):
            problems += self._misplaced(["skip_bad_rows"], "files of text, and to tables")
        if len(self.npz) > 1:
            problems.append(Problem(("npz",), "expected one file"))
        return problems

    @property
    def kind(self) -> str:
        """Which of the sources this is."""
        return next(kind for kind in (*FILE_SOURCES, "sklearn", "memory") if getattr(self, kind))

    @property
    def is_table(self) -> bool:
        """Whether the data have columns with names."""
        return self.kind in _TABLES

    @property
    def files(self) -> tuple[FileSpec, ...]:
        """The files, named by what their addresses end with."""
        if self.kind not in FILE_SOURCES:
            return ()
        names: list[str] = []
        for address in getattr(self, self.kind):
            name = re.sub(r"[^A-Za-z0-9._-]", "_", unquote(urlparse(address).path).rpartition("/")[2]).lstrip("._-")
            for suffix in SUFFIXES[1:]:
                name = name.removesuffix(suffix)
            name = name[-_LONGEST_NAME:].lstrip("._-") or "data"
            numbered = (f"{number}-{name}" for number in itertools.count(len(names)))
            names.append(next(free for free in itertools.chain([name], numbered) if free not in names))
        return tuple(FileSpec(name=name, urls=(address,)) for name, address in zip(names, getattr(self, self.kind)))


class Form(Strict):
    """One form in which a dataset is published; docs/datasets.md describes the formats and all keys."""

    format: Format | None = None  # None with source
    files: tuple[FileSpec, ...] = ()  # concatenated in this order
    source: DataSource | None = None  # instead of format and files
    label_column: int = -1  # from 1, or -1 for the last one
    drop_columns: tuple[Count, ...] = ()  # from 1, the label's column included
    tokens: tuple[str, ...] = ()  # column j with token k becomes feature j * len(tokens) + k
    first_index: Literal[0, 1] = 1
    drop_empty: bool = False  # remove features that are zero in every row
    # A row with several labels is positive if any of them is. One of these three is given, if there is no source.
    positive: Annotated[tuple[Positive, ...], Field(min_length=1)] | None = None
    random_half: RandomHalf | None = None
    largest_class: bool = False
    # Row metadata, see `metadata.read_metadata`: text files with one line per row. `split` may also be a list with the
    # part of each of `files`.
    split: tuple[Literal["train", "validation", "test"], ...] | FileSpec | None = None
    group: FileSpec | None = None
    time: FileSpec | None = None

    def _place_of(self, key: str) -> str:
        """Where the values of a piece of row metadata are named, if not beside ``source``."""
        if self.source is not None and self.source.svmlight:
            return f"give the file as 'format: svmlight' and 'files', with '{key}: FILE' (docs/datasets.md)"
        return f"expected '{key}: COLUMN' under 'source'"

    def _problems(self) -> list[Problem]:
        problems = []
        if self.source is None and (self.format is None or not self.files):
            problems.append(Problem((), "expected 'source', or 'format' and 'files'"))
        if self.source is not None and (self.format is not None or self.files):
            problems.append(Problem(("source",), "either 'source', or 'format' and 'files', not both"))
        rules = (self.positive is not None) + (self.random_half is not None) + self.largest_class
        if rules > 1 or (rules == 0 and self.source is None):
            problems.append(Problem((), "expected one of 'positive', 'random_half' and 'largest_class: true'"))
        if (self.format == "csv_tokens") != bool(self.tokens):
            problems.append(Problem(("tokens",), "'tokens' belongs to format csv_tokens, which needs it"))
        if self.format == "mnist_idx" and len(self.files) != 2:
            problems.append(Problem(("files",), "mnist_idx needs two files: images, then labels"))
        if self.drop_columns and self.format in (*_SVMLIGHT, "token_counts"):
            problems.append(Problem(("drop_columns",), f"{self.format} files have no columns"))
        own = [key for key in ROW_METADATA if self.has_own_data and getattr(self, key) is not None]
        problems += [Problem((key,), self._place_of(key)) for key in own]
        if self.source is not None:
            problems += self._misplaced(["drop_empty"], "'format: svmlight'")
        if not self.has_indices:
            problems += self._misplaced(["first_index", "drop_empty"], "svmlight files")
        if self.random_half is not None and self.format == "svmlight_multilabel":
            problems.append(Problem(("random_half",), "rows with several labels cannot be split by their class"))
        if self.label_column == 0 or self.label_column < -1:
            problems.append(Problem(("label_column",), "expected a column from 1, or -1 for the last one"))
        if not self.numeric_labels and self.format in ("svmlight", "mnist_idx"):
            problems.append(Problem(("positive",), "the labels of this format are numbers"))
        if isinstance(self.split, tuple) and "split" not in own:
            n_files = len(self.files)
            if self.format == "mnist_idx" or len(self.split) != n_files:
                expected = f"one word per file, or a text file with one per row; {n_files} file(s)"
                problems.append(Problem(("split",), f"expected {expected} and {len(self.split)} word(s)"))
            elif absent := [part for part in ("train", "test") if part not in self.split]:
                problems.append(Problem(("split",), f"expected a file with rows for {' and '.join(absent)}"))
        places: list[Loc] = [("files", position, "name") for position in range(len(self.files))]
        places += [(name,) for name in self.row_metadata if not isinstance(getattr(self, name), tuple)]
        names = [file.name for file in self.all_files]
        return problems + [
            Problem(place, f"{name!r} is listed twice")
            for position, (place, name) in enumerate(zip(places, names))
            if name in names[:position]
        ]

    @property
    def row_metadata(self) -> tuple[str, ...]:
        """Names of the row metadata that the form has, of `ROW_METADATA`."""
        return tuple(name for name in ROW_METADATA if getattr(self, name) or getattr(self.source, name, None))

    @property
    def has_own_data(self) -> bool:
        """Whether the data are the user's own files or arrays, of which nothing has to be known beforehand."""
        return self.source is not None and self.source.kind != "sklearn"

    @property
    def data_files(self) -> tuple[FileSpec, ...]:
        """The files of the rows."""
        return self.files if self.source is None else self.source.files

    @property
    def all_files(self) -> tuple[FileSpec, ...]:
        """The files of the rows, then those of row metadata."""
        found = (getattr(self, name) for name in self.row_metadata)
        return (*self.data_files, *(file for file in found if isinstance(file, FileSpec)))

    @property
    def has_indices(self) -> bool:
        """Whether the files have indices of features, so that the largest one is the width."""
        return self.format in _SVMLIGHT or (self.source is not None and bool(self.source.svmlight))

    @property
    def numeric_labels(self) -> bool:
        """Whether labels are compared as numbers (``1``, ``+1`` and ``1.0`` are one class)."""
        if self.format in ("svmlight_multilabel", "token_counts"):
            return False
        if self.positive is None:
            return self.format not in ("csv", "csv_tokens", "table")
        return not any(isinstance(label, str) for label in self.positive)


class Fourier(Strict):
    """Random cosine features that are appended to the finished ones; see `fourier.RandomFourierRows`."""

    n: Count
    # Of the Gaussian kernel that they approximate; median: the median distance of two rows.
    bandwidth: Annotated[float, Field(gt=0)] | Literal["median"] = "median"
    seed: Seed = 0


class DatasetEntry(Form):
    """One dataset of the catalogue.

    Attributes
    ----------
    name : str
        The entry's key; set on loading.
    base : str or None
        Another entry, whose files are used, and whose settings are the defaults of this entry.
    title, origin, licence : str
        Descriptions.
    n_samples, n_features : int or None
        Checked when the files are read, or counted then.
    n_features_at_most : bool
        Whether the largest index of the files may be less than ``n_features``.
    n_positive : int or None
        Checked if it is given.
    nonzero_per_row : float or None
        Mean number of nonzero features per row, for the estimates of `plan` until the files have been read.
    scaling : {"minmax", "maxabs", "unit_rows", "none"} or None
        ``minmax`` maps each feature to [-1, 1] (a constant one to 0); ``maxabs`` divides each feature by its largest
        absolute value; ``unit_rows`` divides each row by its Euclidean length (a row of zeros stays). None, for own
        data: ``minmax``, but ``none`` for arrays in memory.
    range : tuple of float or None
        Smallest and largest allowed value of the finished arrays; checked, unless it is None.
    fourier : Fourier or None
        Random features to append.
    alternatives : tuple of Form
        Other published forms of the same data, used if the first one is unavailable.
    """

    name: str = ""
    base: str | None = None
    title: str = ""
    origin: str = ""
    licence: str = ""
    n_samples: Count | None = None
    n_features: Count | None = None
    n_features_at_most: bool = False
    n_positive: Count | None = None
    nonzero_per_row: float | None = Field(None, gt=0)
    scaling: Literal["minmax", "maxabs", "unit_rows", "none"] | None = None
    range: tuple[float, float] | None = (-1.0, 1.0)
    fourier: Fourier | None = None
    alternatives: tuple[Form, ...] = ()

    _file: Path | None = PrivateAttr(default=None)
    _home: str | None = PrivateAttr(default=None)
    _own_files: frozenset[FileSpec] = PrivateAttr(default=frozenset())
    _in_experiment: bool = PrivateAttr(default=False)
    _arrays: Any = PrivateAttr(default=None)

    def how_to_add(self, name: str) -> str:
        """What to do to give the entry row metadata called ``name``."""
        source = self.source
        if source is not None and source.memory:
            return f"pass X as a DataFrame, and name a column of it under source: {{{name}: COLUMN}}"
        if source is not None and (source.is_table or source.npz):
            return f"name {'an array' if source.npz else 'a column'} of the file under source: {{{name}: NAME}}"
        if source is not None and source.svmlight:
            return self._place_of(name)
        return f"add '{name}: FILE' to the entry, or an entry with 'base: {self.name}' and that line (docs/datasets.md)"

    def _problems(self) -> list[Problem]:
        problems = super()._problems()
        if not self.has_own_data:
            needed = ["title", "scaling"] + (["n_features"] if self.format in _NOT_COUNTED else [])
            absent = [key for key in needed if key not in self.model_fields_set]
            problems += [Problem((), f"the key '{key}' is required and missing") for key in absent]
        if not self.has_indices:
            problems += self._misplaced(["n_features_at_most"], "svmlight files")
        if self.drop_empty and self.scaling == "minmax":
            problems.append(Problem(("scaling",), "with 'drop_empty', expected maxabs, unit_rows or none, got minmax"))
        if self.fourier and ((self.n_features or 0) >= WIDE or self.drop_empty):
            problems.append(Problem(("fourier",), f"random features are for data of fewer than {WIDE:,} features"))
        for position, form in enumerate(self.alternatives):
            if form.row_metadata != self.row_metadata:
                expected = f"the same of {', '.join(ROW_METADATA)} as the entry itself, which has"
                problems.append(
                    Problem(("alternatives", position), f"expected {expected} {', '.join(self.row_metadata) or 'none'}")
                )
        return problems

    @property
    def home(self) -> str:
        """The dataset in whose folder the files are kept: its own name, or that of the base whose files it uses."""
        return self._home or self.name

    def home_of(self, file: FileSpec) -> str:
        """The dataset in whose folder of the cache a file is: `home`, except for row metadata of the entry alone."""
        return self.name if file in self._own_files else self.home

    @property
    def width(self) -> int | None:
        """Number of features of the finished data, if it is known."""
        if self.n_features is None:
            return None
        return self.n_features + (self.fourier.n if self.fourier else 0)

    @property
    def density(self) -> float:
        """Expected share of nonzero values of the finished data; 1 if unknown."""
        if self.nonzero_per_row is None or self.fourier or not self.width:
            return 1.0
        return min(1.0, self.nonzero_per_row / self.width)

    @property
    def catalogue(self) -> str:
        """The file of the entry, for messages; an experiment from Python has none."""
        return "the experiment" if self._is_without_file else str(self._file or packaged_catalogue())

    @property
    def _is_without_file(self) -> bool:
        return self._in_experiment and not os.path.isfile(str(self._file))

    def fetch_command(self, sources: Sources) -> str:
        """The command that fetches and prepares the dataset again, from the same mirrors."""
        if self._is_without_file:
            return "opauc_bench.run(...)"
        place = () if self._file is None else ("--catalogue", str(self._file))
        mirrors = [word for mirror in sources.named_mirrors for word in ("--mirror", mirror)]
        return shlex.join(["opauc-bench", "data", "fetch", self.name, "--fresh", *place, *mirrors])

    @property
    def forms(self) -> tuple[Form, ...]:
        """The entry's own form and its alternatives, in order of preference."""
        return (self, *self.alternatives)


def packaged_catalogue() -> Path:
    """Return the catalogue of this installation (in a checkout: ``datasets/catalogue.yaml``)."""
    here = Path(__file__).resolve()
    installed = here.with_name("catalogue.yaml")
    return installed if installed.exists() else here.parents[2] / "datasets" / "catalogue.yaml"
