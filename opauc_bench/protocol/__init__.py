"""How a number is measured: the protocols that an experiment file may name, as settings and as a list of repetitions.

A protocol knows which repetitions it has, what defines them, and what one of them costs. How one is computed is the
runner's business: ``runner/measures`` has a function for each ``kind``.
"""

from typing import Annotated

from pydantic import Tag

from .curves import Convergence, SketchError, Sweep, Timing
from .section import FIGURE_KINDS, KINDS, SPLIT_KINDS, Section, TrainingCost, scoring_seconds, told_by_kind
from .splits import CrossValidation, Holdout

__all__ = [
    "FIGURE_KINDS",
    "KINDS",
    "SPLIT_KINDS",
    "Convergence",
    "CrossValidation",
    "Holdout",
    "Protocol",
    "Section",
    "SketchError",
    "Sweep",
    "Timing",
    "TrainingCost",
    "scoring_seconds",
]

Protocol = Annotated[
    Annotated[CrossValidation, Tag("cv")]
    | Annotated[Holdout, Tag("holdout")]
    | Annotated[Sweep, Tag("sweep")]
    | Annotated[Convergence, Tag("convergence")]
    | Annotated[Timing, Tag("timing")]
    | Annotated[SketchError, Tag("sketch_error")],
    told_by_kind(KINDS),
]
