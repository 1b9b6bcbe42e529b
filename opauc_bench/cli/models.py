"""Commands that train on a file of any length and score one."""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from .app import app, model_app
from .options import path_of

# The learner checks the values.
_parameter = partial(typer.Option, rich_help_panel="Parameters of the learner", metavar="X")
Eta = Annotated[
    str | None,
    _parameter(
        "--eta", help="Step size: also the gamma of ftrl_* and the xi of spam_* and solam. Not of rda_l1 and spauc."
    ),
]
Lam = Annotated[str | None, _parameter("--lam", "--lambda", help="Regularisation of opauc, opauc_* and ada_oam.")]
Gamma = Annotated[str | None, _parameter("--gamma", help="Step size of ftrl_*; divisor of the step of rda_l1.")]
L1 = Annotated[str | None, _parameter("--l1", help="Coefficient of the l1 norm of the weights.")]
L2 = Annotated[str | None, _parameter("--l2", help="Coefficient of half their squared l2 norm.")]
Calibrations = Literal["auto", "isotonic", "platt", "none"]
Assignments = Annotated[
    list[str] | None,
    _parameter(
        "--set",
        metavar="NAME=X",
        help="Any parameter; repeatable. opauc-bench learners show NAME lists them. 2^-8 is a number. With --learner "
        "auto, learners that do not have a given parameter take no part.",
    ),
]
Files = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE", help="svmlight, CSV or TSV, also compressed, Parquet or Arrow; - is standard input."
    ),
]
FileFormat = Annotated[
    str | None,
    typer.Option("--format", metavar="NAME", help="svmlight, csv, parquet or arrow (default: by name and content)."),
]


_column = partial(typer.Option, rich_help_panel="Columns of tables")
_NAMES = """Separated by commas; '"a, b"' is one name; repeatable."""
LabelColumn = Annotated[str | None, _column("--label", metavar="NAME", help="Column of the labels.")]
Drop = Annotated[list[str] | None, _column("--drop", metavar="NAMES", help=f"Columns to leave out. {_NAMES}")]
Categorical = Annotated[
    list[str] | None,
    _column("--categorical", metavar="NAMES", help=f"Columns of numbers that are categories. {_NAMES}"),
]
MissingValues = Annotated[
    str | None, _column("--missing", metavar="NAME", help="Missing values: error (default), mean or indicator.")
]
Bits = Annotated[
    int | None, _column("--bits", min=1, max=30, help="Categories are hashed to 2^BITS features (default: 18).")
]


@app.command()
def train(
    files: Files,
    out: Annotated[
        Path, typer.Option("--out", parser=path_of, metavar="FILE", help="File for the model, such as model.npz.")
    ],
    resume: Annotated[
        Path | None,
        typer.Option(
            "--continue", parser=path_of, metavar="MODEL", help="Continue training this model, with its settings."
        ),
    ] = None,
    learner: Annotated[
        str | None,
        typer.Option(
            "--learner",
            "-l",
            metavar="NAME",
            help="auto (default), or a one-pass learner of: opauc-bench learners list.",
        ),
    ] = None,
    tune: Annotated[
        bool | None,
        typer.Option(
            "--tune/--no-tune", help="Compare settings during the pass (default), or train the one that is given."
        ),
    ] = None,
    eta: Eta = None,
    lam: Lam = None,
    gamma: Gamma = None,
    l1: L1 = None,
    l2: L2 = None,
    assignments: Assignments = None,
    normalize: Annotated[bool, typer.Option("--normalize", help="Scale rows to unit length; so does score.")] = False,
    positive: Annotated[
        str | None,
        typer.Option("--positive", metavar="LABEL", help="Label of the positive class (default: the greater one)."),
    ] = None,
    file_format: FileFormat = None,
    label: LabelColumn = None,
    drop: Drop = None,
    categorical: Categorical = None,
    missing: MissingValues = None,
    bits: Bits = None,
    skip_bad_rows: Annotated[
        bool, typer.Option("--skip-bad-rows", help="Leave out rows that cannot be read, and count them.")
    ] = False,
    weights: Annotated[str | None, typer.Option("--weights", hidden=True)] = None,
    features: Annotated[
        int | None, typer.Option("--features", min=1, help="Largest index (default: grows with the rows).")
    ] = None,
    rows: Annotated[
        int | None, typer.Option("--rows", min=1, help="Number of rows, for learners that need it.")
    ] = None,
    zero_based: Annotated[bool, typer.Option("--zero-based", help="Indices begin with 0.")] = False,
    window: Annotated[
        int | None,
        typer.Option("--window", min=2, help="Number of latest rows in the AUC, in whole blocks (default: 100,000)."),
    ] = None,
    calibration: Annotated[
        Calibrations,
        typer.Option(
            "--calibration",
            help="How scores become probabilities; auto: isotonic with at least 1,000 rows of each class.",
        ),
    ] = "auto",
    small: Annotated[
        bool, typer.Option("--small", help="Leave out of the model what --continue needs, for a smaller file.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing model.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")] = False,
) -> int:
    """Train a model on a file of any length: one pass, constant memory, tuned during the pass.

    opauc-bench train clicks.csv.gz --label clicked --positive yes --out model.npz

    opauc-bench train monday.svm.gz tuesday.svm.gz --out model.npz

    opauc-bench train small.svm --learner opauc --out model.npz

    zcat day*.gz | opauc-bench train - --normalize --l1 0.01 --out model.npz

    Settings of several learners are trained side by side; each row is scored before it is learnt.

    Settings whose AUC on the latest rows is clearly worse are dropped; the best one is the model.

    Parameters that are given stay fixed.

    The two labels may be any numbers or texts. Shuffle the rows beforehand if they are sorted by label.

    Ctrl-C ends the pass and writes the model of the rows so far.
    """
    from ..data.schema import ColumnOptions, read_names, written_names
    from ..errors import LearnerError
    from ..streaming.options import TrainOptions
    from ..streaming.train import train_model

    if weights is not None:
        raise LearnerError(
            f"--weights {weights}: no learner uses weights of rows",
            f"--drop {shlex.quote(written_names([weights]))}, if it is a column of the file",
        )
    columns = ColumnOptions(
        label=label,
        drop=tuple(name for text in drop or () for name in read_names(text, "--drop")),
        categorical=tuple(name for text in categorical or () for name in read_names(text, "--categorical")),
        missing=None if missing is None else _one_of("--missing", missing, ("error", "mean", "indicator")),
        bits=bits,
    )
    given = {"eta": eta, "lam": lam, "gamma": gamma, "l1": l1, "l2": l2}
    return train_model(
        TrainOptions(
            files=tuple(files),
            resume=resume,
            learner=learner,
            tune=tune,
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
            calibration=calibration,
            small=small,
            quiet=quiet,
            format=_format(file_format),
            columns=columns,
            skip_bad_rows=skip_bad_rows,
        )
    )


def _format(name: str | None) -> Any:
    """Check a format of files."""
    from ..data.inputs import INPUT_FORMATS

    return None if name is None else _one_of("--format", name, INPUT_FORMATS)


def _one_of(option: str, value: str, known: tuple[str, ...]) -> Any:
    from ..errors import ConfigError

    if value not in known:
        raise ConfigError(f"{option} {value}: expected {', '.join(known[:-1])} or {known[-1]}")
    return value


@app.command()
def score(
    model: Annotated[Path, typer.Argument(help="Model file that train has written.")],
    files: Files,
    out: Annotated[
        Path | None,
        typer.Option("--out", parser=path_of, metavar="FILE", help="File for the scores (default: standard output)."),
    ] = None,
    probability: Annotated[
        bool, typer.Option("--probability", "-p", help="Print calibrated probabilities of the positive class.")
    ] = False,
    file_format: FileFormat = None,
    skip_bad_rows: Annotated[
        bool, typer.Option("--skip-bad-rows", help="Print nan for rows that cannot be read, and count them.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print scores only.")] = False,
) -> None:
    """Print a score for each row of the files, in their order; the higher, the more likely positive.

    opauc-bench score model.npz new.csv.gz > scores.txt

    zcat new.svm.gz | opauc-bench score model.npz - | head

    Tables need the columns of the model, in any order; that of the labels may be absent.

    Each line of svmlight text has to begin with a label; without one, write 0.

    If the labels are those that the model was trained on, the AUC is printed on standard error.

    With --probability, so is how reliable the probabilities are.
    """
    from ..streaming.score import score_file

    score_file(model, tuple(files), out, overwrite, quiet, probability, _format(file_format), skip_bad_rows)


@model_app.command("show")
def model_show(
    file: Annotated[Path, typer.Argument(help="Model file that train has written.")],
    weights: Annotated[int, typer.Option("--weights", min=0, help="How many of the largest weights to list.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Describe a model: learner, setting, AUC during training, probabilities, largest weights."""
    import json

    from ..streaming.model import LinearModel
    from ..streaming.show import model_as_json, model_lines

    model = LinearModel.load(file, with_state=True)
    if as_json:
        print(json.dumps(model_as_json(model, weights), indent=1))
    else:
        print("\n".join(model_lines(model, file, weights)))
