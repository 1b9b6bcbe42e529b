"""Data: what the datasets are, where their bytes come from, and how they become arrays.

The names below are imported when they are first used: scikit-learn, SciPy and pooch are slow to import, and a
command that only prints help needs none of them.
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "DatasetEntry": "catalogue",
    "load_catalogue": "catalogue",
    "Sources": "sources",
    "Dataset": "store",
    "find_prepared": "store",
    "has_changed_files": "checks",
    "open_prepared": "store",
    "prepare": "build",
    "read_original": "build",
    "Check": "checks",
    "availability": "checks",
    "download_size": "checks",
    "verify": "checks",
    "SvmlightChunk": "stream",
    "stream_svmlight": "stream",
}

__all__ = [
    "Check",
    "Dataset",
    "DatasetEntry",
    "Sources",
    "SvmlightChunk",
    "availability",
    "download_size",
    "find_prepared",
    "has_changed_files",
    "load_catalogue",
    "open_prepared",
    "prepare",
    "read_original",
    "stream_svmlight",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
