"""Compare the partitions of ten digits into two groups of five with the printed values of usps and mnist.

The AIJ paper (2016, section 7.1) draws one at random for each dataset and does not say which; its Tables 2 and 3 print
eleven values of each dataset. ``choose_partition.py`` fits one of these, batch LS-SVM. This script computes six for all
partitions (batch LS-SVM, Uni-Squ and Uni-Log, online Uni-Exp, Uni-Log and Uni-Squ), ranks the partitions by their
distance from print, and has all eleven computed for some of them.

    python scripts/digit_partitions.py scan usps mnist mnist.8000    six columns of all 126: 4, 18 and 2 CPU minutes
    python scripts/digit_partitions.py rank                          prints ranks; writes ranks.csv and ranks.png
    python scripts/digit_partitions.py experiment usps -n 3 u.yaml   an experiment file of the nearest three
    opauc-bench run u.yaml --out u                                   computes all eleven columns of them
    python scripts/digit_partitions.py keep u                        puts their means into nearest.csv

Files are written to results/digit_partitions/. ``scan`` keeps each fold of each column in <dataset>.json: after an
interruption, the same command continues.

``scan`` has the protocol of configs/table2.yaml and table3.yaml, reduced: one trial instead of five; folds stratified
by digit instead of by class, so that all partitions have the same rows in each; and only steps around those that the
full protocol selects for the partition of the catalogue, for batch Uni-Log only such lambdas. Seeds, orders, the 8,000
rows of batch learners and the inner 5-fold cross-validation are as there. What ``experiment`` writes has one trial with
folds by class, and the full grids; on mnist two inner folds, OPAUC with the one setting that it selects in all folds of
table2, and OAM with four steps.

``mnist.8000`` is mnist with 8,000 training rows for the online learners, too; ``experiment`` has three steps of OPAUC.

The distance is the sum over columns of the squared difference of the means in printed standard deviations. A column
that overflows for a partition does not count for any.

Labels differ between partitions, rows do not. A pass over the rows carries a column of weights for each partition and
setting. LS-SVM takes its class moments from those of the digits. Batch Uni-Squ and Uni-Log share one
eigendecomposition.
"""

from __future__ import annotations

import argparse
import csv
import io
import itertools
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import yaml
from threadpoolctl import threadpool_limits

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

from choose_partition import LAMBDAS, MAX_TRAIN, directions, moments  # noqa: E402

from opauc_bench import load_results  # noqa: E402
from opauc_bench.data import Sources, load_catalogue, read_original  # noqa: E402
from opauc_bench.errors import OpaucBenchError  # noqa: E402
from opauc_bench.evaluation.auc import auc_columns  # noqa: E402
from opauc_bench.evaluation.selection import ranking  # noqa: E402
from opauc_bench.evaluation.splits import seed_for  # noqa: E402
from opauc_bench.files import write_text  # noqa: E402
from opauc_bench.kernels import njit  # noqa: E402
from opauc_bench.report.published import PublishedCell, load_published  # noqa: E402

FOLDER = ROOT / "results" / "digit_partitions"
FOLDS = INNER_FOLDS = 5
SEED = 0
LOSSES = {"uni_exp": 0, "uni_log": 1, "uni_squ": 2}
TITLES = {
    "opauc": "OPAUC",
    "oam_seq": "OAM_seq",
    "oam_gra": "OAM_gra",
    "uni_exp": "online Uni-Exp",
    "uni_log": "online Uni-Log",
    "uni_squ": "online Uni-Squ",
    "svm_perf": "SVM-perf",
    "svm_or": "SVM-OR",
    "ls_svm": "LS-SVM",
    "batch_uni_log": "batch Uni-Log",
    "batch_uni_squ": "batch Uni-Squ",
}
_COLUMNS_AT_ONCE = 64  # of a weight matrix that stays in the cache of the processor


# Exponents of two: the steps and, for batch Uni-Log, the lambdas that are tried.
SETTINGS: dict[str, dict[str, tuple[int, ...]]] = {
    "usps": {
        "uni_exp": (-12, -11, -10),
        "uni_log": (-9, -8, -7, -6),
        "uni_squ": (-12, -11, -10),
        "batch_uni_log": (1, 3, 5, 7),
    },
    "mnist": {
        "uni_exp": (-12,),
        "uni_log": (-10, -9, -8),
        "uni_squ": (-12,),
        "batch_uni_log": (2, 4, 6),
    },
    "mnist.8000": {
        "uni_exp": (-12,),
        "uni_log": (-10, -9, -8, -7),
        "uni_squ": (-12, -11),
        "batch_uni_log": (2, 4, 6),
    },
}


def source_of(dataset: str) -> str:
    """The name in the catalogue."""
    return dataset.partition(".")[0]


def partitions(n_classes: int = 10) -> np.ndarray:
    """Signs of the classes in every partition into two halves, shape (n_partitions, n_classes); class 0 is positive."""
    halves = itertools.combinations(range(1, n_classes), n_classes // 2 - 1)
    return np.array([[1.0 if k == 0 or k in half else -1.0 for k in range(n_classes)] for half in halves])


def digit_folds(digits: np.ndarray, n_folds: int, rng: np.random.Generator) -> np.ndarray:
    """Assign each row to a fold as `random_folds` does, with the ten digits as classes."""
    shuffled = np.concatenate([rng.permutation(np.flatnonzero(digits == k)) for k in np.unique(digits)])
    folds = np.empty(len(digits), dtype=np.int64)
    folds[shuffled] = np.arange(len(digits)) % n_folds
    return folds


def outer_split(digits: np.ndarray, dataset: str, fold: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Training rows in visiting order, test rows and seed of an outer fold of the first trial, as `outer_fold`."""
    folds = digit_folds(digits, FOLDS, np.random.default_rng(seed_for("split", SEED, dataset, 0)))
    seed = seed_for("fold", SEED, dataset, 0, fold)
    train = np.random.default_rng(seed).permutation(np.flatnonzero(folds != fold))
    return train, np.flatnonzero(folds == fold), seed


@njit(fastmath={"contract"})
def _online_pass(X, digits, order, signs, eta, loss, W):
    n_columns = W.shape[1]
    push = np.empty(n_columns)
    for t in order:
        x, sign = X[t], signs[digits[t]]
        for g in range(n_columns):
            push[g] = 0.0
        for j in range(len(x)):
            v = x[j]
            if v != 0.0:
                w = W[j]
                for g in range(n_columns):
                    push[g] += v * w[g]
        for g in range(n_columns):
            margin = sign[g] * push[g]
            if loss == 0:
                slope = np.exp(-margin)
            elif loss == 1:
                slope = 1.0 / (1.0 + np.exp(margin))
            else:
                slope = 1.0 - margin
            push[g] = eta[g] * sign[g] * slope
        for j in range(len(x)):
            v = x[j]
            if v != 0.0:
                w = W[j]
                for g in range(n_columns):
                    w[g] += v * push[g]


def online(
    X: np.ndarray, digits: np.ndarray, order: np.ndarray, signs: np.ndarray, eta: np.ndarray, loss: str
) -> np.ndarray:
    """One pass of unweighted univariate losses without intercept, a column of weights for each labelling and step.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    digits : ndarray of int, shape (n_samples,)
        Classes 0, 1, ...
    order : ndarray of int
        Rows to visit.
    signs : ndarray of shape (n_columns, n_classes)
        Label of each class, -1 or +1.
    eta : ndarray of shape (n_columns,)
    loss : {'uni_exp', 'uni_log', 'uni_squ'}

    Returns
    -------
    ndarray of shape (n_features, n_columns)
    """
    blocks = []
    for start in range(0, len(eta), _COLUMNS_AT_ONCE):
        columns = slice(start, start + _COLUMNS_AT_ONCE)
        W = np.zeros((X.shape[1], len(eta[columns])))
        _online_pass(X, digits, order, np.ascontiguousarray(signs[columns].T), eta[columns], LOSSES[loss], W)
        blocks.append(W)
    return np.concatenate(blocks, axis=1)


def ls_svm(X: np.ndarray, digits: np.ndarray, signs: np.ndarray) -> Iterator[np.ndarray]:
    """Weights of LS-SVM up to a factor, (n_features, n_lambdas), for each labelling, from moments of the digits."""
    statistics = moments(X, digits, np.arange(signs.shape[1]))
    for labels in signs:
        yield directions(statistics, labels > 0)


def batch_uni_squ(X: np.ndarray, digits: np.ndarray, signs: np.ndarray) -> Iterator[np.ndarray]:
    """Weights of batch Uni-Squ (loss_scale sum, unweighted, no intercept), (n_features, n_lambdas), by labelling."""
    values, V = np.linalg.eigh(X.T @ X)
    towards = V.T @ (X.T @ signs.T[digits])
    for v in towards.T:
        yield V @ (v[:, None] / (np.maximum(values, 0.0)[:, None] + LAMBDAS))


def batch_uni_log(
    X: np.ndarray, digits: np.ndarray, signs: np.ndarray, lambdas: np.ndarray, accuracy: float = 1e-5
) -> np.ndarray:
    """Weights of batch Uni-Log (loss_scale sum, unweighted, no intercept), (n_labellings, n_features, n_lambdas).

    All labellings take accelerated steps with the bound X'X / 4 + lam I of their Hessians, which does not depend on
    the labels (Boehning and Lindsay, 1988), until each step is ``accuracy`` of the first one.
    """
    values, V = np.linalg.eigh(X.T @ X)
    Z, Y = X @ V, signs.T[digits]
    weights = np.empty((len(signs), X.shape[1], len(lambdas)))
    U = np.zeros((X.shape[1], len(signs)))
    for k in np.argsort(-lambdas):
        bound = (0.25 * np.maximum(values, 0.0) + lambdas[k])[:, None]
        first = np.linalg.norm((0.5 * Z.T @ Y) / np.sqrt(bound), axis=0)
        ahead, momentum = U.copy(), np.ones(len(signs))
        for _ in range(10_000):
            pull = Y / (1.0 + np.exp(np.minimum(Y * (Z @ ahead), 700.0)))
            gradient = lambdas[k] * ahead - Z.T @ pull
            if (np.linalg.norm(gradient / np.sqrt(bound), axis=0) <= accuracy * first).all():
                break
            new = ahead - gradient / bound
            # Momentum that leads uphill starts again.
            momentum[np.einsum("ij,ij->j", gradient, new - U) > 0.0] = 1.0
            grown = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
            ahead = new + (momentum - 1.0) / grown * (new - U)
            U, momentum = new, grown
        else:
            raise RuntimeError(f"batch Uni-Log did not converge at lambda {lambdas[k]:g}")
        U = ahead
        weights[:, :, k] = (V @ U).T
    return weights


# From rows, digits and training rows in visiting order to the weights of each labelling, (n_features, n_settings).
Trainer = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], Iterator[np.ndarray]]


def trainers(dataset: str) -> dict[str, tuple[int | None, np.ndarray, Trainer]]:
    """Of each column: largest number of training rows, settings, and a function that trains them all."""

    def steps(column: str) -> np.ndarray:
        return 2.0 ** np.array(SETTINGS[dataset][column])

    def one_pass(column: str) -> Trainer:
        eta = steps(column)

        def train(X, digits, rows, signs):
            n = len(eta)
            W = online(X, digits, rows, np.repeat(signs, n, axis=0), np.tile(eta, len(signs)), column)
            return iter(W.reshape(len(W), -1, n).transpose(1, 0, 2))

        return train

    lambdas = steps("batch_uni_log")
    batch: dict[str, tuple[int | None, np.ndarray, Trainer]] = {
        "ls_svm": (MAX_TRAIN, LAMBDAS, lambda X, digits, rows, signs: ls_svm(X[rows], digits[rows], signs)),
        "batch_uni_squ": (
            MAX_TRAIN,
            LAMBDAS,
            lambda X, digits, rows, signs: batch_uni_squ(X[rows], digits[rows], signs),
        ),
        "batch_uni_log": (
            MAX_TRAIN,
            lambdas,
            lambda X, digits, rows, signs: iter(batch_uni_log(X[rows], digits[rows], signs, lambdas)),
        ),
    }
    max_train = MAX_TRAIN if dataset == "mnist.8000" else None
    return batch | {column: (max_train, steps(column), one_pass(column)) for column in LOSSES}


def scored(
    X: np.ndarray, digits: np.ndarray, rows: np.ndarray, signs: np.ndarray, weights: Iterator[np.ndarray]
) -> np.ndarray:
    """AUC of every labelling and setting on some rows, shape (n_labellings, n_settings); NaN where it overflowed."""
    held_out, labels = X[rows], signs[:, digits[rows]]
    with np.errstate(over="ignore", invalid="ignore"):
        return np.array([auc_columns(y, held_out @ W) for y, W in zip(labels, weights, strict=True)])


def one_fold(
    X: np.ndarray, digits: np.ndarray, signs: np.ndarray, dataset: str, fold: int, max_train: int | None, train: Trainer
) -> tuple[np.ndarray, np.ndarray]:
    """Test AUC of every labelling in an outer fold, and the position of the setting that was selected, -1 for none."""
    rows, test, seed = outer_split(digits, dataset, fold)
    rows = rows[:max_train]
    inner = digit_folds(digits[rows], INNER_FOLDS, np.random.default_rng([seed, 1]))
    found = [
        scored(X, digits, rows[inner == k], signs, train(X, digits, rows[inner != k], signs))
        for k in range(INNER_FOLDS)
    ]
    tested = scored(X, digits, test, signs, train(X, digits, rows, signs))
    aucs, chosen = np.full(len(signs), np.nan), np.full(len(signs), -1)
    for k, mean in enumerate(np.mean(found, axis=0)):
        for position in ranking(mean):
            if np.isfinite(tested[k, position]):
                aucs[k], chosen[k] = tested[k, position], position
                break
    return aucs, chosen


def missing(document: dict, dataset: str) -> list[tuple[str, int]]:
    """Columns and folds that a document of `scan` does not have; SystemExit if it has other settings."""
    for column, (_, settings, _) in trainers(dataset).items():
        entry = document["columns"].setdefault(column, {"settings": settings.tolist(), "folds": []})
        if entry["settings"] != settings.tolist():
            raise SystemExit(f"{dataset}.json has other settings of {column}: delete it to compute it again")
    todo = [(column, fold) for fold in range(FOLDS) for column in trainers(dataset)]
    return [(column, fold) for column, fold in todo if fold >= len(document["columns"][column]["folds"])]


def scan(dataset: str) -> None:
    """Compute the folds that <dataset>.json does not have yet."""
    file, source = FOLDER / f"{dataset}.json", source_of(dataset)
    document = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {"columns": {}}
    if dataset != source and not file.exists() and (same := FOLDER / f"{source}.json").exists():
        columns = json.loads(same.read_text(encoding="utf-8"))["columns"]
        document["columns"] = {column: entry for column, entry in columns.items() if column not in LOSSES}
    todo = missing(document, dataset)
    if not todo:
        print(f"{dataset}: complete")
        return
    X, labels = read_original(load_catalogue()[source], Sources.from_environment())
    digits = np.unique(labels, return_inverse=True)[1]
    for done, (column, fold) in enumerate(todo):
        began = time.process_time()
        max_train, _, train = trainers(dataset)[column]
        aucs, chosen = one_fold(X, digits, partitions(), source, fold, max_train, train)
        result = {"auc": [round(v, 6) if np.isfinite(v) else None for v in aucs.tolist()], "chosen": chosen.tolist()}
        document["columns"][column]["folds"].append(result)
        write_text(file, json.dumps(document, separators=(",", ":")) + "\n")
        seconds = time.process_time() - began
        print(f"{dataset}: {done + 1} of {len(todo)}, {column} fold {fold + 1}, {seconds:.0f} CPU s", flush=True)


def printed(dataset: str) -> dict[str, PublishedCell]:
    """The printed cells of a dataset in Tables 2 and 3, by column."""
    dataset = source_of(dataset)
    online_table, batch_table = load_published("aij2016_table2"), load_published("aij2016_table3")
    columns = [(online_table, column.key) for column in online_table.columns]
    columns += [(batch_table, column.key) for column in batch_table.columns if column.key != "opauc"]
    cells = {column: table.cell(dataset, column) for table, column in columns}
    return {column: cell for column, cell in cells.items() if cell is not None}


def ranked(dataset: str) -> list[dict[str, float | str | None]]:
    """Every partition with its distances from print and its means, nearest first.

    Raises
    ------
    SystemExit
        If `scan` has not finished.
    """
    file = FOLDER / f"{dataset}.json"
    if not file.exists() or len(missing(document := json.loads(file.read_text(encoding="utf-8")), dataset)):
        raise SystemExit(f"{file.name} is not complete: python scripts/digit_partitions.py scan {dataset}")
    cells = printed(dataset)
    aucs = {
        column: np.array([fold["auc"] for fold in entry["folds"]], dtype=float)
        for column, entry in document["columns"].items()
    }
    means = {column: values.mean(axis=0) for column, values in aucs.items()}
    squares = {column: ((mean - cells[column].mean) / cells[column].std) ** 2 for column, mean in means.items()}
    counted = {column: square for column, square in squares.items() if np.isfinite(square).all()}
    batch, one_pass = (
        sum(square for column, square in counted.items() if (column in LOSSES) == is_online)
        for is_online in (False, True)
    )
    positive = ["".join(map(str, np.flatnonzero(signs > 0))) for signs in partitions()]
    order = np.argsort(batch + one_pass, kind="stable")
    return [
        {
            "dataset": dataset,
            "rank": rank + 1,
            "digits": positive[k],
            "distance": round(float(batch[k] + one_pass[k]), 2),
            "batch": round(float(batch[k]), 2),
            "online": round(float(one_pass[k]), 2),
            **{c: round(float(mean[k]), 5) if np.isfinite(mean[k]) else None for c, mean in means.items()},
        }
        for rank, k in enumerate(order)
    ]


def in_catalogue(dataset: str) -> str:
    """The digits that the catalogue groups with 0."""
    dataset = source_of(dataset)
    positive = {int(label) - (dataset == "usps") for label in load_catalogue()[dataset].positive}
    return "".join(map(str, sorted(positive if 0 in positive else set(range(10)) - positive)))


def ranks_table(dataset: str, n: int = 10) -> str:
    """The nearest partitions and that of the catalogue, as Markdown."""
    rows, own, cells = ranked(dataset), in_catalogue(dataset), printed(dataset)
    columns = list(trainers(dataset))
    lines = [f"| rank | digits | distance | batch + online | {' | '.join(TITLES[column] for column in columns)} |"]
    lines.append("| --- " * (4 + len(columns)) + "|")
    lines.append(f"| | printed | | | {' | '.join(_auc(cells[column].mean) for column in columns)} |")
    for row in rows:
        if row["rank"] <= n or row["digits"] == own:
            digits = " ".join(row["digits"]) + (" (catalogue)" if row["digits"] == own else "")
            values = " | ".join(_auc(row[column]) for column in columns)
            parts = f"{row['batch']:.1f} + {row['online']:.1f}"
            lines.append(f"| {row['rank']} | {digits} | {row['distance']:.1f} | {parts} | {values} |")
    return "\n".join(lines)


def _auc(value: float | None) -> str:
    return "N/A" if value is None else f"{value:.4f}".removeprefix("0")


def rank() -> None:
    """Print the nearest partitions of each dataset; write all of them, and the figure."""
    text = io.StringIO()
    fields = ("dataset", "rank", "digits", "distance", "batch", "online", *trainers("usps"))
    writer = csv.DictWriter(text, fields, lineterminator="\n")
    writer.writeheader()
    for dataset in SETTINGS:
        writer.writerows(ranked(dataset))
        print(f"{dataset}, reduced: one trial, folds stratified by digit\n\n{ranks_table(dataset)}\n")
    write_text(FOLDER / "ranks.csv", text.getvalue())
    draw()
    print(f"written: {FOLDER / 'ranks.csv'} and ranks.png")


def draw() -> None:
    """Draw the distances by rank, and the columns of the nearest partitions against print."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(len(SETTINGS), 2, figsize=(11, 3.2 * len(SETTINGS)), layout="constrained")
    for dataset, (left, right) in zip(SETTINGS, panels):
        rows, own, cells = ranked(dataset), in_catalogue(dataset), printed(dataset)
        left.semilogy([row["rank"] for row in rows], [row["distance"] for row in rows], ".", color="0.4", markersize=4)
        mine = next(row for row in rows if row["digits"] == own)
        left.semilogy(mine["rank"], mine["distance"], "D", color="#D55E00", label=f"catalogue, {own}")
        left.set(title=dataset, xlabel="partition, by rank", ylabel="distance from print")
        left.legend(fontsize="small", loc="lower right")
        columns = [column for column in trainers(dataset) if rows[0][column] is not None]
        others = [row for row in rows if row is not mine][:5]
        for place, row in enumerate([*others, mine]):
            stds = [(row[column] - cells[column].mean) / cells[column].std for column in columns]
            colour, marker = ("#D55E00", "D") if row is mine else (f"{0.15 * place:.2f}", "o")
            label = f"{row['digits']}, rank {row['rank']}"
            right.plot(range(len(columns)), stds, color=colour, marker=marker, linewidth=1, markersize=4, label=label)
        right.set_xticks(range(len(columns)), [TITLES[column].replace(" ", "\n") for column in columns])
        right.axhspan(-1, 1, color="0.92", zorder=0)
        right.set(title=f"{dataset}: nearest five, and that of the catalogue", ylabel="difference, in printed stds")
        right.tick_params(axis="x", labelsize="small")
        right.legend(fontsize="x-small", loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.savefig(FOLDER / "ranks.png", dpi=110, metadata={"Software": None})


def experiment(dataset: str, file: Path, chosen: list[str], n: int) -> None:
    """Write an experiment file with the chosen partitions, or the nearest ones without that of the catalogue."""
    if unknown := set(chosen) - {"".join(map(str, np.flatnonzero(signs > 0))) for signs in partitions()}:
        raise SystemExit(
            f"--digits: expected five digits in order, 0 the first, such as 01467; got {', '.join(unknown)}"
        )
    own, source = in_catalogue(dataset), source_of(dataset)
    chosen = chosen or [row["digits"] for row in ranked(dataset) if row["digits"] != own][:n]
    tables = [yaml.safe_load((ROOT / f"configs/table{k}.yaml").read_text(encoding="utf-8")) for k in (2, 3)]
    steps = tables[0]["grids"]
    cap = {"max_train": MAX_TRAIN} if dataset == "mnist.8000" else {}
    learners = []
    for entry in tables[0]["learners"]:
        name = entry["learner"]
        grid = dict(steps) if name == "opauc" else {"eta": steps["eta"]}
        if source == "mnist" and name == "opauc":
            grid = {"eta": [2.0**k for k in ((-12, -11, -10) if cap else (-12,))], "lambda": [2.0**-10]}
        elif source == "mnist" and name.startswith("oam"):
            grid = {"eta": [2.0**k for k in (-12, -10, -8, -6)]}
        learners.append(entry | {"grid": grid} | cap)
    for entry in tables[1]["learners"]:
        if entry["learner"] != "opauc":
            learners.append({"grid": tables[1]["grids"]} | entry | {"max_train": MAX_TRAIN})
    document = {
        "title": f"{dataset}: partitions of the digits that are nearest to print",
        "catalogue": {
            f"{dataset}.{digits}": {
                "base": source,
                "title": f"{source}, digits {' '.join(digits)} against the rest",
                "positive": [int(digit) + (dataset == "usps") for digit in digits],
            }
            for digits in chosen
        },
        "datasets": [f"{dataset}.{digits}" for digits in chosen],
        "learners": learners,
        "protocol": tables[0]["protocol"] | {"trials": 1} | ({"inner_folds": 2} if source == "mnist" else {}),
        "limits": tables[0]["limits"],
        "report": {"reference": "opauc"},
    }
    write_text(file, yaml.safe_dump(document, sort_keys=False))
    print(f"written: {file}; next: opauc-bench run {file} --out FOLDER")


def keep(folder: Path) -> None:
    """Put the means of complete columns into nearest.csv, in the place of older ones; empty where a fold diverged."""
    file = FOLDER / "nearest.csv"
    rows = {}
    if file.exists():
        with open(file, newline="", encoding="utf-8") as old:
            rows = {(row["dataset"], row["digits"], row["column"]): row for row in csv.DictReader(old)}
    for (name, column), records in load_results(folder).groupby(["dataset", "learner"]):
        if len(records) < FOLDS:
            continue
        dataset, _, digits = name.rpartition(".")
        aucs = records["auc"].dropna()
        rows[dataset, digits, column] = {
            "dataset": dataset,
            "digits": digits,
            "column": column,
            "folds": len(aucs),
            "mean": f"{aucs.mean():.5f}" if len(aucs) == FOLDS else "",
            "std": f"{aucs.std():.5f}" if len(aucs) == FOLDS else "",
        }
    text = io.StringIO()
    writer = csv.DictWriter(text, ("dataset", "digits", "column", "folds", "mean", "std"), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows[key] for key in sorted(rows))
    write_text(file, text.getvalue())
    print(f"written: {file}")


def kept(dataset: str) -> dict[str, dict[str, float]]:
    """The means of nearest.csv, by partition and column; columns without one are left out."""
    found: dict[str, dict[str, float]] = {}
    with open(FOLDER / "nearest.csv", newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["dataset"] == dataset and row["mean"]:
                found.setdefault(row["digits"], {})[row["column"]] = float(row["mean"])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("scan", help="compute six columns of all partitions")
    command.add_argument("datasets", nargs="+", choices=list(SETTINGS))
    commands.add_parser("rank", help="rank the partitions; write ranks.csv and ranks.png")
    command = commands.add_parser("experiment", help="write an experiment file of the nearest partitions")
    command.add_argument("dataset", choices=list(SETTINGS))
    command.add_argument("file", type=Path, help="the experiment file to write")
    command.add_argument("--digits", nargs="+", default=[], help="these partitions, such as 01467, instead")
    command.add_argument("-n", type=int, default=3, help="number of partitions (default: 3)")
    command = commands.add_parser("keep", help="put the means of a results folder into nearest.csv")
    command.add_argument("folder", type=Path, help="results of opauc-bench run")
    arguments = parser.parse_args()
    if arguments.command == "scan":
        with threadpool_limits(1):
            for dataset in arguments.datasets:
                scan(dataset)
    elif arguments.command == "rank":
        rank()
    elif arguments.command == "experiment":
        experiment(arguments.dataset, arguments.file, arguments.digits, arguments.n)
    else:
        keep(arguments.folder)


if __name__ == "__main__":
    try:
        main()
    except OpaucBenchError as error:
        raise SystemExit(f"error: {error}") from None
