"""CPU time of the learners for sparse rows, on one core, beside the targets.

Rows are made up: k draws of features (the more frequent ones more often), distinct ones kept, unit length.

kernel  nanoseconds a nonzero of one pass for one setting: allocation of the state and the compiled loop
pass    the same for ``fit_grid`` on all rows in a random order, which copies each row before it is learnt
grid    nanoseconds a nonzero and setting, for the whole grid of the FTRL-AUC paper (12 x 16 settings)
"""

import time
from itertools import product

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

from opauc_bench.learners import get_learner

REPETITIONS = 5
SHAPES = {"a9a-like": (123, 14, 21_707), "rcv1-like": (47_000, 75, 40_000), "news20-like": (1_355_191, 455, 13_333)}
TARGETS = {"a9a-like": 4.0, "rcv1-like": 5.0, "news20-like": 13.0}
GAMMA = np.array([1e-5, 5e-5, 1e-4, 5e-4, 1e-3, 5e-3, 1e-2, 5e-2, 0.1, 0.5, 1.0, 5.0])
L1 = np.array([1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 5e-3, 1e-2, 5e-2, 0.1, 0.3, 0.5, 0.7, 1.0, 3.0, 5.0])
GRID_ROWS = 300


def rows(d, draws, n, seed=0):
    """CSR rows of unit length and labels that depend on them a little."""
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


def seconds(run, *arguments, **options):
    """Least CPU time of several calls."""
    times = []
    for _ in range(1 + REPETITIONS):
        start = time.process_time()
        run(*arguments, **options)
        times.append(time.process_time() - start)
    return min(times)


def one_pass(learner, settings, X, y):
    """The state, and the compiled loop over all rows."""
    learner._consume(learner._begin(X.shape[1], settings), X, y)


def own_settings(learner):
    return {axis: np.array([getattr(learner, axis)]) for axis in learner.grid_axes}


def ftrl():
    print(f"{'':<14}{'d':>10}{'k':>6}{'learner':>16}{'kernel':>9}{'target':>8}{'pass':>8}{'grid':>8}")
    missed = []
    gamma, l1 = (axis.ravel() for axis in np.meshgrid(GAMMA, L1))
    for (name, (d, draws, n)), learner_name in product(SHAPES.items(), ("ftrl_auc", "ftrl_proximal")):
        X, y = rows(d, draws, n)
        learner, order = get_learner(learner_name)(), np.random.default_rng(1).permutation(n)
        settings = own_settings(learner)
        of_kernel = 1e9 * seconds(one_pass, learner, settings, X, y) / X.nnz
        of_pass = 1e9 * seconds(learner.fit_grid, X, y, settings, order=order) / X.nnz
        target = TARGETS[name] if learner_name == "ftrl_auc" else None
        if target and of_kernel > target:
            missed.append(f"{name}: {of_kernel:.1f} ns, wanted {target:g}")
        of_grid = ""
        if d < 1e6:
            few, state = X[:GRID_ROWS], learner._begin(d, {"gamma": gamma, "l1": l1})
            of_grid = f"{1e9 * seconds(learner._consume, state, few, y[:GRID_ROWS]) / few.nnz / len(l1):.2f}"
        cells = (f"{learner_name:>16}", f"{of_kernel:>9.1f}", f"{target or '':>8}", f"{of_pass:>8.1f}", f"{of_grid:>8}")
        print(f"{name:<14}{d:>10,}{X.nnz / n:>6.0f}", *cells, sep="", flush=True)
    return missed


def main():
    with threadpool_limits(1):
        missed = ftrl()
    print("All targets hold." if not missed else "\n".join(["Missed:", *missed]))


if __name__ == "__main__":
    main()
