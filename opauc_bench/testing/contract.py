"""The contract of a learner, as checks that say what was expected and what was found.

``opauc-bench learners check NAME`` prints them, and the test suite runs them over every registered learner.
A check is a function of a `Trial` (a learner to build and rows to train it on). It may return a note,
or raise `ContractBroken`.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import pickle
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise, product

import joblib
import numpy as np
from scipy import sparse
from sklearn.utils.estimator_checks import check_estimator

from ..errors import place_of
from ..evaluation.auc import auc_columns
from ..learners.base import OnePassLearner
from ..learners.batch.base import BatchLearner
from ..learners.ranker import LinearRanker
from .trial import (
    N_FEATURES,
    N_ROWS,
    ContractBroken,
    CountingRows,
    Trial,
    changed_method,
    dropping,
    each,
    left_alone,
    overwritten,
    require,
    require_same_verdict,
)

__all__ = ["CheckResult", "ContractBroken", "check_learner"]


@dataclass(frozen=True)
class CheckResult:
    """What one check found.

    Attributes
    ----------
    name : str
        What the learner has to do.
    passed : bool
    detail : str
        If it failed, what was expected and what was found; otherwise a note, often empty.
    """

    name: str
    passed: bool
    detail: str


def check_learner(make: Callable[[], LinearRanker]) -> list[CheckResult]:
    """Check a learner against the contract.

    Parameters
    ----------
    make : callable
        Returns a new learner at each call, with the parameters to be checked; the checks set its ``random_state`` if it
        has one. Batch learners are not checked for passes over the rows, and are compared within their
        ``path_tolerance``, with their ``exact_params``; learners without ``partial_fit`` skip the checks that need it.
        Two class attributes, dicts of check name to reason, declare what the learner cannot pass:
        ``expected_failed_checks`` checks of scikit-learn, ``contract_exceptions`` checks of this contract, which have
        to fail.

    Returns
    -------
    results : list of CheckResult
        One for each check, in a fixed order; a check that raises anything is one that failed.
    """
    results = []
    skipped = _skipped(make)
    for name, check in _CHECKS.items():
        if name in skipped:
            continue
        excused = ""
        try:
            trial = Trial(make)
            excused = getattr(trial.learner(), "contract_exceptions", {}).get(name, "")
            detail = check(trial) or ""
            said = f"declared as failing ({excused}), but it passes" if excused else detail
            results.append(CheckResult(name, not excused, said))
        except ContractBroken as broken:
            said = f"not, as declared: {excused}" if excused else str(broken)
            results.append(CheckResult(name, bool(excused), said))
        except Exception as error:  # whatever a learner does, the other checks still have to run
            said = f"raised {type(error).__name__}: {error} ({place_of(error, _file_of(make))})"
            results.append(CheckResult(name, False, said))
    return results


def _file_of(make) -> str | None:
    """The file with the code of the learner, if it can be made."""
    with contextlib.suppress(Exception):
        return inspect.getsourcefile(type(make()))
    return None


def _skipped(make) -> tuple[str, ...]:
    """Checks that make no sense for a learner of this kind."""
    with contextlib.suppress(Exception):  # a learner that cannot be made fails the checks
        learner = make()
        if isinstance(learner, BatchLearner):
            return _PASSES
        if not hasattr(learner, "partial_fit"):
            return _IN_PIECES
    return ()


# ---------------------------------------------------------------------- the checks


def _scikit_learn(trial: Trial) -> str:
    """scikit-learn's own checks pass, except those that the learner declares."""
    learner = trial.make()
    learner.set_params(**getattr(learner, "exact_params", {}))
    failures, note = scikit_learn_says(learner, dict(getattr(learner, "expected_failed_checks", {})))
    require(not failures, f"expected scikit-learn's checks to pass; {failures}")
    return note


def scikit_learn_says(learner, declared: dict[str, str]) -> tuple[str, str]:
    """How scikit-learn's checks failed, a line for each cause, except for those ``declared``; how many passed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(learner, expected_failed_checks=declared, on_fail=None, on_skip=None)
    causes: dict[str, list[str]] = {}
    for result in results:
        if result["status"] == "failed":
            error = result["exception"]
            message = str(error).strip() or f"{type(error).__name__} ({place_of(error, None)})"
            causes.setdefault(message, []).append(result["check_name"])
    lines = [
        f"{', '.join(names[:2])}{f' and {len(names) - 2} more' if len(names) > 2 else ''}: {cause}"
        for cause, names in causes.items()
    ]
    failures = "\n  ".join([f"{sum(map(len, causes.values()))} failed:", *lines]) if causes else ""
    n_passed = sum(r["status"] == "passed" for r in results)
    excepted = [f"not {r['check_name']}: {declared[r['check_name']]}" for r in results if r["status"] == "xfail"]
    return failures, "; ".join([f"{n_passed} checks", *excepted])


def _ranks_positives_higher(trial: Trial) -> str:
    """Some setting around the learner's own ranks the examples of two well separated classes."""
    scores = trial.X @ trial.fit_grid()
    aucs = auc_columns(trial.y, scores)
    require(np.isfinite(aucs).any(), "expected finite weights from fit_grid; got none")
    auc = np.nanmax(aucs)
    require(
        auc > 0.9,
        "expected fit_grid to reach an AUC above 0.9 on its own training rows, whose classes hardly overlap; "
        f"got {auc:.3f} (below 0.5 means that labels or signs are turned around)",
    )
    return f"AUC {auc:.3f}"


def _grid_is_loop_of_fits(trial: Trial) -> str:
    """Each column of ``fit_grid`` is what ``fit`` gives for it, with classes mixed or one after the other."""
    for rows in (np.arange(N_ROWS), np.argsort(trial.y, kind="stable")):
        X, y = trial.X[rows], trial.y[rows]
        loop = np.hstack([trial.fit(X, y, **setting) for setting in each(trial.grid)])
        trial.require_close(trial.fit_grid(X, y), loop, "fit_grid", "fit of each setting alone", trial.grid)
    return f"{loop.shape[1]} settings"


def _dense_is_sparse(trial: Trial) -> None:
    """Dense and CSR rows give the same weights and the same scores."""
    trial.require_close(trial.fit_grid(trial.csr), trial.fit_grid(), "CSR rows", "dense rows", trial.grid)
    trial.require_close(trial.fit(trial.csr), trial.fit(), "fit with CSR rows", "fit with dense rows")
    scores = trial.learner().fit(trial.X, trial.y).decision_function
    trial.require_close(
        scores(trial.csr)[:, None], scores(trial.X)[:, None], "scores of CSR rows", "scores of dense rows"
    )


def _same_seed_same_bits(trial: Trial) -> None:
    """Two passes with one ``random_state`` over one order agree in every bit."""
    first, second = trial.fit_grid(), trial.fit_grid()
    trial.require_close(second, first, "the second of two equal passes", "the first", trial.grid, tolerance=0.0)
    learner = trial.learner()
    first, second = (learner.fit(trial.X, trial.y).coef_.T for _ in range(2))
    trial.require_close(second, first, "a second fit of one estimator", "its first fit", tolerance=0.0)


def _input_untouched(trial: Trial) -> None:
    """Neither rows nor labels, order or grid are written to: they may be memory-mapped read-only."""
    X, S, y, order = trial.X, trial.csr, trial.y, np.arange(N_ROWS)[::-1].copy()
    watched = {"X": X, "y": y, "order": order, "X.data": S.data, "X.indices": S.indices, "X.indptr": S.indptr}
    watched |= {f"grid[{axis!r}]": values for axis, values in trial.grid.items()}
    before = {name: array.copy() for name, array in watched.items()}
    for writeable in (True, False):
        for array in watched.values():
            array.setflags(write=writeable)
        for rows in (X, S):
            trial.fit_grid(rows, order=order)
            trial.fit(rows)
        for name, array in watched.items():
            require(np.array_equal(array, before[name]), f"expected {name} to be left as it was; it was changed")
    if isinstance(trial.learner(), OnePassLearner):
        for rows in (X, S):
            with changed_method(trial, "_consume", left_alone):
                trial.fit_grid(rows)


def _one_pass(trial: Trial) -> None:
    """``fit_grid`` reads each row of ``order`` once, in that order, and no other row."""
    source = CountingRows(trial.X)
    order = np.random.default_rng(1).permutation(N_ROWS)[:350]
    trial.fit_grid(source, order=order)
    times = np.bincount(source.rows_read, minlength=N_ROWS)
    wrong = np.flatnonzero(times != np.isin(np.arange(N_ROWS), order))
    if len(wrong):
        row = wrong[0]
        raise ContractBroken(
            "expected the rows of order to be read once each, by X[rows], and no others; "
            f"{len(wrong)} rows were not: row {row} was to be read {'once' if row in order else 'never'} "
            f"and was read {times[row]} times"
        )
    require(
        np.array_equal(source.rows_read, order),
        f"expected the rows to be read in the order {order[:5].tolist()}...; got {source.rows_read[:5]}...",
    )


def _rows_are_not_kept(trial: Trial) -> str:
    """Rows may be overwritten when they have been consumed; what a learner keeps does not grow with them."""
    learner, buffer = trial.learner(), np.empty((50, N_FEATURES))
    for start in range(0, N_ROWS, 50):
        buffer[:] = trial.X[start : start + 50]
        learner.partial_fit(buffer, trial.y[start : start + 50], classes=[-1, 1])
        buffer.fill(1e6)
    trial.require_close(learner.coef_.T, trial.fit(), "partial_fit with rows that are overwritten afterwards", "fit")
    for rows in (trial.X, trial.csr):
        with changed_method(trial, "_consume", overwritten):
            coef = trial.fit_grid(rows)
        trial.require_close(coef, trial.fit_grid(rows), "fit_grid with such rows", "rows that stay", trial.grid)
    sizes = []
    for _ in range(2):
        for _ in range(10):
            learner.partial_fit(trial.X, trial.y)
        sizes.append(len(pickle.dumps(learner)))
    grown, given = sizes[1] - sizes[0], 10 * trial.X.nbytes
    require(
        grown < 0.05 * given,
        "expected the memory of the learner not to depend on the number of rows; "
        f"it grew by {grown:,} bytes over rows of {given:,} bytes",
    )
    return f"{sizes[1]:,} bytes"


def _chunks_change_nothing(trial: Trial) -> None:
    """``partial_fit`` in pieces of any length is ``fit``; the chunks of ``fit_grid`` make no difference."""
    cuts = np.unique([0, 1, 3, *np.random.default_rng(2).integers(4, N_ROWS, 8), N_ROWS])
    learner = trial.learner()
    if hasattr(learner, "partial_fit"):
        for start, stop in pairwise(cuts):
            learner.partial_fit(trial.X[start:stop], trial.y[start:stop], classes=[-1, 1])
        trial.require_close(learner.coef_.T, trial.fit(), f"partial_fit in pieces cut at {cuts.tolist()}", "fit")

    consumed: list[int] = []
    slow = trial.learner()
    slow.seconds_per_row = lambda *_: 1.0  # chunks as short as they get
    in_short_chunks = slow.fit_grid(trial.X, trial.y, trial.grid, on_chunk=consumed.append)
    trial.require_close(in_short_chunks, trial.fit_grid(), "short chunks", "chunks that grow", trial.grid)
    require(
        len(consumed) > 1 and consumed[-1] == N_ROWS and all(0 < a < b for a, b in pairwise(consumed)),
        f"expected on_chunk to be called several times with growing counts up to {N_ROWS}; got {consumed}",
    )


def _dropped_settings(trial: Trial) -> str:
    """Settings that are dropped between two chunks leave the others as they are, whichever they are."""
    whole, n_dropped = trial.fit_grid(), 0
    for rows in (trial.X, trial.csr):
        with changed_method(trial, "_finite", dropping):
            coef = trial.fit_grid(rows)
        kept = ~np.isnan(coef).all(axis=0)
        n_dropped = int(np.count_nonzero(~kept))
        left = {axis: values[kept] for axis, values in trial.grid.items()}
        beside = "where other settings are dropped in the middle of the pass"
        trial.require_close(coef[:, kept], whole[:, kept], beside, "a pass where all stay", left)
    return f"{n_dropped} of {whole.shape[1]} dropped"


def _axes_matter(trial: Trial) -> None:
    """Each axis of the grid changes the weights."""
    for axis in trial.axes:
        values = trial.own[axis] * 2.0 ** np.array([-10, -5, 0, 5, 10])
        grid = {name: np.full(5, trial.own[name]) for name in trial.axes} | {axis: values}
        coef = trial.fit_grid(grid=grid)
        scale = np.abs(coef[:, 0]).max()
        same = np.allclose(coef, coef[:, :1], rtol=0.0, atol=1e-9 * scale, equal_nan=True)
        require(not same, f"expected {axis} to change the weights; from {values[0]:g} to {values[-1]:g} it does not")


def _cost_estimates(trial: Trial) -> None:
    """``cost``, which ``plan`` calls, is two numbers for data of any size; a row takes some time."""
    learner = trial.learner()
    for shape in product((1, 2, 10**7), (1, 2, 10**6), (0.0, 1.0), (1, 299)):
        asked = f"{shape[0]} rows, {shape[1]} features, {shape[2]:g} nonzero per row and {shape[3]} settings"
        seconds, size = learner.cost(*shape)
        require(
            bool(np.isfinite([seconds, size]).all()) and seconds >= 0 and size >= 0,
            f"expected cost to be seconds and bytes, finite and not negative, for {asked}; got {seconds}, {size}",
        )
        if isinstance(learner, OnePassLearner):
            seconds = learner.seconds_per_row(*shape[1:])
            require(seconds > 0, f"expected seconds_per_row above 0 for {asked[asked.index(',') + 2 :]}; got {seconds}")


def _on_chunk_ends_the_pass(trial: Trial) -> None:
    """What ``on_chunk`` raises ends the pass: time limits and Ctrl-C depend on it."""
    counts: list[int] = []
    trial.fit_grid(on_chunk=counts.append)
    if isinstance(trial.learner(), BatchLearner):
        require(len(counts) > 1, "expected _fit_path to call tick() between units of work; it never did")

    def stop(_):
        raise InterruptedError

    try:
        trial.fit_grid(on_chunk=stop)
    except InterruptedError:
        return
    raise ContractBroken("expected fit_grid to pass on what on_chunk raises; it went on and returned")


_HUGE = 1e100


def _overflow_is_nan(trial: Trial) -> str:
    """What overflows is NaN in ``fit_grid`` and DivergenceError in ``fit``; other settings are not affected."""
    calm, notes = trial.fit_grid(), []
    for axis in trial.axes:
        wild = [trial.own | {axis: value} for value in (1e30, 1e200, np.finfo(float).max)]
        alone = {name: np.array([setting[name] for setting in wild]) for name in trial.axes}
        mixed = {name: np.insert(trial.grid[name], 1, alone[name]) for name in trial.axes}
        coef = trial.fit_grid(grid=mixed)
        trial.require_close(coef[:, [0, *range(4, coef.shape[1])]], calm, f"beside huge {axis}", "alone", trial.grid)
        columns = np.hstack([coef[:, 1:4], trial.fit_grid(grid=alone)])
        for setting, column in zip(2 * wild, columns.T):
            bad = np.isnan(column)
            require(
                bool(np.isfinite(column).all() or bad.all()),
                f"expected weights that are all finite, or all NaN by overflow, for {setting}; got {column}",
            )
            if bad.all() or np.abs(column).max() < _HUGE:  # the threshold of ``fit`` may overflow before the weights
                require_same_verdict(trial, setting, diverged=bool(bad.all()))
        notes.append(f"{axis} can{'' if np.isnan(columns).any() else 'not'} overflow")
    return ", ".join(notes)


def _constant_features(trial: Trial) -> None:
    """Constant features give finite weights; one that is zero everywhere has weight 0 and changes nothing."""
    with_zero, without = np.insert(trial.X, 3, 0.0, axis=1), trial.fit_grid()
    for rows, form in ((with_zero, "dense"), (sparse.csr_matrix(with_zero), "CSR")):
        coef = trial.fit_grid(rows)
        require((coef[3] == 0).all(), f"expected weight 0 for a feature of zeros in {form} rows; got {coef[3]}")
        beside = f"weights beside a feature of zeros in {form} rows"
        trial.require_close(np.delete(coef, 3, axis=0), without, beside, "weights without it", trial.grid)
    constant = trial.X.copy()
    constant[:, 2] = 0.5
    zeros = np.zeros_like(constant)
    for rows, what in (
        (constant, "a constant feature"),
        (zeros + 0.5, "equal rows"),
        (zeros, "rows of zeros"),
    ):
        coef = trial.fit_grid(rows)
        require(np.isfinite(coef).all(), f"expected finite weights from {what}; got {coef}")
    require((coef == 0).all(), f"expected zero weights from rows of zeros; got {coef}")


def _order_is_permutation(trial: Trial) -> None:
    """``order`` visits the rows as if they had been permuted, or selected, beforehand."""
    order = np.random.default_rng(3).permutation(N_ROWS)
    for selected, what in ((order, "a permutation"), (order[:150], "some")):
        taken = trial.fit_grid(trial.X[selected], trial.y[selected])
        by_order = trial.fit_grid(order=selected)
        trial.require_close(by_order, taken, f"order={what} of the rows", "those rows in that order", trial.grid)


def _stored_midway(trial: Trial) -> None:
    """A learner that is stored between two calls of ``partial_fit`` continues as if nothing had happened."""
    half = N_ROWS // 2
    learner = trial.learner().partial_fit(trial.X[:half], trial.y[:half], classes=[-1, 1])
    file = io.BytesIO()
    joblib.dump(learner, file)
    file.seek(0)
    stored = {"pickled": pickle.loads(pickle.dumps(learner)), "stored with joblib": joblib.load(file)}
    expected = learner.partial_fit(trial.X[half:], trial.y[half:]).coef_.T
    for how, revived in stored.items():
        found = revived.partial_fit(trial.X[half:], trial.y[half:]).coef_.T
        trial.require_close(found, expected, f"a learner that was {how} midway", "one that was not", tolerance=0.0)


# What makes sense only for learners that go through the rows one after the other.
_PASSES = (
    "really one pass",
    "rows are not kept",
    "chunking changes nothing",
    "dropped settings",
    "stored midway",
)
# What needs partial_fit from end to end.
_IN_PIECES = ("rows are not kept", "stored midway")

_CHECKS: dict[str, Callable[[Trial], str | None]] = {
    "scikit-learn's checks": _scikit_learn,
    "positives rank higher": _ranks_positives_higher,
    "grid == loop of single fits": _grid_is_loop_of_fits,
    "dense == sparse": _dense_is_sparse,
    "same seed, same bits": _same_seed_same_bits,
    "input untouched": _input_untouched,
    "really one pass": _one_pass,
    "rows are not kept": _rows_are_not_kept,
    "chunking changes nothing": _chunks_change_nothing,
    "dropped settings": _dropped_settings,
    "axes matter": _axes_matter,
    "on_chunk ends the pass": _on_chunk_ends_the_pass,
    "overflow is NaN": _overflow_is_nan,
    "constant features": _constant_features,
    "order == permuted rows": _order_is_permutation,
    "stored midway": _stored_midway,
    "cost estimates": _cost_estimates,
}
