"""Reproducible experiments on one-pass AUC optimisation."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .commands.export import load_results
    from .commands.python import run
    from .streaming.classifier import load_model

__version__ = "0.1.0"
__all__ = ["__version__", "load_model", "load_results", "run"]

_HOMES = {"load_model": "streaming.classifier", "load_results": "commands.export", "run": "commands.python"}


def __getattr__(name: str) -> Any:
    # Imported when it is used: the command line starts without it.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
