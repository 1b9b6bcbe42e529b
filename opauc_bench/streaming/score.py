"""``opauc-bench score``: a score for each row of a file, in its order, and the AUC where the labels are known."""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from ..data.inputs import InputFormat, RowChunk
from ..data.remedies import SCORE
from ..errors import DataError, ResultsError
from ..sentences import label_text
from .allocator import keep_freed_memory
from .calibration import Calibration, Reliability
from .model import LinearModel, opened_for_writing, require_free
from .progress import Meter, shown_auc
from .rows import Source
from .samples import ClassSamples
from .show import reliability_lines

__all__ = ["score_file"]

_KEPT = 2_000_000  # scores of a class


def score_file(
    model_file: Path,
    files: tuple[str, ...],
    out: Path | None,
    overwrite: bool,
    quiet: bool,
    probability: bool = False,
    format: InputFormat | None = None,
    skip_bad_rows: bool = False,
) -> None:
    """Print the scores of the rows of files, one a line, and the AUC on standard error.

    Parameters
    ----------
    model_file : Path
        What ``opauc-bench train`` has written.
    files : tuple of str
        Data files, read one after the other; ``-`` is standard input. Tables need the columns of the model.
    out : Path, optional
        Where the scores go, instead of standard output.
    overwrite : bool
        Whether ``out`` may be there already.
    quiet : bool
        Print scores only.
    probability : bool, default=False
        Print probabilities of the positive class instead, and how reliable they are.
    format : str, optional
        Of the files.
    skip_bad_rows : bool, default=False
        Print nan for rows that cannot be read.

    Raises
    ------
    DataError
        If the model or the file cannot be read, or the model has no probabilities.
    ResultsError
        If ``out`` cannot be written, or standard output is closed.
    """
    keep_freed_memory()
    model = LinearModel.load(model_file)
    if out is not None:
        require_free(out, overwrite, [model_file, *files])
    calibration = model.calibration if probability else None
    if probability and calibration is None:
        raise DataError(
            f"{model_file}: this model has no probabilities: it was trained without calibration, or on too few rows",
            "opauc-bench train ... --calibration auto, on rows with at least 10 of each class in the second half",
        )
    tally = _Tally(model, calibration)
    source = Source(
        files,
        format=format,
        schema=model.schema,
        zero_based=model.zero_based,
        learnt=False,
        skip_bad_rows=skip_bad_rows,
        numeric_labels=not isinstance(model.classes[0], str),
        remedies=SCORE,
        model=str(model_file) if model.schema is None else None,
    )
    with contextlib.closing(source), _opened(out) as sink:
        # On standard output the scores themselves show how far it is.
        meter = Meter(source, quiet or (out is None and sys.stdout.isatty()))
        try:
            for chunk in source.chunks():
                scores, n_unknown = model.scores(chunk.X)
                printed = scores if calibration is None else calibration.probability(scores)
                if chunk.bad is not None:
                    printed = np.where(chunk.bad, np.nan, printed)
                sink.write(("\n".join(map(repr, printed.tolist())) + "\n").encode())
                sink.flush()
                tally.add(chunk, scores, printed, n_unknown)
                meter.tick(tally.n_rows)
        finally:
            meter.clear()
    if not quiet:
        for line in [*tally.lines(source.name), *source.remarks()]:
            print(line, file=sys.stderr)


@contextlib.contextmanager
def _opened(out: Path | None) -> Iterator[BinaryIO]:
    if out is None:
        if sys.__stdout__ is None:  # the command line has put /dev/null in its place
            raise ResultsError("standard output, where the scores go, is closed", "--out FILE")
        sys.stdout.flush()
        yield sys.stdout.buffer
        return
    with opened_for_writing(out) as file:
        yield file


@dataclass
class _Unusable:
    """Rows for which there is no AUC: their number, and what the first one has."""

    n: int = 0
    first: str = ""

    def add(self, rows: np.ndarray, shown: Callable[[int], str]) -> None:
        if rows.any() and not self.n:
            self.first = shown(int(np.argmax(rows)))
        self.n += int(np.count_nonzero(rows))


class _Tally:
    """The summary of the rows that were scored."""

    def __init__(self, model: LinearModel, calibration: Calibration | None):
        self._model = model
        self._reliability = None
        if calibration is not None:
            self._reliability = Reliability(calibration.edges, calibration.n_positive / calibration.n_rows)
        self._samples = ClassSamples(_KEPT)
        self._other, self._infinite = _Unusable(), _Unusable()
        self._n_unknown = self._n_bad = self._n_with_labels = 0
        self.n_rows = 0

    def add(self, chunk: RowChunk, scores: np.ndarray, printed: np.ndarray, n_unknown: int) -> None:
        """Add a chunk, its scores, what was printed, and how many rows have features unknown to the model."""
        self._n_unknown += n_unknown
        self.n_rows += len(scores)
        good = np.ones(len(scores), dtype=bool) if chunk.bad is None else ~chunk.bad
        n_good = int(np.count_nonzero(good))
        self._n_bad += len(scores) - n_good
        if chunk.labels is None:
            return
        good &= ~self._without_label(chunk)
        self._n_with_labels += int(np.count_nonzero(good))
        negative, positive = (np.isin(chunk.labels, [label]) for label in self._model.classes)
        known = (negative | positive) & good
        self._other.add(good & ~known, lambda row: f"{self._label_at(chunk, row)} at {chunk.place(row)}")
        self._infinite.add(known & ~np.isfinite(scores), lambda row: f"{scores[row]} at {chunk.place(row)}")
        self._samples.add(scores[known], positive[known])
        if self._reliability is not None:
            self._reliability.add(scores[known], printed[known], positive[known])

    def _without_label(self, chunk: RowChunk) -> np.ndarray:
        """Which rows have an empty cell in place of a label."""
        assert chunk.labels is not None
        absent = np.isnan(chunk.labels) if chunk.labels.dtype.kind == "f" else chunk.labels == ""
        for row in np.flatnonzero(absent).tolist():  # NaN may be text as well
            absent[row] = self._label_at(chunk, row) == "none"
        return absent

    def _label_at(self, chunk: RowChunk, row: int) -> str:
        assert chunk.labels is not None
        label = chunk.labels[row].item()
        if isinstance(label, float) and not math.isfinite(label):
            schema = self._model.schema
            label = chunk.text(row, schema.label) if chunk.text and schema and schema.label else ""
        return "none" if label == "" else label_text(label)

    def lines(self, name: str) -> list[str]:
        """Sentences for the user."""
        negative, positive = map(label_text, self._model.classes)
        n_scored = self.n_rows - self._n_bad
        lines = [f"{n_scored:,} row{'s' if n_scored != 1 else ''} of {name} scored"]
        if not self._model.complete:
            lines.append(f"note: the training of this model was interrupted after {self._model.n_rows:,} rows")
        if self._n_unknown:
            last = len(self._model.weights) - self._model.zero_based
            lines.append(
                f"note: {self._n_unknown:,} rows have features above {last:,}, which the model has "
                "not seen: they are ignored"
            )
        if self._other.n:
            rows = "1 row has a label" if self._other.n == 1 else f"{self._other.n:,} rows have labels"
            other = f"{rows} other than {negative} and {positive}"
            return [*lines, f"no AUC: {other} (first: {self._other.first})"]
        if self._infinite.n:
            return [*lines, f"no AUC: {self._infinite.n:,} scores are not finite (first: {self._infinite.first})"]
        if not self._n_with_labels:
            return lines
        auc = self._samples.auc()
        if auc is None:
            lines.append(f"no AUC: not both labels, {negative} and {positive}, occur")
        elif self._samples.complete:
            n = self._n_with_labels
            which = "all rows" if n == self.n_rows else f"the {n:,} rows with {'labels' if n < n_scored else 'scores'}"
            lines.append(f"AUC {shown_auc(auc)}, exact over {which}")
        else:
            n, p = self._samples.sizes
            lines.append(f"AUC {shown_auc(auc)}, exact over a random sample of {p:,} positive and {n:,} negative rows")
        if auc is not None and self._reliability is not None:
            lines += reliability_lines(self._reliability.to_json())
        return lines
