"""Row metadata: the part, the group and the time of each row, from the catalogue to the prepared arrays."""

import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opauc_bench.data import Sources, find_prepared, load_catalogue, prepare, verify
from opauc_bench.data.content import LineProblem
from opauc_bench.data.entry import PARTS
from opauc_bench.data.metadata import encode
from opauc_bench.errors import ConfigError, DataError

ROOT = Path(__file__).resolve().parents[2]
ROWS = ("1 1:0.5 2:1\n2 1:-1\n", "2 2:-0.25\n1 1:0.125 2:1\n2 1:0.5\n")
FILES = {
    "split": "train\ntest\nvalidation\ntest\ntrain\n",
    "group": "a person\nb\n  a person\t\r\n7\nb\n\n",
    "time": "2024-05-31\n2024-05-31T10:00\n2023-01-01T00:00:00+02:00\n2024-05-31\n1969-12-31T23:59:59Z\n",
}
ENTRY = """
datasets:
  toy:
    title: Toy
    format: svmlight
    files: [{name: toy, urls: [toy.txt]}, {name: toy.t, urls: [toy.t.txt]}]
    n_samples: 5
    n_features: 2
    n_positive: 2
    positive: [1]
    scaling: none
"""


@pytest.fixture
def make(tmp_path):
    """Return a function that prepares the toy dataset with further lines in its entry, and files for its metadata."""
    for name, text in zip(("toy.txt", "toy.t.txt"), ROWS):
        (tmp_path / name).write_text(text)

    def prepared(*lines, **files):
        for name, text in (FILES | files).items():
            content = text if isinstance(text, bytes) else text.encode()
            (tmp_path / f"{name}.txt").write_bytes(content)
        (tmp_path / "own.yaml").write_text(ENTRY + "".join(f"    {line}\n" for line in lines))
        entry = load_catalogue(tmp_path / "own.yaml")["toy"]
        return prepare(entry, Sources(tmp_path / "cache", offline=True))

    return prepared


ALL = ("split: split.txt", "group: group.txt", "time: time.txt")


def test_metadata_become_arrays_beside_the_rows(make):
    data = make(*ALL)
    assert [PARTS[part] for part in data.split] == FILES["split"].split()
    assert data.group.tolist() == [0, 1, 0, 2, 1]
    zone = timezone(timedelta(hours=2))
    dates = [datetime(2024, 5, 31, tzinfo=UTC), datetime(2024, 5, 31, 10, tzinfo=UTC)]
    dates += [datetime(2023, 1, 1, tzinfo=zone), dates[0], datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)]
    assert data.time.tolist() == [(date - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() for date in dates]
    for values, dtype in ((data.split, np.int8), (data.group, np.int32), (data.time, np.float64)):
        assert isinstance(values, np.memmap)
        assert not values.flags.writeable
        assert values.dtype == dtype
    assert json.loads(json.dumps(data.manifest["row_metadata"])) == {
        "split": {"train": 2, "validation": 1, "test": 2},
        "group": {"n_groups": 3},
        "time": {"first": "1969-12-31T23:59:59Z", "last": "2024-05-31T10:00"},
    }
    assert [file["name"] for file in data.manifest["files"]] == ["toy", "toy.t", "split.txt", "group.txt", "time.txt"]


def test_files_may_be_the_parts(make):
    data = make("split: [train, test]")
    assert data.split.tolist() == [0, 0, 2, 2, 2]
    assert data.manifest["row_metadata"] == {"split": {"train": 2, "validation": 0, "test": 3}}
    assert data.group is None
    assert data.time is None


def test_metadata_are_part_of_the_fingerprint_and_absent_ones_are_not(make, tmp_path):
    plain = make()
    assert "row_metadata" not in plain.manifest
    split = make("split: [train, test]")
    same = make("split: split.txt", split="train\ntrain\ntest\ntest\ntest")
    other = make("split: split.txt", split="train\ntest\ntest\ntest\ntest")
    assert split.fingerprint == same.fingerprint
    assert len({data.fingerprint for data in (plain, split, other, make(*ALL))}) == 4
    assert make().fingerprint == plain.fingerprint
    assert make("group: group.txt").fingerprint == make("group: group.txt", group="0\n1\n0\n2\n1\n").fingerprint


def test_a_changed_file_is_read_again_and_a_flipped_bit_is_detected(make, tmp_path):
    first = make("time: time.txt", time="1\n2\n3\n4\n5e-1\n")
    assert first.time.tolist() == [1, 2, 3, 4, 0.5]
    entry, sources = load_catalogue(tmp_path / "own.yaml")["toy"], Sources(tmp_path / "cache", offline=True)
    assert find_prepared(entry, sources).fingerprint == first.fingerprint
    (tmp_path / "time.txt").write_text("1\n2\n3\n4\n6\n")
    assert find_prepared(entry, sources) is None
    second = prepare(entry, sources)
    assert second.time[-1] == 6
    path = second.folder / "time.npy"
    path.write_bytes(path.read_bytes()[:-1] + b"\x41")
    assert [check.ok for check in verify(entry, sources) if str(second.fingerprint) in check.detail] == [False]
    assert prepare(entry, sources, hashed=True).time[-1] == 6


def test_files_of_metadata_may_be_compressed_mirrored_and_belong_to_scikit_learn(tmp_path):
    import gzip

    (tmp_path / "mirror/wine").mkdir(parents=True)
    parts = ["train"] * 100 + ["test"] * 78
    (tmp_path / "mirror/wine/parts.gz").write_bytes(gzip.compress("\n".join(parts).encode()))
    (tmp_path / "own.yaml").write_text(
        "datasets: {mine: {base: wine, title: Wine in two parts, split: {name: parts}}}\n"
    )
    catalogue = load_catalogue(tmp_path / "own.yaml")
    data = prepare(catalogue["mine"], Sources(tmp_path / "cache", (str(tmp_path / "mirror"),), offline=True))
    assert [PARTS[part] for part in data.split] == parts
    plain = prepare(catalogue["wine"], Sources(tmp_path / "cache", offline=True))
    assert plain.split is None
    assert plain.fingerprint != data.fingerprint
    np.testing.assert_array_equal(plain.X, data.X)


def test_entries_of_one_base_keep_their_own_metadata(make, tmp_path):
    make()
    parts = {"one": "train\n" * 4 + "test\n", "two": "train\n" * 2 + "test\n" * 3}
    for name, text in parts.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "parts.txt").write_text(text)
    entries = "".join(f"  {name}: {{base: toy, split: {name}/parts.txt}}\n" for name in parts)
    (tmp_path / "own.yaml").write_text(ENTRY + entries)
    catalogue, sources = load_catalogue(tmp_path / "own.yaml"), Sources(tmp_path / "cache", offline=True)
    first = {name: prepare(catalogue[name], sources) for name in parts}
    assert [[PARTS[part] for part in first[name].split] for name in parts] == [text.split() for text in parts.values()]
    said = []
    again = {name: prepare(catalogue[name], sources, said.append) for name in parts}
    assert [again[name].fingerprint for name in parts] == [first[name].fingerprint for name in parts]
    assert said == []
    assert all(check.ok for name in parts for check in verify(catalogue[name], sources))


@pytest.mark.parametrize(
    ("line", "content", "problem"),
    [
        ("split", "train\n" * 4, "split.txt:5: expected 5 lines, one per row of the data and no header, g"),
        ("split", "part\n" + "train\n" * 5, "split.txt:6: expected 5 lines, one per row of the data and no header, "),
        ("split", "train\ntest\nvalid\ntest\ntest", "split.txt:3: expected train, validation or test, got 'valid'"),
        ("split", "train\n\ntest\ntest\ntest", "split.txt:2: expected a value of split, got an empty line"),
        ("split", b"train\n\0\n", "split.txt:2: expected text, got a NUL byte"),
        ("group", b"\xef\xbb\xbfa\nb\nc\nd\ne\n", "group.txt:1: the file begins with a byte order mark"),
        ("time", "1\n2\nnan\n3\n4", "time.txt:3: expected the time, as in line 1, to be finite, got 'nan'"),
        ("time", "nan\n2\n5\n3\n4", "time.txt:1: expected the time, as in line 1, to be finite, got 'nan'"),
        ("time", "1\n2\n2024-01-01\n3\n4", "time.txt:3: expected the time, as in line 1, to be a number, got '2024-"),
        ("time", "2024-01-01\n2\n2\n3\n4", "time.txt:2: expected the time to be a number in every line, or a date"),
        ("time", "2024-01-01T00:00:00.123456789\n" * 5, "time.txt:1: expected a time in microseconds or a"),
        ("time", "2024-13-01\n" * 5, "time.txt:1: expected the time to be a number in every line, or a date"),
    ],
)  # fmt: skip
def test_mistakes_in_files_are_named_with_their_line(make, tmp_path, line, content, problem):
    with pytest.raises(DataError) as caught:
        make(f"{line}: {line}.txt", **{line: content})
    assert caught.value.message.startswith(f"toy: {tmp_path}/{problem}")
    assert "\n" not in caught.value.message
    assert "correct the file, or the entry" in caught.value.hint


def test_a_missing_file_is_named(make, tmp_path):
    with pytest.raises(DataError, match=r"absent\.txt: unavailable(.|\n)*absent\.txt: no such file"):
        make("group: absent.txt")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("split: [train]", "expected one word per file, or a text file with one per row; 2 file(s) and 1 word(s)"),
        ("split: [train, train]", "expected a file with rows for test"),
        ("split: [train, dev]", "expected 'train', 'validation' or 'test', got 'dev'"),
        ("groups: group.txt", "unknown key (did you mean 'group'?)"),
        ("time: 5", "expected 'key: value' lines, got 5"),
        ("time: toy.txt/toy", "'toy' is listed twice"),
        ("alternatives: [{format: csv, files: [{name: x}], positive: [1]}]\n    time: t.txt", "expected the same of"),
    ],
)
def test_mistakes_in_the_catalogue_have_line_and_column(make, tmp_path, line, problem):
    with pytest.raises(ConfigError) as caught:
        make(line)
    assert problem in caught.value.message
    assert caught.value.message.startswith(f"{tmp_path}/own.yaml:12:")


def test_an_entry_with_other_files_does_not_inherit_metadata(tmp_path):
    (tmp_path / "own.yaml").write_text(
        ENTRY
        + "    split: [train, test]\n"
        + "  same: {base: toy, title: Same}\n"
        + "  other: {base: toy, title: Other, files: [{name: one}]}\n"
    )
    catalogue = load_catalogue(tmp_path / "own.yaml")
    assert {name: catalogue[name].row_metadata for name in ("toy", "same", "other")} == {
        "toy": ("split",),
        "same": ("split",),
        "other": (),
    }


@given(st.lists(st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1), min_size=1, max_size=30))
def test_group_numbers_are_equal_where_the_names_are(names):
    values, facts = encode("group", names)
    assert facts == {"n_groups": len(set(names))}
    assert [[a == b for b in names] for a in names] == (values[:, None] == values).tolist()
    assert sorted(set(values)) == list(range(len(set(names))))


@given(st.lists(st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1)), min_size=1, max_size=30))
def test_dates_are_in_the_order_of_time(dates):
    values, facts = encode("time", [date.isoformat() for date in dates])
    assert [[a < b for b in dates] for a in dates] == (values[:, None] < values).tolist()
    assert facts == {"first": min(dates).isoformat(), "last": max(dates).isoformat()}


def test_encode_has_the_number_of_the_row():
    with pytest.raises(LineProblem) as caught:
        encode("split", ["train", "tset"])
    assert (caught.value.number, caught.value.problem) == (
        2,
        "expected train, validation or test, got 'tset' (did you mean 'test'?)",
    )


def test_integers_that_a_float_cannot_hold_are_no_times():
    """Epoch nanoseconds 50 apart became equal."""
    assert encode("time", ["9007199254740992", "9007199254740994"]).values.tolist() == [2.0**53, 2.0**53 + 2]
    with pytest.raises(LineProblem, match="got 1577836800000000050; subtract the first one, or take a coarser unit"):
        encode("time", ["1577836800000000000", "1577836800000000050"])


def test_blanks_around_a_value_are_no_part_of_it():
    """They stay in Parquet files and DataFrames, where two groups came out of one."""
    assert encode("group", ["a b", " a b\t", "c"]).values.tolist() == [0, 0, 1]
    assert encode("split", ["train ", "test"]).values.tolist() == encode("split", ["train", "test"]).values.tolist()
    with pytest.raises(LineProblem, match="an empty line"):
        encode("group", ["a", "  "])
