"""What the kinds of protocol compute: the metric that selects, what learners draw, which rows and classes."""

from types import SimpleNamespace

import numpy as np
import pytest
from reference.examples import examples
from sklearn.metrics import average_precision_score

from opauc_bench.errors import ConfigError
from opauc_bench.evaluation.auc import released_auc_columns
from opauc_bench.evaluation.sketch_error import second_moment_error, second_moment_norm
from opauc_bench.evaluation.splits import Split, seed_for
from opauc_bench.learners import get_learner
from opauc_bench.learners.opauc.second_moments import second_moment_sketch
from opauc_bench.protocols import Convergence, CrossValidation, Holdout, Predefined, Prequential, SketchError, Sweep
from opauc_bench.protocols.context import TaskContext

X, Y = examples(240, 6)
TRAIN, VALIDATION, TEST = np.split(np.random.default_rng(1).permutation(240), [140, 190])


def context_of(learner, protocol, grid=None, trial=0, max_train=None, **options):
    task = SimpleNamespace(
        dataset="d",
        column="c",
        trial=trial,
        fold=0,
        max_train=max_train,
        selected=None,
        protocol=protocol,
        tuned_by=None,
    )
    grid = {axis: np.array(values) for axis, values in (grid or {"eta": [0.01, 0.1]}).items()}
    return TaskContext(task, SimpleNamespace(X=X, y=Y, name="d"), get_learner(learner)(), grid, **options)


def test_the_test_fraction_is_that_of_the_sets():
    assert CrossValidation(folds=4).test_fraction == 1 / 4
    # Along time, 4 folds are cut into 5 blocks: training sets have 1 to 4 of them, 2.5 on average, test sets one.
    assert CrossValidation(trials=1, folds=4, order="time").test_fraction == pytest.approx(1 / 3.5)
    assert Holdout(shares=(3, 2, 1)).test_fraction == 1 / 4
    assert (Predefined().test_fraction, Prequential().test_fraction) == (1 / 2, 2 / 3)


def test_a_predefined_split_selects_by_the_metric_that_is_asked_for():
    protocol = Predefined(select="average_precision")
    found = protocol.search(context_of("uni_log", protocol), Split(TRAIN, TEST, 0, VALIDATION))
    models = [get_learner("uni_log")(eta=eta).fit(X[TRAIN], Y[TRAIN]) for eta in (0.01, 0.1)]
    want = [average_precision_score(Y[VALIDATION] > 0, X[VALIDATION] @ model.coef_[0]) for model in models]
    assert found == pytest.approx(want)


def test_a_predefined_split_without_validation_rows_selects_by_the_metric_that_is_asked_for():
    context, split = context_of("uni_log", Predefined()), Split(TRAIN, TEST, 0)
    found = Predefined(select="average_precision", inner_folds=3).search(context, split)
    want = CrossValidation(select="average_precision", inner_folds=3).search(context, split)
    assert found.tolist() == want.tolist()
    assert found.tolist() != CrossValidation(inner_folds=3).search(context, split).tolist()


def test_what_a_learner_draws_depends_on_the_repetition():
    context = context_of("opauc_rp", Holdout(), {"eta": [0.01], "lam": [0.1]})
    Holdout().search(context, Split(TRAIN, TEST, 77, VALIDATION))
    assert context.learner.random_state == 77
    context = context_of("oam_seq", Prequential(), trial=3)
    Prequential()._order(context)
    assert context.learner.random_state == seed_for("prequential", 0, "d", 3)
    figure = Sweep(splits=CrossValidation(folds=3))
    context = context_of("oam_seq", figure)
    before, split = context.learner.random_state, figure.make_split(context)
    assert before != context.learner.random_state == split.seed


def test_errors_of_sketches_are_those_of_their_class_with_the_draws_of_the_trial():
    protocol, seed = SketchError(sizes=(3,)), seed_for("sketch", 0, "d", 2)
    columns = protocol.compute(context_of("opauc_r", protocol, trial=2))["outcome"]["columns"]
    order = np.random.default_rng(seed).permutation(240)
    for name, label in (("positive_error", 1), ("negative_error", -1)):
        A = X[order[Y[order] == label]]
        sketch = second_moment_sketch(get_learner("opauc_r")(tau=3, random_state=seed), A)
        assert columns[name] == pytest.approx([second_moment_error(A, sketch) / second_moment_norm(A)])


def test_max_train_limits_the_rows_of_a_sketch():
    protocol = SketchError(sizes=(3,))
    assert protocol.compute(context_of("opauc_fd", protocol, max_train=100))["outcome"]["n_train"] == 100


@pytest.mark.parametrize("splits", [Holdout(split="released", auc="released"), Holdout(split="released")])
@pytest.mark.parametrize("kind", [Sweep, Convergence])
def test_figures_have_the_auc_of_their_splits(kind, splits):
    protocol = kind(splits=splits)
    context = context_of("uni_log", protocol, {"eta": [0.1]})
    auc = protocol.compute(context)["outcome"]["columns"]["auc"][-1]
    split = splits.make_split(context)
    model = get_learner("uni_log")(eta=0.1).fit(X[split.train], Y[split.train])
    released = released_auc_columns(Y[split.test], (X[split.test] @ model.coef_[0])[:, None])[0]
    assert (auc == pytest.approx(released, abs=1e-9)) == (splits.auc == "released")


def test_inherited_axes_stay_kept_while_settings_are_validated():
    kept = []
    context = context_of("uni_log", Holdout(), keep=kept.append)
    for name in ("tuned_by", "validation"):
        Holdout()._validate(context, context.learner, context.grid, Split(TRAIN, TEST, 0, VALIDATION), name)
    assert list(kept[-1]) == ["tuned_by", "validation"]


def test_a_limit_may_leave_just_as_many_rows_of_a_class_as_are_needed():
    rows = np.concatenate([np.flatnonzero(Y > 0)[:3], np.flatnonzero(Y < 0)[:30]])
    context = context_of("uni_log", None, max_train=10)
    assert context.capped(rows, 3).tolist() == rows[:10].tolist()
    with pytest.raises(ConfigError, match="leaves 3 positive and 7 negative rows of d; expected 4 of each"):
        context.capped(rows, 4)


def test_as_many_rows_of_the_rarer_class_as_the_sets_need_are_enough():
    for protocol, enough in (
        (CrossValidation(folds=5, inner_folds=4), 5),
        (Holdout(shares=(4, 1, 1)), 6),
        (Prequential(), 2),
    ):
        assert protocol.class_size_problem(enough, 100) is None
        assert protocol.class_size_problem(enough - 1, 100) is not None
    assert CrossValidation(folds=5, inner_folds=5).class_size_problem(5, 100) is not None
    thin = CrossValidation(folds=2, train_positives=0.5, least_positives=50)
    assert thin.reason_left_out(700, 600) == ""
    assert thin.reason_left_out(698, 600) != ""
