"""One column of the table: a learner, or a scikit-learn compatible classifier."""

import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    PrivateAttr,
    Tag,
    ValidationInfo,
    field_validator,
    model_validator,
)

from ..errors import LearnerError, suggest
from ..protocols import Section
from ..sentences import Problem, Problems, convert_each, raise_problems, show
from ..values import (
    Scalar,
    address,
    by_axis,
    grid_values,
    is_name,
    line,
    parameter,
    plain_name,
    power,
    row_cap,
    spell_axis,
    unknown_names,
)
from .known import FROM_FILE, absolute, known_parameters

__all__ = ["AnyEntry", "ColumnEntry", "EstimatorEntry", "LearnerEntry", "Line", "Name"]

Line = Annotated[str, AfterValidator(line)]
Name = Annotated[str, AfterValidator(plain_name)]
Title = Annotated[Line, Field(description="Heading in tables; by default the key of the column.")]
MaxTrain = Annotated[
    int | dict[str, int] | None,
    BeforeValidator(row_cap),
    Field(
        description="Maximum number of training rows, drawn at random; or per dataset, with 'default' for the others."
    ),
]


class ColumnEntry(Section):
    """What the columns of learners and of estimators have in common."""

    if TYPE_CHECKING:
        name: str
        title: str
        max_train: int | dict[str, int] | None
        params: dict[str, Any]
        grid: dict[str, tuple[float, ...]]

        @property
        def learner(self) -> str: ...

        @property
        def axes_from(self) -> str | None: ...

    @property
    def heading(self) -> str:
        """The title, or the name where there is none."""
        return self.title or self.name

    def max_train_on(self, dataset: str) -> int | None:
        """Training rows at most for a dataset, or None for all of them."""
        if isinstance(self.max_train, dict):
            return self.max_train.get(dataset, self.max_train.get("default"))
        return self.max_train


class LearnerEntry(ColumnEntry):
    """One column of the table: a learner with its fixed parameters and its own grid."""

    learner: str = Field(description="Registry name, or path/to/file.py:Class relative to the experiment file.")
    name: Name = Field("", description="Key of the column, unique; by default the learner's name.")
    title: Title = ""
    params: dict[str, Scalar] = Field({}, description="Constructor parameters that are not tuned.")
    grid: dict[str, tuple[float, ...]] = Field({}, description="Grid axes instead of those under grids.")
    axes_from: str | None = Field(
        None, description="Column whose selected values are used on the axes that both tune; kind holdout only."
    )
    max_train: MaxTrain = None

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, value: Any) -> Any:
        if isinstance(value, str):
            value = {"learner": value}
        if not isinstance(value, Mapping):
            raise ValueError(f"expected a learner's name, or 'learner: name' with its settings, got {show(value)}")
        learner = value.get("learner")
        if isinstance(learner, str):
            found = FROM_FILE.fullmatch(learner)
            name = found["name"] if found else learner
            if is_name(name):
                return {"name": name, **value}
        return value

    @field_validator("learner")
    @classmethod
    def _check_learner(cls, text: str, info: ValidationInfo) -> str:
        if not is_name(text) and not FROM_FILE.fullmatch(text):
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
        if known := known_parameters(info, learner):
            raise_problems(unknown_names(value, known[0], f"{learner} has no parameter"))
        return params

    @field_validator("grid", mode="before")
    @classmethod
    def _check_grid(cls, value: Any, info: ValidationInfo) -> dict[str, tuple[float, ...]]:
        learner, params = info.data.get("learner"), info.data.get("params", {})
        grid = by_axis(value, grid_values)
        problems = _fixed_and_tuned([key for key in value if spell_axis(key) in params])
        if info.context and (known := known_parameters(info, learner)):
            problems += unknown_names(value, known[1], f"{learner} has no grid axis")
            own = {axis: values for axis, values in grid.items() if axis in known[1]}
            problems += info.context.refused_in_grid(learner, own, value)
        raise_problems(problems)
        return grid

    @model_validator(mode="after")
    def _check_values(self, info: ValidationInfo) -> "LearnerEntry":
        refused = info.context.refused(self.learner, self.params) if info.context else ()
        raise_problems(Problem(("params", name) if name else (), message) for name, message in refused)
        return self


class EstimatorEntry(ColumnEntry):
    """One column of the table: a scikit-learn compatible classifier, with transformers in front."""

    # Its name in the registry of learners; no name that a user may write.
    learner: ClassVar[str] = ":estimator"
    axes_from: ClassVar[None] = None

    estimator: Annotated[str, AfterValidator(address)] = Field(
        description="package.module.Class of a classifier, or path/to/file.py:Class relative to the experiment file."
    )
    name: Name = Field("", description="Key of the column, unique; by default the name of the class.")
    title: Title = ""
    params: dict[str, Any] = Field(
        {}, description="Constructor parameters that are not tuned; an estimator among them as {estimator, params}."
    )
    pipeline: tuple[str | dict[str, Any], ...] = Field(
        (), description="Transformers in front, fitted on training rows; as text, or as {estimator, params}."
    )
    grid: dict[str, tuple[float, ...]] = Field(
        {}, description="Values to try for each tuned parameter; that of a transformer is written as step__parameter."
    )
    dense: bool = Field(False, description="Whether sparse rows are made dense, for classifiers that need it.")
    max_train: MaxTrain = None

    _has_probabilities: bool = PrivateAttr(True)

    @property
    def has_probabilities(self) -> bool:
        """Whether it has ``predict_proba``; True where estimators are not checked."""
        return self._has_probabilities

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, value: Any) -> Any:
        name = re.split(r"[.:]", value["estimator"])[-1] if isinstance(value.get("estimator"), str) else ""
        return {"name": name, **value} if is_name(name) else value

    @field_validator("pipeline", mode="before")
    @classmethod
    def _check_pipeline(cls, value: Any) -> Any:
        if not isinstance(value, list | tuple):
            raise ValueError(f"expected a list of transformers, got {show(value)}")
        convert_each(enumerate(value), lambda _, step: _check_step(step))
        return tuple(value)

    @field_validator("params", mode="before")
    @classmethod
    def _check_params(cls, value: Any) -> Any:
        _check_estimator_params(value)
        return value

    @field_validator("grid", mode="before")
    @classmethod
    def _check_grid(cls, value: Any, info: ValidationInfo) -> dict[str, tuple[float, ...]]:
        if not isinstance(value, Mapping):
            raise ValueError(f"expected 'parameter: values' lines, got {show(value)}")
        grid = dict(zip(value, convert_each(value.items(), _values_of_estimator)))
        raise_problems(_fixed_and_tuned([name for name in value if name in info.data.get("params", {})]))
        return grid

    @model_validator(mode="after")
    def _check_estimator(self, info: ValidationInfo) -> "EstimatorEntry":
        context = info.context
        if not context or context.check_estimator is None:
            return self
        try:
            self._has_probabilities = context.check_estimator(**self.described(context.folder), grid=self.grid)
        except LearnerError as error:
            message = "; ".join(filter(None, (error.message, error.hint)))
            raise Problems([Problem(getattr(error, "loc", ()), message, getattr(error, "at_key", False))]) from None
        return self

    def described(self, folder: Path) -> dict[str, Any]:
        """The estimator with its parameters and the transformers in front; files relative to ``folder``, as JSON."""
        return {
            "estimator": absolute(self.estimator, folder),
            "params": {name: _located(value, folder) for name, value in self.params.items()},
            "pipeline": [_located(step, folder) for step in self.pipeline],
        }


def entry_kind(value: Any) -> str:
    """Which of the two kinds of column an entry is: the name of its class."""
    is_estimator = "estimator" in value if isinstance(value, Mapping) else isinstance(value, EstimatorEntry)
    return (EstimatorEntry if is_estimator else LearnerEntry).__name__


AnyEntry = Annotated[
    Annotated[LearnerEntry, Tag("LearnerEntry")] | Annotated[EstimatorEntry, Tag("EstimatorEntry")],
    Discriminator(entry_kind),
]


def _fixed_and_tuned(names: Iterable[str]) -> list[Problem]:
    return [
        Problem((name,), f"{name} is fixed under params and tuned here; keep one of them", at_key=True)
        for name in names
    ]


def _values_of_estimator(_: str, values: Any) -> tuple[float, ...]:
    """The values of a grid axis of an estimator."""
    if isinstance(values, list | tuple) and any(map(_is_no_number, values)):
        raise ValueError("expected numbers; make a column for each other value, with params")
    return grid_values(values)


def _is_no_number(item: Any) -> bool:
    return power(item) is None if isinstance(item, str) else isinstance(item, bool | None)


def _check_step(step: Any) -> None:
    """Refuse what is no estimator: text, or {estimator, params}."""
    described = {"estimator": step} if isinstance(step, str) else step
    if not isinstance(described, Mapping) or "estimator" not in described:
        raise ValueError(f"expected package.module.Class, or {{estimator: ..., params: ...}}, got {show(step)}")

    def check(key: str, value: Any) -> None:
        if key == "estimator":
            address(value)
        elif key == "params":
            _check_estimator_params(value)
        else:
            message = f"unknown key{suggest(key, ['estimator', 'params'])}; allowed: estimator, params"
            raise Problems([Problem((), message, at_key=True)])

    convert_each(described.items(), check)


def _check_estimator_params(params: Any) -> None:
    if not isinstance(params, Mapping):
        raise ValueError(f"expected 'name: value' lines, got {show(params)}")
    convert_each(params.items(), _check_param)


def _check_param(_: str | int, value: Any) -> None:
    """Refuse a value of a constructor parameter; it may be an estimator, and may have others inside."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"expected a finite number, got {show(value)}")
    if isinstance(value, Mapping) and "estimator" in value:
        _check_step(value)
    elif isinstance(value, Mapping | list):
        convert_each(value.items() if isinstance(value, Mapping) else enumerate(value), _check_param)


def _located(value: Any, folder: Path) -> Any:
    """A value in which the files of estimators are relative to ``folder``."""
    if isinstance(value, str):
        return absolute(value, folder)
    if isinstance(value, Mapping):
        return {key: _located(below, folder) for key, below in value.items()}
    return [_located(below, folder) for below in value] if isinstance(value, list | tuple) else value
