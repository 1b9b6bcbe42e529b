"""Datasets: their catalogue, the sources of their files, and their arrays.

The names below are imported on first use: scikit-learn, SciPy and requests are slow to import, and a command that only
prints help needs none of them.
"""

from importlib import import_module
from typing import Any

_MODULES = {
    "Answer": "download",
    "Check": "checks",
    "Dataset": "store",
    "DatasetEntry": "entry",
    "Sources": "sources",
    "SvmlightChunk": "stream",
    "ask": "download",
    "availability": "checks",
    "download_size": "checks",
    "find_prepared": "store",
    "foreign_files": "checks",
    "has_changed_files": "checks",
    "is_intact": "store",
    "load_catalogue": "catalogue",
    "lost_files": "cache",
    "open_prepared": "store",
    "prepared_as": "store",
    "prepare": "build",
    "read_original": "build",
    "stream_svmlight": "stream",
    "verify": "checks",
}

__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_MODULES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
