"""Splits, selection, the exact AUC, and significance: arrays in, arrays out."""

from .auc import auc_columns, auc_score, released_auc_columns
from .bayes import bayesian_signed_rank_test, bayesian_t_test
from .chronological import cut_in_time, expanding_windows
from .grouped import grouped_folds
from .holdout import holdout_split
from .metrics import evaluate, metric_name, ranking_metric
from .ranks import friedman_nemenyi, holm, wilcoxon_test
from .selection import cross_validate, ranking
from .significance import corrected_t_test, paired_t_test
from .sketch_error import second_moment_error, second_moment_norm, sketch_errors
from .splits import Split, inner_splits, outer_fold, random_folds

__all__ = [
    "Split",
    "auc_columns",
    "auc_score",
    "bayesian_signed_rank_test",
    "bayesian_t_test",
    "corrected_t_test",
    "cross_validate",
    "cut_in_time",
    "evaluate",
    "expanding_windows",
    "friedman_nemenyi",
    "grouped_folds",
    "holdout_split",
    "holm",
    "inner_splits",
    "metric_name",
    "outer_fold",
    "paired_t_test",
    "random_folds",
    "ranking",
    "ranking_metric",
    "released_auc_columns",
    "second_moment_error",
    "second_moment_norm",
    "sketch_errors",
    "wilcoxon_test",
]
