"""Figures from samples: what is averaged, what a line is, what the CSV and the terminal say, and what is drawn."""

import csv
import hashlib
import io
import itertools
import re
import statistics
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import same_color

from opauc_bench.figures import FigureEntry
from opauc_bench.learners import LEARNERS
from opauc_bench.report.figure import FigureCell, Sample, build_figure
from opauc_bench.report.figure_draw import _scale, _text, draw, render
from opauc_bench.report.figure_style import LEARNER_STYLES, style_of
from opauc_bench.report.figure_text import figure_to_csv, figure_to_terminal
from opauc_bench.report.table import TableColumn
from opauc_bench.report.text import power_of_two, value_label, value_text
from opauc_bench.report.write import figure_files, write_files

NAN = float("nan")
ETAS, LAMS = [0.25, 0.5, 1.0], [0.125, 4.0]
OPAUC, OAM = TableColumn("opauc", "OPAUC", "opauc"), TableColumn("oam_seq", "OAM_seq", "oam_seq")


def swept(shift=0.0, validation=False):
    """A sample of a sweep whose AUC is .5 + eta / 10 + lam / 100 + shift, and whose last eta overflows with lam 4."""
    eta, lam = (part.ravel().tolist() for part in np.meshgrid(ETAS, LAMS, indexing="ij"))
    auc = [0.5 + e / 10 + l / 100 + shift for e, l in zip(eta, lam)]
    auc[-1] = NAN
    measured = {"auc": auc, "sparse_ratio": [e / 2 for e in eta]}
    if validation:
        measured["validation_auc"] = [0.9 - l / 10 for l in lam]
    return Sample({"eta": eta, "lam": lam}, measured)


def passed(shift=0.0):
    """A sample of three points along a pass."""
    exact, seen = {"point": [0, 1, 2]}, [10, 20, 30]
    return Sample(exact, {"n_seen": seen, "auc": [0.5 + shift, 0.6 + shift, 0.7], "seconds": [1.0, 2.0, 4.0 + shift]})


def timed(seconds):
    return Sample({"point": [0]}, {"seconds": [seconds]})


def cell(*samples, expected=None, **statuses):
    return FigureCell(samples, len(samples) + sum(statuses.values()) if expected is None else expected, statuses)


def rows_of(figure):
    return list(csv.DictReader(io.StringIO(figure_to_csv(figure))))


SWEEP = FigureEntry(name="f", x="eta", y="auc", x_scale="log2")
PASS = FigureEntry(name="f", x="n_seen", y="auc")
TIME = FigureEntry(name="f", x="dataset", y="seconds", y_scale="log10")


@pytest.fixture
def sweep_figure():
    return build_figure(SWEEP, ["d"], [OPAUC], {("d", "opauc"): cell(swept(), swept(0.02))})


@pytest.fixture
def pass_figure():
    return figure_of_passes()


def figure_of_passes():
    cells = {(d, c.key): cell(passed(), passed(0.1)) for d in ("one", "two") for c in (OPAUC, OAM)}
    return build_figure(PASS, ["one", "two"], [OPAUC, OAM], cells)


@pytest.fixture
def time_figure():
    cells = {
        ("one", "opauc"): cell(timed(1.0), timed(3.0)),
        ("one", "oam_seq"): cell(timed(0.1), timed(0.3)),
        ("two", "opauc"): cell(timed(100.0), expected=2),
        ("two", "oam_seq"): cell(timed(10.0), timed(30.0)),
        ("three", "opauc"): cell(unavailable=2),
        ("three", "oam_seq"): cell(unavailable=2),
    }
    return build_figure(TIME, ["one", "two", "three"], [OPAUC, OAM], cells)


# ---------------------------------------------------------------------- points and lines


def test_a_sweep_has_a_line_for_each_value_of_the_other_axis(sweep_figure):
    (panel,) = sweep_figure.panels
    assert [(line.setting, line.label, line.variant) for line in panel.lines] == [
        ({"lam": 0.125}, "λ = 2⁻³", 0),
        ({"lam": 4.0}, "λ = 4", 1),
    ]
    assert [point.x for point in panel.lines[0].points] == ETAS
    auc = [0.5 + 0.025 + 0.00125, 0.5 + 0.025 + 0.00125 + 0.02]
    point = panel.lines[0].points[0]
    assert point.y == pytest.approx(statistics.fmean(auc), abs=1e-15)
    assert point.y_std == pytest.approx(statistics.stdev(auc), abs=1e-15)
    assert (point.n, point.expected) == (2, 2)


def test_a_point_without_all_its_repetitions_has_no_mean(sweep_figure):
    last = sweep_figure.panels[0].lines[1].points[-1]
    assert (last.x, last.n, last.expected, last.complete) == (1.0, 0, 2, False)
    assert np.isnan(last.y)
    pending = build_figure(SWEEP, ["d"], [OPAUC], {("d", "opauc"): cell(swept(), expected=25)})
    assert not any(point.complete for line in pending.panels[0].lines for point in line.points)
    assert pending.notes == ("1 of 25 done: d",)


def test_other_axes_are_selected_by_validation_per_repetition_and_point():
    spec = FigureEntry(name="f", x="auc", y="sparse_ratio", along="eta", others="validation")
    figure = build_figure(spec, ["d"], [OPAUC], {("d", "opauc"): cell(swept(0, True), swept(0.02, True))})
    (line,) = figure.panels[0].lines
    assert line.setting == {}
    # lam = .125 validates better everywhere.
    expected = [0.5 + eta / 10 + 0.00125 + 0.01 for eta in ETAS]
    assert [point.x for point in line.points] == pytest.approx(expected, abs=1e-15)
    assert [point.y for point in line.points] == [eta / 2 for eta in ETAS]
    assert not figure.exact_x


def test_a_column_without_the_axis_that_lines_follow_is_a_point():
    spec = FigureEntry(name="f", x="auc", y="sparse_ratio", along="l1", others="validation")
    (line,) = build_figure(spec, ["d"], [OPAUC], {("d", "opauc"): cell(swept(0, True))}).panels[0].lines
    assert [point.x for point in line.points] == pytest.approx([0.52625])


def test_csv_has_the_axis_that_lines_follow():
    spec = FigureEntry(name="f", x="auc", y="sparse_ratio", along="eta")
    other = TableColumn("other", "Other", "other")
    single = Sample({"lam": [4.0]}, {"auc": [0.5], "sparse_ratio": [1.0]})
    figure = build_figure(spec, ["d"], [OPAUC, other], {("d", "opauc"): cell(swept()), ("d", "other"): cell(single)})
    rows = rows_of(figure)
    assert list(rows[0])[2:5] == ["lam", "eta", "auc_mean"]
    assert [row["eta"] for row in rows] == [*map(str, ETAS), *map(str, ETAS), ""]
    assert figure.notes == ("points without a line, since eta is not tuned: other",)


def test_validation_ties_select_the_first_finite_setting():
    exact = {"a": [1.0] * 4, "b": [1.0, 2.0, 3.0, 4.0]}
    measured = {"auc": [0.1, 0.2, 0.3, 0.4], "validation_auc": [NAN, 0.7, 0.7 + 1e-14, 0.6], "sparse_ratio": [1.0] * 4}
    spec = FigureEntry(name="f", x="a", y="auc", others="validation")
    (line,) = build_figure(spec, ["d"], [OPAUC], {("d", "opauc"): cell(Sample(exact, measured))}).panels[0].lines
    assert [point.y for point in line.points] == [0.2]


def test_columns_of_one_learner_are_points_of_a_line_where_x_is_a_parameter():
    columns = [TableColumn(f"r{tau}", "OPAUC_r", "opauc_r", {"tau": tau}) for tau in (10, 20)]
    cells = {("d", f"r{tau}"): cell(Sample({}, {"auc": [tau / 100]}), Sample({}, {"auc": [0.3]})) for tau in (10, 20)}
    figure = build_figure(FigureEntry(name="f", x="tau", y="auc"), ["d"], columns, cells)
    (line,) = figure.panels[0].lines
    assert (line.label, line.variant) == ("OPAUC_r", 0)
    assert [(point.x, point.y) for point in line.points] == [(10, 0.2), (20, 0.25)]
    assert [(row["column"], row["tau"]) for row in rows_of(figure)] == [("r10", "10.0"), ("r20", "20.0")]


@pytest.mark.parametrize("delta", [1, 2])
def test_columns_with_the_same_x_are_points_of_a_line_for_each_value_of_the_other_parameters(delta):
    """They were one line that went back and forth. Parameters that are equal in all columns are not named."""
    columns = [
        TableColumn(f"{how}{tau}", f"{how} {tau}", "opauc_r", {"algorithm": how, "tau": tau, "delta": delta})
        for how in ("plain", "implicit")
        for tau in (10, 20)
    ]
    cells = {("d", column.key): cell(Sample({}, {"auc": [0.5]})) for column in columns}
    spec = FigureEntry(name="f", x="tau", y="auc")
    lines = build_figure(spec, ["d"], columns, cells).panels[0].lines
    assert [(line.label, [point.x for point in line.points]) for line in lines] == [
        ("opauc_r, algorithm plain", [10, 20]),
        ("opauc_r, algorithm implicit", [10, 20]),
    ]
    twice = [columns[0], replace(columns[0], key="again", markup="again")]
    cells["d", "again"] = cells["d", "plain10"]
    assert [line.label for line in build_figure(spec, ["d"], twice, cells).panels[0].lines] == ["plain 10", "again"]


def test_lines_of_columns_with_the_same_title_have_different_labels():
    columns = [TableColumn(f"c{delta}", "OPAUC_r", "opauc_r", {"delta": delta, "tau": 10}) for delta in (1, 2)]
    columns.append(replace(columns[1], key="again"))
    cells = {("d", column.key): cell(Sample({"eta": [1.0]}, {"auc": [0.5]})) for column in columns}

    def labels(columns, x="eta"):
        lines = build_figure(FigureEntry(name="f", x=x, y="auc"), ["d"], columns, cells).panels[0].lines
        return [line.label for line in lines]

    assert labels(columns[:1]) == ["OPAUC_r"]
    assert labels(columns[:2]) == ["OPAUC_r (delta 1)", "OPAUC_r (delta 2)"]
    assert labels(columns) == ["OPAUC_r (c1)", "OPAUC_r (c2)", "OPAUC_r (again)"]
    cells |= {place: cell(Sample({}, {"auc": [0.5]})) for place in cells}
    several = [
        replace(columns[0], key=f"{delta}_{tau}", params={"delta": delta, "tau": tau})
        for delta in (1, 2)
        for tau in (3, 4)
    ]
    cells |= {("d", column.key): cells["d", "c1"] for column in several}
    assert labels(several, "tau") == ["opauc_r, delta 1", "opauc_r, delta 2"]


def test_columns_are_no_points_of_a_line_where_a_column_tunes_the_parameter():
    fixed = TableColumn("fixed", "OPAUC fixed", "opauc", {"eta": 2.0})
    single = Sample({"lam": [4.0]}, {"auc": [0.5]})
    cells = {("d", "opauc"): cell(swept(), swept()), ("d", "fixed"): cell(single, single)}
    lines = build_figure(SWEEP, ["d"], [OPAUC, fixed], cells).panels[0].lines
    assert [(line.column, line.label, [point.x for point in line.points]) for line in lines] == [
        ("opauc", "OPAUC, λ = 2⁻³", ETAS),
        ("opauc", "OPAUC, λ = 4", ETAS),
        ("fixed", "OPAUC fixed, λ = 4", [2.0]),
    ]


def test_a_line_of_columns_with_different_titles_has_the_name_of_their_learner():
    columns = [TableColumn(f"r{tau}", f"τ is {tau}", "opauc_r", {"tau": tau}) for tau in (10, 20)]
    cells = {(d, c.key): cell(Sample({}, {"auc": [0.5]})) for d in ("one", "two") for c in columns}
    cells["two", "r20"] = cell(expected=1)
    figure = build_figure(FigureEntry(name="f", x="tau", y="auc"), ["one", "two"], columns, cells)
    assert [[line.label for line in panel.lines] for panel in figure.panels] == [["opauc_r"], ["opauc_r"]]
    assert draw(figure).legends == [], "a line that ends with another column is the same line"


def test_columns_without_numbers_for_a_figure_are_named():
    lacking, undefined = TableColumn("lr", "LR", "lr"), TableColumn("knn", "KNN", "knn")
    cells = {("d", "opauc"): cell(swept(0, True)), ("d", "lr"): cell(Sample({"C": [1.0]}, {"auc": [0.5]}))}
    figure = build_figure(SWEEP, ["d"], [OPAUC, lacking], cells)
    assert {line.column for line in figure.panels[0].lines} == {"opauc"}
    assert figure.notes == ("not drawn, since eta is not tuned: lr",)
    cells["d", "knn"] = cell(Sample({"eta": ETAS}, {"auc": [0.5] * 3, "sparse_ratio": [NAN] * 3}))
    figure = build_figure(FigureEntry(name="f", x="eta", y="sparse_ratio"), ["d"], [OPAUC, undefined], cells)
    assert {line.column for line in figure.panels[0].lines} == {"opauc"}
    assert figure.notes == ("not drawn, since sparse_ratio is not defined: knn",)


def test_a_measured_x_is_averaged_too(pass_figure):
    time = build_figure(
        FigureEntry(name="f", x="seconds", y="auc"), ["d"], [OPAUC], {("d", "opauc"): cell(passed(), passed(0.2))}
    )
    last = time.panels[0].lines[0].points[-1]
    assert (last.x, last.y, last.y_std) == (pytest.approx(4.1), 0.7, 0.0)
    assert last.x_std == pytest.approx(0.2 / 2**0.5)
    assert [panel.dataset for panel in pass_figure.panels] == ["one", "two"]


@pytest.mark.parametrize("along", ["", "eta"])
def test_drawn_lines_follow_the_axis_whatever_the_order_of_the_grid(along):
    auc = {0.1: 0.6, 0.001: 0.7, 1.0: 0.5, 0.01: 0.65}
    measured = {"auc": list(auc.values()), "sparse_ratio": [0.5, 0.2, 0.1, 0.4]}
    spec = FigureEntry(name="f", x="sparse_ratio" if along else "eta", y="auc", along=along)
    figure = build_figure(spec, ["d"], [OPAUC], {("d", "opauc"): cell(Sample({"eta": list(auc)}, measured))})
    (line, *_) = draw(figure).axes[0].lines
    assert list(line.get_ydata()) == [auc[eta] for eta in sorted(auc)]


def test_the_divisor_of_the_standard_deviation():
    cells = {("d", "opauc"): cell(timed(1.0), timed(3.0))}
    points = [build_figure(TIME, ["d"], [OPAUC], cells, ddof).panels[0].lines[0].points[0] for ddof in (0, 1)]
    assert [point.y_std for point in points] == [1.0, pytest.approx(2**0.5)]


def test_one_repetition_has_no_standard_deviation():
    for ddof in (0, 1):
        figure = build_figure(TIME, ["d"], [OPAUC], {("d", "opauc"): cell(timed(2.0))}, ddof)
        point = figure.panels[0].lines[0].points[0]
        assert point.y == 2.0
        assert np.isnan(point.y_std)
        assert rows_of(figure)[0]["seconds_std"] == ""
    assert render(figure)


def test_notes_name_what_is_not_drawn(time_figure):
    assert time_figure.notes == ("1 of 2 done: two (opauc)", "data unavailable: three")
    failed = build_figure(TIME, ["d"], [OPAUC], {("d", "opauc"): cell(timed(1.0), timeout=1)})
    assert failed.notes == ("time limit reached in 1 of 2: d",)


@given(st.lists(st.lists(st.floats(0, 1), min_size=3, max_size=3), min_size=2, max_size=6))
def test_means_equal_a_slow_loop(tables):
    samples = [Sample({"eta": ETAS}, {"auc": table}) for table in tables]
    (line,) = build_figure(SWEEP, ["d"], [OPAUC], {("d", "opauc"): cell(*samples)}).panels[0].lines
    for k, point in enumerate(line.points):
        values = [table[k] for table in tables]
        assert point.y == pytest.approx(sum(values) / len(values), abs=1e-12)
        mean = sum(values) / len(values)
        variance = sum((value - mean) ** 2 for value in values) / (len(values) - 1)
        assert point.y_std == pytest.approx(variance**0.5, abs=1e-7)


# ---------------------------------------------------------------------- CSV and terminal


def test_csv_has_a_row_for_each_point(sweep_figure, time_figure):
    rows = rows_of(sweep_figure)
    assert len(rows) == 6
    assert list(rows[0]) == ["dataset", "column", "lam", "eta", "auc_mean", "auc_std", "n", "expected"]
    assert (rows[0]["lam"], rows[0]["eta"], rows[0]["n"]) == ("0.125", "0.25", "2")
    assert float(rows[0]["auc_mean"]) == sweep_figure.panels[0].lines[0].points[0].y
    assert (rows[5]["auc_mean"], rows[5]["auc_std"], rows[5]["n"], rows[5]["expected"]) == ("", "", "0", "2")
    times = rows_of(time_figure)
    assert [(row["dataset"], row["column"]) for row in times] == [
        ("one", "opauc"),
        ("two", "opauc"),
        ("one", "oam_seq"),
        ("two", "oam_seq"),
    ]
    assert [row["seconds_mean"] for row in times] == ["2.0", "", "0.2", "20.0"]


def test_csv_of_a_measured_x_has_its_mean_and_std(pass_figure):
    rows = rows_of(pass_figure)
    assert list(rows[0])[2:4] == ["n_seen_mean", "n_seen_std"]
    assert (rows[0]["n_seen_mean"], rows[0]["n_seen_std"]) == ("10.0", "0.0")


def test_terminal_text_fits_the_width(sweep_figure, pass_figure, time_figure):
    many = [TableColumn(f"c{k}", f"learner number {k}", f"c{k}") for k in range(12)]
    cells = {(f"dataset {d}", c.key): cell(timed(1.0)) for d in range(3) for c in many}
    wide = build_figure(TIME, [f"dataset {d}" for d in range(3)], many, cells)
    for figure in (sweep_figure, pass_figure, time_figure, wide):
        text = figure_to_terminal(figure, 80)
        assert max(map(len, text.splitlines())) <= 80
    assert "learner number 11" in figure_to_terminal(wide)


def test_terminal_text_names_the_points(sweep_figure, pass_figure, time_figure):
    text = figure_to_terminal(sweep_figure)
    assert "d: test AUC by step size η" in text
    assert re.search(r"λ = 4 +\.5750 +\.6000 +- 0/2", text)
    assert re.search(r"OPAUC +\.5500 at 10 +\.6500 at 20 +\.7000 at 30", figure_to_terminal(pass_figure))
    assert re.search(r"two +- 1/2 +20\b", figure_to_terminal(time_figure))
    assert "data unavailable: three" in figure_to_terminal(time_figure)


def test_terminal_text_has_each_value_below_its_x():
    grids = {"opauc": [0.001, 0.01, 0.1], "oam_seq": [0.1, 1.0, 10.0]}
    samples = {key: Sample({"eta": etas}, {"auc": [eta / 20 for eta in etas]}) for key, etas in grids.items()}
    text = figure_to_terminal(
        build_figure(SWEEP, ["d"], [OPAUC, OAM], {("d", key): cell(found) for key, found in samples.items()})
    )
    assert [line.split() for line in text.splitlines()[1:]] == [
        ["0.001", "0.01", "0.1", "1", "10"],
        ["OPAUC", "5e-05", "0.0005", ".0050", "-", "-"],
        ["OAM_seq", "-", "-", ".0050", ".0500", ".5000"],
    ]


def test_terminal_text_has_the_last_point_of_each_line():
    longer = Sample({"point": list(range(9))}, {"n_seen": list(range(1, 10)), "auc": [0.1] * 8 + [0.2]})
    short = Sample({"point": [0, 1]}, {"n_seen": [4, 8], "auc": [0.3, 0.4]})
    text = figure_to_terminal(
        build_figure(PASS, ["d"], [OPAUC, OAM], {("d", "opauc"): cell(longer), ("d", "oam_seq"): cell(short)})
    )
    assert [line.split(maxsplit=1)[1] for line in text.splitlines()[1:]] == [
        ".1000 at 1  .1000 at 5  .2000 at 9",
        ".3000 at 4  .4000 at 8",
    ]


def test_values_as_text():
    assert [value_text(2.0**k) for k in (-10, -1, 0, 1, 3, 4, 10)] == ["2⁻¹⁰", "2⁻¹", "1", "2", "8", "2⁴", "2¹⁰"]
    assert value_label("lam", 0.3) == "λ = 0.3"
    assert [power_of_two(value) for value in (0.0, -2.0, NAN, float("inf"), 3.0, 0.5)] == [None] * 5 + [-1]


# ---------------------------------------------------------------------- drawing


def looks(axes):
    return [(line.get_color(), line.get_marker()) for line in axes.get_lines() if len(line.get_xdata())]


def test_every_learner_has_a_distinct_style():
    assert len(set(LEARNER_STYLES.values())) == len(LEARNER_STYLES) - 4  # sketches look like the learners they serve
    assert set(LEARNERS) <= set(LEARNER_STYLES)
    figures = [
        ["opauc", "oam_seq", "oam_gra", "uni_exp", "uni_log", "uni_squ"],
        [f"opauc_{end}" for end in ("fd", "s", "r", "h", "feat", "rp", "pca")],
        ["opauc_fd", "opauc_s", "opauc_r", "oam_seq", "oam_gra", "uni_exp", "uni_log", "uni_squ"],
        ["ftrl_auc", "spam_l1", "spam_l2", "spam_elastic", "solam", "spauc", "fsauc"],
        ["ftrl_auc", "adagrad", "rda_l1", "ftrl_proximal"],
    ]
    for names in figures:  # what stands in one figure of a paper differs in colour, not only in marker
        assert len({style_of(name).colour for name in names}) == len(names)
        assert len({style_of(name).marker for name in names}) == len(names)


def test_unknown_learners_have_a_fixed_distinct_style():
    first = style_of("my_own_learner")
    assert first == style_of("my_own_learner")
    assert (first.colour, first.marker) not in set(LEARNER_STYLES.values())
    again = subprocess.run(
        [sys.executable, "-c", "from opauc_bench.report.figure_style import *; print(style_of('my_own_learner'))"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert again.stdout.strip() == str(first)


def test_further_lines_of_a_learner_keep_its_marker_and_differ():
    variants = [style_of("opauc", k) for k in range(4)]
    assert {style.marker for style in variants} == {"o"}
    assert len({(style.colour, str(style.dashes), style.filled) for style in variants}) == 4
    assert style_of("opauc", 9).colour == style_of("opauc", 3).colour


def test_lines_have_bands_labels_scales_and_a_legend(sweep_figure):
    canvas = draw(sweep_figure)
    (axes,) = [axes for axes in canvas.axes if axes.get_visible()]
    assert axes.get_title() == "d"
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("step size η", "test AUC")
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "linear")
    assert len(axes.collections) == 2, "a band a line"
    assert [marker for _, marker in looks(axes)] == ["o", "o"]
    assert same_color(looks(axes)[0][0], LEARNER_STYLES["opauc"][0])
    (legend,) = canvas.legends
    assert [text.get_text() for text in legend.get_texts()] == ["λ = 2⁻³", "λ = 4"]
    y = axes.get_lines()[1].get_ydata()
    assert np.isnan(y[-1])
    assert np.isfinite(y[:-1]).all()


@pytest.mark.parametrize("spec", [SWEEP, PASS])
def test_bands_of_auc_end_at_0_and_1(spec):
    cells = {("d", "opauc"): cell(*((swept if spec is SWEEP else passed)(shift) for shift in (-0.5, 0.4)))}
    figure = build_figure(spec, ["d"], [OPAUC], cells)
    stds = [(point.y - point.y_std, point.y + point.y_std) for line in figure.panels[0].lines for point in line.points]
    assert any(low < 0 or high > 1 for low, high in stds)
    (axes,) = [axes for axes in draw(figure).axes if axes.get_visible()]
    for collection in axes.collections:
        for path in collection.get_paths():
            heights = path.vertices[:, 1]
            assert np.nanmin(heights) >= 0
            assert np.nanmax(heights) <= 1


@pytest.mark.parametrize("x", ["dataset", "n_seen"])
def test_a_line_of_one_point_has_a_bar_that_ends_at_0_and_1(x):
    samples = (Sample({"point": [0]}, {"n_seen": [10], "auc": [auc]}) for auc in (0.8, 0.98, 1.0))
    figure = build_figure(FigureEntry(name="f", x=x, y="auc"), ["d"], [OPAUC], {("d", "opauc"): cell(*samples)})
    ((point,),) = [line.points for line in figure.panels[0].lines]
    assert point.y + point.y_std > 1
    (axes,) = [axes for axes in draw(figure).axes if axes.get_visible()]
    ends = [segment[:, 1] for bars in axes.collections for segment in bars.get_segments()]
    bar = max(ends, key=np.ptp)
    assert bar.tolist() == pytest.approx([point.y - point.y_std, 1.0])


def test_panels_share_labels_and_legend(pass_figure):
    canvas = draw(pass_figure)
    shown = [axes for axes in canvas.axes if axes.get_visible()]
    assert [axes.get_title() for axes in shown] == ["one", "two"]
    assert [axes.get_ylabel() for axes in shown] == ["test AUC", ""]
    assert [axes.get_xlabel() for axes in shown] == ["training examples seen"] * 2
    assert [text.get_text() for text in canvas.legends[0].get_texts()] == ["OPAUC", r"OAM$_{\mathrm{seq}}$"]
    for axes in shown:
        assert [marker for _, marker in looks(axes)] == ["o", "s"]


def test_small_shares_keep_their_digits_in_the_terminal():
    spec = FigureEntry(name="f", x="auc", y="sparse_ratio", y_scale="log10", along="eta")
    ratios = [0.25, 0.0, 1.46e-5]
    sample = Sample({"eta": ETAS}, {"auc": [0.5, 0.6, 0.7], "sparse_ratio": ratios, "validation_auc": [0.5, 0.6, 0.7]})
    text = figure_to_terminal(build_figure(spec, ["one"], [OPAUC], {("one", "opauc"): cell(sample)}), 80)
    assert [text.count(shown) for shown in (".2500 at .5000", ".0000 at .6000", "1.46e-05 at .7000")] == [1, 1, 1]


@pytest.mark.parametrize("low", [1e-5, 2.6e-3, 0.9, 40.0])
@pytest.mark.parametrize("times", [1.5, 3.0, 8.0, 28.0, 300.0, 1e7])
def test_ticks_of_a_logarithmic_axis_are_labelled_and_apart(low, times):
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    canvas = Canvas(figsize=(10, 4))
    axes = canvas.add_subplot(1, 2, 1)
    axes.plot([low, low * times], [0.5, 0.9])
    _scale(axes, "x", "log10")
    renderer = FigureCanvasAgg(canvas).get_renderer()
    canvas.draw(renderer)
    left, right = axes.get_xlim()
    texts = [
        label
        for which in ("major", "minor")
        for label, at in zip(axes.get_xticklabels(which=which), axes.get_xticks(minor=which == "minor"))
        if label.get_text() and left <= at <= right
    ]
    assert len(texts) >= 2
    boxes = sorted((text.get_window_extent(renderer) for text in texts), key=lambda box: box.x0)
    assert all(one.x1 < other.x0 for one, other in itertools.pairwise(boxes))


def test_datasets_side_by_side_leave_out_what_is_missing(time_figure):
    canvas = draw(time_figure)
    (axes,) = canvas.axes
    assert [text.get_text() for text in axes.get_xticklabels()] == ["one", "two"]
    assert axes.get_yscale() == "log"
    drawn = {marker: (x, y) for (_, marker), line in zip(looks(axes), axes.get_lines()) for x, y in [line.get_data()]}
    assert len(drawn["o"][0]) == 1
    assert list(drawn["s"][1]) == pytest.approx([0.2, 20.0])
    assert axes.get_ylabel() == "CPU time (seconds)"


def test_panels_without_any_complete_point_are_not_drawn():
    cells = {("a", "opauc"): cell(passed()), ("b", "opauc"): cell(passed(), expected=2)}
    canvas = draw(build_figure(PASS, ["a", "b"], [OPAUC], cells))
    assert [axes.get_title() for axes in canvas.axes if axes.get_visible()] == ["a"]
    assert canvas.legends == []


def test_points_without_a_place_on_a_logarithmic_axis_are_not_drawn():
    spec = FigureEntry(name="f", x="auc", y="sparse_ratio", y_scale="log10", along="eta")
    samples = {
        name: Sample({"eta": ETAS}, {"auc": [0.5, 0.6, 0.7], "sparse_ratio": ratios})
        for name, ratios in (("some", [0.25, 0.0, 1e-5]), ("none", [0.0, 0.0, 0.0]))
    }
    figure = build_figure(spec, list(samples), [OPAUC], {(name, "opauc"): cell(samples[name]) for name in samples})
    assert figure.notes == (
        "points not drawn, since a logarithmic axis has no place for sparse_ratio of 0 or less: OPAUC",
    )
    (axes,) = [axes for axes in draw(figure).axes if axes.get_visible()]
    assert axes.get_title() == "some"
    assert np.isnan(axes.get_lines()[0].get_ydata()).tolist() == [False, True, False]
    only_zeros = build_figure(spec, ["none"], [OPAUC], {("none", "opauc"): cell(samples["none"])})
    assert figure_files(only_zeros, draw=True)["f.png"] is None


def test_lines_that_are_not_drawn_are_named_and_not_in_the_legend():
    eta, lam = (part.ravel().tolist() for part in np.meshgrid(ETAS, [0.125, 0.5, 4.0], indexing="ij"))
    sample = Sample({"eta": eta, "lam": lam}, {"auc": [NAN if value == 4.0 else 0.5 + value for value in lam]})
    figure = build_figure(SWEEP, ["d"], [OPAUC], {("d", "opauc"): cell(sample)})
    assert figure.notes == ("not drawn, since no point is finite in all repetitions: λ = 4",)
    (legend,) = draw(figure).legends
    assert [text.get_text() for text in legend.get_texts()] == ["λ = 2⁻³", "λ = 2⁻¹"]


@pytest.mark.parametrize("n_panels", range(1, 17))
def test_any_number_of_panels(n_panels):
    names = [f"d{k}" for k in range(n_panels)]
    canvas = draw(build_figure(PASS, names, [OPAUC], {(name, "opauc"): cell(passed()) for name in names}))
    shown = [axes for axes in canvas.axes if axes.get_visible()]
    assert len(shown) == n_panels
    assert sum(bool(axes.get_xlabel()) for axes in shown) == len(
        {axes.get_subplotspec().colspan.start for axes in shown}
    )


@pytest.mark.filterwarnings("ignore:Glyph")
@pytest.mark.parametrize("name", ["a $5 _ 50% & {b} \\ <c>", "OAM_seq_C_2", "A_B_", "A_B^C_^D", "N_\U00020000_é"])
def test_names_with_special_characters_are_drawn(name):
    column, dataset = TableColumn("x", name, "x"), f"_{name}$"
    cells = {(dataset, c.key): cell(passed()) for c in (column, OPAUC)}
    draw(build_figure(PASS, [dataset], [column, OPAUC], cells)).draw_without_rendering()


def test_an_index_is_drawn_as_one():
    assert [_text(name) for name in ("OAM_seq", "OPAUC^rp (A)", "UCI_my_v")] == [
        r"OAM$_{\mathrm{seq}}$",
        r"OPAUC$^{\mathrm{rp}}$ (A)",
        r"UCI$_{\mathrm{my\_v}}$",
    ]


def test_drawing_does_not_change_global_settings(pass_figure):
    before = dict(mpl.rcParams)
    files = render(pass_figure)
    assert dict(mpl.rcParams) == before
    with mpl.rc_context({"font.size": 30, "lines.linewidth": 9}):
        assert render(pass_figure) == files


@pytest.fixture(scope="module")
def pass_files():
    return render(figure_of_passes())


def test_the_terminal_says_that_it_shows_some_of_the_points(sweep_figure):
    assert "points)" not in figure_to_terminal(sweep_figure)
    sample = Sample({"eta": [2.0**k for k in range(9)]}, {"auc": [0.5 + k / 100 for k in range(9)]})
    text = figure_to_terminal(build_figure(SWEEP, ["d"], [OPAUC], {("d", "opauc"): cell(sample)}))
    assert "(5 of 9 points)" in text


def test_files_are_small_and_have_their_format(pass_files):
    assert pass_files["pdf"].startswith(b"%PDF")
    assert pass_files["png"].startswith(b"\x89PNG")
    assert max(map(len, pass_files.values())) < 300_000
    assert b"CreationDate" not in pass_files["pdf"]
    assert not re.search(rb"<dc:date>|Matplotlib v", pass_files["svg"])


ELSEWHERE = """
import sys
sys.path.insert(0, {tests!r})
from test_figures import *
print(hashes(render(figure_of_passes())))
"""


def hashes(files):
    return {ending: hashlib.sha256(content).hexdigest() for ending, content in files.items()}


def test_the_same_bytes_in_every_process(pass_files):
    command = [sys.executable, "-c", ELSEWHERE.format(tests=str(Path(__file__).parent))]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said == f"{hashes(pass_files)}\n"


# ---------------------------------------------------------------------- files


def test_writing_without_matplotlib_removes_older_drawings(pass_figure, tmp_path):
    write_files(tmp_path, figure_files(pass_figure, True))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f.csv", "f.pdf", "f.png", "f.svg"]
    write_files(tmp_path, figure_files(pass_figure, False))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f.csv"]


def test_figure_without_points_writes_csv_only():
    figure = build_figure(PASS, ["d"], [OPAUC], {("d", "opauc"): cell(expected=2)})
    assert [name for name, content in figure_files(figure, True).items() if content is not None] == ["f.csv"]
    assert figure_to_terminal(figure) == "0 of 2 done: d\n"
