"""The catalogue: one YAML entry per dataset says what its files are and what must come out of them."""

import re
import shlex
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, model_validator

from ..errors import ConfigError
from ..yamlio import Problem, Problems, read_model

__all__ = ["DatasetEntry", "FileSpec", "Form", "RandomHalf", "SklearnSource", "load_catalogue"]

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")
SCHEMES = ("http://", "https://", "file://")

Label = int | float | str
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Count = Annotated[int, Field(gt=0)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class FileSpec(_Strict):
    """One file of a dataset.

    Attributes
    ----------
    name : str
        Name without a compression suffix; sources may hold it as it is or as ``.xz``, ``.bz2`` or ``.gz``.
    sha256 : str or None
        Of the uncompressed content; None if nobody has seen the file.
    confirmed : bool
        Whether ``sha256`` is known to be that of the official file. A confirmed file with another hash is
        refused; an unconfirmed one is read with a notice, and its hash goes into the manifest.
    bytes : int or None
        Size of the uncompressed content.
    urls : tuple of str
        Official addresses, tried in order.
    member : str or None
        Name inside the archive, where the addresses lead to a ``.tar`` archive.
    """

    name: str
    sha256: Sha256 | None = None
    confirmed: bool = False
    bytes: Count | None = None
    urls: tuple[str, ...] = ()
    member: str | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        problems = []
        if not NAME.match(self.name):
            problems.append(
                Problem(
                    ("name",),
                    f"{self.name!r} is not a plain file name; expected letters, digits, '.', '_' and '-', "
                    "no folders and no leading dot",
                )
            )
        for position, url in enumerate(self.urls):
            if not url.startswith(SCHEMES):
                problems.append(Problem(("urls", position), f"expected an http, https or file address, got {url!r}"))
        if self.confirmed and self.sha256 is None:
            problems.append(Problem(("confirmed",), "a file without sha256 cannot be confirmed"))
        if problems:
            raise Problems(problems)
        return self


class RandomHalf(_Strict):
    """Half of the classes, chosen by a seed, become positive."""

    seed: Annotated[int, Field(ge=0)]


class SklearnSource(_Strict):
    """A dataset that scikit-learn carries inside its package."""

    sklearn: Literal["load_breast_cancer", "load_digits", "load_iris", "load_wine"]


class Form(_Strict):
    """One form in which a dataset is published: files, their format, and which labels are positive.

    Attributes
    ----------
    format : str or None
        ``svmlight`` (one-based indices), ``csv`` (numbers), ``csv_tokens`` (categories, one-hot), ``table``
        (numbers between blanks or tabs), ``mnist_idx`` (images, then labels); None with ``source``.
    files : tuple of FileSpec
        Concatenated in this order.
    source : SklearnSource or None
        Instead of ``format`` and ``files``.
    label_column : int
        Column of the class, from 1, or -1 for the last one (``csv``, ``csv_tokens``, ``table``).
    drop_columns : tuple of int
        Columns to leave out, counted from 1 in the file, the label's column included (not for ``svmlight``).
    tokens : tuple of str
        The categories of ``csv_tokens``; column j with token k becomes feature j * len(tokens) + k.
    positive : tuple or None
        Labels that become +1; all others become -1.
    random_half : RandomHalf or None
        Instead of ``positive``.
    """

    format: Literal["svmlight", "csv", "csv_tokens", "table", "mnist_idx"] | None = None
    files: tuple[FileSpec, ...] = ()
    source: SklearnSource | None = None
    label_column: int = -1
    drop_columns: tuple[Count, ...] = ()
    tokens: tuple[str, ...] = ()
    positive: Annotated[tuple[Label, ...], Field(min_length=1)] | None = None
    random_half: RandomHalf | None = None

    @model_validator(mode="after")
    def _check_form(self) -> Self:
        problems = []
        if self.source is None and (self.format is None or not self.files):
            problems.append(Problem((), "expected 'format' and 'files', or 'source: {sklearn: ...}'"))
        if self.source is not None and (self.format is not None or self.files):
            problems.append(Problem(("source",), "either 'source', or 'format' and 'files', not both"))
        if (self.positive is None) == (self.random_half is None):
            problems.append(Problem((), "expected either 'positive' or 'random_half'"))
        if (self.format == "csv_tokens") != bool(self.tokens):
            problems.append(Problem(("tokens",), "'tokens' belongs to format csv_tokens, which needs it"))
        if self.format == "mnist_idx" and len(self.files) != 2:
            problems.append(Problem(("files",), "mnist_idx needs two files: images, then labels"))
        if self.format == "svmlight" and self.drop_columns:
            problems.append(Problem(("drop_columns",), "svmlight files have indices, not columns"))
        if self.label_column == 0 or self.label_column < -1:
            problems.append(Problem(("label_column",), "expected a column from 1, or -1 for the last one"))
        if not self.numeric_labels and self.format not in ("csv", "csv_tokens", "table"):
            problems.append(Problem(("positive",), "the labels of this format are numbers"))
        names = [file.name for file in self.files]
        problems += [
            Problem(("files", position, "name"), f"{name!r} is listed twice")
            for position, name in enumerate(names)
            if name in names[:position]
        ]
        if problems:
            raise Problems(problems)
        return self

    @property
    def numeric_labels(self) -> bool:
        """Whether labels are compared as numbers (``1``, ``+1`` and ``1.0`` are one class)."""
        if self.positive is None:
            return self.format not in ("csv", "csv_tokens", "table")
        return not any(isinstance(label, str) for label in self.positive)


class DatasetEntry(Form):
    """One dataset of the catalogue.

    Attributes
    ----------
    name : str
        The entry's key; filled in on loading.
    title, origin, licence : str
        For people.
    n_samples, n_features : int
        Asserted when the files are read.
    n_positive : int or None
        Asserted when it is known.
    scaling : {"minmax", "none"}
        ``minmax`` maps each feature to [-1, 1] (a constant one to 0).
    range : tuple of float
        All values of the finished arrays lie inside; asserted.
    alternatives : tuple of Form
        Other published forms of the same data, for when the first is not to be had.
    """

    name: str = ""
    title: str
    origin: str = ""
    licence: str = ""
    n_samples: Count
    n_features: Count
    n_positive: Count | None = None
    scaling: Literal["minmax", "none"]
    range: tuple[float, float] = (-1.0, 1.0)
    alternatives: tuple[Form, ...] = ()

    _file: Path | None = PrivateAttr(default=None)

    @property
    def fetch_command(self) -> str:
        """The command that fetches and prepares the dataset anew."""
        place = () if self._file is None else ("--catalogue", str(self._file))
        return shlex.join(["opauc-bench", "data", "fetch", self.name, "--fresh", *place])

    @property
    def forms(self) -> tuple[Form, ...]:
        """The entry's own form and its alternatives, in order of preference."""
        return (self, *self.alternatives)


class _Catalogue(_Strict):
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
    entries = _read(packaged_catalogue())
    if extra is not None:
        own = _read(Path(extra))
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


def _read(path: Path) -> dict[str, DatasetEntry]:
    catalogue = read_model(path, _Catalogue)
    return {name: entry.model_copy(update={"name": name}) for name, entry in catalogue.datasets.items()}
