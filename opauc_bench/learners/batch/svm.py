"""Batch SVM for ordinal regression (SVM-OR): the mean hinge loss over all pairs, by cutting planes."""

from __future__ import annotations

from typing import Any, ClassVar

from ..parameters import POSITIVE
from .base import BatchLearner
from .cutting_plane import hinge_path

__all__ = ["SVMOR"]


class SVMOR(BatchLearner):
    """Batch ranking SVM: minimises ``lam/2 |w|^2`` plus the mean hinge loss over pairs (SVM-OR).

    For two classes this is the ordinal regression SVM of Herbrich et al. and Joachims with C = 1 / lam beside the mean
    of the slacks, and the problem that SVM-perf solves with C = 1 / (100 lam).

    Parameters
    ----------
    lam : float, default=2**-7
        Regularisation; multiplies ``|w|^2 / 2`` beside the mean over pairs of ``max(0, 1 - w'(x_i - x_j))``.
    gap : float, default=1e-3
        Certified gap to the minimum J, relative to min(max(J, 0.1), 1 - J).

    References
    ----------
    T. Joachims: Training linear SVMs in linear time. KDD 2006. As a baseline of one-pass AUC optimisation: W. Gao et
    al., Artificial Intelligence 236 (2016), section 7.1 and Table 3.
    """

    grid_axes = ("lam",)
    parameter_constraints: ClassVar = {"lam": POSITIVE, "gap": POSITIVE}
    path_tolerance = 1e-5
    exact_params: ClassVar[dict[str, Any]] = {"gap": 1e-12}

    def __init__(self, lam: float = 2**-7, gap: float = 1e-3):
        self.lam = lam
        self.gap = gap

    def _fit_path(self, X, y, settings, tick):
        return hinge_path(X, y, settings["lam"], gap=self.gap, tick=tick).coef, None

    def cost(self, n_rows, n_features, n_nonzero, n_settings):
        planes = 5 + 8 * n_settings
        seconds = planes * (3e-4 + n_rows * (6e-8 + 2e-9 * n_nonzero) + 1e-8 * n_features * planes)
        return seconds, 8.0 * (1024 * (n_features + 1024) + 10 * n_rows + 2 * n_rows * n_nonzero)
