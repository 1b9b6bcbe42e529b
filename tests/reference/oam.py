"""OAM of Zhao, Hoi, Jin and Yang (Online AUC maximization, ICML 2011) with its buffers written out."""

from fractions import Fraction

import numpy as np


def oam(X, y, C, buffer_size, slots, *, sequential, share=1):
    """One pass of OAM_seq (``sequential``) or OAM_gra over the rows.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Fractions are computed exactly, with a fraction for ``C``.
    y : ndarray of shape (n_samples,)
        Labels, -1 or +1.
    C : float
    buffer_size : int
    slots : sequence of int or None
        Slot of its class's buffer that each row takes; None leaves the buffer as it is.
    sequential : bool
    share : float
        Part of C_t that a pair's step may have: 1, or 1/2 if the objective splits a pair between its members.

    Returns
    -------
    w : ndarray of shape (n_features,)
    """
    w = np.zeros(X.shape[1], dtype=X.dtype)
    buffers = {+1: {}, -1: {}}
    seen = {+1: 0, -1: 0}
    for x, label, slot in zip(X, y, slots):
        seen[label] += 1
        if slot is not None:
            buffers[label][slot] = x
        cap = share * C * max(1, Fraction(seen[-label], buffer_size))
        opponents = [buffers[-label][k] for k in sorted(buffers[-label])]
        step = passive_aggressive if sequential else one_gradient_step
        w = step(w, x, label, opponents, cap)
    return w


def passive_aggressive(w, x, label, opponents, cap):
    """The pairs one after the other, each with the weights that the one before left."""
    for opponent in opponents:
        z = label * (x - opponent)
        hinge, square = max(0.0, 1.0 - w @ z), z @ z
        if square > 0.0:
            w = w + min(cap, hinge / square) * z
    return w


def one_gradient_step(w, x, label, opponents, cap):
    """All pairs with the weights of before the step; a margin of exactly 1 counts as violated."""
    pairs = label * (x - np.reshape(opponents, (-1, len(x))))
    return w + cap * pairs[pairs @ w <= 1].sum(axis=0)


def reservoir(y, buffer_size, uniforms):
    """Slots by reservoir sampling (Vitter's algorithm R), from one uniform draw a row.

    The T-th row of a class takes the next free slot while there is one, and from then on slot floor(u T) if
    there is such a slot: it is kept with probability buffer_size / T, and any buffered row may have to go.
    """
    slots, seen = [], {+1: 0, -1: 0}
    for label, u in zip(y, uniforms):
        seen[label] += 1
        slot = seen[label] - 1 if seen[label] <= buffer_size else int(u * seen[label])
        slots.append(slot if slot < buffer_size else None)
    return slots
