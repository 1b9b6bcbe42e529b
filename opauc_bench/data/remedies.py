"""What a user can do about rows and columns that cannot be used, in the words of the interface at hand."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from .faults import Fault
from .schema import written_names

__all__ = ["CONTINUE", "FRAME", "MODEL_FRAME", "SCORE", "TRAIN", "Remedies", "entry_remedies"]


@dataclass(frozen=True)
class Remedies:
    """What can be done about rows and columns that cannot be used; empty where there is nothing.

    Parameters
    ----------
    skip, fill, as_categories, drop : str
        Of rows that cannot be read, of missing values, of a column of numbers that has text, of columns: ``drop`` has
        ``{}`` in the place of their names, or no names.
    read_table : str
        How a table is read, where svmlight text was expected.
    read_svmlight : str
        The reverse.
    zero_index, large_index, no_label : str
        Of rows of svmlight text, see `Fault`.
    fill_note, drop_note : str
        As ``fill`` and ``drop``, within a sentence.
    absent_column : str
        Of a column with features of a schema that is given.
    other_name : str
        Of an option (``{}``) that names a column that is not there.
    before, between, after : str
        Text around the first four, and between two of them.
    """

    skip: str = ""
    fill: str = ""
    as_categories: str = ""
    drop: str = ""
    read_table: str = ""
    read_svmlight: str = ""
    zero_index: str = ""
    large_index: str = ""
    no_label: str = ""
    fill_note: str = ""
    drop_note: str = ""
    absent_column: str = "the file needs the columns of the model, or of the first file"
    other_name: str = ""
    before: str = ""
    between: str = "; "
    after: str = ""

    def of_row(self, fault: Fault, first_line: bool = False, *, n_features_given: bool = False) -> str:
        """What can be done about a row; ``first_line`` if it is the first one of svmlight text."""
        if fault is Fault.JSON:
            return "JSON is not read: make a csv, parquet, arrow or svmlight file of it"
        if fault is Fault.CSV and self.read_table:
            return f"{self.read_table} a table with a header line"
        if fault is Fault.LARGE_INDEX and n_features_given and self.large_index:
            return self.large_index
        if fault is Fault.LARGE_INDEX and not n_features_given and self.read_table:
            return "number the features anew, from 1 and without large gaps"
        if fault is Fault.NO_LABEL and self.no_label:
            return self.no_label
        if fault in (Fault.NO_LABEL, Fault.FORM) and first_line and self.read_table:
            return f"rows of svmlight text are a number, the label, and index:value; {self.read_table} a table"
        if fault is Fault.MISSING:
            return self._sentence(self.fill, self.skip)
        if fault is Fault.NOT_A_NUMBER:
            return self._sentence(self.skip, self.as_categories)
        return self._sentence(self.skip)

    def of_columns(self, columns: Iterable[str]) -> str:
        """How to leave columns out."""
        return self._sentence(self.drop.replace("{}", shlex.quote(written_names(columns))))

    def drop_in_note(self, columns: Iterable[str]) -> str:
        """How to leave columns out, within a sentence."""
        return self.drop_note.replace("{}", shlex.quote(written_names(columns)))

    def _sentence(self, *ways: str) -> str:
        given = [way for way in ways if way]
        return f"{self.before}{self.between.join(given)}{self.after}" if given else ""


TRAIN = Remedies(
    skip="--skip-bad-rows leaves such rows out",
    fill="--missing mean or --missing indicator",
    as_categories="--categorical COLUMN takes numbers and text as categories",
    drop="--drop {}",
    read_table="--label COLUMN reads",
    read_svmlight="leave --label out: the labels of svmlight rows come first",
    zero_index="--zero-based, if 0 is the first feature",
    large_index="--features with a larger number, or without it: features are counted as they come",
    fill_note="use --missing",
    drop_note="--drop {}",
    other_name="--{} accepts one of these names",
)
CONTINUE = Remedies(
    skip=TRAIN.skip, zero_index="add 1 to the indices of these rows: the first feature of the model is 1"
)
SCORE = Remedies(
    skip="--skip-bad-rows prints nan for such rows",
    no_label="put a 0 in front of each line, which stands for a label that is not known: sed 's/^/0 /' FILE",
)
FRAME = Remedies(
    fill="missing: mean or missing: indicator",
    as_categories="categorical: [COLUMN], which takes numbers and text as categories",
    drop="drop: [{}]",
    fill_note="set 'missing: mean' or 'missing: indicator' under 'source'",
    drop_note="'drop' under 'source'",
    other_name="'{}' accepts one of these names",
    between=", or ",
    after=", under source of its entry in catalogue",
)
MODEL_FRAME = Remedies(absent_column="the DataFrame needs the columns of the model")


def entry_remedies(catalogue: str | Path, have_origin: bool) -> Remedies:
    """What can be done about rows and columns of a dataset that has an entry in a catalogue.

    Parameters
    ----------
    catalogue : str or Path
        The file with its entry.
    have_origin : bool
        Whether its files are on this machine, so that they can be corrected.
    """
    place = f" under 'source' of the entry in {catalogue}"
    return Remedies(
        skip="set 'skip_bad_rows: true'",
        fill="set 'missing: mean' or 'missing: indicator'",
        as_categories="list the column as 'categorical'",
        drop="list the column under 'drop'",
        read_table="'csv' and 'label' under 'source' read",
        read_svmlight="list the file as 'svmlight' under 'source', without 'label'",
        fill_note="set 'missing: mean' or 'missing: indicator' under 'source'",
        drop_note="'drop' under 'source'",
        other_name=f"correct '{{}}'{place}",
        before=f"correct the file{'' if have_origin else ' at its source'}, or ",
        between=", or ",
        after=place,
    )
