"""Compiled steps of OPAUC with sketched second moments; `random_sketch.py` has the equations and the names.

A step of the implicit form needs p = B'u of
the opposite class only. So while rows of one class come one after the other, a run, p of that class waits: what the run
adds to b of the other class is summed up in ``delta``, and each step leaves two more columns of the product that p has
to follow, B'x with e and rho with x'u less what ``delta`` had of it. Where classes alternate at random this saves a
quarter of the products, and more where one class is rare.
"""

from __future__ import annotations

import numpy as np

from ...kernels import njit
from .intrinsics import prefetch
from .products import add_product, add_row

__all__ = ["LONGEST_RUN", "bring_up_to_date", "implicit_steps", "plain_steps", "squared_lengths"]

_SMALLEST, _SMALL, _LARGEST = 1e-150, 1e-60, 1e150  # of alpha; what is small is folded with what is too small
LONGEST_RUN = 6  # steps after which p of the class that the rows are of catches up


@njit(fastmath={"contract"})
def _count(own, rho, counts, mean_draws):
    counts[own] += 1.0
    for j in range(mean_draws.shape[1]):
        mean_draws[own, j] += (rho[j] - mean_draws[own, j]) / counts[own]


@njit(fastmath={"contract"})
def _correction(nu, mean_draw):
    """``nu``, or where that is NaN the squared length of the mean draw."""
    if not np.isnan(nu):
        return nu
    total = 0.0
    for h in mean_draw:
        total += h * h
    return total


@njit(fastmath={"contract", "reassoc"})
def plain_steps(indptr, indices, data, y, rho, eta, lam, nu, counts, mean_draws, sums, sketches, w):
    """The paper's algorithm for one setting."""
    d, tau = sketches.shape[1:]
    q = np.empty(tau)
    for t in range(len(y)):
        own, opp, sign = (0, 1, 1.0) if y[t] > 0 else (1, 0, -1.0)
        _count(own, rho[t], counts, mean_draws)
        score = 0.0
        for k in range(indptr[t], indptr[t + 1]):
            i, x, row = indices[k], data[k], sketches[own, indices[k]]
            score += x * w[i]
            sums[own, i] += x
            for j in range(tau):
                row[j] += x * rho[t, j]
        if counts[opp] == 0.0:
            continue
        Z, s, per_count = sketches[opp], sums[opp], 1.0 / counts[opp]
        q[:] = 0.0
        centre = 0.0
        for i in range(d):
            wi, row = w[i], Z[i]
            centre += s[i] * wi
            for j in range(tau):
                q[j] += row[j] * wi
        centre *= per_count
        e = eta * (sign - (score - centre))
        f, by_sum = 1.0 - eta * lam, (eta * _correction(nu, mean_draws[opp]) * centre - e) * per_count
        for j in range(tau):
            q[j] *= eta * per_count
        for i in range(d):
            row, total = Z[i], 0.0
            for j in range(tau):
                total += row[j] * q[j]
            w[i] = f * w[i] + by_sum * s[i] - total
        for k in range(indptr[t], indptr[t + 1]):
            w[indices[k]] += e * data[k]


@njit(fastmath={"contract"}, error_model="numpy")
def implicit_steps(
    indptr, indices, data, to_indptr, to_indices, to_data, squares, y, rho, eta, factor, survives, forgetful, nu,
    counts, mean_draws, basis, gram, cross, run, alpha, b, p, delta, fades, seen, of_last, features, values, V,
):  # fmt: skip
    """The steps of all settings, without forming their weights; ``features`` and ``values`` are of the last row.

    ``basis`` and ``V`` are multiplied by the rows of ``indices`` and ``data``, whose squared lengths are ``squares``;
    multiples of the rows of ``to_indices`` and ``to_data`` are added to them: the same rows, except in blocks.

    The settings with f = 0 are ``forgetful``. For them ``survives`` is 0, elsewhere 1, and ``factor`` 1, elsewhere f.
    """
    width, c, half = V.shape[1], rho.shape[1], basis.shape[1] // 2
    z, xu, in_run, push = np.zeros(2 * half), np.empty(width), np.empty(width), np.empty(width)
    r, beta = np.zeros(half), np.zeros((-(-(c + 1) // 4) * 4, width))
    for t in range(len(y)):
        x_features, x = indices[indptr[t] : indptr[t + 1]], data[indptr[t] : indptr[t + 1]]
        to_features, to_x = to_indices[to_indptr[t] : to_indptr[t + 1]], to_data[to_indptr[t] : to_indptr[t + 1]]
        own, opp, sign = (0, 1, 1.0) if y[t] > 0 else (1, 0, -1.0)
        for i in range(c):
            r[i] = rho[t, i]
        _count(own, rho[t], counts, mean_draws)
        z[:] = 0.0
        _add_rows(basis, x_features, x, z)
        _add_to_basis(basis, to_features, to_x, own * half, r)
        z_own, z_opp = z[own * half : (own + 1) * half], z[opp * half : (opp + 1) * half]
        n = run[1]
        if n > 0 and (run[0] != own or n == LONGEST_RUN):
            _catch_up(run[0], n, c, cross[run[0]], delta, forgetful, b, p)
            n = 0
        if counts[opp] == 0.0:
            _add_to_gram(squares[t], r, z_own, z_opp, gram[own], cross[own], cross[opp])
            continue
        _in_coordinates(z_own, z_opp, r, b[own], b[opp], delta, n, c, forgetful, xu, in_run, push)
        _in_rows(x_features, x, V, seen, fades, run, xu)
        if len(forgetful):
            with_last = _product(x_features, x, features, values)
            for g in forgetful:
                xu[g] += of_last[g] * with_last
        _add_to_gram(squares[t], r, z_own, z_opp, gram[own], cross[own], cross[opp])
        run[0], run[1], run[2] = own, n + 1, run[2] + 1
        per_count, new = 1.0 / counts[opp], delta[: len(beta)] if n == 0 else beta
        by_x, by_r, p_sum = delta[c + 2 * n], delta[c + 2 * n + 1], p[opp, c - 1]
        for g in range(width):
            centre = alpha[g] * p_sum[g] * per_count
            step = eta[g] * (sign - alpha[g] * (xu[g] + in_run[g]) + centre)
            alpha[g] *= factor[g]
            per_alpha = 1.0 / alpha[g]
            by_x[g] = step * per_alpha
            by_r[g] = survives[g] * xu[g]
            push[g] = survives[g] * (by_x[g] - push[g])
            of_last[g] = by_x[g] - survives[g] * by_x[g]
            in_run[g] = eta[g] * centre * per_count * per_alpha
            xu[g] = -eta[g] / factor[g] * per_count
        correction = _correction(nu, mean_draws[opp])
        _set_beta(xu, in_run, correction, by_x, per_count, p[opp], new, c)
        for k in range(len(to_x)):
            row = V[to_features[k]]
            seen[to_features[k]] = run[2] - 1
            for g in range(width):
                row[g] += to_x[k] * push[g]
        if t + 1 < len(y):
            _fetch(indices[indptr[t + 1] : indptr[t + 2]], basis, V)
        if n > 0:
            for g in range(width):
                beta[c, g] = by_x[g]
            _accumulate(delta, beta, survives, c, c + 2 * n)
        for i in range(c):
            gram[opp, i, c] = z_opp[i]
            cross[own, i, c + 2 * n] = z_own[i]
            cross[own, i, c + 2 * n + 1] = r[i]
        _clear(p[opp], forgetful)
        add_product(p[opp], gram[opp], new, len(p[opp]), len(new))
        if _any_outside(alpha):
            _fold(alpha, b, p, delta, V, fades, run[2])
            run[3] = run[2]
        features, values = to_features, to_x


@njit(fastmath={"contract"})
def squared_lengths(indptr, data):
    """Of CSR rows."""
    squares = np.zeros(len(indptr) - 1)
    for t in range(len(squares)):
        for k in range(indptr[t], indptr[t + 1]):
            squares[t] += data[k] * data[k]
    return squares


@njit(fastmath={"contract"})
def _in_coordinates(z_own, z_opp, r, b_own, b_opp, delta, n, c, forgetful, xu, in_run, push):
    """The share of B b in x'u: without the run in ``xu``, of the run in ``in_run``; r'b of the class in ``push``."""
    xu[:] = 0.0
    push[:] = 0.0
    in_run[:] = 0.0
    _times_two(z_own, r, b_own, xu, push)
    add_row(xu, z_opp, b_opp, c)
    if n > 0:
        add_row(in_run, z_opp, delta, c)
        for g in forgetful:  # b is from before the run, and gone
            xu[g] = 0.0


@njit(fastmath={"contract"})
def _in_rows(features, x, V, seen, fades, run, xu):
    """xu += x'v, four rows at a time, after bringing them up to date."""
    for k in range(0, len(x), 4):
        four = features[k : k + 4]
        for i in four:
            if seen[i] < run[3]:
                _fade(V[i], seen[i], fades[0], fades[1], fades[2])
            seen[i] = run[2]
        _add_rows(V, four, x[k : k + 4], xu)


@njit(fastmath={"contract"})
def _set_beta(scale, by_centre, correction, e, per_count, p_opp, beta, c):
    """The change of b of the opposite class: its Z by p_Z, its s by the centre and by x."""
    for j in range(c - 1):
        beta_j, p_j = beta[j], p_opp[j]
        for g in range(len(scale)):
            beta_j[g] = scale[g] * p_j[g]
    of_sum = beta[c - 1]
    for g in range(len(scale)):
        of_sum[g] = correction * by_centre[g] - e[g] * per_count


@njit()
def _any_outside(alpha):
    outside = False
    for a in alpha:
        outside |= not (_SMALLEST < abs(a) < _LARGEST)
    return outside


@njit(fastmath={"contract"})
def _accumulate(delta, beta, survives, c, used):
    """delta += beta; where f = 0, nothing that was there before is left."""
    for j in range(c):
        total, new = delta[j], beta[j]
        for g in range(len(survives)):
            total[g] = survives[g] * total[g] + new[g]
    for j in range(c, used):
        total = delta[j]
        for g in range(len(survives)):
            total[g] *= survives[g]


@njit()
def _clear(A, columns):
    for i in range(A.shape[0]):
        for g in columns:
            A[i, g] = 0.0


@njit(fastmath={"contract"})
def _catch_up(own, n, c, cross_own, delta, forgetful, b, p):
    """End a run of n steps on rows of one class: p and b of that class follow."""
    used = c + 2 * n
    padded = min(-(-used // 4) * 4, delta.shape[0])
    cross_own[:, used:padded] = 0.0
    delta[used:padded] = 0.0
    for A in (p[own], b[own], b[1 - own]):
        _clear(A, forgetful)
    for j in range(c):
        b_opp, change = b[1 - own, j], delta[j]
        for g in range(b.shape[2]):
            b_opp[g] += change[g]
    add_product(p[own], cross_own, delta, len(p[own]), padded)


@njit(fastmath={"contract"})
def _add_to_basis(basis, features, x, own_at, r):
    """B_own += x r'."""
    for k in range(len(x)):
        row = basis[features[k]][own_at : own_at + len(r)]
        for j in range(len(r)):
            row[j] += x[k] * r[j]


@njit(fastmath={"contract"})
def _add_to_gram(square, r, z_own, z_opp, G_own, cross_own, cross_opp):
    """Update the Gram matrices and z = B'x for B_own += x r'; ``square`` is that of the length of x."""
    half = len(r)
    for i in range(min(half, len(G_own))):
        with_own, across, back = G_own[i], cross_own[i], cross_opp[i]
        ri, by_r, zi = r[i], z_own[i] + square * r[i], z_opp[i]
        for j in range(half):
            with_own[j] += by_r * r[j] + ri * z_own[j]
            across[j] += ri * z_opp[j]
            back[j] += zi * r[j]
    for j in range(half):
        z_own[j] += square * r[j]


@njit(fastmath={"contract"})
def _add_rows(A, rows, x, total):
    """total += x'A[rows]: four rows at a time, which are fetched from memory side by side."""
    width, n = total.shape[0], len(rows)
    n_fours = n - n % 4
    for k in range(0, n_fours, 4):
        A0, A1, A2, A3 = A[rows[k]], A[rows[k + 1]], A[rows[k + 2]], A[rows[k + 3]]
        x0, x1, x2, x3 = x[k], x[k + 1], x[k + 2], x[k + 3]
        for g in range(width):
            total[g] += x0 * A0[g] + x1 * A1[g] + x2 * A2[g] + x3 * A3[g]
    for k in range(n_fours, n):
        A0, x0 = A[rows[k]], x[k]
        for g in range(width):
            total[g] += x0 * A0[g]


@njit()
def _fetch(rows, *matrices):
    """Prefetch rows of large matrices."""
    for A in matrices:
        for i in rows:
            for j in range(0, A.shape[1], 8):
                prefetch(A, i, j)


@njit(fastmath={"contract"})
def _product(features, x, others, values):
    """Inner product of two sparse rows with ascending features."""
    total, k = 0.0, 0
    for j in range(len(features)):
        while k < len(others) and others[k] < features[j]:
            k += 1
        if k < len(others) and others[k] == features[j]:
            total += x[j] * values[k]
    return total


@njit(fastmath={"contract"})
def _times_two(z, r, b, by_z, by_r):
    """Add z'b and r'b."""
    for i in range(0, b.shape[0], 8):
        b0, b1, b2, b3, b4, b5, b6, b7 = (
            b[i], b[i + 1], b[i + 2], b[i + 3], b[i + 4], b[i + 5], b[i + 6], b[i + 7]
        )  # fmt: skip
        z0, z1, z2, z3, z4, z5, z6, z7 = (
            z[i], z[i + 1], z[i + 2], z[i + 3], z[i + 4], z[i + 5], z[i + 6], z[i + 7]
        )  # fmt: skip
        r0, r1, r2, r3, r4, r5, r6, r7 = (
            r[i], r[i + 1], r[i + 2], r[i + 3], r[i + 4], r[i + 5], r[i + 6], r[i + 7]
        )  # fmt: skip
        for g in range(b.shape[1]):
            w0, w1, w2, w3, w4, w5, w6, w7 = b0[g], b1[g], b2[g], b3[g], b4[g], b5[g], b6[g], b7[g]
            by_z[g] += z0 * w0 + z1 * w1 + z2 * w2 + z3 * w3 + z4 * w4 + z5 * w5 + z6 * w6 + z7 * w7
            by_r[g] += r0 * w0 + r1 * w1 + r2 * w2 + r3 * w3 + r4 * w4 + r5 * w5 + r6 * w6 + r7 * w7


@njit()
def _fold(alpha, b, p, delta, V, fades, step):
    """Multiply alphas into u; into v at once where they grow, else when its rows are next needed."""
    for g in range(len(alpha)):
        size = abs(alpha[g])
        if not np.isfinite(size) or _SMALL <= size <= _LARGEST:
            continue
        for A in (delta, b[0], b[1], p[0], p[1]):
            _scale_column(A, g, alpha[g])
        if size > _LARGEST:
            _scale_column(V, g, alpha[g])
        else:
            fades[1, g], fades[0, g], fades[2, g] = fades[0, g], step, alpha[g]
        alpha[g] = 1.0


@njit()
def _scale_column(A, g, factor):
    for i in range(A.shape[0]):
        A[i, g] *= factor


@njit()
def bring_up_to_date(V, seen, fades):
    """Multiply rows of v by the alphas that have been folded since each was last ``seen``."""
    for i in range(V.shape[0]):
        _fade(V[i], seen[i], fades[0], fades[1], fades[2])


@njit()
def _fade(row, seen, last, before, factor):
    """Multiply one row of v by the alphas that have been folded since it was last ``seen``; two folds leave nothing."""
    for g in range(len(row)):
        of_last, of_before, one_fold = last[g], before[g], factor[g]
        left = 1.0 if seen >= of_last else one_fold
        row[g] *= left if seen >= of_before else 0.0
