"""Tests of the LaTeX of a paper: a part of a table, its style, mathematics in titles."""

import re
import shutil
import subprocess
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from latex import check_latex, latex_cells

from opauc_bench.errors import ResultsError
from opauc_bench.report.latex import paper_table, select, to_latex
from opauc_bench.report.render import to_csv, to_html, to_markdown
from opauc_bench.report.table import Cell, TableColumn, build_table
from opauc_bench.report.terminal import to_terminal
from opauc_bench.report.titles import latex_title, plain_title

FOLDS = tuple((0, fold) for fold in range(4))
COLUMNS = [
    TableColumn("oam", "OAM_seq"),
    TableColumn("opauc", r"OPAUC$^{\mathrm{pca}}$"),
    TableColumn("uni", "Uni-Exp"),
]
LOST = Cell((), (), 4, {"timeout": 4}, ("too slow",))
DIVERGED = Cell((), (), 4, {"diverged": 4})


def four(mean, spread=0.01):
    return Cell(tuple(mean + step * spread for step in (-3, -1, 1, 3)), FOLDS, 4)


CELLS = {
    ("german", "oam"): four(0.70),
    ("german", "opauc"): four(0.80, 0.02),
    ("german", "uni"): four(0.8004, 0.03),
    ("splice", "oam"): LOST,
    ("splice", "opauc"): LOST,
    ("splice", "uni"): LOST,
    ("w8a", "oam"): DIVERGED,
    ("w8a", "opauc"): four(0.90),
    ("w8a", "uni"): four(0.60, 0.02),
}


def table_of(cells, columns=COLUMNS, reference="opauc", **kwargs):
    datasets = list(dict.fromkeys(dataset for dataset, _ in cells))
    return build_table(r"On $\ell_1$", datasets, list(columns), cells, reference, "paired", 0.25, **kwargs)


@pytest.fixture
def table():
    return table_of(CELLS, origins={"uni": ["Another program."]})


# ---------------------------------------------------------------------- rows and columns


def test_default_has_the_rows_with_a_value_and_counts_last(table):
    text = paper_table(table, columns=("oam", "opauc", "uni"))
    check_latex(text)
    assert latex_cells(text) == [
        ["datasets", r"OAM\_seq", r"OPAUC$^{\mathrm{pca}}$", "Uni-Exp"],
        ["german", r".7000 $\pm$ .0258 $\bullet$", r".8000 $\pm$ .0516", r".8004 $\pm$ .0775"],
        ["w8a", "N/A$^{1}$", r".9000 $\pm$ .0258", r".6000 $\pm$ .0516 $\bullet$"],
        ["win/tie/loss", "1/0/0", "", "1/1/0"],
    ]
    assert r"\caption{On $\ell_1$}" in text
    assert "$^{1}$ every setting diverged in 4 of 4 folds" in text
    assert "too slow" not in text, "a footnote of a row that is left out"
    assert r"$\bullet$ / $\circ$: OPAUC$^{\mathrm{pca}}$ is significantly better / worse." in text
    assert "Uni-Exp: Another program." in text
    assert r"\label" not in text
    assert "--" not in text


def test_order_is_that_of_the_options(table):
    text = paper_table(table, columns=["uni", "opauc"], rows=["w8a", "german"])
    assert [row[0] for row in latex_cells(text)] == ["datasets", "w8a", "german", "win/tie/loss"]
    assert latex_cells(text)[0][1] == "Uni-Exp"


def test_counts_are_those_of_the_rows_shown(table):
    assert latex_cells(paper_table(table, rows=["german"]))[-1] == ["win/tie/loss", "", "1/0/0", "0/1/0"]


def test_without_the_reference_column_there_are_no_marks(table):
    text = paper_table(table, columns=["oam", "uni"])
    assert not any(word in text for word in ("bullet", "circ", "win/tie/loss", "significantly", "Test:"))
    check_latex(text)


def test_without_marks_or_std(table):
    text = paper_table(table, marks=False, std=False, columns=["opauc", "uni"])
    assert latex_cells(text)[1:] == [["german", ".8000", ".8004"], ["w8a", ".9000", ".6000"]]
    assert not any(word in text for word in ("pm", "std", "win/tie/loss", "Test:"))
    assert "Mean of the test AUC over 4 outer folds." in text


def test_origins_of_hidden_columns_are_left_out(table):
    assert "Another program" not in paper_table(table, columns=["opauc", "oam"])


def test_selection_without_rows_is_an_error(table):
    with pytest.raises(ResultsError, match="no complete value of oam in splice, w8a"):
        paper_table(table, columns=["oam"], rows=["splice", "w8a"])


# ---------------------------------------------------------------------- what is in a cell


def test_bold_means_are_the_best_of_a_row_and_those_printed_alike(table):
    text = paper_table(table, digits=3, bold="best", marks=False, std=False)
    assert latex_cells(text)[1:] == [
        ["german", r"\textbf{.800}", ".700", r"\textbf{.800}"],
        ["w8a", r"\textbf{.900}", "N/A$^{1}$", ".600"],
    ]
    assert "Bold: the best mean of each dataset." in text
    check_latex(text)
    fine = latex_cells(paper_table(table, digits=4, bold="best"))
    assert r"\textbf{.8004}" in fine[1][3]
    assert "textbf" not in fine[1][1]


@pytest.mark.parametrize(
    ("title", "caption"),
    [
        ("Table 2: testing AUC", "Testing AUC"),
        ("Table III: AUC", "AUC"),
        ("Table 4, reduced: one trial", "Table 4, reduced: one trial"),
        ("the AUC", "the AUC"),
    ],
)
def test_caption_has_no_number_of_its_own(table, title, caption):
    assert rf"\caption{{{caption}}}" in to_latex(replace(table, markup=title))


def test_label_is_below_the_caption(table):
    assert "\\caption{On $\\ell_1$}\n\\label{tab:x}\n" in paper_table(table, label="tab:x")


@pytest.fixture
def trials():
    def cell(auc, sparse, seconds):
        return Cell((auc,) * 4, FOLDS, 4, others={"sparse_ratio": (sparse,) * 4, "seconds": (seconds,) * 4})

    cells = {
        ("imdb", "oam"): cell(0.9, 0.5, 12.5),
        ("imdb", "opauc"): cell(0.8, 0.25, 2.0),
        ("imdb", "uni"): cell(0.7, 0.25, 2.5),
    }
    return table_of(cells, metrics=("auc", "sparse_ratio", "seconds"), ddof=0, runs="trials")


def test_each_metric_has_its_section_and_its_best_value(trials):
    text = paper_table(trials, columns=["oam", "opauc", "uni"], std=False, marks=False, bold="best", digits=2)
    check_latex(text)
    assert latex_cells(text)[1:] == [
        ["imdb", r"\textbf{.90}", ".80", ".70"],
        ["imdb", ".50", r"\textbf{.25}", r"\textbf{.25}"],
        ["imdb", "12.50", r"\textbf{2.00}", "2.50"],
    ]
    headings = [
        rf"\multicolumn{{4}}{{l}}{{\emph{{{name}}}}}" for name in ("AUC", "Sparse ratio", "Run time in seconds")
    ]
    assert [text.count(heading) for heading in headings] == [1, 1, 1]


def test_sections_of_a_transposed_table_leave_the_counts_to_the_auc(trials):
    text = paper_table(trials, columns=["oam", "opauc"], std=False, transpose=True)
    check_latex(text)
    assert latex_cells(text) == [
        ["learners", "imdb", "win/tie/loss"],
        [r"OAM\_seq", r".90000 $\circ$", "0/0/1"],
        [r"OPAUC$^{\mathrm{pca}}$", ".80000", ""],
        [r"OAM\_seq", ".5000", ""],
        [r"OPAUC$^{\mathrm{pca}}$", ".2500", ""],
        [r"OAM\_seq", "12.500", ""],
        [r"OPAUC$^{\mathrm{pca}}$", "2.000", ""],
    ]


# ---------------------------------------------------------------------- what holds for every table

KEYS = [column.key for column in COLUMNS]
DATASETS = ["a", "b", "c"]
STYLES = st.fixed_dictionaries(
    {
        "columns": st.lists(st.sampled_from(KEYS), unique=True),
        "rows": st.lists(st.sampled_from(DATASETS), unique=True),
        "digits": st.none() | st.integers(0, 15),
        "bold": st.sampled_from(["best", "none"]),
        "std": st.booleans(),
        "marks": st.booleans(),
    }
)


@st.composite
def any_table(draw):
    def cell():
        if draw(st.integers(0, 3)) == 0:
            return draw(st.sampled_from([LOST, DIVERGED, Cell((), (), 4), Cell((0.5,), FOLDS[:1], 4)]))
        return Cell(tuple(draw(st.lists(st.floats(0, 1), min_size=4, max_size=4))), FOLDS, 4)

    return table_of({(dataset, key): cell() for dataset in DATASETS for key in KEYS})


def rendered(table, style, **kwargs):
    """Render a table, or return None where it has nothing to print."""
    rows, columns = style["rows"] or DATASETS, style["columns"] or KEYS
    if any(table.entries[row, key].status == "ok" for row in rows for key in columns):
        return paper_table(table, **style, **kwargs)
    with pytest.raises(ResultsError):
        paper_table(table, **style, **kwargs)


@given(any_table(), STYLES, st.booleans())
def test_latex_is_well_formed_whatever_the_style(table, style, transpose):
    if text := rendered(table, style, transpose=transpose, label="tab:any_1"):
        check_latex(text)
        assert text.isascii()


@given(any_table(), STYLES)
def test_transposed_twice_is_the_table(table, style):
    if text := rendered(table, style):
        (_, *names), *rows = zip(*latex_cells(paper_table(table, **style, transpose=True)))
        assert [["datasets", *names], *map(list, rows)] == latex_cells(text)


@given(any_table(), STYLES.map(lambda style: style | {"bold": "none", "marks": False}))
def test_printed_values_are_rounded_to_the_digits(table, style):
    if not (text := rendered(table, style)):
        return
    columns = style["columns"] or [column.key for column in table.columns]
    digits = table.metric.digits if style["digits"] is None else style["digits"]
    for row in latex_cells(text)[1:]:
        entries = [table.entries[row[0], key] for key in columns]
        assert any(entry.mean is not None for entry in entries)
        for entry, printed in zip(entries, row[1:]):
            expected = [entry.mean, entry.std][: 1 + style["std"]] if entry.status == "ok" else []
            if expected:
                assert [float(value) for value in printed.split(r" $\pm$ ")] == [round(v, digits) for v in expected]
            else:
                assert re.fullmatch(r"(N/A|\\ldots\{\} \d/4)(\$\^\{\d\}\$)?", printed)


@given(any_table(), STYLES)
def test_counts_are_those_of_the_marks(table, style):
    if not (text := rendered(table, style)):
        return
    cells = latex_cells(text)
    shown = style["columns"] or [column.key for column in table.columns]
    assert (cells[-1][0] == "win/tie/loss") == (style["marks"] and "opauc" in shown and len(shown) > 1)
    if cells[-1][0] != "win/tie/loss":
        assert "bullet" not in text
        return
    for column in list(zip(*cells))[1:]:
        if column[-1]:
            win, _, loss = map(int, column[-1].split("/"))
            body = " ".join(column[1:-1])
            assert (body.count("bullet"), body.count("circ")) == (win, loss)


@given(any_table(), STYLES)
def test_bold_means_are_never_beaten(table, style):
    style = style | {"bold": "best", "std": False, "marks": False}
    if text := rendered(table, style):
        for row in latex_cells(text)[1:]:
            values = [cell for cell in row[1:] if not re.match(r"N/A|\\ldots", cell)]
            bold = {cell.removeprefix(r"\textbf{").rstrip("}") for cell in values if cell.startswith(r"\textbf")}
            assert len(bold) == 1
            assert all(float(cell) < float(*bold) for cell in values if not cell.startswith(r"\textbf"))


@given(any_table())
def test_selecting_everything_changes_only_the_rows_without_a_value(table):
    kept = [row for row in table.datasets if any(table.entries[row, key].status == "ok" for key in KEYS)]
    if kept:
        part = select(table)
        assert list(part.datasets) == kept
        assert part.tallies == table.tallies
        assert (part.columns, part.reference, part.metric) == (table.columns, table.reference, table.metric)
        for place, entry in part.entries.items():
            full = table.entries[place]
            assert (entry.mean, entry.std, entry.verdict) == (full.mean, full.std, full.verdict)
            notes = [one.cell_notes[e.note - 1] if e.note else None for one, e in ((part, entry), (table, full))]
            assert notes[0] == notes[1]


# ---------------------------------------------------------------------- titles


@pytest.mark.parametrize(
    ("title", "latex", "plain"),
    [
        ("OAM_seq & co", r"OAM\_seq \& co", "OAM_seq & co"),
        (r"OPAUC$^{\mathrm{pca}}$", r"OPAUC$^{\mathrm{pca}}$", "OPAUC^pca"),
        (r"$\lambda_1$ of 5%", r"$\lambda_1$ of 5\%", "λ_1 of 5%"),
        (r"$\ell_1/\ell_2$ and $\tau=50$", r"$\ell_1/\ell_2$ and $\tau=50$", "ℓ_1/ℓ_2 and τ=50"),
        (r"$x \leq 2^{-3}$", r"$x \leq 2^{-3}$", "x ≤ 2^-3"),
        (r"$\{a\,b\}$", r"$\{a\,b\}$", "{a b}"),
        ("from $5 to $6", r"from \$5 to \$6", "from $5 to $6"),
        ("$ 5 $", r"\$ 5 \$", "$ 5 $"),
        ("$a$5", r"\$a\$5", "$a$5"),
        (r"$a}{$", r"\$a\}\{\$", "$a}{$"),
        (r"$\frac{1$ $b$", r"\$\textbackslash{}frac\{1\$ $b$", r"$\frac{1$ b"),
        (r"$a \\ b$", r"\$a \textbackslash{}\textbackslash{} b\$", r"$a \\ b$"),
        ("$a & b$ #1", r"\$a \& b\$ \#1", "$a & b$ #1"),
        (r"$5\$", r"\$5\textbackslash{}\$", r"$5\$"),
        ("λ = $λ_0$", r"$\lambda$ = ${\lambda}_0$", "λ = λ_0"),
        ('"a" --- b', r"\symbol{34}a\symbol{34} -{}-{}- b", '"a" --- b'),
        ("[1pt] *", "{[}1pt] {*}", "[1pt] *"),
    ],
)
def test_mathematics_in_titles(title, latex, plain):
    assert latex_title(title) == latex
    assert plain_title(title) == plain


@given(st.text(st.sampled_from('a1 $\\{}%#&_^~"-λ'), max_size=30))
def test_no_title_breaks_a_table(title):
    cells = {("a", "x"): four(0.8), ("a", "y"): four(0.7)}
    table = build_table(title, ["a"], [TableColumn("x", title), TableColumn("y", title)], cells, "x", "paired", 0.25)
    for transpose in (False, True):
        text = to_latex(table, transpose=transpose)
        (width,) = {len(row) for row in latex_cells(text)}
        assert width == 3
        body = re.sub(r"\\[\\{}$%#&]", "", text.split("\n", 1)[1].replace(" \\\\\n", "\n"))
        assert body.count("{") == body.count("}")
        assert body.count("$") % 2 == 0
        assert not re.search("[%#]", body)


def test_other_formats_have_readable_titles(table):
    for text in (to_terminal(table), to_markdown(table).replace("\\", ""), to_html(table)):
        assert "OPAUC^pca" in text
        assert "On ℓ_1" in text
        assert "$" not in text
        assert "mathrm" not in text
    assert "$" not in to_csv(table)


# ---------------------------------------------------------------------- a compiler


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no LaTeX is installed")
def test_latex_compiles(table, trials, tmp_path):
    odd = [TableColumn("oam", 'λ "<|>" ~ ^ \\ -- $\\frac{1$'), *COLUMNS[1:]]
    texts = [
        paper_table(table, bold="best", digits=3, label="tab:first"),
        paper_table(trials, transpose=True, bold="best"),
        to_latex(table_of(CELLS, odd)),
        to_latex(
            table_of(CELLS, [TableColumn("oam", "[1] a"), TableColumn("opauc", "* b"), COLUMNS[2]]), transpose=True
        ),
    ]
    document = [r"\documentclass{article}", r"\usepackage{booktabs}", r"\begin{document}", *texts, r"\end{document}"]
    (tmp_path / "x.tex").write_text("\n".join(document))
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "x.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "x.pdf").is_file()


def test_a_part_of_a_table_has_the_notes_on_its_own_columns_and_rows(command, tmp_path):
    (tmp_path / "capped.yaml").write_text(
        """
title: t
datasets: [wine, breast_cancer]
learners: [opauc, uni_log, {learner: uni_squ, max_train: {breast_cancer: 100}}]
grids: {eta: [0.25], lambda: [0.1]}
protocol: {trials: 1, folds: 2, inner_folds: 2}
"""
    )
    command("run", "capped.yaml", cwd=tmp_path, exits=0)
    note = "At most 100 training rows on breast\\_cancer: uni\\_squ."
    for part, has_note in ([], True), (["--rows", "wine"], False), (["--columns", "opauc,uni_log"], False):
        text = command("report", "capped.yaml", "--latex", "-", *part, cwd=tmp_path, exits=0).stdout
        assert (note in " ".join(text.split())) == has_note
