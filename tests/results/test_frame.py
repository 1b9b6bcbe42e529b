"""Results as DataFrames: every number of a record, in the place that docs/results_api.md names, and nothing else."""

import json
import re
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from command_line import undrawn

import opauc_bench
from opauc_bench.errors import ResultsError
from opauc_bench.results.frame import curve_frame, grid_frame, record_frame
from opauc_bench.results.record import record_of_line
from opauc_bench.results.store import Store

EXPERIMENT = """
title: A small one
datasets: [wine, breast_cancer]
learners:
  - {{learner: opauc, title: "OPAUC$^2$", max_train: {{wine: 100}}}}
  - {{learner: uni_log, name: again}}
  - {{learner: uni_log, name: twin}}
grids: {{eta: [0.25, 1024.0], lambda: [0.01, 0.1]}}
protocol: {protocol}
"""
SPLITS = "{trials: 1, folds: 2, inner_folds: 2}"
FIGURES = {
    "sweep": (f"{{kind: sweep, splits: {SPLITS}}}", "eta", "auc"),
    "pass": (f"{{kind: convergence, points: 3, splits: {SPLITS}}}", "n_seen", "auc"),
}


@pytest.fixture(scope="module")
def place(invoke, tmp_path_factory):
    """A folder with results of a table, of one with several metrics, and of two figures."""
    place = tmp_path_factory.mktemp("frames")
    (place / "cv.yaml").write_text(EXPERIMENT.format(protocol=SPLITS))
    holdout = "{kind: holdout, trials: 2, imbalance: [0.5, 0.25]}"
    (place / "holdout.yaml").write_text(EXPERIMENT.format(protocol=holdout).replace("max_train: {wine: 100}", ""))
    for name, (protocol, x, y) in FIGURES.items():
        text = EXPERIMENT.format(protocol=protocol) + f"figures: [{{x: {x}, y: {y}}}]\n"
        (place / f"{name}.yaml").write_text(text)
    for name in ("cv", "holdout", *FIGURES):
        with undrawn():
            done = invoke("run", f"{name}.yaml", "--offline", "--jobs", 2, cwd=place)
        assert done.returncode == 0, done.stderr
    return place


def read_csv(path) -> pd.DataFrame:
    """Read a CSV file with all digits of its numbers: not every version of pandas does so by itself."""
    text = pd.read_csv(path, dtype=str, keep_default_na=False)
    numbers = {name: [float(value or "nan") for value in text[name]] for name in text if is_number(text[name])}
    flags = {name: text[name] == "True" for name in text if set(text[name]) <= {"True", "False"}}
    return text.assign(**numbers, **flags)


def is_number(column) -> bool:
    return all(re.fullmatch(r"(-?[0-9.]+(e-?\d+)?)?", value) for value in column)


def test_a_row_has_all_numbers_of_its_record(place):
    folder = place / "results/cv"
    frame, records = opauc_bench.load_results(folder), Store(folder).read()
    before, axes, after = list(frame.columns[:9]), list(frame.columns[9:11]), list(frame.columns[11:])
    assert before == ["dataset", "row", "learner", "title", "trial", "fold", "status", "message", "auc"]
    assert axes == ["eta", "lam"]
    assert after == ["n_train", "n_test", "n_settings", "n_diverged", "fit_seconds", "selection_seconds", "id"]
    assert len(frame) == 12
    assert len(records) == 8, "the twins are one computation"
    for row in frame.itertuples():
        record = records[row.id]
        assert (row.dataset, row.trial, row.fold) == (record.dataset, record.trial + 1, record.fold + 1)
        assert (row.status, row.row) == ("ok", row.dataset)
        assert row.auc == record.metrics["auc"]
        assert row.eta == record.selected["eta"]
        assert row.lam == record.selected["lam"] if "lam" in record.selected else np.isnan(row.lam)
        assert (row.n_train, row.n_test) == (record.outcome.n_train, record.outcome.n_test)
        assert (row.n_settings, row.n_diverged) == (record.selection.n_settings, record.selection.n_diverged)
        assert row.fit_seconds == record.timing.fit_cpu_seconds
        assert row.selection_seconds == record.timing.selection_cpu_seconds
    assert set(frame["title"]) == {"OPAUC^2", "again", "twin"}
    assert frame.loc[frame["dataset"] == "wine"].loc[frame["learner"] == "opauc", "n_train"].max() <= 100


def test_means_are_those_of_the_table(place):
    frame = opauc_bench.load_results(place / "results/cv")
    table = pd.read_csv(place / "results/cv/table.csv").set_index(["dataset", "column"])["mean"]
    means = frame.groupby(["dataset", "learner"])["auc"].mean()
    for key, mean in means.items():
        assert table[key] == pytest.approx(mean, abs=1e-15)


def test_grid_has_a_row_per_setting_and_selects_the_best(place):
    folder = place / "results/cv"
    grid, records = opauc_bench.load_results(folder, grid=True), Store(folder).read()
    assert list(grid.columns[-3:]) == ["inner_auc", "selected", "id"]
    assert len(grid) == 4 * 4 + 8 * 2
    for (_, id), settings in grid.groupby(["learner", "id"]):
        np.testing.assert_array_equal(settings["inner_auc"], records[id].selection.auc)
        (chosen,) = settings[settings["selected"]].itertuples()
        assert chosen.inner_auc == settings["inner_auc"].max()
        assert chosen.eta == records[id].selected["eta"]


def test_rows_of_several_cases_and_metrics(place):
    frame = opauc_bench.load_results(place / "results/holdout")
    assert list(dict.fromkeys(frame["row"]))[:2] == ["wine @ 0.5", "wine @ 0.25"]
    assert {"auc", "sparse_ratio"} <= set(frame.columns)
    assert set(frame["dataset"]) == {"wine", "breast_cancer"}


@pytest.mark.parametrize(
    ("name", "columns"), [("sweep", ["eta", "lam", "auc"]), ("pass", ["n_seen", "auc", "seconds"])]
)
def test_curves_have_a_row_per_point(place, name, columns):
    folder = place / "results" / name
    curves, records = opauc_bench.load_results(folder, curves=True), Store(folder).read()
    assert set(columns) < set(curves.columns)
    for (_, id), points in curves.groupby(["learner", "id"]):
        for column, values in records[id].columns.items():
            np.testing.assert_array_equal(points[column], values)
    assert "auc" not in opauc_bench.load_results(folder).columns


def test_an_axis_with_the_name_of_another_column_has_a_column_of_its_own():
    protocol = SimpleNamespace(record_metrics=("auc",), point_axes=lambda task: task.grid)
    task = SimpleNamespace(
        dataset="d", row="d", column="own", grid={"fold": (7.0, 9.0), "eta": (0.1,)}, protocol=protocol
    )
    record = SimpleNamespace(
        **{"id": "0", "trial": 0, "fold": 1, "status": "ok", "message": "", "ok": True, "outcome": None},
        metrics={"auc": 0.5},
        columns={"eta": [0.3, 0.4]},
        selected={"fold": 9.0, "eta": 0.1},
        selection=SimpleNamespace(auc=[0.3, 0.6], n_settings=2, n_diverged=0),
        timing=SimpleNamespace(fit_cpu_seconds=1.0, selection_cpu_seconds=1.0),
    )
    for build, tuned in ((record_frame, [9.0]), (grid_frame, [7.0, 9.0])):
        frame = build([(task, record)], {"own": "Own"})
        assert frame["fold"].tolist() == [2] * len(tuned)
        assert frame["param_fold"].tolist() == tuned
        assert frame["param_eta"].tolist() == [0.1] * len(tuned), "a curve has a column eta: one name in all tables"
    task.grid = {"fold": [7.0, 9.0]}
    curves = curve_frame([(task, record)], {"own": "Own"})
    assert curves["param_fold"].tolist() == [7.0, 9.0]
    assert curves["fold"].tolist() == [2, 2]


@pytest.mark.parametrize("what", [(), ("--grid",)])
@pytest.mark.parametrize("ending", ["csv", "json", "parquet"])
def test_export_writes_the_frame_with_all_digits(place, command, tmp_path, ending, what):
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    file = tmp_path / f"out.{ending}"
    done = command("export", "results/cv", *what, "--out", file, cwd=place, exits=0)
    readers = {"csv": read_csv, "parquet": pd.read_parquet}
    frame = opauc_bench.load_results(place / "results/cv", grid=bool(what))
    read = readers[ending](file) if ending in readers else pd.DataFrame(json.loads(file.read_text()))
    assert f"{len(frame)} rows written to {file}" in done.stderr
    pd.testing.assert_frame_equal(read, frame, check_dtype=False, check_exact=True)


def test_folds_csv_is_the_frame_without_times_and_messages(place):
    without = ["fit_seconds", "selection_seconds", "message"]
    frame = opauc_bench.load_results(place / "results/cv").drop(columns=without)
    read = read_csv(place / "results/cv/folds.csv")
    pd.testing.assert_frame_equal(read, frame, check_dtype=False, check_exact=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--out", "x.xlsx"), r"--out x.xlsx: expected a name that ends in .csv, .parquet, .json"),
        (("--out", "x.csv", "--grid", "--curves"), "--grid and --curves are two different tables"),
    ],
)
def test_export_explains_mistakes(place, command, arguments, message):
    done = command("export", "results/cv", *arguments, cwd=place, exits=2)
    assert re.search(message, done.stderr)
    assert not (place / "x.csv").exists()


@pytest.mark.parametrize(
    ("name", "option", "message"),
    [("cv", "--curves", "there are no points of figures"), ("sweep", "--grid", "no settings were tried")],
)
def test_export_of_a_table_that_these_records_do_not_have(place, command, name, option, message):
    done = command("export", f"results/{name}", option, "--out", "x.csv", cwd=place)
    assert done.returncode != 0
    assert f"{message} in these records" in done.stderr
    assert f"try: opauc-bench export results/{name} --out x.csv" in done.stderr


def test_parquet_without_pyarrow_names_the_extra(place, command, monkeypatch):
    def refuse(*arguments, **options):
        raise ImportError("no engine")

    monkeypatch.setattr(pd.DataFrame, "to_parquet", refuse)
    done = command("export", "results/cv", "--out", "x.parquet", cwd=place, exits=2)
    assert "pip install 'opauc-bench[parquet]'" in done.stderr


def test_both_tables_at_once_are_refused(place):
    with pytest.raises(ValueError, match="at most one"):
        opauc_bench.load_results(place / "results/cv", grid=True, curves=True)


def test_a_folder_without_results_is_named(tmp_path):
    with pytest.raises(ResultsError, match="no run has written its results here"):
        opauc_bench.load_results(tmp_path)
    with pytest.raises(ResultsError, match="absent: there is no such folder"):
        opauc_bench.load_results(tmp_path / "absent")
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultsError, match="file: this is a file, not a results folder"):
        opauc_bench.load_results(tmp_path / "file")


# ---------------------------------------------------------------------- how often a folder is read


@pytest.fixture
def readings(monkeypatch):
    """Counts how often each line of records is parsed."""
    counts = Counter()

    def counted(line):
        counts[bytes(line).rstrip(b"\r\n")] += 1
        return record_of_line(line)

    monkeypatch.setattr("opauc_bench.results.store.record_of_line", counted)
    return counts


@pytest.mark.parametrize(
    "arguments",
    [
        ("status", "results/cv"),
        ("report", "results/cv"),
        ("report", "results/cv", "--to", "elsewhere", "--html"),
        ("report", "results/cv", "--latex", "-"),
        ("report", "results/pass"),
        ("compare", "results/cv"),
        ("verify", "results/cv", "--sample", 0),
        ("export", "results/cv", "--grid", "--out", "grid.csv"),
        ("plan", "cv.yaml"),
        ("run", "cv.yaml", "--offline"),
    ],
    ids=lambda arguments: " ".join(map(str, arguments[:1])),
)
def test_a_command_reads_each_record_once(place, command, readings, arguments):
    done = command(*arguments, cwd=place)
    assert done.returncode == (2 if arguments[0] == "compare" else 0), done.stderr
    assert set(readings.values()) == {1}
    folder = place / "results" / ("pass" if "results/pass" in arguments else "cv")
    assert len(readings) == sum(len(path.read_bytes().splitlines()) for path in folder.glob("records/*.jsonl"))
