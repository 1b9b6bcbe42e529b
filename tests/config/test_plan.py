"""The plan: which tasks there are, in which order, and what makes two of them the same."""

import copy
import itertools
import json
import pickle
import random

import numpy as np
import pytest

from opauc_bench.config import Experiment, find_config, load_experiment
from opauc_bench.errors import ConfigError
from opauc_bench.learners import get_learner
from opauc_bench.learners.oam.oam import OAMSeq
from opauc_bench.plan import _Training, make_columns, make_plan
from opauc_bench.protocols import Timing
from opauc_bench.task import Shape, content_hash, expand_grid, identity_of

SHAPES = {
    "german": Shape(1000, 24, 1.0, "a" * 64),
    "a9a": Shape(32561, 123, 0.11, "b" * 64),
    "wine": Shape(178, 13, 1.0, "c" * 64),
}


def experiment(**changes):
    content = {
        "title": "A plan",
        "datasets": ["german", "a9a", "wine"],
        "learners": ["opauc", "oam_seq", "uni_log"],
        "grids": {"eta": [0.125, 0.25, 0.5], "lambda": [0.5, 1.0]},
        "protocol": {"trials": 2, "folds": 3, "inner_folds": 4, "seed": 0},
    }
    return Experiment.model_validate({**content, **changes})


def plan_of(shapes=SHAPES, find_learner=get_learner, **changes):
    made = experiment(**changes)
    return make_plan(made, shapes, make_columns(made, find_learner))


def ids(tasks):
    return {(task.dataset, task.column, task.trial, task.fold): task.id for task in tasks}


BASE = ids(plan_of())


# ---------------------------------------------------------------------- which tasks, in which order


def test_a_task_is_one_outer_fold_of_one_dataset_and_column():
    assert set(BASE) == {
        (dataset, column, trial, fold)
        for dataset in SHAPES
        for column in ("opauc", "oam_seq", "uni_log")
        for trial in range(2)
        for fold in range(3)
    }
    assert len(set(BASE.values())) == 3 * 3 * 2 * 3


def test_plan_of_sixteen_datasets_has_distinct_ids():
    shapes = {f"d{i}": Shape(10_000 * i, 10 * i, 1.0, str(i) * 64) for i in range(1, 17)}
    learners = ["opauc", "oam_seq", "oam_gra", "uni_exp", "uni_log", "uni_squ"]
    tasks = plan_of(shapes, datasets=list(shapes), learners=learners, protocol={"trials": 5, "folds": 5})
    assert len(tasks) == 2400
    assert len({task.id for task in tasks}) == 2400


@pytest.mark.parametrize("protocol", [{"trials": 10**9}, {"folds": 10**9}, {"trials": 10**4000, "folds": 10**4000}])
def test_plan_of_too_many_tasks_is_refused(protocol):
    with pytest.raises(ConfigError, match="expected at most 2,000,000 tasks"):
        plan_of(protocol=protocol)


def test_datasets_that_are_not_known_have_no_tasks():
    tasks = plan_of({"wine": SHAPES["wine"]})
    assert {task.dataset for task in tasks} == {"wine"}
    assert len(tasks) == 18


def test_cheap_datasets_come_first_and_within_them_the_long_tasks():
    tasks = plan_of()
    order = list(dict.fromkeys(task.dataset for task in tasks))
    costs = [sum(task.seconds for task in tasks if task.dataset == dataset) for dataset in order]
    assert order == ["wine", "german", "a9a"]
    assert costs == sorted(costs)
    for dataset in order:
        seconds = [task.seconds for task in tasks if task.dataset == dataset]
        assert seconds == sorted(seconds, reverse=True)
    assert len([1 for a, b in itertools.pairwise(tasks) if a.dataset != b.dataset]) == 2


def test_equal_costs_keep_trials_and_folds_in_order():
    tasks = [task for task in plan_of() if (task.dataset, task.column) == ("wine", "opauc")]
    assert [(task.trial, task.fold) for task in tasks] == [(t, f) for t in range(2) for f in range(3)]


def test_task_is_small_to_send():
    for task in plan_of():
        assert len(json.dumps([task.definition, task.params, task.grid])) < 2000
        assert len(pickle.dumps(task)) < 5000
    assert plan_of()[0].label == "wine oam_seq trial 1 fold 1"


# ---------------------------------------------------------------------- a pure function


def test_make_plan_reads_no_files_and_changes_no_argument(monkeypatch):
    made, shapes = experiment(), copy.deepcopy(SHAPES)
    columns = make_columns(made, get_learner)
    before = made.plain()
    first = make_plan(made, shapes, columns)

    def refuse(*args, **kwargs):
        raise AssertionError("a plan has nothing to do with files")

    monkeypatch.setattr("builtins.open", refuse)
    monkeypatch.setattr("io.open", refuse)
    assert make_plan(made, shapes, columns) == first
    assert made.plain() == before
    assert shapes == SHAPES


# ---------------------------------------------------------------------- identity


@pytest.mark.parametrize(
    "changes",
    [
        {"title": "Another title", "description": "and more words"},
        {"datasets": ["wine", "a9a", "german"]},
        {"learners": ["uni_log", "opauc", "oam_seq"]},
        {"learners": ["opauc", "uni_exp", "oam_seq", {"learner": "uni_log", "title": "logistic"}]},
        {"limits": {"seconds": 5, "memory_gb": 1}},
        {"report": {"reference": "uni_log", "test": "corrected"}},
        {"reuse": ["elsewhere"]},
        {"protocol": {"trials": 5, "folds": 3, "inner_folds": 4, "seed": 0}},
        {"learners": ["opauc", "uni_log", {"learner": "oam_seq", "params": {"buffer_size": 100, "step": "C"}}]},
        {"learners": ["oam_seq", "uni_log", {"learner": "opauc", "grid": {"eta": [0.125, 0.25, 0.5]}}]},
    ],
    ids=lambda changes: "+".join(changes),
)
def test_id_ignores_settings_that_do_not_change_the_number(changes):
    changed = ids(plan_of(**changes))
    assert {key: changed[key] for key in BASE} == BASE


def test_id_depends_on_the_fingerprint_of_the_data_only():
    others = {name: Shape(1, 1, 0.5, shape.fingerprint) for name, shape in SHAPES.items()}
    assert ids(plan_of(others)) == BASE


def test_id_ignores_the_order_of_keys():
    grids = {"lambda": [0.5, 1.0], "eta": [0.125, 0.25, 0.5]}
    assert ids(plan_of(grids=grids)) == BASE


@pytest.mark.parametrize(
    ("changes", "changed_columns"),
    [
        ({"grids": {"eta": [0.125, 0.25], "lambda": [0.5, 1.0]}}, {"opauc", "oam_seq", "uni_log"}),
        ({"grids": {"eta": [0.5, 0.25, 0.125], "lambda": [0.5, 1.0]}}, {"opauc", "oam_seq", "uni_log"}),
        ({"grids": {"eta": [0.125, 0.25, 0.5], "lambda": [0.5]}}, {"opauc"}),
        ({"learners": ["opauc", "uni_log", {"learner": "oam_seq", "params": {"buffer_size": 99}}]}, {"oam_seq"}),
        ({"learners": ["opauc", "uni_log", {"learner": "oam_gra", "name": "oam_seq"}]}, {"oam_seq"}),
        ({"learners": ["oam_seq", "uni_log", {"learner": "opauc", "params": {"lambda": 0.5}}]}, {"opauc"}),
        ({"protocol": {"trials": 2, "folds": 3, "inner_folds": 4, "seed": 1}}, {"opauc", "oam_seq", "uni_log"}),
        ({"protocol": {"trials": 2, "folds": 3, "inner_folds": 5, "seed": 0}}, {"opauc", "oam_seq", "uni_log"}),
        ({"protocol": {"trials": 2, "folds": 4, "inner_folds": 4, "seed": 0}}, {"opauc", "oam_seq", "uni_log"}),
        (
            {"protocol": {"trials": 2, "folds": 3, "inner_folds": 4, "stratified": False}},
            {"opauc", "oam_seq", "uni_log"},
        ),
    ],
)
def test_id_depends_on_settings_that_change_the_number(changes, changed_columns):
    changed = ids(plan_of(**changes))
    assert {key[1] for key in BASE if changed[key] != BASE[key]} == changed_columns
    assert {key[1] for key in BASE if changed[key] == BASE[key]} == {"opauc", "oam_seq", "uni_log"} - changed_columns


def test_id_differs_for_other_data():
    changed = ids(plan_of({**SHAPES, "wine": Shape(178, 13, 1.0, "d" * 64)}))
    assert {key[0] for key in BASE if changed[key] != BASE[key]} == {"wine"}


def test_id_differs_for_the_same_data_under_another_name():
    """The name decides the folds."""
    a = plan_of({"wine": SHAPES["wine"]}, datasets=["wine"])
    b = plan_of({"german": SHAPES["wine"]}, datasets=["german"])
    assert not {task.id for task in a} & {task.id for task in b}


def test_id_depends_on_the_version_of_the_learner():
    class Newer(OAMSeq):
        version = OAMSeq.version + 1

    changed = ids(plan_of(find_learner=lambda name: Newer if name == "oam_seq" else get_learner(name)))
    assert {key[1] for key in BASE if changed[key] != BASE[key]} == {"oam_seq"}


def test_identity_excludes_the_random_state():
    (column,) = make_columns(experiment(learners=["oam_seq"]), get_learner)
    assert column.identity["params"] == {"buffer_size": 100, "step": "C"}


def test_two_columns_of_one_computation_share_ids():
    tasks = plan_of(learners=["uni_log", {"learner": "uni_log", "name": "again"}])
    assert len({task.id for task in tasks}) == len(tasks) / 2


def test_identity_of_a_learner_from_a_file_excludes_its_path(tmp_path):
    code = "from opauc_bench.learners import UniLog\nclass Mine(UniLog):\n    pass\n"
    found = []
    for folder in (tmp_path / "a", tmp_path / "b"):
        folder.mkdir()
        (folder / "mine.py").write_text(code)
        (folder / "plan.yaml").write_text(
            "title: mine\ndatasets: [wine]\nlearners: ['mine.py:Mine']\ngrids: {eta: [0.5]}\n"
        )
        made = load_experiment(folder / "plan.yaml")
        found.append(ids(make_plan(made, SHAPES, make_columns(made, get_learner))))
    assert found[0] == found[1]


def test_task_without_data_has_no_id():
    tasks = plan_of({"german": Shape(1000, 24, 1.0, None)})
    assert {task.id for task in tasks} == {None}
    assert all(task.seconds > 0 for task in tasks)


def test_ids_equal_recorded_values():
    """Recorded results are found by them: a change here computes everything again and has to be meant."""
    made = load_experiment(find_config("table2"))
    german = Shape(1000, 24, 1.0, "e8aced71c73eaf5dc9bc37d35e8f77ed480de09b08b2ba7c67b067d970331f05")
    tasks = make_plan(made, {"german": german}, make_columns(made, get_learner))
    assert {task.column: task.id for task in tasks if (task.trial, task.fold) == (0, 0)} == {
        "opauc": "297785c0a34d5e99",
        "oam_seq": "674588c3ca4a1f82",
        "oam_gra": "fce6e6e2d7426361",
        "uni_exp": "1c56367580fa99c6",
        "uni_log": "504d2cf5067bc040",
        "uni_squ": "e2e2def96bbade0d",
    }


CAPPED = ["uni_log", {"learner": "opauc", "max_train": {"german": 300}}]


@pytest.mark.parametrize(
    "made", [plan_of, lambda: plan_of(learners=CAPPED), lambda: holdout_plan(imbalance=(0.5, 0.25))]
)
def test_ids_follow_from_definitions_as_manifests_have_them(made):
    """Records have a hash of the definition, and their ids are checked with it."""
    for task in made():
        assert content_hash(identity_of(json.loads(json.dumps(task.definition)), task)) == task.id


@pytest.mark.parametrize(
    "made", [plan_of, lambda: plan_of(learners=CAPPED), lambda: holdout_plan(imbalance=(0.5, 0.25))]
)
def test_tasks_of_one_row_and_column_share_a_definition(made):
    """The manifest has one for each of these."""
    found = {}
    for task in made():
        found.setdefault((task.row, task.column), set()).add(content_hash(task.definition))
    assert {len(hashes) for hashes in found.values()} == {1}


# ---------------------------------------------------------------------- columns and grids


def test_columns_have_their_grid_and_parameters():
    entry = {"learner": "opauc", "name": "mine", "title": "My own", "params": {"lambda": 0.5}}
    (column,) = make_columns(experiment(learners=[entry]), get_learner)
    assert (column.key, column.title, column.learner) == ("mine", "My own", "opauc")
    assert column.grid == {"eta": (0.125, 0.25, 0.5)}
    assert column.n_settings == 3
    assert column.params == {"lam": 0.5}
    assert column.estimator.lam == 0.5


def test_expand_grid_varies_the_last_axis_fastest():
    grid = expand_grid({"eta": (1.0, 2.0), "lam": (3.0, 4.0, 5.0)})
    assert grid["eta"].tolist() == [1, 1, 1, 2, 2, 2]
    assert grid["lam"].tolist() == [3, 4, 5, 3, 4, 5]
    assert expand_grid({"eta": (1.0, 2.0)})["eta"].tolist() == [1, 2]


# ---------------------------------------------------------------------- costs


@pytest.mark.parametrize("learner", ["opauc", "oam_seq", "oam_gra", "uni_exp", "uni_log", "uni_squ"])
def test_cost_increases_with_rows_and_settings(learner):
    def cost(n=1000, d=24, settings=2, **protocol):
        protocol = {"trials": 1, "folds": 5, "inner_folds": 5, **protocol}
        grids = {"eta": list(np.arange(1, settings + 1) / 8), "lambda": [1.0]}
        tasks = plan_of(
            {"wine": Shape(n, d, 1.0, "c" * 64)},
            datasets=["wine"],
            learners=[learner],
            grids=grids,
            protocol=protocol,
        )
        return tasks[0].seconds, tasks[0].memory_bytes

    seconds, memory = cost()
    assert 0 < seconds < cost(n=2000)[0]
    assert seconds < cost(d=48)[0]
    assert seconds < cost(settings=20)[0]
    assert seconds < cost(inner_folds=10)[0]
    assert seconds < cost(folds=10)[0]
    assert seconds == cost(trials=7)[0]
    assert 0 < memory < cost(d=48)[1]
    assert memory < cost(settings=20)[1]


def test_cost_ignores_the_order_of_datasets_and_columns():
    tasks = plan_of()
    shuffled = random.Random(3).sample(list(SHAPES), 3)
    again = plan_of(datasets=shuffled)
    assert sum(task.seconds for task in again) == pytest.approx(sum(task.seconds for task in tasks))
    assert [task.id for task in again] == [task.id for task in tasks]


# ---------------------------------------------------------------------- holdout


def holdout_plan(shapes=None, **protocol):
    learners = ["spam_l2", {"learner": "spam_elastic", "axes_from": "spam_l2"}]
    return plan_of(
        shapes or {"german": Shape(1000, 24, 1.0, "a" * 64, 300)},
        datasets=["german"],
        learners=learners,
        grids={"xi": [0.1, 1.0], "l1": [0.5, 1.0, 2.0], "l2": [0.5]},
        protocol={"kind": "holdout", "trials": 2, **protocol},
    )


def test_a_task_of_a_holdout_is_a_trial_of_a_case():
    tasks = holdout_plan(imbalance=(0.5, 0.25))
    assert {(task.row, task.column, task.trial, task.fold) for task in tasks} == {
        (row, column, trial, 0)
        for row in ("german @ 0.5", "german @ 0.25")
        for column in ("spam_l2", "spam_elastic")
        for trial in (0, 1)
    }
    assert {task.dataset for task in tasks} == {"german"}
    assert len({task.id for task in tasks}) == 8


def test_ratio_has_the_same_tasks_alone_and_in_a_list():
    both = {task.id for task in holdout_plan(imbalance=(0.5, 0.25))}
    alone = {task.id for task in holdout_plan(imbalance=0.25)}
    assert alone < both
    assert not both & {task.id for task in holdout_plan()}
    assert {task.id for task in holdout_plan()} < {task.id for task in holdout_plan(trials=3)}
    for change in ({"seed": 1}, {"split": "released"}, {"auc": "released"}, {"shares": (3, 1, 1)}):
        assert not {task.id for task in holdout_plan()} & {task.id for task in holdout_plan(**change)}


def test_axes_from_is_part_of_the_task_and_of_its_cost():
    tuner, tuned = sorted(holdout_plan(trials=1), key=lambda task: task.column, reverse=True)
    assert (tuner.column, tuned.column) == ("spam_l2", "spam_elastic")
    assert tuner.tuned_by is None
    assert tuned.grid == {"l1": (0.5, 1.0, 2.0)}
    assert tuned.tuned_by["learner"] == "spam_l2"
    assert tuned.tuned_by["axes"] == ["xi", "l2"]
    assert tuned.tuned_by["grid"] == tuner.grid
    assert tuned.definition["axes_from"]["grid"] == {"xi": [0.1, 1.0], "l2": [0.5]}
    assert "xi" not in tuned.definition["params"]
    assert tuned.seconds > tuner.seconds
    assert "axes_from" not in tuner.definition


def test_cost_decreases_with_fewer_rows():
    whole, some = (max(task.seconds for task in holdout_plan(imbalance=ratio)) for ratio in (None, 0.05))
    assert some < 0.8 * whole
    unknown = holdout_plan({"german": Shape(1000, 24, 1.0, "a" * 64)}, imbalance=0.05)
    assert max(task.seconds for task in unknown) == pytest.approx(whole)


def test_cost_includes_the_generation_of_rows():
    def seconds(generated, n_samples):
        shape = Shape(n_samples, 50_000, 1.0, "a" * 64, generated=generated)
        return sum(task.seconds for task in plan_of({"german": shape}) if task.column == "uni_log")

    for n_samples in (1000, 10_000, 30_000):  # up to 20,000 rows, the grid is searched on their coordinates instead
        assert seconds(True, n_samples) > 1.2 * seconds(False, n_samples)


def test_memory_limit_in_gigabytes_decides_how_many_settings_are_trained_at_once():
    shape = {"german": Shape(10_000, 1_000_000, 1e-5, "a" * 64)}

    def memory(memory_gb):
        tasks = plan_of(shape, limits={"memory_gb": memory_gb})
        return max(task.memory_bytes for task in tasks if task.column == "uni_log")

    whole = memory(None)
    assert memory(10 * whole / 1e9) == whole
    assert memory(whole / 1e9) < whole, "a share is left to scoring"


def test_searches_in_fewer_dimensions_cost_less():
    """Few wide rows are searched by their inner products, projected rows are projected once a fold."""

    def of(n_samples, learner):
        shape = {"german": Shape(n_samples, 50_000, 1.0, "a" * 64, generated=True)}
        protocol = {"kind": "cv", "trials": 5, "folds": 5}
        tasks = plan_of(shape, learners=[learner], limits={}, protocol=protocol)
        return max(tasks, key=lambda task: task.seconds)

    for learner, share in (("opauc_r", 0.9), ("opauc_pca", 0.2)):
        narrow, wide = of(20_000, learner), of(20_002, learner)
        assert narrow.seconds < share * wide.seconds
        assert learner == "opauc_r" or narrow.memory_bytes > 8 * (0.6 * 20_000) ** 2
        assert (narrow.kept_bytes, wide.kept_bytes) == (8 * 20_000**2, 0)
    assert of(3000, "oam_seq").kept_bytes == of(20_000, "opauc_rp").kept_bytes == 0
    # A pass that is timed includes what the other passes over the dataset share.
    (column,) = make_columns(experiment(learners=["opauc_pca"]), get_learner)
    training = _Training(column, Shape(20_000, 50_000, 1.0, "a" * 64), None, 1)
    assert Timing(repeats=3).cost_of_one(20_000, None, training)[0] > 3 * 1.5 * training(16_000, 1)[0]
    # The learners that take inner products instead of features do not decompose them.
    assert of(20_000, "uni_log").memory_bytes < 1e8
    assert of(20_000, "uni_log").seconds < of(20_002, "uni_log").seconds
    # Rows are projected for the search and for the training after it, not for each of six passes.
    once = 1e-10 * 16_000 * 50_000 * 1000
    assert of(20_002, "opauc_rp").seconds < of(20_002, "opauc_feat").seconds + 2.5 * once
