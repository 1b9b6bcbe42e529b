"""What a model is, as text for a terminal of 80 columns, and as JSON."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import numpy as np
from wcwidth import clip, ljust
from wcwidth import width as display_width

from ..errors import DataError
from ..sentences import label_text
from .leaderboard import shown_leaderboard
from .model import LinearModel
from .progress import shown_auc

__all__ = [
    "calibration_line",
    "calibration_lines",
    "model_as_json",
    "model_lines",
    "parameter_lines",
    "reliability_lines",
]

_COLUMNS, _ROWS = 68, 8  # of the plot of the AUC
_BAR = 44
_NAMES = {
    "logistic": "1 / (1 + exp(-score))",
    "calibrated": "calibrated",
    "constant": "share of positives",
}


def model_lines(model: LinearModel, file: Path, n_weights: int) -> list[str]:
    """Describe a model.

    Parameters
    ----------
    model : LinearModel
        With its state, if it has one.
    file : Path
        Where it comes from.
    n_weights : int
        How many of the largest weights to list.

    Raises
    ------
    DataError
        If what the file says about reliability or progress cannot be read.
    """
    try:
        return [
            *_facts(model, file),
            *_plot(model.progress),
            *(["", *shown_leaderboard(model.leaderboard).splitlines()] if len(model.leaderboard) > 1 else []),
            "",
            *calibration_lines(model),
            *_weights(model, n_weights),
        ]
    except (AttributeError, KeyError, TypeError, ValueError, IndexError) as error:
        raise DataError(f"{file}: the description of this model is damaged ({error!r})") from error


def model_as_json(model: LinearModel, n_weights: int) -> dict[str, Any]:
    """The description of a model for machines; numbers are not rounded."""
    return model.to_json() | {
        "n_features": len(model.weights),
        "n_weights": int(np.count_nonzero(model.weights)),
        "can_continue": model.state is not None,
        "largest_weights": [
            {"feature": model.feature_name(i), "weight": float(model.weights[i])} for i in _largest(model, n_weights)
        ],
    }


def parameter_lines(start: str, parameters: dict[str, Any], end: str = "") -> list[str]:
    """Parameters of a learner after ``start``, in lines of 80 columns."""
    return textwrap.wrap(
        ", ".join(f"{name}={value}" for name, value in parameters.items()) + end,
        width=80,
        initial_indent=start,
        subsequent_indent=" " * 10,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _facts(model: LinearModel, file: Path) -> list[str]:
    negative, positive = map(label_text, model.classes)
    rows = f"{model.n_rows:,}" + ("" if model.complete else ", then interrupted")
    auc = model.leaderboard[0]["auc"] if model.leaderboard else None
    error = model.leaderboard[0]["standard_error"] if model.leaderboard else None
    spread = "" if error is None else f" +- {shown_auc(error)}"
    return [
        f"model     {file}, {file.stat().st_size / 1e6:,.1f} MB, by opauc-bench {model.version}",
        f"learner   {model.learner}",
        *parameter_lines("setting   ", model.parameters),
        f"rows      {rows}",
        f"classes   {positive} (positive), {negative}",
        f"AUC       {shown_auc(auc)}{spread}, of the latest rows, each scored before it was learnt",
        f"weights   {model.about_weights}",
        *([] if model.schema is None else [f"columns   {model.schema.described()}"]),
        f"scaling   {_scaling(model)}",
        f"continue  {'with train --continue' if model.state else 'not possible: the file has no state for it'}",
    ]


def _scaling(model: LinearModel) -> str:
    """What was done to rows before they were learnt."""
    if model.unit_length:
        return "each row divided by its length"
    features = "1 feature" if model.n_centred == 1 else f"{model.n_centred:,} features"
    return f"{features} centred and scaled in training" if model.n_centred else "none"


def _plot(progress: list[list[float]]) -> list[str]:
    """The AUC over the rows."""
    points = [(rows, auc) for rows, auc in progress if auc is not None]
    if len(points) < 2:
        return []
    rows, auc = np.array(points, dtype=float).T
    if not np.isfinite(points).all():
        raise ValueError("the progress is not finite")
    values = np.interp(np.geomspace(rows[0], rows[-1], _COLUMNS), rows, auc)
    low, high = float(values.min()), float(values.max())
    low, high = (low - 0.0005, high + 0.0005) if high - low < 0.001 else (low, high)
    heights = np.rint((values - low) / (high - low) * (_ROWS - 1)).astype(int)
    lines = ["", "AUC of the latest rows, by the number of rows learnt (logarithmic)"]
    for height in range(_ROWS - 1, -1, -1):
        label = shown_auc(low + (high - low) * height / (_ROWS - 1)) if height % 7 == 0 or height == 3 else ""
        marks = "".join("*" if here == height else " " for here in heights)
        lines.append(f"{label:>8} |{marks}".rstrip())
    first, last = f"{int(rows[0]):,}", f"{int(rows[-1]):,} rows"
    lines += ["         +" + "-" * _COLUMNS, f"          {first}{last:>{_COLUMNS - len(first)}}"]
    return lines


def _largest(model: LinearModel, n: int) -> np.ndarray:
    """Places of the largest weights in size that are not 0, the largest first."""
    size = np.abs(model.weights)
    order = np.argsort(-size, kind="stable")[:n]
    return order[size[order] > 0]


def _weights(model: LinearModel, n: int) -> list[str]:
    largest = _largest(model, n)
    if not len(largest):
        return []
    names = [_printable(model.feature_name(i)) for i in largest]
    width = min(56, max(map(display_width, names)))
    top = np.abs(model.weights[largest[0]])
    bars = ["#" * max(1, round(20 * abs(model.weights[i]) / top)) for i in largest]
    shown = [name if display_width(name) <= width else clip(name, 0, width - 3) + "..." for name in names]
    lines = ["", f"largest weights ({len(largest)} of {np.count_nonzero(model.weights):,})"]
    room = 80 - width - 14
    return lines + [
        f"{ljust(name, width)} {model.weights[i]:>12.5g} {bar[:room]}".rstrip()
        for name, i, bar in zip(shown, largest, bars)
    ]


def _printable(name: str) -> str:
    """A name without line ends and control characters, as a cell of a table may have."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)


# ---------------------------------------------------------------------- calibration


def calibration_line(model: LinearModel) -> str:
    """What `calibration_lines` says, in one line."""
    if model.calibration is None:
        return "not calibrated"
    name = {"platt": "Platt", "isotonic": "isotonic"}[model.calibration.method]
    if model.reliability is None:
        return f"calibrated ({name})"
    before, after = (model.reliability["figures"][one] for one in ("logistic", "calibrated"))
    return f"calibrated ({name}): Brier score {_small(after['brier'])}, {_small(before['brier'])} without"


def calibration_lines(model: LinearModel) -> list[str]:
    """How scores become probabilities, and how reliable these are."""
    calibration = model.calibration
    if calibration is None:
        return ["probability: none, the model is not calibrated"]
    name = {"platt": "Platt's logistic function", "isotonic": "isotonic regression"}[calibration.method]
    lines = [
        f"probability: {name}, from the scores of {calibration.n_rows:,} rows",
        f"({calibration.n_positive:,} positive) before they were learnt",
    ]
    if model.reliability is not None:
        n, p = model.reliability["n_rows"], model.reliability["n_positive"]
        lines += [
            f"checked: fitted to the older half, on the newer ({n:,} rows, {p:,} positive)",
            *reliability_lines(model.reliability),
        ]
    return lines


def reliability_lines(reliability: dict[str, Any]) -> list[str]:
    """Brier score, log loss and calibration error, and a table of predicted and observed shares.

    Parameters
    ----------
    reliability : dict
        From `opauc_bench.streaming.calibration.Reliability.to_json`.
    """
    lines = ["", f"{'':<21} {'Brier':>10} {'log loss':>10} {'calibration error':>18}"]
    for key, figures in reliability["figures"].items():
        error = _small(figures["calibration_error"]) if "calibration_error" in figures else "-"
        numbers = f"{_small(figures['brier']):>10} {_small(figures['log_loss']):>10} {error:>18}"
        lines.append(f"{_NAMES[key]:<21} {numbers}")
    bins = reliability["bins"]
    top = max(max(predicted, observed) for _, predicted, observed in bins)
    lines += ["", f"{'rows':>11} {'predicted':>10} {'positive':>10}  p predicted, o observed, * both"]
    for rows, predicted, observed in bins:
        bar = [" "] * (_BAR + 1)
        for share, mark in ((predicted, "p"), (observed, "o")):
            place = round(_BAR * share / top) if top > 0 else 0
            bar[place] = mark if bar[place] == " " else "*"
        lines.append(f"{rows:>11,} {_small(predicted):>10} {_small(observed):>10} |{''.join(bar).rstrip()}")
    return lines


def _small(value: float) -> str:
    """``.01234``."""
    return f"{value:.5f}".removeprefix("0")
