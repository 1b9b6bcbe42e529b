"""What several benchmarks need."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import scipy.linalg  # noqa: F401  compiled np.dot calls SciPy's BLAS, which has to be loaded to be limited
from scipy import sparse

from opauc_bench.data import Sources, find_prepared, load_catalogue


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
