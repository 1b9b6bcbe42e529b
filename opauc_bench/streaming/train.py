"""``opauc-bench train``: one pass over a file, in constant memory, with an AUC that no row has been learnt for."""

from __future__ import annotations

import contextlib
import itertools
import math
import shlex
import signal
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from ..data.row_encoder import Statistics
from ..data.schema import MOST_BITS, Schema
from ..errors import DataError, LearnerError, OpaucBenchError, ResultsError, place_of
from ..learners import DivergenceError, OnePassLearner
from ..learners.online import OnlineModel
from ..sentences import label_text
from .ahead import ahead
from .allocator import keep_freed_memory
from .blocks import SHORT_BLOCK
from .calibration import calibrate, check, load_ahead
from .leaderboard import shown_leaderboard
from .model import LinearModel, require_free
from .progress import Meter, shown_auc
from .rows import LabelledRows, Source
from .session import resumed, state_of
from .settings import AUTO, candidates, step_option
from .show import calibration_line, wrapped
from .training import Training
from .tuning import Candidate, TunedModel

__all__ = ["train_model"]

_WINDOW = 100_000
_ROWS_WITHOUT_DROPPING = 1 << 13  # from here on settings should be dropped
_MANY_ROWS = 1 << 15  # by then most settings have been dropped, and their memory is free
_MUCH_MEMORY = 2e9
_SHARE_OF_POSITIONS = 0.1  # that categories may take: with n of m, about n / m of them share one
_FAR = 100.0  # times the largest score of the latest rows: no intercept that separates scores is as large
# Rows of a class that are expected in the window, and the share of them below which the rows are in some order.
_EXPECTED_OF_A_CLASS, _SHARE_IN_SOME_ORDER = 50, 0.25
_ROWS_TO_KEEP = 100_000  # from so many on, an error in a row does not discard the model
_DRIFT = 0.02  # of the AUC, by which it is less over the whole window than within blocks; large steps cost up to .007


def train_model(what: Training) -> int:
    """Train a model, write it, and print what it is; returns the exit code.

    An interruption (Ctrl-C, SIGTERM, SIGHUP) ends the pass: the model of the rows so far is written, and marked. After
    many rows, so does a row that cannot be used: its model has ``.partial`` in its name.

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
        return _train(what)
    except (OpaucBenchError, MemoryError):
        raise
    except Exception as error:
        file = (what.learner or "").rpartition(":")[0]
        if not file.endswith(".py"):
            raise
        raise LearnerError(
            f"{what.learner} raised {type(error).__name__}: {error} ({place_of(error, Path(file).resolve())})",
            shlex.join(["opauc-bench", "learners", "check", str(what.learner)]),
        ) from error


def _train(what: Training) -> int:
    require_free(what.out, what.overwrite, what.files)
    model = None
    if what.resume is not None:
        what, model = resumed(what.resume, what)
    with contextlib.ExitStack() as stack:
        try:
            source = stack.enter_context(contextlib.closing(what.open_source()))
            if model is None:
                what, model = _begun(what, source)
        except KeyboardInterrupt:
            return _nothing_to_save()
        n_before = model.n_rows
        rows = LabelledRows(source, what.unit_length, what.positive)
        rows.labels = list(what.labels)
        meter = Meter(source, what.quiet)
        try:
            about_memory = _AboutMemory(what, source)
            about_memory(model)  # of what is known before the first row
            complete, statistics, error = _pass(source, rows, model, meter, about_memory)
            if error is not None and (model.n_rows - n_before < _ROWS_TO_KEEP or len(rows.labels) < 2):
                raise error
            if not complete and (model.n_rows == n_before or len(rows.labels) < 2):
                meter.clear()
                return _nothing_to_save()
            what = replace(what, feature_offsets=source.feature_offsets)
            state = None if what.small else state_of(what, model)
            trained = model.finish(rows.classes)
        except DivergenceError as error:
            meter.clear()
            for line in () if what.quiet else source.remarks():  # on columns far from the others, which may be why
                print(line, file=sys.stderr)
            raise _divergence_error(error, what, model.candidates[0]) from None
        finally:
            meter.clear()
    result = _result(what, trained, model, complete, state, source.schema_at(statistics))
    if error is not None:
        partial = _new_name(what.out.with_suffix(f".partial{what.out.suffix}"), what.overwrite)
        about = f"the model of the first {model.n_rows:,} rows is in {partial}; --continue goes on with it"
        if not source.n_skipped:
            about += f" and the rows from row {model.n_rows - n_before + 1:,} on"
        try:
            _save(result, partial)
        except ResultsError as problem:
            about = problem.message
        print(about, file=sys.stderr)
        raise error
    _save(result, what.out)
    _print_summary(what, result, trained, model, meter, n_before, source)
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


def _begun(what: Training, source: Source) -> tuple[Training, TunedModel]:
    """A new pass, and the options with all defaults."""
    if what.zero_based and source.is_table:
        raise DataError(f"{source.name}: --zero-based is for svmlight text, and this is a table")
    learner, tune, window = what.learner or AUTO, what.tune is not False, what.window or _WINDOW
    entered = candidates(learner, what.given, what.assignments, tune)
    n_features, n_rows = _required_sizes(what, learner, entered, source)
    model = TunedModel(entered, window=window, n_features=n_features, n_rows=n_rows)
    return replace(what, learner=learner, tune=tune, window=window, n_features=n_features, n_rows=n_rows), model


class _AboutMemory:
    """Say once, unless ``quiet``, that the features of the rows so far take much memory."""

    def __init__(self, what: Training, source: Source):
        self._small, self._is_table, self._said = what.small, source.is_table, what.quiet

    def __call__(self, model: TunedModel) -> None:
        memory = model.memory_bytes * (1 if self._small else 2)  # the state that is kept for --continue is a copy
        if self._said or memory <= _MUCH_MEMORY:
            return
        self._said = True
        ways = ["fewer --bits"] if self._is_table else ["indices without large gaps"]
        ways += ["--small"] * (not self._small) + ["--no-tune"]
        print(
            f"note: {len(model.live)} settings of {model.n_features:,} features take up to {memory / 1e9:.0f} GB of "
            f"memory; less with {', '.join(ways)}",
            file=sys.stderr,
        )


def _pass(
    source: Source, rows: LabelledRows, model: TunedModel, meter: Meter, about_memory: _AboutMemory
) -> tuple[bool, Statistics | None, DataError | None]:
    """Score and then learn, chunk after chunk.

    Returns whether it came to the end, the statistics of the rows learnt, and the error of a row that cannot be used.
    """
    learnt = source.statistics_so_far()  # the reader goes on to later rows
    with _Interruption() as interruption:
        try:
            for X, positive, statistics, position in ahead(rows):
                if model.n_rows <= _MANY_ROWS < model.n_rows + X.shape[0]:
                    load_ahead()
                with interruption.delayed():
                    learnt = statistics
                    model.learn(X, positive)
                about_memory(model)
                meter.tick(model.n_rows, lambda: _standing(model), position)
        except KeyboardInterrupt:
            return False, learnt, None
        except DataError as error:
            return False, learnt, error
    return True, learnt, None


def _standing(model: TunedModel) -> str:
    """How well it ranks so far, by which learner, and how many settings are left."""
    n_live = len(model.live)
    leader = f"  {model.leader}, {n_live} settings" if n_live > 1 else ""
    return f"AUC {shown_auc(model.auc())} (last {model.n_in_window:,}){leader}"


class _Interruption:
    """Ctrl-C, SIGTERM and SIGHUP raise KeyboardInterrupt while a row is waited for, never while one is learnt.

    A second Ctrl-C ends the program at once.
    """

    def __init__(self):
        self._busy = self._asked = False

    def __enter__(self) -> _Interruption:
        # A shell starts a job in the background with Ctrl-C ignored, and that has to stay.
        # A closed terminal sends SIGHUP.
        ends = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        watched = [number for number in ends if signal.getsignal(number) != signal.SIG_IGN]
        self._before = {number: signal.signal(number, self._ask) for number in watched}
        return self

    def __exit__(self, *_) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, *_) -> None:
        again, self._asked = self._asked, True
        if again or not self._busy:
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def delayed(self) -> Iterator[None]:
        self._busy = True
        yield
        self._busy = False
        if self._asked:
            raise KeyboardInterrupt


def _required_sizes(
    what: Training, name: str, entered: list[Candidate], source: Source
) -> tuple[int | None, int | None]:
    """Numbers of features and rows: as given, or counted where a learner cannot begin without them."""
    if source.is_table:
        if what.n_features is not None:
            raise LearnerError(f"--features is for svmlight text; the columns of {source.name} are counted")
        what = replace(what, n_features=source.n_features)
    missing = []
    if what.n_rows is None and not all(hasattr(one.learner, "partial_fit") for one in entered):
        missing.append("rows")
    if what.n_features is None and name != AUTO and not OnlineModel.can_widen(entered[0].learner):
        missing.append("features")
    if not missing:
        return what.n_features, what.n_rows
    if not source.again:
        options = " and ".join(f"--{one} N" for one in missing)
        raise LearnerError(
            f"{name} needs the number of {' and '.join(missing)} before the first row, "
            f"and {source.name} can be read only once",
            options + ("  # the largest index will do" if "features" in missing else ""),
        )
    if not what.quiet:
        print(f"counting {' and '.join(missing)} first: {name} needs them", file=sys.stderr)
    with contextlib.closing(what.open_source()) as source:
        n_rows, n_features, meter = 0, 0, Meter(source, what.quiet)
        for chunk in source.chunks():
            n_rows, n_features = n_rows + chunk.X.shape[0], max(n_features, chunk.X.shape[1])
            meter.tick(n_rows)
        meter.clear()
    return (
        (n_features or None) if "features" in missing else what.n_features,
        n_rows if "rows" in missing else what.n_rows,
    )


def _divergence_error(error: DivergenceError, what: Training, first: Candidate) -> LearnerError:
    """The same with what to do about it here."""
    step = step_option(first.name, first.learner)
    hint = step if what.unit_length else f"--normalize, which brings rows to unit length; or {step}"
    if what.resume is not None:  # which keeps its options
        hint = "bring the features to the scale of the rows before, or train a new model, without --continue"
    return LearnerError(
        f"{error.event}: the steps are too large for these features; no model is written",
        hint,
    )


def _result(
    what: Training,
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
    if what.feature_offsets is not None:  # likewise for features
        features, offsets, scales = what.feature_offsets
        weights, n_centred = weights.copy(), len(features)
        weights[features] /= scales
        intercept -= float(weights[features] @ offsets)
    calibration = calibrate(scores, positive, what.calibration)
    negative_label, positive_label = trained.classes_.tolist()
    return LinearModel(
        weights=weights,
        intercept=intercept,
        classes=(negative_label, positive_label),
        learner=model.leader,
        parameters=trained.get_params(),
        n_rows=model.n_rows,
        complete=complete,
        unit_length=what.unit_length,
        zero_based=what.zero_based,
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


def _taken_over(model: TunedModel) -> str:
    """Which rows the AUC is of."""
    if model.n_in_window:
        return f"of the last {model.n_in_window:,} rows, by the weights from before their block"
    return f"with {SHORT_BLOCK} rows or fewer, none is scored before it is learnt"


def _about_blocks(model: TunedModel) -> list[str]:
    """A note if the pass has taken longer than it had to."""
    if not model.lacks_blocks or model.n_rows < _ROWS_WITHOUT_DROPPING or model.auc() is None:
        return []
    note = (
        f"note: {len(model.live)} settings were trained to the end: few blocks of the window have rows of both classes"
    )
    return [f"{note}; a larger --window has more" if 2 * model.n_in_window < model.n_rows else note]


def _about_comparison(model: TunedModel) -> list[str]:
    """A note if there was nothing, or too little, that settings could be compared by."""
    if model.is_undecided:
        return [
            f"note: the last {model.n_in_window:,} rows have too few of a class to tell settings apart: the model has "
            f"the one nearest to the defaults of {model.leader}"
        ]
    if len(model.leaderboard) == 1 or model.auc() is not None:
        return []  # of a single setting, `_about_order` says it
    if not model.n_in_window:
        nearest = f"the model has the one nearest to the defaults of {model.leader}"
        return [f"note: settings could not be compared, the rows are too few; {nearest}"]
    return [
        f"note: no block of the last {model.n_in_window:,} rows has rows of both classes, so that settings could not "
        "be compared at the end; shuffle the rows, if they are sorted by label"
    ]


def _about_order(model: TunedModel, trained: OnePassLearner) -> list[str]:
    """A note if the window has hardly any rows of a class that is common in the whole pass."""
    window = model.recent()[1]
    if model.auc() is None:
        if len(model.leaderboard) > 1 or not len(window):  # see `_about_comparison`
            return []
        return [
            f"note: no block of the last {len(window):,} rows has rows of both classes; shuffle the rows, if they are "
            "sorted by label"
        ]
    for label, count, is_positive in zip(trained.classes_[::-1], trained.class_counts_, (True, False)):
        share, found = count / model.n_rows, np.count_nonzero(window == is_positive) / len(window)
        if share * len(window) >= _EXPECTED_OF_A_CLASS and found < _SHARE_IN_SOME_ORDER * share:
            return [
                f"note: {100 * found:.3g} % of the last {len(window):,} rows have the label {label_text(label.item())} "
                f"and {100 * share:.3g} % of all: probabilities are those of the last rows; shuffle the rows, if they "
                "are sorted by label"
            ]
    return []


def _about_drift(model: TunedModel) -> list[str]:
    """A note if scores of early and late rows cannot be compared."""
    within, across, error = model.auc(), model.auc_across_blocks(), model.leaderboard[0]["standard_error"]
    if within is None or across is None or error is None or within - across <= max(_DRIFT, 2.0 * error):
        return []
    return [
        f"note: the AUC is {shown_auc(within)} among rows of the same time, and {shown_auc(across)} among all of the "
        "window: scores drift, because of a column that grows along the file, such as a date or an id (--drop), of "
        "large steps (a smaller --eta), or of rows that change"
    ]


def _about_width(model: TunedModel) -> list[str]:
    """A note if the number of features has cost the best learner."""
    if not (name := model.retired_best):
        return []
    return [
        f"note: {name} was the best until there were too many features for it in {AUTO}; --learner {name} takes them"
    ]


def _about_positions(model: TunedModel, source: Source) -> list[str]:
    """A note if many categories share a feature, unless most of them are ids."""
    schema = source.schema
    if schema is None or not schema.categories or source.ids:
        return []
    n_taken, n_features = model.n_occurring(schema.first_category), 1 << schema.bits
    if n_taken <= _SHARE_OF_POSITIONS * n_features:
        return []
    bits = min(math.ceil(math.log2(n_taken / _SHARE_OF_POSITIONS)), MOST_BITS)
    more = f"; --bits {bits} has room for them" if bits > schema.bits else ""
    taken = f"{n_taken:,} of {n_features:,} features"
    return [f"note: categories take {taken}, so that many of them share one with another{more}"]


def _print_summary(what, result, trained, model, meter, n_before, source) -> None:
    """Print what has been trained and how well it ranks."""
    if not result.complete:
        print(f"interrupted: the model of the first {model.n_rows:,} rows is written", file=sys.stderr)
    elif what.n_rows is not None and what.n_rows != model.n_rows:
        print(f"note: expected {what.n_rows:,} rows, got {model.n_rows:,}", file=sys.stderr)
    if what.quiet:
        return
    if len(model.leaderboard) > 1:
        print(shown_leaderboard(model.leaderboard), end="\n\n")
    about_model = (_about_comparison, _about_drift, _about_blocks, _about_width)
    notes = [*source.remarks(), *_about_positions(model, source), *_about_order(model, trained)]
    for line in [*notes, *(note for about in about_model for note in about(model))]:
        print(line, file=sys.stderr)
    negative, positive = map(label_text, trained.classes_.tolist())
    share = trained.class_counts_[0] / model.n_rows
    print(*wrapped(f"{model.leader} (", trained.get_params(), end=")"), sep="\n")
    n_new = model.n_rows - n_before
    in_all = f" more, {model.n_rows:,} in all," if n_before else ""
    print(f"rows      {n_new:,}{in_all} in {meter.seconds:.1f} s ({n_new / meter.seconds:,.0f} rows/s)")
    print(f"labels    {100 * share:.3g} % {positive} (positive), the others {negative}")
    if source.schema is not None:
        print(f"columns   {source.schema.described()}")
    print(f"AUC       {shown_auc(model.auc())}, {_taken_over(model)}")
    print(f"weights   {result.about_weights}")
    too_few = result.calibration is None and what.calibration != "none"
    print(f"scores    {calibration_line(result)}{': too few rows of a class were scored' if too_few else ''}")
    print(f"model     {what.out}")
