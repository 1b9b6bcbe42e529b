"""Reproducible experiments on one-pass AUC optimisation."""

__version__ = "0.1.0"
