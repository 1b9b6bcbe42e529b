"""Peak memory and speed of ``opauc-bench train`` and ``score`` on files of 10 MB and of 1 GB.

Files are made up in a temporary folder, which needs 2 GB of disk and is deleted in the end: sparse rows of 50 features
out of 47,000, and dense ones of 20 features for OPAUC. Memory must not grow from the small to the large file.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

SMALL, LARGE = 10_000_000, 1_000_000_000  # bytes
MAY_GROW = 32  # MB: what allocators make of the same work done more often
BLOCK_ROWS = 20_000
LEARNERS = {"sparse": ["ftrl_auc", "opauc_r"], "dense": ["opauc"]}


def block(kind, rng):
    """The text of some rows, whose label depends on two of their features."""
    if kind == "dense":
        d = k = 20
        indices = np.tile(np.arange(1, d + 1), (BLOCK_ROWS, 1))
    else:
        d, k = 47_000, 50
        indices = np.sort(np.minimum((d ** rng.random((BLOCK_ROWS, k))).astype(int) + 3 * np.arange(k), d), axis=1)
        indices = indices[(np.diff(indices, axis=1) > 0).all(axis=1)]
    values = rng.uniform(-1, 1, indices.shape)
    labels = np.where(values[:, 0] + values[:, 1] + rng.standard_normal(len(values)) > 0.5, 1, -1)
    rows = (" ".join(f"{i}:{v:.6g}" for i, v in zip(*row)) for row in zip(indices.tolist(), values.tolist()))
    return "".join(f"{label} {row}\n" for label, row in zip(labels.tolist(), rows)).encode()


def write(folder, kind, size):
    """A file of about ``size`` bytes, of a few blocks over and over."""
    rng = np.random.default_rng(0)
    blocks = [block(kind, rng) for _ in range(6)]
    path, n_rows, written = folder / f"{kind}-{size}.svm", 0, 0
    with path.open("wb") as file:
        while written < size:
            text = blocks[rng.integers(len(blocks))]
            text = text[: text.rindex(b"\n", 0, max(size - written, len(text) // 100)) + 1]
            written += file.write(text)
            n_rows += text.count(b"\n")
    return path, n_rows


def measured(*arguments):
    """Peak resident memory in MB, and CPU seconds, of a command."""
    command = [sys.executable, "-m", "opauc_bench", *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    problem = process.stderr.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)}:\n{problem}")
    return usage.ru_maxrss / 1024, usage.ru_utime + usage.ru_stime


def main():
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
        for kind, learners in LEARNERS.items():
            files = [write(folder, kind, size) for size in (SMALL, LARGE)]
            sizes = [path.stat().st_size / 1e6 for path, _ in files]
            model = folder / "model.npz"
            jobs = {f"train {one}": ("train", "--overwrite", "-l", one, "--out", model) for one in learners}
            jobs[f"score ({kind} rows)"] = ("score", model)
            for title, job in jobs.items():
                measured(*job, files[0][0])  # compiles, if need be
                peaks, times = zip(*(measured(*job, path) for path, _ in files))
                spent = times[1] - times[0]  # the start of the program takes as long for either file
                speed = f"{(files[1][1] - files[0][1]) / spent:>14,.0f}{(sizes[1] - sizes[0]) / spent:>12.0f}"
                for (_, n_rows), size, peak, seconds in zip(files, sizes, peaks, times):
                    cells = f"{title:<20}{n_rows:>12,}{size:>12,.0f}{peak:>14.0f}{seconds:>9.1f}"
                    print(cells + (speed if size == sizes[1] else ""), flush=True)
                if peaks[1] > peaks[0] + MAY_GROW:
                    missed.append(f"{title}: {peaks[1] - peaks[0]:.0f} MB more for the large file")
            for path, _ in files:
                path.unlink()
    print("Memory does not grow." if not missed else "\n".join(["Memory grows:", *missed]))


if __name__ == "__main__":
    main()
