"""Read an experiment file, and find it by its name."""

import os.path
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from ..yamlio import check_model, read_yaml, suggest
from .experiment import Experiment
from .known import CheckEstimator, KnownDatasets, KnownNames, LearnerParameters, RefusedParameters, ZeroAxes

__all__ = ["find_config", "load_experiment"]


def load_experiment(
    path: str | Path,
    *,
    known_datasets: KnownDatasets | None = None,
    learner_parameters: LearnerParameters | None = None,
    known_published: Collection[str] | None = None,
    zero_axes: ZeroAxes | None = None,
    check_estimator: CheckEstimator | None = None,
    refused_parameters: RefusedParameters | None = None,
    content: Mapping[str, Any] | None = None,
    change: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
) -> Experiment:
    """Read and check an experiment file.

    Parameters
    ----------
    path : str or Path
        The YAML file.
    known_datasets : collection of str, or callable, optional
        Names that ``datasets`` may use; or a function from the path of the extra catalogue (or None) to the names,
        which also takes its entries and the path of the experiment file, and then raises Problems.
    learner_parameters : callable, optional
        From a registry name or ``/absolute/file.py:Class`` to the names of the constructor parameters and of the grid
        axes; raises LearnerError.
    known_published : collection of str, optional
        Ids that ``report.published`` may use.
    zero_axes : callable, optional
        From a known learner to the grid axes that may be 0.
    check_estimator : callable, optional
        Checks the entry of an estimator, given ``estimator``, ``params``, ``pipeline`` and ``grid``; returns
        whether it may have probabilities; raises LearnerError, with the place in the entry as ``loc``.
    refused_parameters : callable, optional
        From a known learner and its ``params`` to the parameters whose values it refuses, each with the reason.
    content : mapping, optional
        The result of `Experiment.plain`; then the file is not read and need not exist.
    change : callable, optional
        Changes the content before it is checked.

    Returns
    -------
    Experiment

    Raises
    ------
    ConfigError
        All mistakes at once, each with ``file:line:column``, the key, what is expected and what was found.
    """
    path = Path(path)
    known = KnownNames(
        path,
        known_datasets,
        learner_parameters,
        known_published,
        zero_axes,
        check_estimator,
        refused_parameters,
    )
    if content is None:
        document = read_yaml(path)
        if change is not None:
            document = replace(document, data=change(document.data))
        experiment = document.validate(Experiment, context=known)
    else:
        content = content if change is None else change(dict(content))
        experiment = check_model(content, Experiment, source=path, context=known)
    experiment._path = path
    return experiment


def find_config(text: str, wanted: str = "an experiment file") -> Path:
    """Return the experiment file of a path, or of a bare name such as ``table2``.

    Bare names are looked up in ``./configs`` and in the configs of the package. ConfigError, with the known names, if
    there is no such file.
    """
    path = Path(text)
    if os.path.exists(path) and not os.path.isdir(path):  # os.path: no error for names that are invalid or too long
        return path
    folders = [Path("configs"), _packaged_configs()]
    if path.name == text:
        for folder in folders:
            for name in (text, f"{text}.yaml"):
                if os.path.isfile(folder / name):
                    return folder / name
    names = sorted({found.stem for folder in folders for found in folder.glob("*.yaml")})
    what = "this is a folder" if os.path.isdir(path) else "no such file"
    raise ConfigError(f"{text}: {what}; expected {wanted} or one of {', '.join(names)}{suggest(path.stem, names)}")


def _packaged_configs() -> Path:
    package = Path(__file__).parents[1]
    in_wheel = package / "configs"
    return in_wheel if in_wheel.is_dir() else package.parent / "configs"
