"""Strict YAML: scalars, positions, and messages for mistakes."""

import json
import math
from typing import Annotated, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, field_validator

from opauc_bench.errors import ConfigError, suggest
from opauc_bench.sentences import Problem, Problems, show
from opauc_bench.yamlio import read_yaml


@pytest.fixture(scope="module")
def write(tmp_path_factory):
    """Write a text or bytes to a file called x.yaml and return its path."""
    path = tmp_path_factory.mktemp("yaml") / "x.yaml"

    def write(content):
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def read_model(path, model):
    return read_yaml(path).validate(model)


def complaints(call, path, *arguments) -> list[str]:
    """The lines of the ConfigError that a call raises, without the file's folder."""
    with pytest.raises(ConfigError) as caught:
        call(path, *arguments)
    assert caught.value.exit_code == 2
    return caught.value.message.replace(f"{path.parent}/", "").split("\n")


def outcome(call, *arguments) -> ConfigError | None:
    """The ConfigError that a call raises, if any; any other exception passes through."""
    try:
        call(*arguments)
    except ConfigError as error:
        return error
    return None


# ------------------------------------------------------------------ scalars


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 0.001),
        ("1E5", 1e5),
        (".5e-3", 0.0005),
        ("-1.5", -1.5),
        ("1.", 1.0),
        ("+7", 7),
        ("0", 0),
        ("10:30", "10:30"),
        ("1:30.5", "1:30.5"),
        ("010", "010"),
        ("0x10", "0x10"),
        ("1_000", "1_000"),
        ("2020-01-01", "2020-01-01"),
        ("=", "="),
        ("true", True),
        ("True", True),
        ("FALSE", False),
        ("tRUE", "tRUE"),
        ("on", "on"),
        ("off", "off"),
        ("yes", "yes"),
        ("No", "No"),
        ("y", "y"),
        ("none", "none"),
        ("nan", "nan"),
        ("~", None),
        ("null", None),
        ("", None),
        (".inf", math.inf),
        ("-.INF", -math.inf),
        ("'1e-3'", "1e-3"),
        ("!!str 5", "5"),
        ("caf\u00e9 \U0001f600", "caf\u00e9 \U0001f600"),
    ],
)
def test_scalar_is_json_value_or_text(write, text, value):
    read = read_yaml(write(f"a: {text}\n")).data["a"]
    assert read == value
    assert type(read) is type(value)


def test_nan_is_read_as_number(write):
    assert math.isnan(read_yaml(write("a: .nan")).data["a"])


@settings(deadline=None)
@given(st.floats(allow_nan=False) | st.integers(-(10**30), 10**30))
def test_printed_numbers_are_read_back(write, number):
    text = {"inf": ".inf", "-inf": "-.inf"}.get(repr(number), repr(number))
    read = read_yaml(write(f"a: {text}")).data["a"]
    assert (read, type(read)) == (number, type(number))


# YAML folds the Unicode line separators and refuses control characters and non-characters.
plain_text = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"], exclude_characters="\ufeff\ufffe\uffff")
)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | plain_text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(plain_text, inner, max_size=4),
    max_leaves=12,
)


@settings(deadline=None)
@given(st.dictionaries(plain_text, json_values, min_size=1, max_size=4), st.sampled_from([None, 1]))
def test_json_documents_equal_json_loads(write, document, indent):
    text = json.dumps(document, ensure_ascii=False, indent=indent)
    assert json.dumps(read_yaml(write(text)).data) == json.dumps(json.loads(text))


def test_byte_order_mark_and_windows_line_ends_are_read(write):
    document = read_yaml(write("\ufeffa: 1\r\nb:\r\n  c: 2\r\n"))
    assert document.data == {"a": 1, "b": {"c": 2}}
    assert document.locate(("a",)) == (1, 4)
    assert document.locate(("b", "c")) == (3, 6)


def test_anchors_and_merge_keys_are_expanded(write):
    document = read_yaml(write("base: &b {x: 1, y: 2}\nc:\n  <<: *b\n  y: 3\nd: *b\n"))
    assert document.data == {"base": {"x": 1, "y": 2}, "c": {"x": 1, "y": 3}, "d": {"x": 1, "y": 2}}
    assert document.locate(("c", "y")) == (4, 6)
    assert document.locate(("c", "x")) == (1, 14)


# ------------------------------------------------------------------ mistakes in YAML


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "x.yaml:1:1: this file is empty; expected 'key: value' lines"),
        ("# only a comment\n", "x.yaml:1:1: this file is empty; expected 'key: value' lines"),
        ("# list\n- a\n", "x.yaml:2:1: expected 'key: value' lines at the top level, got a list"),
        ("five\n", "x.yaml:1:1: expected 'key: value' lines at the top level, got 'five'"),
        ("a:\n\tb: 1\n", "x.yaml:2:1: tabs are not allowed here; indent with spaces"),
        ("a:\n  b: 1\n\tc: 2\n", "x.yaml:3:1: tabs are not allowed here; indent with spaces"),
        (
            "a: b: c\n",
            "x.yaml:1:5: unexpected ':'; check the indentation, and quote text with ': '",
        ),
        ("a: 1\nb\nc: 2\n", "x.yaml:2:1: expected 'key: value', found no ':'"),
        ("a: 1\nb: 'x\nc: 2\n", "x.yaml:2:4: this quoted text is never closed"),
        (
            "a: [1, 2\nb: 3\n",
            "x.yaml:1:4: after this opening bracket, ',' or ']' is missing",
        ),
        ("a: {b: 1", "x.yaml:1:4: after this opening bracket, ',' or '}' is missing"),
        ("{a: 1}}\n", "x.yaml:1:7: unexpected }"),
        (
            "a:\n  - x\n b: 1\n",
            "x.yaml:3:2: wrong indentation, or '- item' lines mixed with 'key: value' lines",
        ),
        ("a: *x\n", "x.yaml:1:4: the alias *x has no anchor &x before it"),
        ("a: &x 1\nb: &x 2\n", "x.yaml:2:4: the anchor &x is defined twice"),
        ("a: &x [1, *x]\n", "x.yaml:1:4: a[1]: an alias here contains itself"),
        ("a: &x {<<: *x}\n", "x.yaml:1:4: a.<<: an alias here contains itself"),
        ("---\na: 1\n---\nb: 1\n", "x.yaml:3:1: a second document begins here; expected one document per file"),
        ("a: @x\n", "x.yaml:1:4: a value cannot begin with @; put it in quotes"),
        (
            "a: !!python/object:os.system x\n",
            "x.yaml:1:4: a: the tag !!python/object:os.system is not supported",
        ),
        ("a: !!set {x}\n", "x.yaml:1:4: a: the tag !!set is not supported"),
        ("a: !!int five\n", "x.yaml:1:4: a: 'five' cannot be read as !!int"),
        ("a: !!bool on\n", "x.yaml:1:4: a: 'on' cannot be read as !!bool"),
        ("? [a]\n: b\n", "x.yaml:1:3: a key must be text or a whole number; put it in quotes"),
        ("true: 1\n", "x.yaml:1:1: a key must be text or a whole number; put it in quotes"),
        (
            'a: "\\ud800"\n',
            "x.yaml:1:4: a: half a character (\\ud800 to \\udfff); write the character instead",
        ),
        (b"a: 1\nb: caf\xe9\n", "x.yaml:2:7: this file is not UTF-8 text (byte 0xe9)"),
        (b"\xff\xfea\x00", "x.yaml:1:1: this file is not UTF-8 text (byte 0xff)"),
        (b"a: 1\nb: \x00\n", "x.yaml:2:4: this file contains a control character (U+0000)"),
        ("a: " + "[" * 120 + "]" * 120, "x.yaml:1:104: this is nested more than 100 levels deep"),
        ("a: " + "[" * 5000, "x.yaml:1:1: this is nested too deeply"),
    ],
)
def test_mistake_gives_one_message_with_position(write, text, complaint):
    assert complaints(read_yaml, write(text)) == [complaint]


class Anything(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: object = None


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a: 1\nb: 2\na: 3\n", "x.yaml:3:1: a: duplicate key, first at 1:1"),
        ("a: {b: 1, 'b': 2}\n", "x.yaml:1:11: a.b: duplicate key, first at 1:5"),
        ("a: {1: x, '1': y}\n", "x.yaml:1:11: a.1: duplicate key, first at 1:5"),
    ],
)
def test_duplicate_keys_are_mistakes(write, text, complaint):
    assert complaints(read_model, write(text), Anything) == [complaint]


def test_all_duplicate_keys_are_reported_with_all_other_mistakes(write):
    path = write("a: 1\na: 2\nb:\n  - c: 1\n    c: 2\na: text\n")

    class Number(Anything):
        a: int

    duplicates = [
        "x.yaml:2:1: a: duplicate key, first at 1:1",
        "x.yaml:5:5: b[0].c: duplicate key, first at 4:5",
        "x.yaml:6:1: a: duplicate key, first at 1:1",
    ]
    assert complaints(read_model, path, Anything) == duplicates
    assert complaints(read_model, path, Number) == [*duplicates, "x.yaml:6:4: a: expected a whole number, got 'text'"]
    path = write("a: 1\na: !!set {x}\n")
    assert complaints(read_yaml, path) == [duplicates[0], "x.yaml:2:4: a: the tag !!set is not supported"]


def test_exponential_aliases_are_refused(write):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 30)]
    assert complaints(read_yaml, write("\n".join(lines))) == [
        "x.yaml:1:1: the aliases expand to more than 1,000,000 values"
    ]


def test_very_long_number_is_refused(write):
    (complaint,) = complaints(read_yaml, write("a: " + "9" * 5000))
    assert complaint == f"x.yaml:1:4: a: '{'9' * 57}...' cannot be read as !!int"


def test_unreadable_files_are_reported(tmp_path):
    big = tmp_path / "big.csv"
    big.write_bytes(b"0," * 600_000)
    assert complaints(read_yaml, tmp_path / "no.yaml") == ["no.yaml: no such file; expected a YAML file"]
    assert complaints(read_yaml, tmp_path) == [f"{tmp_path.name}: this is a folder; expected a YAML file"]
    assert complaints(read_yaml, big) == [
        "big.csv: more than 1,000,000 bytes; expected a YAML file, this looks like data"
    ]
    assert "cannot be read" in complaints(read_yaml, tmp_path / ("x" * 5000))[0]
    assert "cannot be read" in complaints(read_yaml, tmp_path / "a\0b")[0]


@settings(deadline=None)
@given(st.text(st.sampled_from("{}[]:,&*!|>'\"%@`-? \n\t\\ab1.#<~="), max_size=40))
def test_any_text_is_read_or_refused(write, text):
    path = write(text)
    error = outcome(read_yaml, path)
    if error is None:
        assert json.loads(json.dumps(read_yaml(path).data))
    else:
        assert error.message.startswith(f"{path}:")


@settings(deadline=None)
@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(write, raw):
    path = write(raw)
    error = outcome(read_yaml, path)
    assert error is None or error.message.startswith(f"{path}:")


# ------------------------------------------------------------------ positions


def test_locate_finds_keys_values_and_parents(write):
    document = read_yaml(write("a: 1\nlist:\n  - x\n  - y: {z: 5}\n    'q r': 6\nempty:\n"))
    assert document.locate(("a",)) == (1, 4)
    assert document.locate(("a",), key=True) == (1, 1)
    assert document.locate(("list", 0)) == (3, 5)
    assert document.locate(("list", 1, "y", "z")) == (4, 12)
    assert document.locate(("list", 1, "y", "z"), key=True) == (4, 9)
    assert document.locate(("list", 1, "q r"), key=True) == (5, 5)
    assert document.locate(("list", 1, "missing")) == (4, 5)
    assert document.locate(("list", 7)) == (3, 3)
    assert document.locate(("empty",)) == (6, 7)
    assert document.locate(()) == (1, 1)
    assert document.locate(("list", "name of a union branch", 1, "y")) == (4, 8)


@settings(deadline=None)
@given(
    st.recursive(
        st.integers(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abcd", min_size=1), inner, max_size=3),
        max_leaves=10,
    )
)
def test_locate_finds_every_value(write, value):
    text = json.dumps({"top": value}, indent=2)
    document = read_yaml(write(text))
    lines = text.split("\n")

    def check(inner, loc):
        line, column = document.locate(loc)
        first = json.dumps(inner)[0]
        assert lines[line - 1][column - 1] == first
        pairs = inner.items() if isinstance(inner, dict) else enumerate(inner) if isinstance(inner, list) else ()
        for part, below in pairs:
            check(below, (*loc, part))

    check({"top": value}, ())


# ------------------------------------------------------------------ models


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    width: int
    lam: float = 1.0


class Cat(BaseModel):
    model_config = ConfigDict(extra="forbid")

    kind: Literal["cat"]
    lives: int = 9


class Dog(BaseModel):
    model_config = ConfigDict(extra="forbid")

    kind: Literal["dog"]
    barks: bool = True


class Outer(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    sizes: tuple[int, ...] = ()
    inner: Inner | None = None
    flag: bool = True
    kind: Literal["big", "small"] = "big"
    table: dict[str, Inner] = {}
    labels: dict[int, float] = {}
    either: int | str | None = None
    mixed: list[Inner | str] = []
    pet: Annotated[Cat | Dog, Field(discriminator="kind")] | None = None
    count: int = Field(1, ge=1, lt=10)
    names: tuple[str, ...] = Field(("x",), min_length=1)
    code: str = Field("ab", pattern="^[a-z]+$")
    even: tuple[int, ...] = ()

    @field_validator("even")
    @classmethod
    def _check_even(cls, numbers):
        odd = [Problem((i,), f"{n} is odd") for i, n in enumerate(numbers) if n % 2]
        if odd:
            raise Problems(odd)
        return numbers


def test_valid_file_gives_model(write):
    text = "sizes: [1, 2]\ninner: {width: 3, lam: 1e-3}\nlabels: {1: 2}\nmixed: [x, {width: 1}]\n"
    text += "pet: {kind: dog}\n"
    model = read_model(write(text), Outer)
    assert model.sizes == (1, 2)
    assert model.inner == Inner(width=3, lam=0.001)
    assert model.labels == {1: 2.0}
    assert model.mixed == ["x", Inner(width=1)]
    assert model.pet == Dog(kind="dog")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("sizes: [1, '2']", "1:12: sizes[1]: expected a whole number, got '2'"),
        ("sizes: [1.0]", "1:9: sizes[0]: expected a whole number, got 1.0"),
        ("sizes: 5", "1:8: sizes: expected a list, got 5"),
        ("sizes:", "1:7: sizes: expected a list, got nothing"),
        ("flag: yes", "1:7: flag: expected true or false, got 'yes'"),
        ("flag: 1", "1:7: flag: expected true or false, got 1"),
        ("kind: bigg", "1:7: kind: expected 'big' or 'small', got 'bigg' (did you mean 'big'?)"),
        ("kind: true", "1:7: kind: expected 'big' or 'small', got true"),
        ("inner: {width: 3, lam: x}", "1:24: inner.lam: expected a number, got 'x'"),
        ("inner: {}", "1:8: inner.width: this key is required and missing"),
        (
            "inner: {width: 3, lamb: 2}",
            "1:19: inner.lamb: unknown key (did you mean 'lam'?); allowed: width, lam",
        ),
        (
            "table: {k: {width: 3, widht: 2}}",
            "1:23: table.k.widht: unknown key (did you mean 'width'?); allowed: width, lam",
        ),
        ("table: {k: 5}", "1:12: table.k: expected 'key: value' lines, got 5"),
        ("labels: {q: 1}", "1:10: labels.q: expected a whole number as key, got 'q'"),
        ("labels: {1: q}", "1:13: labels.1: expected a number, got 'q'"),
        ("either: [1]", "1:9: either: expected a whole number or text, got a list"),
        ("mixed: [x, 3]", "1:12: mixed[1]: expected 'key: value' lines or text, got 3"),
        ("mixed: [{width: x}]", "1:17: mixed[0].width: expected a whole number, got 'x'"),
        (
            "pet: {kind: bird}",
            "1:13: pet.kind: expected 'cat' or 'dog', got 'bird'",
        ),
        ("pet: {lives: 3}", "1:6: pet: the key 'kind' is required and missing"),
        ("pet: {kind: cat, bark: 3}", "1:18: pet.bark: unknown key; allowed: kind, lives"),
        ("count: 0", "1:8: count: expected at least 1, got 0"),
        ("count: 10", "1:8: count: expected less than 10, got 10"),
        ("names: []", "1:8: names: expected at least 1 item(s), got an empty list"),
        ("names: [5]", "1:9: names[0]: expected text, got 5"),
        ("code: A1", "1:7: code: expected text that matches ^[a-z]+$, got 'A1'"),
    ],
)
def test_model_mistake_gives_message_with_position(write, text, complaint):
    assert complaints(read_model, write(text), Outer) == [f"x.yaml:{complaint}"]


def test_model_mistakes_are_listed_in_order_of_file(write):
    text = "even: [1, 2, 3]\ncount: five\ninner:\n  lam: 2\nsizs: [1]\nsizes: [a]\n"
    names = "sizes, inner, flag, kind, table, labels, either, mixed, pet, count, names, code, even"
    assert complaints(read_model, write(text), Outer) == [
        "x.yaml:1:8: even[0]: 1 is odd",
        "x.yaml:1:14: even[2]: 3 is odd",
        "x.yaml:2:8: count: expected a whole number, got 'five'",
        "x.yaml:4:3: inner.width: this key is required and missing",
        f"x.yaml:5:1: sizs: unknown key (did you mean 'sizes'?); allowed: {names}",
        "x.yaml:6:9: sizes[0]: expected a whole number, got 'a'",
    ]


def test_document_error_has_positions_of_keys_and_values(write):
    document = read_yaml(write("a: {b: 1}\n"))
    error = document.error([Problem(("a", "b"), "bad value"), Problem(("a", "b"), "bad key", True)], "do this")
    assert error.message.split("\n") == [
        f"{document.path}:1:5: a.b: bad key",
        f"{document.path}:1:8: a.b: bad value",
    ]
    assert error.hint == "do this"


@settings(deadline=None)
@given(json_values)
def test_any_value_of_any_field_is_accepted_or_refused_with_position(write, value):
    for name in Outer.model_fields:
        path = write(json.dumps({name: value}, ensure_ascii=False))
        error = outcome(read_model, path, Outer)
        lines = error.message.split("\n") if error else []
        assert all(line.startswith(f"{path}:1:") for line in lines)


def test_suggest_returns_most_similar_name():
    assert suggest("wieghts", ["weights", "eta"]) == " (did you mean 'weights'?)"
    assert suggest("OPAUC", ["opauc", "opauc_fd"]) == " (did you mean 'opauc'?)"
    assert suggest("xyz", ["weights", "eta"]) == ""
    assert suggest("x", []) == ""


def test_show_describes_values():
    shown = [show(value) for value in (None, True, 1.5, "a'b", [], [1], {}, {"a": 1})]
    assert shown == [
        "nothing",
        "true",
        "1.5",
        '"a\'b"',
        "an empty list",
        "a list",
        "an empty mapping",
        "a mapping",
    ]
    assert len(show("x" * 1000)) < 70
    assert len(show(10**1000)) < 70
