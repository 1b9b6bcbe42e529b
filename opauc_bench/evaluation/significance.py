"""Significance of a difference between two learners that were scored on the same folds.

Let ``d_1 .. d_J`` be the differences of the paired AUC values, ``m`` their mean and ``s`` their standard deviation.
Both tests compare ``t = m / (s sqrt(v))`` with Student's t with ``J - 1`` degrees of freedom, two-sided. They differ in
``v``:

* ``v = 1 / J``: the paired t-test of the paper (AIJ 2016, section 7.1). It assumes independent folds, but the training
  sets of cross-validation overlap, so it rejects a true null hypothesis far more often than ``alpha``.
* ``v = 1 / J + n_test / n_train``: C. Nadeau and Y. Bengio, Inference for the generalization error, Machine Learning 52
  (2003). Exact for normal differences of equal correlation ``n_test / (n_test + n_train)``.

`opauc_bench.evaluation.bayes` has the Bayesian test with the variance of the corrected one.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from .auc import AUC_DECIMALS

__all__ = [
    "TestResult",
    "Verdict",
    "corrected_t_test",
    "corrected_variance_factor",
    "mean_and_spread",
    "paired_t_test",
]


# A t-test ends with win, tie or loss, a Bayesian test with win, equivalent, loss or undecided.
Verdict = Literal["win", "tie", "loss", "equivalent", "undecided"]


@dataclass(frozen=True)
class TestResult:
    """Outcome of a two-sided test of a zero mean difference.

    Attributes
    ----------
    statistic : float
        Student's t; infinite when the differences are constant and not zero, 0 when all are zero.
    p_value : float
        Two-sided, in [0, 1].
    mean_difference : float
        Mean of ``a - b``, in units of AUC.
    """

    __test__ = False  # the name starts with Test, and pytest would take it for a test class

    statistic: float
    p_value: float
    mean_difference: float

    def verdict(self, alpha: float = 0.05) -> Verdict:
        """Say whether ``a`` is significantly better ('win'), worse ('loss') or neither ('tie') than ``b``."""
        if self.p_value >= alpha:
            return "tie"
        return "win" if self.mean_difference > 0 else "loss"


def paired_t_test(a: ArrayLike, b: ArrayLike) -> TestResult:
    """Two-sided paired t-test.

    Parameters
    ----------
    a, b : array-like of shape (n_folds,)
        AUC values of two learners on the same folds, in the same order.

    Returns
    -------
    TestResult
        All-zero differences give p = 1, constant differences other than zero p = 0.

    Raises
    ------
    ValueError
        If the two are not one-dimensional, of one length of at least 2, and finite.
    """
    n, mean, spread = mean_and_spread(a, b)
    return _t_test(n, mean, spread, 1 / n)


def corrected_t_test(a: ArrayLike, b: ArrayLike, test_fraction: float) -> TestResult:
    """Corrected resampled t-test of Nadeau and Bengio; see `paired_t_test`.

    ``test_fraction`` is the share of the rows in a test set, such as 1 / 5 for 5-fold cross-validation; ValueError if
    it is not between 0 and 1.
    """
    n, mean, spread = mean_and_spread(a, b)
    return _t_test(n, mean, spread, corrected_variance_factor(n, test_fraction))


def corrected_variance_factor(n: int, test_fraction: float) -> float:
    """Nadeau and Bengio's ``1 / J + n_test / n_train`` for `n` folds; for `test_fraction` see `corrected_t_test`."""
    if not 0 < test_fraction < 1:
        raise ValueError(f"test_fraction must lie between 0 and 1, got {test_fraction}")
    return 1 / n + test_fraction / (1 - test_fraction)


def mean_and_spread(a: ArrayLike, b: ArrayLike) -> tuple[int, float, float]:
    """Number, mean and standard deviation (``ddof=1``) of the paired differences ``a - b``.

    The standard deviation of differences that are equal but for rounding is exactly 0, and their mean is rounded. For
    the errors see `paired_t_test`.
    """
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if a.ndim != 1 or a.shape != b.shape or a.size < 2:
        raise ValueError(
            f"a paired test needs two one-dimensional arrays of one length >= 2, got {a.shape} and {b.shape}"
        )
    difference = a - b
    if not np.isfinite(difference).all():
        raise ValueError("a paired test needs finite values")
    # The range decides, not the standard deviation: rounding of the mean leaves equal values a tiny one.
    if np.ptp(difference) <= 10.0**-AUC_DECIMALS:
        return difference.size, round(float(difference.mean()), AUC_DECIMALS), 0.0
    return difference.size, float(difference.mean()), float(difference.std(ddof=1))


def _t_test(n: int, mean: float, spread: float, variance_factor: float) -> TestResult:
    from scipy.special import stdtr

    if spread == 0:
        statistic = math.copysign(math.inf, mean) if mean else 0.0
    else:
        statistic = mean / (spread * math.sqrt(variance_factor))
    p_value = 2 * float(stdtr(n - 1, -abs(statistic)))
    return TestResult(statistic, p_value, mean)
