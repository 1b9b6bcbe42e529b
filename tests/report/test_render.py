"""Tests of the five forms of a table, and of the files that a report writes."""

import io
import os
import re
from types import SimpleNamespace

import pandas as pd
import pytest
from html_tree import parse
from hypothesis import given
from hypothesis import strategies as st
from latex import check_latex
from wcwidth import width as display_width

from opauc_bench.errors import ResultsError
from opauc_bench.report.compare import compare
from opauc_bench.report.latex import paper_table, to_latex
from opauc_bench.report.metrics import AUC
from opauc_bench.report.published import load_published
from opauc_bench.report.render import CSV_FIELDS, to_csv, to_html, to_markdown
from opauc_bench.report.table import Cell, TableColumn, build_table
from opauc_bench.report.terminal import MIN_WIDTH, to_terminal
from opauc_bench.report.text import auc_text, superscript
from opauc_bench.report.write import table_files, write_files

FOLDS = ((0, 0), (0, 1), (1, 0), (1, 1))
COLUMNS = [TableColumn("opauc", "OPAUC"), TableColumn("oam_seq", "OAM_seq"), TableColumn("uni_exp", "Uni-Exp & co")]


def four(*aucs):
    return Cell(aucs, FOLDS, 4)


CELLS = {
    ("german", "opauc"): four(0.80, 0.82, 0.84, 0.86),
    ("german", "oam_seq"): four(0.70, 0.73, 0.73, 0.76),
    ("german", "uni_exp"): four(0.81, 0.82, 0.84, 0.85),
    ("w8a_x", "opauc"): four(0.90, 0.91, 0.92, 0.93),
    ("w8a_x", "oam_seq"): Cell((0.9, 0.9), FOLDS[:2], 4),
    ("w8a_x", "uni_exp"): four(1.0, 1.0, 1.0, 1.0),
    ("a|b", "opauc"): four(0.90, 0.91, 0.92, 0.93),
    ("a|b", "oam_seq"): Cell((), (), 4, {"timeout": 4}, ("limit of 5% & <60> s in ~/x_y",)),
    ("a|b", "uni_exp"): four(0.90, 0.91, 0.92, 0.93),
}


@pytest.fixture
def table():
    datasets = ["german", "w8a_x", "a|b"]
    return build_table("50% of #1", datasets, COLUMNS, CELLS, "opauc", "paired", 0.5, {"opauc": ["Note {1}."]})


TERMINAL = """\
50% of #1

datasets      OPAUC           OAM_seq           Uni-Exp & co
----------------------------------------------------------------
german         .8300 ± .0258   .7300 ± .0245 •   .8300 ± .0183
w8a_x          .9150 ± .0129  … 2/4             1.0000 ± .0000 ◦
a|b            .9150 ± .0129  N/A¹               .9150 ± .0129
----------------------------------------------------------------
win/tie/loss                  1/0/0             0/2/1
counted                       1 of 3            3 of 3

¹ time limit reached in 4 of 4 folds, 0 finished: limit of 5% & <60> s in ~/x_y
OPAUC: Note {1}.
Mean ± std (n - 1) of the test AUC over 4 outer folds; … 2/4: 2 are done.
• / ◦: OPAUC significantly better / worse (paired t-test, level 0.05).
How to read this table: docs/report.md
"""


def test_terminal(table):
    assert to_terminal(table) == TERMINAL


def test_markdown(table):
    lines = to_markdown(table).split("\n")
    assert lines[0] == "**50% of #1**"
    assert lines[2:9] == [
        "| datasets     | OPAUC         | OAM\\_seq        | Uni-Exp & co     |",
        "|:-------------|:--------------|:----------------|:-----------------|",
        "| german       | .8300 ± .0258 | .7300 ± .0245 • | .8300 ± .0183    |",
        "| w8a\\_x       | .9150 ± .0129 | … 2/4           | 1.0000 ± .0000 ◦ |",
        "| a\\|b         | .9150 ± .0129 | N/A¹            | .9150 ± .0129    |",
        "| win/tie/loss |               | 1/0/0           | 0/2/1            |",
        "| counted      |               | 1 of 3          | 3 of 3           |",
    ]
    assert lines[10].startswith("- ¹ time limit reached in 4 of 4 folds, 0 finished: limit of 5% & \\<60\\> s")
    assert lines[12] == "- OPAUC: Note {1}."


LATEX = r"""% needs \usepackage{booktabs}
\begin{table}
\centering
\caption{50\% of \#1}
\begin{tabular}{llll}
\toprule
datasets & OPAUC & OAM\_seq & Uni-Exp \& co \\
\midrule
german & .8300 $\pm$ .0258 & .7300 $\pm$ .0245 $\bullet$ & .8300 $\pm$ .0183 \\
w8a\_x & .9150 $\pm$ .0129 & \ldots{} 2/4 & 1.0000 $\pm$ .0000 $\circ$ \\
a\textbar{}b & .9150 $\pm$ .0129 & N/A$^{1}$ & .9150 $\pm$ .0129 \\
\midrule
win/tie/loss &  & 1/0/0 & 0/2/1 \\
\bottomrule
\end{tabular}
\par\smallskip
\begin{minipage}{\linewidth}\footnotesize
$^{1}$ time limit reached in 4 of 4 folds, 0 finished: limit of 5\% \& \textless{}60\textgreater{} s in """


def test_latex(table):
    check_latex(to_latex(table))
    text = to_latex(table)
    assert text.startswith(LATEX + r"\textasciitilde{}/x\_y \par")
    assert r"OPAUC: Note \{1\}. \par" in text
    assert text.isascii()


def test_csv_survives_a_round_trip(table):
    text = to_csv(table)
    exact = dict.fromkeys(("mean", "std"), lambda cell: float(cell) if cell else None)  # older pandas rounds
    frame = pd.read_csv(io.StringIO(text), converters=exact)
    assert tuple(frame.columns) == CSV_FIELDS
    assert len(frame) == 9
    rows = frame.set_index(["dataset", "column"])
    for key, entry in table.entries.items():
        read = rows.loc[key]
        assert read["status"] == entry.status
        assert (read["n"], read["expected"]) == (entry.n, entry.expected)
        for field in ("mean", "std", "verdict"):
            value = getattr(entry, field)
            assert pd.isna(read[field]) if value is None else read[field] == value
        if entry.p_value is not None:
            assert read["p_value"] == pytest.approx(entry.p_value, rel=1e-5)
    assert "\r" not in text
    assert text.startswith("dataset,column,mean,std,n,expected,verdict,p_value,status\ngerman,opauc,0.83,")


def outline_of(text):
    """The texts of cells and what else says what they are; tags nest."""
    nodes = list(parse(text).find())
    return SimpleNamespace(
        cells=[node.text for node in nodes if node.tag in ("td", "th")],
        labels=[node.attributes["aria-label"] for node in nodes if "aria-label" in node.attributes],
        scopes=[node.attributes["scope"] for node in nodes if "scope" in node.attributes],
    )


def test_html(table):
    text = to_html(table)
    outline = outline_of(text)
    assert outline.cells[:8] == [
        "datasets",
        "OPAUC",
        "OAM_seq",
        "Uni-Exp & co",
        "german",
        ".8300 ± .0258",
        ".7300 ± .0245 •",
        ".8300 ± .0183",
    ]
    assert outline.cells[8:12] == ["w8a_x", ".9150 ± .0129", "… 2/4", "1.0000 ± .0000 ◦"]
    assert outline.cells[12:16] == ["a|b", ".9150 ± .0129", "N/A1", ".9150 ± .0129"]
    assert outline.labels == ["50% of #1", "OPAUC significantly better", "OPAUC significantly worse"]
    assert outline.scopes == ["col"] * 4 + ["row"] * 5
    assert "limit of 5% &amp; &lt;60&gt; s" in text
    assert "http" not in text, "the fragment loads nothing"


def test_html_is_escaped_everywhere():
    bad = "<b>&\"'"
    columns = [TableColumn("x", bad), TableColumn("y", bad)]
    cells = {(bad, "x"): four(0.8, 0.9, 0.8, 0.9), (bad, "y"): four(0.7, 0.8, 0.7, 0.8)}
    text = to_html(build_table(bad, [bad], columns, cells, "x", "paired", 0.5, {"x": [bad]}))
    assert "<b>" not in text
    assert "•" in text
    assert outline_of(text).cells[:4] == ["datasets", bad, bad, bad]


names = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z", "M"]), min_size=1, max_size=25)


@given(st.lists(names, min_size=1, max_size=4, unique=True), names, names)
def test_no_name_breaks_a_format(datasets, title, message):
    cells = {
        (dataset, column.key): Cell((), (), 4, {"error": 4}, (message,))
        if column.key == "oam_seq"
        else four(0.8, 0.9, 0.8, 0.9)
        for dataset in datasets
        for column in COLUMNS
    }
    table = build_table(title, datasets, COLUMNS, cells, "opauc", "paired", 0.5)
    check_latex(to_latex(table))
    outline = outline_of(to_html(table))
    assert outline.cells[4:-8:4] == datasets
    lines = [line for line in to_markdown(table).split("\n") if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) for line in lines} == {5}
    assert (
        list(dict.fromkeys(pd.read_csv(io.StringIO(to_csv(table)), keep_default_na=False, dtype=str)["dataset"]))
        == datasets
    )


@given(st.integers(0, 130), st.integers(0, 12), st.lists(names, min_size=1, max_size=4, unique=True))
def test_no_line_is_wider_than_the_terminal(width, n_others, datasets):
    columns = [
        TableColumn("c0", "OPAUC"),
        *(TableColumn(f"c{i}", f"learner number {i}" * (i % 3 + 1)) for i in range(1, n_others + 1)),
    ]
    cells = {(dataset, column.key): four(0.8, 0.9, 1.0, 0.9) for dataset in datasets for column in columns}
    table = build_table("A title " * 9, datasets, columns, cells, "c0", "corrected", 0.2)
    text = to_terminal(table, width)
    assert max(map(len, text.split("\n"))) <= max(width, MIN_WIDTH)
    assert text.count(".9000 ± .0816") >= len(datasets) * len(columns), "no cell is lost"
    assert not re.search(r" $", text, re.MULTILINE)


def test_a_chinese_character_takes_two_columns_of_the_terminal():
    columns = [TableColumn("opauc", "一次优化" * 5), TableColumn("uni_squ", "最小二乘")]
    cells = {("小麦", "opauc"): four(0.80, 0.82, 0.84, 0.86), ("小麦", "uni_squ"): four(0.81, 0.82, 0.84, 0.85)}
    text = to_terminal(build_table("比较" * 30, ["小麦"], columns, cells, "opauc", "paired", 0.05, {}))
    lines = text.splitlines()
    assert max(map(display_width, lines)) <= 80
    (heading,) = (line for line in lines if line.endswith("最小二乘"))
    (row,) = (line for line in lines if line.startswith("小麦"))
    assert display_width(heading[: heading.index("最小二乘")]) == display_width(row[: row.rindex(".8300")])


def test_table_2_fits_eighty_columns_in_two_blocks_that_repeat_the_reference():
    published = load_published("aij2016_table2")
    cells = {
        (dataset, column.key): four(*(published.cells[dataset, column.key].mean + 0.01 * i for i in range(4)))
        for dataset in published.datasets
        for column in published.columns
    }
    table = build_table(
        published.title, list(published.datasets), list(published.columns), cells, "opauc", "paired", 0.5
    )
    lines = to_terminal(table, 80).split("\n")
    assert max(map(len, lines)) <= 80
    headings = [re.split(r"\s{2,}", line) for line in lines if line.startswith("datasets  ")]
    assert headings == [
        ["datasets", "OPAUC", "OAM_seq", "OAM_gra", "online Uni-Exp"],
        ["datasets", "OPAUC", "online Uni-Log", "online Uni-Squ"],
    ]
    assert sum(line.startswith("covtype ") for line in lines) == 2
    wide = to_terminal(table, 130).split("\n")
    assert sum(line.startswith("covtype ") for line in wide) == 1


def test_long_names_of_classes_are_not_broken_where_there_is_room():
    columns = [COLUMNS[0], TableColumn("logreg", "LogisticRegression")]
    cells = {("german", column.key): four(0.8, 0.9, 1.0, 0.9) for column in columns}
    table = build_table("t", ["german"], columns, cells, "opauc", "paired", 0.5)
    assert "  LogisticRegression\n" in to_terminal(table, 80)
    assert max(map(len, to_terminal(table, MIN_WIDTH).split("\n"))) <= MIN_WIDTH


def test_a_table_of_the_reference_alone_has_no_counts():
    table = build_table("t", ["german"], COLUMNS[:1], CELLS, "opauc", "paired", 0.5)
    for render in (to_terminal, to_markdown, to_latex, to_html):
        assert "win/tie/loss" not in render(table)
        assert ".8300" in render(table)
    check_latex(to_latex(table))
    outline_of(to_html(table))


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.8309, ".8309"), (1.0, "1.0000"), (0.99996, "1.0000"), (0.0, ".0000"), (0.03504, ".0350")],
)
def test_an_auc_is_printed_without_its_leading_zero(value, text):
    assert auc_text(value) == text


@pytest.mark.parametrize(("value", "text"), [(0.0012, "+.0012"), (-0.1, "-.1000"), (-0.00001, "+.0000")])
def test_a_difference_is_printed_with_its_sign(value, text):
    assert AUC.signed(value) == text


def test_superscripts():
    assert superscript(120) == "¹²⁰"


# From the side of the reference: better, equivalent, worse, undecided, not complete.
FIVE = {
    "ref": four(0.90, 0.91, 0.92, 0.93),
    "low": four(0.50, 0.51, 0.52, 0.53),
    "same": four(0.90, 0.91, 0.92, 0.93),
    "high": four(0.96, 0.97, 0.98, 0.99),
    "noise": four(0.93, 0.92, 0.91, 0.90),
    "part": Cell((0.9,), FOLDS[:1], 4),
}
FIVE_CELLS = [
    *(".9150 ± .0129", ".5150 ± .0129 • 100/0/0", ".9150 ± .0129 ≈ 0/100/0", ".9750 ± .0129 ◦ 0/0/100"),
    *(".9150 ± .0129 ? 44/13/44", "… 1/4"),
]
FIVE_COUNTS = [
    ["better", "", "1", "0", "0", "0", "0"],
    ["equivalent", "", "0", "1", "0", "0", "0"],
    ["worse", "", "0", "0", "1", "0", "0"],
    ["undecided", "", "0", "0", "0", "1", "0"],
    ["counted", "", "1 of 1", "1 of 1", "1 of 1", "1 of 1", "0 of 1"],
]


@pytest.fixture
def bayesian():
    columns = [TableColumn(key, key.upper()) for key in FIVE]
    return build_table("t", ["a"], columns, {("a", key): cell for key, cell in FIVE.items()}, "ref", "bayes", 0.5)


def test_bayesian_table_on_the_terminal(bayesian):
    text = to_terminal(bayesian)
    assert max(map(len, text.split("\n"))) <= 80
    lines = [re.split(r"\s{2,}", line) for line in to_terminal(bayesian, 200).split("\n")]
    assert lines[4] == ["a", *FIVE_CELLS]
    assert lines[6:11] == [[row[0], *row[2:]] for row in FIVE_COUNTS]
    assert "REF better / equivalent (±.005 AUC) / worse / undecided" in text


def test_bayesian_table_in_markdown(bayesian):
    text = to_markdown(bayesian)
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.split("\n") if line[:1] == "|"]
    assert rows[2:] == [["a", *FIVE_CELLS], *FIVE_COUNTS]
    assert "with a posterior probability above 0.95; ?: undecided" in text
    assert "within ±.005 AUC" in text
    assert "with fewer than 5 in common: LOW (1), SAME (1), HIGH (1), NOISE (1), PART (0)." in text


def test_bayesian_table_in_latex(bayesian):
    text = to_latex(bayesian)
    check_latex(text)
    assert text.isascii()
    marks = {"±": r"$\pm$", "•": r"$\bullet$", "◦": r"$\circ$", "≈": r"$\approx$"}
    cells = [re.sub("[±•◦≈]", lambda found: marks[found[0]], cell) for cell in FIVE_CELLS[:5]]
    cells = [re.sub(r"(\d+/\d+/\d+)", r"{\\scriptsize \1}", cell) for cell in cells]
    assert " & ".join(["a", *cells, r"\ldots{} 1/4"]) + r" \\" in text.split("\n")
    assert " & ".join(FIVE_COUNTS[3]) + r" \\" in text.split("\n")
    assert "counted" not in text
    without = paper_table(bayesian, marks=False)
    assert not any(mark in without for mark in ("scriptsize", "approx", "better", "Test:"))


def test_bayesian_table_in_html(bayesian):
    outline = outline_of(to_html(bayesian))
    assert outline.cells[7:14] == ["a", *FIVE_CELLS]
    assert [outline.cells[14 + 7 * i : 21 + 7 * i] for i in range(5)] == FIVE_COUNTS
    assert outline.labels[1:] == ["REF better", "REF practically equivalent", "REF worse", "undecided"]


def test_bayesian_table_in_csv(bayesian):
    frame = pd.read_csv(io.StringIO(to_csv(bayesian))).set_index("column")
    assert list(frame.columns[5:]) == ["verdict", "p_better", "p_equivalent", "p_worse", "status"]
    for (_, key), entry in bayesian.entries.items():
        found = frame.loc[key, ["p_better", "p_equivalent", "p_worse"]].astype(float)
        assert pd.isna(found).all() if entry.posterior is None else sum(found) == pytest.approx(1, abs=1e-5)
    assert list(frame["verdict"].dropna()) == ["win", "equivalent", "loss", "undecided"]


@pytest.fixture
def comparison(table):
    return compare(table, load_published("aij2016_table2"))


def test_a_report_is_the_same_bytes_each_time(table, comparison, tmp_path):
    one, other = tmp_path / "deep" / "a", tmp_path / "b"
    for folder in (one, other):
        write_files(folder, table_files(table, comparison))
    names = ["table.md", "table.tex", "table.csv", "table.html", "comparison.md", "comparison.csv"]
    assert sorted(os.listdir(one)) == sorted(os.listdir(other)) == sorted(names), "no temporary file is left"
    for name in names:
        content = (one / name).read_bytes()
        assert content == (other / name).read_bytes()
        assert b"\r" not in content
        assert content.endswith(b"\n")
        assert not content.endswith(b"\n\n")


def test_the_order_in_which_cells_were_collected_does_not_matter(table):
    backwards = dict(reversed(CELLS.items()))
    other = build_table(
        "50% of #1", list(table.datasets), COLUMNS, backwards, "opauc", "paired", 0.5, {"opauc": ["Note {1}."]}
    )
    assert table_files(table) == table_files(other)


def test_comparison_of_another_table_is_removed(table, comparison, tmp_path):
    write_files(tmp_path, table_files(table, comparison))
    (tmp_path / "notes.txt").write_text("mine")
    write_files(tmp_path, table_files(table))
    assert sorted(os.listdir(tmp_path)) == ["notes.txt", "table.csv", "table.html", "table.md", "table.tex"]


def test_failed_write_keeps_the_old_file_and_says_what_to_do(table, tmp_path, monkeypatch):
    write_files(tmp_path, table_files(table))
    before = (tmp_path / "table.md").read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(ResultsError, match="No space left on device") as error:
        write_files(tmp_path, table_files(table))
    assert "another folder" in error.value.hint
    assert (tmp_path / "table.md").read_bytes() == before
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".tmp")]


def test_a_folder_that_is_a_file_is_a_results_error(table, tmp_path):
    (tmp_path / "results").write_text("")
    with pytest.raises(ResultsError, match=r"cannot be (written|removed)"):
        write_files(tmp_path / "results", table_files(table))
