"""Steps of one model on the pairs of a row and the buffered rows of the other class, in coordinates of the buffer."""

from __future__ import annotations

from ...kernels import njit

__all__ = ["all_at_once", "one_after_another"]

_EQUAL = 1e-14  # squared distance, relative to the squared norm, that rounding leaves between equal rows
_ROUNDING = 1e-10  # of a margin, relative to 1 and the scores; it must not decide a pair whose margin is exactly 1


@njit(fastmath={"contract"})
def one_after_another(scores, m, sign, cap, products, gram):
    """Replace the scores of m opponents and of x (last) by the coefficients of the step on each of them."""
    own_score, total = scores[m], 0.0
    for j in range(m):
        loss = 1.0 - sign * (own_score - scores[j])
        distance = products[m] - 2.0 * products[j] + gram[j, j]
        if loss <= 0.0 or distance <= _EQUAL * products[m]:  # equal rows have no direction to step in
            scores[j] = 0.0
            continue
        step = sign * (cap if cap * distance <= loss else loss / distance)
        own_score += step * (products[m] - products[j])
        row = gram[j]
        for i in range(j + 1, m):
            scores[i] += step * (products[i] - row[i])
        scores[j] = -step
        total += step
    scores[m] = total


@njit(fastmath={"contract"})
def all_at_once(scores, m, sign, cap):
    """As `one_after_another`, where every pair is judged by the scores before the row."""
    own_score, total = scores[m], 0.0
    step = sign * cap
    for j in range(m):
        rounding = _ROUNDING * (1.0 + abs(own_score) + abs(scores[j]))
        violated = sign * (own_score - scores[j]) <= 1.0 + rounding
        scores[j] = -step if violated else 0.0
        total += step if violated else 0.0
    scores[m] = total
