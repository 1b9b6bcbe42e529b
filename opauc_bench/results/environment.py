"""Versions and machine that a number is computed with."""

from __future__ import annotations

import functools
import os
import platform
import re
from importlib.metadata import version
from typing import Any

from .. import __version__
from ..task import content_hash

__all__ = ["differences", "environment", "environment_id"]


@functools.lru_cache(maxsize=1)
def environment() -> dict[str, Any]:
    """Versions and machine of this process."""
    from llvmlite.binding import get_host_cpu_name  # takes .1 s

    packages = ("numpy", "scipy", "scikit-learn", "numba", "llvmlite")
    return {
        "python": platform.python_version(),
        "opauc-bench": __version__,
        **{name: version(name) for name in packages},
        "platform": platform.platform(aliased=True, terse=True),
        "machine": platform.machine(),
        "processor": _processor(),
        "cpu_name": os.environ.get("NUMBA_CPU_NAME") or get_host_cpu_name(),
        "blas": _blas(),
        "cores": os.cpu_count(),
    }


@functools.lru_cache(maxsize=1)
def environment_id() -> str:
    """The hash by which records refer to it."""
    return content_hash(environment())


def differences(recorded: dict[str, Any], here: dict[str, Any]) -> dict[str, Any]:
    """Return what differs of two environments, with the recorded values, as far as it may change bits of a number.

    The number of cores and the release of the Linux kernel do not.
    """
    return {
        key: recorded.get(key)
        for key in {**recorded, **here}
        if key != "cores" and _without_release(recorded.get(key)) != _without_release(here.get(key))
    }


def _without_release(value: Any) -> Any:
    return re.sub(r"^Linux-.*-with-", "Linux-with-", value) if isinstance(value, str) else value


def _blas() -> str:
    """The BLAS in use, and the processor whose kernels it has selected: processors of one name may differ in these."""
    from threadpoolctl import threadpool_info

    loaded = [library for library in threadpool_info() if library["user_api"] == "blas"]
    names = {f"{library['internal_api']} {library.get('architecture') or ''}".strip() for library in loaded}
    return ", ".join(sorted(names))


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor()
