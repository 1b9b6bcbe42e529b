"""Write docs/results.md and docs/does_it_pay.md from their templates and the committed records, so that their numbers
are always up to date.

    python scripts/write_results_page.py            writes both pages and their figures
    python scripts/write_results_page.py --check    compares only; exit code 1 if something is out of date

In docs/results.md.in, ``{{name argument ...}}`` is replaced by a number; docs/does_it_pay.md.in also has the names of
`study_page.py`:

    mean EXP ROW COLUMN         mean, as tables print it
    cell EXP ROW COLUMN         the same with the mark of the test
    cell_std EXP ROW COLUMN     mean ± std
    published EXP ROW COLUMN    the printed mean of the same cell; published_std with its std
    diff EXP ROW COLUMN         mean minus the printed one
    stds EXP ROW COLUMN         mean minus the printed one, in printed stds
    behind EXP ROW COLUMN       mean of the reference minus that of the column
    count EXP WHAT              a count of the comparison: compared, within_one, within_two, explained, open, verdicts,
                                agreeing; or of the table: datasets (complete in every column)
    wtl EXP COLUMN TEST         win/tie/loss of the reference against a column, by the test paired or corrected
    distant EXP                 a table of all cells further than one printed std, with their notes
    cpu EXP [ROW ...]           CPU minutes of the records, of some datasets or of all
    timed FIGURE ROW COLUMN     milliseconds per pass
    by_rank ROW TAU             mean AUC in figure5_2013
    sketch_error ROW COLUMN TAU    relative error of the positive class in figure4
    partition_ranks DATASET     the partitions of the digits that are nearest to print, in the six columns of all
    partition_columns DATASET   all eleven columns of some partitions
    partition_error DATASET     reduced protocol against the full one, in printed stds
    partition_count DATASET     how many of them have all six within one printed std
    partition_gap DATASET       range over the partitions of batch LS-SVM minus online Uni-Log

EXP is the name of a config with a folder under results/. A metric other than AUC is named as ROW:METRIC; a row with
blanks is quoted: "imdb @ 0.1".
"""

from __future__ import annotations

import argparse
import csv
import functools
import io
import re
import shlex
import sys
from pathlib import Path

from opauc_bench.commands.figures import figures_of
from opauc_bench.commands.recorded import Recorded
from opauc_bench.commands.session import Session
from opauc_bench.commands.tables import build_report
from opauc_bench.data import Sources
from opauc_bench.report.compare import ComparedCell, Comparison
from opauc_bench.report.figure_text import figure_to_csv
from opauc_bench.report.metrics import AUC, Metric
from opauc_bench.report.table import Entry, ResultTable

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

import digit_partitions  # noqa: E402
import draw_step_sizes  # noqa: E402
import study_page  # noqa: E402

PAGES = ("results", "does_it_pay")
MARKS = {"win": " •", "loss": " ◦"}


@functools.cache
def recorded(experiment: str) -> Recorded:
    folder = ROOT / "results" / experiment
    config = ROOT / "configs" / f"{experiment}.yaml"
    return Recorded.read(Session.open(config, out=folder, sources=Sources(cache=folder / "none")))


@functools.cache
def report(experiment: str, test: str | None = None) -> tuple[ResultTable, Comparison | None]:
    return build_report(recorded(experiment), test)


def entry(experiment: str, row: str, column: str) -> tuple[Metric, Entry]:
    dataset, _, name = row.partition(":")
    for section in report(experiment)[0].sections:
        if section.metric.key == (name or "auc"):
            found = section.entries[dataset, column]
            if found.mean is None:
                raise SystemExit(f"{experiment} {row} {column} has no mean: {found.status}")
            return section.metric, found
    raise SystemExit(f"{experiment} has no metric {name}")


def compared(experiment: str, row: str, column: str) -> ComparedCell:
    dataset, _, name = row.partition(":")
    for cell in report(experiment)[1].cells:
        if (cell.dataset, cell.column.key, cell.metric.key) == (dataset, column, name or "auc"):
            return cell
    raise SystemExit(f"{experiment} {row} {column} is not in the comparison")


def mean(experiment: str, row: str, column: str) -> str:
    metric, found = entry(experiment, row, column)
    return metric.text(found.mean)


def cell(experiment: str, row: str, column: str) -> str:
    metric, found = entry(experiment, row, column)
    return metric.text(found.mean) + MARKS.get(found.verdict, "")


def cell_std(experiment: str, row: str, column: str) -> str:
    metric, found = entry(experiment, row, column)
    return f"{metric.text(found.mean)} ± {metric.text(found.std)}"


def published(experiment: str, row: str, column: str) -> str:
    found = compared(experiment, row, column)
    return found.metric.text(found.published.mean)


def published_std(experiment: str, row: str, column: str) -> str:
    found = compared(experiment, row, column)
    return f"{found.metric.text(found.published.mean)} ± {found.metric.text(found.published.std)}"


def diff(experiment: str, row: str, column: str) -> str:
    found = compared(experiment, row, column)
    return found.metric.signed(found.difference)


def stds(experiment: str, row: str, column: str) -> str:
    return f"{compared(experiment, row, column).deviation:+.1f}"


def behind(experiment: str, row: str, column: str) -> str:
    metric, found = entry(experiment, row, column)
    _, reference = entry(experiment, row, report(experiment)[0].reference)
    return metric.text(reference.mean - found.mean)


def count(experiment: str, what: str) -> str:
    table, comparison = report(experiment)
    if what == "datasets":
        return str(sum(all(entry.status == "ok" for entry in entries) for _, entries in table.rows()))
    return str(getattr(comparison.summary(), what))


def wtl(experiment: str, column: str, test: str) -> str:
    tally = report(experiment, test)[0].tallies[column]
    return f"{tally.win}/{tally.tie}/{tally.loss}"


def distant(experiment: str) -> str:
    lines = ["| cell | ours | published | stds | what is known |", "| --- | --- | --- | --- | --- |"]
    for found in report(experiment)[1].distant():
        notes = [note.text for note in found.notes if note.kind != "mark" and note.expects(found.difference)]
        known = " ".join(" ".join(notes).split()) or "nothing"
        metric, ours, print_ = found.metric, found.ours, found.published
        name = found.dataset if metric.key == "auc" else f"{found.dataset}, {metric.heading.lower()}"
        lines.append(
            f"| {name}, {found.column.title} | {metric.text(ours.mean)} ± {metric.text(ours.std)} | "
            f"{metric.text(print_.mean)} ± {metric.text(print_.std)} | {found.deviation:+.1f} | "
            f"{'' if found.standing == 'explained' else 'Open. '}{known if notes else ''} |".replace("  ", " ")
        )
    return "\n".join(lines)


def cpu(experiment: str, *rows: str) -> str:
    total = 0.0
    for task, record in recorded(experiment).pairs:
        if not rows or task.row in rows:
            timing = record.timing
            # A task that diverged has no time of its parts.
            total += timing.wall_seconds if timing.selection_cpu_seconds is None else timing.cpu_seconds
    return f"{total / 60:,.0f}"


@functools.cache
def drawn(figure: str) -> list[dict[str, str]]:
    """The data of a figure."""
    (text,) = [figure_to_csv(found) for found in figures_of(recorded(figure)) if found.spec.name == figure]
    return list(csv.DictReader(io.StringIO(text)))


def plotted(figure: str, **where: str) -> dict[str, str]:
    """One row of the data of a figure."""
    for row in drawn(figure):
        if where.items() <= row.items():
            return row
    raise SystemExit(f"{figure} has no point with {where}")


def timed(figure: str, dataset: str, column: str) -> str:
    """Mean CPU time of a pass, in milliseconds."""
    milliseconds = 1000 * float(plotted(figure, dataset=dataset, column=column)["seconds_mean"])
    return f"{milliseconds:.0f}" if milliseconds >= 10 else f"{milliseconds:.2g}"


def by_rank(dataset: str, tau: str) -> str:
    """Mean AUC of OPAUC_r with a sketch of ``tau`` columns."""
    return AUC.text(float(plotted("figure5_2013", dataset=dataset, tau=f"{float(tau)}")["auc_mean"]))


def sketch_error(dataset: str, column: str, tau: str) -> str:
    """Relative error of the second moments of the positive class."""
    row = plotted("figure4", dataset=dataset, column=column, tau=f"{float(tau)}")
    return f"{float(row['positive_error_mean']):.2f}"


def partition_ranks(dataset: str) -> str:
    return digit_partitions.ranks_table(dataset)


def recorded_columns(dataset: str) -> dict[str, float | None]:
    """The means of Tables 2 and 3 for a dataset as the catalogue has it, by column."""
    entries = {**report("table2")[0].entries, **report("table3")[0].entries}
    return {column: found.mean for (row, column), found in entries.items() if row == dataset}


def partition_error(dataset: str) -> str:
    """Largest difference of the reduced protocol to the full one in the catalogue's partition, in printed stds."""
    cells, full = digit_partitions.printed(dataset), recorded_columns(dataset)
    own = digit_partitions.in_catalogue(dataset)
    reduced = next(row for row in digit_partitions.ranked(dataset) if row["digits"] == own)
    pairs = ((column, reduced[column], full[column]) for column in digit_partitions.trainers(dataset))
    return f"{max(abs(a - b) / cells[column].std for column, a, b in pairs if None not in (a, b)):.1f}"


def partition_count(dataset: str) -> str:
    """How many partitions have every column of the scan within one printed std."""
    cells = digit_partitions.printed(dataset)
    columns, rows = digit_partitions.trainers(dataset), digit_partitions.ranked(dataset)
    return str(
        sum(all(row[c] is not None and abs(row[c] - cells[c].mean) <= cells[c].std for c in columns) for row in rows)
    )


def partition_gap(dataset: str) -> str:
    gaps = [row["ls_svm"] - row["uni_log"] for row in digit_partitions.ranked(dataset)]
    return f"{AUC.signed(min(gaps))} to {AUC.signed(max(gaps))}"


def partition_columns(dataset: str) -> str:
    """A row for print, for the catalogue's partition in the records, and for each partition of nearest.csv.

    A dash stands for what has not been computed or has overflowed. The distance counts the columns that every row has.
    """
    cells, own = digit_partitions.printed(dataset), recorded_columns(dataset)
    catalogue = digit_partitions.in_catalogue(dataset)
    rows = {f"{' '.join(catalogue)} (catalogue)": own} if own else {}
    rows |= {" ".join(digits): means for digits, means in digit_partitions.kept(dataset).items()}
    lines = [f"| digits | {' | '.join(digit_partitions.TITLES[column] for column in cells)} | distance |"]
    lines.append("| --- " * (len(cells) + 2) + "|")
    lines.append(f"| printed | {' | '.join(AUC.text(cell.mean) for cell in cells.values())} | |")
    shared = [column for column in cells if all(means.get(column) is not None for means in rows.values())]
    for title, means in rows.items():
        texts = ["–" if means.get(column) is None else AUC.text(means[column]) for column in cells]
        stds = [(means[column] - cells[column].mean) / cells[column].std for column in shared]
        lines.append(f"| {title} | {' | '.join(texts)} | {sum(std**2 for std in stds):.1f} |")
    return "\n".join(lines)


OF_TABLES = (mean, cell, cell_std, published, published_std, diff, stds, behind, count, wtl, distant, cpu)
OF_FIGURES = (timed, by_rank, sketch_error)
OF_PARTITIONS = (partition_ranks, partition_columns, partition_error, partition_count, partition_gap)
NAMES = {f.__name__: f for f in (*OF_TABLES, *OF_FIGURES, *OF_PARTITIONS)} | study_page.TABLES


def page(name: str) -> str:
    """Return a page, from its template and the records."""
    template = ROOT / f"docs/{name}.md.in"

    def figure(match: re.Match) -> str:
        name, *arguments = shlex.split(match[1])
        if name not in NAMES:
            raise SystemExit(f"{template.name}: unknown name {name!r}; known: {', '.join(NAMES)}")
        return NAMES[name](*arguments)

    text = re.sub(r"\{\{([^{}]+)\}\}", figure, template.read_text(encoding="utf-8"))
    return f"<!-- Written by scripts/write_results_page.py from {template.name} and results/. -->\n\n{text}"


def outdated() -> list[str]:
    """Files that are not what the records give."""
    files = {name: ROOT / f"docs/{name}.md" for name in PAGES}
    pages = [file.name for name, file in files.items() if file.read_text(encoding="utf-8") != page(name)]
    drawings = ["step_sizes.png"] if draw_step_sizes.is_outdated() else []
    return [*pages, *study_page.outdated_figures(), *drawings]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare only")
    if parser.parse_args().check:
        found = outdated()
        print(f"out of date, write again: {', '.join(found)}" if found else "the pages agree with the records")
        return 1 if found else 0
    for name in PAGES:
        (ROOT / f"docs/{name}.md").write_text(page(name), encoding="utf-8")
    study_page.write_figures()
    if draw_step_sizes.is_outdated():
        draw_step_sizes.write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
