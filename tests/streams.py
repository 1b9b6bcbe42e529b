"""What tests of streams share: files of rows, models trained from them, and standard input from memory."""

import contextlib
import os
import threading

import numpy as np
import pyarrow as pa
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

from opauc_bench.learners import LEARNERS, OnePassLearner, get_learner
from opauc_bench.streaming.model import LinearModel

ONE_PASS = [name for name in LEARNERS if issubclass(get_learner(name), OnePassLearner) and get_learner(name).streams]


def rows(n=9000, d=9, late=False, seed=0):
    """Sparse rows and labels; ``late``: feature j comes in row 500 j for the first time."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d)) * (rng.random((n, d)) < 0.5)
    if late:
        X[np.arange(n)[:, None] < 500 * np.arange(d)] = 0.0
        X[500 * np.arange(d), np.arange(d)] = 0.5
    else:
        X[0] = 0.25
    X[n // 3 : n // 3 + 5] = 0.0
    y = np.where(X @ rng.standard_normal(d) + 0.3 * rng.standard_normal(n) > 0.4, 1.0, -1.0)
    return sparse.csr_matrix(X), y


def estimator(name, **params):
    """A learner as the command makes it."""
    learner = get_learner(name)(**params)
    return learner.set_params(random_state=0) if "random_state" in learner.get_params() else learner


def threshold(X, positive, block, weights):
    """Midway between the scores of the class means of rows X, over the features that a block has."""
    occurs = np.asarray((block != 0).sum(axis=0)).ravel() > 0
    means = [X[members].sum(axis=0) / max(1, members.sum()) for members in (positive, ~positive)]
    return -0.5 * sum(np.asarray(mean).ravel() @ (occurs * weights) for mean in means)


def write(path, X, y, **options):
    dump_svmlight_file(X, y, str(path), zero_based=False, **options)
    return path


def trained(command, desk, tmp_path, *arguments, file="data.svm"):
    """Train without tuning, by default ftrl_auc."""
    learner = () if {"-l", "--learner"} & set(arguments) else ("--learner", "ftrl_auc")
    command("train", desk / file, "--no-tune", *learner, "--out", tmp_path / "m.npz", *arguments, cwd=desk, exits=0)
    return LinearModel.load(tmp_path / "m.npz")


def a_model(weights, **changes):
    about = {
        "intercept": -0.5,
        "classes": (0.0, 1.0),
        "learner": "ftrl_auc",
        "parameters": {"gamma": 0.1, "lazy": True, "random_state": None},
        "n_rows": 7,
        "complete": True,
        "unit_length": False,
        "zero_based": False,
    }
    return LinearModel(weights=np.asarray(weights, dtype=float), **about | changes)


@contextlib.contextmanager
def standard_input(content):
    """Make standard input of this process a pipe from which ``content`` comes."""
    ours, theirs = os.pipe()
    before = os.dup(0)
    os.dup2(ours, 0)
    os.close(ours)

    def write():
        with contextlib.suppress(BrokenPipeError), os.fdopen(theirs, "wb", buffering=0) as pipe:
            pipe.write(content)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        os.dup2(before, 0)
        os.close(before)
        writer.join()


def fnv(column, value, bits):
    """Read off the definition: FNV-1a with 64 bits of ``column=value``, folded; truth values as Python writes them."""
    value = value.capitalize() if value.lower() in ("true", "false") else value
    state = 0xCBF29CE484222325
    for byte in f"{column}={value}".encode():
        state = (state ^ byte) * 0x100000001B3 % 2**64
    return (state >> bits ^ state) % 2**bits


def zstd(content):
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    return sink.getvalue().to_pybytes()
