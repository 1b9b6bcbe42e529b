"""Kind ``prequential``: scores of each row before it is learnt, against a loop that scores and learns row by row."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import roc_auc_score

from opauc_bench.commands.session import Session
from opauc_bench.config import Experiment
from opauc_bench.data import Sources
from opauc_bench.errors import ConfigError
from opauc_bench.learners import get_learner
from opauc_bench.plan import make_columns, make_plan
from opauc_bench.protocols import Prequential
from opauc_bench.protocols.context import TaskContext
from opauc_bench.protocols.prequential import progressive_scores
from opauc_bench.task import Shape, expand_grid

ROOT = Path(__file__).resolve().parents[2]
GRIDS = {
    "opauc": {"eta": (2.0**-6, 2.0**-4), "lam": (0.01,)},
    "oam_gra": {"eta": (2.0**-6, 0.5)},
    "uni_log": {"eta": (2.0**-6, 0.5)},
    "ftrl_auc": {"gamma": (0.1, 1.0), "l1": (1e-4,)},
    "adagrad": {"eta": (0.1, 1.0), "l1": (1e-4,)},
    "spam_l1": {"xi": (0.1, 1.0), "l1": (1e-3,)},
}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (240, 9)) * (rng.random((240, 9)) < 0.6)
    X[:, 7] = X[:, 3]  # two identical columns
    y = np.where(X @ rng.normal(size=9) + 0.4 * rng.normal(size=240) > 0.3, 1, -1).astype(np.int8)
    return X, y


def by_a_loop(learner, X, y):
    """Score each row with the model of the rows before it, then learn it."""
    X, scores = sparse.csr_matrix(X), [0.0]
    for t in range(1, len(y)):
        learner.partial_fit(X[t - 1 : t], y[t - 1 : t], classes=[-1, 1])
        scores.append((X[t] @ learner.coef_[0]).item())
    return np.array(scores)


def context_of(X, y, learner="uni_log", grid=None, trial=0, max_train=None, **settings):
    class_ = get_learner(learner)
    entry = {"learner": learner, "max_train": max_train}
    content = {"title": "t", "datasets": ["made_up"], "learners": [entry], "grids": grid or GRIDS[learner]}
    experiment = Experiment.model_validate(
        {**content, "protocol": {"kind": "prequential", "trials": 1, "window": 50, "points": 4, **settings}}
    )
    shape = Shape(len(y), X.shape[1], 1.0, "a" * 64)
    task = make_plan(experiment, {"made_up": shape}, make_columns(experiment, get_learner))[trial]
    return TaskContext(task, SimpleNamespace(X=X, y=y), class_(), expand_grid(task.grid))


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize("learner", GRIDS)
def test_scores_of_all_settings_equal_a_loop_that_scores_and_learns_row_by_row(rows, learner, layout):
    X, y = rows
    order = np.random.default_rng(1).permutation(len(y))[:150]
    grid = expand_grid(GRIDS[learner])
    context = context_of(layout(X), y, learner)
    scores = progressive_scores(context.learner, context.data, grid, order)
    for position in range(scores.shape[1]):
        setting = {axis: values[position] for axis, values in grid.items()}
        expected = by_a_loop(get_learner(learner)(**setting), X[order], y[order])
        np.testing.assert_allclose(scores[:, position], expected, rtol=1e-9, atol=1e-12)


def test_blocks_of_rows_that_are_read_ahead_change_no_score(rows, monkeypatch):
    X, y = rows
    context, order = context_of(sparse.csr_matrix(X), y), np.arange(len(y))
    grid = expand_grid(GRIDS["uni_log"])
    whole = progressive_scores(context.learner, context.data, grid, order)
    monkeypatch.setattr("opauc_bench.protocols.prequential._ROWS_AT_ONCE", 7)
    np.testing.assert_array_equal(progressive_scores(context.learner, context.data, grid, order), whole)


def test_auc_of_fixed_setting_is_over_the_whole_pass_windows_and_checkpoints(rows):
    X, y = rows
    found = context_of(X, y, grid={"eta": (0.25,)}, order="file")
    outcome = found.task.protocol.compute(found)["outcome"]
    scores = by_a_loop(get_learner("uni_log")(eta=0.25), X, y)
    assert (outcome["n_train"], outcome["n_test"], outcome["selected"]) == (240, 240, {"eta": 0.25})
    assert "selection" not in outcome
    assert outcome["metrics"]["auc"] == pytest.approx(roc_auc_score(y, scores), abs=1e-12)
    columns = outcome["columns"]
    assert columns["n_seen"] == [50, 60, 100, 120, 150, 180, 200, 240]  # four windows and four checkpoints
    for end, running, window in zip(*columns.values()):
        assert running == pytest.approx(roc_auc_score(y[:end], scores[:end]), abs=1e-12)
        assert window == pytest.approx(roc_auc_score(y[:end][-50:], scores[:end][-50:]), abs=1e-12)


@pytest.mark.parametrize("trial", [0, 1])
def test_selection_uses_the_first_rows_and_leaves_them_out(rows, trial):
    X, y = rows
    found = context_of(X, y, "opauc", trial=trial, trials=2, selection=0.25)
    assert found.task.trial == trial
    outcome = found.task.protocol.compute(found)["outcome"]
    order = found.task.protocol._order(found)
    scores = [by_a_loop(get_learner("opauc")(eta=eta, lam=0.01), X[order], y[order]) for eta in GRIDS["opauc"]["eta"]]
    first = [roc_auc_score(y[order][:60], one[:60]) for one in scores]
    best = int(np.argmax(first))
    assert outcome["selection"]["auc"] == pytest.approx(first, abs=1e-12)
    assert outcome["selected"] == {"eta": GRIDS["opauc"]["eta"][best], "lam": 0.01}
    assert [outcome[name] for name in ("n_train", "n_validation", "n_test")] == [240, 60, 180]
    assert outcome["metrics"]["auc"] == pytest.approx(roc_auc_score(y[order][60:], scores[best][60:]), abs=1e-12)
    assert outcome["columns"]["n_seen"] == [105, 110, 150, 160, 195, 210, 240]


def test_random_order_differs_by_trial_and_is_the_same_for_all_learners(rows):
    orders = [
        context.task.protocol._order(context)
        for context in (
            context_of(*rows, learner, trial=trial, trials=2) for learner in ("uni_log", "opauc") for trial in (0, 1)
        )
    ]
    assert (orders[0] == orders[2]).all()
    assert (orders[1] == orders[3]).all()
    assert (orders[0] != orders[1]).any()
    assert sorted(orders[0]) == list(range(240))


def test_max_train_shortens_the_pass(rows):
    found = context_of(*rows, max_train=100, order="file")
    outcome = found.task.protocol.compute(found)["outcome"]
    assert [outcome[name] for name in ("n_train", "n_validation", "n_test")] == [100, 20, 80]


def test_overflow_after_the_selection_takes_the_next_best_setting(rows):
    """With steps that are too large for later rows, which are a million times as long."""
    X, y = rows
    X = X.copy()
    X[200:] *= 1e6
    found = context_of(X, y, "opauc", {"eta": (2.0**-6, 2.0**-12, 2.0**-50), "lam": (0.01,)}, order="file")
    content = found.task.protocol.compute(found)
    assert content["status"] == "ok"
    assert content["outcome"]["selected"]["eta"] == 2.0**-50
    assert {setting["eta"] for setting in content["outcome"]["diverged_in_refit"]} <= {2.0**-6, 2.0**-12}
    assert content["outcome"]["diverged_in_refit"]


def test_windows_of_one_class_have_no_auc(rows):
    X, y = rows
    y = y.copy()
    y[100:160] = 1
    found = context_of(X, y, grid={"eta": (0.25,)}, order="file")
    columns = found.task.protocol.compute(found)["outcome"]["columns"]
    missing = [end for end, auc in zip(columns["n_seen"], columns["window_auc"]) if auc is None]
    assert missing == [150]
    assert None not in columns["running_auc"]


@pytest.mark.parametrize(("share", "n_first"), [(0.2, 48), (0.001, 0)])
def test_first_rows_without_both_classes_are_refused(rows, share, n_first):
    X, y = rows
    found = context_of(X[np.argsort(y)], np.sort(y), order="file", selection=share)
    with pytest.raises(
        ConfigError,
        match=rf"both classes among {n_first} of 240 rows of made_up, with 'selection: {share}' and in this order",
    ):
        found.task.protocol.compute(found)


def test_finished_settings_of_the_selection_are_not_computed_again(rows):
    whole = context_of(*rows)
    expected = whole.task.protocol._select(whole, np.arange(48))
    kept = []
    rest = context_of(*rows)
    rest.partial, rest.keep = {"aucs": [0.125]}, kept.append
    found = rest.task.protocol._select(rest, np.arange(48))
    assert found.tolist() == [0.125, expected[1]]
    assert kept == [{"aucs": found.tolist()}]


@pytest.mark.parametrize(
    ("protocol", "learner", "message"),
    [
        ("{kind: prequential, order: file}", "opauc", "expected 'trials: 1' beside it, got 5, the default\n"),
        ("{kind: prequential, order: file, trials: 2}", "opauc", "expected 'trials: 1' beside it, got 2\n"),
        ("{kind: prequential, selection: 1}", "opauc", "protocol.selection: expected less than 1, got 1"),
        ("{kind: prequential}", "ls_svm", "ls_svm does not learn row by row in one pass"),
    ],
)
def test_mistakes_are_named(command, tmp_path, protocol, learner, message):
    other = ", eta: [0.1]" if learner == "opauc" else ""
    (tmp_path / "x.yaml").write_text(
        f"title: A pass\ndatasets: [wine]\nlearners: [{learner}]\ngrids: {{lambda: [1]{other}}}\n"
        f"protocol: {protocol}\nfigures: [{{x: n_seen, y: window_auc}}]\n"
    )
    done = command("plan", "x.yaml", cwd=tmp_path, exits=2)
    assert message in done.stderr


def test_run_writes_table_and_figures_that_verify(command, tmp_path):
    (tmp_path / "pass.yaml").write_text(
        "title: A pass\ndatasets: [breast_cancer]\nlearners: [opauc, uni_log]\n"
        "grids: {eta: [0.01, 0.1], lambda: [0.01]}\n"
        "protocol: {kind: prequential, trials: 3, window: 100, points: 4}\n"
        "figures: [{x: n_seen, y: window_auc}]\n"
    )
    done = command("run", "pass.yaml", "--jobs", "1", cwd=tmp_path, exits=0)
    assert "over 3 trials" in done.stdout
    assert "window AUC by training examples seen" in done.stdout
    assert (tmp_path / "results/pass/table.md").is_file()
    points = (tmp_path / "results/pass/figure.csv").read_text().splitlines()
    assert points[0] == "dataset,column,n_seen_mean,n_seen_std,window_auc_mean,window_auc_std,n,expected"
    assert len(points) == 1 + 2 * 8
    done = command("verify", "results/pass", "--sample", "2", cwd=tmp_path, exits=0)
    assert "2 of 2 agree" in done.stdout
    command("report", "pass.yaml", "--test", "corrected", cwd=tmp_path, exits=0)


def test_settings_of_the_pass_define_the_task_and_trials_do_not():
    protocol = Prequential()
    assert Prequential(trials=9).identity() == protocol.identity()
    for change in ({"window": 10}, {"points": 3}, {"selection": 0.5}, {"seed": 1}, {"order": "file", "trials": 1}):
        assert Prequential(**change).identity() != protocol.identity()


def test_config_of_the_repository_is_valid():
    session = Session.open(ROOT / "configs/prequential.yaml", sources=Sources.from_environment())
    assert isinstance(session.experiment.protocol, Prequential)


def test_trials_with_a_limit_of_rows_do_not_have_the_same_rows(command, tmp_path):
    text = """
title: t
datasets: [wine]
learners: [uni_log, {learner: uni_squ, max_train: 100}]
grids: {eta: [0.25]}
protocol: {kind: prequential, trials: 2}
"""
    limited = ", {learner: uni_squ, max_train: 100}"
    for learners, said in [
        (limited, "The trials have the same rows in other orders, except those of uni_squ: a mark"),
        (
            limited.replace("100", "100000"),
            "The trials have the same rows in other orders: a mark",
        ),  # as it has 178 rows
        (", uni_squ", "The trials have the same rows in other orders: a mark"),
    ]:
        (tmp_path / "p.yaml").write_text(text.replace(limited, learners))
        assert said in " ".join(command("run", "p.yaml", cwd=tmp_path, exits=0).stdout.split())
    (tmp_path / "p.yaml").write_text(text.replace("[uni_log", "[{learner: uni_log, max_train: 100}"))
    assert "have the same rows" not in command("run", "p.yaml", cwd=tmp_path, exits=0).stdout
    learners = "[{learner: uni_log, max_train: {wine: 100}}, {learner: uni_squ, max_train: {wine: 100}}]"
    text = text.replace("[wine]", "[wine, breast_cancer]")
    (tmp_path / "p.yaml").write_text(text.replace(f"[uni_log{limited}]", learners))
    done = command("run", "p.yaml", cwd=tmp_path, exits=0)
    assert "except those of uni_log on wine; uni_squ on wine: a mark" in " ".join(done.stdout.split())


def test_other_rows_of_the_same_number_are_not_tested(command, tmp_path):
    """One column reports the rows after those of its selection, the other one as many from the first row on."""
    text = """
title: t
datasets: [wine]
learners: [uni_log, {learner: uni_squ, params: {eta: 0.1}, max_train: 142}]
grids: {eta: [0.25, 0.5]}
protocol: {kind: prequential, trials: 2, selection: 0.2}
"""
    (tmp_path / "p.yaml").write_text(text)
    said = " ".join(command("run", "p.yaml", cwd=tmp_path).stdout.split())
    assert "not tested: test rows from row 1 on, those of the reference from row 37 on" in said
