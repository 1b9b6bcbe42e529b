"""The sentences below a table: how to read its cells and marks, and which test gave them."""

from .table import ALPHA, ResultTable
from .text import rope_text

__all__ = ["brief_notes", "footnotes", "reading_note", "significance_note", "verdict_text"]


def footnotes(table: ResultTable) -> tuple[str, ...]:
    """All of them: how to read the table, those of the protocol and of columns, the test."""
    of_columns = (f"{column.title}: {note}" for column, note in table.column_notes)
    test = [significance_note(table)] if table.tallies else []
    return (reading_note(table), *table.protocol_notes, *of_columns, *test)


def reading_note(table: ResultTable, reference: str | None = None) -> str:
    """Explain the cells, marks and counts of a table; by default the reference column is named by its title."""
    sentences = [_about_values(table)]
    if table.tallies:
        of = ", of the AUC" if table.has_metrics else ""
        where = "rows" if table.runs == "trials" or table.has_repeated_datasets else "datasets"
        name = reference or table.reference_title
        if table.test == "bayes":
            sentences += [
                f"• / ≈ / ◦{of}: {name} is better / practically equivalent / worse, with a posterior probability above "
                f"{1 - ALPHA:g}; ?: undecided. After the mark, these probabilities in percent.",
                f"The counts are of the {where} on which both columns are complete and tested.",
            ]
        else:
            sentences += [
                f"• / ◦{of}: {name} is significantly better / worse.",
                f"Win/tie/loss counts the {where} on which both columns are complete and tested.",
            ]
    metrics = [section.metric for section in table.sections]
    sentences += [f"{metric.heading}: {metric.meaning}." for metric in metrics if metric.meaning]
    return " ".join(sentences)


def significance_note(table: ResultTable) -> str:
    """Name the test and its known error rates."""
    return _about_test(table) + "".join(f" {note}" for note in _about_same_rows(table))


def _about_same_rows(table: ResultTable) -> list[str]:
    if not table.same_rows or set(table.entries) <= set(table.limited):
        return []
    limited = []
    for column in table.columns:
        rows = [row for row in table.datasets if (row, column.key) in table.limited]
        if rows:
            limited.append(column.title + (f" on {', '.join(rows)}" if len(rows) < len(table.datasets) else ""))
    but = f", except those of {'; '.join(limited)}" if limited else ""
    return [
        f"The {table.runs} have the same rows in other orders{but}: a mark is about the order, and does not say "
        "whether a difference would be found on other rows."
    ]


def _about_test(table: ResultTable) -> str:
    factor = table.test_fraction / (1 - table.test_fraction)
    if table.test == "bayes":
        return (
            "Test: Bayesian correlated t-test (Corani and Benavoli, 2015). The posterior of the mean difference is "
            f"Student's t with J - 1 degrees of freedom and the variance factor 1/J + {factor:.4g} for J {table.runs}; "
            f"practically equivalent are differences within ±{rope_text(table.rope)} AUC."
        )
    if table.test == "corrected":
        text = (
            f"Test: corrected resampled t-test (Nadeau and Bengio, 2003) at the level {ALPHA}, two-sided, with "
            f"variance factor 1/J + {factor:.4g} and J - 1 degrees of freedom for J {table.runs}."
        )
        if _has_five_by_five_folds(table):
            text += (
                " It rejected a true null in 0.8% of the cases where the paper's uncorrected test did so in 27.8% (one "
                "simulation of two equal learners under five trials of 5-fold cross-validation)."
            )
        return text
    test = f"Test: two-sided paired t-test over the {table.runs} at the level {ALPHA}"
    if table.same_rows or _are_disjoint(table):
        return f"{test}."
    if _has_five_by_five_folds(table):
        return (
            f"{test}, as in the paper. The training sets of the folds overlap, so it rejects a true null far more "
            "often than that: in 27.8% of the cases in one simulation of two equal learners under five trials of "
            "5-fold cross-validation, and more in others."
        )
    return f"{test}. The training sets of the {table.runs} overlap, so it rejects a true null more often than that."


def _are_disjoint(table: ResultTable) -> bool:
    """Whether the training sets are, as those of a single 2-fold cross-validation."""
    return table.runs == "folds" and table.expected == 2 and table.test_fraction == 1 / 2


def _has_five_by_five_folds(table: ResultTable) -> bool:
    """Whether the protocol is that of the paper, for which error rates of the tests are known."""
    return table.runs == "folds" and table.expected == 25 and table.test_fraction == 1 / 5


def brief_notes(table: ResultTable) -> list[str]:
    """Explain a table's cells and marks in three lines of a terminal."""
    if not table.tallies:
        return [_about_values(table), "How to read this table: docs/report.md"]
    same_rows = _about_same_rows(table)
    if table.test == "bayes":
        return [
            _about_values(table),
            f"• / ≈ / ◦ / ?: {table.reference_title} better / equivalent (±{rope_text(table.rope)} AUC) / worse / "
            f"undecided, then the first three in % (Bayesian correlated t-test; a verdict needs over "
            f"{100 * (1 - ALPHA):g}).",
            *same_rows,
            "How to read this table: docs/statistics.md",
        ]
    has_rates = _has_five_by_five_folds(table)
    return [
        _about_values(table),
        *same_rows,
        f"• / ◦: {table.reference_title} significantly better / worse ({table.test} t-test, level {ALPHA}).",
        f"How to read this table{', and the error rates of the test' if has_rates else ''}: docs/report.md",
    ]


def verdict_text(table: ResultTable, verdict: str) -> str:
    """Say what a mark means, for screen readers and tooltips."""
    if verdict == "undecided":
        return verdict
    word = {"win": "better", "loss": "worse", "equivalent": "practically equivalent"}[verdict]
    return f"{table.columns[0].title} {'' if table.test == 'bayes' else 'significantly '}{word}"


def _about_values(table: ResultTable) -> str:
    entries = [entry for section in table.sections for entry in section.entries.values()]
    std = f" ± std ({'n - 1' if table.ddof else 'n'})" if any(entry.std is not None for entry in entries) else ""
    runs = "outer folds" if table.runs == "folds" else table.runs
    over = f"{table.expected} {runs if table.expected > 1 else runs.removesuffix('s')}"
    pending = next((entry for entry in entries if entry.status == "pending"), None)
    waiting = f"; … {pending.n}/{pending.expected}: {pending.n} are done" if pending else ""
    undefined = any(entry.status == "undefined" and entry.note is None for entry in entries)
    absent = "; –: not defined for this learner" if undefined else ""
    return f"Mean{std}{'' if table.has_metrics else ' of the test AUC'} over {over}{waiting}{absent}."
