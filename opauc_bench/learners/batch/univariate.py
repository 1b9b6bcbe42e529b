"""Base of the batch univariate losses: class weights, intercept, and the scale of lambda.

    lam/2 |w|^2 + sum_i W_i l(y_i (w'x_i + b)),        W_i = omega(y_i) / n  or  omega(y_i)

with the class weights omega of the online losses in `learners/univariate.py`. The intercept b is not
penalised. A sum of losses with lam is a mean of losses with lam / n.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ..parameters import POSITIVE, Boolean, Options
from .base import BatchLearner

__all__ = ["BatchUnivariate"]


class BatchUnivariate(BatchLearner):
    """Base class of the batch univariate losses.

    Parameters
    ----------
    lam : float, default=2**-7
        Regularisation; multiplies ``|w|^2 / 2``.
    weights : {'none', 'balanced', 'prior'}, default='none'
        Class weights: 'none' gives 1, 'balanced' n / (2 n_y), so that both classes weigh the same (Kotlowski et al.
        2011), 'prior' 2 n_y / n. The published values of Gao et al. 2016 are nearest to 'none', although the text
        describes weighted losses.
    intercept : bool, default=False
        Whether to train an intercept, which is not penalised.
    loss_scale : {'mean', 'sum'}, default='mean'
        Whether lam stands beside the mean of the weighted losses or beside their sum.

    Attributes
    ----------
    intercept_ : ndarray of shape (1,)
        The trained intercept, or else a threshold midway between the class means' scores.

    References
    ----------
    W. Kotlowski, K. Dembczynski, E. Huellermeier: Bipartite ranking through minimization of univariate loss.
    ICML 2011. As a baseline of one-pass AUC optimisation: W. Gao et al., Artificial Intelligence 236 (2016),
    section 7.1 and Table 3.
    """

    grid_axes = ("lam",)
    parameter_constraints: ClassVar = {
        "lam": POSITIVE,
        "weights": Options("none", "balanced", "prior"),
        "intercept": Boolean(),
        "loss_scale": Options("mean", "sum"),
    }

    def __init__(self, lam: float = 2**-7, weights: str = "none", intercept: bool = False, loss_scale: str = "mean"):
        self.lam = lam
        self.weights = weights
        self.intercept = intercept
        self.loss_scale = loss_scale

    def _for_the_mean(self, y: np.ndarray, lam: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Weights W_i of the mean of the losses, and the lam that belongs beside it."""
        n = len(y)
        n_own = np.where(y > 0, np.count_nonzero(y > 0), np.count_nonzero(y < 0))
        omega = {"none": np.ones(n), "balanced": n / (2.0 * n_own), "prior": 2.0 * n_own / n}[self.weights]
        return omega / n, lam / n if self.loss_scale == "sum" else lam
