"""Learners for sparse rows: time of a row, beside the same on every coordinate."""

from __future__ import annotations

from itertools import product

import numpy as np
import scipy.linalg  # noqa: F401  compiled np.dot calls SciPy's BLAS, which has to be loaded to be limited
from numba import njit

from opauc_bench.learners import get_learner

from .common import cpu_seconds, own_settings, print_missed, sparse_rows

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
