"""The output of the commands about learners."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from itertools import groupby

from ..errors import LearnerError
from ..learners import contested_names, get_learner, learner_addresses, learner_parameters
from .terminal import table_text, width, wrapped

__all__ = ["check_properties", "describe_learner", "list_learners"]


def list_learners() -> str:
    """All learners with their parameters."""
    rows = []
    for name, address in learner_addresses().items():
        try:
            parameters, axes = learner_parameters(name)
            summary = (get_learner(name).__doc__ or "").strip().partition("\n")[0]
        except LearnerError as error:
            rows.append([name, "", "", f"cannot be loaded: {error.message}"])
            continue
        fixed = [parameter for parameter in parameters if parameter not in axes]
        rows.append([name, ", ".join(axes), ", ".join(fixed), f"{summary} ({address.rpartition(':')[2]})"])
    headers = ["learner", "tuned", "parameters", "description"]
    table = table_text(rows, headers, maxcolwidths=[None, 14, 14, 31])
    return "\n".join([table, *contested_names()])


def describe_learner(name: str) -> str:
    """One learner: its description, its parameters and their meaning."""
    learner = get_learner(name)
    _, axes = learner_parameters(name)
    text = inspect.cleandoc(learner.__doc__) if learner.__doc__ else f"{learner.__name__} has no description."
    about, _, rest = text.partition("\nAttributes\n")
    if "\nParameters\n" not in about:
        about = f"{about.strip()}\n\nParameters: {str(inspect.signature(learner))[1:-1]}"
    tuned = f"Tuned in experiments: {', '.join(axes)}"
    parts = [f"{name}: {about.strip()}", tuned, *_section(rest, "Notes"), *_section(rest, "References")]
    return "\n".join(_fitted("\n\n".join(parts).splitlines()))


def _fitted(lines: list[str]) -> Iterator[str]:
    """Lines of a numpydoc text for this terminal: paragraphs that are too wide are wrapped again."""

    def paragraph(numbered: tuple[int, str]) -> tuple[int, int]:
        """The indent, and the number of a line that is not joined: blank, below a heading, or a parameter."""
        k, line = numbered
        alone = not line.strip() or set(line) == {"-"} or re.match(r"\w[\w, ]* : ", line)
        return len(line) - len(line.lstrip()), k if alone else -1

    for (indent, alone), group in groupby(enumerate(lines), paragraph):
        block = [line for _, line in group]
        if max(map(len, block)) <= width():
            yield from block
        else:
            start = " " * indent
            hanging = start + ("    " if alone >= 0 else "")
            text = " ".join(line.strip() for line in block)
            yield wrapped(text, hanging, start)


def _section(text: str, heading: str) -> list[str]:
    """A section of a numpydoc text, with its heading, if it is there."""
    found = re.search(rf"^{heading}\n-+\n.*?(?=^\w+\n-+\n|\Z)", text, re.DOTALL | re.MULTILINE)
    return [found[0].strip()] if found else []


def check_properties(name: str) -> tuple[str, bool]:
    """The outcome of the contract suite for a learner, a line per property; and whether all hold."""
    from ..testing.contract import check_learner

    results = check_learner(get_learner(name))
    lines, details = [], set()
    for result in results:
        lines.append(f"{'ok  ' if result.passed else 'FAIL'}  {result.name}")
        if not result.passed:
            lines.append(f"      {'the same as above' if result.detail in details else result.detail}")
            details.add(result.detail)
    failed = sum(not result.passed for result in results)
    return "\n".join([*lines, f"{len(results) - failed} passed, {failed} failed"]), not failed
