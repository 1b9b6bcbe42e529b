"""Choose which five classes of usps and mnist are positive.

The AIJ paper (2016, section 7.1) parts ten digits at random into two groups of five and does not say which.
There are only 126 such partitions. This script measures each with the cheapest of the paper's methods,
batch least squares over pairs, and prints the one whose test AUC is nearest to the published "batch LS-SVM"
value of Table 3.

The choice calibrates on that one column and on nothing else: agreement in any other column is a result,
agreement in this one is not. Run it with the data in the cache or in a mirror (usps takes half a minute,
mnist five):

    python scripts/choose_partition.py usps mnist

Method: the minimiser of lam/2 |w|^2 + mean over pairs of (1 - w.(x+ - x-))^2 / 2 (Eq. 4 with the mean over
pairs) has the direction u = (lam I + S+ + S-)^-1 (c+ - c-), with c the class means and S the biased class
covariances; AUC depends on the direction only. Five trials of stratified 5-fold cross-validation; at most
8,000 training rows a fold, as in the paper; lam in 2^[-10:10], the best one for each partition by mean test
AUC (one choice among 21 on all test rows: its optimism is far below the spread between partitions). Counts,
sums and second moments are kept per digit, so that a partition costs one eigendecomposition a fold.
"""

import argparse
import itertools

import numpy as np
from scipy.linalg import eigh
from sklearn.model_selection import StratifiedKFold
from threadpoolctl import threadpool_limits

from opauc_bench.data import Sources, load_catalogue, read_original
from opauc_bench.errors import OpaucBenchError
from opauc_bench.evaluation.auc import auc_columns

PUBLISHED = {"usps": 0.9634, "mnist": 0.9336}  # AIJ 2016, Table 3, batch LS-SVM
LAMBDAS = 2.0 ** np.arange(-10, 11)
MAX_TRAIN = 8000
FOLDS = 5

Moments = tuple[np.ndarray, np.ndarray, np.ndarray]


def moments(X: np.ndarray, digits: np.ndarray, classes: np.ndarray) -> Moments:
    """Return counts (k,), sums (k, d) and second moments (k, d, d) of the rows of each of k classes."""
    rows = [X[digits == label] for label in classes]
    return (
        np.array([len(x) for x in rows], dtype=float),
        np.array([x.sum(axis=0) for x in rows]),
        np.array([x.T @ x for x in rows]),
    )


def directions(statistics: Moments, positive: np.ndarray) -> np.ndarray:
    """Return u(lam) for every lam, shape (d, len(LAMBDAS)); ``positive`` is a mask over classes."""
    counts, sums, seconds = statistics
    scatter, means = 0.0, []
    for group in (positive, ~positive):
        n = counts[group].sum()
        mean = sums[group].sum(axis=0) / n
        scatter = scatter + seconds[group].sum(axis=0) / n - np.outer(mean, mean)
        means.append(mean)
    values, vectors = eigh(scatter, overwrite_a=True, driver="evd")
    coordinates = vectors.T @ (means[0] - means[1])
    return vectors @ (coordinates[:, None] / (np.maximum(values, 0.0)[:, None] + LAMBDAS))


def partition_aucs(X: np.ndarray, digits: np.ndarray, n_trials: int, seed: int) -> dict[tuple[int, ...], float]:
    """Return the mean test AUC of every partition of the classes into two halves.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    digits : ndarray of shape (n_samples,)
        An even number of classes.
    n_trials : int
        Repetitions of the cross-validation.
    seed : int
        Of the folds and of the choice of training rows.

    Returns
    -------
    dict
        The half with the smallest label, to its AUC.
    """
    classes = np.unique(digits)
    first, *others = range(len(classes))
    halves = [(first, *rest) for rest in itertools.combinations(others, len(classes) // 2 - 1)]
    totals = np.zeros((len(halves), len(LAMBDAS)))
    for trial in range(n_trials):
        rng = np.random.default_rng([seed, trial])
        folds = StratifiedKFold(FOLDS, shuffle=True, random_state=int(rng.integers(2**32)))
        for train, test in folds.split(np.zeros(len(digits)), digits):
            if len(train) > MAX_TRAIN:
                train = rng.choice(train, MAX_TRAIN, replace=False)
            statistics = moments(X[train], digits[train], classes)
            X_test = X[test]
            for row, half in enumerate(halves):
                positive = np.isin(np.arange(len(classes)), half)
                scores = X_test @ directions(statistics, positive)
                totals[row] += auc_columns(np.isin(digits[test], classes[positive]), scores)
    best = totals.max(axis=1) / (n_trials * FOLDS)
    return {tuple(int(classes[k]) for k in half): float(auc) for half, auc in zip(halves, best)}


def main() -> None:
    """Print the spread over the partitions and those nearest to the published value."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("datasets", nargs="*", help=f"any of {', '.join(PUBLISHED)} (default: all)")
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    unknown = set(arguments.datasets) - set(PUBLISHED)
    if unknown:
        parser.error(f"expected {' or '.join(PUBLISHED)}, got {', '.join(sorted(unknown))}")
    sources, catalogue = Sources.from_environment(), load_catalogue()
    for name in arguments.datasets or PUBLISHED:
        with threadpool_limits(1):
            X, digits = read_original(catalogue[name], sources)
            found = partition_aucs(X, digits, arguments.trials, arguments.seed)
        values = np.array(list(found.values()))
        print(
            f"{name}: {len(found)} partitions, AUC {values.min():.4f} (min) {np.median(values):.4f} (median) "
            f"{values.max():.4f} (max); published {PUBLISHED[name]:.4f}"
        )
        for half in sorted(found, key=lambda half: abs(found[half] - PUBLISHED[name]))[:5]:
            print(f"  {found[half]:.4f}  positive: {list(half)}")


if __name__ == "__main__":
    try:
        main()
    except OpaucBenchError as error:
        raise SystemExit(f"error: {error}") from None
