"""How quantities and their values are called in figures, on the terminal and in CSV files."""

import math

__all__ = ["AXIS_SYMBOLS", "QUANTITY_LABELS", "is_share", "power_of_two", "quantity_label", "value_label", "value_text"]

QUANTITY_LABELS = {
    "auc": "test AUC",
    "validation_auc": "validation AUC",
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
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def is_share(name: str) -> bool:
    """Whether a quantity lies between 0 and 1, whatever its spread."""
    return name in ("auc", "validation_auc", "sparse_ratio")


def quantity_label(name: str) -> str:
    """What is written along an axis."""
    return QUANTITY_LABELS.get(name, name.replace("_", " "))


def value_label(axis: str, value: float) -> str:
    """Such as ``λ = 2⁻⁸``."""
    return f"{AXIS_SYMBOLS.get(axis, axis)} = {value_text(value)}"


def value_text(value: float) -> str:
    """A power of two as such, such as ``2⁻⁸``, unless it is a small whole number; any other number with four digits."""
    exponent = power_of_two(value)
    if exponent is not None and not 0 <= exponent <= 3:
        return "2" + str(exponent).translate(_SUPERSCRIPTS)
    return f"{value:.4g}"


def power_of_two(value: float) -> int | None:
    """The exponent, or None if the value is no power of two."""
    if not (value > 0 and math.isfinite(value)):
        return None
    mantissa, exponent = math.frexp(value)
    return exponent - 1 if mantissa == 0.5 else None
