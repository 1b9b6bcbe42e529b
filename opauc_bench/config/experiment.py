"""The experiment and its sections."""

import os.path
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from ..errors import ConfigError, suggest
from ..figures import FigureEntry, figure_problems
from ..protocols import PROTOCOLS, AnyProtocol, CrossValidation, Protocol, Section, kind_of
from ..sentences import Loc, Problem, problems_of, raise_problems, show
from ..values import by_axis, distinct, grid_values, not_empty, parse_duration, repeated, unknown_names
from .entry import AnyEntry, ColumnEntry, EstimatorEntry, Line, Name
from .known import absolute, known_parameters

__all__ = ["Experiment", "LatexTable", "Limits", "Report"]

_LABEL = re.compile(r"[A-Za-z0-9_:./+-]*")


class Limits(Section):
    """Limits of one task; a task that needs more is recorded as such and prints N/A."""

    seconds: Annotated[float | None, BeforeValidator(parse_duration)] = Field(
        None, description="Wall-clock time of a task, in seconds or as text like 90s, 10m, 3h, 2d."
    )
    memory_gb: float | None = Field(
        None, gt=0, le=1e9, allow_inf_nan=False, description="Memory of a task, in units of 10^9 bytes."
    )

    @property
    def memory_bytes(self) -> float | None:
        """The limit of the memory in bytes."""
        return None if self.memory_gb is None else self.memory_gb * 1e9


def _plain_label(text: str) -> str:
    if not _LABEL.fullmatch(text):
        raise ValueError(f"expected a label of letters, digits and _ : . / + -, got {show(text)}")
    return text


class LatexTable(Section):
    """The LaTeX table of `report --latex`; options of the same names override what is here."""

    columns: tuple[str, ...] = Field((), description="Columns to show, in order; by default all of the experiment.")
    rows: tuple[str, ...] = Field((), description="Rows to show, in order; by default all that have a value.")
    digits: int | None = Field(None, ge=0, le=15, description="Decimals of all numbers; by default the metric's.")
    bold: Literal["best", "none"] = Field("none", description="best: the best mean of each dataset is bold.")
    std: bool = Field(True, description="Whether standard deviations are shown.")
    transpose: bool = Field(False, description="Whether learners are rows and datasets columns.")
    marks: bool = Field(True, description="Whether verdicts are marked and counted.")
    label: Annotated[str, AfterValidator(_plain_label)] = Field("", description="Label of the table, for references.")

    def unknown_names(self, **known: Collection[str]) -> list[Problem]:
        """Return a problem for each of `columns` and `rows` that is not among the known ones or is named twice."""
        problems = []
        for key, allowed in known.items():
            names = getattr(self, key)
            problems += [found.under(key) for found in repeated(names)]
            for position, name in enumerate(names):
                if name not in allowed:
                    message = f"no {key.removesuffix('s')} '{name}'{suggest(name, allowed)}"
                    problems.append(Problem((key, position), f"{message}; {key}: {', '.join(allowed)}"))
        return problems


class Report(Section):
    """How the table is rendered."""

    reference: str | None = Field(None, description="Column the others are tested against; default the first.")
    published: str | None = Field(None, description="Id of the published table to compare with.")
    test: Literal["paired", "corrected", "bayes"] = Field(
        "paired",
        description="paired: the papers' t-test; corrected: Nadeau and Bengio's variance correction; bayes: the "
        "Bayesian correlated t-test.",
    )
    rope: float = Field(
        0.005,
        ge=0,
        lt=1,
        allow_inf_nan=False,
        description="Half the width of the region of practical equivalence of the Bayesian tests, in units of AUC.",
    )
    latex: LatexTable = Field(LatexTable(), description="The table that report --latex writes.")

    @field_validator("published")
    @classmethod
    def _check_published(cls, text: str | None, info: ValidationInfo) -> str | None:
        known = info.context.known_published if info.context else None
        if text is not None and known is not None and text not in known:
            raise ValueError(f"no published table '{text}'{suggest(text, known)}; known: {', '.join(sorted(known))}")
        return text


class Experiment(Section):
    """An experiment file, checked and frozen."""

    title: Annotated[Line, AfterValidator(not_empty)] = Field(description="One line that says what this is.")
    description: str = Field("", description="What readers of the table should know.")
    catalogue: str | dict[str, Any] | None = Field(
        None, description="Extra dataset catalogue, relative to the experiment file; or its entries by name."
    )
    datasets: tuple[str, ...] = Field(min_length=1, description="Names in the catalogue: rows of the table.")
    learners: tuple[AnyEntry, ...] = Field(min_length=1, description="Columns of the table.")
    grids: dict[str, tuple[float, ...]] = Field(
        {}, description="Values to try on each axis: a list, or {pow2: [lowest, highest]} or [.., .., step]."
    )
    protocol: AnyProtocol = Field(CrossValidation(), description="How a number is measured.")
    limits: Limits = Field(Limits(), description="Limits of one task.")
    reuse: Annotated[tuple[Name, ...], AfterValidator(distinct)] = Field(
        (), description="Results folders beside the output whose records of the same tasks are reused."
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
        """The file of the extra catalogue, seen from the working directory."""
        return self._path.parent / self.catalogue if isinstance(self.catalogue, str) else None

    @property
    def own_entries(self) -> dict[str, Any] | None:
        """The entries of datasets that are written in the experiment itself."""
        return self.catalogue if isinstance(self.catalogue, dict) else None

    @property
    def columns(self) -> tuple[str, ...]:
        """The keys of the columns, in order."""
        return tuple(entry.name for entry in self.learners)

    @property
    def rows(self) -> dict[str, str]:
        """The rows of the table with their datasets, in order: one for each case of the protocol."""
        return _rows(self.datasets, self.protocol)

    @property
    def reference(self) -> str:
        """The column that the others are tested against."""
        return self.report.reference or self.columns[0]

    def learner_of(self, entry: ColumnEntry) -> str:
        """Return the registry name of a column's learner, or ``/absolute/file.py:Class``."""
        return absolute(entry.learner, self._path.parent)

    def params_of(self, entry: ColumnEntry) -> dict[str, Any]:
        """Return the constructor parameters of a column's learner that are not tuned."""
        if not isinstance(entry, EstimatorEntry):
            return dict(entry.params)
        return {**entry.described(self._path.parent), "axes": dict(entry.grid), "dense": entry.dense}

    def grid_of(self, entry: ColumnEntry, axes: Collection[str]) -> dict[str, tuple[float, ...]]:
        """Return the values of each of a column's ``axes`` that is not fixed; ConfigError if one has no values.

        The column's own ``grid`` has precedence over ``grids``.
        """
        if without := self._without_values(entry, axes):
            raise ConfigError(f"{self._path}: {_no_values(entry, without)}")
        grids = {**self.grids, **entry.grid}
        return {axis: grids[axis] for axis in axes if axis not in entry.params} if self.protocol.trains else {}

    def tuner_of(self, entry: ColumnEntry) -> ColumnEntry | None:
        """Return the entry of the column that selects some axes of this one, or None."""
        return next((other for other in self.learners if other.name == entry.axes_from), None)

    def latex_table(self, options: Mapping[str, Any]) -> LatexTable:
        """Return ``report.latex`` with its columns filled in, and with ``options`` of the command line.

        ConfigError if an option has an invalid value, or names an unknown column or row.
        """
        try:
            table = LatexTable.model_validate({**dict(self.report.latex), **options})
            problems = table.unknown_names(columns=self.columns, rows=self.rows)
        except ValidationError as error:
            problems = problems_of(error, LatexTable, dict(options))
        if problems:
            raise ConfigError("\n".join(f"--{problem.loc[0]}: {problem.message}" for problem in problems))
        return table.model_copy(update={"columns": table.columns or self.columns})

    def with_rope(self, rope: float) -> Self:
        """Return the experiment with another ``report.rope``; ConfigError if it is out of range."""
        try:
            report = Report.model_validate({**dict(self.report), "rope": rope})
        except ValidationError as error:
            raise ConfigError(f"--rope: {problems_of(error, Report, {'rope': rope})[0].message}") from None
        return self.model_copy(update={"report": report})

    def plain(self) -> dict[str, Any]:
        """Return the whole experiment with all defaults, as plain data; as YAML, it loads with the same contents."""
        return self.model_dump(mode="json")

    def _without_values(self, entry: ColumnEntry, axes: Collection[str]) -> list[str]:
        if not self.protocol.trains:
            return []
        return [axis for axis in axes if axis not in {**self.grids, **entry.grid, **entry.params}]

    def _axes_from_problems(
        self, position: int, entry: ColumnEntry, tuner: ColumnEntry | None, axes: Collection[str]
    ) -> Iterator[Problem]:
        place = ("learners", position, "axes_from")
        if tuner is None or tuner is entry:
            others = [column for column in self.columns if column != entry.name]
            listed = ", ".join(others) or "none"
            near = suggest(str(entry.axes_from), others)
            yield Problem(place, f"no other column is called '{entry.axes_from}'{near}; columns: {listed}")
        elif tuner.axes_from is not None:
            yield Problem(place, f"{tuner.name} has axes_from as well")
        elif own := [axis for axis in axes if axis in {**entry.grid, **entry.params} or axis in tuner.params]:
            yield Problem(
                place, f"{' and '.join(own)} cannot be inherited from {tuner.name}: given here, or fixed there"
            )
        if not self.protocol.supports_axes_from:
            kinds = " or ".join(kind_of(each) for each in PROTOCOLS if each.supports_axes_from is True)
            yield Problem(place, f"expected with protocol.kind {kinds} only, and this is {self.protocol.kind}")

    @field_validator("catalogue")
    @classmethod
    def _check_catalogue(cls, value: str | dict[str, Any] | None, info: ValidationInfo) -> str | dict[str, Any] | None:
        if isinstance(value, str) and info.context and not os.path.isfile(info.context.folder / value):
            raise ValueError(f"no such file: {info.context.folder / value}")
        if isinstance(value, dict) and info.context:
            info.context.names_of_datasets(value)
        return value

    @field_validator("datasets")
    @classmethod
    def _check_datasets(cls, names: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        problems = repeated(names)
        context = info.context if "catalogue" in info.data else None
        known = context.names_of_datasets(info.data["catalogue"]) if context else None
        if known is not None:
            listed = ", ".join(sorted(known))
            problems += [
                Problem((position,), f"unknown dataset '{name}'{suggest(name, known)}; known: {listed}")
                for position, name in enumerate(names)
                if name not in known
            ]
        raise_problems(problems)
        return names

    @field_validator("learners")
    @classmethod
    def _check_columns(cls, entries: tuple[AnyEntry, ...]) -> tuple[AnyEntry, ...]:
        problems = repeated([entry.name for entry in entries], "; give one of these columns another name")
        raise_problems(Problem((*problem.loc, "name"), problem.message) for problem in problems)
        return entries

    @field_validator("grids", mode="before")
    @classmethod
    def _check_grids(cls, value: Any, info: ValidationInfo) -> dict[str, tuple[float, ...]]:
        grids = by_axis(value, grid_values)
        entries = info.data.get("learners", ())
        known = [known_parameters(info, entry.learner) for entry in entries]
        of_learners = [names for entry, names in zip(entries, known) if not isinstance(entry, EstimatorEntry)]
        if entries and all(of_learners):
            axes = list(dict.fromkeys(axis for _, learner_axes in filter(None, of_learners) for axis in learner_axes))
            what = "no learner here has the axis"
            if len(of_learners) < len(entries):
                what = "an estimator takes its values under grid of its own entry, and no learner here has the axis"
            raise_problems(unknown_names(value, axes, what))
        refused: dict[Loc, Problem] = {}
        for entry, names in zip(entries, known):
            if names and info.context:
                used = {
                    axis: grids[axis]
                    for axis in names[1]
                    if axis in grids and axis not in {**entry.grid, **entry.params}
                }
                for problem in info.context.refused_in_grid(entry.learner, used, value):
                    refused.setdefault(problem.loc, problem)
        raise_problems(refused.values())
        return grids

    @field_validator("report")
    @classmethod
    def _check_names(cls, report: Report, info: ValidationInfo) -> Report:
        columns = [entry.name for entry in info.data.get("learners", ())]
        known: dict[str, Collection[str]] = {"columns": columns} if columns else {}
        if info.data.keys() >= {"datasets", "protocol"}:
            known["rows"] = _rows(info.data["datasets"], info.data["protocol"])
        problems = [found.under("latex") for found in report.latex.unknown_names(**known)]
        if columns and report.reference is not None and report.reference not in columns:
            message = f"no column '{report.reference}'{suggest(report.reference, columns)}"
            problems.append(Problem(("reference",), f"{message}; columns: {', '.join(columns)}"))
        raise_problems(problems)
        return report

    @model_validator(mode="after")
    def _check_together(self, info: ValidationInfo) -> "Experiment":
        raise_problems(
            [
                *self._row_metadata_problems(info),
                *self._probability_problems(),
                *figure_problems(self.figures, self.protocol, self.learners, self.grids),
                *self._axes_problems(info),
            ]
        )
        return self

    def _row_metadata_problems(self, info: ValidationInfo) -> Iterator[Problem]:
        needed = self.protocol.row_metadata
        known = info.context.names_of_datasets(self.catalogue) if needed and info.context else None
        entries = known if isinstance(known, Mapping) else {}
        for position, dataset in enumerate(self.datasets):
            for name in needed:
                if dataset in entries and name not in entries[dataset].row_metadata:
                    message = (
                        f"this protocol needs '{name}' for each row, and the catalogue's entry of '{dataset}' has none"
                    )
                    yield Problem(("datasets", position), f"{message}; {entries[dataset].how_to_add(name)}")

    def _probability_problems(self) -> Iterator[Problem]:
        if self.protocol.selects_by_probabilities:
            for position, entry in enumerate(self.learners):
                if not (isinstance(entry, EstimatorEntry) and entry.has_probabilities):
                    message = f"{entry.name} has no probabilities, which select: {self.protocol.selecting_metric} needs"
                    yield Problem(("learners", position), message)

    def _axes_problems(self, info: ValidationInfo) -> Iterator[Problem]:
        for position, entry in enumerate(self.learners):
            _, axes = known_parameters(info, entry.learner) or ((), ())
            if entry.axes_from is not None:
                tuner = self.tuner_of(entry)
                _, of_tuner = (known_parameters(info, tuner.learner) if tuner else None) or ((), ())
                inherited = [axis for axis in axes if axis in of_tuner]
                yield from self._axes_from_problems(position, entry, tuner, inherited)
                axes = [axis for axis in axes if axis not in inherited]
            if without := self._without_values(entry, axes):
                yield Problem(("learners", position), _no_values(entry, without))
            if isinstance(entry.max_train, dict):
                unknown = unknown_names(entry.max_train, ("default", *self.datasets), "this experiment has no dataset")
                yield from (below.under("learners", position, "max_train") for below in unknown)


def _rows(datasets: Collection[str], protocol: Protocol) -> dict[str, str]:
    cases = protocol.cases()
    return {f"{dataset}{end}": dataset for dataset in datasets for end, _ in cases}


def _no_values(entry: ColumnEntry, axes: Collection[str]) -> str:
    return (
        f"no values to try for {' and '.join(axes)} of {entry.name}; "
        "give them under grids or under grid of this learner, or fix them under params"
    )
