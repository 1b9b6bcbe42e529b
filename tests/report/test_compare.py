"""Tests of the comparison: against published numbers that were doctored on purpose."""

import io
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opauc_bench.errors import ConfigError
from opauc_bench.report.compare import compare
from opauc_bench.report.compare_render import (
    COMPARISON_FIELDS,
    comparison_to_csv,
    comparison_to_markdown,
    comparison_to_terminal,
)
from opauc_bench.report.metrics import METRICS
from opauc_bench.report.published import Note, Published, PublishedCell, load_published
from opauc_bench.report.table import Cell, TableColumn, build_table

FOLDS = tuple((trial, fold) for trial in range(5) for fold in range(5))
COLUMNS = (TableColumn("opauc", "OPAUC"), TableColumn("oam_seq", "OAM_seq"))
NOTES = (
    Note("The partition is not known.", "explained", datasets=("letter",)),
    Note("Ours is higher.", "unexplained", ("splice",), ("oam_seq",), ours="higher"),
    Note("The mark is impossible.", "mark", ("german",), ("oam_seq",)),
    Note("Both hold.", "explained", ("splice",)),
    Note("Another partition.", "explained", ("usps",)),
)
PRINTED = {
    ("german", "opauc"): PublishedCell(0.80, 0.03),
    ("german", "oam_seq"): PublishedCell(0.75, 0.04, "win"),
    ("letter", "opauc"): PublishedCell(0.81, 0.01),
    ("letter", "oam_seq"): PublishedCell(0.75, 0.03, "win"),
    ("splice", "opauc"): PublishedCell(0.92, 0.01),
    ("splice", "oam_seq"): PublishedCell(0.86, 0.02, "win"),
    ("usps", "opauc"): PublishedCell(0.96, 0.004),
    ("usps", "oam_seq"): PublishedCell(),
}
PUBLISHED = Published(
    name="doctored",
    title="A published table",
    source="Author: Journal. 2000",
    table="Table 9",
    protocol="5 trials of 5-fold cross-validation",
    digits=4,
    reference="opauc",
    columns=COLUMNS,
    datasets=("german", "letter", "splice", "usps"),
    cells=PRINTED,
    win_tie_loss={},
    not_available="no memory",
    remarks=("A remark.",),
    notes=NOTES,
)


def cell(mean, seed=0, std=0.01):
    """Make a complete cell with this mean and this std."""
    noise = np.random.default_rng(seed).normal(size=25)
    noise = (noise - noise.mean()) / noise.std(ddof=1)
    return Cell(tuple(float(auc) for auc in mean + std * noise), FOLDS, 25)


def table_of(means, test="paired", reference="opauc"):
    """Build a table from a mean for each (dataset, column); a status, or None, stands for a cell without folds."""
    missing = {None: Cell((), (), 25)}
    missing |= {status: Cell((), (), 25, {status: 25}) for status in ("unavailable", "failed")}
    cells = {
        key: missing[mean] if mean in missing else cell(mean, seed) for seed, (key, mean) in enumerate(means.items())
    }
    datasets = list(dict.fromkeys(dataset for dataset, _ in means))
    options = {"protocol": PUBLISHED.protocol}
    return build_table("Our table", datasets, list(COLUMNS), cells, reference, test, 0.2, **options)


MEANS = {
    ("german", "opauc"): 0.80,
    ("german", "oam_seq"): 0.80,  # 1.25 stds above, only a note on the mark; the verdict differs
    ("letter", "opauc"): 0.84,  # 3 stds above, explained
    ("letter", "oam_seq"): None,
    ("splice", "opauc"): 0.915,
    ("splice", "oam_seq"): 0.89,  # 1.5 stds above, one note knows no cause
    ("usps", "opauc"): 0.97,  # 2.5 stds above, explained
    ("usps", "oam_seq"): 0.5,  # printed as N/A
}


@pytest.fixture
def comparison():
    return compare(table_of(MEANS), PUBLISHED)


def by_key(comparison):
    return {(cell.dataset, cell.column.key): cell for cell in comparison.cells}


def test_each_cell_has_its_difference_and_standing(comparison):
    cells = by_key(comparison)
    assert {key: cell.standing for key, cell in cells.items()} == {
        ("german", "opauc"): "within",
        ("german", "oam_seq"): "open",
        ("letter", "opauc"): "explained",
        ("letter", "oam_seq"): "not computed",
        ("splice", "opauc"): "within",
        ("splice", "oam_seq"): "open",
        ("usps", "opauc"): "explained",
        ("usps", "oam_seq"): "not published",
    }
    assert cells["letter", "opauc"].difference == pytest.approx(0.03)
    assert cells["letter", "opauc"].deviation == pytest.approx(3)
    assert cells["splice", "opauc"].deviation == pytest.approx(-0.5)
    assert cells["letter", "oam_seq"].difference is None
    assert cells["usps", "oam_seq"].deviation is None


def test_cell_with_a_published_std_of_zero_agrees_where_its_mean_prints_the_same():
    printed = replace(PUBLISHED, cells=PRINTED | {("german", "opauc"): PublishedCell(0.8, 0.0)})
    for mean, deviation in ((0.800001, 0.0), (0.81, np.inf), (0.79, -np.inf)):
        cells = by_key(compare(table_of({**MEANS, ("german", "opauc"): mean}), printed))
        assert cells["german", "opauc"].deviation == deviation


def test_verdicts_agree_differ_or_are_not_comparable(comparison):
    agree = {key: cell.agrees for key, cell in by_key(comparison).items()}
    assert agree["german", "oam_seq"] is False
    assert agree["splice", "oam_seq"] is True
    assert [agree[key] for key in agree if key not in {("german", "oam_seq"), ("splice", "oam_seq")}] == [None] * 6


def test_the_summary_counts(comparison):
    summary = comparison.summary()
    assert (summary.published, summary.compared, summary.absent) == (8, 6, 0)
    assert (summary.not_computed, summary.not_published) == (1, 1)
    assert (summary.within_one, summary.within_two) == (2, 4)
    assert (summary.explained, summary.open) == (2, 2)
    assert (summary.agreeing, summary.verdicts) == (1, 2)
    assert summary.known == 5
    assert summary.sentences()[1:4] == [
        "Within one published std: 2 of 6; within two: 4.",
        "Verdicts agreeing: 1 of 2.",
        "Further than one published std: 4, of which 2 have a known cause and 2 are open.",
    ]


def test_note_for_the_other_side_does_not_apply():
    note = Note("Weights make it higher.", "explained", ("german",), ("oam_seq",), ours="higher")
    published = replace(PUBLISHED, notes=(note,))
    for mean, standing in ((0.80, "explained"), (0.70, "open"), (0.76, "within")):
        comparison = compare(table_of(MEANS | {("german", "oam_seq"): mean}), published)
        assert by_key(comparison)["german", "oam_seq"].standing == standing


def test_cells_outside_our_experiment_are_counted():
    means = {key: mean for key, mean in MEANS.items() if key[0] in ("german", "splice")}
    comparison = compare(table_of(means), PUBLISHED)
    summary = comparison.summary()
    assert (summary.published, summary.compared, summary.absent) == (8, 4, 4)
    assert summary.known == 3, "notes on other datasets are left out"
    assert comparison.numbers(by_key(comparison)["splice", "oam_seq"]) == [1, 3]


def test_tables_without_a_common_cell_are_refused():
    table = table_of({("magic04", "opauc"): 0.8, ("magic04", "oam_seq"): 0.8})
    with pytest.raises(ConfigError, match="no dataset and learner in common with the published doctored") as error:
        compare(table, PUBLISHED)
    assert "aij2016_table2" in error.value.hint


def test_verdicts_from_another_reference_are_not_compared():
    published = load_published("aij2016_table2")
    cells = {("german", column.key): cell(0.8, seed) for seed, column in enumerate(published.columns)}
    for reference, verdicts in (("opauc", 5), ("oam_seq", 0)):
        table = build_table("t", ["german"], list(published.columns), cells, reference, "paired", 0.2)
        comparison = compare(table, published)
        assert comparison.summary().verdicts == verdicts
        assert ("from the side of oam_seq" in comparison.remarks[-1]) == (reference == "oam_seq")


def test_verdicts_of_another_test_have_a_note():
    assert compare(table_of(MEANS), PUBLISHED).remarks == ("A remark.",)
    assert "uncorrected" in compare(table_of(MEANS, "corrected"), PUBLISHED).remarks[-1]


def test_another_protocol_has_notes():
    thinned = "10% of the training rows are positive: the others are left out."
    table = replace(table_of(MEANS), protocol="10 trials of random splits 4 : 1 : 1", protocol_notes=(thinned,), ddof=1)
    assert compare(table, replace(PUBLISHED, ddof=0)).remarks == (
        "A remark.",
        f"Our values are of 10 trials of random splits 4 : 1 : 1, the printed ones of {PUBLISHED.protocol}.",
        "Our std divides by n - 1, the printed one by n.",
        thinned,
    )


def test_a_published_auc_has_the_digits_that_are_printed():
    (cell, *_) = compare(table_of(MEANS), PUBLISHED).cells
    assert replace(cell, metric=METRICS["auc"]).printed_metric.text(0.8) == ".8000"
    assert replace(cell, metric=METRICS["auc"], digits=5).printed_metric.text(0.8) == ".80000"
    assert replace(cell, metric=METRICS["sparse_ratio"], digits=5).printed_metric.text(0.8) == ".8000"


def test_verdicts_of_the_bayesian_test_are_not_compared_with_printed_ones():
    comparison = compare(table_of(MEANS, "bayes"), PUBLISHED)
    assert "Bayesian" in comparison.remarks[-1]
    assert {cell.agrees for cell in comparison.cells} == {None}
    assert not any("Verdicts agreeing" in sentence for sentence in comparison.summary().sentences())


TERMINAL = """\
Our table: ours beside the published values

Published: Author: Journal. 2000, Table 9

           ours             published        diff    stds   agree  notes
german
  OPAUC    .8000 ± .0100    .8000 ± .0300    +.0000  +0.00  -
  OAM_seq  .8000 ± .0100    .7500 ± .0400 •  +.0500  +1.25  no     3
letter
  OPAUC    .8400 ± .0100    .8100 ± .0100    +.0300  +3.00  -      1
  OAM_seq  … 0/25           .7500 ± .0300 •  -       -      -      1
splice
  OPAUC    .9150 ± .0100    .9200 ± .0100    -.0050  -0.50  -      4
  OAM_seq  .8900 ± .0100 •  .8600 ± .0200 •  +.0300  +1.50  yes    2, 4
usps
  OPAUC    .9700 ± .0100    .9600 ± .0040    +.0100  +2.50  -      5
  OAM_seq  .5000 ± .0100 •  N/A              -       -      -      5

Further than one published std:
- german, OAM_seq: ours .8000 ± .0100, published .7500 ± .0400 •, difference
  +.0500 (+1.25 published stds): open
- letter, OPAUC: ours .8400 ± .0100, published .8100 ± .0100, difference +.0300
  (+3.00 published stds): explained, see note 1
- splice, OAM_seq: ours .8900 ± .0100 •, published .8600 ± .0200 •, difference
  +.0300 (+1.50 published stds): open, see notes 2, 4
- usps, OPAUC: ours .9700 ± .0100, published .9600 ± .0040, difference +.0100
  (+2.50 published stds): explained, see note 5

Remarks:
- A remark.
- Printed as N/A: no memory.

Notes:
1. letter: The partition is not known.
2. splice; OAM_seq: Ours is higher. Cause unknown.
3. german; OAM_seq: The mark is impossible.
4. splice: Both hold.
5. usps: Another partition.

Compared: 6 of 8 published cells (1 not computed, 1 printed as N/A, 0 not in
this experiment).
"""


def test_terminal(comparison):
    assert comparison_to_terminal(comparison).startswith(TERMINAL)


def test_markdown(comparison):
    lines = comparison_to_markdown(comparison).split("\n")
    assert lines[0] == "**Our table: ours beside the published values**"
    rows = [[part.strip() for part in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    assert rows[0][:4] == ["datasets", "method", "ours", "published"]
    values = [".8000 ± .0100", ".7500 ± .0400 •", "+.0500", "+1.25", "no"]
    assert rows[3] == ["german", "OAM\\_seq", *values, "3", "open"]
    assert len(rows) == 2 + len(comparison.cells)
    assert "- Verdicts agreeing: 1 of 2." in lines
    assert "2. splice; OAM\\_seq: Ours is higher. Cause unknown." in lines


def test_csv(comparison):
    frame = pd.read_csv(io.StringIO(comparison_to_csv(comparison)))
    assert tuple(frame.columns) == COMPARISON_FIELDS
    rows = frame.set_index(["dataset", "column"])
    row = rows.loc["splice", "oam_seq"]
    assert (row["published_mean"], row["published_std"], row["published_verdict"]) == (0.86, 0.02, "win")
    assert (row["difference"], row["deviation"]) == (0.03, 1.5)
    assert (row["standing"], row["verdicts_agree"], row["status"]) == ("open", "yes", "ok")
    assert row["notes"] == "Ours is higher. Both hold."
    assert pd.isna(rows.loc["letter", "oam_seq"]["ours_mean"])
    assert rows.loc["letter", "oam_seq"]["status"] == "pending"


def test_no_distant_cell_is_reported_as_such():
    means = {key: printed.mean or 0.5 for key, printed in PRINTED.items()}
    text = comparison_to_terminal(compare(table_of(means), PUBLISHED))
    assert "Further than one published std:\n- none\n" in text


def test_datasets_without_any_record_are_only_named():
    means = {key: printed.mean if key[0] == "splice" else None for key, printed in PRINTED.items()}
    text = comparison_to_terminal(compare(table_of(means), PUBLISHED))
    others = list(dict.fromkeys(dataset for dataset, _ in PRINTED if dataset != "splice"))
    assert f"Not computed yet: {', '.join(others)}\n" in text
    assert "splice\n" in text
    assert not any(f"\n{other}\n" in text for other in others)
    assert "Not computed" not in comparison_to_terminal(compare(table_of(dict.fromkeys(PRINTED, 0.5)), PUBLISHED))


def test_unavailable_datasets_are_only_named():
    states = {"splice": 0.5, "german": "unavailable", "letter": None, "usps": "failed"}
    means = {(dataset, column): states[dataset] for dataset, column in PRINTED}
    text = comparison_to_terminal(compare(table_of(means), PUBLISHED))
    for line in ("Not computed yet: letter", "Data unavailable: german", "splice", "usps"):
        assert f"\n{line}\n" in text
    assert "\ngerman\n" not in text
    half = {("letter", "opauc"): None, ("letter", "oam_seq"): "unavailable"}
    assert "Not computed yet: letter\n" in comparison_to_terminal(compare(table_of(half), PUBLISHED))


@pytest.mark.parametrize("name", ["aij2016_table2", "aij2016_table3", "aij2016_table4", "aij2016_table6"])
@pytest.mark.parametrize("shift", [0.0, 0.003])
def test_the_published_tables_fit_eighty_columns(name, shift):
    published = load_published(name)
    cells = {
        key: Cell((), (), 25) if printed.mean is None else cell(printed.mean - shift, seed, 0.0005)
        for seed, (key, printed) in enumerate(published.cells.items())
    }
    table = build_table(
        published.title,
        list(published.datasets),
        list(published.columns),
        cells,
        published.reference,
        "paired",
        0.2,
    )
    comparison = compare(table, published)
    lines = comparison_to_terminal(comparison).split("\n")
    assert max(map(len, lines)) <= 80
    assert not any(line.endswith(" ") for line in lines)
    summary = comparison.summary()
    assert summary.compared == sum(printed.mean is not None for printed in published.cells.values())
    if shift == 0:
        assert summary.within_one == summary.compared
    else:
        distant = sum(printed.mean is not None and printed.std < shift for printed in published.cells.values())
        assert summary.explained + summary.open == distant > 0


@given(st.lists(st.none() | st.integers(0, 90).map(lambda k: 0.05 + k / 100), min_size=8, max_size=8))
def test_every_cell_has_a_standing_and_the_counts_add_up(means):
    comparison = compare(table_of(dict(zip(PRINTED, means))), PUBLISHED)
    summary = comparison.summary()
    assert summary.compared + summary.not_computed + summary.not_published + summary.absent == summary.published
    assert summary.within_one + summary.explained + summary.open == summary.compared
    assert summary.within_one <= summary.within_two <= summary.compared
    assert summary.agreeing <= summary.verdicts <= summary.compared
    assert len(comparison.distant()) == summary.explained + summary.open


def test_a_value_just_one_published_std_away_is_within(comparison):
    cell = by_key(comparison)["german", "opauc"]
    for mean, standing in ((0.5, "within"), (1.0, "within"), (0.4375, "open")):
        moved = replace(cell, ours=replace(cell.ours, mean=mean), published=PublishedCell(0.75, 0.25))
        assert moved.standing == standing
