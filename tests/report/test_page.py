"""The page of results: what it says is what the records say, it loads nothing, and it works in a browser."""

import dataclasses
import json
import os
import re
import shutil
import statistics
import subprocess
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from command_line import Bench
from folders import HEBB, forge, records_of, rows_of, snapshot
from html_tree import parse
from hypothesis import given
from hypothesis import strategies as st
from reference.records import OUTCOMES, record_of, task_of

from opauc_bench.report.compare import compare
from opauc_bench.report.metrics import METRICS
from opauc_bench.report.page import PageContent, render_page
from opauc_bench.report.page.heat import COLOURS, EDGES, GridMap, grid_map, heat_caption, heat_svg
from opauc_bench.report.page.ranks import rank
from opauc_bench.report.page.render import _facts
from opauc_bench.report.page.speed import seconds_text
from opauc_bench.report.published import PublishedCell, load_published
from opauc_bench.report.table import Cell, TableColumn, Test, build_table
from opauc_bench.report.text import auc_text, value_text
from opauc_bench.results.manifest import read_manifest

RESULTS = Path(__file__).resolve().parents[2] / "results"
WITH_PAGES = {path.parent for path in (*RESULTS.glob("table*/manifest.json"), *RESULTS.glob("*/report.html"))}
TABLES = [
    pytest.param(folder, marks=() if folder.name == "table2" else pytest.mark.large, id=folder.name)
    for folder in sorted(WITH_PAGES)
]
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def browser(test):
    """Mark a test that needs a browser."""
    needs = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here; on Debian: apt-get install chromium")
    return pytest.mark.large(needs(test))


TITLE = """<script>fail("title")</script> & "quoted" 'too'"""
CONFIG = """
title: '<script>fail("title")</script> & "quoted" ''too'''
description: "a < b && c > d </style> </script>"
datasets: [wine, breast_cancer, digits, german]
learners:
  - opauc
  - {learner: oam_seq, title: 'OAM <b onmouseover="fail()">seq</b>'}
  - {learner: Flat.py:Flat, title: Flat}
  - {learner: uni_log, params: {eta: 0.25}}
grids: {eta: {pow2: [-8, 8, 4]}, lambda: {pow2: [-6, 0, 6]}}
protocol: {trials: 2, folds: 3, inner_folds: 2}
report: {published: aij2016_table2}
"""

# On wine every setting overflows, on the others the large ones do.
FLAT = (
    HEBB
    + """

class Flat(Hebb):
    def behave(self, state, X):
        state.W[:, (state.settings["eta"] > 10) | (X.shape[1] == 13)] = np.inf
"""
)


@pytest.fixture(scope="module")
def place(invoke, tmp_path_factory):
    desk = tmp_path_factory.mktemp("page")
    (desk / "shown.yaml").write_text(CONFIG)
    (desk / "Flat.py").write_text(FLAT)
    done = invoke("run", "shown.yaml", "--offline", "--jobs", 2, cwd=desk)
    assert done.returncode == 3, done.stderr  # german is unavailable
    done = invoke("report", "results/shown", "--write", "--html", cwd=desk, exits=0)
    assert done.stdout.endswith("written to results/shown/\n")
    return desk


@pytest.fixture(scope="module")
def path(place):
    return place / "results" / "shown" / "report.html"


@pytest.fixture(scope="module")
def html(path):
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def tree(html):
    return parse(html)


@pytest.fixture(scope="module")
def records(path):
    """The records of each cell, by trial and fold."""
    found = {}
    for record in records_of(path.parent):
        found.setdefault((record.dataset, record.column), []).append(record)
    return found


def cells(tree, table, dataset):
    """Cells of a dataset's row in a table, without the one with its name."""
    (row,) = [row for row in table.one("tbody").find("tr") if row.one("th").words == dataset]
    return list(row.find("td"))


# ---------------------------------------------------------------------- the page as a file


def test_page_loads_nothing_and_links_only_to_itself(html, tree):
    policy = [node.attributes["content"] for node in tree.find("meta") if "http-equiv" in node.attributes]
    assert policy == ["default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"]
    assert not re.search(r"""(src|srcset|action|poster)\s*=|@import|url\((?!#)""", html)
    assert "http://" not in html
    assert "https://" not in html
    assert not list(tree.find("link"))
    names = [node.attributes["id"] for node in tree.find() if "id" in node.attributes]
    assert len(names) == len(set(names))
    targets = {node.attributes["href"] for node in tree.find("a")}
    assert targets
    assert all(target.startswith("#") and target[1:] in names for target in targets)


def test_text_of_users_is_escaped(html, tree):
    assert tree.one("h1").words == TITLE
    assert tree.one("head").one("title").text == TITLE
    assert tree.one("p", class_="lead").words == "a < b && c > d </style> </script>"
    assert len(list(tree.find("script"))) == 1
    assert len(list(tree.find("style"))) == 1
    assert html.count("<b onmouseover") == 0
    heads = [node.words for node in tree.one("table", class_="results").one("thead").find("th")]
    assert heads == ["dataset", "opauc", 'OAM <b onmouseover="fail()">seq</b>', "Flat", "uni_log"]


def test_the_same_bytes_each_time(place, path, environment, tmp_path):
    shutil.copytree(path.parent, tmp_path / "copy")
    other = Bench({**environment, "PYTHONHASHSEED": "1"})  # that of this process is random
    other("report", tmp_path / "copy", "--write", cwd=place, exits=0)
    assert (tmp_path / "copy" / "report.html").read_bytes() == path.read_bytes(), "a page that is there is kept up"
    assert path.read_bytes().endswith(b"</html>\n")


def test_without_the_option_there_is_no_page(place, path, command, tmp_path):
    shutil.copytree(path.parent, tmp_path / "copy")
    (tmp_path / "copy" / "report.html").unlink()
    command("report", tmp_path / "copy", "--write", cwd=place, exits=0)
    assert not (tmp_path / "copy" / "report.html").exists()
    command("report", tmp_path / "copy", "--to", tmp_path / "tables", cwd=place, exits=0)
    assert not (tmp_path / "tables" / "report.html").exists()


def test_the_page_can_be_written_elsewhere(place, path, command, tmp_path):
    before = snapshot(path.parent)
    command("report", "results/shown", "--html", "--to", tmp_path / "page", cwd=place, exits=0)
    assert (tmp_path / "page" / "report.html").read_bytes() == path.read_bytes()
    assert snapshot(path.parent) == before


def test_verify_knows_the_page(place, path, command, tmp_path):
    shutil.copytree(path.parent, tmp_path / "copy")
    command("verify", tmp_path / "copy", "-n", 0, "--offline", cwd=place, exits=0)
    page = tmp_path / "copy" / "report.html"
    page.write_text(page.read_text().replace("25", "26", 1))
    done = command("verify", tmp_path / "copy", "-n", 0, "--offline", cwd=place, exits=1)
    assert "report.html: not what the records give" in done.stdout


# ---------------------------------------------------------------------- what it says


def test_the_table_is_that_of_the_records(tree, records):
    table = tree.one("table", class_="results")
    for dataset in ("wine", "breast_cancer", "digits"):
        for cell, column in zip(cells(tree, table, dataset), ("opauc", "oam_seq", "Flat", "uni_log"), strict=True):
            aucs = [record.metrics["auc"] for record in records[dataset, column] if record.ok]
            if len(aucs) < 6:
                assert cell.words.startswith("N/A")
                assert cell.attributes["data-value"] == ""
                continue
            mean, std = statistics.fmean(aucs), statistics.stdev(aucs)
            assert cell.one("a", class_="cell").words == f"{auc_text(mean)} ± {auc_text(std)}"
            assert float(cell.attributes["data-value"]) == mean
    assert [cell.words[:3] for cell in cells(tree, table, "german")] == ["N/A"] * 4


def test_all_tests_are_there_and_the_one_of_the_config_is_shown_first(tree, place, command, path):
    chosen = [node.attributes["value"] for node in tree.find("input") if "checked" in node.attributes]
    assert chosen == ["paired"]
    for test in get_args(Test):
        folder = path.parent.parent / test
        shutil.copytree(path.parent, folder)
        command("report", folder, "--test", test, "--write", cwd=place, exits=0)
        printed = (folder / "table.html").read_text()
        page = parse((folder / "report.html").read_text())
        assert [n.attributes["value"] for n in page.find("input") if "checked" in n.attributes] == [test]
        plain, shown = parse(printed).one("table"), page.one("table", class_="results")
        for dataset in ("wine", "breast_cancer", "digits"):
            old = [cell.words for cell in cells(None, plain, dataset)]
            for cell, words in zip(cells(page, shown, dataset), old, strict=True):
                marks = "".join(node.words for node in cell.find(class_=f"by-{test}"))
                assert marks == "".join(re.findall(r"[•◦≈?](?: \d+/\d+/\d+)?", words))
        tallies = [row.words for row in plain.one("tfoot").find("tr")]
        assert [row.words for row in shown.one("tfoot").find("tr", class_=f"by-{test}")] == tallies


def test_every_fold_with_its_setting(tree, records):
    for (dataset, column), rows in records.items():
        i = ("wine", "breast_cancer", "digits").index(dataset)
        j = ("opauc", "oam_seq", "Flat", "uni_log").index(column)
        shown = [node.words for node in tree.one("article", id=f"f-{i}-{j}").find("li")]
        for record, words in zip(rows, shown, strict=True):
            value = auc_text(record.metrics["auc"]) if record.ok else record.status
            assert words.startswith(f"{record.trial + 1}.{record.fold + 1} {value}")
            for setting in record.selected.values():
                assert value_text(setting) in words
    assert [a.attributes["href"] for a in tree.find("a", class_="cell")] == [
        f"#f-{i}-{j}" for i in range(3) for j in range(4)
    ]


def test_values_beside_the_published_ones(tree):
    (section,) = tree.find("section", id="published")
    assert "Without a value of ours: german." in section.words
    assert "Compared: 0 of 96" in section.words


def test_cells_have_the_probabilities_of_the_bayesian_test(tree, place, path, command, tmp_path):
    command("report", path.parent, "--test", "bayes", "--to", tmp_path, cwd=place, exits=0)
    rows = {(row["dataset"], row["column"]): row for row in rows_of(tmp_path / "table.csv") if row["verdict"]}
    assert rows
    for (dataset, column), row in rows.items():
        i = ("wine", "breast_cancer", "digits").index(dataset)
        j = ("opauc", "oam_seq", "Flat", "uni_log").index(column)
        better, equivalent, worse = (f"{float(row[f'p_{name}']):.3f}" for name in ("better", "equivalent", "worse"))
        said = f"opauc better {better}, equivalent {equivalent}, worse {worse}."
        assert said in tree.one("article", id=f"f-{i}-{j}").words


def test_tests_over_too_few_datasets_are_refused(tree):
    words = tree.one("section", id="ranks").words
    assert "Not tested over datasets, with fewer than 5 in common" in words
    assert "uni_log (3)" in words


def test_ranks_are_refused_with_the_reason(tree):
    section = tree.one("section", id="ranks")
    assert not list(section.find("svg"))
    assert "on 2 datasets all 4 learners are complete, and with fewer than 5" in section.words
    assert "wine (Flat not complete)" in section.words
    assert "german (no results)" in section.words


def test_maps_are_averages_of_the_records(tree, records, path):
    definitions = read_manifest(path.parent).definitions
    table = tree.one("table", class_="maps")
    for dataset in ("wine", "breast_cancer", "digits"):
        for cell, column in zip(cells(tree, table, dataset), ("opauc", "oam_seq", "Flat"), strict=True):
            rows = records[dataset, column]
            svg = cell.one("svg", class_="heat")
            told = svg.attributes
            values = np.array([record.selection.auc for record in rows])
            etas = definitions[rows[0].definition]["grid"]["eta"]
            shape = (len(etas), -1)
            alive = np.isfinite(values)
            counts = alive.sum(axis=0)
            mean = np.where(alive, values, 0).sum(axis=0) / np.maximum(counts, 1)
            expected = ["" if c == 0 else str(round(m * 10000)) for m, c in zip(mean, counts)]
            assert told["data-auc"].split(" ") == list(np.array(expected).reshape(shape).T.ravel())
            overflowed = np.array([str(c or "") for c in len(rows) - counts]).reshape(shape).T.ravel()
            assert told["data-div"].split(" ") == list(overflowed)
            picked = sum(int(count or 0) for count in told["data-pick"].split(" "))
            assert picked == sum(record.ok for record in rows)
            assert told["data-x"].split("|")[1:] == [value_text(eta) for eta in etas]
    assert len(list(table.find("th"))) == 1 + 3 + 3, "what tunes nothing has no map, nor has what was not computed"


def test_run_times_are_those_of_the_records(tree, records):
    section = tree.one("section", id="speed")
    assert "Other workers may have run" in section.words
    table = section.one("table")
    for cell, column in zip(cells(tree, table, "digits"), ("opauc", "oam_seq", "Flat", "uni_log"), strict=True):
        timings = [record.timing for record in records["digits", column]]
        fit = seconds_text(statistics.median(timing.fit_cpu_seconds for timing in timings))
        search = seconds_text(sum(timing.selection_cpu_seconds for timing in timings))
        assert cell.words == f"{fit} search {search}"
    titles = [node.words for node in section.one("svg", class_="speed").find("title")]
    assert len(titles) == 11, "a mark for each cell with a number"
    assert any(title.startswith("digits, Flat: ") for title in titles)


def test_provenance_names_data_seed_versions_and_machine(tree, path):
    section = tree.one("section", id="provenance").words
    manifest = json.loads((path.parent / "manifest.json").read_text())
    for name in ("wine", "breast_cancer", "digits"):
        entry = manifest["datasets"][name]
        assert entry["fingerprint"] in section
        assert all(file["name"] in section and file.get("sha256", "") in section for file in entry["files"])
    assert "germanunavailable" in section, "heading and cell of one row"
    assert "seed 0" in section
    assert "72 records: python 3." in section
    (environment,) = manifest["environments"].values()
    assert environment["numpy"] in section
    assert json.loads(tree.one("section", id="provenance").one("pre").text) == manifest["experiment"]


HOLDOUT = """
title: Trials in place of folds, three metrics, and two rows of one dataset
datasets: [breast_cancer, digits]
learners: [ftrl_auc, {learner: adagrad, grid: {eta: [0.1, 1]}}, uni_log]
grids: {gamma: [0.01, 0.1], l1: [1e-8, 0.001], eta: [0.0625, 0.25]}
protocol: {kind: holdout, trials: 3, imbalance: [0.1, 0.2]}
"""


@pytest.fixture(scope="module")
def trials(invoke, tmp_path_factory):
    """The folder of a run with holdout trials."""
    desk = tmp_path_factory.mktemp("trials")
    (desk / "trials.yaml").write_text(HOLDOUT)
    invoke("run", "trials.yaml", "--offline", "--jobs", 2, cwd=desk, exits=0)
    invoke("report", "results/trials", "--write", "--html", cwd=desk, exits=0)
    return desk / "results" / "trials"


def test_trials_with_several_metrics(trials):
    tree = parse((trials / "report.html").read_text(encoding="utf-8"))
    tables = list(tree.find("table", class_="results"))
    assert [node.words for node in tree.one("section", id="table").find("h3")] == [
        "AUC",
        "Sparse ratio",
        "Run time in seconds",
    ]
    printed = {(row["metric"], row["dataset"], row["column"]): row["mean"] for row in rows_of(trials / "table.csv")}
    rows = ["breast_cancer @ 0.1", "breast_cancer @ 0.2", "digits @ 0.1", "digits @ 0.2"]
    assert len(printed) == 3 * 4 * 3
    for table, metric in zip(tables, ("auc", "sparse_ratio", "seconds"), strict=True):
        for row in rows:
            values = [cell.attributes["data-value"] for cell in cells(tree, table, row)]
            assert values == [printed[metric, row, column] for column in ("ftrl_auc", "adagrad", "uni_log")]
    assert [len(list(table.find("tfoot"))) for table in tables] == [1, 0, 0]
    assert "36 of 36 trials have a number" in tree.one("header").words
    assert "some rows are of one dataset" in tree.one("section", id="ranks").words
    for case in ("@ 0.1", "@ 0.2"):  # one table for each; here of two datasets, which are too few
        assert f"{case}: Not tested over datasets, with fewer than 5 in common" in tree.one("section", id="ranks").words
    first = tree.one("article", id="f-0-0")
    assert [node.words.split()[0] for node in first.find("li")] == ["1", "2", "3"]
    assert "over 3 trials" in first.words
    assert len(list(tree.find("svg", class_="heat"))) == 12
    assert "rows that settings are selected on, averaged" in tree.one("section", id="maps").words


def test_verify_takes_trials(trials, command, tmp_path):
    done = command("verify", trials, "--sample", 4, "--offline", "--jobs", 1, cwd=trials.parent, exits=0)
    assert "4 of 4 agree: 4 same bits" in done.stdout
    copy = shutil.copytree(trials, tmp_path / "copy")
    both = [record for record in records_of(copy) if (record.dataset, record.column) == ("digits", "adagrad")]
    both = [record for record in both if record.trial == 0]
    for record in both:
        forge(copy, record, {"outcome.selected": {"eta": 7.0}})
    done = command("verify", copy, "--sample", 0, "--offline", cwd=trials.parent, exits=1)
    assert len(both) == 2
    assert " ".join(done.stdout.split()).count("the inner AUCs select") == 2, "of both imbalances"


def test_other_metrics_beside_published_ones():
    """Run times of two machines are shown and not coloured, and a std printed as 0 can be infinitely far away."""
    published = load_published("ftrl_table2")
    (dataset, column), printed = next((k, c) for k, c in published.others["sparse_ratio"].items() if c.mean is not None)
    cell = Cell((0.9, 0.8), FOLDS, 2, others={"sparse_ratio": (0.3, 0.3), "seconds": (1.0, 1.0)})
    table = build_table(
        "T",
        [dataset],
        [TableColumn(column, column)],
        {(dataset, column): cell},
        column,
        "paired",
        0.2,
        metrics=tuple(METRICS),
    )
    content = content_of({(dataset, column): cell}, [dataset], [column])
    content = dataclasses.replace(content, tables=dict.fromkeys(content.tables, table))
    page = parse(render_page(dataclasses.replace(content, comparison=compare(table, published))))
    shown = page.one("table", class_="beside")
    (ratio,) = cells(page, shown, f"{dataset}, Sparse ratio")
    (seconds,) = cells(page, shown, f"{dataset}, Run time in seconds")
    assert f"{METRICS['sparse_ratio'].text(printed.mean)} ±" in ratio.words
    assert seconds.attributes["class"] == "none"
    assert not list(seconds.find(class_="dev"))
    assert "≠" not in page.one("section", id="published").words
    zero = dataclasses.replace(
        published, others={**published.others, "sparse_ratio": {(dataset, column): PublishedCell(0.1, 0.0)}}
    )
    page = parse(render_page(dataclasses.replace(content, comparison=compare(table, zero))))
    (ratio,) = cells(page, page.one("table", class_="beside"), f"{dataset}, Sparse ratio")
    assert ratio.attributes["class"] == "up3"
    assert "+∞" in ratio.words


def test_a_page_is_about_tables(command, tmp_path):
    done = command("report", "figure5", "--html", cwd=tmp_path, exits=2)
    assert "draws figures; the page is about tables" in done.stderr


# ---------------------------------------------------------------------- its parts


AXES = st.lists(st.integers(1, 4), min_size=1, max_size=3)


@given(shape=AXES, n_folds=st.integers(1, 3), seed=st.integers(0, 999))
def test_map_equals_a_literal_example(shape, n_folds, seed):
    rng = np.random.default_rng(seed)
    grid = {f"a{i}": [2.0**k for k in range(n)] for i, n in enumerate(shape)}
    aucs = rng.uniform(0, 1, (n_folds, *shape))
    aucs[rng.uniform(size=aucs.shape) < 0.3] = np.nan
    picks = [tuple(rng.integers(0, n) for n in shape) for _ in range(n_folds)]
    selected = [{axis: grid[axis][k] for axis, k in zip(grid, pick)} for pick in picks]
    found = grid_map(grid, [fold.ravel() for fold in aucs], selected)
    order = sorted(range(len(shape)), key=lambda i: -shape[i])[:2]
    assert found.x[0] == f"a{order[0]}"
    assert found.n_folds == n_folds
    assert found.selected.sum() == n_folds
    for y in range(found.auc.shape[0]):
        for x in range(found.auc.shape[1]):
            fixed = {order[0]: x, **({order[1]: y} if len(order) > 1 else {})}
            here = [place for place in np.ndindex(*shape) if all(place[i] == k for i, k in fixed.items())]
            folds = [aucs[(slice(None), *place)] for place in here]
            folds = [of for of in folds if np.isfinite(of).all()] or folds
            means = [(np.mean(of[np.isfinite(of)]), np.isnan(of).sum()) for of in folds if np.isfinite(of).any()]
            auc, n_diverged = max(means, default=(np.nan, n_folds))
            assert found.auc[y, x] == pytest.approx(auc, nan_ok=True)
            assert found.diverged[y, x] == n_diverged
            assert found.selected[y, x] == sum(pick in here for pick in picks)
    svg = parse(str(heat_svg(found, heat_caption(found, n_folds)))).one("svg")
    assert len(list(svg.find("circle"))) == np.count_nonzero(found.selected)


def test_empty_map_is_left_out():
    assert grid_map({}, [[0.5]], []) is None
    assert grid_map({"eta": [1.0, 2.0]}, [], []) is None
    assert grid_map({"eta": [1.0, 2.0]}, [[0.5]], []) is None, "records of another grid"


def test_colours_of_a_map():
    """Each cell is painted once, by its distance to the best that never overflowed; hatched where it did."""
    auc = np.array([[0.9, 0.8996, 0.8, 0.95, np.nan]])
    grid = GridMap(
        ("eta", (1.0, 2.0, 4.0, 8.0, 16.0)), None, auc, np.array([[0, 0, 0, 1, 3]]), np.zeros((1, 5), int), 3
    )
    paths = list(parse(str(heat_svg(grid, []))).find("path"))
    painted = {p.attributes.get("fill") or p.attributes["class"]: p.attributes["d"] for p in paths}
    assert painted[COLOURS[0]] == "M0 0h28v21h-28z", "two cells in one stroke"
    assert EDGES[-1] == 0.1
    assert painted[COLOURS[7]] == "M28 0h14v21h-14z", "a distance of .1 is in the class up to .1"
    assert set(painted) == {COLOURS[0], COLOURS[7], "some", "all"}
    assert heat_caption(grid, 3) == ["best .9000 at η 1", "2 of 5 overflow"]
    nothing = GridMap(("eta", (1.0,)), None, np.array([[np.nan]]), np.array([[3]]), np.array([[0]]), 3)
    assert heat_caption(nothing, 25) == ["every setting overflows", "1 of 1 overflow", "of 3 of 25"]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.0, "0 µs"), (2e-6, "2 µs"), (0.00123, "1.2 ms"), (0.5, "500 ms"), (1, "1 s"), (90, "90 s"), (600, "10 min")],
)
def test_durations_are_spelled_out(seconds, words):
    assert seconds_text(seconds) == words
    assert seconds_text(7200.0) == "2 h"


FOLDS = ((0, 0), (0, 1))


def content_of(cells_, datasets, columns):
    """A page's content of nothing but cells."""
    columns = [TableColumn(key, key.upper(), key) for key in columns]
    tables = {
        test: build_table("T", list(datasets), columns, cells_, columns[0].key, test, 0.5) for test in get_args(Test)
    }
    return PageContent(
        description="",
        tables=tables,
        test="paired",
        comparison=None,
        records={key: [_record(*place, auc) for place, auc in zip(c.folds, c.aucs)] for key, c in cells_.items()},
        grids={},
        provenance={
            **dict.fromkeys(("facts", "machines", "learners"), ()),
            "datasets": [{"name": dataset} for dataset in datasets],
            "experiment": "{}",
        },
    )


def _record(trial, fold, auc):
    outcome = {"kind": "cv", **OUTCOMES["cv"], "metrics": {"auc": auc}}
    return record_of(task_of(trial=trial, fold=fold), outcome=outcome, timing={"fit_cpu_seconds": 0.0})


def test_several_rows_of_a_dataset_are_counted_as_rows():
    datasets = ["d", "d @ 1%"]
    content = content_of({(d, "opauc"): Cell((0.9, 0.8), FOLDS, 2) for d in datasets}, datasets, ["opauc"])
    assert _facts(content)[0] == "2 of 2 datasets complete"
    sources = dict.fromkeys(datasets, "d")
    tables = {test: dataclasses.replace(table, sources=sources) for test, table in content.tables.items()}
    assert _facts(dataclasses.replace(content, tables=tables))[0] == "2 of 2 rows complete"


def test_ranks_of_complete_datasets_only():
    datasets, columns = [f"d{i}" for i in range(7)], ["opauc", "b", "c", "never"]
    done = {(d, c): Cell((0.9 - 0.1 * j, 0.8 - 0.1 * j), FOLDS, 2) for d in datasets for j, c in enumerate("bc", 1)}
    done |= {(d, "opauc"): Cell((0.9, 0.8), FOLDS, 2) for d in datasets}
    done |= {(d, "never"): Cell((), (), 2) for d in datasets}
    done["d6", "b"] = Cell((0.5,), FOLDS[:1], 2)
    content = content_of(done, datasets, columns)
    ranking = rank(content.table)
    assert ranking.datasets == tuple(datasets[:6])
    assert ranking.test.ranks == (1.0, 2.0, 3.0)
    assert ranking.left_out == (("NEVER", "no dataset is complete"), ("d6", "B not complete"))
    page = parse(render_page(content))
    section = page.one("section", id="ranks")
    svg = section.one("svg", class_="cd")
    assert {"OPAUC  1.00", "B  2.00", "3.00  C"} <= {node.text for node in svg.find("text")}
    difference = f"{ranking.test.critical_difference:.2f}"
    assert f"CD = {difference}" in [node.text for node in svg.find("text")]
    assert len(list(svg.find("line", class_="group"))) == len(ranking.test.groups) == 2
    assert "F = ∞" in section.words
    assert "Left out: NEVER (no dataset is complete), d6 (B not complete)." in section.words
    against, pairs = section.find("table")
    rows = [[cell.words for cell in row.children] for row in against.one("tbody").find("tr")]
    assert [row[:2] for row in rows] == [["B", "6"], ["C", "7"]]
    rows = [[cell.words for cell in row.children] for row in pairs.one("tbody").find("tr")]
    assert rows[1] == ["B", "◦ 0/0/100", "", "• 100/0/0", ""]
    assert "NEVER (0)" in section.words


def test_friedmans_test_that_does_not_reject():
    done = {
        (f"d{i}", c): Cell((0.9, 0.8 - 0.01 * ((i + j) % 3)), FOLDS, 2) for i in range(6) for j, c in enumerate("abc")
    }
    section = parse(render_page(content_of(done, [f"d{i}" for i in range(6)], "abc"))).one(id="ranks")
    assert "must not be read as findings. With so few datasets" in section.words


@pytest.mark.parametrize("n_columns", [1, 2])
def test_a_table_of_few_columns(n_columns):
    columns = ["opauc", "b"][:n_columns]
    cells_ = {("a", key): Cell((0.9, 0.8), FOLDS, 2) for key in columns}
    page = parse(render_page(content_of(cells_, ["a"], columns)))
    said = "1 learner has results" if n_columns == 1 else f"{n_columns} learners have results"
    assert f"{said}, and a comparison by ranks needs three" in page.one(id="ranks").words
    assert len(list(page.one("table", class_="results").find("tfoot"))) == n_columns - 1


def test_a_table_in_which_nothing_is_complete():
    cells_ = {("a", "opauc"): Cell((0.9,), FOLDS[:1], 2), ("a", "b"): Cell((), (), 2, {"timeout": 2}, ("1 s",))}
    content = content_of(cells_, ["a"], ["opauc", "b"])
    page = parse(render_page(content))
    assert [cell.words for cell in cells(page, page.one("table", class_="results"), "a")] == ["… 1/2", "N/A1"]


@pytest.mark.parametrize("folder", TABLES)
def test_committed_results_have_a_page(folder, command, tmp_path):
    """Read where they are: some refer to records of others beside them."""
    command("report", folder, "--html", "--to", tmp_path, cwd=tmp_path, exits=0)
    page = tmp_path / "report.html"
    if (folder / "report.html").is_file():
        assert page.read_bytes() == (folder / "report.html").read_bytes()
    assert page.stat().st_size < 1_000_000
    tree = parse(page.read_text(encoding="utf-8"))
    ranks = tree.one(id="ranks")
    assert list(ranks.find("svg")) or "with fewer than 5" in ranks.words or "There is nothing to rank" in ranks.words
    beside_print = [section.words for section in tree.find(id="published")]
    assert len(beside_print) == (read_manifest(folder).experiment["report"]["published"] is not None)
    assert all("Compared: " in words for words in beside_print)


# ---------------------------------------------------------------------- in a browser

WATCH = """<script>
const said = [];
addEventListener("error", (event) => said.push("error: " + event.message));
addEventListener("securitypolicyviolation", (event) => said.push("policy: " + event.violatedDirective));
console.error = console.warn = (...words) => said.push("console: " + words.join(" "));
function fail(why) { said.push("script ran: " + why); }
</script>"""

DRIVE = """<script>
const told = {};
(() => {
%s
})();
const place = document.createElement("textarea");
place.id = "told";
place.textContent = JSON.stringify({ ...told, said });
document.body.append(place);
</script>"""


@pytest.fixture
def drive(html, tmp_path):
    """Open the page in Chromium, let a script use it, and return what that script told."""

    def call(script, width=1280, height=900, fragment=""):
        driven = html.replace("<head>", "<head>" + WATCH, 1).replace("</body>", DRIVE % script + "</body>", 1)
        (tmp_path / "driven.html").write_text(driven, encoding="utf-8")
        done = subprocess.run(
            [
                *(CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
                *(f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={width},{height}", "--dump-dom"),
                (tmp_path / "driven.html").as_uri() + fragment,
            ],
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, "HOME": str(tmp_path)},
        )
        assert done.returncode == 0, done.stderr
        found = re.search(r'<textarea id="told">(.*?)</textarea>', done.stdout, re.DOTALL)
        assert found, f"the script did not come to its end: {done.stdout[-2000:]}{done.stderr[-2000:]}"
        told = json.loads(parse(f"<p>{found[1]}</p>").text)
        assert told.pop("said") == []
        return told

    return call


COLUMN = """
const names = () => [...document.querySelectorAll(".results tbody th")].map((cell) => cell.textContent);
const button = (i) => document.querySelectorAll(".results thead button")[i];
const state = () => [...document.querySelectorAll(".results thead th")].map((cell) => cell.getAttribute("aria-sort"));
"""


@browser
def test_sorting_goes_down_up_and_back(drive, records):
    told = drive(
        COLUMN
        + """
        told.columns = document.querySelectorAll(".results thead button").length;
        for (const step of ["down", "up", "back"]) { button(1).click(); told[step] = [names(), state()[1]]; }
        button(3).click(); told.flat = names(); button(3).click(); told.flatUp = names();
        button(0).click(); told.byName = names();
        """
    )
    datasets = ["wine", "breast_cancer", "digits"]
    mean = {d: statistics.fmean(r.metrics["auc"] for r in records[d, "opauc"]) for d in datasets}
    up = sorted(datasets, key=mean.get)
    assert told["columns"] == 5
    assert told["down"] == [[*up[::-1], "german"], "descending"]
    assert told["up"] == [[*up, "german"], "ascending"]
    assert told["back"] == [[*datasets, "german"], None]
    assert told["flat"][2:] == ["wine", "german"], "what has no number stays at the end"
    assert told["flatUp"] == [told["flat"][1], told["flat"][0], "wine", "german"]
    assert told["byName"] == ["breast_cancer", "digits", "german", "wine"]


@browser
def test_the_toggle_shows_one_test_at_a_time(drive):
    told = drive(
        """
        const all = (name) => [...document.querySelectorAll("#table .by-" + name)];
        const seen = (name) => all(name).filter((node) => node.offsetParent).length > 0;
        const tests = ["paired", "corrected", "bayes"];
        for (const name of tests) { document.getElementById("test-" + name).click(); told[name] = tests.filter(seen); }
        """
    )
    assert told == {"paired": ["paired"], "corrected": ["corrected"], "bayes": ["bayes"]}


@browser
def test_a_cell_shows_its_folds_on_hover_and_focus(drive, records):
    told = drive(
        """
        const card = document.getElementById("card"), cell = document.querySelectorAll(".results .cell")[0];
        const look = () => [card.hidden, card.querySelectorAll("li").length, card.innerText.replace(/\\s+/g, " ")];
        told.before = look();
        cell.dispatchEvent(new MouseEvent("mouseenter")); told.hover = look();
        const box = card.getBoundingClientRect();
        told.inside = box.left >= 0 && box.top >= 0 && box.right <= innerWidth && box.bottom <= innerHeight;
        cell.dispatchEvent(new MouseEvent("mouseleave")); told.left = card.hidden;
        cell.focus(); told.focused = document.activeElement === cell;
        if (!document.hasFocus()) cell.dispatchEvent(new FocusEvent("focus"));  // the window of another test has it
        told.focus = look(); told.described = cell.getAttribute("aria-describedby");
        document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
        told.escape = card.hidden;
        """
    )
    assert told["before"][0] is True
    assert told["hover"][:2] == [False, 6]
    assert told["inside"]
    for record in records["wine", "opauc"]:
        assert auc_text(record.metrics["auc"]) in told["hover"][2]
        assert all(value_text(value) in told["hover"][2] for value in record.selected.values())
    assert told["left"] is True
    assert told["focused"] is True
    assert told["focus"] == told["hover"]
    assert told["described"] == "card"
    assert told["escape"] is True


@browser
def test_map_shows_the_value_below_the_pointer(drive, records):
    told = drive(
        """
        const map = document.querySelectorAll(".heat")[0], box = map.getBoundingClientRect();
        const at = (x, y) => {
          map.dispatchEvent(new PointerEvent("pointermove", { clientX: box.left + x, clientY: box.top + y }));
          return document.getElementById("card").innerText;
        };
        told.first = at(1, box.height - 1); told.last = at(box.width - 1, 1);
        """
    )
    rows = records["wine", "opauc"]
    mean = np.mean([record.selection.auc[0] for record in rows])
    assert "η = 2⁻⁸, λ = 2⁻⁶" in told["first"]
    assert f"inner AUC {auc_text(round(mean, 4))}" in told["first"]
    assert "η = 2⁸, λ = 1" in told["last"]


@browser
def test_a_link_into_a_closed_section_opens_it(drive):
    told = drive("told.open = document.getElementById('f-1-2').closest('details').open;", fragment="#f-1-2")
    assert told["open"] is True
    closed = drive("told.open = [...document.querySelectorAll('details')].some((node) => node.open);")
    assert closed["open"] is False


@browser
@pytest.mark.parametrize("width", [1280, 500])
def test_wide_elements_scroll_separately(drive, width):
    told = drive(
        """
        told.width = document.scrollingElement.scrollWidth; told.window = innerWidth;
        told.heights = [...document.querySelectorAll("section")].map((node) => node.offsetHeight);
        told.maps = document.querySelector(".heat path").getBoundingClientRect().width;
        """,
        width=width,
    )
    assert told["width"] <= told["window"]
    assert min(told["heights"]) > 50
    assert told["maps"] > 5


@browser
def test_a_screenshot_is_not_blank(path, tmp_path):
    subprocess.run(
        [
            *(CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
            *(f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1280,1600"),
            *(f"--screenshot={tmp_path / 'page.png'}", path.as_uri()),
        ],
        check=True,
        capture_output=True,
        timeout=120,
        env={**os.environ, "HOME": str(tmp_path)},
    )
    image = (tmp_path / "page.png").read_bytes()
    assert image.startswith(b"\x89PNG")
    assert int.from_bytes(image[16:20], "big") == 1280
    assert len(image) > 30_000, "an empty page of this size compresses to a few thousand bytes"
