"""Notes on single cells and columns of a table: which folds failed, what was not tested, how it was computed."""

from collections import Counter
from collections.abc import Iterable, Sequence

from ..errors import printable

__all__ = ["NOT_STARTED", "STATUS_WORDS", "failure_note", "origin_notes", "other_rows_note"]

# Of cells whose tasks were not started.
NOT_STARTED = ("unavailable", "left_out", "too_large")
STATUS_WORDS = {
    "timeout": "time limit reached",
    "out_of_memory": "memory limit reached",
    "unavailable": "data unavailable",
    "left_out": "left out (the share of positives is lower already, or too few are left)",
    "too_large": "not started (too little memory)",
    "diverged": "every setting diverged",
}
_MESSAGE_LENGTH = 160


def failure_note(
    statuses: dict[str, int], finished: int, expected: int, messages: tuple[str, ...], runs: str = "folds"
) -> str:
    """State how many folds of a cell failed and how, with the first message in alphabetical order."""
    counts = [(name, count) for name, count in sorted(statuses.items()) if count]
    failures = " and ".join(f"{STATUS_WORDS.get(name, name)} in {count}" for name, count in counts)
    text = f"{failures} of {expected} {runs}, {finished} finished"
    distinct = sorted({_one_line(message) for message in messages})
    text += f": {distinct[0]}" if distinct else ""
    return text + (f" (and {len(distinct) - 1} more)" if len(distinct) > 1 else "")


def other_rows_note(
    tested_rows: Sequence[tuple[int, int | None]], of_reference: Sequence[tuple[int, int | None]]
) -> str:
    """State that a cell has not been tested, because its values are of other rows than those of the reference.

    Each fold has the number of rows before the first test row, and the number of test rows.
    """
    own, other = (sorted({n or 0 for _, n in found}) for found in (tested_rows, of_reference))
    if own == other:
        own_first, other_first = (min(first for first, _ in found) + 1 for found in (tested_rows, of_reference))
        return f"not tested: test rows from row {own_first:,} on, those of the reference from row {other_first:,} on"
    return f"not tested: {_span(own)} test rows, those of the reference are {_span(other)}"


def _span(numbers: Sequence[int]) -> str:
    return f"{numbers[0]:,}" if len(numbers) == 1 else f"{numbers[0]:,} to {numbers[-1]:,}"


def origin_notes(notes: Iterable[str]) -> list[str]:
    """Return the notes of records on how a column was computed, with the number of folds if they differ."""
    counts = Counter(notes)
    several = len(counts) > 1
    return [f"{_one_line(note)}{f' ({counts[note]} folds)' if several else ''}." for note in sorted(counts)]


def _one_line(message: str) -> str:
    text = printable(" ".join(message.split()))
    return text if len(text) <= _MESSAGE_LENGTH else text[: _MESSAGE_LENGTH - 1] + "…"
