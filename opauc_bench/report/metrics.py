"""Metrics that a table can show, and how they are printed."""

from collections.abc import Iterable
from dataclasses import dataclass

from ..protocols import is_share

__all__ = ["AUC", "METRICS", "Metric", "metric_of"]


@dataclass(frozen=True)
class Metric:
    """A number that is measured per model."""

    key: str  # its name in records and in CSV files
    heading: str  # of its section, where a table has several
    digits: int  # decimals that are printed
    leading_zero: bool = False  # whether numbers below 1 begin with a zero
    machine_independent: bool = True  # whether the number can be compared with one from another machine
    lower_is_better: bool = False
    meaning: str = ""  # what is measured, for the footnotes of a table that has several

    def text(self, value: float) -> str:
        """Print a value: .8309, 1.0000, 0.015."""
        text = f"{value:.{self.digits}f}"
        return text.removeprefix("0") if not self.leading_zero and text.startswith("0.") else text

    def best(self, values: Iterable[float]) -> float:
        """Return the best of several values."""
        return (min if self.lower_is_better else max)(values)

    def signed(self, value: float) -> str:
        """Print a difference of two values, with its sign: +.0012."""
        rounded = round(value, self.digits)  # first, so that nothing prints as -.0000
        return ("-" if rounded < 0 else "+") + self.text(abs(rounded))


AUC = Metric("auc", "AUC", 4)
METRICS = {
    metric.key: metric
    for metric in (
        Metric("auc", "AUC", 5),
        Metric("sparse_ratio", "Sparse ratio", 4, lower_is_better=True, meaning="share of weights that are not 0"),
        Metric(
            "seconds",
            "Run time in seconds",
            3,
            leading_zero=True,
            machine_independent=False,
            lower_is_better=True,
            meaning="CPU time of one pass over the training rows with one setting",
        ),
        Metric("average_precision", "Average precision", 4, meaning="precision, averaged over the recall"),
        Metric(
            "log_loss",
            "Log loss",
            4,
            leading_zero=True,
            lower_is_better=True,
            meaning="mean negative log probability of the true class",
        ),
        Metric(
            "brier", "Brier score", 4, lower_is_better=True, meaning="mean squared difference of probability and label"
        ),
    )
}


def metric_of(key: str) -> Metric:
    """Return the metric of a name, such as ``partial_auc@0.1``; one that is not known here prints under its name."""
    name, _, rate = key.partition("@")
    if name == "partial_auc":
        meaning = f"area up to a false positive rate of {rate}, standardised: .5 by chance, 1 at best"
        return Metric(key, f"Partial AUC (FPR up to {rate})", 4, meaning=meaning)
    return METRICS.get(key) or Metric(key, key.replace("_", " "), 4, leading_zero=not is_share(key))
