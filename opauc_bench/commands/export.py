"""Results for pandas: ``load_results`` and ``export``."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from ..data import Sources
from ..errors import ConfigError, ResultsError
from ..files import write_bytes, write_text
from ..results.frame import curve_frame, grid_frame, record_frame
from ..results.manifest import MANIFEST
from .recorded import Recorded
from .session import Session, shell_command
from .tables import plain_titles

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["export_results", "frame_of", "load_results"]

_FORMATS = (".csv", ".parquet", ".json")


def load_results(folder: str | os.PathLike, *, grid: bool = False, curves: bool = False) -> pd.DataFrame:
    """Read a results folder into a tidy DataFrame.

    Parameters
    ----------
    folder : path-like
        A results folder, such as ``results/table2``.
    grid : bool, default=False
        One row per setting that was tried, with its inner AUC.
    curves : bool, default=False
        One row per point of a figure.

    Returns
    -------
    pandas.DataFrame
        By default one row per record: ``dataset`` (the data), ``row`` (the row of the table), ``learner`` (the key of
        the column), ``title``, ``trial`` and ``fold`` (from 1), ``status``, ``message`` (why there is no
        number), one column per metric, one per axis of the selected setting, ``n_train``, ``n_test``, ``n_settings``,
        ``n_diverged``, ``fit_seconds`` and ``selection_seconds`` (CPU time), ``id``. Records that the folder refers to
        in other folders are included.

    Raises
    ------
    ResultsError
        If the folder has no manifest, or damaged records.
    ValueError
        If both ``grid`` and ``curves`` are true.

    Examples
    --------
    >>> import opauc_bench
    >>> results = opauc_bench.load_results("results/table2")  # doctest: +SKIP
    >>> results.groupby(["dataset", "learner"])["auc"].mean()  # doctest: +SKIP
    """
    return frame_of(Session.of_folder(Path(folder), sources=Sources.from_environment()), grid=grid, curves=curves)


def frame_of(session: Session, *, grid: bool = False, curves: bool = False) -> pd.DataFrame:
    """`load_results` of an opened experiment."""
    if grid and curves:
        raise ValueError("grid and curves are two different tables: expected at most one of them")
    recorded = Recorded.read_intact(session)
    build = grid_frame if grid else curve_frame if curves else record_frame
    return build(recorded.pairs, plain_titles(session.columns))


def export_results(session: Session, out: Path, *, grid: bool, curves: bool) -> int:
    """Write the records as one table; returns its number of rows."""
    if out.suffix not in _FORMATS:
        raise ConfigError(f"--out {out}: expected a name that ends in {', '.join(_FORMATS)}", "--out results.csv")
    if out.name == MANIFEST:
        raise ConfigError(f"--out {out}: the manifest of a results folder has this name", "--out results.json")
    if grid and curves:
        raise ConfigError("--grid and --curves are two different tables: expected at most one of them")
    frame = frame_of(session, grid=grid, curves=curves)
    if frame.empty:
        if not any(Recorded.read(session).pairs):
            raise ResultsError(f"{session.folder}: no records of this experiment", shell_command(session, "run"))
        what = "no settings were tried" if grid else "there are no points of figures"
        command = shlex.join(["opauc-bench", "export", str(session.folder), "--out", str(out)])
        raise ResultsError(f"{session.folder}: {what} in these records", f"{command}  # a row per record")
    if out.suffix == ".csv":
        write_text(out, frame.to_csv(index=False, lineterminator="\n"))
    elif out.suffix == ".json":
        rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
        write_text(out, "[\n" + ",\n".join(json.dumps(row, allow_nan=False) for row in rows) + "\n]\n")
    else:
        try:
            write_bytes(out, frame.to_parquet(None, index=False))
        except ImportError as error:
            raise ConfigError(f"--out {out}: Parquet needs pyarrow", "pip install 'opauc-bench[parquet]'") from error
    return len(frame)
