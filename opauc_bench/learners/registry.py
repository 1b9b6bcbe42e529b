"""Where learners are found: by name, through entry points, or as ``path/to/file.py:Class``."""

from __future__ import annotations

import difflib
import hashlib
import importlib
import importlib.util
import inspect
import sys
from importlib.metadata import entry_points
from pathlib import Path

from ..errors import LearnerError

__all__ = ["LEARNERS", "get_learner", "learner_names", "learner_parameters", "zero_axes"]

LEARNERS = {
    "opauc": "opauc_bench.learners.opauc:OPAUC",
    "opauc_fd": "opauc_bench.learners.frequent_directions:OPAUCFD",
    "opauc_r": "opauc_bench.learners.sketched:OPAUCr",
    "opauc_h": "opauc_bench.learners.sketched:OPAUCh",
    "opauc_s": "opauc_bench.learners.opauc_s:OPAUCS",
    "opauc_feat": "opauc_bench.learners.projected:OPAUCFeat",
    "opauc_rp": "opauc_bench.learners.projected:OPAUCRP",
    "opauc_pca": "opauc_bench.learners.projected:OPAUCPCA",
    "oam_seq": "opauc_bench.learners.oam:OAMSeq",
    "oam_gra": "opauc_bench.learners.oam:OAMGra",
    "uni_exp": "opauc_bench.learners.univariate:UniExp",
    "uni_log": "opauc_bench.learners.univariate:UniLog",
    "uni_squ": "opauc_bench.learners.univariate:UniSqu",
    "ftrl_auc": "opauc_bench.learners.ftrl:FTRLAUC",
    "ftrl_proximal": "opauc_bench.learners.ftrl:FTRLProximal",
    "rda_l1": "opauc_bench.learners.dual_averaging:RDAL1",
    "adagrad": "opauc_bench.learners.dual_averaging:AdaGrad",
    "spam_l1": "opauc_bench.learners.spam:SPAML1",
    "spam_l2": "opauc_bench.learners.spam:SPAML2",
    "spam_elastic": "opauc_bench.learners.spam:SPAMElastic",
    "solam": "opauc_bench.learners.solam:SOLAM",
    "spauc": "opauc_bench.learners.spauc:SPAUC",
    "fsauc": "opauc_bench.learners.fsauc:FSAUC",
    "svm_perf": "opauc_bench.learners.svm_perf:SVMPerf",
    "svm_or": "opauc_bench.learners.svm:SVMOR",
    "ls_svm": "opauc_bench.learners.least_squares:LSSVM",
    "batch_uni_log": "opauc_bench.learners.batch_logistic:BatchUniLog",
    "batch_uni_squ": "opauc_bench.learners.least_squares:BatchUniSqu",
}


def learner_names() -> dict[str, str]:
    """Every name that is known, with the address of its class; built-in names win over entry points."""
    found = {point.name: point.value for point in entry_points(group="opauc_bench.learners")}
    return {**found, **LEARNERS}


def get_learner(name: str, folder: Path | None = None) -> type:
    """Find a learner's class.

    Parameters
    ----------
    name : str
        A name, or ``path/to/file.py:Class``.
    folder : Path, optional
        What a relative path starts from; by default the working directory.

    Raises
    ------
    LearnerError
        If there is no such learner, or its file cannot be read, or it is no learner.
    """
    path, _, class_name = name.rpartition(":")
    if path.endswith(".py"):
        file = ((folder or Path.cwd()) / path).resolve()
        learner = _class_in(_module_from_file(file), class_name, name)
        learner.source_hash = hashlib.sha256(file.read_bytes()).hexdigest()[:16]
        return learner
    known = learner_names()
    if name not in known:
        close = difflib.get_close_matches(name, known, 1)
        raise LearnerError(
            f"no learner is called {name!r}" + (f" (did you mean {close[0]!r}?)" if close else ""),
            f"known: {', '.join(sorted(known))}; or path/to/file.py:Class for one of your own",
        )
    module_name, _, class_name = known[name].partition(":")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise LearnerError(f"learner {name!r} cannot be imported from {module_name}: {error}") from error
    return _class_in(module, class_name, name)


def learner_parameters(name: str, folder: Path | None = None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of a learner's constructor parameters and of its grid axes.

    Raises
    ------
    LearnerError
        If there is no such learner.
    """
    learner = get_learner(name, folder)
    parameters = tuple(p for p in inspect.signature(learner.__init__).parameters if p != "self")
    return parameters, tuple(learner.grid_axes)


def zero_axes(name: str, folder: Path | None = None) -> tuple[str, ...]:
    """Names of the grid axes of a learner whose values may be 0.

    Raises
    ------
    LearnerError
        If there is no such learner.
    """
    return tuple(get_learner(name, folder).zero_axes)


def _module_from_file(path: Path):
    if not path.is_file():
        raise LearnerError(f"no file {path}", "write a learner as path/to/file.py:Class, relative to the config")
    # The same file under the same name in every process, so that its estimators can be pickled.
    module_name = f"opauc_bench_learner_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    if module_name in sys.modules:
        return sys.modules[module_name]
    spec = importlib.util.spec_from_file_location(module_name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # importing a script may end it
        del sys.modules[module_name]
        raise LearnerError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    return module


def _class_in(module, class_name: str, name: str) -> type:
    from .ranker import LinearRanker

    learner = getattr(module, class_name, None)
    if learner is None:
        raise LearnerError(f"learner {name!r}: {module.__file__} defines no {class_name!r}")
    if not (inspect.isclass(learner) and issubclass(learner, LinearRanker)):
        raise LearnerError(
            f"learner {name!r}: {class_name} has to be a OnePassLearner or a BatchLearner of opauc_bench.learners",
            "see docs/learners.md, or copy opauc_bench/learners/univariate.py",
        )
    return learner
