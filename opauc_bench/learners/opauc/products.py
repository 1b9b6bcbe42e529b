"""Matrix products inside kernels, which are faster than BLAS at the sizes of a step."""

from __future__ import annotations

from ...kernels import njit

__all__ = ["add_four_rows", "add_product", "add_row", "dot"]


@njit(fastmath={"contract"})
def add_product(out, A, B, n_rows, n_inner):
    """out[:n_rows] += A[:n_rows, :n_inner] B[:n_inner]; a row of ``out`` is the same however many there are."""
    n_fours = n_rows - n_rows % 4
    for i in range(0, n_fours, 4):
        add_four_rows(out, i, A, i, B, n_inner)
    for i in range(n_fours, n_rows):
        add_row(out[i], A[i], B, n_inner)


@njit(fastmath={"contract"}, inline="always")
def add_four_rows(out, i, A, k, B, n_inner):
    """out[i : i + 4] += A[k : k + 4, :n_inner] B[:n_inner]: coefficients stay in registers while columns stream by."""
    width, n_fours = out.shape[1], n_inner - n_inner % 4
    o0, o1, o2, o3 = out[i], out[i + 1], out[i + 2], out[i + 3]
    a0, a1, a2, a3 = A[k], A[k + 1], A[k + 2], A[k + 3]
    for j in range(0, n_fours, 4):
        b0, b1, b2, b3 = B[j], B[j + 1], B[j + 2], B[j + 3]
        a00, a01, a02, a03 = a0[j], a0[j + 1], a0[j + 2], a0[j + 3]
        a10, a11, a12, a13 = a1[j], a1[j + 1], a1[j + 2], a1[j + 3]
        a20, a21, a22, a23 = a2[j], a2[j + 1], a2[j + 2], a2[j + 3]
        a30, a31, a32, a33 = a3[j], a3[j + 1], a3[j + 2], a3[j + 3]
        for g in range(width):
            x0, x1, x2, x3 = b0[g], b1[g], b2[g], b3[g]
            o0[g] += a00 * x0 + a01 * x1 + a02 * x2 + a03 * x3
            o1[g] += a10 * x0 + a11 * x1 + a12 * x2 + a13 * x3
            o2[g] += a20 * x0 + a21 * x1 + a22 * x2 + a23 * x3
            o3[g] += a30 * x0 + a31 * x1 + a32 * x2 + a33 * x3
    for j in range(n_fours, n_inner):
        b0 = B[j]
        for g in range(width):
            x0 = b0[g]
            o0[g] += a0[j] * x0
            o1[g] += a1[j] * x0
            o2[g] += a2[j] * x0
            o3[g] += a3[j] * x0


@njit(fastmath={"contract"})
def add_row(out, a, B, n_inner):
    """out += a[:n_inner] B[:n_inner], as a row of `add_product`."""
    width, n_fours = len(out), n_inner - n_inner % 4
    for j in range(0, n_fours, 4):
        b0, b1, b2, b3 = B[j], B[j + 1], B[j + 2], B[j + 3]
        a0, a1, a2, a3 = a[j], a[j + 1], a[j + 2], a[j + 3]
        for g in range(width):
            out[g] += a0 * b0[g] + a1 * b1[g] + a2 * b2[g] + a3 * b3[g]
    for j in range(n_fours, n_inner):
        b0 = B[j]
        for g in range(width):
            out[g] += a[j] * b0[g]


@njit(fastmath={"contract", "reassoc"})
def dot(a, b):
    total = 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
    return total
