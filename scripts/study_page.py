"""Numbers, tables and figures of docs/does_it_pay.md, from the records of the study.

`write_results_page.py` calls the functions under `TABLES` for the template; its arguments of the same name are

    EXP         a config with a folder under results/
    REFERENCE   the column that others are compared with
    WHERE       rows of the table: all (all training positives), thinned, every, or a share such as 1%
    COLUMN      one column or several; auc stands for the AUC learners

    answers EXP REFERENCE COLUMN ...        per share, in how many rows each column is better than the reference
    better EXP REFERENCE WHERE COLUMN ...   rows in which any of the columns is better, such as "2 of 9"
    most EXP REFERENCE WHERE COLUMN ...     the rows in which the column with most of them is better
    equivalent EXP REFERENCE WHERE COLUMN   the same for rows in which the column is equivalent; worse, undecided too
    differences EXP REFERENCE               a table of all rows: differences of the mean AUC, in thousandths, with marks
    summary EXP REFERENCE WHERE             a table of the columns: mean difference, verdicts, tests, CPU time
    difference EXP REFERENCE ROW COLUMN     one difference, in thousandths
    mean_difference EXP REFERENCE WHERE COLUMN  mean over the rows, in thousandths; median_difference the median
    loss EXP REFERENCE WHERE COLUMN         the largest loss of a column, in thousandths
    n_rows EXP WHERE                        rows that are complete in every column
    cpu_ratio EXP REFERENCE WHERE COLUMN    CPU time of a column, as a multiple of that of the reference
    cpu_totals EXP                          CPU seconds of each column, on the rows that are complete in every column
    edges EXP                               a table of the axes whose ends are selected
    kendall EXP EXP                         Kendall's tau of two orders of the columns by mean AUC, on the rows of both
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import kendalltau

import opauc_bench
from opauc_bench.evaluation.bayes import Posterior, bayesian_signed_rank_test, bayesian_t_test
from opauc_bench.report.style import MARKS
from opauc_bench.report.text import auc_text

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs/images"
ROPE, TEST_FRACTION = 0.005, 1 / 5
ALL = "all"  # training positives
# A setting at the end of an axis that is better by less than this is on a plateau.
PLATEAU = 0.0005
AUC_LEARNERS = ("rank_svm_l2", "opauc", "oam_seq", "oam_gra", "ada_oam", "pair_sgd", "ftrl_auc", "opauc_rff")
OPPOSITE = {"win": "loss", "loss": "win", "equivalent": "equivalent", "undecided": "undecided"}


@functools.cache
def manifest(experiment: str) -> dict:
    return json.loads((ROOT / "results" / experiment / "manifest.json").read_text(encoding="utf-8"))


@functools.cache
def folds(experiment: str) -> pd.DataFrame:
    """A row per fold of the complete cells, in the order of the config."""
    frame = opauc_bench.load_results(ROOT / "results" / experiment)
    n_folds = len(frame[["trial", "fold"]].drop_duplicates())
    frame = frame[frame["status"] == "ok"]
    complete = frame.groupby(["row", "learner"])["auc"].transform("size") == n_folds
    frame = frame[complete].assign(cpu=frame["fit_seconds"] + frame["selection_seconds"])
    order = {name: place for place, name in enumerate(manifest(experiment)["experiment"]["datasets"])}
    return frame.sort_values("dataset", key=lambda names: names.map(order), kind="stable")


@functools.cache
def wide(experiment: str, value: str = "auc") -> pd.DataFrame:
    """Mean over the folds: a row per row of the table, a column per learner."""
    return folds(experiment).pivot_table(index="row", columns="learner", values=value, sort=False).astype(float)


def titles(experiment: str) -> dict[str, str]:
    frame = folds(experiment).drop_duplicates("learner")
    return dict(zip(frame["learner"], frame["title"].str.replace("_", "\\_")))


def share_of(row: str) -> str:
    return row.partition(" @ ")[2] or ALL


def rows_where(experiment: str, where: str) -> list[str]:
    rows = list(wide(experiment).index)
    if where == "every":
        return rows
    if where == "thinned":
        return [row for row in rows if share_of(row) != ALL]
    return [row for row in rows if share_of(row) == where]


@functools.cache
def by_fold(experiment: str) -> pd.DataFrame:
    """AUC: a row per row of the table, trial and fold, a column per learner."""
    pivot = folds(experiment).pivot(index=["row", "trial", "fold"], columns="learner", values="auc")
    return pivot.astype(float)


@functools.cache
def posterior(experiment: str, reference: str, row: str, column: str) -> Posterior | None:
    """Test of the reference against a column; None where one of the two is not complete."""
    pair = by_fold(experiment).loc[row, [reference, column]]
    if pair.isna().any(axis=None):
        return None
    return bayesian_t_test(pair[reference], pair[column], TEST_FRACTION, ROPE)


def verdicts(experiment: str, reference: str, rows: Sequence[str], column: str) -> list[str]:
    """Verdicts on a column, from its side, in the rows that have both columns."""
    found = (posterior(experiment, reference, row, column) for row in rows)
    return [OPPOSITE[each.verdict()] for each in found if each is not None]


def named_columns(experiment: str, names: Sequence[str]) -> list[str]:
    present = list(wide(experiment).columns)
    if list(names) == ["auc"]:
        return [column for column in AUC_LEARNERS if column in present]
    if absent := set(names).difference(present):
        raise SystemExit(f"{experiment} has no column {', '.join(sorted(absent))}; it has {', '.join(present)}")
    return list(names)


def _thousandths(difference: float) -> str:
    return f"{1000 * difference:+.1f}".replace("-0.0", "+0.0")


def _markdown(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    ruled = [list(header), ["---"] * len(header), *map(list, lines)]
    return "\n".join("| " + " | ".join(line) + " |" for line in ruled)


def answers(experiment: str, reference: str, *names: str) -> str:
    named, lines = titles(experiment), []
    columns = named_columns(experiment, names)
    for share in dict.fromkeys(map(share_of, rows_where(experiment, "every"))):
        rows = rows_where(experiment, share)
        found = [verdicts(experiment, reference, rows, column) for column in columns]
        lines.append([share.replace("%", " %"), *(f"{each.count('win')} of {len(each)}" for each in found)])
    return _markdown(["training positives", *(named[column] for column in columns)], lines)


def better(experiment: str, reference: str, where: str, *names: str) -> str:
    columns = named_columns(experiment, names)
    tested = [
        [name for column in columns for name in verdicts(experiment, reference, [row], column)]
        for row in rows_where(experiment, where)
    ]
    return f"{sum('win' in found for found in tested)} of {sum(map(bool, tested))}"


def most(experiment: str, reference: str, where: str, *names: str) -> str:
    rows = rows_where(experiment, where)
    found = {column: verdicts(experiment, reference, rows, column) for column in named_columns(experiment, names)}
    column = max(found, key=lambda name: found[name].count("win") / len(found[name]))
    return f"{found[column].count('win')} of {len(found[column])} rows ({titles(experiment)[column]})"


def _counted(name: str, experiment: str, reference: str, where: str, column: str) -> str:
    found = verdicts(experiment, reference, rows_where(experiment, where), column)
    return f"{found.count(name)} of {len(found)}"


def equivalent(experiment: str, reference: str, where: str, column: str) -> str:
    return _counted("equivalent", experiment, reference, where, column)


def worse(experiment: str, reference: str, where: str, column: str) -> str:
    return _counted("loss", experiment, reference, where, column)


def undecided(experiment: str, reference: str, where: str, column: str) -> str:
    return _counted("undecided", experiment, reference, where, column)


def differences(experiment: str, reference: str) -> str:
    table, named = wide(experiment), titles(experiment)
    others = [column for column in table.columns if column != reference]
    lines = []
    for row in table.index[table[reference].notna()]:
        line = [row, auc_text(table.loc[row, reference])]
        for column in others:
            found = posterior(experiment, reference, row, column)
            if found is None:
                line.append("–")
                continue
            gain = _thousandths(table.loc[row, column] - table.loc[row, reference])
            line.append(f"{gain} {MARKS[found.verdict()]}")
        lines.append(line)
    return _markdown(["", f"{named[reference]}, AUC", *(named[column] for column in others)], lines)


def difference(experiment: str, reference: str, row: str, column: str) -> str:
    table = wide(experiment)
    return _thousandths(table.loc[row, column] - table.loc[row, reference])


def mean_difference(experiment: str, reference: str, where: str, column: str) -> str:
    table = wide(experiment).loc[rows_where(experiment, where)]
    return _thousandths((table[column] - table[reference]).mean())


def median_difference(experiment: str, reference: str, where: str, column: str) -> str:
    table = wide(experiment).loc[rows_where(experiment, where)]
    return _thousandths((table[column] - table[reference]).median())


def loss(experiment: str, reference: str, where: str, column: str) -> str:
    table = wide(experiment).loc[rows_where(experiment, where)]
    return f"{1000 * (table[reference] - table[column]).max():.0f}"


def n_rows(experiment: str, where: str) -> str:
    table = wide(experiment)
    return str(int(table.loc[rows_where(experiment, where)].notna().all(axis=1).sum()))


def _cpu_ratio(experiment: str, reference: str, rows: Sequence[str], column: str, value: str = "cpu") -> float:
    """Geometric mean over the rows."""
    table = wide(experiment, value).loc[list(rows)]
    ratios = (table[column] / table[reference]).dropna()
    return math.exp(np.log(ratios).mean())


def _ratio_text(ratio: float) -> str:
    return f"{ratio:.0f}" if ratio >= 9.95 else f"{ratio:.1f}" if ratio >= 0.095 else f"{ratio:.2f}"


def cpu_ratio(experiment: str, reference: str, where: str, column: str) -> str:
    return _ratio_text(_cpu_ratio(experiment, reference, rows_where(experiment, where), column))


def summary(experiment: str, reference: str, where: str) -> str:
    table, named = wide(experiment), titles(experiment)
    rows = rows_where(experiment, where)
    one_per_dataset = len({row.partition(" @ ")[0] for row in rows}) == len(rows)
    settings = folds(experiment).groupby("learner")["n_settings"].first()
    header = ["", "mean difference", "better", "equivalent", "undecided", "worse"]
    header += ["over datasets"] if one_per_dataset else []
    header += ["settings", "CPU, search", "CPU, last training"]
    lines = []
    for column in table.columns:
        gains = (table.loc[rows, column] - table.loc[rows, reference]).dropna()
        if column == reference:
            line = [f"{named[column]} (reference)", *["–"] * (len(header) - 4)]
        else:
            found = verdicts(experiment, reference, rows, column)
            counts = [str(found.count(name)) for name in ("win", "equivalent", "undecided", "loss")]
            line = [named[column], _thousandths(gains.mean()), *counts]
            if one_per_dataset:
                line.append(_over_datasets(-gains))
        cpu = [_ratio_text(_cpu_ratio(experiment, reference, rows, column, of)) for of in ("cpu", "fit_seconds")]
        lines.append([*line, str(settings[column]), *cpu])
    return _markdown(header, lines)


def cpu_totals(experiment: str) -> str:
    table, named = wide(experiment, "cpu"), titles(experiment)
    rows = table.index[table.notna().all(axis=1)]
    seconds = folds(experiment).groupby(["row", "learner"])["cpu"].sum().unstack().loc[rows].sum()
    return ", ".join(f"{named[column]} {seconds[column]:.0f}" for column in table.columns)


def _over_datasets(losses: pd.Series) -> str:
    if len(losses) < 5:
        return "–"
    found = bayesian_signed_rank_test(losses, ROPE)
    percent = "/".join(f"{100 * each:.0f}" for each in (found.worse, found.equivalent, found.better))
    return f"{percent} {MARKS[found.verdict()]}"


def edges(experiment: str) -> str:
    """Ends of an axis that a tenth of the tasks select, and what the end gains over the best setting inside."""
    grid = opauc_bench.load_results(ROOT / "results" / experiment, grid=True)
    axes = grid.columns[grid.columns.get_loc("fold") + 1 : grid.columns.get_loc("inner_auc")]
    named, lines = titles(experiment), []
    for column in wide(experiment).columns:
        own = grid[grid["learner"] == column]
        selected = own[own["selected"]]
        for axis in axes:
            values = own[axis].dropna().unique()
            for end, name in ((min(values), "low"), (max(values), "high")) if len(values) > 2 else ():
                at_end = selected[selected[axis] == end]
                if len(at_end) < 0.1 * len(selected):
                    continue
                inside = own[own["id"].isin(at_end["id"]) & (own[axis] != end)].groupby("id")["inner_auc"].max()
                gain = (at_end.set_index("id")["inner_auc"] - inside).astype(float).median()
                kind = "plateau" if gain < PLATEAU else "edge"
                power = math.log2(end)
                shown = f"2^{power:.0f}" if power.is_integer() else f"{end:g}"
                share = f"{100 * len(at_end) / len(selected):.0f} %"
                lines.append([named[column], f"{axis}, {name}", shown, share, _thousandths(gain), kind])
    return _markdown(["column", "end of the axis", "value", "tasks", "median gain of inner AUC", ""], lines)


def kendall(experiment: str, other: str) -> str:
    a, b = wide(experiment), wide(other)
    columns = [column for column in a.columns if column in b.columns]
    rows = [row for row in a.index if row in b.index]
    a, b = a.loc[rows, columns], b.loc[rows, columns]
    whole = a.notna().all(axis=1) & b.notna().all(axis=1)
    return f"{kendalltau(a[whole].mean(), b[whole].mean()).statistic:.2f}"


TABLES = {
    f.__name__: f
    for f in (
        answers,
        better,
        most,
        equivalent,
        worse,
        undecided,
        differences,
        difference,
        mean_difference,
        median_difference,
        loss,
        summary,
        n_rows,
        cpu_ratio,
        cpu_totals,
        edges,
        kendall,
    )
}


DENSE = "does_it_pay_1trial"
LOWEST, HIGHEST = -0.045, 0.045  # differences below are drawn at the lower end of a panel
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#882255", "#000000")
# Blue: batch, standard losses. Orange: one pass, logistic loss. Green: batch, AUC. Red: one pass, AUC.
_POINTS = {
    "logreg": ("#0072B2", "o"),
    "logreg_balanced": ("#0072B2", "X"),
    "svm": ("#56B4E9", "o"),
    "svm_balanced": ("#56B4E9", "X"),
    "sgd_log": ("#E69F00", "o"),
    "uni_log": ("#E69F00", "X"),
    "rank_svm_l2": ("#009E73", "D"),
    "opauc": ("#882255", "s"),
    "oam_seq": ("#D55E00", "<"),
    "oam_gra": ("#D55E00", ">"),
    "ada_oam": ("#882255", "^"),
    "pair_sgd": ("#D55E00", "d"),
}
_RC = {
    "font.family": "DejaVu Sans",
    "font.size": 8.0,
    "axes.titlesize": 8.0,
    "axes.titlepad": 3.0,
    "xtick.labelsize": 7.0,
    "ytick.labelsize": 7.0,
    "legend.fontsize": 7.5,
    "axes.linewidth": 0.6,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.0,
    "lines.markersize": 3.5,
    "legend.frameon": False,
    "svg.hashsalt": "opauc-bench",
}


def shares_data() -> pd.DataFrame:
    """Per column and row the share of positives and the difference to LogReg."""
    table, named, facts = wide(DENSE), titles(DENSE), manifest(DENSE)["datasets"]
    lines = []
    for row in table.index:
        dataset, share = row.partition(" @ ")[0], share_of(row)
        natural = facts[dataset]["n_positive"] / facts[dataset]["n_samples"]
        at = natural if share == ALL else float(share.removesuffix("%")) / 100
        gains = table.loc[row].drop("logreg") - table.loc[row, "logreg"]
        lines += [(column, named[column], dataset, at, round(gain, 6)) for column, gain in gains.dropna().items()]
    return pd.DataFrame(lines, columns=["column", "title", "dataset", "share", "difference"])


def cost_data() -> pd.DataFrame:
    """Per column the AUC over the rows and the CPU time, as multiples of those of LogReg."""
    table, named, lines = wide(DENSE), titles(DENSE), []
    for where in (ALL, "1%"):
        rows = rows_where(DENSE, where)
        for column in table.columns:
            gain = (table.loc[rows, column] - table.loc[rows, "logreg"]).mean()
            cpu = _cpu_ratio(DENSE, "logreg", rows, column)
            lines.append((where, column, named[column], round(cpu, 4), round(gain, 6)))
    return pd.DataFrame(lines, columns=["where", "column", "title", "cpu", "difference"])


def digest(data: pd.DataFrame) -> str:
    """Identify the numbers of a figure; the file has it in its description."""
    return hashlib.sha256(data.to_csv(index=False, lineterminator="\n").encode()).hexdigest()


def outdated_figures() -> list[str]:
    """Figures that do not show the numbers of the records."""
    files = {IMAGES / name: digest(data()) for name, (data, _) in FIGURES.items()}
    return [
        file.name
        for file, expected in files.items()
        if not file.exists() or expected not in file.read_text(encoding="utf-8")
    ]


def write_figures() -> None:
    """Draw the figures, as SVG."""
    import matplotlib as mpl

    with mpl.rc_context({**mpl.rcParamsDefault, **_RC}):
        for name, (numbers, draw) in FIGURES.items():
            data = numbers()
            metadata = {"Date": None, "Creator": None, "Description": digest(data)}
            draw(data).savefig(IMAGES / name, format="svg", metadata=metadata, facecolor="white")


def _draw_shares(data: pd.DataFrame):
    """A panel per column, a line per dataset."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    columns = list(dict.fromkeys(data["column"]))
    n_down, n_across = -(-(len(columns) + 1) // 4), 4
    canvas = Figure(figsize=(7.4, 1.7 * n_down + 0.4))
    panels = canvas.subplots(n_down, n_across, sharex=True, sharey=True)
    canvas.subplots_adjust(left=0.09, right=0.985, top=0.955, bottom=0.095, hspace=0.24, wspace=0.1)
    n_shares = data.groupby("dataset", sort=False)["share"].nunique()
    followed = list(n_shares.index[n_shares > 2])
    colours = dict.fromkeys(n_shares.index, "#AAAAAA") | dict(zip(followed, _COLOURS))
    for panel, column in zip(panels.flat, columns):
        of_column = data[data["column"] == column]
        for dataset, line in of_column.groupby("dataset", sort=False):
            line = line.sort_values("share")
            order = 3 if dataset in followed else 2
            shown = line["difference"].clip(lower=LOWEST)
            panel.plot(line["share"], shown, color=colours[dataset], zorder=order)
            for marker, here in (("o", line["difference"] >= LOWEST), ("v", line["difference"] < LOWEST)):
                panel.plot(
                    line["share"][here], shown[here], marker, color=colours[dataset], zorder=order, clip_on=False
                )
        _style(panel, of_column["title"].iloc[0], lambda share: f"{100 * share:g} %")
    for panel in panels.flat[len(columns) :]:
        panel.set_axis_off()
    handles = [Line2D([], [], color=colours[name], marker="o", label=name) for name in followed]
    handles.append(Line2D([], [], color="#AAAAAA", marker="o", label="others"))
    panels.flat[-1].legend(handles=handles, loc="center left")
    canvas.supxlabel("positives among the training rows", fontsize=8, y=0.01)
    canvas.supylabel("AUC minus AUC of LogReg", fontsize=8, x=0.005)
    return canvas


def _draw_cost(data: pd.DataFrame):
    """A panel per share of positives, a point per column."""
    from matplotlib.figure import Figure

    headings = {ALL: "all training positives", "1%": "1 % of the training rows positive"}
    canvas = Figure(figsize=(7.4, 3.2))
    panels = canvas.subplots(1, 2, sharex=True, sharey=True)
    canvas.subplots_adjust(left=0.09, right=0.79, top=0.93, bottom=0.14, wspace=0.06)
    for panel, (where, points) in zip(panels, data.groupby("where", sort=False)):
        for column, title, cpu, gain in points[["column", "title", "cpu", "difference"]].itertuples(index=False):
            colour, marker = _POINTS[column]
            below = gain < LOWEST
            label = title.replace("\\_", "_")
            size = 5.5 if marker in "Xo" else 5.0
            panel.plot(cpu, max(LOWEST, gain), marker, color=colour, markersize=size, label=label, clip_on=False)
            if below:
                panel.annotate(f"{gain:.3f}", (cpu, LOWEST), (5, 3), textcoords="offset points", fontsize=7)
        _style(panel, headings[where], lambda ratio: f"{ratio:g}")
    canvas.legend(*panels[0].get_legend_handles_labels(), loc="center left", bbox_to_anchor=(0.8, 0.53))
    canvas.supxlabel(
        "CPU time of grid search and last training, as a multiple of that of LogReg", fontsize=8, x=0.44, y=0.01
    )
    canvas.supylabel("mean AUC minus that of LogReg", fontsize=8, x=0.005)
    return canvas


def _style(panel, title: str, tick: Callable[[float], str]) -> None:
    from matplotlib.ticker import FuncFormatter, NullFormatter

    panel.axhspan(-ROPE, ROPE, color="#DDE8F0", linewidth=0, zorder=1)
    panel.set_title(title.replace("\\_", "_"))
    panel.set_xscale("log")
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: tick(value)))
    panel.xaxis.set_minor_formatter(NullFormatter())
    panel.set_ylim(LOWEST, HIGHEST)


FIGURES = {
    "does_it_pay_shares.svg": (shares_data, _draw_shares),
    "does_it_pay_cost.svg": (cost_data, _draw_cost),
}
