"""Commands that work on an experiment and its results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .app import app
from .options import (
    Config,
    Mirror,
    Offline,
    OnlyData,
    OnlyLearner,
    Out,
    Place,
    Test,
    n_cores,
    n_workers,
    open_recorded,
    open_session,
)


@app.command()
def run(
    config: Config,
    out: Out = None,
    dataset: OnlyData = None,
    learner: OnlyLearner = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, help="Worker processes (default: all cores).")
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Compute everything again.")] = False,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Compute again what has failed.")] = False,
    mirror: Mirror = None,
    offline: Offline = False,
    test: Test = None,
    shard: Annotated[
        str | None, typer.Option("--shard", help="Compute the i-th of n shares of the tasks, such as 2/8; see merge.")
    ] = None,
    backend: Annotated[
        str, typer.Option("--backend", help="What computes the tasks: loky (processes of this machine) or dask.")
    ] = "loky",
    scheduler: Annotated[
        str | None,
        typer.Option(
            "--scheduler", help="Of a Dask cluster, such as tcp://host:8786 [default: workers of this machine]."
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, only the table.")] = False,
) -> int:
    """Run an experiment and print its table.

    What is already recorded is not computed again: after an interruption, the same command goes on.
    """
    from ..runner.command import run_experiment
    from ..runner.engines import Engine

    session = open_session(config, out, dataset, learner, mirror, offline, shard)
    engine = Engine(backend, scheduler, (jobs or n_cores()) if scheduler else n_workers(jobs))
    return run_experiment(session, engine, fresh=fresh, retry_failed=retry_failed, test=test, quiet=quiet)


@app.command()
def plan(
    config: Config,
    out: Out = None,
    dataset: OnlyData = None,
    learner: OnlyLearner = None,
    jobs: Annotated[int | None, typer.Option("--jobs", "-j", min=1, help="Worker processes to reckon with.")] = None,
    mirror: Mirror = None,
    offline: Offline = False,
) -> None:
    """Show what a run would do: tasks, what is done, CPU time, memory, downloads. Starts nothing."""
    from ..runner.command import describe_plan

    print(describe_plan(open_session(config, out, dataset, learner, mirror, offline), jobs or n_cores()))


@app.command()
def status(config: Place, out: Out = None) -> None:
    """Count what is done, what has failed and what is missing."""
    from ..runner.command import describe_status

    print(describe_status(open_recorded(config, out)))


@app.command()
def report(
    config: Place,
    out: Out = None,
    test: Test = None,
    html: Annotated[
        bool, typer.Option("--html", help="Also one page to look at: table, grids, ranks, run times, every fold.")
    ] = False,
) -> None:
    """Print the table of what is recorded, and write it as Markdown, LaTeX, CSV and HTML."""
    from ..runner.command import print_report

    print_report(open_recorded(config, out), test, page=html)


@app.command()
def compare(config: Place, out: Out = None, test: Test = None) -> None:
    """Set our values beside the published ones, cell by cell."""
    from ..runner.command import print_comparison

    print_comparison(open_recorded(config, out), test)


@app.command()
def verify(
    config: Place,
    out: Out = None,
    sample: Annotated[int, typer.Option("--sample", "-n", min=0, help="Records to compute again.")] = 20,
    everything: Annotated[bool, typer.Option("--all", help="Compute all of them again.")] = False,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="Seed of the draw (default: a fresh one, printed).")
    ] = None,
    max_seconds: Annotated[
        float | None, typer.Option("--max-seconds", min=0, help="Draw only from records that took no longer.")
    ] = None,
    dataset: OnlyData = None,
    learner: OnlyLearner = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, help="Worker processes (default: all cores).")
    ] = None,
    mirror: Mirror = None,
    offline: Offline = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> int:
    """Check that a results folder was really computed: draw records, compute them again, compare.

    Bit by bit where software and processor are the same, to 1e-9 elsewhere. Nothing in the folder is written.

    Ids, data, chosen settings and tables are checked for all records.
    """
    from ..runner.verify import verify_results

    session = open_recorded(config, out, dataset, learner, mirror, offline)
    return verify_results(
        session,
        sample=None if everything else sample,
        seed=seed,
        max_seconds=max_seconds,
        n_jobs=n_workers(jobs),
        quiet=quiet,
    )


@app.command()
def merge(
    config: Config,
    folders: Annotated[list[Path], typer.Argument(help="Results folders of the shards.")],
    out: Out = None,
    test: Test = None,
) -> None:
    """Join the results folders of shards into one, and print its table.

    All or nothing: they must be of this experiment, on the same data, without contradictions.
    """
    from ..runner.command import merge_results

    merge_results(open_session(config, out), folders, test)
