"""OPAUC with sparse second moments (OPAUC_s), for very many features most of which are zero in any row.

The step is that of OPAUC (Eqs. 16 and 17 of Gao et al. 2016), with a sparse matrix G_o instead of the sum M_o of x x'
over the opposite class:

    w <- w - eta (lam w - y (x - c_o) + (x - c_o) (x - c_o)'w + (G_o / T_o - c_o c_o') w)

Algorithm 3: G_p <- G_p + x x' for the class p of the row; if that has more than d tau nonzero entries, the d tau
largest are kept. `sparse_matrix_kernels.py` stores the upper triangle and does the keeping.

G_o does not depend on eta or lam, so one pass serves the whole grid. The cost is in G_o W. Every weight moves in every
step, so no product can be carried over to the next one; what can be done:

* Settings go in blocks of 32, whose weights lie side by side. For the product, the lower triangle is written beside the
  upper one, so that each row of the product is a sum that stays in registers (`intrinsics.add_rows`).
* While rows of one class come one after the other, a run, nothing changes in the other class: its lower triangle is
  written once, and each block of settings learns the whole run, while its weights are in the cache.
* A row with more products than entries are kept, as in dense data, is added without forming them all: only products
  above a bound of what will be kept enter (`sparse_matrix_kernels.add_outer_above`). A step costs O(d tau n_settings),
  and not O(d^2).
* As long as nothing has been dropped, G_o is X_o'X_o for the rows of the class so far. They are kept for as long as
  they are few (less than d tau / 4 entries), and X_o'(X_o W) is used where it is less work. For a rare class that is
  the whole pass.
* c_o'w is carried along as an inner product with the class sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from ...kernels import njit
from ..base import State
from ..parameters import NOT_NEGATIVE, VARIANT, Integer
from ..rows import aligned_zeros, padded, rows_of
from .family import SecondMomentLearner
from .intrinsics import LANES, add_rows, add_rows_in_fours
from .sparse_matrix_kernels import NNZ, Index, SymmetricRows, add_outer, add_outer_above, keep_above, keep_largest

__all__ = ["OPAUCS"]


class _Rows(NamedTuple):
    """The rows of a class so far: where each begins, and their features and values."""

    pointers: np.ndarray
    features: np.ndarray
    values: np.ndarray


class _Matrix(NamedTuple):
    """The second moments of a class, as kernels take them."""

    index: Index  # type: ignore[assignment]
    cols: np.ndarray
    vals: np.ndarray


class _LowerTriangle(NamedTuple):
    """The entries below the diagonal of the matrix of a class, by row."""

    start: np.ndarray  # (n_features + 1,), where a row begins
    cols: np.ndarray
    vals: np.ndarray
    touched: np.ndarray  # (n_features,), whether the full matrix has entries in a row


class _Opposite(NamedTuple):
    """The second moments of the class that a row is not of, as its step needs them."""

    matrix: _Matrix  # type: ignore[assignment]
    lower: _LowerTriangle
    rows: _Rows
    n_rows: int  # how many of ``rows`` take the place of the matrix; 0 if the matrix is used
    touched: np.ndarray  # (n_features,), whether its product with weights may differ from 0


class _Rule(NamedTuple):
    """When entries are dropped, and which."""

    size: int  # entries that are kept
    most: int  # entries above which they are dropped
    go_on_counting: bool
    released: bool


class _Shared(NamedTuple):
    """State that all settings share. Class 0 is positive, class 1 negative."""

    counts: np.ndarray  # (2,)
    sums: np.ndarray  # (2, n_features), of the rows of each class
    seen: np.ndarray  # (n_features,), whether a feature has been different from 0
    n_rows: np.ndarray  # (2,), how many rows are kept; -1 once they are not kept any more


class _Models(NamedTuple):
    """State of the settings, in blocks."""

    eta: np.ndarray  # (n_blocks, width)
    lam: np.ndarray  # (n_blocks, width)
    W: np.ndarray  # (n_blocks, n_features, width)
    products: np.ndarray  # (n_blocks, 2, width), inner products of the weights and the class sums
    alarm: np.ndarray  # (n_blocks, width), NaN once a weight of the setting is not finite

    @classmethod
    def begin(cls, settings: dict[str, np.ndarray], n_features: int, one: bool) -> _Models:
        """Settings that have not learnt anything; ``one`` says whether there will never be more than one."""
        n_settings = len(settings["eta"])
        width = 1 if one else LANES
        n_blocks = -(-n_settings // width)
        W, (eta, lam) = aligned_zeros(n_blocks, n_features, width), np.zeros((2, n_blocks, width))
        eta.ravel()[:n_settings], lam.ravel()[:n_settings] = settings["eta"], settings["lam"]
        return cls(eta, lam, W, np.zeros((n_blocks, 2, width)), np.zeros((n_blocks, width)))


@dataclass
class _SparseMoments(State):
    """``W`` is that of ``models``."""

    shared: _Shared
    models: _Models
    matrices: tuple[SymmetricRows, SymmetricRows]
    rows: list[_Rows]  # of each class, while they are kept
    resizable: ClassVar = ("cols", "vals", "rows")

    def __setstate__(self, saved):
        self.__dict__.update(saved)
        if (width := self.models.W.shape[2]) not in (1, LANES):
            raise ValueError(f"its settings are in blocks of {width}, expected {LANES}")
        self.W = self.models.W  # joblib stores it twice, and reads it as two arrays

    def coef(self, n_features):
        return self.W.transpose(1, 0, 2).reshape(self.W.shape[1], -1)[:n_features, : self.n_live]

    def finite(self, n_features):
        return np.isfinite(self.models.alarm.ravel()[: self.n_live])

    def keep(self, columns):
        self.settings = {axis: values[columns] for axis, values in self.settings.items()}
        old, (_, n_features, old_width) = self.models, self.W.shape
        self.models = _Models.begin(self.settings, n_features, old_width == 1)
        self.W = self.models.W
        width = self.W.shape[2]
        for new, column in enumerate(columns):
            (b, g), (old_b, old_g) = divmod(new, width), divmod(column, old_width)
            for to, of in zip(self.models, old):
                to[b, ..., g] = of[old_b, ..., old_g]

    def widened(self, fresh):
        raise ValueError("its matrices have a fixed number of features")


class OPAUCS(SecondMomentLearner):
    """One-pass AUC optimisation with sparse second moments of the classes.

    Parameters
    ----------
    tau : int, default=50
        The second moments of a class have at most ``n_features * tau`` entries that are not zero.
    variant : {'paper', 'released'}, default='paper'
        Which entries are kept when there are more: 'paper' keeps the ``n_features * tau`` of largest absolute value,
        'released' those above a threshold, signs counted, that the authors' program finds by bisection and that leaves
        between nine tenths of ``n_features * tau`` and all of it.
    slack : float, default=0.0
        Entries are dropped only when there are more than ``(1 + slack) * n_features * tau``. The text has 0. Only for
        the variant 'paper'.

    Notes
    -----
    No update is made (not even shrinkage) before both classes have been seen. Of entries that are equal in absolute
    value, those that come first in the upper triangle, row by row, are kept; an entry and its mirror image stay or go
    together, so that one entry less than the limit may be left.

    References
    ----------
    W. Gao, L. Wang, R. Jin, S. Zhu, Z.-H. Zhou: One-pass AUC optimization. Artificial Intelligence 236 (2016) 1-29,
    section 4.2, Algorithm 3 and Eqs. 16 and 17.
    """

    parameter_constraints: ClassVar = SecondMomentLearner.parameter_constraints | {
        "tau": Integer(at_least=1),
        "variant": VARIANT,
        "slack": NOT_NEGATIVE,
    }
    rotation_invariant = False
    sketches_second_moments = True
    _sparse_chunks = True

    def __init__(
        self, eta: float = 2**-6, lam: float = 2**-8, tau: int = 50, variant: str = "paper", slack: float = 0.0
    ):
        super().__init__(eta, lam)
        self.tau = tau
        self.variant = variant
        self.slack = slack

    def check_params(self):
        super().check_params()
        if self.variant == "released" and self.slack > 0:
            raise ValueError(f"OPAUCS: slack has to be 0 for the variant 'released', got {self.slack!r}")

    def _begin(self, n_features, settings):
        models = _Models.begin(settings, n_features, one=len(settings["eta"]) == 1)
        selects = n_features > self.tau and self.variant == "paper"
        seen, n_rows = np.zeros(n_features, dtype=np.bool_), np.zeros(2, dtype=np.int64)
        return _SparseMoments(
            settings=settings,
            W=models.W,
            shared=_Shared(np.zeros(2), np.zeros((2, n_features)), seen, n_rows),
            models=models,
            matrices=(SymmetricRows(n_features, selects), SymmetricRows(n_features, selects)),
            rows=[_no_rows(), _no_rows()],
        )

    def _consume(self, state, X, y):
        X = X.astype(np.float64, copy=False)  # products of x with itself would keep the precision of x
        size = X.shape[1] * int(self.tau)
        rule = _Rule(
            size, size + int(min(float(self.slack) * size, 2.0**60)), self.slack == 0.0, self.variant == "released"
        )
        for own, label in enumerate((1, -1)):
            _make_room(state, own, X[y == label])
        matrices = [_Matrix(matrix.index, matrix.cols, matrix.vals) for matrix in state.matrices]
        V = aligned_zeros(*state.W.shape[1:])  # not made in the kernel, where it would have small pages
        found = _learn(*rows_of(X), y, rule, state.shared, *matrices, *state.rows, state.models, V)
        for matrix, new in zip(state.matrices, found):
            matrix.cols, matrix.vals = new.cols, new.vals

    def cost(self, n_rows, n_features, n_nonzero, n_settings):
        most = float(n_features) * min(self.tau, n_features)
        grown = 0.5 * n_rows * n_nonzero**2  # entries of a class, if no two rows had two features in common
        on_average = 0.5 * grown if grown < most else most * (1.0 - 0.5 * most / grown)
        seconds = n_rows * _seconds(on_average, most, n_features, n_nonzero, n_settings)
        return seconds, self._bytes(min(most, grown), n_features, n_nonzero, n_settings)

    def seconds_per_row(self, n_features, n_nonzero, n_settings):
        most = float(n_features) * min(self.tau, n_features)
        return _seconds(most, most, n_features, n_nonzero, n_settings)

    def memory_bytes(self, n_features, n_settings):
        return self._bytes(float(n_features) * min(self.tau, n_features), n_features, 0.0, n_settings)

    def _bytes(self, size, n_features, n_nonzero, n_settings):
        # The arenas of both classes, the old form of one while it is packed, and a lower triangle. The entries of a row
        # are added before any is dropped.
        entries = 0.5 * size * (1.0 + self.slack) + 0.5 * min(n_nonzero**2, 2.0 * (1.0 + self.slack) * size)
        width = 1 if n_settings == 1 else padded(n_settings, LANES)
        return 4 * 12.0 * 1.75 * entries + 8.0 * n_features * (2.0 * width + 40)


def _seconds(size, most, n_features, n_nonzero, n_settings) -> float:
    """Of a row, where the second moments have ``size`` entries and may have ``most``."""
    product = 1.4e-9 * size if n_settings == 1 else (2.5e-9 + 1e-10 * padded(n_settings, LANES)) * size
    added = 3e-7 * n_nonzero**2 if n_nonzero**2 <= 2.0 * most else 1.3e-8 * most
    return 1e-6 + product + 1.4e-9 * n_features * n_settings + added


def _no_rows() -> _Rows:
    return _Rows(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0))


def _make_room(state, own: int, X) -> None:
    """Make room for the rows ``X`` of a class, if its rows are kept."""
    n_rows = state.shared.n_rows[own]
    if n_rows < 0:
        state.rows[own] = _no_rows()
        return
    wanted = (n_rows + X.shape[0] + 1, *2 * [state.rows[own].pointers[n_rows] + X.nnz])
    state.rows[own] = _Rows(
        *(
            values if len(values) >= n else np.concatenate([values, np.zeros(n + n // 2 - len(values), values.dtype)])
            for values, n in zip(state.rows[own], wanted)
        )
    )


# Kernels. The loops over settings are innermost and of one length.


@njit()
def _learn(indptr, indices, data, y, rule, shared, positive, negative, positive_rows, negative_rows, models, V):
    d, begin = models.W.shape[1], 0
    x_dense = np.zeros(d)
    lower = _LowerTriangle(np.zeros(d + 1, np.int64), np.zeros(0, np.uint32), np.zeros(0), np.zeros(d, np.bool_))
    one = models.W.shape[2] == 1
    while begin < len(y):
        end = begin + 1
        while end < len(y) and (y[end] > 0) == (y[begin] > 0):
            end += 1
        run = _Rows(indptr[begin : end + 1], indices, data)
        if y[begin] > 0:
            opposite = _opposite(negative, negative_rows, shared.n_rows[1], one, lower)
            positive = _take_run(run, x_dense, rule, positive, positive_rows, shared.n_rows[:1])
            _learn_run(run, x_dense, 1.0, shared, opposite, models, V)
        else:
            opposite = _opposite(positive, positive_rows, shared.n_rows[0], one, lower)
            negative = _take_run(run, x_dense, rule, negative, negative_rows, shared.n_rows[1:])
            _learn_run(run, x_dense, -1.0, shared, opposite, models, V)
        begin, lower = end, opposite.lower
    return positive, negative


@njit()
def _opposite(matrix, rows, n_rows, one, lower):
    """A class as the steps of the other one need it; ``lower`` is room for the lower triangle."""
    m, cols, vals = matrix
    if n_rows >= 0 and 2 * rows.pointers[n_rows] < m.counters[NNZ]:
        touched = np.zeros(len(m.start), dtype=np.bool_)
        touched[rows.features[: rows.pointers[n_rows]]] = True
        return _Opposite(matrix, lower, rows, n_rows, touched)
    if not one:
        lower = _lower_triangle(m, cols, vals, lower)
    return _Opposite(matrix, lower, rows, 0, lower.touched)


@njit()
def _take_run(run, x_dense, rule, matrix, rows, n_rows):
    """Add rows to the second moments of their class, which are returned."""
    for r in range(len(run.pointers) - 1):
        there, x = _row(run, r)
        for k in range(len(x)):
            x_dense[there[k]] = x[k]
        matrix = _take(there, x, x_dense, rule, matrix, rows, n_rows)
        for k in range(len(x)):
            x_dense[there[k]] = 0.0
    return matrix


@njit()
def _row(rows, r):
    begin, end = rows.pointers[r], rows.pointers[r + 1]
    return rows.features[begin:end], rows.values[begin:end]


@njit()
def _learn_run(run, x_dense, sign, shared, opposite, models, V):
    """Update all settings, one block after the other, and what they share."""
    own, opp = (0, 1) if sign > 0 else (1, 0)
    for b in range(len(models.W)):
        sum_own, seen = shared.sums[own].copy(), shared.seen.copy()
        for r in range(len(run.pointers) - 1):
            there, x = _row(run, r)
            for k in range(len(x)):
                x_dense[there[k]] = x[k]
            _count(there, x, sum_own, seen)
            products = (models.products[b, own], models.products[b, opp])
            of_classes = (sum_own, shared.sums[opp], shared.counts[opp])
            of_block = (models.eta[b], models.lam[b], models.W[b], models.alarm[b])
            _step(there, x, x_dense, sign, seen, of_classes, opposite, products, of_block, V)
            for k in range(len(x)):
                x_dense[there[k]] = 0.0
    for r in range(len(run.pointers) - 1):
        there, x = _row(run, r)
        _count(there, x, shared.sums[own], shared.seen)
        shared.counts[own] += 1.0


@njit()
def _count(there, x, sums, seen):
    for k in range(len(x)):
        sums[there[k]] += x[k]
        seen[there[k]] = True


@njit()
def _take(there, x, x_dense, rule, matrix, rows, n_rows):
    """Add a row to the second moments of its class, which are returned."""
    m = matrix.index
    fills = _fills(x, rule)
    if fills:
        cols, vals = add_outer_above(there, x, x_dense, rule.size, m, matrix.cols, matrix.vals)
        n_rows[0] = -1
    else:
        selects = rule.go_on_counting and not rule.released
        cols, vals = add_outer(there, x, rule.size if selects else 0, m, matrix.cols, matrix.vals)
    if m.counters[NNZ] > (rule.size if fills else rule.most):
        n_rows[0] = -1
        if rule.released:
            keep_above(rule.size, m, cols, vals)
        else:
            keep_largest(rule.size, rule.go_on_counting, m, cols, vals)
    if n_rows[0] >= 0 and len(x) > 0:
        begin = rows.pointers[n_rows[0]]
        end = begin + len(x)
        if end > rule.size // 4:
            n_rows[0] = -1
        else:
            for i in range(len(x)):
                rows.features[begin + i], rows.values[begin + i] = there[i], x[i]
            n_rows[0] += 1
            rows.pointers[n_rows[0]] = end
    return _Matrix(m, cols, vals)


@njit()
def _fills(x, rule):
    """Whether a row has so many products that entries are dropped, whatever the matrix has, and none of them is 0."""
    if rule.released or len(x) * len(x) <= 2 * rule.most:
        return False
    least = np.abs(x).min()
    return least * least > 0.0


@njit()
def _step(there, x, x_dense, sign, seen, of_classes, opposite, products, of_block, V):
    """Update the settings of a block. The first of ``products`` is that of the class of the row."""
    sum_own, sum_opp, count = of_classes
    p_own, p_opp = products
    eta, lam, W, alarm = of_block
    m, cols, vals = opposite.matrix
    width = len(eta)
    score, how = np.zeros(width), np.empty((4, width))
    for k in range(len(x)):
        w, v = W[there[k]], x[k]
        for g in range(width):
            score[g] += v * w[g]
    for g in range(width):
        p_own[g] += score[g]
    if count == 0.0:
        return
    for g in range(width):
        centre = p_opp[g] / count
        how[0, g] = eta[g] * (sign - score[g] + centre)
        how[1, g] = (eta[g] * centre - how[0, g]) / count
        how[2, g] = eta[g] / count
        how[3, g] = eta[g] * lam[g]
        p_own[g], p_opp[g] = 0.0, 0.0
    if opposite.n_rows > 0:
        _times_rows(opposite.rows, opposite.n_rows, W, V)
    if width == 1:
        one = (how[0, 0], how[1, 0], how[2, 0], how[3, 0])
        w, v = W.reshape(len(seen)), V.reshape(len(seen))
        p_own[0], p_opp[0], alarm[0] = _sweep_one(
            seen, opposite.n_rows == 0, m, cols, vals, x_dense, sum_own, sum_opp, one, w, v
        )
    else:
        if opposite.n_rows == 0:
            _times_matrix(m, cols, vals, opposite.lower, W, V)
        _update(seen, opposite.touched, x_dense, sum_own, sum_opp, how, W, V, (p_own, p_opp, alarm))


@njit(fastmath={"contract"})
def _times_rows(rows, n_rows, W, V):
    """V += X'X W for the rows X of a class."""
    score = np.empty(W.shape[1])
    for r in range(n_rows):
        score[:] = 0.0
        for e in range(rows.pointers[r], rows.pointers[r + 1]):
            w, v = W[rows.features[e]], rows.values[e]
            for g in range(len(score)):
                score[g] += v * w[g]
        for e in range(rows.pointers[r], rows.pointers[r + 1]):
            u, v = V[rows.features[e]], rows.values[e]
            for g in range(len(score)):
                u[g] += v * score[g]


@njit()
def _lower_triangle(m, cols, vals, lower):
    """The entries below the diagonal, which are those above it. Written into ``lower`` where that has room for them."""
    start, lower_cols, lower_vals, touched = lower
    start[:] = 0
    for i in range(len(m.start)):
        touched[i] = m.length[i] > 0
        for e in range(m.start[i], m.start[i] + m.length[i]):
            start[cols[e] + 1] += cols[e] > i
    for i in range(len(m.start)):
        touched[i] |= start[i + 1] > 0
        start[i + 1] += start[i]
    n_entries, free = start[-1], start[:-1].copy()
    if n_entries > len(lower_cols):
        size = n_entries + n_entries // 4
        lower_cols, lower_vals = np.empty(size, dtype=np.uint32), np.empty(size)
    for i in range(len(m.start)):
        for e in range(m.start[i], m.start[i] + m.length[i]):
            j = cols[e]
            if j > i:
                lower_cols[free[j]], lower_vals[free[j]] = i, vals[e]
                free[j] += 1
    return _LowerTriangle(start, lower_cols, lower_vals, touched)


@njit()
def _times_matrix(m, cols, vals, lower, W, V):
    """V += G W; the order of each sum is that of the columns, with four at a time from the diagonal on."""
    for i in range(len(m.start)):
        if lower.touched[i]:
            add_rows(V[i], W, lower.cols, lower.vals, lower.start[i], lower.start[i + 1])
            add_rows_in_fours(V[i], W, cols, vals, m.start[i], m.start[i] + m.length[i])


@njit(fastmath={"contract"})
def _update(seen, touched, x, s_own, s_opp, how, W, V, inner):
    """W += how[0] x + how[1] s_opp - how[2] V - how[3] W, and V = 0; inner products of the new W.

    V is 0 but for features that are ``touched``: of the others it is not read.
    """
    width = W.shape[1]
    p_own, p_opp, alarm = inner
    zeros = np.zeros(width)
    for i in range(len(seen)):
        if not seen[i]:
            continue
        w, v, x_i, own_i, opp_i = W[i], V[i] if touched[i] else zeros, x[i], s_own[i], s_opp[i]
        # One loop would have too many arrays for the compiler to tell apart, and not be vectorized.
        for g in range(width):
            w[g] += how[0, g] * x_i + how[1, g] * opp_i - how[2, g] * v[g] - how[3, g] * w[g]
            v[g] = 0.0
        for g in range(width):
            p_own[g] += own_i * w[g]
        for g in range(width):
            p_opp[g] += opp_i * w[g]
        for g in range(width):
            alarm[g] += 0.0 * w[g]


@njit(fastmath={"contract"})
def _sweep_one(seen, by_matrix, m, cols, vals, x, s_own, s_opp, how, w, v):
    """W += how[0] x + how[1] s_opp - how[2] (V + G W) - how[3] W, and V = 0, for one setting.

    Returns the inner products of the new W, and 0, or NaN if a weight is not finite. Once row i of the product is
    complete, nothing later needs row i of W: it is updated in the same sweep.
    """
    p_own, p_opp, alarm = 0.0, 0.0, 0.0
    for i in range(len(seen)):
        if not seen[i]:
            continue
        if by_matrix:
            w_i, total = w[i], 0.0
            e, end = m.start[i], m.start[i] + m.length[i]
            if e < end and cols[e] == i:
                total = vals[e] * w_i
                e += 1
            while e < end:
                j, a = cols[e], vals[e]
                total += a * w[j]
                v[j] += a * w_i
                e += 1
            v[i] += total
        w[i] += how[0] * x[i] + how[1] * s_opp[i] - how[2] * v[i] - how[3] * w[i]
        v[i] = 0.0
        p_own += s_own[i] * w[i]
        p_opp += s_opp[i] * w[i]
        alarm += 0.0 * w[i]
    return p_own, p_opp, alarm
