"""The sentences below a table: why a cell has no number, how to read the marks, which test gave them."""

from collections import Counter
from collections.abc import Iterable

__all__ = ["about_test", "failure_note", "origin_notes", "reading_note"]

_STATUS_WORDS = {
    "timeout": "time limit reached",
    "out_of_memory": "memory limit reached",
    "unavailable": "data unavailable",
    "too_large": "not started for want of memory",
    "diverged": "every setting diverged",
}
_MESSAGE_LENGTH = 160


def failure_note(
    statuses: dict[str, int], finished: int, expected: int, messages: tuple[str, ...], runs: str = "folds"
) -> str:
    """Tell which folds of a cell failed and how, with the first message in alphabetical order."""
    counts = [(name, count) for name, count in sorted(statuses.items()) if count]
    said = " and ".join(f"{_STATUS_WORDS.get(name, name)} in {count}" for name, count in counts)
    text = f"{said} of {expected} {runs}, {finished} finished"
    distinct = sorted({_one_line(message) for message in messages})
    if distinct:
        text += f": {distinct[0]}"
    return text + (f" (and {len(distinct) - 1} more)" if len(distinct) > 1 else "")


def origin_notes(heading: str, notes: Iterable[str]) -> list[str]:
    """Tell what the records of a column say about how they were computed, counting folds if they differ."""
    counts = Counter(notes)
    several = len(counts) > 1
    return [f"{heading}: {_one_line(note)}{f' ({counts[note]} folds)' if several else ''}." for note in sorted(counts)]


def reading_note(reference: str | None, ddof: int = 1, runs: str = "folds") -> str:
    """Tell how to read a table whose reference column is headed `reference`; None where there is no other column."""
    better = f"{reference} is significantly better / worse. Win/tie/loss counts the"
    if runs == "trials":
        marks = f" • / ◦, of the AUC: {better} rows on which both columns are complete." if reference else ""
        return (
            f"Mean ± std ({'n - 1' if ddof else 'n'}) over all trials; a cell such as … 3/10 still waits for trials."
            f"{marks} Sparse ratio: share of weights that are not 0. Run time: CPU seconds of one pass over the "
            "training rows with one setting."
        )
    marks = f" • / ◦: {better} datasets on which both columns are complete." if reference else ""
    return (
        f"Mean ± std (n - 1) of the test AUC over all outer folds; a cell such as … 12/25 still waits for folds.{marks}"
    )


def about_test(test: str, alpha: float, test_fraction: float, runs: str = "folds") -> str:
    """Name the test, what is known about its errors, and how to get the other one."""
    if runs == "trials":
        return _about_test_over_trials(test, alpha, test_fraction)
    if test == "paired":
        return (
            f"Test: two-sided paired t-test over the folds at the level {alpha}, as in the paper. The "
            "training sets of the folds overlap, so it rejects a true null far more often than that: in "
            "27.8% of the cases in one simulation of two equal learners under five trials of 5-fold "
            "cross-validation, and more in others. With --test corrected the table has the corrected test."
        )
    return (
        f"Test: corrected resampled t-test (Nadeau and Bengio, 2003) at the level {alpha}, two-sided, with "
        f"variance factor 1/J + {test_fraction / (1 - test_fraction):.4g} and J - 1 degrees of freedom for J "
        "folds. It rejected a true null in 0.8% of the cases where the paper's uncorrected test did so in "
        "27.8% (one simulation of two equal learners under five trials of 5-fold cross-validation). With "
        "--test paired the table has the uncorrected test."
    )


def _about_test_over_trials(test: str, alpha: float, test_fraction: float) -> str:
    if test == "paired":
        return (
            f"Test: two-sided paired t-test over the trials at the level {alpha}. The training sets of the trials "
            "overlap, so it rejects a true null more often than that. With --test corrected the table has the "
            "corrected test."
        )
    return (
        f"Test: corrected resampled t-test (Nadeau and Bengio, 2003) at the level {alpha}, two-sided, with variance "
        f"factor 1/J + {test_fraction / (1 - test_fraction):.4g} and J - 1 degrees of freedom for J trials. With "
        "--test paired the table has the uncorrected test."
    )


def _one_line(message: str) -> str:
    text = "".join(char if char.isprintable() else "?" for char in " ".join(message.split()))
    return text if len(text) <= _MESSAGE_LENGTH else text[: _MESSAGE_LENGTH - 1] + "…"
