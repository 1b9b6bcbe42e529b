"""``opauc-bench train``: one pass over a file, in constant memory, with an AUC that no row has been learnt for."""

from __future__ import annotations

import contextlib
import itertools
import shlex
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from ..data.row_encoder import Statistics
from ..data.schema import Schema
from ..errors import ConfigError, DataError, LearnerError, OpaucBenchError, ResultsError, place_of
from ..learners import DivergenceError, OnePassLearner
from ..learners.online import OnlineModel, ParameterError
from ..learners.user_files import file_of
from ..sentences import label_text
from .ahead import ahead
from .allocator import keep_freed_memory
from .blocks import SHORT_BLOCK
from .calibration import calibrate, check, load_ahead
from .interruption import Interruption
from .leaderboard import shown_leaderboard
from .model import LinearModel, require_free
from .options import TrainOptions
from .progress import Meter, shown_auc
from .resume import repeated_file_notes, resume_training, state_of
from .rows import LabelledRows, Source
from .settings import AUTO, candidates, step_option
from .show import calibration_line, parameter_lines
from .train_notes import MemoryNote, pass_notes
from .tuning import Candidate, TunedModel

__all__ = ["train_model"]

_WINDOW = 100_000
_MANY_ROWS = 1 << 15  # by then most settings have been dropped, and their memory is free
_FAR = 100.0  # times the largest score of the latest rows: no intercept that separates scores is as large
_ROWS_TO_KEEP = 100_000  # from so many on, an error in a row does not discard the model


def train_model(options: TrainOptions) -> int:
    """Train a model, write it, and print what it is; returns the exit code.

    An interruption (Ctrl-C, SIGTERM, SIGHUP) ends the pass: the model of the rows so far is written, and marked. A
    second one ends it without. After many rows, so does a row that cannot be used: its model has ``.partial`` in its
    name.

    Raises
    ------
    DataError
        If the file cannot be read, or does not have two labels.
    LearnerError
        If the learner does not do, or diverges.
    ResultsError
        If the model cannot be written where it should be; it is put into the temporary folder, if that has room.
    """
    keep_freed_memory()
    try:
        return _train(options)
    except (OpaucBenchError, MemoryError):
        raise
    except Exception as error:
        file = file_of(options.learner or "")
        if file is None:
            raise
        raise LearnerError(
            f"{options.learner} raised {type(error).__name__}: {error} ({place_of(error, Path(file).resolve())})",
            shlex.join(["opauc-bench", "learners", "check", str(options.learner)]),
        ) from error


def _train(options: TrainOptions) -> int:
    require_free(options.out, options.overwrite, options.files)
    model = None
    if options.resume is not None:
        options, model = resume_training(options.resume, options)
    with contextlib.ExitStack() as stack:
        try:
            source = stack.enter_context(contextlib.closing(options.open_source()))
            if model is None:
                options, model = _begun(options, source)
        except KeyboardInterrupt:
            return _nothing_to_save()
        for note in () if options.quiet else repeated_file_notes(options):
            print(note, file=sys.stderr)
        n_before = model.n_rows
        rows = LabelledRows(source, options.unit_length, options.positive)
        rows.labels = list(options.labels)
        meter = Meter(source, options.quiet)
        try:
            memory_note = MemoryNote(options, source)
            memory_note(model)  # of what is known before the first row
            complete, statistics, learnt, error = _pass(source, rows, model, meter, memory_note)
            if error is not None and (model.n_rows - n_before < _ROWS_TO_KEEP or len(rows.labels) < 2):
                raise error
            if not complete and (model.n_rows == n_before or len(rows.labels) < 2):
                meter.clear()
                return _nothing_to_save()
            options = replace(options, feature_offsets=source.feature_offsets)
            files = [options.files[number] for number in sorted(learnt)]
            state = None if options.small else state_of(options, model, files)
            trained = model.finish(rows.classes)
        except DivergenceError as error:
            meter.clear()
            for line in () if options.quiet else source.remarks():  # on columns far from the others, which may be why
                print(line, file=sys.stderr)
            raise _divergence_error(error, options, model.candidates[0]) from None
        except KeyboardInterrupt:
            meter.clear()
            print("interrupted at once: no model is written", file=sys.stderr)
            return 130
        finally:
            meter.clear()
    result = _result(options, trained, model, complete, state, source.schema_at(statistics))
    if error is not None:
        partial = _new_name(options.out.with_suffix(f".partial{options.out.suffix}"), options.overwrite)
        about = f"the model of the first {model.n_rows:,} rows is in {partial}; --continue goes on with it"
        if not source.n_skipped:
            about += f" and the rows from row {model.n_rows - n_before + 1:,} on"
        try:
            _save(result, partial)
        except ResultsError as problem:
            about = problem.message
        print(about, file=sys.stderr)
        raise error
    _save(result, options.out)
    _print_summary(options, result, trained, model, meter, n_before, source)
    return 0 if complete else 130


def _new_name(path: Path, overwrite: bool) -> Path:
    """The path, or, where there is a file that must not be overwritten, the first free one with a number."""
    numbered = (path.with_stem(f"{path.stem}-{k}") for k in itertools.count(2))
    return next(one for one in itertools.chain([path], numbered) if overwrite or not one.exists())


def _nothing_to_save() -> int:
    print("interrupted before there was anything to save: no model is written", file=sys.stderr)
    return 130


def _save(result: LinearModel, path: Path) -> None:
    """Write the model; where that fails, into the temporary folder, since the pass may have taken hours.

    Raises
    ------
    ResultsError
        If it cannot be written to ``path``; it says where the model is.
    """
    try:
        result.save(path)
    except ResultsError as error:
        fallback = Path(tempfile.mkdtemp(prefix="opauc-bench-train-")) / path.name
        try:
            result.save(fallback)
        except ResultsError:
            fallback.parent.rmdir()
            raise error from None
        raise ResultsError(
            f"{error.message}; the model is in {fallback}", shlex.join(["mv", str(fallback), str(path)])
        ) from None


def _begun(options: TrainOptions, source: Source) -> tuple[TrainOptions, TunedModel]:
    """A new pass, and the options with all defaults."""
    if options.zero_based and source.is_table:
        raise ConfigError(f"{source.name}: --zero-based is for svmlight text, and this is a table")
    learner, tune, window = options.learner or AUTO, options.tune is not False, options.window or _WINDOW
    try:
        entered = candidates(learner, options.given, options.assignments, tune)
    except LearnerError as error:  # what is wrong is an option
        raise ConfigError(error.message, error.hint) from error
    try:
        n_features, n_rows = _required_sizes(options, learner, entered, source)
        model = TunedModel(entered, window=window, n_features=n_features, n_rows=n_rows)
    except ParameterError as error:
        raise ConfigError(error.message, error.hint) from error
    return replace(options, learner=learner, tune=tune, window=window, n_features=n_features, n_rows=n_rows), model


def _pass(
    source: Source, rows: LabelledRows, model: TunedModel, meter: Meter, memory_note: MemoryNote
) -> tuple[bool, Statistics | None, set[int], DataError | None]:
    """Score and then learn, chunk after chunk.

    Returns whether it came to the end, the statistics of the rows learnt, the numbers of their files, and the error of
    a row that cannot be used.
    """
    learnt, files = source.statistics_so_far(), set()  # the reader goes on to later rows
    with Interruption() as interruption:
        try:
            for X, positive, statistics, position, file in ahead(rows):
                if model.n_rows <= _MANY_ROWS < model.n_rows + X.shape[0]:
                    load_ahead()
                with interruption.delayed():
                    learnt = statistics
                    files.add(file)
                    model.learn(X, positive)
                memory_note(model)
                meter.tick(model.n_rows, lambda: _standing(model), position)
        except KeyboardInterrupt:
            if interruption.busy:  # by the second signal: the model may have learnt some of the rows
                raise
            return False, learnt, files, None
        except DataError as error:
            return False, learnt, files, error
    return True, learnt, files, None


def _standing(model: TunedModel) -> str:
    """How well it ranks so far, by which learner, and how many settings are left."""
    n_live = len(model.live)
    leader = f"  {model.leader_name}, {n_live} settings" if n_live > 1 else ""
    return f"AUC {shown_auc(model.auc())} (last {model.n_in_window:,}){leader}"


def _required_sizes(
    options: TrainOptions, name: str, entered: list[Candidate], source: Source
) -> tuple[int | None, int | None]:
    """Numbers of features and rows: as given, or counted where a learner cannot begin without them."""
    if source.is_table:
        if options.n_features is not None:
            raise ConfigError(f"--features is for svmlight text; the columns of {source.name} are counted")
        options = replace(options, n_features=source.n_features)
    missing = []
    if options.n_rows is None and not all(hasattr(one.learner, "partial_fit") for one in entered):
        missing.append("rows")
    if options.n_features is None and name != AUTO and not OnlineModel.can_widen(entered[0].learner):
        missing.append("features")
    if not missing:
        return options.n_features, options.n_rows
    if not source.again:
        wanted = " and ".join(f"--{one} N" for one in missing)
        raise ConfigError(
            f"{name} needs the number of {' and '.join(missing)} before the first row, "
            f"and {source.name} can be read only once",
            wanted + ("  # the largest index will do" if "features" in missing else ""),
        )
    if not options.quiet:
        print(f"counting {' and '.join(missing)} first: {name} needs them", file=sys.stderr)
    with contextlib.closing(options.open_source()) as source:
        n_rows, n_features, meter = 0, 0, Meter(source, options.quiet)
        for chunk in source.chunks():
            n_rows, n_features = n_rows + chunk.X.shape[0], max(n_features, chunk.X.shape[1])
            meter.tick(n_rows)
        meter.clear()
    return (
        (n_features or None) if "features" in missing else options.n_features,
        n_rows if "rows" in missing else options.n_rows,
    )


def _divergence_error(error: DivergenceError, options: TrainOptions, first: Candidate) -> LearnerError:
    """The error of a pass that overflowed, with the options to change."""
    step = step_option(first.name, first.learner)
    hint = step if options.unit_length else f"--normalize, which brings rows to unit length; or {step}"
    if options.resume is not None:  # which keeps its options
        hint = "bring the features to the scale of the rows before, or train a new model, without --continue"
    return LearnerError(
        f"{error.event}: the steps are too large for these features; no model is written",
        hint,
    )


def _result(
    options: TrainOptions,
    trained: OnePassLearner,
    model: TunedModel,
    complete: bool,
    state: dict | None,
    schema: Schema | None,
) -> LinearModel:
    weights, intercept = trained.coef_[0], _intercept(trained, model)
    scores, positive = model.recent_by(trained, intercept)
    n_centred = 0
    if schema is not None and schema.offsets:  # the model is for columns as they are
        weights = weights.copy()
        n_centred = len(schema.offsets)
        weights[:n_centred] /= np.array(schema.scales)
        intercept -= float(weights[:n_centred] @ np.array([offset or 0.0 for offset in schema.offsets]))
    if options.feature_offsets is not None:  # likewise for features
        features, offsets, scales = options.feature_offsets
        weights, n_centred = weights.copy(), len(features)
        weights[features] /= scales
        intercept -= float(weights[features] @ offsets)
    calibration = calibrate(scores, positive, options.calibration)
    negative_label, positive_label = trained.classes_.tolist()
    return LinearModel(
        weights=weights,
        intercept=intercept,
        classes=(negative_label, positive_label),
        learner=model.leader_name,
        parameters=trained.get_params(),
        n_rows=model.n_rows,
        complete=complete,
        unit_length=options.unit_length,
        zero_based=options.zero_based,
        leaderboard=model.leaderboard,
        progress=model.progress,
        calibration=calibration,
        reliability=None if calibration is None else check(calibration, scores, positive),
        state=state,
        schema=schema,
        n_centred=n_centred,
    )


def _intercept(trained: OnePassLearner, model: TunedModel) -> float:
    """The intercept, or, where it is far beyond all scores, that of a threshold between the medians of the classes.

    Class means, between which the threshold lies, may consist of one value that is far from all others. A score then
    has no digits left beside the intercept.
    """
    intercept = float(trained.intercept_[0])
    scores, positive = model.latest(trained)
    if trained.trained_intercepts() is not None or not 0 < np.count_nonzero(positive) < len(positive):
        return intercept
    if abs(intercept) <= _FAR * np.abs(scores).max():
        return intercept
    return -0.5 * float(np.median(scores[positive]) + np.median(scores[~positive]))


def _rows_of_auc(model: TunedModel) -> str:
    """Which rows the AUC is of."""
    if model.n_in_window:
        return f"of the last {model.n_in_window:,} rows, by the weights from before their block"
    return f"with {SHORT_BLOCK} rows or fewer, none is scored before it is learnt"


def _print_summary(
    options: TrainOptions,
    result: LinearModel,
    trained: OnePassLearner,
    model: TunedModel,
    meter: Meter,
    n_before: int,
    source: Source,
) -> None:
    """Print what has been trained and how well it ranks."""
    if not result.complete:
        print(f"interrupted: the model of the first {model.n_rows:,} rows is written", file=sys.stderr)
    elif options.n_rows is not None and options.n_rows != model.n_rows:
        print(f"note: expected {options.n_rows:,} rows, got {model.n_rows:,}", file=sys.stderr)
    if n_before and model.n_rows == n_before:
        print(f"note: {source.name} has no rows: the model is as before", file=sys.stderr)
    if options.quiet:
        return
    if len(model.leaderboard) > 1:
        print(shown_leaderboard(model.leaderboard), end="\n\n")
    for note in pass_notes(model, trained, source, options.positive is not None):
        print(note, file=sys.stderr)
    negative, positive = map(label_text, trained.classes_.tolist())
    share = trained.class_counts_[0] / model.n_rows
    print(*parameter_lines(f"{model.leader_name} (", trained.get_params(), end=")"), sep="\n")
    n_new = model.n_rows - n_before
    in_all = f" more, {model.n_rows:,} in all," if n_before else ""
    print(f"rows      {n_new:,}{in_all} in {meter.seconds:.1f} s ({n_new / meter.seconds:,.0f} rows/s)")
    print(f"labels    {100 * share:.3g} % {positive} (positive), the others {negative}")
    if source.schema is not None:
        print(f"columns   {source.schema.described()}")
    print(f"AUC       {shown_auc(model.auc())}, {_rows_of_auc(model)}")
    print(f"weights   {result.about_weights}")
    too_few = result.calibration is None and options.calibration != "none"
    print(f"scores    {calibration_line(result)}{': too few rows of a class were scored' if too_few else ''}")
    print(f"model     {options.out}")
