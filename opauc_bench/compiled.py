"""numba's compiler, for installations that cannot be written to as well."""

from __future__ import annotations

from collections.abc import Callable

import numba

__all__ = ["kept_on_disk", "njit"]


def njit(**options) -> Callable[[Callable], Callable]:
    """``numba.njit`` that keeps machine code on disk where it can, and in memory only where it cannot.

    numba refuses to import a kernel with ``cache=True`` if neither the folder of its module nor the user's cache folder
    can be written, as in a container with a read-only installation and no home. Compiling anew in each process is slow,
    but right.

    Parameters
    ----------
    **options
        Of ``numba.njit``.
    """

    def decorate(function: Callable) -> Callable:
        try:
            return numba.njit(**options, cache=True)(function)
        except RuntimeError:  # no locator available
            return numba.njit(**options)(function)

    return decorate


def kept_on_disk(kernel: Callable) -> bool:
    """Whether the machine code of a kernel outlives this process."""
    return kernel.stats.cache_path is not None
