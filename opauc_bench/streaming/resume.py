"""``train --continue``: what an earlier training remembers, and which options agree with it."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..data.feature_offsets import FeatureOffsets
from ..data.schema import ColumnOptions, written_names
from ..errors import ConfigError, DataError, LearnerError
from ..learners.user_files import file_of
from ..sentences import label_text
from .model import LinearModel
from .options import TrainOptions
from .rows import Label
from .tuning import TunedModel

__all__ = ["mark_of", "repeated_file_notes", "resume_training", "state_of"]

_KEPT = ("learner", "tune", "window", "n_features", "n_rows")  # of the options, in the state


def state_of(options: TrainOptions, model: TunedModel, files: Iterable[str]) -> dict[str, Any] | None:
    """What has to be stored to continue, before the model is finished; None, with a note, if it cannot be stored.

    ``files`` are those of which rows have been learnt.
    """
    try:
        offsets = None if options.feature_offsets is None else list(options.feature_offsets)
        kept = {name: getattr(options, name) for name in _KEPT} | {"feature_offsets": offsets}
        learnt = [*options.learnt, *filter(None, map(mark_of, files))]
        return {"options": kept, "learnt": learnt, "pass": model.snapshot()}
    except TypeError as error:
        print(
            f"note: train --continue will not accept this model: {error}, which is in the state of the learner",
            file=sys.stderr,
        )
        return None


def mark_of(file: str) -> str | None:
    """What a file is known by later: its size, and a hash of its first 64 KiB.

    None of a pipe, of a file that cannot be read, and of a single line, which may be a header without rows.
    """
    if not os.path.isfile(file):
        return None
    try:
        with open(file, "rb") as stream:
            head = stream.read(1 << 16)
        size = os.path.getsize(file)
    except OSError:  # the pass says so when it comes to the file
        return None
    if size == len(head) and b"\n" not in head.strip():
        return None
    return f"{size} {hashlib.sha256(head).hexdigest()[:16]}"


def repeated_file_notes(options: TrainOptions) -> list[str]:
    """A note on each file whose rows have been learnt before: by this model, or as an earlier file of the list."""
    notes, known = [], set(options.learnt)
    for file in options.files:
        if (mark := mark_of(file)) is None:
            continue
        if mark in known:
            notes.append(
                f"note: {file} has been learnt before (by its size and its beginning): its rows are scored by a model "
                "that has had them, so that the AUC is too good"
            )
        known.add(mark)
    return notes


def resume_training(file: Path, options: TrainOptions) -> tuple[TrainOptions, TunedModel]:
    """Read a model to continue: the options of its training, and the pass as it was after the last row.

    Raises
    ------
    ConfigError
        If an option contradicts the model.
    DataError
        If it cannot be read, has no state, or its state is not valid.
    LearnerError
        If a learner is not there any more, or has laid out its pass for the rows that it has had.
    """
    model = LinearModel.load(file, with_state=True)
    if model.state is None:
        raise DataError(
            f"{file}: this model cannot be continued: it was trained with --small, or by a learner whose state "
            "cannot be stored",
            "train it again without --small; where that cannot help, train has a note on the learner",
        )
    try:
        kept = {name: model.state["options"][name] for name in _KEPT}
        offsets, learnt = model.state["options"]["feature_offsets"], tuple(model.state["learnt"])
        if options.learner is not None and _is_moved(options.learner, kept["learner"]):
            for entrant in model.state["pass"]["entrants"]:
                entrant["candidate"]["name"] = options.learner
            kept["learner"] = options.learner
        _require_agreement(file, options, model, kept)
        earlier = TunedModel.restored(model.state["pass"])
    except (KeyError, TypeError, ValueError, MemoryError) as error:
        raise DataError(
            f"{file}: training cannot continue: the state is damaged, or another version of the learner has written it "
            f"({error})",
            "train a new model",
        ) from None
    except LearnerError as error:
        if not file_of(model.learner):
            raise
        place = f"--learner path/to/{Path(model.learner).name}"
        raise LearnerError(f"{file}: {error.message}", f"{place}  # if the file of the learner is elsewhere") from None
    if earlier.is_over:
        raise LearnerError(
            f"{file}: {model.learner} has laid out its pass for {kept['n_rows']:,} rows, which have all come",
            "train a new model, with --rows N for the rows of all files",
        )
    same = replace(
        options,
        positive=model.classes[1],
        unit_length=model.unit_length,
        zero_based=model.zero_based,
        labels=model.classes,
        learnt=learnt,
        schema=model.schema,
        feature_offsets=None if offsets is None else FeatureOffsets(*offsets),
        columns=options.columns if model.schema is None else ColumnOptions(),  # a schema has them
        **kept,
    )
    return same, earlier


def _is_moved(typed: str, stored: str | None) -> bool:
    """Whether both are the same class of a file of the same name, which may be in another folder now."""
    files = file_of(typed), file_of(stored or "")
    return None not in files and Path(typed).name == Path(str(stored)).name


def _require_agreement(file: Path, options: TrainOptions, model: LinearModel, kept: dict[str, Any]) -> None:
    """Raise ConfigError for an option that is given and is not that of the model."""
    parameters = [name for name, value in options.given.items() if value is not None]
    if parameters or options.assignments:
        one = f"--{parameters[0]}" if parameters else f"--set {options.assignments[0]}"
        raise ConfigError(
            f"{one} with --continue: {file} keeps its own settings",
            f"leave it out, or train a new model without --continue; opauc-bench model show {shlex.quote(str(file))}",
        )
    given: dict[str, tuple[Any, Any]] = {
        "--learner": (options.learner, kept["learner"]),
        "--window": (options.window, kept["window"]),
        "--features": (options.n_features, kept["n_features"]),
        "--rows": (options.n_rows, kept["n_rows"]),
        "--positive": (_as_label(options.positive, model.classes[1]), model.classes[1]),
        **_columns_given(options, model),
        "--normalize": (options.unit_length or None, model.unit_length),
        "--zero-based": (options.zero_based or None, model.zero_based),
    }
    for option, (value, of_model) in given.items():
        if value is not None and value != of_model:
            raise _contradiction_error(file, _as_typed(option, value), _as_typed(option, of_model))
    if options.tune is not None and options.tune != kept["tune"]:
        raise _contradiction_error(file, *(("--tune", "--no-tune") if options.tune else ("--no-tune", "--tune")))


def _as_label(text: Label | None, of_model: Label) -> Label | None:
    """A label as it was typed, as a number if those of the model are numbers."""
    if isinstance(text, str) and isinstance(of_model, float):
        with contextlib.suppress(ValueError):
            return float(text)
    return text


def _columns_given(options: TrainOptions, model: LinearModel) -> dict[str, tuple[Any, Any]]:
    """The options of columns that are given, with those of the model; of svmlight text the source refuses them."""
    if model.schema is None:
        return {}
    given, schema = options.columns, model.schema
    dropped = given.drop if set(given.drop) != set(schema.dropped) else ()
    categorical = [name for name in given.categorical if name not in schema.categories]
    return {
        "--label": (given.label, schema.label),
        "--drop": (written_names(dropped) or None, written_names(schema.dropped) or None),
        "--categorical": (written_names(categorical) or None, None),
        "--missing": (given.missing, schema.missing),
        "--bits": (given.bits, schema.bits),
    }


def _as_typed(option: str, value: Any) -> str:
    if value is None or value is False:
        return f"no {option}"
    if value is True:
        return option
    return f"{option} {label_text(value) if isinstance(value, float) else value}"


def _contradiction_error(file: Path, typed: str, of_model: str) -> ConfigError:
    return ConfigError(
        f"{typed} with --continue: {file} was trained with {of_model}",
        f"leave {typed.split()[0]} out, or train a new model without --continue",
    )
