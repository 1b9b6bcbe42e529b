"""Second moments that keep only their largest entries: the sparse matrices of Algorithm 3 of Gao et al. 2016.

A class's sum of x x' is symmetric, so its upper triangle is stored, row by row, in one pair of arrays of columns and
values (the arena). A row has room to grow; when that is used up it moves to the end of the arena, and when the arena is
used up the rows are packed into a larger one. An entry beside the diagonal stands for two, and both stay or both go.

Keeping the largest ``d tau`` after every example is a selection among all entries, but not all of them have to be
read. The entries of each range of values (256 ranges per octave) are counted as they change, so the range with the
cut is known; a lower bound of the entries of each row says which rows reach down to it. While the smallest value that
is kept stays what it was, as with ties, the counts below it and at it suffice.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...kernels import njit

__all__ = ["NNZ", "Index", "SymmetricRows", "add_outer", "add_outer_above", "keep_above", "keep_largest"]

# Positions in the counters of a class.
NNZ, _TOP, _COUNTING, _LOWEST, _LESS, _EQUAL = range(6)
_SHIFT = 44  # a range is the exponent and eight bits of the mantissa
_N_RANGES = 1 << 19
_FINER = 28  # the same with 24 bits
_SMALLEST = 5e-324  # above 0
_SPARE = 32  # this part of what is kept may enter, and be dropped again, because a bound is not higher
_MAGNITUDE = 0x7FFFFFFFFFFFFFFF


class Index(NamedTuple):
    """The matrix of a class without its entries."""

    start: np.ndarray  # (n_features,), where a row begins in the arena
    length: np.ndarray  # (n_features,), how many entries it has
    room: np.ndarray  # (n_features,), how many it has room for
    least: np.ndarray  # (n_features,), lower bounds of its absolute entries
    # Entries of the full matrix; end of the used arena; whether entries are being counted by range, and then the lowest
    # range that may have any, and how many entries are below and at the threshold.
    counters: np.ndarray
    ranges: np.ndarray  # entries of the full matrix by range of their absolute values
    threshold: np.ndarray  # (1,), the smallest absolute value that was kept when entries were last dropped


class SymmetricRows:
    """The matrix of one class, as the rows of its upper triangle.

    ``cols`` and ``vals`` are the arena: columns, ascending in each row and not below its number, and values. The matrix
    ``selects`` where there may be too many entries, so that the largest have to be found.
    """

    def __init__(self, n_features: int, selects: bool):
        start, length, room = np.zeros((3, n_features), dtype=np.int64)
        counters, ranges = np.zeros(6, dtype=np.int64), np.zeros(_N_RANGES if selects else 0, dtype=np.int64)
        self.index = Index(start, length, room, np.full(n_features, np.inf), counters, ranges, np.zeros(1))
        self.cols, self.vals = np.zeros(64, dtype=np.uint32), np.zeros(64)


@njit()
def _count(bits, weight, m):
    """An absolute value, given by its bits, has come (weight > 0) or gone (weight < 0)."""
    bits &= _MAGNITUDE
    there = bits >> _SHIFT
    m.ranges[there] += weight
    if weight > 0 and there < m.counters[_LOWEST]:
        m.counters[_LOWEST] = there
    threshold = m.threshold.view(np.int64)[0]
    if bits < threshold:  # numbers that are not negative are ordered as their bits are
        m.counters[_LESS] += weight
    elif bits == threshold:
        m.counters[_EQUAL] += weight


@njit()
def add_outer(there, x, size, m, cols, vals):
    """Add x x' for a row with the values ``x`` at the ascending features ``there``; returns the arena.

    With a ``size`` above 0, `keep_largest` has to follow. Once it has dropped entries, few new ones stay: if ``size``
    entries reach the smallest value that was kept then, products below it do not enter.
    """
    k, threshold = len(there), m.threshold[0]
    selects = size > 0 and m.counters[_COUNTING] == 1 and threshold > 0.0
    new, before = np.empty(k, dtype=np.int64), np.empty(k, dtype=np.int64)
    cancelled, n_reaching = np.zeros(k, dtype=np.bool_), 0
    for p in range(k):
        n_new, cancelled[p] = _add_to_there(there, x, p, new, before, m, cols, vals)
        if selects:
            for r in range(n_new):
                if abs(x[p] * x[new[r]]) >= threshold:
                    n_reaching += 1 if new[r] == p else 2
        else:
            cols, vals = _insert(there, x, p, n_new, new, before, m, cols, vals)
    if selects:
        n_reaching += m.counters[NNZ] - m.counters[_LESS]
        none, starts = np.empty(0, dtype=cols.dtype), np.zeros(k + 1, dtype=np.int64)
        order = np.argsort(-np.abs(x))
        bound = threshold if n_reaching >= size else _SMALLEST
        cols, vals = _insert_above(bound, there, x, order, none, starts, m, cols, vals)
    for p in range(k):
        if cancelled[p]:
            _drop_zeros(there[p], m, cols, vals)
    return cols, vals


@njit()
def _add_to_there(there, x, p, new, before, m, cols, vals):
    """Add to the entries that row ``there[p]`` has; note which are ``new`` and ``before`` which place they belong."""
    i = there[p]
    at, end = m.start[i], m.start[i] + m.length[i]
    bits = vals.view(np.int64)
    n_new, cancelled = 0, False
    for q in range(p, len(there)):
        v = x[p] * x[q]
        at = _first_not_below(cols, at, end, there[q])
        if at < end and cols[at] == there[q]:
            weight = 1 if q == p else 2
            if m.counters[_COUNTING]:
                _count(bits[at], -weight, m)
            vals[at] += v
            if vals[at] == 0.0:
                cancelled = True
                m.counters[NNZ] -= weight
            else:
                m.least[i] = min(m.least[i], abs(vals[at]))
                if m.counters[_COUNTING]:
                    _count(bits[at], weight, m)
        elif v != 0.0:
            new[n_new], before[n_new] = q, at
            n_new += 1
    return n_new, cancelled


@njit()
def _insert(there, x, p, n_new, new, before, m, cols, vals):
    """Put ``n_new`` entries into row ``there[p]``, each ``before`` a position; returns the arena."""
    if n_new == 0:
        return cols, vals
    i = there[p]
    begin, cols, vals = _place_for(i, n_new, before, m, cols, vals)
    _open_gaps(begin, m.start[i], m.length[i], before, n_new, cols, vals)
    bits = vals.view(np.int64)
    for r in range(n_new):
        q, e = new[r], begin + before[r] - m.start[i] + r
        cols[e], vals[e] = there[q], x[p] * x[q]
        weight = 1 if q == p else 2
        m.counters[NNZ] += weight
        m.least[i] = min(m.least[i], abs(vals[e]))
        if m.counters[_COUNTING]:
            _count(bits[e], weight, m)
    m.start[i] = begin
    m.length[i] += n_new
    return cols, vals


@njit()
def _first_not_below(cols, at, end, j):
    while at < end:
        middle = (at + end) // 2
        if cols[middle] < j:
            at = middle + 1
        else:
            end = middle
    return at


@njit()
def _has(cols, begin, end, j):
    at = _first_not_below(cols, begin, end, j)
    return at < end and cols[at] == j


@njit()
def _place_for(i, n_new, before, m, cols, vals):
    """Where row i has room for ``n_new`` more entries, and the arena; positions ``before`` move with the row."""
    wanted = m.length[i] + n_new
    if wanted <= m.room[i]:
        return m.start[i], cols, vals
    wanted += wanted // 2 + 2
    if m.counters[_TOP] + wanted > len(cols):
        old = m.start[i]
        cols, vals = _packed(wanted, m, cols, vals)
        for r in range(n_new):
            before[r] += m.start[i] - old
    begin = m.counters[_TOP]
    m.counters[_TOP] += wanted
    m.room[i] = wanted
    return begin, cols, vals


@njit()
def _packed(wanted, m, cols, vals):
    """The rows in a new arena, each with room for a quarter more, and space for ``wanted`` entries and for other moves.

    Rows that entries were dropped from get about as many new ones, so that most of them stay in place. Free places are
    zero: they are written with the state, whose bytes are to depend on the rows alone.
    """
    n_entries = m.length.sum()
    size = n_entries + n_entries // 4 + 4 * len(m.start) + n_entries // 2 + wanted
    new_cols, new_vals = np.zeros(size, dtype=np.uint32), np.zeros(size)
    top = 0
    for i in range(len(m.start)):
        for e in range(m.length[i]):
            new_cols[top + e], new_vals[top + e] = cols[m.start[i] + e], vals[m.start[i] + e]
        m.start[i] = top
        m.room[i] = m.length[i] + m.length[i] // 4 + 4 if m.length[i] > 0 else 0
        top += m.room[i]
    m.counters[_TOP] = top
    return new_cols, new_vals


@njit()
def _open_gaps(begin, start, length, before, n_new, cols, vals):
    """Move a row to ``begin``, leaving one place before each of its positions ``before``."""
    end = start + length
    for r in range(n_new - 1, -2, -1):
        first = before[r] if r >= 0 else start
        shift = begin - start + r + 1
        if shift != 0:
            for e in range(end - 1, first - 1, -1):
                cols[e + shift], vals[e + shift] = cols[e], vals[e]
        end = first


@njit()
def _drop_zeros(i, m, cols, vals):
    kept = m.start[i]
    for e in range(m.start[i], m.start[i] + m.length[i]):
        if vals[e] != 0.0:
            cols[kept], vals[kept] = cols[e], vals[e]
            kept += 1
    m.length[i] = kept - m.start[i]


# ---------------------------------------------------------------------- rows with many features


@njit()
def add_outer_above(there, x, x_dense, size, m, cols, vals):
    """Add x x', but of the entries that the matrix does not have only those that may be among the ``size`` largest.

    For rows with so many features that entries have to be dropped afterwards. Entries that the matrix has are updated
    first. A bound L follows, such that at least ``size`` of all entries are L or more; so an absent one with
    abs(x_i x_j) < L is dropped anyway. Those above L are found in the order of abs(x). `keep_largest` has to follow.
    ``x_dense`` is the row with its zeros. Returns the arena.
    """
    gain = np.zeros(_N_RANGES, dtype=np.int64)
    cancelled, starts = _update_all(there, x_dense, gain, m, cols, vals)
    order = np.argsort(-np.abs(x))
    bound = _bound(there, x_dense, cancelled, starts, np.abs(x)[order], size, gain, m, cols, vals)
    return _insert_above(bound, there, x, order, cancelled, starts, m, cols, vals)


@njit()
def _insert_above(bound, there, x, order, cancelled, starts, m, cols, vals):
    """Put in the products from ``bound`` on that have no entry, nor had one that was ``cancelled``; returns the arena.

    ``order`` is that of abs(x), descending.
    """
    found, new, before = np.empty(len(x), np.int64), np.empty(len(x), np.int64), np.empty(len(x), np.int64)
    for p in range(len(x)):
        i, n_found = there[p], 0
        for q in order:
            if not abs(x[p] * x[q]) >= bound:
                break
            if q >= p:
                found[n_found] = q
                n_found += 1
        if n_found > 0:
            of_row = cancelled[starts[p] : starts[p + 1]]
            n_new = _absent(there, i, found[:n_found], of_row, m, cols, new, before)
            cols, vals = _insert(there, x, p, n_new, new, before, m, cols, vals)
    return cols, vals


@njit()
def _absent(there, i, found, cancelled, m, cols, new, before):
    """Write to ``new``, in ascending order, with which of the features ``found`` row i has no entry.

    Nor had one that was ``cancelled``. Features are given by their places in ``there``; ``before`` gets the place of
    the arena before which each entry belongs. Returns how many there are.
    """
    n_new, at, end = 0, m.start[i], m.start[i] + m.length[i]
    for q in np.sort(found):
        at = _first_not_below(cols, at, end, there[q])
        if not (_has(cols, at, end, there[q]) or _has(cancelled, 0, len(cancelled), there[q])):
            new[n_new], before[n_new] = q, at
            n_new += 1
    return n_new


@njit()
def _update_all(there, x_dense, gain, m, cols, vals):
    """Add x_i x_j to each entry that the matrix has, drop those that are 0 then, and count the others by range.

    ``gain`` gets what is there afterwards, less the products of the row that belong to an entry from before, by range.
    Returns the columns of what was dropped, row by row in the order of ``there``, and where each row begins.
    """
    m.ranges[:] = 0
    m.threshold[0] = 0.0
    m.counters[_COUNTING], m.counters[_LESS], m.counters[_EQUAL] = 1, 0, 0
    starts, p = np.zeros(len(there) + 1, dtype=np.int64), 0
    products, bits = np.empty(m.length.max()), vals.view(np.int64)
    of_products = products.view(np.int64)
    for i in range(len(m.start)):
        start, length = m.start[i], m.length[i]
        x_i, n_zero, least = x_dense[i], 0, np.inf
        if x_i == 0.0:
            for e in range(start, start + length):
                m.ranges[(bits[e] & _MAGNITUDE) >> _SHIFT] += 1 if cols[e] == i else 2
            continue
        for e in range(length):
            products[e] = x_i * x_dense[cols[start + e]]
        for e in range(length):
            vals[start + e] += products[e]
        for e in range(length):
            weight = 1 if cols[start + e] == i else 2
            gain[(of_products[e] & _MAGNITUDE) >> _SHIFT] -= weight
            size = abs(vals[start + e])
            if size == 0.0:
                n_zero += 1
                m.counters[NNZ] -= weight
            else:
                m.ranges[(bits[start + e] & _MAGNITUDE) >> _SHIFT] += weight
                least = min(least, size)
        m.least[i] = least
        starts[p + 1] = starts[p] + n_zero
        p += 1
    gain += m.ranges
    m.counters[_LOWEST] = 0
    while m.counters[_LOWEST] < _N_RANGES - 1 and m.ranges[m.counters[_LOWEST]] == 0:
        m.counters[_LOWEST] += 1
    cancelled, n = np.empty(starts[len(there)], dtype=cols.dtype), 0
    for p in range(len(there)):
        if starts[p] < starts[p + 1]:
            i = there[p]
            for e in range(m.start[i], m.start[i] + m.length[i]):
                if vals[e] == 0.0:
                    cancelled[n] = cols[e]
                    n += 1
            _drop_zeros(i, m, cols, vals)
    return cancelled, starts


@njit()
def _bound(there, x_dense, cancelled, starts, largest, size, gain, m, cols, vals):
    """A value which at least ``size`` entries of the sum reach, and not many more.

    They are entries that the matrix has, and products of the row less those that belong to one of these, or to one that
    was ``cancelled``. The range of the value is found first, then more of its bits. Where few entries and few of their
    products are in that range, all these products are taken for ones above the value, and none of the entries.
    """
    for part in range(_N_RANGES - 2, -1, -1):
        gain[part] += gain[part + 1]
    part = _last_that_reaches(0, _SHIFT, largest, size, gain)
    above = gain[part + 1] if part + 1 < _N_RANGES else np.int64(0)
    n_products, bits = above + m.ranges[part] - gain[part], _SHIFT - _FINER
    finer = np.zeros(1 << bits, dtype=np.int64)
    if m.ranges[part] + n_products > size // _SPARE:
        _count_gains(part, there, x_dense, cancelled, starts, m, cols, vals, finer)
        for k in range(len(finer) - 2, -1, -1):
            finer[k] += finer[k + 1]
    else:
        finer -= n_products
    finer += above
    k = _last_that_reaches(part << bits, _FINER, largest, size, finer)
    return _number((part << bits | k) << _FINER)


@njit()
def _last_that_reaches(leading, shift, largest, size, gain):
    """The last of some ascending ranges whose lower end at least ``size`` entries reach; they do so for the first."""
    low, high = 0, len(gain)
    while high - low > 1:
        middle = (low + high) // 2
        if _n_products(largest, _number((leading + middle) << shift)) + gain[middle] >= size:
            low = middle
        else:
            high = middle
    return low


@njit()
def _count_gains(part, there, x_dense, cancelled, starts, m, cols, vals, gain):
    """Add to ``gain`` the entries in a range, less the products of the row that belong to one, by their next bits."""
    last = (1 << (_SHIFT - _FINER)) - 1
    bits, products = vals.view(np.int64), np.empty(max(m.length.max(), len(cancelled)))
    of_products = products.view(np.int64)
    for i in range(len(m.start)):
        start, length = m.start[i], m.length[i]
        for e in range(length):
            products[e] = x_dense[i] * x_dense[cols[start + e]]
        for e in range(length):
            weight = 1 if cols[start + e] == i else 2
            of_entry, of_product = bits[start + e] & _MAGNITUDE, of_products[e] & _MAGNITUDE
            if of_entry >> _SHIFT == part:
                gain[of_entry >> _FINER & last] += weight
            if of_product >> _SHIFT == part:
                gain[of_product >> _FINER & last] -= weight
    for p in range(len(there)):
        for e in range(starts[p], starts[p + 1]):
            products[e] = x_dense[there[p]] * x_dense[cancelled[e]]
            of_product = of_products[e] & _MAGNITUDE
            if of_product >> _SHIFT == part:
                gain[of_product >> _FINER & last] -= 2  # squares do not cancel


@njit()
def _number(bits):
    return np.array([bits], dtype=np.int64).view(np.float64)[0]


@njit()
def _n_products(largest, value):
    """How many products of two absolute values, in descending order, reach a value."""
    n, r = 0, len(largest)
    for p in range(len(largest)):
        while r > 0 and not largest[p] * largest[r - 1] >= value:
            r -= 1
        if r == 0:
            break
        n += r
    return n


# ---------------------------------------------------------------------- dropping entries


@njit()
def keep_largest(size, go_on_counting, m, cols, vals):
    """Drop the smallest absolute entries until the full matrix has at most ``size``.

    Of equal ones those go first that come last in the upper triangle, row by row. Whether to ``go_on_counting`` by
    range depends on whether this will be wanted again soon.
    """
    excess = m.counters[NNZ] - size
    if not m.counters[_COUNTING]:
        _count_all(m, cols, vals)
    if m.threshold[0] == 0.0 or not m.counters[_LESS] <= excess <= m.counters[_LESS] + m.counters[_EQUAL]:
        _place_threshold(excess, m, cols, vals)
    threshold, ties = m.threshold[0], excess - m.counters[_LESS]
    for i in range(len(m.start) - 1, -1, -1):
        if m.length[i] > 0 and (m.least[i] < threshold or (m.least[i] == threshold and ties > 0)):
            ties = _cut_row(i, threshold, ties, m, cols, vals)
    m.counters[_COUNTING] = go_on_counting


@njit()
def _count_all(m, cols, vals):
    m.ranges[:] = 0
    m.threshold[0] = 0.0
    bits, lowest = vals.view(np.int64), _N_RANGES - 1
    for i in range(len(m.start)):
        for e in range(m.start[i], m.start[i] + m.length[i]):
            there = (bits[e] & _MAGNITUDE) >> _SHIFT
            m.ranges[there] += 1 if cols[e] == i else 2
            lowest = min(lowest, there)
    m.counters[_LOWEST], m.counters[_LESS], m.counters[_EQUAL] = lowest, 0, 0


@njit()
def _place_threshold(excess, m, cols, vals):
    """Find the value at which ``excess`` entries are reached from below."""
    there, below = m.counters[_LOWEST], 0
    while there < _N_RANGES - 1 and below + m.ranges[there] < excess:
        below += m.ranges[there]
        there += 1
    values, weights = np.empty(m.ranges[there]), np.empty(m.ranges[there], dtype=np.int64)
    bits, least, n = vals.view(np.int64), m.least.view(np.int64), 0
    for i in range(len(m.start)):
        if m.length[i] == 0 or least[i] >> _SHIFT > there:
            continue
        m.least[i] = np.inf
        for e in range(m.start[i], m.start[i] + m.length[i]):
            m.least[i] = min(m.least[i], abs(vals[e]))
            if (bits[e] & _MAGNITUDE) >> _SHIFT == there:
                values[n], weights[n] = abs(vals[e]), 1 if cols[e] == i else 2
                n += 1
    order = np.argsort(values[:n])
    at, equal = 0, 0
    while at < n and below + equal < excess:
        below += equal
        threshold, equal = values[order[at]], 0
        while at < n and not values[order[at]] > threshold:  # NaN are last, and equal nothing
            equal += weights[order[at]]
            at += 1
        m.threshold[0] = threshold
    m.counters[_LOWEST], m.counters[_LESS], m.counters[_EQUAL] = there, below, equal


@njit()
def _cut_row(i, threshold, ties, m, cols, vals):
    """Drop from a row what is below the threshold, and the last of what is equal to it; how many ``ties`` are left."""
    bits = vals.view(np.int64)
    begin, end = m.start[i], m.start[i] + m.length[i]
    last_ties, e = end, end - 1
    while e >= begin and ties > 0:
        if abs(vals[e]) == threshold:
            ties -= 1 if cols[e] == i else 2
            last_ties = e
        e -= 1
    kept = begin
    m.least[i] = np.inf
    for e in range(begin, end):
        v = abs(vals[e])
        if v < threshold or (v == threshold and e >= last_ties):
            weight = 1 if cols[e] == i else 2
            m.counters[NNZ] -= weight
            _count(bits[e], -weight, m)
        else:
            cols[kept], vals[kept] = cols[e], vals[e]
            m.least[i] = min(m.least[i], v)
            kept += 1
    m.length[i] = kept - begin
    return ties


@njit()
def keep_above(size, m, cols, vals):
    """Drop every entry up to a threshold that leaves between nine tenths of ``size`` and ``size`` entries.

    The threshold is bisected between the least and the greatest entry of the full matrix, with their signs; when the
    bracket gets narrower than 1e-5, it is the upper end, whatever that leaves.
    """
    d = len(m.start)
    full = m.counters[NNZ] == d * d
    low, high = (np.inf, -np.inf) if full else (0.0, 0.0)
    for i in range(d):
        for e in range(m.start[i], m.start[i] + m.length[i]):
            low, high = min(low, vals[e]), max(high, vals[e])
    while True:
        threshold = 0.5 * (low + high)
        n_above = d * d - m.counters[NNZ] if threshold < 0.0 else 0  # zeros are above it, too
        for i in range(d):
            for e in range(m.start[i], m.start[i] + m.length[i]):
                if vals[e] > threshold:
                    n_above += 1 if cols[e] == i else 2
        if np.ceil(0.9 * size) <= n_above <= size:
            break
        narrowed = low != threshold and high != threshold
        if n_above > size:
            low = threshold
        else:
            high = threshold
        if not (narrowed and high - low >= 1e-5):
            threshold = high
            break
    m.counters[NNZ] = 0
    for i in range(d):
        kept = m.start[i]
        for e in range(m.start[i], m.start[i] + m.length[i]):
            if vals[e] > threshold:
                m.counters[NNZ] += 1 if cols[e] == i else 2
                cols[kept], vals[kept] = cols[e], vals[e]
                kept += 1
        m.length[i] = kept - m.start[i]
