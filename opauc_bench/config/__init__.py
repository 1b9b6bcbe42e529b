"""The experiment file: what to compare, on which data, by which protocol.

`load_experiment` reads a YAML file into a frozen `Experiment`. The caller passes the names of datasets and learners, so
that mistakes in names are reported together with all others.
"""

from .entry import EstimatorEntry, LearnerEntry
from .experiment import Experiment, LatexTable, Limits, Report
from .load import find_config, is_bundled, load_experiment

__all__ = [
    "EstimatorEntry",
    "Experiment",
    "LatexTable",
    "LearnerEntry",
    "Limits",
    "Report",
    "find_config",
    "is_bundled",
    "load_experiment",
]
