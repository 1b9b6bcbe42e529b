"""Tables as rows of features: CSV, TSV, Parquet and Arrow against slow readers."""

import bz2
import codecs
import contextlib
import csv
import gzip
import io
import lzma
import os
import threading
from dataclasses import asdict
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyarrow import feather, parquet
from scipy.sparse import vstack
from scipy.stats import iqr
from streams import fnv, zstd

from opauc_bench.data.content import SUFFIXES
from opauc_bench.data.inputs import Source, format_of, matrix_of
from opauc_bench.data.row_encoder import FarValues, RowEncoder, offsets_of, scales_of
from opauc_bench.data.schema import MISSING_WORDS, ColumnOptions, Schema, category_name, hash_texts
from opauc_bench.data.table import TextTable, _outside_quotes
from opauc_bench.errors import DataError

BITS = 6


def slow_rows(header, rows, schema):
    """The rows as dense features, value by value; ``None`` is a missing value."""
    width, n = schema.n_features, len(schema.numbers)
    seen = {name: [] for name in schema.numbers}
    X = np.zeros((len(rows), width))
    for x, row in zip(X, rows):
        row = dict(zip(header, row))
        for j, name in enumerate(schema.numbers):
            if row[name] is not None:
                x[j] = float(row[name])
                seen[name].append(x[j])
            elif schema.missing == "mean" and seen[name]:
                x[j] = np.mean(seen[name])
            elif schema.missing == "indicator":
                x[n + j] = 1.0
        for name in schema.categories:
            if row[name] is not None or schema.missing == "indicator":
                x[schema.first_category + fnv(name, row[name] or "", schema.bits)] += 1.0
    return X


def read(source):
    """All rows of a source: features and labels."""
    chunks = list(source.chunks())
    labels = None if chunks[0].labels is None else np.concatenate([chunk.labels for chunk in chunks])
    return vstack([chunk.X for chunk in chunks], format="csr"), labels


def error_of(path, content):
    """The error that reading a CSV file with the label ``y`` ends with."""
    path.write_bytes(content)
    with pytest.raises(DataError) as raised:
        read(Source(str(path), ColumnOptions(label="y")))
    return raised.value


def write_csv(path, header, rows, **dialect):
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, **{"lineterminator": "\n"} | dialect).writerows([header, *rows])
    return str(path)


TEXT = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0\r"), min_size=1, max_size=6).map(
    str.strip
)
CATEGORY = TEXT.filter(lambda text: text and not text.isspace())
NUMBER = st.floats(-1e300, 1e300)  # sums of larger ones overflow, of which a mean is made


@st.composite
def tables(draw):
    """Columns of numbers and of categories in some order, with labels; some values are missing."""
    n_numbers, n_categories = draw(st.integers(0, 3)), draw(st.integers(0, 2))
    kinds = draw(st.permutations("n" * n_numbers + "c" * n_categories + "l"))
    if len(kinds) == 1:
        kinds = ["n", *kinds]
    cell = {"n": st.none() | NUMBER, "c": st.none() | CATEGORY, "l": st.sampled_from(["yes", "no"])}
    rows = draw(st.lists(st.tuples(*(cell[kind] for kind in kinds)), min_size=1, max_size=12))
    # By its first value a column is known to have numbers; a category must not look like one there.
    first = tuple({"n": 0.5, "c": "word", "l": "no"}[kind] for kind in kinds)
    return ["label" if kind == "l" else f"{kind} {k}" for k, kind in enumerate(kinds)], [first, *rows]


# ------------------------------------------------------------------------------------------ CSV


@given(
    tables(),
    st.sampled_from([",", "\t", ";", "|"]),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["mean", "indicator"]),
)
def test_csv_is_read_as_the_csv_module_reads_it(tmp_path_factory, table, delimiter, quoting, end, missing):
    header, rows = table
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    text = [["" if value is None else value for value in row] for row in rows]
    write_csv(path, header, text, delimiter=delimiter, quoting=quoting, lineterminator=end)
    with open(path, newline="", encoding="utf-8") as file:
        assert next(csv.reader(file, delimiter=delimiter)) == header
    source = Source(str(path), ColumnOptions(label="label", missing=missing, bits=BITS))
    X, labels = read(source)
    expected = slow_rows(header, rows, source.schema)
    assert X.shape == expected.shape
    # A mean may be much smaller than its values.
    np.testing.assert_allclose(X.toarray(), expected, rtol=1e-12, atol=1e-13 * np.abs(expected).max())
    assert labels.tolist() == [row[header.index("label")] for row in rows]
    assert X.has_sorted_indices
    assert (X.data != 0).all()


@given(tables(), st.integers(1, 40))
def test_rows_do_not_depend_on_how_the_text_is_cut(table, size):
    header, rows = table
    buffer = io.StringIO()
    csv.writer(buffer).writerows([header, *([value or "" for value in row] for row in rows)])
    content = buffer.getvalue().encode()
    options = ColumnOptions(label="label", missing="indicator", bits=BITS)

    def parsed(pieces):
        text = TextTable(iter(pieces), "t")
        schema = Schema.of_columns(text.kinds(), options, "t", "")
        found = list(text.rows(schema, numeric_labels=False))
        assert not any(piece.problems for piece in found)
        return (
            np.concatenate([piece.numbers for piece in found]).tobytes(),
            np.concatenate([piece.categories for piece in found]).tolist(),
            np.concatenate([piece.places for piece in found]).tolist(),
        )

    whole = parsed([content])
    assert parsed([content[start : start + size] for start in range(0, len(content), size)]) == whole


@given(st.lists(st.tuples(CATEGORY, CATEGORY), min_size=1, max_size=20), st.integers(1, 30))
def test_hashes_are_those_of_the_definition(pairs, bits):
    for column, value in pairs:
        assert hash_texts([value, None, ""], column, bits).tolist() == [fnv(column, value, bits), -1, -1]


@pytest.mark.parametrize("spelling", [str.lower, str.upper, str.capitalize, str.swapcase])
def test_truth_values_in_columns_of_categories(tmp_path, spelling):
    """One category in text, in Parquet files and in data frames, which pandas reads from text in three spellings."""
    frame = pd.DataFrame({"flag": [True, False, True], "y": [1, 0, 0]})
    frame.to_parquet(tmp_path / "t.parquet")
    written = [["flag", "y"], *([spelling(str(flag)), y] for flag, y in zip(frame["flag"], frame["y"]))]
    path = write_csv(tmp_path / "t.csv", *[written[0], written[1:]])
    source = Source(path, ColumnOptions(label="y", categorical=("flag",)))
    X, _ = read(source)
    np.testing.assert_array_equal(
        X.toarray(), read(Source(str(tmp_path / "t.parquet"), schema=source.schema))[0].toarray()
    )
    assert [category_name(spelling(str(flag))) for flag in frame["flag"]] == ["True", "False", "True"]
    assert hash_texts(["Trues", "rue", "TRuE"], "flag", 8).tolist() == [
        fnv("flag", "Trues", 8),
        fnv("flag", "rue", 8),
        fnv("flag", "True", 8),
    ]


def test_missing_words_of_numbers_and_empty_categories(tmp_path):
    rows = [["1", "NA", 0], *([word.upper(), "b", 1] for word in MISSING_WORDS), ["2", "", 1]]
    path = write_csv(tmp_path / "t.csv", ["x", "c", "y"], rows)
    X, _ = read(Source(path, ColumnOptions(label="y", missing="indicator", bits=BITS)))
    n = len(MISSING_WORDS)
    assert X.toarray()[:, 0].tolist() == [1, *[0] * n, 2]
    assert X.toarray()[:, 1].tolist() == [0, *[1] * n, 0]
    categories = X.toarray()[:, 2:].argmax(axis=1)
    assert categories.tolist() == [fnv("c", value, BITS) for value in ["NA", *["b"] * n, ""]]
    X, _ = read(Source(path, ColumnOptions(label="y", missing="mean", bits=BITS)))
    assert X.toarray()[:, 0].tolist() == [1, *[1] * n, 2]
    assert X[-1].nnz == 1


def test_the_running_mean_is_that_of_the_rows_before(tmp_path):
    rng = np.random.default_rng(0)
    x = np.where(rng.random(9000) < 0.3, np.nan, rng.normal(5, 2, 9000))
    path = write_csv(tmp_path / "t.csv", ["x", "y"], [["" if v != v else v, k % 2] for k, v in enumerate(x.tolist())])
    source = Source(path, ColumnOptions(label="y", missing="mean"))
    X, _ = read(source)
    known = ~np.isnan(x)
    before = np.cumsum(np.where(known, x, 0)) / np.maximum(1, np.cumsum(known))
    np.testing.assert_allclose(X.toarray()[:, 0], np.where(known, x, before), rtol=1e-12)
    schema = source.schema_at(source.statistics_so_far())
    assert schema.counts == (known.sum(),)
    assert schema.means[0] == pytest.approx(x[known].mean(), rel=1e-12)
    # For other rows these are the values, whatever comes with them.
    later = write_csv(tmp_path / "later.csv", ["x"], [[100], [""], ["1"]])
    X, labels = read(Source(later, schema=schema, learnt=False))
    assert X.toarray()[:, 0].tolist() == [100, schema.means[0], 1]
    assert labels is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a,y\n1,0\nx,1\n", "3: column 'a': expected a number, got 'x'"),
        ("a,y\n1,0\ninf,1\n", "3: column 'a': expected a finite number, got 'inf'"),
        ("a,y\n1,0\n1e999,1\n", "3: column 'a': expected a finite number, got '1e999'"),
        ("a,y\n1,0\n1_0,1\n", "3: column 'a': expected a number, got '1_0'"),
        ("a,y\n1,0\n,1\n", "3: column 'a': expected a value, got nothing"),
        ("a,y\nx,0\n,1\n", "3: column 'a': expected a value, got nothing"),
        ("a,y\n1,0\n2,\n", "3: column 'y': expected a value, got nothing"),
        ("a,y\n1,no\n2,\n", "3: column 'y': expected a value, got nothing"),
        ("a,y\n1,0\n2,no\n", "3: column 'y': expected a number, got 'no'"),
        ("a,y\n\n1,0\n\n2\n", "5: expected 2 columns, got 1"),
        ("a,y\n1,0\n2,1,3\n", "3: expected 2 columns, got 3"),
        ('a,y\n"x\nz",0\n"b"c,1\n', "4: expected a separator after a closing quote, got other text"),
        ('a,y\nx,0\n"b,1\n', "3: a quote is never closed"),
    ],
)
def test_bad_rows_have_a_place_and_can_be_left_out(tmp_path, text, expected):
    path = tmp_path / "t.csv"
    error = error_of(path, text.encode())
    assert error.message == f"{path}:{expected}"
    assert "--skip-bad-rows" in error.hint
    source = Source(str(path), ColumnOptions(label="y"), skip_bad_rows=True)
    X, _ = read(source)
    assert X.shape[0] == 1
    assert source.n_skipped == 1
    assert source.remarks() == [f"note: 1 bad row left out; the first: {path}:{expected}"]


def test_categories_that_are_not_utf8_are_bad_rows(tmp_path):
    lines = [f"{'Köln' if k % 3 else 'Bonn'},é,{k % 2}\n".encode() for k in range(9000)]
    lines[5000] = "Köln,é,0\n".encode("latin-1")
    path = tmp_path / "t.csv"
    path.write_bytes(b"city,other,y\n" + b"".join(lines))
    error = error_of(path, path.read_bytes())
    assert error.message == (
        f"{path}:5002: column 'city': expected text in UTF-8 (iconv -f latin1 -t utf8 FILE), got 'K\ufffdln'"
    )
    assert "--skip-bad-rows" in error.hint
    source = Source(str(path), ColumnOptions(label="y", bits=BITS), skip_bad_rows=True)
    assert (read(source)[0].shape[0], source.n_skipped) == (8999, 1)
    # What is left out may have any encoding.
    lines[5000] = "Köln,".encode() + "é,0\n".encode("latin-1")
    path.write_bytes(b"city,other,y\n" + b"".join(lines))
    assert read(Source(str(path), ColumnOptions(label="y", drop=("other",), bits=BITS)))[0].shape[0] == 9000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "expected a header line with the names of columns, got an empty file"),
        ("\n \n", "expected a header line with the names of columns, got an empty file"),
        ("1,2\n3,4\n", ":1: expected a header line with the names of columns, got numbers"),
        ("a,a\n3,4\n", ":1: expected different names of columns, got 'a' twice"),
        ('"a,b\n3,4\n', ":1: expected a header line, got a quote that is never closed"),
        ('"a"b,c\n3,4\n', ":1: expected a separator after a closing quote in the header line, got other text"),
        ('{"a": 1, "y": 0}\n', ": expected a table (csv, parquet or arrow), got JSON"),
        ('[\n {"a": 1, "y": 0}\n]\n', ": expected a table (csv, parquet or arrow), got JSON"),
        ("1 1:2 3:4\n", ": expected a table with the column 'y', got svmlight text"),
        ("y\n1\n", "expected columns of features, got none beside the label"),
        ("a,Y\n1,2\n", "expected a column 'y' (did you mean 'Y'?); the columns are 'a', 'Y'"),
        ("label,b\n1,2\n", "expected a column 'y'; the columns are 'label', 'b'"),
        ('"a,e\nb";c\n1;2\n', "expected a column 'y'; the columns are 'a,e\\nb', 'c'"),
        ("a,y\n1,\0\n", "expected text, got a NUL byte"),
        ("PK\x03\x04\x14\0\0\0", "expected text, Parquet or Arrow, got an archive (.zip, .npz"),
        ("a,y\r1,0\r2,1\r", ":1: expected lines that end with LF or CR LF, got lines that end with CR"),
        ('"a","y"\r"1","0"\r2,1\n', ":1: expected lines that end with LF or CR LF, got lines that end with CR"),
        pytest.param("a,y\r" * 5_000_000, "got lines that end with CR", id="CR in an endless line"),
        pytest.param(
            "[" + '{"a": 1, "y": 0}, ' * 1_000_000, ": expected a table (csv, parquet or arrow), got JSON", id="JSON"
        ),
        pytest.param("a" * 20_000_000, "expected a header line within 16,777,216 bytes", id="one endless line"),
        pytest.param(
            'a,y\nx,0\n"' + "x,1\n" * 6_000_000,
            ":3: a quote is never closed",
            id="a quote that swallows the file",
        ),
    ],
)
def test_bad_headers_and_endless_rows(tmp_path, text, expected):
    path = tmp_path / "t.csv"
    error = error_of(path, text.encode())
    assert expected in error.message
    assert error.message.startswith(str(path))


@pytest.mark.parametrize("more", [0, pytest.param(1 << 24, marks=pytest.mark.large)])
def test_a_stray_quote_costs_its_line_only(tmp_path, more):
    """With --skip-bad-rows; the quote may be closed by that of a later cell, or not at all."""
    lines = [f"{k % 2},{k},cell\n" for k in range(200)]
    lines[11] = '1,11,"5 inch\n'
    lines[40] = '1,40,"two\nlines"\n'
    lines[80] = '1,80,"closed" not at the end\n'
    lines[190] = '1,190,"never closed\n'
    path = tmp_path / "t.csv"
    text = "y,x,text\n" + "".join(lines)
    path.write_text(text + "0,1000,cell\n" * (more // 12))
    source = Source(str(path), ColumnOptions(label="y", bits=BITS), skip_bad_rows=True)
    X, _ = read(source)
    numbers = [int(value) for value in X[:, 0].toarray().ravel()]
    # The first stray quote is closed by the quote of row 40, whose second line then begins with text.
    assert numbers[: 200 - 3] == [k for k in range(200) if k not in (11, 80, 190)]
    assert source.n_skipped == 3
    assert source.first_skipped == f"{path}:13: expected a separator after a closing quote, got other text"


def test_numbers_that_are_not_finite_are_numbers(tmp_path):
    error = error_of(tmp_path / "t.csv", b"y,x\n1,inf\n0,2\n")
    assert error.message.endswith(":2: column 'x': expected a finite number, got 'inf'")


def test_zstd_that_begins_with_a_frame_to_be_skipped(tmp_path):
    text = b"y,x\n1,2\n0,3\n"
    skipped = b"\x50\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"notes"
    (tmp_path / "t.csv.zst").write_bytes(skipped + zstd(text))
    X, labels = read(Source(str(tmp_path / "t.csv.zst"), ColumnOptions(label="y")))
    assert (X.toarray().ravel().tolist(), labels.tolist()) == ([2, 3], [1, 0])


def test_headers_that_are_cut_by_a_read(tmp_path):
    text = codecs.BOM_UTF8 + b'"a\nb",y\n1,0\n2,1\n'
    whole = TextTable(iter([text]), "t")
    for cut in range(1, len(text)):
        assert TextTable(iter([text[:cut], text[cut:]]), "t").header == whole.header == ["a\nb", "y"]


def test_categories_are_spelt_alike_in_all_formats(tmp_path):
    """Booleans as Python and pandas write them; numbers with a fraction are refused, since 9 may be 9.0."""
    frame = pd.DataFrame({"flag": [True, False, True], "zip": [9, 10, 9], "y": [1, 0, 1]})
    options = ColumnOptions(label="y", categorical=("flag", "zip"), bits=BITS)
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    X, _ = read(Source(str(tmp_path / "t.csv"), options))
    for file in (str(tmp_path / "t.parquet"), frame, frame.astype(object), frame.astype({"flag": "category"})):
        np.testing.assert_array_equal(read(Source([file], options))[0].toarray(), X.toarray())
    floats = frame.astype({"zip": float})
    floats.to_parquet(tmp_path / "f.parquet")
    for file in (str(tmp_path / "f.parquet"), floats, floats.astype(object), floats.astype({"zip": "category"})):
        with pytest.raises(DataError, match=r"column 'zip': expected text or (a )?whole number"):
            read(Source([file], options))


def test_decimals_are_rounded_alike_in_all_formats(tmp_path):
    prices = [f"{k * 7919 % 100_000 / 100:.2f}" for k in range(500)]
    frame = pd.DataFrame({"price": [*map(Decimal, prices), None], "y": [k % 2 for k in range(501)]})
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_csv(tmp_path / "t.csv", index=False)
    expected = [*map(float, prices), 0.0]
    options = ColumnOptions(label="y", missing="indicator")
    assert read(Source(str(tmp_path / "t.csv"), options))[0].toarray()[:, 0].tolist() == expected
    for file in (str(tmp_path / "t.parquet"), frame):
        assert read(Source([file], options))[0].toarray()[:, 0].tolist() == expected
        with pytest.raises(DataError, match=r"column 'price': expected text or (a )?whole number"):
            read(Source([file], ColumnOptions(label="y", categorical=("price",))))


@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
def test_blanks_around_a_category_are_no_part_of_it(tmp_path, quoting):
    cities = ["Bern", " Bern", "Bern\t", "\t Bern \r", 'the "Hague" ', " Zürich, ZH", "  "]
    frame = pd.DataFrame({"city": cities, "x": range(7), "y": [" yes", "no ", "no", "yes", "no", "yes", "no"]})
    frame.to_csv(tmp_path / "t.csv", index=False, quoting=quoting)
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_feather(tmp_path / "t.arrow")
    options = ColumnOptions(label="y", missing="indicator", bits=BITS)
    rows = [[city.strip() or None, x] for x, city in enumerate(cities)]
    files = [str(tmp_path / f"t.{ending}") for ending in ("csv", "parquet", "arrow")]
    for file in (*files, frame, frame.astype({"city": "category"})):
        source = Source([file], options)
        X, labels = read(source)
        np.testing.assert_array_equal(X.toarray(), slow_rows(["city", "x"], rows, source.schema))
        assert labels.tolist() == ["yes", "no", "no", "yes", "no", "yes", "no"]
        assert "city=Zürich, ZH" in [name for _, name in source.schema_at(source.statistics_so_far()).names]
        with pytest.raises(DataError, match="column 'city': expected a value, got nothing"):
            read(Source([file], ColumnOptions(label="y", bits=BITS)))


def test_blanks_around_a_name_are_no_part_of_it(tmp_path):
    frame = pd.DataFrame({" x": [1.5, 2.5], "city\t": ["a", "b"], " when ": pd.Timestamp("2024-01-01"), "y ": [0, 1]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_feather(tmp_path / "t.arrow")
    options = ColumnOptions(label="y", drop=("when",), bits=BITS)
    files = [str(tmp_path / f"t.{ending}") for ending in ("csv", "parquet", "arrow")]
    X, labels = read(of_csv := Source(files[0], options))
    assert (of_csv.schema.numbers, of_csv.schema.categories) == (("x",), ("city",))
    for file in (*files[1:], frame):
        source = Source([file], options)
        assert source.schema == of_csv.schema
        for found in (read(source), read(Source([file], schema=of_csv.schema))):
            np.testing.assert_array_equal(found[0].toarray(), X.toarray())
            assert found[1].tolist() == labels.tolist()
        with pytest.raises(DataError, match="column 'when': expected numbers or text, got the type"):
            read(Source([file], ColumnOptions(label="y")))
    frame.rename(columns={"y ": "x"}).to_parquet(tmp_path / "two.parquet")
    for file in (str(tmp_path / "two.parquet"), frame.rename(columns={"y ": "x"})):
        with pytest.raises(DataError, match="expected different names of columns, got 'x' twice"):
            Source([file], ColumnOptions(label="x"))


def test_a_column_of_categories_without_values_has_any_type(tmp_path):
    schema = Schema("y", (), ("zip",), missing="indicator", bits=BITS)
    for values in ([None, None], [np.nan, np.nan], [9.0, np.nan]):
        frame = pd.DataFrame({"zip": values, "y": [1, 0]})
        frame.to_parquet(tmp_path / "t.parquet")
        for file in (frame, str(tmp_path / "t.parquet")):
            source = Source([file], schema=schema, learnt=False) if values[0] != 9.0 else None
            if source is None:
                with pytest.raises(DataError, match="column 'zip': expected text or whole numbers, got the type"):
                    read(Source([file], schema=schema, learnt=False))
            else:
                assert read(source)[0].toarray().sum() == 2
    table = pa.table({"zip": pa.array([9, 10], pa.decimal128(10, 0)), "y": [1, 0]})
    parquet.write_table(table, tmp_path / "t.parquet")
    options = ColumnOptions(label="y", categorical=("zip",), bits=BITS)
    X, _ = read(Source(str(tmp_path / "t.parquet"), options))
    assert X.indices.tolist() == [fnv("zip", "9", BITS), fnv("zip", "10", BITS)]


def test_labels_as_text_have_no_fractions(tmp_path):
    frame = pd.DataFrame({"x": [1, 2], "y": [1.0, 0.0]})
    frame.to_parquet(tmp_path / "t.parquet")
    for file in (frame, str(tmp_path / "t.parquet")):
        with pytest.raises(DataError, match="column 'y': expected text or whole numbers, got the type"):
            read(Source([file], ColumnOptions(label="y", categorical=("y",))))


def test_megabytes_of_blank_lines_are_skipped(tmp_path):
    (tmp_path / "t.csv").write_text("x,y\n1,1\n" + "\n" * (18 << 20) + "2,0\n")
    X, labels = read(Source(str(tmp_path / "t.csv"), ColumnOptions(label="y")))
    assert (X.toarray().ravel().tolist(), labels.tolist()) == ([1, 2], [1, 0])


def test_labels_of_later_files_and_of_models(tmp_path):
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0], "y": [1, 0, 1]})
    frame.to_parquet(tmp_path / "n.parquet")
    frame.assign(y=["a", "b", "a"]).to_parquet(tmp_path / "t.parquet")
    frame.assign(y=pd.Timestamp("2024-01-01")).to_parquet(tmp_path / "d.parquet")
    files = {name: str(tmp_path / f"{name}.parquet") for name in "ntd"}
    for name, got in (("t", "string"), ("d", "timestamp")):
        with pytest.raises(DataError, match=f"column 'y': expected labels that are numbers, as those before, .*{got}"):
            read(Source([files["n"], files[name]], ColumnOptions(label="y")))
    _, labels = read(Source([files["t"], files["n"]], ColumnOptions(label="y")))
    assert labels.tolist() == ["a", "b", "a", "1", "0", "1"]
    (tmp_path / "n.csv").write_text("x,y\n1,0\n2,1+\n")
    with pytest.raises(DataError, match="column 'y': expected a number, got '1\\+'"):
        read(Source(str(tmp_path / "n.csv"), ColumnOptions(label="y")))
    for options in ({"options": ColumnOptions(label="y", categorical=("y",))}, {"numeric_labels": False}):
        source = Source(str(tmp_path / "n.csv"), **{"options": ColumnOptions(label="y")} | options)
        assert read(source)[1].tolist() == ["0", "1+"]
    # Rows that are not learnt need no labels: one that cannot be read is none.
    schema = Schema("y", ("x",))
    assert read(Source(files["d"], schema=schema, learnt=False))[1] is None
    assert read(Source(str(tmp_path / "n.csv"), schema=schema, learnt=False, numeric_labels=True))[1].tolist()[0] == 0
    assert np.isnan(read(Source(str(tmp_path / "n.csv"), schema=schema, learnt=False, numeric_labels=True))[1][1])


def test_headers_of_other_programs(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("\ufeff,größe,y\n1,2.5,0\n2,3,1\n".encode())  # pandas with its index, Excel's mark
    source = Source(str(path), ColumnOptions(label="y"))
    assert source.schema.numbers == ("größe",)
    assert source.remarks() == [f"note: column 1 of {path} has no name and is left out"]
    several = tmp_path / "s.csv"
    several.write_text(",a,,y\n1,2,3,0\n")
    assert Source(str(several), ColumnOptions(label="y")).remarks() == [
        f"note: columns 1, 3 of {several} have no name and are left out"
    ]
    frame = pd.DataFrame({"größe": [2.5, 3.0], "y": [0, 1]}, index=[1, 0])
    frame.to_parquet(tmp_path / "t.parquet")  # the index is a column
    typed = Source(str(tmp_path / "t.parquet"), ColumnOptions(label="y"))
    assert typed.schema == source.schema
    assert typed.remarks() == [f"note: column 3 of {tmp_path / 't.parquet'} has no name and is left out"]
    np.testing.assert_array_equal(read(typed)[0].toarray(), read(source)[0].toarray())
    path.write_bytes("größe,y\n1,2\n".encode("latin-1"))
    with pytest.raises(DataError, match="expected names of columns in UTF-8"):
        Source(str(path), ColumnOptions(label="y"))


@pytest.mark.parametrize("value", ["1,5", "-1.234,56", "12,345", "1,234,567.89"])
def test_numbers_with_commas_are_said_to_be_categories(tmp_path, value):
    path = write_csv(tmp_path / "t.csv", ["a", "b", "c", "y"], [["u,v", value, value, 0], ["w", value, value, 1]])
    source = Source(path, ColumnOptions(label="y", categorical=("c",)))
    assert source.schema.categories == ("a", "b", "c")
    assert source.remarks() == [
        f"note: column 'b' of {path} has categories: numbers have a decimal point and no commas, got '{value}'"
    ]
    path = write_csv(tmp_path / "t.csv", ["a", "y"], [[1, 0], [value, 1]])
    with pytest.raises(DataError, match=f"expected a number with a decimal point, got '{value}'") as raised:
        read(Source(path, ColumnOptions(label="y")))
    assert raised.value.hint == "--skip-bad-rows leaves such rows out"


def test_truth_values_in_columns_of_numbers(tmp_path):
    """So that a model of Parquet files, which have a type for them, takes CSV files."""
    frame = pd.DataFrame({"flag": [True, False, True], "x": [1.0, 2.0, 3.0], "y": [True, False, False]})
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_csv(tmp_path / "t.csv", index=False)
    typed = Source(str(tmp_path / "t.parquet"), ColumnOptions(label="y"))
    (tmp_path / "u.csv").write_text((tmp_path / "t.csv").read_text().replace("True", "TRUE").replace("False", "false"))
    for name in ("t.csv", "u.csv"):
        text = Source(str(tmp_path / name), schema=typed.schema, learnt=False, numeric_labels=True)
        X, labels = read(text)
        np.testing.assert_array_equal(X.toarray(), frame[["flag", "x"]].to_numpy(dtype=float))
        assert labels.tolist() == [1.0, 0.0, 0.0]


def test_scales_are_interquartile_ranges_or_typical_distances():
    rng = np.random.default_rng(0)
    skewed, flag = np.exp(2 * rng.standard_normal(999)), (rng.random(999) < 0.1) * 1.0
    holes = np.where(rng.random(999) < 0.2, np.nan, skewed)
    amounts = flag * rng.uniform(100, 300, 999)
    columns = [skewed, holes, flag, amounts, np.full(999, 7.0), np.full(999, np.nan), skewed * 1e200, skewed * 1e-200]
    numbers = np.array(columns).T
    typical = np.median(amounts[amounts > 0])
    wanted = [iqr(skewed), iqr(holes, nan_policy="omit"), 1.0, typical, 1.0, 1.0, 1.0, 1.0]
    np.testing.assert_allclose(scales_of(numbers, offsets_of(numbers)), wanted, rtol=1e-12)
    assert scales_of(np.empty((3, 0)), ()) == ()
    half = np.array([7.0] * 50 + [7.0 + 1e-6] * 2 + [8.0] * 24 + [6.0] * 24)[:, np.newaxis]
    assert scales_of(np.vstack([half, half]), (7.0,)) == (1.0,)  # its quartiles are at the edge of the equal values


def test_columns_that_leave_the_range_of_the_first_rows():
    rng = np.random.default_rng(0)
    n = 20_000
    numbers = np.column_stack(
        [rng.standard_normal(n), np.exp(2 * rng.standard_normal(n)), np.arange(n), np.full(n, np.nan)]
    )
    far = FarValues(numbers[:1000])
    for start in range(0, n, 700):
        far.add(numbers[start : start + 700], str)
    assert far.growing() == {2: pytest.approx(0.95)}


def test_offsets_of_columns_with_missing_equal_and_huge_values():
    columns = [[3, 1, 2, 9], [np.nan, 5, np.nan, 7], [np.nan] * 4, [0, 0, 0, 8], [1e200, 1e200, 1, 2], [-4e99] * 4]
    assert offsets_of(np.array(columns).T) == (2.0, 5.0, None, 0.0, 2.0, -4e99)
    assert offsets_of(np.array([[1e200], [-1e308]])) == (0.0,)  # nothing may overflow
    assert offsets_of(np.empty((3, 0))) == ()


def test_values_far_from_the_others_are_found():
    years = np.arange(1990.0, 2010.0)
    columns = [years, np.where(years == 2001, 9999, years), np.where(years == 2001, np.nan, years), years * 0]
    columns += [np.where(years == 2001, -1e308, years * 1e300), np.where(years == 2001, 1.0, 0.0)]
    numbers = np.array(columns).T
    far = FarValues(numbers)
    far.add(numbers, "row {}".format)
    assert far.found == {1: (9999.0, "row 11"), 4: (-1e308, "row 11")}
    later = FarValues(numbers[:11])
    for value in (2e4, -1e6, 3e4):
        later.add(np.where(numbers == 9999, value, numbers), "{}".format)
    assert later.found == {1: (-1e6, "11"), 4: (-1e308, "11")}
    nothing = FarValues(numbers[:0])
    nothing.add(numbers, str)
    assert nothing.found == {}


@pytest.mark.parametrize("kind", ["svmlight", "csv"])
def test_rows_of_a_pipe_come_while_its_writer_waits(tmp_path, kind):
    os.mkfifo(tmp_path / "rows")
    lines = [f"{k % 2},{k},3\n" if kind == "csv" else f"{k % 2} 1:{k} 2:3\n" for k in range(3000)]
    opened = threading.Event()

    def write(parts):
        with open(tmp_path / "rows", "w") as pipe:
            for part in parts:
                assert opened.wait(60)
                opened.clear()
                pipe.write(part)
                pipe.flush()

    header = "y,a,b\n" if kind == "csv" else ""
    parts = [header + "".join(lines[:1001]), "".join(lines[1001:1010]), "".join(lines[1010:])]
    writer = threading.Thread(target=write, args=(parts,))
    writer.start()
    opened.set()
    options = ColumnOptions(label="y" if kind == "csv" else None)
    with contextlib.closing(Source([str(tmp_path / "rows")], options, format=kind, centred=True)) as source:
        chunks, n_rows = source.chunks(), 0
        for n_so_far in (1001, 1010, 3000):  # the next part is written once these have come
            while n_rows < n_so_far:
                n_rows += next(chunks).X.shape[0]
            assert n_rows == n_so_far
            opened.set()
        assert list(chunks) == []
    writer.join()


def test_columns_by_options(tmp_path):
    path = write_csv(tmp_path / "t.csv", ["zip", "a", "b", "y"], [[8001, 1, 2, 0], ["AB1", 3, 4, 1]])
    options = ColumnOptions(label="y", drop=("b",), categorical=("zip",), bits=BITS)
    source = Source(path, options)
    X, _ = read(source)
    assert (source.schema.numbers, source.schema.categories, source.schema.dropped) == (("a",), ("zip",), ("b",))
    assert X.toarray().argmax(axis=1).tolist()[0] in (0, 1 + fnv("zip", "8001", BITS))
    assert source.schema.feature_name(0) == "a"
    for options in (ColumnOptions(label="y", drop=("c",)), ColumnOptions(label="y", categorical=("c",))):
        with pytest.raises(DataError, match="expected a column 'c'"):
            Source(path, options)


# ------------------------------------------------------------------------------------------ files, other formats


def test_several_files_are_one_stream_with_columns_by_name(tmp_path):
    a = write_csv(tmp_path / "a.csv", ["x", "c", "y"], [[1, "r", 0], [2, "s", 1]])
    b = write_csv(tmp_path / "b.tsv", ["y", "more", "c", "x"], [[1, 9, "t", 3]], delimiter="\t")
    table = pa.table(
        {"c": pa.array(["r", None]).dictionary_encode(), "y": [True, False], "x": pa.array([4, 5], "int8")}
    )
    parquet.write_table(table, tmp_path / "c.parquet")
    source = Source([a, b, str(tmp_path / "c.parquet")], ColumnOptions(label="y", missing="mean", bits=BITS))
    X, labels = read(source)
    rows = [[1, "r"], [2, "s"], [3, "t"], [4, "r"], [5, None]]
    np.testing.assert_array_equal(X.toarray(), slow_rows(["x", "c"], rows, source.schema))
    assert labels.tolist() == [0, 1, 1, 1, 0]
    assert source.remarks() == [f"note: columns of {b} that are not features are ignored: 'more'"]
    assert source.position >= source.size  # Parquet files are read in part twice
    c = write_csv(tmp_path / "c.csv", ["x", "y"], [[1, 0]])
    with pytest.raises(DataError, match=r"c.csv: expected a column 'c'; the columns are 'x', 'y'"):
        read(Source([a, c], ColumnOptions(label="y")))
    (tmp_path / "d.svm").write_text("1 1:1\n")
    options = ColumnOptions(label="y")
    with pytest.raises(DataError, match=r"d.svm: expected"):
        read(Source([a, str(tmp_path / "d.svm")], options))


def test_categories_of_pandas_are_the_same_in_a_frame_and_in_its_arrow_file(tmp_path):
    frame = pd.DataFrame({"shop": [40, 7, 40, 7], "open": [True, False, False, True], "y": [0, 1, 1, 0]})
    frame[["shop", "open"]] = frame[["shop", "open"]].astype("category")
    frame.to_feather(tmp_path / "t.feather")
    options = ColumnOptions(label="y", bits=BITS)
    file, memory = Source(str(tmp_path / "t.feather"), options), Source([frame], options)
    X, labels = read(file)
    assert file.schema.categories == ("shop", "open")
    np.testing.assert_array_equal(X.toarray(), read(memory)[0].toarray())
    np.testing.assert_array_equal(X.toarray(), matrix_of(frame, file.schema).toarray())
    assert labels.tolist() == [0, 1, 1, 0]


@pytest.fixture
def typed():
    """Columns of many types, longer than a batch, with nulls."""
    rng = np.random.default_rng(1)
    n = 10_000
    words = rng.choice(["red", "grün", "b,lue", ""], n)
    return pa.table(
        {
            "f8": pa.array(rng.normal(size=n), mask=rng.random(n) < 0.1),
            "f4": rng.normal(size=n).astype(np.float32),
            "i8": pa.array(rng.integers(-5, 5, n), mask=rng.random(n) < 0.1),
            "flag": pa.array(rng.random(n) < 0.5),
            "word": pa.array(words, mask=rng.random(n) < 0.1),
            "dict": pa.array(words).dictionary_encode(),
            "y": pa.array(np.where(rng.random(n) < 0.3, "yes", "no")),
        }
    )


def slow_columns(table):
    """The rows of a table with numbers as they are and empty text as missing."""
    rows = zip(*(column.to_pylist() for column in table.columns))
    return [[None if value == "" else value for value in row] for row in rows]


@pytest.mark.parametrize("missing", ["mean", "indicator"])
@pytest.mark.parametrize("kind", ["parquet", "feather", "file", "stream"])
def test_parquet_and_arrow_are_read_in_batches(tmp_path, typed, kind, missing):
    path = tmp_path / f"t.{'parquet' if kind == 'parquet' else 'arrow'}"
    if kind == "parquet":
        parquet.write_table(typed, path, row_group_size=3000)
    elif kind == "feather":
        feather.write_feather(typed, path, compression="zstd")
    else:
        with (pa.ipc.new_file if kind == "file" else pa.ipc.new_stream)(path, typed.schema) as sink:
            sink.write_table(typed, max_chunksize=7000)
    source = Source(str(path), ColumnOptions(label="y", missing=missing, bits=BITS))
    X, labels = read(source)
    np.testing.assert_allclose(
        X.toarray(), slow_rows(typed.column_names, slow_columns(typed), source.schema), rtol=1e-9, atol=1e-12
    )
    assert labels.tolist() == typed["y"].to_pylist()
    assert max(chunk.X.shape[0] for chunk in Source(str(path), source.options).chunks()) <= 4096


def test_bad_rows_and_types_of_parquet(tmp_path):
    path = str(tmp_path / "t.parquet")
    parquet.write_table(pa.table({"x": [1.0, None, float("inf")], "y": [0, 1, 0]}), path)
    with pytest.raises(DataError) as raised:
        read(Source(path, ColumnOptions(label="y")))
    assert raised.value.message == f"{path}, row 2: column 'x': expected a value, got nothing"
    source = Source(path, ColumnOptions(label="y", missing="indicator"), skip_bad_rows=True)
    assert read(source)[0].toarray().tolist() == [[1, 0], [0, 1]]
    assert source.first_skipped == f"{path}, row 3: column 'x': expected a finite number, got inf"
    columns = {"when": pa.array([0, 1], "timestamp[s]"), "x": [1, 2], "a, b": [[1], [2]], "y": [0, 1]}
    parquet.write_table(pa.table(columns), path)
    with pytest.raises(DataError, match=r"column 'when': expected numbers or text, got the type timestamp") as raised:
        read(Source(path, ColumnOptions(label="y")))
    assert raised.value.hint == "--drop 'when,\"a, b\"'"
    assert read(Source(path, ColumnOptions(label="y", drop=("when", "a, b"))))[0].toarray().tolist() == [[1], [2]]
    (tmp_path / "bad.parquet").write_bytes(b"PAR1" + bytes(100))
    with pytest.raises(DataError, match=r"bad.parquet: expected a Parquet file, it cannot be read"):
        Source(str(tmp_path / "bad.parquet"), ColumnOptions(label="y"))


COMPRESS = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": zstd}


def test_all_compressions_of_text(tmp_path):
    assert set(COMPRESS) == set(SUFFIXES)
    text = b"x,y\n" + b"".join(b"%d,%d\n" % (k, k % 2) for k in range(50_000))
    expected = None
    for suffix, compress in COMPRESS.items():
        path = tmp_path / f"t.csv{suffix}"
        half = text.index(b"\n", len(text) // 2) + 1
        path.write_bytes(compress(text[:half]) + compress(text[half:]))  # two members
        X, _ = read(Source(str(path), ColumnOptions(label="y")))
        expected = X if expected is None else expected
        np.testing.assert_array_equal(X.toarray(), expected.toarray())
        if suffix:
            path.write_bytes(path.read_bytes()[:-20])
            with pytest.raises(DataError, match="truncated or damaged"):
                read(Source(str(path), ColumnOptions(label="y")))


@pytest.mark.parametrize(("suffix", "command"), [(".gz", "gunzip"), (".xz", "xz -d"), (".zst", "zstd -d")])
@pytest.mark.parametrize("format", ["parquet", "arrow"])
def test_compressed_parquet_and_arrow_are_refused(tmp_path, suffix, command, format):
    path = tmp_path / f"t.{format}{suffix}"
    path.write_bytes(COMPRESS[suffix](b"PAR1 or ARROW1, and more"))
    with pytest.raises(
        DataError, match=rf"expected {format.capitalize()}, got a compressed file \({suffix[1:]}\)"
    ) as raised:
        Source(str(path), ColumnOptions(label="y"))
    assert raised.value.hint == f"{command} < {path} > NEW.{format}"


def test_zstd_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    path = tmp_path / "t.csv.zst"
    path.write_bytes(b"\x28\xb5\x2f\xfd1234567890")
    with pytest.raises(DataError, match="zstd needs pyarrow") as raised:
        Source(str(path), ColumnOptions(label="y"))
    assert raised.value.hint == "pip install 'opauc-bench[parquet]'"


@pytest.mark.parametrize(
    ("name", "head", "expected"),
    [
        ("a.svm", b"1 1:1", "svmlight"),
        ("a.CSV.gz", b"", "csv"),
        ("a.tsv.zst", b"", "csv"),
        ("a.txt", b"PAR1", "parquet"),
        ("a", b"ARROW1\0\0", "arrow"),
        ("a.feather", b"", "arrow"),
        ("-", b"", "svmlight"),
    ],
)
def test_formats_by_name_and_content(name, head, expected):
    assert format_of(name, head) == expected


@given(st.binary(max_size=300))
@example(b'a,y\n"')
@example(b"y,a\r\n1,2\r")
@example(b'"",y\n1,2')
def test_no_text_is_read_wrongly_or_raises_anything_else(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("any") / "t.csv"
    path.write_bytes(content)
    with contextlib.suppress(DataError):
        for chunk in Source(str(path), ColumnOptions(label="y", bits=BITS)).chunks():
            assert chunk.X.shape[0] == len(chunk.labels) > 0
            assert np.isfinite(chunk.X.data).all()


@given(st.text("a1, \t;.ey-\n", max_size=60))
def test_rows_of_odd_texts_have_the_cells_of_the_csv_module(body):
    content = "a,y\nfirst,row\n" + body
    table = TextTable(iter([content.encode()]), "t")
    schema = Schema(label=None, numbers=(), categories=("a", "y"), missing="mean", bits=20)
    good = []
    for piece in table.rows(schema, numeric_labels=False):
        bad = sorted(piece.problems)
        good += [row for k, row in enumerate(piece.categories.tolist()) if k not in bad]
    cells = [[cell.strip(" \t") for cell in row] for row in csv.reader(io.StringIO(content)) if len(row) == 2]
    assert good == [[fnv(name, cell, 20) if cell else -1 for name, cell in zip("ay", row)] for row in cells[1:]]


# ------------------------------------------------------------------------------------------ the schema


def test_the_schema_comes_back_from_json_and_damage_is_refused():
    schema = Schema(
        "y", ("a", "b"), ("c",), ("d",), "mean", 10, (0.5, 1.0), (3, 4), (None, 2e3), (1.0, 5.0), ((5, "c=x"),)
    )
    plain = asdict(schema)
    assert Schema.from_json(plain) == schema
    for changes in (
        {"label": 1},
        {"numbers": "ab"},
        {"numbers": ["a"]},
        {"missing": "median"},
        {"bits": 0},
        {"bits": 31},
        {"bits": True},
        {"means": [0.5, float("nan")]},
        {"counts": [3, -1]},
        {"counts": [3, 10**30]},
        {"offsets": [1.0]},
        {"offsets": [0.0, float("inf")]},
        {"scales": [1.0]},
        {"scales": [1.0, 0.0]},
        {"names": [[1024, "c=x"]]},
        {"names": [[1]]},
        {"names": [["1", "c=x"]]},
        {"more": 1},
    ):
        with pytest.raises(ValueError, match="schema"):
            Schema.from_json(plain | changes)


@pytest.mark.parametrize(("n_different", "n", "ids"), [(499, 600, []), (500, 999, ["city"]), (500, 1000, [])])
def test_columns_of_ids_have_many_values_most_of_which_come_once(n_different, n, ids):
    encoder = RowEncoder(Schema("y", (), ("city",)))
    for rows in np.array_split(np.arange(n) % n_different, 3):
        encoder.learn_names(rows[:, None], lambda row, column: "x")
    assert encoder.ids() == ids


def test_a_frame_without_rows_has_all_features_of_a_model():
    schema = Schema("y", ("age",), ("city",), bits=5)
    X = matrix_of(pd.DataFrame({"age": [], "city": []}), schema)
    assert X.shape == (0, 33)


@pytest.mark.parametrize("separator", [";", "\t", "|", ","])
def test_a_quote_inside_a_name_does_not_hide_separators(separator):
    lines = [['size in "', "weight", "y"], ["1", "2", "0"]]
    table = TextTable(iter(["\n".join(map(separator.join, lines)).encode()]), "t.csv")
    assert table.header == lines[0]


def test_separators_before_a_quoted_name_are_counted():
    assert _outside_quotes(b'a\t\t"b;c""d";; "e"\n') == b"a\t\t;;\n"


@pytest.mark.parametrize("line", ["\t", " \t ", "\t\r"])
def test_lines_of_tabs_are_blank_where_tabs_do_not_separate(tmp_path, line):
    path = tmp_path / "t.csv"
    path.write_bytes(f"{line}\na,y\n1,0\n{line}\n2,1\n{line}".encode())
    X, y = read(Source(str(path), ColumnOptions(label="y")))
    assert (X.toarray().tolist(), y.tolist()) == ([[1.0], [2.0]], [0.0, 1.0])


def test_text_that_begins_a_row_is_in_utf8_as_well(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("city,y\nBern,0\nÜri,1\n".encode("latin-1"))
    with pytest.raises(DataError, match=":3: column 'city': expected text in UTF-8"):
        read(Source(str(path), ColumnOptions(label="y")))


def test_lines_are_counted_from_the_top_of_a_header_of_several(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('"size\ncm\nor so",y\n1,0\n')
    assert next(Source(str(path), ColumnOptions(label="y")).chunks()).place(0) == f"{path}:4"


def test_rows_of_later_chunks_of_a_frame_have_their_number():
    frame = pd.DataFrame({"a": [1.0] * 5000, "y": [0, 1] * 2500})
    frame.loc[4500, "a"] = np.inf
    with pytest.raises(DataError, match="the DataFrame, row 4501: column 'a': expected a finite number"):
        read(Source([frame], ColumnOptions(label="y")))


def test_unknown_categories_of_bad_rows_are_not_counted(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b,y\n1,x,0\n2,x,1\n")
    source = Source(str(path), ColumnOptions(label="y", bits=6))
    read(source)
    schema = source.schema_at(source.statistics_so_far())
    path.write_text("a,b,y\nbad,new,0\n2,x,1\n")
    scored = Source(str(path), schema=schema, learnt=False, skip_bad_rows=True)
    X, _ = read(scored)
    assert X[0].nnz == 0
    assert len(scored.remarks()) == 1


def test_categories_belong_to_the_longest_name_of_a_column():
    names = tuple((k, f"a=b=v{k}") for k in range(5000))
    encoder = RowEncoder(Schema("y", (), ("a", "a=b"), bits=14, names=names))
    encoder.count_unknown(np.array([[12_000, 12_000]]), lambda row, column: "new")
    assert [line.split(":")[0] for line in encoder.unknown_categories()] == ["column 'a'"]
