"""Machine code that is kept on disk is given up when any kernel of the package has changed."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import opauc_bench
from opauc_bench.compiled import _SealedFiles

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


@pytest.fixture
def call(tmp_path):
    """Return a function that runs a kernel in a process of its own: its value, and what is kept and since when."""
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

    return call


def test_a_kernel_is_compiled_anew_when_one_that_it_calls_has_changed(call):
    value, kept = call(3.0)
    assert value == 6.0
    assert kept
    assert call(3.0) == (6.0, kept), "what has not changed is not compiled again"
    assert call(5.0)[0] == 10.0


def test_damaged_machine_code_is_compiled_anew(call, tmp_path):
    """Empty, as a power cut leaves what was not on the disk yet; and with a bit flipped, which would be run."""
    call(3.0)
    for suffix, flipped in (("nbi", False), ("nbc", False), ("nbc", True)):
        (path,) = (tmp_path / "kept").rglob(f"outer*.{suffix}")
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 64
        damaged = bytes(content) if flipped else b""
        path.write_bytes(damaged)
        assert call(3.0)[0] == 6.0
        assert path.read_bytes() != damaged


def test_machine_code_of_a_version_with_other_modules_is_compiled_anew(call, tmp_path):
    """Upgrading leaves it where it is, and what it names may have moved."""
    call(3.0)
    (path,) = (tmp_path / "kept").rglob("outer*.nbi")
    elsewhere = b"copauc_bench.evaluation.moved\nkernel\n."  # a pickle of that name
    path.write_bytes(hashlib.sha256(elsewhere).digest() + elsewhere)
    assert call(3.0)[0] == 6.0


def test_processes_that_compile_at_once_do_not_mix_up_their_machine_code(tmp_path):
    """Both find nothing kept; one writes while the other is between its two files."""
    keys = [(f"array({kind}, 1d, C)", ("cpu",)) for kind in ("int32", "int64")]
    one, other = (_SealedFiles(str(tmp_path), "kernel.sealed", ("stamp",)) for _ in keys)
    other._load_index = dict

    def after_the_other(name, data, save=one._save_data):
        other.save(keys[1], "for int64")
        save(name, data)

    one._save_data = after_the_other
    one.save(keys[0], "for int32")
    fresh = _SealedFiles(str(tmp_path), "kernel.sealed", ("stamp",))
    assert fresh.load(keys[0]) in ("for int32", None), "at worst, it is compiled again"
    assert fresh.load(keys[1]) in ("for int64", None)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="it stands for a full disk")
def test_machine_code_that_cannot_be_kept_is_run_all_the_same(tmp_path):
    """The file is opened, and writing it fails, as on a full disk."""
    program = (
        "import contextlib, numba.core.caching as c\n"
        "c.IndexDataCacheFile._open_for_write = lambda self, path: open('/dev/full', 'wb', buffering=0)\n"
        "import numpy as np\n"
        "from opauc_bench.evaluation.auc import auc_columns\n"
        "print(auc_columns(np.array([1, -1]), np.array([[1.0], [0.0]])))"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert done.stdout == "[1.]\n", done.stderr
