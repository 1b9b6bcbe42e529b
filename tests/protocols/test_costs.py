"""What ``plan`` takes a repetition to cost, and which datasets it finds too small, written out."""

from opauc_bench.protocols import CrossValidation, Holdout, Prequential, Sweep
from opauc_bench.protocols.base import scoring_seconds
from opauc_bench.protocols.convergence import Convergence
from opauc_bench.protocols.timing import Timing


def training(n_rows, n_settings, folds=0, alone=False):
    """A second for a row of a setting and pass, ten bytes for a row."""
    return 1.0 * n_rows * n_settings * max(1, folds), 10.0 * n_rows


def test_costs_of_selection_and_training():
    seconds, memory = CrossValidation(folds=4, inner_folds=5).cost(800, 300, None, training)
    assert seconds == 600 * 300 * 5 + scoring_seconds(600, 300) + 600
    assert memory == 6000 + 16 * 120 * 300
    seconds, memory = Holdout().cost(600, 300, None, training)
    assert seconds == 400 * 300 + scoring_seconds(100, 300) + 400
    assert memory == 4000 + 16 * 100 * 300


def test_costs_of_prequential():
    kind = Prequential(selection=0.5)
    assert kind.cost(1000, 10, 600, training)[1] == max(6000, 3000 + 16 * 300 * 10) + 16 * 600
    assert kind.cost(1000, 1, 600, training) == kind.cost(600, 1, None, training)


def test_costs_of_figures():
    assert Sweep(splits=Holdout()).cost(600, 30, None, training)[1] == 4000 + 16 * 100 * 30
    assert Timing(repeats=3).cost(500, 1, None, training)[0] == 3 * 400
    assert Convergence(points=2).cost(500, 1, None, training)[0] == 400 + 2 * scoring_seconds(100, 1)


def test_training_sets_along_time_are_all_but_one_part_at_last():
    assert CrossValidation(order="time", trials=1, folds=4).sizes(100, None) == (80.0, 0.0, 20.0)


def test_tables_say_that_test_rows_come_last():
    assert Holdout().table_notes == ()
    for kind in (Holdout, CrossValidation):
        assert any("earlier than" in note for note in kind(order="time", trials=1).table_notes)


def test_classes_are_counted_in_the_smallest_training_set():
    """The rarer class has 11 rows, 8 of them in the training set whose test set has 3."""
    assert CrossValidation(folds=5, inner_folds=8).class_size_problem(11, 100) is None
    assert "too few" in CrossValidation(folds=5, inner_folds=9).class_size_problem(11, 100)
    thinned = CrossValidation(folds=5, inner_folds=8, train_positives=0.5)
    assert thinned.class_size_problem(100, 10) is None
    thinned = CrossValidation(folds=5, inner_folds=8, train_positives=0.48)
    assert "leaves 7 positive" in thinned.class_size_problem(100, 10)


def test_figures_use_the_rows_of_their_splits():
    assert Sweep(splits=Holdout(imbalance=0.1)).n_rows(1000, 400) == 660
    thinned = CrossValidation(train_positives=0.5)
    assert Sweep(splits=thinned).reason_left_out(100, 50) == thinned.reason_left_out(100, 50) != ""
