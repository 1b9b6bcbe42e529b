"""How one repetition of each kind of protocol is computed: from a :class:`Work` to the outcome of a record."""

from collections.abc import Callable
from typing import Any

from ..work import Work
from .cross_validation import measure_cross_validation
from .curves import measure_convergence, measure_sweep, measure_timing
from .holdout import measure_holdout
from .sketch_error import measure_sketch_error

__all__ = ["MEASURES"]

MEASURES: dict[str, Callable[[Work], dict[str, Any]]] = {
    "cv": measure_cross_validation,
    "holdout": measure_holdout,
    "sweep": measure_sweep,
    "convergence": measure_convergence,
    "timing": measure_timing,
    "sketch_error": measure_sketch_error,
}
