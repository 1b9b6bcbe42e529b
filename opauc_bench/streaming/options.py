"""The options of ``opauc-bench train``."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ..data.feature_offsets import FeatureOffsets
from ..data.inputs import InputFormat
from ..data.remedies import CONTINUE, TRAIN
from ..data.schema import ColumnOptions, Schema
from .rows import Label, Source

__all__ = ["TrainOptions"]


@dataclass(frozen=True)
class TrainOptions:
    """The options of one training."""

    files: tuple[str, ...]  # read one after the other; - is standard input
    resume: Path | None  # a model to go on with; options that are given have to agree with it
    learner: str | None  # a name; by default "auto", for those that suit the rows
    tune: bool | None  # whether to compare settings, which is the default, or to train the one that is given
    given: dict[str, str | None]  # parameters of the learner as they were typed
    assignments: list[str]  # more of them, as name=value
    out: Path  # where the model goes
    overwrite: bool  # whether `out` may be there already
    n_features: int | None  # if known beforehand; larger indices are then refused
    n_rows: int | None  # if known beforehand
    positive: Label | None  # label of the positive class; by default the greater one
    unit_length: bool  # whether rows are divided by their length
    zero_based: bool  # whether feature 0 of the files is the first one
    window: int | None  # how many rows the AUC is taken over, by default 100,000
    calibration: str  # auto, isotonic, platt or none
    small: bool  # whether to leave out of the model what is needed to go on
    quiet: bool
    format: InputFormat | None = None  # of the files
    columns: ColumnOptions = field(default_factory=ColumnOptions)  # of tables
    skip_bad_rows: bool = False
    labels: tuple[Label, ...] = ()  # both, if they are known beforehand
    learnt: tuple[str, ...] = ()  # marks of files that the model has had, see `resume.mark_of`
    schema: Schema | None = None  # of the model that goes on
    feature_offsets: FeatureOffsets | None = None  # likewise, of svmlight files

    def open_source(self) -> Source:
        """Open the files."""
        return Source(
            self.files,
            self.columns,
            self.format,
            self.schema,
            self.n_features,
            self.zero_based,
            centred=not self.unit_length,  # the length of a row is that of its values as they are
            feature_offsets=self.feature_offsets,
            skip_bad_rows=self.skip_bad_rows,
            numeric_labels=not isinstance(self.labels[0], str) if self.labels else None,
            model=str(self.resume) if self.resume is not None and self.schema is None else None,
            remedies=TRAIN if self.resume is None else CONTINUE,
        )
