"""The experiment file: what to compare, on which data, by which protocol.

`load_experiment` reads a YAML file into a frozen `Experiment`. It knows the schema only; which datasets and learners
exist is told by the caller, so that mistakes in names come out together with all others.
"""

from .entry import LearnerEntry
from .experiment import Experiment, Limits, Report
from .latex import LatexTable
from .load import find_config, load_experiment

__all__ = ["Experiment", "LatexTable", "LearnerEntry", "Limits", "Report", "find_config", "load_experiment"]
