"""Edges of the grid: which selected settings they cut off, and where that is said."""

import shutil
from types import SimpleNamespace

import numpy as np
import pytest
import yaml
from folders import forge, records_of
from hypothesis import given
from hypothesis import strategies as st

from opauc_bench.evaluation.edges import FLAT, axes_cut_off
from opauc_bench.learners import EstimatorLearner
from opauc_bench.report.grid_edges import Edge, edge_notes, edges_of, wider_grids
from opauc_bench.task import expand_grid
from opauc_bench.values import grid_values

RISING = [0.9, 0.8, 0.7]
SMALL = """
title: Settings at the edge of a grid
datasets: [wine, digits]
learners: [uni_log, {learner: uni_squ, title: squared loss}]
grids: {eta: {pow2: [-10, 0, 5]}}
protocol: {trials: 1, folds: 3, inner_folds: 2}
"""


def cutting(aucs, selected, **grid):
    return axes_cut_off(expand_grid(grid), np.array(aucs, dtype=float), selected)


@pytest.mark.parametrize(
    ("values", "aucs", "selected", "cuts"),
    [
        ((1, 2, 4), RISING, 1, True),
        ((4, 2, 1), RISING, 4, True),  # whatever the order
        ((1, 2, 4), RISING[::-1], 4, True),
        ((1, 2, 4), [0.8, 0.9, 0.7], 2, False),
        ((1, 2, 4), [0.9, 0.9 - FLAT / 2, 0.7], 1, False),  # a plateau
        ((1, 2, 4), [0.9, np.nan, np.nan], 1, True),  # all others diverge
        ((1, 2, 4), [-4.0, -3.0, -1.5], 4, True),  # minus a loss
        ((0, 1, 2), RISING, 0, False),  # nothing is below 0
        ((1, 2), RISING[:2], 1, False),  # no inside
        ((1,), [0.5], 1, False),
    ],
)
def test_an_edge_cuts_off_where_the_auc_rises_towards_it(values, aucs, selected, cuts):
    assert cutting(aucs, {"eta": selected}, eta=values) == ({"eta": selected} if cuts else {})


def test_other_axes_may_make_up_for_a_value_inside():
    grid = {"eta": (1, 2, 4), "lam": (1, 2, 4)}
    aucs = np.full((3, 3), 0.5)
    aucs[0, 1], aucs[1, 2] = 0.9, 0.9
    assert cutting(aucs.ravel(), {"eta": 1, "lam": 2}, **grid) == {}
    aucs[1, 2] = 0.89
    assert cutting(aucs.ravel(), {"eta": 1, "lam": 2}, **grid) == {"eta": 1}


def test_axes_that_another_column_has_selected_do_not_count():
    assert cutting(RISING[::-1], {"l1": 4, "xi": 1e3}, l1=(1, 2, 4)) == {"l1": 4}


INSIDE = {"eta": {1: 2, 8: 4}, "lam": {1: 2, 4: 2}}


@given(st.lists(st.floats(0, 1) | st.just(np.nan), min_size=12, max_size=12), st.randoms(use_true_random=False))
def test_the_best_setting_one_value_inside_decides_in_any_order_of_settings(aucs, random):
    settings, aucs = expand_grid({"eta": (1, 2, 4, 8), "lam": (1, 2, 4)}), np.array([0.5, *aucs[1:]])
    best = int(np.nanargmax(aucs))
    selected = {axis: values[best] for axis, values in settings.items()}
    expected = {}
    for axis, inside in INSIDE.items():
        if selected[axis] in inside:
            rivals = aucs[settings[axis] == inside[selected[axis]]]
            if not any(aucs[best] - rivals <= FLAT):
                expected[axis] = selected[axis]
    order = list(range(len(aucs)))
    random.shuffle(order)
    shuffled = {axis: values[order] for axis, values in settings.items()}
    assert axes_cut_off(shuffled, aucs[order], selected) == expected


EDGES = {
    ("a", "one"): (Edge("eta", 2.0**-12, 24, 25),),
    ("b", "one"): (Edge("eta", 2.0**-12, 24, 25), Edge("lam", 3.0, 6, 25)),
    ("c", "one"): (Edge("eta", 2.0**-12, 1, 1),),
    ("a", "two"): (Edge("eta", 2.0**-12, 9, 25), Edge("eta", 2.0**10, 8, 25)),
}


def test_notes_are_grouped_by_column():
    notes = edge_notes(EDGES, ["a", "b", "c"], ["two", "one", "three"], "folds")
    assert list(notes) == ["two", "one"]
    assert notes["one"] == [
        "selected at the edge of the grid, eta = 2^-12, in 1 of 1 fold (c), 24 of 25 folds (a, b).",
        "selected at the edge of the grid, lam = 3, in 6 of 25 folds (b).",
    ]
    assert edge_notes(EDGES, ["c"], ["two"], "folds") == {}


def test_wider_grids_reach_beyond_the_edges_that_cut_off():
    one = {"eta": tuple(2.0**k for k in range(-12, 11)), "lam": (1.0, 2.0, 3.0)}
    two = {"eta": tuple(2.0**k for k in range(-12, 11, 2))}
    wider = wider_grids(EDGES, {"one": one, "two": two})
    assert wider == {
        "eta: {pow2: [-24, 10]}": ["one"],
        "lam: [1, 2, 3, 4.5, 6.75]": ["one"],
        "eta: {pow2: [-24, 22, 2]}": ["two"],
    }
    assert grid_values({"pow2": [-24, 22, 2]})[-1] == 2.0**22


@pytest.mark.parametrize(
    ("values", "end", "wider"),
    [
        ((1, 2, 3, 4), 4, ["n: [1, 2, 3, 4, 5, 7]"]),
        ((2, 3, 4), 2, ["n: [1, 2, 3, 4]"]),
        ((1, 2, 3), 1, []),
        ((4, 8, 16), 4, ["n: {pow2: [0, 4]}"]),
        ((1, 2, 4), 1, []),
    ],
)
def test_axes_of_integers_get_no_other_values(values, end, wider):
    edges = {("a", "knn"): (Edge("n", float(end), 9, 9),)}
    grids = {"knn": {"n": tuple(map(float, values))}}
    assert list(wider_grids(edges, grids, lambda column: ["n"])) == wider


def test_wider_grids_keep_the_values_there_were():
    edges = {("a", "one"): (Edge("lam", 123.456789, 9, 9),)}
    (wider,) = wider_grids(edges, {"one": {"lam": (1.0, 10.0, 123.456789)}})
    assert wider == "lam: [1, 10, 123.456789, 1524, 18820]"


@pytest.mark.parametrize(
    ("values", "end", "integers", "wider"),
    [
        ((10000, 10001, 10002), 10002, True, "[10000, 10001, 10002, 10003, 10004]"),
        ((12343, 12344, 12346), 12343, True, "[12341, 12342, 12343, 12344, 12346]"),
        ((1234567, 2234567, 4234569), 4234569, True, "[1234567, 2234567, 4234569, 8024631, 15206907]"),
        ((0.9999, 0.99992, 0.99994), 0.9999, False, "[0.99986, 0.99988, 0.9999, 0.99992, 0.99994]"),
        ((1e-5, 1e-2, 1e150), 1e150, False, "[1e-05, 0.01, 1e+150, 1e+302]"),
        ((1e-5, 1e-2, 1e300), 1e300, False, ""),
        (tuple(2.0**k for k in (-1000, -500, 0, 500, 1000)), 2.0**1000, False, ""),
        (tuple(2.0**k for k in (-1000, -500, 0, 500, 1000)), 2.0**-1000, False, ""),
        (tuple(2.0**k for k in (1000, 1010, 1020)), 2.0**1000, False, "{pow2: [980, 1020, 10]}"),
        (tuple(2.0**k for k in (1000, 1010, 1020)), 2.0**1020, False, ""),
        ((0, 1), 1, False, "[0, 1, 2]"),
        ((-3, -1, 1), -3, False, "[-27, -9, -3, -1, 1]"),
        ((-3, -1, 1), 1, False, ""),
    ],
)
def test_wider_grids_have_distinct_finite_values(values, end, integers, wider):
    values = tuple(map(float, values))
    edges = {("a", "one"): (Edge("C", float(end), 9, 9),)}
    found = wider_grids(edges, {"one": {"C": values}}, lambda _: "C" * integers)
    assert list(found) == [f"C: {wider}"] * bool(wider)


@given(
    st.lists(st.floats(1e-300, 1e300) | st.integers(1, 10**6).map(float), min_size=2, max_size=6, unique=True),
    st.booleans(),
    st.data(),
)
def test_every_wider_grid_is_a_grid(values, integers, data):
    values = sorted({float(round(value)) or 1.0 for value in values} if integers else values)
    if len(values) < 2:
        return
    ends = data.draw(st.sets(st.sampled_from([values[0], values[-1]]), min_size=1))
    edges = {("a", "one"): tuple(Edge("C", end, 9, 9) for end in ends)}
    for text in wider_grids(edges, {"one": {"C": tuple(values)}}, lambda _: "C" * integers):
        found = yaml.safe_load(text)["C"]
        wider = grid_values(found if isinstance(found, dict) else list(map(float, found)))
        assert set(values) < set(wider)
        assert list(wider) == sorted(set(wider))
        if integers:
            assert all(value.is_integer() and value >= 1 for value in wider)


@pytest.mark.parametrize(
    ("estimator", "axis", "values", "end", "wider"),
    [
        ("linear_model.SGDClassifier", "l1_ratio", (0.25, 0.5, 1), 1, []),
        ("linear_model.SGDClassifier", "l1_ratio", (0.3, 0.5, 0.6), 0.6, ["l1_ratio: [0.3, 0.5, 0.6, 0.72, 0.864]"]),
        ("tree.DecisionTreeClassifier", "min_samples_split", (4, 8, 16), 4, ["min_samples_split: {pow2: [1, 4]}"]),
    ],
)
def test_wider_grids_of_estimators_have_values_that_these_take(estimator, axis, values, end, wider):
    learner = EstimatorLearner(f"sklearn.{estimator}", axes={axis: values})
    edges, grids = {("a", "one"): (Edge(axis, end, 9, 9),)}, {"one": {axis: tuple(map(float, values))}}
    found = wider_grids(edges, grids, lambda _: learner.integer_axes(), lambda _, *further: learner.accepts(*further))
    assert list(found) == wider


@pytest.fixture(scope="module")
def edged(bench, tmp_path_factory):
    """A folder in which ``uni_log`` has its best setting at the edge in two of three folds of wine."""
    desk = tmp_path_factory.mktemp("edged")
    (desk / "small.yaml").write_text(SMALL)
    bench("run", "small.yaml", "--offline", "--jobs", 1, cwd=desk, exits=0)
    for record in records_of(desk / "results/small"):
        at_edge = (record.dataset, record.column) == ("wine", "uni_log") and record.fold < 2
        eta, aucs = (2.0**-10, RISING) if at_edge else (2.0**-5, [0.8, 0.9, 0.8])
        changes = {"outcome.selection.auc": aucs, "outcome.selected": {"eta": eta}, "column": record.column}
        forge(desk / "results/small", record, changes | {"outcome.selection.n_diverged": 0})
    return desk


NOTE = "selected at the edge of the grid, eta = 2^-10, in 2 of 3 folds (wine)."


def test_status_report_and_plan_name_the_edge(edged, command):
    def printed(*words):
        done = command(*words, cwd=edged, exits=0)
        assert all(len(line) <= 80 for line in done.stdout.splitlines() if "/" not in line)
        return " ".join(done.stdout.split())

    assert f"uni_log: {NOTE}" in printed("status", "results/small")
    assert f"uni_log: {NOTE}" in printed("status", "results/small", "-d", "wine", "-l", "uni_log")
    assert "selected at" not in printed("status", "results/small", "-d", "digits")
    assert "uni_log: selected at the edge of the grid" in printed("report", "results/small")
    assert "a wider one for uni_log: eta: {pow2: [-20, 0, 5]}" in printed("plan", "small.yaml", "--offline")
    assert "a wider one" not in printed("plan", "small.yaml", "--offline", "-d", "digits")


def test_files_and_the_page_have_the_footnote(edged, command, tmp_path):
    shutil.copytree(edged, tmp_path / "desk")
    command("report", "results/small", "--write", "--html", cwd=tmp_path / "desk", exits=0)
    folder = tmp_path / "desk/results/small"
    for name in ("table.md", "table.html", "report.html"):
        text = (folder / name).read_text().replace("\\_", "_")
        assert f"uni_log: {NOTE}" in text, name
        assert text.count("squared loss: selected") == 0
    assert "in 2 of 3 folds (wine)" in (folder / "table.tex").read_text()


def test_latex_of_some_rows_has_their_edges_only(edged, command):
    def printed(rows):
        done = command("report", "results/small", "--latex", "-", "--rows", rows, cwd=edged, exits=0)
        return done.stdout

    assert "in 2 of 3 folds (wine)" in printed("digits,wine")
    assert "selected at the edge" not in printed("digits")


def repetition(at_edge, ok=True):
    aucs, eta = ([0.9, 0.8, 0.7], 1.0) if at_edge else ([0.8, 0.9, 0.8], 2.0)
    selected = {"eta": eta} if ok else {}
    record = SimpleNamespace(ok=ok, selection=SimpleNamespace(auc=np.array(aucs)), selected=selected)
    return SimpleNamespace(grid={"eta": (1.0, 2.0, 4.0)}), record


@pytest.mark.parametrize(("n", "counts"), [(5, False), (6, True)])
def test_edges_count_that_are_selected_in_more_than_a_fifth_of_the_repetitions(n, counts):
    found = edges_of({("a", "one"): [repetition(k < n) for k in range(25)]})
    assert found == ({("a", "one"): (Edge("eta", 1.0, n, 25),)} if counts else {})


def test_failed_repetitions_do_not_count():
    pairs = [repetition(True), repetition(False), repetition(False), *(repetition(False, ok=False) for _ in range(9))]
    assert edges_of({("a", "one"): pairs}) == {("a", "one"): (Edge("eta", 1.0, 1, 3),)}
