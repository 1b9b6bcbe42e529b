"""Splits, selection, the exact AUC, and significance: arrays in, arrays out."""

from importlib import import_module

_NAMES = {
    "auc": ("auc_columns", "auc_score", "released_auc_columns"),
    "bayes": ("bayesian_t_test", "bayesian_signed_rank_test"),
    "chronological": ("cut_in_time", "expanding_windows"),
    "grouped": ("grouped_folds",),
    "holdout": ("holdout_split",),
    "metrics": ("evaluate", "metric_columns", "metric_name"),
    "ranks": ("friedman_nemenyi", "holm", "wilcoxon_test"),
    "selection": ("cross_validate", "ranking"),
    "splits": ("Split", "inner_splits", "outer_fold", "outer_folds", "stratified_folds"),
    "significance": ("corrected_t_test", "paired_t_test", "verdict"),
    "sketch_error": ("second_moment_norm", "second_moment_error", "sketch_errors"),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}

__all__ = [*_HOMES]


def __getattr__(name: str):
    # Printing a table needs the significance tests, but not numba.
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
