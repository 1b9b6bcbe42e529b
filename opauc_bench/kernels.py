"""numba's compiler, loaded when a kernel is first called, and the folder in which compiled kernels are kept.

The folder is named by what the machine code depends on: the text of every module that has kernels or intrinsics,
because numba compiles the kernels of one module into those of another; the version of numba; and the processor. Editing
any other module recompiles nothing. Only public parts of numba are used: `numba.config`, and `compile`,
`enable_caching` and `stats` of a compiled function.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import json
import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .errors import ResultsError
from .files import write_text
from .memory import without_memory_limit

__all__ = ["Kernel", "kept_on_disk", "njit"]

_LONGEST_COMPILATION = 300.0  # seconds; a kernel of this package takes less than 20
_DAYS_KEPT = 30
_cache_setting = threading.Lock()


def njit(**options) -> Callable[[Callable], Kernel]:
    """``numba.njit`` that keeps machine code on disk where it can, and in memory only where it cannot.

    An assignment of arrays (``A[i] = x``, ``A[:, g] *= c``) can fail, with a message about shapes, and numba compiles
    the code that formats this message: two to four seconds per learner. Kernels have loops instead. Other threads of
    Python run while a kernel does, so that rows are read while others are learnt.

    Parameters
    ----------
    **options
        Of ``numba.njit``.
    """

    return lambda function: Kernel(function, functools.partial(_compiled, function, {"nogil": True} | options))


class Kernel:
    """A function that numba compiles, made when Python or another kernel calls it.

    Until then numba is not imported: most commands call no kernel.

    Parameters
    ----------
    function : callable
        Python's version, for its name and documentation.
    make : callable
        Returns numba's function.
    """

    __qualname__: str  # of the function

    def __init__(self, function: Callable, make: Callable[[], Callable]):
        functools.update_wrapper(self, function)
        self._make = make

    @functools.cached_property
    def compiled(self) -> Any:
        """numba's function; Python's where numba is disabled."""
        _let_kernels_call_kernels()
        return self._make()

    def __call__(self, *arguments):
        return self.compiled(*arguments)

    def __reduce__(self) -> str:
        return self.__qualname__


@functools.cache
def _let_kernels_call_kernels() -> None:
    from numba import typeof
    from numba.extending import typeof_impl

    typeof_impl.register(Kernel)(lambda kernel, context: typeof(kernel.compiled))


def _compiled(function: Callable, options: dict[str, Any]) -> Callable:
    import numba

    config: Any = numba.config  # its attributes are made when it is imported
    if config.DISABLE_JIT:  # set by a user who debugs a kernel
        return function
    kernel = numba.njit(**options)(function)
    folder = _folder()
    # numba imports the module of a kernel when it loads its machine code.
    if folder is None or inspect.getmodule(function) is None:
        return kernel
    with _cache_setting:
        before, config.CACHE_DIR = config.CACHE_DIR, str(folder)
        try:
            kernel.enable_caching()
        except RuntimeError:  # the folder cannot be written
            return kernel
        finally:
            config.CACHE_DIR = before
    kernel.compile = _SealedFiles(kernel).compile
    return kernel


def kept_on_disk(kernel: Kernel) -> bool:
    """Whether the machine code of a kernel outlives this process."""
    stats = getattr(kernel.compiled, "stats", None)  # None where numba is disabled
    return stats is not None and stats.cache_path is not None


class _SealedFiles:
    """The files of one kernel, which one process at a time reads and writes, each with a hash of its contents.

    numba numbers its files: two processes that compile at the same time give theirs the same number, and the machine
    code for one type is run on another. It also loads a file that a power failure left empty or a bit flip changed.
    """

    def __init__(self, kernel: Any):
        function = kernel.py_func
        self._compile = kernel.compile
        self._folder = Path(kernel.stats.cache_path)
        module = function.__module__.rpartition(".")[2]
        # What the names of numba's files begin with.
        self._name = f"{module}.{function.__qualname__}-{function.__code__.co_firstlineno}"
        self._hashes = self._folder / f"{self._name}.json"
        self._intact: set[Path] = set()

    @without_memory_limit()
    def compile(self, signature):
        from filelock import FileLock
        from numba.core.compiler_lock import global_compiler_lock

        try:
            # numba's lock first: a thread that compiles a caller has it when it comes here for the functions called.
            with global_compiler_lock, FileLock(self._folder / f"{self._name}.lock", timeout=_LONGEST_COMPILATION):
                self._remove_damaged()
                before = self._stamps()
                compiled = self._compile(signature)
                self._seal(before)
                return compiled
        except (OSError, ResultsError):  # nothing can be written, as on a full disk; what was compiled is in memory
            return self._compile(signature)

    def _remove_damaged(self) -> None:
        """Remove files that are not as they were sealed. Each is looked at once per process."""
        if unknown := self._stamps().keys() - self._intact:
            sealed = self._sealed()
            for path in unknown:
                if sealed.get(path.name) != _hash(path):
                    path.unlink()
            self._intact |= unknown

    def _seal(self, before: dict[Path, tuple[int, int]]) -> None:
        """Note the hashes of files that are new or were changed since ``before``."""
        now = self._stamps()
        if changed := {path for path, stamp in now.items() if before.get(path) != stamp}:
            hashes = self._sealed() | {path.name: _hash(path) for path in changed}
            write_text(self._hashes, json.dumps(hashes), durable=False)
            self._intact |= changed

    def _sealed(self) -> dict[str, str]:
        try:
            return json.loads(self._hashes.read_bytes())
        except (OSError, ValueError):
            return {}

    def _stamps(self) -> dict[Path, tuple[int, int]]:
        """Time of change and size of each of numba's files."""
        found = {path: path.stat() for path in self._folder.glob(f"{self._name}.*.nb[ci]")}
        return {path: (status.st_mtime_ns, status.st_size) for path, status in found.items()}


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@functools.cache
def _folder() -> Path | None:
    """Folder for the kernels of this version on this processor; None if it cannot be made."""
    import numba
    import platformdirs

    config: Any = numba.config
    package = Path(__file__).parent
    depends_on = hashlib.sha256(f"{numba.__version__} {config.CPU_NAME or _processor()}".encode())
    for path in sorted(package.rglob("*.py")):
        text = path.read_bytes()
        if b"@njit(" in text or b"@intrinsic\n" in text:
            depends_on.update(text)
    kept = Path(config.CACHE_DIR or platformdirs.user_cache_path("opauc-bench") / "kernels")
    folder = kept / depends_on.hexdigest()[:16]
    with contextlib.suppress(OSError, RuntimeError):
        if not folder.exists():
            _remove_old(kept)
            folder.mkdir(parents=True)
        os.utime(folder)
    return folder if folder.is_dir() else None


def _processor() -> str:
    import llvmlite.binding

    return f"{llvmlite.binding.get_host_cpu_name()} {llvmlite.binding.get_host_cpu_features().flatten()}"


def _remove_old(kept: Path) -> None:
    """Remove the folders that no version of the package has used for a month."""
    for folder in kept.glob("[0-9a-f]" * 16):
        if folder.stat().st_mtime < time.time() - _DAYS_KEPT * 86400:
            shutil.rmtree(folder, ignore_errors=True)
