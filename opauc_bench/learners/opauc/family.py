"""Base classes of OPAUC with full covariances and its approximations."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ..base import OnePassLearner
from ..parameters import NOT_NEGATIVE, POSITIVE, Integer, Options

__all__ = ["SecondMomentLearner", "SketchLearner", "padded_settings"]


class SecondMomentLearner(OnePassLearner):
    """Base class of learners that keep second moments of each class, or an approximation of them.

    No update is made (not even shrinkage) before both classes have been seen.

    Parameters
    ----------
    eta : float, default=2**-6
        Constant step size.
    lam : float, default=2**-8
        Regularisation; multiplies ``|w|^2 / 2``.
    """

    grid_axes = ("eta", "lam")
    rotation_invariant = True
    parameter_constraints: ClassVar = {"eta": POSITIVE, "lam": NOT_NEGATIVE}

    def __init__(self, eta: float = 2**-6, lam: float = 2**-8):
        self.eta = eta
        self.lam = lam


class SketchLearner(SecondMomentLearner):
    """Base class of learners that keep ``tau`` columns per class instead of its second moments.

    Parameters
    ----------
    tau : int, default=50
        Columns of the sketch of each class.
    algorithm : {'implicit', 'plain'}, default='implicit'
        'plain' takes the O(n_features tau) steps of the paper where a single setting is trained; grids of several
        settings are implicit either way. Weights agree except for rounding.
    """

    parameter_constraints: ClassVar = SecondMomentLearner.parameter_constraints | {
        "tau": Integer(at_least=1),
        "algorithm": Options("implicit", "plain"),
    }
    sketches_second_moments = True
    _sparse_chunks = True

    def __init__(self, eta: float = 2**-6, lam: float = 2**-8, tau: int = 50, algorithm: str = "implicit"):
        super().__init__(eta, lam)
        self.tau = tau
        self.algorithm = algorithm

    @property
    def takes_blocks(self) -> bool:
        return self.algorithm == "implicit"

    def _plainly(self, n_settings: int) -> bool:
        return self.algorithm == "plain" and n_settings == 1


def padded_settings(settings: dict[str, np.ndarray], width: int) -> tuple[np.ndarray, np.ndarray]:
    """The values of eta and those of lam, each with zeros up to ``width``."""
    eta, lam, n_settings = np.zeros(width), np.zeros(width), len(settings["eta"])
    eta[:n_settings], lam[:n_settings] = settings["eta"], settings["lam"]
    return eta, lam
