"""Figures in an experiment file: which quantity is on which axis, and whether the protocol has it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from .errors import suggest
from .protocols import Section
from .sentences import Problem
from .values import line, plain_name, repeated, spell_axis

__all__ = ["FigureEntry", "figure_problems"]

Line = Annotated[str, AfterValidator(line)]
Axis = Annotated[str, AfterValidator(spell_axis)]

# Stems of the other CSV files of a report.
_TAKEN = ("table", "comparison", "folds")


def _free_name(name: str) -> str:
    if name.casefold() in _TAKEN:  # file systems may not distinguish case
        raise ValueError(f"{name}.csv is another file of the report: expected another name than {', '.join(_TAKEN)}")
    return name


class FigureEntry(Section):
    """One figure: a panel per dataset, a line per learner, means and standard deviations over repetitions."""

    x: Axis = Field(description="Horizontal: a quantity, a grid axis, a number under params, or dataset.")
    y: Axis = Field(description="Vertical: a quantity that the protocol measures.")
    name: Annotated[str, AfterValidator(plain_name), AfterValidator(_free_name)] = Field(
        "figure", description="Stem of the files; unique."
    )
    title: Line = Field("", description="One line above the figure.")
    along: Axis = Field("", description="Grid axis that a line follows, where x is measured in a sweep.")
    others: Literal["each", "validation"] = Field(
        "each", description="Remaining grid axes of a sweep: a line for each value, or the value that validates best."
    )
    x_scale: Literal["linear", "log2", "log10"] = Field("linear", description="linear, log2 or log10.")
    y_scale: Literal["linear", "log2", "log10"] = Field("linear", description="linear, log2 or log10.")
    x_label: Line = Field("", description="Label of the x axis; by default the quantity's name.")
    y_label: Line = Field("", description="Label of the y axis; by default the quantity's name.")


def figure_problems(
    figures: Sequence[FigureEntry], protocol: Any, learners: Sequence[Any], grids: Collection[str]
) -> list[Problem]:
    """Mistakes in the figures of an experiment with their places; ``grids`` are the axes under that key."""
    problems = [
        Problem(("figures", *found.loc, "name"), f"{found.message}; give one of these figures another name")
        for found in repeated([figure.name for figure in figures])
    ]
    if not protocol.table_metrics and not figures:
        problems.append(Problem((), f"kind {protocol.kind} fills no table: expected an entry under figures"))
    params = [name for name in learners[0].params if all(_is_number(entry.params.get(name)) for entry in learners)]
    swept = list(protocol.own_axes) or None
    if protocol.sweeps:
        swept = list(dict.fromkeys([*grids, *(axis for entry in learners for axis in entry.grid)]))
    for position, figure in enumerate(figures):
        for found in _problems_of_one(figure, protocol.kind, protocol.quantities, swept, params):
            problems.append(Problem(("figures", position, *found.loc), found.message))
    return problems


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _problems_of_one(
    figure: FigureEntry,
    kind: str,
    quantities: Collection[str],
    axes: Collection[str] | None,
    params: Collection[str],
) -> list[Problem]:
    """Mistakes in one figure; ``axes`` are those with a measurement per value, None where one setting is measured."""
    across = [*quantities, *(axes or ()), *params, *(["dataset"] if axes is None else [])]
    problems = []
    if figure.x not in across:
        problems.append(_unknown("x", figure.x, across, kind))
    if figure.y not in quantities:
        problems.append(_unknown("y", figure.y, quantities, kind))
    if figure.along and figure.along not in (axes or ()):
        problems.append(_unknown("along", figure.along, axes or (), kind))
    elif axes and figure.x in quantities and not figure.along:
        message = f"{figure.x} is measured: expected 'along' with the grid axis that a line follows: {', '.join(axes)}"
        problems.append(Problem(("x",), message))
    elif figure.along and figure.x not in quantities:
        problems.append(Problem(("along",), "only where x is a measured quantity; a line follows x otherwise"))
    if figure.others == "validation" and "validation_auc" not in quantities:
        message = "selects by validation_auc, which is known on splits of kind holdout only: sweep those, or use 'each'"
        problems.append(Problem(("others",), message))
    return problems


def _unknown(key: str, name: str, known: Collection[str], kind: str) -> Any:
    listed = ", ".join(known) or "none"
    return Problem((key,), f"a {kind} experiment has no '{name}'{suggest(name, known)} for {key}; known: {listed}")
