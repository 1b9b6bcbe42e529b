"""Training as a stream: the same model as in memory, whatever the file, and piece by piece."""

import bz2
import gzip
import lzma
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import dump_svmlight_file, load_svmlight_file
from sklearn.preprocessing import normalize
from streams import ONE_PASS, estimator, rows, trained, write

from opauc_bench.errors import LearnerError
from opauc_bench.learners import DivergenceError
from opauc_bench.learners.online import OnlineModel
from opauc_bench.learners.rows import narrowed
from opauc_bench.streaming.rows import unit_length

# A step of these reads and writes the features of a row only, so that room for others cannot change a bit.
SPARSE_STEPS = [
    "ftrl_auc",
    "ftrl_proximal",
    "rda_l1",
    "adagrad",
    "spam_l2",
    "uni_exp",
    "uni_log",
    "uni_squ",
    "pair_sgd",
    "nag",
]


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """A folder with one file, compressed in three ways as well."""
    desk = tmp_path_factory.mktemp("desk")
    text = write(desk / "data.svm", *rows()).read_bytes()
    (desk / "data.svm.gz").write_bytes(gzip.compress(text))
    (desk / "data.svm.bz2").write_bytes(bz2.compress(text))
    (desk / "data.svm.xz").write_bytes(lzma.compress(text))
    write(desk / "late.svm", *rows(late=True))
    return desk


def require_same(model, learner):
    """The model has the weights of the fitted estimator, bit for bit."""
    np.testing.assert_array_equal(model.weights, learner.coef_[0])
    assert model.intercept == learner.intercept_[0]
    assert model.classes == tuple(learner.classes_)
    assert model.parameters == learner.get_params()


# ---------------------------------------------------------------------- the same model as in memory


@pytest.mark.parametrize("name", ONE_PASS)
def test_a_stream_trains_what_fit_trains(command, desk, tmp_path, name):
    model = trained(command, desk, tmp_path, "--learner", name)
    require_same(model, estimator(name).fit(*load_svmlight_file(str(desk / "data.svm"))))
    assert (model.learner, model.n_rows, model.complete) == (name, 9000, True)


@pytest.mark.parametrize("name", ONE_PASS)
def test_features_may_come_late(command, desk, tmp_path, name):
    learner = estimator(name).fit(*load_svmlight_file(str(desk / "late.svm")))
    require_same(trained(command, desk, tmp_path, "--learner", name, "--features", 9, file="late.svm"), learner)
    model = trained(command, desk, tmp_path, "--learner", name, "--overwrite", file="late.svm")
    if name in SPARSE_STEPS:
        require_same(model, learner)
    np.testing.assert_allclose(model.weights, learner.coef_[0], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(model.intercept, learner.intercept_[0], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("suffix", ["gz", "bz2", "xz"])
@pytest.mark.parametrize("name", ["ftrl_auc", "opauc"])
def test_compressed_files_train_the_same(command, desk, tmp_path, name, suffix):
    model = trained(command, desk, tmp_path, "--learner", name, file=f"data.svm.{suffix}")
    require_same(model, estimator(name).fit(*load_svmlight_file(str(desk / "data.svm"))))


def test_parameters_reach_the_learner(command, desk, tmp_path):
    options = ("--learner", "ftrl_auc", "--eta", "2^-2", "--l1", "1e-2", "--set", "lazy=false", "--set", "beta=2")
    model = trained(command, desk, tmp_path, *options)
    learner = estimator("ftrl_auc", gamma=0.25, l1=1e-2, lazy=False, beta=2.0)
    require_same(model, learner.fit(*load_svmlight_file(str(desk / "data.svm"))))


@pytest.mark.parametrize("scale", [1e200, 1e-200, 1e-320, 1e308])
def test_unit_length_of_very_large_and_small_rows(scale):
    values = np.array([[3.0, 0.0, 4.0], [0.5, 0.25, 0.0], [0.0, 0.0, 0.0], [0.0, 1.0, 0.0]]) / 4
    plain = unit_length(sparse.csr_matrix(values))
    X = sparse.csr_matrix(values)
    X.data[:4] *= scale  # the first two rows; the others are as they were
    found = unit_length(X).toarray()
    np.testing.assert_allclose(found, plain.toarray(), rtol=1e-14 if scale > 1e-300 else 1e-2)
    np.testing.assert_array_equal(found[2:], plain.toarray()[2:])


def test_rows_of_unit_length(command, desk, tmp_path):
    X, y = load_svmlight_file(str(desk / "data.svm"))
    model = trained(command, desk, tmp_path, "--normalize", "--learner", "uni_log")
    learner = estimator("uni_log").fit(normalize(X), y)
    require_same(model, learner)
    assert model.unit_length
    np.testing.assert_array_equal(model.scores(X)[0], learner.decision_function(normalize(X)))


def test_a_file_that_begins_with_feature_0(command, tmp_path):
    X, y = rows(300)
    dump_svmlight_file(X, y, str(tmp_path / "zero.svm"), zero_based=True)
    X, y = load_svmlight_file(str(tmp_path / "zero.svm"), zero_based=True)
    model = trained(command, tmp_path, tmp_path, "--zero-based", file="zero.svm")
    require_same(model, estimator("ftrl_auc").fit(X, y))
    done = command("score", "m.npz", "zero.svm", cwd=tmp_path)
    np.testing.assert_array_equal(np.array(done.stdout.split(), dtype=float), model.scores(X)[0])


@pytest.mark.parametrize(("negative", "positive"), [(0, 1), (1, 2), (-1, 1), (-7.5, 3)])
def test_any_two_labels(command, desk, tmp_path, negative, positive):
    X, y = load_svmlight_file(str(desk / "data.svm"))
    write(tmp_path / "labels.svm", X, np.where(y > 0, positive, negative))
    model = trained(command, tmp_path, tmp_path, file="labels.svm")
    assert model.classes == (negative, positive)
    np.testing.assert_array_equal(model.weights, estimator("ftrl_auc").fit(X, y).coef_[0])


@pytest.mark.parametrize("first", [-1.0, 1.0])
def test_the_second_label_may_come_after_several_chunks(command, desk, tmp_path, first):
    X, y = load_svmlight_file(str(desk / "data.svm"))
    order = np.argsort(-y * first, kind="stable")
    write(tmp_path / "sorted.svm", X[order], y[order])
    if first == 1.0:
        order = np.r_[order[y[order] > 0], order[y[order] < 0]]
    require_same(trained(command, tmp_path, tmp_path, file="sorted.svm"), estimator("ftrl_auc").fit(X[order], y[order]))


def test_the_positive_label_may_be_named(command, desk, tmp_path):
    X, y = load_svmlight_file(str(desk / "data.svm"))
    model = trained(command, desk, tmp_path, "--positive", "-1")
    assert model.classes == (1.0, -1.0)
    np.testing.assert_array_equal(model.weights, estimator("ftrl_auc").fit(X, -y).coef_[0])


# ---------------------------------------------------------------------- learning piece by piece


@pytest.mark.parametrize("name", ONE_PASS)
def test_scores_on_the_way_are_those_of_the_model_so_far(name):
    X, y = rows(300)
    model = OnlineModel(estimator(name), n_features=9, n_rows=300)
    assert (model.scores(X) == 0).all()
    model.learn(X[:200, :5], y[:200] > 0)
    scores = model.scores(X)
    learner = model.finish(np.array([-1.0, 1.0]))
    np.testing.assert_allclose(scores, X @ learner.coef_[0], rtol=1e-12, atol=1e-14)


# Those whose weights are not simply stored: computed again from other sums, or of the last row alone (eta lam = 1).
@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("ftrl_auc", {"refresh": True}),
        ("ftrl_proximal", {"refresh": True}),
        ("adagrad", {"variant": "released"}),
        ("opauc_r", {"eta": 0.25, "lam": 4.0}),
        ("opauc_h", {"eta": 0.25, "lam": 4.0}),
        ("opauc_h", {"algorithm": "plain"}),
    ],
)
def test_scores_on_the_way_of_weights_that_are_computed(name, params):
    X, y = rows(300)
    X = X.toarray()
    X[:100, 5:] = X[:200, 7:] = 0.0
    X = sparse.csr_matrix(X)
    model = OnlineModel(estimator(name, **params))
    for start, width in ((0, 5), (100, 7), (200, 9)):
        model.learn(X[start : start + 100, :width], y[start : start + 100] > 0)
    scores = model.scores(X)
    learner = model.finish(np.array([-1, 1]))
    np.testing.assert_allclose(scores, X @ learner.coef_[0], rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(learner.coef_, estimator(name, **params).fit(X, y).coef_, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("name", ["nag", "adagrad", "ftrl_auc", "ftrl_proximal", "uni_log", "opauc"])
def test_scores_before_a_step_do_not_depend_on_the_features_looked_at(name):
    """Of all features, or of those that the rows have: the same bits."""
    X, y = rows(400)
    scores = []
    for narrow in (lambda one: None, narrowed):
        model = OnlineModel(estimator(name), grid={estimator(name).grid_axes[0]: np.array([0.01, 0.1])})
        pieces = [(X[start : start + 100], y[start : start + 100] > 0) for start in range(0, 400, 100)]
        scores.append(np.concatenate([model.score_then_learn(*piece, narrow(piece[0]))[0] for piece in pieces]))
    assert scores[0][100:].any()
    np.testing.assert_array_equal(*scores)


def test_rows_without_any_feature():
    model = OnlineModel(estimator("opauc"))
    model.learn(sparse.csr_matrix((4, 0)), np.array([True, False, True, False]))
    assert model.scores(sparse.csr_matrix((2, 3))).tolist() == [0.0, 0.0]
    assert model.finish(np.array([-1, 1])).coef_.tolist() == [[0.0]]


def test_which_learners_take_on_features_midway():
    fixed = {name for name in ONE_PASS if not OnlineModel.can_widen(estimator(name))}
    assert fixed == {"solam", "opauc_s", "opauc_feat", "opauc_rp"}
    page = (Path(__file__).parents[2] / "docs/streaming.md").read_text(encoding="utf-8")
    text = page[page.index("**Sizes that a learner needs.**") :].partition("\n\n")[0]
    assert all(f"`{name}`" in text for name in fixed)


def test_state_that_cannot_widen_is_an_error():
    X, y = rows(100)
    model = OnlineModel(estimator("solam"))
    model.learn(X[:50, :4], y[:50] > 0)
    with pytest.raises(LearnerError, match="cannot accept new features during the pass"):
        model.learn(X[50:], y[50:] > 0)


def test_width_beyond_memory_is_refused():
    model = OnlineModel(estimator("opauc"))
    far = sparse.csr_matrix((np.ones(2), [0, 1_999_999], [0, 2]), shape=(1, 2_000_000))
    with pytest.raises(LearnerError, match=r"would need .* GB for 2,000,000 features"):
        model.learn(far, np.array([True]))


def test_room_doubles_where_width_costs_memory_only():
    X, y = rows(400, 300)
    model = OnlineModel(estimator("ftrl_auc"))
    widths = set()
    for width in range(1, 301):
        model.learn(X[width : width + 1, :width], y[width : width + 1] > 0)
        widths.add(model._room)
    assert len(widths) <= 10
    assert model.finish(np.array([-1, 1])).coef_.shape == (1, 300)


def test_divergence_is_found_in_scores_and_at_the_end():
    X, y = rows(400)
    model = OnlineModel(estimator("uni_squ", eta=1e30))
    model.learn(X, y > 0)
    with pytest.raises(DivergenceError, match="overflowed within 400 rows"):
        model.scores(X)
    with pytest.raises(DivergenceError):
        model.finish(np.array([-1, 1]))


@pytest.mark.parametrize("name", ONE_PASS)
def test_pieces_of_any_length_change_nothing(name):
    X, y = rows(400)
    learner = estimator(name).fit(X, y)
    for cuts in ([0, 1, 2, 3, 400], [0, 150, 300, 400]):
        model = OnlineModel(estimator(name), n_features=9, n_rows=400)
        for start, stop in pairwise(cuts):
            model.learn(X[start:stop], y[start:stop] > 0)
        got = model.finish(np.array([-1.0, 1.0]))
        np.testing.assert_array_equal(got.coef_, learner.coef_)
        assert got.intercept_ == learner.intercept_
        np.testing.assert_array_equal(got.predict(X), learner.predict(X))
