"""Operations that numba does not have, for kernels, as instructions of LLVM.

Functions of Python take their place where numba is disabled.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ...kernels import Kernel

__all__ = ["LANES", "add_rows", "add_rows_in_fours", "prefetch"]

LANES = 32  # numbers in a row that `add_rows` takes


def _prefetch() -> Callable:
    import numba
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils
    from numba.extending import intrinsic

    config: Any = numba.config
    if config.DISABLE_JIT:
        return lambda array, i, j: None

    @intrinsic
    def request(_typing, array, i, j):
        def generate(context, builder, signature, arguments):
            array_type = signature.args[0]
            view = context.make_array(array_type)(context, builder, arguments[0])
            entry = cgutils.get_item_pointer(context, builder, array_type, view, arguments[1:])
            byte_pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [byte_pointer, number, number, number])
            call = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
            # to read, for the second-level cache, data
            builder.call(call, [builder.bitcast(entry, byte_pointer), number(0), number(2), number(1)])
            return context.get_dummy_value()

        return types.void(array, types.intp, types.intp), generate

    return numba.njit(lambda array, i, j: request(array, i, j))  # type: ignore[call-arg]  # without _typing


def prefetch(array, i, j) -> None:
    """Ask the processor for the cache line of ``array[i, j]``, inside a kernel; changes no result.

    It pays where rows of a large matrix are needed soon in an order that the processor cannot guess.
    """


prefetch = Kernel(prefetch, _prefetch)


def add_rows(out, A, columns, values, begin, end) -> None:
    """out += values[e] * A[columns[e]] for e = begin, ..., end - 1, one after the other, inside a kernel.

    ``out`` and the rows of ``A`` have `LANES` numbers. All arrays are C-contiguous, ``columns`` are unsigned. The sums
    stay in registers; a loop over them for each e would read and write them, and take twice as long.
    """


def add_rows_in_fours(out, A, columns, values, begin, end) -> None:
    """The same as `add_rows`, but four products are summed before they are added, as long as there are four."""


def _row_adder(in_fours: bool) -> Callable:
    import numba
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils
    from numba.extending import intrinsic

    config: Any = numba.config
    if config.DISABLE_JIT:
        return functools.partial(_add_rows_in_python, in_fours)

    number, part = ir.IntType(64), ir.VectorType(ir.DoubleType(), 8)
    undefined, eight_zeros = ir.Constant(part, ir.Undefined), ir.Constant(ir.VectorType(ir.IntType(32), 8), [0] * 8)
    contract = ("contract",)  # products may be fused with additions, as in the kernels

    def parts(builder, row):
        """Pointers to the parts of a row."""
        first = builder.bitcast(row, part.as_pointer())
        return [builder.gep(first, [number(k)]) for k in range(LANES // 8)]

    def read(builder, pointer):
        return builder.load(pointer, align=8)

    def added(builder, x, y):
        return [builder.fadd(x_k, y_k, flags=contract) for x_k, y_k in zip(x, y)]

    @intrinsic
    def add(_typing, out, A, columns, values, begin, end):
        given = tuple((array.dtype, array.ndim, array.layout) for array in (out, A, columns, values))
        row = (types.float64, 1, "C")
        if given != (row, (types.float64, 2, "C"), (types.uint32, 1, "C"), row):
            return None  # numba raises a TypingError

        def generate(context, builder, signature, arguments):
            def product(e):
                column = builder.zext(builder.load(builder.gep(columns, [e])), number)
                value = builder.insert_element(undefined, builder.load(builder.gep(values, [e])), number(0))
                value = builder.shuffle_vector(value, undefined, eight_zeros)
                row = parts(builder, builder.gep(A, [builder.mul(column, number(LANES))]))
                return [builder.fmul(value, read(builder, pointer), flags=contract) for pointer in row]

            def add_to_sums(terms):
                for total, new in zip(sums, added(builder, map(builder.load, sums), terms)):
                    builder.store(new, total)

            out, A, columns, values = (
                context.make_array(kind)(context, builder, view).data
                for kind, view in zip(signature.args, arguments[:4])
            )
            begin, end = arguments[4:]
            of_out = parts(builder, out)
            sums = [cgutils.alloca_once_value(builder, read(builder, pointer)) for pointer in of_out]
            if in_fours:
                first, begin = begin, builder.sub(end, builder.and_(builder.sub(end, begin), number(3)))
                with cgutils.for_range_slice(builder, first, begin, number(4)) as (e, _):
                    four = [product(builder.add(e, number(k))) for k in range(4)]
                    add_to_sums(functools.reduce(functools.partial(added, builder), four))
            with cgutils.for_range_slice(builder, begin, end, number(1)) as (e, _):
                add_to_sums(product(e))
            for total, pointer in zip(sums, of_out):
                builder.store(builder.load(total), pointer, align=8)
            return context.get_dummy_value()

        return types.void(out, A, columns, values, types.intp, types.intp), generate

    def call(out, A, columns, values, begin, end):
        add(out, A, columns, values, begin, end)  # type: ignore[call-arg]  # without _typing

    return numba.njit(call)


def _add_rows_in_python(in_fours, out, A, columns, values, begin, end):
    while in_fours and end - begin >= 4:
        (a, b, c, d), rows = values[begin : begin + 4], A[columns[begin : begin + 4]]
        out += a * rows[0] + b * rows[1] + c * rows[2] + d * rows[3]
        begin += 4
    for e in range(begin, end):
        out += values[e] * A[columns[e]]


add_rows = Kernel(add_rows, lambda: _row_adder(in_fours=False))
add_rows_in_fours = Kernel(add_rows_in_fours, lambda: _row_adder(in_fours=True))
