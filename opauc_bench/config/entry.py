"""One column of the table."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from ..errors import LearnerError
from ..protocols import Section
from ..values import (
    Scalar,
    by_axis,
    grid_values,
    is_name,
    line,
    parameter,
    plain_name,
    row_cap,
    spell_axis,
    unknown_names,
)
from ..yamlio import Problem, Problems, show
from .known import FROM_FILE, learner_names

__all__ = ["LearnerEntry", "Line", "Name"]

Line = Annotated[str, AfterValidator(line)]
Name = Annotated[str, AfterValidator(plain_name)]


class LearnerEntry(Section):
    """One column of the table: a learner with its fixed parameters and its own grid."""

    learner: str = Field(description="Registry name, or path/to/file.py:Class relative to the experiment file.")
    name: Name = Field("", description="Key of the column, unique; by default the learner's name.")
    title: Line = Field("", description="Heading in tables; by default the key of the column.")
    params: dict[str, Scalar] = Field({}, description="Constructor parameters that are not tuned.")
    grid: dict[str, tuple[float, ...]] = Field({}, description="Grid axes in place of those under grids.")
    axes_from: str | None = Field(
        None, description="Column whose selected values are used on the axes that both tune; kind holdout only."
    )
    max_train: Annotated[int | dict[str, int] | None, BeforeValidator(row_cap)] = Field(
        None, description="Training rows at most, drawn at random; or by dataset, with 'default' for the others."
    )

    @property
    def heading(self) -> str:
        """The title, or the name where there is none."""
        return self.title or self.name

    def max_train_on(self, dataset: str) -> int | None:
        """Training rows at most for a dataset, or None for all of them."""
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
        known = learner_names(info, learner)
        if known and (problems := unknown_names(value, known[0], f"{learner} has no parameter")):
            raise Problems(problems)
        return params

    @field_validator("grid", mode="before")
    @classmethod
    def _check_grid(cls, value: Any, info: ValidationInfo) -> dict[str, tuple[float, ...]]:
        learner, params = info.data.get("learner"), info.data.get("params", {})
        known = learner_names(info, learner)
        if known:
            or_zero = info.context.may_be_zero(learner)
        else:
            # Where learners are not looked up, any axis may be 0.
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
