"""The output of ``opauc-bench doctor``: whether this installation works."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from .. import __version__
from ..data import Sources
from ..data.sources import is_remote, local_path
from ..errors import LearnerError
from ..learners import contested_names

__all__ = ["examine_installation"]

_EXTRAS = {
    "plots": "figures",
    "parquet": "Parquet and Arrow files",
    "dask": "run --backend dask",
    "river": "opauc_bench.river",
}


def examine_installation(sources: Sources) -> tuple[str, bool]:
    """What is installed and what does not work, a line each; and whether all is good."""
    from ..evaluation.auc import auc_of_sorted
    from ..kernels import kept_on_disk

    lines, good = [f"opauc-bench {__version__}"], True
    lines.append(f"python {sys.version.split()[0]} on {sys.platform}, {os.cpu_count()} cores")
    try:
        declared = requires("opauc-bench") or ()
    except PackageNotFoundError:
        good, declared = False, ()
        lines.append("BAD  opauc-bench is not installed, only found on the path; pip install -e . in its checkout")
    for line in declared:
        package, extra = re.split(r"[^\w.-]", line)[0], re.search(r"extra == .(\w+)", line)
        if extra and extra[1] not in _EXTRAS:
            continue
        try:
            lines.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            if extra:
                lines.append(f"     no {package}, for {_EXTRAS[extra[1]]} only; pip install 'opauc-bench[{extra[1]}]'")
            else:
                good = False
                lines.append(f"BAD  {package} is not installed; pip install {package}")
    for name, problem in (
        (f"cache {sources.cache}", _unwritable(sources.cache)),
        ("compiled kernels", _kernel_problem()),
    ):
        good = good and not problem
        lines.append(f"{'BAD ' if problem else 'ok  '} {name}{': ' + problem if problem else ''}")
    lines += [f"     {sentence}" for sentence in contested_names()]
    if not kept_on_disk(auc_of_sorted):
        lines.append("     each process compiles its kernels again; set NUMBA_CACHE_DIR to a writable folder")
    try:
        lines.append(f"     svm_perf: {_svm_perf_engine()}")
    except LearnerError as error:
        good = False
        lines.append(f"BAD  svm_perf: {error.message}")
    for mirror in map(str, sources.mirrors):
        absent = not is_remote(mirror) and not local_path(mirror).is_dir()
        good = good and not absent
        lines.append(f"{'BAD ' if absent else '    '} mirror {mirror}{': there is no such folder' if absent else ''}")
    if not sources.mirrors:
        lines.append("     no mirror (OPAUC_BENCH_MIRROR): datasets come from their official addresses")
    return "\n".join(lines), good


def _unwritable(folder: Path) -> str:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return ""
    except OSError as error:
        return f"cannot be written ({error.strerror}); set OPAUC_BENCH_CACHE to another folder"


def _svm_perf_engine() -> str:
    from ..learners.batch.svm_perf_program import ENVIRONMENT, PROGRAM, find_program

    program = find_program()
    if program is None:
        return f"our own solver, since there is no {PROGRAM} on PATH or in {ENVIRONMENT}"
    return f"the program {program}"


def _kernel_problem() -> str:
    import numpy as np

    from ..learners import OPAUC

    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (50, 4)), np.array([1, -1] * 25)
    one = OPAUC(eta=0.1, lam=0.1).fit(X, y).coef_[0]
    grid = OPAUC().fit_grid(X, y, {"eta": np.array([0.1, 0.2]), "lam": np.array([0.1, 0.1])})[:, 0]
    return "" if np.allclose(one, grid, rtol=1e-10, atol=0) else "grid and single fits disagree; please report this"
