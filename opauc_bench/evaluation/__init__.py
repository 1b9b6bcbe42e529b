"""Splits, selection, the exact AUC, and significance: arrays in, arrays out."""

from importlib import import_module

_HOMES = {
    "auc_columns": "auc",
    "auc_score": "auc",
    "released_auc_columns": "auc",
    "bayesian_t_test": "bayes",
    "bayesian_signed_rank_test": "bayes",
    "cut_in_time": "chronological",
    "expanding_windows": "chronological",
    "grouped_folds": "grouped",
    "holdout_split": "holdout",
    "evaluate": "metrics",
    "metric_columns": "metrics",
    "metric_name": "metrics",
    "friedman_nemenyi": "ranks",
    "holm": "ranks",
    "wilcoxon_test": "ranks",
    "cross_validate": "selection",
    "ranking": "selection",
    "Split": "splits",
    "inner_splits": "splits",
    "outer_fold": "splits",
    "outer_folds": "splits",
    "stratified_folds": "splits",
    "corrected_t_test": "significance",
    "paired_t_test": "significance",
    "verdict": "significance",
    "second_moment_norm": "sketch_error",
    "second_moment_error": "sketch_error",
    "sketch_errors": "sketch_error",
}

__all__ = [*_HOMES]


def __getattr__(name: str):
    # Printing a table needs the significance tests, but not numba.
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
