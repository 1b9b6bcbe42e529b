"""What commands import: each starts without the packages that it has no use for."""

import subprocess
import sys
from pathlib import Path

import pytest

RESULTS = Path(__file__).resolve().parents[2] / "results" / "table4"
SLOW = {"numba", "sklearn", "pandas", "matplotlib", "joblib", "pyarrow", "requests", "scipy.stats", "scipy.optimize"}
COMMAND = """
import sys

from opauc_bench.cli import main

sys.argv = ["opauc-bench", *sys.argv[1:]]
try:
    main()
finally:
    print("\\n", *(name for name in {slow} if name in sys.modules))
"""


def imported(environment, folder, *arguments):
    """Return which of the slow packages a command has imported."""
    program = COMMAND.format(slow=sorted(SLOW))
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize("command", ["status", "report", "compare"])
def test_commands_about_results(environment, tmp_path, command):
    assert not imported(environment, tmp_path, command, RESULTS)


@pytest.mark.parametrize("command", [("learners", "list"), ("learners", "show", "opauc"), ("data", "list")])
def test_listings(environment, tmp_path, command):
    assert not imported(environment, tmp_path, *command)


def test_training_and_scoring_import_the_compiler_only(environment, tmp_path):
    (tmp_path / "rows.svm").write_text("1 1:1 2:0.5\n-1 1:-1 3:2\n" * 20)
    assert imported(environment, tmp_path, "train", "rows.svm", "--normalize", "--out", "m.npz") == {"numba"}
    assert imported(environment, tmp_path, "score", "m.npz", "rows.svm") == {"numba"}


@pytest.mark.parametrize(
    ("modules", "slow"),
    [
        ("opauc_bench.data", {"numpy", "scipy", "sklearn", "requests", "pydantic", "pandas"}),
        ("opauc_bench.runner.worker", {"numba", "sklearn", "pandas", "scipy.stats", "scipy.optimize"}),
        (
            "opauc_bench.report.write, opauc_bench.report.terminal",
            {"scipy.stats", "scipy.special", "pandas", "tabulate"},
        ),
    ],
)
def test_modules(modules, slow):
    code = f"import sys, {modules}; print(sorted({slow} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_learner_cannot_import_its_neighbour(bench, tmp_path):
    """Also by ``python -m``, which puts the working directory where Python looks for modules."""
    (tmp_path / "neighbour.py").write_text("from opauc_bench.learners import UniSqu\n")
    (tmp_path / "mine.py").write_text("from neighbour import UniSqu\n\n\nclass Mine(UniSqu):\n    pass\n")
    done = bench("learners", "check", "mine.py:Mine", cwd=tmp_path)
    assert done.returncode != 0
    assert "No module named 'neighbour'" in done.stderr
    assert "put what it imports from its folder into the file" in done.stderr
