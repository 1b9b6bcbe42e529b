"""Benchmarks beside their targets: of kernels, batch learners, many features, sparse rows, streams, and the runner.

    python scripts/bench.py kernels|batch|highdim|sparse|stream|runner [OPTIONS]

Each has a description: ``python scripts/bench.py kernels --help``. Times are CPU times of one core, except
those of the runner.
"""

from __future__ import annotations

import argparse
import heapq
import inspect
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.linalg  # noqa: F401  compiled np.dot calls SciPy's BLAS, which has to be loaded to be limited
from llvmlite.binding import get_host_cpu_name
from numba import njit
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_info, threadpool_limits

from opauc_bench.commands.recorded import Recorded, shapes_of
from opauc_bench.commands.session import Session
from opauc_bench.data import Sources, find_prepared, load_catalogue, prepare
from opauc_bench.evaluation.auc import auc_columns, auc_score
from opauc_bench.learners import LSSVM, OPAUC, SVMOR, BatchUniLog, BatchUniSqu, RankSVML2, SVMPerf, get_learner
from opauc_bench.learners.batch.cutting_plane import pairwise_hinge
from opauc_bench.learners.batch.svm_perf_program import find_program, run_program
from opauc_bench.learners.opauc.products import add_product
from opauc_bench.learners.rows import aligned_zeros
from opauc_bench.plan import make_plan
from opauc_bench.results.record import Record
from opauc_bench.runner.engines import Engine
from opauc_bench.streaming.model import LinearModel


def cpu_seconds(run: Callable, *arguments, repetitions: int = 1, **options) -> float:
    """Least CPU time of several calls."""
    times = []
    for _ in range(repetitions):
        start = time.process_time()
        run(*arguments, **options)
        times.append(time.process_time() - start)
    return min(times)


def own_settings(learner) -> dict[str, np.ndarray]:
    """The learner's own parameters as a grid of one setting."""
    return {axis: np.array([getattr(learner, axis)]) for axis in learner.grid_axes}


def sparse_rows(d, draws, n, seed=0):
    """CSR rows of unit length (``draws`` of features, distinct ones kept), and labels that depend on them a little."""
    rng = np.random.default_rng(seed)
    if draws == 14:  # one of the categories of each of 14 columns
        width = d // draws
        indices = (np.arange(draws) * width + rng.integers(0, width, (n, draws))).ravel()
        indptr = np.arange(0, n * draws + 1, draws)
    else:
        features = np.minimum((d ** rng.random((n, draws)) - 1).astype(np.int64), d - 1)
        chosen = [np.unique(row) for row in rng.permutation(d)[features]]
        indices, indptr = np.concatenate(chosen), np.cumsum([0, *map(len, chosen)])
    data = np.ones(len(indices))
    X = sparse.csr_matrix((data, indices, indptr), shape=(n, d))
    X.data *= np.repeat(1 / np.sqrt(np.diff(X.indptr)), np.diff(X.indptr))
    return X, np.where(X @ rng.standard_normal(d) + 0.5 * rng.standard_normal(n) > 0, 1, -1).astype(np.int8)


def from_cache(name: str):
    """A dataset that is in the cache, or None, with a line that says so."""
    data = find_prepared(load_catalogue()[name], Sources.from_environment())
    if data is None:
        print(f"{name}: not in the cache; opauc-bench data fetch {name}")
    return data


def print_missed(missed: list[str], heading: str = "Missed:", otherwise: str = "All targets hold.") -> None:
    print("\n".join([heading, *missed]) if missed else otherwise)


# ---------------------------------------------------------------------- kernels

DIMENSIONS = (8, 22, 54, 126, 256, 780)
N_SETTINGS = 299
KERNEL_SECONDS = 0.15  # of one run
KERNEL_TARGETS = {
    "share": {22: 0.50, 54: 0.65, 256: 0.80, 780: 0.80},
    "one": {8: 15, 22: 6, 54: 4, 126: 4, 256: 4, 780: 4},
    "naive": {8: 700, 22: 250, 54: 100},
}
RATIOS = {
    "share": "dgemm's share of the pass",
    "one": "cheaper than compiled alone",
    "naive": "cheaper than NumPy alone",
}
DIGITS = {"share": 2, "one": 1, "naive": 0}
KERNEL_WIDTHS = (4, 10, 8, 9, 10, 14, 11, 13)  # of the table's columns


def naive_opauc(X, y, eta, lam):
    """OPAUC for one setting as a careful NumPy user writes it."""
    d = X.shape[1]
    w, counts, means, covariances = np.zeros(d), [0, 0], np.zeros((2, d)), np.zeros((2, d, d))
    for x, label in zip(X, y):
        own, opposite = (0, 1) if label > 0 else (1, 0)
        counts[own] += 1
        before = x - means[own]
        means[own] += before / counts[own]
        covariances[own] += (np.outer(before, x - means[own]) - covariances[own]) / counts[own]
        if counts[opposite]:
            z = x - means[opposite]
            w -= eta * (lam * w + (z @ w - label) * z + covariances[opposite] @ w)
    return w


@njit(cache=True)
def repeated_product(A, W, V, n):
    """``n`` times V = A W, without the interpreter's share."""
    for _ in range(n):
        np.dot(A, W, V)


class Unpruned(OPAUC):
    """OPAUC that trains diverged settings to the end: to ``fit_grid`` all weights look finite."""

    def _begin(self, n_features, settings):
        state = super()._begin(n_features, settings)
        state.coef = lambda n: np.zeros((n, len(settings["eta"])))
        return state


def measure_kernels(d):
    """Microseconds per row of the four runs, and whether the pass gave the naive loop's weights."""
    rng = np.random.default_rng(0)
    learner = OPAUC()

    def rows(per_row):
        n = max(50, int(KERNEL_SECONDS / per_row))
        return rng.uniform(-1, 1, (n, d)), np.where(rng.random(n) < 0.5, 1, -1).astype(np.int8)

    grid = {
        "eta": np.geomspace(1e-3, 1e-2, N_SETTINGS) / d,
        "lam": np.resize(2.0 ** np.arange(-10, 3), N_SETTINGS),
    }
    single = {axis: values[-1:] for axis, values in grid.items()}
    eta, lam = (float(values[0]) for values in single.values())
    for_pass = rows(learner.seconds_per_row(d, d, N_SETTINGS))
    for_one = rows(learner.seconds_per_row(d, d, 1))
    for_naive = rows(2e-5 + 1e-8 * d * d)
    A, W, V = rng.standard_normal((d, d)), rng.standard_normal((d, N_SETTINGS)), np.empty((d, N_SETTINGS))
    n_products = max(2, int(KERNEL_SECONDS / (1e-10 * d * d * N_SETTINGS)))
    runs = {
        "pass": (len(for_pass[0]), learner.fit_grid, *for_pass, grid),
        "one": (len(for_one[0]), learner.fit_grid, *for_one, single),
        "naive": (len(for_naive[0]), naive_opauc, *for_naive, eta, lam),
        "dgemm": (n_products, repeated_product, A, W, V, n_products),
    }
    few = for_naive[0][:50], for_naive[1][:50]
    expected = naive_opauc(*few, eta, lam)
    for settings in (grid, single):
        if not np.allclose(learner.fit_grid(*few, settings)[:, -1], expected, rtol=1e-9, atol=0):
            raise AssertionError(f"d = {d}: the compiled pass and the naive loop do not give the same weights")
    best = dict.fromkeys(runs, np.inf)
    for _ in range(7):
        for name, (n, run, *arguments) in runs.items():
            best[name] = min(best[name], 1e6 * cpu_seconds(run, *arguments) / n)
    return best


def ratios(best):
    per_model = best["pass"] / N_SETTINGS
    return {
        "share": best["dgemm"] / best["pass"],
        "one": best["one"] / per_model,
        "naive": best["naive"] / per_model,
    }


def kernel_table(dimensions):
    libraries = {
        f"{pool['internal_api']} with kernels for {pool.get('architecture', 'this CPU')}"
        for pool in threadpool_info()
        if pool["user_api"] == "blas"
    }
    print(f"compiled for {get_host_cpu_name()}; BLAS: {', '.join(sorted(libraries))}\n")
    print(f"{'microseconds per row':>38}{'ratio/target':>35}")
    heads = ("d", "pass", "one", "naive", "dgemm", "dgemm share", "x one", "x naive")
    print("".join(f"{head:>{width}}" for head, width in zip(heads, KERNEL_WIDTHS)))
    missed, n_targets = [], 0
    for d in dimensions:
        best = measure_kernels(d)
        cells = [str(d), *(f"{best[name]:.2f}" for name in ("pass", "one", "naive", "dgemm"))]
        for name, value in ratios(best).items():
            target = KERNEL_TARGETS[name].get(d)
            cells.append(f"{value:.{DIGITS[name]}f}" + (f"/{target:g}" if target else ""))
            n_targets += target is not None
            if target and value < target:
                missed.append(f"  not: {RATIOS[name]} at d = {d}: {value:.{DIGITS[name]}f}, wanted {target:g}")
        print("".join(f"{cell:>{width}}" for cell, width in zip(cells, KERNEL_WIDTHS)), flush=True)
    print(f"\n{n_targets - len(missed)} of {n_targets} targets hold.", *missed, sep="\n")


def pruning(name):
    if (dataset := from_cache(name)) is None:
        return
    X, y = dataset.X, dataset.y
    eta, lam = (axis.ravel() for axis in np.meshgrid(2.0 ** np.arange(-12, 11), 2.0 ** np.arange(-10, 3)))
    grid, order = {"eta": eta, "lam": lam}, np.random.default_rng(0).permutation(len(y))[:8000]
    pruned, whole = (
        cpu_seconds(learner.fit_grid, X, y, grid, order=order, repetitions=3) for learner in (OPAUC(), Unpruned())
    )
    n_live = np.isfinite(OPAUC().fit_grid(X, y, grid, order=order)).all(axis=0).sum()
    verdict = "holds" if whole >= 2 * pruned else "missed"
    print(f"{name}: {len(order):,} rows, {X.shape[1]} features; {n_live} of {len(eta)} settings stay finite")
    print(f"  {whole:.2f} s with all settings to the end, {pruned:.2f} s without those that diverge:")
    print(
        f"  {whole / pruned:.2f}x cheaper (target 2 {verdict}; {len(eta) / n_live:.2f}x fewer settings)",
        flush=True,
    )


def kernels(dimensions: list[int]) -> None:
    """How fast is OPAUC's pass over a grid of 299 settings? On one core, in one run, within two minutes.

    For each number of features d, microseconds per row (the best of several interleaved runs, CPU time) of

    pass    all 299 settings together: ``OPAUC.fit_grid``, no setting diverging
    one     a single setting, compiled: the same call with one setting
    naive   a single setting in NumPy, row by row, with a running covariance and a matrix-vector product
    dgemm   nothing but the product (d x d)(d x 299) by the BLAS, for comparison

    and what follows from them: dgemm's time as a share of the pass (above 1 where the BLAS uses narrower vector
    instructions than the compiler does), and how many times cheaper a model is in the pass than trained alone.
    Targets stand behind the slash. Then what dropping diverged settings saves on a9a and w8a with the paper's
    grid, if those are in the cache.
    """
    start = time.perf_counter()
    kernel_table(dimensions)
    print("\nDropping diverged settings, the paper's 23 x 13 grid:")
    for name in ("a9a", "w8a"):
        pruning(name)
    print(f"\n{time.perf_counter() - start:.0f} seconds in all")


# ---------------------------------------------------------------------- batch

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


# ---------------------------------------------------------------------- sparse

SPARSE_SHAPES = {
    "a9a-like": (123, 14, 21_707),
    "rcv1-like": (47_000, 75, 40_000),
    "news20-like": (1_355_191, 455, 13_333),
}
SPARSE_TARGETS = {"a9a-like": 4.0, "rcv1-like": 5.0, "news20-like": 13.0}
GAMMA = np.array([1e-5, 5e-5, 1e-4, 5e-4, 1e-3, 5e-3, 1e-2, 5e-2, 0.1, 0.5, 1.0, 5.0])
L1 = np.array([1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 5e-3, 1e-2, 5e-2, 0.1, 0.3, 0.5, 0.7, 1.0, 3.0, 5.0])
GRID_ROWS = 300
DENSE_ROWS = 200
TIMES_DEARER = {"spam_l2": 50, "solam": 50, "solam xi=100 radius=0.1": 10}


def ftrl_table():
    print(
        f"{'':<14}{'d':>10}{'k':>6}{'learner':>16}{'kernel':>9}{'target':>8}{'fit':>8}{'times':>7}{'pass':>8}{'grid':>8}"
    )
    missed = []
    gamma, l1 = (axis.ravel() for axis in np.meshgrid(GAMMA, L1))
    for (name, (d, draws, n)), learner_name in product(SPARSE_SHAPES.items(), ("ftrl_auc", "ftrl_proximal")):
        X, y = sparse_rows(d, draws, n)
        learner, order = get_learner(learner_name)(), np.random.default_rng(1).permutation(n)
        settings = own_settings(learner)
        of_kernel = 1e9 * cpu_seconds(passed, learner, X, y, repetitions=6) / X.nnz
        of_fit = 1e9 * cpu_seconds(learner.fit, X, y, repetitions=6) / X.nnz
        of_pass = 1e9 * cpu_seconds(learner.fit_grid, X, y, settings, order=order, repetitions=6) / X.nnz
        target = SPARSE_TARGETS[name] if learner_name == "ftrl_auc" else None
        if target and of_kernel > target:
            missed.append(f"{name}: {of_kernel:.1f} ns, wanted {target:g}")
        of_grid = ""
        if d < 1e6:
            few, state = X[:GRID_ROWS], learner._begin(d, {"gamma": gamma, "l1": l1})
            spent = cpu_seconds(learner._consume, state, few, y[:GRID_ROWS], repetitions=6)
            of_grid = f"{1e9 * spent / few.nnz / len(l1):.2f}"
        cells = (f"{learner_name:>16}", f"{of_kernel:>9.1f}", f"{target or '':>8}", f"{of_fit:>8.1f}")
        cells += (f"{of_fit / of_kernel:>7.2f}", f"{of_pass:>8.1f}", f"{of_grid:>8}")
        print(f"{name:<14}{d:>10,}{X.nnz / n:>6.0f}", *cells, sep="", flush=True)
    return missed


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})
def dense_spam_l2(indptr, indices, data, y, xi, l2, w, sums):
    """SPAM-l2 on every coordinate, as a careful C programmer writes it."""
    counts, mean_scores = np.zeros(2), np.zeros(2)
    for t in range(len(y)):
        own, opp, sign = (0, 1, 1.0) if y[t] > 0 else (1, 0, -1.0)
        score = 0.0
        for k in range(indptr[t], indptr[t + 1]):
            score += data[k] * w[indices[k]]
            sums[own, indices[k]] += data[k]
        counts[own] += 1.0
        s_own, s_opp, total = sums[own], sums[opp], 0.0
        for i in range(len(w)):
            total += w[i] * s_own[i]
        mean_scores[own] = total / counts[own]
        n = counts[0] + counts[1]
        eta = xi / np.sqrt(n)
        share = 2.0 * eta * counts[opp] / n
        for k in range(indptr[t], indptr[t + 1]):
            w[indices[k]] -= share * (score - sign - mean_scores[opp]) * data[k]
        by_own, by_opp = share * mean_scores[own] / counts[own], share * score / max(counts[opp], 1.0)
        for i in range(len(w)):
            w[i] = (w[i] - by_own * s_own[i] + by_opp * s_opp[i]) / (1.0 + eta * l2)


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})
def dense_solam(indptr, indices, data, y, xi, radius, w, mean):
    """SOLAM on every coordinate, as a careful C programmer writes it."""
    w[:] = radius / np.sqrt(len(w))
    a, b, alpha, positives, steps = radius, radius, 2.0 * radius, 0.0, 0.0
    for t in range(len(y)):
        positives += y[t] > 0
        p, gamma, score = positives / (t + 1), xi / np.sqrt(t + 1), 0.0
        for k in range(indptr[t], indptr[t + 1]):
            score += data[k] * w[indices[k]]
        for i in range(len(w)):
            mean[i] += gamma * w[i]
        steps += gamma
        if y[t] > 0:
            share, factor, towards = 2.0 * (1.0 - p), score - a - 1.0 - alpha, -score - p * alpha
            a = min(a + gamma * share * (score - a), radius)
        else:
            share, factor, towards = 2.0 * p, score - b + 1.0 + alpha, score - (1.0 - p) * alpha
            b = min(b + gamma * share * (score - b), radius)
        alpha = min(max(alpha + gamma * share * towards, -2.0 * radius), 2.0 * radius)
        for k in range(indptr[t], indptr[t + 1]):
            w[indices[k]] -= gamma * share * factor * data[k]
        square = 0.0
        for i in range(len(w)):
            square += w[i] * w[i]
        shorter = min(1.0, radius / np.sqrt(square))
        for i in range(len(w)):
            w[i] *= shorter
    for i in range(len(w)):
        mean[i] /= steps


def other_learners():
    """Microseconds per row of what is not FTRL, at d = 47,000."""
    missed = []
    d, draws, n = SPARSE_SHAPES["rcv1-like"]
    X, y = sparse_rows(d, draws, n)
    few = {"rows": X[:DENSE_ROWS], "y": y[:DENSE_ROWS]}
    print(f"\n{'us a row, d = 47,000':<24}{'one setting':>12}{'O(d) loop':>12}{'slower':>9}{'target':>8}")
    steep = {"xi": 100.0, "radius": 0.1}  # so that w is projected at every other row, and falls by hundreds
    cases = [(name, {}) for name in ("rda_l1", "adagrad", "spam_l1", "spam_elastic", "spauc", "fsauc")]
    for name, params in [("spam_l2", {}), ("solam", {}), ("solam", steep), *cases]:
        learner = get_learner(name)(**params)
        title = " ".join([name, *(f"{axis}={value:g}" for axis, value in params.items())])
        sparsely = name in ("spam_l2", "solam", "rda_l1", "adagrad", "fsauc")
        X_, y_ = (X, y) if sparsely else (few["rows"], few["y"])
        per_row = 1e6 * cpu_seconds(passed, learner, X_, y_, repetitions=6) / len(y_)
        line = f"{title:<24}{per_row:>12.2f}"
        if title in TIMES_DEARER:
            dense = dense_spam_l2 if name == "spam_l2" else dense_solam
            first, second = (float(getattr(learner, axis)) for axis in learner.grid_axes)
            arrays = (few["rows"].indptr, few["rows"].indices, few["rows"].data, few["y"], first, second)
            w, beside = np.zeros(d), np.zeros((2, d) if name == "spam_l2" else d)
            dense(*arrays, w, beside)
            got = learner.fit_grid(few["rows"], few["y"], own_settings(learner))[:, 0]
            if not np.allclose(got, w if name == "spam_l2" else beside, rtol=1e-7, atol=1e-12):
                raise AssertionError(f"{name}: the dense loop and the learner do not give the same weights")
            by_loop = 1e6 * cpu_seconds(dense, *arrays, np.zeros(d), np.zeros_like(beside), repetitions=6) / DENSE_ROWS
            line += f"{by_loop:>12.1f}{by_loop / per_row:>8.0f}x{TIMES_DEARER[title]:>7}x"
            if by_loop < TIMES_DEARER[title] * per_row:
                missed.append(f"{title}: {by_loop / per_row:.0f} times cheaper than O(d), wanted {TIMES_DEARER[title]}")
        print(line, flush=True)
    return missed


def passed(learner, X, y):
    """A pass over the rows, with the state allocated; FSAUC is told how many there are."""
    state = learner._begin(X.shape[1], own_settings(learner))
    state.expect(len(y))
    learner._consume(state, X, y)


def sparse_learners() -> None:
    """CPU time of the learners for sparse rows, on one core, beside the targets.

    Rows are made up: k draws of features (the more frequent ones more often), distinct ones kept, unit length.

    kernel  nanoseconds per nonzero of one pass for one setting: allocation of the state and the compiled loop
    fit     the same for ``fit``, which checks its input and sums up the rows of each class; how many times the kernel
    pass    the same for ``fit_grid`` on all rows in a random order, which copies each row before it is learnt
    grid    nanoseconds per nonzero and setting, for the whole grid of the FTRL-AUC paper (12 x 16 settings)

    Then microseconds per row of the other learners for one setting at d = 47,000. SPAM-l2 and SOLAM touch nonzero
    features only; beside them, the same steps taken on every coordinate in compiled loops, and how many times that
    is slower.
    """
    print_missed(ftrl_table() + other_learners())


# ---------------------------------------------------------------------- highdim

HIGHDIM_SECONDS = 0.25  # of one run


@dataclass(frozen=True)
class Shape:
    """Features, draws of features per row, and axes of the grid."""

    d: int
    draws: int
    eta: np.ndarray
    lam: np.ndarray

    def settings(self, axes):
        eta, lam = (axis.ravel() for axis in np.meshgrid(self.eta, self.lam))
        return {axis: values for axis, values in (("eta", eta), ("lam", lam)) if axis in axes}


HIGHDIM_SHAPES = {
    "rcv1-like": Shape(47_236, 90, np.geomspace(2**-12, 2**-2, 23), 2.0 ** np.arange(-10, 3)),
    "news20-like": Shape(1_355_191, 600, 2.0 ** np.arange(-9, -1), 2.0 ** np.arange(-5, 3)),
}


@dataclass(frozen=True)
class Targets:
    """At most ``times_uni`` of uni_squ by shape to run, at least ``cheaper`` than ``parameters`` for one setting."""

    times_uni: dict[str, float]
    cheaper: float | None = None
    parameters: dict = field(default_factory=lambda: {"algorithm": "plain"})
    at_worst: Callable | None = None  # brings a state into its dearest case, and says how many rows to time


def with_all_features(state, X, y):
    """Make the next change of bases of ``opauc_fd`` touch every feature; it comes once in as many rows as returned."""
    state.wait.touched[:] = True
    return state.wait.limit


def with_full_moments(state, X, y):
    """Give a state of ``opauc_s`` the second moments that a single setting has after all rows."""
    learner = get_learner("opauc_s")()
    alone = learner._begin(X.shape[1], {axis: np.array([2.0**-10]) for axis in learner.grid_axes})
    learner._consume(alone, X, y)
    for name in ("shared", "matrices", "rows"):
        setattr(state, name, getattr(alone, name))
    state.models.W[:], state.models.products[:] = 0.0, 0.0
    return 10


HIGHDIM_LEARNERS = {
    "opauc_r": Targets({"rcv1-like": 4.0, "news20-like": 10.0}, cheaper=2000),
    "opauc_h": Targets({"rcv1-like": 4.0, "news20-like": 10.0}, cheaper=2000),
    "opauc_fd": Targets({"rcv1-like": 30.0, "news20-like": 30.0}, at_worst=with_all_features),
    "opauc_s": Targets({"rcv1-like": np.inf}, cheaper=1, parameters={}, at_worst=with_full_moments),
}


class Pass:
    """A learner whose state has met the rows once, ready to be timed on some of them."""

    def __init__(self, name, settings, X, y, **parameters):
        learner = get_learner(name)
        learner = learner(**parameters, **({"random_state": 0} if "random_state" in learner().get_params() else {}))
        per_row = learner.seconds_per_row(X.shape[1], X.nnz / len(y), len(settings["eta"]))
        n = min(len(y), max(10, int(HIGHDIM_SECONDS / per_row)))
        self.learner, self.state = learner, learner._begin(X.shape[1], settings)
        self.state.expect(None)
        self.X, self.y, self.best = X[:n], y[:n], np.inf
        self.time()
        if name in HIGHDIM_LEARNERS and HIGHDIM_LEARNERS[name].at_worst:
            n = HIGHDIM_LEARNERS[name].at_worst(self.state, X, y)
            self.X, self.y = X[:n], y[:n]
        self.best = np.inf

    def time(self):
        spent = cpu_seconds(self.learner._consume, self.state, self.X, self.y)
        self.best = min(self.best, 1e6 * spent / len(self.y))


def measure_highdim(shape, names):
    """Microseconds per row of ``uni_squ``, and of each learner in a grid and alone."""
    X, y = sparse_rows(shape.d, shape.draws, 2048)
    print(f"d = {shape.d:,}, k = {X.nnz / len(y):.0f}, {len(shape.eta) * len(shape.lam)} settings")
    uni = Pass("uni_squ", shape.settings(("eta",)), X, y)
    found = {}
    for name in names:
        settings = shape.settings(get_learner(name).grid_axes)
        grid = Pass(name, settings, X, y)
        for _ in range(7):
            uni.time()
            grid.time()
        finite = grid.state.finite(shape.d).sum()
        if finite < len(settings["eta"]):
            raise AssertionError(f"{name}: only {finite} of {len(settings['eta'])} settings stayed finite")
        found[name] = {"grid": grid.best}
        del grid
        if HIGHDIM_LEARNERS[name].cheaper:
            single = {axis: values[:1] for axis, values in settings.items()}
            alone = Pass(name, single, X, y, **HIGHDIM_LEARNERS[name].parameters)
            for _ in range(3):
                alone.time()
            found[name]["alone"] = alone.best
    return uni.best, found


def product_seconds(n_settings):
    """Microseconds of the product in a step of ``opauc_r``, by its kernel and by dgemm."""
    width = -(-n_settings // 8) * 8
    gram, beta, p = (aligned_zeros(*shape) for shape in ((51, 52), (52, width), (51, width)))
    gram[:], beta[:] = (np.random.default_rng(0).standard_normal(A.shape) for A in (gram, beta))
    ways, best = (
        (lambda: add_product(p, gram, beta, *gram.shape), lambda: np.matmul(gram, beta, out=p)),
        [np.inf, np.inf],
    )
    ways[0]()
    for _ in range(70):
        for k, way in enumerate(ways):
            start = time.process_time()
            for _ in range(100):
                way()
            best[k] = min(best[k], 1e4 * (time.process_time() - start))
    return best


def highdim_table(shape_name, names):
    """Print the figures of one shape; returns what was missed."""
    shape, missed = HIGHDIM_SHAPES[shape_name], []
    n_settings = len(shape.eta) * len(shape.lam)
    print(f"\n{shape_name}: ", end="")
    uni, found = measure_highdim(shape, [name for name in names if shape_name in HIGHDIM_LEARNERS[name].times_uni])
    print(f"{'':<12}{'grid':>10}{'x uni':>14}{'alone':>12}{'x model':>14}")
    print(f"{'uni_squ':<12}{uni:>10.1f}{1.0:>14.1f}", flush=True)
    for name, figures in found.items():
        targets, ratio = HIGHDIM_LEARNERS[name], figures["grid"] / uni
        limit = targets.times_uni[shape_name]
        line = f"{name:<12}{figures['grid']:>10.1f}{f'{ratio:.1f}/{limit:g}'.removesuffix('/inf'):>14}"
        if ratio > limit:
            missed.append(f"{name}, {shape_name}: {ratio:.1f} times uni_squ, wanted {limit:g}")
        if targets.cheaper:
            cheaper = figures["alone"] / (figures["grid"] / n_settings)
            line += f"{figures['alone']:>12.1f}{f'{cheaper:.0f}/{targets.cheaper:g}':>14}"
            if cheaper < targets.cheaper:
                missed.append(f"{name}, {shape_name}: {cheaper:.0f} times cheaper, wanted {targets.cheaper:g}")
        print(line, flush=True)
    if {"opauc_r", "opauc_h"} & found.keys():
        kernel, blas = product_seconds(n_settings)
        print(f"the product in a step of opauc_r: {kernel:.1f}, by dgemm {blas:.1f}", flush=True)
    return missed


def highdim(names: list[str]) -> None:
    """CPU time of OPAUC's approximations for many features, on one core, beside ``uni_squ`` and beside the targets.

    Rows are made up: k draws of features (the more frequent ones more often), distinct ones kept, unit length.
    Settings are a grid of step sizes and regularisations in powers of two that stay finite; it has eta lam = 1.
    For each shape, the least of several interleaved runs, in microseconds per row:

    grid     all settings in one pass, on rows whose features have all been met before
    x uni    the same as a multiple of the pass of online ``uni_squ`` for as many settings, in the same run
    alone    a single setting by the O(d tau) steps of the paper, compiled
    x model  how many times cheaper than that a model is in the pass

    Below it stands what a step of ``opauc_r`` and ``opauc_h`` cannot do without, the product of a 51 x 52 matrix
    and the settings' coordinates: by the kernel that they use, and by dgemm of NumPy's BLAS, which shows what a
    core can do.

    Targets stand behind the slash. What ``opauc_fd`` does to all features once in some thousand rows is in its
    figures: a run of it is that long, and takes all features for met. ``opauc_s`` has its second moments filled by
    all rows first; it has no other algorithm for a single setting, no target in comparison with ``uni_squ``, and
    no run on the larger shape, where filling them takes minutes and gigabytes.
    """
    shapes = [name for name in names if name in HIGHDIM_SHAPES] or list(HIGHDIM_SHAPES)
    learners = [name for name in names if name in HIGHDIM_LEARNERS] or list(HIGHDIM_LEARNERS)
    missed = [line for shape in shapes for line in highdim_table(shape, learners)]
    print()
    print_missed(missed)


# ---------------------------------------------------------------------- stream

MAY_GROW = 32  # MB: what allocators make of the same work done more often
STREAM_BLOCK_ROWS = 20_000
STREAM_PARTS = ["auc", "speed", "memory"]
STREAM_LEARNERS = {"sparse": ["ftrl_auc", "opauc_r"], "dense": ["opauc"]}


def stream_block(kind, rng):
    """The text of some rows, whose label depends on two of their features."""
    if kind == "dense":
        d = k = 20
        indices = np.tile(np.arange(1, d + 1), (STREAM_BLOCK_ROWS, 1))
    else:
        d, k = 47_000, 50
        indices = np.sort(
            np.minimum((d ** rng.random((STREAM_BLOCK_ROWS, k))).astype(int) + 3 * np.arange(k), d), axis=1
        )
        indices = indices[(np.diff(indices, axis=1) > 0).all(axis=1)]
    values = rng.uniform(-1, 1, indices.shape)
    labels = np.where(values[:, 0] + values[:, 1] + rng.standard_normal(len(values)) > 0.5, 1, -1)
    rows = (" ".join(f"{i}:{v:.6g}" for i, v in zip(*row)) for row in zip(indices.tolist(), values.tolist()))
    return "".join(f"{label} {row}\n" for label, row in zip(labels.tolist(), rows)).encode()


def write_stream(folder, kind, size):
    """A file of about ``size`` bytes, of a few blocks over and over."""
    rng = np.random.default_rng(0)
    blocks = [stream_block(kind, rng) for _ in range(6)]
    path, n_rows, written = folder / f"{kind}-{size}.svm", 0, 0
    with path.open("wb") as file:
        while written < size:
            text = blocks[rng.integers(len(blocks))]
            text = text[: text.rindex(b"\n", 0, max(size - written, len(text) // 100)) + 1]
            written += file.write(text)
            n_rows += text.count(b"\n")
    return path, n_rows


class Usage(NamedTuple):
    """What a process took."""

    megabytes: float  # most resident memory
    cpu: float  # seconds
    wall: float  # seconds


MEASURE = """
import os, subprocess, sys, time
begin = time.monotonic()
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(process.pid, 0)
print(usage.ru_maxrss / 1024, usage.ru_utime + usage.ru_stime, time.monotonic() - begin)
sys.exit(bool(status))
"""


def measured(command) -> Usage:
    """Run a command; its output is not shown.

    A small process starts it: the peak memory of a process counts that of the one it was forked from.
    """
    words = list(map(str, command))
    done = subprocess.run([sys.executable, "-c", MEASURE, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}:\n{done.stderr}")
    return Usage(*map(float, done.stdout.split()))


def measured_command(*arguments) -> Usage:
    """Run a command of opauc-bench."""
    return measured([sys.executable, "-m", "opauc_bench", *arguments])


HELD_OUT = 6  # one row in so many
REPEATS = 13  # of the rows of imdb in the large file
SINGLE_GRIDS = {  # of the comparison with one learner whose setting is selected on the last fifth of the rows
    "nag": {"eta": 2.0 ** np.arange(-6, 4)},
    "adagrad": {"eta": 2.0 ** np.arange(-7, 3), "l1": np.array([0.0, 1e-6, 1e-5, 1e-4])},
    "ftrl_proximal": {"gamma": 2.0 ** np.arange(-7, 4), "l1": np.array([0.0, 0.1, 1.0])},
    "ftrl_auc": {"gamma": 2.0 ** np.arange(-9, 2), "l1": np.array([0.0, 0.1, 1.0])},
    "uni_log": {"eta": 2.0 ** np.arange(-12, 4)},
    "opauc": {"eta": 2.0 ** np.arange(-14, -2), "lam": 2.0 ** np.array([-14, -8])},
    "ada_oam": {"eta": 2.0 ** np.arange(-9, 2), "lam": 2.0 ** np.array([-14, -8])},
}
SINGLE_MOST_FEATURES = {"opauc": 300, "ada_oam": 300}
VW = """
import sys
from vowpalwabbit import Workspace
train, test, model, out = sys.argv[1:]
if train:
    Workspace(f"--loss_function logistic -b 22 -d {train} -f {model} --quiet").finish()
if test:
    Workspace(f"-t -i {model} -d {test} -r {out} --quiet").finish()
"""
SGD = """
import sys
import numpy as np
from sklearn.linear_model import SGDClassifier
from opauc_bench.data import stream_svmlight
train, test, width, out = sys.argv[1:]
model = SGDClassifier(loss="log_loss", random_state=0)
for chunk in stream_svmlight(train, n_features=int(width)):
    model.partial_fit(chunk.X, chunk.labels, classes=[-1, 1])
if test:
    chunks = stream_svmlight(test, n_features=int(width))
    np.savetxt(out, np.concatenate([model.decision_function(chunk.X) for chunk in chunks]))
"""


class Rows(NamedTuple):
    """One pass and held-out rows, as arrays and as files."""

    X: sparse.csr_matrix
    y: np.ndarray
    X_test: sparse.csr_matrix
    y_test: np.ndarray
    train: Path
    test: Path


def stream_rows(wanted: list[str]) -> Iterable[tuple[str, sparse.csr_matrix, np.ndarray]]:
    """Names, rows and labels of the comparison, from the mirror or the cache."""
    catalogue, sources = load_catalogue(), Sources.from_environment(offline=True)
    for name in ("a9a", "w8a", "ijcnn1", "covtype", "farm-ads", "reviews", "imdb"):
        variants = [one for one in STREAM_VARIANTS.get(name, [""]) if name + one in wanted or not wanted]
        if not variants:
            continue
        found = prepare(catalogue[name], sources)
        X, y = sparse.csr_matrix(found.X), np.asarray(found.y)
        if any("counts" in one or "log" in one for one in variants):
            with tempfile.TemporaryDirectory() as cache:
                entry = catalogue[name].model_copy(update={"scaling": "none", "range": None})
                counts = sparse.csr_matrix(prepare(entry, replace(sources, cache=Path(cache))).X, copy=True)
        for one in variants:
            if one == " counts":
                yield name + one, counts, y
            elif one == " log(1 + counts)":
                yield name + one, counts.log1p(), y
            elif one == " scales":
                scales = 10.0 ** np.random.default_rng(1).uniform(-3, 6, X.shape[1])
                yield name + one, sparse.csr_matrix(X @ sparse.diags(scales)), y
            else:
                yield name + one, X, y


STREAM_VARIANTS = {
    "ijcnn1": ["", " scales"],
    "covtype": ["", " scales"],
    "imdb": ["", " counts", " log(1 + counts)"],
}


def write_rows(path, X, y, repeats=1, separator=" "):
    """Write rows as text, values with six digits; ``| `` after the label is Vowpal Wabbit's format."""
    indices, values, bounds = (X.indices + 1).tolist(), X.data.tolist(), X.indptr.tolist()
    rows = (
        f"{label}{separator}" + " ".join(f"{i}:{v:.6g}" for i, v in zip(indices[a:b], values[a:b])) + "\n"
        for label, a, b in zip(y.tolist(), bounds, bounds[1:])
    )
    text = "".join(rows).encode()
    with path.open("wb") as file:
        for _ in range(repeats):
            file.write(text)
    return path


def split_rows(folder, X, y) -> Rows:
    """Random order, one row in six held out, as files."""
    X.sort_indices()
    order = np.random.default_rng(0).permutation(X.shape[0])
    n = X.shape[0] * (HELD_OUT - 1) // HELD_OUT
    (X, X_test), (y, y_test) = ((of[order[:n]], of[order[n:]]) for of in (X, y))
    files = [write_rows(folder / f"{one}.svm", *of) for one, of in (("train", (X, y)), ("test", (X_test, y_test)))]
    for one, of in (("train", (X, y)), ("test", (X_test, y_test))):
        write_rows(folder / f"{one}.vw", *of, separator=" | ")
    return Rows(X, y, X_test, y_test, *files)


def held_out_auc(rows: Rows, scores) -> float:
    return auc_score(rows.y_test, np.array([float(line.split()[0]) for line in Path(scores).read_text().splitlines()]))


def ours(folder, train, *options) -> Usage:
    return measured_command("train", train, *options, "--overwrite", "--out", folder / "model.npz")


def scored(folder, rows) -> float:
    measured_command("score", folder / "model.npz", rows.test, "--overwrite", "--out", folder / "scores.txt")
    return held_out_auc(rows, folder / "scores.txt")


def best_single(rows: Rows) -> tuple[float, str]:
    """The greatest held-out AUC of a learner whose setting was selected on the last fifth of the rows."""
    found, cut = [], len(rows.y) * 4 // 5
    order = np.arange(len(rows.y))
    for name, axes in SINGLE_GRIDS.items():
        if rows.X.shape[1] > SINGLE_MOST_FEATURES.get(name, rows.X.shape[1]):
            continue
        settings = dict(zip(axes, np.array(list(product(*axes.values()))).T))
        learner = get_learner(name)(**({"refresh": True} if name == "ftrl_proximal" else {}))
        coef = learner.fit_grid(rows.X, rows.y, settings, order=order[:cut])
        finite = np.isfinite(coef).all(axis=0)
        if not finite.any():
            continue
        aucs = np.where(finite, auc_columns(rows.y[cut:], rows.X[cut:] @ np.where(finite, coef, 0.0)), -1.0)
        best = {axis: values[[np.argmax(aucs)]] for axis, values in settings.items()}
        found.append((auc_score(rows.y_test, rows.X_test @ learner.fit_grid(rows.X, rows.y, best)[:, 0]), name))
    return max(found)


def vowpal_wabbit(python: str) -> bool:
    """Whether an interpreter has Vowpal Wabbit."""
    return subprocess.run([python, "-c", "import vowpalwabbit"], capture_output=True, check=False).returncode == 0


def compare_aucs(folder, wanted, vw) -> list[str]:
    """Held-out AUC after one pass in random order, ours beside others; returns what is below its target."""
    heads = ("auto", "no tuning", "best single learner", "VW", "SGD", "learner", "rows/s")
    widths = (8, 11, 27, 8, 8, 15, 10)
    print(f"{'':<22}" + "".join(f"{head:>{width}}" for head, width in zip(heads, widths)))
    missed = []
    for name, X, y in stream_rows(wanted):
        rows = split_rows(folder, X, y)
        untuned = ours(folder, rows.train, "--no-tune") and scored(folder, rows)
        usage = ours(folder, rows.train)
        tuned = scored(folder, rows)
        learner = LinearModel.load(folder / "model.npz").learner
        single, which = best_single(rows)
        theirs = None
        if vw:
            files = [folder / one for one in ("train.vw", "test.vw", "vw.model", "vw.txt")]
            measured([vw, "-c", VW, *files])
            theirs = held_out_auc(rows, folder / "vw.txt")
        measured([sys.executable, "-c", SGD, rows.train, rows.test, X.shape[1], folder / "sgd.txt"])
        sgd = held_out_auc(rows, folder / "sgd.txt")
        cells = [f"{tuned:.4f}", f"{untuned:.4f}", f"{single:.4f} ({which})", f"{theirs:.4f}" if theirs else "-"]
        cells += [f"{sgd:.4f}", learner, f"{len(rows.y) / usage.cpu:,.0f}"]
        print(f"{name:<22}" + "".join(f"{one:>{width}}" for one, width in zip(cells, widths)), flush=True)
        if tuned < single - 0.002:
            missed.append(f"{name}: {tuned:.4f}, {which} tuned on held-out training rows {single:.4f}")
        if theirs is not None and tuned < theirs - 0.001:
            missed.append(f"{name}: {tuned:.4f}, Vowpal Wabbit {theirs:.4f}")
    return missed


def compare_speed(folder, vw, repetitions=3) -> list[str]:
    """One pass over the rows of imdb 13 times over; wall times are the least of some, taken in turn."""
    (_, X, y), *_ = stream_rows(["imdb"])
    rows = split_rows(folder, X, y)
    large = write_rows(folder / "large.svm", rows.X, rows.y, REPEATS)
    write_rows(folder / "large.vw", rows.X, rows.y, REPEATS, " | ")
    n_rows = REPEATS * len(rows.y)
    print(f"\n{n_rows:,} rows, {large.stat().st_size / 1e6:,.0f} MB, {X.shape[1]:,} features")
    jobs = {
        "auto": lambda: ours(folder, large),
        "no tuning": lambda: ours(folder, large, "--no-tune"),
        **({"VW": lambda: measured([vw, "-c", VW, folder / "large.vw", "", folder / "vw.model", ""])} if vw else {}),
        "SGD": lambda: measured([sys.executable, "-c", SGD, large, "", X.shape[1], ""]),
    }
    taken: dict[str, list[Usage]] = {name: [] for name in jobs}
    for _ in range(repetitions):
        for name, job in jobs.items():
            taken[name].append(job())
    print(f"{'':<12}{'wall s':>8}{'CPU s':>8}{'MB':>6}{'rows/s':>10}   (load {os.getloadavg()[0]:.1f})")
    wall = {name: min(one.wall for one in usages) for name, usages in taken.items()}
    for name, usages in taken.items():
        cpu, megabytes = min(one.cpu for one in usages), max(one.megabytes for one in usages)
        print(f"{name:<12}{wall[name]:>8.1f}{cpu:>8.1f}{megabytes:>6.0f}{n_rows / wall[name]:>10,.0f}")
    limits = {"auto": 2.0, "no tuning": 1.1} if vw else {}
    missed = [
        f"{name}: {wall[name] / wall['VW']:.2f} times the wall time of Vowpal Wabbit, at most {limit} wanted"
        for name, limit in limits.items()
        if wall[name] > limit * wall["VW"]
    ]
    return missed + [
        f"{name}: {max(one.megabytes for one in taken[name]):.0f} MB, less than 300 wanted"
        for name in ("auto", "no tuning")
        if max(one.megabytes for one in taken[name]) >= 300
    ]


def stream(megabytes: list[int], parts: list[str], datasets: list[str], vw_python: str) -> None:
    """AUC, speed and memory of ``opauc-bench train``, beside Vowpal Wabbit (if it is installed) and SGDClassifier.

    auc: held-out AUC after one pass over datasets in random order: ``train`` as it is, with ``--no-tune``, and the best
    of our learners with a setting selected on the last fifth of the rows. speed: a file of 1 GB. memory: peak memory
    and speed on made-up files of 10 MB and of 1 GB, sparse rows of 50 features out of 47,000, and dense ones of 20;
    memory must not grow. Files are made in a temporary folder, which needs 3 GB of disk and is deleted in the end.
    """
    vw = vw_python if vowpal_wabbit(vw_python) else None
    missed = []
    with tempfile.TemporaryDirectory() as name:
        if "auc" in parts:
            missed += compare_aucs(Path(name), datasets, vw)
        if "speed" in parts:
            missed += compare_speed(Path(name), vw)
    if {"auc", "speed"} & set(parts):
        print()
        print_missed(missed)
    if "memory" in parts:
        stream_memory(megabytes)


def stream_memory(megabytes: list[int]) -> None:
    """Peak memory and speed on a small and a large file."""
    missed = []
    heads = (
        ("rows", 12),
        ("MB of file", 12),
        ("MB of memory", 14),
        ("CPU s", 9),
        ("rows a CPU s", 14),
        ("MB a CPU s", 12),
    )
    print(" " * 20 + "".join(f"{head:>{width}}" for head, width in heads))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kind, learners in STREAM_LEARNERS.items():
            files = [write_stream(folder, kind, 1_000_000 * size) for size in megabytes]
            sizes = [path.stat().st_size / 1e6 for path, _ in files]
            model = folder / "model.npz"
            jobs = {
                f"train {one}": ("train", "--overwrite", "-l", one, "--no-tune", "--out", model) for one in learners
            }
            jobs["train auto"] = ("train", "--overwrite", "--out", model)
            jobs[f"score ({kind} rows)"] = ("score", model)
            for title, job in jobs.items():
                measured_command(*job, files[0][0])  # compiles, if need be
                peaks, times, _ = zip(*(measured_command(*job, path) for path, _ in files))
                spent = times[1] - times[0]  # the start of the program takes as long for either file
                speed = f"{(files[1][1] - files[0][1]) / spent:>14,.0f}{(sizes[1] - sizes[0]) / spent:>12.0f}"
                for (_, n_rows), size, peak, seconds in zip(files, sizes, peaks, times):
                    cells = f"{title:<20}{n_rows:>12,}{size:>12,.0f}{peak:>14.0f}{seconds:>9.1f}"
                    print(cells + (speed if size == sizes[1] else ""), flush=True)
                if peaks[1] > peaks[0] + MAY_GROW:
                    missed.append(f"{title}: {peaks[1] - peaks[0]:.0f} MB more for the large file")
            for path, _ in files:
                path.unlink()
    print_missed(missed, "Memory grows:", "Memory does not grow.")


# ---------------------------------------------------------------------- runner

EMPTY = '''
import numpy as np

from opauc_bench.learners import OnePassLearner


class Empty(OnePassLearner):
    """No work at all."""

    grid_axes = ("eta",)

    def __init__(self, eta=0.1):
        self.eta = eta

    def fit_grid(self, X, y, grid, *, order=None, on_chunk=None):
        return np.zeros((X.shape[1], len(grid["eta"])))
'''

EMPTY_CONFIG = """
title: Tasks with nothing in them
datasets: [wine]
learners: ["empty.py:Empty"]
grids: {{eta: [1]}}
protocol: {{trials: {trials}, folds: 5, inner_folds: 2}}
"""

REAL_CONFIG = """
title: Tasks of a second or so
datasets: [digits]
learners: [opauc, oam_gra]
grids: {{eta: {{pow2: [-12, 10]}}, lambda: {{pow2: [-10, 2]}}}}
protocol: {{trials: {trials}, folds: 5, inner_folds: 5}}
"""


class Cost(NamedTuple):
    """Of a run: seconds on the clock, CPU seconds with those of its workers, and peak MB, workers not counted."""

    wall: float
    cpu: float
    megabytes: float


def run_experiment(config: str, *options, **variables) -> Cost:
    """Run an experiment, and see what it costs."""
    command = [sys.executable, "-m", "opauc_bench", "run", config, "--quiet", *map(str, options)]
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=os.environ | variables)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)} failed")
    return Cost(time.perf_counter() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1e3)


def empty_tasks(count: int) -> None:
    """Time a few and many empty tasks; the difference is without the start of the workers."""
    print(f"Empty tasks (wine, {count} tasks):")
    for engine, options in (("loky", ()), ("dask", ("--backend", "dask"))):
        for jobs in (1, 2):
            costs = []
            for n in (count // 10, count):
                name = f"{engine}-{jobs}-{n}"
                Path(f"{name}.yaml").write_text(EMPTY_CONFIG.format(trials=n // 5))
                costs.append(run_experiment(f"{name}.yaml", "--jobs", jobs, *options))
            few, many = costs
            n = count - count // 10
            wall, cpu = n / (many.wall - few.wall), 1000 * (many.cpu - few.cpu) / n
            print(f"  {engine}, {jobs} workers: {wall:6.0f} a second, {cpu:.1f} ms of CPU time each", flush=True)


def many_tasks(count: int) -> None:
    """Peak memory of the runner's own process with very many tasks, and the time to see that they are all done."""
    Path("many.yaml").write_text(EMPTY_CONFIG.format(trials=count // 5))
    first, again = run_experiment("many.yaml", "--jobs", 2), run_experiment("many.yaml", "--jobs", 2)
    print(
        f"\n{count} tasks: {first.wall:.0f} s, {first.megabytes:.0f} MB in the runner's process; all done, seen in "
        f"{again.wall:.0f} s ({again.cpu:.0f} s of CPU time)",
        flush=True,
    )


def two_workers() -> None:
    """Wall-clock time of real tasks with one and with two workers, by turns: of a few, and what many more take."""
    sizes = {"few": 2, "many": 14}
    for name, trials in sizes.items():
        Path(f"{name}.yaml").write_text(REAL_CONFIG.format(trials=trials))
    run_experiment("few.yaml", "--jobs", 2, "--out", "warm")
    best = {(name, jobs): float("inf") for name in sizes for jobs in (1, 2)}
    for turn in range(2):
        for name, jobs in best:
            wall = run_experiment(f"{name}.yaml", "--jobs", jobs, "--out", f"{name}-{jobs}-{turn}").wall
            best[name, jobs] = min(best[name, jobs], wall)
    more = {jobs: best["many", jobs] - best["few", jobs] for jobs in (1, 2)}
    whole = {jobs: best["many", jobs] for jobs in (1, 2)}
    print(
        f"\n{10 * sizes['many']} real tasks: {whole[1]:.1f} s with one worker, {whole[2]:.1f} s with two, "
        f"{efficiency(whole):.2f} efficient; without start and end, {efficiency(more):.2f}",
        flush=True,
    )


def efficiency(seconds: dict[int, float]) -> float:
    return seconds[1] / (2 * seconds[2])


def schedules(config: Path) -> None:
    """End of the work when tasks of recorded lengths start in the runner's order, against the lower bound.

    The order goes by the estimates of ``plan``, as in a run, not by the recorded lengths.
    """
    session = Session.open(config, out=config.parents[1] / "results" / config.stem, sources=Sources.from_environment())
    recorded = Recorded.read(session)
    lengths = {record.id: _length(record) for _, record in recorded.pairs}
    if not lengths:
        print(f"\n{config.stem}: no records in {session.folder}/")
        return
    tasks = [task for task in {task.id: task for task in recorded.tasks}.values() if task.id in lengths]
    total, longest = sum(lengths.values()), max(lengths.values())
    print(f"\n{config.stem}: {len(tasks)} recorded tasks, {total / 3600:.1f} CPU hours, the longest {longest:.0f} s")
    for workers in (2, 64, 1000):
        bound = max(total / workers, longest)
        order = Engine(n_jobs=workers).ordered(tasks)
        end = makespan([lengths[task.id] for task in order], workers)
        print(f"  {workers:4d} workers: done after {end:6.0f} s, {end / bound:.2f} of the lower bound")


def planned_times(config: Path) -> None:
    """What ``plan`` says a table will cost on 2, 64 and 1,000 workers, from the learners' measured unit costs."""
    session = Session.open(config, sources=Sources.from_environment())
    tasks = make_plan(session.experiment, shapes_of(session, {}), session.columns)
    total, longest = sum(task.seconds for task in tasks), max(tasks, key=lambda task: task.seconds)
    print(
        f"\n{config.stem}: {len(tasks)} tasks, {total / 3600:,.0f} CPU hours; "
        f"the longest, {longest.dataset} {longest.column}, {longest.seconds / 3600:.2f} h"
    )
    for workers in (2, 64, 1000):
        end = makespan([task.seconds for task in Engine(n_jobs=workers).ordered(tasks)], workers)
        print(f"  {workers:4d} workers: {end / 3600:,.2f} h")


def _length(record: Record) -> float:
    timing = record.timing
    selection = timing.wall_seconds if timing.selection_cpu_seconds is None else timing.selection_cpu_seconds
    return selection + (timing.fit_cpu_seconds or 0.0)


def makespan(lengths: Iterable[float], workers: int) -> float:
    """When the last task ends if each starts on the first worker that is free."""
    free = [0.0] * workers
    for seconds in lengths:
        heapq.heapreplace(free, free[0] + seconds)
    return max(free)


def runner(tasks: int, many: int, configs: list[Path]) -> None:
    """What the runner itself costs: tasks a second without work in them, memory, efficiency, and the order of tasks.

    Prints, for each engine, empty tasks a second; the memory of the runner with very many tasks; how much faster two
    workers are than one on real tasks; and for tasks as long as those on record, how near the order in which they are
    started comes to the best possible end on 2, 64 and 1,000 workers.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    configs = [config.resolve() for config in configs]
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        Path("empty.py").write_text(EMPTY)
        print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n")
        empty_tasks(tasks)
        many_tasks(many)
        two_workers()
    for config in configs:
        schedules(config)
        planned_times(config)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, metavar="BENCHMARK")

    def add(name: str, function: Callable) -> argparse.ArgumentParser:
        about = inspect.getdoc(function)
        command = commands.add_parser(
            name,
            help=about.partition("\n")[0],
            description=about,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.set_defaults(function=function)
        return command

    of_kernels = add("kernels", kernels)
    of_kernels.add_argument("--dimensions", type=int, nargs="+", default=DIMENSIONS, help="numbers of features")
    add("batch", batch)
    of_highdim = add("highdim", highdim)
    of_highdim.add_argument(
        "names", nargs="*", metavar="SHAPE|LEARNER", choices=[*HIGHDIM_SHAPES, *HIGHDIM_LEARNERS, []], default=[]
    )
    add("sparse", sparse_learners)
    of_stream = add("stream", stream)
    of_stream.add_argument("--parts", nargs="+", choices=STREAM_PARTS, default=STREAM_PARTS, help="what to measure")
    of_stream.add_argument("--datasets", nargs="+", default=[], help="of the comparison of AUCs (default: all)")
    of_stream.add_argument("--vw-python", default=sys.executable, help="interpreter that has vowpalwabbit")
    of_stream.add_argument("--megabytes", type=int, nargs=2, default=(10, 1000), help="a small file and a large one")
    of_runner = add("runner", runner)
    of_runner.add_argument("--tasks", type=int, default=2000, help="empty tasks per timing")
    of_runner.add_argument("--many", type=int, default=100_000, help="empty tasks for the measurement of memory")
    of_runner.add_argument(
        "--configs",
        nargs="*",
        type=Path,
        default=[Path("configs/table2.yaml")],
        help="of recorded results, for lengths",
    )
    given = vars(parser.parse_args())
    function = given.pop("function")
    if function in (runner, stream):  # their work is done in other processes
        function(**given)
    else:
        with threadpool_limits(1):
            function(**given)


if __name__ == "__main__":
    main()
