"""Labels of quantities and their values in figures and on the terminal."""

import math

from .text import superscript

__all__ = ["AXIS_SYMBOLS", "QUANTITY_LABELS", "power_of_two", "quantity_label", "value_label", "value_text"]

QUANTITY_LABELS = {
    "auc": "test AUC",
    "sparse_ratio": "sparse ratio",
    "n_seen": "training examples seen",
    "seconds": "CPU time (seconds)",
    "wall_seconds": "time (seconds)",
    "positive_error": "relative error, positive class",
    "negative_error": "relative error, negative class",
    "eta": "step size η",
    "lam": "regularisation λ",
    "l1": "regularisation λ",
    "gamma": "initial rate γ",
    "tau": "sketch size τ",
    "dataset": "",
}
AXIS_SYMBOLS = {"eta": "η", "lam": "λ", "l1": "λ", "gamma": "γ", "tau": "τ"}


def quantity_label(name: str) -> str:
    """The label of an axis."""
    return QUANTITY_LABELS.get(name, " ".join({"auc": "AUC"}.get(word, word) for word in name.split("_")))


def value_label(axis: str, value: float) -> str:
    """Such as ``λ = 2⁻⁸``."""
    return f"{AXIS_SYMBOLS.get(axis, axis)} = {value_text(value)}"


def value_text(value: float) -> str:
    """A power of two such as ``2⁻⁸``, unless it is 1, 2, 4 or 8; any other number with four digits."""
    exponent = power_of_two(value)
    if exponent is not None and not 0 <= exponent <= 3:
        return f"2{superscript(exponent)}"
    return f"{value:.4g}"


def power_of_two(value: float) -> int | None:
    """The exponent, or None if the value is not a power of two."""
    if not (value > 0 and math.isfinite(value)):
        return None
    mantissa, exponent = math.frexp(value)
    return exponent - 1 if mantissa == 0.5 else None
