"""Learners on dense rows: time of a row for a whole grid and for one setting, beside their targets."""

from __future__ import annotations

import time

import numpy as np
import scipy.linalg  # noqa: F401  compiled np.dot calls SciPy's BLAS, which has to be loaded to be limited
from llvmlite.binding import get_host_cpu_name
from numba import njit
from threadpoolctl import threadpool_info

from opauc_bench.learners import OPAUC

from .common import cpu_seconds, from_cache

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
