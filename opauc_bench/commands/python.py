"""``opauc_bench.run``: an experiment from Python, also on data in memory."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from joblib import cpu_count

from ..config import Experiment, find_config
from ..data import Sources
from ..data.entry import ROW_METADATA
from ..data.memory import rows_in_memory
from ..errors import ConfigError, OpaucBenchError, suggest
from ..runner.engines import Engine
from .export import frame_of
from .run import RunOptions, compute_experiment
from .session import Session

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["run"]


def run(
    experiment: str | os.PathLike | Mapping[str, Any] | Experiment,
    *,
    data: Mapping[str, tuple[Any, Any]] | None = None,
    out: str | os.PathLike | None = None,
    jobs: int | None = None,
    fresh: bool = False,
    retry_failed: bool = False,
    verbose: bool = False,
) -> pd.DataFrame:
    """Run an experiment and return its results.

    Recorded tasks are not computed again: after an interruption, the same call continues.

    Parameters
    ----------
    experiment : path-like, mapping or Experiment
        A file, the name of a bundled experiment, or the content of a file.
    data : mapping of str to (X, y), optional
        Datasets in memory. ``X`` is an array, a sparse matrix or a DataFrame of shape (n_samples, n_features), of
        pandas or polars, or a table of Arrow; ``y`` has a label per row, numbers or text; for a DataFrame it may be the
        name of the column of labels. The greater one of two labels is positive. They are used as they are;
        ``catalogue`` of the experiment may have an entry of the same name with further settings, such as ``scaling``,
        ``positive``, and for DataFrames, under ``source``, ``missing``, ``categorical``, ``drop``, ``split``, ``group``
        and ``time``.
    out : path-like, optional
        The results folder; by default ``results/<name of the file>``. Required if ``experiment`` is not a file.
    jobs : int, optional
        Worker processes; by default one per core.
    fresh, retry_failed : bool
        Whether all tasks, or those that failed, are computed again.
    verbose : bool
        Whether progress is printed on standard error.

    Returns
    -------
    pandas.DataFrame
        One row per record, as `load_results` returns.

    Raises
    ------
    ConfigError
        The experiment has mistakes.
    DataError
        The data of a dataset cannot be used or are unavailable. The results of the others are recorded.

    Examples
    --------
    >>> import opauc_bench
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(200, weights=[0.9], random_state=0)
    >>> experiment = {"title": "Mine", "datasets": ["mine"], "learners": ["uni_log"], "grids": {"eta": [0.1, 1]}}
    >>> results = opauc_bench.run(experiment, data={"mine": (X, y)}, out="results/mine")  # doctest: +SKIP
    """
    if jobs is not None and (isinstance(jobs, bool) or not isinstance(jobs, int) or jobs < 1):
        raise ConfigError(f"jobs: expected a whole number from 1, or None for all cores, got {jobs!r}")
    if not isinstance(experiment, str | os.PathLike | Mapping | Experiment):
        raise ConfigError(f"expected an experiment: a file, a name or a dict, got {type(experiment).__name__}")
    content, path = None, None
    if isinstance(experiment, Experiment):
        content, path = experiment.plain(), experiment.path
    elif isinstance(experiment, Mapping):
        if out is None:
            raise ConfigError(
                "an experiment that is not a file: expected the folder of its results", "out='results/mine'"
            )
        content, path = _plain(experiment), Path(f"{Path(out).name}.yaml")
    else:
        path = find_config(os.fspath(experiment))
    if data is not None and not (isinstance(data, Mapping) and all(isinstance(name, str) for name in data)):
        raise ConfigError("data: expected a dict of datasets by name", "data={'mine': (X, y)}")
    arrays: dict[str, Any] = {}
    session = Session.open(
        path,
        out=Path(out) if out else None,
        sources=Sources.from_environment(),
        content=content,
        change=functools.partial(_with_entries, data=data, arrays=arrays) if data else None,
    )
    datasets = session.experiment.datasets
    for name, found in arrays.items():
        entries = [entry for entry in map(session.catalogue.__getitem__, datasets) if name in (entry.name, entry.base)]
        if not entries:
            raise ConfigError(
                f"data[{name!r}]: the experiment has no dataset of this name{suggest(name, datasets)}",
                f"datasets: [{name}]",
            )
        for entry in entries:
            entry._arrays = found
    engine = Engine(n_jobs=jobs or cpu_count())
    outcome = compute_experiment(session, engine, RunOptions(fresh, retry_failed, quiet=not verbose, keep_workers=True))
    if outcome.local.unavailable:
        raise next(iter(outcome.local.unavailable.values()))
    return frame_of(session)


def _plain(experiment: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of the content of an experiment, as a file has it."""
    try:
        return json.loads(json.dumps(dict(experiment)))
    except (TypeError, ValueError) as error:
        raise ConfigError(f"experiment: expected dicts, lists, text and numbers of Python ({error})") from None


def _with_entries(content: dict[str, Any], data: Mapping[str, Any], arrays: dict[str, Any]) -> dict[str, Any]:
    """The content of an experiment with an entry for each dataset in memory, whose rows are put into `arrays`."""
    catalogue = content.get("catalogue") or {}
    if not isinstance(catalogue, Mapping):
        raise ConfigError(
            f"catalogue: {catalogue}: data in memory need entries in the experiment itself",
            "catalogue: {NAME: {...}} instead of the name of a file",
        )
    catalogue = dict(catalogue)
    for name, pair in data.items():
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise ConfigError(f"data[{name!r}]: expected a pair (X, y), got {type(pair).__name__}")
        entry = catalogue.get(name) or {}
        if not isinstance(entry, Mapping) or not isinstance(entry.get("source", {}), Mapping):
            raise ConfigError(f"catalogue: {name}: expected a mapping of settings, and one under source")
        settings = dict(entry.get("source", {}))
        if isinstance(settings.get("positive"), bool):
            settings["positive"] = int(settings["positive"])  # as labels True and False are read
        try:
            arrays[name], digest = rows_in_memory(*pair, settings)
        except OpaucBenchError as error:
            raise type(error)(f"data[{name!r}]: {error.message}", error.hint) from None
        kept = {key: settings[key] for key in ("positive", *ROW_METADATA) if key in settings}
        catalogue[name] = {**entry, "source": {"memory": digest} | kept}
    return {**content, "catalogue": catalogue}
