"""Splits, selection, the exact AUC, and significance: arrays in, arrays out."""

from .auc import auc_columns, auc_score
from .selection import Selection, cross_validate, ranking
from .splits import Fold, outer_folds, stratified_folds

__all__ = [
    "Fold",
    "Selection",
    "auc_columns",
    "auc_score",
    "cross_validate",
    "outer_folds",
    "ranking",
    "stratified_folds",
]
