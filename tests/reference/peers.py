"""Numbers from independent programs: a fixture of this repository, and the larger file it was taken from."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

FIXTURE = Path(__file__).parents[1] / "fixtures" / "peers.json"


def fixture_runs(algorithm):
    """Runs of ``opauc``, ``opauc_fd``, ``opaucr``, ``opaucs`` or ``oam``: X, y (as visited), parameters and w."""
    peers = json.loads(FIXTURE.read_text())
    order = np.array(peers["order"])
    X, y = np.array(peers["X"])[order], np.array(peers["y"])[order]
    return [{**run, "X": np.abs(X) if run.get("absolute") else X, "y": y} for run in peers[algorithm]]


def golden_file(name):
    """The content of a file in the folder that OPAUC_BENCH_GOLDEN names; without it, the test is skipped."""
    folder = os.environ.get("OPAUC_BENCH_GOLDEN")
    if not folder:
        pytest.skip(f"OPAUC_BENCH_GOLDEN does not name the folder with {name}")
    return json.loads((Path(folder) / name).read_text())


def golden_runs(algorithm):
    """The same from ``golden_peers.json``; see `golden_file`."""
    golden = golden_file("golden_peers.json")
    order = np.array(golden["order"])
    X, y = np.array(golden["X"])[order], np.array(golden["y"])[order]
    read = {"opauc": _opauc, "opauc_fd": _opauc_fd, "opaucr": _opaucr, "opaucs": _opaucs, "oam": _oam}[algorithm]
    return list(read(golden, X, y))


def _opauc(golden, X, y):
    for name, run in golden["octave"]["results"].items():
        if name in ("opauc", "opauc_b", "opauc_nonneg"):
            rows = np.abs(X) if run["params"].get("input") == "abs(X)" else X
            yield {
                "name": name,
                "X": rows,
                "y": y,
                "w": run["w"],
                **{k: run["params"][k] for k in ("eta", "lam")},
            }


def _opauc_fd(golden, X, y):
    for name, run in golden["octave"]["results"].items():
        if name.startswith("opauc_fd"):
            yield {"name": name, "X": X, "y": y, "w": run["w"], **{k: run["params"][k] for k in ("eta", "lam", "tau")}}


def _opaucr(golden, X, y):
    run = golden["octave"]["results"]["opaucr"]
    parameters = {k: run["params"][k] for k in ("eta", "lam", "tau")}
    yield {"name": "opaucr", "X": X, "y": y, "w": run["w"], "gaussians": golden["octave"]["gaussians"], **parameters}


def _opaucs(golden, X, y):
    for name in ("opaucs_tau4_signed", "opaucs_tau4_nonneg"):
        run = golden["octave"]["results"][name]
        rows = np.abs(X) if run["params"].get("input") == "abs(X)" else X
        yield {"name": name, "X": rows, "y": y, "w": run["w"], **{k: run["params"][k] for k in ("eta", "lam", "tau")}}


def _oam(golden, X, y):
    for name, run in golden["oam"]["results"].items():
        if name == "gra_published_buf100":  # its positive branch judges pairs with weights that have moved
            continue
        yield {
            "name": name,
            "X": X,
            "y": y,
            "w": run["w"],
            "sequential": name.startswith("seq"),
            "C": run["params"].get("C_paper", run["params"].get("C")),
            "buffer_size": run["params"]["buffer"],
            "slots": _numbered(run["slot"], y),
        }


def _numbered(slots, y):
    """Slots with 'append' replaced by the number of the slot that it took."""
    filled, numbered = {+1: 0, -1: 0}, []
    for slot, label in zip(slots, y):
        if slot == "append":
            slot = filled[label]
            filled[label] += 1
        numbered.append(slot)
    return numbered
