"""SOLAM and FSAUC against dense vectors, against other programs, and what projections are."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import saddle as paper
from reference.examples import ARRANGEMENTS, assert_close, examples, sensitivity
from reference.ftrl_peers import fixture_runs, golden_runs
from scipy import sparse

from opauc_bench.learners import FSAUC, SOLAM
from opauc_bench.learners.ranker import DivergenceError
from opauc_bench.learners.sparse.fsauc import l1_threshold

CASES = {
    "solam": (SOLAM, paper.solam, {"xi": np.array([1.0, 0.1, 10.0, 100.0]), "radius": np.array([1.0, 0.1, 10.0, 0.1])}),
    "fsauc": (
        FSAUC,
        paper.fsauc,
        {"eta": np.array([0.5, 0.1, 2.0, 30.0]), "radius": np.array([1.0, 0.1, 10.0, 100.0])},
    ),
}
BOTH = pytest.mark.parametrize("case", CASES)


def check(X, y, case, **options):
    learner, oracle, grid = CASES[case]
    coef = learner(**options).fit_grid(sparse.csr_matrix(X), y, grid)
    for k, setting in enumerate(zip(*grid.values())):
        own = dict(zip(grid, setting))
        want = oracle(X, y, **own, **options)
        assert_close(coef[:, k], want, tolerance=1e-10)
        np.testing.assert_array_equal(learner(**own, **options).fit(X, y).coef_[0], coef[:, k])


@BOTH
@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
@pytest.mark.parametrize("d", [1, 3, 17])
def test_passes_equal_steps_on_dense_vectors(d, arrangement, case):
    check(*examples(201, d, arrangement), case)


@pytest.mark.parametrize("variant", ["paper", "released"])
@pytest.mark.parametrize("n_rows", [3, 43, 44, 45, 170, 323])
def test_epochs_of_any_number_of_rows(n_rows, variant):
    X, y = examples(n_rows, 5)
    y[:2] = 1, -1
    check(X, y, "fsauc", variant=variant)


def test_rows_after_the_last_epoch():
    """323 rows make two epochs of 161: one row is left, which only the released program looks at."""
    assert paper.epochs(323) == (2, 161)
    X, y = examples(323, 5)
    without = FSAUC().fit(X[:-1], y[:-1]).coef_
    np.testing.assert_array_equal(FSAUC().fit(X, y).coef_, without)
    assert (FSAUC(variant="released").fit(X, y).coef_ != without).any()


def test_no_partial_fit():
    assert not hasattr(FSAUC(), "partial_fit")
    with pytest.raises(AttributeError, match="lays out its epochs by the number of all rows"):
        FSAUC().partial_fit(*examples(50, 3))


def rows_of_text(n, d, seed=0):
    """Rows of unit length; feature 0 comes in the first and the last row only, the last feature never."""
    rng = np.random.default_rng(seed)
    X = np.zeros((n, d))
    X[:, 1:-1] = np.abs(rng.standard_normal((n, d - 2))) * (rng.random((n, d - 2)) < 0.4 / np.arange(1, d - 1) ** 0.5)
    X[::50] = 0.0
    X[[0, -1], 0] = 1.0
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-300)
    return X, np.where(X[:, 1:4].sum(axis=1) + 0.3 * rng.standard_normal(n) > 0.4, 1, -1)


def test_scales_that_fall_at_every_row():
    """Eras of SOLAM end with nearly every row, and are counted again every 64; weights are those of the plain loop."""
    X, y = rows_of_text(1500, 60)
    xi, radius = (axis.ravel() for axis in np.meshgrid([1.0, 10.0, 100.0], 10.0 ** np.arange(-1, 6)))
    coef = SOLAM().fit_grid(sparse.csr_matrix(X), y, {"xi": xi, "radius": radius})
    for k, setting in enumerate(zip(xi, radius)):
        assert_close(coef[:, k], paper.solam(X, y, *setting), tolerance=1e-10)
        np.testing.assert_array_equal(SOLAM(*setting).fit(sparse.csr_matrix(X), y).coef_[0], coef[:, k])


@pytest.mark.parametrize(("xi", "radius"), [(100.0, 0.1), (3.0, 0.3)])
def test_solam_epochs_of_rescaling(xi, radius):
    n_features = 300
    X, y = rows_of_text(900, n_features)
    learner, epochs, behind = SOLAM(xi=xi, radius=radius), [], []
    for row in range(900):
        learner.partial_fit(X[row : row + 1], y[row : row + 1], classes=[-1, 1])
        state = learner._state
        epochs.append(state.epoch[0])
        behind.append(np.count_nonzero(state.since[:, 0] != state.epoch[0]))
        assert (state.age[0] < 1 + n_features // 32) or behind[-1] == 0
    steps, most = np.diff(epochs), learner._state.epochs.shape[1]
    if xi == 100.0:
        assert np.count_nonzero(steps == 1) > 300, "an epoch ends with every few rows"
        assert max(epochs) == most - 2, "sometimes there is no room for another"
        assert max(behind) > 200
    else:
        assert np.count_nonzero(steps == 1) > 10
        assert 0 < max(epochs) < most - 2, "epochs last, and are counted again because all coordinates are up to date"
        assert epochs[-1] == 0
    features = np.array([8, 0, 3, 3])
    np.testing.assert_array_equal(learner._state.coef_at(features)[:, 0], learner.coef_[0, features])
    assert_close(learner.coef_[0], paper.solam(X, y, xi, radius), tolerance=1e-10)


@pytest.mark.parametrize("case", ["too wide a ball", "too large features"])
def test_solam_that_overflows_is_dropped(case):
    X, y = examples(300, 4)
    grid = {"xi": np.array([1.0, 1.0, 100.0]), "radius": np.array([1.0, 1.7e308, 0.1])}
    want = SOLAM().fit_grid(X, y, {axis: values[::2] for axis, values in grid.items()})
    if case == "too large features":
        X[150:] *= 1e200
        want[:] = np.nan
    coef = SOLAM().fit_grid(X, y, grid)
    np.testing.assert_array_equal(coef[:, ::2], want)
    assert np.isnan(coef[:, 1]).all()
    with pytest.raises(DivergenceError):
        SOLAM(radius=1.7e308).fit(X, y)


@pytest.mark.parametrize("radius", [0.1, 1.0, 10.0, 1000.0])
def test_projections_of_every_kind(radius):
    """From steps that need none to steps that need both at every row, over epochs.

    Most settings forget their rounding errors. Steps of 16 in a wide ball multiply them by about a million, and two
    passes that round differently are as far apart as passes over rows that are off by eps.
    """
    X, y = rows_of_text(700, 40)
    eta = 2.0 ** np.array([-10, -5, -1, 1, 4, 10])
    coef = FSAUC().fit_grid(sparse.csr_matrix(X), y, {"eta": eta, "radius": np.full(6, radius)})
    for k, step in enumerate(eta):
        plain = partial(paper.fsauc, y=y, eta=step, radius=radius)
        assert_close(coef[:, k], plain(X), tolerance=max(1e-12, 10 * sensitivity(plain, X)))
        np.testing.assert_array_equal(FSAUC(step, radius).fit(sparse.csr_matrix(X), y).coef_[0], coef[:, k])


def test_features_get_places_in_order_of_appearance():
    """More features than there are places at first, in chunks of any length; the last 500 never come."""
    X = sparse.random_array((400, 3000), density=0.01, rng=np.random.default_rng(0), format="csr")
    y = np.where(X.sum(axis=1) + 0.1 * np.arange(400) % 3 > 16.0, 1, -1)
    X = sparse.csr_matrix((X.data, X.indices, X.indptr), shape=(400, 3500))
    grid = {"eta": np.array([0.01, 1.0, 100.0]), "radius": np.array([10.0, 1.0, 0.1])}
    coef = FSAUC().fit_grid(X, y, grid)
    slow = FSAUC()
    slow.seconds_per_row = lambda *_: 1.0  # chunks as short as they get
    np.testing.assert_array_equal(slow.fit_grid(X, y, grid), coef)
    assert not coef[3000:].any()
    for k, setting in enumerate(zip(*grid.values())):
        assert_close(coef[:, k], paper.fsauc(X.toarray(), y, *setting), tolerance=1e-10)


def test_fsauc_that_overflows_is_dropped():
    X, y = examples(300, 4)
    grid = {"eta": np.array([0.5, 1e300, 2.0]), "radius": np.array([1.0, 1e300, 10.0])}
    coef = FSAUC().fit_grid(X, y, grid)
    np.testing.assert_array_equal(np.isnan(coef), [[False, True, False]] * 4)
    np.testing.assert_array_equal(coef[:, 2], FSAUC(2.0, 10.0).fit(X, y).coef_[0])
    with pytest.raises(DivergenceError):
        FSAUC(1e300, 1e300).fit(X, y)


def test_projection_of_equal_weights_ends():
    """The threshold is one of the sizes except for rounding, as with imdb; going by all came back to it."""
    sizes = np.repeat([0.06423383695, 0.1284676739, 0.2284676739], [39, 3, 1])
    for last in np.linspace(0.2284676739, 0.2284676740, 300):
        sizes[-1] = last
        assert l1_threshold(sizes.copy(), 0.1) == pytest.approx(last - 0.1, rel=1e-8)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    w=st.lists(st.floats(-100, 100), min_size=1, max_size=30).map(np.array),
    radius=st.floats(1e-3, 1000.0),
)
def test_projection_onto_the_l1_ball(w, radius):
    """It is the nearest point of the ball: (w - p)'(q - p) <= 0 for its corners q; it is what sorting finds."""
    p = np.sign(w) * np.maximum(np.abs(w) - l1_threshold(np.abs(w), radius), 0.0)
    assert np.abs(p).sum() <= radius + 1e-14 * (radius + np.abs(w).sum())
    if np.abs(w).sum() <= radius:
        np.testing.assert_array_equal(p, w)
    scale = 1e-12 * (1 + np.abs(w).sum()) * (1 + radius)
    corners = radius * np.vstack([np.eye(len(w)), -np.eye(len(w))])
    assert ((corners - p) @ (w - p) <= scale).all()
    np.testing.assert_allclose(p, paper.project_l1(w, radius), atol=1e-12 * (1 + np.abs(w).max()), rtol=0)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), radius=st.floats(0.01, 100.0), step=st.floats(0.01, 100.0))
def test_averages_stay_in_the_ball(seed, radius, step):
    X, y = examples(60, 6, seed=seed)
    assert np.linalg.norm(SOLAM(xi=step, radius=radius).fit(X, y).coef_) <= radius * (1 + 1e-12)
    assert np.abs(FSAUC(eta=step, radius=radius).fit(X, y).coef_).sum() <= radius * (1 + 1e-9)


def check_run(run):
    parameters = {{"r": "radius", "g": "eta"}.get(name, name): value for name, value in run.parameters.items()}
    learner, oracle, _ = CASES[run.algorithm.partition("_")[0]]
    options = {"variant": "released"} if learner is FSAUC else {}
    axes = {name: [value] for name, value in parameters.items()}
    np.testing.assert_allclose(oracle(run.X, run.y, **parameters, **options), run.w, atol=1e-13, rtol=0)
    np.testing.assert_allclose(learner(**options).fit_grid(run.X, run.y, axes)[:, 0], run.w, atol=1e-12, rtol=0)
    return 1


def test_other_programs():
    """The program of the FTRL-AUC authors, and Lei's port of FSAUC."""
    assert sum(check_run(run) for run in fixture_runs("solam", "fsauc", "fsauc_py")) == 7


def test_other_programs_on_the_way():
    assert sum(check_run(run) for run in golden_runs("solam", "fsauc")) == 34
