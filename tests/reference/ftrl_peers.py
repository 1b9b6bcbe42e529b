"""What independent programs of the FTRL-AUC family computed: a fixture of ours, and the larger file it comes from."""

import json
from dataclasses import dataclass

import numpy as np

from .peers import FIXTURE, golden_file

RUNS = FIXTURE.with_name("ftrl_peers.json")


@dataclass
class Run:
    """Rows in the order of the visit, the program's parameters, and its weights; ``released`` if as published."""

    name: str
    algorithm: str
    parameters: dict
    released: bool
    paper: bool
    X: np.ndarray
    y: np.ndarray
    w: np.ndarray

    @property
    def variants(self):
        return ["paper"] * self.paper + ["released"] * self.released


def fixture_runs(*algorithms):
    """Runs of the fixture."""
    X, y = _visited(json.loads(FIXTURE.read_text()))
    for run in json.loads(RUNS.read_text())["runs"]:
        if run["algorithm"] in algorithms:
            rows = np.resize(np.arange(len(y)), run["n_visits"])
            builds = {run["build"]} | ({"ref", "fixed"} if _alone(run) else set())
            yield _run(run["name"], run["algorithm"], run["parameters"], builds, X[rows], y[rows], run["w"])


def golden_runs(*algorithms):
    """All runs in ``golden_peers.json`` of the folder that OPAUC_BENCH_GOLDEN names, with the weights on the way."""
    golden = golden_file("golden_peers.json")
    X, y = _visited(golden)
    for name, run in golden["algorithms"].items():
        if run["algo"] not in algorithms:
            continue
        builds = {"ref", "clean" if "clean" in run else "fixed"}
        for build in builds:
            n_visits = {"fsauc": 320}.get(run["algo"], 40) + 5 * name.endswith("remainder")
            lengths = {**{int(n): w for n, w in run[build]["prefix"].items()}, n_visits: run[build]["w"]}
            for n, w in lengths.items():
                rows = np.resize(np.arange(len(y)), n)
                yield _run(f"{name}[:{n}]", run["algo"], run["params"], {build}, X[rows], y[rows], w)


def _visited(peers):
    order = np.array(peers["order"])
    return np.array(peers["X"])[order], np.array(peers["y"])[order]


def _alone(run):
    """Whether the fixture has one run for both builds, which agree."""
    return (
        run["build"] == "ref" and run["algorithm"] in ("spam", "spauc", "solam", "fsauc") and "l1l2" not in run["name"]
    )


def _run(name, algorithm, parameters, builds, X, y, w):
    paper = bool(builds & {"fixed", "clean"})
    return Run(name, algorithm, parameters, "ref" in builds, paper, X, y, np.array(w))
