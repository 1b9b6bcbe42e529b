"""Commands that work on an experiment and its results."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from .app import app
from .options import (
    Config,
    Jobs,
    Mirror,
    Offline,
    OnlyData,
    OnlyLearner,
    Out,
    Place,
    Quiet,
    Rope,
    Test,
    n_cores,
    n_workers,
    open_recorded,
    open_session,
    path_of,
    split_names,
)


@app.command()
def run(
    config: Config,
    out: Out = None,
    dataset: OnlyData = None,
    learner: OnlyLearner = None,
    jobs: Jobs = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Compute these tasks again; each record is replaced when its task is done.")
    ] = False,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Compute failed tasks again.")] = False,
    mirror: Mirror = None,
    offline: Offline = False,
    test: Test = None,
    shard: Annotated[
        str | None, typer.Option(metavar="I/N", help="Compute shard i of n of the tasks, such as 2/8; see merge.")
    ] = None,
    backend: Annotated[
        str, typer.Option(metavar="NAME", help="Engine: loky (processes of this machine) or dask.")
    ] = "loky",
    scheduler: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Address of a Dask cluster, such as tcp://host:8786 (default: this machine)."),
    ] = None,
    quiet: Quiet = False,
) -> int:
    """Run an experiment and print its table.

    Recorded tasks are not computed again: after an interruption, the same command continues.
    """
    from ..commands.run import RunOptions, run_experiment
    from ..runner.engines import Engine

    session = open_session(config, out, dataset, learner, mirror, offline, shard)
    engine = Engine(backend, scheduler, (jobs or n_cores()) if scheduler else n_workers(jobs))
    return run_experiment(session, engine, RunOptions(fresh, retry_failed, test, quiet))


@app.command()
def plan(
    config: Place,
    out: Out = None,
    dataset: OnlyData = None,
    learner: OnlyLearner = None,
    jobs: Jobs = None,
    mirror: Mirror = None,
    offline: Offline = False,
) -> None:
    """Show what a run would do: tasks, finished tasks, CPU time, memory, downloads. Starts nothing."""
    from ..commands.overview import describe_plan

    print(describe_plan(open_recorded(config, out, dataset, learner, mirror, offline, present=True), n_workers(jobs)))


@app.command()
def status(config: Place, out: Out = None, dataset: OnlyData = None, learner: OnlyLearner = None) -> int:
    """Count finished, failed and missing tasks. Writes nothing."""
    from ..commands.overview import describe_status

    text, intact = describe_status(open_recorded(config, out, dataset, learner, present=True))
    print(text)
    return 0 if intact else 1


_latex = partial(typer.Option, rich_help_panel="With --latex")
Columns = Annotated[
    str | None, _latex("--columns", metavar="NAMES", help="Columns to show, in order, separated by commas.")
]
Rows = Annotated[str | None, _latex("--rows", metavar="NAMES", help="Rows to show, in order, separated by commas.")]
Digits = Annotated[int | None, _latex("--digits", metavar="K", help="Decimals of all numbers.")]
Bold = Annotated[str | None, _latex("--bold", metavar="best|none", help="Print the best mean of each dataset in bold.")]
Std = Annotated[bool | None, _latex("--std/--no-std", help="Standard deviations.")]
Transpose = Annotated[bool | None, _latex("--transpose/--no-transpose", help="Learners as rows, datasets as columns.")]
Marks = Annotated[bool | None, _latex("--marks/--no-marks", help="Marks of significance, win/tie/loss.")]
Label = Annotated[str | None, _latex("--label", metavar="NAME", help="Label of the table, for references.")]


@app.command()
def report(
    config: Place,
    out: Out = None,
    test: Test = None,
    rope: Rope = None,
    write: Annotated[
        bool, typer.Option("--write", help="Write it into the results folder: Markdown, LaTeX, CSV, HTML, figures.")
    ] = False,
    to: Annotated[
        Path | None, typer.Option(parser=path_of, metavar="DIR", help="Write it into another folder.")
    ] = None,
    html: Annotated[
        bool,
        typer.Option("--html", help="With --write or --to: also one page with table, grids, ranks, times, every fold."),
    ] = False,
    latex: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Write only the table, as LaTeX; a name that ends in .tex, or - for standard output."
        ),
    ] = None,
    columns: Columns = None,
    rows: Rows = None,
    digits: Digits = None,
    bold: Bold = None,
    std: Std = None,
    transpose: Transpose = None,
    marks: Marks = None,
    label: Label = None,
) -> None:
    """Print the table of the recorded results. Writes nothing without --write, --to or --latex.

    opauc-bench report results/table2

    opauc-bench report results/table2 --test corrected --to paper/tables

    opauc-bench report results/table2 --test bayes --rope 0.01

    opauc-bench report results/table2 --latex table2.tex --columns opauc,oam_seq --digits 3 --bold best

    With --latex, only the table for a paper is written. The config may have its style under report.latex.
    """
    from ..commands.reports import report, write_latex
    from ..errors import ConfigError

    style = {"columns": split_names(columns), "rows": split_names(rows), "digits": digits, "bold": bold, "std": std}
    style |= {"transpose": transpose, "marks": marks, "label": label}
    given = {option: value for option, value in style.items() if value is not None}
    if latex is None and given:
        raise ConfigError(f"--{next(iter(given))}: expected together with --latex", "--latex FILE, or --latex -")
    if latex is not None and (html or write or to):
        raise ConfigError("--latex writes one file and nothing else: expected without --write, --to and --html")
    session = open_recorded(config, out)
    if rope is not None:
        if (test or session.experiment.report.test) != "bayes":
            raise ConfigError(f"--rope {rope:g}: expected together with --test bayes", "--test bayes")
        if write:
            raise ConfigError(
                f"--rope {rope:g}: not with --write, since the tables of a results folder follow from its config",
                f"report: {{rope: {rope:g}}} in the config, or --to DIR instead of --write",
            )
        session = replace(session, experiment=session.experiment.with_rope(rope))
    if latex is None:
        report(session, test, write=write, to=to, page=html)
    else:
        write_latex(session, latex, given, test)


@app.command()
def compare(config: Place, out: Out = None, test: Test = None) -> None:
    """Compare our values with the published ones, cell by cell. Writes nothing."""
    from ..commands.reports import print_comparison

    print_comparison(open_recorded(config, out), test)


@app.command()
def export(
    config: Place,
    file: Annotated[
        Path,
        typer.Option("--out", parser=path_of, metavar="FILE", help="Name that ends in .csv, .parquet or .json."),
    ],
    grid: Annotated[
        bool, typer.Option("--grid", help="One row per setting that was tried, with its inner AUC.")
    ] = False,
    curves: Annotated[bool, typer.Option("--curves", help="One row per point of the figures.")] = False,
) -> None:
    """Write all records as one table, a row per record: for pandas, R or a spreadsheet.

    opauc-bench export results/table2 --out table2.csv

    opauc-bench export results/table2 --grid --out grid.parquet
    """
    from ..commands.export import export_results
    from ..commands.terminal import say

    n_rows = export_results(open_recorded(config, None), file, grid=grid, curves=curves)
    say(f"{n_rows} rows written to {file}")


@app.command()
def metrics(
    config: Place,
    out: Out = None,
    add: Annotated[
        list[str] | None,
        typer.Option("--add", metavar="NAME", help="Metric to compute from kept test scores; may be repeated."),
    ] = None,
) -> int:
    """List the metrics of the records; with --add, compute others from kept test scores, without training.

    Test scores are kept where the config has keep_scores: true under protocol.

    opauc-bench metrics results/mine --add average_precision --add partial_auc@0.05
    """
    from ..commands.metrics import add_metrics, list_metrics

    session = open_recorded(config, out)
    if add:
        return add_metrics(session, add)
    print(list_metrics(session))
    return 0


@app.command()
def verify(
    config: Place,
    out: Out = None,
    sample: Annotated[
        int | None, typer.Option("--sample", "-n", min=0, help="Number of records to compute again (default: 20).")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Compute all records again.")] = False,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the draw (default: random, printed).")] = None,
    max_seconds: Annotated[float | None, typer.Option(min=0, help="Leave out records that took longer.")] = None,
    dataset: OnlyData = None,
    learner: OnlyLearner = None,
    jobs: Jobs = None,
    mirror: Mirror = None,
    offline: Offline = False,
    quiet: Quiet = False,
) -> int:
    """Check a results folder: draw records, compute them again, compare.

    Bit by bit where software and processor are the same, to 1e-9 elsewhere. Nothing in the folder is written.

    Checksums, ids, data, selected settings and tables are checked for all records.
    """
    from ..commands.verify import verify_results
    from ..errors import ConfigError

    if everything and sample is not None:
        raise ConfigError(f"--all computes all records again, and --sample {sample} some: expected one of them")
    return verify_results(
        open_recorded(config, out, dataset, learner, mirror, offline),
        sample=None if everything else 20 if sample is None else sample,
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
) -> int:
    """Merge the folders of shards into one, write its report and print its table.

    All or nothing: they must be of this experiment, on the same data, without contradictions.

    The exit code is 1 if tasks are without a record, because a shard is missing or not finished.
    """
    from ..commands.merge import merge_results

    return merge_results(open_session(config, out), folders, test)


@app.command()
def pack(
    config: Place,
    out: Out = None,
    self_contained: Annotated[
        bool, typer.Option("--self-contained", help="Copy the records of other folders that this one refers to.")
    ] = False,
    prune: Annotated[
        bool, typer.Option("--prune", help="Remove orphaned records: those of another grid, protocol, learner or data.")
    ] = False,
) -> None:
    """Pack the records of an interrupted run, and write its report. run does so when it ends.

    With --self-contained, the folder can be moved without the folders under reuse.

    With --prune, records that status counts as orphaned are removed, except those
    to which folders beside this one refer, and those whose task has no other record.
    """
    from ..commands.pack import pack_results

    pack_results(open_recorded(config, out), self_contained, prune)
