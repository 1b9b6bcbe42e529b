"""Reproducible experiments on one-pass AUC optimisation."""

from typing import Any

__version__ = "0.1.0"
__all__ = ["__version__", "load_results"]


def __getattr__(name: str) -> Any:
    # Imported when it is used: the command line starts without it.
    if name != "load_results":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .commands.export import load_results

    return load_results
