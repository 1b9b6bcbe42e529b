"""Tests over datasets of the reference against each column: which datasets enter, and what is printed."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opauc_bench.commands.tables import _repeats
from opauc_bench.evaluation.bayes import bayesian_signed_rank_test
from opauc_bench.evaluation.ranks import holm, wilcoxon_test
from opauc_bench.report.footnotes import footnotes
from opauc_bench.report.over_datasets import MIN_DATASETS, all_pairs, cases_of, over_datasets
from opauc_bench.report.page.ranks import rank
from opauc_bench.report.render import to_markdown
from opauc_bench.report.table import Cell, MetricSection, TableColumn, build_table
from opauc_bench.report.terminal import MIN_WIDTH, over_datasets_to_terminal

FOLDS = ((0, 0), (0, 1))
DATASETS = [f"d{i}" for i in range(7)]
REFERENCE = [0.90, 0.91, 0.92, 0.93, 0.94, 0.95, 0.96]
OTHERS = {
    "worse": [mean - 0.05 - 0.001 * i for i, mean in enumerate(REFERENCE)],
    "close": [mean + 0.0001 * (-1) ** i * (i + 1) for i, mean in enumerate(REFERENCE)],
    "few": [0.8] * (MIN_DATASETS - 1),
}


def cell(mean):
    return Cell((mean - 0.01, mean + 0.01), FOLDS, 2)


def table_of(others=OTHERS, test="bayes", **options):
    columns = [TableColumn(key, key.capitalize()) for key in ("ref", *others)]
    cells = {(dataset, column.key): Cell((), (), 2) for dataset in DATASETS for column in columns}
    for key, means in {"ref": REFERENCE, **others}.items():
        cells |= {(dataset, key): cell(mean) for dataset, mean in zip(DATASETS, means)}
    return build_table("t", DATASETS, columns, cells, "ref", test, 0.5, **options)


def test_each_column_is_tested_on_the_datasets_it_has_in_common_with_the_reference():
    table = table_of()
    found = over_datasets(table)
    assert [(test.column.key, test.n_datasets) for test in found.tests] == [("worse", 7), ("close", 7)]
    p_values = []
    for test in found.tests:
        means = [[table.entries[row, key].mean for row in DATASETS] for key in ("ref", test.column.key)]
        differences = [a - b for a, b in zip(*means)]
        p_values.append(wilcoxon_test(differences)[1])
        assert test.posterior == bayesian_signed_rank_test(differences)
    assert [test.p_value for test in found.tests] == p_values
    assert [test.adjusted for test in found.tests] == list(holm(p_values))
    assert p_values[0] == pytest.approx(2 / 2**7)
    assert [test.posterior.verdict() for test in found.tests] == ["win", "equivalent"]
    assert found.rows()[0] == ["Worse", "7", ".0156", ".0312", "• 100/0/0"]
    assert found.sentences[1] == "Not tested over datasets, with fewer than 5 in common: Few (4)."


def test_datasets_with_other_test_rows_do_not_count():
    table = table_of()
    entries = {
        (row, key): replace(entry, tested_rows=((0, 40),) * 2 if key == "close" and row == "d0" else ((0, 50),) * 2)
        for (row, key), entry in table.entries.items()
    }
    table = replace(table, sections=(MetricSection(table.metric, entries),))
    assert [(test.column.key, test.n_datasets) for test in over_datasets(table).tests] == [
        ("worse", 7),
        ("close", 6),
    ]
    ranking = rank(replace(table, columns=table.columns[:3]))
    assert ranking.left_out == (("d0", "not all columns have the same test rows"),)
    assert ranking.datasets == tuple(DATASETS[1:])


def test_datasets_with_the_data_of_another_one_count_once():
    table = replace(table_of(), repeats={"d3": "d0"})
    found = over_datasets(table)
    assert [(test.column.key, test.n_datasets) for test in found.tests] == [("worse", 6), ("close", 6)]
    assert "Datasets with the same data count once: d3 (as d0)." in found.sentences
    assert rank(replace(table, columns=table.columns[:3])).left_out == (("d3", "the same data as d0"),)
    # Where the first one cannot be tested, the other one counts.
    entries = {
        (row, key): replace(entry, tested_rows=((0, 40),) * 2 if key == "close" and row == "d0" else ((0, 50),) * 2)
        for (row, key), entry in table.entries.items()
    }
    table = replace(table, sections=(MetricSection(table.metric, entries),))
    assert [(test.column.key, test.n_datasets) for test in over_datasets(table).tests] == [("worse", 6), ("close", 6)]
    ranking = rank(replace(table, columns=table.columns[:3]))
    assert ranking.left_out == (("d0", "not all columns have the same test rows"),)


def test_a_correction_that_leaves_nothing_to_find_is_said():
    few = table_of()
    assert not any("cannot fall below" in sentence for sentence in over_datasets(few).sentences)
    few = replace(few, datasets=few.datasets[:5])
    assert any(
        "With 5 datasets and 2 tests, Holm cannot fall below .1250" in sentence
        for sentence in over_datasets(few).sentences
    )


def test_single_trials_are_tested_over_datasets_only():
    columns = [TableColumn(key, key.capitalize()) for key in ("ref", "worse")]
    means = {"ref": REFERENCE, "worse": OTHERS["worse"]}
    cells = {(row, key): Cell((means[key][i],), ((0, 0),), 1) for i, row in enumerate(DATASETS) for key in means}
    table = build_table("t", DATASETS, columns, cells, "ref", "bayes", 0.5)
    assert table.tallies == {}
    assert not any("posterior probability above" in note for note in footnotes(table))
    assert "Ref over the datasets" in to_markdown(table)


def test_the_rope_is_that_of_the_table():
    found = over_datasets(table_of(rope=0.2))
    assert [test.posterior.equivalent for test in found.tests] == [1.0, 1.0]
    assert "(±.2 AUC)" in found.sentences[0]


def test_rows_of_one_dataset_are_not_tested():
    found = over_datasets(table_of(sources=dict.fromkeys(DATASETS[:2], "d0")))
    assert found.tests == ()
    assert "some rows are of one dataset" in found.sentences[0]
    assert "some rows are of one dataset" in over_datasets_to_terminal(found)


def test_all_pairs_are_tested_once_and_mirrored():
    rows = all_pairs(table_of())
    assert [title for title, _ in rows] == ["Ref", "Worse", "Close", "Few"]
    assert rows[0][1] == ["", "• 100/0/0", "≈ 0/100/0", ""]
    assert rows[1][1] == ["◦ 0/0/100", "", "◦ 0/0/100", ""]
    assert rows[3][1] == [""] * 4
    assert all_pairs(table_of(sources=dict.fromkeys(DATASETS[:2], "d0"))) == []
    assert all_pairs(table_of({"worse": OTHERS["worse"]})) == []


def test_markdown_has_the_tests_below_the_table_under_the_bayesian_test_only():
    text = to_markdown(table_of())
    lines = text.split("\n")
    start = lines.index("**Ref over the datasets**")
    assert [part.strip() for part in lines[start + 4].strip("|").split("|")] == over_datasets(table_of()).rows()[0]
    assert lines[-2] == "- Not tested over datasets, with fewer than 5 in common: Few (4)."
    assert "over the datasets" not in to_markdown(table_of(test="corrected"))


@given(st.integers(0, 120), st.text("ab c", min_size=1, max_size=40))
def test_no_line_is_wider_than_the_terminal(width, title):
    found = over_datasets(table_of({"worse": OTHERS["worse"], f"x{title}": OTHERS["worse"]}))
    text = over_datasets_to_terminal(found, width)
    assert max(map(len, text.split("\n"))) <= max(width, MIN_WIDTH)
    assert text.count("• 100/0/0") == 2


def test_rows_of_several_kinds_are_tested_apart():
    """A dataset under several cases of the protocol counts once in each of them."""
    rows = [f"{name}{end}" for name in "abcdef" for end in ("", " @ 1%")]
    cells = {
        (row, key): Cell((0.8 + shift + 0.01 * i, 0.81 + shift), ((0, 0), (0, 1)), 2)
        for i, row in enumerate(rows)
        for key, shift in (("x", 0.0), ("y", -0.05 if row.endswith("%") else 0.0))
    }
    table = build_table(
        "T",
        rows,
        [TableColumn("x", "X"), TableColumn("y", "Y")],
        cells,
        "x",
        "bayes",
        0.2,
        rope=0.01,
        sources={row: row[0] for row in rows},
    )
    cases = cases_of(table)
    assert list(cases) == ["", "@ 1%"]
    (plain,), (thin,) = (over_datasets(case).tests for case in cases.values())
    assert plain.n_datasets == thin.n_datasets == 6
    assert plain.posterior.equivalent > 0.9
    assert thin.posterior.better > 0.9
    assert "over the datasets, rows @ 1%" in to_markdown(table)
    assert "The counts are of the rows on which both columns are complete and tested." in to_markdown(table)
    assert "The counts are of the datasets on which both columns are complete and tested." in to_markdown(cases["@ 1%"])


@pytest.mark.parametrize(("lengths", "is_said"), [({"a": 7, "b": 5}, False), ({"a": 5, "b": 5}, True)])
def test_the_column_with_most_datasets_says_what_a_correction_leaves(lengths, is_said):
    columns = [TableColumn("ref", "Ref"), *(TableColumn(key, key) for key in lengths)]
    datasets = [f"d{i}" for i in range(7)]
    cells = {
        (dataset, column.key): Cell((0.9 - shift, 0.92 - shift), ((0, 0), (0, 1)), 2)
        if i < lengths.get(column.key, 7)
        else Cell((), (), 2)
        for i, dataset in enumerate(datasets)
        for column, shift in zip(columns, (0.0, 0.05 + 0.001 * i, 0.06 + 0.001 * i))
    }
    table = build_table("t", datasets, columns, cells, "ref", "bayes", 0.5)
    said = any("Holm cannot fall below" in sentence for sentence in over_datasets(table).sentences)
    assert said == is_said


def test_datasets_without_a_fingerprint_are_not_taken_for_the_same_data():
    known = {"a": "f", "b": None, "c": "g", "d": None, "e": "f", "h": "f"}
    assert _repeats(SimpleNamespace(known_fingerprint=known.get), known) == {"e": "a", "h": "a"}
