"""How a dataset is published: its files, their format, and which labels count as positive."""

import os.path
import re
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlparse

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ..yamlio import Problem, Problems

__all__ = ["NAME", "Count", "FileSpec", "Form", "RandomHalf", "SklearnSource", "Strict", "as_address"]

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")
SCHEMES = ("http://", "https://", "file://")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")

Label = int | float | str
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Count = Annotated[int, Field(gt=0)]
Format = Literal["svmlight", "svmlight_multilabel", "token_counts", "csv", "csv_tokens", "table", "mnist_idx"]

_WITHOUT_COLUMNS = ("svmlight", "svmlight_multilabel", "token_counts")


def as_address(url: str, folder: Path) -> str:
    """Return a path as a ``file://`` address, relative ones from `folder` on; what has a scheme stays as it is."""
    if not url or _SCHEME.match(url):
        return url
    return Path(os.path.abspath(folder / os.path.expanduser(url))).as_uri()


def _trouble_with(url: str) -> str | None:
    """Why an address cannot be asked; None if it can be."""
    if not url.startswith(SCHEMES):
        return f"expected an http or https address, or the path of a file, got {url!r}"
    if url.startswith("file://") and urlparse(url).netloc not in ("", "localhost"):
        return f"expected file:/// and a whole path, got {url!r}; a path without file:// starts at this file's folder"
    return None


class Strict(BaseModel):
    """No unknown keys, no changes, finite numbers."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class FileSpec(Strict):
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
        Official addresses, tried in order; a path, as of a file of one's own, starts at the catalogue's folder.
    member : str or None
        Path inside the archive, where the addresses lead to a ``.tar`` archive; ``/`` parts folders. A mirror may
        hold the file under this path as well, as in the unpacked archive.
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
        if self.member is not None and not all(map(NAME.match, self.member.split("/"))):
            problems.append(Problem(("member",), f"{self.member!r} is not a relative path, such as 'folder/file.txt'"))
        for position, url in enumerate(self.urls):
            if trouble := _trouble_with(url):
                problems.append(Problem(("urls", position), trouble))
        if self.confirmed and self.sha256 is None:
            problems.append(Problem(("confirmed",), "a file without sha256 cannot be confirmed"))
        if problems:
            raise Problems(problems)
        return self


class RandomHalf(Strict):
    """Half of the classes, chosen by a seed, become positive."""

    seed: Annotated[int, Field(ge=0)]


class SklearnSource(Strict):
    """A dataset that scikit-learn carries inside its package."""

    sklearn: Literal["load_breast_cancer", "load_digits", "load_iris", "load_wine"]


class Form(Strict):
    """One form in which a dataset is published: files, their format, and which labels are positive.

    Attributes
    ----------
    format : str or None
        ``svmlight`` (ascending indices), ``svmlight_multilabel`` (a list of labels before the features),
        ``token_counts`` (``word:count ... #label#:class``), ``csv`` (numbers), ``csv_tokens`` (categories, one-hot),
        ``table`` (numbers between blanks or tabs), ``mnist_idx`` (images, then labels); None with ``source``.
    files : tuple of FileSpec
        Concatenated in this order.
    source : SklearnSource or None
        Instead of ``format`` and ``files``.
    label_column : int
        Column of the class, from 1, or -1 for the last one (``csv``, ``csv_tokens``, ``table``).
    drop_columns : tuple of int
        Columns to leave out, counted from 1 in the file, the label's column included (not for files with indices).
    tokens : tuple of str
        The categories of ``csv_tokens``; column j with token k becomes feature j * len(tokens) + k.
    first_index : int
        Index of the first feature in svmlight files.
    drop_empty : bool
        Leave out features that are zero in every row; the others close up (svmlight files).
    positive : tuple or None
        Labels that become +1; all others become -1. A row with several labels is positive if any of them is.
    random_half : RandomHalf or None
        Instead of ``positive``.
    largest_class : bool
        Instead of ``positive``: the label that most rows have.
    """

    format: Format | None = None
    files: tuple[FileSpec, ...] = ()
    source: SklearnSource | None = None
    label_column: int = -1
    drop_columns: tuple[Count, ...] = ()
    tokens: tuple[str, ...] = ()
    first_index: Literal[0, 1] = 1
    drop_empty: bool = False
    positive: Annotated[tuple[Label, ...], Field(min_length=1)] | None = None
    random_half: RandomHalf | None = None
    largest_class: bool = False

    @model_validator(mode="after")
    def _check_form(self) -> Self:
        problems = []
        if self.source is None and (self.format is None or not self.files):
            problems.append(Problem((), "expected 'format' and 'files', or 'source: {sklearn: ...}'"))
        if self.source is not None and (self.format is not None or self.files):
            problems.append(Problem(("source",), "either 'source', or 'format' and 'files', not both"))
        if (self.positive is not None) + (self.random_half is not None) + self.largest_class != 1:
            problems.append(Problem((), "expected one of 'positive', 'random_half' and 'largest_class: true'"))
        if (self.format == "csv_tokens") != bool(self.tokens):
            problems.append(Problem(("tokens",), "'tokens' belongs to format csv_tokens, which needs it"))
        if self.format == "mnist_idx" and len(self.files) != 2:
            problems.append(Problem(("files",), "mnist_idx needs two files: images, then labels"))
        if self.drop_columns and self.format in _WITHOUT_COLUMNS:
            problems.append(Problem(("drop_columns",), f"{self.format} files have no columns"))
        for key in ("first_index", "drop_empty"):
            if not self.has_indices and getattr(self, key) != Form.model_fields[key].default:
                problems.append(Problem((key,), f"'{key}' belongs to svmlight files"))
        if self.random_half is not None and self.format == "svmlight_multilabel":
            problems.append(Problem(("random_half",), "rows with several labels cannot be parted by their class"))
        if self.label_column == 0 or self.label_column < -1:
            problems.append(Problem(("label_column",), "expected a column from 1, or -1 for the last one"))
        if not self.numeric_labels and self.format in ("svmlight", "mnist_idx", None):
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
    def has_indices(self) -> bool:
        """Whether the files name their features by index, so that the largest one tells the width."""
        return self.format in ("svmlight", "svmlight_multilabel")

    @property
    def numeric_labels(self) -> bool:
        """Whether labels are compared as numbers (``1``, ``+1`` and ``1.0`` are one class)."""
        if self.format in ("svmlight_multilabel", "token_counts"):
            return False
        if self.positive is None:
            return self.format not in ("csv", "csv_tokens", "table")
        return not any(isinstance(label, str) for label in self.positive)
