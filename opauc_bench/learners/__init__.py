"""Learners: scikit-learn estimators that can train a whole grid of settings at once.

``LEARNERS`` names the built-in ones; packages add theirs through the entry point group ``opauc_bench.learners``, and
``path/to/file.py:Class`` works wherever a name does.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from .registry import LEARNERS, contested_names, get_learner, learner_names, learner_parameters, zero_axes

if TYPE_CHECKING:
    from .base import OnePassLearner
    from .batch_base import BatchLearner
    from .batch_logistic import BatchUniLog
    from .dual_averaging import RDAL1, AdaGrad
    from .frequent_directions import OPAUCFD
    from .fsauc import FSAUC
    from .ftrl import FTRLAUC, FTRLProximal
    from .least_squares import LSSVM, BatchUniSqu
    from .oam import OAMGra, OAMSeq
    from .opauc import OPAUC
    from .opauc_s import OPAUCS
    from .projected import OPAUCPCA, OPAUCRP, OPAUCFeat
    from .ranker import DivergenceError, LinearRanker
    from .solam import SOLAM
    from .spam import SPAML1, SPAML2, SPAMElastic
    from .spauc import SPAUC
    from .svm import SVMOR
    from .svm_perf import SVMPerf
    from .univariate import UniExp, UniLog, UniSqu

__all__ = [
    "FSAUC",
    "FTRLAUC",
    "LEARNERS",
    "LSSVM",
    "OPAUC",
    "OPAUCFD",
    "OPAUCPCA",
    "OPAUCRP",
    "OPAUCS",
    "RDAL1",
    "SOLAM",
    "SPAML1",
    "SPAML2",
    "SPAUC",
    "SVMOR",
    "AdaGrad",
    "BatchLearner",
    "BatchUniLog",
    "BatchUniSqu",
    "DivergenceError",
    "FTRLProximal",
    "LinearRanker",
    "OAMGra",
    "OAMSeq",
    "OPAUCFeat",
    "OnePassLearner",
    "SPAMElastic",
    "SVMPerf",
    "UniExp",
    "UniLog",
    "UniSqu",
    "contested_names",
    "get_learner",
    "learner_names",
    "learner_parameters",
    "zero_axes",
]

_HOMES = {
    "BatchLearner": "batch_base",
    "DivergenceError": "ranker",
    "LinearRanker": "ranker",
    "OnePassLearner": "base",
} | {address.split(":")[1]: address.split(":")[0].rsplit(".", 1)[1] for address in LEARNERS.values()}


def __getattr__(name: str):
    # Compilers and scikit-learn are loaded by those who train, not by those who ask for help.
    if name in _HOMES:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
