"""Every registered learner keeps the contract, and a learner that breaks it gets the reason."""

import re
import tracemalloc
from functools import partial
from typing import ClassVar

import numpy as np
import pytest
from reference.examples import examples
from reference.hebb import Hebb
from scipy import sparse

from opauc_bench import kernels
from opauc_bench.errors import LearnerError
from opauc_bench.learners import LEARNERS, OPAUC, BatchLearner, DivergenceError, OnePassLearner, UniLog, get_learner
from opauc_bench.learners.base import State
from opauc_bench.testing import contract
from opauc_bench.testing.contract import check_learner

VARIANTS = [
    *((name, {}) for name in LEARNERS),
    ("oam_seq", {"buffer_size": 7, "step": "C/2"}),
    ("oam_gra", {"buffer_size": 7, "step": "C/2"}),
    ("opauc_fd", {"tau": 4, "variant": "released"}),
    ("opauc_fd", {"tau": 4, "algorithm": "plain"}),
    *((name, {"weights": "balanced", "intercept": True}) for name in ("uni_exp", "uni_log", "uni_squ")),
    ("uni_log", {"weights": "prior"}),
    ("batch_uni_log", {"weights": "balanced", "intercept": True, "loss_scale": "sum"}),
    ("batch_uni_squ", {"weights": "prior", "intercept": True, "loss_scale": "sum"}),
    ("svm_perf", {"loss_scale": "mean"}),
    ("opauc_r", {"algorithm": "plain", "tau": 5}),
    ("opauc_h", {"tau": 3}),
    ("opauc_s", {"tau": 8}),
    ("ftrl_auc", {"lazy": False}),
    ("rda_l1", {"variant": "released"}),
    ("adagrad", {"variant": "released"}),
    ("spam_elastic", {"variant": "released"}),
    ("fsauc", {"variant": "released"}),
    ("ftrl_auc", {"variant": "released", "refresh": True}),
    ("ftrl_proximal", {"variant": "released", "refresh": True}),
]
ONE_PASS = [name for name in LEARNERS if issubclass(get_learner(name), OnePassLearner)]


@pytest.mark.parametrize(("name", "parameters"), VARIANTS, ids=lambda value: str(value or "default"))
def test_registered_learners_pass_the_contract(name, parameters, monkeypatch):
    if parameters:  # scikit-learn's checks, the slowest, are run once per class
        monkeypatch.setattr("opauc_bench.testing.contract.scikit_learn_says", lambda learner, declared: ("", ""))
    results = check_learner(partial(get_learner(name), **parameters))
    assert len(results) == (15 if name in ("fsauc", "opauc_pca") else 17 if name in ONE_PASS else 12)
    assert not [f"{result.name}: {result.detail}" for result in results if not result.passed]


# ---------------------------------------------------------------------- learners that break it


class SetsMoreThanParameters(Hebb):
    def __init__(self, eta=0.01):
        self.eta = eta
        self.ready = True


class TurnsLabelsAround(Hebb):
    def _consume(self, state, X, y):
        super()._consume(state, X, -y)


class LearnsNothing(Hebb):
    def _consume(self, state, X, y):
        pass


class LearnsNoNumbers(Hebb):
    def _consume(self, state, X, y):
        state.W[:] = np.nan


class HasNoAxis(Hebb):
    grid_axes = ()


class GridIsOff(Hebb):
    def fit_grid(self, X, y, grid, **options):
        return super().fit_grid(X, y, grid, **options) * (1 + 1e-9)


class SparseIsOff(Hebb):
    def fit_grid(self, X, y, grid, **options):
        return super().fit_grid(abs(X) if sparse.issparse(X) else X, y, grid, **options)


class DrawsWithoutSeed(Hebb):
    def _consume(self, state, X, y):
        super()._consume(state, X, y)
        state.W += np.random.default_rng().normal(scale=1e-15, size=state.W.shape)


class WritesLabels(Hebb):
    def fit_grid(self, X, y, grid, **options):
        coef = super().fit_grid(X, y, grid, **options)
        y[:] = np.maximum(y, 0)
        return coef


class WritesRowsBack(Hebb):
    def fit_grid(self, X, y, grid, **options):
        X *= 1.0
        return super().fit_grid(X, y, grid, **options)


class MakesTwoPasses(Hebb):
    def fit_grid(self, X, y, grid, *, order=None, on_chunk=None):
        order = np.arange(X.shape[0]) if order is None else order
        return super().fit_grid(X, y, grid, order=np.tile(order, 2), on_chunk=on_chunk)


class SortsTheOrder(Hebb):
    def fit_grid(self, X, y, grid, *, order=None, on_chunk=None):
        return super().fit_grid(X, y, grid, order=None if order is None else np.sort(order), on_chunk=on_chunk)


class IgnoresTheOrder(Hebb):
    def fit_grid(self, X, y, grid, *, order=None, on_chunk=None):
        return super().fit_grid(X, y, grid, on_chunk=on_chunk)


class KeepsRows(Hebb):
    def _consume(self, state, X, y):
        super()._consume(state, X, y)
        state.rows = [*getattr(state, "rows", []), X.copy()]


class GoesBackToRows(Hebb):
    def partial_fit(self, X, y, classes=None):
        self.kept = [*getattr(self, "kept", []), (X, y)]
        super().partial_fit(X, y, classes)
        self.coef_ = self.eta * sum((rows.T @ labels for rows, labels in self.kept))[None, :]
        return self


class DependsOnChunks(Hebb):
    def _consume(self, state, X, y):
        state.W += np.outer(X.T @ y - 0.01, state.settings["eta"])


class CannotBeStopped(Hebb):
    def fit_grid(self, X, y, grid, *, order=None, on_chunk=None):
        return super().fit_grid(X, y, grid, order=order)


class RaisesOnOverflow(Hebb):
    def _consume(self, state, X, y):
        super()._consume(state, X, y)
        if not np.isfinite(state.W).all():
            raise FloatingPointError("too large")


class OverflowSpreads(Hebb):
    def _consume(self, state, X, y):
        super()._consume(state, X, y)
        state.W += 0.0 * state.W.sum(axis=1, keepdims=True)


class WeighsAbsentFeatures(Hebb):
    def _consume(self, state, X, y):
        super()._consume(state, X, y)
        state.W += 1e-6


class ReturnsNothing(Hebb):
    def _begin(self, n_features, settings):
        super()._begin(n_features, settings)


class HasOneColumn(Hebb):
    def _begin(self, n_features, settings):
        return State(settings=settings, W=np.zeros(n_features))


class HasComplexWeights(Hebb):
    def _begin(self, n_features, settings):
        begun = super()._begin(n_features, settings)
        begun.W = begun.W.astype(complex)
        return begun


class HasARowForABias(Hebb):
    def _begin(self, n_features, settings):
        return super()._begin(n_features + 1, settings)

    def _consume(self, state, X, y):
        super()._consume(state, np.column_stack([np.ones(len(X)), X]), y)


class RaisesBelow(Hebb):
    def _consume(self, state, X, y):
        np.linalg.solve(np.zeros((2, 2)), np.zeros(2))


class ScalesTheChunk(Hebb):
    def _consume(self, state, X, y):
        X *= 2.0
        super()._consume(state, X, y)


class ScalesTheSparseChunk(Hebb):
    _sparse_chunks = True

    def _consume(self, state, X, y):
        X.data *= 2.0
        super()._consume(state, X, y)


class HasOneMore(State):
    last = None


class RemembersTheLastRow(Hebb):
    def _begin(self, n_features, settings):
        return HasOneMore(settings=settings, W=np.zeros((n_features, len(settings["eta"]))))

    def _consume(self, state, X, y):
        for x, label in zip(X, y):
            other = 0.0 if state.last is None else 0.1 * state.last
            state.W += np.outer((x + other) * label, state.settings["eta"])
            state.last = x


class Limits(State):
    limits = None


class ForgetsItsLimits(Hebb):
    """Cannot overflow, and keeps one limit a setting, which `keep` knows nothing of."""

    def _begin(self, n_features, settings):
        state = Limits(settings=settings, W=np.zeros((n_features, len(settings["eta"]))))
        state.limits = np.minimum(settings["eta"], 1.0)
        return state

    def _consume(self, state, X, y):
        state.W += np.outer(X.T @ y, state.limits[: state.W.shape[1]])


class IgnoresAnAxis(Hebb):
    grid_axes = ("eta", "lam")

    def __init__(self, eta=0.01, lam=0.01):
        self.eta = eta
        self.lam = lam


class DividesByNothing(Hebb):
    def memory_bytes(self, n_features, n_settings):
        return 8.0 * n_settings / (n_features - 1)


class TakesLessThanNoMemory(Hebb):
    def memory_bytes(self, n_features, n_settings):
        return -1.0


class TakesNoTime(Hebb):
    def seconds_per_row(self, n_features, n_nonzero, n_settings):
        return 1e-9 * n_nonzero


class NeverTicks(BatchLearner):
    grid_axes = ("lam",)

    def __init__(self, lam=0.1):
        self.lam = lam

    def _fit_path(self, X, y, settings, tick):
        return np.outer(X.T @ y, 1.0 / settings["lam"]), None


class ForgetsWhenPickled(Hebb):
    def __getstate__(self):
        kept = super().__getstate__().copy()
        if "_state" in kept:
            kept["_state"] = self._begin(self.n_features_in_, self._state.settings)
        return kept


class DeclaresAnException(SetsMoreThanParameters):
    expected_failed_checks: ClassVar = {
        "check_no_attributes_set_in_init": "for this test",
        "check_fit_idempotent": "which passes",
    }


BROKEN = [
    (SetsMoreThanParameters, "scikit-learn's checks", r"failed:\n  check_\w+: .*ready"),
    (TurnsLabelsAround, "positives rank higher", r"AUC above 0\.9 .* got 0\.0"),
    (LearnsNothing, "positives rank higher", r"AUC above 0\.9 .* got 0\.500"),
    (LearnsNoNumbers, "positives rank higher", "expected finite weights from fit_grid; got none"),
    (ReturnsNothing, "rows are not kept", r"expected _begin to return a State, with settings and W; got NoneType"),
    (
        HasOneColumn,
        "rows are not kept",
        r"expected W of shape \(n_features, n_settings\), here \(7, 3\); got \(7,\)",
    ),
    (HasComplexWeights, "rows are not kept", "expected real weights W, got complex128"),
    (HasARowForABias, "rows are not kept", r"shape \(n_features, n_settings\), here \(7, 3\); got \(8, 3\)"),
    (RaisesBelow, "rows are not kept", r"raised LinAlgError: Singular matrix \(.*test_contract\.py:\d+\)"),
    (RaisesBelow, "scikit-learn's checks", r"failed:\n  check_\w+, check_\w+ and \d+ more: Singular matrix\n"),
    (HasNoAxis, "grid == loop of single fits", "grid_axes to name at least one"),
    (GridIsOff, "grid == loop of single fits", r"fit_grid: .* 3 of 3 columns differ\. Worst, by 1\.0e-09"),
    (SparseIsOff, "dense == sparse", r"CSR rows: expected what dense rows gives.*\{'eta': 0\.0"),
    (DrawsWithoutSeed, "same seed, same bits", "the second of two equal passes: .* within 0 "),
    (WritesLabels, "input untouched", "expected y to be left as it was"),
    (
        WritesRowsBack,
        "input untouched",
        r"raised ValueError: output array is read-only .*test_contract\.py:\d+",
    ),
    (MakesTwoPasses, "really one pass", "350 rows were not: row 0 was to be read once and was read 2 times"),
    (SortsTheOrder, "really one pass", r"expected the rows to be read in the order .* got \[0, 1, 3, 4, 5\]"),
    (IgnoresTheOrder, "really one pass", "50 rows were not: row .* to be read never and was read 1 times"),
    (IgnoresTheOrder, "order == permuted rows", "order=some of the rows: expected"),
    (KeepsRows, "rows are not kept", "memory of the learner not to depend on the number of rows; it grew by 22"),
    (GoesBackToRows, "rows are not kept", "rows that are overwritten afterwards: expected what fit gives"),
    (
        DependsOnChunks,
        "chunking changes nothing",
        r"in pieces cut at \[0, 1, 3, .* 400\]: expected what fit gives",
    ),
    (CannotBeStopped, "chunking changes nothing", r"growing counts up to 400; got \[\]"),
    (CannotBeStopped, "on_chunk ends the pass", "expected fit_grid to pass on what on_chunk raises"),
    (RaisesOnOverflow, "overflow is NaN", "raised FloatingPointError: too large"),
    (OverflowSpreads, "overflow is NaN", "beside huge eta: expected what alone gives.* got nan"),
    (WeighsAbsentFeatures, "constant features", "weight 0 for a feature of zeros in dense rows"),
    (ScalesTheChunk, "input untouched", "expected _consume to leave the rows and labels"),
    (ScalesTheSparseChunk, "input untouched", "expected X.data to be left as it was"),
    (RemembersTheLastRow, "rows are not kept", "fit_grid with such rows: expected what rows that stay gives"),
    (ForgetsItsLimits, "dropped settings", "other settings are dropped in the middle of the pass: expected"),
    (IgnoresAnAxis, "axes matter", r"expected lam to change the weights; from .* to 10\.24 it does not"),
    (DividesByNothing, "cost estimates", "raised ZeroDivisionError"),
    (TakesLessThanNoMemory, "cost estimates", r"for 1 rows, 1 features, .* got .*, -1\.0"),
    (
        TakesNoTime,
        "cost estimates",
        "seconds_per_row above 0 for 1 features, 0 nonzero per row and 1 settings",
    ),
    (NeverTicks, "on_chunk ends the pass", r"expected _fit_path to call tick\(\)"),
    (ForgetsWhenPickled, "stored midway", "a learner that was pickled midway: expected"),
]


def test_base_of_the_broken_learners_passes_the_contract():
    assert not [f"{result.name}: {result.detail}" for result in check_learner(Hebb) if not result.passed]


@pytest.mark.parametrize(("learner", "check", "says"), BROKEN, ids=lambda value: getattr(value, "__name__", ""))
def test_broken_learners_fail_with_the_reason(learner, check, says, monkeypatch):
    monkeypatch.setattr(contract, "_CHECKS", {check: contract._CHECKS[check]})  # the others say nothing here
    (result,) = check_learner(learner)
    assert result.name == check
    assert not result.passed
    assert re.search(says, result.detail, re.DOTALL), result.detail


def test_learner_without_hyper_parameters_says_so():
    X, y = examples(20, 3)
    for train in (HasNoAxis().fit, HasNoAxis().partial_fit):
        with pytest.raises(LearnerError, match="HasNoAxis: grid_axes has to name at least one hyper-parameter"):
            train(X, y)


def test_declared_exceptions_pass_and_are_named():
    result = check_learner(DeclaresAnException)[0]
    assert result.passed
    assert "not check_no_attributes_set_in_init: for this test" in result.detail
    assert "which passes" not in result.detail


class WeighsAbsentFeaturesAndSaysSo(WeighsAbsentFeatures):
    contract_exceptions: ClassVar = {"constant features": "for this test", "really one pass": "which passes"}


def test_declared_exceptions_to_the_contract_have_to_fail():
    results = {result.name: result for result in check_learner(WeighsAbsentFeaturesAndSaysSo)}
    assert results["constant features"].passed
    assert results["constant features"].detail == "not, as declared: for this test"
    assert not results["really one pass"].passed
    assert results["really one pass"].detail == "declared as failing (which passes), but it passes"


# ---------------------------------------------------------------------- what learners inherit


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ({"eta": [0.1], "gamma": [1.0]}, "OPAUC.fit_grid has the axes eta, lam; got gamma"),
        (
            {"eta": [0.1, 0.2], "lam": [1.0]},
            r"one value per setting on each axis; got lengths \{'eta': 2, 'lam': 1\}",
        ),
        ({"eta": []}, r"got lengths \{'eta': 0\}"),
        ({}, r"got lengths \{\}"),
    ],
)
def test_fit_grid_refuses_invalid_grids(grid, message):
    X, y = examples(20, 2)
    with pytest.raises(ValueError, match=message):
        OPAUC().fit_grid(X, y, grid)


def test_divergence_names_the_setting():
    X, y = examples(200, 3)
    with pytest.raises(DivergenceError, match=r"OPAUC overflowed within 200 rows \(eta=1e\+100, lam=0.5\)"):
        OPAUC(eta=1e100, lam=0.5).fit(X, y)


def test_a_pass_by_partial_fit_that_diverged_cannot_go_on():
    X, y = examples(200, 5)
    learner = OPAUC(eta=0.01, lam=0.5).partial_fit(X, y)
    before = learner.coef_.copy()
    for rows in (1e200 * X, X):
        with pytest.raises(DivergenceError, match="call fit, or begin with a new estimator"):
            learner.partial_fit(rows, y)
    assert learner.coef_.tolist() == before.tolist()


def test_order_is_of_row_numbers():
    X, y = examples(200, 5)
    with pytest.raises(ValueError, match=r"order: expected numbers of rows, got a mask; np\.flatnonzero"):
        OPAUC().fit_grid(X, y, {"eta": [0.1]}, order=np.arange(200) < 100)


def test_grid_that_diverges_as_a_whole_is_nan():
    X, y = examples(200, 3)
    assert np.isnan(OPAUC().fit_grid(X, y, {"eta": [1e100, 1e200]})).all()


def test_greater_label_is_positive_for_numbers_and_text():
    X, y = examples(100, 3)
    by_number = UniLog().fit(X, y)
    by_name = UniLog().fit(X, np.where(y > 0, "rain", "fog"))
    assert by_name.classes_.tolist() == ["fog", "rain"]
    np.testing.assert_array_equal(by_name.decision_function(X), by_number.decision_function(X))
    assert set(by_name.predict(X)) == {"fog", "rain"}


def test_partial_fit_refuses_unknown_labels():
    X, y = examples(100, 3)
    learner = UniLog().partial_fit(X, y)
    with pytest.raises(ValueError, match=r"y has the labels \[0, 2\]; the classes are \[-1, 1\]"):
        learner.partial_fit(X[:3], [0, 1, 2])
    with pytest.raises(ValueError, match=r"got 1 class: 1\. In partial_fit, name both with classes="):
        UniLog().partial_fit(X[:3], [1, 1, 1])


def test_a_first_partial_fit_that_fails_begins_no_pass():
    X, y = examples(100, 3)
    learner = UniLog()
    with pytest.raises(ValueError, match=r"y has the labels \[1\]; the classes are \[-1, 0\]"):
        learner.partial_fit(X, y, classes=[-1, 0])
    learner.partial_fit(X, y, classes=[-1, 1])
    np.testing.assert_array_equal(learner.coef_, UniLog().partial_fit(X, y).coef_)


@pytest.mark.parametrize("name", ONE_PASS)
def test_memory_of_a_pass_does_not_grow_with_rows(name):
    """O(d^2 + d n_settings), beside a chunk of rows and their order."""
    X, y = examples(32768, 20)
    peaks = []
    for n_rows in (8192, 32768):
        tracemalloc.start()
        learner = get_learner(name)()
        learner.fit_grid(X[:n_rows], y[:n_rows], {learner.grid_axes[0]: np.geomspace(1e-6, 1e-3, 5)})
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] - peaks[0] < 0.2 * X[8192:].nbytes


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("dtype", [np.float32, np.int8, bool])
def test_rows_of_other_dtypes_give_equal_weights(name, dtype):
    X, y = examples(40, 6)
    rows = np.round(2 * X).astype(dtype)
    learner = get_learner(name)()
    parameters = {"random_state": 0, "tau": 3, "n_components": 3, "engine": "native"}
    learner.set_params(**{key: value for key, value in parameters.items() if key in learner.get_params()})
    grid = {learner.grid_axes[0]: np.array([0.01, 0.1])}
    for form in (np.asarray, sparse.csr_matrix, sparse.csr_array):
        coef = learner.fit_grid(form(rows), y, grid)
        assert np.isfinite(coef).all()
        np.testing.assert_array_equal(coef, learner.fit_grid(form(rows.astype(float)), y, grid))


@pytest.mark.parametrize("name", LEARNERS)
def test_sparse_rows_of_other_formats_give_equal_weights(name):
    """Kernels that took the columns of CSC for rows read beyond their arrays."""
    X, y = examples(30, 12, "sparse")
    learner = get_learner(name)()
    parameters = {"random_state": 0, "tau": 3, "n_components": 3, "engine": "native"}
    learner.set_params(**{key: value for key, value in parameters.items() if key in learner.get_params()})
    grid = {learner.grid_axes[0]: np.array([0.01, 0.1])}
    coef = learner.fit_grid(sparse.csr_matrix(X), y, grid)
    for form in (sparse.csc_matrix, sparse.csc_array, sparse.coo_matrix, sparse.bsr_matrix):
        np.testing.assert_array_equal(learner.fit_grid(form(X), y, grid), coef)
    rows = sparse.csr_matrix(X)
    twice = sparse.csr_matrix((np.repeat(rows.data / 2, 2), np.repeat(rows.indices, 2), 2 * rows.indptr), shape=X.shape)
    np.testing.assert_array_equal(learner.fit_grid(twice, y, grid), coef)


def test_kernels_do_not_format_messages():
    """numba takes two seconds for a kernel that formats a message, as an assignment of arrays does: see ``njit``.

    These are all kernels compiled by the tests of this version so far.
    """
    X, y = examples(30, 3)
    for name in ("opauc_fd", "opauc_r", "ftrl_auc"):
        get_learner(name)().fit_grid(sparse.csr_matrix(X), y, {get_learner(name).grid_axes[0]: np.array([0.1, 0.2])})
    folder = kernels._folder()
    if folder is None:
        pytest.skip("the cache folder of kernels cannot be written")
    compiled = list(folder.rglob("*.nbc"))
    assert compiled
    assert [path.name for path in compiled if b"raise_with_shape_context" in path.read_bytes()] == []


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        *((shape, f"here (4, 2); got {shape}") for shape in [(4, 1), (3, 2), (5, 2), (4, 3), (4,)]),
        (None, "a State, got NoneType"),
    ],
)
def test_weights_of_another_shape_are_refused(shape, said):
    class Misshapen(Hebb):
        def _begin(self, n_features, settings):
            return None if shape is None else State(settings=settings, W=np.zeros(shape))

        def _consume(self, state, X, y):
            pass

    with pytest.raises(LearnerError, match=re.escape(said)):
        Misshapen().fit_grid(np.ones((6, 4)), np.array([1, -1] * 3), {"eta": np.array([0.1, 0.2])})
