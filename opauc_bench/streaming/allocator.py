"""The C library's allocator, set for a pass over a file."""

from __future__ import annotations

import ctypes

__all__ = ["keep_freed_memory"]

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # numbers of the options in malloc.h of glibc
_KEPT, _FROM_THE_SYSTEM = 64 << 20, 4 << 20  # bytes


def keep_freed_memory() -> None:
    """Let glibc keep up to 64 MiB of freed memory for arrays of less than 4 MiB; nothing with another C library.

    Some arrays of about 1 MiB come and go for every MiB of text. As glibc is set, most of them return to the system,
    and come back as pages of zeros one by one, which takes a fifth of the time of a pass. Larger arrays, such as the
    state of a learner, still return at once.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, _FROM_THE_SYSTEM)
        mallopt(_TRIM_THRESHOLD, _KEPT)
