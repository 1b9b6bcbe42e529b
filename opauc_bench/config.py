"""The experiment file: what to compare, on which data, by which protocol.

`load_experiment` reads a YAML file into a frozen `Experiment`. It knows the schema only; which datasets and
learners exist is told by the caller, so that mistakes in names come out together with all others.
"""

import os.path
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PrivateAttr,
    ValidationInfo,
    field_validator,
    model_validator,
)

from .errors import ConfigError, LearnerError
from .figures import FigureEntry, figure_problems
from .protocol import CrossValidation, Protocol, Section
from .values import (
    Scalar,
    by_axis,
    duration,
    grid_values,
    is_name,
    line,
    not_empty,
    parameter,
    plain_name,
    repeated,
    row_cap,
    spell_axis,
    unknown_names,
)
from .yamlio import Problem, Problems, check_model, read_model, show, suggest

__all__ = ["Experiment", "LearnerEntry", "Limits", "Report", "find_config", "load_experiment"]

LearnerParameters = Callable[[str], tuple[Collection[str], Collection[str]]]
ZeroAxes = Callable[[str], Collection[str]]
KnownDatasets = Collection[str] | Callable[[Path | None], Collection[str]]

_FROM_FILE = re.compile(r"(?P<file>.+\.py):(?P<name>[A-Za-z_]\w*)")


@dataclass
class _Known:
    """What names the caller knows, handed to the validators as their context."""

    folder: Path
    datasets: KnownDatasets | None = None
    learner_parameters: LearnerParameters | None = None
    published: Collection[str] | None = None
    zero_axes: ZeroAxes | None = None
    _seen: dict[str, tuple[list[str], list[str]] | LearnerError] = field(default_factory=dict)

    def learner(self, text: str) -> tuple[list[str], list[str]] | LearnerError | None:
        """Return parameters and grid axes of a learner, or why it has none, or None if nobody asked."""
        if self.learner_parameters is None:
            return None
        if text not in self._seen:
            try:
                parameters, axes = self.learner_parameters(_absolute(text, self.folder))
                self._seen[text] = (sorted({*parameters, *axes}), list(axes))
            except LearnerError as error:
                self._seen[text] = error
        return self._seen[text]

    def may_be_zero(self, text: str) -> Collection[str]:
        """Return the grid axes of a learner that is known whose values may be 0."""
        return self.zero_axes(_absolute(text, self.folder)) if self.zero_axes else ()


def _absolute(learner: str, folder: Path) -> str:
    found = _FROM_FILE.fullmatch(learner)
    return f"{(folder / found['file']).resolve()}:{found['name']}" if found else learner


def _learner_names(info: ValidationInfo, learner: str | None) -> tuple[list[str], list[str]] | None:
    known = info.context.learner(learner) if info.context and learner else None
    return known if isinstance(known, tuple) else None


Line = Annotated[str, AfterValidator(line)]
Name = Annotated[str, AfterValidator(plain_name)]


# ------------------------------------------------------------------ sections


class LearnerEntry(Section):
    """One column of the table: a learner with its fixed parameters and its own grid."""

    learner: str = Field(description="Registry name, or path/to/file.py:Class relative to the experiment file.")
    name: Name = Field("", description="Key of the column, unique; by default the learner's name.")
    title: Line = Field("", description="Heading in tables; by default the key of the column.")
    params: dict[str, Scalar] = Field({}, description="Constructor parameters that are not tuned.")
    grid: dict[str, tuple[float, ...]] = Field({}, description="Grid axes in place of those under grids.")
    axes_from: str | None = Field(
        None, description="Column whose chosen values are taken on the axes that both tune; kind holdout only."
    )
    max_train: Annotated[int | dict[str, int] | None, BeforeValidator(row_cap)] = Field(
        None, description="Rows of a training set at most, drawn at random; or by dataset, with 'default' for the rest."
    )

    @property
    def heading(self) -> str:
        """The title, or the name where there is none."""
        return self.title or self.name

    def max_train_on(self, dataset: str) -> int | None:
        """Rows of a training set of this dataset at most, or None for all of them."""
        if isinstance(self.max_train, dict):
            return self.max_train.get(dataset, self.max_train.get("default"))
        return self.max_train

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, value: Any) -> Any:
        if isinstance(value, str):
            value = {"learner": value}
        if not isinstance(value, Mapping):
            raise ValueError(f"expected a learner's name, or 'learner: name' with its settings, got {show(value)}")
        learner = value.get("learner")
        if isinstance(learner, str):
            found = _FROM_FILE.fullmatch(learner)
            name = found["name"] if found else learner
            if is_name(name):
                return {"name": name, **value}
        return value

    @field_validator("learner")
    @classmethod
    def _check_learner(cls, text: str, info: ValidationInfo) -> str:
        if not is_name(text) and not _FROM_FILE.fullmatch(text):
            raise ValueError(f"expected a learner's name or path/to/file.py:Class, got {show(text)}")
        known = info.context.learner(text) if info.context else None
        if isinstance(known, LearnerError):
            raise ValueError("; ".join(filter(None, (known.message, known.hint))))
        return text

    @field_validator("params", mode="before")
    @classmethod
    def _check_params(cls, value: Any, info: ValidationInfo) -> dict[str, Scalar]:
        params = by_axis(value, parameter)
        learner = info.data.get("learner")
        known = _learner_names(info, learner)
        if known and (problems := unknown_names(value, known[0], f"{learner} has no parameter")):
            raise Problems(problems)
        return params

    @field_validator("grid", mode="before")
    @classmethod
    def _check_grid(cls, value: Any, info: ValidationInfo) -> dict[str, tuple[float, ...]]:
        learner, params = info.data.get("learner"), info.data.get("params", {})
        known = _learner_names(info, learner)
        if known:
            or_zero = info.context.may_be_zero(learner)
        else:
            # Where learners are not looked up, nobody can say which axes may be 0.
            unchecked = not (info.context and info.context.learner_parameters) and isinstance(value, Mapping)
            or_zero = [spell_axis(key) for key in value] if unchecked else ()
        grid = by_axis(value, grid_values, or_zero)
        problems = [
            Problem((key,), f"{key} is fixed under params and tuned here; keep one of them", at_key=True)
            for key in value
            if spell_axis(key) in params
        ]
        if known:
            problems += unknown_names(value, known[1], f"{learner} has no grid axis")
        if problems:
            raise Problems(problems)
        return grid


class Limits(Section):
    """What one task may use; a task that needs more is recorded as such and prints N/A."""

    seconds: Annotated[float | None, BeforeValidator(duration)] = Field(
        None, description="Wall-clock time of a task, in seconds or as text like 90s, 10m, 3h, 2d."
    )
    memory_gb: float | None = Field(
        None, gt=0, allow_inf_nan=False, description="Memory of a task, in units of 10^9 bytes."
    )


class Report(Section):
    """How the table is rendered."""

    reference: str | None = Field(None, description="Column the others are tested against; default the first.")
    published: str | None = Field(None, description="Id of the published table to compare with.")
    test: Literal["paired", "corrected"] = Field(
        "paired",
        description="paired: the papers' t-test; corrected: Nadeau and Bengio's variance correction.",
    )

    @field_validator("published")
    @classmethod
    def _check_published(cls, text: str | None, info: ValidationInfo) -> str | None:
        known = info.context.published if info.context else None
        if text is not None and known is not None and text not in known:
            raise ValueError(f"no published table '{text}'{suggest(text, known)}; known: {', '.join(sorted(known))}")
        return text


class Experiment(Section):
    """An experiment file, checked and frozen."""

    title: Annotated[Line, AfterValidator(not_empty)] = Field(description="One line that says what this is.")
    description: str = Field("", description="What a reader of the table should know.")
    catalogue: str | None = Field(None, description="Extra dataset catalogue, relative to the experiment file.")
    datasets: tuple[str, ...] = Field(min_length=1, description="Names in the catalogue: rows of the table.")
    learners: tuple[LearnerEntry, ...] = Field(min_length=1, description="Columns of the table.")
    grids: dict[str, tuple[float, ...]] = Field(
        {}, description="Values tried on each axis: a list, or {pow2: [lowest, highest]} or [.., .., step]."
    )
    protocol: Protocol = Field(CrossValidation(), description="How a number is measured.")
    limits: Limits = Field(Limits(), description="What one task may use.")
    reuse: tuple[Name, ...] = Field(
        (), description="Results folders beside the output whose records of the same tasks are taken over."
    )
    report: Report = Field(Report(), description="How the table is rendered.")
    figures: tuple[FigureEntry, ...] = Field((), description="Figures that are drawn; kinds without a table need one.")

    _path: Path = PrivateAttr(default=Path("experiment.yaml"))

    @property
    def path(self) -> Path:
        """The file this came from."""
        return self._path

    @property
    def name(self) -> str:
        """The stem of the file name, which also names the results folder."""
        return self._path.stem

    @property
    def catalogue_path(self) -> Path | None:
        """The extra catalogue, seen from the working directory."""
        return self._path.parent / self.catalogue if self.catalogue is not None else None

    @property
    def columns(self) -> tuple[str, ...]:
        """The keys of the columns, in order."""
        return tuple(entry.name for entry in self.learners)

    @property
    def reference(self) -> str:
        """The column that the others are tested against."""
        return self.report.reference or self.columns[0]

    def learner_of(self, entry: LearnerEntry) -> str:
        """Return the registry name of a column's learner, or ``/absolute/file.py:Class``."""
        return _absolute(entry.learner, self._path.parent)

    def grid_of(self, entry: LearnerEntry, axes: Collection[str]) -> dict[str, tuple[float, ...]]:
        """Return the values that a column tries on each of its learner's axes.

        Axes fixed under ``params`` are left out; the column's own ``grid`` goes before ``grids``.

        Raises
        ------
        ConfigError
            If an axis has no values.
        """
        if without := self._without_values(entry, axes):
            raise ConfigError(f"{self._path}: {_no_values(entry, without)}")
        grids = {**self.grids, **entry.grid}
        return {axis: grids[axis] for axis in axes if axis not in entry.params} if self.protocol.trains else {}

    def lender_of(self, entry: LearnerEntry) -> LearnerEntry | None:
        """Return the entry that a column takes chosen values from, or None."""
        return next((other for other in self.learners if other.name == entry.axes_from), None)

    def plain(self) -> dict[str, Any]:
        """Return everything that the file says, defaults filled in, as JSON-ready lists, dicts and scalars.

        Written as YAML beside the original, it loads with the same contents.
        """
        return self.model_dump(mode="json")

    def _without_values(self, entry: LearnerEntry, axes: Collection[str]) -> list[str]:
        if not self.protocol.trains:
            return []
        return [axis for axis in axes if axis not in {**self.grids, **entry.grid, **entry.params}]

    def _trouble_with_lender(
        self, position: int, entry: LearnerEntry, lender: LearnerEntry | None, axes: Collection[str]
    ) -> Iterator[Problem]:
        place = ("learners", position, "axes_from")
        if lender is None or lender is entry:
            others = [column for column in self.columns if column != entry.name]
            listed = ", ".join(others) or "none"
            near = suggest(entry.axes_from, others)
            yield Problem(place, f"no other column is called '{entry.axes_from}'{near}; columns: {listed}")
        elif lender.axes_from is not None:
            yield Problem(place, f"{lender.name} takes its values from another column itself")
        elif own := [axis for axis in axes if axis in {**entry.grid, **entry.params} or axis in lender.params]:
            yield Problem(
                place, f"{' and '.join(own)} cannot be taken from {lender.name} and be given here or fixed there"
            )
        if getattr(self.protocol, "splits", self.protocol).kind != "holdout":
            yield Problem(place, f"expected with protocol.kind holdout only, and this is {self.protocol.kind}")

    @field_validator("catalogue")
    @classmethod
    def _check_catalogue(cls, text: str | None, info: ValidationInfo) -> str | None:
        if text is not None and info.context and not os.path.isfile(info.context.folder / text):
            raise ValueError(f"no such file: {info.context.folder / text}")
        return text

    @field_validator("datasets")
    @classmethod
    def _check_datasets(cls, names: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        problems = repeated(names)
        known = info.context.datasets if info.context else None
        if known is not None and "catalogue" in info.data:
            text = info.data["catalogue"]
            if callable(known):
                known = known(None if text is None else info.context.folder / text)
            listed = ", ".join(sorted(known))
            problems += [
                Problem((position,), f"unknown dataset '{name}'{suggest(name, known)}; known: {listed}")
                for position, name in enumerate(names)
                if name not in known
            ]
        if problems:
            raise Problems(problems)
        return names

    @field_validator("learners")
    @classmethod
    def _check_columns(cls, entries: tuple[LearnerEntry, ...]) -> tuple[LearnerEntry, ...]:
        problems = repeated([entry.name for entry in entries], "; give one of these columns another name")
        if problems:
            raise Problems(Problem((*problem.loc, "name"), problem.message) for problem in problems)
        return entries

    @field_validator("grids", mode="before")
    @classmethod
    def _check_grids(cls, value: Any, info: ValidationInfo) -> dict[str, tuple[float, ...]]:
        grids = by_axis(value, grid_values)
        known = [_learner_names(info, entry.learner) for entry in info.data.get("learners", ())]
        if known and all(known):
            axes = list(dict.fromkeys(axis for _, learner_axes in known for axis in learner_axes))
            if problems := unknown_names(value, axes, "no learner here has the axis"):
                raise Problems(problems)
        return grids

    @field_validator("reuse")
    @classmethod
    def _check_reuse(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if problems := repeated(names):
            raise Problems(problems)
        return names

    @field_validator("report")
    @classmethod
    def _check_reference(cls, report: Report, info: ValidationInfo) -> Report:
        columns = [entry.name for entry in info.data.get("learners", ())]
        if columns and report.reference is not None and report.reference not in columns:
            message = f"no column '{report.reference}'{suggest(report.reference, columns)}"
            raise Problems([Problem(("reference",), f"{message}; columns: {', '.join(columns)}")])
        return report

    @model_validator(mode="after")
    def _check_figures(self, info: ValidationInfo) -> "Experiment":
        problems = figure_problems(self.figures, self.protocol, self.learners, self.grids)
        if problems:
            raise Problems(problems)
        return self

    @model_validator(mode="after")
    def _check_axes(self, info: ValidationInfo) -> "Experiment":
        problems = []
        for position, entry in enumerate(self.learners):
            _, axes = _learner_names(info, entry.learner) or ((), ())
            if entry.axes_from is not None:
                lender = self.lender_of(entry)
                _, lent = (_learner_names(info, lender.learner) if lender else None) or ((), ())
                problems += self._trouble_with_lender(position, entry, lender, [axis for axis in axes if axis in lent])
                axes = [axis for axis in axes if axis not in lent]
            if without := self._without_values(entry, axes):
                problems.append(Problem(("learners", position), _no_values(entry, without)))
            if isinstance(entry.max_train, dict):
                unknown = unknown_names(entry.max_train, ("default", *self.datasets), "this experiment has no dataset")
                problems += [
                    Problem(("learners", position, "max_train", *below.loc), below.message, below.at_key)
                    for below in unknown
                ]
        if problems:
            raise Problems(problems)
        return self


def _no_values(entry: LearnerEntry, axes: Collection[str]) -> str:
    return (
        f"no values to try for {' and '.join(axes)} of {entry.name}; "
        "give them under grids or under grid of this learner, or fix them under params"
    )


# ------------------------------------------------------------------ files


def load_experiment(
    path: str | Path,
    *,
    known_datasets: KnownDatasets | None = None,
    learner_parameters: LearnerParameters | None = None,
    known_published: Collection[str] | None = None,
    zero_axes: ZeroAxes | None = None,
    content: Mapping[str, Any] | None = None,
) -> Experiment:
    """Read and check an experiment file.

    Parameters
    ----------
    path : str or Path
        The YAML file.
    known_datasets : collection of str, or callable, optional
        Names that ``datasets`` may use. A callable gets the path of the extra catalogue (or None) and returns
        the names; what it raises about that catalogue passes through.
    learner_parameters : callable, optional
        Given a registry name or ``/absolute/file.py:Class``, returns the names of the constructor parameters
        and of the grid axes, or raises LearnerError.
    known_published : collection of str, optional
        Ids that ``report.published`` may use.
    zero_axes : callable, optional
        Given a learner that ``learner_parameters`` knows, returns the grid axes that may be 0.
    content : mapping, optional
        What `Experiment.plain` gave of that file once; then the file is not read and need not be there any more.

    Returns
    -------
    Experiment

    Raises
    ------
    ConfigError
        All mistakes at once, each with ``file:line:column``, the key, what is allowed and what came.
    """
    path = Path(path)
    known = _Known(path.parent, known_datasets, learner_parameters, known_published, zero_axes)
    if content is None:
        experiment = read_model(path, Experiment, context=known)
    else:
        experiment = check_model(content, Experiment, source=path, context=known)
    experiment._path = path
    return experiment


def find_config(text: str) -> Path:
    """Return the experiment file meant by a path, or by a bare name such as ``table2``.

    A path that exists goes first; then bare names are looked up in ``./configs`` and in the configs that come
    with the package.

    Raises
    ------
    ConfigError
        If there is no such file; lists those there are.
    """
    path = Path(text)
    if os.path.exists(path) and not os.path.isdir(path):  # os.path: no error for names that no disk would take
        return path
    folders = [Path("configs"), _packaged_configs()]
    if path.name == text:
        for folder in folders:
            for name in (text, f"{text}.yaml"):
                if os.path.isfile(folder / name):
                    return folder / name
    names = sorted({found.stem for folder in folders for found in folder.glob("*.yaml")})
    what = "this is a folder" if os.path.isdir(path) else "no such file"
    raise ConfigError(
        f"{text}: {what}; expected an experiment file or one of {', '.join(names)}{suggest(path.stem, names)}"
    )


def _packaged_configs() -> Path:
    package = Path(__file__).parent
    in_wheel = package / "configs"
    return in_wheel if in_wheel.is_dir() else package.parent / "configs"
