"""OPAUC with frequent directions: a deterministic sketch of tau columns instead of each class's second moments.

Let X_o be the rows of class o so far, as columns, T_o their number and c_o their mean. Algorithm 2 (Gao et al. 2016)
keeps Z_o, of tau columns at most, with Z_o Z_o' close to X_o X_o'. An example (x, y) that meets class o gives the
gradient of Eqs. 14 and 15,

    g(w) = lam w - y (x - c_o) + (x - c_o) (x - c_o)'w + Z_o Z_o'w / T_o - c_o c_o'w,        w <- w - eta g(w).

A row goes into a free column. When none is left, with Z = U Sigma V',

    Z <- U (max(Sigma^2 - sigma_k^2, 0))^(1/2)        k = floor(tau / 2), or ceil(0.9 tau) in the authors' program,

which leaves k - 1 columns at most. That is Z A with the tau x (k - 1) matrix

    A = V_i (1 - sigma_k^2 / sigma_i^2)^(1/2)         sigma_i^2, V_i from the eigen-decomposition of Z'Z;

what counts are differences of squares, and Z'Z has these to full absolute accuracy.

The sketch depends on neither eta nor lam, so that a pass carries it once for all settings.
`frequent_directions_state.py` takes steps in coordinates, and touches all features once in some hundred or thousand
rows. Here is the plain algorithm, O(d tau) per step and setting.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import sparse

from ...kernels import njit
from ..base import State
from ..parameters import VARIANT, Integer
from ..rows import rows_of
from . import frequent_directions_state as directions
from .family import SketchLearner
from .frequent_directions_kernels import shrink_map
from .products import dot

__all__ = ["OPAUCFD"]

_BLOCK = 1024  # coordinates of w at a time, so that they stay in the first-level cache


@dataclass
class _Plain(State):
    """``W`` has the shape (n_features, 1); class 0 is positive, class 1 negative."""

    counts: np.ndarray  # (2,)
    means: np.ndarray  # (2, n_features)
    sketches: np.ndarray  # (2, tau, n_features)
    filled: np.ndarray  # (2,), columns in use


class OPAUCFD(SketchLearner):
    """One-pass AUC optimisation with class covariances sketched by frequent directions.

    Parameters
    ----------
    tau : int, default=50
        Columns of the sketch of each class, at least 2.
    variant : {'paper', 'released'}, default='paper'
        How much a full sketch is shrunk: by the square of its singular value number floor(tau / 2), which frees half
        of the columns, as in Algorithm 2; or number ceil(0.9 tau), as in the authors' program: more accurate, and a
        decomposition five times as often.

    Notes
    -----
    No update is made (not even shrinkage) before both classes have been seen. A row of zeros takes no column. Singular
    values that rounding alone explains, squares below ``tau * 2**-52`` of the largest, count as zero.

    References
    ----------
    W. Gao, L. Wang, R. Jin, S. Zhu, Z.-H. Zhou: One-pass AUC optimization. Artificial Intelligence 236 (2016) 1-29,
    Algorithm 2 and Eqs. 10-15. E. Liberty: Simple and deterministic matrix sketching. KDD 2013.
    """

    parameter_constraints: ClassVar = SketchLearner.parameter_constraints | {
        "tau": Integer(at_least=2),  # a full sketch loses the square of its singular value number floor(tau / 2)
        "variant": VARIANT,
    }
    _keeps_dense_rows = True

    def __init__(
        self, eta: float = 2**-6, lam: float = 2**-8, tau: int = 50, variant: str = "paper", algorithm: str = "implicit"
    ):
        super().__init__(eta, lam, tau, algorithm)
        self.variant = variant

    def _begin(self, n_features, settings):
        tau, k = int(self.tau), shrinks_by(self.tau, self.variant)
        if not self._plainly(len(settings["eta"])):
            return directions.begin(n_features, settings, tau, k)
        return _Plain(
            settings=settings,
            W=np.zeros((n_features, 1)),
            counts=np.zeros(2),
            means=np.zeros((2, n_features)),
            sketches=np.zeros((2, tau, n_features)),
            filled=np.zeros(2, dtype=np.int64),
        )

    def _consume(self, state, X, y):
        if not isinstance(state, _Plain):
            state.consume(X, y)
            return
        eta, lam = (float(state.settings[axis][0]) for axis in ("eta", "lam"))
        rows = rows_of(X if sparse.issparse(X) else sparse.csr_matrix(X))
        shared = (shrinks_by(self.tau, self.variant), state.counts, state.means, state.sketches, state.filled)
        _plain_steps(*rows, y, eta, lam, *shared, state.W.reshape(-1))

    def _consume_in_blocks(self, state, X, y):
        state.consume(X, y)

    def seconds_per_row(self, n_features, n_nonzero, n_settings):
        if self._plainly(n_settings):
            return 1e-5 + 1e-9 * n_features * self.tau
        in_blocks = self._in_blocks(n_features, n_nonzero)
        return directions.seconds_per_row(n_features, n_nonzero, n_settings, self.tau, in_blocks)

    def memory_bytes(self, n_features, n_settings):
        if self._plainly(n_settings):
            return 8.0 * n_features * (2 * self.tau + 4)
        return directions.memory_bytes(n_features, n_settings, self.tau)


def shrinks_by(tau: int, variant: str) -> int:
    """Number k, from 1, of the singular value that a full sketch of ``tau`` columns loses."""
    return int(-(-9 * tau // 10) if variant == "released" else tau // 2)


@njit(fastmath={"contract"})
def insert(x, Z, n, k):
    """Algorithm 2 on the rows of ``Z``, ``n`` of which are in use; how many are afterwards."""
    for i in range(len(x)):
        Z[n, i] = x[i]
    n += 1
    if n < len(Z):
        return n
    gram = np.empty((n, n))
    for i in range(n):
        for j in range(i + 1):
            gram[i, j] = gram[j, i] = dot(Z[i], Z[j])
    A, _, left = shrink_map(gram, k)
    column, shrunk = np.empty(n), np.empty(left)
    for i in range(Z.shape[1]):
        shrunk[:] = 0.0
        for j in range(n):
            column[j] = Z[j, i]
            if column[j] != 0.0:
                for c in range(left):
                    shrunk[c] += column[j] * A[j, c]
        for c in range(left):
            Z[c, i] = shrunk[c]
    return left


@njit(fastmath={"contract"})
def _plain_steps(indptr, indices, data, y, eta, lam, k, counts, means, sketches, filled, w):
    """The paper's algorithm for one setting."""
    d = len(w)
    x, q, v = np.zeros(d), np.empty(sketches.shape[1]), np.empty(_BLOCK)
    for t in range(len(y)):
        own, opp, sign = (0, 1, 1.0) if y[t] > 0 else (1, 0, -1.0)
        x[:] = 0.0
        for e in range(indptr[t], indptr[t + 1]):
            x[indices[e]] = data[e]
        counts[own] += 1.0
        for i in range(d):
            means[own, i] += (x[i] - means[own, i]) / counts[own]
        if indptr[t] < indptr[t + 1]:
            filled[own] = insert(x, sketches[own], filled[own], k)
        if counts[opp] == 0.0:
            continue
        c, Z, n = means[opp], sketches[opp], filled[opp]
        centre = dot(c, w)
        margin = dot(x, w) - centre
        for j in range(n):
            q[j] = dot(Z[j], w) / counts[opp]
        for start in range(0, d, _BLOCK):
            stop = min(start + _BLOCK, d)
            v[: stop - start] = 0.0
            for j in range(n):
                for i in range(start, stop):
                    v[i - start] += Z[j, i] * q[j]
            for i in range(start, stop):
                push = (x[i] - c[i]) * (sign - margin) - v[i - start] + c[i] * centre
                w[i] += eta * (push - lam * w[i])
