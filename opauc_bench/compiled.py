"""numba's compiler, for installations that cannot be written to as well."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.caching import IndexDataCacheFile
from numba.extending import intrinsic

__all__ = ["kept_on_disk", "njit", "prefetch"]


def njit(**options) -> Callable[[Callable], Callable]:
    """``numba.njit`` that keeps machine code on disk where it can, and in memory only where it cannot.

    numba refuses to import a kernel with ``cache=True`` if neither the folder of its module nor the user's cache folder
    can be written, as in a container with a read-only installation and no home. Compiling anew in each process is slow,
    but right.

    numba takes what it has kept for good as long as the file of a kernel is the same, although kernels of other modules
    may be compiled into it. Here it is kept only as long as all kernels of the package are the same.

    An assignment of arrays (``A[i] = x``, ``A[:, g] *= c``) can fail, with a message about shapes, and numba compiles
    what words that message: two to four seconds a learner. So kernels have loops in its place.

    Parameters
    ----------
    **options
        Of ``numba.njit``.
    """

    def decorate(function: Callable) -> Callable:
        if numba.config.DISABLE_JIT:  # as somebody wants who looks for a mistake in a kernel
            return function
        try:
            kernel = numba.njit(**options, cache=True)(function)
        except RuntimeError:  # no locator available
            return numba.njit(**options)(function)
        cache = kernel._cache
        stamp = (*cache._cache_file._source_stamp, _all_kernels())
        cache._cache_file = _SealedFiles(cache.cache_path, f"{cache._impl.filename_base}.sealed", stamp)
        return kernel

    return decorate


class _SealedFiles(IndexDataCacheFile):
    """numba's files of machine code, each behind a hash of its contents.

    numba believes what it finds: a file that a power cut has left empty ends every program, and a flipped bit is run.
    Here such a file is none, and what cannot be written, on a full disk say, is not kept.
    """

    def save(self, key, data) -> None:
        # numba numbers the files. Two processes that compile at once, for rows of different types say, then give theirs
        # the same number, and the machine code for one type is run on the other.
        name = f"{Path(self._index_name).stem}.{hashlib.sha256(repr(key).encode()).hexdigest()[:16]}.nbc"
        with contextlib.suppress(OSError):
            self._save_data(name, data)
            self._save_index(self._load_index() | {key: name})

    def _load_index(self) -> dict[Any, str]:
        try:
            version, stamp, overloads = _unsealed(self._index_path)
        except OSError:
            return {}
        return overloads if (version, stamp) == (self._version, self._source_stamp) else {}

    def _save_index(self, overloads: dict[Any, str]) -> None:
        self._save_sealed(self._index_path, (self._version, self._source_stamp, overloads))

    def _load_data(self, name: str) -> Any:
        return _unsealed(self._data_path(name))

    def _save_data(self, name: str, data: Any) -> None:
        self._save_sealed(self._data_path(name), data)

    def _save_sealed(self, path: str, content: Any) -> None:
        packed = self._dump(content)
        with self._open_for_write(path) as file:
            file.write(hashlib.sha256(packed).digest() + packed)


def _unsealed(path: str) -> Any:
    """Contents of a sealed file; OSError, which numba takes for a file that is gone, if it cannot be used."""
    content = Path(path).read_bytes()
    seal, packed = content[:32], content[32:]
    if hashlib.sha256(packed).digest() != seal:
        raise OSError(f"{path} is damaged")
    try:
        return pickle.loads(packed)
    except Exception as error:  # it names what an older version of this package had, and this one has not
        raise OSError(f"{path} is of another version") from error


@functools.cache
def _all_kernels() -> str:
    """Hash of the text of every module that may have kernels."""
    package = Path(__file__).parent
    text = hashlib.sha256()
    for path in sorted(path for room in ("learners", "evaluation", "data") for path in (package / room).rglob("*.py")):
        text.update(path.read_bytes())
    return text.hexdigest()


def kept_on_disk(kernel: Callable) -> bool:
    """Whether the machine code of a kernel outlives this process."""
    return kernel.stats.cache_path is not None


@intrinsic
def prefetch(_typing, array, i, j):
    """Ask the processor for the cache line of ``array[i, j]``, inside a kernel; changes no result.

    It pays where rows of a large matrix are needed soon in an order that the processor cannot guess.
    """

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
