"""What ``train`` and ``model show`` print about a model, line by line."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

from opauc_bench.data.schema import Schema
from opauc_bench.streaming import train_notes
from opauc_bench.streaming.calibration import Reliability
from opauc_bench.streaming.classifier import TrainedClassifier
from opauc_bench.streaming.leaderboard import shown_leaderboard
from opauc_bench.streaming.model import LinearModel
from opauc_bench.streaming.show import _plot, reliability_lines


def linear_model(weights, unit_length=False):
    return LinearModel(np.array(weights), 0.0, (-1.0, 1.0), "nag", {}, 10, True, unit_length, False)


def test_a_score_of_0_is_negative():
    assert TrainedClassifier(linear_model([1.0])).predict([[0.0], [1.0], [-1.0]]).tolist() == [-1.0, 1.0, -1.0]


def test_repeated_features_are_summed_before_a_row_gets_length_1():
    X = sparse.csr_matrix((np.array([1.0, 2.0, 4.0]), np.array([0, 0, 1]), np.array([0, 3])), shape=(1, 2))
    assert linear_model([1.0, 1.0], unit_length=True).scores(X)[0][0] == pytest.approx(7 / 5)
    assert X.nnz == 3


def test_log_loss_of_a_probability_near_0_is_not_cut_off():
    reliability = Reliability(np.zeros(1), 0.5)
    reliability.add(np.zeros(1), np.array([1e-12]), np.array([True]))
    assert reliability.to_json()["figures"]["calibrated"]["log_loss"] == pytest.approx(-np.log(1e-12))


def test_settings_beyond_the_tenth_are_counted():
    setting = {"learner": "nag", "parameters": {"eta": 1.0}, "auc": 0.5, "standard_error": None, "n_rows": 1}
    setting |= {"outcome": "kept", "averaged": False}
    assert "more" not in shown_leaderboard([setting] * 10)
    assert shown_leaderboard([setting] * 11).endswith("and 1 more, dropped earlier or ranked lower")


def test_bars_of_predicted_and_observed_shares():
    lines = reliability_lines({"figures": {}, "bins": [[5, 0.5, 0.5], [5, 0.25, 1.0]]})
    assert lines[-2].endswith("|" + " " * 22 + "*")
    assert lines[-1].endswith("|" + " " * 11 + "p" + " " * 32 + "o")


def test_a_flat_curve_has_a_height():
    lines = _plot([[1, 0.5], [10, 0.5]])
    assert lines[2].startswith("   .5005 |")
    assert lines[9].startswith("   .4995 |")


def test_bits_that_leave_nine_tenths_of_the_places_free():
    model = SimpleNamespace(n_occurring=lambda first: 300)  # 300 of 4096 are less than a tenth, of 2048 more
    schema = Schema("y", (), ("c",), bits=10)
    (note,) = train_notes._shared_features_note(model, SimpleNamespace(schema=schema, ids=[]))
    assert note.endswith("; --bits 12 has room for them")


@pytest.mark.parametrize(
    ("n_in_window", "advice"), [(5000, "rows of both classes"), (4999, "a larger --window has more")]
)
def test_advice_where_a_window_has_no_blocks(n_in_window, advice):
    model = SimpleNamespace(lacks_blocks=True, n_rows=10_000, auc=lambda: 0.5, live=[1, 2], n_in_window=n_in_window)
    assert train_notes._blocks_note(model)[0].endswith(advice)


@pytest.mark.parametrize(("counts", "noted"), [((5, 5), False), ((6, 5), True)])
def test_a_note_where_the_positive_label_is_the_more_frequent_one(counts, noted):
    trained = SimpleNamespace(classes_=np.array(["a", "b"]), class_counts_=counts)
    assert bool(train_notes._positive_note(trained, False)) == noted


@pytest.mark.parametrize(("error", "noted"), [(0.02, True), (0.03, False), (None, False)])
def test_a_note_where_blocks_differ_by_more_than_two_standard_errors(error, noted):
    leaderboard = [{"standard_error": error}]
    model = SimpleNamespace(auc=lambda: 0.9, auc_across_blocks=lambda: 0.85, leaderboard=leaderboard)
    assert bool(train_notes._drift_note(model)) == noted
