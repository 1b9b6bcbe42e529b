"""The LaTeX table that `report --latex` writes."""

import re
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from ..protocols import Section
from ..sentences import Problem, show, suggest
from ..values import repeated

__all__ = ["LatexTable"]

_LABEL = re.compile(r"[A-Za-z0-9_:./+-]*")


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

    def unknown_names(self, **known: Sequence[str]) -> list[Problem]:
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
