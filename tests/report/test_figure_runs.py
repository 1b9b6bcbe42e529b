"""Figures from the outside: configs that are checked, planned, run, drawn, resumed and verified."""

import contextlib
import hashlib
import json
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Literal

import numpy as np
import pytest
from command_line import undrawn
from folders import forge, record_of, records_of, rows_of, snapshot
from reference.records import task_of

from opauc_bench.commands import busy
from opauc_bench.commands.figures import _samples
from opauc_bench.commands.local_data import LocalData
from opauc_bench.commands.planning import plan_locally, selecting_plan
from opauc_bench.commands.recorded import Recorded, shapes_of
from opauc_bench.commands.reports import report_files
from opauc_bench.commands.session import Session
from opauc_bench.config import Experiment, load_experiment
from opauc_bench.data import Sources, load_catalogue
from opauc_bench.errors import ConfigError
from opauc_bench.figures import _TAKEN
from opauc_bench.learners import OPAUCPCA, learner_parameters
from opauc_bench.learners.opauc import pca
from opauc_bench.learners.opauc.principal_components import principal_components
from opauc_bench.protocols import KINDS, PROTOCOLS, Convergence, CrossValidation, Holdout, Sweep, Timing
from opauc_bench.protocols.context import TaskContext
from opauc_bench.protocols.convergence import checkpoints
from opauc_bench.results.manifest import DatasetFacts, read_manifest
from opauc_bench.runner.engines import Engine
from opauc_bench.task import expand_grid

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = sorted(ROOT.glob("configs/*figure*.yaml"))

SWEPT = """
title: A small sweep
datasets: [wine, breast_cancer]
learners: [opauc]
grids: {eta: {pow2: [-8, 8, 8]}, lambda: [0.01, 4]}
protocol: {kind: sweep, splits: {trials: 1, folds: 3}}
figures: [{name: influence, x: eta, y: auc, x_scale: log2}]
"""

TABLE = """
title: A table
datasets: [wine]
learners: [opauc, {learner: oam_gra, title: OAM_gra}]
grids: {eta: {pow2: [-8, 0, 4]}, lambda: [0.01, 4]}
protocol: {trials: 1, folds: 3, inner_folds: 2}
"""

PASSED = (
    TABLE.replace("A table", "A pass").replace(
        "{trials: 1, folds: 3, inner_folds: 2}",
        "{kind: convergence, points: 4, splits: {trials: 1, folds: 3, inner_folds: 2}}",
    )
    + "figures: [{name: samples, x: n_seen, y: auc}, {name: time, x: seconds, y: auc}]\n"
)
TIMED = (
    TABLE.replace("A table", "Times").replace(
        "{trials: 1, folds: 3, inner_folds: 2}",
        "{kind: timing, repeats: 2, splits: {trials: 1, folds: 3, inner_folds: 2}}",
    )
    + "figures: [{x: dataset, y: seconds, y_scale: log10}]\n"
)
HELD_OUT = """
title: Sparse ratio against AUC
datasets: [breast_cancer]
learners: [ftrl_auc, {learner: spam_l2, title: SPAM}]
grids: {gamma: [0.1, 1], l1: [0.001, 0.1, 10], xi: [0.1, 1], l2: [0.01]}
protocol: {kind: sweep, splits: {kind: holdout, trials: 2}}
figures: [{x: auc, y: sparse_ratio, along: l1, others: validation}]
"""


def read(text, tmp_path):
    (tmp_path / "x.yaml").write_text(text)
    return load_experiment(tmp_path / "x.yaml", learner_parameters=learner_parameters)


def printed_by_run(text, name):
    """What a run prints that writes its results."""
    return f"{text}\nwritten to results/{name}/\n"


@pytest.fixture
def csv_only():
    """Figures are not drawn."""
    with undrawn():
        yield


@pytest.fixture(scope="module")
def swept(invoke, tmp_path_factory):
    desk = tmp_path_factory.mktemp("swept")
    (desk / "swept.yaml").write_text(SWEPT)
    done = invoke("run", "swept.yaml", "--offline", "--jobs", 2, cwd=desk, exits=0)
    return desk, done


# ---------------------------------------------------------------------- configs


def test_there_is_a_config_for_every_figure():
    names = {path.stem for path in CONFIGS}
    assert {f"figure{n}" for n in range(1, 8)} | {"figure5_2013"} <= names
    assert {f"ftrl_figure{n}" for n in (2, 3, 4, 5, 6, 7, 10, 11)} <= names
    page = (ROOT / "docs/figures.md").read_text()
    told = set(re.findall(r"\| `(\w*figure\w*)\.yaml` \|", page))
    assert told == names


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_configs_load_and_plan(path, tmp_path):
    session = Session.open(path, out=tmp_path / "out", sources=Sources(tmp_path / "cache", (), offline=True))
    experiment = session.experiment
    assert experiment.figures[0].name == path.stem
    assert set(experiment.datasets) <= set(load_catalogue())
    tasks = Recorded.read(session).tasks
    assert len(tasks) == len(session.experiment.rows) * len(session.columns) * experiment.protocol.n_repetitions
    assert all(task.seconds > 0 and task.memory_bytes > 0 for task in tasks)
    again = Experiment.model_validate(experiment.plain())
    assert again.plain() == experiment.plain()


@pytest.mark.parametrize(
    ("figure", "table"),
    [
        ("figure1", "table2"),
        ("figure2", "table4"),
        ("figure3", "table6"),
        ("figure7", "table2"),
        ("ftrl_figure3", "ftrl_table2"),
        ("ftrl_figure5", "ftrl_table3"),
        ("ftrl_figure10", "ftrl_table3"),
    ],
)
def test_figure_configs_use_the_settings_that_a_table_selects(figure, table, tmp_path):
    """The tasks that select are tasks of the table: only then their records are found."""
    sources = Sources(tmp_path / "cache", (), offline=True)
    drawn, filled = (
        Session.open(ROOT / "configs" / f"{name}.yaml", out=tmp_path / name, sources=sources)
        for name in (figure, table)
    )
    assert drawn.experiment.reuse == (table,)
    names = {*drawn.experiment.datasets, *filled.experiment.datasets}
    facts = {name: DatasetFacts(fingerprint=hashlib.sha256(name.encode()).hexdigest()) for name in names}
    selecting = {task.id for task in selecting_plan(drawn, shapes_of(drawn, facts))}
    manifest = Recorded.read(filled).manifest.model_copy(update={"datasets": facts})
    computed = {task.id for task in Recorded(filled, manifest, Recorded.read(filled).records).tasks}
    assert selecting
    assert None not in selecting | computed
    assert selecting <= computed


def test_kind_selects_the_class_of_the_protocol(tmp_path):
    assert tuple(protocol().kind for protocol in PROTOCOLS) == KINDS
    assert [protocol.outcome.model_fields["kind"].annotation for protocol in PROTOCOLS] == [Literal[k] for k in KINDS]
    kinds = {"sweep": Sweep, "convergence": Convergence, "timing": Timing}
    for text, kind in ((SWEPT, "sweep"), (PASSED, "convergence"), (TIMED, "timing")):
        protocol = read(text, tmp_path).protocol
        assert isinstance(protocol, kinds[kind])
        assert isinstance(protocol.splits, CrossValidation)
        assert "trials" not in protocol.identity()["splits"]
    assert (Timing().exclusive, Convergence().exclusive, Convergence(alone=True).exclusive) == (True, False, True)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (
            ("x: eta", "x: etta"),
            "a sweep experiment has no 'etta' (did you mean 'eta'?) for x; known: auc, sparse_ratio",
        ),
        (("y: auc", "y: test"), "a sweep experiment has no 'test' for y; known: auc, sparse_ratio"),
        (("x: eta", "x: dataset"), "has no 'dataset' for x"),
        (("x: eta", "x: sparse_ratio"), "expected 'along' with the grid axis that a line follows: eta, lam"),
        (("x: eta", "x: eta, along: lambda"), "only where x is a measured quantity"),
        (
            ("x: eta", "x: eta, others: validation"),
            "selects by validation_auc, which is known on splits of kind holdout only",
        ),
        (("x: eta", "x: eta, others: best"), "expected 'each' or 'validation'"),
        (("x_scale: log2", "x_scale: log"), "x_scale"),
        (("x: eta", "z: eta"), "unknown key"),
        (("figures: [{name: influence, x: eta, y: auc, x_scale: log2}]", ""), "kind sweep fills no table"),
        (("name: influence", "name: Folds"), "Folds.csv is another file of the report"),
        (("[{name: influence", "[{x: lam, y: auc, name: influence}, {name: influence"), "is listed twice"),
        (("kind: sweep", "kind: sweeep"), "got 'sweeep' (did you mean 'sweep'?)"),
        (("splits: {", "splits: {kind: timing, "), "splits.kind"),
        (("splits: {trials", "splits: {trails"), "splits.trails"),
    ],
)
def test_mistakes_in_figures_are_named(change, complaint, tmp_path):
    assert change[0] in SWEPT
    with pytest.raises(ConfigError) as raised:
        read(SWEPT.replace(*change), tmp_path)
    assert complaint in raised.value.message


def test_points_of_repetitions_of_different_sizes_are_matched():
    sizes = (24, 60, 61)
    for spacing in ("linear", "log"):
        protocol = Convergence(points=25, spacing=spacing)
        columns = [{"n_seen": checkpoints(n, 25, spacing)} for n in sizes]
        assert len({len(found["n_seen"]) for found in columns}) > 1
        rows = protocol.point_rows(columns)
        for n, found, at in zip(sizes, columns, rows):
            exact = np.geomspace(10, n, 25) if spacing == "log" else n * np.arange(1, 26) / 25
            np.testing.assert_allclose(found["n_seen"][at], exact[-len(at) :], atol=1.0)
            assert found["n_seen"][at][-1] == n
            alone = protocol.point_rows([found])[0]
            assert alone.tolist() == list(range(len(found["n_seen"]))), "equal checkpoints are one point"


def test_a_metric_that_is_not_defined_is_no_number():
    timing = SimpleNamespace(fit_cpu_seconds=2.0)
    record = SimpleNamespace(columns={}, metrics={"auc": 0.5, "sparse_ratio": None}, timing=timing)
    (sample,) = _samples([(SimpleNamespace(protocol=Holdout()), record)])
    assert {name: values[0] for name, values in sample.measured.items() if name != "sparse_ratio"} == {
        "seconds": 2.0,
        "auc": 0.5,
    }
    assert np.isnan(sample.measured["sparse_ratio"]).all()


def test_a_batch_learner_has_no_convergence(command, tmp_path):
    (tmp_path / "x.yaml").write_text(PASSED.replace("[opauc,", "[ls_svm,"))
    done = command("plan", "x.yaml", cwd=tmp_path, exits=2)
    assert "ls_svm does not learn in one pass over the rows" in done.stderr


# ---------------------------------------------------------------------- sweeps


def test_a_run_prints_its_numbers_and_where_the_files_are(swept):
    desk, done = swept
    assert done.stdout.startswith("A small sweep\n")
    assert "wine: test AUC by step size η" in done.stdout
    assert done.stdout.endswith("\nwritten to results/swept/\n")
    assert max(map(len, done.stdout.splitlines())) <= 80
    names = {path.name for path in (desk / "results/swept").iterdir() if not path.name.startswith(".")}
    assert {f"influence.{ending}" for ending in ("csv", "pdf", "svg", "png")} | {"folds.csv", "manifest.json"} <= names
    assert not [name for name in names if name.startswith("table")]


def test_csv_equals_the_records(swept):
    folder = swept[0] / "results/swept"
    records = [record for record in records_of(folder) if record.dataset == "wine"]
    rows = [row for row in rows_of(folder / "influence.csv") if row["dataset"] == "wine"]
    assert len(records) == 3
    assert len(rows) == 6
    settings = expand_grid(read_manifest(folder).definitions[records[0].definition]["grid"])
    for row in rows:
        (position,) = np.flatnonzero((settings["eta"] == float(row["eta"])) & (settings["lam"] == float(row["lam"])))
        values = np.array([record.columns["auc"][position] for record in records])
        n_finite = np.isfinite(values).sum()
        assert (int(row["n"]), int(row["expected"])) == (n_finite, 3)
        if n_finite == 3:
            assert float(row["auc_mean"]) == pytest.approx(np.mean(values), abs=1e-14)
            assert float(row["auc_std"]) == pytest.approx(np.std(values, ddof=1), abs=1e-14)
        else:
            assert row["auc_mean"] == ""
    assert {row["auc_mean"] == "" for row in rows} == {True, False}, "the largest step overflows"


def test_the_same_run_again_computes_nothing_and_leaves_the_same_bytes(swept, command):
    desk, done = swept
    before = snapshot(desk)
    again = command("run", "swept.yaml", "--offline", cwd=desk, exits=0)
    assert printed_by_run(again.stdout, "swept") == done.stdout
    assert "0 of 6 tasks to compute: all have records" in again.stderr
    lock = {"results/swept/.lock": None}
    assert {**snapshot(desk), **lock} == {**before, **lock}
    assert command("report", "swept.yaml", cwd=desk).stdout == again.stdout
    assert command("report", "results/swept", cwd=desk).stdout == again.stdout


def test_figures_can_be_written_elsewhere(swept, command, tmp_path):
    desk, _ = swept
    before = snapshot(desk)
    command("report", "results/swept", "--to", tmp_path / "figures", cwd=desk, exits=0)
    written = {path.name: path.read_bytes() for path in (tmp_path / "figures").iterdir()}
    assert set(written) == {"folds.csv", *(f"influence.{ending}" for ending in ("csv", "pdf", "svg", "png"))}
    assert written == {name: (desk / "results/swept" / name).read_bytes() for name in written}
    assert snapshot(desk) == before


def test_status_plan_and_verify_know_the_kind(swept, command):
    desk = swept[0]
    assert re.search(r"wine +3/3", command("status", "swept.yaml", cwd=desk).stdout)
    assert re.search(r"wine +\S+ +3 +0", command("plan", "swept.yaml", cwd=desk).stdout)
    verified = command("verify", "results/swept", "--sample", 2, "--jobs", 1, cwd=desk, exits=0)
    assert "2 of 2 agree" in verified.stdout
    refused = command("compare", "swept.yaml", cwd=desk, exits=2)
    assert "draws figures" in refused.stderr


def test_run_without_matplotlib_writes_csv_and_names_the_extra(swept, command, csv_only, monkeypatch):
    desk = swept[0]
    shutil.copytree(desk / "results/swept", desk / "bare")
    monkeypatch.delitem(sys.modules, "opauc_bench.report.figure_draw", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # an import raises ImportError
    done = command("report", "swept.yaml", "--out", "bare", "--write", cwd=desk, exits=0)
    assert "pip install 'opauc-bench[plots]' && opauc-bench report swept.yaml --out bare --write" in done.stderr
    assert (desk / "bare/influence.csv").read_bytes() == (desk / "results/swept/influence.csv").read_bytes()
    assert not list((desk / "bare").glob("influence.p*")) + list((desk / "bare").glob("*.svg"))


def test_characters_that_no_font_has_are_named_once(command, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr("opauc_bench.report.figure_draw._FONTS", ("DejaVu Sans",))
    (tmp_path / "e.yaml").write_text(
        "title: Wine\ndatasets: [wine]\nlearners: [{learner: uni_squ, title: 一次, grid: {eta: [0.1, 0.2]}}]\n"
        "protocol: {kind: sweep, splits: {kind: cv, trials: 1}}\nfigures: [{x: eta, y: auc, title: 一}]\n"
    )
    done = command("run", "e.yaml", "--out", "results", cwd=tmp_path, exits=0)
    assert done.stderr.count("一") == 1
    assert "note: no font here has 一, which figures show as boxes" in done.stderr
    assert "Warning" not in done.stderr


def test_report_of_one_dataset_has_one_panel(swept, command):
    shown = command("run", "swept.yaml", "--offline", "--dataset", "wine", cwd=swept[0]).stdout
    assert "wine:" in shown
    assert "breast_cancer:" not in shown


def test_a_sweep_over_splits_with_validation_rows(command, csv_only, tmp_path):
    (tmp_path / "held.yaml").write_text(HELD_OUT)
    command("run", "held.yaml", "--offline", "--jobs", 1, cwd=tmp_path, exits=0)
    folder = tmp_path / "results/held"
    records = [record for record in records_of(folder) if record.column == "ftrl_auc"]
    assert set(records[0].columns) == {"auc", "validation_auc", "sparse_ratio"}
    rows = [row for row in rows_of(folder / "figure.csv") if row["column"] == "ftrl_auc"]
    for k, row in enumerate(rows):  # settings: gamma slow, l1 fast
        best = [max((k, 3 + k), key=lambda at: record.columns["validation_auc"][at]) for record in records]
        values = [record.columns["sparse_ratio"][at] for record, at in zip(records, best)]
        assert float(row["sparse_ratio_mean"]) == pytest.approx(np.mean(values), abs=1e-14)
        assert float(row["sparse_ratio_std"]) == pytest.approx(np.std(values), abs=1e-14), "divided by n, as the table"
    assert len([row for row in rows_of(folder / "figure.csv") if row["column"] == "spam_l2"]) == 1


# ---------------------------------------------------------------------- one setting


@pytest.fixture(scope="module")
def desk(invoke, tmp_path_factory):
    """A folder with a table that has selected settings, and two figures that can take them over."""
    desk = tmp_path_factory.mktemp("one_setting")
    (desk / "table.yaml").write_text(TABLE)
    for name, text in (("pass", PASSED), ("times", TIMED)):
        (desk / f"{name}.yaml").write_text(text + "reuse: [table]\n")
        (desk / f"own_{name}.yaml").write_text(text)
    for name in ("table", "pass", "own_pass", "times"):
        with contextlib.nullcontext() if name == "pass" else undrawn():
            done = invoke("run", f"{name}.yaml", "--offline", "--jobs", 2, cwd=desk)
        assert done.returncode == 0, done.stderr
        (desk / f"{name}.err").write_text(done.stderr)
        (desk / f"{name}.out").write_text(done.stdout)
    return desk


def test_reused_selection_equals_own_selection(desk):
    reused, own, tables = (records_of(desk / "results" / name) for name in ("pass", "own_pass", "table"))
    assert len(reused) == len(tables) == 6
    assert [record.id for record in reused] == [record.id for record in own]
    for record, other in zip(reused, own):
        assert record.selected == other.selected
        assert record.columns.keys() == other.columns.keys()
        for name in ("n_seen", "auc"):
            assert record.columns[name].tolist() == other.columns[name].tolist()
    selected = {(record.column, record.fold): record.selected for record in tables}
    assert all(record.selected == selected[record.column, record.fold] for record in reused)


def test_a_figure_cannot_have_the_name_of_another_file(desk):
    session = Session.of_folder(desk / "results/table", sources=Sources.from_environment())
    files = report_files(Recorded.read(session), None, page=False, draw=False)
    assert {Path(name).stem for name in files if name.endswith(".csv")} == set(_TAKEN)


def test_manifest_names_the_records_of_reused_selections(desk):
    ids = tuple(sorted(record.id for record in records_of(desk / "results/table")))
    assert read_manifest(desk / "results/pass").selected_in == {"table": ids}
    assert read_manifest(desk / "results/own_pass").selected_in == {}


def test_verify_finds_a_setting_that_was_not_selected_in_the_table(desk, command):
    folder = shutil.copytree(desk / "results/pass", desk / "results/tampered")
    try:
        command("verify", folder, "--sample", 0, "--offline", cwd=desk, exits=0)
        record = record_of(folder, "wine", "oam_gra", 2)
        forge(folder, record, {"outcome.selected": {"eta": 3.0}})
        done = command("verify", folder, "--sample", 0, "--offline", cwd=desk)
    finally:
        shutil.rmtree(folder)
    assert done.returncode == 1
    told = f"wine oam_gra trial 1 fold 2: its setting is {{'eta': 3.0}}, selected was {record.selected}"
    assert told in " ".join(done.stdout.split())


def test_a_curve_ends_at_the_number_of_the_table(desk):
    aucs = {(r.column, r.fold): r.metrics["auc"] for r in records_of(desk / "results/table")}
    for record in records_of(desk / "results/pass"):
        columns = record.columns
        assert columns["n_seen"][-1] == record.outcome.n_train
        assert len(columns["auc"]) == len(record.timing.columns["seconds"]) == 4
        assert columns["auc"][-1] == pytest.approx(aucs[record.column, record.fold], abs=1e-12)


def test_one_experiment_may_have_several_figures(desk):
    assert {"samples.png", "time.png"} <= {path.name for path in (desk / "results/pass").iterdir()}
    assert list(rows_of(desk / "results/pass/time.csv")[0])[2:4] == ["seconds_mean", "seconds_std"]


def test_plan_uses_known_selections(desk, tmp_path):
    def planned(name):
        sources = Sources(tmp_path, (), offline=True)
        session = Session.open(desk / f"{name}.yaml", out=desk / "results" / name, sources=sources)
        return plan_locally(Recorded.read(session), LocalData(session.catalogue, sources)).tasks

    reused, own = planned("pass"), planned("own_pass")
    assert all(task.selected for task in reused)
    assert not any(task.selected for task in own)
    assert {task.id for task in reused} == {task.id for task in own}
    assert sum(task.seconds for task in reused) < sum(task.seconds for task in own)


def test_timed_passes_include_what_other_passes_share(monkeypatch):
    """Components come from the rows, though their inner products are at hand; as in `fit_grid` without them."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (40, 300)), np.where(np.arange(40) % 3 == 0, 1, -1)
    calls = []
    monkeypatch.setattr(pca, "principal_components", lambda *given: calls.append(given) or principal_components(*given))
    setting = {"eta": 0.25, "lam": 0.5}
    protocol = {"kind": "timing", "repeats": 3, "splits": {"kind": "cv", "folds": 4}}
    task = task_of("timing", learner="opauc_pca", protocol=protocol, grid={}, selected=setting)
    context = TaskContext(
        task, SimpleNamespace(X=X, y=y), OPAUCPCA(n_components=5), {}, gram_matrix=lambda: pytest.fail("not alone")
    )
    content = task.protocol.compute(context)
    assert (content["status"], len(content["timing"]["passes"]["seconds"])) == ("ok", 3)
    assert [len(order) for _, order, _, _ in calls] == [30, 30, 30]


def test_timing_uses_one_worker_and_records_the_load(desk):
    assert "on 1 worker\n" in (desk / "times.err").read_text()
    for record in records_of(desk / "results/times"):
        timing = record.timing
        assert record.outcome.columns == {}
        assert set(record.selected) >= {"eta"}
        assert [len(values) for values in timing.passes.values()] == [2, 2]
        assert timing.columns["seconds"] == pytest.approx([np.median(timing.passes["seconds"])])
        assert len(timing.load) == 2
    rows = rows_of(desk / "results/times/figure.csv")
    assert [(row["dataset"], row["column"], row["n"]) for row in rows] == [
        ("wine", "opauc", "3"),
        ("wine", "oam_gra", "3"),
    ]


def test_busy_machine_gives_a_warning(desk, command, csv_only, monkeypatch):
    monkeypatch.setattr("opauc_bench.commands.run.what_else_runs", lambda: "1.3 of 2 cores are used by other processes")
    done = command("run", "times.yaml", "--offline", "--fresh", "--jobs", 2, cwd=desk)
    assert "warning: the machine is busy (1.3 of 2 cores are used by other processes): times" in " ".join(
        done.stderr.split()
    )
    monkeypatch.setattr("opauc_bench.commands.run.what_else_runs", lambda: None)
    assert "warning" not in command("run", "times.yaml", "--offline", "--fresh", cwd=desk).stderr


@pytest.mark.parametrize(
    ("stats", "load", "told"),
    [
        (
            ["cpu 100 0 0 900 0 0 0 0 0 0", "cpu 150 0 0 950 0 0 0 0 0 0"],
            0.0,
            "2.0 of 4 cores are used by other processes",
        ),
        (["cpu 100 0 0 900 0 0 0 0 7 0", "cpu 101 0 0 990 8 0 0 0 9 0"], 4.0, None),  # the load is of a run before
        (
            ["cpu 100 0 0 900 0 0 0 0 0 0", "cpu 100 0 0 975 0 0 0 25 0 0"],
            0.0,
            "1.0 of 4 cores are used by other processes",
        ),
        (["cpu 0 0 0 0 0 0 0 0", "cpu 0 0 0 0 0 0 0 0"], 4.0, "its load average of the last minute is 4.0"),
        ([None, None], 4.0, "its load average of the last minute is 4.0"),
        ([None, None], 0.1, None),
        (["intr 5", "intr 5"], 0.1, None),
    ],
)
def test_load_is_measured_at_the_start(stats, load, told, monkeypatch, tmp_path):
    stat = tmp_path / "stat"

    def show(text):
        if text is None:
            stat.unlink(missing_ok=True)
        else:
            stat.write_text(text + "\ncpu0 1 2 3 4 5\n")

    monkeypatch.setattr(busy, "STAT", stat)
    monkeypatch.setattr(busy.time, "sleep", lambda seconds: show(stats[1]))
    monkeypatch.setattr(busy.os, "cpu_count", lambda: 4)
    monkeypatch.setattr(busy.os, "getloadavg", lambda: (load, 0.0, 0.0))
    show(stats[0])
    assert busy.what_else_runs() == told


def test_timing_with_a_scheduler_is_refused():
    with pytest.raises(ConfigError, match="times are measured on this machine only"):
        Engine("dask", "tcp://there:8786", 4).alone()
    assert Engine("loky", None, 4).alone() == replace(Engine(), n_jobs=1)
    assert (Engine(n_jobs=1).title, Engine(n_jobs=2).title) == ("1 worker", "2 workers")


def test_table_experiment_may_have_figures(command, csv_only, tmp_path):
    text = TABLE.replace("oam_gra, title: OAM_gra", "oam_gra, name: b20, title: OAM_gra, params: {buffer_size: 20}")
    text = text.replace("[opauc,", "[{learner: oam_gra, name: b10, title: OAM_gra, params: {buffer_size: 10}},")
    text = text.replace(", lambda: [0.01, 4]", "")
    (tmp_path / "x.yaml").write_text(text + "figures: [{x: buffer_size, y: auc}]\n")
    done = command("run", "x.yaml", "--offline", "--jobs", 1, cwd=tmp_path, exits=0)
    assert "win/tie/loss" in done.stdout
    assert "wine: test AUC by buffer size" in done.stdout
    rows = rows_of(tmp_path / "results/x/figure.csv")
    means = {row["column"]: row["mean"] for row in rows_of(tmp_path / "results/x/table.csv")}
    assert [row["buffer_size"] for row in rows] == ["10.0", "20.0"]
    assert [float(row["auc_mean"]) for row in rows] == pytest.approx(
        [float(means["b10"]), float(means["b20"])], abs=1e-12
    )


ERRORS = """
title: Errors of sketches
datasets: [wine]
learners: [opauc_fd, {learner: opauc_r, title: OPAUC_r}]
protocol: {kind: sketch_error, sizes: [2, 30], trials: 2}
figures: [{x: tau, y: positive_error}, {name: negative, x: tau, y: negative_error}]
"""


def test_errors_of_sketches(command, csv_only, tmp_path):
    (tmp_path / "x.yaml").write_text(ERRORS)
    done = command("run", "x.yaml", "--offline", "--jobs", 1, cwd=tmp_path, exits=0)
    rows = rows_of(tmp_path / "results/x/negative.csv")
    assert [(row["column"], row["tau"], row["n"]) for row in rows] == [
        ("opauc_fd", "2.0", "2"),
        ("opauc_fd", "30.0", "2"),
        ("opauc_r", "2.0", "2"),
        ("opauc_r", "30.0", "2"),
    ]
    # Twice as many directions as features: nothing is lost.
    assert float(rows[1]["negative_error_mean"]) < 1e-6 < float(rows[0]["negative_error_mean"])
    records = records_of(tmp_path / "results/x")
    errors = {(record.column, record.trial): record.columns["positive_error"].tolist() for record in records}
    assert errors["opauc_r", 0] != errors["opauc_r", 1]
    again = command("run", "x.yaml", "--offline", cwd=tmp_path)
    assert (again.returncode, printed_by_run(again.stdout, "x")) == (0, done.stdout)
    assert "0 of 4 tasks to compute" in again.stderr


def test_only_learners_with_a_sketch_have_its_error(command, tmp_path):
    (tmp_path / "x.yaml").write_text(ERRORS.replace("[opauc_fd,", "[opauc,"))
    done = command("plan", "x.yaml", cwd=tmp_path, exits=2)
    assert "opauc keeps no sketch of second moments" in done.stderr
    assert "try: those that do are opauc_fd, opauc_r, opauc_h, opauc_s" in done.stderr


CURVES = """
title: Curves
datasets: [wine]
learners: [uni_log]
grids: {eta: [0.25]}
protocol:
  kind: convergence
  points: 4
  splits: {trials: 1, folds: 2, inner_folds: 2}
figures: [{name: first, x: n_seen, y: auc}]
"""


def test_figures_leave_out_what_their_splits_leave_out(command, tmp_path):
    thin = "splits: {trials: 1, folds: 3, inner_folds: 2, train_positives: [all, 0.9, 0.05], least_positives: 40}"
    (tmp_path / "curves.yaml").write_text(CURVES.replace("splits: {trials: 1, folds: 2, inner_folds: 2}", thin))
    told = command("plan", "curves.yaml", cwd=tmp_path, exits=0).stdout
    assert "Left out: wine @ 90%" in told
    assert "wine @ 5%" in told


@pytest.mark.parametrize(
    ("kind", "setting", "name"),
    [
        ("convergence", "metrics: [auc, brier]", "metrics"),
        ("timing", "keep_scores: true", "keep_scores"),
        ("sweep", "select: average_precision", "select"),
    ],
)
def test_settings_of_splits_that_no_figure_uses_are_refused(command, tmp_path, kind, setting, name):
    text = CURVES.partition("figures")[0].replace("  points: 4\n", "").replace("convergence", kind)
    text = text.replace("inner_folds: 2}", f"inner_folds: 2, {setting}}}")
    (tmp_path / "curves.yaml").write_text(text)
    done = command("plan", "curves.yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert f"protocol.splits.{name}: a figure of kind {kind} does not use it" in done.stderr


def test_files_of_an_earlier_report_are_removed(command, tmp_path):
    def files():
        return {path.name for path in (tmp_path / "results" / "curves").iterdir() if path.is_file()}

    (tmp_path / "curves.yaml").write_text(CURVES)
    with undrawn():
        command("run", "curves.yaml", cwd=tmp_path, exits=0)
        (tmp_path / "results/curves/mine.csv").write_text("of the user")
        assert "first.csv" in files()
        (tmp_path / "curves.yaml").write_text(CURVES.replace("first", "second"))
        command("report", "curves.yaml", "--write", cwd=tmp_path, exits=0)
        assert {"second.csv", "mine.csv"} <= files()
        assert "first.csv" not in files()
        (tmp_path / "curves.yaml").write_text(
            CURVES.partition("protocol")[0] + "protocol: {trials: 1, folds: 2, inner_folds: 2}\n"
        )
        command("run", "curves.yaml", cwd=tmp_path, exits=0)
        assert {"table.md", "mine.csv"} <= files()
        assert "second.csv" not in files()
        (tmp_path / "curves.yaml").write_text(CURVES)
        command("report", "curves.yaml", "--write", cwd=tmp_path, exits=0)
        assert not [name for name in files() if name.startswith("table")]
    path = tmp_path / "results/curves/manifest.json"
    manifest = json.loads(path.read_text())
    manifest["experiment"]["figures"] = [{"name": "../outside"}, {}]
    path.write_text(json.dumps(manifest))
    (tmp_path / "results/outside.csv").write_text("of the user")
    with undrawn():
        command("report", "curves.yaml", "--write", cwd=tmp_path, exits=0)
    assert (tmp_path / "results/outside.csv").exists()


def test_plan_of_timed_passes_is_for_one_worker(command, tmp_path):
    (tmp_path / "times.yaml").write_text(TIMED)
    done = command("plan", "times.yaml", "--offline", "--jobs", 2, cwd=tmp_path, exits=0)
    assert "on 1 worker." in " ".join(done.stdout.split())
