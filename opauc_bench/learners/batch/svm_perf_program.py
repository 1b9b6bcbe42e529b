"""Running the user's own ``svm_perf_learn``, and checking what it returns.

SVM-perf (T. Joachims) may not be redistributed; docs/svm_perf.md says where to download it. It fails in ways that look
like success: usage errors end with exit code 0 after waiting for a key, without ``-l 10`` another loss is trained, bad
data gives a model of zeros. So only a new and complete model file is accepted, and the weights in it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import tempfile
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL, STDOUT, Popen, TimeoutExpired

import numpy as np
from scipy import sparse

from ...errors import LearnerError
from .base import Tick

__all__ = ["ENVIRONMENT", "PROGRAM", "describe_program", "find_program", "read_model", "run_program"]

PROGRAM = "svm_perf_learn"
ENVIRONMENT = "OPAUC_BENCH_SVM_PERF"
_HOW_TO = f"docs/svm_perf.md says where to download {PROGRAM}; engine: native does not need it"
_SECONDS_BETWEEN_LOOKS = 0.1
_LARGEST = 1e30  # features are float32 inside the program
_SHOWN = 300  # characters of the program's output in a message


def find_program(named: str | os.PathLike | None = None) -> Path | None:
    """Find the program: the one that is named, or that of the environment, or the one on PATH, or None."""
    for where, text in (("program", named), (ENVIRONMENT, os.environ.get(ENVIRONMENT))):
        if text:
            path = shutil.which(os.path.expanduser(text))
            if path is None:
                raise LearnerError(f"{where} is {os.fspath(text)!r}, which is not a program that can be run", _HOW_TO)
            return Path(path).resolve()
    path = shutil.which(PROGRAM)
    return Path(path).resolve() if path else None


def describe_program(program: Path) -> dict[str, str]:
    """File name of the program and hash of its contents, for the record."""
    return {"program": program.name, "sha256": hashlib.sha256(program.read_bytes()).hexdigest()}


def run_program(program: Path, X, y: np.ndarray, Cs: np.ndarray, eps: float, tick: Tick) -> np.ndarray:
    """Train on the area under the ROC curve, once for each C; weights of shape (n_features, n_settings).

    C stands beside the slack in percentage points, of which ``eps`` is the program's tolerance. ``tick`` is called
    several times a second while the program runs; if it raises, the program and its children are killed.
    """
    from sklearn.datasets import dump_svmlight_file

    values = X.data if sparse.issparse(X) else X
    if not (np.abs(values) < _LARGEST).all():
        raise LearnerError(f"{PROGRAM} needs finite features below {_LARGEST:g} in absolute value", "scale the data")
    coef = np.empty((X.shape[1], len(Cs)))
    # The program keeps file names in short buffers: it gets a folder of its own and relative names.
    with tempfile.TemporaryDirectory(prefix="svmperf-") as folder:
        dump_svmlight_file(X, y.astype(int), os.path.join(folder, "train"), zero_based=False)
        for k, C in enumerate(Cs):
            model = Path(folder, "model")
            model.unlink(missing_ok=True)
            command = [str(program), "-v", "0", "-l", "10", "-w", "3", "--b", "0"]
            _run([*command, "-e", f"{eps:.17g}", "-c", f"{C:.17g}", "train", "model"], folder, tick)
            coef[:, k] = read_model(model, X.shape[1], _said(folder))
            tick()
    return coef


def _run(command: list[str], folder: str, tick: Tick) -> None:
    with open(os.path.join(folder, "said"), "wb") as said:
        try:
            process = Popen(command, cwd=folder, stdin=DEVNULL, stdout=said, stderr=STDOUT, start_new_session=True)
        except OSError as error:
            raise LearnerError(f"{command[0]} cannot be run: {error.strerror or error}", _HOW_TO) from error
    try:
        while True:
            with suppress(TimeoutExpired):
                code = process.wait(_SECONDS_BETWEEN_LOOKS)
                break
            tick()
    finally:
        # Whether it ended, failed or is no longer wanted: nothing that it started may stay behind.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if code != 0:
        how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        raise LearnerError(f"{PROGRAM} {how}: {_said(folder)}", f"it was called as: {' '.join(command)}")


def _said(folder: str) -> str:
    text = " ".join(Path(folder, "said").read_text(encoding="utf-8", errors="replace").split())
    return text[-_SHOWN:] or "it said nothing"


def read_model(path: Path, n_features: int, said: str = "") -> np.ndarray:
    """Read the weights of a complete linear model file; messages contain what the program ``said``."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        raise LearnerError(f"{PROGRAM} ended without writing a model: {said}", _HOW_TO) from None
    try:
        header = next(k for k, line in enumerate(lines) if "# threshold b" in line) + 1
        _expect(lines[0].startswith("SVM-light Version"), "its first line does not name SVM-light")
        _expect(lines[1].split("#")[0].strip() == "0", "its kernel is not linear")
        counts = [line.split("#")[0] for line in lines[:header] if "# number of support vectors plus 1" in line]
        _expect(len(counts) == 1, "it does not say how many vectors it has")
        vectors = lines[header:]
        _expect(len(vectors) == int(counts[0]) - 1, f"it has {len(vectors)} vectors instead of {int(counts[0]) - 1}")
        weights = np.zeros(n_features)
        for line in vectors:
            _add_vector(weights, line)
    except (StopIteration, IndexError):
        raise LearnerError(f"{PROGRAM} left a model file without its header: {said}") from None
    except ValueError as error:
        raise LearnerError(f"{PROGRAM} left a model that cannot be used: {error}. {said}") from None
    return weights


def _add_vector(weights: np.ndarray, line: str) -> None:
    body, mark, _ = line.partition("#")
    _expect(bool(mark), "a vector is cut off")
    factor, *entries = body.split()
    for entry in entries:
        index, _, value = entry.partition(":")
        _expect(1 <= int(index) <= len(weights), f"it has a feature {index}")
        weights[int(index) - 1] += float(factor) * float(value)
    _expect(bool(np.isfinite(weights).all()), "it has weights that are not finite")


def _expect(kept: bool, otherwise: str) -> None:
    if not kept:
        raise ValueError(otherwise)
