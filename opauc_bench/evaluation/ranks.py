"""Several learners over several datasets: average ranks, Friedman's test, Nemenyi's critical difference, and Wilcoxon's
signed-rank test with Holm's correction.

Let ``r_ij`` be the rank of learner ``j`` on dataset ``i`` (1 is best, ties share the mean of their ranks) and ``R_j``
the mean of a learner's ranks over ``N`` datasets, ``k`` learners in all. After J. Demsar, Statistical comparisons of
classifiers over multiple data sets, Journal of Machine Learning Research 7 (2006), section 3.2:

* Friedman: ``chi2 = 12 N / (k (k + 1)) (sum_j R_j^2 - k (k + 1)^2 / 4)`` with ``k - 1`` degrees of freedom, corrected
  for ties;
* Iman and Davenport's less conservative form: ``F = (N - 1) chi2 / (N (k - 1) - chi2)`` with ``k - 1`` and
  ``(k - 1) (N - 1)`` degrees of freedom;
* Nemenyi: two learners differ where their mean ranks do by at least ``CD = q sqrt(k (k + 1) / (6 N))``, where ``q`` is
  the upper quantile of the studentized range of ``k`` variables, infinite degrees of freedom, over ``sqrt(2)``;
* Wilcoxon (section 3.1.3) compares two learners, and Holm (section 3.2.2) several with one of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from .auc import AUC_DECIMALS

__all__ = ["RankTest", "critical_difference", "friedman_nemenyi", "holm", "wilcoxon_test"]


@dataclass(frozen=True)
class RankTest:
    """Outcome of Friedman's and Nemenyi's tests.

    Attributes
    ----------
    n_datasets : int
    ranks : tuple of float
        Mean rank of each learner, 1 is best.
    chi2, p_chi2 : float
        Friedman's statistic and its p-value.
    f, p_f : float
        Iman and Davenport's; `f` is infinite where all datasets have the same ranks.
    critical_difference : float
        In units of ranks.
    groups : tuple of tuple of int
        Positions of learners that do not differ significantly, best first; groups of at least two that are part of no
        other group.
    """

    n_datasets: int
    ranks: tuple[float, ...]
    chi2: float
    p_chi2: float
    f: float
    p_f: float
    critical_difference: float
    groups: tuple[tuple[int, ...], ...]


def friedman_nemenyi(scores: ArrayLike, alpha: float = 0.05) -> RankTest:
    """Rank learners on each dataset, and test whether the mean ranks differ.

    Parameters
    ----------
    scores : array-like of shape (n_datasets, n_learners)
        Higher is better; complete.
    alpha : float
        Level of the critical difference.

    Raises
    ------
    ValueError
        If there are fewer than two datasets or three learners, or a score is not finite.
    """
    from scipy.special import chdtrc, fdtrc
    from scipy.stats import rankdata

    scores = np.asarray(scores, dtype=np.float64)
    if scores.ndim != 2 or scores.shape[0] < 2 or scores.shape[1] < 3:
        raise ValueError(f"scores must have at least 2 datasets and 3 learners, got shape {scores.shape}")
    if not np.isfinite(scores).all():
        raise ValueError("scores must be complete and finite")
    n, k = scores.shape
    # Equal means of other folds may differ in the last bit.
    by_dataset = rankdata(-np.round(scores, AUC_DECIMALS), axis=1)
    ranks = by_dataset.mean(axis=0)
    spread = ((by_dataset - (k + 1) / 2) ** 2).sum()
    between = n * ((ranks - (k + 1) / 2) ** 2).sum()
    chi2 = float(n * (k - 1) * between / spread) if spread else 0.0
    rest = n * (k - 1) - chi2
    # The same order on all datasets leaves no rest but that of rounding.
    f = (n - 1) * chi2 / rest if rest > 1e-9 * n * k else math.inf
    difference = critical_difference(n, k, alpha)
    return RankTest(
        n_datasets=n,
        ranks=tuple(float(rank) for rank in ranks),
        chi2=chi2,
        p_chi2=float(chdtrc(k - 1, chi2)),
        f=float(f),
        p_f=float(fdtrc(k - 1, (k - 1) * (n - 1), f)) if math.isfinite(f) else 0.0,
        critical_difference=difference,
        groups=_groups(ranks, difference),
    )


def critical_difference(n_datasets: int, n_learners: int, alpha: float = 0.05) -> float:
    """Nemenyi's critical difference of two mean ranks (Demsar, 2006, equation 7)."""
    from scipy.stats import studentized_range

    q = float(studentized_range.ppf(1 - alpha, n_learners, np.inf)) / math.sqrt(2)
    return q * math.sqrt(n_learners * (n_learners + 1) / (6 * n_datasets))


def wilcoxon_test(differences: ArrayLike) -> tuple[float, float]:
    """Wilcoxon's signed-rank test of two learners over several datasets, two-sided.

    Parameters
    ----------
    differences : array-like of shape (n_datasets,)
        Mean AUC of one learner minus that of the other on each dataset.

    Returns
    -------
    statistic : float
        The smaller of the rank sums of the positive and the negative differences. The ranks of differences of 0 are
        divided between both.
    p_value : float
        Exact up to 50 datasets without ties (13 with ties or zeros), otherwise from the normal approximation.

    Raises
    ------
    ValueError
        If the differences are not one-dimensional, at least two, and finite.
    """
    from scipy.stats import wilcoxon

    # Equal differences such as .83 - .82 and .73 - .72 have equal ranks only without their rounding errors.
    differences = np.round(np.asarray(differences, dtype=np.float64), AUC_DECIMALS)
    if differences.ndim != 1 or differences.size < 2 or not np.isfinite(differences).all():
        raise ValueError(f"differences must be one-dimensional, at least two, and finite, got {differences}")
    found = wilcoxon(differences, zero_method="zsplit")
    return float(found.statistic), min(float(found.pvalue), 1.0)


def holm(p_values: ArrayLike) -> np.ndarray:
    """Adjust p-values for several comparisons (S. Holm, Scandinavian Journal of Statistics 6, 1979).

    Parameters
    ----------
    p_values : array-like of shape (n_comparisons,)

    Returns
    -------
    numpy.ndarray of shape (n_comparisons,)
        A hypothesis is rejected at the level alpha where its adjusted p-value is below alpha; then the probability of
        rejecting any true one is at most alpha.
    """
    p_values = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p_values, kind="stable")
    stepped = p_values[order] * np.arange(len(p_values), 0, -1)
    adjusted = np.empty_like(stepped)
    adjusted[order] = np.minimum(np.maximum.accumulate(stepped), 1.0)
    return adjusted


def _groups(ranks: np.ndarray, difference: float) -> tuple[tuple[int, ...], ...]:
    order = np.argsort(ranks, kind="stable")
    groups: list[tuple[int, ...]] = []
    reached = 0
    for start in range(len(order)):
        end = start + 1
        while end < len(order) and ranks[order[end]] - ranks[order[start]] < difference:
            end += 1
        if end - start > 1 and end > reached:
            groups.append(tuple(int(i) for i in order[start:end]))
            reached = end
    return tuple(groups)
