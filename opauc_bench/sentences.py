"""Translate pydantic's validation errors into messages for the author of a YAML file."""

import re
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from .errors import suggest

__all__ = [
    "INTERNAL",
    "Loc",
    "Problem",
    "Problems",
    "convert_each",
    "label_text",
    "problems_of",
    "raise_problems",
    "show",
]

Loc = tuple[str | int, ...]
INTERNAL: dict[str, Any] = {"internal": True}  # ``json_schema_extra`` of a field that users do not write


@dataclass(frozen=True)
class Problem:
    """One mistake in a document: its place (a path as in pydantic; the key or the value) and a message."""

    loc: Loc
    message: str
    at_key: bool = False

    @property
    def place(self) -> str:
        """The path of keys, such as ``learners[0].grid``; empty for the whole document."""
        return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.loc).removeprefix(".")

    def __str__(self) -> str:
        return f"{self.place}: {self.message}" if self.loc else self.message

    def under(self, *place: str | int) -> "Problem":
        """The same mistake, in a document that has this one at ``place``."""
        return replace(self, loc=(*place, *self.loc))


class Problems(ValueError):
    """Raised inside a pydantic validator to report several mistakes, each with a path below that value."""

    def __init__(self, problems: Iterable[Problem]):
        self.problems = tuple(problems)
        super().__init__("; ".join(problem.message for problem in self.problems))


def raise_problems(problems: Iterable[Problem]) -> None:
    """Raise `Problems` if there are any."""
    if problems := tuple(problems):
        raise Problems(problems)


def convert_each(items: Iterable[tuple[Any, Any]], convert: Callable[[Any, Any], Any]) -> list[Any]:
    """Convert pairs of a key (or a position) and a value; all mistakes are raised at once, as `Problems`."""
    converted: list[Any] = []
    problems: list[Problem] = []
    for key, item in items:
        try:
            converted.append(convert(key, item))
        except Problems as error:
            problems += [problem.under(key) for problem in error.problems]
        except ValueError as error:
            problems.append(Problem((key,), str(error)))
    raise_problems(problems)
    return converted


def show(value: Any) -> str:
    """Describe a value of a YAML file in a few words, as YAML spells it."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "a mapping" if value else "an empty mapping"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "a list" if value else "an empty list"
    text = str(value)
    text = text if len(text) <= 60 else text[:57] + "..."
    return repr(text) if isinstance(value, str) else text


def label_text(label: Any) -> str:
    """A label as it is written: 3, not 3.0."""
    if not isinstance(label, float):
        return str(label)
    return str(int(label)) if label.is_integer() else repr(float(label))


def problems_of(error: ValidationError, model: type[BaseModel], data: Any) -> list[Problem]:
    """Translate the validation error that ``data`` (a dict) caused in ``model`` into problems."""
    return _without_members([fault for item in error.errors() for fault in _faults(item, model)], data)


class _Fault(NamedTuple):
    loc: Loc  # with pydantic's names of union members
    sentence: str
    expected: str = ""  # empty unless the sentence is "expected ..., got ..."
    came: str = ""
    at_key: bool = False
    is_missing: bool = False


_EXPECTED = {
    "int": "a whole number",
    "float": "a number",
    "finite": "a finite number",
    "bool": "true or false",
    "string": "text",
    "list": "a list",
    "tuple": "a list",
    "dict": "'key: value' lines",
    "model": "'key: value' lines",
    "none": "nothing",
}
_BOUNDS = {
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "too_short": "at least {min_length} item(s)",
    "too_long": "at most {max_length} item(s)",
    "string_too_short": "text of at least {min_length} character(s)",
    "string_too_long": "text of at most {max_length} character(s)",
    "string_pattern_mismatch": "text that matches {pattern}",
    "literal_error": "{expected}",
    "union_tag_invalid": "{expected_tags}",
}


def _faults(error: Mapping[str, Any], model: type[BaseModel]) -> list[_Fault]:
    """Translate one pydantic error; several come from one validator that raised `Problems`."""
    kind, loc, context = error["type"], error["loc"], error.get("ctx", {})
    if loc and loc[-1] == "[key]":
        expected = _EXPECTED.get(kind.split("_")[0], "another key")
        return [_Fault(loc[:-1], f"expected {expected} as key, got {show(loc[-2])}", at_key=True)]
    if kind == "extra_forbidden":
        names = _names_at(model, loc[:-1])
        allowed = f"; allowed: {', '.join(names)}" if names else ""
        advice = suggest(str(loc[-1]), names)
        if not advice and (above := _keys_beside(model, loc)):
            advice = f" here; it belongs further up, beside {above[-1]!r}"
        below = [name for name in names if loc[-1] in _names_at(model, (*loc[:-1], name))]
        if not advice and len(below) == 1:
            advice = f" here; it belongs under {below[0]!r}"
        return [_Fault(loc, f"unknown key{advice}{allowed}", at_key=True)]
    if kind == "missing":
        return [_Fault(loc, "this key is required and missing", is_missing=True)]
    if kind == "too_short" and len(error["input"]) >= context["min_length"]:
        return []  # pydantic counts only valid items, and the invalid ones have been reported
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
    if kind in ("too_short", "too_long") and len(error["input"]):
        came = str(len(error["input"]))
    near = ""
    if kind == "union_tag_invalid":  # reported at the key that decides, which a function has as its name
        came = repr(context["tag"])
        expected = expected.replace("', '", "' or '")
        loc = (*loc, context["discriminator"].strip("'").removesuffix("()"))
    if kind in ("literal_error", "union_tag_invalid"):
        near = suggest(came.strip("'"), re.findall(r"'([^']*)'", expected))
    return [_Fault(loc, f"expected {expected}, got {came}{near}", expected, came)]


def _without_members(faults: list[_Fault], data: Any) -> list[Problem]:
    """Drop pydantic's names of union members from the paths; a value that no member accepts is one problem."""
    problems: list[Problem] = []
    in_unions: list[Problem] = []
    fitting: set[Loc] = set()  # unions of which a member has accepted the shape of the value: it is the intended one
    refused: dict[Loc, list[_Fault]] = {}
    for fault in faults:
        keep = _positions_in(data, fault.loc) | ({len(fault.loc) - 1} if fault.is_missing else set())
        problem = Problem(tuple(fault.loc[i] for i in sorted(keep)), fault.sentence, fault.at_key)
        member = next((i for i in range(len(fault.loc)) if i not in keep), None)
        if member is None:
            problems.append(problem)
        elif len(problem.loc) == member and fault.expected:
            refused.setdefault(problem.loc, []).append(fault)
        else:
            in_unions.append(problem)
            fitting.add(fault.loc[:member])
    for loc, members in refused.items():
        if loc in fitting:
            continue
        expected = " or ".join(dict.fromkeys(fault.expected for fault in members))
        came = members[0].came
        quotes = "; text like this needs quotes" if "text" in expected and came in ("true", "false", "null") else ""
        in_unions.append(Problem(loc, f"expected {expected}, got {came}{quotes}"))
    return [*problems, *in_unions]


def _positions_in(data: Any, loc: Loc) -> set[int]:
    """Return which parts of ``loc`` are in ``data``; the others are pydantic's own."""
    found = set()
    for position, part in enumerate(loc):
        items = enumerate(data) if isinstance(data, list) else data.items() if isinstance(data, dict) else ()
        below = {str(key): item for key, item in items}
        if str(part) in below:
            found.add(position)
            data = below[str(part)]
    return found


def _keys_beside(model: type[BaseModel], loc: Loc) -> list[str | int]:
    """Return the keys above ``loc``, outermost first, beside which its last key is allowed."""
    names = [_names_at(model, loc[:depth]) for depth in range(len(loc) - 1)]
    return [part for part, allowed in zip(loc, names) if part in allowed and loc[-1] in allowed]


def _names_at(model: type[BaseModel], loc: Loc) -> list[str]:
    """Return the keys allowed at ``loc``."""
    annotations: list[Any] = [model]
    for part in loc:
        annotations = [step for kind in _flatten(annotations) for step in _step(kind, part)] or annotations
    fields = [field for kind in _flatten(annotations) if _is_model(kind) for field in kind.model_fields.items()]
    return list(dict.fromkeys(name for name, field in fields if field.json_schema_extra != INTERNAL))


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _flatten(annotations: Iterable[Any]) -> Iterator[Any]:
    for kind in annotations:
        if get_origin(kind) is Annotated:
            yield from _flatten(get_args(kind)[:1])
        elif get_origin(kind) in (Union, types.UnionType):
            yield from _flatten(get_args(kind))
        else:
            yield kind


def _step(kind: Any, part: str | int) -> list[Any]:
    """Return the annotations one step below ``kind``, or nothing where ``part`` does not exist."""
    if _is_model(kind):
        fields = kind.model_fields
        # pydantic names a model that is a member of a union by its class or its discriminator.
        tags = (get_args(info.annotation) for info in fields.values() if get_origin(info.annotation) is Literal)
        if part in {kind.__name__}.union(*tags):
            return [kind]
        return [fields[str(part)].annotation] if str(part) in fields else []
    arguments = [argument for argument in get_args(kind) if argument is not Ellipsis]
    if arguments and isinstance(get_origin(kind), type) and issubclass(get_origin(kind), Mapping):
        return [arguments[-1]]
    return arguments if isinstance(part, int) else []
