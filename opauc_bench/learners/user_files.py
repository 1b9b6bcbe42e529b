"""Files of the user with learners and estimators: imported once per content, whose hash is part of identities."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from ..errors import LearnerError, place_of

__all__ = ["file_hash", "file_of", "load_file", "may_compile", "pin_module", "pinned_files", "pinned_module"]

_WITHOUT_KERNELS = frozenset({*sys.stdlib_module_names, "numpy", "scipy"})
_BASE_MODULES = frozenset(
    f"opauc_bench.{name}" for name in ("errors", "learners.base", "learners.batch.base", "learners.state")
)
_BASE_CLASSES = frozenset({"BatchLearner", "OnePassLearner"})
_pinned: dict[Path, ModuleType] | None = None


def file_of(address: str) -> str | None:
    """The file of a class that is written as ``path/to/file.py:Class``; None for another name."""
    file = address.rpartition(":")[0]
    return file if file.endswith(".py") else None


def file_hash(path: Path) -> str:
    """Hash of a user's file, 16 hexadecimal digits: every edit may change numbers."""
    return _hash_of(path.read_bytes())


def _hash_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def load_file(path: Path) -> ModuleType:
    """Import a file of the user, once per process and content: an edited file is imported again.

    Raises
    ------
    LearnerError
        If there is no such file, or importing it fails.
    """
    if (pinned := pinned_module(path)) is not None:
        return pinned
    try:
        content = path.read_bytes() if path.is_file() else None
    except OSError as error:
        raise LearnerError(f"{path} cannot be read: {error.strerror}") from error
    if content is None:
        raise LearnerError(
            f"no file {path}",
            "write a learner as path/to/file.py:Class, relative to the config, or to this folder on the command line",
        )
    # The same file under the same name in every process, so that its estimators can be pickled.
    hashed = hashlib.sha256(str(path).encode() + content).hexdigest()[:8]
    module_name = f"opauc_bench_learner_{path.stem}_{hashed}"
    if module_name in sys.modules:
        return pin_module(path, sys.modules[module_name])
    spec = importlib.util.spec_from_file_location(module_name, path)
    assert spec is not None  # the file exists and ends with .py
    module = importlib.util.module_from_spec(spec)
    module.source_hash = _hash_of(content)  # type: ignore[attr-defined]
    sys.modules[module_name] = module
    try:
        # Not by the loader of the module: it reads the file again, or bytecode of a file of the same second and size.
        tree = ast.parse(content, str(path))
        module.may_compile = _may_compile(tree)  # type: ignore[attr-defined]
        exec(compile(tree, str(path), "exec", dont_inherit=True), vars(module))
    except BaseException as error:  # importing a script may end it
        del sys.modules[module_name]
        if isinstance(error, KeyboardInterrupt):
            raise
        reason = f"{type(error).__name__}: {error}"
        if not isinstance(error, SyntaxError):  # which says the line itself
            reason += f" ({place_of(error, path)})"
        beside = isinstance(error, ModuleNotFoundError) and (path.parent / f"{error.name}.py").is_file()
        hint = "put what it imports from its folder into the file, whose text identifies its results, or into a package"
        raise LearnerError(f"{path} cannot be imported: {reason}", hint if beside else "") from error
    return pin_module(path, module)


def may_compile(class_: type) -> bool:
    """Whether training a learner may compile.

    Not one of a file that imports numpy, scipy, the standard library and base classes of this package only.
    """
    return getattr(sys.modules[class_.__module__], "may_compile", True)


def _may_compile(tree: ast.AST) -> bool:
    """Whether a module imports anything else, at its top or in a function."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            is_known = all(alias.name.partition(".")[0] in _WITHOUT_KERNELS for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module, names = node.module or "", {alias.name for alias in node.names}
            is_known = node.level == 0 and (
                module.partition(".")[0] in _WITHOUT_KERNELS
                or module in _BASE_MODULES
                or (module == "opauc_bench.learners" and names <= _BASE_CLASSES)
            )
        else:
            is_known = True
        if not is_known:
            return True
    return False


@contextlib.contextmanager
def pinned_files() -> Iterator[None]:
    """Keep the module that each file has at its first import in here, whatever the file has later.

    A task has one text of a learner from its beginning to its end.
    """
    global _pinned
    before, _pinned = _pinned, {}
    try:
        yield
    finally:
        _pinned = before


def pinned_module(path: Path) -> ModuleType | None:
    """The module of a file that is pinned; None if it is not."""
    return None if _pinned is None else _pinned.get(path)


def pin_module(path: Path, module: ModuleType) -> ModuleType:
    """Pin the module of a file, if files are pinned; returns it."""
    if _pinned is not None:
        _pinned[path] = module
    return module
