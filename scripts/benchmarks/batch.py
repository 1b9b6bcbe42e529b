"""Batch learners: time of a regularisation path, beside one value at a time and other programs."""

from __future__ import annotations

import resource
import warnings

import numpy as np
import scipy.linalg  # noqa: F401  compiled np.dot calls SciPy's BLAS, which has to be loaded to be limited
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from opauc_bench.learners import LSSVM, SVMOR, BatchUniLog, BatchUniSqu, RankSVML2, SVMPerf
from opauc_bench.learners.batch.cutting_plane import pairwise_hinge
from opauc_bench.learners.batch.svm_perf_program import find_program, run_program

from .common import cpu_seconds, from_cache

VALUES = 2.0 ** np.arange(-10, 11)
BATCH_LEARNERS = {
    "svm_or": (SVMOR(), "lam", 0.6),
    "svm_perf": (SVMPerf(engine="native"), "C", 0.6),
    "rank_svm_l2": (RankSVML2(), "lam", 0.6),
    "ls_svm": (LSSVM(), "lam", 0.010),
    "batch_uni_log": (BatchUniLog(loss_scale="sum"), "lam", 0.15),
    "batch_uni_squ": (BatchUniSqu(loss_scale="sum"), "lam", 0.010),
}
BATCH_ROWS = 8000
PAIRED_ROWS = 300


def batch_rows(n_rows=BATCH_ROWS, n_numbers=10, n_flags=44):
    """Rows in [-1, 1] whose classes overlap: the best AUC of a linear score is about 0.83."""
    rng = np.random.default_rng(0)
    numbers = np.tanh(rng.standard_normal((n_rows, n_numbers)) @ rng.standard_normal((n_numbers, n_numbers)) / 3)
    flags = -np.ones((n_rows, n_flags))
    flags[np.arange(n_rows), rng.geometric(0.1, n_rows) % n_flags] = 1.0
    X = np.hstack([numbers, flags])
    signal = X @ rng.standard_normal(n_numbers + n_flags) + numbers[:, 0] * numbers[:, 1]
    noisy = signal / signal.std() + rng.standard_normal(n_rows)
    return X, np.where(noisy > np.median(noisy), 1, -1).astype(np.int8)


def paths(X, y):
    """Seconds of each learner for all values together."""
    return {
        name: cpu_seconds(learner.fit_grid, X, y, {axis: VALUES}, repetitions=5)
        for name, (learner, axis, _) in BATCH_LEARNERS.items()
    }


def logistic_value_by_value(X, y):
    def call():
        return [
            LogisticRegression(C=1 / lam, fit_intercept=False, solver="newton-cholesky", tol=1e-8).fit(X, y)
            for lam in VALUES
        ]

    return cpu_seconds(call, repetitions=2)


def pairs_value_by_value(X, y):
    """LinearSVC on the differences of a few rows, three values of lambda, beside our path on the same rows."""
    X, y, lam = X[:PAIRED_ROWS], y[:PAIRED_ROWS], 2.0 ** np.array([-8, -4, 0])
    Z = (X[y > 0][:, None, :] - X[y < 0][None, :, :]).reshape(-1, X.shape[1])
    both, labels = np.vstack([Z, -Z]), np.repeat([1, -1], len(Z))

    C = 1 / (2 * lam * len(Z))
    models = [LinearSVC(loss="hinge", fit_intercept=False, C=c, max_iter=100_000, random_state=0) for c in C]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        linear_svc = cpu_seconds(lambda: [model.fit(both, labels) for model in models])
    path = cpu_seconds(SVMOR().fit_grid, X, y, {"lam": lam}, repetitions=5)
    W, V = np.hstack([model.coef_.T for model in models]), SVMOR().fit_grid(X, y, {"lam": lam})
    return linear_svc, path, max(objectives(V, X, y, lam) / objectives(W, X, y, lam))


def objectives(W, X, y, lam):
    risk = [pairwise_hinge(X @ w, y)[0] for w in W.T]
    return 0.5 * lam * (W**2).sum(axis=0) + risk


def program(X, y):
    """CPU seconds of the user's program, C by C, or None; they are those of child processes."""
    found = find_program()
    if found is None:
        return None
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run_program(found, X, y, VALUES, 0.1, lambda: None)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def batch() -> None:
    """How fast are the batch learners' regularisation paths? On one core, in one run, within a minute.

    For made-up rows in the shape of covtype (8,000 x 54: ten numbers and 44 flags, hard to separate) and for real
    data, if it is in the cache, CPU seconds of all 21 values of the paper's grid together (the best of several
    runs), of

    svm_or          hinge loss over pairs, lambda = 2^-10 ... 2^10, certified gap 1e-3
    svm_perf        the same with the program's C = 2^-10 ... 2^10, that is lambda = 1 / (100 C)
    rank_svm_l2     squared hinge loss over pairs, weights within 1e-8 of the minimiser
    ls_svm          squared loss over pairs
    batch_uni_log   logistic loss, lambda beside its sum
    batch_uni_squ   squared loss of single examples

    and beside them: scikit-learn's LogisticRegression, value by value; its LinearSVC on explicit pairs of 300 rows (all
    8,000 rows have 16 million); and the user's svm_perf_learn, if it is found. Targets stand behind the slash.
    """
    X, y = batch_rows()
    seconds = paths(X, y)
    print(f"made-up rows, {X.shape[0]:,} x {X.shape[1]}, 21 values:")
    for name, (_, _, target) in BATCH_LEARNERS.items():
        print(f"  {name:14s} {seconds[name]:8.4f} s / {target:g}")
    logistic = logistic_value_by_value(X, y)
    print(
        f"  LogisticRegression, value by value: {logistic:.2f} s, {logistic / seconds['batch_uni_log']:.1f} x the path"
    )
    by_program = program(X, y)
    if by_program is None:
        print("  svm_perf_learn: not found")
    else:
        print(f"  svm_perf_learn, C by C: {by_program:.2f} s, {by_program / seconds['svm_perf']:.0f} x the path")
    linear_svc, small, ratio = pairs_value_by_value(X, y)
    print(
        f"{PAIRED_ROWS} rows, 3 values: LinearSVC on pairs {linear_svc:.2f} s, {linear_svc / small:.0f} x the path; ",
        end="",
    )
    print(f"the objective of the path is at most {ratio:.5f} of its objective")
    for name in ("letter", "a9a", "w8a", "usps"):
        if (data := from_cache(name)) is not None:
            order = np.random.default_rng(0).permutation(data.X.shape[0])[: min(BATCH_ROWS, data.X.shape[0] * 4 // 5)]
            rows = data.X[np.sort(order)], np.asarray(data.y[np.sort(order)])
            text = ", ".join(f"{learner} {value:.3f}" for learner, value in paths(*rows).items())
            print(f"{name}, {len(order):,} x {data.X.shape[1]}: {text}")
