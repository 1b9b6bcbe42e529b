"""Find learners: by name, through entry points, or as ``path/to/file.py:Class``."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import json
import sys
from collections.abc import Iterable, Mapping
from importlib.metadata import entry_points
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import LearnerError, place_of, suggest
from .parameters import require
from .user_files import file_of, load_file

if TYPE_CHECKING:
    from .ranker import Learner, LinearRanker

__all__ = [
    "ESTIMATOR",
    "LEARNERS",
    "contested_names",
    "get_learner",
    "learner_addresses",
    "learner_class",
    "learner_parameters",
    "refused_parameters",
    "refused_values",
]

ESTIMATOR = ":estimator"  # no name that a user may write

LEARNERS = {
    "opauc": "opauc_bench.learners.opauc.full:OPAUC",
    "opauc_fd": "opauc_bench.learners.opauc.frequent_directions:OPAUCFD",
    "opauc_r": "opauc_bench.learners.opauc.random_sketch:OPAUCr",
    "opauc_h": "opauc_bench.learners.opauc.random_sketch:OPAUCh",
    "opauc_s": "opauc_bench.learners.opauc.sparse_moments:OPAUCS",
    "opauc_feat": "opauc_bench.learners.opauc.projected:OPAUCFeat",
    "opauc_rp": "opauc_bench.learners.opauc.random_projection:OPAUCRP",
    "opauc_pca": "opauc_bench.learners.opauc.pca:OPAUCPCA",
    "ada_oam": "opauc_bench.learners.opauc.ada_oam:AdaOAM",
    "oam_seq": "opauc_bench.learners.oam.oam:OAMSeq",
    "oam_gra": "opauc_bench.learners.oam.oam:OAMGra",
    "uni_exp": "opauc_bench.learners.univariate:UniExp",
    "uni_log": "opauc_bench.learners.univariate:UniLog",
    "uni_squ": "opauc_bench.learners.univariate:UniSqu",
    "pair_sgd": "opauc_bench.learners.pair_sgd:PairSGD",
    "ftrl_auc": "opauc_bench.learners.sparse.ftrl:FTRLAUC",
    "ftrl_proximal": "opauc_bench.learners.sparse.ftrl:FTRLProximal",
    "rda_l1": "opauc_bench.learners.sparse.dual_averaging:RDAL1",
    "adagrad": "opauc_bench.learners.sparse.dual_averaging:AdaGrad",
    "nag": "opauc_bench.learners.sparse.normalized:NAG",
    "spam_l1": "opauc_bench.learners.sparse.spam:SPAML1",
    "spam_l2": "opauc_bench.learners.sparse.spam:SPAML2",
    "spam_elastic": "opauc_bench.learners.sparse.spam:SPAMElastic",
    "solam": "opauc_bench.learners.sparse.solam:SOLAM",
    "spauc": "opauc_bench.learners.sparse.spauc:SPAUC",
    "fsauc": "opauc_bench.learners.sparse.fsauc:FSAUC",
    "svm_perf": "opauc_bench.learners.batch.svm_perf:SVMPerf",
    "svm_or": "opauc_bench.learners.batch.svm:SVMOR",
    "rank_svm_l2": "opauc_bench.learners.batch.rank_svm:RankSVML2",
    "ls_svm": "opauc_bench.learners.batch.least_squares:LSSVM",
    "batch_uni_log": "opauc_bench.learners.batch.logistic:BatchUniLog",
    "batch_uni_squ": "opauc_bench.learners.batch.least_squares:BatchUniSqu",
}


def learner_addresses() -> dict[str, str]:
    """Every name that is known, with the address of its class; built-in names win over entry points."""
    return {name: addresses[0] for name, addresses in _offers().items()}


def contested_names() -> list[str]:
    """A sentence for each name that means several learners, because packages offer the same one."""
    sentences = []
    for name, (first, *others) in _offers().items():
        if name in LEARNERS and others:
            sentences.append(f"{name} is the built-in learner; {' and '.join(others)} are not available by that name")
        elif others:
            sentences.append(f"{name} could be {' or '.join([first, *others])}, of different packages")
    return sentences


def _offers() -> dict[str, list[str]]:
    """The addresses behind each name, a built-in one first."""
    offers = {name: [address] for name, address in LEARNERS.items()}
    for name, address in _entry_points(tuple(sys.path)):
        addresses = offers.setdefault(name, [])
        if address not in addresses:
            addresses.append(address)
    return offers


@functools.cache
def _entry_points(search_path: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Name and address of each learner that an installed package offers; finding them takes milliseconds."""
    return tuple(sorted((point.name, point.value) for point in entry_points(group="opauc_bench.learners")))


def learner_class(name: str) -> type[Learner]:
    """The class that trains a column: `EstimatorLearner` for `ESTIMATOR`, else `get_learner`."""
    if name == ESTIMATOR:
        from .estimator import EstimatorLearner

        return EstimatorLearner
    return get_learner(name)


def get_learner(name: str, folder: Path | None = None) -> type[LinearRanker]:
    """Find a learner's class.

    Parameters
    ----------
    name : str
        A name, or ``path/to/file.py:Class``.
    folder : Path, optional
        Base of a relative path; by default the working directory.

    Raises
    ------
    LearnerError
        If there is no such learner, or its file cannot be read, or it is not a learner.
    """
    if (file := file_of(name)) is not None:
        module = load_file(((folder or Path.cwd()) / file).resolve())
        learner = _class_in(module, name.removeprefix(f"{file}:"), name)
        if learner.__module__ == module.__name__:  # not one that the file imports, which others use as well
            learner.source_hash = module.source_hash
        return learner
    known = _offers()
    if name.endswith(".py"):
        raise LearnerError(f"learner {name!r}: expected the name of a class after the file", f"{name}:Class")
    if name not in known:
        raise LearnerError(
            f"no learner is called {name!r}{suggest(name, known)}; known: {', '.join(sorted(known))}",
            "path/to/file.py:Class for a learner in a file",
        )
    address, *others = known[name]
    if others and name not in LEARNERS:
        raise LearnerError(
            f"learner {name!r} is offered by several packages: {', '.join(known[name])}",
            "pip uninstall all of them but one",
        )
    module_name, _, class_name = address.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise LearnerError(f"learner {name!r} cannot be imported from {module_name}: {error}") from error
    return _class_in(module, class_name, name)


def learner_parameters(name: str, folder: Path | None = None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of a learner's constructor parameters and of its grid axes; raises as `get_learner`."""
    learner = get_learner(name, folder)
    return tuple(parameter.name for parameter in _parameters(learner)), tuple(learner.grid_axes)


def refused_values(name: str, axis: str, values: Iterable[float], folder: Path | None = None) -> dict[int, str]:
    """Positions of the values of a grid axis that a learner refuses, each with a sentence; raises as `get_learner`."""
    class_, refused = get_learner(name, folder), {}
    constraint = class_.constraints()[axis]
    for position, value in enumerate(values):
        try:
            require(class_.__name__, axis, constraint, value)
        except ValueError as error:
            refused[position] = str(error)
    return refused


def refused_parameters(name: str, params: Mapping[str, Any], folder: Path | None = None) -> list[tuple[str, str]]:
    """Why a learner cannot be used with ``params``: names of parameters, each with a sentence about its value.

    The name is empty where the sentence is about the learner as a whole. Raises as `get_learner`.
    """
    class_ = get_learner(name, folder)
    constraints, refused = class_.constraints(), []
    for parameter, value in params.items():
        try:
            if parameter in constraints:
                require(class_.__name__, parameter, constraints[parameter], value)
        except ValueError as error:
            refused.append((parameter, str(error)))
    if refused:
        return refused
    own = inspect.getfile(class_) if class_.source_hash else None
    try:
        learner = class_(**params)  # only stores them
        learner.check_params()
        cost = learner.cost(1, 1, 1.0, 1)
        if not all(isinstance(number, Real) for number in cost):
            return [("", f"cannot be used: its cost has to be seconds and bytes, got {cost}")]
    except Exception as error:
        if not own and not isinstance(error, LearnerError | TypeError | ValueError):
            raise
        place = f" ({place_of(error, own)})" if own else ""
        return [("", f"{f'does not accept {dict(params)}' if params else 'cannot be used'}: {error}{place}")]
    return []


def _class_in(module, class_name: str, name: str) -> type[LinearRanker]:
    from .ranker import LinearRanker

    learner = getattr(module, class_name, None)
    if learner is None:
        found = [
            key for key, value in vars(module).items() if inspect.isclass(value) and issubclass(value, LinearRanker)
        ]
        own = [key for key in found if vars(module)[key].__module__ == module.__name__]
        there = f"; its learners are {', '.join(own)}" if own else ""
        raise LearnerError(f"learner {name!r}: {module.__file__} defines no {class_name!r}{there}")
    if not (inspect.isclass(learner) and issubclass(learner, LinearRanker)):
        hint = "see docs/learners.md, or copy opauc_bench/learners/univariate.py"
        if hasattr(learner, "fit") and hasattr(learner, "get_params"):
            hint = f"of a scikit-learn estimator, an experiment has 'estimator: {name}'; train needs one-pass learners"
        raise LearnerError(
            f"learner {name!r}: {class_name} has to be a OnePassLearner or a BatchLearner of opauc_bench.learners", hint
        )
    try:
        problem = _learner_problem(learner)
    except (Exception, SystemExit) as error:
        place = place_of(error, module.__file__)
        raise LearnerError(
            f"learner {name!r}: {class_name}() raised {type(error).__name__}: {error} ({place})"
        ) from error
    if problem:
        raise LearnerError(f"learner {name!r}: {class_name} {problem}", "docs/learners.md has a complete example")
    return learner


def _parameters(learner: type) -> list[inspect.Parameter]:
    return list(inspect.signature(learner).parameters.values())


def _learner_problem(learner: type[LinearRanker]) -> str:
    """Why a class cannot be built and tuned, or an empty text."""
    parameters = _parameters(learner)
    if loose := [p for p in parameters if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]:
        return f"has {loose[0]!s} in __init__: scikit-learn needs every parameter by its name"
    if bare := [p.name for p in parameters if p.default is p.empty]:
        return f"needs a default for {', '.join(bare)} in __init__, such as {bare[0]}=0.1"
    for p in parameters:
        try:
            json.dumps(p.default)
        except TypeError:
            return f"needs a default for {p.name} that records can store, such as a number or a list; got {p.default!r}"
    axes, names = learner.grid_axes, [p.name for p in parameters]
    if isinstance(axes, str) or not all(isinstance(axis, str) for axis in axes):
        return f"needs a tuple of names as grid_axes, such as ({axes!r},); got {axes!r}"
    if not axes:
        return 'has no grid_axes: name at least one parameter to tune, such as grid_axes = ("eta",)'
    if unknown := [axis for axis in axes if axis not in names]:
        return f"has {unknown[0]!r} in grid_axes, but the parameters of __init__ are {', '.join(names) or 'none'}"
    made = learner()
    if missing := [n for n in names if not hasattr(made, n)]:
        return f"has to keep its parameters under their names: write self.{missing[0]} = {missing[0]} in __init__"
    if changed := [p.name for p in parameters if getattr(made, p.name) is not p.default]:
        return f"has to keep its parameters as they are given: write self.{changed[0]} = {changed[0]} in __init__"
    for axis in axes:
        if isinstance(value := getattr(made, axis), str) or not isinstance(value, Real):
            return f"needs a number as default of {axis}, which is tuned; got {value!r}"
    return ""
