"""The approximate second moments of a class that the learners for high dimensions keep."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from ..base import OnePassLearner
from .frequent_directions import OPAUCFD
from .random_sketch import OPAUCh, OPAUCr
from .sparse_matrix_kernels import SymmetricRows
from .sparse_moments import OPAUCS

__all__ = ["second_moment_sketch"]

_ROWS = 4096
_NO_SETTINGS = {"eta": np.zeros(0), "lam": np.zeros(0)}


def second_moment_sketch(learner: OnePassLearner, A):
    """The approximation of A'A that a learner keeps after the rows of ``A``, from first to last.

    Parameters
    ----------
    learner : OPAUCFD, OPAUCS, OPAUCr or OPAUCh
        Its ``tau`` is the sketch size. It is left as it is.
    A : ndarray or CSR matrix of shape (n, d)
        The rows of one class; CSR rows have no feature twice.

    Returns
    -------
    ndarray of shape (d, n_columns), or CSR matrix of shape (d, d)
        A dense array Z stands for Z Z', a sparse matrix for itself: as ``evaluation.second_moment_error`` takes them.

    Raises
    ------
    TypeError
        If the learner keeps no approximate second moments.
    ValueError
        If a parameter has a value that the learner does not know.
    """
    learner.check_params()
    if isinstance(learner, OPAUCr | OPAUCh):
        return _random_columns(learner, A)
    if not isinstance(learner, OPAUCFD | OPAUCS):
        raise TypeError(
            f"{type(learner).__name__} keeps no approximate second moments; OPAUCFD, OPAUCS, OPAUCr and OPAUCh do"
        )
    state = learner._begin(A.shape[1], _NO_SETTINGS)
    for rows in _chunks(learner, A):
        learner._consume(state, rows, np.ones(rows.shape[0], dtype=np.int8))
    return state.sketch(0) if isinstance(learner, OPAUCFD) else _symmetric(state.matrices[0])


def _chunks(learner, A):
    for start in range(0, A.shape[0], _ROWS):
        yield learner._chunk(A, np.arange(start, min(start + _ROWS, A.shape[0])), None)


def _random_columns(learner, A) -> np.ndarray:
    """The sum of x r' over the rows."""
    state = learner._begin(1, _NO_SETTINGS)
    Z = np.zeros((A.shape[1], int(learner.tau)))
    for rows in _chunks(learner, A):
        Z += rows.T @ state.draws.rows(rows.shape[0])
    return Z


def _symmetric(matrix: SymmetricRows) -> sparse.csr_matrix:
    """The full matrix of which ``matrix`` has the upper triangle."""
    start, length = matrix.index.start, matrix.index.length
    n = len(start)
    ends = np.concatenate([[0], np.cumsum(length)])
    places = np.repeat(start - ends[:-1], length) + np.arange(ends[-1])
    upper = sparse.csr_matrix((matrix.vals[places], matrix.cols[places].astype(np.int32), ends), shape=(n, n))
    return (upper + sparse.triu(upper, 1).T).tocsr()
