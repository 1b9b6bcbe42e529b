"""``train --continue``: two files in two sessions are one file with both, whatever is trained, wherever it is cut."""

import json
import os
import re
import signal
import subprocess
import threading
import time

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import dump_svmlight_file, load_svmlight_file
from sklearn.metrics import roc_auc_score
from streams import ONE_PASS, estimator, rows, threshold, write

import opauc_bench
from opauc_bench.errors import DataError
from opauc_bench.learners.online import OnlineModel
from opauc_bench.streaming.model import LinearModel
from opauc_bench.streaming.rows import Source
from opauc_bench.streaming.settings import candidates
from opauc_bench.streaming.tuning import TunedModel

N = 4000


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """A file whose features come one after the other, in two parts as well."""
    desk = tmp_path_factory.mktemp("desk")
    write(desk / "both.svm", *rows(N, d=8, late=True))
    lines = (desk / "both.svm").read_text().splitlines(keepends=True)
    (desk / "first.svm").write_text("".join(lines[:2300]))
    (desk / "second.svm").write_text("".join(lines[2300:]))
    return desk


def require_same_models(one, other):
    np.testing.assert_array_equal(one.weights, other.weights)
    for name in ("intercept", "classes", "learner", "parameters", "n_rows", "leaderboard", "progress", "reliability"):
        assert getattr(one, name) == getattr(other, name), name
    assert (one.calibration is None) == (other.calibration is None)
    assert one.calibration is None or one.calibration.to_json() == other.calibration.to_json()


def run(command, desk, *arguments, fails=0):
    return command("train", *arguments, "--overwrite", cwd=desk, exits=fails)


def trained(command, desk, tmp_path, *arguments, file="both.svm"):
    """The model of a single session."""
    run(command, desk, file, *arguments, "--out", tmp_path / "whole.npz")
    return LinearModel.load(tmp_path / "whole.npz")


# ---------------------------------------------------------------------- the same model


@pytest.mark.parametrize("name", ONE_PASS)
def test_two_sessions_are_one(command, desk, tmp_path, name):
    sizes = ("--features", 8, "--rows", N)
    options = ("--learner", name, "--no-tune", *sizes)
    whole = trained(command, desk, tmp_path, *options, file="both.svm")
    run(command, desk, "first.svm", *options, "--out", tmp_path / "1.npz")
    run(command, desk, "second.svm", "--continue", tmp_path / "1.npz", "--out", tmp_path / "2.npz")
    require_same_models(LinearModel.load(tmp_path / "2.npz"), whole)


@pytest.mark.parametrize("options", [(), ("--learner", "opauc"), ("--learner", "opauc_fd"), ("--learner", "oam_seq")])
def test_two_sessions_are_one_with_tuning(command, desk, tmp_path, options):
    whole = trained(command, desk, tmp_path, *options, file="both.svm")
    run(command, desk, "first.svm", *options, "--out", tmp_path / "1.npz")
    run(command, desk, "second.svm", "--continue", tmp_path / "1.npz", "--out", tmp_path / "2.npz")
    require_same_models(LinearModel.load(tmp_path / "2.npz"), whole)
    assert len(whole.leaderboard) > 3


def test_two_sessions_are_one_with_features_far_from_0(command, tmp_path):
    X, y = rows(N, d=8)
    write(tmp_path / "both.svm", X.toarray() + 1000.0 * np.arange(8), y)
    lines = (tmp_path / "both.svm").read_text().splitlines(keepends=True)
    for name, part in (("first.svm", lines[:2300]), ("second.svm", lines[2300:])):
        (tmp_path / name).write_text("".join(part))
    whole = trained(command, tmp_path, tmp_path)
    run(command, tmp_path, "first.svm", "--out", "1.npz")
    run(command, tmp_path, "second.svm", "--continue", "1.npz", "--out", "2.npz")
    require_same_models(LinearModel.load(tmp_path / "2.npz"), whole)
    scores = whole.scores(X.toarray() + 1000.0 * np.arange(8))[0]
    assert roc_auc_score(y, scores) > 0.95  # the model is for features as they are


def stored(tree):
    """A tree that shares no array with the original."""
    return json.loads(json.dumps(tree, default=lambda array: {"array": array.tolist()}))


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(1, N - 1), min_size=1, max_size=3, unique=True))
def test_wherever_a_tuned_pass_is_cut(tmp_path, cuts):
    """Several learners; the state goes through a file each time."""
    X, y = rows(N, d=8, late=True)

    def begun():
        return TunedModel(candidates("auto", {}, [], True), window=1000)

    whole, model = begun(), begun()
    whole.learn(X, y > 0)
    for start, stop in zip([0, *sorted(cuts)], [*sorted(cuts), N]):
        model.learn(X[start:stop], y[start:stop] > 0)
        blank = LinearModel(np.ones(1), 0.0, (-1.0, 1.0), "auto", {}, 1, True, False, False)
        if stop < N:
            LinearModel(**vars(blank) | {"state": model.snapshot()}).save(tmp_path / "m.npz")
            model.finish(np.array([-1.0, 1.0]))  # changes nothing that was stored
            model = TunedModel.restored(LinearModel.load(tmp_path / "m.npz", with_state=True).state)
    np.testing.assert_array_equal(model.recent()[0], whole.recent()[0])
    one, other = (each.finish(np.array([-1.0, 1.0])) for each in (model, whole))
    np.testing.assert_array_equal(one.coef_, other.coef_)
    assert (model.leaderboard, model.progress) == (whole.leaderboard, whole.progress)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [(name, {}) for name in ("nag", "adagrad", "rda_l1", "uni_log", "ftrl_auc")] + [("uni_log", {"intercept": "true"})],
)
def test_scores_of_the_window_have_the_intercept_of_their_time(name, parameters):
    X, y = rows(640)
    model = TunedModel(candidates(name, parameters, [], False), window=1000)
    model.learn(X, y > 0)
    learner, blocks = candidates(name, parameters, [], False)[0].learner, []
    for start in range(0, 640, 64):
        block, positive = X[start : start + 64], y[start : start + 64]
        if start:
            trains = learner.trained_intercepts() is not None
            midpoint = threshold(X[:start], y[:start] > 0, block, learner.coef_[0])
            blocks.append(block @ learner.coef_[0] + (learner.intercept_[0] if trains else midpoint))
        learner.partial_fit(block, positive, classes=[-1, 1])
    scores, positive = model.recent()
    np.testing.assert_allclose(scores, np.concatenate(blocks)[-len(scores) :], rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(positive, y[-len(scores) :] > 0)


def test_new_features_labels_of_one_class_and_standard_input(command, bench, desk, tmp_path):
    """The second part may have one class only, more features, and come from a pipe."""
    X, y = load_svmlight_file(str(desk / "both.svm"))
    X = sparse.hstack([X, sparse.csr_matrix(np.where(np.arange(N) > 3000, 0.5, 0.0)[:, None])]).tocsr()
    keep = (np.arange(N) < 2300) | (y > 0)
    write(tmp_path / "one.svm", X[:2300], y[:2300])
    write(tmp_path / "two.svm", X[keep][2300:], y[keep][2300:])
    write(tmp_path / "both.svm", X[keep], y[keep])
    whole = trained(command, tmp_path, tmp_path, file="both.svm")
    run(command, tmp_path, "one.svm", "--out", "1.npz")
    with (tmp_path / "two.svm").open() as file:
        process = bench.start("train", "-", "--continue", "1.npz", "--out", "2.npz", cwd=tmp_path, stdin=file)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    require_same_models(LinearModel.load(tmp_path / "2.npz"), whole)
    assert f"rows      {len(y[keep]) - 2300:,} more, {len(y[keep]):,} in all, in " in out
    assert len(whole.weights) == 9


def test_options_of_the_first_session_hold_in_the_second(command, desk, tmp_path):
    first = ("--normalize", "--positive", "-1", "--learner", "uni_log", "--no-tune", "--eta", "0.5", "--window", 700)
    whole = trained(command, desk, tmp_path, *first, "--calibration", "platt", file="both.svm")
    run(command, desk, "first.svm", *first, "--out", tmp_path / "1.npz")
    agreeing = ("--normalize", "--positive", "-1", "--learner", "uni_log", "--no-tune", "--window", 700)
    for options in ((), agreeing):
        run(
            *(command, desk, "second.svm", "--continue", tmp_path / "1.npz", "--calibration", "platt", *options),
            *("--out", tmp_path / "2.npz"),
        )
        require_same_models(LinearModel.load(tmp_path / "2.npz"), whole)
    assert whole.parameters["eta"] == 0.5
    assert whole.unit_length


def test_a_model_may_be_replaced_by_itself(command, desk, tmp_path):
    whole = trained(command, desk, tmp_path, file="both.svm")
    run(command, desk, "first.svm", "--out", tmp_path / "m.npz")
    done = command(
        "train", "second.svm", "--continue", tmp_path / "m.npz", "--out", tmp_path / "m.npz", cwd=desk, exits=1
    )
    assert "already exists" in done.stderr
    run(command, desk, "second.svm", "--continue", tmp_path / "m.npz", "--out", tmp_path / "m.npz")
    require_same_models(LinearModel.load(tmp_path / "m.npz"), whole)


@pytest.mark.faults
def test_an_interrupted_training_goes_on(bench, command, desk, tmp_path):
    lines = (desk / "both.svm").read_text().splitlines(keepends=True)
    options = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL}
    program = bench.start("train", "-", "--no-tune", "--out", "1.npz", cwd=tmp_path, **options)
    # Two chunks, of which the first is learnt at once: the second is cut at the end of the pipe's buffer.
    program.stdin.write("".join(lines[:1500]) * 40)
    program.stdin.flush()
    time.sleep(4)
    os.kill(program.pid, signal.SIGINT)
    assert program.wait(60) == 130, program.stderr.read()
    n_rows = LinearModel.load(tmp_path / "1.npz").n_rows
    assert not LinearModel.load(tmp_path / "1.npz").complete
    everything = (lines[:1500] * 40) + lines
    (tmp_path / "rest.svm").write_text("".join(everything[n_rows:]))
    (tmp_path / "all.svm").write_text("".join(everything))
    run(command, tmp_path, "rest.svm", "--continue", "1.npz", "--out", "2.npz")
    whole = trained(command, tmp_path, tmp_path, "--no-tune", file="all.svm")
    require_same_models(LinearModel.load(tmp_path / "2.npz"), whole)


def test_an_interrupted_training_has_the_means_of_the_rows_that_it_has_learnt(command, tmp_path, monkeypatch):
    values = np.random.default_rng(0).normal(size=60_000).round(3)
    rows = [f"{k % 2},{'' if k % 3 else value}\n" for k, value in enumerate(values)]
    (tmp_path / "rows.csv").write_text("y,a\n" + "".join(rows))
    learn, finished = TunedModel.learn, threading.Event()
    statistics_so_far = Source.statistics_so_far

    def means_of_reader(self):
        finished.set() if self.position == self.size else None
        return statistics_so_far(self)

    def learn_one_piece(self, X, positive):
        assert finished.wait(60)  # the reader has come to the end of the file
        learn(self, X, positive)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Source, "statistics_so_far", means_of_reader)
    monkeypatch.setattr(TunedModel, "learn", learn_one_piece)
    options = ("--label", "y", "--missing", "mean", "--no-tune", "--learner", "uni_log")
    command("train", "rows.csv", *options, "--out", "1.npz", cwd=tmp_path, exits=130)
    model = LinearModel.load(tmp_path / "1.npz")
    assert 0 < model.n_rows < len(rows)
    learnt = values[: model.n_rows : 3]
    assert model.schema.counts == (len(learnt),)
    assert model.schema.means == pytest.approx((learnt.mean(),))
    monkeypatch.undo()
    (tmp_path / "rest.csv").write_text("y,a\n" + "".join(rows[model.n_rows :]))
    run(command, tmp_path, "rest.csv", "--continue", "1.npz", "--out", "2.npz")
    run(command, tmp_path, "rows.csv", *options, "--out", "whole.npz")
    two, whole = (LinearModel.load(tmp_path / name) for name in ("2.npz", "whole.npz"))
    require_same_models(two, whole)
    assert two.schema == whole.schema


def test_a_learner_from_a_file_goes_on(command, desk, tmp_path):
    (tmp_path / "own.py").write_text(
        "from opauc_bench.learners import UniLog\n\nclass Mine(UniLog):\n    pass\n\n\n"
        "class Odd(UniLog):\n    def _begin(self, n_features, settings):\n"
        "        state = super()._begin(n_features, settings)\n        state.log = print\n        return state\n"
    )
    whole = trained(command, tmp_path, tmp_path, "--learner", "uni_log", "--no-tune", file=desk / "both.svm")
    run(command, tmp_path, desk / "first.svm", "--learner", "own.py:Mine", "--no-tune", "--out", "1.npz")
    run(command, tmp_path, desk / "second.svm", "--continue", "1.npz", "--out", "2.npz")
    np.testing.assert_array_equal(LinearModel.load(tmp_path / "2.npz").weights, whole.weights)
    # From another folder, the file has to be named; a class of another name is another learner.
    (tmp_path / "sub").mkdir()
    again = (command, tmp_path / "sub", desk / "second.svm", "--continue", "../1.npz", "--out", "3.npz")
    assert "--learner path/to/own.py:Mine" in run(*again, fails=1).stderr
    run(*again, "--learner", "../own.py:Mine")
    np.testing.assert_array_equal(LinearModel.load(tmp_path / "sub/3.npz").weights, whole.weights)
    assert "was trained with --learner own.py:Mine" in run(*again, "--learner", "../own.py:Odd", fails=2).stderr
    # A state with something that is not a value: the model is written, and says that it cannot be continued.
    done = run(
        *(command, tmp_path, desk / "first.svm", "--learner", "own.py:Odd", "--no-tune", "--features", 8),
        *("--out", "3.npz"),
    )
    assert "note: train --continue will not accept this model: a builtin_function_or_method" in done.stderr
    done = run(command, tmp_path, desk / "second.svm", "--continue", "3.npz", "--out", "4.npz", fails=3)
    assert "cannot be continued" in done.stderr


# ---------------------------------------------------------------------- mistakes


@pytest.fixture(scope="module")
def first(invoke, desk):
    invoke("train", "first.svm", "--out", "first.npz", cwd=desk, exits=0)
    return desk / "first.npz"


CONTRADICTIONS = {
    ("--learner", "opauc"): "--learner opauc with --continue: first.npz was trained with --learner auto",
    ("--no-tune",): "--no-tune with --continue: first.npz was trained with --tune",
    ("--eta", "0.1"): "--eta with --continue: first.npz keeps its own settings",
    ("--set", "eps=1"): "--set eps=1 with --continue: first.npz keeps its own settings",
    ("--normalize",): "--normalize with --continue: first.npz was trained with no --normalize",
    ("--zero-based",): "--zero-based with --continue: first.npz was trained with no --zero-based",
    ("--window", "500"): "--window 500 with --continue: first.npz was trained with --window 100000",
    ("--features", "8"): "--features 8 with --continue: first.npz was trained with no --features",
    ("--rows", "4000"): "--rows 4000 with --continue: first.npz was trained with no --rows",
    ("--positive", "-1"): "--positive -1 with --continue: first.npz was trained with --positive 1",
    ("--positive", "nan"): "--positive nan with --continue: first.npz was trained with --positive 1",
}


@pytest.mark.parametrize("options", CONTRADICTIONS)
def test_options_that_contradict_the_model_are_errors(command, desk, first, options):
    done = run(command, desk, "second.svm", "--continue", "first.npz", *options, "--out", "x.npz", fails=2)
    assert f"error: {CONTRADICTIONS[options]}\n" in done.stderr
    assert "leave" in done.stderr
    assert not (desk / "x.npz").exists()


def test_a_model_without_state_says_what_to_do(command, desk, tmp_path):
    run(command, desk, "first.svm", "--small", "--out", tmp_path / "small.npz")
    done = run(command, desk, "second.svm", "--continue", tmp_path / "small.npz", "--out", "x.npz", fails=3)
    assert "this model cannot be continued: it was trained with --small" in done.stderr
    assert "try: train it again without --small" in done.stderr


def test_other_labels_are_errors(command, desk, first, tmp_path):
    X, y = load_svmlight_file(str(desk / "second.svm"))
    write(tmp_path / "labels.svm", X, np.where(y > 0, 1, 0))
    done = run(command, desk, tmp_path / "labels.svm", "--continue", "first.npz", "--out", "x.npz", fails=3)
    assert "expected the labels -1 and 1, got a third one, 0" in done.stderr


def test_a_pass_that_was_laid_out_for_its_rows_is_over(command, desk, tmp_path):
    run(command, desk, "first.svm", "--learner", "fsauc", "--no-tune", "--out", tmp_path / "f.npz")
    done = run(command, desk, "second.svm", "--continue", tmp_path / "f.npz", "--out", "x.npz", fails=1)
    assert "fsauc has laid out its pass for 2,300 rows, which have all come" in done.stderr
    assert "--rows N" in done.stderr


def test_states_that_were_changed_are_refused(command, desk, first, tmp_path):
    with np.load(first) as archive:
        entries = dict(archive)
    about = json.loads(entries["about"].item())

    def refused(changed, arrays=None):
        np.savez(tmp_path / "m.npz", **entries | (arrays or {}) | {"about": np.array(json.dumps(changed))})
        done = run(command, desk, "second.svm", "--continue", tmp_path / "m.npz", "--out", "x.npz", fails=3)
        assert "Traceback" not in done.stderr
        return done.stderr

    for change in (
        {"pass": {}},
        {"options": {}},
        {"pass": about["state"]["pass"] | {"settings": [{"a": 1}]}},
        {"pass": about["state"]["pass"] | {"entrants": []}},
        {"pass": about["state"]["pass"] | {"leader": 10**6}},
        {"pass": about["state"]["pass"] | {"numbers": {}}},
    ):
        assert "training cannot continue: the state is damaged" in refused(about | {"state": about["state"] | change})
    for name, array in entries.items():
        if name.startswith("state/") and array.ndim and array.size:
            assert "damaged" in refused(about, {name: array[:-1]})
            break
    for path in (".", "absent.npz", "first.svm"):
        run(command, desk, "second.svm", "--continue", path, "--out", "x.npz", fails=3)


def test_a_snapshot_is_not_changed_by_what_follows():
    X, y = rows(300)
    model = TunedModel(candidates("ftrl_auc", {}, [], False), window=100)
    model.learn(X[:200], y[:200] > 0)
    saved = model.snapshot()
    before = stored(saved)
    model.learn(X[200:], y[200:] > 0)
    model.finish(np.array([-1.0, 1.0]))
    assert stored(saved) == before
    single = OnlineModel(estimator("ftrl_auc"), n_features=9)
    single.learn(X, y > 0)
    np.testing.assert_array_equal(single.finish(np.array([-1.0, 1.0])).coef_, model.finish(np.array([-1.0, 1.0])).coef_)


# ---------------------------------------------------------------------- tables


def a_table(n, seed=0):
    """Rows with missing numbers and categories; which of them are positive depends on both."""
    rng = np.random.default_rng(seed)
    age, price = rng.normal(40, 10, n), rng.gamma(2.0, 50.0, n)
    site = rng.choice(["news", "shop", "mail"], n)
    score = 0.1 * (age - 40) - 0.01 * price + (site == "shop") + rng.normal(0, 0.5, n)
    return pd.DataFrame(
        {
            "clicked": np.where(score > 0.3, "yes", "no"),
            "age": np.where(rng.random(n) < 0.1, np.nan, age),
            "price": price,
            "site": np.where(rng.random(n) < 0.05, None, site),
            "id": np.arange(n),
        }
    )


@pytest.mark.parametrize("missing", ["mean", "indicator"])
def test_tables_go_on_too(command, tmp_path, missing):
    frame = a_table(3000)
    frame.to_csv(tmp_path / "both.csv", index=False)
    frame[:1700].to_csv(tmp_path / "first.csv", index=False)
    frame[1700:][["site", "price", "clicked", "id", "age"]].to_csv(tmp_path / "second.csv", index=False)
    options = ("--label", "clicked", "--drop", "id", "--positive", "yes", "--missing", missing, "--bits", 6)
    whole = trained(command, tmp_path, tmp_path, *options, file="both.csv")
    run(command, tmp_path, "first.csv", *options, "--out", "1.npz")
    for again in ((), options):
        run(command, tmp_path, "second.csv", "--continue", "1.npz", *again, "--out", "2.npz")
        two = LinearModel.load(tmp_path / "2.npz")
        require_same_models(two, whole)
        assert two.schema == whole.schema
    for contradiction, said in (
        (("--label", "site"), "--label site with --continue: 1.npz was trained with --label clicked"),
        (("--drop", "age"), "--drop age with --continue: 1.npz was trained with --drop id"),
        (("--categorical", "age"), "--categorical age with --continue: 1.npz was trained with no --categorical"),
        (("--bits", "7"), "--bits 7 with --continue: 1.npz was trained with --bits 6"),
        (("--positive", "no"), "--positive no with --continue: 1.npz was trained with --positive yes"),
    ):
        done = run(command, tmp_path, "second.csv", "--continue", "1.npz", *contradiction, "--out", "3.npz", fails=2)
        assert f"error: {said}\n" in done.stderr


def test_a_model_of_a_table_in_python(command, tmp_path):
    frame = a_table(3000)
    frame.to_csv(tmp_path / "both.csv", index=False)
    options = ("--label", "clicked", "--drop", "id", "--missing", "mean", "--bits", 6)
    trained(command, tmp_path, tmp_path, *options, file="both.csv")
    done = command("score", "whole.npz", "both.csv", "--probability", cwd=tmp_path)
    printed = np.array(done.stdout.split(), dtype=float)
    model = opauc_bench.load_model(tmp_path / "whole.npz")
    shuffled = frame[["site", "id", "age", "price"]]  # by name; the label is not needed
    np.testing.assert_array_equal(model.predict_proba(shuffled)[:, 1], printed)
    assert set(model.predict(shuffled)) == {"yes", "no"}
    assert not hasattr(model, "feature_names_in_")  # categories are hashed
    assert model.n_features_in_ == 2 + 64
    assert model.coef_.shape == (1, 2 + 64)
    with pytest.raises(DataError, match="price"):
        model.predict(frame[["site", "age"]])
    with pytest.raises(ValueError, match=r"expected a DataFrame, .* categories: site"):
        model.predict(np.zeros((2, 3)))
    shown = command("model", "show", "whole.npz", "--weights", 3, cwd=tmp_path).stdout
    assert "classes   yes (positive), no" in shown
    assert re.search(r"^site=shop +[\d.]+ #+$", shown, re.M)


def test_rows_that_were_learnt_before_are_noted(command, desk, tmp_path):
    """Their scores are not held out: the AUC of the window is too good."""
    options = ("--learner", "adagrad", "--no-tune")
    first = run(command, desk, "first.svm", *options, "--out", tmp_path / "m.npz")
    assert "learnt before" not in first.stderr
    again = run(command, desk, "first.svm", "--continue", tmp_path / "m.npz", "--out", tmp_path / "again.npz")
    assert "note: first.svm has been learnt before" in again.stderr
    more = run(command, desk, "second.svm", "--continue", tmp_path / "again.npz", "--out", tmp_path / "more.npz")
    assert "learnt before" not in more.stderr
    twice = run(command, desk, "second.svm", "./second.svm", *options, "--out", tmp_path / "m.npz")
    assert twice.stderr.count("note: ./second.svm has been learnt before") == 1


def test_files_without_rows_and_those_not_reached_are_not_learnt(command, tmp_path):
    (tmp_path / "a.csv").write_text("x,label\n" + "1,0\n2,1\n" * 60_000 + "bad,1\n")
    (tmp_path / "b.csv").write_text("x,label\n" + "1,0\n2,1\n" * 50)
    for name in ("empty1.csv", "empty2.csv"):
        (tmp_path / name).write_text("x,label\n")
    options = ("--label", "label", "--learner", "adagrad", "--no-tune")
    done = run(command, tmp_path, "b.csv", "empty1.csv", "empty2.csv", *options, "--out", "b.npz")
    assert "learnt before" not in done.stderr
    done = command("train", "a.csv", "b.csv", *options, "--out", "m.npz", cwd=tmp_path)
    assert done.returncode == 3
    assert "rows is in m.partial.npz" in done.stderr
    done = run(command, tmp_path, "b.csv", "--continue", "m.partial.npz", "--out", "n.npz")
    assert "learnt before" not in done.stderr


def test_a_later_file_that_cannot_be_read_is_an_error_of_the_data(command, desk, tmp_path):
    unreadable = "/proc/self/mem"  # also for root
    done = command("train", "first.svm", unreadable, "--out", tmp_path / "m.npz", cwd=desk)
    assert done.returncode == 3
    assert f"error: {unreadable}: cannot be read" in done.stderr


def test_a_file_without_rows_is_noted(command, tmp_path):
    (tmp_path / "a.csv").write_text("x,label\n" + "1,0\n2,1\n" * 50)
    (tmp_path / "b.csv").write_text("x,label\n")
    run(command, tmp_path, "a.csv", "--label", "label", "--out", "m.npz")
    done = run(command, tmp_path, "b.csv", "--continue", "m.npz", "--out", "n.npz", "--quiet")
    assert done.stderr == "note: b.csv has no rows: the model is as before\n"


@pytest.mark.parametrize("zero_based", [False, True])
def test_a_third_session_knows_how_the_first_read_its_rows_and_which_file(command, tmp_path, zero_based):
    X, y = rows(300)
    for name, part in (("both", slice(None)), ("first", slice(200)), ("second", slice(200, None))):
        dump_svmlight_file(X[part], y[part], str(tmp_path / f"{name}.svm"), zero_based=zero_based)
    options = ("--learner", "adagrad", "--no-tune", *["--zero-based"] * zero_based)
    command("train", "both.svm", *options, "--out", "whole.npz", cwd=tmp_path, exits=0)
    command("train", "first.svm", *options, "--out", "1.npz", cwd=tmp_path, exits=0)
    command("train", "second.svm", "--continue", "1.npz", "--out", "2.npz", cwd=tmp_path, exits=0)
    whole, two = (LinearModel.load(tmp_path / name) for name in ("whole.npz", "2.npz"))
    assert (two.weights.tolist(), two.zero_based) == (whole.weights.tolist(), zero_based)
    done = command("train", "first.svm", "--continue", "2.npz", "--out", "3.npz", cwd=tmp_path, exits=0)
    assert "note: first.svm has been learnt before" in done.stderr


def test_rows_of_earlier_sessions_do_not_count_where_a_bad_row_discards_the_model(command, tmp_path, monkeypatch):
    """The model of the earlier sessions is still there."""
    monkeypatch.setattr("opauc_bench.streaming.train._ROWS_TO_KEEP", 100)
    for name, n in (("first", 300), ("few", 20), ("many", 200)):
        (tmp_path / f"{name}.csv").write_text("x,label\n" + "1,0\n2,1\n" * (n // 2))
    (tmp_path / "bad.csv").write_text("x,label\nbad,1\n")
    run(command, tmp_path, "first.csv", "--label", "label", "--learner", "adagrad", "--no-tune", "--out", "m.npz")
    run(command, tmp_path, "few.csv", "bad.csv", "--continue", "m.npz", "--out", "few.npz", fails=3)
    assert not list(tmp_path.glob("few*.npz"))
    done = run(command, tmp_path, "many.csv", "bad.csv", "--continue", "m.npz", "--out", "many.npz", fails=3)
    assert "the model of the first 500 rows is in many.partial.npz" in done.stderr
    assert "and the rows from row 201 on" in done.stderr, "of these files"
