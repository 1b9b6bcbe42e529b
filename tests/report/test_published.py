"""Tests of the transcribed tables: the printed counts recount the marks, and the numbers are possible."""

from collections import Counter
from importlib import resources

import pytest
import yaml

from opauc_bench.errors import ConfigError
from opauc_bench.report.published import Note, list_published, load_published

NAMES = ["aij2016_table2", "aij2016_table3", "aij2016_table4", "aij2016_table6", "arxiv2013_table5"]
FTRL_NAMES = ["ftrl_table2", "ftrl_table3"]

# Read from the printed tables with the eye, not taken from the data files.
SPOT_CHECKS = [
    ("aij2016_table2", "splice", "uni_exp", 0.8931, 0.0213, "win"),
    ("aij2016_table2", "w8a", "uni_exp", 0.9093, 0.0986, "win"),
    ("aij2016_table2", "acoustic", "uni_log", 0.8206, 0.0035, "tie"),
    ("aij2016_table2", "epsilon", "opauc", 0.9550, 0.0007, None),
    ("aij2016_table3", "magic04", "ls_svm", 0.8379, 0.0078, "tie"),
    ("aij2016_table3", "connect-4", "batch_uni_log", 0.8784, 0.0026, "loss"),
    ("aij2016_table3", "covtype", "svm_perf", 0.8271, 0.0011, "loss"),
    ("aij2016_table3", "epsilon", "batch_uni_log", 0.8647, 0.0150, "win"),
    ("aij2016_table4", "letter.rff", "oam_seq", 0.9370, 0.0046, "tie"),
    ("aij2016_table4", "acoustic.rff", "opauc_rp", 0.8256, 0.0029, "win"),
    ("aij2016_table4", "magic04.rff", "opauc_r", 0.8863, 0.1591, "win"),
    ("aij2016_table6", "sector.lvr", "opauc_fd", 0.9965, 0.0358, "win"),
    ("aij2016_table6", "rcv1v2", "uni_exp", 0.9822, 0.0042, "loss"),
    ("aij2016_table6", "ecml2012", "opauc_r", 0.9828, 0.0008, "tie"),
    ("aij2016_table6", "news20.binary", "opauc_feat", 0.5068, 0.0086, "win"),
    ("arxiv2013_table5", "rcv1v2", "opauc_pca", 0.9752, 0.0020, "loss"),
    ("arxiv2013_table5", "sector", "oam_gra", 0.9043, 0.0100, "win"),
]


@pytest.fixture(params=NAMES)
def published(request):
    return load_published(request.param)


def recount(published):
    """Count the marks of each column but the reference, as (win, tie, loss)."""
    counts = {column.key: Counter() for column in published.columns if column.key != published.reference}
    for (_, column), cell in published.cells.items():
        if cell.verdict:
            counts[column][cell.verdict] += 1
    return {column: (count["win"], count["tie"], count["loss"]) for column, count in counts.items()}


def test_the_tables_are_listed():
    assert list_published() == [*NAMES, *FTRL_NAMES]


def test_an_unknown_table_is_a_config_error_with_a_suggestion():
    with pytest.raises(ConfigError, match="aij2016_tabel2") as error:
        load_published("aij2016_tabel2")
    assert "did you mean 'aij2016_table2'?" in error.value.message
    assert "aij2016_table6" in error.value.hint


@pytest.mark.parametrize(("name", "n_triples"), [("aij2016_table2", 5), ("aij2016_table3", 5)])
def test_the_printed_counts_recount_the_marks(name, n_triples):
    published = load_published(name)
    assert len(published.win_tie_loss) == n_triples
    assert recount(published) == published.win_tie_loss


def test_tables_without_printed_counts_have_the_marks_that_the_text_claims():
    # Section 7.2: OPAUC_fd "wins most times and never loses".
    assert all(loss == 0 for _, _, loss in recount(load_published("aij2016_table4")).values())
    counts = recount(load_published("aij2016_table6"))
    assert counts["uni_squ"] == (5, 0, 3)
    assert counts["oam_seq"] == (7, 0, 0)


@pytest.mark.parametrize(("name", "dataset", "column", "mean", "std", "verdict"), SPOT_CHECKS)
def test_cells_equal_values_read_from_the_paper(name, dataset, column, mean, std, verdict):
    cell = load_published(name).cells[dataset, column]
    assert (cell.mean, cell.std, cell.verdict) == (mean, std, verdict)


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("aij2016_table2", set()),
        ("aij2016_table3", set()),
        ("aij2016_table4", {("magic04.rff", "opauc_pca"), ("ijcnn1.rff", "opauc_pca"), ("acoustic.rff", "opauc_pca")}),
        (
            "aij2016_table6",
            {("ecml2012", "oam_seq"), ("ecml2012", "opauc_pca"), ("news20.binary", "opauc_pca")},
        ),
    ],
)
def test_cells_printed_as_not_available(name, cells):
    published = load_published(name)
    assert {key for key, cell in published.cells.items() if cell.mean is None} == cells
    assert bool(published.not_available) == bool(cells)


def test_the_tables_are_complete_and_possible(published):
    keys = [column.key for column in published.columns]
    assert keys[0] == published.reference
    assert list(published.cells) == [(dataset, key) for dataset in published.datasets for key in keys]
    for (_, column), cell in published.cells.items():
        if cell.mean is None:
            assert cell.std is None
            assert cell.verdict is None
            continue
        assert 0.5 < cell.mean < 1
        assert 0 < cell.std < 0.2
        assert round(cell.mean, 4) == cell.mean
        assert round(cell.std, 4) == cell.std
        assert (cell.verdict is None) == (column == published.reference)


@pytest.mark.parametrize(("name", "shape"), list(zip(NAMES, [(16, 6), (16, 6), (5, 12), (8, 12), (6, 8)])))
def test_the_shapes_are_those_of_the_paper(name, shape):
    published = load_published(name)
    assert (len(published.datasets), len(published.columns)) == shape


def test_tables_2_and_3_share_datasets_and_the_opauc_column():
    two, three = load_published("aij2016_table2"), load_published("aij2016_table3")
    assert two.datasets == three.datasets
    assert all(two.cells[dataset, "opauc"] == three.cells[dataset, "opauc"] for dataset in two.datasets)


def test_the_table_of_2013_is_part_of_that_of_2016():
    old, new = load_published("arxiv2013_table5"), load_published("aij2016_table6")
    for key, cell in old.cells.items():
        assert (cell.mean, cell.std) == (new.cells[key].mean, new.cells[key].std), key


def test_no_mark_contradicts_its_means(published):
    for (dataset, column), cell in published.cells.items():
        reference = published.cells[dataset, published.reference].mean
        if cell.verdict == "win":
            assert cell.mean < reference, (dataset, column)
        if cell.verdict == "loss":
            assert cell.mean > reference, (dataset, column)


def test_marks_that_no_paired_t_test_can_give_are_exactly_those_with_a_note(published):
    # The std of the differences is at least the difference of the stds, which bounds |t| over 25 pairs.
    critical, rounding = 2.0639, 0.0001
    impossible = set()
    for (dataset, column), cell in published.cells.items():
        reference = published.cells[dataset, published.reference]
        if cell.verdict in ("win", "loss"):
            spread = abs(reference.std - cell.std) - rounding
            if 5 * (abs(reference.mean - cell.mean) + rounding) < critical * spread:
                impossible.add((dataset, column))
    noted = {
        (dataset, column)
        for note in published.notes
        if note.kind == "mark"
        for dataset in note.datasets
        for column in note.columns
    }
    assert impossible == noted


def test_notes_name_cells_that_exist(published):
    datasets, columns = set(published.datasets), {column.key for column in published.columns}
    for note in published.notes:
        assert set(note.datasets) <= datasets, note
        assert set(note.columns) <= columns, note
        assert note.datasets or note.columns, "what holds for the whole table is a remark"
        assert note.kind in ("explained", "unexplained", "mark")
        assert note.ours in (None, "higher", "lower")
        assert note.text.endswith(".")


def test_a_note_concerns_its_cells_only():
    published = load_published("aij2016_table2")
    texts = [note.text for note in published.notes_on("w8a", "uni_exp")]
    assert len(texts) == 2
    assert "arXiv:1305.1363 prints .7693" in texts[0]
    assert "unweighted" in texts[1]
    assert published.notes_on("german", "uni_exp") == ()
    shared = load_published("aij2016_table3").notes_on("german", "svm_or")
    assert [note.columns for note in shared] == [("svm_perf", "svm_or")]


@pytest.mark.parametrize(
    ("kind", "ours", "higher", "lower"),
    [
        ("explained", None, True, True),
        ("explained", "higher", True, False),
        ("unexplained", "lower", False, True),
        ("mark", None, False, False),
    ],
)
def test_a_note_expects_a_side(kind, ours, higher, lower):
    note = Note("Text.", kind, ours=ours)
    assert note.expects(0.01) is higher
    assert note.expects(-0.01) is lower


@pytest.mark.parametrize("name", NAMES)
def test_no_key_of_a_file_is_given_twice(name):
    text = resources.files("opauc_bench.report.published").joinpath(f"{name}.yaml").read_text("utf-8")

    def check(node):
        if isinstance(node, yaml.MappingNode):
            keys = [key.value for key, _ in node.value]
            assert len(keys) == len(set(keys)), keys
            for _, value in node.value:
                check(value)
        elif isinstance(node, yaml.SequenceNode):
            for value in node.value:
                check(value)

    check(yaml.compose(text))
