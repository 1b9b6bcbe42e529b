"""``max_train``: training sets of at most so many rows, in the config, the plan, the identity and the record."""

import json

import numpy as np
import pytest

from opauc_bench.commands.tables import notes_on_training
from opauc_bench.config import load_experiment
from opauc_bench.data import Sources, load_catalogue, prepare
from opauc_bench.errors import ConfigError
from opauc_bench.evaluation.selection import evaluate_models
from opauc_bench.evaluation.splits import outer_fold
from opauc_bench.learners import LSSVM, get_learner, learner_parameters
from opauc_bench.plan import make_columns, make_plan
from opauc_bench.runner.worker import WorkerConfig, run_task
from opauc_bench.task import Shape, identity_of

EXPERIMENT = """
title: t
datasets: [german, epsilon]
learners:
  - opauc
  - {learner: oam_seq, params: {buffer_size: 100, step: C}}
  - {learner: uni_log, params: {weights: none, intercept: false}}
  - {learner: ls_svm, grid: {lambda: {pow2: [-10, 10]}}, max_train: {default: 8000, epsilon: 2000}}
  - {learner: svm_or, grid: {lambda: {pow2: [-10, 10]}}, max_train: 500}
  - {learner: svm_or, name: all, grid: {lambda: {pow2: [-10, 10]}}}
  - {learner: svm_or, name: some, grid: {lambda: {pow2: [-10, 10]}}, max_train: {epsilon: 2000}}
grids: {eta: {pow2: [-12, 10]}, lambda: {pow2: [-10, 2]}}
"""
SHAPES = {"german": Shape(1000, 24, 1.0, "0" * 64), "epsilon": Shape(400_000, 2000, 1.0, "1" * 64)}


def load(tmp_path, text):
    path = tmp_path / "x.yaml"
    path.write_text(text, encoding="utf-8")
    return load_experiment(path, learner_parameters=learner_parameters)


@pytest.fixture
def tasks(tmp_path):
    experiment = load(tmp_path, EXPERIMENT)
    plan = make_plan(experiment, SHAPES, make_columns(experiment, get_learner))
    return {(task.dataset, task.column): task for task in plan if (task.trial, task.fold) == (1, 2)}


def test_ids_of_tasks_without_a_cap_equal_recorded_values(tasks):
    """Records of long runs are found by these."""
    assert tasks["german", "opauc"].id == "16429d5afd08e3ba"
    assert tasks["german", "oam_seq"].id == "259cb4adba0078eb"
    assert tasks["german", "uni_log"].id == "d5ca206a1322fe82"


def test_cap_is_part_of_the_identity_only_where_it_is_set(tasks):
    caps = {key: identity_of(task.definition, task).get("max_train", "absent") for key, task in tasks.items()}
    assert caps["german", "opauc"] == caps["german", "all"] == caps["german", "some"] == "absent"
    assert (caps["german", "ls_svm"], caps["epsilon", "ls_svm"]) == (8000, 2000)
    assert (caps["german", "svm_or"], caps["epsilon", "some"]) == (500, 2000)
    assert all(task.max_train == (None if caps[key] == "absent" else caps[key]) for key, task in tasks.items())
    assert tasks["german", "all"].id == tasks["german", "some"].id != tasks["german", "svm_or"].id


def test_footnotes_of_a_table_name_the_caps(tmp_path):
    columns = make_columns(load(tmp_path, EXPERIMENT), get_learner)
    assert list(notes_on_training(columns, ["german", "epsilon"])) == [
        "At most 8,000 training rows (epsilon: 2,000): ls_svm.",
        "At most 500 training rows: svm_or.",
        "At most 2,000 training rows on epsilon: some.",
    ]
    assert list(notes_on_training(columns[:4], ["german"], "log_loss")) == [
        "Settings are selected by another metric than the AUC: Log loss.",
        "At most 8,000 training rows: ls_svm.",
    ]


def test_estimate_takes_the_cap_into_account(tasks):
    assert tasks["epsilon", "some"].seconds < tasks["epsilon", "all"].seconds / 50
    assert tasks["epsilon", "some"].memory_bytes < tasks["epsilon", "all"].memory_bytes / 10


def test_a_cap_is_written_and_read_again(tmp_path):
    first = load(tmp_path, EXPERIMENT)
    assert load(tmp_path, json.dumps(first.plain())) == first


@pytest.mark.parametrize(
    ("cap", "complaint"),
    [
        ("0", r"x.yaml:9:\d+: learners\[4\].max_train: expected a whole number of rows of at least 2, got 0"),
        ("2.5", r"expected a whole number of rows of at least 2, got 2.5"),
        ("true", r"expected a whole number of rows of at least 2, got true"),
        ("{}", r"expected 'default: rows' or 'dataset: rows' lines, got an empty mapping"),
        ("{default: many}", r"max_train.default: expected a whole number of rows of at least 2, got 'many'"),
        ("{epsilom: 10}", r"no dataset 'epsilom' \(did you mean 'epsilon'\?\); known: default, german, epsilon"),
    ],
)
def test_invalid_cap_is_a_config_error(tmp_path, cap, complaint):
    with pytest.raises(ConfigError, match=complaint):
        load(tmp_path, EXPERIMENT.replace("max_train: 500", f"max_train: {cap}"))


# ---------------------------------------------------------------------- what a task does with it

RUN = """
title: t
datasets: [breast_cancer]
learners:
  - {{learner: {learner}, params: {params}, max_train: {cap}}}
grids: {{{axis}: [0.01, 0.1, 1]}}
protocol: {{trials: 1, folds: 5, inner_folds: 3}}
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    catalogue = load_catalogue()
    sources = Sources(cache=tmp_path_factory.mktemp("cache"), offline=True)
    return prepare(catalogue["breast_cancer"], sources, lambda text: None)


def run(tmp_path, data, learner="ls_svm", cap="100", axis="lambda", params="{}"):
    experiment = load(tmp_path, RUN.format(learner=learner, cap=cap, axis=axis, params=params))
    shape = Shape(data.manifest["n_samples"], data.manifest["n_features"], 1.0, data.fingerprint)
    task = make_plan(experiment, {"breast_cancer": shape}, make_columns(experiment, get_learner))[0]
    return task, run_task(task, WorkerConfig(tmp_path / "results", {"breast_cancer": str(data.folder)}))


def test_selection_and_refit_use_the_first_rows_of_the_fold(tmp_path, data):
    task, record = run(tmp_path, data)
    assert (record.status, record.outcome.n_train, record.outcome.n_test) == ("ok", 100, 114)
    assert record.max_train == 100
    fold = outer_fold(
        data.y, trial=task.trial, fold=task.fold, folds=5, stratified=True, seed=0, dataset="breast_cancer"
    )
    coef = LSSVM().fit_grid(data.X, data.y, {"lam": [record.selected["lam"]]}, order=fold.train[:100])
    assert record.metrics["auc"] == evaluate_models(data.X, data.y[fold.test], fold.test, coef)[0]
    assert record.outcome.learner_info == {}


def test_a_cap_above_the_training_set_takes_all_of_it(tmp_path, data):
    _, record = run(tmp_path, data, cap="8000")
    assert (record.outcome.n_train, record.max_train) == (455, 8000)
    _, whole = run(tmp_path, data, cap="null")
    assert whole.metrics == record.metrics
    assert whole.max_train is None
    assert whole.id != record.id


def test_a_cap_that_leaves_too_few_rows_of_a_class_is_named(tmp_path, data):
    _, record = run(tmp_path, data, learner="uni_squ", axis="eta", cap="3")
    assert (record.status, record.traceback) == ("error", None)
    assert record.message.startswith("max_train 3 leaves ")
    assert record.message.endswith("expected 3 of each class at least")  # without the hint, which is no part of tables


def test_one_pass_learners_are_capped_as_well(tmp_path, data):
    _, record = run(tmp_path, data, learner="uni_squ", axis="eta")
    assert (record.status, record.outcome.n_train) == ("ok", 100)


def test_record_names_the_engine(tmp_path, data):
    _, record = run(tmp_path, data, learner="svm_perf", axis="C", params="{engine: native}")
    assert record.outcome.learner_info["engine"] == "native"
    assert np.isfinite(record.metrics["auc"])


def test_path_of_the_program_is_not_part_of_the_identity(tmp_path, data):
    ids = set()
    for path in ("/a/svm_perf_learn", "/b/svm_perf_learn"):
        params = f"{{engine: program, program: {path}}}"
        task, record = run(tmp_path, data, learner="svm_perf", axis="C", params=params)
        assert record.status == "error"
        assert f"program is '{path}', which is not a program that can be run" in record.message
        ids.add(task.id)
    assert len(ids) == 1
