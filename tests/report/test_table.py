"""Tests of the result table: what is summarised, tested and counted, and what is not."""

import re
import statistics
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opauc_bench.commands.tables import column_titles
from opauc_bench.errors import ResultsError
from opauc_bench.evaluation.bayes import bayesian_t_test
from opauc_bench.evaluation.significance import corrected_t_test, paired_t_test
from opauc_bench.report.footnotes import footnotes
from opauc_bench.report.published import load_published
from opauc_bench.report.table import Cell, TableColumn, build_table
from opauc_bench.report.terminal import to_terminal

FOLDS = tuple((trial, fold) for trial in range(5) for fold in range(5))
COLUMNS = [TableColumn("uni_exp", "online Uni-Exp"), TableColumn("opauc", "OPAUC"), TableColumn("oam_seq", "OAM_seq")]


def complete(mean, spread=0.01, seed=0):
    """Make a complete cell of 25 folds whose mean is exact."""
    noise = np.random.default_rng(seed).normal(0, spread, 25)
    return Cell(tuple(float(auc) for auc in mean + noise - noise.mean()), FOLDS, 25)


def table_of(cells, test="paired", columns=COLUMNS, **kwargs):
    datasets = list(dict.fromkeys(dataset for dataset, _ in cells))
    return build_table("A table", datasets, columns, cells, "opauc", test, 0.2, **kwargs)


def row(opauc, oam_seq, uni_exp):
    return {("german", "opauc"): opauc, ("german", "oam_seq"): oam_seq, ("german", "uni_exp"): uni_exp}


def test_a_complete_cell_has_the_mean_and_the_std_of_its_folds():
    opauc, oam_seq = complete(0.8, seed=1), complete(0.7, seed=2)
    entry = table_of(row(opauc, oam_seq, complete(0.9, seed=3))).entries["german", "oam_seq"]
    assert entry.mean == pytest.approx(np.mean(oam_seq.aucs), rel=1e-15)
    assert entry.std == pytest.approx(np.std(oam_seq.aucs, ddof=1), rel=1e-12)
    assert (entry.status, entry.n, entry.expected, entry.note) == ("ok", 25, 25, None)
    assert entry.p_value == paired_t_test(opauc.aucs, oam_seq.aucs).p_value


def test_verdicts_are_from_the_side_of_the_reference_which_comes_first():
    table = table_of(row(complete(0.8, seed=1), complete(0.7, seed=2), complete(0.9, seed=3)))
    assert [column.key for column in table.columns] == ["opauc", "uni_exp", "oam_seq"]
    verdicts = {key: entry.verdict for (_, key), entry in table.entries.items()}
    assert verdicts == {"opauc": None, "oam_seq": "win", "uni_exp": "loss"}


def test_values_of_other_test_rows_are_not_tested():
    opauc = replace(complete(0.8, seed=1), tested_rows=((0, 40),) * 25)
    other = replace(complete(0.7, seed=2), tested_rows=((0, 57),) * 25)
    same = replace(complete(0.7, seed=3), tested_rows=((0, 40),) * 25)
    table = table_of(row(opauc, other, same))
    assert table.entries["german", "uni_exp"].verdict == "win"
    entry = table.entries["german", "oam_seq"]
    assert (entry.verdict, entry.p_value) == (None, None)
    assert table.tallies["oam_seq"].counted == 0
    assert table.cell_notes[entry.note - 1] == "not tested: 57 test rows, those of the reference are 40"
    several = replace(other, tested_rows=(*((0, 57),) * 12, *((0, 1058),) * 13))
    assert table_of(row(opauc, several, same)).cell_notes[0].startswith("not tested: 57 to 1,058 test rows, ")
    assert f"{entry.mean:.4f} ± {entry.std:.4f}".replace("0.", ".") + "¹" in to_terminal(table)


def test_the_test_can_be_chosen():
    cells = row(complete(0.8, seed=1), complete(0.794, seed=2), complete(0.8, seed=1))
    paired, corrected = table_of(cells), table_of(cells, "corrected")
    assert paired.entries["german", "oam_seq"].verdict == "win"
    entry = corrected.entries["german", "oam_seq"]
    assert entry.verdict == "tie"
    a, b = cells["german", "opauc"], cells["german", "oam_seq"]
    assert entry.p_value == corrected_t_test(a.aucs, b.aucs, 0.2).p_value
    assert corrected.entries["german", "uni_exp"].p_value == 1.0
    assert "27.8%" in footnotes(paired)[-1]
    assert "1/J + 0.25" in footnotes(corrected)[-1]


def test_rates_of_the_tests_are_told_for_the_protocol_that_they_are_of():
    few = {place: Cell(cell.aucs[:5], cell.folds[:5], 5) for place, cell in row(*3 * [complete(0.8)]).items()}
    paired, corrected = footnotes(table_of(few))[-1], footnotes(table_of(few, "corrected"))[-1]
    assert "as in the paper" not in paired
    assert "The training sets of the folds overlap" in paired
    assert not re.search("27.8|0.8%", paired + corrected)
    orders = footnotes(table_of(few, runs="trials", same_rows=True))[-1]
    assert "The trials have the same rows in other orders" in orders
    assert "overlap" not in orders
    for test in ("corrected", "bayes"):
        assert (
            "The trials have the same rows in other orders"
            in footnotes(table_of(few, test, runs="trials", same_rows=True))[-1]
        )


def test_training_sets_of_a_single_2_fold_cross_validation_do_not_overlap():
    columns = [TableColumn("a", "A"), TableColumn("b", "B")]
    cells = {("d", key): Cell((0.8, 0.8 + k), ((0, 0), (0, 1)), 2) for key, k in (("a", 0.1), ("b", 0.05))}
    table = build_table("t", ["d"], columns, cells, "a", "paired", 1 / 2)
    assert footnotes(table)[-1] == "Test: two-sided paired t-test over the folds at the level 0.05."


def test_values_that_no_order_of_the_rows_changes_are_not_tested():
    cells = row(*(Cell((auc,) * 3, ((0, 0), (1, 0), (2, 0)), 3) for auc in (0.8, 0.7, 0.7)))
    table = table_of(cells, runs="trials", same_rows=True)
    assert all(entry.verdict is None for entry in table.entries.values())
    assert table.cell_notes == ("not tested: no order of the rows changed this value or that of the reference",)
    assert [entry.verdict for entry in table_of(cells).entries.values()] == [None, "win", "win"]


def test_the_bayesian_test_has_probabilities_and_four_verdicts():
    columns = [*COLUMNS, TableColumn("oam_gra", "OAM_gra"), TableColumn("uni_log", "Uni-Log")]
    cells = row(complete(0.8, seed=1), complete(0.7, seed=2), complete(0.9, seed=3))
    cells["german", "oam_gra"] = complete(0.8, seed=1)
    cells["german", "uni_log"] = complete(0.798, spread=0.02, seed=4)
    table = table_of(cells, "bayes", columns)
    verdicts = {key: entry.verdict for (_, key), entry in table.entries.items()}
    assert verdicts == {
        **{"opauc": None, "oam_seq": "win", "uni_exp": "loss", "oam_gra": "equivalent", "uni_log": "undecided"}
    }
    for (_, key), entry in table.entries.items():
        assert entry.p_value is None
        if key != "opauc":
            assert entry.posterior == bayesian_t_test(cells["german", "opauc"].aucs, cells["german", key].aucs, 0.2)
    tally = table.tallies["oam_gra"]
    assert (tally.equivalent, tally.tie, tally.counted) == (1, 0, 1)
    wide = table_of(cells, "bayes", columns, rope=0.2)
    assert {entry.verdict for entry in wide.entries.values()} == {None, "equivalent"}
    assert "±.2 AUC" in footnotes(wide)[-1]
    assert "1/J + 0.25" in footnotes(wide)[-1]


@pytest.mark.parametrize(
    ("cell", "status", "note"),
    [
        (Cell((), (), 25), "pending", None),
        (Cell((0.8,) * 12, FOLDS[:12], 25), "pending", None),
        (Cell((), (), 25, {"timeout": 3}), "timeout", "time limit reached in 3 of 25 folds, 0 finished"),
        (
            Cell((0.8,) * 12, FOLDS[:12], 25, {"timeout": 3}),
            "pending",
            "time limit reached in 3 of 25 folds, 12 finished",
        ),
        (
            Cell((0.8,) * 22, FOLDS[3:], 25, {"out_of_memory": 2, "error": 1}, ("b\n  a", "a")),
            "error+out_of_memory",
            "error in 1 and memory limit reached in 2 of 25 folds, 22 finished: a (and 1 more)",
        ),
        (
            Cell((), (), 25, {"unavailable": 25}, ("no file\x1b[31m",) * 25),
            "unavailable",
            "data unavailable in 25 of 25 folds, 0 finished: no file?[31m",
        ),
    ],
)
@pytest.mark.parametrize("which", ["opauc", "oam_seq"])
def test_an_incomplete_cell_has_no_mean_and_no_verdict_and_is_not_counted(cell, status, note, which):
    cells = row(complete(0.8, seed=1), complete(0.7, seed=2), complete(0.9, seed=3))
    cells["german", which] = cell
    table = table_of(cells)
    entry = table.entries["german", which]
    assert (entry.mean, entry.std, entry.verdict, entry.p_value) == (None,) * 4
    assert entry.status == status
    assert (table.cell_notes[entry.note - 1] if entry.note else None) == note
    assert table.entries["german", "oam_seq"].verdict is None
    assert table.tallies["oam_seq"].counted == 0
    assert table.tallies["uni_exp"].counted == (which != "opauc")


def test_equal_notes_share_a_number():
    lost = Cell((), (), 25, {"unavailable": 25}, ("no file",))
    cells = row(lost, lost, Cell((), (), 25, {"timeout": 25}))
    table = table_of(cells)
    assert [table.entries["german", key].note for key in ("opauc", "uni_exp", "oam_seq")] == [1, 2, 1]
    assert len(table.cell_notes) == 2


def test_a_long_message_is_shortened():
    table = table_of(row(Cell((), (), 25, {"error": 1}, ("x" * 1000,)), complete(0.8), complete(0.8)))
    assert len(table.cell_notes[0]) < 250
    assert table.cell_notes[0].endswith("x…")


def test_one_fold_has_no_std_and_is_not_tested():
    cell = Cell((0.8,), ((0, 0),), 1)
    table = table_of(row(cell, cell, cell))
    entry = table.entries["german", "oam_seq"]
    assert (entry.status, entry.mean, entry.std, entry.verdict) == ("ok", 0.8, None, None)


def test_columns_of_different_folds_are_refused():
    other = Cell((0.8,) * 25, tuple((trial + 1, fold) for trial, fold in FOLDS), 25)
    with pytest.raises(ResultsError, match="german: opauc has 25 folds and oam_seq has 25"):
        table_of(row(complete(0.8), other, complete(0.8)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((0.8,), (), 25), "1 AUC values for 0 folds"),
        (((0.8, 0.8), ((0, 1), (0, 0)), 25), "out of order"),
        (((0.8, 0.8), ((0, 1), (0, 1)), 25), "repeated"),
        (((1.2,), ((0, 0),), 25), "lies in"),
        (((float("nan"),), ((0, 0),), 25), "lies in"),
        (((0.8, 0.8), ((0, 0), (0, 1)), 1), "1 are expected"),
        (((0.8,), ((0, 0),), 1, {"timeout": 1}), "1 are expected"),
        (((), (), 0), "0 are expected"),
    ],
)
def test_impossible_cell_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Cell(*arguments)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"reference": "svm_perf"}, "the reference 'svm_perf' is not one of the columns"),
        ({"test": "wilcoxon"}, "test must be one of"),
        ({"columns": [*COLUMNS, COLUMNS[0]]}, "must not repeat"),
        ({"columns": [*COLUMNS, TableColumn("oam_gra", "OAM_gra")]}, r"no cell for \[\('german', 'oam_gra'\)\]"),
    ],
)
def test_impossible_layout_is_refused(change, message):
    cells = row(complete(0.8), complete(0.8), complete(0.8))
    arguments = {"columns": COLUMNS, "reference": "opauc", "test": "paired"} | change
    with pytest.raises(ValueError, match=message):
        build_table("t", ["german"], cells=cells, test_fraction=0.2, **arguments)


@pytest.mark.parametrize("runs", ["folds", "trials"])
def test_table_of_one_column_has_no_footnotes_on_marks_and_tests(runs):
    table = table_of({("german", "opauc"): complete(0.8)}, columns=COLUMNS[1:2], runs=runs)
    (note,) = footnotes(table)
    assert note.startswith("Mean ± std")
    assert not any(word in note for word in ("significantly", "Win/tie/loss", "Test:", "None"))


def test_footnotes_stand_before_the_one_about_the_test():
    table = table_of(
        row(complete(0.8), complete(0.8), complete(0.8)), origins={"oam_seq": ["Second."], "opauc": ["First."]}
    )
    assert footnotes(table)[1:3] == ("OPAUC: First.", "OAM_seq: Second.")
    assert footnotes(table)[-1].startswith("Test: two-sided paired t-test")


@pytest.mark.parametrize("name", ["aij2016_table2", "aij2016_table3"])
def test_folds_made_after_the_published_marks_count_to_the_printed_triples(name):
    published = load_published(name)
    shifts = {"win": -0.02, "tie": 0.0, "loss": 0.02}
    cells = {}
    for (dataset, column), cell in published.cells.items():
        noise = np.random.default_rng(len(cells)).normal(0, 0.001, 25)
        mean = 0.8 + shifts.get(cell.verdict, 0)
        cells[dataset, column] = Cell(tuple(map(float, mean + noise - noise.mean())), FOLDS, 25)
    table = build_table(
        "t", list(published.datasets), list(published.columns), cells, published.reference, "paired", 0.2
    )
    triples = {key: (tally.win, tally.tie, tally.loss) for key, tally in table.tallies.items()}
    assert triples == published.win_tie_loss
    assert {tally.counted for tally in table.tallies.values()} == {16}


statuses = st.dictionaries(st.sampled_from(["timeout", "error", "diverged"]), st.integers(0, 3))


@st.composite
def any_cell(draw):
    failed = draw(statuses)
    n = draw(st.integers(0, 25 - sum(failed.values())))
    aucs = draw(st.lists(st.integers(0, 100).map(lambda k: k / 100), min_size=n, max_size=n))
    return Cell(tuple(aucs), FOLDS[:n], 25, failed)


@given(st.lists(any_cell(), min_size=9, max_size=9))
def test_every_verdict_compares_two_complete_cells(made):
    datasets = ["a", "b", "c"]
    keys = [(dataset, column.key) for dataset in datasets for column in COLUMNS]
    cells = dict(zip(keys, made))
    table = table_of(cells)
    for (dataset, key), entry in table.entries.items():
        cell = cells[dataset, key]
        is_complete = len(cell.aucs) == 25
        assert (entry.status == "ok") == (entry.mean is not None) == is_complete
        if is_complete:
            assert entry.mean == statistics.fmean(cell.aucs)
        pair = is_complete and len(cells[dataset, "opauc"].aucs) == 25 and key != "opauc"
        assert (entry.verdict is not None) == (entry.p_value is not None) == pair
    for key, tally in table.tallies.items():
        assert tally.counted == sum(table.entries[dataset, key].verdict is not None for dataset in datasets)


def test_columns_with_the_same_title_are_distinguished():
    def column(key, title, **params):
        return SimpleNamespace(key=key, title=title, identity={"params": params})

    columns = [
        column("opauc_r_10", "OPAUC_r", tau=10, algorithm="plain"),
        column("opauc_r_20", "OPAUC_r", tau=20, algorithm="plain"),
        column("uni", "Uni-Log", weights="none"),
        column("first", "mine", C=1),
        column("second", "mine", C=1),
        column("third", "other"),
        column("fourth", "other", C=1),
    ]
    assert column_titles(columns) == {
        "opauc_r_10": "OPAUC_r (tau 10)",
        "opauc_r_20": "OPAUC_r (tau 20)",
        "uni": "Uni-Log",
        "first": "mine (first)",
        "second": "mine (second)",
        "third": "other",
        "fourth": "other (C 1)",
    }
