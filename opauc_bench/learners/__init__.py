"""Learners: scikit-learn estimators that can train a whole grid of settings at once.

``LEARNERS`` names the built-in ones; packages add theirs through the entry point group ``opauc_bench.learners``, and
``path/to/file.py:Class`` works wherever a name does.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from .registry import (
    ESTIMATOR,
    LEARNERS,
    contested_names,
    get_learner,
    learner_addresses,
    learner_class,
    learner_parameters,
    refused_parameters,
    refused_values,
)

if TYPE_CHECKING:
    from .base import OnePassLearner
    from .batch.base import BatchLearner
    from .batch.least_squares import LSSVM, BatchUniSqu
    from .batch.logistic import BatchUniLog
    from .batch.rank_svm import RankSVML2
    from .batch.svm import SVMOR
    from .batch.svm_perf import SVMPerf
    from .estimator import EstimatorLearner
    from .estimator_entry import check_estimator_entry
    from .oam.oam import OAMGra, OAMSeq
    from .opauc.ada_oam import AdaOAM
    from .opauc.frequent_directions import OPAUCFD
    from .opauc.full import OPAUC
    from .opauc.pca import OPAUCPCA
    from .opauc.projected import OPAUCFeat
    from .opauc.random_projection import OPAUCRP
    from .opauc.random_sketch import OPAUCh, OPAUCr
    from .opauc.sparse_moments import OPAUCS
    from .pair_sgd import PairSGD
    from .ranker import DivergenceError, Learner, LinearRanker
    from .sparse.dual_averaging import RDAL1, AdaGrad
    from .sparse.fsauc import FSAUC
    from .sparse.ftrl import FTRLAUC, FTRLProximal
    from .sparse.normalized import NAG
    from .sparse.solam import SOLAM
    from .sparse.spam import SPAML1, SPAML2, SPAMElastic
    from .sparse.spauc import SPAUC
    from .univariate import UniExp, UniLog, UniSqu

__all__ = [
    "ESTIMATOR",
    "FSAUC",
    "FTRLAUC",
    "LEARNERS",
    "LSSVM",
    "NAG",
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
    "AdaOAM",
    "BatchLearner",
    "BatchUniLog",
    "BatchUniSqu",
    "DivergenceError",
    "EstimatorLearner",
    "FTRLProximal",
    "Learner",
    "LinearRanker",
    "OAMGra",
    "OAMSeq",
    "OPAUCFeat",
    "OPAUCh",
    "OPAUCr",
    "OnePassLearner",
    "PairSGD",
    "RankSVML2",
    "SPAMElastic",
    "SVMPerf",
    "UniExp",
    "UniLog",
    "UniSqu",
    "check_estimator_entry",
    "contested_names",
    "get_learner",
    "learner_addresses",
    "learner_class",
    "learner_parameters",
    "refused_parameters",
    "refused_values",
]

_HOMES = {
    "BatchLearner": "batch.base",
    "DivergenceError": "ranker",
    "EstimatorLearner": "estimator",
    "check_estimator_entry": "estimator_entry",
    "Learner": "ranker",
    "LinearRanker": "ranker",
    "OnePassLearner": "base",
} | {address.split(":")[1]: address.split(":")[0].removeprefix(f"{__name__}.") for address in LEARNERS.values()}


def __getattr__(name: str):
    # Compilers and scikit-learn are loaded by those who train, not by those who ask for help.
    if name in _HOMES:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
