"""Strict YAML with positions.

PyYAML reads YAML 1.1, where ``1e-3`` is text, ``on`` is a boolean, ``10:30`` is 630, ``010`` is 8, and the last of two
equal keys is used. Each of these would silently change an experiment, so here they are a number, text, text, text, and
an error. The rest is the data model of JSON, with anchors and merge keys. Models are validated as strictly as JSON: the
text ``"5"`` is not a number and ``yes`` is not a boolean.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from .errors import ConfigError
from .sentences import Loc, Problem, problems_of, show

__all__ = ["check_model", "read_yaml"]

MAX_BYTES = 1_000_000
MAX_DEPTH = 100
MAX_VALUES = 1_000_000  # after expanding aliases

Model = TypeVar("Model", bound=BaseModel)

_TAG = "tag:yaml.org,2002:"
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]*)\Z")
_FLOAT = re.compile(
    r"[-+]?(?:(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+|\.(?:inf|Inf|INF))\Z"
    r"|\.(?:nan|NaN|NAN)\Z"
)
_BOOL = {"true": True, "false": False}


class _Loader(yaml.SafeLoader):
    """SafeLoader whose plain scalars are JSON's (numbers, true, false, null) or else text."""


_Loader.yaml_implicit_resolvers = {}
# The order matters: a scalar takes the first tag whose pattern matches.
_Loader.add_implicit_resolver(_TAG + "null", re.compile(r"(?:~|null|Null|NULL|)\Z"), ["~", "n", "N", ""])
_Loader.add_implicit_resolver(_TAG + "bool", re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z"), list("tTfF"))
_Loader.add_implicit_resolver(_TAG + "int", _INT, list("-+0123456789"))
_Loader.add_implicit_resolver(_TAG + "float", _FLOAT, list("-+.0123456789"))
_Loader.add_implicit_resolver(_TAG + "merge", re.compile(r"<<\Z"), ["<"])
_Loader.add_constructor(_TAG + "bool", lambda loader, node: _BOOL[node.value.lower()])
_Loader.add_constructor(_TAG + "int", lambda loader, node: int(node.value))
_Loader.add_constructor(_TAG + "float", lambda loader, node: float(re.sub(r"\.(?=[a-zA-Z])", "", node.value)))

_SCALAR_TAGS = {_TAG + name for name in ("null", "bool", "int", "float", "str", "merge")}


_Finding = tuple[int, int, str, str]  # line, column, path of keys, message


def _config_error(path: Path, findings: Iterable[_Finding], hint: str = "") -> ConfigError:
    lines = [
        f"{path}:{line}:{column}: {keys + ': ' if keys else ''}{message}"
        for line, column, keys, message in sorted(set(findings))
    ]
    return ConfigError("\n".join(lines), hint)


@dataclass(frozen=True)
class Document:
    """A YAML file: its path as given, its plain data, and its nodes, which have the position of each value.

    ``data`` has the last of equal keys; `error` and `validate` report them.
    """

    path: Path
    data: dict[str | int, Any]
    root: yaml.MappingNode = field(repr=False, compare=False)
    duplicates: tuple[_Finding, ...] = field(repr=False, compare=False)

    def locate(self, loc: Loc, *, key: bool = False) -> tuple[int, int]:
        """Return the line and column (from 1) of the value at ``loc``, or of its key.

        Parts that are not in the file (missing fields, pydantic's names of union members) are skipped, so that the
        result is the position of the nearest parent.
        """
        found = (None, self.root)
        for part in loc:
            found = _child(found[1], part) or found
        key_node, value_node = found
        return _position(key_node if key and key_node is not None else value_node)

    def error(self, problems: Iterable[Problem], hint: str = "") -> ConfigError:
        """Return one ConfigError that lists all problems in the order of the file."""
        findings = [(*self.locate(p.loc, key=p.at_key), p.place, p.message) for p in problems]
        return _config_error(self.path, [*findings, *self.duplicates], hint)

    def validate(self, model: type[Model], *, context: Any = None) -> Model:
        """Return ``data`` as an instance of a pydantic model.

        Validation is as strict as for JSON: text is not a number, 1.0 is not a whole number, lists become tuples.
        ``context`` is the ``info.context`` of validators. ConfigError has all mistakes, each as
        ``file:line:column: key.path: message``, in the order of the file.
        """
        try:
            found = _validate(self.data, model, context)
        except ValidationError as error:
            raise self.error(problems_of(error, model, self.data)) from None
        if self.duplicates:
            raise self.error(())
        return found


def _validate(data: Any, model: type[Model], context: Any) -> Model:
    return model.model_validate_json(json.dumps(data), strict=True, context=context)


def read_yaml(path: str | Path) -> Document:
    """Read one YAML file whose top level is a mapping.

    ConfigError, with ``file:line:column``, if the file is missing, a folder, not UTF-8, empty, not YAML, or not a
    mapping, or if it has an alias that contains itself. Duplicate keys are mistakes for `Document.validate`.
    """
    path = Path(path)
    text = _read_text(path)
    try:
        loader = _Loader(text)
        root = loader.get_single_node()
        structure = _Structure(loader)
        findings = structure.findings(root)
        if not findings:
            return Document(path, loader.construct_document(root), root, tuple(structure.duplicates))
        findings += structure.duplicates
    except yaml.YAMLError as error:
        findings = [_syntax_finding(text, error)]
    except RecursionError:
        findings = [(1, 1, "", "this is nested too deeply")]
    raise _config_error(path, findings)


def check_model(data: Any, model: type[Model], *, source: str | Path, context: Any = None) -> Model:
    """Turn plain data (dicts, lists and scalars) into a pydantic model, as strictly as `Document.validate`.

    ConfigError has all mistakes, each as ``source: key.path: message``.
    """
    try:
        return _validate(data, model, context)
    except ValidationError as error:
        problems = problems_of(error, model, data if isinstance(data, dict) else {})
        lines = [f"{source}: {problem}" for problem in problems]
        raise ConfigError("\n".join(dict.fromkeys(lines))) from None


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file; expected a YAML file") from None
    except IsADirectoryError:
        raise ConfigError(f"{path}: this is a folder; expected a YAML file") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise ConfigError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(raw) > MAX_BYTES:
        raise ConfigError(f"{path}: more than {MAX_BYTES:,} bytes; expected a YAML file, this looks like data")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode("utf-8-sig", errors="replace")
        message = f"this file is not UTF-8 text (byte 0x{raw[error.start]:02x})"
        raise _config_error(path, [(*_line_column(before), "", message)]) from None


def _line_column(before: str) -> tuple[int, int]:
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1


# PyYAML's message, its replacement, and whether the start of the construct is the better position.
_SYNTAX: list[tuple[str, str, bool]] = [
    (r"found character '\\t'", "tabs are not allowed here; indent with spaces", False),
    (r"mapping values are not allowed", "unexpected ':'; check the indentation, and quote text with ': '", False),
    (r"could not find expected ':'", "expected 'key: value', found no ':'", True),
    (r"found unexpected end of stream", "this quoted text is never closed", True),
    (r"expected ',' or ('[\]}]')", r"after this opening bracket, ',' or \1 is missing", True),
    (r"expected <block end>", "wrong indentation, or '- item' lines mixed with 'key: value' lines", False),
    (r"found undefined alias '(.*)'", r"the alias *\1 has no anchor &\1 before it", False),
    (r"expected a single document", "a second document begins here; expected one document per file", False),
    (r"found duplicate anchor '([^']*)'", r"the anchor &\1 is defined twice", False),
    (r"expected '<document start>', but found '(.*)'", r"unexpected \1", False),
    (r"found character '(.)' that cannot start", r"a value cannot begin with \1; put it in quotes", False),
]


def _syntax_finding(text: str, error: yaml.YAMLError) -> _Finding:
    if isinstance(error, yaml.reader.ReaderError):
        message = f"this file contains a control character (U+{error.character:04X})"
        return (*_line_column(text[: error.position]), "", message)
    mark, message = error.problem_mark, f"this is not YAML: {error.problem}"
    for pattern, sentence, from_start in _SYNTAX:
        if found := re.search(pattern, f"{error.context or ''}; {error.problem}"):
            message = found.expand(sentence)
            mark = error.context_mark if from_start and error.context_mark else mark
            break
    return (mark.line + 1, mark.column + 1, "", message)


def _position(node: yaml.Node) -> tuple[int, int]:
    return node.start_mark.line + 1, node.start_mark.column + 1


class _Structure:
    """Find in a node graph the mistakes that PyYAML accepts, and aliases that it would never finish expanding."""

    def __init__(self, loader: _Loader):
        self._loader = loader
        self._sizes: dict[int, int | None] = {}  # id of a node -> number of values, aliases expanded; None while open
        self._findings: list[_Finding] = []
        self.duplicates: list[_Finding] = []

    def findings(self, root: yaml.Node | None) -> list[_Finding]:
        if root is None:
            return [(1, 1, "", "this file is empty; expected 'key: value' lines")]
        if not isinstance(root, yaml.MappingNode):
            found = "a list" if isinstance(root, yaml.SequenceNode) else show(root.value)
            self._add(root, (), f"expected 'key: value' lines at the top level, got {found}")
        elif self._visit(root, ()) > MAX_VALUES and not self._findings:
            self._add(root, (), f"the aliases expand to more than {MAX_VALUES:,} values")
        return self._findings

    def _visit(self, node: yaml.Node, loc: Loc) -> int:
        """Check a node and what it contains; return its size."""
        known = self._sizes.get(id(node), 0)
        if known != 0 or len(loc) > MAX_DEPTH:
            if known is None:
                self._add(node, loc, "an alias here contains itself")
            elif known == 0:
                self._add(node, (), f"this is nested more than {MAX_DEPTH} levels deep")
            return known or 1
        self._sizes[id(node)], size = None, 1
        if isinstance(node, yaml.ScalarNode):
            self._check_scalar(node, loc)
        else:
            if node.tag not in (_TAG + "map", _TAG + "seq"):
                self._add(node, loc, f"the tag {_short(node.tag)} is not supported")
            for part, child in self._children(node, loc):
                size += self._visit(child, (*loc, part))
        self._sizes[id(node)] = size
        return size

    def _children(self, node: yaml.Node, loc: Loc) -> Iterator[tuple[str | int, yaml.Node]]:
        if isinstance(node, yaml.SequenceNode):
            yield from enumerate(node.value)
            return
        first: dict[str, yaml.Node] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag not in _KEY_TAGS:
                self._add(key, loc, "a key must be text or a whole number; put it in quotes")
                continue
            name = _key_text(key)
            if name in first and key.tag != _TAG + "merge":
                line, column = _position(first[name])
                self.duplicates.append(_finding(key, (*loc, name), f"duplicate key, first at {line}:{column}"))
            first.setdefault(name, key)
            self._check_scalar(key, (*loc, name))
            yield name, value

    def _check_scalar(self, node: yaml.ScalarNode, loc: Loc) -> None:
        if node.tag not in _SCALAR_TAGS:
            self._add(node, loc, f"the tag {_short(node.tag)} is not supported")
            return
        try:
            if node.tag != _TAG + "merge":
                self._loader.construct_object(node)
            node.value.encode()
        except UnicodeEncodeError:
            self._add(node, loc, r"half a character (\ud800 to \udfff); write the character instead")
        except (ValueError, KeyError):  # an explicit tag such as `!!int five`, or a number of 5000 digits
            self._add(node, loc, f"{show(node.value)} cannot be read as {_short(node.tag)}")

    def _add(self, node: yaml.Node, loc: Loc, message: str) -> None:
        self._findings.append(_finding(node, loc, message))


def _finding(node: yaml.Node, loc: Loc, message: str) -> _Finding:
    return (*_position(node), Problem(loc, message).place, message)


_KEY_TAGS = {_TAG + "str", _TAG + "int", _TAG + "merge"}


def _short(tag: str) -> str:
    return "!!" + tag.removeprefix(_TAG) if tag.startswith(_TAG) else tag


def _key_text(key: yaml.ScalarNode) -> str:
    # The number 1 and the text "1" are one key in JSON, hence also here.
    return str(int(key.value)) if key.tag == _TAG + "int" and _INT.match(key.value) else key.value


def _child(node: yaml.Node, part: str | int) -> tuple[yaml.Node | None, yaml.Node] | None:
    if isinstance(node, yaml.SequenceNode):
        return (None, node.value[part]) if isinstance(part, int) and 0 <= part < len(node.value) else None
    # Merged pairs come first and are overridden by later ones.
    pairs = reversed(node.value) if isinstance(node, yaml.MappingNode) else ()
    return next(((key, value) for key, value in pairs if _key_text(key) == str(part)), None)
