"""Compiled kernels on disk: when they are used, when they are compiled again, and what damage does."""

import os
import pickle
import runpy
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import opauc_bench
from opauc_bench.evaluation import auc
from opauc_bench.kernels import kept_on_disk

CALL = """
import numpy as np
from opauc_bench.evaluation import outer
print(outer.twice_the_inner(np.ones(3))[0])
"""
INNER = "from ..kernels import njit\n\n\n@njit()\ndef inner(x):\n    return {factor} * x\n"
OUTER = (
    "from ..kernels import njit\nfrom .inner import inner\n\n\n"
    "@njit()\ndef twice_the_inner(x):\n    return 2.0 * inner(x)\n"
)


@pytest.fixture
def call(tmp_path):
    """Return a function that runs a kernel in a process of its own: its value, and what is kept and since when."""
    package = tmp_path / "opauc_bench"
    (package / "evaluation").mkdir(parents=True)
    for name in ("__init__.py", "kernels.py", "files.py", "errors.py", "memory.py"):
        shutil.copy(Path(opauc_bench.__file__).parent / name, package / name)
    (package / "evaluation/__init__.py").write_text("")
    (package / "evaluation/outer.py").write_text(OUTER)

    def call(factor):
        (package / "evaluation/inner.py").write_text(INNER.format(factor=factor))
        environment = {**os.environ, "PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "kept")}
        # Python takes a file of the same size that is written in the same second for the old one.
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
        done = subprocess.run(
            [sys.executable, "-c", CALL], env=environment, cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return float(done.stdout), {path: path.stat().st_mtime_ns for path in (tmp_path / "kept").rglob("outer*.nbc")}

    return call


def test_kernel_is_recompiled_only_when_a_module_with_kernels_changes(call, tmp_path):
    value, kept = call(3.0)
    assert value == 6.0
    assert kept
    (tmp_path / "opauc_bench/evaluation/plain.py").write_text("x = 1\n")
    assert call(3.0) == (6.0, kept)
    assert call(5.0)[0] == 10.0


def test_kernel_of_a_module_that_cannot_be_imported_is_not_kept(tmp_path):
    """numba fails when it loads it: the second ``runpy.run_path`` of a script ended in a ModuleNotFoundError."""
    script = tmp_path / "script.py"
    script.write_text("from opauc_bench.kernels import njit\n@njit()\ndef twice(x):\n    return 2.0 * x\n")
    for _ in range(2):
        twice = runpy.run_path(script)["twice"]
        assert twice(1.5) == 3.0
        assert not kept_on_disk(twice)
    assert kept_on_disk(auc.auc_of_sorted)


def test_the_lock_of_the_compiler_is_taken_before_that_of_the_files(monkeypatch):
    """A thread that compiles a caller has the compiler's lock when it waits for the files of the kernels called."""
    import filelock
    from numba.core.compiler_lock import global_compiler_lock

    held = []

    class Recording(filelock.FileLock):
        def acquire(self, *args, **kwargs):
            held.append(global_compiler_lock.is_locked())
            return super().acquire(*args, **kwargs)

    monkeypatch.setattr(filelock, "FileLock", Recording)
    scores = np.zeros(2, dtype=np.int16)
    assert auc.auc_of_sorted(scores, scores) == 0.5
    assert held == [True] * kept_on_disk(auc.auc_of_sorted)


def test_kernel_is_pickled_by_its_name():
    kernel = auc.auc_of_sorted
    assert pickle.loads(pickle.dumps(kernel)) is kernel
    assert auc.auc_columns(np.array([1, -1]), np.array([[1.0], [0.0]])).tolist() == [1.0]
    assert pickle.loads(pickle.dumps(kernel)) is kernel


@pytest.mark.faults
def test_damaged_machine_code_is_recompiled(call, tmp_path):
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


@pytest.mark.faults
def test_files_of_an_interrupted_compilation_are_not_loaded(call, tmp_path):
    """A process killed before it noted the hashes leaves files that no later process takes for complete."""
    call(3.0)
    for path in (tmp_path / "kept").rglob("outer*.json"):
        path.unlink()
    damaged = next((tmp_path / "kept").rglob("outer*.nbc"))
    damaged.write_bytes(damaged.read_bytes()[:100])
    assert call(3.0)[0] == 6.0


CONCURRENT = """
import sys, time
import numpy as np
from opauc_bench.evaluation import outer
x = np.ones(3, dtype=sys.argv[1])
while time.time() < float(sys.argv[2]):
    pass
print(outer.twice_the_inner(x).dtype)
"""


@pytest.mark.faults
def test_processes_that_compile_at_once_keep_their_machine_code_apart(call, tmp_path):
    """All find nothing compiled, and each compiles for another type."""
    call(3.0)
    shutil.rmtree(tmp_path / "kept")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "kept")}
    expected = {"float32": "float64", "float64": "float64", "complex64": "complex128", "complex128": "complex128"}
    for _ in ("compiled", "loaded"):
        start = str(time.time() + 4.0)
        processes = {
            dtype: subprocess.Popen(
                [sys.executable, "-c", CONCURRENT, dtype, start], env=environment, cwd=tmp_path, stdout=subprocess.PIPE
            )
            for dtype in expected
        }
        found = {dtype: process.communicate()[0].decode().strip() for dtype, process in processes.items()}
        assert found == expected
    (index,) = (tmp_path / "kept").rglob("outer.*.nbi")
    assert len(list(index.parent.glob("outer.*.nbc"))) == len(expected)


@pytest.mark.faults
def test_folders_of_versions_unused_for_a_month_are_removed(call, tmp_path):
    call(3.0)
    (old,) = (tmp_path / "kept").iterdir()
    month_ago = time.time() - 31 * 86400
    os.utime(old, (month_ago, month_ago))
    call(5.0)
    assert not old.exists()


@pytest.mark.faults
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="it stands for a full disk")
def test_kernels_run_where_nothing_can_be_written(tmp_path):
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
