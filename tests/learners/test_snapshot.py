"""A pass that is stored in the middle and goes on in another process gives the same model, bit for bit."""

import contextlib
import hashlib
import io
import json
import warnings
from itertools import pairwise

import joblib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from streams import ONE_PASS, estimator, rows

from opauc_bench.learners import DivergenceError, get_learner
from opauc_bench.learners.online import OnlineModel
from opauc_bench.learners.snapshot import as_tree, from_tree

CLASSES = np.array([-1.0, 1.0])
# Other states than those of the default parameters.
VARIANTS = [(name, {}) for name in ONE_PASS] + [
    ("ftrl_auc", {"lazy": False}),
    ("ftrl_auc", {"refresh": True}),
    ("ftrl_proximal", {"variant": "released"}),
    ("rda_l1", {"variant": "released"}),
    ("opauc_fd", {"algorithm": "plain"}),
    ("opauc_fd", {"tau": 3}),
    ("opauc_h", {"algorithm": "plain"}),
    ("opauc_r", {"eta": 0.25, "lam": 4.0}),
    ("opauc_s", {"tau": 2}),
    ("opauc_s", {"tau": 2, "variant": "released"}),
    ("opauc_feat", {"n_components": 4}),
    ("opauc_rp", {"n_components": 4}),
    ("oam_seq", {"buffer_size": 5}),
    ("uni_log", {"intercept": True, "weights": "balanced"}),
]


def stored(tree):
    """A tree after it was text and arrays without pickles."""
    arrays = []

    def split(value):
        if isinstance(value, np.ndarray):
            arrays.append(value)
            return {"array": len(arrays) - 1}
        if isinstance(value, dict):
            return {key: split(one) for key, one in value.items()}
        return [split(one) for one in value] if isinstance(value, list) else value

    text = json.dumps(split(tree))
    file = io.BytesIO()
    np.savez(file, *arrays)
    archive = np.load(io.BytesIO(file.getvalue()), allow_pickle=False)

    def join(value):
        if isinstance(value, dict):
            if set(value) == {"array"}:
                return archive[f"arr_{value['array']}"]
            return {key: join(one) for key, one in value.items()}
        return [join(one) for one in value] if isinstance(value, list) else value

    return join(json.loads(text))


def learnt(name, parameters, X, y, cuts, store, **sizes):
    """The weights after pieces between ``cuts``, the state stored before each of ``store``."""
    model = OnlineModel(estimator(name, **parameters), **sizes)
    for start, stop in pairwise(cuts):
        if start in store:
            model = OnlineModel.restored(estimator(name, **parameters), stored(model.snapshot()))
        model.learn(X[start:stop], y[start:stop] > 0)
    return model.finish(CLASSES)


def require_equal(one, other):
    np.testing.assert_array_equal(one.coef_, other.coef_)
    np.testing.assert_array_equal(one.intercept_, other.intercept_)
    np.testing.assert_array_equal(one.class_counts_, other.class_counts_)


@pytest.mark.parametrize(("name", "parameters"), VARIANTS)
@settings(max_examples=4, deadline=None)
@given(first=st.integers(0, 400), second=st.integers(0, 400))
def test_going_on_elsewhere_changes_no_bit(name, parameters, first, second):
    X, y = rows(400)
    cuts = sorted({0, first, second, 400})
    sizes = {"n_features": 9, "n_rows": 400}
    whole = learnt(name, parameters, X, y, [0, 400], (), **sizes)
    require_equal(learnt(name, parameters, X, y, cuts, cuts[1:-1], **sizes), whole)


@pytest.mark.parametrize(("name", "parameters"), VARIANTS)
def test_going_on_from_a_file_that_is_mapped_into_memory(name, parameters, tmp_path):
    if name == "fsauc":
        pytest.skip("has no partial_fit")
    X, y = rows(400)
    whole = estimator(name, **parameters).partial_fit(X[:150], y[:150], classes=CLASSES)
    joblib.dump(whole, tmp_path / "model.joblib")
    mapped = joblib.load(tmp_path / "model.joblib", mmap_mode="r")
    before = hashlib.sha256((tmp_path / "model.joblib").read_bytes()).digest()
    require_equal(mapped.partial_fit(X[150:], y[150:]), whole.partial_fit(X[150:], y[150:]))
    assert hashlib.sha256((tmp_path / "model.joblib").read_bytes()).digest() == before


@pytest.mark.parametrize("name", ONE_PASS)
def test_going_on_with_more_features(name):
    """As without the pause; what comes late may be new."""
    if name in ("solam", "opauc_s", "opauc_feat", "opauc_rp"):
        pytest.skip("has a fixed number of features")
    X, y = rows(5000, late=True)
    cuts = [0, 700, 1600, 1601, 3100, 5000]
    pieces = [X[start:stop, : 1 + min(8, (stop - 1) // 500)] for start, stop in pairwise(cuts)]
    models = []
    for store in (False, True):
        model = OnlineModel(estimator(name), n_rows=5000)
        for start, stop, piece in zip(cuts, cuts[1:], pieces):
            if store and start:
                model = OnlineModel.restored(estimator(name), stored(model.snapshot()))
            model.learn(piece, y[start:stop] > 0)
        models.append(model.finish(CLASSES))
    require_equal(*models)


def test_going_on_after_the_model_was_finished():
    X, y = rows(5000, late=True)
    model = OnlineModel(estimator("ftrl_auc"))
    model.learn(X[:1600, :4], y[:1600] > 0)
    model.learn(X[1600:2100, :5], y[1600:2100] > 0)  # room for 8
    model.finish(CLASSES)
    model = OnlineModel.restored(estimator("ftrl_auc"), stored(model.snapshot()))
    assert (model.n_rows, model.n_features) == (2100, 5)
    model.learn(X[2100:], y[2100:] > 0)
    require_equal(model.finish(CLASSES), estimator("ftrl_auc").fit(X, y))


def test_going_on_with_the_finished_model_itself():
    """There is room for features beyond those that the model was finished with."""
    X, y = rows(5000, late=True)
    model = OnlineModel(estimator("ftrl_auc"))
    model.learn(X[:1600, :4], y[:1600] > 0)
    model.learn(X[1600:2100, :5], y[1600:2100] > 0)  # room for 8
    model.finish(CLASSES)
    model.learn(X[2100:3000, :7], y[2100:3000] > 0)
    model.learn(X[3000:], y[3000:] > 0)
    require_equal(model.finish(CLASSES), estimator("ftrl_auc").fit(X, y))


@pytest.mark.parametrize("wide", [100, 5000])
@pytest.mark.parametrize("name", ["oam_seq", "oam_gra", "opauc_fd", "opauc_r", "ftrl_auc"])
def test_wide_rows(name, wide):
    X, y = rows(300, wide)
    whole = learnt(name, {}, X, y, [0, 300], (), n_features=wide)
    require_equal(learnt(name, {}, X, y, [0, 130, 300], (130,), n_features=wide), whole)


def test_a_generator_given_as_random_state_goes_on():
    X, y = rows(400)

    def learner():
        return get_learner("oam_seq")(buffer_size=5, random_state=np.random.Generator(np.random.MT19937(3)))

    whole, half = (OnlineModel(learner(), n_features=9) for _ in range(2))
    whole.learn(X, y > 0)
    half.learn(X[:150], y[:150] > 0)
    half = OnlineModel.restored(learner(), stored(half.snapshot()))
    half.learn(X[150:], y[150:] > 0)
    require_equal(half.finish(CLASSES), whole.finish(CLASSES))


# ---------------------------------------------------------------------- states that do not fit


def saved_state(name="pair_sgd"):
    X, y = rows(100)
    model = OnlineModel(estimator(name))
    model.learn(X, y > 0)
    return stored(model.snapshot())


def changed(tree, path, value):
    *folders, last = path.split(".")
    for one in folders:
        tree = tree[one]
    if value is None:
        del tree[last]
    else:
        tree[last] = value


MISFITS = {
    "learner.state.W": [None, np.zeros((9, 2, 2)), np.zeros((9, 2)), np.zeros((9, 2, 1), dtype=np.float32), [1.0], 3],
    "learner.state.last_label": [None, "1", 1.5],
    "learner.state.last_values": [np.zeros((2, 2)), [0.5]],
    "learner.state.settings": [{}, {"eta": 1.0}, []],
    "learner.state": [None, {}, 7],
    "learner.class_sums": [None, np.zeros((3, 9)), 0],
    "learner.class_counts": [np.zeros(3), [1, 2]],
    "learner.n_rows": [None, "100", 1.5],
    "learner.n_features": [None, "9", 8, 10, -1],
    "n_features": [None, 10, -1, "a"],
}


@pytest.mark.parametrize(("path", "value"), [(path, value) for path, values in MISFITS.items() for value in values])
def test_states_that_do_not_fit_are_refused(path, value):
    tree = saved_state()
    changed(tree, path, value)
    with pytest.raises(ValueError, match=r"."):
        OnlineModel.restored(estimator("pair_sgd"), tree)


def test_the_state_of_another_learner_is_refused():
    for name in ("ftrl_auc", "uni_log"):  # the second has the same parameter
        with pytest.raises(ValueError, match=r"not the state of a pass|expected"):
            OnlineModel.restored(estimator(name), saved_state())


def test_generator_states_are_checked():
    rng = np.random.default_rng(1)
    tree = as_tree(rng)
    assert from_tree(np.random.default_rng(2), json.loads(json.dumps(tree))).random() == rng.random()
    for change in ({"bit_generator": "MT19937"}, {"state": {}}, {"state": {"state": -1, "inc": 1}}):
        with pytest.raises(ValueError, match="state"):
            from_tree(np.random.default_rng(2), tree | change)


def test_what_cannot_be_stored_is_an_error():
    for value in (len, object(), {1: 2}, np.array([{}])):
        with pytest.raises(TypeError, match="cannot be stored"):
            as_tree({"a": [value]})


@pytest.mark.parametrize("name", ["opauc", "opauc_r", "opauc_fd", "opauc_s", "oam_seq", "ftrl_auc"])
def test_partial_fit_goes_on_where_joblib_has_mapped_some_arrays_for_its_workers(name, tmp_path):
    X, y = rows(400)
    X = X.toarray()
    learner = estimator(name).partial_fit(X[:200], y[:200])
    joblib.dump(learner, tmp_path / "model.joblib")
    mapped = joblib.load(tmp_path / "model.joblib", mmap_mode="r")
    own = mapped._state.W = np.array(mapped._state.W)
    if name == "opauc_s":
        mapped._state.models = mapped._state.models._replace(W=own)
    np.testing.assert_array_equal(
        mapped.partial_fit(X[200:], y[200:]).coef_, learner.partial_fit(X[200:], y[200:]).coef_
    )


def test_overflow_of_class_sums_is_no_warning():
    X, y = np.full((20, 3), 1.7e308), np.tile([1, -1], 10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with contextlib.suppress(DivergenceError):
            estimator("opauc").fit(X, y)


def test_fsauc_says_that_it_has_to_know_the_number_of_rows():
    with pytest.raises(ValueError, match="the number of rows has to be known"):
        estimator("fsauc").start_pass(3)


@pytest.mark.parametrize("name", ["opauc", "solam", "ftrl_auc"])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_no_rows_leave_weights_of_zero(name, form):
    learner = estimator(name)
    grid = {axis: np.array([0.5, 1.0]) for axis in learner.grid_axes}
    for X, order in ((form(np.zeros((0, 3))), None), (form(np.ones((4, 3))), [])):
        y = np.tile([1, -1], 2)[: X.shape[0]]
        np.testing.assert_array_equal(learner.fit_grid(X, y, grid, order=order), np.zeros((3, 2)))


def test_partial_fit_takes_states_that_cannot_be_stored():
    class Keeps(get_learner("uni_log")):
        def _begin(self, n_features, settings):
            state = super()._begin(n_features, settings)
            state.odd = {1, 2}, (number for number in range(3)), np, len, state
            return state

    X, y = rows(400)
    learner, expected = Keeps(), estimator("uni_log")
    for part in (slice(0, 200), slice(200, 400)):
        learner.partial_fit(X[part], y[part], classes=CLASSES)
        expected.partial_fit(X[part], y[part], classes=CLASSES)
    np.testing.assert_array_equal(learner.coef_, expected.coef_)
    assert list(learner._state.odd[1]) == [0, 1, 2], "a generator is not consumed"
