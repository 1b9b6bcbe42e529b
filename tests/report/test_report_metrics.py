"""Tables of several metrics, and their comparison with published ones where two columns stand beside a printed one."""

import csv
import io
import math

import pytest

from opauc_bench.report.compare import compare
from opauc_bench.report.compare_render import comparison_to_csv, comparison_to_markdown, comparison_to_terminal
from opauc_bench.report.latex import to_latex
from opauc_bench.report.metrics import METRICS
from opauc_bench.report.published import load_published
from opauc_bench.report.render import to_csv, to_html, to_markdown
from opauc_bench.report.table import Cell, TableColumn, build_table
from opauc_bench.report.terminal import to_terminal

COLUMNS = [
    TableColumn("ftrl_auc", "FTRL-AUC"),
    TableColumn("ftrl_auc_released", "FTRL-AUC (released)"),
    TableColumn("solam", "SOLAM"),
]
TRIALS = tuple((trial, 0) for trial in range(4))
VALUES = {
    ("imdb", "ftrl_auc"): ((0.953, 0.954, 0.955, 0.956), (0.5, 0.6, 0.5, 0.6), (0.01, 0.02, 0.01, 0.02)),
    ("imdb", "ftrl_auc_released"): ((0.944, 0.946, 0.945, 0.949), (0.03, 0.035, 0.031, 0.034), (0.01,) * 4),
    ("imdb", "solam"): ((0.89, 0.9, 0.88, 0.92), (1.0,) * 4, (1.5, 2.5, 1.5, 2.5)),
    ("reviews", "ftrl_auc"): ((0.92, 0.93, 0.93, 0.92), (0.1, 0.2, 0.1, 0.2), (0.001,) * 4),
    ("reviews", "ftrl_auc_released"): ((0.9, 0.91, 0.92, 0.93), (0.001, 0.0, 0.002, 0.001), (0.001,) * 4),
}
KEYS = ("auc", "sparse_ratio", "seconds")


def cell(values):
    auc, sparse, seconds = values
    return Cell(auc, TRIALS, 4, others={"sparse_ratio": sparse, "seconds": seconds})


@pytest.fixture(scope="module")
def table():
    cells = {key: cell(values) for key, values in VALUES.items()}
    cells["reviews", "solam"] = Cell(
        (0.9,), TRIALS[:1], 4, {"timeout": 3}, ("too slow",), dict.fromkeys(KEYS[1:], (1.0,))
    )
    return build_table(
        "Table II", ["imdb", "reviews"], COLUMNS, cells, "ftrl_auc", "paired", 0.2, metrics=KEYS, ddof=0, runs="trials"
    )


def test_every_metric_has_mean_and_population_std(table):
    parts = {metric.key: entries for metric, entries in table.sections}
    assert tuple(parts) == KEYS
    entry = parts["auc"]["imdb", "ftrl_auc"]
    assert (entry.mean, entry.std) == (pytest.approx(0.9545), pytest.approx(math.sqrt(1.25e-6)))
    assert parts["sparse_ratio"]["imdb", "ftrl_auc"].std == pytest.approx(0.05)
    assert parts["seconds"]["imdb", "solam"].mean == pytest.approx(2.0)
    for entries in parts.values():
        failed = entries["reviews", "solam"]
        assert (failed.status, failed.mean, failed.note) == ("timeout", None, 1)
    assert table.cell_notes == ("time limit reached in 3 of 4 trials, 1 finished: too slow",)


def test_a_metric_of_a_new_kind_of_protocol_prints_under_its_name():
    cells = {("wine", "ftrl_auc"): Cell((0.9,) * 4, TRIALS, 4, others={"auc_632": (0.95,) * 4, "n_kept": (0.5,) * 4})}
    table = build_table(
        "", ["wine"], COLUMNS[:1], cells, "ftrl_auc", "paired", 0.2, metrics=("auc", "auc_632", "n_kept")
    )
    text = to_terminal(table)
    assert "auc 632\nwine       .9500 ± .0000" in text
    assert "n kept\nwine      0.5000 ± 0.0000" in text
    assert "auc 632:" not in to_latex(table)


def test_only_the_auc_is_tested_and_counted(table):
    assert table.entries["imdb", "solam"].verdict == "win"
    assert all(entry.verdict is None for section in table.sections[1:] for entry in section.entries.values())
    assert str(table.tallies["solam"]) == "1/0/0"


def test_a_metric_needs_a_value_for_every_trial():
    with pytest.raises(ValueError, match="1 seconds values for 4 folds"):
        Cell((0.9,) * 4, TRIALS, 4, others={"seconds": (1.0,)})


@pytest.mark.parametrize(
    ("key", "value", "text", "signed"),
    [
        ("auc", 0.946143, ".94614", "+.94614"),
        ("auc", 1.0, "1.00000", "+1.00000"),
        ("sparse_ratio", 0.03204, ".0320", "+.0320"),
        ("seconds", 0.0154, "0.015", "+0.015"),
        ("seconds", -0.0001, "-0.000", "+0.000"),
        ("seconds", 404.911, "404.911", "+404.911"),
    ],
)
def test_numbers_are_printed_as_in_the_paper(key, value, text, signed):
    assert METRICS[key].text(value) == text
    assert METRICS[key].signed(value) == signed


def test_markdown(table):
    lines = to_markdown(table).splitlines()
    rows = [[part.strip() for part in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    assert [row[0] for row in rows] == [
        "datasets",
        rows[1][0],
        "**AUC**",
        "imdb",
        "reviews",
        "win/tie/loss",
        "counted",
        "**Sparse ratio**",
        "imdb",
        "reviews",
        "**Run time in seconds**",
        "imdb",
        "reviews",
    ]
    assert rows[3][1:] == [".95450 ± .00112", ".94600 ± .00187 •", ".89750 ± .01479 •"]
    assert rows[4][3] == "N/A¹"
    assert rows[8][1:] == [".5500 ± .0500", ".0325 ± .0021", "1.0000 ± .0000"]
    assert rows[11][1:] == ["0.015 ± 0.005", "0.010 ± 0.000", "2.000 ± 0.500"]
    assert any("Mean ± std (n) over 4 trials" in line for line in lines)


def test_other_formats_have_the_same_sections(table):
    latex = to_latex(table)
    assert latex.count(r"\multicolumn{4}{l}{\emph{") == 3
    assert latex.count(r"\midrule") == 4
    html = to_html(table)
    assert html.count("<tbody>") == html.count("</tbody>") == html.count('scope="rowgroup"') == 3
    assert "<tfoot>" not in html
    rows = list(csv.DictReader(io.StringIO(to_csv(table))))
    assert [(row["metric"], row["dataset"], row["column"]) for row in rows] == [
        (metric, dataset, column.key) for metric in KEYS for dataset in ("imdb", "reviews") for column in COLUMNS
    ]
    assert float(rows[6]["mean"]) == pytest.approx(0.55)
    for width in (40, 60, 80, 200):
        text = to_terminal(table, width)
        assert max(map(len, text.splitlines())) <= width
        assert text.count("\nSparse ratio\n") == text.count("\nAUC\n") > 0


# ---------------------------------------------------------------------- beside what was published


@pytest.fixture(scope="module")
def comparison(table):
    return compare(table, load_published("ftrl_table2"))


def test_two_variants_are_compared_with_one_printed_column(comparison):
    cells = {(cell.metric.key, cell.dataset, cell.column.key): cell for cell in comparison.cells}
    assert len(cells) == 3 * 2 * 3
    paper, released = (cells["auc", "imdb", key] for key in ("ftrl_auc", "ftrl_auc_released"))
    assert paper.published == released.published
    assert (paper.published.mean, paper.published.std, paper.published.verdict) == (0.94614, 0.00275, None)
    assert (paper.standing, released.standing) == ("explained", "within")
    assert any("macro" in note.text for note in paper.notes)
    assert not any("macro" in note.text for note in released.notes)
    assert cells["sparse_ratio", "imdb", "ftrl_auc"].standing == "explained"
    assert cells["seconds", "imdb", "solam"].standing == "another machine"
    assert cells["sparse_ratio", "imdb", "solam"].standing == "within", "1.0000 ± .0000 is printed"
    assert cells["auc", "reviews", "solam"].standing == "not computed"


def test_a_std_that_prints_as_zero_takes_no_other_value(table):
    from dataclasses import replace

    aucs, ratios, times = table.sections
    moved = {**ratios.entries, ("imdb", "solam"): replace(ratios.entries["imdb", "solam"], mean=0.9)}
    other = replace(table, sections=(aucs, ratios._replace(entries=moved), times))
    cells = {
        (c.metric.key, c.column.key): c
        for c in compare(other, load_published("ftrl_table2")).cells
        if c.dataset == "imdb"
    }
    assert cells["sparse_ratio", "solam"].deviation == -math.inf
    assert cells["sparse_ratio", "solam"].standing == "open"
    assert "-inf" in comparison_to_markdown(compare(other, load_published("ftrl_table2")))


def test_counts_of_the_summary(comparison):
    summary = comparison.summary()
    assert (summary.published, summary.pairs, summary.compared) == (3 * 6 * 7, 12, 10)
    assert (summary.not_judged, summary.not_computed) == (5, 2)
    assert summary.absent == 3 * 6 * 7 - 3 * 2 * 2
    assert summary.within_one + summary.explained + summary.open == summary.compared
    text = " ".join(summary.sentences())
    assert "Verdicts" not in text
    assert "10 of 12 cells that have a published one beside them" in text


def test_comparisons_name_the_metric_in_every_format(comparison):
    rows = list(csv.DictReader(io.StringIO(comparison_to_csv(comparison))))
    assert [row["metric"] for row in rows] == [key for key in KEYS for _ in range(6)]
    text = comparison_to_terminal(comparison)
    assert max(map(len, text.splitlines())) <= 80
    assert all(f"{METRICS[key].heading}, {dataset}" in text for key in KEYS for dataset in ("imdb", "reviews"))
    assert "FTRL-AUC (released)" in comparison_to_markdown(comparison)
    assert ".95450 ± .00112" in text
    assert "+.00836" in text


# ---------------------------------------------------------------------- the published tables


def test_the_published_tables_are_those_of_the_paper():
    """Cells read with the eye from the printed tables."""
    two, three = load_published("ftrl_table2"), load_published("ftrl_table3")
    for metric, dataset, column, mean, std in (
        ("auc", "farm-ads", "ftrl_auc", 0.94290, 0.00669),
        ("auc", "rcv1b", "fsauc", 0.99544, 0.0001),
        ("auc", "imdb", "spam_elastic", 0.80066, 0.10940),
        ("auc", "news20b", "spauc", 0.99240, 0.00104),
        ("sparse_ratio", "farm-ads", "spauc", 0.1933, 0.0137),
        ("sparse_ratio", "reviews", "ftrl_auc", 0.0006, 0.0002),
        ("seconds", "news20b", "solam", 404.911, 151.445),
        ("seconds", "imdb", "ftrl_auc", 0.355, 0.046),
    ):
        cell = two.cell(dataset, column, metric)
        assert (cell.mean, cell.std, cell.verdict) == (mean, std, None)
    for row, column, mean, std in (
        ("farm-ads @ 0.1", "adagrad", 0.7686, 0.0487),
        ("reviews @ 0.05", "ftrl_proximal_released", 0.8260, 0.0297),
        ("news20b @ 0.05", "rda_l1", 0.9969, 0.0017),
    ):
        cell = three.cell(row, column)
        assert (cell.mean, cell.std) == (mean, std)
    assert [len(cells) for cells in (two.cells, *two.others.values(), three.cells)] == [42, 42, 42, 48]
    for cell in (*two.cells.values(), *two.others["sparse_ratio"].values(), *three.cells.values()):
        assert 0 < cell.mean <= 1
        assert 0 <= cell.std < 0.4
    for published in (two, three):
        keys = {column.key for column in published.columns} | set(published.stand_for)
        assert set(published.stand_for.values()) <= keys
        assert all(set(note.columns) <= keys for note in published.notes)


def test_a_metric_that_is_not_defined_in_all_folds_says_so():
    values = {"log_loss": (0.3, math.nan, 0.4, 0.5)}
    cells = {
        ("wine", "ftrl_auc"): Cell((0.9,) * 4, TRIALS, 4, others=values),
        ("wine", "solam"): Cell((0.9,) * 4, TRIALS, 4, others={"log_loss": (math.nan,) * 4}),
    }
    columns = [COLUMNS[0], COLUMNS[2]]
    some = build_table("t", ["wine"], columns, cells, "ftrl_auc", "paired", 0.2, metrics=("auc", "log_loss"))
    text = to_terminal(some, 80)
    assert some.cell_notes == ("defined in 3 of 4 folds only",)
    assert "–¹" in text
    assert "–: not defined for this learner" in text
    assert "$^{1}$ defined in 3 of 4 folds only" in to_latex(some)
    one = {place: cell for place, cell in cells.items() if place[1] == "ftrl_auc"}
    alone = build_table("t", ["wine"], columns[:1], one, "ftrl_auc", "paired", 0.2, metrics=("auc", "log_loss"))
    assert "not defined for this learner" not in to_terminal(alone, 80)
