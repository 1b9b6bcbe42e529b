"""Approximations of OPAUC with many features: time of a row, beside their targets."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import scipy.linalg  # noqa: F401  compiled np.dot calls SciPy's BLAS, which has to be loaded to be limited

from opauc_bench.learners import get_learner
from opauc_bench.learners.opauc.products import add_product
from opauc_bench.learners.rows import aligned_zeros

from .common import cpu_seconds, print_missed, sparse_rows

HIGHDIM_SECONDS = 0.25  # of one run


@dataclass(frozen=True)
class Shape:
    """Features, draws of features per row, and axes of the grid."""

    d: int
    draws: int
    eta: np.ndarray
    lam: np.ndarray

    def settings(self, axes):
        eta, lam = (axis.ravel() for axis in np.meshgrid(self.eta, self.lam))
        return {axis: values for axis, values in (("eta", eta), ("lam", lam)) if axis in axes}


HIGHDIM_SHAPES = {
    "rcv1-like": Shape(47_236, 90, np.geomspace(2**-12, 2**-2, 23), 2.0 ** np.arange(-10, 3)),
    "news20-like": Shape(1_355_191, 600, 2.0 ** np.arange(-9, -1), 2.0 ** np.arange(-5, 3)),
}


@dataclass(frozen=True)
class Targets:
    """At most ``times_uni`` of uni_squ by shape to run, at least ``cheaper`` than ``parameters`` for one setting."""

    times_uni: dict[str, float]
    cheaper: float | None = None
    parameters: dict = field(default_factory=lambda: {"algorithm": "plain"})
    at_worst: Callable | None = None  # brings a state into its dearest case, and says how many rows to time


def with_all_features(state, X, y):
    """Make the next change of bases of ``opauc_fd`` touch every feature; it comes once in as many rows as returned."""
    state.wait.touched[:] = True
    return state.wait.limit


def with_full_moments(state, X, y):
    """Give a state of ``opauc_s`` the second moments that a single setting has after all rows."""
    learner = get_learner("opauc_s")()
    alone = learner._begin(X.shape[1], {axis: np.array([2.0**-10]) for axis in learner.grid_axes})
    learner._consume(alone, X, y)
    for name in ("shared", "matrices", "rows"):
        setattr(state, name, getattr(alone, name))
    state.models.W[:], state.models.products[:] = 0.0, 0.0
    return 10


HIGHDIM_LEARNERS = {
    "opauc_r": Targets({"rcv1-like": 4.0, "news20-like": 10.0}, cheaper=2000),
    "opauc_h": Targets({"rcv1-like": 4.0, "news20-like": 10.0}, cheaper=2000),
    "opauc_fd": Targets({"rcv1-like": 30.0, "news20-like": 30.0}, at_worst=with_all_features),
    "opauc_s": Targets({"rcv1-like": np.inf}, cheaper=1, parameters={}, at_worst=with_full_moments),
}


class Pass:
    """A learner whose state has met the rows once, ready to be timed on some of them."""

    def __init__(self, name, settings, X, y, **parameters):
        learner = get_learner(name)
        learner = learner(**parameters, **({"random_state": 0} if "random_state" in learner().get_params() else {}))
        per_row = learner.seconds_per_row(X.shape[1], X.nnz / len(y), len(settings["eta"]))
        n = min(len(y), max(10, int(HIGHDIM_SECONDS / per_row)))
        self.learner, self.state = learner, learner._begin(X.shape[1], settings)
        self.state.expect(None)
        self.X, self.y, self.best = X[:n], y[:n], np.inf
        self.time()
        if name in HIGHDIM_LEARNERS and HIGHDIM_LEARNERS[name].at_worst:
            n = HIGHDIM_LEARNERS[name].at_worst(self.state, X, y)
            self.X, self.y = X[:n], y[:n]
        self.best = np.inf

    def time(self):
        spent = cpu_seconds(self.learner._consume, self.state, self.X, self.y)
        self.best = min(self.best, 1e6 * spent / len(self.y))


def measure_highdim(shape, names):
    """Microseconds per row of ``uni_squ``, and of each learner in a grid and alone."""
    X, y = sparse_rows(shape.d, shape.draws, 2048)
    print(f"d = {shape.d:,}, k = {X.nnz / len(y):.0f}, {len(shape.eta) * len(shape.lam)} settings")
    uni = Pass("uni_squ", shape.settings(("eta",)), X, y)
    found = {}
    for name in names:
        settings = shape.settings(get_learner(name).grid_axes)
        grid = Pass(name, settings, X, y)
        for _ in range(7):
            uni.time()
            grid.time()
        finite = grid.state.finite(shape.d).sum()
        if finite < len(settings["eta"]):
            raise AssertionError(f"{name}: only {finite} of {len(settings['eta'])} settings stayed finite")
        found[name] = {"grid": grid.best}
        del grid
        if HIGHDIM_LEARNERS[name].cheaper:
            single = {axis: values[:1] for axis, values in settings.items()}
            alone = Pass(name, single, X, y, **HIGHDIM_LEARNERS[name].parameters)
            for _ in range(3):
                alone.time()
            found[name]["alone"] = alone.best
    return uni.best, found


def product_seconds(n_settings):
    """Microseconds of the product in a step of ``opauc_r``, by its kernel and by dgemm."""
    width = -(-n_settings // 8) * 8
    gram, beta, p = (aligned_zeros(*shape) for shape in ((51, 52), (52, width), (51, width)))
    gram[:], beta[:] = (np.random.default_rng(0).standard_normal(A.shape) for A in (gram, beta))
    ways, best = (
        (lambda: add_product(p, gram, beta, *gram.shape), lambda: np.matmul(gram, beta, out=p)),
        [np.inf, np.inf],
    )
    ways[0]()
    for _ in range(70):
        for k, way in enumerate(ways):
            start = time.process_time()
            for _ in range(100):
                way()
            best[k] = min(best[k], 1e4 * (time.process_time() - start))
    return best


def highdim_table(shape_name, names):
    """Print the figures of one shape; returns what was missed."""
    shape, missed = HIGHDIM_SHAPES[shape_name], []
    n_settings = len(shape.eta) * len(shape.lam)
    print(f"\n{shape_name}: ", end="")
    uni, found = measure_highdim(shape, [name for name in names if shape_name in HIGHDIM_LEARNERS[name].times_uni])
    print(f"{'':<12}{'grid':>10}{'x uni':>14}{'alone':>12}{'x model':>14}")
    print(f"{'uni_squ':<12}{uni:>10.1f}{1.0:>14.1f}", flush=True)
    for name, figures in found.items():
        targets, ratio = HIGHDIM_LEARNERS[name], figures["grid"] / uni
        limit = targets.times_uni[shape_name]
        line = f"{name:<12}{figures['grid']:>10.1f}{f'{ratio:.1f}/{limit:g}'.removesuffix('/inf'):>14}"
        if ratio > limit:
            missed.append(f"{name}, {shape_name}: {ratio:.1f} times uni_squ, wanted {limit:g}")
        if targets.cheaper:
            cheaper = figures["alone"] / (figures["grid"] / n_settings)
            line += f"{figures['alone']:>12.1f}{f'{cheaper:.0f}/{targets.cheaper:g}':>14}"
            if cheaper < targets.cheaper:
                missed.append(f"{name}, {shape_name}: {cheaper:.0f} times cheaper, wanted {targets.cheaper:g}")
        print(line, flush=True)
    if {"opauc_r", "opauc_h"} & found.keys():
        kernel, blas = product_seconds(n_settings)
        print(f"the product in a step of opauc_r: {kernel:.1f}, by dgemm {blas:.1f}", flush=True)
    return missed


def highdim(names: list[str]) -> None:
    """CPU time of OPAUC's approximations for many features, on one core, beside ``uni_squ`` and beside the targets.

    Rows are made up: k draws of features (the more frequent ones more often), distinct ones kept, unit length.
    Settings are a grid of step sizes and regularisations in powers of two that stay finite; it has eta lam = 1.
    For each shape, the least of several interleaved runs, in microseconds per row:

    grid     all settings in one pass, on rows whose features have all been met before
    x uni    the same as a multiple of the pass of online ``uni_squ`` for as many settings, in the same run
    alone    a single setting by the O(d tau) steps of the paper, compiled
    x model  how many times cheaper than that a model is in the pass

    Below it stands what a step of ``opauc_r`` and ``opauc_h`` cannot do without, the product of a 51 x 52 matrix
    and the settings' coordinates: by the kernel that they use, and by dgemm of NumPy's BLAS, which shows what a
    core can do.

    Targets stand behind the slash. What ``opauc_fd`` does to all features once in some thousand rows is in its
    figures: a run of it is that long, and takes all features for met. ``opauc_s`` has its second moments filled by
    all rows first; it has no other algorithm for a single setting, no target in comparison with ``uni_squ``, and
    no run on the larger shape, where filling them takes minutes and gigabytes.
    """
    shapes = [name for name in names if name in HIGHDIM_SHAPES] or list(HIGHDIM_SHAPES)
    learners = [name for name in names if name in HIGHDIM_LEARNERS] or list(HIGHDIM_LEARNERS)
    missed = [line for shape in shapes for line in highdim_table(shape, learners)]
    print()
    print_missed(missed)
