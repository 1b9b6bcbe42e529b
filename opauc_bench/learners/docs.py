"""Docstrings of a family of learners: what its base class documents is not repeated in each learner."""

from __future__ import annotations

import inspect
import re

__all__ = ["complete_docstring"]

_HEADING = re.compile(r"^(\w+)\n-+\n", re.MULTILINE)
_SECTIONS = ("Parameters", "Attributes", "Notes", "References", "Examples")


def complete_docstring(cls: type) -> None:
    """Add to a learner's docstring what its base classes say of inherited parameters and of fitted attributes.

    References are those of the base class where the learner gives none.
    """
    if not cls.__dict__.get("__doc__"):
        return
    summary, found = _sections(cls.__dict__["__doc__"])
    parameters: dict[str, str] = {}
    attributes: dict[str, str] = {}
    references = ""
    for base in reversed(cls.__mro__):
        of_base = _sections(base.__dict__.get("__doc__") or "")[1]
        parameters |= _items(of_base.get("Parameters", ""))
        fitted = _items(of_base.get("Attributes", ""))
        attributes |= {name: text for name, text in fitted.items() if base is cls or name.endswith("_")}
        references = of_base.get("References", references)
    signature = inspect.signature(cls).parameters
    order = [name for name in signature if name in parameters] or parameters
    found["Parameters"] = "\n".join(parameters[name] for name in order)
    found |= {"Attributes": "\n".join(attributes.values()), "References": references}
    texts = [f"{name}\n{'-' * len(name)}\n{found[name]}" for name in _SECTIONS if found.get(name)]
    cls.__doc__ = "\n\n".join([summary, *texts])


def _sections(doc: str) -> tuple[str, dict[str, str]]:
    """The text before the first section of a numpydoc docstring, and the text of each section."""
    summary, *rest = _HEADING.split(inspect.cleandoc(doc))
    return summary.strip(), {name: text.strip() for name, text in zip(rest[::2], rest[1::2])}


def _items(section: str) -> dict[str, str]:
    """The entries of a section, by name."""
    return {re.split(r"\W", text)[0]: text for text in re.split(r"\n(?=\S)", section) if text}
