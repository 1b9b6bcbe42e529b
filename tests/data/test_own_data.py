"""The user's own data in experiments: files named in the experiment, and arrays from Python."""

import json
import os
import re
import shutil
import textwrap
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from command_line import Command
from scipy.sparse import csr_matrix, random
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.preprocessing import minmax_scale

import opauc_bench
from opauc_bench.config import find_config, load_experiment
from opauc_bench.data import Sources, load_catalogue, prepare
from opauc_bench.data.inputs import Source, matrix_of
from opauc_bench.data.memory import rows_in_memory
from opauc_bench.data.schema import ColumnOptions
from opauc_bench.errors import ConfigError, DataError, DataUnavailable
from opauc_bench.results.manifest import config_of, place_of_config, read_manifest

EXPERIMENT = {
    "title": "Mine",
    "datasets": ["mine"],
    "learners": ["uni_log"],
    "grids": {"eta": [0.1, 1]},
    "protocol": {"trials": 1, "folds": 2, "inner_folds": 2},
}


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    n = 200
    x = rng.normal(size=(n, 2))
    return pd.DataFrame(
        {
            "age": np.where(rng.random(n) < 0.1, np.nan, x[:, 0]),
            "size": x[:, 1] * 100,
            "city": rng.choice(["Bern", "Zürich", "Genf"], n),
            "who": rng.integers(0, 40, n),
            "clicked": np.where(x.sum(axis=1) + rng.normal(size=n) > 1, "yes", "no"),
        }
    )


def entry_of(source, **settings):
    """The entry ``mine`` with a source, as an experiment has it."""
    return load_catalogue({"mine": {"source": source, **settings}})["mine"]


def prepared(tmp_path, source, **settings):
    return prepare(entry_of(source, **settings), Sources(tmp_path / "cache", offline=True))


def dense(dataset):
    return dataset.X.toarray() if hasattr(dataset.X, "toarray") else np.array(dataset.X)


def one_hot(frame, columns):
    """The features of a table with a column for each category."""
    hot = [frame[name] == value for name in columns for value in sorted(frame[name].unique())]
    return np.column_stack(hot).astype(float)


def sorted_columns(X):
    return X[:, np.lexsort(X)]


# ------------------------------------------------------------------------------------------ files


@pytest.mark.parametrize("format", ["csv", "parquet", "arrow"])
def test_a_table_becomes_arrays_whose_sizes_are_counted(tmp_path, frame, format):
    path = tmp_path / f"t.{format}"
    write = {"csv": frame.to_csv, "parquet": frame.to_parquet, "arrow": frame.to_feather}[format]
    write(path, **({} if format == "arrow" else {"index": False}))
    source = {format: str(path), "label": "clicked", "positive": "yes", "missing": "mean", "categorical": "who"}
    if format != "csv":  # typed columns say what they are
        source |= {"drop": "who"}
        source.pop("categorical")
    data = prepared(tmp_path, source, scaling="none")
    numbers = frame[["age", "size"]].fillna(frame["age"].mean()).to_numpy()
    hot = one_hot(frame, ["city", "who"] if format == "csv" else ["city"])
    assert data.X.shape == (200, 2 + hot.shape[1])
    np.testing.assert_allclose(dense(data)[:, :2], numbers, rtol=1e-12)
    np.testing.assert_array_equal(sorted_columns(dense(data)[:, 2:]), sorted_columns(hot))
    np.testing.assert_array_equal(data.y, np.where(frame["clicked"] == "yes", 1, -1))
    assert data.manifest["columns"]["numbers"] == ["age", "size"]
    assert data.manifest["binary"] == {"positive": ["yes"]}


def test_defaults_are_minmax_and_the_greater_label(tmp_path, frame):
    frame = frame[["size", "clicked"]]
    frame.to_csv(tmp_path / "t.csv", index=False)
    data = prepared(tmp_path, {"csv": str(tmp_path / "t.csv"), "label": "clicked"})
    np.testing.assert_allclose(dense(data), minmax_scale(frame[["size"]], (-1, 1)), rtol=0, atol=1e-14)
    np.testing.assert_array_equal(data.y == 1, frame["clicked"] == "yes")
    assert data.manifest["scaling"] == "minmax"


@pytest.mark.parametrize(("format", "meant"), [("csv", "'True'"), ("parquet", "1")])
def test_booleans_as_labels(tmp_path, frame, format, meant):
    """Text in a CSV file, numbers in others: the other spelling is suggested."""
    path = tmp_path / f"t.{format}"
    frame = frame[["size"]].assign(clicked=frame["clicked"] == "yes")
    frame.to_csv(path, index=False) if format == "csv" else frame.to_parquet(path)
    source = {format: str(path), "label": "clicked"}
    with pytest.raises(DataError, match=f"true does not occur \\(did you mean {meant}\\?\\)"):
        prepared(tmp_path, source, positive=["true"])
    data = prepared(tmp_path, source, positive=[meant.strip("'")])
    np.testing.assert_array_equal(data.y == 1, frame["clicked"])


def test_a_changed_file_is_read_again_and_has_another_fingerprint(tmp_path, frame):
    path = tmp_path / "t.csv"
    frame.drop(columns="age").to_csv(path, index=False)
    source = {"csv": str(path), "label": "clicked"}
    first = prepared(tmp_path, source)
    assert prepared(tmp_path, source).folder == first.folder
    frame.drop(columns="age").iloc[::-1].to_csv(path, index=False)
    again = prepared(tmp_path, source)
    assert again.fingerprint != first.fingerprint
    np.testing.assert_array_equal(again.y, first.y[::-1])


def test_several_files_and_bad_rows(tmp_path, frame):
    frame = frame[["size", "clicked"]]
    frame[:100].to_csv(tmp_path / "a b.csv", index=False)
    (tmp_path / "more").mkdir()
    frame[100:].to_csv(tmp_path / "more" / "a b.csv.xz", index=False)
    text = (tmp_path / "a b.csv").read_text()
    (tmp_path / "a b.csv").write_text(text + "oops,yes\n")
    files = {"csv": [str(tmp_path / "a b.csv"), str(tmp_path / "more" / "a b.csv.xz")], "label": "clicked"}
    with pytest.raises(DataError) as raised:
        prepared(tmp_path, files)
    assert f"{tmp_path}/a b.csv:102: column 'size': expected a number, got 'oops'" in raised.value.message
    assert raised.value.hint == (
        "correct the file, or set 'skip_bad_rows: true', or list the column as 'categorical' under 'source' of the "
        "entry in the experiment; the same command reads it again"
    )
    data = prepared(tmp_path, files | {"skip_bad_rows": True}, scaling="none")
    np.testing.assert_array_equal(dense(data), frame[["size"]])
    assert data.manifest["rows_left_out"] == 1


def test_missing_values_are_errors_by_default(tmp_path, frame):
    frame.to_csv(tmp_path / "t.csv", index=False)
    row = int(np.argmax(frame["age"].isna())) + 2
    source = {"csv": str(tmp_path / "t.csv"), "label": "clicked"}
    with pytest.raises(DataError) as raised:
        prepared(tmp_path, source)
    assert f"t.csv:{row}: column 'age': expected a value, got nothing" in raised.value.message
    assert "'missing: mean' or 'missing: indicator'" in raised.value.hint
    data = prepared(tmp_path, source | {"missing": "indicator", "drop": ["who", "city"]}, scaling="none")
    np.testing.assert_allclose(dense(data)[:, 0], frame["age"].fillna(frame["age"].mean()), rtol=1e-13)
    np.testing.assert_array_equal(dense(data)[:, 2], frame["age"].isna())  # no row lacks a size


def test_row_metadata_by_column(tmp_path, frame):
    frame["part"] = np.where(np.arange(200) < 150, "train", "test")
    frame["day"] = pd.date_range("2024-01-01", periods=200).strftime("%Y-%m-%d")
    frame = frame.drop(columns="age")
    path = tmp_path / "t.csv"
    frame.to_csv(path, index=False)
    source = {"csv": str(path), "label": "clicked", "split": "part", "group": "city", "time": "day"}
    data = prepared(tmp_path, source)
    np.testing.assert_array_equal(data.split == 0, frame["part"] == "train")
    np.testing.assert_array_equal(data.group, pd.factorize(frame["city"])[0])
    assert (np.diff(data.time) == 86400).all()
    assert data.manifest["columns"] == {"numbers": ["size", "who"], "categories": []}
    assert entry_of(source).row_metadata == ("split", "group", "time")
    frame.loc[7, "part"] = "trian"
    frame.to_csv(path, index=False)
    with pytest.raises(DataError, match=r"t.csv:9: column 'part': expected train, validation or test, got 'trian'"):
        prepared(tmp_path, source)


def test_svmlight_and_npz(tmp_path):
    X = random(300, 40, 0.2, format="csr", random_state=0)
    assert X[:, 39].nnz
    y = np.arange(300) % 3 == 0
    lines = [
        f"{int(label)} " + " ".join(f"{j + 1}:{float(v)!r}" for j, v in zip(row.indices, row.data))
        for label, row in zip(y, X)
    ]
    (tmp_path / "t.svm").write_text("\n".join(lines))
    np.savez(tmp_path / "dense.npz", X=X.toarray(), y=y, who=np.arange(300) % 7)
    np.savez(tmp_path / "sparse.npz", data=X.data, indices=X.indices, indptr=X.indptr, shape=X.shape, y=y)
    sets = [
        prepared(tmp_path, {"svmlight": str(tmp_path / "t.svm")}, scaling="none"),
        prepared(tmp_path, {"npz": str(tmp_path / "dense.npz")}, scaling="none"),
        prepared(tmp_path, {"npz": str(tmp_path / "sparse.npz")}, scaling="none"),
    ]
    assert len({data.fingerprint for data in sets}) == 1
    np.testing.assert_array_equal(dense(sets[0]), X.toarray())
    np.testing.assert_array_equal(sets[0].y == 1, y)
    grouped = prepared(tmp_path, {"npz": str(tmp_path / "dense.npz"), "group": "who"}, scaling="none")
    np.testing.assert_array_equal(grouped.group, np.arange(300) % 7)
    (tmp_path / "zero.svm").write_text("1 0:2\n0 2:3\n")
    from_zero = prepared(tmp_path, {"svmlight": str(tmp_path / "zero.svm")}, scaling="none", first_index=0)
    assert dense(from_zero).tolist() == [[2, 0, 0], [0, 0, 3]]
    np.savez(tmp_path / "bad.npz", Z=X.data)
    with pytest.raises(DataError, match=r"bad.npz: expected arrays X and y, .* got Z"):
        prepared(tmp_path, {"npz": str(tmp_path / "bad.npz")})
    names = np.array(["a", None], dtype=object)
    np.savez(tmp_path / "named.npz", X=np.eye(2), y=[1, 0], names=names)
    assert prepared(tmp_path, {"npz": str(tmp_path / "named.npz")}, scaling="none").X.shape == (2, 2)
    with pytest.raises(DataError, match=r"named.npz: .* it cannot be read \(names has Python objects\)"):
        prepared(tmp_path, {"npz": str(tmp_path / "named.npz"), "group": "names"})
    np.savez(tmp_path / "bad.npz", X=[[1.0, np.nan]], y=[1])
    with pytest.raises(DataError, match=r"bad.npz: expected finite features"):
        prepared(tmp_path, {"npz": str(tmp_path / "bad.npz")})


def test_wide_sparse_data_need_a_scaling(tmp_path):
    (tmp_path / "t.svm").write_text("1 1:1 20000:2\n-1 5:4\n")
    source = {"svmlight": str(tmp_path / "t.svm")}
    with pytest.raises(DataError, match="expected 'scaling' for sparse rows of 20,000 features"):
        prepared(tmp_path, source)
    assert dense(prepared(tmp_path, source, scaling="maxabs")).sum() == 3


@pytest.mark.parametrize("kind", ["csv", "npz"])
def test_wide_dense_data_are_scaled_as_others(tmp_path, kind):
    """Such as gene expressions: they are dense with any scaling."""
    X, y = np.random.default_rng(0).standard_normal((6, 10_001)).round(3), np.array([1, 0] * 3)
    file = tmp_path / f"t.{kind}"
    if kind == "npz":
        np.savez(file, X=X, y=y)
    else:
        pd.DataFrame(X).assign(label=y).to_csv(file, index=False)
    data = prepared(tmp_path, {kind: str(file)} | ({"label": "label"} if kind == "csv" else {}))
    np.testing.assert_allclose(dense(data), minmax_scale(X, (-1, 1)), rtol=0, atol=1e-12)


def test_formats_of_the_catalogue_are_counted_too(tmp_path):
    (tmp_path / "t.csv").write_text("1,2,g\n3,4,b\n5,6,g\n")
    entry = {"title": "t", "format": "csv", "files": [{"name": "t.csv", "urls": [str(tmp_path / "t.csv")]}]}
    entry |= {"positive": ["g"], "scaling": "none", "range": [0, 9]}
    data = prepare(load_catalogue({"mine": entry})["mine"], Sources(tmp_path / "cache", offline=True))
    np.testing.assert_array_equal(dense(data), [[1, 2], [3, 4], [5, 6]])


@pytest.mark.parametrize(
    ("load", "name", "positive"),
    [(load_breast_cancer, "load_breast_cancer", "malignant"), (load_wine, "load_wine", "class_0")],
)
def test_classes_of_scikit_learn_by_name(tmp_path, load, name, positive):
    found = load()
    data = prepared(tmp_path, {"sklearn": name, "positive": positive}, scaling="none", range=[-1e4, 1e4])
    np.testing.assert_array_equal(dense(data), found.data)
    np.testing.assert_array_equal(data.y == 1, found.target_names[found.target] == positive)


# ------------------------------------------------------------------------------------------ mistakes, with their place


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{csv: t.csv}", "5:13: catalogue.mine.source: expected 'label': the column of the labels"),
        (
            "{csv: t.csv, label: y, scaling: none}",
            "source.scaling: unknown key here; it belongs further up, beside 'source'; allowed: sklearn, csv, parquet, "
            "arrow, svmlight, npz, positive, label",
        ),
        ("{csv: t.csv, labl: y}", "5:26: catalogue.mine.source.labl: unknown key (did you mean 'label'?); allowed: "),
        ("{csv: t.csv, label: y, postive: 1}", "source.postive: unknown key (did you mean 'positive'?); allowed: "),
        ("{csv: t.csv, label: y, missing: median}", "5:45: catalogue.mine.source.missing: expected 'error', 'mean'"),
        ("{csv: t.csv, npz: t.npz, label: y}", "5:13: catalogue.mine.source: expected one of csv, parquet, arrow, "),
        ("{npz: t.npz, missing: mean}", "5:35: catalogue.mine.source.missing: 'missing' belongs to csv, parquet and "),
        (
            "{sklearn: load_wine, group: a}",
            "catalogue.mine.source.group: 'group' belongs to csv, parquet, arrow and npz",
        ),
        ("{csv: t.csv, label: y, bits: 40}", "5:42: catalogue.mine.source.bits: expected at most 26, got 40"),
        (
            "{csv: t.csv, label: y}\n    group: g.txt",
            "6:12: catalogue.mine.group: expected 'group: COLUMN' under 'source'",
        ),
        ("{svmlight: t}\n    drop_empty: true", "6:17: catalogue.mine.drop_empty: 'drop_empty' belongs to 'format: "),
        ("{npz: t}\n  other: {scaling: none}", "6:10: catalogue.other: expected 'source', or 'format' and 'files'"),
        ("{npz: t}\n  other: {scaling: none}", "6:10: catalogue.other: the key 'title' is required and missing"),
        ("{csv: [1], label: y}", "5:20: catalogue.mine.source.csv[0]: expected text, got 1"),
    ],
)
def test_mistakes_in_a_source_have_a_place(tmp_path, source, message):
    path = tmp_path / "exp.yaml"
    path.write_text(f"title: t\ndatasets: [mine]\ncatalogue:\n  mine:\n    source: {source}\nlearners: [uni_log]\n")
    with pytest.raises(ConfigError) as raised:
        load_experiment(path, known_datasets=load_catalogue)
    assert message in raised.value.message


def test_an_own_entry_may_not_have_the_name_of_another_dataset(tmp_path):
    path = tmp_path / "exp.yaml"
    path.write_text("title: t\ndatasets: [german]\ncatalogue:\n  german: {source: {npz: t.npz}}\nlearners: [uni_log]\n")
    with pytest.raises(ConfigError, match=r":4:3: catalogue.german: the packaged catalogue has a dataset"):
        load_experiment(path, known_datasets=load_catalogue)


# ------------------------------------------------------------------------------------------ the command line


def test_an_experiment_with_its_own_data(command, tmp_path, frame):
    frame.to_csv(tmp_path / "clicks.csv", index=False)
    (tmp_path / "exp.yaml").write_text(
        textwrap.dedent("""
        title: Clicks
        catalogue:
          clicks:
            source: {csv: clicks.csv, label: clicked, positive: "yes", missing: mean}
        datasets: [clicks]
        learners: [uni_log]
        grids: {eta: [0.1, 1]}
        protocol: {trials: 1, folds: 2, inner_folds: 2}
        """)
    )
    planned = command("plan", "exp.yaml", cwd=tmp_path, exits=0)
    assert planned.stderr == "clicks: reading clicks.csv\nclicks: 3 columns of numbers, 1 of categories: 'city'\n"
    assert "0 tasks done, 2 to do" in planned.stdout
    done = command("run", "exp.yaml", cwd=tmp_path, exits=0)
    assert "clicks" in done.stdout
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    assert command("report", "results/exp", cwd=tmp_path).stdout == done.stdout.rpartition("\n\nwritten")[0] + "\n"
    assert "0 of 2 tasks to compute" in command("run", "exp.yaml", cwd=tmp_path).stderr
    facts = json.loads((tmp_path / "results/exp/manifest.json").read_text())["datasets"]["clicks"]
    assert (facts["n_samples"], facts["n_features"]) == (200, 6)
    frame.iloc[:150].to_csv(tmp_path / "clicks.csv", index=False)
    assert "0 tasks done, 2 to do" in command("plan", "exp.yaml", cwd=tmp_path).stdout, "run reads the new file too"
    assert "2 of 2 tasks to compute" in command("run", "exp.yaml", cwd=tmp_path).stderr


# ------------------------------------------------------------------------------------------ from Python


@pytest.fixture
def here(environment, monkeypatch, tmp_path):
    monkeypatch.setenv("OPAUC_BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("OPAUC_BENCH_MIRROR", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("source", ["{sklearn: load_digits}", "{sklearn: load_wine, positive: [barolo]}"])
def test_the_hint_on_labels_names_the_key(command, here, source):
    text = (
        f"title: t\ncatalogue:\n  d: {{source: {source}}}\ndatasets: [d]\nlearners: [uni_log]\ngrids: {{eta: [0.1]}}\n"
    )
    (here / "x.yaml").write_text(text)
    done = command("run", "x.yaml", cwd=here, exits=3)
    assert "hint: 'positive: [LABEL]' under 'source' of the entry in x.yaml, with labels that occur" in done.stderr


def test_data_commands_take_the_entries_of_an_experiment(command, here, frame):
    frame.to_csv("t.csv", index=False)
    source = "source: {csv: t.csv, label: clicked, missing: mean}"
    (here / "own.yaml").write_text(f"datasets:\n  mine:\n    {source}\n")
    for catalogue in ("own.yaml", f"\n  mine:\n    {source}"):
        (here / "x.yaml").write_text(f"title: not checked\ncatalogue: {catalogue}\n")
        assert "ready" in command("data", "fetch", "mine", "--catalogue", "x.yaml", "--fresh", cwd=here, exits=0).stdout
        assert "rows        200" in command("data", "info", "mine", "--catalogue", "x.yaml", cwd=here, exits=0).stdout
        listed = command("data", "list", "--catalogue", "x.yaml", cwd=here, exits=0).stdout
        assert re.search(r"^mine +200 +\d+ +[\d.]+ %  prepared$", listed, re.M)
    checked = command("data", "verify", "--catalogue", "x.yaml", cwd=here, exits=0).stdout
    assert "ok   mine arrays: fingerprint " in checked
    assert "mine; --catalogue" not in checked
    last = command("data", "verify", cwd=here, exits=0).stdout.splitlines()[-1]
    assert re.match("not checked, of no entry here: (.*, )?mine(, .*)?; --catalogue FILE adds an experiment's", last)
    (here / "x.yaml").write_text("catalogue:\n  german: {}\n  a9: {base: a9}\n")
    done = command("data", "list", "--catalogue", "x.yaml", cwd=here, exits=2)
    assert "x.yaml:2:3: catalogue.german: the packaged catalogue has a dataset of this name" in done.stderr


@pytest.fixture
def counting(monkeypatch):
    """Compute in this process; the tasks that were computed."""
    from command_line import _compute_in_this_process

    from opauc_bench.runner.execute import LocalExecutor

    computed = []

    def run(executor, tasks, config):
        computed.extend(tasks)
        return _compute_in_this_process(executor, tasks, config)

    monkeypatch.setattr(LocalExecutor, "run", run)
    return computed


def test_arrays_give_the_numbers_of_the_same_file_and_are_resumed(here, counting, capsys):
    X, y = load_breast_cancer(return_X_y=True)
    X = minmax_scale(X, (-1, 1))
    np.savez("t.npz", X=X, y=y)
    from_file = opauc_bench.run(
        EXPERIMENT | {"catalogue": {"mine": {"source": {"npz": "t.npz"}, "scaling": "none"}}}, out="a"
    )
    results = opauc_bench.run(EXPERIMENT, data={"mine": (X, y)}, out="b")
    assert results["auc"].tolist() == from_file["auc"].tolist()
    assert results["id"].tolist() == from_file["id"].tolist()
    assert results["auc"].between(0.9, 1).all()
    assert len(counting) == 4
    pd.testing.assert_frame_equal(opauc_bench.run(EXPERIMENT, data={"mine": (X, y)}, out="b"), results)
    pd.testing.assert_frame_equal(opauc_bench.load_results("b"), results)
    assert len(counting) == 4
    changed = opauc_bench.run(EXPERIMENT, data={"mine": (X, 1 - y)}, out="b")
    assert len(counting) == 6
    assert set(changed["id"]).isdisjoint(results["id"])
    assert capsys.readouterr().out == ""


def test_tables_of_other_libraries_are_taken_by_column(here, frame):
    """pyarrow stands for polars, whose frames have the same method to_pandas."""
    frame = frame.dropna()
    rows = pa.Table.from_pandas(frame)
    results = [
        opauc_bench.run(EXPERIMENT, data={"mine": (table, "clicked")}, out=out)
        for out, table in (("a", rows), ("b", frame))
    ]
    assert results[0]["id"].tolist() == results[1]["id"].tolist()
    with pytest.raises(DataError, match=r"expected a DataFrame, got .*WithoutRows, which does not hold its rows"):
        opauc_bench.run(EXPERIMENT, data={"mine": (WithoutRows(), "clicked")}, out="c")


class WithoutRows:
    """As a lazy frame of polars."""

    columns = property(lambda self: pytest.fail("it would be computed"))


def test_data_that_the_experiment_does_not_name_are_an_error(here, counting):
    X, y = load_breast_cancer(return_X_y=True)
    derived = {"mine.rff": {"base": "mine", "fourier": {"n": 4}}}
    experiment = EXPERIMENT | {"datasets": ["mine.rff"], "catalogue": derived}
    with pytest.raises(ConfigError, match="data\\['other'\\]: the experiment has no dataset of this name"):
        opauc_bench.run(EXPERIMENT, data={"mine": (X, y), "other": (X, y)}, out="a")
    assert len(opauc_bench.run(experiment, data={"mine": (X, y)}, out="b")) == 2


def test_a_file_of_an_experiment_from_python_is_found_from_anywhere(here, counting, frame, command, monkeypatch):
    monkeypatch.setitem(command.environment, "OPAUC_BENCH_CACHE", str(here / "cache"))
    frame.drop(columns="age").to_csv("t.csv", index=False)
    entry = {"source": {"csv": "t.csv", "label": "clicked"}}
    opauc_bench.run(EXPERIMENT | {"catalogue": {"mine": entry}}, out="results/r")
    assert "have changed" not in command("report", "results/r", cwd=here).stdout
    shutil.rmtree("cache")
    assert "2 of 2 agree" in command("verify", "r", "--sample", "2", cwd=here / "results").stdout


def test_sparse_matrices_frames_and_text_labels(here, counting, frame):
    X = csr_matrix(frame[["size", "who"]].to_numpy(float))
    experiment = EXPERIMENT | {"datasets": ["sparse", "frame", "named"]}
    source = {"missing": "mean", "positive": "no", "drop": ["who"], "group": "who"}
    experiment["catalogue"] = {"named": {"scaling": "minmax", "source": source}}
    data = {
        "sparse": (X, frame["clicked"].tolist()),
        "frame": (frame[["size", "city"]], frame["clicked"]),
        "named": (frame, "clicked"),
    }
    results = opauc_bench.run(experiment, data=data, out="r")
    assert (results["status"] == "ok").all()
    facts = json.loads((here / "r/manifest.json").read_text())["datasets"]
    assert [facts[name]["n_features"] for name in data] == [2, 4, 5]
    assert facts["named"]["row_metadata"]["group"] == {"n_groups": frame["who"].nunique()}
    assert facts["named"]["n_positive"] == (frame["clicked"] == "no").sum()


def test_groups_and_times_of_a_frame_are_those_of_the_same_file(here, counting, frame):
    frame = frame.drop(columns="age").assign(when=np.random.default_rng(1).permutation(len(frame)))
    frame.to_csv("t.csv", index=False)
    entry = {"scaling": "minmax", "source": {"group": "who", "time": "when"}}
    for out, protocol in [("groups", {"groups": True}), ("time", {"order": "time"})]:
        experiment = EXPERIMENT | {"protocol": EXPERIMENT["protocol"] | protocol}
        of_file = entry | {"source": entry["source"] | {"csv": "t.csv", "label": "clicked", "positive": ["yes"]}}
        experiment["catalogue"] = {"mine": of_file}
        expected = opauc_bench.run(experiment, out=f"file-{out}")
        experiment["catalogue"] = {"mine": entry | {"source": entry["source"] | {"positive": ["yes"]}}}
        found = opauc_bench.run(experiment, data={"mine": (frame, "clicked")}, out=f"memory-{out}")
        assert found["auc"].tolist() == expected["auc"].tolist()


def test_the_same_column_as_group_or_as_time_is_other_data():
    frame = pd.DataFrame({"x": [1.0, 2, 3, 4], "when": [1, 2, 3, 4]})
    digests = {rows_in_memory(frame, [0, 1, 0, 1], {name: "when"})[1] for name in ("group", "time")}
    assert len(digests) == 2


def test_an_experiment_file_takes_data_as_well(here, counting):
    X, y = load_wine(return_X_y=True)
    (here / "exp.yaml").write_text(json.dumps(EXPERIMENT | {"catalogue": {"mine": {"scaling": "minmax"}}}))
    results = opauc_bench.run("exp.yaml", data={"mine": (X, y == 0)})
    assert (here / "results/exp/manifest.json").exists()
    assert results["auc"].min() > 0.9


def test_columns_of_metrics_are_there_without_a_number(here, counting):
    X, y = load_wine(return_X_y=True)
    results = opauc_bench.run(EXPERIMENT, data={"mine": (X * 1e300, y == 0)}, out="r")
    assert set(results["status"]) == {"diverged"}
    assert results["auc"].isna().all()


@pytest.mark.parametrize("program", ["analysis.py", "mine/__main__.py"])
def test_after_ctrl_c_the_same_call_continues(here, monkeypatch, capsys, program):
    from opauc_bench.runner.execute import LocalExecutor

    def interrupted(*arguments):
        raise KeyboardInterrupt

    X, y = load_wine(return_X_y=True)
    monkeypatch.setattr(LocalExecutor, "run", interrupted)
    monkeypatch.setattr("sys.argv", [program])
    with pytest.raises(KeyboardInterrupt):
        opauc_bench.run(EXPERIMENT, data={"mine": (X, y == 0)}, out="r")
    said = capsys.readouterr().err
    assert "interrupted; finished tasks are saved: the same call continues" in said
    assert "opauc-bench" not in said


def test_labels_in_an_array_of_objects(here, counting):
    X, y = load_wine(return_X_y=True)
    results = opauc_bench.run(EXPERIMENT, data={"mine": (X, (y == 0).astype(object))}, out="r")
    assert (results["status"] == "ok").all()


def test_false_as_the_positive_label(here, counting):
    X, y = load_wine(return_X_y=True)
    experiment = EXPERIMENT | {"catalogue": {"mine": {"source": {"positive": False}}}}
    found = opauc_bench.run(experiment, data={"mine": (X, y > 0)}, out="a")
    expected = opauc_bench.run(EXPERIMENT, data={"mine": (X, y == 0)}, out="b")
    assert found["auc"].tolist() == expected["auc"].tolist()


@pytest.mark.parametrize(
    ("source", "advice"),
    [
        (None, "pass X as a DataFrame, and name a column of it under source: {split: COLUMN}"),
        ({"npz": "t.npz"}, "name an array of the file under source: {split: NAME}"),
        ({"csv": "t.csv", "label": "y"}, "name a column of the file under source: {split: NAME}"),
        ({"svmlight": "t.svm"}, "give the file as 'format: svmlight' and 'files', with 'split: FILE'"),
    ],
)
def test_advice_on_missing_row_metadata_fits_the_source(here, source, advice):
    X, y = load_wine(return_X_y=True)
    experiment = EXPERIMENT | {"protocol": {"kind": "predefined"}}
    if source is not None:
        experiment["catalogue"] = {"mine": {"source": source}}
    with pytest.raises(ConfigError) as raised:
        opauc_bench.run(experiment, data=None if source else {"mine": (X, y == 0)}, out="r")
    assert advice in raised.value.message


def with_index(index):
    """A sparse matrix of 4 x 5 with one index that it does not have."""
    X = csr_matrix(np.eye(4, 5))
    X.indices[2] = index
    return X


@pytest.mark.parametrize("address", ["mine.py:Own", "edited_module.Own"])
def test_an_edited_file_is_imported_again(here, counting, monkeypatch, address):
    """Ids have the hash of the file as it is now: the class has to be the one of that file."""
    text = "from sklearn.dummy import DummyClassifier\nclass Own(DummyClassifier):\n    strategy_of_mine = {}\n"
    text += "    def predict_proba(self, X):\n        import numpy as np\n        s = {} * X[:, 0]\n"
    text += "        p = 1 / (1 + np.exp(-s))\n        return np.column_stack([1 - p, p])\n"
    monkeypatch.syspath_prepend(here)
    name = "mine.py" if ".py" in address else "edited_module.py"
    X, y = load_breast_cancer(return_X_y=True)
    experiment = EXPERIMENT | {"learners": [{"estimator": address, "name": "own"}], "grids": {}}
    (here / name).write_text(text.format(1, 1))
    first = opauc_bench.run(experiment, data={"mine": (X, y)}, out="a")
    (here / name).write_text(text.format(2, -1))
    second = opauc_bench.run(experiment, data={"mine": (X, y)}, out="a")
    np.testing.assert_allclose(first["auc"] + second["auc"], 1.0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"indices": lambda values: values + 1}, "ind(ices|ex values) must be < 40"),
        ({"indices": lambda values: values - 1}, "ind(ices|ex values) must be >= 0"),
        ({"indices": lambda values: values + 0.5}, "expected whole numbers in indices, got float64"),
        ({"indptr": lambda values: values[::-1]}, "index pointer"),
        (
            {"indptr": lambda values: np.where(np.arange(len(values)) == 7, 10**6, values)},
            "must (be|form) a non-decreasing",
        ),
    ],
)
def test_damaged_sparse_arrays(tmp_path, changes, message):
    X = random(300, 40, 0.2, format="csr", random_state=0)
    arrays = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": X.shape, "y": np.arange(300) % 3 == 0}
    np.savez(tmp_path / "t.npz", **arrays | {name: change(arrays[name]) for name, change in changes.items()})
    with pytest.raises(DataError, match=rf"t.npz: .*{message}"):
        prepared(tmp_path, {"npz": str(tmp_path / "t.npz")}, scaling="none")


def test_mistakes_in_row_metadata_of_own_data(tmp_path, frame):
    frame.to_csv(tmp_path / "t.csv", index=False)
    source = {"csv": str(tmp_path / "t.csv"), "label": "clicked", "drop": ["age"]}
    for name in ("group", "time", "split"):
        with pytest.raises(DataError, match="expected a column 'whoo' \\(did you mean 'who'\\?\\)"):
            prepared(tmp_path, {**source, name: "whoo"})
    for who in (np.array([1, 2, np.nan, 2]), np.array(["2024-01-01", "2024-01-02", "NaT", "2024-01-02"], "M8[D]")):
        np.savez(tmp_path / "t.npz", X=np.eye(4), y=[1, 0, 1, 0], who=who)
        with pytest.raises(DataError, match=rf"t.npz: who\[2\]: expected a value per row \(group\), got {who[2]}"):
            prepared(tmp_path, {"npz": str(tmp_path / "t.npz"), "group": "who"})
    pytest.importorskip("pyarrow")
    frame.drop(columns="who").to_parquet(tmp_path / "t.parquet")
    frame.to_csv(tmp_path / "age.csv", index=False)
    for kind in ("parquet", "csv"):
        table = tmp_path / ("t.parquet" if kind == "parquet" else "age.csv")
        own = {kind: str(table), "label": "clicked", "group": "age", "drop": ["who"] if kind == "csv" else []}
        with pytest.raises(DataError, match="column 'age': expected a value, got nothing") as raised:
            prepared(tmp_path, own)
        assert "or set 'skip_bad_rows: true'" in raised.value.hint
        assert "missing" not in raised.value.hint  # a group cannot be made up
        left = prepared(tmp_path, {**own, "skip_bad_rows": True})
        assert left.manifest["n_samples"] == frame["age"].notna().sum()


def test_times_of_any_unit_are_seconds(tmp_path):
    for unit in ("D", "s", "ns"):
        when = np.array(["1970-01-02", "1970-01-03"] * 2, f"datetime64[{unit}]")
        np.savez(tmp_path / "t.npz", X=np.eye(4), y=[1, 0, 1, 0], when=when)
        data = prepared(tmp_path, {"npz": str(tmp_path / "t.npz"), "time": "when"})
        assert data.time[:2].tolist() == [86400.0, 2 * 86400.0]


def test_alternatives_may_have_another_source_or_none(tmp_path):
    (tmp_path / "b.csv").write_text("a,z\n1,yes\n2,yes\n3,no\n")
    (tmp_path / "c.svm").write_text("1 1:1\n1 1:2\n-1 1:3\n")
    absent = {"source": {"csv": str(tmp_path / "absent.csv"), "label": "y"}, "positive": ["yes"]}
    table = {"source": {"csv": str(tmp_path / "b.csv"), "label": "z"}, "positive": ["yes"]}
    published = {"format": "svmlight", "files": [{"name": "c.svm", "urls": [str(tmp_path / "c.svm")]}], "positive": [1]}
    nowhere = published | {"files": [{"name": "d.svm", "urls": [str(tmp_path / "d.svm")]}]}
    bundled = {"source": {"sklearn": "load_iris"}, "positive": [1]}
    for number, (entry, alternative) in enumerate(
        [(absent, table), (absent, published), (nowhere | {"title": "t", "scaling": "minmax"}, table)]
    ):
        data = load_catalogue({"mine": entry | {"alternatives": [alternative]}})["mine"]
        found = prepare(data, Sources(tmp_path / f"cache{number}", offline=True))
        assert (dense(found).ravel().tolist(), found.y.tolist()) == ([-1, 0, 1], [1, 1, -1])
    data = load_catalogue({"mine": absent | {"alternatives": [bundled]}})["mine"]
    assert prepare(data, Sources(tmp_path / "cache", offline=True)).X.shape == (150, 4)


def test_what_becomes_of_the_columns_is_said(tmp_path, frame):
    said = []
    text = frame.drop(columns="age").to_csv(index=False).splitlines()
    (tmp_path / "t.csv").write_text("\n".join([text[0], "x,y", *text[1:]]), "utf-8")
    source = {"csv": str(tmp_path / "t.csv"), "label": "clicked", "skip_bad_rows": True}
    prepare(entry_of(source), Sources(tmp_path / "cache", offline=True), said.append)
    assert "mine: 2 columns of numbers, 1 of categories: 'city'" in said
    assert any(line.startswith("mine: note: 1 bad row left out; the first:") for line in said)
    mistakes = [({"drop": ["agee"]}, "drop"), ({"label": "klicked"}, "label"), ({"drop": ["clicked"]}, "drop")]
    for absent, key in mistakes:
        with pytest.raises(DataError) as raised:
            prepared(tmp_path, source | absent)
        assert raised.value.hint.startswith(f"correct '{key}' under 'source' of the entry")


def test_a_dataset_that_is_not_there_is_said_to_be_unavailable(here, command, frame):
    frame.drop(columns="age").to_csv("t.csv", index=False)
    absent = {"source": {"csv": "absent.csv", "label": "clicked"}}
    there = {"source": {"csv": "t.csv", "label": "clicked"}}
    experiment = EXPERIMENT | {"datasets": ["absent", "there"], "catalogue": {"absent": absent, "there": there}}
    (here / "e.yaml").write_text(json.dumps(experiment))
    done = command("run", "e.yaml", "--out", "r", cwd=here)
    assert "data unavailable in 2 of 2 folds" in done.stdout
    assert "left out" not in done.stdout


def test_a_changed_file_is_read_again_by_every_entry_that_has_it(tmp_path, frame):
    source = {"csv": str(tmp_path / "t.csv"), "label": "clicked", "drop": ["age", "city"]}
    others = [(source, {}), (source, {"scaling": "none"}), (source | {"drop": ["age", "city", "who"]}, {})]
    for n_rows in (50, 60):
        frame[:n_rows].to_csv(tmp_path / "t.csv", index=False)
        for other, settings in others:
            assert len(prepared(tmp_path, other, **settings).y) == n_rows


def test_a_number_of_features_that_is_given(tmp_path):
    (tmp_path / "t.csv").write_text("x,y,label\n1,2,0\n3,4,1\n")
    (tmp_path / "t.svm").write_text("1 1:1 2:2\n0 1:3 2:4\n1 1:5\n0 2:1\n")
    np.savez(tmp_path / "t.npz", X=np.eye(4), y=[0, 1, 0, 1])
    csv = {"csv": str(tmp_path / "t.csv"), "label": "label"}
    for source, found in [(csv, 2), ({"npz": str(tmp_path / "t.npz")}, 4)]:
        for n_features in (1, 9):
            with pytest.raises(DataError, match=f"expected {n_features} features, got {found}"):
                prepared(tmp_path, source, n_features=n_features)
    for scaling in ("minmax", "maxabs", "none"):  # the largest index of svmlight files may be less
        padded = dense(prepared(tmp_path, {"svmlight": str(tmp_path / "t.svm")}, n_features=4, scaling=scaling))
        plain = dense(prepared(tmp_path, {"svmlight": str(tmp_path / "t.svm")}, scaling=scaling))
        np.testing.assert_array_equal(padded, np.hstack([plain, np.zeros((4, 2))]))
    (tmp_path / "huge.svm").write_text("1 2000000000:1\n0 5:1\n1 7:1\n0 8:2\n")  # takes memory for its values only
    assert prepared(tmp_path, {"svmlight": str(tmp_path / "huge.svm")}, scaling="none").X.shape == (4, 2_000_000_000)
    files = [{"name": "t.svm", "urls": [str(tmp_path / "wide.svm")]}]
    (tmp_path / "wide.svm").write_text("1 1:1 20:2\n0 1:3 40:4\n1 1:5\n0 20:1\n")
    entry = {"format": "svmlight", "files": files, "title": "t", "positive": [1], "scaling": "none", "range": None}
    wide = load_catalogue({"mine": entry | {"drop_empty": True}})["mine"]
    assert prepare(wide, Sources(tmp_path / "cache", offline=True)).X.shape == (4, 3)


def test_labels_groups_and_categories_in_another_encoding(tmp_path, frame):
    frame = frame.drop(columns="age").assign(named=frame["city"] + frame["clicked"])
    frame.to_csv(tmp_path / "t.csv", index=False, encoding="latin1")
    number = int(frame["city"].eq("Zürich").to_numpy().argmax()) + 2
    drop = {"drop": ["named"]}
    for source, column in [
        ({"label": "named"}, "named"),
        ({"label": "clicked", "group": "city"} | drop, "city"),
        ({"label": "clicked"} | drop, "city"),
    ]:
        with pytest.raises(DataError, match=rf"t.csv:{number}: column '{column}': expected text in UTF-8 \(iconv"):
            prepared(tmp_path, {"csv": str(tmp_path / "t.csv"), **source})
    frame.to_csv(tmp_path / "t.csv", index=False)
    with_groups = {"csv": str(tmp_path / "t.csv"), "label": "clicked", "group": "city", "positive": ["yes"]} | drop
    assert len(np.unique(prepared(tmp_path, with_groups).group)) == 3


def test_data_that_cannot_be_used(here, frame):
    y = np.arange(4) % 2
    for pair, message in [
        ((np.zeros((3, 2)), y), "expected rows of features and a label for each"),
        ((np.full((4, 1), np.nan), y), "expected finite features, got nan at X[0, 0]"),
        ((csr_matrix([[0, 0], [1, 0], [0, np.inf], [2, 0]]), y), "expected finite features, got inf at X[2, 1]"),
        ((np.zeros((4, 1)), [1.0, 2.0, np.nan, 1.0]), "expected finite labels"),
        ((np.zeros((4, 1)), [1, "a", 2, None]), "expected labels that are all numbers or all text"),
        ((np.ma.masked_equal(np.arange(4.0)[:, None], 3), y), "expected finite features, got nan at X[3, 0]"),
        ((np.zeros((4, 1)), np.ma.masked_equal([1, 0, 1, 3], 3)), "expected finite labels, got missing"),
        (
            (np.zeros((4, 1)), np.ma.masked_equal(["a", "b", "a", "c"], "c")),
            "expected a label for each row, got masked",
        ),
        ((1j * np.ones((4, 1)), y), "expected real features, got complex ones"),
        ((csr_matrix(1j * np.ones((4, 1))), y), "expected real features, got complex ones"),
        ((with_index(5), y), "must be < 5"),
        ((with_index(-1), y), "must be >= 0"),
        ((frame, 5), "expected a label for each of"),
        ((frame.drop(columns="clicked"), frame["clicked"][::-1]), "expected y with the index of X"),
        ((frame, "klicked"), "expected a column 'klicked'"),
        ((frame, "clicked"), "column 'age': expected a value, got nothing"),
        ((frame.drop(columns="age").rename(columns={"size": ""}), "clicked"), "of the DataFrame has no name"),
        ((frame.iloc[:0], "clicked"), "expected rows"),
        ((pd.DataFrame({("a", 1): [1, 2], ("a", 2): [3, 4]}), [0, 1]), "got a MultiIndex"),
        ((pd.DataFrame({"label of the rows": [1, 2]}), [0, 1]), "has a column 'label of the rows'"),
        ((pd.DataFrame({"a": [10**400, 2]}, dtype=object), [0, 1]), "column 'a': expected a finite number, got inf"),
        ((frame.drop(columns="age").assign(when=pd.Timestamp("2024-01-01")), "clicked"), "column 'when'"),
    ]:
        with pytest.raises(DataError) as raised:
            opauc_bench.run(EXPERIMENT, data={"mine": pair}, out="r")
        assert raised.value.message.startswith("data['mine']: ")
        assert "--" not in raised.value.hint
        assert ("missing: mean" in raised.value.hint) == ("got nothing" in message)
        assert message in raised.value.message
    for source, message in [
        ({"missing": "foo"}, "source: missing: expected"),
        ({"bits": 100}, "source: bits: expected"),
        ({"bits": "x"}, "source: bits: expected"),
        ({"drop": 3}, "source: drop: expected"),
        ("abc", "expected a mapping of settings, and one under source"),
    ]:
        experiment = EXPERIMENT | {"catalogue": {"mine": {"source": source}}}
        with pytest.raises(ConfigError, match=message):
            opauc_bench.run(experiment, data={"mine": (frame, "clicked")}, out="r")
    with pytest.raises(ConfigError, match="experiment: expected dicts, lists, text and numbers of Python"):
        opauc_bench.run(EXPERIMENT | {"grids": {"eta": np.array([0.1])}}, out="r")
    for arguments, message in [
        ({"data": {"mine": (np.eye(2), [0, 1])}}, "expected the folder of its results"),
        ({"data": {"mine": np.eye(2)}, "out": "r"}, r"data\['mine'\]: expected a pair"),
        ({"data": {"german": (np.eye(2), [0, 1])}, "out": "r"}, "the packaged catalogue has a dataset of this name"),
        ({"out": "r"}, "unknown dataset 'mine'"),
        ({"data": [(np.eye(2), [0, 1])], "out": "r"}, "data: expected a dict of datasets by name"),
        ({"data": {1: (np.eye(2), [0, 1])}, "out": "r"}, "data: expected a dict of datasets by name"),
        ({"jobs": "2", "out": "r"}, "jobs: expected a whole number from 1, or None for all cores, got '2'"),
        ({"jobs": 0, "out": "r"}, "jobs: expected a whole number from 1"),
    ]:
        with pytest.raises(ConfigError, match=message):
            opauc_bench.run(EXPERIMENT, **arguments)


def test_data_of_another_process_are_unavailable(tmp_path):
    with pytest.raises(DataUnavailable, match="were in the memory of another process") as raised:
        prepared(tmp_path, {"memory": "0" * 64})
    assert raised.value.hint == "opauc_bench.run(..., data={'mine': (X, y)})"


def test_a_frame_is_the_matrix_that_its_csv_gives(tmp_path, frame):
    frame.to_csv(tmp_path / "t.csv", index=False)
    source = Source(str(tmp_path / "t.csv"), ColumnOptions(label="clicked", missing="mean", bits=8))
    blocks = [chunk.X for chunk in source.chunks()]
    schema = source.schema_at(source.statistics_so_far())
    again = Source(str(tmp_path / "t.csv"), schema=schema, learnt=False)
    (expected,) = (chunk.X for chunk in again.chunks())
    columns = ["city", "who", "size", "age"]
    found = matrix_of(frame[columns], schema)
    assert (found != expected).nnz == 0
    assert len(blocks) == 1
    with pytest.raises(DataError, match="the DataFrame: expected a column 'city'"):
        matrix_of(frame[["age", "size", "who"]], schema)
    assert matrix_of(frame[columns].iloc[:0], schema).shape == (0, schema.n_features)


def test_reasons_for_datasets_of_an_experiment_are_given(tmp_path, monkeypatch, command):
    names = ["first", "second"]  # of no other test: the cache is shared
    entries = {name: {"source": {"csv": f"{tmp_path}/{name}.csv", "label": "label"}} for name in names}
    experiment = EXPERIMENT | {"datasets": names, "catalogue": entries}
    (tmp_path / "mine.yaml").write_text(json.dumps(experiment))
    done = command("run", "mine.yaml", "--offline", cwd=tmp_path, exits=3)
    for name in entries:
        reason = f"{name}: {name}.csv: unavailable; cache: not found; {tmp_path}/{name}.csv: no such file"
        assert reason in done.stderr.replace("\n", " ")
    assert "data fetch" not in done.stderr
    assert "data list" not in done.stderr
    assert "hint: put the file there, or correct its address in mine.yaml" in done.stderr
    (tmp_path / "first.csv").write_text("a,label\n1,x\n2,y\nz,y\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPAUC_BENCH_CACHE", str(tmp_path / "cache"))
    with pytest.raises(DataError) as raised:
        opauc_bench.run(experiment | {"datasets": ["first"]}, out="results/else")
    assert raised.value.hint == ""
    assert "under 'source' of the entry in the experiment; the same" in raised.value.message


def test_each_reason_has_its_own_hint(here, command):
    (here / "one.csv").write_text("a,label\n1,x\n2,x\n")
    names = ["one", "none"]
    entries = {name: {"source": {"csv": f"{name}.csv", "label": "label"}} for name in names}
    (here / "mine.yaml").write_text(json.dumps(EXPERIMENT | {"datasets": names, "catalogue": entries}))
    lines = command("run", "mine.yaml", cwd=here, exits=3).stderr.splitlines()
    first, hint, second, other = lines[lines.index("unavailable: one, none") + 1 :]
    assert first.startswith("one: expected two labels")
    assert hint.startswith("  hint: 'positive: [LABEL]' under 'source'")
    assert second.startswith("none: none.csv: unavailable")
    assert other == "  hint: put the file there, or correct its address in mine.yaml"


@pytest.fixture
def apart(here, command, frame, monkeypatch):
    """A folder with the results of ``A/exp.yaml``, whose data are beside it; other data of the same name are above."""
    monkeypatch.setitem(command.environment, "OPAUC_BENCH_CACHE", str(here / "cache"))
    (here / "A").mkdir()
    frame.to_csv("A/mine.csv", index=False)
    frame.iloc[:150].to_csv("mine.csv", index=False)
    entry = {"source": {"csv": "mine.csv", "label": "clicked", "missing": "mean"}}
    (here / "A/exp.yaml").write_text(json.dumps(EXPERIMENT | {"catalogue": {"mine": entry}}))
    command("run", "A/exp.yaml", cwd=here, exits=0)
    return here / "results/exp"


def contents_of(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_results_know_where_their_config_is(apart, command, here, monkeypatch):
    assert read_manifest(apart).config == "../../A/exp.yaml"
    report = command("report", "A/exp.yaml", cwd=here, exits=0).stdout
    moved = here / "moved"
    for lost in (False, True):
        if lost:
            moved.mkdir()
            for name in ("A", "results", "cache"):
                (here / name).rename(moved / name)
            (moved / "A/exp.yaml").unlink()
        base = moved if lost else here
        monkeypatch.setitem(command.environment, "OPAUC_BENCH_CACHE", str(base / "cache"))
        for cwd in (base, base / "A", here):
            folder = os.path.relpath(base / "results/exp", cwd)
            done = command("report", folder, cwd=cwd, exits=0)
            assert (done.stdout, done.stderr) == (report, "")
            assert "changed" not in command("status", folder, cwd=cwd, exits=0).stdout
            assert "2 tasks done, 0 to do" in command("plan", folder, cwd=cwd, exits=0).stdout
            assert "2 of 2 agree" in command("verify", folder, "--all", cwd=cwd, exits=0).stdout
            command("report", folder, "--write", cwd=cwd, exits=0)
            assert read_manifest(base / "results/exp").config == "../../A/exp.yaml"
    (moved / "exp.yaml").write_text("moved near the folder")
    assert config_of(moved / "results/exp", "../../A/exp.yaml").resolve() == moved / "exp.yaml"


def test_a_check_does_not_replace_data_of_another_address(apart, command, here):
    """The config of an older folder may be anywhere: other data of the name are in the working directory."""
    text = (apart / "manifest.json").read_text()
    (apart / "manifest.json").write_text(text.replace('"../../A/exp.yaml"', '"exp.yaml"'))
    before = contents_of(here / "cache")
    told = f"mine.csv: the cache has a file of this name, but from another address ({here}/A/mine.csv)"

    def said(*arguments, exits=0):
        done = command(*arguments, cwd=here, exits=exits)
        assert contents_of(here / "cache") == before
        return " ".join((done.stdout + done.stderr).split())

    for name in ("report", "status"):
        assert f"mine: {told}; whether the data have changed is not known" in said(name, apart)
    planned = said("plan", apart)
    assert "2 tasks done, 0 to do" in planned
    assert f"mine: {told}. run reads the file of this experiment." in planned
    assert "2 of 2 agree" in said("verify", apart, "--all"), "the arrays of the results are in the cache"
    shutil.rmtree(here / "cache/mine/prepared")
    before = contents_of(here / "cache")
    assert f"{told}, and only 'run' and 'data fetch' replace it" in said("verify", apart, "--all", exits=3)
    shutil.copy(here / "A/exp.yaml", here)
    assert "try: opauc-bench data fetch mine --fresh --catalogue exp.yaml " in said("verify", apart, exits=3)
    assert told in said("plan", "exp.yaml", "--out", "other")
    (here / "cache/mine").rename(here / "kept")
    assert "2 to do" in command("plan", "exp.yaml", "--out", "other", cwd=here).stdout, "nothing is replaced"


@pytest.mark.parametrize(
    ("config", "there", "place"),
    [
        ("exp.yaml", [], "exp.yaml"),
        ("configs/exp.yaml", [], "exp.yaml"),
        ("results/exp.yaml", [], "exp.yaml"),
        ("configs/exp.yaml", ["exp.yaml"], "../../configs/exp.yaml"),
        ("A/exp.yaml", ["exp.yaml"], "../../A/exp.yaml"),
        (find_config("table2").resolve(), [], "table2.yaml"),
    ],
)
def test_the_name_of_a_config_is_its_place_where_that_is_enough_to_find_it(here, config, there, place):
    folder = here / "results/exp"
    for name in (config, *there):
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        if not (here / name).exists():
            (here / name).write_text("")
    assert place_of_config(folder, Path(config)) == place
    assert config_of(folder, place).resolve() == here / config


def test_the_positive_class_of_an_entry_and_of_its_base(tmp_path):
    (tmp_path / "d.csv").write_text("a,y\n" + "1,yes\n2,yes\n3,no\n" * 20)
    source = "source: {csv: d.csv, label: y"
    entries = {
        "under_source": f"{{{source}, positive: 'yes'}}}}",
        "beside": f"{{{source}}}, positive: 'yes'}}",
        "other": f"{{base: beside, {source}, positive: 'no'}}}}",
        "beside_again": "{base: under_source, positive: 'no'}",
        "largest": "{base: under_source, largest_class: true}",
        "alternative": "{base: beside, alternatives: [{source: {csv: d.csv, label: y}, positive: 'yes'}]}",
    }
    text = "datasets:\n" + "".join(f"  {name}: {entry}\n" for name, entry in entries.items())
    (tmp_path / "own.yaml").write_text(text)
    catalogue = load_catalogue(tmp_path / "own.yaml")
    found = {name: prepare(catalogue[name], Sources(tmp_path / "cache")).manifest["n_positive"] for name in entries}
    expected = {"under_source": 40, "beside": 40, "other": 20, "beside_again": 20, "largest": 40, "alternative": 40}
    assert found == expected
    (tmp_path / "own.yaml").write_text(f"datasets: {{both: {{{source}, positive: 'no'}}, positive: 'yes'}}}}\n")
    with pytest.raises(ConfigError, match=r"source\.positive: 'positive' is given here and beside 'source'"):
        load_catalogue(tmp_path / "own.yaml")


@pytest.mark.parametrize("quiet", [(), ("--quiet",)])
def test_notes_on_own_data_are_printed_even_if_progress_is_not(environment, tmp_path, quiet):
    command = Command({**environment, "OPAUC_BENCH_CACHE": str(tmp_path / "cache")})
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=400), "y": np.tile([0, 1], 200)})
    (tmp_path / "mine.csv").write_text(table.to_csv(index=False, sep=";", decimal=","))
    marked = table.assign(a=["unknown", *table["a"][1:]])
    marked.to_csv(tmp_path / "marked.csv", index=False)
    (tmp_path / "e.yaml").write_text(
        "title: t\ndatasets: [mine, marked]\nlearners: [{learner: uni_log, grid: {eta: [0.1]}}]\n"
        "protocol: {trials: 1, folds: 2, inner_folds: 2}\n"
        "catalogue: {mine: {source: {csv: mine.csv, label: y}}, marked: {source: {csv: marked.csv, label: y}}}\n"
    )
    said = command("run", "e.yaml", "--offline", "--jobs", 1, *quiet, cwd=tmp_path, exits=0).stderr
    assert "numbers have a decimal point and no commas" in said
    assert "leave the cell empty and set 'missing: mean' or 'missing: indicator' under 'source'" in said
    assert ("reading mine.csv" in said) == (not quiet)


def test_arrays_without_their_file_are_not_those_of_another_path(tmp_path, frame):
    sources = Sources(tmp_path / "cache", offline=True)
    for name, rows in (("one", frame), ("two", frame.iloc[:-9])):
        (tmp_path / name).mkdir()
        rows.drop(columns="age").to_csv(tmp_path / name / "t.csv", index=False)
    one, two, absent = (
        entry_of({"csv": str(tmp_path / name / "t.csv"), "label": "clicked"}) for name in ("one", "two", "absent")
    )
    first = prepare(one, sources)
    shutil.rmtree(tmp_path / "cache/mine/raw")
    with pytest.raises(DataUnavailable, match="absent"):
        prepare(absent, sources)
    assert len(prepare(two, sources).y) == len(first.y) - 9
    shutil.rmtree(tmp_path / "cache/mine/raw")
    assert prepare(one, sources).fingerprint == first.fingerprint


@pytest.mark.parametrize(
    ("source", "text", "hint"),
    [
        ("csv", b"# made by me\nx,label\n1,a\n2,b\n", "remove the first line, '# made by me'"),
        ("csv", b"1,a\n2,b\n", "correct 'label' under 'source' of the entry in .*; if these are values, the names"),
        ("csv", b"1 1:2\n0 1:3\n", "list the file as 'svmlight' under 'source', without 'label'"),
        ("svmlight", b"x,label\n1,0\n2,1\n", "'csv' and 'label' under 'source' read"),
        ("svmlight", b'{"x": 1}\n', "JSON is not read"),
    ],
)
def test_hints_are_those_of_the_reader(tmp_path, source, text, hint):
    (tmp_path / "t").write_bytes(text)
    given = {source: str(tmp_path / "t")} | ({"label": "label"} if source == "csv" else {})
    with pytest.raises(DataError) as raised:
        prepared(tmp_path, given)
    assert re.search(hint, raised.value.hint), raised.value.hint


@pytest.mark.parametrize(
    ("scaling", "offset", "noted"), [("none", 2024, True), ("none", 20, False), ("minmax", 2024, False)]
)
def test_a_feature_far_from_0_is_noted_where_it_is_not_scaled(tmp_path, scaling, offset, noted):
    X = np.random.default_rng(0).normal(size=(300, 4))
    X[:, 1] = 1e6  # constant: it has no differences to learn
    X[:, 2] += offset
    np.savez(tmp_path / "t.npz", X=X, y=np.arange(300) % 2)
    said = []
    entry = entry_of({"npz": str(tmp_path / "t.npz")}, scaling=scaling)
    prepare(entry, Sources(tmp_path / "cache"), said.append)
    assert any("note: feature 3 is around 2023" in line for line in said) == noted


def test_an_index_too_large_has_a_hint(tmp_path):
    (tmp_path / "t.svm").write_text("1 1:1\n-1 3000000000:1\n")
    with pytest.raises(DataError, match="expected indices up to") as raised:
        prepared(tmp_path, {"svmlight": str(tmp_path / "t.svm")}, scaling="none")
    assert "number the features anew, from 1 and without large gaps" in raised.value.hint


def test_a_column_of_ids_among_the_categories_is_noted(tmp_path):
    rows = "".join(f"id{row},{row % 7},{row % 2}\n" for row in range(300))
    (tmp_path / "t.csv").write_text(f"id,x,label\n{rows}")
    said = []
    prepare(entry_of({"csv": str(tmp_path / "t.csv"), "label": "label"}), Sources(tmp_path / "cache"), said.append)
    (note,) = (line for line in said if "note: " in line)
    assert "300 values in 300 rows: is one of them an id? 'drop' under 'source' leaves a column out" in note


def test_an_array_without_a_name_is_no_archive(tmp_path):
    np.save(tmp_path / "t.npy", np.eye(3))
    with pytest.raises(DataError, match="it has a single array, and no names"):
        prepared(tmp_path, {"npz": str(tmp_path / "t.npy")})
