"""Base class of OPAUC with full covariances and its approximations."""

from __future__ import annotations

from typing import ClassVar

from ..base import OnePassLearner
from ..parameters import NOT_NEGATIVE, POSITIVE

__all__ = ["SecondMomentLearner", "padded"]


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


def padded(n: int, multiple: int) -> int:
    """The smallest multiple that is not below ``n``."""
    return -(-n // multiple) * multiple
