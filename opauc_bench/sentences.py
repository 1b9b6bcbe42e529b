"""What a pydantic model has to say about a document, in sentences for the person who wrote it."""

import difflib
import re
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import AliasChoices, BaseModel, ValidationError

__all__ = ["Loc", "Problem", "Problems", "problems_of", "show", "suggest"]

Loc = tuple[str | int, ...]


@dataclass(frozen=True)
class Problem:
    """One mistake in a document: where (a pydantic-style path; its key or its value) and what."""

    loc: Loc
    message: str
    at_key: bool = False


class Problems(ValueError):
    """Raised inside a pydantic validator to report several mistakes, each with a path below that value."""

    def __init__(self, problems: Iterable[Problem]):
        self.problems = tuple(problems)
        super().__init__("; ".join(problem.message for problem in self.problems))


def suggest(name: str, allowed: Iterable[str]) -> str:
    """Return ``" (did you mean 'x'?)"`` for the allowed name nearest to ``name``, or an empty text."""
    by_folded = {candidate.casefold(): candidate for candidate in allowed}
    near = difflib.get_close_matches(str(name).casefold(), by_folded, n=1, cutoff=0.6)
    return f" (did you mean '{by_folded[near[0]]}'?)" if near else ""


def show(value: Any) -> str:
    """Describe a value that came from YAML in a few words, in YAML's spelling."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return repr(_shortened(value))
    if isinstance(value, Mapping):
        return "a mapping" if value else "an empty mapping"
    if isinstance(value, Sequence):
        return "a list" if value else "an empty list"
    return _shortened(str(value))


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


def problems_of(error: ValidationError, model: type[BaseModel], data: Any) -> list[Problem]:
    """Translate a validation error into problems.

    Parameters
    ----------
    error : ValidationError
        Raised while ``data`` was validated.
    model : type of BaseModel
        The model; its field names and aliases are what unknown keys are compared with.
    data : dict
        The plain data, which tells the parts of a path from pydantic's names of union branches.
    """
    return _without_union_noise([fault for item in error.errors() for fault in _faults(item, model)], data)


class _Fault(NamedTuple):
    loc: Loc  # with pydantic's names of union branches
    sentence: str
    expected: str = ""  # what would have been right, where the sentence is only "expected ..., got ..."
    came: str = ""
    at_key: bool = False
    is_missing: bool = False


_EXPECTED = {
    "int": "a whole number",
    "float": "a number",
    "decimal": "a number",
    "finite": "a finite number",
    "bool": "true or false",
    "string": "text",
    "path": "a path",
    "list": "a list",
    "tuple": "a list",
    "set": "a list",
    "frozen": "a list",
    "iterable": "a list",
    "dict": "'key: value' lines",
    "mapping": "'key: value' lines",
    "model": "'key: value' lines",
    "dataclass": "'key: value' lines",
    "none": "nothing",
}
_BOUNDS = {
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "multiple_of": "a multiple of {multiple_of}",
    "too_short": "at least {min_length} item(s)",
    "too_long": "at most {max_length} item(s)",
    "string_too_short": "text of at least {min_length} character(s)",
    "string_too_long": "text of at most {max_length} character(s)",
    "string_pattern_mismatch": "text that matches {pattern}",
    "literal_error": "{expected}",
    "enum": "{expected}",
    "union_tag_invalid": "{expected_tags} as {discriminator}",
}


def _faults(error: Mapping[str, Any], model: type[BaseModel]) -> list[_Fault]:
    """Translate one pydantic error; several come from one validator that raised `Problems`."""
    kind, loc, context = error["type"], error["loc"], error.get("ctx", {})
    if loc and loc[-1] == "[key]":
        expected = _EXPECTED.get(kind.split("_")[0], "another key")
        return [_Fault(loc[:-1], f"expected {expected} as key, got {show(loc[-2])}", at_key=True)]
    if kind == "extra_forbidden":
        return [_Fault(loc, _unknown_key(str(loc[-1]), *_names_at(model, loc[:-1])), at_key=True)]
    if kind == "missing":
        return [_Fault(loc, "this key is required and missing", is_missing=True)]
    if kind == "too_short" and len(error["input"]) >= context["min_length"]:
        return []  # pydantic counts the valid items only, and the others have been reported
    if kind == "union_tag_not_found":
        return [_Fault(loc, f"the key {context['discriminator']} is required and missing")]
    if isinstance(context.get("error"), Problems):
        return [_Fault((*loc, *p.loc), p.message, at_key=p.at_key) for p in context["error"].problems]
    if kind in ("value_error", "assertion_error"):
        return [_Fault(loc, str(context["error"]))]
    if kind in _BOUNDS:
        bounds = {name: f"{b:g}" if isinstance(b, float) else b for name, b in context.items()}
        expected = _BOUNDS[kind].format(**bounds)
    else:
        expected = _EXPECTED.get(kind.split("_")[0], "")
    if not expected:
        return [_Fault(loc, f"{error['msg'][:1].lower()}{error['msg'][1:]}, got {show(error['input'])}")]
    came = show(error["input"])
    near = ""
    if kind in ("literal_error", "enum", "union_tag_invalid"):
        came = repr(context["tag"]) if "tag" in context else came
        near = suggest(came.strip("'"), re.findall(r"'([^']*)'", expected))
    return [_Fault(loc, f"expected {expected}, got {came}{near}", expected, came)]


def _unknown_key(key: str, names: list[str], spellings: list[str]) -> str:
    if key in spellings:
        return "this key stands twice: it is another spelling of a key that is here already"
    allowed = f"; allowed: {', '.join(names)}" if names else ""
    return f"unknown key{suggest(key, spellings)}{allowed}"


def _without_union_noise(faults: list[_Fault], data: Any) -> list[Problem]:
    """Drop the names of union branches from the paths, and all but the most telling branch of each union."""
    problems: list[Problem] = []
    unions: dict[Loc, dict[str | int, list[tuple[_Fault, Problem]]]] = {}
    for fault in faults:
        keep = _positions_in(data, fault.loc)
        if fault.is_missing:
            keep.add(len(fault.loc) - 1)
        problem = Problem(tuple(fault.loc[i] for i in sorted(keep)), fault.sentence, fault.at_key)
        label = next((i for i in range(len(fault.loc)) if i not in keep), None)
        if label is not None:
            unions.setdefault(fault.loc[:label], {}).setdefault(fault.loc[label], []).append((fault, problem))
        else:
            problems.append(problem)
    for loc, branches in unions.items():
        problems += _best_branch(loc, list(branches.values()))
    return problems


def _positions_in(data: Any, loc: Loc) -> set[int]:
    """Return which parts of ``loc`` lead somewhere in ``data``; the others are pydantic's own."""
    found = set()
    for position, part in enumerate(loc):
        if isinstance(data, list):
            below = {i: item for i, item in enumerate(data) if i == part}
        elif isinstance(data, dict):
            below = {key: item for key, item in data.items() if str(key) == str(part)}
        else:
            below = {}
        if below:
            found.add(position)
            data = next(iter(below.values()))
    return found


def _best_branch(loc: Loc, branches: list[list[tuple[_Fault, Problem]]]) -> list[Problem]:
    # A branch that complains about something inside the value accepted its shape: it is what was meant.
    inside = [branch for branch in branches if any(len(problem.loc) > len(loc) for _, problem in branch)]
    if inside:
        return [problem for _, problem in min(inside, key=len)]
    faults = [fault for branch in branches for fault, _ in branch]
    told = [problem for branch in branches for fault, problem in branch if not fault.expected]
    if told:
        return told
    expected = " or ".join(dict.fromkeys(fault.expected for fault in faults))
    quotes = (
        "; text like this needs quotes" if "text" in expected and faults[0].came in ("true", "false", "null") else ""
    )
    return [Problem(loc, f"expected {expected}, got {faults[0].came}{quotes}")]


def _names_at(model: type[BaseModel], loc: Loc) -> tuple[list[str], list[str]]:
    """Return the keys allowed at ``loc`` as the file spells them, and these with all their aliases."""
    annotations: list[Any] = [model]
    for part in loc:
        annotations = [step for kind in _flatten(annotations) for step in _step(kind, part)] or annotations
    names: dict[str, None] = {}
    spellings: dict[str, None] = {}
    for kind in _flatten(annotations):
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            for name, info in kind.model_fields.items():
                accepted = _spellings(kind, name, info)
                names[accepted[0]] = None
                spellings.update(dict.fromkeys(accepted))
    return list(names), list(spellings)


def _flatten(annotations: Iterable[Any]) -> Iterator[Any]:
    for kind in annotations:
        if get_origin(kind) is Annotated:
            yield from _flatten(get_args(kind)[:1])
        elif get_origin(kind) in (Union, types.UnionType):
            yield from _flatten(get_args(kind))
        else:
            yield kind


def _step(kind: Any, part: str | int) -> list[Any]:
    """Return the annotations one step below ``kind``, or nothing where ``part`` does not lead anywhere."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        if part in _branch_names(kind):
            return [kind]
        return [
            info.annotation for name, info in kind.model_fields.items() if str(part) in _spellings(kind, name, info)
        ]
    arguments = [argument for argument in get_args(kind) if argument is not Ellipsis]
    if not arguments:
        return []
    if isinstance(get_origin(kind), type) and issubclass(get_origin(kind), Mapping):
        return [arguments[-1]]
    return arguments if isinstance(part, int) else []


def _branch_names(model: type[BaseModel]) -> set[Any]:
    """Return what pydantic may call a model that is one branch of a union: its name, or its discriminator."""
    fields = model.model_fields.values()
    tags = (get_args(info.annotation) for info in fields if get_origin(info.annotation) is Literal)
    return {model.__name__}.union(*tags)


def _spellings(model: type[BaseModel], name: str, info: Any) -> list[str]:
    by_name = model.model_config.get("populate_by_name") or model.model_config.get("validate_by_name")
    alias = info.validation_alias
    if isinstance(alias, AliasChoices):
        aliases = [choice for choice in alias.choices if isinstance(choice, str)]
    else:
        aliases = [alias] if isinstance(alias, str) else []
    return [*aliases, name] if by_name or not aliases else aliases
