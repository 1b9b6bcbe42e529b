"""Machine code that is kept on disk is given up when any kernel of the package has changed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import opauc_bench

CALL = """
import numpy as np
from opauc_bench.evaluation import outer
print(outer.twice_the_inner(np.ones(3))[0])
"""
INNER = "from ..compiled import njit\n\n\n@njit()\ndef inner(x):\n    return {factor} * x\n"
OUTER = (
    "from ..compiled import njit\nfrom .inner import inner\n\n\n"
    "@njit()\ndef twice_the_inner(x):\n    return 2.0 * inner(x)\n"
)


def test_a_kernel_is_compiled_anew_when_one_that_it_calls_has_changed(tmp_path):
    package = tmp_path / "opauc_bench"
    (package / "evaluation").mkdir(parents=True)
    for name in ("__init__.py", "compiled.py"):
        shutil.copy(Path(opauc_bench.__file__).parent / name, package / name)
    (package / "evaluation/__init__.py").write_text("")
    (package / "evaluation/outer.py").write_text(OUTER)

    def call(factor):
        (package / "evaluation/inner.py").write_text(INNER.format(factor=factor))
        environment = {**os.environ, "PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "kept")}
        done = subprocess.run(
            [sys.executable, "-c", CALL], env=environment, cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return float(done.stdout), {path: path.stat().st_mtime_ns for path in (tmp_path / "kept").rglob("outer*.nbc")}

    value, kept = call(3.0)
    assert value == 6.0
    assert kept
    assert call(3.0) == (6.0, kept), "what has not changed is not compiled again"
    assert call(5.0)[0] == 10.0
