"""Options of several commands, and how they are read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ..commands.session import Session
    from ..data import Sources


def path_of(text: str) -> Path:
    """The path of an option; an empty one, as an unset variable of a shell gives it, would be the working directory."""
    if not text:
        raise typer.BadParameter("expected a name, got an empty one.")
    return Path(text)


Config = Annotated[str, typer.Argument(help="Experiment file, or the name of a bundled one such as table2.")]
Place = Annotated[str, typer.Argument(help="Experiment file, name of a bundled one, or a results folder.")]
Out = Annotated[
    Path | None, typer.Option(parser=path_of, metavar="DIR", help="Results folder (default: results/<config name>).")
]
OnlyData = Annotated[
    list[str] | None, typer.Option("--dataset", "-d", metavar="NAME", help="Only this dataset; repeatable.")
]
OnlyLearner = Annotated[
    list[str] | None, typer.Option("--learner", "-l", metavar="NAME", help="Only this column; repeatable.")
]
Jobs = Annotated[int | None, typer.Option("--jobs", "-j", min=1, help="Worker processes (default: all cores).")]
Mirror = Annotated[
    list[str] | None,
    typer.Option(
        metavar="DIR|URL", help="Folder or address with <dataset>/<file>; repeatable. Also: OPAUC_BENCH_MIRROR."
    ),
]
Offline = Annotated[bool, typer.Option("--offline", help="Do not use the network.")]
Test = Annotated[
    str | None, typer.Option(metavar="NAME", help="Test of the marks: paired (the papers'), corrected or bayes.")
]
Rope = Annotated[
    float | None,
    typer.Option(metavar="R", help="Bayesian tests: differences within ±R AUC are practically equivalent."),
]
Catalogue = Annotated[
    Path | None,
    typer.Option(
        parser=path_of,
        metavar="FILE",
        help="Your dataset catalogue, or an experiment that has entries, in addition to the packaged one.",
    ),
]
Fresh = Annotated[bool, typer.Option("--fresh", help="Ignore cached files.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress; notes and errors remain.")]

_WORKERS_PER_CORE = 2


def open_session(
    config: str, out: Path | None, datasets=None, learners=None, mirror=None, offline=False, shard=None, **wanted
) -> Session:
    from ..commands.session import Session
    from ..commands.shards import parse_shard
    from ..config import find_config

    sources, part = find_sources(mirror, offline), parse_shard(shard) if shard else None
    path = find_config(config, **wanted)
    return Session.open(path, out=out, sources=sources, datasets=datasets, learners=learners, shard=part)


def open_recorded(
    place: str, out: Path | None, datasets=None, learners=None, mirror=None, offline=False, present=False
) -> Session:
    """Open a results folder, given as the folder or as its config.

    Learners and estimators whose version or file has changed since are those of the records, or, for what is still to
    be computed, the ``present`` ones.
    """
    from ..commands.session import Session
    from ..errors import ConfigError

    if not os.path.isfile(os.path.join(place, "manifest.json")):
        if os.path.isdir(place) and out is None:
            raise ConfigError(
                f"{place}: expected an experiment file or a results folder, got a folder without manifest.json",
                "a folder that run has written to, such as results/<name of the config>",
            )
        wanted = "an experiment file, a results folder"
        session = open_session(place, out, datasets, learners, mirror, offline, wanted=wanted).as_recorded()
    elif out is not None:
        raise ConfigError(f"--out {out}: {place} is the results folder already; --out is only for a config")
    else:
        sources = find_sources(mirror, offline)
        session = Session.of_folder(Path(place), sources=sources, datasets=datasets, learners=learners)
    return session.with_present_versions() if present else session


def split_names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",")]


def find_sources(mirror: list[str] | None, offline: bool) -> Sources:
    from ..data import Sources

    return Sources.from_environment(tuple(mirror or ()), offline)


def n_workers(jobs: int | None) -> int:
    """Worker processes: by default one per core, and at most two per core."""
    from ..commands.terminal import say

    cores = n_cores()
    most = _WORKERS_PER_CORE * max(cores, 2)
    if jobs is not None and jobs > most:
        say(f"note: {most} workers instead of {jobs}: more than two per core slow each other down")
    return min(jobs or cores, most)


def n_cores() -> int:
    """Cores that this process may use, by its affinity and the limits of its container."""
    from joblib import cpu_count

    return cpu_count()
