"""OAM: online AUC maximisation with a reservoir of examples of each class.

An example (x, y) meets the N_o buffered examples x_j of the opposite class, each of which counts for T_o / N of the
T_o seen ones: C_t = C max(1, T_o / N). With the pairwise hinge loss max(0, 1 - y w'(x - x_j)),

* ``oam_gra`` takes one gradient step, all pairs judged with the same w:
  w <- w + c sum of y (x - x_j) over the pairs with y w'(x - x_j) <= 1, up to rounding,
* ``oam_seq`` takes passive-aggressive steps one pair after the other, in the order of the buffer:
  w <- w + min(c, loss / |x - x_j|^2) y (x - x_j),

where c is C_t, or C_t / 2 if the objective splits each pair between its two members.

Buffers depend on neither C nor w, so one pass serves all values of C. The scores of x and of the whole buffer under
all models are one matrix product. ``oam_seq`` then works in the coordinates of the buffer: a step on pair j changes
the score of x_i by an entry of the buffer's Gram matrix, which changes one row at a time. A second product applies all
steps of all models to the weights.

With more than 1,024 features and all rows at hand, dense rows are taken in blocks, see `blocks.py`. With more
than 4,096 features the buffers hold sparse rows, unless all rows are known to be dense, see `sparse_kernels.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import sparse

from ...kernels import njit
from ..base import OnePassLearner, State
from ..parameters import POSITIVE, Integer, Options, Seed
from .blocks import block_size, consume_in_blocks
from .pair_steps import all_at_once, one_after_another
from .sparse_kernels import SparseBuffers, consume_sparse

__all__ = ["OAMGra", "OAMSeq"]

_STEPS = {"C": 1.0, "C/2": 0.5}
# Features from which on rows are taken to be sparse; matrix products with dense buffers would cost O(N d).
_WIDE = 4096


@dataclass
class _Buffers(State):
    """``W`` has one model per row here; class 0 is positive, class 1 negative."""

    rng: np.random.Generator
    counts: np.ndarray  # (2,), examples seen
    sizes: np.ndarray  # (2,), examples buffered
    rows: np.ndarray  # (2, buffer_size + 1, n_features); the spare row holds the current example
    gram: np.ndarray  # (2, buffer_size, buffer_size); NaN after rows that came in blocks, which do not need it
    places: np.ndarray  # (2, buffer_size), of buffered rows among all, where rows are known by their inner products
    settings_axes: ClassVar = {"W": 0}

    def coef(self, n_features):
        return self.W.T

    def know_gram(self):
        """Compute the inner products of the buffered rows, if rows came in blocks before."""
        if np.isnan(self.gram[0, 0, 0]):
            self.gram[:] = 0.0
            for rows, gram, size in zip(self.rows, self.gram, self.sizes):
                gram[:size, :size] = rows[:size] @ rows[:size].T

    def widened(self, fresh):
        if isinstance(fresh, _Buffers):
            return super().widened(fresh)
        fresh.make_room(int((self.rows[:, :-1] != 0.0).sum(axis=2).max(initial=0)))
        for k in (0, 1):
            for slot, row in enumerate(self.rows[k, : self.sizes[k]]):
                features = np.flatnonzero(row)
                n = fresh.lengths[k, slot] = len(features)
                fresh.features[k, slot, :n], fresh.values[k, slot, :n] = features, row[features]
        fresh.W[: self.W.shape[1]] = self.W.T
        self.know_gram()
        fresh.rng, fresh.counts, fresh.sizes, fresh.gram = self.rng, self.counts, self.sizes, self.gram
        return fresh


class _OAM(OnePassLearner):
    """Base class of online AUC maximisation.

    Parameters
    ----------
    eta : float, default=2**-6
        The paper's C: weight of the hinge losses against the old model, which caps the step of a pair.
    buffer_size : int, default=100
        Capacity of the reservoir of each class.
    step : {'C', 'C/2'}, default='C'
        Whether a pair's step is capped at C_t or at C_t / 2. The values that Gao et al. 2016 publish are nearer to 'C'.
    random_state : int, Generator or None, default=None
        Seed of the reservoir sampling.

    References
    ----------
    P. Zhao, S. Hoi, R. Jin, T. Yang: Online AUC maximization. ICML 2011.
    """

    grid_axes = ("eta",)
    parameter_constraints: ClassVar = {
        "eta": POSITIVE,
        "buffer_size": Integer(at_least=1),
        "step": Options(*_STEPS),
        "random_state": Seed(),
    }
    rotation_invariant = True
    takes_blocks = True
    _sequential: bool

    def __init__(
        self,
        eta: float = 2**-6,
        buffer_size: int = 100,
        step: str = "C",
        random_state: int | np.random.Generator | None = None,
    ):
        self.eta = eta
        self.buffer_size = buffer_size
        self.step = step
        self.random_state = random_state

    def _begin(self, n_features, settings):
        if n_features > _WIDE:
            size = int(self.buffer_size)
            return SparseBuffers.empty(settings, n_features, size, np.random.default_rng(self.random_state))
        return self._begin_dense(n_features, settings)

    def _begin_dense(self, n_features, settings):
        size = int(self.buffer_size)
        return _Buffers(
            settings=settings,
            W=np.zeros((len(settings["eta"]), n_features)),
            rng=np.random.default_rng(self.random_state),
            counts=np.zeros(2),
            sizes=np.zeros(2, dtype=np.int64),
            rows=np.zeros((2, size + 1, n_features)),
            gram=np.zeros((2, size, size)),
            places=np.zeros((2, size), dtype=np.int64),
        )

    def _consume(self, state, X, y):
        if isinstance(state, SparseBuffers):
            consume_sparse(state, sparse.csr_matrix(X), *self._steps(state, y))
        else:
            state.know_gram()
            _pass(X, *self._steps(state, y), state.counts, state.sizes, state.rows, state.gram, state.W)

    def _consume_at_hand(self, state, X, y):
        if isinstance(state, SparseBuffers):
            self._consume(state, X, y)
        else:
            super()._consume_at_hand(state, X, y)

    def _consume_in_blocks(self, state, X, y):
        state.gram[:] = np.nan
        buffers = (state.sizes, state.rows, state.places)
        consume_in_blocks(X, *self._steps(state, y), state.counts, *buffers, state.W)

    def _steps(self, state, y) -> tuple[np.ndarray, np.ndarray, np.ndarray, bool]:
        slots = _reservoir(y, state.counts, int(self.buffer_size), state.rng.random(len(y)))
        return y, slots, state.settings["eta"] * _STEPS[self.step], self._sequential

    def _chunk(self, X, rows, features):
        if X.shape[1] > _WIDE and sparse.issparse(X):
            chunk = X[rows]
            chunk.sum_duplicates()
            return chunk
        return super()._chunk(X, rows, features)

    def seconds_per_row(self, n_features, n_nonzero, n_settings):
        size, sequential = int(self.buffer_size), 1e-10 * self.buffer_size**2 * n_settings if self._sequential else 0.0
        if self._in_blocks(n_features, n_nonzero):
            at_hand = 2 * size + block_size(size)
            products = n_features * at_hand * (at_hand + 4.0 * n_settings) / block_size(size)
            return 3e-6 + products / 3e10 + sequential + 1e-11 * size * at_hand * n_settings
        if n_features > _WIDE:
            return 3e-6 + size * n_nonzero * (2e-9 + 4.5e-10 * n_settings) + sequential
        products = 4.0 * size * n_features * (n_settings + 1)
        return 3e-6 + products / 3e10 + sequential + 1e-9 * size * n_settings

    def memory_bytes(self, n_features, n_settings):
        if n_features > _WIDE:
            return 8.0 * n_features * (2 * n_settings + 1) + 16.0 * self.buffer_size**2
        return 8.0 * (2 * self.buffer_size * (n_features + self.buffer_size) + 2 * n_features * n_settings)

    def cost(self, n_rows, n_features, n_nonzero, n_settings):
        seconds, memory = super().cost(n_rows, n_features, n_nonzero, n_settings)
        if self._in_blocks(n_features, n_nonzero):
            size = int(self.buffer_size)
            memory += 8.0 * n_features * (4 * size + block_size(size) + n_settings)
        return seconds, memory


class OAMSeq(_OAM):
    """Online AUC maximisation with sequential passive-aggressive updates (OAM_seq)."""

    _sequential = True


class OAMGra(_OAM):
    """Online AUC maximisation with one gradient step per example (OAM_gra)."""

    _sequential = False


def _reservoir(y, counts, size, uniforms):
    """Slot of its class's buffer that each row takes, or -1: every seen example is kept with the same probability.

    ``counts`` are the rows of each class seen before. There is one draw in ``uniforms`` per row, used or not, so that
    the result does not depend on how the rows are cut into chunks.
    """
    own = (y < 0).astype(np.int64)
    seen = np.where(own == 0, np.cumsum(own == 0), np.cumsum(own == 1)) + counts[own].astype(np.int64)
    slots = np.where(seen <= size, seen - 1, np.floor(uniforms * seen).astype(np.int64))
    return np.where(slots < size, slots, -1)


@njit()
def _pass(X, y, slots, caps, sequential, counts, sizes, rows, gram, W):
    n_settings = W.shape[0]
    buffer_size = gram.shape[1]
    for t in range(len(y)):
        x = X[t]
        own, opp, sign = (0, 1, 1.0) if y[t] > 0 else (1, 0, -1.0)
        counts[own] += 1.0
        slot = slots[t]
        if slot >= 0:
            sizes[own] = max(sizes[own], slot + 1)
            for j in range(len(x)):
                rows[own, slot, j] = x[j]
            if sequential:
                products = np.dot(rows[own][: sizes[own]], x)
                for i in range(sizes[own]):
                    gram[own, slot, i] = gram[own, i, slot] = products[i]
        m = sizes[opp]
        if m == 0:
            continue
        for j in range(len(x)):
            rows[opp, m, j] = x[j]
        opponents = rows[opp][: m + 1]
        scores = np.dot(W, opponents.T)
        worth = max(1.0, counts[opp] / buffer_size)
        if sequential:
            products = np.dot(opponents, x)
            for g in range(n_settings):
                one_after_another(scores[g], m, sign, caps[g] * worth, products, gram[opp])
        else:
            for g in range(n_settings):
                all_at_once(scores[g], m, sign, caps[g] * worth)
        changes = np.dot(scores, opponents)
        for g in range(n_settings):
            for j in range(len(x)):
                W[g, j] += changes[g, j]
