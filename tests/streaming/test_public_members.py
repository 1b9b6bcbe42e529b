"""The streaming package uses public members of learners only."""

import ast
import re
from pathlib import Path

import pytest

import opauc_bench


def private_names(source: str) -> list[str]:
    """Names with a leading underscore that are read or set on anything but ``self`` or ``cls``."""
    return [
        f"line {node.lineno}: {ast.unparse(node)}"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute)
        and re.match(r"_(?!_)", node.attr)
        and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
    ]


def test_private_names_are_found():
    assert private_names("learner._state\nself._rows._begin(1)\nself._rows") == [
        "line 1: learner._state",
        "line 2: self._rows._begin",
    ]


PACKAGE = Path(opauc_bench.__file__).parent


@pytest.mark.parametrize(
    "path",
    [*PACKAGE.joinpath("streaming").glob("*.py"), PACKAGE / "learners" / "online.py"],
    ids=lambda path: path.name,
)
def test_streaming_uses_public_members_of_learners_only(path):
    assert not private_names(path.read_text())
