"""Bayesian comparison of two learners, on the folds of one dataset and over several datasets.

Both tests divide the differences ``a - b`` into three regions: ``a`` is better by more than `rope`, the two are
practically equivalent (between ``-rope`` and ``rope``), or ``a`` is worse by more than `rope`. They give the posterior
probability of each. A large probability of the second says that the learners are equivalent; a large p-value does not.

* `bayesian_t_test`: G. Corani and A. Benavoli, A Bayesian approach for comparing cross-validated algorithms on
  multiple data sets, Machine Learning 100 (2015).
* `bayesian_signed_rank_test`: A. Benavoli and others, A Bayesian Wilcoxon signed-rank test based on the Dirichlet
  process, ICML 2014.

A. Benavoli, G. Corani, J. Demsar and M. Zaffalon, Time for a change: a tutorial for comparing multiple classifiers
through Bayesian analysis, Journal of Machine Learning Research 18 (2017), describes both.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from .auc import AUC_DECIMALS
from .significance import Verdict, corrected_variance_factor, mean_and_spread

__all__ = ["ROPE", "Posterior", "bayesian_signed_rank_test", "bayesian_t_test"]

ROPE = 0.005
N_SAMPLES = 50_000
PRIOR_STRENGTH = 0.5


@dataclass(frozen=True)
class Posterior:
    """Posterior probabilities of the three regions; their sum is 1.

    Attributes
    ----------
    better, equivalent, worse : float
        That ``a`` is better than ``b`` by more than the rope, practically equivalent, or worse by more than the rope.
    """

    better: float
    equivalent: float
    worse: float

    def verdict(self, alpha: float = 0.05) -> Verdict:
        """Say which of the three has a probability above ``1 - alpha``: 'win', 'equivalent', 'loss' or 'undecided'."""
        probabilities: dict[Verdict, float] = {"win": self.better, "equivalent": self.equivalent, "loss": self.worse}
        return next((name for name, probability in probabilities.items() if probability > 1 - alpha), "undecided")


def bayesian_t_test(a: ArrayLike, b: ArrayLike, test_fraction: float, rope: float = ROPE) -> Posterior:
    """Bayesian correlated t-test of two learners on the folds of one dataset.

    The posterior of the mean difference is Student's t with ``J - 1`` degrees of freedom, located at the mean ``m`` of
    the ``J`` differences, with the squared scale ``(1 / J + n_test / n_train) s^2``: the variance of
    `opauc_bench.evaluation.significance.corrected_t_test`. This is the posterior under the matching prior of Corani and
    Benavoli: with ``rope=0``, twice the smaller probability is the p-value of that test.

    Parameters
    ----------
    a, b : array-like of shape (n_folds,)
        AUC values of two learners on the same folds, in the same order.
    test_fraction : float
        Share of the rows in a test set, such as 1 / 5 for 5-fold cross-validation.
    rope : float
        Half the width of the region of practical equivalence, in units of AUC.

    Returns
    -------
    Posterior
        Of constant differences, the region that they are in has probability 1; its ends belong to the equivalence.

    Raises
    ------
    ValueError
        If ``a`` and ``b`` are not one-dimensional, of one length of at least 2, and finite, if `test_fraction` is not
        between 0 and 1, or if `rope` is negative or not finite.
    """
    from scipy.special import stdtr

    n, mean, spread = mean_and_spread(a, b)
    scale = spread * math.sqrt(corrected_variance_factor(n, test_fraction))
    _check_rope(rope)
    if scale == 0:
        better, worse = float(mean > rope), float(mean < -rope)
    else:
        better, worse = float(stdtr(n - 1, (mean - rope) / scale)), float(stdtr(n - 1, (-rope - mean) / scale))
    return Posterior(better, max(0.0, 1.0 - better - worse), worse)


def bayesian_signed_rank_test(
    differences: ArrayLike,
    rope: float = ROPE,
    *,
    prior_strength: float = PRIOR_STRENGTH,
    n_samples: int = N_SAMPLES,
    seed: int = 0,
) -> Posterior:
    """Bayesian signed-rank test of two learners over several datasets.

    The differences are a sample of a distribution with a Dirichlet process as prior, of strength ``s`` and concentrated
    at ``z_0 = 0``. So its posterior gives the weights ``w ~ Dirichlet(s, 1, ..., 1)`` to ``z_0`` and the differences
    ``z_1 .. z_n``. Of each draw of ``w``, the three regions have the masses ``sum_ij w_i w_j`` over the pairs with
    ``z_i + z_j > 2 rope``, in ``[-2 rope, 2 rope]``, and ``< -2 rope``. The posterior probability of a region is the
    share of the draws in which its mass is the largest.

    Parameters
    ----------
    differences : array-like of shape (n_datasets,)
        Mean AUC of ``a`` minus that of ``b`` on each dataset.
    rope : float
        Half the width of the region of practical equivalence, in units of AUC.
    prior_strength : float
        ``s``; the weight of the prior in units of datasets.
    n_samples : int
        Number of draws. The Monte Carlo error of a probability of .95 is .001 for 50,000.
    seed : int
        Of the draws; the same seed gives the same probabilities.

    Returns
    -------
    Posterior

    Raises
    ------
    ValueError
        If the differences are not one-dimensional, at least one, and finite, if `rope` is negative or not finite, or if
        `prior_strength` is not positive.
    """
    z = np.asarray(differences, dtype=np.float64)
    if z.ndim != 1 or z.size < 1 or not np.isfinite(z).all():
        raise ValueError(f"differences must be one-dimensional, at least one, and finite, got {z}")
    if not 0 < prior_strength < math.inf:
        raise ValueError(f"prior_strength must be positive, got {prior_strength}")
    _check_rope(rope)
    z = np.concatenate([[0.0], z])
    sums = z[:, np.newaxis] + z
    weights = _draw_weights(prior_strength, z.size - 1, n_samples, seed)
    rounding = 10.0**-AUC_DECIMALS  # of sums that are equal to the end of the region: it must not decide
    better = ((weights @ (sums > 2 * rope + rounding)) * weights).sum(axis=1)
    worse = ((weights @ (sums < -2 * rope - rounding)) * weights).sum(axis=1)
    equivalent = 1 - better - worse
    # Of equal masses the equivalence counts.
    is_better, is_worse = (better > equivalent) & (better > worse), (worse > equivalent) & (worse > better)
    n_better, n_worse = int(np.count_nonzero(is_better)), int(np.count_nonzero(is_worse))
    return Posterior(n_better / n_samples, (n_samples - n_better - n_worse) / n_samples, n_worse / n_samples)


@functools.lru_cache(maxsize=4)
def _draw_weights(prior_strength: float, n_datasets: int, n_samples: int, seed: int) -> np.ndarray:
    # The streams of RandomState are fixed for all versions of NumPy, so a page has the same bytes everywhere.
    weights = np.random.RandomState(seed).dirichlet([prior_strength, *[1.0] * n_datasets], n_samples)
    weights.flags.writeable = False
    return weights


def _check_rope(rope: float) -> None:
    if not 0 <= rope < math.inf:
        raise ValueError(f"rope must be a finite number >= 0, got {rope}")
