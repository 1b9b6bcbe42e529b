"""Fault injection: random inputs for every reader, guided by the coverage of its code where atheris is installed."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.faults


@pytest.mark.parametrize("mode", ["compiled", "checked", "python"])
@pytest.mark.parametrize("way", ["guided", "blind"])
def test_readers_give_the_rows_of_the_reference_or_an_error(mode, way, request):
    if way == "guided" and importlib.util.find_spec("atheris") is None:
        pytest.skip("needs atheris: pip install atheris")
    n_inputs = (2000 if mode == "compiled" else 500) * request.config.getoption("--fault-factor")
    seed = request.config.getoption("--fault-seed")
    command = [sys.executable, Path(__file__).with_name("fuzz.py"), "--inputs", str(n_inputs), "--seed", str(seed)]
    command += ["--mode", mode, *["--blind"] * (way == "blind")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{n_inputs:,} inputs in " in done.stdout
