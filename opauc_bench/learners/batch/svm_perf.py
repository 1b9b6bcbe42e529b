"""SVM-perf for the area under the ROC curve: the user's own program, or our solver of the same problem.

``svm_perf_learn -l 10 -c C`` (ROCArea) minimises 1/2 |w|^2 + C xi, where the slack xi is the mean hinge loss over pairs
in *percentage points*, 100 R(w). That is 100 C times lam/2 |w|^2 + R(w) with lam = 1 / (100 C): the problem of
`SVMOR`.
"""

from __future__ import annotations

import os
from typing import Any, ClassVar

import numpy as np

from ...errors import LearnerError
from ..parameters import POSITIVE, OptionalPath, Options
from .base import BatchLearner
from .cutting_plane import hinge_path, pairwise_hinge
from .svm import SVMOR
from .svm_perf_program import describe_program, find_program, run_program

__all__ = ["SVMPerf"]

_PER_UNIT = {"percent": 100.0, "mean": 1.0}
_GAP_OF_CHECK = 1e-4  # of the lower bounds that the program's answers are compared with


class SVMPerf(BatchLearner):
    """SVM-perf with the loss ROCArea: the user's svm_perf_learn where there is one, or our own solver.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss beside ``|w|^2 / 2``.
    loss_scale : {'percent', 'mean'}, default='percent'
        What C multiplies: 'percent' is the program's own C, beside the mean hinge loss over pairs in percentage points
        (lam = 1 / (100 C)); 'mean' is the mean hinge loss itself (lam = 1 / C).
    engine : {'auto', 'native', 'program'}, default='auto'
        'native' is our solver, 'program' the user's program; 'auto' uses the program where it is found.
    program : str, optional
        Path of ``svm_perf_learn``; by default that of the environment variable OPAUC_BENCH_SVM_PERF, or the one on
        PATH. Not part of the identity of a number.
    gap : float, default=1e-3
        Of the native solver: certified gap to the minimum, see `SVMOR`.
    eps : float, default=0.1
        Of the program: its tolerance ``-e``, in percentage points.

    Notes
    -----
    The program's answers are checked against a certified lower bound of the minimum: they may exceed it by twice what
    ``eps`` allows. A model for another loss or from misread data is an error, not a number.

    References
    ----------
    T. Joachims: A support vector method for multivariate performance measures. ICML 2005; Training linear SVMs in
    linear time. KDD 2006. Results of the program have to cite: I. Tsochantaridis, T. Joachims, T. Hofmann, Y. Altun:
    Large margin methods for structured and interdependent output variables. JMLR 6 (2005) 1453-1484.
    """

    grid_axes = ("C",)
    parameter_constraints: ClassVar = {
        **dict.fromkeys(("C", "gap", "eps"), POSITIVE),
        "loss_scale": Options(*_PER_UNIT),
        "engine": Options("auto", "native", "program"),
        "program": OptionalPath(),
    }
    not_identity = (*BatchLearner.not_identity, "program")
    path_tolerance = 1e-5
    _provenance: dict[str, Any]
    exact_params: ClassVar[dict[str, Any]] = {"engine": "native", "gap": 1e-12}

    def __init__(
        self,
        C: float = 1.0,
        loss_scale: str = "percent",
        engine: str = "auto",
        program: str | os.PathLike[str] | None = None,
        gap: float = 1e-3,
        eps: float = 0.1,
    ):
        self.C = C
        self.loss_scale = loss_scale
        self.engine = engine
        self.program = program
        self.gap = gap
        self.eps = eps

    def _fit_path(self, X, y, settings, tick):
        C = settings["C"] * (_PER_UNIT[self.loss_scale] / 100.0)
        lam = 1.0 / (settings["C"] * _PER_UNIT[self.loss_scale])
        program = self._find_engine()
        gap = self.gap if program is None else min(self.gap, _GAP_OF_CHECK)
        path = hinge_path(X, y, lam, gap=gap, tick=tick)
        if program is None:
            self._provenance = {"engine": "native", "note": "our own cutting-plane solver of SVM-perf's problem"}
            return path.coef, None
        coef = run_program(program, X, y, C, self.eps, tick)
        excess = self._excess(X, y, coef, lam, path.objective - path.gap)
        found = describe_program(program)
        note = f"the program {found['program']} (sha256 {found['sha256'][:12]}...) with -l 10 -w 3 -e {self.eps:g}"
        self._provenance = {"engine": "program", "note": note, **found, "largest_excess": excess}
        return coef, None

    def _find_engine(self):
        program = None if self.engine == "native" else find_program(self.program)
        if self.engine == "program" and program is None:
            raise LearnerError(
                "engine is 'program', but no svm_perf_learn is on PATH, in OPAUC_BENCH_SVM_PERF or under params",
                "see docs/svm_perf.md, or use engine: native",
            )
        return program

    def _excess(self, X, y, coef, lam, lower) -> float | None:
        """How far the objectives of the program's weights lie above certified bounds, at most; None without a bound."""
        risk = np.array([pairwise_hinge(np.asarray(X @ w), y)[0] for w in coef.T])
        excess = 0.5 * lam * (coef**2).sum(axis=0) + risk - lower
        certified = np.isfinite(lower)  # not for lambdas below anything useful
        if not certified.any():
            return None
        worst = int(np.argmax(np.where(certified, excess, -np.inf)))
        if blank := [f"{value:g}" for value, w, least in zip(lam, coef.T, lower) if not w.any() and least < 1.0 - 1e-9]:
            raise LearnerError(
                f"svm_perf_learn's weights are all zero for lam={', '.join(blank)}, which is not a minimum"
            )
        # Its stopping rule leaves eps percentage points; weights have eight digits and come from float32 features.
        allowed = 2.0 * self.eps / 100.0 + _GAP_OF_CHECK
        if not excess[worst] <= allowed:
            raise LearnerError(
                f"svm_perf_learn's weights are not a solution: for lam={lam[worst]:g} their objective lies "
                f"{excess[worst]:.2g} above a minimum of {lower[worst]:.4g}, where its tolerance allows {allowed:.2g}",
                "is it SVM-perf V3.00, and does it train -l 10? engine: native does not need it",
            )
        return float(excess[worst])

    def provenance(self):
        return dict(getattr(self, "_provenance", {}))

    cost = SVMOR.cost
