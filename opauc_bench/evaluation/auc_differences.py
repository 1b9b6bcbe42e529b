"""Standard errors of AUCs on the same rows and of their differences (DeLong, DeLong and Clarke-Pearson 1988)."""

from __future__ import annotations

import numpy as np

from .auc import auc_columns

__all__ = ["auc_differences"]


def auc_differences(positive: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """AUCs of several scores of the same rows, their standard errors, and those of their differences to the greatest.

    With the share of negatives that a positive is ranked above, P_i, and the share of positives that a negative is
    ranked below, N_j, the variance of an AUC is that of P over the number of positives plus that of N over the number
    of negatives. For the difference of two AUCs, P and N are the differences of theirs: scores that rank alike have a
    difference that is known much better than either AUC.

    Parameters
    ----------
    positive : ndarray of bool, shape (n_samples,)
        At least two rows of either class.
    scores : ndarray of shape (n_samples, n_settings)
        Finite.

    Returns
    -------
    aucs, standard_errors, of_differences : ndarray of shape (n_settings,)
        ``of_differences`` is 0 at the first of the greatest AUCs.

    Raises
    ------
    ValueError
        If a class has fewer than two rows.
    """
    n = np.array([np.count_nonzero(positive), np.count_nonzero(~positive)])
    if n.min() < 2:
        raise ValueError(f"expected two rows of either class, got {n[0]} positives and {n[1]} negatives")
    aucs = auc_columns(positive, scores)
    best = _shares(positive, scores[:, np.argmax(aucs)])
    errors = np.empty((2, len(aucs)))
    for g in range(len(aucs)):
        own = _shares(positive, scores[:, g])
        for k, shares in enumerate((own, [a - b for a, b in zip(best, own)])):
            errors[k, g] = np.sqrt(sum(np.var(one, ddof=1) / len(one) for one in shares))
    return aucs, errors[0], errors[1]


def _shares(positive: np.ndarray, scores: np.ndarray) -> list[np.ndarray]:
    """P and N: for each row the share of the other class that it is on the right side of, ties as one half."""
    above, below = scores[positive], scores[~positive]
    shares = []
    for own, others in ((above, np.sort(below)), (-below, np.sort(-above))):
        ranks = np.searchsorted(others, own, "left") + np.searchsorted(others, own, "right")
        shares.append(ranks / (2.0 * len(others)))
    return shares
