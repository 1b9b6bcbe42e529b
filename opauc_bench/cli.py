"""The command line: one short function a command. Heavy modules are imported inside the commands that need them."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .errors import OpaucBenchError

if TYPE_CHECKING:
    from .data import Sources
    from .runner.session import Session

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Reproduce the papers on one-pass AUC optimisation, and compare your own learners honestly.\n\n"
    "Start with: opauc-bench run configs/quickstart.yaml",
    epilog="Exit codes: 0 all done, 1 some tasks failed, 2 bad config, 3 data missing, 130 interrupted.",
)
data_app = typer.Typer(no_args_is_help=True, help="Datasets: list, fetch, verify, describe.")
learners_app = typer.Typer(no_args_is_help=True, help="Learners: list them, describe them, check your own.")
app.add_typer(data_app, name="data")
app.add_typer(learners_app, name="learners")

Config = Annotated[str, typer.Argument(help="Experiment file, or the name of a bundled one such as table2.")]
Place = Annotated[str, typer.Argument(help="Experiment file, name of a bundled one, or a results folder.")]
Out = Annotated[Path | None, typer.Option("--out", help="Results folder (default: results/<name of the config>).")]
OnlyData = Annotated[list[str] | None, typer.Option("--dataset", "-d", help="Only this dataset; repeatable.")]
OnlyLearner = Annotated[list[str] | None, typer.Option("--learner", "-l", help="Only this column; repeatable.")]
Mirror = Annotated[
    list[str] | None,
    typer.Option("--mirror", help="Folder or address with <dataset>/<file>; repeatable. Also: OPAUC_BENCH_MIRROR."),
]
Offline = Annotated[bool, typer.Option("--offline", help="Never touch the network.")]
Test = Annotated[str | None, typer.Option("--test", help="Significance test: paired (the papers') or corrected.")]
Catalogue = Annotated[
    Path | None, typer.Option("--catalogue", help="A dataset catalogue of your own, beside the packaged one.")
]
Fresh = Annotated[bool, typer.Option("--fresh", help="Start anew instead of using what is there.")]


def main() -> None:
    """Run the command line; errors of the user's making are printed without a traceback."""
    for stream in filter(None, (sys.stdout, sys.stderr)):
        stream.reconfigure(errors="replace")  # a terminal that has no ± prints a question mark
    try:
        code = app(standalone_mode=False)
        print(end="", flush=True)  # here, and not at exit, it is found out that the reader has gone away
    except OpaucBenchError as error:
        print(f"error: {error.message}", file=sys.stderr)
        if error.hint:
            print(f"  try: {error.hint}", file=sys.stderr)
        code = error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        print("interrupted", file=sys.stderr)
        code = 130
    except (BrokenPipeError, SystemExit) as error:
        # The reader, such as head, has gone away, which typer turns into an exit with 1.
        if not isinstance(error, BrokenPipeError) and not isinstance(error.__context__, BrokenPipeError):
            raise
        # Python must not complain about it a second time at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except OSError as error:
        if error.errno != errno.ENOSPC or error.filename is not None:
            raise
        # No file of ours: those name themselves. It is what the output was sent to.
        print("error: the output cannot be written: no space left on device", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except Exception as error:
        if not hasattr(error, "exit_code") or not hasattr(error, "show"):
            raise
        error.show()
        code = error.exit_code
    sys.exit(code or 0)


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
    from .runner.command import run_experiment
    from .runner.engines import Engine

    session = _session(config, out, dataset, learner, mirror, offline, shard)
    engine = Engine(backend, scheduler, jobs or _cores())
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
    from .runner.command import describe_plan

    print(describe_plan(_session(config, out, dataset, learner, mirror, offline), jobs or _cores()))


@app.command()
def status(config: Place, out: Out = None) -> None:
    """Count what is done, what has failed and what is missing."""
    from .runner.command import describe_status

    print(describe_status(_recorded(config, out)))


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
    from .runner.command import print_report

    print_report(_recorded(config, out), test, page=html)


@app.command()
def compare(config: Place, out: Out = None, test: Test = None) -> None:
    """Set our values beside the published ones, cell by cell."""
    from .runner.command import print_comparison

    print_comparison(_recorded(config, out), test)


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

    Bit by bit where software and processor are the same, to 1e-9 elsewhere. Ids, data, chosen settings and tables are
    checked for all records. Nothing in the folder is written.
    """
    from .runner.verify import verify_results

    session = _recorded(config, out, dataset, learner, mirror, offline)
    return verify_results(
        session,
        sample=None if everything else sample,
        seed=seed,
        max_seconds=max_seconds,
        n_jobs=jobs or _cores(),
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
    from .runner.command import merge_results

    merge_results(_session(config, out), folders, test)


@data_app.command("list")
def data_list(catalogue: Catalogue = None, mirror: Mirror = None, offline: Offline = False) -> None:
    """List all datasets and where each can be had from."""
    from .data import load_catalogue
    from .runner.listings import list_datasets

    print(list_datasets(load_catalogue(catalogue), _sources(mirror, offline)))


@data_app.command("fetch")
def data_fetch(
    names: Annotated[list[str], typer.Argument(help="Datasets.")],
    catalogue: Catalogue = None,
    mirror: Mirror = None,
    offline: Offline = False,
    fresh: Fresh = False,
) -> None:
    """Download, verify and prepare datasets."""
    from .data import prepare
    from .runner.listings import find_entries

    for entry in find_entries(names, catalogue):
        data = prepare(entry, _sources(mirror, offline), _say, fresh)
        print(f"{entry.name}: {data.X.shape[0]:,} rows, {data.X.shape[1]:,} features, ready")


@data_app.command("verify")
def data_verify(
    names: Annotated[list[str] | None, typer.Argument(help="Datasets (default: all that are in the cache).")] = None,
    catalogue: Catalogue = None,
    mirror: Mirror = None,
) -> int:
    """Hash cached files and prepared arrays again and compare with the catalogue."""
    from .runner.listings import verify_datasets

    lines, good = verify_datasets(names or [], catalogue, _sources(mirror, True))
    print("\n".join(lines))
    return 0 if good else 3


@data_app.command("info")
def data_info(
    name: Annotated[str, typer.Argument(help="Dataset.")],
    catalogue: Catalogue = None,
    mirror: Mirror = None,
    offline: Offline = False,
) -> None:
    """Describe a dataset: origin, sizes, labels, scaling, files."""
    from .runner.listings import describe_dataset, find_entries

    print(describe_dataset(find_entries([name], catalogue)[0], _sources(mirror, offline)))


@learners_app.command("list")
def learners_list() -> None:
    """List all learners with their parameters and grid axes."""
    from .runner.listings import list_learners

    print(list_learners())


@learners_app.command("show")
def learners_show(
    name: Annotated[str, typer.Argument(help="Name, or path/to/file.py:Class.")],
) -> None:
    """Describe a learner: its parameters, their defaults and what they mean."""
    from .runner.listings import describe_learner

    print(describe_learner(name))


@learners_app.command("check")
def learners_check(
    name: Annotated[str, typer.Argument(help="Name, or path/to/file.py:Class.")],
) -> int:
    """Run the contract suite over a learner: what the runner and its users rely on."""
    from .learners import get_learner
    from .learners.contract import check_learner

    results = check_learner(get_learner(name))
    told = set()
    for result in results:
        print(f"{'ok  ' if result.passed else 'FAIL'}  {result.name}")
        if not result.passed:
            print(f"      {'the same as above' if result.detail in told else result.detail}")
            told.add(result.detail)
    failed = sum(not result.passed for result in results)
    print(f"{len(results) - failed} passed, {failed} failed")
    return 1 if failed else 0


def _parameter(*names: str, help: str) -> Any:
    """An option for a parameter of a learner; the learner itself says what it may be."""
    return Annotated[
        str | None, typer.Option(*names, metavar="X", rich_help_panel="Parameters of the learner", help=help)
    ]


Eta = _parameter("--eta", help="Step size of any learner: the gamma of ftrl_*, the xi of spam_* and solam.")
Lam = _parameter("--lam", "--lambda", help="Regularisation of opauc.")
Gamma = _parameter("--gamma", help="Step size of ftrl_*; of rda_l1, what divides it.")
L1 = _parameter("--l1", help="What multiplies the l1 norm of the weights.")
L2 = _parameter("--l2", help="What multiplies half their squared l2 norm.")
Assignments = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=X",
        rich_help_panel="Parameters of the learner",
        help="Any parameter; repeatable. opauc-bench learners show NAME has them. Numbers may be written 2^-8.",
    ),
]


@app.command()
def train(
    file: Annotated[str, typer.Argument(help="svmlight file, plain, .gz, .bz2 or .xz; - is standard input.")],
    out: Annotated[Path, typer.Option("--out", help="Where the model goes, as in model.npz.")],
    learner: Annotated[
        str, typer.Option("--learner", "-l", help="Any one-pass learner: opauc-bench learners list.")
    ] = "ftrl_auc",
    eta: Eta = None,
    lam: Lam = None,
    gamma: Gamma = None,
    l1: L1 = None,
    l2: L2 = None,
    assignments: Assignments = None,
    normalize: Annotated[bool, typer.Option("--normalize", help="Bring rows to unit length; so does score.")] = False,
    positive: Annotated[
        float | None, typer.Option("--positive", help="Label of the positive class (default: the greater one).")
    ] = None,
    features: Annotated[
        int | None, typer.Option("--features", min=1, help="Largest index (default: grows as they come).")
    ] = None,
    rows: Annotated[
        int | None, typer.Option("--rows", min=1, help="Number of rows, for a learner that has to know it.")
    ] = None,
    zero_based: Annotated[bool, typer.Option("--zero-based", help="Indices begin with 0.")] = False,
    window: Annotated[int, typer.Option("--window", min=2, help="Rows that the AUC is taken over.")] = 100_000,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="The model may be there already.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")] = False,
) -> int:
    """Train a model on a file of any length: one pass, constant memory.

    opauc-bench train clicks.svm.gz --out model.npz

    opauc-bench train small.svm --learner opauc --eta 2^-6 --out model.npz

    zcat day*.gz | opauc-bench train - --normalize --l1 0.01 --out model.npz

    Each row is scored before it is learnt, and the AUC of the latest rows is printed on the way.

    The two labels may be any numbers. Shuffle the rows beforehand if they are sorted by label.

    Ctrl-C ends the pass and writes the model of the rows so far.
    """
    from .streaming.train import Training, train_model

    given = {"eta": eta, "lam": lam, "gamma": gamma, "l1": l1, "l2": l2}
    return train_model(
        Training(
            file=file,
            learner=learner,
            given=given,
            assignments=assignments or [],
            out=out,
            overwrite=overwrite,
            n_features=features,
            n_rows=rows,
            positive=positive,
            unit_length=normalize,
            zero_based=zero_based,
            window=window,
            quiet=quiet,
        )
    )


@app.command()
def score(
    model: Annotated[Path, typer.Argument(help="What train has written.")],
    file: Annotated[str, typer.Argument(help="svmlight file, plain, .gz, .bz2 or .xz; - is standard input.")],
    out: Annotated[Path | None, typer.Option("--out", help="File for the scores (default: standard output).")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="That file may be there already.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print scores only.")] = False,
) -> None:
    """Print a score for each row of a file, in its order; the higher, the more likely positive.

    opauc-bench score model.npz new.svm.gz > scores.txt

    zcat new.svm.gz | opauc-bench score model.npz - | head

    Each line has to begin with a label; without one, write 0.

    If the labels are those that the model was trained on, the AUC is printed on standard error.
    """
    from .streaming.score import score_file

    score_file(model, file, out, overwrite, quiet)


@app.command()
def doctor() -> int:
    """Check this installation: versions, cache, mirrors, compilers, cores."""
    from .runner.listings import examine

    lines, good = examine(_sources(None, False))
    print("\n".join(lines))
    return 0 if good else 1


def _version(asked: bool) -> None:
    if asked:
        from . import __version__

        print(f"opauc-bench {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def _session(
    config: str, out: Path | None, datasets=None, learners=None, mirror=None, offline=False, shard=None
) -> Session:
    from .config import find_config
    from .runner.session import Session
    from .runner.shards import parse_shard

    return Session.open(
        find_config(config),
        out=out,
        sources=_sources(mirror, offline),
        datasets=tuple(datasets or ()),
        learners=tuple(learners or ()),
        shard=None if shard is None else parse_shard(shard),
    )


def _recorded(place: str, out: Path | None, datasets=None, learners=None, mirror=None, offline=False) -> Session:
    """The session of a results folder, which is given itself or by the config that it comes from."""
    from .errors import ConfigError
    from .runner.session import Session

    if not os.path.isfile(os.path.join(place, "manifest.json")):
        if os.path.isdir(place) and out is None:
            raise ConfigError(
                f"{place}: expected an experiment file or a results folder, got a folder without manifest.json",
                "a folder that run has written to, such as results/<name of the config>",
            )
        return _session(place, out, datasets, learners, mirror, offline)
    if out is not None:
        raise ConfigError(f"--out {out}: {place} is the results folder already; --out goes with a config")
    return Session.of_folder(
        Path(place), sources=_sources(mirror, offline), datasets=tuple(datasets or ()), learners=tuple(learners or ())
    )


def _sources(mirror: list[str] | None, offline: bool) -> Sources:
    from .data import Sources

    return Sources.from_environment(tuple(mirror or ()), offline)


def _say(text: str) -> Any:
    print(text, file=sys.stderr, flush=True)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
