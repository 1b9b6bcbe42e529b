"""OAM against buffers written out, what a passive-aggressive step minimises, and other people's numbers."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import oam as paper
from reference.examples import ARRANGEMENTS, assert_close, examples, fit_grid_by_products
from reference.peers import fixture_runs, golden_runs
from scipy import sparse

from opauc_bench.learners import OAMGra, OAMSeq, stream_learner
from opauc_bench.learners.oam import oam as kernel

LEARNERS = {True: OAMSeq, False: OAMGra}
BOTH = pytest.mark.parametrize("sequential", [True, False], ids=["seq", "gra"])
ETA = np.array([2.0**-8, 0.03, 0.5])
SEED = 3


_BY_THE_PAPER = {}


def by_the_paper(X, y, buffer_size, sequential, share=1, eta=ETA):
    """Weights of every C; computed once for the same arguments, since three kernels are compared with them."""
    key = (str(X.tolist()), str(y.tolist()), buffer_size, sequential, share, *eta)
    if key not in _BY_THE_PAPER:
        slots = paper.reservoir(y, buffer_size, np.random.default_rng(SEED).random(len(y)))
        runs = [paper.oam(X, y, C, buffer_size, slots, sequential=sequential, share=share) for C in eta]
        _BY_THE_PAPER[key] = np.column_stack(runs)
    return _BY_THE_PAPER[key]


@BOTH
@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
@pytest.mark.parametrize("d", [1, 2, 3, 5, 17, 33])
def test_grid_pass_equals_the_papers_algorithm(d, arrangement, sequential):
    X, y = examples(200, d, arrangement)
    learner = LEARNERS[sequential](buffer_size=20, random_state=SEED)
    assert_close(learner.fit_grid(X, y, {"eta": ETA}), by_the_paper(X, y, 20, sequential))


@BOTH
@pytest.mark.parametrize(("step", "share"), [("C", 1.0), ("C/2", 0.5)])
@pytest.mark.parametrize("buffer_size", [1, 2, 100, 1000])
def test_buffers_and_steps_of_any_size(buffer_size, step, share, sequential):
    X, y = examples(300, 4)
    learner = LEARNERS[sequential](buffer_size=buffer_size, step=step, random_state=SEED)
    assert_close(learner.fit_grid(X, y, {"eta": ETA}), by_the_paper(X, y, buffer_size, sequential, share))


@BOTH
@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
def test_single_setting_equals_the_papers_algorithm(arrangement, sequential):
    X, y = examples(200, 6, arrangement)
    fitted = LEARNERS[sequential](eta=0.03, buffer_size=20, random_state=SEED).fit(X, y)
    assert_close(fitted.coef_.T, by_the_paper(X, y, 20, sequential, eta=[0.03]))


@BOTH
def test_sparse_rows(sequential):
    X, y = examples(300, 17, "sparse")
    learner = LEARNERS[sequential](buffer_size=20, random_state=SEED)
    coef = learner.fit_grid(sparse.csr_matrix(X), y, {"eta": ETA})
    assert_close(coef, by_the_paper(X, y, 20, sequential))


@pytest.fixture
def wide(monkeypatch):
    """Let any number of features count as very many."""
    monkeypatch.setattr(kernel, "_WIDE", 0)


@BOTH
@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
@pytest.mark.parametrize("buffer_size", [1, 20, 1000])
def test_buffers_of_sparse_rows(wide, buffer_size, arrangement, sequential):
    X, y = examples(350, 9, arrangement)
    learner = LEARNERS[sequential](buffer_size=buffer_size, random_state=SEED)
    wanted = by_the_paper(X, y, buffer_size, sequential)
    for rows in (sparse.csr_matrix(X), X):
        assert_close(learner.fit_grid(rows, y, {"eta": ETA}), wanted)


@BOTH
def test_buffers_of_sparse_rows_of_many_lengths(wide, sequential):
    rng = np.random.default_rng(7)
    X = rng.normal(size=(300, 40)) * (rng.random((300, 40)) < rng.beta(0.3, 1.0, size=(300, 1)))
    X[::17] = 0.0
    y = np.where(rng.random(300) < 0.3, 1, -1).astype(np.int8)
    learner = LEARNERS[sequential](eta=0.03, buffer_size=15, random_state=SEED)
    wanted = by_the_paper(X, y, 15, sequential, eta=[0.03])
    assert_close(learner.fit(X, y).coef_.T, wanted)
    assert_close(learner.fit(sparse.csr_matrix(X), y).coef_.T, wanted)
    for start, stop in ((0, 1), (1, 2), (2, 150), (150, 300)):
        learner = learner if start else LEARNERS[sequential](eta=0.03, buffer_size=15, random_state=SEED)
        learner.partial_fit(sparse.csr_matrix(X[start:stop]), y[start:stop], classes=[-1, 1])
    assert_close(learner.coef_.T, wanted)


@BOTH
def test_state_that_widens_to_sparse_buffers_goes_on(sequential, monkeypatch):
    X, y = examples(300, 12, "sparse")
    y = y.astype(np.int8)
    monkeypatch.setattr(kernel, "_WIDE", 8)
    learner = LEARNERS[sequential](eta=0.03, buffer_size=20, random_state=SEED)
    X[:150, 7:] = 0.0
    learner._state = learner._begin(7, learner._own_setting())
    learner._consume(learner._state, X[:150, :7].copy(), y[:150])
    learner._state = learner._state.widened(learner._begin(10, learner._own_setting()))
    learner._consume(learner._state, sparse.csr_matrix(X[150:200, :10] * 1.0), y[150:200])
    learner._state = learner._state.widened(learner._begin(12, learner._own_setting()))
    X[150:200, 10:] = 0.0
    learner._consume(learner._state, sparse.csr_matrix(X[200:]), y[200:])
    assert_close(learner._state.coef(12), by_the_paper(X, y, 20, sequential, eta=[0.03]))


@pytest.fixture
def many(monkeypatch):
    """Let any number of features be enough to take dense rows in blocks."""
    monkeypatch.setattr(stream_learner, "_MANY", 0)


@BOTH
@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
@pytest.mark.parametrize("buffer_size", [1, 20, 1000])
def test_blocks_of_rows(many, buffer_size, arrangement, sequential):
    X, y = examples(350, 9, arrangement)
    X[200:220] = X[:20]
    X[100] = 0.0
    learner = LEARNERS[sequential](buffer_size=buffer_size, random_state=SEED)
    wanted = by_the_paper(X, y, buffer_size, sequential)
    for rows in (sparse.csr_matrix(X), X):
        assert_close(learner.fit_grid(rows, y, {"eta": ETA}), wanted)
        assert_close(learner.set_params(eta=0.03).fit(rows, y).coef_.T, wanted[:, [1]])


@BOTH
@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
def test_blocks_of_dense_rows_that_are_wide(many, wide, arrangement, sequential):
    X, y = examples(350, 9, arrangement)
    learner = LEARNERS[sequential](buffer_size=20, random_state=SEED)
    wanted = by_the_paper(X, y, 20, sequential)
    assert_close(learner.fit_grid(X, y, {"eta": ETA}), wanted)
    assert_close(learner.set_params(eta=0.03).fit(X, y).coef_.T, wanted[:, [1]])


@BOTH
@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
@pytest.mark.parametrize("buffer_size", [1, 20, 1000])
def test_rows_that_come_after_blocks(many, buffer_size, arrangement, sequential):
    X, y = examples(350, 9, arrangement)
    X[100] = 0.0
    learner = LEARNERS[sequential](eta=0.03, buffer_size=buffer_size, random_state=SEED).fit(X[:200], y[:200])
    learner.partial_fit(X[200:210], y[200:210]).partial_fit(X[210:], y[210:])
    assert_close(learner.coef_.T, by_the_paper(X, y, buffer_size, sequential, eta=[0.03]))


@BOTH
@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
@pytest.mark.parametrize("buffer_size", [1, 20, 1000])
def test_steps_by_inner_products_equal_steps_on_features(buffer_size, arrangement, sequential, monkeypatch):
    X, y = examples(350, 9, arrangement)
    X[200:220] = X[:20]
    learner = LEARNERS[sequential](buffer_size=buffer_size, random_state=SEED)
    coef = fit_grid_by_products(learner, X, y, {"eta": ETA}, monkeypatch)
    assert_close(coef, by_the_paper(X, y, buffer_size, sequential))


def test_settings_that_overflow_in_a_block_are_dropped(many):
    X, y = examples(300, 9)
    eta = np.array([0.03, 1e300, 0.5])
    coef = OAMGra(buffer_size=20, random_state=SEED).fit_grid(1e10 * X, y, {"eta": eta})
    assert np.isfinite(coef).all(axis=0).tolist() == [True, False, True]
    assert_close(coef[:, [0, 2]], by_the_paper(1e10 * X, y, 20, False, eta=[0.03, 0.5]))


@BOTH
@pytest.mark.parametrize("many", [0, 1024])
def test_equal_rows_of_both_classes(sequential, many, monkeypatch):
    """A pair of equal rows has no direction to step in."""
    monkeypatch.setattr(stream_learner, "_MANY", many)
    X, y = examples(200, 3)
    X = np.round(X)
    learner = LEARNERS[sequential](buffer_size=20, random_state=SEED)
    assert_close(learner.fit_grid(X, y, {"eta": ETA}), by_the_paper(X, y, 20, sequential))


@BOTH
@pytest.mark.parametrize("source", [fixture_runs, golden_runs])
def test_other_programs(source, sequential, monkeypatch):
    """Runs on 40 rows whose reservoir decisions were recorded."""
    runs = source("oam")
    runs = [run for run in runs if run["sequential"] == sequential]
    assert len(runs) == (3 if sequential else 2)
    for run in runs:
        slots = np.array([-1 if slot is None else slot for slot in run["slots"]])
        monkeypatch.setattr(kernel, "_reservoir", lambda *_, slots=slots: slots)
        learner = LEARNERS[sequential](eta=run["C"], buffer_size=run["buffer_size"], step="C/2")
        assert_close(learner.fit(run["X"], run["y"]).coef_[0], run["w"])
        arguments = (run["X"], run["y"], run["C"], run["buffer_size"], run["slots"])
        assert_close(paper.oam(*arguments, sequential=sequential, share=0.5), run["w"])


def test_passive_aggressive_step_minimises_its_objective():
    """|w' - w|^2 / 2 + C hinge(w') is smallest at the step, whether its cap binds or not."""
    rng = np.random.default_rng(0)
    caps_that_bind = 0
    for cap in (0.01, 0.1, 10.0):
        for _ in range(20):
            w, x, opponent = rng.standard_normal((3, 4))
            stepped = paper.passive_aggressive(w, x, -1, [opponent], cap)
            caps_that_bind += -stepped @ (x - opponent) < 1 - 1e-9

            def objective(v, w=w, x=x, opponent=opponent, cap=cap):
                return ((v - w) ** 2).sum() / 2 + cap * max(0.0, 1.0 + v @ (x - opponent))

            around = stepped + 1e-3 * rng.standard_normal((50, 4))
            assert min(map(objective, around)) > objective(stepped)
    assert 0 < caps_that_bind < 60


@pytest.fixture(params=["dense", "sparse", "blocks"])
def way(request):
    """The three ways in which rows are taken."""
    if request.param != "dense":
        request.getfixturevalue({"sparse": "wide", "blocks": "many"}[request.param])


@pytest.fixture
def thirds():
    """Features that are thirds, as numerators, and labels of which they say a little.

    Steps that are powers of two keep weights and margins rational, and some margins are 1, but floating-point numbers
    are no thirds.
    """
    rng = np.random.default_rng(0)
    y = np.where(rng.random(100) < 0.5, 1, -1).astype(np.int8)
    return rng.integers(-2, 2, size=(100, 6)) + (y[:, None] > 0), y


@pytest.mark.parametrize("buffer_size", [20, 200])
def test_pairs_that_meet_the_margin_are_those_of_exact_arithmetic(way, buffer_size, thirds):
    numerators, y = thirds
    exact = np.array([[Fraction(int(value), 3) for value in row] for row in numerators])
    eta = [Fraction(1, 2**k) for k in (4, 3, 2, 1)]
    wanted = by_the_paper(exact, y, buffer_size, sequential=False, share=1, eta=eta)
    learner = OAMGra(buffer_size=buffer_size, random_state=SEED)
    found = learner.fit_grid(numerators / 3.0, y, {"eta": np.array(eta, dtype=float)})
    assert_close(found, wanted.astype(float))


def test_order_of_features_does_not_decide_which_pairs_meet_the_margin(way, thirds):
    numerators, y = thirds
    X, learner = numerators / 3.0, OAMGra(buffer_size=200, random_state=SEED)
    eta = {"eta": 2.0 ** np.arange(-12, 11)}
    other = np.random.default_rng(1).permutation(X.shape[1])
    assert_close(learner.fit_grid(X[:, other].copy(), y, eta), learner.fit_grid(X, y, eta)[other])


def test_gradient_step_descends_the_sum_of_hinges():
    """The step against finite differences of the sum over the buffer."""
    rng = np.random.default_rng(0)
    w, x, opponents = rng.standard_normal(4), rng.standard_normal(4), rng.standard_normal((30, 4))

    def total(v):
        return np.maximum(0.0, 1.0 - (x - opponents) @ v).sum()

    slopes = np.array([(total(w + e) - total(w - e)) / 2e-7 for e in 1e-7 * np.eye(4)])
    step = paper.one_gradient_step(w, x, 1, opponents, 0.01) - w
    assert_close(step, -0.01 * slopes, tolerance=1e-6)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(labels=st.lists(st.sampled_from([-1, 1]), min_size=1, max_size=80), size=st.integers(1, 12), cut=st.data())
def test_reservoir_does_not_depend_on_chunks(labels, size, cut):
    """The vectorised slots are those of the loop, however the rows are cut into chunks."""
    y = np.array(labels, dtype=np.int8)
    uniforms = np.random.default_rng(len(labels)).random(len(y))
    start = cut.draw(st.integers(0, len(y)))
    counts = np.array([np.count_nonzero(y[:start] > 0), np.count_nonzero(y[:start] < 0)], dtype=float)
    first = kernel._reservoir(y[:start], np.zeros(2), size, uniforms[:start])
    second = kernel._reservoir(y[start:], counts, size, uniforms[start:])
    slots = [None if slot < 0 else slot for slot in [*first, *second]]
    assert slots == paper.reservoir(labels, size, uniforms)


def test_reservoir_keeps_every_row_equally_often():
    rng = np.random.default_rng(0)
    n_rows, size, n_runs = 12, 3, 8000
    kept = np.zeros(n_rows)
    for _ in range(n_runs):
        buffer = {}
        for row, slot in enumerate(paper.reservoir([1] * n_rows, size, rng.random(n_rows))):
            if slot is not None:
                buffer[slot] = row
        kept[list(buffer.values())] += 1
    share = size / n_rows
    spread = np.sqrt(share * (1 - share) / n_runs)
    assert np.abs(kept / n_runs - share).max() < 4 * spread
