"""Training from a file in one pass: AUC, time and memory, beside other programs."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
import scipy.linalg  # noqa: F401  compiled np.dot calls SciPy's BLAS, which has to be loaded to be limited
from scipy import sparse

from opauc_bench.data import Sources, load_catalogue, prepare
from opauc_bench.evaluation.auc import auc_columns, auc_score
from opauc_bench.learners import get_learner
from opauc_bench.streaming.model import LinearModel

from .common import print_missed

MAY_GROW = 32  # MB: what allocators make of the same work done more often
STREAM_BLOCK_ROWS = 20_000
STREAM_PARTS = ["auc", "speed", "memory"]
STREAM_LEARNERS = {"sparse": ["ftrl_auc", "opauc_r"], "dense": ["opauc"]}


def stream_block(kind, rng):
    """The text of some rows, whose label depends on two of their features."""
    if kind == "dense":
        d = k = 20
        indices = np.tile(np.arange(1, d + 1), (STREAM_BLOCK_ROWS, 1))
    else:
        d, k = 47_000, 50
        indices = np.sort(
            np.minimum((d ** rng.random((STREAM_BLOCK_ROWS, k))).astype(int) + 3 * np.arange(k), d), axis=1
        )
        indices = indices[(np.diff(indices, axis=1) > 0).all(axis=1)]
    values = rng.uniform(-1, 1, indices.shape)
    labels = np.where(values[:, 0] + values[:, 1] + rng.standard_normal(len(values)) > 0.5, 1, -1)
    rows = (" ".join(f"{i}:{v:.6g}" for i, v in zip(*row)) for row in zip(indices.tolist(), values.tolist()))
    return "".join(f"{label} {row}\n" for label, row in zip(labels.tolist(), rows)).encode()


def write_stream(folder, kind, size):
    """A file of about ``size`` bytes, of a few blocks over and over."""
    rng = np.random.default_rng(0)
    blocks = [stream_block(kind, rng) for _ in range(6)]
    path, n_rows, written = folder / f"{kind}-{size}.svm", 0, 0
    with path.open("wb") as file:
        while written < size:
            text = blocks[rng.integers(len(blocks))]
            text = text[: text.rindex(b"\n", 0, max(size - written, len(text) // 100)) + 1]
            written += file.write(text)
            n_rows += text.count(b"\n")
    return path, n_rows


class Usage(NamedTuple):
    """What a process took."""

    megabytes: float  # most resident memory
    cpu: float  # seconds
    wall: float  # seconds


MEASURE = """
import os, subprocess, sys, time
begin = time.monotonic()
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(process.pid, 0)
print(usage.ru_maxrss / 1024, usage.ru_utime + usage.ru_stime, time.monotonic() - begin)
sys.exit(bool(status))
"""


def measured(command) -> Usage:
    """Run a command; its output is not shown.

    A small process starts it: the peak memory of a process counts that of the one it was forked from.
    """
    words = list(map(str, command))
    done = subprocess.run([sys.executable, "-c", MEASURE, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}:\n{done.stderr}")
    return Usage(*map(float, done.stdout.split()))


def measured_command(*arguments) -> Usage:
    """Run a command of opauc-bench."""
    return measured([sys.executable, "-m", "opauc_bench", *arguments])


HELD_OUT = 6  # one row in so many
REPEATS = 13  # of the rows of imdb in the large file
SINGLE_GRIDS = {  # of the comparison with one learner whose setting is selected on the last fifth of the rows
    "nag": {"eta": 2.0 ** np.arange(-6, 4)},
    "adagrad": {"eta": 2.0 ** np.arange(-7, 3), "l1": np.array([0.0, 1e-6, 1e-5, 1e-4])},
    "ftrl_proximal": {"gamma": 2.0 ** np.arange(-7, 4), "l1": np.array([0.0, 0.1, 1.0])},
    "ftrl_auc": {"gamma": 2.0 ** np.arange(-9, 2), "l1": np.array([0.0, 0.1, 1.0])},
    "uni_log": {"eta": 2.0 ** np.arange(-12, 4)},
    "opauc": {"eta": 2.0 ** np.arange(-14, -2), "lam": 2.0 ** np.array([-14, -8])},
    "ada_oam": {"eta": 2.0 ** np.arange(-9, 2), "lam": 2.0 ** np.array([-14, -8])},
}
SINGLE_MOST_FEATURES = {"opauc": 300, "ada_oam": 300}
VW = """
import sys
from vowpalwabbit import Workspace
train, test, model, out = sys.argv[1:]
if train:
    Workspace(f"--loss_function logistic -b 22 -d {train} -f {model} --quiet").finish()
if test:
    Workspace(f"-t -i {model} -d {test} -r {out} --quiet").finish()
"""
SGD = """
import sys
import numpy as np
from sklearn.linear_model import SGDClassifier
from opauc_bench.data import stream_svmlight
train, test, width, out = sys.argv[1:]
model = SGDClassifier(loss="log_loss", random_state=0)
for chunk in stream_svmlight(train, n_features=int(width)):
    model.partial_fit(chunk.X, chunk.labels, classes=[-1, 1])
if test:
    chunks = stream_svmlight(test, n_features=int(width))
    np.savetxt(out, np.concatenate([model.decision_function(chunk.X) for chunk in chunks]))
"""


class Rows(NamedTuple):
    """One pass and held-out rows, as arrays and as files."""

    X: sparse.csr_matrix
    y: np.ndarray
    X_test: sparse.csr_matrix
    y_test: np.ndarray
    train: Path
    test: Path


STREAM_VARIANTS = {
    "ijcnn1": ["", " scales"],
    "covtype": ["", " scales"],
    "imdb": ["", " counts", " log(1 + counts)"],
}
_DATASETS = ("a9a", "w8a", "ijcnn1", "covtype", "farm-ads", "reviews", "imdb")
STREAM_DATASETS = {name + one: name for name in _DATASETS for one in STREAM_VARIANTS.get(name, [""])}


def stream_rows(wanted: list[str]) -> Iterable[tuple[str, sparse.csr_matrix, np.ndarray]]:
    """Names, rows and labels of the comparison, from the mirror or the cache."""
    catalogue, sources = load_catalogue(), Sources.from_environment(offline=True)
    for name in _DATASETS:
        variants = [one for one in STREAM_VARIANTS.get(name, [""]) if name + one in wanted or not wanted]
        if not variants:
            continue
        found = prepare(catalogue[name], sources)
        X, y = sparse.csr_matrix(found.X), np.asarray(found.y)
        if any("counts" in one or "log" in one for one in variants):
            with tempfile.TemporaryDirectory() as cache:
                entry = catalogue[name].model_copy(update={"scaling": "none", "range": None})
                counts = sparse.csr_matrix(prepare(entry, replace(sources, cache=Path(cache))).X, copy=True)
        for one in variants:
            if one == " counts":
                yield name + one, counts, y
            elif one == " log(1 + counts)":
                yield name + one, counts.log1p(), y
            elif one == " scales":
                scales = 10.0 ** np.random.default_rng(1).uniform(-3, 6, X.shape[1])
                yield name + one, sparse.csr_matrix(X @ sparse.diags(scales)), y
            else:
                yield name + one, X, y


def write_rows(path, X, y, repeats=1, separator=" "):
    """Write rows as text, values with six digits; ``| `` after the label is Vowpal Wabbit's format."""
    indices, values, bounds = (X.indices + 1).tolist(), X.data.tolist(), X.indptr.tolist()
    rows = (
        f"{label}{separator}" + " ".join(f"{i}:{v:.6g}" for i, v in zip(indices[a:b], values[a:b])) + "\n"
        for label, a, b in zip(y.tolist(), bounds, bounds[1:])
    )
    text = "".join(rows).encode()
    with path.open("wb") as file:
        for _ in range(repeats):
            file.write(text)
    return path


def split_rows(folder, X, y) -> Rows:
    """Random order, one row in six held out, as files."""
    X.sort_indices()
    order = np.random.default_rng(0).permutation(X.shape[0])
    n = X.shape[0] * (HELD_OUT - 1) // HELD_OUT
    (X, X_test), (y, y_test) = ((of[order[:n]], of[order[n:]]) for of in (X, y))
    files = [write_rows(folder / f"{one}.svm", *of) for one, of in (("train", (X, y)), ("test", (X_test, y_test)))]
    for one, of in (("train", (X, y)), ("test", (X_test, y_test))):
        write_rows(folder / f"{one}.vw", *of, separator=" | ")
    return Rows(X, y, X_test, y_test, *files)


def held_out_auc(rows: Rows, scores) -> float:
    return auc_score(rows.y_test, np.array([float(line.split()[0]) for line in Path(scores).read_text().splitlines()]))


def ours(folder, train, *options) -> Usage:
    return measured_command("train", train, *options, "--overwrite", "--out", folder / "model.npz")


def scored(folder, rows) -> float:
    measured_command("score", folder / "model.npz", rows.test, "--overwrite", "--out", folder / "scores.txt")
    return held_out_auc(rows, folder / "scores.txt")


def best_single(rows: Rows) -> tuple[float, str]:
    """The greatest held-out AUC of a learner whose setting was selected on the last fifth of the rows."""
    found, cut = [], len(rows.y) * 4 // 5
    order = np.arange(len(rows.y))
    for name, axes in SINGLE_GRIDS.items():
        if rows.X.shape[1] > SINGLE_MOST_FEATURES.get(name, rows.X.shape[1]):
            continue
        settings = dict(zip(axes, np.array(list(product(*axes.values()))).T))
        learner = get_learner(name)(**({"refresh": True} if name == "ftrl_proximal" else {}))
        coef = learner.fit_grid(rows.X, rows.y, settings, order=order[:cut])
        finite = np.isfinite(coef).all(axis=0)
        if not finite.any():
            continue
        aucs = np.where(finite, auc_columns(rows.y[cut:], rows.X[cut:] @ np.where(finite, coef, 0.0)), -1.0)
        best = {axis: values[[np.argmax(aucs)]] for axis, values in settings.items()}
        found.append((auc_score(rows.y_test, rows.X_test @ learner.fit_grid(rows.X, rows.y, best)[:, 0]), name))
    return max(found)


def vowpal_wabbit(python: str) -> bool:
    """Whether an interpreter has Vowpal Wabbit."""
    return subprocess.run([python, "-c", "import vowpalwabbit"], capture_output=True, check=False).returncode == 0


def compare_aucs(folder, wanted, vw) -> list[str]:
    """Held-out AUC after one pass in random order, ours beside others; returns what is below its target."""
    heads = ("auto", "no tuning", "best single learner", "VW", "SGD", "learner", "rows/s")
    widths = (8, 11, 27, 8, 8, 15, 10)
    print(f"{'':<22}" + "".join(f"{head:>{width}}" for head, width in zip(heads, widths)))
    missed = []
    for name, X, y in stream_rows(wanted):
        rows = split_rows(folder, X, y)
        untuned = ours(folder, rows.train, "--no-tune") and scored(folder, rows)
        usage = ours(folder, rows.train)
        tuned = scored(folder, rows)
        learner = LinearModel.load(folder / "model.npz").learner
        single, which = best_single(rows)
        theirs = None
        if vw:
            files = [folder / one for one in ("train.vw", "test.vw", "vw.model", "vw.txt")]
            measured([vw, "-c", VW, *files])
            theirs = held_out_auc(rows, folder / "vw.txt")
        measured([sys.executable, "-c", SGD, rows.train, rows.test, X.shape[1], folder / "sgd.txt"])
        sgd = held_out_auc(rows, folder / "sgd.txt")
        cells = [f"{tuned:.4f}", f"{untuned:.4f}", f"{single:.4f} ({which})", f"{theirs:.4f}" if theirs else "-"]
        cells += [f"{sgd:.4f}", learner, f"{len(rows.y) / usage.cpu:,.0f}"]
        print(f"{name:<22}" + "".join(f"{one:>{width}}" for one, width in zip(cells, widths)), flush=True)
        if tuned < single - 0.002:
            missed.append(f"{name}: {tuned:.4f}, {which} tuned on held-out training rows {single:.4f}")
        if theirs is not None and tuned < theirs - 0.001:
            missed.append(f"{name}: {tuned:.4f}, Vowpal Wabbit {theirs:.4f}")
    return missed


def compare_speed(folder, vw, repetitions=4) -> list[str]:
    """One pass over the rows of imdb 13 times over; times are medians of some, taken in turn."""
    (_, X, y), *_ = stream_rows(["imdb"])
    rows = split_rows(folder, X, y)
    large = write_rows(folder / "large.svm", rows.X, rows.y, REPEATS)
    write_rows(folder / "large.vw", rows.X, rows.y, REPEATS, " | ")
    n_rows = REPEATS * len(rows.y)
    print(f"\n{n_rows:,} rows, {large.stat().st_size / 1e6:,.0f} MB, {X.shape[1]:,} features")
    jobs = {
        "auto": lambda: ours(folder, large),
        "no tuning": lambda: ours(folder, large, "--no-tune"),
        **({"VW": lambda: measured([vw, "-c", VW, folder / "large.vw", "", folder / "vw.model", ""])} if vw else {}),
        "SGD": lambda: measured([sys.executable, "-c", SGD, large, "", X.shape[1], ""]),
    }
    taken: dict[str, list[Usage]] = {name: [] for name in jobs}
    for _ in range(repetitions):
        for name, job in jobs.items():
            taken[name].append(job())
    print(f"{'':<12}{'wall s':>8}{'CPU s':>8}{'MB':>6}{'rows/s':>10}   (load {os.getloadavg()[0]:.1f})")
    wall = {name: median(one.wall for one in usages) for name, usages in taken.items()}
    for name, usages in taken.items():
        cpu, megabytes = median(one.cpu for one in usages), max(one.megabytes for one in usages)
        print(f"{name:<12}{wall[name]:>8.1f}{cpu:>8.1f}{megabytes:>6.0f}{n_rows / wall[name]:>10,.0f}")
    limits = {"auto": 2.0, "no tuning": 1.1} if vw else {}
    missed = [
        f"{name}: {wall[name] / wall['VW']:.2f} times the wall time of Vowpal Wabbit, at most {limit} wanted"
        for name, limit in limits.items()
        if wall[name] > limit * wall["VW"]
    ]
    return missed + [
        f"{name}: {max(one.megabytes for one in taken[name]):.0f} MB, less than 300 wanted"
        for name in ("auto", "no tuning")
        if max(one.megabytes for one in taken[name]) >= 300
    ]


def stream(megabytes: list[int], parts: list[str], datasets: list[str], vw_python: str) -> None:
    """AUC, speed and memory of ``opauc-bench train``, beside Vowpal Wabbit (if it is installed) and SGDClassifier.

    auc: held-out AUC after one pass over datasets in random order: ``train`` as it is, with ``--no-tune``, and the best
    of our learners with a setting selected on the last fifth of the rows. speed: a file of 1 GB. memory: peak memory
    and speed on made-up files of 10 MB and of 1 GB, sparse rows of 50 features out of 47,000, and dense ones of 20;
    memory must not grow. Files are made in a temporary folder, which needs 3 GB of disk and is deleted in the end.
    """
    vw = vw_python if vowpal_wabbit(vw_python) else None
    missed = []
    with tempfile.TemporaryDirectory() as name:
        if "auc" in parts:
            missed += compare_aucs(Path(name), datasets, vw)
        if "speed" in parts:
            missed += compare_speed(Path(name), vw)
    if {"auc", "speed"} & set(parts):
        print()
        print_missed(missed)
    if "memory" in parts:
        stream_memory(megabytes)


def stream_memory(megabytes: list[int]) -> None:
    """Peak memory and speed on a small and a large file."""
    missed = []
    heads = (
        ("rows", 12),
        ("MB of file", 12),
        ("MB of memory", 14),
        ("CPU s", 9),
        ("rows a CPU s", 14),
        ("MB a CPU s", 12),
    )
    print(" " * 20 + "".join(f"{head:>{width}}" for head, width in heads))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kind, learners in STREAM_LEARNERS.items():
            files = [write_stream(folder, kind, 1_000_000 * size) for size in megabytes]
            sizes = [path.stat().st_size / 1e6 for path, _ in files]
            model = folder / "model.npz"
            jobs = {
                f"train {one}": ("train", "--overwrite", "-l", one, "--no-tune", "--out", model) for one in learners
            }
            jobs["train auto"] = ("train", "--overwrite", "--out", model)
            jobs[f"score ({kind} rows)"] = ("score", model)
            for title, job in jobs.items():
                measured_command(*job, files[0][0])  # compiles, if need be
                peaks, times, _ = zip(*(measured_command(*job, path) for path, _ in files))
                spent = times[1] - times[0]  # the start of the program takes as long for either file
                speed = f"{(files[1][1] - files[0][1]) / spent:>14,.0f}{(sizes[1] - sizes[0]) / spent:>12.0f}"
                for (_, n_rows), size, peak, seconds in zip(files, sizes, peaks, times):
                    cells = f"{title:<20}{n_rows:>12,}{size:>12,.0f}{peak:>14.0f}{seconds:>9.1f}"
                    print(cells + (speed if size == sizes[1] else ""), flush=True)
                if peaks[1] > peaks[0] + MAY_GROW:
                    missed.append(f"{title}: {peaks[1] - peaks[0]:.0f} MB more for the large file")
            for path, _ in files:
                path.unlink()
    print_missed(missed, "Memory grows:", "Memory does not grow.")
